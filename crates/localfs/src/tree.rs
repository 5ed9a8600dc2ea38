//! The state of one served directory that all cores share.

use super::attributes::{Facts, Volume, from_statx, status};
use super::clock_map::{ClockMap, PARTS, lock};
use super::counters::TreeCounters;
use super::descriptors::{self, descriptors_each};
use super::durable::MetadataSync;
use super::handle::{MacHasher, Minter, Name};
use super::identity::{Identities, own_credentials, unmapped_user};
use super::key;
use super::largest_file::file_size_max;
use super::listing::Listings;
use super::lookup::Known;
use super::object::{Base, Object, OpenFile, ProcPath};
use super::open::{HandleScheme, LocalOptions, OpenError};
use super::places::Places;
use super::sync::Durability;
use crate::limits::{
    DESCRIPTORS_MIN, DIRECTORY_CHECKED_AGE, LISTING_ENTRIES_MAX, NAMES_MAX, WRITE_DESCRIPTOR_IDLE,
};
use crate::sys;
use gannet_vfs::{Attributes, Credentials, FileHandle, FileKind, Status, Verifier};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, StatxFlags};
use rustix::io::Errno;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, RandomState};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Counters of changes; an object's is picked by its number. A power of two.
const CHANGE_COUNTERS: usize = 4096;
/// The magic number of overlayfs.
const OVERLAY: i64 = 0x794c_7630;
/// The magic number of btrfs.
const BTRFS: i64 = 0x9123_683e;
/// The inode number of each root of a btrfs subvolume, and of no other inode.
pub(crate) const SUBVOLUME_ROOT: u64 = 256;
/// Objects that have left the cache and may wait together for their descriptors to be closed.
const RETIRED_MAX: usize = 32;

/// How a name is opened: beneath its directory, through no symbolic link, into no other mount.
pub(crate) const BENEATH: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_XDEV);

/// The devices that objects of the served mount have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Devices {
    /// One device.
    One,
    /// A device for each layer of an overlay.
    Layers,
    /// A device for each subvolume and snapshot of btrfs. These have inode numbers of their own.
    Subvolumes,
}

impl Devices {
    fn of(root: &OwnedFd) -> Devices {
        match rustix::fs::fstatfs(root).map_or(0, |volume| volume.f_type) {
            OVERLAY => Devices::Layers,
            BTRFS => Devices::Subvolumes,
            _ => Devices::One,
        }
    }
}

/// A served directory with the state that its cores share.
pub struct LocalTree {
    /// The root, open for reading: also names the mount for open_by_handle_at(2).
    pub(crate) root: OwnedFd,
    /// The root's object, which never leaves.
    pub(crate) root_object: Arc<Object>,
    /// The file system's id, for attributes.
    pub(crate) fsid: u64,
    /// Largest file of the file system in bytes.
    pub(crate) file_size_max: u64,
    volume: Volume,
    devices: Devices,
    /// Whether the log has named a file system that is mounted in the tree.
    has_named_mount: AtomicBool,
    pub(crate) identities: Identities,
    /// The user as whom files of unknown owners appear, if there can be any.
    unmapped_user: Option<u32>,
    pub(crate) minter: Minter,
    /// Where [`LocalTree::clock`] begins.
    pub(crate) opened: Instant,
    /// Descriptors open now.
    pub(crate) open: Arc<AtomicUsize>,
    pub(crate) descriptors_max: usize,
    pub(crate) objects: ClockMap<FileHandle, Arc<Object>, BuildHasherDefault<MacHasher>>,
    pub(crate) names: ClockMap<Box<[u8]>, Known, RandomState>,
    /// The table of inodes' places; `None` where handles are the kernel's.
    pub(crate) places: Option<Places>,
    pub(crate) listings: Listings,
    pub(crate) metadata_sync: MetadataSync,
    /// As [`LocalOptions::uncached_writes`].
    pub(crate) uncached_writes: bool,
    pub(crate) listing_entries_max: usize,
    changes: Vec<AtomicU32>,
    pub(crate) durability: Arc<Durability>,
    pub(crate) counters: Arc<TreeCounters>,
    retired: Mutex<Vec<Arc<Object>>>,
    retired_count: AtomicUsize,
    turn: AtomicUsize,
    swept: Mutex<Option<Instant>>,
    /// Number of refused descriptors at the time when objects were last closed for that.
    relieved: AtomicU64,
}

