//! A directory for a while.

use crate::failure::Failure;
use std::path::{Path, PathBuf};

/// A directory that is removed again, whatever happens.
pub struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// Makes `gannet-NAME-PID` below `above`, or in the system's temporary directory.
    ///
    /// # Errors
    /// It cannot be made, or is there already.
    pub fn make(name: &str, above: Option<&Path>) -> Result<Scratch, Failure> {
        let above = above.map_or_else(std::env::temp_dir, Path::to_path_buf);
        let path = above.join(format!("gannet-{name}-{}", std::process::id()));
        std::fs::create_dir(&path).map_err(|error| {
            Failure::new(format!("cannot make {}", path.display()), error)
                .hint("choose another place with --scratch DIR")
        })?;
        Ok(Scratch { path })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "cannot remove the scratch directory");
        }
    }
}
