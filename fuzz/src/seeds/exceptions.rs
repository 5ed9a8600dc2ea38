//! Seeds of Reads that may be refused: what a peer may say, and what it may not.

use crate::exceptions::{SINK_LEN, Setting, attack, startup};
use gannet_fabric::{Reference, RemoteAddress, RemoteKey};
use gannet_wire::ddp::{
    DdpHeader, MessageOffset, Msn, QueueNumber, STag, Tagged, TaggedOffset, UNTAGGED_HEADER_LEN,
    Untagged,
};
use gannet_wire::mpa::{FrameKind, LENGTH_LEN, pad_len};
use gannet_wire::rdmap::{
    AUTHENTICATED_READ_REQUEST_LEN, AuthenticatedReadRequest, ExceptionReason, MAC_LEN, Opcode,
    READ_EXCEPTION_LEN, READ_REQUEST_LEN, ReadException, ReadRequest,
};

/// Where the requests say that they want what they read.
const SINK: RemoteAddress = RemoteAddress {
    key: RemoteKey(0x0123_4567),
    offset: 0x1000,
};

type Seed = (&'static str, &'static str, Vec<u8>);

pub(super) fn by_hand() -> Vec<Seed> {
    let setting = attack(&[]);
    let streams = setting.map(|setting| streams(&setting));
    fields()
        .into_iter()
        .chain(streams.unwrap_or_default())
        .collect()
}

/// Both messages, alone and on their way.
fn fields() -> Vec<Seed> {
    let nowhere = RemoteAddress {
        key: RemoteKey(0x7777),
        offset: 0x2000,
    };
    let access_key = gannet_fabric::AccessKey(0x0102_0304_0506_0708);
    let asked = authenticated(
        1,
        Reference {
            address: nowhere,
            access_key,
        },
        4096,
    );
    let refused = exception(1, SINK);
    let ulpdu = |frame: &[u8], len: usize| cut(frame, LENGTH_LEN, UNTAGGED_HEADER_LEN + len);
    let payload = |frame: &[u8], len| cut(frame, LENGTH_LEN + UNTAGGED_HEADER_LEN, len);
    // As `dump_stream` reads it: whose bytes, how many, and the bytes.
    let piece = |by: u8, bytes: &[u8]| {
        let len = u8::try_from(bytes.len()).unwrap_or(u8::MAX);
        [&[by, len], bytes].concat()
    };
    let (offer, agreed) = (startup(FrameKind::Request), startup(FrameKind::Reply));
    let stream = [
        piece(0, &offer),
        piece(1, &agreed),
        piece(0, &asked),
        piece(1, &refused),
    ];
    vec![
        ("dump_stream", "refused", stream.concat()),
        ("mpa_startup", "offer", offer),
        (
            "ddp",
            "auth-read",
            ulpdu(&asked, AUTHENTICATED_READ_REQUEST_LEN),
        ),
        ("ddp", "read-exception", ulpdu(&refused, READ_EXCEPTION_LEN)),
        (
            "rdmap_auth_read",
            "request",
            payload(&asked, AUTHENTICATED_READ_REQUEST_LEN),
        ),
        (
            "rdmap_read_exception",
            "refused",
            payload(&refused, READ_EXCEPTION_LEN),
        ),
        ("mpa_fpdu", "auth-read", asked),
        ("mpa_fpdu", "read-exception", refused),
    ]
}

/// The bytes after the handshake.
fn streams(setting: &Setting) -> Vec<Seed> {
    let object = setting.reference;
    let requests: Vec<Vec<u8>> = (1..=4)
        .map(|msn| authenticated(msn, object.at(u64::from(msn) * 500), 900))
        .collect();
    let requests = requests.concat();
    let [first, second, ..] = &setting.sinks[..] else {
        return Vec::new();
    };
    let refusals = [exception(1, *first), exception(2, *second)].concat();
    let answered = tagged(Opcode::ReadResponse, *first, SINK_LEN);
    let answered = [answered, exception(1, *second)].concat();
    let streams = [
        ("beyond-the-depth", requests.repeat(3)),
        ("ordinary", ordinary(1, object.address)),
        ("mixed", [&requests[..], &refusals].concat()),
        ("refusals", refusals),
        ("answered", answered),
        ("requests", requests),
    ];
    let target = "refusable_reads";
    streams.map(|(kind, bytes)| (target, kind, bytes)).to_vec()
}

