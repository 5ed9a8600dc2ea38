//! The folder of an I/O server as the disk that it claims.

use super::error::{At, FileWork, VolumeError};
use super::owner::Owner;
use gannet_runtime::{Handle, run_blocking};
use gannet_volume::host::{Claim, ClaimFailure, Found, ObjectDisk, folder_token};
use gannet_wire::volume::Token;
use rustix::fs::{FlockOperation, flock};
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A folder that was opened for an I/O server.
#[derive(Debug, Clone)]
pub(super) struct Folder {
    pub(super) owner: Owner,
    pub(super) path: PathBuf,
    /// The identity of the folder when it was opened: device and inode.
    pub(super) opened: (u64, u64),
}

/// The folder, looked at and marked by threads that may wait.
pub(super) struct FolderDisk {
    folder: Folder,
    runtime: Handle,
}

/// The identity of the file: device and inode.
pub(super) fn identity(file: &Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

impl FolderDisk {
    async fn beside<T: Send + 'static>(
        &self,
        work: impl FnOnce(Folder) -> Result<T, VolumeError> + Send + 'static,
    ) -> Result<T, VolumeError> {
        let folder = self.folder.clone();
        let done = run_blocking(&self.runtime, move || work(folder)).await;
        let ended = |_| Err(io::Error::other("this process ends"));
        done.or_else(ended)
            .at(FileWork::UseFolder, &self.folder.path)?
    }
}

impl ObjectDisk for FolderDisk {
    type Error = VolumeError;

    async fn look(&self) -> Result<Found, VolumeError> {
        self.beside(|folder| folder.owner.look(&folder.path)).await
    }

    async fn mark(&self, lost_below: u64) -> Result<(), VolumeError> {
        self.beside(move |folder| folder.owner.mark(&folder.path, lost_below))
            .await
    }

    async fn is_in_place(&self) -> Result<bool, VolumeError> {
        self.beside(|folder| {
            let there = std::fs::metadata(&folder.path).at(FileWork::UseFolder, &folder.path)?;
            Ok(identity(&there) == folder.opened)
        })
        .await
    }
}

/// The files that name the host, the better one first: its number, which outlives its boots, and that of this boot.
const HOST_IDS: [&str; 2] = ["/etc/machine-id", "/proc/sys/kernel/random/boot_id"];

impl Folder {
    /// The token of this folder on this host. The number of the device is no part of it, because it changes as disks
    /// come and go.
    ///
    /// # Errors
    /// The folder cannot be looked at, or the host has no number.
    pub(super) fn token(&self) -> io::Result<Token> {
        let ids = HOST_IDS.iter().map(std::fs::read);
        let id = ids.flatten().find(|id| !id.trim_ascii().is_empty());
        let id = id.ok_or_else(|| io::Error::other("the host has no machine-id and no boot_id"))?;
        let path = self.path.canonicalize()?;
        let file_system = rustix::fs::statvfs(&path)?.f_fsid;
        Ok(folder_token(&[
            id.trim_ascii(),
            path.as_os_str().as_bytes(),
            &file_system.to_be_bytes(),
            &self.opened.1.to_be_bytes(),
        ]))
    }

    /// The claim of I/O server `number` to it, made by the core of `runtime`.
    pub(super) fn claim(&self, runtime: &Handle, number: u32, is_lost: bool) -> Claim<FolderDisk> {
        let disk = FolderDisk {
            folder: self.clone(),
            runtime: Handle::clone(runtime),
        };
        Claim {
            number,
            is_lost,
            disk,
        }
    }

    /// The reason why the folder is not served.
    pub(super) fn refused(&self, why: ClaimFailure<VolumeError>) -> VolumeError {
        match why {
            ClaimFailure::Disk(error) => error,
            why => VolumeError::Claim {
                number: self.owner.io_server,
                folder: self.path.clone(),
                why: Box::new(why),
            },
        }
    }
}

/// Locks a folder against other processes, until the file is closed.
///
/// # Errors
/// `WouldBlock` when another process has locked it.
pub fn lock_folder(folder: &Path) -> io::Result<File> {
    let file = File::open(folder)?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    Ok(file)
}
