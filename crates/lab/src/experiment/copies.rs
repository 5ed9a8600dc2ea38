//! What copies of a machine's processor cost it: those that serving code counts and nobody sees in a fabric.

use gannet_sim::nic::{Activity, Debtor, Host};
use std::cell::Cell;
use std::rc::{Rc, Weak};

/// Charges a machine for bytes that are copied in place of registering memory, as somebody counts them. They are paid
/// when the machine's clock is next looked at, or the next work posted, by whoever does that: a strategy, to know how
/// long its copy took.
pub(super) struct Copies {
    host: Rc<Host>,
    /// Bytes so far.
    counted: Box<dyn Fn() -> u64>,
    paid: Cell<u64>,
}

impl Copies {
    /// From now on, `host` pays for as long as what is given lives.
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
