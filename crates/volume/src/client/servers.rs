//! Connections to the servers of a volume, made when they are needed and again when they are lost.

mod managers;

use crate::limits::{
    AWAY_PATIENCE, CALL_DEADLINE, CONNECT_AGAIN_AFTER, GROUPS_AGE_MIN, GROUPS_AGE_MIN_OF_COPIES,
    HELLO_DEADLINE, PRIMARY_SILENT_AFTER,
};
use crate::link::{
    EndReason, Identity, Link, LinkError, LookupError, Pool, ServerPlace, Session, Unreachable,
};
use crate::manager::{IoServers, Registry};
use gannet_fabric::Provider;
use gannet_meta::groups::Groups;
use gannet_runtime::{Handle, Instant, LocalFuture, sleep, timeout};
use gannet_wire::volume::{
    Address, Class, Hello, LayoutRecord, Operation, VolumeRecord, VolumeRequest,
};
use gannet_wire::xdr::{from_bytes, to_bytes};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// The addresses of a volume's servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Addresses {
    /// The managers, of which one is active; none in the manager's own process.
    pub managers: Vec<SocketAddr>,
    /// The I/O servers, by their numbers. If empty, the manager is asked, and again when a server cannot be reached.
    pub io_servers: Vec<SocketAddr>,
}

/// Finds the address of a host that is given by name.
pub type Resolver = Rc<dyn Fn(String, u16) -> LocalFuture<io::Result<SocketAddr>>>;

/// Finds the addresses of the managers, again for each connection.
pub type ManagerFinder = Rc<dyn Fn() -> LocalFuture<io::Result<Vec<SocketAddr>>>>;

/// A server of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Peer {
    Manager,
    IoServer(u32),
}

impl Peer {
    /// As in [`Hello::server`].
    fn number(self) -> u16 {
        match self {
            Peer::Manager => Hello::MANAGER,
            Peer::IoServer(number) => Hello::io_server(number),
        }
    }
}

/// The connections of one core to the servers of a volume.
pub(crate) struct Servers {
    runtime: Handle,
    provider: Rc<dyn Provider>,
    pool: Pool,
    identity: Identity,
    session: Session,
    /// The managers' addresses, as they were found last.
    managers: RefCell<Vec<SocketAddr>>,
    /// The address of the manager that was connected last.
    manager: Cell<Option<SocketAddr>>,
    find_manager: RefCell<Option<ManagerFinder>>,
    book: Book,
    resolver: RefCell<Option<Resolver>>,
    /// The groups by the manager's last report, if it is asked for them.
    groups: RefCell<Arc<Groups>>,
    /// The time of that report.
    groups_since: Cell<Option<Instant>>,
    /// They may have changed since.
    doubts_groups: Cell<bool>,
    /// A task asks the manager for them, and wakes those who wait.
    is_looking: Cell<bool>,
    looked: Notify,
    seats: RefCell<BTreeMap<Peer, Rc<Seat>>>,
    /// A server that has been silent for so long counts as dead; `None` if none ever does.
    patience: Cell<Option<Duration>>,
    /// How many connections were made again after a loss.
    reconnects: Cell<u64>,
    /// When [`Servers::manager_silent_for`] has put its question, until it is answered.
    asking_since: Cell<Option<Instant>>,
}

/// The source of the I/O servers' addresses.
enum Book {
    Fixed(Vec<SocketAddr>),
    /// The manager's last report, all its pages together.
    Reported(RefCell<Option<VolumeRecord>>),
    /// The registry of this process, which is the manager's.
    Registry {
        registry: Rc<Registry>,
        /// The address of servers without a host.
        here: IpAddr,
    },
}

/// A server and the connection to it.
#[derive(Default)]
struct Seat {
    known: RefCell<Known>,
    /// It was connected before.
    met: Cell<bool>,
    /// A task connects; others wait for its result. If each connected, the server would end the earlier connections of
    /// the session.
    is_connecting: Cell<bool>,
    /// Wakes those who wait for that task.
    tried: Notify,
    /// The time since when the server has not answered; `None` after it has accepted a connection.
    silent_since: Cell<Option<Instant>>,
}

