//! The whole binary against itself and foreign programs: a module for each thing that users do with it. One program,
//! since each costs a link.

#![allow(clippy::unwrap_used)]

mod admin;
mod alerting;
mod audit;
mod commands;
mod copies;
mod descriptors;
mod dscp;
mod dump;
mod examples;
mod failover;
mod full_disk;
mod generated;
mod libnfs;
mod locks;
mod monitoring;
mod mount;
mod mount_user;
mod native;
mod page;
mod reload;
mod serving;
mod slow;
mod standard;
mod support;
mod system_calls;
mod systemd;
mod volume;
#[path = "../../examples/volume_io.rs"]
mod volume_io;
mod volume_status;
mod watch;
