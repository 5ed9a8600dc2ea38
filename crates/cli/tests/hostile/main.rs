//! Peers and users who mean harm, against the whole binary: what it holds for them stays bounded, others are served,
//! and nothing outside the paths that were named is touched. A module for each thing that they attack.
//!
//! Attacks with traffic last a few seconds. `GANNET_HOSTILE_SECONDS=60` makes them last that long, and then latencies
//! are compared as well, which a busy machine cannot do in seconds.

#![allow(clippy::unwrap_used)]

mod attack;
mod copy;
mod memory;
mod native;
mod peer;
mod places;
mod rdma;
mod shapes;
#[path = "../all/support/mod.rs"]
mod support;
#[path = "../../examples/volume_io.rs"]
mod volume_io;
