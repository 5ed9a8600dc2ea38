//! Requests as an input says them.
//!
//! A request is: whose it is, its operation, how it is sent, the lengths of body and data (two bytes each), perhaps
//! [`HEADER_LEN`] bytes of a header, then both. What only a run knows is filled in: numbers of files, keys of memory,
//! and the proofs of capabilities, without which no server would look at more.

use super::Operation;
use gannet_dst::volume::keys;
use gannet_fabric::Region;
use gannet_wire::volume::{
    Capability, Class, FileId, Kind, Memory, MessageHeader, ObjectRange, ReferenceRequest,
    RegionPiece, Status, Token, Transfer,
};
use gannet_wire::xdr::{Encode, from_bytes, to_bytes};

/// The high half of a number that stands for a file; the low half is its place among those that are there.
pub(crate) const NUMBER: u32 = 0xf11e_f11e;
/// A key that stands for that of the peer's memory, whose offsets count from its start.
pub(crate) const KEY: u32 = 0x6b65_7921;
/// A bit of the third byte: the next request waits for the answer.
pub(crate) const WAIT: u8 = 1;
/// A bit of the third byte: a header follows.
pub(crate) const RAW: u8 = 2;
const CLASS: u8 = 0x0c;
/// Class and kind, status, credits, id, term.
const HEADER_LEN: usize = 13;

/// Whose a request is, and which server it goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    /// A client's, to the manager.
    ClientOfManager,
    /// A client's, to an I/O server.
    ClientOfIoServer,
    /// A manager's, to an I/O server.
    Manager,
    /// An I/O server's, to the manager.
    IoServer,
}

const PEERS: [Peer; 4] = [
    Peer::ClientOfManager,
    Peer::ClientOfIoServer,
    Peer::Manager,
    Peer::IoServer,
];
const CLASSES: [Class; 4] = [
    Class::Metadata,
    Class::Small,
    Class::Bulk,
    Class::Background,
];
const KINDS: [Kind; 4] = [Kind::Request, Kind::Reply, Kind::Control, Kind::Data];

/// A request.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub(crate) peer: Peer,
    pub(crate) operation: Operation,
    pub(crate) class: Class,
    pub(crate) waits: bool,
    /// Sent with this header past the rules of a link.
    pub(crate) header: Option<MessageHeader>,
    pub(crate) body: Vec<u8>,
    pub(crate) data: Vec<u8>,
}

/// The first requests of an input.
pub(super) fn decode(mut data: &[u8], max: usize) -> Vec<Step> {
    let mut steps = Vec::new();
    while let Some((step, rest)) = decode_one(data)
        && steps.len() < max
    {
        steps.push(step);
        data = rest;
    }
    steps
}

fn decode_one(data: &[u8]) -> Option<(Step, &[u8])> {
    let ([peer, operation, how, b0, b1, d0, d1], mut rest) = data.split_first_chunk()?;
    let operation = Operation::ALL.get(usize::from(*operation) % Operation::ALL.len())?;
    let class = CLASSES[usize::from((how & CLASS) >> 2)];
    let mut header = None;
    if how & RAW != 0 {
        let (bytes, behind) = rest.split_first_chunk::<HEADER_LEN>()?;
        rest = behind;
        header = Some(header_of(*operation, bytes));
    }
    let body_len = usize::from(u16::from_be_bytes([*b0, *b1])).min(rest.len());
    let (body, behind) = rest.split_at(body_len);
    let data_len = usize::from(u16::from_be_bytes([*d0, *d1])).min(behind.len());
    let (data, behind) = behind.split_at(data_len);
    let step = Step {
        peer: PEERS[usize::from(*peer) % PEERS.len()],
        operation: *operation,
        class,
        waits: how & WAIT != 0,
        header,
        body: body.to_vec(),
        data: data.to_vec(),
    };
    Some((step, behind))
}

