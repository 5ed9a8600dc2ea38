//! Where the bytes of a file lie: striping.
//!
//! Stripe `n` of a file is in group `n` modulo the width. The stripes of one group follow each other without gaps in
//! its object, so that a contiguous range of the file is one contiguous range of each object.

use gannet_meta::groups::Groups;
use gannet_meta::limits::FILE_SIZE_MAX;
use gannet_wire::volume::{
    Chosen, Copies, FileId, FileState, LayoutRecord, ObjectId, ObjectState, Piece, Pieces,
    Placement, Shape, Stripes, WIDTH_MAX,
};

/// The groups for new files on each I/O server.
#[derive(Debug)]
pub struct GroupsForFiles {
    /// For files whose directories and creators choose no copies.
    others: Vec<Vec<u32>>,
    one: Vec<Vec<u32>>,
    two: Vec<Vec<u32>>,
}

impl GroupsForFiles {
    /// The groups of `servers` I/O servers, by choice and server.
    pub fn of(groups: &Groups, servers: u32) -> GroupsForFiles {
        GroupsForFiles {
            others: groups.by_server(servers, None),
            one: groups.by_server(servers, Some(Copies::One)),
            two: groups.by_server(servers, Some(Copies::Two)),
        }
    }

    /// The groups for files with this choice of copies, or without one.
    pub fn for_choice(&self, choice: Option<Copies>) -> &[Vec<u32>] {
        match choice {
            None => &self.others,
            Some(Copies::One) => &self.one,
            Some(Copies::Two) => &self.two,
        }
    }
}

/// Groups for a new file: of servers as `stripes` wishes, and as far as there are any. `groups` has the groups for
/// files on each server. `turn` goes round over the servers where no first one is chosen, and over the groups of each.
/// Files that go to servers in turn avoid those that are `away`, unless all are. No server gets two stripes.
pub fn place(stripes: &Stripes, groups: &[Vec<u32>], turn: u32, away: &[u32]) -> LayoutRecord {
    // Bounded by WIDTH_MAX.
    let servers = (groups.len() as u32).max(1);
    let round = (turn / servers) as usize;
    let group_of = |server: &u32| {
        let of_server = groups.get(*server as usize)?;
        of_server.get(round.checked_rem(of_server.len())?).copied()
    };
    let mut placed: Vec<u32> = (servers_for(stripes, servers, turn, away).iter())
        .filter_map(group_of)
        .collect();
    if placed.is_empty() {
        // A file must lie somewhere, also while nobody serves the groups that it should be in. In another group it
        // could have other copies.
        placed.push(groups.iter().flatten().next().copied().unwrap_or(0));
    }
    LayoutRecord {
        unit: stripes.unit,
        groups: placed,
    }
}

/// The servers for a new file, in the order of its stripes.
fn servers_for(stripes: &Stripes, servers: u32, turn: u32, away: &[u32]) -> Vec<u32> {
    let everyone = || (0..servers).collect::<Vec<_>>();
    let (first, width, candidates) = match &stripes.on {
        Chosen::InTurn(width) => {
            let here = (0..servers).filter(|number| !away.contains(number));
            let here = here.collect::<Vec<_>>();
            let candidates = if here.is_empty() { everyone() } else { here };
            (turn, *width, candidates)
        }
        Chosen::From { first, width } => (*first, *width, everyone()),
        Chosen::Listed(list) if is_there(list, servers) => return list.clone(),
        // An empty list cannot be chosen; a file must lie somewhere all the same.
        Chosen::Listed(_) => (turn, 0, everyone()),
    };
    let width = match width as usize {
        0 => candidates.len(),
        width => width.min(candidates.len()),
    };
    let first = first as usize % candidates.len();
    let in_order = candidates.iter().cycle().skip(first);
    in_order.take(width.min(WIDTH_MAX)).copied().collect()
}

fn is_there(list: &[u32], servers: u32) -> bool {
    !list.is_empty() && list.iter().all(|number| *number < servers)
}

