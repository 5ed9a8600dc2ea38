//! Finding the export that holds a URL's path, at servers that may be restarting, or none at all.

use super::connect::{RECONNECT_PAUSE_MAX, RECONNECT_PAUSE_MIN};
use super::contact::Contact;
use crate::ConnectError;
use crate::url::Url;
use gannet_nfs::client::{Client, Error};
use gannet_rpc::{CallError, ClientConfig, Persistence, Request, Target};
use gannet_runtime::{Handle, sleep};
use gannet_vfs::FileHandle;
use gannet_wire::mount3;
use gannet_wire::xdr::Decoder;
use std::net::SocketAddr;
use std::rc::Rc;

/// Where rpcbind answers.
const RPCBIND_PORT: u16 = 111;
/// Accepted connections without a reply after which the peer counts as no NFS server.
const ANSWERLESS_MAX: u32 = 3;

/// The export that holds a URL's path.
pub(super) struct Probed {
    pub(super) export: Vec<u8>,
    /// How many components of the path name it.
    pub(super) export_len: usize,
    pub(super) root: FileHandle,
    /// The connection on which the server has answered.
    pub(super) rpc: gannet_rpc::Client,
}

/// The reason why no export is mounted.
enum Unmounted {
    /// The NFS port gave no answer.
    Unanswered(ConnectError),
    /// Another failure, for which another attempt is of no use.
    Refused(ConnectError),
}

impl Unmounted {
    fn of(error: Error, why: fn(Error) -> ConnectError) -> Unmounted {
        match &error {
            Error::Call(CallError::NotConnected(_) | CallError::TimedOut) => {
                Unmounted::Unanswered(why(error))
            }
            _ => Unmounted::Refused(why(error)),
        }
    }
}

/// Mounts the export that holds the URL's path, and asks again as long as [`super::connect::connect`] says.
pub(super) async fn probe(
    contact: &Rc<Contact>,
    url: &Url,
    target: Target,
    config: &ClientConfig,
) -> Result<Probed, ConnectError> {
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

/// Asks the server once for its exports, and mounts the one that holds the URL's path.
async fn ask(
    runtime: &Handle,
    url: &Url,
    target: Target,
    config: &ClientConfig,
) -> Result<Probed, Unmounted> {
    let ip = target.address().ip();
    let at = |port| Target::Tcp(SocketAddr::new(ip, port));
    let connect = |target| gannet_rpc::Client::new(Rc::clone(runtime), target, config.clone());
    let rpc = connect(target);
    let nfs = Client::new(Rc::clone(runtime), rpc.clone());
    nfs.null()
        .await
        .map_err(|error| Unmounted::of(error, ConnectError::Unanswered))?;
    let elsewhere = |port| Client::new(Rc::clone(runtime), connect(at(port)));
    let mut mounter = url.mount_port.map(elsewhere);
    let mut exports = mounter.as_ref().unwrap_or(&nfs).exports().await;
    if mounter.is_none() && matches!(exports, Err(Error::Call(CallError::NotExecuted(_)))) {
        // Most other servers answer MOUNT at a port of its own, which rpcbind knows.
        if let Some(port) = ask_rpcbind(&connect(at(RPCBIND_PORT))).await {
            exports = mounter.insert(elsewhere(port)).exports().await;
        }
    }
    let failed = |error: Error| match mounter {
        None => Unmounted::of(error, ConnectError::Mount),
        Some(_) => Unmounted::Refused(ConnectError::Mount(error)),
    };
    let paths = exports.map_err(failed)?.into_iter();
    let paths: Vec<Vec<u8>> = paths.map(|export| export.path).collect();
    let Some((export, export_len)) = best_export(&url.path, &paths) else {
        return Err(Unmounted::Refused(ConnectError::NoExport(paths)));
    };
    let root = mounter.as_ref().unwrap_or(&nfs).mount(&export).await;
    Ok(Probed {
        root: root.map_err(failed)?,
        export,
        export_len,
        rpc,
    })
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
