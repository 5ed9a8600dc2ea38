//! The metadata of a volume as a file of any bytes, and as pairs of any bytes: it is opened, checked and judged as
//! `gannet volume check` and a manager do. Damage is an error or a finding; nothing panics, and each look ends.

use gannet_meta::check::{Survey, objects_on, paths_of, survey};
use gannet_meta::groups::{Groups, groups};
use gannet_meta::namespace::{self, KeptFiles, Make, Outcome, Request};
use gannet_meta::orphan_check::OrphanCheck;
use gannet_meta::{
    MemoryStore, MetaStore, RedbStore, StoreError, Table, Transaction, View, claims,
    inode_allocator, lock_sessions, terms,
};
use gannet_wire::volume::{
    AttributeChanges, Caller, CreateMode, FileId, LayoutRecord, ObjectId, ROOT, Stripes, Timestamp,
};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Bytes of the file that stay in memory.
const CACHE_LEN: usize = 256 << 10;
/// Most entries that a listing is asked for: a damaged one may go round for ever.
const LISTED_MAX: usize = 64;

/// Changes of a file that a manager has left behind. Each is where it is (three bytes), how many bytes follow (two),
/// and the bytes; none where the file is cut.
pub(crate) fn metadata_file(data: &[u8]) {
    let bytes = changed(template(), data);
    let place = Place::new();
    place.write(&bytes);
    // The report on damage in a file, also in one that cannot be opened.
    let _ = RedbStore::damaged_values(&place.0, CACHE_LEN);
    place.write(&bytes);
    let opened = RedbStore::open(&place.0, CACHE_LEN);
    if let Ok(store) = &opened {
        let _ = store.read(&mut look_at_all);
        let _ = begin(store);
    }
    let was_opened = opened.is_ok();
    drop(opened);
    // A look at a file repairs it at most once: the next one finds what that left.
    if was_opened {
        assert!(
            RedbStore::open(&place.0, CACHE_LEN).is_ok(),
            "opened once, and not again"
        );
    }
}

/// Pairs that take the place of those of a small volume: table, length of the key, length of the value (two bytes), the
/// key and the value. A pair without a value is removed.
pub(crate) fn metadata_records(data: &[u8]) {
    let store = MemoryStore::default();
    let filled = store.commit(&mut |transaction| {
        fill(transaction).map_err(|error| StoreError(error.to_string().into()))?;
        let mut rest = data;
        while let Some(([table, key_len, v0, v1], behind)) = rest.split_first_chunk() {
            let table = Table::ALL[usize::from(*table) % Table::ALL.len()];
            let (key, behind) = behind.split_at(usize::from(*key_len).min(behind.len()));
            let len = usize::from(u16::from_be_bytes([*v0, *v1]));
            let (value, behind) = behind.split_at(len.min(behind.len()));
            match value {
                [] => transaction.delete(table, key)?,
                value => transaction.put(table, key, value)?,
            }
            rest = behind;
        }
        Ok(())
    });
    filled.expect("memory takes all pairs");
    let _ = store.read(&mut look_at_all);
    let _ = begin(&store);
    let _ = store.read(&mut look_at_all);
    let _ = store.commit(&mut |transaction| {
        change_all(transaction);
        Ok(())
    });
    let _ = store.read(&mut look_at_all);
}

/// The reads of a check and of a manager.
fn look_at_all(view: &dyn View) {
    let survey = survey(view).unwrap_or_default();
    let Survey { files, .. } = &survey;
    let files: BTreeSet<FileId> = files.keys().copied().take(LISTED_MAX).collect();
    let _ = paths_of(view, &files);
    let groups = groups(view, 2).unwrap_or_else(|_| Groups::of_servers(2));
    let _ = objects_on(&survey, &groups, 1);
    if let Ok(check) = OrphanCheck::new(view, &groups) {
        let objects = files.iter().chain([&ROOT, &FileId(7)]);
        let on = |file: &FileId| {
            let file = file.0;
            [0, 1].map(|group| (group, ObjectId { group, file }))
        };
        let objects: Vec<_> = objects.flat_map(on).collect();
        let _ = check.statuses(view, &objects);
    }
    let _ = namespace::intents(view);
    let _ = (claims::servers_count(view), claims::new_servers(view));
    let _ = (claims::losses(view), claims::may_have_data(view, 1));
    let _ = (terms::own_terms(view), terms::last_change(view));
    let _ = (
        lock_sessions::noted(view),
        inode_allocator::next_number(view),
    );
    let caller = Caller::new(0, 0, &[]);
    for file in files.into_iter().chain([ROOT]) {
        let mut left = LISTED_MAX;
        let _ = namespace::list(view, &caller, file, 0, &mut |_| {
            left -= 1;
            left > 0
        });
        let _ = namespace::lookup(view, &caller, file, b"..");
    }
}

/// The first changes of a manager.
fn begin(store: &dyn MetaStore) -> Result<(), StoreError> {
    store.commit(&mut |transaction| {
        let now = Timestamp::default();
        let _ = namespace::format(transaction, now);
        let _ = inode_allocator::begin(transaction, now, 1);
        Ok(())
    })
}