#[derive(Default)]
enum Known {
    #[default]
    Nothing,
    Connected(Link),
    /// The last attempt to connect failed.
    Away {
        /// The end of the attempt.
        since: Instant,
        /// It took long: the server was silent.
        was_long: bool,
        error: LinkError,
    },
}

impl Servers {
    pub(crate) fn new(
        runtime: Handle,
        provider: Rc<dyn Provider>,
        identity: Identity,
        addresses: Addresses,
    ) -> Rc<Servers> {
        let Addresses {
            managers,
            io_servers,
        } = addresses;
        let book = if io_servers.is_empty() {
            Book::Reported(RefCell::default())
        } else {
            Book::Fixed(io_servers)
        };
        Rc::new(Servers::with_book(
            runtime, provider, identity, managers, book,
        ))
    }

    /// The servers of a volume, for its I/O server `number`, which finds the manager with `find_manager`.
    pub(crate) fn of_io_server(
        runtime: Handle,
        provider: Rc<dyn Provider>,
        identity: Identity,
        number: u32,
        find_manager: ManagerFinder,
    ) -> Rc<Servers> {
        let book = Book::Reported(RefCell::default());
        Rc::new(Servers {
            session: Session::of_io_server(number),
            find_manager: RefCell::new(Some(find_manager)),
            ..Servers::with_book(runtime, provider, identity, Vec::new(), book)
        })
    }

    fn with_book(
        runtime: Handle,
        provider: Rc<dyn Provider>,
        identity: Identity,
        managers: Vec<SocketAddr>,
        book: Book,
    ) -> Servers {
        let groups = match &book {
            // There is no manager that could say otherwise.
            Book::Fixed(addresses) if managers.is_empty() => addresses.len() as u32,
            _ => 0,
        };
        Servers {
            groups: RefCell::new(Arc::new(Groups::of_servers(groups))),
            groups_since: Cell::new(None),
            doubts_groups: Cell::new(false),
            is_looking: Cell::new(false),
            looked: Notify::new(),
            session: Session::new(&runtime),
            runtime,
            provider,
            pool: Pool::new(),
            identity,
            manager: Cell::new(managers.first().copied()),
            managers: RefCell::new(managers),
            find_manager: RefCell::new(None),
            book,
            resolver: RefCell::default(),
            seats: RefCell::default(),
            patience: Cell::new(None),
            reconnects: Cell::new(0),
            asking_since: Cell::new(None),
        }
    }

    /// Hosts that are given by name are found by `resolver`.
    pub(crate) fn resolve_with(&self, resolver: Resolver) {
        self.resolver.replace(Some(resolver));
    }

    /// From now on, a server that has been silent for `patience` counts as dead until it accepts a connection.
    pub(crate) fn be_patient(&self, patience: Duration) {
        self.patience.set(Some(patience));
    }

    /// Whether a server counts as dead.
    pub(super) fn is_dead(&self, peer: Peer) -> bool {
        let seats = self.seats.borrow();
        let since = seats.get(&peer).and_then(|seat| seat.silent_since.get());
        let (now, patience) = (self.runtime.now(), self.patience.get());
        since.is_some_and(|since| patience.is_some_and(|patience| now - since >= patience))
    }

    /// Whether any I/O server counts as dead. Those without a connection are tried meanwhile.
    pub(super) fn is_any_io_server_dead(self: &Rc<Self>) -> bool {
        let count = IoServers::count(&**self);
        self.begin_io_servers(0..count, self.runtime.now());
        (0..count)
            .map(Peer::IoServer)
            .any(|peer| self.is_dead(peer))
    }

