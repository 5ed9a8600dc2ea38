//! The memory that idle connections cost a server, and the memory it keeps after they end. In a process of its
//! own: its peers are bare sockets, so its memory is the server's.

use gannet_fabric::Provider;
use gannet_iwarp::{IwarpConfig, IwarpProvider};
use gannet_runtime::Handle;
use gannet_runtime::tokio_plug::block_on;
use std::fs;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Bytes that a connection may cost beside its socket: a tenth less than the 8 KiB that servers charge for one, because
/// the places of its pieces differ from run to run.
const IDLE_BYTES_MAX: u64 = (8 << 10) * 9 / 10;
/// Bytes that the process may keep of each after all have ended: pieces that its allocator cannot give back.
const LEFT_BYTES_MAX: u64 = 1 << 10;

/// The address for a server to listen at.
pub(crate) const LOOPBACK: ([u8; 4], u16) = ([127, 0, 0, 1], 0);

/// Bytes of this process that are of no file.
fn anonymous() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:"));
    let words = line.unwrap().split_whitespace().nth(1).unwrap();
    words.parse::<u64>().unwrap() * 1024
}

/// Waits until no more than `max` bytes are in memory, at most five minutes; returns the bytes then.
fn settled(max: u64) -> u64 {
    let patience = Instant::now() + Duration::from_secs(300);
    while anonymous() > max && Instant::now() < patience {
        std::thread::sleep(Duration::from_millis(100));
    }
    anonymous()
}

/// Has `serve` serve on a core of its own, for ever; returns the address that it sends.
pub(crate) fn served_by<F: Future<Output = ()>>(
    serve: impl FnOnce(Handle, Rc<dyn Provider>, mpsc::Sender<SocketAddr>) -> F + Send + 'static,
) -> SocketAddr {
    let (sender, address) = mpsc::channel();
    std::thread::spawn(move || {
        block_on(|runtime| {
            let config = IwarpConfig {
                crc: false,
                ..IwarpConfig::default()
            };
            let provider = IwarpProvider::new(Rc::clone(&runtime), config);
            serve(runtime, provider, sender)
        })
        .unwrap();
    });
    address.recv().unwrap()
}

/// Has `count` peers do `work`; checks their memory when they rest, that each still has a `call` answered, and the
/// memory that is left after they end.
pub(crate) fn check<P>(
    story: &str,
    count: u64,
    connect: impl Fn(u64) -> P,
    work: fn(&mut P),
    call: fn(&mut P),
) {
    check_within(IDLE_BYTES_MAX, story, count, connect, work, call);
}

/// The same, with a bound of `bytes_max` for each connection at rest.
pub(crate) fn check_within<P>(
    bytes_max: u64,
    story: &str,
    count: u64,
    connect: impl Fn(u64) -> P,
    work: fn(&mut P),
    call: fn(&mut P),
) {
    let start = anonymous();
    let mut peers: Vec<P> = (0..count).map(connect).collect();
    peers.iter_mut().for_each(work);
    let busy = anonymous();
    let bound = start + count * bytes_max;
    let idle = settled(bound);
    let each = |bytes: u64| bytes.saturating_sub(start) / count;
    eprintln!("{story}: {} bytes each at first", each(busy));
    assert!(idle <= bound, "{story}: {} bytes each at rest", each(idle));
    // Connections at rest still answer.
    peers.iter_mut().for_each(call);
    drop(peers);
    let left = settled(start + count * LEFT_BYTES_MAX);
    let (idle, left) = (each(idle), each(left));
    eprintln!("{story}: {idle} bytes each at rest, {left} left");
    assert!(left <= LEFT_BYTES_MAX, "{story}: {left} of each are left");
}
