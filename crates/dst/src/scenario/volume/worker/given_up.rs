//! Abandoned truncations: each takes effect or not, but never after a later change.

use super::{FILE_MAX, Mount, Worker, Write, name_of, write_once};
use gannet_runtime::timeout;
use gannet_sim::Random;
use gannet_vfs::{FileHandle, SetAttributes, Status, Vfs};
use std::time::Duration;

/// A truncation, and a write of the same file some time later.
#[derive(Debug, Clone)]
pub(super) struct GivenUp {
    size: u64,
    after: Duration,
    pub(super) write: Write,
}

impl GivenUp {
    pub(super) fn draw(random: &Random, name: usize) -> GivenUp {
        let after_max_us = [1000, 100_000, 30_000_000][random.index(3)];
        GivenUp {
            size: random.below(FILE_MAX),
            after: Duration::from_micros(random.below(after_max_us)),
            write: Write::draw(random, name),
        }
    }

    pub(super) fn describe(&self) -> String {
        let GivenUp { size, after, write } = self;
        let (len, offset, name) = (write.bytes.len(), write.offset, write.name);
        format!(
            "a cut of file {name} to {size}, given up after {after:?}, and {len} bytes at {offset}"
        )
    }
}

impl Worker {
    /// Does the operation by NFS if the machine mounts the volume so, otherwise by the worker's client.
    pub(super) async fn give_up(&self, given_up: &GivenUp) -> Result<(), String> {
        let (stage, client) = (&self.stage, self.seat().client);
        match (self.mount.as_deref(), &stage.gateway) {
            (Some(Mount::Export(_)), Some(gateway)) => {
                let (fs, root) = gateway.mount(stage, &stage.clients[client]).await;
                self.give_up_with(&fs, &root, given_up).await
            }
            _ => {
                let directory = &self.directory;
                self.give_up_with(&self.fs, directory, given_up).await
            }
        }
    }

    async fn give_up_with<V: Vfs>(
        &self,
        fs: &V,
        directory: &FileHandle,
        GivenUp { size, after, write }: &GivenUp,
    ) -> Result<(), String> {
        let name = write.name;
        let Some(seen_here) = self.find(name).await? else {
            return Ok(());
        };
        let file = loop {
            match fs.lookup(&self.caller, directory, &name_of(name)).await.0 {
                Ok((file, _)) => break file,
                Err(error) => self.try_later("lookup", error).await?,
            }
        };
        let before = self.content(name).unwrap_or_default();
        let mut cut = before.clone();
        cut.resize(*size as usize, 0);
        let change = SetAttributes {
            size: Some(*size),
            ..SetAttributes::default()
        };
        let runtime = self.stage.clients[self.seat().client].runtime();
        let cutting = fs.set_attributes(&self.caller, &file, &change, None);
        match timeout(&runtime, *after, cutting).await {
            Ok(done) => match done.result {
                Ok(()) | Err(Status::Jukebox | Status::Io) => {}
                Err(error) => return Err(format!("truncate fails: {error}")),
            },
            Err(_) => self.stage.count(|summary| summary.unanswered += 1),
        }
        while let Err(error) = write_once(fs, &self.caller, &file, write).await {
            self.try_later("write", error).await?;
        }
        let states = [before, cut].map(|state| write.apply(&state));
        let seen = self.read_and_compare(&seen_here, &states[0], &states[1]);
        let seen = seen.await?;
        if states.contains(&seen) {
            self.set(name, Some(seen));
        } else {
            return Err(String::from("the file is cut in part"));
        }
        Ok(())
    }
}
