//! How far long work is: counted always, drawn on a terminal, and summed up on a line at its end.

use crate::output;
use crate::size::human;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::cell::Cell;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// How often the drawing changes while nothing happens.
const TICK: Duration = Duration::from_millis(200);

/// Shapes of the line of a copy: before all is counted, after that, of a stream, and of the verification. Each fits 80
/// columns; what does not is cut at its end.
const COUNTING: &str =
    "{spinner} {binary_bytes} of {binary_total_bytes} so far {binary_bytes_per_sec} {wide_msg}";
const COUNTED: &str =
    "{bar:12} {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec} {eta} {wide_msg}";
const STREAM: &str = "{spinner} {binary_bytes} {binary_bytes_per_sec}";
const VERIFYING: &str =
    "{bar:12} {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec} {wide_msg}";
/// The same of a removal.
const REMOVING: &str = "{spinner} {wide_msg}";
const REMOVING_COUNTED: &str = "{bar:12} {eta} {wide_msg}";

/// The kind of work with files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// Bytes are moved.
    Copy,
    /// Bytes are moved, then read back and compared.
    VerifiedCopy,
    /// Names are removed.
    Remove,
}

/// Counts files and bytes.
pub(crate) struct Progress {
    work: Work,
    bar: ProgressBar,
    /// The line of the verification, below the other.
    verified: Option<ProgressBar>,
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
        let is_hidden = target.is_hidden();
        let progress = Progress::drawn_to(target, work, is_quiet);
        if !is_hidden {
            progress.bar.enable_steady_tick(TICK);
        }
        output::show_bar(Some(progress.bar.clone()));
        progress
    }

    fn drawn_to(target: ProgressDrawTarget, work: Work, is_quiet: bool) -> Progress {
        let lines = MultiProgress::with_draw_target(target);
        let bar = lines.add(ProgressBar::new(0));
        let verified = (work == Work::VerifiedCopy).then(|| {
            let verified = lines.add(ProgressBar::new(0));
            draw_as(&verified, VERIFYING);
            verified.set_message("verified");
            verified
        });
        draw_as(
            &bar,
            match work {
                Work::Copy | Work::VerifiedCopy => COUNTING,
                Work::Remove => REMOVING,
            },
        );
        Progress {
            work,
            bar,
            verified,
            is_quiet,
            began: Instant::now(),
            done: Count::default(),
            all: Count::default(),
            directories: Cell::new(0),
            is_counted: Cell::new(false),
        }
    }

    /// The bytes come from a stream whose length is not known.
    pub(crate) fn without_length(&self) {
        draw_as(&self.bar, STREAM);
    }

    /// Whether anything was to be done.
    pub(crate) fn has_begun(&self) -> bool {
        self.is_counted.get() || self.all.files.get() > 0
    }

    /// More is to be done.
    pub(crate) fn expect(&self, files: u64, bytes: u64) {
        self.all.add(files, bytes);
        self.bar.inc_length(match self.work {
            Work::Copy | Work::VerifiedCopy => bytes,
            Work::Remove => files,
        });
        if let Some(verified) = &self.verified {
            verified.inc_length(bytes);
        }
        self.report_files();
    }

    /// All that is to be done is known.
    pub(crate) fn counted(&self) {
        self.is_counted.set(true);
        draw_as(
            &self.bar,
            match self.work {
                Work::Copy | Work::VerifiedCopy => COUNTED,
                Work::Remove => REMOVING_COUNTED,
            },
        );
        self.report_files();
    }

    /// So many bytes were moved, or turned out to be a hole.
    pub(crate) fn add(&self, bytes: u64) {
        self.done.add(0, bytes);
        if self.work != Work::Remove {
            self.bar.inc(bytes);
        }
    }

    /// So many bytes of a copy were compared with those of its source.
    pub(crate) fn add_verified(&self, bytes: u64) {
        if let Some(verified) = &self.verified {
            verified.inc(bytes);
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
        self.bar.set_message(format!("{done}/{all} files"));
    }

    /// Takes the bar away.
    pub(crate) fn finish(&self) {
        output::show_bar(None);
        self.bar.finish_and_clear();
        if let Some(verified) = &self.verified {
            verified.finish_and_clear();
        }
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
            Work::Copy | Work::VerifiedCopy => {
                ("copied", format!("{}/s", human(per_second(bytes, seconds))))
            }
            Work::Remove => ("removed", format!("{} files/s", per_second(done, seconds))),
        };
        let bytes = human(bytes);
        format!("{verb} {files} and {directories}, {bytes} in {seconds:.1} s, {rate}")
    }
}

fn draw_as(bar: &ProgressBar, shape: &str) {
    if let Ok(style) = ProgressStyle::with_template(shape) {
        bar.set_style(style);
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
    use indicatif::TermLike;
    use std::io;
    use std::sync::{Arc, Mutex};

    /// A terminal of 80 columns that keeps the text of its lines.
    #[derive(Debug, Clone, Default)]
    struct Terminal(Arc<Mutex<Vec<String>>>);

    impl Terminal {
        fn put(&self, text: &str) {
            let mut shown = self.0.lock().unwrap_or_else(|it| it.into_inner());
            shown.push(text.trim_matches(['\r', '\n']).to_owned());
        }
    }

    impl TermLike for Terminal {
        fn width(&self) -> u16 {
            80
        }
        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn write_line(&self, text: &str) -> io::Result<()> {
            self.put(text);
            Ok(())
        }
        fn write_str(&self, text: &str) -> io::Result<()> {
            self.put(text);
            Ok(())
        }
        fn clear_line(&self) -> io::Result<()> {
            Ok(())
        }
        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_of_large_copies_fit_80_columns_and_the_verification_has_its_own() {
        let terminal = Terminal::default();
        let target = ProgressDrawTarget::term_like_with_hz(Box::new(terminal.clone()), 1);
        let progress = Progress::drawn_to(target, Work::VerifiedCopy, false);
        let draw = |progress: &Progress| {
            progress.bar.force_draw();
            progress.verified.iter().for_each(ProgressBar::force_draw);
        };
        progress.expect(1_234_567, 999 << 30);
        progress.add(987 << 30);
        draw(&progress);
        progress.counted();
        progress.add_verified(500 << 30);
        draw(&progress);
        let shown = terminal.0.lock().unwrap_or_else(|it| it.into_inner());
        let widest = shown.iter().map(|line| line.chars().count()).max();
        assert!(widest.is_some_and(|width| width <= 80), "{shown:?}");
        let has = |text: &str| shown.iter().any(|line| line.contains(text));
        assert!(has("987.00 GiB of 999.00 GiB so far"), "{shown:?}");
        assert!(has("0/1234567 files"), "{shown:?}");
        assert!(has("500.00 GiB/999.00 GiB") && has("verified"), "{shown:?}");
    }

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
