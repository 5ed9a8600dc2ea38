//! RPC-over-RDMA on adapters: every form of call, by every strategy and design.

#![allow(clippy::unwrap_used)]

use crate::device::{Devices, Faults};
use gannet_conformance::MemoryFile;
use gannet_fabric::Provider;
use gannet_fabric::limits::EXPOSURE_MAX;
use gannet_fabric::registration::{Registration, StrategyKind, Trust};
use gannet_rpc::{
    Call, CallError, Client, ClientConfig, Design, Engine, EngineError, FileRange, Payload,
    Program, RdmaOptions, Reply, Request, Response, Server, Service, Sink, Target,
};
use gannet_runtime::{Buffer, Handle, all, sleep};
use gannet_sim::World;
use gannet_testing::{checksum, pattern};
use gannet_wire::rpc::AcceptStatus;
use gannet_wire::xdr::{Decoder, XdrError};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

const PROGRAM: u32 = 400_200;
/// Returns its opaque argument inside the results.
const ECHO: u32 = 1;
/// Arguments: length. Results: that many bytes, as a payload in memory.
const READ: u32 = 2;
/// The same, as a payload in a file.
const READ_FILE: u32 = 3;
/// Arguments: an eligible opaque. Results: its length and sum.
const WRITE: u32 = 4;
const LEN_MAX: usize = 1 << 20;

const SIZES: [usize; 6] = [0, 5, 4000, 16_385, 300_001, LEN_MAX];

struct Echo;

impl Echo {
    fn answer(call: &Call, reply: &mut Reply) -> Result<(), XdrError> {
        let mut arguments = call.decoder();
        match call.procedure {
            ECHO => {
                let bytes = arguments.opaque(LEN_MAX)?;
                reply.results().opaque(bytes);
            }
            READ => {
                let bytes = pattern(arguments.u32()? as usize);
                let len = bytes.len();
                let buffer = Buffer::from_vec(bytes);
                reply.put_payload(Payload::Buffer { buffer, len });
            }
            READ_FILE => {
                let len = arguments.u32()? as usize;
                let content = pattern(len + 100);
                let file = match len % 2 {
                    0 => MemoryFile::resident(content),
                    _ => MemoryFile::cold(content),
                };
                let offset = 0;
                reply.put_payload(Payload::File(FileRange { file, offset, len }));
            }
            WRITE => {
                let data = call.take_opaque(&mut arguments, LEN_MAX)?;
                let bytes = data.as_slice();
                reply.results().u32(bytes.len() as u32);
                reply.results().u32(checksum(bytes));
            }
            _ => {}
        }
        Ok(())
    }
}

impl Service for Echo {
    fn programs(&self) -> &[Program] {
        &[Program {
            number: PROGRAM,
            low: 1,
            high: 1,
            procedures: 5,
        }]
    }

    fn is_cached(&self, _program: u32, _procedure: u32) -> bool {
        false
    }

    fn locate_payload(&self, _program: u32, procedure: u32, _prefix: &[u8]) -> Option<usize> {
        (procedure == WRITE).then_some(4)
    }

    async fn call(&self, call: &Call, reply: &mut Reply) {
        if Echo::answer(call, reply).is_err() {
            reply.fail(AcceptStatus::GarbageArgs);
        }
    }
}

async fn echo(client: &Client, len: usize) -> Result<(), CallError> {
    let mut call = Request::new(PROGRAM, 1, ECHO, 4 + len + 3);
    call.arguments().opaque(&pattern(len));
    let results = client.call(call).await?.results;
    assert!(Decoder::new(&results).opaque(len).unwrap() == pattern(len));
    Ok(())
}

fn locate(results: &[u8]) -> Option<usize> {
    (results.len() >= 4).then_some(4)
}

async fn read(client: &Client, procedure: u32, len: usize) -> Result<(), CallError> {
    let mut call = Request::new(PROGRAM, 1, procedure, 4);
    let buffer = Buffer::zeroed(len);
    call.sink = Some(Sink { buffer, locate });
    call.arguments().u32(len as u32);
    let Response { results, sink, .. } = client.call(call).await?;
    assert_eq!(Decoder::new(&results).u32(), Ok(len as u32));
    let (sink, placed) = sink.unwrap();
    assert_eq!(placed, len);
    assert!(sink[..len] == *pattern(len), "bytes differ");
    Ok(())
}

