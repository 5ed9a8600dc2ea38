//! The fabric seam: verbs words, for any provider.
//!
//! A [`Provider`] connects and listens. A [`Domain`] registers memory and answers with a [`Region`], whose
//! [`RemoteKey`] a protocol may send to a peer. An [`Endpoint`] is a connected, reliable queue pair: work is posted
//! to it and comes back as [`Completion`]s. Protocols (`rpc`, `volume`) are written against these alone and never
//! name a provider; what a provider can do is data ([`Capabilities`], [`EndpointAttributes`]).
//!
//! Ownership replaces pinning rules: memory is a [`Buffer`](gannet_runtime::Buffer), *moved* into the operation
//! or region that may touch it, and comes back from the completion or from [`MemoryRegion::deregister`]. So no code
//! holds a reference into memory that the fabric may write.
//!
//! This crate refuses: wire formats, sockets, knowledge of any protocol above or provider below.
//!
//! First types to read: [`Endpoint`], then [`MemoryRegion`].

mod endpoint;
mod error;
mod export;
mod later;
mod receives;
mod region;

pub mod limits;
pub mod registration;

pub use endpoint::{
    Completion, ConnectOptions, Connected, Done, Endpoint, EndpointAttributes, Incoming,
    Invalidate, Listener, Outgoing, Provider, RemoteAddress, SendOptions, Signal, Source, WorkId,
    next_completions,
};
pub use error::{ConnectError, DeregisterError, Disconnected, PostError, RegisterError, WorkError};
pub use export::{
    AccessKey, CapabilityKey, Export, ExportStats, ExportTable, Exported, FILE_STATUS_LEN,
    FindExported, Reference, file_status_bytes, file_status_in,
};
pub use later::{Later, Registering, Revocation};
pub use receives::{Receives, SharedReceiveQueue, SharedReceives};
pub use region::{
    Access, AccessError, Backing, Capabilities, Domain, EndpointId, LocalKey, MapRegion,
    MemoryRegion, NoReceive, PrivateDataLimits, Refusals, Region, RegionStats, RemoteKey, Scope,
    SoftwareRegion, Span, with_memory,
};
