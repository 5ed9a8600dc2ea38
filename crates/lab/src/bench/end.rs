//! One end of a connection of the measured provider, with memory that its peer may reach.

use super::fabric::{piece, working_set};
use anyhow::{Context, bail};
use gannet_fabric::{
    Access, Backing, Completion, Connected, Done, Region, RemoteAddress, RemoteKey, Scope,
    SendOptions, Signal, Source, Span, WorkId, next_completions,
};
use gannet_runtime::{Arena, Buffer, FileRef};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Bytes of every message.
pub(super) const MESSAGE: usize = 64;
/// Number of bulk operations in flight.
pub(super) const DEPTH: usize = 16;

/// The operation of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Op {
    Write,
    Read,
    /// An RDMA Write whose source is a file range, sent from the page cache.
    WriteFile,
    /// An RDMA Write of a file range that is read into memory first.
    WriteFileCopied,
    /// One RDMA Read after the other.
    SingleRead,
    RoundTrip,
    /// A round trip of RDMA Writes, each with a message behind it.
    PingPong {
        /// The source of each Write, and the memory of its answer, are registered before it and revoked after it.
        registers: bool,
    },
}

impl Op {
    /// Its name in the result.
    pub(super) fn name(self) -> &'static str {
        match self {
            Op::Write => "write",
            Op::Read => "read",
            Op::WriteFile => "write-file",
            Op::WriteFileCopied => "write-file-copied",
            Op::SingleRead => "single-read",
            Op::RoundTrip => "round-trip",
            Op::PingPong { registers: false } => "half-ping-pong",
            Op::PingPong { registers: true } => "half-ping-pong-registered",
        }
    }

    /// Whether its rate counts, and not the time of one operation.
    pub(super) fn is_bulk(self) -> bool {
        match self {
            Op::Write | Op::Read | Op::WriteFile | Op::WriteFileCopied => true,
            Op::SingleRead | Op::RoundTrip | Op::PingPong { .. } => false,
        }
    }
}

/// One end of a connection of the provider.
pub(super) struct FabricEnd {
    pub(super) endpoint: Connected,
    /// This side's working set.
    memory: Region,
    /// The peer's memory, once the peer has sent its address.
    pub(super) remote: Option<RemoteAddress>,
    arena: Option<Arena>,
    ready: VecDeque<Completion>,
}

impl FabricEnd {
    /// Registers a working set of `memory` bytes.
    ///
    /// # Errors
    /// It cannot be registered.
    pub(super) async fn new(endpoint: Connected, memory: usize) -> anyhow::Result<FabricEnd> {
        let backing = Backing::Buffer(working_set(memory));
        let scope = Scope::Endpoint(endpoint.id());
        let domain = endpoint.domain();
        let memory = domain.register(backing, Access::RemoteReadWrite, scope);
        Ok(FabricEnd {
            memory: memory.await?,
            endpoint,
            remote: None,
            arena: None,
            ready: VecDeque::new(),
        })
    }

    /// Sends the peer the address of the working set.
    ///
    /// # Errors
    /// The connection has ended.
    pub(super) fn advertise(&self) -> anyhow::Result<()> {
        self.tell(address_of(&self.memory))
    }

    /// Sends the peer an address.
    ///
    /// # Errors
    /// The connection has ended.
    pub(super) fn tell(&self, address: RemoteAddress) -> anyhow::Result<()> {
        let mut message = address.offset.to_be_bytes().to_vec();
        message.extend_from_slice(&address.key.0.to_be_bytes());
        self.send_text(&message)
    }

    /// Waits for an address of the peer's.
    ///
    /// # Errors
    /// The connection has ended.
    pub(super) async fn learn(&mut self) -> anyhow::Result<RemoteAddress> {
        let message = self.receive().await?;
        self.understand(&message)
    }

    fn understand(&mut self, message: &[u8]) -> anyhow::Result<RemoteAddress> {
        let (offset, rest) = message
            .split_first_chunk::<8>()
            .context("a short message")?;
        let key = rest.first_chunk::<4>().context("a short message")?;
        let remote = RemoteAddress {
            key: RemoteKey(u32::from_be_bytes(*key)),
            offset: u64::from_be_bytes(*offset),
        };
        self.remote = Some(remote);
        Ok(remote)
    }

