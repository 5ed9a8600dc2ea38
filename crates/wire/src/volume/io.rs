//! The bodies of the I/O servers' operations, and the capabilities and layouts that they need (docs/formats/volume.md,
//! "Bodies").

use super::group::{LayoutForm, ObjectId, group_number};
use super::{
    OBJECTS_MAX, ObjectReference, PIECES_MAX, Piece, Shape, Stability, Status, TOKEN_LEN,
    Timestamp, Token, WIDTH_MAX,
};
use crate::NamedBits;
use crate::xdr::{
    Count, Decode, Decoder, Encode, Encoder, Items, Printed, XdrError, print_as_display, printed,
    record,
};
use alloc::vec::Vec;
use core::fmt;

/// Most supplementary groups of a [`Caller`], as AUTH_SYS has them (RFC 5531 appendix A).
const GROUPS_MAX: usize = 16;

/// The user on whose behalf a client asks the manager (`caller`): the first item of each request to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caller {
    /// The number of the user.
    pub uid: u32,
    /// The number of the primary group.
    pub gid: u32,
    groups: [u32; GROUPS_MAX],
    group_count: usize,
}

impl Caller {
    /// A caller with the first 16 of `groups` as its supplementary groups.
    pub fn new(uid: u32, gid: u32, groups: &[u32]) -> Caller {
        let mut kept = [0; GROUPS_MAX];
        let pairs = kept.iter_mut().zip(groups);
        let group_count = pairs.map(|(to, group)| *to = *group).count();
        Caller {
            uid,
            gid,
            groups: kept,
            group_count,
        }
    }

    /// The numbers of the supplementary groups, at most 16.
    pub fn groups(&self) -> &[u32] {
        self.groups.get(..self.group_count).unwrap_or_default()
    }
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let groups = Items(self.groups());
        write!(f, "{}:{}{}", self.uid, self.gid, Printed(&groups))
    }
}

print_as_display!(Caller, Memory, RegionPiece);

impl Encode for Caller {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.u32(self.uid);
        encoder.u32(self.gid);
        encoder.u32_array(self.groups());
    }
}

impl Decode<'_> for Caller {
    fn decode(decoder: &mut Decoder<'_>) -> Result<Caller, XdrError> {
        let (uid, gid) = (decoder.u32()?, decoder.u32()?);
        let (groups, group_count) = decoder.u32_array()?;
        Ok(Caller {
            uid,
            gid,
            groups,
            group_count,
        })
    }
}

/// A right to the objects of a file, which the manager grants and I/O servers check (`capability`).
///
/// The printer leaves the proof out: a log must not carry rights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capability {
    /// The number of the file.
    pub file: u64,
    /// The rights: bits [`Capability::READ`] and [`Capability::WRITE`].
    pub rights: u32,
    /// The time at which it ends, in seconds since the Unix epoch.
    pub expires: u64,
    /// The number of the term of the manager that gave it. I/O servers that know a later one refuse it.
    pub term: u64,
    /// The message authentication code of the other fields, by a key that clients do not have.
    pub proof: Token,
}

printed! { Capability = "capability" { file, rights as "rights" via right_bits, expires, term, } }

fn right_bits(bits: &u32) -> NamedBits {
    Capability::right_bits(*bits)
}

/// Bytes that the proof of a capability covers: two numbers of 8 bytes and one of 4 in front of the term's 8.
const CLAIM_LEN: usize = 8 + 4 + 8 + 8;

impl Capability {
    /// The right to read.
    pub const READ: u32 = 1;
    /// The right to write.
    pub const WRITE: u32 = 2;

    /// Rights by name.
    pub(super) fn right_bits(bits: u32) -> NamedBits {
        NamedBits::new(bits, &["read", "write"])
    }

    /// The object that a group has of the file.
    pub fn object(&self, group: u32) -> ObjectId {
        let file = self.file;
        ObjectId { group, file }
    }

