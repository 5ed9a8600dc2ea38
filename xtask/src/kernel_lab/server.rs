//! The server under test: `gannet serve` on free loopback ports.

use super::process::tied_to_us;
use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

/// The longest time in which the server may start.
const START_MAX: Duration = Duration::from_secs(20);
/// The longest time in which the server may end.
const END_MAX: Duration = Duration::from_secs(20);
/// Number of connections that show whether replies come in one piece. One in three shows a reply in several pieces.
const CONNECTIONS_TRIED: usize = 200;
/// Pause between two looks at a server that starts or ends.
const POLL_PAUSE: Duration = Duration::from_millis(10);

/// `gannet serve`, running or not. It is killed when this value is dropped.
pub(super) struct GannetServer {
    program: PathBuf,
    options: Vec<String>,
    /// The folder of `export`, `state` and `server.log`.
    folder: PathBuf,
    /// Ports of NFS over TCP and over RDMA; 0 before the first start.
    pub(super) ports: [u16; 2],
    child: Option<Child>,
}

impl GannetServer {
    /// Starts the server on free ports, which it keeps when it is started again.
    ///
    /// # Errors
    /// The server does not become ready.
    pub(super) fn new(program: &Path, options: &[String], folder: &Path) -> Result<GannetServer> {
        fs::create_dir(folder.join("export")).context("cannot make the export")?;
        let mut server = GannetServer {
            program: program.to_path_buf(),
            options: options.to_vec(),
            folder: folder.to_path_buf(),
            ports: [0, 0],
            child: None,
        };
        server.start()?;
        Ok(server)
    }

    /// Starts the server after it was stopped or killed.
    ///
    /// # Errors
    /// The server runs already, or does not become ready.
    pub(super) fn start(&mut self) -> Result<()> {
        if self.child.is_some() {
            bail!("the server runs already");
        }
        let ready = self.folder.join("ready");
        let _ = fs::remove_file(&ready);
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.folder.join("server.log"))
            .context("cannot write the server's log")?;
        let [tcp, rdma] = self.ports.map(|port| format!("127.0.0.1:{port}"));
        let child = tied_to_us(&self.program)
            .args(["serve", "--nfs-tcp", &tcp, "--nfs-rdma", &rdma])
            .args(&self.options)
            .arg("--ready-file")
            .arg(&ready)
            .arg("--state-dir")
            .arg(self.folder.join("state"))
            .arg(self.folder.join("export"))
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("the server cannot be started")?;
        let child = self.child.insert(child);
        let started = Instant::now();
        let line = loop {
            // The file appears complete or not at all.
            if let Ok(line) = fs::read_to_string(&ready) {
                break line;
            }
            if let Some(status) = child.try_wait()? {
                bail!("the server ended at once: {status}");
            }
            if started.elapsed() > START_MAX {
                bail!("the server does not become ready");
            }
            thread::sleep(POLL_PAUSE);
        };
        self.ports = parse_ready(&line).with_context(|| format!("ready line: {line:?}"))?;
        Ok(())
    }

    /// The most memory that the server has had resident since it was started, in KiB.
    ///
    /// # Errors
    /// The server does not run.
    pub(super) fn memory_peak(&self) -> Result<String> {
        let child = self.child.as_ref().context("the server does not run")?;
        let status = fs::read_to_string(format!("/proc/{}/status", child.id()))
            .context("the server has ended")?;
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = peak.and_then(|value| value.trim().strip_suffix(" kB"));
        Ok(kib.context("the server has ended")?.to_owned())
    }

    /// Sets up RDMA connections, and succeeds if each reply to an MPA request comes in one piece: a connection of Linux
    /// siw blocks on a reply that comes in several. A guest cannot notice that, because its network joins pieces that
    /// come close together.
    ///
    /// # Errors
    /// A reply comes in several pieces, or none does.
    pub(super) fn check_replies(&self) -> Result<()> {
        // Revision 2, with 4 bytes of private data: IRD 16, ORD 16.
        const REQUEST: &[u8; 24] = b"MPA ID Req Frame\x10\x02\x00\x04\x00\x10\x00\x10";
        const LENGTH_AT: usize = 19;
        for _ in 0..CONNECTIONS_TRIED {
            let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.ports[1]))?;
            stream.set_read_timeout(Some(START_MAX))?;
            stream.write_all(REQUEST)?;
            let mut reply = [0; 256];
            let read = stream.read(&mut reply).context("no reply to a request")?;
            let whole = LENGTH_AT + 1 + usize::from(reply[LENGTH_AT]);
            if read != whole {
                bail!("{read} bytes of a reply come first, not all {whole}");
            }
        }
        Ok(())
    }

    /// Ends the server at once, as a crash would.
    ///
    /// # Errors
    /// The server does not run.
    pub(super) fn kill(&mut self) -> Result<()> {
        let mut child = self.child.take().context("the server does not run")?;
        child.kill()?;
        child.wait()?;
        Ok(())
    }

    /// Ends the server by SIGTERM. Nothing happens when it does not run.
    ///
    /// # Errors
    /// The server has ended by itself, does not end in time, or ends with another status than 0.
    pub(super) fn stop(&mut self) -> Result<()> {
        let Some(mut child) = self.child.take() else {
            return Ok(());
        };
        if let Some(status) = child.try_wait()? {
            bail!("the server ended by itself: {status}");
        }
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        kill_process(
            pid.context("the server has no process number")?,
            Signal::TERM,
        )?;
        match wait(&mut child)? {
            Some(status) if status.success() => Ok(()),
            Some(status) => bail!("the server did not end well: {status}"),
            None => {
                child.kill()?;
                child.wait()?;
                bail!("the server did not react to SIGTERM")
            }
        }
    }
}

impl Drop for GannetServer {
    fn drop(&mut self) {
        // It has not been running when this fails.
        let _ = self.kill();
    }
}

fn wait(child: &mut Child) -> Result<Option<ExitStatus>> {
    let started = Instant::now();
    while started.elapsed() < END_MAX {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        thread::sleep(POLL_PAUSE);
    }
    Ok(None)
}

/// The ports in a line `ready nfs-tcp=ADDRESS:PORT nfs-rdma=ADDRESS:PORT`.
fn parse_ready(line: &str) -> Option<[u16; 2]> {
    let port = |key: &str| {
        let address = line
            .split_whitespace()
            .find_map(|word| word.strip_prefix(key))?;
        address.rsplit_once(':')?.1.parse().ok()
    };
    Some([port("nfs-tcp=")?, port("nfs-rdma=")?])
}
