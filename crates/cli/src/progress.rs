//! How far long work is: counted always, drawn on a terminal, and summed up on a line at its end.

use crate::output;
use crate::size::human;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::cell::Cell;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// How often the drawing changes while nothing happens.
const TICK: Duration = Duration::from_millis(200);

/// The kind of work with files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// Bytes are moved.
    Copy,
    /// Names are removed.
    Remove,
}

/// Counts files and bytes.
pub(crate) struct Progress {
    work: Work,
    bar: ProgressBar,
    is_quiet: bool,
    began: Instant,
    done: Count,
    /// As far as is known.
    all: Count,
    directories: Cell<u64>,
    /// The count `all` is final.
    is_counted: Cell<bool>,
}

#[derive(Default)]
struct Count {
    files: Cell<u64>,
    bytes: Cell<u64>,
}

impl Count {
    fn add(&self, files: u64, bytes: u64) {
        self.files.set(self.files.get() + files);
        self.bytes.set(self.bytes.get() + bytes);
    }
}

impl Progress {
    /// A counter that draws a bar when standard error is a terminal and `is_quiet` is false.
    pub(crate) fn new(work: Work, is_quiet: bool) -> Progress {
        let target = if is_quiet || !std::io::stderr().is_terminal() {
            ProgressDrawTarget::hidden()
        } else {
            ProgressDrawTarget::stderr()
        };
        let bar = ProgressBar::with_draw_target(Some(0), target);
        if !bar.is_hidden() {
            bar.enable_steady_tick(TICK);
        }
        output::show_bar(Some(bar.clone()));
        let progress = Progress {
            work,
            bar,
            is_quiet,
            began: Instant::now(),
            done: Count::default(),
            all: Count::default(),
            directories: Cell::new(0),
            is_counted: Cell::new(false),
        };
        progress.draw_as(match work {
            Work::Copy => {
                "{spinner} {binary_bytes} of {binary_total_bytes} found so far {binary_bytes_per_sec} {msg}"
            }
            Work::Remove => "{spinner} {msg}",
        });
        progress
    }

    fn draw_as(&self, shape: &str) {
        if let Ok(style) = ProgressStyle::with_template(shape) {
            self.bar.set_style(style);
        }
    }

    /// The bytes come from a stream whose length is not known.
    pub(crate) fn without_length(&self) {
        self.draw_as("{spinner} {binary_bytes} {binary_bytes_per_sec}");
    }

    /// Whether anything was to be done.
    pub(crate) fn has_begun(&self) -> bool {
        self.is_counted.get() || self.all.files.get() > 0
    }

    /// More is to be done.
    pub(crate) fn expect(&self, files: u64, bytes: u64) {
        self.all.add(files, bytes);
        self.bar.inc_length(match self.work {
            Work::Copy => bytes,
            Work::Remove => files,
        });
        self.report_files();
    }

    /// All that is to be done is known.
    pub(crate) fn counted(&self) {
        self.is_counted.set(true);
        self.draw_as(match self.work {
            Work::Copy => {
                "{bar:30} {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec} {eta} {msg}"
            }
            Work::Remove => "{bar:30} {eta} {msg}",
        });
        self.report_files();
    }

    /// So many bytes were moved, or turned out to be a hole.
    pub(crate) fn add(&self, bytes: u64) {
        self.done.add(0, bytes);
        if self.work == Work::Copy {
            self.bar.inc(bytes);
        }
    }

    /// A file is complete.
    pub(crate) fn file_done(&self) {
        self.done.add(1, 0);
        if self.work == Work::Remove {
            self.bar.inc(1);
        }
        self.report_files();
    }

    /// A directory is complete.
    pub(crate) fn directory_done(&self) {
        self.directories.set(self.directories.get() + 1);
    }

    fn report_files(&self) {
        let (done, all) = (self.done.files.get(), self.all.files.get());
        let more = if self.is_counted.get() {
            ""
        } else {
            ", still counting"
        };
        self.bar.set_message(format!("{done} of {all} files{more}"));
    }

    /// Takes the bar away.
    pub(crate) fn finish(&self) {
        output::show_bar(None);
        self.bar.finish_and_clear();
    }

    /// Reports the counts and the rate on standard error, unless it is quiet.
    pub(crate) fn report(&self) {
        if !self.is_quiet {
            output::report(&self.summary(self.began.elapsed()));
        }
    }

    fn summary(&self, took: Duration) -> String {
        let seconds = took.as_secs_f64().max(0.001);
        let (done, all) = (self.done.files.get(), self.all.files.get());
        let files = if !self.is_counted.get() {
            format!("{done} of {all} files found so far")
        } else if done != all {
            format!("{done} of {all} files")
        } else {
            counted(done, "file", "files")
        };
        let directories = counted(self.directories.get(), "directory", "directories");
        let bytes = self.done.bytes.get();
        let (verb, rate) = match self.work {
            Work::Copy => ("copied", format!("{}/s", human(per_second(bytes, seconds)))),
            Work::Remove => ("removed", format!("{} files/s", per_second(done, seconds))),
        };
        let bytes = human(bytes);
        format!("{verb} {files} and {directories}, {bytes} in {seconds:.1} s, {rate}")
    }
}

#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss
)] // three digits are shown
fn per_second(count: u64, seconds: f64) -> u64 {
    (count as f64 / seconds) as u64
}

fn counted(count: u64, one: &str, many: &str) -> String {
    match count {
        1 => format!("1 {one}"),
        _ => format!("{count} {many}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_has_counts_and_rate() {
        let progress = Progress::new(Work::Copy, true);
        progress.expect(3, 4 << 20);
        progress.add(3 << 20);
        progress.file_done();
        progress.file_done();
        let shown = |progress: &Progress| progress.summary(Duration::from_secs(2));
        let rest = "and 0 directories, 3.00 MiB in 2.0 s, 1.50 MiB/s";
        assert_eq!(
            shown(&progress),
            format!("copied 2 of 3 files found so far {rest}")
        );
        progress.counted();
        assert_eq!(shown(&progress), format!("copied 2 of 3 files {rest}"));
        progress.file_done();
        assert_eq!(shown(&progress), format!("copied 3 files {rest}"));

        let progress = Progress::new(Work::Remove, true);
        progress.expect(1, 0);
        progress.counted();
        progress.add(100);
        progress.file_done();
        progress.directory_done();
        assert_eq!(
            shown(&progress),
            "removed 1 file and 1 directory, 100 B in 2.0 s, 0 files/s"
        );
    }
}
