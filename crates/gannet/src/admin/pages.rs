//! The answers: text for Prometheus, JSON for scripts.

use super::part::{Finding, Part, PartState};
use crate::server::{Health, Reading, Tally};
use gannet_metrics::{Exposition, Family, Kind, Labels, LatencyReading, Value};
use serde_json::{Map, Value as Json, json};
use std::sync::Arc;
use std::time::Duration;

const UPTIME: Family = Family::gauge(
    "gannet_uptime_seconds",
    "Time since the server began to serve.",
);
const READY: Family = Family::gauge(
    "gannet_ready",
    "1 when the server takes calls, 0 when it is stopping or a core is stuck.",
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
        (health, _) => (*health == Health::Ready, of_cores(health)),
    };
    if !parts.is_empty() {
        let findings: Vec<&Finding> = parts.iter().flat_map(|(_, it)| &it.findings).collect();
        answer["findings"] = json!(findings);
    }
    (is_ready, answer)
}

fn of_cores(health: &Health) -> Json {
    match health {
        Health::Ready => json!({ "state": "ready" }),
        Health::Stopping => json!({
            "state": "stopping",
            "why": "the server was told to stop, and answers the calls under way",
        }),
        Health::Stuck(cores) => json!({
            "state": "stuck",
            "why": format!("cores {cores:?} did not answer within a second: see the log for what they wait for"),
            "cores": cores,
        }),
    }
}

/// `/status.json`.
pub(super) fn status(
    tally: &Tally,
    reading: &Reading,
    parts: &[Arc<dyn Part>],
    uptime: Duration,
) -> String {
    let parts = states(parts);
    let address = |address: Option<std::net::SocketAddr>| address.map(|it| it.to_string());
    let mut status = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "health": state(&reading.health, &parts).1,
        "uptime_seconds": uptime.as_secs_f64(),
        "cores": tally.cores(),
        "slow_seconds": tally.slow().threshold().map(|over| over.as_secs_f64()),
        "nfs_tcp": address(tally.tcp_address()),
        "nfs_rdma": address(tally.rdma_address()),
        "metrics": families(&reading.counted),
    });
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
