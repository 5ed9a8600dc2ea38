//! Formats of what lies on a volume's disks. Only the present one is understood: nothing is converted.

use crate::{JournalError, StoreError};
use thiserror::Error;

/// Something of a volume is of another format than the one that this program knows. The error says what to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("its format is {found}, and this program knows format {known} ({})", self.cure())]
pub struct OtherFormat {
    /// The format that it is of.
    pub found: u32,
    /// The one that is known here.
    pub known: u32,
}

impl OtherFormat {
    /// Checks that `found` is the format that this program knows.
    ///
    /// # Errors
    /// It is another one.
    pub fn check(found: u32, known: u32) -> Result<(), OtherFormat> {
        if found == known {
            Ok(())
        } else {
            Err(OtherFormat { found, known })
        }
    }

    fn cure(&self) -> &'static str {
        if self.found < self.known {
            "copy the files out with the gannet that made it, and into a new volume"
        } else {
            "use the gannet that made it, or a later one"
        }
    }
}

impl StoreError {
    /// Whether a store was not opened because it, or its journal, is of another format. The error says what to do.
    pub fn is_other_format(&self) -> bool {
        let journal = self.0.downcast_ref::<JournalError>();
        self.0.is::<OtherFormat>() || matches!(journal, Some(JournalError::Version(_)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_formats_come_with_a_cure() {
        let said = |found| OtherFormat::check(found, 2).map_err(|it| it.to_string());
        assert_eq!(said(2), Ok(()));
        let older = said(1).unwrap_err();
        assert!(
            older.contains("format is 1") && older.contains("into a new volume"),
            "{older}"
        );
        let newer = said(3).unwrap_err();
        assert!(
            newer.contains("format is 3") && newer.contains("a later one"),
            "{newer}"
        );
    }
}
