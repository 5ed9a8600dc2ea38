//! `gannet volume status`: the servers of a volume that is served, and what is wrong with them.

use super::copies::{CopiesStatus, in_one_zone};
use super::managers::ManagersStatus;
use crate::cli::{ClientOptions, StatusOptions};
use crate::failure::{Explain, Failure};
use crate::output;
use crate::session;
use crate::size::human;
use crate::table;
use crate::watch::{self, ToldIoServer};
use gannet::admin::Finding;
use gannet::url::Url;
use gannet::volume::{
    IoServerCondition, IoServerFacts, ManagerCondition, manager_finding, not_ready,
};
use gannet_runtime::Handle;
use gannet_volume::client::{IoServerAnswer, IoServerState, ServerStates};
use serde::Serialize;

/// Columns before the text of a finding.
const INDENT: usize = 2;

/// The state of a volume; the output of `--json`.
#[derive(Debug, Serialize)]
pub(crate) struct VolumeStatus {
    name: String,
    term: u64,
    manager: ManagerStatus,
    /// The managers of a volume whose journal is in an engine.
    #[serde(skip_serializing_if = "Option::is_none")]
    managers: Option<ManagersStatus>,
    pub(crate) io_servers: Vec<IoServerStatus>,
    /// The copies of data, in a volume that keeps two.
    #[serde(skip_serializing_if = "Option::is_none")]
    copies: Option<CopiesStatus>,
    /// The facts that need an administrator.
    pub(crate) findings: Vec<Finding>,
    /// Faults of the past whose traces may last.
    pub(crate) notes: Vec<Finding>,
}

#[derive(Debug, Serialize)]
struct ManagerStatus {
    address: String,
    state: &'static str,
}

/// The state of an I/O server.
#[derive(Debug, Serialize)]
pub(crate) struct IoServerStatus {
    pub(crate) number: usize,
    pub(crate) address: Option<String>,
    pub(crate) state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
    /// How long it is in this state, as the manager says.
    #[serde(skip_serializing_if = "Option::is_none")]
    since_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    /// The latest term of a manager that it knows.
    term: Option<u64>,
    space_bytes: Option<u64>,
    free_bytes: Option<u64>,
}

/// Prints the state of the volume of a URL.
///
/// # Errors
/// The manager cannot be reached, or something is wrong.
pub(super) fn run(options: &StatusOptions) -> Result<(), Failure> {
    session::run(async |runtime| {
        let mut status = look(&runtime, &options.url, &options.client).await?;
        if let Some(place) = &options.admin {
            let told = watch::volume_at(place).await?;
            status.add_told(&told.io_servers);
        }
        if options.json {
            output::json(&status)?;
        } else {
            output::line(&status.text())?;
        }
        status.judged()
    })
}

/// Asks all servers of a volume for their state.
///
/// # Errors
/// The manager cannot be reached.
pub(crate) async fn look(
    runtime: &Handle,
    url: &Url,
    options: &ClientOptions,
) -> Result<VolumeStatus, Failure> {
    let (volume, caller) = session::open_volume(runtime, url, options).await?;
    let states = volume.server_states(&caller).await;
    let states = states.explain(|| format!("cannot see the state of {url}"));
    let states = states.map_err(|failure| {
        failure.hint("start the manager on its host: `gannet serve --volume PATH --role manager`")
    })?;
    Ok(VolumeStatus::of(url, states))
}

impl VolumeStatus {
    fn of(url: &Url, states: ServerStates) -> VolumeStatus {
        let root = Url {
            path: Vec::new(),
            ..url.clone()
        };
        let root = root.to_string();
        let managers = states.managers.as_ref().and_then(ManagersStatus::of);
        let mut status = VolumeStatus {
            name: states.name,
            term: states.term,
            manager: ManagerStatus {
                address: match &managers {
                    Some(managers) => managers.active().to_owned(),
                    None => format!("{}:{}", url.host, url.port),
                },
                state: "ready",
            },
            managers,
            io_servers: Vec::new(),
            copies: CopiesStatus::of(&states.groups),
            findings: Vec::new(),
            notes: Vec::new(),
        };
        if let Err(error) = states.names {
            status.add_manager(states.term, &error.to_string());
        }
        for (number, state) in states.io_servers.into_iter().enumerate() {
            status.add_io_server(number, &state, &root);
        }
        let alone = status.managers.as_ref().and_then(ManagersStatus::finding);
        status.findings.extend(alone);
        let lacking = status.copies.as_ref().and_then(CopiesStatus::finding);
        status.findings.extend(lacking);
        status.findings.extend(in_one_zone(states.in_one_zone));
        status
    }

