//! The simulator against real stores and transports. One program, since each costs a link.

#![allow(clippy::unwrap_used)]

mod conformance;
mod model;
mod scenario;
mod store;
mod world;
