//! Errors of a client's operations: why one is tried again or ends, with the numbers by which people know the servers.

use super::change_locks::TooMany;
use super::data::{DataError, Target};
use crate::convert::vfs_status_of;
use crate::limits::OPERATION_DEADLINE;
use crate::link::LinkError;
use gannet_runtime::Instant;
use gannet_vfs::Status;
use gannet_wire::xdr::XdrError;
use std::cell::RefCell;
use thiserror::Error;

/// The failure of one attempt of an operation. Numbers are those of the volume's I/O servers.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(super) enum OperationError {
    #[error("the manager: {0}")]
    Manager(LinkError),
    #[error(
        "the manager waits for an I/O server that is away (`gannet doctor` with the volume's URL says which)"
    )]
    ManagerWaits {
        /// It was asked a question: no change of others is in the way.
        is_question: bool,
    },
    #[error("the manager says: {0}")]
    ManagerRefused(Status),
    #[error("I/O server {number}: {error}")]
    IoServer { number: u32, error: LinkError },
    #[error("no I/O server serves group {0} of the volume")]
    NoPrimary(u32),
    #[error("I/O server {number} says: {status}")]
    Refused { number: u32, status: Status },
    #[error(
        "bytes of the file were on a disk of I/O server {0} that was lost: remove the file, or write it anew from its start (`gannet volume check --lost` lists such files)"
    )]
    Lost(u32),
    #[error("I/O server {0} gives an answer that cannot be understood")]
    Nonsense(u32),
    #[error("the answer of an I/O server came after the right to write had ended")]
    TooLate,
    #[error("the name is given to one file after the other")]
    Gone,
    #[error("earlier changes of the same file or name are not over")]
    Behind,
    #[error("changes that wait for I/O servers are in the way")]
    NoSlot,
    #[error(transparent)]
    TooMany(#[from] TooMany),
    /// A transfer failed at this client, not at a server.
    #[error(transparent)]
    Transfer(DataError),
    /// The grant of the manager cannot be decoded: it is of a later version, or damaged.
    #[error("the file cannot be used here: {0}")]
    Grant(XdrError),
}

impl OperationError {
    /// The error of a data transfer at these targets.
    pub(super) fn of(targets: &[Target], error: DataError) -> OperationError {
        let number = |index: u32| {
            let mut targets = targets.iter();
            let target = targets.find(|target| target.placement.index == index);
            target.map_or(index, |target| target.server)
        };
        match error {
            DataError::Link { index, error } => OperationError::IoServer {
                number: number(index),
                error,
            },
            DataError::Refused { index, status } => match vfs_status_of(status) {
                Status::Nxio => OperationError::Lost(number(index)),
                status => OperationError::Refused {
                    number: number(index),
                    status,
                },
            },
            DataError::Nonsense { index } => OperationError::Nonsense(number(index)),
            DataError::Shape | DataError::Memory(_) => OperationError::Transfer(error),
        }
    }

    /// The status of an operation that ends with this error; `Jukebox` where it may be tried again.
    pub(super) fn status(&self) -> Status {
        match self {
            // A capability that is not good any more: the manager gives another, or refuses with the reason.
            OperationError::Refused {
                status: Status::Stale,
                ..
            } => Status::Jukebox,
            // An object was lost with its disk.
            OperationError::Lost(_) | OperationError::ManagerRefused(Status::Nxio) => Status::Io,
            OperationError::Refused { status, .. } | OperationError::ManagerRefused(status) => {
                *status
            }
            OperationError::Nonsense(_)
            | OperationError::Transfer(_)
            | OperationError::Grant(_) => Status::Serverfault,
            _ => Status::Jukebox,
        }
    }
}

/// The last error, the status of operations that end with it, and its time.
#[derive(Default)]
pub(super) struct LastError(RefCell<Option<(Status, String, Instant)>>);

impl LastError {
    /// Notes an error; gives the status of the operation that ends with it.
    pub(super) fn note(&self, now: Instant, error: &OperationError) -> Status {
        let status = error.status();
        // Other statuses need no explanation.
        let needs_reason = matches!(
            status,
            Status::Jukebox | Status::Io | Status::Nospc | Status::Serverfault
        );
        if needs_reason {
            self.0.replace(Some((status, error.to_string(), now)));
        }
        status
    }

    /// As [`LastError::note`], for an operation that waits for others. If their error is known, it stays: it says more.
    pub(super) fn note_behind(&self, now: Instant, error: &OperationError) -> Status {
        let status = error.status();
        let last = self
            .0
            .borrow()
            .as_ref()
            .map(|(last, _, when)| (*last, *when));
        match last {
            Some((last, when)) if last == status && now < when + OPERATION_DEADLINE => status,
            _ => self.note(now, error),
        }
    }

    /// The reason of operations that ended with this status.
    pub(super) fn why(&self, status: Status) -> Option<String> {
        let last = self.0.borrow();
        let (_, why, _) = last.as_ref().filter(|(last, ..)| *last == status)?;
        Some(why.clone())
    }
}
