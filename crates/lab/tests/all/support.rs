//! The built binary, places for its files, and a server for it to measure.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

/// The binary under test.
pub(crate) fn gannet_lab() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gannet-lab"));
    command.stdin(Stdio::null()).env_remove("GANNET_LOG");
    command
}

fn run(arguments: &[&str]) -> Output {
    gannet_lab().args(arguments).output().unwrap()
}

/// Runs a command that must succeed; its standard output.
pub(crate) fn succeed(arguments: &[&str]) -> String {
    let output = run(arguments);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{arguments:?}: {}: {error}",
        output.status
    );
    String::from_utf8(output.stdout).unwrap()
}

/// Runs a command that must fail with `code`; its one line on standard error.
pub(crate) fn fail(arguments: &[&str], code: i32) -> String {
    let output = run(arguments);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {error}");
    assert!(error.starts_with("gannet: "), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
    error
}

/// A directory with `share`, `out` and `state` in it.
pub(crate) struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new() -> Place {
        let directory = tempfile::tempdir().unwrap();
        for name in ["share", "out", "state"] {
            fs::create_dir(directory.path().join(name)).unwrap();
        }
        Place { directory }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }
}

/// What the server's process is told to do, a word a line.
const SERVE: &str = "GANNET_LAB_TEST_SERVE";

/// `gannet serve` as a process of its own, killed when dropped.
pub(crate) struct Server {
    child: Child,
    tcp: String,
    rdma: String,
}

impl Server {
    /// Serves a directory, as root's own.
    pub(crate) fn of(directory: &Path, state: &Path) -> Server {
        let ready = state.join("ready");
        let [directory, state, ready_file] =
            [directory, state, &ready].map(|path| path.to_str().unwrap());
        let words = [
            ["gannet", "serve", directory, "--no-root-squash"].as_slice(),
            &["--nfs-tcp", "127.0.0.1:0", "--nfs-rdma", "127.0.0.1:0"],
            &["--state-dir", state, "--ready-file", ready_file],
            &["--log", "warn"],
        ]
        .concat();
        // The binary of another crate is not built with this test, but all of it is in here.
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "support::a_server_of_another_test"])
            .arg("--nocapture")
            .env(SERVE, words.join("\n"))
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let line = loop {
            if let Ok(line) = fs::read_to_string(&ready) {
                break line;
            }
            assert!(child.try_wait().unwrap().is_none(), "it ended too early");
            std::thread::sleep(Duration::from_millis(5));
        };
        let word = |name: &str| {
            let mut words = line.split_whitespace();
            let found = words.find_map(|word| word.strip_prefix(name).map(str::to_owned));
            found.unwrap_or_else(|| panic!("ready line: {line:?}"))
        };
        Server {
            tcp: word("nfs-tcp="),
            rdma: word("nfs-rdma="),
            child,
        }
    }

    /// The URLs of its root: over TCP, over RDMA.
    pub(crate) fn urls(&self) -> [String; 2] {
        [
            format!("nfs://{}", self.tcp),
            format!("nfs+rdma://{}", self.rdma),
        ]
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The process of a [`Server`]: nothing else comes here with words to follow.
#[test]
fn a_server_of_another_test() {
    use clap::Parser;
    if let Ok(words) = std::env::var(SERVE) {
        let arguments = gannet_cli::cli::Arguments::parse_from(words.lines());
        gannet_cli::run(arguments).unwrap();
    }
}
