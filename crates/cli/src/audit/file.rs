//! The file of an audit log: it is appended to, rotated at a size, and opened again on request.

use super::AuditOptions;
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The file, which one thread writes.
pub(super) struct LogFile {
    options: AuditOptions,
    file: File,
    /// Its length; a device has none, and is not rotated.
    length: Option<u64>,
    /// Part of a line is at the end: the next line begins behind a line end.
    is_torn: bool,
    /// The last write failed, and the log has said so.
    fails: bool,
    /// Lines that were not written since the last that was.
    lost: u64,
}

/// The outcome of a write, in lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Done {
    pub(super) written: u64,
    pub(super) lost: u64,
}

/// A file that is open to append to it.
struct Opened {
    file: File,
    length: Option<u64>,
    is_torn: bool,
}

impl Opened {
    /// Opens a file, which `is_new`. A symbolic link may be somebody's trap; a FIFO without a reader would block.
    fn at(path: &Path, is_new: bool) -> io::Result<Opened> {
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .create_new(is_new)
            .mode(0o600)
            .custom_flags(flags)
            .open(path)?;
        let metadata = file.metadata()?;
        let length = metadata.is_file().then_some(metadata.len());
        Ok(Opened {
            file,
            length,
            is_torn: length.is_some_and(|length| is_torn(path, length)),
        })
    }

    /// Claims the file for this process, until it closes it. Some file systems know no locks.
    fn claim(self) -> io::Result<Opened> {
        let operation = FlockOperation::NonBlockingLockExclusive;
        match self.length.map(|_| flock(&self.file, operation)) {
            Some(Err(Errno::WOULDBLOCK)) => {
                let why = "another server writes this file";
                Err(io::Error::new(io::ErrorKind::ResourceBusy, why))
            }
            _ => Ok(self),
        }
    }
}

/// Whether a file of this length ends within a line, after a crash. One that cannot be read may: then an empty line is
/// better than a line that nobody can read.
fn is_torn(path: &Path, length: u64) -> bool {
    let Some(last) = length.checked_sub(1) else {
        return false;
    };
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
    let mut byte = [0];
    let read = opened.and_then(|file| file.read_exact_at(&mut byte, last));
    read.is_err() || byte != *b"\n"
}

/// Whether two open files are the same.
fn is_same(one: &File, other: &File) -> io::Result<bool> {
    let (one, other) = (one.metadata()?, other.metadata()?);
    Ok((one.dev(), one.ino()) == (other.dev(), other.ino()))
}

/// Whether something has this path, and be it a symbolic link.
fn exists(path: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn count(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|byte| **byte == b'\n').count() as u64
}

impl LogFile {
    /// Opens the file of the options, or makes it.
    ///
    /// # Errors
    /// As open(2).
    pub(super) fn open(options: &AuditOptions) -> io::Result<LogFile> {
        let opened = Opened::at(&options.path, false)?.claim()?;
        Ok(LogFile {
            options: options.clone(),
            file: opened.file,
            length: opened.length,
            is_torn: opened.is_torn,
            fails: false,
            lost: 0,
        })
    }

    /// Opens the path again; the old file stays in use where that fails.
    pub(super) fn reopen(&mut self) {
        let path = self.options.path.display().to_string();
        match self.try_to_reopen() {
            Ok(()) => tracing::info!(path, "opened the audit log again"),
            Err(error) => tracing::error!(path, %error, "cannot open the audit log again"),
        }
    }

    fn try_to_reopen(&mut self) -> io::Result<()> {
        let opened = Opened::at(&self.options.path, false)?;
        // It was not moved: this process has claimed it already.
        if !is_same(&self.file, &opened.file)? {
            self.take(opened.claim()?);
        }
        Ok(())
    }

    /// Writes to another file from now on.
    fn take(&mut self, opened: Opened) {
        self.file = opened.file;
        self.length = opened.length;
        self.is_torn = opened.is_torn;
    }

    /// The lines that were not written, and of which no line tells yet.
    pub(super) fn take_lost(&mut self) -> u64 {
        std::mem::take(&mut self.lost)
    }

    /// Writes whole lines, of which `told` others are counted in the last one.
    pub(super) fn write(&mut self, bytes: &[u8], told: u64) -> Done {
        let mut done = Done::default();
        let mut rest = bytes;
        while !rest.is_empty() {
            let outcome = self.write_some(rest);
            let (written, failure) = match outcome {
                Ok(written) => (written, None),
                Err(error) => (0, Some(error)),
            };
            let (before, after) = rest.split_at_checked(written).unwrap_or((rest, &[]));
            done.written += count(before);
            rest = after;
            if let Some(error) = failure {
                done.lost = count(rest);
                self.lost += done.lost;
                if told > 0 && done.lost > 0 {
                    // The line that told of the others is lost, and no loss of its own.
                    self.lost += told - 1;
                    done.lost -= 1;
                }
                self.say_that_it_fails(&error);
                return done;
            }
        }
        if self.fails && done.written > 0 {
            self.fails = false;
            tracing::info!(path = %self.options.path.display(), "the audit log is written again");
        }
        done
    }

