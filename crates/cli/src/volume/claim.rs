//! The folder of an I/O server as the disk that it claims.

use super::owner::Owner;
use crate::failure::{Explain, Failure};
use gannet_runtime::{Handle, run_blocking};
use gannet_volume::host::{Claim, ClaimFailure, Found, ObjectDisk};
use gannet_volume::manager::ClaimError;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// A folder that was opened for an I/O server.
#[derive(Debug, Clone)]
pub(super) struct Folder {
    pub(super) owner: Owner,
    pub(super) path: PathBuf,
    /// Which folder that was when it was opened: device and inode.
    pub(super) opened: (u64, u64),
}

/// The folder, looked at and marked by threads that may wait.
pub(super) struct FolderDisk {
    folder: Folder,
    runtime: Handle,
}

/// Which file this is: device and inode.
pub(super) fn identity(file: &Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

impl FolderDisk {
    async fn beside<T: Send + 'static>(
        &self,
        work: impl FnOnce(Folder) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let folder = self.folder.clone();
        let done = run_blocking(&self.runtime, move || work(folder)).await;
        let ended = |_| Failure::new(self.folder.what(), "this process ends");
        done.map_err(ended)?
    }
}

impl ObjectDisk for FolderDisk {
    type Error = Failure;

    async fn look(&self) -> Result<Found, Failure> {
        self.beside(|folder| folder.owner.look(&folder.path)).await
    }

    async fn mark(&self, lost_below: u64) -> Result<(), Failure> {
        self.beside(move |folder| folder.owner.mark(&folder.path, lost_below))
            .await
    }

    async fn is_in_place(&self) -> Result<bool, Failure> {
        self.beside(|folder| {
            let there = std::fs::metadata(&folder.path).explain(|| folder.what())?;
            Ok(identity(&there) == folder.opened)
        })
        .await
    }
}

impl Folder {
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

    fn what(&self) -> String {
        format!("cannot use the folder {}", self.path.display())
    }

    /// Why the folder is not served, for people.
    pub(super) fn explain(&self, failure: ClaimFailure<Failure>) -> Failure {
        let (number, folder) = (self.owner.io_server, self.path.display());
        let what = format!("cannot start I/O server {number}");
        match failure {
            ClaimFailure::Disk(failure) => failure,
            ClaimFailure::Refused(ClaimError::ServedBefore) => {
                let why = format!("its folder {folder} is empty, and was served before");
                Failure::new(what, why).hint(format!(
                    "mount its disk; if that is lost for good, start it once with --lost-disk {number}: what files had there cannot be read then"
                ))
            }
            ClaimFailure::Refused(error @ ClaimError::NotKnown) => {
                Failure::new(what, error).hint("start the manager again if its volume was extended")
            }
            ClaimFailure::NotLost => {
                let what = format!("the disk of I/O server {number} is not lost");
                let why = format!("its folder {folder} is not empty");
                let hint = "start it without --lost-disk, which is needed once";
                Failure::usage(what, why).hint(hint)
            }
            ClaimFailure::Changed => {
                Failure::new(self.what(), failure).hint("start it again, with its disk mounted")
            }
            ClaimFailure::NotNoted(error) => {
                let what = format!("cannot note that the disk of I/O server {number} is lost");
                Failure::new(what, error)
            }
            failure => Failure::new(what, failure),
        }
    }
}
