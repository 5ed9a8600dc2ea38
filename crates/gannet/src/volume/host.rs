//! Servers of a volume in this process, on threads of their own: all of them, or some.

mod cores;

use super::Volume;
use super::error::VolumeError;
use super::folder::{Folder, identity, lock_folder};
use super::made::absolute;
use super::metadata::{StandBy, StandingBy, TakePage, check_servers_count, stand_by};
use super::owner::Owner;
use super::place::Place;
use super::watch::{ServedFolder, VolumeWatch};
use crate::client::connect::resolver;
use crate::client::options::machine_name;
use crate::server::FabricListener;
use crate::server::default_budget;
use crate::url::NATIVE_PORT;
use crate::{FabricOptions, ProviderKind};
use gannet_localfs::{LocalOptions, LocalTree, descriptors_each};
use gannet_meta::{JournaledStore, MetaStore};
use gannet_runtime::Handle;
use gannet_runtime::tokio_plug::{Cores, block_on};
use gannet_session::Budget;
use gannet_verbs::VerbsError;
use gannet_volume::client::{Addresses, Siblings, VolumeFs};
use gannet_volume::host::{self, Claimed, HostCounters};
use gannet_volume::link::{Identity, TrafficClasses};
use gannet_volume::manager::copy_metadata;
use gannet_volume::secret::{CurrentKeys, RoleKey, Secret};
use gannet_wire::volume::{Address, Chosen, HOST_MAX, RegisterRecord, Role, Stripes, Token};
use std::fmt;
use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use thiserror::Error;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::watch;

/// How long a change by NFS is tried that a manager may have done. Half of the time for which managers remember what
/// they did.
const CHANGE_PATIENCE: Duration = Duration::from_secs(300);

/// A server of a volume that a process runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VolumeRole {
    /// Names, attributes, layouts; NFS too.
    Manager,
    /// NFS, as a client of the active manager, which may run on another host.
    Nfs,
    /// The I/O server with this number.
    IoServer(u32),
}

/// The text, which does not name a server of a volume.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{0}` is not `manager`, `nfs` or `io-server=N`")]
pub struct VolumeRoleError(pub String);

impl FromStr for VolumeRole {
    type Err = VolumeRoleError;

    fn from_str(text: &str) -> Result<VolumeRole, VolumeRoleError> {
        match text {
            "manager" => return Ok(VolumeRole::Manager),
            "nfs" => return Ok(VolumeRole::Nfs),
            _ => {}
        }
        let number = text.strip_prefix("io-server=");
        let number = number.and_then(|number| number.parse().ok());
        number
            .map(VolumeRole::IoServer)
            .ok_or_else(|| VolumeRoleError(text.to_owned()))
    }
}

impl fmt::Display for VolumeRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            VolumeRole::Manager => f.write_str("the manager of the volume"),
            VolumeRole::Nfs => f.write_str("NFS of the volume"),
            VolumeRole::IoServer(number) => write!(f, "I/O server {number}"),
        }
    }
}

/// The servers of a volume that a process runs, and their addresses.
#[derive(Debug, Clone)]
pub struct HostOptions {
    /// The manager listens at this address, and I/O servers at its host with ports of their own. Without it they listen
    /// at all addresses, and the manager uses the port of `volume.toml` or the native one.
    pub native: Option<SocketAddr>,
    /// The servers; none stands for all.
    pub roles: Vec<VolumeRole>,
    /// I/O servers whose disk is lost: they serve their folders without the bytes that files had there.
    pub lost_disks: Vec<usize>,
    /// The manager's address, for I/O servers that run apart; `None` for that of `volume.toml`.
    pub manager: Option<Place>,
    /// The DSCPs of the servers' packets; `None` for those of `volume.toml`.
    pub dscp: Option<TrafficClasses>,
    /// Most threads to run them on.
    pub threads: usize,
    /// The fabric of their connections.
    pub fabric: FabricOptions,
    /// Has the manager serve its metadata even if I/O servers know newer metadata, or do not reply.
    pub force_term: bool,
    /// Somebody may watch the volume: the manager asks I/O servers for their space.
    pub watched: bool,
    /// The bound of the memory that peers may make this process hold.
    pub budget: Budget,
    /// Hears of a manager that stands by, at its beginning and about every second.
    pub standing_by: Option<StandingBy>,
}

