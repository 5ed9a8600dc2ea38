//! Registered memory: regions, and slots for messages.

use super::bindings::{
    self, ACCESS_LOCAL_WRITE, ACCESS_MW_BIND, ACCESS_ON_DEMAND, ACCESS_REMOTE_READ,
    ACCESS_REMOTE_WRITE, Sge,
};
use super::device::ProtectionDomain;
use gannet_fabric::Access;
use gannet_runtime::Buffer;
use memmap2::{Mmap, MmapOptions};
use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A registration of memory that its holder owns.
///
/// The holder keeps the memory until this is deregistered: the device reaches it until then.
pub(crate) struct Registration {
    pub(super) raw: NonNull<bindings::Mr>,
    pub(super) domain: Arc<ProtectionDomain>,
    pub(super) address: u64,
    pub(super) len: usize,
    ended: bool,
}

/// The rules for the registrations of memory of the protocols. The default is that for the provider's own memory.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RegistrationRules {
    /// Memory without rights for peers gets the peer's right to write: iWARP adapters demand it of the sinks of RDMA
    /// Reads.
    pub(crate) sinks_need_write: bool,
    /// The device fetches pages when it needs them (on-demand paging), so they are not pinned. The device must have it
    /// ([`DeviceContext::pages_on_demand`]).
    ///
    /// [`DeviceContext::pages_on_demand`]: super::device::DeviceContext::pages_on_demand
    pub(crate) on_demand: bool,
}

// SAFETY: libibverbs allows a deregistration from any thread.
unsafe impl Send for Registration {}
// SAFETY: shared access reads numbers alone.
unsafe impl Sync for Registration {}

impl Registration {
    /// Registers `memory`.
    ///
    /// # Errors
    /// The device's table is full, or the process may not lock that much memory.
    pub(crate) fn new(
        domain: &Arc<ProtectionDomain>,
        memory: &mut [u8],
        access: Access,
        rules: RegistrationRules,
    ) -> io::Result<Registration> {
        let mut flags = ACCESS_LOCAL_WRITE | flags_of(access);
        if access == Access::Local && rules.sinks_need_write {
            flags |= ACCESS_REMOTE_WRITE;
        }
        if rules.on_demand {
            flags |= ACCESS_ON_DEMAND;
        }
        if domain.has_windows {
            flags |= ACCESS_MW_BIND;
        }
        Registration::at(domain, memory.as_mut_ptr(), memory.len(), flags)
    }

    /// Registers `len` bytes at `address`, which the caller keeps as long as the registration.
    fn at(
        domain: &Arc<ProtectionDomain>,
        address: *mut u8,
        len: usize,
        flags: c_int,
    ) -> io::Result<Registration> {
        let register = domain.device.library.functions.ibv_reg_mr;
        // SAFETY: the kernel looks whether the range is memory of this process.
        let raw = unsafe { register(domain.raw.as_ptr(), address.cast(), len, flags) };
        Ok(Registration {
            raw: NonNull::new(raw).ok_or_else(io::Error::last_os_error)?,
            domain: Arc::clone(domain),
            address: address as u64,
            len,
            ended: false,
        })
    }

    /// The key for our own work.
    pub(crate) fn local_key(&self) -> u32 {
        // SAFETY: the registration lives until `deregister`.
        unsafe { self.raw.as_ref().lkey }
    }

    /// The key for peers.
    pub(crate) fn remote_key(&self) -> u32 {
        // SAFETY: as in `local_key`.
        unsafe { self.raw.as_ref().rkey }
    }

    /// The address of the first byte.
    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    /// `len` bytes at `offset`, for work; `None` outside the memory.
    pub(crate) fn piece(&self, offset: u64, len: u32) -> Option<Piece> {
        let end = offset.checked_add(u64::from(len))?;
        (end <= self.len as u64).then(|| {
            Piece(Sge {
                addr: self.address + offset,
                length: len,
                lkey: self.local_key(),
            })
        })
    }

    /// Ends the registration: after success the device reaches the memory no more. It may take milliseconds for long
    /// memory.
    ///
    /// # Errors
    /// The device refused; it may reach the memory for ever.
    pub(crate) fn deregister(mut self) -> io::Result<()> {
        self.end()
    }

    fn end(&mut self) -> io::Result<()> {
        if std::mem::replace(&mut self.ended, true) {
            return Ok(());
        }
        let deregister = self.domain.device.library.functions.ibv_dereg_mr;
        // SAFETY: it was registered, and the flag above lets this happen once.
        super::device::check(unsafe { deregister(self.raw.as_ptr()) })
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            tracing::error!(%error, "a registration could not be taken back");
        }
    }
}

/// Pages of a file, registered to be read by the device. Neither this process nor a peer's request touches them.
pub(crate) struct MappedFile {
    // Deregistered before the mapping goes: fields are dropped in their order.
    registration: Registration,
    _pages: Mmap,
}

