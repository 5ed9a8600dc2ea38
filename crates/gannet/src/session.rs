//! A connection to one export of a server, as the commands see it: URLs in, files out, errors explained.

mod contact;

use crate::cli::ClientOptions;
use crate::failure::{Explain, Failure};
use crate::url::{Scheme, Url};
use contact::Contact;
use gannet_fabric::Provider;
use gannet_iwarp::{IwarpConfig, IwarpProvider};
use gannet_nfs::client::{Client, Error, Files, Follow, Node};
use gannet_rpc::{CallError, CallerCredential, ClientConfig, Persistence, Request, Target};
use gannet_runtime::tokio_plug;
use gannet_runtime::{Handle, sleep, timeout};
use gannet_vfs::{FileHandle, Status};
use gannet_wire::mount3;
use gannet_wire::rpc::Groups;
use gannet_wire::xdr::Decoder;
use std::future::Future;
use std::net::{SocketAddr, ToSocketAddrs};
use std::rc::Rc;
use std::time::Duration;

/// How long a server may take to be found and to accept a connection.
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// Where rpcbind answers.
const RPCBIND_PORT: u16 = 111;
/// How long commands wait for a silent server unless `--timeout` says otherwise; copies wait for ever.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// Pause between two questions whether the server still answers.
const HEARTBEAT_PAUSE: Duration = Duration::from_secs(1);
/// A lost connection is made anew after pauses that grow from the first to the second of these.
const RECONNECT_PAUSE_MIN: Duration = Duration::from_millis(100);
const RECONNECT_PAUSE_MAX: Duration = Duration::from_secs(2);
/// Connections that may be accepted and give no answer before whoever accepts them is no NFS server.
const ANSWERLESS_MAX: u32 = 3;

/// A mounted export. Clones share the connection.
#[derive(Clone)]
pub struct Session {
    mounted: Rc<Mounted>,
}

