//! The state of a connection: queued and posted work, and the tasks that wait.

use super::carried::CarriedMessage;
use super::error::EndReason;
use super::{EagerBuffer, LinkError, Message};
use gannet_fabric::{AccessError, Reference, RemoteAddress, Source, Span, WorkId};
use gannet_runtime::{Buffer, Instant, push_lean};
use gannet_session::Credits;
use gannet_wire::volume::Class;
use std::any::Any;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::rc::Rc;
use std::task::Waker;
use tokio::sync::oneshot;

/// A message and its length.
pub(super) type Composed = (Buffer, u32);

/// A value that is dropped when work has completed.
pub(crate) type Hold = Box<dyn Any>;

/// The count and the hold of a piece of work, until it completes.
pub(super) struct Held {
    /// So much work has left by then: it and unsignaled work before it.
    pub(super) count: u32,
    /// The limit of the peer's requests in it, modulo 2^32, if it is a message.
    pub(super) granted: Option<u32>,
    /// Dropped then, or with the connection.
    pub(super) _hold: Option<Hold>,
}

impl Held {
    pub(super) fn new(count: u32, granted: Option<u32>, hold: Option<Hold>) -> Held {
        Held {
            count,
            granted,
            _hold: hold,
        }
    }
}

/// A call that waits for its reply.
pub(super) struct Call {
    pub(super) sender: oneshot::Sender<Message>,
    pub(super) memory: RequestMemory,
}

/// The memory that the peer may use for a request.
#[derive(Default)]
pub(crate) struct RequestMemory {
    /// Eager buffers of the peer, free when the reply was used.
    pub(crate) slot: Option<EagerBuffer>,
    /// The bytes at the start of our eager buffer that leave with the request ([`super::carried`]).
    pub(crate) carries: Option<u32>,
    /// Memory of ours within the peer's reach, held until the reply comes.
    pub(crate) exposed: Option<Rc<dyn Any>>,
}

impl RequestMemory {
    pub(super) fn is_none(&self) -> bool {
        self.slot.is_none() && self.exposed.is_none()
    }
}

/// Work for the send queue.
pub(super) enum Outgoing {
    /// A message.
    Send(Composed),
    /// A message behind data that the peer expects in its eager buffer.
    Carried(CarriedMessage),
    /// An RDMA Write.
    Write {
        source: Source,
        target: RemoteAddress,
        hold: Option<Hold>,
    },
    /// An RDMA Read.
    Read {
        id: u64,
        sink: Span,
        source: RemoteAddress,
    },
    /// An optimistic read.
    ReadExported {
        id: u64,
        sink: Span,
        source: Reference,
    },
}

/// Requests that wait for credits, with their numbers, by class: a lower class leaves first.
#[derive(Default)]
pub(super) struct Requests {
    classes: [VecDeque<(u64, Outgoing)>; 4],
}

impl Requests {
    pub(super) fn push(&mut self, class: Class, id: u64, request: Outgoing) {
        if let Some(queue) = self.classes.get_mut(class as usize) {
            push_lean(queue, (id, request));
        }
    }

    pub(super) fn pop(&mut self) -> Option<(u64, Outgoing)> {
        self.classes.iter_mut().find_map(VecDeque::pop_front)
    }

    /// Takes a request out of the queue; false if it has left.
    pub(super) fn remove(&mut self, id: u64) -> bool {
        self.classes.iter_mut().any(|queue| {
            let at = queue.iter().position(|(other, _)| *other == id);
            at.and_then(|at| queue.remove(at)).is_some()
        })
    }

    pub(super) fn clear(&mut self) {
        self.classes.iter_mut().for_each(VecDeque::clear);
    }
}

/// The mutable state of a connection.
#[derive(Default)]
pub(super) struct State {
    last_id: u64,
    pub(super) calls: BTreeMap<u64, Call>,
    /// The tasks that wait for RDMA Reads; only optimistic ones can be refused.
    pub(super) reads: BTreeMap<u64, oneshot::Sender<Result<(), AccessError>>>,
    /// Since when the peer owes the reply to a request, or the bytes of an RDMA Read; also of abandoned ones.
    pub(super) owed: HashMap<u64, Instant>,
    /// The counts and holds of work, by its number.
    pub(super) held: BTreeMap<u64, Held>,
    pub(super) requests: Requests,
    pub(super) outgoing: VecDeque<Outgoing>,
    /// The tasks that wait until the queue is shorter.
    pub(super) room: Vec<Waker>,
    /// Work in the send queue.
    pub(super) posted: u32,
    /// Unsignaled work since the last that is signaled.
    pub(super) silent: u32,
    /// Requests sent, and how many the peer allows, modulo 2^32.
    pub(super) sent: u32,
    pub(super) allowed: u32,
    /// The credits of the peer, on an accepted connection.
    pub(super) credits: Option<Credits>,
    /// Requests of the peer that are under way here.
    pub(super) under_way: u32,
    /// The tasks that wait until there are none.
    pub(super) idle: Vec<Waker>,
    /// The peer has answered a request: it has authenticated us, and so has ended what came by earlier connections of
    /// ours.
    pub(super) has_answered: bool,
    pub(super) closing: bool,
    /// The tasks that wait for the end.
    pub(super) ended: Vec<Waker>,
    pub(super) end: Option<LinkError>,
}

