//! Reads of short ranges of a file, again and again, by clients that hold references to servers' memory. The file's
//! attributes are read too, and the same client may change the file in between.

use super::super::past::Apply;
use super::bytes::{compare, write_once};
use super::{FILE_MAX, UNIT, Worker, Write};
use gannet_runtime::Buffer;
use gannet_sim::Random;
use gannet_vfs::{FileHandle, SetAttributes, Vfs};
use gannet_volume::client::VolumeFs;
use std::rc::Rc;
use std::time::Duration;

/// Most bytes of one range.
const RANGE_MAX: u64 = 64 << 10;
/// Longest pause between two rounds, in nanoseconds.
const PAUSE_MAX_NS: u64 = 50_000_000;

/// The client that reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Through {
    /// The worker's own.
    Own,
    /// Another client on its machine, which requests no attributes.
    Rival,
    /// A client with a data cache, if this simulation has such clients.
    Cached,
}

/// One operation of a worker: the ranges to read, how often, and the change in between.
#[derive(Debug, Clone)]
pub(super) struct Ranges {
    pub(super) name: usize,
    through: Through,
    change: Option<Change>,
    reads: Vec<ReadRange>,
    rounds: usize,
    pause: Duration,
    /// Read into memory of the worker, in place of the client's.
    into: bool,
}

/// The bytes of one read.
#[derive(Debug, Clone, Copy)]
struct ReadRange {
    offset: u64,
    /// Number of bytes.
    count: u32,
}

#[derive(Debug, Clone)]
enum Change {
    Write(Write),
    Mode(u32),
    Size(u64),
}

impl Ranges {
    pub(super) fn draw(random: &Random, name: usize) -> Ranges {
        Ranges {
            name,
            through: match random.below(4) {
                0..=1 => Through::Own,
                2 => Through::Rival,
                _ => Through::Cached,
            },
            change: match random.below(8) {
                0..=1 => Some(Change::Write(Write::draw(random, name))),
                2 => Some(Change::Mode(random.below(0o1000) as u32)),
                3 => Some(Change::Size(random.below(FILE_MAX))),
                _ => None,
            },
            reads: (0..=random.index(6)).map(|_| draw_range(random)).collect(),
            rounds: random.index(6) + 1,
            pause: Duration::from_nanos(random.below(PAUSE_MAX_NS)),
            into: random.chance(300),
        }
    }

    pub(super) fn describe(&self) -> String {
        let (count, rounds, through) = (self.reads.len(), self.rounds, self.through);
        let change = match &self.change {
            None => "nothing",
            Some(Change::Write(_)) => "a write",
            Some(Change::Mode(_)) => "a mode",
            Some(Change::Size(_)) => "a size",
        };
        let name = self.name;
        format!("{count} ranges of file {name} with {change}, {rounds} times, {through:?}")
    }
}

/// A range: mostly whole blocks, and sometimes any bytes.
fn draw_range(random: &Random) -> ReadRange {
    if random.chance(700) {
        let unit = u64::from(UNIT);
        let len = unit * [1, 1, 1, 2, 4, 16][random.index(6)];
        ReadRange {
            offset: random.below(FILE_MAX / unit) * unit,
            count: len as u32,
        }
    } else {
        ReadRange {
            offset: random.below(FILE_MAX),
            count: random.between(1, RANGE_MAX >> random.below(12)) as u32,
        }
    }
}

impl Worker {
    pub(super) async fn read_ranges(&self, ranges: &Ranges) -> Result<(), String> {
        let name = ranges.name;
        let Some(file) = self.find(name).await? else {
            return Ok(());
        };
        let (fs, through) = match (ranges.through, self.cached()) {
            (Through::Own, _) => (&self.fs, Through::Own),
            (Through::Cached, Some(cached)) => (cached, Through::Cached),
            (Through::Rival | Through::Cached, _) => (self.rival(), Through::Rival),
        };
        // The change comes between two reads, unless an earlier incarnation may have made it.
        let begun = &self.seat().reached.begun;
        let change_at = usize::from(begun.get() == 0 && ranges.rounds > 1);
        for round in 0..ranges.rounds {
            if let Some(change) = ranges.change.as_ref().filter(|_| round == change_at) {
                begun.set(1);
                self.change(fs, through, name, &file, change).await?;
            }
            for range in &ranges.reads {
                let ReadRange { offset, count } = *range;
                let read = self.read_range(fs, name, &file, *range, through, ranges.into);
                read.await
                    .map_err(|why| format!("{count} bytes at {offset} by {through:?}: {why}"))?;
            }
            self.see_attributes(fs, name, &file).await?;
            self.stage.faults.sleep(ranges.pause).await;
        }
        Ok(())
    }

    async fn change(
        &self,
        fs: &VolumeFs,
        through: Through,
        name: usize,
        file: &FileHandle,
        change: &Change,
    ) -> Result<(), String> {
        let apply = |content: &[u8]| match change {
            Change::Write(write) => write.apply(content),
            Change::Mode(_) => content.to_vec(),
            Change::Size(size) => {
                let mut content = content.to_vec();
                content.resize(*size as usize, 0);
                content
            }
        };
        let before = self.content(name).unwrap_or_default();
        match change {
            Change::Write(write) => {
                while let Err(error) = write_once(fs, &self.caller, file, write).await {
                    self.try_later("write", error).await?;
                }
            }
            Change::Mode(_) | Change::Size(_) => self.set_attributes(fs, file, change).await?,
        }
        if let Change::Mode(mode) = change {
            self.stage.modes[name].set(Some(*mode));
        }
        let own = (self.number, &apply as &Apply);
        let by = (through == Through::Cached).then_some(own);
        let now = self.stage.faults.now_ns();
        self.stage.past.changed(name, &before, now, by);
        self.stage.model[name].replace(Some(apply(&before)));
        Ok(())
    }

