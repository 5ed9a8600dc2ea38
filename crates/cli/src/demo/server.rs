//! The server that the demo talks to: a process of its own, so that each side's CPU time is known.

use crate::failure::{Explain, Failure};
use crate::process;
use gannet_localfs::own_credentials;
use rustix::process::{Pid, Signal, kill_process};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long the server may take to start, and to end.
const START_MAX: Duration = Duration::from_secs(20);
const END_MAX: Duration = Duration::from_secs(20);
/// Pause between two looks.
const POLL_PAUSE: Duration = Duration::from_millis(10);

/// `gannet serve` on loopback; killed when dropped.
pub(super) struct Server {
    child: Child,
    pub(super) tcp: String,
    pub(super) rdma: String,
}

impl Server {
    /// Serves the folder `share` of `scratch` on free ports, and waits until the server is ready. Each caller is the
    /// user of this process: root without the right to take on other identities serves no other way.
    ///
    /// # Errors
    /// It does not start; its own message went to standard error.
    pub(super) fn start(share: &str, scratch: &Path) -> Result<Server, Failure> {
        let what = || String::from("cannot start the server");
        let ready_file = scratch.join("ready");
        let own = own_credentials();
        let (uid, gid) = (own.uid, own.gid);
        let config = format!(
            "[[export]]\npath = {share:?}\nsquash = \"all\"\nanonuid = {uid}\nanongid = {gid}\n"
        );
        std::fs::write(scratch.join("gannet.toml"), config).explain(what)?;
        let program = std::env::current_exe().explain(what)?;
        // Relative names need no quoting in the configuration.
        let child = Command::new(program)
            .current_dir(scratch)
            .args(["serve", "--config", "gannet.toml", "--log", "warn"])
            .args(["--nfs-tcp", "127.0.0.1:0", "--nfs-rdma", "127.0.0.1:0"])
            .args(["--ready-file", "ready", "--state-dir", "state"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .explain(what)?;
        let mut server = Server {
            child,
            tcp: String::new(),
            rdma: String::new(),
        };
        let line = server.wait_until_ready(&ready_file)?;
        let address = |name: &str| {
            let word = line
                .split_whitespace()
                .find_map(|word| word.strip_prefix(name));
            word.map(str::to_owned)
                .ok_or_else(|| Failure::new(what(), "its ready line has no addresses"))
        };
        server.tcp = address("nfs-tcp=")?;
        server.rdma = address("nfs-rdma=")?;
        Ok(server)
    }

    fn wait_until_ready(&mut self, ready_file: &Path) -> Result<String, Failure> {
        let started = Instant::now();
        while started.elapsed() < START_MAX {
            // The file appears complete or not at all.
            if let Ok(line) = std::fs::read_to_string(ready_file) {
                return Ok(line);
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(Failure::new("the server ended before it was ready", status));
            }
            std::thread::sleep(POLL_PAUSE);
        }
        Err(Failure::new(
            "cannot start the server",
            "it does not become ready",
        ))
    }

    /// CPU time it has used so far.
    pub(super) fn cpu(&self) -> Duration {
        process::cpu(self.child.id()).unwrap_or_default()
    }

    /// Ends it by SIGTERM.
    ///
    /// # Errors
    /// It does not end in time, or not with 0.
    pub(super) fn stop(mut self) -> Result<(), Failure> {
        let what = "cannot stop the server";
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| Failure::new(what, "its process ID is out of range"))?;
        kill_process(pid, Signal::TERM).explain(|| what.to_owned())?;
        let started = Instant::now();
        while started.elapsed() < END_MAX {
            match self.child.try_wait().explain(|| what.to_owned())? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => return Err(Failure::new(what, status)),
                None => std::thread::sleep(POLL_PAUSE),
            }
        }
        Err(Failure::new(what, "it does not end after SIGTERM"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A failure needs no action: the process has ended already, or the system ends it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
