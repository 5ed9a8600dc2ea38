//! The write verifier of a volume: one for all its I/O servers. A group of several members has one of its own, which
//! changes with each of them, whichever is the primary.

use gannet_vfs::Verifier;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// The verifier of the replies to writes and commits. It changes whenever an I/O server or a group
/// reports another verifier than before, to any client that shares this.
pub(super) struct WriteVerifier {
    known: Mutex<Known>,
}

/// The owner of a verifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Source {
    /// An I/O server that is the only member of the group.
    Server(u32),
    /// A group of several members.
    Group(u32),
}

struct Known {
    verifier: u64,
    /// The last verifiers.
    sources: HashMap<Source, u64>,
}

impl WriteVerifier {
    /// Starts as `first`, which must be random: see [`Siblings::new`](super::Siblings::new).
    pub(super) fn new(first: u64) -> WriteVerifier {
        let known = Known {
            verifier: first,
            sources: HashMap::new(),
        };
        WriteVerifier {
            known: Mutex::new(known),
        }
    }

    /// Notes the verifiers in the replies to an operation, and gives the verifier of that operation.
    ///
    /// Both happen under one lock. A verifier that is looked up later could be for servers that have restarted since,
    /// and would hide that this operation's data are lost. `next` gives a random number.
    pub(crate) fn note(
        &self,
        replies: impl Iterator<Item = (Source, u64)>,
        next: impl FnOnce() -> u64,
    ) -> Verifier {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut is_changed = false;
        for (source, verifier) in replies {
            let before = known.sources.insert(source, verifier);
            is_changed |= match source {
                Source::Server(_) => before.is_some_and(|before| before != verifier),
                // It may have had one member before, and what that one has lost nobody says any more.
                Source::Group(_) => before != Some(verifier),
            };
        }
        if is_changed {
            known.verifier = next();
        }
        known.verifier.to_be_bytes()
    }

    /// The present verifier.
    pub(crate) fn current(&self) -> Verifier {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.verifier.to_be_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_comes_late_is_not_taken_for_one_of_the_restarted_server() {
        let shared = WriteVerifier::new(1);
        let written = shared.note(
            [(Source::Server(0), 10), (Source::Server(1), 20)].into_iter(),
            || unreachable!(),
        );
        assert_eq!(written, shared.current());
        // Server 1 restarts. One core hears of it before the answer to a write from before reaches another core.
        let after = shared.note([(Source::Server(1), 21)].into_iter(), || 2);
        let late = shared.note([(Source::Server(1), 20)].into_iter(), || 3);
        let committed = shared.note(
            [(Source::Server(0), 10), (Source::Server(1), 21)].into_iter(),
            || 4,
        );
        assert!(written != after && late != after);
        assert!(
            ![written, after, late].contains(&committed),
            "all are sent again"
        );
        assert_eq!(
            committed,
            shared.note([(Source::Server(0), 10)].into_iter(), || 5)
        );
    }

    #[test]
    fn a_group_of_several_begins_with_a_new_verifier() {
        let shared = WriteVerifier::new(1);
        let note = |source, verifier, next| shared.note([(source, verifier)].into_iter(), || next);
        let alone = note(Source::Server(0), 10, 2);
        let pair = note(Source::Group(0), 11, 3);
        assert_ne!(alone, pair);
        assert_eq!(pair, note(Source::Group(0), 11, 4));
        assert_ne!(pair, note(Source::Group(0), 12, 5));
    }
}