impl LocalTree {
    /// Opens the directory at `path` for serving. Blocks; call it before the cores start, and share what it gives.
    ///
    /// # Errors
    /// See [`OpenError`]; each says what to do.
    pub fn open(path: &Path, options: &LocalOptions) -> Result<Arc<LocalTree>, OpenError> {
        let root = open_root(path)?;
        check_kernel(&root)?;
        let unusable = |errno: Errno| OpenError::Unusable {
            path: path.to_path_buf(),
            source: errno.into(),
        };
        let fsid = file_system_id(&root).map_err(unusable)?;
        let facts = from_statx(&statx(root.as_fd(), c"").map_err(unusable)?, fsid);

        let devices = Devices::of(&root);
        let identities = identities(options)?;
        let kernel = kernel_name(&root, options.handles);
        let name = kernel.unwrap_or_else(|| inode_name(&facts, 0));
        let minter = Minter::new(key::load(options.state_dir.as_deref()), fsid, &name);
        let handle = minter.mint(&name).map_err(|_| unusable(Errno::OVERFLOW))?;

        let open = Arc::new(AtomicUsize::new(0));
        let descriptors_max = match options.descriptors_max {
            Some(max) => max.max(DESCRIPTORS_MIN),
            None => descriptors_each(1)?,
        };
        let copy = root.try_clone().map_err(|source| OpenError::Unusable {
            path: path.to_path_buf(),
            source,
        })?;
        let base = OpenFile::new(copy, &open);
        let number = facts.attributes.fileid;
        let root_object = Arc::new(Object::new(handle, number, &facts.attributes, base, None));
        tracing::info!(
            path = %path.display(),
            kernel_handles = kernel.is_some(),
            callers_identity = matches!(identities, Identities::Callers { .. }),
            descriptors_max,
            "directory opened"
        );
        Ok(Arc::new(LocalTree {
            file_size_max: file_size_max(&root),
            counters: Arc::clone(&options.counters),
            metadata_sync: MetadataSync::of(&root, options.async_metadata),
            uncached_writes: options.uncached_writes,
            root,
            root_object,
            fsid,
            volume: facts.volume,
            devices,
            has_named_mount: AtomicBool::new(false),
            identities,
            unmapped_user: unmapped_user(),
            minter,
            opened: Instant::now(),
            open,
            descriptors_max,
            objects: ClockMap::new(descriptors_max, BuildHasherDefault::default()),
            names: ClockMap::new(NAMES_MAX, RandomState::new()),
            places: kernel.is_none().then(Places::new),
            listings: Listings::default(),
            listing_entries_max: (options.listing_entries_max)
                .unwrap_or(LISTING_ENTRIES_MAX)
                .max(1),
            changes: (0..CHANGE_COUNTERS).map(|_| AtomicU32::new(0)).collect(),
            durability: Durability::new(),
            retired: Mutex::default(),
            retired_count: AtomicUsize::new(0),
            turn: AtomicUsize::new(0),
            swept: Mutex::default(),
            relieved: AtomicU64::new(descriptors::refused()),
        }))
    }

    /// Whether the handles are the kernel's.
    pub fn has_kernel_handles(&self) -> bool {
        self.places.is_none()
    }

    /// Milliseconds since the tree was opened; at least 1.
    pub(crate) fn clock(&self) -> u64 {
        u64::try_from(self.opened.elapsed().as_millis())
            .unwrap_or(u64::MAX)
            .max(1)
    }

