//! Bodies of the I/O servers' operations, and what the manager tells for them.

use super::group::OnlyGroup;
use super::{
    OBJECTS_MAX, ObjectReference, PIECES_MAX, Piece, Shape, Stability, Status, TOKEN_LEN,
    Timestamp, Token, WIDTH_MAX,
};
use crate::xdr::{Decode, Decoder, Encode, Encoder, XdrError, record};
use alloc::vec::Vec;

/// Most supplementary groups of a [`Caller`], as AUTH_SYS has them (RFC 5531 appendix A).
const GROUPS_MAX: usize = 16;

/// On whose behalf the manager is asked: the first item of each of its requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caller {
    /// User.
    pub uid: u32,
    /// Primary group.
    pub gid: u32,
    groups: [u32; GROUPS_MAX],
    group_count: usize,
}

impl Caller {
    /// A caller with its supplementary groups; those beyond the sixteenth are left out.
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

    /// Supplementary groups.
    pub fn groups(&self) -> &[u32] {
        self.groups.get(..self.group_count).unwrap_or_default()
    }
}

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

/// The manager's word that its bearer may touch an object, made for I/O servers to check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capability {
    /// The file, and the object of it on every I/O server.
    pub file: u64,
    /// Bits: 1 read, 2 write.
    pub rights: u32,
    /// Seconds since the Unix epoch at which it ends.
    pub expires: u64,
    /// Number of the term of the manager that gave it: I/O servers that know a later one refuse it.
    pub term: u64,
    /// Made over the rest with a key that clients do not have.
    pub proof: Token,
}

impl Capability {
    /// May read.
    pub const READ: u32 = 1;
    /// May write.
    pub const WRITE: u32 = 2;

    /// What the proof is made over.
    pub fn claim(&self) -> [u8; 28] {
        let parts: [&[u8]; 4] = [
            &self.file.to_be_bytes(),
            &self.rights.to_be_bytes(),
            &self.expires.to_be_bytes(),
            &self.term.to_be_bytes(),
        ];
        let mut bytes = [0; 28];
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

/// How a file is striped and which of its servers is meant: stripe `n` is on server `n` modulo `width`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Placement {
    /// Bytes of a stripe; never 0.
    pub unit: u32,
    /// Servers that the file is striped over, from 1 to [`WIDTH_MAX`].
    pub width: u32,
    /// Which of them, below `width`.
    pub index: u32,
}

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

/// Where the bytes of a transfer are. In the memory of a region, all of the stream; everywhere else only those that lie
/// on the server that is asked, in the order of the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Memory {
    /// In the message: behind the request's body, or behind the reply's.
    Inline,
    /// In a buffer that each side keeps for the other: this one.
    Eager {
        /// Which.
        slot: u32,
    },
    /// In the client's memory: the server moves them by RDMA.
    Region {
        /// The key of that memory.
        key: u32,
        /// The stream there; offsets are the key's own.
        shape: Shape,
    },
    /// In several regions of the client's memory, one for each allocation: the stream's pieces in their order, at most
    /// [`PIECES_MAX`], each with its key. The server moves them by RDMA.
    Regions(Vec<RegionPiece>),
    /// In a client-driven buffer, which the client writes to before it asks for a WRITE, and reads from when it
    /// has the answer of a READ.
    ClientDriven {
        /// WRITE: which. READ: 0, the answer says which.
        number: u64,
    },
}

/// Bytes that lie together in a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegionPiece {
    /// The key of the region.
    pub key: u32,
    /// The bytes; the offset is the key's own.
    pub piece: Piece,
}

impl Memory {
    /// Bytes of the stream, where the memory says how many they are.
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
        match piece.len > 0 && piece.end().is_some() {
            true => Ok(RegionPiece { key, piece }),
            false => Err(XdrError::Value),
        }
    }
}

impl Encode for Memory {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        match self {
            Memory::Inline => encoder.u32(0),
            Memory::Eager { slot } => {
                encoder.u32(1);
                encoder.u32(*slot);
            }
            Memory::Region { key, shape } => {
                encoder.u32(2);
                encoder.u32(*key);
                shape.encode(encoder);
            }
            Memory::ClientDriven { number } => {
                encoder.u32(3);
                encoder.u64(*number);
            }
            Memory::Regions(pieces) => {
                encoder.u32(4);
                // Bounded by PIECES_MAX.
                encoder.u32(pieces.len() as u32);
                pieces.iter().for_each(|piece| piece.encode(encoder));
            }
        }
    }
}

impl Decode<'_> for Memory {
    fn decode(decoder: &mut Decoder<'_>) -> Result<Memory, XdrError> {
        match decoder.u32()? {
            0 => Ok(Memory::Inline),
            1 => {
                let slot = decoder.u32()?;
                Ok(Memory::Eager { slot })
            }
            2 => Ok(Memory::Region {
                key: decoder.u32()?,
                shape: Shape::decode(decoder)?,
            }),
            3 => {
                let number = decoder.u64()?;
                Ok(Memory::ClientDriven { number })
            }
            4 => {
                let count = decoder.length(PIECES_MAX)?;
                let pieces = (0..count).map(|_| RegionPiece::decode(decoder));
                Ok(Memory::Regions(pieces.collect::<Result<_, _>>()?))
            }
            _ => Err(XdrError::Value),
        }
    }
}

