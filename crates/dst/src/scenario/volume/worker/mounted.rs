//! Operations of a worker through the core of a mount, as a program on a machine with the volume mounted does them.

use super::{Mount, Step, UNIT, Worker, compare, name_of};
use crate::scenario::nanoseconds;
use gannet_fuse::headless::{Opened, ROOT};
use gannet_runtime::{LocalFuture, all};
use gannet_sim::Random;
use gannet_vfs::{Stability, Status};
use gannet_volume::limits::LOCK_LEASE;
use std::io;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

/// Sessions write at offsets below this, in bytes.
const AREA: u64 = 60_000;
/// How often an I/O server crashes right after a reply.
const STRIKES_PER_MILLE: u64 = 40;
const STRIKE_TIME: Duration = Duration::from_millis(3);
/// Bytes that programs read at a time, more than any file has.
const READ_LEN: u32 = 1 << 20;
const ESTALE: i32 = 116;

/// The acts of a program with one file, from open(2) to close(2).
#[derive(Debug, Clone)]
pub(super) struct Session {
    pub(super) name: usize,
    acts: Vec<Act>,
}

#[derive(Debug, Clone)]
enum Act {
    Write {
        offset: u64,
        bytes: Vec<u8>,
        /// The number of WRITEs at the same time, as the kernel writes back cached pages.
        parts: usize,
        stability: Stability,
    },
    Sync,
    Truncate(u64),
    Read,
}

impl Session {
    pub(super) fn draw(random: &Random, name: usize) -> Session {
        let (goes_on, mut end) = (random.chance(500), random.below(AREA));
        let acts = (0..random.between(1, 24)).map(|_| match random.below(16) {
            0 => Act::Sync,
            1 => Act::Truncate(random.below(2 * AREA)),
            2..=3 => Act::Read,
            _ => {
                let offset = if goes_on { end } else { random.below(AREA) };
                let len = match random.below(4) {
                    0 => random.between(1, 100),
                    1 => random.between(1, 3 * u64::from(UNIT)),
                    _ => random.between(1, 30_000),
                };
                end = offset + len;
                Act::Write {
                    offset,
                    bytes: random.bytes(len as usize),
                    parts: random.index(3) + 1,
                    stability: match random.below(16) {
                        0 => Stability::DataSync,
                        1 => Stability::FileSync,
                        _ => Stability::Unstable,
                    },
                }
            }
        });
        Session {
            name,
            acts: acts.collect(),
        }
    }

    pub(super) fn describe(&self) -> String {
        let acts = self.acts.iter().map(|act| match act {
            Act::Write {
                offset,
                bytes,
                parts,
                stability,
            } => format!("{stability:?} {}@{offset} in {parts}", bytes.len()),
            act => format!("{act:?}"),
        });
        let acts: Vec<String> = acts.collect();
        format!("a session with file {}: {}", self.name, acts.join(", "))
    }

    /// The content of the file, as a program sees it, before the act after the first `done` and after each that was
    /// begun.
    fn states(&self, content: Vec<u8>, done: usize, begun: usize) -> Vec<Vec<u8>> {
        let mut states = vec![content];
        for act in self.acts.iter().take(begun).skip(done) {
            let last = states.last().map(Vec::as_slice).unwrap_or_default();
            states.extend(act.apply(last));
        }
        states
    }
}

impl Act {
    /// The content of the file after it, if it changes the file.
    fn apply(&self, before: &[u8]) -> Option<Vec<u8>> {
        let mut after = before.to_vec();
        match self {
            Act::Write { offset, bytes, .. } => {
                let start = *offset as usize;
                let end = start + bytes.len();
                after.resize(after.len().max(end), 0);
                after[start..end].copy_from_slice(bytes);
            }
            Act::Truncate(size) => after.resize(*size as usize, 0),
            Act::Sync | Act::Read => return None,
        }
        Some(after)
    }

    /// True if its success makes it and all acts before it durable.
    fn is_durable(&self) -> bool {
        match self {
            Act::Write { stability, .. } => *stability != Stability::Unstable,
            Act::Sync | Act::Truncate(_) => true,
            Act::Read => false,
        }
    }
}

