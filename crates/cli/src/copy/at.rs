//! Local names below a directory that is held open, reached without following a symbolic link.
//!
//! Names in a tree come from a server, from another user of it, or from another process that may write in the local
//! tree during the copy. Each system call would resolve a path anew, through any link that stands there by then. So the
//! one path that the user gave is resolved once, to a descriptor, and all below it by RESOLVE_BENEATH and
//! RESOLVE_NO_SYMLINKS from there.

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, openat, openat2, statat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of a path that one system call takes (PATH_MAX of Linux, with its NUL).
const PATH_MAX: usize = 4095;

/// A place below an open directory; the directory itself when nothing is below. Clones share the descriptor.
#[derive(Clone)]
pub(super) struct At {
    root: Arc<OwnedFd>,
    below: PathBuf,
}

impl At {
    /// The directory at a path that the user gave: links in it are followed.
    pub(super) fn directory(path: &Path) -> io::Result<At> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(path, flags, Mode::empty())?;
        Ok(At {
            root: Arc::new(root),
            below: PathBuf::new(),
        })
    }

    /// A name in this directory.
    ///
    /// # Errors
    /// It is no name of a file: with a slash or a NUL in it, empty, `.` or `..`.
    pub(super) fn child(&self, name: &OsStr) -> io::Result<At> {
        let bytes = name.as_bytes();
        if matches!(bytes, b"" | b"." | b"..") || bytes.iter().any(|byte| matches!(byte, 0 | b'/'))
        {
            let why = "it is not a valid file name";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        Ok(At {
            root: Arc::clone(&self.root),
            below: self.below.join(name),
        })
    }

    /// Opens this directory.
    pub(super) fn open_directory(&self, flags: OFlags) -> io::Result<OwnedFd> {
        open_below(self.root.as_fd(), &self.below, flags)
    }

    /// Opens the directory that this name is in, which is not the one at the top.
    pub(super) fn open_parent(&self) -> io::Result<Entry> {
        let name = self.below.file_name();
        let name = name.ok_or_else(|| io::Error::from(io::ErrorKind::IsADirectory))?;
        let parent = self.below.parent().unwrap_or(Path::new(""));
        Ok(Entry {
            directory: open_below(self.root.as_fd(), parent, OFlags::PATH)?,
            name: name.to_os_string(),
        })
    }
}

/// A name in an open directory.
pub(super) struct Entry {
    pub(super) directory: OwnedFd,
    pub(super) name: OsString,
}

impl Entry {
    /// The attributes of the object at this name, links not followed; `None` if there is none.
    pub(super) fn look(&self) -> io::Result<Option<rustix::fs::Stat>> {
        let found = statat(&self.directory, &self.name, AtFlags::SYMLINK_NOFOLLOW);
        match found {
            Err(Errno::NOENT) => Ok(None),
            found => Ok(Some(found?)),
        }
    }

    /// The type of the file at this name.
    pub(super) fn kind(&self) -> io::Result<Option<FileType>> {
        let found = self.look()?;
        Ok(found.map(|found| FileType::from_raw_mode(found.st_mode)))
    }

    /// Opens what is there, unless it is a symbolic link.
    pub(super) fn open(&self, flags: OFlags) -> io::Result<OwnedFd> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(openat(&self.directory, &self.name, flags, Mode::empty())?)
    }
}

/// Opens the directory `path`, which has names alone, below `root`.
fn open_below(root: BorrowedFd<'_>, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let flags = flags | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut opened: Option<OwnedFd> = None;
    let mut parts = parts(path).into_iter().peekable();
    while let Some(part) = parts.next() {
        let flags = match parts.peek() {
            None => flags,
            Some(_) => OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        };
        let here = opened.as_ref().map_or(root, OwnedFd::as_fd);
        opened = Some(open_part(here, &part, flags)?);
    }
    match opened {
        Some(opened) => Ok(opened),
        None => Ok(openat(root, ".", flags, Mode::empty())?),
    }
}

/// A path in pieces that a system call takes each.
fn parts(path: &Path) -> Vec<PathBuf> {
    let mut parts: Vec<PathBuf> = Vec::new();
    for name in path {
        match parts.last_mut() {
            Some(last) if last.as_os_str().len() + 1 + name.len() < PATH_MAX => last.push(name),
            _ => parts.push(PathBuf::from(name)),
        }
    }
    parts
}

fn open_part(directory: BorrowedFd<'_>, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let how = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    match openat2(directory, path, flags, Mode::empty(), how) {
        // A kernel or a sandbox without it.
        Err(Errno::NOSYS | Errno::PERM) => open_by_names(directory, path, flags),
        opened => Ok(opened?),
    }
}

/// As [`open_part`], name by name: as safe, and slower.
fn open_by_names(directory: BorrowedFd<'_>, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let open = |here: BorrowedFd<'_>, name: &OsStr, flags| {
        let flags = flags | OFlags::NOFOLLOW | OFlags::DIRECTORY | OFlags::CLOEXEC;
        openat(here, name, flags, Mode::empty())
    };
    let Some(name) = path.file_name() else {
        return Ok(openat(directory, ".", flags, Mode::empty())?);
    };
    let mut opened: Option<OwnedFd> = None;
    for above in path.parent().into_iter().flatten() {
        let here = opened.as_ref().map_or(directory, OwnedFd::as_fd);
        opened = Some(open(here, above, OFlags::PATH)?);
    }
    let here = opened.as_ref().map_or(directory, OwnedFd::as_fd);
    Ok(open(here, name, flags)?)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn names_that_would_leave_the_directory_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let top = At::directory(folder.path()).unwrap();
        for name in ["", ".", "..", "/", "a/b", "/etc", "a\0b"] {
            assert!(top.child(OsStr::new(name)).is_err(), "{name:?}");
        }
        assert!(top.child(OsStr::new("...")).is_ok());
    }

    #[test]
    fn no_link_on_the_way_is_followed() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("real/deep")).unwrap();
        symlink("real", folder.path().join("link")).unwrap();
        symlink("/", folder.path().join("real/out")).unwrap();
        let top = At::directory(folder.path()).unwrap();
        let at = |path: &str| {
            let mut names = path.split('/');
            names.try_fold(top.clone(), |at, name| at.child(OsStr::new(name)))
        };
        let open = |path: &str| at(path).unwrap().open_directory(OFlags::RDONLY);
        let by_names = |path: &str| open_by_names(top.root.as_fd(), Path::new(path), OFlags::PATH);
        for (path, is_there) in [
            ("real", true),
            ("real/deep", true),
            ("link", false),
            ("link/deep", false),
            ("real/out", false),
            ("real/out/etc", false),
        ] {
            assert_eq!(open(path).is_ok(), is_there, "{path}");
            assert_eq!(by_names(path).is_ok(), is_there, "{path}");
        }
    }

    #[test]
    fn directories_may_be_deeper_than_the_longest_path() {
        let folder = tempfile::tempdir().unwrap();
        let mut at = At::directory(folder.path()).unwrap();
        let name = "n".repeat(200);
        for _ in 0..30 {
            at = at.child(OsStr::new(&name)).unwrap();
            let entry = at.open_parent().unwrap();
            rustix::fs::mkdirat(&entry.directory, &entry.name, 0o700.into()).unwrap();
        }
        assert!(at.below.as_os_str().len() > PATH_MAX);
        at.open_directory(OFlags::RDONLY).unwrap();
    }
}
