//! What a person reads when a command fails: what failed, why, and what to do about it, on one line.

use crate::output;
use gannet_vfs::Status;
use std::fmt;

/// A command that did not do what it was asked.
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
    /// Nobody reads our output any more; there is nothing to say and nobody to say it to.
    Silent,
    /// It has been said.
    Reported,
}

impl Failure {
    /// `what` could not be done because of `why`.
    pub fn new(what: impl Into<String>, why: impl fmt::Display) -> Failure {
        Failure {
            what: what.into(),
            why: one_line(&why.to_string()),
            hint: None,
            kind: Kind::Failed,
        }
    }

    /// The command line or the configuration asks for something that makes no sense.
    pub fn usage(what: impl Into<String>, why: impl fmt::Display) -> Failure {
        Failure {
            kind: Kind::Usage,
            ..Failure::new(what, why)
        }
    }

    /// The reader of our output went away, as `head` does.
    pub fn silent() -> Failure {
        Failure {
            kind: Kind::Silent,
            ..Failure::new("", "")
        }
    }

    /// What the person can do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Failure {
        self.hint = Some(hint.into());
        self
    }

    /// The caller lacks the right.
    pub fn is_denied(&self) -> bool {
        let denied = [Status::Acces, Status::Perm].map(|status| status.to_string());
        denied.iter().any(|text| self.why.ends_with(text))
    }

    /// The same with a hint, unless it has one.
    #[must_use]
    pub fn or_hint(self, hint: &str) -> Failure {
        match self.hint {
            Some(_) => self,
            None => self.hint(hint),
        }
    }

    /// The same, with that said only where it helps.
    #[must_use]
    pub fn hint_if(self, helps: bool, hint: &str) -> Failure {
        match helps {
            true => self.hint(hint),
            false => self,
        }
    }

    /// The process's exit code: 2 for wrong usage, 1 otherwise, 0 when nobody listens any more.
    pub fn exit_code(&self) -> u8 {
        match self.kind {
            Kind::Failed | Kind::Reported => 1,
            Kind::Usage => 2,
            Kind::Silent => 0,
        }
    }

    /// Nobody reads our output any more.
    pub fn is_silent(&self) -> bool {
        self.kind == Kind::Silent
    }

    /// Says it on the standard error, unless it has been said or nobody listens.
    pub fn report(&self) {
        if matches!(self.kind, Kind::Failed | Kind::Usage) {
            output::report(&format!("gannet: {self}"));
        }
    }

    /// It, told already: a command goes on after it, and fails at its end.
    #[must_use]
    pub fn reported(self) -> Failure {
        let kind = Kind::Reported;
        Failure { kind, ..self }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Names that others chose may be in it: no part of it controls a terminal.
        let shown = |text: &str| gannet_wire::printable(text.as_bytes());
        write!(f, "{}: {}", shown(&self.what), shown(&self.why))?;
        match &self.hint {
            Some(hint) => write!(f, " ({})", shown(hint)),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Failure {}

/// Gives an error the words for what failed.
pub trait Explain<T> {
    /// `what` could not be done because of the error.
    ///
    /// # Errors
    /// The error, explained.
    fn explain(self, what: impl FnOnce() -> String) -> Result<T, Failure>;
}

impl<T, E: fmt::Display> Explain<T> for Result<T, E> {
    fn explain(self, what: impl FnOnce() -> String) -> Result<T, Failure> {
        self.map_err(|error| Failure::new(what(), error))
    }
}

/// The text with line breaks and runs of blanks made single blanks: errors are one line each.
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_one_line_with_what_why_and_what_to_do() {
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
