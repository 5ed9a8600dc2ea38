//! Whether two writes have a byte in common, by their descriptions alone.
//!
//! A description of a hundred bytes may stand for 2^20 pieces, so the check looks at no single piece. Two nested
//! descriptions overlap under one condition: the distance between their first bytes is a sum of multiples of their
//! strides, give or take the lengths of their pieces.
//!
//! The check is exact for the regular cases: equal strides, or strides that each cover the repetition inside. Where
//! the search would take long, the answer is "they may overlap", which is always safe: see [`super::Version`].

use gannet_wire::volume::{Description, LEVELS_MAX, Piece, Placement, Shape};

/// The bytes of an object that a write stores, in the form of its description.
#[derive(Debug)]
pub(super) struct WriteSet {
    placement: Placement,
    /// The position in the file.
    start: i128,
    end: i128,
    form: Form,
}

#[derive(Debug)]
enum Form {
    /// Starts and ends in order, without overlaps.
    Ranges(Vec<(i128, i128)>),
    Nested(Nested),
}

#[derive(Debug, Clone, Copy)]
struct Nested {
    start: i128,
    len: i128,
    /// Strides and counts by level.
    levels: [(i128, i128); LEVELS_MAX],
}

/// Multiples of a stride, from `least` to `most`.
#[derive(Debug, Clone, Copy)]
struct Multiples {
    stride: i128,
    least: i128,
    most: i128,
}

/// The sums that mean an overlap, from `least` to `most`.
#[derive(Debug, Clone, Copy)]
struct Window {
    least: i128,
    most: i128,
}

/// Most terms of two shapes together.
const TERMS_MAX: usize = 2 * LEVELS_MAX;

impl WriteSet {
    pub(super) fn new(shape: &Shape, placement: Placement) -> WriteSet {
        WriteSet {
            placement,
            start: i128::from(shape.start()),
            end: i128::from(shape.end()),
            form: match shape.description() {
                Description::List(pieces) => Form::Ranges(sorted(pieces)),
                Description::Nested { first, levels } => {
                    let mut all = [(0, 1); LEVELS_MAX];
                    for (to, level) in all.iter_mut().zip(levels) {
                        *to = (i128::from(level.stride), i128::from(level.count));
                    }
                    Form::Nested(Nested {
                        start: i128::from(first.offset),
                        len: i128::from(first.len),
                        levels: all,
                    })
                }
            },
        }
    }

    /// Whether both writes may store the same byte of the object. Spends `steps` for the search; returns true without
    /// any.
    ///
    /// The check compares bytes of the file, so bytes that lie on other servers alone count too.
    pub(super) fn may_overlap(&self, other: &WriteSet, steps: &mut u32) -> bool {
        if self.placement != other.placement {
            return true;
        }
        if self.end <= other.start || other.end <= self.start {
            return spend(steps).is_none();
        }
        let overlap = match (&self.form, &other.form) {
            (Form::Nested(one), Form::Nested(another)) => one.overlaps(another, steps),
            (Form::Ranges(ranges), Form::Nested(nested))
            | (Form::Nested(nested), Form::Ranges(ranges)) => {
                let pieces = ranges.iter().map(|(start, end)| Nested {
                    start: *start,
                    len: end - start,
                    levels: [(0, 1); LEVELS_MAX],
                });
                any(pieces, |piece| piece.overlaps(nested, steps))
            }
            (Form::Ranges(one), Form::Ranges(another)) => ranges_overlap(one, another, steps),
        };
        // The steps ran out.
        overlap.unwrap_or(true)
    }
}

/// Takes one step; `None` when there is none left.
fn spend(steps: &mut u32) -> Option<()> {
    *steps = steps.checked_sub(1)?;
    Some(())
}

/// Whether `is_such` holds for one of the items. `None` if it is unknown for an item, and holds for none before it.
fn any<T>(
    items: impl IntoIterator<Item = T>,
    mut is_such: impl FnMut(T) -> Option<bool>,
) -> Option<bool> {
    for item in items {
        if is_such(item)? {
            return Some(true);
        }
    }
    Some(false)
}

fn sorted(pieces: &[Piece]) -> Vec<(i128, i128)> {
    let range = |piece: &Piece| {
        let start = i128::from(piece.offset);
        (start, start + i128::from(piece.len))
    };
    let mut ranges: Vec<(i128, i128)> = pieces.iter().map(range).collect();
    ranges.sort_unstable();
    ranges.dedup_by(|next, before| {
        let touches = next.0 <= before.1;
        if touches {
            before.1 = before.1.max(next.1);
        }
        touches
    });
    ranges
}

