//! Every state that the file system can be in, and whether one of them explains a reply.

use super::file::Loss;
use super::{Answer, Execution, Key, Model, Operation, Outcome};
use gannet_vfs::Status;

/// Compares replies with the model.
#[derive(Debug, Default)]
pub struct Oracle {
    states: Vec<Model>,
}

/// Most states that are followed at once.
const STATES_MAX: usize = 64;
/// The most executions of one operation that are followed: a third changes nothing that a second did not.
const EXECUTIONS_MAX: usize = 2;

impl Oracle {
    /// An empty file system.
    pub fn new() -> Oracle {
        Oracle {
            states: vec![Model::default()],
        }
    }

    /// One of the states the file system can be in.
    pub fn state(&self) -> &Model {
        &self.states[0]
    }

    /// The objects that `name` names in the possible states that have the name.
    pub fn named(&self, directory: Key, name: &[u8]) -> impl Iterator<Item = Key> {
        let found = self
            .states
            .iter()
            .map(move |state| state.lookup(directory, name));
        found.filter_map(Result::ok)
    }

    /// True when a crash could take something of `file`, in some state the file system can be in.
    pub fn may_lose(&self, file: Key) -> bool {
        self.states.iter().any(|state| state.is_unsynced(file))
    }

    /// Learns the outcome of an operation; `None` without a reply. `may_fail` is true for errors of the disk that are
    /// excused, as operations that did nothing.
    ///
    /// # Errors
    /// No possible state of the file system explains the outcome; the text has the expected outcomes.
    pub fn learn(
        &mut self,
        operation: &Operation,
        outcome: Option<&Outcome>,
        execution: Execution,
        may_fail: impl Fn(Status) -> bool,
    ) -> Result<(), String> {
        let excused = matches!(outcome, Some(Err(status)) if may_fail(*status));
        let (mut next, mut expected) = (Vec::new(), Vec::new());
        for state in &self.states {
            if excused || execution == Execution::Unknown {
                next.push(state.clone());
            }
            let executions = match execution {
                Execution::Once if excused => 0,
                Execution::Once => 1,
                Execution::OnceOrMore | Execution::Unknown => EXECUTIONS_MAX,
            };
            let mut after = state.clone();
            for _ in 0..executions {
                let unsynced = after.clone();
                let crashed = execution != Execution::Once;
                let loss = if crashed { Loss::Possible } else { Loss::None };
                let answer = after.execute(operation, loss);
                let explained = match outcome {
                    None => true,
                    Some(outcome) => {
                        excused
                            || answer == *outcome
                            || (crashed && unsynced.permits_after_crash(operation, outcome))
                    }
                };
                expected.push(answer);
                if explained {
                    next.push(after.clone());
                }
            }
        }
        dedup(&mut next);
        next.truncate(STATES_MAX);
        if next.is_empty() {
            return Err(contradiction(operation, outcome, &expected));
        }
        self.states = next;
        Ok(())
    }

    /// Adopts the content of a file that was read back whole after a crash, which may have taken unsynced bytes. That
    /// content is durable now.
    ///
    /// # Errors
    /// The content has bytes that no operation wrote there.
    pub fn adopt(&mut self, file: Key, content: &[u8]) -> Result<(), String> {
        self.states.retain(|state| {
            state
                .file(file)
                .is_ok_and(|file| file.permits(0, content, true))
        });
        if self.states.is_empty() {
            return Err(format!(
                "file {file}: {} bytes that nobody wrote so",
                content.len()
            ));
        }
        for state in &mut self.states {
            if let Ok(file) = state.file_mut(file) {
                file.data = content.to_vec();
                file.sync();
            }
        }
        dedup(&mut self.states);
        Ok(())
    }
}

/// Describes the outcome and the possible ones, and for bytes the position of their first difference.
fn contradiction(operation: &Operation, seen: Option<&Outcome>, possible: &[Outcome]) -> String {
    let text = |outcome: &Outcome| match outcome {
        Ok(answer) => answer.to_string(),
        Err(status) => format!("{status:?}"),
    };
    let difference = |outcome: &Outcome| match (seen, outcome) {
        (Some(Ok(Answer::Bytes { bytes: seen, .. })), Ok(Answer::Bytes { bytes, .. })) => {
            let same = seen
                .iter()
                .zip(bytes)
                .take_while(|(one, other)| one == other)
                .count();
            format!(" (the same up to byte {same})")
        }
        _ => String::new(),
    };
    let possible: Vec<String> = possible
        .iter()
        .map(|outcome| text(outcome) + &difference(outcome))
        .collect();
    let seen = seen.map_or_else(|| String::from("nothing"), text);
    format!(
        "{operation} gave {seen}; possible: {}",
        possible.join(", or ")
    )
}

fn dedup(states: &mut Vec<Model>) {
    let mut kept: Vec<Model> = Vec::new();
    for state in states.drain(..) {
        if !kept.contains(&state) {
            kept.push(state);
        }
    }
    *states = kept;
}