impl State {
    /// The state of the connecting side, which may send `allowed` requests before the first reply.
    pub(super) fn connecting(allowed: u32) -> State {
        State {
            allowed,
            ..State::default()
        }
    }

    /// The state of the accepting side, which grants `credits` to the peer.
    pub(super) fn accepting(credits: Credits) -> State {
        State {
            credits: Some(credits),
            ..State::default()
        }
    }

    /// The requests that we allow the peer, modulo 2^32.
    pub(super) fn granted(&self) -> u32 {
        // The format counts modulo 2^32.
        self.credits.as_ref().map_or(0, Credits::reported) as u32
    }

    /// Notes that a message has left which granted the peer so many requests, modulo 2^32.
    pub(super) fn credits_left(&mut self, granted: u32) {
        if let Some(credits) = &mut self.credits {
            let reported = credits.reported();
            let since = (reported as u32).wrapping_sub(granted);
            credits.left(reported.saturating_sub(u64::from(since)));
        }
    }

    /// Frees the room of the tables. Nothing is under way.
    pub(super) fn rest(&mut self) {
        self.requests = Requests::default();
        self.outgoing = VecDeque::new();
        self.room = Vec::new();
        self.idle = Vec::new();
        self.owed = HashMap::new();
    }

    /// Whether no work is queued, posted or under way.
    pub(super) fn is_quiet(&self) -> bool {
        self.outgoing.is_empty() && self.posted == 0 && self.under_way == 0
    }

    pub(super) fn check(&self) -> Result<(), LinkError> {
        match &self.end {
            Some(why) => Err(why.clone()),
            None if self.closing => Err(EndReason::Closing.into()),
            None => Ok(()),
        }
    }

    pub(super) fn take_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    pub(super) fn expect_read(&mut self, sender: oneshot::Sender<Result<(), AccessError>>) -> u64 {
        let id = self.take_id();
        self.reads.insert(id, sender);
        id
    }

    /// Keeps this until a piece of work completes; gives the number of the work.
    pub(super) fn hold(&mut self, held: Held) -> u64 {
        let id = self.take_id();
        self.held.insert(id, held);
        id
    }

    /// Whether there is a credit for one more request.
    pub(super) fn has_credit(&self) -> bool {
        self.allowed.wrapping_sub(self.sent).cast_signed() > 0
    }

    /// Notes the peer's limit of our requests; an older limit changes nothing, for replies may come out of order.
    pub(super) fn hear_credits(&mut self, allowed: u32) {
        if allowed.wrapping_sub(self.allowed).cast_signed() > 0 {
            self.allowed = allowed;
        }
    }
}

/// The kind of a piece of work, encoded in the identifier of its completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    Receive,
    /// So much work has left: this one and those before it.
    Left(u32),
    /// As [`Work::Left`], of a message that granted the peer so many requests.
    Sent {
        count: u32,
        granted: u32,
    },
    Read(u64),
    ReadExported(u64),
    /// As [`Work::Left`], with a value that is held until then.
    Released(u64),
}

impl Work {
    const SHIFT: u32 = 60;

    pub(super) fn id(self) -> WorkId {
        let (kind, value) = match self {
            Work::Receive => (0, 0),
            Work::Left(count) => (1, u64::from(count)),
            Work::Read(id) => (2, id),
            Work::Released(id) => (3, id),
            Work::ReadExported(id) => (5, id),
            // Far fewer than the bits that are left for them.
            Work::Sent { count, granted } => (4, u64::from(count) << 32 | u64::from(granted)),
        };
        WorkId(kind << Work::SHIFT | value)
    }

    pub(super) fn of(id: WorkId) -> Work {
        let value = id.0 & ((1 << Work::SHIFT) - 1);
        match id.0 >> Work::SHIFT {
            1 => Work::Left(u32::try_from(value).unwrap_or(u32::MAX)),
            2 => Work::Read(value),
            3 => Work::Released(value),
            5 => Work::ReadExported(value),
            4 => Work::Sent {
                count: (value >> 32) as u32,
                granted: value as u32,
            },
            _ => Work::Receive,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_known_again_by_its_completion() {
        for work in [
            Work::Receive,
            Work::Left(7),
            Work::Read(1 << 40),
            Work::ReadExported(1 << 40),
            Work::Released(1 << 40),
            Work::Sent {
                count: 40,
                granted: u32::MAX,
            },
        ] {
            assert_eq!(Work::of(work.id()), work);
        }
    }

    #[test]
    fn credits_count_on_over_the_end_of_their_word() {
        let mut state = State {
            sent: u32::MAX,
            allowed: u32::MAX,
            ..State::default()
        };
        assert!(!state.has_credit());
        state.hear_credits(1);
        assert!(state.has_credit());
        state.hear_credits(u32::MAX - 5);
        assert_eq!(state.allowed, 1, "an older word");
    }

    #[test]
    fn metadata_does_not_wait_behind_bulk() {
        let mut requests = Requests::default();
        for (class, id) in [(Class::Bulk, 1), (Class::Metadata, 2), (Class::Bulk, 3)] {
            requests.push(class, id, Outgoing::Send((Buffer::zeroed(1), id as u32)));
        }
        let order = std::iter::from_fn(|| requests.pop());
        let order: Vec<u64> = order.map(|(id, _)| id).collect();
        assert_eq!(order, [2, 1, 3]);
    }
}
