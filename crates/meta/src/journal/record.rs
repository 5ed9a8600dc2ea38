//! The format of a journal: its first block and its records.

use super::changes::{ChangedPair, Changes};
use super::{JournalError, RecordHash};
use crate::limits::RECORD_LEN_MAX;
use crate::{OtherFormat, Table};
use gannet_wire::volume::Token;
use gannet_wire::xdr::{Decoder, Encoder, XdrError};
use siphasher::sip::SipHasher13;
use std::hash::Hasher;

/// The version of the format.
pub(super) const VERSION: u32 = 2;

/// Records begin and end at multiples of this length. A torn write therefore never damages a neighbouring record.
pub(super) const BLOCK_LEN: usize = 4096;

/// Most bytes of a half, because recovery reads it at once.
const HALF_LEN_MAX: u64 = 1 << 30;

const MAGIC: &[u8; 8] = b"gannet-j";

/// Bytes of a record before its pairs: check, epoch, sequence, length, number of pairs.
const HEAD_LEN: usize = 8 + 8 + 8 + 4 + 4;

/// The content of the first block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    /// The volume of the journal.
    pub(super) identity: Token,
    /// Bytes of each half.
    pub(super) half_len: u64,
}

impl Header {
    /// Bytes of the whole journal.
    pub(super) fn total_len(&self) -> u64 {
        BLOCK_LEN as u64 + 2 * self.half_len
    }

    /// Encodes the first block.
    pub(super) fn to_block(self) -> Vec<u8> {
        let mut block = Vec::with_capacity(BLOCK_LEN);
        let mut encoder = Encoder::new(&mut block);
        encoder.fixed(MAGIC);
        encoder.u32(VERSION);
        encoder.u32(BLOCK_LEN as u32);
        encoder.u64(self.half_len);
        encoder.fixed(&self.identity);
        let check = check(&self.identity, &block);
        Encoder::new(&mut block).u64(check);
        block.resize(BLOCK_LEN, 0);
        block
    }

    /// Decodes and checks the first block of a journal of volume `identity`, in a file of `length` bytes.
    pub(super) fn from_block(
        block: &[u8],
        identity: &Token,
        length: u64,
    ) -> Result<Header, JournalError> {
        let said = Said::take(&mut Decoder::new(block)).map_err(|_| JournalError::Damaged)?;
        if said.magic != *MAGIC {
            return Err(JournalError::Damaged);
        }
        OtherFormat::check(said.version, VERSION)?;
        let header = Header {
            identity: said.identity,
            half_len: said.half_len,
        };
        // The header encodes to the same bytes, checksum included: no byte of the block is damaged.
        let has_room = (1..=HALF_LEN_MAX).contains(&said.half_len);
        let whole = has_room && header.to_block() == block;
        if !whole || header.total_len() != length || !said.half_len.is_multiple_of(BLOCK_LEN as u64)
        {
            return Err(JournalError::Damaged);
        }
        if said.identity == *identity {
            Ok(header)
        } else {
            Err(JournalError::Foreign)
        }
    }
}

/// The fields of a first block that is not yet trusted.
struct Said {
    magic: [u8; 8],
    version: u32,
    half_len: u64,
    identity: Token,
}

impl Said {
    fn take(decoder: &mut Decoder<'_>) -> Result<Said, XdrError> {
        let magic = *decoder.fixed()?;
        let version = decoder.u32()?;
        decoder.u32()?;
        Ok(Said {
            magic,
            version,
            half_len: decoder.u64()?,
            identity: *decoder.fixed()?,
        })
    }
}

/// The number of a record. Later records have larger ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RecordNumber {
    /// The number of openings of the store.
    pub(super) epoch: u64,
    /// The number of the record within the epoch.
    pub(super) sequence: u64,
}

/// The record of one commit.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// The number of openings of the store.
    pub(super) epoch: u64,
    /// The number of the record within the epoch.
    pub(super) sequence: u64,
    /// The changes of the commit.
    pub(super) changes: Changes,
}

impl Record {
    pub(super) fn number(&self) -> RecordNumber {
        RecordNumber {
            epoch: self.epoch,
            sequence: self.sequence,
        }
    }
}

/// Encodes a record into `out`, in whole blocks.
///
/// `changes` must be shorter than 4 GiB, because the length has 32 bits.
pub(super) fn encode(
    out: &mut Vec<u8>,
    identity: &Token,
    epoch: u64,
    sequence: u64,
    changes: &Changes,
) {
    out.clear();
    let mut encoder = Encoder::new(out);
    let check_high = encoder.reserve();
    let check_low = encoder.reserve();
    encoder.u64(epoch);
    encoder.u64(sequence);
    let length = encoder.reserve();
    let count = encoder.reserve();
    let pairs = encode_pairs(&mut encoder, changes);
    let pairs_len = encoder.position() - HEAD_LEN;
    encoder.patch(length, pairs_len as u32);
    encoder.patch(count, pairs);
    let check = check(identity, out.get(8..).unwrap_or_default());
    let mut encoder = Encoder::new(out);
    encoder.patch(check_high, (check >> 32) as u32);
    encoder.patch(check_low, check as u32);
    out.resize(out.len().next_multiple_of(BLOCK_LEN), 0);
}

