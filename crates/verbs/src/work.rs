//! The numbers of work requests, by which completions are found again; and the reasons of failed work.

use crate::sys::status;
use gannet_fabric::{AccessError, Disconnected, WorkError};

/// Bits of a number that count the work of one connection.
const SEQUENCE_BITS: u32 = 24;
/// Bits of a number that name the connection.
const SERIAL_BITS: u32 = 38;

/// The work that a completion belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WorkName {
    /// Work of a connection's send queue.
    Sent { connection: u64, sequence: u32 },
    /// A receive of a connection's own.
    Own { connection: u64 },
    /// A receive of a shared queue.
    Shared { queue: u32, index: u32 },
}

impl WorkName {
    /// The name that a completion bears.
    pub(crate) fn of(id: u64) -> WorkName {
        let connection = (id >> SEQUENCE_BITS) & ((1 << SERIAL_BITS) - 1);
        match id >> (SEQUENCE_BITS + SERIAL_BITS) {
            0 => WorkName::Sent {
                connection,
                sequence: (id & ((1 << SEQUENCE_BITS) - 1)) as u32,
            },
            1 => WorkName::Own { connection },
            _ => WorkName::Shared {
                queue: (id >> 32) as u32 & 0x3fff_ffff,
                index: id as u32,
            },
        }
    }
}

/// The number of the piece of work `sequence` in a connection's send queue.
pub(crate) fn name_of_sent(connection: u64, sequence: u64) -> u64 {
    (connection & ((1 << SERIAL_BITS) - 1)) << SEQUENCE_BITS
        | (sequence & ((1 << SEQUENCE_BITS) - 1))
}

/// The number of a receive of a connection's own.
pub(crate) fn name_of_own(connection: u64, sequence: u64) -> u64 {
    1 << (SEQUENCE_BITS + SERIAL_BITS) | name_of_sent(connection, sequence)
}

/// The number of a receive of a shared queue.
pub(crate) fn name_of_shared(queue: u32, index: u32) -> u64 {
    2 << (SEQUENCE_BITS + SERIAL_BITS) | u64::from(queue & 0x3fff_ffff) << 32 | u64::from(index)
}

/// The distance from the oldest work in the queue to the work that a completion names.
pub(crate) fn distance(oldest: u64, sequence: u32) -> usize {
    (u64::from(sequence).wrapping_sub(oldest) & ((1 << SEQUENCE_BITS) - 1)) as usize
}

/// The error of work of the send queue, by the status of its completion.
pub(crate) fn work_error(code: u32) -> WorkError {
    match code {
        status::REM_ACCESS_ERR => WorkError::Refused,
        status::LOC_PROT_ERR | status::LOC_ACCESS_ERR | status::LOC_LEN_ERR => {
            WorkError::Local(AccessError::InvalidKey)
        }
        _ => WorkError::Flushed,
    }
}

/// The reason why the connection ends, by the status of failed work of the send queue; `None` when the device names
/// none.
pub(crate) fn reason_of_sent(code: u32) -> Option<Disconnected> {
    let terminated = |why: &str| Some(Disconnected::PeerTerminated(why.to_owned()));
    match code {
        status::REM_ACCESS_ERR => terminated("it refused an access to its memory"),
        status::REM_INV_REQ_ERR => terminated("it refused a message or a request"),
        status::REM_OP_ERR => terminated("it could not do what was asked"),
        status::RETRY_EXC_ERR | status::RNR_RETRY_EXC_ERR => Some(Disconnected::TimedOut),
        status::LOC_PROT_ERR
        | status::LOC_ACCESS_ERR
        | status::LOC_LEN_ERR
        | status::MW_BIND_ERR => Some(Disconnected::Local),
        // LOC_QP_OP_ERR, too: siw reports it of a message that the peer's end cut off.
        _ => None,
    }
}

/// As [`reason_of_sent`], of a receive.
pub(crate) fn reason_of_received(code: u32) -> Option<Disconnected> {
    let misbehaved = |why: &str| Some(Disconnected::PeerMisbehaved(why.to_owned()));
    match code {
        status::LOC_LEN_ERR | status::REM_INV_REQ_ERR | status::LOC_QP_OP_ERR => {
            misbehaved("a message that its receive does not hold, or that revokes a wrong key")
        }
        status::LOC_PROT_ERR | status::LOC_ACCESS_ERR => Some(Disconnected::Local),
        status::REM_ACCESS_ERR => misbehaved("a refused access"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_completion_names_its_work() {
        let connection = (1 << 38) - 1;
        assert_eq!(
            WorkName::of(name_of_sent(connection, 0x0100_0005)),
            WorkName::Sent {
                connection,
                sequence: 5
            }
        );
        assert_eq!(
            WorkName::of(name_of_own(7, u64::MAX)),
            WorkName::Own { connection: 7 }
        );
        let shared = WorkName::Shared {
            queue: 0x3fff_ffff,
            index: u32::MAX,
        };
        assert_eq!(WorkName::of(name_of_shared(u32::MAX, u32::MAX)), shared);
    }

    #[test]
    fn numbers_of_work_wrap() {
        assert_eq!(distance(0xff_ffff, 0), 1);
        assert_eq!(distance(0x1_0000_0003, 3), 0);
        assert_eq!(distance(5, 4), 0xff_ffff, "a completion of older work");
    }

    #[test]
    fn work_of_a_named_cause_has_it_and_other_work_is_flushed() {
        assert_eq!(work_error(status::REM_ACCESS_ERR), WorkError::Refused);
        assert_eq!(work_error(status::WR_FLUSH_ERR), WorkError::Flushed);
        assert_eq!(reason_of_sent(status::WR_FLUSH_ERR), None);
        assert_eq!(reason_of_sent(status::LOC_QP_OP_ERR), None);
        assert_eq!(
            reason_of_sent(status::RETRY_EXC_ERR),
            Some(Disconnected::TimedOut)
        );
    }
}
