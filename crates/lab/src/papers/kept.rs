//! The statements of a kept page about single constants. They are read back, so that a quick check need not vary
//! each of them.

use super::Move;

/// A page's words on which constants move and decide its rows.
pub(super) struct Kept {
    page: String,
}

impl Kept {
    /// Reads the rows of a page that [`super::page::page`] wrote.
    pub(super) fn new(page: String) -> Kept {
        Kept { page }
    }

    /// The constant that moves a row most, and the reason why the row does not count.
    pub(super) fn of(&self, row: &str) -> (Option<Move>, Option<String>) {
        let (mut moved, mut excluded) = (None, None);
        for line in self.page.lines() {
            let of_table = line.strip_prefix("| ").and_then(|it| it.strip_prefix(row));
            if let Some(cells) = of_table.and_then(|it| it.strip_prefix(" | ")) {
                // Kind, published, simulated, unit, within, sensitivity.
                moved = moved.or_else(|| cells.split(" | ").nth(5).and_then(parse_move));
            }
            let of_list = line.strip_prefix("- ").and_then(|it| it.strip_prefix(row));
            let of_list = of_list.and_then(|it| it.strip_prefix(": "));
            if let Some((_, why)) = of_list.and_then(|it| it.split_once(" simulated; ")) {
                excluded = Some(why.to_owned());
            }
        }
        (moved, excluded)
    }
}

/// The reverse of [`super::page::sensitivity`].
fn parse_move(text: &str) -> Option<Move> {
    let (percent, what) = text.split_once(" %, ")?;
    let (constant, how) = what.split_once(' ')?;
    Some(Move {
        constant: constant.to_owned(),
        how: how.to_owned(),
        share: percent.parse::<f64>().ok()? / 100.0,
    })
}

#[cfg(test)]
mod tests {
    use super::super::Judged;
    use super::super::page::sensitivity;
    use super::*;

    const PAGE: &str = "## Rows that do not count\n\n\
        - 1: rate: 400 published, 452 simulated; memory (derived) decides it: halved, \
        it moves by -48 %\n\
        - 1: rate of more: 1 published, 2 simulated; another (given) decides it: halved, it \
        moves by -50 %\n\n\
        ## Rows\n\n\
        | 1: rate | level | 400 | 452 | MB/s | excluded | +3 %, send_ns doubled | a note |\n\
        | 1: rate of it | ratio | 3 | 4.56 | times | no | -0 %, packet_bytes halved |  |\n\
        | 2: count | count | 6 | 6.00 | each | yes | none |  |\n\n\
        ## Rows without some cost\n\n\
        | 1: rate of it | 4.46 | 4.44 | 4.00 | 4.58 | 4.22 | 4.47 |\n";

    #[test]
    fn what_a_page_says_of_constants_is_read_as_it_was_written() {
        let kept = Kept::new(PAGE.to_owned());
        for (row, moved, excluded) in [
            ("1: rate", "+3 %, send_ns doubled", true),
            ("1: rate of it", "-0 %, packet_bytes halved", false),
            ("2: count", "none", false),
            ("3: not there", "none", false),
        ] {
            let (sensitivity_kept, why) = kept.of(row);
            assert_eq!(why.is_some(), excluded, "{row}");
            let judged = Judged {
                sensitivity: sensitivity_kept,
                ..Judged::default()
            };
            assert_eq!(sensitivity(&judged), moved, "{row}");
        }
        let why = "memory (derived) decides it: halved, it moves by -48 %";
        assert_eq!(kept.of("1: rate").1.as_deref(), Some(why));
    }
}