    /// Adds a manager that answers no question about names.
    fn add_manager(&mut self, term: u64, error: &str) {
        let condition = if term == 0 {
            ManagerCondition::Waiting
        } else {
            ManagerCondition::Unconfirmed
        };
        if let Some(mut waits) = not_ready(&condition) {
            waits.why = format!("{error}: {}", waits.why);
            self.manager.state = waits.state;
            self.findings.push(manager_finding(&waits));
        }
    }

    fn add_io_server(&mut self, number: usize, state: &IoServerState, url: &str) {
        let answer = state.answer.as_ref();
        let error = answer.err().map(ToString::to_string);
        let facts = IoServerFacts {
            number,
            condition: match answer {
                Ok(_) => IoServerCondition::Ready,
                Err(error) => IoServerCondition::after(error),
            },
            why: error.as_deref(),
            has_lost_disk: answer.is_ok_and(|it| it.has_lost_disk),
            url,
        };
        let finding = facts.finding();
        let reported = state.reported.as_ref().map(ToString::to_string);
        let answer: Option<&IoServerAnswer> = answer.ok();
        self.io_servers.push(IoServerStatus {
            number,
            address: answer.map(|it| it.address.to_string()).or(reported),
            state: facts.state(),
            why: finding.as_ref().map(|it| it.what.clone()),
            next: finding.as_ref().map(|it| it.next.clone()),
            since_seconds: None,
            version: None,
            term: answer.map(|it| it.term),
            space_bytes: answer.map(|it| it.space.total),
            free_bytes: answer.map(|it| it.space.available),
        });
        if facts.is_note() {
            self.notes.extend(finding);
        } else {
            self.findings.extend(finding);
        }
        if let Some(later) = answer.map(|it| it.term).filter(|term| *term > self.term) {
            self.findings.push(Finding {
                what: format!(
                    "I/O server {number} obeys a manager of term {later}, and this one has term {}",
                    self.term
                ),
                next: String::from("stop one of the two managers: see docs/volumes.md"),
            });
        }
    }

    /// Adds the view of the manager, which may differ: a network can be broken on one side.
    fn add_told(&mut self, told: &[ToldIoServer]) {
        for (server, told) in self.io_servers.iter_mut().zip(told) {
            server.version.clone_from(&told.version);
            if server.state == told.state {
                server.since_seconds = told.since_seconds;
            } else if let Some(why) = told.why.as_ref().filter(|_| server.answers()) {
                self.findings.push(Finding {
                    what: format!("the manager does not see what this host sees: {why}"),
                    next: String::from("look for a firewall between the manager and this server"),
                });
            }
        }
    }

    /// Fails if something is wrong.
    ///
    /// # Errors
    /// There are findings.
    fn judged(&self) -> Result<(), Failure> {
        let count = match self.findings.len() {
            0 => return Ok(()),
            1 => String::from("1 finding"),
            count => format!("{count} findings"),
        };
        let what = format!("the volume {} needs attention", self.name);
        Err(Failure::new(what, count).hint("each finding says what to do"))
    }

    fn text(&self) -> String {
        let header = [
            "I/O server",
            "state",
            "since",
            "term",
            "available",
            "size",
            "address",
            "version",
        ];
        let cells: Vec<_> = self.io_servers.iter().map(IoServerStatus::cells).collect();
        let mut lines = vec![
            format!("volume      {}", self.name),
            format!(
                "manager     {}, {}, term {}",
                self.manager.address, self.manager.state, self.term
            ),
        ];
        lines.extend(self.managers.as_ref().map(ManagersStatus::text));
        lines.extend(self.copies.as_ref().map(CopiesStatus::text));
        lines.extend([String::new(), table::render(1, header, &cells)]);
        for (word, findings) in [("", &self.findings), ("note: ", &self.notes)] {
            for Finding { what, next } in findings {
                lines.push(String::new());
                lines.push(table::hang(INDENT, &format!("{word}{what}\n{next}")));
            }
        }
        lines.join("\n")
    }
}

