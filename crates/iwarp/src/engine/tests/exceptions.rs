//! Reads that may be refused (docs/formats/exceptions.md): what an end says, and what peers may not do, by raw bytes.

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
/// Where a peer made by hand says that it wants what it reads.
const SINK: (STag, TaggedOffset) = (STag(0x0ab0), TaggedOffset(64));
const UNTOUCHED: u8 = 0xee;

/// Exports `bytes` to this end's peer. The table holds them for as long as it lives.
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
        object: endpoint.0,
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
    // A reference that this connection's user heard of elsewhere, authenticated as it should be.
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
fn before_a_key_was_agreed_nobody_is_genuine() {
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
fn each_reason_is_told() {
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
        let source = match region {
            true => address_of(&private, 0),
            // An object is not to be had by an ordinary Read.
            false => asked.reference.address,
        };
        let request = Segment::read_request(1, source, 10);
        if !exceptions {
            let code = asked.suffer(&[request]);
            assert_eq!(code, TerminateCode::READ_INVALID_STAG);
            continue;
        }
        let reason = match region {
            true => ExceptionReason::Rights,
            false => ExceptionReason::StaleKey,
        };
        assert_eq!(asked.answer(&request), Err(reason));
        asked.msn = 1;
        let genuine = asked.genuine(1);
        assert_eq!(asked.answer(&genuine), Ok(vec![0x11; 10]));
    }
}

