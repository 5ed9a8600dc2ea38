//! The duplicate request cache: a duplicate of a call that must not be executed twice gets the reply of the first.
//!
//! A client that lost its connection sends its pending calls again with the same XIDs, perhaps over another
//! connection or another transport. So the key has the client's address without its port. The cache keeps the body of
//! the RPC reply and not the transport's message, because the new call brings new chunks. The key has the caller's
//! credential too: two users of one host may use the same XID, and neither may see the other's reply (test
//! `a_duplicate_is_the_same_callers`).
//!
//! Order: [`ReplyCache::begin`] inserts the entry before the call runs, so a duplicate that comes meanwhile waits and
//! is not executed. [`Execution::finish`] stores the reply before the transport sends it.

use crate::limits::{DRC_AGE_MAX, DRC_BYTES_MAX, DRC_ENTRIES_MAX, DRC_WAITERS_MAX};
use crate::poisoned::Poisoned;
use crate::service::{Call, Credential, Reply, Verdict};
use gannet_metrics::{Counter, Exposition, Family, Source};
use gannet_runtime::Instant;
use gannet_wire::rpc::AcceptStatus;
use gannet_wire::xdr::pad_len;
use std::collections::hash_map::Entry as MapEntry;
use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hasher};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// Parts with a lock each, so that cores seldom wait for each other.
const SHARDS: usize = 16;
/// Argument bytes that go into the checksum.
const CHECKSUM_LEN: usize = 256;
/// Bytes that an entry costs beside its body, for the byte bound.
const ENTRY_OVERHEAD: usize = 160;

/// The identity of a call: calls with the same key are duplicates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    client: IpAddr,
    xid: u32,
    program: u32,
    version: u32,
    procedure: u32,
    arguments_len: usize,
    /// Over the credential and the first [`CHECKSUM_LEN`] bytes of the arguments.
    checksum: u64,
}

impl Key {
    fn of(call: &Call) -> Key {
        let (arguments_len, checksum) = fingerprint(call);
        Key {
            client: call.peer.ip().to_canonical(),
            xid: call.xid,
            program: call.program,
            version: call.version,
            procedure: call.procedure,
            arguments_len,
            checksum,
        }
    }

    fn shard(&self) -> usize {
        (self.xid ^ (self.xid >> 16) ^ (self.xid >> 24)) as usize % SHARDS
    }
}

/// Length of the arguments and a checksum of the credential and their beginning. A placed opaque is counted where it
/// belongs in the arguments, so that the same call has the same key on every transport.
fn fingerprint(call: &Call) -> (usize, u64) {
    let placed = call.placed.borrow();
    let arguments = call.arguments();
    let (head, middle, tail) = match placed.as_ref() {
        None => (arguments, &[][..], &[][..]),
        Some(placed) => {
            let (head, tail) = arguments
                .split_at_checked(placed.position)
                .unwrap_or((arguments, &[]));
            let bytes = placed.buffer.get(..placed.len).unwrap_or(&placed.buffer);
            (head, opaque_of(head, bytes), tail)
        }
    };
    let pad = &[0; 3][..pad_len(middle.len()).min(3)];
    let mut window = [0; CHECKSUM_LEN];
    let mut places = window.iter_mut();
    for part in [head, middle, pad, tail] {
        part.iter()
            .zip(&mut places)
            .for_each(|(byte, place)| *place = *byte);
    }
    let mut hasher = DefaultHasher::new();
    hash_credential(&call.credential, &mut hasher);
    hasher.write(&window);
    (
        head.len() + middle.len() + pad.len() + tail.len(),
        hasher.finish(),
    )
}

fn hash_credential(credential: &Credential, hasher: &mut impl Hasher) {
    match credential {
        Credential::None => hasher.write_u8(0),
        Credential::Sys { uid, gid, groups } => {
            hasher.write_u8(1);
            hasher.write_u32(*uid);
            hasher.write_u32(*gid);
            let groups = groups.as_slice();
            hasher.write_usize(groups.len());
            groups.iter().for_each(|group| hasher.write_u32(*group));
        }
    }
}

/// The opaque without a pad that its Read chunk may have brought: the word before it has its length.
fn opaque_of<'a>(head: &[u8], bytes: &'a [u8]) -> &'a [u8] {
    let length = head
        .last_chunk::<4>()
        .map(|word| u32::from_be_bytes(*word) as usize);
    length
        .and_then(|length| bytes.get(..length))
        .unwrap_or(bytes)
}

