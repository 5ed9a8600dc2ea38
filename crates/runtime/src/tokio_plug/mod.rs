//! Production: one current-thread tokio runtime per core, sockets driven by readiness.

mod busy_poll;
mod cores;
mod descriptor;
mod memory;
mod random;
mod stream;

use crate::{
    BlockingJob, DescriptorWatch, ErasedFuture, EventSource, Handle, Instant, Listener,
    LocalFuture, PoolCounters, Runtime, Stream,
};
use random::Random;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

pub use busy_poll::set_busy_poll;
pub use cores::{Cores, SharedListener, accept_failed, available_cores};
pub use stream::TcpByteStream;

/// Threads of one core's blocking pool.
const BLOCKING_THREADS_MAX: usize = 16;

/// The tokio plug of the runtime seam; valid inside [`block_on`] only.
pub struct TokioRuntime {
    started: std::time::Instant,
    random: Random,
    pool: Arc<PoolCounters>,
}

impl TokioRuntime {
    fn new() -> io::Result<TokioRuntime> {
        Ok(TokioRuntime {
            started: std::time::Instant::now(),
            random: Random::new()?,
            pool: Arc::default(),
        })
    }
}

/// Runs `main` and all the tasks it spawns on this thread, until `main` ends.
///
/// # Errors
/// The operating system refuses a runtime (no descriptors, no randomness).
pub fn block_on<T, F: Future<Output = T>>(main: impl FnOnce(Handle) -> F) -> io::Result<T> {
    let mut done = None;
    let result = &mut done;
    run(Box::new(move |handle| {
        Box::pin(async move { *result = Some(main(handle).await) })
    }))?;
    Ok(done.expect("the main task ended"))
}

/// A main task on its way into [`run`].
type Main<'a> = Box<dyn FnOnce(Handle) -> ErasedFuture<'a, ()> + 'a>;

/// As [`block_on`]. Not generic: tokio's part is compiled once, not with each program's main task.
fn run(main: Main<'_>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS_MAX)
        .event_interval(31)
        .on_thread_park(busy_poll::before_park)
        .on_thread_unpark(busy_poll::after_park)
        .build()?;
    let handle: Handle = Rc::new(TokioRuntime::new()?);
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async move {
        tokio::task::spawn_local(busy_poll::look());
        main(handle).await;
    });
    Ok(())
}

impl Runtime for TokioRuntime {
    fn now(&self) -> Instant {
        let elapsed = self.started.elapsed();
        Instant::START + elapsed
    }

    fn now_with_suspend(&self) -> Instant {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
        let nanoseconds = u32::try_from(now.tv_nsec).unwrap_or(0);
        Instant::START + Duration::new(seconds, nanoseconds)
    }

    fn wall_clock(&self) -> Duration {
        std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap_or_default()
    }

    fn sleep_until(&self, deadline: Instant) -> LocalFuture<()> {
        let deadline = self.started + Duration::from_nanos(deadline.as_nanos());
        Box::pin(tokio::time::sleep_until(deadline.into()))
    }

    fn spawn(&self, name: &'static str, task: LocalFuture<()>) {
        tracing::trace!(task = name, "task started");
        tokio::task::spawn_local(busy_poll::Task(task));
    }

    fn look_max(&self) -> Duration {
        busy_poll::short_look()
    }

    fn random(&self) -> u64 {
        self.random.next()
    }

    fn submit_blocking(&self, job: BlockingJob) {
        tokio::task::spawn_blocking(self.pool.counted(job));
    }

    fn pool(&self) -> Option<Arc<PoolCounters>> {
        Some(Arc::clone(&self.pool))
    }

    fn connect(&self, address: SocketAddr) -> LocalFuture<io::Result<Stream>> {
        Box::pin(async move {
            let stream = tokio::net::TcpStream::connect(address).await?.into_std()?;
            Ok(Rc::new(TcpByteStream::new(stream)?) as Stream)
        })
    }

    fn listen(&self, address: SocketAddr) -> io::Result<Box<dyn Listener>> {
        let listener = cores::listening_socket(address)?;
        Ok(Box::new(OwnListener {
            address: listener.local_addr()?,
            listener: Rc::new(tokio::net::TcpListener::from_std(listener)?),
        }))
    }

    fn watch(&self, descriptor: BorrowedFd<'_>) -> io::Result<Box<dyn DescriptorWatch>> {
        Ok(Box::new(descriptor::TokioWatch::new(descriptor)?))
    }

    fn look_at(&self, source: Weak<dyn EventSource>) {
        busy_poll::look_at(source);
    }

    fn release_memory(&self) {
        memory::release();
    }
}

struct OwnListener {
    address: SocketAddr,
    listener: Rc<tokio::net::TcpListener>,
}

impl Listener for OwnListener {
    fn local_address(&self) -> SocketAddr {
        self.address
    }

    fn accept(&mut self) -> LocalFuture<io::Result<Stream>> {
        let listener = Rc::clone(&self.listener);
        Box::pin(async move {
            loop {
                match listener.accept().await {
                    Ok((stream, _)) => {
                        if let Ok(stream) = stream.into_std().and_then(TcpByteStream::new) {
                            return Ok(Rc::new(stream) as Stream);
                        }
                    }
                    Err(error) => cores::accept_failed(&error).await?,
                }
            }
        })
    }
}