fn cut(bytes: &[u8], from: usize, len: usize) -> Vec<u8> {
    bytes.get(from..from + len).unwrap_or_default().to_vec()
}

fn authenticated(msn: u32, source: Reference, size: u32) -> Vec<u8> {
    let request = AuthenticatedReadRequest {
        read: read_request(source.address, size),
        access_key: source.access_key.0,
        timestamp: u64::from(msn),
        mac: [0; MAC_LEN],
    };
    let mut payload = [0; AUTHENTICATED_READ_REQUEST_LEN];
    request.emit(&mut payload);
    untagged(Opcode::AuthenticatedReadRequest, msn, &payload)
}

fn ordinary(msn: u32, source: RemoteAddress) -> Vec<u8> {
    let mut payload = [0; READ_REQUEST_LEN];
    read_request(source, 100).emit(&mut payload);
    untagged(Opcode::ReadRequest, msn, &payload)
}

fn read_request(source: RemoteAddress, size: u32) -> ReadRequest {
    ReadRequest {
        sink_stag: STag(SINK.key.0),
        sink_offset: TaggedOffset(SINK.offset),
        size,
        source_stag: STag(source.key.0),
        source_offset: TaggedOffset(source.offset),
    }
}

fn exception(msn: u32, sink: RemoteAddress) -> Vec<u8> {
    let exception = ReadException {
        sink_stag: STag(sink.key.0),
        sink_offset: TaggedOffset(sink.offset),
        reason: ExceptionReason::NotResident,
    };
    let mut payload = [0; READ_EXCEPTION_LEN];
    exception.emit(&mut payload);
    untagged(Opcode::ReadException, msn, &payload)
}

fn untagged(opcode: Opcode, msn: u32, payload: &[u8]) -> Vec<u8> {
    let header = DdpHeader::Untagged(Untagged {
        last: true,
        ulp_control: opcode.control(),
        ulp_word: 0,
        queue: opcode.queue().unwrap_or(QueueNumber::SEND),
        msn: Msn(msn),
        offset: MessageOffset(0),
    });
    framed(&header, payload)
}

fn tagged(opcode: Opcode, target: RemoteAddress, len: usize) -> Vec<u8> {
    let header = DdpHeader::Tagged(Tagged {
        last: true,
        ulp_control: opcode.control(),
        stag: STag(target.key.0),
        offset: TaggedOffset(target.offset),
    });
    framed(&header, &vec![0x11; len])
}

/// An FPDU without CRC.
fn framed(header: &DdpHeader, payload: &[u8]) -> Vec<u8> {
    let mut fields = [0; UNTAGGED_HEADER_LEN];
    let len = header.emit(&mut fields);
    let ulpdu_len = len + payload.len();
    let mut bytes = u16::try_from(ulpdu_len).unwrap_or(0).to_be_bytes().to_vec();
    bytes.extend_from_slice(&fields[..len]);
    bytes.extend_from_slice(payload);
    bytes.resize(bytes.len() + pad_len(ulpdu_len) + 4, 0);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exceptions::signed;
    use gannet_fabric::{AccessError, Done, WorkError};

    #[test]
    fn seeds_reach_what_they_are_for() {
        let seeds = by_hand();
        assert_eq!(seeds.len(), 8 + 6);
        let named = |name| seeds.iter().find(|(_, kind, _)| *kind == name).unwrap();
        // Signed, the requests are genuine: their codes are no zeros any more, and nothing else has changed.
        let (_, _, requests) = named("requests");
        let signed = signed(requests);
        assert_eq!(signed.len(), requests.len());
        let changed = signed.iter().zip(requests).filter(|(a, b)| a != b);
        assert!((50..=4 * MAC_LEN).contains(&changed.count()));
        // They reach the table, where the honest peer's one comes behind them.
        let stats = attack(&signed).unwrap().exporter.stats();
        assert_eq!((stats.reads, stats.refused), (4 + 1, 0));
        let outcomes = |kind| attack(&named(kind).2).unwrap().outcomes.take();
        let refused = Err(WorkError::Remote(AccessError::NotResident));
        let flushed = Err(WorkError::Flushed);
        for kind in ["refusals", "mixed"] {
            assert_eq!(outcomes(kind), [refused, refused, flushed, flushed]);
        }
        let answered = [Ok(Done::Read), refused, flushed, flushed];
        assert_eq!(outcomes("answered"), answered);
        for (target, _, bytes) in &seeds {
            (crate::target_named(target).unwrap().run)(bytes);
        }
    }
}
