//! How a tree is opened, and why that may fail.

use crate::sys;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Lets a server live where the size of files is limited (`ulimit -f`, LimitFSIZE= of systemd): the kernel would end
/// it by a signal when a client writes too far; so the client gets NFS3ERR_FBIG. For the whole process, hence for its
/// `main` to call before it serves.
pub fn survive_file_size_limit() {
    sys::ignore_file_size_signal();
}

/// What handles are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HandleScheme {
    /// The kernel's handles where this process can open them, else inode numbers.
    #[default]
    Automatic,
    /// Inode number and time of birth, found again through a table of places or a search of the tree.
    Inode,
}

/// How to serve a directory. `Default` is right for most.
#[derive(Debug, Clone, Default)]
pub struct LocalOptions {
    /// Where the key of the file handles is kept; by default /var/lib/gannet as root, else
    /// `$XDG_STATE_HOME/gannet` or `~/.local/state/gannet`.
    pub state_dir: Option<PathBuf>,
    /// What handles are made of.
    pub handles: HandleScheme,
    /// Answers creations, removals, renames and attribute changes before they are durable, although RFC 1813 section
    /// 3.3 asks for it. The file system writes them within seconds, and a crash of the machine loses that much. WRITE
    /// and COMMIT keep their promise either way.
    pub async_metadata: bool,
    /// Descriptors kept open at most; by default what is right for the only directory that the process serves, see
    /// [`descriptors_each`](super::descriptors_each).
    pub descriptors_max: Option<usize>,
    /// Entries of one directory that a listing in memory holds at most; larger directories take several. By default
    /// 65,536, some 15 MB when their objects were listed too.
    pub listing_entries_max: Option<usize>,
}

/// Why a directory cannot be served.
#[derive(Debug, Error)]
pub enum OpenError {
    /// It cannot be opened.
    #[error("{} cannot be served: {source} (check that it exists and that this user may list it)", path.display())]
    Unusable {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is something else.
    #[error("{} is not a directory (serve the directory that holds it)", path.display())]
    NotADirectory {
        /// What it is not.
        path: PathBuf,
    },
    /// The kernel lacks something.
    #[error("the kernel does not offer {call} (Linux 5.12 or newer is needed): {source}")]
    Kernel {
        /// The system call.
        call: &'static str,
        /// What it said.
        source: io::Error,
    },
    /// The process may not open files enough.
    #[error(
        "{limit} open files are too few (raise the hard limit to {needed} at least: ulimit -Hn, LimitNOFILE=)"
    )]
    Descriptors {
        /// How many it may have open.
        limit: u64,
        /// How many it would need.
        needed: u64,
    },
    /// /proc/self/fd is not there.
    #[error(
        "/proc is not mounted: {source} (mount it in this container or chroot: mount -t proc proc /proc)"
    )]
    NoProc {
        /// What opening it said.
        source: io::Error,
    },
}
