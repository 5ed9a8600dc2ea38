//! PostgreSQL with two synchronous standbys on this host, with TLS and passwords.

use super::cluster::{
    Cluster, Member, PASSWORD, REQUEST_PATIENCE, certified, certify, free_port, until, wait,
};
use gannet_engines::{EngineTls, PostgresqlPlace};
use gannet_meta::Engine;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// The user that has the journal, and its database.
const USER: &str = "gannet";
/// The user that has all rights.
const ADMIN: &str = "admin";
/// Nobody in particular: the server does not run as root.
const NOBODY: u32 = 65534;

pub(super) struct Postgresql {
    folder: TempDir,
    ports: Vec<u16>,
    /// The servers; `None` for one that does not run.
    members: Vec<Option<Member>>,
    primary: usize,
}

/// The folder of the programs of the newest PostgreSQL of Debian, or nothing: they are in `PATH`.
fn programs() -> PathBuf {
    let installed = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let folders = installed.filter_map(|it| Some(it.ok()?.path().join("bin")));
    let newest = folders.filter(|it| it.join("initdb").exists()).max();
    newest.unwrap_or_default()
}

/// A program of PostgreSQL, as a user without rights.
fn program(name: &str) -> Command {
    let mut command = Command::new(programs().join(name));
    command.env("LC_ALL", "C").env("PGPASSWORD", PASSWORD);
    // libpq looks for certificates there.
    command.env("HOME", "/").env("PGSSLMODE", "require");
    command.current_dir("/");
    if rustix::process::geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}

