//! Whether the file system of a directory lets creates be compared.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A file system, by what a create finds in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Journal {
    /// It is not ext4, or has a journal.
    Fine,
    /// ext4 without a journal. It keeps freed inodes unused for seconds, and a create goes through all of them: their
    /// number decides the rate, and removing the files of the last sample makes it.
    Missing,
    /// The kernel does not say.
    Unknown,
}

impl Journal {
    /// Looks at the file system of `directory`.
    ///
    /// # Errors
    /// The directory cannot be found.
    pub(super) fn of(directory: &Path) -> io::Result<Journal> {
        let device = fs::metadata(directory)?.dev();
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let device = format!("{major}:{minor}");
        let mounts = fs::read_to_string("/proc/self/mountinfo")?;
        if kind_of(&mounts, &device).is_some_and(|kind| kind != "ext4") {
            return Ok(Journal::Fine);
        }
        let Ok(block) = fs::canonicalize(format!("/sys/dev/block/{device}")) else {
            return Ok(Journal::Unknown);
        };
        let task = Path::new("/sys/fs/ext4")
            .join(block.file_name().unwrap_or_default())
            .join("journal_task");
        Ok(match fs::read_to_string(task) {
            Ok(task) if task.trim() == "<none>" => Journal::Missing,
            Ok(_) => Journal::Fine,
            Err(_) => Journal::Unknown,
        })
    }
}

/// The kind of file system that a device holds, out of `/proc/self/mountinfo`.
fn kind_of<'a>(mounts: &'a str, device: &str) -> Option<&'a str> {
    let of_device = |line: &&str| line.split_whitespace().nth(2) == Some(device);
    let line = mounts.lines().find(of_device)?;
    line.split_once(" - ")?.1.split_whitespace().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_of_a_file_system_stands_behind_a_dash() {
        let mounts = "27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n\
                      25 24 0:23 / /dev/shm rw - tmpfs tmpfs rw,size=1k\n";
        assert_eq!(kind_of(mounts, "254:0"), Some("ext4"));
        assert_eq!(kind_of(mounts, "0:23"), Some("tmpfs"));
        assert_eq!(kind_of(mounts, "0:2"), None);
    }

    #[test]
    fn memory_needs_no_journal() {
        if Path::new("/dev/shm").is_dir() {
            assert_eq!(Journal::of(Path::new("/dev/shm")).unwrap(), Journal::Fine);
        }
        assert!(Journal::of(Path::new("/is/not/there")).is_err());
    }
}
