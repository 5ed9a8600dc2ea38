//! Starting the servers of a volume: what each must know first, in which order, with which patience.
//!
//! The manager has a [`Registry`], in which I/O servers register. An I/O server [`Claim`]s its disk before it serves:
//! an empty disk may be one that is not mounted, and only the manager knows whether data should be there. So servers
//! can start in any order, and each waits for what it needs.
//!
//! Production plugs in folders, sockets and threads (`gannet::volume`), the simulator its disks, its fabric and its
//! machines (`gannet_dst::volume`). Both run the code of this module.

mod claim;

pub use claim::{Claim, ClaimFailure, Claimed, Found, ObjectDisk};

use crate::client::{Resolver, registered_io_servers};
use crate::io_server::{IoServer, ServerPolicy};
use crate::limits::START_PATIENCE;
use crate::link::{Handler, Identity, TrafficClasses};
use crate::manager::{Manager, Registration, Registry, TermError};
use crate::secret::ServerKeys;
use crate::serve::Server;
use gannet_fabric::{Listener, Provider};
use gannet_meta::namespace::Outcome;
use gannet_meta::{MetaStore, StoreError, claims};
use gannet_runtime::{Handle, timeout};
use gannet_session::Budget;
use gannet_vfs::Vfs;
use gannet_wire::volume::{Address, Hello, RegisterRecord, Role, Stripes, Token};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use thiserror::Error;

/// What the servers of one volume have in common on a core.
#[derive(Clone)]
pub struct Host {
    /// The core.
    pub runtime: Handle,
    /// The volume's identity.
    pub volume: Token,
    /// The volume's keys.
    pub keys: ServerKeys,
    /// How the servers mark what they send.
    pub classes: TrafficClasses,
    /// What peers may make the servers hold.
    pub budget: Budget,
}

/// Where a server takes connections.
pub struct Port {
    /// What the server's connections run over, its own and those of its peers.
    pub provider: Rc<dyn Provider>,
    /// Begins to accept, once the server may answer.
    pub listen: Box<dyn FnOnce() -> io::Result<Box<dyn Listener>>>,
}

/// What a manager is made of.
pub struct ManagerRole {
    /// What people call the volume.
    pub name: String,
    /// Stripes of files whose directories and creators chose none.
    pub stripes: Stripes,
    /// Names, attributes, layouts.
    pub metadata: Arc<dyn MetaStore>,
    /// Where the I/O servers are, by their numbers; [`Address::default`] for those that have yet to register.
    pub io_servers: Vec<Address>,
    /// The address of I/O servers that register without a host: they run on the manager's.
    pub here: IpAddr,
    /// Finds I/O servers that are known by a host's name.
    pub resolver: Resolver,
    /// Where it listens.
    pub port: Port,
    /// Serve the metadata though I/O servers know of newer ones, or do not answer.
    pub force_term: bool,
}

/// What an I/O server is made of, when it is settled whether its disk may be served.
pub struct IoServerRole<D, V, F> {
    /// Its disk, and its number.
    pub claim: Claim<D>,
    /// What came of the claim so far.
    pub claimed: Claimed,
    /// The store on that disk.
    pub store: V,
    /// How it moves bytes.
    pub policy: ServerPolicy,
    /// Where it listens.
    pub port: Port,
    /// How it tells the manager where it is; `None` where both run in one process, which knows.
    pub registration: Option<Registration<F>>,
}

impl Host {
    /// Who a server of the volume is when it connects as `role`.
    pub fn identity(&self, role: Role) -> Identity {
        Identity {
            role,
            volume: self.volume,
            key: self.keys.between(role),
            classes: self.classes,
        }
    }

    /// How I/O server `number` tells the manager, which `find` finds, that it is at `address`.
    pub fn registration<F: AsyncFn() -> io::Result<SocketAddr>>(
        &self,
        provider: Rc<dyn Provider>,
        find: F,
        (number, address): (u32, Address),
    ) -> Registration<F> {
        Registration {
            runtime: Handle::clone(&self.runtime),
            provider,
            identity: self.identity(Role::IoServer),
            find,
            record: RegisterRecord { number, address },
        }
    }

