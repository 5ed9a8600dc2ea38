//! The failure of a command, printed as one line: what failed, why, and what to do.

use crate::output;
use gannet_vfs::Status;
use std::fmt;

/// Why a command failed.
#[derive(Debug)]
pub struct Failure {
    what: String,
    why: String,
    hint: Option<String>,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Failed,
    Usage,
    /// The reader of standard output went away: no message is printed.
    Silent,
    /// The message has been printed.
    Reported,
}

impl Failure {
    /// `what` failed because of `why`.
    pub fn new(what: impl Into<String>, why: impl fmt::Display) -> Failure {
        Failure {
            what: what.into(),
            why: one_line(&why.to_string()),
            hint: None,
            kind: Kind::Failed,
        }
    }

    /// The command line or the configuration is not valid.
    pub fn usage(what: impl Into<String>, why: impl fmt::Display) -> Failure {
        Failure {
            kind: Kind::Usage,
            ..Failure::new(what, why)
        }
    }

    /// The reader of standard output went away, as `head` does.
    pub fn silent() -> Failure {
        Failure {
            kind: Kind::Silent,
            ..Failure::new("", "")
        }
    }

    /// Adds advice for the user.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Failure {
        self.hint = Some(hint.into());
        self
    }

    /// Says in which of several places it failed.
    #[must_use]
    pub fn within(mut self, place: &str) -> Failure {
        self.what = format!("{place}: {}", self.what);
        self
    }

    /// Whether the caller lacks permission.
    pub fn is_denied(&self) -> bool {
        let denied = [Status::Acces, Status::Perm].map(|status| status.to_string());
        denied.iter().any(|text| self.why.ends_with(text))
    }

    /// Adds a hint, unless there is one.
    #[must_use]
    pub fn or_hint(self, hint: &str) -> Failure {
        match self.hint {
            Some(_) => self,
            None => self.hint(hint),
        }
    }

    /// Adds the hint if `helps`.
    #[must_use]
    pub fn hint_if(self, helps: bool, hint: &str) -> Failure {
        if helps { self.hint(hint) } else { self }
    }

    /// The exit code of the process: 2 for wrong usage, 1 for other failures, 0 when the reader went away.
    pub fn exit_code(&self) -> u8 {
        match self.kind {
            Kind::Failed | Kind::Reported => 1,
            Kind::Usage => 2,
            Kind::Silent => 0,
        }
    }

    /// Whether the reader of standard output went away.
    pub fn is_silent(&self) -> bool {
        self.kind == Kind::Silent
    }

    /// Prints the message on standard error, unless it was printed before or the reader went away.
    pub fn report(&self) {
        if matches!(self.kind, Kind::Failed | Kind::Usage) {
            output::report(&format!("gannet: {self}"));
        }
    }

    /// Marks the message as printed: the command continues, and fails at its end.
    #[must_use]
    pub fn reported(self) -> Failure {
        let kind = Kind::Reported;
        Failure { kind, ..self }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A server may have chosen names in it: escape characters that control a terminal.
        let shown = |text: &str| gannet_wire::printable(text.as_bytes());
        write!(f, "{}: {}", shown(&self.what), shown(&self.why))?;
        match &self.hint {
            Some(hint) => write!(f, " ({})", shown(hint)),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Failure {}

/// Adds what failed to an error.
pub trait Explain<T> {
    /// Turns the error into the failure of `what`.
    ///
    /// # Errors
    /// The failure, if there was an error.
    fn explain(self, what: impl FnOnce() -> String) -> Result<T, Failure>;
}

impl<T, E: fmt::Display> Explain<T> for Result<T, E> {
    fn explain(self, what: impl FnOnce() -> String) -> Result<T, Failure> {
        self.map_err(|error| Failure::new(what(), error))
    }
}

/// Replaces line breaks and runs of blanks by single blanks, since an error is one line.
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_one_line_with_object_reason_and_hint() {
        let failure = Failure::new("cannot listen", "address\n  in use").hint("use --nfs-tcp");
        assert_eq!(
            failure.to_string(),
            "cannot listen: address in use (use --nfs-tcp)"
        );
        assert_eq!(failure.exit_code(), 1);
        let hostile = Failure::new("cannot find a\x1b[2Jb", "c\u{9b}d");
        assert_eq!(hostile.to_string(), "cannot find a\\u{1b}[2Jb: c\\u{9b}d");
        assert_eq!(Failure::usage("--size", "not a number").exit_code(), 2);
    }
}