    /// The bytes that the proof covers: the other fields as they are encoded.
    pub fn claim(&self) -> [u8; CLAIM_LEN] {
        let parts: [&[u8]; 4] = [
            &self.file.to_be_bytes(),
            &self.rights.to_be_bytes(),
            &self.expires.to_be_bytes(),
            &self.term.to_be_bytes(),
        ];
        let mut bytes = [0; CLAIM_LEN];
        let all = parts.into_iter().flatten();
        bytes.iter_mut().zip(all).for_each(|(to, byte)| *to = *byte);
        bytes
    }
}

impl Encode for Capability {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.u64(self.file);
        encoder.u32(self.rights);
        encoder.u64(self.expires);
        encoder.u64(self.term);
        encoder.fixed(&self.proof);
    }
}

impl Decode<'_> for Capability {
    fn decode(decoder: &mut Decoder<'_>) -> Result<Capability, XdrError> {
        Ok(Capability {
            file: decoder.u64()?,
            rights: decoder.u32()?,
            expires: decoder.u64()?,
            term: decoder.u64()?,
            proof: *decoder.fixed::<TOKEN_LEN>()?,
        })
    }
}

/// The stripes of a file, and the group that a request goes to (`placement`): stripe `n` is on group `n` modulo
/// `width`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Placement {
    /// Bytes of a stripe; never 0.
    pub unit: u32,
    /// The number of groups that the file is striped over, from 1 to [`WIDTH_MAX`].
    pub width: u32,
    /// The index of the group among them, below `width`.
    pub index: u32,
}

printed! { Placement = "placement" { unit, width, index, } }

impl Encode for Placement {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.u32(self.unit);
        encoder.u32(self.width);
        encoder.u32(self.index);
    }
}

impl Decode<'_> for Placement {
    fn decode(decoder: &mut Decoder<'_>) -> Result<Placement, XdrError> {
        let (unit, width, index) = (decoder.u32()?, decoder.u32()?, decoder.u32()?);
        if unit == 0 || width as usize > WIDTH_MAX || index >= width {
            return Err(XdrError::Value);
        }
        Ok(Placement { unit, width, index })
    }
}

/// The memory of a transfer (`memory`). A region has all bytes of the stream. Everywhere else are only those bytes that
/// lie on the server of the request, in the order of the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Memory {
    /// 0: the message, behind the request's body or the reply's.
    Inline,
    /// 1: a buffer that each side keeps for the other.
    Eager {
        /// The number of the buffer.
        slot: u32,
    },
    /// 2: the client's memory. The server moves the bytes by RDMA.
    Region {
        /// The key of that memory.
        key: u32,
        /// The stream in that memory; offsets are positions under the key.
        shape: Shape,
    },
    /// 4: several regions of the client's memory, one for each allocation. The stream's pieces in their order, at most
    /// [`PIECES_MAX`], each with its key. The server moves the bytes by RDMA.
    Regions(Vec<RegionPiece>),
    /// 3: a client-driven buffer, which the client writes to before it sends a WRITE, and reads from after the reply
    /// to a READ.
    ClientDriven {
        /// The number of the buffer of a WRITE; 0 of a READ, whose reply has the buffer.
        number: u64,
    },
}

/// A contiguous range of a region. It prints as `key+length@offset`, key and offset hexadecimal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegionPiece {
    /// The key of the region.
    pub key: u32,
    /// The range; the offset is a position under the key.
    pub piece: Piece,
}

impl fmt::Display for RegionPiece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Piece { offset, len } = self.piece;
        write!(f, "{:08x}+{len}@{offset:x}", self.key)
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Memory::Inline => f.write_str("inline"),
            Memory::Eager { slot } => write!(f, "eager({slot})"),
            Memory::Region { key, shape } => write!(f, "region({key:08x} {shape})"),
            Memory::Regions(pieces) => write!(f, "regions{}", Printed(&Items(pieces))),
            Memory::ClientDriven { number } => write!(f, "client_driven({number})"),
        }
    }
}