impl Default for HostOptions {
    /// All servers of a volume, on one thread.
    fn default() -> HostOptions {
        HostOptions {
            native: None,
            roles: Vec::new(),
            lost_disks: Vec::new(),
            manager: None,
            dscp: None,
            threads: 1,
            fabric: FabricOptions::default(),
            force_term: false,
            watched: false,
            budget: default_budget(),
            standing_by: None,
        }
    }
}

impl HostOptions {
    /// Whether the manager is among them.
    pub fn runs_manager(&self) -> bool {
        self.roles.is_empty() || self.roles.contains(&VolumeRole::Manager)
    }

    /// Whether NFS is served: by the manager's process, or as a role of its own.
    pub fn serves_nfs(&self) -> bool {
        self.runs_manager() || self.roles.contains(&VolumeRole::Nfs)
    }

    /// The numbers of I/O servers among them, in order, out of `count`.
    fn io_servers(&self, count: usize) -> Result<Vec<usize>, VolumeError> {
        let mut numbers: Vec<usize> = if self.roles.is_empty() {
            (0..count).collect()
        } else {
            (self.roles.iter())
                .filter_map(|role| match role {
                    VolumeRole::IoServer(number) => Some(*number as usize),
                    VolumeRole::Manager | VolumeRole::Nfs => None,
                })
                .collect()
        };
        numbers.sort_unstable();
        numbers.dedup();
        if let Some(number) = numbers.iter().find(|number| **number >= count) {
            let number = *number;
            return Err(VolumeError::NoSuchIoServer { number, count });
        }
        Ok(numbers)
    }

    /// Checks that the lost disks are those of servers that run here.
    fn check_lost(&self, numbers: &[usize]) -> Result<(), VolumeError> {
        match self.lost_disks.iter().find(|it| !numbers.contains(it)) {
            Some(number) => Err(VolumeError::LostElsewhere(*number)),
            None => Ok(()),
        }
    }
}

/// The running servers of a volume. Dropped without [`Host::stop`], they end some time later.
pub struct Host {
    threads: Cores,
    /// The manager's, if it is among them.
    metadata: Option<Arc<JournaledStore>>,
    stop: watch::Sender<bool>,
    failures: Receiver<VolumeError>,
}

/// The servers of a volume before they run: folders and sockets are open, and no thread was started.
pub struct OpenHost {
    roles: Roles,
    stop: watch::Sender<bool>,
    front: Option<Arc<Front>>,
    failures: Receiver<VolumeError>,
}

/// Where the servers of a process listen.
#[derive(Debug, Clone, Default)]
pub struct Listening {
    /// The manager, if it is among them.
    pub manager: Option<SocketAddr>,
    /// I/O servers with their numbers.
    pub io_servers: Vec<(usize, SocketAddr)>,
}

/// Makes clients by which the cores of this process reach the servers.
pub struct Front {
    identity: Identity,
    handles: Secret,
    managers: FrontManagers,
    siblings: Arc<Siblings>,
    fabric: FabricOptions,
}

/// The managers in the eyes of NFS.
enum FrontManagers {
    /// The one of this process.
    Here(SocketAddr),
    /// The managers of other processes, of which one is active.
    Apart {
        places: Vec<Place>,
        /// The address of this host for the device.
        own: IpAddr,
    },
}

/// The servers that the threads run, and their settings.
struct Roles {
    identity: Token,
    keys: CurrentKeys,
    manager: Option<ManagerSeat>,
    io_servers: Vec<IoServerSeat>,
    threads: usize,
    fabric: FabricOptions,
    force_term: bool,
    watched: bool,
    budget: Budget,
    classes: TrafficClasses,
    counters: HostCounters,
    stop: watch::Receiver<bool>,
    /// Receives the reason why a server of this process failed after its start.
    failed: Sender<VolumeError>,
}

struct ManagerSeat {
    /// The volume's folder, from the root.
    path: PathBuf,
    name: String,
    stripes: Stripes,
    metadata: Arc<JournaledStore>,
    listener: FabricListener,
    /// Where I/O servers are, as far as it is known.
    servers: Vec<Address>,
    /// Their zones, where the description names them.
    zones: Vec<Option<String>>,
}

struct IoServerSeat {
    number: u32,
    listener: FabricListener,
    folder: Folder,
    tree: Arc<LocalTree>,
    /// The lock of the folder: no other process serves it while this is open.
    _lock: File,
    /// The operator says that the disk before this one is lost.
    is_lost: bool,
    /// Whether the folder may be served, as far as it is known yet.
    claimed: Claimed,
    /// How it asks for its number; `None` if the manager runs in this process.
    register: Option<Registering>,
}

