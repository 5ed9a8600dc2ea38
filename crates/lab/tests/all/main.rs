//! The machines of the testbeds, primitive operations first, then whole papers. One program, since each costs a link.

#![allow(clippy::unwrap_used)]

mod nic;
mod nic_disk;
mod nic_papers;
mod nic_pvfs;
mod pair;
mod papers_pvfs;
