//! Bounds of connections, in one place.

use std::time::Duration;

/// Bytes that the peers of a process can make it hold by default: requests that are incomplete or under execution,
/// replies that their peers have not taken, receives. At most an eighth of the machine's memory.
pub const BUDGET_BYTES: usize = 96 << 20;
/// Bytes of the smallest budget: the largest request must fit what a lone connection may hold, a quarter of it.
pub const BUDGET_BYTES_MIN: usize = 16 << 20;
/// Bytes that every connection may hold, for its state and for small requests and replies. These go on when the budget
/// is used up. [`CONNECTIONS_PART`] keeps the sum of these bytes below the budget.
pub const CONNECTION_BYTES: usize = 8 << 10;
/// Bytes that an idle stream connection costs. An idle RDMA connection costs up to [`CONNECTION_BYTES`].
pub const STREAM_BYTES: usize = 3 << 10;
/// All connections together may hold one part in this many of the budget by their [`CONNECTION_BYTES`]. The rest is for
/// large requests and replies.
pub const CONNECTIONS_PART: usize = 2;
/// Beyond [`CONNECTION_BYTES`], a connection takes bytes from the budget in steps of this many.
pub const BUDGET_STEP: usize = 16 << 10;

/// Connections that a core holds at a time, if the budget has room for so many.
pub const CONNECTIONS_MAX: usize = 4096;
/// The same from one origin: no client can take the place of all others.
pub const CONNECTIONS_PER_ORIGIN_MAX: usize = CONNECTIONS_MAX / 2;
/// Unauthenticated connections of a core.
pub const UNAUTHENTICATED_MAX: usize = CONNECTIONS_MAX / 4;

/// How long reading pauses at first when the budget has no room; each further pause is twice as long.
pub const MEMORY_RETRY_MIN: Duration = Duration::from_millis(1);
/// The longest such pause.
pub const MEMORY_RETRY_MAX: Duration = Duration::from_millis(64);
/// How long a peer may make the process hold more than [`CONNECTION_BYTES`] without progress while others wait for
/// memory.
pub const SCARCE_DEADLINE: Duration = Duration::from_secs(5);
/// How often a connection that holds much checks whether others wait.
pub const SCARCE_LOOK: Duration = Duration::from_secs(1);

/// How long a peer may take from connecting to its first valid call.
pub const FIRST_CALL_DEADLINE: Duration = Duration::from_secs(15);
/// How long a peer may pause in the middle of a record.
pub const RECORD_PAUSE_DEADLINE: Duration = Duration::from_secs(15);
/// How long a record may take in all.
pub const RECORD_DEADLINE: Duration = Duration::from_secs(120);
/// How long a peer may take no byte of the data that waits for it.
pub const WRITE_DEADLINE: Duration = Duration::from_secs(30);
/// How long a peer may take to read an exposed reply and release it; then the connection ends, and the reply with it.
pub const DONE_DEADLINE: Duration = Duration::from_secs(30);
/// How long an established connection may be idle. Longer than the five minutes after which Linux clients close.
pub const IDLE_DEADLINE: Duration = Duration::from_secs(900);
/// A connection that moved no byte for this long frees the memory that only a busy one needs.
pub const REST_AFTER: Duration = Duration::from_secs(5);
/// When this many connections have ended or come to rest, the allocator is asked to give memory back; after fewer, it
/// is asked when the core idles.
pub const RELEASE_AFTER: u32 = 64;

/// Time between two log lines of a kind that peers can cause at will, per core.
pub const LOG_INTERVAL: Duration = Duration::from_secs(10);

const _: () = assert!(BUDGET_BYTES_MIN <= BUDGET_BYTES);
const _: () = assert!(STREAM_BYTES <= CONNECTION_BYTES);
