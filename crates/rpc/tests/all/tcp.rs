//! Client and server back to back over TCP on loopback.

#![allow(clippy::unwrap_used)]

use crate::common;

use common::*;
use gannet_rpc::{CallError, Client, Request, Target};
use gannet_runtime::stream::{Follow, readable, writable};
use gannet_runtime::{Handle, Stream, tokio_plug};
use gannet_wire::rpc::AcceptStatus;
use gannet_wire::xdr::Decoder;
use std::io::IoSlice;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

fn run<F: Future<Output = ()>>(test: impl FnOnce(Bench, Client) -> F) {
    tokio_plug::block_on(|runtime| async move {
        let bench = Bench::new(&runtime);
        let client = bench.client(Target::Tcp(bench.listen_tcp()));
        test(bench, client).await;
    })
    .unwrap();
}

#[test]
fn calls_of_all_sizes_come_back() {
    run(|_, client| async move {
        for len in [
            0,
            1,
            3,
            4,
            5,
            100,
            4096,
            16_380,
            16_385,
            60_000,
            300_001,
            1 << 20,
        ] {
            assert!(
                echo(&client, &pattern(len)).await.unwrap() == pattern(len),
                "{len}"
            );
        }
    });
}

#[test]
fn payloads_of_all_sizes_arrive() {
    run(|bench, client| async move {
        for len in [0, 1, 2, 5001, 16_001, 20_002, 65_537, 300_003, 1 << 20] {
            read(&client, len).await;
            let placed = write(&client, len).await;
            assert_eq!(placed, len > 16_384, "{len}");
        }
        assert_eq!(bench.counters.calls.total(), 18);
    });
}

#[test]
fn many_calls_are_under_way_at_a_time() {
    run(|bench, client| async move {
        let slow = all((0..100).map(|index| {
            let client = client.clone();
            async move {
                let mut call = request(SLOW, 4);
                call.arguments().u32(20 + index % 7);
                let response = client.call(call).await.unwrap();
                assert_eq!(Decoder::new(&response.results).u32(), Ok(20 + index % 7));
            }
        }));
        let bulk = all((0..24).map(|index| {
            let client = client.clone();
            async move {
                match index % 3 {
                    0 => read(&client, 100_000 + index).await,
                    1 => assert!(write(&client, 100_000 + index).await),
                    _ => assert_eq!(echo(&client, b"small").await.unwrap(), b"small"),
                }
            }
        }));
        let busy = async {
            eventually(&bench.runtime, || bench.service.in_call.get() >= 50).await;
        };
        tokio_join(slow, tokio_join(bulk, busy)).await;
        assert_eq!(bench.service.in_call.get(), 0);
    });
}

async fn tokio_join<A: Future, B: Future>(first: A, second: B) {
    let (first, second) = (async { drop(first.await) }, async { drop(second.await) });
    let both: [std::pin::Pin<Box<dyn Future<Output = ()> + '_>>; 2] =
        [Box::pin(first), Box::pin(second)];
    all(both).await;
}

#[test]
fn calls_that_the_server_cannot_execute_are_refused() {
    run(|_, client| async move {
        let call = |program, version, procedure| {
            client.call(Request::new(program, version, procedure, 64))
        };
        let refused = |status| Err(CallError::NotExecuted(status));
        let outcome = |result: Result<gannet_rpc::Response, CallError>| result.map(|_| ());
        assert_eq!(
            outcome(call(100_227, 3, 0).await),
            refused(AcceptStatus::ProgUnavail)
        );
        let mismatch = AcceptStatus::ProgMismatch { low: 1, high: 2 };
        assert_eq!(outcome(call(PROGRAM, 3, 0).await), refused(mismatch));
        assert_eq!(
            outcome(call(PROGRAM, 2, 99).await),
            refused(AcceptStatus::ProcUnavail)
        );
        assert_eq!(
            outcome(call(PROGRAM, 1, GARBAGE).await),
            refused(AcceptStatus::GarbageArgs)
        );
        assert_eq!(outcome(call(PROGRAM + 1, 3, 0).await), Ok(()));
    });
}

#[test]
fn file_ranges_go_out_warm_cold_and_past_the_end() {
    run(|bench, client| async move {
        let len = 700_001;
        let file = tempfile::tempfile().unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &pattern(len), 0).unwrap();
        for cold in [false, true] {
            let file = file.try_clone().unwrap();
            *bench.service.file.borrow_mut() = Some(Arc::new(TestFile { file, cold }));
            for (offset, count) in [
                (0, len),
                (1, 10),
                (0, 16_384),
                (5000, 16_385),
                (600_000, len),
            ] {
                let mut call = read_request(READ_FILE, count);
                call.arguments().u64(offset as u64);
                call.arguments().u32(count as u32);
                // Whatever the file does not have is zeros: the length was promised.
                let mut expected = pattern(len);
                expected.resize(offset + count, 0);
                check_read(
                    client.call(call).await.unwrap(),
                    &expected[offset..][..count],
                );
            }
        }
        assert!(bench.counters.bytes_out.total() > 2 * 1_400_000);
    });
}