impl Worker {
    /// Does a step through the mount; `None` for a step that mounts do not have.
    pub(super) async fn perform_mounted(
        &self,
        mount: &Rc<Mount>,
        step: &Step,
    ) -> Option<Result<(), String>> {
        Some(match step {
            Step::Create { name, .. } => self.make(mount, *name).await,
            Step::Session(session) => self.session(mount, session).await,
            Step::Remove { name } => self.unlink(mount, *name).await,
            Step::Rename { from, to } => self.move_name(mount, *from, *to).await,
            Step::Check { name } => self.look_at(mount, *name).await,
            _ => return None,
        })
    }

    /// Waits before another attempt, if the failure is one that the plan explains.
    pub(super) async fn try_again(&self, what: &str, error: io::Error) -> Result<(), String> {
        self.try_later(what, status(&error)).await
    }

    async fn make(&self, mount: &Rc<Mount>, name: usize) -> Result<(), String> {
        let exists = self.content(name).is_some();
        loop {
            match mount.create(ROOT, &name_of(name)).await {
                Ok(_) if exists => return Err(format!("file {name} is made twice")),
                Ok(file) => {
                    self.close(mount, file);
                    break;
                }
                Err(error) if status(&error) == Status::Exist => {
                    if exists {
                        return Ok(());
                    }
                    // An earlier attempt had no reply.
                    break;
                }
                Err(error) => self.try_again("create", error).await?,
            }
        }
        self.set(name, Some(Vec::new()));
        Ok(())
    }

    /// Opens a file as the kernel does, if the model has one of this name.
    async fn open(&self, mount: &Rc<Mount>, name: usize) -> Result<Option<Opened>, String> {
        let mut was_stale = false;
        loop {
            let number = match mount.lookup(ROOT, &name_of(name), self.number).await {
                Ok(number) => Some(number),
                Err(error) if status(&error) == Status::Noent => None,
                Err(error) => {
                    self.try_again("lookup", error).await?;
                    continue;
                }
            };
            let exists = self.content(name).is_some();
            let number = match number {
                Some(number) if exists => number,
                Some(_) => return Err(format!("file {name} is there again")),
                None if exists => return Err(format!("file {name} is missing")),
                None => return Ok(None),
            };
            match mount.open(number, self.number).await {
                Ok(file) => return Ok(Some(file)),
                Err(error) => {
                    mount.forget(number, 1);
                    if status(&error) != Status::Stale {
                        was_stale = false;
                        self.try_again("open", error).await?;
                    } else if std::mem::replace(&mut was_stale, true) {
                        // Another client changed the name: the kernel looks it up again once.
                        return Err(format!("a program sees file {name} as stale"));
                    }
                }
            }
        }
    }

    /// Closes a file. The kernel does not wait for the release, and may forget the file at once.
    pub(super) fn close(&self, mount: &Rc<Mount>, file: Opened) {
        let mount = Rc::clone(mount);
        let runtime = self.stage.clients[self.seat().client].runtime();
        let release = Box::pin(async move {
            let mut release = std::pin::pin!(mount.release(file));
            // The release begins first, and the forget comes while it is under way.
            let released = std::future::poll_fn(|context| {
                Poll::Ready(release.as_mut().poll(context).is_ready())
            });
            let is_released = released.await;
            mount.forget(file.number, 1);
            if !is_released {
                release.await;
            }
        });
        runtime.spawn("release", release);
    }

    async fn session(&self, mount: &Rc<Mount>, session: &Session) -> Result<(), String> {
        while let Some(file) = self.open(mount, session.name).await? {
            let mut done = self.acts(mount, file, session).await?;
            if done.is_ok() {
                done = mount.sync(file).await;
            }
            if done.is_ok() {
                self.is_durable(session, session.acts.len());
                let content = self.content(session.name).unwrap_or_default();
                done = self.stat(mount, file, session.name, &[&content]).await?;
            }
            if done.is_ok() {
                self.leave(mount, file, session.name);
                return Ok(());
            }
            self.close(mount, file);
            if let Err(error) = done {
                // Bytes that were not durable may be lost now.
                self.try_again("session", error).await?;
            }
        }
        Ok(())
    }

