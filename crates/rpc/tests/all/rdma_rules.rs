//! The responder's duties of RFC 8166, one by one, with a requester made by hand.

#![allow(clippy::unwrap_used)]

use crate::common;

use common::raw::{Answer, Raw, call_bytes, linux, part};
use common::*;
use gannet_fabric::{Access, Provider, WorkId};
use gannet_rpc::limits::{CREDITS, INLINE_THRESHOLD};
use gannet_runtime::{Buffer, Handle};
use gannet_sim::World;
use gannet_sim::fabric::{FabricProfile, SimFabric};
use gannet_wire::rpc::{AcceptStatus, ReplyHeader};
use gannet_wire::rpcrdma::{ChunkLists, PrivateData, Segment, TransportError, TransportProcedure};
use gannet_wire::xdr::{Decoder, Encoder};
use proptest::prelude::*;
use std::net::SocketAddr;
use std::rc::Rc;

struct Lab {
    runtime: Handle,
    provider: Rc<dyn Provider>,
    address: SocketAddr,
    bench: Rc<Bench>,
    /// Where the server's other core listens.
    other_address: SocketAddr,
}

impl Lab {
    async fn connect(&self) -> Raw {
        self.connect_with(&linux().to_bytes()).await
    }

    async fn connect_with(&self, private_data: &[u8]) -> Raw {
        Raw::connect(&self.runtime, &self.provider, self.address, private_data).await
    }
}

fn lab<F: Future<Output = ()> + 'static>(test: impl FnOnce(Lab) -> F) {
    let world = World::new(11);
    let (near, far) = (world.add_node("client"), world.add_node("server"));
    let fabric = SimFabric::new(&world, FabricProfile::default());
    let (provider, far_provider) = (fabric.provider(&near), fabric.provider(&far));
    let bench = Rc::new(Bench::new(&far.runtime()));
    let address = bench.listen_rdma(&far_provider, SocketAddr::new(far.ip(), 20049));
    let other_core = bench.other_core();
    let other_address = other_core.listen_rdma(&far_provider, SocketAddr::new(far.ip(), 20050));
    world
        .run(in_time(
            &world,
            test(Lab {
                runtime: near.runtime(),
                provider,
                address,
                bench,
                other_address,
            }),
        ))
        .unwrap();
}

fn no_lists() -> ChunkLists {
    ChunkLists::new()
}

fn results(answer: &Answer) -> Vec<u8> {
    let mut decoder = Decoder::new(&answer.message);
    let header = ReplyHeader::parse(&mut decoder).unwrap();
    assert_eq!(
        header,
        ReplyHeader::accepted(answer.header.xid, AcceptStatus::Success)
    );
    decoder.remaining().to_vec()
}

/// The reduced arguments of WRITE, and where the opaque belongs in the message.
fn reduced_write(xid: u32, len: usize) -> (Vec<u8>, u32) {
    let bytes = call_bytes(xid, WRITE, |encoder| {
        encoder.u32(0x3333_3333);
        encoder.u32(len as u32);
        encoder.u32(0x4444_4444);
    });
    let position = bytes.len() as u32 - 4;
    (bytes, position)
}

fn check_written(answer: &Answer, len: usize, placed: bool) {
    let expected = [len as u32, checksum(&pattern(len)), u32::from(placed)];
    let mut bytes = Vec::new();
    expected
        .iter()
        .for_each(|word| Encoder::new(&mut bytes).u32(*word));
    assert_eq!(results(answer), bytes);
}

#[test]
fn read_chunks_with_and_without_pad_in_one_or_more_segments() {
    lab(|lab| async move {
        let raw = lab.connect().await;
        for (len, pad) in [(5000, 0), (5001, 0), (5001, 3), (5002, 2), (70_003, 1)] {
            let mut bytes = pattern(len);
            bytes.resize(len + pad, 0xee);
            let region = raw.register(bytes, Access::RemoteRead);
            let (message, position) = reduced_write(1, len);
            let mut one = no_lists();
            one.push_read(position, part(&region, 0, len + pad));
            check_written(
                &raw.exchange(1, TransportProcedure::Msg, &one, &message)
                    .await,
                len,
                true,
            );
            // The answer revoked the key.
            assert!(!region.is_valid());

            let mut bytes = pattern(len);
            bytes.resize(len + pad, 0xee);
            let region = raw.register(bytes, Access::RemoteRead);
            let mut three = no_lists();
            three.push_read(position, part(&region, 0, 1000));
            three.push_read(position, part(&region, 1000, len - 1000));
            three.push_read(position, part(&region, len, pad));
            let (message, _) = reduced_write(2, len);
            check_written(
                &raw.exchange(2, TransportProcedure::Msg, &three, &message)
                    .await,
                len,
                true,
            );
        }
    });
}