#[test]
fn a_lost_connection_is_made_again_and_calls_are_answered_once() {
    tokio_plug::block_on(|runtime| async move {
        let bench = Bench::new(&runtime);
        let address = bench.listen_tcp();
        let (proxy, cut) = proxy(&runtime, address);
        let client = bench.client(Target::Tcp(proxy));
        assert_eq!(count(&client, 0).await, Ok(1));
        // The connection breaks while the second execution is under way: its reply must come from there.
        let second = count(&client, 60);
        let breaking = async {
            eventually(&runtime, || bench.service.in_call.get() == 1).await;
            cut.cut.notify();
        };
        let results = all([
            Box::pin(async { second.await.map(Some) })
                as std::pin::Pin<Box<dyn Future<Output = Result<Option<u32>, CallError>> + '_>>,
            Box::pin(async {
                breaking.await;
                Ok(None)
            }),
        ])
        .await;
        assert_eq!(results[0], Ok(Some(2)));
        assert_eq!(count(&client, 0).await, Ok(3));
        assert_eq!(bench.service.executions(COUNT), 3);
        assert_eq!(bench.counters.replays.total(), 1);
    })
    .unwrap();
}

#[test]
fn a_response_tells_whether_its_call_was_sent_again() {
    tokio_plug::block_on(|runtime| async move {
        let bench = Bench::new(&runtime);
        let address = bench.listen_tcp();
        let (proxy, cut) = proxy(&runtime, address);
        let client = bench.client(Target::Tcp(proxy));
        let is_resent = async |milliseconds| {
            let mut call = request(COUNT, 4);
            call.arguments().u32(milliseconds);
            client.call(call).await.unwrap().resent
        };
        assert!(!is_resent(0).await);
        let resent = async { assert!(is_resent(60).await) };
        let breaking = async {
            eventually(&runtime, || bench.service.in_call.get() == 1).await;
            cut.cut.notify();
        };
        tokio_join(resent, breaking).await;
        assert!(!is_resent(0).await);
    })
    .unwrap();
}

#[derive(Default)]
struct Cut {
    cut: gannet_runtime::Notify,
}

/// Passes bytes on in both directions until it must break every connection.
fn proxy(runtime: &Handle, target: std::net::SocketAddr) -> (std::net::SocketAddr, Rc<Cut>) {
    let mut listener = runtime.listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_address();
    let cut = Rc::<Cut>::default();
    let (inner, breaker) = (Handle::clone(runtime), Rc::clone(&cut));
    let accept = async move {
        loop {
            let near = listener.accept().await.unwrap();
            let far = inner.connect(target).await.unwrap();
            let mut forth = Box::pin(pump(Rc::clone(&near), Rc::clone(&far)));
            let mut back = Box::pin(pump(Rc::clone(&far), Rc::clone(&near)));
            std::future::poll_fn(|context| {
                let done = breaker.cut.poll_notified(context).is_ready()
                    | forth.as_mut().poll(context).is_ready()
                    | back.as_mut().poll(context).is_ready();
                if done {
                    std::task::Poll::Ready(())
                } else {
                    std::task::Poll::Pending
                }
            })
            .await;
            near.abort();
            far.abort();
        }
    };
    runtime.spawn("proxy", Box::pin(accept));
    (address, cut)
}

