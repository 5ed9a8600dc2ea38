//! Files by one call, with each engine, on each provider: the simulated fabric, the software RNIC, and the simulated
//! fabric as adapters.

#![allow(clippy::unwrap_used)]

use crate::device::{Devices, Faults};
use gannet_conformance::MemoryFile;
use gannet_datapath::{
    Destination, Engine, EngineError, FileRange, FileSender, SendError, SenderOptions,
};
use gannet_fabric::{
    Access, Backing, ConnectOptions, Connected, Done, Provider, Region, RemoteAddress, Scope,
    WorkId, next_completions,
};
use gannet_iwarp::{IwarpConfig, IwarpProvider};
use gannet_runtime::{Buffer, FileRef, Handle, both};
use gannet_sim::fabric::{FabricProfile, SimFabric};
use gannet_sim::{Node, World};
use gannet_testing::pattern;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Simulated,
    SoftwareRnic,
    Device,
}

const KINDS: [Kind; 3] = [Kind::Simulated, Kind::SoftwareRnic, Kind::Device];

/// Two machines with an adapter each, and a connection from the server to the client.
struct Ends {
    runtime: Handle,
    provider: Rc<dyn Provider>,
    server: Connected,
    client: Connected,
}

fn providers(world: &World, kind: Kind, nodes: [&Node; 2]) -> [Rc<dyn Provider>; 2] {
    let fabric = SimFabric::new(world, FabricProfile::default());
    let devices = Devices::new(world, Faults::default());
    nodes.map(|node| match kind {
        Kind::Simulated => fabric.provider(node),
        Kind::SoftwareRnic => {
            let config = IwarpConfig {
                accept_race: None,
                ..IwarpConfig::default()
            };
            IwarpProvider::new(node.runtime(), config) as Rc<dyn Provider>
        }
        Kind::Device => devices.adapter(node),
    })
}

/// The receives that the client of a pair posts when it connects.
struct ClientReceives {
    count: usize,
    /// Bytes of each.
    len: usize,
}

/// Receives for short messages.
const SHORT_RECEIVES: ClientReceives = ClientReceives { count: 8, len: 16 };

/// Runs `test` on a fresh pair whose client has these receives.
fn with_ends<F: Future<Output = ()> + 'static>(
    kind: Kind,
    receives: ClientReceives,
    test: impl FnOnce(Ends) -> F + 'static,
) {
    let world = World::new(7);
    let (near, far) = (world.add_node("server"), world.add_node("client"));
    let [provider, peer] = providers(&world, kind, [&near, &far]);
    let (runtime, address) = (near.runtime(), SocketAddr::new(far.ip(), 4000));
    let work = async move {
        let mut listener = peer.listen(address).unwrap();
        let memory = (0..receives.count).map(|_| Buffer::zeroed(receives.len));
        let options = ConnectOptions {
            receives: memory.collect::<Vec<_>>().into(),
            ..ConnectOptions::default()
        };
        let connecting = provider.connect(listener.local_address(), ConnectOptions::default());
        let accepting = async { listener.accept().await.unwrap().accept(options).await };
        let (server, client) = both(connecting, accepting).await;
        test(Ends {
            runtime,
            provider,
            server: server.unwrap(),
            client: client.unwrap(),
        })
        .await;
    };
    world.run(work).unwrap();
}

impl Ends {
    fn sender(&self, options: SenderOptions) -> Result<FileSender, EngineError> {
        let (endpoint, runtime) = (Rc::clone(&self.server), Rc::clone(&self.runtime));
        FileSender::new(endpoint, self.provider.capabilities(), runtime, options)
    }

    /// Engines that the provider has.
    fn engines(&self) -> impl Iterator<Item = Engine> + use<> {
        let capabilities = self.provider.capabilities();
        let all = Engine::ALL.into_iter();
        all.filter(move |engine| engine.check(&capabilities).is_ok())
    }

    /// Memory of the client that the server may write.
    fn sink(&self, len: usize) -> Region {
        let backing = Backing::Buffer(Buffer::zeroed(len));
        let scope = Scope::Endpoint(self.client.id());
        let domain = self.client.domain();
        domain
            .register_now(backing, Access::RemoteWrite, scope)
            .unwrap()
    }

    /// The content of the client's memory.
    fn look(&self, sink: &Region) -> Vec<u8> {
        gannet_sim::fabric::look(sink).unwrap()
    }

