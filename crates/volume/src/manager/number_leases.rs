//! Leases of the I/O servers' numbers: one process at a time serves under each.
//!
//! A process asks twice a second. It has the number for [`NUMBER_LEASE`] after it asked, and for as long and a margin
//! no other process gets it. A process of the same folder gets it at once: the former one has unlocked the folder, so
//! it has ended. The process is durable before its first lease is granted. So the manager of a later term knows for
//! which one it need not wait, and waits for all others.

use super::{Manager, look};
use crate::limits::{NUMBER_LEASE, NUMBER_LEASE_OVER};
use gannet_meta::MetaStore;
use gannet_meta::claims::{self, NumberLeaseNote};
use gannet_meta::namespace::Outcome;
use gannet_runtime::Instant;
use gannet_wire::volume::{
    Address, Claimant, NumberLeaseAnswer, NumberLeaseOutcome, NumberLeaseWanted, Status,
};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::Mutex;

/// The lease of a number, as far as it is known.
///
/// | from \ event | asked, same folder or process | asked by another | by another after its end | given up |
/// |---|---|---|---|---|
/// | `Free` | `Held` | `Held` | `Held` | `Free` |
/// | `Here` | refused | refused | refused | `Here` |
/// | `Noted` | `Held` | refused | `Held` | `Free` |
/// | `Held` | `Held` | refused | `Held` | `Free` |
///
/// A process that had the number before another one is refused in all of them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
enum Holding {
    /// No process has it.
    #[default]
    Free,
    /// An I/O server of the manager's process has it.
    Here,
    /// This process, or another one of its folder, may have it until then by a grant of an earlier term.
    Noted { claimant: Claimant, until: Instant },
    /// A process has it until then.
    Held {
        claimant: Claimant,
        address: Address,
        until: Instant,
    },
}

/// A number of an I/O server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Number {
    holding: Holding,
    /// Counts the processes that had it.
    generation: u64,
    /// The last of them.
    last: Option<Claimant>,
}

/// Why a process does not get a number.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Refused {
    /// Another process has it for so long. `holder` is its address; `None` if it was not heard of in this term.
    Taken {
        left: Duration,
        holder: Option<Address>,
    },
    /// Another process has had it since.
    Superseded,
}

impl Refused {
    fn answer(self, generation: u64) -> NumberLeaseAnswer {
        let (outcome, left, holder) = match self {
            Refused::Taken {
                left,
                holder: Some(holder),
            } => (NumberLeaseOutcome::Taken, left, holder),
            Refused::Taken { left, holder: None } => {
                (NumberLeaseOutcome::Waits, left, Address::default())
            }
            Refused::Superseded => {
                let nobody = Address::default();
                (NumberLeaseOutcome::Superseded, Duration::ZERO, nobody)
            }
        };
        NumberLeaseAnswer {
            outcome,
            generation,
            // A lease is of some seconds.
            left_ms: left.as_millis() as u32,
            holder,
        }
    }
}

/// Whether these may not both run, or are the same process.
fn are_alike(one: &Claimant, other: &Claimant) -> bool {
    one.folder == other.folder || one.process == other.process
}

impl Number {
    /// Whether this process, which had the number last in generation `had`, may have it now; 0: it never had it.
    fn judge(&self, claimant: &Claimant, had: u64, now: Instant) -> Result<(), Refused> {
        let is_last = self
            .last
            .is_some_and(|last| last.process == claimant.process);
        if had != 0 && had < self.generation && !is_last {
            return Err(Refused::Superseded);
        }
        let (until, holder) = match &self.holding {
            Holding::Free => return Ok(()),
            Holding::Here => (now + NUMBER_LEASE_OVER, Some(Address::default())),
            Holding::Noted {
                claimant: holder, ..
            }
            | Holding::Held {
                claimant: holder, ..
            } if are_alike(holder, claimant) => return Ok(()),
            Holding::Noted { until, .. } => (*until, None),
            Holding::Held { until, address, .. } => (*until, Some(address.clone())),
        };
        if until <= now {
            return Ok(());
        }
        let left = until.duration_since(now);
        Err(Refused::Taken { left, holder })
    }

