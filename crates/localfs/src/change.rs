//! Changes of one object: data and attributes. All of it blocks and belongs on the pool.

use super::attributes::{Facts, status};
use super::clock_map::lock;
use super::object::{Object, OpenFile, ProcPath};
use super::sync::WriteFile;
use super::tree::LocalTree;
use crate::limits::UNCACHED_WRITE_MIN;
use gannet_vfs::{
    Attributes, Changed, Credentials, FileKind, SetAttributes, SetTime, Stability, Status, Time,
    Wcc, WriteDone,
};
use rustix::fd::AsFd;
use rustix::fs::{AtFlags, CWD, Gid, Mode, Timespec, Timestamps, Uid};
use rustix::io::{Errno, ReadWriteFlags};
use std::io::IoSlice;
use std::sync::Arc;

/// `RWF_DONTCACHE` of linux/fs.h. Kernels that do not know it answer EOPNOTSUPP.
const DONT_CACHE: ReadWriteFlags = ReadWriteFlags::from_bits_retain(0x80);

/// Files end at the largest offset the kernel knows.
pub(crate) const FILE_SIZE_MAX: u64 = i64::MAX as u64;

/// An operation that failed before it touched anything.
pub(crate) fn failed<T>(reason: Status) -> Changed<T> {
    Changed {
        result: Err(reason),
        wcc: Wcc::default(),
    }
}

impl LocalTree {
    /// Runs `operation` as `caller` between two looks at the object's attributes, with no other change of the object
    /// through this server in between.
    ///
    /// It needs both looks. A local program may have changed the object since the last change through this server.
    /// The attributes behind that one, taken for those before this one, would pass the program's change off as this
    /// caller's, and clients would keep what they have cached.
    pub(crate) fn change<T>(
        &self,
        object: &Object,
        caller: &Credentials,
        operation: impl FnOnce(&Facts) -> Result<T, Status>,
    ) -> Changed<T> {
        let _changing = lock(&object.changing);
        let before = match object.facts(self) {
            Ok(before) => before,
            Err(reason) => return failed(reason),
        };
        let assumed = self.identities.assume(caller);
        let result = assumed.and_then(|()| operation(&before));
        self.changed(object.fileid);
        Changed {
            result,
            wcc: Wcc {
                before: Some(before.attributes.wcc()),
                after: object.attributes(self).ok(),
            },
        }
    }

    /// WRITE.
    pub(crate) fn write(
        &self,
        object: &Object,
        caller: &Credentials,
        offset: u64,
        data: &[u8],
    ) -> Changed<WriteDone> {
        self.change(object, caller, |before| {
            object.require_regular()?;
            let end = offset.checked_add(data.len() as u64);
            if end.is_none_or(|end| end > FILE_SIZE_MAX) {
                return Err(Status::Fbig);
            }
            before.require_unprotected()?;
            object.require_write(self, caller, &before.attributes)?;
            let file = self.writable(object)?;
            // Taken before the data is: if a sync fails from here on, this write may be among what is lost.
            let verifier = self.write_verifier();
            let is_uncached = self.uncached_writes && data.len() >= UNCACHED_WRITE_MIN;
            Ok(WriteDone {
                count: write_all(&file, offset, data, is_uncached)?,
                committed: Stability::Unstable,
                verifier,
            })
        })
    }

    /// SETATTR.
    pub(crate) fn set_attributes(
        &self,
        object: &Object,
        caller: &Credentials,
        change: &SetAttributes,
        guard: Option<Time>,
    ) -> Changed<()> {
        self.change(object, caller, |before| {
            if guard.is_some_and(|guard| guard != before.attributes.change_time) {
                return Err(Status::NotSync);
            }
            match change.size {
                Some(size) => self.resize(object, caller, before, size, change),
                None => self.apply(object, caller, &before.attributes, change),
            }
        })
    }

    /// Applies all but the size. This thread is the caller already.
    pub(crate) fn apply(
        &self,
        object: &Object,
        caller: &Credentials,
        before: &Attributes,
        change: &SetAttributes,
    ) -> Result<(), Status> {
        let descriptor = object.descriptor();
        let times = Timestamps {
            last_access: time_to_set(change.access_time)?,
            last_modification: time_to_set(change.modify_time)?,
        };
        if change.uid.is_some() || change.gid.is_some() {
            // All bits set would mean "keep" to the kernel.
            if change.uid == Some(u32::MAX) || change.gid == Some(u32::MAX) {
                return Err(Status::Inval);
            }
            let uid = change.uid.map(Uid::from_raw);
            let gid = change.gid.map(Gid::from_raw);
            rustix::fs::chownat(descriptor, "", uid, gid, AtFlags::EMPTY_PATH).map_err(status)?;
        }
        // Links have no mode of their own.
        if let Some(mode) = change.mode.filter(|_| object.kind != FileKind::Symlink) {
            let mode = Mode::from_bits_truncate(mode & 0o7777);
            rustix::fs::chmodat(
                CWD,
                ProcPath::new(descriptor).as_c_str(),
                mode,
                AtFlags::empty(),
            )
            .map_err(status)?;
        }
        self.set_times(object, caller, before, change, &times)
    }

