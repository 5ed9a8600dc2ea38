//! Registered memory: its keys, the rights of peers, and its revocation.

use crate::{DeregisterError, ExportTable, FindExported, RegisterError, Registering, Revocation};
use gannet_runtime::{Buffer, FileRef};
use std::any::Any;
use std::cell::{Ref, RefMut};
use std::fmt;
use std::ops::Add;
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

/// The 32-bit key by which our own work names a region (verbs: lkey). The provider chooses it, and it is sent to no
/// peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LocalKey(pub u32);

/// One connection of one provider, never reused: the epoch a key is bound to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EndpointId(pub u64);

/// The rights of peers to a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// None: a source or sink of our own operations only.
    Local,
    /// RDMA Read from it.
    RemoteRead,
    /// RDMA Write to it.
    RemoteWrite,
    /// Both.
    RemoteReadWrite,
}

/// The connections that may use a region's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// This connection alone; the key is useless after its end. Without [`Capabilities::bound_keys`] as
    /// [`Scope::Domain`].
    Endpoint(EndpointId),
    /// Every connection of the domain. No peer can revoke it by a Send with Invalidate.
    Domain,
}

/// The memory of a registration.
pub enum Backing {
    /// Memory; moved in, given back by [`MemoryRegion::deregister`].
    Buffer(Buffer),
    /// A range of a file in the page cache: can be read, not written. With [`Capabilities::file_regions`] alone.
    File {
        /// The file.
        file: FileRef,
        /// Start of the range, in bytes from the start of the file.
        offset: u64,
        /// Length of the range in bytes.
        len: u64,
    },
    /// Buffers that come and go under one key; see [`MapRegion`]. With [`Capabilities::all_physical`] alone.
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
    /// File ranges can be sources of Writes ([`crate::Source::File`]). Elsewhere bytes are read into memory first.
    pub file_sources: bool,
    /// File ranges can be regions ([`Backing::File`]), of a length that the file may yet get.
    pub file_regions: bool,
    /// Its regions have the powers of [`SoftwareRegion`], and refuse accesses to memory that is lent
    /// ([`MemoryRegion::lend`]). On all others a peer with the key reaches that.
    pub software_regions: bool,
    /// One key can name all memory of transfers ([`Backing::Map`]). In software it reaches what is placed in the map.
    /// On a device it is the key to all physical memory: the peer also reaches memory that is with its user.
    pub all_physical: bool,
    /// A key can serve one connection alone ([`Scope::Endpoint`]). Elsewhere it serves every peer of the domain that
    /// learns it.
    pub bound_keys: bool,
    /// Its Sends can revoke a key of the peer ([`crate::Invalidate::Key`]).
    pub sends_invalidate: bool,
    /// Its own single-use keys can be revoked by a Send of the peer.
    pub keys_invalidated: bool,
    /// RDMA Writes with Immediate go both ways ([`crate::Endpoint::post_write_with_immediate`]).
    pub immediates: bool,
    /// The news of a refused access at both ends.
    pub refusals: Refusals,
    /// The fate of a message that finds no receive.
    pub no_receive: NoReceive,
    /// Bounds of private data in the set-up of a connection.
    pub private_data: PrivateDataLimits,
    /// Sources of RDMA Writes and sinks of RDMA Reads must be registered before they are posted, as hardware wants it
    /// (local keys): register them by a [`crate::registration::Strategy`] and post [`crate::Source::Span`]. Where it is
    /// false any memory will do, and registering it only costs. Sends are free of it everywhere: a provider keeps a
    /// pool of registered memory for messages.
    pub needs_local_registration: bool,
    /// Endpoints can share receives ([`crate::Receives::Shared`]), so that an idle one costs none.
    pub shared_receives: bool,
}

/// The news of a refused access at both ends, where it ends the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusals {
    /// The peer learns the cause ([`crate::WorkError::Remote`]), and this end that the peer broke the protocol.
    Named,
    /// The peer learns that it was refused, or only that the connection has ended. This end learns that the
    /// connection has ended, perhaps seconds later.
    Unnamed,
}

/// The fate of a message that finds no receive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoReceive {
    /// Its connection ends.
    Ends,
    /// It waits for the next receive (verbs: RNR retry), for as long as the sender tries.
    Waits,
}

/// Bytes of private data that the upper layer may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrivateDataLimits {
    /// Most bytes in a request.
    pub request_max: usize,
    /// Most bytes in a reply, or in a rejection.
    pub reply_max: usize,
    /// It arrives with its length. Elsewhere zeros follow it, up to the bound.
    pub exact: bool,
}

impl PrivateDataLimits {
    /// The bounds of a connection over TCP (RFC 6581).
    pub const IWARP: PrivateDataLimits = PrivateDataLimits {
        request_max: crate::limits::PRIVATE_DATA_MAX,
        reply_max: crate::limits::PRIVATE_DATA_MAX,
        exact: true,
    };
}