    /// Begins to connect to those of these I/O servers that have no connection, all at once: a caller that then waits
    /// for one after the other waits for the slowest alone, and a dead one delays no other. There are at most
    /// [`WIDTH_MAX`](gannet_wire::volume::WIDTH_MAX) of them. The caller wants them since `asked`, which is now or a
    /// little earlier, and waits for them with [`Servers::io_server_since`].
    pub(crate) fn begin_io_servers(
        self: &Rc<Self>,
        numbers: impl IntoIterator<Item = u32>,
        asked: Instant,
    ) {
        for peer in numbers.into_iter().map(Peer::IoServer) {
            let seat = self.seat(peer);
            if self.known(&seat, asked).is_none() {
                self.try_again(peer, &seat);
            }
        }
    }

    fn seat(&self, peer: Peer) -> Rc<Seat> {
        Rc::clone(self.seats.borrow_mut().entry(peer).or_default())
    }

    /// How often a server's connection was lost and made anew.
    pub(crate) fn reconnects(&self) -> u64 {
        self.reconnects.get()
    }

    /// How long no manager has answered; `None` while one does. It is for a reader who asks now and then: each time a
    /// small question is put, which a connection that was cut in silence does not answer.
    pub(crate) fn manager_silent_for(self: &Rc<Self>) -> Option<Duration> {
        let now = self.runtime.now();
        let Some(since) = self.asking_since.get() else {
            self.asking_since.set(Some(now));
            let servers = Rc::clone(self);
            let asking = async move { servers.ask_until_answered().await };
            self.runtime.spawn("ask the manager", Box::pin(asking));
            return None;
        };
        Some(now.duration_since(since))
    }

    /// Asks the manager where the first I/O server is, again until it answers.
    async fn ask_until_answered(self: &Rc<Self>) {
        let first = to_bytes(&VolumeRequest {
            server: 0,
            group: 0,
        });
        loop {
            if let Ok(link) = self.manager().await {
                let answer = link.call(Operation::Volume, Class::Background, &first, &[]);
                if answer.await.is_ok() {
                    break;
                }
            }
            sleep(&self.runtime, CONNECT_AGAIN_AFTER).await;
        }
        self.asking_since.set(None);
    }

    /// A connection to the manager.
    pub(crate) async fn manager(self: &Rc<Self>) -> Result<Link, LinkError> {
        self.reach(Peer::Manager, self.runtime.now()).await
    }

    /// A connection to an I/O server.
    pub(crate) async fn io_server(self: &Rc<Self>, number: u32) -> Result<Link, LinkError> {
        self.io_server_since(number, self.runtime.now()).await
    }

    /// As [`Servers::io_server`], for a caller that has wanted the connection since `asked`. An attempt that has failed
    /// since then is its answer: after other servers were waited for, none is tried a second time.
    pub(crate) async fn io_server_since(
        self: &Rc<Self>,
        number: u32,
        asked: Instant,
    ) -> Result<Link, LinkError> {
        self.reach(Peer::IoServer(number), asked).await
    }

    /// Connects to a server at the address that it has.
    async fn connect_to_peer(self: &Rc<Self>, peer: Peer) -> Result<Link, LinkError> {
        let server = peer.number();
        let number = match peer {
            Peer::Manager => {
                let addresses = self.manager_addresses().await?;
                return self.connect_to_manager(&addresses).await;
            }
            Peer::IoServer(number) => number,
        };
        match &self.book {
            Book::Fixed(addresses) => match addresses.get(number as usize) {
                Some(address) => self.connect(*address, server).await,
                None => Err(Unreachable::NoSuchServer.into()),
            },
            Book::Registry { registry, here } => {
                let address = registry.address(number).ok_or(Unreachable::NoSuchServer)?;
                let found = self.find(&address, *here).await?;
                self.connect(found, server).await
            }
            Book::Reported(_) => self.connect_as_reported(number).await,
        }
    }

    /// Whether there is a connection on which a server has authenticated us, and so ended our earlier ones.
    pub(super) fn is_authenticated(&self, peer: Peer) -> bool {
        let seats = self.seats.borrow();
        let known = seats.get(&peer).map(|seat| seat.known.borrow());
        known.is_some_and(
            |known| matches!(&*known, Known::Connected(link) if link.is_authenticated()),
        )
    }