    /// Waits until all writes of the server are in place, by a message that follows them.
    async fn settle(&self) {
        let options = gannet_fabric::SendOptions::default();
        let buffer = Buffer::zeroed(1);
        let source = gannet_fabric::Source::Buffer { buffer, len: 1 };
        self.server.post_send(WorkId(1), source, options).unwrap();
        self.server.flush();
        assert_eq!(self.message().await, [0]);
    }

    /// The next message that the client gets.
    async fn message(&self) -> Vec<u8> {
        self.messages(1).await.pop().unwrap()
    }

    /// The next `count` messages.
    async fn messages(&self, count: usize) -> Vec<Vec<u8>> {
        let (mut completions, mut messages) = (Vec::new(), Vec::new());
        while messages.len() < count {
            next_completions(&*self.client, &mut completions)
                .await
                .unwrap();
            for completion in completions.drain(..) {
                let Ok(Done::Received { len, .. }) = completion.outcome else {
                    panic!("{completion:?}");
                };
                messages.push(completion.buffer.unwrap()[..len as usize].to_vec());
            }
        }
        messages
    }
}

fn at(region: &Region, offset: u64, len: u32) -> (RemoteAddress, u32) {
    let address = RemoteAddress {
        key: region.remote_key(),
        offset: region.base() + offset,
    };
    (address, len)
}

/// Pipes of 16 KiB, three of them.
fn options(engine: Engine) -> SenderOptions {
    SenderOptions {
        engine: Some(engine),
        pipes: 3,
        pipe_len: 16 << 10,
        memory_max: 1 << 20,
        ..SenderOptions::default()
    }
}

const LEN: usize = 300_001;

#[test]
fn every_engine_fills_the_peers_memory_and_counts_what_it_took() {
    for kind in KINDS {
        with_ends(kind, SHORT_RECEIVES, move |ends| async move {
            for engine in ends.engines() {
                let (sink, rest) = (ends.sink(200_000), ends.sink(150_000));
                let mut sender = ends.sender(options(engine)).unwrap();
                let file = MemoryFile::resident(pattern(LEN + 99));
                let range = FileRange {
                    file,
                    offset: 99,
                    len: LEN,
                };
                // The segments neither begin at the start of the memory nor end at its end.
                let segments = [at(&sink, 1, 199_999), at(&rest, 0, 140_000)];
                let destination = Destination::Memory(&segments);
                let mut others = Vec::new();
                sender.send(&range, destination, &mut others).await.unwrap();
                ends.settle().await;
                let wanted = &pattern(LEN + 99)[99..];
                assert!(
                    ends.look(&sink)[1..] == wanted[..199_999],
                    "{kind:?} {engine}"
                );
                assert!(
                    ends.look(&rest)[..100_002] == wanted[199_999..],
                    "{kind:?} {engine}"
                );
                assert!(ends.look(&rest)[100_002..].iter().all(|byte| *byte == 0));
                assert_eq!((ends.look(&sink)[0], others.len()), (0, 0));

                let counts = sender.counts();
                // 13 pieces in the first segment, 7 in the second.
                assert_eq!(
                    (counts.transfers, counts.bytes, counts.work),
                    (1, LEN as u64, 20)
                );
                let copied = if engine == Engine::Sendfile {
                    0
                } else {
                    LEN as u64
                };
                assert_eq!(counts.copied_bytes, copied, "{kind:?} {engine}");
                let needs = ends.provider.capabilities().needs_local_registration;
                let registered = match engine {
                    Engine::Sendfile => 0,
                    Engine::Static if !needs => 0,
                    // Each of its buffers once.
                    Engine::Static => 3,
                    Engine::Dynamic | Engine::Pipelined => 20,
                };
                let registrations = counts.registrations;
                assert_eq!(registrations.registrations, registered, "{kind:?} {engine}");
                assert_eq!(registrations.in_use, 0, "{kind:?} {engine}");
                // The static engine keeps its three buffers for the next file.
                let is_kept = engine == Engine::Static && needs;
                let kept = if is_kept { 3 * (16 << 10) } else { 0 };
                assert_eq!(registrations.bytes, kept, "{kind:?} {engine}");
                let pipes = if engine == Engine::Dynamic { 1 } else { 3 };
                assert!(counts.memory_peak <= pipes * (16 << 10), "{counts:?}");
                assert!(counts.memory_peak >= 16 << 10);
            }
        });
    }
}

