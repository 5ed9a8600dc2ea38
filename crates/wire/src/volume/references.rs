//! References by which a client reads objects out of an I/O server's page cache without asking (paper 003).

use super::group::group_number;
use super::{Capability, OBJECTS_MAX, ObjectId, PAGE_ENTRIES_MAX, Status};
use crate::xdr::{
    Count, Decode, Decoder, Encode, Encoder, Items, Print, Printed, XdrError, print_field, printed,
    record,
};
use alloc::vec::Vec;
use core::fmt;

/// Most runs of resident bytes in a reply, over all its objects.
pub const RUNS_MAX: usize = 256;

record! {
    /// The place of an object for optimistic Reads, and the access key that they need (`reference`).
    ObjectReference = "reference" {
        /// The key of the object, valid on this connection alone.
        key: u32,
        /// The position of the object's first byte under that key.
        offset: u64,
        /// The access key.
        access_key: u64 as "access_key" via Secret,
        /// The share of the server's recent READs that it found in memory, in thousandths.
        cached_per_mille: u32 as "cached",
    }
}

record! {
    /// A range of an object's bytes that was in memory at the time of the reply (`run`).
    ResidentRun = "run" {
        /// The offset of the first byte.
        offset: u64,
        /// The number of bytes.
        len: u64,
    }
}

/// The body of References: a request for references to objects, the eager way to build a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReferenceRequest {
    /// The objects, at most [`OBJECTS_MAX`], each with the right to read it.
    pub objects: Vec<ObjectRight>,
}

printed! { ReferenceRequest = "references" { objects as "objects" via Count, } }

/// A right to the object that a group has of a file (`object_right`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjectRight {
    /// The number of the group.
    pub group: u32,
    /// The right to the file.
    pub capability: Capability,
}

printed! { ObjectRight = "object_right" { group, capability, } }

impl Encode for ObjectRight {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.u32(self.group);
        self.capability.encode(encoder);
    }
}

impl Decode<'_> for ObjectRight {
    fn decode(decoder: &mut Decoder<'_>) -> Result<ObjectRight, XdrError> {
        Ok(ObjectRight {
            group: group_number(decoder)?,
            capability: Capability::decode(decoder)?,
        })
    }
}

impl ObjectRight {
    /// The object.
    pub fn object(&self) -> ObjectId {
        self.capability.object(self.group)
    }
}

impl Encode for ReferenceRequest {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        // At most OBJECTS_MAX.
        encoder.u32(self.objects.len() as u32);
        self.objects.iter().for_each(|it| it.encode(encoder));
    }
}

impl Decode<'_> for ReferenceRequest {
    fn decode(decoder: &mut Decoder<'_>) -> Result<ReferenceRequest, XdrError> {
        let count = decoder.length(OBJECTS_MAX)?;
        let objects = (0..count).map(|_| ObjectRight::decode(decoder));
        Ok(ReferenceRequest {
            objects: objects.collect::<Result<_, _>>()?,
        })
    }
}

/// The reference to one object (`reference_answer`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReferenceAnswer {
    /// The reference, or the reason why the server refuses it. `Ok(None)`: this connection has no references.
    pub outcome: Result<Option<ObjectReference>, Status>,
    /// Runs in memory, in the order of their offsets; perhaps not all of them.
    pub resident: Vec<ResidentRun>,
}

impl fmt::Display for ReferenceAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("reference_answer ")?;
        match &self.outcome {
            Ok(reference) => write!(f, "reference={}", Printed(reference))?,
            Err(status) => write!(f, "{status:?}")?,
        }
        write!(f, " resident={}", self.resident.len())
    }
}

impl Encode for ReferenceAnswer {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        self.outcome.map(|_| ()).encode(encoder);
        self.outcome.ok().flatten().encode(encoder);
        // At most RUNS_MAX.
        encoder.u32(self.resident.len() as u32);
        self.resident.iter().for_each(|run| run.encode(encoder));
    }
}

