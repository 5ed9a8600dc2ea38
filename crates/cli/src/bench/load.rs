//! Load on a server: streams with a connection each, which threads share.

use super::measure::{Interrupt, check_moved, histogram, own_cpu, scatter};
use crate::cli::{BenchOp, ClientOptions};
use crate::failure::{Explain, Failure};
use crate::process::Usage;
use crate::session::{Patience, Session};
use gannet::url::Url;
use gannet_client::{Error, Follow};
use gannet_fabric::registration::Counters;
use gannet_rpc::Design;
use gannet_runtime::tokio_plug::Cores;
use gannet_runtime::{Buffer, Handle};
use gannet_vfs::{CreateMode, FileHandle, SetAttributes, Stability};
use gannet_volume::client::{AttributeCounters, OptimisticCounters};
use hdrhistogram::Histogram;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Barrier;

/// The file that is read and written.
pub const FILE: &[u8] = b"data";

/// Name of the `number`th small file.
pub fn small_file(number: u64) -> String {
    format!("file-{number}")
}

/// One measurement: the operation, the number of streams, and its end.
pub struct Load {
    /// The directory that [`super::prepare`] filled.
    pub folder: Url,
    /// The operation.
    pub op: BenchOp,
    /// Bytes per READ or WRITE.
    pub record: u32,
    /// Streams, with a connection each.
    pub streams: u16,
    /// Threads that the streams share.
    pub threads: u16,
    /// Bytes of the file.
    pub size: u64,
    /// Files that `stat` and `lookup` take in turns.
    pub files: u64,
    /// The time, or the number of operations.
    pub end: LoadEnd,
    /// Options of the connections.
    pub client: ClientOptions,
    /// Operations in flight on each stream.
    pub in_flight: u16,
    /// The server's process on this machine, whose processor time is measured too.
    pub server: Option<u32>,
    /// Ends it early.
    pub interrupt: Interrupt,
}

/// The end of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoadEnd {
    /// After this time.
    Time(Duration),
    /// After so many operations of all streams together.
    Operations(u64),
}

/// The result of a measurement.
pub struct Measured {
    /// Latencies of all operations.
    pub latency_ns: Histogram<u64>,
    /// From the first operation's start to the last one's end.
    pub seconds: f64,
    /// CPU time of this process meanwhile.
    pub cpu: Duration,
    /// Processor time of the server's process meanwhile, if it was asked for and could be read.
    pub server_cpu: Option<Duration>,
    /// How long calls of all streams together waited for credits.
    pub credit_starved: Duration,
    /// Connections that were lost and made anew.
    pub reconnects: u64,
    /// The counters of the streams' registration strategies; `None` on TCP.
    pub registration: Option<Counters>,
    /// The design that the servers agreed to.
    pub design: Design,
    /// The counters of optimistic reads, for volumes.
    pub reads: Option<ReadCounters>,
}

/// The counters of a volume's client for optimistic reads of data and of attributes.
#[derive(Clone, Copy)]
pub struct ReadCounters {
    /// Counters of data.
    pub data: OptimisticCounters,
    /// Counters of attributes.
    pub attributes: AttributeCounters,
}

/// The state that the streams share.
struct Shared {
    load: Load,
    start: Barrier,
    /// Numbers operations over all streams.
    next: AtomicU64,
    outcomes: Mutex<Vec<Result<Stream, Failure>>>,
    /// The server's processor time when all streams were connected.
    server_at_start: Mutex<Option<Usage>>,
}

/// One stream's part.
struct Stream {
    latency_ns: Histogram<u64>,
    began: Instant,
    ended: Instant,
    cpu_at_start: Duration,
    credit_starved: Duration,
    reconnects: u64,
    registration: Option<Counters>,
    design: Design,
    reads: Option<ReadCounters>,
}

impl Load {
    /// The description of a failure.
    fn what(&self) -> String {
        format!("{:?} failed in {}", self.op, self.folder)
    }

    /// Runs it to its end.
    ///
    /// # Errors
    /// The first stream's failure.
    pub fn run(self) -> Result<Measured, Failure> {
        let (streams, threads) = (usize::from(self.streams), usize::from(self.threads));
        let threads = threads.clamp(1, streams.max(1));
        let shared = Arc::new(Shared {
            start: Barrier::new(streams),
            next: AtomicU64::new(0),
            outcomes: Mutex::new(Vec::with_capacity(streams)),
            server_at_start: Mutex::new(None),
            load: self,
        });
        let of_threads = Arc::clone(&shared);
        let what = || String::from("cannot run the streams");
        Cores::start(threads, move |thread, runtime| {
            let shared = Arc::clone(&of_threads);
            async move {
                let own = (thread..streams).step_by(threads);
                let spawn = |_| {
                    let (shared, runtime) = (Arc::clone(&shared), runtime.clone());
                    tokio::task::spawn_local(async move {
                        let outcome = Arc::clone(&shared).stream(&runtime).await;
                        locked(&shared.outcomes).push(outcome);
                    })
                };
                // A task each: in one task, each wake-up would poll all streams. The first one runs when all are made.
                let tasks: Vec<_> = own.map(spawn).collect();
                for task in tasks {
                    if let Err(error) = task.await {
                        let failure = Failure::new("a stream failed", error);
                        locked(&shared.outcomes).push(Err(failure));
                    }
                }
            }
        })
        .and_then(Cores::join)
        .explain(what)?;
        let cpu_at_end = own_cpu();
        let server_cpu = shared.server_cpu();
        let outcomes = std::mem::take(&mut *locked(&shared.outcomes));
        let measured = merge(outcomes, cpu_at_end)?;
        Ok(Measured {
            server_cpu,
            ..measured
        })
    }
}

