//! Clients that read the exports of other clients, or more than their references allow: they get no bytes, and other
//! clients go on.

use crate::servers::{Bed, capability, connect_all, noise, write};
use gannet_dst::volume::keys;
use gannet_fabric::{
    Access, AccessKey, Backing, FILE_STATUS_LEN, Reference, RemoteAddress, RemoteKey, Scope, Span,
    WorkId, file_status_in,
};
use gannet_runtime::{Buffer, sleep};
use gannet_sim::store::Disk;
use gannet_volume::client::data::{Mover, Request, Target};
use gannet_volume::limits::MISSING_OBJECTS_MAX;
use gannet_volume::link::Link;
use gannet_wire::volume::{
    Capability, Class, OBJECTS_MAX, ObjectId, ObjectList, ObjectReference, ObjectRight, Operation,
    RUNS_MAX, ReferenceAnswer, ReferenceAnswers, ReferenceRequest, Shape, Stability, Status,
};
use gannet_wire::xdr::{from_bytes, to_bytes};
use std::rc::Rc;
use std::time::Duration;

const UNIT: u32 = 4096;
const LEN: usize = 4096;
/// Longer than any Read of these tests takes.
const A_WHILE: Duration = Duration::from_millis(20);
/// A work id in the form of the link's optimistic reads, with a number that the link never reaches.
const WORK: u64 = 5 << 60 | 1 << 59;
/// The byte that fills memory before a Read.
const UNTOUCHED: u8 = 0xaa;

/// The request for references to objects of the first group.
fn requested(capabilities: Vec<Capability>) -> ReferenceRequest {
    let right = |capability| ObjectRight {
        group: 0,
        capability,
    };
    ReferenceRequest {
        objects: capabilities.into_iter().map(right).collect(),
    }
}

/// A client under test.
struct Client {
    runtime: gannet_runtime::Handle,
    targets: Vec<Target>,
}

impl Client {
    fn link(&self) -> &Link {
        &self.targets[0].link
    }

    async fn try_ask(&self, capabilities: Vec<Capability>) -> Option<Vec<ReferenceAnswer>> {
        self.send(&to_bytes(&requested(capabilities))).await
    }

    /// The answers to a request body, if the reply decodes as such.
    async fn send(&self, body: &[u8]) -> Option<Vec<ReferenceAnswer>> {
        let asking = (self.link()).call(Operation::References, Class::Background, body, &[]);
        let answer = asking.await.expect("the connection stays");
        let answers: Option<ReferenceAnswers> = from_bytes(answer.body()).ok();
        Some(answers?.answers)
    }

    async fn ask(&self, capability: Capability) -> Result<Reference, Status> {
        let mut answers = self.try_ask(vec![capability]).await.unwrap();
        let outcome = answers.remove(0).outcome;
        outcome.map(|told| reference_of(&told.expect("the connection survives exceptions")))
    }

    /// References to the states of these files' objects.
    async fn ask_states(&self, files: &[u64]) -> Vec<Reference> {
        let body = to_bytes(&ObjectList {
            objects: files
                .iter()
                .map(|file| ObjectId {
                    group: 0,
                    file: *file,
                })
                .collect(),
        });
        let operation = Operation::StateReferences;
        let asking = (self.link()).call(operation, Class::Background, &body, &[]);
        let answer = asking.await.unwrap();
        let answers: ReferenceAnswers = from_bytes(answer.body()).unwrap();
        let outcomes = answers.answers.iter().map(|answer| answer.outcome);
        let references = outcomes.map(|outcome| outcome.unwrap().unwrap());
        references.map(|found| reference_of(&found)).collect()
    }

