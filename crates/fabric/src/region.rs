//! Registered memory: who may touch which bytes, by which key, for how long.

use crate::{DeregisterError, ExportTable, FindExported, RegisterError, Revocation};
use gannet_runtime::{Buffer, FileRef};
use std::any::Any;
use std::cell::{Ref, RefMut};
use std::fmt;
use std::rc::Rc;
use thiserror::Error;

/// The 32-bit key by which a peer names a region: STag in iWARP, rkey in verbs, handle in RPC/RDMA. Never zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RemoteKey(pub u32);

impl fmt::Debug for RemoteKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

/// The 32-bit key by which our own work names a region (verbs: lkey). Chosen by the provider, told to no peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LocalKey(pub u32);

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

/// What is to be registered.
pub enum Backing {
    /// Memory; moved in, given back by [`MemoryRegion::deregister`].
    Buffer(Buffer),
    /// A range of a file in the page cache: can be read, not written. With [`Capabilities::file_regions`] alone.
    File {
        /// The file.
        file: FileRef,
        /// Where the range starts, in bytes from the start of the file.
        offset: u64,
        /// Bytes in the range.
        len: u64,
    },
    /// Buffers that come and go under one key; see [`SoftwareRegion::place`]. With [`Capabilities::software_regions`]
    /// alone.
    Map,
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
    /// The bytes are not in memory now. Of optimistic reads alone, as are the next two.
    #[error("not resident")]
    NotResident,
    /// The access key or the code that authenticates the request is wrong.
    #[error("bad capability")]
    Capability,
    /// The request is not newer than one before it.
    #[error("replayed")]
    Replay,
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
    /// Connections can agree that a refused Read is an error of that Read alone, and read what the peer exports
    /// ([`crate::ConnectOptions::exceptions`]).
    pub optimistic_reads: bool,
    /// File ranges can be sources and regions. Where they cannot, bytes are read into memory first.
    pub file_regions: bool,
    /// Its regions have the powers of [`SoftwareRegion`].
    pub software_regions: bool,
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
    /// Makes `backing` reachable by key. Offsets in it run from [`MemoryRegion::base`].
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

    /// Begins to revoke all of `regions`, for the price of one where the provider can; leaves the vector empty.
    fn revoke_all(&self, regions: &mut Vec<Region>) {
        regions
            .drain(..)
            .for_each(|region| drop(region.invalidate()));
    }

    /// Its regions have the powers of [`SoftwareRegion`]; as [`Capabilities::software_regions`].
    fn has_software_regions(&self) -> bool;

    /// The table of what peers read optimistically, for one exporter with objects of its own. `None` where no
    /// connection of the domain survives an exception.
    fn exports(&self, _find: FindExported) -> Option<Rc<dyn ExportTable>> {
        None
    }

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
    /// Bytes from the start of the region (not from [`MemoryRegion::base`]).
    pub offset: u64,
    /// Bytes.
    pub len: u32,
}

/// Registered memory, shared by its holders; revoked by the first of them that says so, or by the last drop.
pub type Region = Rc<dyn MemoryRegion>;

/// Memory that a provider has registered. Each provider has a type of its own, and finds it again behind a [`Span`] by
/// downcast; the region of another provider is no memory that its endpoints know.
///
/// While a revocation is under way the memory is its provider's, and nobody gets it.
pub trait MemoryRegion: Any + fmt::Debug {
    /// Names it in work of our own.
    fn local_key(&self) -> LocalKey;

    /// The key to tell a peer.
    fn remote_key(&self) -> RemoteKey;

    /// The offset that names the region's first byte to a peer (the start of its tagged offsets).
    fn base(&self) -> u64;

    /// Bytes in the region.
    fn len(&self) -> u64;

    /// True when there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// False once its revocation has begun, by either side.
    fn is_valid(&self) -> bool;

    /// Revokes the key: once the result is here no byte is taken or placed by it. What was taken before may still be on
    /// its way.
    fn invalidate(&self) -> Revocation<()>;

    /// Revokes the key and gives the memory back; `None` for a file range, or when it was taken before.
    ///
    /// # Errors
    /// The provider could not take the registration back. It keeps the memory for as long as it lives: a peer may reach
    /// it yet, so nobody else gets it.
    fn deregister(&self) -> Revocation<Result<Option<Buffer>, DeregisterError>>;

    /// What only a provider in software can do with it; `None` without [`Capabilities::software_regions`].
    fn software(&self) -> Option<&dyn SoftwareRegion> {
        None
    }
}

/// Powers over registered memory that a provider has whose every access goes through software. A strategy asks for them
/// ([`MemoryRegion::software`]) and does without, or says that it cannot.
pub trait SoftwareRegion {
    /// Lends the memory to its user while the registration stays: until [`SoftwareRegion::restore`] every access is
    /// refused as one to an invalid key. `None` when there is no memory to lend.
    fn lend(&self) -> Option<Buffer>;

    /// Puts lent memory back.
    ///
    /// # Errors
    /// Gives the buffer back when the region was revoked meanwhile, lent nothing, or lent memory of another length.
    fn restore(&self, buffer: Buffer) -> Result<(), Buffer>;

    /// Grants `access` and no more of what it was registered for, and to `scope` alone, from now on: memory that stays
    /// registered follows the one it serves. Everybody else is refused.
    ///
    /// False, and nothing changed, when it was not registered for that.
    fn restrict(&self, access: Access, scope: Scope) -> bool;

    /// Puts a buffer under the key of a map ([`Backing::Map`]), and says at which offset from the start of the region.
    ///
    /// # Errors
    /// Gives the buffer back when the region is no map, was revoked, or is full.
    fn place(&self, buffer: Buffer) -> Result<u64, Buffer>;

    /// Takes the buffer that was placed at `offset` out of a map: once this returns no byte of it goes in or out.
    fn displace(&self, offset: u64) -> Option<Buffer>;

    /// `len` bytes at `offset` of registered memory, to be read while the guard lives; any number of guards may live at
    /// once. Drop it before anything else can run. `None` when they are not all there: a file range, memory that was
    /// taken or lent, the end of a buffer.
    fn bytes(&self, offset: u64, len: usize) -> Option<Ref<'_, [u8]>>;

    /// As [`SoftwareRegion::bytes`], to be written; the only guard of its region.
    fn bytes_mut(&self, offset: u64, len: usize) -> Option<RefMut<'_, [u8]>>;
}
