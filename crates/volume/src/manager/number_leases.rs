//! Leases of the I/O servers' numbers: one process at a time serves under each.
//!
//! A process asks twice a second. It has the number for [`NUMBER_LEASE`] after it asked, and for as long and a margin
//! no other process gets it. A process of the same folder gets it at once: the former one has unlocked the folder, so
//! it has ended. The process is durable before its first lease is granted. So the manager of a later term knows for
//! which one it need not wait, and waits for all others.

use super::{Manager, look};
use crate::limits::{NUMBER_LEASE, NUMBER_LEASE_OVER};
use gannet_meta::MetaStore;
use gannet_meta::claims;
use gannet_meta::namespace::Outcome;
use gannet_runtime::Instant;
use gannet_wire::volume::{
    Address, Claimant, NumberLeaseAnswer, NumberLeaseOutcome, NumberLeaseWanted, Status, Token,
};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::Mutex;

/// The lease of a number, as far as it is known.
///
/// | from \ event | asked, same folder or process | asked by another | by another after its end | given up |
/// |---|---|---|---|---|
/// | none | `Held` | `Held` | `Held` | none |
/// | `Here` | refused | refused | refused | `Here` |
/// | `Noted` | `Held` | refused | `Held` | none |
/// | `Held` | `Held`; refused if it is the process before this one | refused | `Held` | none |
#[derive(Debug, Clone, PartialEq, Eq)]
enum Holding {
    /// An I/O server of the manager's process has it.
    Here,
    /// This process, or another one of its folder, may have it until then by a grant of an earlier term.
    Noted { claimant: Claimant, until: Instant },
    /// A process has it until then.
    Held {
        claimant: Claimant,
        /// The process of the same folder before it, which has no right to it any more, even if it still runs: not all
        /// file systems lock folders.
        former: Option<Token>,
        address: Address,
        until: Instant,
    },
}

/// Another process has the number.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Taken {
    left: Duration,
    /// Where it is; `None` if it was not heard of in this term.
    holder: Option<Address>,
}

impl Taken {
    fn answer(self) -> NumberLeaseAnswer {
        let outcome = match self.holder {
            Some(_) => NumberLeaseOutcome::Taken,
            None => NumberLeaseOutcome::Waits,
        };
        answer(outcome, self.left, self.holder.unwrap_or_default())
    }
}

fn answer(outcome: NumberLeaseOutcome, left: Duration, holder: Address) -> NumberLeaseAnswer {
    NumberLeaseAnswer {
        outcome,
        // A lease is of some seconds.
        left_ms: left.as_millis() as u32,
        holder,
    }
}

/// Whether these may not both run, or are the same process.
fn are_alike(one: &Claimant, other: &Claimant) -> bool {
    one.folder == other.folder || one.process == other.process
}

/// The leases of all numbers.
#[derive(Debug, Default)]
pub(super) struct NumberLeases {
    holdings: RefCell<BTreeMap<u32, Holding>>,
    /// The processes as the store has them.
    noted: RefCell<BTreeMap<u32, Claimant>>,
    noting: Mutex<()>,
}

impl NumberLeases {
    /// The leases that may still last when a manager starts at `now`.
    ///
    /// # Errors
    /// The store fails, or has a damaged value.
    pub(super) fn load(store: &dyn MetaStore, now: Instant) -> Outcome<NumberLeases> {
        let noted = look(store, claims::leased)?;
        let until = now + NUMBER_LEASE_OVER;
        let holdings = noted.iter();
        let holdings =
            holdings.map(|(number, &claimant)| (*number, Holding::Noted { claimant, until }));
        Ok(NumberLeases {
            holdings: RefCell::new(holdings.collect()),
            noted: RefCell::new(noted),
            noting: Mutex::default(),
        })
    }

    /// Whether this process may have the number now.
    fn judge(&self, number: u32, claimant: &Claimant, now: Instant) -> Result<(), Taken> {
        let refused = |until: Instant, holder| {
            let left = until.duration_since(now);
            Err(Taken { left, holder })
        };
        match self.holdings.borrow().get(&number) {
            None => Ok(()),
            Some(Holding::Here) => refused(now + NUMBER_LEASE_OVER, Some(Address::default())),
            Some(Holding::Noted {
                claimant: noted,
                until,
            }) => {
                if are_alike(noted, claimant) || *until <= now {
                    return Ok(());
                }
                refused(*until, None)
            }
            Some(Holding::Held {
                claimant: holder,
                former,
                address,
                until,
            }) => {
                let is_former = *former == Some(claimant.process);
                if (are_alike(holder, claimant) && !is_former) || *until <= now {
                    return Ok(());
                }
                refused(*until, Some(address.clone()))
            }
        }
    }

