//! Recorded captures are shown as written beside them, whatever they are wrapped in, in whatever order
//! their packets come; and what is missing is said.

#![allow(clippy::unwrap_used)]

use crate::captures;

use captures::{Container, Link, Packet, file, packets, plain, shown, text, vector};
use gannet_dump::{CaptureError, DumpError, Style};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

const VERBOSE: Style = Style {
    verbose: true,
    json: false,
};

/// The lines of messages and events, without the remarks around them.
fn lines(text: &str) -> Vec<&str> {
    text.lines().filter(|line| !line.starts_with('#')).collect()
}

/// A line without its time and connection, and without the time that a reply took.
fn timeless(line: &str) -> String {
    let line = line.get(17..).unwrap_or_default();
    match line.rsplit_once(" | ") {
        Some((front, last)) if last.ends_with("ms") => front.to_owned(),
        _ => line.to_owned(),
    }
}

#[test]
fn captures_are_shown_as_written_beside_them() {
    let mut compared = 0;
    for entry in fs::read_dir(vector("")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "pcap") {
            continue;
        }
        let expected = fs::read_to_string(path.with_extension("txt")).unwrap();
        let found = text(&fs::read(&path).unwrap());
        for (number, (found, expected)) in found.lines().zip(expected.lines()).enumerate() {
            assert_eq!(
                found,
                expected,
                "line {} of {}: if this is right, `gannet dump` writes it anew",
                number + 1,
                path.display()
            );
        }
        assert_eq!(
            found.lines().count(),
            expected.lines().count(),
            "{}",
            path.display()
        );
        compared += 1;
    }
    assert!(compared >= 9, "{compared}");
}

#[test]
fn containers_and_links_make_no_difference() {
    let packets = packets("siw-nfs.pcap");
    let expected = text(&plain(&packets));
    assert!(expected.contains("packets=312 connections=3"), "{expected}");
    for container in Container::ALL {
        assert_eq!(
            text(&file(&packets, container, Link::Ethernet)),
            expected,
            "{container:?}"
        );
    }
    for link in Link::ALL {
        let mut found = text(&file(&packets, Container::pcap(false, false), link));
        if link == Link::Ethernet6 {
            found = found.replace("[fdfd:fdfd:fdfd:fdfd:fdfd:fdfd:a00:20f]", "10.0.2.15");
        }
        assert_eq!(found, expected, "{link:?}");
    }
}

#[test]
fn a_file_may_come_in_any_pieces() {
    struct Pieces<'a>(&'a [u8], usize);
    impl std::io::Read for Pieces<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let count = self.1.min(self.0.len()).min(buffer.len());
            let (piece, rest) = self.0.split_at(count);
            buffer[..count].copy_from_slice(piece);
            self.0 = rest;
            Ok(count)
        }
    }
    let packets = packets("siw-rping.pcap");
    for container in Container::ALL {
        let capture = file(&packets, container, Link::Ethernet);
        let expected = text(&capture);
        for size in [1, 7, 100] {
            let mut output = Vec::new();
            gannet_dump::decode(Pieces(&capture, size), Style::default(), &mut output).unwrap();
            assert_eq!(
                String::from_utf8(output).unwrap(),
                expected,
                "{container:?} in {size}s"
            );
        }
    }
}

#[test]
fn duplicates_and_disorder_make_no_difference_but_to_the_counts() {
    let original = packets("siw-nfs.pcap");
    let expected = text(&plain(&original));
    let twice: Vec<Packet> = original
        .iter()
        .flat_map(|it| [it.clone(), it.clone()])
        .collect();
    let found = text(&plain(&twice));
    assert_eq!(lines(&found), lines(&expected));
    assert!(found.contains(" retransmitted_segments="), "{found}");

    // Neighbours of one direction change places.
    let mut swapped = original;
    let mut at = 0;
    while at + 1 < swapped.len() {
        if swapped[at].flow() == swapped[at + 1].flow() && !swapped[at].is_syn() {
            swapped.swap(at, at + 1);
            at += 1;
        }
        at += 1;
    }
    let found = text(&plain(&swapped));
    let timeless = |text: &str| lines(text).into_iter().map(timeless).collect::<Vec<_>>();
    assert_eq!(timeless(&found), timeless(&expected));
    assert!(found.contains(" out_of_order_segments="), "{found}");
}

