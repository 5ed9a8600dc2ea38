//! The parts that cases share: a connected pair, its completions, patterns, a file in memory.

use crate::{Broken, Harness, Outcome, ensure_eq};
use gannet_fabric::{
    Access, Backing, Completion, ConnectError, ConnectOptions, Connected, Disconnected, Done,
    Invalidate, PrivateDataLimits, Provider, Refusals, Region, RegisterError, RemoteAddress, Scope,
    SendOptions, Signal, Source, Span, WorkError, WorkId, next_completions,
};
use gannet_runtime::{Arena, Buffer, both};
use gannet_runtime::{FileRef, FileSource, FileStatus, Handle};
use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// Bytes of one arena slot, and so of a default receive.
pub(crate) const SLOT_LEN: usize = 8192;
/// Slots of the arena of one case.
const SLOTS_MAX: usize = 256;
/// Receives that each end of a default pair has posted.
pub(crate) const RECEIVES: usize = 8;
/// Read depth of a default pair.
pub(crate) const READ_DEPTH: u16 = 8;
/// Registrations that may fail one after the other.
const REGISTER_TRIES: usize = 20;
/// The longest time that a provider may take to return the memory of a finished case.
const BALANCE_TIME_MAX: Duration = Duration::from_secs(10);

/// Ids for work that is not a default receive (those count from 0).
pub(crate) const WORK: WorkId = WorkId(1000);

/// The test bed of one case.
pub(crate) struct Bed<'h> {
    pub(crate) runtime: Handle,
    pub(crate) near: Rc<dyn Provider>,
    pub(crate) far: Rc<dyn Provider>,
    pub(crate) arena: Arena,
    harness: &'h dyn Harness,
    near_regions: u64,
    far_regions: u64,
}

impl Bed<'_> {
    pub(crate) fn new(harness: &dyn Harness) -> Bed<'_> {
        let (near, far) = (harness.near(), harness.far());
        Bed {
            runtime: harness.runtime(),
            arena: Arena::new(SLOT_LEN, SLOTS_MAX),
            near_regions: regions(&near),
            far_regions: regions(&far),
            near,
            far,
            harness,
        }
    }

    /// The address at which the far provider listens.
    pub(crate) fn address(&self) -> std::net::SocketAddr {
        self.harness.address()
    }

    /// A file of the harness's kind.
    pub(crate) fn file(&self, content: Vec<u8>) -> FileRef {
        self.harness.file(content)
    }

    /// The bounds of private data between the two providers.
    pub(crate) fn private_data(&self) -> PrivateDataLimits {
        let near = self.near.capabilities().private_data;
        let far = self.far.capabilities().private_data;
        PrivateDataLimits {
            request_max: near.request_max,
            reply_max: far.reply_max,
            exact: near.exact && far.exact,
        }
    }

    /// Whether this reason of the far end says that the peer broke the protocol, as far as its provider notices.
    pub(crate) fn blames_peer(&self, reason: &Disconnected) -> bool {
        match self.far.capabilities().refusals {
            Refusals::Named => matches!(reason, Disconnected::PeerMisbehaved(_)),
            Refusals::Unnamed => *reason != Disconnected::Local,
        }
    }

    /// A slot of the case's arena.
    pub(crate) fn slot(&self) -> Outcome<Buffer> {
        self.arena
            .take()
            .ok_or_else(|| Broken::new("the case's arena is empty"))
    }

    /// Default options: [`RECEIVES`] slots and [`READ_DEPTH`].
    pub(crate) fn options(&self) -> Outcome<ConnectOptions> {
        let receives: Outcome<Vec<Buffer>> = (0..RECEIVES).map(|_| self.slot()).collect();
        Ok(ConnectOptions {
            private_data: Vec::new(),
            ord: READ_DEPTH,
            ird: READ_DEPTH,
            receives: receives?.into(),
            immediates: true,
            ..ConnectOptions::default()
        })
    }

    /// A connected pair with default options: the end that connected, then the one that accepted.
    pub(crate) async fn pair(&self) -> Outcome<(Peer, Peer)> {
        self.pair_with(self.options()?, self.options()?).await
    }

    /// A connected pair.
    pub(crate) async fn pair_with(
        &self,
        near: ConnectOptions,
        far: ConnectOptions,
    ) -> Outcome<(Peer, Peer)> {
        let mut listener = self.far.listen(self.address())?;
        let connecting = self.near.connect(listener.local_address(), near);
        let accepting = async {
            let incoming = listener.accept().await.map_err(ConnectError::from)?;
            incoming.accept(far).await
        };
        let (near, far) = both(connecting, accepting).await;
        Ok((self.near_peer(near?), Peer::new(&self.far, far?)))
    }

    /// The end that connected.
    pub(crate) fn near_peer(&self, endpoint: Connected) -> Peer {
        Peer::new(&self.near, endpoint)
    }

    /// The bytes of a memory region.
    pub(crate) fn bytes_of(&self, region: &Region) -> Outcome<Vec<u8>> {
        let bytes = self.harness.look(region);
        bytes.ok_or_else(|| Broken::new("the region has no memory"))
    }

    /// Waits until all that the case used is back: slots in the arena, regions out of the domains.
    pub(crate) async fn balanced(&self) -> Outcome {
        let deadline = self.runtime.now() + BALANCE_TIME_MAX;
        loop {
            let left = (
                self.arena.in_use(),
                regions(&self.near).saturating_sub(self.near_regions),
                regions(&self.far).saturating_sub(self.far_regions),
            );
            if left == (0, 0, 0) {
                return Ok(());
            }
            if self.runtime.now() >= deadline {
                return ensure_eq(
                    "slots, near and far regions never came back",
                    left,
                    (0, 0, 0),
                );
            }
            gannet_runtime::sleep(&self.runtime, Duration::from_millis(1)).await;
        }
    }
}