fn header_of(operation: Operation, bytes: &[u8; HEADER_LEN]) -> MessageHeader {
    let [kinds, status, c0, c1, c2, c3, id, t0, t1, t2, t3, t4, t5] = *bytes;
    MessageHeader {
        kind: KINDS[usize::from(kinds & 3)],
        operation,
        class: CLASSES[usize::from(kinds >> 2 & 3)],
        status: match status {
            0 => Ok(()),
            _ => Err(Status::Io),
        },
        credits: u32::from_be_bytes([c0, c1, c2, c3]),
        id: u64::from(id),
        term: u64::from_be_bytes([0, 0, t0, t1, t2, t3, t4, t5]),
        body_len: 0,
        data_len: 0,
    }
}

impl Step {
    /// A request that waits for its answer.
    pub(crate) fn new(peer: Peer, operation: Operation, body: &impl Encode) -> Step {
        Step::of_bytes(peer, operation, to_bytes(body))
    }

    /// The same, of a body's bytes.
    pub(crate) fn of_bytes(peer: Peer, operation: Operation, body: Vec<u8>) -> Step {
        Step {
            peer,
            operation,
            class: Class::Metadata,
            waits: true,
            header: None,
            body,
            data: Vec::new(),
        }
    }

    /// As an input says it; without a header.
    pub(crate) fn encoded(&self) -> Vec<u8> {
        let operation = Operation::ALL.iter().position(|it| *it == self.operation);
        let how = if self.waits { WAIT } else { 0 } | (self.class as u8) << 2;
        let mut bytes = vec![self.peer as u8, operation.unwrap_or_default() as u8, how];
        bytes.extend((self.body.len() as u16).to_be_bytes());
        bytes.extend((self.data.len() as u16).to_be_bytes());
        bytes.extend(&self.body);
        bytes.extend(&self.data);
        bytes
    }

    pub(super) fn filled_in(mut self, files: &[FileId], memory: &Region) -> Step {
        fill_in_numbers(&mut self.body, files);
        let body = &self.body;
        let filled_in = match self.operation {
            Operation::Read | Operation::Write => from_bytes::<Transfer>(body).map(|it| {
                to_bytes(&Transfer {
                    capability: signed(it.capability, files),
                    memory: placed(it.memory, memory),
                    ..it
                })
            }),
            Operation::References => from_bytes::<ReferenceRequest>(body).map(|mut it| {
                let all = it.objects.iter_mut();
                all.for_each(|right| right.capability = signed(right.capability, files));
                to_bytes(&it)
            }),
            _ => from_bytes::<ObjectRange>(body).map(|it| {
                to_bytes(&ObjectRange {
                    capability: signed(it.capability, files),
                    ..it
                })
            }),
        };
        if let Ok(body) = filled_in {
            self.body = body;
        }
        self
    }
}

fn fill_in_numbers(body: &mut [u8], files: &[FileId]) {
    for at in (0..body.len()).step_by(4) {
        let word = body
            .get_mut(at..)
            .and_then(|rest| rest.first_chunk_mut::<8>());
        if let Some(word) = word
            && word[..4] == NUMBER.to_be_bytes()
            && let Some(file) = files.get(usize::from(word[7]) % files.len())
        {
            *word = file.0.to_be_bytes();
        }
    }
}

/// With the proof that a manager gives, where there is none, for a file that a client may know.
fn signed(capability: Capability, files: &[FileId]) -> Capability {
    let Capability {
        file,
        rights,
        expires,
        term,
        proof,
    } = capability;
    match proof == Token::default() && files.contains(&FileId(file)) {
        true => keys().grant(term, file, rights, std::time::Duration::from_secs(expires)),
        false => capability,
    }
}

/// With the real key where [`KEY`] stands for it.
fn placed(memory: Memory, region: &Region) -> Memory {
    let (own, base) = (region.remote_key().0, region.base());
    match memory {
        Memory::Region { key: KEY, shape } => match shape.shifted(base) {
            Ok(shape) => Memory::Region { key: own, shape },
            Err(_) => Memory::Region { key: KEY, shape },
        },
        Memory::Regions(mut pieces) => {
            for RegionPiece { key, piece } in &mut pieces {
                if *key == KEY
                    && let Some(offset) = piece.offset.checked_add(base)
                {
                    (*key, piece.offset) = (own, offset);
                }
            }
            Memory::Regions(pieces)
        }
        memory => memory,
    }
}
