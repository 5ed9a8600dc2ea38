//! The memory that a peer makes this side hold, and its requests that wait for room in the budget.

use super::error::EndReason;
use super::{Message, Shared};
use gannet_runtime::{Instant, push_lean};
use gannet_session::limits::{MEMORY_RETRY_MAX, REST_AFTER};
use gannet_session::{Activity, Charge, Kept};
use gannet_wire::volume::MESSAGE_MAX;
use std::collections::VecDeque;
use std::task::Context;

/// The place of an accepted connection, and the memory that its peer makes us hold.
pub(super) struct Holding {
    activity: Activity,
    held: Charge,
    kept: Kept,
    /// Bytes of messages that came and went.
    moved: u64,
    /// Requests that have not begun, in their order. Credits bound their number.
    waiting: VecDeque<Message>,
    /// When a message came or left last, if tables may have grown since the connection rested.
    used: Option<Instant>,
    /// Tables were freed, and `has_rested` was not called since.
    rested: bool,
}

impl Holding {
    pub(super) fn new(activity: Activity) -> Holding {
        Holding {
            held: activity.account().charge(0),
            activity,
            kept: Kept::default(),
            moved: 0,
            waiting: VecDeque::new(),
            used: None,
            rested: false,
        }
    }
}

/// Bytes of messages that a connection holds.
struct HeldBytes {
    /// Messages that the peer has not taken.
    unsent: usize,
    /// Requests under way.
    under_way: usize,
}

impl Shared {
    fn messages_held(&self) -> HeldBytes {
        let state = self.state.borrow();
        let unsent = state.outgoing.len() + state.posted as usize;
        let under_way = state.under_way as usize;
        HeldBytes {
            unsent: unsent * MESSAGE_MAX,
            under_way: under_way * MESSAGE_MAX,
        }
    }

    /// Queues a request behind those that have not begun.
    pub(super) fn wait_for_room(&self, request: Message) {
        if let Some(holding) = &mut *self.holding.borrow_mut() {
            let now = self.runtime.now();
            holding.activity.note(now);
            holding.used = Some(now);
            self.pool.accepted.note_use(&self.runtime);
            holding.moved += MESSAGE_MAX as u64;
            push_lean(&mut holding.waiting, request);
        }
    }

    /// So much work has left.
    pub(super) fn note_left(&self, count: u32) {
        if let Some(holding) = &mut *self.holding.borrow_mut() {
            holding.moved += u64::from(count) * MESSAGE_MAX as u64;
            holding.used = Some(self.runtime.now());
        }
    }

    /// The next request, if the budget has room for its reply.
    pub(super) fn next_request(&self) -> Option<Message> {
        let HeldBytes { unsent, under_way } = self.messages_held();
        let mut holding = self.holding.borrow_mut();
        let holding = holding.as_mut()?;
        holding.held.set(unsent + under_way);
        // Room for request and reply. One request goes on however little is left: otherwise the connection could never
        // free what it holds.
        let has_room =
            unsent + under_way == 0 || holding.activity.account().has_room_for(2 * MESSAGE_MAX);
        has_room.then(|| holding.waiting.pop_front())?
    }

    /// The reason why the connection must end; otherwise when to look again, if at all.
    pub(super) fn look(&self, context: &mut Context<'_>) -> Result<Option<Instant>, EndReason> {
        let HeldBytes { unsent, under_way } = self.messages_held();
        let mut holding = self.holding.borrow_mut();
        let Some(holding) = holding.as_mut() else {
            return Ok(None);
        };
        let (activity, now) = (&holding.activity, self.runtime.now());
        activity.register(context);
        if activity.is_evicted() {
            return Err(EndReason::Evicted);
        }
        holding.held.set(unsent + under_way);
        holding.kept.note(now, unsent, holding.moved);
        let waits = !holding.waiting.is_empty();
        activity.account().set_waiting(waits);
        let due = holding.kept.due(now, activity.account().is_scarce());
        if due.is_some_and(|due| due <= now) {
            return Err(EndReason::MemoryForMessages);
        }
        let retry = waits.then(|| now + MEMORY_RETRY_MAX);
        let rest = self.rest_when_due(holding, now);
        Ok(due.into_iter().chain(retry).chain(rest).min())
    }

    /// Frees the room of tables when nothing has moved for a while. Gives when to look again.
    fn rest_when_due(&self, holding: &mut Holding, now: Instant) -> Option<Instant> {
        let due = holding.used? + REST_AFTER;
        let mut state = self.state.borrow_mut();
        if due > now || !state.is_quiet() || !holding.waiting.is_empty() {
            // Work that is under way sets `used` when it leaves.
            return (due > now).then_some(due);
        }
        state.rest();
        holding.waiting = VecDeque::new();
        holding.used = None;
        holding.rested = true;
        self.pool.accepted.note_freed(&self.runtime);
        None
    }

    /// Whether tables were freed since the last call.
    pub(super) fn has_rested(&self) -> bool {
        let mut holding = self.holding.borrow_mut();
        let rested = holding.as_mut().map(|holding| &mut holding.rested);
        rested.is_some_and(std::mem::take)
    }

    /// Frees the place of a connection that is over; none of its waiting requests begins any more.
    pub(super) fn leave_place(&self) {
        drop(self.holding.take());
    }
}
