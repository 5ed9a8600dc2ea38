//! Peers that break rules, leave or die, on a real device.
//!
//! `GANNET_VERBS_ADDRESS` names the device by the address of its network interface, as for `devices.rs`.

mod crowd;

use crowd::Other;
use gannet_fabric::{
    Access, Backing, ConnectError, ConnectOptions, Connected, Disconnected, Done, Listener,
    Provider, Receives, Region, RemoteAddress, RemoteKey, Scope, SendOptions, SharedReceives,
    Signal, Source, Span, WorkId, next_completions,
};
use gannet_runtime::{Buffer, Handle, both, sleep, timeout, tokio_plug::block_on};
use gannet_verbs::{SharedVerbsListener, VerbsConfig, VerbsLibrary, VerbsProvider};
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::time::Duration;

const LEN: usize = 4096;
/// The time within which an end is noticed.
const NOTICED: Duration = Duration::from_secs(8);

fn address() -> IpAddr {
    let name = "GANNET_VERBS_ADDRESS";
    let address = std::env::var(name).unwrap_or_else(|_| panic!("{name} names no device"));
    address.parse().expect("an address")
}

fn anywhere() -> SocketAddr {
    SocketAddr::new(address(), 0)
}

fn provider(runtime: &Handle) -> Rc<VerbsProvider> {
    let library = VerbsLibrary::open().expect("rdma-core");
    let config = VerbsConfig::at(address());
    VerbsProvider::new(Rc::clone(runtime), &library, &config).expect("a device")
}

fn run<F: Future<Output = ()>>(main: impl FnOnce(Handle) -> F) {
    block_on(main).expect("a runtime");
}

fn options() -> ConnectOptions {
    ConnectOptions {
        ord: 4,
        ird: 4,
        receives: (0..8).map(|_| Buffer::zeroed(LEN)).collect(),
        ..ConnectOptions::default()
    }
}

async fn pair(near: &VerbsProvider, far: &VerbsProvider) -> (Connected, Connected) {
    pair_with(near, far, options()).await
}

async fn pair_with(
    near: &VerbsProvider,
    far: &VerbsProvider,
    far_options: ConnectOptions,
) -> (Connected, Connected) {
    let mut listener = far.listen(anywhere()).expect("a listener");
    let connecting = near.connect(listener.local_address(), options());
    let accepting = async { listener.accept().await?.accept(far_options).await };
    let (near, far) = both(connecting, accepting).await;
    (near.expect("the near end"), far.expect("the far end"))
}

fn message(len: usize) -> Source {
    Source::Buffer {
        buffer: Buffer::from_vec(vec![7; len]),
        len: len as u32,
    }
}

fn send(from: &Connected, len: usize) {
    from.post_send(WorkId(1), message(len), SendOptions::default())
        .expect("room");
    from.flush();
}

async fn receive(at: &Connected) -> u32 {
    let mut completions = Vec::new();
    next_completions(&**at, &mut completions)
        .await
        .expect("a message");
    match completions[0].outcome {
        Ok(Done::Received { len, .. }) => len,
        other => panic!("not a message: {other:?}"),
    }
}

async fn ping(near: &Connected, far: &Connected) {
    send(near, 100);
    assert_eq!(receive(far).await, 100);
    send(far, 2000);
    assert_eq!(receive(near).await, 2000);
    for end in [near, far] {
        // An end with a shared queue has its receives there.
        let _ = end.post_receive(WorkId(0), Buffer::zeroed(LEN));
    }
}

async fn ended(runtime: &Handle, end: &Connected) -> Disconnected {
    let ended = async {
        let mut rest = Vec::new();
        loop {
            if let Err(reason) = next_completions(&**end, &mut rest).await {
                break reason;
            }
        }
    };
    timeout(runtime, NOTICED, ended)
        .await
        .expect("an end in time")
}

fn expose(end: &Connected, memory: Vec<u8>, access: Access) -> Region {
    let backing = Backing::Buffer(Buffer::from_vec(memory));
    let domain = end.domain();
    let region = domain.register_now(backing, access, Scope::Endpoint(end.id()));
    region.expect("a region")
}

fn bytes_of(region: &Region) -> Vec<u8> {
    let memory = region.lend().expect("memory");
    let bytes = memory.to_vec();
    region.restore(memory).expect("the same memory");
    bytes
}

