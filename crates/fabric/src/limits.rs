//! Bounds of the fabric seam, in one place.

/// Regions a domain holds at once; one more is refused with `RegisterError::TableFull`.
pub const REGIONS_MAX: usize = 1 << 20;

/// Keys that were in use lately and are not given out again yet.
pub const RETIRED_KEYS_MAX: usize = 1024;

/// Private data of a connection request or reply, in bytes, as the upper layer sees it (RFC 6581: 512 less the
/// enhanced block; Linux siw: 256 in all, so stay below 200 towards it).
pub const PRIVATE_DATA_MAX: usize = 508;

/// Buffers a [`crate::MemoryMap`] holds at once.
pub const MAP_SLOTS_MAX: usize = 1 << 16;
