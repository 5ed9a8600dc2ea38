//! The way of a file range into a byte stream.

use crate::FileRange;
use crate::limits::{FILE_CHUNK_LEN, SEND_FILE_MIN};
use gannet_runtime::stream::{ByteStream, is_connection_error};
use std::io;

/// The result of a sendfile(2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// The connection took this many bytes.
    Some(usize),
    /// The connection takes no more now.
    Blocked,
    /// sendfile(2) cannot send these bytes: copy them.
    Nothing,
}

/// One stream's way for file bytes.
#[derive(Debug, Default)]
pub struct StreamPath {
    /// This stream or its files cannot do sendfile(2).
    send_file_unsupported: bool,
}

impl StreamPath {
    /// True when `range` is long enough for sendfile(2) and would not wait for the disk.
    pub fn uses_send_file(&self, range: &FileRange) -> bool {
        !self.send_file_unsupported && range.len >= SEND_FILE_MIN && range.is_resident()
    }

    /// One sendfile(2) of `range`.
    ///
    /// # Errors
    /// The errors of [`is_connection_error`]: the connection is broken.
    pub fn send_file(&mut self, stream: &dyn ByteStream, range: &FileRange) -> io::Result<Sent> {
        match stream.try_send_file(&*range.file, range.offset, range.len) {
            // The file became shorter; the copy fills the range up with zeros.
            Ok(0) => Ok(Sent::Nothing),
            Ok(count) => Ok(Sent::Some(count)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Sent::Blocked),
            Err(error) if is_connection_error(error.kind()) => Err(error),
            // An error of the file: reading it succeeds, or reports the error.
            Err(_) => {
                self.send_file_unsupported = true;
                Ok(Sent::Nothing)
            }
        }
    }

    /// Copies the next bytes of `range` to the start of `scratch`, at most [`FILE_CHUNK_LEN`].
    ///
    /// # Errors
    /// As [`FileRange::copy`], for its first byte.
    pub fn copy(&self, range: &FileRange, scratch: &mut [u8]) -> io::Result<usize> {
        let most = FILE_CHUNK_LEN.min(scratch.len());
        range.copy_some(scratch.get_mut(..most).unwrap_or_default())
    }
}
