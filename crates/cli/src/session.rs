//! A connection to one export of a server, as the commands see it: URLs in, files out, errors explained.

mod remote;
mod unreachable;
mod waiting;

use crate::cli::ClientOptions;
use crate::failure::{Explain, Failure};
use crate::volume;
use gannet::local::{self, Connection, Remote};
use gannet::url::{Scheme, Url};
use gannet::{ConnectOptions, ProviderKind};
use gannet_client::{Error, Files, Follow, Node, Objects};
use gannet_nfs::client::Client;
use gannet_runtime::tokio_plug;
use gannet_runtime::{ErasedFuture, Handle, timeout};
use gannet_vfs::{Credentials, EntryName, FileHandle, Vfs};
use gannet_volume::client::VolumeFs;
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

/// How long commands wait for a silent server unless `--timeout` says otherwise; copies wait for ever.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// Pause between two questions whether the server still answers.
const HEARTBEAT_PAUSE: Duration = Duration::from_secs(1);
/// The hint for a refusal when the caller is root.
pub(crate) const SQUASHED: &str = "servers take root for the anonymous user 65534 unless told otherwise: let that user \
     write there, call as another user with --uid, or serve with --no-root-squash";

/// A mounted export. Clones share the connection.
#[derive(Clone)]
pub struct Session {
    mounted: Rc<Connection>,
}

/// The reaction of a command to a silent server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// Fails after a while.
    Bounded,
    /// Waits until it is back.
    Endless,
}

impl Session {
    /// Connects to the server of `url` and mounts the export that holds its path, with bounded patience.
    ///
    /// # Errors
    /// See [`Session::connect_with`].
    pub async fn connect(
        runtime: &Handle,
        url: &Url,
        options: &ClientOptions,
    ) -> Result<Session, Failure> {
        Session::connect_with(runtime, url, options, Patience::Bounded).await
    }

    /// Connects to the server of `url` and mounts the export that holds its path.
    ///
    /// The call waits for a server that was reached once, and then breaks or refuses connections, as it does while
    /// it restarts. It fails for a server that cannot be reached at all. It also fails for one that was reached
    /// some times and never answered a call.
    ///
    /// # Errors
    /// Not reachable, not a server, nothing exported there, or silent for longer than `patience` and `--timeout`
    /// allow.
    pub async fn connect_with(
        runtime: &Handle,
        url: &Url,
        options: &ClientOptions,
        patience: Patience,
    ) -> Result<Session, Failure> {
        let silence = silence_max(options, patience);
        let connecting = Session::establish(runtime, url, options, silence);
        let connecting = waiting::connecting(runtime, url, connecting);
        let Some(silence) = silence else {
            return connecting.await;
        };
        let connected = timeout(runtime, silence, connecting).await;
        connected.unwrap_or_else(|_| {
            let what = format!("cannot connect to {}", server_of(url));
            Err(silence_failure(what, silence))
        })
    }

    /// Connects for a mount, whose operations on a volume are tried until `deadline`. A volume's manager may be that
    /// late as well.
    ///
    /// # Errors
    /// See [`Session::connect_with`].
    pub(crate) async fn connect_for_mount(
        runtime: &Handle,
        url: &Url,
        options: &ClientOptions,
        deadline: Duration,
    ) -> Result<Session, Failure> {
        match url.scheme {
            Scheme::Native => Session::establish(runtime, url, options, Some(deadline)).await,
            Scheme::Tcp | Scheme::Rdma => Session::connect(runtime, url, options).await,
        }
    }

    async fn establish(
        runtime: &Handle,
        url: &Url,
        options: &ClientOptions,
        silence: Option<Duration>,
    ) -> Result<Session, Failure> {
        let settled = settled(url, options, silence)?;
        let connected = local::connect(runtime, url, &settled).await;
        let mounted = connected.map_err(|error| unreachable::failure(url, error))?;
        Ok(Session {
            mounted: Rc::new(mounted),
        })
    }

    /// The mounted export, in paths.
    pub fn files(&self) -> &Files<Remote> {
        &self.mounted.files
    }

    /// The mounted export, in handles.
    pub fn objects(&self) -> &Objects<Remote> {
        self.mounted.files.objects()
    }

    /// The mounted export itself.
    pub fn remote(&self) -> &Remote {
        self.objects().file_system()
    }

