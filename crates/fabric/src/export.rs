//! Memory that peers read without a call, through references that may be stale: the translation and protection table
//! of Optimistic DAFS (paper 003, section IV).
//!
//! An exporter enters an object (an open file, a record in memory) for one connection and sends its peer the
//! [`Reference`]. The peer reads by [`crate::Endpoint::post_optimistic_read`]. The table alone decides at each access
//! whether the bytes are in memory and the right to them lasts. A read of an object that was removed, whose right has
//! ended or that is not in memory is refused with an [`AccessError`], and the connection lasts. There is no list of the
//! holders of references.

use crate::RemoteAddress;
use crate::region::{AccessError, EndpointId, Region, RemoteKey};
use gannet_runtime::{FileRef, FileSource, FileStatus, FileTime, Instant};
use std::fmt;
use std::rc::Rc;
use std::sync::Weak;

/// The random number that must come with every use of a reference, besides the key.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct AccessKey(pub u64);

impl fmt::Debug for AccessKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AccessKey(..)")
    }
}

/// The address of an object for a peer: byte `n` of the object is at `address.offset + n`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reference {
    /// The object's first byte.
    pub address: RemoteAddress,
    /// Proof that the exporter has sent this reference to its holder.
    pub access_key: AccessKey,
}

impl Reference {
    /// The reference to byte `offset` of the region `key`, as the exporter's message has its numbers.
    #[must_use]
    pub fn new(key: u32, offset: u64, access_key: u64) -> Reference {
        let key = RemoteKey(key);
        Reference {
            address: RemoteAddress { key, offset },
            access_key: AccessKey(access_key),
        }
    }

    /// The same object from byte `offset` on.
    #[must_use]
    pub fn at(self, offset: u64) -> Reference {
        let RemoteAddress { key, offset: base } = self.address;
        let offset = base.wrapping_add(offset);
        Reference {
            address: RemoteAddress { key, offset },
            ..self
        }
    }
}

/// The secret by which the two ends of a connection authenticate optimistic reads; both have it from the handshake of
/// the protocol above.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct CapabilityKey(pub [u8; 32]);

impl fmt::Debug for CapabilityKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CapabilityKey(..)")
    }
}

/// The bytes of an exported object.
#[derive(Clone)]
pub enum Exported {
    /// The bytes of an open file that are in the page cache. A read counts as a use for the kernel, and never waits for
    /// a disk.
    File(FileRef),
    /// As [`Exported::File`], while other code has the file open: the table keeps no descriptor. After the last close
    /// the bytes count as unloaded ([`FindExported`]).
    OpenFile(Weak<dyn FileSource>),
    /// The status of an open file at the moment of the read: [`FILE_STATUS_LEN`] bytes ([`file_status_bytes`]). After
    /// the last close it counts as unloaded, as the bytes of [`Exported::OpenFile`] do.
    OpenFileStatus(Weak<dyn FileSource>),
    /// A part of registered memory.
    Memory {
        /// The region.
        region: Region,
        /// Offset of the object in it.
        offset: u64,
        /// Bytes of the object.
        len: u64,
    },
}

/// Bytes of an exported status.
pub const FILE_STATUS_LEN: usize = 40;

/// The bytes of an exported status, in network byte order: size and bytes of disk (8 each), then the times of the last
/// write and of the last change, each as seconds (8, signed) and nanoseconds (4).
pub fn file_status_bytes(status: &FileStatus) -> [u8; FILE_STATUS_LEN] {
    let mut bytes = [0; FILE_STATUS_LEN];
    let (sizes, times) = bytes.split_at_mut(16);
    sizes[..8].copy_from_slice(&status.size.to_be_bytes());
    sizes[8..].copy_from_slice(&status.used.to_be_bytes());
    let (modified, changed) = times.split_at_mut(12);
    for (to, time) in [(modified, status.modified), (changed, status.changed)] {
        to[..8].copy_from_slice(&time.seconds.to_be_bytes());
        to[8..].copy_from_slice(&time.nanoseconds.to_be_bytes());
    }
    bytes
}

