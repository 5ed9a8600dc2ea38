//! Folders and files of a volume that are made, or else leave nothing behind.

use super::description::IoServerDescription;
use super::error::{At, FileWork, VolumeError};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::ops::Range;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The path from the root.
///
/// # Errors
/// Nothing is there.
pub(super) fn absolute(path: &Path) -> Result<PathBuf, VolumeError> {
    path.canonicalize().at(FileWork::Find, path)
}

/// Folders below the volume's, for the servers with these numbers.
///
/// # Errors
/// They cannot be made.
pub(super) fn own_folders(
    path: &Path,
    numbers: Range<usize>,
    made: &mut Made,
) -> Result<Vec<IoServerDescription>, VolumeError> {
    let above = path.join("io");
    if !above.is_dir() {
        made.folder(&above)?;
    }
    let folders = numbers.map(|number| {
        let folder = PathBuf::from(format!("io/{number}"));
        made.folder(&path.join(&folder))?;
        Ok(IoServerDescription {
            folder,
            ..IoServerDescription::default()
        })
    });
    folders.collect()
}

/// The folders that were named, by their absolute paths; none may lie in another, nor in one of `existing`.
///
/// # Errors
/// A folder cannot be made, or be used.
pub(super) fn named_folders(
    path: &Path,
    existing: &[PathBuf],
    named: &[PathBuf],
    made: &mut Made,
) -> Result<Vec<IoServerDescription>, VolumeError> {
    let mut folders: Vec<IoServerDescription> = Vec::with_capacity(named.len());
    for name in named {
        made.empty_folder(name)?;
        let folder = absolute(name)?;
        let made_now = folders.iter().map(|it| it.folder.as_path());
        let mut others = made_now.chain(existing.iter().map(PathBuf::as_path));
        if folder == path || others.any(|it| it.starts_with(&folder) || folder.starts_with(it)) {
            return Err(VolumeError::Nested(name.clone()));
        }
        folders.push(IoServerDescription {
            folder,
            ..IoServerDescription::default()
        });
    }
    Ok(folders)
}

/// Makes the names in a folder durable.
///
/// # Errors
/// The disk fails.
pub(super) fn sync_folder(path: &Path) -> Result<(), VolumeError> {
    let synced = File::open(path).and_then(|folder| folder.sync_all());
    synced.at(FileWork::Sync, path)
}

/// Gives a file of the folder `path` another content, as a whole or not at all, durably; readable by this user alone.
///
/// # Errors
/// It cannot be changed.
pub(super) fn replace(path: &Path, name: &str, content: &[u8]) -> Result<(), VolumeError> {
    let file = path.join(name);
    let next = path.join(format!("{name}.next"));
    // Left by a crash.
    if next.exists() {
        std::fs::remove_file(&next).at(FileWork::Change, &file)?;
    }
    let mut unfinished = Made::default();
    unfinished.file(&next, content)?;
    std::fs::rename(&next, &file).at(FileWork::Change, &file)?;
    unfinished.keep();
    sync_folder(path)
}

/// Files and folders made so far; dropping this removes them.
#[derive(Default)]
pub(super) struct Made {
    folders_and_files: Vec<PathBuf>,
}

impl Made {
    /// A folder for this user alone.
    ///
    /// # Errors
    /// It cannot be made; so for all that follow.
    pub(super) fn folder(&mut self, path: &Path) -> Result<(), VolumeError> {
        let made = DirBuilder::new().mode(0o700).create(path);
        made.at(FileWork::MakeFolder, path)?;
        self.folders_and_files.push(path.to_path_buf());
        Ok(())
    }

    /// A folder that is there and empty, or else made.
    pub(super) fn empty_folder(&mut self, path: &Path) -> Result<(), VolumeError> {
        match std::fs::read_dir(path) {
            Ok(mut entries) => match entries.next() {
                None => Ok(()),
                Some(_) => Err(VolumeError::NotEmpty(path.to_path_buf())),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.folder(path),
            Err(error) => Err(error).at(FileWork::UseFolder, path),
        }
    }

    /// A durable file for this user alone.
    pub(super) fn file(&mut self, path: &Path, content: &[u8]) -> Result<(), VolumeError> {
        let mut options = OpenOptions::new();
        let options = options.write(true).create_new(true).mode(0o600);
        let mut file = options.open(path).at(FileWork::MakeFile, path)?;
        self.folders_and_files.push(path.to_path_buf());
        let written = file.write_all(content).and_then(|()| file.sync_all());
        written.at(FileWork::MakeFile, path)
    }

    /// All of it stays.
    pub(super) fn keep(mut self) {
        self.folders_and_files.clear();
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        for path in self.folders_and_files.drain(..).rev() {
            let removed = if path.is_dir() {
                std::fs::remove_dir(&path)
            } else {
                std::fs::remove_file(&path)
            };
            if let Err(error) = removed {
                tracing::warn!(path = %path.display(), %error, "left behind");
            }
        }
    }
}
