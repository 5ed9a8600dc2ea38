//! Paper 002: Experiences with NFS over IB and iWARP RDMA.
//!
//! Its clients read through their page cache: 15 requests of 32 KiB ahead, so that some four records of 128 KiB are
//! under way, and what came is copied to the application. The figures' pictures are lost; what the simulation is held
//! against are the slides' words.

use super::laboratory::{Laboratory, whole};
use super::row::{LEAST_DIFFERENCE, Published, Shown, Table};
use super::{Failure, Figure, Paper, Report, Series};
use crate::experiment::Transport;
use crate::experiment::nfs::{Outcome, Workload};
use crate::profiles::{LINUX, SANDIA_IB, SANDIA_IB_UD, SANDIA_IWARP, SANDIA_TOE};
use gannet_fabric::registration::{Registration, StrategyKind, Trust};
use gannet_sim::nic::Profile;
use std::time::Duration;

/// Clients of the figures.
const CLIENTS: [usize; 4] = [1, 2, 3, 4];
/// Records under way at each client.
const RECORDS_AHEAD: usize = 4;
/// The share that is significantly more.
const SIGNIFICANT: f64 = 0.2;
/// The share from which two costs are not comparable.
const COMPARABLE: f64 = 0.15;

/// The series that the figures compare, each a line.
struct Lines {
    rdma: Series,
    connected: Series,
    datagrams: Series,
    iwarp: Series,
    host: Series,
    offloaded: Series,
}

pub(super) fn run(laboratory: &mut Laboratory<'_>) -> Result<Report, Failure> {
    let mut table = Table::new(Paper::Sandia);
    let rates = lines(laboratory, |outcome| outcome.mb_per_s)?;
    let costs = lines(laboratory, cpu_per_mb)?;
    throughput(&mut table, &rates);
    let sdr = Profile {
        link: LINUX.link,
        ..SANDIA_IB
    };
    let outcome = laboratory.run(&sdr, &load(Transport::Rdma, 64 << 10, 4))?;
    table.number(
        "previous study: RDMA of 64 KiB records fills the pipe of IB SDR, 4 clients",
        "MB/s",
        1000.0,
        outcome.mb_per_s,
        "The slide's pipe of 10 Gb/s carries 900 MB/s of payload on such adapters (000 section 1).",
    );
    efficiency(&mut table, &costs);
    let figure = |file, title: &str, y, lines: Lines| Figure {
        file,
        title: title.to_string(),
        x: "clients",
        y,
        series: lines.into_series(),
    };
    Ok(Report {
        rows: table.into_rows(),
        figures: vec![
            figure(
                "sandia-throughput",
                "NFS throughput: READ of 128 KiB from the server's cache",
                "MB/s",
                rates,
            ),
            figure(
                "sandia-cpu",
                "Processor time of client and server for each megabyte",
                "ms",
                costs,
            ),
        ],
    })
}

fn load(transport: Transport, record_len: u32, clients: usize) -> Workload {
    let strategy = |kind| Registration::new(kind, Trust::Trusted).unwrap_or_default();
    Workload {
        transport,
        clients,
        record_len,
        threads: RECORDS_AHEAD,
        copies: 1,
        client: strategy(StrategyKind::Fmr),
        server: strategy(StrategyKind::AllPhysical),
        time: Duration::from_millis(50),
        ..Workload::default()
    }
}

/// Milliseconds of processors of both sides for each megabyte.
#[allow(clippy::cast_precision_loss)] // a mean
fn cpu_per_mb(outcome: &Outcome) -> f64 {
    let cpu_ns = outcome.client_usage.cpu_ns + outcome.server_usage.cpu_ns;
    let each_ns = cpu_ns as f64 / outcome.operations.max(1) as f64;
    let record_bytes = outcome.mb_per_s * 1e6 / outcome.operations_per_s.max(1.0);
    each_ns / record_bytes.max(1.0)
}

fn lines(laboratory: &mut Laboratory<'_>, y: impl Fn(&Outcome) -> f64) -> Result<Lines, Failure> {
    let mut line = |name: &str, profile: &Profile, transport| {
        let workload = |clients| load(transport, 128 << 10, clients);
        laboratory.line(name, profile, &CLIENTS, workload, &y)
    };
    Ok(Lines {
        rdma: line("IB RDMA", &SANDIA_IB, Transport::Rdma)?,
        connected: line("IPoIB-CM", &SANDIA_IB, Transport::Tcp)?,
        datagrams: line("IPoIB-UD", &SANDIA_IB_UD, Transport::Tcp)?,
        iwarp: line("iWARP RDMA", &SANDIA_IWARP, Transport::Rdma)?,
        host: line("10 GbE TCP, host", &SANDIA_IWARP, Transport::Tcp)?,
        offloaded: line("10 GbE TCP, TOE", &SANDIA_TOE, Transport::Tcp)?,
    })
}

