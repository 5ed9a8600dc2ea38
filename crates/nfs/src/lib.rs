//! NFSv3 and MOUNT (RFC 1813): a server over any file store, a client over any RPC transport.
//!
//! [`server::Server`] turns calls into operations of a [`gannet_vfs::Vfs`] and their outcomes into replies. This crate
//! has the policy: the exported directories and their paths, the clients they are exported to, squashing of callers,
//! read-only exports, the length of replies. The store executes the operations, and the transport ([`gannet_rpc`])
//! moves the calls.
//!
//! [`client::Client`] makes every procedure a typed `async` method; [`client::NfsFs`] above it is a mounted export as
//! a [`gannet_vfs::Vfs`].
//!
//! This crate refuses: sockets, system calls, threads, a fabric provider's name; NFSv2 and NFSv4, locking
//! (NLM), ACLs, RPCSEC_GSS.
//!
//! Layers: [`server`] and [`client`] do not know each other; both use `convert`, which converts between the values of
//! the wire and of the store. First type to read: [`server::Server`].

pub mod client;
mod convert;
pub mod limits;
pub mod server;
