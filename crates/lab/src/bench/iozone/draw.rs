//! The rows as a chart: rates over threads or record sizes, and where the time of an operation went.

use super::row::{Breakdown, Row, Side};
use crate::chart::{Bar, Bars, Lines, Panel, Series};
use gannet_cli::size;
use std::collections::BTreeSet;

/// Panels with rates for each operation, then one with the breakdown of every operation at the most threads.
pub(super) fn panels(rows: &[Row]) -> Vec<Panel> {
    let mut panels = Vec::new();
    let thread_counts: BTreeSet<u16> = rows.iter().map(|row| row.threads).collect();
    for op in distinct(rows, |row| row.op.clone()) {
        let of_op: Vec<&Row> = rows.iter().filter(|row| row.op == op).collect();
        if thread_counts.len() > 1 {
            for record in distinct(rows, |row| row.record) {
                let of_record = of_op.iter().copied().filter(|row| row.record == record);
                let title = format!("{op}, records of {}", size::human(u64::from(record)));
                panels.push(lines(title, "threads", of_record, |row| {
                    f64::from(row.threads)
                }));
            }
        } else {
            let threads = thread_counts.first().copied().unwrap_or(0);
            let title = format!("{op}, threads: {threads}");
            let of_op = of_op.into_iter();
            panels.push(lines(title, "bytes of a record", of_op, |row| {
                f64::from(row.record)
            }));
        }
    }
    panels.extend(breakdown(rows, thread_counts.last().copied().unwrap_or(0)));
    panels
}

fn lines<'r>(
    title: String,
    x: &str,
    rows: impl Iterator<Item = &'r Row>,
    value: fn(&Row) -> f64,
) -> Panel {
    let mut series: Vec<Series> = Vec::new();
    for row in rows {
        let name = name_of(row);
        let point = (value(row), row.mb_per_s);
        match series.iter_mut().find(|series| series.name == name) {
            Some(series) => series.points.push(point),
            None => series.push(Series {
                name,
                points: vec![point],
            }),
        }
    }
    Panel::Lines(Lines {
        title,
        x: x.to_owned(),
        y: String::from("MB/s"),
        series,
    })
}

fn breakdown(rows: &[Row], threads: u16) -> Option<Panel> {
    let targets = distinct(rows, |row| row.target.clone()).len();
    let of_most = rows.iter().filter(|row| row.threads == threads);
    let bars = of_most.flat_map(|row| {
        // One target needs no name.
        let name = if targets > 1 {
            name_of(row)
        } else {
            row.strategies()
        };
        let what = format!("{} {}, {name}", row.op, size::human(u64::from(row.record)));
        let Breakdown { client, server, .. } = &row.breakdown_us;
        [("client", client), ("server", server)].map(|(end, side)| Bar {
            label: format!("{what}, {end}"),
            parts: side.parts().to_vec(),
        })
    });
    let bars: Vec<Bar> = bars
        .filter(|bar| bar.parts.iter().any(|part| *part > 0.0))
        .collect();
    (!bars.is_empty()).then(|| {
        Panel::Bars(Bars {
            title: format!("Where the time of an operation went, threads: {threads}"),
            x: String::from("us per operation"),
            parts: Side::PARTS.map(String::from).to_vec(),
            bars,
        })
    })
}

/// The name of a line of a chart.
fn name_of(row: &Row) -> String {
    match row.strategies() {
        none if none.is_empty() => row.target.clone(),
        strategies => format!("{} {strategies}", row.target),
    }
}

/// The values of all rows, in their order.
fn distinct<T: PartialEq>(rows: &[Row], value: fn(&Row) -> T) -> Vec<T> {
    let mut values = Vec::new();
    for row in rows {
        let value = value(row);
        if !values.contains(&value) {
            values.push(value);
        }
    }
    values
}
