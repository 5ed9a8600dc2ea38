//! A directory served by a few calls.

use super::{Content, Parts, Serving, Stop, default_budget};
use gannet_localfs::{LocalOptions, LocalTree, OpenError, survive_file_size_limit};
use gannet_nfs::server::{Export, ExportError, Network, Rules, Squash};
use gannet_rpc::{ConnectionLimits, RdmaOptions};
use gannet_runtime::tokio_plug::{SharedListener, available_cores};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// A directory that is served, until this is dropped or stopped.
pub struct Server {
    tcp: SocketAddr,
    rdma: SocketAddr,
    stop: Stop,
    /// `None` once it was waited for.
    join: Option<Box<dyn FnOnce() -> io::Result<()> + Send>>,
}

/// Why a directory cannot be served.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServerError {
    /// No directory was named.
    #[error("no directory is named")]
    NoDirectory,
    /// The directory cannot be served.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Rules for clients make no sense.
    #[error(transparent)]
    Export(#[from] ExportError),
    /// Other machines can reach an address, and no clients are named.
    #[error("cannot serve at {0}: nothing says which clients may use it")]
    Exposed(SocketAddr),
    /// An address cannot be listened at.
    #[error("cannot listen at {address}: {why}")]
    Listen {
        /// Which.
        address: SocketAddr,
        /// What the system says.
        why: io::Error,
    },
    /// The system refuses threads.
    #[error("cannot start: {0}")]
    Start(io::Error),
}

/// How a directory is served: on loopback at free ports, with root squashed, on all cores, unless told otherwise.
#[derive(Debug, Clone)]
#[must_use]
pub struct Builder {
    directory: Option<PathBuf>,
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

    /// Where NFS over TCP listens; port 0 picks a free one.
    pub fn tcp(self, tcp: SocketAddr) -> Builder {
        Builder { tcp, ..self }
    }

    /// Where NFS over RDMA listens; port 0 picks a free one.
    pub fn rdma(self, rdma: SocketAddr) -> Builder {
        Builder { rdma, ..self }
    }

    /// Lets clients of this network use it; without any, who can reach it may, which must be this machine alone.
    pub fn allow(mut self, network: Network) -> Builder {
        self.clients.push(network);
        self
    }

    /// Refuses every change.
    pub fn read_only(mut self) -> Builder {
        self.rules.read_only = true;
        self
    }

    /// Takes root of the clients for root.
    pub fn no_root_squash(mut self) -> Builder {
        self.rules.squash = Squash::None;
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

    /// Opens the directory and the sockets, and serves.
    ///
    /// # Errors
    /// See [`ServerError`].
    pub fn start(self) -> Result<Server, ServerError> {
        survive_file_size_limit();
        let directory = self.directory.as_ref().ok_or(ServerError::NoDirectory)?;
        let is_reached = |address: &&SocketAddr| !address.ip().to_canonical().is_loopback();
        if let (true, Some(address)) = (
            self.clients.is_empty(),
            [&self.tcp, &self.rdma].into_iter().find(is_reached),
        ) {
            return Err(ServerError::Exposed(*address));
        }
        let mut export = Export::new("/")?.with_clients(self.clients.clone())?;
        export.rules = self.rules;
        let tree = LocalTree::open(directory, &self.local)?;
        let parts = Parts {
            content: Content::Directories(vec![(export, tree)]),
            cores: self.cores,
            tcp: Some(listen(self.tcp, self.cores)?),
            rdma: Some(listen(self.rdma, self.cores)?),
            budget: default_budget(),
            crc: false,
            connections: ConnectionLimits::default(),
            rdma_options: RdmaOptions::default(),
            user_groups: None,
        };
        let serving = Serving::start(parts).map_err(ServerError::Start)?;
        let address = |listening: Option<SocketAddr>, asked| listening.unwrap_or(asked);
        let tcp = address(serving.tcp_address(), self.tcp);
        let rdma = address(serving.rdma_address(), self.rdma);
        let (stop, join) = serving.split();
        Ok(Server {
            tcp,
            rdma,
            stop,
            join: Some(Box::new(join)),
        })
    }
}

fn listen(address: SocketAddr, cores: usize) -> Result<SharedListener, ServerError> {
    let bound = SharedListener::bind(address, cores);
    bound.map_err(|why| ServerError::Listen { address, why })
}

impl Server {
    /// A server with nothing settled but the defaults.
    pub fn builder() -> Builder {
        let local = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
        Builder {
            directory: None,
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

    /// The URL by which this machine reaches it over TCP.
    pub fn tcp_url(&self) -> String {
        format!("nfs://{}/", self.tcp)
    }

    /// The URL by which this machine reaches it over RDMA.
    pub fn rdma_url(&self) -> String {
        format!("nfs+rdma://{}/", self.rdma)
    }

    /// Ends it, and waits until calls under way are answered, for some seconds at most. Blocks.
    ///
    /// # Errors
    /// A core could not start, or panicked.
    pub fn stop(mut self) -> io::Result<()> {
        self.stop.stop();
        self.join.take().map_or(Ok(()), |join| join())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.stop();
    }
}
