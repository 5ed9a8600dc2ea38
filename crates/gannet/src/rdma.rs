//! Messages, registered memory and files over RDMA, for servers and clients with a protocol of their own.
//!
//! An [`Adapter`] is a software RNIC with a thread of its own. An [`RdmaConnection`] brings messages, each whole and in
//! order; lets the peer write to memory that was registered for it ([`RdmaConnection::register`]); and sends ranges of
//! open files to the peer's memory without copying them in this process ([`RdmaConnection::send_file`]). A peer hears
//! of a key by a message of the program's own, and a message that is sent after a file arrives after its bytes.
//!
//! The connecting side sends first, as iWARP requires (RFC 5044 section 7.1): the accepting side sends nothing until
//! the first message has arrived.
//!
//! ```
//! # use gannet::Buffer;
//! # use gannet::rdma::{Access, Adapter, AdapterOptions, FileTarget, ServedFile};
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("page");
//! # std::fs::write(&path, "over RDMA")?;
//! let adapter = Adapter::start(AdapterOptions::default()).await?;
//! let listener = adapter.listen("127.0.0.1:0".parse()?).await?;
//! let client = adapter.connect(listener.local_address()).await?;
//! let server = listener.accept().await?;
//!
//! let memory = Buffer::from_vec(vec![0; 9]);
//! let memory = client.register(memory, Access::RemoteWrite).await?;
//! client.send(b"page".as_slice()).await?;
//! assert_eq!(server.receive().await?, b"page");
//! let file = ServedFile::from(std::fs::File::open(path)?);
//! server.send_file(&file, 0, 9, FileTarget::Memory(vec![memory.segment()])).await?;
//! server.send(b"done".as_slice()).await?;
//! assert_eq!(client.receive().await?, b"done");
//! assert_eq!(&*memory.take_back().await?, b"over RDMA");
//! # Ok(())
//! # }
//! # tokio::runtime::Runtime::new()?.block_on(example())
//! # .map_err(|error| std::io::Error::other(error.to_string()))?;
//! # Ok::<(), std::io::Error>(())
//! ```

mod connection;
mod link;
mod memory;

pub use connection::{FileTarget, RdmaConnection, ServedFile};
pub use gannet_datapath::{Engine, EngineError, SendCounts, SendError, SenderOptions};
pub use gannet_fabric::Access;
pub use memory::{RegisteredMemory, RemoteSegment};

use crate::provider::FabricOptions;
use crate::worker::{Core, Gone, Worker};
use gannet_fabric::{
    ConnectError, ConnectOptions, Connected, Disconnected, EndpointId, Listener, PostError,
    Provider, RegisterError,
};
use gannet_runtime::{Buffer, Handle, LocalFuture, timeout};
use link::Link;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use thiserror::Error;
use tokio::sync::{Mutex, Notify, mpsc, watch};