fn with_request<T>(work: impl FnOnce(Request<'_>) -> T) -> T {
    let caller = Caller::new(0, 0, &[]);
    work(Request {
        caller: &caller,
        now: Timestamp::default(),
        intents: &RefCell::default(),
        has_room: true,
        kept: &KeptFiles::These([FileId(2)].into()),
    })
}

/// Two of a volume's names, which damage may have made anything.
const DIRECTORY: &[u8] = b"d";
const FILE: &[u8] = b"f";

/// A volume with a directory, a file in it, and another name of that.
fn fill(transaction: &mut dyn Transaction) -> Outcome<()> {
    namespace::format(transaction, Timestamp::default())?;
    inode_allocator::begin(transaction, Timestamp::default(), 1)?;
    claims::note_all_new(transaction, 2)?;
    with_request(|request| {
        let plain = AttributeChanges::default();
        let what = Make::Directory;
        let made = namespace::make(transaction, request, ROOT, DIRECTORY, what, &plain);
        let (directory, _) = made?;
        with_request(|request| {
            let file = create(transaction, request, directory, FILE)?;
            with_request(|request| namespace::link(transaction, request, file, ROOT, b"g"))
        })
        .map(|_| ())
    })
}

fn create(
    transaction: &mut dyn Transaction,
    request: Request<'_>,
    directory: FileId,
    name: &[u8],
) -> Outcome<FileId> {
    let mode = CreateMode::Unchecked(AttributeChanges::default());
    let layout = &mut |_: Option<&Stripes>| LayoutRecord {
        unit: 4096,
        groups: vec![0, 1],
    };
    Ok(namespace::create(transaction, request, directory, name, &mode, layout)?.id)
}

/// Changes of each kind.
fn change_all(transaction: &mut dyn Transaction) {
    let found = namespace::find(transaction, ROOT, DIRECTORY);
    let directory = found.ok().flatten().unwrap_or(ROOT);
    let cut = AttributeChanges {
        size: Some(0),
        mode: Some(0o600),
        ..AttributeChanges::default()
    };
    let made = with_request(|request| create(transaction, request, directory, b"new"));
    let file = made.unwrap_or(ROOT);
    let _ = with_request(|request| {
        let since = Timestamp::default();
        namespace::set_attributes(transaction, request, file, &cut, None, since)
    });
    let _ = with_request(|request| {
        namespace::rename(transaction, request, directory, b"new", ROOT, b"moved")
    });
    let _ = with_request(|request| {
        namespace::rename(transaction, request, ROOT, DIRECTORY, directory, b"inside")
    });
    for name in [&b"moved"[..], FILE, b"g", DIRECTORY] {
        for inside in [directory, ROOT] {
            let _ = with_request(|it| namespace::remove(transaction, it, inside, name));
            let _ = with_request(|it| namespace::remove_directory(transaction, it, inside, name));
        }
    }
}

/// A file of metadata as a manager leaves it.
fn template() -> &'static [u8] {
    static TEMPLATE: OnceLock<Vec<u8>> = OnceLock::new();
    TEMPLATE.get_or_init(|| {
        let place = Place::new();
        let store = RedbStore::open(&place.0, CACHE_LEN).expect("a new file");
        let filled = store.commit(&mut |transaction| {
            fill(transaction).map_err(|error| StoreError(error.to_string().into()))
        });
        filled.expect("a new file takes pairs");
        drop(store);
        std::fs::read(&place.0).expect("it was written")
    })
}

fn changed(template: &[u8], mut data: &[u8]) -> Vec<u8> {
    let mut bytes = template.to_vec();
    while let Some(([a0, a1, a2, l0, l1], behind)) = data.split_first_chunk() {
        let at = u32::from_be_bytes([0, *a0, *a1, *a2]) as usize % (bytes.len() + 1);
        let len = usize::from(u16::from_be_bytes([*l0, *l1])).min(behind.len());
        let (new, behind) = behind.split_at(len);
        match new {
            [] => bytes.truncate(at),
            new => bytes
                .iter_mut()
                .skip(at)
                .zip(new)
                .for_each(|(to, byte)| *to = *byte),
        }
        data = behind;
    }
    bytes
}

/// A file of this process, in memory where the machine has such a folder.
struct Place(PathBuf);

impl Place {
    fn new() -> Place {
        let memory = Path::new("/dev/shm");
        let folder = match memory.is_dir() {
            true => memory.to_path_buf(),
            false => std::env::temp_dir(),
        };
        let thread = std::thread::current().id();
        let name = format!("gannet-fuzz-{}-{thread:?}", std::process::id());
        let place = Place(folder.join(name));
        // Of a process of before with the same number.
        let _ = std::fs::remove_file(&place.0);
        place
    }

    fn write(&self, bytes: &[u8]) {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        let opened = options.open(&self.0);
        let written = opened.and_then(|file| sparse(&file, bytes));
        written.expect("the folder takes a file");
    }
}

/// Writes what is no zeros.
fn sparse(file: &File, bytes: &[u8]) -> io::Result<()> {
    file.set_len(bytes.len() as u64)?;
    for (at, block) in (0..).step_by(4096).zip(bytes.chunks(4096)) {
        if block.iter().any(|byte| *byte != 0) {
            file.write_all_at(block, at)?;
        }
    }
    Ok(())
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
