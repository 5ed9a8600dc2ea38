//! Payloads that are received straight into place.

use super::*;
use crate::limits::{DIRECT_MIN, RECEIVE_AHEAD};
use gannet_fabric::Access;
use gannet_wire::rdmap::TerminateCode;

const LEN: usize = 20_000;
/// Length field and header.
const HEAD: usize = 16;

/// A peer's Write of [`LEN`] bytes into a region of `end`, as the stream carries it.
fn write_into(region: &Region, agreement: Agreement) -> Vec<u8> {
    let mut writer = End::new(Role::Initiator, agreement, 64_768);
    let bytes: Vec<u8> = (0..LEN).map(|at| (at % 251) as u8).collect();
    let posted = writer.engine.post_write(
        WorkId(1),
        source(&bytes),
        address_of(region, 0),
        Signal::Always,
    );
    posted.unwrap();
    writer.take_bytes(usize::MAX)
}

fn begun(agreement: Agreement, come: usize) -> (End, Region, Vec<u8>) {
    let mut end = End::new(Role::Responder, agreement, 64_768);
    let region = end.register(vec![0xff; LEN], Access::RemoteWrite);
    let bytes = write_into(&region, agreement);
    let expected = if agreement.crc { 0 } else { come };
    assert_eq!(end.engine.receive(&bytes[..come]), expected);
    (end, region, bytes)
}

/// Bytes that the next receive may put into place.
fn room(end: &mut End) -> Option<usize> {
    let room = end.engine.direct_space().map(|space| space.len());
    end.engine.placed(0);
    room
}

#[test]
fn a_payload_behind_its_header_goes_into_place() {
    let (mut end, region, bytes) = begun(AGREED, HEAD + 100);
    assert_eq!(room(&mut end), Some(LEN - 100));
    assert!(end.engine.is_within_fpdu());
    let mut rest = bytes[HEAD + 100..].to_vec();
    end.receive(&mut rest);
    assert!(rest.is_empty() && !end.engine.is_within_fpdu());
    assert_eq!(room(&mut end), None);
    assert_eq!(bytes_of(&region), &bytes[HEAD..HEAD + LEN]);
    assert!(end.engine.reason().is_none());
}

#[test]
fn little_is_received_behind_a_long_payload_until_short_messages_come() {
    let (mut end, region, bytes) = begun(AGREED, HEAD);
    let mut rest = bytes[HEAD..].to_vec();
    end.receive(&mut rest);
    assert_eq!(end.engine.receive_ahead(), RECEIVE_AHEAD);
    let whole = write_into(&region, AGREED);
    assert_eq!(end.engine.receive(&whole[..HEAD]), HEAD);
    let mut rest = whole[HEAD..].to_vec();
    end.receive(&mut rest);
    assert_eq!(end.engine.receive_ahead(), RECEIVE_AHEAD);
    let mut writer = End::new(Role::Initiator, AGREED, 64_768);
    for id in 0..100 {
        let from = source(&[7; 100]);
        let posted =
            writer
                .engine
                .post_write(WorkId(id), from, address_of(&region, 0), Signal::OnError);
        posted.unwrap();
    }
    let mut short = writer.take_bytes(usize::MAX);
    short.truncate(RECEIVE_AHEAD);
    end.engine.receive(&short);
    assert_eq!(end.engine.receive_ahead(), usize::MAX);
}

#[test]
fn a_key_that_is_revoked_meanwhile_takes_no_more() {
    let (mut end, region, bytes) = begun(AGREED, HEAD + 100);
    let count = end.engine.direct_space().map(|mut space| {
        space[..900].copy_from_slice(&bytes[HEAD + 100..HEAD + 1000]);
        900
    });
    end.engine.placed(count.unwrap());
    drop(region.invalidate());
    assert_eq!(room(&mut end), None);
    let code = TerminateCode::TAGGED_INVALID_STAG.to_string();
    assert_eq!(
        end.engine.reason(),
        Some(&Disconnected::PeerMisbehaved(code))
    );
    assert!(!end.engine.is_within_fpdu());
    let rest = &bytes[HEAD + 1000..];
    assert_eq!(end.engine.receive(rest), rest.len());
}

#[test]
fn nothing_is_placed_after_the_end() {
    let (mut end, region, _) = begun(AGREED, HEAD + 100);
    end.engine.disconnect(Disconnected::Local);
    assert_eq!(room(&mut end), None);
    assert_eq!(bytes_of(&region)[100..], [0xff; LEN - 100]);
}

#[test]
fn bytes_whose_crc_is_to_come_are_not_placed() {
    let crc = Agreement {
        crc: true,
        ..AGREED
    };
    let (mut end, region, bytes) = begun(crc, HEAD + 100);
    assert_eq!(room(&mut end), None);
    assert_eq!(bytes_of(&region), [0xff; LEN]);
    assert_eq!(end.engine.receive(&bytes), bytes.len());
    assert_eq!(bytes_of(&region), &bytes[HEAD..HEAD + LEN]);
}

#[test]
fn the_last_few_bytes_are_waited_for() {
    let come = HEAD + LEN - DIRECT_MIN + 1;
    let mut end = End::new(Role::Responder, AGREED, 64_768);
    let region = end.register(vec![0xff; LEN], Access::RemoteWrite);
    let bytes = write_into(&region, AGREED);
    assert_eq!(end.engine.receive(&bytes[..come]), 0);
    assert_eq!(end.engine.receive(&bytes), bytes.len());
}

#[test]
fn a_violation_is_reported_once_the_whole_fpdu_is_there() {
    let mut end = End::new(Role::Responder, AGREED, 64_768);
    let region = end.register(vec![0xff; LEN - 1], Access::RemoteWrite);
    let bytes = write_into(&region, AGREED);
    assert_eq!(end.engine.receive(&bytes[..HEAD + 100]), 0);
    assert!(end.engine.reason().is_none());
    assert_eq!(end.engine.receive(&bytes), bytes.len());
    let code = TerminateCode::TAGGED_BOUNDS.to_string();
    assert_eq!(
        end.engine.reason(),
        Some(&Disconnected::PeerMisbehaved(code))
    );
    assert_eq!(bytes_of(&region), [0xff; LEN - 1]);
}
