//! Each rule a peer may break, and the Terminate it is answered with (RFC 5040 section 7, RFC 5041
//! section 8).

use super::*;
use gannet_fabric::Access;
use gannet_wire::ddp::{
    DdpHeader, MessageOffset, QueueNumber, Tagged, UNTAGGED_HEADER_LEN, Untagged,
};
use gannet_wire::mpa::{Fpdu, pad_len};
use gannet_wire::rdmap::{READ_REQUEST_LEN, ReadRequest, TerminateContext};
use proptest::prelude::*;

const REGION_LEN: u64 = 1000;

/// A segment made by hand; tests change what they want to be wrong.
#[derive(Clone)]
pub(super) struct Segment {
    pub(super) header: DdpHeader,
    pub(super) payload: Vec<u8>,
    /// XORed into the first two bytes of the ULPDU: versions and reserved bits.
    spoil: [u8; 2],
}

impl Segment {
    fn send(msn: u32, payload: &[u8]) -> Segment {
        Segment::untagged(Opcode::Send, QueueNumber::SEND, msn, payload)
    }

    pub(super) fn untagged(
        opcode: Opcode,
        queue: QueueNumber,
        msn: u32,
        payload: &[u8],
    ) -> Segment {
        let header = DdpHeader::Untagged(Untagged {
            last: true,
            ulp_control: opcode.control(),
            ulp_word: 0,
            queue,
            msn: Msn(msn),
            offset: MessageOffset(0),
        });
        Segment {
            header,
            payload: payload.to_vec(),
            spoil: [0; 2],
        }
    }

    pub(super) fn tagged(opcode: Opcode, address: RemoteAddress, len: usize) -> Segment {
        let header = DdpHeader::Tagged(Tagged {
            last: true,
            ulp_control: opcode.control(),
            stag: STag(address.key.0),
            offset: TaggedOffset(address.offset),
        });
        Segment {
            header,
            payload: vec![0xee; len],
            spoil: [0; 2],
        }
    }

    pub(super) fn read_request(msn: u32, source: RemoteAddress, size: u32) -> Segment {
        let request = ReadRequest {
            sink_stag: STag(0x0ab0),
            sink_offset: TaggedOffset(64),
            size,
            source_stag: STag(source.key.0),
            source_offset: TaggedOffset(source.offset),
        };
        let mut payload = [0; READ_REQUEST_LEN];
        request.emit(&mut payload);
        Segment::untagged(
            Opcode::ReadRequest,
            QueueNumber::READ_REQUEST,
            msn,
            &payload,
        )
    }

    pub(super) fn not_last(mut self) -> Segment {
        match &mut self.header {
            DdpHeader::Tagged(header) => header.last = false,
            DdpHeader::Untagged(header) => header.last = false,
        }
        self
    }

    pub(super) fn at(mut self, offset: u32) -> Segment {
        if let DdpHeader::Untagged(header) = &mut self.header {
            header.offset = MessageOffset(offset);
        }
        self
    }

    fn invalidating(mut self, key: u32) -> Segment {
        if let DdpHeader::Untagged(header) = &mut self.header {
            header.ulp_control = Opcode::SendWithInvalidate.control();
            header.ulp_word = key;
        }
        self
    }

    fn spoilt(mut self, spoil: [u8; 2]) -> Segment {
        self.spoil = spoil;
        self
    }

    pub(super) fn frame(&self) -> Vec<u8> {
        let mut fields = [0; UNTAGGED_HEADER_LEN];
        let len = self.header.emit(&mut fields);
        let ulpdu_len = len + self.payload.len();
        let mut bytes = u16::try_from(ulpdu_len).unwrap().to_be_bytes().to_vec();
        bytes.extend_from_slice(&fields[..len]);
        bytes[2] ^= self.spoil[0];
        bytes[3] ^= self.spoil[1];
        bytes.extend_from_slice(&self.payload);
        bytes.extend(std::iter::repeat_n(0, pad_len(ulpdu_len) + 4));
        bytes
    }
}

