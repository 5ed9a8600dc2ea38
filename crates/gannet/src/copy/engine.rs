//! Copies trees: one walk, many files under way, bounded memory, and a list of what went wrong.

use super::content::{Sink, Source};
use super::place::{Entry, Kind, Made, Node, Place};
use super::progress::Progress;
use super::unfinished::{Target, Temporaries, Unfinished};
use super::verify::first_difference;
use crate::failure::{Explain, Failure};
use crate::session::SQUASHED;
use gannet_nfs::client::Transfer;
use std::cell::Cell;
use std::ffi::{OsStr, OsString};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;

/// Bytes that all files under way may keep in memory together.
const MEMORY_MAX: u64 = 256 << 20;
/// What a large file keeps: blocks in flight, and blocks written that are not durable yet.
const FILE_MEMORY_MAX: u64 = 64 << 20;
/// Memory is counted in units of this.
const MEMORY_UNIT: u64 = 64 << 10;
/// Bytes of a block of a file with holes on a server, which does not tell where they are: a block of zeros alone
/// becomes a hole.
const SPARSE_BLOCK_LEN: u32 = 128 << 10;
/// Directories below each other.
const DEPTH_MAX: usize = 1024;

/// A copy of one or several trees, with everything under way.
pub(crate) struct Engine {
    shared: Rc<Shared>,
    files: JoinSet<Result<(), Failure>>,
    /// Directories that are complete when everything in them is, with what they are to look like.
    directories: Vec<(Place, Node)>,
}

struct Shared {
    progress: Rc<Progress>,
    /// READs or WRITEs of one file under way at a time.
    depth: usize,
    verify: bool,
    temporaries: Rc<Temporaries>,
    slots: Arc<Semaphore>,
    memory: Arc<Semaphore>,
    failures: Cell<u64>,
    /// One of them is that a right is missing.
    denied: Cell<bool>,
}

/// A file to be copied, and where to.
struct Job {
    source: Place,
    node: Node,
    parent: Rc<Made>,
    name: OsString,
}

impl Engine {
    /// An engine that moves `jobs` files at a time, and `jobs` parts of each.
    pub(crate) fn new(
        jobs: u16,
        verify: bool,
        progress: Rc<Progress>,
        temporaries: Rc<Temporaries>,
    ) -> Engine {
        let memory = usize::try_from(MEMORY_MAX / MEMORY_UNIT).unwrap_or(usize::MAX);
        Engine {
            shared: Rc::new(Shared {
                progress,
                depth: usize::from(jobs),
                verify,
                temporaries,
                slots: Arc::new(Semaphore::new(usize::from(jobs))),
                memory: Arc::new(Semaphore::new(memory)),
                failures: Cell::new(0),
                denied: Cell::new(false),
            }),
            files: JoinSet::new(),
            directories: Vec::new(),
        }
    }

    /// Copies `source` to `name` in the directory `parent`. Comes back while files are still under way.
    ///
    /// # Errors
    /// Never for single files: they are reported and counted.
    pub(crate) async fn copy(&mut self, source: Place, node: Node, parent: &Place, name: &OsStr) {
        let parent = Rc::new(Made {
            place: parent.clone(),
            is_new: false,
        });
        if let Err(failure) = self.copy_object(source, node, &parent, name, 0).await {
            self.shared.report(&failure);
        }
    }

    /// Copies everything in the directory `source` into the directory `target`, which is to look like `node`.
    pub(crate) async fn copy_contents(&mut self, source: &Place, node: Node, target: Place) {
        let made = Rc::new(Made {
            place: target.clone(),
            is_new: false,
        });
        if let Err(failure) = self.copy_entries(source, &made, 0).await {
            self.shared.report(&failure);
        }
        self.directories.push((target, node));
    }