impl Decode<'_> for ReferenceAnswer {
    fn decode(decoder: &mut Decoder<'_>) -> Result<ReferenceAnswer, XdrError> {
        let outcome: Result<(), Status> = Decode::decode(decoder)?;
        let reference = Option::<ObjectReference>::decode(decoder)?;
        let count = decoder.length(RUNS_MAX)?;
        let resident = (0..count).map(|_| ResidentRun::decode(decoder));
        Ok(ReferenceAnswer {
            outcome: outcome.map(|()| reference),
            resident: resident.collect::<Result<_, _>>()?,
        })
    }
}

/// The references to the objects of a [`ReferenceRequest`], in its order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReferenceAnswers {
    /// The references, at most [`OBJECTS_MAX`].
    pub answers: Vec<ReferenceAnswer>,
}

printed! { ReferenceAnswers = "reference_answers" { answers as "answers" via Count, } }

impl Encode for ReferenceAnswers {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        // At most OBJECTS_MAX.
        encoder.u32(self.answers.len() as u32);
        self.answers.iter().for_each(|it| it.encode(encoder));
    }
}

impl Decode<'_> for ReferenceAnswers {
    fn decode(decoder: &mut Decoder<'_>) -> Result<ReferenceAnswers, XdrError> {
        let count = decoder.length(OBJECTS_MAX)?;
        let answers = (0..count).map(|_| ReferenceAnswer::decode(decoder));
        Ok(ReferenceAnswers {
            answers: answers.collect::<Result<_, _>>()?,
        })
    }
}

/// Most files whose attribute records one reply refers to: a directory and its page.
pub const SLOTS_MAX: usize = PAGE_ENTRIES_MAX + 1;

/// The places of the attribute records ([`AttributeRecord`](super::AttributeRecord)) of a reply's files. A slot
/// is [`ATTRIBUTE_RECORD_LEN`](super::ATTRIBUTE_RECORD_LEN) bytes; slot `n` begins `n` times as many behind `offset`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttributeReferences {
    /// The key of the table, valid on this connection alone.
    pub key: u32,
    /// The position of the table's first byte under that key.
    pub offset: u64,
    /// The access key.
    pub access_key: u64,
    /// The slot of each file of the reply, in its order, at most [`SLOTS_MAX`]; `None` for a file without a record. A
    /// [`Page`](super::Page) has that of the directory, and those of the entries if the request wanted files.
    pub slots: Vec<Option<u32>>,
}

printed! {
    AttributeReferences = "attribute_references" {
        key,
        offset,
        access_key as "access_key" via Secret,
        slots as "slots" via Items,
    }
}

/// Leaves an access key out of a line: a log must not carry rights.
struct Secret<'a>(#[expect(dead_code)] &'a u64);

impl Print for Secret<'_> {
    fn print(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }

    fn is_absent(&self) -> bool {
        true
    }
}

impl AttributeReferences {
    /// Bytes of an encoded optional value that is present, with this number of slots.
    pub const fn encoded_len(slots: usize) -> usize {
        4 + 4 + 8 + 8 + 4 + 4 * slots
    }
}

/// The slot of a file without a record.
const NO_SLOT: u32 = u32::MAX;

impl Encode for AttributeReferences {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.u32(self.key);
        encoder.u64(self.offset);
        encoder.u64(self.access_key);
        // At most SLOTS_MAX.
        encoder.u32(self.slots.len() as u32);
        let slots = self.slots.iter();
        slots.for_each(|slot| encoder.u32(slot.unwrap_or(NO_SLOT)));
    }
}