/// The groups of a file, with their part of it.
pub fn placements(layout: &LayoutRecord) -> impl Iterator<Item = (u32, Placement)> {
    // Bounded by WIDTH_MAX.
    let (unit, width) = (layout.unit, layout.groups.len() as u32);
    layout.groups.iter().zip(0..).map(move |(number, index)| {
        let placement = Placement { unit, width, index };
        (*number, placement)
    })
}

/// The place of a file's object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjectPlace {
    /// The I/O server that has it.
    pub server: u32,
    /// Its name.
    pub object: ObjectId,
    /// Its part of the file.
    pub placement: Placement,
}

/// The objects of a file, on each server that should have them.
pub fn places(groups: &Groups, file: FileId, layout: &LayoutRecord) -> Vec<ObjectPlace> {
    let of_group = |(group, placement)| {
        let members = groups.get(group).map_or(&[][..], |record| &record.members);
        let complete = members.iter().filter(|member| member.state.is_complete());
        let file = file.0;
        complete.map(move |member| ObjectPlace {
            server: member.server,
            object: ObjectId { group, file },
            placement,
        })
    };
    placements(layout).flat_map(of_group).collect()
}

/// Bytes of a request that lie together on one server and in the request's stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// The offset of the first byte in the server's object.
    pub object_offset: u64,
    /// The offset of the first byte in the stream.
    pub stream_offset: u64,
    /// How many; never 0.
    pub len: u32,
}

impl Part {
    /// The offset after the last byte in the object.
    pub fn object_end(&self) -> u64 {
        self.object_offset + u64::from(self.len)
    }
}

/// The parts of `shape` that lie on the server of `placement`, in the order of the stream.
pub fn parts(shape: &Shape, placement: Placement) -> Parts<'_> {
    Parts {
        pieces: shape.pieces(),
        placement,
        piece: None,
        stream: 0,
    }
}

/// One step of a walk over the pieces of a shape. A shape of a hundred bytes may have 2^20 pieces: a walk on a server's
/// core counts its steps and lets other tasks run in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step<T> {
    /// The next item.
    Item(T),
    /// The piece at hand is done and gave nothing.
    Nothing,
    /// The walk is over.
    End,
}

/// See [`parts`].
#[derive(Debug, Clone)]
pub struct Parts<'a> {
    pieces: Pieces<'a>,
    placement: Placement,
    /// The rest of the current piece, on all servers.
    piece: Option<Piece>,
    /// Where that is in the stream.
    stream: u64,
}

impl Iterator for Parts<'_> {
    type Item = Part;

    fn next(&mut self) -> Option<Part> {
        loop {
            match self.step() {
                Step::Item(part) => return Some(part),
                Step::Nothing => {}
                Step::End => return None,
            }
        }
    }
}

impl Parts<'_> {
    /// Looks at one piece, or at what is left of one.
    pub fn step(&mut self) -> Step<Part> {
        let Some(piece) = self.piece.take().or_else(|| self.pieces.next()) else {
            return Step::End;
        };
        match self.first_part(piece) {
            Some(part) => Step::Item(part),
            None => Step::Nothing,
        }
    }

    /// The first part of `piece` that is on this server; keeps what comes after it.
    fn first_part(&mut self, piece: Piece) -> Option<Part> {
        let Placement { unit, width, index } = self.placement;
        let (unit, width, index) = (u64::from(unit), u64::from(width), u64::from(index));
        let end = piece.offset + u64::from(piece.len);
        let stripe = piece.offset / unit;
        let ahead = (index + width - stripe % width) % width;
        // A start beyond 2^64 - 1 is beyond the piece too.
        let own = stripe.saturating_add(ahead);
        let start = own.saturating_mul(unit).max(piece.offset);
        if start >= end {
            self.stream += u64::from(piece.len);
            return None;
        }
        let part_end = (own.saturating_add(1)).saturating_mul(unit).min(end);
        let part = Part {
            object_offset: own / width * unit + start % unit,
            stream_offset: self.stream + (start - piece.offset),
            // At most the piece's, which is 32 bits long.
            len: (part_end - start) as u32,
        };
        self.stream += part_end - piece.offset;
        self.piece = (part_end < end).then(|| Piece {
            offset: part_end,
            len: (end - part_end) as u32,
        });
        Some(part)
    }
}

