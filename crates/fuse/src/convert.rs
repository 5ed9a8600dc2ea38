//! Conversions between attributes of FUSE and of `gannet_vfs`.

use fuser::{FileAttr, FileType, INodeNo, TimeOrNow};
use gannet_vfs::{Attributes, FileKind, NodeKind, SetTime, Time};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Bytes that `st_blksize` recommends for one read or write.
const BLOCK_BYTES: u32 = 128 << 10;

/// The kernel's view of an object that has `number`.
pub(crate) fn file_attr(number: u64, attributes: &Attributes) -> FileAttr {
    let (major, minor) = attributes.device;
    FileAttr {
        ino: INodeNo(number),
        size: attributes.size,
        blocks: attributes.used.div_ceil(512),
        atime: system_time(attributes.access_time),
        mtime: system_time(attributes.modify_time),
        ctime: system_time(attributes.change_time),
        crtime: UNIX_EPOCH,
        kind: file_type(attributes.kind),
        perm: (attributes.mode & 0o7777) as u16,
        nlink: attributes.link_count,
        uid: attributes.uid,
        gid: attributes.gid,
        rdev: DeviceNumbers { major, minor }.encode(),
        blksize: BLOCK_BYTES,
        flags: 0,
    }
}

/// Attributes for a regular file whose attributes are not available, in replies whose attributes the kernel does not
/// use.
pub(crate) fn unknown_attr(number: u64) -> FileAttr {
    FileAttr {
        ino: INodeNo(number),
        size: 0,
        blocks: 0,
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind: FileType::RegularFile,
        perm: 0,
        nlink: 0,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: BLOCK_BYTES,
        flags: 0,
    }
}

pub(crate) fn file_type(kind: FileKind) -> FileType {
    match kind {
        FileKind::Regular => FileType::RegularFile,
        FileKind::Directory => FileType::Directory,
        FileKind::BlockDevice => FileType::BlockDevice,
        FileKind::CharacterDevice => FileType::CharDevice,
        FileKind::Symlink => FileType::Symlink,
        FileKind::Socket => FileType::Socket,
        FileKind::Fifo => FileType::NamedPipe,
    }
}

fn system_time(time: Time) -> SystemTime {
    let whole = Duration::from_secs(time.seconds.unsigned_abs());
    let second = match time.seconds {
        0.. => UNIX_EPOCH.checked_add(whole),
        _ => UNIX_EPOCH.checked_sub(whole),
    };
    let nanoseconds = Duration::from_nanos(time.nanoseconds.into());
    let exact = second.and_then(|second| second.checked_add(nanoseconds));
    // The kernel's times include every time that a store can have.
    exact.unwrap_or(UNIX_EPOCH)
}

/// A time of the kernel, as fuser 0.18 reports it: before 1970 it subtracts the nanoseconds from the second.
pub(crate) fn time(time: SystemTime) -> Time {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => Time::since_epoch(since),
        Err(before) => {
            let Time {
                seconds,
                nanoseconds,
            } = Time::since_epoch(before.duration());
            Time {
                seconds: -seconds,
                nanoseconds,
            }
        }
    }
}

/// The change of a time; `None` keeps it.
pub(crate) fn set_time(change: Option<TimeOrNow>) -> SetTime {
    match change {
        None => SetTime::Keep,
        Some(TimeOrNow::Now) => SetTime::Now,
        Some(TimeOrNow::SpecificTime(to)) => SetTime::To(time(to)),
    }
}

/// The kind of object that mknod(2) makes, by the type bits of its mode.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Made {
    Regular,
    Node(NodeKind),
}

/// The kind for a mode and a device number; `None` for types that mknod(2) does not make.
pub(crate) fn made(mode: u32, device: u32) -> Option<Made> {
    let DeviceNumbers { major, minor } = DeviceNumbers::decode(device);
    Some(match mode & 0o170_000 {
        0 | 0o100_000 => Made::Regular,
        0o010_000 => Made::Node(NodeKind::Fifo),
        0o020_000 => Made::Node(NodeKind::CharacterDevice { major, minor }),
        0o060_000 => Made::Node(NodeKind::BlockDevice { major, minor }),
        0o140_000 => Made::Node(NodeKind::Socket),
        _ => return None,
    })
}

/// The numbers of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct DeviceNumbers {
    major: u32,
    minor: u32,
}

impl DeviceNumbers {
    /// Linux's encoding in 32 bits: 12 bits of major around 20 of minor.
    fn encode(self) -> u32 {
        let DeviceNumbers { major, minor } = self;
        (minor & 0xff) | ((major & 0xfff) << 8) | ((minor & 0xf_ff00) << 12)
    }

    /// The numbers of an encoded device.
    fn decode(device: u32) -> DeviceNumbers {
        DeviceNumbers {
            major: (device >> 8) & 0xfff,
            minor: (device & 0xff) | ((device >> 12) & 0xf_ff00),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_numbers_survive_their_encoding() {
        for (major, minor) in [(0, 0), (8, 1), (259, 65_535), (0xfff, 0xf_ffff)] {
            let numbers = DeviceNumbers { major, minor };
            assert_eq!(DeviceNumbers::decode(numbers.encode()), numbers);
        }
        assert_eq!(DeviceNumbers { major: 8, minor: 1 }.encode(), 0x801);
    }

    #[test]
    fn times_of_all_centuries_are_taken_as_the_kernel_means_them() {
        for seconds in [-315_619_200, -1, 0, 2_208_988_800, i64::from(u32::MAX) + 1] {
            for nanoseconds in [0, 7, 999_999_999] {
                let exact = Time {
                    seconds,
                    nanoseconds,
                };
                // The time as fuser converts it from the kernel's seconds and nanoseconds.
                let reported = match u64::try_from(seconds) {
                    Ok(seconds) => UNIX_EPOCH + Duration::new(seconds, nanoseconds),
                    Err(_) => UNIX_EPOCH - Duration::new(seconds.unsigned_abs(), nanoseconds),
                };
                let set = set_time(Some(TimeOrNow::SpecificTime(reported)));
                assert_eq!(set, SetTime::To(exact));
            }
        }
    }

    #[test]
    fn mknod_makes_the_type_in_its_mode() {
        assert_eq!(made(0o644, 0), Some(Made::Regular));
        let device = Made::Node(NodeKind::CharacterDevice { major: 1, minor: 3 });
        assert_eq!(made(0o020_600, 0x103), Some(device));
        assert_eq!(made(0o040_755, 0), None);
    }
}
