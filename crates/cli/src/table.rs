//! Result tables: columns without borders that fit a terminal of 80 columns.

use comfy_table::{CellAlignment, Table, presets};

/// Columns of the terminal that every table fits.
pub const WIDTH_MAX: usize = 80;
/// Stands for a value that a row does not have.
pub const NONE: &str = "-";
/// Blanks between two columns: as many as fit.
const GAPS: [usize; 2] = [2, 1];

/// The table of `rows`, without a line end behind its last line.
///
/// The first `keys` columns name a row. A column in which every row has [`NONE`] is left out. Columns that do not fit
/// beside each other follow in further panels, each of which repeats the keys.
pub fn render<const N: usize>(keys: usize, header: [&str; N], rows: &[[String; N]]) -> String {
    let kept: Vec<usize> = (0..N)
        .filter(|&column| rows.iter().any(|row| row[column] != NONE))
        .collect();
    let panels = panels(keys, &kept, |column| width(column, &header, rows));
    let panels = panels.iter().map(|(columns, gap)| {
        let header = columns.iter().map(|&column| header[column]);
        let rows = rows
            .iter()
            .map(|row| columns.iter().map(|&column| row[column].as_str()));
        panel(header, rows, *gap)
    });
    panels.collect::<Vec<_>>().join("\n\n")
}

/// `text` beside something that takes `indent` columns: broken between words, and at line ends, into lines that fit.
/// A word that is longer than a line, as a path may be, stays whole.
pub fn hang(indent: usize, text: &str) -> String {
    let mut lines = Vec::new();
    for paragraph in text.lines() {
        let mut line = String::new();
        for word in paragraph.split_whitespace() {
            let len = line.chars().count() + 1 + word.chars().count();
            if !line.is_empty() && indent + len > WIDTH_MAX {
                lines.push(std::mem::take(&mut line));
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        lines.push(line);
    }
    lines.join(&format!("\n{:indent$}", ""))
}

/// A number with about four digits: one decimal below 1000, none above.
pub fn short(value: f64) -> String {
    if value.abs() < 999.95 {
        format!("{value:.1}")
    } else {
        format!("{value:.0}")
    }
}

/// Columns of a terminal that the widest value of a column takes.
fn width<const N: usize>(column: usize, header: &[&str; N], rows: &[[String; N]]) -> usize {
    let mut alone = Table::new();
    alone.add_row([header[column]]);
    for row in rows {
        alone.add_row([&row[column]]);
    }
    let widths = alone.column_max_content_widths();
    widths.first().copied().map_or(0, usize::from)
}

/// The columns that stand beside each other, and the blanks between them.
fn panels(
    keys: usize,
    columns: &[usize],
    width: impl Fn(usize) -> usize,
) -> Vec<(Vec<usize>, usize)> {
    let total = |columns: &[usize], gap: usize| {
        let widths = columns.iter().map(|&column| width(column) + gap);
        widths.sum::<usize>().saturating_sub(gap)
    };
    let gap_of = |columns: &[usize]| {
        let fits = |gap: &usize| total(columns, *gap) <= WIDTH_MAX;
        GAPS.into_iter().find(fits)
    };
    if let Some(gap) = gap_of(columns) {
        return vec![(columns.to_vec(), gap)];
    }
    let key_columns: Vec<usize> = columns.iter().copied().filter(|it| *it < keys).collect();
    let mut panels = Vec::new();
    let mut panel = key_columns.clone();
    for &column in columns.iter().filter(|it| **it >= keys) {
        panel.push(column);
        if total(&panel, GAPS[0]) > WIDTH_MAX && panel.len() > key_columns.len() + 1 {
            panel.pop();
            panels.push(std::mem::replace(&mut panel, key_columns.clone()));
            panel.push(column);
        }
    }
    panels.push(panel);
    let with_gap = |panel: Vec<usize>| {
        let gap = gap_of(&panel).unwrap_or(1);
        (panel, gap)
    };
    panels.into_iter().map(with_gap).collect()
}

/// One panel: columns of numbers to the right, others to the left.
fn panel<'a, R: Iterator<Item = &'a str>>(
    header: impl Iterator<Item = &'a str>,
    rows: impl Iterator<Item = R>,
    gap: usize,
) -> String {
    let rows: Vec<Vec<&str>> = rows.map(Iterator::collect).collect();
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header);
    table.add_rows(&rows);
    for (number, column) in table.column_iter_mut().enumerate() {
        let mut cells = rows.iter().filter_map(|row| row.get(number));
        if cells.all(|cell| is_number(cell)) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        // At most two blanks.
        column.set_padding((0, gap as u16));
    }
    table.trim_fmt()
}

/// Addresses begin with digits too.
fn is_number(cell: &str) -> bool {
    let is_address = cell.contains(':') || cell.matches('.').count() > 1;
    cell == NONE || (cell.starts_with(|first: char| first.is_ascii_digit()) && !is_address)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows<const N: usize>(cells: [&str; N]) -> Vec<[String; N]> {
        vec![cells.map(str::to_owned)]
    }

    #[test]
    fn numbers_are_to_the_right_and_empty_columns_are_left_out() {
        let mut rows = rows(["read", "-", "7"]);
        rows.push(["randread", "-", "1234"].map(str::to_owned));
        let table = render(1, ["op", "starved ms", "MB/s"], &rows);
        assert_eq!(table, "op        MB/s\nread         7\nrandread  1234");
    }

    #[test]
    fn a_wide_table_continues_below_with_its_keys() {
        let wide = "1".repeat(30);
        let rows = rows(["read", &wide, &wide, &wide]);
        let table = render(1, ["op", "a", "b", "c"], &rows);
        assert!(table.lines().all(|line| line.len() <= WIDTH_MAX), "{table}");
        assert_eq!(table.matches("read").count(), 2, "{table}");
        assert_eq!(table.matches(&wide).count(), 3, "{table}");
    }

    #[test]
    fn blanks_between_columns_give_way_first() {
        let (half, more) = ("1".repeat(39), "1".repeat(40));
        let fits = |left: &str, right: &str| {
            let table = render(0, ["a", "b"], &rows([left, right]));
            table.lines().map(str::len).max()
        };
        assert_eq!(fits(&half, &half), Some(80), "two blanks");
        assert_eq!(fits(&half, &more), Some(80), "one blank");
        assert_eq!(fits(&more, &more), Some(40), "below each other");
    }

    #[test]
    fn hanging_text_breaks_between_words_and_keeps_long_ones() {
        let word = "x".repeat(90);
        let text = format!("{} {word} y\nz", "ab ".repeat(26));
        let hung = hang(4, &text);
        let lines: Vec<&str> = hung.lines().collect();
        assert_eq!(lines[0].len(), 4 + 25 * 3 - 4 - 1, "{hung}");
        assert_eq!(lines[1], "    ab");
        assert_eq!(lines[2], format!("    {word}"));
        assert_eq!(lines[3..], ["    y", "    z"]);
    }

    #[test]
    fn long_numbers_have_no_decimals() {
        assert_eq!(short(1.26), "1.3");
        assert_eq!(short(999.94), "999.9");
        assert_eq!(short(999.96), "1000");
        assert_eq!(short(12345.6), "12346");
    }
}
