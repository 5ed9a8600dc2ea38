//! Replies whose files cannot be read: answered while that is possible, and never a trap that a client falls into again
//! and again.

#![allow(clippy::unwrap_used)]

use crate::common;

use common::raw::{Raw, call_bytes, linux, part};
use common::stream::{exchange, receive_record, record, send};
use common::*;
use gannet_fabric::{Access, Provider};
use gannet_iwarp::{IwarpConfig, IwarpProvider};
use gannet_rpc::{CallError, Client, Target};
use gannet_runtime::{FileSource, Handle, Stream};
use gannet_sim::fabric::{FabricProfile, SimFabric};
use gannet_sim::{Node, World};
use gannet_wire::rpc::{AcceptStatus, ReplyHeader};
use gannet_wire::rpcrdma::{ChunkLists, TransportProcedure};
use gannet_wire::xdr::Decoder;
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::sync::Arc;

/// A file on a disk that is damaged from some byte on.
struct Damaged {
    sound: usize,
    /// Nothing of it is in memory.
    cold: bool,
    /// Whether it reports the sound bytes as resident, and whether the others.
    resident: (bool, bool),
}

impl Damaged {
    fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = pattern(self.sound);
        let Some(rest) = bytes.get(offset as usize..).filter(|rest| !rest.is_empty()) else {
            // EIO, which has no kind of its own.
            return Err(io::Error::from_raw_os_error(5));
        };
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }
}

impl FileSource for Damaged {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn try_read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        if self.cold {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.read(offset, buffer)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.read(offset, buffer)
    }

    fn is_resident(&self, offset: u64, len: u64) -> bool {
        if offset + len <= self.sound as u64 {
            self.resident.0
        } else {
            self.resident.1
        }
    }
}

fn damaged(sound: usize, cold: bool) -> Damaged {
    Damaged {
        sound,
        cold,
        resident: (!cold, false),
    }
}

/// The results in place of the bytes, if the service gives some.
const UNREADABLE: &[u8] = &[0, 0, 0, 5];

struct Lab {
    runtime: Handle,
    provider: Rc<dyn Provider>,
    /// Two cores of one machine, over TCP and over RDMA.
    cores: [Rc<Bench>; 2],
    tcp: [SocketAddr; 2],
    rdma: [SocketAddr; 2],
}

impl Lab {
    fn put(&self, file: Damaged) {
        let file = Arc::new(file);
        for core in &self.cores {
            *core.service.file.borrow_mut() = Some(Arc::<Damaged>::clone(&file));
        }
    }

    async fn connect_tcp(&self, core: usize) -> Stream {
        self.runtime.connect(self.tcp[core]).await.unwrap()
    }

    async fn connect_rdma(&self, core: usize) -> Raw {
        let private_data = linux().to_bytes();
        Raw::connect(
            &self.runtime,
            &self.provider,
            self.rdma[core],
            &private_data,
        )
        .await
    }

    fn unreadable(&self) -> u64 {
        self.cores[0].counters.unreadable.total()
    }
}

fn lab<F: Future<Output = ()> + 'static>(seed: u64, test: impl FnOnce(Lab) -> F) {
    lab_over(seed, false, test);
}

/// On the fabric in memory, or on the software RNIC.
fn lab_over<F: Future<Output = ()> + 'static>(seed: u64, iwarp: bool, test: impl FnOnce(Lab) -> F) {
    let world = World::new(seed);
    let (near, far) = (world.add_node("client"), world.add_node("server"));
    let fabric = SimFabric::new(&world, FabricProfile::default());
    let provider = |node: &Node| -> Rc<dyn Provider> {
        if iwarp {
            IwarpProvider::new(node.runtime(), IwarpConfig::default())
        } else {
            fabric.provider(node)
        }
    };
    let far_provider = provider(&far);
    let bench = Bench::new(&far.runtime());
    let other = bench.other_core();
    let cores = [Rc::new(bench), Rc::new(other)];
    let at = |port| SocketAddr::new(far.ip(), port);
    world
        .run(in_time(
            &world,
            test(Lab {
                runtime: near.runtime(),
                provider: provider(&near),
                tcp: [
                    cores[0].listen_tcp_at(at(2049)),
                    cores[1].listen_tcp_at(at(2050)),
                ],
                rdma: [
                    cores[0].listen_rdma(&far_provider, at(20049)),
                    cores[1].listen_rdma(&far_provider, at(20050)),
                ],
                cores,
            }),
        ))
        .unwrap();
}