/// Encodes the pairs; returns how many they are.
fn encode_pairs(encoder: &mut Encoder<'_>, changes: &Changes) -> u32 {
    let mut pairs = 0;
    for ChangedPair { table, key, value } in changes.iter() {
        encoder.u32(table.number());
        encoder.opaque(key);
        encoder.bool(value.is_some());
        value.iter().for_each(|value| encoder.opaque(value));
        pairs += 1;
    }
    pairs
}

fn decode_pairs(decoder: &mut Decoder<'_>, count: u32) -> Option<Changes> {
    let mut changes = Changes::default();
    for _ in 0..count {
        let table = Table::from_number(decoder.u32().ok()?)?;
        let key = decoder.opaque(usize::MAX).ok()?.to_vec();
        let value = if decoder.bool().ok()? {
            Some(decoder.opaque(usize::MAX).ok()?.to_vec())
        } else {
            None
        };
        changes.set(table, key, value);
    }
    Some(changes)
}

/// Encodes a record of an engine, which follows the one with the hash `previous`. Pairs of one kind are much alike, so
/// they are compressed: an engine on several machines handles each byte many times. Returns the bytes of the pairs too.
///
/// # Errors
/// The pairs have more bytes than [`RECORD_LEN_MAX`]: so many.
pub(super) fn encode_chained(
    number: u64,
    previous: &RecordHash,
    changes: &Changes,
) -> Result<(Vec<u8>, usize), usize> {
    let mut pairs = Vec::new();
    let count = encode_pairs(&mut Encoder::new(&mut pairs), changes);
    if pairs.len() > RECORD_LEN_MAX {
        return Err(pairs.len());
    }
    let mut record = Vec::new();
    let mut encoder = Encoder::new(&mut record);
    encoder.u64(number);
    encoder.fixed(previous);
    encoder.u32(count);
    // Bounded by RECORD_LEN_MAX.
    encoder.u32(pairs.len() as u32);
    record.extend(lz4_flex::block::compress(&pairs));
    Ok((record, pairs.len()))
}

/// The changes of a record of an engine; `None` if it is damaged, or has not this number and this one before it.
pub(super) fn decode_chained(bytes: &[u8], number: u64, previous: &RecordHash) -> Option<Changes> {
    let mut decoder = Decoder::new(bytes);
    let follows = decoder.u64().ok()? == number && decoder.fixed().ok()? == previous;
    let count = decoder.u32().ok().filter(|_| follows)?;
    let len = decoder.u32().ok()? as usize;
    if len > RECORD_LEN_MAX {
        return None;
    }
    let pairs = lz4_flex::block::decompress(decoder.remaining(), len).ok()?;
    let mut decoder = Decoder::new(&pairs);
    let changes = decode_pairs(&mut decoder, count)?;
    decoder.finish().ok().filter(|()| pairs.len() == len)?;
    Some(changes)
}

/// The number at the start of `bytes`; only [`decode`] checks that they are those of a record.
pub(super) fn number(bytes: &[u8]) -> Option<RecordNumber> {
    let mut decoder = Decoder::new(bytes.get(8..)?);
    Some(RecordNumber {
        epoch: decoder.u64().ok()?,
        sequence: decoder.u64().ok()?,
    })
}

/// The record at the start of `bytes`, and its length in whole blocks. `None` if there is no whole record.
pub(super) fn decode(bytes: &[u8], identity: &Token) -> Option<(Record, usize)> {
    let mut decoder = Decoder::new(bytes);
    let said = decoder.u64().ok()?;
    let (epoch, sequence) = (decoder.u64().ok()?, decoder.u64().ok()?);
    let (length, count) = (decoder.u32().ok()? as usize, decoder.u32().ok()?);
    let end = HEAD_LEN.checked_add(length)?;
    if check(identity, bytes.get(8..end)?) != said {
        return None;
    }
    let mut decoder = Decoder::new(bytes.get(HEAD_LEN..end)?);
    let changes = decode_pairs(&mut decoder, count)?;
    decoder.finish().ok()?;
    let record = Record {
        epoch,
        sequence,
        changes,
    };
    Some((record, end.next_multiple_of(BLOCK_LEN)))
}

/// The checksum of bytes of this volume; it differs for torn bytes and for other volumes.
fn check(identity: &Token, bytes: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new_with_key(identity);
    hasher.write(bytes);
    hasher.finish()
}
