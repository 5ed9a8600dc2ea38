//! An engine in memory, for simulations and tests.

use super::engine::{Engine, EngineError, FollowerNote, Row};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The fate of a request to an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestFate {
    /// It is done and answered.
    Answered,
    /// It is not done, and there is no answer.
    Lost,
    /// It is done, and there is no answer.
    AnswerLost,
}

/// The content of an engine in memory.
#[derive(Debug, Clone, Default)]
pub struct EngineState {
    /// The row.
    pub row: Option<Row>,
    /// The version of the last row.
    version: u64,
    /// The records by their numbers.
    pub records: BTreeMap<u64, Vec<u8>>,
    /// The notes of managers by their names.
    pub notes: BTreeMap<String, FollowerNote>,
}

/// The way of one manager to an engine that several use.
#[derive(Clone)]
pub struct EngineMemory {
    state: Arc<Mutex<EngineState>>,
    fate: Arc<dyn Fn() -> RequestFate + Send + Sync>,
    attempts: u32,
}

impl EngineMemory {
    /// A new engine, and a way to it: `fate` decides over each request, and a request has so many attempts.
    pub fn new(
        fate: impl Fn() -> RequestFate + Send + Sync + 'static,
        attempts: u32,
    ) -> EngineMemory {
        EngineMemory {
            state: Arc::default(),
            fate: Arc::new(fate),
            attempts,
        }
    }

    /// Another way to the same engine.
    #[must_use]
    pub fn by(&self, fate: impl Fn() -> RequestFate + Send + Sync + 'static) -> EngineMemory {
        EngineMemory {
            fate: Arc::new(fate),
            ..self.clone()
        }
    }

    /// The content.
    pub fn state(&self) -> MutexGuard<'_, EngineState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ask<T>(&self, work: impl FnOnce(&mut EngineState) -> T) -> Result<T, EngineError> {
        let lost = || EngineError::Unavailable(String::from("no answer"));
        let fate = (self.fate)();
        if fate == RequestFate::Lost {
            return Err(lost());
        }
        let done = work(&mut self.state());
        match fate {
            RequestFate::AnswerLost => Err(lost()),
            _ => Ok(done),
        }
    }
}

impl Engine for EngineMemory {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn row(&mut self) -> Result<Option<Row>, EngineError> {
        self.ask(|state| state.row.clone())
    }

    fn replace(
        &mut self,
        old: Option<&Row>,
        row: &[u8],
        record: Option<(u64, &[u8])>,
    ) -> Result<Option<u64>, EngineError> {
        self.ask(|state| {
            if state.row.as_ref() != old {
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
        attempt + 1 < self.attempts
    }
}
