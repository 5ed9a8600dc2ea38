//! Common parts of the end-to-end tests: the built binary as server and as client, trees, comparisons.

#![allow(dead_code)] // each test file uses its part

pub(crate) mod browser;
pub(crate) mod mount;

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio};

/// The path of the binary under test: what the variable `GANNET_BINARY` names, or what was built with the tests.
pub(crate) fn binary() -> PathBuf {
    let named = std::env::var_os("GANNET_BINARY");
    PathBuf::from(named.unwrap_or_else(|| env!("CARGO_BIN_EXE_gannet").into()))
}

/// The binary under test.
pub(crate) fn gannet() -> Command {
    let mut command = Command::new(binary());
    command.stdin(Stdio::null()).env_remove("GANNET_LOG");
    command
}

/// The binary under test, which may have so many files open.
pub(crate) fn limited(files: u32) -> Command {
    let mut command = Command::new("sh");
    let limit = format!("ulimit -n {files}; exec \"$0\" \"$@\"");
    command.args(["-c", &limit, env!("CARGO_BIN_EXE_gannet")]);
    command.stdin(Stdio::null()).env_remove("GANNET_LOG");
    command
}

/// Runs a client command to its end.
pub(crate) fn run(arguments: &[&str]) -> Output {
    gannet().args(arguments).output().unwrap()
}

/// Runs a client command that must succeed; its standard output.
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

