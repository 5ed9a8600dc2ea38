//! An exposition as text, for Prometheus and what else reads OpenMetrics 1.0.

use crate::{Exposition, Family, Kind, Labels, LatencyReading, Value};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use std::borrow::Cow;
use std::fmt;

impl Exposition {
    /// The media type of [`Exposition::into_text`].
    pub const MEDIA_TYPE: &'static str =
        "application/openmetrics-text; version=1.0.0; charset=utf-8";

    /// The whole as text.
    pub fn into_text(self) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self));
        let mut text = String::new();
        // Writing to memory cannot fail.
        let _ = prometheus_client::encoding::text::encode(&mut text, &registry);
        text
    }
}

impl Collector for Exposition {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for (family, samples) in self.families() {
            let Family { name, help, kind } = family;
            let kind = match kind {
                Kind::Counter => MetricType::Counter,
                Kind::Gauge => MetricType::Gauge,
                Kind::Latency => MetricType::Histogram,
            };
            let mut descriptor = encoder.encode_descriptor(name, help, None, kind)?;
            for (labels, value) in samples {
                let labels = pairs(labels);
                let metric = descriptor.encode_family(&labels)?;
                encode(metric, family.kind, value)?;
            }
        }
        Ok(())
    }
}

fn pairs(labels: &Labels) -> Vec<(&'static str, Cow<'static, str>)> {
    let labels = labels.iter();
    labels
        .map(|label| (label.name, label.value.as_text()))
        .collect()
}

fn encode(mut metric: MetricEncoder<'_>, kind: Kind, value: &Value) -> fmt::Result {
    match (value, kind) {
        (Value::Number(number), Kind::Counter) => {
            metric.encode_counter::<NoLabelSet, _, f64>(number, None)
        }
        (Value::Number(number), _) => metric.encode_gauge(number),
        (Value::Latency(reading), _) => {
            let buckets = reading.buckets.iter().enumerate();
            let buckets: Vec<_> = buckets
                .map(|(index, count)| {
                    let bound = LatencyReading::bound(index);
                    (
                        bound.map_or(f64::INFINITY, |bound| bound.as_secs_f64()),
                        *count,
                    )
                })
                .collect();
            let sum = reading.sum.as_secs_f64();
            metric.encode_histogram::<NoLabelSet>(sum, reading.count(), &buckets, None)
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Counter, Exposition, Family, Gauge, Label, Latency};
    use std::time::Duration;

    const CALLS: Family = Family::counter("gannet_calls", "Calls answered.");
    const IN_USE: Family = Family::gauge("gannet_in_use_bytes", "Bytes in use.");
    const TIMES: Family = Family::latency("gannet_time_seconds", "Time of a call.");

    /// Two cores count; a reader sees their sum.
    #[test]
    fn what_has_the_same_name_and_labels_is_added_up() {
        let mut exposition = Exposition::default();
        for core in 1..=2 {
            let (calls, in_use, times) = (Counter::default(), Gauge::default(), Latency::default());
            calls.add(core);
            in_use.raise(10 * core);
            times.add(Duration::from_micros(3 * core));
            exposition.counter(&CALLS, &[Label::word("procedure", "READ")], &calls);
            exposition.counter(&CALLS, &[Label::number("server", 7)], &calls);
            exposition.gauge(&IN_USE, &[], &in_use);
            exposition.latency(&TIMES, &[], &times);
            exposition.latency(
                &TIMES,
                &[Label::word("never", "counted")],
                &Latency::default(),
            );
        }
        let text = exposition.into_text();
        let lines: Vec<_> = text
            .lines()
            .filter(|line| !line.contains("_bucket"))
            .collect();
        assert_eq!(
            lines,
            [
                "# HELP gannet_calls Calls answered.",
                "# TYPE gannet_calls counter",
                "gannet_calls_total{procedure=\"READ\"} 3.0",
                "gannet_calls_total{server=\"7\"} 3.0",
                "# HELP gannet_in_use_bytes Bytes in use.",
                "# TYPE gannet_in_use_bytes gauge",
                "gannet_in_use_bytes 30.0",
                "# HELP gannet_time_seconds Time of a call.",
                "# TYPE gannet_time_seconds histogram",
                "gannet_time_seconds_sum 0.000009",
                "gannet_time_seconds_count 2",
                "# EOF",
            ]
        );
        for bucket in ["le=\"0.000004\"} 1", "le=\"0.000008\"} 2", "le=\"+Inf\"} 2"] {
            let found = text.lines().any(|line| line.ends_with(bucket));
            assert!(found, "{bucket}: {text}");
        }
    }
}
