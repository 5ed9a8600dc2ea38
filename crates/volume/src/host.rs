//! The start of a volume's servers: the conditions for each, their order, and the waiting times.
//!
//! The manager has a [`Registry`], in which I/O servers register. An I/O server [`Claim`]s its disk before it serves:
//! an empty disk may be one that is not mounted, and only the manager knows whether data should be there. Servers can
//! therefore start in any order, and each waits for the others that it needs.
//!
//! Production supplies folders, sockets and threads (`gannet::volume`). The simulator supplies its disks, fabric and
//! machines (`gannet_dst::volume`). Both run the code of this module.

mod claim;
mod references;
mod running;

pub use claim::{Claim, ClaimFailure, Claimed, Found, ObjectDisk};
pub use references::ReferenceCounters;
pub use running::IoServerRun;

use crate::client::{ManagerFinder, Resolver, Servers, registered_io_servers};
use crate::io_server::{DiskCounters, IoServer, ServerPolicy};
use crate::limits::START_PATIENCE;
use crate::link::{Handler, Identity, TrafficClasses, random_token};
use crate::manager::{GroupsDescription, Manager, Registration, Registry, TermError, VolumeState};
use crate::number_lease::NumberLease;
use crate::peers::{PeerLinks, keep};
use crate::secret::{CurrentKeys, RoleKey};
use crate::serve::{Server, ServerCounters};
use gannet_fabric::{Listener, Provider};
use gannet_meta::copies_setting::{CopiesSetting, copies_setting};
use gannet_meta::groups::{Groups, begin_groups_in, groups};
use gannet_meta::namespace::Outcome;
use gannet_meta::{MetaStore, StoreError, claims};
use gannet_metrics::{ClientList, Exposition, Pools, Source};
use gannet_objects::Peers;
use gannet_runtime::{Handle, timeout};
use gannet_session::Budget;
use gannet_vfs::Vfs;
use gannet_wire::volume::{Address, Claimant, Hello, RegisterRecord, Role, Stripes, Token};
use std::cell::Cell;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::Rc;
use std::sync::{Arc, OnceLock};
use thiserror::Error;

/// The common parts of a volume's servers on one core.
#[derive(Clone)]
pub struct Host {
    /// The runtime of the core.
    pub runtime: Handle,
    /// The volume's identity.
    pub volume: Token,
    /// The volume's keys.
    pub keys: CurrentKeys,
    /// The marking of the servers' packets by class of traffic.
    pub classes: TrafficClasses,
    /// The bound of what peers may make the servers hold.
    pub budget: Budget,
    /// The work of the servers, over all cores of the process.
    pub counters: HostCounters,
}

/// The work of the servers that a process runs.
#[derive(Debug, Clone, Default)]
pub struct HostCounters {
    /// The manager's.
    pub manager: Arc<ServerCounters>,
    /// The I/O servers' together.
    pub io_servers: Arc<ServerCounters>,
    /// The failures of the I/O servers' disks.
    pub disks: Arc<DiskCounters>,
    /// The state of the volume, once its manager has opened the metadata.
    pub volume: Arc<OnceLock<Arc<VolumeState>>>,
    /// Reads by references; `None` where nobody watches, so that servers publish nothing.
    pub references: Option<Arc<ReferenceCounters>>,
    /// The blocking pools of the servers' cores.
    pub pools: Arc<Pools>,
}

impl Source for HostCounters {
    fn collect(&self, into: &mut Exposition) {
        self.manager.collect("manager", into);
        self.io_servers.collect("io-server", into);
        self.disks.collect(into);
        if let Some(volume) = self.volume.get() {
            volume.collect(into);
        }
        if let Some(references) = &self.references {
            references.collect(into);
        }
        self.pools.collect(into);
    }

    fn list_clients(&self, into: &mut ClientList) {
        self.manager.clients.read(into);
        self.io_servers.clients.read(into);
    }
}

/// The place where a server takes connections.
pub struct Port {
    /// The provider of the server's connections, its own and those of its peers.
    pub provider: Rc<dyn Provider>,
    /// Begins to accept connections, once the server may answer.
    pub listen: Box<dyn FnOnce() -> io::Result<Box<dyn Listener>>>,
}

/// The parts of a manager.
pub struct ManagerRole {
    /// The volume's name for users.
    pub name: String,
    /// The default stripes, for files whose directories and creators chose none.
    pub stripes: Stripes,
    /// The store of names, attributes and layouts.
    pub metadata: Arc<dyn MetaStore>,
    /// The addresses of the I/O servers by number; [`Address::default`] for those that have yet to register.
    pub io_servers: Vec<Address>,
    /// The address of I/O servers that register without a host, because they run on the manager's.
    pub here: IpAddr,
    /// Resolves the host names of I/O servers.
    pub resolver: Resolver,
    /// The place where the manager takes connections.
    pub port: Port,
    /// Serve the metadata even if I/O servers know of newer ones or do not answer.
    pub force_term: bool,
    /// The parts of the volume's description that groups need.
    pub groups: GroupsDescription,
    /// The numbers of the I/O servers in the manager's process.
    pub has_io_servers: Vec<u32>,
}