/// Bytes that lie together in an object and in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pair {
    /// The offset of the first byte in the server's object.
    pub object_offset: u64,
    /// The offset of the first byte, counted as in the memory's shape.
    pub memory_offset: u64,
    /// How many; never 0.
    pub len: u32,
}

/// The bytes of `file` on the server of `placement`, each with its place in `memory`, in the order of the stream. Bytes
/// for which one of the two is too short are left out.
pub fn pairs<'a>(file: &'a Shape, placement: Placement, memory: &'a Shape) -> Pairs<'a> {
    Pairs {
        parts: parts(file, placement),
        part: None,
        memory: Place::Shaped {
            pieces: memory.pieces(),
            piece: None,
            start: 0,
        },
    }
}

/// The bytes of `file` on the server of `placement`, where they lie in memory one behind the other from `start` on.
pub fn pairs_together(file: &Shape, placement: Placement, start: u64) -> Pairs<'_> {
    Pairs {
        parts: parts(file, placement),
        part: None,
        memory: Place::Together(start),
    }
}

/// See [`pairs`].
#[derive(Debug, Clone)]
pub struct Pairs<'a> {
    parts: Parts<'a>,
    /// The rest of the current part.
    part: Option<Part>,
    memory: Place<'a>,
}

/// Where a stream's bytes are in memory.
#[derive(Debug, Clone)]
enum Place<'a> {
    Shaped {
        pieces: Pieces<'a>,
        piece: Option<Piece>,
        /// The offset of the current piece, or of the next one, in the stream.
        start: u64,
    },
    /// A server's own bytes one behind the other: the next one's place.
    Together(u64),
}

impl Place<'_> {
    /// Where the byte `stream` of the stream is, and how many lie together from there on; looks at one piece.
    fn step_to(&mut self, stream: u64, len: u32) -> Step<(u64, u32)> {
        let (pieces, piece, start) = match self {
            Place::Together(next) => {
                let place = *next;
                *next += u64::from(len);
                return Step::Item((place, len));
            }
            Place::Shaped {
                pieces,
                piece,
                start,
            } => (pieces, piece, start),
        };
        let Some(at_hand) = piece.take().or_else(|| pieces.next()) else {
            return Step::End;
        };
        let end = *start + u64::from(at_hand.len);
        if stream >= end {
            *start = end;
            return Step::Nothing;
        }
        *piece = Some(at_hand);
        // At most `len`.
        let len = u64::from(len).min(end - stream) as u32;
        Step::Item((at_hand.offset + (stream - *start), len))
    }
}

impl Pairs<'_> {
    /// Looks at one piece of the file, or of memory.
    pub fn step(&mut self) -> Step<Pair> {
        let part = match self.part {
            Some(part) => part,
            None => match self.parts.step() {
                Step::Item(part) => *self.part.insert(part),
                Step::Nothing => return Step::Nothing,
                Step::End => return Step::End,
            },
        };
        let (memory_offset, len) = match self.memory.step_to(part.stream_offset, part.len) {
            Step::Item(place) => place,
            Step::Nothing => return Step::Nothing,
            Step::End => return Step::End,
        };
        self.part = (len < part.len).then(|| Part {
            object_offset: part.object_offset + u64::from(len),
            stream_offset: part.stream_offset + u64::from(len),
            len: part.len - len,
        });
        Step::Item(Pair {
            object_offset: part.object_offset,
            memory_offset,
            len,
        })
    }
}

impl Iterator for Pairs<'_> {
    type Item = Pair;

    fn next(&mut self) -> Option<Pair> {
        loop {
            match self.step() {
                Step::Item(pair) => return Some(pair),
                Step::Nothing => {}
                Step::End => return None,
            }
        }
    }
}

/// Bytes without a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteRun {
    /// The first byte.
    pub offset: u64,
    /// Number of bytes.
    pub len: u64,
}

