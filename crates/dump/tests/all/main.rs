//! Captures of real kernels, whole, cut, mixed and damaged. One program, since each costs a link.

#![allow(clippy::unwrap_used)]

mod captures;
mod dump;
