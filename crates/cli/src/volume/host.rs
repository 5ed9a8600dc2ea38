//! Servers of a volume in this process, on threads of their own: all of them, or some.

use super::Volume;
use super::claim::{Claim, Claimed, ask_for, identity};
use super::locked::{check_servers_count, lock_folder, open_metadata};
use super::owner::Owner;
use super::place::Place;
use crate::cli::{Listen, VolumeRole};
use crate::failure::{Explain, Failure};
use gannet::local::{find, provider, resolver};
use gannet::url::NATIVE_PORT;
use gannet_fabric::Provider;
use gannet_localfs::{LocalOptions, LocalStore, LocalTree, descriptors_each};
use gannet_meta::{JournaledStore, MetaStore, claims};
use gannet_runtime::tokio_plug::{Cores, SharedListener, block_on};
use gannet_runtime::{Handle, all, timeout};
use gannet_session::Budget;
use gannet_volume::client::{Addresses, Siblings, VolumeFs, registered_io_servers};
use gannet_volume::io_server::IoServer;
use gannet_volume::link::{Handler, Identity, TrafficClasses};
use gannet_volume::manager::{Manager, Registration, Registry};
use gannet_volume::secret::{Secret, ServerKeys};
use gannet_volume::serve::Server;
use gannet_wire::volume::{Address, Chosen, Hello, RegisterRecord, Role, Stripes, Token};
use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::time::Duration;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::watch;

/// How long the manager is asked about an empty folder before the process says that it listens.
const CLAIM_PATIENCE: Duration = Duration::from_secs(3);

/// How long the process waits for the manager's term to begin before it says that it listens.
const TERM_PATIENCE: Duration = Duration::from_secs(2);

/// Which servers of a volume a process runs, and where they listen.
#[derive(Debug, Clone)]
pub struct HostOptions {
    /// Where the manager listens, and at which address I/O servers do; without it at all addresses, and the manager on
    /// the port of `volume.toml` or the native one. Off: on loopback alone.
    pub native: Option<Listen>,
    /// The servers; none stands for all.
    pub roles: Vec<VolumeRole>,
    /// I/O servers that are to serve folders without what files had there.
    pub lost_disks: Vec<usize>,
    /// Where the manager is, for I/O servers without it; otherwise `volume.toml` says that.
    pub manager: Option<Place>,
    /// How what they send is marked; otherwise `volume.toml` says that.
    pub dscp: Option<TrafficClasses>,
    /// Most threads to run them on.
    pub threads: usize,
    /// Insist on CRCs on their connections.
    pub crc: bool,
    /// Have the manager serve its metadata though I/O servers know of newer ones, or do not answer.
    pub force_term: bool,
    /// What peers may make this process hold.
    pub budget: Budget,
}

impl HostOptions {
    /// Whether the manager is among them.
    pub fn runs_manager(&self) -> bool {
        self.roles.is_empty() || self.roles.contains(&VolumeRole::Manager)
    }

    /// The numbers of I/O servers among them, in order, out of `count`.
    fn io_servers(&self, count: usize) -> Result<Vec<usize>, Failure> {
        let mut numbers: Vec<usize> = match self.roles.is_empty() {
            true => (0..count).collect(),
            false => (self.roles.iter())
                .filter_map(|role| match role {
                    VolumeRole::IoServer(number) => Some(*number as usize),
                    VolumeRole::Manager => None,
                })
                .collect(),
        };
        numbers.sort_unstable();
        numbers.dedup();
        if let Some(number) = numbers.iter().find(|number| **number >= count) {
            let what = format!("cannot run I/O server {number}");
            let why = format!("the volume has {count}, with numbers from 0 on");
            return Err(Failure::usage(what, why));
        }
        Ok(numbers)
    }

    /// That disks are given up only of servers that run here.
    fn check_lost(&self, numbers: &[usize]) -> Result<(), Failure> {
        match self.lost_disks.iter().find(|it| !numbers.contains(it)) {
            Some(number) => {
                let what = format!("cannot give up the disk of I/O server {number}");
                Err(Failure::usage(
                    what,
                    "this process does not run that server",
                ))
            }
            None => Ok(()),
        }
    }
}

/// The running servers of a volume. Dropped without [`Host::stop`], they end some time later.
pub struct Host {
    threads: Cores,
    stop: watch::Sender<bool>,
    failures: Receiver<Failure>,
}