    /// The connection below it.
    pub(crate) fn connection(&self) -> &Connection {
        &self.mounted
    }

    /// Asks the server, or a volume's manager, whether it is there.
    ///
    /// # Errors
    /// It does not say so.
    pub(crate) async fn ping(&self) -> Result<(), Failure> {
        remote::ping(self.remote()).await
    }

    /// The volume, if it is one.
    pub fn volume(&self) -> Option<&gannet_volume::client::VolumeFs> {
        self.remote().volume()
    }

    /// The connection of RPC, where files are reached by that.
    pub fn rpc(&self) -> Option<&gannet_rpc::Client> {
        self.remote().nfs().map(Client::rpc)
    }

    /// Makes an empty file for `replaced`, to take its place later, where a volume has it: the new file is striped like
    /// it. `None` anywhere else.
    pub(crate) async fn create_like(
        &self,
        replaced: &FileHandle,
        entry: EntryName<'_>,
        mode: u32,
    ) -> Option<Result<FileHandle, Error>> {
        let (objects, volume) = (self.objects(), self.remote().volume()?);
        let made = remote::create_like(volume, objects.caller(), replaced, entry, mode).await;
        Some(made.map_err(|status| objects.error(status)))
    }

    /// How often the connection was lost and made anew since the export was mounted.
    pub fn reconnects(&self) -> u64 {
        self.mounted.reconnects()
    }

    /// The path of `url` within the export.
    pub fn path_of(&self, url: &Url) -> Vec<u8> {
        let below = url.path.get(self.mounted.export_len..).unwrap_or_default();
        below.join(&b'/')
    }

    /// True when the export mounted for `known` holds the path of `url` as well.
    pub fn reaches(&self, known: &Url, url: &Url) -> bool {
        let export = known
            .path
            .get(..self.mounted.export_len)
            .unwrap_or_default();
        url.path.starts_with(export)
    }

    /// Finds the object that `url` names.
    ///
    /// # Errors
    /// Nothing is there, or it cannot be reached.
    pub async fn node(&self, url: &Url, follow: Follow) -> Result<Node, Failure> {
        let found = self.mounted.files.walk(&self.path_of(url), follow).await;
        found.explain(|| format!("cannot find {url}"))
    }

    /// Runs `work` until it ends, or until the server has been silent for too long.
    ///
    /// # Errors
    /// The errors of `work`, or a server that does not answer in time.
    pub async fn watch<T>(
        &self,
        runtime: &Handle,
        url: &Url,
        options: &ClientOptions,
        patience: Patience,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let mut done = None;
        let result = &mut done;
        let work = Box::pin(async move {
            *result = Some(work.await?);
            Ok(())
        });
        (self.watch_erased(runtime, url, options, patience, work)).await?;
        Ok(done.expect("work that succeeded left its result"))
    }

    /// As [`Self::watch`]. Not generic: it is compiled once for all commands.
    async fn watch_erased(
        &self,
        runtime: &Handle,
        url: &Url,
        options: &ClientOptions,
        patience: Patience,
        work: ErasedFuture<'_, Result<(), Failure>>,
    ) -> Result<(), Failure> {
        let outcome = match silence_max(options, patience) {
            None => self.reporting(runtime, url, work).await,
            Some(silence) => tokio::select! {
                outcome = self.reporting(runtime, url, work) => outcome,
                failure = self.silence(runtime, url, silence) => Err(failure),
            },
        };
        outcome.map_err(|failure| {
            if failure.is_denied() && self.may_be_squashed(options) {
                failure.or_hint(SQUASHED)
            } else {
                failure
            }
        })
    }

    /// Whether the server may take the caller for another one: it is root. (Servers of volumes do not.)
    pub(crate) fn may_be_squashed(&self, options: &ClientOptions) -> bool {
        self.remote().volume().is_none() && caller(options).uid == 0
    }
}

/// How long a server may be silent; `None` for ever.
fn silence_max(options: &ClientOptions, patience: Patience) -> Option<Duration> {
    match (options.call.timeout, patience) {
        (Some(silence), _) => Some(silence),
        (None, Patience::Bounded) => Some(SILENCE_MAX),
        (None, Patience::Endless) => None,
    }
}

