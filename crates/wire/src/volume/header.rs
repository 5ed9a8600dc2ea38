//! The header of every message.

use super::status::{outcome_from, outcome_number};
use super::{BODY_MAX, HEADER_LEN, INLINE_DATA_MAX, Status, VERSION};

/// The first two bytes of a message: "gv".
const MAGIC: u16 = 0x6776;

/// What a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Asks for an operation.
    Request = 1,
    /// Answers the request with the same number.
    Reply = 2,
    /// Is about the connection itself.
    Control = 3,
    /// Tells that data of a request is in place, or is free to be fetched.
    Data = 4,
}

/// The service level of a request: what may overtake what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Class {
    /// Names and attributes.
    Metadata = 0,
    /// Transfers of up to 64 KiB.
    Small = 1,
    /// Longer transfers.
    Bulk = 2,
    /// Work that nobody waits for.
    Background = 3,
}

/// Declares the operations with their numbers.
macro_rules! operations {
    ($($(#[$about:meta])* $name:ident = $number:literal,)*) => {
        /// What is asked for, answered or told.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u16)]
        pub enum Operation { $($(#[$about])* $name = $number,)* }

        impl Operation {
            /// All of them.
            pub const ALL: &[Operation] = &[$(Operation::$name,)*];

            /// The operation with this number.
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
    /// Control: who the client is; its first message.
    Hello = 0x0001,
    /// Control: where the buffers are that one side keeps for the other's short transfers.
    Buffers = 0x0002,
    /// Manager: attributes of a file.
    Getattr = 0x0101,
    /// Manager: sets attributes; a size truncates at the I/O servers.
    Setattr = 0x0102,
    /// Manager: finds a name.
    Lookup = 0x0103,
    /// Manager: what the caller may do.
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
    /// Manager: where a file lies, and a capability for it.
    Layout = 0x0201,
    /// Manager: what the volume is and where its I/O servers are.
    Volume = 0x0202,
    /// Manager, from an I/O server: where that one is.
    Register = 0x0203,
    /// Manager: a capability that its bearer will not write with any more.
    GiveBack = 0x0204,
    /// Manager: says how new files of a directory are striped.
    Stripes = 0x0205,
    /// Manager: regular files and where they lie.
    Files = 0x0206,
    /// Manager: whether objects belong to files; removes those that do not if it is asked to.
    Orphans = 0x0207,
    /// Manager: makes a file with stripes of its own.
    CreateStriped = 0x0208,
    /// Manager, from an I/O server: that one finds its folder empty, and asks whether it should be.
    Claim = 0x0209,
    /// Manager: locks bytes of a file, lets go of them, or tells of a lock.
    Lock = 0x0210,
    /// Manager: the client still runs, and keeps its locks.
    RenewLocks = 0x0211,
    /// Manager: where bytes go that are appended to a file, and a capability to write them.
    Append = 0x0212,
    /// I/O server: bytes of an object.
    Read = 0x0301,
    /// I/O server: bytes into an object.
    Write = 0x0302,
    /// I/O server: makes what was written durable.
    Commit = 0x0303,
    /// I/O server, from the manager: cuts or extends an object.
    Truncate = 0x0305,
    /// I/O server, from the manager: removes an object.
    Unlink = 0x0306,
    /// I/O server: its space.
    Usage = 0x0307,
    /// I/O server, from the manager: how long objects are.
    States = 0x0308,
    /// I/O server: which objects it has.
    Objects = 0x0309,
    /// I/O server: memory of its own, for a client to write to by RDMA.
    OpenBuffer = 0x0310,
    /// I/O server: the number of a client-driven buffer that the client is done with.
    CloseBuffer = 0x0311,
    /// I/O server, from the manager: which term it knows, the beginning of one, or that one goes on.
    Term = 0x0312,
    /// I/O server: references to objects, and what of them is in memory.
    References = 0x0313,
}

/// The first [`HEADER_LEN`] bytes of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageHeader {
    /// What the message is.
    pub kind: Kind,
    /// What it is about.
    pub operation: Operation,
    /// Its service level.
    pub class: Class,
    /// Of a reply: what came of the request. Otherwise `Ok`.
    pub status: Result<(), Status>,
    /// Requests that the receiver of this message may have sent since the connection began, modulo 2^32.
    pub credits: u32,
    /// The request's number, chosen by its sender, who does not use it for two at a time.
    pub id: u64,
    /// A term of the volume's manager, by its number: of a manager's messages its own, of an I/O server's replies the
    /// latest that it knows. 0 of all others, and where there is none yet.
    pub term: u64,
    /// Bytes of the body.
    pub body_len: u32,
    /// Bytes of data behind the body.
    pub data_len: u32,
}

/// Why bytes are not a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MessageHeaderError {
    /// Too few bytes for a header.
    #[error("a message shorter than its header")]
    Short,
    /// Not this protocol.
    #[error("not a message of this protocol")]
    Magic,
    /// A version that was not agreed on.
    #[error("version {0} of the protocol")]
    Version(u8),
    /// An undefined kind, class or operation.
    #[error("undefined kind, class or operation")]
    Undefined,
    /// The lengths do not add up to the message's, or are too large.
    #[error("lengths that do not fit the message")]
    Length,
}

impl MessageHeader {
    /// Takes a message apart: header, body, data.
    ///
    /// # Errors
    /// See [`MessageHeaderError`]. The connection cannot go on.
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
        let [m0, m1, version, kind, o0, o1, class, _, rest @ ..] = bytes;
        if u16::from_be_bytes([*m0, *m1]) != MAGIC {
            return Err(MessageHeaderError::Magic);
        }
        if *version != VERSION {
            return Err(MessageHeaderError::Version(*version));
        }
        let kind = match kind {
            1 => Kind::Request,
            2 => Kind::Reply,
            3 => Kind::Control,
            4 => Kind::Data,
            _ => return Err(MessageHeaderError::Undefined),
        };
        let class = match class {
            0 => Class::Metadata,
            1 => Class::Small,
            2 => Class::Bulk,
            3 => Class::Background,
            _ => return Err(MessageHeaderError::Undefined),
        };
        let operation = Operation::from_number(u16::from_be_bytes([*o0, *o1]));
        let (words, _) = rest.as_chunks::<4>();
        let &[
            status,
            credits,
            id_high,
            id_low,
            term_high,
            term_low,
            body_len,
            data_len,
        ] = words
        else {
            return Err(MessageHeaderError::Short);
        };
        let word = u32::from_be_bytes;
        let long = |high, low| u64::from(word(high)) << 32 | u64::from(word(low));
        Ok(MessageHeader {
            kind,
            operation: operation.ok_or(MessageHeaderError::Undefined)?,
            class,
            status: outcome_from(word(status)),
            credits: word(credits),
            id: long(id_high, id_low),
            term: long(term_high, term_low),
            body_len: word(body_len),
            data_len: word(data_len),
        })
    }

    /// Its bytes.
    pub fn to_bytes(&self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        let parts: [&[u8]; 10] = [
            &MAGIC.to_be_bytes(),
            &[VERSION, self.kind as u8],
            &(self.operation as u16).to_be_bytes(),
            &[self.class as u8, 0],
            &outcome_number(self.status).to_be_bytes(),
            &self.credits.to_be_bytes(),
            &self.id.to_be_bytes(),
            &self.term.to_be_bytes(),
            &self.body_len.to_be_bytes(),
            &self.data_len.to_be_bytes(),
        ];
        let all = parts.into_iter().flatten();
        bytes.iter_mut().zip(all).for_each(|(to, byte)| *to = *byte);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
            0x67, 0x76, 4, 1, 0x03, 0x01, 1, 0, // magic, version, kind, operation, class, pad
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
    fn what_is_not_a_message_is_refused() {
        let with = |at: usize, value: u8| {
            let mut message = HEADER.to_bytes().to_vec();
            message.extend_from_slice(b"bodyd");
            message[at] = value;
            MessageHeader::split(&message).map(|_| ())
        };
        assert_eq!(with(0, 0), Err(MessageHeaderError::Magic));
        assert_eq!(with(2, 9), Err(MessageHeaderError::Version(9)));
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
