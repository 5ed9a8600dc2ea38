//! Section III-A, question 1: which reference leaves when the directory is full.

use super::super::laboratory::Laboratory;
use super::super::row::{LEAST_DIFFERENCE, Shown, Table};
use super::super::{Figure, Series};
use super::{Axes, Bench, CLIENTS, VISIBLE, figure, line};
use crate::experiment::caching::{CachingLoad, CachingOutcome, Pattern};
use gannet_volume::client::optimistic::{ClientMemoryOptions, ReplacementOrder};

/// References that the directory holds, of a hundred blocks of the file; the server's memory is 77 of them.
const SHARES: [u64; 7] = [10, 25, 40, 55, 70, 85, 100];

/// A policy: its name, its order, whether the server reports blocks that leave its memory, and whether stale ones
/// leave first.
struct Policy {
    name: &'static str,
    order: ReplacementOrder,
    is_told: bool,
    stale_first: bool,
}

const LRU: Policy = Policy {
    name: "least recently used",
    order: ReplacementOrder::LeastRecentlyUsed,
    is_told: false,
    stale_first: true,
};
const CHANCE: Policy = Policy {
    name: "second chance",
    order: ReplacementOrder::SecondChance,
    ..LRU
};
const RANDOM: Policy = Policy {
    name: "random",
    order: ReplacementOrder::Random { seed: 1 },
    ..LRU
};
const RANDOM_TOLD: Policy = Policy {
    name: "random, server tells, stale first",
    is_told: true,
    ..RANDOM
};
const RANDOM_TOLD_LATE: Policy = Policy {
    name: "random, server tells, stale in order",
    stale_first: false,
    ..RANDOM_TOLD
};
const TOLD: Policy = Policy {
    name: "server tells, stale first",
    is_told: true,
    ..LRU
};
const TOLD_LATE: Policy = Policy {
    name: "server tells, stale in order",
    stale_first: false,
    ..TOLD
};

/// Accesses of `clients` clients, whose directories hold `references` references each.
fn at(
    laboratory: &mut Laboratory<'_>,
    bench: &Bench,
    policy: &Policy,
    clients: usize,
    pattern: Pattern,
    references: u64,
) -> CachingOutcome {
    let blocks = bench.large_blocks();
    // Data have little room, so that most accesses are the directory's.
    let memory = ClientMemoryOptions {
        order: policy.order,
        stale_first: policy.stale_first,
        ..bench.apart(blocks * bench.block / 50, references)
    };
    laboratory.cache(&CachingLoad {
        clients,
        pattern,
        invalidations: u64::from(policy.is_told),
        ..bench.load(blocks, memory)
    })
}

pub(super) fn run(laboratory: &mut Laboratory<'_>, bench: &Bench, table: &mut Table) -> Figure {
    alone(laboratory, bench, table);
    together(laboratory, bench, table);
    let series = [&LRU, &CHANCE, &RANDOM, &TOLD, &TOLD_LATE].map(|policy| -> Series {
        line(laboratory, policy.name, &SHARES, |laboratory, share| {
            let references = bench.large_blocks() * share / 100;
            let any = Pattern::Uniform;
            at(laboratory, bench, policy, CLIENTS, any, references).access_us(&bench.times)
        })
    });
    figure(
        "odafs-replacement",
        "Replacement of references, 4 clients, any block as often (question 1)",
        Axes {
            x: "% of the file's blocks in the directory",
            y: "us an access",
        },
        series.into(),
    )
}

/// One client whose directory is as large as the server's memory.
fn alone(laboratory: &mut Laboratory<'_>, bench: &Bench, table: &mut Table) {
    let mut stale = |policy: &Policy| {
        let references = bench.server_blocks();
        let outcome = at(laboratory, bench, policy, 1, Pattern::Uniform, references);
        outcome.percent(outcome.stale_hits)
    };
    let (same, random) = (stale(&LRU), stale(&RANDOM));
    table.ahead(
        "III-A: stale hits with the server's own order, one client",
        "a good approximation, with a single file client",
        Shown::new("%", same),
        VISIBLE,
        &[random / same.max(0.01)],
        "Judged: visibly fewer than with random replacement. The directory has as many \
            references as the server has pages, so a block that leaves one leaves the other.",
    );
    table.ahead(
        "III-A: stale hits with random replacement, one client",
        "more than with the server's order",
        Shown::new("%", random),
        LEAST_DIFFERENCE,
        &[random / same.max(0.01)],
        "",
    );
    table.not_of_paper();
}

/// Several clients that know nothing of each other, each with a directory as large as the server's memory.
fn together(laboratory: &mut Laboratory<'_>, bench: &Bench, table: &mut Table) {
    let mut time = |policy: &Policy, pattern| {
        let references = bench.server_blocks();
        let outcome = at(laboratory, bench, policy, CLIENTS, pattern, references);
        outcome.access_us(&bench.times).max(1e-9)
    };
    let any = Pattern::Uniform;
    let (silent, told, late) = (time(&LRU, any), time(&TOLD, any), time(&TOLD_LATE, any));
    table.ahead(
        "III-A: access time, silent server over one that tells, 4 clients",
        "with many non-cooperating clients server feedback will be necessary",
        Shown::new("times", silent / told),
        VISIBLE,
        &[silent / told],
        "Judged: a tenth can be seen. The messages' own cost is not in it.",
    );
    table.ahead(
        "III-A: access time, stale in order over stale first, server tells, 4 clients",
        "a good policy is one that replaces stale references first",
        Shown::new("times", late / told),
        VISIBLE,
        &[late / told],
        "Judged: a tenth can be seen. The blocks that a server reports are the oldest in the \
            directory too, and leave soon anyway. A silent server's stale \
            references are known as stale only between the refusal and the reply.",
    );
    let (first, late) = (time(&RANDOM_TOLD, any), time(&RANDOM_TOLD_LATE, any));
    table.ahead(
        "III-A: access time, stale in order over stale first, random, server tells, 4 clients",
        "a random order needs it more",
        Shown::new("times", late / first),
        LEAST_DIFFERENCE,
        &[late / first],
        "",
    );
    table.not_of_paper();
    let random = time(&RANDOM, any);
    table.same(
        "III-A: access time, random over least recently used, 4 clients",
        "the order matters little where each block is used as often",
        VISIBLE,
        random / silent,
        "",
    );
    table.not_of_paper();
    let popular = [&LRU, &CHANCE, &RANDOM, &TOLD].map(|policy| time(policy, Pattern::Zipf));
    let worst = popular.iter().copied().fold(0.0, f64::max);
    let best = popular.iter().copied().fold(f64::INFINITY, f64::min);
    table.same(
        "III-A: access time, the worst policy over the best, popular blocks, 4 clients",
        "the policies are the same where some blocks are popular",
        VISIBLE,
        worst / best,
        "Popular blocks stay at the server, for all readers, and in every directory.",
    );
    table.not_of_paper();
}
