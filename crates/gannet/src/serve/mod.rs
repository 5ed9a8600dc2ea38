//! `gannet serve`: directories, sockets, cores, signals.

mod core;
mod ready;
mod settings;

use crate::cli::{Listen, ServeOptions};
use crate::failure::{Explain, Failure};
use crate::output;
use gannet_fabric::registration::Registration;
use gannet_nfs::server::{Export, MountList};
use gannet_rpc::{CacheLimits, ConnectionLimits, Counters, ReplyCache};
use gannet_runtime::tokio_plug::{self, Cores, SharedListener};
use gannet_vfs::local::LocalTree;
use settings::Settings;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

/// How long calls under way may take to end after a signal.
const DRAIN_MAX: Duration = Duration::from_secs(5);

/// What all cores share.
struct Shared {
    exports: Vec<(Export, Arc<LocalTree>)>,
    tcp: Option<SharedListener>,
    rdma: Option<SharedListener>,
    cache: Arc<ReplyCache>,
    counters: Arc<Counters>,
    mounts: Arc<MountList>,
    /// MPA CRCs are asked for, whatever the client wants.
    crc: bool,
    /// For each core.
    connections: ConnectionLimits,
    registration: Registration,
    /// Becomes true when the server shall end.
    stop: watch::Receiver<bool>,
    drain_max: Duration,
}

/// Serves until SIGTERM or SIGINT.
///
/// # Errors
/// A directory, a socket or the configuration cannot be used; what to do is said.
pub fn run(options: &ServeOptions) -> Result<(), Failure> {
    gannet_vfs::local::survive_file_size_limit();
    let settings = Settings::resolve(options)?;
    let exports = settings.open_exports()?;
    let (stop, stopped) = watch::channel(false);
    let shared = Arc::new(Shared {
        exports,
        tcp: bind(
            "NFS over TCP",
            "--nfs-tcp",
            settings.nfs_tcp,
            settings.cores,
        )?,
        rdma: bind(
            "NFS over RDMA",
            "--nfs-rdma",
            settings.nfs_rdma,
            settings.cores,
        )?,
        cache: Arc::new(ReplyCache::new(CacheLimits::default())),
        counters: Arc::default(),
        mounts: Arc::default(),
        crc: settings.crc,
        connections: settings.connections,
        registration: settings.registration,
        stop: stopped,
        drain_max: DRAIN_MAX,
    });
    settings.warn_about_exposure();
    let what = || String::from("cannot serve");
    let served =
        tokio_plug::block_on(|_| supervise(Arc::clone(&shared), settings, stop)).explain(what)?;
    served?;
    let counters = &shared.counters;
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
    Ok(())
}

/// Starts the cores, says that they are ready, waits for a signal, and ends them.
async fn supervise(
    shared: Arc<Shared>,
    settings: Settings,
    stop: watch::Sender<bool>,
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
    );
    if let Some(path) = &settings.ready_file {
        ready::write_file(path, &line)?;
    }
    output::line(&line)?;
    tracing::info!(cores = settings.cores, "{line}");
    let joined = tokio::task::spawn_blocking(move || cores.join());
    let failed_early = tokio::select! {
        name = signals.next() => {
            tracing::info!(signal = name, "stopping: calls under way are answered first");
            None
        }
        () = stop.closed() => Some(()),
    };
    // Receivers are gone when every core has ended by itself, which `join` then explains.
    let _ = stop.send(true);
    if failed_early.is_none() {
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
        .explain(|| String::from("serving ended"))
}

/// SIGTERM and SIGINT.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn install() -> io::Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for either; its name.
    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
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