fn succeed(mut command: Command) -> String {
    let output = command.output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

impl Postgresql {
    pub(super) fn start() -> Postgresql {
        let permissions = fs::Permissions::from_mode(0o755);
        let folder = tempfile::Builder::new().permissions(permissions).tempdir();
        let folder = folder.unwrap();
        certify(folder.path());
        fs::write(folder.path().join("password"), PASSWORD).unwrap();
        let key = folder.path().join("server.key");
        if rustix::process::geteuid().is_root() {
            chown(&key, Some(NOBODY), None).unwrap();
            chown(folder.path(), Some(NOBODY), None).unwrap();
        }
        let mut cluster = Postgresql {
            folder,
            ports: (0..3).map(|_| free_port()).collect(),
            members: vec![None, None, None],
            primary: 0,
        };
        cluster.make_primary();
        (1..3).for_each(|number| cluster.make_standby(number));
        let statements = format!(
            "create role {USER} login password '{PASSWORD}'; create database {USER} owner {USER}"
        );
        for statement in statements.split(';') {
            cluster.say("postgres", statement);
        }
        wait(&cluster);
        cluster
    }

    fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.folder.path().join(name)
    }

    fn data(&self, number: usize) -> PathBuf {
        self.path(format!("m{number}"))
    }

    fn make_primary(&mut self) {
        let data = self.data(0);
        let mut initdb = program("initdb");
        initdb
            .args(["-A", "scram-sha-256", "-U", ADMIN, "-D"])
            .arg(&data);
        initdb
            .arg("--pwfile")
            .arg(self.path("password"))
            .arg("--no-sync");
        succeed(initdb);
        let settings = format!(
            "listen_addresses = '127.0.0.1'\nunix_socket_directories = ''\nshared_buffers = 16MB\n\
             synchronous_standby_names = 'ANY 1 (m0, m1, m2)'\nwal_keep_size = 256MB\n\
             ssl = on\nssl_cert_file = '{}'\nssl_key_file = '{}'\n",
            self.path("server.pem").display(),
            self.path("server.key").display()
        );
        let file = data.join("postgresql.conf");
        let text = fs::read_to_string(&file).unwrap();
        fs::write(file, text + &settings).unwrap();
        let hosts = "hostssl all,replication all 127.0.0.1/32 scram-sha-256\n";
        fs::write(data.join("pg_hba.conf"), hosts).unwrap();
        self.begin(0);
    }

    /// Makes a standby of the primary, or makes one anew.
    fn make_standby(&mut self, number: usize) {
        let data = self.data(number);
        let _ = fs::remove_dir_all(&data);
        let mut copy = program("pg_basebackup");
        copy.args([
            "-h",
            "127.0.0.1",
            "-U",
            ADMIN,
            "-X",
            "stream",
            "-c",
            "fast",
            "--no-sync",
        ]);
        copy.args(["-p", &self.ports[self.primary].to_string(), "-D"])
            .arg(&data);
        succeed(copy);
        fs::write(data.join("standby.signal"), "").unwrap();
        self.follow(number);
        self.begin(number);
    }

    /// A standby follows the primary from now on, or from its start on.
    fn follow(&self, number: usize) {
        let settings = format!(
            "primary_conninfo = 'host=127.0.0.1 port={} user={ADMIN} password=''{PASSWORD}'' sslmode=require \
             application_name=m{number}'\n",
            self.ports[self.primary]
        );
        fs::write(self.data(number).join("postgresql.auto.conf"), settings).unwrap();
        if self.members[number].is_some() {
            self.reload(number);
        }
    }

    fn reload(&self, number: usize) {
        let mut reload = program("pg_ctl");
        reload.args(["reload", "-s", "-D"]).arg(self.data(number));
        succeed(reload);
    }

    /// Starts a server that does not run.
    fn begin(&mut self, number: usize) {
        let (port, data) = (self.ports[number].to_string(), self.data(number));
        let start = || {
            let mut command = program("postgres");
            command.arg("-D").arg(&data).args(["-p", &port]);
            Member::start(command)
        };
        let mut member = start();
        until("the server answers", || {
            // Processes of one that was killed are groups of their own, and may still be ending: while they have its
            // memory, the next one ends at once.
            if member.has_ended() {
                member = start();
            }
            let mut ask = program("pg_isready");
            ask.args(["-q", "-h", "127.0.0.1", "-p", &port]);
            let answers = ask.status().unwrap().success();
            answers.then_some(()).ok_or_else(|| String::from("not yet"))
        });
        self.members[number] = Some(member);
    }

    fn psql(&self, number: usize, database: &str, statement: impl AsRef<OsStr>) -> Command {
        let mut psql = program("psql");
        psql.args([
            "-qAtX",
            "-v",
            "ON_ERROR_STOP=1",
            "-h",
            "127.0.0.1",
            "-U",
            ADMIN,
        ]);
        psql.args(["-p", &self.ports[number].to_string(), "-d", database, "-c"]);
        psql.arg(statement);
        psql
    }

    /// The answer of the primary to a statement of the administrator.
    pub(super) fn say(&self, database: &str, statement: &str) -> String {
        succeed(self.psql(self.primary, database, statement))
    }

    /// Changes a setting of the primary.
    pub(super) fn set(&self, setting: &str) {
        let file = self.data(self.primary).join("postgresql.conf");
        let text = fs::read_to_string(&file).unwrap();
        fs::write(file, format!("{text}{setting}\n")).unwrap();
        self.reload(self.primary);
    }

    /// The standbys in the order of what they have, the one with most first.
    fn standbys(&self) -> Vec<usize> {
        let standbys = (0..3).filter(|it| *it != self.primary && self.members[*it].is_some());
        let mut standbys: Vec<(u64, usize)> = standbys
            .map(|number| {
                let statement = "select pg_last_wal_receive_lsn() - '0/0'";
                let has = succeed(self.psql(number, "postgres", statement));
                (has.trim().parse().unwrap(), number)
            })
            .collect();
        standbys.sort_unstable_by(|one, other| other.cmp(one));
        standbys.into_iter().map(|(_, number)| number).collect()
    }

    /// The primary dies, and the standby with most becomes the primary.
    fn fail_over(&mut self) {
        self.members[self.primary] = None;
        let standbys = self.standbys();
        self.promote(standbys[0]);
        standbys[1..].iter().for_each(|number| self.follow(*number));
    }

    /// Makes a standby the primary.
    pub(super) fn promote(&mut self, number: usize) {
        self.primary = number;
        self.say("postgres", "select pg_promote()");
    }

    /// The primary dies for ever, and the standbys, which are away, come back without it. Its number.
    pub(super) fn lose_primary(&mut self) -> usize {
        let lost = self.primary;
        self.members[lost] = None;
        lost
    }

    /// The standbys come back, and one becomes the primary of the other.
    pub(super) fn recover_all_but(&mut self, lost: usize) {
        let standbys = (0..3).filter(|number| *number != lost);
        standbys.for_each(|number| self.begin(number));
        let standbys = self.standbys();
        self.promote(standbys[0]);
        self.follow(standbys[1]);
        wait(self);
    }

    /// A standby dies. Its number.
    pub(super) fn lose_standby(&mut self) -> usize {
        let behind = (self.primary + 1) % 3;
        self.members[behind] = None;
        // Its processes end by themselves when they find that the first one is gone.
        let statement = format!(
            "select count(*) from pg_stat_replication where application_name = 'm{behind}'"
        );
        until("it is gone", || {
            match self.say("postgres", &statement).trim() {
                "0" => Ok(()),
                _ => Err(String::from("not yet")),
            }
        });
        behind
    }

    /// A standby that was away becomes the primary, with a new standby; all others are gone.
    pub(super) fn promote_behind(&mut self, behind: usize) {
        self.members.fill_with(|| None);
        self.primary = behind;
        self.begin(behind);
        self.promote(behind);
        self.make_standby((behind + 1) % 3);
        wait(self);
    }

    /// A way with this password, to servers that an authority in this folder vouches for.
    pub(super) fn engine_with(
        &self,
        password: &str,
        authority: &Path,
        volume: &str,
    ) -> gannet_engines::Postgresql {
        let hosts = self
            .ports
            .iter()
            .map(|port| (String::from("127.0.0.1"), *port));
        let place = PostgresqlPlace {
            hosts: hosts.collect(),
            user: String::from(USER),
            database: String::from(USER),
        };
        let tls = EngineTls::new(&certified(authority, "ca.pem"), None).unwrap();
        let (tls, patience) = (Some(&tls), REQUEST_PATIENCE);
        let made = gannet_engines::Postgresql::new(&place, password, tls, volume, patience);
        made.unwrap()
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }
}

