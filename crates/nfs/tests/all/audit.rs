//! Who mounts, who is refused by which check, and who changes what: events and counters.

#![allow(clippy::unwrap_used)]

use crate::support;

use gannet_metrics::{BusyList, Exposition, LabelValue, Source, Value};
use gannet_nfs::server::{Audit, Check, Event, Export, Operations, Server};
use gannet_runtime::{Buffer, Handle};
use gannet_sim::store::SimStore;
use gannet_vfs::{CreateMode, EntryName, FileHandle, SetAttributes, Stability, Status};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use support::{Addresses, Running, disk, export, run, status, store, user};

/// Keeps the events as text.
#[derive(Default)]
struct Recorder {
    events: Mutex<Vec<String>>,
    /// The next event is left out.
    leaves_out: AtomicBool,
}

impl Audit for Recorder {
    fn record(&self, event: &Event<'_>) -> bool {
        if self.leaves_out.swap(false, Ordering::Relaxed) {
            return false;
        }
        let user = |user: Option<gannet_nfs::server::User>| match user {
            Some(user) => format!("{}:{}", user.uid, user.gid),
            None => String::from("-"),
        };
        let subject = event.subject.as_ref();
        let mut parts = vec![
            event.kind.name().to_owned(),
            user(event.stated),
            user(event.effective),
            event.status.to_owned(),
            event.check.map_or("-", Check::name).to_owned(),
        ];
        // Handles differ from run to run.
        let Some(subject) = subject else {
            self.events.lock().unwrap().push(parts.join(" "));
            return true;
        };
        subject.each_field(|name, field| match name {
            "handle" | "to_handle" => parts.push(name.to_owned()),
            _ => parts.push(field.to_string()),
        });
        self.events.lock().unwrap().push(parts.join(" "));
        true
    }
}

/// A server with a recorder and counters.
struct Watched {
    running: Running<Server<SimStore>>,
    recorder: Arc<Recorder>,
    operations: Arc<Operations>,
}

impl Watched {
    fn start(runtime: &Handle, exports: Vec<(Export, SimStore)>) -> Watched {
        let (recorder, operations) = (Arc::<Recorder>::default(), Arc::<Operations>::default());
        let server = Server::new(exports)
            .unwrap()
            .on_core(runtime.clone(), Arc::default());
        operations.busy().unwrap().turn();
        let server = server.counting_in(Arc::clone(&operations));
        let server = server.audited_by(Arc::clone(&recorder) as _, runtime.clone());
        Watched {
            running: Running::serve(runtime, server, Addresses::any()),
            recorder,
            operations,
        }
    }

    /// The events since the last look.
    fn events(&self) -> Vec<String> {
        std::mem::take(&mut *self.recorder.events.lock().unwrap())
    }

    /// The refusals, by check.
    fn refusals(&self) -> BTreeMap<String, u64> {
        let mut counted = Exposition::default();
        self.operations.collect(&mut counted);
        let (_, series) = counted
            .families()
            .find(|(family, _)| family.name == "gannet_nfs_refusals")
            .unwrap();
        assert_eq!(series.len(), Check::ALL.len());
        let counts = series
            .iter()
            .map(|(labels, value)| match (&labels[0].value, value) {
                (LabelValue::Word(check), Value::Number(count)) => {
                    ((*check).to_owned(), *count as u64)
                }
                _ => unreachable!("counts of words"),
            });
        counts.filter(|(_, count)| *count > 0).collect()
    }
}

#[test]
fn mounts_and_changes_are_events_and_reads_are_not() {
    run(|runtime| async move {
        let watched = Watched::start(&runtime, vec![(export("/"), store(&runtime))]);
        let client = watched.running.client(&runtime, user(0, &[0]));
        let root = client.mount(b"/").await.unwrap();
        assert_eq!(watched.events(), ["mount 0:0 65534:65534 OK - MNT / /"]);
        let plain = CreateMode::Guarded(SetAttributes::default());
        let made = client.create(&root, b"f\n", &plain);
        let file = made.await.unwrap().handle;
        assert_eq!(
            watched.events(),
            ["change 0:0 65534:65534 OK - CREATE / handle f\\n"]
        );
        client.getattr(&file).await.unwrap();
        let stable = Stability::Unstable;
        for offset in 0..10 {
            let written = client.write(&file, offset, Buffer::zeroed(1), 1, stable);
            written.await.unwrap();
        }
        client.read(&file, 0, 1, Buffer::zeroed(1)).await.unwrap();
        assert_eq!(
            watched.events(),
            ["write 0:0 65534:65534 OK - WRITE / handle 0 1"]
        );
        let moved = client.rename(EntryName::new(&root, b"f\n"), EntryName::new(&root, b"g"));
        moved.await.unwrap();
        assert_eq!(status(client.remove(&root, b"none").await), Status::Noent);
        client.unmount(b"/").await.unwrap();
        let events = watched.events();
        assert_eq!(
            events,
            [
                "change 0:0 65534:65534 OK - RENAME / handle f\\n to_handle g",
                "change 0:0 65534:65534 NOENT - REMOVE / handle none",
                "unmount 0:0 65534:65534 OK - UMNT / /",
            ]
        );
        assert!(watched.refusals().is_empty());
    });
}

