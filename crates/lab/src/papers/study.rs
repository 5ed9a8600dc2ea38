//! The constants that decide a paper's rows: its experiments again with one constant halved or doubled, and with
//! whole groups of costs at nothing.
//!
//! All of it follows from the constants' list ([`Profile::constants`]) and their labels; no row has a rule of its
//! own:
//!
//! - *Sensitivity*: each assumed constant is halved and doubled; the largest move of a row, and by which.
//! - *Exclusion*: a row whose number follows from what its paper gives ([`Row::put_in`]) proves nothing. The same holds
//!   for a row that a fitted constant moves by more than [`FITTED_MOVE_MAX`]. It holds for a level that one constant
//!   moves nearly in proportion ([`DECIDED_MOVE_MIN`]): a given or derived rate that is halved, or any assumed one.
//!   And it holds for a ratio, count or order that agrees only with an assumed constant as it is, or only when it is
//!   measured in full, so that no constant could be varied.
//! - *Ablation*: [`ABLATIONS`].
//!
//! [`Profile::constants`]: gannet_sim::nic::Profile::constants

use super::kept::Kept;
use super::laboratory::{Change, Done, Extent, Factor, Origin, OwnConstant, Used};
use super::{Failure, Figure, Paper, Report, Row, Verdict};
use gannet_sim::nic::Constant;
use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Share by which a fitted constant, halved or doubled, may move a row that counts.
pub(super) const FITTED_MOVE_MAX: f64 = 0.05;
/// Share by which a level moves at least when the constant that decides it is halved, or doubled if it is assumed.
pub(super) const DECIDED_MOVE_MIN: f64 = 0.4;
/// Why a row proves nothing whose short runs cannot show what a constant does to it.
const IN_FULL_ONLY: &str = "measured shorter, it does not agree";
/// Constants of a stream; they matter where something goes over TCP.
const OF_TCP: [&str; 9] = [
    "write_call_ns",
    "read_call_ns",
    "packet_bytes",
    "queues",
    "send_packet_ns",
    "receive_packet_ns",
    "stack_bytes_per_s",
    "interrupt_packets",
    "copy_stream_bytes_per_s",
];
/// Constants of calls and what answers them; they matter where there are calls.
const OF_CALLS: [&str; 26] = [
    "client_cpus",
    "client_operation_ns",
    "send_message_ns",
    "receive_message_ns",
    "transfer_bytes",
    "match_receive_ns",
    "read_depth",
    "read_turnaround_ns",
    "remote_invalidation",
    "immediates",
    "all_physical",
    "fast_maps",
    "optimistic_reads",
    "fast_map_ns",
    "fast_map_page_ns",
    "fast_unmap_ns",
    "fast_unmap_command_ns",
    "operation_ns",
    "read_bytes_per_s",
    "write_bytes_per_s",
    "threads",
    "cache_bytes",
    "block_bytes",
    "read_ahead_bytes",
    "seek_ns",
    "disk_bytes_per_s",
];
/// Constants of files that are sent without a call; they matter where that is done.
const OF_FILES: [&str; 1] = ["register_file_page_ns"];

/// The group of costs that is left out, in words, and the constants that are 0 then.
pub(super) const ABLATIONS: [(&str, &[&str]); 5] = [
    (
        "registration cost 0",
        &[
            "register_ns",
            "register_page_ns",
            "register_file_page_ns",
            "register_command_ns",
            "register_entry_ns",
            "deregister_ns",
            "deregister_command_ns",
            "fast_map_ns",
            "fast_map_page_ns",
            "fast_unmap_ns",
            "fast_unmap_command_ns",
        ],
    ),
    (
        "copies cost 0",
        &[
            "copy_bytes_per_s",
            "read_bytes_per_s",
            "write_bytes_per_s",
            "copy_stream_bytes_per_s",
        ],
    ),
    ("memory without a bound", &["memory_bytes_per_s"]),
    (
        "interrupts and switches 0",
        &["interrupt_ns", "context_switch_ns"],
    ),
    (
        "RPC, NFS and file system's work 0",
        &[
            "send_message_ns",
            "receive_message_ns",
            "client_operation_ns",
            "operation_ns",
        ],
    ),
];

/// A paper's experiments, and what decides them.
#[derive(Debug, Clone, PartialEq)]
pub struct Study {
    /// The paper.
    pub paper: Paper,
    /// Its rows and figures.
    pub report: Report,
    /// The judgement of each row, in their order.
    pub judged: Vec<Judged>,
    /// Its figures, each with its means without some cost.
    pub ablated: Vec<Ablated>,
    /// The constants of its testbeds: of which, the name, what it is.
    pub constants: Vec<(&'static str, &'static str, Constant)>,
}