/// The numbers of [`Memory`].
mod memory {
    pub(super) const INLINE: u32 = 0;
    pub(super) const EAGER: u32 = 1;
    pub(super) const REGION: u32 = 2;
    pub(super) const CLIENT_DRIVEN: u32 = 3;
    pub(super) const REGIONS: u32 = 4;
}

impl Memory {
    /// Bytes of the stream; `None` if the memory does not give the length.
    fn stream_len(&self) -> Option<u64> {
        match self {
            Memory::Region { shape, .. } => Some(shape.len()),
            // At most PIECES_MAX times 2^32: no overflow.
            Memory::Regions(pieces) => Some(pieces.iter().map(|it| u64::from(it.piece.len)).sum()),
            Memory::Inline | Memory::Eager { .. } | Memory::ClientDriven { .. } => None,
        }
    }
}

impl Encode for RegionPiece {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.u32(self.key);
        self.piece.encode(encoder);
    }
}

impl Decode<'_> for RegionPiece {
    fn decode(decoder: &mut Decoder<'_>) -> Result<RegionPiece, XdrError> {
        let (key, piece) = (decoder.u32()?, Piece::decode(decoder)?);
        if piece.len == 0 || piece.end().is_none() {
            return Err(XdrError::Value);
        }
        Ok(RegionPiece { key, piece })
    }
}

impl Encode for Memory {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        match self {
            Memory::Inline => encoder.u32(memory::INLINE),
            Memory::Eager { slot } => {
                encoder.u32(memory::EAGER);
                encoder.u32(*slot);
            }
            Memory::Region { key, shape } => {
                encoder.u32(memory::REGION);
                encoder.u32(*key);
                shape.encode(encoder);
            }
            Memory::ClientDriven { number } => {
                encoder.u32(memory::CLIENT_DRIVEN);
                encoder.u64(*number);
            }
            Memory::Regions(pieces) => {
                encoder.u32(memory::REGIONS);
                // At most PIECES_MAX.
                encoder.u32(pieces.len() as u32);
                pieces.iter().for_each(|piece| piece.encode(encoder));
            }
        }
    }
}

impl Decode<'_> for Memory {
    fn decode(decoder: &mut Decoder<'_>) -> Result<Memory, XdrError> {
        match decoder.u32()? {
            memory::INLINE => Ok(Memory::Inline),
            memory::EAGER => {
                let slot = decoder.u32()?;
                Ok(Memory::Eager { slot })
            }
            memory::REGION => Ok(Memory::Region {
                key: decoder.u32()?,
                shape: Shape::decode(decoder)?,
            }),
            memory::CLIENT_DRIVEN => {
                let number = decoder.u64()?;
                Ok(Memory::ClientDriven { number })
            }
            memory::REGIONS => {
                let count = decoder.length(PIECES_MAX)?;
                let pieces = (0..count).map(|_| RegionPiece::decode(decoder));
                Ok(Memory::Regions(pieces.collect::<Result<_, _>>()?))
            }
            _ => Err(XdrError::Value),
        }
    }
}

/// The body of READ and WRITE (`transfer`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transfer {
    /// The number of the group, of which the request wants the object of the capability's file.
    pub group: u32,
    /// The right to the file.
    pub capability: Capability,
    /// The stripes of the file, and the server of the request among them.
    pub placement: Placement,
    /// The durability that a WRITE must have before the reply; without meaning in a READ.
    pub stability: Stability,
    /// READ: the reply shall have a reference to the object for optimistic Reads.
    pub wants_reference: bool,
    /// The bytes of the file to move.
    pub file: Shape,
    /// The memory that they go to or come from; as many bytes as `file`.
    pub memory: Memory,
}

printed! {
    Transfer = "transfer" {
        group,
        capability,
        placement,
        stability,
        wants_reference,
        file,
        memory,
    }
}

