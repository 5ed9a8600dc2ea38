//! The threads that run the servers of a volume, each with a core.

use super::{IoServerSeat, ManagerSeat, Registering, Roles, on_a_core};
use crate::client::connect::{find, resolver};
use crate::server::{CoreFabric, FabricListener};
use crate::volume::Place;
use crate::volume::create::describe_groups;
use crate::volume::error::{ManagerError, VolumeError};
use crate::volume::folder::FolderDisk;
use gannet_localfs::LocalStore;
use gannet_meta::MetaStore;
use gannet_runtime::tokio_plug::Cores;
use gannet_runtime::{Handle, all};
use gannet_verbs::VerbsError;
use gannet_volume::client::ManagerFinder;
use gannet_volume::host::{
    self, Claim, Claimed, IoServerRole, IoServerRun, ManagerRole, PeerAccess, Port,
};
use gannet_volume::io_server::ServerPolicy;
use gannet_volume::manager::{GroupsDescription, Manager, Registration};
use std::future::ready;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::{Arc, mpsc};

/// Starts the threads, and waits until the servers answer.
pub(super) fn run(roles: Roles) -> Result<Cores, VolumeError> {
    let (sender, started) = mpsc::channel();
    let (count, roles) = (roles.threads, Arc::new(roles));
    let threads = Cores::start(count, move |index, runtime| {
        serve(index, runtime, Arc::clone(&roles), sender.clone())
    });
    let threads = threads.map_err(VolumeError::Start)?;
    // The first thread sends one report, or ends without one.
    let gone = |error| VolumeError::Start(io::Error::other(error));
    let word = started.recv().map_err(gone)?;
    word.map_err(VolumeError::Manager)?;
    Ok(threads)
}

/// Runs the servers of one thread until they shall end. The first thread says whether the manager runs.
async fn serve(
    index: usize,
    runtime: Handle,
    roles: Arc<Roles>,
    started: mpsc::Sender<Result<(), ManagerError>>,
) {
    roles.counters.pools.add(&runtime);
    let own = (index..roles.io_servers.len()).step_by(roles.threads);
    let running = own.filter_map(|at| start_io_server(&runtime, &roles, at));
    let running: Vec<IoServerRun> = running.collect();
    if index == 0 {
        let outcome = match start_manager(&runtime, &roles) {
            Ok(Some(manager)) => {
                let begun = host::has_begun_soon(&runtime, &manager).await;
                begun.map_err(ManagerError::Term)
            }
            Ok(None) => Ok(()),
            Err(why) => Err(why),
        };
        let failed = outcome.is_err();
        // The caller that started the threads waits for this.
        let _ = started.send(outcome);
        if failed {
            return;
        }
    }
    drop(started);
    // An error means that the sender was dropped, which ends the servers as well.
    let _ = roles.stop.clone().wait_for(|stop| *stop).await;
    all(running.iter().map(|server| Box::pin(server.stop()))).await;
}

fn start_io_server(runtime: &Handle, roles: &Arc<Roles>, at: usize) -> Option<IoServerRun> {
    let seat = roles.io_servers.get(at)?;
    let port = port(runtime, roles, move |roles| {
        roles.io_servers.get(at).map(|seat| &seat.listener)
    });
    let port = match port {
        Ok(port) => port,
        Err(error) => {
            // One reason is enough to end.
            let _ = roles.failed.try_send(VolumeError::Device(error));
            return None;
        }
    };
    let peers = roles.peers(runtime, seat, &port);
    let role = IoServerRole {
        claim: seat.claim(runtime),
        claimed: seat.claimed,
        store: LocalStore::new(Arc::clone(&seat.tree), Handle::clone(runtime)),
        policy: ServerPolicy::default(),
        port,
        registration: roles.registration(runtime, seat),
        peers,
    };
    let (folder, failed) = (seat.folder.clone(), roles.failed.clone());
    let run = roles.host(runtime).start_io_server(role, move |failure| {
        // One reason is enough to end.
        let _ = failed.try_send(folder.refused(failure));
    });
    Some(run)
}

