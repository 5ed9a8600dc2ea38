//! Simulations of whole systems: unchanged servers, clients and mounts run while machines crash and networks fail, and
//! their replies are compared with models.
//!
//! A [`scenario`] is a simulation of one seed: a plan, machines, clients that work, and a nemesis that injects faults.
//! Then the faults end, and the state must be that of the [`model`]. [`volume`] is the volume of a simulation, for
//! other crates' tests too.
//!
//! Machines and faults are in `sim`, and tests of one part alone are with that part.
//!
//! First function to read: [`scenario::run`].

pub mod model;
pub mod scenario;
pub mod volume;
