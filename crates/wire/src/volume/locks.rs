//! Locks of byte ranges of files, which the manager grants (docs/formats/volume.md and
//! docs/decisions/0025-locks-and-appends.md).

use super::Caller;
use crate::xdr::{
    Decode, Decoder, Encode, Encoder, Printed, XdrError, enumeration, print_as_display, record,
};
use core::fmt;

enumeration! {
    /// The kind of a lock.
    LockKind {
        /// The lock conflicts with exclusive locks of the same bytes.
        Shared = 1 => "shared",
        /// The lock conflicts with all locks of the same bytes.
        Exclusive = 2 => "exclusive",
    }
}

enumeration! {
    /// The action of a [`LockRequest`].
    LockAction {
        /// Unlocks the range.
        Unlock = 0 => "unlock",
        /// Locks the range if no lock conflicts.
        Try = 1 => "try",
        /// Locks the range, and waits for a short while for conflicting locks.
        Wait = 2 => "wait",
        /// Locks the range again after a restart of the manager.
        Reclaim = 3 => "reclaim",
        /// Locks nothing, and reports a lock that would conflict.
        Test = 4 => "test",
        /// Keeps the file when its last name goes, for as long as the client's lease is renewed. Locks nothing.
        Keep = 5 => "keep",
        /// Ends a `Keep`.
        LetGo = 6 => "let_go",
    }
}

record! {
    /// A lock of a byte range of a file (`lock`).
    LockRecord = "lock" {
        /// The owner, as the client names it. Locks of different owners of one client conflict too.
        owner: u64,
        /// The kind. Without meaning in an unlock.
        kind: LockKind,
        /// The offset of the first byte.
        start: u64,
        /// The offset of the last byte; 2^64 - 1 stands for the end of the file, however long it becomes.
        end: u64,
        /// The process, for the reports that other clients get.
        process: u32,
    }
}

record! {
    /// The body of Lock (`lock_request`).
    LockRequest = "lock_request" {
        /// The user on whose behalf the client asks.
        caller: Caller,
        /// The number of the file.
        file: u64,
        /// The action.
        action: LockAction,
        /// The range, the kind and the owner.
        lock: LockRecord,
    }
}

/// The outcome of a [`LockRequest`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockOutcome {
    /// 0: the manager did it; a test found no conflict.
    Done,
    /// 1: this lock conflicts.
    Denied(LockRecord),
    /// 2: this client, this file or the volume has too many locks already.
    TooMany,
    /// 3: the manager has restarted, and waits for clients to reclaim their locks.
    Recovering,
    /// 4, of a reclaim: the manager has no record of locks of this client, or the time for reclaims is over.
    Lost,
}

/// The numbers of [`LockOutcome`].
mod outcome {
    pub(super) const DONE: u32 = 0;
    pub(super) const DENIED: u32 = 1;
    pub(super) const TOO_MANY: u32 = 2;
    pub(super) const RECOVERING: u32 = 3;
    pub(super) const LOST: u32 = 4;
}

impl fmt::Display for LockOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LockOutcome::Done => f.write_str("done"),
            LockOutcome::Denied(lock) => write!(f, "denied{}", Printed(lock)),
            LockOutcome::TooMany => f.write_str("too_many"),
            LockOutcome::Recovering => f.write_str("recovering"),
            LockOutcome::Lost => f.write_str("lost"),
        }
    }
}

print_as_display!(LockOutcome);

impl Encode for LockOutcome {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        match self {
            LockOutcome::Done => encoder.u32(outcome::DONE),
            LockOutcome::Denied(lock) => {
                encoder.u32(outcome::DENIED);
                lock.encode(encoder);
            }
            LockOutcome::TooMany => encoder.u32(outcome::TOO_MANY),
            LockOutcome::Recovering => encoder.u32(outcome::RECOVERING),
            LockOutcome::Lost => encoder.u32(outcome::LOST),
        }
    }
}

impl Decode<'_> for LockOutcome {
    fn decode(decoder: &mut Decoder<'_>) -> Result<LockOutcome, XdrError> {
        Ok(match decoder.u32()? {
            outcome::DONE => LockOutcome::Done,
            outcome::DENIED => LockOutcome::Denied(LockRecord::decode(decoder)?),
            outcome::TOO_MANY => LockOutcome::TooMany,
            outcome::RECOVERING => LockOutcome::Recovering,
            outcome::LOST => LockOutcome::Lost,
            _ => return Err(XdrError::Value),
        })
    }
}

record! {
    /// The reply to Lock (`lock_reply`).
    LockReply = "lock_reply" {
        /// A number that the manager draws when it starts. Clients reclaim locks that have another one.
        incarnation: u64,
        /// The outcome.
        outcome: LockOutcome,
    }
}

record! {
    /// The body of RenewLocks, which extends the lease of the client's locks.
    RenewLocksRequest = "renew_locks" {
        /// The incarnation of the manager from which the client has reclaimed all its locks; 0 for none.
        reclaimed: u64,
    }
}

record! {
    /// The reply to RenewLocks.
    RenewLocksReply = "renew_locks_reply" {
        /// The incarnation of the manager, as in [`LockReply`].
        incarnation: u64,
        /// The manager has locks of this client.
        is_known: bool as "known",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xdr::from_bytes;
    use alloc::string::ToString;
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
        assert_eq!(
            LOCK.to_string(),
            "lock owner=72623859790382856 kind=exclusive start=1230066625199609624 \
             end=18446744073709551615 process=555885348"
        );
        let denied = LockReply {
            incarnation: 7,
            outcome: LockOutcome::TooMany,
        };
        let line = "lock_reply incarnation=7 outcome=too_many";
        assert_eq!(denied.to_string(), line);
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
            LockAction::Keep,
            LockAction::LetGo,
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
        let action = from_bytes::<LockAction>(&7u32.to_be_bytes());
        assert_eq!(action, Err(XdrError::Value));
        let outcome = from_bytes::<LockOutcome>(&5u32.to_be_bytes());
        assert_eq!(outcome, Err(XdrError::Value));
    }
}
