//! The answers: text for Prometheus, JSON for scripts.

use crate::server::{Health, Reading, Tally};
use gannet_metrics::{Exposition, Family, Kind, Labels, LatencyReading, Value};
use serde_json::{Map, Value as Json, json};
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
pub(super) fn metrics(reading: Reading, uptime: Duration) -> String {
    let Reading {
        health,
        mut counted,
    } = reading;
    counted.real(&UPTIME, &[], uptime.as_secs_f64());
    counted.number(&READY, &[], u64::from(health == Health::Ready));
    counted.into_text()
}

/// `/health`: whether it is ready, and the answer.
pub(super) fn health(health: &Health) -> (bool, String) {
    let answer = state(health).to_string() + "\n";
    (*health == Health::Ready, answer)
}

fn state(health: &Health) -> Json {
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
pub(super) fn status(tally: &Tally, reading: &Reading, uptime: Duration) -> String {
    let address = |address: Option<std::net::SocketAddr>| address.map(|it| it.to_string());
    let status = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "health": state(&reading.health),
        "uptime_seconds": uptime.as_secs_f64(),
        "cores": tally.cores(),
        "nfs_tcp": address(tally.tcp_address()),
        "nfs_rdma": address(tally.rdma_address()),
        "metrics": families(&reading.counted),
    });
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
