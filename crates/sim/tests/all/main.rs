//! The simulator against real stores and transports, and published experiments on its machines. One program, since
//! each costs a link.

#![allow(clippy::unwrap_used)]

mod conformance;
mod model;
mod nic;
mod nic_disk;
mod nic_papers;
mod nic_pvfs;
mod pair;
mod papers_pvfs;
mod scenario;
mod store;
mod world;
