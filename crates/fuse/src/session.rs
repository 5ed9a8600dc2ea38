//! Mounts and unmounts a store.

use crate::device::{self, Unmounter};
use crate::front::Front;
use crate::limits::{KeptBounds, QUEUE_MAX, READAHEAD_KIB};
use crate::mounted::{Mounted, write_arena};
use crate::pages::Notified;
use crate::requests::{Requests, WAIT_MIN};
use gannet_runtime::{Handle, run_blocking, timeout};
use gannet_vfs::{Credentials, FileHandle, Status, Vfs};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use tokio::sync::{mpsc, oneshot};

/// Where the kernel keeps file data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caching {
    /// Read bytes in the kernel's page cache. Written ones go through it to the mount, which sends them to the server
    /// behind the answer to write(2), and before close(2), fsync(2) and an unlock return. Pages of a file that another
    /// client has changed are dropped when the mount learns of it, at the latest at the next open.
    Cached,
    /// Nowhere: every read(2) and write(2) goes to the server.
    Direct,
}

/// Where file locks (flock, fcntl) hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Locks {
    /// Among all clients of the file system: the store keeps them, and is coordinated
    /// ([`Vfs::is_coordinated`](gannet_vfs::Vfs::is_coordinated)).
    Shared,
    /// Among the programs of this machine, by its kernel alone: other machines do not see them.
    Local,
    /// Nowhere: asking for one fails with `ENOLCK`.
    None,
}

/// Whether close(2) waits for written bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Closing {
    /// It returns when they are durable, or with the error of any of them.
    #[default]
    Sync,
    /// It returns at once, and the bytes leave afterwards. What a crash of this machine loses, or the store refuses
    /// then, no program hears of. fsync(2) waits as ever.
    Async,
}

/// How a store is mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountOptions {
    /// The source in the table of mounts (/proc/mounts).
    pub source: String,
    /// Where the kernel keeps file data.
    pub caching: Caching,
    /// The kernel refuses all changes.
    pub read_only: bool,
    /// The kernel refuses to run programs from it.
    pub no_exec: bool,
    /// Other users than the mounting one may use it.
    pub allow_other: bool,
    /// The credentials of all operations; `None` for those of each calling process.
    pub caller: Option<Credentials>,
    /// How long the kernel may use names and attributes without asking again.
    pub cache_age: Duration,
    /// Where file locks hold.
    pub locks: Locks,
    /// Whether close(2) waits for written bytes.
    pub closing: Closing,
    /// How long an operation may take before it fails with `EIO`.
    pub deadline: Duration,
}

/// Why a store was not mounted.
#[derive(Debug, Error)]
pub enum MountError {
    /// The directory, the device or the helper refused it.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The runtime is shutting down.
    #[error("the runtime is shutting down")]
    Closed,
}

/// A mounted store. It stays mounted until a user unmounts the directory, or [`Mount::unmount`] does.
pub struct Mount<V> {
    mounted: Rc<Mounted<V>>,
    runtime: Handle,
    directory: PathBuf,
    /// How long an operation may take.
    deadline: Duration,
    unmounter: Option<Unmounter>,
    /// Receives the end of the session with the kernel; `None` once received.
    ended: Option<oneshot::Receiver<io::Result<()>>>,
    /// The result of the session, kept here until [`Mount::ended`] returns it.
    outcome: io::Result<()>,
    /// Reports that every request is answered; `None` once received.
    served: Option<oneshot::Receiver<()>>,
}

