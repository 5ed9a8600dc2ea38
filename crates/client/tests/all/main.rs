//! Paths, listings and transfers over file systems that no protocol is needed for: a directory of this machine, and the
//! simulator's store when it fails. What they do over NFS and on volumes is tested there.

#![allow(clippy::unwrap_used)]

mod failing;
mod local;