    fn set_times(
        &self,
        object: &Object,
        caller: &Credentials,
        before: &Attributes,
        change: &SetAttributes,
        times: &Timestamps,
    ) -> Result<(), Status> {
        if change.access_time == SetTime::Keep && change.modify_time == SetTime::Keep {
            return Ok(());
        }
        let set = || {
            rustix::fs::utimensat(object.descriptor(), "", times, AtFlags::EMPTY_PATH)
                .map_err(status)
        };
        let only_now = [change.access_time, change.modify_time]
            .iter()
            .all(|time| !matches!(time, SetTime::To(_)));
        match set() {
            // A caller with the right to write may set a time to now. The kernel grants that only for both times at
            // once.
            Err(Status::Perm | Status::Acces) if only_now => {
                object.require_write(self, caller, before)?;
                self.identities.as_server(set)
            }
            result => result,
        }
    }

    /// Sets the size, and the attributes that come with it.
    ///
    /// The others are set first, too: the kernel checks one right at a time, and a file that was cut cannot be put back
    /// when the kernel refuses the rest. The cut changes the times and clears set-uid bits, so they are set again.
    fn resize(
        &self,
        object: &Object,
        caller: &Credentials,
        before: &Facts,
        size: u64,
        change: &SetAttributes,
    ) -> Result<(), Status> {
        object.require_regular()?;
        if size > FILE_SIZE_MAX {
            return Err(Status::Fbig);
        }
        before.require_unprotected()?;
        let before = &before.attributes;
        object.require_write(self, caller, before)?;
        let file = self.writable(object)?;
        let others = SetAttributes {
            size: None,
            ..*change
        };
        let comes_alone = others == SetAttributes::default();
        if !comes_alone {
            self.apply(object, caller, before, &others)?;
        }
        rustix::fs::ftruncate(file.as_fd(), size).map_err(status)?;
        if comes_alone {
            return Ok(());
        }
        self.apply(object, caller, before, &others)
    }

    /// A descriptor to write to, for a caller whose right was checked: opened as the caller, who this thread is, where
    /// the kernel agrees, else as the server (the owner of a file without write permission).
    fn writable(&self, object: &Object) -> Result<Arc<WriteFile>, Status> {
        match object.writable(self) {
            Err(Status::Acces | Status::Perm) => {
                self.identities.as_server(|| object.writable(self))
            }
            result => result,
        }
    }

    /// A descriptor to read from, for a caller whose right was checked: opened as the caller where the kernel agrees,
    /// else as the server.
    ///
    /// # Errors
    /// As open(2).
    pub(crate) fn readable(
        &self,
        object: &Object,
        caller: &Credentials,
    ) -> Result<Arc<OpenFile>, Status> {
        self.identities.assume(caller)?;
        match object.readable(self) {
            Err(Status::Acces | Status::Perm) => {
                self.identities.as_server(|| object.readable(self))
            }
            result => result,
        }
    }
}

/// Writes all of `data`, or as much as goes; an error only when nothing went. The pages leave the page cache behind the
/// disk if `is_uncached`, and the file system can do that.
fn write_all(
    file: &WriteFile,
    offset: u64,
    data: &[u8],
    mut is_uncached: bool,
) -> Result<u32, Status> {
    let mut written = 0;
    while let Some(rest) = data.get(written..).filter(|rest| !rest.is_empty()) {
        match write_some(file, offset + written as u64, rest, is_uncached) {
            Ok(0) => break,
            Ok(count) => written += count,
            Err(Errno::INTR) => {}
            // Asked anew for each WRITE: directories of one tree may lie on several file systems.
            Err(Errno::OPNOTSUPP) if is_uncached => is_uncached = false,
            Err(errno) if written == 0 => return Err(status(errno)),
            Err(_) => break,
        }
    }
    match written {
        0 if !data.is_empty() => return Err(Status::Io),
        0 => {}
        _ => file.wrote(),
    }
    u32::try_from(written).map_err(|_| Status::Inval)
}

fn write_some(
    file: &WriteFile,
    offset: u64,
    data: &[u8],
    is_uncached: bool,
) -> Result<usize, Errno> {
    if is_uncached {
        let data = [IoSlice::new(data)];
        rustix::io::pwritev2(file.as_fd(), &data, offset, DONT_CACHE)
    } else {
        rustix::io::pwrite(file.as_fd(), data, offset)
    }
}

fn time_to_set(time: SetTime) -> Result<Timespec, Status> {
    let special = |nanoseconds| Timespec {
        tv_sec: 0,
        tv_nsec: nanoseconds,
    };
    match time {
        SetTime::Keep => Ok(special(rustix::fs::UTIME_OMIT)),
        SetTime::Now => Ok(special(rustix::fs::UTIME_NOW)),
        SetTime::To(time) if time.nanoseconds >= 1_000_000_000 => Err(Status::Inval),
        SetTime::To(time) => Ok(Timespec {
            tv_sec: time.seconds,
            tv_nsec: time.nanoseconds.into(),
        }),
    }
}
