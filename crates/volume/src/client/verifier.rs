//! The write verifier of a volume: one for all its I/O servers.

use gannet_vfs::Verifier;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// What clients of a volume answer writes and commits with. It changes whenever an I/O server says another verifier
/// than it said last, to whichever of those that share it.
pub(super) struct WriteVerifier {
    heard: Mutex<Heard>,
}

struct Heard {
    verifier: u64,
    /// What I/O servers said last, by their numbers.
    servers: HashMap<u32, u64>,
}

impl WriteVerifier {
    /// One that starts as `first`, which must be random: an earlier process had another.
    pub(super) fn new(first: u64) -> WriteVerifier {
        let heard = Heard {
            verifier: first,
            servers: HashMap::new(),
        };
        WriteVerifier {
            heard: Mutex::new(heard),
        }
    }

    /// Takes note of what I/O servers `said` in their answers to an operation, and gives what that operation is
    /// answered with: the verifier that stands for just these answers. One that is looked up later may be for servers
    /// that have restarted since, and would hide that.
    ///
    /// `next` gives a random number.
    pub(crate) fn note(
        &self,
        said: impl Iterator<Item = (u32, u64)>,
        next: impl FnOnce() -> u64,
    ) -> Verifier {
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        let mut is_changed = false;
        for (server, verifier) in said {
            let before = heard.servers.insert(server, verifier);
            is_changed |= before.is_some_and(|before| before != verifier);
        }
        if is_changed {
            heard.verifier = next();
        }
        heard.verifier.to_be_bytes()
    }

    /// As it is now.
    pub(crate) fn current(&self) -> Verifier {
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        heard.verifier.to_be_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_comes_late_is_not_taken_for_one_of_the_restarted_server() {
        let shared = WriteVerifier::new(1);
        let written = shared.note([(0, 10), (1, 20)].into_iter(), || unreachable!());
        assert_eq!(written, shared.current());
        // Server 1 restarts. One core hears of it before the answer to a write from before reaches another core.
        let after = shared.note([(1, 21)].into_iter(), || 2);
        let late = shared.note([(1, 20)].into_iter(), || 3);
        let committed = shared.note([(0, 10), (1, 21)].into_iter(), || 4);
        assert!(written != after && late != after);
        assert!(
            ![written, after, late].contains(&committed),
            "all are sent again"
        );
        assert_eq!(committed, shared.note([(0, 10)].into_iter(), || 5));
    }
}
