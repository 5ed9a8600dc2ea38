//! `gannet-lab papers`: the papers' experiments on their simulated testbeds, beside what was published.

use super::kept::Kept;
use super::page::{counted, digits, page, sensitivity, summary, verdict};
use super::{Figure, Judged, Published, Row as Claim, Study, Verdict};
use crate::chart::{self, Lines, Panel};
use crate::cli::PapersOptions;
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use gannet_cli::failure::{Explain, Failure};
use gannet_cli::output;
use indicatif::{ProgressBar, ProgressDrawTarget};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::Path;
use std::time::Duration;

/// Columns of the table: wide enough for its sentences, and the same wherever it is printed.
const TABLE_WIDTH: u16 = 170;
/// The time between two updates of the progress display.
const TICK: Duration = Duration::from_millis(100);

/// One line of the result.
#[derive(Debug, Serialize)]
struct Row<'a> {
    paper: &'static str,
    row: &'a str,
    /// `level`, `ratio`, `count` or `order`.
    kind: &'static str,
    /// The share by which two numbers of an order differ at least where that counts; null for other claims.
    least_difference: Option<f64>,
    unit: &'static str,
    /// A number, or the paper's words where it has none.
    published: serde_json::Value,
    simulated: f64,
    /// Null for a row that was put in: it proves nothing.
    within: Option<bool>,
    /// Why it does not count.
    excluded: Option<&'a str>,
    /// The assumed constant that moves it most, halved or doubled, and by what share.
    sensitivity: Option<Sensitivity<'a>>,
    /// Its value without some cost; measured shorter than `simulated`, as `with all` is.
    ablations: BTreeMap<&'static str, f64>,
    of_paper: bool,
    note: &'a str,
}

#[derive(Debug, Serialize)]
struct Sensitivity<'a> {
    constant: &'a str,
    how: &'a str,
    share: f64,
}

/// One constant of a testbed.
#[derive(Debug, Serialize)]
struct ConstantLine {
    paper: &'static str,
    testbed: &'static str,
    constant: &'static str,
    value: u64,
    /// `given`, `derived`, `assumed` or `fitted`.
    label: &'static str,
    source: &'static str,
}

/// Runs the experiments, prints the rows, and draws the figures or compares them with what was drawn.
///
/// # Errors
/// A simulation stopped, a chart cannot be written, or one is not what comes out now.
pub(crate) fn run(options: &PapersOptions) -> Result<(), Failure> {
    let target = if std::io::stderr().is_terminal() {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    };
    let progress = ProgressBar::with_draw_target(None, target);
    progress.enable_steady_tick(TICK);
    let (mut stale, mut studies) = (Vec::new(), Vec::new());
    for paper in options.paper.papers() {
        let kept = options.check.as_ref().filter(|_| !options.sensitivity);
        let kept = kept.map(|directory| {
            // A page that is not there says nothing, and differs.
            let page = directory.join(format!("{}.md", paper.name()));
            Kept::new(std::fs::read_to_string(page).unwrap_or_default())
        });
        let tell = &mut |what: &str| progress.set_message(what.to_owned());
        let ran = Study::run_beside(*paper, kept.as_ref(), tell);
        let study = ran.explain(|| format!("cannot run the experiments of {}", paper.name()))?;
        if let Some(directory) = &options.check {
            compare(&study, directory, &mut stale)?;
        } else {
            if let Some(directory) = &options.charts {
                write(&study, directory)?;
            }
            progress.suspend(|| show(&study, options.json))?;
        }
        studies.push(study);
    }
    progress.finish_and_clear();
    if let (Some(first), Some(directory)) = (stale.first(), &options.check) {
        let what = format!("{first} is not what comes out now");
        let hint = format!(
            "draw again: gannet-lab papers all --charts {}",
            directory.display()
        );
        let why = format!("{} files differ", stale.len());
        return Err(Failure::new(what, why).hint(hint));
    }
    output::report(&counted(&studies));
    Ok(())
}

