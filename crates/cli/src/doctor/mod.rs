//! `gannet doctor`: diagnoses a host or a server, and says how to fix problems.
//!
//! Each check prints a verdict, its subject and the finding; unless the verdict is `ok`, further lines say how to fix
//! it. The modules `host` and `server` collect the facts; plain functions beside them judge the facts.

mod host;
mod server;

use crate::cli::DoctorOptions;
use crate::failure::Failure;
use crate::{output, session, table};
use anstyle::AnsiColor;
use gannet::url::Url;
use serde::Serialize;
use std::net::{TcpListener, ToSocketAddrs};

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    /// The checked part works.
    Ok,
    /// Works; matters for some uses alone, or only to a server that is not started yet.
    Note,
    /// Works, but slower, or not for every user.
    Warn,
    /// Does not work.
    Fail,
}

/// The role of this machine, which decides what matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// A client of a server elsewhere.
    Client,
    /// A client and a server, or not known.
    Both,
}

impl Role {
    /// The role of this machine beside the server of `url`: its host is this machine if its address can be bound here.
    fn beside(url: &Url) -> Role {
        let addresses = (url.host.as_str(), 0).to_socket_addrs();
        let is_here = addresses.is_ok_and(|mut all| all.any(|it| TcpListener::bind(it).is_ok()));
        if is_here { Role::Both } else { Role::Client }
    }
}

/// Columns of a terminal before the text of a finding.
const INDENT: usize = 19;

/// The result of one check.
#[derive(Debug, Serialize)]
struct Finding {
    verdict: Verdict,
    what: &'static str,
    found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<String>,
}

impl Finding {
    fn ok(what: &'static str, found: impl Into<String>) -> Finding {
        Finding {
            verdict: Verdict::Ok,
            what,
            found: found.into(),
            fix: None,
        }
    }

    fn note(what: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Finding {
        Finding {
            verdict: Verdict::Note,
            ..Finding::warn(what, found, fix)
        }
    }

    fn warn(what: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Finding {
        Finding {
            verdict: Verdict::Warn,
            fix: Some(fix.into()),
            ..Finding::ok(what, found)
        }
    }

    fn fail(what: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Finding {
        Finding {
            verdict: Verdict::Fail,
            ..Finding::warn(what, found, fix)
        }
    }

    /// The lines of the check, with escape sequences for its colour.
    fn text(&self) -> String {
        let (verdict, color) = match self.verdict {
            Verdict::Ok => ("ok", AnsiColor::Green),
            Verdict::Note => ("note", AnsiColor::Cyan),
            Verdict::Warn => ("warn", AnsiColor::Yellow),
            Verdict::Fail => ("FAIL", AnsiColor::Red),
        };
        let style = color.on_default();
        let fix = self.fix.as_ref();
        let fix = fix.map_or_else(String::new, |fix| format!("\n({fix})"));
        let said = table::hang(INDENT, &format!("{}{fix}", self.found));
        format!("{style}{verdict:<5}{style:#}{:<14}{said}", self.what)
    }
}

/// Runs `gannet doctor`.
///
/// # Errors
/// A check failed, or the output cannot be written.
pub fn run(options: &DoctorOptions) -> Result<(), Failure> {
    let mut failed = 0;
    let mut show = |finding: &Finding| {
        failed += u32::from(finding.verdict == Verdict::Fail);
        if options.json {
            output::json(finding)
        } else {
            output::styled(&finding.text())
        }
    };
    let role = options.url.as_ref().map_or(Role::Both, Role::beside);
    host::findings(role).iter().try_for_each(&mut show)?;
    if let Some(url) = &options.url {
        session::run(|runtime| async move {
            let findings = server::findings(&runtime, url, &options.client).await;
            findings.iter().try_for_each(&mut show)
        })?;
    }
    if failed == 0 {
        return Ok(());
    }
    let checks = if failed == 1 { "check" } else { "checks" };
    Err(Failure::new(
        "the diagnosis found problems",
        format!("{failed} {checks} failed"),
    )
    .hint("the lines marked FAIL say what to do"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(finding: &Finding) -> String {
        anstream::adapter::strip_str(&finding.text()).to_string()
    }

    #[test]
    fn verdicts_have_colours() {
        let fine = Finding::ok("files", "enough").text();
        assert!(
            fine.starts_with("\u{1b}[32mok   \u{1b}[0mfiles "),
            "{fine:?}"
        );
        let bad = Finding::fail("files", "few", "raise the limit").text();
        assert!(bad.starts_with("\u{1b}[31mFAIL "), "{bad:?}");
    }

    #[test]
    fn the_host_of_a_url_is_this_machine_or_another() {
        for (url, role) in [
            ("nfs://127.0.0.1/", Role::Both),
            ("nfs+rdma://localhost:5/a", Role::Both),
            // Addresses of documentation belong to no machine.
            ("nfs://192.0.2.1/", Role::Client),
            ("nfs://[2001:db8::1]/", Role::Client),
        ] {
            assert_eq!(Role::beside(&Url::parse(url).unwrap()), role, "{url}");
        }
    }

    #[test]
    fn findings_are_aligned_with_the_fix_below() {
        let fine = Finding::ok("files", "1048576 may be open");
        assert_eq!(plain(&fine), "ok   files         1048576 may be open");
        let bad = Finding::fail("port", "2049 is taken", "use --nfs-tcp");
        let lines = [
            "FAIL port          2049 is taken",
            "                   (use --nfs-tcp)",
        ];
        assert_eq!(plain(&bad), lines.join("\n"));
    }

    #[test]
    fn findings_fit_a_terminal() {
        let long = Finding::warn("memlock", "word ".repeat(30), "other ".repeat(30));
        for finding in host::findings(Role::Both).iter().chain([&long]) {
            let text = plain(finding);
            assert!(text.lines().all(|line| line.len() <= 80), "{text}");
        }
    }
}