    async fn copy_object(
        &mut self,
        source: Place,
        node: Node,
        parent: &Rc<Made>,
        name: &OsStr,
        depth: usize,
    ) -> Result<(), Failure> {
        self.collect_finished();
        match node.kind {
            Kind::File => self.start_file(source, node, parent, name).await,
            Kind::Symlink => {
                let target = source.read_link().await?;
                let made = parent.place.make_symlink(name, &target).await?;
                made.set_attributes(&node).await?;
                self.shared.progress.file_done();
            }
            Kind::Special(kind) => {
                let made = parent.place.make_special(name, kind).await?;
                made.set_attributes(&node).await?;
                self.shared.progress.file_done();
            }
            Kind::Directory => {
                if depth == DEPTH_MAX {
                    let why = "too many directories below each other";
                    return Err(Failure::new(format!("cannot copy {source}"), why));
                }
                let target = Rc::new(parent.place.make_directory(name).await?);
                self.copy_entries(&source, &target, depth).await?;
                self.directories.push((target.place.clone(), node));
            }
        }
        Ok(())
    }

    async fn copy_entries(
        &mut self,
        source: &Place,
        target: &Rc<Made>,
        depth: usize,
    ) -> Result<(), Failure> {
        let entries = source.list().await?;
        let expected = entries.iter().filter(|entry| entry.node.kind == Kind::File);
        self.shared
            .progress
            .expect(expected.map(|entry| entry.node.size).sum());
        for Entry { name, place, node } in entries {
            let copied = Box::pin(self.copy_object(place, node, target, &name, depth + 1)).await;
            if let Err(failure) = copied {
                self.shared.report(&failure);
            }
        }
        Ok(())
    }

    /// Starts to copy a file as soon as a slot and memory are free.
    async fn start_file(&mut self, source: Place, node: Node, parent: &Rc<Made>, name: &OsStr) {
        let shared = Rc::clone(&self.shared);
        let Some(permits) = shared.permits(&node).await else {
            return;
        };
        let job = Job {
            source,
            node,
            parent: Rc::clone(parent),
            name: name.to_os_string(),
        };
        self.files.spawn_local(async move {
            let copied = shared.copy_file(&job).await;
            drop(permits);
            copied
        });
    }

    fn collect_finished(&mut self) {
        while let Some(done) = self.files.try_join_next() {
            self.shared.take(done);
        }
    }

    /// Waits for everything under way; then the directories get their modes and times, innermost first. An error says
    /// what to do where a server may take root for another user.
    ///
    /// # Errors
    /// Something could not be copied; it was reported.
    pub(crate) async fn finish(mut self, may_be_squashed: bool) -> Result<(), Failure> {
        while let Some(done) = self.files.join_next().await {
            self.shared.take(done);
        }
        for (place, node) in &self.directories {
            if let Err(failure) = place.set_attributes(node).await {
                self.shared.report(&failure);
            }
        }
        let (why, hint) = match self.shared.failures.get() {
            0 => return Ok(()),
            1 => (
                String::from("one object could not be copied"),
                "the line above says which",
            ),
            count => (
                format!("{count} objects could not be copied"),
                "the lines above say which",
            ),
        };
        let failure = Failure::new("the copy is not complete", why);
        match self.shared.denied.get() && may_be_squashed {
            true => Err(failure.hint(format!("{hint}; {SQUASHED}"))),
            false => Err(failure.hint(hint)),
        }
    }
}

impl Shared {
    fn report(&self, failure: &Failure) {
        self.failures.set(self.failures.get() + 1);
        self.denied.set(self.denied.get() || failure.is_denied());
        self.progress.say(&format!("gannet: {failure}"));
    }

    fn take(&self, done: Result<Result<(), Failure>, tokio::task::JoinError>) {
        match done {
            Ok(Ok(())) => {}
            Ok(Err(failure)) => self.report(&failure),
            Err(error) => self.report(&Failure::new("a copy ended early", error)),
        }
    }

