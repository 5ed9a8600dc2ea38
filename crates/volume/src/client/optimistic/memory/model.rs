//! A client's memory against lists that are searched from one end to the other.

use super::*;
use proptest::prelude::*;

const BLOCK: u32 = 100;
const ENTRY: u32 = 10;
const FILES: u64 = 3;
const BLOCKS: u64 = 12;

#[derive(Debug, Clone)]
enum Step {
    Lookup {
        file: u64,
        block: u64,
    },
    LookupSince {
        file: u64,
        block: u64,
    },
    /// A read of a block ends.
    Read {
        file: u64,
        block: u64,
        /// The number of steps since it began.
        ago: u64,
    },
    Note {
        file: u64,
        blocks: Range<u64>,
        server: u16,
        ahead: bool,
    },
    Stale {
        file: u64,
        block: u64,
    },
    Invalidated {
        file: u64,
        blocks: Range<u64>,
    },
    Write {
        file: u64,
        blocks: Range<u64>,
    },
    Forget(u64),
    ForgetServer(u16),
}

fn steps(len: usize) -> impl Strategy<Value = Vec<Step>> {
    let name = || (0..FILES, 0..BLOCKS);
    let range = || (0..BLOCKS, 0..6u64).prop_map(|(start, len)| start..start + len);
    let step = prop_oneof![
        8 => name().prop_map(|(file, block)| Step::Lookup { file, block }),
        1 => name().prop_map(|(file, block)| Step::LookupSince { file, block }),
        4 => (name(), 0..3u64).prop_map(|((file, block), ago)| Step::Read { file, block, ago }),
        4 => (0..FILES, range(), 0..2u16, any::<bool>())
            .prop_map(|(file, blocks, server, ahead)| Step::Note { file, blocks, server, ahead }),
        3 => name().prop_map(|(file, block)| Step::Stale { file, block }),
        1 => (0..FILES, range()).prop_map(|(file, blocks)| Step::Invalidated { file, blocks }),
        1 => (0..FILES, range()).prop_map(|(file, blocks)| Step::Write { file, blocks }),
        1 => (0..FILES).prop_map(Step::Forget),
        1 => (0..2u16).prop_map(Step::ForgetServer),
    ];
    prop::collection::vec(step, 1..len)
}

/// The lists have their most recently used entry first.
struct Model {
    budget: u64,
    directory: u64,
    is_fixed: bool,
    data: Vec<(BlockName, u64)>,
    fresh: Vec<(BlockName, u16, bool)>,
    stale: Vec<(BlockName, u16)>,
    /// When each file was changed last.
    changed_at: Vec<u64>,
}

impl Model {
    fn lookup(&mut self, name: BlockName, oldest: u64) -> Option<Option<RemoteReference>> {
        if let Some(at) = self.data.iter().position(|it| it.0 == name) {
            let held = self.data.remove(at);
            if held.1 >= oldest {
                self.data.insert(0, held);
                return Some(None);
            }
        }
        let at = self.fresh.iter().position(|it| it.0 == name)?;
        let (name, server, prefetched) = self.fresh.remove(at);
        self.fresh.insert(0, (name, server, false));
        Some(Some(RemoteReference { server, prefetched }))
    }

    fn read(&mut self, name: BlockName, at: u64) {
        let is_newer = |it: &&(BlockName, u64)| it.0 == name && it.1 > at;
        let is_changed = self.changed_at[usize::try_from(name.file).unwrap()] > at;
        if is_changed || self.data.iter().find(is_newer).is_some() {
            return;
        }
        self.data.retain(|it| it.0 != name);
        self.data.insert(0, (name, at));
        self.make_room();
    }

    fn note(&mut self, name: BlockName, server: u16, ahead: bool) {
        let was_stale = self.stale.iter().position(|it| it.0 == name);
        if let Some(at) = was_stale {
            self.stale.remove(at);
            self.fresh.insert(0, (name, server, ahead));
        } else if let Some(at) = self.fresh.iter().position(|it| it.0 == name) {
            self.fresh[at].1 = server;
            if !ahead {
                let known = self.fresh.remove(at);
                self.fresh.insert(0, known);
            }
        } else {
            self.fresh.insert(0, (name, server, ahead));
            self.make_room();
        }
    }

    fn make_stale(&mut self, name: BlockName) {
        if let Some(at) = self.fresh.iter().position(|it| it.0 == name) {
            let (name, server, _) = self.fresh.remove(at);
            self.stale.insert(0, (name, server));
        }
    }

    fn bytes(&self) -> (u64, u64) {
        let references = self.fresh.len() + self.stale.len();
        let data = self.data.len() as u64 * u64::from(BLOCK + ENTRY);
        (references as u64 * u64::from(ENTRY), data)
    }

