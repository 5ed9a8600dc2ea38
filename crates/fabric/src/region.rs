//! Registered memory: who may touch which bytes, by which key, for how long.

mod table;

pub use table::ProtectionTable;

use crate::{MemoryMap, RegisterError};
use gannet_runtime::{Buffer, FileRef};
use std::cell::{Cell, Ref, RefCell};
use std::fmt;
use std::rc::{Rc, Weak};
use table::TableState;
use thiserror::Error;

/// The 32-bit key by which a peer names a region: STag in iWARP, rkey in verbs, handle in RPC/RDMA. Never zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RemoteKey(pub u32);

impl fmt::Debug for RemoteKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

/// One connection of one provider, never reused: the epoch a key is bound to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EndpointId(pub u64);

/// What a peer may do with a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Nothing: a source or sink of our own operations only.
    Local,
    /// RDMA Read from it.
    RemoteRead,
    /// RDMA Write to it.
    RemoteWrite,
    /// Both.
    RemoteReadWrite,
}

/// Which connections may use a region's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// This connection alone; the key dies with it.
    Endpoint(EndpointId),
    /// Every connection of the domain. No peer can revoke it by a Send with Invalidate.
    Domain,
}

/// What lies behind a region.
pub enum Backing {
    /// Memory; moved in, given back by [`Region::deregister`].
    Buffer(Buffer),
    /// A range of a file in the page cache: can be read, not written.
    File {
        /// The file.
        file: FileRef,
        /// Where the range starts, in bytes from the start of the file.
        offset: u64,
        /// Bytes in the range.
        len: u64,
    },
    /// Buffers that come and go under one key; see [`Region::place`].
    Map(MemoryMap),
}

impl Backing {
    /// Bytes behind it; of a map, the bytes that its offsets can name.
    pub fn len(&self) -> u64 {
        match self {
            Backing::Buffer(buffer) => buffer.len() as u64,
            Backing::File { len, .. } => *len,
            Backing::Map(_) => MemoryMap::SPAN,
        }
    }

    /// Bytes that are bound by the registration.
    fn held(&self) -> u64 {
        match self {
            Backing::Buffer(_) | Backing::File { .. } => self.len(),
            Backing::Map(map) => map.held(),
        }
    }

    fn bytes(&self, offset: u64, len: usize) -> Option<&[u8]> {
        match self {
            Backing::Buffer(buffer) => {
                let start = usize::try_from(offset).ok()?;
                buffer.get(start..start.checked_add(len)?)
            }
            Backing::Map(map) => map.bytes(offset, len),
            Backing::File { .. } => None,
        }
    }

    fn bytes_mut(&mut self, offset: u64, len: usize) -> Option<&mut [u8]> {
        match self {
            Backing::Buffer(buffer) => {
                let start = usize::try_from(offset).ok()?;
                buffer.get_mut(start..start.checked_add(len)?)
            }
            Backing::Map(map) => map.bytes_mut(offset, len),
            Backing::File { .. } => None,
        }
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What an access wants to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessKind {
    /// Read the region's bytes for a peer.
    RemoteRead,
    /// Write bytes that a peer sent.
    RemoteWrite,
    /// Use as a source or sink of our own operation.
    Local,
    /// Revoke it on the peer's word (Send with Invalidate).
    Invalidate,
}

/// Why an access was refused. The provider maps it to its protocol's code (RFC 5040 section 7, RFC 5041 section 8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum AccessError {
    /// No such key, or one that was revoked.
    #[error("invalid key")]
    InvalidKey,
    /// The key belongs to another connection.
    #[error("key of another connection")]
    WrongEndpoint,
    /// The region does not grant this right.
    #[error("access right missing")]
    Rights,
    /// Outside the region.
    #[error("out of bounds")]
    Bounds,
    /// Offset plus length passes 2^64.
    #[error("offset wraps")]
    Wrap,
}

/// Limits and abilities of a provider, for protocols to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// The provider's name, for logs and tables only.
    pub name: &'static str,
    /// Most RDMA Reads a connection may have outstanding in either direction.
    pub read_depth_max: u16,
    /// Largest single message (Send, Write, Read), in bytes.
    pub message_max: u32,
    /// A refused access is an error of that operation alone, not the end of the connection.
    pub survivable_exceptions: bool,
    /// File ranges can be sources and regions.
    pub file_regions: bool,
    /// The peer can revoke a key with its Send.
    pub remote_invalidation: bool,
    /// Sources of RDMA Writes and sinks of RDMA Reads must be registered before they are posted, as hardware wants it
    /// (local keys): register them by a [`crate::registration::Strategy`] and post [`crate::Source::Span`]. Where it is
    /// false any memory will do, and registering it only costs. Sends are free of it everywhere: a provider keeps a
    /// pool of registered memory for messages.
    pub needs_local_registration: bool,
    /// Endpoints can share receives ([`crate::Receives::Shared`]), so that an idle one costs none.
    pub shared_receives: bool,
}

