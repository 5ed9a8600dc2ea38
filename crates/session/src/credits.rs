//! The credits of one connection: how many requests its peer may have under way.
//!
//! The limit is the number of requests that the peer may have sent since the beginning: the answers so far and a
//! window. It only grows, so it does not matter which of the answers the peer has seen. An answer of RPC/RDMA carries
//! the window (RFC 8166 section 3.3.1), one of the native protocol the limit itself. Fewer credits mean that an answer
//! raises the limit by less than one; a limit that was sent is never lowered.
//!
//! The window opens by [`CreditLimits::step`] with each answer while there are receives to borrow: the window of a
//! client that uses all of it grows several times in a round trip, which the server cannot measure. After a
//! pause, and while few receives are left to borrow, it closes by one with each answer.
//!
//! A credit is used again when the answer before has *left*: a peer that takes no answers may send no more requests.
//!
//! The invariant: the requests and other messages that a peer may send never exceed the receives granted to its
//! endpoint. iWARP ends a connection whose message finds no receive, so each grant posts its receives first (property
//! test in `tests`; mutant `grant-beyond-receives`).

use crate::receives::Share;
use gannet_fabric::{Endpoint, PostError};
use gannet_runtime::Instant;
use std::time::Duration;
use thiserror::Error;

/// The parameters of a protocol's credits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CreditLimits {
    /// Requests that a peer may send before the first answer.
    pub initial: u32,
    /// The window of the first answer, if there are enough receives.
    pub first: u32,
    /// The growth of the window with each further answer.
    pub step: u32,
    /// The largest window.
    pub max: u32,
    /// Messages without credits that may come one right behind the other.
    pub spare: u32,
    /// A pause after which the window closes.
    pub idle: Duration,
}

/// The peer has sent a request for which it had no credit, or has not taken the answer before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the peer exceeds its credits")]
pub struct Exceeded;

/// The credits in an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    /// Requests that the peer may have under way when it has this answer; at least one.
    pub window: u32,
    /// Requests that it may have sent since the beginning.
    pub limit: u64,
}

/// The credits of one connection.
pub struct Credits {
    share: Share,
    limits: CreditLimits,
    /// Requests that have come, and those that were answered or given up.
    received: u64,
    answered: u64,
    /// The limit in the last queued answer, and in the last one that has left. A request is judged by the latter: the
    /// peer cannot know the former yet.
    reported: u64,
    left: u64,
    /// The window that the next answer wants.
    window: u32,
    /// The time of the last request.
    last: Instant,
}

impl Credits {
    /// The credits of a new connection, whose peer has the initial ones.
    pub fn new(share: Share, limits: CreditLimits, now: Instant) -> Credits {
        Credits {
            share,
            limits,
            received: 0,
            answered: 0,
            reported: u64::from(limits.initial),
            left: u64::from(limits.initial),
            window: limits.first,
            last: now,
        }
    }

    /// Counts a request. Its memory must be dropped before [`Credits::answer`] or [`Credits::give_up`], which post a
    /// receive in its place.
    ///
    /// # Errors
    /// [`Exceeded`]: the request has no credit, and the connection must end.
    pub fn request_came(&mut self, now: Instant) -> Result<(), Exceeded> {
        self.share.request_came();
        self.received += 1;
        if now.duration_since(self.last) >= self.limits.idle {
            self.window = self.limits.first.min(self.window);
        }
        self.last = now;
        if self.received > self.left {
            return Err(Exceeded);
        }
        Ok(())
    }

    /// Whether the peer has used all of its credits: it can send no request before it has another answer.
    pub fn are_exhausted(&self) -> bool {
        self.received >= self.left
    }

    /// The credits for the answer to a request, of which the peer `asked` for so many. `owed` is the number of messages
    /// that the peer may send apart from requests once it has this answer.
    ///
    /// # Errors
    /// [`PostError::QueueFull`] without receives for the owed messages or for one request,
    /// [`PostError::Closed`] for an endpoint that is closed.
    pub fn answer(
        &mut self,
        endpoint: &dyn Endpoint,
        asked: u32,
        owed: u32,
    ) -> Result<Grant, PostError> {
        self.answered += 1;
        self.share.request_ended();
        self.cover(endpoint, owed)?;
        let wanted = self.answered + u64::from(self.window.min(asked.max(1)));
        self.renew_one(endpoint, wanted, owed)?;
        let missing = self.missing(wanted, owed);
        self.share.borrow(endpoint, missing, self.limits.first)?;
        self.reported = self.reported.max(wanted.min(self.covered(owed)));
        self.turn_window();
        match u32::try_from(self.reported - self.answered) {
            // A peer without a credit sends nothing, so no later answer could give it one.
            Ok(0) => Err(PostError::QueueFull),
            window => Ok(Grant {
                window: window.unwrap_or(u32::MAX),
                limit: self.reported,
            }),
        }
    }

    /// The limit in the last queued answer.
    pub fn reported(&self) -> u64 {
        self.reported
    }

    /// Notes that the answer with this limit has left: the peer may use its credits from now on.
    pub fn left(&mut self, limit: u64) {
        self.left = self.left.max(limit);
    }

    /// Counts a request that gets no answer. Its credit returns with the next answer (mutant `credit-returned-twice`).
    ///
    /// # Errors
    /// [`PostError::Closed`].
    pub fn give_up(&mut self, endpoint: &dyn Endpoint) -> Result<(), PostError> {
        self.answered += 1;
        self.share.request_ended();
        let wanted = self.answered + u64::from(self.window);
        self.renew_one(endpoint, wanted, 0)
    }

    /// Counts a message that needs no credit.
    pub fn message_came(&mut self) {
        self.share.message_came();
    }

    /// Posts receives for the limit in the last answer, `owed` messages and the spare ones. Call it after the memory of
    /// a message without credit was dropped, and before the peer may send another one.
    ///
    /// # Errors
    /// [`PostError::QueueFull`] without receives, [`PostError::Closed`].
    pub fn cover(&mut self, endpoint: &dyn Endpoint, owed: u32) -> Result<(), PostError> {
        let missing = self.missing(self.reported, owed);
        self.share.renew(endpoint, missing)
    }

    /// Returns the receive of a request to its connection, unless the window closes.
    fn renew_one(
        &mut self,
        endpoint: &dyn Endpoint,
        wanted: u64,
        owed: u32,
    ) -> Result<(), PostError> {
        let one = self.missing(wanted, owed).min(1);
        match self.share.renew(endpoint, one) {
            // The memory of another request is still in use: the answer has one credit less.
            Err(PostError::QueueFull) => Ok(()),
            renewed => renewed,
        }
    }

    /// The largest limit for which there are receives.
    fn covered(&self, owed: u32) -> u64 {
        let others = u64::from(owed) + u64::from(self.limits.spare);
        (self.received + u64::from(self.share.granted())).saturating_sub(others)
    }

    /// The number of receives that a `limit` needs beyond those granted.
    fn missing(&self, limit: u64, owed: u32) -> u32 {
        let others = u64::from(owed) + u64::from(self.limits.spare);
        let covered = self.received + u64::from(self.share.granted());
        u32::try_from((limit + others).saturating_sub(covered)).unwrap_or(u32::MAX)
    }

    /// Moves the window one step towards the fair part, for the next answer.
    fn turn_window(&mut self) {
        let fair = self
            .share
            .fair_part(self.limits.first)
            .max(self.limits.first);
        self.window = if self.window > fair {
            self.window - 1
        } else {
            let open = self.window.saturating_add(self.limits.step);
            open.min(self.limits.max).min(fair.max(self.window))
        };
    }
}

#[cfg(test)]
mod tests;
