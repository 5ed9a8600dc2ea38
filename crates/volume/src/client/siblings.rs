//! The state that the clients of one server share, one client for each of its cores.

use super::change_locks::ChangeLocks;
use super::fences::Fences;
use super::unstable::UnstableObjects;
use super::verifier::WriteVerifier;
use std::sync::Arc;

/// The state that clients of a volume share when they serve the same callers, as the cores of an NFS server do. A
/// caller takes all cores for one server: it compares their write verifiers, and it may repeat a request on another
/// core.
pub struct Siblings {
    pub(super) verifier: WriteVerifier,
    pub(super) locks: Arc<ChangeLocks>,
    pub(super) fences: Arc<Fences>,
    pub(super) unstable: UnstableObjects,
}

impl Siblings {
    /// The siblings of one server, whose write verifier starts as `verifier`. It must be random: with the verifier of
    /// an earlier process, a caller would take lost data for durable.
    pub fn new(verifier: u64) -> Arc<Siblings> {
        Arc::new(Siblings {
            verifier: WriteVerifier::new(verifier),
            locks: Arc::default(),
            fences: Arc::default(),
            unstable: UnstableObjects::default(),
        })
    }
}
