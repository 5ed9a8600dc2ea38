//! The memory of a process, and the latencies of other clients, during an attack.

use crate::peer::{Peer, getattr};
use crate::support::Server;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Bytes beyond its idle state that a server may hold for all attackers together.
pub(crate) const HELD_MAX: usize = 256 << 20;

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

/// The observations of a server while an attack went on.
#[derive(Debug)]
pub(crate) struct Seen {
    /// The most bytes that it held beyond those before.
    pub(crate) held: usize,
    /// The 99th percentile of an honest client's GETATTRs, and the longest.
    pub(crate) p99: Duration,
    pub(crate) longest: Duration,
}

/// Watches `server` while `attack` runs, and an honest client that is connected already.
pub(crate) fn watch(server: &Server, attack: impl FnOnce()) -> Seen {
    let mut honest = Peer::connect(&server.tcp);
    let call = getattr(&honest.mount());
    honest.exchange(&call).unwrap();
    let before = resident(server);
    let over = AtomicBool::new(false);
    let (held, mut latencies) = thread::scope(|scope| {
        let calling = scope.spawn(|| {
            let mut latencies = Vec::new();
            while !over.load(Ordering::Relaxed) {
                let began = Instant::now();
                honest.exchange(&call).unwrap();
                latencies.push(began.elapsed());
                thread::sleep(Duration::from_millis(1));
            }
            latencies
        });
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
        (watching.join().unwrap(), calling.join().unwrap())
    });
    latencies.sort_unstable();
    let at = latencies.len() * 99 / 100;
    Seen {
        held,
        p99: latencies[at.min(latencies.len() - 1)],
        longest: latencies[latencies.len() - 1],
    }
}
