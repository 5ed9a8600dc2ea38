//! `cargo xtask disks`: the disks that users have. Makes ext4 with a journal, XFS and btrfs in loop images, and runs on
//! each what depends on the file system below a server.

use crate::ci::left_out;
use crate::command::Step;
use crate::{release_binary, target_folder};
use anyhow::{Context, Result, bail};
use clap::Args;
use rustix::process::geteuid;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The size of an image, of which a fresh file system takes some megabytes.
const IMAGE_BYTES: u64 = 2 << 30;

/// A file system and the program that makes it, with its arguments.
struct Kind {
    name: &'static str,
    make: &'static str,
    package: &'static str,
    arguments: &'static [&'static str],
}

const KINDS: &[Kind] = &[
    // The journal is the default of mkfs.ext4; said here, because a configuration may turn it off.
    Kind {
        name: "ext4",
        make: "mkfs.ext4",
        package: "e2fsprogs",
        arguments: &["-q", "-O", "has_journal"],
    },
    Kind {
        name: "xfs",
        make: "mkfs.xfs",
        package: "xfsprogs",
        arguments: &["-q"],
    },
    Kind {
        name: "btrfs",
        make: "mkfs.btrfs",
        package: "btrfs-progs",
        arguments: &["-q"],
    },
];

/// `cargo xtask disks`.
#[derive(Args)]
pub(crate) struct Options {
    /// Only file systems whose name contains this
    #[arg(default_value = "")]
    name: String,
    /// Test this binary instead of building one
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
}

/// A mounted image, unmounted and removed when dropped.
struct Disk {
    image: PathBuf,
    place: PathBuf,
}

/// Runs the tests on each file system.
///
/// # Errors
/// One of them fails; with `CI=true` also that a file system cannot be made or mounted here.
pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    let binary = release_binary(root, options.binary.as_deref())?;
    let kinds = KINDS
        .iter()
        .filter(|kind| kind.name.contains(&options.name));
    for kind in kinds {
        if let Some(reason) = obstacle(kind) {
            left_out(kind.name, &reason)?;
            continue;
        }
        println!("disks: {}", kind.name);
        let disk = Disk::make(kind)?;
        disk.run_all(root, &binary)
            .with_context(|| format!("on {}", kind.name))?;
    }
    Ok(())
}

/// Why this file system cannot be made here.
fn obstacle(kind: &Kind) -> Option<String> {
    if !geteuid().is_root() {
        return Some(String::from("mounting an image needs root"));
    }
    let version = Command::new(kind.make).arg("-V").output();
    version
        .is_err()
        .then(|| format!("no {} here (package {})", kind.make, kind.package))
}

impl Disk {
    fn make(kind: &Kind) -> Result<Disk> {
        let folder = target_folder()?.join("disks");
        let place = folder.join(kind.name);
        fs::create_dir_all(&place).with_context(|| format!("cannot make {}", place.display()))?;
        let image = folder.join(format!("{}.img", kind.name));
        // What a run that was killed has left.
        let disk = Disk { image, place };
        disk.take_down();
        let file = File::create(&disk.image).context("cannot make the image")?;
        file.set_len(IMAGE_BYTES)?;
        let mut make = Command::new(kind.make);
        run_silently(make.args(kind.arguments).arg(&disk.image))?;
        let mut mount = Command::new("mount");
        run_silently(mount.args(["-o", "loop"]).args([&disk.image, &disk.place]))?;
        // As /tmp, for tests of other users.
        run_silently(Command::new("chmod").arg("1777").arg(&disk.place))?;
        Ok(disk)
    }

    /// Everything that a server does with the file system below it.
    fn run_all(&self, root: &Path, binary: &Path) -> Result<()> {
        let here = |step: Step| {
            let step = step.with_path("TMPDIR", &self.place);
            step.with_path("GANNET_BINARY", binary).run(root)
        };
        here(Step::cargo(
            "test --locked --quiet -p gannet-localfs -p gannet-nfs",
        ))?;
        here(Step::cargo(
            "test --locked --quiet -p gannet-cli --test disks -- --ignored --test-threads=1",
        ))?;
        here(Step::program(binary).with("demo"))
    }

    fn take_down(&self) {
        let mut unmount = Command::new("umount");
        let _ = unmount.args(["-q", "-l"]).arg(&self.place).output();
        let _ = fs::remove_file(&self.image);
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.take_down();
    }
}

fn run_silently(command: &mut Command) -> Result<()> {
    let output = command.output();
    let output = output.with_context(|| format!("{command:?} cannot be started"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{command:?}: {}: {}", output.status, said.trim());
    }
    Ok(())
}