/// The parts of an I/O server, after the first decision about its disk.
pub struct IoServerRole<D, V, F> {
    /// The server's number and disk.
    pub claim: Claim<D>,
    /// The outcome of the claim so far.
    pub claimed: Claimed,
    /// The store on the disk.
    pub store: V,
    /// The settings for the transfer of bytes.
    pub policy: ServerPolicy,
    /// The place where the server takes connections.
    pub port: Port,
    /// The registration at the manager; `None` if both run in one process, where the manager knows the address.
    pub registration: Option<Registration<F>>,
    /// The way to the other I/O servers.
    pub peers: PeerAccess,
}

/// The parts of an I/O server that may serve its disk.
struct IoServerParts<V> {
    number: u32,
    store: V,
    policy: ServerPolicy,
    port: Port,
    peers: PeerAccess,
    lease: Rc<NumberLease>,
}

/// The way of an I/O server to the others, whose addresses it asks the manager for.
pub struct PeerAccess {
    /// The provider of the connections.
    pub provider: Rc<dyn Provider>,
    /// Finds the manager.
    pub find_manager: ManagerFinder,
    /// Resolves the host names of I/O servers.
    pub resolver: Resolver,
}

impl Host {
    /// The identity of a server of the volume that connects as `role`.
    pub fn identity(&self, role: Role) -> Identity {
        Identity {
            role,
            volume: self.volume,
            key: RoleKey::Current(self.keys.clone(), role),
            classes: self.classes,
        }
    }

    /// The registration of an I/O server with the manager, whose addresses `find` returns; `folder` is that of
    /// [`Claimant::folder`].
    pub fn registration<F: AsyncFn() -> io::Result<Vec<SocketAddr>>>(
        &self,
        provider: Rc<dyn Provider>,
        find: F,
        record: RegisterRecord,
        folder: Token,
    ) -> Registration<F> {
        Registration {
            runtime: Handle::clone(&self.runtime),
            provider,
            identity: self.identity(Role::IoServer),
            find,
            record,
            claimant: Claimant {
                folder,
                process: random_token(&self.runtime),
            },
            generation: Cell::new(0),
        }
    }

    /// Starts the manager. It answers when its term has begun ([`has_begun_soon`]); `ended` gets the reason of the
    /// term's end.
    ///
    /// # Errors
    /// The metadata cannot be read or used.
    pub fn start_manager(
        &self,
        role: ManagerRole,
        ended: impl FnOnce(TermError) + 'static,
    ) -> Outcome<Rc<Manager>> {
        let (groups, setting) = groups_in(&role)?;
        let registry = Registry::new(role.name, role.stripes.clone(), role.io_servers, groups);
        let servers = registered_io_servers(
            Handle::clone(&self.runtime),
            Rc::clone(&role.port.provider),
            self.identity(Role::Manager),
            Rc::clone(&registry),
            role.here,
            role.resolver,
        );
        let clock = Handle::clone(&self.runtime);
        let manager = Manager::open(clock, role.metadata, self.keys.now(), servers, role.stripes)?;
        registry.report_in(manager.state());
        manager.has_io_servers(&role.has_io_servers);
        manager.describe_groups_with(role.groups, setting);
        // A process starts one manager; the simulator keeps the state of the first one of a machine.
        let _ = self.counters.volume.set(manager.state());
        if role.force_term {
            tracing::warn!("the metadata are served whatever I/O servers know of newer ones");
        }
        let ruling = Rc::clone(&manager).rule(role.force_term);
        let ruling = async move { ended(ruling.await) };
        self.runtime.spawn("manager's term", Box::pin(ruling));
        let handler = registry.before(Rc::clone(&manager));
        let server = self.server(Hello::MANAGER, handler);
        self.serve(role.port, server);
        if let Some(references) = self.counters.references.clone() {
            let (clock, manager) = (Handle::clone(&self.runtime), Rc::clone(&manager));
            let publishing = async move { references.publish_manager(&clock, manager).await };
            self.runtime
                .spawn("publish references", Box::pin(publishing));
        }
        Ok(manager)
    }