impl<V: Vfs> Mount<V> {
    /// Mounts the directory `root` of `vfs` on `directory`, an existing one. Requests are done on this core; the
    /// kernel's device is read on a thread of its own.
    ///
    /// # Errors
    /// The system does not have FUSE, does not let this user mount, or the directory is no directory.
    pub async fn start(
        runtime: &Handle,
        vfs: Rc<V>,
        root: FileHandle,
        directory: &Path,
        options: MountOptions,
    ) -> Result<Mount<V>, MountError> {
        let (jobs, queue) = mpsc::channel(QUEUE_MAX);
        let (arena, settings) = (write_arena(), options.clone());
        let deadline = options.deadline;
        let mounted = Rc::new(Mounted::new(
            Handle::clone(runtime),
            vfs,
            root,
            options,
            KeptBounds::default(),
        ));
        let windows = Arc::clone(&mounted.pages.windows);
        // The only time.
        let _ = mounted.copies.set(Rc::new(arena.clone()));
        let front = Front::new(jobs, arena, windows, &settings);
        let target = directory.to_path_buf();
        let starting = run_blocking(runtime, move || {
            let target = target.canonicalize()?;
            let (session, unmounter) = device::open_session(front, &target, &settings)?;
            Ok::<_, io::Error>((session, unmounter, target))
        });
        let (session, unmounter, directory) = starting.await.map_err(|_| MountError::Closed)??;
        let kernel = Notified::new(runtime, session.notifier());
        mounted.pages.kernel.replace(Some(Rc::new(kernel)));
        // Before requests are served: an open file keeps the readahead limit of its open.
        raise_limits(runtime, directory.clone()).await;
        let (all_answered, served) = oneshot::channel();
        let serving = Rc::clone(&mounted);
        let serve = Box::pin(async move {
            serving.serve(queue).await;
            let _ = all_answered.send(());
        });
        runtime.spawn("fuse", serve);
        if mounted.options.caching == Caching::Cached {
            let following = Mounted::follow_open_files(Rc::downgrade(&mounted));
            runtime.spawn("open files", Box::pin(following));
        }
        let (ends, ended) = oneshot::channel();
        std::thread::Builder::new()
            .name(String::from("fuse"))
            .spawn(move || {
                // It fails if the `Mount` was dropped.
                let _ = ends.send(session.run());
            })?;
        Ok(Mount {
            mounted,
            runtime: Handle::clone(runtime),
            directory,
            deadline,
            unmounter: Some(unmounter),
            ended: Some(ended),
            outcome: Ok(()),
            served: Some(served),
        })
    }

    /// The directory of the mount: an absolute path without symbolic links.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Where file locks hold.
    pub fn locks(&self) -> Locks {
        self.mounted.options.locks
    }

    /// The requests that it has answered.
    pub fn requests(&self) -> &Arc<Requests> {
        &self.mounted.requests
    }

    /// A look at its state for as long as it is mounted.
    pub fn watch(&self) -> MountWatch<V> {
        MountWatch(Rc::downgrade(&self.mounted))
    }

    /// Waits until the directory has been unmounted, and everything is answered and durable.
    ///
    /// # Errors
    /// The kernel's device failed.
    pub async fn ended(&mut self) -> io::Result<()> {
        if let Some(ended) = &mut self.ended {
            let said = ended.await;
            // The sender was dropped without a result: the session's thread panicked.
            let gone = |_| Err(io::Error::other("the FUSE session is gone"));
            self.outcome = match said.unwrap_or_else(gone) {
                // The end of a mount that was detached while in use.
                Err(error)
                    if self.unmounter.is_none()
                        && error.kind() == io::ErrorKind::ConnectionAborted =>
                {
                    Ok(())
                }
                outcome => outcome,
            };
            self.ended = None;
        }
        if let Some(served) = &mut self.served {
            let _ = served.await;
            self.served = None;
        }
        self.mounted.finish().await;
        std::mem::replace(&mut self.outcome, Ok(()))
    }

    /// Unmounts the directory after the kernel has written its cache back. A mount in use is detached from the tree.
    /// Its open files are served until they are closed, for at most the deadline of an operation.
    ///
    /// This function makes no system call on the mount itself. A thread of this process in such a call keeps the
    /// kernel's device open when the process is killed. Both would then wait for ever.
    ///
    /// # Errors
    /// Neither unmounting nor detaching succeeded.
    pub async fn unmount(&mut self) -> io::Result<()> {
        let Some(unmounter) = self.unmounter.take() else {
            return Ok(());
        };
        let directory = self.directory.clone();
        let unmounting = run_blocking(&self.runtime, move || {
            let error = match unmounter.unmount() {
                Ok(()) => return Ok(false),
                Err(error) => error,
            };
            // The mount is mostly in use then; the helper for ordinary users does not report why.
            tracing::debug!(%error, "not simply unmounted");
            detach(&directory).map(|()| true)
        });
        let unmounted = unmounting.await;
        let is_detached =
            unmounted.map_err(|_| io::Error::other("the runtime is shutting down"))??;
        if !is_detached {
            return self.ended().await;
        }
        let seconds = self.deadline.as_secs_f64();
        tracing::warn!(
            directory = %self.directory.display(),
            seconds,
            "detached while in use: served for these seconds, or until its last close"
        );
        let (runtime, max) = (Handle::clone(&self.runtime), self.deadline);
        match timeout(&runtime, max, self.ended()).await {
            Ok(ended) => ended,
            Err(_) => {
                tracing::warn!(
                    "still in use: what open files have in the kernel's cache may be lost"
                );
                Ok(())
            }
        }
    }
}

/// Looks at a mount, on its core.
pub struct MountWatch<V>(Weak<Mounted<V>>);

