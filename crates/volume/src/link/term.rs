//! Terms of the volume's manager, as the headers of messages carry them.

use std::cell::Cell;

/// The terms that a core's connections carry and have heard of, by their numbers; 0: none.
#[derive(Debug, Default)]
pub(crate) struct LinkTerms {
    own: Cell<u64>,
    heard: Cell<u64>,
}

impl LinkTerms {
    /// The term of this process, a manager, begins: its requests carry it from now on.
    pub(crate) fn begin(&self, number: u64) {
        self.own.set(number);
    }

    /// The term that requests carry.
    pub(super) fn own(&self) -> u64 {
        self.own.get()
    }

    /// Notes the term of a reply.
    pub(super) fn hear(&self, number: u64) {
        self.heard.set(self.heard.get().max(number));
    }

    /// The latest term, if it is later than this one: its manager is over, and may not know it.
    pub(super) fn successor_of(&self, number: u64) -> Option<u64> {
        let heard = self.heard.get();
        (number > 0 && number < heard).then_some(heard)
    }
}