    /// Starts an I/O server: at once if its disk may be served, otherwise when the manager has allowed it. It serves
    /// while it has the lease of its number. `failed` gets the reason if it cannot serve, or no more.
    pub fn start_io_server<D, V, F>(
        &self,
        role: IoServerRole<D, V, F>,
        failed: impl FnOnce(ClaimFailure<D::Error>) + 'static,
    ) -> IoServerRun
    where
        D: ObjectDisk + 'static,
        V: Vfs,
        F: AsyncFn() -> io::Result<Vec<SocketAddr>> + 'static,
    {
        let IoServerRole {
            claim,
            claimed,
            store,
            policy,
            port,
            registration,
            peers,
        } = role;
        let runtime = Handle::clone(&self.runtime);
        let lease = match &registration {
            Some(_) => NumberLease::wanted(runtime),
            None => NumberLease::unbounded(runtime),
        };
        let parts = IoServerParts {
            number: claim.number,
            store,
            policy,
            port,
            peers,
            lease: Rc::clone(&lease),
        };
        let run = IoServerRun::new(&self.runtime);
        let Some(registration) = registration else {
            match claimed {
                Claimed::Taken { lost_below } => drop(self.serve_objects(parts, lost_below)),
                Claimed::Asks => failed(ClaimFailure::NoManager),
            }
            run.has_stopped();
            return run;
        };
        let (host, own) = (self.clone(), run.clone());
        let registering = async move {
            let lost_below = match claimed {
                Claimed::Taken { lost_below } => lost_below,
                Claimed::Asks => match own.until_stopped(claim.ask(&registration)).await {
                    Some(Ok(lost_below)) => lost_below,
                    Some(Err(failure)) => {
                        own.has_stopped();
                        return failed(failure);
                    }
                    None => return own.has_stopped(),
                },
            };
            let server = host.serve_objects(parts, lost_below);
            match own.until_stopped(registration.keep(&lease)).await {
                Some(taken) => {
                    lease.end();
                    own.has_stopped();
                    failed(taken.into());
                }
                None => {
                    lease.end();
                    own.end(&server, &registration).await;
                }
            }
        };
        self.runtime.spawn("volume register", Box::pin(registering));
        run
    }

    /// Serves the objects of an I/O server whose disk is taken.
    fn serve_objects<V: Vfs>(&self, parts: IoServerParts<V>, lost_below: u64) -> Rc<Server> {
        let IoServerParts {
            number,
            store,
            policy,
            port,
            peers,
            lease,
        } = parts;
        let peers = self.peer_links(number, peers, &lease);
        let runtime = || Handle::clone(&self.runtime);
        let handler = IoServer::with_policy(runtime(), store, number, self.keys.now(), policy);
        let handler = handler.counting(Arc::clone(&self.counters.disks));
        let handler = handler.reaching(Rc::clone(&peers) as Rc<dyn Peers>);
        let handler = handler.leased(Rc::clone(&lease));
        let keeping = keep(runtime(), number, handler.objects(), peers);
        self.runtime.spawn("groups", Box::pin(keeping));
        let handler = handler.having_lost(lost_below);
        if let Some(references) = self.counters.references.clone() {
            let (clock, served) = (runtime(), Rc::clone(&handler));
            let publishing = async move {
                let publishing = references.publish_io_server(&clock, number, served);
                publishing.await;
            };
            self.runtime
                .spawn("publish references", Box::pin(publishing));
        }
        let server = self.server(Hello::io_server(number), handler);
        let server = server.leased(Rc::clone(&lease));
        let ended = Rc::clone(&server);
        let ending = async move { ended.end_unleased(&lease).await };
        self.runtime.spawn("lease of a number", Box::pin(ending));
        self.serve(port, Rc::clone(&server));
        server
    }

    /// The connections of I/O server `number` to the others, which are made when they are needed.
    fn peer_links(
        &self,
        number: u32,
        access: PeerAccess,
        lease: &Rc<NumberLease>,
    ) -> Rc<PeerLinks> {
        let PeerAccess {
            provider,
            find_manager,
            resolver,
        } = access;
        let runtime = Handle::clone(&self.runtime);
        let identity = self.identity(Role::IoServer);
        let servers = Servers::of_io_server(runtime, provider, identity, number, find_manager);
        servers.resolve_with(resolver);
        PeerLinks::new(Handle::clone(&self.runtime), servers, Rc::clone(lease))
    }

    /// A server whose peers `handler` answers, under the name `name` of [`Hello::server`].
    fn server(&self, name: u16, handler: Rc<dyn Handler>) -> Rc<Server> {
        let runtime = Handle::clone(&self.runtime);
        let server = Server::new(runtime, self.volume, self.keys.now(), handler);
        let server = server.following(self.keys.clone());
        let server = server.named(name).marking(self.classes);
        let counters = match name {
            Hello::MANAGER => &self.counters.manager,
            _ => &self.counters.io_servers,
        };
        let server = server.drawing_on(self.budget.clone());
        server.counting(Arc::clone(counters))
    }

