//! Receives in software: posted receives are a number, and memory is taken when a message comes.

use gannet_fabric::{PostError, Receives, SharedReceiveQueue, SharedReceives, WorkId};
use gannet_runtime::{Arena, Buffer};
use std::any::Any;
use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;

/// The shared receive queue of providers in software: posted receives are a number, and a message's memory is taken
/// from an arena when it comes.
pub struct SoftwareReceiveQueue {
    id: WorkId,
    /// The memory of messages. No other code takes slots of it, and `room` counts slots in use: so a posted receive
    /// always finds its memory.
    memory: Arena,
    posted: Cell<u32>,
    receives_max: u32,
}

impl SoftwareReceiveQueue {
    /// A queue with nothing posted.
    pub fn new(options: SharedReceives) -> Rc<SoftwareReceiveQueue> {
        Rc::new(SoftwareReceiveQueue {
            id: options.id,
            memory: Arena::new(options.len, options.receives_max as usize),
            posted: Cell::new(0),
            receives_max: options.receives_max,
        })
    }

    /// Takes a receive for a message; `None` when no receive is posted.
    fn take(&self) -> Option<(WorkId, Buffer)> {
        let left = self.posted.get().checked_sub(1)?;
        let buffer = self.memory.take()?;
        self.posted.set(left);
        Some((self.id, buffer))
    }
}

impl SharedReceiveQueue for SoftwareReceiveQueue {
    fn post(&self, count: u32) -> Result<(), PostError> {
        if count > self.room() {
            return Err(PostError::QueueFull);
        }
        self.posted.set(self.posted.get() + count);
        Ok(())
    }

    fn posted(&self) -> u32 {
        self.posted.get()
    }

    fn room(&self) -> u32 {
        let in_use = u32::try_from(self.memory.in_use()).unwrap_or(u32::MAX);
        let taken = self.posted.get().saturating_add(in_use);
        self.receives_max.saturating_sub(taken)
    }

    fn in_use(&self) -> usize {
        self.memory.in_use() * self.memory.slot_len()
    }

    fn trim_unused(&self) {
        self.memory.trim_unused();
    }
}

/// The receives of one endpoint, for providers in software.
pub enum EndpointReceives {
    /// Posted by its owner, oldest first.
    Own(VecDeque<(WorkId, Buffer)>),
    /// Receives of a shared queue: the number that was granted and not taken. A peer that sends more ends its own
    /// connection and takes no receive of another.
    Shared(Rc<SoftwareReceiveQueue>, u32),
}

impl EndpointReceives {
    /// The receives that an endpoint begins with; `None` when the queue belongs to another kind of provider.
    pub fn new(receives: Receives) -> Option<EndpointReceives> {
        match receives {
            Receives::Own(buffers) => {
                let ids = (0..).map(WorkId);
                Some(EndpointReceives::Own(ids.zip(buffers).collect()))
            }
            Receives::Shared { queue, granted } => {
                let queue: Rc<dyn Any> = queue;
                let queue = queue.downcast::<SoftwareReceiveQueue>().ok()?;
                Some(EndpointReceives::Shared(queue, granted))
            }
        }
    }

    /// See [`gannet_fabric::Endpoint::post_receive`]; `max` bounds the endpoint's own receives.
    ///
    /// # Errors
    /// [`PostError::QueueFull`] at the bound, [`PostError::Invalid`] with a shared queue.
    pub fn post(&mut self, id: WorkId, buffer: Buffer, max: usize) -> Result<(), PostError> {
        match self {
            EndpointReceives::Own(posted) if posted.len() >= max => Err(PostError::QueueFull),
            EndpointReceives::Own(posted) => {
                posted.push_back((id, buffer));
                Ok(())
            }
            EndpointReceives::Shared(..) => {
                Err(PostError::Invalid("the endpoint shares its receives"))
            }
        }
    }

    /// See [`gannet_fabric::Endpoint::grant_receives`].
    ///
    /// # Errors
    /// [`PostError::Invalid`] without a shared queue.
    pub fn grant(&mut self, count: u32) -> Result<(), PostError> {
        match self {
            EndpointReceives::Own(_) => {
                Err(PostError::Invalid("the endpoint has receives of its own"))
            }
            EndpointReceives::Shared(_, granted) => {
                *granted = granted.saturating_add(count);
                Ok(())
            }
        }
    }

    /// The number of its own receives that are posted; 0 with a shared queue.
    pub fn own_len(&self) -> usize {
        match self {
            EndpointReceives::Own(posted) => posted.len(),
            EndpointReceives::Shared(..) => 0,
        }
    }

    /// A receive for a message whose first segment is here; `None` when no receive is posted, or the peer has used up
    /// its grant.
    pub fn take(&mut self) -> Option<(WorkId, Buffer)> {
        match self {
            EndpointReceives::Own(posted) => posted.pop_front(),
            EndpointReceives::Shared(queue, granted) => {
                let left = granted.checked_sub(1)?;
                let taken = queue.take()?;
                *granted = left;
                Some(taken)
            }
        }
    }

    /// Ends the endpoint: returns its own receives, and voids its grant, whose receives other endpoints may take.
    pub fn drain(&mut self) -> VecDeque<(WorkId, Buffer)> {
        match self {
            EndpointReceives::Own(posted) => std::mem::take(posted),
            EndpointReceives::Shared(_, granted) => {
                *granted = 0;
                VecDeque::new()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(receives_max: u32) -> Rc<SoftwareReceiveQueue> {
        SoftwareReceiveQueue::new(SharedReceives {
            id: WorkId(9),
            len: 64,
            receives_max,
        })
    }

    fn endpoint(queue: &Rc<SoftwareReceiveQueue>, granted: u32) -> EndpointReceives {
        let queue = Rc::clone(queue) as Rc<dyn SharedReceiveQueue>;
        EndpointReceives::new(Receives::Shared { queue, granted }).unwrap()
    }

    #[test]
    fn posted_receives_and_memory_in_use_share_one_bound() {
        let queue = queue(3);
        queue.post(3).unwrap();
        assert_eq!(queue.post(1), Err(PostError::QueueFull));
        let (id, buffer) = queue.take().unwrap();
        assert_eq!((id, buffer.len()), (WorkId(9), 64));
        assert_eq!((queue.posted(), queue.room(), queue.in_use()), (2, 0, 64));
        drop(buffer);
        assert_eq!((queue.posted(), queue.room()), (2, 1));
        queue.post(1).unwrap();
        assert!((0..3).all(|_| queue.take().is_some()));
        assert_eq!(queue.posted(), 0);
    }

    #[test]
    fn an_endpoint_takes_its_grant_and_leaves_the_rest_to_others() {
        let queue = queue(10);
        queue.post(4).unwrap();
        let (mut greedy, mut modest) = (endpoint(&queue, 2), endpoint(&queue, 2));
        let held: Vec<_> = std::iter::from_fn(|| greedy.take()).collect();
        assert_eq!((held.len(), queue.posted()), (2, 2));
        greedy.grant(1).unwrap();
        assert!(greedy.take().is_some());
        assert!(greedy.drain().is_empty() && greedy.take().is_none());
        assert!(modest.take().is_some());
        assert!(modest.take().is_none(), "more was granted than is posted");
        assert!(matches!(
            modest.post(WorkId(1), Buffer::zeroed(1), 5),
            Err(PostError::Invalid(_))
        ));
    }
}
