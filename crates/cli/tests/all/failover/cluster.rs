//! What clusters of an engine have in common, on this host.

use gannet_meta::Engine;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

/// How long a cluster may take to begin, or to have another leader.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a request of a test is sent again.
pub(super) const REQUEST_PATIENCE: Duration = Duration::from_secs(4);
/// The password of a user that has the journal alone.
pub(super) const PASSWORD: &str = "a pass: word";

/// Three members of an engine, which end when this is dropped.
pub(super) trait Cluster {
    /// The options of `gannet volume create`.
    fn options(&self) -> Vec<String>;

    /// A way to the journal of a volume.
    fn engine(&self, volume: &str) -> Box<dyn Engine>;

    /// A member dies, or ends, and comes back; the leader in some rounds. Returns when the others go on.
    fn strike(&mut self, round: usize);

    /// This many members die that need not be replaced.
    fn lose(&mut self, count: usize);

    /// The members that died come back.
    fn recover(&mut self);
}

/// Waits until a cluster answers.
pub(super) fn wait(cluster: &dyn Cluster) {
    let mut engine = cluster.engine("wait");
    until("the engine answers", || match engine.row() {
        Ok(_) => Ok(()),
        Err(error) => Err(error.to_string()),
    });
}

/// Tries until it succeeds.
pub(super) fn until<T>(what: &str, mut attempt: impl FnMut() -> Result<T, String>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        match attempt() {
            Ok(value) => return value,
            Err(error) => assert!(Instant::now() < end, "{what}: {error}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A port that nobody listens at, below those that the system gives to connections: a process that is away keeps it.
pub(super) fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let own = std::process::id() as u16 % 1000;
    let ports = std::iter::repeat_with(|| NEXT.fetch_add(1, Ordering::Relaxed));
    let mut ports = ports.map(|number| 20_000 + (own * 11 + number) % 12_000);
    let free = ports.find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok());
    free.unwrap()
}

/// A process of the engine, with those that it starts; killed when dropped.
pub(super) struct Member(Child);

impl Member {
    pub(super) fn start(mut command: Command) -> Member {
        use std::os::unix::process::CommandExt;
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(Stdio::null()).process_group(0);
        Member(command.spawn().expect("the engine is installed"))
    }

    /// Whether it has ended by itself.
    pub(super) fn has_ended(&mut self) -> bool {
        self.0.try_wait().unwrap().is_some()
    }

    /// Asks it to end, and waits for that.
    pub(super) fn end(mut self, signal: &str) {
        let pid = self.0.id().to_string();
        let asked = Command::new("kill").args(["-s", signal, &pid]).status();
        assert!(asked.unwrap().success());
        self.0.wait().unwrap();
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        // The whole group. One that has ended is not there.
        let group = format!("-{}", self.0.id());
        let mut kill = Command::new("kill");
        let kill = kill
            .args(["-s", "KILL", "--", &group])
            .stderr(Stdio::null());
        let _ = kill.status();
        let _ = self.0.wait();
    }
}

/// An authority of its own, and a certificate for 127.0.0.1, which serves both sides: `ca.pem`, `server.pem` and
/// `server.key` of a folder.
pub(super) fn certify(folder: &Path) {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_key = KeyPair::generate().unwrap();
    let ca = authority.self_signed(&authority_key).unwrap().pem();
    let issuer = Issuer::new(authority, authority_key);
    let key = KeyPair::generate().unwrap();
    let server = CertificateParams::new([String::from("127.0.0.1")]).unwrap();
    let server = server.signed_by(&key, &issuer).unwrap();
    for (name, text) in [
        ("ca.pem", ca),
        ("server.pem", server.pem()),
        ("server.key", key.serialize_pem()),
    ] {
        std::fs::write(folder.join(name), text).unwrap();
    }
    let private = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(folder.join("server.key"), private).unwrap();
}

/// The content of a file that [`certify`] has made.
pub(super) fn certified(folder: &Path, name: &str) -> Vec<u8> {
    std::fs::read(folder.join(name)).unwrap()
}