/// The servers of a volume before they run: folders and sockets are open, and no thread was started.
pub struct OpenHost {
    roles: Roles,
    path: PathBuf,
    stop: watch::Sender<bool>,
    front: Option<Arc<Front>>,
    failures: Receiver<Failure>,
}

/// Where the servers of a process listen.
#[derive(Debug, Clone, Default)]
pub struct Listening {
    /// The manager, if it is among them.
    pub manager: Option<SocketAddr>,
    /// I/O servers with their numbers.
    pub io_servers: Vec<(usize, SocketAddr)>,
}

/// How the cores of this process reach the servers.
pub struct Front {
    identity: Identity,
    handles: Secret,
    manager: SocketAddr,
    siblings: Arc<Siblings>,
    crc: bool,
}

/// What the threads run.
struct Roles {
    identity: Token,
    keys: ServerKeys,
    manager: Option<ManagerRole>,
    io_servers: Vec<IoServerRole>,
    threads: usize,
    crc: bool,
    force_term: bool,
    budget: Budget,
    classes: TrafficClasses,
    stop: watch::Receiver<bool>,
    /// Takes why a server of this process, which runs already, is none.
    failed: Sender<Failure>,
}

struct ManagerRole {
    name: String,
    stripes: Stripes,
    metadata: Arc<JournaledStore>,
    listener: SharedListener,
    /// Where I/O servers are, as far as it is known.
    servers: Vec<Address>,
}

struct IoServerRole {
    number: usize,
    listener: SharedListener,
    folder: PathBuf,
    tree: Arc<LocalTree>,
    /// Nobody else serves the folder while this is open.
    _lock: File,
    /// The folder, if it is not known yet whether it may be served.
    asks: Option<Claim>,
    /// Whom it tells where it is.
    register: Option<(Place, RegisterRecord)>,
}

impl OpenHost {
    /// Opens what servers of `volume` take, and listens for them.
    ///
    /// # Errors
    /// Another process serves them, or something of the volume cannot be used.
    pub fn open(volume: &Volume, options: &HostOptions) -> Result<OpenHost, Failure> {
        let keys = volume.keys()?;
        let numbers = options.io_servers(volume.description.io_server.len())?;
        let address = manager_address(volume, options);
        options.check_lost(&numbers)?;
        // The manager's first: the store's lock is what tells that the volume is served.
        let metadata = match options.runs_manager() {
            true => Some(Arc::new(open_metadata(volume)?)),
            false => None,
        };
        let register = match options.runs_manager() {
            true => None,
            false => Some(manager_place(volume, options)?),
        };
        let what = || String::from("cannot start the I/O servers");
        let descriptors = descriptors_each(numbers.len()).explain(what)?;
        let open = |number| {
            let lost = options.lost_disks.contains(&number);
            let knows = (metadata.as_deref(), register.as_ref());
            open_io_server(volume, (number, lost), (address.ip(), descriptors), knows)
        };
        let io_servers = numbers.into_iter().map(open);
        let io_servers = io_servers.collect::<Result<Vec<_>, Failure>>()?;
        if let Some(names) = &metadata {
            note_served(names, &io_servers)?;
        }
        let manager = metadata.map(|metadata| open_manager(volume, metadata, address, &io_servers));
        let manager = manager.transpose()?;
        let ((stop, stopped), (failed, failures)) = (watch::channel(false), channel(1));
        let mut roles = Roles {
            identity: volume.description.identity,
            keys,
            manager,
            threads: options.threads.clamp(1, io_servers.len().max(1)),
            io_servers,
            crc: options.crc,
            force_term: options.force_term,
            budget: options.budget.clone(),
            classes: (options.dscp.or(volume.description.dscp)).unwrap_or_default(),
            stop: stopped,
            failed,
        };
        roles.ask_for_folders()?;
        let front = (roles.listening().manager).map(|manager| roles.front(manager));
        Ok(OpenHost {
            front: front.transpose()?,
            roles,
            path: volume.path.clone(),
            stop,
            failures,
        })
    }

    /// Starts the servers; when it returns, they answer.
    ///
    /// # Errors
    /// The system refuses a thread, or the manager cannot use the volume's metadata.
    pub fn start(self) -> Result<Host, Failure> {
        Ok(Host {
            threads: run(self.roles, &self.path)?,
            stop: self.stop,
            failures: self.failures,
        })
    }

