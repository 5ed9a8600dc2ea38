//! Reads a copy back and compares it with its source, byte by byte, from start to end.

use super::local;
use super::place::{Place, locally};
use super::unfinished::Unfinished;
use crate::failure::{Explain, Failure};
use crate::session::Session;
use gannet::local::Remote;
use gannet_client::{Block, Reader, Transfer};
use gannet_runtime::{Buffer, Handle};
use gannet_vfs::FileHandle;
use std::fs::File;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

/// Bytes of a local file read at a time.
const LOCAL_BLOCK_LEN: usize = 1 << 20;

/// Where `source` and `target` differ first, in bytes from the start; `None` when they are equal. `compared` gets the
/// numbers of equal bytes.
///
/// # Errors
/// One of them cannot be read.
pub(super) async fn first_difference(
    source: &Place,
    target: &Unfinished,
    transfer: Transfer,
    compared: impl Fn(u64),
) -> Result<Option<u64>, Failure> {
    let mut left = Cursor::open(source, transfer).await?;
    let mut right = target.cursor(transfer);
    let what = || format!("cannot compare {source} and {target}");
    let mut position = 0;
    loop {
        left.fill().await.explain(what)?;
        right.fill().await.explain(what)?;
        let len = left.rest().len().min(right.rest().len());
        if len == 0 {
            let is_longer = left.rest().len() != right.rest().len();
            return Ok(is_longer.then_some(position));
        }
        let pairs = left.rest().iter().zip(right.rest());
        if left.rest().get(..len) != right.rest().get(..len) {
            let at = pairs.take_while(|(left, right)| left == right).count();
            return Ok(Some(position + at as u64));
        }
        left.used += len;
        right.used += len;
        position += len as u64;
        compared(len as u64);
    }
}

/// A file from its start to its end, holes as zeros.
pub(super) struct Cursor {
    bytes: Bytes,
    block: Option<Block>,
    /// Bytes of the block that were compared.
    used: usize,
}

enum Bytes {
    Local(Handle, Arc<File>, u64),
    Remote(Box<Reader<Remote>>),
}

impl Cursor {
    async fn open(place: &Place, transfer: Transfer) -> Result<Cursor, Failure> {
        match place {
            Place::Local(local) => {
                let file = local.with(local::open).await;
                let file = file.explain(|| format!("cannot open {place}"))?;
                Ok(Cursor::local(&local.runtime, Arc::new(file)))
            }
            Place::Remote(session, handle, _) => Ok(Cursor::remote(session, handle, transfer)),
        }
    }

    pub(super) fn local(runtime: &Handle, file: Arc<File>) -> Cursor {
        Cursor::of(Bytes::Local(Rc::clone(runtime), file, 0))
    }

    pub(super) fn remote(session: &Session, file: &FileHandle, transfer: Transfer) -> Cursor {
        let reader = session.files().read_file(file, 0..u64::MAX, transfer);
        Cursor::of(Bytes::Remote(Box::new(reader)))
    }

    fn of(bytes: Bytes) -> Cursor {
        Cursor {
            bytes,
            block: None,
            used: 0,
        }
    }

    /// The bytes left to compare; after [`Cursor::fill`], there are none only at the end of the file.
    fn rest(&self) -> &[u8] {
        let data = self.block.as_ref().map_or(&[][..], Block::data);
        data.get(self.used..).unwrap_or_default()
    }

    async fn fill(&mut self) -> io::Result<()> {
        if !self.rest().is_empty() {
            return Ok(());
        }
        self.used = 0;
        let free = self.block.take().map(|block| block.buffer);
        self.block = match &mut self.bytes {
            Bytes::Remote(reader) => {
                if let Some(buffer) = free {
                    reader.recycle(buffer);
                }
                reader.next().await.map_err(io::Error::other)?
            }
            Bytes::Local(runtime, file, position) => {
                let (file, offset) = (Arc::clone(file), *position);
                let mut buffer = free.unwrap_or_else(|| Buffer::zeroed(LOCAL_BLOCK_LEN));
                let block = locally(runtime, move || {
                    let len = local::read(&file, offset, &mut buffer)?;
                    Ok(Block {
                        offset,
                        buffer,
                        len,
                    })
                })
                .await?;
                *position += block.len as u64;
                (block.len > 0).then_some(block)
            }
        };
        Ok(())
    }
}
