//! The lease of a manager's term: until when half of the I/O servers have confirmed it.

use gannet_runtime::Instant;
use std::time::Duration;

/// The confirmations of a term by its I/O servers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Lease {
    /// When each server was asked for its last confirmation.
    asked: Vec<Option<Instant>>,
    lasts: Duration,
    /// The lease of the store, where another process may take it over.
    of_store: Option<StoreLease>,
}

/// How long this process alone has the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct StoreLease {
    lasts: Duration,
    renewed: Instant,
}

impl Lease {
    /// A lease that so many servers confirm, each time for `lasts`.
    pub(super) fn of(servers: usize, lasts: Duration) -> Lease {
        Lease {
            asked: vec![None; servers],
            lasts,
            of_store: None,
        }
    }

    /// Notes that the store is this process's alone for `lasts` after `renewed`.
    pub(super) fn renew_store(&mut self, lasts: Duration, renewed: Instant) {
        self.of_store = Some(StoreLease { lasts, renewed });
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

    /// Whether half of the servers have confirmed the term of late, whatever the store.
    pub(super) fn is_confirmed(&self, now: Instant) -> bool {
        self.of_half().is_some_and(|asked| now < asked + self.lasts)
    }

    /// When the last of that half of the servers was asked which has confirmed the term last.
    fn of_half(&self) -> Option<Instant> {
        // Half is enough, because any half shares a server with any majority.
        let half = self.asked.len().div_ceil(2);
        let mut latest_first = self.asked.clone();
        latest_first.sort_unstable_by(|one, other| other.cmp(one));
        latest_first.get(half.checked_sub(1)?).copied().flatten()
    }

    /// The end of the lease, which is that of the store too; `None` if fewer than half of the servers have ever
    /// confirmed it.
    pub(super) fn until(&self) -> Option<Instant> {
        let until = self.of_half()? + self.lasts;
        let of_store = self.of_store.map(|store| store.renewed + store.lasts);
        Some(of_store.map_or(until, |it| it.min(until)))
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
    fn it_ends_with_that_of_the_store() {
        let mut lease = lease(&[Some(5)]);
        for (renewed, until) in [(2, 6), (3, 7), (4, 7)] {
            lease.renew_store(Duration::from_secs(4), at(renewed));
            assert_eq!(lease.until(), Some(at(until)));
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