/// The reason why an operation over RDMA failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RdmaError {
    /// The adapter's thread cannot be started.
    #[error("cannot start: {0}")]
    Start(io::Error),
    /// The address cannot be listened at.
    #[error("cannot listen: {0}")]
    Listen(io::Error),
    /// There is no connection.
    #[error("cannot connect: {0}")]
    Connect(#[from] ConnectError),
    /// The options ask for an engine that the adapter does not have, or leave no memory.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The connection has ended.
    #[error("the connection has ended: {0}")]
    Disconnected(#[from] Disconnected),
    /// The message or the work was not accepted.
    #[error("not accepted: {0}")]
    Post(#[from] PostError),
    /// Messages are no longer than [`AdapterOptions::message_max`].
    #[error("a message of {len} bytes is longer than the maximum of {max}")]
    Message {
        /// Its bytes.
        len: usize,
        /// The bytes of the longest message.
        max: usize,
    },
    /// The memory cannot be registered.
    #[error("cannot register memory: {0}")]
    Register(#[from] RegisterError),
    /// The memory is lost: the adapter could not take its registration back.
    #[error("the adapter has kept the memory")]
    Lost,
    /// A file was not sent, or not to its end.
    #[error(transparent)]
    File(#[from] SendError),
    /// The adapter's thread has ended.
    #[error("the adapter's thread has ended")]
    Ended,
    /// The program has shut the listener down.
    #[error("the listener was shut down")]
    ShutDown,
}

impl From<Gone> for RdmaError {
    fn from(_: Gone) -> RdmaError {
        RdmaError::Ended
    }
}

/// How an adapter's connections work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AdapterOptions {
    /// Asks for checksums (MPA CRC) on every connection. They are used too when a peer asks.
    pub crc: bool,
    /// Messages that the peer may have sent before the program has taken the first of them. One more ends the
    /// connection: a protocol of requests and replies stays below by itself.
    pub receives: usize,
    /// Bytes of the longest message.
    pub message_max: usize,
    /// How files are sent.
    pub files: SenderOptions,
}

impl Default for AdapterOptions {
    fn default() -> AdapterOptions {
        AdapterOptions {
            crc: false,
            receives: 16,
            message_max: 4096,
            files: SenderOptions::default(),
        }
    }
}

impl AdapterOptions {
    fn fabric(&self) -> FabricOptions {
        FabricOptions {
            crc: self.crc,
            ..FabricOptions::default()
        }
    }
}

/// A software RNIC. Clones share it, and its thread ends with the last of them and the last of its connections.
#[derive(Clone)]
pub struct Adapter {
    core: Worker<Device>,
    options: AdapterOptions,
}

/// An adapter on its own thread.
struct Device {
    runtime: Handle,
    provider: Rc<dyn Provider>,
    options: AdapterOptions,
    links: RefCell<HashMap<EndpointId, Rc<Link>>>,
    /// Connections that have not ended, whether they are in `links` or their handles were dropped.
    alive: Cell<usize>,
    ended: Notify,
}

impl Adapter {
    /// Starts an adapter.
    ///
    /// # Errors
    /// [`RdmaError::Start`].
    pub async fn start(options: AdapterOptions) -> Result<Adapter, RdmaError> {
        let set_up = async move |runtime: Handle| {
            let provider = options.fabric().software(&runtime);
            let device = Device {
                runtime,
                provider,
                options,
                links: RefCell::default(),
                alive: Cell::new(0),
                ended: Notify::new(),
            };
            Ok((device, ()))
        };
        let (core, ()) = Worker::start("gannet-rdma", set_up, RdmaError::Start).await?;
        Ok(Adapter { core, options })
    }

    /// Connects to the listener at `address`.
    ///
    /// # Errors
    /// [`RdmaError::Connect`], [`RdmaError::Engine`].
    pub async fn connect(&self, address: SocketAddr) -> Result<RdmaConnection, RdmaError> {
        let connect = async move |device: Rc<Device>| {
            let options = device.connect_options();
            let endpoint = device.provider.connect(address, options).await?;
            device.keep(endpoint)
        };
        Ok(self.connection(self.core.run(connect).await??))
    }

    /// Listens at `address`; port 0 picks a free one.
    ///
    /// # Errors
    /// [`RdmaError::Listen`].
    pub async fn listen(&self, address: SocketAddr) -> Result<RdmaListener, RdmaError> {
        let (sender, accepted) = mpsc::channel(ACCEPTED_MAX);
        let adapter = self.clone();
        let listen = async move |device: Rc<Device>| {
            let listener = device.provider.listen(address).map_err(RdmaError::Listen)?;
            let local = listener.local_address();
            let accepting = accept(Rc::clone(&device), listener, adapter, sender);
            device.runtime.spawn("accept", Box::pin(accepting));
            Ok::<_, RdmaError>(local)
        };
        Ok(RdmaListener {
            address: self.core.run(listen).await??,
            accepted: Mutex::new(accepted),
            is_shut_down: watch::Sender::new(false),
        })
    }

    fn connection(&self, made: Made) -> RdmaConnection {
        RdmaConnection::new(self.core.clone(), self.options, made)
    }
}

/// A connection that was made on the core, as its handle finds it again.
struct Made {
    id: EndpointId,
    peer: SocketAddr,
}

/// How long connections whose handles were dropped may take to send accepted messages, when the thread ends.
const FAREWELL_MAX: Duration = Duration::from_secs(5);

impl Core for Device {
    fn finish(self: Rc<Self>) -> LocalFuture<()> {
        Box::pin(async move {
            let drained = async {
                // The jobs that were sent last have not run yet.
                tokio::task::yield_now().await;
                while self.alive.get() > 0 {
                    self.ended.notified().await;
                }
            };
            if timeout(&self.runtime, FAREWELL_MAX, drained).await.is_err() {
                tracing::debug!("some connections did not drain in time: aborting them");
            }
        })
    }
}

impl Device {
    fn connect_options(&self) -> ConnectOptions {
        let memory = (0..self.options.receives).map(|_| Buffer::zeroed(self.options.message_max));
        ConnectOptions {
            receives: memory.collect::<Vec<_>>().into(),
            ..ConnectOptions::default()
        }
    }

    /// Keeps a connection until its handle is dropped.
    fn keep(self: &Rc<Self>, endpoint: Connected) -> Result<Made, RdmaError> {
        let made = Made {
            id: endpoint.id(),
            peer: endpoint.peer_address(),
        };
        let (runtime, files) = (&self.runtime, self.options.files);
        let (link, driving) = Link::make(runtime, &*self.provider, endpoint, files)?;
        self.links.borrow_mut().insert(made.id, link);
        self.alive.set(self.alive.get() + 1);
        let device = Rc::clone(self);
        let task = async move {
            driving.await;
            device.alive.set(device.alive.get() - 1);
            device.ended.notify_one();
        };
        self.runtime.spawn("rdma connection", Box::pin(task));
        Ok(made)
    }

    /// The connection, until its handle is dropped.
    fn find(&self, id: EndpointId) -> Result<Rc<Link>, RdmaError> {
        let link = self.links.borrow().get(&id).cloned();
        link.ok_or(RdmaError::Ended)
    }

    fn drop_link(&self, id: EndpointId) {
        let link = self.links.borrow_mut().remove(&id);
        if let Some(link) = link {
            link.close();
        }
    }
}

/// Accepts peers, and has them wait for the program, until that drops the listener.
async fn accept(
    device: Rc<Device>,
    mut listener: Box<dyn Listener>,
    adapter: Adapter,
    accepted: mpsc::Sender<Result<RdmaConnection, RdmaError>>,
) {
    loop {
        let Ok(place) = accepted.reserve().await else {
            return;
        };
        let incoming = tokio::select! {
            incoming = listener.accept() => incoming,
            () = accepted.closed() => return,
        };
        let incoming = match incoming {
            Ok(incoming) => incoming,
            Err(error) => return place.send(Err(RdmaError::Listen(error))),
        };
        // A peer that goes away again is no reason to end.
        match incoming.accept(device.connect_options()).await {
            Ok(endpoint) => {
                let made = device.keep(endpoint);
                place.send(made.map(|made| adapter.connection(made)));
            }
            Err(error) => tracing::debug!(%error, "a peer did not connect"),
        }
    }
}

/// Connections that wait for the program to accept them; further peers wait to be connected.
const ACCEPTED_MAX: usize = 16;

/// Waits for peers at an address until it is dropped.
pub struct RdmaListener {
    address: SocketAddr,
    accepted: Mutex<mpsc::Receiver<Result<RdmaConnection, RdmaError>>>,
    is_shut_down: watch::Sender<bool>,
}

impl RdmaListener {
    /// Where it listens.
    pub fn local_address(&self) -> SocketAddr {
        self.address
    }

    /// The next peer. Peers are connected before they are asked for, a few at a time. A call that is dropped takes no
    /// peer with it.
    ///
    /// # Errors
    /// [`RdmaError::Listen`], [`RdmaError::Engine`], [`RdmaError::ShutDown`], [`RdmaError::Ended`].
    pub async fn accept(&self) -> Result<RdmaConnection, RdmaError> {
        let mut shut_down = self.is_shut_down.subscribe();
        let next = async {
            let mut accepted = self.accepted.lock().await;
            accepted.recv().await.unwrap_or(Err(RdmaError::Ended))
        };
        tokio::select! {
            biased;
            _ = shut_down.wait_for(|is_shut_down| *is_shut_down) => Err(RdmaError::ShutDown),
            accepted = next => accepted,
        }
    }

    /// Ends the listener, and all calls of [`RdmaListener::accept`] that wait in other threads. Peers that are
    /// connected and were not accepted are disconnected.
    pub async fn shut_down(&self) {
        self.is_shut_down.send_replace(true);
        let mut accepted = self.accepted.lock().await;
        accepted.close();
        while accepted.try_recv().is_ok() {}
    }
}
