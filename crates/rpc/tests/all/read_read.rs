//! The Read-Read design: the server exposes what the client reads, and what that costs the server.

#![allow(clippy::unwrap_used)]

use crate::common;

use common::raw::{Answer, Raw, call_bytes, linux};
use common::*;
use gannet_fabric::registration::{Registration, StrategyKind, Trust};
use gannet_fabric::{
    Access, Backing, Domain, Provider, RemoteAddress, RemoteKey, Scope, Span, WorkId,
};
use gannet_iwarp::{IwarpConfig, IwarpProvider};
use gannet_rpc::limits::{CREDITS_READ_READ, EXPOSED_SHARE_MAX};
use gannet_rpc::{CallError, Client, ClientConfig, Design, Persistence, RdmaOptions, Target};
use gannet_runtime::{Buffer, Handle, sleep};
use gannet_session::limits::DONE_DEADLINE;
use gannet_sim::fabric::{FabricProfile, SimFabric};
use gannet_sim::{LinkProfile, World};
use gannet_wire::rpcrdma::{ChunkLists, TransportProcedure};
use gannet_wire::xdr::Decoder;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Memory,
    /// Its key to all memory names pages.
    Pages,
    Iwarp,
}

/// The parameters of a test.
#[derive(Clone, Copy)]
struct Setting {
    seed: u64,
    kind: Kind,
    strategy: StrategyKind,
    served: Design,
    wanted: Design,
    profile: FabricProfile,
    links: Option<LinkProfile>,
}

impl Default for Setting {
    fn default() -> Setting {
        Setting {
            seed: 7,
            kind: Kind::Memory,
            strategy: StrategyKind::Dynamic,
            served: Design::ReadRead,
            wanted: Design::ReadRead,
            profile: FabricProfile::default(),
            links: None,
        }
    }
}

struct Lab {
    runtime: Handle,
    bench: Rc<Bench>,
    provider: Rc<dyn Provider>,
    address: SocketAddr,
    client: Client,
    registration: Registration,
    wanted: Design,
}

impl Lab {
    fn another(&self) -> Client {
        let config = ClientConfig {
            persistence: Persistence::Hard,
            registration: self.registration,
            design: self.wanted,
            ..config()
        };
        let target = Target::Rdma(Rc::clone(&self.provider), self.address);
        Client::new(Handle::clone(&self.runtime), target, config)
    }

    async fn connect(&self, offer: Design) -> Raw {
        let mut private_data = linux().to_bytes().to_vec();
        private_data.extend(offer.to_bytes().into_iter().flatten());
        let raw = Raw::connect(&self.runtime, &self.provider, self.address, &private_data).await;
        // The first call brings the credits.
        let (none, call) = (ChunkLists::new(), call_bytes(1, NULL, |_| ()));
        raw.exchange(1, TransportProcedure::Msg, &none, &call).await;
        raw
    }

    fn exposed(&self) -> u64 {
        self.bench.counters.exposed.now()
    }

    async fn pause(&self, milliseconds: u64) {
        sleep(&self.runtime, Duration::from_millis(milliseconds)).await;
    }

    /// Nothing is exposed, in use or, once it was reclaimed, kept.
    async fn settle(&self) {
        self.client.close();
        self.pause(200).await;
        assert_eq!(self.exposed(), 0);
        assert_eq!(self.bench.server.memory_in_use().payloads, 0);
        self.bench.server.reclaim();
        let server = self.bench.server.registrations()[0];
        let client = self.client.registration().unwrap();
        for counters in [server, client] {
            assert_eq!((counters.in_use, counters.bytes), (0, 0));
            let ended = counters.deregistrations + counters.invalidated_by_peer;
            assert_eq!(counters.registrations, ended);
        }
    }
}