    /// Does the rest of a session; the inner error is a program's.
    async fn acts(
        &self,
        mount: &Rc<Mount>,
        file: Opened,
        session: &Session,
    ) -> Result<io::Result<()>, String> {
        let reached = &self.seat().reached;
        let durable = reached.durable.get();
        // First checks the content that an earlier attempt or incarnation left.
        if let Err(error) = self.read_between(mount, file, session).await? {
            return Ok(Err(error));
        }
        for (index, act) in session.acts.iter().enumerate().skip(durable) {
            reached.begun.set(reached.begun.get().max(index + 1));
            let done = match act {
                Act::Write {
                    offset,
                    bytes,
                    parts,
                    stability,
                } => write_parts(mount, file, *offset, bytes, *parts, *stability).await,
                Act::Sync => mount.sync(file).await,
                Act::Truncate(size) => mount.truncate(file, *size).await,
                Act::Read => self.read_between(mount, file, session).await?,
            };
            if self.seat().random.chance(STRIKES_PER_MILLE) {
                self.stage.strike.set(true);
                // The pause gives the nemesis time for the crash.
                self.stage.faults.sleep(STRIKE_TIME).await;
            }
            if done.is_err() {
                return Ok(done);
            }
            if act.is_durable() {
                self.is_durable(session, index + 1);
            }
        }
        Ok(Ok(()))
    }

    /// Records that the first `acts` acts of a session are durable.
    fn is_durable(&self, session: &Session, acts: usize) {
        let reached = &self.seat().reached;
        let content = self.content(session.name).unwrap_or_default();
        let states = session.states(content, reached.durable.get(), acts);
        self.set(session.name, states.last().cloned());
        reached.durable.set(acts);
    }

    /// Checks that durable bytes are there, below later writes, which servers may have lost.
    async fn read_between(
        &self,
        mount: &Rc<Mount>,
        file: Opened,
        session: &Session,
    ) -> Result<io::Result<()>, String> {
        let reached = &self.seat().reached;
        let content = self.content(session.name).unwrap_or_default();
        let states = session.states(content, reached.durable.get(), reached.begun.get());
        let states: Vec<&[u8]> = states.iter().map(Vec::as_slice).collect();
        let bytes = match read_all(mount, file).await {
            Ok(bytes) => bytes,
            Err(error) => return Ok(Err(error)),
        };
        compare(&bytes, &states)?;
        self.stat(mount, file, session.name, &states).await
    }

    /// Checks what stat(2) says of an open file by its name: its number, and a length between those of the shortest
    /// and the longest state. An unconfirmed write may have failed, and no program knows yet.
    async fn stat(
        &self,
        mount: &Rc<Mount>,
        file: Opened,
        name: usize,
        states: &[&[u8]],
    ) -> Result<io::Result<()>, String> {
        let (number, len) = match mount.stat(ROOT, &name_of(name), self.number).await {
            Ok(found) => found,
            Err(error) => return Ok(Err(error)),
        };
        mount.forget(number, 1);
        let lens: Vec<u64> = states.iter().map(|state| state.len() as u64).collect();
        let is_between = lens.iter().any(|it| *it <= len) && lens.iter().any(|it| len <= *it);
        if number == file.number && is_between {
            return Ok(Ok(()));
        }
        Err(format!(
            "file {name} has number {number} and {len} bytes by its name, open are {} and {lens:?}",
            file.number
        ))
    }

    /// Compares a file with the model: by a descriptor that was kept open, or another one.
    async fn look_at(&self, mount: &Rc<Mount>, name: usize) -> Result<(), String> {
        if self.look_again(mount, name).await? {
            return Ok(());
        }
        while let Some(file) = self.open(mount, name).await? {
            match self.look_through(mount, file, name).await? {
                Ok(()) => {
                    self.leave(mount, file, name);
                    break;
                }
                Err(error) => {
                    self.close(mount, file);
                    self.try_again("read", error).await?;
                }
            }
        }
        Ok(())
    }

    /// Compares an open file with the model's content of a name; the inner error is a program's.
    pub(super) async fn look_through(
        &self,
        mount: &Rc<Mount>,
        file: Opened,
        name: usize,
    ) -> Result<io::Result<()>, String> {
        let content = self.content(name).unwrap_or_default();
        match read_all(mount, file).await {
            Ok(bytes) => {
                let compared = compare(&bytes, &[&content]);
                compared.map_err(|why| format!("file {name}, mounted: {why}"))?;
                Ok(Ok(()))
            }
            Err(error) => Ok(Err(error)),
        }
    }

