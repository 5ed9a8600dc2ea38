//! The facts of a volume that need an administrator, in the same words for each reader.

use crate::admin::{Finding, NotReady};
use gannet_volume::manager::{IoServerCondition, ManagerCondition};

/// The facts about an I/O server, by its manager or by a client.
#[derive(Debug, Clone, Copy)]
pub struct IoServerFacts<'a> {
    /// Its number.
    pub number: usize,
    /// Its condition.
    pub condition: IoServerCondition,
    /// Why it does not answer.
    pub why: Option<&'a str>,
    /// It has lost a disk at some time.
    pub has_lost_disk: bool,
    /// The URL of the volume, for commands.
    pub url: &'a str,
}

impl IoServerFacts<'_> {
    /// A word for its condition: that of a server with a lost disk differs.
    pub fn state(&self) -> &'static str {
        match self.condition {
            IoServerCondition::Ready if self.has_lost_disk => "lost-disk",
            condition => condition.word(),
        }
    }

    /// The fault and the next step; `None` if it serves all that it ever had.
    pub fn finding(&self) -> Option<Finding> {
        let IoServerFacts { number, url, .. } = *self;
        let start = format!("gannet serve --volume PATH --role io-server={number}");
        let (what, next) = match self.condition {
            IoServerCondition::Starting => return None,
            IoServerCondition::Ready if self.has_lost_disk => (
                "serves a new disk: files may have lost bytes with the one before",
                format!("list them with `gannet volume check --lost {url}`"),
            ),
            IoServerCondition::Ready => return None,
            IoServerCondition::Unregistered => (
                "has not registered with the manager",
                format!("start it on its host: `{start}`"),
            ),
            IoServerCondition::Failing => (
                "answers with errors",
                String::from("read its log, and check the disk of its folder"),
            ),
            IoServerCondition::EmptyDisk => (
                "was refused",
                format!(
                    "mount its disk and start it again; if the disk is lost for good: `{start} --lost-disk {number}`"
                ),
            ),
            _ => (
                "does not answer",
                format!(
                    "start it on its host: `{start}`; if it runs, look for a firewall before its port"
                ),
            ),
        };
        let why = self.why.map_or_else(String::new, |why| format!(": {why}"));
        Some(Finding {
            what: format!("I/O server {number} {what}{why}"),
            next,
        })
    }

    /// Whether the finding is no fault any more, but the memory of one.
    pub fn is_note(&self) -> bool {
        self.condition == IoServerCondition::Ready
    }
}

/// Why a manager in this condition does not answer questions about names.
pub fn not_ready(condition: &ManagerCondition) -> Option<NotReady> {
    let (state, why) = match condition {
        ManagerCondition::Waiting => (
            "waiting",
            "a majority of the I/O servers must accept the manager's term, and too few answer",
        ),
        ManagerCondition::Unconfirmed => (
            "waiting",
            "half of the I/O servers must confirm the manager's term, and fewer answer: calls wait",
        ),
        ManagerCondition::Ended(why) => ("ended", why.as_str()),
        _ => return None,
    };
    Some(NotReady {
        state,
        why: why.to_owned(),
    })
}

/// The finding about a manager that does not answer questions about names.
pub fn manager_finding(not_ready: &NotReady) -> Finding {
    let next = match not_ready.state {
        "waiting" => {
            "start the I/O servers that do not answer; if they are gone for good, start the manager once with --force-term"
        }
        _ => "see \"Two managers\" in docs/volumes.md",
    };
    Finding {
        what: format!("the manager serves no names: {}", not_ready.why),
        next: next.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(condition: IoServerCondition) -> IoServerFacts<'static> {
        IoServerFacts {
            number: 3,
            condition,
            why: Some("connection refused"),
            has_lost_disk: false,
            url: "gannet://HOST/",
        }
    }

    #[test]
    fn each_fault_has_a_step_that_goes_on() {
        for (condition, step) in [
            (IoServerCondition::Silent, "--role io-server=3"),
            (IoServerCondition::Unregistered, "--role io-server=3"),
            (IoServerCondition::EmptyDisk, "--lost-disk 3"),
            (IoServerCondition::Failing, "its log"),
        ] {
            let Finding { what, next } = facts(condition).finding().unwrap();
            assert!(what.starts_with("I/O server 3 "), "{what}");
            assert!(what.ends_with(": connection refused"), "{what}");
            assert!(next.contains(step), "{next}");
            assert!(!facts(condition).is_note());
        }
        assert_eq!(facts(IoServerCondition::Ready).finding(), None);
        assert_eq!(facts(IoServerCondition::Starting).finding(), None);
    }

    #[test]
    fn a_lost_disk_is_a_note_with_the_command_that_lists_the_files() {
        let facts = IoServerFacts {
            why: None,
            has_lost_disk: true,
            ..facts(IoServerCondition::Ready)
        };
        assert_eq!(facts.state(), "lost-disk");
        assert!(facts.is_note());
        let next = facts.finding().unwrap().next;
        assert!(
            next.contains("volume check --lost gannet://HOST/"),
            "{next}"
        );
    }

    #[test]
    fn a_manager_that_serves_is_ready() {
        assert_eq!(not_ready(&ManagerCondition::Serving), None);
        let waits = not_ready(&ManagerCondition::Unconfirmed).unwrap();
        assert_eq!(waits.state, "waiting");
        assert!(manager_finding(&waits).next.contains("--force-term"));
        let ended = not_ready(&ManagerCondition::Ended(String::from("replaced"))).unwrap();
        assert_eq!((ended.state, &*ended.why), ("ended", "replaced"));
    }
}