impl Cluster for Postgresql {
    fn options(&self) -> Vec<String> {
        let hosts = self.ports.iter().map(|port| format!("127.0.0.1:{port}"));
        let hosts = hosts.collect::<Vec<String>>().join(",");
        let ca = self.path("ca.pem").display().to_string();
        let url = format!("postgresql://{USER}@{hosts}/{USER}");
        let options = [String::from("--postgresql"), url];
        options
            .into_iter()
            .chain([String::from("--journal-ca"), ca])
            .collect()
    }

    fn engine(&self, volume: &str) -> Box<dyn Engine> {
        Box::new(self.engine_with(PASSWORD, self.folder(), volume))
    }

    fn strike(&mut self, round: usize) {
        let away = match round % 2 {
            // A standby.
            0 => (self.primary + 1 + round % 4 / 2) % 3,
            _ => self.primary,
        };
        if away == self.primary {
            self.fail_over();
            self.make_standby(away);
        } else {
            self.members[away] = None;
            self.begin(away);
        }
    }

    fn lose(&mut self, count: usize) {
        let primary = self.primary;
        let standbys = (0..3).filter(|it| *it != primary).take(count);
        standbys.for_each(|number| self.members[number] = None);
    }

    fn recover(&mut self) {
        for number in 0..3 {
            if self.members[number].is_none() {
                self.begin(number);
            }
        }
    }
}
