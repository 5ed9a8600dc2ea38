//! One call that sends a range of an open file: to a peer's memory, or as messages.

mod pieces;

use crate::{Datapath, Engine, EngineError, FileRange, Ready, SenderOptions};
use gannet_fabric::registration::{
    Counters, Registered, Registration, Strategy, StrategyKind, Trust,
};
use gannet_fabric::{
    Access, Capabilities, Completion, Connected, Disconnected, PostError, RegisterError,
    RemoteAddress, Scope, SendOptions, Signal, Source, WorkError, WorkId,
};
use gannet_runtime::{Arena, Buffer, Handle, Instant, LocalFuture, sleep};
use pieces::{Piece, Pieces};
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};
use thiserror::Error;

/// Work requests of a [`FileSender`] have this bit of their [`WorkId`] set; those of its endpoint's other users do not.
pub const SENDER_WORK: u64 = 1 << 63;

/// The destination of a file range.
#[derive(Debug, Clone, Copy)]
pub enum Destination<'a> {
    /// Segments of the peer's memory, address and bytes each, which are filled one behind the other.
    Memory(&'a [(RemoteAddress, u32)]),
    /// One message for each pipe's length of it.
    Messages {
        /// Receives that the peer has posted for them, each as long as a pipe at least.
        receives: usize,
    },
}