    /// Runs the passive side of a row.
    ///
    /// # Errors
    /// The connection has ended.
    pub(super) async fn target(
        &mut self,
        op: Op,
        size: usize,
        count: usize,
    ) -> anyhow::Result<Vec<Duration>> {
        match op {
            Op::RoundTrip => {
                for _ in 0..count {
                    let message = self.receive().await?;
                    self.send(message)?;
                }
            }
            Op::PingPong { registers } => self.pong(size, count, registers).await?,
            _ => {
                // The last message says that all operations are done; the answer confirms that all bytes are in place.
                self.receive().await?;
                self.send_text(b"done")?;
            }
        }
        Ok(Vec::new())
    }

    /// Runs the active side of a row.
    ///
    /// # Errors
    /// The connection has ended.
    pub(super) async fn initiate(
        &mut self,
        op: Op,
        size: usize,
        count: usize,
        file: &FileRef,
    ) -> anyhow::Result<Vec<Duration>> {
        match op {
            Op::RoundTrip => return self.ping(count).await,
            Op::PingPong { registers } => return self.push_often(size, count, registers).await,
            _ => {}
        }
        let depth = if op.is_bulk() { DEPTH } else { 1 };
        let mut times = Vec::with_capacity(count);
        let (mut posted, mut done) = (0, 0);
        while done < count {
            let start = Instant::now();
            while posted < count && posted - done < depth {
                self.post(op, size, posted, file)?;
                posted += 1;
            }
            self.endpoint.flush();
            let finished = match op {
                Op::Read | Op::SingleRead => Done::Read,
                _ => Done::Written,
            };
            self.wait(finished).await?;
            times.push(start.elapsed());
            done += 1;
        }
        self.send_text(b"all")?;
        self.receive().await?;
        Ok(times)
    }

    fn post(&mut self, op: Op, size: usize, index: usize, file: &FileRef) -> anyhow::Result<()> {
        let id = WorkId(index as u64);
        let range = piece(index, size, self.memory.len() as usize);
        let (start, len) = (range.start as u64, size as u32);
        let remote = self.remote.context("the peer has not told its address")?;
        let remote = RemoteAddress {
            offset: remote.offset + start,
            ..remote
        };
        let span = Span {
            region: self.memory.clone(),
            offset: start,
            len,
        };
        let source = match op {
            Op::Read | Op::SingleRead => return Ok(self.endpoint.post_read(id, span, remote)?),
            Op::WriteFile => Source::File {
                file: FileRef::clone(file),
                offset: start,
                len,
            },
            Op::WriteFileCopied => {
                let arena = (self.arena).get_or_insert_with(|| Arena::new(size, 2 * DEPTH));
                let mut buffer = arena.take().context("the arena is empty")?;
                file.try_read_at(start, &mut buffer)?;
                Source::Buffer { buffer, len }
            }
            _ => Source::Span(span),
        };
        Ok(self
            .endpoint
            .post_write(id, source, remote, Signal::Always)?)
    }

    async fn ping(&mut self, count: usize) -> anyhow::Result<Vec<Duration>> {
        let mut times = Vec::with_capacity(count);
        let mut message = Buffer::zeroed(MESSAGE);
        for _ in 0..count {
            let start = Instant::now();
            self.send(message)?;
            message = self.receive().await?;
            times.push(start.elapsed());
        }
        Ok(times)
    }

    /// The active side of [`Op::PingPong`]: half the time of each round trip.
    async fn push_often(
        &mut self,
        size: usize,
        count: usize,
        registers: bool,
    ) -> anyhow::Result<Vec<Duration>> {
        let (mut source, mut sink) = self.sides(size, registers);
        let mut times = Vec::with_capacity(count);
        for _ in 0..count {
            let start = Instant::now();
            self.push(size, &mut source, &mut sink)?;
            self.pushed(true).await?;
            source.revoke().await?;
            sink.revoke().await?;
            times.push(start.elapsed() / 2);
        }
        // The next row finds the working sets again.
        self.advertise()?;
        self.learn().await?;
        Ok(times)
    }

    /// The passive side of [`Op::PingPong`].
    async fn pong(&mut self, size: usize, count: usize, registers: bool) -> anyhow::Result<()> {
        let (mut source, mut sink) = self.sides(size, registers);
        for index in 0..count {
            self.pushed(index > 0).await?;
            source.revoke().await?;
            sink.revoke().await?;
            self.push(size, &mut source, &mut sink)?;
        }
        self.pushed(count > 0).await?;
        source.revoke().await?;
        sink.revoke().await?;
        self.advertise()
    }

    fn sides(&self, size: usize, registers: bool) -> (Side, Side) {
        let side = |access| match registers {
            true => Side::Registered {
                access,
                memory: Buffer::from_vec(vec![0x5a; size]),
                region: None,
            },
            false => Side::Kept(self.memory.clone()),
        };
        (side(Access::Local), side(Access::RemoteWrite))
    }