fn lab<F: Future<Output = ()> + 'static>(setting: Setting, test: impl FnOnce(Lab) -> F) {
    let world = World::new(setting.seed);
    if let Some(links) = setting.links {
        world.set_links(links);
    }
    let (near, far) = (world.add_node("client"), world.add_node("server"));
    let profile = FabricProfile {
        physical_segment_len: (setting.kind == Kind::Pages).then_some(4096),
        ..setting.profile
    };
    let fabric = SimFabric::new(&world, profile);
    let provider = |node: &gannet_sim::Node| -> Rc<dyn Provider> {
        match setting.kind {
            Kind::Memory | Kind::Pages => fabric.provider(node),
            Kind::Iwarp => IwarpProvider::new(node.runtime(), IwarpConfig::default()),
        }
    };
    let registration = Registration::new(setting.strategy, Trust::Trusted).unwrap();
    let options = RdmaOptions {
        registration,
        design: setting.served,
        ..RdmaOptions::default()
    };
    let bench = Rc::new(Bench::new(&far.runtime()));
    let served = provider(&far);
    let listener = served.listen(SocketAddr::new(far.ip(), 20049)).unwrap();
    let address = listener.local_address();
    let server = bench.server.clone();
    let task = async move { server.serve_rdma(served, options, listener).await.unwrap() };
    far.runtime().spawn("server", Box::pin(task));
    let unused = Target::Tcp(address);
    let mut lab = Lab {
        runtime: near.runtime(),
        bench,
        provider: provider(&near),
        address,
        client: Client::new(near.runtime(), unused, config()),
        registration,
        wanted: setting.wanted,
    };
    lab.client = lab.another();
    let stopped = world.run(in_time(&world, test(lab)));
    stopped.unwrap_or_else(|stopped| panic!("seed {}: {stopped}", setting.seed));
}

/// Calls LONG, and checks what comes.
async fn read_long(client: &Client, len: usize) {
    let mut call = request(LONG, len + 8);
    call.arguments().u32(len as u32);
    let response = client.call(call).await.unwrap();
    let mut results = Decoder::new(&response.results);
    assert_eq!(results.opaque(1 << 20).unwrap(), pattern(len));
}

/// Reads from the file that the service has, which holds a pattern.
async fn read_from_file(client: &Client, offset: usize, len: usize) {
    let mut call = read_request(READ_FILE, len);
    call.arguments().u64(offset as u64);
    call.arguments().u32(len as u32);
    let response = client.call(call).await.unwrap();
    check_read(response, &pattern(offset + len)[offset..]);
}

fn serve_file(bench: &Bench, len: usize, cold: bool) {
    let file = tempfile::tempfile().unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &pattern(len), 0).unwrap();
    *bench.service.file.borrow_mut() = Some(Arc::new(TestFile { file, cold }));
}

#[test]
fn results_arrive_under_every_strategy_on_every_provider() {
    for kind in [Kind::Memory, Kind::Pages, Kind::Iwarp] {
        for strategy in StrategyKind::ALL {
            let setting = Setting {
                kind,
                strategy,
                ..Setting::default()
            };
            lab(setting, |lab| async move {
                for len in [0, 1, 3, 3900, 4096, 16_385, 300_001, 1 << 20] {
                    read(&lab.client, len).await;
                    read_long(&lab.client, len.min(70_000)).await;
                    assert!(echo(&lab.client, &pattern(len)).await.unwrap() == pattern(len));
                    assert_eq!(write(&lab.client, len).await, len > 4010, "write {len}");
                }
                for cold in [false, true] {
                    serve_file(&lab.bench, 300_000, cold);
                    read_from_file(&lab.client, 77, 200_001).await;
                }
                assert_eq!(lab.client.design(), Design::ReadRead);
                let counters = &lab.bench.counters;
                // Whatever fits no Send, and nothing else.
                assert_eq!(counters.exposures.total(), 3 * 4 + 2);
                assert_eq!(counters.transport_errors.total(), 0);
                lab.settle().await;
            });
        }
    }
}