/// Why a range was not sent, or not to its end.
#[derive(Debug, Error)]
pub enum SendError {
    /// The provider does not have the engine that was asked for.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The peer's segments or receives hold fewer bytes than the range has. Nothing was sent.
    #[error("the peer has room for {room} bytes, and {len} are to be sent")]
    Room {
        /// Bytes that fit.
        room: u64,
        /// Bytes of the range.
        len: u64,
    },
    /// The file could not be read.
    #[error("the file cannot be read: {0}")]
    File(#[from] io::Error),
    /// Memory could not be registered.
    #[error("memory for the file's bytes cannot be registered: {0}")]
    Register(#[from] RegisterError),
    /// The endpoint did not take the work.
    #[error("the work was not accepted: {0}")]
    Post(#[from] PostError),
    /// The work failed, because the connection has ended or the peer's memory refused the access.
    #[error("the work failed: {0}")]
    Work(#[from] WorkError),
    /// The connection has ended.
    #[error("the connection has ended: {0}")]
    Disconnected(#[from] Disconnected),
    /// No work was completed for [`SenderOptions::stalled_after`].
    #[error("the peer took nothing for {} seconds", .0.as_secs())]
    Stalled(std::time::Duration),
}

/// Counters of a sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SendCounts {
    /// Ranges sent to their ends.
    pub transfers: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Work requests posted.
    pub work: u64,
    /// Bytes that were copied from files to this process's memory.
    pub copied_bytes: u64,
    /// Pieces of files that were read, each by one system call or more.
    pub reads: u64,
    /// The most memory that pieces under way ever took together, in bytes.
    pub memory_peak: usize,
    /// Registrations, and the bytes that they pin.
    pub registrations: Counters,
}

/// Sends ranges of files over one connection, one after the other.
///
/// A range is cut into pieces of a pipe's length, and as many are under way as there are pipes. Each completion starts
/// the next piece: the fabric is the clock. At no time do the pieces under way take more memory than
/// [`SenderOptions::memory_max`].
pub struct FileSender {
    endpoint: Connected,
    runtime: Handle,
    capabilities: Capabilities,
    options: SenderOptions,
    /// Memory that stays registered, a slot for each pipe.
    slots: Arena,
    /// Registers slots once.
    kept: Rc<dyn Strategy>,
    /// Registers memory for one use.
    fresh: Rc<dyn Strategy>,
    /// Pieces whose bytes are in memory, or on their way there; in order.
    gathered: VecDeque<Gathered>,
    /// Pieces that were posted; in order.
    posted: VecDeque<Posted>,
    /// Completions that are not handled yet. They are here and not in a local variable, because `send` may be dropped
    /// at any await, and a lost completion would leave its piece in `posted` for ever.
    completions: VecDeque<Completion>,
    /// Scratch memory for the endpoint's completions.
    arrived: Vec<Completion>,
    /// The number of the transfer, which its work ids carry: an error of a piece of a transfer that was given up must
    /// not fail the next one.
    number: u64,
    /// The last time that a piece completed.
    progress: Instant,
    timer: Option<LocalFuture<()>>,
    counts: SendCounts,
}

/// A piece before it is posted.
struct Gathered {
    piece: Piece,
    bytes: Ready,
}

/// A piece in the send queue.
struct Posted {
    /// Memory that it takes.
    memory: usize,
    /// Its registered memory, until its completion.
    source: Option<Registered>,
}

impl FileSender {
    /// A sender over `endpoint`, a connection of a provider with these capabilities.
    ///
    /// # Errors
    /// [`EngineError`]: the provider does not have the engine that is asked for, or the options leave no memory.
    pub fn new(
        endpoint: Connected,
        capabilities: Capabilities,
        runtime: Handle,
        options: SenderOptions,
    ) -> Result<FileSender, EngineError> {
        let options = options.checked(&capabilities)?;
        let strategy = |kind| {
            let registration = Registration::new(kind, Trust::Untrusted).unwrap_or_default();
            registration.over(endpoint.domain(), Handle::clone(&runtime))
        };
        Ok(FileSender {
            slots: Arena::new(options.pipe_len, options.pipes),
            kept: strategy(StrategyKind::ServerCache),
            fresh: strategy(StrategyKind::Dynamic),
            progress: runtime.now(),
            endpoint,
            runtime,
            capabilities,
            options,
            gathered: VecDeque::new(),
            posted: VecDeque::new(),
            completions: VecDeque::new(),
            arrived: Vec::new(),
            number: 0,
            timer: None,
            counts: SendCounts::default(),
        })
    }

    /// The options after memory and provider have bounded them.
    pub fn options(&self) -> &SenderOptions {
        &self.options
    }

    /// The engine for a range of `len` bytes.
    pub fn engine(&self, len: usize) -> Engine {
        let chosen = self.options.engine;
        chosen.unwrap_or_else(|| Engine::choose(&self.capabilities, len))
    }

    /// The counters since its start.
    pub fn counts(&self) -> SendCounts {
        let registrations = self.kept.counters() + self.fresh.counters();
        SendCounts {
            registrations,
            ..self.counts
        }
    }

    /// Sends all of `range`, and returns when its last byte has left. Completions that are not the sender's own go to
    /// `others`.
    ///
    /// Dropped before its end, it leaves posted pieces to the endpoint; the next call waits for them first.
    ///
    /// # Errors
    /// Any [`SendError`]. The peer may have got some of the range then.
    pub async fn send(
        &mut self,
        range: &FileRange,
        destination: Destination<'_>,
        others: &mut Vec<Completion>,
    ) -> Result<(), SendError> {
        let engine = self.engine(range.len);
        let mut pieces = Pieces::new(range.len, destination, self.options.pipe_len)?;
        self.gathered.clear();
        self.number += 1;
        self.progress = self.runtime.now();
        // Pieces of a transfer that was given up still hold memory: with those of this one they would exceed the bound.
        while !self.posted.is_empty() {
            self.wait(others).await?;
        }
        let pipes = self.options.pipes_of(engine);
        loop {
            while self.gathered.len() + self.posted.len() < pipes
                && let Some(piece) = pieces.next()
            {
                let bytes = self.gather(engine, range, &piece);
                self.gathered.push_back(Gathered { piece, bytes });
                self.post(engine, range, &mut pieces)?;
            }
            self.post(engine, range, &mut pieces)?;
            if self.gathered.is_empty() && self.posted.is_empty() && pieces.are_done() {
                self.counts.transfers += 1;
                self.counts.bytes += range.len as u64;
                return Ok(());
            }
            self.wait(others).await?;
        }
    }

    /// The work id of all pieces of this transfer.
    fn id(&self) -> WorkId {
        WorkId(SENDER_WORK | self.number)
    }

    /// Begins to bring the bytes of a piece to the place from which `engine` sends them.
    fn gather(&mut self, engine: Engine, range: &FileRange, piece: &Piece) -> Ready {
        if engine == Engine::Sendfile {
            return Ready::File;
        }
        let part = range.part(piece.offset, piece.len as usize);
        self.counts.reads += 1;
        self.counts.copied_bytes += part.len as u64;
        Datapath::inline(&part, &self.runtime, |len| {
            let slot = match engine {
                Engine::Static => self.slots.take(),
                _ => None,
            };
            slot.unwrap_or_else(|| Buffer::zeroed(len))
        })
    }

    /// Posts pieces from the front while their bytes are there. A piece whose bytes are not there yet holds back those
    /// behind it: messages must leave in order.
    fn post(
        &mut self,
        engine: Engine,
        range: &FileRange,
        pieces: &mut Pieces<'_>,
    ) -> Result<(), SendError> {
        while let Some(Gathered { bytes, .. }) = self.gathered.front()
            && !matches!(bytes, Ready::Cold(_))
        {
            let Some(Gathered { piece, bytes }) = self.gathered.pop_front() else {
                break;
            };
            let (source, registered, memory) = self.source(engine, range, &piece, bytes)?;
            let id = self.id();
            let posted = match piece.target {
                Some(target) => self.endpoint.post_write(id, source, target, Signal::Always),
                None => {
                    let signal = Signal::Always;
                    let options = SendOptions {
                        signal,
                        ..SendOptions::default()
                    };
                    self.endpoint.post_send(id, source, options)
                }
            };
            match posted {
                Ok(()) => {}
                // The refusal has dropped its bytes: it and the pieces behind it are gathered again. Without a piece
                // under way no completion would make room, and the error is the caller's.
                Err(PostError::QueueFull) if !self.posted.is_empty() => {
                    self.gathered.clear();
                    pieces.go_back_to(piece);
                    break;
                }
                Err(error) => return Err(error.into()),
            }
            self.counts.work += 1;
            self.posted.push_back(Posted {
                memory,
                source: registered,
            });
            let memory: usize = self.posted.iter().map(|it| it.memory).sum();
            self.counts.memory_peak = self.counts.memory_peak.max(memory);
            self.endpoint.flush();
        }
        Ok(())
    }

    /// The source of a piece's work, its registration where there is one, and the memory that both take.
    fn source(
        &self,
        engine: Engine,
        range: &FileRange,
        piece: &Piece,
        bytes: Ready,
    ) -> Result<(Source, Option<Registered>, usize), SendError> {
        let Piece { offset, len, .. } = *piece;
        let Ready::Memory(buffer) = bytes else {
            return Ok((range.source(offset, len), None, len as usize));
        };
        let memory = buffer.len();
        let strategy = match engine {
            Engine::Static if !self.capabilities.needs_local_registration => {
                return Ok((Source::Buffer { buffer, len }, None, memory));
            }
            Engine::Static => &self.kept,
            _ => &self.fresh,
        };
        let scope = Scope::Endpoint(self.endpoint.id());
        let registered = Rc::clone(strategy).register(buffer, Access::Local, scope)?;
        let source = Source::Span(registered.span(0, len));
        Ok((source, Some(registered), memory))
    }

    /// Waits for a completion or a read from the disk, and releases the memory of completed pieces.
    async fn wait(&mut self, others: &mut Vec<Completion>) -> Result<(), SendError> {
        if self.completions.is_empty() {
            std::future::poll_fn(|context| self.poll_progress(context)).await?;
        }
        self.progress = self.runtime.now();
        let mut failed = None;
        // Taken out one at a time: a call that is dropped at the await below leaves the others to the next one.
        while let Some(completion) = self.completions.pop_front() {
            if completion.id.0 & SENDER_WORK == 0 {
                others.push(completion);
                continue;
            }
            // Work completes in the order of posting.
            let posted = self.posted.pop_front();
            if let Err(error) = completion.outcome
                && completion.id == self.id()
            {
                failed = failed.or(Some(error));
            }
            if let Some(source) = posted.and_then(|it| it.source) {
                // The next piece may use the memory only after the revocation.
                source.release(0).await;
            }
        }
        failed.map_or(Ok(()), |error| Err(error.into()))
    }

    fn poll_progress(&mut self, context: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        let mut arrived = false;
        for gathered in &mut self.gathered {
            if let Ready::Cold(read) = &mut gathered.bytes
                && let Poll::Ready(read) = read.as_mut().poll(context)
            {
                gathered.bytes = Ready::Memory(read?);
                arrived = true;
            }
        }
        if arrived {
            return Poll::Ready(Ok(()));
        }
        let completed = self.endpoint.poll_completions(context, &mut self.arrived);
        self.completions.extend(self.arrived.drain(..));
        if let Poll::Ready(completed) = completed {
            return Poll::Ready(completed.map_err(SendError::from));
        }
        loop {
            let runtime = &self.runtime;
            let allowed = self.options.stalled_after;
            let left = allowed.saturating_sub(runtime.now().duration_since(self.progress));
            if left.is_zero() {
                return Poll::Ready(Err(SendError::Stalled(allowed)));
            }
            // Progress leaves the timer alone; one that fires too early is set again for the time that is left.
            let timer = self.timer.get_or_insert_with(|| sleep(runtime, left));
            if timer.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            self.timer = None;
        }
    }
}
