//! Calls that came together share a look at an object, beside programs that change it all the time.

use crate::support;

use gannet_localfs::{LocalOptions, LocalStore, LocalTree};
use gannet_nfs::client::Client;
use gannet_nfs::server::{Server, Squash};
use gannet_rpc::Transport;
use gannet_runtime::{Buffer, Handle};
use gannet_vfs::FileHandle;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use support::{Running, export, run_once, user};

/// Connections over each transport, callers of each, and calls of a caller, one after the other.
const CONNECTIONS: usize = 2;
const CALLERS: usize = 8;
const CALLS: usize = 60;

/// The sizes that a file was to get and that it got: each change makes it a byte longer.
#[derive(Default)]
struct Sizes {
    begun: AtomicU64,
    done: AtomicU64,
    ended: AtomicBool,
}

/// A local program that makes a file longer until the test ends.
fn grow(file: &Path, sizes: &Sizes) {
    let file = fs::OpenOptions::new().write(true).open(file).unwrap();
    for size in 1.. {
        if sizes.ended.load(Ordering::SeqCst) {
            return;
        }
        sizes.begun.store(size, Ordering::SeqCst);
        file.set_len(size).unwrap();
        sizes.done.store(size, Ordering::SeqCst);
    }
}

/// The size that one call of some kind answers, which must be one that the file had between call and reply.
async fn ask(kind: usize, client: &Client, root: &FileHandle, file: &FileHandle, sizes: &Sizes) {
    let before = sizes.done.load(Ordering::SeqCst);
    let size = match kind % 3 {
        0 => client.getattr(file).await.unwrap().size,
        1 => {
            let found = client.lookup(root, b"file").await.unwrap();
            found.attributes.unwrap().size
        }
        _ => {
            let read = client.read(file, 0, 16, Buffer::zeroed(16)).await.unwrap();
            read.attributes.unwrap().size
        }
    };
    let behind = sizes.begun.load(Ordering::SeqCst);
    assert!(
        (before..=behind).contains(&size),
        "kind {kind}: {size}, and not {before} to {behind}"
    );
}

async fn ask_all(runtime: &Handle, running: &Running<Server<LocalStore>>, sizes: &Sizes) {
    // Over both transports: calls of one must not be answered by what those of the other saw.
    let clients: Vec<Client> = (0..CONNECTIONS)
        .flat_map(|_| [Transport::Tcp, Transport::Rdma])
        .map(|transport| running.client_over(transport, runtime, user(0, &[0])))
        .collect();
    let root = clients[0].mount(b"/").await.unwrap();
    let file = clients[0].lookup(&root, b"file").await.unwrap().handle;
    // Each goes on by itself, so that calls come together in ever other ways.
    let callers = clients.iter().flat_map(|client| {
        let (root, file) = (&root, &file);
        let caller = move |kind| async move {
            for _ in 0..CALLS {
                ask(kind, client, root, file, sizes).await;
            }
        };
        (0..CALLERS).map(move |kind| Box::pin(caller(kind)))
    });
    gannet_runtime::all(callers).await;
}

#[test]
fn an_answer_is_one_between_its_call_and_its_reply() {
    run_once(|runtime| async move {
        let share = tempfile::tempdir().unwrap();
        let state = tempfile::tempdir().unwrap();
        let path = share.path().join("file");
        fs::write(&path, b"").unwrap();
        let options = LocalOptions {
            state_dir: Some(state.path().to_path_buf()),
            ..LocalOptions::default()
        };
        let tree = LocalTree::open(share.path(), &options).unwrap();
        let mut export = export("/");
        export.rules.squash = Squash::None;
        let store = LocalStore::new(tree, runtime.clone());
        let running = Running::start(&runtime, vec![(export, store)]);
        let sizes = Arc::<Sizes>::default();
        let local = {
            let (path, sizes) = (path.clone(), Arc::clone(&sizes));
            std::thread::spawn(move || grow(&path, &sizes))
        };
        ask_all(&runtime, &running, &sizes).await;
        sizes.ended.store(true, Ordering::SeqCst);
        local.join().unwrap();
    });
}