    /// Whether the object is a directory that may have left the tree since it was last known to lie below the root.
    pub(crate) fn must_be_checked(&self, object: &Object) -> bool {
        if object.kind != FileKind::Directory || object.handle == self.root_object.handle {
            return false;
        }
        let at = object.below_at();
        let age = Duration::from_millis(self.clock().saturating_sub(at));
        at == 0 || age > DIRECTORY_CHECKED_AGE
    }

    /// The verifier of WRITE and COMMIT.
    pub(crate) fn write_verifier(&self) -> Verifier {
        self.durability.verifier()
    }

    /// Notes that an object was changed through this server.
    pub(crate) fn changed(&self, fileid: u64) {
        self.changes[fileid as usize % CHANGE_COUNTERS].fetch_add(1, Ordering::Release);
    }

    /// A number that differs from an earlier one if the object was changed through this server meanwhile.
    pub(crate) fn change_count(&self, fileid: u64) -> u32 {
        self.changes[fileid as usize % CHANGE_COUNTERS].load(Ordering::Acquire)
    }

    /// Whether `caller` owns an object. The server's user stands for all callers where it acts for them.
    ///
    /// In a user namespace that lacks ids, files of different owners appear as those of one user, which is also the
    /// default anonymous user. Where the namespace has no such user, nobody is known to own them: the kernel is asked.
    pub(crate) fn is_owner(&self, caller: &Credentials, attributes: &Attributes) -> bool {
        if self.unmapped_user == Some(attributes.uid) {
            return false;
        }
        let acting = self.identities.deciding(caller).map(|caller| caller.uid);
        acting.unwrap_or_else(|| rustix::process::geteuid().as_raw()) == attributes.uid
    }

    /// The object with this handle, if it is open.
    pub(crate) fn known(&self, handle: &FileHandle) -> Option<Arc<Object>> {
        if *handle == self.root_object.handle {
            return Some(Arc::clone(&self.root_object));
        }
        self.objects.get(handle)
    }

    /// The path of an open object below the root: as the kernel has it now, by one of its names. That of an object
    /// without a name ends with ` (deleted)`, and that of one elsewhere begins with `outside: `.
    pub(crate) fn path_of(&self, handle: &FileHandle) -> Option<Vec<u8>> {
        let path = self.known(handle)?.path()?;
        let root = self.root_object.path()?;
        let root = root.strip_suffix(b"/").unwrap_or(&root);
        match path.strip_prefix(root) {
            Some(b"") => Some(b"/".to_vec()),
            Some(below) if below.starts_with(b"/") => Some(below.to_vec()),
            // A local program has moved it out of the tree.
            _ => Some([b"outside: ", &*path].concat()),
        }
    }

    /// Takes over an open descriptor; returns its object, which keeps the descriptor if it had none, and the
    /// attributes.
    ///
    /// # Errors
    /// `Stale` when the object has lost its last name or is not of this file system.
    pub(crate) fn adopt(
        &self,
        descriptor: OwnedFd,
        base: Base,
    ) -> Result<(Arc<Object>, Attributes), Status> {
        let facts = self.facts(descriptor.as_fd())?;
        let handle = self.minter.mint(&self.name(descriptor.as_fd(), &facts)?)?;
        if handle == self.root_object.handle {
            return Ok((Arc::clone(&self.root_object), facts.attributes));
        }
        if let Some(object) = self.objects.get(&handle) {
            return Ok((object, facts.attributes));
        }
        let file = OpenFile::new(descriptor, &self.open);
        let number = self.number_of(&facts.attributes);
        let write = match base {
            Base::Path => None,
            Base::Data => {
                let file = Arc::clone(&file);
                Some(self.durability.write_file(number, file))
            }
        };
        let object = Arc::new(Object::new(handle, number, &facts.attributes, file, write));
        let (object, leaving) = self.objects.get_or_insert(handle, object);
        if let Some(places) = &self.places {
            places.returned(&handle);
        }
        self.keep_to_budget(leaving);
        Ok((object, facts.attributes))
    }

