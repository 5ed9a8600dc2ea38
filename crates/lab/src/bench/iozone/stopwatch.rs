//! The parts of a real core's time, measured from outside of the code that serves: its runtime and its byte streams
//! are those of production with clocks around them.
//!
//! A core works while it polls a task, which is a turn; part of that is spent in calls of its sockets. Bytes wait from
//! the end of the call that sent them until the turn begins in which they are read: for a thread to wake, for a
//! processor, or for the core's work on other connections. The work of their own connection meanwhile does not
//! count as a wait. Both ends must be in this process for that.

use gannet_runtime::stream::Follow;
use gannet_runtime::{
    BlockingJob, ByteStream, Dscp, FileSource, Handle, Instant, Listener, LocalFuture, Runtime,
    Stream,
};
use std::cell::Cell;
use std::collections::HashMap;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

/// The start of this process's clock.
static EPOCH: LazyLock<std::time::Instant> = LazyLock::new(std::time::Instant::now);

/// Nanoseconds, never 0.
fn now_ns() -> u64 {
    u64::try_from(EPOCH.elapsed().as_nanos()).map_or(u64::MAX, |nanos| nanos + 1)
}

/// A sum of times that cores add to.
#[derive(Default)]
pub(super) struct Sum(AtomicU64);

impl Sum {
    fn add_ns(&self, nanos: u64) {
        self.0.fetch_add(nanos, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }

    /// Adds what `work` takes, from its first poll to its end.
    pub(super) async fn whole<T>(&self, work: impl Future<Output = T>) -> T {
        let began = now_ns();
        let done = work.await;
        self.add_ns(now_ns() - began);
        done
    }

    /// Adds what a core works on `work`, waits left out.
    pub(super) async fn polled<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        std::future::poll_fn(|context| {
            let began = now_ns();
            let polled = work.as_mut().poll(context);
            self.add_ns(now_ns() - began);
            polled
        })
        .await
    }
}

/// The time that the cores of one side have spent.
#[derive(Default)]
pub(super) struct Totals {
    /// Polling tasks.
    pub(super) busy: Sum,
    /// The part of that time in calls of sockets.
    pub(super) wire: Sum,
    /// The time between the arrival of bytes and the start of work on their connection.
    pub(super) queueing: Sum,
}

/// When the oldest unread bytes of a direction were sent: nanoseconds, doubled, and 1 while the call that sends them is
/// under way; 0 when all are read.
type Delivery = Arc<AtomicU64>;

/// The directions of the byte streams of this process, by sender and receiver.
#[derive(Clone, Default)]
pub(super) struct Deliveries(Arc<Mutex<HashMap<(SocketAddr, SocketAddr), Delivery>>>);

impl Deliveries {
    fn between(&self, sender: SocketAddr, receiver: SocketAddr) -> Delivery {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(known.entry((sender, receiver)).or_default())
    }
}

/// One core with its clocks.
struct Core {
    totals: Arc<Totals>,
    deliveries: Deliveries,
    /// Turns so far, with that which is under way.
    turn: Cell<u64>,
    /// When the turn that is under way began, and the one before it ended.
    began: Cell<u64>,
    idle_since: Cell<u64>,
    ended: Cell<u64>,
}

impl Core {
    /// Polls `task` as work of this core.
    fn work<T>(&self, poll: impl FnOnce() -> Poll<T>) -> Poll<T> {
        let began = now_ns();
        self.turn.set(self.turn.get() + 1);
        self.idle_since.set(self.ended.get());
        self.began.set(began);
        let polled = poll();
        let ended = now_ns();
        self.ended.set(ended);
        self.totals.busy.add_ns(ended - began);
        polled
    }

    fn wrap(self: &Rc<Self>, stream: Stream) -> Stream {
        let (own, peer) = (stream.local_address(), stream.peer_address());
        Rc::new(TimedStream {
            core: Rc::clone(self),
            sent: self.deliveries.between(own, peer),
            received: self.deliveries.between(peer, own),
            last_used: Cell::default(),
            stream,
        })
    }
}

/// A core's runtime with clocks around tasks and streams.
pub(super) struct TimedRuntime {
    runtime: Handle,
    core: Rc<Core>,
}

impl TimedRuntime {
    /// Adds what this core spends to `totals`. Both ends of a connection share `deliveries`.
    pub(super) fn new(
        runtime: &Handle,
        totals: &Arc<Totals>,
        deliveries: &Deliveries,
    ) -> Rc<TimedRuntime> {
        Rc::new(TimedRuntime {
            runtime: Rc::clone(runtime),
            core: Rc::new(Core {
                totals: Arc::clone(totals),
                deliveries: deliveries.clone(),
                turn: Cell::default(),
                began: Cell::default(),
                idle_since: Cell::default(),
                ended: Cell::default(),
            }),
        })
    }

    /// `work`, as work of this core, for what is no task of its own.
    pub(super) async fn working<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        std::future::poll_fn(|context| self.core.work(|| work.as_mut().poll(context))).await
    }

    /// `listener`, whose streams have clocks.
    pub(super) fn listening(&self, listener: Box<dyn Listener>) -> Box<dyn Listener> {
        Box::new(TimedListener {
            core: Rc::clone(&self.core),
            listener,
        })
    }
}

