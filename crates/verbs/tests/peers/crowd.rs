//! Many peers: half-open ones, killed ones, ones that leave, and the memory that idle ones take.

use super::{LEN, NOTICED, anywhere, options, ping, provider, receive, run, send};
use gannet_fabric::{ConnectOptions, Listener, Provider, Receives, SharedReceives, WorkId};
use gannet_runtime::{Handle, both, sleep, timeout};
use std::cell::Cell;
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::time::Duration;

/// Half-open connections of each kind.
const HALF_OPEN: usize = 1000;
/// Half-open connections of one process.
const HALF_OPEN_OF_ONE: usize = 100;
/// Idle connections.
const IDLE: u64 = 200;
/// Bytes that an idle connection may take beside the rings of its device.
const IDLE_BYTES_MAX: u64 = 8 << 10;

/// Another process of this program, which is killed when this is dropped.
pub(super) struct Other(Child);

impl Other {
    /// Starts the test `name`, which learns where to connect.
    pub(super) fn start(name: &str, to: SocketAddr) -> Other {
        let child = Command::new(std::env::current_exe().expect("this program"))
            .args([name, "--exact", "--ignored"])
            .env("GANNET_VERBS_TO", to.to_string())
            .stdout(Stdio::null())
            .spawn();
        Other(child.expect("a process"))
    }

    /// Stops it: it answers nothing from then on.
    pub(super) fn stop(&self) {
        let stopped = Command::new("kill")
            .args(["-s", "STOP", &self.0.id().to_string()])
            .status();
        assert!(stopped.expect("the kill command").success());
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        self.0.kill().expect("killed");
        self.0.wait().expect("gone");
    }
}

fn peer() -> SocketAddr {
    let to = std::env::var("GANNET_VERBS_TO").expect("where to connect");
    to.parse().expect("an address")
}

/// Objects of our devices that the kernel counts, but those of its own.
fn objects() -> Vec<u64> {
    let shown = Command::new("rdma").args(["res", "show"]).output();
    let shown = String::from_utf8(shown.expect("the rdma command").stdout).expect("text");
    let words: Vec<&str> = shown.split_whitespace().collect();
    let counted = ["qp", "cm_id", "mr", "srq"];
    let counts = words.windows(2).filter(|pair| counted.contains(&pair[0]));
    counts.filter_map(|pair| pair[1].parse().ok()).collect()
}

/// Waits until the kernel counts the same objects as before.
async fn objects_are(runtime: &Handle, before: &[u64]) {
    let mut left = objects();
    for _ in 0..NOTICED.as_secs() * 2 {
        if left == before {
            break;
        }
        sleep(runtime, Duration::from_secs(1)).await;
        left = objects();
    }
    assert_eq!(left, before);
}

/// One connection, so that all that is kept is there; and the objects then.
async fn objects_at_rest(
    runtime: &Handle,
    near: &dyn Provider,
    listener: &mut dyn Listener,
) -> Vec<u64> {
    let connecting = near.connect(listener.local_address(), options());
    let accepting = async { listener.accept().await?.accept(options()).await };
    drop(both(connecting, accepting).await);
    sleep(runtime, Duration::from_secs(2)).await;
    objects()
}

#[test]
#[ignore = "needs an RDMA device"]
fn a_thousand_connections_that_are_cut_off_leave_no_objects() {
    run(|runtime| async move {
        let (near, far) = (provider(&runtime), provider(&runtime));
        let mut listener = far.listen(anywhere()).expect("a listener");
        let to = listener.local_address();
        let before = objects_at_rest(&runtime, &*near, &mut *listener).await;
        let serving = Rc::clone(&runtime);
        let serve = async move {
            let mut count = 0u32;
            while let Ok(incoming) = listener.accept().await {
                count += 1;
                match count % 4 {
                    0 => drop(incoming),
                    1 => incoming.reject(vec![1, 2, 3]).await,
                    _ => {
                        let accepted = incoming.accept(options());
                        serving.spawn("serve", Box::pin(async { drop(accepted.await) }));
                    }
                }
            }
        };
        runtime.spawn("accept", Box::pin(serve));
        for round in 0..1000u64 {
            // Some are dropped at a random moment of their set-up.
            let limit = match round % 3 {
                0 => Duration::from_micros(runtime.random() % 20_000),
                _ => NOTICED,
            };
            if let Ok(Ok(connected)) = timeout(&runtime, limit, near.connect(to, options())).await {
                if round % 2 == 0 {
                    connected.close();
                }
                drop(connected);
            }
        }
        objects_are(&runtime, &before).await;
    });
}

#[test]
#[ignore = "the other process of another test"]
fn connects_without_end() {
    run(|runtime| async move {
        let near = provider(&runtime);
        let mut kept = Vec::new();
        loop {
            let connected = near.connect(peer(), options()).await;
            kept.push(connected.expect("a connection"));
            // The last one of those that are kept goes at a random moment of its use.
            if kept.len() > 20 {
                kept.swap_remove(runtime.random() as usize % kept.len());
            }
        }
    });
}

