//! Peers of the TCP server that do not mean well, or do not speak RPC.

#![allow(clippy::unwrap_used)]

use crate::common;

use common::raw::call_bytes;
use common::stream::{exchange, receive, receive_record, record, send};
use common::*;
use gannet_rpc::{Client, Target};
use gannet_runtime::stream::Follow;
use gannet_runtime::{ByteStream, FileSource, Handle, Stream, sleep, timeout};
use gannet_session::limits::{BUDGET_BYTES, SCARCE_DEADLINE};
use gannet_sim::World;
use gannet_wire::rpc::{AcceptStatus, AuthStat, RecordMark, Rejection, ReplyHeader, ReplyOutcome};
use gannet_wire::xdr::{Decoder, Encoder};
use proptest::prelude::*;
use std::cell::Cell;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

struct Lab {
    runtime: Handle,
    /// The runtime of another host.
    other: Handle,
    address: SocketAddr,
    bench: Rc<Bench>,
}

impl Lab {
    async fn connect(&self) -> Stream {
        self.runtime.connect(self.address).await.unwrap()
    }

    async fn check_alive(&self) {
        let stream = self.connect().await;
        assert!(
            exchange(&stream, &call_bytes(1, NULL, |_| {}))
                .await
                .is_ok()
        );
    }

    fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.runtime.now().as_nanos())
    }
}

/// Runs `test` in virtual time, so that deadlines cost nothing.
fn lab<F: Future<Output = ()> + 'static>(test: impl FnOnce(Lab) -> F) {
    let world = World::new(3);
    let (near, far) = (world.add_node("client"), world.add_node("server"));
    let other = world.add_node("other client");
    let bench = Rc::new(Bench::new(&far.runtime()));
    let listener = far
        .runtime()
        .listen(SocketAddr::new(far.ip(), 2049))
        .unwrap();
    let address = listener.local_address();
    let server = bench.server.clone();
    let serve = Box::pin(async move { server.serve_tcp(listener).await.unwrap() });
    far.runtime().spawn("server", serve);
    world
        .run(in_time(
            &world,
            test(Lab {
                runtime: near.runtime(),
                other: other.runtime(),
                address,
                bench,
            }),
        ))
        .unwrap();
}

fn outcome(reply: &[u8]) -> ReplyHeader<'_> {
    ReplyHeader::parse(&mut Decoder::new(reply)).unwrap()
}

#[test]
fn bytes_that_are_not_rpc_end_the_connection() {
    lab(|lab| async move {
        let reply = record(&ReplyBytes::accepted(1));
        for bytes in [
            b"GET / HTTP/1.1\r\nHost: example\r\n\r\n".to_vec(),
            vec![0xff; 64],
            // A record larger than any call, announced only.
            vec![0x80, 0x7f, 0xff, 0xff],
            // A record too short for a header, and a reply.
            record(&[0, 0, 0, 1]),
            reply,
        ] {
            let stream = lab.connect().await;
            send(&stream, &bytes).await.unwrap();
            assert_eq!(receive(&stream, 1).await, Err(vec![]), "{bytes:?}");
        }
        assert_eq!(lab.bench.counters.drops.total(), 5);
        assert_eq!(lab.bench.counters.calls.total(), 0);
        lab.check_alive().await;
    });
}

struct ReplyBytes;

impl ReplyBytes {
    fn accepted(xid: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        ReplyHeader::accepted(xid, AcceptStatus::Success).emit(&mut Encoder::new(&mut bytes));
        bytes
    }
}

#[test]
fn malformed_calls_are_answered_with_errors() {
    lab(|lab| async move {
        let stream = lab.connect().await;
        let mut other_version = call_bytes(5, NULL, |_| {});
        other_version[11] = 3;
        let reply = exchange(&stream, &other_version).await.unwrap();
        let mismatch = Rejection::RpcMismatch { low: 2, high: 2 };
        assert_eq!(outcome(&reply).outcome, ReplyOutcome::Denied(mismatch));

        // A credential whose group count asks for 16 GiB.
        let mut huge_groups = call_bytes(6, NULL, |_| {});
        huge_groups.truncate(24);
        let body: Vec<u8> = [0u32, 0, 0, 0, u32::MAX]
            .iter()
            .flat_map(|word| word.to_be_bytes())
            .collect();
        let mut encoder = Encoder::new(&mut huge_groups);
        encoder.u32(1);
        encoder.opaque(&body);
        encoder.u64(0);
        let reply = exchange(&stream, &huge_groups).await.unwrap();
        let bad = ReplyOutcome::Denied(Rejection::AuthError(AuthStat::BADCRED));
        assert_eq!(outcome(&reply).outcome, bad);

        // A credential longer than any, and a flavor (TLS) that is not had.
        for (flavor, len, status) in [
            (1u32, 401u32, AuthStat::BADCRED),
            (7, 0, AuthStat::REJECTEDCRED),
        ] {
            let mut call = call_bytes(7, NULL, |_| {});
            call.truncate(24);
            let mut encoder = Encoder::new(&mut call);
            encoder.u32(flavor);
            encoder.opaque(&vec![0; len as usize]);
            encoder.u64(0);
            let reply = exchange(&stream, &call).await.unwrap();
            assert_eq!(
                outcome(&reply).outcome,
                ReplyOutcome::Denied(Rejection::AuthError(status))
            );
        }
        assert_eq!(lab.bench.counters.drops.total(), 0);
    });
}

