//! Bounds of connections, in one place.

/// Bytes that the peers of a process can make it hold, unless it is told otherwise: requests that are not complete or
/// under execution, replies that their peers have not taken, receives. At most an eighth of the machine's memory.
pub const BUDGET_BYTES: usize = 96 << 20;
/// Bytes of the smallest budget: the largest request must fit what a lone connection may hold, a quarter of it.
pub const BUDGET_BYTES_MIN: usize = 16 << 20;
/// Bytes that an open connection counts for at least. They cover its state, and small requests and replies: so these
/// go on however little is left, and cost no shared counter.
pub const CONNECTION_BYTES: usize = 8 << 10;
/// Beyond [`CONNECTION_BYTES`], a connection takes bytes from the budget in steps of so many.
pub const BUDGET_STEP: usize = 16 << 10;

const _: () = assert!(BUDGET_BYTES_MIN <= BUDGET_BYTES);