#[test]
fn without_an_agreement_neither_message_is_known() {
    let unknown = TerminateCode::UNEXPECTED_OPCODE;
    let mut asked = Asked::new(AGREED);
    let request = asked.genuine(1);
    assert_eq!(asked.suffer(&[request]), unknown);
    let mut reader = Reader::new(AGREED);
    assert_eq!(reader.suffer(&[reader.exception(1)]), unknown);
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
        // Nobody was asked for anything.
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

/// The end that asks: two Reads of 100 bytes are on their way, the first of them optimistic.
struct Reader {
    end: End,
    sinks: [Region; 2],
}

impl Reader {
    fn new(agreement: Agreement) -> Reader {
        let mut end = End::new(Role::Initiator, agreement, 64_768);
        end.engine.authenticate(KEY);
        let sinks = [0, 1].map(|_| end.register(vec![UNTOUCHED; 100], Access::Local));
        let address = RemoteAddress {
            key: RemoteKey(0x1234),
            offset: 0,
        };
        let spans = sinks.each_ref().map(|sink| Span::whole(sink).unwrap());
        let [first, second] = spans;
        if agreement.exceptions {
            let reference = Reference {
                address,
                access_key: AccessKey(1),
            };
            let posted = end.engine.post_optimistic_read(WorkId(1), first, reference);
            posted.unwrap();
        } else {
            end.engine.post_read(WorkId(1), first, address).unwrap();
        }
        end.engine.post_read(WorkId(2), second, address).unwrap();
        assert_eq!(sent(&mut end).len(), 2);
        Reader { end, sinks }
    }

    /// The exception that fits one of the Reads; the first message of its kind.
    fn exception(&self, read: usize) -> Segment {
        let sink = &self.sinks[read - 1];
        let exception = ReadException {
            sink_stag: STag(sink.remote_key().0),
            sink_offset: TaggedOffset(sink.base()),
            reason: ExceptionReason::StaleKey,
        };
        let mut payload = [0; 16];
        exception.emit(&mut payload);
        let (opcode, queue) = (Opcode::ReadException, QueueNumber::READ_EXCEPTION);
        Segment::untagged(opcode, queue, 1, &payload)
    }

    /// Bytes `from..to` of the answer to a Read.
    fn response(&self, read: usize, from: u64, to: u64) -> Segment {
        let address = address_of(&self.sinks[read - 1], from);
        let len = usize::try_from(to - from).unwrap();
        let segment = Segment::tagged(Opcode::ReadResponse, address, len);
        match to {
            100 => segment,
            _ => segment.not_last(),
        }
    }

    fn suffer(&mut self, segments: &[Segment]) -> TerminateCode {
        let (last, before) = segments.split_last().unwrap();
        for segment in before {
            self.end.engine.receive(&segment.frame());
            assert_eq!(self.end.engine.reason(), None);
        }
        self.end.engine.receive(&last.frame());
        terminated(&mut self.end)
    }

    fn outcomes(&mut self) -> Vec<(u64, Result<Done, WorkError>)> {
        let all = self.end.take_completions().into_iter();
        all.map(|completion| (completion.id.0, completion.outcome))
            .collect()
    }
}

#[test]
fn an_exception_completes_the_oldest_read_alone() {
    for reason in ExceptionReason::ALL {
        let mut reader = Reader::new(WITH_EXCEPTIONS);
        let mut exception = reader.exception(1);
        exception.payload[12] = reason.code();
        for segment in [exception, reader.response(2, 0, 100)] {
            reader.end.engine.receive(&segment.frame());
            assert_eq!(reader.end.engine.reason(), None);
        }
        let error = match reason {
            ExceptionReason::NotResident => AccessError::NotResident,
            ExceptionReason::StaleKey => AccessError::InvalidKey,
            ExceptionReason::Bounds => AccessError::Bounds,
            ExceptionReason::Rights => AccessError::Rights,
            ExceptionReason::BadCapability => AccessError::Capability,
            ExceptionReason::Replay => AccessError::Replay,
        };
        let refused = Err(WorkError::Remote(error));
        assert_eq!(reader.outcomes(), [(1, refused), (2, Ok(Done::Read))]);
        assert_eq!(bytes_of(&reader.sinks[0]), [UNTOUCHED; 100]);
        assert_eq!(bytes_of(&reader.sinks[1]), [0xee; 100]);
    }
}

#[test]
fn exceptions_are_numbered_on_their_queue() {
    let mut reader = Reader::new(WITH_EXCEPTIONS);
    let mut second = reader.exception(2);
    on(&mut second, QueueNumber::READ_EXCEPTION, 2);
    for segment in [reader.exception(1), second] {
        reader.end.engine.receive(&segment.frame());
    }
    assert_eq!(reader.end.engine.reason(), None);
    let refused = Err(WorkError::Remote(AccessError::InvalidKey));
    assert_eq!(reader.outcomes(), [(1, refused), (2, refused)]);
}

/// Exceptions that must end the connection: no Read is completed by them, and nothing is placed.
#[test]
fn an_exception_has_one_form_and_one_moment() {
    let check = |expected, segments: fn(&Reader) -> Vec<Segment>| {
        let mut reader = Reader::new(WITH_EXCEPTIONS);
        let segments = segments(&reader);
        assert_eq!(reader.suffer(&segments), expected);
        let flushed = Err(WorkError::Flushed);
        assert_eq!(reader.outcomes(), [(1, flushed), (2, flushed)]);
    };
    let unexpected = TerminateCode::UNEXPECTED_OPCODE;
    // Of a Read that is not the oldest, of another sink, of another place in it.
    check(unexpected, |reader| vec![reader.exception(2)]);
    check(unexpected, |reader| {
        let mut exception = reader.exception(1);
        exception.payload[3] ^= 1;
        vec![exception]
    });
    check(unexpected, |reader| {
        let mut exception = reader.exception(1);
        exception.payload[11] ^= 1;
        vec![exception]
    });
    // After the first bytes of the answer, and between the segments of a Write.
    check(unexpected, |reader| {
        vec![reader.response(1, 0, 50), reader.exception(1)]
    });
    check(unexpected, |reader| {
        let nowhere = RemoteAddress {
            key: RemoteKey(1),
            offset: 0,
        };
        let begun = Segment::tagged(Opcode::Write, nowhere, 0).not_last();
        vec![begun, reader.exception(1)]
    });
    for queue in [0, 1, 2, 3, 5] {
        let mut reader = Reader::new(WITH_EXCEPTIONS);
        let mut exception = reader.exception(1);
        on(&mut exception, QueueNumber(queue), 1);
        let code = reader.suffer(&[exception]);
        assert_eq!(code, TerminateCode::UNTAGGED_QUEUE, "queue {queue}");
    }
    for msn in [0, 2, u32::MAX] {
        let mut reader = Reader::new(WITH_EXCEPTIONS);
        let mut exception = reader.exception(1);
        on(&mut exception, QueueNumber::READ_EXCEPTION, msn);
        let code = reader.suffer(&[exception]);
        assert_eq!(code, TerminateCode::UNTAGGED_MSN_RANGE, "message {msn}");
    }
    let wrong = TerminateCode::UNTAGGED_TOO_LONG;
    for len in [0, 15, 17, 60] {
        let mut reader = Reader::new(WITH_EXCEPTIONS);
        let mut exception = reader.exception(1);
        exception.payload.resize(len, 0);
        assert_eq!(reader.suffer(&[exception]), wrong, "{len} bytes");
    }
    for (at, value) in [(12, 0), (12, 7), (12, 0xff), (13, 1), (14, 1), (15, 0x80)] {
        let mut reader = Reader::new(WITH_EXCEPTIONS);
        let mut exception = reader.exception(1);
        exception.payload[at] = value;
        assert_eq!(reader.suffer(&[exception]), wrong, "byte {at}: {value}");
    }
    check(TerminateCode::UNTAGGED_OFFSET, |reader| {
        vec![reader.exception(1).not_last()]
    });
    check(TerminateCode::UNTAGGED_OFFSET, |reader| {
        vec![reader.exception(1).at(16)]
    });
}

#[test]
fn an_exception_for_no_read_ends_the_connection() {
    let mut reader = Reader::new(WITH_EXCEPTIONS);
    let exception = reader.exception(1);
    let mut end = End::new(Role::Initiator, WITH_EXCEPTIONS, 64_768);
    end.engine.receive(&exception.frame());
    assert_eq!(terminated(&mut end), TerminateCode::UNEXPECTED_OPCODE);
    // The same exception twice, with its right number: the Read is over.
    let mut again = reader.exception(1);
    on(&mut again, QueueNumber::READ_EXCEPTION, 2);
    let code = reader.suffer(&[exception, again]);
    assert_eq!(code, TerminateCode::UNEXPECTED_OPCODE);
    let refused = Err(WorkError::Remote(AccessError::InvalidKey));
    assert_eq!(
        reader.outcomes(),
        [(1, refused), (2, Err(WorkError::Flushed))]
    );
}

#[test]
fn a_sink_taken_away_does_not_matter_to_an_exception() {
    let mut reader = Reader::new(WITH_EXCEPTIONS);
    let exception = reader.exception(1);
    let second = reader.response(2, 0, 100);
    drop(reader.sinks[0].deregister());
    for segment in [exception, second] {
        reader.end.engine.receive(&segment.frame());
    }
    assert_eq!(reader.end.engine.reason(), None);
    let refused = Err(WorkError::Remote(AccessError::InvalidKey));
    assert_eq!(reader.outcomes(), [(1, refused), (2, Ok(Done::Read))]);
}

/// Two engines; the first reads what the second exports.
struct Both {
    near: End,
    far: End,
    exporter: Rc<dyn ExportTable>,
}

impl Both {
    fn new(agreement: Agreement, ulpdu_max: usize) -> Both {
        let mut ends =
            [Role::Initiator, Role::Responder].map(|role| End::new(role, agreement, ulpdu_max));
        for end in &mut ends {
            end.engine.authenticate(KEY);
        }
        let [near, far] = ends;
        let exporter = far.table.exports(Rc::new(|_| None)).unwrap();
        Both {
            near,
            far,
            exporter,
        }
    }

    fn read(&mut self, id: u64, len: usize, from: Reference) -> Region {
        let sink = self.near.register(vec![UNTOUCHED; len], Access::Local);
        let span = Span::whole(&sink).unwrap();
        let engine = &mut self.near.engine;
        engine.post_optimistic_read(WorkId(id), span, from).unwrap();
        sink
    }
}

fn counting(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8).collect()
}