/// Decodes an exported status. Nanoseconds are not checked.
pub fn file_status_in(bytes: &[u8; FILE_STATUS_LEN]) -> FileStatus {
    let long = |at: usize| u64::from_be_bytes(std::array::from_fn(|byte| bytes[at + byte]));
    let time = |at: usize| FileTime {
        seconds: long(at).cast_signed(),
        nanoseconds: u32::from_be_bytes(std::array::from_fn(|byte| bytes[at + 8 + byte])),
    };
    FileStatus {
        size: long(0),
        used: long(8),
        modified: time(16),
        changed: time(28),
    }
}

/// One entry of a table: an object for one connection.
pub struct Export {
    /// The exporter's number of the object, by which it removes the entries.
    pub object: u128,
    /// The connection that may read it.
    pub endpoint: EndpointId,
    /// The end of the right to read.
    pub until: Instant,
    /// The bytes of the object.
    pub bytes: Exported,
}

/// Finds the bytes of an object that the table has unloaded, if the exporter still has it open (the paper's
/// nic_vm_fault). It must not wait: a connection's receive path calls it.
pub type FindExported = Rc<dyn Fn(u128) -> Option<Exported>>;

/// The entries of one exporter in the table of its domain. Dropping it removes them all.
pub trait ExportTable {
    /// Makes an object readable (tpt_enter). An existing entry for the same object and connection is used again, and
    /// its right lasts until the later of the two ends. A full table evicts an entry that was not used for long.
    fn enter(&self, export: Export) -> Reference;

    /// Makes an object unreadable to all (tpt_remove): after this returns, no byte is taken through any reference to
    /// it.
    fn remove(&self, object: u128);

    /// Makes all objects unreadable.
    fn remove_all(&self);

    /// Changes the end of the right of `key` (tpt_protect), also to an earlier time. False when this exporter has no
    /// such entry.
    fn protect(&self, key: RemoteKey, until: Instant) -> bool;

    /// Counters of the entries and their reads.
    fn stats(&self) -> ExportStats;
}

/// Counters of an [`ExportTable`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ExportStats {
    /// Entries now.
    pub entries: u64,
    /// Reads that were answered.
    pub reads: u64,
    /// Reads of bytes that are not in memory.
    pub not_resident: u64,
    /// Reads refused for all other reasons.
    pub refused: u64,
    /// Entries whose bytes had to be found again ([`FindExported`]).
    pub faults: u64,
    /// Entries that a full table evicted.
    pub evicted: u64,
}

impl std::ops::Add for ExportStats {
    type Output = ExportStats;

    fn add(self, other: ExportStats) -> ExportStats {
        ExportStats {
            entries: self.entries + other.entries,
            reads: self.reads + other.reads,
            not_resident: self.not_resident + other.not_resident,
            refused: self.refused + other.refused,
            faults: self.faults + other.faults,
            evicted: self.evicted + other.evicted,
        }
    }
}

impl ExportStats {
    /// Counts the outcome of a read.
    pub fn note(&mut self, outcome: Result<(), AccessError>) {
        match outcome {
            Ok(()) => self.reads += 1,
            Err(AccessError::NotResident) => self.not_resident += 1,
            Err(_) => self.refused += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exported_status_has_these_bytes() {
        let status = FileStatus {
            size: 0x0102,
            used: 4096,
            modified: FileTime {
                seconds: -2,
                nanoseconds: 3,
            },
            changed: FileTime {
                seconds: 0x0405,
                nanoseconds: 6,
            },
        };
        #[rustfmt::skip]
        let expected = [
            0, 0, 0, 0, 0, 0, 1, 2,  0, 0, 0, 0, 0, 0, 16, 0,
            255, 255, 255, 255, 255, 255, 255, 254,  0, 0, 0, 3,
            0, 0, 0, 0, 0, 0, 4, 5,  0, 0, 0, 6,
        ];
        assert_eq!(file_status_bytes(&status), expected);
        assert_eq!(file_status_in(&expected), status);
        assert_eq!(file_status_in(&[0; FILE_STATUS_LEN]), FileStatus::default());
    }
}