    /// Evicts objects until the descriptors are within their budget, not counting those that wait to be closed. These
    /// are retired and closed on the pool, because a close may wait for the disk.
    pub(crate) fn keep_to_budget(&self, mut leaving: Vec<Arc<Object>>) {
        let retired = self.retired_count.load(Ordering::Relaxed);
        let waiting = retired + self.durability.unsynced_count();
        while self.open.load(Ordering::Relaxed) > self.descriptors_max + waiting + leaving.len() {
            let turn = self.turn.fetch_add(1, Ordering::Relaxed);
            let Some(evicted) = self.objects.evict_one(turn) else {
                break;
            };
            leaving.push(evicted);
        }
        self.retire(leaving);
    }

    /// Attributes and identity of an open object of this file system.
    ///
    /// # Errors
    /// `Stale` when it has lost its last name or lies elsewhere.
    pub(crate) fn facts(&self, descriptor: BorrowedFd<'_>) -> Result<Facts, Status> {
        let mut facts = from_statx(&statx(descriptor, c"").map_err(status)?, self.fsid);
        if !self.is_ours(&facts) || facts.attributes.link_count == 0 {
            return Err(Status::Stale);
        }
        if self.is_in_subvolume(&facts) {
            facts.attributes.fsid = file_system_id(descriptor).map_err(status)?;
        }
        Ok(facts)
    }

    /// Whether an object belongs to the mount that is served.
    pub(crate) fn is_ours(&self, facts: &Facts) -> bool {
        facts.volume.mount == self.volume.mount
            && (self.devices != Devices::One || facts.volume.device == self.volume.device)
    }

    /// Whether an object lies in another subvolume than the root.
    pub(crate) fn is_in_subvolume(&self, facts: &Facts) -> bool {
        self.devices == Devices::Subvolumes && facts.volume.device != self.volume.device
    }

    /// Whether an object is the root of the tree.
    pub(crate) fn is_root(&self, facts: &Facts) -> bool {
        facts.attributes.fileid == self.root_object.fileid && facts.volume == self.volume
    }

    /// The subvolume of an object, as its handle has it: 0 for the root's.
    pub(crate) fn subvolume_of(&self, fsid: u64) -> u64 {
        if fsid == self.fsid { 0 } else { fsid }
    }

    /// A number of an inode that no other of the tree has: outside of the root's subvolume not the inode number.
    pub(crate) fn number_of(&self, attributes: &Attributes) -> u64 {
        let subvolume = self.subvolume_of(attributes.fsid);
        self.minter.number(subvolume, attributes.fileid)
    }

    /// The name of an inode whose handle is not the kernel's.
    pub(crate) fn inode_name(&self, facts: &Facts) -> Name {
        inode_name(facts, self.subvolume_of(facts.attributes.fsid))
    }

    fn name(&self, descriptor: BorrowedFd<'_>, facts: &Facts) -> Result<Name, Status> {
        if self.places.is_some() {
            return Ok(self.inode_name(facts));
        }
        let kernel = sys::name_to_handle(descriptor, c"").map_err(status)?;
        Ok(Name::Kernel(kernel))
    }

    /// Names the first file system in the log that is found mounted in the tree, which is not served.
    pub(crate) fn note_mount(&self, directory: &Object, name: &[u8]) {
        if self.has_named_mount.swap(true, Ordering::Relaxed) {
            return;
        }
        let path =
            rustix::fs::readlink(ProcPath::new(directory.descriptor()).as_c_str(), Vec::new());
        let path = path.map(std::ffi::CString::into_bytes).unwrap_or_default();
        tracing::warn!(
            directory = %path.escape_ascii(),
            name = %name.escape_ascii(),
            "a file system that is mounted inside the export is not served, and further ones are not named: export it \
             by a path of its own"
        );
    }

    /// Closes an object; the next use of its handle opens it again.
    pub(crate) fn close(&self, handle: &FileHandle) {
        self.retire(self.objects.remove(handle).into_iter().collect());
    }