#[test]
#[ignore = "needs an RDMA device"]
fn a_peer_beyond_its_grant_ends_and_takes_no_receive_of_others() {
    run(|runtime| async move {
        let (near, far) = (provider(&runtime), provider(&runtime));
        let queue = far.shared_receives(SharedReceives {
            id: WorkId(9),
            len: LEN,
            receives_max: 100,
        });
        let queue = queue.expect("a queue");
        queue.post(100).expect("room");
        let shared = || ConnectOptions {
            receives: Receives::Shared {
                queue: Rc::clone(&queue),
                granted: 4,
            },
            ..options()
        };
        let (greedy, greedy_far) = pair_with(&near, &far, shared()).await;
        let (modest, modest_far) = pair_with(&near, &far, shared()).await;
        for _ in 0..50 {
            send(&greedy, 100);
        }
        let reason = ended(&runtime, &greedy_far).await;
        assert!(
            matches!(reason, Disconnected::PeerMisbehaved(_)),
            "{reason}"
        );
        assert_ne!(ended(&runtime, &greedy).await, Disconnected::Local);
        assert_eq!((queue.posted(), queue.in_use()), (96, 0));
        for _ in 0..3 {
            ping(&modest, &modest_far).await;
        }
    });
}

#[test]
#[ignore = "needs an RDMA device"]
fn messages_that_are_cut_off_take_no_shared_receive_for_good() {
    const RECEIVES: u32 = 8;
    run(|runtime| async move {
        let (near, far) = (provider(&runtime), provider(&runtime));
        let queue = far.shared_receives(SharedReceives {
            id: WorkId(9),
            len: 64 << 10,
            receives_max: RECEIVES,
        });
        let queue = queue.expect("a queue");
        queue.post(RECEIVES).expect("room");
        let shared = || ConnectOptions {
            receives: Receives::Shared {
                queue: Rc::clone(&queue),
                granted: RECEIVES,
            },
            ..options()
        };
        for _ in 0..40 {
            let (cut, cut_far) = pair_with(&near, &far, shared()).await;
            // Each is many packets long.
            for _ in 0..RECEIVES - 1 {
                send(&cut, 60_000);
            }
            sleep(&runtime, Duration::from_micros(runtime.random() % 5000)).await;
            cut.abort("the test says so");
            ended(&runtime, &cut_far).await;
            queue.post(queue.room()).expect("room");
        }
        let start = runtime.now();
        while queue.in_use() > 0 && runtime.now() - start < NOTICED {
            sleep(&runtime, Duration::from_millis(10)).await;
        }
        queue.post(queue.room()).expect("room");
        assert_eq!(queue.posted(), RECEIVES);
        let (whole, whole_far) = pair_with(&near, &far, shared()).await;
        for _ in 0..RECEIVES {
            send(&whole, 60_000);
        }
        let mut received = Vec::new();
        let all = async {
            while received.len() < RECEIVES as usize {
                next_completions(&*whole_far, &mut received)
                    .await
                    .expect("messages");
            }
        };
        timeout(&runtime, NOTICED, all).await.expect("all messages");
    });
}

#[test]
#[ignore = "needs an RDMA device"]
fn a_refused_access_ends_its_connection_alone_and_changes_nothing() {
    run(|runtime| async move {
        let (near, far) = (provider(&runtime), provider(&runtime));
        let (by_near, by_far) = pair(&near, &far).await;
        // Memory of another protocol's, in a protection domain of its own.
        let (others, _others_far) = pair(&provider(&runtime), &far).await;
        let foreign = expose(&others, vec![5; LEN], Access::RemoteReadWrite);
        let foreign_address = RemoteAddress {
            key: foreign.remote_key(),
            offset: foreign.base(),
        };
        let wrongs: [fn(&Region, &mut RemoteAddress, RemoteAddress); 6] = [
            |region, address, _| address.key = RemoteKey(!region.remote_key().0),
            |region, _, _| drop(region.invalidate()),
            |_, address, _| address.offset += LEN as u64 - 99,
            |_, address, _| address.offset -= 1,
            |_, address, _| address.offset = u64::MAX - 50,
            |_, address, foreign| *address = foreign,
        ];
        for (index, wrong) in wrongs.into_iter().enumerate() {
            for is_read in [false, true] {
                let (near, far) = pair(&near, &far).await;
                let target = expose(&far, vec![5; LEN], Access::RemoteReadWrite);
                let mut address = RemoteAddress {
                    key: target.remote_key(),
                    offset: target.base(),
                };
                wrong(&target, &mut address, foreign_address);
                if !target.is_valid() {
                    // A key under a window ends by a work request.
                    target.invalidate().await;
                }
                let own = expose(&near, vec![1; 100], Access::Local);
                let span = Span::whole(&own).expect("short");
                if is_read {
                    near.post_read(WorkId(2), span, address).expect("room");
                } else {
                    let source = Source::Span(span);
                    near.post_write(WorkId(2), source, address, Signal::OnError)
                        .expect("room");
                }
                near.flush();
                let reasons = (ended(&runtime, &near).await, ended(&runtime, &far).await);
                println!(
                    "wrong {index}, read {is_read}: {} | {}",
                    reasons.0, reasons.1
                );
                assert_ne!(reasons.0, Disconnected::Local);
                assert_ne!(reasons.1, Disconnected::Local);
                let memory = target.deregister().await.expect("gone").expect("memory");
                assert!(memory.iter().all(|byte| *byte == 5), "wrong {index}");
                assert_eq!(bytes_of(&own), [1; 100]);
            }
        }
        assert_eq!(bytes_of(&foreign), [5; LEN]);
        ping(&by_near, &by_far).await;
    });
}