    /// It is this process's until the margin after its lease.
    fn hold(&mut self, claimant: Claimant, had: u64, address: Address, now: Instant) {
        debug_assert_eq!(self.judge(&claimant, had, now), Ok(()));
        let is_last = self
            .last
            .is_some_and(|last| last.process == claimant.process);
        // The metadata may be a backup, from before the process got it.
        self.generation = self.generation.max(had);
        if !is_last {
            self.generation += 1;
        }
        self.last = Some(claimant);
        self.holding = Holding::Held {
            claimant,
            address,
            until: now + NUMBER_LEASE_OVER,
        };
    }

    /// A process gives it up; true if it had it. Others may have it at once.
    fn give_up(&mut self, claimant: &Claimant) -> bool {
        let has_it = match &self.holding {
            Holding::Held {
                claimant: holder, ..
            }
            | Holding::Noted {
                claimant: holder, ..
            } => holder.process == claimant.process,
            Holding::Here | Holding::Free => false,
        };
        if has_it {
            self.holding = Holding::Free;
        }
        has_it
    }

    /// The note of it in the store; `None` if it was never leased.
    fn note(&self) -> Option<NumberLeaseNote> {
        Some(NumberLeaseNote {
            claimant: self.last?,
            generation: self.generation,
            is_over: self.holding == Holding::Free,
        })
    }

    /// The number of a volume whose store has this note, for a manager that starts at `now`.
    fn noted(note: &NumberLeaseNote, now: Instant) -> Number {
        let holding = if note.is_over {
            Holding::Free
        } else {
            Holding::Noted {
                claimant: note.claimant,
                until: now + NUMBER_LEASE_OVER,
            }
        };
        Number {
            holding,
            generation: note.generation,
            last: Some(note.claimant),
        }
    }
}

/// The leases of all numbers.
#[derive(Debug, Default)]
pub(super) struct NumberLeases {
    numbers: RefCell<BTreeMap<u32, Number>>,
    /// The notes as the store has them; none where that is not known.
    noted: RefCell<BTreeMap<u32, NumberLeaseNote>>,
    noting: Mutex<()>,
}

impl NumberLeases {
    /// The leases that may still last when a manager starts at `now`.
    ///
    /// # Errors
    /// The store fails, or has a damaged value.
    pub(super) fn load(store: &dyn MetaStore, now: Instant) -> Outcome<NumberLeases> {
        let noted = look(store, claims::leased)?;
        let numbers = noted.iter();
        let numbers = numbers.map(|(number, note)| (*number, Number::noted(note, now)));
        Ok(NumberLeases {
            numbers: RefCell::new(numbers.collect()),
            noted: RefCell::new(noted),
            noting: Mutex::default(),
        })
    }

    /// I/O servers of the manager's process have these numbers.
    pub(super) fn are_here(&self, here: &[u32]) {
        let mut numbers = self.numbers.borrow_mut();
        for number in here {
            numbers.entry(*number).or_default().holding = Holding::Here;
        }
    }

    /// Whether a process that asks for no lease, of an earlier release, would serve beside one that has it.
    pub(super) fn is_held(&self, number: u32, now: Instant) -> bool {
        match self.numbers.borrow().get(&number).map(|it| &it.holding) {
            Some(Holding::Held { until, .. }) => now < *until,
            Some(Holding::Here) => true,
            Some(Holding::Noted { .. } | Holding::Free) | None => false,
        }
    }

    /// Works on a number.
    fn with<T>(&self, number: u32, work: impl FnOnce(&mut Number) -> T) -> T {
        // Bounded by WIDTH_MAX: the caller knows that there is such a server.
        work(self.numbers.borrow_mut().entry(number).or_default())
    }
}

