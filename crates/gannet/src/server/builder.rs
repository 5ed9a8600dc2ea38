//! A directory, or a volume, served by a few calls.

use super::{Content, Parts, Serving, Stop, default_budget};
use super::{FabricError, FabricListener};
use crate::FabricOptions;
#[cfg(feature = "volumes")]
use crate::volume::{Host, HostOptions, OpenHost, Volume, VolumeError};
use gannet_localfs::{
    LocalOptions, LocalTree, OpenError, own_credentials, survive_file_size_limit,
};
use gannet_nfs::server::{Export, ExportError, Network, Rules, Squash};
use gannet_rpc::{ConnectionLimits, RdmaOptions};
use gannet_runtime::tokio_plug::{SharedListener, available_cores};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// A directory or a volume that is served, until this is dropped or stopped.
pub struct Server {
    tcp: SocketAddr,
    rdma: SocketAddr,
    stop: Stop,
    /// `None` after the end was awaited.
    join: Option<Box<dyn FnOnce() -> io::Result<()> + Send>>,
    /// The servers of the volume, and the address of its manager.
    #[cfg(feature = "volumes")]
    host: Option<(Host, SocketAddr)>,
}

/// The reason why a server did not start, or has ended.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServerError {
    /// Neither a directory nor a volume was named.
    #[error("there is no directory to serve")]
    NoDirectory,
    /// The volume cannot be served.
    #[cfg(feature = "volumes")]
    #[error(transparent)]
    Volume(#[from] VolumeError),
    /// The directory cannot be served.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The export cannot be made, for instance because one client network is listed twice.
    #[error(transparent)]
    Export(#[from] ExportError),
    /// Other machines can reach an address, and no clients are named.
    #[error("cannot serve at {0}: the export has no list of clients")]
    Exposed(SocketAddr),
    /// An address cannot be listened at.
    #[error("cannot listen at {address}: {why}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's reason.
        why: io::Error,
    },
    /// An RDMA device cannot be used.
    #[error("cannot listen on an RDMA device: {0}")]
    Device(gannet_verbs::VerbsError),
    /// The system refuses threads.
    #[error("cannot start: {0}")]
    Start(io::Error),
    /// A core could not start, or panicked.
    #[error("serving ended: {0}")]
    Ended(io::Error),
}

/// How to serve a directory or a volume. The defaults: loopback, free ports, root squashed, all cores.
#[derive(Debug, Clone)]
#[must_use]
pub struct Builder {
    directory: Option<PathBuf>,
    #[cfg(feature = "volumes")]
    volume: Option<PathBuf>,
    #[cfg(feature = "volumes")]
    native: SocketAddr,
    tcp: SocketAddr,
    rdma: SocketAddr,
    clients: Vec<Network>,
    rules: Rules,
    cores: usize,
    local: LocalOptions,
}

impl Builder {
    /// The directory; it becomes the export `/`.
    pub fn directory(self, path: impl AsRef<Path>) -> Builder {
        let directory = Some(path.as_ref().to_owned());
        Builder { directory, ..self }
    }

    /// The folder of a volume, in place of a directory: its manager and all of its I/O servers run in this process, and
    /// it becomes the export `/`.
    #[cfg(feature = "volumes")]
    pub fn volume(self, path: impl AsRef<Path>) -> Builder {
        let volume = Some(path.as_ref().to_owned());
        Builder { volume, ..self }
    }

    /// The address of a volume's manager, and without its port that of the I/O servers; port 0 picks a free one. Any
    /// client that reaches the address and has the volume's client key may use the volume.
    #[cfg(feature = "volumes")]
    pub fn native(self, native: SocketAddr) -> Builder {
        Builder { native, ..self }
    }

    /// Where NFS over TCP listens; port 0 picks a free one.
    pub fn tcp(self, tcp: SocketAddr) -> Builder {
        Builder { tcp, ..self }
    }