/// The end that is wronged: one receive of 100 bytes, and regions of every kind.
struct Victim {
    end: End,
    writable: Region,
    readable: Region,
    private: Region,
    foreign: Region,
}

impl Victim {
    fn new() -> Victim {
        let mut end = End::responder();
        end.engine
            .post_receive(WorkId(7), Buffer::zeroed(100))
            .unwrap();
        let memory = || vec![0x11; REGION_LEN as usize];
        let backing = Backing::Buffer(Buffer::from_vec(memory()));
        let scope = Scope::Endpoint(EndpointId(2));
        Victim {
            writable: end.register(memory(), Access::RemoteWrite),
            readable: end.register(memory(), Access::RemoteRead),
            private: end.register(memory(), Access::Local),
            foreign: end
                .table
                .register_now(backing, Access::RemoteReadWrite, scope)
                .unwrap(),
            end,
        }
    }

    /// Feeds segments and gives the Terminate that comes back.
    fn suffer(&mut self, segments: &[Segment]) -> Terminate {
        for segment in segments {
            self.end.engine.receive(&segment.frame());
        }
        self.terminate()
    }

    fn terminate(&mut self) -> Terminate {
        let bytes = self.end.take_bytes(usize::MAX);
        let mut rest = &bytes[..];
        let mut found = None;
        while let Some((fpdu, used)) = Fpdu::parse(rest).unwrap() {
            let (header, payload) = DdpHeader::parse(fpdu.ulpdu).unwrap();
            if header.ulp_control() == Opcode::Terminate.control() {
                found = Some(Terminate::parse(payload).unwrap().0);
            }
            rest = &rest[used..];
        }
        assert!(rest.is_empty());
        let misbehaved = matches!(
            self.end.engine.reason(),
            Some(Disconnected::PeerMisbehaved(_))
        );
        assert!(misbehaved, "{:?}", self.end.engine.reason());
        found.unwrap()
    }

    /// Nothing was written anywhere, and the receive came back unused.
    fn assert_unharmed(&mut self) {
        for region in [&self.writable, &self.readable, &self.private, &self.foreign] {
            assert!(bytes_of(region).iter().all(|byte| *byte == 0x11));
        }
        let flushed = self.end.take_completions();
        assert!(
            flushed
                .iter()
                .all(|completion| completion.outcome == Err(WorkError::Flushed))
        );
    }
}

/// Expects that the last of these segments is answered by this Terminate, which quotes its header.
fn check(expected: TerminateCode, segments: impl Fn(&Victim) -> Vec<Segment>) {
    let mut victim = Victim::new();
    let segments = segments(&victim);
    let terminate = victim.suffer(&segments);
    assert_eq!(terminate.code, expected);
    let last = segments.last().unwrap();
    match terminate.context {
        Some(TerminateContext {
            header,
            segment_len,
            read_request,
        }) => {
            assert_eq!(header, last.header, "{expected}");
            let ulpdu_len = last.header.encoded_len() + last.payload.len();
            assert_eq!(segment_len.map(usize::from), Some(ulpdu_len));
            let is_read_refusal = expected.layer == 0 && expected.error_type == 1;
            let is_read_request = header.ulp_control() == Opcode::ReadRequest.control();
            assert_eq!(read_request.is_some(), is_read_refusal && is_read_request);
        }
        None => {
            let versions = [
                TerminateCode::TAGGED_VERSION,
                TerminateCode::UNTAGGED_VERSION,
            ];
            assert!(
                expected.layer == 2 || versions.contains(&expected),
                "{expected}"
            );
        }
    }
    if segments.len() == 1 {
        victim.assert_unharmed();
    }
}

fn somewhere(region: &Region) -> RemoteAddress {
    address_of(region, 10)
}

#[test]
fn framing() {
    let mut victim = Victim::new();
    victim.end.engine.receive(&[0, 13]);
    assert_eq!(victim.terminate().code, TerminateCode::MPA_FRAMING);
    // Long enough for a tagged header, not for the untagged one it has.
    let mut victim = Victim::new();
    let mut frame = Segment::send(1, b"").frame();
    frame[1] = 17;
    frame.truncate(24);
    victim.end.engine.receive(&frame);
    assert_eq!(victim.terminate().code, TerminateCode::MPA_FRAMING);
}

