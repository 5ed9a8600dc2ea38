//! One bound for the bytes that peers can make a process hold.
//!
//! No origin has a fixed share. An origin may hold as much as it leaves free for all others. Each of its connections
//! may hold as much as that leaves free for the others of its origin. (These are dynamic thresholds: Choudhury and
//! Hahne 1998.) So a lone connection may hold a quarter, and each further one half of the rest. Their parts become
//! equal as they return memory. A connection that returns none is ended while others wait: see [`Account::is_scarce`].
//!
//! A bound is checked before a request is begun ([`Account::has_room_for`]) or memory is taken
//! ([`Account::try_charge`]). Memory that is there already is counted without a check ([`Account::charge`]). So the
//! bound is exceeded by one request of a core at most.
//!
//! The first [`CONNECTION_BYTES`] of a connection are free of that bound. [`Budget::connections_max`] keeps their sum
//! to half of the budget, so connections that hold nothing else leave the other half to large requests.

use crate::Origin;
use crate::limits::{
    BUDGET_BYTES, BUDGET_BYTES_MIN, BUDGET_STEP, CONNECTION_BYTES, CONNECTIONS_PART,
};
use gannet_runtime::SlotBudget;
use std::cell::Cell;
use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The bytes that the peers of a process may make it hold. Clones are the same budget, over all cores.
#[derive(Clone)]
pub struct Budget {
    whole: Arc<Whole>,
}

struct Whole {
    bytes_max: usize,
    taken: AtomicUsize,
    /// Open accounts.
    accounts: AtomicUsize,
    /// Accounts whose connections wait for room.
    waiting: AtomicUsize,
    /// Memory that is kept for the next payloads.
    kept: Arc<SlotBudget>,
    /// The parts of origins that have accounts.
    parts: Mutex<HashMap<Origin, Arc<Part>>>,
}

/// The bytes that the accounts of one origin have taken.
#[derive(Default)]
struct Part {
    taken: AtomicUsize,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget::new(BUDGET_BYTES)
    }
}

impl Budget {
    /// A budget of `bytes_max` bytes, at least [`BUDGET_BYTES_MIN`].
    pub fn new(bytes_max: usize) -> Budget {
        let bytes_max = bytes_max.max(BUDGET_BYTES_MIN);
        Budget {
            whole: Arc::new(Whole {
                bytes_max,
                kept: SlotBudget::new(bytes_max / 2),
                taken: AtomicUsize::new(0),
                accounts: AtomicUsize::new(0),
                waiting: AtomicUsize::new(0),
                parts: Mutex::default(),
            }),
        }
    }

    /// The bound in bytes.
    pub fn bytes_max(&self) -> usize {
        self.whole.bytes_max
    }

    /// Bounds the memory that all cores keep for payloads, whether it is in use (and charged) or idle: half as much as
    /// may be in use. Payloads beyond it are in memory that goes back to the system at once.
    pub fn kept(&self) -> &Arc<SlotBudget> {
        &self.whole.kept
    }

    /// Bytes taken now. Accounts take them in steps, so this is more than they hold.
    pub fn taken(&self) -> usize {
        self.whole.taken.load(Ordering::Relaxed)
    }

    /// The most connections of all cores and servers that share the budget.
    pub fn connections_max(&self) -> usize {
        self.bytes_max() / CONNECTIONS_PART / CONNECTION_BYTES
    }

    /// Connections now, of all cores and servers that share the budget.
    pub fn connections(&self) -> usize {
        self.whole.accounts.load(Ordering::Relaxed)
    }

    /// Connections that wait for room now.
    pub fn waiting(&self) -> usize {
        self.whole.waiting.load(Ordering::Relaxed)
    }

    /// Bytes that the origin with the most has taken.
    pub fn largest_part(&self) -> usize {
        let parts = self.whole.parts();
        let taken = parts
            .values()
            .map(|part| part.taken.load(Ordering::Relaxed));
        taken.max().unwrap_or_default()
    }

    /// The account of a new connection from `address`, which costs `idle` bytes while it does nothing. `idle` is at
    /// most [`CONNECTION_BYTES`]. `None` when nothing is left, or with [`Budget::connections_max`] accounts.
    pub fn open(&self, address: IpAddr, idle: usize) -> Option<Account> {
        let accounts = self.whole.accounts.load(Ordering::Relaxed);
        let has_room = accounts < self.connections_max() && self.taken() + idle <= self.bytes_max();
        has_room.then(|| self.open_beyond(address, idle))
    }

