//! Statuses of requests and the durability of WRITEs, both with NFSv3's numbers.

use crate::xdr::{Decode, Decoder, Encode, Encoder, Print, XdrError, enumeration};
use core::fmt;

/// Declares the statuses with their numbers and texts.
macro_rules! statuses {
    ($($name:ident = $number:literal, $text:literal;)*) => {
        /// The reason why a request failed (RFC 1813 section 2.6). It prints as a text for people.
        #[allow(missing_docs)] // the names are the specification's
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
        #[repr(u32)]
        pub enum Status { $(#[error($text)] $name = $number,)* }

        impl Status {
            /// All statuses, in the order of their numbers.
            pub const ALL: &[Status] = &[$(Status::$name,)*];

            /// The status with this number, which is not 0. Undefined numbers stand for `Serverfault`.
            pub const fn from_number(number: u32) -> Status {
                match number {
                    $($number => Status::$name,)*
                    _ => Status::Serverfault,
                }
            }
        }
    };
}

statuses! {
    Perm = 1, "operation not permitted";
    Noent = 2, "no such file or directory";
    Io = 5, "input/output error";
    Nxio = 6, "no such device or address";
    Acces = 13, "permission denied";
    Exist = 17, "file exists";
    Xdev = 18, "crosses file systems";
    Nodev = 19, "no such device";
    Notdir = 20, "not a directory";
    Isdir = 21, "is a directory";
    Inval = 22, "invalid argument";
    Fbig = 27, "file too large";
    Nospc = 28, "no space left on device";
    Rofs = 30, "read-only file system";
    Mlink = 31, "too many links";
    Nametoolong = 63, "file name too long";
    Notempty = 66, "directory not empty";
    Dquot = 69, "disk quota exceeded";
    Stale = 70, "stale file handle";
    Remote = 71, "too many levels of remote";
    Badhandle = 10001, "bad file handle";
    NotSync = 10002, "attributes changed meanwhile";
    BadCookie = 10003, "stale directory cookie";
    Notsupp = 10004, "operation not supported";
    Toosmall = 10005, "buffer too small";
    Serverfault = 10006, "server fault";
    Badtype = 10007, "type not supported";
    Jukebox = 10008, "busy, try again later";
}

/// The number of a request's outcome on the wire: 0 for success, or the status.
pub(super) const fn outcome_number(outcome: Result<(), Status>) -> u32 {
    match outcome {
        Ok(()) => 0,
        Err(status) => status as u32,
    }
}

/// The outcome with this number on the wire.
pub(super) const fn outcome_from(number: u32) -> Result<(), Status> {
    match number {
        0 => Ok(()),
        number => Err(Status::from_number(number)),
    }
}

/// The body of a manager's `Jukebox` reply to a change that is durable and not confirmed yet. Managers of earlier
/// releases send none.
pub const DONE_UNCONFIRMED: [u8; 4] = [0, 0, 0, 1];

/// Encoded as one number: 0 for success, otherwise that of the status.
impl Encode for Result<(), Status> {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.u32(outcome_number(*self));
    }
}

impl Print for Result<(), Status> {
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ok(()) => f.write_str("ok"),
            Err(status) => write!(f, "{status:?}"),
        }
    }
}

impl Decode<'_> for Result<(), Status> {
    fn decode(decoder: &mut Decoder<'_>) -> Result<Self, XdrError> {
        decoder.u32().map(outcome_from)
    }
}

enumeration! {
    /// The durability that a WRITE asks for, as NFSv3's `stable_how`.
    Stability {
        /// A crash before the next COMMIT may lose the data.
        Unstable = 0 => "unstable",
        /// The data is durable, and so are the attributes needed to find it.
        DataSync = 1 => "data_sync",
        /// The data and all attributes are durable.
        FileSync = 2 => "file_sync",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xdr::{from_bytes, to_bytes};

    #[test]
    fn statuses_have_numbers_of_their_own() {
        for status in Status::ALL {
            let refused: Result<(), Status> = Err(*status);
            let bytes = to_bytes(&refused);
            assert_eq!(bytes, (*status as u32).to_be_bytes());
            assert_eq!(from_bytes(&bytes), Ok(refused));
        }
        let done: Result<(), Status> = Ok(());
        assert_eq!(to_bytes(&done), [0; 4]);
        assert_eq!(from_bytes(&[0; 4]), Ok(done));
        let unknown = from_bytes::<Result<(), Status>>(&[0, 0, 0, 99]);
        assert_eq!(unknown, Ok(Err(Status::Serverfault)));
        assert_eq!(from_bytes::<Stability>(&[0, 0, 0, 3]), Err(XdrError::Value));
    }
}
