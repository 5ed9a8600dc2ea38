//! Mounts any [`gannet_vfs::Vfs`] on a directory of this machine through FUSE.
//!
//! [`Mount::start`] mounts a store on a directory. A thread of its own reads the kernel's requests (`front`) and hands
//! them to the core of the store over a bounded queue. The core does each request as a task and answers it
//! (`mounted`). This crate has the duties of a client towards the programs of its machine:
//!
//! - the numbers by which the kernel knows objects (`inodes`),
//! - pages of files that the kernel caches, which other hosts or refused writes make stale (`pages`),
//! - files that stay readable after they were removed while open (`hidden`),
//! - attributes of a directory whose names are asked for one by one (`ahead`),
//! - consistency from close(2) to open(2) although the kernel caches ([`Caching`]).
//!
//! Writes that leave behind the answer to write(2), and writes that no COMMIT has confirmed, are the business of
//! [`gannet_client::write_behind`]. This crate has no protocol and no transport, and treats all stores alike.
//!
//! [`headless::Headless`] gives a simulation the parts that need no kernel.
//!
//! First thing to read: [`Mount`].

mod ahead;
mod callers;
mod convert;
mod device;
mod flags;
mod front;
pub mod headless;
mod hidden;
mod inodes;
pub mod limits;
mod listing;
mod mounted;
mod open;
mod pages;
mod requests;
mod session;
mod status;
mod takings;
mod waiting;
mod window;

pub use requests::{Requests, WAIT_MIN};
pub use session::{
    Caching, Closing, Locks, Mount, MountError, MountOptions, MountState, MountWatch,
};
