//! A published claim beside what the simulation gives.

use super::Paper;
use std::fmt;

/// Share of a published level that a simulated one may be off.
pub(super) const TOLERANCE: f64 = 0.15;
/// A simulated gain may be so many times the published one, or that part of it: a ratio of 1.07 is not reproduced by 1.
pub(super) const GAIN_FACTOR: f64 = 1.5;
/// The least difference of two numbers that counts, as a share, where a claim names no larger one. The papers' own
/// error is as large: 4.9 % in NFS/RDMA.
pub(super) const LEAST_DIFFERENCE: f64 = 0.05;
/// Two counts are the same; an operation at either end of the time measured may be counted in part.
const EXACT: f64 = 0.01;

/// One claim.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The paper's name, as [`super::Paper::name`] has it.
    pub paper: &'static str,
    /// The claim, its subject, and its place in the paper.
    pub row: String,
    /// The unit of both numbers; of an order, the meaning of the simulated number.
    pub unit: &'static str,
    /// The paper's number or words.
    pub published: Published,
    /// The simulation's number.
    pub simulated: f64,
    /// The share by which two numbers of an order differ at least where that counts; None for other claims.
    pub least_difference: Option<f64>,
    /// Whether the two agree.
    pub within: Verdict,
    /// The reason why they do not agree, or a fact needed to judge that they do; may be empty.
    pub note: String,
    /// The reason why the number follows from the paper's constants, if it does: it proves nothing.
    pub put_in: Option<&'static str>,
    /// The claim is the paper's. Other claims stand in a table of their own and count nowhere.
    pub of_paper: bool,
}

/// A published number, or an order in words.
#[derive(Debug, Clone, PartialEq)]
pub enum Published {
    /// A number of some unit.
    Level {
        /// The number.
        value: f64,
        /// Share of it that the simulation may be off.
        tolerance: f64,
    },
    /// A number between these two, both allowed.
    Between(f64, f64),
    /// A number below this one.
    Below(f64),
    /// So many times: two of its numbers, one over the other.
    Ratio(f64),
    /// A count that no constant decides.
    Count(f64),
    /// An order or a crossover, in words.
    Order(String),
}

/// Whether simulation and paper agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// They do.
    Within,
    /// They do not.
    Outside,
    /// The claim is an order, and its numbers differ by less than the least difference that counts.
    NoDifference,
}

impl Published {
    /// A level with the usual tolerance of 15 %.
    pub(super) fn level(value: f64) -> Published {
        Published::Level {
            value,
            tolerance: TOLERANCE,
        }
    }

    /// The kind of the claim, in one word.
    pub fn kind(&self) -> &'static str {
        match self {
            Published::Level { .. } | Published::Between(..) | Published::Below(_) => "level",
            Published::Ratio(_) => "ratio",
            Published::Count(_) => "count",
            Published::Order(_) => "order",
        }
    }

    /// True for a number whose unit is not a ratio or a count: one constant of a testbed may decide it.
    pub fn is_level(&self) -> bool {
        self.kind() == "level"
    }

    /// Judges `simulated` beside it. An order is judged where it is measured.
    pub(super) fn judge(&self, simulated: f64) -> Verdict {
        let holds = match *self {
            Published::Level { value, tolerance } => {
                (simulated - value).abs() <= tolerance * value.abs()
            }
            Published::Between(least, most) => (least..=most).contains(&simulated),
            Published::Below(most) => simulated < most,
            Published::Ratio(value) => {
                let share = (simulated - 1.0) / (value - 1.0);
                (1.0 / GAIN_FACTOR..=GAIN_FACTOR).contains(&share)
            }
            Published::Count(value) => (simulated - value).abs() <= EXACT * value.abs(),
            Published::Order(_) => false,
        };
        Verdict::from(holds)
    }
}

impl fmt::Display for Published {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Published::Level { value, .. } | Published::Count(value) => write!(f, "{value}"),
            // Two published numbers of three digits, one over the other.
            Published::Ratio(value) => write!(f, "{}", (value * 1e3).round() / 1e3),
            Published::Between(least, most) => write!(f, "{least} to {most}"),
            Published::Below(most) => write!(f, "below {most}"),
            Published::Order(words) => f.write_str(words),
        }
    }
}

impl Verdict {
    /// Judges an order: each of `margins` is the number that is claimed to be the greater over the lesser one.
    fn of_order(margins: &[f64], least: f64) -> Verdict {
        let least = 1.0 + least;
        if margins.iter().all(|margin| *margin >= least) {
            Verdict::Within
        } else if margins.iter().all(|margin| *margin > 1.0 / least) {
            Verdict::NoDifference
        } else {
            Verdict::Outside
        }
    }

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Within => "yes",
            Verdict::Outside => "no",
            Verdict::NoDifference => "no difference",
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

/// The number that a row of an order shows, with its unit.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shown {
    unit: &'static str,
    value: f64,
}