/// Registers memory. One domain per provider instance; a key of one domain means nothing in another.
pub trait Domain {
    /// Makes `backing` reachable by key. Offsets in it run from [`MemoryRegion::base`]. The core does nothing else
    /// meanwhile: an adapter pins some [`crate::limits::REGISTER_NOW_MAX`] bytes in 0.1 ms. Longer memory goes through
    /// [`Domain::register`].
    ///
    /// # Errors
    /// Any [`RegisterError`]; the backing is dropped then (a `Buffer` of an arena returns to it).
    fn register_now(
        &self,
        backing: Backing,
        access: Access,
        scope: Scope,
    ) -> Result<Region, RegisterError>;

    /// As [`Domain::register_now`], for memory of any length: the core goes on while an adapter pins much of it.
    fn register(&self, backing: Backing, access: Access, scope: Scope) -> Registering {
        Registering::Ready(self.register_now(backing, access, scope))
    }

    /// As [`Domain::register_now`], from the provider's pre-allocated fast mappings where it has them: cheaper to make,
    /// and revoked many at once by [`Domain::revoke_all`].
    ///
    /// # Errors
    /// As [`Domain::register_now`].
    fn register_fast(
        &self,
        backing: Backing,
        access: Access,
        scope: Scope,
    ) -> Result<Region, RegisterError> {
        self.register_now(backing, access, scope)
    }

    /// Begins to revoke all of `regions`, at the cost of one where the provider can; leaves the vector empty.
    fn revoke_all(&self, regions: &mut Vec<Region>) {
        regions
            .drain(..)
            .for_each(|region| drop(region.invalidate()));
    }

    /// True when its regions have the powers of [`SoftwareRegion`]; as [`Capabilities::software_regions`].
    fn has_software_regions(&self) -> bool;

    /// True when a key can serve one connection alone; as [`Capabilities::bound_keys`].
    fn has_bound_keys(&self) -> bool;

    /// True when memory that stays registered can be given to one connection for one use ([`MemoryRegion::bind`]).
    fn has_windows(&self) -> bool {
        false
    }

    /// True when it registers [`Backing::Map`]; as [`Capabilities::all_physical`].
    fn has_map(&self) -> bool;

    /// A table of objects for optimistic reads, for one exporter. `None` where no connection of the domain survives an
    /// exception.
    fn exports(&self, _find: FindExported) -> Option<Rc<dyn ExportTable>> {
        None
    }

    /// Bytes of a page, where a key to all memory names pages: a peer needs one segment for each page. `None` where an
    /// address range of any length is one segment.
    fn physical_segment_len(&self) -> Option<u32> {
        None
    }

    /// Counters of registrations.
    fn stats(&self) -> RegionStats;
}

/// Counters of a domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RegionStats {
    /// Regions registered so far.
    pub registrations: u64,
    /// Regions revoked, by this end or by the peer's invalidation.
    pub deregistrations: u64,
    /// Bytes of the regions that are registered now.
    pub bytes_registered: u64,
    /// File ranges whose pages were registered for one Write, where sources must be registered
    /// ([`Capabilities::needs_local_registration`]).
    pub file_ranges_registered: u64,
    /// File ranges whose pages could not be: their bytes were read into memory for one Write.
    pub file_ranges_copied: u64,
}

impl Add for RegionStats {
    type Output = RegionStats;

    /// The sum over two domains.
    fn add(self, other: RegionStats) -> RegionStats {
        RegionStats {
            registrations: self.registrations + other.registrations,
            deregistrations: self.deregistrations + other.deregistrations,
            bytes_registered: self.bytes_registered + other.bytes_registered,
            file_ranges_registered: self.file_ranges_registered + other.file_ranges_registered,
            file_ranges_copied: self.file_ranges_copied + other.file_ranges_copied,
        }
    }
}

/// Part of a region: `len` bytes at `offset` from its start.
#[derive(Clone)]
pub struct Span {
    /// The region.
    pub region: Region,
    /// Bytes from the start of the region (not from [`MemoryRegion::base`]).
    pub offset: u64,
    /// Its length in bytes.
    pub len: u32,
}

/// Registered memory, shared by its holders. The first holder that revokes it revokes it for all; the last drop does so
/// too.
pub type Region = Rc<dyn MemoryRegion>;

/// Memory that a provider has registered. Each provider has a type of its own, and finds it again behind a [`Span`] by
/// downcast; its endpoints refuse regions of other providers.
///
/// While a revocation is under way the provider owns the memory, because a peer may still write it.
pub trait MemoryRegion: Any + fmt::Debug {
    /// The key for our own work.
    fn local_key(&self) -> LocalKey;

    /// The key for peers.
    fn remote_key(&self) -> RemoteKey;

    /// The offset that names the region's first byte to a peer (the start of its tagged offsets).
    fn base(&self) -> u64;

