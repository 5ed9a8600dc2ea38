//! `/slow.json`: the operations that took long.

use super::listener::Rights;
use gannet_metrics::{SlowOperation, SlowOperations};
use serde_json::{Map, Value as Json, json};
use std::cell::Cell;
use std::time::{Duration, Instant};

/// How long a reader's own bound holds after its last question.
const WATCH: Duration = Duration::from_secs(15);

/// A reader's own bound for what is slow.
#[derive(Default)]
pub(super) struct Watch(Cell<Option<Instant>>);

impl Watch {
    /// Goes back to the usual bound if nobody has asked for another lately.
    pub(super) fn look(&self, slow: &SlowOperations, now: Instant) {
        if self.0.get().is_some_and(|until| until <= now) {
            self.0.set(None);
            slow.watch_ends();
        }
    }

    /// The answer to a question with this query: `seen` operations are known to the reader already, and `over_ns` is
    /// its own bound, which only the Unix socket may give.
    pub(super) fn answer(&self, slow: &SlowOperations, query: &str, rights: Rights) -> String {
        let over = number(query, "over_ns").filter(|_| rights == Rights::All);
        if let Some(over) = over {
            slow.watch(Duration::from_nanos(over));
            self.0.set(Some(Instant::now() + WATCH));
        }
        let (operations, count) = slow.since(number(query, "seen").unwrap_or(0));
        let first = count - operations.len() as u64 + 1;
        let operations = (first..).zip(&operations);
        let operations = operations.map(|(number, operation)| told(number, operation, rights));
        let answer = json!({
            "over_seconds": slow.threshold().map(|over| over.as_secs_f64()),
            "count": count,
            "operations": operations.collect::<Vec<_>>(),
        });
        answer.to_string() + "\n"
    }
}

/// The number with this name in the query of a URL.
fn number(query: &str, name: &str) -> Option<u64> {
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.find(|(key, _)| *key == name)?.1.parse().ok()
}

/// An operation, as far as the reader may see it.
fn told(number: u64, operation: &SlowOperation, rights: Rights) -> Json {
    let parts: Map<String, Json> = operation
        .parts
        .each()
        .map(|(stage, time)| (stage.name().to_owned(), json!(time.as_secs_f64())))
        .collect();
    let client = operation.client.filter(|_| rights != Rights::Numbers);
    json!({
        "number": number,
        "ended": operation.ended.as_secs_f64(),
        "protocol": operation.protocol,
        "procedure": operation.procedure,
        "status": operation.status,
        "client": client.map(|address| address.to_string()),
        "transport": operation.transport,
        "subject": (rights == Rights::All).then_some(&operation.subject),
        "seconds": operation.parts.whole().as_secs_f64(),
        "parts": parts,
    })
}