    /// The connection to a server that there is.
    pub(super) fn connected(&self, peer: Peer) -> Option<Link> {
        let seats = self.seats.borrow();
        let known = seats.get(&peer)?.known.borrow();
        match &*known {
            Known::Connected(link) if !link.is_over() => Some(link.clone()),
            _ => None,
        }
    }

    /// Whether there is a connection to an I/O server.
    pub(crate) fn is_connected(&self, number: u32) -> bool {
        self.connected(Peer::IoServer(number)).is_some()
    }

    /// The groups of the volume, as far as they are known.
    pub(super) fn known_groups(&self) -> Arc<Groups> {
        match &self.book {
            Book::Registry { registry, .. } => registry.groups(),
            _ => Arc::clone(&self.groups.borrow()),
        }
    }

    /// A server says that it is not in one of the groups that it was asked for, or that a right is not good. The groups
    /// are asked for again when they are needed next, unless they were just now.
    pub(super) fn doubt_groups(&self) {
        let now = self.runtime.now();
        let age_min = if self.known_groups().has_several() {
            GROUPS_AGE_MIN_OF_COPIES
        } else {
            GROUPS_AGE_MIN
        };
        let since = self.groups_since.get();
        let is_old = since.is_none_or(|since| now >= since + age_min);
        self.doubts_groups
            .set(is_old && self.manager.get().is_some());
    }

    /// The primary of a group of several members does not answer, or cannot be reached: another one may be.
    pub(super) fn doubt_primaries(&self) {
        if self.known_groups().has_several() {
            self.doubt_groups();
        }
    }

    /// Whether these groups have several members each.
    pub(super) fn is_of_several(&self, groups: &[u32]) -> bool {
        let known = self.known_groups();
        let has_several = |group: &u32| known.get(*group).is_some_and(|it| it.members.len() > 1);
        !groups.is_empty() && groups.iter().all(has_several)
    }

    /// Whether a server is the primary of none of these groups any more, as far as is known.
    pub(super) fn is_replaced(&self, server: u32, groups: &[u32]) -> bool {
        let known = self.known_groups();
        let is_primary = |group: &u32| known.primary(*group) == Some(server);
        !groups.is_empty() && !groups.iter().any(is_primary)
    }

    /// Ends the connection to an I/O server, if there is one.
    pub(crate) fn leave(&self, server: u32) {
        if let Some(link) = self.connected(Peer::IoServer(server)) {
            link.abort(EndReason::TakenOver);
        }
    }

    /// Asks the manager whether these servers are still the primaries of these groups, and ends the connections to
    /// those that are not: nobody shall wait for their answers.
    pub(super) async fn end_replaced(self: &Rc<Self>, targets: &[(u32, u32, Link)]) {
        self.look_again().await;
        let groups = self.known_groups();
        for (group, server, link) in targets {
            if groups.primary(*group) != Some(*server) {
                link.abort(EndReason::TakenOver);
            }
        }
    }

    /// Asks the manager for the groups, unless it has said them just now. All who want to know wait for one answer; it
    /// may not come.
    pub(super) async fn look_again(self: &Rc<Self>) {
        let (now, since) = (self.runtime.now(), self.groups_since.get());
        if since.is_some_and(|since| now < since + GROUPS_AGE_MIN_OF_COPIES) {
            return;
        }
        if !self.is_looking.replace(true) {
            let servers = Rc::clone(self);
            let looking = async move {
                // A manager that is away is asked again.
                let _ = timeout(&servers.runtime, HELLO_DEADLINE, servers.ask_manager()).await;
                servers.is_looking.set(false);
                servers.looked.notify_waiters();
            };
            self.runtime.spawn("ask for groups", Box::pin(looking));
        }
        loop {
            let looked = self.looked.notified();
            if !self.is_looking.get() {
                return;
            }
            looked.await;
        }
    }

