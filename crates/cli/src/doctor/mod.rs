//! `gannet doctor`: what of this machine, and of a server, stands in the way, and what to do about it.
//!
//! Each check is one line: a verdict, what was looked at, what was found, and for anything but `ok` how to put it
//! right. The looking is in `host` and `server`; the judging of what was seen is in plain functions beside it.

mod host;
mod server;

use crate::cli::DoctorOptions;
use crate::failure::Failure;
use crate::{output, session};
use serde::Serialize;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    /// As it should be.
    Ok,
    /// Works, but slower, or not for everybody.
    Warn,
    /// Does not work.
    Fail,
}

/// One line.
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

    fn line(&self) -> String {
        let verdict = match self.verdict {
            Verdict::Ok => "ok",
            Verdict::Warn => "warn",
            Verdict::Fail => "FAIL",
        };
        let line = format!("{verdict:<5}{:<14}{}", self.what, self.found);
        match &self.fix {
            Some(fix) => format!("{line} ({fix})"),
            None => line,
        }
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
            output::line(&finding.line())
        }
    };
    host::findings().iter().try_for_each(&mut show)?;
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
        "this will not work as it is",
        format!("{failed} {checks} failed"),
    )
    .hint("the lines marked FAIL say what to do"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_one_aligned_line() {
        let fine = Finding::ok("files", "1048576 may be open");
        assert_eq!(fine.line(), "ok   files         1048576 may be open");
        let bad = Finding::fail("port", "2049 is taken", "use --nfs-tcp");
        assert_eq!(
            bad.line(),
            "FAIL port          2049 is taken (use --nfs-tcp)"
        );
    }
}
