//! Copies trees: many objects under way, bounded memory, and a list of what went wrong.

use super::content::{Sink, Source};
use super::place::{Entry, Kind, Made, Node, Place};
use super::unfinished::{Target, Temporaries, Unfinished};
use super::verify::first_difference;
use crate::failure::{Explain, Failure};
use crate::progress::Progress;
use crate::tree::{Failures, Identity, Visitor, Walk};
use gannet_client::Transfer;
use gannet_vfs::NodeKind;
use std::ffi::{OsStr, OsString};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes that all files under way may keep in memory together.
const MEMORY_MAX: u64 = 256 << 20;
/// Bytes that a large file keeps: blocks in flight, and blocks written that are not durable yet.
const FILE_MEMORY_MAX: u64 = 64 << 20;
/// Memory is counted in units of this.
const MEMORY_UNIT: u64 = 64 << 10;
/// Bytes of a block of a file with holes on a server. NFS does not report holes, so a block of zeros becomes a hole.
const SPARSE_BLOCK_LEN: u32 = 128 << 10;

/// The progress and failures of a copy, and the files that remain when it ends early.
#[derive(Clone)]
pub(crate) struct Report {
    pub(crate) progress: Rc<Progress>,
    pub(crate) failures: Rc<Failures>,
    pub(crate) temporaries: Rc<Temporaries>,
}

impl Report {
    pub(crate) fn new(progress: Progress) -> Report {
        Report {
            progress: Rc::new(progress),
            failures: Rc::default(),
            temporaries: Rc::default(),
        }
    }
}

/// A copy of one or several trees.
pub(crate) struct Engine {
    walk: Walk<Copier>,
    report: Report,
}

impl Engine {
    /// An engine that moves `jobs` files at a time, and `jobs` parts of each.
    pub(crate) fn new(jobs: u16, verify: bool, report: &Report) -> Engine {
        let memory = usize::try_from(MEMORY_MAX / MEMORY_UNIT).unwrap_or(usize::MAX);
        let copier = Rc::new(Copier {
            report: report.clone(),
            depth: usize::from(jobs),
            verify,
            memory: Arc::new(Semaphore::new(memory)),
        });
        Engine {
            walk: Walk::new(copier, jobs, Rc::clone(&report.failures)),
            report: report.clone(),
        }
    }

    /// Takes the copy of `source` to `name` in the directory `parent` into the work.
    pub(crate) fn add(&mut self, source: Place, node: Node, parent: &Place, name: &OsStr) {
        if node.kind != Kind::Directory {
            self.report.progress.expect(1, node.size_to_move());
        }
        let parent = Rc::new(Made {
            place: parent.clone(),
            is_new: false,
        });
        self.walk.add(Object {
            source,
            node,
            target: To::Name(parent, name.to_os_string()),
        });
    }

    /// The same of everything in the directory `source`, to the directory `target`, which is to look like `node`.
    pub(crate) fn add_contents(&mut self, source: Place, node: Node, target: Place) {
        let target = To::Itself(target);
        self.walk.add(Object {
            source,
            node,
            target,
        });
    }

    /// Copies all objects. Those that cannot be copied are in the report.
    pub(crate) async fn run(self) {
        self.walk.run().await;
    }
}

/// The source of a copy, and its target.
struct Object {
    source: Place,
    node: Node,
    target: To,
}

enum To {
    /// The target is a name in a directory.
    Name(Rc<Made>, OsString),
    /// A directory becomes this one.
    Itself(Place),
}

/// A file to be copied, and where to.
struct Job {
    source: Place,
    node: Node,
    parent: Rc<Made>,
    name: OsString,
}

/// A directory whose entries are being copied. Its attributes are set after them, since each entry changes its time.
struct CopiedDirectory {
    target: Place,
    /// The attributes of the source.
    node: Node,
}

struct Copier {
    report: Report,
    /// READs or WRITEs of one file under way at a time.
    depth: usize,
    verify: bool,
    memory: Arc<Semaphore>,
}

impl Visitor for Copier {
    type Object = Object;
    type Directory = CopiedDirectory;

    fn is_directory(&self, object: &Object) -> bool {
        object.node.kind == Kind::Directory
    }

    fn identity(&self, object: &Object) -> Option<Identity> {
        object.node.identity
    }

    fn name(&self, object: &Object) -> String {
        object.source.to_string()
    }

