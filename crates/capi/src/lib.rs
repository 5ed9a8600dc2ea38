//! The C interface: messages, registered memory and files over RDMA, as [`gannet::rdma`] has them.
//!
//! Functions block, and may be called from any thread; a connection serves one caller after the other. A function that
//! fails returns a null pointer or -1, and `gannet_error` gives the reason of this thread's last failure. cbindgen
//! writes `include/gannet.h` from this file and its modules.
//!
//! This crate only converts C's pointers to values and back.

#![allow(unsafe_code, non_camel_case_types)]
#![deny(unsafe_op_in_unsafe_fn)]

mod error;
mod memory;
mod options;

pub use error::gannet_error;
pub use memory::{
    gannet_access, gannet_deregister, gannet_memory, gannet_register, gannet_segment,
    gannet_segment_of,
};
pub use options::{gannet_engine, gannet_options, gannet_options_init};

use error::{Fault, answer, pointer, reference, text, wait};
use gannet::rdma::{Adapter, FileTarget, RdmaConnection, RdmaListener, ServedFile};
use std::ffi::{c_char, c_int, c_void};
use std::fs::File;
use std::net::ToSocketAddrs;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// A software RNIC with a thread of its own.
pub struct gannet_adapter(Adapter);

/// A listening address, from which gannet_accept takes connections.
pub struct gannet_listener(RdmaListener);

/// A connection to one peer.
pub struct gannet_connection(Arc<RdmaConnection>);

/// The totals of a connection's calls of gannet_sendfile so far.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct gannet_counts {
    /// Bytes sent.
    pub bytes: u64,
    /// Bytes that were copied to memory of this process on their way.
    pub copied_bytes: u64,
    /// Registrations made.
    pub registrations: u64,
    /// Work requests posted.
    pub work: u64,
    /// The most memory that pieces under way took together, in bytes.
    pub memory_peak: u64,
}

/// Starts an adapter; options may be null. Null if there is no thread.
///
/// # Safety
/// `options` is null or was set by gannet_options_init.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gannet_adapter_start(
    options: *const gannet_options,
) -> *mut gannet_adapter {
    pointer(|| {
        // SAFETY: the caller keeps this function's contract.
        let options = unsafe { options.as_ref() };
        let options = options.copied().unwrap_or_default();
        let adapter = wait(Adapter::start(options.checked()?))?;
        Ok(gannet_adapter(adapter))
    })
}

/// Frees an adapter; its listeners and connections go on.
///
/// # Safety
/// `adapter` is null or of gannet_adapter_start, and not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gannet_adapter_free(adapter: *mut gannet_adapter) {
    // SAFETY: the caller keeps this function's contract.
    unsafe { error::free(adapter) }
}

/// Listens at an address, as `127.0.0.1:0` or `[::]:4000`; port 0 picks a free one.
///
/// # Safety
/// `adapter` is of gannet_adapter_start, `address` a string that ends with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gannet_listen(
    adapter: *const gannet_adapter,
    address: *const c_char,
) -> *mut gannet_listener {
    pointer(|| {
        // SAFETY: the caller keeps this function's contract.
        let (adapter, address) = unsafe { (reference(adapter)?, text(address)?) };
        let listener = wait(adapter.0.listen(resolve(address)?))?;
        Ok(gannet_listener(listener))
    })
}

/// The port that a listener listens at; -1 for a null pointer.
///
/// # Safety
/// `listener` is null or of gannet_listen.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gannet_listener_port(listener: *const gannet_listener) -> c_int {
    answer(|| {
        // SAFETY: the caller keeps this function's contract.
        let listener = unsafe { reference(listener)? };
        Ok(c_int::from(listener.0.local_address().port()))
    })
}

/// Waits for the next peer that connects; null if the listener has failed.
///
/// # Safety
/// `listener` is of gannet_listen.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gannet_accept(listener: *const gannet_listener) -> *mut gannet_connection {
    pointer(|| {
        // SAFETY: the caller keeps this function's contract.
        let listener = unsafe { reference(listener)? };
        Ok(gannet_connection(Arc::new(wait(listener.0.accept())?)))
    })
}

/// Ends a listener: it accepts no more peers.
///
/// # Safety
/// `listener` is null or of gannet_listen, and not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gannet_listener_free(listener: *mut gannet_listener) {
    // SAFETY: the caller keeps this function's contract.
    unsafe { error::free(listener) }
}

