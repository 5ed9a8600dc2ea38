//! Locks of byte ranges of files, and places for appended bytes: what the manager is asked for them.

use super::Caller;
use crate::xdr::{Decode, Decoder, Encode, Encoder, XdrError, record};

/// What a lock keeps others from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum LockKind {
    /// Exclusive locks of the same bytes.
    Shared = 1,
    /// All locks of the same bytes.
    Exclusive = 2,
}

impl LockKind {
    fn from_number(number: u32) -> Result<LockKind, XdrError> {
        match number {
            1 => Ok(LockKind::Shared),
            2 => Ok(LockKind::Exclusive),
            _ => Err(XdrError::Value),
        }
    }
}

impl Encode for LockKind {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.u32(*self as u32);
    }
}

impl Decode<'_> for LockKind {
    fn decode(decoder: &mut Decoder<'_>) -> Result<LockKind, XdrError> {
        LockKind::from_number(decoder.u32()?)
    }
}

/// What is asked for a byte range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum LockAction {
    /// Lets go of it.
    Unlock = 0,
    /// Locks it if no other lock is in the way.
    Try = 1,
    /// The same, and waits for a short while for locks that are in the way.
    Wait = 2,
    /// Locks it again after a restart of the manager.
    Reclaim = 3,
    /// Locks nothing, and tells of a lock that would be in the way.
    Test = 4,
}

impl Encode for LockAction {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.u32(*self as u32);
    }
}

impl Decode<'_> for LockAction {
    fn decode(decoder: &mut Decoder<'_>) -> Result<LockAction, XdrError> {
        Ok(match decoder.u32()? {
            0 => LockAction::Unlock,
            1 => LockAction::Try,
            2 => LockAction::Wait,
            3 => LockAction::Reclaim,
            4 => LockAction::Test,
            _ => return Err(XdrError::Value),
        })
    }
}

record! {
    /// A byte range of a file, whose lock it is, and of which kind.
    LockRecord {
        /// The owner, as the client calls it: other owners of the same client are in each other's way, too.
        owner: u64,
        /// Which locks it keeps out. Unlocking does not look at it.
        kind: LockKind,
        /// The first byte.
        start: u64,
        /// The last byte; the largest number stands for the end of the file, however long that becomes.
        end: u64,
        /// The process, for others to be told.
        process: u32,
    }
}

record! {
    /// The body of Lock.
    LockRequest {
        /// On whose behalf.
        caller: Caller,
        /// The file.
        file: u64,
        /// What is to be done.
        action: LockAction,
        /// With which bytes.
        lock: LockRecord,
    }
}

/// What came of a [`LockRequest`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockOutcome {
    /// It was done; a test found nothing in the way.
    Done,
    /// This lock is in the way.
    Denied(LockRecord),
    /// There are too many locks already, of this client, of this file or in all.
    TooMany,
    /// The manager has restarted, and waits for clients that had locks before to lock their bytes again.
    Recovering,
    /// Reclaim: the manager does not know that this client had locks, or it comes too late.
    Lost,
}

impl Encode for LockOutcome {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        match self {
            LockOutcome::Done => encoder.u32(0),
            LockOutcome::Denied(lock) => {
                encoder.u32(1);
                lock.encode(encoder);
            }
            LockOutcome::TooMany => encoder.u32(2),
            LockOutcome::Recovering => encoder.u32(3),
            LockOutcome::Lost => encoder.u32(4),
        }
    }
}

impl Decode<'_> for LockOutcome {
    fn decode(decoder: &mut Decoder<'_>) -> Result<LockOutcome, XdrError> {
        Ok(match decoder.u32()? {
            0 => LockOutcome::Done,
            1 => LockOutcome::Denied(LockRecord::decode(decoder)?),
            2 => LockOutcome::TooMany,
            3 => LockOutcome::Recovering,
            4 => LockOutcome::Lost,
            _ => return Err(XdrError::Value),
        })
    }
}

record! {
    /// The answer to Lock.
    LockReply {
        /// A number that the manager draws when it starts: locks that were given under another one are to be
        /// reclaimed.
        incarnation: u64,
        /// What came of it.
        outcome: LockOutcome,
    }
}

record! {
    /// The body of RenewLocks: the client still runs, and so does the lease of its locks.
    RenewLocksRequest {
        /// Everything that was to be reclaimed from this incarnation of the manager has been; 0 says nothing.
        reclaimed: u64,
    }
}

record! {
    /// The answer to RenewLocks.
    RenewLocksReply {
        /// As in [`LockReply`].
        incarnation: u64,
        /// The manager has locks of this client.
        is_known: bool,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xdr::from_bytes;
    use alloc::vec;
    use alloc::vec::Vec;

    const LOCK: LockRecord = LockRecord {
        owner: 0x0102_0304_0506_0708,
        kind: LockKind::Exclusive,
        start: 0x1112_1314_1516_1718,
        end: u64::MAX,
        process: 0x2122_2324,
    };

    fn bytes_of(value: &impl Encode) -> Vec<u8> {
        let mut out = vec![];
        value.encode(&mut Encoder::new(&mut out));
        out
    }

    #[test]
    fn a_lock_lies_as_the_format_says() {
        let expected = [
            1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 2, // owner, kind
            0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, // the first byte
            255, 255, 255, 255, 255, 255, 255, 255, // the last one
            0x21, 0x22, 0x23, 0x24, // process
        ];
        assert_eq!(bytes_of(&LOCK), expected);
        assert_eq!(from_bytes(&expected), Ok(LOCK));
        for len in 0..expected.len() {
            let short = from_bytes::<LockRecord>(&expected[..len]);
            assert_eq!(short, Err(XdrError::Short));
        }
    }

    #[test]
    fn requests_and_answers_come_back_as_they_went_in() {
        let actions = [
            LockAction::Unlock,
            LockAction::Try,
            LockAction::Wait,
            LockAction::Reclaim,
            LockAction::Test,
        ];
        for action in actions {
            let request = LockRequest {
                caller: Caller::new(1, 2, &[3, 4]),
                file: 5,
                action,
                lock: LOCK,
            };
            assert_eq!(from_bytes(&bytes_of(&request)), Ok(request));
        }
        let outcomes = [
            LockOutcome::Done,
            LockOutcome::Denied(LOCK),
            LockOutcome::TooMany,
            LockOutcome::Recovering,
            LockOutcome::Lost,
        ];
        for outcome in outcomes {
            let reply = LockReply {
                incarnation: 7,
                outcome,
            };
            assert_eq!(from_bytes(&bytes_of(&reply)), Ok(reply));
        }
        let renew = RenewLocksRequest { reclaimed: 9 };
        assert_eq!(from_bytes(&bytes_of(&renew)), Ok(renew));
        let renewed = RenewLocksReply {
            incarnation: 7,
            is_known: true,
        };
        assert_eq!(from_bytes(&bytes_of(&renewed)), Ok(renewed));
    }

    #[test]
    fn undefined_numbers_are_refused() {
        for number in [0, 3, u32::MAX] {
            let kind = from_bytes::<LockKind>(&number.to_be_bytes());
            assert_eq!(kind, Err(XdrError::Value));
        }
        let action = from_bytes::<LockAction>(&5u32.to_be_bytes());
        assert_eq!(action, Err(XdrError::Value));
        let outcome = from_bytes::<LockOutcome>(&5u32.to_be_bytes());
        assert_eq!(outcome, Err(XdrError::Value));
    }
}
