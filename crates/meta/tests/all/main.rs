//! Metadata of volumes: names as POSIX has them, and a journal that is cut off anywhere. One program, since each
//! costs a link.

#![allow(clippy::unwrap_used)]

mod engine;
mod journal;
mod namespace;