    /// How this process's cores reach the servers, if the manager is among them.
    pub fn front(&self) -> Option<Arc<Front>> {
        self.front.clone()
    }

    /// Where the servers listen.
    pub fn listening(&self) -> Listening {
        self.roles.listening()
    }
}

impl Host {
    /// Why one of the servers is none although it was started; waits until there is a reason.
    pub async fn failed(&mut self) -> Failure {
        match self.failures.recv().await {
            Some(failure) => failure,
            None => std::future::pending().await,
        }
    }

    /// Ends the servers, once nobody needs them any more.
    ///
    /// # Errors
    /// One of them had failed.
    pub fn stop(self) -> Result<(), Failure> {
        // Receivers are gone when all threads have ended by themselves.
        let _ = self.stop.send(true);
        self.threads
            .join()
            .explain(|| String::from("a server of the volume ended"))
    }
}

/// Starts the threads, and waits until the servers answer.
fn run(roles: Roles, path: &Path) -> Result<Cores, Failure> {
    let (sender, started) = mpsc::channel();
    let what = || format!("cannot serve the volume {}", path.display());
    let (count, roles) = (roles.threads, Arc::new(roles));
    let threads = Cores::start(count, move |index, runtime| {
        serve(index, runtime, Arc::clone(&roles), sender.clone())
    })
    .explain(what)?;
    // The first thread says one word, or is gone.
    let word = started.recv().explain(what)?;
    word.map_err(|why| Failure::new(what(), why))?;
    Ok(threads)
}

impl Roles {
    fn listening(&self) -> Listening {
        let servers = self.io_servers.iter();
        Listening {
            manager: (self.manager.as_ref()).map(|manager| manager.listener.local_address()),
            io_servers: servers
                .map(|server| (server.number, server.listener.local_address()))
                .collect(),
        }
    }

    fn front(&self, manager: SocketAddr) -> Result<Arc<Front>, Failure> {
        Ok(Arc::new(Front {
            identity: self.identity(Role::Client),
            handles: self.keys.for_handles(),
            manager: SocketAddr::new(here(manager.ip()), manager.port()),
            crc: self.crc,
            siblings: Siblings::new(random()?),
        }))
    }
}

/// Where the manager is to listen; I/O servers listen at the same address.
fn manager_address(volume: &Volume, options: &HostOptions) -> SocketAddr {
    let said = volume.description.manager.address.as_ref();
    let any = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    match options.native {
        Some(Listen::At(address)) => address,
        Some(Listen::Off) => SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        None => SocketAddr::new(any, said.map_or(NATIVE_PORT, |place| place.0.port)),
    }
}

/// Where I/O servers that run apart from the manager find it.
fn manager_place(volume: &Volume, options: &HostOptions) -> Result<Place, Failure> {
    let said = volume.description.manager.address.as_ref();
    options.manager.as_ref().or(said).cloned().ok_or_else(|| {
        let why = "nobody says where the manager is";
        let hint = "add `[manager]` with `address = \"HOST:PORT\"` to volume.toml, or give --manager HOST:PORT";
        Failure::usage("cannot run I/O servers without the manager", why).hint(hint)
    })
}

/// The address at which this process reaches what listens at `address`.
fn here(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        address => address,
    }
}

impl Front {
    /// A client of the volume for the core of `runtime`.
    pub fn client(&self, runtime: Handle) -> VolumeFs {
        let provider = provider(&runtime, self.crc);
        let addresses = Addresses {
            manager: Some(self.manager),
            io_servers: Vec::new(),
        };
        let (find, siblings) = (resolver(&runtime), Arc::clone(&self.siblings));
        VolumeFs::new(runtime, provider, self.identity, addresses, siblings)
            .signing_handles_with(self.handles)
            .resolving(find)
    }
}

