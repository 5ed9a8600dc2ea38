//! A worker on a client of a volume: operations one after the other, each compared with the model.

mod around;
mod bytes;
mod counted;
mod given_up;
mod kept;
mod listed;
mod mount;
mod mounted;
mod ranges;
mod striped;

use super::locked::ReceivedGrant;
use super::{NAMES, Stage, UNIT};
use around::{Around, is_left_over};
use bytes::{compare, write_once};
use counted::Counted;
use gannet_runtime::both;
use gannet_sim::Random;
use gannet_vfs::{
    ByteLock, CreateMode, Credentials, EntryName, FileHandle, LockKind, LockRequest, Locked,
    SetAttributes, Status, Vfs,
};
use gannet_volume::client::VolumeFs;
use gannet_volume::limits::{CALL_DEADLINE, OPERATION_DEADLINE};
use gannet_wire::volume::Stripes;
use given_up::GivenUp;
use kept::KeptFiles;
pub(super) use mount::Mount;
use mounted::Session;
use ranges::Ranges;
use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use striped::draw_stripes;

const FILE_MAX: u64 = 200_000;
/// How long an operation may take: a client begins no attempt after [`OPERATION_DEADLINE`], and one attempt, with the
/// connection that it needs, ends with a call's deadline.
const OPERATION_TIME_MAX: Duration = OPERATION_DEADLINE
    .saturating_add(CALL_DEADLINE)
    .saturating_add(Duration::from_secs(15));
/// The pause between two attempts at an operation that a fault prevents.
const PATIENCE: Duration = Duration::from_millis(300);

/// The state of a worker that lasts over crashes of its machine: the operations left, and the one under way.
pub(super) struct Seat {
    pub(super) client: usize,
    random: Random,
    left: Cell<usize>,
    doing: RefCell<Option<Step>>,
    /// The progress of that operation.
    reached: Reached,
}

impl Seat {
    pub(super) fn new(random: Random, client: usize, operations: usize) -> Seat {
        Seat {
            client,
            random,
            left: Cell::new(operations),
            doing: RefCell::default(),
            reached: Reached::default(),
        }
    }

    pub(super) fn is_done(&self) -> bool {
        self.left.get() == 0
    }
}

/// The progress of an operation, over all incarnations of its worker.
#[derive(Default)]
struct Reached {
    /// The number of its first parts whose replies said that they are durable.
    durable: Cell<usize>,
    /// The number of parts that were begun.
    begun: Cell<usize>,
}

impl Reached {
    fn start(&self) {
        self.durable.set(0);
        self.begun.set(0);
    }
}

/// An operation; to do it twice has the same effect as once.
#[derive(Debug, Clone)]
enum Step {
    Create {
        name: usize,
        attempt: [u8; 8],
    },
    /// Creates a file on these servers.
    CreateOn {
        name: usize,
        stripes: Stripes,
    },
    /// Sets the stripes of new files of any name.
    Stripe {
        name: usize,
        stripes: Option<Stripes>,
    },
    Write(Write),
    /// Two writes of one file at the same time, by two clients.
    Contest([Write; 2]),
    /// A program's work on one file through a mount.
    Session(Session),
    Truncate {
        name: usize,
        size: u64,
    },
    GivenUp(GivenUp),
    Around {
        name: usize,
        around: Around,
    },
    /// Locks all of the file for this client, or unlocks it.
    Lock {
        name: usize,
        wanted: bool,
    },
    Remove {
        name: usize,
    },
    Rename {
        from: usize,
        to: usize,
    },
    Check {
        name: usize,
    },
    List,
    Ranges(Ranges),
}

#[derive(Debug, Clone)]
struct Write {
    name: usize,
    offset: u64,
    bytes: Vec<u8>,
    /// True if the WRITE is unstable and a COMMIT follows.
    commits: bool,
}