#[test]
fn records_in_many_fragments_and_slices_are_put_together() {
    lab(|lab| async move {
        let stream = lab.connect().await;
        for len in [10, 50_000] {
            let call = call_bytes(1, ECHO, |encoder| encoder.opaque(&pattern(len)));
            let mut bytes = Vec::new();
            let pieces: Vec<&[u8]> = call.chunks(len / 7 + 3).collect();
            for (index, piece) in pieces.iter().enumerate() {
                let last = index + 1 == pieces.len();
                let mark = RecordMark {
                    last,
                    length: piece.len() as u32,
                };
                bytes.extend_from_slice(&mark.to_bytes());
                bytes.extend_from_slice(piece);
                if index == 2 {
                    bytes.extend_from_slice(&[0; 4]);
                }
            }
            for slice in bytes.chunks(997) {
                send(&stream, slice).await.unwrap();
            }
            let reply = receive_record(&stream).await.unwrap();
            assert_eq!(
                Decoder::new(&reply[24..]).opaque(len).unwrap(),
                pattern(len)
            );
        }
    });
}

#[test]
fn a_peer_that_sends_nothing_or_half_a_call_is_dropped_soon() {
    lab(|lab| async move {
        let half = record(&call_bytes(1, NULL, |_| {}));
        for bytes in [&[][..], &half[..2], &half[..20]] {
            let (began, stream) = (lab.elapsed(), lab.connect().await);
            send(&stream, bytes).await.unwrap();
            assert_eq!(receive(&stream, 1).await, Err(vec![]));
            let waited = lab.elapsed() - began;
            assert!(waited > Duration::from_secs(5) && waited < Duration::from_secs(30));
        }
        assert_eq!(lab.bench.counters.drops.total(), 3);
    });
}

#[test]
fn an_established_peer_may_be_idle_for_long_but_not_for_ever() {
    lab(|lab| async move {
        let stream = lab.connect().await;
        let null = call_bytes(1, NULL, |_| {});
        exchange(&stream, &null).await.unwrap();
        sleep(&lab.runtime, Duration::from_secs(600)).await;
        exchange(&stream, &null).await.unwrap();
        let began = lab.elapsed();
        assert_eq!(receive(&stream, 1).await, Err(vec![]));
        assert!(lab.elapsed() - began >= Duration::from_secs(899));
    });
}

#[test]
fn a_peer_that_takes_no_replies_is_parked_and_then_dropped() {
    lab(|lab| async move {
        let stream = lab.connect().await;
        let call = record(&call_bytes(1, READ, |encoder| encoder.u32(1 << 20)));
        let asking = async {
            // Asks for gigabytes and reads nothing: at some point the server takes no more calls.
            while send(&stream, &call).await.is_ok() {}
        };
        let began = lab.elapsed();
        timeout(&lab.runtime, Duration::from_secs(120), asking)
            .await
            .unwrap();
        assert!(lab.elapsed() - began < Duration::from_secs(60));
        assert!(
            lab.bench.service.executions(READ) < 20,
            "executed far ahead of the peer"
        );
        assert_eq!(lab.bench.counters.drops.total(), 1);
        assert!(
            lab.bench.counters.starved_ns.total() == 0,
            "never let go again"
        );
        lab.check_alive().await;
    });
}

/// A call of WRITE with a mebibyte.
fn large_write() -> Vec<u8> {
    record(&call_bytes(1, WRITE, |encoder| {
        encoder.u32(0x3333_3333);
        encoder.opaque(&pattern(1 << 20));
        encoder.u32(0x4444_4444);
    }))
}