#[test]
#[ignore = "needs an RDMA device"]
fn private_data_of_every_length_arrives_whole_or_is_refused_at_home() {
    run(|runtime| async move {
        let (near, far) = (provider(&runtime), provider(&runtime));
        let limits = near.capabilities().private_data;
        let mut listener = far.listen(anywhere()).expect("a listener");
        let to = listener.local_address();
        let data = |len: usize, seed: usize| (0..len).map(|at| (at + seed) as u8 | 1).collect();
        let with = |private_data| ConnectOptions {
            private_data,
            ..options()
        };
        for len in [limits.request_max + 1, 255, 256, 508] {
            let refused = near.connect(to, with(data(len, 1))).await;
            let refused = refused.err().expect("too long");
            assert!(
                matches!(refused, ConnectError::Unsupported(_)),
                "{len}: {refused}"
            );
        }
        for len in 0..=limits.reply_max {
            let request: Vec<u8> = data(len.min(limits.request_max), 1);
            let reply: Vec<u8> = data(len, 2);
            let connecting = near.connect(to, with(request.clone()));
            let accepting = async {
                let incoming = listener.accept().await?;
                assert_arrived(incoming.private_data(), &request);
                incoming.accept(with(reply.clone())).await
            };
            let (near, far) = both(connecting, accepting).await;
            let (near, far) = (near.expect("the near end"), far.expect("the far end"));
            assert_arrived(near.private_data(), &reply);
            assert_arrived(far.private_data(), &request);
            if len % 50 == 0 {
                ping(&near, &far).await;
            }
        }
        let connecting = near.connect(to, options());
        let accepting = async {
            let incoming = listener.accept().await?;
            incoming.accept(with(data(limits.reply_max + 1, 2))).await
        };
        let (near, far) = both(connecting, accepting).await;
        let refused = far.err().expect("too long");
        assert!(matches!(refused, ConnectError::Unsupported(_)), "{refused}");
        assert!(near.is_err(), "nobody accepted it");
    });
}

/// The private data has arrived, with zeros behind it where its length is not told.
fn assert_arrived(arrived: &[u8], sent: &[u8]) {
    let (data, tail) = arrived.split_at(sent.len());
    assert_eq!(data, sent);
    assert!(tail.iter().all(|byte| *byte == 0), "{} bytes", sent.len());
}

#[test]
#[ignore = "the other process of another test"]
fn connects_and_stays() {
    let to = std::env::var("GANNET_VERBS_TO").expect("where to connect");
    run(|runtime| async move {
        let near = provider(&runtime);
        let connected = near.connect(to.parse().expect("an address"), options());
        let connected = connected.await.expect("a connection");
        send(&connected, 10);
        std::future::pending::<()>().await;
    });
}

#[test]
#[ignore = "needs an RDMA device"]
fn a_killed_process_is_noticed() {
    run(|runtime| async move {
        let far = provider(&runtime);
        let mut listener = far.listen(anywhere()).expect("a listener");
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["connects_and_stays", "--exact", "--ignored"])
            .env("GANNET_VERBS_TO", listener.local_address().to_string())
            .stdout(Stdio::null())
            .spawn()
            .expect("a process");
        let incoming = listener.accept().await.expect("a peer");
        let far = incoming.accept(options()).await.expect("a connection");
        assert_eq!(receive(&far).await, 10);
        child.kill().expect("killed");
        child.wait().expect("gone");
        let start = runtime.now();
        let reason = ended(&runtime, &far).await;
        println!("{reason} after {:?}", runtime.now() - start);
    });
}

#[test]
#[ignore = "the other process of another test"]
fn connects_and_sleeps() {
    let to = std::env::var("GANNET_VERBS_TO").expect("where to connect");
    run(|runtime| async move {
        let near = provider(&runtime);
        let connected = near.connect(to.parse().expect("an address"), options());
        let connected = connected.await;
        std::future::pending::<()>().await;
        drop(connected);
    });
}