    /// The groups of the volume, all those of `layout` among them. The manager is asked where one is not known yet: it
    /// may have come with servers that were added.
    pub(super) async fn groups_of(
        self: &Rc<Self>,
        layout: &LayoutRecord,
    ) -> Result<Arc<Groups>, LinkError> {
        let groups = self.known_groups();
        let mut wanted = layout.groups.iter();
        let are_known = wanted.all(|group| groups.get(*group).is_some());
        // Of those who doubt at a time, one asks.
        if are_known && !self.doubts_groups.replace(false) {
            return Ok(groups);
        }
        if are_known && groups.has_several() {
            // What goes on without the manager does not wait for it long.
            let _ = timeout(&self.runtime, PRIMARY_SILENT_AFTER, self.look_again()).await;
            return Ok(self.known_groups());
        }
        let asked = timeout(&self.runtime, HELLO_DEADLINE, self.ask_manager()).await;
        match asked.unwrap_or(Err(LinkError::TimedOut)) {
            // A manager that is away must not end what goes on without it.
            Err(_) if are_known => Ok(groups),
            Err(error) => Err(error),
            Ok(_) => Ok(self.known_groups()),
        }
    }

    /// How many I/O servers the volume has.
    pub(crate) async fn io_servers_count(self: &Rc<Self>) -> Result<u32, LinkError> {
        match &self.book {
            Book::Fixed(addresses) => Ok(u32::try_from(addresses.len()).unwrap_or(u32::MAX)),
            Book::Registry { registry, .. } => Ok(registry.count()),
            Book::Reported(reported) => {
                let known = reported.borrow().as_ref().map(|record| record.count);
                match known {
                    Some(count) => Ok(count),
                    None => Ok(self.ask_manager().await?.count),
                }
            }
        }
    }

    /// Connects at the address that the manager reported last, or else at the one that it reports now.
    async fn connect_as_reported(self: &Rc<Self>, number: u32) -> Result<Link, LinkError> {
        let Book::Reported(reported) = &self.book else {
            return Err(Unreachable::NoSuchServer.into());
        };
        let server = Hello::io_server(number);
        let before = address_in(reported.borrow().as_ref(), number);
        let mut failed = None;
        if let Some(address) = &before {
            match self.connect_to(number, address).await {
                Ok(link) => return Ok(link),
                Err(error) => failed = Some(error),
            }
        }
        // A manager that is silent, too, must not make the attempt as long as a call.
        let asked = timeout(&self.runtime, HELLO_DEADLINE, self.ask_manager()).await;
        let asked = asked.unwrap_or(Err(LinkError::TimedOut));
        let record = match (asked, failed.clone()) {
            (Ok(record), _) => record,
            (Err(_), Some(failed)) => return Err(failed),
            (Err(error), None) => {
                return Err(Unreachable::NotReported(Box::new(error)).into());
            }
        };
        let address = address_in(Some(&record), number).ok_or(Unreachable::NoSuchServer)?;
        match failed {
            Some(error) if before.as_ref() == Some(&address) => Err(error),
            _ => {
                tracing::debug!(server, host = address.host, port = address.port, "told");
                self.connect_to(number, &address).await
            }
        }
    }

    async fn connect_to(&self, number: u32, address: &Address) -> Result<Link, LinkError> {
        let here = self.manager.get().map(|manager| manager.ip());
        let here = here.ok_or(Unreachable::NoSuchServer)?;
        let found = self.find(address, here).await?;
        self.connect(found, Hello::io_server(number)).await
    }

