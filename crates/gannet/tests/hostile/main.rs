//! Peers and users who mean harm, against the whole binary: a module for each thing that they attack.

#![allow(clippy::unwrap_used)]

mod copy;
#[path = "../support/mod.rs"]
mod support;
