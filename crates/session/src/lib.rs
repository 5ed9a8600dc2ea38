//! Connections of untrusted peers, for any protocol: bounds on the memory that one peer can make a server hold.
//!
//! Both protocol stacks (`rpc`, `volume`) draw the memory of requests, replies and receives from one [`Budget`] for the
//! process. Each connection has an [`Account`] with it.
//!
//! What this crate refuses: wire formats, sockets, knowledge of any protocol above or provider below.
//!
//! A [`Gate`] turns away the peers that may use nothing here; [`Activities`] says which of the others have a place;
//! [`Deadlines`] end the connections whose peers are late. Of RDMA, [`ReceivePool`] divides the receives of a core
//! among its connections, and [`Credits`] tells a peer how many requests it may have under way. [`Freed`] has the
//! allocator give back what connections have left.
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
