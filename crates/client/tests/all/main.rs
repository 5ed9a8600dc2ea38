//! Paths, listings and transfers over file systems without a protocol: a directory of this machine, and the
//! simulator's store when it fails. The crates of NFS and of volumes test them over those protocols.

#![allow(clippy::unwrap_used)]

mod failing;
mod local;