#[test]
fn more_replies_than_may_be_exposed_wait_their_turn() {
    for kind in [Kind::Memory, Kind::Iwarp] {
        let setting = Setting {
            kind,
            ..Setting::default()
        };
        lab(setting, |lab| async move {
            serve_file(&lab.bench, 1 << 20, false);
            let calls = (0..200).map(|index| {
                let client = lab.client.clone();
                async move {
                    match index % 4 {
                        0 => read(&client, 500_000 + index).await,
                        1 => assert!(write(&client, 70_000 + index).await),
                        2 => read_long(&client, 60_000 + index).await,
                        _ => read_from_file(&client, index, 1 << 19).await,
                    }
                }
            });
            all(calls).await;
            let peak = lab.bench.counters.exposed.peak();
            assert!(peak <= EXPOSED_SHARE_MAX as u64, "{peak} bytes exposed");
            assert!(peak > EXPOSED_SHARE_MAX as u64 / 2, "{peak} bytes exposed");
            lab.settle().await;
        });
    }
}

/// Asks for READ data without offering memory for it.
fn ask(raw: &Raw, xid: u32, len: usize) {
    let call = call_bytes(xid, READ, |encoder| encoder.u32(len as u32));
    raw.send(xid, TransportProcedure::Msg, &ChunkLists::new(), &call);
}

/// Where the data of a reply lies.
fn place(answer: &Answer) -> (RemoteAddress, u32) {
    let [read] = answer.lists.reads() else {
        panic!("one chunk of one segment: {:?}", answer.lists);
    };
    let address = RemoteAddress {
        key: RemoteKey(read.segment.handle),
        offset: read.segment.offset,
    };
    (address, read.segment.length)
}

/// Reads the server's memory; what happened is left to be seen.
fn post_read(raw: &Raw, address: RemoteAddress, len: u32) -> gannet_fabric::Region {
    let buffer = Buffer::zeroed(len as usize);
    let scope = Scope::Endpoint(raw.endpoint.id());
    let domain: Rc<dyn Domain> = raw.endpoint.domain();
    let sink = domain
        .register_now(Backing::Buffer(buffer), Access::Local, scope)
        .unwrap();
    let span = Span::whole(&sink).unwrap();
    raw.endpoint.post_read(WorkId(9), span, address).unwrap();
    raw.endpoint.flush();
    sink
}

#[test]
fn exposed_replies_are_counted_until_the_peer_is_done() {
    lab(Setting::default(), |lab| async move {
        let raw = lab.connect(Design::ReadRead).await;
        ask(&raw, 2, 100_000);
        let answer = raw.receive().await.unwrap();
        let (address, len) = place(&answer);
        assert_eq!((len, lab.exposed()), (100_000, 100_000));
        let sink = post_read(&raw, address, len);
        lab.pause(100).await;
        assert_eq!(
            *sink.deregister().now().unwrap().unwrap().unwrap(),
            *pattern(100_000)
        );
        // RDMA_DONE for unknown replies changes nothing.
        for xid in [1, 3, 77] {
            raw.send(xid, TransportProcedure::Done, &ChunkLists::new(), &[]);
        }
        lab.pause(100).await;
        assert_eq!(lab.exposed(), 100_000);
        raw.send(2, TransportProcedure::Done, &ChunkLists::new(), &[]);
        lab.pause(100).await;
        assert_eq!((lab.exposed(), lab.bench.counters.overdue.total()), (0, 0));
        let stats = lab.bench.server.registrations()[0];
        assert_eq!((stats.bytes, stats.in_use), (0, 0));
        // The key is worth nothing now.
        let sink = post_read(&raw, address, len);
        assert!(raw.receive().await.is_err(), "a read by a revoked key");
        assert_eq!(
            *sink.deregister().now().unwrap().unwrap().unwrap(),
            *vec![0; 100_000]
        );
    });
}

