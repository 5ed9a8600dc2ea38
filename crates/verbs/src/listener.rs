//! Listeners: of one core, and of several cores at one address.

use crate::VerbsError;
use crate::connect::Request;
use crate::core::Core;
use crate::limits::BACKLOG;
use crate::provider::VerbsProvider;
use crate::sys::{CmId, Event, EventChannel, VerbsLibrary};
use gannet_fabric::{Incoming, Listener};
use gannet_runtime::{Handle, LocalFuture, Notify};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::{Mutex, mpsc};

/// Requests that no one has taken yet.
#[derive(Default)]
pub(crate) struct Backlog {
    requests: RefCell<VecDeque<Request>>,
    notify: Notify,
}

impl Backlog {
    /// Adds a request. The drop of one too many refuses it.
    pub(crate) fn add(&self, event: Event) {
        let mut requests = self.requests.borrow_mut();
        if requests.len() >= BACKLOG {
            tracing::warn!("a peer is refused: too many wait to be accepted");
            return;
        }
        requests.extend(Request::of(event));
        drop(requests);
        self.notify.notify();
    }
}

/// Waits for peers of one core.
pub struct VerbsListener {
    core: Rc<Core>,
    id: CmId,
    address: SocketAddr,
    backlog: Rc<Backlog>,
}

impl VerbsListener {
    pub(crate) fn new(core: &Rc<Core>, address: SocketAddr) -> io::Result<VerbsListener> {
        let id = CmId::new(&core.events)?;
        let address = listen(&id, address)?;
        let backlog = Rc::<Backlog>::default();
        core.add_listener(id.name(), &backlog);
        Ok(VerbsListener {
            core: Rc::clone(core),
            id,
            address,
            backlog,
        })
    }
}

/// Binds and listens; gives the address with the port that was picked.
fn listen(id: &CmId, address: SocketAddr) -> io::Result<SocketAddr> {
    id.bind(address)?;
    id.listen(BACKLOG as i32)?;
    id.local_address()
        .ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
}

impl Listener for VerbsListener {
    fn local_address(&self) -> SocketAddr {
        self.address
    }

    fn accept(&mut self) -> LocalFuture<io::Result<Box<dyn Incoming>>> {
        let (core, backlog) = (Rc::clone(&self.core), Rc::clone(&self.backlog));
        Box::pin(async move {
            loop {
                let request = backlog.requests.borrow_mut().pop_front();
                match request {
                    None => backlog.notify.notified().await,
                    Some(request) => {
                        if let Some(incoming) = request.into_incoming(&core) {
                            return Ok(Box::new(incoming) as Box<dyn Incoming>);
                        }
                    }
                }
            }
        })
    }
}

impl Drop for VerbsListener {
    fn drop(&mut self) {
        self.core.remove_listener(self.id.name());
    }
}

/// One listening address whose connections go to all cores in turn.
///
/// Take [`SharedVerbsListener::for_core`] on every core, and run [`SharedVerbsListener::distribute`] on one of them.
pub struct SharedVerbsListener {
    // Destroyed before the channel of its events.
    _id: CmId,
    address: SocketAddr,
    events: Arc<EventChannel>,
    senders: Vec<mpsc::Sender<Request>>,
    receivers: Vec<Arc<Mutex<mpsc::Receiver<Request>>>>,
}

impl SharedVerbsListener {
    /// Listens at `address` for `cores` cores; port 0 picks a free one.
    ///
    /// # Errors
    /// [`VerbsError::Address`] as bind(2) and listen(2); errors of the connection manager.
    pub fn bind(
        library: &Arc<VerbsLibrary>,
        address: SocketAddr,
        cores: usize,
    ) -> Result<SharedVerbsListener, VerbsError> {
        let events = EventChannel::new(library)?;
        let id = CmId::new(&events).map_err(VerbsError::of_manager)?;
        let failed = |source| VerbsError::Address {
            address: address.ip(),
            source,
        };
        let address = listen(&id, address).map_err(failed)?;
        let channels = (0..cores.max(1)).map(|_| mpsc::channel(BACKLOG));
        let (senders, receivers) = channels
            .map(|(sender, receiver)| (sender, Arc::new(Mutex::new(receiver))))
            .unzip();
        Ok(SharedVerbsListener {
            _id: id,
            address,
            events,
            senders,
            receivers,
        })
    }

    /// The address it listens at, with the port that was picked.
    pub fn local_address(&self) -> SocketAddr {
        self.address
    }

    /// The listener of core `index`, whose connections belong to `provider` on that core.
    pub fn for_core(&self, index: usize, provider: &VerbsProvider) -> Box<dyn Listener> {
        let receiver = Arc::clone(&self.receivers[index % self.receivers.len()]);
        Box::new(CoreListener {
            core: provider.core(),
            address: self.address,
            receiver,
        })
    }

    /// Gives requests to the cores, for ever.
    ///
    /// # Errors
    /// The channel of events cannot be watched.
    pub async fn distribute(&self, runtime: &Handle) -> io::Result<()> {
        let watch = runtime.watch(self.events.as_fd())?;
        let mut next = 0;
        loop {
            std::future::poll_fn(|context| watch.poll_readable(context)).await?;
            while let Some(event) = self.events.take_event() {
                let Some(request) = Request::of(event) else {
                    continue;
                };
                next = (next + 1) % self.senders.len();
                if self.senders[next].try_send(request).is_err() {
                    // The drop of the request refuses it. A wait here would keep peers from all other cores.
                    tracing::warn!(core = next, "a peer is refused: the core is behind");
                }
            }
            watch.clear_readable();
        }
    }
}

struct CoreListener {
    core: Rc<Core>,
    address: SocketAddr,
    receiver: Arc<Mutex<mpsc::Receiver<Request>>>,
}

impl Listener for CoreListener {
    fn local_address(&self) -> SocketAddr {
        self.address
    }

    fn accept(&mut self) -> LocalFuture<io::Result<Box<dyn Incoming>>> {
        let (core, receiver) = (Rc::clone(&self.core), Arc::clone(&self.receiver));
        Box::pin(async move {
            let mut receiver = receiver.lock().await;
            while let Some(request) = receiver.recv().await {
                if let Err(error) = request.id.migrate(&core.events) {
                    tracing::warn!(%error, "a peer is refused: it cannot move to its core");
                    continue;
                }
                if let Some(incoming) = request.into_incoming(&core) {
                    return Ok(Box::new(incoming) as Box<dyn Incoming>);
                }
            }
            Err(io::ErrorKind::BrokenPipe.into())
        })
    }
}
