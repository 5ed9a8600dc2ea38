//! The system's log: datagrams to `/dev/log`, which syslog daemons and systemd's journal read (RFC 3164, without the
//! time and the host, which the daemon adds).

use crate::output;
use std::io::{self, Write};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;

/// Where the daemon listens.
const SOCKET: &str = "/dev/log";
/// RFC 3164, section 4.1.1: facility 3 is that of system daemons; a priority is eight times the facility, plus the
/// severity.
const FACILITY: u8 = 3 << 3;

/// Severities of RFC 3164.
#[derive(Debug, Clone, Copy)]
#[repr(u8)]
enum Severity {
    Error = 3,
    Warning = 4,
    Informational = 6,
    Debug = 7,
}

/// The system's log.
pub(super) struct SystemLog {
    socket: UnixDatagram,
    daemon: PathBuf,
}

impl SystemLog {
    /// The log of this machine. That a daemon reads it is not checked: it may start later.
    ///
    /// # Errors
    /// The system has no socket left.
    pub(super) fn open() -> io::Result<SystemLog> {
        SystemLog::at(PathBuf::from(SOCKET))
    }

    fn at(daemon: PathBuf) -> io::Result<SystemLog> {
        let socket = UnixDatagram::unbound()?;
        // A daemon that has stopped reading must not stop the file system that logs, so such a line is lost.
        socket.set_nonblocking(true)?;
        Ok(SystemLog { socket, daemon })
    }

    /// Warns on standard error that log lines are lost, where there is no daemon.
    pub(super) fn warn_if_nobody_listens(&self) {
        if !self.daemon.exists() {
            let daemon = self.daemon.display();
            output::report(&format!(
                "gannet: log lines are lost: there is no {daemon} (--log-file FILE keeps them)"
            ));
        }
    }

    fn line(&self, severity: Severity) -> Line<'_> {
        Line {
            log: self,
            severity,
        }
    }
}

/// Writes events, one datagram each.
pub(super) struct Line<'a> {
    log: &'a SystemLog,
    severity: Severity,
}

impl Write for Line<'_> {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        let priority = FACILITY | self.severity as u8;
        let mut datagram = format!("<{priority}>gannet[{}]: ", std::process::id()).into_bytes();
        datagram.extend_from_slice(text.trim_ascii_end());
        // Addressed each time, so that a restarted daemon is found. There is no place to report a lost line.
        let _ = self.log.socket.send_to(&datagram, &self.log.daemon);
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for SystemLog {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        self.line(Severity::Informational)
    }

    fn make_writer_for(&'a self, event: &Metadata<'_>) -> Line<'a> {
        self.line(match *event.level() {
            Level::ERROR => Severity::Error,
            Level::WARN => Severity::Warning,
            Level::INFO => Severity::Informational,
            Level::DEBUG | Level::TRACE => Severity::Debug,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_a_datagram_with_its_priority_and_no_daemon_is_no_error() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("log");
        let log = SystemLog::at(path.clone()).unwrap();
        let lines = tracing_subscriber::fmt()
            .with_writer(log)
            .with_ansi(false)
            .with_target(false)
            .without_time()
            .with_level(false)
            .finish();
        tracing::subscriber::with_default(lines, || {
            tracing::info!("nobody listens yet");
            let daemon = UnixDatagram::bind(&path).unwrap();
            tracing::warn!(server = "a", "waiting");
            let mut datagram = [0; 200];
            let length = daemon.recv(&mut datagram).unwrap();
            let text = String::from_utf8_lossy(&datagram[..length]);
            let expected = format!("<28>gannet[{}]: waiting server=\"a\"", std::process::id());
            assert_eq!(text, expected);
        });
    }
}
