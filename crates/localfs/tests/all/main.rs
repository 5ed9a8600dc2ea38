//! The local store as a file system. One program, since each costs a link.
//!
//! `local_file_size` are programs of their own: they look at, or limit, what a whole process has.

#![allow(clippy::unwrap_used)]

mod local_data;
mod local_handles;
mod local_listing;
mod local_names;
mod local_rights;
mod support;
