//! The memory of a process, and the latencies of other clients, during an attack.

use crate::peer::{Peer, getattr};
use crate::support::{Place, Server};
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Bytes beyond its idle state that a server may hold for all attackers together.
pub(crate) const HELD_MAX: usize = 256 << 20;

/// The factor by which an attack may raise the processor time that a server spends for each call of an honest client.
/// One listing for each of 300 attackers between two calls is a factor of 2,000, as seen at load 20. For a client that
/// waits for the attack's end it is above 20,000. Wall time would not do: a busy machine slows the attacked server,
/// which always has work, more than one that mostly waits.
const COST_FACTOR_MAX: f64 = 5000.0;

/// How long attacks last.
pub(crate) fn lasting() -> Duration {
    let seconds = std::env::var("GANNET_HOSTILE_SECONDS").ok();
    let seconds = seconds.and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(4))
}

/// Latencies are compared.
pub(crate) fn is_thorough() -> bool {
    lasting() >= Duration::from_secs(30)
}

/// Bytes of memory of a process: VmRSS.
pub(crate) fn resident(server: &Server) -> usize {
    let status = fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.unwrap().trim().trim_end_matches(" kB");
    kib.parse::<usize>().unwrap() << 10
}

/// Processor time of a process, in ticks of the kernel.
fn processor_time(server: &Server) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{}/stat", server.pid())).unwrap();
    // The program's name, in parentheses, may contain spaces. User and system time are the 12th and 13th behind it.
    let (_, behind) = stat.rsplit_once(')').unwrap();
    let fields = behind.split_whitespace().skip(11).take(2);
    fields.map(|field| field.parse::<u64>().unwrap()).sum()
}

/// The observations of a server while an attack went on.
#[derive(Debug)]
pub(crate) struct Seen {
    /// The most bytes that it held beyond those before.
    pub(crate) held: usize,
    /// The 99th percentile of an honest client's GETATTRs.
    pub(crate) p99: Duration,
    /// Ticks of processor time for each GETATTR of this client.
    cost: f64,
    /// The same at a server that nobody attacked meanwhile.
    cost_beside: f64,
}

impl Seen {
    /// Whether the honest client was served all the time, by the other server's measure.
    pub(crate) fn is_served(&self) -> bool {
        self.cost < COST_FACTOR_MAX * self.cost_beside
    }
}

/// Watches `server` while `attack` runs, and an honest client that is connected already; beside it a server that nobody
/// attacks.
pub(crate) fn watch(server: &Server, attack: impl FnOnce()) -> Seen {
    let place = Place::new();
    let other = Server::of(&place.path("share"), &place.path("state"));
    let (honest, beside) = (Honest::of(server), Honest::of(&other));
    let before = resident(server);
    let times = [server, &other].map(processor_time);
    let over = AtomicBool::new(false);
    let (held, mut latencies, beside) = thread::scope(|scope| {
        let calling = scope.spawn(|| honest.call_until(&over));
        let calling_beside = scope.spawn(|| beside.call_until(&over));
        let watching = scope.spawn(|| {
            let mut most = 0;
            while !over.load(Ordering::Relaxed) {
                most = most.max(resident(server).saturating_sub(before));
                thread::sleep(Duration::from_millis(20));
            }
            most
        });
        attack();
        over.store(true, Ordering::Relaxed);
        let latencies = (calling.join().unwrap(), calling_beside.join().unwrap());
        (watching.join().unwrap(), latencies.0, latencies.1)
    });
    // At least one tick: the shortest runs have less.
    let spent = |server: &Server, before: u64| (processor_time(server) - before).max(1) as f64;
    let cost = spent(server, times[0]) / latencies.len() as f64;
    let cost_beside = spent(&other, times[1]) / beside.len() as f64;
    latencies.sort_unstable();
    let at = latencies.len() * 99 / 100;
    Seen {
        held,
        p99: latencies[at.min(latencies.len() - 1)],
        cost,
        cost_beside,
    }
}

/// A client that makes one call after the other.
struct Honest {
    peer: Peer,
    call: Vec<u8>,
}

impl Honest {
    fn of(server: &Server) -> Honest {
        let mut peer = Peer::connect(&server.tcp);
        let call = getattr(&peer.mount());
        peer.exchange(&call).unwrap();
        Honest { peer, call }
    }

    /// The times that its calls take.
    fn call_until(mut self, over: &AtomicBool) -> Vec<Duration> {
        let mut latencies = Vec::new();
        while !over.load(Ordering::Relaxed) {
            let began = Instant::now();
            self.peer.exchange(&self.call).unwrap();
            latencies.push(began.elapsed());
            thread::sleep(Duration::from_millis(1));
        }
        latencies
    }
}
