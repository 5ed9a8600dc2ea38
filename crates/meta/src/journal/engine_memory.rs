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
    /// It is done when another request comes, and there is no answer.
    Late,
    /// It is done twice, and answered.
    Doubled,
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

/// A request on its way.
type Request = Box<dyn Fn(&mut EngineState) + Send>;

/// The way of one manager to an engine that several use.
#[derive(Clone)]
pub struct EngineMemory {
    state: Arc<Mutex<EngineState>>,
    /// The requests that come late.
    late: Arc<Mutex<Vec<Request>>>,
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
            late: Arc::default(),
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

    fn ask<T>(
        &self,
        work: impl Fn(&mut EngineState) -> T + Send + 'static,
    ) -> Result<T, EngineError> {
        let lost = || EngineError::Unavailable(String::from("no answer"));
        let fate = (self.fate)();
        let mut late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
        let state = &mut *self.state();
        late.drain(..).for_each(|request| request(state));
        match fate {
            RequestFate::Answered => Ok(work(state)),
            RequestFate::Lost => Err(lost()),
            RequestFate::AnswerLost => {
                work(state);
                Err(lost())
            }
            RequestFate::Late => {
                late.push(Box::new(move |state| {
                    work(state);
                }));
                Err(lost())
            }
            RequestFate::Doubled => {
                let done = work(state);
                work(state);
                Ok(done)
            }
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
        let (old, row) = (old.cloned(), row.to_vec());
        let record = record.map(|(number, bytes)| (number, bytes.to_vec()));
        self.ask(move |state| {
            if state.row != old {
                return None;
            }
            state.version += 1;
            state.row = Some(Row {
                version: state.version,
                bytes: row.clone(),
            });
            state.records.extend(record.clone());
            Some(state.version)
        })
    }

    fn records(&mut self, after: u64, count: usize) -> Result<Vec<(u64, Vec<u8>)>, EngineError> {
        self.ask(move |state| {
            let behind = state.records.range(after + 1..).take(count);
            behind
                .map(|(number, bytes)| (*number, bytes.clone()))
                .collect()
        })
    }

    fn remove(&mut self, up_to: u64) -> Result<(), EngineError> {
        self.ask(move |state| state.records.retain(|number, _| *number > up_to))
    }

    fn note(&mut self, name: &str, note: FollowerNote) -> Result<(), EngineError> {
        let name = name.to_owned();
        self.ask(move |state| {
            state.notes.insert(name.clone(), note);
        })
    }

    fn notes(&mut self) -> Result<BTreeMap<String, FollowerNote>, EngineError> {
        self.ask(|state| state.notes.clone())
    }

    fn wait(&mut self, attempt: u32) -> bool {
        attempt + 1 < self.attempts
    }
}