/// The judgement of a row beside its number.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Judged {
    /// The assumed constant that moves it most.
    pub sensitivity: Option<Move>,
    /// The reason why it does not count, if it does not.
    pub excluded: Option<String>,
    /// The row without some cost, in the order of [`Study::ablations`]; the first is with all.
    pub ablated: Vec<f64>,
}

/// The movement of a row.
#[derive(Debug, Clone, PartialEq)]
pub struct Move {
    /// The constant that was changed.
    pub constant: String,
    /// `halved` or `doubled`.
    pub how: String,
    /// The share of the row's number that moves.
    pub share: f64,
}

/// A figure, and the means of its lines without some cost.
#[derive(Debug, Clone, PartialEq)]
pub struct Ablated {
    /// The figure's file.
    pub file: &'static str,
    /// Each line's name and means, in the order of [`Study::ablations`]; the first is with all costs.
    pub lines: Vec<(String, Vec<f64>)>,
}

impl Study {
    /// The groups of costs that are left out one after the other.
    pub fn ablations() -> impl Iterator<Item = &'static str> {
        ABLATIONS.iter().map(|(name, _)| *name)
    }

    /// Runs a paper's experiments in all these ways, on all processors.
    ///
    /// # Errors
    /// See [`Failure`].
    pub fn run(paper: Paper, progress: &mut dyn FnMut(&str)) -> Result<Study, Failure> {
        Study::run_beside(paper, None, progress)
    }

    /// The same, but for the variations of single constants, which are most of the runs: what `kept` says of them is
    /// believed, if it is given.
    ///
    /// # Errors
    /// See [`Failure`].
    pub(super) fn run_beside(
        paper: Paper,
        kept: Option<&Kept>,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Study, Failure> {
        progress(&format!("{}: its machines", paper.name()));
        let nothing = (Change::Nothing, Extent::Ends);
        let ran = paper.run_with(nothing.0, nothing.1, Done::default(), &mut |_| {})?;
        let (base, used, own, done) = (ran.report, ran.used, ran.own, ran.done);
        let variations = match kept {
            Some(_) => Vec::new(),
            None => variations(&used, &own),
        };
        // The longest comes first, so that no thread waits for it at the end.
        let mut runs = vec![(Change::Nothing, Extent::Full)];
        runs.extend(ABLATIONS.map(|(_, names)| (Change::Free(names), Extent::Ends)));
        runs.extend(variations.iter().map(|it| (it.change(), Extent::Ends)));
        let mut done = run_all(paper, &runs, &done, progress)?;
        let report = std::mem::replace(&mut done[0], base);
        let (short, first_variation) = (done, 1 + ABLATIONS.len());
        let base = &short[0];
        let judged = report.rows.iter().map(|row| {
            // A row that is measured in full only is in none of the short runs.
            let same_of = |report: &Report| {
                let mut rows = report.rows.iter();
                rows.find(|it| it.row == row.row).cloned()
            };
            let number_of = |report: &Report| same_of(report).map_or(f64::NAN, |it| it.simulated);
            let before = same_of(base);
            let moves = variations.iter().zip(&short[first_variation..]);
            let moves = moves.filter_map(|(variation, report)| {
                Effect::of(variation, before.as_ref()?, &same_of(report)?)
            });
            let moves: Vec<_> = moves.collect();
            let (sensitivity, excluded) = match kept {
                Some(kept) => kept.of(&row.row),
                None => (sensitivity(&moves), excluded(row, before.as_ref(), &moves)),
            };
            Judged {
                sensitivity,
                excluded: row.put_in.map(String::from).or(excluded),
                ablated: short[..first_variation].iter().map(number_of).collect(),
            }
        });
        Ok(Study {
            paper,
            judged: judged.collect(),
            ablated: ablated(&report, &short[..first_variation]),
            constants: constants(&used, &own),
            report,
        })
    }

    /// Rows with what is known of them.
    pub fn rows(&self) -> impl Iterator<Item = (&Row, &Judged)> {
        self.report.rows.iter().zip(&self.judged)
    }

    /// Rows of a paper that count, of some kinds: those that agree, and all.
    pub fn agreeing(&self, kinds: &[&str]) -> (usize, usize) {
        let counted = self.rows().filter(|(row, judged)| {
            row.of_paper && judged.excluded.is_none() && kinds.contains(&row.published.kind())
        });
        counted.fold((0, 0), |(agreeing, all), (row, _)| {
            let agrees = row.within == Verdict::Within;
            (agreeing + usize::from(agrees), all + 1)
        })
    }
}

/// Whether a testbed's constant was charged for.
fn matters(used: &Used, name: &str) -> bool {
    (used.tcp || !OF_TCP.contains(&name))
        && (used.calls || !OF_CALLS.contains(&name))
        && (!used.calls || !OF_FILES.contains(&name))
}