/// Connects to an address, `host:port`. The connecting side sends the first message.
///
/// # Safety
/// `adapter` is of gannet_adapter_start, `address` a string that ends with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gannet_connect(
    adapter: *const gannet_adapter,
    address: *const c_char,
) -> *mut gannet_connection {
    pointer(|| {
        // SAFETY: the caller keeps this function's contract.
        let (adapter, address) = unsafe { (reference(adapter)?, text(address)?) };
        let connection = wait(adapter.0.connect(resolve(address)?))?;
        Ok(gannet_connection(Arc::new(connection)))
    })
}

/// Ends a connection. Memory that is registered with it keeps it until gannet_deregister.
///
/// # Safety
/// `connection` is null or of gannet_connect or gannet_accept, and not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gannet_connection_free(connection: *mut gannet_connection) {
    // SAFETY: the caller keeps this function's contract.
    unsafe { error::free(connection) }
}

/// Sends a message; 0, or -1. Does not wait for the peer.
///
/// # Safety
/// `connection` is of gannet_connect or gannet_accept, `message` has `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gannet_send(
    connection: *const gannet_connection,
    message: *const c_void,
    len: usize,
) -> c_int {
    answer(|| {
        // SAFETY: the caller keeps this function's contract.
        let (connection, message) = unsafe {
            (
                reference(connection)?,
                error::slice(message.cast::<u8>(), len)?,
            )
        };
        wait(connection.0.send(message))?;
        Ok(0)
    })
}

/// Waits for the next message, and copies it to `message`; its bytes, or -1 when the connection has ended. A message
/// that is longer than `capacity` is cut, and its whole length returned.
///
/// # Safety
/// `connection` is of gannet_connect or gannet_accept, `message` has `capacity` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gannet_receive(
    connection: *const gannet_connection,
    message: *mut c_void,
    capacity: usize,
) -> isize {
    answer(|| {
        // SAFETY: the caller keeps this function's contract.
        let (connection, target) = unsafe {
            (
                reference(connection)?,
                error::bytes_mut(message.cast(), capacity)?,
            )
        };
        let received = wait(connection.0.receive())?;
        let count = received.len().min(target.len());
        target[..count].copy_from_slice(&received[..count]);
        Ok(isize::try_from(received.len()).unwrap_or(isize::MAX))
    })
}

/// Sends `len` bytes of an open file from `offset` on to segments of the peer's memory, and waits until they have left;
/// 0, or -1. The file need be open for reading only, and is not read into memory where the engine can do without.
/// A message sent after it arrives after it. Bytes behind the end of the file come as zeros. `counts` may be null.
///
/// # Safety
/// `connection` is of gannet_connect or gannet_accept, `file` is open, `segments` has `segment_count` of them, `counts`
/// is null or has room.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gannet_sendfile(
    connection: *const gannet_connection,
    file: c_int,
    offset: u64,
    len: usize,
    segments: *const gannet_segment,
    segment_count: usize,
    counts: *mut gannet_counts,
) -> c_int {
    answer(|| {
        if file < 0 {
            return Err(Fault::new("a file descriptor is not negative"));
        }
        // SAFETY: the caller keeps this function's contract.
        let (connection, segments, file) = unsafe {
            (
                reference(connection)?,
                error::slice(segments, segment_count)?,
                BorrowedFd::borrow_raw(file),
            )
        };
        let file = ServedFile::from(File::from(file.try_clone_to_owned()?));
        let segments = segments.iter().map(|segment| (*segment).into());
        let target = FileTarget::Memory(segments.collect());
        let done = wait(connection.0.send_file(&file, offset, len, target))?;
        // SAFETY: the caller keeps this function's contract.
        if let Some(counts) = unsafe { counts.as_mut() } {
            *counts = gannet_counts {
                bytes: done.bytes,
                copied_bytes: done.copied_bytes,
                registrations: done.registrations.registrations,
                work: done.work,
                memory_peak: done.memory_peak as u64,
            };
        }
        Ok(0)
    })
}

fn resolve(address: &str) -> Result<std::net::SocketAddr, Fault> {
    let mut addresses = address.to_socket_addrs()?;
    addresses
        .next()
        .ok_or_else(|| Fault::new("the host has no address"))
}
