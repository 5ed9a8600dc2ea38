//! Sections 6 and 8: Linux on the same machines (figures 7, 8, 14 and 15).

use super::super::laboratory::Laboratory;
use super::super::row::{LEAST_DIFFERENCE, Shown, Table};
use super::super::{Failure, Figure, Series};
use super::{THREADS, client_cpu, load, mean, peak, rate, registration};
use crate::experiment::nfs::{Operation, Outcome, Workload};
use crate::profiles::LINUX;
use gannet_fabric::registration::StrategyKind;

const SLOW: &str = "No paper explains the slow WRITE there; into a file system in memory it is 556 MB/s at most \
    (001 table 3).";

const KINDS: [StrategyKind; 3] = [
    StrategyKind::Dynamic,
    StrategyKind::Fmr,
    StrategyKind::AllPhysical,
];

pub(super) fn run(
    laboratory: &mut Laboratory<'_>,
    table: &mut Table,
) -> Result<Vec<Figure>, Failure> {
    let reads = lines(laboratory, Operation::Read, rate)?;
    let writes = lines(laboratory, Operation::Write, rate)?;
    let cpu = lines(laboratory, Operation::Read, client_cpu)?;
    rows(table, &reads, &writes, &cpu);
    chunks(laboratory, table)?;
    let figure = |file, title: &str, series| Figure {
        file,
        title: title.to_string(),
        x: "threads",
        y: "MB/s",
        series: Vec::from(series),
    };
    Ok(vec![
        figure(
            "nfs-rdma-linux-read",
            "READ of 128 KiB by the client's strategy, Linux (figures 7 and 14)",
            reads,
        ),
        figure(
            "nfs-rdma-linux-write",
            "WRITE of 128 KiB by the client's strategy, Linux (figures 8 and 15)",
            writes,
        ),
    ])
}

fn lines(
    laboratory: &mut Laboratory<'_>,
    operation: Operation,
    y: impl Fn(&Outcome) -> f64,
) -> Result<[Series; 3], Failure> {
    let [dynamic, fmr, physical] = KINDS.map(|kind| {
        let workload = |threads| Workload {
            client: registration(kind),
            // The kernel's key for its own memory.
            server: registration(StrategyKind::AllPhysical),
            ..load(operation, threads)
        };
        laboratory.line(kind.name(), &LINUX, &THREADS, workload, &y)
    });
    Ok([dynamic?, fmr?, physical?])
}

/// Why all-physical is behind in WRITE: a page of memory is a chunk of its own.
fn chunks(laboratory: &mut Laboratory<'_>, table: &mut Table) -> Result<(), Failure> {
    let mut reads = |kind| {
        let workload = Workload {
            client: registration(kind),
            server: registration(StrategyKind::AllPhysical),
            record_len: 32 << 10,
            ..load(Operation::Write, 1)
        };
        let outcome = laboratory.run(&LINUX, &workload)?;
        Ok::<f64, Failure>(outcome.each(outcome.server_usage.events.reads))
    };
    let (one, many) = (reads(StrategyKind::Fmr)?, reads(StrategyKind::AllPhysical)?);
    table.count(
        "8: RDMA Reads of the server for a WRITE of 32 KiB (8 pages), FMR",
        1.0,
        one,
        "",
    );
    table.count(
        "8: RDMA Reads of the server for a WRITE of 32 KiB (8 pages), all-physical",
        8.0,
        many,
        "The client cannot gather; each page is a chunk.",
    );
    Ok(())
}

fn rows(table: &mut Table, reads: &[Series; 3], writes: &[Series; 3], cpu: &[Series; 3]) {
    let [read, read_fmr, read_physical] = reads;
    let [write, write_fmr, write_physical] = writes;
    let row = "6: READ on Linux, regular registration, peak";
    table.number(row, "MB/s", 440.0, peak(read), "");
    let row = "6: WRITE on Linux, regular registration, peak";
    table.number(row, "MB/s", 240.0, peak(write), SLOW);
    table.ratio(
        "6: READ over WRITE on Linux, regular registration, peaks",
        440.0 / 240.0,
        peak(read) / peak(write).max(1.0),
        SLOW,
    );
    let row = "abstract: READ on Linux, all-physical, peak";
    table.number(row, "MB/s", 900.0, peak(read_physical), "");
    table.ratio(
        "8: READ on Linux, all-physical over regular registration, peaks",
        900.0 / 440.0,
        peak(read_physical) / peak(read).max(1.0),
        "",
    );
    table.number(
        "abstract: client CPU of READ at 900 MB/s, Linux",
        "percent",
        10.0,
        peak(&cpu[2]),
        "A READ of 32 KiB takes 10 us of a processor. It has an interrupt and a switch (4.5 \
            us), two RPC messages (4 us), the verbs and a quarter of a system call. No paper \
            measured any of these.",
    );
    table.ahead(
        "8: READ on Linux, all-physical over FMR, means of 1 to 8 threads",
        "all-physical best, regular registration worst",
        Shown::new("times", mean(read_physical) / mean(read_fmr).max(1.0)),
        LEAST_DIFFERENCE,
        &[
            mean(read_physical) / mean(read_fmr).max(1.0),
            mean(read_fmr) / mean(read).max(1.0),
        ],
        "",
    );
    let behind = mean(write_physical) / mean(write_fmr).max(1.0);
    table.ahead(
        "8: WRITE on Linux, all-physical over FMR, means of 1 to 8 threads",
        "all-physical behind FMR",
        Shown::new("times", behind),
        LEAST_DIFFERENCE,
        &[1.0 / behind.max(0.01)],
        "One RDMA Read for each page, each with its completion; but the copy into tmpfs is the \
        bound here for both.",
    );
}
