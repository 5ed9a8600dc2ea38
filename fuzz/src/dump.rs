//! Captures: the whole way from a file to its lines, from streams to lines, and the reassembly of streams alone.

use gannet_dump::tcp::{Piece, Reassembly};
use gannet_dump::{Style, decode};

/// A capture file, shown in each style. Every line is a line: nothing in a capture can break one.
pub(crate) fn dump_capture(data: &[u8]) {
    for (verbose, json) in [(false, false), (true, false), (true, true)] {
        let mut output = Vec::new();
        let _ = decode(data, Style { verbose, json }, &mut output);
        let text = String::from_utf8(output).expect("the lines are text");
        assert!(!text.chars().any(|it| it.is_control() && it != '\n'));
        assert!(text.is_empty() || text.ends_with('\n'));
        assert!(
            !json
                || text
                    .lines()
                    .all(|line| line.starts_with('{') && line.ends_with('}'))
        );
    }
}

/// Segments of a stream in which each byte depends on its own position, as the input cuts and mixes them. The output
/// must be that stream, in order, with holes of the right lengths. Four bytes of input make a segment: its start, its
/// length, its missing part, and the other end's acknowledgement.
pub(crate) fn tcp_reassembly(data: &[u8]) {
    let (steps, _) = data.as_chunks::<4>();
    let first = u32::MAX - 300;
    let stream: Vec<u8> = (0..1024u32).map(|at| (at ^ at >> 3) as u8).collect();
    let mut reassembly = Reassembly::default();
    reassembly.start(first);
    let mut position = 0;
    let mut take = |piece: Piece<'_>| match piece {
        Piece::Bytes(bytes) => {
            let expected = stream.get(position..position + bytes.len());
            assert_eq!(Some(bytes), expected, "at {position}");
            position += bytes.len();
        }
        Piece::Gap(gap) => {
            assert!(gap.bytes > 0);
            position += gap.bytes as usize;
        }
    };
    for [start, length, missing, acknowledged] in steps {
        let start = usize::from(*start) * 3;
        let bytes = &stream[start..start + usize::from(*length)];
        let sequence = first.wrapping_add(start as u32);
        reassembly.push(sequence, bytes, usize::from(*missing % 8), &mut take);
        if acknowledged % 4 == 0 {
            let upto = first.wrapping_add(u32::from(*acknowledged) * 4);
            reassembly.acknowledge(upto, &mut take);
        }
        if *length == 7 {
            reassembly.push_fin(sequence.wrapping_add(7));
        }
    }
    reassembly.finish(&mut take);
    reassembly.finish(&mut |piece| panic!("{piece:?} after the end"));
}

/// Pieces of the two streams of a connection, in the order in which they are captured. Two bytes stand in front of a
/// piece: its direction and what happens to it, and its length; behind them, the piece.
pub(crate) fn dump_stream(data: &[u8]) {
    let mut capture = PCAP_HEADER.to_vec();
    let mut sequences = [0u32; 2];
    for flags in [0x02, 0x12] {
        append_segment(&mut capture, flags == 0x12, &mut sequences, flags, &[]);
    }
    let mut rest = data;
    while let [step, length, behind @ ..] = rest {
        let (piece, behind) = behind.split_at(behind.len().min(usize::from(*length)));
        rest = behind;
        let from_server = step & 1 != 0;
        match step >> 1 & 7 {
            // Never captured.
            6 => {
                let sequence = &mut sequences[usize::from(from_server)];
                *sequence = sequence.wrapping_add(u32::from(*length));
            }
            // Its sender closes behind it.
            7 => append_segment(&mut capture, from_server, &mut sequences, 0x11, piece),
            _ => append_segment(&mut capture, from_server, &mut sequences, 0x10, piece),
        }
    }
    dump_capture(&capture);
}

/// A little-endian pcap file of raw IP packets.
const PCAP_HEADER: [u8; 24] = [
    0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 101, 0, 0, 0,
];
const IP_AND_TCP_LEN: usize = 40;

/// Appends the next segment of one direction, which acknowledges all of the other.
fn append_segment(
    capture: &mut Vec<u8>,
    from_server: bool,
    sequences: &mut [u32; 2],
    flags: u8,
    payload: &[u8],
) {
    let length = IP_AND_TCP_LEN + payload.len();
    let mut packet = vec![0; IP_AND_TCP_LEN];
    packet[0] = 0x45;
    packet[2..4].copy_from_slice(&(length as u16).to_be_bytes());
    packet[9] = 6;
    let (source, target) = if from_server { (2, 1) } else { (1, 2) };
    (packet[15], packet[19], packet[21], packet[23]) = (source, target, source, target);
    let own = usize::from(from_server);
    packet[24..28].copy_from_slice(&sequences[own].to_be_bytes());
    packet[28..32].copy_from_slice(&sequences[1 - own].to_be_bytes());
    (packet[32], packet[33]) = (0x50, flags);
    let moved = payload.len() as u32 + u32::from(flags & 3 != 0);
    sequences[own] = sequences[own].wrapping_add(moved);
    capture.extend([0; 8]);
    for _ in 0..2 {
        capture.extend((length as u32).to_le_bytes());
    }
    capture.extend(packet);
    capture.extend(payload);
}