    /// The same for a connection in the place of another, whose account is closed soon.
    pub(crate) fn open_beyond(&self, address: IpAddr, idle: usize) -> Account {
        let origin = Origin::from(address);
        let part = Arc::clone(self.whole.parts().entry(origin).or_default());
        self.whole.accounts.fetch_add(1, Ordering::Relaxed);
        let holding = Holding {
            whole: Arc::clone(&self.whole),
            part,
            origin,
            idle,
            taken: Cell::new(0),
            used: Cell::new(0),
            waits: Cell::new(false),
        };
        holding.take(idle);
        Account {
            holding: Rc::new(holding),
        }
    }
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Budget")
            .field("bytes_max", &self.bytes_max())
            .field("taken", &self.taken())
            .finish_non_exhaustive()
    }
}

impl Whole {
    fn parts(&self) -> std::sync::MutexGuard<'_, HashMap<Origin, Arc<Part>>> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The account of one connection. It belongs to the connection's core. Clones are the same account, which is closed
/// with the last of them and of its [`Charge`]s.
#[derive(Clone)]
pub struct Account {
    holding: Rc<Holding>,
}

struct Holding {
    whole: Arc<Whole>,
    part: Arc<Part>,
    origin: Origin,
    /// Bytes that the connection costs while it does nothing.
    idle: usize,
    /// Bytes taken from the budget.
    taken: Cell<usize>,
    /// Bytes charged.
    used: Cell<usize>,
    /// True if the account is counted in `Whole::waiting`.
    waits: Cell<bool>,
}

impl Account {
    /// Bytes charged now.
    pub fn used(&self) -> usize {
        self.holding.used.get()
    }

    /// True if the connection holds more than [`CONNECTION_BYTES`], which every connection may hold.
    pub fn is_large(&self) -> bool {
        self.used() > CONNECTION_BYTES
    }

    /// True if `bytes` more are within the bound.
    pub fn has_room_for(&self, bytes: usize) -> bool {
        self.holding.has_room_for(bytes)
    }

    /// Charges bytes if they are within the bound.
    pub fn try_charge(&self, bytes: usize) -> Option<Charge> {
        self.has_room_for(bytes).then(|| self.charge(bytes))
    }

    /// Charges bytes that are held already, be they within the bound or not.
    pub fn charge(&self, bytes: usize) -> Charge {
        self.holding.set(self.used() + bytes);
        Charge {
            holding: Rc::clone(&self.holding),
            bytes,
        }
    }

    /// Notes whether the connection waits for room. One that [`Account::is_large`] does not count: it waits for memory
    /// that it holds itself.
    pub fn set_waiting(&self, waits: bool) {
        self.holding.set_waiting(waits && !self.is_large());
    }

    /// True if any connection that holds little waits for room: the bytes of slow peers are wanted by others.
    pub fn is_scarce(&self) -> bool {
        self.holding.whole.waiting.load(Ordering::Relaxed) > 0
    }
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Account")
            .field("origin", &self.holding.origin)
            .field("used", &self.used())
            .finish_non_exhaustive()
    }
}

impl Holding {
    fn has_room_for(&self, bytes: usize) -> bool {
        let used = self.used.get() + bytes;
        if used <= CONNECTION_BYTES {
            return true;
        }
        let more = used.saturating_sub(self.taken.get());
        // Other cores change these meanwhile, so their requests of this moment may exceed the bound.
        let whole = self.whole.taken.load(Ordering::Relaxed);
        let part = self.part.taken.load(Ordering::Relaxed);
        let others = whole.saturating_sub(part);
        let limit = self.whole.bytes_max.saturating_sub(others) / 2;
        let left = limit.saturating_sub(part);
        left.checked_sub(more).is_some_and(|left| used <= left)
    }

