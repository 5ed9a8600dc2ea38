//! Where an administrator's requests come in: a Unix socket, or an address for some networks.

use gannet_nfs::server::Network;
use rustix::fs::Mode;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use thiserror::Error;

/// Where a server answers administrators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AdminAddress {
    /// A Unix socket, which only the user of the server can open.
    Unix(PathBuf),
    /// An address, with its port.
    Tcp(SocketAddr),
}

impl FromStr for AdminAddress {
    type Err = String;

    /// A path that has a `/`, or ADDRESS:PORT.
    fn from_str(text: &str) -> Result<AdminAddress, String> {
        if text.contains('/') {
            return Ok(AdminAddress::Unix(PathBuf::from(text)));
        }
        let address = text.parse().map(AdminAddress::Tcp);
        address.map_err(|_| {
            String::from("neither ADDRESS:PORT nor the path of a Unix socket, which has a `/`")
        })
    }
}

impl fmt::Display for AdminAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AdminAddress::Unix(path) => path.display().fmt(f),
            AdminAddress::Tcp(address) => address.fmt(f),
        }
    }
}

/// Why a server does not answer administrators.
#[derive(Debug, Error)]
pub enum AdminError {
    /// The socket cannot listen.
    #[error("cannot listen for administrators at {address}")]
    Listen {
        /// Where.
        address: AdminAddress,
        /// The system's reason.
        #[source]
        why: io::Error,
    },
    /// Another server answers at this path.
    #[error("another server answers administrators at {0}")]
    InUse(PathBuf),
    /// The address is reached from other machines, and no network was named.
    #[error("other machines reach {0}, and no network may read there")]
    Exposed(SocketAddr),
}

/// A socket that listens.
#[derive(Debug)]
pub struct AdminListener {
    socket: Socket,
    /// Networks whose hosts may read; this host always may.
    allowed: Vec<Network>,
}

#[derive(Debug)]
enum Socket {
    Unix(UnixListener, SocketFile),
    Tcp(TcpListener),
}

/// The path of a Unix socket, which goes with it.
#[derive(Debug)]
pub(super) struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Somebody else has removed it.
        let _ = rustix::fs::unlink(&self.0);
    }
}

impl AdminListener {
    /// Listens at `address`. Hosts of the networks `allowed` may read over TCP, and this host.
    ///
    /// # Errors
    /// [`AdminError::Listen`]; [`AdminError::InUse`] when somebody answers at the path; [`AdminError::Exposed`] for an
    /// address of other machines when no network is allowed.
    pub fn bind(
        address: &AdminAddress,
        allowed: Vec<Network>,
    ) -> Result<AdminListener, AdminError> {
        let failed = |why| AdminError::Listen {
            address: address.clone(),
            why,
        };
        let socket = match address {
            AdminAddress::Tcp(at) if !at.ip().is_loopback() && allowed.is_empty() => {
                return Err(AdminError::Exposed(*at));
            }
            AdminAddress::Tcp(at) => Socket::Tcp(TcpListener::bind(at).map_err(failed)?),
            AdminAddress::Unix(path) => {
                if UnixStream::connect(path).is_ok() {
                    return Err(AdminError::InUse(path.clone()));
                }
                bind_unix(path).map_err(failed)?
            }
        };
        Ok(AdminListener { socket, allowed })
    }

    /// Where it listens, with the port that was picked.
    pub fn address(&self) -> AdminAddress {
        match &self.socket {
            Socket::Unix(_, file) => AdminAddress::Unix(file.0.clone()),
            Socket::Tcp(listener) => {
                let unknown = SocketAddr::new(IpAddr::from([0, 0, 0, 0]), 0);
                AdminAddress::Tcp(listener.local_addr().unwrap_or(unknown))
            }
        }
    }

    /// The listener on the present runtime.
    pub(super) fn listen(self) -> io::Result<Listening> {
        let AdminListener { socket, allowed } = self;
        Ok(match socket {
            Socket::Unix(listener, file) => {
                listener.set_nonblocking(true)?;
                let listener = tokio::net::UnixListener::from_std(listener)?;
                Listening::Unix(listener, file)
            }
            Socket::Tcp(listener) => {
                listener.set_nonblocking(true)?;
                let listener = tokio::net::TcpListener::from_std(listener)?;
                Listening::Tcp(listener, allowed)
            }
        })
    }
}

/// Listens at a path, in place of a socket that nobody answers.
fn bind_unix(path: &Path) -> io::Result<Socket> {
    let stat = rustix::fs::lstat(path);
    let is_socket = |stat: rustix::fs::Stat| {
        rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::Socket
    };
    if stat.is_ok_and(is_socket) {
        rustix::fs::unlink(path)?;
    }
    // From its first moment nobody else can open it. Other threads that make files now would make them more private.
    let before = rustix::process::umask(Mode::from_raw_mode(0o177));
    let listener = UnixListener::bind(path);
    rustix::process::umask(before);
    Ok(Socket::Unix(listener?, SocketFile(path.to_owned())))
}

/// A listener on a runtime.
pub(super) enum Listening {
    #[allow(dead_code)] // The file is removed with the listener.
    Unix(tokio::net::UnixListener, SocketFile),
    Tcp(tokio::net::TcpListener, Vec<Network>),
}

/// A reader's connection.
pub(super) enum Connection {
    Unix(tokio::net::UnixStream),
    Tcp(tokio::net::TcpStream, Rights),
}

/// The rights of a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rights {
    /// Everything: the user who runs the server.
    All,
    /// Numbers, and addresses of clients: an administrator's network.
    Addresses,
    /// Numbers: users of this machine.
    Numbers,
}

impl Connection {
    pub(super) fn rights(&self) -> Rights {
        match self {
            Connection::Unix(_) => Rights::All,
            Connection::Tcp(_, rights) => *rights,
        }
    }
}

impl Listening {
    /// The next connection; `None` for one of an address that may not read.
    pub(super) async fn accept(&self) -> io::Result<Option<Connection>> {
        match self {
            Listening::Unix(listener, _) => {
                let (stream, _) = listener.accept().await?;
                Ok(Some(Connection::Unix(stream)))
            }
            Listening::Tcp(listener, allowed) => {
                let (stream, peer) = listener.accept().await?;
                let address = peer.ip().to_canonical();
                let rights = if allowed.iter().any(|network| network.contains(address)) {
                    Some(Rights::Addresses)
                } else {
                    address.is_loopback().then_some(Rights::Numbers)
                };
                Ok(rights.map(|rights| Connection::Tcp(stream, rights)))
            }
        }
    }
}
