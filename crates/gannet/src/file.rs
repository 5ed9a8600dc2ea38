//! One file, from any thread: ranges, and streams.

use crate::Error;
use crate::client::Worker;
use crate::client::remote::Remote;
use gannet_client::{Block, Files, Transfer, Zeros};
use gannet_runtime::Buffer;
use gannet_vfs::{Attributes, FileHandle};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{mpsc, oneshot};

/// Blocks between the connection's core and a stream.
const BLOCKS_WAITING_MAX: usize = 4;
/// Bytes that a writer collects before they leave.
const WRITE_LEN: usize = 1 << 20;
/// Most bytes of one operation.
const OPERATION_MAX: usize = gannet_vfs::limits::TRANSFER_MAX as usize;

/// A file of a server. Clones are the same file.
#[derive(Clone)]
pub struct File {
    pub(crate) worker: Worker,
    pub(crate) handle: FileHandle,
}

impl File {
    pub(crate) fn new(worker: Worker, handle: FileHandle) -> File {
        File { worker, handle }
    }

    /// Its attributes, as the server has them now.
    ///
    /// # Errors
    /// See [`Error`]; so for all that follow.
    pub async fn attributes(&self) -> Result<Attributes, Error> {
        let file = self.handle;
        let asked = self
            .worker
            .run(async move |connection| connection.files.objects().attributes(&file).await);
        Ok(asked.await??)
    }

    /// Reads at most `len` bytes from `offset` on; fewer where the file ends.
    pub async fn read_at(&self, offset: u64, len: usize) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        while bytes.len() < len {
            let wanted = (len - bytes.len()).min(OPERATION_MAX);
            let place = offset.saturating_add(bytes.len() as u64);
            let (count, buffer) = self.read_into(place, Buffer::zeroed(wanted)).await?;
            bytes.extend_from_slice(buffer.get(..count).unwrap_or(&buffer));
            if count == 0 {
                break;
            }
        }
        Ok(bytes)
    }

    /// Fills `buffer` from `offset` on, in one operation, and returns the number of bytes and the memory. The number is
    /// less than its length if the file ends, or if the server moves no more at a time; it is 0 only at the end. A
    /// failed read keeps the memory.
    pub async fn read_into(&self, offset: u64, buffer: Buffer) -> Result<(usize, Buffer), Error> {
        let file = self.handle;
        let count = u32::try_from(buffer.len().min(OPERATION_MAX)).unwrap_or(u32::MAX);
        let read = self.worker.run(async move |connection| {
            let objects = connection.files.objects();
            objects.read_into(&file, offset, count, buffer).await
        });
        let (read, buffer) = read.await??;
        Ok((read.count as usize, buffer))
    }

    /// Writes `bytes` at `offset`. They are durable when this returns.
    pub async fn write_at(&self, offset: u64, bytes: impl Into<Vec<u8>>) -> Result<(), Error> {
        let (file, bytes) = (self.handle, bytes.into());
        let written = self.worker.run(async move |connection| {
            write_durably(&connection.files, &file, offset, bytes).await
        });
        Ok(written.await??)
    }

    /// The file as a stream from `offset` to its end, with several READs in flight.
    ///
    /// # Errors
    /// [`Error::Ended`].
    pub fn reader(&self, offset: u64) -> Result<FileReader, Error> {
        let (blocks, receiver) = mpsc::channel(BLOCKS_WAITING_MAX);
        let file = self.handle;
        self.worker.begin(async move |connection| {
            let files = &connection.files;
            let mut reader = files.read_file(&file, offset..u64::MAX, Transfer::default());
            // Sending fails when the stream was dropped.
            while let Some(next) = reader.next().await.transpose() {
                let failed = next.is_err();
                if blocks.send(next.map_err(Error::from)).await.is_err() || failed {
                    return;
                }
            }
        })?;
        Ok(FileReader {
            blocks: receiver,
            block: None,
            taken: 0,
        })
    }

    /// A stream into the file from `offset` on, with several WRITEs in flight. The bytes are in the file, and durable,
    /// when the stream was shut down. If it is dropped before that, any part of them may be.
    ///
    /// # Errors
    /// [`Error::Ended`].
    pub fn writer(&self, offset: u64) -> Result<FileWriter, Error> {
        let (blocks, mut receiver) = mpsc::channel::<Vec<u8>>(BLOCKS_WAITING_MAX);
        let (sender, ended) = oneshot::channel();
        let file = self.handle;
        self.worker.begin(async move |connection| {
            let files = &connection.files;
            let mut writer = files.write_file(&file, Zeros::Write, Transfer::default());
            let mut place = offset;
            let all = async {
                while let Some(bytes) = receiver.recv().await {
                    let len = bytes.len();
                    writer.write(place, Buffer::from_vec(bytes), len).await?;
                    place += len as u64;
                }
                writer.finish().await.map(|_| ())
            };
            // An error says that the stream was dropped.
            let _ = sender.send(all.await.map_err(Error::from));
        })?;
        Ok(FileWriter {
            blocks: Some(blocks),
            ended,
            room: None,
            collected: Vec::new(),
        })
    }
}