impl Shown {
    pub(super) fn new(unit: &'static str, value: f64) -> Shown {
        Shown { unit, value }
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

    /// A level that may be off by 15 %.
    pub(super) fn number(
        &mut self,
        row: &str,
        unit: &'static str,
        published: f64,
        simulated: f64,
        note: &str,
    ) {
        self.judge(row, unit, Published::level(published), simulated, note);
    }

    /// So many times; see [`GAIN_FACTOR`].
    pub(super) fn ratio(&mut self, row: &str, published: f64, simulated: f64, note: &str) {
        self.judge(row, "times", Published::Ratio(published), simulated, note);
    }

    /// A count of something for each operation.
    pub(super) fn count(&mut self, row: &str, published: f64, simulated: f64, note: &str) {
        let published = Published::Count(published);
        self.judge(row, "each", published, simulated, note);
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
        self.push(row, published, Shown::new(unit, simulated), within, note);
    }

    /// An order between numbers: each of `margins` is the greater over the lesser one by the claim. A margin that is
    /// less than `least` above 1 (a share) is no difference.
    pub(super) fn ahead(
        &mut self,
        row: &str,
        words: &str,
        shown: Shown,
        least: f64,
        margins: &[f64],
        note: &str,
    ) {
        let published = Published::Order(words.to_string());
        let verdict = Verdict::of_order(margins, least);
        self.push(row, published, shown, verdict, note);
        self.set_least_difference(least);
    }

    /// Two numbers that a paper calls the same. Their ratio, `margin`, is less than `least` (a share) from 1.
    pub(super) fn same(&mut self, row: &str, words: &str, least: f64, margin: f64, note: &str) {
        let holds = (1.0 / (1.0 + least)..1.0 + least).contains(&margin);
        self.order(row, words, Shown::new("times", margin), holds, note);
        self.set_least_difference(least);
    }

    fn set_least_difference(&mut self, least: f64) {
        if let Some(row) = self.rows.last_mut() {
            row.least_difference = Some(least);
        }
    }

    /// A claim of counts or of several numbers, whether it `holds`, and a number that shows by how much.
    pub(super) fn order(&mut self, row: &str, words: &str, shown: Shown, holds: bool, note: &str) {
        let published = Published::Order(words.to_string());
        self.push(row, published, shown, Verdict::from(holds), note);
    }

    /// As [`Table::order`], of something that the paper does not have.
    pub(super) fn beyond(&mut self, row: &str, words: &str, shown: Shown, holds: bool, note: &str) {
        self.order(row, words, shown, holds, note);
        self.not_of_paper();
    }

    /// The last row's claim is not the paper's.
    pub(super) fn not_of_paper(&mut self) {
        if let Some(row) = self.rows.last_mut() {
            row.of_paper = false;
        }
    }

    /// The last row's number follows from what the paper gives, as `why` says: it does not count.
    pub(super) fn put_in(&mut self, why: &'static str) {
        if let Some(row) = self.rows.last_mut() {
            row.put_in = Some(why);
        }
    }

    fn push(
        &mut self,
        row: &str,
        published: Published,
        simulated: Shown,
        within: Verdict,
        note: &str,
    ) {
        self.rows.push(Row {
            paper: self.paper.name(),
            row: row.to_string(),
            unit: simulated.unit,
            published,
            simulated: simulated.value,
            least_difference: None,
            within,
            note: note.to_string(),
            put_in: None,
            of_paper: true,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_judged(published: &Published, expected: &[(f64, Verdict)]) {
        for (simulated, verdict) in expected {
            assert_eq!(
                published.judge(*simulated),
                *verdict,
                "{published} {simulated}"
            );
        }
    }

    #[test]
    fn a_level_may_be_off_by_its_tolerance() {
        let (yes, no) = (Verdict::Within, Verdict::Outside);
        assert_judged(
            &Published::level(400.0),
            &[(340.0, yes), (460.0, yes), (339.0, no), (461.0, no)],
        );
        assert_judged(&Published::Between(1.0, 2.0), &[(2.0, yes), (2.1, no)]);
        assert_judged(&Published::Below(1.0), &[(0.9, yes), (1.0, no)]);
    }

    #[test]
    fn of_a_ratio_the_gain_is_judged() {
        let (yes, no) = (Verdict::Within, Verdict::Outside);
        assert_judged(
            &Published::Ratio(1.067),
            &[(1.0, no), (1.05, yes), (1.1, yes), (1.11, no), (0.93, no)],
        );
        assert_judged(
            &Published::Ratio(2.1),
            &[(1.7, no), (1.8, yes), (2.6, yes), (2.7, no)],
        );
    }

    #[test]
    fn an_order_of_one_percent_is_no_difference() {
        for (margins, least, verdict) in [
            (&[1.01][..], 0.05, Verdict::NoDifference),
            (&[0.99], 0.05, Verdict::NoDifference),
            (&[1.06], 0.05, Verdict::Within),
            (&[0.94], 0.05, Verdict::Outside),
            (&[1.5, 1.01], 0.05, Verdict::NoDifference),
            (&[1.5, 0.9], 0.05, Verdict::Outside),
            (&[1.5], 1.0, Verdict::NoDifference),
            (&[f64::NAN], 0.05, Verdict::Outside),
        ] {
            let mut table = Table::new(Paper::Sandia);
            table.ahead("a", "ahead", Shown::new("times", 1.0), least, margins, "");
            let row = table.into_rows().remove(0);
            assert_eq!(row.within, verdict, "{margins:?} {least}");
            assert_eq!(row.least_difference, Some(least));
        }
    }

    #[test]
    fn numbers_are_the_same_up_to_the_least_difference() {
        for (margin, verdict) in [
            (1.04, Verdict::Within),
            (0.96, Verdict::Within),
            (1.06, Verdict::Outside),
            (0.94, Verdict::Outside),
            (f64::NAN, Verdict::Outside),
        ] {
            let mut table = Table::new(Paper::Sandia);
            table.same("a", "equal", LEAST_DIFFERENCE, margin, "");
            assert_eq!(table.into_rows().remove(0).within, verdict, "{margin}");
        }
    }

    #[test]
    fn a_count_is_a_count() {
        let (yes, no) = (Verdict::Within, Verdict::Outside);
        assert_judged(&Published::Count(3.0), &[(3.0, yes), (2.9, no), (4.0, no)]);
    }
}
