use super::*;

/// References alone: what is left of the budget is for data, and none are put in.
fn directory(entries: u64, order: ReplacementOrder, stale_first: bool) -> ClientMemory<()> {
    ClientMemory::new(ClientMemoryOptions {
        budget: entries * 1000,
        entry_cost: 1000,
        order,
        stale_first,
        balance: Balance::Fixed {
            directory: entries * 1000,
        },
        ..ClientMemoryOptions::new(0)
    })
}

fn is_known(memory: &ClientMemory<()>, block: u64) -> bool {
    memory.reference(1, block).is_some()
}

fn known(memory: &ClientMemory<()>, blocks: Range<u64>) -> Vec<u64> {
    blocks.filter(|block| is_known(memory, *block)).collect()
}

fn read_of(memory: &ClientMemory<&'static str>, at: u64) -> ReadStart {
    memory.read_starts(1, Instant::from_nanos(at))
}

#[test]
fn data_that_leave_leave_their_reference_behind() {
    // Three blocks of data, as in the paper's figure 2.
    let mut memory = ClientMemory::new(ClientMemoryOptions {
        budget: 3 * (4096 + 64) + 6 * 64,
        balance: Balance::Adaptive {
            least_permille: 100,
            most_permille: 100,
        },
        ..ClientMemoryOptions::new(0)
    });
    for (block, bytes) in (0..).zip(["A", "B", "C", "D", "E", "F"]) {
        assert_eq!(memory.lookup(1, block), BlockLookup::Missing);
        memory.note_reference(1, block..block + 1, 7, false);
        let read = read_of(&memory, block);
        assert!(memory.insert_data(read, block, bytes, 4096));
    }
    let reference = RemoteReference {
        server: 7,
        prefetched: false,
    };
    assert_eq!(memory.lookup(1, 0), BlockLookup::Reference(reference));
    let data = BlockLookup::Data {
        data: &"F",
        read_at: Instant::from_nanos(5),
    };
    assert_eq!(memory.lookup(1, 5), data);
    // Block A was paged out: the client learns it when it tries.
    memory.note_stale(1, 0);
    assert_eq!(memory.lookup(1, 0), BlockLookup::Missing);
    memory.note_reference(1, 0..1, 7, false);
    assert_eq!(memory.lookup(1, 0), BlockLookup::Reference(reference));
    let counters = memory.counters();
    assert_eq!(counters.data_evictions, 3);
    assert_eq!((counters.cache_hits, counters.misses), (1, 7));
    assert_eq!((counters.directory_hits(), counters.stale_hits), (1, 1));
    assert_eq!(counters.reference_bytes, 6 * 64);
    assert_eq!(counters.data_bytes, 3 * (4096 + 64));
}

#[test]
fn the_least_recently_used_reference_leaves() {
    let mut memory = directory(3, ReplacementOrder::LeastRecentlyUsed, true);
    memory.note_reference(1, 0..3, 0, false);
    memory.lookup(1, 0);
    memory.note_reference(1, 3..4, 0, false);
    assert_eq!(known(&memory, 0..4), [0, 2, 3]);
}

#[test]
fn a_used_reference_has_a_second_chance() {
    let mut memory = directory(3, ReplacementOrder::SecondChance, true);
    memory.note_reference(1, 0..3, 0, true);
    memory.lookup(1, 0);
    memory.note_reference(1, 3..4, 0, true);
    assert_eq!(known(&memory, 0..4), [0, 2, 3]);
    // It was spared once, and not used since.
    memory.note_reference(1, 4..6, 0, true);
    assert_eq!(known(&memory, 0..6), [3, 4, 5]);
    memory.note_reference(1, 6..7, 0, true);
    assert_eq!(known(&memory, 0..7), [4, 5, 6]);
    // Where all were used, the oldest leaves.
    for block in 4..7 {
        assert_ne!(memory.lookup(1, block), BlockLookup::Missing);
    }
    memory.note_reference(1, 7..8, 0, true);
    assert_eq!(known(&memory, 0..8), [5, 6, 7]);
}

