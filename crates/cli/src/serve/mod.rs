//! `gannet serve`: directories or a volume, sockets, cores, signals.

mod notify;
mod privileges;
mod ready;
mod reload;
mod settings;
mod users;

use crate::admin_address;
use crate::audit::AuditLog;
use crate::bench::measure::rounded;
use crate::cli::{Listen, ServeOptions};
use crate::failure::{Explain, Failure};
use crate::output;
use crate::process::{EarlySignals, Signals};
use crate::volume::{self, explain};
use gannet::admin::{Admin, AdminListener, ReloadRequest};
use gannet::server::{Content, FabricError, FabricListener, Parts, Serving, Tally, VolumeClients};
use gannet::volume::{Host, HostCounters, HostOptions, Listening, OpenHost, VolumeWatch};
use gannet_metrics::{Counter, SlowOperations};
use gannet_rpc::{Counters, RdmaOptions};
use gannet_runtime::Handle;
use gannet_runtime::tokio_plug::{self, SharedListener};
use notify::Systemd;
use reload::Reload;
use settings::{OpenTrees, Settings};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use users::SystemUsers;

/// Serves until SIGTERM or SIGINT.
///
/// # Errors
/// A directory, a socket or the configuration cannot be used; what to do is said.
pub fn run(options: &ServeOptions) -> Result<(), Failure> {
    gannet_localfs::survive_file_size_limit();
    // Before any other thread starts.
    privileges::confine()?;
    let settings = Settings::resolve(options)?;
    let (host, has_hung_up) = open_host(&settings)?;
    let folder = settings.folder();
    let (tcp, rdma) = listen(&settings)?;
    let admin = admin_address::listen(settings.admin.as_ref(), &settings.admin_clients)?;
    privileges::sockets_are_open()?;
    let audit = open_audit_log(&settings)?;
    let mut trees = OpenTrees::default();
    let clients = host.as_ref().and_then(volume_clients);
    let content = content(&settings, host.is_some(), clients.as_ref(), &mut trees)?;
    let has_exports = !matches!(content, Content::Nothing);
    let parts = Parts {
        content,
        cores: settings.cores,
        tcp,
        rdma,
        budget: settings.budget.clone(),
        connections: settings.connections,
        rdma_options: settings.rdma,
        user_groups: settings.manage_gids.then(|| Arc::new(SystemUsers) as _),
        slow: Arc::new(SlowOperations::new(settings.slow)),
        audit: audit.as_ref().map(|audit| audit.shared() as _),
    };
    let of_volume = host.as_ref().map(|it| (it.counters(), it.listening()));
    let volume = of_volume.as_ref().map(|(_, listening)| listening.clone());
    let volume_watch = host.as_ref().map(OpenHost::watch);
    let keys = host.as_ref().map(OpenHost::keys);
    let host = host.map(OpenHost::start).transpose();
    let mut host = host.map_err(|error| explain(&folder, error))?;
    settings.warn_about_exposure();
    let failing = async {
        match &mut host {
            Some(host) => explain(&folder, host.failed().await),
            None => std::future::pending().await,
        }
    };
    let rdma_options = parts.rdma.is_some().then_some(settings.rdma);
    let watched = Watched {
        admin,
        volume_watch,
    };
    let reload = Reload {
        options,
        settings,
        trees,
        volume: clients,
        has_exports,
        keys,
        audit: audit.as_ref().map(AuditLog::shared),
        has_hung_up,
    };
    let served = |_| supervise(parts, volume, reload, watched, failing);
    let served = tokio_plug::block_on(served).explain(|| String::from("cannot serve"));
    // All calls in progress have their replies. A manager that has failed gives its journal up too, as one that stops:
    // another one need not wait.
    let ended = host
        .map_or(Ok(()), Host::stop)
        .map_err(|error| explain(&folder, error));
    let tally = served??;
    ended?;
    if let Some((counters, volume)) = &of_volume {
        report_volume(counters, volume);
    }
    report(&tally, rdma_options);
    Ok(())
}

/// The trees that are served.
fn content(
    settings: &Settings,
    is_volume: bool,
    clients: Option<&VolumeClients>,
    trees: &mut OpenTrees,
) -> Result<Content, Failure> {
    Ok(match clients {
        _ if !is_volume => Content::Directories(settings.open_exports(trees)?),
        Some(clients) => Content::Volume(settings.exports()?, Arc::clone(clients)),
        // Without the manager there are no names to export.
        None => Content::Nothing,
    })
}

