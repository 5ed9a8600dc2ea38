//! An engine in memory, which several managers use, each by a way of its own.

use gannet_meta::{Engine, EngineError, FollowerNote, Row};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Attempts of a request.
const ATTEMPTS: u32 = 6;

#[derive(Default)]
struct State {
    row: Option<Row>,
    version: u64,
    records: BTreeMap<u64, Vec<u8>>,
    notes: BTreeMap<String, FollowerNote>,
}

/// The way of one manager to the engine.
#[derive(Clone, Default)]
pub struct EngineMemory {
    state: Arc<Mutex<State>>,
    /// It does not reach the engine.
    is_cut_off: Arc<AtomicBool>,
    /// One of so many requests is lost, and the answer to another one; 0: none.
    loses: u64,
    /// Numbers of requests, mixed: they choose which are lost.
    requests: Arc<AtomicU64>,
}

impl EngineMemory {
    /// Another manager's way to the same engine. Of `loses` requests, one is lost, and the answer to another one.
    #[must_use]
    pub fn of_another(&self, loses: u64, seed: u64) -> EngineMemory {
        EngineMemory {
            state: Arc::clone(&self.state),
            is_cut_off: Arc::default(),
            loses,
            requests: Arc::new(AtomicU64::new(seed)),
        }
    }

    /// Cuts the way to the engine, or mends it.
    pub fn cut_off(&self, is_cut_off: bool) {
        self.is_cut_off.store(is_cut_off, Ordering::Relaxed);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ask<T>(&self, work: impl FnOnce(&mut State) -> T) -> Result<T, EngineError> {
        let lost = || EngineError::Unavailable(String::from("no answer"));
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        // SplitMix64's last steps (Steele and others, OOPSLA 2014): near numbers choose differently.
        let mixed = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let choice = (mixed ^ (mixed >> 27)).checked_rem(self.loses);
        if self.is_cut_off.load(Ordering::Relaxed) || choice == Some(0) {
            return Err(lost());
        }
        let done = work(&mut self.state());
        if choice == Some(1) {
            return Err(lost());
        }
        Ok(done)
    }
}

impl Engine for EngineMemory {
    fn row(&mut self) -> Result<Option<Row>, EngineError> {
        self.ask(|state| state.row.clone())
    }

    fn replace(
        &mut self,
        version: Option<u64>,
        row: &[u8],
        record: Option<(u64, &[u8])>,
    ) -> Result<Option<u64>, EngineError> {
        self.ask(|state| {
            if state.row.as_ref().map(|row| row.version) != version {
                return None;
            }
            state.version += 1;
            state.row = Some(Row {
                version: state.version,
                bytes: row.to_vec(),
            });
            let record = record.map(|(number, bytes)| (number, bytes.to_vec()));
            state.records.extend(record);
            Some(state.version)
        })
    }

    fn records(&mut self, after: u64, count: usize) -> Result<Vec<(u64, Vec<u8>)>, EngineError> {
        self.ask(|state| {
            let behind = state.records.range(after + 1..).take(count);
            behind
                .map(|(number, bytes)| (*number, bytes.clone()))
                .collect()
        })
    }

    fn remove(&mut self, up_to: u64) -> Result<(), EngineError> {
        self.ask(|state| state.records.retain(|number, _| *number > up_to))
    }

    fn note(&mut self, name: &str, note: FollowerNote) -> Result<(), EngineError> {
        self.ask(|state| {
            state.notes.insert(name.to_owned(), note);
        })
    }

    fn notes(&mut self) -> Result<BTreeMap<String, FollowerNote>, EngineError> {
        self.ask(|state| state.notes.clone())
    }

    fn wait(&mut self, attempt: u32) -> bool {
        attempt + 1 < ATTEMPTS
    }
}