#[test]
fn versions_and_opcodes() {
    check(TerminateCode::UNTAGGED_VERSION, |_| {
        vec![Segment::send(1, b"x").spoilt([3, 0])]
    });
    check(TerminateCode::TAGGED_VERSION, |victim| {
        vec![Segment::tagged(Opcode::Write, somewhere(&victim.writable), 8).spoilt([3, 0])]
    });
    let code_of = |segment: Segment| Victim::new().suffer(&[segment]).code;
    assert_eq!(
        code_of(Segment::send(1, b"x").spoilt([0, 0xc0])),
        TerminateCode::RDMAP_VERSION
    );
    for opcode in 8..16 {
        let spoil = [0, Opcode::Send.control() ^ (0x40 | opcode)];
        let code = code_of(Segment::send(1, b"x").spoilt(spoil));
        assert_eq!(code, TerminateCode::UNEXPECTED_OPCODE, "opcode {opcode}");
    }
    // A tagged opcode in an untagged segment, and the other way round.
    for opcode in [Opcode::Write, Opcode::ReadResponse] {
        check(TerminateCode::UNEXPECTED_OPCODE, |_| {
            vec![Segment::untagged(opcode, QueueNumber::SEND, 1, b"x")]
        });
    }
    for opcode in [Opcode::Send, Opcode::ReadRequest, Opcode::Terminate] {
        check(TerminateCode::UNEXPECTED_OPCODE, |victim| {
            vec![Segment::tagged(opcode, somewhere(&victim.writable), 8)]
        });
    }
}

#[test]
fn untagged_messages() {
    check(TerminateCode::UNTAGGED_QUEUE, |_| {
        vec![Segment::untagged(Opcode::Send, QueueNumber(5), 1, b"x")]
    });
    check(TerminateCode::UNTAGGED_QUEUE, |_| {
        vec![Segment::untagged(
            Opcode::ReadRequest,
            QueueNumber::SEND,
            1,
            &[0; 28],
        )]
    });
    check(TerminateCode::UNTAGGED_MSN_RANGE, |_| {
        vec![Segment::send(7, b"x")]
    });
    check(TerminateCode::UNTAGGED_MSN_RANGE, |_| {
        vec![Segment::send(0, b"x")]
    });
    check(TerminateCode::UNTAGGED_OFFSET, |_| {
        vec![Segment::send(1, b"x").at(64)]
    });
    check(TerminateCode::UNTAGGED_OFFSET, |_| {
        vec![
            Segment::send(1, b"four").not_last(),
            Segment::send(1, b"again").at(3),
        ]
    });
    check(TerminateCode::UNTAGGED_TOO_LONG, |_| {
        vec![Segment::send(1, &[0; 101])]
    });
    check(TerminateCode::UNTAGGED_TOO_LONG, |_| {
        vec![
            Segment::send(1, &[0; 60]).not_last(),
            Segment::send(1, &[0; 41]).at(60),
        ]
    });
    check(TerminateCode::UNTAGGED_NO_BUFFER, |_| {
        vec![
            Segment::send(1, b"takes the only buffer"),
            Segment::send(2, b""),
        ]
    });
    // Another opcode in the middle of a message.
    check(TerminateCode::UNEXPECTED_OPCODE, |_| {
        vec![
            Segment::send(1, b"four").not_last(),
            Segment::send(1, b"x").at(4).invalidating(9),
        ]
    });
}

