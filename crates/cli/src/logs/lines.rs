//! Log lines on their way to standard error or a file. A file can be opened again, for programs that rotate logs.
//! A line that comes again is counted, not repeated.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A line that comes again is written again after this time, with the count of those in between.
const AGAIN_AFTER: Duration = Duration::from_secs(10);

/// Where lines go.
enum Target {
    StandardError,
    File {
        path: PathBuf,
        file: File,
    },
    #[cfg(test)]
    Memory(Vec<u8>),
}

/// Writes lines, each with one call of `write`.
pub(super) struct Lines {
    state: Mutex<State>,
}

struct State {
    target: Target,
    /// Lines that come again are counted.
    counts: bool,
    last: Last,
}

/// The line that was written last.
struct Last {
    /// The line without its time.
    text: Vec<u8>,
    written: Instant,
    /// How often it has come since.
    more: u64,
}

impl Lines {
    pub(super) fn to_standard_error(counts: bool) -> Lines {
        Lines::new(Target::StandardError, counts)
    }

    /// Appends lines to the file at `path`.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub(super) fn to_file(path: &Path, counts: bool) -> io::Result<Lines> {
        let file = open(path)?;
        let path = path.to_owned();
        Ok(Lines::new(Target::File { path, file }, counts))
    }

    fn new(target: Target, counts: bool) -> Lines {
        let last = Last {
            text: Vec::new(),
            written: Instant::now(),
            more: 0,
        };
        let state = State {
            target,
            counts,
            last,
        };
        Lines {
            state: Mutex::new(state),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the file at its path again; false for standard error, which has none.
    ///
    /// # Errors
    /// The file cannot be opened: lines go on to the old one.
    pub(super) fn reopen(&self) -> io::Result<bool> {
        let mut state = self.state();
        state.write_count()?;
        let Target::File { path, file } = &mut state.target else {
            return Ok(false);
        };
        *file = open(path)?;
        Ok(true)
    }

    /// Writes the count of the last line. Call it at the end.
    pub(super) fn finish(&self) {
        // There is nowhere to report the error to.
        let _ = self.state().write_count();
    }
}

fn open(path: &Path) -> io::Result<File> {
    File::options().create(true).append(true).open(path)
}

impl State {
    fn write(&mut self, line: &[u8], now: Instant) -> io::Result<()> {
        if !self.counts {
            return self.target.write(line);
        }
        // The time is the first word.
        let text = line.iter().position(|byte| *byte == b' ');
        let text = text.and_then(|at| line.get(at..)).unwrap_or(line);
        let is_again = text == self.last.text;
        if is_again && now.duration_since(self.last.written) < AGAIN_AFTER {
            self.last.more += 1;
            return Ok(());
        }
        self.write_count()?;
        if !is_again {
            self.last.text = text.to_vec();
        }
        self.last.written = now;
        self.target.write(line)
    }

    fn write_count(&mut self) -> io::Result<()> {
        match std::mem::take(&mut self.last.more) {
            0 => Ok(()),
            1 => self.target.write(b"(the last line came once more)\n"),
            more => {
                let line = format!("(the last line came {more} times more)\n");
                self.target.write(line.as_bytes())
            }
        }
    }
}

impl Target {
    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        match self {
            Target::StandardError => io::stderr().lock().write_all(line),
            Target::File { file, .. } => file.write_all(line),
            #[cfg(test)]
            Target::Memory(bytes) => bytes.write_all(line),
        }
    }
}

impl Write for &Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.state().write(line, Instant::now())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn written(lines: &Lines) -> String {
        let mut state = lines.state();
        let Target::Memory(bytes) = &mut state.target else {
            unreachable!("a test writes to memory")
        };
        String::from_utf8(std::mem::take(bytes)).unwrap()
    }

    #[test]
    fn a_line_that_comes_again_is_counted() {
        let lines = Lines::new(Target::Memory(Vec::new()), true);
        let start = Instant::now();
        let write = |line: &str, seconds| {
            let now = start + Duration::from_secs(seconds);
            lines.state().write(line.as_bytes(), now).unwrap();
        };
        write("1 WARN lost\n", 0);
        for second in 1..4 {
            write(&format!("{second} WARN lost\n"), second);
        }
        assert_eq!(written(&lines), "1 WARN lost\n");
        write("5 WARN other\n", 5);
        assert_eq!(
            written(&lines),
            "(the last line came 3 times more)\n5 WARN other\n"
        );
        write("6 WARN other\n", 6);
        write("15 WARN other\n", 15);
        assert_eq!(
            written(&lines),
            "(the last line came once more)\n15 WARN other\n"
        );
        write("16 WARN other\n", 16);
        lines.finish();
        assert_eq!(written(&lines), "(the last line came once more)\n");
        lines.finish();
        assert_eq!(written(&lines), "");
    }

    #[test]
    fn lines_for_machines_are_all_written() {
        let lines = Lines::new(Target::Memory(Vec::new()), false);
        (&lines).write_all(b"{}\n").unwrap();
        (&lines).write_all(b"{}\n").unwrap();
        assert_eq!(written(&lines), "{}\n{}\n");
    }

    #[test]
    fn a_file_that_was_moved_away_is_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let (path, moved) = (folder.path().join("log"), folder.path().join("log.1"));
        let lines = Lines::to_file(&path, true).unwrap();
        (&lines).write_all(b"1 one\n").unwrap();
        std::fs::rename(&path, &moved).unwrap();
        (&lines).write_all(b"2 two\n").unwrap();
        assert!(lines.reopen().unwrap());
        (&lines).write_all(b"3 three\n").unwrap();
        assert_eq!(std::fs::read_to_string(moved).unwrap(), "1 one\n2 two\n");
        assert_eq!(std::fs::read_to_string(path).unwrap(), "3 three\n");
    }
}
