//! Memory that peers read without asking, through references that may be stale: the translation and protection table of
//! Optimistic DAFS (paper 003, section IV).
//!
//! An exporter enters an object (an open file, a record in memory) for one connection and tells its peer the
//! [`Reference`]. The peer reads by [`crate::Endpoint::post_optimistic_read`]. Whether the bytes are there and the
//! right to them lasts is decided at each access, by the table alone: what was removed, has run out or is not in memory
//! is refused with an [`AccessError`] that the connection survives. Nobody keeps a list of who holds a reference.

use crate::RemoteAddress;
use crate::region::{AccessError, EndpointId, Region, RemoteKey};
use gannet_runtime::{FileRef, FileSource, Instant};
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

/// Where an object can be read, as a peer is told of it: byte `n` of the object lies at `address.offset + n`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reference {
    /// The object's first byte.
    pub address: RemoteAddress,
    /// Proof that its exporter told the bearer.
    pub access_key: AccessKey,
}

impl Reference {
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
    /// Those of an open file that are in the page cache; an access counts as a use for the kernel, and never waits for
    /// a disk.
    File(FileRef),
    /// As [`Exported::File`], for as long as somebody else has the file open: the table keeps no descriptor. Once
    /// nobody has, it is as if the table had let go of the bytes ([`FindExported`]).
    OpenFile(Weak<dyn FileSource>),
    /// Those of registered memory.
    Memory {
        /// The region.
        region: Region,
        /// Where in it the object starts.
        offset: u64,
        /// Bytes of the object.
        len: u64,
    },
}

/// What a table is asked to hold for one connection.
pub struct Export {
    /// What the exporter calls the object; its entries are removed by this name.
    pub object: u64,
    /// The connection that may read it.
    pub endpoint: EndpointId,
    /// After this moment the right has run out.
    pub until: Instant,
    /// The bytes.
    pub bytes: Exported,
}

/// Finds the bytes of an object again that the table let go of, for as long as the exporter has it open (the paper's
/// nic_vm_fault). It must not wait.
pub type FindExported = Rc<dyn Fn(u64) -> Option<Exported>>;

/// What one exporter has in the table of its domain. Dropping it removes all.
pub trait ExportTable {
    /// Makes an object readable (tpt_enter). An entry that there is for the same object and connection is used again:
    /// its right lasts until the later of the two moments. When the table is full, the entry that was not used for
    /// longest goes.
    fn enter(&self, export: Export) -> Reference;

    /// Makes an object unreadable to all (tpt_remove): once this returns, no byte is taken through any reference to it.
    fn remove(&self, object: u64);

    /// Makes all objects unreadable.
    fn remove_all(&self);

    /// Changes until when the right of the bearer of `key` lasts (tpt_protect), to an earlier moment too. False when
    /// there is no such entry.
    fn protect(&self, key: RemoteKey, until: Instant) -> bool;

    /// What the table was asked for.
    fn stats(&self) -> ExportStats;
}

/// Counters of an [`ExportTable`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ExportStats {
    /// Entries now.
    pub entries: u64,
    /// Reads that were answered.
    pub reads: u64,
    /// Reads of what is not in memory.
    pub not_resident: u64,
    /// Reads refused for all other reasons.
    pub refused: u64,
    /// Entries whose bytes had to be found again ([`FindExported`]).
    pub faults: u64,
    /// Entries that made room for others.
    pub evicted: u64,
}

impl ExportStats {
    /// Counts what became of a read.
    pub fn note(&mut self, outcome: Result<(), AccessError>) {
        match outcome {
            Ok(()) => self.reads += 1,
            Err(AccessError::NotResident) => self.not_resident += 1,
            Err(_) => self.refused += 1,
        }
    }
}
