//! Striped volumes: one name space over many I/O servers.
//!
//! A file of a volume is cut into stripes that go round over its I/O servers ([`layout`]). Each server keeps its part
//! as one *object*, an ordinary file of its own file system. The manager keeps names, attributes and layouts
//! ([`gannet_meta`]) and never sees data; the size of a file is what its objects say it is.
//!
//! What this crate refuses: providers' names, sockets, clocks.
//!
//! First type to read: [`layout::Parts`].

pub mod client;
mod convert;
pub mod host;
pub mod io_server;
pub mod layout;
pub mod limits;
pub mod link;
pub mod locks;
pub mod manager;
pub mod number_lease;
mod peers;
pub mod secret;
pub mod serve;
mod watched;