impl MappedFile {
    /// Maps `len` bytes at `offset` and registers them. May wait for the disk.
    ///
    /// # Errors
    /// The file does not reach so far, or the kernel registers no mappings of files.
    pub(crate) fn new(
        domain: &Arc<ProtectionDomain>,
        file: BorrowedFd<'_>,
        offset: u64,
        len: u32,
    ) -> io::Result<MappedFile> {
        let mut options = MmapOptions::new();
        let options = options.offset(offset).len(len as usize);
        // A shared mapping: a private one would be copied. It is only read: pages that could be written would become
        // dirty with the registration.
        // SAFETY: no reference to the bytes is made, so that they may change, and end before the mapping does.
        let pages = unsafe { options.map(file.as_raw_fd())? };
        let registration = Registration::at(domain, pages.as_ptr().cast_mut(), pages.len(), 0)?;
        Ok(MappedFile {
            registration,
            _pages: pages,
        })
    }

    /// The first `len` bytes, for work; `None` beyond them.
    pub(crate) fn piece(&self, len: u32) -> Option<Piece> {
        self.registration.piece(0, len)
    }
}

/// The rights of peers.
pub(super) fn flags_of(access: Access) -> c_int {
    match access {
        Access::Local => 0,
        Access::RemoteRead => ACCESS_REMOTE_READ,
        Access::RemoteWrite => ACCESS_REMOTE_WRITE,
        Access::RemoteReadWrite => ACCESS_REMOTE_READ | ACCESS_REMOTE_WRITE,
    }
}

/// A piece of registered memory, or of memory that is copied when it is posted, for one work request.
#[derive(Clone, Copy)]
pub(crate) struct Piece(pub(super) Sge);

impl Piece {
    /// Bytes that the post copies. The caller keeps them until then.
    pub(crate) fn inline(bytes: &[u8]) -> Option<Piece> {
        Some(Piece(Sge {
            addr: bytes.as_ptr() as u64,
            length: u32::try_from(bytes.len()).ok()?,
            lkey: 0,
        }))
    }

    pub(crate) fn len(self) -> u32 {
        self.0.length
    }
}

/// Slots of registered memory, all of one length.
pub(crate) struct Chunk {
    slot_len: usize,
    /// The address of the first slot, in memory that `memory` owns.
    start: NonNull<u8>,
    free: Mutex<Vec<u32>>,
    /// Slots in use, of this chunk and of its siblings.
    taken: Arc<AtomicUsize>,
    // Deregistered before the memory goes: fields are dropped in their order.
    registration: Registration,
    _memory: Buffer,
}

// SAFETY: each slot is handed to one owner at a time, by the list of free ones behind the mutex.
unsafe impl Send for Chunk {}
// SAFETY: as above.
unsafe impl Sync for Chunk {}

impl Chunk {
    /// `slots` slots of `slot_len` bytes (at least 1 each). `taken` counts those in use.
    ///
    /// # Errors
    /// As [`Registration::new`].
    pub(crate) fn new(
        domain: &Arc<ProtectionDomain>,
        slot_len: usize,
        slots: u32,
        taken: &Arc<AtomicUsize>,
    ) -> io::Result<Arc<Chunk>> {
        let too_long = || io::Error::from(io::ErrorKind::InvalidInput);
        let len = slot_len.checked_mul(slots as usize).ok_or_else(too_long)?;
        let mut memory = Buffer::zeroed(len.max(1));
        let registration = Registration::new(
            domain,
            &mut memory,
            Access::Local,
            RegistrationRules::default(),
        )?;
        let start = NonNull::new(memory.as_mut_ptr()).ok_or_else(too_long)?;
        Ok(Arc::new(Chunk {
            slot_len,
            start,
            free: Mutex::new((0..slots).rev().collect()),
            taken: Arc::clone(taken),
            registration,
            _memory: memory,
        }))
    }

    /// An unused slot.
    pub(crate) fn take(self: &Arc<Chunk>) -> Option<Slot> {
        let index = self.free().pop()?;
        self.taken.fetch_add(1, Ordering::Relaxed);
        let chunk = Arc::clone(self);
        Some(Slot { chunk, index })
    }

    /// True when no slot is in use. Its owner alone may give out slots meanwhile.
    pub(crate) fn is_unused(&self, slots: u32) -> bool {
        self.free().len() == slots as usize
    }

    fn free(&self) -> MutexGuard<'_, Vec<u32>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One slot, which goes back to its chunk when it is dropped.
pub(crate) struct Slot {
    chunk: Arc<Chunk>,
    index: u32,
}

impl Slot {
    fn offset(&self) -> usize {
        self.index as usize * self.chunk.slot_len
    }

    /// The first `len` bytes, for work; `None` beyond the slot.
    pub(crate) fn piece(&self, len: u32) -> Option<Piece> {
        if len as usize > self.chunk.slot_len {
            return None;
        }
        self.chunk.registration.piece(self.offset() as u64, len)
    }
}

impl AsRef<[u8]> for Slot {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the slot lies in the chunk's memory, which lives as long; the list of free slots gives it to one
        // owner at a time. An owner that posts the slot does not look at it until its completion.
        unsafe {
            let start = self.chunk.start.as_ptr().add(self.offset());
            std::slice::from_raw_parts(start, self.chunk.slot_len)
        }
    }
}

impl AsMut<[u8]> for Slot {
    fn as_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `as_ref`.
        unsafe {
            let start = self.chunk.start.as_ptr().add(self.offset());
            std::slice::from_raw_parts_mut(start, self.chunk.slot_len)
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.chunk.free().push(self.index);
        self.chunk.taken.fetch_sub(1, Ordering::Relaxed);
    }
}