fn regions(provider: &Rc<dyn Provider>) -> u64 {
    let stats = provider.domain().stats();
    stats.registrations - stats.deregistrations
}

/// One end of a connection, with the completions it has not looked at yet.
pub(crate) struct Peer {
    pub(crate) endpoint: Connected,
    /// Its sources of RDMA must be registered.
    registers: bool,
    ready: VecDeque<Completion>,
    ended: Option<Disconnected>,
}

impl Peer {
    pub(crate) fn new(provider: &Rc<dyn Provider>, endpoint: Connected) -> Peer {
        Peer {
            endpoint,
            registers: provider.capabilities().needs_local_registration,
            ready: VecDeque::new(),
            ended: None,
        }
    }

    /// The next completion; the connection must not have ended before it.
    pub(crate) async fn next(&mut self) -> Outcome<Completion> {
        loop {
            if let Some(completion) = self.ready.pop_front() {
                return Ok(completion);
            }
            let mut batch = Vec::new();
            next_completions(&*self.endpoint, &mut batch).await?;
            self.ready.extend(batch);
        }
    }

    /// The next completion, which must be a success.
    pub(crate) async fn next_done(&mut self) -> Outcome<(WorkId, Done, Option<Buffer>)> {
        let completion = self.next().await?;
        Ok((completion.id, completion.outcome?, completion.buffer))
    }

    /// The next completion, which must be `done` for the work `id`; returns its memory.
    pub(crate) async fn expect(&mut self, id: WorkId, done: Done) -> Outcome<Option<Buffer>> {
        let completion = self.next().await?;
        ensure_eq(
            "completion",
            (completion.id, completion.outcome),
            (id, Ok(done)),
        )?;
        Ok(completion.buffer)
    }

    /// The next completion, which must be a plain message; gives its bytes.
    pub(crate) async fn expect_message(&mut self) -> Outcome<Vec<u8>> {
        let completion = self.next().await?;
        let Ok(Done::Received { len, .. }) = completion.outcome else {
            return Err(Broken::new(format!("not a message: {completion:?}")));
        };
        let buffer = completion
            .buffer
            .ok_or_else(|| Broken::new("a message without its buffer"))?;
        let message = buffer
            .get(..len as usize)
            .ok_or_else(|| Broken::new("a message longer than its buffer"))?;
        Ok(message.to_vec())
    }

    /// The completions that are left, and why the connection ended.
    pub(crate) async fn end(&mut self) -> (Vec<Completion>, Disconnected) {
        let mut all: Vec<Completion> = self.ready.drain(..).collect();
        if let Some(reason) = &self.ended {
            return (all, reason.clone());
        }
        loop {
            if let Err(reason) = next_completions(&*self.endpoint, &mut all).await {
                self.ended = Some(reason.clone());
                return (all, reason);
            }
        }
    }

    /// Posts a message of these bytes, with a completion, and starts it.
    pub(crate) fn send(&self, id: WorkId, bytes: &[u8]) -> Outcome {
        let options = SendOptions {
            signal: Signal::Always,
            ..SendOptions::default()
        };
        self.send_with(id, bytes, options)
    }

