//! How new files are striped, as somebody chose it.

use super::{UNIT_MAX, UNIT_MIN, WIDTH_MAX};
use crate::xdr::{Decode, Decoder, Encode, Encoder, XdrError};
use alloc::vec::Vec;
use thiserror::Error;

/// How new files of a directory or of the volume are striped, or a file that is made so.
///
/// ```
/// use gannet_wire::volume::{Chosen, Stripes, StripesError};
///
/// let near = Stripes { unit: 1 << 20, on: Chosen::Listed(vec![3, 0, 2]) };
/// assert_eq!(near.check(4), Ok(()));
/// assert_eq!(near.check(3), Err(StripesError::NoSuch(3, 3)));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stripes {
    /// Bytes of a stripe.
    pub unit: u32,
    /// The servers that they go to.
    pub on: Chosen,
}

/// I/O servers for new files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Chosen {
    /// So many (0 stands for all that there are), one after the other by their numbers, from the next in turn on.
    InTurn(u32),
    /// As many, from the server `first` on.
    From {
        /// The number of the first one.
        first: u32,
        /// How many; 0 stands for all that there are.
        width: u32,
    },
    /// These and no others, in this order: the first one has the first stripe of each file.
    Listed(Vec<u32>),
}

/// Why no file of a volume can be striped so.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum StripesError {
    /// Stripes are too short or too long.
    #[error("a stripe unit is from {UNIT_MIN} to {UNIT_MAX} bytes")]
    Unit,
    /// More servers than there are.
    #[error("{0} I/O servers are wanted, and the volume has {1}")]
    TooMany(usize, u32),
    /// A server that is not there.
    #[error("there is no I/O server {0}: the volume has {1}, with numbers from 0 on")]
    NoSuch(u32, u32),
    /// A server is listed twice.
    #[error("I/O server {0} is named twice")]
    Twice(u32),
    /// No server is listed.
    #[error("no I/O server is named")]
    Nobody,
}

impl Stripes {
    /// Those of `unit` bytes on all servers, which take turns to be the first.
    pub fn everywhere(unit: u32) -> Stripes {
        Stripes {
            unit,
            on: Chosen::InTurn(0),
        }
    }

    /// On how many servers a file lies that is striped so; 0 stands for all that there are.
    pub fn width(&self) -> u32 {
        match &self.on {
            Chosen::InTurn(width) | Chosen::From { width, .. } => *width,
            Chosen::Listed(list) => u32::try_from(list.len()).unwrap_or(u32::MAX),
        }
    }

    /// That files of a volume with `servers` I/O servers can be striped so.
    ///
    /// # Errors
    /// They cannot, see [`StripesError`].
    pub fn check(&self, servers: u32) -> Result<(), StripesError> {
        if !(UNIT_MIN..=UNIT_MAX).contains(&self.unit) {
            return Err(StripesError::Unit);
        }
        let no_more = |width: usize| match width > servers as usize {
            true => Err(StripesError::TooMany(width, servers)),
            false => Ok(()),
        };
        let is_there = |number: u32| match number < servers {
            true => Ok(()),
            false => Err(StripesError::NoSuch(number, servers)),
        };
        match &self.on {
            Chosen::InTurn(width) => no_more(*width as usize),
            Chosen::From { first, width } => {
                no_more(*width as usize)?;
                is_there(*first)
            }
            Chosen::Listed(list) => {
                no_more(list.len())?;
                list.iter().try_for_each(|number| is_there(*number))?;
                let mut sorted = list.clone();
                sorted.sort_unstable();
                match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
                    Some(pair) => Err(StripesError::Twice(pair[0])),
                    None if list.is_empty() => Err(StripesError::Nobody),
                    None => Ok(()),
                }
            }
        }
    }
}

/// How servers are chosen, as a number. The first two are what was once a bool: whether a first server follows.
const IN_TURN: u32 = 0;
const FROM: u32 = 1;
const LISTED: u32 = 2;

impl Encode for Stripes {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        let Stripes { unit, on } = self;
        encoder.u32(*unit);
        match on {
            Chosen::InTurn(width) => [*width, IN_TURN].iter().for_each(|it| encoder.u32(*it)),
            Chosen::From { first, width } => {
                [*width, FROM, *first]
                    .iter()
                    .for_each(|it| encoder.u32(*it));
            }
            Chosen::Listed(list) => {
                [0, LISTED].iter().for_each(|it| encoder.u32(*it));
                encoder.u32_array(list);
            }
        }
    }
}

