//! The managers of a volume: `gannet volume switch`, and their part of `gannet volume status`.

use crate::cli::SwitchOptions;
use crate::failure::{Explain, Failure};
use crate::output;
use crate::session;
use gannet::admin::Finding;
use gannet_runtime::{Handle, sleep};
use gannet_vfs::{Credentials, Status};
use gannet_volume::client::VolumeFs;
use gannet_wire::volume::{ManagersAnswer, ManagersOutcome, StandbyRecord};
use serde::Serialize;
use std::time::{Duration, Instant};

/// How long another manager may take to begin: longer than two leases and a silent I/O server.
const PATIENCE: Duration = Duration::from_secs(30);
/// The pause between two questions whether it has begun.
const ASK_EVERY: Duration = Duration::from_millis(50);

/// The managers of a volume; a part of the output of `--json`.
#[derive(Debug, Serialize)]
pub(super) struct ManagersStatus {
    /// The engine that has the journal of the names.
    engine: String,
    /// The name of the active manager.
    active: String,
    /// How long the active manager may answer, if nothing more is heard of its engine and the I/O servers.
    lease_seconds: f64,
    /// The last record of the journal.
    record: u64,
    standbys: Vec<StandbyStatus>,
}

#[derive(Debug, Serialize)]
struct StandbyStatus {
    name: String,
    /// It has been heard of in the last seconds.
    is_there: bool,
    /// Records of the journal that it lacks.
    behind: u64,
}

impl ManagersStatus {
    /// The managers of a volume whose journal is in an engine.
    pub(super) fn of(answer: &ManagersAnswer) -> Option<ManagersStatus> {
        let standby = |it: &StandbyRecord| StandbyStatus {
            name: it.name.clone(),
            is_there: it.is_there,
            behind: answer.record.saturating_sub(it.has),
        };
        (!answer.engine.is_empty()).then(|| ManagersStatus {
            engine: answer.engine.clone(),
            active: answer.active.clone(),
            lease_seconds: f64::from(answer.lease_ms) / 1000.0,
            record: answer.record,
            standbys: answer.standbys.iter().map(standby).collect(),
        })
    }

    /// The name of the active manager.
    pub(super) fn active(&self) -> &str {
        &self.active
    }

    /// A fact that needs an administrator, if there is one.
    pub(super) fn finding(&self) -> Option<Finding> {
        let is_alone = !self.standbys.iter().any(|it| it.is_there);
        is_alone.then(|| Finding {
            what: String::from("no manager stands by: names are gone with the active one"),
            next: String::from("start the others: `gannet serve --volume PATH --role manager`"),
        })
    }

    pub(super) fn text(&self) -> String {
        let mut text = format!(
            "journal     {}, record {}, lease {:.1} s\nstandbys    ",
            self.engine, self.record, self.lease_seconds
        );
        if self.standbys.is_empty() {
            text.push_str("none");
        }
        for (number, standby) in self.standbys.iter().enumerate() {
            if number > 0 {
                text.push_str("\n            ");
            }
            let state = match standby.behind {
                _ if !standby.is_there => String::from("away"),
                1 => String::from("1 record behind"),
                behind => format!("{behind} records behind"),
            };
            text.push_str(&format!("{}, {state}", standby.name));
        }
        text
    }
}

/// Has another manager take over, and waits for that.
///
/// # Errors
/// The volume cannot be reached, has no other manager, or the caller may not.
pub(super) fn switch(options: &SwitchOptions) -> Result<(), Failure> {
    session::run(async |runtime| {
        let url = &options.url;
        let (volume, caller) = session::open_volume(&runtime, url, &options.client).await?;
        let what = || format!("cannot switch the manager of {url}");
        let before = volume.managers(&caller, 0).await.explain(what)?;
        let began = Instant::now();
        let answer = volume.managers(&caller, before.term).await;
        let outcome = match answer {
            Ok(answer) => answer.outcome,
            // The answer was lost, and the manager that is asked again has the next term.
            Err(Status::Jukebox) => ManagersOutcome::Switches,
            Err(status) => {
                let failure = Err::<(), _>(status).explain(what).err();
                return failure.map_or(Ok(()), |it| {
                    Err(it.hint(
                        "only root and the owner of the volume's root directory may: see --uid",
                    ))
                });
            }
        };
        let fault = match outcome {
            ManagersOutcome::Switches | ManagersOutcome::OtherTerm => None,
            ManagersOutcome::NoEngine => Some((
                "its journal is in a file, so it has one manager",
                "see \"Managers that take over\" in docs/volumes.md",
            )),
            ManagersOutcome::NoStandby | ManagersOutcome::Told => Some((
                "no manager stands by",
                "start one: `gannet serve --volume PATH --role manager`",
            )),
        };
        if let Some((why, hint)) = fault {
            return Err(Failure::new(what(), why).hint(hint));
        }
        let after = next_term(&runtime, &volume, &caller, before.term).await;
        let after = after.ok_or_else(|| {
            let why = format!("no other manager answers within {} s", PATIENCE.as_secs());
            Failure::new(what(), why).hint("look at the logs of the managers")
        })?;
        output::line(&format!(
            "manager     {}, term {} (before: {}, term {}), after {:.1} s",
            after.active,
            after.term,
            before.active,
            before.term,
            began.elapsed().as_secs_f64()
        ))
    })
}

/// Waits for a manager with a later term.
async fn next_term(
    runtime: &Handle,
    volume: &VolumeFs,
    caller: &Credentials,
    ended: u64,
) -> Option<ManagersAnswer> {
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        match volume.managers(caller, 0).await {
            Ok(answer) if answer.term > ended => return Some(answer),
            _ => sleep(runtime, ASK_EVERY).await,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(standbys: Vec<StandbyRecord>) -> ManagersAnswer {
        ManagersAnswer {
            outcome: ManagersOutcome::Told,
            term: 7,
            lease_ms: 1870,
            engine: String::from("etcd"),
            record: 42,
            active: String::from("m0:20050"),
            standbys,
        }
    }

    #[test]
    fn standbys_are_told_by_what_they_lack() {
        let standby = |name: &str, has, is_there| StandbyRecord {
            name: name.to_owned(),
            has,
            is_there,
        };
        let standbys = vec![standby("m1:20050", 40, true), standby("m2:20050", 1, false)];
        let status = ManagersStatus::of(&answer(standbys)).unwrap();
        assert_eq!(
            status.text(),
            "journal     etcd, record 42, lease 1.9 s\n\
             standbys    m1:20050, 2 records behind\n            m2:20050, away"
        );
        assert!(status.finding().is_none());
        let alone = ManagersStatus::of(&answer(vec![standby("m2:20050", 1, false)]));
        assert!(alone.unwrap().finding().is_some());
        let in_file = ManagersAnswer {
            engine: String::new(),
            ..answer(Vec::new())
        };
        assert!(ManagersStatus::of(&in_file).is_none());
    }
}
