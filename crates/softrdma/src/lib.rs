//! The common parts of providers in software: the memory that peers may reach, and the receives of their messages.
//!
//! A [`ProtectionTable`] is the domain of such a provider: it registers memory, ranges of files and maps of buffers,
//! and looks every access up by key, connection, right and bounds. Its regions ([`TableRegion`]) have the powers of
//! [`gannet_fabric::SoftwareRegion`], since no byte goes in or out but through the provider's own code.
//! A second table has the objects exported for optimistic reads, whose requests are authenticated ([`Authenticator`]).
//! [`SoftwareReceiveQueue`] and [`EndpointReceives`] are the receives of its endpoints.
//!
//! A domain belongs to one core. Its tables are `RefCell`s that are borrowed within one call; no borrow is held while
//! code of a protocol runs.
//!
//! This crate refuses: wire formats, transports, and any user but a provider. Protocols see the traits of
//! `gannet_fabric` alone.

mod capability;
mod exports;
mod memory_map;
mod receives;
mod region;
mod table;

pub mod limits;

pub use capability::{Authenticator, MAC_LEN};
pub use exports::OptimisticRead;
pub use receives::{EndpointReceives, SoftwareReceiveQueue};
pub use region::{FindRegion, TableRegion};
pub use table::{AccessKind, ProtectionTable, RegionName};
