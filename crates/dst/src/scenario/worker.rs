//! A worker: random operations through an NFS client, each reply compared with the oracle.

mod choose;
mod perform;

use super::{Stage, nanoseconds, plan::Transport, server::calling};
use crate::model::{Execution, Key, Operation, Oracle, TOP};
use gannet_fabric::Provider;
use gannet_nfs::client::{Client, Error};
use gannet_rpc::ClientConfig;
use gannet_rpc::limits::DRC_AGE_MAX;
use gannet_sim::Random;
use gannet_vfs::{FileHandle, FileKind, SetAttributes, Status};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

/// The attempts at an operation that a worker depends on.
const ATTEMPTS_MAX: usize = 100;
/// The number of operations, of a thousand, that wait for the application, so that faults find idle connections too.
const THINKING_PER_MILLE: u64 = 200;
const THINKING_TIME_MAX_NS: u64 = 500_000_000;
/// Bytes of one READ when a whole file is read.
const READ_LEN: u32 = 64 << 10;

/// One task of the client machine, with a directory of its own.
pub(super) struct Worker {
    stage: Rc<Stage>,
    number: usize,
    client: Client,
    random: Random,
    oracle: Oracle,
    /// The server's handles of the model's objects, removed ones included.
    handles: BTreeMap<Key, FileHandle>,
    next_key: Key,
    /// The server's incarnation in which this worker was in step with it.
    incarnation: u64,
}

impl Worker {
    pub(super) fn new(
        stage: Rc<Stage>,
        number: usize,
        provider: Option<Rc<dyn Provider>>,
    ) -> Worker {
        let provider = match stage.plan.transport {
            Transport::Mixed if number.is_multiple_of(2) => None,
            _ => provider,
        };
        let target = stage.server.target(provider);
        let runtime = stage.client.runtime();
        let config = ClientConfig {
            registration: stage.plan.registration,
            design: stage.plan.designs.1,
            ..calling(1000, 1000)
        };
        let rpc = gannet_rpc::Client::new(runtime.clone(), target, config);
        let random = Random::new(runtime.random()).fork("worker");
        Worker {
            client: Client::new(runtime, rpc),
            random,
            stage,
            number,
            oracle: Oracle::new(),
            handles: BTreeMap::new(),
            next_key: TOP + 1,
            incarnation: 0,
        }
    }

    /// Safety, then progress.
    pub(super) async fn run(mut self) -> Result<(), String> {
        self.make_top().await?;
        for _ in 0..self.stage.plan.operations {
            if self.stage.failed().is_some() {
                return Ok(());
            }
            self.step().await?;
        }
        while !self.stage.healed.get() {
            self.stage.faults.sleep(Duration::from_millis(100)).await;
        }
        self.verify().await?;
        for _ in 0..self.stage.plan.operations / 2 {
            self.step().await?;
        }
        self.verify().await?;
        self.client.rpc().close();
        Ok(())
    }

    /// Mounts the export and makes this worker's directory in it, however often that takes.
    async fn make_top(&mut self) -> Result<(), String> {
        let name = format!("worker-{}", self.number).into_bytes();
        let mut last = String::new();
        for _ in 0..ATTEMPTS_MAX {
            match self.try_top(&name).await {
                Ok(handle) => {
                    self.handles.insert(TOP, handle);
                    self.incarnation = self.stage.incarnation.get();
                    return Ok(());
                }
                Err(error) => last = error.to_string(),
            }
            self.stage.faults.sleep(Duration::from_millis(100)).await;
        }
        Err(format!("cannot make the worker's directory: {last}"))
    }

    async fn try_top(&self, name: &[u8]) -> Result<FileHandle, Error> {
        let root = self.client.mount(b"/").await?;
        let set = SetAttributes {
            mode: Some(0o755),
            ..SetAttributes::default()
        };
        match self.client.mkdir(&root, name, &set).await {
            Ok(found) => Ok(found.handle),
            Err(Error::Status(Status::Exist)) => Ok(self.client.lookup(&root, name).await?.handle),
            Err(error) => Err(error),
        }
    }

    /// One random operation.
    async fn step(&mut self) -> Result<(), String> {
        if self.stage.incarnation.get() != self.incarnation {
            self.resynchronise().await?;
        }
        if self.random.chance(THINKING_PER_MILLE) {
            let time = self.random.below(THINKING_TIME_MAX_NS);
            self.stage.faults.sleep(Duration::from_nanos(time)).await;
        }
        let operation = self.choose();
        self.check(operation).await
    }

    /// Does an operation and compares its reply with the oracle.
    async fn check(&mut self, operation: Operation) -> Result<(), String> {
        let (before, healed) = (self.stage.incarnation.get(), self.stage.healed.get());
        let started = self.stage.faults.now_ns();
        let (operation, outcome) = self.perform(operation).await?;
        // The server's reply cache ends with the server, and forgets each reply after a while.
        let restarted = self.stage.incarnation.get() != before || self.incarnation != before;
        let forgotten = self.stage.faults.now_ns() - started >= nanoseconds(DRC_AGE_MAX);
        let execution = match &outcome {
            None => Execution::Unknown,
            Some(_) if restarted || forgotten => Execution::OnceOrMore,
            Some(_) => Execution::Once,
        };
        let (number, faults) = (self.number, &self.stage.faults);
        faults.note(format_args!(
            "worker {number} {execution:?} {}",
            summary(&operation, &outcome)
        ));
        self.stage.count(|summary| {
            summary.operations += 1;
            summary.unanswered += u64::from(outcome.is_none());
        });
        if outcome.is_none() && healed {
            return Err(format!("{operation} had no answer although all is healed"));
        }
        let stage = &self.stage;
        let excuses = |status| !healed && stage.plan.excuses(status);
        self.oracle
            .learn(&operation, outcome.as_ref(), execution, excuses)
    }