impl Step {
    /// Draws an operation on a volume with `servers` I/O servers, through a mount or not.
    fn draw(random: &Random, servers: usize, mounted: bool) -> Step {
        let name = random.index(NAMES);
        match random.below(26) {
            0..=1 => Step::Create {
                name,
                attempt: random.next().to_be_bytes(),
            },
            11 => Step::CreateOn {
                name,
                stripes: draw_stripes(random, servers),
            },
            12 => Step::Stripe {
                name,
                stripes: random.chance(700).then(|| draw_stripes(random, servers)),
            },
            2..=5 if mounted => Step::Session(Session::draw(random, name)),
            2..=5 => Step::Write(Write::draw(random, name)),
            6 => Step::Truncate {
                name,
                size: random.below(FILE_MAX),
            },
            7 => Step::Remove { name },
            8 => Step::Rename {
                from: name,
                to: random.index(NAMES),
            },
            9 => Step::List,
            14 => Step::Contest([Write::draw(random, name), Write::draw(random, name)]),
            16 => Step::Around {
                name,
                around: Around::draw(random),
            },
            15 => Step::GivenUp(GivenUp::draw(random, name)),
            17..=18 => Step::Lock {
                name,
                wanted: random.chance(700),
            },
            20.. => Step::Ranges(Ranges::draw(random, name)),
            _ => Step::Check { name },
        }
    }

    /// The names that its worker must have to itself.
    fn names(&self) -> Vec<usize> {
        match *self {
            Step::List => Vec::new(),
            Step::Rename { from, to } => vec![from, to],
            Step::Write(Write { name, .. })
            | Step::Contest([Write { name, .. }, _])
            | Step::GivenUp(GivenUp {
                write: Write { name, .. },
                ..
            })
            | Step::Session(Session { name, .. })
            | Step::Ranges(Ranges { name, .. })
            | Step::Create { name, .. }
            | Step::CreateOn { name, .. }
            | Step::Stripe { name, .. }
            | Step::Truncate { name, .. }
            | Step::Around { name, .. }
            | Step::Lock { name, .. }
            | Step::Remove { name }
            | Step::Check { name } => vec![name],
        }
    }
}

impl Write {
    fn draw(random: &Random, name: usize) -> Write {
        let len = match random.below(4) {
            0 => random.between(1, 100),
            1 => random.between(1, 3 * u64::from(UNIT)),
            _ => random.between(1, 100_000),
        };
        let salt = random.next().to_be_bytes();
        Write {
            name,
            offset: random.below(FILE_MAX),
            bytes: (0..len)
                .map(|at| salt[at as usize % 8].wrapping_add((at >> 8) as u8))
                .collect(),
            commits: random.chance(500),
        }
    }

    /// The content of the file after it.
    fn apply(&self, before: &[u8]) -> Vec<u8> {
        let mut after = before.to_vec();
        let start = self.offset as usize;
        let end = start + self.bytes.len();
        after.resize(after.len().max(end), 0);
        after[start..end].copy_from_slice(&self.bytes);
        after
    }
}

fn name_of(name: usize) -> [u8; 1] {
    [b'a' + name as u8]
}

/// One incarnation of a worker. It ends with a crash of its machine.
pub(super) struct Worker {
    stage: Rc<Stage>,
    number: usize,
    fs: VolumeFs,
    /// Another client on the same machine, connected at its first use.
    rival: OnceCell<VolumeFs>,
    /// A client with a data cache, connected at its first use.
    cached: OnceCell<VolumeFs>,
    counted: Counted,
    /// The mount that it uses for most operations, if its machine has the volume mounted.
    mount: Option<Rc<Mount>>,
    /// The files that it keeps open there.
    kept: KeptFiles,
    /// A number that differs for each client and each incarnation of one.
    client: u64,
    /// The credentials of root.
    caller: Credentials,
    /// The directory of all files.
    directory: FileHandle,
}

