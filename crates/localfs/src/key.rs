//! The key of the handles' MAC: sixteen random bytes in a state directory, so that handles outlive the server.

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use std::io::{self, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

const KEY_FILE: &str = "handle.key";
/// The state directory of users without a home of their own. Any user may write here, and reboots leave it alone.
const SHARED_STATE: &str = "/var/tmp";

/// Loads the key that `directory` keeps, and makes one if it has none. If that fails, the key is for this run alone,
/// and a warning says so. Without `directory` the key may be in any of the [`default_directories`].
pub(crate) fn load(directory: Option<&Path>) -> [u8; 16] {
    let directories = match directory {
        Some(directory) => vec![directory.to_path_buf()],
        None => default_directories(),
    };
    load_first(&directories).unwrap_or_else(|(directory, error)| {
        tracing::warn!(
            directory = %directory.display(),
            %error,
            "the key for file handles cannot be kept: clients must mount again after a restart; make the state \
             directory writable or name another"
        );
        ephemeral()
    })
}

/// Loads the first key that is in any of `directories`, so that a directory that becomes writable later changes
/// nothing. If none has a key, the first directory that can keep one gets a new key.
///
/// # Errors
/// The first directory and its error, if no directory can keep a key.
fn load_first(directories: &[PathBuf]) -> Result<[u8; 16], (PathBuf, io::Error)> {
    for directory in directories {
        if is_trusted(directory)
            && let Ok(key) = read(&directory.join(KEY_FILE))
        {
            return Ok(key);
        }
    }
    let mut first = None;
    for directory in directories {
        match load_or_make(directory) {
            Ok(key) => return Ok(key),
            Err(error) => first = first.or(Some((directory.clone(), error))),
        }
    }
    Err(first.unwrap_or_else(|| (PathBuf::new(), io::ErrorKind::NotFound.into())))
}

/// The directories that may keep the key, in order. Root has /var/lib/gannet alone. Other users have a directory in
/// their state directory and, since some have no home of their own, one in [`SHARED_STATE`].
fn default_directories() -> Vec<PathBuf> {
    let uid = rustix::process::geteuid();
    if uid.is_root() {
        return vec![PathBuf::from("/var/lib/gannet")];
    }
    let absolute = |name| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let state = absolute("XDG_STATE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/state")))
        .map(|state| state.join("gannet"));
    let shared = PathBuf::from(SHARED_STATE).join(format!("gannet-{}", uid.as_raw()));
    state.into_iter().chain([shared]).collect()
}

/// Whether a key in `directory` can be trusted. Below [`SHARED_STATE`] any user may make directories: only one that
/// this user owns, and no other may write to, counts. With another user's key, that user could forge handles.
fn is_trusted(directory: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    !directory.starts_with(SHARED_STATE)
        || std::fs::metadata(directory).is_ok_and(|found| {
            found.uid() == rustix::process::geteuid().as_raw() && found.mode() & 0o022 == 0
        })
}

fn load_or_make(directory: &Path) -> io::Result<[u8; 16]> {
    let path = directory.join(KEY_FILE);
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)?;
    if !is_trusted(directory) {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "another user made this directory, or may write in it",
        ));
    }
    match read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        other => return other,
    }
    let unfinished = directory.join(format!("{KEY_FILE}.{}", std::process::id()));
    let _ = std::fs::remove_file(&unfinished);
    let descriptor = rustix::fs::open(
        &unfinished,
        OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC,
        Mode::RUSR | Mode::WUSR,
    )?;
    let mut file = std::fs::File::from(descriptor);
    let written = file.write_all(&ephemeral()).and_then(|()| file.sync_all());
    // A link does not replace: of two servers that start at once, both end with the first one's key.
    let linked = written.and_then(|()| {
        match rustix::fs::linkat(CWD, &unfinished, CWD, &path, AtFlags::empty()) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    });
    let _ = std::fs::remove_file(&unfinished);
    linked?;
    read(&path)
}

fn read(path: &Path) -> io::Result<[u8; 16]> {
    let mut file = std::fs::File::open(path)?;
    let mode = std::os::unix::fs::MetadataExt::mode(&file.metadata()?);
    if mode & 0o077 != 0 {
        tracing::warn!(path = %path.display(), "the key for file handles is open to other users: chmod 600 it");
    }
    let mut key = [0; 16];
    file.read_exact(&mut key).map_err(|error| {
        io::Error::new(
            error.kind(),
            format!("{} is damaged (remove it): {error}", path.display()),
        )
    })?;
    Ok(key)
}

/// Random bytes for this run alone.
pub(crate) fn ephemeral() -> [u8; 16] {
    let mut key = [0u8; 16];
    let mut filled = 0;
    while let Some(rest) = key.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match rustix::rand::getrandom(rest, rustix::rand::GetRandomFlags::empty()) {
            Ok(count) => filled += count,
            Err(rustix::io::Errno::INTR) => {}
            // Without the system call the standard library's seed is the best there is.
            Err(_) => return fallback_key(),
        }
    }
    key
}

/// Eight random bytes.
pub(crate) fn random() -> u64 {
    let key = ephemeral();
    key.first_chunk::<8>()
        .map_or(0, |half| u64::from_ne_bytes(*half))
}

fn fallback_key() -> [u8; 16] {
    use std::hash::BuildHasher;
    let mut key = [0; 16];
    for half in key.chunks_exact_mut(8) {
        half.copy_from_slice(&std::hash::RandomState::new().hash_one(0u8).to_ne_bytes());
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_directory_keeps_the_key_when_the_first_cannot() {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("file");
        std::fs::write(&file, "").unwrap();
        let directories = [file.join("below"), scratch.path().join("kept")];
        let made = load_first(&directories).unwrap();
        assert_eq!(load_first(&directories).unwrap(), made);
        std::fs::remove_file(&file).unwrap();
        assert_eq!(
            load_first(&directories).unwrap(),
            made,
            "the key there is, though the first directory could be made now"
        );
    }

    #[test]
    fn a_key_in_a_directory_that_others_may_write_is_not_used() {
        use std::os::unix::fs::PermissionsExt;
        let scratch = tempfile::tempdir_in(SHARED_STATE).unwrap();
        std::fs::write(scratch.path().join(KEY_FILE), [7; 16]).unwrap();
        let directories = [scratch.path().to_path_buf()];
        assert_eq!(load_first(&directories).unwrap(), [7; 16]);
        let open = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(scratch.path(), open).unwrap();
        let (_, error) = load_first(&directories).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    }
}