/// One constant, changed.
struct Variation {
    name: &'static str,
    factor: Factor,
    origin: Origin,
    /// The label of its source.
    label: &'static str,
}

impl Variation {
    fn change(&self) -> Change {
        Change::Scaled(self.name, self.factor, self.origin)
    }
}

/// Every assumed or fitted constant halved and doubled; every other rate halved.
fn variations(used: &[Used], own: &[OwnConstant]) -> Vec<Variation> {
    let of_testbeds = used.iter().flat_map(|used| {
        let constants = used.profile.constants().into_iter();
        constants.filter(|(name, _)| matters(used, name))
    });
    let own = own.iter().map(|own| (own.name, own.constant));
    let mut variations: Vec<Variation> = Vec::new();
    for (name, constant) in of_testbeds.chain(own) {
        let origin = Origin::of(&constant);
        let is_known = |it: &Variation| it.name == name && it.origin == origin;
        if constant.value == 0 || variations.iter().any(is_known) {
            continue;
        }
        let factors: &[Factor] = match origin {
            Origin::Assumed | Origin::Fitted => &[Factor::Halved, Factor::Doubled],
            Origin::Stated if name.ends_with("bytes_per_s") => &[Factor::Halved],
            Origin::Stated => &[],
        };
        variations.extend(factors.iter().map(|factor| Variation {
            name,
            factor: *factor,
            origin,
            label: constant.source.label(),
        }));
    }
    variations
}

/// The effect of a variation on a row.
struct Effect<'a> {
    variation: &'a Variation,
    /// The share of the row's number that moves.
    share: f64,
    /// The row agrees with the paper before, and not with the variation.
    refutes: bool,
}

impl Effect<'_> {
    /// The effect of `variation` on a row, from the row without it and with it. None where either has no number.
    fn of<'a>(variation: &'a Variation, before: &Row, after: &Row) -> Option<Effect<'a>> {
        let share = share_moved(before.simulated, after.simulated);
        share.is_finite().then(|| Effect {
            variation,
            share,
            refutes: before.within == Verdict::Within && after.within != Verdict::Within,
        })
    }

    /// Whether the constant decides `row`, so that it proves nothing.
    fn decides(&self, row: &Row) -> bool {
        let is_level = row.published.is_level();
        match self.variation.origin {
            Origin::Fitted => self.share.abs() > FITTED_MOVE_MAX,
            Origin::Stated => is_level && self.share.abs() >= DECIDED_MOVE_MIN,
            Origin::Assumed if is_level => self.share.abs() >= DECIDED_MOVE_MIN,
            Origin::Assumed => self.refutes && row.within == Verdict::Within,
        }
    }
}

/// The results of `runs`, in their order.
fn run_all(
    paper: Paper,
    runs: &[(Change, Extent)],
    known: &Done,
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<Report>, Failure> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some((change, extent)) = runs.get(number) else {
                return;
            };
            let ran = paper.run_with(*change, *extent, known.clone(), &mut |_| {});
            let ran = ran.map(|ran| ran.report);
            if let Ok(mut done) = done.lock() {
                done.push((number, ran));
            }
        }
    };
    progress(&format!("{}: what decides its rows", paper.name()));
    let workers = std::thread::available_parallelism().map_or(1, NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(work);
        }
    });
    let mut done = done.into_inner().unwrap_or_default();
    done.sort_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, ran)| ran).collect()
}

/// The change as a share of the value before. A value of 0 before counts as a change by the value after.
fn share_moved(before: f64, after: f64) -> f64 {
    match before.abs() {
        some if some > 1e-9 => (after - before) / some,
        _ => after - before,
    }
}

