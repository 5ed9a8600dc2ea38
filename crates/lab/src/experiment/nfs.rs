//! A benchmark on a simulated testbed, as IOzone's throughput mode makes it: threads, each with a file of its own, read
//! or write it record by record with direct I/O, again and again, for a while.

use super::testbed::{Machine, Testbed};
use super::{Failure, Transport};
use crate::limits::{CLIENTS_MAX, THREADS_MAX};
use gannet_fabric::registration::{Counters, Registration};
use gannet_nfs::client::Client;
use gannet_rpc::Design;
use gannet_runtime::all;
use gannet_runtime::{Buffer, LocalFuture};
use gannet_sim::Random;
use gannet_sim::World;
use gannet_sim::nic::{Activity, Host, Profile, Spent, Usage};
use gannet_vfs::{CreateMode, FileHandle, SetAttributes, Stability};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

/// The operation of each thread on its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Reads it from its start to its end.
    Read,
    /// Writes it from its start to its end.
    Write,
    /// Reads records at random.
    RandomRead,
    /// Writes records at random.
    RandomWrite,
}

impl Operation {
    /// Data goes to the server.
    pub fn is_write(self) -> bool {
        matches!(self, Operation::Write | Operation::RandomWrite)
    }
}

/// A load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Workload {
    /// The operation of each thread.
    pub operation: Operation,
    /// The transport of the calls.
    pub transport: Transport,
    /// Client machines; the threads of one share its mount.
    pub clients: usize,
    /// Threads of each client.
    pub threads: usize,
    /// Bytes of a record.
    pub record_len: u32,
    /// Bytes of each thread's file.
    pub file_len: u64,
    /// Copies that a client makes of each record between the memory of its transfers and the application's.
    pub copies: u32,
    /// The end that moves the data of READ.
    pub design: Design,
    /// How the server makes the memory of its transfers reachable.
    pub server: Registration,
    /// How the clients make theirs.
    pub client: Registration,
    /// How durable a WRITE asks to be.
    pub stability: Stability,
    /// Virtual time before anything is counted.
    pub warm_up: Duration,
    /// Virtual time that is measured.
    pub time: Duration,
    /// Seed of the world.
    pub seed: u64,
}

impl Default for Workload {
    /// One thread that reads records of 128 KiB for a tenth of a second.
    fn default() -> Workload {
        Workload {
            operation: Operation::Read,
            transport: Transport::Rdma,
            clients: 1,
            threads: 1,
            record_len: 128 << 10,
            file_len: 8 << 20,
            copies: 0,
            design: Design::default(),
            server: Registration::default(),
            client: Registration::default(),
            stability: Stability::FileSync,
            // A server grants a connection its credits reply by reply: by then it has all.
            warm_up: Duration::from_millis(50),
            time: Duration::from_millis(100),
            seed: 1,
        }
    }
}

impl Workload {
    fn check(&self) -> Result<(), Failure> {
        let Workload {
            clients, threads, ..
        } = *self;
        if !(1..=CLIENTS_MAX).contains(&clients) || !(1..=THREADS_MAX).contains(&threads) {
            return Err(Failure::Workload("too few or too many clients or threads"));
        }
        if self.record_len == 0 || u64::from(self.record_len) > self.file_len {
            return Err(Failure::Workload(
                "a record is empty or longer than the file",
            ));
        }
        if self.time.is_zero() {
            return Err(Failure::Workload("no time is measured"));
        }
        Ok(())
    }
}

/// The result of a workload.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outcome {
    /// Records that were read or written in the time measured.
    pub operations: u64,
    /// Megabytes (10^6) per second.
    pub mb_per_s: f64,
    /// Records per second.
    pub operations_per_s: f64,
    /// Mean time of a record, as its thread saw it.
    pub mean_latency_ns: f64,
    /// Half of the records took at most so long.
    pub p50_latency_ns: u64,
    /// 99 of 100 records took at most so long.
    pub p99_latency_ns: u64,
    /// Share of the clients' processor time that was used, from 0 to 1.
    pub client_cpu: f64,
    /// The same of the server.
    pub server_cpu: f64,
    /// The counters of the first client's strategy since its mount; 0 over TCP.
    pub client_registration: Counters,
    /// The counters of the server's strategy.
    pub server_registration: Counters,
    /// The parts of the clients' time, all of them together.
    pub client_usage: Usage,
    /// The parts of the server's time.
    pub server_usage: Usage,
}

impl Outcome {
    /// Busy and waiting nanoseconds per record that a side spent on an activity.
    pub fn per_operation(&self, side: &Usage, activity: Activity) -> (f64, f64) {
        let Spent { busy_ns, waited_ns } = side.of(activity);
        (self.each(busy_ns), self.each(waited_ns))
    }

    /// So much of `total` falls to a record.
    #[allow(clippy::cast_precision_loss)] // a mean
    pub fn each(&self, total: u64) -> f64 {
        total as f64 / self.operations.max(1) as f64
    }
}