    /// Forgets an object whose last name was removed.
    pub(crate) fn forget(&self, handle: &FileHandle) {
        self.close(handle);
        // Without a time of birth the next object with this number has the same handle.
        if let Some(places) = &self.places
            && matches!(self.minter.open(handle), Ok(Name::Inode { birth, .. }) if birth != 0)
        {
            places.departed(handle);
        }
    }

    /// Closes unused descriptors, unless another core has just done so. Blocks.
    pub(crate) fn sweep(&self) {
        if self.is_time_to_sweep(Instant::now()) {
            self.close_idle();
        }
    }

    /// Closes unused descriptors for writing and objects without a name. Blocks.
    pub(crate) fn close_idle(&self) {
        self.relieve(descriptors::refused());
        let mut gone = Gone::default();
        for part in 0..PARTS {
            for object in self.objects.part(part) {
                if object.is_gone() || gone.has_subvolume_of(self, &object) {
                    self.forget(&object.handle);
                } else if object.close_idle_write() {
                    self.close(&object.handle);
                }
            }
        }
        self.close_retired();
    }

    /// Closes half of what is open if descriptors were `refused` since that was last done: something else in this
    /// process, or on this machine, has taken the rest.
    fn relieve(&self, refused: u64) {
        if self.relieved.swap(refused, Ordering::Relaxed) == refused {
            return;
        }
        let open = self.open.load(Ordering::Relaxed);
        let mut leaving = Vec::new();
        while (self.open.load(Ordering::Relaxed)).saturating_sub(leaving.len()) > open / 2 {
            let turn = self.turn.fetch_add(1, Ordering::Relaxed);
            let Some(evicted) = self.objects.evict_one(turn) else {
                break;
            };
            leaving.push(evicted);
        }
        tracing::warn!(
            open,
            closing = leaving.len(),
            "no descriptors were left: raise the limit of open files (ulimit -n), or see what else has them open"
        );
        self.retire(leaving);
    }

    /// Whether the last sweep was long enough ago. Only a yes counts as a sweep: if each question did, several cores
    /// that ask by turns would keep each other from ever sweeping.
    fn is_time_to_sweep(&self, now: Instant) -> bool {
        let mut swept = lock(&self.swept);
        let since = swept.map(|last| now.saturating_duration_since(last));
        if since.is_some_and(|since| since < WRITE_DESCRIPTOR_IDLE / 2) {
            return false;
        }
        *swept = Some(now);
        true
    }

    pub(crate) fn retire(&self, leaving: Vec<Arc<Object>>) {
        if !leaving.is_empty() {
            let mut retired = lock(&self.retired);
            retired.extend(leaving);
            self.retired_count.store(retired.len(), Ordering::Relaxed);
        }
    }

    /// Objects to drop where waiting is allowed, if there are more than `at_least`.
    pub(crate) fn take_retired(&self, at_least: usize) -> Vec<Arc<Object>> {
        if self.retired_count.load(Ordering::Relaxed) <= at_least {
            return Vec::new();
        }
        let mut retired = lock(&self.retired);
        self.retired_count.store(0, Ordering::Relaxed);
        std::mem::take(&mut *retired)
    }

    /// Objects to drop, if it is time.
    pub(crate) fn overdue_retired(&self) -> Vec<Arc<Object>> {
        self.take_retired(RETIRED_MAX)
    }

    /// Closes retired objects and syncs descriptors that were put aside. Blocks.
    pub(crate) fn close_retired(&self) {
        drop(self.take_retired(0));
        self.durability.close_unsynced(0);
    }

    /// As [`LocalTree::close_retired`], if more than [`RETIRED_MAX`] wait. Blocks.
    pub(crate) fn close_overdue(&self) {
        drop(self.overdue_retired());
        self.durability.close_unsynced(RETIRED_MAX);
    }
}