/// The state of a mount at one time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MountState {
    /// Requests that have no reply.
    pub under_way: usize,
    /// How long the oldest of them waits, from [`WAIT_MIN`] on. FLUSH, FSYNC and RELEASE wait since the last reply to a
    /// WRITE or COMMIT.
    pub waiting: Option<Duration>,
    /// Why, if the store knows it.
    pub why: Option<String>,
    /// Bytes that programs have written and the store has not answered.
    pub dirty_bytes: u64,
    /// Bytes that the store has answered and not made durable: the mount can send them again.
    pub uncommitted_bytes: u64,
}

impl<V: Vfs> MountWatch<V> {
    /// The present state; the default once the mount has ended.
    pub fn state(&self) -> MountState {
        let Some(mounted) = self.0.upgrade() else {
            return MountState::default();
        };
        let now = mounted.runtime.now();
        let oldest = mounted.waiting.since(mounted.writes.last_reply());
        let waiting = oldest.map(|since| now.duration_since(since));
        let waiting = waiting.filter(|waiting| *waiting >= WAIT_MIN);
        MountState {
            under_way: mounted.waiting.count(),
            why: waiting.and_then(|_| mounted.vfs.cause(Status::Jukebox)),
            waiting,
            dirty_bytes: mounted.writes.waiting(),
            uncommitted_bytes: mounted.writes.kept(),
        }
    }
}

/// Detaches the mount of a directory from the tree, as root or by the helper that mounts for ordinary users.
fn detach(directory: &Path) -> io::Result<()> {
    let error = match rustix::mount::unmount(directory, rustix::mount::UnmountFlags::DETACH) {
        Ok(()) => return Ok(()),
        Err(error) => error,
    };
    if error != rustix::io::Errno::PERM {
        return Err(error.into());
    }
    let helper = std::env::var_os("FUSERMOUNT_PATH").unwrap_or_else(|| "fusermount3".into());
    let mut command = std::process::Command::new(helper);
    let status = command.args(["-u", "-z", "--"]).arg(directory).status()?;
    if status.success() {
        Ok(())
    } else {
        Err(error.into())
    }
}

/// Raises two limits of the kernel where this user may: its readahead, by default 128 KiB, and its bound on dirty
/// pages, by default a hundredth of the bound for all file systems.
///
/// The default bound is some 40 MB on a machine with 24 GiB. A writing program sleeps beyond it, while the network and
/// this process idle. Without the strict limit it holds only when memory gets scarce.
async fn raise_limits(runtime: &Handle, directory: PathBuf) {
    let raising = run_blocking(runtime, move || {
        let mounts = std::fs::read("/proc/self/mountinfo")?;
        let device = device_of(&mounts, &directory)
            .ok_or_else(|| io::Error::other("not in the table of mounts"))?;
        let limits = Path::new("/sys/class/bdi").join(device);
        let readahead = std::fs::write(limits.join("read_ahead_kb"), READAHEAD_KIB.to_string());
        // Kernels before 6.2 do not have it.
        let strictness = std::fs::write(limits.join("strict_limit"), "0");
        readahead.and(strictness)
    });
    if let Ok(Err(error)) = raising.await {
        tracing::info!(%error, "cannot raise the kernel's readahead and dirty limits; transfers are slower");
    }
}

/// The device number, `MAJOR:MINOR`, of the mount on `directory`, in the text of `/proc/self/mountinfo`. The last line
/// counts: its mount lies on top.
fn device_of(mounts: &[u8], directory: &Path) -> Option<String> {
    let lines = mounts.split(|byte| *byte == b'\n');
    let mut devices = lines.filter_map(|line| {
        let mut fields = line.split(|byte| *byte == b' ').skip(2);
        let (device, _, path) = (fields.next()?, fields.next()?, fields.next()?);
        (unescape(path) == directory.as_os_str().as_bytes()).then_some(device)
    });
    let top = devices.next_back()?;
    Some(String::from_utf8_lossy(top).into_owned())
}

/// A field of the table of mounts, in which blanks and backslashes are written `\040` and the like.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|_| *first == b'\\');
        let octal = digits
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        let skip = if octal.is_some() { 3 } else { 0 };
        bytes.push(octal.unwrap_or(*first));
        rest = after.get(skip..).unwrap_or_default();
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_device_is_that_of_the_topmost_mount() {
        let mounts = b"21 1 0:19 / /a rw - tmpfs x rw\n22 1 0:40 / /a\\040b rw - fuse x rw\n\
            23 22 0:41 / /a\\040b rw - fuse x rw\n";
        assert_eq!(
            device_of(mounts, Path::new("/a b")).as_deref(),
            Some("0:41")
        );
        assert_eq!(device_of(mounts, Path::new("/a")).as_deref(), Some("0:19"));
        assert_eq!(device_of(mounts, Path::new("/b")), None);
        assert_eq!(unescape(b"\\134x\\9"), b"\\x\\9");
    }
}
