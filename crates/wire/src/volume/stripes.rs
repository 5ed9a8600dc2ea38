//! The stripes that a user chooses for new files (`stripes` in docs/formats/volume.md).

use super::{Copies, UNIT_MAX, UNIT_MIN, WIDTH_MAX};
use crate::xdr::{
    Decode, Decoder, Encode, Encoder, Items, Print, Printed, XdrError, print_as_display,
};
use alloc::vec::Vec;
use core::fmt;
use thiserror::Error;

/// The stripes of the new files of a directory or of the volume, or of a file that is made with stripes of its own.
///
/// ```
/// use gannet_wire::volume::{Chosen, Copies, Stripes, StripesError};
///
/// let on = Chosen::Listed(vec![3, 0, 2]);
/// let near = Stripes { unit: 1 << 20, on, copies: Some(Copies::Two) };
/// assert_eq!(near.check(4), Ok(()));
/// let missing = StripesError::NoSuch { number: 3, servers: 3 };
/// assert_eq!(near.check(3), Err(missing));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stripes {
    /// Bytes of a stripe, from [`UNIT_MIN`] to [`UNIT_MAX`].
    pub unit: u32,
    /// The servers that the stripes go to.
    pub on: Chosen,
    /// How many I/O servers keep each byte; `None`: as many as the volume says.
    pub copies: Option<Copies>,
}

/// The choice of I/O servers for new files. The number of a server is below the number of servers of the volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Chosen {
    /// This number of servers (0 stands for all), in the order of their numbers, from the next in turn on.
    InTurn(u32),
    /// The server `first` and those behind it.
    From {
        /// The number of the first one.
        first: u32,
        /// The number of servers; 0 stands for all.
        width: u32,
    },
    /// These servers in this order, at most [`WIDTH_MAX`]. The first one has the first stripe of each file.
    Listed(Vec<u32>),
}

impl Print for Stripes {
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "(")?;
        self.write(f)?;
        write!(f, ")")
    }
}

impl fmt::Display for Stripes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stripes ")?;
        self.write(f)
    }
}

impl fmt::Display for Chosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Chosen::InTurn(width) => write!(f, "in_turn={width}"),
            Chosen::From { first, width } => write!(f, "first={first} width={width}"),
            Chosen::Listed(list) => write!(f, "servers={}", Printed(&Items(list))),
        }
    }
}

print_as_display!(Chosen);

/// The reason why no file of a volume can have such stripes.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum StripesError {
    /// The unit is below [`UNIT_MIN`] or above [`UNIT_MAX`].
    #[error("a stripe unit is from {UNIT_MIN} to {UNIT_MAX} bytes")]
    Unit,
    /// The stripes want more servers than the volume has.
    #[error("{width} I/O servers are wanted, and the volume has {servers}")]
    TooMany {
        /// The number of servers that the stripes want.
        width: usize,
        /// The number of servers of the volume.
        servers: u32,
    },
    /// The volume has no such server.
    #[error("there is no I/O server {number}: the volume has {servers}, with numbers from 0 on")]
    NoSuch {
        /// The number of the missing server.
        number: u32,
        /// The number of servers of the volume.
        servers: u32,
    },
    /// The list has a server twice.
    #[error("I/O server {number} is named twice")]
    Twice {
        /// The number of the server.
        number: u32,
    },
    /// The list is empty.
    #[error("no I/O server is named")]
    Empty,
}

impl Stripes {
    /// Stripes of `unit` bytes on all servers, which take turns to be the first.
    pub fn everywhere(unit: u32) -> Stripes {
        Stripes {
            unit,
            on: Chosen::InTurn(0),
            copies: None,
        }
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unit={} {}", self.unit, self.on)?;
        let copies = self.copies.map(Copies::number);
        copies.map_or(Ok(()), |it| write!(f, " copies={it}"))
    }

    /// The number of servers of a file with these stripes; 0 stands for all.
    pub fn width(&self) -> u32 {
        match &self.on {
            Chosen::InTurn(width) | Chosen::From { width, .. } => *width,
            Chosen::Listed(list) => u32::try_from(list.len()).unwrap_or(u32::MAX),
        }
    }

    /// Checks that files of a volume with `servers` I/O servers can have these stripes.
    ///
    /// # Errors
    /// - [`StripesError::Unit`]: the unit is too short or too long.
    /// - [`StripesError::TooMany`]: there are fewer servers than the stripes want.
    /// - [`StripesError::NoSuch`]: a server is missing.
    /// - [`StripesError::Twice`], [`StripesError::Empty`]: the list has a server twice, or none.
    pub fn check(&self, servers: u32) -> Result<(), StripesError> {
        if !(UNIT_MIN..=UNIT_MAX).contains(&self.unit) {
            return Err(StripesError::Unit);
        }
        let no_more = |width: usize| {
            if width > servers as usize {
                return Err(StripesError::TooMany { width, servers });
            }
            Ok(())
        };
        let is_there = |number: u32| {
            if number >= servers {
                return Err(StripesError::NoSuch { number, servers });
            }
            Ok(())
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
                    Some(pair) => Err(StripesError::Twice { number: pair[0] }),
                    None if list.is_empty() => Err(StripesError::Empty),
                    None => Ok(()),
                }
            }
        }
    }
}