/// Subvolumes that one sweep has looked at, by their fsid: whether they were removed. Their objects still have names,
/// and an open one would keep the space of them all.
#[derive(Default)]
struct Gone(HashMap<u64, bool>);

impl Gone {
    fn has_subvolume_of(&mut self, tree: &LocalTree, object: &Object) -> bool {
        if object.fsid == tree.fsid {
            return false;
        }
        *self.0.entry(object.fsid).or_insert_with(|| {
            let Ok(Name::Kernel(kernel)) = tree.minter.open(&object.handle) else {
                return false;
            };
            let opened = sys::open_by_handle(tree.root.as_fd(), &kernel, OFlags::PATH);
            matches!(opened, Err(Errno::STALE))
        })
    }
}

/// statx(2) of `name` in a directory (not following a link), or of the descriptor itself when `name` is empty.
pub(crate) fn statx<P: rustix::path::Arg>(
    descriptor: BorrowedFd<'_>,
    name: P,
) -> rustix::io::Result<rustix::fs::Statx> {
    rustix::fs::statx(
        descriptor,
        name,
        AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW,
        StatxFlags::BASIC_STATS | StatxFlags::BTIME | StatxFlags::MNT_ID,
    )
}

fn inode_name(facts: &Facts, subvolume: u64) -> Name {
    Name::Inode {
        fileid: facts.attributes.fileid,
        birth: facts.birth,
        subvolume,
    }
}

fn open_root(path: &Path) -> Result<OwnedFd, OpenError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).map_err(|errno| match errno {
        Errno::NOTDIR => OpenError::NotADirectory {
            path: path.to_path_buf(),
        },
        errno => OpenError::Unusable {
            path: path.to_path_buf(),
            source: errno.into(),
        },
    })
}

fn identities(options: &LocalOptions) -> Result<Identities, OpenError> {
    let probed = Identities::probe(options.callers_are_server);
    probed.map_err(|source| OpenError::Identity {
        gid: own_credentials().gid,
        source,
    })
}

/// The id of the file system or subvolume, which outlives reboots, or else its device number.
fn file_system_id(object: impl AsFd) -> rustix::io::Result<u64> {
    match rustix::fs::fstatvfs(&object)?.f_fsid {
        0 => Ok(rustix::fs::fstat(&object)?.st_dev),
        id => Ok(id),
    }
}

/// Tries the system calls without which nothing works.
fn check_kernel(root: &OwnedFd) -> Result<(), OpenError> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    match rustix::fs::openat2(
        root,
        ".",
        flags,
        Mode::empty(),
        BENEATH | ResolveFlags::CACHED,
    ) {
        Ok(_) | Err(Errno::AGAIN) => {}
        Err(errno) => {
            return Err(OpenError::Kernel {
                call: "openat2 with RESOLVE_CACHED",
                source: errno.into(),
            });
        }
    }
    sys::may_access(root.as_fd(), libc::R_OK).map_err(|errno| OpenError::Kernel {
        call: "faccessat2",
        source: errno.into(),
    })?;
    rustix::fs::openat(CWD, "/proc/self/fd", flags, Mode::empty())
        .map(drop)
        .map_err(|errno| OpenError::NoProc {
            source: errno.into(),
        })
}

