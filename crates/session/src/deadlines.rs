//! The deadlines of a connection's peer, and their timer.

use crate::limits::{
    CONNECTION_BYTES, DONE_DEADLINE, FIRST_CALL_DEADLINE, IDLE_DEADLINE, MEMORY_RETRY_MAX,
    MEMORY_RETRY_MIN, RECORD_DEADLINE, RECORD_PAUSE_DEADLINE, REST_AFTER, SCARCE_DEADLINE,
    SCARCE_LOOK, WRITE_DEADLINE,
};
use gannet_runtime::{Handle, Instant, LocalFuture};
use std::task::Context;
use std::time::Duration;
use thiserror::Error;

/// The deadline that a peer has missed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Overdue {
    /// It has made no valid call.
    #[error("no valid call in time")]
    FirstCall,
    /// It has begun a record, or owes the bytes of an RDMA Read.
    #[error("stuck in the middle of a record")]
    Record,
    /// It takes no byte of its replies.
    #[error("the peer does not take its replies")]
    Reading,
    /// It has not released an exposed reply in time.
    #[error("the peer did not release a reply that it reads (RDMA_DONE) in time")]
    Done,
    /// It makes the process hold memory without progress while others wait for memory.
    #[error("it keeps memory that others wait for")]
    Scarce,
    /// No byte has moved.
    #[error("idle for too long")]
    Idle,
}

impl Overdue {
    /// True for silence, which is no fault of the peer while this side has work for it.
    fn is_silence(self) -> bool {
        matches!(self, Overdue::Idle | Overdue::FirstCall)
    }
}

/// The state of a connection that decides which deadlines its peer has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Waits {
    /// A valid call came.
    pub established: bool,
    /// The peer owes the rest of a record, or the answers to RDMA Reads.
    pub in_record: bool,
    /// Bytes wait for the peer to take them.
    pub to_send: bool,
    /// This side has work to do: silence is not the peer's fault.
    pub busy: bool,
    /// Memory is missing, and no wake-up comes when it is free again.
    pub short_of_memory: bool,
    /// The time since which the peer has had an exposed reply.
    pub exposed_since: Option<Instant>,
    /// Others wait for memory.
    pub scarce: bool,
    /// The connection keeps memory that only a busy one needs.
    pub grown: bool,
}

/// Wakes a connection when its peer is late.
///
/// A deadline that moves away does not set the timer again. The timer then goes off too early and is set, which costs
/// less than to set it with every call.
pub struct Timer {
    sleep: LocalFuture<()>,
    at: Instant,
    /// The pause before the next look for memory.
    pause: Duration,
}

impl Timer {
    /// A timer for the first deadline of a new connection.
    pub fn new(runtime: &Handle, deadlines: &Deadlines) -> Timer {
        let at = deadlines.next(Waits::default());
        let sleep = runtime.sleep_until(at);
        Timer {
            sleep,
            at,
            pause: MEMORY_RETRY_MIN,
        }
    }

    /// Registers the connection to be woken at its next deadline. True when it should look for memory now, or rest.
    ///
    /// # Errors
    /// [`Overdue`]: the peer has missed a deadline.
    pub fn poll(
        &mut self,
        context: &mut Context<'_>,
        runtime: &Handle,
        deadlines: &mut Deadlines,
        waits: Waits,
    ) -> Result<bool, Overdue> {
        if !waits.short_of_memory {
            self.pause = MEMORY_RETRY_MIN;
        }
        loop {
            let mut deadline = deadlines.next(waits);
            if waits.short_of_memory {
                deadline = deadline.min(deadlines.now + self.pause);
            }
            if deadline < self.at {
                self.set(runtime, deadline);
            }
            if self.sleep.as_mut().poll(context).is_pending() {
                return Ok(false);
            }
            deadlines.at(runtime.now());
            match deadlines.overdue(waits) {
                Some(overdue) if !(waits.busy && overdue.is_silence()) => return Err(overdue),
                Some(_) => deadlines.excuse(),
                None => {}
            }
            let rests = waits.grown && deadlines.are_resting();
            let grown = waits.grown && !rests;
            self.set(runtime, deadlines.next(Waits { grown, ..waits }));
            if waits.short_of_memory {
                // Thousands of connections may wait, and each look costs time. The pauses grow, so that looks do not
                // use up the core's time.
                self.pause = MEMORY_RETRY_MAX.min(2 * self.pause);
            }
            if waits.short_of_memory || rests {
                return Ok(true);
            }
        }
    }

    fn set(&mut self, runtime: &Handle, at: Instant) {
        // The old one goes first, so that the new one has its place: elsewhere it would keep a page from the system.
        self.sleep = Box::pin(std::future::pending());
        self.sleep = runtime.sleep_until(at);
        self.at = at;
    }
}