#[test]
fn long_calls_with_and_without_a_chunk_of_their_own_for_the_data() {
    lab(|lab| async move {
        let raw = lab.connect().await;
        let len = 9001;
        let whole = call_bytes(3, WRITE, |encoder| {
            encoder.u32(0x3333_3333);
            encoder.opaque(&pattern(len));
            encoder.u32(0x4444_4444);
        });
        let total = whole.len();
        let region = raw.register(whole, Access::RemoteRead);
        let mut lists = no_lists();
        lists.push_read(0, part(&region, 0, 92));
        lists.push_read(0, part(&region, 92, total - 92));
        check_written(
            &raw.exchange(3, TransportProcedure::Nomsg, &lists, &[])
                .await,
            len,
            false,
        );

        let (reduced, position) = reduced_write(4, len);
        let reduced_len = reduced.len();
        let head = raw.register(reduced, Access::RemoteRead);
        let data = raw.register(pattern(len), Access::RemoteRead);
        let mut lists = no_lists();
        lists.push_read(0, part(&head, 0, reduced_len));
        lists.push_read(position, part(&data, 0, len));
        let answer = raw
            .exchange(4, TransportProcedure::Nomsg, &lists, &[])
            .await;
        check_written(&answer, len, true);
        assert_eq!(answer.invalidated, None, "two keys: neither may be revoked");
    });
}

#[test]
fn write_chunks_are_filled_in_order_and_echoed_bit_for_bit() {
    lab(|lab| async move {
        let raw = lab.connect().await;
        let len = 5001;
        // Two segments and, as Linux appends it, one for the pad, which must stay empty.
        let region = raw.register(vec![0xa5; 8192], Access::RemoteWrite);
        let segments = [
            part(&region, 100, 3000),
            part(&region, 4000, 2001),
            part(&region, 8000, 4),
        ];
        let mut lists = no_lists();
        lists.push_write(&segments);
        let call = call_bytes(5, READ, |encoder| encoder.u32(len));
        let answer = raw
            .exchange(5, TransportProcedure::Msg, &lists, &call)
            .await;
        assert_eq!(answer.header.procedure, TransportProcedure::Msg);
        let echoed: Vec<&[Segment]> = answer.lists.writes().collect();
        let empty = Segment {
            length: 0,
            ..segments[2]
        };
        assert_eq!(echoed, [&[segments[0], segments[1], empty][..]]);
        assert_eq!(answer.invalidated, Some(region.remote_key()));
        // Everything but the bytes and the pad is inline.
        assert_eq!(results(&answer).len(), 12);
        let memory = region.deregister().now().unwrap().unwrap().unwrap();
        let expected = pattern(len as usize);
        assert!(memory[100..3100] == expected[..3000] && memory[4000..6001] == expected[3000..]);
        assert!(
            memory[6001..].iter().all(|byte| *byte == 0xa5),
            "wrote a pad"
        );
    });
}

#[test]
fn chunks_that_are_not_needed_come_back_unused() {
    lab(|lab| async move {
        let raw = lab.connect().await;
        let region = raw.register(vec![0; 4096], Access::RemoteWrite);
        let mut lists = no_lists();
        lists.push_write(&[part(&region, 0, 4096)]);
        lists.push_write(&[]);
        let call = call_bytes(6, NULL, |_| {});
        let answer = raw
            .exchange(6, TransportProcedure::Msg, &lists, &call)
            .await;
        let echoed: Vec<Vec<Segment>> = answer.lists.writes().map(<[Segment]>::to_vec).collect();
        assert_eq!(
            echoed,
            [
                vec![Segment {
                    length: 0,
                    ..part(&region, 0, 0)
                }],
                vec![]
            ]
        );

        // An empty Write chunk asks for the result inline.
        let mut lists = no_lists();
        lists.push_write(&[]);
        let call = call_bytes(7, READ, |encoder| encoder.u32(10));
        let answer = raw
            .exchange(7, TransportProcedure::Msg, &lists, &call)
            .await;
        assert_eq!(results(&answer).len(), 12 + 12);
    });
}