/// Runs `workload` on `profile`'s machines.
///
/// # Errors
/// See [`Failure`].
pub fn run(profile: &Profile, workload: &Workload) -> Result<Outcome, Failure> {
    workload.check()?;
    let world = World::new(workload.seed);
    let testbed = Testbed::build(&world, profile, workload);
    let (random, workload) = (world.random("offsets"), *workload);
    world.run(async move { play(&testbed, &workload, &random).await })?
}

/// The state that the threads of a run share.
struct Stage {
    workload: Workload,
    counted: Cell<Counted>,
    /// The latency of each record since the start, in nanoseconds.
    latencies_ns: RefCell<Vec<u64>>,
    failure: RefCell<Option<Failure>>,
}

#[derive(Clone, Copy, Default)]
struct Counted {
    operations: u64,
    latency_ns: u64,
}

async fn play(testbed: &Testbed, workload: &Workload, random: &Random) -> Result<Outcome, Failure> {
    let stage = Rc::new(Stage {
        workload: *workload,
        counted: Cell::default(),
        latencies_ns: RefCell::default(),
        failure: RefCell::default(),
    });
    let mut number = 0;
    let mut mounts = Vec::new();
    for machine in &testbed.clients {
        let client = testbed.mount(machine, workload);
        mounts.push(client.clone());
        let root = client.mount(b"/").await?;
        for _ in 0..workload.threads {
            let random = random.fork(&format!("thread {number}"));
            let file = make_file(&client, &root, number, workload.file_len).await?;
            number += 1;
            start_thread(&stage, machine, client.clone(), file, random);
        }
    }
    let runtime = testbed.server.node.runtime();
    gannet_runtime::sleep(&runtime, workload.warm_up).await;
    let before = Sample::take(testbed, &stage);
    gannet_runtime::sleep(&runtime, workload.time).await;
    let after = Sample::take(testbed, &stage);
    let already = usize::try_from(before.counted.operations).unwrap_or(usize::MAX);
    let latency_ns = percentiles(stage.latencies_ns.borrow().iter().skip(already));
    match stage.failure.take() {
        Some(failure) => Err(failure),
        None => {
            let of_first = mounts.first().and_then(|mount| mount.rpc().registration());
            let of_server = testbed.service.registrations();
            Ok(Outcome {
                p50_latency_ns: latency_ns[0],
                p99_latency_ns: latency_ns[1],
                client_registration: of_first.unwrap_or_default(),
                server_registration: of_server.first().copied().unwrap_or_default(),
                ..outcome(testbed, workload, &before, &after)
            })
        }
    }
}

async fn make_file(
    client: &Client,
    root: &FileHandle,
    number: usize,
    len: u64,
) -> Result<FileHandle, Failure> {
    let attributes = SetAttributes {
        mode: Some(0o600),
        ..SetAttributes::default()
    };
    let name = format!("file-{number}");
    let mode = CreateMode::Unchecked(attributes);
    let made = client.create(root, name.as_bytes(), &mode).await?;
    let size = SetAttributes {
        size: Some(len),
        ..SetAttributes::default()
    };
    client.setattr(&made.handle, &size, None).await?;
    Ok(made.handle)
}

fn start_thread(
    stage: &Rc<Stage>,
    machine: &Machine,
    client: Client,
    file: FileHandle,
    random: Random,
) {
    let thread = Thread {
        stage: Rc::clone(stage),
        host: Rc::clone(&machine.host),
        client,
        file,
        random,
        position: 0,
        memory: Vec::new(),
    };
    let task = async move {
        let stage = Rc::clone(&thread.stage);
        if let Err(failure) = thread.run().await {
            stage.failure.borrow_mut().get_or_insert(failure);
        }
    };
    machine.node.runtime().spawn("thread", Box::pin(task));
}

/// One thread of the benchmark.
struct Thread {
    stage: Rc<Stage>,
    host: Rc<Host>,
    client: Client,
    file: FileHandle,
    random: Random,
    /// Where the next record starts.
    position: u64,
    /// The application's memory, in pieces of one call each.
    memory: Vec<Buffer>,
}

impl Thread {
    /// Goes on until the world ends.
    async fn run(mut self) -> Result<(), Failure> {
        let machine = self.host.profile().machine;
        loop {
            let start = self.host.now();
            // Not always the same time: threads in lockstep would all wait for each other and then all think.
            let time = self
                .random
                .between(0, 2 * machine.client_operation_ns.value);
            self.host.work(Activity::Protocol, time, 0).await;
            let offset = self.next_offset();
            let call_max = machine.transfer_bytes.value;
            self.move_record(offset, call_max).await?;
            let workload = &self.stage.workload;
            let copied = u64::from(workload.copies) * u64::from(workload.record_len);
            let time = machine.copy_bytes_per_s.time_for(copied);
            self.host.work(Activity::Copy, 0, time).await;
            let mut counted = self.stage.counted.get();
            let latency_ns = self.host.now() - start;
            counted.operations += 1;
            counted.latency_ns += latency_ns;
            self.stage.counted.set(counted);
            self.stage.latencies_ns.borrow_mut().push(latency_ns);
        }
    }

