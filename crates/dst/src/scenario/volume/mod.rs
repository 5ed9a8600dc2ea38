//! Many clients on a volume, compared with a model after each operation. Meanwhile every role of the volume crashes at
//! any moment, connections and networks break, and disks are full and slow.
//!
//! A name belongs to one worker at a time, which decides its content: any later client must find what the last worker
//! left. A client that crashes leaves its operation half done; its next incarnation repeats it. In the end all faults
//! are healed. Every worker must finish, every client must find the same contents, and removed files must leave no
//! objects behind. Servers start in any order, and I/O servers come back at other ports.
//!
//! In some simulations faults last longer than leases of locks, capabilities, and deadlines of operations and calls.
//! Machines are then cut off from all others, or stand still for a while and go on. No operation takes longer than a
//! client tries it, no lock is granted to two clients, and no acknowledged change is lost.
//!
//! On some machines the volume is mounted: workers there are programs, which open, write, sync and close files through
//! the mount's core (`gannet_fuse::headless`), above a model of the kernel's cache. Changes that a reply reported as
//! durable must survive every fault. Programs keep files open while workers of other machines change them. A program
//! must see such a change at the next open or lock, or when its attributes are too old.
//! Other machines mount it from an NFS server that is a client of the volume and crashes now and then, too.

mod gateway;
mod locked;
mod nemesis;
mod past;
mod reads;
mod worker;

use super::{Report, Summary, nanoseconds};
use crate::volume::{Bed, Carrier};
use gannet_fuse::headless::Headless;
use gannet_fuse::limits::KeptBounds;
use gannet_fuse::{Caching, Closing, Locks, MountOptions};
use gannet_sim::LinkProfile;
use gannet_sim::Node;
use gannet_sim::Random;
use gannet_sim::fabric::{FabricProfile, SimFabric};
use gannet_sim::store::DiskProfile;
use gannet_sim::{Faults, World};
use gannet_vfs::{Credentials, Vfs};
use gannet_volume::client::{TransferPolicy, VolumeFs};
use gateway::Gateway;
use locked::LocksHeld;
use past::Past;
use reads::Reads;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use worker::{Mount, Seat, Worker};

/// How long everything may take once all is healed, in virtual time.
const PROGRESS_TIME_MAX: Duration = Duration::from_secs(900);
/// How long objects of removed files may stay: those that a late write made again are removed by the second removal.
/// How long the members of groups may take until all have all bytes.
const FILLING_TIME_MAX: Duration = Duration::from_secs(120);
const REMOVAL_TIME_MAX: Duration = Duration::from_secs(240);
/// How long mounts by NFS wait for a reply. An abandoned WRITE may be done after later requests, since NFS has no order
/// between requests. Only a mount that waits for every reply (`hard`) avoids that.
const NFS_PATIENCE: Duration = PROGRESS_TIME_MAX;
/// The age up to which mounts trust attributes.
const CACHE_AGE: Duration = Duration::from_secs(1);
/// The number of names that files may have.
const NAMES: usize = 6;
/// Bytes of a stripe.
const UNIT: u32 = 4096;

/// The choices of a seed before the run.
#[derive(Debug, Clone)]
struct Plan {
    iwarp: bool,
    servers: usize,
    /// Groups of servers have two members each.
    copies: bool,
    clients: usize,
    workers: usize,
    /// Operations of each worker.
    operations: usize,
    /// Faults that the nemesis injects.
    events: u64,
    links: LinkProfile,
    disk: DiskProfile,
    /// Disks are full now and then.
    full: bool,
    fabric: FabricProfile,
    /// Clients move long transfers themselves.
    client_driven: bool,
    /// Some clients have the volume mounted.
    mounts: Option<Mounts>,
    /// Some faults last longer than leases, capabilities and deadlines do.
    long_faults: bool,
    reads: Reads,
}

/// How some clients have the volume mounted.
#[derive(Debug, Clone)]
struct Mounts {
    /// The protocol of each client's mount, if it has one.
    clients: Vec<Option<Face>>,
    /// Mounts by NFS use RDMA.
    export_rdma: bool,
    caching: Caching,
    deadline: Duration,
    bounds: KeptBounds,
}

/// The protocol of a mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Face {
    Volume,
    Nfs,
}

impl Mounts {
    /// Draws the mounts of `clients` clients. Bounds are so small that single files reach them.
    fn draw(random: &Random, clients: usize) -> Mounts {
        let commit_ahead = random.between(1, 60_000);
        let file_max = commit_ahead + random.below(100_000);
        Mounts {
            clients: (0..clients).map(|_| Face::draw(random)).collect(),
            export_rdma: random.chance(500),
            caching: if random.chance(330) {
                Caching::Direct
            } else {
                Caching::Cached
            },
            deadline: Duration::from_secs([1, 10, 60, 60][random.index(4)]),
            bounds: KeptBounds {
                commit_ahead,
                file_max,
                all_max: file_max + random.below(60_000),
            },
        }
    }