#[test]
fn writes() {
    let write = |address, len| vec![Segment::tagged(Opcode::Write, address, len)];
    let unknown = RemoteAddress {
        key: gannet_fabric::RemoteKey(0x00be_ef00),
        offset: 0,
    };
    check(TerminateCode::TAGGED_INVALID_STAG, |_| write(unknown, 1));
    check(TerminateCode::TAGGED_INVALID_STAG, |victim| {
        write(somewhere(&victim.readable), 8)
    });
    check(TerminateCode::TAGGED_INVALID_STAG, |victim| {
        write(somewhere(&victim.private), 8)
    });
    check(TerminateCode::TAGGED_ASSOCIATION, |victim| {
        write(somewhere(&victim.foreign), 8)
    });
    let after = |victim: &Victim, offset| address_of(&victim.writable, offset);
    check(TerminateCode::TAGGED_BOUNDS, |victim| {
        write(after(victim, REGION_LEN - 7), 8)
    });
    check(TerminateCode::TAGGED_BOUNDS, |victim| {
        write(
            RemoteAddress {
                offset: 0,
                ..after(victim, 0)
            },
            8,
        )
    });
    check(TerminateCode::TAGGED_WRAP, |victim| {
        write(
            RemoteAddress {
                offset: u64::MAX - 3,
                ..after(victim, 0)
            },
            8,
        )
    });
    let first = |victim: &Victim| {
        Segment::tagged(Opcode::Write, somewhere(&victim.writable), 100).not_last()
    };
    let next = |address| Segment::tagged(Opcode::Write, address, 8);
    check(TerminateCode::TAGGED_BOUNDS, |victim| {
        vec![first(victim), next(after(victim, 111))]
    });
    check(TerminateCode::TAGGED_INVALID_STAG, |victim| {
        vec![first(victim), next(address_of(&victim.readable, 110))]
    });
    check(TerminateCode::TAGGED_INVALID_STAG, |victim| {
        vec![
            first(victim),
            Segment::tagged(Opcode::ReadResponse, somewhere(&victim.writable), 0),
        ]
    });
}

#[test]
fn a_region_revoked_between_two_segments() {
    let mut victim = Victim::new();
    let address = address_of(&victim.writable, 0);
    let first = Segment::tagged(Opcode::Write, address, 100).not_last();
    victim.end.engine.receive(&first.frame());
    let region = victim.writable.clone();
    let mut memory = region.deregister().now().unwrap().unwrap().unwrap();
    memory.fill(0);
    let rest = RemoteAddress {
        offset: address.offset + 100,
        ..address
    };
    let terminate = victim.suffer(&[Segment::tagged(Opcode::Write, rest, 100)]);
    assert_eq!(terminate.code, TerminateCode::TAGGED_INVALID_STAG);
    assert!(memory.iter().all(|byte| *byte == 0));
}

#[test]
fn read_requests() {
    let read = |address, size| vec![Segment::read_request(1, address, size)];
    let unknown = RemoteAddress {
        key: gannet_fabric::RemoteKey(0x00be_ef00),
        offset: 0,
    };
    check(TerminateCode::READ_INVALID_STAG, |_| read(unknown, 1));
    check(TerminateCode::READ_ACCESS, |victim| {
        read(somewhere(&victim.writable), 8)
    });
    check(TerminateCode::READ_ASSOCIATION, |victim| {
        read(somewhere(&victim.foreign), 8)
    });
    let after = |victim: &Victim, offset| address_of(&victim.readable, offset);
    check(TerminateCode::READ_BOUNDS, |victim| {
        read(after(victim, 1), REGION_LEN as u32)
    });
    check(TerminateCode::READ_BOUNDS, |victim| {
        read(after(victim, 0), u32::MAX)
    });
    check(TerminateCode::READ_WRAP, |victim| {
        read(
            RemoteAddress {
                offset: u64::MAX - 3,
                ..after(victim, 0)
            },
            8,
        )
    });
    check(TerminateCode::UNTAGGED_MSN_RANGE, |victim| {
        vec![Segment::read_request(2, somewhere(&victim.readable), 8)]
    });
    check(TerminateCode::UNTAGGED_OFFSET, |victim| {
        vec![Segment::read_request(1, somewhere(&victim.readable), 8).not_last()]
    });
    check(TerminateCode::UNTAGGED_TOO_LONG, |_| {
        let queue = QueueNumber::READ_REQUEST;
        vec![Segment::untagged(Opcode::ReadRequest, queue, 1, &[0; 27])]
    });
    let depth = u32::from(AGREED.ird);
    check(TerminateCode::STREAM_CATASTROPHIC, |victim| {
        let address = somewhere(&victim.readable);
        (1..=depth + 1)
            .map(|msn| Segment::read_request(msn, address, 8))
            .collect()
    });
}

