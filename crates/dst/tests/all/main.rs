//! Fixed seeds of every scenario, the model by itself, volumes between adapters, and how their servers start. One
//! program, since each costs a link.

#![allow(clippy::unwrap_used)]

mod clocks;
mod devices;
mod model;
mod mounts;
mod opens;
mod removals;
mod scenario;
mod starts;
