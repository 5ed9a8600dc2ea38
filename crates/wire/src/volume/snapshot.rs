//! A copy of the metadata, for a manager that stands by (docs/formats/volume.md, "Managers").

use crate::xdr::{Count, Decode, Decoder, Encode, Encoder, Quoted, XdrError, printed};
use alloc::vec::Vec;

/// Most bytes of a key of the metadata.
pub const METADATA_KEY_MAX: usize = 1024;

/// The request of a manager that stands by for pairs of the metadata (`metadata_request`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MetadataRequest {
    /// The number of a table.
    pub table: u32,
    /// The first key of the table that is wanted, or the next one behind it.
    pub key: Vec<u8>,
    /// Bytes of that key's value that the manager has already.
    pub offset: u32,
}

printed! { MetadataRequest = "metadata_request" { table, key as "key" via Quoted, offset, } }

/// A pair, or a part of its value (`metadata_pair`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetadataPair {
    /// The number of its table.
    pub table: u32,
    /// Its key.
    pub key: Vec<u8>,
    /// Bytes of the whole value.
    pub value_len: u32,
    /// Where in the value these bytes are.
    pub offset: u32,
    /// Bytes of the value.
    pub bytes: Vec<u8>,
}

/// Some pairs of the metadata (`metadata_page`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetadataPage {
    /// The number of the last record of the journal whose changes all pairs have.
    pub record: u64,
    /// The hash of that record.
    pub hash: [u8; 32],
    /// The pairs in the order of tables and keys. No pair: there are no more.
    pub pairs: Vec<MetadataPair>,
}

printed! { MetadataPage = "metadata_page" { record, pairs as "pairs" via Count, } }

impl Encode for MetadataRequest {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.u32(self.table);
        encoder.opaque(&self.key);
        encoder.u32(self.offset);
    }
}

impl Decode<'_> for MetadataRequest {
    fn decode(decoder: &mut Decoder<'_>) -> Result<MetadataRequest, XdrError> {
        Ok(MetadataRequest {
            table: decoder.u32()?,
            key: decoder.opaque(METADATA_KEY_MAX)?.to_vec(),
            offset: decoder.u32()?,
        })
    }
}

impl Encode for MetadataPair {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.u32(self.table);
        encoder.opaque(&self.key);
        encoder.u32(self.value_len);
        encoder.u32(self.offset);
        encoder.opaque(&self.bytes);
    }
}

impl Decode<'_> for MetadataPair {
    fn decode(decoder: &mut Decoder<'_>) -> Result<MetadataPair, XdrError> {
        let table = decoder.u32()?;
        let key = decoder.opaque(METADATA_KEY_MAX)?.to_vec();
        let (value_len, offset) = (decoder.u32()?, decoder.u32()?);
        let bytes = decoder.opaque(super::BODY_MAX)?.to_vec();
        let end = offset.checked_add(bytes.len() as u32);
        if end.is_none_or(|end| end > value_len) {
            return Err(XdrError::Value);
        }
        Ok(MetadataPair {
            table,
            key,
            value_len,
            offset,
            bytes,
        })
    }
}

impl Encode for MetadataPage {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.u64(self.record);
        encoder.fixed(&self.hash);
        // Bounded by the bytes of a message.
        encoder.u32(self.pairs.len() as u32);
        self.pairs.iter().for_each(|it| it.encode(encoder));
    }
}

impl Decode<'_> for MetadataPage {
    fn decode(decoder: &mut Decoder<'_>) -> Result<MetadataPage, XdrError> {
        let (record, hash) = (decoder.u64()?, *decoder.fixed()?);
        let pairs = (0..decoder.length(super::BODY_MAX)?).map(|_| MetadataPair::decode(decoder));
        Ok(MetadataPage {
            record,
            hash,
            pairs: pairs.collect::<Result<_, _>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xdr::{from_bytes, to_bytes};

    #[test]
    fn pages_are_read_as_they_were_written() {
        let pair = MetadataPair {
            table: 2,
            key: b"name".to_vec(),
            value_len: 9,
            offset: 3,
            bytes: b"middle".to_vec(),
        };
        let page = MetadataPage {
            record: 7,
            hash: [9; 32],
            pairs: alloc::vec![pair.clone(), pair.clone()],
        };
        assert_eq!(from_bytes::<MetadataPage>(&to_bytes(&page)).unwrap(), page);
        let longer = MetadataPair { offset: 4, ..pair };
        assert!(from_bytes::<MetadataPair>(&to_bytes(&longer)).is_err());
        let request = MetadataRequest {
            table: 1,
            key: b"k".to_vec(),
            offset: 5,
        };
        assert_eq!(
            from_bytes::<MetadataRequest>(&to_bytes(&request)).unwrap(),
            request
        );
    }
}
