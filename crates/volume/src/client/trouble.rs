//! Why an operation is tried again or ends, with the names that people know servers by.

use super::change_locks::TooMany;
use super::data::DataError;
use crate::convert::vfs_status_of;
use crate::limits::OPERATION_DEADLINE;
use crate::link::LinkError;
use gannet_runtime::Instant;
use gannet_vfs::Status;
use gannet_wire::volume::LayoutRecord;
use std::cell::RefCell;
use thiserror::Error;

/// See the module. Numbers are those of the volume's I/O servers.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(super) enum Trouble {
    #[error("the manager: {0}")]
    Manager(LinkError),
    #[error(
        "the manager waits for an I/O server that is away (`gannet doctor` with the volume's URL says which)"
    )]
    ManagerWaits,
    #[error("the manager says: {0}")]
    ManagerRefused(Status),
    #[error("I/O server {0}: {1}")]
    IoServer(u32, LinkError),
    #[error("I/O server {0} says: {1}")]
    Refused(u32, Status),
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
    /// Not a server's fault.
    #[error("{0}")]
    Own(String),
}

impl Trouble {
    /// What went wrong with the data of a file that lies so.
    pub(super) fn of(layout: &LayoutRecord, error: DataError) -> Trouble {
        let number = |index: u32| {
            let number = layout.servers.get(index as usize);
            number.copied().unwrap_or(index)
        };
        match error {
            DataError::Link { index, error } => Trouble::IoServer(number(index), error),
            DataError::Refused { index, status } => match vfs_status_of(status) {
                Status::Nxio => Trouble::Lost(number(index)),
                status => Trouble::Refused(number(index), status),
            },
            DataError::Nonsense { index } => Trouble::Nonsense(number(index)),
            DataError::Shape | DataError::Memory(_) => Trouble::Own(error.to_string()),
        }
    }

    /// What an operation is answered with that it ends; `Jukebox` where it may be tried again.
    pub(super) fn status(&self) -> Status {
        match self {
            // A capability that is not good any more: the manager will say why, or give another.
            Trouble::Refused(_, Status::Stale) => Status::Jukebox,
            // Of an object that was lost with its disk.
            Trouble::Lost(_) | Trouble::ManagerRefused(Status::Nxio) => Status::Io,
            Trouble::Refused(_, status) | Trouble::ManagerRefused(status) => *status,
            Trouble::Nonsense(_) | Trouble::Own(_) => Status::Serverfault,
            _ => Status::Jukebox,
        }
    }
}

/// The last one, what operations are answered with for it, and when it was.
#[derive(Default)]
pub(super) struct LastTrouble(RefCell<Option<(Status, String, Instant)>>);

impl LastTrouble {
    /// Takes note; what the operation is answered with.
    pub(super) fn note(&self, now: Instant, trouble: &Trouble) -> Status {
        let status = trouble.status();
        // Others say all by themselves.
        let is_telling = matches!(
            status,
            Status::Jukebox | Status::Io | Status::Nospc | Status::Serverfault
        );
        if is_telling {
            self.0.replace(Some((status, trouble.to_string(), now)));
        }
        status
    }

    /// As [`LastTrouble::note`], of who waits for others: what those wait for, if that is known, tells more.
    pub(super) fn note_behind(&self, now: Instant, trouble: &Trouble) -> Status {
        let status = trouble.status();
        let last = self
            .0
            .borrow()
            .as_ref()
            .map(|(last, _, when)| (*last, *when));
        match last {
            Some((last, when)) if last == status && now < when + OPERATION_DEADLINE => status,
            _ => self.note(now, trouble),
        }
    }

    /// Why operations were answered with this.
    pub(super) fn why(&self, status: Status) -> Option<String> {
        let last = self.0.borrow();
        let (_, why, _) = last.as_ref().filter(|(last, ..)| *last == status)?;
        Some(why.clone())
    }
}