    /// Bytes in the region.
    fn len(&self) -> u64;

    /// True when the region has no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// False once its revocation has begun, by either side.
    fn is_valid(&self) -> bool;

    /// Revokes the key: after the result no byte is taken or placed by it. Bytes that were taken before may still be on
    /// their way.
    fn invalidate(&self) -> Revocation<()>;

    /// Revokes the key and returns the memory; `None` for a file range, or when it was taken before.
    ///
    /// # Errors
    /// [`DeregisterError`]: the provider could not revoke the registration. It keeps the memory until it is dropped
    /// itself, because a peer may still reach it.
    fn deregister(&self) -> Revocation<Result<Option<Buffer>, DeregisterError>>;

    /// Moves the memory out of the region while the registration stays. No work of ours may name it until
    /// [`MemoryRegion::restore`]. `None` when there is no memory in it.
    ///
    /// With [`Capabilities::software_regions`] every access meanwhile is refused as one to an invalid key. A device
    /// checks nothing but the key: a peer that it was granted to reaches the memory while its user has it. So there a
    /// caller lends memory without rights for peers, or answers for what they can do with it.
    fn lend(&self) -> Option<Buffer>;

    /// Moves the memory back in: the same memory, where a device has pinned it.
    ///
    /// # Errors
    /// Returns the buffer when the region was revoked meanwhile, has its memory, or has another length.
    fn restore(&self, buffer: Buffer) -> Result<(), Buffer>;

    /// Moves the memory back in as [`MemoryRegion::restore`] does, under a key of its own with these rights, which one
    /// connection has for one use: a memory window (verbs: type 2). The memory comes back by
    /// [`MemoryRegion::deregister`] of the result, and this registration stays. Revoked meanwhile, it ends with the
    /// result.
    ///
    /// # Errors
    /// Returns the buffer as [`MemoryRegion::restore`] does, when the provider has no window
    /// ([`Domain::has_windows`]), and when the connection has ended.
    fn bind(
        &self,
        buffer: Buffer,
        _access: Access,
        _endpoint: EndpointId,
    ) -> Result<Region, Buffer> {
        Err(buffer)
    }

    /// Lets `work` have the memory where it is; false when it is lent, revoked, or a file's. Work of ours that names it
    /// must be over, though its completion need not have come: the peer's answer says so, too.
    fn with_memory(&self, work: &mut dyn FnMut(&mut [u8])) -> bool {
        let Some(mut memory) = self.lend() else {
            return false;
        };
        work(&mut memory);
        self.restore(memory).is_ok()
    }

    /// The powers of a provider in software over it; `None` without [`Capabilities::software_regions`].
    fn software(&self) -> Option<&dyn SoftwareRegion> {
        None
    }

    /// The map, when it was registered as [`Backing::Map`].
    fn map(&self) -> Option<&dyn MapRegion> {
        None
    }
}

/// One key to many buffers, which come and go.
pub trait MapRegion {
    /// Puts a buffer under the key, and returns its offset from the start of the region.
    ///
    /// # Errors
    /// Returns the buffer when the region was revoked or is full.
    fn place(&self, buffer: Buffer) -> Result<u64, Buffer>;

    /// Takes the buffer that was placed at `offset` out. In software no byte of it goes in or out after this returns.
    /// On a device the key still reaches it: all memory is under that key.
    fn displace(&self, offset: u64) -> Option<Buffer>;
}

/// As [`MemoryRegion::with_memory`], with a result. `None` when the region has no memory, or was revoked meanwhile.
pub fn with_memory<T>(region: &Region, work: impl FnOnce(&mut [u8]) -> T) -> Option<T> {
    let (mut work, mut value) = (Some(work), None);
    let is_there = region.with_memory(&mut |memory| {
        value = work.take().map(|work| work(memory));
    });
    value.filter(|_| is_there)
}

/// Powers over registered memory of a provider whose every access goes through software. No device has them: those who
/// ask ([`MemoryRegion::software`]) have another way without them.
pub trait SoftwareRegion {
    /// Grants only `access`, a part of the registered rights, and only to `scope`, from now on. Memory that stays
    /// registered is so restricted to the connection of each use; all others are refused.
    ///
    /// Returns false, and changes nothing, when it was not registered for that.
    fn restrict(&self, access: Access, scope: Scope) -> bool;

    /// `len` bytes at `offset` of registered memory, to read. Several guards may exist at once. Drop them before any
    /// other code can run: a write to the region would panic. `None` for a file range, for memory that was taken or
    /// moved out, and past the end of a buffer.
    fn bytes(&self, offset: u64, len: usize) -> Option<Ref<'_, [u8]>>;

    /// As [`SoftwareRegion::bytes`], to write; no other guard of the region may exist.
    fn bytes_mut(&self, offset: u64, len: usize) -> Option<RefMut<'_, [u8]>>;
}
