//! The lease of a manager's term: until when half of the I/O servers have confirmed it.

use gannet_runtime::Instant;
use std::time::Duration;

/// The confirmations of a term by its I/O servers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Lease {
    /// When each server was asked for its last confirmation.
    asked: Vec<Option<Instant>>,
    lasts: Duration,
}

impl Lease {
    /// A lease that so many servers confirm, each time for `lasts`.
    pub(super) fn of(servers: usize, lasts: Duration) -> Lease {
        Lease {
            asked: vec![None; servers],
            lasts,
        }
    }

    /// Notes that a server has confirmed the term when it was asked at `asked`.
    pub(super) fn confirm(&mut self, server: u32, asked: Instant) {
        if let Some(last) = self.asked.get_mut(server as usize) {
            *last = (*last).max(Some(asked));
        }
    }

    /// When a server was asked for its last confirmation.
    pub(super) fn last_asked(&self, server: u32) -> Option<Instant> {
        self.asked.get(server as usize).copied().flatten()
    }

    /// The end of the lease; `None` if fewer than half of the servers have ever confirmed it.
    pub(super) fn until(&self) -> Option<Instant> {
        // Half is enough, because any half shares a server with any majority.
        let half = self.asked.len().div_ceil(2);
        let mut latest_first = self.asked.clone();
        latest_first.sort_unstable_by(|one, other| other.cmp(one));
        let of_half = latest_first.get(half.checked_sub(1)?).copied().flatten();
        of_half.map(|asked| asked + self.lasts)
    }

    pub(super) fn lasts(&self, now: Instant) -> bool {
        self.until().is_some_and(|until| now < until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::START + Duration::from_secs(seconds)
    }

    fn lease(asked: &[Option<u64>]) -> Lease {
        let mut lease = Lease::of(asked.len(), Duration::from_secs(2));
        for (server, asked) in (0..).zip(asked) {
            asked.inspect(|asked| lease.confirm(server, at(*asked)));
        }
        lease
    }

    #[test]
    fn it_lasts_while_half_of_the_servers_have_confirmed_it() {
        for (asked, until) in [
            (&[][..], None),
            (&[None], None),
            (&[Some(5)], Some(7)),
            (&[None, Some(5)], Some(7)),
            (&[Some(4), Some(5)], Some(7)),
            (&[Some(5), None, None], None),
            (&[Some(5), None, Some(3)], Some(5)),
            (&[Some(5), Some(1), Some(3), Some(2)], Some(5)),
            (&[Some(5), None, None, None, Some(3)], None),
        ] {
            assert_eq!(lease(asked).until(), until.map(at), "{asked:?}");
        }
    }

    #[test]
    fn a_late_answer_to_an_earlier_question_shortens_nothing() {
        let mut lease = lease(&[Some(5)]);
        lease.confirm(0, at(3));
        lease.confirm(1, at(9));
        assert!(lease.lasts(at(6)) && !lease.lasts(at(7)));
    }
}