#[test]
fn a_lost_packet_costs_its_own_messages_alone() {
    for name in ["siw-nfs.pcap", "siw-nfs-crc.pcap", "gannet-tcp.pcap"] {
        let original = packets(name);
        let expected = text(&plain(&original));
        let expected: BTreeSet<String> = lines(&expected).into_iter().map(timeless).collect();
        for lost in 0..original.len() {
            if original[lost].payload_len() == 0 {
                continue;
            }
            let mut packets = original.clone();
            packets.remove(lost);
            let found = text(&plain(&packets));
            assert!(found.contains(" gap "), "packet {lost} of {name}: {found}");
            let found: BTreeSet<String> = lines(&found).into_iter().map(timeless).collect();
            let missing: Vec<&String> = expected.difference(&found).collect();
            // A call's loss takes the name of its reply with it; a written reply's, all that was in it.
            assert!(missing.len() <= 4, "packet {lost} of {name}: {missing:#?}");
        }
    }
}

#[test]
fn one_direction_alone_is_decoded() {
    let original = packets("siw-nfs.pcap");
    let calls = |text: &str| {
        let calls = lines(text)
            .into_iter()
            .filter(|line| line.contains(" -> Send"));
        calls.map(timeless).collect::<Vec<_>>()
    };
    let expected = calls(&text(&plain(&original)));
    let mut clients = BTreeSet::new();
    let to_server = original.into_iter().filter(|packet| {
        // The first packet of a connection is its client's.
        let (flow, back) = packet.both_flows();
        if packet.is_syn() && !clients.contains(&back) {
            clients.insert(flow.clone());
        }
        clients.contains(&flow)
    });
    let found = text(&plain(&to_server.collect::<Vec<_>>()));
    assert_eq!(calls(&found), expected);
}

#[test]
fn packets_without_an_ip_length_end_where_the_frame_does() {
    // As captured before the network card cuts them into segments.
    let mut packets = packets("siw-nfs.pcap");
    let expected = text(&plain(&packets));
    for packet in &mut packets {
        packet.ip[2..4].copy_from_slice(&[0, 0]);
    }
    assert_eq!(text(&plain(&packets)), expected);
}

#[test]
fn more_connections_than_are_followed_are_counted() {
    let mut opens = Vec::new();
    for number in 0..5000u16 {
        let mut open = Packet::of_bytes(true, 7, b"GET / HTTP/1.1\r\n");
        open.ip[33] = 0x02;
        open.ip[20..22].copy_from_slice(&number.to_be_bytes());
        opens.push(open);
    }
    let found = text(&plain(&opens));
    assert!(
        found.contains("packets=5000 connections=0 other_connections=5000"),
        "{found}"
    );
}

#[test]
fn packets_cut_by_the_snap_length_still_name_their_messages() {
    const HEADERS: usize = 20 + 32;
    let original = packets("siw-nfs.pcap");
    let procedures = |text: &str| {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        // The body of a long call is in what was cut off.
        let lines = lines(text).into_iter();
        for line in lines.filter(|line| !line.contains(" long call ")) {
            let call = line.split_once(" call ").map(|(_, call)| call.trim());
            if let Some(name) = call.and_then(|call| call.split(' ').next()) {
                *counts.entry(name.to_owned()).or_default() += 1;
            }
        }
        counts
    };
    let expected = procedures(&text(&plain(&original)));
    assert!(expected.len() > 12, "{expected:?}");
    let mut cut = original;
    for packet in &mut cut {
        packet.ip.truncate(HEADERS + 160);
    }
    let (found, ended) = shown(&plain(&cut), Style::default());
    ended.unwrap();
    assert!(found.contains("cut by the snap length"), "{found}");
    assert!(!found.contains(" lost "), "{found}");
    assert_eq!(procedures(&found), expected);
}