#[test]
#[ignore = "needs an RDMA device"]
fn a_peer_that_never_finishes_its_set_up_is_given_up_and_delays_no_other() {
    run(|runtime| async move {
        let (near, far) = (provider(&runtime), provider(&runtime));
        let mut listener = far.listen(anywhere()).expect("a listener");
        let to = listener.local_address();
        // iWARP listens for TCP: a stream without a request.
        let silent = std::net::TcpStream::connect_timeout(&to, Duration::from_secs(1));
        let child = Other::start("connects_and_sleeps", to);
        let incoming = listener.accept().await.expect("a peer");
        // It has asked, and answers nothing from now on.
        child.stop();
        let start = runtime.now();
        let half = incoming.accept(options());
        let other = async {
            let connecting = near.connect(to, options());
            let accepting = async { listener.accept().await?.accept(options()).await };
            let (near, far) = both(connecting, accepting).await;
            ping(&near.expect("the near end"), &far.expect("the far end")).await;
            runtime.now() - start
        };
        let (half, other) = both(half, other).await;
        let took = runtime.now() - start;
        println!(
            "half open: {:?} after {took:?}, another after {other:?}",
            half.err()
        );
        assert!(other < Duration::from_secs(2), "{other:?}");
        assert!(took < Duration::from_secs(13), "{took:?}");
        drop((child, silent));
    });
}

#[test]
#[ignore = "removes the device"]
fn a_removed_device_ends_its_connections() {
    run(|runtime| async move {
        let (near, far) = (provider(&runtime), provider(&runtime));
        let (near_end, far_end) = pair(&near, &far).await;
        ping(&near_end, &far_end).await;
        let name = near.device_name();
        let deleting = std::thread::spawn(move || {
            let delete = Command::new("rdma")
                .args(["link", "delete", &name])
                .status();
            delete.expect("the rdma command")
        });
        for end in [&near_end, &far_end] {
            let reason = ended(&runtime, end).await;
            println!("{reason}");
            assert_ne!(reason, Disconnected::Local);
        }
        let again = near.connect(anywhere(), options()).await;
        println!("{:?}", again.err().expect("there is no device"));
        drop((near_end, far_end, near, far));
        // Some drivers (siw) keep the device until this process has ended.
        sleep(&runtime, Duration::from_secs(2)).await;
        println!("the device is gone: {}", deleting.is_finished());
    });
}

/// The other machine runs `connects_and_stays` towards `GANNET_VERBS_LISTEN`, and loses its power when this says so.
#[test]
#[ignore = "needs a second machine"]
fn a_machine_that_dies_is_noticed() {
    let at = std::env::var("GANNET_VERBS_LISTEN").expect("where to listen");
    run(|runtime| async move {
        let far = provider(&runtime);
        let mut listener = far.listen(at.parse().expect("an address")).expect("free");
        let incoming = listener.accept().await.expect("a peer");
        let far = incoming.accept(options()).await.expect("a connection");
        assert_eq!(receive(&far).await, 10);
        println!("cut the power of the other machine now");
        let start = runtime.now();
        let mut rest = Vec::new();
        let reason = loop {
            if let Err(reason) = next_completions(&*far, &mut rest).await {
                break reason;
            }
        };
        println!("{reason} after {:?}", runtime.now() - start);
        assert_eq!(reason, Disconnected::TimedOut);
    });
}

#[test]
#[ignore = "needs an RDMA device"]
fn an_idle_connection_is_probed_and_lives() {
    run(|runtime| async move {
        let (near, far) = (provider(&runtime), provider(&runtime));
        let (near, far) = pair(&near, &far).await;
        sleep(&runtime, Duration::from_secs(7)).await;
        ping(&near, &far).await;
    });
}

#[test]
#[ignore = "needs an RDMA device"]
fn connections_of_one_address_are_spread_over_providers() {
    run(|runtime| async move {
        let library = VerbsLibrary::open().expect("rdma-core");
        let shared = SharedVerbsListener::bind(&library, anywhere(), 2).expect("a listener");
        let shared = Rc::new(shared);
        let near = provider(&runtime);
        let cores = [provider(&runtime), provider(&runtime)];
        let mut listeners: Vec<Box<dyn Listener>> = (cores.iter().enumerate())
            .map(|(index, core)| shared.for_core(index, core))
            .collect();
        let to = shared.local_address();
        let (distributing, handle) = (Rc::clone(&shared), Rc::clone(&runtime));
        runtime.spawn(
            "distribute",
            Box::pin(async move {
                drop(distributing.distribute(&handle).await);
            }),
        );
        let mut pairs = Vec::new();
        for round in 0..4usize {
            let listener = &mut listeners[(round + 1) % 2];
            let accepting = async { listener.accept().await?.accept(options()).await };
            let (near, far) = both(near.connect(to, options()), accepting).await;
            pairs.push((near.expect("the near end"), far.expect("the far end")));
        }
        for (near, far) in &pairs {
            ping(near, far).await;
        }
    });
}