/// An I/O server's words for managers in other processes.
#[derive(Clone)]
struct Registering {
    /// Where they are; one is active.
    managers: Vec<Place>,
    record: RegisterRecord,
    folder: Token,
}

impl OpenHost {
    /// Opens the files and sockets of servers of `volume`.
    ///
    /// # Errors
    /// Another process serves them, or a file of the volume cannot be used.
    pub fn open(volume: &Volume, options: &HostOptions) -> Result<OpenHost, VolumeError> {
        let fabric = options.fabric.for_volumes();
        let numbers = options.io_servers(volume.description.io_server.len())?;
        let address = manager_address(volume, options)?;
        if fabric.provider == ProviderKind::Verbs && address.ip().is_unspecified() {
            return Err(VolumeError::DeviceAddress);
        }
        options.check_lost(&numbers)?;
        // The manager's first: the lock of the store marks the volume as served.
        let (metadata, register) = if options.runs_manager() {
            let opened = metadata_of_manager(volume, options, address)?;
            (Some(Arc::new(opened)), vec![])
        } else {
            (None, manager_places(volume, options)?)
        };
        // Behind the wait of a manager that stands by: they may have changed.
        let keys = volume.keys()?;
        let descriptors = descriptors_each(numbers.len()).map_err(VolumeError::Descriptors)?;
        let opening = IoServerOpening {
            volume,
            lost_disks: &options.lost_disks,
            ip: address.ip(),
            fabric,
            descriptors,
            metadata: metadata.as_deref(),
            managers: &register,
        };
        let io_servers = opening.open_all(numbers)?;
        if let Some(names) = &metadata {
            let numbers: Vec<u32> = io_servers.iter().map(|seat| seat.number).collect();
            host::note_served(&**names, &numbers).map_err(VolumeError::Note)?;
        }
        let manager = metadata.map(|metadata| {
            let listener = listen(VolumeRole::Manager, address, fabric)?;
            open_manager(volume, metadata, listener, &io_servers)
        });
        let ((stop, stopped), (failed, failures)) = (watch::channel(false), channel(1));
        let mut roles = Roles {
            identity: volume.description.identity,
            keys: CurrentKeys::new(keys),
            manager: manager.transpose()?,
            threads: options.threads.clamp(1, io_servers.len().max(1)),
            io_servers,
            fabric,
            force_term: options.force_term,
            watched: options.watched,
            budget: options.budget.clone(),
            classes: (options.dscp.or(volume.description.dscp)).unwrap_or_default(),
            counters: HostCounters {
                references: options.watched.then(Arc::default),
                ..HostCounters::default()
            },
            stop: stopped,
            failed,
        };
        roles.ask_for_folders()?;
        let managers = roles.front_managers(options, &register, address.ip());
        Ok(OpenHost {
            front: managers.map(|managers| roles.front(managers)).transpose()?,
            roles,
            stop,
            failures,
        })
    }

    /// Starts the servers; when it returns, they answer.
    ///
    /// # Errors
    /// The system refuses a thread, or the manager cannot use the volume's metadata.
    pub fn start(self) -> Result<Host, VolumeError> {
        let manager = self.roles.manager.as_ref();
        let metadata = manager.map(|manager| Arc::clone(&manager.metadata));
        Ok(Host {
            threads: cores::run(self.roles)?,
            metadata,
            stop: self.stop,
            failures: self.failures,
        })
    }

    /// How this process's cores reach the servers, if it serves NFS.
    pub fn front(&self) -> Option<Arc<Front>> {
        self.front.clone()
    }

    /// Where the servers listen.
    pub fn listening(&self) -> Listening {
        self.roles.listening()
    }

    /// The servers' keys, of which that of the clients may change.
    pub fn keys(&self) -> CurrentKeys {
        self.roles.keys.clone()
    }

    /// The servers' counters, which outlive them.
    pub fn counters(&self) -> HostCounters {
        self.roles.counters.clone()
    }

    /// The state of the servers, for administrators.
    pub fn watch(&self) -> VolumeWatch {
        let folders = self.roles.io_servers.iter();
        VolumeWatch {
            counters: self.counters(),
            folders: folders
                .map(|seat| ServedFolder {
                    number: seat.number,
                    path: seat.folder.path.clone(),
                })
                .collect(),
        }
    }
}

