//! Credits of RPC/RDMA, counted on both sides: what is granted, under way, returned, and the memory behind it.
//!
//! A message that finds no receive ends its connection on every fabric: a server by hand that posts exactly as many
//! receives as it grants sees each call too many.

#![allow(clippy::unwrap_used)]

use crate::common;

use common::by_hand::by_hand;
use common::raw::{Raw, call_bytes, linux};
use common::*;
use gannet_fabric::Provider;
use gannet_metrics::{Exposition, Source, Value};
use gannet_rpc::Client;
use gannet_rpc::limits::{CREDITS, CREDITS_FIRST, CREDITS_INITIAL, CREDITS_STEP, INLINE_THRESHOLD};
use gannet_runtime::{Handle, both, sleep, timeout};
use gannet_sim::World;
use gannet_sim::fabric::{FabricProfile, SimFabric};
use gannet_wire::rpcrdma::{ChunkLists, Segment, TransportProcedure};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// Long enough for whatever is on its way.
const PAUSE: Duration = Duration::from_millis(50);

async fn null(client: &Client) {
    let response = client.call(request(NULL, 0)).await.unwrap();
    assert!(response.results.is_empty());
}

/// The XIDs of the calls that are here when no more comes: exactly as many as the client may send.
async fn calls_within(raw: &Raw, runtime: &Handle, window: u32) -> Vec<u32> {
    let mut xids = Vec::new();
    for _ in 0..window {
        xids.push(raw.receive().await.unwrap().header.xid);
    }
    let more = timeout(runtime, PAUSE, raw.next()).await;
    assert!(more.is_err(), "more than {window} calls under way");
    xids
}

/// Answers bursts of calls with these grants, each burst with one: the last grant is not used.
async fn grant(raw: &Raw, runtime: &Handle, grants: &[u32]) {
    let mut window = 1;
    for granted in grants {
        let xids = calls_within(raw, runtime, window).await;
        raw.post_receives(*granted);
        xids.into_iter().for_each(|xid| raw.reply(xid, *granted));
        window = *granted;
    }
}

/// Calls that bursts with these grants answer.
fn answered(grants: &[u32]) -> u32 {
    let (_, used) = grants.split_last().unwrap();
    1 + used.iter().sum::<u32>()
}

#[test]
fn a_client_has_exactly_the_calls_under_way_that_it_is_granted() {
    by_hand(|mut lab| async move {
        let grants = [3, 1, 5, 2, 8, 4, 4, 1];
        let count = answered(&grants);
        let calls = all((0..count).map(|_| null(&lab.client)));
        let serving = async {
            let incoming = lab.listener.accept().await.unwrap();
            let raw = Raw::accept(&lab.runtime, incoming, 1).await;
            grant(&raw, &lab.runtime, &grants).await;
            raw
        };
        let (called, raw) = both(calls, serving).await;
        assert_eq!(called.len(), count as usize);
        assert!(timeout(&lab.runtime, PAUSE, raw.next()).await.is_err());
    });
}

#[test]
fn a_client_that_connects_again_begins_with_one_call() {
    by_hand(|mut lab| async move {
        let (before, behind) = ([6, 9], [4, 7, 7, 7, 1]);
        // Those of the burst that is not answered come again.
        let count = answered(&before) + answered(&behind);
        let calls = all((0..count).map(|_| null(&lab.client)));
        let serving = async {
            let incoming = lab.listener.accept().await.unwrap();
            let raw = Raw::accept(&lab.runtime, incoming, 1).await;
            grant(&raw, &lab.runtime, &before).await;
            calls_within(&raw, &lab.runtime, 9).await;
            raw.endpoint.abort("the test ends it");
            drop(raw);
            let incoming = lab.listener.accept().await.unwrap();
            let raw = Raw::accept(&lab.runtime, incoming, 1).await;
            grant(&raw, &lab.runtime, &behind).await;
            raw
        };
        let (called, _raw) = both(calls, serving).await;
        assert_eq!(called.len(), count as usize);
    });
}

