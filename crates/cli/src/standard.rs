//! Standard input and output as streams of blocks, each moved by a thread of its own.
//!
//! A pipe or a terminal may block for as long as its other end likes. On a thread of its own that neither holds up the
//! connection to the server nor, on the blocking pool, the end of the process. Few blocks are under way at a time.

use crate::failure::{Explain, Failure};
use crate::output;
use gannet_client::Block;
use gannet_runtime::Buffer;
use std::io::{self, Read};
use tokio::sync::{mpsc, oneshot};

/// Blocks between a stream's thread and the connection.
const BLOCKS_MAX: usize = 4;

/// Standard input, read ahead.
pub(crate) struct Input {
    spare: std::sync::mpsc::Sender<Buffer>,
    read: mpsc::UnboundedReceiver<io::Result<Block>>,
    /// Buffers that the thread has, empty or full.
    under_way: usize,
}

impl Input {
    /// Starts the thread, which reads once it has memory.
    ///
    /// # Errors
    /// The system has no thread.
    pub(crate) fn start() -> Result<Input, Failure> {
        let (spare, to_fill) = std::sync::mpsc::channel::<Buffer>();
        let (filled, read) = mpsc::unbounded_channel();
        start_thread("standard input", move || {
            let mut offset = 0;
            for mut buffer in to_fill {
                let len = read_full(&mut io::stdin().lock(), &mut buffer);
                let block = len.map(|len| Block {
                    offset,
                    buffer,
                    len,
                });
                offset += block.as_ref().map_or(0, |block| block.len as u64);
                if filled.send(block).is_err() {
                    return;
                }
            }
        })?;
        Ok(Input {
            spare,
            read,
            under_way: 0,
        })
    }

    /// The next block, of the length of its buffer unless the input ends in it; `None` at the end. `memory` gives
    /// buffers, which must not be empty.
    ///
    /// # Errors
    /// The input cannot be read.
    pub(crate) async fn next(
        &mut self,
        mut memory: impl FnMut() -> Buffer,
    ) -> io::Result<Option<Block>> {
        while self.under_way < BLOCKS_MAX && self.spare.send(memory()).is_ok() {
            self.under_way += 1;
        }
        let ended = || io::Error::other("the thread that reads it has ended");
        let block = self.read.recv().await.ok_or_else(ended)??;
        self.under_way -= 1;
        Ok((block.len > 0).then_some(block))
    }
}

/// Reads until `buffer` is full or the input ends; the bytes read.
fn read_full(input: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut len = 0;
    while let Some(rest) = buffer.get_mut(len..).filter(|rest| !rest.is_empty()) {
        match input.read(rest) {
            Ok(0) => break,
            Ok(count) => len += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(len)
}

/// Standard output, written behind.
pub(crate) struct Output {
    blocks: mpsc::Sender<Block>,
    free: mpsc::UnboundedReceiver<Buffer>,
    outcome: oneshot::Receiver<Result<(), Failure>>,
}

impl Output {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system has no thread.
    pub(crate) fn start() -> Result<Output, Failure> {
        let (blocks, mut to_write) = mpsc::channel::<Block>(BLOCKS_MAX);
        let (written, free) = mpsc::unbounded_channel();
        let (done, outcome) = oneshot::channel();
        start_thread("standard output", move || {
            let mut result = Ok(());
            while let Some(block) = to_write.blocking_recv() {
                result = output::bytes(block.data());
                if result.is_err() {
                    break;
                }
                // The reader of the file may have ended already.
                let _ = written.send(block.buffer);
            }
            // The command may have failed meanwhile.
            let _ = done.send(result);
        })?;
        Ok(Output {
            blocks,
            free,
            outcome,
        })
    }

    /// Takes a block, which must follow the one before; waits while too many are not written yet.
    ///
    /// # Errors
    /// An earlier block could not be written; silent if the reader of the output went away.
    pub(crate) async fn write(&mut self, block: Block) -> Result<(), Failure> {
        match self.blocks.send(block).await {
            Ok(()) => Ok(()),
            Err(_) => (&mut self.outcome).await.unwrap_or_else(|_| Err(ended())),
        }
    }

    /// Memory of a block that was written.
    pub(crate) fn free(&mut self) -> Option<Buffer> {
        self.free.try_recv().ok()
    }

    /// Waits until everything is written.
    ///
    /// # Errors
    /// As [`Output::write`].
    pub(crate) async fn finish(self) -> Result<(), Failure> {
        drop(self.blocks);
        self.outcome.await.unwrap_or_else(|_| Err(ended()))
    }
}

fn ended() -> Failure {
    Failure::new(
        "cannot write the output",
        "the thread that writes it has ended",
    )
}

fn start_thread(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
    let thread = std::thread::Builder::new().name(name.to_owned());
    let started = thread.spawn(work);
    started.map(drop).explain(|| format!("cannot use {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives a byte at a time.
    struct Drip(u8);

    impl Read for Drip {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            if self.0 == 0 {
                return Ok(0);
            }
            self.0 -= 1;
            buffer[0] = self.0;
            Ok(1)
        }
    }

    #[test]
    fn blocks_are_full_until_the_end() {
        let (mut input, mut block) = (Drip(6), [0; 4]);
        assert_eq!(read_full(&mut input, &mut block).unwrap(), 4);
        assert_eq!(block, [5, 4, 3, 2]);
        assert_eq!(read_full(&mut input, &mut block).unwrap(), 2);
        assert_eq!(read_full(&mut input, &mut block).unwrap(), 0);
    }
}
