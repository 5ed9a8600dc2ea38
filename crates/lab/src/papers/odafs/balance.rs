//! Section III-A, question 2: how much of the client's memory is for references.

use super::super::Figure;
use super::super::laboratory::Laboratory;
use super::super::row::{LEAST_DIFFERENCE, Shown, Table};
use super::{Axes, Bench, SCALE, figure, line};
use crate::experiment::caching::{CachingLoad, Pattern};
use gannet_volume::client::optimistic::{Balance, ClientMemoryOptions};

/// Thousandths of the memory for references.
const SHARES: [u64; 9] = [2, 5, 10, 20, 40, 80, 160, 320, 640];
const PATTERNS: [(&str, Pattern); 2] = [("uniform", Pattern::Uniform), ("popular", Pattern::Zipf)];

/// Mean access time with a fixed share, or with the balance that adapts.
fn time(
    laboratory: &mut Laboratory<'_>,
    bench: &Bench,
    pattern: Pattern,
    share: Option<u64>,
) -> f64 {
    let memory = bench.adaptive(bench.client_bytes / SCALE);
    let balance = match share {
        Some(share) => Balance::Fixed {
            directory: memory.budget * share / 1000,
        },
        None => memory.balance,
    };
    let memory = ClientMemoryOptions { balance, ..memory };
    let load = CachingLoad {
        pattern,
        accesses: 80_000,
        warm_up: 100_000,
        ..bench.load(bench.large_blocks(), memory)
    };
    laboratory.cache(&load).access_us(&bench.times)
}

pub(super) fn run(laboratory: &mut Laboratory<'_>, bench: &Bench, table: &mut Table) -> Figure {
    for (name, pattern) in PATTERNS {
        let fixed = SHARES.map(|share| time(laboratory, bench, pattern, Some(share)));
        let best = fixed.iter().copied().fold(f64::INFINITY, f64::min);
        let worst = fixed.iter().copied().fold(0.0, f64::max);
        let adaptive = time(laboratory, bench, pattern, None);
        table.same(
            &format!("III-A: access time, the best fixed share over adaptive, {name}"),
            "the adaptive balance is as good as the best share",
            LEAST_DIFFERENCE,
            best / adaptive,
            "The shares are 0.2 to 64 % of the memory.",
        );
        table.not_of_paper();
        table.ahead(
            &format!("III-A: access time, the worst fixed share over the best, {name}"),
            "what the right balance is worth",
            Shown::new("times", worst / best),
            LEAST_DIFFERENCE,
            &[worst / best],
            "",
        );
        table.not_of_paper();
    }
    let mut series = Vec::new();
    for (name, pattern) in PATTERNS {
        series.push(line(
            laboratory,
            &format!("{name}, fixed share"),
            &SHARES,
            |laboratory, share| time(laboratory, bench, pattern, Some(share)),
        ));
        series.push(line(
            laboratory,
            &format!("{name}, adaptive"),
            &SHARES,
            |laboratory, _| time(laboratory, bench, pattern, None),
        ));
    }
    figure(
        "odafs-balance",
        "The directory's share of the client's memory (question 2)",
        Axes {
            x: "thousandths of the memory for references",
            y: "us an access",
        },
        series,
    )
}