impl Decode<'_> for Stripes {
    fn decode(decoder: &mut Decoder<'_>) -> Result<Stripes, XdrError> {
        let (unit, width, how) = (decoder.u32()?, decoder.u32()?, decoder.u32()?);
        let on = match (how, width) {
            (IN_TURN, width) => Chosen::InTurn(width),
            (FROM, width) => Chosen::From {
                first: decoder.u32()?,
                width,
            },
            (LISTED, 0) => {
                let list = (0..decoder.length(WIDTH_MAX)?).map(|_| decoder.u32());
                Chosen::Listed(list.collect::<Result<_, _>>()?)
            }
            _ => return Err(XdrError::Value),
        };
        Ok(Stripes { unit, on })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xdr::from_bytes;
    use alloc::vec;

    fn stripes(on: Chosen) -> Stripes {
        Stripes { unit: 4096, on }
    }

    fn taken(bytes: &[u8]) -> Result<Option<Stripes>, XdrError> {
        from_bytes(bytes)
    }

    #[test]
    fn stripes_are_laid_out_as_documented() {
        let known: [(Option<Chosen>, &[u8]); 4] = [
            (None, b"\0\0\0\0"),
            (
                Some(Chosen::InTurn(5)),
                b"\0\0\0\x01\0\0\x10\0\0\0\0\x05\0\0\0\0",
            ),
            (
                Some(Chosen::From { first: 3, width: 2 }),
                b"\0\0\0\x01\0\0\x10\0\0\0\0\x02\0\0\0\x01\0\0\0\x03",
            ),
            (
                Some(Chosen::Listed(vec![3, 0])),
                b"\0\0\0\x01\0\0\x10\0\0\0\0\0\0\0\0\x02\0\0\0\x02\0\0\0\x03\0\0\0\0",
            ),
        ];
        for (on, bytes) in known {
            let (stripes, mut out) = (on.map(stripes), Vec::new());
            stripes.encode(&mut Encoder::new(&mut out));
            assert_eq!(out, bytes, "{stripes:?}");
            assert_eq!(taken(bytes), Ok(stripes));
            for len in 0..bytes.len() {
                assert!(taken(&bytes[..len]).is_err());
            }
        }
    }

    #[test]
    fn impossible_stripes_are_refused() {
        // A list with a width beside it; a way to choose that nobody knows; a list longer than any volume.
        for words in [
            &[1u32, 4096, 2, 2, 2, 0, 1][..],
            &[1, 4096, 2, 3],
            &[2, 4096, 2, 0],
            &[&[1, 4096, 0, 2, 257][..], &[0; 257]].concat(),
        ] {
            let bytes: Vec<u8> = words.iter().flat_map(|it| it.to_be_bytes()).collect();
            assert!(taken(&bytes).is_err(), "{words:?}");
        }
    }

    #[test]
    fn servers_must_be_there_and_different() {
        for (on, expected) in [
            (Chosen::InTurn(0), Ok(())),
            (Chosen::InTurn(4), Ok(())),
            (Chosen::InTurn(5), Err(StripesError::TooMany(5, 4))),
            (Chosen::From { first: 3, width: 4 }, Ok(())),
            (
                Chosen::From { first: 4, width: 0 },
                Err(StripesError::NoSuch(4, 4)),
            ),
            (Chosen::Listed(vec![3, 0, 2, 1]), Ok(())),
            (
                Chosen::Listed(vec![3, 0, 2, 1, 0]),
                Err(StripesError::TooMany(5, 4)),
            ),
            (Chosen::Listed(vec![0, 4]), Err(StripesError::NoSuch(4, 4))),
            (Chosen::Listed(vec![2, 0, 2]), Err(StripesError::Twice(2))),
            (Chosen::Listed(vec![]), Err(StripesError::Nobody)),
        ] {
            assert_eq!(stripes(on.clone()).check(4), expected, "{on:?}");
        }
        let thin = Stripes::everywhere(UNIT_MIN - 1);
        assert_eq!(thin.check(4), Err(StripesError::Unit));
    }
}
