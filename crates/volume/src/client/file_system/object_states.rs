//! States of objects that a client reads from the I/O servers without a call, for attributes of files that are being
//! written (paper 003).
//!
//! The record of such a file at the manager has the attributes of the inode alone. An I/O server exports the state of
//! an object as it is at the moment of the access. It ends the reference when the object comes to exist or is removed.
//!
//! The states of several objects are of several moments, as in the manager's reply to a GETATTR. A truncation changes
//! the manager's record before it changes an object, and the file has no record until all objects are truncated.

use super::attribute_references::sink;
use crate::client::servers::Servers;
use crate::convert::timestamp_of;
use crate::layout::{file_state, placements};
use crate::limits::{
    RECORD_SINKS_MAX, STATE_REFERENCES_MAX, STATE_REQUESTS_MAX, STATES_DEADLINE, STATES_REFUSED_FOR,
};
use crate::link::{ExportedRead, Link};
use gannet_fabric::{FILE_STATUS_LEN, Reference, Region, Span, file_status_in, with_memory};
use gannet_runtime::{Handle, Instant, all, timeout};
use gannet_vfs::Time;
use gannet_wire::volume::{
    Class, FileId, FileState, LayoutRecord, OBJECTS_MAX, ObjectId, ObjectList, ObjectReference,
    ObjectState, Operation, Placement, ReferenceAnswers,
};
use gannet_wire::xdr::{from_bytes, to_bytes};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// The client's directory of references to the states of objects.
pub(super) struct ObjectStates {
    runtime: Handle,
    files: RefCell<BTreeMap<FileId, Entry>>,
    /// References in `files`.
    count: Cell<usize>,
    /// Files with [`Entry::Wanted`], oldest first.
    wanted: RefCell<VecDeque<(FileId, LayoutRecord)>>,
    /// A task requests references.
    is_requesting: Cell<bool>,
    /// Memory for states; no read uses it at present.
    sinks: RefCell<Vec<Sink>>,
}

/// Knowledge of the objects of one file.
///
/// | from | event | to |
/// |---|---|---|
/// | no entry | a record without sizes was read | `Wanted` |
/// | `Wanted` | all servers gave a reference | `Known` |
/// | `Wanted` | a server gave none | `Refused` |
/// | `Known` | a Read failed | no entry |
/// | `Refused` | a record without sizes was read after the time | `Wanted` |
enum Entry {
    /// The file is in the queue, or its request is under way.
    Wanted,
    /// References to the states of all its objects.
    Known(Rc<[KnownObject]>),
    /// No request before this time.
    Refused(Instant),
}

/// A reference to the state of one object.
struct KnownObject {
    placement: Placement,
    link: Link,
    source: Reference,
}

/// Registered memory for one state, on one connection.
struct Sink {
    link: Link,
    region: Region,
}

impl ObjectStates {
    pub(super) fn new(runtime: Handle) -> Rc<ObjectStates> {
        Rc::new(ObjectStates {
            runtime,
            files: RefCell::default(),
            count: Cell::default(),
            wanted: RefCell::default(),
            is_requesting: Cell::default(),
            sinks: RefCell::default(),
        })
    }

    /// The state of a file by the states of its objects. `None` if a reference is missing or not valid any more.
    pub(super) async fn read(&self, file: FileId) -> Option<FileState> {
        let objects = match self.files.borrow().get(&file) {
            Some(Entry::Known(objects)) => Rc::clone(objects),
            _ => return None,
        };
        let reads = objects.iter().map(|object| Box::pin(self.read_one(object)));
        let states = timeout(&self.runtime, STATES_DEADLINE, all(reads)).await;
        let states = states.ok().and_then(|states| states.into_iter().collect());
        let states: Option<Vec<_>> = states;
        if states.is_none() {
            self.forget(file, &objects);
        }
        states.map(file_state)
    }

    async fn read_one(&self, object: &KnownObject) -> Option<(Placement, ObjectState)> {
        // An abandoned read keeps its sink: the RDMA Read under way may still write to it.
        let sink = self.take_sink(&object.link)?;
        let read = ExportedRead {
            sink: Span {
                region: Region::clone(&sink.region),
                offset: 0,
                len: FILE_STATUS_LEN as u32,
            },
            source: object.source,
        };
        let outcome = object.link.read_exported(read, object.link.now()).await;
        let state = outcome.ok()?.ok().and_then(|()| state_in(&sink.region));
        self.keep_sink(sink);
        Some((object.placement, state?))
    }

    fn take_sink(&self, link: &Link) -> Option<Sink> {
        let mut sinks = self.sinks.borrow_mut();
        let kept = sinks.iter().position(|kept| kept.link.is(link));
        if let Some(kept) = kept {
            return Some(sinks.swap_remove(kept));
        }
        let region = sink(link, FILE_STATUS_LEN)?;
        let link = link.clone();
        Some(Sink { link, region })
    }

    fn keep_sink(&self, sink: Sink) {
        let mut sinks = self.sinks.borrow_mut();
        if sinks.len() >= RECORD_SINKS_MAX {
            sinks.retain(|kept| !kept.link.is_over());
        }
        if sinks.len() < RECORD_SINKS_MAX && !sink.link.is_over() {
            sinks.push(sink);
        }
    }