fn read_file(xid: u32, len: usize) -> Vec<u8> {
    call_bytes(xid, READ_FILE, |encoder| {
        encoder.u64(0);
        encoder.u32(len as u32);
    })
}

fn echo_call(xid: u32) -> Vec<u8> {
    call_bytes(xid, ECHO, |encoder| encoder.opaque(b"hello"))
}

/// Checks a reply of ECHO, or the answer of READ_FILE without its bytes.
fn check(reply: &[u8], xid: u32, expected: Result<&[u8], AcceptStatus>) {
    let mut decoder = Decoder::new(reply);
    let header = ReplyHeader::parse(&mut decoder).unwrap();
    let status = expected.err().unwrap_or(AcceptStatus::Success);
    assert_eq!(header, ReplyHeader::accepted(xid, status));
    assert_eq!(decoder.remaining(), expected.unwrap_or(&[]));
}

const HELLO: &[u8] = b"\0\0\0\x05hello\0\0\0";

#[test]
fn over_tcp_the_call_alone_is_answered_with_an_error() {
    let cases = [(true, None), (false, None), (true, Some(UNREADABLE))];
    for (seed, (cold, unreadable)) in (0..30).zip(cases.into_iter().cycle()) {
        lab(seed, |lab| async move {
            lab.put(damaged(0, cold));
            lab.cores[0].service.unreadable.set(unreadable);
            let stream = lab.connect_tcp(0).await;
            let mut calls = Vec::new();
            // With and without a pad, for sendfile(2) and to be copied; together and one behind the other.
            let lengths = [100_001, 100_000, 5000, 3, 700_002];
            for (xid, len) in (0..).step_by(2).zip(lengths) {
                calls.extend(record(&echo_call(xid)));
                calls.extend(record(&read_file(xid + 1, len)));
            }
            calls.extend(record(&read_file(10, 100_001)));
            calls.extend(record(&echo_call(11)));
            send(&stream, &calls).await.unwrap();
            let failed = unreadable.ok_or(AcceptStatus::SystemErr);
            for xid in 0..12 {
                let reply = receive_record(&stream).await.unwrap();
                let is_echo = xid == 11 || (xid % 2 == 0 && xid < 10);
                check(&reply, xid, if is_echo { Ok(HELLO) } else { failed });
            }
            assert_eq!(lab.unreadable(), 6);
            assert_eq!(lab.cores[0].counters.drops.total(), 0);
        });
    }
}

#[test]
fn over_tcp_a_reply_that_was_begun_ends_its_connection_once() {
    // The rest is on the disk, or is reported as resident although it is not.
    for (seed, rest_resident) in (0..20).zip([false, true].into_iter().cycle()) {
        lab(seed, |lab| async move {
            lab.put(Damaged {
                resident: (true, rest_resident),
                ..damaged(300_000, false)
            });
            let stream = lab.connect_tcp(0).await;
            let begun = exchange(&stream, &read_file(7, 700_001)).await;
            let begun = begun.unwrap_err();
            assert!(begun[32..] == pattern(300_000)[..begun.len() - 32]);
            assert!(!begun.is_empty(), "nothing of it had left");
            // The duplicate is refused on any core, however often it comes; others are not.
            for core in [1, 0, 0] {
                let stream = lab.connect_tcp(core).await;
                let again = exchange(&stream, &read_file(7, 700_001)).await.unwrap();
                check(&again, 7, Err(AcceptStatus::SystemErr));
                check(
                    &exchange(&stream, &echo_call(8)).await.unwrap(),
                    8,
                    Ok(HELLO),
                );
            }
            assert_eq!(lab.unreadable(), 1);
        });
    }
}

