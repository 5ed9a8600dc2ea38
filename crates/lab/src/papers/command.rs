//! `gannet-lab papers`: a paper's experiments on its simulated testbeds, beside what it published.

use super::{Figure, Paper, Published, Report, Verdict};
use crate::chart::{self, Lines, Panel};
use crate::cli::PapersOptions;
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use gannet_cli::failure::{Explain, Failure};
use gannet_cli::output;
use indicatif::{ProgressBar, ProgressDrawTarget};
use serde::Serialize;
use std::io::IsTerminal;
use std::path::Path;
use std::time::Duration;

/// Columns of the table: wide enough for its sentences, and the same wherever it is printed.
const TABLE_WIDTH: u16 = 150;
/// Between two movements of the progress.
const TICK: Duration = Duration::from_millis(100);

/// One line of the result.
#[derive(Debug, Serialize)]
struct Row<'a> {
    paper: &'static str,
    row: &'a str,
    unit: &'static str,
    /// A number, or the paper's words where it has none.
    published: serde_json::Value,
    simulated: f64,
    /// Null for a row that a constant was fitted on: it proves nothing.
    within: Option<bool>,
    note: &'a str,
}

/// Runs the experiments, prints the rows and draws the figures.
///
/// # Errors
/// A simulation stopped, or a chart cannot be written.
pub(crate) fn run(options: &PapersOptions) -> Result<(), Failure> {
    let paper = options.paper;
    let target = if std::io::stderr().is_terminal() {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    };
    let progress = ProgressBar::with_draw_target(None, target);
    progress.enable_steady_tick(TICK);
    let ran = paper.run(&mut |what| progress.set_message(what.to_owned()));
    progress.finish_and_clear();
    let report = ran.explain(|| format!("cannot run the experiments of {}", paper.name()))?;
    if let Some(directory) = &options.charts {
        write(&report, paper, directory)?;
    }
    show(&report, options.json)
}

fn show(report: &Report, as_json: bool) -> Result<(), Failure> {
    let summary = summary(report);
    if as_json {
        for row in &report.rows {
            let published = match row.published {
                Published::Number { value, .. } | Published::Fitted(value) => value.into(),
                ref words => words.to_string().into(),
            };
            output::json(&Row {
                paper: row.paper,
                row: &row.row,
                unit: row.unit,
                published,
                simulated: row.simulated,
                within: match row.within {
                    Verdict::Within => Some(true),
                    Verdict::Outside => Some(false),
                    Verdict::Fitted => None,
                },
                note: &row.note,
            })?;
        }
        output::tell(&summary);
        return Ok(());
    }
    output::line(&table(report))?;
    output::line(&summary)
}

fn table(report: &Report) -> String {
    let mut table = Table::new();
    table
        .load_style(presets::UTF8_BORDERS_ONLY)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(TABLE_WIDTH)
        .set_header(["row", "published", "simulated", "unit", "within", "note"]);
    for row in &report.rows {
        table.add_row([
            row.row.clone(),
            row.published.to_string(),
            digits(row.simulated),
            row.unit.to_owned(),
            row.within.name().to_owned(),
            row.note.clone(),
        ]);
    }
    for column in table.column_iter_mut().skip(1).take(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.to_string()
}

/// Three digits are more than the papers have.
fn digits(value: f64) -> String {
    let decimals = match value.abs() {
        large if large >= 100.0 => 0,
        middle if middle >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.decimals$}")
}

fn summary(report: &Report) -> String {
    let (within, numbers) = report.numbers();
    let is_order = |row: &&super::Row| matches!(row.published, Published::Order(_));
    let orders = report.rows.iter().filter(is_order);
    let (hold, orders) = orders.fold((0, 0), |(hold, count), row| {
        (hold + usize::from(row.within == Verdict::Within), count + 1)
    });
    let is_fitted = |row: &&super::Row| row.within == Verdict::Fitted;
    let fitted = report.rows.iter().filter(is_fitted).count();
    format!(
        "{within} of {numbers} numbers are within their tolerance (15 % unless the row says otherwise); {hold} of \
         {orders} orderings hold; {fitted} rows were fitted and do not count."
    )
}

/// Writes each figure to a file of its own, and a page with the rows and the figures.
fn write(report: &Report, paper: Paper, directory: &Path) -> Result<(), Failure> {
    let made = std::fs::create_dir_all(directory);
    made.explain(|| format!("cannot make {}", directory.display()))?;
    let write = |name: String, content: String| {
        let path = directory.join(name);
        std::fs::write(&path, content).explain(|| format!("cannot write {}", path.display()))
    };
    for figure in &report.figures {
        write(
            format!("{}.svg", figure.file),
            chart::svg(&[panel(figure)])?,
        )?;
    }
    write(format!("{}.md", paper.name()), page(report, paper))
}

/// The rows and the figures as Markdown.
fn page(report: &Report, paper: Paper) -> String {
    let name = paper.name();
    let mut page = format!(
        "# {name}\n\nWritten by `gannet-lab papers {name} --charts docs/papers`; see [README.md](README.md).\n\n\
         {}\n\n| row | published | simulated | unit | within | note |\n|---|---|---|---|---|---|\n",
        summary(report)
    );
    for row in &report.rows {
        let cells = [
            row.row.as_str(),
            &row.published.to_string(),
            &digits(row.simulated),
            row.unit,
            row.within.name(),
            &row.note,
        ]
        .map(|cell| cell.replace('|', "\\|"));
        page.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    for figure in &report.figures {
        page.push_str(&format!("\n![{}]({}.svg)\n", figure.title, figure.file));
    }
    page
}

fn panel(figure: &Figure) -> Panel {
    let series = figure.series.iter().map(|series| chart::Series {
        name: series.name.clone(),
        points: series.points.clone(),
    });
    Panel::Lines(Lines {
        title: figure.title.clone(),
        x: figure.x.to_owned(),
        y: figure.y.to_owned(),
        series: series.collect(),
    })
}