async fn write(client: &Client, len: usize) -> Result<(), CallError> {
    let bytes = pattern(len);
    let expected = (len as u32, checksum(&bytes));
    let mut call = Request::new(PROGRAM, 1, WRITE, 8);
    call.put_payload(Buffer::from_vec(bytes), len);
    let response = client.call(call).await?;
    let mut results = Decoder::new(&response.results);
    assert_eq!(
        (results.u32(), results.u32()),
        (Ok(expected.0), Ok(expected.1))
    );
    let payload = response.payload;
    let whole = payload.is_none_or(|payload| *payload == *pattern(len));
    assert!(whole, "the payload came back changed");
    Ok(())
}

/// The way in which both ends register and transfer.
#[derive(Clone, Copy)]
struct Way {
    kind: StrategyKind,
    design: Design,
}

struct Pair {
    world: World,
    server: Server<Echo>,
    client: Client,
    runtime: Handle,
    providers: [Rc<dyn Provider>; 2],
}

fn pair(seed: u64, kind: StrategyKind, design: Design, faults: Faults) -> Pair {
    pair_by(seed, Way { kind, design }, None, faults)
}

fn pair_by(seed: u64, way: Way, engine: Option<Engine>, faults: Faults) -> Pair {
    let world = World::new(seed);
    let devices = Devices::new(&world, faults);
    let (near, far) = (world.add_node("client"), world.add_node("server"));
    let (near_provider, far_provider) = (devices.adapter(&near), devices.adapter(&far));
    let Way { kind, design } = way;
    let registration = Registration::new(kind, Trust::Trusted).unwrap();
    let runtime = far.runtime();
    let server = Server::new(runtime, Rc::new(Echo), Arc::default(), Arc::default());
    let listener = far_provider.listen(SocketAddr::new(far.ip(), 20049));
    let listener = listener.unwrap();
    let address = listener.local_address();
    let (serving, provider) = (server.clone(), Rc::clone(&far_provider));
    let serving = async move {
        let options = RdmaOptions {
            registration,
            design,
            engine,
        };
        let served = serving.serve_rdma(provider, options, listener).await;
        served.unwrap();
    };
    far.runtime().spawn("server", Box::pin(serving));
    let config = ClientConfig {
        registration,
        design,
        ..ClientConfig::default()
    };
    let target = Target::Rdma(Rc::clone(&near_provider), address);
    Pair {
        client: Client::new(near.runtime(), target, config),
        server,
        world,
        runtime: near.runtime(),
        providers: [near_provider, far_provider],
    }
}

/// Calls of all forms, many at a time; how many were made and how many had no results.
async fn calls(client: &Client) -> (usize, usize) {
    let (mut made, mut failed) = (0, 0);
    for len in SIZES {
        let each = |index: usize| async move {
            match index % 4 {
                0 => echo(client, len).await,
                1 => read(client, READ, len).await,
                2 => read(client, READ_FILE, len).await,
                _ => write(client, len).await,
            }
        };
        for outcome in all((0..24).map(|index| Box::pin(each(index)))).await {
            made += 1;
            match outcome {
                Ok(()) => {}
                Err(CallError::Memory | CallError::TransportRefused) => failed += 1,
                Err(other) => panic!("{other}"),
            }
        }
    }
    (made, failed)
}

#[test]
fn calls_of_every_form_by_every_strategy() {
    for (seed, kind) in StrategyKind::ALL.into_iter().enumerate() {
        for design in [Design::ReadWrite, Design::ReadRead] {
            let Pair {
                world,
                server,
                client,
                runtime,
                providers,
            } = pair(seed as u64, kind, design, Faults::slow(200));
            let used = client.clone();
            let (_, failed) = world.run(async move { calls(&used).await }).unwrap();
            assert_eq!(failed, 0, "{kind} {design}");
            assert_eq!(client.design(), design);
            let of_server = server.registrations().into_iter().map(|it| (true, it));
            let of_client = client.registration().into_iter().map(|it| (false, it));
            for (is_server, counters) in of_server.chain(of_client) {
                let uses = counters.registrations + counters.hits;
                assert!(uses > 0, "{kind} {design}: {counters:?}");
                let fallbacks = match kind {
                    StrategyKind::Dynamic => 0,
                    // Memory that is longer than a fast mapping.
                    StrategyKind::Fmr => counters.fallbacks.min(uses / 4),
                    // It counts what it registers because that is cheaper.
                    StrategyKind::ClientCache => counters.fallbacks,
                    // The program's own memory, which is no slot, and in the other design what peers read.
                    StrategyKind::ServerCache if is_server => {
                        assert!(counters.hits > 0, "{design}: {counters:?}");
                        counters.fallbacks
                    }
                    // Each use, since a peer could reach memory that its user has.
                    StrategyKind::ServerCache | StrategyKind::AllPhysical => uses,
                };
                assert_eq!(counters.fallbacks, fallbacks, "{kind} {design}");
                assert_eq!(counters.lost, 0);
            }
            // No memory stays registered but what a cache says that it keeps.
            let rest = async move {
                sleep(&runtime, EXPOSURE_MAX + Duration::from_millis(1)).await;
                let kept = (server.registrations().into_iter())
                    .chain(client.registration())
                    .map(|counters| counters.bytes);
                let stats = providers.iter().map(|it| it.domain().stats());
                let registered = stats.map(|stats| stats.bytes_registered);
                (kept.sum::<u64>(), registered.sum::<u64>())
            };
            let (kept, registered) = world.run(rest).unwrap();
            assert_eq!(registered, kept, "{kind} {design}");
            let keeps = matches!(kind, StrategyKind::ServerCache | StrategyKind::ClientCache);
            assert!(keeps || kept == 0, "{kind} {design}");
        }
    }
}