fn ranges_overlap(one: &[(i128, i128)], another: &[(i128, i128)], steps: &mut u32) -> Option<bool> {
    let (mut one, mut another) = (one.iter().peekable(), another.iter().peekable());
    while let (Some(left), Some(right)) = (one.peek(), another.peek()) {
        spend(steps)?;
        if left.1 <= right.0 {
            one.next();
        } else if right.1 <= left.0 {
            another.next();
        } else {
            return Some(true);
        }
    }
    Some(false)
}

impl Nested {
    /// Whether pieces of both overlap; `None` when the steps are used up.
    fn overlaps(&self, other: &Nested, steps: &mut u32) -> Option<bool> {
        spend(steps)?;
        // The distance of overlapping pieces is less than the length of `self` behind, or that of `other` before.
        let distance = other.start - self.start;
        let mut window = Window {
            least: 1 - other.len - distance,
            most: self.len - 1 - distance,
        };
        let mut terms = [(0, 0, 0); TERMS_MAX];
        let behind = other
            .levels
            .iter()
            .map(|(stride, count)| (*stride, 0, count - 1));
        let before = self
            .levels
            .iter()
            .map(|(stride, count)| (*stride, 1 - count, 0));
        for (term, found) in terms.iter_mut().zip(behind.chain(before)) {
            *term = found;
        }
        terms.sort_unstable();
        let mut kept: [Multiples; TERMS_MAX] = [Multiples::NONE; TERMS_MAX];
        let mut count = 0;
        for (stride, least, most) in terms {
            let term = Multiples {
                stride,
                least,
                most,
            };
            if !term.joins(&mut window, kept.get_mut(..count).unwrap_or_default()) {
                if let Some(next) = kept.get_mut(count) {
                    *next = term;
                }
                count += 1;
            }
        }
        is_sum(kept.get(..count).unwrap_or_default(), window, steps)
    }
}

impl Multiples {
    const NONE: Multiples = Multiples {
        stride: 0,
        least: 0,
        most: 0,
    };

    /// Merges the term where that changes nothing:
    ///
    /// - into the window, if it moves the window by no more than its width;
    /// - into the last smaller term, if it closes the gaps between the multiples of that.
    fn joins(&self, window: &mut Window, smaller: &mut [Multiples]) -> bool {
        let Multiples {
            stride,
            least,
            most,
        } = *self;
        if stride == 0 || least == most && most == 0 {
            return true;
        }
        match smaller.last_mut() {
            None if stride <= window.most - window.least + 1 => {
                window.least -= stride * most;
                window.most -= stride * least;
                true
            }
            None => false,
            Some(last) => {
                let times = stride / last.stride;
                let joins = stride % last.stride == 0 && last.most - last.least + 1 >= times;
                if joins {
                    last.least += times * least;
                    last.most += times * most;
                }
                joins
            }
        }
    }
}

/// Whether multiples of the strides, in ascending order, add up to a number in the window. `None`: the steps are used
/// up.
fn is_sum(terms: &[Multiples], window: Window, steps: &mut u32) -> Option<bool> {
    spend(steps)?;
    let Some((term, smaller)) = terms.split_last() else {
        return Some(window.least <= 0 && 0 <= window.most);
    };
    let reach = |of: fn(&Multiples) -> i128| smaller.iter().map(|it| it.stride * of(it)).sum();
    let (least, most): (i128, i128) = (reach(|it| it.least), reach(|it| it.most));
    let from = div_ceil(window.least - most, term.stride).max(term.least);
    let to = (window.most - least).div_euclid(term.stride).min(term.most);
    any(from..=to, |times| {
        let by = times * term.stride;
        let window = Window {
            least: window.least - by,
            most: window.most - by,
        };
        is_sum(smaller, window, steps)
    })
}