#[test]
fn connections_that_were_open_before_the_capture_are_found() {
    for (name, skipped) in [
        ("siw-nfs.pcap", 40),
        ("siw-nfs-crc.pcap", 15),
        ("gannet-tcp.pcap", 20),
    ] {
        let original = packets(name);
        let expected = text(&plain(&original));
        let expected: BTreeSet<String> = lines(&expected).into_iter().map(timeless).collect();
        let found = text(&plain(&original[skipped..]));
        assert!(found.contains(" midway"), "{name}: {found}");
        let lines = lines(&found);
        let known = lines
            .iter()
            .filter(|line| expected.contains(&timeless(line)))
            .count();
        assert!(
            known + 4 >= lines.len(),
            "{name}: {known} of {}: {found}",
            lines.len()
        );
    }
}

#[test]
fn markers_are_taken_out_and_covered_by_the_crc() {
    // A client asks for markers; what it receives begins with a Send of 1000 bytes, with markers at 0, 512 and 1024.
    // The CRC was computed elsewhere.
    let request = [&b"MPA ID Req Frame"[..], &[0xd0, 2, 0, 4, 0, 1, 0, 1]].concat();
    let reply = [&b"MPA ID Rep Frame"[..], &[0x50, 2, 0, 4, 0, 1, 0, 1]].concat();
    let mut fpdu = vec![0x03, 0xfa, 0x41, 0x43, 0, 0, 0, 0];
    fpdu.extend([0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0]);
    fpdu.extend((0..1000).map(|index| index as u8));
    let mut stream = vec![0, 0, 0, 0];
    stream.extend(&fpdu[..508]);
    stream.extend([0, 0, 0x01, 0xfc]);
    stream.extend(&fpdu[508..1016]);
    stream.extend([0, 0, 0x03, 0xfc]);
    stream.extend(&fpdu[1016..]);
    stream.extend([0x5f, 0x7b, 0x58, 0xca]);
    assert_eq!(stream.len(), 1036);
    let mut open = Packet::of_bytes(true, 0, &[]);
    open.ip[33] = 0x02;
    let mut accepted = Packet::of_bytes(false, 0, &[]);
    accepted.ip[33] = 0x12;
    let begin = [
        open,
        accepted,
        Packet::of_bytes(true, 1, &request),
        Packet::of_bytes(false, 1, &reply),
    ];
    let start = 1 + u32::try_from(reply.len()).unwrap();
    for cut in [3, 511, 515, 1030] {
        let mut packets = begin.to_vec();
        let second = start + u32::try_from(cut).unwrap();
        packets.push(Packet::of_bytes(false, start, &stream[..cut]));
        packets.push(Packet::of_bytes(false, second, &stream[cut..]));
        let found = text(&plain(&packets));
        assert!(
            found.contains("<- Send #1      ok      1000"),
            "cut at {cut}: {found}"
        );
    }
}

/// An MPA startup frame of Gannet that offers exceptions, with 4 bytes of private data behind the offer.
fn offering(key: &[u8], flags: u8) -> Vec<u8> {
    let head = [flags, 2, 0, 16, 0, 8, 0, 8];
    [key, &head, b"gannet\x01\x01", b"gvol"].concat()
}

