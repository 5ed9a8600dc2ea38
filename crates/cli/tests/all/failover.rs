//! Three managers over an engine, of which the active one is killed, stopped and asked to end, under load. The other
//! servers of the volume and members of the engine have faults, too. `cargo xtask failover` runs it on the release
//! binary. Elsewhere it is ignored, because it bounds a time and needs the engine.

#![allow(clippy::unwrap_used)]

mod cluster;
mod etcd;
mod journal;
mod load;
mod postgresql;
mod readme;

use crate::support;

use cluster::{Cluster, PASSWORD, free_port};
use etcd::Etcd;
use load::{Load, Outcome};
use postgresql::Postgresql;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use support::mount::{Mount, is_left_out};
use support::{Place, gannet, run, succeed};

/// The longest wait of a program for another manager, beyond what the same program waits without that.
const WAIT_MAX: Duration = Duration::from_secs(10);
/// Longer than any machine takes: a manager that is not active by then never will be.
const PATIENCE: Duration = Duration::from_secs(60);
/// The pause between two faults.
const INTERVAL: Duration = Duration::from_secs(2);
const MANAGERS: usize = 3;

/// A fault of the active manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Killed,
    Stopped,
    Switched,
    Ended,
}

const FAULTS: [Fault; 4] = [Fault::Killed, Fault::Stopped, Fault::Switched, Fault::Ended];

/// A server whose output goes to files; killed when dropped.
struct Process {
    child: Child,
    output: PathBuf,
}

impl Process {
    fn start(mut command: Command, output: PathBuf) -> Process {
        let log = output.with_extension("log");
        let log = fs::File::options().create(true).append(true).open(log);
        command.stdout(fs::File::create(&output).unwrap());
        let child = command.stderr(log.unwrap()).spawn().unwrap();
        Process { child, output }
    }

    fn is_ready(&self) -> bool {
        fs::read_to_string(&self.output)
            .unwrap()
            .starts_with("ready ")
    }

    fn log(&self) -> String {
        fs::read_to_string(self.output.with_extension("log")).unwrap()
    }