    /// Asks the manager for its record of the volume, and remembers it.
    pub(crate) async fn ask_manager(self: &Rc<Self>) -> Result<VolumeRecord, LinkError> {
        let link = self.manager().await?;
        let mut whole: Option<VolumeRecord> = None;
        loop {
            let lens = whole.as_ref().map(|it| (it.servers.len(), it.groups.len()));
            let (servers, groups) = lens.unwrap_or_default();
            // Bounded by what a record may have.
            let from = VolumeRequest {
                server: servers as u32,
                group: groups as u32,
            };
            let body = to_bytes(&from);
            let answer = link.call(Operation::Volume, Class::Metadata, &body, &[]);
            let answer = answer.await?;
            let page = from_bytes::<VolumeRecord>(answer.body());
            let page = page.map_err(Unreachable::BadRecord)?;
            let counts = whole.as_ref().map(|it| (it.count, it.group_count));
            let is_same = counts.is_none_or(|counts| counts == (page.count, page.group_count));
            let lacks_servers = servers < page.count as usize;
            let brings = if lacks_servers {
                page.servers.len()
            } else {
                page.groups.len()
            };
            // Each page has some of what lacks, so there are no more pages than items.
            if brings == 0 || !is_same {
                return Err(Unreachable::EmptyRecord.into());
            }
            let record = match whole.take() {
                None => page,
                Some(mut record) => {
                    record.servers.extend(page.servers);
                    record.groups.extend(page.groups);
                    record
                }
            };
            let has_servers = record.servers.len() >= record.count as usize;
            if has_servers && record.groups.len() >= record.group_count as usize {
                let mut groups = Groups::new(record.groups.clone());
                groups.keep_later(&self.groups.borrow());
                self.groups.replace(Arc::new(groups));
                self.groups_since.set(Some(self.runtime.now()));
                if let Book::Reported(reported) = &self.book {
                    reported.replace(Some(record.clone()));
                }
                return Ok(record);
            }
            whole = Some(record);
        }
    }

    /// Resolves the address of an I/O server; without a host it is `here`.
    async fn find(&self, address: &Address, here: IpAddr) -> Result<SocketAddr, Unreachable> {
        if !address.is_known() {
            return Err(Unreachable::NotRegistered);
        }
        let (host, port) = (address.host.as_str(), address.port);
        if host.is_empty() {
            return Ok(SocketAddr::new(here, port));
        }
        if let Ok(ip) = host.parse() {
            return Ok(SocketAddr::new(ip, port));
        }
        let resolver = self.resolver.borrow().clone();
        let found = match resolver {
            Some(resolver) => {
                let found = resolver(host.to_owned(), port);
                match timeout(&self.runtime, HELLO_DEADLINE, found).await {
                    Ok(found) => found.map_err(|error| LookupError::Failed(error.into())),
                    Err(_) => Err(LookupError::TimedOut),
                }
            }
            None => Err(LookupError::NoResolver),
        };
        found.map_err(|error| {
            let host = host.to_owned();
            Unreachable::Lookup { host, error }
        })
    }

    /// The connection to a server, which is made if there is none and no attempt has failed just now or since `asked`.
    /// An attempt goes on when nobody waits for it any more. A dead server is waited for during [`AWAY_PATIENCE`] only.
    async fn reach(self: &Rc<Self>, peer: Peer, asked: Instant) -> Result<Link, LinkError> {
        let seat = self.seat(peer);
        loop {
            if let Some(known) = self.known(&seat, asked) {
                return known;
            }
            self.try_again(peer, &seat);
            let tried = async {
                loop {
                    // Registered before the look, so that no wake-up is missed.
                    let tried = seat.tried.notified();
                    if !seat.is_connecting.get() {
                        return;
                    }
                    tried.await;
                }
            };
            if !self.is_dead(peer) {
                tried.await;
            } else if timeout(&self.runtime, AWAY_PATIENCE, tried).await.is_err() {
                let known = seat.known.borrow();
                return Err(match &*known {
                    Known::Away { error, .. } => error.clone(),
                    _ => LinkError::TimedOut,
                });
            }
        }
    }

    /// Begins an attempt to connect, unless one is under way.
    fn try_again(self: &Rc<Self>, peer: Peer, seat: &Rc<Seat>) {
        if seat.is_connecting.replace(true) {
            return;
        }
        let (servers, seat) = (Rc::clone(self), Rc::clone(seat));
        let connecting = async move {
            let began = servers.runtime.now();
            let made = servers.connect_to_peer(peer).await;
            servers.note_attempt(&seat, began, made);
            seat.is_connecting.set(false);
            seat.tried.notify_waiters();
        };
        self.runtime.spawn("connect", Box::pin(connecting));
    }