/// The audit log, if the settings have one. It starts a thread, which has the capabilities of this one.
fn open_audit_log(settings: &Settings) -> Result<Option<AuditLog>, Failure> {
    let Some(options) = &settings.audit else {
        return Ok(None);
    };
    let opened = AuditLog::open(options).map_err(|error| {
        let what = format!("cannot write the audit log {}", options.path.display());
        let hint = match error.kind() {
            io::ErrorKind::ResourceBusy => "give each server an audit log of its own",
            _ => "name a file in a folder that this user can write, and no symbolic link",
        };
        Failure::new(what, error).hint(hint)
    });
    opened.map(Some)
}

/// The servers of the volume that this process runs, if it runs any, and whether SIGHUP came meanwhile.
fn open_host(settings: &Settings) -> Result<(Option<OpenHost>, bool), Failure> {
    let Some((path, options)) = &settings.volume else {
        return Ok((None, false));
    };
    let options = HostOptions {
        watched: settings.admin.is_some(),
        ..options.clone()
    };
    // A manager may stand by for long. The thread ends before this one gives up the right to open sockets.
    let signals = EarlySignals::install().explain(|| String::from("cannot wait for signals"))?;
    let opened = OpenHost::open(&volume::open(path)?, &options);
    let opened = opened.map_err(|error| explain(path, error))?;
    Ok((Some(opened), signals.has_hung_up()))
}

/// How cores reach the volume, if the manager runs in this process.
fn volume_clients(host: &OpenHost) -> Option<VolumeClients> {
    let front = host.front()?;
    Some(Arc::new(move |runtime: Handle| front.client(runtime)))
}

/// Says what the servers of a volume did.
fn report_volume(counters: &HostCounters, volume: &Listening) {
    let manager = volume
        .manager
        .is_some()
        .then_some(("manager", &counters.manager));
    let has_io_servers = !volume.io_servers.is_empty();
    let io_servers = has_io_servers.then_some(("I/O servers", &counters.io_servers));
    for (role, counters) in manager.into_iter().chain(io_servers) {
        tracing::info!(
            role,
            connections = counters.connections.total(),
            refused = counters.refused.total(),
            requests = counters.requests.total(),
            bytes_in = counters.bytes_in.total(),
            bytes_out = counters.bytes_out.total(),
            "volume stopped"
        );
    }
}

/// The sum over the cores of one of their numbers.
fn total(tally: &Tally, of: impl Fn(&Counters) -> u64) -> u64 {
    tally.counters().into_iter().map(of).sum()
}

/// The last lines of the log; one about registered memory where there was RDMA.
fn report(tally: &Tally, rdma: Option<RdmaOptions>) {
    let total = |of: fn(&Counters) -> &Counter| total(tally, |core| of(core).total());
    tracing::info!(
        connections = total(|core| &core.connections),
        refused = total(|core| &core.refused),
        dropped = total(|core| &core.drops),
        calls = total(|core| &core.calls),
        replays = total(|core| &core.replays),
        transport_errors = total(|core| &core.transport_errors),
        unreadable = total(|core| &core.unreadable),
        held_back_ms = total(|core| &core.starved_ns) / 1_000_000,
        bytes_in = total(|core| &core.bytes_in),
        bytes_out = total(|core| &core.bytes_out),
        "stopped"
    );
    if let Some(options) = rdma {
        report_registrations(tally, options);
    }
}

/// Says what registering memory came to.
fn report_registrations(tally: &Tally, options: RdmaOptions) {
    let (all, regions) = (tally.registrations(), tally.regions());
    let milliseconds = |time: Duration| rounded(time.as_secs_f64() * 1e3, 3);
    tracing::info!(
        strategy = %options.registration.kind(),
        design = %options.design,
        registrations = all.registrations,
        hits = all.hits,
        fallbacks = all.fallbacks,
        file_ranges = regions.file_ranges_registered,
        file_ranges_copied = regions.file_ranges_copied,
        pinned_bytes_peak = all.bytes_peak,
        register_ms = milliseconds(all.register_time),
        deregister_ms = milliseconds(all.deregister_time),
        copied_bytes = all.copied_bytes,
        copy_ms = milliseconds(all.copy_time),
        longest_exposure_ms = milliseconds(all.longest_exposure),
        exposed_replies = total(tally, |core| core.exposures.total()),
        exposed_bytes_peak = total(tally, |core| core.exposed.peak()),
        exposed_overdue = total(tally, |core| core.overdue.total()),
        "registered memory"
    );
}