    /// Opens, now and then, a file that is about to lose its name. Only the first incarnation does, since an earlier
    /// one may have removed the name.
    async fn keep_open(&self, mount: &Rc<Mount>, name: usize) -> Option<Opened> {
        let is_first = self.seat().reached.begun.replace(1) == 0;
        if !is_first || !self.seat().random.chance(500) {
            return None;
        }
        let number = mount.lookup(ROOT, &name_of(name), self.number).await;
        let number = number.ok()?;
        let file = mount.open(number, self.number).await.ok();
        if file.is_none() {
            mount.forget(number, 1);
        }
        file
    }

    /// Checks that a file that was kept open has its content without a name, and closes it. The manager keeps it for
    /// one lease after it has heard of the client for the last time: a longer fault may cost the file.
    async fn let_go(&self, mount: &Rc<Mount>, file: Opened, name: usize) -> Result<(), String> {
        let began = self.stage.faults.now_ns();
        let seen = loop {
            match self.look_through(mount, file, name).await {
                Ok(Err(error))
                    if status(&error) == Status::Stale
                        && self.stage.faults.now_ns() > began + nanoseconds(LOCK_LEASE) =>
                {
                    break Ok(());
                }
                Ok(Err(error)) => self.try_again("read", error).await?,
                Ok(Ok(())) => break Ok(()),
                Err(why) => break Err(format!("{why}, although open")),
            }
        };
        self.close(mount, file);
        seen
    }

    /// Removes a name; success too if no file has it.
    async fn unlink(&self, mount: &Rc<Mount>, name: usize) -> Result<(), String> {
        let own_name = name_of(name);
        let removed = self.replace(mount, "unlink", name, async || {
            mount.remove(ROOT, &own_name).await
        });
        removed.await?;
        self.set(name, None);
        Ok(())
    }

    async fn move_name(&self, mount: &Rc<Mount>, from: usize, to: usize) -> Result<(), String> {
        let (old, new) = (name_of(from), name_of(to));
        let moved = self.replace(mount, "rename", to, async || {
            mount.rename(ROOT, &old, ROOT, &new).await
        });
        moved.await?;
        self.moved(from, to);
        Ok(())
    }

    /// Removes a name from its file by `change`; the file, if there is one, may be open meanwhile.
    async fn replace(
        &self,
        mount: &Rc<Mount>,
        what: &str,
        name: usize,
        change: impl AsyncFn() -> io::Result<()>,
    ) -> Result<(), String> {
        let mut kept = self.keep_open(mount, name).await;
        while let Err(error) = change().await {
            if status(&error) == Status::Noent {
                break;
            }
            // The file may have lost its name already, so it is closed.
            kept.take().into_iter().for_each(|it| self.close(mount, it));
            self.try_again(what, error).await?;
        }
        match kept {
            Some(file) => self.let_go(mount, file, name).await,
            None => Ok(()),
        }
    }
}

/// Writes, in parts that are under way at the same time.
async fn write_parts(
    mount: &Rc<Mount>,
    file: Opened,
    offset: u64,
    bytes: &[u8],
    parts: usize,
    stability: Stability,
) -> io::Result<()> {
    let len = bytes.len().div_ceil(parts);
    let parts = bytes.chunks(len).zip(0u64..);
    let mut writing: Vec<LocalFuture<io::Result<()>>> = Vec::new();
    for (part, index) in parts {
        let (mount, part) = (Rc::clone(mount), part.to_vec());
        let at = offset + index * len as u64;
        writing.push(Box::pin(async move {
            mount.write(file, at, &part, stability).await
        }));
    }
    all(writing).await.into_iter().collect()
}

/// Reads until the end, as programs do. Each read asks for more than the file has: the kernel asks for attributes only
/// where a read reaches behind the size that it knows.
async fn read_all(mount: &Rc<Mount>, file: Opened) -> io::Result<Vec<u8>> {
    let mut all = Vec::new();
    loop {
        let read = mount.read(file, all.len() as u64, READ_LEN).await?;
        if read.is_empty() {
            return Ok(all);
        }
        all.extend(read);
    }
}

/// The store's status for an error number, as far as it is unambiguous.
pub(super) fn status(error: &io::Error) -> Status {
    match error.raw_os_error() {
        Some(ESTALE) => Status::Stale,
        Some(number) => u32::try_from(number)
            .ok()
            .and_then(Status::from_number)
            .unwrap_or(Status::Serverfault),
        None => Status::Serverfault,
    }
}