#[test]
fn a_client_hears_of_a_damaged_file_and_goes_on() {
    for sound in [0, 300_000] {
        lab(5, |lab| async move {
            lab.put(damaged(sound, false));
            let rdma = Target::Rdma(Rc::clone(&lab.provider), lab.rdma[0]);
            for target in [Target::Tcp(lab.tcp[0]), rdma] {
                let over_tcp = matches!(target, Target::Tcp(_));
                let client = Client::new(Handle::clone(&lab.runtime), target, config());
                let mut call = read_request(READ_FILE, 700_001);
                call.arguments().u64(0);
                call.arguments().u32(700_001);
                let error = client.call(call).await.unwrap_err();
                if over_tcp {
                    assert_eq!(error, CallError::NotExecuted(AcceptStatus::SystemErr));
                } else {
                    assert_eq!(error, CallError::TransportRefused);
                }
                assert_eq!(echo(&client, b"hello").await.unwrap(), b"hello");
            }
        });
    }
}

#[test]
fn over_rdma_the_call_alone_is_answered_with_an_error() {
    for (cold, unreadable) in [(true, None), (false, None), (true, Some(UNREADABLE))] {
        lab(6, |lab| async move {
            lab.put(damaged(0, cold));
            lab.cores[0].service.unreadable.set(unreadable);
            let failed = unreadable.ok_or(AcceptStatus::SystemErr);
            let raw = lab.connect_rdma(0).await;
            let region = raw.register(vec![0xa5; 200_000], Access::RemoteWrite);
            let mut to_reply = ChunkLists::new();
            to_reply.set_reply(&[part(&region, 0, 150_000)]);
            let answer = raw
                .exchange(
                    1,
                    TransportProcedure::Msg,
                    &to_reply,
                    &read_file(1, 100_001),
                )
                .await;
            let len = answer.lists.reply().unwrap()[0].length as usize;
            let bytes = region.deregister().now().unwrap().unwrap().unwrap();
            check(&bytes[..len], 1, failed);
            let answer = raw
                .exchange(
                    2,
                    TransportProcedure::Msg,
                    &ChunkLists::new(),
                    &read_file(2, 1000),
                )
                .await;
            check(&answer.message, 2, failed);
            // The core itself still reads bytes that would have been copied.
            if !cold {
                let other = raw.register(vec![0xa5; 5000], Access::RemoteWrite);
                let mut to_chunk = ChunkLists::new();
                to_chunk.push_write(&[part(&other, 0, 5000)]);
                let answer = raw
                    .exchange(3, TransportProcedure::Msg, &to_chunk, &read_file(3, 5000))
                    .await;
                check(&answer.message, 3, failed);
                assert_eq!(answer.lists.writes().next().unwrap()[0].length, 0);
            }
            let none = ChunkLists::new();
            let answer = raw
                .exchange(4, TransportProcedure::Msg, &none, &echo_call(4))
                .await;
            check(&answer.message, 4, Ok(HELLO));
        });
    }
}

#[test]
fn over_rdma_a_write_that_fails_ends_its_connection_once() {
    for (iwarp, cold) in [(false, true), (false, false), (true, true), (true, false)] {
        lab_over(7, iwarp, move |lab| async move {
            lab.put(damaged(100_000, cold));
            let raw = lab.connect_rdma(0).await;
            let region = raw.register(vec![0xa5; 200_000], Access::RemoteWrite);
            let mut lists = ChunkLists::new();
            lists.push_write(&[part(&region, 0, 200_000)]);
            raw.send(7, TransportProcedure::Msg, &lists, &read_file(7, 150_001));
            assert!(raw.receive().await.is_err(), "the connection is over");
            for core in [1, 0] {
                let raw = lab.connect_rdma(core).await;
                let answer = raw
                    .exchange(7, TransportProcedure::Msg, &lists, &read_file(7, 150_001))
                    .await;
                assert!(answer.is_chunk_error());
            }
            // The other transport knows as well.
            let stream = lab.connect_tcp(1).await;
            let again = exchange(&stream, &read_file(7, 150_001)).await.unwrap();
            check(&again, 7, Err(AcceptStatus::SystemErr));
            assert_eq!(lab.unreadable(), 1);
        });
    }
}