    /// Where NFS over RDMA listens; port 0 picks a free one.
    pub fn rdma(self, rdma: SocketAddr) -> Builder {
        Builder { rdma, ..self }
    }

    /// Lets clients of this network use the export. Without any network, every peer that reaches an address is
    /// admitted; starting then fails with [`ServerError::Exposed`] unless all addresses are loopback addresses.
    pub fn allow(mut self, network: Network) -> Builder {
        self.clients.push(network);
        self
    }

    /// Refuses every change.
    pub fn read_only(mut self) -> Builder {
        self.rules.read_only = true;
        self
    }

    /// Gives root of the clients the rights of root.
    pub fn no_root_squash(mut self) -> Builder {
        self.rules.squash = Squash::None;
        self
    }

    /// Makes every caller the user and group of this process. Root that may not take on the identities of its callers
    /// (CAP_SETUID, CAP_SETGID) serves a directory in this way alone.
    pub fn squash_all_to_server(mut self) -> Builder {
        self.rules.squash = Squash::All;
        self
    }

    /// How many threads serve; at least one.
    pub fn cores(self, cores: usize) -> Builder {
        let cores = cores.max(1);
        Builder { cores, ..self }
    }

    /// Where the key of file handles is kept, so that they outlive this process; see [`LocalOptions::state_dir`].
    pub fn state_directory(mut self, path: impl AsRef<Path>) -> Builder {
        self.local.state_dir = Some(path.as_ref().to_owned());
        self
    }

    /// Opens the directory or the volume and the sockets, and serves.
    ///
    /// # Errors
    /// See [`ServerError`].
    pub fn start(self) -> Result<Server, ServerError> {
        survive_file_size_limit();
        let is_reached = |address: &&SocketAddr| !address.ip().to_canonical().is_loopback();
        if let (true, Some(address)) = (
            self.clients.is_empty(),
            [&self.tcp, &self.rdma].into_iter().find(is_reached),
        ) {
            return Err(ServerError::Exposed(*address));
        }
        let mut export = Export::new("/")?.with_clients(self.clients.clone())?;
        export.rules = self.rules;
        if self.rules.squash == Squash::All {
            let own = own_credentials();
            (export.anonymous_uid, export.anonymous_gid) = (own.uid, own.gid);
        }
        #[cfg(feature = "volumes")]
        if let Some(path) = &self.volume {
            return self.start_volume(path, export);
        }
        let directory = self.directory.as_ref().ok_or(ServerError::NoDirectory)?;
        let local = LocalOptions {
            callers_are_server: export.squashes_all_to(&own_credentials()),
            ..self.local.clone()
        };
        let tree = LocalTree::open(directory, &local)?;
        self.serve(Content::Directories(vec![(export, tree)]))
    }

    #[cfg(feature = "volumes")]
    fn start_volume(&self, path: &Path, export: Export) -> Result<Server, ServerError> {
        let options = HostOptions {
            native: Some(self.native),
            threads: self.cores,
            ..HostOptions::default()
        };
        let host = OpenHost::open(&Volume::open(path)?, &options)?;
        let (Some(front), Some(manager)) = (host.front(), host.listening().manager) else {
            // All servers run here.
            return Err(ServerError::Volume(VolumeError::NoManagerAddress));
        };
        let clients = move |runtime| front.client(runtime);
        let content = Content::Volume(vec![export], std::sync::Arc::new(clients));
        let host = host.start()?;
        match self.serve(content) {
            Ok(mut server) => {
                server.host = Some((host, manager));
                Ok(server)
            }
            Err(error) => {
                // The volume is free again when this returns; why it is not served is said.
                let _ = host.stop();
                Err(error)
            }
        }
    }

