//! Calls and replies over TCP and RPC/RDMA: two engines back to back, and peers that break the rules. One program,
//! since each costs a link.
//!
//! `idle_memory`, `payload_memory` are programs of their own: they look at, or limit, what a whole process has.

#![allow(clippy::unwrap_used)]

mod callbacks;
mod common;
mod credits;
mod crowds;
mod duplicates;
mod hostile;
mod kept_memory;
mod rdma;
mod rdma_client;
mod rdma_pulls;
mod rdma_rules;
mod read_read;
mod tcp;
mod unreadable_files;