    /// Notes the result of an attempt to connect that began at `began`.
    fn note_attempt(&self, seat: &Seat, began: Instant, made: Result<Link, LinkError>) {
        let last = match made {
            Ok(link) => {
                if seat.met.replace(true) {
                    self.reconnects.set(self.reconnects.get() + 1);
                }
                seat.silent_since.set(None);
                Known::Connected(link)
            }
            Err(error) => {
                let since = self.runtime.now();
                Known::Away {
                    since,
                    was_long: began + CONNECT_AGAIN_AFTER <= since,
                    error,
                }
            }
        };
        let is_away = matches!(last, Known::Away { .. });
        let before = seat.known.replace(last);
        if is_away && seat.silent_since.get().is_none() {
            // A call that ran out of time had waited in silence.
            let was_silent = matches!(&before, Known::Connected(link) if link.timed_out());
            let waited = if was_silent {
                CALL_DEADLINE
            } else {
                Duration::ZERO
            };
            seat.silent_since.set(Some(began.before(waited)));
        }
    }

    /// The connection to a server or the reason why there is none, for a caller that has wanted it since `asked`;
    /// `None` when it is time to connect.
    fn known(&self, seat: &Seat, asked: Instant) -> Option<Result<Link, LinkError>> {
        match &*seat.known.borrow() {
            Known::Connected(link) if !link.is_over() => Some(Ok(link.clone())),
            Known::Away {
                since,
                was_long,
                error,
            } => {
                // A server that refuses may be back soon. To try a silent one again costs a deadline.
                let answers = self.is_recent(*since) || (*was_long && *since >= asked);
                answers.then(|| Err(error.clone()))
            }
            _ => None,
        }
    }

    async fn connect(&self, address: SocketAddr, server: u16) -> Result<Link, LinkError> {
        self.connector()
            .connect(ServerPlace { address, server })
            .await
    }

    fn is_recent(&self, since: Instant) -> bool {
        self.runtime.now() < since + CONNECT_AGAIN_AFTER
    }
}

fn address_in(record: Option<&VolumeRecord>, number: u32) -> Option<Address> {
    let servers = &record?.servers;
    servers.get(number as usize).cloned()
}

impl IoServers for Servers {
    fn count(&self) -> u32 {
        let count = match &self.book {
            Book::Fixed(addresses) => addresses.len(),
            Book::Registry { registry, .. } => return registry.count(),
            Book::Reported(reported) => reported.borrow().as_ref().map_or(0, |it| it.servers.len()),
        };
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    fn groups(&self) -> Arc<Groups> {
        self.known_groups()
    }

    fn use_groups(&self, groups: Arc<Groups>) {
        match &self.book {
            Book::Registry { registry, .. } => registry.use_groups(groups),
            _ => {
                self.groups.replace(groups);
            }
        }
    }

    fn link(self: Rc<Self>, number: u32) -> LocalFuture<Result<Link, LinkError>> {
        Box::pin(async move { self.io_server(number).await })
    }

    fn begin_term(&self, number: u64) {
        self.pool.terms.begin(number);
    }

    fn leave(&self, number: u32) {
        Servers::leave(self, number);
    }
}

/// The I/O servers of `registry`, for the manager. Servers without a host are at the address `here`.
pub fn registered_io_servers(
    runtime: Handle,
    provider: Rc<dyn Provider>,
    identity: Identity,
    registry: Rc<Registry>,
    here: IpAddr,
    resolver: Resolver,
) -> Rc<dyn IoServers> {
    let book = Book::Registry { registry, here };
    let servers = Rc::new(Servers::with_book(
        runtime,
        provider,
        identity,
        Vec::new(),
        book,
    ));
    servers.resolve_with(resolver);
    servers
}
