//! Section VI-A, figure 4: what becomes of uniformly random reads of 8 KB, by the size of the file.

use super::super::laboratory::Laboratory;
use super::super::row::{Shown, Table};
use super::super::{Figure, Series};
use super::{Axes, Bench, VISIBLE, figure, line, number};
use crate::experiment::caching::{CachingLoad, CachingOutcome, Start};

const MB: u64 = 1 << 20;
/// Megabytes of the file: 256 MB to 1.15 GB.
const SIZES: [u64; 9] = [256, 384, 512, 640, 768, 896, 1024, 1100, 1177];
/// The per cent of accesses below which an event counts as rare.
const SELDOM: f64 = 1.0;

/// The memory of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Entries {
    /// So little that it counts for nothing: beside the 200 MB.
    Compact,
    /// 64 bytes each, of the 200 MB.
    Real,
}

fn at(
    laboratory: &mut Laboratory<'_>,
    bench: &Bench,
    size: u64,
    entries: Entries,
) -> CachingOutcome {
    let blocks = size * MB / bench.block;
    let memory = match entries {
        Entries::Compact => bench.apart(bench.client_bytes, blocks),
        Entries::Real => bench.adaptive(bench.client_bytes),
    };
    laboratory.cache(&CachingLoad {
        server_blocks: bench.server_bytes / bench.block,
        start: Start::References,
        accesses: 120_000,
        warm_up: 160_000,
        ..bench.load(blocks, memory)
    })
}

pub(super) fn run(
    laboratory: &mut Laboratory<'_>,
    bench: &Bench,
    table: &mut Table,
) -> Vec<Figure> {
    stale_rows(laboratory, bench, table);
    entry_rows(laboratory, bench, table);
    let mut figures = Vec::new();
    for (file, title, entries) in [
        (
            "odafs-hits",
            "Random reads of 8 KB by the size of the file, compact directory (figure 4)",
            Entries::Compact,
        ),
        (
            "odafs-hits-64",
            "The same with entries of 64 bytes out of the 200 MB (section VI-A)",
            Entries::Real,
        ),
    ] {
        let series = lines(laboratory, bench, entries);
        figures.push(figure(
            file,
            title,
            Axes {
                x: "MB",
                y: "% of reads",
            },
            series,
        ));
    }
    figures
}

fn lines(laboratory: &mut Laboratory<'_>, bench: &Bench, entries: Entries) -> Vec<Series> {
    type Count = fn(&CachingOutcome) -> u64;
    let kinds: [(&str, Count); 4] = [
        ("cache hits", |it| it.cache_hits),
        ("directory hits", |it| it.directory_hits),
        ("stale hits", |it| it.stale_hits),
        ("neither", |it| it.misses),
    ];
    let lines = kinds.map(|(name, count)| {
        line(laboratory, name, &SIZES, |laboratory, size| {
            let outcome = at(laboratory, bench, size, entries);
            outcome.percent(count(&outcome))
        })
    });
    lines.into()
}

fn stale_rows(laboratory: &mut Laboratory<'_>, bench: &Bench, table: &mut Table) {
    let stale = |laboratory: &mut Laboratory<'_>, size| {
        let outcome = at(laboratory, bench, size, Entries::Compact);
        outcome.percent(outcome.stale_hits)
    };
    let fits = [256, 512, 768].map(|size| stale(laboratory, size));
    let most = fits.iter().copied().fold(0.0, f64::max);
    table.order(
        "VI-A: stale hits, most of files of 256, 512 and 768 MB",
        "seldom fail when the file fits in server physical memory",
        Shown::new("%", most),
        most < SELDOM,
        "Judged: less than 1 % of the reads.",
    );
    let exceeds = [1024, 1100, 1177].map(|size| stale(laboratory, size));
    let [_, _, last] = exceeds;
    let share = 100.0 * (1.0 - number(bench.server_bytes) / number(1177 * MB));
    table.order(
        "VI-A: stale hits, file of 1.15 GB",
        "increases slowly as the working set exceeds server physical memory: graceful",
        Shown::new("%", last),
        exceeds.windows(2).all(|pair| pair[0] < pair[1]) && last <= 1.05 * share.max(0.0),
        "Judged: rises from 1.0 GB on, and is no more than the share of the file that has no room at the server. The \
         figure itself is lost.",
    );
    let largest = at(laboratory, bench, 1177, Entries::Compact);
    let ratio = largest.benefit_over_cost(&bench.times);
    table.beyond(
        "III-B: benefit over cost, file of 1.15 GB, directory of the whole file",
        "above 1: optimistic reads pay",
        Shown::new("times", ratio),
        ratio > 1.0,
        "N_DirHit * (T1 - T2) / (N_DirHitStale * T_Stale), with the hits of figure 4 and 75 us of network and client. \
         A refused read costs 105 us and one that succeeds saves 40.",
    );
    let adaptive = at(laboratory, bench, 1177, Entries::Real);
    let ratio = adaptive.benefit_over_cost(&bench.times);
    table.beyond(
        "III-B: benefit over cost, file of 1.15 GB, directory that adapts",
        "above 1: optimistic reads pay",
        Shown::new("times", ratio),
        ratio > 1.0,
        "It ends at as many references as the server has pages: the others were stale, and a call at once is cheaper.",
    );
    let whole = bench.server_bytes / bench.block;
    table.judge(
        "VI-A: compact directory of all pages of the server",
        "MB",
        super::super::Published::Below(2.0),
        number(whole * bench.compact_entry) / 1e6,
        "",
    );
    table.put_in("compact_entry_len (derived) decides it: it was derived from this");
}

fn entry_rows(laboratory: &mut Laboratory<'_>, bench: &Bench, table: &mut Table) {
    let compact = at(laboratory, bench, 1177, Entries::Compact);
    let real = at(laboratory, bench, 1177, Entries::Real);
    let hits = number(compact.cache_hits) / number(real.cache_hits.max(1));
    table.ahead(
        "VI-A: cache hits, compact entries over 64 bytes, file of 1.15 GB",
        "realistic entries are expected to interfere with data caching",
        Shown::new("times", hits),
        VISIBLE,
        &[hits],
        "With blocks of 8 KB the references to all of the server's memory take a thirtieth of the 200 MB. Judged: a \
         tenth can be seen.",
    );
    let time = real.access_us(&bench.times) / compact.access_us(&bench.times).max(1e-9);
    table.beyond(
        "VI-A: mean access time, 64 bytes and adaptive over compact and of the whole file, 1.15 GB",
        "real entries cost nothing where the directory adapts",
        Shown::new("times", time),
        time < 1.0 + VISIBLE,
        "",
    );
}
