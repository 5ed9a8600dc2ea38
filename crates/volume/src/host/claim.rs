//! Whether an I/O server may serve its disk: a disk that is not mounted leaves an empty folder, and a server of that
//! would answer for all that lies on the disk with zeros.

use crate::limits::CLAIM_PATIENCE;
use crate::manager::{ClaimError, Registration};
use gannet_meta::namespace::{Failure, Outcome};
use gannet_meta::{MetaStore, claims};
use gannet_runtime::{Handle, timeout};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use thiserror::Error;

/// Where an I/O server keeps its objects, as it is before a store is opened on it.
pub trait ObjectDisk {
    /// Why it cannot be looked at, or marked.
    type Error: 'static;

    /// The state of the disk.
    ///
    /// # Errors
    /// It is another server's, or cannot be read.
    fn look(&self) -> impl Future<Output = Result<Found, Self::Error>>;

    /// Says durably, as a whole or not at all, that it is this server's, and that objects of files with numbers below
    /// `lost_below` may have been on a disk before it; 0: there was none.
    ///
    /// # Errors
    /// It cannot be written.
    fn mark(&self, lost_below: u64) -> impl Future<Output = Result<(), Self::Error>>;

    /// Whether it still is the one that was opened: a disk may have been mounted over it.
    ///
    /// # Errors
    /// It cannot be read.
    fn is_in_place(&self) -> impl Future<Output = Result<bool, Self::Error>>;
}

/// The relation of a disk to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// It is marked as this one's.
    Own {
        /// As [`ObjectDisk::mark`] was told.
        lost_below: u64,
    },
    /// It has objects and no mark: it is of a volume that was made before disks had one.
    Unmarked,
    /// It has no objects and no mark. So looks a disk that is new, and the folder of one that is not mounted.
    Empty,
}

/// An I/O server and the disk that it wants to serve.
#[derive(Debug, Clone)]
pub struct Claim<D> {
    /// The server's number.
    pub number: u32,
    /// The operator says that the disk before this one is lost.
    pub is_lost: bool,
    /// The disk.
    pub disk: D,
}

/// The outcome of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claimed {
    /// The disk is marked as this server's.
    Taken {
        /// Files with numbers below this may have had objects on a disk before this one.
        lost_below: u64,
    },
    /// It is empty, and the manager has yet to be asked.
    Asks,
}

/// Why a disk is not served.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ClaimFailure<E> {
    /// It cannot be used.
    #[error("{0}")]
    Disk(E),
    /// The manager, or the metadata that are here, say no.
    #[error(transparent)]
    Refused(#[from] ClaimError),
    /// A disk is said to be lost, and this one is not empty.
    #[error("its disk is not empty")]
    NotLost,
    /// Another disk has come in its place while the manager was asked.
    #[error("it has changed since this server began to wait for the manager")]
    Changed,
    /// It is empty, and the address of the manager is not known.
    #[error("its disk is empty, and there is no manager to ask")]
    NoManager,
    /// The metadata cannot be read.
    #[error("{0}")]
    Metadata(Failure),
    /// The metadata cannot take the note that a disk is lost.
    #[error("{0}")]
    NotNoted(Failure),
}

impl<D: ObjectDisk> Claim<D> {
    /// Takes the disk if that can be settled here: by its mark, or by the metadata if the manager runs in this process.
    /// `now` is the time since the Unix epoch, at which a disk is noted to be lost.
    ///
    /// # Errors
    /// It is another server's, or is empty and should not be.
    pub async fn take(
        &self,
        metadata: Option<&dyn MetaStore>,
        now: Duration,
    ) -> Result<Claimed, ClaimFailure<D::Error>> {
        let lost_below = match (self.look().await?, metadata) {
            (Found::Own { .. } | Found::Unmarked, _) if self.is_lost => {
                return Err(ClaimFailure::NotLost);
            }
            (Found::Own { lost_below }, _) => return Ok(Claimed::Taken { lost_below }),
            (Found::Unmarked, _) => 0,
            (Found::Empty, None) => return Ok(Claimed::Asks),
            (Found::Empty, Some(metadata)) if self.is_lost => {
                let noted = note_lost(metadata, self.number, now);
                noted.map_err(ClaimFailure::NotNoted)?
            }
            (Found::Empty, Some(metadata)) => {
                let known = may_have_data(metadata, self.number);
                if known.map_err(ClaimFailure::Metadata)? {
                    return Err(ClaimError::ServedBefore.into());
                }
                0
            }
        };
        self.mark(lost_below).await?;
        Ok(Claimed::Taken { lost_below })
    }

