//! Section III-A, question 4: a server that reports to clients the blocks that leave its memory.

use super::super::Figure;
use super::super::laboratory::Laboratory;
use super::super::row::{LEAST_DIFFERENCE, Shown, Table};
use super::{Axes, Bench, CLIENTS, SCALE, figure, line, number};
use crate::experiment::caching::{CachingLoad, CachingOutcome};

/// Blocks that a message reports.
const BATCHES: [u64; 8] = [1, 4, 16, 64, 256, 1024, 4096, 8192];

fn at(
    laboratory: &mut Laboratory<'_>,
    bench: &Bench,
    clients: usize,
    batch: u64,
) -> CachingOutcome {
    let memory = bench.adaptive(bench.client_bytes / SCALE);
    laboratory.cache(&CachingLoad {
        clients,
        invalidations: batch,
        accesses: 80_000,
        warm_up: 120_000,
        ..bench.load(bench.large_blocks(), memory)
    })
}

pub(super) fn run(laboratory: &mut Laboratory<'_>, bench: &Bench, table: &mut Table) -> Figure {
    for (clients, name) in [(1, "1 client"), (CLIENTS, "4 clients")] {
        let silent = at(laboratory, bench, clients, 0);
        for (batch, how) in [(1, "a block in a message"), (64, "64 blocks in a message")] {
            let told = at(laboratory, bench, clients, batch);
            let saved = number(silent.stale_hits) - number(told.stale_hits);
            let price = number(told.messages) / saved.max(1.0);
            table.beyond(
                &format!("III-A: messages for each stale hit saved, {name}, {how}"),
                "fewer messages than refused reads",
                Shown::new("each", price),
                price < 1.0,
                "",
            );
        }
        let told = at(laboratory, bench, clients, 1);
        let gain = silent.access_us(&bench.times) / told.access_us(&bench.times).max(1e-9);
        table.ahead(
            &format!("III-A: access time, no invalidations over immediate ones, {name}"),
            "the most that invalidations can save",
            Shown::new("times", gain),
            LEAST_DIFFERENCE,
            &[gain],
            "The messages' own cost is not in it.",
        );
        table.not_of_paper();
    }
    let y = |of: fn(&CachingOutcome) -> u64, clients| {
        move |laboratory: &mut Laboratory<'_>, batch: u64| {
            let outcome = at(laboratory, bench, clients, batch);
            outcome.percent(of(&outcome))
        }
    };
    let mut series = Vec::new();
    for (clients, name) in [(1, "1 client"), (CLIENTS, "4 clients")] {
        let stale = y(|it| it.stale_hits, clients);
        series.push(line(
            laboratory,
            &format!("stale hits, {name}"),
            &BATCHES,
            stale,
        ));
        let messages = y(|it| it.messages, clients);
        series.push(line(
            laboratory,
            &format!("messages, {name}"),
            &BATCHES,
            messages,
        ));
        series.push(line(
            laboratory,
            &format!("stale hits without messages, {name}"),
            &BATCHES,
            |laboratory, _| {
                let silent = at(laboratory, bench, clients, 0);
                silent.percent(silent.stale_hits)
            },
        ));
    }
    figure(
        "odafs-invalidations",
        "A server that tells what left its memory (question 4)",
        Axes {
            x: "blocks in a message",
            y: "of 100 accesses",
        },
        series,
    )
}
