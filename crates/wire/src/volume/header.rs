//! The header of every message (docs/formats/volume.md, "Messages").

use super::status::{outcome_from, outcome_number};
use super::{BODY_MAX, HEADER_LEN, INLINE_DATA_MAX, Status, VERSION};
use crate::field::{put, u16_of, u32_of, u64_of};
use crate::xdr::Printed;
use core::fmt;
use core::ops::Range;

/// The first two bytes of a message: "gv".
const MAGIC: u16 = 0x6776;

/// Fields of the header.
mod field {
    use super::Range;
    pub(super) const MAGIC: Range<usize> = 0..2;
    pub(super) const VERSION: usize = 2;
    pub(super) const KIND: usize = 3;
    pub(super) const OPERATION: Range<usize> = 4..6;
    pub(super) const CLASS: usize = 6;
    pub(super) const STATUS: Range<usize> = 8..12;
    pub(super) const CREDITS: Range<usize> = 12..16;
    pub(super) const NUMBER: Range<usize> = 16..24;
    pub(super) const TERM: Range<usize> = 24..32;
    pub(super) const BODY_LEN: Range<usize> = 32..36;
    pub(super) const DATA_LEN: Range<usize> = 36..40;
}
const _: () = assert!(field::DATA_LEN.end == HEADER_LEN);

/// The kind of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// A request for an operation.
    Request = 1,
    /// The reply to the request with the same number.
    Reply = 2,
    /// A message about the connection itself.
    Control = 3,
    /// A report that data of a request is in place, or may be fetched.
    Data = 4,
}

/// The service level of a request. Requests of a lower class may overtake those of a higher one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Class {
    /// Names and attributes.
    Metadata = 0,
    /// Transfers of up to 64 KiB.
    Small = 1,
    /// Longer transfers.
    Bulk = 2,
    /// Work for which no caller waits.
    Background = 3,
}