/// A reply without its transport.
#[derive(Debug)]
pub(crate) struct CachedReply {
    verdict: Verdict,
    head: Vec<u8>,
}

impl CachedReply {
    pub(crate) fn write_to(&self, reply: &mut Reply) {
        reply.clear();
        reply.verdict = self.verdict;
        reply.head.extend_from_slice(&self.head);
    }
}

enum Entry {
    /// The call is being executed. The senders are those of duplicates that wait, at most [`DRC_WAITERS_MAX`].
    Pending(Vec<oneshot::Sender<Arc<CachedReply>>>),
    /// The call was executed with success.
    Done {
        reply: Arc<CachedReply>,
        at: Instant,
    },
}

#[derive(Default)]
struct Shard {
    entries: HashMap<Key, Entry>,
    /// Finished entries, oldest first.
    done: VecDeque<Key>,
    bytes: usize,
}

impl Shard {
    /// Removes replies that are too old or beyond the bounds, oldest first. Pending entries are not in `done` and stay:
    /// without its entry a duplicate of a call under way would be executed.
    fn evict(&mut self, now: Instant, limits: &CacheLimits, evicted: &Counter) {
        while let Some(oldest) = self.done.front() {
            let age = match self.entries.get(oldest) {
                Some(Entry::Done { at, .. }) => now.duration_since(*at),
                _ => DRC_AGE_MAX,
            };
            let full = self.done.len() > limits.entries_max / SHARDS
                || self.bytes > limits.bytes_max / SHARDS;
            if age < DRC_AGE_MAX && !full {
                break;
            }
            if let Some(Entry::Done { reply, .. }) = self.entries.remove(&{ *oldest }) {
                self.bytes -= reply.head.len() + ENTRY_OVERHEAD;
            }
            self.done.pop_front();
            if full && age < DRC_AGE_MAX {
                evicted.add(1);
            }
        }
    }
}

/// The bounds of a cache, divided evenly among its shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheLimits {
    /// Most replies.
    pub entries_max: usize,
    /// Most bytes of replies and their keys.
    pub bytes_max: usize,
}

impl Default for CacheLimits {
    fn default() -> CacheLimits {
        CacheLimits {
            entries_max: DRC_ENTRIES_MAX,
            bytes_max: DRC_BYTES_MAX,
        }
    }
}

/// The duplicate request cache of a server; one for all its cores and transports.
///
/// Bounded in entries, bytes and age: the oldest reply leaves first. The connections bound the calls under execution.
/// The clocks of two cores differ by the time between their starts, which is short beside the age of two minutes.
pub struct ReplyCache {
    shards: Vec<Mutex<Shard>>,
    limits: CacheLimits,
    /// Replies that left before their time, because the cache was full.
    evicted: Counter,
    /// Calls whose transfers failed; their duplicates are refused.
    pub(crate) poisoned: Poisoned,
}

impl Default for ReplyCache {
    fn default() -> ReplyCache {
        ReplyCache::new(CacheLimits::default())
    }
}

impl Source for ReplyCache {
    fn collect(&self, into: &mut Exposition) {
        const ENTRIES: Family = Family::gauge(
            "gannet_rpc_cached_replies",
            "Replies in the duplicate request cache.",
        );
        const EVICTED: Family = Family::counter(
            "gannet_rpc_evicted_replies",
            "Replies that left that cache before their time, because it was full.",
        );
        into.number(&ENTRIES, &[], self.len() as u64);
        into.counter(&EVICTED, &[], &self.evicted);
    }
}

impl ReplyCache {
    /// An empty cache.
    pub fn new(limits: CacheLimits) -> ReplyCache {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        ReplyCache {
            shards,
            limits,
            evicted: Counter::default(),
            poisoned: Poisoned::default(),
        }
    }

