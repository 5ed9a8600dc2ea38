//! Section 8: the client registration cache beside zero-copy (figure 13).
//!
//! The paper's scheme copies every record. Gannet's strategy copies where that is cheaper; so the scheme is a client
//! that registers nothing (all-physical) and copies once, and the strategy is a line of its own.

use super::super::laboratory::Laboratory;
use super::super::row::{LEAST_DIFFERENCE, Shown, Table};
use super::super::{Failure, Figure, Series};
use super::{LARGE, SMALL, at, client_cpu, load, peak, rate, registration};
use crate::experiment::nfs::{Operation, Outcome, Workload};
use crate::profiles::OPENSOLARIS;
use gannet_fabric::registration::StrategyKind;

/// Threads at which few and many are compared.
const THREADS: [usize; 4] = [1, 2, 4, 8];
const TINY: u32 = 8 << 10;

/// How the client moves a record to the application.
#[derive(Clone, Copy)]
enum Client {
    ZeroCopy,
    Copying,
    Chosen,
}

pub(super) fn run(laboratory: &mut Laboratory<'_>, table: &mut Table) -> Result<Figure, Failure> {
    let mut line = |name: &str, client: Client, record_len: u32, y: fn(&Outcome) -> f64| {
        let workload = |threads| workload(client, record_len, threads);
        laboratory.line(name, &OPENSOLARIS, &THREADS, workload, y)
    };
    let tiny = line("zero-copy, 8 KiB", Client::ZeroCopy, TINY, rate)?;
    let tiny_copied = line("copied, 8 KiB", Client::Copying, TINY, rate)?;
    let tiny_chosen = line("client-cache, 8 KiB", Client::Chosen, TINY, rate)?;
    let large = line("zero-copy, 1 MiB", Client::ZeroCopy, LARGE, rate)?;
    let large_copied = line("copied, 1 MiB", Client::Copying, LARGE, rate)?;
    let large_chosen = line("client-cache, 1 MiB", Client::Chosen, LARGE, rate)?;
    let cpu = line("zero-copy", Client::ZeroCopy, SMALL, client_cpu)?;
    let cpu_copied = line("copied", Client::Copying, SMALL, client_cpu)?;
    small_records(table, &tiny, &tiny_copied);
    large_records(table, &large, &large_copied);
    let more = at(&cpu_copied, 8) / at(&cpu, 8).max(0.1);
    table.ahead(
        "8: client CPU of READ of 128 KiB, copied over zero-copy, 8 threads",
        "copying takes more of the processor",
        Shown::new("times", more),
        LEAST_DIFFERENCE,
        &[more],
        "",
    );
    Ok(Figure {
        file: "nfs-rdma-client-cache",
        title: String::from("READ by the client's way to its application, OpenSolaris (figure 13)"),
        x: "threads",
        y: "MB/s",
        series: vec![
            tiny,
            tiny_copied,
            tiny_chosen,
            large,
            large_copied,
            large_chosen,
        ],
    })
}

fn workload(client: Client, record_len: u32, threads: usize) -> Workload {
    let (kind, copies) = match client {
        Client::ZeroCopy => (StrategyKind::Dynamic, 0),
        Client::Copying => (StrategyKind::AllPhysical, 1),
        Client::Chosen => (StrategyKind::ClientCache, 0),
    };
    Workload {
        record_len,
        copies,
        client: registration(kind),
        server: registration(StrategyKind::ServerCache),
        ..load(Operation::Read, threads)
    }
}

fn small_records(table: &mut Table, zero_copy: &Series, copied: &Series) {
    let gain = peak(copied) / peak(zero_copy).max(1.0);
    table.ahead(
        "8: READ of small records (8 KiB), copied over zero-copy, peaks",
        "copying ahead",
        Shown::new("times", gain),
        LEAST_DIFFERENCE,
        &[gain],
        "",
    );
    table.ratio(
        "8: READ of small records, copied over zero-copy, peaks: 100 % above (8 KiB)",
        2.0,
        gain,
        "The paper does not name the record. Of 8 KiB registering is nearly all that zero-copy \
        does.",
    );
}

fn large_records(table: &mut Table, zero_copy: &Series, copied: &Series) {
    let ratio = |threads| at(copied, threads) / at(zero_copy, threads).max(1.0);
    table.ahead(
        "8: READ of large records (1 MiB), copied over zero-copy, 1 thread",
        "zero-copy ahead with few threads",
        Shown::new("times", ratio(1)),
        LEAST_DIFFERENCE,
        &[1.0 / ratio(1).max(0.01)],
        "",
    );
    table.same(
        "8: READ of large records (1 MiB), copied over zero-copy, 8 threads",
        "equal with enough threads",
        LEAST_DIFFERENCE,
        ratio(8),
        "",
    );
}
