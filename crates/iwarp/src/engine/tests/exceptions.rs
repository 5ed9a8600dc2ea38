//! Reads that may be refused (docs/formats/exceptions.md): what an end says, and what peers may not do, by raw bytes.

mod both;
mod reader;

use super::violations::Segment;
use super::*;
use crate::limits::BATCHES_MAX;
use gannet_fabric::{
    Access, AccessKey, CapabilityKey, Export, ExportTable, Exported, RemoteKey,
    limits::OPTIMISTIC_READ_MAX,
};
use gannet_softrdma::{Authenticator, MAC_LEN};
use gannet_wire::ddp::{DdpHeader, MessageOffset, QueueNumber};
use gannet_wire::mpa::Fpdu;
use gannet_wire::rdmap::{
    AuthenticatedReadRequest, ExceptionReason, ReadException, ReadRequest, TerminateCode,
};

pub(super) const KEY: CapabilityKey = CapabilityKey([9; 32]);
const WITH_EXCEPTIONS: Agreement = Agreement {
    exceptions: true,
    ..AGREED
};
/// The sink that a handmade peer names in its read requests.
const SINK: (STag, TaggedOffset) = (STag(0x0ab0), TaggedOffset(64));
const UNTOUCHED: u8 = 0xee;

/// Exports `bytes` to this end's peer. The returned table holds them until its drop.
fn export(end: &End, bytes: &[u8]) -> (Reference, Rc<dyn ExportTable>) {
    let table = end.table.exports(Rc::new(|_| None)).unwrap();
    let reference = enter(&*table, EndpointId(1), memory(end, bytes));
    (reference, table)
}

fn memory(end: &End, bytes: &[u8]) -> Exported {
    Exported::Memory {
        region: end.register(bytes.to_vec(), Access::Local),
        offset: 0,
        len: bytes.len() as u64,
    }
}

fn enter(table: &dyn ExportTable, endpoint: EndpointId, bytes: Exported) -> Reference {
    table.enter(Export {
        object: u128::from(endpoint.0),
        endpoint,
        until: Instant::from_nanos(u64::MAX),
        bytes,
    })
}

/// A payload out of a message, with what stands before it.
#[derive(Debug)]
struct Sent {
    opcode: Opcode,
    header: DdpHeader,
    payload: Vec<u8>,
}

/// The segments that an end sends now.
fn sent(end: &mut End) -> Vec<Sent> {
    let bytes = end.take_bytes(usize::MAX);
    let (mut rest, mut found) = (&bytes[..], Vec::new());
    while let Some((fpdu, used)) = Fpdu::parse(rest).unwrap() {
        let (header, payload) = DdpHeader::parse(fpdu.ulpdu).unwrap();
        found.push(Sent {
            opcode: Opcode::parse(header.ulp_control()).unwrap(),
            header,
            payload: payload.to_vec(),
        });
        rest = &rest[used..];
    }
    assert!(rest.is_empty());
    found
}

/// The end that is asked: it exports 1000 bytes.
struct Asked {
    end: End,
    reference: Reference,
    /// The same bytes for another connection.
    foreign: Reference,
    exporter: Rc<dyn ExportTable>,
    msn: u32,
}

impl Asked {
    fn new(agreement: Agreement) -> Asked {
        let mut end = End::new(Role::Responder, agreement, 64_768);
        end.engine.authenticate(KEY);
        end.engine
            .post_receive(WorkId(7), Buffer::zeroed(100))
            .unwrap();
        let (reference, exporter) = export(&end, &[0x11; 1000]);
        let foreign = enter(&*exporter, EndpointId(2), memory(&end, &[0x22; 1000]));
        Asked {
            end,
            reference,
            foreign,
            exporter,
            msn: 0,
        }
    }

    /// A request by this key for bytes that may be exported.
    fn request(
        &mut self,
        key: CapabilityKey,
        timestamp: u64,
        source: Reference,
        size: u32,
    ) -> Segment {
        let mut request = AuthenticatedReadRequest {
            read: ReadRequest {
                sink_stag: SINK.0,
                sink_offset: SINK.1,
                size,
                source_stag: STag(source.address.key.0),
                source_offset: TaggedOffset(source.address.offset),
            },
            access_key: source.access_key.0,
            timestamp,
            mac: [0; MAC_LEN],
        };
        let mut authenticator = Authenticator::default();
        authenticator.set_key(key);
        request.mac = authenticator.code(&request.claim());
        let mut payload = [0; 60];
        request.emit(&mut payload);
        self.msn += 1;
        let opcode = Opcode::AuthenticatedReadRequest;
        Segment::untagged(opcode, QueueNumber::READ_REQUEST, self.msn, &payload)
    }