impl Worker {
    pub(super) fn new(stage: Rc<Stage>, number: usize, fs: VolumeFs) -> Worker {
        Worker {
            rival: OnceCell::new(),
            cached: OnceCell::new(),
            counted: Counted::default(),
            mount: None,
            kept: KeptFiles::default(),
            client: stage.bed.manager.runtime().random(),
            stage,
            number,
            caller: Credentials::new(0, 0, &[]),
            directory: fs.root(),
            fs,
        }
    }

    /// Makes the worker use `mount` for all operations that a mount has.
    pub(super) fn through(self, mount: Option<Rc<Mount>>) -> Worker {
        Worker { mount, ..self }
    }

    fn seat(&self) -> &Seat {
        &self.stage.seats[self.number]
    }

    /// Does operations until none is left.
    pub(super) async fn run(self) -> Result<(), String> {
        while !self.seat().is_done() {
            let step = self.next_step().await;
            let (number, what) = (self.number, describe(&step));
            let note =
                |word| (self.stage.faults).note(format_args!("worker {number} {word}: {what}"));
            note("begins");
            let done = self.perform(&step).await;
            note("ends");
            self.count_reads();
            done.map_err(|why| format!("{why}, in {}", describe(&step)))?;
            let mounted = u64::from(self.mount.is_some());
            self.stage.count(|summary| {
                summary.operations += 1;
                summary.mounted += mounted;
            });
            let names = step.names();
            names
                .iter()
                .for_each(|name| self.stage.taken[*name].set(false));
            self.seat().doing.replace(None);
            self.seat().left.set(self.seat().left.get() - 1);
        }
        self.close_kept();
        Ok(())
    }

    /// The operation that a crash interrupted, or a new one, whose names it takes.
    async fn next_step(&self) -> Step {
        if let Some(step) = self.seat().doing.borrow().clone() {
            return step;
        }
        loop {
            let (random, servers) = (&self.seat().random, self.stage.plan.servers);
            let step = match self.draw_kept() {
                Some(name) => Step::Check { name },
                None => Step::draw(random, servers, self.mount.is_some()),
            };
            let names = step.names();
            if names.iter().all(|name| !self.stage.taken[*name].get()) {
                names.into_iter().for_each(|name| self.stage.take(name));
                self.seat().doing.replace(Some(step.clone()));
                self.seat().reached.start();
                return step;
            }
            self.stage.faults.sleep(Duration::from_millis(1)).await;
        }
    }

    async fn perform(&self, step: &Step) -> Result<(), String> {
        self.forget_modes(step);
        if let Some(mount) = &self.mount
            && let Some(done) = self.perform_mounted(mount, step).await
        {
            return done;
        }
        match step {
            Step::Create { name, attempt } => self.create(*name, *attempt).await,
            Step::CreateOn { name, stripes } => self.create_on(*name, stripes).await,
            Step::Stripe { stripes, .. } => self.stripe(stripes.as_ref()).await,
            Step::Write(write) => self.write(write).await,
            Step::Contest(writes) => self.contest(writes).await,
            Step::Truncate { name, size } => self.truncate(*name, *size).await,
            Step::GivenUp(given_up) => self.give_up(given_up).await,
            Step::Around { name, around } => self.go_around(*name, *around).await,
            Step::Lock { name, wanted } => self.lock(*name, *wanted).await,
            Step::Remove { name } => self.remove(*name).await,
            Step::Rename { from, to } => self.rename(*from, *to).await,
            Step::Check { name } => self.check(*name).await,
            Step::List => self.list().await,
            Step::Ranges(ranges) => self.read_ranges(ranges).await,
            Step::Session(_) => Err(String::from("nothing is mounted")),
        }
    }

    /// Waits after an error that the plan's faults explain; any other error fails the run.
    async fn try_later(&self, what: &str, error: Status) -> Result<(), String> {
        self.stage
            .faults
            .note(format_args!("worker {}: {what}: {error}", self.number));
        self.stage.count(|summary| summary.unanswered += 1);
        let is_full = error == Status::Nospc && self.stage.plan.full;
        // A client gets this status if its own memory cannot be registered.
        let is_own = error == Status::Serverfault && self.stage.plan.reads.fails_to_register();
        let expected = matches!(error, Status::Jukebox | Status::Io) || is_full || is_own;
        if expected {
            self.stage.faults.sleep(PATIENCE).await;
            Ok(())
        } else {
            Err(format!("{what} fails: {error}"))
        }
    }