#[test]
fn a_refused_read_is_shown_with_its_reason() {
    // The bytes of docs/formats/exceptions.md, with a CRC that was computed elsewhere.
    let bytes = |text: &str| -> Vec<u8> {
        let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
        let pairs = digits.chunks(2).map(|pair| str::from_utf8(pair).unwrap());
        pairs
            .map(|pair| u8::from_str_radix(pair, 16).unwrap())
            .collect()
    };
    let asked = bytes(
        "004e414e 00000000 00000001 00000001 00000000 00abcd01 00000000 00001000 00001000 00123402
        55667788 00001000 01020304 05060708 00000000 00000001 a479413e 36ba5e8b 33b54229 3c5e8038
        94c0fdaf",
    );
    let refused = bytes(
        "0022414f 00000000 00000004 00000001 00000000 00abcd01 00000000 00001000 02000000 b89cf356",
    );
    // The next one is for no Read that was seen, and its reason is none.
    let mut another = refused.clone();
    another[15] = 2;
    another[32] = 9;
    let (request, reply) = (
        offering(b"MPA ID Req Frame", 0x50),
        offering(b"MPA ID Rep Frame", 0x50),
    );
    let mut open = Packet::of_bytes(true, 0, &[]);
    open.ip[33] = 0x02;
    let mut accepted = Packet::of_bytes(false, 0, &[]);
    accepted.ip[33] = 0x12;
    let start = 1 + u32::try_from(request.len()).unwrap();
    let packets = |answers: &[u8]| {
        plain(&[
            open.clone(),
            accepted.clone(),
            Packet::of_bytes(true, 1, &request),
            Packet::of_bytes(false, 1, &reply),
            Packet::of_bytes(true, start, &asked),
            Packet::of_bytes(false, start, answers),
        ])
    };
    let found = text(&packets(&[&refused[..], &another, &refused].concat()));
    let lines: Vec<String> = lines(&found).into_iter().map(timeless).collect();
    let expected = [
        "-> MPA request            36  rev=2 crc ird=8 ord=8 exceptions | bytes=4 begins=67766f6c",
        "<- MPA reply              36  rev=2 crc ird=8 ord=8 exceptions | bytes=4 begins=67766f6c",
        "-> AuthRead #1  ok        60  size=4096 source=00123402@5566778800001000 sink=00abcd01@1000 timestamp=1",
        "<- ReadExc #1   ok        16  stale_key sink=00abcd01@1000 for_read=1",
        "<- ReadExc #2   BAD       16  a Read Exception with the unknown reason 0x09000000",
        "<- ReadExc #1   ok        16  stale_key sink=00abcd01@1000 its Read Request was not seen",
    ];
    assert!(lines.len() > expected.len(), "{found}");
    for expected in expected {
        assert!(
            lines.iter().any(|line| line == expected),
            "{expected}\n{found}"
        );
    }
}

#[test]
fn records_in_several_fragments_are_one_message() {
    let call = [
        &[
            0x11, 0x22, 0x33, 0x44, 0, 0, 0, 0, 0, 0, 0, 2, 0, 1, 0x86, 0xa3,
        ][..],
        &[0, 0, 0, 3, 0, 0, 0, 0],
        &[0; 16],
    ]
    .concat();
    let mut stream = vec![0x80, 0, 0, 40];
    stream.extend(&call);
    stream.extend([0, 0, 0, 12]);
    stream.extend(&call[..12]);
    stream.extend([0x80, 0, 0, 28]);
    stream.extend(&call[12..]);
    let found = text(&plain(&[Packet::of_bytes(true, 5, &stream)]));
    assert!(found.contains("11223344 call  NULL"), "{found}");
    assert!(
        found.contains("resent | auth=none | fragments=2"),
        "{found}"
    );
}

