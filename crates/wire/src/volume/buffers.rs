//! Buffers that each side of a connection keeps for the other's short transfers (docs/formats/volume.md, *Buffers*).

use super::EAGER_BUFFERS_MAX;
use crate::xdr::{Count, Decode, Decoder, Encode, Encoder, XdrError, printed};
use alloc::vec::Vec;

/// The place of a buffer in registered memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The key of the memory.
    pub key: u32,
    /// The position of the buffer's first byte under that key.
    pub offset: u64,
}

printed! { Place = "place" { key, offset, } }

/// The body of Buffers (`buffers`). From then on its receiver may write to these buffers by RDMA, to each only while a
/// request of the connection names it ([`super::Memory::Eager`]). Each side sends it once; an empty list refuses.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Buffers {
    /// Bytes of each buffer.
    pub len: u32,
    /// The places of the buffers in the order of their numbers, at most [`EAGER_BUFFERS_MAX`].
    pub places: Vec<Place>,
}

printed! { Buffers = "buffers" { len, places as "places" via Count, } }

impl Encode for Buffers {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.u32(self.len);
        // At most EAGER_BUFFERS_MAX.
        encoder.u32(self.places.len() as u32);
        for place in &self.places {
            encoder.u32(place.key);
            encoder.u64(place.offset);
        }
    }
}

impl Decode<'_> for Buffers {
    fn decode(decoder: &mut Decoder<'_>) -> Result<Buffers, XdrError> {
        let len = decoder.u32()?;
        let count = decoder.length(EAGER_BUFFERS_MAX)?;
        let places = (0..count).map(|_| {
            let place = Place {
                key: decoder.u32()?,
                offset: decoder.u64()?,
            };
            // No address within a buffer overflows.
            let end = place.offset.checked_add(u64::from(len));
            end.map(|_| place).ok_or(XdrError::Value)
        });
        Ok(Buffers {
            places: places.collect::<Result<_, _>>()?,
            len,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xdr::from_bytes;
    use alloc::string::ToString;
    use alloc::vec;

    fn bytes_of(buffers: &Buffers) -> Vec<u8> {
        let mut out = vec![];
        buffers.encode(&mut Encoder::new(&mut out));
        out
    }

    #[test]
    fn buffers_lie_as_the_format_says() {
        let buffers = Buffers {
            len: 65536,
            places: vec![Place {
                key: 0x0102_0304,
                offset: 0x1112_1314_1516_1718,
            }],
        };
        let expected = [
            0, 1, 0, 0, 0, 0, 0, 1, // length, count
            1, 2, 3, 4, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, // key, offset
        ];
        assert_eq!(bytes_of(&buffers), expected);
        assert_eq!(buffers.to_string(), "buffers len=65536 places=1");
        assert_eq!(from_bytes(&expected), Ok(buffers));
        assert_eq!(from_bytes(&[0; 8]), Ok(Buffers::default()), "none");
        for len in 0..expected.len() {
            let short = from_bytes::<Buffers>(&expected[..len]);
            assert_eq!(short, Err(XdrError::Short));
        }
    }

    #[test]
    fn buffers_that_cannot_be_are_refused() {
        let place = Place { key: 1, offset: 0 };
        let many = Buffers {
            len: 1,
            places: vec![place; EAGER_BUFFERS_MAX + 1],
        };
        let far = Buffers {
            len: 2,
            places: vec![Place {
                offset: u64::MAX - 1,
                ..place
            }],
        };
        assert_eq!(
            from_bytes::<Buffers>(&bytes_of(&many)),
            Err(XdrError::TooLong)
        );
        assert_eq!(from_bytes::<Buffers>(&bytes_of(&far)), Err(XdrError::Value));
    }
}
