//! The duplicate request cache: a call that must not be executed twice is answered twice instead.
//!
//! A client that lost its connection sends its pending calls again with the same XIDs, perhaps over another
//! connection or another transport. So the key names the client's host without its port, and the cache keeps what
//! RPC says (a reply body), never what a transport made of it: the new call brings new chunks. And the key names the
//! caller: users of one host may come upon the same XID, and none may see what another was answered.

use crate::limits::{DRC_AGE_MAX, DRC_BYTES_MAX, DRC_ENTRIES_MAX, DRC_WAITERS_MAX};
use crate::poisoned::Poisoned;
use crate::service::{Call, Credential, Reply, Verdict};
use gannet_runtime::Instant;
use gannet_wire::rpc::AcceptStatus;
use gannet_wire::xdr::pad_len;
use std::collections::hash_map::Entry as MapEntry;
use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hasher};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// Independent parts, so that cores seldom meet at a lock.
const SHARDS: usize = 16;
/// Argument bytes that go into the checksum.
const CHECKSUM_LEN: usize = 256;
/// What an entry costs beside its body, for the byte bound.
const ENTRY_OVERHEAD: usize = 160;

/// What makes two calls the same call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    client: IpAddr,
    xid: u32,
    program: u32,
    version: u32,
    procedure: u32,
    arguments_len: usize,
    /// Of the credential and the beginning of the arguments.
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

/// Length of the arguments and a checksum of the credential and their beginning, as if no opaque had been placed apart,
/// so that the same call has the same key on every transport.
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

/// A Read chunk may have brought the pad along: the opaque itself is as long as the word before it says.
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
    Pending(Vec<oneshot::Sender<Arc<CachedReply>>>),
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
    fn evict(&mut self, now: Instant, limits: &CacheLimits) {
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
        }
    }
}

/// How much a cache holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheLimits {
    /// Replies.
    pub entries_max: usize,
    /// Bytes of replies, with their keys.
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
/// Bounded in entries, bytes and age, oldest out first; calls under execution are bounded by the connections. The
/// cores' clocks may differ by the moments between their starts, which is nothing beside the age of two minutes.
pub struct ReplyCache {
    shards: Vec<Mutex<Shard>>,
    limits: CacheLimits,
    /// Duplicates that have no reply and never will.
    pub(crate) poisoned: Poisoned,
}

impl Default for ReplyCache {
    fn default() -> ReplyCache {
        ReplyCache::new(CacheLimits::default())
    }
}

impl ReplyCache {
    /// An empty cache.
    pub fn new(limits: CacheLimits) -> ReplyCache {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        ReplyCache {
            shards,
            limits,
            poisoned: Poisoned::default(),
        }
    }

    /// Replies that can be replayed now.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).done.len()).sum()
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Says what to do with `call`: execute it, replay its reply, or wait for the execution under way.
    pub(crate) fn begin(self: &Arc<Self>, call: &Call, now: Instant) -> Begin {
        let key = Key::of(call);
        let Some(shard) = self.shards.get(key.shard()) else {
            return Begin::Drop;
        };
        let mut shard = lock(shard);
        shard.evict(now, &self.limits);
        match shard.entries.entry(key) {
            MapEntry::Vacant(entry) => {
                entry.insert(Entry::Pending(Vec::new()));
                Begin::Execute(Ticket {
                    cache: Arc::clone(self),
                    key,
                    finished: false,
                })
            }
            MapEntry::Occupied(mut entry) => match entry.get_mut() {
                Entry::Done { reply, .. } => Begin::Replay(Arc::clone(reply)),
                Entry::Pending(waiters) => {
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

fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What to do with a call.
pub(crate) enum Begin {
    /// It is new: execute it and tell the ticket.
    Execute(Ticket),
    /// It was executed.
    Replay(Arc<CachedReply>),
    /// It is being executed; an error from the receiver means that the execution was lost.
    Wait(oneshot::Receiver<Arc<CachedReply>>),
    /// Too many wait for it already.
    Drop,
}

/// The duty to report the result of an execution.
pub(crate) struct Ticket {
    cache: Arc<ReplyCache>,
    key: Key,
    finished: bool,
}

impl Ticket {
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
                // A waiter that gave up meanwhile needs no answer.
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
            shard.evict(now, &self.cache.limits);
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.finished
            && let Some(shard) = self.cache.shards.get(self.key.shard())
        {
            lock(shard).entries.remove(&self.key);
        }
    }
}
