//! The error numbers of system calls for the statuses of a store.

use fuser::Errno;
use gannet_vfs::Status;

/// The error number for a status.
pub(crate) fn errno(status: Status) -> Errno {
    match status {
        Status::Perm => Errno::EPERM,
        Status::Noent => Errno::ENOENT,
        Status::Nxio => Errno::ENXIO,
        Status::Acces => Errno::EACCES,
        Status::Exist => Errno::EEXIST,
        Status::Xdev => Errno::EXDEV,
        Status::Nodev => Errno::ENODEV,
        Status::Notdir => Errno::ENOTDIR,
        Status::Isdir => Errno::EISDIR,
        Status::Inval | Status::Badtype => Errno::EINVAL,
        Status::Fbig => Errno::EFBIG,
        Status::Nospc => Errno::ENOSPC,
        Status::Rofs => Errno::EROFS,
        Status::Mlink => Errno::EMLINK,
        Status::Nametoolong => Errno::ENAMETOOLONG,
        Status::Notempty => Errno::ENOTEMPTY,
        Status::Dquot => Errno::EDQUOT,
        Status::Stale | Status::Badhandle => Errno::ESTALE,
        Status::Remote => Errno::EREMOTE,
        Status::Notsupp => Errno::EOPNOTSUPP,
        // The store has already waited and retried; `EAGAIN` would make the program retry at once.
        Status::Io
        | Status::Jukebox
        | Status::NotSync
        | Status::BadCookie
        | Status::Toosmall
        | Status::Serverfault => Errno::EIO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_that_are_error_numbers_keep_their_number() {
        // NFSv3 took the numbers below 63 from Unix; Linux counts differently from there on.
        let same = (1..63).filter_map(Status::from_number);
        for status in same {
            assert_eq!(errno(status).code(), status as i32, "{status}");
        }
        assert_eq!(errno(Status::Notempty), Errno::ENOTEMPTY);
        assert_eq!(errno(Status::Stale), Errno::ESTALE);
        assert_eq!(errno(Status::Jukebox), Errno::EIO);
    }
}