    fn wait(&mut self) -> ExitStatus {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(ended) = self.child.try_wait().unwrap() {
                return ended;
            }
            assert!(Instant::now() < until, "it does not end: {}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &pid]).status();
        assert!(sent.unwrap().success());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Bed {
    place: Place,
    engine: Box<dyn Cluster>,
    ports: Vec<u16>,
    managers: Vec<Process>,
    io_servers: Vec<Process>,
    /// Servers of NFS, each a client of the managers.
    nfs: Vec<Process>,
}

impl Bed {
    /// A volume of two I/O servers and three managers, each with a folder of its own.
    fn new(engine: impl FnOnce(&Place) -> Box<dyn Cluster>) -> Bed {
        let place = Place::new();
        let engine = engine(&place);
        let volume = place.text("volume-0");
        let ports: Vec<u16> = (0..MANAGERS).map(|_| free_port()).collect();
        let managers: Vec<String> = ports.iter().map(|it| format!("127.0.0.1:{it}")).collect();
        let managers = managers.join(",");
        let create = ["volume", "create", &volume, "--io-servers", "2"];
        let options = engine.options();
        let options = options.iter().map(String::as_str).collect::<Vec<&str>>();
        succeed(&[&create[..], &["--managers", &managers], &options].concat());
        let password = place.path("volume-0").join("journal-password");
        fs::write(&password, format!("{PASSWORD}\n")).unwrap();
        fs::set_permissions(password, fs::Permissions::from_mode(0o600)).unwrap();
        for number in 1..MANAGERS {
            let folder = place.path(&format!("volume-{number}"));
            fs::create_dir(&folder).unwrap();
            // The metadata come from the active manager.
            for name in ["volume.toml", "secret", "journal-password"] {
                fs::copy(place.path("volume-0").join(name), folder.join(name)).unwrap();
            }
        }
        let mut bed = Bed {
            place,
            engine,
            ports,
            managers: Vec::new(),
            io_servers: Vec::new(),
            nfs: Vec::new(),
        };
        bed.io_servers = (0..2).map(|number| bed.io_server(number)).collect();
        bed.managers = (0..MANAGERS).map(|number| bed.manager(number)).collect();
        bed.nfs = (0..2).map(|number| bed.nfs_server(number)).collect();
        bed
    }

    fn manager(&self, number: usize) -> Process {
        self.manager_at(number, self.ports[number], &[])
    }

    fn manager_at(&self, number: usize, port: u16, options: &[&str]) -> Process {
        let folder = self.place.path(&format!("volume-{number}"));
        let native = format!("127.0.0.1:{port}");
        let mut command = gannet();
        command.args(["serve", "--log", "info", "--role", "manager", "--volume"]);
        command.arg(folder).args(["--native", &native]);
        command.args(["--nfs-tcp", "off", "--nfs-rdma", "off"]);
        command.args(options);
        Process::start(command, self.place.path(&format!("manager-{number}")))
    }

    /// One that would take over wrongly does not stand by: it has the name of the active one, or gives up records.
    fn refuses_wrong_standbys(&mut self) {
        let active = self.active();
        let other = (active + 1) % MANAGERS;
        self.managers[other].signal("TERM");
        self.managers[other].wait();
        let (active, own) = (self.ports[active], self.ports[other]);
        let forced: &[&str] = &["--force-term"];
        for (port, options, reason) in [
            (
                active,
                &[][..],
                "the active manager has the name of this one",
            ),
            (own, forced, "stop all managers, then start this one"),
        ] {
            let mut refused = self.manager_at(other, port, options);
            assert_eq!(refused.wait().code(), Some(1), "{}", refused.log());
            assert!(refused.log().contains(reason), "{}", refused.log());
        }
        self.managers[other] = self.manager(other);
    }

    fn io_server(&self, number: usize) -> Process {
        let command = self.io_server_command(number);
        Process::start(command, self.place.path(&format!("io-server-{number}")))
    }

    fn io_server_command(&self, number: usize) -> Command {
        let role = format!("io-server={number}");
        let mut command = gannet();
        command.args(["serve", "--log", "warn", "--role", &role, "--volume"]);
        command.arg(self.place.path("volume-0"));
        command.args(["--native", support::FREE_PORT]);
        command
    }

    /// A host with NFS alone, which has no metadata.
    fn nfs_server(&self, number: usize) -> Process {
        let folder = self.place.path(&format!("volume-nfs-{number}"));
        fs::create_dir(&folder).unwrap();
        for name in ["volume.toml", "secret"] {
            fs::copy(self.place.path("volume-0").join(name), folder.join(name)).unwrap();
        }
        let mut command = gannet();
        command.args(["serve", "--log", "warn", "--role", "nfs", "--volume"]);
        command.arg(folder).args(["--nfs-tcp", support::FREE_PORT]);
        command.args(["--nfs-rdma", "off", "--no-root-squash"]);
        Process::start(command, self.place.path(&format!("nfs-{number}")))
    }

    /// The URL of a server of NFS.
    fn nfs_url(&self, number: usize) -> String {
        let server = &self.nfs[number];
        let until = Instant::now() + PATIENCE;
        while !server.is_ready() {
            assert!(Instant::now() < until, "{}", server.log());
            std::thread::sleep(Duration::from_millis(20));
        }
        let line = fs::read_to_string(&server.output).unwrap();
        let address = line
            .split_whitespace()
            .find_map(|it| it.strip_prefix("nfs-tcp="));
        format!("nfs://{}/", address.unwrap())
    }

    fn url(&self) -> String {
        let hosts = self.ports.iter().map(|port| format!("127.0.0.1:{port}"));
        format!("gannet://{}/", hosts.collect::<Vec<String>>().join(","))
    }

    fn key(&self) -> String {
        self.place.text("volume-0/client-key")
    }

    /// Waits until a manager is active; its number.
    fn active(&mut self) -> usize {
        let until = Instant::now() + PATIENCE;
        loop {
            let mut managers = self.managers.iter_mut().enumerate();
            let active = managers.find_map(|(number, manager)| {
                let lives = manager.child.try_wait().unwrap().is_none();
                (lives && manager.is_ready()).then_some(number)
            });
            if let Some(active) = active {
                return active;
            }
            assert!(Instant::now() < until, "{}", self.logs());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn logs(&self) -> String {
        self.managers.iter().map(Process::log).collect()
    }

    /// Waits until names are answered again.
    fn answers(&self) {
        let (url, key) = (self.url(), self.key());
        let until = Instant::now() + PATIENCE;
        loop {
            let listed = run(&["ls", &url, "--volume-key", &key]);
            if listed.status.success() {
                return;
            }
            let error = String::from_utf8_lossy(&listed.stderr);
            assert!(Instant::now() < until, "{error}{}", self.logs());
        }
    }

    /// The active manager has a fault, and starts again when another one answers.
    fn strike(&mut self, fault: Fault) {
        let active = self.active();
        let began = Instant::now();
        match fault {
            Fault::Killed => self.managers[active].signal("KILL"),
            Fault::Stopped => self.managers[active].signal("STOP"),
            Fault::Ended => self.managers[active].signal("TERM"),
            Fault::Switched => {
                let (url, key) = (self.url(), self.key());
                print!(
                    "{}",
                    succeed(&["volume", "switch", &url, "--volume-key", &key])
                );
                let ended = self.managers[active].wait();
                assert_eq!(ended.code(), Some(1), "{}", self.managers[active].log());
            }
        }
        if fault == Fault::Stopped {
            self.answers();
            println!("{fault:?}: answered after {:?}", began.elapsed());
            // It finds that another one has the journal, and ends.
            self.managers[active].signal("CONT");
            let ended = self.managers[active].wait();
            assert_eq!(ended.code(), Some(1), "{}", self.managers[active].log());
        } else {
            self.managers[active].wait();
            self.answers();
            println!("{fault:?}: answered after {:?}", began.elapsed());
        }
        self.managers[active] = self.manager(active);
    }
}

/// A fault of a server that is no manager.
#[derive(Debug, Clone, Copy)]
enum OtherFault {
    /// An I/O server is killed, and started again.
    IoServerKilled,
    IoServerStopped,
    NfsServerStopped,
}

const OTHER_FAULTS: [OtherFault; 3] = [
    OtherFault::IoServerKilled,
    OtherFault::IoServerStopped,
    OtherFault::NfsServerStopped,
];

impl Bed {
    /// A server that is no manager has a fault, another one each time. Each fault and its end are of one child: a child
    /// of this process closes the files that programs here have open on the mounts, and waits for the server with that.
    fn strike_other(&mut self, round: usize) {
        let fault = OTHER_FAULTS[round % OTHER_FAULTS.len()];
        let number = round / OTHER_FAULTS.len() % 2;
        println!("{fault:?}: server {number}");
        let stopped = match fault {
            OtherFault::IoServerKilled => {
                let serve = self.io_server_command(number);
                let killed = self.io_servers[number].child.id().to_string();
                let mut command = Command::new("sh");
                // It has the folder until it is gone, which takes a moment.
                let gone = "while kill -s 0 \"$0\" 2>/dev/null; do sleep 0.02; done";
                let script = format!("kill -s KILL \"$0\"; {gone}; exec \"$@\"");
                command.args(["-c", &script, &killed]);
                command.arg(serve.get_program()).args(serve.get_args());
                let output = self.place.path(&format!("io-server-{number}-{round}"));
                let next = Process::start(command, output);
                let mut before = std::mem::replace(&mut self.io_servers[number], next);
                assert!(!before.wait().success());
                return;
            }
            OtherFault::IoServerStopped => &self.io_servers[number],
            OtherFault::NfsServerStopped => &self.nfs[number],
        };
        let (pid, seconds) = (stopped.child.id(), INTERVAL.as_secs());
        let stop = format!("kill -s STOP {pid}; sleep {seconds}; kill -s CONT {pid}");
        let done = Command::new("sh").args(["-c", &stop]).status();
        assert!(done.unwrap().success());
    }
}

/// A program that uses two servers of NFS in turn.
struct NfsLoad {
    ends: Arc<AtomicBool>,
    program: JoinHandle<u64>,
}

impl NfsLoad {
    /// Makes files at one server, moves and reads them at the other, and removes them at the first. Each step is one
    /// change: a second MKDIR, RENAME or REMOVE of the same would be an error.
    fn start(bed: &Bed, name: String) -> NfsLoad {
        let urls = [0, 1].map(|number| format!("{}{name}-nfs", bed.nfs_url(number)));
        let (here, ends) = (bed.place.text("sent"), Arc::new(AtomicBool::new(false)));
        fs::write(&here, &name).unwrap();
        let is_over = Arc::clone(&ends);
        let program = std::thread::spawn(move || {
            succeed(&["mkdir", &urls[0]]);
            let mut number = 0;
            while !is_over.load(Ordering::Relaxed) {
                let at = |server: usize, what: &str| format!("{}/{what}-{number}", urls[server]);
                succeed(&["cp", &here, &at(0, "made")]);
                succeed(&["mv", &at(1, "made"), &at(1, "moved")]);
                assert_eq!(succeed(&["cat", &at(1, "moved")]), name);
                succeed(&["rm", &at(0, "moved")]);
                number += 1;
            }
            number
        });
        NfsLoad { ends, program }
    }

    /// How many files it made.
    fn finish(self) -> u64 {
        self.ends.store(true, Ordering::Relaxed);
        self.program.join().unwrap()
    }
}

/// The rounds of faults: what the environment says, or three.
fn rounds() -> usize {
    let said = std::env::var("GANNET_FAILOVER_ROUNDS").ok();
    said.map_or(3, |text| text.parse().unwrap())
}

#[test]
#[ignore = "cargo xtask failover"]
fn programs_outlive_managers_over_etcd() {
    programs_outlive_managers(|place| Box::new(Etcd::start(&place.path("etcd"))));
}

#[test]
#[ignore = "cargo xtask failover --engine postgresql"]
fn programs_outlive_managers_over_postgresql() {
    programs_outlive_managers(|_| Box::new(Postgresql::start()));
}

fn programs_outlive_managers(engine: impl FnOnce(&Place) -> Box<dyn Cluster>) {
    if is_left_out() {
        return;
    }
    let mut bed = Bed::new(engine);
    bed.answers();
    let key = bed.key();
    let options = ["--volume-key", &*key];
    let mounts: Vec<Mount> = (0..2)
        .map(|number| {
            let directory = bed.place.path(&format!("mnt-{number}"));
            Mount::of(&bed.url(), &directory, &options)
        })
        .collect();
    let directories: Vec<PathBuf> = mounts.iter().map(|it| it.directory.clone()).collect();
    let start = |name: &str| Load::start(&directories, &bed.place.path(name), name);

    let load = start("control");
    std::thread::sleep(INTERVAL);
    let control = load.finish();
    println!("without a fault: {control}");
    let mut all = Outcome::default();
    for round in 0..rounds() {
        let name = format!("round-{round}");
        let load = Load::start(&directories, &bed.place.path(&name), &name);
        let nfs = NfsLoad::start(&bed, name);
        std::thread::sleep(INTERVAL / 2);
        bed.strike(FAULTS[round % FAULTS.len()]);
        std::thread::sleep(INTERVAL / 2);
        bed.engine.strike(round);
        std::thread::sleep(INTERVAL);
        bed.strike_other(round);
        std::thread::sleep(INTERVAL);
        let outcome = load.finish();
        println!("round {round}: {outcome}; {} files by NFS", nfs.finish());
        let other = OTHER_FAULTS[round % OTHER_FAULTS.len()];
        let bound = match (FAULTS[round % FAULTS.len()], other) {
            // The row is given up, and all I/O servers go on.
            (Fault::Switched | Fault::Ended, OtherFault::NfsServerStopped) => WAIT_MAX / 2,
            _ => WAIT_MAX,
        };
        assert!(
            outcome.longest_wait < bound + control.longest_wait,
            "{outcome}"
        );
        all.add(&outcome);
    }
    println!("all rounds: {all}");
    mounts.into_iter().for_each(Mount::unmount);
    // What was acknowledged is there for a client that was not, and the volume is sound.
    let fresh = Mount::of(&bed.url(), &bed.place.path("mnt-2"), &options);
    all.must_be_in(&fresh.directory);
    fresh.unmount();
    succeed(&["volume", "check", &bed.url(), "--volume-key", &key]);
    let status = succeed(&["volume", "status", &bed.url(), "--volume-key", &key]);
    assert!(status.contains("records behind"), "{status}");
    println!("{status}");
    bed.refuses_wrong_standbys();
}

/// Files of a repository, in directories of a hundred.
const REPOSITORY_FILES: usize = 1500;

/// Runs git, which must succeed; its standard output.
fn git(directory: &Path, arguments: &[&str]) -> String {
    let mut git = Command::new("git");
    git.args(["-c", "user.name=g", "-c", "user.email=g@example.com"]);
    // Nothing of the user's, and no work that goes on behind the command.
    git.args(["-c", "gc.auto=0", "-c", "safe.directory=*"]);
    git.env("GIT_CONFIG_NOSYSTEM", "1").env("HOME", directory);
    let output = git
        .arg("-C")
        .arg(directory)
        .args(arguments)
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "git {arguments:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
#[ignore = "cargo xtask failover"]
fn a_clone_outlives_managers_over_etcd() {
    if is_left_out() {
        return;
    }
    let mut bed = Bed::new(|place| Box::new(Etcd::start(&place.path("etcd"))));
    bed.answers();
    let origin = bed.place.path("origin");
    for number in 0..REPOSITORY_FILES {
        let directory = origin.join(format!("{:02}", number / 100));
        fs::create_dir_all(&directory).unwrap();
        let text = format!("the content of file {number}\n").repeat(number % 50 + 1);
        fs::write(directory.join(format!("file-{number}")), text).unwrap();
    }
    git(&origin, &["init", "--quiet"]);
    git(&origin, &["add", "."]);
    git(&origin, &["commit", "--quiet", "-m", "all"]);
    let key = bed.key();
    let mount = Mount::of(&bed.url(), &bed.place.path("mnt"), &["--volume-key", &*key]);
    let clone = mount.directory.join("clone");
    let (from, to) = (format!("file://{}", origin.display()), clone.clone());
    let cloning = std::thread::spawn(move || {
        git(to.parent().unwrap(), &["clone", "--quiet", &from, "clone"]);
    });
    // The first while objects come, the second among the files.
    for part in [".git/objects", "03"] {
        let until = Instant::now() + PATIENCE;
        while !clone.join(part).exists() {
            assert!(
                Instant::now() < until,
                "{part} does not come: {}",
                bed.logs()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(
            !cloning.is_finished(),
            "the clone was too fast to be struck"
        );
        bed.strike(Fault::Killed);
    }
    cloning.join().unwrap();
    git(&clone, &["fsck", "--full", "--strict"]);
    assert_eq!(git(&clone, &["status", "--porcelain"]), "");
    let tracked = git(&clone, &["ls-files"]);
    assert_eq!(tracked.lines().count(), REPOSITORY_FILES);
    for name in tracked.lines() {
        assert_eq!(
            fs::read(clone.join(name)).unwrap(),
            fs::read(origin.join(name)).unwrap()
        );
    }
    mount.unmount();
    succeed(&["volume", "check", &bed.url(), "--volume-key", &key]);
}
