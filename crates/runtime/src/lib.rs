//! The runtime seam: all that protocol code may use of its host besides a file system and a fabric.
//!
//! A protocol holds a [`Handle`] and asks it for the time, for a timer, for a task of its own, for a random
//! number, for a byte stream, or to run a job that may block. Production plugs [`tokio_plug`] in: one
//! current-thread tokio runtime per core. The simulator plugs a single-threaded executor in virtual nanoseconds.
//! The same compiled protocol code runs on both.
//!
//! This crate refuses: knowledge of any protocol, and futures that move between threads. A task stays on
//! the core that spawned it, so protocol state is `Rc` and `RefCell`, never a lock. A borrow must end before an await:
//! other tasks of the core run there, and a second borrow would panic.
//!
//! First type to read: [`Runtime`].

mod buffer;
mod descriptor;
mod fair_queue;
pub mod file;
mod idle;
mod lean;
mod log_limit;
mod pool;
mod slabs;
pub mod stages;
pub mod stream;
pub mod time;
mod together;
pub mod tokio_plug;
mod windows;

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

pub use buffer::{Arena, Buffer, Lent, ProgramSlot, SlotBudget, SlotId};
pub use descriptor::{DescriptorWatch, EventSource};
pub use fair_queue::FairQueue;
pub use file::{FileRef, FileSource, FileStatus, FileTime};
pub use idle::{IdleWatch, Idles, MEMORY_IDLE_MAX};
pub use lean::push_lean;
pub use log_limit::LogLimit;
pub use pool::{PoolCounters, PoolReading};
pub use slabs::Slabs;
pub use stream::{ByteStream, Dscp, Listener, Stream};
pub use time::Instant;
pub use together::{all, both, first};
pub use windows::{FileWindow, FileWindows, WINDOW_RANGE_MAX};

/// A future that stays on its core, boxed so that a seam can be a trait object.
pub type LocalFuture<T> = ErasedFuture<'static, T>;

/// A future of a type that its callers do not know, so that they do not compile it again: the body of an `async fn` is
/// compiled in each crate that waits for it.
pub type ErasedFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// A shared reference to the runtime of this core.
pub type Handle = Rc<dyn Runtime>;

/// A job for the blocking pool: owns what it needs, may block, must end.
pub type BlockingJob = Box<dyn FnOnce() + Send + 'static>;

/// The services of a core's runtime for protocol code.
pub trait Runtime {
    /// Time since an arbitrary start of this runtime, in nanoseconds; never goes back.
    fn now(&self) -> Instant;

    /// As [`Runtime::now`], by a clock of its own that also counts the time while the machine is suspended: for rights
    /// that end at another machine meanwhile.
    fn now_with_suspend(&self) -> Instant {
        self.now()
    }

    /// Time since the Unix epoch. For file times and verifiers only, never for deadlines.
    fn wall_clock(&self) -> Duration;

    /// Completes at `deadline` or, where the platform's timers are coarse, up to a millisecond later.
    fn sleep_until(&self, deadline: Instant) -> LocalFuture<()>;

