//! RDMA devices as a provider of the fabric seam: InfiniBand, RoCE and iWARP adapters by rdma-core.
//!
//! rdma-core is opened at run time ([`VerbsLibrary::open`]), so a program that uses this crate starts on machines
//! without it. A provider belongs to one core and one device. Cores share the library and the device.
//!
//! This crate refuses: knowledge of the protocols above, clocks and threads of its own (they come through
//! `gannet-runtime`), and `unsafe` outside `sys`.
//!
//! Layers, from the bottom:
//!
//! - `sys` has the C interface, behind owners that destroy things in the right order;
//! - `messages` and `receives` are registered memory for messages;
//! - `region` is registered memory of the protocols, and `files` that of files;
//! - `core` takes events and completions of one core and gives them to its connections;
//! - `connection` is one queue pair in operation;
//! - [`VerbsProvider`], [`VerbsListener`] and the endpoint are the seam's side.
//!
//! First type to read: [`VerbsProvider`], then `connection::Connection`.

mod config;
mod connect;
mod connection;
mod core;
mod endpoint;
mod error;
mod files;
mod listener;
mod messages;
mod private_data;
mod provider;
mod receives;
mod region;
mod sys;
#[cfg(test)]
mod tests;
mod work;

pub mod limits;

pub use config::{DeviceChoice, VerbsConfig};
pub use core::check_device;
pub use error::VerbsError;
pub use listener::{SharedVerbsListener, VerbsListener};
pub use provider::{VerbsProvider, devices};
pub use sys::{DeviceInfo, DeviceLimits, PortInfo, VerbsLibrary};
