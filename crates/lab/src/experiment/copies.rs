//! The processor costs of copies: those that serving code counts and that no fabric sees.

use gannet_sim::nic::{Activity, Debtor, Host};
use std::cell::Cell;
use std::rc::{Rc, Weak};

/// Charges a machine for bytes that serving code copies in place of registering memory. The machine pays when its
/// clock is next read, or the next work posted. So a strategy, which reads the clock, learns how long its copy
/// took.
pub(super) struct Copies {
    host: Rc<Host>,
    /// Bytes so far.
    counted: Box<dyn Fn() -> u64>,
    paid: Cell<u64>,
}

impl Copies {
    /// Makes `host` pay from now on, until the returned value is dropped.
    pub(super) fn charge(host: &Rc<Host>, counted: impl Fn() -> u64 + 'static) -> Rc<Copies> {
        let copies = Rc::new(Copies {
            host: Rc::clone(host),
            paid: Cell::new(counted()),
            counted: Box::new(counted),
        });
        let debtor: Weak<Copies> = Rc::downgrade(&copies);
        host.add_debtor(debtor);
        copies
    }
}

impl Debtor for Copies {
    fn settle(&self) {
        let counted = (self.counted)();
        let owed = counted - self.paid.replace(counted);
        let rate = self.host.profile().machine.copy_bytes_per_s;
        self.host.charge(Activity::Copy, rate.time_for(owed));
    }
}