    /// Writes `size` bytes into the memory that the peer told last, and tells it where its answer goes.
    fn push(&mut self, size: usize, source: &mut Side, sink: &mut Side) -> anyhow::Result<()> {
        let remote = self.remote.context("the peer has not told its address")?;
        let span = Span {
            region: source.register(&self.endpoint)?,
            offset: 0,
            len: size as u32,
        };
        let answer = address_of(&sink.register(&self.endpoint)?);
        let source = Source::Span(span);
        self.endpoint
            .post_write(WorkId(1), source, remote, Signal::Always)?;
        self.tell(answer)
    }

    /// Waits for the peer's message, and for the end of the own Write if there is one.
    async fn pushed(&mut self, has_written: bool) -> anyhow::Result<()> {
        let (mut written, mut told) = (!has_written, None);
        while !written || told.is_none() {
            let completion = self.next().await?;
            match completion.outcome? {
                Done::Written => written = true,
                Done::Received { .. } => told = completion.buffer,
                _ => {}
            }
        }
        let message = told.context("a message without memory")?;
        self.renew()?;
        self.understand(&message)?;
        Ok(())
    }

    /// Sends a text of up to [`MESSAGE`] bytes.
    ///
    /// # Errors
    /// The connection has ended.
    pub(super) fn send_text(&self, text: &[u8]) -> anyhow::Result<()> {
        let mut buffer = Buffer::zeroed(MESSAGE);
        for (byte, value) in buffer.iter_mut().zip(text) {
            *byte = *value;
        }
        self.send(buffer)
    }

    /// Sends a message of [`MESSAGE`] bytes. Its memory is given up, and another receive takes its place.
    fn send(&self, buffer: Buffer) -> anyhow::Result<()> {
        let source = Source::Buffer {
            buffer,
            len: MESSAGE as u32,
        };
        self.endpoint
            .post_send(WorkId(0), source, SendOptions::default())?;
        self.endpoint.flush();
        Ok(())
    }

    /// Waits for the next message. A new receive takes the place of the one that held it.
    ///
    /// # Errors
    /// The connection has ended.
    pub(super) async fn receive(&mut self) -> anyhow::Result<Buffer> {
        loop {
            let completion = self.next().await?;
            if let (Ok(Done::Received { .. }), Some(buffer)) =
                (completion.outcome, completion.buffer)
            {
                self.renew()?;
                return Ok(buffer);
            }
        }
    }

    /// Posts a receive.
    fn renew(&self) -> anyhow::Result<()> {
        let memory = Buffer::zeroed(MESSAGE);
        Ok(self.endpoint.post_receive(WorkId(0), memory)?)
    }

    /// Waits for the end of posted work.
    ///
    /// # Errors
    /// Other work ended first, or the connection.
    pub(super) async fn wait(&mut self, done: Done) -> anyhow::Result<()> {
        let completion = self.next().await?;
        if completion.outcome? != done {
            bail!("unexpected completion");
        }
        Ok(())
    }

    async fn next(&mut self) -> anyhow::Result<Completion> {
        loop {
            if let Some(completion) = self.ready.pop_front() {
                return Ok(completion);
            }
            let mut batch = Vec::new();
            next_completions(&*self.endpoint, &mut batch).await?;
            self.ready.extend(batch);
        }
    }
}

fn address_of(region: &Region) -> RemoteAddress {
    RemoteAddress {
        key: region.remote_key(),
        offset: region.base(),
    }
}

/// The memory of one side of a Write.
enum Side {
    /// Registered as long as the connection.
    Kept(Region),
    /// Registered for one use.
    Registered {
        access: Access,
        /// Empty while it is registered.
        memory: Buffer,
        region: Option<Region>,
    },
}

impl Side {
    fn register(&mut self, endpoint: &Connected) -> anyhow::Result<Region> {
        match self {
            Side::Kept(region) => Ok(region.clone()),
            Side::Registered {
                access,
                memory,
                region,
            } => {
                let backing = Backing::Buffer(std::mem::take(memory));
                let scope = Scope::Endpoint(endpoint.id());
                let made = endpoint.domain().register_now(backing, *access, scope)?;
                *region = Some(made.clone());
                Ok(made)
            }
        }
    }

    async fn revoke(&mut self) -> anyhow::Result<()> {
        if let Side::Registered { memory, region, .. } = self
            && let Some(region) = region.take()
        {
            *memory = region.deregister().await?.context("the memory is lost")?;
        }
        Ok(())
    }
}
