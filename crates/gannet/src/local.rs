//! The same on the runtime of a core of your own: without another thread, not `Send`, and with the inner interfaces.
//!
//! [`crate::Client`] runs on a thread of its own; the functions here run on the caller's. They are for programs made of
//! [`gannet_runtime`]'s cores, as the command line is.

#[cfg(feature = "volumes")]
pub use crate::client::connect::volume;
pub use crate::client::connect::{Connection, connect};
pub use crate::client::options::own_credentials;
pub use crate::client::remote::Remote;
#[cfg(all(feature = "server", feature = "mount"))]
pub use crate::mount::MountTally;
#[cfg(feature = "mount")]
pub use crate::mount::{Mounted, mount};
