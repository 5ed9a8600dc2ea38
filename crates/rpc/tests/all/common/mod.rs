//! Shared parts of the tests: a service with one procedure per behaviour, and both ends on one core.

#![allow(dead_code)] // Every test file uses its own part.
#![allow(unreachable_pub, clippy::unwrap_used)]

pub mod by_hand;
pub mod raw;
pub mod stream;

use gannet_fabric::Provider;
use gannet_fabric::registration::Registration;
use gannet_rpc::{
    Call, CallBack, CallError, Client, ClientConfig, Counters, FileRange, OpaqueArgument, Payload,
    Persistence, Program, Reply, ReplyCache, Request, Response, Server, Service, Sink, Target,
    Transport,
};
use gannet_runtime::{Buffer, FileRef, FileSource, Handle, Instant, sleep, timeout};
use gannet_sim::World;
pub use gannet_testing::{checksum, pattern};
use gannet_wire::rpc::AcceptStatus;
use gannet_wire::xdr::{Decoder, XdrError};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

pub const PROGRAM: u32 = 400_100;
pub const NULL: u32 = 0;
/// Gives its opaque argument back inside the results.
pub const ECHO: u32 = 1;
/// Arguments: length. Results: a word, the length as opaque payload ([`pattern`]), a word.
pub const READ: u32 = 2;
/// Arguments: a word, an eligible opaque, a word. Results: its length, its checksum, 1 if it was placed.
pub const WRITE: u32 = 3;
/// Arguments: milliseconds. Results: the same, after so long.
pub const SLOW: u32 = 4;
/// Cached. Arguments: milliseconds, an opaque. Results: how often it was executed.
pub const COUNT: u32 = 5;
/// Arguments: offset, length. Results as READ, from a file.
pub const READ_FILE: u32 = 6;
/// Decodes nothing and fails with GARBAGE_ARGS.
pub const GARBAGE: u32 = 7;
/// As READ, but with an ineligible opaque: a long result. Arguments: length.
pub const LONG: u32 = 8;
const PROCEDURES: u32 = 9;

/// A file that can pretend to be on a slow disk.
pub struct TestFile {
    pub file: std::fs::File,
    pub cold: bool,
}

impl FileSource for TestFile {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }

    fn try_read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        if self.cold {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.file.read_at(buffer, offset)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }

    fn is_resident(&self, _offset: u64, _len: u64) -> bool {
        !self.cold
    }
}

pub struct TestService {
    runtime: Handle,
    pub file: RefCell<Option<FileRef>>,
    /// The results of READ_FILE when the file cannot be read.
    pub unreadable: Cell<Option<&'static [u8]>>,
    pub executed: RefCell<BTreeMap<u32, u32>>,
    pub transports: RefCell<Vec<Transport>>,
    pub in_call: Cell<u32>,
    /// The address that the service does not admit.
    pub refuses: Cell<Option<IpAddr>>,
    /// The procedure whose calls do not authenticate their peer.
    pub reaches_nothing: Cell<Option<u32>>,
    /// The handle to call the last caller.
    pub back: RefCell<Option<CallBack>>,
}

impl TestService {
    pub fn new(runtime: &Handle) -> Rc<TestService> {
        Rc::new(TestService {
            runtime: Handle::clone(runtime),
            file: RefCell::default(),
            unreadable: Cell::default(),
            executed: RefCell::default(),
            transports: RefCell::default(),
            in_call: Cell::new(0),
            refuses: Cell::default(),
            reaches_nothing: Cell::default(),
            back: RefCell::default(),
        })
    }

    pub fn executions(&self, procedure: u32) -> u32 {
        self.executed.borrow().get(&procedure).copied().unwrap_or(0)
    }

    fn count(&self, procedure: u32) -> u32 {
        let mut executed = self.executed.borrow_mut();
        let count = executed.entry(procedure).or_default();
        *count += 1;
        *count
    }

    async fn pause(&self, milliseconds: u32) {
        if milliseconds > 0 {
            sleep(
                &self.runtime,
                Duration::from_millis(u64::from(milliseconds)),
            )
            .await;
        }
    }

    fn put(&self, reply: &mut Reply, payload: Payload) {
        reply.results().u32(0x1111_1111);
        reply.put_payload(payload);
        reply.results().u32(0x2222_2222);
    }