struct Mounted {
    files: Files,
    /// How many components of a URL's path name the export.
    export_len: usize,
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
            ..ClientConfig::default()
        };
        let found = probe(&contact, url, target.clone(), &config).await?;
        let rpc = gannet_rpc::Client::new(Rc::clone(runtime), target, config);
        let client = Client::new(Rc::clone(runtime), rpc);
        let files = Files::at(client, found.root, &found.export).await;
        let files = files.map_err(|error| mount_failure(url, &error))?;
        let export_len = found.export_len;
        let mounted = Rc::new(Mounted { files, export_len });
        Ok(Session { mounted })
    }

    /// The mounted export.
    pub fn files(&self) -> &Files {
        &self.mounted.files
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

/// The export that holds a URL's path.
struct Probed {
    export: Vec<u8>,
    /// How many components of the path name it.
    export_len: usize,
    root: FileHandle,
}

/// Why nothing is mounted.
enum Unmounted {
    /// The NFS port gave no answer.
    Unanswered(Failure),
    /// It did, or something else is in the way: to ask again will not help.
    Refused(Failure),
}

impl Unmounted {
    fn of(error: &Error, failure: Failure) -> Unmounted {
        match error {
            Error::Call(CallError::NotConnected(_) | CallError::TimedOut) => {
                Unmounted::Unanswered(failure)
            }
            _ => Unmounted::Refused(failure),
        }
    }
}

/// Mounts what holds the URL's path, and asks again as long as [`Session::connect_with`] says.
async fn probe(
    contact: &Rc<Contact>,
    url: &Url,
    target: Target,
    config: &ClientConfig,
) -> Result<Probed, Failure> {
    let runtime = &(Rc::clone(contact) as Handle);
    let config = ClientConfig {
        reply_timeout: config.connect_timeout,
        persistence: Persistence::Soft { attempts: 1 },
        ..config.clone()
    };
    let (mut answerless, mut pause) = (0, RECONNECT_PAUSE_MIN);
    loop {
        let streams_before = contact.streams();
        let failure = match ask(runtime, url, target.clone(), &config).await {
            Ok(found) => return Ok(found),
            Err(Unmounted::Refused(failure)) => return Err(failure),
            Err(Unmounted::Unanswered(failure)) => failure,
        };
        answerless += u32::from(contact.streams() > streams_before);
        if answerless == 0 || answerless == ANSWERLESS_MAX {
            return Err(failure);
        }
        sleep(runtime, pause).await;
        pause = (pause * 2).min(RECONNECT_PAUSE_MAX);
    }
}

/// Asks the server once what it exports, and mounts what holds the URL's path.
async fn ask(
    runtime: &Handle,
    url: &Url,
    target: Target,
    config: &ClientConfig,
) -> Result<Probed, Unmounted> {
    let ip = target.address().ip();
    let at = |port| Target::Tcp(SocketAddr::new(ip, port));
    let connect = |target| gannet_rpc::Client::new(Rc::clone(runtime), target, config.clone());
    let nfs = Client::new(Rc::clone(runtime), connect(target));
    nfs.null()
        .await
        .map_err(|error| Unmounted::of(&error, connect_failure(url, &error)))?;
    let elsewhere = |port| Client::new(Rc::clone(runtime), connect(at(port)));
    let mut mounter = url.mount_port.map(elsewhere);
    let mut exports = mounter.as_ref().unwrap_or(&nfs).exports().await;
    if mounter.is_none() && matches!(exports, Err(Error::Call(CallError::NotExecuted(_)))) {
        // Most other servers answer MOUNT at a port of its own, which rpcbind knows.
        if let Some(port) = ask_rpcbind(&connect(at(RPCBIND_PORT))).await {
            exports = mounter.insert(elsewhere(port)).exports().await;
        }
    }
    let failed = |error: Error| {
        let failure = mount_failure(url, &error);
        match mounter {
            None => Unmounted::of(&error, failure),
            Some(_) => Unmounted::Refused(failure),
        }
    };
    let paths = exports.map_err(failed)?.into_iter();
    let paths: Vec<Vec<u8>> = paths.map(|export| export.path).collect();
    let (export, export_len) =
        best_export(&url.path, &paths).ok_or_else(|| Unmounted::Refused(no_export(url, &paths)))?;
    let root = mounter.as_ref().unwrap_or(&nfs).mount(&export).await;
    Ok(Probed {
        root: root.map_err(failed)?,
        export,
        export_len,
    })
}

fn no_export(url: &Url, paths: &[Vec<u8>]) -> Failure {
    let names = paths.iter().map(|path| path.escape_ascii().to_string());
    let names: Vec<_> = names.collect();
    Failure::new(format!("cannot mount {url}"), "no export holds this path")
        .hint(format!("the server exports {}", names.join(", ")))
}

/// The TCP port of MOUNT version 3, by the port mapper's procedure GETPORT (RFC 1833 section 3).
async fn ask_rpcbind(rpcbind: &gannet_rpc::Client) -> Option<u16> {
    const PORT_MAPPER: u32 = 100_000;
    const GETPORT: u32 = 3;
    const TCP: u32 = 6;
    let mut request = Request::new(PORT_MAPPER, 2, GETPORT, 4);
    let mut arguments = request.arguments();
    for word in [mount3::PROGRAM, mount3::VERSION, TCP, 0] {
        arguments.u32(word);
    }
    let response = rpcbind.call(request).await.ok()?;
    let port = Decoder::new(&response.results).u32().ok()?;
    u16::try_from(port).ok().filter(|port| *port != 0)
}

/// The longest export whose components begin `path`.
fn best_export(path: &[Vec<u8>], exports: &[Vec<u8>]) -> Option<(Vec<u8>, usize)> {
    let fits = |export: &Vec<u8>| {
        let parts: Vec<&[u8]> = export
            .split(|byte| *byte == b'/')
            .filter(|part| !part.is_empty())
            .collect();
        let is_prefix =
            parts.len() <= path.len() && parts.iter().zip(path).all(|(part, name)| part == name);
        is_prefix.then(|| (export.clone(), parts.len()))
    };
    exports.iter().filter_map(fits).max_by_key(|(_, len)| *len)
}

fn connect_failure(url: &Url, error: &Error) -> Failure {
    let what = format!("cannot connect to {}", server_of(url));
    let failure = match error {
        Error::Call(CallError::TimedOut) => {
            let why = "the connection ended without an answer, or none came in time";
            Failure::new(what, why)
        }
        error => Failure::new(what, error),
    };
    match (error, url.scheme) {
        (Error::Call(CallError::NotConnected(_) | CallError::TimedOut), Scheme::Tcp) => failure
            .hint("see whether the server runs and the port is right; `gannet serve` prints it"),
        (Error::Call(CallError::NotConnected(_) | CallError::TimedOut), Scheme::Rdma) => failure
            .hint("see whether the server runs and offers RDMA on this port, 20049 by default"),
        _ => failure.hint("see whether this is an NFSv3 server"),
    }
}

fn mount_failure(url: &Url, error: &Error) -> Failure {
    let failure = Failure::new(format!("cannot mount {url}"), error);
    match error {
        Error::Status(Status::Acces | Status::Perm) => {
            failure.hint("the server does not serve this client: see its --allow or `clients`")
        }
        Error::Call(CallError::NotExecuted(_)) => failure.hint(
            "the server does not answer MOUNT on its NFS port: name the port with ?mountport=PORT",
        ),
        _ => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::best_export;

    #[test]
    fn the_longest_export_that_holds_the_path_is_mounted() {
        let exports = ["/", "/a", "/a/b", "/abc"].map(|path| path.as_bytes().to_vec());
        let best = |path: &str| {
            let path: Vec<Vec<u8>> = path
                .split('/')
                .map(|part| part.as_bytes().to_vec())
                .collect();
            best_export(&path, &exports)
        };
        assert_eq!(best("a/b/c"), Some((b"/a/b".to_vec(), 2)));
        assert_eq!(best("a/x"), Some((b"/a".to_vec(), 1)));
        assert_eq!(best("ab"), Some((b"/".to_vec(), 0)));
        assert_eq!(best_export(&[b"x".to_vec()], &exports[1..]), None);
    }
}
