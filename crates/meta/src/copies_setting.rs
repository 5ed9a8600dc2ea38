//! The wishes of a volume's owner for its copies, which count for groups that are made later too.

use super::namespace::{Failure, Outcome};
use super::{StoreError, Table, Transaction, View};
use gannet_wire::volume::ROOT;
use gannet_wire::xdr::{Decode, Decoder, Encoder, XdrError};

const COPIES: &[u8] = b"copies";

/// How a volume keeps its copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopiesSetting {
    /// Both copies of a byte may be in one zone.
    pub same_host: bool,
    /// How many I/O servers must have a write before it is answered.
    pub min_copies: u32,
}

impl Default for CopiesSetting {
    /// The setting of a volume without one: before there were zones, copies could be anywhere.
    fn default() -> CopiesSetting {
        CopiesSetting {
            same_host: true,
            min_copies: 1,
        }
    }
}

/// The setting of a volume.
///
/// # Errors
/// `Failure::Store`: the store failed. `Failure::Damaged`: the setting cannot be decoded.
pub fn copies_setting(view: &dyn View) -> Outcome<CopiesSetting> {
    let Some(noted) = view.get(Table::Volume, COPIES)? else {
        return Ok(CopiesSetting::default());
    };
    let mut decoder = Decoder::new(&noted);
    let mut decode = || {
        let setting = CopiesSetting {
            same_host: bool::decode(&mut decoder)?,
            min_copies: decoder.u32()?,
        };
        decoder.finish()?;
        Ok(setting)
    };
    decode().map_err(|_: XdrError| Failure::Damaged(ROOT))
}

/// Notes the setting of a volume.
///
/// # Errors
/// The store failed.
pub fn note_copies_setting(
    transaction: &mut dyn Transaction,
    setting: CopiesSetting,
) -> Result<(), StoreError> {
    let mut noted = Vec::new();
    let mut encoder = Encoder::new(&mut noted);
    encoder.bool(setting.same_host);
    encoder.u32(setting.min_copies);
    transaction.put(Table::Volume, COPIES, &noted)
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{change, formatted, seen};
    use super::*;

    #[test]
    fn a_setting_is_found_again_and_damage_of_it_too() {
        let store = formatted(|_, _| {});
        assert!(seen(&store, copies_setting).unwrap().same_host);
        let apart = CopiesSetting {
            same_host: false,
            min_copies: 2,
        };
        change(&store, |it| note_copies_setting(it, apart));
        assert_eq!(seen(&store, copies_setting).unwrap(), apart);
        change(&store, |it| it.put(Table::Volume, COPIES, b"nonsense"));
        assert!(seen(&store, copies_setting).is_err());
    }
}