/// The quotient, rounded up; the stride is positive.
fn div_ceil(value: i128, stride: i128) -> i128 {
    -(-value).div_euclid(stride)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gannet_volume::layout::parts;
    use gannet_wire::volume::Level;
    use proptest::prelude::*;
    use std::collections::HashSet;

    const ALONE: Placement = Placement {
        unit: 4096,
        width: 1,
        index: 0,
    };
    const STEPS: u32 = 1000;

    fn nested(offset: u64, len: u32, levels: &[(u32, u64)]) -> Shape {
        let levels = levels.iter().map(|(count, stride)| Level {
            count: *count,
            stride: *stride,
        });
        Shape::nested(Piece { offset, len }, levels.collect()).unwrap()
    }

    /// The answer, and the steps that it took.
    fn overlap(one: &Shape, another: &Shape) -> (bool, u32) {
        let mut steps = STEPS;
        let (one, another) = (WriteSet::new(one, ALONE), WriteSet::new(another, ALONE));
        let answer = one.may_overlap(&another, &mut steps);
        (answer, STEPS - steps)
    }

    #[test]
    fn a_million_pieces_take_a_few_steps() {
        let rows = |offset| nested(offset, 10, &[(1 << 20, 300)]);
        for rank in 1..30 {
            let (answer, steps) = overlap(&rows(0), &rows(10 * rank));
            assert!(!answer && steps < 8, "{answer} after {steps}");
        }
        let (answer, steps) = overlap(&rows(0), &rows(300 * 77 + 9));
        assert!(answer && steps < 8, "{answer} after {steps}");
    }

    #[test]
    fn blocks_of_a_space_do_not_meet() {
        // Blocks of 4 x 16 x 16 bytes in a space of 64 x 64 x 64.
        let block = |x: u64, y: u64, z: u64| {
            let at = x + 64 * (y + 64 * z);
            nested(at, 4, &[(16, 64), (16, 64 * 64)])
        };
        for (x, y, z) in [(4, 0, 0), (60, 0, 0), (0, 16, 0), (0, 48, 16), (0, 0, 16)] {
            let (answer, steps) = overlap(&block(0, 0, 0), &block(x, y, z));
            assert!(!answer && steps < 40, "{x} {y} {z}: {answer} after {steps}");
        }
        assert!(overlap(&block(0, 0, 0), &block(3, 15, 15)).0);
    }

    #[test]
    fn shapes_whose_check_takes_long_may_overlap() {
        // All strides are even and the distance is odd, so they do not overlap; but the search would be long.
        let even = |offset, by: u64| nested(offset, 1, &[(900, 2018 + by), (900, 4006 - by)]);
        assert_eq!(overlap(&even(0, 0), &even(7, 80)), (true, STEPS));
        let mut none = 0;
        let (one, another) = (nested(0, 10, &[]), nested(10, 10, &[]));
        let (one, another) = (WriteSet::new(&one, ALONE), WriteSet::new(&another, ALONE));
        assert!(one.may_overlap(&another, &mut none));
    }

    #[test]
    fn the_largest_shapes_do_not_overflow() {
        let far = nested(u64::MAX - 20, 10, &[]);
        let wide = nested(0, 10, &[(2, u64::MAX - 20)]);
        let wider = nested(
            5,
            1,
            &[(2, u64::MAX / 4), (2, u64::MAX / 4), (2, u64::MAX / 4)],
        );
        assert!(overlap(&far, &wide).0);
        assert!(!overlap(&far, &wider).0);
        assert!(overlap(&wide, &wider).0);
    }

    fn shapes() -> impl Strategy<Value = Shape> {
        let piece = (0..300u64, 1..30u32).prop_map(|(offset, len)| Piece { offset, len });
        let list = prop::collection::vec(piece.clone(), 1..6);
        let strides = prop_oneof![0..90u64, Just(10), Just(40), Just(80), Just(160)];
        let level = (1..6u32, strides).prop_map(|(count, stride)| Level { count, stride });
        let levels = prop::collection::vec(level, 0..4);
        prop_oneof![
            list.prop_map(|pieces| Shape::list(pieces).unwrap()),
            (piece, levels).prop_map(|(first, levels)| Shape::nested(first, levels).unwrap()),
        ]
    }

    fn bytes_of(shape: &Shape, placement: Placement) -> HashSet<u64> {
        let parts = parts(shape, placement);
        parts
            .flat_map(|part| part.object_offset..part.object_end())
            .collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        /// With enough steps the answer is exact on one server; with few it errs only towards an overlap.
        #[test]
        fn the_answer_is_that_of_the_bytes(one in shapes(), another in shapes()) {
            let exact = !bytes_of(&one, ALONE).is_disjoint(&bytes_of(&another, ALONE));
            prop_assert_eq!(overlap(&one, &another).0, exact);
            let mut few = 2;
            let sets = (WriteSet::new(&one, ALONE), WriteSet::new(&another, ALONE));
            prop_assert!(sets.0.may_overlap(&sets.1, &mut few) || !exact);
        }

        /// The check misses no byte that two writes have in common on a server.
        #[test]
        fn no_overlap_on_a_server_is_missed(
            one in shapes(), another in shapes(), unit in 1..60u32, width in 1..4u32,
        ) {
            for index in 0..width {
                let placement = Placement { unit, width, index };
                let sets = (WriteSet::new(&one, placement), WriteSet::new(&another, placement));
                let meet = !bytes_of(&one, placement).is_disjoint(&bytes_of(&another, placement));
                prop_assert!(sets.0.may_overlap(&sets.1, &mut STEPS.clone()) || !meet);
            }
        }
    }
}
