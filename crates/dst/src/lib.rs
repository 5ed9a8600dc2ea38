//! Whole systems in the simulator: servers, clients and mounts run as they are, while machines crash and networks fail,
//! and what they answer is held against models.
//!
//! A [`scenario`] is a world of a seed: a plan, machines, clients that work, and somebody who disturbs them; then
//! faults end, and everything must be as the [`model`] says. [`volume`] is the volume of such a world, for other
//! crates' tests too.
//!
//! What this crate refuses: code that serves, machines and faults themselves (they are `sim`), and tests of one part
//! alone (they are with the part).
//!
//! First function to read: [`scenario::run`].

pub mod model;
pub mod scenario;
pub mod volume;