#[test]
fn slow_writers_keep_others_from_writing_for_seconds_at_most() {
    lab(|lab| async move {
        let call = large_write();
        // Each with the better part of a record still to come, and all of them too many for the budget.
        let mut slow = Vec::new();
        for _ in 0..256 {
            let stream = lab.connect().await;
            send(&stream, &call[..10_000]).await.unwrap();
            slow.push(stream);
        }
        let server = lab.bench.server.clone();
        let half = BUDGET_BYTES / 2;
        eventually(&lab.runtime, || {
            server.memory_in_use().payloads > half - (8 << 20)
        })
        .await;
        assert!(server.memory_in_use().payloads <= half);
        let writes = async |runtime: &Handle, patience| {
            let client = Client::new(Handle::clone(runtime), Target::Tcp(lab.address), config());
            let writes = all((0..40).map(|index| write(&client, 300_000 + index)));
            let written = timeout(runtime, patience, writes).await;
            let written = written.expect("no memory for it");
            assert!(written.iter().all(|placed| *placed));
        };
        writes(&lab.other, Duration::from_secs(1)).await;
        assert_eq!(lab.bench.counters.drops.total(), 0);
        // Their own host waits until those who hold the memory are dropped.
        writes(&lab.runtime, 2 * SCARCE_DEADLINE).await;
        assert!(lab.bench.counters.drops.total() > 0);
        drop(slow);
        eventually(&lab.runtime, || server.memory_in_use().payloads == 0).await;
    });
}

#[test]
fn slow_writers_finish_their_calls_while_no_client_waits() {
    lab(|lab| async move {
        let call = large_write();
        let mut slow = Vec::new();
        for _ in 0..16 {
            let stream = lab.connect().await;
            send(&stream, &call[..10_000]).await.unwrap();
            slow.push(stream);
        }
        sleep(&lab.runtime, 2 * SCARCE_DEADLINE).await;
        for stream in &slow {
            send(stream, &call[10_000..]).await.unwrap();
            receive_record(stream).await.unwrap();
        }
        assert_eq!(lab.bench.service.executions(WRITE), 16);
        assert_eq!(lab.bench.server.memory_in_use().payloads, 0);
    });
}

#[test]
fn many_connections_that_take_no_replies_make_the_server_hold_a_bounded_amount() {
    lab(|lab| async move {
        let call = record(&call_bytes(1, READ, |encoder| encoder.u32(1 << 20)));
        let mut silent = Vec::new();
        for _ in 0..200 {
            let stream = lab.connect().await;
            for _ in 0..8 {
                send(&stream, &call).await.unwrap();
            }
            silent.push(stream);
        }
        sleep(&lab.runtime, Duration::from_millis(100)).await;
        let executed = lab.bench.service.executions(READ) as usize;
        assert!(executed << 20 <= BUDGET_BYTES, "{executed} MiB of replies");
        assert!(executed > 20, "the budget was not used");
        // Small calls go on beside them, on the same host as well.
        for runtime in [&lab.runtime, &lab.other] {
            let client = Client::new(Handle::clone(runtime), Target::Tcp(lab.address), config());
            let answered = timeout(runtime, Duration::from_secs(1), echo(&client, b"hello"));
            assert_eq!(answered.await.expect("held back").unwrap(), b"hello");
        }
        // The next ones get theirs when those who hold the memory are dropped, and so on.
        sleep(&lab.runtime, 2 * SCARCE_DEADLINE).await;
        assert!(lab.bench.counters.drops.total() > 20);
    });
}

/// Behind a large record the server looks ahead a little only, so that the next payload is not copied.
#[test]
fn records_of_all_sizes_follow_a_large_one() {
    lab(|lab| async move {
        let stream = lab.connect().await;
        let large = call_bytes(0, WRITE, |encoder| {
            encoder.u32(0x3333_3333);
            encoder.opaque(&pattern(100_000));
            encoder.u32(0x4444_4444);
        });
        // Around what is looked ahead, around what is large, and between; more than are remembered.
        let lengths = [
            0, 1900, 1999, 2000, 2001, 2010, 2048, 3000, 5000, 8192, 12_000, 16_300, 16_338,
            16_339, 16_340, 16_341, 16_400, 20_000,
        ];
        for together in [1, 5, 54] {
            send(&stream, &record(&large)).await.unwrap();
            receive_record(&stream).await.unwrap();
            let lengths: Vec<usize> = lengths.iter().copied().cycle().take(54).collect();
            for (batch, lengths) in (0..).step_by(together).zip(lengths.chunks(together)) {
                let xids = batch as u32..;
                let calls = xids.clone().zip(lengths).flat_map(|(xid, len)| {
                    let bytes = pattern(*len);
                    record(&call_bytes(xid, ECHO, |encoder| encoder.opaque(&bytes)))
                });
                send(&stream, &calls.collect::<Vec<u8>>()).await.unwrap();
                for (xid, len) in xids.zip(lengths) {
                    let reply = receive_record(&stream).await.unwrap();
                    assert_eq!(outcome(&reply).xid, xid);
                    let mut results = Decoder::new(&reply[24..]);
                    assert!(results.opaque(*len).unwrap() == pattern(*len), "{len}");
                    results.finish().unwrap();
                }
            }
        }
        assert_eq!(lab.bench.counters.drops.total(), 0);
    });
}