fn open_manager(
    volume: &Volume,
    metadata: Arc<JournaledStore>,
    address: SocketAddr,
    io_servers: &[IoServerRole],
) -> Result<ManagerRole, Failure> {
    let description = &volume.description;
    let said = description.io_server.iter().map(|server| &server.address);
    let said = said.map(|place| place.clone().map(|place| place.0).unwrap_or_default());
    let mut servers: Vec<Address> = said.collect();
    check_servers_count(volume, &*metadata, servers.len() as u32)?;
    for role in io_servers {
        if let Some(known) = servers.get_mut(role.number) {
            *known = reported(role.listener.local_address(), known);
        }
    }
    Ok(ManagerRole {
        name: description.name.clone(),
        stripes: Stripes {
            unit: description.stripes.unit,
            on: Chosen::InTurn(description.stripes.width),
        },
        metadata,
        listener: listen("the manager of the volume", address)?,
        servers,
    })
}

/// Opens one with its folder, whose disk may be said to be lost. The names are known here, or the manager is.
fn open_io_server(
    volume: &Volume,
    (number, lost): (usize, bool),
    (ip, descriptors): (IpAddr, usize),
    (names, manager): (Option<&JournaledStore>, Option<&Place>),
) -> Result<IoServerRole, Failure> {
    let what = || format!("cannot start I/O server {number}");
    let described = volume.description.io_server.get(number);
    let described = described.ok_or_else(|| Failure::new(what(), "there is no such server"))?;
    let folder = volume.path.join(&described.folder);
    let lock = lock_folder(&folder).map_err(|error| match error.kind() {
        std::io::ErrorKind::WouldBlock => {
            let why = format!("a server serves its folder {} already", folder.display());
            let hint = "stop that one first; each I/O server of a host needs a folder of its own";
            Failure::new(what(), why).hint(hint)
        }
        kind => {
            let failure = Failure::new(what(), format!("{}: {error}", folder.display()));
            match kind {
                std::io::ErrorKind::NotFound => {
                    failure.hint("mount its disk; the folder of a new server is yours to make")
                }
                _ => failure,
            }
        }
    })?;
    let claim = Claim {
        owner: Owner {
            volume: volume.description.identity,
            io_server: number,
            lost_below: 0,
        },
        folder: folder.clone(),
        is_lost: lost,
        opened: lock.metadata().map(|it| identity(&it)).explain(what)?,
    };
    let claimed = claim.take(names)?;
    let options = LocalOptions {
        state_dir: Some(volume.path.clone()),
        // What was written durably must not lose the name of its object.
        async_metadata: false,
        descriptors_max: Some(descriptors),
        ..LocalOptions::default()
    };
    let tree = LocalTree::open(&folder, &options).explain(what)?;
    let said = described.address.as_ref().map(|place| place.0.clone());
    let said = said.unwrap_or_default();
    let listener = listen(
        &format!("I/O server {number}"),
        SocketAddr::new(ip, said.port),
    )?;
    let address = reported(listener.local_address(), &said);
    let record = RegisterRecord {
        // Bounded by WIDTH_MAX.
        number: number as u32,
        address,
    };
    let register = manager.map(|place| (place.clone(), record));
    Ok(IoServerRole {
        number,
        listener,
        folder,
        tree,
        _lock: lock,
        asks: (claimed == Claimed::Asks).then_some(claim),
        register,
    })
}

/// Notes that these servers have folders: from now on files may have data there.
fn note_served(names: &JournaledStore, io_servers: &[IoServerRole]) -> Result<(), Failure> {
    let what = || String::from("cannot note which I/O servers have folders");
    let mut new = Ok(Default::default());
    let look = names.read(&mut |view| new = claims::new_servers(view));
    let mut new = look.and(new).explain(what)?;
    // Bounded by WIDTH_MAX.
    let here = |number: &u32| io_servers.iter().any(|role| role.number as u32 == *number);
    new.retain(here);
    if new.is_empty() {
        return Ok(());
    }
    let noted = names.commit(&mut |transaction| {
        let mut new = new.iter();
        new.try_for_each(|number| claims::note_served(transaction, *number))
    });
    noted.explain(what)
}

/// Clients are told of the host that volume.toml names, or of the address that a server listens at; of none if it
/// listens at all of them.
fn reported(listening: SocketAddr, said: &Address) -> Address {
    let ip = listening.ip();
    let host = match said.host.is_empty() {
        false => said.host.clone(),
        true if ip.is_unspecified() => String::new(),
        true => ip.to_string(),
    };
    Address {
        host,
        port: listening.port(),
    }
}

fn listen(what: &str, address: SocketAddr) -> Result<SharedListener, Failure> {
    SharedListener::bind(address, 1).map_err(|error| {
        Failure::new(format!("cannot listen for {what} at {address}"), error)
            .hint("choose another address with --native ADDRESS:PORT")
    })
}

