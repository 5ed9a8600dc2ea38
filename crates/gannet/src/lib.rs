//! Files over RDMA, with an RNIC in software, for any Rust program.
//!
//! A [`Client`] is a server's files: over RDMA (`nfs+rdma://HOST/`), over TCP (`nfs://HOST/`), or on a striped volume
//! (`gannet://HOST/`). A [`Server`] serves a directory to any NFSv3 client, a Linux kernel's among them, or a volume,
//! which the module `volume` makes. Both have threads of their own: their handles are `Send`, and work from any thread
//! and any executor.
//!
//! ```
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # std::fs::write(directory.path().join("hello"), "over RDMA")?;
//! let server = gannet::Server::builder().directory(directory.path()).start()?;
//! let client = gannet::Client::connect(&server.rdma_url()).await?;
//! let bytes = client.read("hello").await?;
//! assert_eq!(bytes, b"over RDMA");
//! # server.stop()?;
//! # Ok(())
//! # }
//! # tokio::runtime::Runtime::new()?.block_on(example())
//! # .map_err(|error| std::io::Error::other(error.to_string()))?;
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! A [`Mount`] is a server's directory in the tree of this machine, through FUSE.
//!
//! A server with a protocol of its own has messages, registered memory and a `sendfile` over RDMA in the module `rdma`.
//!
//! Features: `rdma` (that module), `server` (serving directories), `volumes` (`gannet://` URLs), `mount` (FUSE).
//! `server` and `volumes` together also make and serve volumes. All are on by default.
//!
//! This crate connects the parts and implements none of them. It has no command lines, configuration files or
//! terminals.

#[cfg(feature = "server")]
pub mod admin;
mod client;
mod error;
mod file;
#[cfg(feature = "volumes")]
mod key;
pub mod local;
#[cfg(feature = "mount")]
mod mount;
mod provider;
#[cfg(feature = "server")]
mod questions;
#[cfg(feature = "rdma")]
pub mod rdma;
#[cfg(feature = "server")]
mod registrations;
#[cfg(feature = "server")]
pub mod server;
mod transfer_memory;
pub mod url;
#[cfg(all(feature = "server", feature = "volumes"))]
pub mod volume;
mod worker;

pub use client::{Client, ConnectOptions, Entry};
pub use error::{ConnectError, Error};
pub use file::{File, FileReader, FileWriter};
pub use gannet_fabric::registration::Registration;
pub use gannet_rpc::Design;
pub use gannet_runtime::Buffer;
pub use gannet_verbs::{DeviceInfo, PortInfo, VerbsError};
pub use gannet_vfs::{Attributes, Credentials, FileKind, FileSystemUsage, Status};
#[cfg(feature = "volumes")]
pub use key::{ClientKey, KeyError, token};
#[cfg(feature = "mount")]
pub use mount::{Caching, Closing, FrontEndError, Locks, Mount, MountError, MountOptions};
pub use provider::{FabricOptions, ProviderKind, UnknownProvider, rdma_devices};
#[cfg(feature = "server")]
pub use server::Server;
pub use transfer_memory::TransferMemory;
#[cfg(all(feature = "server", feature = "volumes"))]
pub use volume::{Volume, VolumeError};
