//! The public interface, from programs like those that will use it: any thread, any executor.

#![allow(clippy::unwrap_used)]

mod client;
mod mount;
#[cfg(feature = "rdma")]
mod rdma;
mod readme;
mod server;
#[cfg(feature = "volumes")]
mod volume;

/// The example's own story: a directory served and fetched by each engine.
#[cfg(feature = "rdma")]
#[path = "../../examples/web.rs"]
#[allow(dead_code)]
mod web;