#[test]
fn unsolicited_read_responses_are_violations() {
    check(TerminateCode::TAGGED_INVALID_STAG, |victim| {
        vec![Segment::tagged(
            Opcode::ReadResponse,
            somewhere(&victim.private),
            8,
        )]
    });
    for (key_change, offset, len, expected) in [
        (1, 0, 50, TerminateCode::TAGGED_INVALID_STAG),
        (0, 1, 49, TerminateCode::TAGGED_BOUNDS),
        (0, 0, 51, TerminateCode::TAGGED_BOUNDS),
        (0, 0, 49, TerminateCode::TAGGED_BOUNDS),
    ] {
        let mut victim = Victim::new();
        let sink = Span {
            region: victim.private.clone(),
            offset: 10,
            len: 50,
        };
        let source = RemoteAddress {
            key: gannet_fabric::RemoteKey(0x1234),
            offset: 0,
        };
        victim
            .end
            .engine
            .post_read(WorkId(3), sink, source)
            .unwrap();
        victim.end.take_bytes(usize::MAX);
        let mut address = address_of(&victim.private, 10 + offset);
        address.key.0 ^= key_change;
        let terminate = victim.suffer(&[Segment::tagged(Opcode::ReadResponse, address, len)]);
        assert_eq!(terminate.code, expected);
        victim.assert_unharmed();
    }
}

#[test]
fn invalidations() {
    check(TerminateCode::CANNOT_INVALIDATE, |_| {
        vec![Segment::send(1, b"x").invalidating(0x00be_ef00)]
    });
    check(TerminateCode::CANNOT_INVALIDATE, |victim| {
        vec![Segment::send(1, b"x").invalidating(victim.private.remote_key().0)]
    });
    check(TerminateCode::INVALIDATE_ASSOCIATION, |victim| {
        vec![Segment::send(1, b"x").invalidating(victim.foreign.remote_key().0)]
    });
}

#[test]
fn a_terminate_is_not_answered() {
    let mut victim = Victim::new();
    let sink = Span {
        region: victim.private.clone(),
        offset: 0,
        len: 50,
    };
    let source = RemoteAddress {
        key: gannet_fabric::RemoteKey(0x1234),
        offset: 0,
    };
    victim
        .end
        .engine
        .post_read(WorkId(3), sink, source)
        .unwrap();
    victim.end.take_bytes(usize::MAX);
    let mut payload = [0; gannet_wire::rdmap::TERMINATE_LEN_MAX];
    let len = Terminate::bare(TerminateCode::READ_BOUNDS).emit(&mut payload);
    let queue = QueueNumber::TERMINATE;
    let segment = Segment::untagged(Opcode::Terminate, queue, 1, &payload[..len]);
    victim.end.engine.receive(&segment.frame());
    assert!(matches!(
        victim.end.engine.reason(),
        Some(Disconnected::PeerTerminated(_))
    ));
    assert!(victim.end.take_bytes(usize::MAX).is_empty());
    let outcomes: Vec<_> = victim
        .end
        .take_completions()
        .into_iter()
        .map(|completion| (completion.id, completion.outcome))
        .collect();
    let refused = WorkError::Remote(AccessError::Bounds);
    assert_eq!(
        outcomes,
        [
            (WorkId(3), Err(refused)),
            (WorkId(7), Err(WorkError::Flushed))
        ]
    );
}

#[test]
fn nothing_is_received_after_the_end() {
    let mut victim = Victim::new();
    victim.suffer(&[Segment::send(7, b"x")]);
    let address = somewhere(&victim.writable);
    let late = Segment::tagged(Opcode::Write, address, 8).frame();
    assert_eq!(victim.end.engine.receive(&late), late.len());
    victim.assert_unharmed();
    let refused = victim
        .end
        .engine
        .post_send(WorkId(1), source(b"x"), SendOptions::default());
    assert_eq!(refused, Err(PostError::Closed));
}

