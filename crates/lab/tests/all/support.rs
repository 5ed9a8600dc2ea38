//! The built binary, places for its files, and a server for it to measure.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

/// The binary under test: the one that the variable `GANNET_LAB_BINARY` names, or the one built with the tests.
pub(crate) fn gannet_lab() -> Command {
    let binary = std::env::var_os("GANNET_LAB_BINARY");
    let mut command =
        Command::new(binary.unwrap_or_else(|| env!("CARGO_BIN_EXE_gannet-lab").into()));
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

/// The commands to the server's process, a word a line.
const SERVE: &str = "GANNET_LAB_TEST_SERVE";

/// `gannet` with these words. The binary of another crate is not built with this test, but all of it is in here.
fn gannet(words: &[&str]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "support::a_server_of_another_test"])
        .arg("--nocapture")
        .env(SERVE, [&["gannet"], words].concat().join("\n"))
        .stdout(Stdio::null());
    command
}

/// `gannet serve` as a process of its own, killed when dropped.
pub(crate) struct Server {
    child: Child,
    /// The line that it prints when it is ready.
    line: String,
}

impl Server {
    /// Serves a directory, as root's own.
    pub(crate) fn of(directory: &Path, state: &Path) -> Server {
        Server::with(directory, state, &[])
    }

    /// The same, with these options.
    pub(crate) fn with(directory: &Path, state: &Path, options: &[&str]) -> Server {
        let [directory, state_dir] = [directory, state].map(|path| path.to_str().unwrap());
        let words = [
            ["serve", directory, "--no-root-squash"].as_slice(),
            &["--nfs-tcp", "127.0.0.1:0", "--nfs-rdma", "127.0.0.1:0"],
            &["--state-dir", state_dir],
            options,
        ]
        .concat();
        Server::start(&words, state)
    }

    /// Makes a volume on two I/O servers, and serves it; the URL of its root, and the file of its key.
    pub(crate) fn of_volume(place: &Place) -> (Server, String, String) {
        let volume = place.text("volume");
        let create = ["volume", "create", &volume, "--io-servers", "2"];
        assert!(gannet(&create).status().unwrap().success());
        let words = ["serve", "--volume", &volume, "--native", "127.0.0.1:0"];
        let server = Server::start(&words, &place.path("state"));
        let url = format!("gannet://{}", server.word("native="));
        (server, url, format!("{volume}/client-key"))
    }

    fn start(words: &[&str], state: &Path) -> Server {
        let ready = state.join("ready");
        let rest = ["--ready-file", ready.to_str().unwrap(), "--log", "warn"];
        let mut child = gannet(&[words, &rest].concat()).spawn().unwrap();
        let line = loop {
            if let Ok(line) = fs::read_to_string(&ready) {
                break line;
            }
            assert!(child.try_wait().unwrap().is_none(), "it ended too early");
            std::thread::sleep(Duration::from_millis(5));
        };
        Server { child, line }
    }

    fn word(&self, name: &str) -> &str {
        let mut words = self.line.split_whitespace();
        let found = words.find_map(|word| word.strip_prefix(name));
        found.unwrap_or_else(|| panic!("ready line: {:?}", self.line))
    }

    /// The URLs of its root: over TCP, over RDMA.
    pub(crate) fn urls(&self) -> [String; 2] {
        [
            format!("nfs://{}", self.word("nfs-tcp=")),
            format!("nfs+rdma://{}", self.word("nfs-rdma=")),
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

/// The process of [`gannet`]: nothing else comes here with words to follow.
#[test]
fn a_server_of_another_test() {
    use clap::Parser;
    if let Ok(words) = std::env::var(SERVE) {
        let arguments = gannet_cli::cli::Arguments::parse_from(words.lines());
        gannet_cli::run(arguments).unwrap();
    }
}
