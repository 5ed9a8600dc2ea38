//! Bounds of software providers, in one place.

/// Regions a domain holds at once; one more is refused with `RegisterError::TableFull`.
pub const REGIONS_MAX: usize = 1 << 20;

/// Keys that were in use lately and are not given out again yet.
pub const RETIRED_KEYS_MAX: usize = 1024;

/// Buffers that a map holds at once ([`gannet_fabric::Backing::Map`]).
pub const MAP_SLOTS_MAX: usize = 1 << 16;

/// Entries of exported objects that a domain holds at once; for one more, one that was not used for long goes.
pub const EXPORTS_MAX: usize = 1 << 16;

/// Of those, how many keep their bytes at hand, each perhaps an open file; others find them again when they are used.
pub const EXPORTS_LOADED_MAX: usize = 1024;
