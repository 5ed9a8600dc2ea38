//! The NFSv3 server and client over both transports, and what hostile peers and failing disks do to them. One
//! program, since each costs a link.

#![allow(clippy::unwrap_used)]

mod audit;
mod counting;
mod distrust;
mod files;
mod hostile;
mod instructions;
mod local;
mod policy;
mod procedures;
mod resent;
mod restart;
mod shared_looks;
mod support;
