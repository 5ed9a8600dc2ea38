//! The copy of the tree in which mutants are built and tested.
//!
//! Its builds go to the target folder of the tree, for the third-party crates that are there. Cargo tells the crates of
//! the copy from those of the tree by their paths.

use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The tree and its builds.
pub(super) struct Copy {
    pub(super) tree: PathBuf,
    pub(super) target: PathBuf,
}

impl Copy {
    /// Brings the copy of the tree at `root` up to date, or makes it.
    ///
    /// # Errors
    /// Git does not list the tree; files cannot be read or written.
    pub(super) fn of(root: &Path) -> Result<Copy> {
        let builds =
            std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
        let folder = builds.join("mutants");
        let copy = Copy {
            tree: folder.join("tree"),
            target: builds,
        };
        let files = tracked(root)?;
        for file in &files {
            copy_file(&root.join(file), &copy.tree.join(file))
                .with_context(|| format!("cannot copy {}", file.display()))?;
        }
        copy.remove_others(&copy.tree, &files)?;
        Ok(copy)
    }

    /// A file of the tree.
    ///
    /// # Errors
    /// It cannot be read.
    pub(super) fn read(&self, file: &str) -> Result<String> {
        fs::read_to_string(self.tree.join(file)).with_context(|| format!("cannot read {file}"))
    }

    /// Replaces a file of the tree.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn write(&self, file: &str, text: &str) -> Result<()> {
        fs::write(self.tree.join(file), text).with_context(|| format!("cannot write {file}"))
    }

    /// Removes what the tree no longer has.
    fn remove_others(&self, folder: &Path, files: &BTreeSet<PathBuf>) -> Result<()> {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                self.remove_others(&path, files)?;
            } else if !path
                .strip_prefix(&self.tree)
                .is_ok_and(|it| files.contains(it))
            {
                fs::remove_file(&path)?;
            }
        }
        Ok(())
    }
}

/// The tree's files as they are now: those that git knows or would add.
fn tracked(root: &Path) -> Result<BTreeSet<PathBuf>> {
    let mut git = Command::new("git");
    git.args([
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ]);
    let listed = git
        .current_dir(root)
        .output()
        .context("git cannot be started")?;
    if !listed.status.success() {
        bail!(
            "git does not list the tree: {}",
            String::from_utf8_lossy(&listed.stderr).trim()
        );
    }
    let names = String::from_utf8(listed.stdout).context("a name that is no text")?;
    let files = names.split('\0').filter(|name| !name.is_empty());
    // A file that was removed and is still in git's index is none.
    Ok(files
        .map(PathBuf::from)
        .filter(|file| root.join(file).is_file())
        .collect())
}

/// Copies a file unless it is the same already: what was built of it is as good then.
fn copy_file(from: &Path, to: &Path) -> Result<()> {
    let bytes = fs::read(from)?;
    if fs::read(to).is_ok_and(|there| there == bytes) {
        return Ok(());
    }
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(to, bytes)?;
    fs::set_permissions(to, fs::metadata(from)?.permissions())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::time::{Duration, SystemTime};

    #[test]
    fn a_file_that_is_the_same_keeps_its_time_and_others_are_new() {
        let folder = std::env::temp_dir().join(format!("gannet-mutants-{}", std::process::id()));
        let (from, to) = (folder.join("from"), folder.join("copy/to"));
        fs::create_dir_all(&folder).unwrap();
        fs::write(&from, "one").unwrap();
        copy_file(&from, &to).unwrap();
        let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        let modified = |path: &Path| fs::metadata(path).unwrap().modified().unwrap();
        File::options()
            .write(true)
            .open(&to)
            .unwrap()
            .set_modified(old)
            .unwrap();
        copy_file(&from, &to).unwrap();
        assert_eq!(modified(&to), old);
        // As after a mutant that was left there: what was built of it is older than the file.
        fs::write(&to, "two").unwrap();
        copy_file(&from, &to).unwrap();
        assert_eq!(fs::read(&to).unwrap(), b"one");
        assert!(modified(&to) > old);
        fs::remove_dir_all(&folder).unwrap();
    }
}