impl Host {
    /// Waits until one of the servers has failed after its start, and returns the reason.
    pub async fn failed(&mut self) -> VolumeError {
        match self.failures.recv().await {
            Some(failure) => failure,
            None => std::future::pending().await,
        }
    }

    /// Ends the servers, once no call needs them.
    ///
    /// # Errors
    /// Some server had failed.
    pub fn stop(self) -> Result<(), VolumeError> {
        // Receivers are dropped when all threads have ended by themselves.
        let _ = self.stop.send(true);
        let ended = self.threads.join().map_err(VolumeError::Ended);
        // Nobody is answered any more: another manager need not wait.
        if let Some(Err(error)) = self.metadata.map(|metadata| metadata.release()) {
            tracing::warn!(%error, "another manager waits for the end of the lease");
        }
        ended
    }

    /// The reason why one of the servers has ended, if one has.
    pub fn failure(&mut self) -> Option<VolumeError> {
        self.failures.try_recv().ok()
    }
}

/// Runs `main` to its end on a thread of its own: that of the caller may be one of an executor, where no other runtime
/// can run.
fn on_a_core<T: Send, F: Future<Output = T>>(
    main: impl FnOnce(Handle) -> F + Send,
) -> io::Result<T> {
    std::thread::scope(|scope| {
        let core = std::thread::Builder::new().name(String::from("volume start"));
        let core = core.spawn_scoped(scope, || block_on(main))?;
        let panicked = |_| Err(io::Error::other("a thread panicked"));
        core.join().unwrap_or_else(panicked)
    })
}

impl Roles {
    fn listening(&self) -> Listening {
        let servers = self.io_servers.iter();
        Listening {
            manager: (self.manager.as_ref()).map(|manager| manager.listener.local_address()),
            io_servers: servers
                .map(|server| (server.number as usize, server.listener.local_address()))
                .collect(),
        }
    }

    /// The managers for NFS, if that is served here.
    fn front_managers(
        &self,
        options: &HostOptions,
        apart: &[Place],
        own: IpAddr,
    ) -> Option<FrontManagers> {
        match self.listening().manager {
            Some(at) => {
                let at = SocketAddr::new(host::local_address(at.ip()), at.port());
                Some(FrontManagers::Here(at))
            }
            None => options.serves_nfs().then(|| FrontManagers::Apart {
                places: apart.to_vec(),
                own,
            }),
        }
    }

    fn front(&self, managers: FrontManagers) -> Result<Arc<Front>, VolumeError> {
        Ok(Arc::new(Front {
            identity: Identity {
                role: Role::Client,
                volume: self.identity,
                key: RoleKey::Current(self.keys.clone(), Role::Client),
                classes: self.classes,
            },
            handles: self.keys.now().for_handles(),
            managers,
            fabric: self.fabric,
            siblings: Siblings::new(random()?),
        }))
    }
}

/// Where the manager is to listen; I/O servers listen at the same address.
///
/// # Errors
/// Managers have several ports, and it is not said which is this one's.
fn manager_address(volume: &Volume, options: &HostOptions) -> Result<SocketAddr, VolumeError> {
    let said = volume.description.manager.places().next();
    let mut places = volume.description.manager.places();
    let is_alike = places.all(|it| Some(it.0.port) == said.map(|said| said.0.port));
    if options.runs_manager() && options.native.is_none() && !is_alike {
        return Err(VolumeError::ManagerPorts);
    }
    let any = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    Ok(match options.native {
        Some(address) => address,
        None => SocketAddr::new(any, said.map_or(NATIVE_PORT, |place| place.0.port)),
    })
}

/// The metadata of a manager that is to listen at this address, once it is the active one.
fn metadata_of_manager(
    volume: &Volume,
    options: &HostOptions,
    address: SocketAddr,
) -> Result<JournaledStore, VolumeError> {
    if volume.description.journal.is_some() && options.roles != [VolumeRole::Manager] {
        return Err(VolumeError::ManagerNotAlone);
    }
    let fabric = options.fabric.for_volumes();
    let copy = |take: &mut TakePage<'_>| copy_of_active(volume, fabric, address, take);
    let how = StandBy {
        name: manager_name(address),
        standing_by: options.standing_by,
        force: options.force_term,
        copy: &copy,
    };
    stand_by(volume, &how)
}

