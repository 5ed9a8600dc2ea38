//! From a URL to files, on the core of a runtime.

use super::contact::Contact;
use super::options::{ConnectOptions, machine_name};
use super::probe::probe;
use super::remote::Remote;
use crate::ConnectError;
use crate::provider::Ways;
use crate::url::{Scheme, Url};
use gannet_client::Files;
use gannet_nfs::client::{Client, NfsFs};
use gannet_rpc::{CallerCredential, ClientConfig, Persistence, Target};
use gannet_runtime::{ErasedFuture, Handle, run_blocking, timeout};
use gannet_vfs::Credentials;
use gannet_wire::rpc::Groups;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::rc::Rc;
use std::time::Duration;

/// A lost connection is made anew after pauses that grow from the first to the second of these.
pub(super) const RECONNECT_PAUSE_MIN: Duration = Duration::from_millis(100);
pub(super) const RECONNECT_PAUSE_MAX: Duration = Duration::from_secs(2);

/// How long a server may take to hear that an export is no longer used.
const FAREWELL_MAX: Duration = Duration::from_secs(2);

/// A mounted export or a volume, on one core.
pub struct Connection {
    /// Its files, as the caller of the options sees them.
    pub files: Files<Remote>,
    /// The export's path for MOUNT; empty for a volume.
    pub export: Vec<u8>,
    /// How many components of the URL's path name the export.
    pub export_len: usize,
    contact: Rc<Contact>,
    /// Connections that it took to mount.
    streams_to_mount: u64,
}

impl Connection {
    fn new(
        files: Files<Remote>,
        contact: Rc<Contact>,
        export: Vec<u8>,
        export_len: usize,
    ) -> Connection {
        Connection {
            files,
            export,
            export_len,
            streams_to_mount: contact.streams(),
            contact,
        }
    }

    /// The runtime that makes its connections.
    pub fn runtime(&self) -> Handle {
        Rc::clone(&self.contact) as Handle
    }

    /// The connected file system, for a front end that requests objects by their handles.
    ///
    /// # Errors
    /// The server does not answer.
    #[cfg(feature = "mount")]
    pub(crate) async fn front_end(&self) -> Result<Rc<Remote>, gannet_nfs::client::Error> {
        let remote = self.files.objects().file_system();
        let Some(client) = remote.nfs() else {
            return Ok(Rc::clone(remote));
        };
        let export = NfsFs::open(client.clone(), self.files.root(), machine_name()).await?;
        Ok(Rc::new(Remote::Nfs(export.for_front_end().await?)))
    }

    /// Notifies the server that the export is no longer used. Correctness does not depend on it, and it takes two
    /// seconds at most.
    pub async fn farewell(&self) {
        if let Some(client) = self.files.objects().file_system().nfs() {
            let unmounted = client.unmount(&self.export);
            let _ = timeout(&self.runtime(), FAREWELL_MAX, unmounted).await;
        }
    }

    /// How often the connection was lost and made anew since the export was mounted.
    pub fn reconnects(&self) -> u64 {
        self.count_reconnects()()
    }

    /// As [`Connection::reconnects`], whenever the result is called.
    pub(crate) fn count_reconnects(&self) -> impl Fn() -> u64 + use<> {
        let remote = Rc::clone(self.files.objects().file_system());
        let (contact, to_mount) = (Rc::clone(&self.contact), self.streams_to_mount);
        move || match &*remote {
            Remote::Nfs(_) => contact.streams() - to_mount,
            #[cfg(feature = "volumes")]
            Remote::Volume(volume) => volume.reconnects(),
        }
    }
}

/// Connects to the server of `url`, and mounts the export that holds its path.
///
/// Waits for a server that was reached once and then breaks or refuses connections, as it does while it restarts. Does
/// not wait for one that cannot be reached at all, nor for one that accepts connections and never replies to a call.
///
/// # Errors
/// See [`ConnectError`].
pub fn connect<'a>(
    runtime: &'a Handle,
    url: &'a Url,
    options: &'a ConnectOptions,
) -> ErasedFuture<'a, Result<Connection, ConnectError>> {
    Box::pin(async move {
        let contact = Contact::new(runtime, url.scheme);
        let runtime = &(Rc::clone(&contact) as Handle);
        match url.scheme {
            Scheme::Native => connect_to_volume(runtime, url, options, contact).await,
            Scheme::Tcp | Scheme::Rdma => connect_to_export(runtime, url, options, contact).await,
        }
    })
}

