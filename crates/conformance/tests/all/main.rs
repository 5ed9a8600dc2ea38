//! The suite, and the protocols, on adapters of the simulator that have no power of software.

mod device;
mod rpc;
mod senders;
mod suite;