impl Transfer {
    /// The object of the request.
    pub fn object(&self) -> ObjectId {
        self.capability.object(self.group)
    }
}

impl Encode for Transfer {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.u32(self.group);
        self.capability.encode(encoder);
        self.placement.encode(encoder);
        self.stability.encode(encoder);
        encoder.bool(self.wants_reference);
        self.file.encode(encoder);
        self.memory.encode(encoder);
    }
}

impl Decode<'_> for Transfer {
    fn decode(decoder: &mut Decoder<'_>) -> Result<Transfer, XdrError> {
        let transfer = Transfer {
            group: group_number(decoder)?,
            capability: Capability::decode(decoder)?,
            placement: Placement::decode(decoder)?,
            stability: Stability::decode(decoder)?,
            wants_reference: decoder.bool()?,
            file: Shape::decode(decoder)?,
            memory: Memory::decode(decoder)?,
        };
        let stream_len = transfer.memory.stream_len();
        if stream_len.is_some_and(|len| len != transfer.file.len()) {
            return Err(XdrError::Value);
        }
        Ok(transfer)
    }
}

record! {
    /// The attributes of an object (`state`).
    ObjectState = "state" {
        /// The length in bytes, holes included.
        size: u64,
        /// Bytes of disk that it takes.
        used: u64,
        /// The time of the last write; the epoch when there was none.
        modified: Timestamp as "written",
        /// A number that grows with each change that the I/O server's store distinguishes; 0 of an object that does not
        /// exist.
        version: u64,
        /// The write verifier: another one after data that was not durable may have been lost.
        verifier: u64,
    }
}

record! {
    /// The reply to a READ or WRITE (`done`).
    TransferDone = "done" {
        /// Bytes moved: all that lie on the server. READ gives zeros for those that the object does not have.
        count: u64,
        /// The state of the object afterwards.
        state: ObjectState,
        /// The reference, if the request wanted one and the server has one.
        reference: Option<ObjectReference>,
    }
}

/// The body of COMMIT, TRUNCATE and UNLINK.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjectRange {
    /// The number of the group, of which the request wants the object of the capability's file.
    pub group: u32,
    /// The right to the file.
    pub capability: Capability,
    /// The length of the object after TRUNCATE, in bytes; 0 in the others.
    pub size: u64,
}

printed! { ObjectRange = "object_range" { group, capability, size, } }

impl ObjectRange {
    /// The object of the request.
    pub fn object(&self) -> ObjectId {
        self.capability.object(self.group)
    }
}

impl Encode for ObjectRange {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.u32(self.group);
        self.capability.encode(encoder);
        encoder.u64(self.size);
    }
}

impl Decode<'_> for ObjectRange {
    fn decode(decoder: &mut Decoder<'_>) -> Result<ObjectRange, XdrError> {
        Ok(ObjectRange {
            group: group_number(decoder)?,
            capability: Capability::decode(decoder)?,
            size: decoder.u64()?,
        })
    }
}

/// The objects of a States request (`objects`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectList {
    /// Their names, at most [`OBJECTS_MAX`].
    pub objects: Vec<ObjectId>,
}

printed! { ObjectList = "objects" { objects as "objects" via Count, } }

impl Encode for ObjectList {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        // At most OBJECTS_MAX.
        encoder.u32(self.objects.len() as u32);
        self.objects
            .iter()
            .for_each(|object| object.encode(encoder));
    }
}

impl Decode<'_> for ObjectList {
    fn decode(decoder: &mut Decoder<'_>) -> Result<ObjectList, XdrError> {
        let count = decoder.length(OBJECTS_MAX)?;
        let objects = (0..count).map(|_| ObjectId::decode(decoder));
        Ok(ObjectList {
            objects: objects.collect::<Result<_, _>>()?,
        })
    }
}