#[test]
fn a_grant_of_more_than_was_asked_for_or_of_nothing_is_not_believed() {
    by_hand(|mut lab| async move {
        let count = 1 + CREDITS + 1;
        let calls = all((0..count).map(|_| null(&lab.client)));
        let serving = async {
            let incoming = lab.listener.accept().await.unwrap();
            let raw = Raw::accept(&lab.runtime, incoming, 1).await;
            for (window, stated, granted) in
                [(1, 10 * CREDITS, CREDITS), (CREDITS, 0, 1), (1, 1, 1)]
            {
                let xids = calls_within(&raw, &lab.runtime, window).await;
                raw.post_receives(granted);
                xids.into_iter().for_each(|xid| raw.reply(xid, stated));
            }
            raw
        };
        let (called, _raw) = both(calls, serving).await;
        assert_eq!(called.len(), count as usize);
    });
}

/// A server, and the means to connect to it by hand.
struct Lab {
    runtime: Handle,
    provider: Rc<dyn Provider>,
    address: SocketAddr,
    bench: Rc<Bench>,
}

fn lab<F: Future<Output = ()> + 'static>(test: impl FnOnce(Lab) -> F) {
    let world = World::new(22);
    let (near, far) = (world.add_node("client"), world.add_node("server"));
    let fabric = SimFabric::new(&world, FabricProfile::default());
    let bench = Rc::new(Bench::new(&far.runtime()));
    let far_provider: Rc<dyn Provider> = fabric.provider(&far);
    let address = bench.listen_rdma(&far_provider, SocketAddr::new(far.ip(), 20049));
    let test = test(Lab {
        runtime: near.runtime(),
        provider: fabric.provider(&near),
        address,
        bench,
    });
    world.run(in_time(&world, test)).unwrap();
}

impl Lab {
    async fn connect(&self) -> Raw {
        let private_data = linux().to_bytes();
        Raw::connect(&self.runtime, &self.provider, self.address, &private_data).await
    }

    /// Messages whose memory calls hold.
    fn messages(&self) -> u32 {
        let inline = self.bench.server.memory_in_use().inline;
        assert_eq!(inline % INLINE_THRESHOLD as usize, 0);
        inline as u32 / INLINE_THRESHOLD
    }

    async fn is_idle(&self) {
        eventually(&self.runtime, || self.messages() == 0).await;
    }

    /// Calls that took the last credit, as readers of the metrics see them.
    fn exhausted(&self) -> f64 {
        let mut read = Exposition::default();
        self.bench.counters.collect(&mut read);
        let mut families = read.families();
        let name = "gannet_rpc_exhausted_credits";
        let (_, samples) = families.find(|(family, _)| family.name == name).unwrap();
        match samples.values().next().unwrap() {
            Value::Number(number) => *number,
            Value::Latency(_) => unreachable!("no family of times"),
        }
    }

    /// So many calls at once, which take ten milliseconds: what each answer grants.
    async fn burst(&self, raw: &Raw, count: u32) -> Vec<u32> {
        for xid in 0..count {
            let call = call_bytes(xid, SLOW, |encoder| encoder.u32(10));
            raw.send(xid, TransportProcedure::Msg, &ChunkLists::new(), &call);
        }
        eventually(&self.runtime, || self.messages() == count).await;
        grants(raw, count).await
    }
}

/// The grants of the next `count` answers.
async fn grants(raw: &Raw, count: u32) -> Vec<u32> {
    let mut grants = Vec::new();
    for _ in 0..count {
        grants.push(raw.receive().await.unwrap().header.credits);
        raw.post_receives(1);
    }
    grants
}

/// The grants of `count` answers of a busy connection, after `before` others.
fn expected(before: u32, count: u32) -> Vec<u32> {
    let grant = |answer: u32| (CREDITS_FIRST + CREDITS_STEP * answer).min(CREDITS);
    (before..before + count).map(grant).collect()
}

#[test]
fn a_server_opens_the_window_by_its_step_with_each_answer() {
    lab(|lab| async move {
        let raw = lab.connect().await;
        let mut answers = 0;
        for count in [1, 8, 40, 128, 128, 1, 77, 128] {
            assert_eq!(lab.burst(&raw, count).await, expected(answers, count));
            answers += count;
            lab.is_idle().await;
        }
        assert_eq!(lab.bench.counters.calls.total(), u64::from(answers));
    });
}

