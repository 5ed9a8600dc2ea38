//! The findings of Optimistic DAFS, in a coarse form. The numbers are in `gannet-lab papers odafs`.
#![allow(clippy::unwrap_used)]

use gannet_lab::experiment::caching::{
    self, Attributes, CachingLoad, CachingOutcome, Pattern, Start,
};
use gannet_lab::experiment::optimistic::{AccessWay, latency};
use gannet_lab::profiles::{ODAFS_50, ODAFS_100};
use gannet_volume::client::optimistic::{Balance, ClientMemoryOptions};
use std::time::Duration;

const BLOCK: u32 = 8192;
/// Blocks of the server's pages.
const PAGES: u64 = 4000;

fn memory(references: u64) -> ClientMemoryOptions {
    let directory = references * 16;
    ClientMemoryOptions {
        budget: 900 * u64::from(BLOCK) + directory,
        block_len: BLOCK,
        entry_cost: 16,
        balance: Balance::Fixed { directory },
        ..ClientMemoryOptions::new(0)
    }
}

fn reads(blocks: u64, memory: ClientMemoryOptions) -> CachingOutcome {
    caching::run(&CachingLoad {
        clients: 1,
        blocks,
        file_blocks: blocks,
        server_blocks: PAGES,
        server_files: 1,
        memory,
        pattern: Pattern::Uniform,
        start: Start::References,
        prefetch: 0,
        invalidations: 0,
        attributes: Attributes::Unused,
        costs: (Duration::from_micros(145), Duration::from_micros(105)),
        accesses: 60_000,
        warm_up: 60_000,
    })
}

#[test]
fn an_optimistic_read_spares_a_quarter_to_a_third_of_a_call() {
    for (profile, least, most) in [(&ODAFS_50, 0.32, 0.34), (&ODAFS_100, 0.23, 0.24)] {
        let [call, read] = [AccessWay::InlineCall, AccessWay::Optimistic]
            .map(|way| latency(profile, way).unwrap().as_secs_f64());
        let saved = 1.0 - read / call;
        assert!((least..most).contains(&saved), "{}: {saved}", profile.name);
    }
}

#[test]
fn references_seldom_fail_while_the_file_fits_and_gracefully_beyond() {
    let stale = |blocks| {
        let outcome = reads(blocks, memory(blocks));
        outcome.percent(outcome.stale_hits)
    };
    assert!(stale(1100) + stale(3900) < 0.1);
    let [small, large] = [4400, 5200].map(stale);
    assert!(
        0.0 < small && small < large && large < 25.0,
        "{small} {large}"
    );
}

#[test]
fn a_directory_that_adapts_leaves_out_what_is_stale() {
    let blocks = 5200;
    let whole = reads(blocks, memory(blocks));
    let real = ClientMemoryOptions {
        block_len: BLOCK,
        ..ClientMemoryOptions::new(900 * u64::from(BLOCK))
    };
    let adaptive = reads(blocks, real);
    assert!(adaptive.stale_hits * 2 < whole.stale_hits);
    assert!(adaptive.cache_hits * 10 > whole.cache_hits * 9);
}