    /// Does one operation, which must end within [`OPERATION_TIME_MAX`], by a reply or by giving up.
    async fn in_time<T>(
        &self,
        what: &str,
        operation: impl Future<Output = T>,
    ) -> Result<T, String> {
        self.all_in_time(what, 1, operation).await
    }

    /// Does `count` operations one after the other, within `count` times the bound of [`Worker::in_time`]. A machine
    /// that stood still excuses any delay.
    async fn all_in_time<T>(
        &self,
        what: &str,
        count: u32,
        operations: impl Future<Output = T>,
    ) -> Result<T, String> {
        let (began, freezes) = (self.stage.faults.now_ns(), self.stage.freezes.get());
        let done = operations.await;
        let took = Duration::from_nanos(self.stage.faults.now_ns() - began);
        let stood_still = freezes % 2 == 1 || freezes != self.stage.freezes.get();
        if took > count * OPERATION_TIME_MAX && !stood_still {
            Err(format!("{what} took {took:?}"))
        } else {
            Ok(done)
        }
    }

    fn content(&self, name: usize) -> Option<Vec<u8>> {
        self.stage.model[name].borrow().clone()
    }

    fn set(&self, name: usize, content: Option<Vec<u8>>) {
        let is_there = content.is_some();
        if is_there != self.stage.model[name].borrow().is_some() {
            self.stage.renew_identity(name);
        }
        match self.stage.model[name].replace(content) {
            Some(before) if is_there => {
                let now = self.stage.faults.now_ns();
                self.stage.past.changed(name, &before, now, None);
            }
            _ => self.stage.past.forget(name),
        }
    }

    /// The file of a name, if there is one, and its length in bytes.
    async fn look_up(&self, name: usize) -> Result<Option<(FileHandle, u64)>, String> {
        loop {
            let own_name = name_of(name);
            let looking = self.fs.lookup(&self.caller, &self.directory, &own_name);
            match self.in_time("a lookup", looking).await?.0 {
                Ok((handle, attributes)) => return Ok(Some((handle, attributes.size))),
                Err(Status::Noent) => return Ok(None),
                Err(error) => self.try_later("lookup", error).await?,
            }
        }
    }

    /// Looks a name up as [`Worker::look_up`] does, and compares its existence with the model.
    async fn find(&self, name: usize) -> Result<Option<FileHandle>, String> {
        let found = self.look_up(name).await?;
        let exists = self.content(name).is_some();
        if exists && found.is_none() {
            return Err(format!("file {name} is missing"));
        }
        if found.is_some() && !exists {
            return Err(format!("file {name} is there again"));
        }
        Ok(found.map(|(handle, _)| handle))
    }

    async fn create(&self, name: usize, attempt: [u8; 8]) -> Result<(), String> {
        let (own_name, mode) = (name_of(name), CreateMode::Exclusive(attempt));
        loop {
            let made = self
                .fs
                .create(&self.caller, &self.directory, &own_name, &mode);
            let made = self.in_time("a create", made).await?.result;
            let exists = self.content(name).is_some();
            match made {
                Ok(_) if exists => return Err(format!("file {name} is made twice")),
                Ok(_) => {
                    self.set(name, Some(Vec::new()));
                    return Ok(());
                }
                Err(Status::Exist) if exists => return Ok(()),
                Err(Status::Exist) => return Err(format!("file {name} is there already")),
                Err(error) => self.try_later("create", error).await?,
            }
        }
    }