fn random() -> Result<u64, Failure> {
    getrandom::u64().explain(|| String::from("cannot get random bytes"))
}

/// Runs the servers of one thread until they shall end. The first thread says whether the manager runs.
async fn serve(
    index: usize,
    runtime: Handle,
    roles: Arc<Roles>,
    started: mpsc::Sender<Result<(), String>>,
) {
    for at in (index..roles.io_servers.len()).step_by(roles.threads) {
        start_io_server(&runtime, &roles, at);
    }
    if index == 0 {
        let outcome = match start_manager(&runtime, &roles) {
            Ok(Some(manager)) => has_begun(&runtime, &manager).await,
            Ok(None) => Ok(()),
            Err(why) => Err(why),
        };
        let failed = outcome.is_err();
        // Who started the threads waits for this.
        let _ = started.send(outcome);
        if failed {
            return;
        }
    }
    drop(started);
    // An error means that the sender is gone, which ends the servers as well.
    let _ = roles.stop.clone().wait_for(|stop| *stop).await;
}

fn start_io_server(runtime: &Handle, roles: &Arc<Roles>, at: usize) {
    let Some(role) = roles.io_servers.get(at) else {
        return;
    };
    if role.asks.is_none() {
        serve_io_server(runtime, roles, at);
    }
    let Some(registration) = roles.registration(runtime, role) else {
        return;
    };
    let (clock, roles) = (Handle::clone(runtime), Arc::clone(roles));
    let claim = role.asks.clone();
    let registering = async move {
        if let Some(claim) = claim {
            if let Err(failure) = ask_for(&claim, &registration).await {
                // One reason is enough to end.
                let _ = roles.failed.try_send(failure);
                return;
            }
            serve_io_server(&clock, &roles, at);
        }
        registration.keep().await;
    };
    runtime.spawn("volume register", Box::pin(registering));
}

fn serve_io_server(runtime: &Handle, roles: &Arc<Roles>, at: usize) {
    let Some(role) = roles.io_servers.get(at) else {
        return;
    };
    let owner = match Owner::of(&role.folder) {
        Ok(owner) => owner,
        Err(error) => {
            let what = format!("cannot use the folder {}", role.folder.display());
            // One reason is enough to end.
            let _ = roles.failed.try_send(Failure::new(what, error));
            return;
        }
    };
    let lost_below = owner.map_or(0, |owner| owner.lost_below);
    let store = LocalStore::new(Arc::clone(&role.tree), Handle::clone(runtime));
    let handler = IoServer::new(Handle::clone(runtime), store, roles.keys).having_lost(lost_below);
    // Bounded by WIDTH_MAX.
    let name = Hello::io_server(role.number as u32);
    accept(runtime, roles, (handler, name), move |roles| {
        roles.io_servers.get(at).map(|role| &role.listener)
    });
}

impl Roles {
    /// Who this process is when it connects as `role`.
    fn identity(&self, role: Role) -> Identity {
        Identity {
            role,
            volume: self.identity,
            key: self.keys.between(role),
            classes: self.classes,
        }
    }

    /// How an I/O server that runs apart speaks to the manager.
    fn registration(
        &self,
        runtime: &Handle,
        role: &IoServerRole,
    ) -> Option<Registration<impl AsyncFn() -> io::Result<SocketAddr> + use<>>> {
        let (Place(manager), record) = role.register.clone()?;
        let clock = Handle::clone(runtime);
        Some(Registration {
            runtime: Handle::clone(runtime),
            provider: provider(runtime, self.crc),
            identity: self.identity(Role::IoServer),
            find: async move || find(&clock, manager.host.clone(), manager.port).await,
            record,
        })
    }

    /// Asks the manager about a folder if it is empty; `None` if it does not answer soon.
    async fn ask_for_folder(
        &self,
        runtime: &Handle,
        role: &IoServerRole,
    ) -> Option<Result<(), Failure>> {
        let Some((claim, registration)) = role.asks.as_ref().zip(self.registration(runtime, role))
        else {
            return Some(Ok(()));
        };
        let asking = ask_for(claim, &registration);
        timeout(runtime, CLAIM_PATIENCE, asking).await.ok()
    }

