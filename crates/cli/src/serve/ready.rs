//! The line that says where clients can connect, on standard output and in a file.

use gannet::volume::Listening;
use std::net::SocketAddr;

/// `ready nfs-tcp=A:P nfs-rdma=A:P`; `off` for what does not listen. Servers of a volume follow: `native=A:P` for the
/// manager, `io-server-N=A:P` for those that run without it.
pub(super) fn line(
    tcp: Option<SocketAddr>,
    rdma: Option<SocketAddr>,
    volume: Option<&Listening>,
) -> String {
    let text = |address: Option<SocketAddr>| {
        address.map_or_else(|| String::from("off"), |address| address.to_string())
    };
    let mut line = format!("ready nfs-tcp={} nfs-rdma={}", text(tcp), text(rdma));
    if let Some(volume) = volume {
        match volume.manager {
            Some(address) => line.push_str(&format!(" native={address}")),
            None => {
                let words = volume.io_servers.iter();
                let words = words.map(|(number, at)| format!(" io-server-{number}={at}"));
                line.extend(words);
            }
        }
    }
    line
}
