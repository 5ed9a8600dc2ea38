//! Section 8: three strategies of the server on OpenSolaris (figures 11 and 12).

use super::super::laboratory::Laboratory;
use super::super::row::{LEAST_DIFFERENCE, Shown, Table};
use super::super::{Failure, Figure, Series};
use super::{MEMORY, THREADS, at, client_cpu, load, mean, peak, rate, registration};
use crate::experiment::nfs::{Operation, Outcome, Workload};
use crate::profiles::OPENSOLARIS;
use gannet_fabric::registration::StrategyKind;

const BREAKDOWN: &str = "In the paper's own section 7 registration and deregistration are at most 26 % of an \
    operation, so avoiding both gains 1.35 at most. The rest of its 2.1 lies in the share that \
    section 7 calls tmpfs (79 to 83 %). The server that registers also gets new memory for each \
    call, at a cost that no paper measured.";

/// The share that is far ahead.
const FAR: f64 = 0.2;

const KINDS: [StrategyKind; 3] = [
    StrategyKind::Dynamic,
    StrategyKind::Fmr,
    StrategyKind::ServerCache,
];

pub(super) fn run(
    laboratory: &mut Laboratory<'_>,
    table: &mut Table,
) -> Result<Vec<Figure>, Failure> {
    let reads = lines(laboratory, Operation::Read, rate)?;
    let writes = lines(laboratory, Operation::Write, rate)?;
    let cpu = lines(laboratory, Operation::Read, client_cpu)?;
    let names = ["dynamic", "FMR", "server cache"];
    for ((line, published), name) in reads.iter().zip([350.0, 400.0, 730.0]).zip(names) {
        let row = format!("8: READ of 128 KiB, {name}, peak");
        let note = match name {
            "server cache" => "",
            _ => MEMORY,
        };
        table.number(&row, "MB/s", published, peak(line), note);
    }
    let [_, _, cached_write] = &writes;
    let row = "8: WRITE of 128 KiB, server cache, peak";
    table.number(row, "MB/s", 515.0, peak(cached_write), "");
    ratios(table, &reads);
    orders(table, &reads, &writes, &cpu);
    let figure = |file, title: &str, y, series| Figure {
        file,
        title: title.to_string(),
        x: "threads",
        y,
        series: Vec::from(series),
    };
    Ok(vec![
        figure(
            "nfs-rdma-strategies-read",
            "READ of 128 KiB by the server's strategy, OpenSolaris (figure 11)",
            "MB/s",
            reads,
        ),
        figure(
            "nfs-rdma-strategies-write",
            "WRITE of 128 KiB by the server's strategy, OpenSolaris (figure 12)",
            "MB/s",
            writes,
        ),
        figure(
            "nfs-rdma-strategies-cpu",
            "Client CPU of READ of 128 KiB by the server's strategy, OpenSolaris (figure 11)",
            "percent",
            cpu,
        ),
    ])
}

fn lines(
    laboratory: &mut Laboratory<'_>,
    operation: Operation,
    y: impl Fn(&Outcome) -> f64,
) -> Result<[Series; 3], Failure> {
    let [dynamic, fmr, cache] = KINDS.map(|kind| {
        let workload = |threads| Workload {
            server: registration(kind),
            ..load(operation, threads)
        };
        laboratory.line(kind.name(), &OPENSOLARIS, &THREADS, workload, &y)
    });
    Ok([dynamic?, fmr?, cache?])
}

fn ratios(table: &mut Table, reads: &[Series; 3]) {
    let [dynamic, fmr, cache] = reads;
    for (row, published, one, other, note) in [
        (
            "8: READ of 128 KiB, FMR over dynamic, peaks",
            400.0 / 350.0,
            fmr,
            dynamic,
            "FMR saves commands and the sleep behind them. Other calls hide that time as soon \
                as some are under way. The paper's two numbers may be of different threads \
                (section 8, footnote).",
        ),
        (
            "8: READ of 128 KiB, server cache over dynamic, peaks",
            730.0 / 350.0,
            cache,
            dynamic,
            BREAKDOWN,
        ),
        (
            "8: READ of 128 KiB, server cache over FMR, peaks",
            730.0 / 400.0,
            cache,
            fmr,
            BREAKDOWN,
        ),
    ] {
        table.ratio(row, published, peak(one) / peak(other).max(1.0), note);
    }
    let early = |one: &Series, other: &Series| at(one, 1) / at(other, 1).max(1.0);
    table.ahead(
        "8: READ of 128 KiB, server cache over dynamic and over FMR, lesser of both, 1 thread",
        "server cache ahead",
        Shown::new("times", early(cache, dynamic).min(early(cache, fmr))),
        LEAST_DIFFERENCE,
        &[early(cache, dynamic), early(cache, fmr)],
        "One thread waits for each command; this is all that registering costs it.",
    );
}

fn orders(table: &mut Table, reads: &[Series; 3], writes: &[Series; 3], cpu: &[Series; 3]) {
    for (name, lines) in [("READ", reads), ("WRITE", writes)] {
        let [dynamic, fmr, cache] = lines;
        let row = format!("8: {name} of 128 KiB, FMR over dynamic, mean of 1 to 8 threads");
        let gain = mean(fmr) / mean(dynamic).max(1.0);
        table.ahead(
            &row,
            "FMR ahead",
            Shown::new("times", gain),
            LEAST_DIFFERENCE,
            &[gain],
            "FMR spares the adapter's commands and the sleep behind them, not the processor.",
        );
        let row = format!("8: {name} of 128 KiB, server cache over FMR, peaks, order");
        let gain = peak(cache) / peak(fmr).max(1.0);
        table.ahead(
            &row,
            "server cache far ahead",
            Shown::new("times", gain),
            FAR,
            &[gain],
            BREAKDOWN,
        );
    }
    let [dynamic, fmr, cache] = cpu;
    table.number(
        "abstract: client CPU of READ over 700 MB/s, OpenSolaris",
        "percent",
        10.0,
        peak(cache),
        "",
    );
    table.ahead(
        "8: client CPU of READ of 128 KiB, server cache over dynamic, means",
        "dynamic, FMR, server cache, as their rates",
        Shown::new("times", mean(cache) / mean(dynamic).max(0.1)),
        LEAST_DIFFERENCE,
        &[
            mean(fmr) / mean(dynamic).max(0.1),
            mean(cache) / mean(fmr).max(0.1),
        ],
        "",
    );
}
