//! ONC RPC over byte streams and over RPC/RDMA, both sides.
//!
//! A [`Service`] executes calls and does not know how they came; a [`Client`] makes calls and does not know how
//! they go. Between them lie two transports: TCP with record marks, and RPC-over-RDMA version 1 in the Read-Write
//! design (the server alone starts bulk transfers; Read-Read where both ends want it), over any provider of the fabric
//! seam. A connection is duplex: a service calls its caller back ([`CallBack`]), and a client may have a service too.
//!
//! Layers, top down: [`Service`] and [`Client`]; the [`ReplyCache`], which answers a duplicate of a call that must
//! not be executed twice; the slots that run calls in place; the two transports. This crate refuses to know
//! any RPC program, to name any fabric provider, and to open sockets by itself.
//!
//! First types to read: [`Service`], then [`Call`] and [`Reply`].

mod calls;
mod chunks;
mod client;
mod counters;
pub mod limits;
mod outgoing;
mod poisoned;
mod records;
mod reply_cache;
mod rounds;
mod server;
mod service;

pub use calls::CallBack;
pub use client::{
    ArgumentPayload, CallError, CallerCredential, Client, ClientConfig, Persistence, Request,
    Response, Sink, Target,
};
pub use counters::Counters;
pub use gannet_datapath::{Engine, EngineError, FileRange};
pub use gannet_session::ConnectionLimits;
pub use gannet_wire::rpcrdma::Design;
pub use reply_cache::{CacheLimits, ReplyCache};
pub use server::{MemoryInUse, RdmaOptions, Server};
pub use service::{
    Call, Credential, CredentialFault, OpaqueArgument, PLACEMENT_PREFIX_LEN, Payload, Placed,
    Program, Refused, Reply, Service, TakenApart, Transport,
};
