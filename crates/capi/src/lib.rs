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
mod in_use;
mod memory;
mod options;

pub use error::{gannet_error, gannet_timed_out};
pub use memory::{
    gannet_access, gannet_deregister, gannet_memory, gannet_register, gannet_segment,
    gannet_segment_of,
};
pub use options::{gannet_engine, gannet_options, gannet_options_init, gannet_provider};

use error::{Fault, answer, pointer, reference, text, wait};
use gannet::rdma::{Adapter, FileTarget, RdmaConnection, RdmaListener, ServedFile};
use in_use::{InUse, free_unused};
use std::ffi::{c_char, c_int, c_void};
use std::fs::File;
use std::net::ToSocketAddrs;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

/// The software RNIC, an RDMA device, or both, with a thread of its own.
pub struct gannet_adapter(Adapter);

/// A listening address, from which gannet_accept takes connections.
pub struct gannet_listener(InUse<RdmaListener>);

/// A connection to one peer.
pub struct gannet_connection(InUse<Arc<RdmaConnection>>);

impl From<RdmaConnection> for gannet_connection {
    fn from(connection: RdmaConnection) -> gannet_connection {
        gannet_connection(InUse::new(Arc::new(connection)))
    }
}

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

/// Starts an adapter; options may be null. Null if there is no thread, or the provider needs an RDMA device and there
/// is none.
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
        Ok(gannet_listener(InUse::new(listener)))
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
        Ok(c_int::from(listener.0.enter().local_address().port()))
    })
}

/// Waits for the next peer that connects; null if the listener has failed, or gannet_listener_shutdown ended it.
///
/// # Safety
/// `listener` is of gannet_listen.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gannet_accept(listener: *const gannet_listener) -> *mut gannet_connection {
    pointer(|| {
        // SAFETY: the caller keeps this function's contract.
        let listener = unsafe { reference(listener)? };
        Ok(wait(listener.0.enter().accept())?.into())
    })
}

/// The same, for so many milliseconds at most: then null, and gannet_timed_out is true.
///
/// # Safety
/// `listener` is of gannet_listen.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gannet_accept_within(
    listener: *const gannet_listener,
    milliseconds: u32,
) -> *mut gannet_connection {
    pointer(|| {
        // SAFETY: the caller keeps this function's contract.
        let listener = unsafe { reference(listener)? }.0.enter();
        let accepted = wait(async {
            let time = Duration::from_millis(u64::from(milliseconds));
            let accepted = tokio::time::timeout(time, listener.accept()).await;
            accepted
                .map_err(|_| Fault::timed_out())?
                .map_err(Fault::from)
        });
        Ok(accepted?.into())
    })
}

/// Ends a listener: it accepts no more peers, and calls of gannet_accept in other threads return null. 0, or -1. The
/// listener must still be freed.
///
/// # Safety
/// `listener` is of gannet_listen.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gannet_listener_shutdown(listener: *const gannet_listener) -> c_int {
    answer(|| {
        // SAFETY: the caller keeps this function's contract.
        let listener = unsafe { reference(listener)? }.0.enter();
        wait(async {
            listener.shut_down().await;
            Ok::<_, Fault>(0)
        })
    })
}

/// Ends a listener, and frees it; 0, or -1 while a call in another thread uses it. Then it is not freed: end the call
/// by gannet_listener_shutdown, wait for its thread, and free the listener again.
///
/// # Safety
/// `listener` is null or of gannet_listen, and no call begins to use it any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gannet_listener_free(listener: *mut gannet_listener) -> c_int {
    // SAFETY: the caller keeps this function's contract.
    unsafe { free_unused(listener, |listener| &listener.0) }
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
        Ok(wait(adapter.0.connect(resolve(address)?))?.into())
    })
}

/// Ends a connection, and the calls that wait for it in other threads. Messages that were sent leave before. 0, or -1.
/// The connection must still be freed.
///
/// # Safety
/// `connection` is of gannet_connect or gannet_accept.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gannet_connection_shutdown(connection: *const gannet_connection) -> c_int {
    answer(|| {
        // SAFETY: the caller keeps this function's contract.
        let connection = unsafe { reference(connection)? }.0.enter();
        wait(connection.shut_down())?;
        Ok(0)
    })
}

/// Ends a connection, and frees it; 0, or -1 while a call in another thread uses it. Then it is not freed: end the call
/// by gannet_connection_shutdown, wait for its thread, and free the connection again. Memory that is registered with it
/// keeps it until gannet_deregister.
///
/// # Safety
/// `connection` is null or of gannet_connect or gannet_accept, and no call begins to use it any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gannet_connection_free(connection: *mut gannet_connection) -> c_int {
    // SAFETY: the caller keeps this function's contract.
    unsafe { free_unused(connection, |connection| &connection.0) }
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
        wait(connection.0.enter().send(message))?;
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
    // SAFETY: the caller keeps this function's contract.
    answer(|| unsafe { receive(connection, message, capacity, std::future::pending()) })
}

/// The same, for so many milliseconds at most: then -1, and gannet_timed_out is true. No message is lost.
///
/// # Safety
/// As gannet_receive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gannet_receive_within(
    connection: *const gannet_connection,
    message: *mut c_void,
    capacity: usize,
    milliseconds: u32,
) -> isize {
    // SAFETY: the caller keeps this function's contract.
    answer(|| unsafe { receive(connection, message, capacity, error::after(milliseconds)) })
}

/// The bytes of the next message that comes before `stop` ends.
///
/// # Safety
/// As [`gannet_receive`].
unsafe fn receive(
    connection: *const gannet_connection,
    message: *mut c_void,
    capacity: usize,
    stop: impl Future<Output = ()>,
) -> Result<isize, Fault> {
    // SAFETY: the caller keeps this function's contract.
    let (connection, target) = unsafe {
        (
            reference(connection)?,
            error::bytes_mut(message.cast(), capacity)?,
        )
    };
    let received = wait(connection.0.enter().receive_unless(stop))?;
    let received = received.ok_or_else(Fault::timed_out)?;
    let count = received.len().min(target.len());
    target[..count].copy_from_slice(&received[..count]);
    Ok(isize::try_from(received.len()).unwrap_or(isize::MAX))
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
        let done = wait(connection.0.enter().send_file(&file, offset, len, target))?;
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