/// Declares the operations with their numbers.
macro_rules! operations {
    ($($(#[$about:meta])* $name:ident = $number:literal,)*) => {
        /// The operation that a message asks for, answers or reports.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u16)]
        pub enum Operation { $($(#[$about])* $name = $number,)* }

        impl Operation {
            /// All operations, in the order of their numbers.
            pub const ALL: &[Operation] = &[$(Operation::$name,)*];

            /// The operation with this number; `None` for an undefined one.
            pub const fn from_number(number: u16) -> Option<Operation> {
                match number {
                    $($number => Some(Operation::$name),)*
                    _ => None,
                }
            }
        }
    };
}

operations! {
    /// Control: the proof and the session of the connecting side; its first message.
    Hello = 0x0001,
    /// Control: the buffers that one side keeps for the other's short transfers.
    Buffers = 0x0002,
    /// Manager: attributes of a file.
    Getattr = 0x0101,
    /// Manager: sets attributes; a size truncates at the I/O servers.
    Setattr = 0x0102,
    /// Manager: finds a name.
    Lookup = 0x0103,
    /// Manager: the rights of the caller.
    Access = 0x0104,
    /// Manager: the text of a symbolic link.
    Readlink = 0x0105,
    /// Manager: makes a file.
    Create = 0x0108,
    /// Manager: makes a directory.
    Mkdir = 0x0109,
    /// Manager: makes a symbolic link.
    Symlink = 0x010a,
    /// Manager: makes a device, socket or FIFO.
    Mknod = 0x010b,
    /// Manager: removes a name.
    Remove = 0x010c,
    /// Manager: removes an empty directory.
    Rmdir = 0x010d,
    /// Manager: moves a name.
    Rename = 0x010e,
    /// Manager: gives a file another name.
    Link = 0x010f,
    /// Manager: lists names with attributes.
    Readdirplus = 0x0111,
    /// Manager: the layout of a file, and a capability for it.
    Layout = 0x0201,
    /// Manager: the description of the volume, and the addresses of its I/O servers.
    Volume = 0x0202,
    /// Manager, from an I/O server: the address of that one.
    Register = 0x0203,
    /// Manager: the bearer of a capability will not write with it any more.
    GiveBack = 0x0204,
    /// Manager: sets the stripes of new files of a directory.
    Stripes = 0x0205,
    /// Manager: regular files and their layouts.
    Files = 0x0206,
    /// Manager: whether objects belong to files; removes those that do not if it is asked to.
    Orphans = 0x0207,
    /// Manager: makes a file with stripes of its own.
    CreateStriped = 0x0208,
    /// Manager, from an I/O server: that one finds its folder empty, and asks whether it should be.
    Claim = 0x0209,
    /// Manager: locks bytes of a file, unlocks them, or tests for a lock.
    Lock = 0x0210,
    /// Manager: the client still runs, and keeps its locks.
    RenewLocks = 0x0211,
    /// Manager: the offset for bytes appended to a file, and a capability to write them.
    Append = 0x0212,
    /// Manager, from an I/O server: another record of one of its groups.
    GroupWish = 0x0213,
    /// Manager: sets how many I/O servers keep each byte.
    Copies = 0x0214,
    /// Manager: groups whose only member with all data is gone; makes the other member count if it is asked to.
    StaleGroups = 0x0215,
    /// Manager, from one that stands by: pairs of the metadata.
    Metadata = 0x0216,
    /// Manager: the managers of the volume; another one becomes active if that is asked for.
    Managers = 0x0217,
    /// Manager, from an I/O server: its number is to be its own a while longer, or no more.
    NumberLease = 0x0218,
    /// I/O server: bytes of an object.
    Read = 0x0301,
    /// I/O server: bytes into an object.
    Write = 0x0302,
    /// I/O server: makes written data durable.
    Commit = 0x0303,
    /// I/O server, from the manager: cuts or extends an object.
    Truncate = 0x0305,
    /// I/O server, from the manager: removes an object.
    Unlink = 0x0306,
    /// I/O server: its space.
    Usage = 0x0307,
    /// I/O server, from the manager: the lengths of objects.
    States = 0x0308,
    /// I/O server: a page of its objects.
    Objects = 0x0309,
    /// I/O server, from the manager: capabilities of a file are not good any more that expire at a time or earlier.
    Revoke = 0x030a,
    /// I/O server: memory of its own, for a client to write to by RDMA.
    OpenBuffer = 0x0310,
    /// I/O server: the number of a client-driven buffer that the client is done with.
    CloseBuffer = 0x0311,
    /// I/O server, from the manager: asks for the term that it knows, proposes one, or holds one.
    Term = 0x0312,
    /// I/O server: references to objects, and the bytes of them that are in memory.
    References = 0x0313,
    /// I/O server: references to the states of objects, which need no capability.
    StateReferences = 0x0314,
    /// I/O server, from the manager: the groups that it is a member of.
    Groups = 0x0315,
    /// I/O server, from the primary of a group: a change of an object, for the other member.
    Replicate = 0x0316,
    /// I/O server, from the primary of groups: the right to serve them a while longer.
    Renew = 0x0317,
}

/// The header of a message, [`HEADER_LEN`] bytes (docs/formats/volume.md, "Messages"):
///
/// ```text
///  0                   1                   2                   3
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |          magic "gv"           |    version    |     kind      |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |           operation           |     class     |       0       |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                            status                             |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                            credits                            |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                            number                             |
/// +                                                               +
/// |                                                               |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                             term                              |
/// +                                                               +
/// |                                                               |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                       bytes of the body                       |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                         bytes of data                         |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageHeader {
    /// The kind of the message.
    pub kind: Kind,
    /// The operation that it asks for, answers or reports.
    pub operation: Operation,
    /// The service level of the request.
    pub class: Class,
    /// The outcome of the request in a reply; `Ok` in all other messages.
    pub status: Result<(), Status>,
    /// Requests that the receiver of this message may have sent since the connection began, modulo 2^32.
    pub credits: u32,
    /// The number of the request. Its sender chooses it, and does not use it for two requests at a time.
    pub id: u64,
    /// The number of a term of the volume's manager: in a manager's messages its own, in an I/O server's replies the
    /// latest that it knows. 0 in all other messages, and before the first term.
    pub term: u64,
    /// Bytes of the body, at most [`BODY_MAX`] together with `data_len`.
    pub body_len: u32,
    /// Bytes of data behind the body, at most [`INLINE_DATA_MAX`].
    pub data_len: u32,
}

impl fmt::Display for MessageHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "volume {:?} {:?} class={:?} status={} credits={} number={} term={} body={} data={}",
            self.kind,
            self.operation,
            self.class,
            Printed(&self.status),
            self.credits,
            self.id,
            self.term,
            self.body_len,
            self.data_len
        )
    }
}

/// The reason why bytes are not a message. The connection cannot go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MessageHeaderError {
    /// There are fewer bytes than a header has.
    #[error("a message shorter than its header")]
    Short,
    /// The magic is another one.
    #[error("not a message of this protocol")]
    Magic,
    /// The version is not [`VERSION`].
    #[error("version {found} of the protocol")]
    Version {
        /// The version of the message.
        found: u8,
    },
    /// Kind, class or operation is undefined.
    #[error("undefined kind, class or operation")]
    Undefined,
    /// The lengths do not add up to the message's, or exceed [`BODY_MAX`] or [`INLINE_DATA_MAX`].
    #[error("lengths that do not fit the message")]
    Length,
}

