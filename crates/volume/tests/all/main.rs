//! Striped volumes in the simulator: clients, manager and I/O servers, under faults. The tests are one program,
//! because each program costs a link.
//!
//! `idle_memory` is a program of its own, because it measures a whole process.

#![allow(clippy::unwrap_used)]

mod attributes;
mod client_driven;
mod common;
mod connecting;
mod copies;
mod copies_changed;
mod copies_chosen;
mod credits;
mod cuts;
mod faults;
mod full_disks;
mod given_up;
mod groups;
mod hostile_reads;
mod intents;
mod leases;
mod locks;
mod number_leases;
mod object_states;
mod orphans;
mod overlap;
mod page_cache;
mod placement;
mod reconnect;
mod registry;
mod revoked;
mod servers;
mod settled;
mod silence;
mod slots;
mod striping;
mod takeover;
mod terms;
mod transfer;
mod unauthenticated;
mod unnamed;
mod versions;
mod volume;