#[test]
fn a_reply_chunk_that_is_offered_is_used() {
    lab(|lab| async move {
        let raw = lab.connect().await;
        let region = raw.register(vec![0xa5; 4096], Access::RemoteWrite);
        let mut lists = no_lists();
        lists.set_reply(&[
            part(&region, 0, 20),
            part(&region, 20, 3000),
            part(&region, 3020, 4),
        ]);
        let call = call_bytes(8, ECHO, |encoder| encoder.opaque(b"hello"));
        let answer = raw
            .exchange(8, TransportProcedure::Msg, &lists, &call)
            .await;
        assert_eq!(answer.header.procedure, TransportProcedure::Nomsg);
        assert!(answer.message.is_empty());
        let lengths: Vec<u32> = answer
            .lists
            .reply()
            .unwrap()
            .iter()
            .map(|segment| segment.length)
            .collect();
        assert_eq!(lengths, [20, 24 + 12 - 20, 0]);
        let memory = region.deregister().now().unwrap().unwrap().unwrap();
        let mut decoder = Decoder::new(&memory[..36]);
        ReplyHeader::parse(&mut decoder).unwrap();
        assert_eq!(decoder.opaque(5), Ok(&b"hello"[..]));
        assert!(memory[36..].iter().all(|byte| *byte == 0xa5));

        // A payload without a Write chunk goes into the Reply chunk, pad and all.
        let region = raw.register(vec![0xa5; 8192], Access::RemoteWrite);
        let mut lists = no_lists();
        lists.set_reply(&[part(&region, 0, 8192)]);
        let call = call_bytes(9, READ, |encoder| encoder.u32(5001));
        raw.exchange(9, TransportProcedure::Msg, &lists, &call)
            .await;
        let memory = region.deregister().now().unwrap().unwrap().unwrap();
        assert!(memory[32..5033] == pattern(5001) && memory[5033..5036] == [0; 3]);
        assert_eq!(memory[5036..5040], 0x2222_2222u32.to_be_bytes());
    });
}

#[test]
fn results_that_fit_nowhere_are_refused() {
    lab(|lab| async move {
        let raw = lab.connect().await;
        let region = raw.register(vec![0xa5; 4096], Access::RemoteWrite);
        let call = call_bytes(1, READ, |encoder| encoder.u32(5001));
        let mut small_write = no_lists();
        small_write.push_write(&[part(&region, 0, 4096)]);
        let mut small_reply = no_lists();
        small_reply.set_reply(&[part(&region, 0, 4096)]);
        for lists in [no_lists(), small_write, small_reply] {
            let answer = raw
                .exchange(1, TransportProcedure::Msg, &lists, &call)
                .await;
            assert!(answer.is_chunk_error());
            assert_eq!(answer.invalidated, None, "an error revokes nothing");
        }
        assert!(
            region
                .deregister()
                .now()
                .unwrap()
                .unwrap()
                .unwrap()
                .iter()
                .all(|byte| *byte == 0xa5)
        );
        assert_eq!(lab.bench.counters.transport_errors.total(), 3);
    });
}