#[test]
fn random_replacement_follows_its_seed() {
    let run = |seed| {
        let mut memory = directory(10, ReplacementOrder::Random { seed }, true);
        memory.note_reference(1, 0..10, 0, false);
        memory.note_reference(1, 10..20, 0, false);
        assert_eq!(memory.references_len(), 10);
        known(&memory, 0..20)
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn stale_references_leave_first_if_they_shall() {
    for (stale_first, left) in [(true, [0, 2, 3]), (false, [1, 2, 3])] {
        let mut memory = directory(3, ReplacementOrder::LeastRecentlyUsed, stale_first);
        memory.note_reference(1, 0..3, 0, false);
        memory.lookup(1, 1);
        memory.note_stale(1, 1);
        memory.note_reference(1, 3..4, 0, false);
        let there: Vec<u64> = (0..4)
            .filter(|block| {
                memory
                    .references
                    .find(BlockName {
                        file: 1,
                        block: *block,
                    })
                    .is_some()
            })
            .collect();
        assert_eq!(there, left);
        assert_eq!(memory.counters().stale_evictions, u64::from(stale_first));
    }
}

#[test]
fn an_invalidated_reference_is_no_stale_hit() {
    let mut memory = directory(8, ReplacementOrder::LeastRecentlyUsed, true);
    memory.note_reference(1, 0..8, 0, false);
    memory.note_invalidated(1, 2..5);
    assert_eq!(memory.lookup(1, 3), BlockLookup::Missing);
    assert_eq!(known(&memory, 0..8), [0, 1, 5, 6, 7]);
    let counters = memory.counters();
    assert_eq!((counters.invalidations, counters.stale_hits), (3, 0));
}

#[test]
fn prefetched_references_are_counted_until_they_are_used() {
    let mut memory = directory(8, ReplacementOrder::LeastRecentlyUsed, true);
    memory.note_reference(1, 0..4, 0, true);
    let found = |prefetched| {
        BlockLookup::Reference(RemoteReference {
            server: 0,
            prefetched,
        })
    };
    assert_eq!(memory.lookup(1, 0), found(true));
    assert_eq!(memory.lookup(1, 0), found(false));
    let counters = memory.counters();
    assert_eq!((counters.prefetched, counters.prefetched_used), (4, 1));
}

#[test]
fn a_long_range_is_cut_at_what_the_directory_holds() {
    let mut memory = directory(8, ReplacementOrder::LeastRecentlyUsed, true);
    assert_eq!(memory.note_reference(1, 5..u64::MAX, 0, true), 8);
    assert_eq!(known(&memory, 0..20), [5, 6, 7, 8, 9, 10, 11, 12]);
}

#[test]
fn a_read_that_began_before_a_write_is_not_kept() {
    let mut memory = ClientMemory::new(ClientMemoryOptions::new(1 << 20));
    memory.note_reference(1, 0..1, 0, false);
    let before = read_of(&memory, 10);
    memory.invalidate(1, 0..1);
    assert!(!memory.insert_data(before, 0, "old", 4096));
    let after = read_of(&memory, 20);
    assert!(memory.insert_data(after, 0, "new", 4096));
    // Written in place: the server has the block in memory still.
    memory.invalidate(1, 0..u64::MAX);
    assert!(matches!(memory.lookup(1, 0), BlockLookup::Reference(_)));
}

#[test]
fn of_two_reads_the_later_one_is_kept() {
    let mut memory = ClientMemory::new(ClientMemoryOptions::new(1 << 20));
    let (early, late) = (read_of(&memory, 10), read_of(&memory, 20));
    assert!(memory.insert_data(late, 0, "late", 4096));
    assert!(!memory.insert_data(early, 0, "early", 4096));
    let data = BlockLookup::Data {
        data: &"late",
        read_at: Instant::from_nanos(20),
    };
    assert_eq!(memory.lookup(1, 0), data);
    assert_eq!(
        memory.lookup_since(1, 0, Instant::from_nanos(21)),
        BlockLookup::Missing
    );
    assert_eq!(memory.counters().expired, 1);
    assert_eq!(memory.data_len(), 0);
}

#[test]
fn files_and_servers_are_forgotten() {
    let mut memory = ClientMemory::new(ClientMemoryOptions::new(1 << 20));
    for file in 0..3 {
        memory.note_reference(file, 0..4, u16::try_from(file).unwrap(), false);
        let read = memory.read_starts(file, Instant::START);
        memory.insert_data(read, 0, "bytes", 5);
    }
    memory.note_stale(2, 3);
    let read = read_of(&memory, 0);
    memory.forget(1);
    assert!(!memory.insert_data(read, 0, "bytes", 5));
    assert_eq!((memory.references_len(), memory.data_len()), (8, 2));
    memory.forget_server(2);
    assert_eq!((memory.references_len(), memory.data_len()), (4, 2));
    memory.note_reference(0, ATTRIBUTE_BLOCK..ATTRIBUTE_BLOCK + 1, 0, false);
    assert!(memory.reference(0, ATTRIBUTE_BLOCK).is_some());
}

#[test]
fn a_block_that_does_not_fit_is_not_kept() {
    let mut memory = ClientMemory::new(ClientMemoryOptions::new(4096));
    let read = read_of(&memory, 0);
    assert!(!memory.insert_data(read, 0, "bytes", 4096));
    assert_eq!(memory.counters().data_bytes, 0);
}

/// Issue's bound: 64 bytes for an entry of the directory, whatever its share of the indexes is.
#[test]
fn an_entry_takes_at_most_64_bytes() {
    // Files of one block are the worst: an entry of the index of files for each.
    for blocks in [1, 1000] {
        let mut memory: ClientMemory<()> = ClientMemory::new(ClientMemoryOptions {
            balance: Balance::Fixed { directory: 1 << 30 },
            ..ClientMemoryOptions::new(1 << 30)
        });
        let mut worst = 0;
        for file in 0..200_000 / blocks {
            memory.note_reference(file, 0..blocks, 0, false);
            let entries = memory.references_len() as usize;
            // A few entries have a chunk and an index to themselves.
            if entries >= 10_000 {
                worst = worst.max(memory.directory_memory_len().div_ceil(entries));
            }
        }
        assert!((1..=ENTRY_COST as usize).contains(&worst), "{worst} bytes");
    }
}

/// Uniform reads of a file four times the cache. References cost a 64th of the data that they stand for and save twice
/// as much as a hit in the cache, so they are given room until all blocks have one, and no more.
#[test]
fn references_get_room_for_the_file_and_no_more() {
    let blocks = 16_384;
    let mut memory: ClientMemory<()> = ClientMemory::new(ClientMemoryOptions::new(16 << 20));
    for number in 0..200_000 {
        let block = spread(number, 1) % blocks;
        match memory.lookup(1, block) {
            BlockLookup::Data { .. } => continue,
            BlockLookup::Reference(_) => {}
            BlockLookup::Missing => {
                memory.note_reference(1, block..block + 1, 0, false);
            }
        }
        let read = memory.read_starts(1, Instant::START);
        memory.insert_data(read, block, (), 4096);
    }
    assert_eq!(u64::from(memory.references_len()), blocks);
    let counters = memory.counters();
    assert!(counters.data_bytes + counters.reference_bytes > (16 << 20) - 8192);
    // Less than a fifth more than the references of the whole file.
    assert!(memory.directory_limit() < blocks * 64 * 6 / 5);
}

/// A small hot set under a stream of blocks that are read once: references of the stream are worth nothing.
#[test]
fn a_stream_does_not_take_the_hot_blocks_memory() {
    let hot = 3_000;
    let mut memory: ClientMemory<()> = ClientMemory::new(ClientMemoryOptions::new(16 << 20));
    let mut hits = 0;
    for number in 0..300_000_u64 {
        let of_stream = number % 3 == 0;
        let (file, block) = if of_stream {
            (2, number)
        } else {
            (1, spread(number, 1) % hot)
        };
        let was_cached = match memory.lookup(file, block) {
            BlockLookup::Data { .. } => true,
            BlockLookup::Reference(_) => false,
            BlockLookup::Missing => {
                memory.note_reference(file, block..block + 1, 0, false);
                false
            }
        };
        if number > 150_000 && !of_stream {
            hits += u64::from(was_cached);
        }
        if !was_cached {
            let read = memory.read_starts(file, Instant::START);
            memory.insert_data(read, block, (), 4096);
        }
    }
    // All of the cache for data would hold 4033 blocks, of which the stream passes through a part.
    assert!(hits > 60_000, "{hits} of 100000");
    assert!(
        memory.directory_limit() < 2 << 20,
        "{}",
        memory.directory_limit()
    );
}