/// A segment whose fields are each likely or unlikely by themselves.
#[derive(Debug, Clone)]
struct Hostile {
    is_tagged: bool,
    last: bool,
    control: u8,
    region: usize,
    offset: u64,
    queue: u32,
    msn: u32,
    message_offset: u32,
    payload: Vec<u8>,
    spoil: u8,
}

fn hostile() -> impl Strategy<Value = Hostile> {
    let control = prop_oneof![8 => 0x40u8..0x48, 1 => any::<u8>()];
    let offset = prop_oneof![0u64..1100, any::<u64>()];
    let message_offset = prop_oneof![Just(0u32), 0u32..100, any::<u32>()];
    let payload = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..120),
        prop::collection::vec(any::<u8>(), READ_REQUEST_LEN),
    ];
    let flags = (
        any::<bool>(),
        any::<bool>(),
        prop_oneof![9 => Just(0u8), 1 => any::<u8>()],
    );
    let names = (0usize..6, offset, 0u32..4, 0u32..4, message_offset);
    (flags, control, names, payload).prop_map(|(flags, control, names, payload)| Hostile {
        is_tagged: flags.0,
        last: flags.1,
        control,
        region: names.0,
        offset: names.1,
        queue: names.2,
        msn: names.3,
        message_offset: names.4,
        payload,
        spoil: flags.2,
    })
}

impl Hostile {
    fn segment(&self, victim: &Victim) -> Segment {
        let regions = [
            &victim.writable,
            &victim.readable,
            &victim.private,
            &victim.foreign,
        ];
        let (stag, base) = match regions.get(self.region) {
            Some(region) => (region.remote_key().0, region.base()),
            None => (self.region as u32, 0),
        };
        let header = if self.is_tagged {
            DdpHeader::Tagged(Tagged {
                last: self.last,
                ulp_control: self.control,
                stag: STag(stag),
                offset: TaggedOffset(base.wrapping_add(self.offset)),
            })
        } else {
            DdpHeader::Untagged(Untagged {
                last: self.last,
                ulp_control: self.control,
                ulp_word: stag,
                queue: QueueNumber(self.queue),
                msn: Msn(self.msn),
                offset: MessageOffset(self.message_offset),
            })
        };
        let mut payload = self.payload.clone();
        if self.control == Opcode::ReadRequest.control() && payload.len() == READ_REQUEST_LEN {
            payload[16..20].copy_from_slice(&stag.to_be_bytes());
            payload[20..28].copy_from_slice(&base.wrapping_add(self.offset).to_be_bytes());
        }
        Segment {
            header,
            payload,
            spoil: [self.spoil, 0],
        }
    }
}

proptest! {
    #[test]
    fn whatever_a_peer_sends_it_reaches_only_what_it_was_granted(
        segments in prop::collection::vec(hostile(), 1..20),
    ) {
        let mut victim = Victim::new();
        for id in 0..3 {
            victim.end.engine.post_receive(WorkId(10 + id), Buffer::zeroed(50)).unwrap();
        }
        for hostile in &segments {
            let frame = hostile.segment(&victim).frame();
            let used = victim.end.engine.receive(&frame);
            prop_assert_eq!(used, frame.len());
            victim.end.take_bytes(usize::MAX);
        }
        for region in [&victim.readable, &victim.private, &victim.foreign] {
            prop_assert!(bytes_of(region).iter().all(|byte| *byte == 0x11));
        }
        prop_assert!(victim.private.is_valid() && victim.foreign.is_valid());
        // Each receive comes back at most once, whatever happened.
        victim.end.engine.disconnect(Disconnected::Local);
        let mut ids: Vec<_> = victim.end.take_completions().iter().map(|done| done.id).collect();
        ids.sort();
        prop_assert_eq!(ids, [WorkId(7), WorkId(10), WorkId(11), WorkId(12)]);
    }
}