/// A stream that reports readiness although it has no bytes, `false_alarms` times.
struct Hasty {
    stream: Stream,
    false_alarms: Cell<u32>,
}

impl ByteStream for Hasty {
    fn peer_address(&self) -> SocketAddr {
        self.stream.peer_address()
    }

    fn local_address(&self) -> SocketAddr {
        self.stream.local_address()
    }

    fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.false_alarms.get() {
            0 => self.stream.poll_readable(context),
            left => {
                self.false_alarms.set(left - 1);
                Poll::Ready(Ok(()))
            }
        }
    }

    fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.try_read(buffer)
    }

    fn try_read_vectored(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.stream.try_read_vectored(buffers)
    }

    fn poll_writable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.poll_writable(context)
    }

    fn try_write(&self, buffers: &[IoSlice<'_>], follow: Follow) -> io::Result<usize> {
        self.stream.try_write(buffers, follow)
    }

    fn try_send_file(&self, file: &dyn FileSource, offset: u64, len: usize) -> io::Result<usize> {
        self.stream.try_send_file(file, offset, len)
    }

    fn shutdown_write(&self) {
        self.stream.shutdown_write();
    }

    fn abort(&self) {
        self.stream.abort();
    }
}

#[test]
fn readiness_that_is_none_is_waited_for_anew() {
    for false_alarms in 1..6 {
        let world = World::new(4);
        let (near, far) = (world.add_node("client"), world.add_node("server"));
        let bench = Bench::new(&far.runtime());
        let mut listener = far
            .runtime()
            .listen(SocketAddr::new(far.ip(), 2049))
            .unwrap();
        let address = listener.local_address();
        let server = bench.server.clone();
        let serve = async move {
            let stream = listener.accept().await.unwrap();
            let false_alarms = Cell::new(false_alarms);
            let hasty = Hasty {
                stream,
                false_alarms,
            };
            server.serve_stream(Rc::new(hasty)).await;
        };
        far.runtime().spawn("server", Box::pin(serve));
        let runtime = near.runtime();
        let test = async move {
            let stream = runtime.connect(address).await.unwrap();
            sleep(&runtime, Duration::from_millis(1)).await;
            let call = call_bytes(1, NULL, |_| {});
            let answered = timeout(&runtime, Duration::from_secs(1), exchange(&stream, &call));
            answered.await.expect("the server never woke").unwrap();
        };
        world.run(in_time(&world, test)).unwrap();
    }
}

#[test]
fn calls_beyond_the_bound_wait_in_the_socket() {
    lab(|lab| async move {
        let stream = lab.connect().await;
        for xid in 0..1000 {
            let call = call_bytes(xid, SLOW, |encoder| encoder.u32(10));
            send(&stream, &record(&call)).await.unwrap();
        }
        let mut most = 0;
        for _ in 0..1000 {
            receive_record(&stream).await.unwrap();
            most = most.max(lab.bench.service.in_call.get());
        }
        assert!((100..=128).contains(&most), "{most} at a time");
        assert!(lab.bench.counters.starved_ns.total() > 10_000_000);
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever arrives, the server neither panics nor stops answering others.
    #[test]
    fn arbitrary_bytes_do_not_stop_the_server(
        records in proptest::collection::vec(
            (0u8..4, proptest::collection::vec(0u32..12, 0..40), 0usize..5), 1..12),
    ) {
        lab(|lab| async move {
            let mut stream = lab.connect().await;
            for (form, words, cut) in records {
                let mut message: Vec<u8> = match form {
                    0 => Vec::new(),
                    1 => [1u32, 0, 2, PROGRAM].iter().flat_map(|it| it.to_be_bytes()).collect(),
                    _ => call_bytes(1, words.first().copied().unwrap_or(0), |_| {}),
                };
                message.extend(words.iter().flat_map(|word| word.to_be_bytes()));
                message.truncate(message.len().saturating_sub(cut));
                let bytes = if form == 3 { message } else { record(&message) };
                if send(&stream, &bytes).await.is_err() {
                    stream = lab.connect().await;
                }
            }
            lab.check_alive().await;
        });
    }
}