impl MessageHeader {
    /// Splits a message into header, body and data.
    ///
    /// # Errors
    /// Each variant of [`MessageHeaderError`]. The caller ends the connection.
    pub fn split(message: &[u8]) -> Result<(MessageHeader, &[u8], &[u8]), MessageHeaderError> {
        let (bytes, rest) = message
            .split_first_chunk::<HEADER_LEN>()
            .ok_or(MessageHeaderError::Short)?;
        let header = MessageHeader::from_bytes(bytes)?;
        let (body_len, data_len) = (header.body_len as usize, header.data_len as usize);
        let len = body_len.saturating_add(data_len);
        if len > BODY_MAX || data_len > INLINE_DATA_MAX || rest.len() != len {
            return Err(MessageHeaderError::Length);
        }
        let (body, data) = rest
            .split_at_checked(body_len)
            .ok_or(MessageHeaderError::Length)?;
        Ok((header, body, data))
    }

    fn from_bytes(bytes: &[u8; HEADER_LEN]) -> Result<MessageHeader, MessageHeaderError> {
        if u16_of(bytes, field::MAGIC) != MAGIC {
            return Err(MessageHeaderError::Magic);
        }
        let version = bytes[field::VERSION];
        if version != VERSION {
            return Err(MessageHeaderError::Version { found: version });
        }
        let kind = match bytes[field::KIND] {
            1 => Kind::Request,
            2 => Kind::Reply,
            3 => Kind::Control,
            4 => Kind::Data,
            _ => return Err(MessageHeaderError::Undefined),
        };
        let class = match bytes[field::CLASS] {
            0 => Class::Metadata,
            1 => Class::Small,
            2 => Class::Bulk,
            3 => Class::Background,
            _ => return Err(MessageHeaderError::Undefined),
        };
        let operation = Operation::from_number(u16_of(bytes, field::OPERATION));
        Ok(MessageHeader {
            kind,
            operation: operation.ok_or(MessageHeaderError::Undefined)?,
            class,
            status: outcome_from(u32_of(bytes, field::STATUS)),
            credits: u32_of(bytes, field::CREDITS),
            id: u64_of(bytes, field::NUMBER),
            term: u64_of(bytes, field::TERM),
            body_len: u32_of(bytes, field::BODY_LEN),
            data_len: u32_of(bytes, field::DATA_LEN),
        })
    }