    async fn set_attributes(
        &self,
        fs: &VolumeFs,
        file: &FileHandle,
        change: &Change,
    ) -> Result<(), String> {
        let change = match change {
            Change::Mode(mode) => SetAttributes {
                mode: Some(*mode),
                ..SetAttributes::default()
            },
            Change::Size(size) => SetAttributes {
                size: Some(*size),
                ..SetAttributes::default()
            },
            Change::Write(_) => return Ok(()),
        };
        loop {
            let setting = fs.set_attributes(&self.caller, file, &change, None);
            match self.in_time("a setattr", setting).await?.result {
                Ok(()) => return Ok(()),
                Err(error) => self.try_later("setattr", error).await?,
            }
        }
    }

    /// Reads a range until there is a reply, and compares it with the file's content, or a content within the cache's
    /// age.
    async fn read_range(
        &self,
        fs: &VolumeFs,
        name: usize,
        file: &FileHandle,
        range: ReadRange,
        through: Through,
        into: bool,
    ) -> Result<(), String> {
        let (bytes, eof, began) = loop {
            let began = self.stage.faults.now_ns();
            let read = if into {
                self.read_into(fs, file, range).await?
            } else {
                self.read_out(fs, file, range).await?
            };
            match read {
                Ok((bytes, eof)) => break (bytes, eof, began),
                Err(error) => self.try_later("read", error).await?,
            }
        };
        let ReadRange { offset, count } = range;
        let content = self.content(name).unwrap_or_default();
        let age = self.stage.cache_age(self.seat().client);
        let olds = match (through, age) {
            (Through::Cached, Some(age)) => {
                let since = began.saturating_sub(age.as_nanos() as u64);
                self.stage.past.states(self.number, name, since)
            }
            _ => Vec::new(),
        };
        let states = std::iter::once(&content[..]).chain(olds.iter().map(Rc::as_ref));
        let parts: Vec<&[u8]> = states.map(|state| part(state, offset, count)).collect();
        compare(&bytes, &parts)?;
        let is_end = offset + bytes.len() as u64 >= content.len() as u64;
        if eof && !is_end && olds.is_empty() {
            return Err(String::from("the end is said to be here"));
        }
        if !eof && bytes.len() < count as usize {
            return Err(String::from("bytes are missing"));
        }
        Ok(())
    }

    async fn read_out(
        &self,
        fs: &VolumeFs,
        file: &FileHandle,
        range: ReadRange,
    ) -> Result<Result<(Vec<u8>, bool), gannet_vfs::Status>, String> {
        let ReadRange { offset, count } = range;
        let reading = fs.read(&self.caller, file, offset, count);
        let reply = match self.in_time("a read", reading).await? {
            Ok(reply) => reply,
            Err(error) => return Ok(Err(error)),
        };
        let mut bytes = vec![0; reply.count as usize];
        let read = reply.file.try_read_at(offset, &mut bytes);
        let read = read.map_err(|error| format!("what was read cannot be: {error}"))?;
        if read == bytes.len() {
            Ok(Ok((bytes, reply.eof)))
        } else {
            Err(format!("{read} bytes of {} are there", bytes.len()))
        }
    }

    async fn read_into(
        &self,
        fs: &VolumeFs,
        file: &FileHandle,
        range: ReadRange,
    ) -> Result<Result<(Vec<u8>, bool), gannet_vfs::Status>, String> {
        let ReadRange { offset, count } = range;
        let buffer = Buffer::from_vec(vec![0xaa; count as usize]);
        let reading = fs.read_into(&self.caller, file, offset, count, buffer);
        let (read, buffer) = self.in_time("a read", reading).await?;
        let read = match read {
            Ok(read) => read,
            Err(error) => return Ok(Err(error)),
        };
        let buffer = buffer.ok_or("the memory is gone")?;
        let bytes = buffer.get(..read.count as usize);
        let bytes = bytes.ok_or("more was read than there is room")?;
        Ok(Ok((bytes.to_vec(), read.eof)))
    }

    /// Compares attributes with the model: they are current, with a data cache or without.
    async fn see_attributes(
        &self,
        fs: &VolumeFs,
        name: usize,
        file: &FileHandle,
    ) -> Result<(), String> {
        let attributes = loop {
            match self.in_time("a getattr", fs.attributes(file)).await? {
                Ok(attributes) => break attributes,
                Err(error) => self.try_later("getattr", error).await?,
            }
        };
        let size = self.content(name).unwrap_or_default().len() as u64;
        if attributes.size != size {
            return Err(format!("{} bytes it has, not {size}", attributes.size));
        }
        match self.stage.modes[name].get() {
            Some(mode) if mode != attributes.mode => {
                Err(format!("the mode is {:o}, not {mode:o}", attributes.mode))
            }
            _ => Ok(()),
        }
    }
}

/// The bytes of a range in a file that holds `state`.
fn part(state: &[u8], offset: u64, count: u32) -> &[u8] {
    let start = (offset as usize).min(state.len());
    let end = start.saturating_add(count as usize).min(state.len());
    &state[start..end]
}
