//! Terms of the volume's manager, as messages tell of them.

use std::cell::Cell;

/// What the connections of a core tell and hear of terms, by their numbers; 0: none.
#[derive(Debug, Default)]
pub(crate) struct LinkTerms {
    own: Cell<u64>,
    heard: Cell<u64>,
}

impl LinkTerms {
    /// Who connects is the manager, and its term begins: its requests tell that from now on.
    pub(crate) fn begin(&self, number: u64) {
        self.own.set(number);
    }

    /// What requests tell.
    pub(super) fn own(&self) -> u64 {
        self.own.get()
    }

    /// A reply tells of a term.
    pub(super) fn hear(&self, number: u64) {
        self.heard.set(self.heard.get().max(number));
    }

    /// The term that has begun since, if a manager of this term has missed that.
    pub(super) fn successor_of(&self, number: u64) -> Option<u64> {
        let heard = self.heard.get();
        (number > 0 && number < heard).then_some(heard)
    }
}
