//! Notifies systemd of the state of the server, for units of `Type=notify` with `WatchdogSec=` (sd_notify(3)).

use crate::failure::{Explain, Failure};
use gannet::server::Health;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// Where systemd listens, in the environment of services that it waits for.
const SOCKET: &str = "NOTIFY_SOCKET";
/// Microseconds after which systemd ends a service that says nothing.
const WATCHDOG: &str = "WATCHDOG_USEC";
/// The process that has to speak, if it is not any of the service.
const WATCHDOG_PROCESS: &str = "WATCHDOG_PID";
/// How soon cores are asked again that did not answer: one slow answer shall not end the server.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// The service manager that started this process, if one did.
pub(super) struct Systemd {
    socket: Option<OsString>,
    /// How long the server may say nothing.
    watchdog: Option<Duration>,
}

impl Systemd {
    /// Reads from the environment what systemd waits for.
    pub(super) fn from_environment() -> Systemd {
        Systemd {
            socket: std::env::var_os(SOCKET),
            watchdog: watchdog(|name| std::env::var(name).ok()),
        }
    }

    /// Notifies systemd that clients can connect.
    ///
    /// # Errors
    /// systemd waits, and cannot be notified.
    pub(super) fn ready(&self) -> Result<(), Failure> {
        let what = || format!("cannot tell systemd at {SOCKET}={:?}", self.socket);
        self.notify(b"READY=1\nSTATUS=serves").explain(what)
    }

    /// Notifies systemd that the server answers the calls under way, and ends.
    pub(super) fn stopping(&self) {
        self.try_notify(b"STOPPING=1");
    }

    /// Notifies the watchdog at half of its time, while every core answers; never ends.
    pub(super) async fn keep_alive(&self, health: impl AsyncFn() -> Health) {
        let Some(watchdog) = self.watchdog.filter(|_| self.socket.is_some()) else {
            return std::future::pending().await;
        };
        let mut is_stuck = false;
        loop {
            let wait = if let Health::Stuck(cores) = health().await {
                if !is_stuck {
                    let cores: Vec<_> = cores.iter().map(usize::to_string).collect();
                    let (cores, seconds) = (cores.join(","), watchdog.as_secs_f64());
                    tracing::error!(
                        cores,
                        seconds,
                        "cores do not answer: the watchdog is not notified"
                    );
                }
                is_stuck = true;
                ASK_AGAIN.min(watchdog / 2)
            } else {
                if is_stuck {
                    tracing::warn!("every core answers again");
                }
                is_stuck = false;
                self.try_notify(b"WATCHDOG=1");
                watchdog / 2
            };
            tokio::time::sleep(wait).await;
        }
    }

    fn try_notify(&self, state: &[u8]) {
        if let Err(error) = self.notify(state) {
            let state = String::from_utf8_lossy(state);
            tracing::warn!(%error, %state, "cannot notify systemd");
        }
    }

    fn notify(&self, state: &[u8]) -> io::Result<()> {
        self.socket
            .as_ref()
            .map_or(Ok(()), |socket| send(socket, state))
    }
}

/// Notifies systemd that a manager stands by: it has started, and is not stuck.
pub(super) fn standing_by(active: &str) {
    let state = format!("READY=1\nSTATUS=stands by for {active}\nWATCHDOG=1");
    Systemd::from_environment().try_notify(state.as_bytes());
}

/// The time of the watchdog, if it waits for this process.
fn watchdog(variable: impl Fn(&str) -> Option<String>) -> Option<Duration> {
    let own = std::process::id().to_string();
    let is_own = variable(WATCHDOG_PROCESS).is_none_or(|process| process == own);
    let microseconds = variable(WATCHDOG)?.parse().ok()?;
    (is_own && microseconds > 0).then(|| Duration::from_micros(microseconds))
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

    #[test]
    fn the_watchdog_is_for_the_process_that_it_names() {
        let of = |time: Option<&str>, process: Option<String>| {
            watchdog(|name| match name {
                WATCHDOG => time.map(str::to_owned),
                _ => process.clone(),
            })
        };
        let own = std::process::id();
        let second = Some(Duration::from_secs(1));
        assert_eq!(of(Some("1000000"), Some(own.to_string())), second);
        assert_eq!(of(Some("1000000"), None), second);
        assert_eq!(of(Some("1000000"), Some((own + 1).to_string())), None);
        assert_eq!(of(None, None), None);
        assert_eq!(of(Some("0"), None), None);
        assert_eq!(of(Some("never"), None), None);
    }
}
