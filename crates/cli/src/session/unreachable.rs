//! Why there is no connection, in words.

use super::server_of;
use crate::failure::Failure;
use gannet::ConnectError;
use gannet::url::{Scheme, Url};
use gannet_nfs::client::Error;
use gannet_rpc::CallError;
use gannet_vfs::Status;

/// Why there is no connection to the server of `url`, and what to do.
pub(super) fn failure(url: &Url, error: ConnectError) -> Failure {
    let host = || format!("cannot find the host {}", url.host);
    match error {
        ConnectError::Host { why, .. } => Failure::new(host(), why),
        ConnectError::NameService(_) => Failure::new(host(), "the name service does not answer"),
        ConnectError::Unanswered(error) => connect_failure(url, &error),
        ConnectError::Mount(error) => mount_failure(url, &error),
        ConnectError::NoExport(paths) => no_export(url, &paths),
        ConnectError::Volume(error) => {
            let what = format!("cannot use the volume at {}:{}", url.host, url.port);
            Failure::new(what, error).hint(
                "check that `gannet serve --volume` runs there and that --volume-key is the `client-key` of its volume",
            )
        }
        other => Failure::new(format!("cannot connect to {}", server_of(url)), other),
    }
}

fn no_export(url: &Url, paths: &[Vec<u8>]) -> Failure {
    let names = paths.iter().map(|path| path.escape_ascii().to_string());
    let names: Vec<_> = names.collect();
    Failure::new(
        format!("cannot mount {url}"),
        "no export contains this path",
    )
    .hint(format!("the server exports {}", names.join(", ")))
}

fn connect_failure(url: &Url, error: &Error) -> Failure {
    let what = format!("cannot connect to {}", server_of(url));
    let failure = match error {
        Error::Call(CallError::TimedOut) => {
            let why = "the connection ended without a reply, or the reply was late";
            Failure::new(what, why)
        }
        error => Failure::new(what, error),
    };
    match (error, url.scheme) {
        (Error::Call(CallError::NotConnected(_) | CallError::TimedOut), Scheme::Tcp) => failure
            .hint("check that the server runs and the port is right; `gannet serve` prints it"),
        (Error::Call(CallError::NotConnected(_) | CallError::TimedOut), Scheme::Rdma) => failure
            .hint("check that the server runs and offers RDMA on this port, 20049 by default"),
        _ => failure.hint("check that this is an NFSv3 server"),
    }
}

fn mount_failure(url: &Url, error: &Error) -> Failure {
    let failure = Failure::new(format!("cannot mount {url}"), error);
    match error {
        Error::Status(Status::Acces | Status::Perm) => {
            failure.hint("the server refuses this client: check its --allow or `clients`; with --secure it serves only ports below 1024")
        }
        Error::Call(CallError::NotExecuted(_)) => failure.hint(
            "the server does not answer MOUNT on its NFS port: name the port with ?mountport=PORT",
        ),
        _ => failure,
    }
}
