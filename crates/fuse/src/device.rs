//! The kernel's end of a mount: the device, and the call that mounts it.

use crate::session::{Locks, MountOptions};
use fuser::{Config, Filesystem, InitFlags, MountOption, Session, SessionACL, SessionUnmounter};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};
use std::ffi::CString;
use std::io;
use std::path::{Path, PathBuf};

const DEVICE: &str = "/dev/fuse";
/// The type of Gannet's mounts in /proc/mounts and for `df -t`.
const FILE_SYSTEM: &str = "fuse.gannet";

/// The way to unmount, by the way in which it was mounted.
pub(crate) enum Unmounter {
    /// By umount(2). The device shows whether it is still mounted: another mount may lie on the directory by now.
    System { device: OwnedFd, directory: PathBuf },
    /// As fuser does, by the helper that mounted it.
    Helper(SessionUnmounter),
}

impl Unmounter {
    /// # Errors
    /// As umount(2).
    pub(crate) fn unmount(self) -> io::Result<()> {
        match self {
            Unmounter::System { device, directory } => {
                if is_mounted(&device) {
                    rustix::mount::unmount(&directory, UnmountFlags::empty())?;
                }
                Ok(())
            }
            Unmounter::Helper(mut unmounter) => unmounter.unmount(),
        }
    }
}

/// True until the file system is unmounted; poll(2) reports an error of the device from then on.
fn is_mounted(device: &OwnedFd) -> bool {
    let mut states = [PollFd::new(device, PollFlags::empty())];
    let asked = poll(&mut states, Some(&Timespec::default()));
    let [state] = &states;
    asked.is_err() || !state.revents().contains(PollFlags::ERR)
}

/// The capabilities of the kernel that a mount with such locks asks for.
pub(crate) fn wanted_flags(locks: Locks) -> Vec<InitFlags> {
    let mut wanted = vec![
        InitFlags::FUSE_DO_READDIRPLUS,
        InitFlags::FUSE_READDIRPLUS_AUTO,
        InitFlags::FUSE_PARALLEL_DIROPS,
        // The mount knows which changes are its own: the kernel would drop all pages after each write.
        InitFlags::FUSE_EXPLICIT_INVAL_DATA,
        InitFlags::FUSE_ASYNC_DIO,
        // Files opened for appending pass the cache on every mount.
        InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
        // Servers clear set-uid bits on writes, truncations and changes of owner. Without this flag the kernel would
        // set the mode for a writer that is not the owner, which servers refuse.
        InitFlags::FUSE_HANDLE_KILLPRIV_V2,
        // A file handle (name_to_handle_at(2), a kernel's NFS server) would be stale once the kernel forgot the file.
        InitFlags::FUSE_NO_EXPORT_SUPPORT,
    ];
    if locks != Locks::Local {
        wanted.extend([InitFlags::FUSE_POSIX_LOCKS, InitFlags::FUSE_FLOCK_LOCKS]);
    }
    wanted
}

/// Mounts on `directory`, and negotiates the protocol with the kernel (FUSE_INIT).
///
/// Root mounts by itself: the library would leave the subtype out of the file system's name.
///
/// # Errors
/// The system does not have FUSE, or does not let this user mount.
pub(crate) fn open_session<F: Filesystem>(
    front: F,
    directory: &Path,
    options: &MountOptions,
) -> io::Result<(Session<F>, Unmounter)> {
    let config = config(options);
    let Some(device) = mount(directory, options)? else {
        let mut session = Session::new(front, directory, &config)?;
        let unmounter = Unmounter::Helper(session.unmount_callable());
        return Ok((session, unmounter));
    };
    let unmounter = Unmounter::System {
        device: device.try_clone()?,
        directory: directory.to_path_buf(),
    };
    match Session::from_fd(front, device, config.acl, config) {
        Ok(session) => Ok((session, unmounter)),
        Err(error) => {
            // The session's error is reported, and not that of the unmount.
            let _ = unmounter.unmount();
            Err(error)
        }
    }
}

/// Mounts by mount(2); `None` where this user may not, and the helper has to.
fn mount(directory: &Path, options: &MountOptions) -> io::Result<Option<OwnedFd>> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let device = rustix::fs::open(DEVICE, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    let root_mode = rustix::fs::stat(directory)?.st_mode;
    let (uid, gid) = (rustix::process::getuid(), rustix::process::getgid());
    let mut data = format!(
        "fd={},rootmode={root_mode:o},user_id={},group_id={},default_permissions",
        device.as_fd().as_raw_fd(),
        uid.as_raw(),
        gid.as_raw()
    );
    if options.allow_other {
        data.push_str(",allow_other");
    }
    let mut flags = MountFlags::NOSUID | MountFlags::NODEV;
    if options.read_only {
        flags |= MountFlags::RDONLY;
    }
    if options.no_exec {
        flags |= MountFlags::NOEXEC;
    }
    let data = CString::new(data)?;
    let source = options.source.as_str();
    match rustix::mount::mount(source, directory, FILE_SYSTEM, flags, data.as_c_str()) {
        Ok(()) => Ok(Some(device)),
        Err(Errno::PERM) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn config(options: &MountOptions) -> Config {
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName(options.source.clone()),
        MountOption::Subtype(String::from("gannet")),
        MountOption::DefaultPermissions,
        MountOption::NoDev,
        MountOption::NoSuid,
    ];
    if options.read_only {
        config.mount_options.push(MountOption::RO);
    }
    if options.no_exec {
        config.mount_options.push(MountOption::NoExec);
    }
    if options.allow_other {
        config.acl = SessionACL::All;
    }
    config
}
