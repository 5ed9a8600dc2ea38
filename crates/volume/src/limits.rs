//! Bounds of volumes, in one place.

use gannet_meta::limits::RECORD_LEN_MAX;
use std::time::Duration;

/// The stripe unit of files whose creator and directory chose none.
pub const UNIT_DEFAULT: u32 = 64 << 10;

/// Requests that one connection may have under way from its beginning; the end with fewer decides.
pub const CREDITS: u32 = 32;
/// A client refuses a server with fewer: changes that wait for I/O servers ([`SESSION_SLOTS_WAITING`]) and for locks
/// ([`LOCKS_WAITING_MAX`]) must leave a credit for the requests that they wait for.
pub const CREDITS_MIN: u32 = SESSION_SLOTS_WAITING + LOCKS_WAITING_MAX as u32 + 1;
/// Messages of a client that no credit covers, each of which comes once: Hello and Buffers.
pub const MESSAGES_SPARE: u32 = 2;
/// Receives that each accepted connection of a core has, however many others there are. Clients have all their credits
/// before the first reply, and may need them.
pub const RECEIVES_RESERVED: u32 = CREDITS + MESSAGES_SPARE;
const _: () = assert!(CREDITS_MIN <= CREDITS);
/// Connections that are about to end, and for which a core has receives beside those of the accepted ones. Memory is
/// taken only for messages that have come.
pub const RECEIVES_SPARE: u32 = 64;
/// Receives of the connecting side beyond the credits, for control messages.
pub const SPARE_RECEIVES: u32 = 4;
/// RDMA Writes for each signaled one, so that the send queue empties.
pub const SIGNAL_EVERY: u32 = 16;
/// The deadline of a reply.
pub const CALL_DEADLINE: Duration = Duration::from_secs(30);
/// The deadline of one fetch by RDMA Read: shorter than an operation is tried, so that a write that is refused for want
/// of memory finds some when the clients that hold it have died.
pub const READ_DEADLINE: Duration = Duration::from_secs(10);
/// The deadline of a fetch when others need its memory.
pub const FETCH_AGE_MAX: Duration = Duration::from_secs(1);
/// How long a peer that connects again waits for the end of its earlier requests.
pub const REPLACE_DEADLINE: Duration = CALL_DEADLINE;
/// The deadline of a peer's proof of the key.
pub const HELLO_DEADLINE: Duration = Duration::from_secs(10);
/// Bytes of the shortest and of the longest slot in which an I/O server holds bytes on their way to the disk.
pub const SLAB_LEN_MIN: usize = 64 << 10;
/// See [`SLAB_LEN_MIN`].
pub const SLAB_LEN_MAX: usize = 2 << 20;
/// Bytes of such slots of a core together.
pub const SLABS_MAX: usize = 64 << 20;
/// Bytes of such slots for changes that primaries of groups pass on.
pub const COPY_SLABS_MAX: usize = 32 << 20;
/// How long an I/O server waits for a connection to another, and for an answer of it.
pub const PEER_DEADLINE: Duration = Duration::from_secs(10);
/// How often an I/O server looks after its groups of several members.
pub const KEEP_EVERY: Duration = Duration::from_millis(50);
/// How often it asks the other members for the right to serve.
pub const RENEW_EVERY: Duration = Duration::from_millis(500);
/// How long it waits for the answer.
pub const RENEW_DEADLINE: Duration = Duration::from_millis(1400);
/// The silence after which a member of a group is dropped.
pub const MEMBER_SILENT_AFTER: Duration = Duration::from_millis(1500);
/// The same of one that accepts no connection any more.
pub const MEMBER_AWAY_AFTER: Duration = Duration::from_millis(100);
/// A pause of this length was one of the process: nobody else was silent.
pub const PAUSED_AFTER: Duration = Duration::from_millis(700);
/// How often the manager is asked for the same change of a group.
pub const WISH_EVERY: Duration = Duration::from_millis(500);
/// How long an I/O server has not answered when its owner may give it up.
pub const GONE_AFTER: Duration = Duration::from_secs(10);
/// How often a primary looks whether its groups have objects to make durable at both members.
pub const SETTLE_GROUPS_EVERY: Duration = Duration::from_secs(2);
/// How long the manager waits for the other member of a group, when one has restarted and may have lost what was not
/// durable. Afterwards that one serves alone.
pub const RESTARTED_ALONE_AFTER: Duration = Duration::from_secs(10);
/// Changes that an I/O server has under way at another: other requests are to find credits on the connection.
pub const CHANGES_TO_A_PEER: usize = CREDITS as usize / 4 * 3;
/// Bytes of a long READ that leave by one permit.
pub const READ_PIECE_LEN: u32 = 256 << 10;
/// Bytes of a long WRITE that are fetched by one permit, and then stored while others are fetched.
pub const WRITE_PIECE_LEN: u32 = 512 << 10;
/// A WRITE is not cut into pieces shorter than this to have two of them.
pub const WRITE_PIECE_LEN_MIN: u32 = 256 << 10;
/// Pieces of memory that are moved by one permit.
pub const PLAN_PIECES_MAX: usize = 4096;
/// Ranges of one WRITE that are on their way to the disk at a time.
pub const STORED_AT_A_TIME: usize = 32;
/// Bytes of long READs under way on a core: what metadata and short transfers may find before them.
pub const READS_UNDER_WAY_MAX: u64 = 2 << 20;
/// Bytes of long WRITEs under way on a core, on their way here or to the disk.
pub const WRITES_UNDER_WAY_MAX: u64 = 2 << 20;
/// Bytes of short WRITEs that are fetched at a time on a core.
pub const SMALL_UNDER_WAY_MAX: u64 = 16 << 20;
/// How long a connection's permits may last before the scheduler counts it as stalled.
pub const PERMIT_AGE_MAX: Duration = Duration::from_millis(500);
/// Objects whose open files an I/O server remembers for its exports.
pub const OPEN_OBJECTS_MAX: usize = 1 << 16;
/// Bytes of the budget for each connection that one core of a server holds: 1024 connections with the default budget. A
/// connection's messages may take three times as many ([`RECEIVES_RESERVED`]).
pub const CONNECTION_MEMORY: usize = 96 << 10;
/// Connections that one core of a server holds at most, however large the budget is.
pub const CONNECTIONS_MAX: usize = 16 << 10;
/// One in this many of the connections may be from one address, or one /64 network of IPv6.
pub const ORIGIN_PART: usize = 2;
/// A connection that was active within this time is not ended for another of its own address.
pub const BUSY_WITHIN: Duration = Duration::from_secs(10);
/// Messages in memory for all connections of a core, without what came on accepted ones: those that wait to leave, and
/// the receives of connections that it made itself.
pub const MESSAGES_MAX: usize = 64 << 10;
/// Transfers of up to so many bytes go before longer ones.
pub const SMALL_MAX: u64 = 64 << 10;
/// How long a capability is good for.
pub const CAPABILITY_AGE: Duration = Duration::from_secs(60);
/// How far clocks of a volume's machines may be apart.
pub const CLOCK_SKEW_MAX: Duration = Duration::from_secs(30);
/// The age after which no I/O server stores bytes by a capability, if its clock is within the allowed skew.
pub const GRANT_AGE: Duration = CAPABILITY_AGE
    .saturating_add(CLOCK_SKEW_MAX.saturating_mul(2))
    .saturating_add(REVOKED_AHEAD_MAX);
