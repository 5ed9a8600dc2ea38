//! Tests that worlds replay, that time is exact, and that streams are cut and fail as the kernel's may.
#![allow(clippy::unwrap_used)]

use gannet_runtime::stream::{Follow, readable, writable};
use gannet_runtime::{Handle, Instant, Stream, run_blocking, sleep, timeout};
use gannet_sim::{Crash, LinkProfile, Node, World};
use gannet_testing::pattern;
use std::cell::{Cell, RefCell};
use std::io::{ErrorKind, IoSlice};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

const PORT: u16 = 2049;

fn address(node: &Node) -> SocketAddr {
    SocketAddr::new(node.ip(), PORT)
}

async fn write_all(stream: &Stream, bytes: &[u8]) -> std::io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        writable(&**stream).await?;
        let middle = done + (bytes.len() - done) / 2;
        let parts = [
            IoSlice::new(&bytes[done..middle]),
            IoSlice::new(&bytes[middle..]),
        ];
        match stream.try_write(&parts, Follow::Nothing) {
            Ok(count) => done += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// All bytes up to the end of the stream, or the error and the bytes before it.
async fn read_all(stream: &Stream) -> (Vec<u8>, Option<ErrorKind>) {
    let (mut all, mut buffer) = (Vec::new(), vec![0; 5000]);
    loop {
        if let Err(error) = readable(&**stream).await {
            return (all, Some(error.kind()));
        }
        match stream.try_read(&mut buffer) {
            Ok(0) => return (all, None),
            Ok(count) => all.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return (all, Some(error.kind())),
        }
    }
}

/// Serves one connection: sends all bytes back, then ends.
fn echo(runtime: &Handle, at: SocketAddr) {
    let mut listener = runtime.listen(at).unwrap();
    runtime.spawn(
        "echo",
        Box::pin(async move {
            let stream = listener.accept().await.unwrap();
            let (bytes, error) = read_all(&stream).await;
            if error.is_none() {
                write_all(&stream, &bytes).await.unwrap();
                stream.shutdown_write();
                read_all(&stream).await;
            }
        }),
    );
}

fn echo_once(seed: u64, traced: bool) -> (u64, String) {
    let world = if traced {
        World::traced(seed)
    } else {
        World::new(seed)
    };
    let (near, far) = (world.add_node("near"), world.add_node("far"));
    echo(&far.runtime(), address(&far));
    let (runtime, target) = (near.runtime(), address(&far));
    world
        .run(async move {
            let stream = runtime.connect(target).await.unwrap();
            write_all(&stream, &pattern(100_000)).await.unwrap();
            stream.shutdown_write();
            let (back, error) = read_all(&stream).await;
            assert_eq!((back == pattern(100_000), error), (true, None));
        })
        .unwrap();
    (world.trace_digest().hash, world.trace_text())
}

#[test]
fn a_seed_gives_the_same_trace_byte_for_byte() {
    let (hash, text) = echo_once(42, true);
    assert!(text.lines().count() > 20);
    assert_eq!((hash, text), echo_once(42, true));
    assert_eq!(hash, echo_once(42, false).0);
    assert_ne!(hash, echo_once(43, false).0);
}

#[test]
fn streams_keep_order_however_they_are_cut() {
    for seed in 0..100 {
        echo_once(seed, false);
    }
}

#[test]
fn time_is_exact_and_timers_fire_in_order() {
    let world = World::new(1);
    let node = world.add_node("node");
    let runtime = node.runtime();
    let order = Rc::new(RefCell::new(Vec::new()));
    for wait in [300u64, 100, 200, 100] {
        let (order, handle) = (Rc::clone(&order), Rc::clone(&runtime));
        runtime.spawn(
            "sleeper",
            Box::pin(async move {
                sleep(&handle, Duration::from_nanos(wait)).await;
                order.borrow_mut().push((wait, handle.now()));
            }),
        );
    }
    let waiter = Rc::clone(&runtime);
    world
        .run(async move {
            sleep(&waiter, Duration::from_nanos(1000)).await;
            let never = std::future::pending::<()>();
            assert!(
                timeout(&waiter, Duration::from_secs(3600), never)
                    .await
                    .is_err()
            );
        })
        .unwrap();
    let expected: Vec<_> = [100, 100, 200, 300]
        .map(|wait| (wait, Instant::from_nanos(wait)))
        .into();
    assert_eq!(*order.borrow(), expected);
    assert_eq!(world.now_ns(), 1000 + 3600 * 1_000_000_000);
}

#[test]
fn a_deadlock_names_the_seed_and_what_every_task_waits_for() {
    let world = World::new(77);
    let node = world.add_node("server");
    let mut listener = node.runtime().listen(address(&node)).unwrap();
    node.runtime().spawn(
        "acceptor",
        Box::pin(async move {
            let _ = listener.accept().await;
        }),
    );
    let stopped = world.run(std::future::pending::<()>()).unwrap_err();
    let report = stopped.to_string();
    assert!(report.contains("seed 77: deadlock"), "{report}");
    assert!(report.contains("server/acceptor"), "{report}");
    assert!(
        report.contains("waits for a connection to 10.0.0.1:2049"),
        "{report}"
    );
}

#[test]
fn a_panic_stops_its_world_and_names_the_task() {
    let world = World::new(5);
    let node = world.add_node("node");
    node.runtime()
        .spawn("careless", Box::pin(async { panic!("out of luck") }));
    let stopped = world.run(std::future::pending::<()>()).unwrap_err();
    assert_eq!(
        (stopped.why.as_str(), stopped.seed),
        ("panic in careless: out of luck", 5)
    );
}

#[test]
fn blocking_jobs_come_back_later() {
    let world = World::new(3);
    let runtime = world.add_node("node").runtime();
    let value = world
        .run(async move { run_blocking(&runtime, || 7).await })
        .unwrap();
    assert_eq!(value, Ok(7));
    assert!(world.now_ns() > 0);
}

#[test]
fn a_full_window_holds_the_writer_until_the_reader_reads() {
    let world = World::new(4);
    let (near, far) = (world.add_node("near"), world.add_node("far"));
    let mut listener = far.runtime().listen(address(&far)).unwrap();
    let (runtime, target) = (near.runtime(), address(&far));
    let window = 4096;
    world.set_links(LinkProfile {
        window,
        ..LinkProfile::default()
    });
    let written = Rc::new(Cell::new(false));
    let flag = Rc::clone(&written);
    world
        .run(async move {
            let stream = runtime.connect(target).await.unwrap();
            let accepted = listener.accept().await.unwrap();
            runtime.spawn(
                "writer",
                Box::pin(async move {
                    write_all(&stream, &pattern(window + 1)).await.unwrap();
                    flag.set(true);
                }),
            );
            sleep(&runtime, Duration::from_secs(1)).await;
            assert!(!written.get());
            assert_eq!(read_all(&accepted).await.0.len(), window + 1);
            assert!(written.get());
        })
        .unwrap();
}

#[test]
fn a_partition_delays_and_loses_nothing() {
    let world = World::new(6);
    let (near, far) = (world.add_node("near"), world.add_node("far"));
    echo(&far.runtime(), address(&far));
    let (runtime, target, faults) = (near.runtime(), address(&far), world.faults());
    world
        .run(async move {
            let stream = runtime.connect(target).await.unwrap();
            faults.partition(near.id(), far.id());
            write_all(&stream, &pattern(10_000)).await.unwrap();
            stream.shutdown_write();
            let early = timeout(&runtime, Duration::from_secs(20), read_all(&stream)).await;
            assert!(early.is_err());
            let connecting = runtime.connect(target);
            assert!(
                timeout(&runtime, Duration::from_secs(5), connecting)
                    .await
                    .is_err()
            );
            faults.heal(near.id(), far.id());
            assert_eq!(read_all(&stream).await, (pattern(10_000), None));
        })
        .unwrap();
}

#[test]
fn a_node_that_stands_still_goes_on_where_it_was() {
    let world = World::new(3);
    let (one, other) = (world.add_node("one"), world.add_node("other"));
    let (faults, (slow, swift)) = (world.faults(), (one.runtime(), other.runtime()));
    let steps: Rc<RefCell<Vec<(u64, u64)>>> = Rc::default();
    for (runtime, name) in [(slow, 1), (swift, 2)] {
        let (steps, handle) = (Rc::clone(&steps), Handle::clone(&runtime));
        let walking = async move {
            for _ in 0..4 {
                sleep(&handle, Duration::from_secs(10)).await;
                steps
                    .borrow_mut()
                    .push((name, handle.now().as_nanos() / 1_000_000_000));
            }
        };
        runtime.spawn("walker", Box::pin(walking));
    }
    let (first, second) = (one.id(), other.id());
    let done = world.run(async move {
        faults.sleep(Duration::from_secs(15)).await;
        faults.freeze(first);
        faults.sleep(Duration::from_secs(100)).await;
        faults.thaw(first);
        faults.sleep(Duration::from_secs(15)).await;
        // A process that is killed does not go on, and the next one there does not stand still.
        faults.freeze(first);
        faults.crash(first, Crash::Process);
        faults.restart(first);
        faults.freeze(second);
        faults.sleep(Duration::from_secs(1)).await;
        faults.thaw(second);
    });
    done.unwrap();
    let expected = [
        (1, 10),
        (2, 10),
        (2, 20),
        (2, 30),
        (2, 40),
        (1, 115),
        (1, 125),
    ];
    assert_eq!(*steps.borrow(), expected);
    let runtime = one.runtime();
    let alive = async move { sleep(&runtime, Duration::from_secs(1)).await };
    world.run(alive).unwrap();
}

/// The error that the client of an echo server reads after such a crash, and its time in virtual seconds.
fn crash_seen(how: Crash) -> (Option<ErrorKind>, u64) {
    let world = World::new(8);
    let (near, far) = (world.add_node("near"), world.add_node("far"));
    echo(&far.runtime(), address(&far));
    let (runtime, target, faults) = (near.runtime(), address(&far), world.faults());
    world
        .run(async move {
            let stream = runtime.connect(target).await.unwrap();
            write_all(&stream, &pattern(100)).await.unwrap();
            sleep(&runtime, Duration::from_secs(1)).await;
            faults.crash(far.id(), how);
            let restart = faults.clone();
            let (server, node) = (runtime.clone(), far.clone());
            runtime.spawn(
                "restarter",
                Box::pin(async move {
                    sleep(&server, Duration::from_secs(10)).await;
                    restart.restart(node.id());
                }),
            );
            let _ = write_all(&stream, &pattern(100)).await;
            let (bytes, error) = read_all(&stream).await;
            assert!(bytes.is_empty());
            let refused = runtime
                .connect(target)
                .await
                .map(|_| ())
                .map_err(|error| error.kind());
            assert_eq!(refused, Err(ErrorKind::ConnectionRefused));
            (error, runtime.now().as_nanos() / 1_000_000_000)
        })
        .unwrap()
}

#[test]
fn a_killed_process_is_noticed_at_once_and_a_power_cut_only_after_restart() {
    let (error, seconds) = crash_seen(Crash::Process);
    assert!(
        matches!(error, None | Some(ErrorKind::ConnectionReset)),
        "{error:?}"
    );
    assert_eq!(seconds, 1);
    assert_eq!(
        crash_seen(Crash::Power),
        (Some(ErrorKind::ConnectionReset), 11)
    );
}

#[test]
fn a_reset_is_seen_by_both_ends() {
    let world = World::new(9);
    let (near, far) = (world.add_node("near"), world.add_node("far"));
    let mut listener = far.runtime().listen(address(&far)).unwrap();
    let (runtime, target, faults) = (near.runtime(), address(&far), world.faults());
    world
        .run(async move {
            assert!(!faults.reset_a_connection(far.id()));
            let one = runtime.connect(target).await.unwrap();
            let other = listener.accept().await.unwrap();
            assert!(faults.reset_a_connection(far.id()));
            for end in [one, other] {
                assert_eq!(read_all(&end).await.1, Some(ErrorKind::ConnectionReset));
                let error = write_all(&end, b"late").await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::ConnectionReset);
            }
            assert!(!faults.reset_a_connection(far.id()));
        })
        .unwrap();
}

