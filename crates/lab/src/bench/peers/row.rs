//! One line of the result: a cell of one server.

use super::super::median::{median, median_interval};
use super::cell::Cell;
use gannet_cli::bench::load::Measured;
use gannet_cli::bench::measure::{histogram, micros_at, rounded};
use gannet_cli::failure::{Explain, Failure};
use gannet_cli::{output, table};
use hdrhistogram::Histogram;
use serde::Serialize;
use std::time::Duration;

/// The samples of a cell of one server.
pub(super) struct Samples {
    /// Operations and seconds of each round.
    rounds: Vec<(u64, f64)>,
    latency_ns: Histogram<u64>,
    client: Duration,
    /// `None` when a sample lacks it.
    server: Option<Duration>,
}

impl Samples {
    pub(super) fn new() -> Result<Samples, Failure> {
        Ok(Samples {
            rounds: Vec::new(),
            latency_ns: histogram()?,
            client: Duration::ZERO,
            server: Some(Duration::ZERO),
        })
    }

    /// Adds a sample of the `round`th round.
    pub(super) fn add(&mut self, round: usize, sample: &Measured) -> Result<(), Failure> {
        if self.rounds.len() <= round {
            self.rounds.resize(round + 1, (0, 0.0));
        }
        if let Some((ops, seconds)) = self.rounds.get_mut(round) {
            *ops += sample.latency_ns.len();
            *seconds += sample.seconds;
        }
        self.client += sample.cpu;
        self.server = self.server.zip(sample.server_cpu).map(|(sum, it)| sum + it);
        let added = self.latency_ns.add(&sample.latency_ns);
        added.explain(|| String::from("cannot add up latencies"))
    }

    /// Operations a second, round by round.
    fn rates(&self) -> Vec<f64> {
        let rate = |(ops, seconds): &(u64, f64)| *ops as f64 / seconds.max(f64::MIN_POSITIVE);
        self.rounds.iter().map(rate).collect()
    }
}

/// See the options' help.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Row {
    cell: &'static str,
    server: String,
    /// Why the server has no figures in this cell.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    figures: Option<Figures>,
}

#[derive(Debug, Clone, Serialize)]
struct Figures {
    rounds: usize,
    /// Operations of all rounds.
    ops: u64,
    /// The median of the rounds, in `unit`.
    rate: f64,
    unit: &'static str,
    p50_us: f64,
    p99_us: f64,
    client_cpu_us_per_op: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    server_cpu_us_per_op: Option<f64>,
    /// The rates by those of the first server, round by round.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    ratio: Option<Ratio>,
}

#[derive(Debug, Clone, Serialize)]
struct Ratio {
    ratio: f64,
    ratio_low: f64,
    ratio_high: f64,
}

impl Ratio {
    /// The median of the rounds' ratios, and the interval that holds it.
    fn of(rates: &[f64], first: &[f64]) -> Ratio {
        let ratios = rates.iter().zip(first);
        let mut ratios: Vec<f64> = ratios
            .map(|(own, first)| own / first.max(f64::MIN_POSITIVE))
            .collect();
        ratios.sort_by(f64::total_cmp);
        let (low, high) = median_interval(&ratios);
        Ratio {
            ratio: rounded(median(&ratios), 3),
            ratio_low: rounded(low, 3),
            ratio_high: rounded(high, 3),
        }
    }
}

impl Row {
    /// A row of figures; `first` has the samples of the first server, if this is another one.
    pub(super) fn of(
        cell: &Cell,
        names: u32,
        server: &str,
        samples: &Samples,
        first: Option<&Samples>,
    ) -> Row {
        let (unit, units) = cell.unit(names);
        let rates = samples.rates();
        let mut sorted = rates.clone();
        sorted.sort_by(f64::total_cmp);
        let ops = samples.latency_ns.len();
        let quantile = |share| rounded(micros_at(&samples.latency_ns, share), 1);
        let for_each = |time: Duration| rounded(time.as_secs_f64() * 1e6 / ops.max(1) as f64, 2);
        let figures = Figures {
            rounds: rates.len(),
            ops,
            rate: rounded(median(&sorted) * units, 1),
            unit,
            p50_us: quantile(0.5),
            p99_us: quantile(0.99),
            client_cpu_us_per_op: for_each(samples.client),
            server_cpu_us_per_op: samples.server.map(for_each),
            ratio: first.map(|first| Ratio::of(&rates, &first.rates())),
        };
        Row {
            cell: cell.name,
            server: server.to_owned(),
            error: None,
            figures: Some(figures),
        }
    }

