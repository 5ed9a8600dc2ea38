//! Messages, registered memory and files over RDMA, for servers and clients with a protocol of their own.
//!
//! An [`Adapter`] is a thread that has the software RNIC, an RDMA device, or both ([`AdapterOptions::provider`]). An
//! [`RdmaConnection`] brings messages, each whole and in order. It lets the peer write to memory that was registered
//! for it ([`RdmaConnection::register`]). It sends ranges of open files to the peer's memory, by the software RNIC
//! without a copy in this process ([`RdmaConnection::send_file`]). A peer hears of a key by a message of the program's
//! own, and a message that is sent after a file arrives after its bytes.
//!
//! The connecting side sends first, as iWARP requires (RFC 5044 section 7.1): the accepting side sends nothing until
//! the first message has arrived.
//!
//! A device differs from the software RNIC in these points:
//! - Files are no sources for it. Their bytes are read into registered memory, and [`Engine::Sendfile`] is refused.
//! - A key serves every peer of the adapter that learns it, until the memory is taken back.
//! - A message without a receive waits for one, except with iWARP, where it ends the connection.
//! - A refused access ends the connection, perhaps seconds later.
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

use crate::provider::{CoreProviders, FabricOptions, ProviderKind, Ways, rdma_devices};
use crate::worker::{Core, Gone, Worker};
use gannet_fabric::{
    ConnectError, ConnectOptions, Connected, Disconnected, Listener, PostError, Provider,
    RegisterError,
};
use gannet_runtime::{Buffer, Handle, LocalFuture, timeout};
use gannet_verbs::VerbsError;
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
    /// An RDMA device was asked for, and cannot be used.
    #[error(transparent)]
    Device(#[from] VerbsError),
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
    /// The provider of the connections. With [`ProviderKind::Auto`] a listener has the software RNIC, and a device too
    /// if there is one; a connection tries the device on the way to the peer first.
    pub provider: ProviderKind,
    /// Asks for checksums (MPA CRC) on every connection of the software RNIC. They are used too when a peer asks.
    pub crc: bool,
    /// An RDMA device does not pin registered memory, but fetches its pages when it needs them. A device without
    /// on-demand paging is refused.
    pub on_demand_paging: bool,
    /// Messages that the peer may have sent before the program has taken the first of them. One more ends a connection
    /// of the software RNIC: a protocol of requests and replies stays below by itself.
    pub receives: usize,
    /// Bytes of the longest message.
    pub message_max: usize,
    /// How files are sent.
    pub files: SenderOptions,
}

impl Default for AdapterOptions {
    fn default() -> AdapterOptions {
        AdapterOptions {
            provider: ProviderKind::default(),
            crc: false,
            on_demand_paging: false,
            receives: 16,
            message_max: 4096,
            files: SenderOptions::default(),
        }
    }
}

impl AdapterOptions {
    fn fabric(&self) -> FabricOptions {
        FabricOptions {
            provider: self.provider,
            crc: self.crc,
            on_demand_paging: self.on_demand_paging,
        }
    }
}

/// The software RNIC, an RDMA device, or both. Clones share it, and its thread ends with the last of them and the last
/// of its connections.
#[derive(Clone)]
pub struct Adapter {
    core: Worker<Device>,
    options: AdapterOptions,
}

/// A connection of an adapter, whichever provider it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct LinkId(u64);

/// An adapter on its own thread.
struct Device {
    runtime: Handle,
    providers: CoreProviders,
    options: AdapterOptions,
    links: RefCell<HashMap<LinkId, Rc<Link>>>,
    /// Names the next connection.
    next: Cell<u64>,
    /// Connections that have not ended, whether they are in `links` or their handles were dropped.
    alive: Cell<usize>,
    ended: Notify,
}