    /// The bytes of a Read by this reference, if any arrived.
    async fn reach(&self, reference: Reference, len: usize) -> Option<Vec<u8>> {
        let endpoint = self.link().endpoint();
        let memory = Backing::Buffer(Buffer::from_vec(vec![UNTOUCHED; len]));
        let domain = endpoint.domain();
        let region = domain.register_now(memory, Access::Local, Scope::Domain);
        let region = region.unwrap();
        let sink = Span {
            region: Rc::clone(&region),
            offset: 0,
            len: len as u32,
        };
        endpoint
            .post_optimistic_read(WorkId(WORK), sink, reference)
            .ok()?;
        endpoint.flush();
        sleep(&self.runtime, A_WHILE).await;
        let bytes = region.software().unwrap().bytes(0, len).unwrap().to_vec();
        let came = bytes.iter().any(|byte| *byte != UNTOUCHED);
        came.then_some(bytes)
    }

    /// Checks that the client can still read its own file.
    async fn goes_on(&self, file: u64, expected: &[u8]) {
        let own = self.ask(capability(file)).await.unwrap();
        let read = self.reach(own, expected.len()).await;
        assert!(read.as_deref() == Some(expected));
    }
}

fn reference_of(told: &ObjectReference) -> Reference {
    Reference {
        address: RemoteAddress {
            key: RemoteKey(told.key),
            offset: told.offset,
        },
        access_key: AccessKey(told.access_key),
    }
}

/// Runs a test with this many clients, each on a machine of its own. File 1 has [`noise`] of salt 1.
fn run<F: Future<Output = ()> + 'static>(
    seed: u64,
    clients: usize,
    story: impl FnOnce(Vec<Client>, Rc<Disk>) -> F + 'static,
) {
    let bed = Bed::new(seed, 1);
    let nodes: Vec<_> = (0..clients).map(|_| bed.add_client()).collect();
    let (addresses, disk) = (bed.addresses(), Rc::clone(&bed.disks[0]));
    let fabric = Rc::clone(&bed.fabric);
    let done = bed.world.run(async move {
        let mut connected = Vec::new();
        for node in &nodes {
            let targets = connect_all(&fabric, node, &addresses, UNIT).await;
            let runtime = node.runtime();
            connected.push(Client { runtime, targets });
        }
        write(&connected[0].targets, 0, noise(LEN, 1)).await;
        story(connected, disk).await;
    });
    done.unwrap();
}

/// Writes the object of another file, from byte `offset` on.
async fn write_file(client: &Client, file: u64, bytes: Vec<u8>, offset: u64) {
    let mover = Mover::new(client.link().endpoint().domain(), Default::default());
    let request = Request {
        capability: capability(file),
        file: Shape::contiguous(offset, bytes.len() as u32).unwrap(),
        memory: Shape::contiguous(0, bytes.len() as u32).unwrap(),
    };
    let mut buffer = Buffer::from_vec(bytes);
    let written = mover.write(&client.targets, Stability::FileSync, &request, &mut buffer);
    written.await.unwrap();
}

#[test]
fn references_of_another_connection_give_nothing() {
    run(1, 2, |clients, _| async move {
        let [owner, thief] = &clients[..] else {
            panic!("there are two");
        };
        let theirs = owner.ask(capability(1)).await.unwrap();
        assert!(owner.reach(theirs, LEN).await == Some(noise(LEN, 1)));
        assert_eq!(thief.reach(theirs, LEN).await, None);
        // Nor with the access key that the server gave it for a file of its own.
        write_file(thief, 2, noise(LEN, 2), 0).await;
        let own = thief.ask(capability(2)).await.unwrap();
        let mixed = Reference {
            access_key: own.access_key,
            ..theirs
        };
        assert_eq!(thief.reach(mixed, LEN).await, None);
        let mixed = Reference {
            access_key: theirs.access_key,
            ..own
        };
        assert_eq!(thief.reach(mixed, LEN).await, None);
        thief.goes_on(2, &noise(LEN, 2)).await;
        owner.goes_on(1, &noise(LEN, 1)).await;
    });
}

