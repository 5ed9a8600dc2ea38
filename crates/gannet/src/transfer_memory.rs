//! Memory of a program that stays registered for transfers of files.

use crate::client::Worker;
use crate::client::remote::Remote;
use crate::worker::Gone;
use crate::{Error, File};
use gannet_client::Objects;
use gannet_runtime::{Buffer, ProgramSlot};
use gannet_vfs::{Stability, Status};
use std::sync::Arc;
use tokio::sync::{Mutex, OwnedMutexGuard};

/// Most bytes of one operation, and of memory that is registered.
const LEN_MAX: usize = gannet_vfs::limits::TRANSFER_MAX as usize;

/// Memory of the program, registered for many transfers of one client ([`crate::Client::register`]).
///
/// Over an RDMA device a transfer registers its memory, which pins it. This memory is pinned once: a server reaches it
/// by a memory window, for one transfer. Between two transfers the program has it ([`TransferMemory::with`]); no NFS
/// server reaches it. Transfers of the same memory wait for each other, so several at a time need several pieces of
/// memory.
///
/// | connection | registrations |
/// |---|---|
/// | NFS over a device with memory windows | one |
/// | NFS over a device without (siw) | one for each transfer |
/// | a volume over a device | one for writes. One for reads that one server answers by a window, else one for each |
/// | the software RNIC | one for each transfer, which is a table entry and pins nothing |
/// | TCP | none |
///
/// Where the device has no windows, servers of a volume may read the memory between two transfers. Dropped, the memory
/// is no longer registered, and freed.
pub struct TransferMemory {
    worker: Worker,
    slot: ProgramSlot,
    /// Held by a transfer to its end, also when its caller has given it up.
    turn: Arc<Mutex<()>>,
}

impl TransferMemory {
    pub(crate) async fn register(worker: Worker, memory: Buffer) -> Result<Self, Error> {
        let len = memory.len();
        if len > LEN_MAX {
            return Err(Error::MemoryTooLong { len, max: LEN_MAX });
        }
        let memory = TransferMemory {
            worker,
            slot: ProgramSlot::new(memory),
            turn: Arc::default(),
        };
        let slot = memory.slot.clone();
        let kept = (memory.worker).run(async move |connection| {
            let Some(buffer) = slot.take() else {
                return Ok(());
            };
            let remote = connection.files.objects().file_system();
            remote.keep(buffer).await
        });
        kept.await?.map_err(Error::Register)?;
        Ok(memory)
    }

    /// Bytes of the memory.
    pub fn len(&self) -> usize {
        self.slot.len()
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.slot.is_empty()
    }

    /// Gives `work` the memory, once no transfer has it.
    ///
    /// # Errors
    /// [`Error::MemoryAway`].
    pub async fn with<T>(&self, work: impl FnOnce(&mut [u8]) -> T) -> Result<T, Error> {
        let _turn = self.turn.lock().await;
        let mut buffer = self.slot.take().ok_or(Error::MemoryAway)?;
        Ok(work(&mut buffer))
    }

    /// Ends the registration, and returns the memory. Waits until no transfer has it.
    ///
    /// # Errors
    /// [`Error::MemoryAway`]; [`Error::Ended`], and then the memory is freed.
    pub async fn take_back(self) -> Result<Buffer, Error> {
        let _turn = self.turn.lock().await;
        let buffer = self.slot.take().ok_or(Error::MemoryAway)?;
        let taken = self.worker.run(async move |connection| {
            let remote = connection.files.objects().file_system();
            remote.take_back(buffer).await
        });
        let buffer = taken.await?.map_err(|_| Error::MemoryAway)?;
        Ok(self.slot.take_out(buffer).unwrap_or_else(|buffer| buffer))
    }

    /// The memory for a transfer of a file of `worker`'s client, and the right to have it.
    async fn begin(
        &self,
        worker: &Worker,
        len: usize,
    ) -> Result<(Buffer, OwnedMutexGuard<()>), Error> {
        if !self.worker.is_same(worker) {
            return Err(Error::MemoryOfAnother);
        }
        if len > self.len() {
            return Err(Error::Status(Status::Inval));
        }
        let turn = Arc::clone(&self.turn).lock_owned().await;
        let buffer = self.slot.take().ok_or(Error::MemoryAway)?;
        Ok((buffer, turn))
    }
}

impl Drop for TransferMemory {
    fn drop(&mut self) {
        let slot = self.slot.clone();
        // The job has the memory until the registration is gone. Where the thread has ended, so has that.
        let forget = async move |connection: std::rc::Rc<crate::client::connect::Connection>| {
            connection.files.objects().file_system().forget(slot.id());
        };
        let (Ok(()) | Err(Gone)) = self.worker.begin(forget);
    }
}

/// Transfers of memory that stays registered.
impl File {
    /// Reads `len` bytes from `offset` on into the start of registered memory. Returns the number of bytes: fewer at
    /// the end of the file alone. The bytes behind them are unknown, and all of them after an error.
    ///
    /// # Errors
    /// See [`Error`]; [`Status::Inval`] when the memory is shorter.
    pub async fn read_registered(
        &self,
        offset: u64,
        len: usize,
        memory: &TransferMemory,
    ) -> Result<usize, Error> {
        let (buffer, turn) = memory.begin(&self.worker, len).await?;
        let (file, count) = (self.handle, u32::try_from(len).unwrap_or(u32::MAX));
        let read = self.worker.run(async move |connection| {
            let objects = connection.files.objects();
            let read = objects.read_into(&file, offset, count, buffer).await;
            let read = read.map(|(read, _)| read.count as usize);
            // The memory is back before the next transfer begins.
            drop(turn);
            read
        });
        Ok(read.await??)
    }

    /// Writes the first `len` bytes of registered memory at `offset`. They are durable when this returns.
    ///
    /// # Errors
    /// See [`Error`]; any of the bytes may have been written then. [`Status::Inval`] when the memory is shorter.
    pub async fn write_registered(
        &self,
        offset: u64,
        len: usize,
        memory: &TransferMemory,
    ) -> Result<(), Error> {
        let (buffer, turn) = memory.begin(&self.worker, len).await?;
        let file = self.handle;
        let written = self.worker.run(async move |connection| {
            let objects = connection.files.objects();
            let written = write_all(objects, &file, offset, buffer, len).await;
            drop(turn);
            written
        });
        Ok(written.await??)
    }
}

/// Writes the first `len` bytes of `buffer`. Servers may write fewer at a time.
async fn write_all(
    objects: &Objects<Remote>,
    file: &gannet_vfs::FileHandle,
    offset: u64,
    mut buffer: Buffer,
    len: usize,
) -> Result<(), gannet_client::Error> {
    let mut done = 0;
    while done < len {
        let place = offset.saturating_add(done as u64);
        let stable = Stability::FileSync;
        let (written, back) = objects
            .write_part(file, place, buffer, done..len, stable)
            .await?;
        done += written.count as usize;
        buffer = back;
    }
    Ok(())
}