    fn make_room(&mut self) {
        loop {
            let (references, data) = self.bytes();
            let over_directory = references > self.directory;
            let (of_references, of_data) = if self.is_fixed {
                (over_directory, data > self.budget - self.directory)
            } else {
                let is_over = references + data > self.budget;
                let first = over_directory || !self.stale.is_empty() || data == 0;
                (is_over && first, is_over)
            };
            if of_references {
                if self.stale.pop().is_none() {
                    self.fresh.pop();
                }
            } else if of_data {
                self.data.pop();
            } else {
                return;
            }
        }
    }
}

/// The answer about a block that model and memory must agree on.
fn found(found: &BlockLookup<'_, u64>) -> Option<Option<RemoteReference>> {
    match found {
        BlockLookup::Data { .. } => Some(None),
        BlockLookup::Reference(reference) => Some(Some(*reference)),
        BlockLookup::Missing => None,
    }
}

/// Does one step with both, and compares what they answer.
fn step(memory: &mut ClientMemory<u64>, model: &mut Model, now: u64, step: Step) {
    let name = |file, block| BlockName { file, block };
    match step {
        Step::Lookup { file, block } => {
            let expected = model.lookup(name(file, block), 0);
            assert_eq!(found(&memory.lookup(file, block)), expected);
        }
        Step::LookupSince { file, block } => {
            let oldest = now.saturating_sub(20);
            let expected = model.lookup(name(file, block), oldest);
            let since = Instant::from_nanos(oldest);
            assert_eq!(found(&memory.lookup_since(file, block, since)), expected);
        }
        // The steps in between changed nothing of the file, or the model's time says so.
        Step::Read { file, block, ago } => {
            let at = now.saturating_sub(ago);
            let mut read = memory.read_starts(file, Instant::from_nanos(at));
            if model.changed_at[usize::try_from(file).unwrap()] > at {
                read.changes = read.changes.wrapping_sub(1);
            }
            memory.insert_data(read, block, block, BLOCK);
            model.read(name(file, block), at);
        }
        Step::Note {
            file,
            blocks,
            server,
            ahead,
        } => {
            memory.note_reference(file, blocks.clone(), server, ahead);
            blocks.for_each(|block| model.note(name(file, block), server, ahead));
        }
        Step::Stale { file, block } => {
            memory.note_stale(file, block);
            model.make_stale(name(file, block));
        }
        Step::Invalidated { file, blocks } => {
            memory.note_invalidated(file, blocks.clone());
            // In the order of numbers here: the memory goes by the file's list.
            let mut known: Vec<_> = (model.fresh.iter().map(|it| it.0))
                .filter(|it| it.file == file && blocks.contains(&it.block))
                .collect();
            known.sort_by_key(|it| position_of_stale(memory, *it));
            known.into_iter().rev().for_each(|it| model.make_stale(it));
        }
        Step::Write { file, blocks } => {
            memory.invalidate(file, blocks.clone());
            let is_written =
                |it: &(BlockName, u64)| it.0.file == file && blocks.contains(&it.0.block);
            model.data.retain(|it| !is_written(it));
            model.changed_at[usize::try_from(file).unwrap()] = now;
        }
        Step::Forget(file) => {
            memory.forget(file);
            model.data.retain(|it| it.0.file != file);
            model.fresh.retain(|it| it.0.file != file);
            model.stale.retain(|it| it.0.file != file);
            model.changed_at[usize::try_from(file).unwrap()] = now;
        }
        Step::ForgetServer(server) => {
            memory.forget_server(server);
            model.fresh.retain(|it| it.1 != server);
            model.stale.retain(|it| it.1 != server);
        }
    }
}

fn names_of<V: Charged>(table: &Table<V>, lists: &[Use]) -> Vec<BlockName> {
    let mut names = Vec::new();
    for list in lists {
        let mut next = table.front(*list);
        while let Some(slot) = next {
            names.push(table.name(slot).unwrap());
            next = table.after(slot);
        }
    }
    names
}

fn position_of_stale(memory: &ClientMemory<u64>, name: BlockName) -> Option<usize> {
    let names = names_of(&memory.references, &[Use::Stale]);
    names.iter().position(|it| *it == name)
}

fn options(balance: Balance, order: ReplacementOrder) -> ClientMemoryOptions {
    ClientMemoryOptions {
        block_len: BLOCK,
        entry_cost: ENTRY,
        order,
        balance,
        ..ClientMemoryOptions::new(1000)
    }
}

fn balances() -> impl Strategy<Value = Balance> {
    prop_oneof![
        (0..1000u64).prop_map(|directory| Balance::Fixed { directory }),
        (0..400u16, 400..1000u16).prop_map(|(least_permille, most_permille)| {
            Balance::Adaptive {
                least_permille,
                most_permille,
            }
        }),
    ]
}

