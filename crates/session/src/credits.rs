//! The credits of one connection: how many requests its peer may have under way.
//!
//! They are counted as the requests that the peer may have sent since the beginning, a number that only grows: the
//! answers so far and a window. So it does not matter which of the answers the peer has seen. RPC/RDMA tells the
//! window (RFC 8166 section 3.3.1), the native protocol the number itself; to give fewer credits is to raise the
//! number by less than one with each answer, and nothing that was told is ever taken back.
//!
//! The window opens by [`CreditLimits::step`] with each answer while there are receives to borrow: a client that has
//! its window full sees it grow several times over in a round trip, which the server alone could not see. After a
//! pause, and while little is left to borrow, it closes by one with each answer.
//!
//! A credit is used again when the answer before has *left*: a peer that takes no answers sends no more requests.

use crate::receives::Share;
use gannet_fabric::{Endpoint, PostError};
use gannet_runtime::Instant;
use std::time::Duration;
use thiserror::Error;

/// How a protocol gives credits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CreditLimits {
    /// Requests that a peer may send before the first answer.
    pub initial: u32,
    /// The window that the first answer gives, receives permitting.
    pub first: u32,
    /// By how much each further answer opens it.
    pub step: u32,
    /// The widest.
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

/// What an answer tells.
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
    received: u64,
    answered: u64,
    /// The requests that queued answers allow, in all; and those of which have left.
    reported: u64,
    left: u64,
    window: u32,
    last: Instant,
}

impl Credits {
    /// Of a new connection, whose peer has the initial credits.
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

    /// A request is here. Its memory must be dropped before it is answered or given up.
    ///
    /// # Errors
    /// The connection must end.
    pub fn request_came(&mut self, now: Instant) -> Result<(), Exceeded> {
        self.share.message_came();
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

    /// A request is being answered: what the answer tells. `owed` messages may come that it lets the peer send apart
    /// from requests.
    ///
    /// # Errors
    /// The endpoint is closed, or there are no receives for what is owed.
    pub fn answer(
        &mut self,
        endpoint: &dyn Endpoint,
        asked: u32,
        owed: u32,
    ) -> Result<Grant, PostError> {
        self.answered += 1;
        self.cover(endpoint, owed)?;
        let wanted = self.answered + u64::from(self.window.min(asked.max(1)));
        self.renew_one(endpoint, wanted, owed)?;
        let missing = self.missing(wanted, owed);
        self.share.borrow(endpoint, missing)?;
        self.reported = self.reported.max(wanted.min(self.covered(owed)));
        self.turn_window();
        match u32::try_from(self.reported - self.answered) {
            // Nothing would tell the peer of a later credit.
            Ok(0) => Err(PostError::QueueFull),
            window => Ok(Grant {
                window: window.unwrap_or(u32::MAX),
                limit: self.reported,
            }),
        }
    }

    /// Requests that the peer may have sent since the beginning, by all that it was told so far.
    pub fn reported(&self) -> u64 {
        self.reported
    }

    /// An answer has left that told this limit.
    pub fn left(&mut self, limit: u64) {
        self.left = self.left.max(limit);
    }

    /// A request will have no answer.
    ///
    /// # Errors
    /// The endpoint is closed.
    pub fn give_up(&mut self, endpoint: &dyn Endpoint) -> Result<(), PostError> {
        self.answered += 1;
        let wanted = self.answered + u64::from(self.window);
        self.renew_one(endpoint, wanted, 0)
    }

    /// A message came that needs no credit.
    pub fn message_came(&mut self) {
        self.share.message_came();
    }

    /// Sees that there are receives for what the peer was told, `owed` messages and the spare ones, after the memory of
    /// a message without credit was dropped.
    ///
    /// # Errors
    /// The endpoint is closed, or there are none.
    pub fn cover(&mut self, endpoint: &dyn Endpoint, owed: u32) -> Result<(), PostError> {
        let missing = self.missing(self.reported, owed);
        self.share.renew(endpoint, missing)
    }

    /// The receive that a request has left goes back to its connection, unless the window closes.
    fn renew_one(
        &mut self,
        endpoint: &dyn Endpoint,
        wanted: u64,
        owed: u32,
    ) -> Result<(), PostError> {
        let one = self.missing(wanted, owed).min(1);
        match self.share.renew(endpoint, one) {
            // The memory of some request is still in use: one credit less until there is more.
            Err(PostError::QueueFull) => Ok(()),
            renewed => renewed,
        }
    }

    /// Requests, in all, for which there are receives.
    fn covered(&self, owed: u32) -> u64 {
        let others = u64::from(owed) + u64::from(self.limits.spare);
        (self.received + u64::from(self.share.granted())).saturating_sub(others)
    }

    /// Receives that are missing for so many requests in all.
    fn missing(&self, limit: u64, owed: u32) -> u32 {
        let others = u64::from(owed) + u64::from(self.limits.spare);
        let covered = self.received + u64::from(self.share.granted());
        u32::try_from((limit + others).saturating_sub(covered)).unwrap_or(u32::MAX)
    }

    /// The window that the next answer will want.
    fn turn_window(&mut self) {
        let fair = self.share.pool().fair_part().max(self.limits.first);
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
