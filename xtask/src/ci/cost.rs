//! What a step costs in processor seconds, scaled by how fast the processor is in this run, and its figure in
//! `.ci/budget`.
//!
//! Seconds of a clock tell little of a machine that others use: the same build takes 1.3 to 1.6 times as many processor
//! seconds there. So a fixed piece of work is timed before, during and after a step, and costs are counted in its
//! speed. During the step matters most: caches and memory are slower then, for the step as for the fixed work.

use anyhow::{Context, Result, bail};
use rustix::time::{ClockId, clock_gettime};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use std::{fmt, fs, thread};

/// Where the figures are, below the workspace.
pub(super) const BUDGET: &str = ".ci/budget";
/// The factor by which a step may exceed its figure.
const EXCESS_MAX: f64 = 1.5;
/// Seconds that a step may take beyond its figure in any case: below that, noise decides.
const EXCESS_SECONDS: f64 = 10.0;
/// The pause between two timings of the fixed work during a step: it is to take less than a hundredth of the step.
const SAMPLE_PAUSE: Duration = Duration::from_secs(10);
/// The name of the fixed piece of work in the file of figures.
const CALIBRATION: &str = "calibration";

/// Processor seconds that a step may take, by its name.
pub(super) struct Budget {
    /// Processor seconds of [`calibrate`] on the machine that the figures are from.
    calibration: f64,
    figures: HashMap<String, f64>,
}

/// The cost of a step.
pub(super) struct Cost {
    pub(super) name: String,
    wall: Duration,
    /// Processor seconds of the step and of all its processes.
    processor: f64,
    /// The same on the machine that the figures are from.
    scaled: f64,
    /// Processor seconds of [`fixed_work`] around the step and during it.
    calibration: f64,
    figure: Option<f64>,
}

/// The beginning of a step.
pub(super) struct Meter {
    began: Instant,
    processor: f64,
    before: f64,
    during: Samples,
}

/// Timings of the fixed work while a step runs.
struct Samples {
    thread: JoinHandle<Vec<f64>>,
    /// Its end ends the thread.
    stop: Sender<()>,
}

impl Budget {
    /// Reads the figures of the workspace at `root`.
    ///
    /// # Errors
    /// The file cannot be read, has a line that is no name with a number, or has no `calibration`.
    pub(super) fn read(root: &Path) -> Result<Budget> {
        let text = fs::read_to_string(root.join(BUDGET));
        Budget::parse(&text.with_context(|| format!("cannot read {BUDGET}"))?)
    }

    fn parse(text: &str) -> Result<Budget> {
        let mut figures = HashMap::new();
        for line in text.lines() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let (name, seconds) = line.rsplit_once(' ').with_context(|| bad_line(line))?;
            let seconds = seconds.parse().with_context(|| bad_line(line))?;
            figures.insert(name.trim().to_owned(), seconds);
        }
        let calibration = figures.remove(CALIBRATION);
        Ok(Budget {
            calibration: calibration.with_context(|| format!("{BUDGET} has no {CALIBRATION}"))?,
            figures,
        })
    }

    /// Ends a step that [`Meter::start`] began.
    pub(super) fn end(&self, name: &str, meter: Meter) -> Cost {
        let processor = processor_seconds() - meter.processor;
        let wall = meter.began.elapsed();
        let mut timings = meter.during.end();
        timings.extend([meter.before, calibrate()]);
        let calibration = timings.iter().sum::<f64>() / timings.len() as f64;
        Cost {
            name: name.to_owned(),
            wall,
            processor,
            scaled: processor / (calibration / self.calibration),
            calibration,
            figure: self.figures.get(name).copied(),
        }
    }

    /// The table of all steps.
    ///
    /// # Errors
    /// Steps exceed their figures by half, or have none; they are named after the table was printed.
    pub(super) fn judge(&self, costs: &[Cost]) -> Result<()> {
        println!(
            "\n{:36} {:>7} {:>10} {:>8} {:>7} {:>12}",
            "step", "wall s", "processor", "scaled", "figure", "fixed work"
        );
        costs.iter().for_each(|cost| println!("{cost}"));
        let (processor, scaled): (f64, f64) = costs
            .iter()
            .map(|cost| (cost.processor, cost.scaled))
            .fold((0.0, 0.0), |sum, cost| (sum.0 + cost.0, sum.1 + cost.1));
        println!("{:36} {:7} {processor:10.0} {scaled:8.0}", "all", "");
        let faults: Vec<String> = costs.iter().filter_map(Cost::fault).collect();
        if !faults.is_empty() {
            bail!(
                "{} (mend the step, or change its line in {BUDGET} and say why)",
                faults.join("; ")
            );
        }
        Ok(())
    }
}

fn bad_line(line: &str) -> String {
    format!("{BUDGET}: `{line}` is no name with processor seconds behind it")
}