    /// After a restart of the server, reads uncommitted data back, commits them and compares them with the model's
    /// possible contents. Starts over until all of that is done within one incarnation of the server.
    async fn resynchronise(&mut self) -> Result<(), String> {
        loop {
            let incarnation = self.stage.incarnation.get();
            let unsynced: Vec<Key> = self
                .files()
                .filter(|key| self.oracle.may_lose(*key))
                .collect();
            let mut contents = Vec::new();
            for key in unsynced {
                contents.push((key, self.read_back(key).await?));
            }
            if self.stage.incarnation.get() != incarnation {
                continue;
            }
            for (key, content) in contents {
                let Some(content) = content else {
                    continue;
                };
                self.oracle.adopt(key, &content)?;
            }
            self.incarnation = incarnation;
            return Ok(());
        }
    }

    fn files(&self) -> impl Iterator<Item = Key> + '_ {
        let objects = self.oracle.state().objects();
        objects
            .filter(|(_, kind)| *kind == FileKind::Regular)
            .map(|(key, _)| key)
    }

    /// The whole of a file, committed; `None` for one that this worker has no handle of.
    async fn read_back(&self, key: Key) -> Result<Option<Vec<u8>>, String> {
        let Some(handle) = self.handles.get(&key) else {
            return Ok(None);
        };
        let mut last = String::new();
        for _ in 0..ATTEMPTS_MAX {
            match self.try_read_back(handle).await {
                Ok(content) => return Ok(Some(content)),
                Err(Error::Status(Status::Stale)) => return Ok(None),
                Err(error) => last = error.to_string(),
            }
            self.stage.faults.sleep(Duration::from_millis(100)).await;
        }
        Err(format!("file {key} cannot be read back: {last}"))
    }

    async fn try_read_back(&self, handle: &FileHandle) -> Result<Vec<u8>, Error> {
        let mut content = Vec::new();
        loop {
            let buffer = gannet_runtime::Buffer::zeroed(READ_LEN as usize);
            let read = self
                .client
                .read(handle, content.len() as u64, READ_LEN, buffer)
                .await?;
            let bytes = read.buffer.get(..read.count as usize).unwrap_or_default();
            content.extend_from_slice(bytes);
            if read.eof || read.count == 0 {
                break;
            }
        }
        self.client.commit(handle, 0, 0).await?;
        Ok(content)
    }

    /// Compares the whole tree with the model.
    async fn verify(&mut self) -> Result<(), String> {
        if self.stage.incarnation.get() != self.incarnation {
            self.resynchronise().await?;
        }
        let objects: Vec<(Key, FileKind)> = self.oracle.state().objects().collect();
        for (key, kind) in objects {
            self.learn_handle(key).await?;
            if !self.handles.contains_key(&key) {
                continue;
            }
            self.check(Operation::Getattr { object: key }).await?;
            match kind {
                FileKind::Directory => self.check(Operation::List { directory: key }).await?,
                FileKind::Symlink => self.check(Operation::Readlink { link: key }).await?,
                _ => self.verify_file(key).await?,
            }
        }
        Ok(())
    }

    async fn verify_file(&mut self, file: Key) -> Result<(), String> {
        let len = self.oracle.state().content(file).map_or(0, <[u8]>::len) as u64;
        let mut offset = 0;
        while offset <= len {
            self.check(Operation::Read {
                file,
                offset,
                len: READ_LEN,
            })
            .await?;
            offset += u64::from(READ_LEN);
        }
        Ok(())
    }

    /// Looks up an object whose handle was lost with a reply.
    async fn learn_handle(&mut self, key: Key) -> Result<(), String> {
        if self.handles.contains_key(&key) {
            return Ok(());
        }
        let state = self.oracle.state();
        let directories: Vec<Key> = state.objects().map(|(key, _)| key).collect();
        let place = directories.into_iter().find_map(|directory| {
            let mut entries = state.entries(directory).into_iter();
            let (name, _) = entries.find(|(_, of)| *of == key)?;
            self.handles
                .contains_key(&directory)
                .then_some((directory, name))
        });
        match place {
            Some((directory, name)) => self.check(Operation::Lookup { directory, name }).await,
            None => Ok(()),
        }
    }
}

/// An operation and its outcome in few words.
fn summary(operation: &Operation, outcome: &Option<crate::model::Outcome>) -> String {
    let outcome = match outcome {
        None => String::from("no answer"),
        Some(Err(status)) => format!("{status:?}"),
        Some(Ok(_)) => String::from("ok"),
    };
    format!("{operation}: {outcome}")
}