    /// A request that nothing is wrong with.
    fn genuine(&mut self, timestamp: u64) -> Segment {
        self.request(KEY, timestamp, self.reference, 10)
    }

    /// Takes a segment, and gives what is answered: bytes, or why not.
    fn answer(&mut self, segment: &Segment) -> Result<Vec<u8>, ExceptionReason> {
        let frame = segment.frame();
        assert_eq!(self.end.engine.receive(&frame), frame.len());
        assert_eq!(self.end.engine.reason(), None);
        let mut answers = sent(&mut self.end);
        assert_eq!(answers.len(), 1, "{answers:?}");
        let answer = answers.remove(0);
        if answer.opcode == Opcode::ReadResponse {
            return Ok(answer.payload);
        }
        assert_eq!(answer.opcode, Opcode::ReadException);
        Err(ReadException::parse(&answer.payload).unwrap().reason)
    }

    /// Takes segments, the last of which ends the connection.
    fn suffer(&mut self, segments: &[Segment]) -> TerminateCode {
        for segment in segments {
            self.end.engine.receive(&segment.frame());
        }
        terminated(&mut self.end)
    }
}

/// The Terminate by which an end ends the connection for its peer's misbehaviour, with nothing behind it.
fn terminated(end: &mut End) -> TerminateCode {
    let reason = end.engine.reason().cloned();
    let misbehaved = matches!(reason, Some(Disconnected::PeerMisbehaved(_)));
    assert!(misbehaved, "{reason:?}");
    let last = sent(end).pop().unwrap();
    assert_eq!(last.opcode, Opcode::Terminate);
    Terminate::parse(&last.payload).unwrap().0.code
}

#[test]
fn a_genuine_request_is_answered_as_a_read() {
    let mut asked = Asked::new(WITH_EXCEPTIONS);
    for timestamp in [1, 2, 10, u64::MAX] {
        let genuine = asked.genuine(timestamp);
        assert_eq!(asked.answer(&genuine), Ok(vec![0x11; 10]));
    }
    let nothing = asked.request(KEY, 3, asked.reference, 0);
    // After the greatest of all timestamps there is no greater one.
    assert_eq!(asked.answer(&nothing), Err(ExceptionReason::Replay));
    assert_eq!(asked.exporter.stats().reads, 4);
}

#[test]
fn a_forged_request_reads_nothing() {
    let mut asked = Asked::new(WITH_EXCEPTIONS);
    for at in 0..60 {
        let mut forged = asked.genuine(5);
        forged.payload[at] ^= 0x40;
        let answer = asked.answer(&forged);
        assert_eq!(answer, Err(ExceptionReason::BadCapability), "byte {at}");
    }
    // None of them has used the timestamp up, and none has reached the table.
    let genuine = asked.genuine(5);
    assert_eq!(asked.answer(&genuine), Ok(vec![0x11; 10]));
    assert_eq!(asked.exporter.stats().refused, 0);
}

#[test]
fn an_old_request_is_refused_however_it_comes_again() {
    let mut asked = Asked::new(WITH_EXCEPTIONS);
    let first = asked.genuine(5);
    assert_eq!(asked.answer(&first), Ok(vec![0x11; 10]));
    // The same payload in a message of its own, an older one, one for other bytes with the same timestamp.
    let mut again = asked.genuine(6);
    again.payload.clone_from(&first.payload);
    assert_eq!(asked.answer(&again), Err(ExceptionReason::Replay));
    for timestamp in [0, 4, 5] {
        let old = asked.request(KEY, timestamp, asked.reference.at(3), 10);
        assert_eq!(asked.answer(&old), Err(ExceptionReason::Replay));
    }
    let newer = asked.genuine(6);
    assert_eq!(asked.answer(&newer), Ok(vec![0x11; 10]));
}

#[test]
fn requests_that_change_places_are_refused() {
    let mut asked = Asked::new(WITH_EXCEPTIONS);
    let (mut first, mut second) = (asked.genuine(1), asked.genuine(2));
    std::mem::swap(&mut first.payload, &mut second.payload);
    assert_eq!(asked.answer(&first), Ok(vec![0x11; 10]));
    assert_eq!(asked.answer(&second), Err(ExceptionReason::Replay));
}

