//! Notifies systemd that the server is ready, for units of `Type=notify` (sd_notify(3)).

use crate::failure::{Explain, Failure};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Where systemd listens, in the environment of services that it waits for.
const VARIABLE: &str = "NOTIFY_SOCKET";

/// Notifies systemd, if it waits, that clients can connect.
///
/// # Errors
/// systemd waits, and cannot be notified.
pub(super) fn ready() -> Result<(), Failure> {
    let Some(socket) = std::env::var_os(VARIABLE) else {
        return Ok(());
    };
    send(&socket, b"READY=1").explain(|| format!("cannot tell systemd at {VARIABLE}={socket:?}"))
}

/// Sends a state to a socket of the file system, or to an abstract one, whose name has `@` for its first byte.
fn send(socket: &OsStr, state: &[u8]) -> io::Result<()> {
    let address = match socket.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(OsString::from(socket))?,
    };
    UnixDatagram::unbound()?.send_to_addr(state, &address)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notifications_reach_path_and_abstract_sockets() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("notify");
        let name = format!("@gannet-notify-{}", std::process::id());
        let abstract_name = SocketAddr::from_abstract_name(&name[1..]).unwrap();
        for (systemd, socket) in [
            (UnixDatagram::bind(&path).unwrap(), path.as_os_str()),
            (
                UnixDatagram::bind_addr(&abstract_name).unwrap(),
                OsStr::new(&name),
            ),
        ] {
            send(socket, b"READY=1").unwrap();
            let mut state = [0; 32];
            let length = systemd.recv(&mut state).unwrap();
            assert_eq!(&state[..length], b"READY=1");
        }
        assert!(send(OsStr::new("/no/such/socket"), b"READY=1").is_err());
    }
}
