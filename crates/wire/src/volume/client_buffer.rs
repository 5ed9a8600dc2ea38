//! Client-driven buffers: memory of an I/O server that it opens to a client, which moves the bytes of long transfers.

use super::{CLIENT_BUFFER_LEN_MAX, TransferDone};
use crate::xdr::{Decode, Decoder, Encode, Encoder, XdrError, printed, record};

/// Memory of an I/O server that the client may reach by RDMA for a short while (`lent`): it writes to a buffer that it
/// asked for or that the reply to a WRITE has, and reads from one that the reply to a READ has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientBuffer {
    /// The number of the buffer. The server never gives the same number twice on a connection.
    pub number: u64,
    /// The key of the memory.
    pub key: u32,
    /// The position of the buffer's first byte under that key.
    pub offset: u64,
    /// Bytes of the buffer, from 1 to [`CLIENT_BUFFER_LEN_MAX`].
    pub len: u32,
}

printed! { ClientBuffer = "lent" { number, key, offset, len, } }

impl Encode for ClientBuffer {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.u64(self.number);
        encoder.u32(self.key);
        encoder.u64(self.offset);
        encoder.u32(self.len);
    }
}

impl Decode<'_> for ClientBuffer {
    fn decode(decoder: &mut Decoder<'_>) -> Result<ClientBuffer, XdrError> {
        let buffer = ClientBuffer {
            number: decoder.u64()?,
            key: decoder.u32()?,
            offset: decoder.u64()?,
            len: decoder.u32()?,
        };
        let len = u64::from(buffer.len);
        // No position in it overflows.
        let fits = buffer.offset.checked_add(len).is_some();
        if fits && (1..=CLIENT_BUFFER_LEN_MAX).contains(&len) {
            Ok(buffer)
        } else {
            Err(XdrError::Value)
        }
    }
}

record! {
    /// The reply to a transfer by [`super::Memory::ClientDriven`] (`lent_done`).
    ClientDrivenDone = "lent_done" {
        /// The outcome. A READ without a free buffer has moved 0 bytes.
        done: TransferDone,
        /// READ: the buffer with the bytes. WRITE: a buffer for the next one, if one is free.
        buffer: Option<ClientBuffer> as "lent",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volume::{ObjectState, Timestamp};
    use crate::xdr::from_bytes;
    use alloc::string::ToString;
    use alloc::vec;
    use alloc::vec::Vec;

    const BUFFER: ClientBuffer = ClientBuffer {
        number: 0x0102_0304_0506_0708,
        key: 0x1112_1314,
        offset: 0x2122_2324_2526_2728,
        len: 0x0003_0201,
    };

    fn bytes_of(value: &impl Encode) -> Vec<u8> {
        let mut out = vec![];
        value.encode(&mut Encoder::new(&mut out));
        out
    }

    #[test]
    fn a_client_buffer_has_the_layout_of_the_format() {
        let expected = [
            0, 0, 0, 1, // there is some
            1, 2, 3, 4, 5, 6, 7, 8, 0x11, 0x12, 0x13, 0x14, // number, key
            0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28, 0, 3, 2, 1, // offset, length
        ];
        assert_eq!(bytes_of(&Some(BUFFER)), expected);
        assert_eq!(from_bytes(&expected), Ok(Some(BUFFER)));
        assert_eq!(from_bytes(&[0; 4]), Ok(None::<ClientBuffer>), "nothing");
        for len in 0..expected.len() {
            let short = from_bytes::<Option<ClientBuffer>>(&expected[..len]);
            assert_eq!(short, Err(XdrError::Short));
        }
    }

    #[test]
    fn a_reply_carries_the_transfer_and_the_next_buffer() {
        let state = ObjectState {
            size: 1,
            used: 2,
            modified: Timestamp {
                seconds: -3,
                nanoseconds: 4,
            },
            version: 6,
            verifier: 5,
        };
        let done = TransferDone {
            count: 7,
            state,
            reference: None,
        };
        for buffer in [None, Some(BUFFER)] {
            let answer = ClientDrivenDone { done, buffer };
            assert_eq!(from_bytes(&bytes_of(&answer)), Ok(answer));
        }
        let answer = ClientDrivenDone { done, buffer: None };
        assert_eq!(
            answer.to_string(),
            "lent_done done=(count=7 state=(size=1 used=2 written=-3.000000004 version=6 verifier=5))"
        );
    }

    #[test]
    fn memory_that_cannot_be_is_refused() {
        let far = u64::MAX - 1;
        for (offset, len) in [(0, 0), (0, CLIENT_BUFFER_LEN_MAX as u32 + 1), (far, 2)] {
            let buffer = ClientBuffer {
                offset,
                len,
                ..BUFFER
            };
            let refused = from_bytes::<ClientBuffer>(&bytes_of(&buffer));
            assert_eq!(refused, Err(XdrError::Value));
        }
    }
}