    /// Posts a message of these bytes and starts it.
    pub(crate) fn send_with(&self, id: WorkId, bytes: &[u8], options: SendOptions) -> Outcome {
        self.endpoint.post_send(id, source(bytes)?, options)?;
        self.endpoint.flush();
        Ok(())
    }

    /// Posts a write of these bytes, with a completion, and starts it.
    pub(crate) fn write(&self, id: WorkId, bytes: &[u8], target: RemoteAddress) -> Outcome {
        self.endpoint
            .post_write(id, self.write_source(bytes)?, target, Signal::Always)?;
        self.endpoint.flush();
        Ok(())
    }

    /// New memory with these bytes, as a source of an RDMA Write.
    pub(crate) fn write_source(&self, bytes: &[u8]) -> Outcome<Source> {
        if self.registers {
            let region = self.expose(bytes.to_vec(), Access::Local)?;
            return Ok(Source::Span(Span::whole(&region)?));
        }
        source(bytes)
    }

    /// Posts a read into the whole of `sink` and starts it.
    pub(crate) fn read(&self, id: WorkId, sink: &Region, source: RemoteAddress) -> Outcome {
        self.endpoint.post_read(id, Span::whole(sink)?, source)?;
        self.endpoint.flush();
        Ok(())
    }

    /// Registers these bytes for this end's peer alone.
    pub(crate) fn expose(&self, bytes: Vec<u8>, access: Access) -> Outcome<Region> {
        let (domain, scope) = (self.endpoint.domain(), Scope::Endpoint(self.endpoint.id()));
        persistently(|| {
            let backing = Backing::Buffer(Buffer::from_vec(bytes.clone()));
            Ok(domain.register_now(backing, access, scope))
        })
    }

    /// Registers zeroed memory for this end's own use.
    pub(crate) fn sink(&self, len: usize) -> Outcome<Region> {
        self.expose(vec![0; len], Access::Local)
    }
}

/// Registers until it succeeds. An adapter may have no room for a moment; each attempt needs new memory, as a failed
/// one drops it.
pub(crate) fn persistently<T>(
    mut register: impl FnMut() -> Outcome<Result<T, RegisterError>>,
) -> Outcome<T> {
    for _ in 1..REGISTER_TRIES {
        match register()? {
            Err(RegisterError::TableFull) => {}
            other => return Ok(other?),
        }
    }
    Ok(register()??)
}

/// Sends a message there and one back, which shows that both ends still work.
pub(crate) async fn ping(near: &mut Peer, far: &mut Peer) -> Outcome {
    for (from, to, text) in [(0, 1, "there"), (1, 0, "back")] {
        let ends = [&mut *near, &mut *far];
        ends[from].send(WORK, text.as_bytes())?;
        ends[from].expect(WORK, Done::Sent).await?;
        let message = ends[to].expect_message().await?;
        super::ensure_bytes("ping", &message, text.as_bytes())?;
        let buffer = Buffer::zeroed(SLOT_LEN);
        ends[to].endpoint.post_receive(WorkId(0), buffer)?;
    }
    Ok(())
}

/// Checks that the far end ended the connection for a violation by the near end, and that both ends report so as far as
/// the far provider says why.
pub(crate) async fn ended_by_far(
    bed: &Bed<'_>,
    near: &mut Peer,
    far: &mut Peer,
) -> Outcome<Vec<Completion>> {
    let (_, far_reason) = far.end().await;
    if !bed.blames_peer(&far_reason) {
        return Err(Broken::new(format!("the far end says {far_reason:?}")));
    }
    let (completions, near_reason) = near.end().await;
    let is_told = match bed.far.capabilities().refusals {
        Refusals::Named => matches!(near_reason, Disconnected::PeerTerminated(_)),
        Refusals::Unnamed => near_reason != Disconnected::Local,
    };
    if !is_told {
        return Err(Broken::new(format!("the near end says {near_reason:?}")));
    }
    Ok(completions)
}

/// New memory with these bytes, as a source of a Send.
pub(crate) fn source(bytes: &[u8]) -> Outcome<Source> {
    Ok(Source::Buffer {
        len: u32::try_from(bytes.len())?,
        buffer: Buffer::from_vec(bytes.to_vec()),
    })
}

/// The address of byte `offset` of a region, for the peer.
pub(crate) fn address_of(region: &Region, offset: u64) -> RemoteAddress {
    RemoteAddress {
        key: region.remote_key(),
        offset: region.base().wrapping_add(offset),
    }
}