    /// Writes the lines that fit into the file, or the first of a new file; the bytes written.
    fn write_some(&mut self, lines: &[u8]) -> io::Result<usize> {
        let mut room = lines.len();
        if let Some(length) = self.length {
            let left = self.options.size_max.saturating_sub(length);
            let left = usize::try_from(left).unwrap_or(usize::MAX);
            if first_line(lines) > left && length > 0 {
                self.rotate()?;
                return Ok(0);
            }
            room = whole_lines(lines, left.max(first_line(lines)));
        }
        if self.is_torn {
            self.append(b"\n")?;
            self.is_torn = false;
        }
        let lines = lines.get(..room).unwrap_or(lines);
        let written = self.append(lines)?;
        // The rest of a line that the disk took in part is lost: it would stand in a line of its own.
        let whole = whole_lines(lines, written);
        self.is_torn = whole < written;
        if whole == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(whole)
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match self.file.write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    self.length = self.length.map(|length| length + written as u64);
                    return Ok(written);
                }
            }
        }
    }

    /// `PATH` becomes `PATH.1`, that becomes `PATH.2`, and so on; the oldest goes. The new file is there before: a
    /// process that may open no more files would move the older ones at each attempt, until none is left.
    fn rotate(&mut self) -> io::Result<()> {
        let path = self.options.path.clone();
        let new = self.with_suffix("new");
        match fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            // An earlier attempt came no further.
            _ => {}
        }
        let opened = Opened::at(&new, true)?.claim()?;
        // Somebody else may have moved it away.
        if exists(&path)? {
            self.make_room()?;
            fs::rename(&path, self.numbered(1))?;
        }
        fs::rename(&new, &path)?;
        self.take(opened);
        Ok(())
    }

    /// Moves `PATH.1` and those behind it up to the first free number, or over the oldest.
    fn make_room(&self) -> io::Result<()> {
        let mut free = 1;
        while free < self.options.keep && exists(&self.numbered(free))? {
            free += 1;
        }
        for number in (1..free).rev() {
            fs::rename(self.numbered(number), self.numbered(number + 1))?;
        }
        Ok(())
    }

    fn numbered(&self, number: u8) -> PathBuf {
        self.with_suffix(&number.to_string())
    }

    fn with_suffix(&self, suffix: &str) -> PathBuf {
        let mut path = self.options.path.clone().into_os_string();
        path.push(".");
        path.push(suffix);
        PathBuf::from(path)
    }

    fn say_that_it_fails(&mut self, error: &io::Error) {
        if !std::mem::replace(&mut self.fails, true) {
            let path = self.options.path.display();
            tracing::error!(
                %path, %error,
                "cannot write the audit log: events are counted until it can be written again"
            );
        }
    }
}

/// Bytes of the first line.
fn first_line(lines: &[u8]) -> usize {
    let end = lines.iter().position(|byte| *byte == b'\n');
    end.map_or(lines.len(), |end| end + 1)
}

