//! Which manager rules a volume: what it and the I/O servers tell each other of its term.

use super::{TOKEN_LEN, Token};
use crate::xdr::{Decode, Decoder, Encode, Encoder, XdrError};

/// The time for which one process is the manager. Terms of a volume are counted; two that begin at once may have the
/// same number, and differ by their tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Term {
    /// From 1 on; 0 stands for none.
    pub number: u64,
    /// Random bytes that the manager chose for it.
    pub token: Token,
}

/// Bytes of a [`Term`].
pub const TERM_LEN: usize = 8 + TOKEN_LEN;

impl Encode for Term {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.u64(self.number);
        encoder.fixed(&self.token);
    }
}

impl Decode<'_> for Term {
    fn decode(decoder: &mut Decoder<'_>) -> Result<Term, XdrError> {
        Ok(Term {
            number: decoder.u64()?,
            token: *decoder.fixed::<TOKEN_LEN>()?,
        })
    }
}

/// What a manager wants of an I/O server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum TermStage {
    /// To hear which term the server knows.
    Ask = 0,
    /// To begin this term. The server accepts one that is later than what it knows.
    Propose = 1,
    /// To say that the term goes on, and that a majority of the servers has accepted it.
    Hold = 2,
}

/// Sent by a manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TermCall {
    /// What for.
    pub stage: TermStage,
    /// Its term.
    pub term: Term,
    /// The number of its last change.
    pub change: u64,
}

impl Encode for TermCall {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.u32(self.stage as u32);
        self.term.encode(encoder);
        encoder.u64(self.change);
    }
}

impl Decode<'_> for TermCall {
    fn decode(decoder: &mut Decoder<'_>) -> Result<TermCall, XdrError> {
        let stage = match decoder.u32()? {
            0 => TermStage::Ask,
            1 => TermStage::Propose,
            2 => TermStage::Hold,
            _ => return Err(XdrError::Value),
        };
        Ok(TermCall {
            stage,
            term: Term::decode(decoder)?,
            change: decoder.u64()?,
        })
    }
}

/// Answered by an I/O server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TermAnswer {
    /// Whether it is as the manager wants.
    pub accepted: bool,
    /// The latest term that the server knows now.
    pub known: Term,
    /// The last change of that term that it has heard of.
    pub change: u64,
}

impl Encode for TermAnswer {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.bool(self.accepted);
        self.known.encode(encoder);
        encoder.u64(self.change);
    }
}

impl Decode<'_> for TermAnswer {
    fn decode(decoder: &mut Decoder<'_>) -> Result<TermAnswer, XdrError> {
        Ok(TermAnswer {
            accepted: decoder.bool()?,
            known: Term::decode(decoder)?,
            change: decoder.u64()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xdr::from_bytes;
    use alloc::vec::Vec;

    fn bytes(value: &impl Encode) -> Vec<u8> {
        let mut bytes = Vec::new();
        value.encode(&mut Encoder::new(&mut bytes));
        bytes
    }

    #[test]
    fn calls_and_answers_are_laid_out_as_documented() {
        let term = Term {
            number: 7,
            token: [9; 16],
        };
        let call = TermCall {
            stage: TermStage::Hold,
            term,
            change: 5,
        };
        let sent = bytes(&call);
        let expected = [
            &[0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 7][..],
            &[9; 16],
            &[0, 0, 0, 0, 0, 0, 0, 5],
        ];
        assert_eq!(sent, expected.concat());
        assert_eq!(from_bytes(&sent), Ok(call));
        let answer = TermAnswer {
            accepted: true,
            known: term,
            change: 6,
        };
        let told = bytes(&answer);
        assert_eq!(told.len(), 4 + TERM_LEN + 8);
        assert_eq!(from_bytes(&told), Ok(answer));
        for len in 0..sent.len() {
            assert!(from_bytes::<TermCall>(&sent[..len]).is_err());
            assert!(from_bytes::<TermAnswer>(&told[..len]).is_err());
        }
        let mut odd = sent;
        odd[3] = 3;
        assert!(from_bytes::<TermCall>(&odd).is_err());
    }
}
