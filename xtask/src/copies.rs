//! `cargo xtask copies`: a volume with two copies under fio, while its I/O servers die. The test does the work, and is
//! left out where fio or FUSE is missing.

use crate::command::Step;
use crate::release_binary;
use anyhow::Result;
use clap::Args;
use std::path::{Path, PathBuf};

/// The test, which other runs of its program ignore.
const TEST: &str =
    "test --locked --quiet -p gannet-cli --test all copies::under_load -- --ignored --nocapture";

/// `cargo xtask copies`.
#[derive(Args)]
pub(crate) struct Options {
    /// Test this binary instead of building one
    #[arg(long, value_name = "FILE")]
    pub(crate) binary: Option<PathBuf>,
}

/// Runs the test on the release binary, in the folder that TMPDIR names.
///
/// # Errors
/// fio reports an error or a long wait, or the volume is not whole in the end.
pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    let binary = release_binary(root, options.binary.as_deref())?;
    Step::cargo(TEST)
        .with_path("GANNET_BINARY", &binary)
        .run(root)
}