/// The times of a connection's last events, from which its deadlines follow.
pub struct Deadlines {
    now: Instant,
    opened: Instant,
    /// Bytes came.
    received: Instant,
    /// Bytes came or left.
    moved: Instant,
    /// Nothing waited to be sent, or bytes left.
    unsent_since: Instant,
    /// The record under way began, or an earlier one ended.
    record_since: Instant,
    kept: Kept,
}

/// The time for which a peer makes the process hold memory.
#[derive(Debug, Clone, Copy, Default)]
pub struct Kept {
    /// The beginning, and the total of moved bytes at which the memory counts as turned over.
    since: Option<(Instant, u64)>,
}

impl Kept {
    /// Notes that the process holds `bytes` for the peer, which has moved `moved` bytes since it connected. The time
    /// begins anew when the peer has moved as many bytes as were held: a busy peer always holds some, and must not be
    /// ended for it.
    pub fn note(&mut self, now: Instant, bytes: usize, moved: u64) {
        let is_large = bytes > CONNECTION_BYTES;
        let goes_on = |since: &(Instant, u64)| is_large && moved < since.1;
        if !self.since.as_ref().is_some_and(goes_on) {
            self.since = is_large.then_some((now, moved + bytes as u64));
        }
    }

    /// The time at which the connection must end, or must check again whether memory is `scarce`.
    pub fn due(&self, now: Instant, scarce: bool) -> Option<Instant> {
        let at = self.since?.0 + SCARCE_DEADLINE;
        Some(if scarce {
            at
        } else {
            at.max(now + SCARCE_LOOK)
        })
    }
}

impl Deadlines {
    /// The deadlines of a new connection.
    pub fn new(now: Instant) -> Deadlines {
        Deadlines {
            now,
            opened: now,
            received: now,
            moved: now,
            unsent_since: now,
            record_since: now,
            kept: Kept::default(),
        }
    }

    /// Sets the time of everything that follows.
    pub fn at(&mut self, now: Instant) {
        self.now = now;
    }

    /// The time that was set last.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Notes that bytes came.
    pub fn bytes_received(&mut self) {
        self.received = self.now;
        self.moved = self.now;
    }

    /// Notes that bytes left.
    pub fn bytes_sent(&mut self) {
        self.unsent_since = self.now;
        self.moved = self.now;
    }

    /// Notes that no byte waits for the peer.
    pub fn nothing_to_send(&mut self) {
        self.unsent_since = self.now;
    }

    /// Notes that the peer owes no rest of a record.
    pub fn no_record_under_way(&mut self) {
        self.record_since = self.now;
    }

    /// Notes that the first bytes of a record were asked for: from now on the peer can be late with them.
    pub fn record_begins(&mut self) {
        self.record_since = self.now;
        self.received = self.now;
    }

    /// Notes that bytes left which the peer must take before it can go on with the record.
    pub fn record_goes_on(&mut self) {
        self.received = self.now;
    }

    /// As [`Kept::note`].
    pub fn bytes_kept(&mut self, bytes: usize, moved: u64) {
        self.kept.note(self.now, bytes, moved);
    }

    /// True when no byte has moved for [`REST_AFTER`], so that the connection should free its tables.
    pub fn are_resting(&self) -> bool {
        self.moved + REST_AFTER <= self.now
    }

    /// Begins the deadlines of silence anew when the silence is not the peer's fault.
    fn excuse(&mut self) {
        self.moved = self.now;
        self.opened = self.now;
    }

    /// The next point at which the peer may be late.
    fn next(&self, waits: Waits) -> Instant {
        let rest = waits.grown.then(|| self.moved + REST_AFTER);
        self.candidates(waits)
            .map(|(at, _)| at)
            .chain(rest)
            .min()
            .unwrap_or(self.now)
    }

    /// The deadline that the peer has missed now.
    fn overdue(&self, waits: Waits) -> Option<Overdue> {
        let mut late = self.candidates(waits);
        late.find(|(at, _)| *at <= self.now).map(|(_, what)| what)
    }

    fn candidates(&self, waits: Waits) -> impl Iterator<Item = (Instant, Overdue)> {
        let first =
            (!waits.established).then_some((self.opened + FIRST_CALL_DEADLINE, Overdue::FirstCall));
        let record = waits.in_record.then_some((
            (self.received + RECORD_PAUSE_DEADLINE).min(self.record_since + RECORD_DEADLINE),
            Overdue::Record,
        ));
        let reading = waits
            .to_send
            .then_some((self.unsent_since + WRITE_DEADLINE, Overdue::Reading));
        let done = waits
            .exposed_since
            .map(|since| (since + DONE_DEADLINE, Overdue::Done));
        let scarce = self.kept.due(self.now, waits.scarce);
        let scarce = scarce.map(|at| (at, Overdue::Scarce));
        let idle = (self.moved + IDLE_DEADLINE, Overdue::Idle);
        [first, record, reading, done, scarce, Some(idle)]
            .into_iter()
            .flatten()
    }
}
