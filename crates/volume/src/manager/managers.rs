//! The managers of the volume, of which this one is active, and may give the role up.

use super::{Manager, TermError};
use gannet_runtime::sleep;
use gannet_wire::volume::{
    Caller, MANAGER_NAME_MAX, ManagersAnswer, ManagersOutcome, ManagersWanted, STANDBYS_MAX,
    StandbyRecord, Status,
};
use gannet_wire::xdr::to_bytes;
use std::rc::Rc;
use std::time::Duration;

/// The time in which the answer about a switch leaves this host.
const ANSWER_LEAVES: Duration = Duration::from_millis(50);

impl Manager {
    /// Says which managers there are. If the term that is to end is the present one, and another manager stands by,
    /// this one ends.
    ///
    /// # Errors
    /// `Perm`: the caller may not end a term.
    pub(super) fn managers(
        self: &Rc<Self>,
        caller: &Caller,
        wanted: ManagersWanted,
    ) -> Result<Vec<u8>, Status> {
        if wanted.ended > 0 {
            self.may_administer(caller)?;
        }
        let journal = self.office.followers();
        let term = self.office.number();
        let mut answer = ManagersAnswer {
            outcome: ManagersOutcome::Told,
            term,
            // A lease is of some seconds.
            lease_ms: self.office.lease_left().as_millis() as u32,
            engine: String::new(),
            record: 0,
            active: String::new(),
            standbys: Vec::new(),
        };
        if let Some(journal) = journal {
            answer.engine = String::from(journal.engine);
            (answer.record, answer.active) = (journal.last, journal.manager);
            let mut others = journal.followers;
            others.sort_by_key(|it| !it.is_there);
            let others = others.into_iter().take(STANDBYS_MAX);
            answer.standbys = others
                .map(|it| StandbyRecord {
                    name: it.name,
                    has: it.has,
                    is_there: it.is_there,
                })
                .collect();
        }
        debug_assert!(answer.active.len() <= MANAGER_NAME_MAX);
        answer.outcome = match wanted.ended {
            0 => ManagersOutcome::Told,
            _ if self.store.lease().is_none() => ManagersOutcome::NoEngine,
            ended if ended != term => ManagersOutcome::OtherTerm,
            _ if !answer.standbys.iter().any(|it| it.is_there) => ManagersOutcome::NoStandby,
            _ => ManagersOutcome::Switches,
        };
        if answer.outcome == ManagersOutcome::Switches {
            let manager = Rc::clone(self);
            let ends = async move {
                sleep(&manager.runtime, ANSWER_LEAVES).await;
                manager.office.end(TermError::Switched);
            };
            self.runtime.spawn("switch of managers", Box::pin(ends));
        }
        Ok(to_bytes(&answer))
    }
}