#[test]
fn a_peer_that_never_says_done_pins_little_and_is_cut() {
    lab(Setting::default(), |lab| async move {
        let raw = lab.connect(Design::ReadRead).await;
        raw.earn(CREDITS_READ_READ).await;
        for xid in 2..62 {
            ask(&raw, xid, 1 << 20);
        }
        lab.pause(5000).await;
        assert_eq!(lab.exposed(), EXPOSED_SHARE_MAX as u64);
        // Others read as ever.
        let reads = (0..20).map(|index| read(&lab.client, 400_000 + index));
        all(reads).await;
        lab.pause(200).await;
        assert_eq!(lab.exposed(), EXPOSED_SHARE_MAX as u64);
        sleep(&lab.runtime, DONE_DEADLINE - Duration::from_secs(7)).await;
        let counters = &lab.bench.counters;
        assert_eq!((counters.overdue.total(), counters.drops.total()), (0, 0));
        lab.pause(3000).await;
        assert_eq!((counters.overdue.total(), counters.drops.total()), (1, 1));
        assert_eq!(lab.exposed(), 0);
        while raw.receive().await.is_ok() {}
        read(&lab.client, 100_000).await;
        lab.settle().await;
    });
}

#[test]
fn a_peer_reads_nothing_that_is_not_exposed_to_it() {
    for strategy in [
        StrategyKind::Dynamic,
        StrategyKind::Fmr,
        StrategyKind::ServerCache,
        StrategyKind::ClientCache,
    ] {
        let setting = Setting {
            strategy,
            ..Setting::default()
        };
        lab(setting, |lab| async move {
            serve_file(&lab.bench, 100_000, false);
            let owner = lab.connect(Design::ReadRead).await;
            // From a slot of the server, so that the caches do what they can.
            let call = call_bytes(2, READ_FILE, |encoder| {
                encoder.u64(0);
                encoder.u32(100_000);
            });
            owner.send(2, TransportProcedure::Msg, &ChunkLists::new(), &call);
            let (address, len) = place(&owner.receive().await.unwrap());
            let neighbours = (1..4).map(|index| RemoteKey(address.key.0 ^ index));
            let keys = [address.key].into_iter().chain(neighbours);
            for key in keys {
                // Each guess costs a connection.
                let thief = lab.connect(Design::ReadRead).await;
                let guess = RemoteAddress { key, ..address };
                let sink = post_read(&thief, guess, len);
                assert!(thief.receive().await.is_err(), "{key:?} was read");
                assert_eq!(
                    *sink.deregister().now().unwrap().unwrap().unwrap(),
                    *vec![0; 100_000]
                );
            }
            // The owner itself reads what is exposed, and only zeros behind it in the same slot.
            let sink = post_read(&owner, address, len);
            lab.pause(100).await;
            assert_eq!(
                *sink.deregister().now().unwrap().unwrap().unwrap(),
                *pattern(100_000)
            );
        });
    }
}

#[test]
fn the_last_user_of_a_slot_left_nothing_for_the_next_peer() {
    for strategy in StrategyKind::ALL {
        let setting = Setting {
            strategy,
            ..Setting::default()
        };
        lab(setting, |lab| async move {
            serve_file(&lab.bench, 131_072, false);
            read_from_file(&lab.client, 0, 131_072).await;
            let raw = lab.connect(Design::ReadRead).await;
            let call = call_bytes(2, READ_FILE, |encoder| {
                encoder.u64(0);
                encoder.u32(70_000);
            });
            raw.send(2, TransportProcedure::Msg, &ChunkLists::new(), &call);
            let (address, _) = place(&raw.receive().await.unwrap());
            let sink = post_read(&raw, address, 131_072);
            lab.pause(100).await;
            let seen = sink.deregister().now().unwrap().unwrap().unwrap();
            let behind = seen.get(70_000..).unwrap();
            assert!(behind.iter().all(|byte| *byte == 0), "{strategy}");
        });
    }
}

#[test]
fn the_read_depth_bounds_how_much_is_read_at_a_time() {
    let took = |read_depth_max| {
        let taken = Rc::new(std::cell::Cell::new(Duration::ZERO));
        let result = Rc::clone(&taken);
        let setting = Setting {
            profile: FabricProfile {
                read_depth_max,
                ..FabricProfile::default()
            },
            links: Some(LinkProfile {
                latency_ns: 100_000,
                jitter_ns: 0,
                kibibyte_ns: 100,
                ..LinkProfile::default()
            }),
            ..Setting::default()
        };
        lab(setting, move |lab| async move {
            read(&lab.client, 8192).await;
            let start = lab.runtime.now();
            all((0..32).map(|_| read(&lab.client, 8192))).await;
            taken.set(lab.runtime.now() - start);
        });
        result.get()
    };
    // A round trip for each, or for eight at a time.
    let (one, eight) = (took(1), took(8));
    assert!(one > 3 * eight, "{one:?} and {eight:?}");
}

