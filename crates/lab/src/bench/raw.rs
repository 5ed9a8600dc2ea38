//! The yardstick: a plain TCP connection that moves the same bytes between the same kind of memory,
//! on the same runtime and with the same way of waiting.

use super::fabric::{piece, working_set};
use anyhow::{Context, ensure};
use gannet_runtime::stream::{Follow, readable, writable};
use gannet_runtime::{Buffer, Stream};
use std::io::{self, IoSlice};
use std::time::{Duration, Instant};

/// One end of the plain connection.
pub(crate) struct RawEnd {
    stream: Stream,
    /// The working set that is sent from or received into.
    memory: Buffer,
}

impl RawEnd {
    /// Takes over a connected stream, with a working set of `memory` bytes.
    pub(crate) fn new(stream: Stream, memory: usize) -> RawEnd {
        RawEnd {
            stream,
            memory: working_set(memory),
        }
    }

    /// Sends `count` pieces of `size` bytes and waits until the other end has them all.
    ///
    /// # Errors
    /// The connection broke.
    pub(crate) async fn send_all(&mut self, size: usize, count: usize) -> anyhow::Result<()> {
        let memory = self.memory.len();
        for index in 0..count {
            let bytes = self
                .memory
                .get(piece(index, size, memory))
                .context("a piece out of bounds")?;
            send(&self.stream, bytes).await?;
        }
        receive(&self.stream, &mut [0]).await
    }

    /// Receives `count` pieces of `size` bytes and says so.
    ///
    /// # Errors
    /// The connection broke.
    pub(crate) async fn receive_all(&mut self, size: usize, count: usize) -> anyhow::Result<()> {
        let memory = self.memory.len();
        for index in 0..count {
            let bytes = self
                .memory
                .get_mut(piece(index, size, memory))
                .context("a piece out of bounds")?;
            receive(&self.stream, bytes).await?;
        }
        send(&self.stream, &[1]).await
    }

    /// Sends `request` bytes and waits for `answer` bytes, `count` times; gives the time of each.
    ///
    /// # Errors
    /// The connection broke.
    pub(crate) async fn ping(
        &mut self,
        request: usize,
        answer: usize,
        count: usize,
    ) -> anyhow::Result<Vec<Duration>> {
        let mut times = Vec::with_capacity(count);
        let (request, mut answer) = (vec![1; request], vec![0; answer]);
        for _ in 0..count {
            let start = Instant::now();
            send(&self.stream, &request).await?;
            receive(&self.stream, &mut answer).await?;
            times.push(start.elapsed());
        }
        Ok(times)
    }

    /// Answers `count` messages of `request` bytes with `answer` bytes each.
    ///
    /// # Errors
    /// The connection broke.
    pub(crate) async fn pong(
        &mut self,
        request: usize,
        answer: usize,
        count: usize,
    ) -> anyhow::Result<()> {
        let (mut request, answer) = (vec![0; request], vec![1; answer]);
        for _ in 0..count {
            receive(&self.stream, &mut request).await?;
            send(&self.stream, &answer).await?;
        }
        Ok(())
    }
}

async fn send(stream: &Stream, bytes: &[u8]) -> anyhow::Result<()> {
    let mut rest = bytes;
    while !rest.is_empty() {
        match stream.try_write(&[IoSlice::new(rest)], Follow::Nothing) {
            Ok(count) => rest = rest.get(count..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => writable(&**stream).await?,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

async fn receive(stream: &Stream, bytes: &mut [u8]) -> anyhow::Result<()> {
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match stream.try_read(rest) {
            Ok(count) => {
                ensure!(count > 0, "the plain connection was closed");
                filled += count;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => readable(&**stream).await?,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