#[test]
fn malformed_headers_are_refused_or_dropped() {
    lab(|lab| async move {
        let raw = lab.connect().await;
        let words = |words: &[u32]| -> Vec<u8> {
            words.iter().flat_map(|word| word.to_be_bytes()).collect()
        };
        // Dropped: too short, RDMA_DONE, RDMA_ERROR, and a reply in the reverse direction.
        raw.send_bytes(words(&[1, 1, 128]));
        raw.send_bytes(words(&[2, 1, 128, 3]));
        raw.send_bytes(words(&[3, 1, 128, 4, 2]));
        raw.send_bytes(words(&[4, 1, 128, 0, 0, 0, 0, 4, 1, 0, 0, 0, 0]));
        // Version 2.
        raw.send_bytes(words(&[5, 2, 128, 0, 0, 0, 0]));
        let answer = raw.receive().await.unwrap();
        assert_eq!((answer.header.xid, answer.header.version), (5, 2));
        let version = TransportError::Version { low: 1, high: 1 };
        assert_eq!(answer.header.procedure, TransportProcedure::Error(version));
        let call = call_bytes(7, NULL, |_| {});
        let position = |position: u32| {
            let mut lists = no_lists();
            lists.push_read(
                position,
                Segment {
                    handle: 1,
                    length: 4,
                    offset: 0,
                },
            );
            lists
        };
        let mut torn = position(4);
        torn.push_read(8, Segment::default());
        torn.push_read(4, Segment::default());
        let mut huge = no_lists();
        huge.push_read(
            4,
            Segment {
                handle: 1,
                length: u32::MAX,
                offset: 0,
            },
        );
        let mut reply_only = no_lists();
        reply_only.set_reply(&[Segment::default()]);
        let refused: [(TransportProcedure, ChunkLists); 6] = [
            (TransportProcedure::Msg, position(6)),
            (TransportProcedure::Msg, position(0)),
            (TransportProcedure::Nomsg, position(4)),
            (TransportProcedure::Msg, torn),
            (TransportProcedure::Msg, huge),
            (TransportProcedure::Nomsg, reply_only),
        ];
        for (procedure, lists) in refused {
            let answer = raw.exchange(7, procedure, &lists, &call).await;
            assert!(answer.is_chunk_error(), "{procedure:?} {lists:?}");
        }
        // Unknown procedures, RDMA_MSGP, lists without end, XIDs that differ, garbage for an RPC header.
        for bytes in [
            words(&[7, 1, 128, 2, 0, 0, 0]),
            words(&[7, 1, 128, 9]),
            words(&[7, 1, 128, 0, 0, 1, 0xffff_ffff]),
            words(&[7, 1, 128, 0, 1]),
            words(&[7, 1, 128, 0, 0, 0, 0, 7, 0, 2]),
            [words(&[7, 1, 128, 0, 0, 0, 0]), call_bytes(8, NULL, |_| {})].concat(),
        ] {
            raw.send_bytes(bytes);
            let answer = raw.receive().await.unwrap();
            assert!(answer.is_chunk_error() && answer.header.xid == 7);
        }
        // After all that a proper call is answered, and every receive is still there.
        for _ in 0..300 {
            let answer = raw
                .exchange(7, TransportProcedure::Msg, &no_lists(), &call)
                .await;
            assert!(results(&answer).is_empty());
            raw.endpoint
                .post_receive(gannet_fabric::WorkId(0), Buffer::zeroed(4096))
                .unwrap();
        }
    });
}

#[test]
fn without_private_data_messages_are_small_and_keys_are_left_alone() {
    lab(|lab| async move {
        let raw = lab.connect_with(&[]).await;
        let call = |len: usize| call_bytes(1, ECHO, |encoder| encoder.opaque(&pattern(len)));
        let answer = raw
            .exchange(1, TransportProcedure::Msg, &no_lists(), &call(900))
            .await;
        assert_eq!(results(&answer).len(), 904);
        let answer = raw
            .exchange(1, TransportProcedure::Msg, &no_lists(), &call(1000))
            .await;
        assert!(answer.is_chunk_error(), "more than 1024 bytes");
        let region = raw.register(vec![0; 4096], Access::RemoteWrite);
        let mut lists = no_lists();
        lists.push_write(&[part(&region, 0, 4096)]);
        let call = call_bytes(1, READ, |encoder| encoder.u32(4096));
        let answer = raw
            .exchange(1, TransportProcedure::Msg, &lists, &call)
            .await;
        assert_eq!(answer.invalidated, None);
        assert!(region.is_valid());
    });
}

#[test]
fn the_server_announces_its_inline_sizes() {
    lab(|lab| async move {
        let raw = lab.connect().await;
        let theirs = PrivateData::find(raw.endpoint.private_data()).unwrap();
        assert_eq!((theirs.send_size, theirs.receive_size), (4096, 4096));
    });
}

#[test]
fn an_idle_connection_holds_no_message_memory() {
    lab(|lab| async move {
        let in_use = || lab.bench.server.memory_in_use().inline;
        let unauthenticated = [lab.connect().await, lab.connect().await];
        let busy = lab.connect().await;
        busy.earn(CREDITS).await;
        eventually(&lab.runtime, || in_use() == 0).await;
        // Calls under way hold the memory of their messages, and no other.
        for xid in 0..10 {
            let call = call_bytes(xid, SLOW, |encoder| encoder.u32(1000));
            busy.send(xid, TransportProcedure::Msg, &no_lists(), &call);
        }
        eventually(&lab.runtime, || in_use() == 10 * INLINE_THRESHOLD as usize).await;
        drop(busy);
        eventually(&lab.runtime, || in_use() == 0).await;
        for raw in unauthenticated {
            let call = call_bytes(1, NULL, |_| {});
            raw.exchange(1, TransportProcedure::Msg, &no_lists(), &call)
                .await;
        }
    });
}