/// Joins neighbours: ranges `(offset, len)` that follow each other without a gap become one, up to `max` bytes.
pub fn runs(ranges: impl Iterator<Item = (u64, u32)>, max: u64) -> impl Iterator<Item = ByteRun> {
    let mut ranges = ranges.peekable();
    std::iter::from_fn(move || {
        let (offset, len) = ranges.next()?;
        let mut end = offset + u64::from(len);
        while let Some((_, len)) =
            ranges.next_if(|(next, len)| *next == end && end + u64::from(*len) - offset <= max)
        {
            end += u64::from(len);
        }
        let len = end - offset;
        Some(ByteRun { offset, len })
    })
}

/// Bytes of `shape` that lie on the server of `placement`: a step for each piece.
pub fn own_len(shape: &Shape, placement: Placement) -> u64 {
    let lens = shape.pieces().map(|piece| own_len_of(piece, placement));
    lens.sum()
}

/// Bytes of a piece of a shape that lie on the server of `placement`: one step, however many stripes it crosses.
pub fn own_len_of(piece: Piece, placement: Placement) -> u64 {
    // A shape has no bytes beyond 2^64 - 1.
    let end = piece.offset.saturating_add(u64::from(piece.len));
    object_size(end, placement) - object_size(piece.offset, placement)
}

/// How long the object of `placement` is when the file has `file_size` bytes.
pub fn object_size(file_size: u64, placement: Placement) -> u64 {
    let Placement { unit, width, index } = placement;
    let (unit, width, index) = (u64::from(unit), u64::from(width), u64::from(index));
    let (stripes, rest) = (file_size / unit, file_size % unit);
    let (rows, last) = (stripes / width, stripes % width);
    let own = rows + u64::from(last > index);
    let tail = if last == index { rest } else { 0 };
    own * unit + tail
}

/// How long a file is at least, whose object of `placement` has `object_size` bytes; the size of a file is the largest
/// of these. `None` when no file is so long.
pub fn size_from_object(object_size: u64, placement: Placement) -> Option<u64> {
    let Placement { unit, width, index } = placement;
    let (unit, width, index) = (u64::from(unit), u64::from(width), u64::from(index));
    let Some(last) = object_size.checked_sub(1) else {
        return Some(0);
    };
    let stripe = (last / unit).checked_mul(width)?.checked_add(index)?;
    stripe.checked_mul(unit)?.checked_add(last % unit + 1)
}

/// The state of a file by the states of its objects. Of lost objects, none is among them.
///
/// A size beyond all files counts as the largest size.
pub(crate) fn file_state(objects: impl IntoIterator<Item = (Placement, ObjectState)>) -> FileState {
    let mut whole = FileState::default();
    for (placement, object) in objects {
        let size = size_from_object(object.size, placement).unwrap_or(FILE_SIZE_MAX);
        whole.size = whole.size.max(size);
        whole.used = whole.used.saturating_add(object.used);
        whole.written = whole.written.max(object.modified);
        whole.version = whole.version.wrapping_add(object.version);
    }
    whole
}

