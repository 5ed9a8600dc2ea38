//! The system calls that no crate offers, each a thin safe function. The only `unsafe` of the crate.

#![allow(unsafe_code)]

use rustix::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use rustix::fs::OFlags;
use rustix::io::{Errno, Result};
use std::ffi::CStr;

/// Longest kernel file handle that fits into ours.
pub(crate) const KERNEL_HANDLE_MAX: usize = 48;

/// A kernel's name for an inode (`struct file_handle`).
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct KernelHandle {
    len: u32,
    kind: i32,
    bytes: [u8; KERNEL_HANDLE_MAX],
}

impl KernelHandle {
    /// Puts a handle together again; `None` when it is too long.
    pub(crate) fn new(kind: i32, bytes: &[u8]) -> Option<KernelHandle> {
        let mut handle = KernelHandle {
            len: u32::try_from(bytes.len()).ok()?,
            kind,
            bytes: [0; KERNEL_HANDLE_MAX],
        };
        handle.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(handle)
    }

    /// The file system's type of handle.
    pub(crate) fn kind(&self) -> i32 {
        self.kind
    }

    /// The file system's bytes of the handle.
    pub(crate) fn bytes(&self) -> &[u8] {
        let len = (self.len as usize).min(KERNEL_HANDLE_MAX);
        &self.bytes[..len]
    }
}

fn checked(result: libc::c_long) -> Result<libc::c_long> {
    if result >= 0 {
        return Ok(result);
    }
    let errno = std::io::Error::last_os_error();
    Err(Errno::from_io_error(&errno).unwrap_or(Errno::IO))
}

/// name_to_handle_at(2): of `name` in `directory` (a final symbolic link is not followed), or of `directory` itself
/// when `name` is empty.
///
/// # Errors
/// `OVERFLOW` when the handle is longer than [`KERNEL_HANDLE_MAX`], `OPNOTSUPP` when the file system has none.
pub(crate) fn name_to_handle(directory: BorrowedFd<'_>, name: &CStr) -> Result<KernelHandle> {
    let mut handle = KernelHandle {
        len: KERNEL_HANDLE_MAX as u32,
        kind: 0,
        bytes: [0; KERNEL_HANDLE_MAX],
    };
    let mut mount: libc::c_int = 0;
    let flags = if name.is_empty() {
        libc::AT_EMPTY_PATH
    } else {
        0
    };
    // SAFETY: `handle` is a file_handle with `len` bytes of room, `name` ends with NUL; both outlive the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_name_to_handle_at,
            directory.as_raw_fd(),
            name.as_ptr(),
            &raw mut handle,
            &raw mut mount,
            flags,
        )
    };
    checked(result)?;
    Ok(handle)
}

/// open_by_handle_at(2) on the mount of `mount`.
///
/// # Errors
/// `STALE` when the object was removed, `PERM` without CAP_DAC_READ_SEARCH.
pub(crate) fn open_by_handle(
    mount: BorrowedFd<'_>,
    handle: &KernelHandle,
    flags: OFlags,
) -> Result<OwnedFd> {
    let mut copy = *handle;
    // SAFETY: `copy` is a complete file_handle that outlives the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_open_by_handle_at,
            mount.as_raw_fd(),
            &raw mut copy,
            (flags | OFlags::CLOEXEC).bits(),
        )
    };
    let descriptor = RawFd::try_from(checked(result)?).map_err(|_| Errno::BADF)?;
    // SAFETY: the kernel just made this descriptor, and it has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Whether this thread's file system identity may use the open object in this way (`R_OK`, `W_OK`, `X_OK`).
///
/// # Errors
/// Other than a plain refusal. `ROFS` for the right to write to a file system that is read-only now.
pub(crate) fn may_access(object: BorrowedFd<'_>, mode: libc::c_int) -> Result<bool> {
    // SAFETY: the path is a constant, empty C string.
    let result = unsafe {
        libc::syscall(
            libc::SYS_faccessat2,
            object.as_raw_fd(),
            c"".as_ptr(),
            mode,
            libc::AT_EMPTY_PATH | libc::AT_EACCESS,
        )
    };
    match checked(result) {
        Ok(_) => Ok(true),
        Err(Errno::ACCESS | Errno::PERM | Errno::TXTBSY) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// Sets the user and group that file operations of this thread count as. Other threads keep theirs.
///
/// # Errors
/// `PERM` when the kernel did not take them.
pub(crate) fn set_thread_file_identity(uid: u32, gid: u32) -> Result<()> {
    const QUERY: u32 = u32::MAX;
    // SAFETY: these calls take and return integers. They report no errors; a query afterwards returns the identity.
    let (gid_now, uid_now) = unsafe {
        libc::setfsgid(gid);
        libc::setfsuid(uid);
        (libc::setfsgid(QUERY), libc::setfsuid(QUERY))
    };
    if gid_now.cast_unsigned() == gid && uid_now.cast_unsigned() == uid {
        Ok(())
    } else {
        Err(Errno::PERM)
    }
}

/// Gives this thread a file creation mask of its own, which is then empty.
///
/// # Errors
/// A sandbox forbids unshare(2).
pub(crate) fn clear_thread_umask() -> Result<()> {
    // SAFETY: unsharing the working directory, root and mask moves no memory and no descriptors.
    let result = unsafe { libc::unshare(libc::CLONE_FS) };
    checked(result.into())?;
    rustix::process::umask(rustix::fs::Mode::empty());
    Ok(())
}

/// Makes the whole process ignore SIGXFSZ: a write beyond the limit of file sizes (RLIMIT_FSIZE) then fails with `FBIG`
/// and does not end the process.
pub(crate) fn ignore_file_size_signal() {
    // SAFETY: ignoring a signal runs no code of ours. The call cannot fail for this signal.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// How many pages of a range are in the page cache (cachestat(2), Linux 6.5).
///
/// # Errors
/// `NOSYS` on older kernels, `PERM` when the kernel does not answer this user.
pub(crate) fn pages_cached(file: BorrowedFd<'_>, offset: u64, len: u64) -> Result<u64> {
    /// The same number on all architectures that share the common table.
    const SYS_CACHESTAT: libc::c_long = 451;
    if cfg!(any(target_arch = "mips", target_arch = "mips64")) {
        return Err(Errno::NOSYS);
    }
    let range: [u64; 2] = [offset, len];
    let mut counts = [0u64; 5];
    // SAFETY: cachestat_range is two and cachestat five 64-bit words; both outlive the call.
    let result = unsafe {
        libc::syscall(
            SYS_CACHESTAT,
            file.as_raw_fd(),
            range.as_ptr(),
            counts.as_mut_ptr(),
            0,
        )
    };
    checked(result)?;
    Ok(counts[0])
}
