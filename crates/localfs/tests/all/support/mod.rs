//! A directory to serve, a place for its key, and short words for the operations.

#![allow(dead_code, clippy::unwrap_used)] // each test program uses its part

use gannet_localfs::{HandleScheme, LocalOptions, LocalStore, LocalTree};
use gannet_runtime::Buffer;
use gannet_runtime::tokio_plug::block_on;
#[allow(unused_imports)] // as above
pub(crate) use gannet_testing::is_root;
use gannet_vfs::{
    Attributes, CreateMode, Credentials, DirectoryEntry, Entries, FileHandle, SetAttributes,
    Stability, Status, Vfs,
};
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A served directory with its state.
pub(crate) struct World {
    pub(crate) directory: tempfile::TempDir,
    pub(crate) options: LocalOptions,
}

impl World {
    pub(crate) fn new(handles: HandleScheme) -> World {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("export")).unwrap();
        let options = LocalOptions {
            state_dir: Some(directory.path().join("state")),
            handles,
            // Thousands of serial creations would wait for the disk of the machine; durability has tests of its own.
            async_metadata: true,
            ..LocalOptions::default()
        };
        World { directory, options }
    }

    /// The served directory.
    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join("export")
    }

    /// A directory beside it that is not served.
    pub(crate) fn outside(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn open(&self) -> Arc<LocalTree> {
        LocalTree::open(&self.path(), &self.options).unwrap()
    }

    /// Runs `story` with a server that starts for it and ends with it.
    pub(crate) fn serve<T, F: Future<Output = T>>(&self, story: impl FnOnce(LocalStore) -> F) -> T {
        let tree = self.open();
        block_on(|runtime| story(LocalStore::new(tree, runtime))).unwrap()
    }
}

/// Runs a story once with each kind of handle that this process can have.
pub(crate) fn with_each_scheme(story: impl Fn(&World)) {
    for scheme in [HandleScheme::Automatic, HandleScheme::Inode] {
        story(&World::new(scheme));
    }
}

/// Fills a directory with names; links are much faster to make than files.
pub(crate) fn fill(directory: &Path, names: usize) {
    for name in 0..names {
        let of = directory.join(format!("file-{}", name / 500 * 500));
        let new = directory.join(format!("file-{name}"));
        if of == new {
            std::fs::write(new, "").unwrap();
        } else {
            std::fs::hard_link(of, new).unwrap();
        }
    }
}

/// The user that runs the tests.
pub(crate) fn me() -> Credentials {
    Credentials::new(
        rustix::process::geteuid().as_raw(),
        rustix::process::getegid().as_raw(),
        &[],
    )
}

pub(crate) async fn create(store: &LocalStore, directory: &FileHandle, name: &[u8]) -> FileHandle {
    let attributes = SetAttributes {
        mode: Some(0o644),
        ..SetAttributes::default()
    };
    let created = store
        .create(&me(), directory, name, &CreateMode::Guarded(attributes))
        .await;
    created.result.unwrap().handle
}

pub(crate) async fn mkdir(store: &LocalStore, directory: &FileHandle, name: &[u8]) -> FileHandle {
    let attributes = SetAttributes {
        mode: Some(0o755),
        ..SetAttributes::default()
    };
    let made = store
        .make_directory(&me(), directory, name, &attributes)
        .await;
    made.result.unwrap().handle
}

pub(crate) async fn lookup(
    store: &LocalStore,
    directory: &FileHandle,
    name: &[u8],
) -> Result<FileHandle, Status> {
    let (found, _) = store.lookup(&me(), directory, name).await;
    found.map(|(handle, _)| handle)
}

pub(crate) async fn write(store: &LocalStore, file: &FileHandle, offset: u64, data: &[u8]) {
    let buffer = Buffer::from_vec(data.to_vec());
    let written = store
        .write(
            &me(),
            file,
            offset,
            buffer,
            0..data.len(),
            Stability::Unstable,
        )
        .await;
    assert_eq!(written.result.unwrap().count as usize, data.len());
}

pub(crate) async fn read(
    store: &LocalStore,
    file: &FileHandle,
    offset: u64,
    count: u32,
) -> Vec<u8> {
    let reply = store.read(&me(), file, offset, count).await.unwrap();
    let mut data = vec![0; reply.count as usize];
    let mut filled = 0;
    while filled < data.len() {
        let got = (reply.file)
            .read_at(offset + filled as u64, &mut data[filled..])
            .unwrap();
        assert!(got > 0, "shorter than promised");
        filled += got;
    }
    data
}

/// One listed entry.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Listed {
    pub(crate) fileid: u64,
    pub(crate) name: Vec<u8>,
    pub(crate) cookie: u64,
    pub(crate) object: Option<(FileHandle, Attributes)>,
}

/// A page of a listing that takes so many entries.
pub(crate) struct Page {
    pub(crate) room: usize,
    pub(crate) objects: bool,
    pub(crate) taken: Vec<Listed>,
}

impl Entries for Page {
    fn wants_objects(&self) -> bool {
        self.objects
    }

    fn room(&self) -> usize {
        self.room - self.taken.len() + 1
    }

    fn push(&mut self, entry: &DirectoryEntry<'_>) -> bool {
        if self.taken.len() == self.room {
            return false;
        }
        self.taken.push(Listed {
            fileid: entry.fileid,
            name: entry.name.to_vec(),
            cookie: entry.cookie,
            object: entry.object,
        });
        true
    }
}

/// One page after `cookie`; and whether it was the last.
pub(crate) async fn page(
    store: &LocalStore,
    directory: &FileHandle,
    cookie: u64,
    room: usize,
    objects: bool,
) -> Result<(Vec<Listed>, bool), Status> {
    let mut page = Page {
        room,
        objects,
        taken: Vec::new(),
    };
    let end = store
        .read_directory(&me(), directory, cookie, [0; 8], &mut page)
        .await?;
    Ok((page.taken, end.eof))
}

/// The whole directory, in pages of `room`.
pub(crate) async fn list(
    store: &LocalStore,
    directory: &FileHandle,
    room: usize,
    objects: bool,
) -> Vec<Listed> {
    let mut all: Vec<Listed> = Vec::new();
    loop {
        let cookie = all.last().map_or(0, |last| last.cookie);
        let (taken, eof) = page(store, directory, cookie, room, objects).await.unwrap();
        all.extend(taken);
        if eof {
            return all;
        }
    }
}

/// The names of a listing without `.` and `..`, sorted.
pub(crate) fn names(listed: &[Listed]) -> Vec<Vec<u8>> {
    let mut names: Vec<Vec<u8>> = (listed.iter())
        .map(|entry| entry.name.clone())
        .filter(|name| name != b"." && name != b"..")
        .collect();
    names.sort();
    names
}