#[test]
fn a_capability_of_another_connection_is_refused() {
    let mut asked = Asked::new(WITH_EXCEPTIONS);
    let by_another_key = asked.request(CapabilityKey([8; 32]), 1, asked.reference, 10);
    let bad = Err(ExceptionReason::BadCapability);
    assert_eq!(asked.answer(&by_another_key), bad);
    // A reference made for another connection, in a request with a valid code.
    let foreign = asked.request(KEY, 1, asked.foreign, 10);
    assert_eq!(asked.answer(&foreign), Err(ExceptionReason::Rights));
    let guessed = Reference {
        access_key: AccessKey(asked.reference.access_key.0 ^ 1),
        ..asked.reference
    };
    let guessed = asked.request(KEY, 2, guessed, 10);
    assert_eq!(asked.answer(&guessed), bad);
}

#[test]
fn without_a_key_every_capability_is_refused() {
    let mut end = End::new(Role::Responder, WITH_EXCEPTIONS, 64_768);
    let (reference, exporter) = export(&end, &[0x11; 1000]);
    end.engine
        .post_receive(WorkId(7), Buffer::zeroed(100))
        .unwrap();
    let mut asked = Asked {
        end,
        foreign: reference,
        reference,
        exporter,
        msn: 0,
    };
    for key in [[0; 32], KEY.0] {
        let request = asked.request(CapabilityKey(key), 1, asked.reference, 10);
        assert_eq!(asked.answer(&request), Err(ExceptionReason::BadCapability));
    }
    let mut zeros = asked.genuine(1);
    zeros.payload[44..].fill(0);
    assert_eq!(asked.answer(&zeros), Err(ExceptionReason::BadCapability));
}

#[test]
fn each_exception_carries_its_reason() {
    let mut asked = Asked::new(WITH_EXCEPTIONS);
    let good = asked.reference;
    let mut unknown = good;
    unknown.address.key = RemoteKey(!good.address.key.0);
    let mut wrapping = good;
    wrapping.address.offset = u64::MAX - 3;
    let cases = [
        (unknown, 10, ExceptionReason::StaleKey),
        (good.at(1u64.wrapping_neg()), 10, ExceptionReason::Bounds),
        (good.at(991), 10, ExceptionReason::Bounds),
        (wrapping, 10, ExceptionReason::Bounds),
        (good, 1001, ExceptionReason::Bounds),
        (good, OPTIMISTIC_READ_MAX + 1, ExceptionReason::Bounds),
        (good, u32::MAX, ExceptionReason::Bounds),
        (asked.foreign, 0, ExceptionReason::Rights),
    ];
    for (timestamp, (source, size, reason)) in (1..).zip(cases) {
        let request = asked.request(KEY, timestamp, source, size);
        assert_eq!(asked.answer(&request), Err(reason), "{source:?} {size}");
    }
    asked.exporter.remove_all();
    let request = asked.request(KEY, 100, good, 10);
    assert_eq!(asked.answer(&request), Err(ExceptionReason::StaleKey));
}

#[test]
fn an_ordinary_read_that_is_refused_gets_an_exception_where_agreed() {
    for (exceptions, region) in [(true, false), (true, true), (false, false)] {
        let mut asked = Asked::new(Agreement {
            exceptions,
            ..AGREED
        });
        let private = asked.end.register(vec![0x33; 100], Access::Local);
        let source = if region {
            address_of(&private, 0)
        } else {
            // An ordinary Read cannot read an exported object.
            asked.reference.address
        };
        let request = Segment::read_request(1, source, 10);
        if !exceptions {
            let code = asked.suffer(&[request]);
            assert_eq!(code, TerminateCode::READ_INVALID_STAG);
            continue;
        }
        let reason = if region {
            ExceptionReason::Rights
        } else {
            ExceptionReason::StaleKey
        };
        assert_eq!(asked.answer(&request), Err(reason));
        asked.msn = 1;
        let genuine = asked.genuine(1);
        assert_eq!(asked.answer(&genuine), Ok(vec![0x11; 10]));
    }
}

#[test]
fn without_an_agreement_the_request_is_unknown() {
    let mut asked = Asked::new(AGREED);
    let request = asked.genuine(1);
    let code = asked.suffer(&[request]);
    assert_eq!(code, TerminateCode::UNEXPECTED_OPCODE);
}

