//! A journal's file on a disk of this machine. Like redb's, it is a file of the store's own, not one that is served.

use super::JournalFile;
use super::record::{BLOCK_LEN, Header};
use std::fs::{File, OpenOptions, remove_file, rename};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// See the module.
pub(super) struct DiskFile(File);

impl DiskFile {
    /// Opens the file at `path`; `None` if there is none.
    pub(super) fn open(path: &Path) -> io::Result<Option<DiskFile>> {
        match OpenOptions::new().read(true).write(true).open(path) {
            Ok(file) => Ok(Some(DiskFile(file))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Makes an empty journal at `path`, whole or not at all.
    ///
    /// All of it is written now: a sync of blocks that were never written would have to wait for the file system's own
    /// journal as well.
    pub(super) fn make(path: &Path, header: Header) -> io::Result<DiskFile> {
        let unready = path.with_extension("journal.new");
        match remove_file(&unready) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(0o600);
        let mut file = options.open(&unready)?;
        file.write_all(&header.to_block())?;
        let zeros = [0; 16 * BLOCK_LEN];
        let mut left = header.total_len() - BLOCK_LEN as u64;
        while left > 0 {
            let len = left.min(zeros.len() as u64);
            file.write_all(zeros.get(..len as usize).unwrap_or_default())?;
            left -= len;
        }
        file.sync_all()?;
        rename(&unready, path)?;
        let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
        Ok(DiskFile(file))
    }
}

impl JournalFile for DiskFile {
    fn length(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(into, offset)
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }
}
