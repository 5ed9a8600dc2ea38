//! A region of the protection table, with the powers of [`SoftwareRegion`].

use crate::memory_map::MemoryMap;
use crate::table::TableState;
use gannet_fabric::{
    Access, AccessError, Backing, DeregisterError, LocalKey, MapRegion, MemoryRegion, RemoteKey,
    Revocation, Scope, SoftwareRegion,
};
use gannet_runtime::{Buffer, FileRef};
use std::any::Any;
use std::cell::{Cell, Ref, RefCell, RefMut};
use std::fmt;
use std::rc::{Rc, Weak};

/// A region of a [`ProtectionTable`](crate::ProtectionTable): memory, a range of a file, or a map of buffers. Revoking
/// takes effect at once; the last drop revokes too.
pub struct TableRegion {
    pub(crate) key: RemoteKey,
    /// The tagged offset of the first byte.
    pub(crate) base: u64,
    pub(crate) len: u64,
    /// The rights that it was registered for, and the part of them that is granted now, with the connections.
    pub(crate) registered: Access,
    pub(crate) granted: Cell<(Access, Scope)>,
    /// `None` while it is moved out by [`MemoryRegion::lend`], and after [`MemoryRegion::deregister`].
    pub(crate) memory: RefCell<Option<Memory>>,
    /// False once revoked, for ever. The flag and not the table decides, because holders of an `Rc` that looked the
    /// region up before do not ask the table again.
    pub(crate) valid: Cell<bool>,
    pub(crate) table: Weak<TableState>,
}

/// Finds the table's region behind a region of a provider that has a type of its own.
pub type FindRegion = fn(&dyn MemoryRegion) -> Option<&TableRegion>;

/// The backing of a region.
pub(crate) enum Memory {
    Buffer(Buffer),
    File {
        file: FileRef,
        offset: u64,
        len: u64,
    },
    Map(MemoryMap),
}

impl From<Backing> for Memory {
    fn from(backing: Backing) -> Memory {
        match backing {
            Backing::Buffer(buffer) => Memory::Buffer(buffer),
            Backing::File { file, offset, len } => Memory::File { file, offset, len },
            Backing::Map => Memory::Map(MemoryMap::new()),
        }
    }
}

impl Memory {
    /// Its length in bytes; of a map, the bytes that its offsets can name.
    pub(crate) fn len(&self) -> u64 {
        match self {
            Memory::Buffer(buffer) => buffer.len() as u64,
            Memory::File { len, .. } => *len,
            Memory::Map(_) => MemoryMap::SPAN,
        }
    }

    /// Bytes that the registration pins.
    pub(crate) fn held(&self) -> u64 {
        match self {
            Memory::Buffer(_) | Memory::File { .. } => self.len(),
            Memory::Map(map) => map.held(),
        }
    }

    fn bytes(&self, offset: u64, len: usize) -> Option<&[u8]> {
        match self {
            Memory::Buffer(buffer) => {
                let start = usize::try_from(offset).ok()?;
                buffer.get(start..start.checked_add(len)?)
            }
            Memory::Map(map) => map.bytes(offset, len),
            Memory::File { .. } => None,
        }
    }

    fn bytes_mut(&mut self, offset: u64, len: usize) -> Option<&mut [u8]> {
        match self {
            Memory::Buffer(buffer) => {
                let start = usize::try_from(offset).ok()?;
                buffer.get_mut(start..start.checked_add(len)?)
            }
            Memory::Map(map) => map.bytes_mut(offset, len),
            Memory::File { .. } => None,
        }
    }
}

impl TableRegion {
    /// The table region behind `region`; `None` when another kind of provider made it.
    pub fn of(region: &dyn MemoryRegion) -> Option<&TableRegion> {
        (region as &dyn Any).downcast_ref()
    }

    /// As [`TableRegion::of`], as a shared reference.
    pub fn shared(region: Rc<dyn MemoryRegion>) -> Option<Rc<TableRegion>> {
        (region as Rc<dyn Any>).downcast().ok()
    }

    /// True when it is memory, moved out or not, and not a file range.
    pub fn is_memory(&self) -> bool {
        self.file().is_none()
    }

    /// The file behind the region and the offset of the region in it; `None` for memory.
    pub fn file(&self) -> Option<(FileRef, u64)> {
        match self.memory.borrow().as_ref() {
            Some(Memory::File { file, offset, .. }) => Some((FileRef::clone(file), *offset)),
            _ => None,
        }
    }

    /// Checks an access of `len` bytes at `offset` from the start of the region (for our own operations).
    ///
    /// # Errors
    /// [`AccessError::InvalidKey`] for a revoked region or one whose memory is moved out, [`AccessError::Wrap`],
    /// [`AccessError::Bounds`].
    pub fn check_local(&self, offset: u64, len: u64) -> Result<(), AccessError> {
        if !self.valid.get() || self.memory.borrow().is_none() {
            return Err(AccessError::InvalidKey);
        }
        self.check_bounds(offset, len)
    }

