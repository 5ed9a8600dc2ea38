//! What a peer makes this side hold, and the requests of it that wait because that is much.

use super::{Message, Shared};
use gannet_runtime::Instant;
use gannet_session::limits::MEMORY_RETRY_MAX;
use gannet_session::{Activity, Charge, Kept};
use gannet_wire::volume::MESSAGE_MAX;
use std::collections::VecDeque;
use std::task::Context;

/// The place of an accepted connection, and what its peer makes us hold.
pub(super) struct Holding {
    activity: Activity,
    held: Charge,
    kept: Kept,
    /// Bytes of messages that came and went.
    moved: u64,
    /// Requests that have come and are not begun, in their order. Credits bound their number.
    waiting: VecDeque<Message>,
}

impl Holding {
    pub(super) fn new(activity: Activity) -> Holding {
        Holding {
            held: activity.account().charge(0),
            activity,
            kept: Kept::default(),
            moved: 0,
            waiting: VecDeque::new(),
        }
    }
}

impl Shared {
    /// Bytes of messages that wait for the peer to take them, and of those that are worked on.
    fn messages_held(&self) -> (usize, usize) {
        let state = self.state.borrow();
        let unsent = state.outgoing.len() + state.posted as usize;
        let under_way = state.under_way as usize;
        (unsent * MESSAGE_MAX, under_way * MESSAGE_MAX)
    }

    /// Puts a request behind those that wait to be begun.
    pub(super) fn wait_for_room(&self, request: Message) {
        if let Some(holding) = &mut *self.holding.borrow_mut() {
            holding.activity.note(self.runtime.now());
            holding.moved += MESSAGE_MAX as u64;
            holding.waiting.push_back(request);
        }
    }

    /// So much work has left.
    pub(super) fn note_left(&self, count: u32) {
        if let Some(holding) = &mut *self.holding.borrow_mut() {
            holding.moved += u64::from(count) * MESSAGE_MAX as u64;
        }
    }

    /// The next request, if the peer may make us hold one more reply.
    pub(super) fn next_request(&self) -> Option<Message> {
        let (unsent, under_way) = self.messages_held();
        let mut holding = self.holding.borrow_mut();
        let holding = holding.as_mut()?;
        holding.held.set(unsent + under_way);
        // Request and reply. One at a time goes on however little is left.
        let has_room =
            unsent + under_way == 0 || holding.activity.account().has_room_for(2 * MESSAGE_MAX);
        has_room.then(|| holding.waiting.pop_front())?
    }

    /// Why the connection has to end; otherwise when to look again, if it must.
    pub(super) fn look(&self, context: &mut Context<'_>) -> Result<Option<Instant>, &'static str> {
        let (unsent, under_way) = self.messages_held();
        let mut holding = self.holding.borrow_mut();
        let Some(holding) = holding.as_mut() else {
            return Ok(None);
        };
        let (activity, now) = (&holding.activity, self.runtime.now());
        activity.register(context);
        if activity.is_evicted() {
            return Err("idle, and others need the room");
        }
        holding.held.set(unsent + under_way);
        holding.kept.note(now, unsent, holding.moved);
        let waits = !holding.waiting.is_empty();
        activity.account().set_waiting(waits);
        let due = holding.kept.due(now, activity.account().is_scarce());
        if due.is_some_and(|due| due <= now) {
            return Err("the peer keeps memory that others wait for");
        }
        let retry = waits.then(|| now + MEMORY_RETRY_MAX);
        Ok(due.into_iter().chain(retry).min())
    }

    /// The connection is over: its place is another's, and no request of it is begun any more.
    pub(super) fn leave_place(&self) {
        drop(self.holding.take());
    }
}
