//! The tree that the demo copies: like real ones, from a seed; and the comparison of two trees.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Directories of small files.
const DIRECTORIES: usize = 60;
/// Small files in each.
const FILES_PER_DIRECTORY: usize = 40;
/// Length of the sparse file, of which two blocks are data.
const SPARSE_LEN: u64 = 64 << 20;
/// Length of the large file.
pub(super) const LARGE_LEN: u64 = 256 << 20;
/// Bytes generated or compared at a time.
const BLOCK_LEN: usize = 1 << 20;

/// Bytes from a seed: xorshift64*, which passes for incompressible data.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Random {
        // Any state but zero.
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(super) fn fill(&mut self, buffer: &mut [u8]) {
        for chunk in buffer.chunks_mut(8) {
            let bytes = self.next().to_le_bytes();
            for (place, byte) in chunk.iter_mut().zip(bytes) {
                *place = byte;
            }
        }
    }
}

/// The totals of a tree.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Totals {
    /// Files, directories and links.
    pub(super) objects: u64,
    /// Bytes of files, holes included.
    pub(super) bytes: u64,
}

/// Makes the tree of small files below `root`: sizes from nothing to 256 KiB, most of them small, with read-only ones,
/// old ones, odd names, links, an empty directory and a sparse file.
///
/// # Errors
/// The disk is full, or not writable.
pub(super) fn make(root: &Path, seed: u64) -> io::Result<()> {
    let mut random = Random::new(seed);
    fs::create_dir(root)?;
    for number in 0..DIRECTORIES {
        let directory = root.join(format!("directory-{number:02}/with a name/é{number}"));
        fs::create_dir_all(&directory)?;
        for file in 0..FILES_PER_DIRECTORY {
            make_file(&directory.join(format!("file {file:03}.dat")), &mut random)?;
        }
        symlink("file 000.dat", directory.join("link"))?;
        symlink("/nowhere/at all", directory.join("dangling"))?;
    }
    fs::create_dir(root.join("empty"))?;
    make_sparse(&root.join("sparse"), &mut random)
}

fn make_file(path: &Path, random: &mut Random) -> io::Result<()> {
    let draw = random.next();
    // Sizes as in source trees: half below 4 KiB, a few large ones.
    let range = match draw % 16 {
        0 => 1,
        1..8 => 4 << 10,
        8..15 => 32 << 10,
        _ => 256 << 10,
    };
    let mut content = vec![0; usize::try_from(random.next() % range).unwrap_or(0)];
    random.fill(&mut content);
    let mut file = File::create(path)?;
    file.write_all(&content)?;
    let age = Duration::from_secs(random.next() % (10 * 365 * 86_400));
    file.set_modified(SystemTime::now() - age)?;
    if draw & 0x100 != 0 {
        file.set_permissions(fs::Permissions::from_mode(0o444))?;
    }
    Ok(())
}

fn make_sparse(path: &Path, random: &mut Random) -> io::Result<()> {
    let file = File::create(path)?;
    file.set_len(SPARSE_LEN)?;
    let mut block = vec![0; BLOCK_LEN];
    for offset in [SPARSE_LEN / 4, SPARSE_LEN / 2] {
        random.fill(&mut block);
        file.write_all_at(&block, offset)?;
    }
    Ok(())
}

/// Makes the large file.
///
/// # Errors
/// As [`make`].
pub(super) fn make_large(path: &Path, seed: u64) -> io::Result<()> {
    let mut random = Random::new(seed ^ LARGE_LEN);
    let file = File::create(path)?;
    let mut block = vec![0; BLOCK_LEN];
    let mut offset = 0;
    while offset < LARGE_LEN {
        random.fill(&mut block);
        file.write_all_at(&block, offset)?;
        offset += BLOCK_LEN as u64;
    }
    Ok(())
}

/// Compares two files or trees: kinds, names, modes, times, links, lengths and every byte. Returns their totals if they
/// are equal.
///
/// # Errors
/// The first difference, in a sentence; or something cannot be read.
pub(super) fn compare(left: &Path, right: &Path) -> io::Result<Totals> {
    let (a, b) = (fs::symlink_metadata(left)?, fs::symlink_metadata(right)?);
    let differ = |what: &str| {
        let (left, right) = (left.display(), right.display());
        Err(io::Error::other(format!(
            "{left} and {right} differ in {what}"
        )))
    };
    if a.file_type() != b.file_type() {
        return differ("kind");
    }
    if a.mtime() != b.mtime() || a.mtime_nsec() != b.mtime_nsec() {
        return differ("modification time");
    }
    let mut totals = Totals {
        objects: 1,
        bytes: 0,
    };
    if a.is_symlink() {
        return if fs::read_link(left)? == fs::read_link(right)? {
            Ok(totals)
        } else {
            differ("target")
        };
    }
    if a.mode() != b.mode() {
        return differ("mode");
    }
    if a.is_dir() {
        let names = sorted_names(left)?;
        if names != sorted_names(right)? {
            return differ("names");
        }
        for name in names {
            let below = compare(&left.join(&name), &right.join(&name))?;
            totals.objects += below.objects;
            totals.bytes += below.bytes;
        }
        return Ok(totals);
    }
    totals.bytes = a.len();
    if a.len() != b.len() || !same_content(left, right, a.len())? {
        return differ("content");
    }
    Ok(totals)
}

fn sorted_names(path: &Path) -> io::Result<Vec<std::ffi::OsString>> {
    let names: io::Result<Vec<_>> = fs::read_dir(path)?
        .map(|entry| entry.map(|entry| entry.file_name()))
        .collect();
    let mut names = names?;
    names.sort();
    Ok(names)
}

fn same_content(left: &Path, right: &Path, len: u64) -> io::Result<bool> {
    let (left, right) = (File::open(left)?, File::open(right)?);
    let room = usize::try_from(len).unwrap_or(usize::MAX).min(BLOCK_LEN);
    let (mut a, mut b) = (vec![0; room], vec![0; room]);
    let mut offset = 0;
    while offset < len {
        let count = usize::try_from(len - offset)
            .unwrap_or(usize::MAX)
            .min(room);
        let (a, b) = (
            a.get_mut(..count).unwrap_or_default(),
            b.get_mut(..count).unwrap_or_default(),
        );
        left.read_exact_at(a, offset)?;
        right.read_exact_at(b, offset)?;
        if a != b {
            return Ok(false);
        }
        offset += count as u64;
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(seed: u64) -> (tempfile::TempDir, std::path::PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("tree");
        fs::create_dir(&root).unwrap();
        make_file(&root.join("file"), &mut Random::new(seed)).unwrap();
        symlink("file", root.join("link")).unwrap();
        (directory, root)
    }

    #[test]
    fn a_tree_equals_itself_and_any_change_shows() {
        let (_keep, root) = tree(7);
        let totals = compare(&root, &root).unwrap();
        assert_eq!(totals.objects, 3);
        let other = tree(7).1;
        assert!(compare(&root, &other).is_err());
        let copy = root.with_extension("copy");
        fs::copy(root.join("file"), &copy).unwrap();
        let same = File::options().write(true).open(&copy).unwrap();
        let modified = fs::metadata(root.join("file")).unwrap().modified().unwrap();
        same.set_modified(modified).unwrap();
        compare(&root.join("file"), &copy).unwrap();
        same.write_all_at(b"\0", 1).unwrap();
        same.set_modified(modified).unwrap();
        let error = compare(&root.join("file"), &copy).unwrap_err();
        assert!(error.to_string().ends_with("content"), "{error}");
    }
}