proptest! {
    /// Least recently used, stale first: every answer, every order of leaving, every byte.
    #[test]
    fn it_is_what_lists_would_be(balance in balances(), steps in steps(120)) {
        let order = ReplacementOrder::LeastRecentlyUsed;
        let mut memory = ClientMemory::new(options(balance, order));
        let mut model = Model {
            budget: 1000,
            directory: memory.directory_limit(),
            is_fixed: memory.balancer.is_fixed(),
            data: Vec::new(),
            fresh: Vec::new(),
            stale: Vec::new(),
            changed_at: vec![0; usize::try_from(FILES).unwrap()],
        };
        // A range longer than the directory is cut at its first blocks.
        let longest = memory.directory_most() / u64::from(ENTRY);
        for (now, mut it) in (1..).zip(steps) {
            if let Step::Note { blocks, .. } = &mut it {
                blocks.end = blocks.end.min(blocks.start + longest);
            }
            step(&mut memory, &mut model, now, it);
            let recent = [Use::Recent, Use::Tail];
            let names: Vec<_> = model.data.iter().map(|it| it.0).collect();
            prop_assert_eq!(names_of(&memory.data, &recent), names);
            let names: Vec<_> = model.fresh.iter().map(|it| it.0).collect();
            prop_assert_eq!(names_of(&memory.references, &recent), names);
            let names: Vec<_> = model.stale.iter().map(|it| it.0).collect();
            prop_assert_eq!(names_of(&memory.references, &[Use::Stale]), names);
            let counters = memory.counters();
            prop_assert_eq!((counters.reference_bytes, counters.data_bytes), model.bytes());
        }
    }

    /// Whatever leaves in whatever order, the budget holds, and what was counted adds up.
    #[test]
    fn the_budget_holds(
        balance in balances(),
        order in prop_oneof![
            Just(ReplacementOrder::LeastRecentlyUsed),
            Just(ReplacementOrder::SecondChance),
            any::<u64>().prop_map(|seed| ReplacementOrder::Random { seed }),
        ],
        stale_first in any::<bool>(),
        steps in steps(300),
    ) {
        let all = ClientMemoryOptions { stale_first, ..options(balance, order) };
        let mut memory = ClientMemory::new(all);
        let (mut lookups, bounds) = (0, (memory.balancer.directory(), 1000));
        for (now, it) in (1..).zip(steps) {
            lookups += u64::from(matches!(it, Step::Lookup { .. } | Step::LookupSince { .. }));
            blind_step(&mut memory, now, it);
            let counters = memory.counters();
            prop_assert!(counters.data_bytes + counters.reference_bytes <= bounds.1);
            if let Balance::Fixed { .. } = balance {
                prop_assert!(counters.reference_bytes <= bounds.0);
            }
            let answered = counters.cache_hits + counters.references_found + counters.misses;
            prop_assert_eq!(answered, lookups);
            let held = names_of(&memory.data, &[Use::Recent, Use::Tail, Use::Stale]);
            prop_assert_eq!(held.len(), memory.data_len() as usize);
            let known = names_of(&memory.references, &[Use::Recent, Use::Tail, Use::Stale]);
            prop_assert_eq!(known.len(), memory.references_len() as usize);
        }
    }

    /// An adaptive bound stays between its ends, however the accesses are.
    #[test]
    fn the_bound_stays_between_its_ends(
        (least, most) in (1..300u16, 300..900u16),
        spans in prop::collection::vec((1..3000u64, any::<bool>()), 1..12),
    ) {
        let balance = Balance::Adaptive { least_permille: least, most_permille: most };
        let order = ReplacementOrder::LeastRecentlyUsed;
        let all = ClientMemoryOptions { budget: 100_000, ..options(balance, order) };
        let mut memory: ClientMemory<()> = ClientMemory::new(all);
        for (span, with_data) in spans {
            for number in 0..1500 {
                let block = spread(number, span) % span;
                if memory.lookup(1, block) == BlockLookup::Missing {
                    memory.note_reference(1, block..block + 1, 0, false);
                }
                if with_data {
                    let read = memory.read_starts(1, Instant::START);
                    memory.insert_data(read, block, (), BLOCK);
                }
                let limit = memory.directory_limit();
                prop_assert!((u64::from(least) * 100..=u64::from(most) * 100).contains(&limit));
            }
        }
    }
}

/// A step whose answer nobody compares.
fn blind_step(memory: &mut ClientMemory<u64>, now: u64, step: Step) {
    match step {
        Step::Lookup { file, block } => {
            let _ = memory.lookup(file, block);
        }
        Step::LookupSince { file, block } => {
            let oldest = Instant::from_nanos(now.saturating_sub(20));
            let _ = memory.lookup_since(file, block, oldest);
        }
        Step::Read { file, block, ago } => {
            let at = Instant::from_nanos(now.saturating_sub(ago));
            let read = memory.read_starts(file, at);
            memory.insert_data(read, block, block, BLOCK);
        }
        Step::Note {
            file,
            blocks,
            server,
            ahead,
        } => {
            memory.note_reference(file, blocks, server, ahead);
        }
        Step::Stale { file, block } => memory.note_stale(file, block),
        Step::Invalidated { file, blocks } => memory.note_invalidated(file, blocks),
        Step::Write { file, blocks } => memory.invalidate(file, blocks),
        Step::Forget(file) => memory.forget(file),
        Step::ForgetServer(server) => memory.forget_server(server),
    }
}
