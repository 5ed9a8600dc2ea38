//! Receives: each endpoint's own, or a queue that several endpoints share.
//!
//! A shared queue has two bounds. [`SharedReceiveQueue::post`] sets the number of messages for which there is memory;
//! [`Endpoint::grant_receives`] sets the part of them that one endpoint's peer may use up. A provider that keeps the
//! grants apart ends the connection of a peer that sends more, and no other connection misses a receive for it.
//!
//! [`Endpoint::grant_receives`]: crate::Endpoint::grant_receives

use crate::{PostError, WorkId};
use gannet_runtime::Buffer;
use std::any::Any;
use std::fmt;
use std::rc::Rc;

/// Receives for the messages of several endpoints of one core (verbs: a shared receive queue).
///
/// A message takes a receive when its first segment arrives. Its memory belongs to the queue, comes with the
/// completion, and is there for a later [`SharedReceiveQueue::post`] once it is dropped.
pub trait SharedReceiveQueue: Any {
    /// Posts `count` more receives. Software takes no memory for them before their messages come.
    ///
    /// # Errors
    /// [`PostError::QueueFull`] beyond [`SharedReceiveQueue::room`]; none is posted then.
    fn post(&self, count: u32) -> Result<(), PostError>;

    /// Posted receives that no message has taken.
    fn posted(&self) -> u32;

    /// The number that can be posted now: the queue's bound, less the posted receives, less the messages whose memory
    /// is not dropped yet.
    fn room(&self) -> u32;

    /// Bytes of memory that messages hold now.
    fn in_use(&self) -> usize;

    /// Gives memory back to the system that no message has used since the last call of this, as far as the provider
    /// need not keep it posted.
    fn trim_unused(&self);
}

/// The parameters of a shared receive queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharedReceives {
    /// The work id in every completion of its receives.
    pub id: WorkId,
    /// Bytes of one receive.
    pub len: usize,
    /// Receives posted and messages whose memory is in use, together.
    pub receives_max: u32,
}

/// The receives of an endpoint.
pub enum Receives {
    /// In its own receives: these are in place before the peer can send, with ids 0, 1, 2 ...
    Own(Vec<Buffer>),
    /// In receives that it shares with other endpoints.
    Shared {
        /// The queue; of the provider that makes the connection.
        queue: Rc<dyn SharedReceiveQueue>,
        /// Messages that may come before the first [`crate::Endpoint::grant_receives`].
        granted: u32,
    },
}

impl Default for Receives {
    fn default() -> Receives {
        Receives::Own(Vec::new())
    }
}

impl From<Vec<Buffer>> for Receives {
    fn from(receives: Vec<Buffer>) -> Receives {
        Receives::Own(receives)
    }
}

impl FromIterator<Buffer> for Receives {
    fn from_iter<T: IntoIterator<Item = Buffer>>(receives: T) -> Receives {
        Receives::Own(receives.into_iter().collect())
    }
}

impl fmt::Debug for Receives {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Receives::Own(receives) => f.debug_tuple("Own").field(&receives.len()).finish(),
            Receives::Shared { granted, .. } => f
                .debug_struct("Shared")
                .field("granted", granted)
                .finish_non_exhaustive(),
        }
    }
}