fn locked<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn merge(
    outcomes: Vec<Result<Stream, Failure>>,
    cpu_at_end: Duration,
) -> Result<Measured, Failure> {
    let streams = outcomes
        .into_iter()
        .collect::<Result<Vec<Stream>, Failure>>()?;
    let mut latency_ns = histogram()?;
    for stream in &streams {
        latency_ns
            .add(&stream.latency_ns)
            .explain(|| String::from("cannot add up latencies"))?;
    }
    let began = streams.iter().map(|stream| stream.began).min();
    let ended = streams.iter().map(|stream| stream.ended).max();
    let cpu_at_start = streams
        .iter()
        .map(|stream| stream.cpu_at_start)
        .min()
        .unwrap_or(cpu_at_end);
    let seconds = began
        .zip(ended)
        .map_or(0.0, |(began, ended)| (ended - began).as_secs_f64());
    Ok(Measured {
        latency_ns,
        seconds,
        cpu: cpu_at_end.saturating_sub(cpu_at_start),
        server_cpu: None,
        credit_starved: streams.iter().map(|stream| stream.credit_starved).sum(),
        reconnects: streams.iter().map(|stream| stream.reconnects).sum(),
        registration: streams
            .iter()
            .filter_map(|stream| stream.registration)
            .reduce(|one, other| one + other),
        reads: streams
            .iter()
            .filter_map(|stream| stream.reads)
            .reduce(|one, other| ReadCounters {
                data: one.data + other.data,
                attributes: one.attributes + other.attributes,
            }),
        design: streams
            .last()
            .map_or(Design::default(), |stream| stream.design),
    })
}

impl Shared {
    /// Connects, waits for all others to be connected, and works.
    async fn stream(self: Arc<Self>, runtime: &Handle) -> Result<Stream, Failure> {
        let load = &self.load;
        let connected = load.interrupt.until(self.connect(runtime)).await;
        // Every stream arrives here, connected or not; otherwise the barrier would never open.
        if self.start.wait().await.is_leader() {
            *locked(&self.server_at_start) = load.server.and_then(|pid| Usage::of(pid).ok());
        }
        let (session, target, handles) = connected?;
        let session = Rc::new(session);
        let work = Arc::clone(&self).work(Rc::clone(&session), target, handles);
        let (folder, client) = (&load.folder, &load.client);
        let watched = session.watch(runtime, folder, client, Patience::Bounded, work);
        load.interrupt.until(watched).await
    }

    /// The server's processor time since all streams were connected.
    fn server_cpu(&self) -> Option<Duration> {
        let at_start = locked(&self.server_at_start).take()?;
        let now = Usage::of(self.load.server?).ok()?;
        Some(now.since(&at_start))
    }

    /// A session, the file or directory that is worked on, and the handles that `stat` takes in turns.
    async fn connect(
        &self,
        runtime: &Handle,
    ) -> Result<(Session, FileHandle, Vec<FileHandle>), Failure> {
        let load = &self.load;
        let session = Session::connect(runtime, &load.folder, &load.client).await?;
        let url = match load.op {
            BenchOp::Read | BenchOp::Write | BenchOp::Randread => load.folder.child(FILE),
            BenchOp::Null | BenchOp::Stat | BenchOp::Lookup | BenchOp::List | BenchOp::Create => {
                load.folder.clone()
            }
        };
        let target = session.node(&url, Follow::No).await?.handle;
        // Before the start: streams that look names up would delay each other's first operations.
        let handles = self.stat_handles(&session, target).await;
        let handles = handles.explain(|| load.what())?;
        Ok((session, target, handles))
    }

