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
/// How long a change is passed on to the other member of a group before its caller is told to try again.
pub const COPY_PATIENCE: Duration = Duration::from_secs(5);
/// The pause before it is passed on once more.
pub const COPY_RETRY: Duration = Duration::from_millis(100);
/// When a member that has not answered counts as slow: writes that wait for it then hold nothing that others need.
pub const SLOW_AFTER: Duration = Duration::from_millis(300);
/// Bytes of writes of a group that wait for a slow member; further ones are to be sent again.
pub const SLOW_BYTES_MAX: usize = 2 << 20;
/// Objects of which the members of a group may differ; at that number, writes of it are to be sent again.
pub const UNEVEN_OBJECTS_MAX: usize = 1024;
/// The pause after such an object could not be copied.
pub const LEVEL_PAUSE: Duration = Duration::from_millis(500);
/// Bytes that are copied under one lock.
pub const LEVELLED_AT_A_TIME: u64 = 1 << 20;
/// The same while clients ask: their requests wait for as long as that takes.
pub const LEVELLED_BESIDE_CLIENTS: u64 = 128 << 10;
/// Ranges of a group that a member knows to be dirty; with more, all bytes count as dirty for a while.
pub const DIRTY_RANGES_MAX: usize = 4096;
/// After which time without a change a bucket of objects is made durable at both members of its group.
pub const SETTLE_AFTER: Duration = Duration::from_secs(10);
/// Files of a group whose changes are remembered, so that their objects are made durable without a search.
pub const INTENT_NAMES_MAX: usize = 1 << 14;
/// How long a disk counts as failing after a failure: its server gives its groups to others, and takes none back.
pub const DISK_PAUSE: Duration = Duration::from_secs(10);
/// The same, of a disk that has failed again and again.
pub const DISK_PAUSE_MAX: Duration = Duration::from_secs(60);
/// After this time without a failure, earlier ones do not count any more.
pub const DISK_WELL_AFTER: Duration = Duration::from_secs(3600);
/// The versions of objects rise by so much with each epoch of a group: 64 seconds in the unit of a store's versions.
/// The clocks of two members may be half of that apart.
pub const VERSIONS_OF_EPOCH: u64 = 64 << 30;
/// How long a primary may serve a group after it asked the other member for the right.
pub const RIGHT: Duration = Duration::from_secs(2);
/// How long the other member does not serve after it gave the right: some more, since no two clocks run at the same
/// rate.
pub const RIGHT_OVER: Duration = Duration::from_millis(2100);
