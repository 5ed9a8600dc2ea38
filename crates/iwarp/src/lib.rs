//! A software RNIC: RDMA over any byte stream, in the words of the iWARP standards (MPA, DDP,
//! RDMAP).
//!
//! It speaks to Linux's siw, to hardware RNICs and to itself. It is a [`gannet_fabric::Provider`];
//! crates above use it through that trait only.
//!
//! This crate refuses: sockets, clocks and threads of its own (they come through
//! `gannet-runtime`), any knowledge of the protocols above, `unsafe`, and trust in a peer: every
//! tagged segment is checked against the protection table, every length before use, every queue is
//! bounded.
//!
//! Layers, from the bottom:
//!
//! - `startup` agrees on a connection: pure functions from request and reply frames to an
//!   agreement;
//! - `engine` is one connection in full operation, without I/O: received bytes in, slices to send
//!   out;
//! - `driver` moves bytes between an engine and its stream, and keeps the deadlines;
//! - [`IwarpProvider`], [`IwarpListener`] and the endpoint are the seam's side.
//!
//! First type to read: [`IwarpProvider`], then `engine::Engine`.

mod chunks;
mod config;
mod connect;
mod crc;
mod driver;
mod endpoint;
mod engine;
mod listener;
mod provider;
mod rest;
mod staging;
mod startup;

pub mod limits;

pub use config::{AcceptRace, IwarpConfig};
pub use gannet_wire::mpa::Revision;
pub use listener::IwarpListener;
pub use provider::IwarpProvider;