    /// The bytes of the header.
    pub fn to_bytes(&self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        put(&mut bytes, field::MAGIC, MAGIC.to_be_bytes());
        bytes[field::VERSION] = VERSION;
        bytes[field::KIND] = self.kind as u8;
        put(
            &mut bytes,
            field::OPERATION,
            (self.operation as u16).to_be_bytes(),
        );
        bytes[field::CLASS] = self.class as u8;
        put(
            &mut bytes,
            field::STATUS,
            outcome_number(self.status).to_be_bytes(),
        );
        put(&mut bytes, field::CREDITS, self.credits.to_be_bytes());
        put(&mut bytes, field::NUMBER, self.id.to_be_bytes());
        put(&mut bytes, field::TERM, self.term.to_be_bytes());
        put(&mut bytes, field::BODY_LEN, self.body_len.to_be_bytes());
        put(&mut bytes, field::DATA_LEN, self.data_len.to_be_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;
    use std::vec::Vec;

    const HEADER: MessageHeader = MessageHeader {
        kind: Kind::Request,
        operation: Operation::Read,
        class: Class::Small,
        status: Ok(()),
        credits: 0x0102_0304,
        id: 0x1112_1314_1516_1718,
        term: 0x2122_2324_2526_2728,
        body_len: 4,
        data_len: 1,
    };

    #[test]
    fn a_header_lies_as_the_format_says() {
        let bytes = HEADER.to_bytes();
        let expected = [
            0x67, 0x76, 6, 1, 0x03, 0x01, 1, 0, // magic, version, kind, operation, class, pad
            0, 0, 0, 0, 1, 2, 3, 4, // status, credits
            0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, // id
            0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28, // term
            0, 0, 0, 4, 0, 0, 0, 1, // lengths
        ];
        assert_eq!(bytes, expected);
        let mut message = bytes.to_vec();
        message.extend_from_slice(b"bodyd");
        let split = MessageHeader::split(&message);
        assert_eq!(split, Ok((HEADER, &b"body"[..], &b"d"[..])));
    }

    #[test]
    fn a_header_prints_on_a_line() {
        let reply = MessageHeader {
            kind: Kind::Reply,
            status: Err(Status::Stale),
            credits: 33,
            id: 7,
            term: 2,
            ..HEADER
        };
        assert_eq!(
            reply.to_string(),
            "volume Reply Read class=Small status=Stale credits=33 number=7 term=2 body=4 data=1"
        );
    }

    #[test]
    fn other_bytes_are_refused() {
        let with = |at: usize, value: u8| {
            let mut message = HEADER.to_bytes().to_vec();
            message.extend_from_slice(b"bodyd");
            message[at] = value;
            MessageHeader::split(&message).map(|_| ())
        };
        assert_eq!(with(0, 0), Err(MessageHeaderError::Magic));
        assert_eq!(with(2, 9), Err(MessageHeaderError::Version { found: 9 }));
        for (at, value) in [(3, 0), (3, 5), (5, 0xff), (6, 4)] {
            assert_eq!(with(at, value), Err(MessageHeaderError::Undefined));
        }
        for (at, value) in [(32, 0xff), (35, 5), (39, 0), (36, 1)] {
            assert_eq!(with(at, value), Err(MessageHeaderError::Length));
        }
        let short = HEADER.to_bytes()[..39].to_vec();
        assert_eq!(
            MessageHeader::split(&short).map(|_| ()),
            Err(MessageHeaderError::Short)
        );
    }

    #[test]
    fn operations_have_numbers_of_their_own() {
        let numbers: Vec<u16> = Operation::ALL.iter().map(|it| *it as u16).collect();
        for (operation, number) in Operation::ALL.iter().zip(&numbers) {
            assert_eq!(Operation::from_number(*number), Some(*operation));
            assert_eq!(numbers.iter().filter(|it| *it == number).count(), 1);
        }
    }
}
