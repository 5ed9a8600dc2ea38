//! The simulator against its promises, and its fabric and streams against what every provider promises. One program,
//! since each costs a link.

#![allow(clippy::unwrap_used)]

mod conformance;
mod store;
mod world;
