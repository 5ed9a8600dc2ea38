//! One client and one server over everything: NFS on RPC over simulated TCP, software iWARP or the fabric in memory,
//! with faults on, compared with the model after each operation.
//!
//! Safety first: workers do random operations under faults. Then all faults end, and every worker must end in bounded
//! time and find exactly the model's content.

mod nemesis;
mod plan;
pub mod revocation;
mod server;
pub mod volume;
mod worker;

use gannet_sim::Node;
use gannet_sim::TraceDigest;
use gannet_sim::store::{Disk, DiskProfile};
use gannet_sim::{Faults, World};
use gannet_vfs::Verifier;
use plan::Plan;
use server::Machine;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use worker::Worker;

/// How long everything may take once all is healed, in virtual time.
const PROGRESS_TIME_MAX: Duration = Duration::from_secs(900);
/// How long a side may take to give back memory after its connections are closed.
const BALANCE_TIME_MAX: Duration = Duration::from_secs(300);

/// The result of one seed.
#[derive(Debug)]
pub struct Report {
    /// The plan that the seed drew, for people.
    pub plan: String,
    /// The totals of the run, or the text of its failure.
    pub outcome: Result<Summary, String>,
    /// The trace in two numbers.
    pub digest: TraceDigest,
    /// The trace as text, if it was kept.
    pub trace: String,
}

/// The totals of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Summary {
    /// Operations whose replies were checked.
    pub operations: u64,
    /// Operations that programs did through a mounted volume.
    pub mounted: u64,
    /// Changes that programs saw by descriptors that were open before.
    pub seen_again: u64,
    /// Operations without a reply.
    pub unanswered: u64,
    /// Faults that were injected.
    pub faults: u64,
    /// Virtual nanoseconds from the start to the end of the run.
    pub elapsed_ns: u64,
    /// Reads by clients of a volume without a request to a server.
    pub reads: ReadsSummary,
}

/// Totals of the reads by clients of a volume without a request to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReadsSummary {
    /// Reads of bytes by references.
    pub optimistic: u64,
    /// Reads that were refused, for any reason.
    pub refused: u64,
    /// Reads that were refused because the key was not valid any more.
    pub refused_keys: u64,
    /// Blocks that a client had itself.
    pub cached: u64,
    /// Reads of attributes by references.
    pub attributes: u64,
    /// Reads of attributes that found none, or another file's.
    pub stale_attributes: u64,
}

impl ReadsSummary {
    /// Adds the totals of another simulation.
    pub fn add(&mut self, other: &ReadsSummary) {
        self.optimistic += other.optimistic;
        self.refused += other.refused;
        self.refused_keys += other.refused_keys;
        self.cached += other.cached;
        self.attributes += other.attributes;
        self.stale_attributes += other.stale_attributes;
    }

    /// True if every outcome of such a read occurred.
    pub fn has_all(&self) -> bool {
        let ReadsSummary {
            optimistic,
            refused,
            refused_keys,
            cached,
            attributes,
            stale_attributes,
        } = *self;
        // Some were refused for their pages and some for their keys.
        let counts = [optimistic, refused - refused_keys, refused_keys, cached];
        counts
            .into_iter()
            .chain([attributes, stale_attributes])
            .all(|count| count > 0)
    }
}

/// Runs the scenario of `seed`.
pub fn run(seed: u64, keep_trace: bool) -> Report {
    let world = if keep_trace {
        World::traced(seed)
    } else {
        World::new(seed)
    };
    let plan = Plan::draw(&world.random("plan"));
    world.set_links(plan.links);
    let stage = Rc::new(Stage::build(&world, plan.clone()));
    let outcome = match world.run(play(Rc::clone(&stage))) {
        Ok(Ok(())) => Ok(Summary {
            elapsed_ns: world.now_ns(),
            ..stage.summary.get()
        }),
        Ok(Err(why)) => Err(format!("{why}\n{}", world.report())),
        Err(stopped) => Err(stopped.to_string()),
    };
    Report {
        plan: format!("{plan:?}"),
        outcome,
        digest: world.trace_digest(),
        trace: world.trace_text(),
    }
}

