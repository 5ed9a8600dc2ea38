//! Which folders I/O servers may serve: a disk that is not mounted leaves an empty one, and whoever served that would
//! answer for all that lies on the disk with zeros.

use super::owner::{Found, Owner};
use crate::failure::{Explain, Failure};
use gannet_meta::claims::{Loss, may_have_data, note_lost};
use gannet_meta::{JournaledStore, MetaStore};
use gannet_runtime::run_blocking;
use gannet_volume::manager::{ClaimError, Registration};
use std::fs::Metadata;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::SystemTime;

/// An I/O server and its folder.
#[derive(Debug, Clone)]
pub(super) struct Claim {
    pub(super) owner: Owner,
    pub(super) folder: PathBuf,
    /// Which folder that was when it was opened: device and inode.
    pub(super) opened: (u64, u64),
    /// The operator says that the disk before this one is lost.
    pub(super) is_lost: bool,
}

/// Whether a folder may be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Claimed {
    /// It is marked as this server's.
    Taken,
    /// It is empty, and the manager must be asked first.
    Asks,
}

/// Which file this is: device and inode.
pub(super) fn identity(file: &Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

impl Claim {
    /// Takes the folder if it may be served as far as is known here, from the names if they are, or because its disk is
    /// said to be lost: the names are to say of which files.
    ///
    /// # Errors
    /// It is another server's, or empty and not this server's first.
    pub(super) fn take(&self, metadata: Option<&JournaledStore>) -> Result<Claimed, Failure> {
        let lost = self.is_lost;
        let number = self.owner.io_server;
        let found = self.owner.look(&self.folder)?;
        match (found, metadata) {
            (Found::Own | Found::Unmarked, _) if lost => {
                let what = format!("the disk of I/O server {number} is not lost");
                let why = format!("its folder {} is not empty", self.folder.display());
                let hint = "start it without --lost-disk, which is needed once";
                return Err(Failure::usage(what, why).hint(hint));
            }
            (Found::Own, _) => return Ok(Claimed::Taken),
            (Found::Unmarked, _) => {}
            (Found::Empty, None) => return Ok(Claimed::Asks),
            (Found::Empty, Some(names)) if lost => {
                let owner = Owner {
                    lost_below: self.note_lost(names)?,
                    ..self.owner
                };
                owner.mark(&self.folder)?;
                return Ok(Claimed::Taken);
            }
            (Found::Empty, Some(names)) => {
                let mut known = Ok(true);
                // Bounded by WIDTH_MAX.
                let look = names.read(&mut |view| known = may_have_data(view, number as u32));
                let what = || format!("cannot start I/O server {number}");
                look.explain(what)?;
                if known.explain(what)? {
                    return Err(self.refused());
                }
            }
        }
        self.owner.mark(&self.folder)?;
        Ok(Claimed::Taken)
    }

    /// Notes durably that the disk of this server is lost; which files may have had bytes there.
    fn note_lost(&self, names: &JournaledStore) -> Result<u64, Failure> {
        let number = self.owner.io_server;
        let what = || format!("cannot note that the disk of I/O server {number} is lost");
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let since = since.unwrap_or_default().as_secs();
        let mut noted = Ok(Loss { since, below: 0 });
        let committed = names.commit(&mut |transaction| {
            // Bounded by WIDTH_MAX.
            noted = note_lost(transaction, number as u32, since);
            Ok(())
        });
        committed.explain(what)?;
        let folder = self.folder.display();
        tracing::warn!(
            number, %folder,
            "what files had on a lost disk is an error to who reads it from now on (`gannet volume check --lost` lists them)"
        );
        Ok(noted.explain(what)?.below)
    }

    /// Marks the folder after its server has waited for the manager, if it still is the one that was opened: a disk may
    /// have been mounted on it meanwhile.
    ///
    /// # Errors
    /// It is not, or is no longer empty, or cannot be written.
    fn mark(&self, lost_below: u64) -> Result<(), Failure> {
        let what = || format!("cannot use the folder {}", self.folder.display());
        let there = std::fs::metadata(&self.folder).explain(what)?;
        if identity(&there) == self.opened && self.owner.look(&self.folder)? == Found::Empty {
            let owner = Owner {
                lost_below,
                ..self.owner
            };
            return owner.mark(&self.folder);
        }
        let why = "it has changed since this server began to wait for the manager";
        Err(Failure::new(what(), why).hint("start it again, with its disk mounted"))
    }

    /// Why an empty folder is not served.
    pub(super) fn refused(&self) -> Failure {
        let (number, folder) = (self.owner.io_server, self.folder.display());
        let why = format!("its folder {folder} is empty, and was served before");
        Failure::new(format!("cannot start I/O server {number}"), why).hint(format!(
            "mount its disk; if that is lost for good, start it once with --lost-disk {number}: what files had there cannot be read then"
        ))
    }
}

/// Asks the manager whether an empty folder may be served, as long as it does not answer, and takes it.
///
/// # Errors
/// It may not, or cannot be taken.
pub(super) async fn ask_for<F: AsyncFn() -> io::Result<SocketAddr>>(
    claim: &Claim,
    registration: &Registration<F>,
) -> Result<(), Failure> {
    let lost_below = match registration.claim(claim.is_lost).await {
        Ok(lost_below) => lost_below,
        Err(ClaimError::ServedBefore) => return Err(claim.refused()),
        Err(error @ ClaimError::NotKnown) => {
            let what = format!("cannot start I/O server {}", claim.owner.io_server);
            let hint = "start the manager again if its volume was extended";
            return Err(Failure::new(what, error).hint(hint));
        }
    };
    let claimed = claim.clone();
    let marked = run_blocking(&registration.runtime, move || claimed.mark(lost_below));
    let ended = |_| {
        let what = format!("cannot use the folder {}", claim.folder.display());
        Failure::new(what, "this process ends")
    };
    marked.await.map_err(ended)??;
    // The manager knows that there may be data before there is some.
    registration.register().await;
    Ok(())
}
