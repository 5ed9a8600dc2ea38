//! Section III-A, question 3: references to attributes.

use super::super::Figure;
use super::super::laboratory::Laboratory;
use super::super::row::{LEAST_DIFFERENCE, Shown, Table};
use super::{Axes, Bench, SCALE, figure, line, number};
use crate::experiment::caching::{Attributes, CachingLoad, CachingOutcome};

/// Files of one block, in thousands; each access is a stat and a read of one.
const FILES: [u64; 7] = [2, 5, 10, 20, 30, 40, 50];

fn at(
    laboratory: &mut Laboratory<'_>,
    bench: &Bench,
    files: u64,
    attributes: Attributes,
) -> CachingOutcome {
    let blocks = files * 1000;
    let memory = bench.adaptive(bench.client_bytes / SCALE);
    laboratory.cache(&CachingLoad {
        file_blocks: 1,
        server_files: bench.inodes,
        attributes,
        accesses: 80_000,
        warm_up: 100_000,
        // As many pages as the paper's server has: it is the inodes that do not fit.
        server_blocks: bench.server_bytes / bench.block,
        ..bench.load(blocks, memory)
    })
}

pub(super) fn run(laboratory: &mut Laboratory<'_>, bench: &Bench, table: &mut Table) -> Figure {
    let both = |it: &CachingOutcome| it.stat_us(&bench.times) + it.access_us(&bench.times);
    let called = at(laboratory, bench, 10, Attributes::ByCall);
    let referred = at(laboratory, bench, 10, Attributes::ByReference);
    table.ahead(
        "III-A: stat and read of 10,000 small files, attributes by calls over by references",
        "direct access to in-core metadata is expected to be beneficial",
        Shown::new("times", both(&called) / both(&referred).max(1e-9)),
        LEAST_DIFFERENCE,
        &[both(&called) / both(&referred).max(1e-9)],
        "References to attributes share the memory with data and with references to them.",
    );
    let stat_gain = called.stat_us(&bench.times) / referred.stat_us(&bench.times).max(1e-9);
    table.ahead(
        "III-A: stat of 10,000 files, by calls over by references",
        "T1 over T2, less what is stale",
        Shown::new("times", stat_gain),
        LEAST_DIFFERENCE,
        &[stat_gain],
        "Decided by table II.",
    );
    table.not_of_paper();
    let kept = number(referred.cache_hits) / number(called.cache_hits.max(1));
    table.beyond(
        "III-A: cache hits of data, with references to attributes over without, 10,000 files",
        "nearly all are left",
        Shown::new("times", kept),
        kept > 0.9,
        "",
    );
    let most = at(laboratory, bench, 50, Attributes::ByReference);
    let stale = 100.0 * number(most.stat_stale_hits) / number(most.stats.max(1));
    table.beyond(
        "III-A: stale references to attributes, 50,000 files",
        "as many as have no room among the server's inodes",
        Shown::new("%", stale),
        stale <= 100.0 * (1.0 - number(bench.inodes) / 50_000.0).max(0.0) + 5.0,
        "",
    );
    let lines = [
        ("attributes by calls", Attributes::ByCall),
        ("attributes by references", Attributes::ByReference),
    ];
    let mut series = Vec::new();
    for (name, attributes) in lines {
        series.push(line(
            laboratory,
            &format!("stat, {name}"),
            &FILES,
            |laboratory, files| at(laboratory, bench, files, attributes).stat_us(&bench.times),
        ));
        series.push(line(
            laboratory,
            &format!("read, {name}"),
            &FILES,
            |laboratory, files| at(laboratory, bench, files, attributes).access_us(&bench.times),
        ));
    }
    figure(
        "odafs-metadata",
        "Attributes by calls and by references, stat and read of small files (question 3)",
        Axes {
            x: "thousands of files",
            y: "us",
        },
        series,
    )
}
