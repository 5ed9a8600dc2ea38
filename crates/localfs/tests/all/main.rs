//! The local store as a file system. One program, since each costs a link.
//!
//! `local_file_size` is a program of its own, since its limit holds for a whole process.

#![allow(clippy::unwrap_used)]

mod local_data;
mod local_handles;
mod local_listing;
mod local_names;
mod local_remount;
mod local_rights;
mod local_subvolumes;
mod support;
