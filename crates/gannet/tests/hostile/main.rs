//! Peers and users who mean harm, against the whole binary: a module for each thing that they attack.

#![allow(clippy::unwrap_used)]

mod copy;
mod shapes;
#[path = "../support/mod.rs"]
mod support;
#[path = "../../examples/volume_io.rs"]
mod volume_io;
