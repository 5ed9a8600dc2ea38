//! Sections 6 and 8: Linux on the same machines (figures 7, 8, 14 and 15).

use super::super::laboratory::Laboratory;
use super::super::row::{Published, Table};
use super::super::{Failure, Figure, Series};
use super::{THREADS, client_cpu, load, mean, peak, rate, registration};
use crate::experiment::nfs::{Operation, Outcome, Workload};
use crate::profiles::LINUX;
use gannet_fabric::registration::StrategyKind;

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

fn rows(table: &mut Table, reads: &[Series; 3], writes: &[Series; 3], cpu: &[Series; 3]) {
    let [read, read_fmr, read_physical] = reads;
    let [write, write_fmr, write_physical] = writes;
    let row = "6: READ on Linux, regular registration, peak";
    table.number(row, "MB/s", 440.0, peak(read), "");
    table.judge(
        "6: WRITE on Linux, regular registration, peak",
        "MB/s",
        Published::Fitted(240.0),
        peak(write),
        "allocate_page_ns of the testbed was fitted on this row.",
    );
    let row = "abstract: READ on Linux, all-physical, peak";
    table.number(row, "MB/s", 900.0, peak(read_physical), "");
    table.number(
        "abstract: client CPU of READ at 900 MB/s, Linux",
        "percent",
        10.0,
        peak(&cpu[2]),
        "A READ of 32 KiB takes 10 us of a processor: an interrupt and a switch (4.5 us), two RPC messages (4 us), the \
         verbs and a quarter of a system call. None of these was measured by a paper.",
    );
    table.order(
        "8: READ on Linux, all-physical over FMR, means of 1 to 8 threads",
        "all-physical best, regular registration worst",
        ("times", mean(read_physical) / mean(read_fmr).max(1.0)),
        mean(read_physical) > mean(read_fmr) && mean(read_fmr) > mean(read),
        "",
    );
    let behind = mean(write_physical) / mean(write_fmr).max(1.0);
    table.order(
        "8: WRITE on Linux, all-physical over FMR, means of 1 to 8 threads",
        "all-physical behind FMR",
        ("times", behind),
        behind < 1.0,
        "One RDMA Read for each page, each with its completion.",
    );
}