/// How much longer than others a capability may be good because earlier ones of its file were revoked: it must expire
/// later than those.
pub const REVOKED_AHEAD_MAX: Duration = Duration::from_secs(2);
/// Capabilities whose holders the manager remembers.
pub const HOLDERS_MAX: usize = 1 << 18;
/// When objects of a removed file are removed once more: nobody may write to it any longer, and a write that was under
/// way then has ended.
pub const UNLINK_AGAIN_AFTER: Duration = Duration::from_secs(150);
/// Removed files whose objects are still to be removed once more; the oldest are early when there are more.
pub const UNLINKED_MAX: usize = 1 << 18;
/// Files that may be written, as the manager keeps count of them.
pub const GRANTS_MAX: usize = 1 << 18;
/// Files whose sizes the manager remembers.
pub const SIZES_MAX: usize = 1 << 18;
/// How long a file's size must have been known, or its last grant be over, before the size is settled: a program that
/// opens a log for each line must not cost two transactions a line.
pub const SETTLE_AFTER: Duration = Duration::from_secs(3);
/// How often the manager looks for sizes to settle.
pub const SETTLE_EVERY: Duration = Duration::from_secs(1);
/// How often it looks for grants that have run out.
pub const GRANTS_SWEEP: Duration = Duration::from_secs(15);
/// Files whose sizes wait to be settled; others stay as they are until somebody asks for them.
pub const SETTLING_MAX: usize = 1 << 17;
/// Files that are asked for and settled together.
pub const SETTLED_AT_A_TIME: usize = 256;
/// Files that one change settles: it fits [`CHANGE_LEN_MAX`].
pub const SETTLED_BY_A_CHANGE: usize = 8;
/// When a size is asked for again that could not be settled, because an I/O server was away.
pub const SETTLE_AGAIN_AFTER: Duration = Duration::from_secs(30);
/// How long the manager believes in a size without asking again.
pub const SIZE_AGE: Duration = Duration::from_secs(60);
/// How long the manager waits for I/O servers that are asked for sizes: one that has fallen silent must not make it
/// seem silent itself, also when a change asks before and afterwards and waits for an intent in between.
pub const SIZE_DEADLINE: Duration = Duration::from_secs(8);
/// How long it waits for one that did not answer the last time, until it answers again: whoever asks has few requests
/// under way, and others to ask.
pub const SIZE_DEADLINE_OF_SILENT: Duration = Duration::from_millis(100);
/// Batches of questions for sizes that one I/O server has at a time.
pub const BATCHES_UNDER_WAY: usize = 2;
/// Changes that one client has under way at a time.
pub const SESSION_SLOTS: u32 = 32;
/// Session slots whose changes may wait for I/O servers. The other slots stay free while a server is away.
pub const SESSION_SLOTS_WAITING: u32 = SESSION_SLOTS / 2;
/// Changes of a client that are tried beyond its patience because they may be done. The slots of the others stay for
/// changes that a dead server does not keep.
pub const OVERDUE_MAX: usize = SESSION_SLOTS_WAITING as usize / 2;
/// Changes of the same bytes, file or name that may wait for their turn at once: further ones are refused.
pub const CHANGES_BEFORE_MAX: usize = 256;
/// Files whose fences a client notes one by one.
pub const FENCES_MAX: usize = 1024;
/// How long a client does not write before it gives a grant back.
pub const GIVE_BACK_AFTER: Duration = Duration::from_millis(500);
/// How long the manager keeps replies to changes.
pub const REPLY_AGE: Duration = Duration::from_secs(24 * 3600);
/// How long it keeps them at least, however many there are: clients that wait for one have asked again by then.
pub const REPLY_AGE_MIN: Duration = Duration::from_secs(600);
/// Replies that it keeps, each of another slot. Above this number, changes by new slots wait.
pub const REPLIES_MAX: usize = 1 << 18;
/// Above this number, the oldest go.
pub const REPLIES_CROWDED: usize = REPLIES_MAX / 4 * 3;
/// How long the manager knows which NFS calls it did changes for: as long as a server tries a change, which may have
/// been done at the start, and as long again for its address to move.
pub const REQUEST_AGE: Duration = Duration::from_secs(600);
/// Replies under NFS calls that it keeps: those of 512 clients that are busy within that time. Above this number, none
/// is kept in a row that had none.
pub const REQUESTS_MAX: usize = 1 << 17;
/// How often it looks for old ones, and how many it looks at together.
pub const FORGET_EVERY: Duration = Duration::from_secs(30);
/// See [`FORGET_EVERY`].
pub const FORGET_AT_A_TIME: usize = 1000;
/// Changes of metadata that wait for a transaction.
pub const CHANGES_MAX: usize = 1 << 14;
/// Changes that share a transaction, at most; fewer if they are long ([`RECORD_LEN_MAX`]).
pub const CHANGES_AT_A_TIME: usize = 512;
/// Bytes of the journal that one change takes at most: the longest symbolic link, in the inode and in the two answers
/// that are kept, beside the longest names and directories striped over the most servers.
pub const CHANGE_LEN_MAX: usize = 20 << 10;
const _: () = assert!(RECORD_LEN_MAX as u64 <= gannet_meta::limits::JOURNAL_HALF_LEN);
/// Changes of one batch that are refused one by one because of damaged values: with more of them all are.
pub const REFUSED_OF_BATCH_MAX: usize = 16;
/// How long the manager waits for what an I/O server says of its term.
pub const TERM_DEADLINE: Duration = Duration::from_secs(5);
/// The pause between two requests of a manager for a majority.
pub const TERM_PAUSE: Duration = Duration::from_millis(100);
/// How often it tells each I/O server that its term goes on, and the last change: so soon a manager that was paused
/// hears that it is replaced.
pub const TERM_HEARTBEAT: Duration = Duration::from_millis(500);
/// An I/O server that has confirmed the term within this time answers.
pub const ANSWERS_WITHIN: Duration = Duration::from_secs(1);
/// How long a manager may answer after half of the I/O servers were asked to confirm its term.
pub const TERM_LEASE: Duration = Duration::from_secs(2);
/// How long its successor waits before it answers: some more, since no two clocks run at the same rate.
pub const TERM_LEASE_OVER: Duration = Duration::from_millis(2100);
const _: () = assert!(TERM_LEASE.as_millis() >= 4 * TERM_HEARTBEAT.as_millis());
/// How often a manager that is watched asks each I/O server for its space.
pub const SPACE_EVERY: Duration = Duration::from_secs(5);
/// Time between two publications of a server's counters of reads by references.
pub(crate) const REFERENCES_EVERY: Duration = Duration::from_secs(1);
/// How long callers of a manager wait for its term to begin before they are told to try again.
pub const TERM_PATIENCE: Duration = Duration::from_secs(5);
/// How long a manager that need not wait for a majority waits for one.
pub const FORCE_PATIENCE: Duration = Duration::from_secs(3);
/// How long a client that asks for the state of the servers waits for an answer about names.
pub const NAMES_PATIENCE: Duration = Duration::from_secs(5);
/// How long a client does not ask for the groups of a volume again, though a server does not know one.
pub const GROUPS_AGE_MIN: Duration = Duration::from_secs(1);
/// The same in a volume with copies, where a group may get another primary.
pub const GROUPS_AGE_MIN_OF_COPIES: Duration = Duration::from_millis(50);
/// How long a client waits for the primary of a group of several before it asks the manager whether another one is.
pub const PRIMARY_SILENT_AFTER: Duration = Duration::from_secs(1);
/// When an I/O server that cannot note its groups is told them again.
pub const NOTE_GROUPS_RETRY: Duration = Duration::from_secs(10);
/// How long an answer waits for the I/O servers to confirm the term.
pub const CONFIRM_DEADLINE: Duration = Duration::from_secs(10);
/// How long a manager that others stand by for may be without half of the I/O servers. Then another one may reach them.
pub const YIELD_AFTER: Duration = Duration::from_secs(10);
/// How long a call to one of several managers may be without an answer before the others are tried.
pub const MANAGER_SILENT_AFTER: Duration = Duration::from_millis(1500);
/// Transactions in a row for which waiting would have paid before one waits for changes that are about to come.
pub const GROUP_COMMIT_SEEN_MIN: u32 = 16;
/// How long it waits at most; timers may be late by as much.
pub const GROUP_COMMIT_WAIT_MAX: Duration = Duration::from_millis(1);
/// How long a caller waits for the intent of its change.
pub const INTENT_DEADLINE: Duration = Duration::from_secs(10);
/// The pause before the manager tries an intent again.
pub const INTENT_RETRY: Duration = Duration::from_secs(1);
/// How often that is doubled for one that an I/O server refuses again and again.
pub const REFUSED_MAX: u32 = 6;
/// Intents of one work queue that run at a time.
pub const INTENTS_AT_A_TIME: usize = 64;
/// Requests for such work that one I/O server has at a time: others are to find credits on the manager's connection.
pub const INTENTS_AT_A_SERVER: usize = CREDITS as usize / 2;
/// How long a server that could not be reached is left alone.
pub const CONNECT_AGAIN_AFTER: Duration = Duration::from_millis(500);
/// How long an operation on a volume is tried, over lost connections and servers that are away.
pub const OPERATION_DEADLINE: Duration = Duration::from_secs(20);
/// The same while the server that it needs counts as dead.
pub const AWAY_PATIENCE: Duration = Duration::from_millis(1500);
/// The least time between two log lines about a server that usages leave out.
pub const LOG_INTERVAL: Duration = Duration::from_secs(60);
/// How long a write to a full disk is tried again: objects of removed files go soon after the reply.
pub const FULL_PATIENCE: Duration = Duration::from_secs(1);
/// The pause between two attempts of an operation.
pub const ATTEMPT_PAUSE: Duration = Duration::from_millis(100);
/// Files with unstable bytes whose servers a client notes; beyond that each COMMIT asks all servers of its file.
pub const UNSTABLE_FILES_MAX: usize = 1 << 16;
/// Capabilities that a client remembers.
pub const CAPABILITIES_MAX: usize = 1 << 14;
/// Bytes of one eager buffer (the threshold of Wu, Wyckoff and Panda).
pub const EAGER_LEN: u32 = 64 << 10;
/// Bytes of one eager buffer behind that, for the message that comes with the data, where a Write brings both.
pub const EAGER_MESSAGE_LEN: u32 = 512;
/// Eager buffers of each end of a connection.
pub const EAGER_BUFFERS: u32 = 8;
/// Eager buffers of all connections of a core: connections that come when there is no room left have none.
pub const EAGER_BUFFERS_HELD_MAX: usize = 256 * EAGER_BUFFERS as usize;
/// Bytes of the client-driven buffers of one connection.
pub const CLIENT_BUFFER_BYTES_MAX: usize = 2 << 20;
/// Connections of a core that have such buffers at a time; others get none.
pub const CLIENT_BUFFER_LINKS_MAX: usize = 32;
/// Open buffers that a client remembers of one connection.
pub const CLIENT_BUFFERS_NOTED_MAX: usize = 16;
/// How long a buffer is open. After that its key is revoked, and a client that still uses it is cut off.
pub const CLIENT_BUFFER_AGE: Duration = Duration::from_secs(5);
/// How long after the report of a buffer a client still begins to use it: early enough to end before
/// [`CLIENT_BUFFER_AGE`].
pub const CLIENT_BUFFER_USE_AGE: Duration = Duration::from_secs(1);
/// Pieces of registered memory up to which a short WRITE is written from there and not copied together first.
pub const DIRECT_PIECES_MAX: usize = 8;
/// Bytes of the shortest memory that a client keeps registered.
pub const CLIENT_MEMORY_LEN_MIN: usize = 4 << 10;
/// Bytes of the longest: a process that shows a whole array (2048 by 1536 elements of 64 bytes are 192 MiB) registers
/// it once.
pub const CLIENT_MEMORY_LEN_MAX: usize = 256 << 20;
/// Bytes of all such memory of a core; who asks for more gets memory that is registered for each transfer.
pub const CLIENT_MEMORY_MAX: usize = 512 << 20;
/// Bytes of memory of a core that READs come to in place of long allocations; those that find none register the
/// allocation.
pub const STAND_IN_MEMORY_MAX: usize = 64 << 20;
/// RDMA operations that wait on one connection for room in its send queue.
pub const OUTGOING_MAX: usize = 1024;
/// Peers of one core that are connected and have not yet proven who they are, with the default budget: the oldest of
/// the address that has most of them makes room for the next. With others, the same part of the connections.
pub const UNAUTHENTICATED_MAX: usize = 192;
/// The interval at which an I/O server reports its address: a restarted manager knows it within this time.
pub const REGISTER_PAUSE: Duration = Duration::from_millis(500);
/// The pause before an I/O server that has lost its manager looks for one again: another one may take over in less than
/// a second.
pub const FIND_MANAGER_PAUSE: Duration = Duration::from_millis(100);
/// After so many attempts, the pause is [`REGISTER_PAUSE`].
pub const FIND_MANAGER_ATTEMPTS: u32 = 100;
/// How long an I/O server has its number after it was leased: it stops when it has not heard of the manager for so
/// long. Longer than managers take to restart, and no longer than most capabilities last that the manager has given.
pub const NUMBER_LEASE: Duration = Duration::from_secs(30);
/// How much longer the manager waits before it leases the number to another process: clocks run at their own speeds.
pub const NUMBER_LEASE_OVER: Duration = Duration::from_secs(31);
const _: () = assert!(NUMBER_LEASE.as_millis() < NUMBER_LEASE_OVER.as_millis());
/// The deadline of a request for a lease. The manager may wait for its disk.
pub const NUMBER_DEADLINE: Duration = Duration::from_secs(12);
/// How long an I/O server that has its number again lets the others have theirs before it judges their silence.
pub const NUMBERS_RETURN: Duration = Duration::from_secs(2);
/// How often an I/O server looks whether its lease is over: its timers stand still while its machine is suspended.
pub const NUMBER_LEASE_LOOK: Duration = Duration::from_millis(250);
/// A lease of another process that ends later than it did by this much was renewed meanwhile.
pub const NUMBER_RENEWED_BY: Duration = Duration::from_secs(1);
/// How long a peer of an I/O server that begins waits for the lease of that one's number.
pub const NUMBER_PATIENCE: Duration = Duration::from_secs(2);
/// How long an I/O server that ends waits for its last requests, and then for the manager.
pub const NUMBER_END_DEADLINE: Duration = Duration::from_millis(500);
/// How long a process that starts an I/O server asks the manager about an empty disk before it says that it listens.
pub const CLAIM_PATIENCE: Duration = Duration::from_secs(3);
/// How long a process that starts the manager waits for its term to begin before it says that it listens.
pub const START_PATIENCE: Duration = Duration::from_secs(2);
/// How long an operation on a volume is tried by who never gives up.
pub const PATIENCE_MAX: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
/// How long a client's file locks last after the manager has heard of it; the client counts from before it asked.
pub const LOCK_LEASE: Duration = Duration::from_secs(45);
/// How often a client with file locks says that it still runs.
pub const LOCK_RENEW: Duration = Duration::from_secs(10);
/// How often the manager looks for leases that are over.
pub const LOCK_SWEEP: Duration = Duration::from_secs(3);
/// How long one request waits at the manager for others' locks; the client asks again.
pub const LOCK_WAIT: Duration = Duration::from_secs(1);
/// How often such a request looks whether its connection still lasts.
pub const LOCK_RETRY: Duration = Duration::from_millis(100);
/// Requests of one client that wait so at a time: most of its credits stay free for others.
pub const LOCKS_WAITING_MAX: usize = CREDITS as usize / 4;
/// Locks of one file.
pub const LOCKS_OF_FILE_MAX: usize = 1 << 12;
/// Locks of one client.
pub const LOCKS_OF_SESSION_MAX: usize = 1 << 14;
/// Locks of a volume.
pub const LOCKS_MAX: usize = 1 << 17;
/// Most locks and grants in the list for administrators.
pub const LOCKS_LISTED_MAX: usize = 1000;
const _: () = assert!(LOCK_RENEW.as_millis() * 4 < LOCK_LEASE.as_millis());
/// Files whose appended bytes the manager gives places to at a time.
pub const APPENDED_FILES_MAX: usize = 1 << 16;
/// Places of one file that the manager remembers, for requests that come again.
pub const APPENDS_REMEMBERED: usize = 64;
/// Pieces of a request that an I/O server looks at before other tasks of the core have their turn.
pub const WALK_STEPS: u32 = 1024;
/// So many pieces cost what a range does that is looked up in the page cache.
pub const RANGE_STEPS: u32 = 32;