/// Registers memory. One domain per provider instance; a key of one domain means nothing in another.
pub trait Domain {
    /// Makes `backing` reachable by key. Offsets in it run from [`Region::base`].
    ///
    /// # Errors
    /// See [`RegisterError`]; the backing is dropped then (a `Buffer` of an arena returns to it).
    fn register(
        &self,
        backing: Backing,
        access: Access,
        scope: Scope,
    ) -> Result<Region, RegisterError>;

    /// As [`Domain::register`], from the provider's pre-allocated fast mappings where it has them: cheaper to make, and
    /// revoked many at once by [`Domain::revoke_all`].
    ///
    /// # Errors
    /// As [`Domain::register`].
    fn register_fast(
        &self,
        backing: Backing,
        access: Access,
        scope: Scope,
    ) -> Result<Region, RegisterError> {
        self.register(backing, access, scope)
    }

    /// Revokes all of `regions` for the price of one where the provider can; leaves the vector empty.
    fn revoke_all(&self, regions: &mut Vec<Region>) {
        regions.drain(..).for_each(|region| region.invalidate());
    }

    /// A strategy has had the processor copy `len` bytes in place of registering memory. Providers that model costs
    /// charge for it as for a registration; others have nothing to do.
    fn copied(&self, _len: usize) {}

    /// Where a key to all memory names it page by page: the bytes of a page. Who tells such memory to a peer needs a
    /// segment for each. `None` where an address range of any length is one segment.
    fn physical_segment_len(&self) -> Option<u32> {
        None
    }

    /// What was registered and is registered now.
    fn stats(&self) -> RegionStats;
}

/// Counters of a domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RegionStats {
    /// Regions registered so far.
    pub registrations: u64,
    /// Regions gone, by us or by the peer's invalidation.
    pub deregistrations: u64,
    /// Bytes behind the regions of now.
    pub bytes_registered: u64,
}

/// Part of a region: `len` bytes at `offset` from its start.
#[derive(Clone)]
pub struct Span {
    /// The region.
    pub region: Region,
    /// Bytes from the start of the region (not from [`Region::base`]).
    pub offset: u64,
    /// Bytes.
    pub len: u32,
}

/// Registered memory, shared by its holders; revoked by the first of them that says so, or by the last drop.
#[derive(Clone)]
pub struct Region {
    state: Rc<RegionState>,
}

struct RegionState {
    key: RemoteKey,
    base: u64,
    len: u64,
    /// What it was registered for, and what of that is granted now, to whom.
    registered: Access,
    granted: Cell<(Access, Scope)>,
    backing: RefCell<Option<Backing>>,
    valid: Cell<bool>,
    table: Weak<TableState>,
}

impl Region {
    /// The key to tell a peer.
    pub fn key(&self) -> RemoteKey {
        self.state.key
    }

    /// The offset that names the region's first byte to a peer (the start of its tagged offsets).
    pub fn base(&self) -> u64 {
        self.state.base
    }

    /// Bytes in the region.
    pub fn len(&self) -> u64 {
        self.state.len
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.state.len == 0
    }

    /// False once it is revoked, by either side.
    pub fn is_valid(&self) -> bool {
        self.state.valid.get()
    }

    /// Revokes the key: once this returns no byte is taken or placed by it. What was taken before may still be on its
    /// way.
    pub fn invalidate(&self) {
        self.state.revoke();
    }

    /// Revokes the key and gives the memory back; `None` for a file range, or when it was taken before.
    pub fn deregister(&self) -> Option<Buffer> {
        self.state.revoke();
        match self.state.backing.borrow_mut().take() {
            Some(Backing::Buffer(buffer)) => Some(buffer),
            _ => None,
        }
    }

    /// Lends the memory to its user while the registration stays: until [`Region::restore`] every access is refused as
    /// one to an invalid key. `None` when there is no memory to lend.
    pub fn lend(&self) -> Option<Buffer> {
        let mut backing = self.state.backing.borrow_mut();
        match backing.take() {
            Some(Backing::Buffer(buffer)) => Some(buffer),
            other => {
                *backing = other;
                None
            }
        }
    }

    /// Puts lent memory back.
    ///
    /// # Errors
    /// Gives the buffer back when the region was revoked meanwhile, lent nothing, or lent memory of another length.
    pub fn restore(&self, buffer: Buffer) -> Result<(), Buffer> {
        let mut backing = self.state.backing.borrow_mut();
        if !self.is_valid() || backing.is_some() || buffer.len() as u64 != self.state.len {
            return Err(buffer);
        }
        *backing = Some(Backing::Buffer(buffer));
        Ok(())
    }

