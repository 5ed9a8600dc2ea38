//! Answering peers: what the manager and the I/O servers have in common.

use crate::limits::{CONNECTIONS_MAX, REPLACE_DEADLINE, STRANGERS_MAX};
use crate::link::{self, Handler, Link, LinkError, Pool, TrafficClasses};
use crate::secret::ServerKeys;
use gannet_fabric::{Listener, Provider};
use gannet_runtime::{Handle, timeout};
use gannet_wire::volume::{Hello, Token};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;
use tokio::sync::oneshot;

/// Peers that have not yet proven who they are, by their numbers, the oldest first: each goes with what is kept here.
#[derive(Default)]
struct Strangers {
    last: u64,
    places: BTreeMap<u64, oneshot::Sender<()>>,
}

impl Strangers {
    /// One more, in the place of the oldest if there is no other.
    fn enter(&mut self) -> (u64, oneshot::Receiver<()>) {
        if self.places.len() >= STRANGERS_MAX {
            self.places.pop_first();
        }
        self.last += 1;
        let (place, gone) = oneshot::channel();
        self.places.insert(self.last, place);
        (self.last, gone)
    }

    fn leave(&mut self, number: u64) {
        self.places.remove(&number);
    }
}

/// A server of one volume on one core.
pub struct Server {
    runtime: Handle,
    volume: Token,
    keys: ServerKeys,
    handler: Rc<dyn Handler>,
    /// As [`Hello::server`] names it; whoever connects may also mean any other if it is not said.
    named: Cell<Option<u16>>,
    classes: Cell<TrafficClasses>,
    pool: Pool,
    links: RefCell<Vec<Link>>,
    strangers: RefCell<Strangers>,
}

impl Server {
    /// Has `handler` answer the peers of `volume`.
    pub fn new(
        runtime: Handle,
        volume: Token,
        keys: ServerKeys,
        handler: Rc<dyn Handler>,
    ) -> Rc<Server> {
        Rc::new(Server {
            runtime,
            volume,
            keys,
            handler,
            named: Cell::new(None),
            classes: Cell::default(),
            pool: Pool::new(),
            links: RefCell::default(),
            strangers: RefCell::default(),
        })
    }

    /// Refuses those who mean another server than [`Hello::server`] `name`: ports change hands when servers restart.
    #[must_use]
    pub fn named(self: Rc<Self>, name: u16) -> Rc<Server> {
        self.named.set(Some(name));
        self
    }

    /// Marks what it sends as `classes` say.
    #[must_use]
    pub fn marking(self: Rc<Self>, classes: TrafficClasses) -> Rc<Server> {
        self.classes.set(classes);
        self
    }

    fn is_meant(&self, private_data: &[u8]) -> bool {
        let hello = Hello::from_bytes(private_data);
        let name = self.named.get();
        hello.is_none_or(|hello| name.is_none_or(|name| name == hello.server))
    }

    /// Takes note of a connection; those whose place it takes.
    fn replaced_by(&self, link: &Link) -> Vec<Link> {
        let mut links = self.links.borrow_mut();
        let before = links.iter().filter(|other| link.replaces(other));
        let before = before.cloned().collect();
        links.push(link.clone());
        before
    }

    /// Lets a peer in if nothing is under way that its earlier connections have asked for: a write that was sent again
    /// must not happen a second time when others have gone on from the first. Otherwise waits for that, and has the
    /// peer connect again: it may have died meanwhile, and others may have gone on from what it has asked for since.
    async fn admit(&self, link: &Link) -> Result<(), LinkError> {
        let mut has_waited = false;
        let replaced = self.replaced_by(link);
        for other in &replaced {
            other.abort("the peer has connected again");
        }
        for other in &replaced {
            has_waited |= other.is_busy();
            let idle = timeout(&self.runtime, REPLACE_DEADLINE, other.idle()).await;
            if idle.is_err() {
                let why = "what was asked on an earlier connection has not come to an end";
                return Err(LinkError::Ended(why.into()));
            }
        }
        let why = match link.is_over() {
            true => "the peer has connected once more",
            false if has_waited => "what was asked on an earlier connection has ended just now",
            false => return Ok(()),
        };
        Err(LinkError::Ended(why.into()))
    }

    /// Takes connections of `provider` from `listener` and answers them, until the listener fails.
    ///
    /// # Errors
    /// The listener is broken.
    pub async fn serve(
        self: Rc<Self>,
        provider: Rc<dyn Provider>,
        mut listener: Box<dyn Listener>,
    ) -> io::Result<()> {
        let read_depth = provider.capabilities().read_depth_max;
        self.pool.serve(&*provider, &self.runtime);
        loop {
            let incoming = listener.accept().await?;
            (self.links.borrow_mut()).retain(|link| !link.is_over() || link.is_busy());
            if self.links.borrow().len() >= CONNECTIONS_MAX {
                tracing::warn!(peer = %incoming.peer_address(), "too many connections");
                incoming.reject(Vec::new()).await;
                continue;
            }
            if !self.is_meant(incoming.private_data()) {
                tracing::info!(peer = %incoming.peer_address(), "the peer means another server");
                incoming.reject(Vec::new()).await;
                continue;
            }
            let server = Rc::clone(&self);
            let (number, place) = self.strangers.borrow_mut().enter();
            let task = async move {
                let (peer, incoming) = (incoming.peer_address(), (incoming, place));
                let volume = (server.volume, server.keys, server.classes.get());
                let handler = Rc::clone(&server.handler);
                let (runtime, pool) = (&server.runtime, &server.pool);
                let admit = async |link: &Link| {
                    server.strangers.borrow_mut().leave(number);
                    server.admit(link).await
                };
                let accepting =
                    link::accept(runtime, pool, volume, incoming, read_depth, handler, admit);
                if let Err(error) = accepting.await {
                    tracing::info!(%peer, %error, "connection refused");
                }
                server.strangers.borrow_mut().leave(number);
            };
            self.runtime
                .spawn("volume connection set-up", Box::pin(task));
        }
    }
}