impl Meter {
    pub(super) fn start() -> Meter {
        let before = calibrate();
        Meter {
            began: Instant::now(),
            processor: processor_seconds(),
            before,
            during: Samples::begin(),
        }
    }

    /// For a step that ran beside others since `self`: its processes count when they are waited for, which is now.
    pub(super) fn resumed(self) -> Meter {
        Meter {
            processor: processor_seconds(),
            ..self
        }
    }
}

impl Samples {
    fn begin() -> Samples {
        let (stop, stopped) = channel::<()>();
        let thread = thread::spawn(move || {
            let mut timings = Vec::new();
            while stopped.recv_timeout(SAMPLE_PAUSE) == Err(RecvTimeoutError::Timeout) {
                timings.push(timed_work());
            }
            timings
        });
        Samples { thread, stop }
    }

    fn end(self) -> Vec<f64> {
        drop(self.stop);
        self.thread.join().unwrap_or_default()
    }
}

impl Cost {
    /// The excess over its figure, in words; `None` if it is within.
    fn fault(&self) -> Option<String> {
        let Some(figure) = self.figure else {
            return Some(format!(
                "`{}` has no figure; it took {:.0}",
                self.name, self.scaled
            ));
        };
        let bound = (figure * EXCESS_MAX).max(figure + EXCESS_SECONDS);
        (self.scaled > bound).then(|| {
            format!(
                "`{}` took {:.0} processor seconds, its figure is {figure:.0}",
                self.name, self.scaled
            )
        })
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let figure = self
            .figure
            .map_or(String::from("none"), |it| it.to_string());
        let wall = self.wall.as_secs_f64();
        write!(
            f,
            "{:36} {wall:7.0} {:10.0} {:8.0} {figure:>7} {:12.3}",
            self.name, self.processor, self.scaled, self.calibration
        )
    }
}

/// Processor seconds of this process and of its children that have ended, theirs included.
fn processor_seconds() -> f64 {
    // getrusage(2) has the same, but no safe wrapper in the crates used here.
    let text = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The second field is the program's name, which may have spaces; utime is the 14th.
    let fields = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks = fields.split_whitespace().skip(11).take(4);
    let ticks: u64 = ticks.filter_map(|it| it.parse::<u64>().ok()).sum();
    ticks as f64 / rustix::param::clock_ticks_per_second() as f64
}

/// Processor seconds of [`fixed_work`] on each of two processors at the same time, as the steps use them.
fn calibrate() -> f64 {
    thread::scope(|scope| {
        let other = scope.spawn(timed_work);
        (timed_work() + other.join().unwrap_or_default()) / 2.0
    })
}

/// Processor seconds of [`fixed_work`] on this thread.
fn timed_work() -> f64 {
    let began = clock_gettime(ClockId::ThreadCPUTime);
    std::hint::black_box(fixed_work());
    let ended = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = (ended.tv_sec - began.tv_sec) as f64;
    seconds + (ended.tv_nsec - began.tv_nsec) as f64 / 1e9
}

/// Searches and changes of a map beyond the caches of one core, much as compilers do.
fn fixed_work() -> u64 {
    let mut map = BTreeMap::new();
    let mut state: u64 = 1;
    for round in 0..150_000_u64 {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        *map.entry(state >> 44).or_insert(round) += 1;
    }
    map.into_iter().map(|(key, count)| key ^ count).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(name: &str, scaled: f64, figure: Option<f64>) -> Cost {
        Cost {
            name: name.to_owned(),
            wall: Duration::from_secs(1),
            processor: scaled,
            scaled,
            calibration: 1.0,
            figure,
        }
    }

    #[test]
    fn a_step_may_exceed_its_figure_by_half() {
        assert!(cost("build", 149.0, Some(100.0)).fault().is_none());
        assert!(cost("build", 151.0, Some(100.0)).fault().is_some());
        // A short one by ten seconds.
        assert!(cost("format", 11.0, Some(2.0)).fault().is_none());
        assert!(cost("format", 13.0, Some(2.0)).fault().is_some());
    }

    #[test]
    fn a_step_without_a_figure_is_a_fault() {
        let fault = cost("new", 12.0, None).fault().unwrap();
        assert!(fault.contains("`new` has no figure; it took 12"), "{fault}");
    }

    #[test]
    fn figures_are_names_with_numbers() {
        let budget = Budget::parse("# why\ncalibration 0.5\ntest build 300 # cold\n").unwrap();
        assert_eq!(budget.calibration, 0.5);
        assert_eq!(budget.figures.get("test build"), Some(&300.0));
        assert!(Budget::parse("test build 300\n").is_err(), "no calibration");
        assert!(Budget::parse("calibration 1\ntests many\n").is_err());
    }

    #[test]
    fn work_of_this_process_is_counted() {
        let began = processor_seconds();
        while processor_seconds() < began + 0.03 {
            std::hint::black_box(fixed_work());
        }
    }
}
