//! Bounds of the fabric seam, in one place.

use std::time::Duration;

/// Private data of a connection request or reply over TCP, in bytes, as the upper layer sees it (RFC 6581: 512 less the
/// enhanced block; Linux siw: 256 in all, so stay below 200 towards it). Other providers have other bounds
/// ([`crate::PrivateDataLimits`]).
pub const PRIVATE_DATA_MAX: usize = 508;

/// The same with the offer of exceptions ([`crate::ConnectOptions::exceptions`]) in front of it.
pub const PRIVATE_DATA_BESIDE_OFFER_MAX: usize = PRIVATE_DATA_MAX - 8;

/// The end of the longest file: the kernel's offsets have a sign.
pub const FILE_OFFSET_MAX: u64 = i64::MAX as u64;

/// Bytes of the longest optimistic read: one residency check covers them, and one buffer of any provider holds them.
pub const OPTIMISTIC_READ_MAX: u32 = 64 << 10;

/// Bytes of memory that is registered while its core waits; see [`crate::Domain::register_now`]. It holds a payload of
/// NFS.
pub const REGISTER_NOW_MAX: usize = 1 << 20;

/// Fast mappings in use at once (the FMR pool of the 2007 paper's Linux); further memory is registered dynamically.
pub const FAST_ENTRIES_MAX: usize = 512;

/// Bytes that one fast mapping covers.
pub const FAST_LEN_MAX: usize = 1 << 20;

/// Released fast mappings that are revoked in one go.
pub const FAST_DIRTY_MAX: usize = 64;

/// How long a released fast mapping may wait for its revocation.
pub const EXPOSURE_MAX: Duration = Duration::from_millis(100);

/// Bytes of the smallest slab of the client's cache.
pub const SLAB_LEN_MIN: usize = 4 << 10;

/// Pages of one buffer that all-physical registration names to a peer; longer buffers are registered. As many segments
/// fit the message of 1024 bytes that every RPC/RDMA peer takes, and they are the paper's records of 128 KiB.
pub const PHYSICAL_SEGMENTS_MAX: usize = 32;

/// Size classes of slabs, each twice as long as the one before: up to 2 MiB.
pub const SLAB_CLASSES: usize = 10;

/// Unused slabs of one class that are kept.
pub const SLABS_IDLE_MAX: usize = 128;
