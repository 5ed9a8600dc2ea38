//! Frames as an engine makes them, against the known answers of the wire crate's tests.

use super::*;
use gannet_fabric::{AccessKey, CapabilityKey, RemoteKey, WorkError};
use gannet_wire::rdmap::{ReadRequest, TerminateCode};

fn hex(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in text.split_whitespace() {
        match word.split_once('*') {
            Some((_, count)) => bytes.extend(std::iter::repeat_n(0, count.parse().unwrap())),
            None => bytes.extend(
                (0..word.len())
                    .step_by(2)
                    .map(|at| u8::from_str_radix(&word[at..at + 2], 16).unwrap()),
            ),
        }
    }
    bytes
}

fn initiator(markers: bool) -> End {
    End::new(
        Role::Initiator,
        Agreement {
            crc: true,
            markers,
            ..AGREED
        },
        64_768,
    )
}

fn send(end: &mut End, bytes: &[u8]) -> Vec<u8> {
    end.engine
        .post_send(WorkId(1), source(bytes), SendOptions::default())
        .unwrap();
    end.take_bytes(usize::MAX)
}

#[test]
fn messages_with_crc() {
    let mut end = initiator(false);
    for _ in 1..7 {
        send(&mut end, b"one of the first six");
    }
    let expected = "00124143 00000000 00000000 00000007 00000000 b01a8f54";
    assert_eq!(send(&mut end, b""), hex(expected));

    let mut end = initiator(false);
    send(&mut end, b"the first");
    let options = SendOptions {
        invalidate: Invalidate::Key(RemoteKey(0x0012_3402)),
        ..SendOptions::default()
    };
    end.engine
        .post_send(WorkId(2), source(&[0; 28]), options)
        .unwrap();
    let expected = "002e4144 00123402 00000000 00000002 00000000 00*28 bccd5e78";
    assert_eq!(end.take_bytes(usize::MAX), hex(expected));

    end.engine.nudge();
    let expected = "000ec140 00000001 00000000 00000000 ebd34c5f";
    assert_eq!(end.take_bytes(usize::MAX), hex(expected));
}

#[test]
fn a_terminate_of_our_own() {
    let mut end = initiator(false);
    let terminate = Terminate::bare(TerminateCode::LOCAL_CATASTROPHIC);
    end.engine.terminate(&terminate, Disconnected::Local);
    let expected = "00164147 00000000 00000002 00000001 00000000 00000000 f9a26f1d";
    assert_eq!(end.take_bytes(usize::MAX), hex(expected));
}

#[test]
fn markers_for_a_peer_that_wants_them() {
    let mut end = initiator(true);
    let expected = "00000000 002a4143 00000000 00000000 00000001 00000000 00*24 52239983";
    assert_eq!(send(&mut end, &[0; 24]), hex(expected));

    let counting: Vec<u8> = (0..1000).map(|at| (at % 256) as u8).collect();
    let mut end = initiator(true);
    let long = send(&mut end, &counting);
    assert_eq!((long.len(), &long[1032..]), (1036, &hex("5f7b58ca")[..]));
    assert_eq!(
        (&long[512..516], &long[1024..1028]),
        (&hex("000001fc")[..], &hex("000003fc")[..])
    );
    let next = send(&mut end, &[0; 24]);
    assert_eq!((next.len(), &next[44..]), (48, &hex("290fbede")[..]));

    for (len, stream_len, crc) in [(488, 520, "38cf64e8"), (484, 512, "a09bb55b")] {
        let mut end = initiator(true);
        let bytes = send(&mut end, &vec![0; len]);
        assert_eq!(
            (bytes.len(), &bytes[stream_len - 4..]),
            (stream_len, &hex(crc)[..])
        );
        if stream_len == 512 {
            let next = send(&mut end, &[0; 24]);
            assert_eq!((next.len(), &next[48..]), (52, &hex("cc08199e")[..]));
        }
    }
}

#[test]
fn every_crc_of_an_engine_is_right() {
    let mut end = initiator(false);
    let mut far = End::new(
        Role::Responder,
        Agreement {
            crc: true,
            ..AGREED
        },
        64_768,
    );
    for len in [0, 1, 255, 256, 257, 258, 259, 70_000] {
        far.engine
            .post_receive(WorkId(1), Buffer::zeroed(70_000))
            .unwrap();
        let frames = send(&mut end, &vec![7; len]);
        assert!(frames.len() < STAGING_LEN);
        assert_eq!(far.engine.receive(&frames), frames.len());
    }
    assert_eq!(far.take_completions().len(), 8);
    assert!(far.engine.reason().is_none());
}

#[test]
fn a_frame_with_a_wrong_crc_ends_the_connection_and_is_not_received() {
    let frame = send(&mut initiator(false), b"one bit is wrong");
    // The first two bytes say how long the frame is, and where its CRC is to be found.
    for at in 2..frame.len() {
        let agreement = Agreement {
            crc: true,
            ..AGREED
        };
        let mut far = End::new(Role::Responder, agreement, 64_768);
        far.engine
            .post_receive(WorkId(1), Buffer::zeroed(100))
            .unwrap();
        let mut wrong = frame.clone();
        wrong[at] ^= 1;
        far.engine.receive(&wrong);
        let Some(Disconnected::PeerMisbehaved(why)) = far.engine.reason() else {
            panic!("byte {at}: {:?}", far.engine.reason());
        };
        assert_eq!(why.to_string(), TerminateCode::MPA_CRC.to_string());
        let completions = far.take_completions();
        assert_eq!(completions.len(), 1);
        assert_eq!(completions[0].outcome, Err(WorkError::Flushed));
        let buffer = completions[0].buffer.as_ref().unwrap();
        assert!(buffer.iter().all(|byte| *byte == 0), "byte {at}");
    }
}

/// An Authenticated Read Request and the Read Exception that refuses it; code and CRCs were computed apart from this
/// implementation.
#[test]
fn a_request_with_a_capability_and_its_refusal() {
    let request = "004e414e 00000000 00000001 00000001 00000000
        00abcd01 00000000 00001000 00001000 00123402 55667788 00001000
        01020304 05060708 00000000 00000001 a479413e 36ba5e8b 33b54229 3c5e8038 94c0fdaf";
    let exception = "0022414f 00000000 00000004 00000001 00000000
        00abcd01 00000000 00001000 02000000 b89cf356";
    let agreement = Agreement {
        crc: true,
        exceptions: true,
        ..AGREED
    };
    let mut key = [0; 32];
    for (at, byte) in (0..).zip(&mut key) {
        *byte = at;
    }
    let mut ends = [Role::Initiator, Role::Responder].map(|role| End::new(role, agreement, 64_768));
    for end in &mut ends {
        end.engine.authenticate(CapabilityKey(key));
    }
    let [mut near, mut far] = ends;
    let read = ReadRequest {
        sink_stag: STag(0x00ab_cd01),
        sink_offset: TaggedOffset(0x1000),
        size: 4096,
        source_stag: STag(0x0012_3402),
        source_offset: TaggedOffset(0x5566_7788_0000_1000),
    };
    let access_key = AccessKey(0x0102_0304_0506_0708);
    near.engine.push_authenticated(read, access_key);
    let sent = near.take_bytes(usize::MAX);
    assert_eq!(sent, hex(request));
    // It is genuine, but there is no such key.
    assert_eq!(far.engine.receive(&sent), sent.len());
    assert_eq!(far.take_bytes(usize::MAX), hex(exception));
}
