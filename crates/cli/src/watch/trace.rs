//! `gannet trace`: the operations of a server that took long.

use super::{ask, run};
use crate::cli::TraceOptions;
use crate::failure::Failure;
use crate::output;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The time between two questions.
const EVERY: Duration = Duration::from_millis(500);

/// `/slow.json`.
#[derive(Debug, Deserialize)]
struct Slow {
    /// The server's bound; `None` while no operation is slow to it.
    over_seconds: Option<f64>,
    /// Slow operations so far.
    count: u64,
    operations: Vec<SlowOperation>,
}

/// An operation that took long.
#[derive(Debug, Deserialize, Serialize)]
struct SlowOperation {
    number: u64,
    /// Its end, in seconds since the Unix epoch.
    ended: f64,
    protocol: String,
    procedure: String,
    status: String,
    client: Option<String>,
    transport: String,
    subject: Option<String>,
    seconds: f64,
    /// In the order of the server's JSON, which is that of the names.
    parts: serde_json::Map<String, serde_json::Value>,
}

/// `gannet trace`.
///
/// # Errors
/// The server does not answer; it is asked over TCP for what only its Unix socket does.
pub fn trace(options: &TraceOptions) -> Result<(), Failure> {
    let place = &options.admin;
    if options.over.is_some() && matches!(place, crate::cli::AdminPlace::Tcp(_)) {
        let why = "over TCP a server is only read";
        return Err(Failure::usage("--over has no effect", why)
            .hint("give the path of the server's Unix socket, or start it with --slow"));
    }
    run(async {
        let over = options
            .over
            .map_or_else(String::new, |over| format!("&over_ns={}", over.as_nanos()));
        let mut seen = 0;
        let mut is_first = true;
        loop {
            let path = format!("/slow.json?seen={seen}{over}");
            let answer = ask::ask::<Slow>(place, &path).await;
            let answer = answer.map_err(|error| error.explain(place))?;
            if std::mem::take(&mut is_first) && answer.over_seconds.is_none() {
                output::report(
                    "no operation is slow to this server: start it with --slow TIME, or give --over TIME at its Unix socket",
                );
            }
            let least = options.over.map_or(0.0, |over| over.as_secs_f64());
            let slow = answer.operations.iter().filter(|it| it.seconds >= least);
            for operation in slow {
                if options.json {
                    output::json(operation)?;
                } else {
                    output::line(&operation.line())?;
                }
            }
            if options.once {
                return Ok(());
            }
            // Fewer than before: the server was started anew.
            seen = if answer.count < seen { 0 } else { answer.count };
            tokio::time::sleep(EVERY).await;
        }
    })
}

impl SlowOperation {
    /// Its line: when, what, by whom, how long, and why.
    fn line(&self) -> String {
        let mut parts: Vec<(&String, f64)> = (self.parts.iter())
            .map(|(name, seconds)| (name, seconds.as_f64().unwrap_or(0.0)))
            .collect();
        parts.sort_by(|(_, one), (_, other)| other.total_cmp(one));
        let parts = parts.into_iter().map(|(name, seconds)| {
            let share = seconds / self.seconds.max(f64::MIN_POSITIVE);
            (share >= 0.01).then(|| format!(" {name}={}", milliseconds(seconds)))
        });
        let parts: String = parts.flatten().collect();
        format!(
            "{} {} {} {} {}:{parts}",
            clock(self.ended),
            milliseconds(self.seconds),
            self.client.as_deref().unwrap_or("-"),
            self.subject.as_deref().unwrap_or(&self.procedure),
            self.status,
        )
    }
}

fn milliseconds(seconds: f64) -> String {
    format!("{:.1}ms", seconds * 1e3)
}

/// The time in UTC, to a millisecond.
fn clock(since_epoch: f64) -> String {
    let since_epoch = Duration::try_from_secs_f64(since_epoch).unwrap_or_default();
    let milliseconds = i64::try_from(since_epoch.as_millis()).unwrap_or(0);
    let time = jiff::Timestamp::from_millisecond(milliseconds).unwrap_or_default();
    format!("{time:.3}")
}