#[test]
fn the_longest_read_needs_no_long_segments() {
    for ulpdu_max in [128, 129, 500, 1054, 1055, 1056, 1442, 8942, 32_700, 64_768] {
        for crc in [false, true] {
            let agreement = Agreement {
                crc,
                ..WITH_EXCEPTIONS
            };
            let mut both = Both::new(agreement, ulpdu_max);
            let len = OPTIMISTIC_READ_MAX as usize;
            let bytes = counting(len);
            let object = memory(&both.far, &bytes);
            let from = enter(&*both.exporter, EndpointId(1), object);
            let sinks: Vec<Region> = (0..3).map(|id| both.read(id, len, from)).collect();
            let mut there = both.near.take_bytes(usize::MAX);
            both.far.receive(&mut there);
            let mut back = both.far.take_bytes(usize::MAX);
            both.near.receive(&mut back);
            assert!(there.is_empty() && back.is_empty());
            assert_eq!(both.near.engine.reason(), None, "{ulpdu_max}");
            let outcomes: Vec<_> = both.near.take_completions();
            let outcomes: Vec<_> = outcomes.iter().map(|it| it.outcome).collect();
            assert_eq!(outcomes, [Ok(Done::Read); 3], "{ulpdu_max}");
            assert!(sinks.iter().all(|sink| bytes_of(sink) == bytes));
        }
    }
}

