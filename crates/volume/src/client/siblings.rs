//! What clients of a volume share that stand for one server.

use super::change_locks::ChangeLocks;
use super::fences::Fences;
use super::verifier::WriteVerifier;
use std::sync::Arc;

/// What clients of a volume share that serve the same clients of their own, as the cores of an NFS server do: who asks
/// them takes all of them for one server. He compares the verifiers that he is answered with, and what he asks for
/// again may come to another core than what he asked for first.
pub struct Siblings {
    pub(super) verifier: WriteVerifier,
    pub(super) locks: Arc<ChangeLocks>,
    pub(super) fences: Arc<Fences>,
}

impl Siblings {
    /// For one server, whose write verifier starts as `verifier`, which must be random: an earlier process had another.
    pub fn new(verifier: u64) -> Arc<Siblings> {
        Arc::new(Siblings {
            verifier: WriteVerifier::new(verifier),
            locks: Arc::default(),
            fences: Arc::default(),
        })
    }
}
