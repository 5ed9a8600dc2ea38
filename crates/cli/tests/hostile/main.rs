//! Hostile peers and users against the whole binary. Its memory for them stays bounded, other clients are served,
//! and no file outside the named paths is touched. Each target of an attack has a module.
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
