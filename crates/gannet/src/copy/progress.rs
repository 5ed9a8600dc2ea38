//! How far a copy is: counted always, drawn on a terminal.

use crate::output;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::cell::Cell;
use std::io::IsTerminal;

/// Counts files and bytes.
pub(crate) struct Progress {
    bar: ProgressBar,
    files: Cell<u64>,
    bytes: Cell<u64>,
}

impl Progress {
    /// A counter that draws a bar when standard error is a terminal and `is_quiet` is false.
    pub(crate) fn new(is_quiet: bool) -> Progress {
        let target = if is_quiet || !std::io::stderr().is_terminal() {
            ProgressDrawTarget::hidden()
        } else {
            ProgressDrawTarget::stderr()
        };
        let bar = ProgressBar::with_draw_target(Some(0), target);
        let shape =
            "{bar:30} {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec} {eta} {msg}";
        if let Ok(style) = ProgressStyle::with_template(shape) {
            bar.set_style(style);
        }
        Progress {
            bar,
            files: Cell::new(0),
            bytes: Cell::new(0),
        }
    }

    /// So many more bytes are to be moved.
    pub(crate) fn expect(&self, bytes: u64) {
        self.bar.inc_length(bytes);
    }

    /// So many bytes were moved, or turned out to be a hole.
    pub(crate) fn add(&self, bytes: u64) {
        self.bytes.set(self.bytes.get() + bytes);
        self.bar.inc(bytes);
    }

    /// A file is complete.
    pub(crate) fn file_done(&self) {
        self.files.set(self.files.get() + 1);
        self.bar.set_message(format!("{} files", self.files.get()));
    }

    /// Prints a line above the bar.
    pub(crate) fn say(&self, line: &str) {
        self.bar.suspend(|| output::tell(line));
    }

    /// Takes the bar away; files and bytes.
    pub(crate) fn finish(&self) -> (u64, u64) {
        self.bar.finish_and_clear();
        (self.files.get(), self.bytes.get())
    }
}
