//! Bytes to values and back: captures, properties and known answers. One program, since each costs a link.

#![allow(clippy::unwrap_used)]

mod iwarp_captures;
mod iwarp_properties;
mod iwarp_support;
mod iwarp_vectors;
mod nfs_captures;
mod nfs_properties;
mod nfs_support;
mod nfs_vectors;
mod rpc_captures;
mod rpc_properties;
mod rpc_vectors;
mod volume_messages;
mod volume_numbers;