    /// Grants `access` and no more of what it was registered for, and to `scope` alone, from now on: memory that stays
    /// registered follows the one it serves. Providers in software refuse everybody else; hardware knows one right and
    /// one domain for as long as a registration lives.
    ///
    /// False, and nothing changed, when it was not registered for that.
    pub fn restrict(&self, access: Access, scope: Scope) -> bool {
        let covers = self.state.registered == access
            || self.state.registered == Access::RemoteReadWrite
            || access == Access::Local;
        if covers {
            self.state.granted.set((access, scope));
        }
        covers
    }

    /// Puts a buffer under the key of a map, and says at which offset from the start of the region.
    ///
    /// # Errors
    /// Gives the buffer back when the region is no map, was revoked, or is full.
    pub fn place(&self, buffer: Buffer) -> Result<u64, Buffer> {
        if !self.is_valid() {
            return Err(buffer);
        }
        let len = buffer.len() as u64;
        let placed = match self.state.backing.borrow_mut().as_mut() {
            Some(Backing::Map(map)) => map.place(buffer)?,
            _ => return Err(buffer),
        };
        self.state.count_held(|held| held + len);
        Ok(placed)
    }

    /// Takes the buffer that was placed at `offset` out of a map: once this returns no byte of it goes in or out.
    pub fn displace(&self, offset: u64) -> Option<Buffer> {
        let displaced = match self.state.backing.borrow_mut().as_mut() {
            Some(Backing::Map(map)) => map.displace(offset),
            _ => None,
        }?;
        if self.is_valid() {
            let len = displaced.len() as u64;
            self.state.count_held(|held| held.saturating_sub(len));
        }
        Some(displaced)
    }

    /// Runs `body` on `len` bytes at `offset` of registered memory. For providers: the reference must not be kept.
    /// `None` when they are not all there: a file range, memory that was taken or lent, the end of a buffer.
    pub fn with_bytes<T>(
        &self,
        offset: u64,
        len: usize,
        body: impl FnOnce(&mut [u8]) -> T,
    ) -> Option<T> {
        let mut backing = self.state.backing.borrow_mut();
        backing.as_mut()?.bytes_mut(offset, len).map(body)
    }

    /// `len` bytes at `offset` of registered memory, to be read while the guard lives; any number of guards may live at
    /// once. For providers: drop it before anything else can run. `None` as for [`Region::with_bytes`].
    pub fn bytes(&self, offset: u64, len: usize) -> Option<Ref<'_, [u8]>> {
        Ref::filter_map(self.state.backing.borrow(), |backing| {
            backing.as_ref()?.bytes(offset, len)
        })
        .ok()
    }

    /// True when it is memory, lent or not, and not a file range.
    pub fn is_memory(&self) -> bool {
        self.file().is_none()
    }

    /// The file behind the region and where in it the region starts; `None` for memory.
    pub fn file(&self) -> Option<(FileRef, u64)> {
        match self.state.backing.borrow().as_ref() {
            Some(Backing::File { file, offset, .. }) => Some((FileRef::clone(file), *offset)),
            _ => None,
        }
    }

    /// Checks an access of `len` bytes at `offset` from the start of the region (for our own operations).
    ///
    /// # Errors
    /// The access is refused.
    pub fn check_local(&self, offset: u64, len: u64) -> Result<(), AccessError> {
        if !self.is_valid() || self.state.backing.borrow().is_none() {
            return Err(AccessError::InvalidKey);
        }
        self.state.check_bounds(offset, len)
    }
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Region")
            .field("key", &self.state.key)
            .field("len", &self.state.len)
            .field("access", &self.state.granted.get().0)
            .field("valid", &self.state.valid.get())
            .finish_non_exhaustive()
    }
}

impl RegionState {
    fn check_bounds(&self, offset: u64, len: u64) -> Result<(), AccessError> {
        let end = offset.checked_add(len).ok_or(AccessError::Wrap)?;
        if end > self.len {
            return Err(AccessError::Bounds);
        }
        match self.backing.borrow().as_ref() {
            Some(Backing::Map(map)) => {
                let len = usize::try_from(len).map_err(|_| AccessError::Bounds)?;
                map.bytes(offset, len).map(drop).ok_or(AccessError::Bounds)
            }
            _ => Ok(()),
        }
    }

    fn held(&self) -> u64 {
        match self.backing.borrow().as_ref() {
            Some(backing) => backing.held(),
            // Lent: the registration still binds it.
            None => self.len,
        }
    }

    fn count_held(&self, change: impl FnOnce(u64) -> u64) {
        if let Some(table) = self.table.upgrade() {
            table.count_held(change);
        }
    }

    fn revoke(&self) {
        if self.valid.replace(false)
            && let Some(table) = self.table.upgrade()
        {
            table.retire(self.key, self.held());
        }
    }
}

impl Drop for RegionState {
    fn drop(&mut self) {
        self.revoke();
    }
}