    /// Notes that the references in `objects` are not valid, unless others have come since.
    fn forget(&self, file: FileId, objects: &Rc<[KnownObject]>) {
        let mut files = self.files.borrow_mut();
        if let Some(Entry::Known(known)) = files.get(&file)
            && Rc::ptr_eq(known, objects)
        {
            files.remove(&file);
            self.count.set(self.count.get() - objects.len());
        }
    }

    /// Requests references to the states of a file's objects in the background, unless it did so just now.
    pub(super) fn want(
        self: &Rc<Self>,
        servers: &Rc<Servers>,
        file: FileId,
        layout: &LayoutRecord,
    ) {
        let may_ask = match self.files.borrow().get(&file) {
            None => true,
            Some(Entry::Refused(until)) => *until <= self.runtime.now(),
            Some(Entry::Wanted | Entry::Known(_)) => false,
        };
        let mut wanted = self.wanted.borrow_mut();
        if !may_ask || wanted.len() >= STATE_REQUESTS_MAX {
            return;
        }
        wanted.push_back((file, layout.clone()));
        self.set(file, Entry::Wanted);
        if !self.is_requesting.replace(true) {
            let (states, servers) = (Rc::clone(self), Rc::clone(servers));
            let requesting = async move { states.request_all(&servers).await };
            self.runtime.spawn("object states", Box::pin(requesting));
        }
    }

    fn set(&self, file: FileId, entry: Entry) {
        let mut files = self.files.borrow_mut();
        let added = match &entry {
            Entry::Known(objects) => objects.len(),
            Entry::Wanted | Entry::Refused(_) => 0,
        };
        if files.len() >= STATE_REFERENCES_MAX || self.count.get() + added > STATE_REFERENCES_MAX {
            // Requests under way put their files in again.
            files.clear();
            self.count.set(0);
        }
        let replaced = match files.insert(file, entry) {
            Some(Entry::Known(objects)) => objects.len(),
            _ => 0,
        };
        self.count.set(self.count.get() + added - replaced);
    }

    /// Sends requests until no file is wanted.
    async fn request_all(&self, servers: &Rc<Servers>) {
        loop {
            let files: Vec<_> = {
                let mut wanted = self.wanted.borrow_mut();
                let count = wanted.len().min(OBJECTS_MAX);
                wanted.drain(..count).collect()
            };
            if files.is_empty() {
                self.is_requesting.set(false);
                return;
            }
            self.request(servers, &files).await;
        }
    }

    /// Requests the references of some files, at most [`OBJECTS_MAX`], with one request for each server.
    async fn request(&self, servers: &Rc<Servers>, files: &[(FileId, LayoutRecord)]) {
        let mut by_server: BTreeMap<u32, Vec<ObjectId>> = BTreeMap::new();
        for (file, layout) in files {
            // Without an answer there are no references, and the manager is asked for states.
            let groups = servers.groups_of(layout).await;
            let groups = groups.unwrap_or_else(|_| servers.known_groups());
            for (group, _) in placements(layout) {
                if let Some(server) = groups.primary(group) {
                    let file = file.0;
                    let objects = by_server.entry(server).or_default();
                    objects.push(ObjectId { group, file });
                }
            }
        }
        let requests = by_server.into_iter().map(|(server, objects)| {
            let answer = request_from(servers, server, objects.clone());
            Box::pin(async move { (objects, answer.await) })
        });
        let mut found: BTreeMap<ObjectId, (Link, Reference)> = BTreeMap::new();
        for (objects, answer) in all(requests).await {
            let Some((link, references)) = answer else {
                continue;
            };
            for (object, reference) in objects.into_iter().zip(references) {
                if let Some(reference) = reference {
                    found.insert(object, (link.clone(), reference));
                }
            }
        }
        for (file, layout) in files {
            let objects = placements(layout).map(|(group, placement)| {
                let file = file.0;
                let (link, source) = found.get(&ObjectId { group, file })?;
                let (link, source) = (link.clone(), *source);
                Some(KnownObject {
                    placement,
                    link,
                    source,
                })
            });
            let objects: Option<Rc<[KnownObject]>> = objects.collect();
            let until = self.runtime.now() + STATES_REFUSED_FOR;
            self.set(*file, objects.map_or(Entry::Refused(until), Entry::Known));
        }
    }
}

/// Requests references to the states of these files' objects from one server. `None` if it does not answer.
async fn request_from(
    servers: &Rc<Servers>,
    server: u32,
    objects: Vec<ObjectId>,
) -> Option<(Link, Vec<Option<Reference>>)> {
    let link = servers.io_server(server).await.ok()?;
    let body = to_bytes(&ObjectList { objects });
    let answer = link.call(Operation::StateReferences, Class::Background, &body, &[]);
    let answer = answer.await.ok()?;
    let answers: ReferenceAnswers = from_bytes(answer.body()).ok()?;
    let reference = |it: ObjectReference| Reference::new(it.key, it.offset, it.access_key);
    let outcomes = answers.answers.into_iter().map(|answer| answer.outcome);
    let references = outcomes.map(|outcome| outcome.ok().flatten().map(reference));
    Some((link, references.collect()))
}

/// The state that a Read has put into `region`.
fn state_in(region: &Region) -> Option<ObjectState> {
    let status = with_memory(region, |memory| {
        memory.first_chunk::<FILE_STATUS_LEN>().map(file_status_in)
    });
    let status = status.flatten()?;
    let modified = Time::from(status.modified);
    Some(ObjectState {
        size: status.size,
        used: status.used,
        modified: timestamp_of(modified),
        version: Time::from(status.changed).change_id(),
        verifier: 0,
    })
}
