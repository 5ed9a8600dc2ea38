//! The lease of an I/O server's number, which one process has at a time (docs/formats/volume.md, "Leases of numbers").

use super::registry::{Address, RegisterRecord};
use super::{TOKEN_LEN, Token};
use crate::xdr::{Decode, Decoder, Encode, Encoder, XdrError, enumeration, printed};

/// The process that serves, or would serve, under the number of an I/O server (`claimant`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claimant {
    /// Stands for its folder on its host. Of two processes with the same one, at most one runs: it has locked the
    /// folder.
    pub folder: Token,
    /// Random bytes of its start.
    pub process: Token,
}

printed! { Claimant = "claimant" { folder, process, } }

impl Encode for Claimant {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.fixed(&self.folder);
        encoder.fixed(&self.process);
    }
}

impl Decode<'_> for Claimant {
    fn decode(decoder: &mut Decoder<'_>) -> Result<Claimant, XdrError> {
        Ok(Claimant {
            folder: *decoder.fixed::<TOKEN_LEN>()?,
            process: *decoder.fixed::<TOKEN_LEN>()?,
        })
    }
}

/// The request of an I/O server for the lease of its number, first or again, or its end (`number_lease_wanted`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NumberLeaseWanted {
    /// The number, and the address at which the process serves.
    pub server: RegisterRecord,
    /// The process.
    pub claimant: Claimant,
    /// The last generation that the process was granted; 0: none yet.
    pub generation: u64,
    /// The process serves no more, and has no request under way.
    pub ends: bool,
}

printed! { NumberLeaseWanted = "number_lease_wanted" { server, claimant, generation, ends, } }

impl Encode for NumberLeaseWanted {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        self.server.encode(encoder);
        self.claimant.encode(encoder);
        encoder.u64(self.generation);
        encoder.bool(self.ends);
    }
}

impl Decode<'_> for NumberLeaseWanted {
    fn decode(decoder: &mut Decoder<'_>) -> Result<NumberLeaseWanted, XdrError> {
        Ok(NumberLeaseWanted {
            server: RegisterRecord::decode(decoder)?,
            claimant: Claimant::decode(decoder)?,
            generation: decoder.u64()?,
            ends: decoder.bool()?,
        })
    }
}

enumeration! {
    /// The outcome of a [`NumberLeaseWanted`].
    NumberLeaseOutcome {
        /// The process has the number, counted from before it asked.
        Granted = 0 => "granted",
        /// The manager's term has not begun, or is not confirmed now. It knows the address, and may reach the process.
        Begins = 1 => "begins",
        /// Another process has the number, and was heard of in this term.
        Taken = 2 => "taken",
        /// The lease has ended, as was asked.
        Ended = 3 => "ended",
        /// Another process may still have the number by a grant of an earlier term.
        Waits = 4 => "waits",
        /// Another process has had the number since: this one must end.
        Superseded = 5 => "superseded",
    }
}

/// The answer to a [`NumberLeaseWanted`] (`number_lease`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NumberLeaseAnswer {
    /// The outcome.
    pub outcome: NumberLeaseOutcome,
    /// Counts the processes that had the number: that of the grant, or the latest.
    pub generation: u64,
    /// For how many milliseconds the number is the process's, or still another one's.
    pub left_ms: u32,
    /// The address of another process that has the number; not known of one of the manager's own process.
    pub holder: Address,
}

printed! { NumberLeaseAnswer = "number_lease" { outcome, generation, left_ms as "left_ms", holder, } }

impl Encode for NumberLeaseAnswer {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        self.outcome.encode(encoder);
        encoder.u64(self.generation);
        encoder.u32(self.left_ms);
        self.holder.encode(encoder);
    }
}

impl Decode<'_> for NumberLeaseAnswer {
    fn decode(decoder: &mut Decoder<'_>) -> Result<NumberLeaseAnswer, XdrError> {
        Ok(NumberLeaseAnswer {
            outcome: NumberLeaseOutcome::decode(decoder)?,
            generation: decoder.u64()?,
            left_ms: decoder.u32()?,
            holder: Address::decode(decoder)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xdr::{from_bytes, to_bytes};
    use alloc::string::{String, ToString};

    #[test]
    fn leases_are_laid_out_as_documented() {
        let wanted = NumberLeaseWanted {
            server: RegisterRecord {
                number: 2,
                address: Address::default(),
            },
            claimant: Claimant {
                folder: [1; 16],
                process: [2; 16],
            },
            generation: 9,
            ends: true,
        };
        let bytes = to_bytes(&wanted);
        let expected = [
            &b"\0\0\0\x02\0\0\0\0\0\0\0\0"[..],
            &[1; 16],
            &[2; 16],
            b"\0\0\0\0\0\0\0\x09\0\0\0\x01",
        ];
        assert_eq!(bytes, expected.concat());
        assert_eq!(from_bytes(&bytes), Ok(wanted));
        for len in 0..bytes.len() {
            assert!(from_bytes::<NumberLeaseWanted>(&bytes[..len]).is_err());
        }
        let answer = NumberLeaseAnswer {
            outcome: NumberLeaseOutcome::Taken,
            generation: 3,
            left_ms: 5,
            holder: Address {
                host: String::from("io2"),
                port: 7,
            },
        };
        let bytes = to_bytes(&answer);
        let expected = b"\0\0\0\x02\0\0\0\0\0\0\0\x03\0\0\0\x05\0\0\0\x03io2\0\0\0\0\x07";
        assert_eq!(bytes, expected);
        assert_eq!(
            answer.to_string(),
            "number_lease outcome=taken generation=3 left_ms=5 holder=io2:7"
        );
        assert_eq!(from_bytes(&bytes), Ok(answer));
        let mut undefined = bytes;
        undefined[3] = 6;
        assert!(from_bytes::<NumberLeaseAnswer>(&undefined).is_err());
    }
}