async fn connect_to_export(
    runtime: &Handle,
    url: &Url,
    options: &ConnectOptions,
    contact: Rc<Contact>,
) -> Result<Connection, ConnectError> {
    let address = resolve(runtime, url).await?;
    let (target, other) = match url.scheme {
        Scheme::Tcp => (Target::Tcp(address), None),
        Scheme::Rdma | Scheme::Native => {
            let ways = options.fabric.towards(runtime, address);
            let Ways { preferred, other } = ways.map_err(ConnectError::Device)?;
            let by = |provider| Target::Rdma(provider, address);
            (by(preferred), other.map(by))
        }
    };
    let config = ClientConfig {
        credential: credential(&options.caller),
        connect_timeout: options.connect_max,
        backoff_min: RECONNECT_PAUSE_MIN,
        backoff_max: RECONNECT_PAUSE_MAX,
        persistence: Persistence::Hard,
        registration: options.registration,
        design: options.design,
        ..ClientConfig::default()
    };
    let found = probe(&contact, url, target, &config).await;
    let found = match (found, other) {
        (Err(ConnectError::Unanswered(why)), Some(other)) => {
            tracing::info!(%why, "no answer by the RDMA device: the software RNIC is used");
            probe(&contact, url, other, &config).await?
        }
        (found, _) => found?,
    };
    // A connection of its own would cost another set-up.
    found.rpc.be_patient(&config);
    let client = Client::new(Rc::clone(runtime), found.rpc).forgiving_echoes();
    let export = NfsFs::open(client, found.root, machine_name()).await;
    let export = Remote::Nfs(export.map_err(ConnectError::Mount)?);
    let files = Files::new(Rc::clone(runtime), export, options.caller.clone());
    Ok(Connection::new(
        files,
        contact,
        found.export,
        found.export_len,
    ))
}

#[cfg(feature = "volumes")]
async fn connect_to_volume(
    runtime: &Handle,
    url: &Url,
    options: &ConnectOptions,
    contact: Rc<Contact>,
) -> Result<Connection, ConnectError> {
    let volume = volume(runtime, url, options).await?;
    // Attributes are asked for when they are wanted.
    let volume = Remote::Volume(volume.without_attributes());
    let files = Files::new(Rc::clone(runtime), volume, options.caller.clone());
    Ok(Connection::new(files, contact, Vec::new(), 0))
}

#[cfg(not(feature = "volumes"))]
async fn connect_to_volume(
    _: &Handle,
    _: &Url,
    _: &ConnectOptions,
    _: Rc<Contact>,
) -> Result<Connection, ConnectError> {
    Err(ConnectError::NoVolumes)
}

/// A client of the volume of `url`, for the core of `runtime`. The manager has answered when this returns.
///
/// # Errors
/// See [`ConnectError`].
#[cfg(feature = "volumes")]
pub fn volume<'a>(
    runtime: &'a Handle,
    url: &'a Url,
    options: &'a ConnectOptions,
) -> ErasedFuture<'a, Result<gannet_volume::client::VolumeFs, ConnectError>> {
    use gannet_volume::client::{Addresses, Siblings, VolumeFs};
    Box::pin(async move {
        let (address, others) = resolve_all(runtime, url).await?;
        let ways = options.fabric.for_volumes().towards(runtime, address);
        let provider = ways.map_err(ConnectError::Device)?.preferred;
        let key = options.key.as_ref().ok_or(ConnectError::NoKey)?;
        let identity = key.client(options.classes);
        let addresses = Addresses {
            managers: std::iter::once(address).chain(others).collect(),
            io_servers: Vec::new(),
        };
        let clock = Handle::clone(runtime);
        let siblings = Siblings::new(runtime.random());
        let patience = options.patience;
        let client = VolumeFs::new(clock, provider, identity, addresses, siblings)
            .resolving(resolver(runtime))
            .patient(patience.unwrap_or(gannet_volume::limits::PATIENCE_MAX))
            .with_policy(options.policy)
            .with_reads(options.reads);
        let answered = client.volume().await;
        answered.map_err(ConnectError::Volume)?;
        Ok(client)
    })
}