    /// The number is this process's until the margin after its lease; whether one of another folder had it.
    fn hold(&self, number: u32, claimant: Claimant, address: Address, now: Instant) -> bool {
        debug_assert_eq!(self.judge(number, &claimant, now), Ok(()));
        let mut holdings = self.holdings.borrow_mut();
        let (former, has_moved) = match holdings.get(&number) {
            Some(Holding::Held {
                claimant: holder,
                former,
                ..
            }) if are_alike(holder, &claimant) => {
                let is_same = holder.process == claimant.process;
                let former = if is_same {
                    *former
                } else {
                    Some(holder.process)
                };
                (former, false)
            }
            Some(Holding::Noted {
                claimant: noted, ..
            }) => (None, !are_alike(noted, &claimant)),
            Some(Holding::Held { .. }) => (None, true),
            Some(Holding::Here) | None => (None, false),
        };
        let held = Holding::Held {
            claimant,
            former,
            address,
            until: now + NUMBER_LEASE_OVER,
        };
        holdings.insert(number, held);
        has_moved
    }

    /// A process gives the number up; true if it had it. Others may have it at once.
    fn give_up(&self, number: u32, claimant: &Claimant) -> bool {
        let mut holdings = self.holdings.borrow_mut();
        let has_it = match holdings.get(&number) {
            Some(
                Holding::Held {
                    claimant: holder, ..
                }
                | Holding::Noted {
                    claimant: holder, ..
                },
            ) => holder.process == claimant.process,
            Some(Holding::Here) | None => false,
        };
        if has_it {
            holdings.remove(&number);
        }
        has_it
    }

    /// I/O servers of the manager's process have these numbers.
    pub(super) fn are_here(&self, numbers: &[u32]) {
        let mut holdings = self.holdings.borrow_mut();
        holdings.extend(numbers.iter().map(|number| (*number, Holding::Here)));
    }

    /// Whether a process that asks for no lease, of an earlier release, would serve beside one that has it.
    pub(super) fn is_held(&self, number: u32, now: Instant) -> bool {
        match self.holdings.borrow().get(&number) {
            Some(Holding::Held { until, .. }) => now < *until,
            Some(Holding::Here) => true,
            Some(Holding::Noted { .. }) | None => false,
        }
    }
}

impl Manager {
    /// I/O servers of this process have these numbers: no other process gets them.
    pub fn has_io_servers(&self, numbers: &[u32]) {
        self.number_leases.are_here(numbers);
    }

    /// Leases the number of an I/O server to the process at the address in `wanted`, or takes it back. Before it waits
    /// for its own right to answer, it gives the address of a process that may have the number to `learn`: it needs
    /// that server's word for its term.
    ///
    /// # Errors
    /// `Inval`: there is no such server. `Jukebox`: the manager may not answer now. Others: of the store.
    pub(super) async fn lease_number(
        &self,
        wanted: NumberLeaseWanted,
        learn: impl Fn(u32, Address) -> Result<(), Status>,
    ) -> Result<NumberLeaseAnswer, Status> {
        let NumberLeaseWanted {
            server,
            claimant,
            ends,
        } = wanted;
        let (number, leases) = (server.number, &self.number_leases);
        if number >= self.objects.count() {
            return Err(Status::Inval);
        }
        let nobody = Address::default();
        if ends {
            if leases.give_up(number, &claimant) {
                self.note_lease(number).await?;
            }
            return Ok(answer(NumberLeaseOutcome::Ended, Duration::ZERO, nobody));
        }
        if let Err(taken) = leases.judge(number, &claimant, self.runtime.now()) {
            return Ok(taken.answer());
        }
        // Before the process serves, whichever manager grants that.
        self.is_served(number).await?;
        if !self.office.is_held() {
            learn(number, server.address)?;
            return Ok(answer(NumberLeaseOutcome::Begins, Duration::ZERO, nobody));
        }
        // Judged again: another process may have got it meanwhile. Held before the next `await`, so none does from now.
        let now = self.runtime.now();
        if let Err(taken) = leases.judge(number, &claimant, now) {
            return Ok(taken.answer());
        }
        let address = server.address;
        let has_moved = leases.hold(number, claimant, address.clone(), now);
        learn(number, address.clone())?;
        self.note_lease(number).await?;
        if has_moved {
            tracing::info!(number, %address, "an I/O server is served from another folder or host");
            // The former process may still answer.
            self.servers.leave(number);
        }
        let granted = answer(NumberLeaseOutcome::Granted, NUMBER_LEASE, address);
        self.office.within_lease(Ok(granted), true).await
    }