#[test]
fn credits_come_quickly_and_as_many_calls_may_be_under_way() {
    lab(|lab| async move {
        let raw = lab.connect().await;
        let mut window = 1;
        for round in 0..3 {
            for xid in 0..window {
                let xid = 1000 * round + xid;
                let call = call_bytes(xid, SLOW, |encoder| encoder.u32(10));
                raw.send(xid, TransportProcedure::Msg, &no_lists(), &call);
            }
            let calls = window;
            for _ in 0..calls {
                window = raw.receive().await.unwrap().header.credits;
                let buffer = Buffer::zeroed(4096);
                raw.endpoint.post_receive(WorkId(0), buffer).unwrap();
            }
        }
        assert_eq!(window, CREDITS);
    });
}

#[test]
fn a_client_that_ignores_its_grant_ends_alone() {
    lab(|lab| async move {
        let slow = |xid| call_bytes(xid, SLOW, |encoder| encoder.u32(100));
        let others = [lab.connect().await, lab.connect().await];
        for other in &others {
            other.earn(CREDITS).await;
            for xid in 0..CREDITS {
                other.send(xid, TransportProcedure::Msg, &no_lists(), &slow(xid));
            }
        }
        // One before its first reply, one with all the credits there are.
        for earned in [None, Some(CREDITS)] {
            let raw = lab.connect().await;
            if let Some(credits) = earned {
                raw.earn(credits).await;
            }
            for xid in 0..CREDITS + 1 {
                raw.send(xid, TransportProcedure::Msg, &no_lists(), &slow(xid));
            }
            while raw.receive().await.is_ok() {}
        }
        for other in &others {
            for _ in 0..CREDITS {
                other.receive().await.expect("an answer for the innocent");
            }
        }
        assert_eq!(lab.bench.counters.drops.total(), 2);
    });
}

#[test]
fn a_call_whose_memory_cannot_be_read_is_refused_after_reconnecting() {
    lab(|lab| async move {
        let raw = lab.connect().await;
        let (message, position) = reduced_write(9, 5000);
        let mut lists = no_lists();
        lists.push_read(
            position,
            Segment {
                handle: 0x1234_5678,
                length: 5000,
                offset: 0,
            },
        );
        raw.send(9, TransportProcedure::Msg, &lists, &message);
        assert!(raw.receive().await.is_err(), "the connection is over");
        // Clients may ask more than once, and come to any core.
        for address in [lab.other_address, lab.address, lab.address] {
            let private_data = linux().to_bytes();
            let again = Raw::connect(&lab.runtime, &lab.provider, address, &private_data).await;
            let answer = again
                .exchange(9, TransportProcedure::Msg, &lists, &message)
                .await;
            assert!(answer.is_chunk_error());
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever arrives, the server neither panics nor stops answering others.
    #[test]
    fn arbitrary_messages_do_not_stop_the_server(
        messages in proptest::collection::vec(
            (any::<bool>(), proptest::collection::vec(0u32..12, 0..60), 0usize..4), 1..20),
    ) {
        lab(|lab| async move {
            let mut raw = lab.connect().await;
            for (valid, words, cut) in messages {
                let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
                if valid {
                    let front = [3u32, 1, 128].iter().flat_map(|it| it.to_be_bytes());
                    bytes = front.chain(bytes).collect();
                }
                bytes.truncate(bytes.len().saturating_sub(cut));
                let len = bytes.len() as u32;
                let source = gannet_fabric::Source::Buffer { buffer: Buffer::from_vec(bytes), len };
                let options = gannet_fabric::SendOptions::default();
                if raw.endpoint.post_send(gannet_fabric::WorkId(1), source, options).is_err() {
                    raw = lab.connect().await;
                    continue;
                }
                raw.endpoint.flush();
                gannet_runtime::sleep(&lab.runtime, std::time::Duration::from_millis(2)).await;
            }
            let other = lab.connect().await;
            let call = call_bytes(1, NULL, |_| {});
            let answer = other.exchange(1, TransportProcedure::Msg, &no_lists(), &call).await;
            assert!(results(&answer).is_empty());
        });
    }
}