    /// Serves connections at `port`.
    fn serve(&self, port: Port, server: Rc<Server>) {
        let Port { provider, listen } = port;
        let serving = async move {
            let served = match listen() {
                Ok(listener) => server.serve(provider, listener).await,
                Err(error) => Err(error),
            };
            if let Err(error) = served {
                tracing::error!(%error, "a server of the volume ended");
            }
        };
        self.runtime.spawn("volume server", Box::pin(serving));
    }
}

/// The groups of a volume. A server that is in none gets some: the metadata may be a backup from before it was added.
fn groups_in(role: &ManagerRole) -> Outcome<(Groups, CopiesSetting)> {
    let (metadata, servers) = (&*role.metadata, role.io_servers.len() as u32);
    let (mut known, mut setting) = (Ok(Groups::of_servers(servers)), Ok(Default::default()));
    metadata.read(&mut |view| {
        known = groups(view, servers);
        setting = copies_setting(view);
    })?;
    let (known, setting) = (known?, setting?);
    if known.in_none(0..servers).is_empty() {
        return Ok((known, setting));
    }
    let addresses = role.io_servers.iter();
    let addresses = addresses.map(|it| it.is_known().then(|| it.clone()));
    let zones = role
        .groups
        .zones(&addresses.collect::<Vec<_>>(), setting.same_host);
    metadata
        .commit(&mut |store| begin_groups_in(store, &known, 0..servers, known.copies(), &zones))?;
    let mut begun = Ok(Groups::of_servers(servers));
    metadata.read(&mut |view| begun = groups(view, servers))?;
    Ok((begun?, setting))
}

/// Waits for at most a short time until the manager's term has begun. If too few I/O servers answer by then, the
/// manager keeps waiting for them, and so do its clients.
///
/// # Errors
/// The manager must not serve.
pub async fn has_begun_soon(runtime: &Handle, manager: &Manager) -> Result<(), TermError> {
    let begun = timeout(runtime, START_PATIENCE, manager.has_begun()).await;
    begun.unwrap_or(Ok(()))
}

/// The reason why a volume must not be served with this number of I/O servers.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServersCountError {
    /// Fewer servers are named than the volume has had, and files lie on all of those.
    #[error("it has had {noted} I/O servers, and {named} are named")]
    Fewer {
        /// The number of servers that the volume has had.
        noted: u32,
        /// The number of servers that are named now.
        named: u32,
    },
    /// The metadata cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Checks that the volume is served with as many I/O servers as it has ever had, and notes a larger number.
///
/// # Errors
/// - `Fewer`: it has had more servers.
/// - `Store`: the metadata cannot be read or written.
pub fn check_servers_count(metadata: &dyn MetaStore, named: u32) -> Result<(), ServersCountError> {
    let mut noted = Ok(0);
    metadata.read(&mut |view| noted = claims::servers_count(view))?;
    let noted = noted?;
    if named < noted {
        return Err(ServersCountError::Fewer { noted, named });
    }
    if named > noted {
        metadata.commit(&mut |store| claims::note_servers_count(store, named))?;
    }
    Ok(())
}

/// Notes that the I/O servers with these numbers have disks, so that files may have data there from now on.
///
/// # Errors
/// The metadata cannot be read or written.
pub fn note_served(metadata: &dyn MetaStore, numbers: &[u32]) -> Result<(), StoreError> {
    let mut new = Ok(Default::default());
    metadata.read(&mut |view| new = claims::new_servers(view))?;
    let mut new = new?;
    new.retain(|number| numbers.contains(number));
    if new.is_empty() {
        return Ok(());
    }
    metadata.commit(&mut |transaction| {
        let mut new = new.iter();
        new.try_for_each(|number| claims::note_served(transaction, *number))
    })
}

/// The token of a folder ([`Claimant::folder`]) of which these parts say where it is.
pub fn folder_token(parts: &[&[u8]]) -> Token {
    let mut hasher = blake3::Hasher::new_derive_key("gannet: the folder of an I/O server");
    for part in parts {
        hasher.update(&(part.len() as u64).to_be_bytes());
        hasher.update(part);
    }
    let mut token = Token::default();
    hasher.finalize_xof().fill(&mut token);
    token
}

/// The address that clients get for a server that listens at `listening`. The host is that of `said`, or else the
/// address that it listens at. It is empty if the server listens at all addresses.
pub fn reported_address(listening: SocketAddr, said: &Address) -> Address {
    let ip = listening.ip();
    let host = if !said.host.is_empty() {
        said.host.clone()
    } else if ip.is_unspecified() {
        String::new()
    } else {
        ip.to_string()
    };
    Address {
        host,
        port: listening.port(),
    }
}

/// The address at which a host reaches its own server that listens at `address`: loopback for an unspecified address.
pub fn local_address(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        address => address,
    }
}