    fn options(&self, face: Face) -> MountOptions {
        MountOptions {
            source: String::from("volume"),
            caching: self.caching,
            read_only: false,
            no_exec: false,
            allow_other: false,
            caller: Some(Credentials::new(0, 0, &[])),
            cache_age: CACHE_AGE,
            locks: Locks::Local,
            closing: Closing::Sync,
            deadline: match face {
                Face::Volume => self.deadline,
                Face::Nfs => NFS_PATIENCE,
            },
        }
    }
}

impl Face {
    /// Draws the protocol of a client's mount, if it has the volume mounted.
    fn draw(random: &Random) -> Option<Face> {
        let is_mounted = random.chance(600);
        is_mounted.then(|| {
            if random.chance(400) {
                Face::Nfs
            } else {
                Face::Volume
            }
        })
    }
}

impl Plan {
    fn draw(random: &Random) -> Plan {
        let clients = random.index(4) + 1;
        let reads = Reads::draw(&random.fork("reads"), clients);
        let (iwarp, servers) = (random.chance(300), random.index(5) + 1);
        let copies = random.fork("copies").chance(500);
        let mut plan = Plan {
            iwarp,
            servers,
            copies: copies && servers.is_multiple_of(2),
            clients,
            workers: clients + random.index(3),
            operations: 30 + random.index(70),
            events: random.below(40),
            links: super::plan::links(random),
            disk: DiskProfile {
                slow_per_mille: random.below(200),
                delay_max_ns: random.between(10_000, 50_000_000),
                short_writes_per_mille: random.below(50),
                evictions_per_mille: random.below(100),
                io_errors_per_mille: if random.chance(300) { 10 } else { 0 },
                ..DiskProfile::default()
            },
            full: random.chance(500),
            fabric: FabricProfile {
                survivable_exceptions: reads.exceptions,
                device: reads.device,
                registration_failures_per_mille: reads.registration_failures_per_mille,
                segment_len: [1448, 16 << 10, 64 << 10][random.index(3)],
                resets_per_million: random.below(2) * 300,
                connect_failures_per_mille: random.below(2) * 100,
                ..FabricProfile::default()
            },
            client_driven: random.chance(400),
            mounts: None,
            long_faults: random.chance(400),
            reads,
        };
        if random.chance(500) {
            plan.mounts = Some(Mounts::draw(random, clients));
            plan.events += 30;
            // COMMITs that take their time have writes beside them.
            plan.disk.slow_per_mille = random.below(1000);
        }
        plan
    }

    /// True if kernels cache pages of files.
    fn has_pages(&self) -> bool {
        let mounts = self.mounts.as_ref();
        mounts.is_some_and(|mounts| mounts.caching == Caching::Cached)
    }

    /// True if kernels cache pages of files that come by NFS, which tells changes by length and time alone.
    fn has_pages_by_nfs(&self) -> bool {
        let mounts = self.mounts.iter().flat_map(|mounts| &mounts.clients);
        self.has_pages() && mounts.flatten().any(|face| *face == Face::Nfs)
    }

    fn policy(&self) -> TransferPolicy {
        let usual = TransferPolicy::default();
        if self.client_driven {
            TransferPolicy {
                eager_max: usual.inline_max,
                client_driven: true,
                ..usual
            }
        } else {
            usual
        }
    }
}

/// The state that the tasks of a run share.
struct Stage {
    plan: Plan,
    faults: Faults,
    /// The fabric in memory, if that carries the volume.
    fabric: Option<Rc<SimFabric>>,
    bed: Bed,
    clients: Vec<Node>,
    /// The NFS server over the volume, if a client mounts it so.
    gateway: Option<Gateway>,
    /// The contents of the files of the root directory, by the numbers of their names.
    model: [RefCell<Option<Vec<u8>>>; NAMES],
    /// A number for the file of each name, which goes with it to other names.
    identities: [Cell<u64>; NAMES],
    last_identity: Cell<u64>,
    /// True for a name that one worker uses alone.
    taken: [Cell<bool>; NAMES],
    /// How often a worker took each name.
    turns: [Cell<u64>; NAMES],
    /// Former contents of files.
    past: Past,
    /// The modes of files, where they are known.
    modes: [Cell<Option<u32>>; NAMES],
    seats: Vec<Seat>,
    locks: LocksHeld,
    /// How often machines were made to stand still, or to go on.
    freezes: Cell<u64>,
    /// An I/O server is to die just now.
    strike: Cell<bool>,
    healed: Cell<bool>,
    failure: RefCell<Option<String>>,
    summary: Cell<Summary>,
}

