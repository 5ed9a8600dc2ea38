//! A disk of a world as the I/O server that wants to serve it sees it, before it opens its store.

use gannet_runtime::{Buffer, Handle};
use gannet_sim::store::{Disk, SimStore};
use gannet_vfs::{
    CreateMode, Credentials, EntryName, FileHandle, SetAttributes, Stability, Status, Vfs,
};
use gannet_volume::host::{Found, ObjectDisk};
use gannet_volume::io_server::OWNER_FILE;
use std::fmt;
use std::rc::Rc;

/// The mark: the server's number, and below which number files may have lost objects.
const MARK_LEN: usize = 4 + 8;

/// A disk with the mark of its server in a file, as production has it.
pub(super) struct SimDisk {
    number: u32,
    disk: Rc<Disk>,
    store: SimStore,
    /// How often the disk had been replaced when it was opened.
    opened: u64,
}

/// Why a disk cannot be claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskError {
    /// An operation on the disk failed with this status.
    Status(Status),
    /// The disk bears the mark of the I/O server with this number.
    OfAnother(u32),
    /// The disk's mark cannot be read as one.
    Damaged,
}

impl fmt::Display for DiskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DiskError::Status(status) => write!(f, "the disk fails: {status}"),
            DiskError::OfAnother(number) => write!(f, "the disk is that of I/O server {number}"),
            DiskError::Damaged => f.write_str("the disk's mark is damaged"),
        }
    }
}

impl From<Status> for DiskError {
    fn from(status: Status) -> DiskError {
        DiskError::Status(status)
    }
}

fn own() -> Credentials {
    Credentials::new(0, 0, &[])
}

impl SimDisk {
    /// The disk, opened for I/O server `number`.
    pub(super) fn open(number: u32, disk: &Rc<Disk>, runtime: Handle) -> SimDisk {
        SimDisk {
            number,
            disk: Rc::clone(disk),
            store: SimStore::open(disk, runtime),
            opened: disk.times_replaced(),
        }
    }

    async fn read_mark(&self, mark: &FileHandle) -> Result<Found, DiskError> {
        let (len, buffer) = (MARK_LEN as u32, Buffer::zeroed(MARK_LEN));
        let (read, buffer) = self.store.read_into(&own(), mark, 0, len, buffer).await;
        let (read, buffer) = (read?, buffer.ok_or(DiskError::Damaged)?);
        let bytes = buffer.get(..read.count as usize).unwrap_or_default();
        let Some((number, below)) = bytes.split_first_chunk::<4>() else {
            return Err(DiskError::Damaged);
        };
        let below = <[u8; 8]>::try_from(below).map_err(|_| DiskError::Damaged)?;
        match u32::from_be_bytes(*number) {
            number if number == self.number => Ok(Found::Own {
                lost_below: u64::from_be_bytes(below),
            }),
            other => Err(DiskError::OfAnother(other)),
        }
    }

    /// Writes all of `data` durably; disks may take a part of it at a time.
    async fn write_all(&self, file: &FileHandle, data: &[u8]) -> Result<(), DiskError> {
        let mut done = 0;
        while done < data.len() {
            let (at, rest) = (done as u64, data[done..].to_vec());
            let (len, buffer) = (rest.len(), Buffer::from_vec(rest));
            let how = Stability::FileSync;
            let written = self
                .store
                .write(&own(), file, at, buffer, 0..len, how)
                .await;
            match written.result?.count as usize {
                0 => return Err(Status::Nospc.into()),
                count => done += count,
            }
        }
        Ok(())
    }
}

impl ObjectDisk for SimDisk {
    type Error = DiskError;

    async fn look(&self) -> Result<Found, DiskError> {
        let (own, root) = (own(), self.store.root());
        let found = self.store.lookup(&own, &root, OWNER_FILE.as_bytes());
        match found.await.0 {
            Ok((mark, _)) => self.read_mark(&mark).await,
            Err(Status::Noent) if self.disk.files_in_folders() > 0 => Ok(Found::Unmarked),
            Err(Status::Noent) => Ok(Found::Empty),
            Err(status) => Err(status.into()),
        }
    }

    async fn mark(&self, lost_below: u64) -> Result<(), DiskError> {
        let (own, root) = (own(), self.store.root());
        let next = format!("{OWNER_FILE}.next");
        let mode = CreateMode::Unchecked(SetAttributes {
            size: Some(0),
            ..SetAttributes::default()
        });
        let made = self.store.create(&own, &root, next.as_bytes(), &mode);
        let file = made.await.result?.handle;
        let mark = [&self.number.to_be_bytes()[..], &lost_below.to_be_bytes()].concat();
        self.write_all(&file, &mark).await?;
        let from = EntryName::new(&root, next.as_bytes());
        let to = EntryName::new(&root, OWNER_FILE.as_bytes());
        Ok(self.store.rename(&own, from, to).await.0?)
    }

    async fn is_in_place(&self) -> Result<bool, DiskError> {
        Ok(self.disk.times_replaced() == self.opened)
    }
}