#[test]
fn a_server_that_does_not_offer_it_is_used_the_other_way() {
    for (served, wanted) in [
        (Design::ReadWrite, Design::ReadRead),
        (Design::ReadRead, Design::ReadWrite),
        (Design::ReadWrite, Design::ReadWrite),
    ] {
        for kind in [Kind::Memory, Kind::Iwarp] {
            let setting = Setting {
                kind,
                served,
                wanted,
                ..Setting::default()
            };
            lab(setting, |lab| async move {
                read(&lab.client, 300_000).await;
                read_long(&lab.client, 50_000).await;
                assert!(write(&lab.client, 300_000).await);
                assert_eq!(lab.client.design(), Design::ReadWrite);
                assert_eq!(lab.bench.counters.exposed.peak(), 0);
                lab.settle().await;
            });
        }
    }
}

#[test]
fn peers_that_did_not_ask_are_exposed_nothing() {
    lab(Setting::default(), |lab| async move {
        let raw = lab.connect(Design::ReadWrite).await;
        ask(&raw, 2, 100_000);
        assert!(raw.receive().await.unwrap().is_chunk_error());
        // Nor is a word about it taken amiss.
        raw.send(2, TransportProcedure::Done, &ChunkLists::new(), &[]);
        let (none, call) = (ChunkLists::new(), call_bytes(3, NULL, |_| ()));
        raw.exchange(3, TransportProcedure::Msg, &none, &call).await;
        assert_eq!(lab.bench.counters.exposures.total(), 0);
    });
}

#[test]
fn keys_that_vanish_at_any_moment_cost_no_byte() {
    for seed in 0..30 {
        let strategy = StrategyKind::ALL[seed as usize % 5];
        let setting = Setting {
            seed,
            kind: if seed % 2 == 0 {
                Kind::Memory
            } else {
                Kind::Pages
            },
            strategy,
            profile: FabricProfile {
                resets_per_million: 10_000,
                survivable_exceptions: seed % 3 == 0,
                ..FabricProfile::default()
            },
            ..Setting::default()
        };
        lab(setting, |lab| async move {
            serve_file(&lab.bench, 300_000, false);
            let server = lab.bench.server.clone();
            let runtime = Handle::clone(&lab.runtime);
            // Kept registrations are reclaimed while calls are under way.
            let reclaim = async move {
                loop {
                    let pause = Duration::from_micros(runtime.random() % 2000);
                    sleep(&runtime, pause).await;
                    server.reclaim();
                }
            };
            lab.runtime.spawn("reclaim", Box::pin(reclaim));
            let calls = (0..40).map(|index| {
                let client = lab.client.clone();
                async move {
                    match index % 4 {
                        0 => read(&client, 60_000 + index).await,
                        1 => assert!(write(&client, 60_000 + index).await),
                        2 => read_long(&client, 60_000 + index).await,
                        _ => read_from_file(&client, index, 200_000).await,
                    }
                    count(&client, 3).await.unwrap()
                }
            });
            let mut counts = all(calls).await;
            counts.sort_unstable();
            assert_eq!(counts, (1..=40).collect::<Vec<u32>>());
            lab.settle().await;
        });
    }
}

#[test]
fn replies_longer_than_the_call_allows_are_refused() {
    lab(Setting::default(), |lab| async move {
        // Far more than the call has room for.
        let mut call = read_request(READ, 100);
        call.arguments().u32(300_000);
        let error = lab.client.call(call).await.unwrap_err();
        assert!(matches!(error, CallError::Malformed(_)), "{error}");
        read(&lab.client, 100_000).await;
        lab.settle().await;
    });
}