/// Runs the scenario of `seed`.
pub fn run(seed: u64, keep_trace: bool) -> Report {
    run_plan(seed, keep_trace, Plan::draw)
}

/// As [`run`], of a volume that keeps all data twice, with more faults of I/O servers.
pub fn run_with_copies(seed: u64, keep_trace: bool) -> Report {
    run_plan(seed, keep_trace, |random| {
        let plan = Plan::draw(random);
        Plan {
            servers: [2, 4][random.fork("servers").index(2)],
            copies: true,
            events: plan.events + 20,
            ..plan
        }
    })
}

fn run_plan(seed: u64, keep_trace: bool, draw: impl FnOnce(&Random) -> Plan) -> Report {
    let world = if keep_trace {
        World::traced(seed)
    } else {
        World::new(seed)
    };
    let plan = draw(&world.random("volume"));
    world.set_links(plan.links);
    let stage = Rc::new(Stage::build(&world, plan.clone()));
    let random = world.random("volume faults");
    let outcome = match world.run(play(Rc::clone(&stage), random)) {
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

impl Stage {
    fn build(world: &World, plan: Plan) -> Stage {
        let fabric = (!plan.iwarp).then(|| SimFabric::new(world, plan.fabric));
        let carrier = match &fabric {
            Some(fabric) => Carrier::Memory(Rc::clone(fabric)),
            None => Carrier::iwarp(),
        };
        let bed = if plan.copies {
            let copies = Some(gannet_wire::volume::Copies::Two);
            Bed::with_groups(world, carrier, plan.servers, UNIT, copies)
        } else {
            Bed::new(world, carrier, plan.servers, UNIT)
        };
        for io_server in &bed.io_servers {
            io_server.disk.set_profile(plan.disk);
        }
        let random = world.random("workers");
        let seats = (0..plan.workers).map(|number| {
            let random = random.fork(&format!("worker {number}"));
            Seat::new(random, number % plan.clients, plan.operations)
        });
        let plan_workers = plan.workers;
        let mounts = plan.mounts.as_ref();
        let exported = mounts.filter(|it| it.clients.contains(&Some(Face::Nfs)));
        Stage {
            gateway: exported.map(|mounts| Gateway {
                node: world.add_node("gateway"),
                rdma: mounts.export_rdma,
            }),
            seats: seats.collect(),
            clients: (0..plan.clients)
                .map(|_| world.add_node("client"))
                .collect(),
            faults: world.faults(),
            fabric,
            bed,
            plan,
            model: Default::default(),
            identities: Default::default(),
            last_identity: Cell::default(),
            taken: Default::default(),
            turns: Default::default(),
            past: Past::new(plan_workers),
            modes: Default::default(),
            locks: LocksHeld::default(),
            freezes: Cell::default(),
            strike: Cell::default(),
            healed: Cell::default(),
            failure: RefCell::default(),
            summary: Cell::default(),
        }
    }

    fn fail(&self, why: String) {
        self.faults.note(format_args!("failure: {why}"));
        self.failure.borrow_mut().get_or_insert(why);
    }

    fn take(&self, name: usize) {
        self.taken[name].set(true);
        self.turns[name].set(self.turns[name].get() + 1);
    }

    /// Gives a name the identity of another file, or of none.
    fn renew_identity(&self, name: usize) {
        self.last_identity.set(self.last_identity.get() + 1);
        self.identities[name].set(self.last_identity.get());
    }

    fn failed(&self) -> Option<String> {
        self.failure.borrow().clone()
    }

    fn count(&self, change: impl FnOnce(&mut Summary)) {
        let mut summary = self.summary.get();
        change(&mut summary);
        self.summary.set(summary);
    }

    /// Starts the workers of a client, at its start and after a crash.
    fn start_client(self: &Rc<Self>, client: usize) {
        let stage = Rc::clone(self);
        let sit = async move {
            let mount = stage.mount(client).await;
            let numbers = 0..stage.seats.len();
            let own = numbers.filter(|number| stage.seats[*number].client == client);
            own.for_each(|number| stage.start_worker(number, mount.clone()));
        };
        let runtime = self.clients[client].runtime();
        runtime.spawn("client", Box::pin(sit));
    }

    fn start_worker(self: &Rc<Self>, number: usize, mount: Option<Rc<Mount>>) {
        let client = self.seats[number].client;
        let (stage, node) = (Rc::clone(self), &self.clients[client]);
        let worker = Worker::new(Rc::clone(self), number, self.connect(client)).through(mount);
        let task = async move {
            if let Err(why) = worker.run().await {
                stage.fail(format!("worker {number}: {why}"));
            }
        };
        node.runtime().spawn("worker", Box::pin(task));
    }
}

impl Stage {
    /// One more client of the volume on that client's machine.
    fn connect(&self, client: usize) -> VolumeFs {
        let fs = self.bed.mount(&self.clients[client]);
        let fs = fs.with_policy(self.plan.policy());
        fs.with_reads(self.plan.reads.options(client))
    }

    /// The mount that a client's workers share, if it has the volume mounted.
    async fn mount(&self, client: usize) -> Option<Rc<Mount>> {
        let mounts = self.plan.mounts.as_ref()?;
        let face = mounts.clients.get(client).copied().flatten()?;
        let (node, options) = (&self.clients[client], mounts.options(face));
        let (runtime, bounds) = (node.runtime(), mounts.bounds);
        let mount = match (face, &self.gateway) {
            (Face::Nfs, Some(gateway)) => {
                let (store, root) = gateway.mount(self, node).await;
                Mount::Export(Headless::new(&runtime, store, root, options, bounds))
            }
            _ => {
                let fs = self.connect(client);
                let root = fs.root();
                Mount::Volume(Headless::new(&runtime, fs, root, options, bounds))
            }
        };
        Some(Rc::new(mount))
    }
}

/// The main task: safety, then progress, then the check for left-over objects.
async fn play(stage: Rc<Stage>, random: Random) -> Result<(), String> {
    stage.gateway.iter().for_each(|it| it.start(&stage));
    (0..stage.clients.len()).for_each(|client| stage.start_client(client));
    nemesis::start(&stage, &random).await;
    nemesis::torment(&stage, &random).await;
    nemesis::heal(&stage);
    let deadline = after(&stage, PROGRESS_TIME_MAX);
    while stage.seats.iter().any(|seat| !seat.is_done()) {
        if let Some(why) = stage.failed() {
            return Err(why);
        }
        // Nobody starts it again, and workers would wait for it without end.
        if let Some(why) = stage.bed.ended_io_server() {
            return Err(why);
        }
        if stage.faults.now_ns() > deadline {
            return Err(String::from("no progress: workers hang after healing"));
        }
        stage.faults.sleep(Duration::from_millis(10)).await;
    }
    if let Some(why) = stage.failed() {
        return Err(why);
    }
    find_the_same(&stage).await?;
    if stage.plan.copies {
        find_the_same_at_others(&stage).await?;
    }
    leave_nothing(&stage).await?;
    reach_nothing(&stage)
}

/// Checks that no peer wrote to memory that its user had. A peer may read such memory: a client's stays registered for
/// the servers that read it.
fn reach_nothing(stage: &Stage) -> Result<(), String> {
    match stage.fabric.as_ref().map(|fabric| fabric.reached().writes) {
        None | Some(0) => Ok(()),
        Some(count) => Err(format!("{count} segments reached memory of its user")),
    }
}

fn after(stage: &Stage, time: Duration) -> u64 {
    stage.faults.now_ns().saturating_add(nanoseconds(time))
}

/// Checks that every client reads the model's contents.
async fn find_the_same(stage: &Rc<Stage>) -> Result<(), String> {
    for (client, node) in stage.clients.iter().enumerate() {
        let last = Worker::new(Rc::clone(stage), 0, stage.bed.mount(node));
        for name in 0..NAMES {
            let checked = last.check(name).await;
            checked.map_err(|why| format!("client {client}, in the end: {why}"))?;
        }
    }
    Ok(())
}

/// Checks that the other members of groups have the model's contents, once all are filled.
async fn find_the_same_at_others(stage: &Rc<Stage>) -> Result<(), String> {
    let deadline = after(stage, FILLING_TIME_MAX);
    while let Some(lacking) = stage.bed.group_that_lacks_a_copy() {
        if stage.faults.now_ns() > deadline {
            return Err(format!("a group stays without a copy: {lacking}"));
        }
        stage.faults.sleep(Duration::from_millis(100)).await;
    }
    // What differs is copied within a second.
    stage.faults.sleep(Duration::from_secs(10)).await;
    stage.bed.turn_groups();
    let found = find_the_same(stage).await;
    found.map_err(|why| format!("at the other members: {why}"))
}

/// Checks that removed files leave no objects; the folders of objects may stay.
async fn leave_nothing(stage: &Rc<Stage>) -> Result<(), String> {
    let node = &stage.clients[0];
    let last = Worker::new(Rc::clone(stage), 0, stage.bed.mount(node));
    for name in 0..NAMES {
        last.remove(name).await?;
    }
    let deadline = after(stage, REMOVAL_TIME_MAX);
    loop {
        let objects = stage.bed.objects();
        if objects == 0 {
            return Ok(());
        }
        last.sweep().await?;
        if stage.faults.now_ns() > deadline {
            return Err(format!("{objects} objects of removed files stay"));
        }
        stage.faults.sleep(Duration::from_millis(200)).await;
    }
}