    /// Asks the manager about an empty disk, for a moment: a process is to say at once that it may not serve.
    ///
    /// # Errors
    /// The disk may not be served, or cannot be marked.
    pub async fn ask_soon<F: AsyncFn() -> io::Result<Vec<SocketAddr>>>(
        &self,
        registration: &Registration<F>,
    ) -> Result<Claimed, ClaimFailure<D::Error>> {
        let clock = Handle::clone(&registration.runtime);
        match timeout(&clock, CLAIM_PATIENCE, self.ask(registration)).await {
            Ok(lost_below) => Ok(Claimed::Taken {
                lost_below: lost_below?,
            }),
            Err(_) => {
                tracing::warn!(
                    number = self.number,
                    "an empty disk is not served before the manager has answered: waiting for it"
                );
                Ok(Claimed::Asks)
            }
        }
    }

    /// Asks the manager about an empty disk until it answers, and marks the disk; which files may have lost bytes with
    /// the one before.
    ///
    /// # Errors
    /// The disk may not be served, or cannot be marked.
    pub async fn ask<F: AsyncFn() -> io::Result<Vec<SocketAddr>>>(
        &self,
        registration: &Registration<F>,
    ) -> Result<u64, ClaimFailure<D::Error>> {
        let lost_below = match self.look_in_place().await? {
            // Marked by an earlier call, which was given up before the manager's reply to its registration came. A
            // manager that has noted the registration refuses claims of empty disks, and this disk is not empty.
            Some(lost_below) => lost_below,
            None => self.take_empty(registration).await?,
        };
        // The manager knows that there may be data before there is some.
        registration.register().await?;
        Ok(lost_below)
    }

    /// Marks the empty disk if the manager admits it.
    async fn take_empty<F: AsyncFn() -> io::Result<Vec<SocketAddr>>>(
        &self,
        registration: &Registration<F>,
    ) -> Result<u64, ClaimFailure<D::Error>> {
        let lost_below = registration.claim(self.is_lost).await?;
        match self.look_in_place().await? {
            // Marked by an earlier call, which was given up while it marked the disk.
            Some(lost_below) => Ok(lost_below),
            None => {
                self.mark(lost_below).await?;
                Ok(lost_below)
            }
        }
    }

    /// Below which number files may have lost bytes, by the mark of this server's disk; `None` if the disk is empty.
    ///
    /// # Errors
    /// It is not the disk that was empty when this server began to claim it.
    async fn look_in_place(&self) -> Result<Option<u64>, ClaimFailure<D::Error>> {
        let in_place = self.disk.is_in_place().await;
        if !in_place.map_err(ClaimFailure::Disk)? {
            return Err(ClaimFailure::Changed);
        }
        match self.look().await? {
            Found::Empty => Ok(None),
            Found::Own { lost_below } => Ok(Some(lost_below)),
            Found::Unmarked => Err(ClaimFailure::Changed),
        }
    }

    async fn look(&self) -> Result<Found, ClaimFailure<D::Error>> {
        self.disk.look().await.map_err(ClaimFailure::Disk)
    }

    async fn mark(&self, lost_below: u64) -> Result<(), ClaimFailure<D::Error>> {
        let marked = self.disk.mark(lost_below).await;
        marked.map_err(ClaimFailure::Disk)
    }
}

fn may_have_data(metadata: &dyn MetaStore, number: u32) -> Outcome<bool> {
    let mut known = Ok(true);
    metadata.read(&mut |view| known = claims::may_have_data(view, number))?;
    known
}

/// Notes durably that the disk of an I/O server is lost; files with numbers below what comes back may have had bytes
/// there.
fn note_lost(metadata: &dyn MetaStore, number: u32, now: Duration) -> Outcome<u64> {
    let mut noted = None;
    metadata.commit(&mut |transaction| {
        noted = Some(claims::note_lost(transaction, number, now.as_secs()));
        Ok(())
    })?;
    let loss = noted.unwrap_or_else(|| Err(gannet_wire::volume::Status::Serverfault.into()))?;
    tracing::warn!(
        number,
        "what files had on a lost disk is an error to who reads it from now on (`gannet volume check --lost` lists them)"
    );
    Ok(loss.below)
}