/// The state that the tasks of a run share.
struct Stage {
    plan: Plan,
    faults: Faults,
    disk: Rc<Disk>,
    client: Node,
    server: Machine,
    /// Odd while the server is up; a crash and a restart each add one.
    incarnation: Cell<u64>,
    verifiers: RefCell<BTreeMap<u64, Verifier>>,
    /// Faults are over.
    healed: Cell<bool>,
    /// Workers that have not come to their end.
    busy: Cell<usize>,
    failure: RefCell<Option<String>>,
    summary: Cell<Summary>,
}

impl Stage {
    fn build(world: &World, plan: Plan) -> Stage {
        let disk = Disk::new(world);
        disk.set_profile(plan.disk);
        let (client, server) = (world.add_node("client"), world.add_node("server"));
        Stage {
            faults: world.faults(),
            server: Machine::new(world, server, &plan),
            busy: Cell::new(plan.workers),
            plan,
            disk,
            client,
            incarnation: Cell::new(0),
            verifiers: RefCell::default(),
            healed: Cell::new(false),
            failure: RefCell::default(),
            summary: Cell::default(),
        }
    }

    fn start_server(&self) {
        self.server.start(&self.disk);
        self.incarnation.set(self.incarnation.get() + 1);
    }

    fn count(&self, change: impl FnOnce(&mut Summary)) {
        let mut summary = self.summary.get();
        change(&mut summary);
        self.summary.set(summary);
    }

    fn fail(&self, why: String) {
        self.faults.note(format_args!("failure: {why}"));
        self.failure.borrow_mut().get_or_insert(why);
    }

    fn failed(&self) -> Option<String> {
        self.failure.borrow().clone()
    }
}

/// The main task: safety, then progress, then balance.
async fn play(stage: Rc<Stage>) -> Result<(), String> {
    stage.start_server();
    let fabric = stage.server.provider(&stage.client);
    for number in 0..stage.plan.workers {
        let worker = Worker::new(Rc::clone(&stage), number, fabric.clone());
        let task = Rc::clone(&stage);
        let run = async move {
            if let Err(why) = worker.run().await {
                task.fail(format!("worker {number}: {why}"));
            }
            task.busy.set(task.busy.get() - 1);
        };
        stage.client.runtime().spawn("worker", Box::pin(run));
    }
    nemesis::torment(&stage).await;
    heal(&stage);
    let deadline = stage.faults.now_ns() + nanoseconds(PROGRESS_TIME_MAX);
    while stage.busy.get() > 0 {
        if let Some(why) = stage.failed() {
            return Err(why);
        }
        if stage.faults.now_ns() > deadline {
            return Err(format!(
                "no progress: {} workers hang after healing",
                stage.busy.get()
            ));
        }
        stage.faults.sleep(Duration::from_millis(10)).await;
    }
    if let Some(why) = stage.failed() {
        return Err(why);
    }
    balance(&stage, fabric.as_deref()).await
}

fn heal(stage: &Stage) {
    stage.faults.heal(stage.client.id(), stage.server.id());
    if stage.incarnation.get().is_multiple_of(2) {
        stage.faults.restart(stage.server.id());
        stage.start_server();
    }
    let slow = stage.plan.disk.slow_per_mille;
    stage.disk.set_profile(DiskProfile {
        slow_per_mille: slow,
        delay_max_ns: stage.plan.disk.delay_max_ns.min(1_000_000),
        ..DiskProfile::default()
    });
    stage.server.heal_fabric();
    stage.faults.note(format_args!("healed"));
    stage.healed.set(true);
}

/// The client closed everything: no region may be left in its domain.
async fn balance(
    stage: &Stage,
    provider: Option<&dyn gannet_fabric::Provider>,
) -> Result<(), String> {
    let Some(provider) = provider else {
        return Ok(());
    };
    let deadline = stage.faults.now_ns() + nanoseconds(BALANCE_TIME_MAX);
    loop {
        let stats = provider.domain().stats();
        let left = stats.registrations - stats.deregistrations;
        if left == 0 && stats.bytes_registered == 0 {
            return Ok(());
        }
        if stage.faults.now_ns() > deadline {
            return Err(format!("{left} regions of the client are never given back"));
        }
        stage.faults.sleep(Duration::from_millis(100)).await;
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