#[test]
#[ignore = "needs an RDMA device"]
fn processes_that_are_killed_leave_no_objects_of_a_thousand_connections() {
    const CONNECTS: u32 = 1000;
    run(|runtime| async move {
        let before = objects();
        let far = provider(&runtime);
        let mut listener = far.listen(anywhere()).expect("a listener");
        let to = listener.local_address();
        let (mut connects, mut killed) = (0, 0);
        while connects < CONNECTS {
            let child = Other::start("crowd::connects_without_end", to);
            // So many connections, and a part of the next one's set-up.
            let quota = 1 + runtime.random() as u32 % 100;
            let mut kept = Vec::new();
            for _ in 0..quota {
                let incoming = listener.accept().await.expect("a peer");
                kept.push(incoming.accept(options()).await);
            }
            sleep(&runtime, Duration::from_micros(runtime.random() % 5000)).await;
            drop(child);
            connects += quota;
            killed += 1;
            drop(kept);
            // Its last request may wait here still.
            while let Ok(left) =
                timeout(&runtime, Duration::from_millis(50), listener.accept()).await
            {
                drop(left);
            }
        }
        println!("{connects} connections of {killed} processes");
        // The provider keeps the memory of messages for the next ones.
        drop((listener, far));
        objects_are(&runtime, &before).await;
    });
}

#[test]
#[ignore = "the other process of another test"]
fn connects_often() {
    run(|runtime| async move {
        let near = provider(&runtime);
        for _ in 0..HALF_OPEN_OF_ONE {
            let connecting = near.connect(peer(), options());
            let keep = async {
                let connected = connecting.await;
                std::future::pending::<()>().await;
                drop(connected);
            };
            runtime.spawn("connect", Box::pin(keep));
        }
        std::future::pending::<()>().await;
    });
}

#[test]
#[ignore = "needs an RDMA device"]
fn a_thousand_half_open_connections_delay_no_other_and_are_given_up() {
    run(|runtime| async move {
        let before = objects();
        let (near, far) = (provider(&runtime), provider(&runtime));
        let mut listener = far.listen(anywhere()).expect("a listener");
        let to = listener.local_address();
        let (mut children, mut asking) = (Vec::new(), Vec::new());
        while asking.len() < HALF_OPEN {
            let child = Other::start("crowd::connects_often", to);
            for _ in 0..HALF_OPEN_OF_ONE {
                asking.push(listener.accept().await.expect("a peer"));
            }
            child.stop();
            children.push(child);
        }
        // iWARP listens for TCP: streams without a request.
        let connect = || TcpStream::connect_timeout(&to, Duration::from_secs(1));
        let silent: Vec<_> = (0..HALF_OPEN).map_while(|_| connect().ok()).collect();
        println!("{} half open, {} silent", asking.len(), silent.len());
        let start = runtime.now();
        let connecting = near.connect(to, options());
        let accepting = async { listener.accept().await?.accept(options()).await };
        let (one, other) = both(connecting, accepting).await;
        ping(&one.expect("the near end"), &other.expect("the far end")).await;
        let took = runtime.now() - start;
        println!("another after {took:?}");
        assert!(took < NOTICED, "{took:?}");

        let start = runtime.now();
        let left = Rc::new(Cell::new(asking.len()));
        for incoming in asking {
            let (accepted, left) = (incoming.accept(options()), Rc::clone(&left));
            let accept = async move {
                drop(accepted.await);
                left.set(left.get() - 1);
            };
            runtime.spawn("accept", Box::pin(accept));
        }
        while left.get() > 0 {
            sleep(&runtime, Duration::from_millis(100)).await;
        }
        let took = runtime.now() - start;
        println!("all given up after {took:?}");
        // The providers keep the memory of messages for the next ones.
        drop((children, silent, listener, near, far));
        objects_are(&runtime, &before).await;
    });
}

/// Bytes of a line of this process's status.
fn status(name: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").expect("the status");
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.split_whitespace().nth(1));
    number.and_then(|it| it.parse::<u64>().ok()).expect(name) << 10
}

#[test]
#[ignore = "needs an RDMA device"]
fn an_idle_connection_takes_little_beside_the_rings_of_its_device() {
    run(|runtime| async move {
        let (near, far) = (provider(&runtime), provider(&runtime));
        let queue = |provider: &dyn Provider| {
            let shared = SharedReceives {
                id: WorkId(9),
                len: LEN,
                receives_max: 1000,
            };
            let queue = provider.shared_receives(shared).expect("a queue");
            queue.post(100).expect("room");
            queue
        };
        let queues = [queue(&*near), queue(&*far)];
        let shared = |end: usize| ConnectOptions {
            receives: Receives::Shared {
                queue: Rc::clone(&queues[end]),
                granted: 1,
            },
            ..options()
        };
        let mut kept = Vec::new();
        let (mut before, mut locked) = (0, 0);
        for count in 0..IDLE + 20 {
            // The first ones fill what is made once.
            if count == 20 {
                (before, locked) = (status("RssAnon"), status("VmPin") + status("VmLck"));
            }
            let mut listener = far.listen(anywhere()).expect("a listener");
            let connecting = near.connect(listener.local_address(), shared(0));
            let accepting = async { listener.accept().await?.accept(shared(1)).await };
            let (one, other) = both(connecting, accepting).await;
            let pair = (one.expect("the near end"), other.expect("the far end"));
            send(&pair.0, 100);
            receive(&pair.1).await;
            queues[1].post(queues[1].room().min(1)).expect("room");
            kept.push(pair);
        }
        let ends = 2 * IDLE;
        let anonymous = status("RssAnon").saturating_sub(before) / ends;
        let pinned = (status("VmPin") + status("VmLck")).saturating_sub(locked) / ends;
        println!("an idle connection: {anonymous} bytes, {pinned} of them pinned");
        assert!(anonymous <= IDLE_BYTES_MAX, "{anonymous}");
        assert!(pinned <= IDLE_BYTES_MAX, "{pinned}");
    });
}