    /// Sets the charged bytes to `used`, and takes bytes from the budget or returns some.
    fn set(&self, used: usize) {
        self.used.set(used);
        let taken = self.taken.get();
        let small = used <= CONNECTION_BYTES;
        let idle = if used == 0 {
            self.idle
        } else {
            CONNECTION_BYTES
        };
        if small && taken < idle {
            self.take(idle - taken);
            return;
        }
        if used > taken {
            let more = used - taken.max(CONNECTION_BYTES);
            self.take(more.next_multiple_of(BUDGET_STEP) + CONNECTION_BYTES.saturating_sub(taken));
            return;
        }
        // One step is kept, so that small changes do not take it and give it back in turn.
        let kept = if small {
            idle
        } else {
            CONNECTION_BYTES + (used - CONNECTION_BYTES).next_multiple_of(BUDGET_STEP)
        };
        if taken > kept && (small || taken - kept > BUDGET_STEP) {
            self.give_back(taken - kept);
        }
    }

    fn take(&self, bytes: usize) {
        self.taken.set(self.taken.get() + bytes);
        self.part.taken.fetch_add(bytes, Ordering::Relaxed);
        self.whole.taken.fetch_add(bytes, Ordering::Relaxed);
    }

    fn give_back(&self, bytes: usize) {
        self.taken.set(self.taken.get() - bytes);
        self.part.taken.fetch_sub(bytes, Ordering::Relaxed);
        self.whole.taken.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn set_waiting(&self, waits: bool) {
        let waited = self.waits.replace(waits);
        if waits && !waited {
            self.whole.waiting.fetch_add(1, Ordering::Relaxed);
        } else if waited && !waits {
            self.whole.waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        self.set_waiting(false);
        self.give_back(self.taken.get());
        self.whole.accounts.fetch_sub(1, Ordering::Relaxed);
        let mut parts = self.whole.parts();
        // Two references are the map's and this one. No other account of the origin exists, and none is opened while
        // the map is locked.
        if Arc::strong_count(&self.part) == 2 {
            parts.remove(&self.origin);
        }
    }
}

/// Bytes that are charged until this is dropped.
pub struct Charge {
    holding: Rc<Holding>,
    bytes: usize,
}

impl Charge {
    /// The number of bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Changes the number to `bytes`, within the bound or not.
    pub fn set(&mut self, bytes: usize) {
        if bytes != self.bytes {
            let used = self.holding.used.get() - self.bytes + bytes;
            self.bytes = bytes;
            self.holding.set(used);
        }
    }
}

impl fmt::Debug for Charge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Charge")
            .field("origin", &self.holding.origin)
            .field("bytes", &self.bytes)
            .finish()
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::STREAM_BYTES;

    const MIB: usize = 1 << 20;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    /// Charges as many pieces of `bytes` as one account can.
    fn fill(account: &Account, bytes: usize) -> Vec<Charge> {
        std::iter::from_fn(|| account.try_charge(bytes)).collect()
    }

    #[test]
    fn a_lone_connection_holds_a_quarter_and_leaves_as_much_to_the_next_of_its_origin() {
        let budget = Budget::new(64 * MIB);
        let first = budget.open(address(1), CONNECTION_BYTES).unwrap();
        let second = budget.open(address(1), CONNECTION_BYTES).unwrap();
        let of_first = fill(&first, MIB);
        assert_eq!(of_first.len(), 15);
        assert!(!first.has_room_for(MIB));
        assert!(second.has_room_for(4 * MIB));
        assert_eq!(budget.connections(), 2);
        // Both are of one origin.
        assert_eq!(budget.largest_part(), budget.taken());
        drop(of_first);
        assert_eq!(first.used(), 0);
        assert_eq!(budget.taken(), 2 * CONNECTION_BYTES);
    }

    #[test]
    fn accounts_that_take_all_they_can_leave_room_for_the_requests_of_others() {
        let budget = Budget::new(96 * MIB);
        let accounts: Vec<Account> = (1..=4)
            .map(|origin| budget.open(address(origin), CONNECTION_BYTES).unwrap())
            .collect();
        let held: Vec<_> = accounts.iter().map(|it| fill(it, 64 << 10)).collect();
        for address in [address(1), address(99)] {
            let other = budget.open(address, CONNECTION_BYTES).unwrap();
            assert!(other.has_room_for(MIB), "{address} {budget:?}");
        }
        drop(held);
    }

    #[test]
    fn no_number_of_connections_takes_more_than_there_is() {
        let budget = Budget::new(96 * MIB);
        let mut held = Vec::new();
        for origin in 1..=20 {
            for _ in 0..20 {
                let account = budget.open(address(origin), CONNECTION_BYTES).unwrap();
                held.push(fill(&account, 64 << 10));
            }
        }
        assert!(budget.taken() <= budget.bytes_max(), "{budget:?}");
        assert!(
            budget.open(address(99), CONNECTION_BYTES).is_some(),
            "{budget:?}"
        );
    }

    #[test]
    fn small_requests_go_on_when_nothing_is_left() {
        let budget = Budget::new(BUDGET_BYTES_MIN);
        let account = budget.open(address(1), CONNECTION_BYTES).unwrap();
        let other = budget.open(address(1), CONNECTION_BYTES).unwrap();
        let everything = other.charge(BUDGET_BYTES_MIN);
        assert!(account.has_room_for(CONNECTION_BYTES));
        assert!(!account.has_room_for(CONNECTION_BYTES + 1));
        assert!(budget.open(address(2), CONNECTION_BYTES).is_none());
        drop(everything);
        assert!(account.has_room_for(MIB));
        assert!(budget.open(address(2), CONNECTION_BYTES).is_some());
    }

    #[test]
    fn an_idle_connection_is_charged_what_it_costs() {
        let budget = Budget::new(64 * MIB);
        let account = budget.open(address(1), STREAM_BYTES).unwrap();
        assert_eq!(budget.taken(), STREAM_BYTES);
        let mut charge = account.charge(1);
        assert_eq!(budget.taken(), CONNECTION_BYTES);
        charge.set(CONNECTION_BYTES + 1);
        assert_eq!(budget.taken(), CONNECTION_BYTES + BUDGET_STEP);
        charge.set(CONNECTION_BYTES);
        assert_eq!(budget.taken(), CONNECTION_BYTES);
        charge.set(0);
        assert_eq!(budget.taken(), STREAM_BYTES);
        // At once, from nothing.
        charge.set(CONNECTION_BYTES + 1);
        assert_eq!(budget.taken(), CONNECTION_BYTES + BUDGET_STEP);
        drop((account, charge));
        assert_eq!(budget.taken(), 0);
    }

    #[test]
    fn connections_leave_half_of_the_budget_to_large_requests() {
        let budget = Budget::new(BUDGET_BYTES_MIN);
        let open = |last| budget.open(address(last), CONNECTION_BYTES);
        let accounts: Vec<Account> = std::iter::from_fn(|| open(1)).collect();
        assert_eq!(accounts.len(), budget.connections_max());
        // Small requests take nothing from the rest.
        let small: Vec<Charge> = (accounts.iter().map(|it| it.charge(CONNECTION_BYTES))).collect();
        assert_eq!(budget.taken(), budget.bytes_max() / 2);
        drop(small);
        drop(accounts.into_iter().next());
        assert!(open(2).unwrap().has_room_for(MIB), "{budget:?}");
    }

    #[test]
    fn changes_within_a_step_take_nothing_from_others() {
        let budget = Budget::new(64 * MIB);
        let account = budget.open(address(1), CONNECTION_BYTES).unwrap();
        let mut charge = account.charge(100 << 10);
        let taken = budget.taken();
        for bytes in [90 << 10, 100 << 10, 95 << 10] {
            charge.set(bytes);
            assert_eq!(budget.taken(), taken);
        }
        charge.set(20 << 10);
        assert_eq!(budget.taken(), CONNECTION_BYTES + BUDGET_STEP);
        charge.set(CONNECTION_BYTES);
        assert_eq!(budget.taken(), CONNECTION_BYTES);
    }

    #[test]
    fn an_account_is_closed_with_its_last_charge() {
        let budget = Budget::new(64 * MIB);
        let account = budget.open(address(1), CONNECTION_BYTES).unwrap();
        account.set_waiting(true);
        let charge = account.charge(MIB);
        let other = budget.open(address(2), CONNECTION_BYTES).unwrap();
        assert!(other.is_scarce());
        drop(account);
        assert!(budget.taken() > MIB && other.is_scarce());
        drop(charge);
        assert!(!other.is_scarce());
        drop(other);
        assert_eq!(budget.taken(), 0);
        assert!(budget.whole.parts().is_empty());
    }
}