    async fn work(
        self: Arc<Self>,
        session: Rc<Session>,
        target: FileHandle,
        handles: Vec<FileHandle>,
    ) -> Result<Stream, Failure> {
        let load = &self.load;
        let what = || load.what();
        let mut stream = Stream {
            latency_ns: histogram()?,
            began: Instant::now(),
            ended: Instant::now(),
            cpu_at_start: own_cpu(),
            credit_starved: Duration::ZERO,
            reconnects: 0,
            registration: None,
            design: Design::default(),
            reads: None,
        };
        let rpc = session.rpc();
        let starved = || rpc.map_or(Duration::ZERO, gannet_rpc::Client::credit_starved);
        let (starved_at_start, reconnects_at_start) = (starved(), session.reconnects());
        let handles: Rc<[FileHandle]> = handles.into();
        let began = stream.began;
        let lane = || {
            let (session, handles) = (Rc::clone(&session), Rc::clone(&handles));
            Arc::clone(&self).lane(session, target, handles, began)
        };
        if load.in_flight == 1 {
            stream.latency_ns = lane().await?;
        } else {
            let spawn = |_| tokio::task::spawn_local(lane());
            // All at once: a lazy one would begin when the one before it has ended.
            let lanes: Vec<_> = (0..load.in_flight).map(spawn).collect();
            for lane in lanes {
                let latency_ns = lane.await.explain(what)??;
                stream.latency_ns.add(&latency_ns).explain(what)?;
            }
        }
        if load.op == BenchOp::Write {
            session.objects().commit(&target).await.explain(what)?;
        }
        stream.ended = Instant::now();
        stream.credit_starved = starved().saturating_sub(starved_at_start);
        stream.reconnects = session.reconnects() - reconnects_at_start;
        stream.registration = rpc.and_then(gannet_rpc::Client::registration);
        stream.reads = session.volume().map(|volume| ReadCounters {
            data: volume.optimistic_counters(),
            attributes: volume.attribute_counters(),
        });
        stream.design = rpc.map_or(Design::default(), gannet_rpc::Client::design);
        Ok(stream)
    }

    /// Does one operation after the other until the load's end. Returns their latencies.
    async fn lane(
        self: Arc<Self>,
        session: Rc<Session>,
        target: FileHandle,
        handles: Rc<[FileHandle]>,
        began: Instant,
    ) -> Result<Histogram<u64>, Failure> {
        let mut latency_ns = histogram()?;
        let mut memory = Buffer::zeroed(self.load.record as usize);
        loop {
            let started = Instant::now();
            if matches!(self.load.end, LoadEnd::Time(time) if started - began >= time) {
                break;
            }
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if matches!(self.load.end, LoadEnd::Operations(count) if number >= count) {
                break;
            }
            memory = self
                .operate(&session, target, &handles, number, memory)
                .await?;
            let took = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
            latency_ns.saturating_record(took);
        }
        Ok(latency_ns)
    }

    async fn stat_handles(
        &self,
        session: &Session,
        target: FileHandle,
    ) -> Result<Vec<FileHandle>, Error> {
        let mut handles = Vec::new();
        if self.load.op == BenchOp::Stat {
            for number in 0..self.load.files {
                let name = small_file(number);
                let found = session.objects().lookup(&target, name.as_bytes()).await?;
                handles.push(found.handle);
            }
        }
        Ok(handles)
    }

    /// The `number`th operation; gives the memory back.
    async fn operate(
        &self,
        session: &Session,
        target: FileHandle,
        handles: &[FileHandle],
        number: u64,
        memory: Buffer,
    ) -> Result<Buffer, Failure> {
        let what = || self.load.what();
        let (objects, record) = (session.objects(), self.load.record);
        let (offset, memory, count) = match self.load.op {
            BenchOp::Read | BenchOp::Randread => {
                let is_random = self.load.op == BenchOp::Randread;
                let offset = self.offset(if is_random { scatter(number) } else { number });
                let read = objects.read_into(&target, offset, record, memory).await;
                let (read, memory) = read.explain(what)?;
                (offset, memory, read.count)
            }
            BenchOp::Write => {
                let offset = self.offset(number);
                let written = objects.write(&target, offset, memory, record, Stability::Unstable);
                let (written, memory) = written.await.explain(what)?;
                (offset, memory, written.count)
            }
            BenchOp::Null => {
                session.ping().await?;
                return Ok(memory);
            }
            BenchOp::Lookup => {
                let name = small_file(number % self.load.files.max(1));
                let found = objects.lookup(&target, name.as_bytes()).await;
                found.explain(what)?;
                return Ok(memory);
            }
            BenchOp::List => {
                objects.list(&target).await.explain(what)?;
                return Ok(memory);
            }
            BenchOp::Stat => {
                let turn = usize::try_from(number).unwrap_or(0) % handles.len().max(1);
                let handle = handles.get(turn).unwrap_or(&target);
                objects.attributes(handle).await.explain(what)?;
                return Ok(memory);
            }
            BenchOp::Create => {
                // Of this row alone: rows share the directory.
                let name = format!("new-{}-{number}", self.load.streams);
                let how = CreateMode::Unchecked(SetAttributes::default());
                let created = objects.create(&target, name.as_bytes(), &how).await;
                created.explain(what)?;
                return Ok(memory);
            }
        };
        check_moved(what, count, offset, record)?;
        Ok(memory)
    }

    /// Where the `number`th record is: one after the other, from the start again at the end.
    fn offset(&self, number: u64) -> u64 {
        let record = u64::from(self.load.record).max(1);
        number % (self.load.size / record).max(1) * record
    }
}