impl Manager {
    /// I/O servers of this process have these numbers: no other process gets them.
    pub fn has_io_servers(&self, numbers: &[u32]) {
        self.number_leases.are_here(numbers);
    }

    /// Ends the connection to an I/O server, if there is one: another process has its number.
    pub(super) fn leave(&self, number: u32) {
        self.servers.leave(number);
    }

    /// Leases the number of an I/O server to the process at the address in `wanted`, or takes it back. The
    /// address of a process that may have the number goes to `learn`, also while the manager may grant nothing: it
    /// needs that server's word for its term.
    ///
    /// # Errors
    /// `Inval`: there is no such server. Others: of the store.
    pub(super) async fn lease_number(
        &self,
        wanted: NumberLeaseWanted,
        learn: impl Fn(u32, Address) -> Result<(), Status>,
    ) -> Result<NumberLeaseAnswer, Status> {
        let NumberLeaseWanted {
            server,
            claimant,
            generation: had,
            ends,
        } = wanted;
        let (number, leases) = (server.number, &self.number_leases);
        if number >= self.objects.count() {
            return Err(Status::Inval);
        }
        let answer = |outcome, left: Duration| NumberLeaseAnswer {
            outcome,
            generation: leases.with(number, |it| it.generation),
            left_ms: left.as_millis() as u32,
            holder: server.address.clone(),
        };
        if ends {
            if leases.with(number, |it| it.give_up(&claimant)) {
                self.note_lease(number).await?;
            }
            return Ok(answer(NumberLeaseOutcome::Ended, Duration::ZERO));
        }
        let judge = |it: &mut Number| {
            let judged = it.judge(&claimant, had, self.runtime.now());
            judged.map_err(|refused| refused.answer(it.generation))
        };
        if let Err(refused) = leases.with(number, judge) {
            return Ok(refused);
        }
        // Before the process serves, whichever manager grants that.
        self.is_served(number).await?;
        if !self.office.is_held() {
            learn(number, server.address.clone())?;
            return Ok(answer(NumberLeaseOutcome::Begins, Duration::ZERO));
        }
        // Judged again: another process may have got it meanwhile. Held before the next `await`, so none does from now.
        let address = server.address.clone();
        let hold = |it: &mut Number| {
            judge(it).map(|()| it.hold(claimant, had, address, self.runtime.now()))
        };
        if let Err(refused) = leases.with(number, hold) {
            return Ok(refused);
        }
        learn(number, server.address.clone())?;
        self.note_lease(number).await?;
        // Does not wait for it: the manager may answer when this server, and others that ask, confirm its term.
        if !self.office.may_answer(true) {
            return Ok(answer(NumberLeaseOutcome::Begins, Duration::ZERO));
        }
        Ok(answer(NumberLeaseOutcome::Granted, NUMBER_LEASE))
    }

