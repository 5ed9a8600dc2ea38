//! The term of a volume's manager, as the manager and the I/O servers agree on it (docs/formats/volume.md).

use super::{TOKEN_LEN, Token};
use crate::xdr::{Decode, Decoder, Encode, Encoder, XdrError, enumeration, printed};

/// The time for which one process is the manager (`term`). Terms of a volume are counted. Two that begin at once may
/// have the same number; their tokens differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Term {
    /// The number of the term, from 1 on; 0 stands for no term.
    pub number: u64,
    /// Random bytes that the manager chose for the term.
    pub token: Token,
}

printed! { Term = "term" { number, token, } }

/// Bytes of an encoded [`Term`].
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

enumeration! {
    /// The purpose of a [`TermCall`].
    TermStage {
        /// The manager asks for the term that the server knows.
        Ask = 0 => "ask",
        /// The manager proposes this term. The server accepts one that is later than what it knows.
        Propose = 1 => "propose",
        /// The manager holds this term, which a majority of the servers has accepted.
        Hold = 2 => "hold",
    }
}

/// The request of a manager about its term (`term_call`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TermCall {
    /// The purpose.
    pub stage: TermStage,
    /// The manager's term.
    pub term: Term,
    /// The number of the manager's last change.
    pub change: u64,
}

printed! { TermCall = "term_call" { stage, term, change, } }

impl Encode for TermCall {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        self.stage.encode(encoder);
        self.term.encode(encoder);
        encoder.u64(self.change);
    }
}

impl Decode<'_> for TermCall {
    fn decode(decoder: &mut Decoder<'_>) -> Result<TermCall, XdrError> {
        Ok(TermCall {
            stage: TermStage::decode(decoder)?,
            term: Term::decode(decoder)?,
            change: decoder.u64()?,
        })
    }
}

/// The reply of an I/O server to a [`TermCall`] (`term_answer`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TermAnswer {
    /// The server accepts the proposal or the hold.
    pub accepted: bool,
    /// The latest term that the server knows now.
    pub known: Term,
    /// The number of the last change that a hold of that term named.
    pub change: u64,
}

printed! { TermAnswer = "term_answer" { accepted, known, change, } }

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
    use alloc::string::ToString;
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
        assert_eq!(
            call.to_string(),
            "term_call stage=hold term=(number=7 token=09090909090909090909090909090909) change=5"
        );
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
