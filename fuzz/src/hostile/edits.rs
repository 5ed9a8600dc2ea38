//! Edits of a lying server's messages, as an input says them.
//!
//! Each edit is two bytes and its operands: the number of units that pass unchanged before it, and its effect on the
//! next.
//! When the input is over, all units pass.

/// A bit of an edit's second byte: the edit changes the same unit as the one before.
pub(crate) const SAME: u8 = 0x80;
/// A bit of an edit's second byte: lengths within the unit stay as they were.
pub(crate) const UNMENDED: u8 = 0x40;
pub(crate) const OVERWRITE: u8 = 0;
pub(crate) const WORD: u8 = 1;
pub(crate) const TRUNCATE: u8 = 2;
pub(crate) const INSERT: u8 = 3;
pub(crate) const DROP: u8 = 4;
pub(crate) const REPEAT: u8 = 5;
pub(crate) const CLOSE: u8 = 6;
pub(crate) const REPLACE: u8 = 7;

/// The rest of an input.
pub(crate) struct Edits {
    rest: Vec<u8>,
    /// Units that pass before the next edit, once that is known.
    skip: Option<u8>,
}

/// The result of an edit.
pub(crate) struct Edited {
    /// The units that are sent in place of the edited one, in order.
    pub(crate) units: Vec<Vec<u8>>,
    /// Whether the lengths within them are to be put right.
    pub(crate) mend: bool,
    /// Whether the connection ends behind them.
    pub(crate) closes: bool,
}

impl Edits {
    pub(crate) fn new(data: &[u8]) -> Edits {
        Edits {
            rest: data.to_vec(),
            skip: None,
        }
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let taken = *self.rest.first_chunk::<N>()?;
        self.rest.drain(..N);
        Some(taken)
    }

    fn take_bytes(&mut self, len: usize) -> Vec<u8> {
        let len = len.min(self.rest.len());
        self.rest.drain(..len).collect()
    }

    /// Edits the next unit; `None` if it passes as it is.
    pub(crate) fn edit(&mut self, unit: &[u8]) -> Option<Edited> {
        if self.skip.is_none() {
            self.skip = self.take::<1>().map(|[skip]| skip);
        }
        let skip = self.skip?;
        if let Some(fewer) = skip.checked_sub(1) {
            self.skip = Some(fewer);
            return None;
        }
        let mut edited = Edited {
            units: vec![unit.to_vec()],
            mend: true,
            closes: false,
        };
        loop {
            self.skip = None;
            let [how] = self.take()?;
            edited.mend &= how & UNMENDED == 0;
            self.apply(how & 7, &mut edited)?;
            // The first byte of the next edit does not count if that is of the same unit.
            match self.rest[..] {
                [_, next, ..] if next & SAME != 0 => _ = self.take::<1>(),
                _ => return Some(edited),
            }
        }
    }

    fn apply(&mut self, how: u8, edited: &mut Edited) -> Option<()> {
        let Some(unit) = edited.units.last_mut() else {
            return Some(());
        };
        match how {
            OVERWRITE => {
                let [high, low, len] = self.take()?;
                let at = place(unit, high, low);
                let bytes = self.take_bytes(usize::from(len & 31) + 1);
                unit.iter_mut()
                    .skip(at)
                    .zip(bytes)
                    .for_each(|(to, byte)| *to = byte);
            }
            WORD => {
                let [at, word @ ..] = self.take::<5>()?;
                let at = usize::from(at) * 4;
                unit.iter_mut()
                    .skip(at)
                    .zip(word)
                    .for_each(|(to, byte)| *to = byte);
            }
            TRUNCATE => {
                let [high, low] = self.take()?;
                let at = place(unit, high, low);
                unit.truncate(at);
            }
            INSERT => {
                let [high, low, len] = self.take()?;
                let at = place(unit, high, low);
                let bytes = self.take_bytes(usize::from(len));
                unit.splice(at..at, bytes);
            }
            DROP => edited.units.clear(),
            REPEAT => {
                let again = unit.clone();
                edited.units.push(again);
            }
            CLOSE => edited.closes = true,
            _ => {
                let [high, low] = self.take()?;
                *unit = self.take_bytes(usize::from(u16::from_be_bytes([high, low])));
            }
        }
        Some(())
    }
}

/// A place in a unit, its end among them.
fn place(unit: &[u8], high: u8, low: u8) -> usize {
    usize::from(u16::from_be_bytes([high, low])) % (unit.len() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_of_the_units_that_the_input_says() {
        let data = [
            &[1, OVERWRITE, 0, 1, 1, 8, 9][..],
            &[0, SAME | INSERT, 0, 0, 1, 7],
            &[0, DROP, 1, CLOSE | UNMENDED],
        ];
        let mut edits = Edits::new(&data.concat());
        assert!(edits.edit(b"abc").is_none());
        let edited = edits.edit(b"abc").unwrap();
        assert_eq!(edited.units, [[7, b'a', 8, 9]]);
        assert!(edited.mend && !edited.closes);
        assert_eq!(edits.edit(b"abc").unwrap().units.len(), 0);
        assert!(edits.edit(b"abc").is_none());
        let last = edits.edit(b"abc").unwrap();
        assert!(last.closes && !last.mend);
        assert_eq!(last.units, [b"abc"]);
        assert!(edits.edit(b"abc").is_none());
    }
}