    async fn answer(&self, call: &Call, reply: &mut Reply) -> Result<(), XdrError> {
        let mut arguments = call.decoder();
        match call.procedure {
            ECHO => {
                let bytes = arguments.opaque(1 << 20)?;
                arguments.finish()?;
                reply.results().opaque(bytes);
            }
            READ => {
                let bytes = pattern((arguments.u32()? as usize).min(1 << 20));
                let len = bytes.len();
                let payload = match len % 2 {
                    0 => Payload::Bytes(bytes.into()),
                    _ => Payload::Buffer {
                        buffer: Buffer::from_vec(bytes),
                        len,
                    },
                };
                self.put(reply, payload);
            }
            WRITE => {
                let before = arguments.u32()?;
                let data = call.take_opaque(&mut arguments, 1 << 20)?;
                let after = arguments.u32()?;
                arguments.finish()?;
                if (before, after) != (0x3333_3333, 0x4444_4444) {
                    return Err(XdrError::Value);
                }
                let bytes = data.as_slice();
                let mut results = reply.results();
                results.u32(bytes.len() as u32);
                results.u32(checksum(bytes));
                results.bool(matches!(data, OpaqueArgument::Placed(..)));
            }
            SLOW => {
                let milliseconds = arguments.u32()?;
                self.pause(milliseconds).await;
                reply.results().u32(milliseconds);
            }
            COUNT => {
                let milliseconds = arguments.u32()?;
                let count = self.count(COUNT);
                self.pause(milliseconds).await;
                reply.results().u32(count);
                return Ok(());
            }
            READ_FILE => {
                let (offset, len) = (arguments.u64()?, arguments.u32()? as usize);
                let file = self
                    .file
                    .borrow()
                    .as_ref()
                    .map(Arc::clone)
                    .ok_or(XdrError::Value)?;
                self.put(reply, Payload::File(FileRange { file, offset, len }));
                if let Some(results) = self.unreadable.get() {
                    reply.answer_if_unreadable(results);
                }
            }
            LONG => {
                let bytes = pattern((arguments.u32()? as usize).min(1 << 20));
                reply.results().opaque(&bytes);
            }
            GARBAGE => return Err(XdrError::Value),
            _ => {}
        }
        self.count(call.procedure);
        Ok(())
    }
}

impl Service for TestService {
    fn programs(&self) -> &[Program] {
        &[
            Program {
                number: PROGRAM,
                low: 1,
                high: 2,
                procedures: PROCEDURES,
            },
            Program {
                number: PROGRAM + 1,
                low: 3,
                high: 3,
                procedures: 1,
            },
        ]
    }

    fn is_cached(&self, program: u32, procedure: u32) -> bool {
        program == PROGRAM && procedure == COUNT
    }

    fn locate_payload(&self, _program: u32, procedure: u32, _prefix: &[u8]) -> Option<usize> {
        (procedure == WRITE).then_some(8)
    }

    fn admits(&self, peer: IpAddr) -> bool {
        self.refuses.get() != Some(peer)
    }

    fn establishes(&self, call: &Call) -> bool {
        self.reaches_nothing.get() != Some(call.procedure)
    }

    fn reply_bytes_max(&self, call: &Call) -> usize {
        let mut arguments = call.decoder();
        let body = match call.procedure {
            ECHO => call.arguments().len(),
            READ | LONG => arguments.u32().unwrap_or(0) as usize,
            READ_FILE => arguments.u64().and_then(|_| arguments.u32()).unwrap_or(0) as usize,
            _ => 0,
        };
        64 + body.min(1 << 20)
    }

    async fn call(&self, call: &Call, reply: &mut Reply) {
        self.in_call.set(self.in_call.get() + 1);
        self.transports.borrow_mut().push(call.transport);
        self.back.replace(call.call_back());
        if self.answer(call, reply).await.is_err() {
            reply.fail(AcceptStatus::GarbageArgs);
        }
        self.in_call.set(self.in_call.get() - 1);
    }
}

/// A server on this core, and how to reach it.
pub struct Bench {
    pub runtime: Handle,
    pub service: Rc<TestService>,
    pub server: Server<TestService>,
    pub counters: Arc<Counters>,
    pub cache: Arc<ReplyCache>,
}

impl Bench {
    pub fn new(runtime: &Handle) -> Bench {
        Bench::of_core(runtime, Arc::default(), Arc::default())
    }

    /// A server on another core of the same machine.
    pub fn other_core(&self) -> Bench {
        let (cache, counters) = (Arc::clone(&self.cache), Arc::clone(&self.counters));
        Bench::of_core(&self.runtime, cache, counters)
    }

    pub fn of_core(runtime: &Handle, cache: Arc<ReplyCache>, counters: Arc<Counters>) -> Bench {
        let service = TestService::new(runtime);
        let server = Server::new(
            Handle::clone(runtime),
            Rc::clone(&service),
            Arc::clone(&cache),
            Arc::clone(&counters),
        );
        Bench {
            runtime: Handle::clone(runtime),
            service,
            server,
            counters,
            cache,
        }
    }

    /// Listens on loopback.
    pub fn listen_tcp(&self) -> SocketAddr {
        self.listen_tcp_at("127.0.0.1:0".parse().unwrap())
    }

