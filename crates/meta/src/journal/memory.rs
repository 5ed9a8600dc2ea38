//! A journal's file in memory, for simulations and tests.

use super::JournalFile;
use super::record::{BLOCK_LEN, Header};
use gannet_wire::volume::Token;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A file that outlives the process that writes to it, and loses data that were not synced when its machine goes down.
#[derive(Clone)]
pub struct JournalMemory {
    state: Arc<Mutex<State>>,
}

struct State {
    durable: Vec<u8>,
    /// The bytes as a running process reads them.
    seen: Vec<u8>,
    /// The ranges in which `seen` may differ from `durable`, as starts and ends.
    written: Vec<(usize, usize)>,
}

/// Bytes that a disk writes completely or not at all.
const SECTOR_LEN: usize = 512;

impl JournalMemory {
    /// An empty journal of volume `identity`, with halves of `half_blocks` blocks of 4 KiB.
    pub fn new(identity: Token, half_blocks: u32) -> JournalMemory {
        let header = Header {
            identity,
            half_len: u64::from(half_blocks) * BLOCK_LEN as u64,
        };
        let mut bytes = header.to_block();
        bytes.resize(header.total_len() as usize, 0);
        JournalMemory::holding(bytes)
    }

    /// A file of these bytes.
    pub fn holding(bytes: Vec<u8>) -> JournalMemory {
        let state = State {
            seen: bytes.clone(),
            durable: bytes,
            written: Vec::new(),
        };
        JournalMemory {
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// The bytes that are durable.
    pub fn bytes(&self) -> Vec<u8> {
        self.state().durable.clone()
    }

    /// The machine goes down. Of what was not synced stay the sectors of which `stays` says so.
    pub fn crash(&self, stays: &mut dyn FnMut() -> bool) {
        let mut state = self.state();
        let State {
            durable,
            seen,
            written,
        } = &mut *state;
        for (start, end) in written.drain(..) {
            let mut at = start;
            while at < end {
                let sector_end = (at / SECTOR_LEN + 1) * SECTOR_LEN;
                let part = at..sector_end.min(end);
                at = part.end;
                if stays()
                    && let Some(from) = seen.get(part.clone())
                {
                    let to = durable.get_mut(part);
                    to.into_iter().for_each(|to| to.copy_from_slice(from));
                }
            }
        }
        seen.clone_from(durable);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl JournalFile for JournalMemory {
    fn length(&self) -> io::Result<u64> {
        Ok(self.state().seen.len() as u64)
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let state = self.state();
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let from = state.seen.get(start..start.saturating_add(into.len()));
        into.copy_from_slice(from.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let end = start.saturating_add(bytes.len());
        let to = state.seen.get_mut(start..end);
        to.ok_or(io::ErrorKind::StorageFull)?.copy_from_slice(bytes);
        state.written.push((start, end));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.state();
        let State {
            durable,
            seen,
            written,
        } = &mut *state;
        for (start, end) in written.drain(..) {
            let parts = (durable.get_mut(start..end), seen.get(start..end));
            if let (Some(to), Some(from)) = parts {
                to.copy_from_slice(from);
            }
        }
        Ok(())
    }
}
