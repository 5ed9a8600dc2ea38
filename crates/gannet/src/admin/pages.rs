//! The answers: text for Prometheus, JSON for scripts.

use super::part::{Finding, Part, PartState};
use super::subject::{Subject, state as state_of};
use crate::server::{Health, Reading};
use gannet_metrics::{Exposition, Family, Kind, Labels, LatencyReading, Value};
use serde_json::{Map, Value as Json, json};
use std::sync::Arc;
use std::time::Duration;

const UPTIME: Family = Family::gauge(
    "gannet_uptime_seconds",
    "Time since the process began to serve.",
);
const READY: Family = Family::gauge(
    "gannet_ready",
    "1 when the process does its work, 0 when it is stopping or stuck, or a mount waits for a server.",
);

/// `/metrics`.
pub(super) fn metrics(reading: Reading, parts: &[Arc<dyn Part>], uptime: Duration) -> String {
    let Reading {
        health,
        mut counted,
    } = reading;
    counted.real(&UPTIME, &[], uptime.as_secs_f64());
    let (is_ready, _) = state(&health, &states(parts));
    counted.number(&READY, &[], u64::from(is_ready));
    counted.into_text()
}

/// `/health`: whether it is ready, and the answer.
pub(super) fn health(health: &Health, parts: &[Arc<dyn Part>]) -> (bool, String) {
    let (is_ready, answer) = state(health, &states(parts));
    (is_ready, answer.to_string() + "\n")
}

/// The states of the parts that have one, by their names.
fn states(parts: &[Arc<dyn Part>]) -> Vec<(&'static str, PartState)> {
    let states = parts.iter();
    states
        .filter_map(|part| Some((part.name(), part.state()?)))
        .collect()
}

/// Whether the process does its work, and the answer: that of its cores, unless only a part of it cannot go on.
fn state(health: &Health, parts: &[(&str, PartState)]) -> (bool, Json) {
    let mut not_ready = parts.iter().filter_map(|(_, part)| part.not_ready.as_ref());
    let (is_ready, mut answer) = match (health, not_ready.next()) {
        (Health::Ready, Some(part)) => {
            let answer = json!({ "state": part.state, "why": part.why });
            (false, answer)
        }
        (health, _) => state_of(health),
    };
    if !parts.is_empty() {
        let findings: Vec<&Finding> = parts.iter().flat_map(|(_, it)| &it.findings).collect();
        answer["findings"] = json!(findings);
    }
    (is_ready, answer)
}

/// `/status.json`.
pub(super) fn status(
    subject: &dyn Subject,
    reading: &Reading,
    parts: &[Arc<dyn Part>],
    uptime: Duration,
) -> String {
    let parts = states(parts);
    let mut status = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "health": state(&reading.health, &parts).1,
        "uptime_seconds": uptime.as_secs_f64(),
        "slow_seconds": subject.slow().threshold().map(|over| over.as_secs_f64()),
        "metrics": families(&reading.counted),
    });
    for (name, value) in subject.status() {
        status[name] = value;
    }
    for (name, part) in parts {
        status[name] = part.status;
    }
    status.to_string() + "\n"
}

/// The families of an exposition, by their names.
fn families(counted: &Exposition) -> Map<String, Json> {
    let families = counted.families().map(|(family, samples)| {
        let samples: Vec<_> = samples
            .iter()
            .map(|(labels, value)| sample(labels, value))
            .collect();
        let kind = match family.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Latency => "latency",
        };
        let of_family = json!({ "kind": kind, "help": family.help, "samples": samples });
        (family.name.to_owned(), of_family)
    });
    families.collect()
}

fn sample(labels: &Labels, value: &Value) -> Json {
    let labels: Map<_, _> = labels
        .iter()
        .map(|label| (label.name.to_owned(), Json::from(label.value.as_text())))
        .collect();
    match value {
        Value::Number(number) => json!({ "labels": labels, "value": number }),
        Value::Latency(reading) => latency(labels, reading),
    }
}

fn latency(labels: Map<String, Json>, reading: &LatencyReading) -> Json {
    let quantile = |share| reading.quantile(share).map(|bound| bound.as_secs_f64());
    json!({
        "labels": labels,
        "count": reading.count(),
        "buckets": reading.buckets,
        "sum_seconds": reading.sum.as_secs_f64(),
        "p50_seconds": quantile(0.5),
        "p99_seconds": quantile(0.99),
    })
}