/// Bytes of the lines that end within the first `max`.
fn whole_lines(lines: &[u8], max: usize) -> usize {
    let within = lines.get(..max).unwrap_or(lines);
    let end = within.iter().rposition(|byte| *byte == b'\n');
    end.map_or(0, |end| end + 1)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn options(path: &Path, size_max: u64) -> AuditOptions {
        AuditOptions {
            size_max,
            keep: 2,
            ..AuditOptions::at(path.join("audit"))
        }
    }

    fn read(place: &Path, name: &str) -> String {
        fs::read_to_string(place.join(name)).unwrap()
    }

    #[test]
    fn a_file_is_rotated_at_its_size_and_the_oldest_goes() {
        let place = tempfile::tempdir().unwrap();
        let mut file = LogFile::open(&options(place.path(), 8)).unwrap();
        let mode = fs::metadata(place.path().join("audit"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        let all: String = (0..10).map(|line| format!("{line}{line}\n")).collect();
        let done = file.write(all.as_bytes(), 0);
        assert_eq!(
            done,
            Done {
                written: 10,
                lost: 0
            }
        );
        assert_eq!(read(place.path(), "audit"), "88\n99\n");
        assert_eq!(read(place.path(), "audit.1"), "66\n77\n");
        assert_eq!(read(place.path(), "audit.2"), "44\n55\n");
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 3);
        // A line that is longer than a file has one of its own.
        file.write(b"a long line\nx\n", 0);
        assert_eq!(read(place.path(), "audit.1"), "a long line\n");
        assert_eq!(read(place.path(), "audit"), "x\n");
    }

    #[test]
    fn a_line_that_a_crash_cut_stands_alone() {
        let place = tempfile::tempdir().unwrap();
        let options = options(place.path(), 1000);
        fs::write(&options.path, "1\n{\"ti").unwrap();
        let mut file = LogFile::open(&options).unwrap();
        file.write(b"2\n", 0);
        assert_eq!(read(place.path(), "audit"), "1\n{\"ti\n2\n");
        fs::rename(&options.path, place.path().join("moved")).unwrap();
        fs::write(&options.path, "3").unwrap();
        file.reopen();
        file.write(b"4\n5\n", 0);
        assert_eq!(read(place.path(), "audit"), "3\n4\n5\n");
    }

    #[test]
    fn two_servers_cannot_share_a_file() {
        let place = tempfile::tempdir().unwrap();
        let options = options(place.path(), 3);
        let mut file = LogFile::open(&options).unwrap();
        // The second file after the first rotation is claimed too, and a request to open it again changes nothing.
        for _ in 0..2 {
            file.reopen();
            assert_eq!(file.write(b"11\n", 0).written, 1);
            let error = LogFile::open(&options).err().unwrap();
            assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
        }
        drop(file);
        LogFile::open(&options).unwrap();
    }

    #[test]
    fn older_files_survive_rotations_that_fail() {
        let place = tempfile::tempdir().unwrap();
        let mut file = LogFile::open(&options(place.path(), 3)).unwrap();
        assert_eq!(file.write(b"11\n22\n33\n", 0).written, 3);
        // First there can be no new file, then an older one cannot be moved.
        for obstacle in ["audit.new", "audit.2"] {
            let obstacle = place.path().join(obstacle);
            let is_kept = obstacle.exists();
            let aside = place.path().join("aside");
            if is_kept {
                fs::rename(&obstacle, &aside).unwrap();
            }
            fs::create_dir(&obstacle).unwrap();
            for _ in 0..3 {
                assert_eq!(file.write(b"44\n", 0).written, 0);
            }
            assert_eq!(read(place.path(), "audit"), "33\n");
            assert_eq!(read(place.path(), "audit.1"), "22\n");
            fs::remove_dir(&obstacle).unwrap();
            if is_kept {
                fs::rename(&aside, &obstacle).unwrap();
            }
        }
        assert_eq!(read(place.path(), "audit.2"), "11\n");
        assert_eq!(file.write(b"44\n", 0).written, 1);
        assert_eq!(read(place.path(), "audit"), "44\n");
        assert_eq!(read(place.path(), "audit.1"), "33\n");
        assert_eq!(read(place.path(), "audit.2"), "22\n");
        // A number that is free is used, and the older files stay.
        fs::remove_file(place.path().join("audit.1")).unwrap();
        assert_eq!(file.write(b"55\n", 0).written, 1);
        assert_eq!(read(place.path(), "audit.1"), "44\n");
        assert_eq!(read(place.path(), "audit.2"), "22\n");
    }

    #[test]
    fn an_older_file_is_continued_and_a_link_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let options = options(place.path(), 1000);
        LogFile::open(&options).unwrap().write(b"1\n", 0);
        let mut file = LogFile::open(&options).unwrap();
        file.write(b"2\n", 0);
        assert_eq!(read(place.path(), "audit"), "1\n2\n");
        fs::rename(&options.path, place.path().join("moved")).unwrap();
        file.write(b"3\n", 0);
        file.reopen();
        file.write(b"4\n", 0);
        assert_eq!(read(place.path(), "moved"), "1\n2\n3\n");
        assert_eq!(read(place.path(), "audit"), "4\n");

        fs::remove_file(&options.path).unwrap();
        symlink(place.path().join("moved"), &options.path).unwrap();
        assert!(LogFile::open(&options).is_err());
        file.reopen();
        file.write(b"5\n", 0);
        assert_eq!(read(place.path(), "moved"), "1\n2\n3\n");
    }

    #[test]
    fn lines_that_a_full_disk_does_not_take_are_counted_once() {
        let full = AuditOptions::at(PathBuf::from("/dev/full"));
        let mut file = LogFile::open(&full).unwrap();
        assert_eq!(
            file.write(b"1\n2\n", 0),
            Done {
                written: 0,
                lost: 2
            }
        );
        let told = file.take_lost();
        assert_eq!(told, 2);
        // The next batch ends with the line that tells of the two.
        assert_eq!(
            file.write(b"3\n{}\n", told),
            Done {
                written: 0,
                lost: 1
            }
        );
        assert_eq!(file.take_lost(), 3);
        assert_eq!(file.take_lost(), 0);
    }
}