    async fn visit(&self, object: Object) -> Result<(), Failure> {
        let Object {
            source,
            node,
            target: To::Name(parent, name),
        } = object
        else {
            return Ok(());
        };
        match node.kind {
            Kind::Symlink => self.copy_link(&source, &node, &parent, &name).await?,
            Kind::Special(kind) => self.make_special(&node, kind, &parent, &name).await?,
            Kind::File | Kind::Directory => {
                let job = Job {
                    source,
                    node,
                    parent,
                    name,
                };
                self.copy_file(&job).await?;
            }
        }
        self.report.progress.file_done();
        Ok(())
    }

    async fn enter(&self, object: Object) -> Result<(CopiedDirectory, Vec<Object>), Failure> {
        let Object {
            source,
            node,
            target,
        } = object;
        // First, so that a source that cannot be listed leaves nothing behind.
        let entries = source.list().await?;
        let made = match target {
            To::Name(parent, name) => parent.place.make_directory(&name).await?,
            To::Itself(place) => Made {
                place,
                is_new: false,
            },
        };
        let made = Rc::new(made);
        let directory = CopiedDirectory {
            target: made.place.clone(),
            node,
        };
        let objects = entries.into_iter().map(|Entry { name, place, node }| {
            if node.kind != Kind::Directory {
                self.report.progress.expect(1, node.size_to_move());
            }
            Object {
                source: place,
                node,
                target: To::Name(Rc::clone(&made), name),
            }
        });
        Ok((directory, objects.collect()))
    }

    async fn leave(&self, directory: CopiedDirectory, _: bool) -> Result<(), Failure> {
        let CopiedDirectory { target, node } = directory;
        target.set_attributes(&node).await?;
        self.report.progress.directory_done();
        Ok(())
    }

    fn counted(&self) {
        self.report.progress.counted();
    }
}

impl Copier {
    async fn copy_link(
        &self,
        source: &Place,
        node: &Node,
        parent: &Made,
        name: &OsStr,
    ) -> Result<(), Failure> {
        let text = source.read_link().await?;
        let made = parent.place.make_symlink(name, &text).await?;
        made.set_attributes(node).await
    }

    async fn make_special(
        &self,
        node: &Node,
        kind: NodeKind,
        parent: &Made,
        name: &OsStr,
    ) -> Result<(), Failure> {
        let made = parent.place.make_special(name, kind).await?;
        made.set_attributes(node).await
    }

    /// The right to use memory for a file like `node`; `None` when the engine has ended.
    async fn memory(&self, node: &Node) -> Option<OwnedSemaphorePermit> {
        let units = node.size.min(FILE_MEMORY_MAX).div_ceil(MEMORY_UNIT).max(1);
        let units = u32::try_from(units).ok()?;
        Arc::clone(&self.memory)
            .acquire_many_owned(units)
            .await
            .ok()
    }

    async fn copy_file(&self, job: &Job) -> Result<(), Failure> {
        let _memory = self.memory(&job.node).await;
        let transfer = self.transfer(job);
        // First, so that a source that cannot be read leaves nothing behind, and itself unharmed.
        let source = job.source.open(job.node.size, transfer).await?;
        let target = Target {
            directory: &job.parent.place,
            is_new: job.parent.is_new,
            name: &job.name,
        };
        let target =
            Unfinished::create(target, Some(&job.source), &self.report.temporaries).await?;
        match self.fill(job, source, &target, transfer).await {
            Ok(()) => target.complete().await,
            Err(failure) => {
                target.discard().await;
                Err(failure)
            }
        }
    }

    /// Copies the data and attributes of the source to `target`.
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
        if self.verify {
            self.compare(job, target, transfer).await
        } else {
            Ok(())
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
            self.report.progress.add(len);
        }
        if moved < node.size && !keep_holes {
            return Err(io::Error::other(
                "the file became shorter while it was copied",
            ));
        }
        self.report.progress.add(node.size.saturating_sub(moved));
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
        let equal = first_difference(&job.source, target, transfer, |bytes| {
            self.report.progress.add_verified(bytes);
        });
        let equal = equal.await?;
        match equal {
            None => Ok(()),
            Some(offset) => Err(Failure::new(
                what(),
                format!("it differs from {} at byte {offset}", job.source),
            )
            .hint("copy it again; if it differs again, check the disks and the memory")),
        }
    }
}