    async fn write(&self, write: &Write) -> Result<(), String> {
        let Some(file) = self.find(write.name).await? else {
            return Ok(());
        };
        let before = self.content(write.name).unwrap_or_default();
        let after = write.apply(&before);
        while let Err(error) = self.write_in_time(&self.fs, &file, write).await? {
            self.try_later("write", error).await?;
            if error == Status::Nospc {
                self.read_and_compare(&file, &before, &after).await?;
            }
        }
        self.set(write.name, Some(after));
        Ok(())
    }

    /// Writes once; a COMMIT after it has its own time.
    async fn write_in_time(
        &self,
        fs: &VolumeFs,
        file: &FileHandle,
        write: &Write,
    ) -> Result<Result<(), Status>, String> {
        let count = 1 + u32::from(write.commits);
        let writing = write_once(fs, &self.caller, file, write);
        self.all_in_time("a write", count, writing).await
    }

    /// Two clients write at the same time. Each byte that both write is from either of them afterwards.
    async fn contest(&self, writes: &[Write; 2]) -> Result<(), String> {
        let name = writes[0].name;
        let Some(file) = self.find(name).await? else {
            return Ok(());
        };
        let write = async |fs: &VolumeFs, write: &Write| {
            while let Err(error) = self.write_in_time(fs, &file, write).await? {
                self.try_later("write", error).await?;
            }
            Ok::<(), String>(())
        };
        let rival = write(self.rival(), &writes[1]);
        let (one, another) = both(write(&self.fs, &writes[0]), rival).await;
        one.and(another)?;
        let before = self.content(name).unwrap_or_default();
        let [first, second] = [[0, 1], [1, 0]].map(|order| {
            order
                .iter()
                .fold(before.clone(), |it, at| writes[*at].apply(&it))
        });
        let seen = self.read_and_compare(&file, &first, &second).await?;
        self.set(name, Some(seen));
        Ok(())
    }

    async fn truncate(&self, name: usize, size: u64) -> Result<(), String> {
        let Some(file) = self.find(name).await? else {
            return Ok(());
        };
        let change = SetAttributes {
            size: Some(size),
            ..SetAttributes::default()
        };
        loop {
            let setting = self.fs.set_attributes(&self.caller, &file, &change, None);
            match self.in_time("a truncate", setting).await?.result {
                Ok(()) => break,
                Err(error) => self.try_later("truncate", error).await?,
            }
        }
        let mut content = self.content(name).unwrap_or_default();
        content.resize(size as usize, 0);
        self.set(name, Some(content));
        Ok(())
    }

    /// Tries once for a lock of all of a file, or unlocks it until there is a reply.
    async fn lock(&self, name: usize, wanted: bool) -> Result<(), String> {
        let Some(file) = self.find(name).await? else {
            return Ok(());
        };
        let (locks, request) = (
            &self.stage.locks,
            if wanted {
                LockRequest::Try
            } else {
                LockRequest::Unlock
            },
        );
        let lock = ByteLock {
            owner: self.number as u64,
            kind: LockKind::Exclusive,
            start: 0,
            end: u64::MAX,
            process: 1,
        };
        if !wanted {
            locks.releasing(&file, self.client);
        }
        loop {
            let requested_ns = self.stage.faults.now_ns();
            let locking = self.fs.lock(&self.caller, &file, &lock, request);
            match self.in_time("a lock", locking).await? {
                Ok(Locked::Done) if wanted => {
                    return locks.granted(&ReceivedGrant {
                        file,
                        holder: self.client,
                        requested_ns,
                        received_ns: self.stage.faults.now_ns(),
                    });
                }
                Ok(_) => return Ok(()),
                Err(error) => self.try_later("lock", error).await?,
            }
        }
    }

    /// Removes a name; success too if no file has it.
    pub(super) async fn remove(&self, name: usize) -> Result<(), String> {
        let own_name = name_of(name);
        loop {
            let removing = self.fs.remove(&self.caller, &self.directory, &own_name);
            match self.in_time("a remove", removing).await?.result {
                // An earlier attempt without a reply may have removed the name.
                Ok(()) | Err(Status::Noent) => break,
                Err(error) => self.try_later("remove", error).await?,
            }
        }
        self.set(name, None);
        Ok(())
    }

