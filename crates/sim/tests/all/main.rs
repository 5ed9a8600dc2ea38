//! Tests of the simulator, and of its fabric and streams against the requirements on every provider. One program,
//! since each costs a link.

#![allow(clippy::unwrap_used)]

mod conformance;
mod setting_up;
mod store;
mod world;