/// Copies the metadata of the active manager.
fn copy_of_active(
    volume: &Volume,
    fabric: FabricOptions,
    own: SocketAddr,
    take: &mut TakePage<'_>,
) -> Result<(), VolumeError> {
    let keys = CurrentKeys::new(volume.keys()?);
    let identity = Identity {
        role: Role::Manager,
        volume: volume.description.identity,
        key: RoleKey::Current(keys, Role::Manager),
        classes: volume.description.dscp.unwrap_or_default(),
    };
    let places: Vec<Place> = volume.description.manager.places().cloned().collect();
    let copied = on_a_core(async |runtime| {
        let managers = cores::find_all(&runtime, &places).await;
        let managers = managers.map_err(VolumeError::Ask)?;
        let provider = fabric.at(&runtime, own.ip()).map_err(VolumeError::Device)?;
        let copied = copy_metadata(&runtime, &provider, &identity, &managers, &mut *take);
        copied.await.map_err(VolumeError::Copy)
    });
    copied.map_err(VolumeError::Start)?
}

/// The name of a manager that listens at this address, for the others.
fn manager_name(address: SocketAddr) -> String {
    if !address.ip().is_unspecified() {
        return address.to_string();
    }
    let host = machine_name();
    format!(
        "{}:{}",
        host.get(..HOST_MAX).unwrap_or(&host),
        address.port()
    )
}

/// Where I/O servers that run apart from the managers find them.
fn manager_places(volume: &Volume, options: &HostOptions) -> Result<Vec<Place>, VolumeError> {
    let places: Vec<Place> = match &options.manager {
        Some(place) => vec![place.clone()],
        None => volume.description.manager.places().cloned().collect(),
    };
    if places.is_empty() {
        return Err(VolumeError::NoManagerAddress);
    }
    Ok(places)
}

impl Front {
    /// A client of the volume for the core of `runtime`.
    ///
    /// # Errors
    /// The RDMA device of the servers has no room for the core.
    pub fn client(&self, runtime: Handle) -> Result<VolumeFs, VerbsError> {
        let (own, managers, finder) = match &self.managers {
            FrontManagers::Here(at) => (at.ip(), vec![*at], None),
            FrontManagers::Apart { places, own } => {
                (*own, Vec::new(), Some(cores::finder(&runtime, places)))
            }
        };
        let provider = self.fabric.at(&runtime, own)?;
        let addresses = Addresses {
            managers,
            io_servers: Vec::new(),
        };
        let (find, siblings) = (resolver(&runtime), Arc::clone(&self.siblings));
        let client = VolumeFs::new(
            runtime,
            provider,
            self.identity.clone(),
            addresses,
            siblings,
        );
        let client = client.signing_handles_with(self.handles).resolving(find);
        // A kernel repeats what is refused for now as another request. A manager that took over knows this one.
        let client = client.finishing_changes(CHANGE_PATIENCE);
        Ok(match finder {
            Some(finder) => client.finding_managers(finder),
            None => client,
        })
    }
}

fn open_manager(
    volume: &Volume,
    metadata: Arc<JournaledStore>,
    listener: FabricListener,
    io_servers: &[IoServerSeat],
) -> Result<ManagerSeat, VolumeError> {
    let description = &volume.description;
    let zones = description.io_server.iter();
    let zones = zones.map(|it| it.zone.as_ref().map(|zone| zone.as_str().to_owned()));
    let said = description.io_server.iter().map(|server| &server.address);
    let said = said.map(|place| place.clone().map(|place| place.0).unwrap_or_default());
    let mut servers: Vec<Address> = said.collect();
    check_servers_count(&*metadata, servers.len() as u32)?;
    for seat in io_servers {
        if let Some(known) = servers.get_mut(seat.number as usize) {
            *known = host::reported_address(seat.listener.local_address(), known);
        }
    }
    Ok(ManagerSeat {
        path: absolute(&volume.path)?,
        name: description.name.clone(),
        stripes: Stripes {
            unit: description.stripes.unit,
            on: Chosen::InTurn(description.stripes.width),
            copies: None,
        },
        metadata,
        listener,
        servers,
        zones: zones.collect(),
    })
}