    async fn rename(&self, from: usize, to: usize) -> Result<(), String> {
        let (old, new) = (name_of(from), name_of(to));
        loop {
            let renaming = self.fs.rename(
                &self.caller,
                EntryName::new(&self.directory, &old),
                EntryName::new(&self.directory, &new),
            );
            match self.in_time("a rename", renaming).await?.0 {
                Ok(()) | Err(Status::Noent) => break,
                Err(error) => self.try_later("rename", error).await?,
            }
        }
        self.moved(from, to);
        Ok(())
    }

    /// Moves the model's content of `from` to `to`.
    fn moved(&self, from: usize, to: usize) {
        if from != to
            && let Some(content) = self.content(from)
        {
            self.stage.past.moved(from, to);
            (self.stage.identities[to]).set(self.stage.identities[from].get());
            self.stage.renew_identity(from);
            self.stage.model[from].replace(None);
            self.stage.model[to].replace(Some(content));
        }
    }

    /// Removes files that ended incarnations left behind: files that were removed while open in a mount, and temporary
    /// names.
    pub(super) async fn sweep(&self) -> Result<(), String> {
        let listed = match self.list_all(usize::MAX).await {
            Ok(listed) => listed,
            Err(error) => return self.try_later("list", error).await,
        };
        let names = listed.iter().map(|(name, _)| name);
        let left_over = |name: &&Vec<u8>| name.starts_with(b".gannet-") || is_left_over(name);
        for name in names.filter(left_over) {
            // Its owner may remove it at the same time. After any other error another sweep follows.
            let _ = self.fs.remove(&self.caller, &self.directory, name).await;
        }
        Ok(())
    }

    /// Reads all of a file and compares it with the model.
    pub(super) async fn check(&self, name: usize) -> Result<(), String> {
        let Some(file) = self.find(name).await? else {
            return Ok(());
        };
        let expected = self.content(name).unwrap_or_default();
        let compared = self.read_and_compare(&file, &expected, &expected).await;
        compared.map_err(|why| format!("file {name}: {why}"))?;
        Ok(())
    }

    /// Compares every byte of a file with its content `before` or `after` a change; its length must lie between
    /// theirs. Returns the content.
    async fn read_and_compare(
        &self,
        file: &FileHandle,
        before: &[u8],
        after: &[u8],
    ) -> Result<Vec<u8>, String> {
        let len_max = before.len().max(after.len());
        loop {
            let count = u32::try_from(len_max + 10).unwrap_or(u32::MAX);
            let reading = self.fs.read(&self.caller, file, 0, count);
            let reply = match self.in_time("a read", reading).await? {
                Ok(reply) => reply,
                Err(error) => {
                    self.try_later("read", error).await?;
                    continue;
                }
            };
            let mut bytes = vec![0; reply.count as usize];
            let read = reply.file.try_read_at(0, &mut bytes);
            read.map_err(|error| format!("what was read cannot be: {error}"))?;
            if !reply.eof {
                return Err(String::from("the file goes on behind its end"));
            }
            compare(&bytes, &[before, after])?;
            return Ok(bytes);
        }
    }
}

/// A step without its bytes.
fn describe(step: &Step) -> String {
    match step {
        Step::Write(write) => format!(
            "a write of {} bytes at {} of file {}",
            write.bytes.len(),
            write.offset,
            write.name
        ),
        Step::Session(session) => session.describe(),
        Step::Ranges(ranges) => ranges.describe(),
        Step::GivenUp(given_up) => given_up.describe(),
        Step::Contest(writes) => {
            let sizes = writes.each_ref().map(|it| (it.offset, it.bytes.len()));
            format!("a contest of {sizes:?} of file {}", writes[0].name)
        }
        step => format!("{step:?}"),
    }
}