/// How long a file is that has `size` bytes by what is known, if objects of these placements are lost: where its next
/// byte may have been in one of them, the end is not known, and the file is taken to have that byte.
pub fn size_with_lost(size: u64, lost: &[Placement]) -> u64 {
    let holds_next = |placement: &Placement| {
        let unit = u64::from(placement.unit).max(1);
        let stripe = size / unit;
        size.is_multiple_of(unit)
            && stripe % u64::from(placement.width).max(1) == u64::from(placement.index)
    };
    if lost.iter().any(holds_next) {
        size.saturating_add(1)
    } else {
        size
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gannet_wire::volume::Level;
    use proptest::prelude::*;

    fn every(unit: u32, width: u32) -> impl Iterator<Item = Placement> {
        (0..width).map(move |index| Placement { unit, width, index })
    }

    #[test]
    fn stripes_go_round_over_the_servers() {
        let shape = Shape::contiguous(50, 300).unwrap();
        let on = |index| -> Vec<(u64, u64, u32)> {
            let placement = Placement {
                unit: 100,
                width: 2,
                index,
            };
            parts(&shape, placement)
                .map(|part| (part.object_offset, part.stream_offset, part.len))
                .collect()
        };
        assert_eq!(on(0), [(50, 0, 50), (100, 150, 100)]);
        assert_eq!(on(1), [(0, 50, 100), (100, 250, 50)]);
    }

    #[test]
    fn files_get_the_servers_that_were_wished_for() {
        let away = |on, servers, turn, away: &[u32]| {
            servers_for(
                &Stripes {
                    unit: 4096,
                    on,
                    copies: None,
                },
                servers,
                turn,
                away,
            )
        };
        let placed = |on, servers, turn| away(on, servers, turn, &[]);
        let from = |first, width| Chosen::From { first, width };
        assert_eq!(placed(Chosen::InTurn(0), 3, 7), [1, 2, 0]);
        assert_eq!(placed(from(2, 2), 3, 7), [2, 0]);
        assert_eq!(placed(from(5, 9), 3, 7), [2, 0, 1]);
        assert_eq!(placed(Chosen::InTurn(0), 1000, 0).len(), WIDTH_MAX);
        assert_eq!(placed(Chosen::Listed(vec![2, 0]), 3, 7), [2, 0]);
        assert_eq!(placed(Chosen::Listed(vec![2, 3]), 3, 7), [1, 2, 0]);
        assert_eq!(away(Chosen::InTurn(0), 3, 7, &[2]), [1, 0]);
        assert_eq!(away(Chosen::InTurn(1), 3, 2, &[2]), [0]);
        assert_eq!(away(Chosen::InTurn(2), 3, 0, &[0, 1, 2]), [0, 1]);
        assert_eq!(away(from(2, 2), 3, 7, &[2]), [2, 0], "it was chosen");
    }

    #[test]
    fn files_go_round_over_the_groups_of_their_servers() {
        let groups = [vec![0, 2], vec![1, 3], vec![]];
        let placed = |on, turn| {
            place(
                &Stripes {
                    unit: 4096,
                    on,
                    copies: None,
                },
                &groups,
                turn,
                &[],
            )
            .groups
        };
        let turns = (0..7).map(|turn| placed(Chosen::InTurn(1), turn));
        let expected: [&[u32]; 7] = [&[0], &[1], &[0], &[2], &[3], &[0], &[0]];
        assert_eq!(turns.collect::<Vec<_>>(), expected);
        assert_eq!(placed(Chosen::Listed(vec![1, 0]), 4), [3, 2]);
        let nobody = place(
            &Stripes {
                unit: 4096,
                on: Chosen::InTurn(0),
                copies: None,
            },
            &[],
            0,
            &[],
        );
        assert_eq!(nobody.groups, [0]);
    }

    #[test]
    fn the_end_of_all_offsets_is_no_trap() {
        let far = u64::MAX - 100;
        let shape = Shape::contiguous(far, 100).unwrap();
        for (unit, width) in [(4096, 7), (1, 3), (1, 1), (u32::MAX, 2)] {
            let all: u64 = every(unit, width).map(|it| own_len(&shape, it)).sum();
            assert_eq!(all, 100);
        }
    }

    fn shapes() -> impl Strategy<Value = Shape> {
        let piece = (0..5000u64, 1..400u32).prop_map(|(offset, len)| Piece { offset, len });
        let list = proptest::collection::vec(piece.clone(), 1..6);
        let level = (1..5u32, 0..900u64).prop_map(|(count, stride)| Level { count, stride });
        let levels = proptest::collection::vec(level, 0..3);
        prop_oneof![
            list.prop_map(|pieces| Shape::list(pieces).unwrap()),
            (piece, levels).prop_map(|(first, levels)| Shape::nested(first, levels).unwrap()),
        ]
    }

    proptest! {
        /// Byte by byte: what a server is said to have is what the definition of striping gives it.
        #[test]
        fn parts_are_the_bytes_that_striping_gives_a_server(
            shape in shapes(), unit in 1..300u32, width in 1..6u32,
        ) {
            let mut expected = vec![Vec::new(); width as usize];
            let mut stream = 0u64;
            for piece in shape.pieces() {
                for offset in piece.offset..piece.offset + u64::from(piece.len) {
                    let stripe = offset / u64::from(unit);
                    let row = stripe / u64::from(width);
                    let object = row * u64::from(unit) + offset % u64::from(unit);
                    expected[(stripe % u64::from(width)) as usize].push((object, stream));
                    stream += 1;
                }
            }
            for placement in every(unit, width) {
                let bytes = parts(&shape, placement).flat_map(|part| {
                    (0..u64::from(part.len))
                        .map(move |n| (part.object_offset + n, part.stream_offset + n))
                });
                let expected = &*expected[placement.index as usize];
                prop_assert_eq!(bytes.collect::<Vec<_>>(), expected);
                prop_assert_eq!(own_len(&shape, placement), expected.len() as u64);
            }
        }

        /// Every byte goes to the place in memory that has its number in the stream.
        #[test]
        fn pairs_join_the_two_streams(
            file in shapes(), memory in shapes(), unit in 1..300u32, width in 1..6u32,
        ) {
            let places: Vec<u64> = (memory.pieces())
                .flat_map(|piece| piece.offset..piece.offset + u64::from(piece.len))
                .collect();
            for placement in every(unit, width) {
                let expected: Vec<(u64, u64)> = parts(&file, placement)
                    .flat_map(|part| (0..u64::from(part.len)).map(move |n| (part, n)))
                    .filter_map(|(part, n)| {
                        let place = *places.get((part.stream_offset + n) as usize)?;
                        Some((part.object_offset + n, place))
                    })
                    .collect();
                let paired: Vec<(u64, u64)> = pairs(&file, placement, &memory)
                    .flat_map(|pair| {
                        (0..u64::from(pair.len))
                            .map(move |n| (pair.object_offset + n, pair.memory_offset + n))
                    })
                    .collect();
                prop_assert_eq!(&paired, &expected);
                // One behind the other, they are the same bytes of the object, as far as memory reached.
                let together = pairs_together(&file, placement, 7).flat_map(|pair| {
                    (0..u64::from(pair.len))
                        .map(move |n| (pair.object_offset + n, pair.memory_offset + n))
                });
                let together: Vec<(u64, u64)> = together.take(expected.len()).collect();
                let numbered = expected.iter().zip(7u64..).map(|((at, _), n)| (*at, n));
                prop_assert_eq!(together, numbered.collect::<Vec<_>>());
            }
        }

        /// Runs are the same bytes in the same order, and never longer than asked.
        #[test]
        fn runs_are_the_same_bytes(shape in shapes(), max in 1..2000u64) {
            let ranges = || shape.pieces().map(|piece| (piece.offset, piece.len));
            let bytes: Vec<u64> = ranges().flat_map(|(at, len)| at..at + u64::from(len)).collect();
            let joined: Vec<ByteRun> = runs(ranges(), max).collect();
            let same = joined.iter().flat_map(|run| run.offset..run.offset + run.len);
            prop_assert_eq!(same.collect::<Vec<_>>(), bytes);
            let longest = ranges().map(|(_, len)| u64::from(len)).max().unwrap_or(0);
            prop_assert!(joined.iter().all(|run| run.len <= max.max(longest)));
        }

        /// Objects cut to a file's size say that size again, and no shorter objects do.
        #[test]
        fn a_files_size_is_what_its_objects_say(
            size in 0..100_000u64, unit in 1..3000u32, width in 1..9u32,
        ) {
            let objects: Vec<(Placement, u64)> = every(unit, width)
                .map(|placement| (placement, object_size(size, placement)))
                .collect();
            prop_assert_eq!(objects.iter().map(|(_, object)| object).sum::<u64>(), size);
            let sizes = objects.iter().map(|(at, object)| size_from_object(*object, *at).unwrap());
            prop_assert_eq!(sizes.max(), Some(size));
        }
    }
}