impl Decode<'_> for AttributeReferences {
    fn decode(decoder: &mut Decoder<'_>) -> Result<AttributeReferences, XdrError> {
        let (key, offset, access_key) = (decoder.u32()?, decoder.u64()?, decoder.u64()?);
        let count = decoder.length(SLOTS_MAX)?;
        let slots = (0..count).map(|_| {
            let slot = decoder.u32()?;
            Ok((slot != NO_SLOT).then_some(slot))
        });
        Ok(AttributeReferences {
            key,
            offset,
            access_key,
            slots: slots.collect::<Result<_, XdrError>>()?,
        })
    }
}

/// A reply with references to the attribute records of its files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Referenced<T> {
    /// The reply.
    pub answer: T,
    /// The references; `None` when the request did not want them, or no file has a record.
    pub references: Option<AttributeReferences>,
}

impl<T: Print> Print for Referenced<T> {
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.answer.print(f)?;
        print_field(f, &mut " ", "references", &self.references)
    }
}

impl<T: Encode> Encode for Referenced<T> {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        self.answer.encode(encoder);
        self.references.encode(encoder);
    }
}

impl<'a, T: Decode<'a>> Decode<'a> for Referenced<T> {
    fn decode(decoder: &mut Decoder<'a>) -> Result<Referenced<T>, XdrError> {
        Ok(Referenced {
            answer: T::decode(decoder)?,
            references: Option::decode(decoder)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volume::BODY_MAX;
    use crate::xdr::{from_bytes, to_bytes};
    use alloc::string::{String, ToString};
    use alloc::vec;

    const REFERENCE: ObjectReference = ObjectReference {
        key: 1,
        offset: 2,
        access_key: 3,
        cached_per_mille: 1000,
    };

    #[test]
    fn answers_go_there_and_back() {
        let answers = ReferenceAnswers {
            answers: vec![
                ReferenceAnswer {
                    outcome: Ok(Some(REFERENCE)),
                    resident: vec![ResidentRun { offset: 0, len: 9 }],
                },
                ReferenceAnswer {
                    outcome: Ok(None),
                    resident: vec![],
                },
                ReferenceAnswer {
                    outcome: Err(Status::Stale),
                    resident: vec![],
                },
            ],
        };
        let lines: Vec<String> = answers.answers.iter().map(ToString::to_string).collect();
        let expected = [
            "reference_answer reference=(key=1 offset=2 cached=1000) resident=1",
            "reference_answer reference=- resident=0",
            "reference_answer Stale resident=0",
        ];
        assert_eq!(lines, expected);
        assert_eq!(from_bytes(&to_bytes(&answers)), Ok(answers));
    }

    #[test]
    fn the_longest_answer_fits_a_message() {
        let run = ResidentRun { offset: 1, len: 1 };
        let one = |runs| ReferenceAnswer {
            outcome: Ok(Some(REFERENCE)),
            resident: vec![run; runs],
        };
        let mut answers = vec![one(0); OBJECTS_MAX - 1];
        answers.push(one(RUNS_MAX));
        assert!(to_bytes(&ReferenceAnswers { answers }).len() <= BODY_MAX);
    }

    #[test]
    fn attribute_references_go_there_and_back_and_have_this_length() {
        let references = AttributeReferences {
            key: 1,
            offset: 2,
            access_key: 3,
            slots: vec![Some(0), None, Some(u32::MAX - 1)],
        };
        assert_eq!(
            references.to_string(),
            "attribute_references key=1 offset=2 slots=[0,-,4294967294]"
        );
        let referenced = Referenced {
            answer: 7u64,
            references: Some(references),
        };
        let bytes = to_bytes(&referenced);
        assert_eq!(bytes.len(), 8 + AttributeReferences::encoded_len(3));
        assert_eq!(from_bytes(&bytes), Ok(referenced.clone()));
        assert_eq!(
            Printed(&referenced).to_string(),
            "7 references=(key=1 offset=2 slots=[0,-,4294967294])"
        );
        let none = Referenced {
            references: None,
            ..referenced
        };
        assert_eq!(from_bytes(&to_bytes(&none)), Ok(none));
    }
}