struct TimedTask {
    core: Rc<Core>,
    task: LocalFuture<()>,
}

impl Future for TimedTask {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        let task = &mut this.task;
        this.core.work(|| task.as_mut().poll(context))
    }
}

impl Runtime for TimedRuntime {
    fn now(&self) -> Instant {
        self.runtime.now()
    }

    fn wall_clock(&self) -> Duration {
        self.runtime.wall_clock()
    }

    fn sleep_until(&self, deadline: Instant) -> LocalFuture<()> {
        self.runtime.sleep_until(deadline)
    }

    fn spawn(&self, name: &'static str, task: LocalFuture<()>) {
        let core = Rc::clone(&self.core);
        self.runtime.spawn(name, Box::pin(TimedTask { core, task }));
    }

    fn random(&self) -> u64 {
        self.runtime.random()
    }

    fn submit_blocking(&self, job: BlockingJob) {
        self.runtime.submit_blocking(job);
    }

    fn connect(&self, address: SocketAddr) -> LocalFuture<io::Result<Stream>> {
        let (runtime, core) = (Rc::clone(&self.runtime), Rc::clone(&self.core));
        Box::pin(async move { Ok(core.wrap(runtime.connect(address).await?)) })
    }

    fn listen(&self, address: SocketAddr) -> io::Result<Box<dyn Listener>> {
        Ok(self.listening(self.runtime.listen(address)?))
    }

    fn release_memory(&self) {
        self.runtime.release_memory();
    }
}

struct TimedListener {
    core: Rc<Core>,
    listener: Box<dyn Listener>,
}

impl Listener for TimedListener {
    fn local_address(&self) -> SocketAddr {
        self.listener.local_address()
    }

    fn accept(&mut self) -> LocalFuture<io::Result<Stream>> {
        let (core, accepting) = (Rc::clone(&self.core), self.listener.accept());
        Box::pin(async move { Ok(core.wrap(accepting.await?)) })
    }
}

/// A byte stream whose calls are timed.
struct TimedStream {
    core: Rc<Core>,
    stream: Stream,
    /// The delivery of bytes to the peer.
    sent: Delivery,
    /// The delivery of bytes from the peer.
    received: Delivery,
    /// The turn of the last use, and its time.
    last_used: Cell<(u64, u64)>,
}

impl TimedStream {
    /// The time for which bytes sent at `sent` have waited for the current turn.
    fn waited_since(&self, sent: u64) -> u64 {
        let core = &self.core;
        let ((turn, at), now) = (self.last_used.get(), core.turn.get());
        let idle_since = match now - turn {
            0 => return 0,
            1 => core.idle_since.get(),
            _ => at,
        };
        core.began.get().saturating_sub(sent.max(idle_since))
    }

    /// A call that began then has ended.
    fn used(&self, began: u64) -> u64 {
        let ended = now_ns();
        self.core.totals.wire.add_ns(ended - began);
        self.last_used.set((self.core.turn.get(), ended));
        ended
    }

    fn reading(&self, read: impl FnOnce() -> io::Result<usize>) -> io::Result<usize> {
        let began = now_ns();
        let count = read();
        if count.as_ref().is_ok_and(|count| *count > 0) {
            let sent = self.received.swap(0, Ordering::AcqRel);
            // While they are being sent nothing waits.
            if sent != 0 && sent & 1 == 0 {
                let waited = self.waited_since(sent >> 1);
                self.core.totals.queueing.add_ns(waited);
            }
        }
        self.used(began);
        count
    }

    fn writing(&self, write: impl FnOnce() -> io::Result<usize>) -> io::Result<usize> {
        let began = now_ns();
        let mark = began << 1 | 1;
        let (set, read) = (Ordering::AcqRel, Ordering::Acquire);
        // Older bytes may be unread.
        let is_oldest = self.sent.compare_exchange(0, mark, set, read).is_ok();
        let count = write();
        let ended = self.used(began);
        if is_oldest {
            let is_sent = count.as_ref().is_ok_and(|count| *count > 0);
            let sent = if is_sent { ended << 1 } else { 0 };
            // If the bytes were read meanwhile, they have not waited.
            let _ = self.sent.compare_exchange(mark, sent, set, read);
        }
        count
    }
}

impl ByteStream for TimedStream {
    fn peer_address(&self) -> SocketAddr {
        self.stream.peer_address()
    }

    fn local_address(&self) -> SocketAddr {
        self.stream.local_address()
    }

    fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.poll_readable(context)
    }

    fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.reading(|| self.stream.try_read(buffer))
    }

    fn try_read_vectored(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.reading(|| self.stream.try_read_vectored(buffers))
    }

    fn poll_writable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.poll_writable(context)
    }

    fn try_write(&self, buffers: &[IoSlice<'_>], follow: Follow) -> io::Result<usize> {
        self.writing(|| self.stream.try_write(buffers, follow))
    }

    fn try_send_file(&self, file: &dyn FileSource, offset: u64, len: usize) -> io::Result<usize> {
        self.writing(|| self.stream.try_send_file(file, offset, len))
    }

    fn shutdown_write(&self) {
        self.stream.shutdown_write();
    }

    fn abort(&self) {
        self.stream.abort();
    }

    fn set_traffic_class(&self, class: Dscp) -> io::Result<()> {
        self.stream.set_traffic_class(class)
    }
}
