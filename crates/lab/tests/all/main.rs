//! The machines of the testbeds, primitive operations first, then whole papers; and the binary. One program, since each
//! costs a link.

#![allow(clippy::unwrap_used)]

mod laboratory;
mod nic;
mod nic_disk;
mod nic_papers;
mod nic_pvfs;
mod pair;
mod papers_odafs;
mod papers_pvfs;
mod peers;
mod serving;
mod support;