/// Looks at the page cache that one question for resident bytes may cost.
pub const RESIDENT_PROBES_MAX: u32 = 1024;

/// Bytes below which what is not wholly in memory is not looked at in parts.
pub const RESIDENT_STEP_MIN: u64 = 256 << 10;

/// Bytes of references that a client keeps where it keeps no data.
pub const DIRECTORY_LEN: u64 = 16 << 20;

/// Objects whose references a client keeps.
pub const REFERENCES_MAX: usize = 1 << 14;

/// Bytes of the longest read that is made without asking: for longer ones a call is little.
pub const OPTIMISTIC_LEN_MAX: u32 = gannet_fabric::limits::OPTIMISTIC_READ_MAX;

/// Memory for such reads that a client keeps registered while nobody uses it, for as many of them.
pub const SINKS_MAX: usize = 64;

/// Servers' parts of such a read, at most.
pub const OPTIMISTIC_EXTENTS_MAX: usize = 4;

/// Points of polling for lone answers: most, from which on it is done, and what one in vain costs.
pub const LOOK_POINTS_MAX: u32 = 16;
/// See [`LOOK_POINTS_MAX`].
pub const LOOK_POINTS_MIN: u32 = 8;
/// See [`LOOK_POINTS_MAX`].
pub const LOOK_POINTS_IN_VAIN: u32 = 4;