#[test]
fn a_call_that_takes_the_last_credit_is_counted() {
    lab(|lab| async move {
        let raw = lab.connect().await;
        let mut expected = 0.0;
        // The first reply grants eight, the reply before the second burst more than it uses.
        for (count, takes_last) in [
            (1, false),
            (7, false),
            (36, true),
            (10, false),
            (CREDITS, true),
        ] {
            lab.burst(&raw, count).await;
            lab.is_idle().await;
            expected += f64::from(u8::from(takes_last));
            assert_eq!(lab.exhausted(), expected, "after {count} calls");
        }
        // Of a client that calls as soon as it has a credit, each call takes the last one.
        let send = |xid| {
            let call = call_bytes(xid, SLOW, |encoder| encoder.u32(1 + xid));
            raw.send(xid, TransportProcedure::Msg, &ChunkLists::new(), &call);
        };
        (0..CREDITS).for_each(send);
        for xid in CREDITS..CREDITS + 20 {
            assert_eq!(grants(&raw, 1).await, [CREDITS]);
            send(xid);
        }
        grants(&raw, CREDITS).await;
        lab.is_idle().await;
        assert_eq!(lab.exhausted(), expected + 21.0);
        assert_eq!(lab.bench.counters.drops.total(), 0);
    });
}

#[test]
fn errors_return_their_credits() {
    lab(|lab| async move {
        let raw = lab.connect().await;
        let call = call_bytes(1, NULL, |_| {});
        let mut torn = ChunkLists::new();
        // No position of a message.
        torn.push_read(6, Segment::default());
        let mut answers = 0;
        for round in 0..4 {
            let count = [1, 8, 40, 128][round];
            for xid in 0..count {
                match xid % 3 {
                    0 => raw.send(1, TransportProcedure::Msg, &torn, &call),
                    // Of version 9, with all a header needs.
                    1 => raw.send_bytes(
                        [1u32, 9, 128, 0, 0, 0, 0]
                            .iter()
                            .flat_map(|it| it.to_be_bytes())
                            .collect(),
                    ),
                    _ => raw.send(
                        1,
                        TransportProcedure::Msg,
                        &ChunkLists::new(),
                        &call_bytes(1, GARBAGE, |_| {}),
                    ),
                }
            }
            assert_eq!(grants(&raw, count).await, expected(answers, count));
            answers += count;
            lab.is_idle().await;
        }
        assert_eq!(
            lab.burst(&raw, CREDITS).await,
            vec![CREDITS; CREDITS as usize]
        );
        assert_eq!(lab.bench.counters.drops.total(), 0);
    });
}

#[test]
fn a_connection_that_breaks_returns_everything_and_the_next_begins_anew() {
    lab(|lab| async move {
        for _ in 0..3 {
            let raw = lab.connect().await;
            let mut answers = 0;
            for count in [1, 8, 40, 128] {
                assert_eq!(lab.burst(&raw, count).await, expected(answers, count));
                answers += count;
            }
            for xid in 0..CREDITS {
                let call = call_bytes(xid, SLOW, |encoder| encoder.u32(1000));
                raw.send(xid, TransportProcedure::Msg, &ChunkLists::new(), &call);
            }
            eventually(&lab.runtime, || lab.messages() == CREDITS).await;
            raw.endpoint.abort("the test ends it");
            drop(raw);
            lab.is_idle().await;
        }
    });
}

#[test]
fn one_call_more_than_granted_ends_the_connection() {
    for (rounds, allowed) in [(&[][..], CREDITS_INITIAL), (&[1], 8), (&[1, 8, 40], 128)] {
        lab(move |lab| async move {
            let raw = lab.connect().await;
            for count in rounds {
                lab.burst(&raw, *count).await;
            }
            let send = |xid| {
                let call = call_bytes(xid, SLOW, |encoder| encoder.u32(1000));
                raw.send(xid, TransportProcedure::Msg, &ChunkLists::new(), &call);
            };
            (0..allowed).for_each(send);
            sleep(&lab.runtime, PAUSE).await;
            assert_eq!(lab.messages(), allowed);
            assert_eq!(lab.bench.counters.drops.total(), 0);
            send(allowed);
            assert!(raw.receive().await.is_err());
            lab.is_idle().await;
            assert_eq!(lab.bench.counters.drops.total(), 1);
        });
    }
}