#[test]
fn forged_references_give_nothing() {
    run(2, 1, |clients, _| async move {
        let client = &clients[0];
        let good = client.ask(capability(1)).await.unwrap();
        for bit in 0..64 {
            let access_key = AccessKey(good.access_key.0 ^ 1 << bit);
            let forged = Reference { access_key, ..good };
            assert_eq!(client.reach(forged, LEN).await, None, "bit {bit}");
        }
        for bit in 0..32 {
            let mut forged = good;
            forged.address.key = RemoteKey(good.address.key.0 ^ 1 << bit);
            assert_eq!(client.reach(forged, LEN).await, None, "bit {bit}");
        }
        for wrong in [-1_i64, 1, -4096, 4096, 1 << 40, i64::MAX] {
            let mut forged = good;
            forged.address.offset = good.address.offset.wrapping_add_signed(wrong);
            assert_eq!(client.reach(forged, LEN).await, None, "{wrong}");
        }
        // Past the end of the object, and longer than such a Read may be.
        for len in [LEN + 1, 64 << 10, (64 << 10) + 1, 1 << 20] {
            assert_eq!(client.reach(good, len).await, None, "{len} bytes");
        }
        client.goes_on(1, &noise(LEN, 1)).await;
    });
}

#[test]
fn a_reference_ends_with_the_capability_that_it_was_given_for() {
    run(3, 1, |clients, _| async move {
        let client = &clients[0];
        let lasts = Duration::from_secs(5);
        let now = client.runtime.wall_clock();
        let short = keys().grant(0, 1, Capability::READ, now + lasts);
        let reference = client.ask(short).await.unwrap();
        assert!(client.reach(reference, LEN).await == Some(noise(LEN, 1)));
        sleep(&client.runtime, lasts).await;
        assert_eq!(client.reach(reference, LEN).await, None);
        assert_eq!(client.ask(short).await, Err(Status::Stale));
        client.goes_on(1, &noise(LEN, 1)).await;
    });
}

#[test]
fn nothing_is_exported_without_the_right_to_read_it() {
    run(4, 1, |clients, _| async move {
        let client = &clients[0];
        write_file(client, 2, noise(LEN, 2), 0).await;
        let forever = Duration::from_secs(u64::from(u32::MAX));
        let forged = Capability {
            file: 2,
            ..capability(1)
        };
        let more = Capability {
            rights: Capability::READ,
            ..keys().grant(0, 2, Capability::WRITE, forever)
        };
        let writer = keys().grant(0, 2, Capability::WRITE, forever);
        let late = keys().grant(0, 2, Capability::READ, Duration::ZERO);
        let refused = [forged, more, writer, late];
        let answers = client.try_ask(refused.to_vec()).await.unwrap();
        for answer in &answers {
            assert_eq!(answer.outcome, Err(Status::Stale));
            assert!(answer.resident.is_empty());
        }
        assert_eq!(client.ask(capability(77)).await, Err(Status::Noent));
        // A request with forged capabilities still gets the reference of a valid one.
        let mixed = vec![forged, capability(1), late];
        let answers = client.try_ask(mixed).await.unwrap();
        let told: Vec<bool> = answers.iter().map(|it| it.outcome.is_ok()).collect();
        assert_eq!(told, [false, true, false]);
        client.goes_on(1, &noise(LEN, 1)).await;
    });
}

