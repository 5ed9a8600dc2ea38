//! A published claim beside what the simulation gives.

use super::Paper;
use std::fmt;

/// Share of a published number that a simulated one may be off.
pub(super) const TOLERANCE: f64 = 0.15;

/// One claim.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The paper's name, as [`super::Paper::name`] has it.
    pub paper: &'static str,
    /// What is claimed of what, and where the paper says so.
    pub row: String,
    /// Unit of both numbers; of an order, what the simulated number is.
    pub unit: &'static str,
    /// What the paper says.
    pub published: Published,
    /// What the simulation gives.
    pub simulated: f64,
    /// Whether the two agree.
    pub within: Verdict,
    /// Why they do not, or what one must know to judge that they do; may be empty.
    pub note: String,
}

/// What a paper says.
#[derive(Debug, Clone, PartialEq)]
pub enum Published {
    /// A number.
    Number {
        /// The number.
        value: f64,
        /// Share of it that the simulation may be off.
        tolerance: f64,
    },
    /// A number between these two, both allowed.
    Between(f64, f64),
    /// A number below this one.
    Below(f64),
    /// An order or a crossover, in words.
    Order(String),
    /// A number that a constant of the testbed was fitted on.
    Fitted(f64),
}

/// Whether simulation and paper agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// They do.
    Within,
    /// They do not.
    Outside,
    /// They must: the row was fed in.
    Fitted,
}

impl Published {
    /// A number with the usual tolerance of 15 %.
    pub(super) fn number(value: f64) -> Published {
        Published::Number {
            value,
            tolerance: TOLERANCE,
        }
    }

    /// True for a number that counts.
    pub fn is_number(&self) -> bool {
        matches!(
            self,
            Published::Number { .. } | Published::Between(..) | Published::Below(_)
        )
    }

    /// What `simulated` is worth beside it. An order is judged where it is measured.
    pub(super) fn judge(&self, simulated: f64) -> Verdict {
        let holds = match *self {
            Published::Number { value, tolerance } => {
                (simulated - value).abs() <= tolerance * value.abs()
            }
            Published::Between(least, most) => (least..=most).contains(&simulated),
            Published::Below(most) => simulated < most,
            Published::Order(_) => false,
            Published::Fitted(_) => return Verdict::Fitted,
        };
        Verdict::from(holds)
    }
}

impl fmt::Display for Published {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Published::Number { value, .. } | Published::Fitted(value) => write!(f, "{value}"),
            Published::Between(least, most) => write!(f, "{least} to {most}"),
            Published::Below(most) => write!(f, "below {most}"),
            Published::Order(words) => f.write_str(words),
        }
    }
}

impl Verdict {
    /// Its name in tables and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Within => "yes",
            Verdict::Outside => "no",
            Verdict::Fitted => "fitted",
        }
    }
}

impl From<bool> for Verdict {
    fn from(holds: bool) -> Verdict {
        if holds {
            Verdict::Within
        } else {
            Verdict::Outside
        }
    }
}

/// The rows of a paper, as they come.
pub(super) struct Table {
    paper: Paper,
    rows: Vec<Row>,
}

impl Table {
    pub(super) fn new(paper: Paper) -> Table {
        Table {
            paper,
            rows: Vec::new(),
        }
    }

    pub(super) fn into_rows(self) -> Vec<Row> {
        self.rows
    }

    /// A number that may be off by 15 %.
    pub(super) fn number(
        &mut self,
        row: &str,
        unit: &'static str,
        published: f64,
        simulated: f64,
        note: &str,
    ) {
        self.judge(row, unit, Published::number(published), simulated, note);
    }

    /// Any claim but an order.
    pub(super) fn judge(
        &mut self,
        row: &str,
        unit: &'static str,
        published: Published,
        simulated: f64,
        note: &str,
    ) {
        let within = published.judge(simulated);
        self.push(row, unit, (published, simulated, within), note);
    }

    /// An order, whether it `holds`, and a number that shows by how much.
    pub(super) fn order(
        &mut self,
        row: &str,
        words: &str,
        (unit, simulated): (&'static str, f64),
        holds: bool,
        note: &str,
    ) {
        let published = Published::Order(words.to_string());
        self.push(
            row,
            unit,
            (published, simulated, Verdict::from(holds)),
            note,
        );
    }

    fn push(
        &mut self,
        row: &str,
        unit: &'static str,
        (published, simulated, within): (Published, f64, Verdict),
        note: &str,
    ) {
        self.rows.push(Row {
            paper: self.paper.name(),
            row: row.to_string(),
            unit,
            published,
            simulated,
            within,
            note: note.to_string(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_may_be_off_by_its_tolerance() {
        let published = Published::number(400.0);
        for (simulated, verdict) in [
            (340.0, Verdict::Within),
            (460.0, Verdict::Within),
            (339.0, Verdict::Outside),
            (461.0, Verdict::Outside),
        ] {
            assert_eq!(published.judge(simulated), verdict, "{simulated}");
        }
    }

    #[test]
    fn bounds_are_bounds_and_what_was_fitted_proves_nothing() {
        assert_eq!(Published::Between(1.0, 2.0).judge(2.0), Verdict::Within);
        assert_eq!(Published::Between(1.0, 2.0).judge(2.1), Verdict::Outside);
        assert_eq!(Published::Below(1.0).judge(0.9), Verdict::Within);
        assert_eq!(Published::Below(1.0).judge(1.0), Verdict::Outside);
        assert_eq!(Published::Fitted(5.0).judge(5.0), Verdict::Fitted);
        assert!(!Published::Fitted(5.0).is_number());
    }
}
