//! How a tree is opened, and why that may fail.

use super::counters::TreeCounters;
use crate::sys;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use thiserror::Error;

/// Ignores SIGXFSZ, by which the kernel would end the process when a client writes beyond a limit for the size of files
/// (`ulimit -f`, LimitFSIZE= of systemd). The client then gets NFS3ERR_FBIG. It is for the whole process: its `main`
/// calls it before it serves.
pub fn survive_file_size_limit() {
    sys::ignore_file_size_signal();
}

/// The content of file handles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HandleScheme {
    /// The kernel's handles where this process can open them, else inode numbers.
    #[default]
    Automatic,
    /// Inode number and time of birth, found again through a table of places or a search of the tree.
    Inode,
}

/// The options for serving a directory. `Default` is right for most.
#[derive(Debug, Clone, Default)]
pub struct LocalOptions {
    /// The directory of the key of the file handles; by default /var/lib/gannet as root, else
    /// `$XDG_STATE_HOME/gannet` or `~/.local/state/gannet`.
    pub state_dir: Option<PathBuf>,
    /// The content of file handles.
    pub handles: HandleScheme,
    /// Answers creations, removals, renames and attribute changes before they are durable, against RFC 1813 section
    /// 3.3. The file system writes them within seconds, and a crash of the machine loses the last of them. WRITE and
    /// COMMIT are not affected.
    pub async_metadata: bool,
    /// Long WRITEs, of [`UNCACHED_WRITE_MIN`] and more, leave the page cache once they are on the disk, where the file
    /// system can (`RWF_DONTCACHE`, Linux 6.14).
    ///
    /// [`UNCACHED_WRITE_MIN`]: super::limits::UNCACHED_WRITE_MIN
    pub uncached_writes: bool,
    /// Every caller is the server's own user and group ([`own_credentials`](super::own_credentials)): exports squash
    /// all callers to it, or the server alone calls. Root needs no right to take on other identities then.
    pub callers_are_server: bool,
    /// Descriptors kept open at most; by default what is right for the only directory that the process serves, see
    /// [`descriptors_each`](super::descriptors_each).
    pub descriptors_max: Option<usize>,
    /// Entries of one directory that a listing in memory holds at most; larger directories take several. By default
    /// 65,536, some 15 MB when their objects were listed too.
    pub listing_entries_max: Option<usize>,
    /// Counts its syncs and its waiting operations, perhaps with those of other trees.
    pub counters: Arc<TreeCounters>,
}

/// Why a directory cannot be served.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The directory cannot be opened.
    #[error("{} cannot be served: {source} (check that it exists and that this user may list it)", path.display())]
    Unusable {
        /// The directory.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The path is no directory.
    #[error("{} is not a directory (serve the directory that holds it)", path.display())]
    NotADirectory {
        /// The path.
        path: PathBuf,
    },
    /// The kernel lacks a system call.
    #[error("the kernel does not offer {call} (Linux 5.12 or newer is needed): {source}")]
    Kernel {
        /// The system call.
        call: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// The limit of open files of the process is too low.
    #[error(
        "{limit} open files are too few (raise the hard limit to {needed} at least: ulimit -Hn, LimitNOFILE=)"
    )]
    Descriptors {
        /// Files that it may have open.
        limit: u64,
        /// Files that it needs.
        needed: u64,
    },
    /// The server is root and may not act as its callers, so that each of them would have the rights of root.
    #[error(
        "root may not take on the identities of callers: {source} (give it CAP_SETUID and CAP_SETGID, or run it as \
         another user, or make every caller this user: squash = \"all\", anonuid = 0, anongid = {gid})"
    )]
    Identity {
        /// The group of the server.
        gid: u32,
        /// The system's reason.
        source: io::Error,
    },
    /// /proc/self/fd does not exist.
    #[error(
        "/proc is not mounted: {source} (mount it in this container or chroot: mount -t proc proc /proc)"
    )]
    NoProc {
        /// The system's reason.
        source: io::Error,
    },
}