#[test]
fn messages_bring_a_file_in_order_whether_it_is_in_the_cache_or_not() {
    for kind in KINDS {
        let receives = ClientReceives {
            count: 200,
            len: 16 << 10,
        };
        with_ends(kind, receives, move |ends| async move {
            for engine in ends.engines() {
                for file in [
                    MemoryFile::resident as fn(Vec<u8>) -> FileRef,
                    MemoryFile::cold,
                ] {
                    let mut sender = ends.sender(options(engine)).unwrap();
                    let range = FileRange {
                        file: file(pattern(LEN)),
                        offset: 0,
                        // Bytes past the end of the file arrive as zeros.
                        len: LEN + 500,
                    };
                    let count = (LEN + 500).div_ceil(16 << 10);
                    let mut others = Vec::new();
                    let destination = Destination::Messages { receives: count };
                    let sending = sender.send(&range, destination, &mut others);
                    let (sent, messages) = both(sending, ends.messages(count)).await;
                    sent.unwrap();
                    let mut wanted = pattern(LEN);
                    wanted.resize(LEN + 500, 0);
                    assert!(messages.concat() == wanted, "{kind:?} {engine}");
                }
            }
        });
    }
}

#[test]
fn a_file_that_fails_or_does_not_fit_is_refused_and_the_next_one_goes() {
    for kind in KINDS {
        with_ends(kind, SHORT_RECEIVES, move |ends| async move {
            for engine in ends.engines().filter(|engine| *engine != Engine::Sendfile) {
                let sink = ends.sink(LEN);
                let mut sender = ends.sender(options(engine)).unwrap();
                let mut others = Vec::new();
                let segments = [at(&sink, 0, LEN as u32)];
                let destination = Destination::Memory(&segments);
                let range = |file, len| FileRange {
                    file,
                    offset: 0,
                    len,
                };
                let broken = range(MemoryFile::failing(std::io::ErrorKind::Other), LEN);
                let sent = sender.send(&broken, destination, &mut others).await;
                assert!(matches!(sent, Err(SendError::File(_))), "{sent:?}");
                let long = range(MemoryFile::resident(Vec::new()), LEN + 1);
                let sent = sender.send(&long, destination, &mut others).await;
                let wanted = (LEN as u64, LEN as u64 + 1);
                assert!(matches!(
                    sent,
                    Err(SendError::Room { room, len }) if (room, len) == wanted
                ));
                let good = range(MemoryFile::cold(pattern(LEN)), LEN);
                sender.send(&good, destination, &mut others).await.unwrap();
                ends.settle().await;
                assert!(ends.look(&sink) == pattern(LEN), "{kind:?} {engine}");
            }
        });
    }
}

#[test]
fn a_call_that_is_given_up_does_not_disturb_the_next() {
    for kind in KINDS {
        with_ends(kind, SHORT_RECEIVES, move |ends| async move {
            for engine in ends.engines() {
                let sink = ends.sink(LEN);
                let mut sender = ends.sender(options(engine)).unwrap();
                let segments = [at(&sink, 0, LEN as u32)];
                let destination = Destination::Memory(&segments);
                let range = |file| FileRange {
                    file,
                    offset: 0,
                    len: LEN,
                };
                for polls in 1..8 {
                    let old = range(MemoryFile::resident(vec![0xa5; LEN]));
                    let mut others = Vec::new();
                    {
                        let mut sending = Box::pin(sender.send(&old, destination, &mut others));
                        for _ in 0..polls {
                            let poll = std::future::poll_fn(|context| {
                                std::task::Poll::Ready(sending.as_mut().poll(context).is_ready())
                            });
                            if poll.await {
                                break;
                            }
                            gannet_runtime::sleep(&ends.runtime, Duration::from_micros(20)).await;
                        }
                    }
                    let new = range(MemoryFile::resident(pattern(LEN)));
                    sender.send(&new, destination, &mut others).await.unwrap();
                    assert!(others.is_empty());
                }
                ends.settle().await;
                assert!(ends.look(&sink) == pattern(LEN), "{kind:?} {engine}");
                assert_eq!(sender.counts().registrations.in_use, 0);
            }
        });
    }
}