    /// Starts a task on this core. It runs until it ends or the runtime is dropped; `name` is for logs.
    fn spawn(&self, name: &'static str, task: LocalFuture<()>);

    /// Sixty-four unpredictable bits (in simulation: the next bits of the seed).
    fn random(&self) -> u64;

    /// Runs `job` on the bounded blocking pool. Prefer [`run_blocking`].
    fn submit_blocking(&self, job: BlockingJob);

    /// The counters of the blocking pool; `None`, the default, for a runtime whose jobs have no threads.
    fn pool(&self) -> Option<Arc<PoolCounters>> {
        None
    }

    /// Opens a byte stream to `address`. The caller bounds the wait with [`timeout`].
    fn connect(&self, address: SocketAddr) -> LocalFuture<io::Result<Stream>>;

    /// Listens at `address` on this core alone; port 0 picks a free one. Listeners shared by all cores come
    /// from the plug (see [`tokio_plug::SharedListener`]).
    fn listen(&self, address: SocketAddr) -> io::Result<Box<dyn Listener>>;

    /// How long a task may poll for an answer that is about to come before it waits for it. The core runs no other task
    /// meanwhile. Zero, the default, means not at all.
    fn look_max(&self) -> Duration {
        Duration::ZERO
    }

    /// Watches a descriptor of a device, which must not block. The watch keeps a duplicate of it.
    ///
    /// # Errors
    /// The system cannot watch it, or the runtime has no descriptors, as the simulator ([`io::ErrorKind::Unsupported`],
    /// the default).
    fn watch(&self, _descriptor: BorrowedFd<'_>) -> io::Result<Box<dyn DescriptorWatch>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Looks at `source` whenever this core polls before it sleeps, as long as it exists. A core that does not poll
    /// never looks, so its owner waits for a descriptor too. Does nothing by default.
    fn look_at(&self, _source: Weak<dyn EventSource>) {}

    /// Gives freed memory that the allocator keeps back to the system, as far as possible. It is meant for the end of
    /// many connections, and takes about a millisecond for a thousand of them.
    fn release_memory(&self) {}
}

/// Why [`timeout`] gave up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Elapsed;

impl std::fmt::Display for Elapsed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("deadline passed")
    }
}

impl std::error::Error for Elapsed {}

/// Sleeps for `duration`.
pub fn sleep(runtime: &Handle, duration: Duration) -> LocalFuture<()> {
    runtime.sleep_until(runtime.now() + duration)
}

/// Polls `future` until it ends or `duration` has passed.
///
/// # Errors
/// [`Elapsed`] when the time is over; the future is dropped then.
pub async fn timeout<T>(
    runtime: &Handle,
    duration: Duration,
    future: impl Future<Output = T>,
) -> Result<T, Elapsed> {
    let mut timer = sleep(runtime, duration);
    let mut future = std::pin::pin!(future);
    std::future::poll_fn(move |context| {
        if let Poll::Ready(value) = future.as_mut().poll(context) {
            return Poll::Ready(Ok(value));
        }
        timer.as_mut().poll(context).map(|()| Err(Elapsed))
    })
    .await
}

/// The blocking pool dropped a job before it ran, because the runtime is shutting down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolClosed;

/// Runs `job` on the blocking pool and waits for its value without holding up this core.
///
/// # Errors
/// [`PoolClosed`] when the runtime shut down, or the job panicked, before it gave a value.
pub async fn run_blocking<T: Send + 'static>(
    runtime: &Handle,
    job: impl FnOnce() -> T + Send + 'static,
) -> Result<T, PoolClosed> {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    runtime.submit_blocking(Box::new(move || {
        // The send fails only if the waiter was dropped; the value is dropped then.
        let _ = sender.send(job());
    }));
    receiver.await.map_err(|_| PoolClosed)
}

/// Lets other tasks of this core run once.
pub fn yield_now() -> impl Future<Output = ()> {
    let mut yielded = false;
    std::future::poll_fn(move |context| {
        if yielded {
            return Poll::Ready(());
        }
        yielded = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
}

/// A wake-up from one part of a core to one waiting task of another.
///
/// A notification without a waiter is kept (once), as with a binary semaphore. There is one place for a waker: a second
/// task that waits replaces the first, which then sleeps for ever.
#[derive(Default)]
pub struct Notify {
    pending: Cell<bool>,
    waker: Cell<Option<Waker>>,
}

impl Notify {
    /// Wakes the waiter, or lets the next wait end at once.
    pub fn notify(&self) {
        // The flag first: the task that this wakes must find it.
        self.pending.set(true);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Ready once per notification; otherwise registers `context`, in place of any earlier waiter. A ready result
    /// registers nothing: poll again, or check the condition, before the task waits.
    pub fn poll_notified(&self, context: &mut Context<'_>) -> Poll<()> {
        if self.pending.replace(false) {
            return Poll::Ready(());
        }
        let kept = self.waker.take();
        self.waker.set(Some(match kept {
            Some(waker) if waker.will_wake(context.waker()) => waker,
            _ => context.waker().clone(),
        }));
        Poll::Pending
    }

    /// Waits for the next notification.
    pub async fn notified(&self) {
        std::future::poll_fn(|context| self.poll_notified(context)).await;
    }
}