#[test]
fn a_write_that_is_left_out_or_fails_hides_no_others() {
    run(|runtime| async move {
        let watched = Watched::start(&runtime, vec![(export("/"), store(&runtime))]);
        let client = watched.running.client(&runtime, user(0, &[0]));
        let root = client.mount(b"/").await.unwrap();
        let plain = CreateMode::Guarded(SetAttributes::default());
        let made = client.create(&root, b"f", &plain);
        let file = made.await.unwrap().handle;
        watched.events();
        let write = async |offset| {
            let bytes = Buffer::zeroed(1);
            let written = client.write(&file, offset, bytes, 1, Stability::Unstable);
            let _ = written.await;
            watched.events()
        };
        watched.recorder.leaves_out.store(true, Ordering::Relaxed);
        assert_eq!(write(1).await, [""; 0]);
        let failed = write(u64::MAX).await;
        assert!(
            failed[0].starts_with("write 0:0 65534:65534 FBIG"),
            "{failed:?}"
        );
        let recorded = write(2).await;
        assert_eq!(recorded, ["write 0:0 65534:65534 OK - WRITE / handle 2 1"]);
        for offset in [3, u64::MAX] {
            assert_eq!(write(offset).await, [""; 0]);
        }
    });
}

#[test]
fn refused_calls_name_the_check_of_the_export() {
    run(|runtime| async move {
        let disk = disk();
        let store = || SimStore::open(&disk, runtime.clone());
        let elsewhere = export("/elsewhere").with_clients(vec!["192.0.2.0/24".parse().unwrap()]);
        let (mut careful, mut secure) = (export("/careful"), export("/secure"));
        careful.rules.read_only = true;
        secure.rules.secure = true;
        let exports = vec![
            (elsewhere.unwrap(), store()),
            (careful, store()),
            (secure, store()),
        ];
        let watched = Watched::start(&runtime, exports);
        let client = watched.running.client(&runtime, user(7, &[8]));
        let root = client.mount(b"/careful").await.unwrap();
        watched.events();
        for (path, wanted) in [
            (
                "/elsewhere/x",
                "refusal 7:8 - ACCES clients MNT /elsewhere /elsewhere/x",
            ),
            ("/secure", "refusal 7:8 - ACCES port MNT /secure /secure"),
        ] {
            let refused = client.mount(path.as_bytes()).await;
            assert_eq!(status(refused), Status::Acces);
            assert_eq!(watched.events(), [wanted]);
        }
        // A path of no export is a failed mount, and no check's refusal.
        assert_eq!(status(client.mount(b"/none").await), Status::Noent);
        assert_eq!(watched.events(), ["mount 7:8 - NOENT - MNT /none"]);

        let set = SetAttributes::default();
        let refused = client.mkdir(&root, b"n", &set).await;
        assert_eq!(status(refused), Status::Rofs);
        let mut unknown = root.as_bytes().to_vec();
        unknown[0] ^= 0x55;
        let unknown = FileHandle::new(&unknown).unwrap();
        assert_eq!(status(client.getattr(&unknown).await), Status::Stale);
        let short = FileHandle::new(&root.as_bytes()[..1]).unwrap();
        assert_eq!(status(client.getattr(&short).await), Status::Badhandle);
        let mut forged = root.as_bytes().to_vec();
        *forged.last_mut().unwrap() ^= 0x55;
        let forged = FileHandle::new(&forged).unwrap();
        assert!(client.getattr(&forged).await.is_err());
        // Handles of nothing, and exports that are none, take no place among the busy files.
        let mut busy = BusyList::default();
        watched.operations.busy().unwrap().read(&mut busy);
        let files: Vec<_> = busy.files.keys().map(|handle| &**handle).collect();
        assert_eq!(files, [root.as_bytes()]);
        let exports: Vec<_> = busy.exports.keys().map(|path| &**path).collect();
        assert_eq!(exports, ["/careful"]);
        assert_eq!(
            watched.events(),
            [
                "refusal 7:8 7:8 ROFS read_only_export MKDIR /careful handle n",
                "refusal 7:8 - STALE unknown_export GETATTR handle",
                "refusal 7:8 7:8 BADHANDLE handle GETATTR /careful handle",
            ]
        );
        let counts = watched.refusals();
        let checks: Vec<_> = counts
            .iter()
            .map(|(check, count)| (&**check, *count))
            .collect();
        assert_eq!(
            checks,
            [
                ("clients", 1),
                ("handle", 1),
                ("port", 1),
                ("read_only_export", 1),
                ("unknown_export", 1),
            ]
        );
    });
}

#[test]
fn connections_of_unknown_addresses_are_events_without_a_call() {
    run(|runtime| async move {
        let elsewhere = export("/").with_clients(vec!["192.0.2.0/24".parse().unwrap()]);
        let exports = vec![(elsewhere.unwrap(), store(&runtime))];
        let watched = Watched::start(&runtime, exports);
        let client = watched.running.client(&runtime, user(7, &[8]));
        assert_eq!(client.mount(b"/").await.unwrap_err().status(), None);
        let events = watched.events();
        assert!(!events.is_empty());
        let all_alike = events
            .iter()
            .all(|event| event == "refusal - - REFUSED address");
        assert!(all_alike, "{events:?}");
        assert_eq!(watched.refusals()["address"], events.len() as u64);
    });
}
