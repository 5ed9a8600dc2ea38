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

/// The immediate of a message that comes in an eager buffer, behind data: its slot, and the length of the data.
///
/// ```text
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |     slot      |              length of the data               |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Carrying {
    /// The number of the buffer.
    pub slot: u8,
    /// Bytes of the data, from the start of the buffer; the message is behind them. Below 2^24.
    pub data_len: u32,
}

impl Carrying {
    const SLOT_SHIFT: u32 = 24;

    /// The same; `None` when there is no such slot, or too much data.
    pub fn new(slot: u32, data_len: u32) -> Option<Carrying> {
        let slot = u8::try_from(slot).ok()?;
        (data_len >> Carrying::SLOT_SHIFT == 0).then_some(Carrying { slot, data_len })
    }

    /// The immediate.
    pub fn to_immediate(self) -> u32 {
        u32::from(self.slot) << Carrying::SLOT_SHIFT | self.data_len
    }

    /// The meaning of an immediate; every word has one.
    pub fn from_immediate(word: u32) -> Carrying {
        Carrying {
            slot: (word >> Carrying::SLOT_SHIFT) as u8,
            data_len: word & ((1 << Carrying::SLOT_SHIFT) - 1),
        }
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

    #[test]
    fn an_immediate_names_slot_and_data() {
        let carrying = Carrying::new(7, 0x01_0203).unwrap();
        assert_eq!(carrying.to_immediate(), 0x0701_0203);
        assert_eq!(Carrying::from_immediate(0x0701_0203), carrying);
        assert_eq!(Carrying::new(256, 0), None);
        assert_eq!(Carrying::new(0, 1 << 24), None);
        let last = Carrying::from_immediate(u32::MAX);
        assert_eq!((last.slot, last.data_len), (255, 0xff_ffff));
    }
}
