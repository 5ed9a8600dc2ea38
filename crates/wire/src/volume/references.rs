//! References by which a client reads objects out of an I/O server's page cache without asking (paper 003).

use super::{Capability, OBJECTS_MAX, PAGE_ENTRIES_MAX, Status};
use crate::xdr::{Decode, Decoder, Encode, Encoder, XdrError, record};
use alloc::vec::Vec;

/// Most runs of resident bytes that an answer tells of, over all its objects.
pub const RUNS_MAX: usize = 256;

record! {
    /// Where an object can be read by an optimistic Read, and what must come with it.
    ObjectReference {
        /// The key; good on this connection alone.
        key: u32,
        /// Of the object's first byte, in the key's own terms.
        offset: u64,
        /// The access key.
        access_key: u64,
        /// Of a thousand READs that the server answered lately, how many it found in memory.
        cached_per_mille: u32,
    }
}

record! {
    /// Bytes of an object that were in memory when the server was asked.
    ResidentRun {
        /// The first.
        offset: u64,
        /// How many.
        len: u64,
    }
}

/// Objects whose references are asked for: the eager way to build a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReferenceRequest {
    /// The right to read each; at most [`OBJECTS_MAX`].
    pub capabilities: Vec<Capability>,
}

impl Encode for ReferenceRequest {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        // At most OBJECTS_MAX.
        encoder.u32(self.capabilities.len() as u32);
        self.capabilities.iter().for_each(|it| it.encode(encoder));
    }
}

impl Decode<'_> for ReferenceRequest {
    fn decode(decoder: &mut Decoder<'_>) -> Result<ReferenceRequest, XdrError> {
        let count = decoder.length(OBJECTS_MAX)?;
        let capabilities = (0..count).map(|_| Capability::decode(decoder));
        Ok(ReferenceRequest {
            capabilities: capabilities.collect::<Result<_, _>>()?,
        })
    }
}

/// What an I/O server says of one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReferenceAnswer {
    /// The reference, if the object is there and the right to it holds. `Ok(None)`: this connection has none.
    pub outcome: Result<Option<ObjectReference>, Status>,
    /// Runs that are in memory, in their order, and perhaps not all.
    pub resident: Vec<ResidentRun>,
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

/// The objects of a [`ReferenceRequest`], in its order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReferenceAnswers {
    /// At most [`OBJECTS_MAX`].
    pub answers: Vec<ReferenceAnswer>,
}

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

/// Most files whose attribute records one answer tells of: a directory and its page.
pub const SLOTS_MAX: usize = PAGE_ENTRIES_MAX + 1;

/// Where the attribute records ([`AttributeRecord`](super::AttributeRecord)) of an answer's files can be read. A slot
/// is [`ATTRIBUTE_RECORD_LEN`](super::ATTRIBUTE_RECORD_LEN) bytes; slot `n` begins `n` times as many behind `offset`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttributeReferences {
    /// The key of the table; good on this connection alone.
    pub key: u32,
    /// Of the table's first byte, in the key's own terms.
    pub offset: u64,
    /// The access key.
    pub access_key: u64,
    /// The slot of each file of the answer, in its order, at most [`SLOTS_MAX`]; `None`: it has no record now. Of a
    /// [`Page`](super::Page): that of the directory, and those of the entries if the page tells what they stand for.
    pub slots: Vec<Option<u32>>,
}

impl AttributeReferences {
    /// Bytes of them in an answer, as an optional value that is there, with so many slots.
    pub const fn encoded_len(slots: usize) -> usize {
        4 + 4 + 8 + 8 + 4 + 4 * slots
    }
}

/// Stands for a file that has no record.
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

/// An answer with references to the attribute records of its files, if they were asked for and there are some.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Referenced<T> {
    /// The answer.
    pub answer: T,
    /// The references.
    pub references: Option<AttributeReferences>,
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
        let referenced = Referenced {
            answer: 7u64,
            references: Some(references),
        };
        let bytes = to_bytes(&referenced);
        assert_eq!(bytes.len(), 8 + AttributeReferences::encoded_len(3));
        assert_eq!(from_bytes(&bytes), Ok(referenced.clone()));
        let none = Referenced {
            references: None,
            ..referenced
        };
        assert_eq!(from_bytes(&to_bytes(&none)), Ok(none));
    }
}
