//! Ranges of files as sources of RDMA Writes: pages of the page cache, registered for one use.
//!
//! The device reads the pages where they are. They stay pinned until the Write is done, also when the file is cut
//! meanwhile; then the peer gets the bytes of before. Pages that are not in memory are fetched by the blocking pool,
//! and work behind them waits. Bytes that no page has, and those of files without a descriptor, are read into memory.

use crate::limits::LONG_REGISTRATION;
use crate::sys::{MappedFile, Piece, ProtectionDomain, Registration, RegistrationRules};
use gannet_fabric::{Access, RegionStats};
use gannet_runtime::{Buffer, FileRef};
use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

/// A range of a file.
pub(crate) struct SourceRange {
    pub(crate) file: FileRef,
    pub(crate) offset: u64,
    pub(crate) len: u32,
}

/// Registered bytes of a file. A registration is dropped before the memory that it pins.
pub(crate) enum FileBytes {
    Mapped(MappedFile),
    Copied {
        registration: Registration,
        _memory: Buffer,
    },
}

impl FileBytes {
    /// The bytes, for work.
    pub(crate) fn piece(&self, len: u32) -> Option<Piece> {
        match self {
            FileBytes::Mapped(mapped) => mapped.piece(len),
            FileBytes::Copied { registration, .. } => registration.piece(0, len),
        }
    }

    /// Adds itself to the counters of the domain.
    pub(crate) fn count(&self, stats: &mut RegionStats) {
        match self {
            FileBytes::Mapped(_) => stats.file_ranges_registered += 1,
            FileBytes::Copied { .. } => stats.file_ranges_copied += 1,
        }
    }
}

/// The bytes of a posted range, which may be on their way.
#[derive(Clone, Default)]
pub(crate) struct Arriving(Rc<RefCell<Option<io::Result<FileBytes>>>>);

impl Arriving {
    pub(crate) fn arrive(&self, bytes: io::Result<FileBytes>) {
        *self.0.borrow_mut() = Some(bytes);
    }

    /// The bytes or the error; `None` until then.
    pub(crate) fn take(&self) -> Option<io::Result<FileBytes>> {
        self.0.borrow_mut().take()
    }
}

impl SourceRange {
    /// The pages, if all are in memory and pinning them takes no time to speak of.
    pub(crate) fn at_once(&self, domain: &Arc<ProtectionDomain>) -> Option<FileBytes> {
        let len = u64::from(self.len);
        let is_short = (self.len as usize) < LONG_REGISTRATION;
        if !is_short || !self.file.is_resident(self.offset, len) {
            return None;
        }
        self.mapped(domain)
    }

    /// The bytes, waiting for the disk.
    ///
    /// # Errors
    /// The errors of the file; the memory could not be registered.
    pub(crate) fn fetch(&self, domain: &Arc<ProtectionDomain>) -> io::Result<FileBytes> {
        if let Some(mapped) = self.mapped(domain) {
            return Ok(mapped);
        }
        let mut memory = Buffer::zeroed(self.len as usize);
        let mut filled = 0;
        while let Some(rest) = memory.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match self.file.read_at(self.offset + filled as u64, rest)? {
                0 => break,
                count => filled += count,
            }
        }
        Ok(FileBytes::Copied {
            registration: Registration::new(
                domain,
                &mut memory,
                Access::Local,
                RegistrationRules::default(),
            )?,
            _memory: memory,
        })
    }

    /// `None` for a range that the file does not have to its end, or that cannot be mapped.
    fn mapped(&self, domain: &Arc<ProtectionDomain>) -> Option<FileBytes> {
        let end = self.offset.checked_add(self.len.into())?;
        let descriptor = self.file.descriptor()?;
        if self.file.status().ok()?.size < end {
            return None;
        }
        let mapped = MappedFile::new(domain, descriptor, self.offset, self.len);
        // The file may have been cut since.
        mapped.ok().map(FileBytes::Mapped)
    }
}
