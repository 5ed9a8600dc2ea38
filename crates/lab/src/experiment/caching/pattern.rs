//! Which blocks clients access: streams of places that depend on the load and the client alone.

use super::CachingLoad;
use gannet_sim::Random;
use std::rc::Rc;

/// An order of accesses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// Any block, each as often.
    Uniform,
    /// Any block, the n-th most popular one 1/n as often as the first (Zipf's law); popular ones lie apart.
    Zipf,
    /// Whole files from their first block to their last; the n-th most popular file 1/n as often as the first.
    Files,
}

/// A block of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) file: u64,
    pub(super) block: u64,
}

impl Place {
    /// The place of a block with this number among the blocks of all files.
    pub(super) fn of(block: u64, file_blocks: u64) -> Place {
        Place {
            file: block / file_blocks.max(1),
            block: block % file_blocks.max(1),
        }
    }
}

/// A client's accesses.
pub(super) struct Accesses {
    pattern: Pattern,
    random: Random,
    blocks: u64,
    file_blocks: u64,
    /// Sums of the weights of the most popular ones: of blocks, or of files.
    weights: Rc<Vec<u64>>,
    /// The block of a file that is read next.
    reading: Option<Place>,
}

/// The weight of the most popular one. Integers, so that every machine has the same.
const WEIGHT: u64 = 1 << 32;

impl Accesses {
    pub(super) fn new(load: &CachingLoad, client: u64) -> Accesses {
        let ranks = match load.pattern {
            Pattern::Uniform => 0,
            Pattern::Zipf => load.blocks,
            Pattern::Files => load.blocks / load.file_blocks.max(1),
        };
        let mut sum = 0;
        let weights = (1..=ranks).map(|rank| {
            sum += WEIGHT / rank;
            sum
        });
        Accesses {
            pattern: load.pattern,
            random: Random::new(client + 1),
            blocks: load.blocks.max(1),
            file_blocks: load.file_blocks.max(1),
            weights: Rc::new(weights.collect()),
            reading: None,
        }
    }

    pub(super) fn next(&mut self) -> Place {
        match self.pattern {
            Pattern::Uniform => Place::of(self.random.below(self.blocks), self.file_blocks),
            Pattern::Zipf => Place::of(self.popular(), self.file_blocks),
            Pattern::Files => {
                let place = match self.reading {
                    Some(place) => place,
                    None => Place {
                        file: self.popular(),
                        block: 0,
                    },
                };
                let next = Place {
                    block: place.block + 1,
                    ..place
                };
                self.reading = Some(next).filter(|next| next.block < self.file_blocks);
                place
            }
        }
    }

    /// One of the ranks, at a place far from that of its neighbour.
    fn popular(&mut self) -> u64 {
        let ranks = self.weights.len() as u64;
        let all = self.weights.last().copied().unwrap_or(1);
        let drawn = self.random.below(all);
        let rank = self.weights.partition_point(|sum| *sum <= drawn) as u64;
        // A prime that divides no number of ranks that a study uses: each rank has a place of its own.
        rank.wrapping_mul(1_000_003) % ranks.max(1)
    }
}