/// A READ or WRITE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transfer {
    /// Allows it.
    pub capability: Capability,
    /// Which stripes are meant.
    pub placement: Placement,
    /// How durable a WRITE must be.
    pub stability: Stability,
    /// READ: a reference to the object is wanted too, for reading it without asking.
    pub wants_reference: bool,
    /// The bytes, in terms of the file.
    pub file: Shape,
    /// The bytes, in memory.
    pub memory: Memory,
}

impl Encode for Transfer {
    fn encode(&self, encoder: &mut Encoder<'_>) {
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
    /// How an object is.
    ObjectState {
        /// Bytes, holes included.
        size: u64,
        /// Bytes of disk.
        used: u64,
        /// Last write; the epoch when there was none.
        modified: Timestamp,
        /// A number that grows with each change, as fine as the I/O server's store tells them apart; 0 of an object
        /// that is not there.
        version: u64,
        /// Changes whenever data that was not yet durable may have been lost.
        verifier: u64,
    }
}

record! {
    /// A READ or WRITE was done.
    TransferDone {
        /// Bytes moved: all that lie on the server. READ gives zeros for those that the object does not have.
        count: u64,
        /// The object afterwards.
        state: ObjectState,
        /// The reference, if it was wanted and there is one.
        reference: Option<ObjectReference>,
    }
}

/// An object as a whole, or the first `size` bytes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjectRange {
    /// Allows it.
    pub capability: Capability,
    /// For TRUNCATE: bytes that stay.
    pub size: u64,
}

impl Encode for ObjectRange {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        self.capability.encode(encoder);
        encoder.u64(self.size);
    }
}

impl Decode<'_> for ObjectRange {
    fn decode(decoder: &mut Decoder<'_>) -> Result<ObjectRange, XdrError> {
        Ok(ObjectRange {
            capability: Capability::decode(decoder)?,
            size: decoder.u64()?,
        })
    }
}

/// Objects that are asked for in one message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectList {
    /// Their files; at most [`OBJECTS_MAX`].
    pub files: Vec<u64>,
}

impl Encode for ObjectList {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        // At most OBJECTS_MAX.
        encoder.u32(self.files.len() as u32);
        self.files.iter().for_each(|file| encoder.u64(*file));
    }
}

impl Decode<'_> for ObjectList {
    fn decode(decoder: &mut Decoder<'_>) -> Result<ObjectList, XdrError> {
        let count = decoder.length(OBJECTS_MAX)?;
        let files = (0..count).map(|_| decoder.u64());
        Ok(ObjectList {
            files: files.collect::<Result<_, _>>()?,
        })
    }
}

record! {
    /// How one object is, or why that is not known.
    StateAnswer {
        /// Whether it is known.
        outcome: Result<(), Status>,
        /// The object; without meaning where it is not known.
        state: ObjectState,
    }
}

impl StateAnswer {
    /// The state, where it is known.
    ///
    /// # Errors
    /// What the I/O server says in place of it.
    pub fn known(&self) -> Result<ObjectState, Status> {
        self.outcome.map(|()| self.state)
    }
}

/// How the objects of an [`ObjectList`] are, in its order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectStates {
    /// At most [`OBJECTS_MAX`].
    pub states: Vec<StateAnswer>,
}

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

/// Where a file lies: on which I/O servers of the only group that there is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayoutRecord {
    /// Bytes of a stripe.
    pub unit: u32,
    /// The servers' numbers in the volume, in the order of the stripes; at least one.
    pub servers: Vec<u32>,
}

impl Encode for LayoutRecord {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        OnlyGroup.encode(encoder);
        encoder.u32(self.unit);
        encoder.u32_array(&self.servers);
    }
}

impl Decode<'_> for LayoutRecord {
    fn decode(decoder: &mut Decoder<'_>) -> Result<LayoutRecord, XdrError> {
        OnlyGroup::decode(decoder)?;
        let unit = decoder.u32()?;
        let count = decoder.length(WIDTH_MAX)?;
        let servers = (0..count).map(|_| decoder.u32());
        let servers: Vec<u32> = servers.collect::<Result<_, _>>()?;
        if unit == 0 || servers.is_empty() {
            return Err(XdrError::Value);
        }
        Ok(LayoutRecord { unit, servers })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volume::{BODY_MAX, INLINE_DATA_MAX};
    use crate::volume::{LEVELS_MAX, Level, PIECES_MAX, Piece};
    use crate::xdr::from_bytes;
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
            servers: vec![2, 0, 1],
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