    fn next_offset(&mut self) -> u64 {
        let workload = &self.stage.workload;
        let record = u64::from(workload.record_len);
        let records = (workload.file_len / record).max(1);
        let number = match workload.operation {
            Operation::RandomRead | Operation::RandomWrite => self.random.below(records),
            Operation::Read | Operation::Write => self.position % records,
        };
        self.position += 1;
        number * record
    }

    /// Reads or writes a record, in as many calls at once as the client's limit makes of it.
    async fn move_record(&mut self, offset: u64, call_max: u64) -> Result<(), Failure> {
        let mut calls: Vec<LocalFuture<Result<Buffer, Failure>>> = Vec::new();
        let mut left = self.stage.workload.record_len;
        let mut at = offset;
        while left > 0 {
            let len = left.min(u32::try_from(call_max).unwrap_or(u32::MAX)).max(1);
            let memory = self.memory.pop();
            let memory = memory.filter(|memory| memory.len() == len as usize);
            let memory = memory.unwrap_or_else(|| Buffer::zeroed(len as usize));
            calls.push(Box::pin(call(
                self.client.clone(),
                self.stage.workload,
                self.file,
                at,
                memory,
            )));
            at += u64::from(len);
            left -= len;
        }
        for memory in all(calls).await {
            self.memory.push(memory?);
        }
        // The first call takes the first piece again: the last one may be shorter.
        self.memory.reverse();
        Ok(())
    }
}

/// One READ or WRITE of all of `memory`, which comes back.
async fn call(
    client: Client,
    workload: Workload,
    file: FileHandle,
    offset: u64,
    memory: Buffer,
) -> Result<Buffer, Failure> {
    let len = u32::try_from(memory.len()).unwrap_or(u32::MAX);
    let (memory, count) = if workload.operation.is_write() {
        let stability = workload.stability;
        let done = client.write(&file, offset, memory, len, stability).await?;
        (done.buffer, done.count)
    } else {
        let done = client.read(&file, offset, len, memory).await?;
        (done.buffer, done.count)
    };
    if count != len {
        let what = format!("{count} of {len} bytes at {offset} were moved");
        return Err(Failure::Operation(what));
    }
    Ok(memory)
}

/// The counts up to some moment.
struct Sample {
    at_ns: u64,
    counted: Counted,
    clients: Vec<Usage>,
    server: Usage,
}

impl Sample {
    fn take(testbed: &Testbed, stage: &Stage) -> Sample {
        let clients = testbed.clients.iter();
        Sample {
            at_ns: testbed.server.host.now(),
            counted: stage.counted.get(),
            clients: clients.map(|machine| machine.host.usage()).collect(),
            server: testbed.server.host.usage(),
        }
    }
}

/// The 50th and the 99th; 0 of nothing.
fn percentiles<'a>(latencies_ns: impl Iterator<Item = &'a u64>) -> [u64; 2] {
    let mut sorted: Vec<u64> = latencies_ns.copied().collect();
    sorted.sort_unstable();
    [50, 99].map(|percent| {
        let rank = (sorted.len() * percent).div_ceil(100).max(1);
        sorted.get(rank - 1).copied().unwrap_or(0)
    })
}

#[allow(clippy::cast_precision_loss)] // rates and shares
fn outcome(testbed: &Testbed, workload: &Workload, before: &Sample, after: &Sample) -> Outcome {
    let period_ns = (after.at_ns - before.at_ns).max(1) as f64;
    let seconds = period_ns / 1e9;
    let operations = after.counted.operations - before.counted.operations;
    let latency_ns = after.counted.latency_ns - before.counted.latency_ns;
    let pairs = after.clients.iter().zip(&before.clients);
    let client_usage = pairs.map(|(after, before)| *after - *before).sum::<Usage>();
    let server_usage = after.server - before.server;
    let cpus = testbed.server.host.profile().machine.cpus.value as f64;
    let share =
        |cpu_ns: u64, machines: usize| cpu_ns as f64 / (period_ns * cpus * machines.max(1) as f64);
    let bytes = operations as f64 * f64::from(workload.record_len);
    Outcome {
        operations,
        mb_per_s: bytes / 1e6 / seconds,
        operations_per_s: operations as f64 / seconds,
        mean_latency_ns: latency_ns as f64 / operations.max(1) as f64,
        p50_latency_ns: 0,
        p99_latency_ns: 0,
        client_cpu: share(client_usage.cpu_ns, testbed.clients.len()),
        server_cpu: share(server_usage.cpu_ns, 1),
        client_registration: Counters::default(),
        server_registration: Counters::default(),
        client_usage,
        server_usage,
    }
}
