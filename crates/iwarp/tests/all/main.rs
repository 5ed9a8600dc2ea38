//! The software RNIC through the seam, and against hostile peers. One program, since each costs a link.

#![allow(clippy::unwrap_used)]

mod allocations;
mod changing_files;
mod conformance;
mod hostile;
mod looking;
mod setting_up;