fn sensitivity(effects: &[Effect<'_>]) -> Option<Move> {
    let is_assumed = |it: &&Effect<'_>| it.variation.origin == Origin::Assumed;
    let assumed = effects.iter().filter(is_assumed);
    let most = assumed.max_by(|one, other| one.share.abs().total_cmp(&other.share.abs()));
    most.filter(|it| it.share.abs() >= 0.005).map(|it| Move {
        constant: it.variation.name.to_owned(),
        how: it.variation.factor.name().to_owned(),
        share: it.share,
    })
}

/// The reason why `row` proves nothing, of the constant that moves it most. `short` is the row of a short run.
fn excluded(row: &Row, short: Option<&Row>, effects: &[Effect<'_>]) -> Option<String> {
    let deciding = effects.iter().filter(|it| it.decides(row));
    let most = deciding.max_by(|one, other| one.share.abs().total_cmp(&other.share.abs()));
    let Some(most) = most else {
        let agrees = |row: &Row| row.within == Verdict::Within;
        let is_lost = agrees(row) && short.is_some_and(|short| !agrees(short));
        return (is_lost && !row.published.is_level()).then(|| String::from(IN_FULL_ONLY));
    };
    let Variation {
        name,
        factor,
        label,
        ..
    } = most.variation;
    let outcome = if most.refutes && !row.published.is_level() {
        " and does not agree"
    } else {
        ""
    };
    Some(format!(
        "{name} ({label}) decides it: {}, it moves by {:+.0} %{outcome}",
        factor.name(),
        100.0 * most.share
    ))
}

fn ablated(report: &Report, short: &[Report]) -> Vec<Ablated> {
    let of = |figure: &Figure| Ablated {
        file: figure.file,
        lines: (figure.series.iter().enumerate())
            .map(|(line, series)| {
                let mean = |report: &Report| {
                    let mut figures = report.figures.iter();
                    let figure = figures.find(|it| it.file == figure.file);
                    let series = figure.and_then(|figure| figure.series.get(line));
                    series.map_or(f64::NAN, |series| {
                        let sum: f64 = series.points.iter().map(|point| point.1).sum();
                        sum / super::laboratory::whole(series.points.len().max(1))
                    })
                };
                (series.name.clone(), short.iter().map(mean).collect())
            })
            .collect(),
    };
    report.figures.iter().map(of).collect()
}

/// The constants in which each testbed differs from the one before it, then the study's own constants.
fn constants(used: &[Used], own: &[OwnConstant]) -> Vec<(&'static str, &'static str, Constant)> {
    let mut constants: Vec<(&'static str, &'static str, Constant)> = Vec::new();
    for used in used {
        for (name, constant) in used.profile.constants() {
            let is_known = constants
                .iter()
                .any(|(_, known, same)| *known == name && *same == constant);
            if !is_known && matters(used, name) {
                constants.push((used.profile.name, name, constant));
            }
        }
    }
    constants.extend(own.iter().map(|own| (own.testbed, own.name, own.constant)));
    constants
}

#[cfg(test)]
mod tests {
    use super::super::Published;
    use super::*;

    fn row(published: Published, simulated: f64) -> Row {
        Row {
            paper: "sandia",
            row: String::from("a row"),
            unit: "MB/s",
            within: published.judge(simulated),
            published,
            simulated,
            least_difference: None,
            note: String::new(),
            put_in: None,
            of_paper: true,
        }
    }

    fn reason(published: &Published, origin: Origin, before: f64, after: f64) -> Option<String> {
        let variation = Variation {
            name: "dma_bytes_per_s",
            factor: Factor::Halved,
            origin,
            label: "assumed",
        };
        let (before, after) = (
            row(published.clone(), before),
            row(published.clone(), after),
        );
        let effects: Vec<_> = Effect::of(&variation, &before, &after)
            .into_iter()
            .collect();
        excluded(&before, Some(&before), &effects)
    }

    #[test]
    fn a_level_that_an_assumed_constant_decides_does_not_count() {
        let level = Published::Between(1000.0, 2000.0);
        let why = reason(&level, Origin::Assumed, 1492.0, 761.0);
        let expected = "dma_bytes_per_s (assumed) decides it: halved, it moves by -49 %";
        assert_eq!(why.as_deref(), Some(expected));
        assert_eq!(reason(&level, Origin::Assumed, 1492.0, 1200.0), None);
        assert!(reason(&level, Origin::Stated, 1492.0, 761.0).is_some());
    }

    #[test]
    fn an_effect_that_agrees_only_with_an_assumed_constant_does_not_count() {
        let ratio = Published::Ratio(2.0);
        assert!(reason(&ratio, Origin::Assumed, 1.8, 1.1).is_some());
        assert_eq!(reason(&ratio, Origin::Assumed, 1.8, 2.2), None);
        // A ratio that does not agree is a result, whatever else would make it agree.
        assert_eq!(reason(&ratio, Origin::Assumed, 1.1, 1.8), None);
        assert_eq!(reason(&ratio, Origin::Stated, 1.8, 1.1), None);
    }

    #[test]
    fn an_effect_that_short_runs_do_not_have_does_not_count() {
        let ratio = Published::Ratio(2.0);
        let (full, short) = (row(ratio.clone(), 1.8), row(ratio, 1.1));
        assert_eq!(
            excluded(&full, Some(&short), &[]).as_deref(),
            Some(IN_FULL_ONLY)
        );
        assert_eq!(excluded(&full, Some(&full), &[]), None);
        assert_eq!(excluded(&full, None, &[]), None);
        assert_eq!(excluded(&short, Some(&short), &[]), None);
    }
}
