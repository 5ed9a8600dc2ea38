//! NFSv3 and MOUNT (RFC 1813): a server over any file store, a client over any RPC transport.
//!
//! [`server::Server`] turns calls into operations of a [`gannet_vfs::Vfs`] and their outcomes into replies. It is
//! policy that lives here: which directory is exported under which path, to whom, how callers are squashed, what
//! read-only means, how much goes into one reply. What an operation does to files is the store's business, how a
//! call arrived is the transport's ([`gannet_rpc`]).
//!
//! [`client::Client`] makes every procedure a typed `async` method; [`client::NfsFs`] above it is a mounted export as
//! a [`gannet_vfs::Vfs`].
//!
//! What this crate refuses: sockets, system calls, threads, a fabric provider's name; NFSv2 and NFSv4, locking
//! (NLM), ACLs, RPCSEC_GSS.
//!
//! Layers: [`server`] and [`client`] do not know each other; both use `convert`, where the wire's values and the
//! store's meet. First type to read: [`server::Server`].

pub mod client;
mod convert;
pub mod limits;
pub mod server;
