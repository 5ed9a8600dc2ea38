//! Bounds of software providers, in one place.

/// Regions a domain holds at once; one more is refused with `RegisterError::TableFull`.
pub const REGIONS_MAX: usize = 1 << 20;

/// Keys revoked last, which are not used again yet: a late access by one must find no other region.
pub const RETIRED_KEYS_MAX: usize = 1024;

/// Buffers that a map holds at once ([`gannet_fabric::Backing::Map`]).
pub const MAP_SLOTS_MAX: usize = 1 << 16;

/// Entries of exported objects that a domain holds at once; one more evicts an entry that was not used for long.
pub const EXPORTS_MAX: usize = 1 << 16;

/// Entries that keep their bytes loaded, each perhaps an open file; the exporter finds those of the others on use.
pub const EXPORTS_LOADED_MAX: usize = 1024;
