//! The C interface of rdma-core behind owners that destroy things in the right order.
//!
//! All `unsafe` code of the crate is here. Each owner holds what it uses, so the order of drops in the rest of the
//! crate does not matter. Memory is the exception: work that is posted names memory by address. Its poster keeps that
//! until the work completes or the queue pair is destroyed.
#![allow(unsafe_code)]

mod bindings;
mod cm;
mod device;
#[cfg(test)]
pub(crate) mod fake;
mod library;
mod manager;
mod memory;
mod probe;
mod queue;
mod window;

pub(crate) use bindings::{WC_RECV_RDMA_WITH_IMM, WC_WITH_INV, Wc, status};
pub(crate) use cm::{CmId, Event, EventChannel, EventKind, IdName, Parameters};
pub(crate) use device::{DeviceContext, ProtectionDomain};
pub(crate) use memory::{Chunk, MappedFile, Piece, Registration, RegistrationRules, Slot};
pub(crate) use queue::{
    CompletionChannel, CompletionQueue, EventOf, POLL_MAX, PairLimits, PairQueues, QueuePair,
    ReceiveWork, SendWork, SharedQueue, WorkKind,
};
pub(crate) use window::{Window, WindowBind};

pub use device::{DeviceInfo, DeviceLimits, PortInfo};
pub use library::VerbsLibrary;
