//! What the tests of several crates share. No crate that serves uses it.
//!
//! - [`pattern`], [`noise`], [`all_of`] and [`checksum`]: bytes to send and to recognise. The crate is built with full
//!   optimization, because tests make and compare gigabytes of them.
//! - [`left_out`], [`is_root`], [`can_mount`]: checks that cannot be done here, which is a failure in continuous
//!   integration.
//! - Its `Cargo.toml` is the one set of features of third-party crates for all test builds.

use std::fs::OpenOptions;
use std::io::Write;
use std::process::{Command, Stdio};

/// `len` bytes that repeat at no power of two. None of them is zero, so a hole in a file is told from them.
#[must_use]
pub fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| mixed(at) | 1).collect()
}

/// `len` bytes that repeat at no power of two, each another one for each `salt`.
#[must_use]
pub fn noise(len: usize, salt: u8) -> Vec<u8> {
    (0..len).map(|at| mixed(at) ^ salt).collect()
}

fn mixed(at: usize) -> u8 {
    ((at as u64).wrapping_mul(0x9e37_79b9) >> 13) as u8
}

/// Whether `bytes` has no others than `allowed`.
#[must_use]
pub fn all_of(bytes: &[u8], allowed: &[u8]) -> bool {
    bytes.iter().all(|byte| allowed.contains(byte))
}

/// A checksum that depends on the order of the bytes.
#[must_use]
pub fn checksum(bytes: &[u8]) -> u32 {
    bytes.iter().fold(1, |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(u32::from(*byte))
    })
}

/// Notes why the test of this thread, or a part of it, is not done on this machine. The caller returns.
///
/// The line goes to stderr and, if the variable `GANNET_LEFT_OUT` names a file, to its end: `.ci/run` prints it when
/// all tests have run.
///
/// # Panics
/// With `CI=true` in the environment: a check that cannot be done is a failure there.
pub fn left_out(reason: &str) {
    let thread = std::thread::current();
    let line = format!("left out: {}: {reason}", thread.name().unwrap_or("a test"));
    eprintln!("{line}");
    assert!(
        std::env::var_os("CI").is_none_or(|ci| ci != "true"),
        "{line}, and CI=true"
    );
    if let Some(list) = std::env::var_os("GANNET_LEFT_OUT") {
        let file = OpenOptions::new().append(true).create(true).open(list);
        // The list is for people; the line was printed.
        let _ = file.and_then(|mut file| writeln!(file, "{line}"));
    }
}

/// Whether tests that mostly wait are run by another command, beside others: `.ci/run` says so in a variable.
#[must_use]
pub fn waits_elsewhere() -> bool {
    std::env::var_os("GANNET_TESTS_THAT_WAIT").is_some_and(|value| value == "elsewhere")
}

/// Whether this process is root's; otherwise the test is [`left_out`].
///
/// # Panics
/// As [`left_out`].
#[must_use]
pub fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        left_out("it needs root");
    }
    is_root
}

/// Whether this process may mount through FUSE; otherwise the test is [`left_out`]. A container may have the device and
/// root, and still not the right.
///
/// # Panics
/// As [`left_out`].
#[must_use]
pub fn can_mount() -> bool {
    let device = OpenOptions::new().read(true).write(true).open("/dev/fuse");
    let can_mount = device.is_ok() && may_mount().unwrap_or(false);
    if !can_mount {
        left_out("FUSE cannot be used here, or not by this user");
    }
    can_mount
}

/// Whether this process may mount anything: tries it.
fn may_mount() -> std::io::Result<bool> {
    let place = tempfile::tempdir()?;
    let run = |command: &mut Command| {
        let status = command.arg(place.path()).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    };
    let mounted = run(Command::new("mount").args(["-t", "tmpfs", "none"]));
    Ok(mounted && run(&mut Command::new("umount")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_byte_is_zero_and_no_block_repeats() {
        let bytes = pattern(1 << 16);
        assert!(bytes.iter().all(|byte| *byte != 0));
        for block in [512, 4096, 65_536 / 2] {
            assert_ne!(bytes[..block], bytes[block..2 * block], "{block}");
        }
        let pairs = noise(1 << 16, 1).into_iter().zip(noise(1 << 16, 2));
        assert!({ pairs }.all(|(one, other)| one != other));
    }

    #[test]
    fn a_checksum_depends_on_the_order() {
        assert_ne!(checksum(&[1, 2]), checksum(&[2, 1]));
    }
}