impl Adapter {
    /// Starts an adapter.
    ///
    /// # Errors
    /// [`RdmaError::Start`]; [`RdmaError::Device`] with [`ProviderKind::Verbs`] on a machine without a device.
    pub async fn start(options: AdapterOptions) -> Result<Adapter, RdmaError> {
        if options.provider == ProviderKind::Verbs {
            let devices = rdma_devices()?;
            let has_paging = devices.iter().any(|device| device.pages_on_demand);
            if let (true, false, [first, ..]) = (options.on_demand_paging, has_paging, &*devices) {
                let name = first.name.clone();
                return Err(VerbsError::NoPaging { name }.into());
            }
        }
        let set_up = async move |runtime: Handle| {
            let device = Device {
                providers: CoreProviders::new(options.fabric(), &runtime),
                runtime,
                options,
                links: RefCell::default(),
                next: Cell::default(),
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
    /// [`RdmaError::Connect`], [`RdmaError::Device`], [`RdmaError::Engine`].
    pub async fn connect(&self, address: SocketAddr) -> Result<RdmaConnection, RdmaError> {
        let connect = async move |device: Rc<Device>| device.connect(address).await;
        Ok(self.connection(self.core.run(connect).await??))
    }

    /// Listens at `address`; port 0 picks a free one. A device listens at its own addresses, and the first device at
    /// all addresses.
    ///
    /// # Errors
    /// [`RdmaError::Listen`], [`RdmaError::Device`].
    pub async fn listen(&self, address: SocketAddr) -> Result<RdmaListener, RdmaError> {
        let (sender, accepted) = mpsc::channel(ACCEPTED_MAX);
        let adapter = self.clone();
        let listen = async move |device: Rc<Device>| {
            let listeners = device.listen(address)?;
            let local = listeners.first().map(|it| it.listener.local_address());
            for listening in listeners {
                let (device, adapter, sender) =
                    (Rc::clone(&device), adapter.clone(), sender.clone());
                let runtime = Handle::clone(&device.runtime);
                let accepting = accept(device, listening, adapter, sender);
                runtime.spawn("accept", Box::pin(accepting));
            }
            Ok::<_, RdmaError>(local.unwrap_or(address))
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
    id: LinkId,
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

    async fn connect(self: &Rc<Self>, address: SocketAddr) -> Result<Made, RdmaError> {
        let Ways { preferred, other } = self.providers.towards(address)?;
        let connected = preferred.connect(address, self.connect_options()).await;
        match (connected, other) {
            (Ok(endpoint), _) => self.keep(&*preferred, endpoint),
            (Err(error), Some(other)) => {
                tracing::info!(%error, peer = %address, "the device does not connect: the software RNIC is used");
                let endpoint = other.connect(address, self.connect_options()).await?;
                self.keep(&*other, endpoint)
            }
            (Err(error), None) => Err(error.into()),
        }
    }

    /// The listeners at an address, all with one port.
    fn listen(&self, address: SocketAddr) -> Result<Vec<Listening>, RdmaError> {
        let Ways { preferred, other } = self.providers.listening(address.ip())?;
        let by = |provider: Rc<dyn Provider>, address| {
            let listener = provider.listen(address)?;
            Ok::<_, io::Error>(Listening { provider, listener })
        };
        let first = by(preferred, address).map_err(RdmaError::Listen)?;
        let address = first.listener.local_address();
        let beside = other.map(|device| by(device, address));
        let mut listeners = vec![first];
        match beside {
            Some(Ok(device)) => {
                tracing::info!(%address, "an RDMA device listens beside the software RNIC");
                listeners.push(device);
            }
            Some(Err(error)) => tracing::info!(%address, %error, "the software RNIC alone listens"),
            None => {}
        }
        Ok(listeners)
    }

    /// Keeps a connection until its handle is dropped.
    fn keep(
        self: &Rc<Self>,
        provider: &dyn Provider,
        endpoint: Connected,
    ) -> Result<Made, RdmaError> {
        let id = LinkId(self.next.get());
        self.next.set(id.0 + 1);
        let made = Made {
            id,
            peer: endpoint.peer_address(),
        };
        let (runtime, files) = (&self.runtime, self.options.files);
        let (link, driving) = Link::make(runtime, provider, endpoint, files)?;
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
    fn find(&self, id: LinkId) -> Result<Rc<Link>, RdmaError> {
        let link = self.links.borrow().get(&id).cloned();
        link.ok_or(RdmaError::Ended)
    }

    fn drop_link(&self, id: LinkId) {
        let link = self.links.borrow_mut().remove(&id);
        if let Some(link) = link {
            link.close();
        }
    }
}

/// A listener by one provider.
struct Listening {
    provider: Rc<dyn Provider>,
    listener: Box<dyn Listener>,
}

/// Accepts peers, and has them wait for the program, until that drops the listener.
async fn accept(
    device: Rc<Device>,
    listening: Listening,
    adapter: Adapter,
    accepted: mpsc::Sender<Result<RdmaConnection, RdmaError>>,
) {
    let Listening {
        provider,
        mut listener,
    } = listening;
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
                let made = device.keep(&*provider, endpoint);
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
