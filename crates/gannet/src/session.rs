//! A connection to one export of a server, as the commands see it: URLs in, files out, errors explained.

mod contact;
mod probe;

use crate::cli::ClientOptions;
use crate::failure::{Explain, Failure};
use crate::url::{Scheme, Url};
use contact::Contact;
use gannet_fabric::Provider;
use gannet_iwarp::{IwarpConfig, IwarpProvider};
use gannet_nfs::client::{Client, Files, Follow, Node};
use gannet_rpc::{CallerCredential, ClientConfig, Persistence, Target};
use gannet_runtime::tokio_plug;
use gannet_runtime::{Handle, sleep, timeout};
use gannet_wire::rpc::Groups;
use probe::{mount_failure, probe};
use std::future::Future;
use std::net::{SocketAddr, ToSocketAddrs};
use std::rc::Rc;
use std::time::Duration;

/// How long a server may take to be found and to accept a connection.
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// How long commands wait for a silent server unless `--timeout` says otherwise; copies wait for ever.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// Pause between two questions whether the server still answers.
const HEARTBEAT_PAUSE: Duration = Duration::from_secs(1);
/// A lost connection is made anew after pauses that grow from the first to the second of these.
const RECONNECT_PAUSE_MIN: Duration = Duration::from_millis(100);
const RECONNECT_PAUSE_MAX: Duration = Duration::from_secs(2);

/// A mounted export. Clones share the connection.
#[derive(Clone)]
pub struct Session {
    mounted: Rc<Mounted>,
}

struct Mounted {
    files: Files,
    /// How many components of a URL's path name the export.
    export_len: usize,
    contact: Rc<Contact>,
    /// Connections that it took to mount.
    streams_to_mount: u64,
}

/// What a command does when the server falls silent.
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
    /// What is waited for: a server that was reached once, and then breaks or refuses connections, as it does while it
    /// restarts. What is not: one that cannot be reached at all, and one that was reached some times and never
    /// answered a call.
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
        let connecting = Session::establish(runtime, url, options);
        let Some(silence) = silence_max(options, patience) else {
            return connecting.await;
        };
        let connected = timeout(runtime, silence, connecting).await;
        connected.unwrap_or_else(|_| {
            let what = format!("cannot connect to {}", server_of(url));
            Err(silence_failure(what, silence))
        })
    }

    async fn establish(
        runtime: &Handle,
        url: &Url,
        options: &ClientOptions,
    ) -> Result<Session, Failure> {
        let address = resolve(runtime, url).await?;
        let contact = Contact::new(runtime);
        let runtime = &(Rc::clone(&contact) as Handle);
        let target = target(runtime, url, address, options);
        let config = ClientConfig {
            credential: credential(options),
            connect_timeout: options.timeout.unwrap_or(CONNECT_MAX).min(CONNECT_MAX),
            backoff_min: RECONNECT_PAUSE_MIN,
            backoff_max: RECONNECT_PAUSE_MAX,
            persistence: Persistence::Hard,
            registration: options.memory.registration()?,
            ..ClientConfig::default()
        };
        let found = probe(&contact, url, target.clone(), &config).await?;
        let rpc = gannet_rpc::Client::new(Rc::clone(runtime), target, config);
        let client = Client::new(Rc::clone(runtime), rpc).forgiving_echoes();
        let files = Files::at(client, found.root, &found.export).await;
        let files = files.map_err(|error| mount_failure(url, &error))?;
        let mounted = Mounted {
            files,
            export_len: found.export_len,
            streams_to_mount: contact.streams(),
            contact,
        };
        Ok(Session {
            mounted: Rc::new(mounted),
        })
    }

    /// The mounted export.
    pub fn files(&self) -> &Files {
        &self.mounted.files
    }

    /// How often the connection was lost and made anew since the export was mounted.
    pub fn reconnects(&self) -> u64 {
        self.mounted.contact.streams() - self.mounted.streams_to_mount
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

    /// What `url` names.
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
    /// Those of `work`, or the silence.
    pub async fn watch<T>(
        &self,
        runtime: &Handle,
        url: &Url,
        options: &ClientOptions,
        patience: Patience,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let Some(silence) = silence_max(options, patience) else {
            return work.await;
        };
        tokio::select! {
            outcome = work => outcome,
            failure = self.silence(runtime, url, silence) => Err(failure),
        }
    }

    /// Ends when the server has not answered for `max`.
    async fn silence(&self, runtime: &Handle, url: &Url, max: Duration) -> Failure {
        while timeout(runtime, max, self.mounted.files.client().null())
            .await
            .is_ok()
        {
            sleep(runtime, HEARTBEAT_PAUSE.min(max)).await;
        }
        silence_failure(format!("lost {}", server_of(url)), max)
    }
}

/// How long a server may be silent; `None` for ever.
fn silence_max(options: &ClientOptions, patience: Patience) -> Option<Duration> {
    match (options.timeout, patience) {
        (Some(silence), _) => Some(silence),
        (None, Patience::Bounded) => Some(SILENCE_MAX),
        (None, Patience::Endless) => None,
    }
}

fn silence_failure(what: String, max: Duration) -> Failure {
    let seconds = max.as_secs_f64();
    Failure::new(what, format!("no answer for {seconds} s"))
        .hint("see whether the server runs; --timeout SECONDS says how long to wait")
}

/// Runs a command's `work` on this thread.
///
/// # Errors
/// Those of `work`.
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
    watched
        .watch(runtime, url, options, Patience::Bounded, work(session))
        .await
}

fn server_of(url: &Url) -> String {
    format!("{}://{}:{}", url.scheme.name(), url.host, url.port)
}

/// The server's address; names are looked up by the system.
async fn resolve(runtime: &Handle, url: &Url) -> Result<SocketAddr, Failure> {
    let (host, port) = (url.host.clone(), url.port);
    let looked_up = gannet_runtime::run_blocking(runtime, move || {
        (host.as_str(), port)
            .to_socket_addrs()
            .map(|mut found| found.next())
    });
    let what = || format!("cannot find the host {}", url.host);
    match timeout(runtime, CONNECT_MAX, looked_up).await {
        Ok(Ok(Ok(Some(address)))) => Ok(address),
        Ok(Ok(Ok(None))) => Err(Failure::new(what(), "it has no address")),
        Ok(Ok(Err(error))) => Err(Failure::new(what(), error)),
        Ok(Err(_)) | Err(_) => Err(Failure::new(what(), "the name service does not answer")),
    }
}

fn target(runtime: &Handle, url: &Url, address: SocketAddr, options: &ClientOptions) -> Target {
    match url.scheme {
        Scheme::Tcp => Target::Tcp(address),
        Scheme::Rdma => {
            let config = IwarpConfig {
                crc: options.crc.is_on(),
                ..IwarpConfig::default()
            };
            let provider = IwarpProvider::new(Rc::clone(runtime), config);
            Target::Rdma(provider as Rc<dyn Provider>, address)
        }
    }
}

/// The caller's own identity, unless the options say otherwise.
fn credential(options: &ClientOptions) -> CallerCredential {
    let groups: Vec<u32> = rustix::process::getgroups()
        .unwrap_or_default()
        .into_iter()
        .map(rustix::process::Gid::as_raw)
        .collect();
    let name = rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned();
    CallerCredential::Sys {
        machine_name: name,
        uid: options
            .uid
            .unwrap_or_else(|| rustix::process::geteuid().as_raw()),
        gid: options
            .gid
            .unwrap_or_else(|| rustix::process::getegid().as_raw()),
        groups: Groups::new(&groups),
    }
}
