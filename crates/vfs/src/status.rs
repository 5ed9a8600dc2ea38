//! The errors of file operations: NFSv3's own list, to which the stores map their errors.

use std::fmt;

/// Why a file operation failed (RFC 1813 section 2.6; values are NFSv3's).
#[allow(missing_docs)] // the names are the specification's
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Status {
    Perm = 1,
    Noent = 2,
    Io = 5,
    Nxio = 6,
    Acces = 13,
    Exist = 17,
    Xdev = 18,
    Nodev = 19,
    Notdir = 20,
    Isdir = 21,
    Inval = 22,
    Fbig = 27,
    Nospc = 28,
    Rofs = 30,
    Mlink = 31,
    Nametoolong = 63,
    Notempty = 66,
    Dquot = 69,
    Stale = 70,
    Remote = 71,
    Badhandle = 10001,
    NotSync = 10002,
    BadCookie = 10003,
    Notsupp = 10004,
    Toosmall = 10005,
    Serverfault = 10006,
    Badtype = 10007,
    Jukebox = 10008,
}

impl Status {
    /// The status with NFSv3's number; `None` when there is none.
    pub fn from_number(number: u32) -> Option<Status> {
        Some(match number {
            1 => Status::Perm,
            2 => Status::Noent,
            5 => Status::Io,
            6 => Status::Nxio,
            13 => Status::Acces,
            17 => Status::Exist,
            18 => Status::Xdev,
            19 => Status::Nodev,
            20 => Status::Notdir,
            21 => Status::Isdir,
            22 => Status::Inval,
            27 => Status::Fbig,
            28 => Status::Nospc,
            30 => Status::Rofs,
            31 => Status::Mlink,
            63 => Status::Nametoolong,
            66 => Status::Notempty,
            69 => Status::Dquot,
            70 => Status::Stale,
            71 => Status::Remote,
            10001 => Status::Badhandle,
            10002 => Status::NotSync,
            10003 => Status::BadCookie,
            10004 => Status::Notsupp,
            10005 => Status::Toosmall,
            10006 => Status::Serverfault,
            10007 => Status::Badtype,
            10008 => Status::Jukebox,
            _ => return None,
        })
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Status::Perm => "operation not permitted",
            Status::Noent => "no such file or directory",
            Status::Io => "input/output error",
            Status::Nxio => "no such device or address",
            Status::Acces => "permission denied",
            Status::Exist => "file exists",
            Status::Xdev => "crosses file systems",
            Status::Nodev => "no such device",
            Status::Notdir => "not a directory",
            Status::Isdir => "is a directory",
            Status::Inval => "invalid argument",
            Status::Fbig => "file too large",
            Status::Nospc => "no space left on device",
            Status::Rofs => "read-only file system",
            Status::Mlink => "too many links",
            Status::Nametoolong => "file name too long",
            Status::Notempty => "directory not empty",
            Status::Dquot => "disk quota exceeded",
            Status::Stale => "stale file handle",
            Status::Remote => "too many levels of remote",
            Status::Badhandle => "bad file handle",
            Status::NotSync => "attributes changed meanwhile",
            Status::BadCookie => "stale directory cookie",
            Status::Notsupp => "operation not supported",
            Status::Toosmall => "buffer too small",
            Status::Serverfault => "server fault",
            Status::Badtype => "type not supported",
            Status::Jukebox => "busy, try again later",
        })
    }
}

impl std::error::Error for Status {}