#[test]
fn neither_message_is_tagged() {
    let somewhere = RemoteAddress {
        key: RemoteKey(0x1234),
        offset: 0,
    };
    for opcode in [Opcode::AuthenticatedReadRequest, Opcode::ReadException] {
        for agreement in [AGREED, WITH_EXCEPTIONS] {
            let tagged = Segment::tagged(opcode, somewhere, 16);
            let code = Asked::new(agreement).suffer(&[tagged]);
            assert_eq!(code, TerminateCode::UNEXPECTED_OPCODE);
        }
    }
}

#[test]
fn a_request_has_one_form() {
    let check = |expected, change: fn(&mut Segment)| {
        let mut asked = Asked::new(WITH_EXCEPTIONS);
        let mut request = asked.genuine(1);
        change(&mut request);
        assert_eq!(asked.suffer(&[request]), expected);
        // No export was read.
        assert_eq!(asked.exporter.stats().reads, 0);
    };
    for change in [
        (|request| request.payload.truncate(59)) as fn(&mut Segment),
        |request| request.payload.push(0),
        |request| request.payload.truncate(28),
        |request| request.payload.clear(),
    ] {
        check(TerminateCode::UNTAGGED_TOO_LONG, change);
    }
    check(TerminateCode::UNTAGGED_OFFSET, |request| {
        *request = request.clone().not_last();
    });
    check(TerminateCode::UNTAGGED_OFFSET, |request| {
        *request = request.clone().at(60);
    });
    check(TerminateCode::UNTAGGED_QUEUE, |request| {
        on(request, QueueNumber::READ_EXCEPTION, 1);
    });
    check(TerminateCode::UNTAGGED_QUEUE, |request| {
        on(request, QueueNumber::SEND, 1);
    });
    check(TerminateCode::UNTAGGED_MSN_RANGE, |request| {
        on(request, QueueNumber::READ_REQUEST, 2);
    });
    check(TerminateCode::UNTAGGED_MSN_RANGE, |request| {
        on(request, QueueNumber::READ_REQUEST, 0);
    });
}

/// Puts a segment on another queue, with this number there.
fn on(segment: &mut Segment, queue: QueueNumber, msn: u32) {
    if let DdpHeader::Untagged(header) = &mut segment.header {
        (header.queue, header.msn) = (queue, Msn(msn));
    }
}

#[test]
fn more_reads_than_agreed_end_the_connection_however_they_are_asked() {
    // Those that will be refused count too, until they are.
    let kinds: [fn(&mut Asked, u64) -> Segment; 4] = [
        |asked, timestamp| asked.genuine(timestamp),
        |asked, _| asked.genuine(0),
        |asked, _| {
            asked.msn += 1;
            Segment::read_request(asked.msn, asked.reference.address, 10)
        },
        |asked, timestamp| {
            let kind = asked.foreign;
            asked.request(KEY, timestamp, kind, 10)
        },
    ];
    for kind in kinds {
        let mut asked = Asked::new(WITH_EXCEPTIONS);
        let requests: Vec<Segment> = (1..=5).map(|at| kind(&mut asked, at)).collect();
        let depth = usize::from(WITH_EXCEPTIONS.ird);
        for request in &requests[..depth] {
            asked.end.engine.receive(&request.frame());
            assert_eq!(asked.end.engine.reason(), None);
        }
        let code = asked.suffer(&requests[depth..]);
        assert_eq!(code, TerminateCode::STREAM_CATASTROPHIC);
    }
}

#[test]
fn answers_come_in_the_order_of_the_requests() {
    let mut asked = Asked::new(WITH_EXCEPTIONS);
    let promised = asked.end.register(vec![0x44; 300], Access::RemoteRead);
    let mut segments = vec![asked.genuine(1), asked.genuine(1), asked.genuine(2)];
    asked.msn += 1;
    let ordinary = Segment::read_request(asked.msn, address_of(&promised, 0), 300);
    segments.push(ordinary);
    for segment in &segments {
        asked.end.engine.receive(&segment.frame());
    }
    let answers = sent(&mut asked.end);
    let opcodes: Vec<Opcode> = answers.iter().map(|sent| sent.opcode).collect();
    let (response, exception) = (Opcode::ReadResponse, Opcode::ReadException);
    assert_eq!(opcodes, [response, exception, response, response]);
    assert_eq!(answers[3].payload, [0x44; 300]);
    let DdpHeader::Untagged(header) = answers[1].header else {
        panic!("{answers:?}");
    };
    let expected = (QueueNumber(4), Msn(1), MessageOffset(0), true, 0);
    let found = (
        header.queue,
        header.msn,
        header.offset,
        header.last,
        header.ulp_word,
    );
    assert_eq!(found, expected);
}
