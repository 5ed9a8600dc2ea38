//! The end that asks: exceptions complete Reads, and what a peer may not answer.

use super::*;

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

#[test]
fn without_an_agreement_the_exception_is_unknown() {
    let mut reader = Reader::new(AGREED);
    let code = reader.suffer(&[reader.exception(1)]);
    assert_eq!(code, TerminateCode::UNEXPECTED_OPCODE);
}
