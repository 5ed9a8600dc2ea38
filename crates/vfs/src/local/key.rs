//! The key of the handles' MAC: sixteen random bytes in a state directory, so that handles outlive the server.

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

const KEY_FILE: &str = "handle.key";

/// The key kept in `directory` (made if missing), or one for this run alone, with a warning, when that fails.
pub(crate) fn load(directory: Option<&Path>) -> [u8; 16] {
    let directory = directory.map(Path::to_path_buf).or_else(default_directory);
    let Some(directory) = directory else {
        tracing::warn!(
            "no state directory (neither XDG_STATE_HOME nor HOME is set): clients must mount again after a restart; \
             name one with the option for the state directory"
        );
        return ephemeral();
    };
    match load_or_make(&directory) {
        Ok(key) => key,
        Err(error) => {
            tracing::warn!(
                directory = %directory.display(),
                %error,
                "the key for file handles cannot be kept: clients must mount again after a restart; make the state \
                 directory writable or name another"
            );
            ephemeral()
        }
    }
}

/// /var/lib/gannet for root, else below the user's state directory.
pub(crate) fn default_directory() -> Option<PathBuf> {
    if rustix::process::geteuid().is_root() {
        return Some(PathBuf::from("/var/lib/gannet"));
    }
    let absolute = |name| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    absolute("XDG_STATE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/state")))
        .map(|state| state.join("gannet"))
}

fn load_or_make(directory: &Path) -> io::Result<[u8; 16]> {
    let path = directory.join(KEY_FILE);
    match read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        other => return other,
    }
    std::fs::create_dir_all(directory)?;
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

fn fallback_key() -> [u8; 16] {
    use std::hash::BuildHasher;
    let mut key = [0; 16];
    for half in key.chunks_exact_mut(8) {
        half.copy_from_slice(&std::hash::RandomState::new().hash_one(0u8).to_ne_bytes());
    }
    key
}
