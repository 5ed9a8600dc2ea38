use super::*;
use gannet_volume::client::optimistic::Balance;

fn load(blocks: u64, server_blocks: u64) -> CachingLoad {
    CachingLoad {
        clients: 1,
        blocks,
        file_blocks: blocks,
        server_blocks,
        server_files: 1,
        memory: ClientMemoryOptions {
            budget: 200 * 8192 + blocks * 8,
            block_len: 8192,
            entry_cost: 8,
            balance: Balance::Fixed {
                directory: blocks * 8,
            },
            ..ClientMemoryOptions::new(0)
        },
        pattern: Pattern::Uniform,
        start: Start::References,
        prefetch: 0,
        invalidations: 0,
        attributes: Attributes::Unused,
        costs: (Duration::from_micros(2), Duration::from_micros(1)),
        accesses: 40_000,
        warm_up: 10_000,
    }
}

#[test]
fn nothing_is_stale_while_the_file_fits() {
    let outcome = run(&load(900, 1000));
    assert_eq!((outcome.stale_hits, outcome.misses), (0, 0));
    let all = outcome.cache_hits + outcome.directory_hits;
    assert_eq!((all, outcome.accesses), (40_000, 40_000));
    // 200 of 900 blocks, less a little for names.
    assert!((21.0..23.0).contains(&outcome.percent(outcome.cache_hits)));
}

#[test]
fn what_does_not_fit_is_stale() {
    let outcome = run(&load(1250, 1000));
    let stale = outcome.percent(outcome.stale_hits);
    // A fifth of the file is not there.
    assert!((17.0..23.0).contains(&stale), "{stale} %");
    assert_eq!(outcome.server_misses, outcome.stale_hits);
}

#[test]
fn a_server_that_tells_leaves_nothing_stale() {
    let told = CachingLoad {
        invalidations: 1,
        ..load(1250, 1000)
    };
    let outcome = run(&told);
    assert_eq!(outcome.stale_hits, 0);
    assert!(outcome.messages > 0 && outcome.misses > 0);
    // In messages of many, most come too late for some.
    let rarely = run(&CachingLoad {
        invalidations: 16,
        ..told
    });
    assert!(rarely.stale_hits > 0);
    assert!(rarely.messages * 10 < outcome.messages);
}

#[test]
fn files_are_read_from_their_beginning_and_prefetched() {
    let files = CachingLoad {
        file_blocks: 16,
        pattern: Pattern::Files,
        start: Start::Cold,
        clients: 4,
        ..load(1600, 1000)
    };
    let lazy = run(&files);
    let eager = run(&CachingLoad {
        prefetch: 15,
        ..files
    });
    assert_eq!(lazy.prefetched, 0);
    assert!(eager.prefetched_used > 0);
    assert!(eager.directory_hits > lazy.directory_hits);
    assert!(eager.misses < lazy.misses);
}

#[test]
fn attributes_have_references_of_their_own() {
    let files = CachingLoad {
        file_blocks: 1,
        server_files: 1000,
        pattern: Pattern::Uniform,
        attributes: Attributes::ByReference,
        memory: ClientMemoryOptions {
            balance: Balance::Fixed { directory: 8000 },
            ..load(500, 1000).memory
        },
        ..load(500, 1000)
    };
    let outcome = run(&files);
    assert_eq!(outcome.stats, outcome.accesses);
    assert!(outcome.stat_directory_hits > 39_000);
    let by_call = run(&CachingLoad {
        attributes: Attributes::ByCall,
        ..files
    });
    assert_eq!(by_call.stat_directory_hits, 0);
    let times = AccessTimes {
        call: 2.0,
        optimistic: 1.0,
        stale: 1.0,
    };
    assert!(outcome.stat_us(&times) < 1.1 && by_call.stat_us(&times) > 1.9);
}

#[test]
fn accesses_replay() {
    assert_eq!(run(&load(1250, 1000)), run(&load(1250, 1000)));
}
