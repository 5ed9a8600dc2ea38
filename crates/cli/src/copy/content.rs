//! The bytes of a file on their way: blocks out of a source, blocks into a sink, several under way on either side.

use super::local;
use super::place::locally;
use crate::session::Session;
use gannet::local::Remote;
use gannet_client::{Block, Reader, Transfer, Writer, Zeros};
use gannet_runtime::{Buffer, Handle};
use gannet_vfs::FileHandle;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::rc::Rc;
use std::sync::Arc;
use tokio::task::JoinSet;

/// Local reads or writes of one file that are under way at a time: enough to keep the disk and the copy busy.
const LOCAL_DEPTH: usize = 4;
/// The default block length of local files, in bytes.
pub(super) const BLOCK_LEN: u32 = gannet_vfs::limits::TRANSFER_MAX;

/// Where blocks come from.
pub(crate) enum Source {
    Local(LocalSource),
    Remote(Reader<Remote>),
}

/// A local file, read ahead by the blocking pool; its holes give no blocks.
pub(crate) struct LocalSource {
    runtime: Handle,
    file: Arc<File>,
    /// The rest of the range of data that is being read.
    data: std::ops::Range<u64>,
    size: u64,
    block: u32,
    reads: JoinSet<io::Result<Block>>,
}

impl Source {
    pub(super) fn local(runtime: &Handle, file: File, size: u64, transfer: Transfer) -> Source {
        Source::Local(LocalSource {
            runtime: Rc::clone(runtime),
            file: Arc::new(file),
            data: 0..0,
            size,
            block: transfer.block.unwrap_or(BLOCK_LEN).max(1),
            reads: JoinSet::new(),
        })
    }

    pub(super) fn remote(
        session: &Session,
        file: &FileHandle,
        size: u64,
        transfer: Transfer,
    ) -> Source {
        Source::Remote(session.files().read_file(file, 0..size, transfer))
    }

    /// The next block, in no particular order; `None` when there is no more data. `sink` lends memory for it.
    pub(super) async fn next(&mut self, sink: &mut Sink) -> io::Result<Option<Block>> {
        match self {
            Source::Remote(reader) => reader.next().await.map_err(io::Error::other),
            Source::Local(source) => {
                source.read_ahead(sink).await?;
                let read = source.reads.join_next().await;
                read.map(|read| read.map_err(io::Error::other)?).transpose()
            }
        }
    }

    /// Takes back memory that a sink is done with.
    pub(super) fn recycle(&mut self, buffer: Buffer) {
        if let Source::Remote(reader) = self {
            reader.recycle(buffer);
        }
    }
}

impl LocalSource {
    async fn read_ahead(&mut self, sink: &mut Sink) -> io::Result<()> {
        while self.reads.len() < LOCAL_DEPTH {
            if self.data.is_empty() {
                let (file, from, end) = (Arc::clone(&self.file), self.data.end, self.size);
                let next =
                    locally(&self.runtime, move || local::next_data(&file, from, end)).await?;
                let Some((start, end)) = next else {
                    // Only a hole is left.
                    self.data = self.size..self.size;
                    break;
                };
                self.data = start..end;
            }
            let offset = self.data.start;
            let mut buffer = sink.spare(self.block);
            // The sink's blocks may be shorter than ours: a server says how much it takes at a time.
            let len = usize::try_from(self.data.end - offset)
                .unwrap_or(usize::MAX)
                .min(self.block as usize)
                .min(buffer.len());
            self.data.start += len as u64;
            let (runtime, file) = (Rc::clone(&self.runtime), Arc::clone(&self.file));
            self.reads.spawn_local(async move {
                locally(&runtime, move || {
                    let memory = buffer.get_mut(..len).unwrap_or_default();
                    if local::read(&file, offset, memory)? < len {
                        let why = "the file became shorter while it was copied";
                        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, why));
                    }
                    Ok(Block {
                        offset,
                        buffer,
                        len,
                    })
                })
                .await
            });
        }
        Ok(())
    }
}

/// Where blocks go.
pub(crate) enum Sink {
    Local(LocalSink),
    Remote(Box<Writer<Remote>>),
}

/// A local file, written behind by the blocking pool.
pub(crate) struct LocalSink {
    runtime: Handle,
    file: Arc<File>,
    writes: JoinSet<io::Result<Buffer>>,
}

impl Sink {
    pub(super) fn local(runtime: &Handle, file: Arc<File>) -> Sink {
        Sink::Local(LocalSink {
            runtime: Rc::clone(runtime),
            file,
            writes: JoinSet::new(),
        })
    }

    pub(super) fn remote(session: &Session, file: &FileHandle, transfer: Transfer) -> Sink {
        Sink::Remote(Box::new(session.files().write_file(
            file,
            Zeros::Write,
            transfer,
        )))
    }

    /// Memory for a block of at most `len` bytes.
    pub(super) fn spare(&mut self, len: u32) -> Buffer {
        match self {
            Sink::Local(_) => Buffer::zeroed(len as usize),
            Sink::Remote(writer) => writer.buffer(),
        }
    }

    /// Takes a block; memory that is free now, if any.
    pub(super) async fn write(&mut self, block: Block) -> io::Result<Option<Buffer>> {
        match self {
            Sink::Remote(writer) => {
                let written = writer.write(block.offset, block.buffer, block.len).await;
                written.map_err(io::Error::other)?;
                Ok(Some(writer.buffer()))
            }
            Sink::Local(sink) => sink.write(block).await,
        }
    }

    /// Waits until everything is written, and durable on a server.
    pub(super) async fn finish(self) -> io::Result<()> {
        match self {
            Sink::Remote(writer) => writer.finish().await.map(|_| ()).map_err(io::Error::other),
            Sink::Local(mut sink) => {
                while let Some(written) = sink.writes.join_next().await {
                    written.map_err(io::Error::other)??;
                }
                Ok(())
            }
        }
    }
}

impl LocalSink {
    async fn write(&mut self, block: Block) -> io::Result<Option<Buffer>> {
        let (runtime, file) = (Rc::clone(&self.runtime), Arc::clone(&self.file));
        self.writes.spawn_local(async move {
            locally(&runtime, move || {
                file.write_all_at(block.data(), block.offset)?;
                Ok(block.buffer)
            })
            .await
        });
        if self.writes.len() < LOCAL_DEPTH {
            return Ok(None);
        }
        let written = self.writes.join_next().await;
        written
            .map(|written| written.map_err(io::Error::other)?)
            .transpose()
    }
}
