//! All that a client of a file system does, once.

use crate::server::PATIENCE;
use gannet_runtime::{Buffer, Handle, timeout};
use gannet_vfs::{
    AccessMask, ByteLock, CreateMode, Credentials, DirectoryEntry, Entries, EntryName, FileHandle,
    LockKind, LockRequest, NodeKind, SetAttributes, Stability, Vfs,
};

/// Bytes of a short transfer and of a long one.
const LENS: [usize; 2] = [700, 20_000];

/// Runs all operations, of which each must end in time.
pub(super) async fn run(runtime: &Handle, fs: &impl Vfs) {
    let all = timeout(runtime, PATIENCE, perform(fs)).await;
    assert!(all.is_ok(), "an operation does not end");
}

async fn perform(fs: &impl Vfs) {
    let (root, cred) = (fs.root(), Credentials::new(0, 0, &[]));
    let _ = fs.attributes(&root).await;
    let _ = fs.usage(&root).await;
    let plain = SetAttributes::default();
    let made = fs.make_directory(&cred, &root, b"directory", &plain).await;
    let directory = made.result.map_or(root, |made| made.handle);
    let how = CreateMode::Guarded(plain);
    let made = fs.create(&cred, &directory, b"file", &how).await;
    let found = fs.lookup(&cred, &directory, b"file").await.0;
    let found = found.map(|(handle, _)| handle);
    let file = made.result.map(|made| made.handle).or(found);
    if let Ok(file) = file {
        move_bytes(fs, &cred, &file).await;
        let _ = fs.link(&cred, &file, &root, b"other name").await;
    }
    let _ = fs.make_symlink(&cred, &root, b"link", b"to", &plain).await;
    if let Ok((link, _)) = fs.lookup(&cred, &root, b"link").await.0 {
        let _ = fs.read_link(&cred, &link).await;
    }
    let node = NodeKind::Fifo;
    let _ = fs.make_node(&cred, &root, b"node", node, &plain).await;
    for directory in [&root, &directory] {
        list(fs, &cred, directory).await;
    }
    let from = EntryName::new(&directory, b"file");
    let to = EntryName::new(&root, b"moved");
    let _ = fs.rename(&cred, from, to).await;
    for name in [&b"moved"[..], b"link", b"node", b"other name"] {
        let _ = fs.remove(&cred, &root, name).await;
    }
    let _ = fs.remove_directory(&cred, &root, b"directory").await;
}

async fn move_bytes(fs: &impl Vfs, cred: &Credentials, file: &FileHandle) {
    for (len, stability) in LENS
        .into_iter()
        .zip([Stability::Unstable, Stability::FileSync])
    {
        let data = Buffer::from_vec(vec![7; len]);
        let _ = fs.write(cred, file, 100, data, 0..len, stability).await;
        let _ = fs.attributes(file).await;
        let room = Buffer::zeroed(len);
        let (read, buffer) = fs.read_into(cred, file, 100, len as u32, room).await;
        if let (Ok(read), Some(buffer)) = (read, buffer) {
            assert!(
                read.count as usize <= buffer.len(),
                "more than there is room for"
            );
        }
        if let Ok(read) = fs.read(cred, file, 0, len as u32).await {
            assert!(read.count as usize <= len, "more than was asked for");
            let mut bytes = vec![0; read.count as usize];
            let _ = read.file.try_read_at(0, &mut bytes);
        }
    }
    let _ = fs.commit(cred, file, 0, 0).await;
    let _ = fs.access(cred, file, AccessMask(0x3f)).await;
    let shorter = SetAttributes {
        size: Some(50),
        mode: Some(0o600),
        ..SetAttributes::default()
    };
    let _ = fs.set_attributes(cred, file, &shorter, None).await;
    let lock = ByteLock {
        owner: 1,
        kind: LockKind::Exclusive,
        start: 0,
        end: 9,
        process: 1,
    };
    for request in [LockRequest::Try, LockRequest::Test, LockRequest::Unlock] {
        let _ = fs.lock(cred, file, &lock, request).await;
    }
    let more = Buffer::from_vec(vec![8; 300]);
    let _ = fs
        .append(cred, file, 0, more, 300, Stability::Unstable)
        .await;
}

/// Entries of a listing: how many there were, and the last one's cookie.
struct Page {
    left: usize,
    cookie: u64,
}

impl Entries for Page {
    fn wants_objects(&self) -> bool {
        true
    }

    fn push(&mut self, entry: &DirectoryEntry<'_>) -> bool {
        let Some(left) = self.left.checked_sub(1) else {
            return false;
        };
        (self.left, self.cookie) = (left, entry.cookie);
        true
    }
}

/// Lists a few pages: a server may say again and again that there are more.
async fn list(fs: &impl Vfs, cred: &Credentials, directory: &FileHandle) {
    let (mut cookie, mut verifier) = (0, Default::default());
    for _ in 0..3 {
        let mut page = Page { left: 64, cookie };
        let listed = fs.read_directory(cred, directory, cookie, verifier, &mut page);
        match listed.await {
            Ok(page) if page.eof => return,
            Ok(listed) => (cookie, verifier) = (page.cookie, listed.verifier),
            Err(_) => return,
        }
    }
}