#[test]
fn a_peer_that_takes_nothing_costs_no_more_than_full_batches() {
    for ulpdu_max in [128, 1442, 8942, 30_000, 64_768] {
        let agreement = Agreement {
            ird: 32,
            ord: 32,
            ..WITH_EXCEPTIONS
        };
        let mut both = Both::new(agreement, ulpdu_max);
        let lens = [65_536, 40_000, 3, 65_536, 0, 50_000, 100, 65_536];
        let bytes = counting(65_536);
        let object = memory(&both.far, &bytes);
        let from = enter(&*both.exporter, EndpointId(1), object);
        let mut stale = from;
        stale.address.key = RemoteKey(!from.address.key.0);
        let sinks: Vec<Region> = (0..30)
            .map(|id| {
                let from = if id % 7 == 6 { stale } else { from };
                both.read(id, lens[id as usize % lens.len()], from)
            })
            .collect();
        let mut there = both.near.take_bytes(usize::MAX);
        both.far.receive(&mut there);
        let mut back = Vec::new();
        loop {
            for _ in 0..3 {
                both.far.engine.prepare();
                let batches = both.far.engine.tx.batches.len();
                assert!(batches <= BATCHES_MAX, "{batches} of {ulpdu_max}");
            }
            let taken = both.far.take_bytes(20_000);
            if taken.is_empty() {
                break;
            }
            back.extend(taken);
            both.near.receive(&mut back);
        }
        assert_eq!(both.near.engine.reason(), None);
        let outcomes = both.near.take_completions();
        assert_eq!(outcomes.len(), sinks.len(), "{ulpdu_max}");
        for (completion, (id, sink)) in outcomes.iter().zip((0..).zip(&sinks)) {
            assert_eq!(completion.id, WorkId(id));
            let found = bytes_of(sink);
            if id % 7 == 6 {
                let refused = Err(WorkError::Remote(AccessError::InvalidKey));
                assert_eq!(completion.outcome, refused);
                assert!(found.iter().all(|byte| *byte == UNTOUCHED));
            } else {
                assert_eq!(completion.outcome, Ok(Done::Read));
                assert!(found == bytes[..found.len()]);
            }
        }
    }
}

#[test]
fn a_range_removed_before_its_turn_gives_no_byte() {
    let mut both = Both::new(WITH_EXCEPTIONS, 1442);
    let bytes = counting(65_536);
    let object = memory(&both.far, &bytes);
    let from = enter(&*both.exporter, EndpointId(1), object);
    let sinks: Vec<Region> = (0..4).map(|id| both.read(id, 65_536, from)).collect();
    let mut there = both.near.take_bytes(usize::MAX);
    both.far.receive(&mut there);
    // Some are framed by now: their bytes were taken while it was allowed, and may leave.
    both.far.engine.prepare();
    let taken = both.exporter.stats().reads;
    both.exporter.remove(1);
    let mut back = both.far.take_bytes(usize::MAX);
    both.near.receive(&mut back);
    let outcomes = both.near.take_completions();
    assert!(taken > 0 && taken < 4, "{taken}");
    for (id, (completion, sink)) in (0..).zip(outcomes.iter().zip(&sinks)) {
        let found = bytes_of(sink);
        if id < taken {
            assert_eq!(completion.outcome, Ok(Done::Read));
            assert!(found == bytes);
        } else {
            let refused = Err(WorkError::Remote(AccessError::InvalidKey));
            assert_eq!(completion.outcome, refused);
            assert!(found.iter().all(|byte| *byte == UNTOUCHED));
        }
    }
}

/// A region is revoked while ordinary Reads of it wait for their turn: not a byte of them has left, so that they are
/// refused alone. One of which bytes have left cannot be.
#[test]
fn a_region_revoked_before_its_turn_is_refused_alone() {
    for begun in [false, true] {
        let mut both = Both::new(WITH_EXCEPTIONS, 1442);
        let origin = both.far.register(vec![0x11; 300_000], Access::RemoteRead);
        let sinks = [0, 1].map(|id| {
            let sink = both.near.register(vec![UNTOUCHED; 300_000], Access::Local);
            let (span, from) = (Span::whole(&sink).unwrap(), address_of(&origin, 0));
            both.near.engine.post_read(WorkId(id), span, from).unwrap();
            sink
        });
        let mut there = both.near.take_bytes(usize::MAX);
        both.far.receive(&mut there);
        let mut back = match begun {
            true => both.far.take_bytes(1000),
            false => Vec::new(),
        };
        drop(origin.deregister());
        back.extend(both.far.take_bytes(usize::MAX));
        both.near.receive(&mut back);
        let outcomes: Vec<_> = both.near.take_completions();
        let outcomes: Vec<_> = outcomes.iter().map(|it| it.outcome).collect();
        let refused = Err(WorkError::Remote(AccessError::InvalidKey));
        if begun {
            assert_eq!(outcomes, [refused, Err(WorkError::Flushed)]);
            assert!(both.near.engine.reason().is_some());
            continue;
        }
        assert_eq!(both.near.engine.reason(), None);
        assert_eq!(outcomes, [refused, refused]);
        for sink in &sinks {
            assert!(bytes_of(sink).iter().all(|byte| *byte == UNTOUCHED));
        }
    }
}