    /// The number of replies in the cache.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).done.len()).sum()
    }

    /// True when the cache has no reply.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Decides what to do with `call`, in one step under the shard's lock: two cores that get the same call at once
    /// must not both execute it.
    pub(crate) fn begin(self: &Arc<Self>, call: &Call, now: Instant) -> Begin {
        let key = Key::of(call);
        let Some(shard) = self.shards.get(key.shard()) else {
            return Begin::Drop;
        };
        let mut shard = lock(shard);
        shard.evict(now, &self.limits, &self.evicted);
        match shard.entries.entry(key) {
            MapEntry::Vacant(entry) => {
                entry.insert(Entry::Pending(Vec::new()));
                Begin::Execute(Execution {
                    cache: Arc::clone(self),
                    key,
                    finished: false,
                })
            }
            MapEntry::Occupied(mut entry) => match entry.get_mut() {
                Entry::Done { reply, .. } => Begin::Replay(Arc::clone(reply)),
                Entry::Pending(waiters) => {
                    // Waiters whose connections have ended free their places first.
                    waiters.retain(|waiter| !waiter.is_closed());
                    if waiters.len() == DRC_WAITERS_MAX {
                        return Begin::Drop;
                    }
                    let (sender, receiver) = oneshot::channel();
                    waiters.push(sender);
                    Begin::Wait(receiver)
                }
            },
        }
    }
}

/// Locks a shard, also after a panic of another holder: every change leaves the shard valid.
fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The next step for a call.
pub(crate) enum Begin {
    /// The call is new: execute it and report the reply with [`Execution::finish`].
    Execute(Execution),
    /// The call was executed: send this reply.
    Replay(Arc<CachedReply>),
    /// The call is being executed: wait for its reply. An error means that the execution ended without one.
    Wait(oneshot::Receiver<Arc<CachedReply>>),
    /// [`DRC_WAITERS_MAX`] duplicates wait for it already: send no reply.
    Drop,
}

/// A call under execution. Dropped without a reply (its service panicked, or the runtime ended), it removes the entry
/// and with it the waiters' senders: otherwise duplicates would wait for ever.
pub(crate) struct Execution {
    cache: Arc<ReplyCache>,
    key: Key,
    finished: bool,
}

impl Execution {
    /// Keeps a successful reply and hands it to the duplicates that wait. A reply with a payload of its own is not
    /// kept: no procedure that changes anything has one.
    pub(crate) fn finish(mut self, reply: &Reply, now: Instant) {
        self.finished = true;
        let Some(shard) = self.cache.shards.get(self.key.shard()) else {
            return;
        };
        let mut shard = lock(shard);
        let pending = shard.entries.remove(&self.key);
        if reply.payload.is_some() {
            return;
        }
        let cached = Arc::new(CachedReply {
            verdict: reply.verdict,
            head: reply.head.clone(),
        });
        if let Some(Entry::Pending(waiters)) = pending {
            for waiter in waiters {
                // The send fails only if the waiter's connection has ended.
                let _ = waiter.send(Arc::clone(&cached));
            }
        }
        if reply.verdict == Verdict::Accepted(AcceptStatus::Success) {
            shard.bytes += cached.head.len() + ENTRY_OVERHEAD;
            shard.done.push_back(self.key);
            shard.entries.insert(
                self.key,
                Entry::Done {
                    reply: cached,
                    at: now,
                },
            );
            shard.evict(now, &self.cache.limits, &self.cache.evicted);
        }
    }
}

impl Drop for Execution {
    fn drop(&mut self) {
        if !self.finished
            && let Some(shard) = self.cache.shards.get(self.key.shard())
        {
            lock(shard).entries.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_reply_of_the_full_age_has_not_left_before_its_time() {
        let at = |seconds| Instant::START + Duration::from_secs(seconds);
        let mut shard = Shard::default();
        for (xid, begun) in [(1, 0), (2, 10), (3, 20)] {
            let key = Key {
                client: IpAddr::from([10, 0, 0, 1]),
                xid,
                program: 100_003,
                version: 3,
                procedure: 8,
                arguments_len: 0,
                checksum: 0,
            };
            let reply = Arc::new(CachedReply {
                verdict: Verdict::Accepted(AcceptStatus::Success),
                head: Vec::new(),
            });
            let at = at(begun);
            shard.bytes += ENTRY_OVERHEAD;
            shard.done.push_back(key);
            shard.entries.insert(key, Entry::Done { reply, at });
        }
        let limits = CacheLimits {
            entries_max: SHARDS,
            bytes_max: usize::MAX,
        };
        let evicted = Counter::default();
        // The first of them has its age, the second one makes room.
        shard.evict(at(0) + DRC_AGE_MAX, &limits, &evicted);
        assert_eq!((shard.done.len(), shard.bytes), (1, ENTRY_OVERHEAD));
        assert_eq!(evicted.total(), 1);
    }
}