impl ManagerSeat {
    /// The parts of the volume's description that groups need.
    fn groups(&self) -> GroupsDescription {
        let path = self.path.clone();
        GroupsDescription {
            zones: self.zones.clone(),
            prepare: Some(Arc::new(move || describe_groups(&path))),
        }
    }
}

impl IoServerSeat {
    /// The claim of its folder, made by a core.
    fn claim(&self, runtime: &Handle) -> Claim<FolderDisk> {
        self.folder.claim(runtime, self.number, self.is_lost)
    }
}

impl Roles {
    /// The state that all servers on the core of `runtime` share.
    fn host(&self, runtime: &Handle) -> host::Host {
        host::Host {
            runtime: Handle::clone(runtime),
            volume: self.identity,
            keys: self.keys.clone(),
            classes: self.classes,
            budget: self.budget.clone(),
            counters: self.counters.clone(),
        }
    }

    /// How an I/O server that runs apart speaks to the manager.
    fn registration(
        &self,
        runtime: &Handle,
        seat: &IoServerSeat,
    ) -> Option<Registration<impl AsyncFn() -> io::Result<Vec<SocketAddr>> + use<>>> {
        let Registering {
            managers,
            record,
            folder,
        } = seat.register.clone()?;
        let clock = Handle::clone(runtime);
        let find = async move || find_all(&clock, &managers).await;
        let own = seat.listener.local_address().ip();
        // The listener of this address has found its device.
        let provider = self.fabric.at(runtime, own).ok()?;
        let host = self.host(runtime);
        Some(host.registration(provider, find, record, folder))
    }

    /// The way of an I/O server to the others.
    fn peers(&self, runtime: &Handle, seat: &IoServerSeat, port: &Port) -> PeerAccess {
        let find_manager: ManagerFinder = match (&seat.register, &self.manager) {
            (Some(register), _) => finder(runtime, &register.managers),
            (None, Some(manager)) => {
                let at = manager.listener.local_address();
                let at = SocketAddr::new(host::local_address(at.ip()), at.port());
                Rc::new(move || Box::pin(ready(Ok(vec![at]))))
            }
            (None, None) => Rc::new(|| Box::pin(ready(Err(io::ErrorKind::NotFound.into())))),
        };
        PeerAccess {
            provider: Rc::clone(&port.provider),
            find_manager,
            resolver: resolver(runtime),
        }
    }

    /// Asks the manager about a folder if it is empty.
    async fn ask_for_folder(
        &self,
        runtime: &Handle,
        seat: &IoServerSeat,
    ) -> Result<Claimed, VolumeError> {
        match (seat.claimed, self.registration(runtime, seat)) {
            (Claimed::Asks, Some(registration)) => {
                let claimed = seat.claim(runtime).ask_soon(&registration).await;
                claimed.map_err(|failure| seat.folder.refused(failure))
            }
            (claimed, _) => Ok(claimed),
        }
    }

    /// Asks the manager about folders that are empty, where it can be reached soon. Where it cannot, the servers listen
    /// and wait for it, so that servers may be started in any order.
    ///
    /// # Errors
    /// Some folder may not be served.
    pub(super) fn ask_for_folders(&mut self) -> Result<(), VolumeError> {
        let asks = |seat: &IoServerSeat| seat.claimed == Claimed::Asks;
        if !self.io_servers.iter().any(asks) {
            return Ok(());
        }
        let roles = &*self;
        let asked = on_a_core(async |runtime| {
            let seats = roles.io_servers.iter();
            all(seats.map(|seat| Box::pin(roles.ask_for_folder(&runtime, seat)))).await
        });
        let asked = asked.map_err(VolumeError::Ask)?;
        for (seat, claimed) in self.io_servers.iter_mut().zip(asked) {
            seat.claimed = claimed?;
        }
        Ok(())
    }
}

