//! Wire formats of Gannet: bytes to values and back.
//!
//! This crate knows the layouts of the protocols Gannet speaks and nothing else: no sockets, no clock, no
//! allocation sized by a peer's word without a bound, no `unsafe`, no panic on any input. It is `no_std` so
//! that none of those can be named here.
//!
//! Two families, each a stack from the bottom up:
//!
//! - iWARP: [`mpa`] frames, [`ddp`] segments, [`rdmap`] operations and Terminates;
//! - files: [`xdr`] primitives, [`rpc`] messages and record marks, [`rpcrdma`] transport headers,
//!   [`mount3`], [`nfs3`] and [`nfsacl3`] procedures, [`volume`] messages.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod ddp;
mod field;
pub mod mount3;
pub mod mpa;
pub mod nfs3;
pub mod nfsacl3;
mod printable;
pub mod rdmap;
pub mod rpc;
pub mod rpcrdma;
pub mod volume;
pub mod xdr;

pub use printable::{BitName, Escaped, Hex, NamedBits, printable};