    pub(crate) fn check_bounds(&self, offset: u64, len: u64) -> Result<(), AccessError> {
        let end = offset.checked_add(len).ok_or(AccessError::Wrap)?;
        if end > self.len {
            return Err(AccessError::Bounds);
        }
        match self.memory.borrow().as_ref() {
            Some(Memory::Map(map)) => {
                let len = usize::try_from(len).map_err(|_| AccessError::Bounds)?;
                map.bytes(offset, len).map(drop).ok_or(AccessError::Bounds)
            }
            _ => Ok(()),
        }
    }

    fn held(&self) -> u64 {
        match self.memory.borrow().as_ref() {
            Some(memory) => memory.held(),
            // Moved out: the registration still pins it.
            None => self.len,
        }
    }

    fn count_held(&self, change: impl FnOnce(u64) -> u64) {
        if let Some(table) = self.table.upgrade() {
            table.count_held(change);
        }
    }

    /// Revokes the key, once: `deregister`, `invalidate` and the drop may follow each other, and the counters must
    /// count one.
    fn revoke(&self) {
        if self.valid.replace(false)
            && let Some(table) = self.table.upgrade()
        {
            table.retire(self.key, self.held());
        }
    }
}

impl MemoryRegion for TableRegion {
    fn local_key(&self) -> LocalKey {
        LocalKey(self.key.0)
    }

    fn remote_key(&self) -> RemoteKey {
        self.key
    }

    fn base(&self) -> u64 {
        self.base
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn is_valid(&self) -> bool {
        self.valid.get()
    }

    fn invalidate(&self) -> Revocation<()> {
        self.revoke();
        Revocation::Ready(())
    }

    fn deregister(&self) -> Revocation<Result<Option<Buffer>, DeregisterError>> {
        // Before the memory is taken: `revoke` counts its bytes.
        self.revoke();
        Revocation::Ready(Ok(match self.memory.borrow_mut().take() {
            Some(Memory::Buffer(buffer)) => Some(buffer),
            _ => None,
        }))
    }

    fn lend(&self) -> Option<Buffer> {
        let mut memory = self.memory.borrow_mut();
        match memory.take() {
            Some(Memory::Buffer(buffer)) => Some(buffer),
            other => {
                *memory = other;
                None
            }
        }
    }

    fn restore(&self, buffer: Buffer) -> Result<(), Buffer> {
        let mut memory = self.memory.borrow_mut();
        if !self.valid.get() || memory.is_some() || buffer.len() as u64 != self.len {
            return Err(buffer);
        }
        *memory = Some(Memory::Buffer(buffer));
        Ok(())
    }

    fn software(&self) -> Option<&dyn SoftwareRegion> {
        Some(self)
    }

    fn map(&self) -> Option<&dyn MapRegion> {
        let is_map = matches!(*self.memory.borrow(), Some(Memory::Map(_)));
        is_map.then_some(self)
    }
}

impl MapRegion for TableRegion {
    fn place(&self, buffer: Buffer) -> Result<u64, Buffer> {
        if !self.valid.get() {
            return Err(buffer);
        }
        let len = buffer.len() as u64;
        let placed = match self.memory.borrow_mut().as_mut() {
            Some(Memory::Map(map)) => map.place(buffer)?,
            _ => return Err(buffer),
        };
        self.count_held(|held| held + len);
        Ok(placed)
    }

    fn displace(&self, offset: u64) -> Option<Buffer> {
        let displaced = match self.memory.borrow_mut().as_mut() {
            Some(Memory::Map(map)) => map.displace(offset),
            _ => None,
        }?;
        if self.valid.get() {
            let len = displaced.len() as u64;
            self.count_held(|held| held.saturating_sub(len));
        }
        Some(displaced)
    }
}

impl SoftwareRegion for TableRegion {
    fn restrict(&self, access: Access, scope: Scope) -> bool {
        let covers = self.registered == access
            || self.registered == Access::RemoteReadWrite
            || access == Access::Local;
        if covers {
            self.granted.set((access, scope));
        }
        covers
    }

    fn bytes(&self, offset: u64, len: usize) -> Option<Ref<'_, [u8]>> {
        Ref::filter_map(self.memory.borrow(), |memory| {
            memory.as_ref()?.bytes(offset, len)
        })
        .ok()
    }

    fn bytes_mut(&self, offset: u64, len: usize) -> Option<RefMut<'_, [u8]>> {
        RefMut::filter_map(self.memory.borrow_mut(), |memory| {
            memory.as_mut()?.bytes_mut(offset, len)
        })
        .ok()
    }
}

impl fmt::Debug for TableRegion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableRegion")
            .field("key", &self.key)
            .field("len", &self.len)
            .field("access", &self.granted.get().0)
            .field("valid", &self.valid.get())
            .finish_non_exhaustive()
    }
}

impl Drop for TableRegion {
    fn drop(&mut self) {
        self.revoke();
    }
}