/// Runs a client command that must fail with `code`; its one line on standard error, beside those about waiting for a
/// server, which a slow machine may bring.
pub(crate) fn fail(arguments: &[&str], code: i32) -> String {
    let output = run(arguments);
    let error = String::from_utf8(output.stderr).unwrap();
    let is_wait = |line: &str| line.contains(": waiting for ") || line.contains(" answers again");
    let lines = error.split_inclusive('\n').filter(|line| !is_wait(line));
    let error: String = lines.collect();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {error}");
    assert!(error.starts_with("gannet: "), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
    error
}

/// As [`fail`], of a command that says more than one line: all of it.
pub(crate) fn fail_at_length(arguments: &[&str], code: i32) -> String {
    let output = run(arguments);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {error}");
    assert!(error.contains("gannet: "), "{error}");
    error
}

/// A loopback address that has the system choose a free port.
pub(crate) const FREE_PORT: &str = "127.0.0.1:0";

/// `gannet serve`, killed when dropped.
pub(crate) struct Server {
    child: Child,
    stdout: BufReader<ChildStdout>,
    pub(crate) tcp: String,
    pub(crate) rdma: String,
    /// The address of a volume's manager; empty without one.
    pub(crate) native: String,
    /// Where administrators are answered; empty without.
    pub(crate) admin: String,
}

/// The addresses at which a server listens for NFS, as `ADDRESS:PORT`.
pub(crate) struct NfsAddresses {
    pub(crate) tcp: String,
    pub(crate) rdma: String,
}

impl Server {
    /// Serves with these arguments, and waits until it is ready.
    pub(crate) fn with(arguments: &[&str]) -> Server {
        Server::of_command(gannet(), arguments)
    }

    /// The same, by a process that may have so many files open, and whose warnings go to `log`.
    pub(crate) fn limited(files: u32, log: &Path, arguments: &[&str]) -> Server {
        let mut command = limited(files);
        command.stderr(fs::File::create(log).unwrap());
        Server::of_command(command, arguments)
    }

    pub(crate) fn of_command(mut command: Command, arguments: &[&str]) -> Server {
        // Unless a test asks for more.
        let level = ["--log", "warn"];
        let is_asked = arguments.contains(&"--log");
        let mut child = command
            .arg("serve")
            .args(level.iter().filter(|_| !is_asked))
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        assert!(line.starts_with("ready "), "{line}");
        let word = |name: &str| {
            let mut words = line.split_whitespace();
            words.find_map(|word| word.strip_prefix(name).map(str::to_owned))
        };
        let must = |name: &str| word(name).unwrap_or_else(|| panic!("ready line: {line:?}"));
        Server {
            tcp: must("nfs-tcp="),
            rdma: must("nfs-rdma="),
            native: word("native=").unwrap_or_default(),
            admin: word("admin=").unwrap_or_default(),
            child,
            stdout,
        }
    }

    /// Serves with these arguments at the given addresses.
    pub(crate) fn start_at(addresses: &NfsAddresses, state: &Path, arguments: &[&str]) -> Server {
        let state = state.to_str().unwrap();
        let NfsAddresses { tcp, rdma } = addresses;
        let listen = ["--nfs-tcp", tcp, "--nfs-rdma", rdma];
        Server::with(&[&listen[..], &["--state-dir", state], arguments].concat())
    }

    /// On free ports.
    pub(crate) fn start(state: &Path, arguments: &[&str]) -> Server {
        let addresses = NfsAddresses {
            tcp: String::from(FREE_PORT),
            rdma: String::from(FREE_PORT),
        };
        Server::start_at(&addresses, state, arguments)
    }

    /// Its addresses, at which another server can start when this one has ended.
    pub(crate) fn addresses(&self) -> NfsAddresses {
        NfsAddresses {
            tcp: self.tcp.clone(),
            rdma: self.rdma.clone(),
        }
    }

    /// Serves a directory, as root's own.
    pub(crate) fn of(directory: &Path, state: &Path) -> Server {
        Server::start(state, &[directory.to_str().unwrap(), "--no-root-squash"])
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

    /// Sends a signal by name.
    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill")
            .args(["-s", name, &self.pid().to_string()])
            .status();
        assert!(sent.unwrap().success());
    }

    /// Waits for its end.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }

    /// Ends it at once, as a crash would.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `gannet bench` that reads at random for a long time; killed when dropped.
pub(crate) struct Load(Child);

impl Load {
    pub(crate) fn of(url: &str) -> Load {
        let arguments = ["bench", url, "--size", "4M", "--record", "64K"];
        let reads = ["--seconds", "1000", "--op", "randread"];
        let mut command = gannet();
        command.args(arguments).args(reads).stdout(Stdio::null());
        Load(command.spawn().unwrap())
    }

    /// Whether it has not ended.
    pub(crate) fn runs(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A directory with `tree`, `share`, `out` and `state` in it.
pub(crate) struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new() -> Place {
        Place::inside(&std::env::temp_dir())
    }

    /// The same inside of another directory.
    pub(crate) fn inside(parent: &Path) -> Place {
        let directory = tempfile::tempdir_in(parent).unwrap();
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

/// Bytes that depend on a seed.
pub(crate) fn bytes(seed: usize, len: usize) -> Vec<u8> {
    let mut state = seed as u64 * 2 + 1;
    let mut step = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u8
    };
    (0..len).map(|_| step()).collect()
}

/// Makes a small tree with everything that a copy must keep.
pub(crate) fn make_tree(root: &Path, files: usize) {
    fs::create_dir_all(root.join("a/b c/é")).unwrap();
    fs::create_dir(root.join("empty")).unwrap();
    for number in 0..files {
        let path = root.join(format!("a/b c/file-{number}"));
        fs::write(&path, bytes(number, number * 977 % 70_000)).unwrap();
        fs::set_permissions(
            &path,
            fs::Permissions::from_mode(0o400 + (number as u32 % 8)),
        )
        .unwrap();
    }
    fs::write(root.join("a/large"), bytes(1, (3 << 20) + 17)).unwrap();
    symlink("b c/file-0", root.join("a/link")).unwrap();
    symlink("/no/such/thing", root.join("a/dangling")).unwrap();
    let sparse = fs::File::create(root.join("sparse")).unwrap();
    sparse.set_len(40 << 20).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&sparse, b"in the middle", 20 << 20).unwrap();
}

/// Panics with the first difference between two trees.
pub(crate) fn assert_same(left: &Path, right: &Path) {
    let (a, b) = (
        fs::symlink_metadata(left).unwrap(),
        fs::symlink_metadata(right).unwrap(),
    );
    let both = format!("{} and {}", left.display(), right.display());
    assert_eq!(a.file_type(), b.file_type(), "{both}");
    assert_eq!(
        (a.mtime(), a.mtime_nsec()),
        (b.mtime(), b.mtime_nsec()),
        "times of {both}"
    );
    if a.is_symlink() {
        assert_eq!(
            fs::read_link(left).unwrap(),
            fs::read_link(right).unwrap(),
            "{both}"
        );
        return;
    }
    assert_eq!(a.mode(), b.mode(), "modes of {both}");
    if a.is_dir() {
        let names = |path: &Path| {
            let mut names: Vec<_> = fs::read_dir(path)
                .unwrap()
                .map(|entry| entry.unwrap().file_name())
                .collect();
            names.sort();
            names
        };
        assert_eq!(names(left), names(right), "{both}");
        for name in names(left) {
            assert_same(&left.join(&name), &right.join(&name));
        }
        return;
    }
    if !a.is_file() {
        assert_eq!(a.rdev(), b.rdev(), "devices of {both}");
        return;
    }
    assert!(
        fs::read(left).unwrap() == fs::read(right).unwrap(),
        "contents of {both}"
    );
}

/// The paths of all objects in the folder of an I/O server.
pub(crate) fn objects_below(path: &Path) -> Vec<PathBuf> {
    let folders = fs::read_dir(path).unwrap().flatten();
    let folders = folders.filter(|entry| entry.file_type().unwrap().is_dir());
    let objects = folders.flat_map(|folder| fs::read_dir(folder.path()).unwrap().flatten());
    objects.map(|object| object.path()).collect()
}