    fn serve(&self, content: Content) -> Result<Server, ServerError> {
        let budget = default_budget();
        let parts = Parts {
            content,
            cores: self.cores,
            tcp: Some(listen(self.tcp, self.cores)?),
            rdma: Some(listen_rdma(self.rdma, self.cores)?),
            connections: ConnectionLimits::within(&budget, self.cores),
            budget,
            rdma_options: RdmaOptions::default(),
            user_groups: None,
            slow: Default::default(),
            audit: None,
        };
        let serving = Serving::start(parts).map_err(ServerError::Start)?;
        let address = |listening: Option<SocketAddr>, asked| listening.unwrap_or(asked);
        let tally = serving.tally();
        let tcp = address(tally.tcp_address(), self.tcp);
        let rdma = address(tally.rdma_address(), self.rdma);
        let (stop, join) = serving.split();
        Ok(Server {
            tcp,
            rdma,
            stop,
            join: Some(Box::new(join)),
            #[cfg(feature = "volumes")]
            host: None,
        })
    }
}

fn listen_rdma(address: SocketAddr, cores: usize) -> Result<FabricListener, ServerError> {
    let bound = FabricListener::bind(address, cores, FabricOptions::default());
    bound.map_err(|why| match why {
        FabricError::Socket(why) => ServerError::Listen { address, why },
        FabricError::Device(why) => ServerError::Device(why),
    })
}

fn listen(address: SocketAddr, cores: usize) -> Result<SharedListener, ServerError> {
    let bound = SharedListener::bind(address, cores);
    bound.map_err(|why| ServerError::Listen { address, why })
}

impl Server {
    /// A server with the default options.
    pub fn builder() -> Builder {
        let local = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
        Builder {
            directory: None,
            #[cfg(feature = "volumes")]
            volume: None,
            #[cfg(feature = "volumes")]
            native: local,
            tcp: local,
            rdma: local,
            clients: Vec::new(),
            rules: Rules {
                read_only: false,
                squash: Squash::Root,
                secure: false,
            },
            cores: available_cores(),
            local: LocalOptions::default(),
        }
    }

    /// Where NFS over TCP listens.
    pub fn tcp_address(&self) -> SocketAddr {
        self.tcp
    }

    /// Where NFS over RDMA listens.
    pub fn rdma_address(&self) -> SocketAddr {
        self.rdma
    }

    /// Where the manager of the volume listens, if a volume is served.
    #[cfg(feature = "volumes")]
    pub fn native_address(&self) -> Option<SocketAddr> {
        self.host.as_ref().map(|(_, manager)| *manager)
    }

    /// The URL by which this machine reaches the volume, if one is served; the client key of the volume is needed.
    #[cfg(feature = "volumes")]
    pub fn native_url(&self) -> Option<String> {
        let address = self.native_address();
        address.map(|address| format!("gannet://{address}/"))
    }

    /// Waits until a server of the volume ends by itself, and returns the reason: a manager that was replaced, for
    /// instance. Waits for ever if a directory is served.
    #[cfg(feature = "volumes")]
    pub async fn failed(&mut self) -> VolumeError {
        match &mut self.host {
            Some((host, _)) => host.failed().await,
            None => std::future::pending().await,
        }
    }

    /// The URL by which this machine reaches it over TCP.
    pub fn tcp_url(&self) -> String {
        format!("nfs://{}/", self.tcp)
    }

    /// The URL by which this machine reaches it over RDMA.
    pub fn rdma_url(&self) -> String {
        format!("nfs+rdma://{}/", self.rdma)
    }

    /// Ends the server, and waits until calls under way are answered, for some seconds at most. Blocks.
    ///
    /// # Errors
    /// [`ServerError::Ended`], or [`ServerError::Volume`] if a server of the volume had ended by itself: a manager that
    /// was replaced, for instance.
    pub fn stop(mut self) -> Result<(), ServerError> {
        self.stop.stop();
        let joined = self.join.take().map_or(Ok(()), |join| join());
        // All calls in progress have their replies: the volume's servers are not needed any more.
        #[cfg(feature = "volumes")]
        if let Some((mut host, _)) = self.host.take() {
            let failure = host.failure();
            host.stop()?;
            failure.map_or(Ok(()), Err)?;
        }
        joined.map_err(ServerError::Ended)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.stop();
    }
}
