//! The simulator: a world of nodes in virtual time, in which everything follows from one seed.
//!
//! A [`World`] has one clock (nanoseconds), one thread, [`Node`]s with the runtime seam on them, and [`Faults`]. The
//! same compiled protocol code that runs on sockets runs here on simulated byte streams or on [`fabric::SimFabric`],
//! over files of [`store::SimStore`].
//!
//! Layers, bottom up: the executor (time and tasks), the network (channels that delay and hold), byte streams, nodes;
//! then fabric and store. A node may be a machine whose time everything costs ([`nic`]).
//! This crate uses no real time and no real input or output, and contains no protocol.
//!
//! First type to read: [`World`].

mod executor;
pub mod fabric;
pub mod limits;
mod network;
pub mod nic;
mod node;
mod random;
pub mod store;
mod stream;
mod trace;
mod world;

pub use network::LinkProfile;
pub use node::{Node, PoolProfile};
pub use random::Random;
pub use trace::TraceDigest;
pub use world::{Crash, Faults, NodeId, Stopped, World};
