//! The suite, and the protocols, on a provider that is nothing like the ones in software.

mod nic;
mod rpc;
mod senders;
mod suite;