/// Answers that may be polled for in a row before other tasks of the core run.
pub const LOOKS_IN_A_ROW_MAX: u32 = 32;

/// Files whose attributes the manager keeps where clients read them without asking.
pub const ATTRIBUTE_RECORDS_MAX: usize = 1 << 15;

/// How long a connection may read them after the manager has told it of one.
pub const ATTRIBUTES_EXPORTED_FOR: Duration = Duration::from_secs(24 * 3600);

/// How often the manager looks for records that have become too old.
pub const RECORDS_SWEEP: Duration = Duration::from_secs(5);
const _: () = assert!(RECORDS_SWEEP.as_secs() * 4 < SIZE_AGE.as_secs());

/// How often a client reads a record again that was being written, before it asks.
pub const TORN_RETRIES: u32 = 3;

/// Missing objects whose states an I/O server exports. Beyond it the server ends the references to all of them: files
/// that do not exist must not evict the references of others.
pub const MISSING_OBJECTS_MAX: usize = 1 << 12;
/// References to states of objects that a client keeps, over all files. Beyond it the client forgets all.
pub const STATE_REFERENCES_MAX: usize = 1 << 14;
/// Files that wait until a client requests references to the states of their objects.
pub const STATE_REQUESTS_MAX: usize = 1024;
/// How long a client requests no references to the states of a file's objects after a server has refused one.
pub const STATES_REFUSED_FOR: Duration = Duration::from_secs(10);
/// How long a client waits for the states of a file's objects before it asks the manager.
pub const STATES_DEADLINE: Duration = Duration::from_secs(1);

/// Places for records under way that a client keeps registered.
pub const RECORD_SINKS_MAX: usize = 256;
