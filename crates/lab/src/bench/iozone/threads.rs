//! The threads of a real benchmark: each with a connection, a core's runtime and a file of its own.

use crate::cli::IozoneOp;
use gannet::url::Url;
use gannet_cli::bench::measure::{Interrupt, check_moved, histogram, scatter, thread_cpu};
use gannet_cli::cli::ClientOptions;
use gannet_cli::failure::{Explain, Failure};
use gannet_cli::session::{Patience, Session};
use gannet_client::{Existing, Follow, Transfer, Zeros};
use gannet_rpc::Design;
use gannet_runtime::stages::{self, Parts, Stage, Stopwatch};
use gannet_runtime::tokio_plug::Cores;
use gannet_runtime::{Buffer, Handle};
use gannet_vfs::{FileHandle, Stability};
use hdrhistogram::Histogram;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Barrier;

/// The value of each byte written.
const CONTENT: u8 = 0xa5;

/// A cell of the matrix: all operations with one record size by so many threads.
pub(super) struct Cell {
    /// The bench's own directory.
    pub(super) folder: Url,
    pub(super) ops: Vec<IozoneOp>,
    pub(super) record: u32,
    pub(super) threads: u16,
    /// Records of each file.
    pub(super) records: u64,
    pub(super) stability: Stability,
    pub(super) client: ClientOptions,
    pub(super) interrupt: Interrupt,
}

/// The measurements of one thread during one operation of the matrix.
pub(super) struct Part {
    pub(super) began: Instant,
    /// The time at which the thread finished its file, or saw that another thread had finished.
    pub(super) ended: Instant,
    /// Latencies of the records until then, in nanoseconds.
    pub(super) latency_ns: Histogram<u64>,
    /// Processor time of this thread until then.
    pub(super) cpu: Duration,
    /// Number of records moved, with those after `ended`.
    pub(super) all_ops: u64,
    /// Where the time of those that count went.
    pub(super) parts: Parts,
    /// The design that the server agreed to.
    pub(super) design: Design,
}

/// Hears of the phases of a cell, on the thread of one of its threads, while the others wait.
pub(super) trait Observer: Send + Sync {
    /// All threads are about to start, and do so when this returns.
    ///
    /// # Errors
    /// The threads must not start.
    fn starts(&self) -> Result<(), Failure>;
    /// The first thread has finished, just now.
    fn first_finished(&self);
    /// All threads have finished.
    ///
    /// # Errors
    /// The parts cannot be added up.
    fn finished(&self, op: IozoneOp, parts: Vec<Part>) -> Result<(), Failure>;
}

/// The state that the threads share.
struct Shared {
    cell: Cell,
    observer: Arc<dyn Observer>,
    barrier: Barrier,
    /// One thread is through: what the others do does not count any more.
    is_over: AtomicBool,
    parts: Mutex<Vec<Part>>,
    failure: Mutex<Option<Failure>>,
}

/// Runs all operations of a cell, each by all threads at once.
///
/// # Errors
/// The first failure of a thread.
pub(super) fn run(cell: Cell, observer: Arc<dyn Observer>) -> Result<(), Failure> {
    let threads = usize::from(cell.threads);
    let shared = Arc::new(Shared {
        cell,
        observer,
        barrier: Barrier::new(threads),
        is_over: AtomicBool::new(false),
        parts: Mutex::default(),
        failure: Mutex::default(),
    });
    let of_threads = Arc::clone(&shared);
    Cores::start(threads, move |index, runtime| {
        let shared = Arc::clone(&of_threads);
        async move { shared.thread(index, &runtime).await }
    })
    .and_then(Cores::join)
    .explain(|| String::from("cannot run the threads"))?;
    lock(&shared.failure).take().map_or(Ok(()), Err)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Whatever fails, every thread comes to every barrier, or the others would wait for ever.
    async fn thread(&self, index: usize, runtime: &Handle) {
        let connected = Worker::connect(&self.cell, index, runtime).await;
        let mut worker = self.keep(connected);
        for op in self.cell.ops.iter().copied() {
            if let Some(worker) = &mut worker {
                let prepared = worker
                    .watched(runtime, async |it| it.prepare(op).await)
                    .await;
                self.keep(prepared);
            }
            if self.barrier.wait().await.is_leader() {
                self.is_over.store(false, Ordering::Relaxed);
                self.keep(self.observer.starts());
            }
            self.barrier.wait().await;
            if let Some(worker) = worker.as_mut().filter(|_| lock(&self.failure).is_none()) {
                let part = worker
                    .watched(runtime, async |it| it.work(op, self).await)
                    .await;
                lock(&self.parts).extend(self.keep(part));
            }
            if self.barrier.wait().await.is_leader() {
                let parts = std::mem::take(&mut *lock(&self.parts));
                let is_complete = lock(&self.failure).is_none();
                if is_complete {
                    self.keep(self.observer.finished(op, parts));
                }
            }
            self.barrier.wait().await;
        }
    }

    /// Returns the value, or notes the failure and returns `None`; no thread continues after a failure.
    fn keep<T>(&self, outcome: Result<T, Failure>) -> Option<T> {
        outcome
            .map_err(|failure| {
                self.is_over.store(true, Ordering::Relaxed);
                lock(&self.failure).get_or_insert(failure);
            })
            .ok()
    }
}

/// A thread's connection and file.
struct Worker<'a> {
    cell: &'a Cell,
    index: usize,
    runtime: Handle,
    session: Session,
    url: Url,
    file: Option<FileHandle>,
    memory: Buffer,
}