#[test]
fn memory_bounds_the_pipes_and_a_missing_engine_is_said_at_once() {
    with_ends(Kind::Device, SHORT_RECEIVES, move |ends| async move {
        let missing = ends.sender(options(Engine::Sendfile)).err().unwrap();
        assert!(matches!(missing, EngineError::NoFiles { .. }));
        assert!(
            missing
                .to_string()
                .contains("use static, dynamic or pipelined")
        );
        for (asked, pipes, pipe_len) in [
            ((4, 64 << 10, 256 << 10), 4, 64 << 10),
            ((4, 64 << 10, 200 << 10), 3, 64 << 10),
            ((4, 64 << 10, 100), 1, 100),
        ] {
            let sender = ends
                .sender(SenderOptions {
                    pipes: asked.0,
                    pipe_len: asked.1,
                    memory_max: asked.2,
                    ..SenderOptions::default()
                })
                .unwrap();
            assert_eq!(
                (sender.options().pipes, sender.options().pipe_len),
                (pipes, pipe_len)
            );
        }
        let none = SenderOptions {
            memory_max: 0,
            ..SenderOptions::default()
        };
        assert_eq!(ends.sender(none).err(), Some(EngineError::NoMemory));
        // The engine depends on the provider and the length.
        let sender = ends.sender(SenderOptions::default()).unwrap();
        assert_eq!(sender.engine(64 << 10), Engine::Static);
        assert_eq!(sender.engine(65 << 10), Engine::Pipelined);
    });
    with_ends(Kind::SoftwareRnic, SHORT_RECEIVES, move |ends| async move {
        let sender = ends.sender(SenderOptions::default()).unwrap();
        assert_eq!(sender.engine(16 << 10), Engine::Static);
        assert_eq!(sender.engine(17 << 10), Engine::Sendfile);
    });
}

/// The idle connections of the next test.
const IDLERS: usize = 1000;

#[test]
fn a_thousand_peers_that_take_nothing_cost_no_more_than_their_bound() {
    let world = World::new(11);
    let (near, far) = (world.add_node("server"), world.add_node("client"));
    let [provider, peer] = providers(&world, Kind::SoftwareRnic, [&near, &far]);
    let (runtime, address) = (near.runtime(), SocketAddr::new(far.ip(), 4000));
    let faults = world.faults();
    let work = async move {
        let mut listener = peer.listen(address).unwrap();
        let mut pairs = Vec::new();
        for _ in 0..IDLERS {
            let connecting = provider.connect(address, ConnectOptions::default());
            let accepting = async {
                let incoming = listener.accept().await.unwrap();
                incoming.accept(ConnectOptions::default()).await
            };
            let (server, client) = both(connecting, accepting).await;
            pairs.push((server.unwrap(), client.unwrap()));
        }
        // From now on no peer receives a byte.
        faults.partition(near.id(), far.id());
        let memory_max = 128 << 10;
        let sending = pairs.iter().zip(Engine::ALL.into_iter().cycle());
        let sending = sending.map(|((server, client), engine)| {
            let backing = Backing::Buffer(Buffer::zeroed(1));
            let scope = Scope::Endpoint(client.id());
            let sink = client.domain();
            let sink = sink
                .register_now(backing, Access::RemoteWrite, scope)
                .unwrap();
            let mut sender = FileSender::new(
                Rc::clone(server),
                provider.capabilities(),
                Rc::clone(&runtime),
                SenderOptions {
                    memory_max,
                    pipe_len: 32 << 10,
                    pipes: 100,
                    ..options(engine)
                },
            )
            .unwrap();
            let range = FileRange {
                file: MemoryFile::resident(Vec::new()),
                offset: 0,
                len: 64 << 20,
            };
            Box::pin(async move {
                let segments = [at(&sink, 0, 64 << 20)];
                let destination = Destination::Memory(&segments);
                let sent = sender.send(&range, destination, &mut Vec::new()).await;
                assert!(
                    matches!(
                        sent,
                        Err(SendError::Stalled(_) | SendError::Disconnected(_))
                    ),
                    "{sent:?}"
                );
                sender.counts()
            })
        });
        for counts in gannet_runtime::all(sending).await {
            assert!(counts.memory_peak <= memory_max, "{counts:?}");
            assert!(
                counts.registrations.bytes_peak <= memory_max as u64,
                "{counts:?}"
            );
        }
    };
    world.run(work).unwrap();
}
