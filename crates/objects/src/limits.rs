//! The bounds of what a server of objects remembers, and its intervals.

use std::time::Duration;

/// Objects whose handles a server remembers.
pub const HANDLES_MAX: usize = 1 << 16;
/// Revocations that a server remembers by file; the oldest makes room, and counts for all files from then on.
pub const REVOCATIONS_MAX: usize = 1 << 14;
/// Tombstones that a server keeps; the oldest makes room.
pub const TOMBSTONES_MAX: usize = 1 << 18;
/// The time after which a server stores the number of the last change that the manager reported.
pub const TERM_WRITE_PAUSE: Duration = Duration::from_secs(1);
/// Changes of one object that a server has under way: further writes are to be sent again.
pub const CHANGES_OF_OBJECT_MAX: usize = 4096;
/// Steps for which a server looks whether a write overlaps earlier ones, before it takes that for certain.
pub const OVERLAP_STEPS_MAX: u32 = 4096;
/// Ranges of bytes that a server remembers to leave out of earlier writes, of all objects together.
pub const NOTED_RANGES_MAX: usize = 1 << 16;
