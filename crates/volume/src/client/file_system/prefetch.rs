//! Requests for references ahead of the reads that need them, for many objects in one request.
//!
//! A READ brings the reference of its own object. Two requests bring more:
//!
//! - The runs of a long object that are in memory, when a call reads the object a second time.
//! - The references of objects known on a connection that has ended, when the first object is read on a new connection.
//!   Without it, a client of many small files makes a call for each of them again.

use super::VolumeFs;
use crate::client::references::{ObjectName, PrefetchReason, References};
use crate::client::servers::Servers;
use gannet_wire::volume::{
    Class, FileId, OBJECTS_MAX, ObjectRight, Operation, ReferenceAnswers, ReferenceRequest,
};
use gannet_wire::xdr::{from_bytes, to_bytes};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// An object and the right to read it.
type Wanted = (ObjectName, ObjectRight);

/// Objects whose references are to be requested, by server. A server has an entry while a task requests them. Without
/// this rule, several such requests of one client would occupy the server.
#[derive(Default)]
pub(super) struct PrefetchQueue {
    servers: RefCell<HashMap<u32, Vec<Wanted>>>,
}

impl PrefetchQueue {
    /// Adds objects. Returns true if no task serves the server's queue, so that the caller must start one.
    fn add(&self, server: u32, wanted: impl Iterator<Item = Wanted>) -> bool {
        let mut servers = self.servers.borrow_mut();
        let is_idle = !servers.contains_key(&server);
        let queue = servers.entry(server).or_default();
        let room = PREFETCH_MAX.saturating_sub(queue.len());
        queue.extend(wanted.take(room));
        is_idle
    }

    /// The objects of the next request, at most [`OBJECTS_MAX`]. `None` ends the server's task: the queue is empty.
    fn take(&self, server: u32) -> Option<Vec<Wanted>> {
        let mut servers = self.servers.borrow_mut();
        let queue = servers.get_mut(&server)?;
        if queue.is_empty() {
            servers.remove(&server);
            return None;
        }
        Some(queue.drain(..queue.len().min(OBJECTS_MAX)).collect())
    }
}

/// Most objects that wait for one server. The others' references come with their own READs.
const PREFETCH_MAX: usize = 16 * OBJECTS_MAX;

impl VolumeFs {
    /// Requests references from a server in the background: that of one object, and on a new connection those of all
    /// objects known on an earlier one.
    pub(super) fn prefetch(&self, server: u32, wanted: Wanted, why: PrefetchReason) {
        let known = match why {
            PrefetchReason::ReadAgain => Vec::new(),
            PrefetchReason::NewConnection => self.known_before(server, wanted.0),
        };
        let all = std::iter::once(wanted).chain(known);
        if self.prefetches.add(server, all) {
            let (queue, servers) = (Rc::clone(&self.prefetches), Rc::clone(&self.servers));
            let references = Rc::clone(&self.references);
            let asking = async move { ask_all(&queue, &servers, &references, server).await };
            self.runtime.spawn("references", Box::pin(asking));
        }
    }

    /// Objects on `server` besides `object` whose references ended with a connection and that leases allow to read.
    fn known_before(&self, server: u32, object: ObjectName) -> Vec<Wanted> {
        let (readable, groups) = (self.leases.readable(), self.servers.known_groups());
        let mut known: Vec<Wanted> = readable
            .into_iter()
            .flat_map(|lease| {
                let (capability, layout) = (lease.capability, lease.layout);
                let file = FileId(capability.file);
                let groups = layout.groups.clone().into_iter().zip(0u32..);
                groups.map(move |(group, index)| {
                    let right = ObjectRight { group, capability };
                    ((file, index), right)
                })
            })
            .filter(|(_, right)| groups.primary(right.group) == Some(server))
            .collect();
        // Leases come in no order, and an object may have several: the simulator must be able to repeat the choice.
        known.sort_unstable_by_key(|(name, right)| (*name, right.capability.proof));
        known.dedup_by_key(|(name, _)| *name);
        let references = &self.references;
        known.retain(|(name, _)| *name != object && references.awaits_prefetch(*name, object));
        known
    }
}

/// Sends requests to `server` until its queue is empty.
async fn ask_all(
    queue: &PrefetchQueue,
    servers: &Rc<Servers>,
    references: &References,
    server: u32,
) {
    while let Some(wanted) = queue.take(server) {
        // A failed request is dropped: the objects' own READs bring their references.
        let _ = ask(servers, references, server, &wanted).await;
    }
}

async fn ask(
    servers: &Rc<Servers>,
    references: &References,
    server: u32,
    wanted: &[Wanted],
) -> Option<()> {
    let link = servers.io_server(server).await.ok()?;
    let body = to_bytes(&ReferenceRequest {
        objects: wanted.iter().map(|(_, right)| *right).collect(),
    });
    let answer = link.call(Operation::References, Class::Background, &body, &[]);
    let answer = answer.await.ok()?;
    let answers: ReferenceAnswers = from_bytes(answer.body()).ok()?;
    for ((name, _), answer) in wanted.iter().zip(answers.answers) {
        if let Ok(Some(reference)) = answer.outcome {
            let runs = Some(answer.resident);
            references.note_reference(*name, &link, server, &reference, runs);
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use gannet_wire::volume::{Capability, TOKEN_LEN};

    fn wanted(file: u64) -> Wanted {
        let capability = Capability {
            file,
            rights: Capability::READ,
            expires: 0,
            term: 0,
            proof: [0; TOKEN_LEN],
        };
        let right = ObjectRight {
            group: 0,
            capability,
        };
        ((FileId(file), 0), right)
    }

    #[test]
    fn a_server_is_asked_by_one_task_for_a_bounded_number_of_objects() {
        let queue = PrefetchQueue::default();
        assert!(queue.add(1, (0..100).map(wanted)), "a task must start");
        assert!(!queue.add(1, (100..101).map(wanted)), "it goes on");
        assert_eq!(queue.take(1).map(|it| it.len()), Some(OBJECTS_MAX));
        assert_eq!(queue.take(1).map(|it| it.len()), Some(101 - OBJECTS_MAX));
        assert_eq!(queue.take(1), None);
        assert!(queue.add(1, (0..10_000).map(wanted)), "another task");
        let mut taken = 0;
        while let Some(some) = queue.take(1) {
            taken += some.len();
        }
        assert_eq!(taken, PREFETCH_MAX);
    }
}