record! {
    /// The state of one object, or the reason why the server does not know it.
    StateAnswer = "state_answer" {
        /// The reason, or `Ok`.
        outcome: Result<(), Status> as "status",
        /// The state; without meaning next to a reason.
        state: ObjectState,
    }
}

impl StateAnswer {
    /// The state, if the server knows it.
    ///
    /// # Errors
    /// The status that the I/O server gives in place of it.
    pub fn known(&self) -> Result<ObjectState, Status> {
        self.outcome.map(|()| self.state)
    }
}

/// The states of the objects of an [`ObjectList`], in its order (`states`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectStates {
    /// The states, at most [`OBJECTS_MAX`].
    pub states: Vec<StateAnswer>,
}

printed! { ObjectStates = "states" { states as "states" via Count, } }

impl Encode for ObjectStates {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        // At most OBJECTS_MAX.
        encoder.u32(self.states.len() as u32);
        self.states.iter().for_each(|state| state.encode(encoder));
    }
}

impl Decode<'_> for ObjectStates {
    fn decode(decoder: &mut Decoder<'_>) -> Result<ObjectStates, XdrError> {
        let count = decoder.length(OBJECTS_MAX)?;
        let states = (0..count).map(|_| StateAnswer::decode(decoder));
        Ok(ObjectStates {
            states: states.collect::<Result<_, _>>()?,
        })
    }
}

/// The places of a file's objects (`layout`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayoutRecord {
    /// Bytes of a stripe; never 0.
    pub unit: u32,
    /// The numbers of the groups of I/O servers, in the order of the stripes, from 1 to [`WIDTH_MAX`] of them.
    pub groups: Vec<u32>,
}

printed! { LayoutRecord = "layout" { unit, groups as "groups" via Items, } }

impl Encode for LayoutRecord {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        LayoutForm.encode(encoder);
        encoder.u32(self.unit);
        encoder.u32_array(&self.groups);
    }
}