/// Bytes that differ between seeds and never repeat at a power of two.
pub(crate) fn pattern(seed: usize, len: usize) -> Vec<u8> {
    gannet_testing::noise(len, (seed * 31) as u8)
}

/// Options of a Send that revokes `key`.
pub(crate) fn invalidating(key: gannet_fabric::RemoteKey) -> SendOptions {
    SendOptions {
        signal: Signal::Always,
        invalidate: Invalidate::Key(key),
        ..SendOptions::default()
    }
}

/// True when work was cut off by the end of the connection.
pub(crate) fn is_flushed(completion: &Completion) -> bool {
    completion.outcome == Err(WorkError::Flushed)
}

/// A file in memory without a descriptor: resident, cold until the first blocking read, or failing.
pub struct MemoryFile {
    content: Vec<u8>,
    resident: AtomicBool,
    failure: Option<io::ErrorKind>,
}

impl MemoryFile {
    /// A file with all pages in the cache.
    pub fn resident(content: Vec<u8>) -> FileRef {
        MemoryFile::build(content, true, None)
    }

    /// A file with no page in the cache until it was read with [`FileSource::read_at`].
    pub fn cold(content: Vec<u8>) -> FileRef {
        MemoryFile::build(content, false, None)
    }

    /// A file outside the cache whose reads fail with `failure`.
    pub fn failing(failure: io::ErrorKind) -> FileRef {
        MemoryFile::build(Vec::new(), false, Some(failure))
    }

    fn build(content: Vec<u8>, resident: bool, failure: Option<io::ErrorKind>) -> FileRef {
        Arc::new(MemoryFile {
            content,
            resident: AtomicBool::new(resident),
            failure,
        })
    }

    fn copy(&self, offset: u64, buffer: &mut [u8]) -> usize {
        let start = usize::try_from(offset)
            .unwrap_or(usize::MAX)
            .min(self.content.len());
        let count = buffer.len().min(self.content.len() - start);
        buffer[..count].copy_from_slice(&self.content[start..start + count]);
        count
    }
}

impl FileSource for MemoryFile {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn try_read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        if !self.resident.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(self.copy(offset, buffer))
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(kind) = self.failure {
            return Err(kind.into());
        }
        self.resident.store(true, Ordering::Relaxed);
        Ok(self.copy(offset, buffer))
    }

    fn is_resident(&self, _offset: u64, _len: u64) -> bool {
        self.resident.load(Ordering::Relaxed)
    }
}

/// A file in memory whose pages can be evicted. It counts the attempts to read pages that are not resident.
pub(crate) struct WatchedFile {
    content: Vec<u8>,
    len: AtomicUsize,
    resident: AtomicBool,
    reads: AtomicUsize,
}

impl WatchedFile {
    pub(crate) fn resident(content: Vec<u8>) -> Arc<WatchedFile> {
        Arc::new(WatchedFile {
            len: AtomicUsize::new(content.len()),
            content,
            resident: AtomicBool::new(true),
            reads: AtomicUsize::new(0),
        })
    }

    pub(crate) fn cold(content: Vec<u8>) -> Arc<WatchedFile> {
        let file = WatchedFile::resident(content);
        file.evict();
        file
    }

    /// The number of reads of pages that were not resident.
    pub(crate) fn disk_reads(&self) -> usize {
        self.reads.load(Ordering::Relaxed)
    }

    pub(crate) fn bring(&self) {
        self.resident.store(true, Ordering::Relaxed);
    }

    pub(crate) fn evict(&self) {
        self.resident.store(false, Ordering::Relaxed);
    }

    pub(crate) fn shrink(&self, len: usize) {
        self.len.store(len, Ordering::Relaxed);
    }
}

impl FileSource for WatchedFile {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn try_read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.read_at(offset, buffer)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        if !self.resident.load(Ordering::Relaxed) {
            // The kernel would read from the disk even for an attempt.
            self.reads.fetch_add(1, Ordering::Relaxed);
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let end = self.len.load(Ordering::Relaxed);
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(end);
        let count = buffer.len().min(end - start);
        buffer[..count].copy_from_slice(&self.content[start..start + count]);
        Ok(count)
    }

    fn status(&self) -> io::Result<FileStatus> {
        Ok(FileStatus {
            size: self.len.load(Ordering::Relaxed) as u64,
            ..FileStatus::default()
        })
    }

    fn is_resident(&self, _offset: u64, _len: u64) -> bool {
        self.resident.load(Ordering::Relaxed)
    }
}