impl Lines {
    fn into_series(self) -> Vec<Series> {
        let Lines {
            rdma,
            connected,
            datagrams,
            iwarp,
            host,
            offloaded,
        } = self;
        vec![rdma, connected, datagrams, iwarp, host, offloaded]
    }
}

/// A line's value at its last number of clients.
fn last(line: &Series) -> f64 {
    line.points.last().map_or(0.0, |point| point.1)
}

fn mean(line: &Series) -> f64 {
    let sum: f64 = line.points.iter().map(|point| point.1).sum();
    sum / whole(line.points.len().max(1))
}

fn throughput(table: &mut Table, rates: &Lines) {
    let gain_ib = mean(&rates.rdma) / mean(&rates.connected).max(1.0);
    let gain_10g = mean(&rates.iwarp) / mean(&rates.host).max(1.0);
    table.ahead(
        "throughput: RDMA over IPoIB-CM, IB DDR, means of 1 to 4 clients",
        "RDMA above TCP",
        Shown::new("times", gain_ib),
        LEAST_DIFFERENCE,
        &[gain_ib],
        "",
    );
    table.ahead(
        "throughput: iWARP RDMA over TCP of the host, means of 1 to 4 clients",
        "RDMA above TCP",
        Shown::new("times", gain_10g),
        LEAST_DIFFERENCE,
        &[
            gain_10g,
            mean(&rates.iwarp) / mean(&rates.offloaded).max(1.0),
        ],
        "All three fill the pipe with more clients; RDMA does so with the fewest.",
    );
    table.ahead(
        "throughput: gain of RDMA on IB over its gain on 10 GbE",
        "most noticeable on IB",
        Shown::new("times", gain_ib / gain_10g.max(0.1)),
        LEAST_DIFFERENCE,
        &[gain_ib / gain_10g.max(0.1)],
        "",
    );
    let modes = mean(&rates.connected) / mean(&rates.datagrams).max(1.0);
    table.ahead(
        "throughput: IPoIB-CM over IPoIB-UD, means of 1 to 4 clients",
        "CM significantly above UD",
        Shown::new("times", modes),
        SIGNIFICANT,
        &[modes],
        "",
    );
    table.judge(
        "throughput: RDMA on IB DDR takes advantage of its pipe of 2.0 GB/s, 4 clients",
        "MB/s",
        Published::Between(1000.0, 2000.0),
        last(&rates.rdma),
        "More than SDR has, bounded by the way from memory to the adapter.",
    );
    let filled = [
        (
            "throughput: iWARP RDMA is limited by 10 GbE, 4 clients",
            &rates.iwarp,
        ),
        (
            "throughput: TCP of the host fills 10 GbE, 4 clients",
            &rates.host,
        ),
        (
            "throughput: TCP of the adapter fills 10 GbE, 4 clients",
            &rates.offloaded,
        ),
    ];
    for (row, line) in filled {
        table.number(row, "MB/s", 1250.0, last(line), "");
    }
}

fn efficiency(table: &mut Table, costs: &Lines) {
    let ratio = |one: &Series, other: &Series| last(one) / last(other).max(0.001);
    let on_ib = ratio(&costs.connected, &costs.rdma);
    let on_10g = ratio(&costs.host, &costs.iwarp);
    let against = ratio(&costs.iwarp, &costs.rdma);
    let offload = ratio(&costs.host, &costs.offloaded);
    for (row, words, ratio) in [
        (
            "CPU per MB: IPoIB-CM over RDMA, IB, 4 clients",
            "RDMA better than TCP",
            on_ib,
        ),
        (
            "CPU per MB: TCP of the host over iWARP RDMA, 4 clients",
            "RDMA better than TCP",
            on_10g,
        ),
        (
            "CPU per MB: gain of RDMA on IB over its gain on 10 GbE, 4 clients",
            "most significant on IB",
            on_ib / on_10g.max(0.001),
        ),
        (
            "CPU per MB: TCP of the host over TCP of the adapter, 4 clients",
            "the adapter's better than the host's",
            offload,
        ),
    ] {
        let shown = Shown::new("times", ratio);
        table.ahead(row, words, shown, LEAST_DIFFERENCE, &[ratio], "");
    }
    table.put_in(
        "both stacks (assumed) decide it: they differ in nothing but the assumed costs of their packets",
    );
    table.same(
        "CPU per MB: iWARP RDMA over IB RDMA, 4 clients",
        "comparable",
        COMPARABLE,
        against,
        "",
    );
    table.put_in(
        "both adapters (assumed) decide it: no source has costs of an RNIC of the time, so iWARP has those of IB",
    );
}