/// The facts by which a process opens its I/O servers, the same for each. The process has the metadata, or it knows
/// the manager's address.
struct IoServerOpening<'a> {
    volume: &'a Volume,
    /// Numbers of the I/O servers whose disk the operator says is lost.
    lost_disks: &'a [usize],
    /// The host's address at which they listen.
    ip: IpAddr,
    fabric: FabricOptions,
    /// Most files that each keeps open.
    descriptors: usize,
    /// The volume's metadata, if the manager runs in this process.
    metadata: Option<&'a JournaledStore>,
    /// The managers' addresses, if they run in other processes.
    managers: &'a [Place],
}

impl IoServerOpening<'_> {
    /// Opens the I/O servers with these numbers.
    fn open_all(&self, numbers: Vec<usize>) -> Result<Vec<IoServerSeat>, VolumeError> {
        let opened = on_a_core(async |runtime| {
            let mut opened = Vec::with_capacity(numbers.len());
            for number in numbers {
                opened.push(self.open(&runtime, number).await?);
            }
            Ok(opened)
        });
        opened.map_err(VolumeError::Start)?
    }

    /// How a server with this folder asks for its number, if the manager runs elsewhere.
    fn registering(
        &self,
        record: RegisterRecord,
        folder: &Folder,
    ) -> io::Result<Option<Registering>> {
        if self.managers.is_empty() {
            return Ok(None);
        }
        Ok(Some(Registering {
            managers: self.managers.to_vec(),
            record,
            folder: folder.token()?,
        }))
    }

    /// Locks and claims the folder of the I/O server `number`, and listens for it.
    async fn open(&self, runtime: &Handle, number: usize) -> Result<IoServerSeat, VolumeError> {
        let described = self.volume.description.io_server.get(number);
        let described = described.ok_or(VolumeError::NoSuchIoServer {
            number,
            count: self.volume.description.io_server.len(),
        })?;
        let folder = self.volume.path.join(&described.folder);
        let is_lost = self.lost_disks.contains(&number);
        let unusable = |why: io::Error| {
            let folder = folder.clone();
            match why.kind() {
                io::ErrorKind::WouldBlock => VolumeError::FolderLocked { number, folder },
                _ => VolumeError::Folder {
                    number,
                    folder,
                    why,
                },
            }
        };
        let lock = lock_folder(&folder).map_err(unusable)?;
        let opened = lock.metadata().map_err(unusable)?;
        let claimable = Folder {
            owner: Owner {
                volume: self.volume.description.identity,
                io_server: number,
                lost_below: 0,
            },
            path: folder.clone(),
            opened: identity(&opened),
        };
        // Bounded by WIDTH_MAX.
        let claim = claimable.claim(runtime, number as u32, is_lost);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let metadata = self.metadata.map(|metadata| metadata as &dyn MetaStore);
        let claimed = claim.take(metadata, now.unwrap_or_default()).await;
        let claimed = claimed.map_err(|failure| claimable.refused(failure))?;
        let options = LocalOptions {
            state_dir: Some(self.volume.path.clone()),
            // Durable data must not lose the name of its object.
            async_metadata: false,
            descriptors_max: Some(self.descriptors),
            // The manager checks the rights of callers; objects belong to the server.
            callers_are_server: true,
            ..LocalOptions::default()
        };
        let tree = LocalTree::open(&folder, &options);
        let tree = tree.map_err(|why| VolumeError::Tree { number, why })?;
        let said = described.address.as_ref().map(|place| place.0.clone());
        let said = said.unwrap_or_default();
        let role = VolumeRole::IoServer(claim.number);
        let address = SocketAddr::new(self.ip, said.port);
        let listener = listen(role, address, self.fabric)?;
        let address = host::reported_address(listener.local_address(), &said);
        let number = claim.number;
        let record = RegisterRecord { number, address };
        let register = self.registering(record, &claimable).map_err(unusable)?;
        Ok(IoServerSeat {
            number,
            listener,
            folder: claimable,
            tree,
            _lock: lock,
            is_lost,
            claimed,
            register,
        })
    }
}

fn listen(
    role: VolumeRole,
    address: SocketAddr,
    fabric: FabricOptions,
) -> Result<FabricListener, VolumeError> {
    let bound = FabricListener::bind(address, 1, fabric);
    bound.map_err(|why| VolumeError::Listen { role, address, why })
}

fn random() -> Result<u64, VolumeError> {
    getrandom::u64().map_err(|error| VolumeError::Random(io::Error::other(error.to_string())))
}
