//! Inputs from seeds: what proptest draws, and shrinks when a target fails.

use proptest::prelude::*;
use proptest::sample::Index;
use std::sync::Arc;

/// Longest input given to a target, in bytes.
pub const INPUT_MAX: usize = 64 << 10;
/// Most changes made to a seed at a time.
const MUTATIONS_MAX: usize = 8;

/// Words that lengths and counts get wrong.
const ODD_WORDS: [u32; 14] = [
    0,
    1,
    2,
    3,
    4,
    5,
    0x40,
    0x41,
    0x400,
    0x0010_0000,
    0x0010_0001,
    0x7fff_ffff,
    0x8000_0000,
    u32::MAX,
];

/// One change to a seed. Places are relative, so that any change fits any seed.
#[derive(Debug, Clone)]
enum Mutation {
    Flip { at: Index, bit: u8 },
    Set { at: Index, value: u8 },
    Word { at: Index, value: u32 },
    Add { at: Index, by: i8 },
    Insert { at: Index, bytes: Vec<u8> },
    Remove { at: Index, len: u8 },
    Repeat { from: Index, len: u8, at: Index },
    Cut { at: Index },
    Splice { seed: Index, from: Index, at: Index },
}

/// Inputs made from `seeds`, or from nothing when there are none.
pub fn inputs(seeds: Arc<Vec<Vec<u8>>>) -> impl Strategy<Value = Vec<u8>> {
    let changes = proptest::collection::vec(mutation(), 0..MUTATIONS_MAX);
    (any::<Index>(), changes).prop_map(move |(seed, changes)| {
        let mut input = pick(&seeds, seed).to_vec();
        for change in &changes {
            change.apply(&mut input, &seeds);
        }
        input.truncate(INPUT_MAX);
        input
    })
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let index = any::<Index>;
    let word = prop_oneof![proptest::sample::select(&ODD_WORDS[..]), any::<u32>()];
    let bytes = proptest::collection::vec(any::<u8>(), 1..32);
    prop_oneof![
        1 => (index(), 0..8u8).prop_map(|(at, bit)| Mutation::Flip { at, bit }),
        1 => (index(), any::<u8>()).prop_map(|(at, value)| Mutation::Set { at, value }),
        4 => (index(), word).prop_map(|(at, value)| Mutation::Word { at, value }),
        1 => (index(), any::<i8>()).prop_map(|(at, by)| Mutation::Add { at, by }),
        1 => (index(), bytes).prop_map(|(at, bytes)| Mutation::Insert { at, bytes }),
        1 => (index(), 1..64u8).prop_map(|(at, len)| Mutation::Remove { at, len }),
        1 => (index(), 1..64u8, index())
            .prop_map(|(from, len, at)| Mutation::Repeat { from, len, at }),
        1 => index().prop_map(|at| Mutation::Cut { at }),
        1 => (index(), index(), index())
            .prop_map(|(seed, from, at)| Mutation::Splice { seed, from, at }),
    ]
}

fn pick(seeds: &[Vec<u8>], index: Index) -> &[u8] {
    match seeds.len() {
        0 => &[],
        count => &seeds[index.index(count)],
    }
}

impl Mutation {
    fn apply(&self, input: &mut Vec<u8>, seeds: &[Vec<u8>]) {
        // A place may be the end, so that inputs can grow there.
        let place = |index: &Index| index.index(input.len() + 1);
        match self {
            Mutation::Flip { at, bit } => {
                let at = place(at);
                change(input, at, |byte| byte ^ (1 << bit));
            }
            Mutation::Set { at, value } => {
                let at = place(at);
                change(input, at, |_| *value);
            }
            Mutation::Add { at, by } => {
                let at = place(at);
                change(input, at, |byte| byte.wrapping_add_signed(*by));
            }
            Mutation::Word { at, value } => {
                // Fields of these protocols stand at multiples of four.
                let at = place(at) & !3;
                for (offset, byte) in value.to_be_bytes().into_iter().enumerate() {
                    change(input, at + offset, |_| byte);
                }
            }
            Mutation::Insert { at, bytes } => {
                let at = place(at);
                input.splice(at..at, bytes.iter().copied());
            }
            Mutation::Remove { at, len } => {
                let at = place(at);
                let end = (at + usize::from(*len)).min(input.len());
                input.drain(at..end);
            }
            Mutation::Repeat { from, len, at } => {
                let (from, at) = (place(from), place(at));
                let end = (from + usize::from(*len)).min(input.len());
                let piece = input[from..end].to_vec();
                input.splice(at..at, piece);
            }
            Mutation::Cut { at } => {
                let at = place(at);
                input.truncate(at);
            }
            Mutation::Splice { seed, from, at } => {
                let at = place(at);
                let other = pick(seeds, *seed);
                input.truncate(at);
                input.extend_from_slice(&other[from.index(other.len() + 1)..]);
            }
        }
    }
}

fn change(input: &mut [u8], at: usize, to: impl FnOnce(u8) -> u8) {
    if let Some(byte) = input.get_mut(at) {
        *byte = to(*byte);
    }
}
