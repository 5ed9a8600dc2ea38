//! Section III-A, question 5: references that come ahead of their use.

use super::super::Figure;
use super::super::laboratory::Laboratory;
use super::super::row::{LEAST_DIFFERENCE, Shown, Table};
use super::{Axes, Bench, CLIENTS, SCALE, figure, line, number};
use crate::experiment::caching::{CachingLoad, CachingOutcome, Pattern, Start};

/// References that come with a reply, beside the one that was asked for.
const AHEAD: [u64; 8] = [0, 1, 3, 7, 15, 31, 63, 127];
/// Blocks of a file: 1 MB.
const FILE_BLOCKS: u64 = 128;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Use {
    clients: usize,
    pattern: Pattern,
}

const LINES: [(&str, Use); 3] = [
    (
        "whole files, 1 client",
        Use {
            clients: 1,
            pattern: Pattern::Files,
        },
    ),
    (
        "whole files, 4 clients",
        Use {
            clients: CLIENTS,
            pattern: Pattern::Files,
        },
    ),
    (
        "popular blocks, 4 clients",
        Use {
            clients: CLIENTS,
            pattern: Pattern::Zipf,
        },
    ),
];

fn at(laboratory: &mut Laboratory<'_>, bench: &Bench, what: Use, ahead: u64) -> CachingOutcome {
    let memory = bench.adaptive(bench.client_bytes / SCALE);
    let files = bench.large_blocks() / FILE_BLOCKS;
    laboratory.cache(&CachingLoad {
        clients: what.clients,
        pattern: what.pattern,
        file_blocks: FILE_BLOCKS,
        prefetch: ahead,
        // A client that comes to a server whose memory is in use.
        start: Start::WarmServer,
        warm_up: 0,
        ..bench.load(files * FILE_BLOCKS, memory)
    })
}

pub(super) fn run(laboratory: &mut Laboratory<'_>, bench: &Bench, table: &mut Table) -> Figure {
    for (name, what) in LINES {
        let none = at(laboratory, bench, what, 0);
        let all = at(laboratory, bench, what, 127);
        let times = &bench.times;
        let gain = none.access_us(times) / all.access_us(times).max(1e-9);
        table.ahead(
            &format!("III-A: access time, no prefetching over 127 references ahead, {name}"),
            "prefetching of references pays",
            Shown::new("times", gain),
            LEAST_DIFFERENCE,
            &[gain],
            "",
        );
        table.not_of_paper();
        let used = number(all.prefetched_used) / number(all.prefetched.max(1));
        table.beyond(
            &format!("III-A: prefetched references that were used, 127 ahead, {name}"),
            "some are",
            Shown::new("each", used),
            used > 0.0,
            "",
        );
    }
    let [_, (_, what), _] = LINES;
    let none = at(laboratory, bench, what, 0);
    let all = at(laboratory, bench, what, 127);
    let kept = number(all.cache_hits) / number(none.cache_hits.max(1));
    table.order(
        "III-A: cache hits, 127 references ahead over none, whole files, 4 clients",
        "without fear that too much prefetching will evict useful cache data",
        Shown::new("times", kept),
        kept >= 0.95,
        "Judged: at least 0.95 of the hits are left.",
    );
    let mut series = Vec::new();
    for (name, what) in LINES {
        series.push(line(laboratory, name, &AHEAD, |laboratory, ahead| {
            at(laboratory, bench, what, ahead).access_us(&bench.times)
        }));
    }
    figure(
        "odafs-prefetch",
        "References that come ahead with a reply (question 5)",
        Axes {
            x: "references ahead",
            y: "us an access",
        },
        series,
    )
}