/// Finds the addresses of managers at these places.
pub(super) fn finder(runtime: &Handle, places: &[Place]) -> ManagerFinder {
    let (clock, places) = (Handle::clone(runtime), places.to_vec());
    Rc::new(move || {
        let (clock, places) = (Handle::clone(&clock), places.clone());
        Box::pin(async move { find_all(&clock, &places).await })
    })
}

/// The addresses of those of these hosts that have one.
///
/// # Errors
/// None has.
pub(super) async fn find_all(runtime: &Handle, places: &[Place]) -> io::Result<Vec<SocketAddr>> {
    let found = places
        .iter()
        .map(|Place(it)| Box::pin(find(runtime, it.host.clone(), it.port)));
    let (mut known, mut failed) = (Vec::new(), None);
    for found in all(found).await {
        match found {
            Ok(address) => known.push(address),
            Err(error) => failed = Some(error),
        }
    }
    match failed {
        Some(error) if known.is_empty() => Err(error),
        _ => Ok(known),
    }
}

/// Starts the manager, if this process has it.
fn start_manager(
    runtime: &Handle,
    roles: &Arc<Roles>,
) -> Result<Option<Rc<Manager>>, ManagerError> {
    let Some(seat) = &roles.manager else {
        return Ok(None);
    };
    let port = port(runtime, roles, |roles| {
        roles.manager.as_ref().map(|seat| &seat.listener)
    });
    let port = port.map_err(ManagerError::Device)?;
    let role = ManagerRole {
        name: seat.name.clone(),
        stripes: seat.stripes.clone(),
        metadata: Arc::clone(&seat.metadata) as Arc<dyn MetaStore>,
        io_servers: seat.servers.clone(),
        here: host::local_address(seat.listener.local_address().ip()),
        resolver: resolver(runtime),
        port,
        force_term: roles.force_term,
        groups: seat.groups(),
        has_io_servers: roles.io_servers.iter().map(|it| it.number).collect(),
    };
    let failed = roles.failed.clone();
    let manager = roles.host(runtime).start_manager(role, move |error| {
        // One reason is enough to end.
        let _ = failed.try_send(VolumeError::TermEnded(error));
    });
    let manager = manager.map_err(ManagerError::Metadata)?;
    if roles.watched {
        manager.list_leases();
        let watching = Rc::clone(&manager).watch_space();
        runtime.spawn("space of I/O servers", Box::pin(watching));
    }
    Ok(Some(manager))
}

/// Where a server takes connections: those that come to a listener of this thread alone.
fn port(
    runtime: &Handle,
    roles: &Arc<Roles>,
    listener: impl Fn(&Roles) -> Option<&FabricListener> + 'static,
) -> Result<Port, VerbsError> {
    // No connection comes before `listen` distributes them.
    let own = listener(roles).map(|listener| listener.for_core(0, runtime, |streams| streams));
    // A volume's connections have one provider.
    let own = own.transpose()?.and_then(|it| it.into_iter().next());
    let (provider, own) = match own {
        Some(CoreFabric { provider, listener }) => (provider, Ok(listener)),
        None => {
            let missing = io::Error::from(io::ErrorKind::NotFound);
            (roles.fabric.software(runtime) as _, Err(missing))
        }
    };
    let (clock, roles) = (Handle::clone(runtime), Arc::clone(roles));
    let runtime = Handle::clone(runtime);
    let listen = move || {
        let own = own?;
        let roles = Arc::clone(&roles);
        let accepting = async move {
            if let Some(socket) = listener(&roles)
                && let Err(error) = socket.distribute(&clock).await
            {
                tracing::error!(%error, "a server of the volume accepts no more");
            }
        };
        runtime.spawn("volume accept", Box::pin(accepting));
        Ok(own)
    };
    Ok(Port {
        provider,
        listen: Box::new(listen),
    })
}