#[test]
fn one_bit_flips_behind_the_set_up() {
    const LEN: usize = 4000;
    const SET_UP_LEN: usize = 1024;
    let world = World::new(10);
    let (near, far) = (world.add_node("near"), world.add_node("far"));
    let mut listener = far.runtime().listen(address(&far)).unwrap();
    let (runtime, target, faults) = (near.runtime(), address(&far), world.faults());
    world
        .run(async move {
            let one = runtime.connect(target).await.unwrap();
            let other = listener.accept().await.unwrap();
            assert!(
                !faults.flip_a_bit(near.id(), &(target.port()..target.port() + 1)),
                "it is spared"
            );
            // Each call draws a direction.
            (0..20).for_each(|_| assert!(faults.flip_a_bit(near.id(), &(1..2))));
            for (from, to) in [(&one, &other), (&other, &one)] {
                write_all(from, &[0; LEN]).await.unwrap();
                from.shutdown_write();
                let (bytes, error) = read_all(to).await;
                assert_eq!((bytes.len(), error), (LEN, None));
                let flipped: u32 = bytes.iter().map(|byte| byte.count_ones()).sum();
                assert_eq!(flipped, 1);
                assert!(bytes[..SET_UP_LEN].iter().all(|byte| *byte == 0));
            }
        })
        .unwrap();
}

#[test]
fn a_wall_clock_jumps_alone() {
    let world = World::new(11);
    let (one, other) = (world.add_node("one"), world.add_node("other"));
    let (runtime, usual) = (one.runtime(), other.runtime());
    let (before, now) = (runtime.wall_clock(), runtime.now());
    world.faults().set_clock(one.id(), 5);
    assert_eq!(runtime.wall_clock(), before + Duration::from_secs(5));
    world.faults().set_clock(one.id(), -5);
    assert_eq!(runtime.wall_clock(), before - Duration::from_secs(5));
    assert_eq!((runtime.now(), usual.wall_clock()), (now, before));
}
