//! Every frame of Linux 6.1's siw, knfsd, NFS client and rping that was captured: decode it, encode
//! it again.

#![allow(clippy::unwrap_used)]

use crate::iwarp_support;

use gannet_wire::ddp::{DdpHeader, DdpHeaderError, UNTAGGED_HEADER_LEN};
use gannet_wire::mpa::{CRC_LEN, Fpdu, FrameKind, LENGTH_LEN, StartupFrame};
use gannet_wire::rdmap::{
    BitOrder, ControlError, Opcode, READ_REQUEST_LEN, ReadRequest, TERMINATE_LEN_MAX, Terminate,
};
use iwarp_support::{bytes_of, crc32c};
use std::path::Path;

/// One line of a `.frames` file: `K DIR KIND DETAILS | HEX`.
struct Captured {
    kind: String,
    details: String,
    bytes: Vec<u8>,
}

fn captured(name: &str) -> Vec<Captured> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../vectors")
        .join(name);
    let text = std::fs::read_to_string(path).unwrap();
    let frames = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let (about, hex) = line.split_once(" | ").unwrap();
            let mut words = about.splitn(4, ' ').skip(2);
            let kind = words.next().unwrap().to_string();
            Captured {
                kind,
                details: words.next().unwrap().to_string(),
                bytes: bytes_of(hex),
            }
        });
    frames.collect()
}

fn has(frame: &Captured, detail: &str) -> bool {
    frame.details.split(' ').any(|word| word == detail)
}

fn check_startup(frame: &Captured, kind: FrameKind) {
    let (parsed, used) = StartupFrame::parse(kind, &frame.bytes).unwrap().unwrap();
    assert_eq!(used, frame.bytes.len());
    assert!(
        has(frame, &format!("rev={}", parsed.revision)),
        "{}",
        frame.details
    );
    let mut out = vec![0xa5; parsed.encoded_len()];
    assert_eq!(parsed.emit(&mut out), Ok(used));
    assert_eq!(out, frame.bytes);
}

fn check_fpdu(frame: &Captured) {
    let (fpdu, used) = Fpdu::parse(&frame.bytes).unwrap().unwrap();
    assert_eq!(used, frame.bytes.len());
    assert_eq!(
        fpdu.crc == crc32c(fpdu.covered),
        has(frame, "crc=ok"),
        "{}",
        frame.details
    );
    assert_eq!(
        fpdu.crc == [0; CRC_LEN],
        has(frame, "crc=zero"),
        "{}",
        frame.details
    );

    let (header, payload) = match DdpHeader::parse(fpdu.ulpdu) {
        Ok(parts) => parts,
        Err(error) => {
            // One of the errors that the independent peer made on purpose.
            assert_eq!(
                error,
                DdpHeaderError::Version {
                    tagged: false,
                    found: 2
                }
            );
            return;
        }
    };
    let mut out = [0xa5; UNTAGGED_HEADER_LEN];
    let len = header.emit(&mut out);
    assert_eq!(out[..len], fpdu.ulpdu[..len]);
    assert!(
        has(frame, &format!("payload={}", payload.len())),
        "{}",
        frame.details
    );
    assert!(has(frame, &format!("last={}", u8::from(header.is_last()))));

    let opcode = match Opcode::parse(header.ulp_control()) {
        Ok(opcode) => opcode,
        Err(error) => {
            // Another one: opcode 9 is Immediate Data with Solicited Event, not spoken here.
            assert_eq!(error, ControlError::Opcode { found: 9 });
            assert_eq!(frame.kind, "opcode-9");
            return;
        }
    };
    assert_eq!(opcode.control(), header.ulp_control());
    assert_eq!(opcode.queue().is_none(), header.is_tagged());
    check_payload(frame, opcode, payload);
}

fn check_payload(frame: &Captured, opcode: Opcode, payload: &[u8]) {
    let expected = match opcode {
        Opcode::Write => "write",
        Opcode::ReadRequest => "read-request",
        Opcode::ReadResponse => "read-response",
        Opcode::Send => "send",
        Opcode::SendWithInvalidate => "send-inv",
        Opcode::Terminate => "terminate",
        other => panic!("{other:?} was not captured"),
    };
    assert_eq!(frame.kind, expected);
    if opcode == Opcode::ReadRequest {
        let mut out = [0xa5; READ_REQUEST_LEN];
        ReadRequest::from_bytes(payload.try_into().unwrap()).emit(&mut out);
        assert_eq!(out, payload);
    }
    if opcode == Opcode::Terminate {
        let (terminate, order) = Terminate::parse(payload).unwrap();
        assert_ne!(order, BitOrder::Rfc, "siw was seen to swap");
        assert!(terminate.code.meaning().is_some(), "{}", terminate.code);
        let mut out = [0xa5; TERMINATE_LEN_MAX];
        let len = terminate.emit(&mut out);
        assert_eq!(as_siw_sends(&out[..len], order, payload), payload);
    }
}

/// Rewrites a Terminate into siw's bit order.
fn as_siw_sends(rfc: &[u8], order: BitOrder, payload: &[u8]) -> Vec<u8> {
    let mut out = rfc.to_vec();
    if order == BitOrder::Siw || out[0] != payload[0] {
        out[0] = out[0].rotate_left(4);
    }
    out[2] = out[2].reverse_bits();
    out
}

fn check_capture(name: &str, frames_expected: usize) {
    let frames = captured(name);
    assert_eq!(frames.len(), frames_expected, "{name}");
    for frame in &frames {
        match frame.kind.as_str() {
            "mpa-request" => check_startup(frame, FrameKind::Request),
            "mpa-reply" => check_startup(frame, FrameKind::Reply),
            _ => check_fpdu(frame),
        }
    }
}

#[test]
fn kernel_nfs_over_siw() {
    check_capture("siw-nfs.frames", 179);
    check_capture("siw-nfs-crc.frames", 65);
    check_capture("siw-nfs-p2p-read.frames", 67);
}

#[test]
fn rping_over_siw() {
    check_capture("siw-rping.frames", 16);
    check_capture("siw-rping-mpa1.frames", 3);
}

#[test]
fn startups_and_errors_seen_by_an_independent_peer() {
    check_capture("host-client.frames", 79);
    check_capture("siw-terminates.frames", 58);
}

#[test]
fn every_byte_of_a_crc_counts() {
    let frames = captured("siw-nfs-crc.frames");
    let frame = frames.iter().find(|frame| frame.kind == "send").unwrap();
    for at in LENGTH_LEN..frame.bytes.len() {
        let mut bytes = frame.bytes.clone();
        bytes[at] ^= 0x10;
        let (fpdu, _) = Fpdu::parse(&bytes).unwrap().unwrap();
        assert_ne!(fpdu.crc, crc32c(fpdu.covered), "byte {at}");
    }
}