    /// Starts the manager. It answers once its term has begun ([`has_begun_soon`]); `ended` hears why the term ends.
    ///
    /// # Errors
    /// The metadata cannot be used.
    pub fn start_manager(
        &self,
        role: ManagerRole,
        ended: impl FnOnce(TermError) + 'static,
    ) -> Outcome<Rc<Manager>> {
        let registry = Registry::new(role.name, role.stripes.clone(), role.io_servers);
        let servers = registered_io_servers(
            Handle::clone(&self.runtime),
            Rc::clone(&role.port.provider),
            self.identity(Role::Manager),
            (Rc::clone(&registry), role.here),
            role.resolver,
        );
        let clock = Handle::clone(&self.runtime);
        let manager = Manager::open(clock, role.metadata, self.keys, servers, role.stripes)?;
        if role.force_term {
            tracing::warn!("the metadata are served whatever I/O servers know of newer ones");
        }
        let ruling = Rc::clone(&manager).rule(role.force_term);
        let ruling = async move { ended(ruling.await) };
        self.runtime.spawn("manager's term", Box::pin(ruling));
        let handler = registry.before(Rc::clone(&manager) as Rc<dyn Handler>);
        self.serve(role.port, Hello::MANAGER, handler);
        Ok(manager)
    }

    /// Starts an I/O server: at once if its disk may be served, otherwise when the manager has allowed it. From then on
    /// it keeps the manager told where it is. `failed` hears why it does not serve.
    pub fn start_io_server<D, V, F>(
        &self,
        role: IoServerRole<D, V, F>,
        failed: impl FnOnce(ClaimFailure<D::Error>) + 'static,
    ) where
        D: ObjectDisk + 'static,
        V: Vfs,
        F: AsyncFn() -> io::Result<SocketAddr> + 'static,
    {
        let IoServerRole {
            claim,
            claimed,
            store,
            policy,
            port,
            registration,
        } = role;
        let host = self.clone();
        // Bounded by WIDTH_MAX.
        let name = Hello::io_server(claim.number);
        let serve = move |lost_below| {
            let handler = IoServer::with_policy(host.runtime.clone(), store, host.keys, policy);
            host.serve(port, name, handler.having_lost(lost_below));
        };
        let Some(registration) = registration else {
            match claimed {
                Claimed::Taken { lost_below } => serve(lost_below),
                Claimed::Asks => failed(ClaimFailure::NoManager),
            }
            return;
        };
        let registering = async move {
            let lost_below = match claimed {
                Claimed::Taken { lost_below } => lost_below,
                Claimed::Asks => match claim.ask(&registration).await {
                    Ok(lost_below) => lost_below,
                    Err(failure) => return failed(failure),
                },
            };
            serve(lost_below);
            registration.keep().await;
        };
        self.runtime.spawn("volume register", Box::pin(registering));
    }

    /// Has `handler`, the server that [`Hello::server`] calls `name`, answer at `port`.
    fn serve(&self, port: Port, name: u16, handler: Rc<dyn Handler>) {
        let Port { provider, listen } = port;
        let runtime = Handle::clone(&self.runtime);
        let server = Server::new(runtime, self.volume, self.keys, handler);
        let server = server.named(name).marking(self.classes);
        let server = server.drawing_on(self.budget.clone());
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

/// Waits a moment until the manager's term has begun. Where I/O servers are away the manager goes on waiting for them,
/// and its clients wait with it.
///
/// # Errors
/// It may not serve.
pub async fn has_begun_soon(runtime: &Handle, manager: &Manager) -> Result<(), TermError> {
    let begun = timeout(runtime, START_PATIENCE, manager.has_begun()).await;
    begun.unwrap_or(Ok(()))
}

/// Why a volume may not be served with so many I/O servers.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServersCountError {
    /// Files lie on all that it ever had.
    #[error("it has had {noted} I/O servers, and {named} are named")]
    Fewer {
        /// As many it has had.
        noted: u32,
        /// As many it is to have.
        named: u32,
    },
    /// The metadata fail.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Sees that the volume is served with as many I/O servers as it ever had, and notes if it has more now.
///
/// # Errors
/// See [`ServersCountError`].
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

/// Notes that the I/O servers with these numbers have disks: from now on files may have data there.
///
/// # Errors
/// The metadata fail.
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

/// The address that is reported to clients of a server that listens at `listening`: the host that is `said`, or else
/// the address that it listens at; none if it listens at all of them.
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

/// The address at which a host reaches its own server that listens at `address`.
pub fn local_address(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        address => address,
    }
}