#[test]
fn references_to_much_at_once_are_bounded() {
    run(5, 2, |clients, disk| async move {
        let [hostile, other] = &clients[..] else {
            panic!("there are two");
        };
        // The objects are long and mostly holes. With some pages out of memory, they have more runs than an answer
        // reports.
        let files = 100..104;
        for file in files.clone() {
            write_file(hostile, file, noise(LEN, file as u8), 16 << 20).await;
        }
        disk.page_out(10);
        let all: Vec<Capability> = files.cycle().take(OBJECTS_MAX).map(capability).collect();
        let answers = hostile.try_ask(all.clone()).await.unwrap();
        assert_eq!(answers.len(), OBJECTS_MAX);
        let runs: usize = answers.iter().map(|it| it.resident.len()).sum();
        assert!(0 < runs && runs <= RUNS_MAX, "{runs} runs");
        assert!(answers[OBJECTS_MAX - 1].resident.is_empty());
        // The same object many times.
        let same = vec![all[0]; OBJECTS_MAX];
        assert_eq!(hostile.try_ask(same).await.unwrap().len(), OBJECTS_MAX);
        assert!(hostile.try_ask(Vec::new()).await.unwrap().is_empty());
        // One capability more than allowed, and counts without the capabilities.
        let mut one_more = to_bytes(&requested(all));
        one_more[..4].copy_from_slice(&(OBJECTS_MAX as u32 + 1).to_be_bytes());
        assert!(hostile.send(&one_more).await.is_none());
        assert!(hostile.send(&1_000_000_u32.to_be_bytes()).await.is_none());
        assert!(hostile.send(&u32::MAX.to_be_bytes()).await.is_none());
        assert!(hostile.send(&[]).await.is_none());
        other.goes_on(1, &noise(LEN, 1)).await;
        hostile.goes_on(1, &noise(LEN, 1)).await;
    });
}

#[test]
fn a_client_that_fills_the_table_costs_others_a_call() {
    // More exports than a table has entries, of the same objects on many connections.
    let (files, connections) = (1024_u64, 66);
    run(6, 1 + connections, move |clients, _| async move {
        let (victim, crowd) = clients.split_first().unwrap();
        let mine = victim.ask(capability(1)).await.unwrap();
        for file in 2..2 + files {
            write_file(&crowd[0], file, vec![file as u8; 8], 0).await;
        }
        for hostile in crowd {
            for first in (2..2 + files).step_by(OBJECTS_MAX) {
                let some = (first..first + OBJECTS_MAX as u64).map(capability);
                let answers = hostile.try_ask(some.collect()).await.unwrap();
                assert!(answers.iter().all(|it| it.outcome.is_ok()));
            }
        }
        // The victim's reference may have been evicted, but it never names another object.
        let read = victim.reach(mine, LEN).await;
        assert!(read.is_none_or(|bytes| bytes == noise(LEN, 1)));
        victim.goes_on(1, &noise(LEN, 1)).await;
        crowd[0].goes_on(2, &[2; 8]).await;
        crowd[connections - 1]
            .goes_on(1 + files, &[(1 + files) as u8; 8])
            .await;
    });
}

#[test]
fn states_of_objects_are_read_by_their_connection_and_take_a_bounded_part_of_the_table() {
    run(7, 2, |clients, _| async move {
        let [victim, hostile] = &clients[..] else {
            panic!("there are two");
        };
        let size = async |client: &Client, state| {
            let bytes = client.reach(state, FILE_STATUS_LEN).await?;
            Some(file_status_in(bytes.first_chunk().unwrap()).size)
        };
        let state = victim.ask_states(&[1]).await.remove(0);
        assert_eq!(size(victim, state).await, Some(LEN as u64));
        assert_eq!(size(hostile, state).await, None);
        // References to objects that do not exist: more of them end each other, and none of the victim's.
        let mine = victim.ask(capability(1)).await.unwrap();
        let missing: Vec<u64> = (1000..).take(MISSING_OBJECTS_MAX + OBJECTS_MAX).collect();
        let mut zeros = Vec::new();
        for some in missing.chunks(OBJECTS_MAX) {
            zeros.extend(hostile.ask_states(some).await);
        }
        let last = zeros[MISSING_OBJECTS_MAX + 1];
        assert_eq!(size(hostile, last).await, Some(0));
        assert_eq!(size(hostile, zeros[0]).await, None);
        assert_eq!(size(victim, state).await, Some(LEN as u64));
        assert!(victim.reach(mine, LEN).await == Some(noise(LEN, 1)));
        // The reference to a missing object ends with its first WRITE.
        let made = missing[MISSING_OBJECTS_MAX + 1];
        write_file(victim, made, vec![1; 8], 0).await;
        assert_eq!(size(hostile, last).await, None);
        let state = hostile.ask_states(&[made]).await.remove(0);
        assert_eq!(size(hostile, state).await, Some(8));
    });
}