/// Writes `bytes` to a file from `offset` on, with several WRITEs in flight; they are durable when this returns.
pub(crate) async fn write_durably(
    files: &Files<Remote>,
    file: &FileHandle,
    offset: u64,
    bytes: Vec<u8>,
) -> Result<(), gannet_client::Error> {
    let mut writer = files.write_file(file, Zeros::Write, Transfer::default());
    let len = bytes.len();
    writer.write(offset, Buffer::from_vec(bytes), len).await?;
    writer.finish().await.map(|_| ())
}

/// The rest of a file as a stream; see [`File::reader`].
pub struct FileReader {
    blocks: mpsc::Receiver<Result<Block, Error>>,
    block: Option<Block>,
    /// Bytes of the block that the stream has returned.
    taken: usize,
}

impl AsyncRead for FileReader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        loop {
            let rest = this
                .block
                .as_ref()
                .and_then(|it| it.data().get(this.taken..));
            if let Some(rest) = rest.filter(|rest| !rest.is_empty()) {
                let len = rest.len().min(buffer.remaining());
                buffer.put_slice(rest.get(..len).unwrap_or_default());
                this.taken += len;
                return Poll::Ready(Ok(()));
            }
            match ready!(this.blocks.poll_recv(context)) {
                Some(block) => (this.block, this.taken) = (Some(block?), 0),
                None => return Poll::Ready(Ok(())),
            }
        }
    }
}

type Room = Pin<Box<dyn Future<Output = Result<mpsc::OwnedPermit<Vec<u8>>, ()>> + Send>>;

/// A stream into a file; see [`File::writer`].
pub struct FileWriter {
    /// `None` once it is shut down.
    blocks: Option<mpsc::Sender<Vec<u8>>>,
    ended: oneshot::Receiver<Result<(), Error>>,
    /// Room for a block that the stream waits for.
    room: Option<Room>,
    collected: Vec<u8>,
}

impl FileWriter {
    /// Sends the collected bytes.
    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.collected.is_empty() {
            return Poll::Ready(Ok(()));
        }
        let Some(blocks) = &self.blocks else {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        };
        let room = self.room.get_or_insert_with(|| {
            let blocks = blocks.clone();
            Box::pin(async move { blocks.reserve_owned().await.map_err(|_| ()) })
        });
        let permit = ready!(room.as_mut().poll(context));
        self.room = None;
        match permit {
            Ok(permit) => {
                permit.send(std::mem::take(&mut self.collected));
                Poll::Ready(Ok(()))
            }
            // The other end has stopped, and `ended` holds its reason.
            Err(()) => self
                .poll_ended(context)
                .map(|ended| ended.and_then(|()| Err(io::ErrorKind::BrokenPipe.into()))),
        }
    }

    fn poll_ended(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let ended = ready!(Pin::new(&mut self.ended).poll(context));
        Poll::Ready(ended.unwrap_or(Err(Error::Ended)).map_err(io::Error::from))
    }
}

impl AsyncWrite for FileWriter {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.collected.len() >= WRITE_LEN {
            ready!(self.poll_send(context))?;
        }
        let room = WRITE_LEN - self.collected.len();
        let taken = bytes.get(..room).unwrap_or(bytes);
        self.collected.extend_from_slice(taken);
        Poll::Ready(Ok(taken.len()))
    }

    /// Sends the collected bytes; they are durable only after the shutdown.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_send(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.blocks.is_some() {
            ready!(self.poll_send(context))?;
            self.blocks = None;
        }
        self.poll_ended(context)
    }
}