/// Starts the cores, says that they are ready, waits for a signal or until something is `failing`, and ends them.
async fn supervise(
    parts: Parts,
    volume: Option<Listening>,
    mut reload: Reload<'_>,
    watched: Watched,
    failing: impl Future<Output = Failure>,
) -> Result<Tally, Failure> {
    let mut signals =
        Signals::install_for_service().explain(|| String::from("cannot wait for signals"))?;
    let serving = Serving::start(parts);
    let serving = serving.explain(|| String::from("cannot start the serving threads"))?;
    let (tally, reloader) = (serving.tally(), serving.reloader());
    let (stop, join) = serving.split();
    if reload.settings.volume.is_none() {
        tally.registry().add(reload.settings.tree_counters());
    }
    if let Some(audit) = &reload.audit {
        tally.registry().add(Arc::clone(audit) as _);
        let audit = Arc::clone(audit);
        signals.on_reopen(move || audit.reopen());
    }
    // The sockets listen already: a reader of the line can connect.
    let mut line = ready::line(tally.tcp_address(), tally.rdma_address(), volume.as_ref());
    let (asking, mut asked_to_reload) = mpsc::channel(1);
    // Answers until this function ends, so that a reader sees calls under way come to their end.
    let _admin = watched.start(&tally, asking, &mut line)?;
    if let Some(path) = &reload.settings.ready_file {
        output::ready_file(path, &line)?;
    }
    output::line(&line)?;
    let systemd = Rc::new(Systemd::from_environment());
    systemd.ready()?;
    let (watched, asked) = (Rc::clone(&systemd), tally.clone());
    tokio::task::spawn_local(async move {
        watched.keep_alive(async || asked.read().await.health).await;
    });
    tracing::info!(cores = reload.settings.cores, "{line}");
    let joined = tokio::task::spawn_blocking(join);
    let mut failed = None;
    let ended_early = tokio::select! {
        name = reload.until_end(&mut signals, &mut asked_to_reload, &reloader) => {
            tracing::info!(signal = name, "stopping: replying to calls in progress first");
            false
        }
        why = failing => {
            failed = Some(why);
            false
        }
        () = stop.ended_early() => true,
    };
    systemd.stopping();
    // Where every core has ended by itself, `join` explains why.
    stop.stop();
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
    failed.map_or(Ok(tally), Err)
}

/// The answers to administrators.
struct Watched {
    admin: Option<AdminListener>,
    /// The state of the volume's servers.
    volume_watch: Option<VolumeWatch>,
}

impl Watched {
    /// Answers administrators from now on, and adds their address to the ready line.
    ///
    /// # Errors
    /// There is no thread for it.
    fn start(
        self,
        tally: &Tally,
        reloads: mpsc::Sender<ReloadRequest>,
        line: &mut String,
    ) -> Result<Option<Admin>, Failure> {
        let volume = self.volume_watch.map(Arc::new);
        if let Some(volume) = &volume {
            tally.registry().add(Arc::clone(volume) as _);
        }
        let Some(listener) = self.admin else {
            return Ok(None);
        };
        line.push_str(&format!(" admin={}", listener.address()));
        let parts = volume.into_iter().map(|volume| volume as _).collect();
        let admin = Admin::start(listener, tally.clone(), parts, Some(reloads));
        admin
            .explain(|| String::from("cannot answer administrators"))
            .map(Some)
    }
}

/// The listeners of NFS over TCP and over RDMA.
fn listen(
    settings: &Settings,
) -> Result<(Option<SharedListener>, Option<FabricListener>), Failure> {
    let (cores, fabric) = (settings.cores, settings.fabric);
    let tcp = |address| SharedListener::bind(address, cores);
    let rdma = |address| FabricListener::bind(address, cores, fabric);
    Ok((
        bind("NFS over TCP", "--nfs-tcp", settings.nfs_tcp, tcp)?,
        bind("NFS over RDMA", "--nfs-rdma", settings.nfs_rdma, rdma)?,
    ))
}

/// Opens a listening socket, or explains why that cannot be.
fn bind<L, E: Into<FabricError>>(
    what: &str,
    option: &str,
    listen: Listen,
    bind: impl FnOnce(SocketAddr) -> Result<L, E>,
) -> Result<Option<L>, Failure> {
    let Listen::At(address) = listen else {
        return Ok(None);
    };
    match bind(address) {
        Ok(listener) => Ok(Some(listener)),
        Err(error) => {
            let failed = format!("cannot listen for {what} at {address}");
            Err(match error.into() {
                FabricError::Socket(error) => {
                    let hint = bind_hint(&error, option, address);
                    Failure::new(failed, error).hint(hint)
                }
                // It says the cure itself.
                FabricError::Device(error) => Failure::new(failed, error),
            })
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
