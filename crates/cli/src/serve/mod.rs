//! `gannet serve`: directories or a volume, sockets, cores, signals.

mod core;
mod pressure;
mod privileges;
mod ready;
mod settings;
mod users;

use crate::bench::measure::rounded;
use crate::cli::{Listen, ServeOptions};
use crate::failure::{Explain, Failure};
use crate::output;
use crate::process::Signals;
use crate::volume::{Front, Host, Listening, OpenHost, Volume};
use gannet_fabric::registration;
use gannet_localfs::LocalTree;
use gannet_nfs::server::{Export, MountList, UserGroups};
use gannet_rpc::{CacheLimits, ConnectionLimits, Counters, RdmaOptions, ReplyCache};
use gannet_runtime::tokio_plug::{self, Cores, SharedListener};
use gannet_session::Budget;
use settings::Settings;
use std::io;
use std::net::SocketAddr;
use std::ops::Add;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use users::SystemUsers;

/// How long calls under way may take to end after a signal.
const DRAIN_MAX: Duration = Duration::from_secs(5);

/// What all cores share.
struct Shared {
    content: Content,
    tcp: Option<SharedListener>,
    rdma: Option<SharedListener>,
    cache: Arc<ReplyCache>,
    counters: Arc<Counters>,
    /// What peers may make this process hold.
    budget: Budget,
    mounts: Arc<MountList>,
    /// MPA CRCs are asked for, whatever the client wants.
    crc: bool,
    /// For each core.
    connections: ConnectionLimits,
    rdma_options: RdmaOptions,
    /// Where groups of callers are looked up, if they are.
    user_groups: Option<Arc<dyn UserGroups>>,
    /// Servers of a volume that this process runs.
    volume: Option<Listening>,
    /// What the cores' registration strategies did, once they have ended.
    registrations: Mutex<registration::Counters>,
    /// Counts the times at which memory was short.
    pressure: watch::Receiver<u64>,
    /// Becomes true when the server shall end.
    stop: watch::Receiver<bool>,
    drain_max: Duration,
}

/// What is exported.
enum Content {
    Directories(Vec<(Export, Arc<LocalTree>)>),
    Volume(Vec<Export>, Arc<Front>),
    /// I/O servers alone run here.
    Nothing,
}

/// Serves until SIGTERM or SIGINT.
///
/// # Errors
/// A directory, a socket or the configuration cannot be used; what to do is said.
pub fn run(options: &ServeOptions) -> Result<(), Failure> {
    gannet_localfs::survive_file_size_limit();
    // Before any other thread starts.
    privileges::confine()?;
    let settings = Settings::resolve(options)?;
    let host = match &settings.volume {
        Some((path, options)) => Some(OpenHost::open(&Volume::open(path)?, options)?),
        None => None,
    };
    let cores = settings.cores;
    let tcp = bind("NFS over TCP", "--nfs-tcp", settings.nfs_tcp, cores)?;
    let rdma = bind("NFS over RDMA", "--nfs-rdma", settings.nfs_rdma, cores)?;
    privileges::sockets_are_open()?;
    let content = match (&host, host.as_ref().and_then(OpenHost::front)) {
        (None, _) => Content::Directories(settings.open_exports()?),
        (_, Some(front)) => Content::Volume(settings.exports()?, front),
        // Without the manager there are no names to export.
        (Some(_), None) => Content::Nothing,
    };
    let (stop, stopped) = watch::channel(false);
    let shared = Arc::new(Shared {
        content,
        volume: host.as_ref().map(OpenHost::listening),
        tcp,
        rdma,
        cache: Arc::new(ReplyCache::new(CacheLimits::default())),
        counters: Arc::default(),
        budget: settings.budget.clone(),
        mounts: Arc::default(),
        crc: settings.crc,
        connections: settings.connections,
        rdma_options: settings.rdma,
        user_groups: settings.manage_gids.then(|| Arc::new(SystemUsers) as _),
        registrations: Mutex::default(),
        pressure: pressure::watch_memory(),
        stop: stopped,
        drain_max: DRAIN_MAX,
    });
    let mut host = host.map(OpenHost::start).transpose()?;
    settings.warn_about_exposure();
    let what = || String::from("cannot serve");
    let failing = async {
        match &mut host {
            Some(host) => host.failed().await,
            None => std::future::pending().await,
        }
    };
    let served = |_| supervise(Arc::clone(&shared), settings, stop, failing);
    tokio_plug::block_on(served).explain(what)??;
    // Calls under way were answered: nobody needs the volume's servers any more.
    host.map_or(Ok(()), Host::stop)?;
    shared.report();
    Ok(())
}