impl<'a> Worker<'a> {
    async fn connect(
        cell: &'a Cell,
        index: usize,
        runtime: &Handle,
    ) -> Result<Worker<'a>, Failure> {
        let mut memory = Buffer::zeroed(cell.record as usize);
        memory.fill(CONTENT);
        Ok(Worker {
            cell,
            index,
            runtime: Rc::clone(runtime),
            session: Session::connect(runtime, &cell.folder, &cell.client).await?,
            url: cell.folder.child(format!("file-{index}").as_bytes()),
            file: None,
            memory,
        })
    }

    /// Gives up when the server is silent.
    async fn watched<T>(
        &mut self,
        runtime: &Handle,
        work: impl AsyncFnOnce(&mut Worker<'a>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let (session, cell) = (self.session.clone(), self.cell);
        let work = work(self);
        session
            .watch(runtime, &cell.folder, &cell.client, Patience::Bounded, work)
            .await
    }

    /// Makes the file as `op` needs it: new and empty, or complete.
    async fn prepare(&mut self, op: IozoneOp) -> Result<(), Failure> {
        let what = || format!("cannot prepare {}", self.url);
        let files = self.session.files();
        let path = self.session.path_of(&self.url);
        if op == IozoneOp::Write {
            let is_there = self.session.node(&self.url, Follow::No).await.is_ok();
            if is_there {
                files.remove(&path).await.explain(what)?;
            }
        }
        let made = files
            .create(&path, 0o600, Existing::Keep)
            .await
            .explain(what)?;
        self.file = Some(made.handle);
        let len = self.cell.records * u64::from(self.cell.record);
        if op == IozoneOp::Write || made.attributes.size >= len {
            return Ok(());
        }
        let mut writer = files.write_file(&made.handle, Zeros::Write, Transfer::default());
        let mut offset = 0;
        while offset < len {
            self.cell.interrupt.check()?;
            let mut buffer = writer.buffer();
            buffer.fill(CONTENT);
            let left = usize::try_from(len - offset).unwrap_or(usize::MAX);
            let count = left.min(buffer.len());
            writer.write(offset, buffer, count).await.explain(what)?;
            offset += count as u64;
        }
        writer.finish().await.map(|_| ()).explain(what)
    }

    async fn work(&mut self, op: IozoneOp, shared: &Shared) -> Result<Part, Failure> {
        let cpu_before = thread_cpu();
        let began = Instant::now();
        let mut part = Part {
            began,
            ended: began,
            latency_ns: histogram()?,
            cpu: Duration::ZERO,
            all_ops: 0,
            parts: Parts::default(),
            design: Design::default(),
        };
        let mut counts = true;
        for number in 0..self.cell.records {
            self.cell.interrupt.check()?;
            let started = Instant::now();
            let clock = Rc::clone(&self.runtime);
            let watch = Stopwatch::start(&clock, Stage::Protocol, clock.now());
            stages::watched(&watch, self.operate(op, number)).await?;
            let parts = watch.parts();
            part.all_ops += 1;
            if counts && shared.is_over.load(Ordering::Relaxed) {
                counts = false;
                (part.ended, part.cpu) = (Instant::now(), thread_cpu().saturating_sub(cpu_before));
            }
            if counts {
                let nanos = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
                part.latency_ns.saturating_record(nanos);
                part.parts.add_all(&parts);
            } else if op != IozoneOp::Write {
                break;
            }
        }
        if op.is_write() && self.cell.stability == Stability::Unstable {
            self.commit().await?;
        }
        if counts {
            (part.ended, part.cpu) = (Instant::now(), thread_cpu().saturating_sub(cpu_before));
            if !shared.is_over.swap(true, Ordering::Relaxed) {
                shared.observer.first_finished();
            }
        }
        let rpc = self.session.rpc();
        part.design = rpc.map_or_else(Default::default, gannet_rpc::Client::design);
        Ok(part)
    }

    fn handle(&self) -> Result<FileHandle, Failure> {
        let missing = || Failure::new(format!("cannot use {}", self.url), "it was not made");
        self.file.ok_or_else(missing)
    }

    async fn commit(&self) -> Result<(), Failure> {
        let done = self.session.objects().commit(&self.handle()?).await;
        done.map(|_| ())
            .explain(|| format!("cannot commit {}", self.url))
    }

    /// The `number`th record of `op`.
    async fn operate(&mut self, op: IozoneOp, number: u64) -> Result<(), Failure> {
        let what = || format!("{} failed on {}", op.name(), self.url);
        let (objects, file) = (self.session.objects(), self.handle()?);
        let place = if op.is_random() {
            // Threads must not all go the same way.
            scatter(number + ((self.index as u64) << 32)) % self.cell.records
        } else {
            number
        };
        let (offset, record) = (place * u64::from(self.cell.record), self.cell.record);
        let memory = std::mem::take(&mut self.memory);
        let (memory, count) = if op.is_write() {
            let stability = self.cell.stability;
            let writing = objects.write(&file, offset, memory, record, stability);
            let done = writing.await;
            done.map(|(done, memory)| (memory, done.count))
                .explain(what)?
        } else {
            let done = objects.read_into(&file, offset, record, memory).await;
            done.map(|(done, memory)| (memory, done.count))
                .explain(what)?
        };
        self.memory = memory;
        check_moved(what, count, offset, record)
    }
}