#[test]
fn files_leave_by_the_engine_that_was_asked_for() {
    for engine in [Engine::Static, Engine::Dynamic] {
        let way = Way {
            kind: StrategyKind::ServerCache,
            design: Design::ReadWrite,
        };
        let pair = pair_by(0, way, Some(engine), Faults::default());
        let client = pair.client;
        let reading = async move {
            for len in SIZES {
                read(&client, READ_FILE, len).await.unwrap();
            }
        };
        pair.world.run(reading).unwrap();
        let [counters] = pair.server.registrations()[..] else {
            panic!("one listener");
        };
        // A file that fits into a message needs no registration, so only the three long ones have one.
        assert_eq!(counters.registrations, 3, "{engine}");
        // The static engine's memory stays registered for the next file.
        assert_eq!(counters.bytes > 0, engine == Engine::Static);
    }
}

#[test]
fn an_engine_that_the_provider_does_not_have_is_refused_before_anybody_connects() {
    for (engine, why) in [
        (Engine::Sendfile, EngineError::NoFiles { provider: "sim" }),
        (Engine::Pipelined, EngineError::Pipes),
    ] {
        let world = World::new(1);
        let node = world.add_node("server");
        let provider = Devices::new(&world, Faults::default()).adapter(&node);
        let listener = provider.listen(SocketAddr::new(node.ip(), 20049)).unwrap();
        let server = Server::new(
            node.runtime(),
            Rc::new(Echo),
            Arc::default(),
            Arc::default(),
        );
        let serving = async move {
            let options = RdmaOptions {
                engine: Some(engine),
                ..RdmaOptions::default()
            };
            server.serve_rdma(provider, options, listener).await
        };
        let refused = world.run(serving).unwrap().unwrap_err();
        assert_eq!(refused.to_string(), why.to_string());
    }
}

#[test]
fn registrations_that_fail_cost_their_calls_alone() {
    for seed in 0..6 {
        let faults = Faults {
            registration_failures_per_mille: 100,
            ..Faults::slow(100)
        };
        let design = [Design::ReadWrite, Design::ReadRead][seed as usize % 2];
        let kind = StrategyKind::ALL[seed as usize % StrategyKind::ALL.len()];
        let Pair {
            world,
            server,
            client,
            ..
        } = pair(seed, kind, design, faults);
        let used = client.clone();
        let (made, failed) = world.run(async move { calls(&used).await }).unwrap();
        assert!(failed > 0 && failed < made / 2, "{failed} of {made} failed");
        assert_eq!(server.counters().connections.total(), 1);
    }
}

#[test]
fn memory_lost_to_the_adapter_costs_its_call_alone() {
    for seed in 0..6 {
        let mut faults = Faults::slow(100);
        faults.device.deregistration_failures_per_mille = 100;
        let design = [Design::ReadWrite, Design::ReadRead][seed as usize % 2];
        let Pair {
            world,
            server,
            client,
            ..
        } = pair(seed, StrategyKind::Dynamic, design, faults);
        let used = client.clone();
        let (made, failed) = world.run(async move { calls(&used).await }).unwrap();
        assert!(failed > 0 && failed < made / 2, "{failed} of {made} failed");
        assert_eq!(server.counters().connections.total(), 1);
        assert!(client.registration().unwrap().lost > 0);
    }
}