    /// Makes it durable which process has a number, before it hears of its lease, or that it has given it back.
    async fn note_lease(&self, number: u32) -> Result<(), Status> {
        let leases = &self.number_leases;
        // One at a time, so that the last one that is written is the last one that has it.
        let _turn = leases.noting.lock().await;
        let Some(note) = leases.with(number, |it| it.note()) else {
            return Ok(());
        };
        // A commit that fails may have been done.
        if leases.noted.borrow_mut().remove(&number) != Some(note) {
            let noting = self.beside(move |store| {
                Ok(store
                    .commit(&mut |transaction| claims::note_leased(transaction, number, &note))?)
            });
            noting.await?;
        }
        leases.noted.borrow_mut().insert(number, note);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gannet_meta::MemoryStore;

    const NUMBER: u32 = 2;

    fn at(seconds: u64) -> Instant {
        Instant::START + Duration::from_secs(seconds)
    }

    fn process(folder: u8, process: u8) -> Claimant {
        Claimant {
            folder: [folder; 16],
            process: [process; 16],
        }
    }

    /// Asks at `now`; the generation of the lease, or how long another process has the number.
    fn ask(
        number: &mut Number,
        claimant: Claimant,
        had: u64,
        now: u64,
    ) -> Result<u64, Option<u64>> {
        let judged = number.judge(&claimant, had, at(now));
        judged.map_err(|refused| match refused {
            Refused::Taken { left, .. } => Some(left.as_secs()),
            Refused::Superseded => None,
        })?;
        number.hold(claimant, had, Address::default(), at(now));
        Ok(number.generation)
    }

    fn held() -> Number {
        let mut number = Number::default();
        assert_eq!(ask(&mut number, process(1, 9), 0, 0), Ok(1));
        number
    }

    /// The number of [`held`] in the store, for a manager that starts.
    fn noted() -> Number {
        let (store, note) = (MemoryStore::default(), held().note().unwrap());
        let noted = store.commit(&mut |it| claims::note_leased(it, NUMBER, &note));
        noted.unwrap();
        let leases = NumberLeases::load(&store, Instant::START).unwrap();
        leases.with(NUMBER, |it| it.clone())
    }

    fn here() -> Number {
        let leases = NumberLeases::default();
        leases.are_here(&[NUMBER]);
        leases.with(NUMBER, |it| it.clone())
    }

    #[test]
    fn its_table_of_transitions() {
        let (same_folder, same_process) = (process(1, 1), process(3, 9));
        let other = process(2, 2);
        for (from, folder, process_, by_another, late, given_up) in [
            (Number::default(), Ok(1), Ok(1), Ok(1), Ok(1), Ok(1)),
            (
                here(),
                Err(Some(31)),
                Err(Some(31)),
                Err(Some(31)),
                Err(Some(31)),
                Err(Some(31)),
            ),
            (noted(), Ok(2), Ok(1), Err(Some(26)), Ok(2), Ok(2)),
            (held(), Ok(2), Ok(1), Err(Some(26)), Ok(2), Ok(2)),
        ] {
            assert_eq!(ask(&mut from.clone(), same_folder, 0, 5), folder);
            assert_eq!(ask(&mut from.clone(), same_process, 0, 5), process_);
            assert_eq!(ask(&mut from.clone(), other, 0, 5), by_another);
            assert_eq!(ask(&mut from.clone(), other, 0, 31), late);
            let mut ended = from.clone();
            assert!(!ended.give_up(&other));
            assert_eq!(ended, from);
            ended.give_up(&process(1, 9));
            assert_eq!(ask(&mut ended, other, 0, 5), given_up);
        }
    }

    #[test]
    fn a_process_that_was_followed_by_another_never_gets_it_again() {
        let (first, second) = (process(1, 9), process(2, 2));
        // Also if both use one folder, where that cannot be locked.
        for second in [second, process(1, 2)] {
            let mut number = held();
            assert_eq!(ask(&mut number, second, 0, 31), Ok(2));
            assert_eq!(ask(&mut number, first, 1, 32), Err(None));
            assert!(number.give_up(&second));
            assert_eq!(ask(&mut number, first, 1, 33), Err(None));
            let mut known = Number::noted(&number.note().unwrap(), at(40));
            assert_eq!(ask(&mut known, first, 1, 99), Err(None));
            // Started again, it is another process.
            assert_eq!(ask(&mut known, process(1, 3), 0, 99), Ok(3));
        }
    }

    #[test]
    fn a_lease_that_is_renewed_does_not_run_out() {
        let mut number = held();
        for now in 0..100 {
            assert_eq!(ask(&mut number, process(1, 9), 1, now), Ok(1));
            assert_eq!(ask(&mut number, process(2, 2), 0, now), Err(Some(31)));
        }
        assert_eq!(ask(&mut number, process(2, 2), 0, 99 + 31), Ok(2));
        assert_eq!(ask(&mut number, process(3, 3), 0, 99 + 32), Err(Some(30)));
    }

    #[test]
    fn metadata_from_a_backup_does_not_count_backwards() {
        let mut number = held();
        assert_eq!(ask(&mut number, process(1, 2), 7, 1), Ok(8));
    }
}
