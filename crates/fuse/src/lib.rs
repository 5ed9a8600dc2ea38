//! A file system of ours in the tree of this machine: any [`gannet_vfs::Vfs`], mounted through FUSE.
//!
//! [`Mount::start`] mounts a store on a directory. The kernel's requests are read on a thread of their own (`front`),
//! handed to the core of the store over a bounded queue, done there as one task each (`mounted`), and answered from
//! there. What is here and not in the store is what a client owes the programs of its machine: the numbers by which the
//! kernel knows objects (`inodes`), writes kept until the server has confirmed them (`unstable`), files that stay
//! readable after they were removed while open (`hidden`), and consistency from close(2) to open(2) although the kernel
//! caches ([`Caching`]).
//!
//! What this crate refuses: protocols and transports. It never asks what is behind the store.
//!
//! What needs no kernel stands behind [`headless::Headless`] too, for the simulator.
//!
//! First thing to read: [`Mount`].

mod callers;
mod convert;
mod device;
mod front;
pub mod headless;
mod hidden;
mod inodes;
pub mod limits;
mod listing;
mod mounted;
mod open;
mod session;
mod status;
mod takings;
mod turns;
mod unstable;

pub use session::{Caching, Locks, Mount, MountError, MountOptions};