    /// Asks the manager about folders that are empty, where it can be reached soon. Where it cannot, the servers listen
    /// and wait for it, so that servers may be started in any order.
    ///
    /// # Errors
    /// One may not be served.
    fn ask_for_folders(&mut self) -> Result<(), Failure> {
        if self.io_servers.iter().all(|role| role.asks.is_none()) {
            return Ok(());
        }
        let roles = &*self;
        let asked = block_on(async |runtime| {
            let asking = (roles.io_servers.iter()).map(|role| roles.ask_for_folder(&runtime, role));
            all(asking.map(Box::pin)).await
        });
        let asked = asked.explain(|| String::from("cannot ask the manager"))?;
        for (role, answer) in self.io_servers.iter_mut().zip(asked) {
            match answer {
                Some(may) => {
                    may?;
                    role.asks = None;
                }
                None => tracing::warn!(
                    number = role.number,
                    "an empty folder is not served before the manager has answered: waiting for it"
                ),
            }
        }
        Ok(())
    }
}

/// Waits a moment until the manager may serve. Where I/O servers are away it says for whom it waits, and its clients
/// wait with it.
async fn has_begun(runtime: &Handle, manager: &Manager) -> Result<(), String> {
    match timeout(runtime, TERM_PATIENCE, manager.has_begun()).await {
        Ok(begun) => begun.map_err(|error| error.to_string()),
        Err(_) => Ok(()),
    }
}

/// Starts the manager, if this process has it.
fn start_manager(runtime: &Handle, roles: &Arc<Roles>) -> Result<Option<Rc<Manager>>, String> {
    let Some(role) = &roles.manager else {
        return Ok(None);
    };
    let stripes = || role.stripes.clone();
    let registry = Registry::new(role.name.clone(), stripes(), role.servers.clone());
    let provider = provider(runtime, roles.crc);
    let servers = registered_io_servers(
        Handle::clone(runtime),
        provider,
        roles.identity(Role::Manager),
        (
            Rc::clone(&registry),
            here(role.listener.local_address().ip()),
        ),
        resolver(runtime),
    );
    let (metadata, keys) = (Arc::clone(&role.metadata), roles.keys);
    let clock = Handle::clone(runtime);
    let manager = Manager::open(clock, metadata, keys, servers, stripes());
    let manager = manager.map_err(|error| error.to_string())?;
    let (ruling, force, failed) = (
        Rc::clone(&manager).rule(roles.force_term),
        roles.force_term,
        roles.failed.clone(),
    );
    if force {
        tracing::warn!("the metadata are served whatever I/O servers know of newer ones");
    }
    let ruling = async move {
        let error = ruling.await;
        // One reason is enough to end.
        let _ = failed.try_send(Failure::new("the manager of the volume ends", error));
    };
    runtime.spawn("manager's term", Box::pin(ruling));
    let handler = registry.before(Rc::clone(&manager) as Rc<dyn Handler>);
    accept(runtime, roles, (handler, Hello::MANAGER), |roles| {
        roles.manager.as_ref().map(|role| &role.listener)
    });
    Ok(Some(manager))
}

/// Has `handler`, the server that is called `name`, answer those who connect to a listener of this thread alone.
fn accept(
    runtime: &Handle,
    roles: &Arc<Roles>,
    (handler, name): (Rc<dyn Handler>, u16),
    listener: impl Fn(&Roles) -> Option<&SharedListener> + 'static,
) {
    let Some(socket) = listener(roles) else {
        return;
    };
    let provider = provider(runtime, roles.crc);
    let streams = Box::new(provider.listen_on(socket.for_core(0)));
    let server = Server::new(Handle::clone(runtime), roles.identity, roles.keys, handler);
    let server = server.named(name).marking(roles.classes);
    let server = server.drawing_on(roles.budget.clone());
    let serving = async move {
        let served = server.serve(provider as Rc<dyn Provider>, streams).await;
        if let Err(error) = served {
            tracing::error!(%error, "a server of the volume ended");
        }
    };
    runtime.spawn("volume server", Box::pin(serving));
    let roles = Arc::clone(roles);
    let accepting = async move {
        if let Some(socket) = listener(&roles)
            && let Err(error) = socket.distribute().await
        {
            tracing::error!(%error, "a server of the volume accepts no more");
        }
    };
    runtime.spawn("volume accept", Box::pin(accepting));
}
