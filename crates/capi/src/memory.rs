//! Memory of a C program that a peer may reach.

use crate::error::{Fault, answer, pointer, reference, wait};
use crate::gannet_connection;
use gannet::Buffer;
use gannet::rdma::{Access, RdmaConnection, RegisteredMemory, RemoteSegment};
use std::ffi::{c_int, c_void};
use std::sync::Arc;

/// The address of registered memory, which the program sends to its peer in a message.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct gannet_segment {
    /// The key (STag).
    pub key: u32,
    /// The first byte, in the offsets of that key.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
}

impl From<gannet_segment> for RemoteSegment {
    fn from(segment: gannet_segment) -> RemoteSegment {
        let gannet_segment { key, offset, len } = segment;
        RemoteSegment { key, offset, len }
    }
}

/// The access that a peer has to memory.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum gannet_access {
    /// RDMA Read from it.
    GANNET_REMOTE_READ,
    /// RDMA Write to it, as gannet_sendfile of the peer needs.
    GANNET_REMOTE_WRITE,
    /// Both.
    GANNET_REMOTE_READ_WRITE,
}

/// Memory that is registered for a connection's peer.
pub struct gannet_memory {
    registered: RegisteredMemory,
    /// Keeps the connection until the memory is deregistered: its adapter could reach the memory until then.
    connection: Arc<RdmaConnection>,
}

/// Memory that the program owns, from gannet_register to gannet_deregister.
struct ProgramMemory {
    first: *mut u8,
    len: usize,
}

// SAFETY: by the contract of gannet_register no thread of the program writes, frees or unmaps it until deregistration.
unsafe impl Send for ProgramMemory {}
// SAFETY: as above; through a shared reference it is only read.
unsafe impl Sync for ProgramMemory {}

impl AsRef<[u8]> for ProgramMemory {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: gannet_register's contract: `first` has `len` bytes until deregistration.
        unsafe { std::slice::from_raw_parts(self.first, self.len) }
    }
}

impl AsMut<[u8]> for ProgramMemory {
    fn as_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `as_ref`.
        unsafe { std::slice::from_raw_parts_mut(self.first, self.len) }
    }
}

/// Registers memory of the program for a connection's peer, without copying it; `access` is one of gannet_access. Until
/// gannet_deregister the program neither writes nor frees nor unmaps it. Registrations are not cached: a key ends with
/// gannet_deregister.
///
/// # Safety
/// `connection` is of gannet_connect or gannet_accept, `memory` has `len` bytes, and the program keeps to the above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gannet_register(
    connection: *const gannet_connection,
    memory: *mut c_void,
    len: usize,
    access: c_int,
) -> *mut gannet_memory {
    pointer(|| {
        // SAFETY: the caller keeps this function's contract.
        let connection = unsafe { reference(connection)? };
        let first = memory.cast::<u8>();
        // SAFETY: the caller keeps this function's contract.
        let lent = match unsafe { crate::error::bytes_mut(first, len)? } {
            [] => Buffer::zeroed(0),
            _ => Buffer::from_lent(ProgramMemory { first, len }),
        };
        let rights = [
            (gannet_access::GANNET_REMOTE_READ, Access::RemoteRead),
            (gannet_access::GANNET_REMOTE_WRITE, Access::RemoteWrite),
            (
                gannet_access::GANNET_REMOTE_READ_WRITE,
                Access::RemoteReadWrite,
            ),
        ];
        let mut rights = rights.into_iter();
        let found = rights.find(|(number, _)| *number as c_int == access);
        let (_, access) = found.ok_or_else(|| Fault::new("access is one of gannet_access"))?;
        let connection = connection.0.enter();
        let registered = wait(connection.register(lent, access))?;
        Ok(gannet_memory {
            registered,
            connection: Arc::clone(&connection),
        })
    })
}

/// Where the peer finds registered memory; 0, or -1.
///
/// # Safety
/// `memory` is of gannet_register, `segment` has room.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gannet_segment_of(
    memory: *const gannet_memory,
    segment: *mut gannet_segment,
) -> c_int {
    answer(|| {
        // SAFETY: the caller keeps this function's contract.
        let (memory, target) = unsafe { (reference(memory)?, segment.as_mut()) };
        let target = target.ok_or_else(|| Fault::new("a null pointer"))?;
        let RemoteSegment { key, offset, len } = memory.registered.segment();
        *target = gannet_segment { key, offset, len };
        Ok(0)
    })
}

/// Revokes the key of registered memory, and waits until the memory is the program's again; 0, or -1: then a peer may
/// reach it for as long as this process lives.
///
/// # Safety
/// `memory` is of gannet_register, and not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gannet_deregister(memory: *mut gannet_memory) -> c_int {
    answer(|| {
        // SAFETY: the caller keeps this function's contract.
        unsafe { reference(memory)? };
        // SAFETY: the caller keeps this function's contract.
        let memory = unsafe { Box::from_raw(memory) };
        let gannet_memory {
            registered,
            connection,
        } = *memory;
        let taken = wait(registered.take_back());
        drop(connection);
        taken.map(|buffer| {
            drop(buffer);
            0
        })
    })
}
