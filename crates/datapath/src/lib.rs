//! The way of a range of an open file into a peer's memory, or into a stream. All servers of files use it.
//!
//! A [`Datapath`] is one provider's way. It chooses the [`Engine`] for a range by the provider's abilities and the
//! range's length, and returns the source at once ([`Ready`]): the file itself, bytes in memory, or a read from the
//! disk that is under way. [`Writes`] are the RDMA Writes that move the bytes, with their sources until they have
//! left;
//! [`Gather`] fills memory that is to be written. [`StreamPath`] is the way into a byte stream.
//!
//! A server without a protocol of its own for it sends a file of any length with one call, [`FileSender::send`].
//!
//! The rules that all share are documented at [`FileRange`]: a core never waits for the disk, which the blocking pool
//! does alone; the length of a range is fixed by a header that has left, so a file that became shorter is filled up
//! with zeros.
//!
//! This crate refuses: protocols, their messages and credits, and a provider's name. A [`Datapath`] has no memory
//! of its own: the caller brings it, and bounds it.
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
