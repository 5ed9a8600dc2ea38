//! The client's side of a volume.

mod change_locks;
mod counters;
pub mod data;
mod error;
mod fences;
mod file;
mod file_system;
mod leases;
mod locks;
pub mod optimistic;
mod pin_down;
mod policy;
mod references;
mod registered;
mod servers;
mod siblings;
mod slots;
mod unstable;
mod verifier;
mod written;

pub use counters::{ClientCounters, ClientWatch};
pub use file::{File, FileError, ParentPiece};
pub use file_system::{
    AttributeCounters, IoServerAnswer, IoServerSpace, IoServerState, ServerStates, Striping,
    VolumeFs,
};
pub use gannet_wire::volume::{Level, Piece, Shape};
pub use pin_down::{PinDownCache, PinDownCounters};
pub use policy::TransferPolicy;
pub use references::{Optimistic, OptimisticCounters, ReadOptions};
pub use registered::RegisteredMemory;
pub(crate) use servers::Servers;
pub use servers::{Addresses, ManagerFinder, Resolver, registered_io_servers};
pub use siblings::Siblings;