/// The numbers of [`Chosen`]. The first two were once a boolean that said whether a first server follows.
const IN_TURN: u32 = 0;
const FROM: u32 = 1;
const LISTED: u32 = 2;
/// The number of copies is above it, 0 where the volume says it.
const COPIES_SHIFT: u32 = 8;

impl Encode for Stripes {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        let Stripes { unit, on, copies } = self;
        let (width, how) = match on {
            Chosen::InTurn(width) => (*width, IN_TURN),
            Chosen::From { width, .. } => (*width, FROM),
            Chosen::Listed(_) => (0, LISTED),
        };
        let copies = copies.map_or(0, Copies::number) << COPIES_SHIFT;
        let words = [*unit, width, how | copies];
        words.into_iter().for_each(|it| encoder.u32(it));
        match on {
            Chosen::InTurn(_) => {}
            Chosen::From { first, .. } => encoder.u32(*first),
            Chosen::Listed(list) => encoder.u32_array(list),
        }
    }
}

impl Decode<'_> for Stripes {
    fn decode(decoder: &mut Decoder<'_>) -> Result<Stripes, XdrError> {
        let (unit, width, how) = (decoder.u32()?, decoder.u32()?, decoder.u32()?);
        let copies = match how >> COPIES_SHIFT {
            0 => None,
            number => Some(Copies::of(number).ok_or(XdrError::Value)?),
        };
        let on = match (how & ((1 << COPIES_SHIFT) - 1), width) {
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
        Ok(Stripes { unit, on, copies })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xdr::from_bytes;
    use alloc::string::ToString;
    use alloc::vec;

    fn stripes(on: Chosen) -> Stripes {
        Stripes {
            unit: 4096,
            on,
            copies: None,
        }
    }

    fn with_copies(on: Chosen, copies: Copies) -> Stripes {
        Stripes {
            copies: Some(copies),
            ..stripes(on)
        }
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
    fn stripes_print_on_a_line() {
        for (on, line) in [
            (Chosen::InTurn(5), "stripes unit=4096 in_turn=5"),
            (
                Chosen::From { first: 3, width: 2 },
                "stripes unit=4096 first=3 width=2",
            ),
            (
                Chosen::Listed(vec![3, 0]),
                "stripes unit=4096 servers=[3,0]",
            ),
        ] {
            assert_eq!(stripes(on).to_string(), line);
        }
        let two = with_copies(Chosen::InTurn(5), Copies::Two);
        assert_eq!(two.to_string(), "stripes unit=4096 in_turn=5 copies=2");
    }

    #[test]
    fn copies_are_beside_the_choice_of_servers() {
        let known: [(Stripes, &[u8]); 2] = [
            (
                with_copies(Chosen::InTurn(5), Copies::One),
                b"\0\0\0\x01\0\0\x10\0\0\0\0\x05\0\0\x01\0",
            ),
            (
                with_copies(Chosen::From { first: 3, width: 2 }, Copies::Two),
                b"\0\0\0\x01\0\0\x10\0\0\0\0\x02\0\0\x02\x01\0\0\0\x03",
            ),
        ];
        for (stripes, bytes) in known {
            let (stripes, mut out) = (Some(stripes), Vec::new());
            stripes.encode(&mut Encoder::new(&mut out));
            assert_eq!(out, bytes, "{stripes:?}");
            assert_eq!(taken(bytes), Ok(stripes));
        }
    }

    #[test]
    fn impossible_stripes_are_refused() {
        // A list with a width beside it, an undefined choice, three copies, too many copies, a flag that is no boolean,
        // a list that is too long.
        for words in [
            &[1u32, 4096, 2, 2, 2, 0, 1][..],
            &[1, 4096, 2, 3],
            &[1, 4096, 2, 3 << 8],
            &[1, 4096, 2, 1 << 16],
            &[2, 4096, 2, 0],
            &[&[1, 4096, 0, 2, 257][..], &[0; 257]].concat(),
        ] {
            let bytes: Vec<u8> = words.iter().flat_map(|it| it.to_be_bytes()).collect();
            assert!(taken(&bytes).is_err(), "{words:?}");
        }
    }

    #[test]
    fn servers_must_be_there_and_different() {
        let too_many = Err(StripesError::TooMany {
            width: 5,
            servers: 4,
        });
        let no_such = Err(StripesError::NoSuch {
            number: 4,
            servers: 4,
        });
        for (on, expected) in [
            (Chosen::InTurn(0), Ok(())),
            (Chosen::InTurn(4), Ok(())),
            (Chosen::InTurn(5), too_many.clone()),
            (Chosen::From { first: 3, width: 4 }, Ok(())),
            (Chosen::From { first: 4, width: 0 }, no_such.clone()),
            (Chosen::Listed(vec![3, 0, 2, 1]), Ok(())),
            (Chosen::Listed(vec![3, 0, 2, 1, 0]), too_many.clone()),
            (Chosen::Listed(vec![0, 4]), no_such.clone()),
            (
                Chosen::Listed(vec![2, 0, 2]),
                Err(StripesError::Twice { number: 2 }),
            ),
            (Chosen::Listed(vec![]), Err(StripesError::Empty)),
        ] {
            assert_eq!(stripes(on.clone()).check(4), expected, "{on:?}");
        }
        let thin = Stripes::everywhere(UNIT_MIN - 1);
        assert_eq!(thin.check(4), Err(StripesError::Unit));
    }
}
