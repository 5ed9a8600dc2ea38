//! Connections of untrusted peers, for any protocol: bounds on the memory that one peer can make a server hold.
//!
//! Both protocol stacks (`rpc`, `volume`) draw the memory of requests, replies and receives from one [`Budget`] for the
//! process. Each connection has an [`Account`] with it.
//!
//! This crate refuses: wire formats, sockets, knowledge of any protocol above or provider below.
//!
//! A [`Gate`] refuses the peers that no export admits; [`Activities`] gives places to the others;
//! [`Deadlines`] end the connections whose peers are late. For RDMA, [`ReceivePool`] divides the receives of a core
//! among its connections, and [`Credits`] bounds the requests that a peer may have under way. [`Freed`] has the
//! allocator give back memory of ended connections.
//!
//! First types to read: [`Budget`], then [`Activities`].

mod admission;
mod budget;
mod credits;
mod deadlines;
mod freed;
mod gate;
mod origin;
mod receives;

pub mod limits;

pub use admission::{Activities, Activity, ConnectionLimits, Listening, Shortage};
pub use budget::{Account, Budget, Charge};
pub use credits::{CreditLimits, Credits, Exceeded, Grant};
pub use deadlines::{Deadlines, Kept, Overdue, Timer, Waits};
pub use freed::Freed;
pub use gate::Gate;
pub use origin::Origin;
pub use receives::{PoolLimits, ReceivePool, Share};