/// The addresses of all hosts of a URL that have one.
///
/// # Errors
/// As [`resolve`], if none of them has one.
#[cfg(feature = "volumes")]
async fn resolve_all(
    runtime: &Handle,
    url: &Url,
) -> Result<(SocketAddr, Vec<SocketAddr>), ConnectError> {
    let hosts = url.hosts();
    let urls: Vec<Url> = hosts.map(|(host, port)| url.at(host, port)).collect();
    let found = urls.iter().map(|url| Box::pin(resolve(runtime, url)));
    let mut found = gannet_runtime::all(found).await.into_iter();
    let none = || Err(ConnectError::NameService(url.host.clone()));
    let mut first = found.next().unwrap_or_else(none);
    let mut others = Vec::new();
    for found in found {
        match found {
            Ok(address) if first.is_err() => first = Ok(address),
            Ok(address) => others.push(address),
            Err(error) => tracing::warn!(%error, "one of the managers is left out"),
        }
    }
    Ok((first?, others))
}

/// The server's address; names are looked up by the system.
///
/// # Errors
/// [`ConnectError::Host`], [`ConnectError::NameService`].
async fn resolve(runtime: &Handle, url: &Url) -> Result<SocketAddr, ConnectError> {
    let host = url.host.clone();
    let looked_up = find(runtime, url.host.clone(), url.port);
    match timeout(runtime, super::options::CONNECT_MAX, looked_up).await {
        Ok(found) => found.map_err(|why| ConnectError::Host { host, why }),
        Err(_) => Err(ConnectError::NameService(host)),
    }
}

/// The address of a host, looked up by the system.
///
/// # Errors
/// It has none, or the name service fails.
pub(crate) async fn find(runtime: &Handle, host: String, port: u16) -> io::Result<SocketAddr> {
    let looked_up = run_blocking(runtime, move || {
        let mut found = (host.as_str(), port).to_socket_addrs()?;
        let none = || io::Error::new(io::ErrorKind::NotFound, "it has no address");
        found.next().ok_or_else(none)
    });
    looked_up
        .await
        .map_err(|_| io::Error::other("shutting down"))?
}

/// Looks hosts up for the clients and the manager of a volume.
#[cfg(feature = "volumes")]
pub(crate) fn resolver(runtime: &Handle) -> gannet_volume::client::Resolver {
    let runtime = Handle::clone(runtime);
    Rc::new(move |host, port| {
        let runtime = Handle::clone(&runtime);
        let found: gannet_runtime::LocalFuture<io::Result<SocketAddr>> =
            Box::pin(async move { find(&runtime, host, port).await });
        found
    })
}

/// `caller`, as a connection calls for it.
fn credential(caller: &Credentials) -> CallerCredential {
    CallerCredential::Sys {
        machine_name: machine_name(),
        uid: caller.uid,
        gid: caller.gid,
        groups: Groups::new(caller.groups()),
    }
}

#[cfg(all(test, feature = "server"))]
mod tests {
    use super::*;
    use gannet_runtime::tokio_plug;

    /// The connection that finds the export is the one that uses it: a second one would cost another set-up.
    #[test]
    fn an_export_is_mounted_by_one_connection() {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("file"), "bytes").unwrap();
        let builder = crate::Server::builder().directory(place.path());
        let server = builder.state_directory(place.path()).start().unwrap();
        for url in [server.tcp_url(), server.rdma_url()] {
            let done = tokio_plug::block_on(async |runtime| {
                let (url, options) = (Url::parse(&url).unwrap(), ConnectOptions::default());
                let connection = connect(&runtime, &url, &options).await.unwrap();
                connection.files.stat(b"file").await.unwrap();
                assert_eq!(connection.contact.streams(), 1, "{url:?}");
                assert_eq!(connection.reconnects(), 0);
            });
            done.unwrap();
        }
    }
}
