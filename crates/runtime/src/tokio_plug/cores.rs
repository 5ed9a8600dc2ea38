//! Thread per core: connections are spread over the cores as they arrive, and stay there.

use super::{TcpByteStream, block_on};
use crate::{Handle, Listener, LocalFuture, Stream};
use std::future::Future;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::rc::Rc;
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::{Mutex, mpsc};

/// Connections that may wait, per core, between the acceptor and the core that will own them.
const HANDOVER_QUEUE_MAX: usize = 1024;
/// The kernel's queue of connections not yet accepted.
const BACKLOG: i32 = 1024;
/// How long accepting pauses when the process is out of descriptors or memory.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(50);
/// Time between two warnings about it.
const WARN_AGAIN: Duration = Duration::from_secs(10);

/// The number of cores that this process may use.
pub fn available_cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Threads that run one runtime each.
pub struct Cores {
    threads: Vec<JoinHandle<io::Result<()>>>,
}

impl Cores {
    /// Starts `count` threads; thread `i` runs `main(i, handle)` to its end.
    ///
    /// # Errors
    /// The operating system refuses a thread.
    pub fn start<M, F>(count: usize, main: M) -> io::Result<Cores>
    where
        M: Fn(usize, Handle) -> F + Send + Sync + 'static,
        F: Future<Output = ()>,
    {
        let main = Arc::new(main);
        let mut threads = Vec::with_capacity(count);
        for index in 0..count {
            let main = Arc::clone(&main);
            threads.push(
                std::thread::Builder::new()
                    .name(format!("core-{index}"))
                    .spawn(move || block_on(|handle| main(index, handle)))?,
            );
        }
        Ok(Cores { threads })
    }

    /// Waits until every core's `main` has ended.
    ///
    /// # Errors
    /// A core could not start its runtime, or its `main` panicked.
    pub fn join(self) -> io::Result<()> {
        for thread in self.threads {
            thread
                .join()
                .map_err(|_| io::Error::other("a core's main task panicked"))??;
        }
        Ok(())
    }
}

/// One listening socket whose connections go to all cores in turn.
///
/// Take [`SharedListener::for_core`] on every core, and run [`SharedListener::distribute`] on one of them.
pub struct SharedListener {
    listener: std::net::TcpListener,
    address: SocketAddr,
    senders: Vec<mpsc::Sender<TcpStream>>,
    receivers: Vec<Arc<Mutex<mpsc::Receiver<TcpStream>>>>,
}

impl SharedListener {
    /// Listens at `address` for `cores` cores; port 0 picks a free one.
    ///
    /// # Errors
    /// As bind(2) and listen(2).
    pub fn bind(address: SocketAddr, cores: usize) -> io::Result<SharedListener> {
        let listener = listening_socket(address)?;
        let address = listener.local_addr()?;
        let (senders, receivers) = (0..cores.max(1))
            .map(|_| mpsc::channel(HANDOVER_QUEUE_MAX))
            .map(|(sender, receiver)| (sender, Arc::new(Mutex::new(receiver))))
            .unzip();
        Ok(SharedListener {
            listener,
            address,
            senders,
            receivers,
        })
    }

    /// The address it listens at, with the port that was picked.
    pub fn local_address(&self) -> SocketAddr {
        self.address
    }

    /// The listener of core `index`, which accepts the connections of that core.
    pub fn for_core(&self, index: usize) -> Box<dyn Listener> {
        let receiver = Arc::clone(&self.receivers[index % self.receivers.len()]);
        Box::new(CoreListener {
            address: self.address,
            receiver,
        })
    }

    /// Accepts for all cores, for ever.
    ///
    /// # Errors
    /// EBADF, EINVAL or ENOTSOCK of accept(2): the listening socket is broken. Errors of single connections are
    /// skipped.
    pub async fn distribute(&self) -> io::Result<()> {
        let listener = tokio::net::TcpListener::from_std(self.listener.try_clone()?)?;
        let mut next = 0;
        loop {
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream.into_std()?,
                Err(error) => {
                    accept_failed(&error).await?;
                    continue;
                }
            };
            next = (next + 1) % self.senders.len();
            if let Err(error) = self.senders[next].try_send(stream) {
                // The core is behind: the drop of the stream closes it. Waiting for that core here would keep new
                // connections from all others.
                if is_time_to_warn(&BEHIND_WARNED, Instant::now()) {
                    tracing::warn!(core = next, %error, "connections refused: the core is behind");
                }
            }
        }
    }
}

struct CoreListener {
    address: SocketAddr,
    receiver: Arc<Mutex<mpsc::Receiver<TcpStream>>>,
}

impl Listener for CoreListener {
    fn local_address(&self) -> SocketAddr {
        self.address
    }

    fn accept(&mut self) -> LocalFuture<io::Result<Stream>> {
        let receiver = Arc::clone(&self.receiver);
        Box::pin(async move {
            let mut receiver = receiver.lock().await;
            while let Some(stream) = receiver.recv().await {
                if let Ok(stream) = TcpByteStream::new(stream) {
                    return Ok(Rc::new(stream) as Stream);
                }
            }
            Err(io::Error::other("the listener is closed"))
        })
    }
}

/// A non-blocking listening socket.
pub(super) fn listening_socket(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    let socket = socket2::Socket::new(
        socket2::Domain::for_address(address),
        socket2::Type::STREAM,
        Some(socket2::Protocol::TCP),
    )?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// The time of the last warning of each kind.
static BEHIND_WARNED: std::sync::Mutex<Option<Instant>> = std::sync::Mutex::new(None);
static EXHAUSTED_WARNED: std::sync::Mutex<Option<Instant>> = std::sync::Mutex::new(None);

/// Whether the last warning was long enough ago: accepting fails anew with each attempt.
fn is_time_to_warn(last: &std::sync::Mutex<Option<Instant>>, now: Instant) -> bool {
    let mut warned = last.lock().unwrap_or_else(PoisonError::into_inner);
    let since = warned.map(|last| now.saturating_duration_since(last));
    if since.is_some_and(|since| since < WARN_AGAIN) {
        return false;
    }
    *warned = Some(now);
    true
}

/// Handles a failed accept(2): a pause, and now and then a warning, when resources ran out; nothing for an error of
/// one peer.
///
/// # Errors
/// The listening socket is broken.
pub async fn accept_failed(error: &io::Error) -> io::Result<()> {
    use rustix::io::Errno;
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
            if is_time_to_warn(&EXHAUSTED_WARNED, Instant::now()) {
                tracing::warn!(%error, "accepting pauses: raise the limit of open files (ulimit -n)");
            }
            // The connection stays in the kernel's queue: without a pause accept(2) would fail again at once.
            tokio::time::sleep(EXHAUSTED_PAUSE).await;
            Ok(())
        }
        Some(Errno::BADF | Errno::INVAL | Errno::NOTSOCK) => Err(error.kind().into()),
        _ => Ok(()),
    }
}