    /// A row of a server that has no figures.
    pub(super) fn failed(cell: &Cell, server: &str, error: String) -> Row {
        Row {
            cell: cell.name,
            server: server.to_owned(),
            error: Some(error),
            figures: None,
        }
    }
}

/// Prints the table, and the errors below it.
pub(super) fn show(rows: &[Row]) -> Result<(), Failure> {
    output::line(&table_of(rows))?;
    let errors = rows
        .iter()
        .filter_map(|row| Some((row, row.error.as_ref()?)));
    for (row, error) in errors {
        let line = format!("{}, {}: {error}", row.server, row.cell);
        output::line(&format!("\n{}", table::hang(0, &line)))?;
    }
    Ok(())
}

fn table_of(rows: &[Row]) -> String {
    let header = [
        "cell",
        "server",
        "median",
        "unit",
        "ratio",
        "interval",
        "p50 us",
        "p99 us",
        "client us",
        "server us",
    ];
    let cells = rows.iter().map(|row| {
        let none = || table::NONE.to_owned();
        let (cell, server) = (row.cell.to_owned(), row.server.clone());
        let Some(figures) = &row.figures else {
            let failed = String::from("failed");
            let [unit, ratio, interval, p50, p99, client, cpu] = std::array::from_fn(|_| none());
            return [
                cell, server, failed, unit, ratio, interval, p50, p99, client, cpu,
            ];
        };
        let ratio = figures.ratio.as_ref();
        [
            cell,
            server,
            table::short(figures.rate),
            figures.unit.to_owned(),
            ratio.map_or_else(none, |it| format!("{:.2}", it.ratio)),
            ratio.map_or_else(none, |it| {
                format!("[{:.2}, {:.2}]", it.ratio_low, it.ratio_high)
            }),
            table::short(figures.p50_us),
            table::short(figures.p99_us),
            table::short(figures.client_cpu_us_per_op),
            (figures.server_cpu_us_per_op).map_or_else(none, table::short),
        ]
    });
    table::render(2, header, &cells.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::super::cell::CELLS;
    use super::*;

    fn samples(rounds: &[(u64, f64)]) -> Samples {
        let mut samples = Samples::new().unwrap();
        samples.rounds = rounds.to_vec();
        samples.latency_ns.record(1_000_000_000).unwrap();
        samples.client = Duration::from_millis(10);
        samples.server = Some(Duration::from_millis(10));
        samples
    }

    #[test]
    fn a_ratio_is_paired_round_by_round() {
        // The machine became twice as fast: rates differ by two, and the ratio of each round is the same.
        let first = samples(&[(100, 1.0), (200, 1.0), (200, 1.0)]);
        let other = samples(&[(150, 1.0), (300, 1.0), (600, 2.0)]);
        let row = Row::of(&CELLS[0], 10, "b", &other, Some(&first));
        let figures = row.figures.unwrap();
        let ratio = figures.ratio.unwrap();
        assert_eq!((figures.rate, figures.rounds), (300.0, 3));
        assert_eq!(
            [ratio.ratio, ratio.ratio_low, ratio.ratio_high],
            [1.5, 1.5, 1.5]
        );
    }

    #[test]
    fn the_table_fits_a_terminal_and_names_what_failed() {
        let samples = samples(&[(123_456, 1.0)]);
        let of = |cell| Row::of(cell, 1000, "gannet-async", &samples, Some(&samples));
        let mut rows: Vec<Row> = CELLS.iter().map(of).collect();
        let error = String::from("cannot write: Input/output error");
        rows.push(Row::failed(&CELLS[14], "other", error));
        let table = table_of(&rows);
        assert!(table.lines().all(|line| line.len() <= 80), "{table}");
        assert!(table.contains("other         failed"), "{table}");
    }
}
