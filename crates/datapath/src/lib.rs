//! How a range of an open file gets into a peer's memory, or into a stream. Every server of files goes this way, and
//! has no second one.
//!
//! A [`Datapath`] is one provider's way. It chooses the [`Engine`] for a range by what the provider can do and by the
//! range's length, and says at once what can be said at once ([`Ready`]): the file itself is the source, the bytes are
//! in memory, or they come from the disk later. [`Writes`] are the RDMA Writes that move them, with what their sources
//! need until they have left; [`Gather`] fills memory that is to be written. [`StreamPath`] is the way into a byte
//! stream.
//!
//! A server that has no protocol of its own for it sends a file of any length with one call, [`FileSender::send`].
//!
//! The rules that all share stand at [`FileRange`]: what is resident is not waited for; the disk is waited for on the
//! blocking pool alone; the length of a range was promised, so a file that has become shorter leaves zeros.
//!
//! What this crate refuses: protocols, their messages and credits, and a provider's name. A [`Datapath`] has no memory
//! of its own: who calls brings it, and bounds it.
//!
//! First types to read: [`FileRange`], then [`FileSender`] and [`Datapath`].

mod engine;
mod gather;
pub mod limits;
mod options;
mod range;
mod sender;
mod stream;
mod writes;

pub use engine::{Datapath, Engine, Ready};
pub use gather::Gather;
pub use options::{EngineError, SenderOptions};
pub use range::FileRange;
pub use sender::{Destination, FileSender, SENDER_WORK, SendCounts, SendError};
pub use stream::{Sent, StreamPath};
pub use writes::{Part, Writes};