    /// The right to have a file like `node` under way; `None` when the engine is gone.
    async fn permits(&self, node: &Node) -> Option<(OwnedSemaphorePermit, OwnedSemaphorePermit)> {
        let slot = Arc::clone(&self.slots).acquire_owned().await.ok()?;
        let units = node.size.min(FILE_MEMORY_MAX).div_ceil(MEMORY_UNIT).max(1);
        let units = u32::try_from(units).ok()?;
        let memory = Arc::clone(&self.memory)
            .acquire_many_owned(units)
            .await
            .ok()?;
        Some((slot, memory))
    }

    async fn copy_file(&self, job: &Job) -> Result<(), Failure> {
        let transfer = self.transfer(job);
        // First, so that a source that cannot be read leaves nothing behind, and itself unharmed.
        let source = job.source.open(job.node.size, transfer).await?;
        let target = Target {
            directory: &job.parent.place,
            is_new: job.parent.is_new,
            name: &job.name,
        };
        let target = Unfinished::create(target, &job.source, &self.temporaries).await?;
        match self.fill(job, source, &target, transfer).await {
            Ok(()) => target.complete().await?,
            Err(failure) => {
                target.discard().await;
                return Err(failure);
            }
        }
        self.progress.file_done();
        Ok(())
    }

    /// Makes `target` what the source is.
    async fn fill(
        &self,
        job: &Job,
        source: Source,
        target: &Unfinished,
        transfer: Transfer,
    ) -> Result<(), Failure> {
        let moved = self
            .move_blocks(source, target.sink(transfer), &job.node)
            .await;
        moved.explain(|| format!("cannot copy {} to {target}", job.source))?;
        target.set_attributes(&job.node).await?;
        match self.verify {
            true => self.compare(job, target, transfer).await,
            false => Ok(()),
        }
    }

    /// How to move a file: small ones in one block, those with holes in smaller ones.
    fn transfer(&self, job: &Job) -> Transfer {
        let is_sparse = job.node.used < job.node.size;
        let is_remote = matches!(job.source, Place::Remote(..));
        let small = u32::try_from(job.node.size.max(4096).next_power_of_two()).ok();
        let block = if is_sparse && is_remote {
            Some(SPARSE_BLOCK_LEN)
        } else {
            None
        };
        let max = gannet_vfs::limits::TRANSFER_MAX;
        Transfer {
            block: block.or(small.filter(|small| *small < max)),
            depth: self.depth,
        }
    }

    /// Moves everything; blocks of zeros stay holes where the source has holes.
    async fn move_blocks(&self, mut source: Source, mut sink: Sink, node: &Node) -> io::Result<()> {
        let keep_holes = node.used < node.size;
        let mut moved = 0;
        while let Some(block) = source.next(&mut sink).await? {
            let len = block.len as u64;
            let end = block.offset + len;
            if end > node.size {
                return Err(io::Error::other("the file grew while it was copied"));
            }
            let free = if keep_holes && block.is_zero() {
                Some(block.buffer)
            } else {
                sink.write(block).await?
            };
            if let Some(buffer) = free {
                source.recycle(buffer);
            }
            moved += len;
            self.progress.add(len);
        }
        if moved < node.size && !keep_holes {
            return Err(io::Error::other(
                "the file became shorter while it was copied",
            ));
        }
        self.progress.add(node.size.saturating_sub(moved));
        sink.finish().await
    }

    /// Reads the target back and compares every byte with the source.
    async fn compare(
        &self,
        job: &Job,
        target: &Unfinished,
        transfer: Transfer,
    ) -> Result<(), Failure> {
        let what = || format!("cannot verify {target}");
        let equal = first_difference(&job.source, target, transfer).await?;
        match equal {
            None => Ok(()),
            Some(offset) => Err(Failure::new(
                what(),
                format!("it differs from {} at byte {offset}", job.source),
            )
            .hint("copy it again; if it differs again, look at the disks and the memory")),
        }
    }
}