impl Shared {
    /// The last lines of the log.
    fn report(&self) {
        let counters = &self.counters;
        tracing::info!(
            connections = counters.connections.total(),
            refused = counters.refused.total(),
            dropped = counters.drops.total(),
            calls = counters.calls.total(),
            replays = counters.replays.total(),
            transport_errors = counters.transport_errors.total(),
            unreadable = counters.unreadable.total(),
            held_back_ms = counters.starved_ns.total() / 1_000_000,
            bytes_in = counters.bytes_in.total(),
            bytes_out = counters.bytes_out.total(),
            "stopped"
        );
        if self.rdma.is_some() {
            self.report_registrations();
        }
    }

    /// A core has ended, whose strategies did this.
    fn note_registrations(&self, counters: impl Iterator<Item = registration::Counters>) {
        let mut all = self
            .registrations
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *all = counters.fold(*all, Add::add);
    }

    /// Says what registering memory came to.
    fn report_registrations(&self) {
        let all = *self
            .registrations
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let milliseconds = |time: Duration| rounded(time.as_secs_f64() * 1e3, 3);
        let counters = &self.counters;
        tracing::info!(
            strategy = %self.rdma_options.registration.kind(),
            design = %self.rdma_options.design,
            registrations = all.registrations,
            hits = all.hits,
            fallbacks = all.fallbacks,
            pinned_bytes_peak = all.bytes_peak,
            register_ms = milliseconds(all.register_time),
            deregister_ms = milliseconds(all.deregister_time),
            copied_bytes = all.copied_bytes,
            copy_ms = milliseconds(all.copy_time),
            longest_exposure_ms = milliseconds(all.longest_exposure),
            exposed_replies = counters.exposures.total(),
            exposed_bytes_peak = counters.exposed.peak(),
            exposed_overdue = counters.overdue.total(),
            "registered memory"
        );
    }
}

/// Starts the cores, says that they are ready, waits for a signal or until something is `failing`, and ends them.
async fn supervise(
    shared: Arc<Shared>,
    settings: Settings,
    stop: watch::Sender<bool>,
    failing: impl Future<Output = Failure>,
) -> Result<(), Failure> {
    let mut signals = Signals::install().explain(|| String::from("cannot wait for signals"))?;
    let for_cores = Arc::clone(&shared);
    let cores = Cores::start(settings.cores, move |index, runtime| {
        core::serve(index, runtime, Arc::clone(&for_cores))
    })
    .explain(|| String::from("cannot start the serving threads"))?;
    // The sockets listen already: whoever reads the line can connect.
    let line = ready::line(
        shared.tcp.as_ref().map(SharedListener::local_address),
        shared.rdma.as_ref().map(SharedListener::local_address),
        shared.volume.as_ref(),
    );
    if let Some(path) = &settings.ready_file {
        output::ready_file(path, &line)?;
    }
    output::line(&line)?;
    tracing::info!(cores = settings.cores, "{line}");
    let joined = tokio::task::spawn_blocking(move || cores.join());
    let mut failed = None;
    let ended_early = tokio::select! {
        name = signals.next() => {
            tracing::info!(signal = name, "stopping: calls under way are answered first");
            false
        }
        why = failing => {
            failed = Some(why);
            false
        }
        () = stop.closed() => true,
    };
    // Receivers are gone when every core has ended by itself, which `join` then explains.
    let _ = stop.send(true);
    if !ended_early {
        tokio::task::spawn_local(async move {
            signals.next().await;
            tracing::warn!("second signal: exiting at once");
            std::process::exit(0);
        });
    }
    joined
        .await
        .map_err(io::Error::other)
        .and_then(|ended| ended)
        .explain(|| String::from("serving ended"))?;
    failed.map_or(Ok(()), Err)
}

/// Opens a listening socket, or explains why that cannot be.
fn bind(
    what: &str,
    option: &str,
    listen: Listen,
    cores: usize,
) -> Result<Option<SharedListener>, Failure> {
    let Listen::At(address) = listen else {
        return Ok(None);
    };
    match SharedListener::bind(address, cores) {
        Ok(listener) => Ok(Some(listener)),
        Err(error) => {
            let hint = bind_hint(&error, option, address);
            Err(Failure::new(format!("cannot listen for {what} at {address}"), error).hint(hint))
        }
    }
}

fn bind_hint(error: &io::Error, option: &str, address: SocketAddr) -> String {
    let port = address.port();
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            format!(
                "another server has port {port}: stop it, or choose another with {option} ADDRESS:PORT"
            )
        }
        io::ErrorKind::PermissionDenied => {
            format!("ports below 1024 need root: choose another with {option} ADDRESS:PORT")
        }
        io::ErrorKind::AddrNotAvailable => {
            format!("no interface has this address: see `ip address`, and choose one with {option}")
        }
        _ => format!("choose another address with {option} ADDRESS:PORT, or `{option} off`"),
    }
}