#[test]
fn packets_that_are_not_decoded_are_counted() {
    let mut roce = Packet::of_bytes(true, 1, &[0; 20]);
    roce.ip[9] = 17;
    roce.ip[22..26].copy_from_slice(&[0x12, 0xb7, 0, 40]);
    let mut fragment = Packet::of_bytes(true, 1, &[0; 20]);
    fragment.ip[6] = 0x20;
    let mut other = Packet::of_bytes(true, 1, b"SSH-2.0-OpenSSH\r\n");
    other.ip[33] = 0x02;
    let mut cut = Packet::of_bytes(true, 1, b"x");
    cut.ip.truncate(30);
    let capture = plain(&[roce, fragment, other, cut]);
    let found = text(&capture);
    assert_eq!(lines(&found).len(), 0, "{found}");
    for count in [
        "packets=4 connections=0 other_connections=1",
        "cut_packets=1 cut_headers=1",
        "roce_packets_not_decoded=1 ip_fragments_not_decoded=1",
    ] {
        assert!(found.contains(count), "{found}");
    }
    let (found, _) = shown(&capture, VERBOSE);
    assert!(found.contains("RoCE packet, not decoded"), "{found}");
    // Link type 147 is reserved for private use.
    let mut unknown = capture;
    unknown[20] = 147;
    assert!(text(&unknown).contains("unknown_link_packets=4 link_type=147"));
}

#[test]
fn everything_is_shown_when_asked_for() {
    let capture = fs::read(vector("siw-nfs.pcap")).unwrap();
    let (found, _) = shown(&capture, VERBOSE);
    let writes = found.matches("<- Write ").count();
    assert!(
        writes > 30 && found.contains("d38e0201@b1b4cd3d088d5594 more"),
        "{found}"
    );
    assert!(
        found.contains("\"entry-with-a-fairly-long-name-number-60\""),
        "{found}"
    );
}

#[test]
fn each_line_of_json_is_an_object() {
    let json = Style {
        verbose: false,
        json: true,
    };
    for name in ["siw-nfs.pcap", "siw-terminates.pcap", "gannet-tcp.pcap"] {
        let capture = fs::read(vector(name)).unwrap();
        let (found, _) = shown(&capture, json);
        let objects: Vec<serde_json::Value> = found
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(objects.len(), lines(&text(&capture)).len() + 1, "{name}");
        let (summary, messages) = objects.split_last().unwrap();
        assert!(
            summary["summary"]["packets"].as_u64() > Some(100),
            "{summary}"
        );
        assert!(
            messages
                .iter()
                .all(|it| it["time_s"].is_number() && it["operation"].is_string())
        );
        let lookups = messages
            .iter()
            .filter(|it| it["rpc"]["procedure"] == "LOOKUP");
        assert!(lookups.count() > 0, "{name}");
    }
}

#[test]
fn a_file_that_ends_early_is_shown_up_to_there() {
    let whole = fs::read(vector("siw-rping.pcap")).unwrap();
    let expected = text(&whole);
    let (found, ended) = shown(&whole[..whole.len() - 5], Style::default());
    assert!(matches!(
        ended,
        Err(DumpError::Capture(CaptureError::CutShort { .. }))
    ));
    let (mut found, mut expected) = (lines(&found), lines(&expected));
    // Its last packet is only an acknowledgement; nothing is missing but that.
    assert_eq!(found.pop().map(timeless), expected.pop().map(timeless));
    assert_eq!(found, expected);

    let mut damaged = whole;
    damaged[24 + 8..24 + 12].copy_from_slice(&[0xff; 4]);
    let (_, ended) = shown(&damaged, Style::default());
    assert!(matches!(
        ended,
        Err(DumpError::Capture(CaptureError::Damaged { at: 24 }))
    ));
}

#[test]
fn the_example_in_the_documentation_is_real_output() {
    let document = fs::read_to_string(vector("../docs/dump.md")).unwrap();
    let shown = fs::read_to_string(vector("siw-nfs.txt")).unwrap();
    let example = document.split("```text\n").nth(1).unwrap();
    let example = example.split("```").next().unwrap();
    assert!(example.lines().count() > 5, "{document}");
    for line in example.lines() {
        assert!(shown.lines().any(|shown| shown == line), "{line}");
    }
}