impl Decode<'_> for LayoutRecord {
    fn decode(decoder: &mut Decoder<'_>) -> Result<LayoutRecord, XdrError> {
        LayoutForm::decode(decoder)?;
        let unit = decoder.u32()?;
        let count = decoder.length(WIDTH_MAX)?;
        let groups = (0..count).map(|_| decoder.u32());
        let groups: Vec<u32> = groups.collect::<Result<_, _>>()?;
        if unit == 0 || groups.is_empty() {
            return Err(XdrError::Value);
        }
        Ok(LayoutRecord { unit, groups })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volume::{BODY_MAX, INLINE_DATA_MAX};
    use crate::volume::{LEVELS_MAX, Level, PIECES_MAX, Piece};
    use crate::xdr::from_bytes;
    use alloc::string::ToString;
    use alloc::vec;
    use std::fmt::Debug;

    fn there_and_back<T: Encode + for<'a> Decode<'a> + PartialEq + Debug>(value: &T) -> usize {
        let mut out = Vec::new();
        value.encode(&mut Encoder::new(&mut out));
        assert_eq!(from_bytes::<T>(&out).as_ref(), Ok(value));
        for len in 0..out.len() {
            assert_eq!(from_bytes::<T>(&out[..len]), Err(XdrError::Short));
        }
        out.len()
    }

    fn transfer(file: Shape, memory: Memory) -> Transfer {
        Transfer {
            group: 2,
            capability: Capability {
                file: 7,
                rights: Capability::READ,
                expires: 1_800_000_000,
                term: 3,
                proof: [9; 16],
            },
            placement: Placement {
                unit: 65536,
                width: 4,
                index: 3,
            },
            stability: Stability::Unstable,
            wants_reference: false,
            file,
            memory,
        }
    }

    fn regions<const N: usize>(pieces: [(u32, u64, u32); N]) -> Memory {
        let piece = |(key, offset, len)| RegionPiece {
            key,
            piece: Piece { offset, len },
        };
        Memory::Regions(pieces.map(piece).to_vec())
    }

    #[test]
    fn a_transfer_prints_on_a_line() {
        let file = Shape::contiguous(1 << 20, 4096).unwrap();
        let read = transfer(
            file.clone(),
            Memory::Region {
                key: 5,
                shape: file,
            },
        );
        let line = read.to_string();
        assert!(
            line.starts_with("transfer group=2 capability=(file="),
            "{line}"
        );
        let end = "file=1048576+4096 memory=region(00000005 1048576+4096)";
        assert!(line.ends_with(end), "{line}");
        assert_eq!(Memory::Eager { slot: 3 }.to_string(), "eager(3)");
        let pieces = regions([(5, 0, 4000), (6, 1 << 40, 96)]);
        let line = "regions[00000005+4000@0,00000006+96@10000000000]";
        assert_eq!(pieces.to_string(), line);
        assert_eq!(Caller::new(1, 2, &[3, 4]).to_string(), "1:2[3,4]");
    }

    #[test]
    fn bodies_come_back_as_they_went_in() {
        let file = Shape::contiguous(1 << 40, 4096).unwrap();
        there_and_back(&transfer(file.clone(), Memory::Inline));
        there_and_back(&transfer(file.clone(), Memory::Eager { slot: 3 }));
        there_and_back(&transfer(
            file.clone(),
            Memory::ClientDriven { number: 1 << 40 },
        ));
        let shape = Shape::contiguous(0, 4096).unwrap();
        there_and_back(&transfer(file.clone(), Memory::Region { key: 5, shape }));
        there_and_back(&transfer(file, regions([(5, 0, 4000), (6, 1 << 40, 96)])));
        there_and_back(&Caller::new(1, 2, &[3, 4]));
        there_and_back(&LayoutRecord {
            unit: 4096,
            groups: vec![2, 0, 1],
        });
    }

    #[test]
    fn the_longest_transfer_fits_a_body() {
        let piece = Piece { offset: 0, len: 8 };
        let list = || Shape::list(vec![piece; PIECES_MAX]).unwrap();
        let memory = Memory::Region {
            key: 1,
            shape: list(),
        };
        assert!(there_and_back(&transfer(list(), memory)) <= BODY_MAX);
        let memory = regions([(1, 0, 8); PIECES_MAX]);
        assert!(there_and_back(&transfer(list(), memory)) <= BODY_MAX);
        let beside_data = BODY_MAX - INLINE_DATA_MAX;
        assert!(there_and_back(&transfer(list(), Memory::Inline)) <= beside_data);
        let level = Level {
            count: 1,
            stride: 0,
        };
        there_and_back(&Shape::nested(piece, vec![level; LEVELS_MAX]).unwrap());
    }

    #[test]
    fn memory_and_file_are_of_one_length() {
        let (file, shape) = (
            Shape::contiguous(0, 4096).unwrap(),
            Shape::contiguous(0, 4095).unwrap(),
        );
        let of_others = [
            Memory::Region { key: 5, shape },
            regions([(5, 0, 4000), (6, 0, 95)]),
            regions([(5, 0, 4096), (6, 0, 0)]),
            regions([(5, u64::MAX, 4096)]),
            regions([]),
        ];
        for memory in of_others {
            let mut out = Vec::new();
            transfer(file.clone(), memory).encode(&mut Encoder::new(&mut out));
            assert_eq!(from_bytes::<Transfer>(&out), Err(XdrError::Value));
        }
    }

    #[test]
    fn a_placement_is_one_of_its_servers() {
        for (unit, width, index) in [(0, 4, 0), (1, 4, 4), (1, 0, 0), (1, 257, 0)] {
            let mut out = Vec::new();
            Placement { unit, width, index }.encode(&mut Encoder::new(&mut out));
            assert_eq!(from_bytes::<Placement>(&out), Err(XdrError::Value));
        }
    }
}
