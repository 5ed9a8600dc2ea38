//! The calls that a core executed, by procedure, status and time.

use super::Check;
use gannet_metrics::{Busy, Counter, Exposition, Family, Label, Latency, PartCounters, Source};
use gannet_rpc::{Call, Reply};
use gannet_runtime::stages::Parts;
use gannet_wire::mount3::{self, MountProcedure};
use gannet_wire::nfs3::{self, NfsProcedure, Nfsstat};
use std::array;
use std::time::Duration;

const OPERATIONS: Family = Family::counter(
    "gannet_nfs_operations",
    "Calls executed. REFUSED are those whose arguments or caller were refused before.",
);
const OPERATION_SECONDS: Family = Family::latency(
    "gannet_nfs_operation_seconds",
    "Time from the start of a call's execution to its reply.",
);
const PART_SECONDS: Family = Family::counter(
    "gannet_nfs_operation_part_seconds",
    "Time of calls from their arrival until their replies have left, by what it went into. Counted while --slow is set, or `gannet trace` watches.",
);

const REFUSALS: Family = Family::counter(
    "gannet_nfs_refusals",
    "Calls and connections refused, by the check that refused them.",
);

/// Calls that a core has executed, and those that it has refused.
#[derive(Default)]
pub struct Operations {
    nfs: [Executed; NfsProcedure::ALL.len()],
    mount: [Executed; MountProcedure::ALL.len()],
    refusals: [Counter; Check::ALL.len()],
    /// The exports and files with the most calls.
    pub(super) busy: Busy,
}

/// Calls of one procedure.
struct Executed {
    latency: Latency,
    statuses: [Counter; STATUSES],
    parts: PartCounters,
}

/// Success, the statuses of RFC 1813, those of no RFC, and calls refused.
const STATUSES: usize = Nfsstat::ALL.len() + 3;
const OTHER: usize = STATUSES - 2;
const REFUSED: usize = STATUSES - 1;

impl Default for Executed {
    fn default() -> Executed {
        Executed {
            latency: Latency::default(),
            statuses: array::from_fn(|_| Counter::default()),
            parts: PartCounters::default(),
        }
    }
}

/// The place of a reply's status.
fn place(reply: &Reply) -> usize {
    match reply.first_word() {
        // NULL has no results.
        None if reply.is_success() => 0,
        first_word => place_of(first_word),
    }
}

/// The place of the status that the results begin with.
fn place_of(first_word: Option<u32>) -> usize {
    match first_word {
        None => REFUSED,
        Some(0) => 0,
        Some(code) => {
            let found = Nfsstat::ALL.binary_search_by_key(&code, |status| status.code());
            found.map_or(OTHER, |index| index + 1)
        }
    }
}

/// The name of the status at a place.
fn name(place: usize) -> &'static str {
    match place {
        0 => "OK",
        REFUSED => "REFUSED",
        place => {
            let status = Nfsstat::ALL.get(place - 1);
            status.and_then(|status| status.name()).unwrap_or("OTHER")
        }
    }
}

/// The name of the status of an executed call.
pub(super) fn status_of(call: &Call, reply: &Reply) -> &'static str {
    let has_status =
        call.program == nfs3::PROGRAM || call.procedure == MountProcedure::Mnt.number();
    name(match (has_status, reply.is_success()) {
        (true, _) => place(reply),
        (false, true) => 0,
        (false, false) => REFUSED,
    })
}

impl Operations {
    /// Adds the parts of an NFS call's time.
    pub(super) fn note_parts(&self, call: &Call, parts: &Parts) {
        let procedure = usize::try_from(call.procedure).ok();
        let executed = procedure.and_then(|procedure| self.nfs.get(procedure));
        let Some(executed) = executed.filter(|_| call.program == nfs3::PROGRAM) else {
            return;
        };
        executed.parts.add(parts);
    }

    /// The times of the calls of a procedure that were taken apart.
    pub fn parts(&self, procedure: NfsProcedure) -> Parts {
        let executed = self.nfs.get(procedure.number() as usize);
        executed.map_or_else(Parts::default, |executed| executed.parts.read())
    }

    /// Counts a refusal.
    pub(super) fn note_refusal(&self, check: Check) {
        if let Some(counter) = self.refusals.get(check as usize) {
            counter.add(1);
        }
    }

    /// Counts a call.
    pub(super) fn note(&self, call: &Call, reply: &Reply, took: Duration) {
        let Ok(procedure) = usize::try_from(call.procedure) else {
            return;
        };
        let (executed, place) = match call.program {
            nfs3::PROGRAM => (self.nfs.get(procedure), place(reply)),
            // Results of most MOUNT procedures are lists without a status.
            mount3::PROGRAM if call.procedure == MountProcedure::Mnt.number() => {
                (self.mount.get(procedure), place(reply))
            }
            mount3::PROGRAM => {
                let place = if reply.is_success() { 0 } else { REFUSED };
                (self.mount.get(procedure), place)
            }
            _ => return,
        };
        let Some(executed) = executed else { return };
        executed.latency.add(took);
        if let Some(counter) = executed.statuses.get(place) {
            counter.add(1);
        }
    }
}

/// The words of a call in labels: its protocol, its procedure, and the status that its results begin with.
pub(super) fn words(call: &Call, first_word: Option<u32>) -> Option<[&'static str; 3]> {
    let procedure = call.procedure;
    let (protocol, procedure, has_status) = match call.program {
        nfs3::PROGRAM => {
            let procedure = NfsProcedure::from_number(procedure)?;
            ("nfs3", procedure.name(), procedure != NfsProcedure::Null)
        }
        mount3::PROGRAM => {
            let procedure = MountProcedure::from_number(procedure)?;
            ("mount3", procedure.name(), procedure == MountProcedure::Mnt)
        }
        _ => return None,
    };
    let status = if has_status { place_of(first_word) } else { 0 };
    Some([protocol, procedure, name(status)])
}

impl Source for Operations {
    fn collect(&self, into: &mut Exposition) {
        for (check, counter) in Check::ALL.iter().zip(&self.refusals) {
            let check = Label::word("check", check.name());
            into.counter(&REFUSALS, &[check], counter);
        }
        let nfs = self
            .nfs
            .iter()
            .zip(NfsProcedure::ALL.map(NfsProcedure::name));
        let mount = (self.mount.iter()).zip(MountProcedure::ALL.map(MountProcedure::name));
        let nfs = nfs.map(|(executed, procedure)| ("nfs3", procedure, executed));
        let mount = mount.map(|(executed, procedure)| ("mount3", procedure, executed));
        for (protocol, procedure, executed) in nfs.chain(mount) {
            let labels = [
                Label::word("protocol", protocol),
                Label::word("procedure", procedure),
            ];
            into.latency(&OPERATION_SECONDS, &labels, &executed.latency);
            executed.parts.collect(&PART_SECONDS, labels, into);
            let [protocol, procedure] = labels;
            for (place, counter) in executed.statuses.iter().enumerate() {
                // What never happened needs no series.
                if counter.total() > 0 {
                    let status = Label::word("status", name(place));
                    into.counter(&OPERATIONS, &[protocol, procedure, status], counter);
                }
            }
        }
    }

    fn busy(&self) -> Option<&Busy> {
        Some(&self.busy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_in_the_order_of_their_codes() {
        assert!(Nfsstat::ALL.is_sorted_by_key(|status| status.code()));
        let names: Vec<_> = (0..STATUSES).map(name).collect();
        assert_eq!(names[..3], ["OK", "PERM", "NOENT"]);
        assert_eq!(names[OTHER..], ["OTHER", "REFUSED"]);
    }
}
