//! How long a peer may leave a connection in which state.

use crate::limits::{
    FIRST_CALL_DEADLINE, IDLE_DEADLINE, MEMORY_RETRY, RECORD_DEADLINE, RECORD_PAUSE_DEADLINE,
    WRITE_DEADLINE,
};
use gannet_runtime::Instant;
use std::fmt;

/// What a peer failed to do in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Overdue {
    FirstCall,
    Record,
    Reading,
    Idle,
}

impl Overdue {
    /// True when nothing is wrong but that nothing happens.
    pub(super) fn is_silence(self) -> bool {
        matches!(self, Overdue::Idle | Overdue::FirstCall)
    }
}

impl fmt::Display for Overdue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Overdue::FirstCall => "no valid call in time",
            Overdue::Record => "stuck in the middle of a record",
            Overdue::Reading => "the peer does not take its replies",
            Overdue::Idle => "idle for too long",
        })
    }
}

/// When things happened last.
pub(super) struct Deadlines {
    now: Instant,
    opened: Instant,
    /// Bytes came.
    received: Instant,
    /// Bytes came or went.
    moved: Instant,
    /// Nothing waited to be sent, or something went.
    unsent_since: Instant,
    /// The record under way began, or an earlier one ended.
    record_since: Instant,
    /// A valid call came.
    pub(super) established: bool,
}

impl Deadlines {
    pub(super) fn new(now: Instant) -> Deadlines {
        Deadlines {
            now,
            opened: now,
            received: now,
            moved: now,
            unsent_since: now,
            record_since: now,
            established: false,
        }
    }

    /// Sets the time of everything that follows.
    pub(super) fn at(&mut self, now: Instant) {
        self.now = now;
    }

    pub(super) fn now(&self) -> Instant {
        self.now
    }

    pub(super) fn bytes_received(&mut self) {
        self.received = self.now;
        self.moved = self.now;
    }

    pub(super) fn bytes_sent(&mut self) {
        self.unsent_since = self.now;
        self.moved = self.now;
    }

    pub(super) fn nothing_to_send(&mut self) {
        self.unsent_since = self.now;
    }

    pub(super) fn no_record_under_way(&mut self) {
        self.record_since = self.now;
    }

    /// The first bytes of a record were asked for: from now on the peer can be late with them.
    pub(super) fn record_begins(&mut self) {
        self.record_since = self.now;
        self.received = self.now;
    }

    /// What the peer must take before it can go on with the record is on its way.
    pub(super) fn record_goes_on(&mut self) {
        self.received = self.now;
    }

    /// Forgives a silence that is not the peer's.
    pub(super) fn excuse(&mut self) {
        self.moved = self.now;
        self.opened = self.now;
    }

    /// The next point at which the peer may be late.
    pub(super) fn next(&self, in_record: bool, waiting_to_send: bool) -> Instant {
        self.candidates(in_record, waiting_to_send)
            .map(|(at, _)| at)
            .min()
            .unwrap_or(self.now)
    }

    /// What the peer is late with now.
    pub(super) fn overdue(&self, in_record: bool, waiting_to_send: bool) -> Option<Overdue> {
        let mut late = self.candidates(in_record, waiting_to_send);
        late.find(|(at, _)| *at <= self.now).map(|(_, what)| what)
    }

    /// When to look for memory again.
    pub(super) fn memory_retry(&self) -> Instant {
        self.now + MEMORY_RETRY
    }

    fn candidates(
        &self,
        in_record: bool,
        waiting_to_send: bool,
    ) -> impl Iterator<Item = (Instant, Overdue)> {
        let first =
            (!self.established).then_some((self.opened + FIRST_CALL_DEADLINE, Overdue::FirstCall));
        let record = in_record.then_some((
            (self.received + RECORD_PAUSE_DEADLINE).min(self.record_since + RECORD_DEADLINE),
            Overdue::Record,
        ));
        let reading =
            waiting_to_send.then_some((self.unsent_since + WRITE_DEADLINE, Overdue::Reading));
        let idle = (self.moved + IDLE_DEADLINE, Overdue::Idle);
        [first, record, reading, Some(idle)].into_iter().flatten()
    }
}