    pub fn listen_tcp_at(&self, address: SocketAddr) -> SocketAddr {
        let listener = self.runtime.listen(address).unwrap();
        let address = listener.local_address();
        let server = self.server.clone();
        let task = Box::pin(async move { server.serve_tcp(listener).await.unwrap() });
        self.runtime.spawn("server", task);
        address
    }

    /// Listens on the fabric of `provider`.
    pub fn listen_rdma(&self, provider: &Rc<dyn Provider>, address: SocketAddr) -> SocketAddr {
        let listener = provider.listen(address).unwrap();
        let address = listener.local_address();
        let (server, provider) = (self.server.clone(), Rc::clone(provider));
        let task = Box::pin(async move {
            server
                .serve_rdma(provider, Registration::default(), listener)
                .await
                .unwrap()
        });
        self.runtime.spawn("server", task);
        address
    }

    pub fn client(&self, target: Target) -> Client {
        Client::new(Handle::clone(&self.runtime), target, config())
    }
}

pub fn config() -> ClientConfig {
    ClientConfig {
        reply_timeout: Duration::from_secs(20),
        backoff_min: Duration::from_millis(5),
        backoff_max: Duration::from_millis(50),
        persistence: Persistence::Soft { attempts: 5 },
        ..ClientConfig::default()
    }
}

pub fn request(procedure: u32, results_max: usize) -> Request {
    Request::new(PROGRAM, 1, procedure, results_max)
}

pub async fn echo(client: &Client, bytes: &[u8]) -> Result<Vec<u8>, CallError> {
    let mut call = request(ECHO, 4 + bytes.len() + 3);
    call.arguments().opaque(bytes);
    let response = client.call(call).await?;
    Ok(Decoder::new(&response.results)
        .opaque(bytes.len())?
        .to_vec())
}

fn locate(results: &[u8]) -> Option<usize> {
    (results.len() >= 8).then_some(8)
}

pub fn read_request(procedure: u32, len: usize) -> Request {
    let mut call = request(procedure, 12);
    call.sink = Some(Sink {
        buffer: Buffer::zeroed(len),
        locate,
    });
    call
}

/// Reads and checks `len` bytes.
pub async fn read(client: &Client, len: usize) {
    let mut call = read_request(READ, len);
    call.arguments().u32(len as u32);
    check_read(client.call(call).await.unwrap(), &pattern(len));
}

pub fn check_read(response: Response, expected: &[u8]) {
    let mut results = Decoder::new(&response.results);
    assert_eq!(results.u32(), Ok(0x1111_1111));
    assert_eq!(results.u32(), Ok(expected.len() as u32));
    assert_eq!(results.u32(), Ok(0x2222_2222));
    assert_eq!(results.finish(), Ok(()));
    let (sink, len) = response.sink.unwrap();
    assert_eq!(len, expected.len());
    assert!(sink[..len] == *expected, "bytes differ");
}

/// Writes `len` bytes and checks what arrived; says whether the server received them apart.
pub async fn write(client: &Client, len: usize) -> bool {
    let bytes = pattern(len);
    let sum = checksum(&bytes);
    let mut call = request(WRITE, 12);
    call.arguments().u32(0x3333_3333);
    call.put_payload(Buffer::from_vec(bytes), len);
    call.arguments().u32(0x4444_4444);
    let response = client.call(call).await.unwrap();
    assert_eq!(response.payload.unwrap().len(), len);
    let mut results = Decoder::new(&response.results);
    assert_eq!((results.u32(), results.u32()), (Ok(len as u32), Ok(sum)));
    results.bool().unwrap()
}

pub async fn count(client: &Client, milliseconds: u32) -> Result<u32, CallError> {
    let mut call = request(COUNT, 4);
    call.arguments().u32(milliseconds);
    Ok(Decoder::new(&client.call(call).await?.results).u32()?)
}

/// Virtual time that a test may take.
const TEST_TIME_MAX: Duration = Duration::from_secs(1800);

/// A test in virtual time, which fails when it waits for what never comes.
pub fn in_time<F: Future>(world: &World, test: F) -> impl Future<Output = F::Output> + use<F> {
    let clock = world.add_node("clock").runtime();
    async move {
        let ended = timeout(&clock, TEST_TIME_MAX, test).await;
        ended.expect("the test comes to its end")
    }
}

/// Waits until `condition` holds; panics after ten seconds.
pub async fn eventually(runtime: &Handle, mut condition: impl FnMut() -> bool) {
    let limit: Instant = runtime.now() + Duration::from_secs(10);
    while !condition() {
        assert!(runtime.now() < limit, "never happened");
        sleep(runtime, Duration::from_millis(1)).await;
    }
}

/// Runs all futures at the same time.
pub async fn all<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    gannet_runtime::all(futures.into_iter().map(Box::pin)).await
}