fn show(study: &Study, as_json: bool) -> Result<(), Failure> {
    if !as_json {
        output::line(&format!("{}\n{}", study.paper.name(), table(study, true)))?;
        if study.report.rows.iter().any(|row| !row.of_paper) {
            output::line(&format!("not of the paper\n{}", table(study, false)))?;
        }
        return output::line(&summary(study));
    }
    for (row, judged) in study.rows() {
        output::json(&json_row(row, judged))?;
    }
    for (testbed, name, constant) in &study.constants {
        output::json(&ConstantLine {
            paper: study.paper.name(),
            testbed,
            constant: name,
            value: constant.value,
            label: constant.source.label(),
            source: constant.source.text(),
        })?;
    }
    output::report(&summary(study));
    Ok(())
}

fn json_row<'a>(row: &'a Claim, judged: &'a Judged) -> Row<'a> {
    let published = match row.published {
        Published::Level { value, .. } | Published::Ratio(value) | Published::Count(value) => {
            value.into()
        }
        ref words => words.to_string().into(),
    };
    let names = std::iter::once("with all").chain(Study::ablations());
    Row {
        paper: row.paper,
        row: &row.row,
        kind: row.published.kind(),
        least_difference: row.least_difference,
        unit: row.unit,
        published,
        simulated: row.simulated,
        within: match judged.excluded {
            Some(_) => None,
            None => Some(row.within == Verdict::Within),
        },
        excluded: judged.excluded.as_deref(),
        sensitivity: judged.sensitivity.as_ref().map(|moved| Sensitivity {
            constant: &moved.constant,
            how: &moved.how,
            share: moved.share,
        }),
        ablations: names.zip(judged.ablated.iter().copied()).collect(),
        of_paper: row.of_paper,
        note: &row.note,
    }
}

fn table(study: &Study, of_paper: bool) -> String {
    let mut table = Table::new();
    table
        .load_style(presets::UTF8_BORDERS_ONLY)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(TABLE_WIDTH)
        .set_header([
            "row",
            "published",
            "simulated",
            "unit",
            "within",
            "sensitivity",
            "note",
        ]);
    for (row, judged) in study.rows().filter(|(row, _)| row.of_paper == of_paper) {
        let note = match &judged.excluded {
            Some(why) => format!("{why}. {}", row.note),
            None => row.note.clone(),
        };
        table.add_row([
            row.row.clone(),
            row.published.to_string(),
            digits(row.simulated),
            row.unit.to_owned(),
            verdict(row, judged).to_owned(),
            sensitivity(judged),
            note,
        ]);
    }
    for column in table.column_iter_mut().skip(1).take(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.to_string()
}

/// Each figure as a file of its own, and the page.
fn files(study: &Study) -> Result<Vec<(String, String)>, Failure> {
    let mut files = Vec::new();
    for figure in &study.report.figures {
        let drawn = chart::svg(&[panel(figure)])?;
        files.push((format!("{}.svg", figure.file), drawn));
    }
    files.push((format!("{}.md", study.paper.name()), page(study)));
    Ok(files)
}

fn write(study: &Study, directory: &Path) -> Result<(), Failure> {
    let made = std::fs::create_dir_all(directory);
    made.explain(|| format!("cannot make {}", directory.display()))?;
    for (name, content) in files(study)? {
        let path = directory.join(name);
        let written = std::fs::write(&path, content);
        written.explain(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Adds the files of `directory` that are not what comes out now.
fn compare(study: &Study, directory: &Path, stale: &mut Vec<String>) -> Result<(), Failure> {
    for (name, content) in files(study)? {
        let path = directory.join(name);
        if !std::fs::read(&path).is_ok_and(|kept| kept == content.as_bytes()) {
            stale.push(path.display().to_string());
        }
    }
    Ok(())
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