async fn pump(from: Stream, to: Stream) {
    let mut buffer = vec![0; 65_536];
    loop {
        if readable(&*from).await.is_err() {
            return;
        }
        let count = match from.try_read(&mut buffer) {
            Ok(0) => return,
            Ok(count) => count,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => continue,
            Err(_) => return,
        };
        let mut done = 0;
        while done < count {
            if writable(&*to).await.is_err() {
                return;
            }
            match to.try_write(&[IoSlice::new(&buffer[done..count])], Follow::Nothing) {
                Ok(taken) => done += taken,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(_) => return,
            }
        }
    }
}

#[test]
fn a_stop_answers_the_calls_under_way_and_then_closes() {
    run(|bench, client| async move {
        let slow = async {
            let mut call = request(SLOW, 4);
            call.arguments().u32(50);
            client.call(call).await.unwrap();
        };
        let stop = async {
            eventually(&bench.runtime, || bench.service.in_call.get() == 1).await;
            bench.server.stop();
            bench.server.drained().await;
        };
        tokio_join(slow, stop).await;
    });
}

#[test]
fn a_dropped_server_drops_its_service() {
    let service = tokio_plug::block_on(|runtime| async move {
        let bench = Bench::new(&runtime);
        let client = bench.client(Target::Tcp(bench.listen_tcp()));
        echo(&client, b"hello").await.unwrap();
        Rc::downgrade(&bench.service)
    });
    assert_eq!(service.unwrap().strong_count(), 0);
}

#[test]
fn a_server_that_does_not_listen_is_an_error_in_bounded_time() {
    tokio_plug::block_on(|runtime| async move {
        let bench = Bench::new(&runtime);
        let listener = runtime.listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_address();
        drop(listener);
        let client = bench.client(Target::Tcp(address));
        let error = client.call(request(NULL, 0)).await.unwrap_err();
        assert!(matches!(error, CallError::NotConnected(_)), "{error}");
        client.close();
        assert_eq!(
            client.call(request(NULL, 0)).await.unwrap_err(),
            CallError::Closed
        );
    })
    .unwrap();
}

#[test]
fn a_silent_server_is_given_up() {
    tokio_plug::block_on(|runtime| async move {
        let bench = Bench::new(&runtime);
        let address = bench.listen_tcp();
        let mut config = config();
        config.reply_timeout = Duration::from_millis(30);
        config.persistence = gannet_rpc::Persistence::Soft { attempts: 2 };
        let client = Client::new(Handle::clone(&runtime), Target::Tcp(address), config);
        let mut call = request(SLOW, 4);
        call.arguments().u32(2000);
        assert_eq!(client.call(call).await.unwrap_err(), CallError::TimedOut);
    })
    .unwrap();
}

/// The first call has little time, and needs less. A later one, on the same connection, takes longer and is waited for.
#[test]
fn a_client_becomes_patient_on_the_connection_that_it_has() {
    tokio_plug::block_on(|runtime| async move {
        let bench = Bench::new(&runtime);
        let target = Target::Tcp(bench.listen_tcp());
        let mut hasty = config();
        hasty.reply_timeout = Duration::from_secs(2);
        hasty.persistence = gannet_rpc::Persistence::Soft { attempts: 1 };
        let client = Client::new(Handle::clone(&runtime), target, hasty);
        client.call(request(NULL, 0)).await.unwrap();
        client.be_patient(&config());
        let mut slow = request(SLOW, 4);
        slow.arguments().u32(3000);
        client.call(slow).await.unwrap();
        assert_eq!(bench.counters.connections.total(), 1);
    })
    .unwrap();
}
