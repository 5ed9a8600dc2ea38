//! Shapes of requests (list I/O) over striped files: few bytes describe a million pieces. Each walk over a shape takes
//! as many steps as its pieces and stripes say, holds no memory, and comes to the same bytes as the others.

use gannet_volume::layout::{Pairs, Part, Step, own_len, pairs, pairs_together, parts};
use gannet_wire::volume::{
    Memory, NESTED_PIECES_MAX, PIECES_MAX, Placement, Shape, TRANSFER_MAX, Transfer, UNIT_MAX,
    UNIT_MIN,
};
use gannet_wire::xdr::from_bytes;

/// The body of a READ or WRITE, walked through to its end.
pub(crate) fn volume_shapes(data: &[u8]) {
    let Ok(transfer) = from_bytes::<Transfer>(data) else {
        return;
    };
    // Servers take no others.
    if !(UNIT_MIN..=UNIT_MAX).contains(&transfer.placement.unit) {
        return;
    }
    let (file, placement) = (&transfer.file, transfer.placement);
    let pieces = pieces_of(file);
    let (own, steps) = walk_parts(file, placement);
    // Of each piece: its parts, of which the first and the last may be short, and one step that finds no more.
    let stripes = file.len() / u64::from(placement.unit);
    assert!(steps <= 3 * pieces + stripes + 1, "{steps} steps");
    assert_eq!(own, own_len(file, placement));
    assert!(own <= file.len());
    let (together, _) = walk_pairs(pairs_together(file, placement, 0));
    assert_eq!(together, own);
    if let Memory::Region { shape, .. } = &transfer.memory {
        let (moved, pair_steps) = walk_pairs(pairs(file, placement, shape));
        assert!(moved <= own && moved <= shape.len());
        let most = steps + 2 * pieces_of(shape) + pieces + stripes + 2;
        assert!(pair_steps <= most, "{pair_steps} steps over {most}");
    }
}

/// How many pieces there are, within the bounds of the protocol.
fn pieces_of(shape: &Shape) -> u64 {
    let (mut count, mut len) = (0, 0);
    for piece in shape.pieces() {
        assert!(piece.len > 0 && piece.offset >= shape.start());
        assert!(piece.offset + u64::from(piece.len) <= shape.end());
        count += 1;
        len += u64::from(piece.len);
    }
    assert!(count <= NESTED_PIECES_MAX.max(PIECES_MAX as u64));
    assert!(len == shape.len() && len <= TRANSFER_MAX);
    count
}

/// The bytes of a walk over parts, which come in the order of the stream, and its steps.
fn walk_parts(file: &Shape, placement: Placement) -> (u64, u64) {
    let (mut walk, mut sum, mut end, mut steps) = (parts(file, placement), 0, 0, 0);
    loop {
        steps += 1;
        match walk.step() {
            Step::Item(Part {
                stream_offset, len, ..
            }) => {
                assert!(len > 0 && stream_offset >= end);
                end = stream_offset + u64::from(len);
                sum += u64::from(len);
            }
            Step::Nothing => {}
            Step::End => break,
        }
    }
    assert!(end <= file.len());
    (sum, steps)
}

fn walk_pairs(mut walk: Pairs<'_>) -> (u64, u64) {
    let (mut sum, mut steps) = (0, 0);
    loop {
        steps += 1;
        match walk.step() {
            Step::Item(pair) => sum += u64::from(pair.len),
            Step::Nothing => {}
            Step::End => return (sum, steps),
        }
    }
}