fn silence_failure(what: String, max: Duration) -> Failure {
    let seconds = max.as_secs_f64();
    Failure::new(what, format!("no reply for {seconds} s"))
        .hint("check that the server runs; --timeout SECONDS sets the limit")
}

/// Runs a command's `work` on this thread.
///
/// # Errors
/// The errors of `work`.
pub fn run<F: Future<Output = Result<(), Failure>>>(
    work: impl FnOnce(Handle) -> F,
) -> Result<(), Failure> {
    tokio_plug::block_on(work).explain(|| String::from("cannot start"))?
}

/// Runs `work` on a session to `url`'s server, with bounded patience.
///
/// # Errors
/// The connection, or those of `work`.
pub async fn with_session<T, F: Future<Output = Result<T, Failure>>>(
    runtime: &Handle,
    url: &Url,
    options: &ClientOptions,
    work: impl FnOnce(Session) -> F,
) -> Result<T, Failure> {
    let session = Session::connect(runtime, url, options).await?;
    let watched = session.clone();
    let done = watched
        .watch(runtime, url, options, Patience::Bounded, work(session))
        .await;
    watched.remote().rest().await;
    done
}

fn server_of(url: &Url) -> String {
    format!("{}://{}:{}", url.scheme.name(), url.host, url.port)
}

/// The volume of `url`, whose operations are tried for as long as `silence` says.
///
/// # Errors
/// The host, the key or the manager cannot be used.
pub(crate) async fn volume_of(
    runtime: &Handle,
    url: &Url,
    options: &ClientOptions,
    silence: Option<Duration>,
) -> Result<VolumeFs, Failure> {
    let settled = settled(url, options, silence)?;
    let volume = local::volume(runtime, url, &settled).await;
    volume.map_err(|error| unreachable::failure(url, error))
}

/// The connection options for the server of `url`. Operations on a volume are tried for as long as `silence` says.
///
/// # Errors
/// The key of the volume cannot be used, or the way to register memory makes no sense.
fn settled(
    url: &Url,
    options: &ClientOptions,
    silence: Option<Duration>,
) -> Result<ConnectOptions, Failure> {
    let (call, memory) = (&options.call, &options.memory);
    check_paging(call.on_demand_paging, call.provider)?;
    let settled = ConnectOptions::default()
        .caller(caller(options))
        .patience(silence)
        .crc(call.crc.is_on())
        .provider(call.provider)
        .on_demand_paging(call.on_demand_paging)
        .memory(memory.registration()?, memory.design);
    let settled = match call.timeout {
        Some(max) => settled.connect_within(max),
        None => settled,
    };
    match url.scheme {
        Scheme::Native => volume::settled(settled, url, options),
        Scheme::Tcp | Scheme::Rdma => Ok(settled),
    }
}

/// Checks that a provider can leave pages of transfers unpinned, if it is asked to.
///
/// # Errors
/// It is the software RNIC alone.
pub(crate) fn check_paging(on_demand_paging: bool, provider: ProviderKind) -> Result<(), Failure> {
    if !on_demand_paging || provider != ProviderKind::Iwarp {
        return Ok(());
    }
    let why = "the software RNIC pins no memory";
    Err(Failure::usage("on-demand paging is for RDMA devices", why)
        .hint("use it with --provider verbs or --provider auto"))
}

/// The volume of a gannet:// URL, and the caller's credentials.
///
/// # Errors
/// It is another URL, or the volume cannot be reached.
pub(crate) async fn open_volume(
    runtime: &Handle,
    url: &Url,
    options: &ClientOptions,
) -> Result<(VolumeFs, Credentials), Failure> {
    if url.scheme != Scheme::Native {
        let what = format!("cannot look at {url}");
        return Err(Failure::usage(what, "it is not on a volume").hint("give a gannet:// URL"));
    }
    let silence = silence_max(options, Patience::Bounded);
    let volume = volume_of(runtime, url, options, silence).await?;
    Ok((volume, caller(options)))
}

/// The caller's own identity, unless the options say otherwise.
pub(crate) fn caller(options: &ClientOptions) -> Credentials {
    let own = local::own_credentials();
    let (uid, gid) = (options.call.uid, options.call.gid);
    Credentials::new(uid.unwrap_or(own.uid), gid.unwrap_or(own.gid), own.groups())
}
