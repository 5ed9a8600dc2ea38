//! Refused optimistic reads of a real file: a server whose clients hold stale references reads no disk for them.
//!
//! /proc/self/io counts for the whole process, which is why this test has a program of its own.

#![allow(clippy::unwrap_used)]

use gannet_fabric::{
    Access, AccessError, Backing, CapabilityKey, ConnectOptions, Connected, Done, Export,
    ExportTable, Exported, Provider, Reference, Scope, Span, WorkError, WorkId, next_completions,
};
use gannet_iwarp::{IwarpConfig, IwarpProvider};
use gannet_localfs::{LocalOptions, LocalStore, LocalTree};
use gannet_runtime::tokio_plug::block_on;
use gannet_runtime::{Buffer, FileRef, Handle, Instant, both};
use gannet_testing::left_out;
use gannet_vfs::{CreateMode, Credentials, SetAttributes, Stability, Vfs};
use rustix::fs::{Advice, fadvise};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

const PAGE: u64 = 4096;
const PAGES: u64 = 64;
const READS: u64 = 10_000;
const KEY: CapabilityKey = CapabilityKey([7; 32]);
/// The first touch of this program's own code counts as reads of the disk, too. Reads that the refusals start would
/// show in each round.
const ROUNDS: usize = 5;

/// A connection over which the file is read optimistically.
struct Reader {
    near: Connected,
    _far: Connected,
    sink: Span,
    /// Its entries go with it.
    _exports: Rc<dyn ExportTable>,
    reference: Reference,
}

impl Reader {
    async fn new(runtime: &Handle, file: &FileRef) -> Reader {
        let provider = IwarpProvider::new(Rc::clone(runtime), IwarpConfig::default());
        let mut listener = provider.listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let options = || ConnectOptions {
            ord: 1,
            ird: 1,
            exceptions: true,
            ..ConnectOptions::default()
        };
        let near = provider.connect(listener.local_address(), options());
        let far = async { listener.accept().await.unwrap().accept(options()).await };
        let (near, far) = both(near, far).await;
        let (near, far) = (near.unwrap(), far.unwrap());
        near.authenticate(KEY);
        far.authenticate(KEY);
        let domain = provider.domain();
        let exports = domain.exports(Rc::new(|_| None)).unwrap();
        let reference = exports.enter(Export {
            object: 1,
            endpoint: far.id(),
            until: Instant::from_nanos(u64::MAX),
            // As an I/O server exports it.
            bytes: Exported::OpenFile(Arc::downgrade(file)),
        });
        let memory = Backing::Buffer(Buffer::zeroed(PAGE as usize));
        let region = domain.register_now(memory, Access::Local, Scope::Domain);
        Reader {
            near,
            _far: far,
            sink: Span::whole(&region.unwrap()).unwrap(),
            _exports: exports,
            reference,
        }
    }

    async fn read(&self, page: u64) -> Result<Done, WorkError> {
        let from = self.reference.at(page * PAGE);
        let posted = (self.near).post_optimistic_read(WorkId(1), self.sink.clone(), from);
        posted.unwrap();
        self.near.flush();
        let mut completions = Vec::new();
        next_completions(&*self.near, &mut completions)
            .await
            .unwrap();
        completions.pop().unwrap().outcome
    }
}

/// A durable file of a store.
async fn write_file(store: &LocalStore) -> FileRef {
    let me = Credentials::new(
        rustix::process::geteuid().as_raw(),
        rustix::process::getegid().as_raw(),
        &[],
    );
    let mode = CreateMode::Guarded(SetAttributes::default());
    let made = store.create(&me, &store.root(), b"file", &mode).await;
    let file = made.result.unwrap().handle;
    let len = (PAGE * PAGES) as usize;
    let buffer = Buffer::from_vec(vec![7; len]);
    let written = store.write(&me, &file, 0, buffer, 0..len, Stability::FileSync);
    assert_eq!(written.await.result.unwrap().count as usize, len);
    store.read(&me, &file, 0, 0).await.unwrap().file
}

/// Pages of the file that are in the page cache.
fn resident(file: &FileRef) -> u64 {
    let pages = (0..PAGES).filter(|page| file.is_resident(page * PAGE, PAGE));
    pages.count() as u64
}

/// Drops the file's pages; false where the kernel keeps some.
fn drop_pages(file: &FileRef) -> bool {
    fadvise(file.descriptor().unwrap(), 0, None, Advice::DontNeed).unwrap();
    resident(file) == 0
}

/// Bytes that this process had the kernel read from disks.
fn disk_reads() -> Option<u64> {
    let counters = std::fs::read_to_string("/proc/self/io").ok()?;
    let line = counters
        .lines()
        .find_map(|it| it.strip_prefix("read_bytes: "));
    line.map(|bytes| bytes.parse().unwrap())
}

#[test]
fn refused_references_cause_no_disk_read() {
    // Not below /tmp, whose files may be in memory alone.
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    block_on(|runtime| story(runtime, directory.path())).unwrap();
}

async fn story(runtime: Handle, directory: &Path) {
    let export = directory.join("export");
    std::fs::create_dir(&export).unwrap();
    let options = LocalOptions {
        state_dir: Some(directory.join("state")),
        ..LocalOptions::default()
    };
    let tree = LocalTree::open(&export, &options).unwrap();
    let file = write_file(&LocalStore::new(tree, Rc::clone(&runtime))).await;
    let reader = Reader::new(&runtime, &file).await;
    if !drop_pages(&file) {
        return left_out("the file system keeps the pages of unused files");
    }
    if disk_reads().is_none() {
        return left_out("this kernel does not count reads of disks");
    }
    let mut grown = Vec::new();
    for _ in 0..ROUNDS {
        assert!(drop_pages(&file));
        let before = disk_reads().unwrap();
        for number in 0..READS {
            let refused = reader.read(number % PAGES).await;
            let not_resident = Err(WorkError::Remote(AccessError::NotResident));
            assert_eq!(refused, not_resident, "read {number}");
        }
        grown.push(disk_reads().unwrap() - before);
        assert_eq!(resident(&file), 0, "pages came back");
        if grown.last() == Some(&0) {
            break;
        }
    }
    assert_eq!(
        grown.last(),
        Some(&0),
        "bytes read from the disk: {grown:?}"
    );
    // Both counters see a read when there is one, and then references are good again.
    let before = disk_reads().unwrap();
    let mut bytes = vec![0; (PAGE * PAGES) as usize];
    file.read_at(0, &mut bytes).unwrap();
    assert!(disk_reads().unwrap() >= before + PAGE * PAGES);
    assert!((0..10).any(|_| resident(&file) == PAGES));
    assert_eq!(reader.read(PAGES - 1).await, Ok(Done::Read));
}