/// The root's kernel handle, if handles of this file system can be opened again by this process.
fn kernel_name(root: &OwnedFd, scheme: HandleScheme) -> Option<Name> {
    if scheme != HandleScheme::Automatic {
        return None;
    }
    let handle = sys::name_to_handle(root.as_fd(), c"").ok()?;
    u8::try_from(handle.kind()).ok()?;
    match sys::open_by_handle(root.as_fd(), &handle, OFlags::PATH) {
        Ok(_) => Some(Name::Kernel(handle)),
        Err(error) => {
            tracing::debug!(%error, "kernel handles cannot be opened; using inode numbers");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lookup::Wait;

    #[test]
    fn cores_that_ask_by_turns_do_not_keep_each_other_from_sweeping() {
        let directory = tempfile::tempdir().unwrap();
        let options = LocalOptions {
            state_dir: Some(directory.path().join("state")),
            ..LocalOptions::default()
        };
        let tree = LocalTree::open(directory.path(), &options).unwrap();
        let start = Instant::now();
        let swept: Vec<bool> = (0..8)
            .map(|turn| tree.is_time_to_sweep(start + turn * Duration::from_secs(1)))
            .collect();
        let expected = [true, false, false, true, false, false, true, false];
        assert_eq!(swept, expected);
    }

    #[test]
    fn a_user_who_stands_for_unknown_owners_owns_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let options = LocalOptions {
            state_dir: Some(directory.path().join("state")),
            ..LocalOptions::default()
        };
        let mut tree = LocalTree::open(directory.path(), &options).unwrap();
        let attributes = tree.root_object.attributes(&tree).unwrap();
        let me = own_credentials();
        assert_eq!(attributes.uid, me.uid);
        for (unmapped_user, owns) in [
            (None, true),
            (Some(me.uid + 1), true),
            (Some(me.uid), false),
        ] {
            Arc::get_mut(&mut tree).unwrap().unmapped_user = unmapped_user;
            assert_eq!(tree.is_owner(&me, &attributes), owns, "{unmapped_user:?}");
        }
    }

    /// /proc is another file system of every machine.
    #[test]
    fn a_file_system_mounted_in_the_tree_is_named_once() {
        let directory = tempfile::tempdir().unwrap();
        let options = LocalOptions {
            state_dir: Some(directory.path().join("state")),
            ..LocalOptions::default()
        };
        let tree = LocalTree::open(Path::new("/"), &options).unwrap();
        let me = own_credentials();
        for named in [false, true] {
            assert_eq!(tree.has_named_mount.load(Ordering::Relaxed), named);
            let found = tree.lookup(&tree.root_object, &me, b"proc", None, Wait::Yes);
            assert!(found.is_err_and(|reason| reason == Status::Acces));
        }
        let listed = LocalTree::open(Path::new("/"), &options).unwrap();
        let facts = listed.facts_of_name(&listed.root_object, c"proc");
        assert!(facts.is_err() && listed.has_named_mount.load(Ordering::Relaxed));
    }

    /// On btrfs alone, and for root, who may remove one: objects of a removed subvolume keep their names.
    #[test]
    fn a_removed_subvolume_is_closed_by_the_next_sweep() {
        let directory = tempfile::tempdir().unwrap();
        let kind = rustix::fs::statfs(directory.path()).unwrap().f_type;
        if kind != BTRFS || !gannet_testing::is_root() {
            return;
        }
        let btrfs = |verb: &str, name: &str| {
            let mut command = std::process::Command::new("btrfs");
            command.args(["-q", "subvolume", verb]);
            let done = command.arg(directory.path().join(name)).status();
            assert!(done.unwrap().success());
        };
        let (stays, goes) = ("stays", "goes");
        btrfs("create", stays);
        btrfs("create", goes);
        let options = LocalOptions {
            state_dir: Some(directory.path().join("state")),
            ..LocalOptions::default()
        };
        let tree = LocalTree::open(directory.path(), &options).unwrap();
        let [stays, goes] = [stays, goes].map(|name| {
            let opened = crate::places::open_path(tree.root.as_fd(), name.as_bytes());
            let (object, attributes) = tree.adopt(opened.unwrap(), Base::Path).unwrap();
            assert_eq!(
                (object.fileid, object.fsid),
                (SUBVOLUME_ROOT, attributes.fsid)
            );
            (object.handle, object.number)
        });
        // Syncs and remembered names are known by this number.
        assert_ne!(stays.1, goes.1);
        let (stays, goes) = (stays.0, goes.0);
        btrfs("delete", "goes");
        assert!(tree.known(&goes).is_some());
        tree.close_idle();
        assert!(tree.known(&goes).is_none() && tree.known(&stays).is_some());
    }
}
