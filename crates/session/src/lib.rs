//! Connections of peers that nobody trusts, whatever the protocol: what one peer can make a server hold is bounded.
//!
//! Both protocol stacks (`rpc`, `volume`) draw the memory of requests, replies and receives from one [`Budget`] for the
//! process. Each connection has an [`Account`] with it.
//!
//! What this crate refuses: wire formats, sockets, knowledge of any protocol above or provider below.
//!
//! First type to read: [`Budget`].

mod admission;
mod budget;
mod deadlines;
mod origin;

pub mod limits;

pub use admission::{Activities, Activity, ConnectionLimits, Crowd};
pub use budget::{Account, Budget, Charge};
pub use deadlines::{Deadlines, Overdue, Timer, Waits};
pub use origin::Origin;
