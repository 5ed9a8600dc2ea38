//! `gannet mount`, where FUSE may be used.

use super::gannet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Says that a test was left out; true when it is.
pub(crate) fn is_left_out() -> bool {
    !gannet_testing::can_mount()
}

/// `gannet mount`, unmounted when dropped.
pub(crate) struct Mount {
    pub(crate) child: Child,
    pub(crate) directory: PathBuf,
    /// Where administrators are answered; empty without.
    pub(crate) admin: String,
}

impl Mount {
    pub(crate) fn of(url: &str, directory: &Path, options: &[&str]) -> Mount {
        fs::create_dir_all(directory).unwrap();
        let mut child = gannet()
            .args(["mount", url])
            .arg(directory)
            .args(options)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut line).unwrap();
        assert!(line.starts_with("mounted "), "{line:?}");
        Mount {
            child,
            directory: directory.to_owned(),
            admin: line
                .split_once(" admin=")
                .map_or_else(String::new, |(_, admin)| admin.trim().to_owned()),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &pid]).status();
        assert!(sent.unwrap().success());
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }

    /// Unmounts it as people do, which must end it well.
    pub(crate) fn unmount(mut self) {
        unmount(&self.directory);
        assert!(self.wait().success());
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if self.child.try_wait().unwrap().is_none() {
            let _ = Command::new("umount")
                .arg("-l")
                .arg(&self.directory)
                .status();
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Unmounts what lies on `directory`. It may be busy for a moment although all files in it are closed: a program that
/// another test of this process is just starting has them until it runs.
fn unmount(directory: &Path) {
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        let output = Command::new("umount").arg(directory).output().unwrap();
        if output.status.success() {
            return;
        }
        let error = String::from_utf8_lossy(&output.stderr);
        let is_busy = error.contains("target is busy");
        assert!(is_busy && Instant::now() < until, "{error}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Runs a program that must succeed; its standard output.
pub(crate) fn must(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {error}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