impl IoServerStatus {
    /// Whether it answers.
    pub(crate) fn answers(&self) -> bool {
        self.term.is_some()
    }

    fn cells(&self) -> [String; 8] {
        let or_none = |text: Option<String>| text.unwrap_or_else(|| table::NONE.to_owned());
        [
            self.number.to_string(),
            self.state.to_owned(),
            or_none(self.since_seconds.map(watch::time)),
            or_none(self.term.map(|term| term.to_string())),
            or_none(self.free_bytes.map(human)),
            or_none(self.space_bytes.map(human)),
            or_none(self.address.clone()),
            or_none(self.version.clone()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gannet_meta::groups::Groups;
    use gannet_volume::link::{LinkError, Unreachable};
    use gannet_volume::manager::DiskSpace;

    fn answer(term: u64, has_lost_disk: bool) -> IoServerState {
        IoServerState {
            reported: None,
            answer: Ok(IoServerAnswer {
                address: "192.0.2.100:20051".parse().unwrap(),
                term,
                space: DiskSpace {
                    total: u64::MAX,
                    available: 1 << 40,
                },
                has_lost_disk,
            }),
        }
    }

    fn status(io_servers: Vec<IoServerState>) -> VolumeStatus {
        let url = Url::parse("gannet://mgr.example/a/b").unwrap();
        let states = ServerStates {
            groups: Groups::new(Vec::new()),
            in_one_zone: 0,
            name: String::from("volume"),
            term: 4,
            managers: None,
            names: Ok(()),
            io_servers,
        };
        VolumeStatus::of(&url, states)
    }

    #[test]
    fn a_volume_that_is_whole_has_no_findings() {
        let status = status(vec![answer(4, false), answer(4, false)]);
        assert!(status.judged().is_ok());
        assert!(status.io_servers.iter().all(|it| it.state == "ready"));
    }

    #[test]
    fn findings_fit_a_terminal_and_name_the_command() {
        let silent = IoServerState {
            reported: None,
            answer: Err(Unreachable::NotRegistered.into()),
        };
        let status = status(vec![answer(4, true), silent, answer(5, false)]);
        let text = status.text();
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in [
            "gannet serve --volume PATH --role io-server=1",
            "gannet volume check --lost gannet://mgr.example",
            "obeys a manager of term 5",
        ] {
            assert!(words.contains(part), "{part}: {text}");
        }
        assert_eq!((status.findings.len(), status.notes.len()), (2, 1));
        assert!(
            status
                .judged()
                .unwrap_err()
                .to_string()
                .contains("2 findings")
        );
    }

    #[test]
    fn a_lost_disk_alone_is_a_note() {
        assert!(status(vec![answer(4, true)]).judged().is_ok());
    }

    #[test]
    fn the_manager_adds_times_and_its_own_view() {
        let mut status = status(vec![answer(4, false), answer(4, false)]);
        let told = |state: &str, why: Option<&str>| ToldIoServer {
            state: state.to_owned(),
            since_seconds: Some(7200.0),
            version: Some(String::from("0.1.0")),
            why: why.map(str::to_owned),
            ..ToldIoServer::default()
        };
        status.add_told(&[told("ready", None), told("silent", Some("it is silent"))]);
        let servers = &status.io_servers;
        assert_eq!(servers[0].since_seconds, Some(7200.0));
        assert_eq!(servers[1].since_seconds, None);
        assert_eq!(status.findings.len(), 1);
        let text = status.text();
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
        assert!(text.contains("since") && text.contains("0.1.0"), "{text}");
    }

    #[test]
    fn a_manager_that_waits_is_a_finding() {
        let mut status = status(vec![answer(4, false)]);
        status.add_manager(0, &LinkError::Silent.to_string());
        assert_eq!(status.manager.state, "waiting");
        assert!(status.judged().is_err());
    }
}