    /// Makes it durable which process has a number, before it hears of its lease, or that none has.
    async fn note_lease(&self, number: u32) -> Result<(), Status> {
        let leases = &self.number_leases;
        // One at a time, so that the last one that is written is the last one that has it.
        let _turn = leases.noting.lock().await;
        let claimant = match leases.holdings.borrow().get(&number) {
            Some(Holding::Held { claimant, .. } | Holding::Noted { claimant, .. }) => {
                Some(*claimant)
            }
            Some(Holding::Here) | None => None,
        };
        if leases.noted.borrow().get(&number) == claimant.as_ref() {
            return Ok(());
        }
        let noting = self.beside(move |store| {
            Ok(store.commit(&mut |transaction| match &claimant {
                Some(claimant) => claims::note_leased(transaction, number, claimant),
                None => claims::note_given_up(transaction, number),
            })?)
        });
        noting.await?;
        let mut noted = leases.noted.borrow_mut();
        match claimant {
            Some(claimant) => noted.insert(number, claimant),
            None => noted.remove(&number),
        };
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

    fn place(port: u16) -> Address {
        Address {
            host: String::from("io"),
            port,
        }
    }

    /// Asks at `now`; the lease, or how long another process has the number.
    fn ask(leases: &NumberLeases, claimant: Claimant, now: u64) -> Result<(), u64> {
        let judged = leases.judge(NUMBER, &claimant, at(now));
        judged.map_err(|taken| taken.left.as_secs())?;
        leases.hold(NUMBER, claimant, place(1), at(now));
        Ok(())
    }

    fn noted() -> NumberLeases {
        let store = MemoryStore::default();
        let noted = store.commit(&mut |it| claims::note_leased(it, NUMBER, &process(1, 9)));
        noted.unwrap();
        NumberLeases::load(&store, at(0)).unwrap()
    }

    #[test]
    fn its_table_of_transitions() {
        let none = NumberLeases::default;
        let here = || {
            let leases = none();
            leases.are_here(&[NUMBER]);
            leases
        };
        let held = || {
            let leases = none();
            assert_eq!(ask(&leases, process(1, 9), 0), Ok(()));
            leases
        };
        let (same_folder, same_process) = (process(1, 1), process(3, 9));
        let other = process(2, 2);
        assert_eq!(ask(&none(), other, 5), Ok(()));
        for (leases, alike, by_another, late, given_up) in [
            (
                &none as &dyn Fn() -> NumberLeases,
                Ok(()),
                Ok(()),
                Ok(()),
                Ok(()),
            ),
            (&here, Err(31), Err(31), Err(31), Err(31)),
            (&noted, Ok(()), Err(26), Ok(()), Ok(())),
            (&held, Ok(()), Err(26), Ok(()), Ok(())),
        ] {
            assert_eq!(ask(&leases(), same_folder, 5), alike);
            assert_eq!(ask(&leases(), same_process, 5), alike);
            assert_eq!(ask(&leases(), other, 5), by_another);
            assert_eq!(ask(&leases(), other, 31), late);
            let ended = leases();
            ended.give_up(NUMBER, &other);
            assert_eq!(ask(&ended, other, 5), by_another);
            ended.give_up(NUMBER, &process(1, 9));
            assert_eq!(ask(&ended, other, 5), given_up);
        }
    }

    #[test]
    fn a_process_whose_folder_was_locked_by_another_is_over() {
        let leases = noted();
        let (first, second) = (process(1, 1), process(1, 2));
        assert_eq!(ask(&leases, first, 0), Ok(()));
        assert_eq!(ask(&leases, first, 1), Ok(()));
        assert_eq!(ask(&leases, second, 2), Ok(()));
        assert_eq!(ask(&leases, second, 3), Ok(()));
        assert_eq!(ask(&leases, first, 4), Err(30));
    }

    #[test]
    fn a_lease_that_is_renewed_does_not_run_out() {
        let leases = noted();
        for now in 0..100 {
            assert_eq!(ask(&leases, process(1, 1), now), Ok(()));
            assert_eq!(ask(&leases, process(2, 2), now), Err(31));
            assert!(leases.is_held(NUMBER, at(now)));
        }
        assert!(!leases.is_held(NUMBER, at(99 + 31)));
        assert_eq!(ask(&leases, process(2, 2), 99 + 31), Ok(()));
        assert_eq!(ask(&leases, process(1, 1), 99 + 32), Err(30));
    }
}
