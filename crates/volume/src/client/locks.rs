//! This client's file locks: asked of the manager, kept alive, and reclaimed from one that has restarted.
//!
//! The manager forgets a client from which no request comes for [`LOCK_LEASE`]. A task renews the lease while there are
//! locks. When a reply shows another incarnation of the manager, the client reclaims all locks before its next request.
//! A lock that cannot be reclaimed is lost, and logged: another host may have locked the bytes meanwhile. A client that
//! hears nothing for a lease gives its locks up, and goes on to ask for the files that it keeps.

use super::servers::Servers;
use crate::convert::caller_of;
use crate::limits::{LOCK_LEASE, LOCK_RENEW, LOCKS_OF_SESSION_MAX, TERM_LEASE};
use crate::link::{Link, LinkError};
use crate::locks::{HeldLock, RangeLocks};
use gannet_runtime::{Handle, Instant, sleep};
use gannet_vfs::{ByteLock, Credentials, LockKind, LockRequest, Locked, Status};
use gannet_wire::volume::{
    self as wire, Class, FileId, LockAction, LockOutcome, LockRecord, LockReply, Operation,
    RenewLocksReply, RenewLocksRequest,
};
use gannet_wire::xdr::{Decode, Encode, from_bytes, to_bytes};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// The file locks of a client.
pub(super) struct ClientLocks {
    runtime: Handle,
    servers: Rc<Servers>,
    state: RefCell<LockState>,
    is_renewing: Cell<bool>,
}

#[derive(Default)]
struct LockState {
    files: BTreeMap<FileId, RangeLocks<u64>>,
    /// Files that are to outlive their last name.
    kept: BTreeSet<FileId>,
    /// Files that were let go, of which the manager has not heard, because it was away.
    let_go: BTreeMap<FileId, Debt>,
    /// The number of the last of these debts.
    last_debt: u64,
    /// Unlocks that have not reached the manager, because it was away.
    owed: Vec<(FileId, LockRecord)>,
    /// The incarnation of the manager that knows the locks.
    incarnation: Option<u64>,
    /// When the manager releases them unless the lease is renewed.
    lease_until: Option<Instant>,
}

/// A guard of requests to keep a file. Without an answer, the manager may keep it: it hears that it need not.
pub(super) struct Keeping<'a> {
    locks: &'a Rc<ClientLocks>,
    file: FileId,
    is_kept: bool,
}

impl Keeping<'_> {
    /// Takes note of the answer that the manager keeps the file.
    pub(super) fn end(mut self) {
        self.is_kept = true;
    }
}

impl Drop for Keeping<'_> {
    fn drop(&mut self) {
        if !self.is_kept {
            self.locks.owe_let_go(self.file);
        }
    }
}

/// The number of a word that is owed to the manager. A reply pays the debt that it was asked for, and no later one.
type Debt = u64;

/// A guard of an unlock. If it is dropped without an answer, the unlock is owed.
pub(super) struct Unlocking<'a> {
    locks: &'a Rc<ClientLocks>,
    file: FileId,
    lock: &'a ByteLock,
    is_over: bool,
}

impl Unlocking<'_> {
    /// Takes note of the manager's answer.
    pub(super) fn end(mut self) {
        self.is_over = true;
    }
}

impl Drop for Unlocking<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.locks.owe(self.file, self.lock);
        }
    }
}

/// The outcome of an attempt.
pub(super) enum Attempt {
    /// An answer of the manager.
    Answered(Locked),
    /// The manager collects the locks of clients from before its restart: try again.
    Recovering,
    /// The manager granted the lock in a reply that took longer than its lease. Another manager may have granted the
    /// lock since: try again.
    Late,
}

/// Why an attempt has no reply.
pub(super) enum LockFailure {
    /// The manager refuses it.
    Refused(Status),
    /// The manager was not reached: try again.
    Away(LinkError),
}

impl From<LinkError> for LockFailure {
    fn from(error: LinkError) -> LockFailure {
        LockFailure::Away(error)
    }
}

impl ClientLocks {
    pub(super) fn new(runtime: Handle, servers: Rc<Servers>) -> Rc<ClientLocks> {
        Rc::new(ClientLocks {
            runtime,
            servers,
            state: RefCell::default(),
            is_renewing: Cell::new(false),
        })
    }

    /// Whether this client knows locks of an owner on a file.
    pub(super) fn has(&self, file: FileId, owner: u64) -> bool {
        let state = self.state.borrow();
        let locks = state.files.get(&file);
        locks.is_some_and(|locks| locks.iter().any(|it| it.owner == owner))
    }

    /// Asks the manager once.
    ///
    /// # Errors
    /// `Refused`: the manager's status. `Away`: it may have done what was asked, and the reply is lost.
    pub(super) async fn attempt(
        self: &Rc<Self>,
        caller: &Credentials,
        file: FileId,
        lock: &ByteLock,
        request: LockRequest,
    ) -> Result<Attempt, LockFailure> {
        if !matches!(request, LockRequest::Try | LockRequest::Wait) {
            return self.ask_once(caller, file, lock, request).await;
        }
        // Sent after this request, an unlock that is owed would release the lock that it grants (seed 9069 of volumes).
        let withheld = self.state.borrow_mut().withhold(file, &record_of(lock));
        let attempt = self.ask_once(caller, file, lock, request).await;
        if !matches!(attempt, Ok(Attempt::Answered(Locked::Done))) {
            self.state.borrow_mut().owed.extend(withheld);
        }
        attempt
    }

    async fn ask_once(
        self: &Rc<Self>,
        caller: &Credentials,
        file: FileId,
        lock: &ByteLock,
        request: LockRequest,
    ) -> Result<Attempt, LockFailure> {
        let action = match request {
            LockRequest::Try => LockAction::Try,
            LockRequest::Wait => LockAction::Wait,
            LockRequest::Unlock => LockAction::Unlock,
            LockRequest::Test => LockAction::Test,
        };
        let record = record_of(lock);
        let link = self.servers.manager().await?;
        let asked = self.runtime.now();
        if request == LockRequest::Unlock {
            // Before the request: a manager that has restarted does not know the lock, and a lock that is still known
            // here would be reclaimed behind the unlock.
            self.state.borrow_mut().release(file, &held_of(&record));
        }
        let reply = send(&link, caller, file, action, record).await?;
        self.meet(&link, reply.incarnation).await?;
        let held = held_of(&record);
        let locked = match (reply.outcome, request) {
            (LockOutcome::Done, LockRequest::Try | LockRequest::Wait) => {
                if self.runtime.now() >= asked + TERM_LEASE {
                    return Ok(Attempt::Late);
                }
                let mut state = self.state.borrow_mut();
                state.files.entry(file).or_default().hold(held);
                state.heard(reply.incarnation, asked);
                drop(state);
                self.renew_from_now_on();
                Locked::Done
            }
            (LockOutcome::Done, LockRequest::Unlock | LockRequest::Test) => Locked::Done,
            (LockOutcome::Denied(other), _) => Locked::Denied(ByteLock {
                owner: other.owner,
                kind: match other.kind {
                    wire::LockKind::Shared => LockKind::Shared,
                    wire::LockKind::Exclusive => LockKind::Exclusive,
                },
                start: other.start,
                end: other.end,
                process: other.process,
            }),
            (LockOutcome::TooMany, _) => Locked::TooMany,
            (LockOutcome::Recovering | LockOutcome::Lost, _) => return Ok(Attempt::Recovering),
        };
        Ok(Attempt::Answered(locked))
    }

    /// Asks the manager once to keep a file.
    ///
    /// # Errors
    /// As [`ClientLocks::attempt`].
    pub(super) async fn keep(self: &Rc<Self>, file: FileId) -> Result<(), LockFailure> {
        let link = self.servers.manager().await?;
        // Sent after this request, a word that is owed would let the file go that it keeps.
        self.state.borrow_mut().let_go.remove(&file);
        let asked = self.runtime.now();
        let reply = send(&link, &nobody(), file, LockAction::Keep, whole_file()).await?;
        self.meet(&link, reply.incarnation).await?;
        if reply.outcome != LockOutcome::Done {
            return Err(LockFailure::Refused(Status::Notsupp));
        }
        let mut state = self.state.borrow_mut();
        state.kept.insert(file);
        state.heard(reply.incarnation, asked);
        drop(state);
        self.renew_from_now_on();
        Ok(())
    }

    /// A guard of an unlock.
    pub(super) fn unlocking<'a>(
        self: &'a Rc<Self>,
        file: FileId,
        lock: &'a ByteLock,
    ) -> Unlocking<'a> {
        Unlocking {
            locks: self,
            file,
            lock,
            is_over: false,
        }
    }

    /// A guard of calls of [`ClientLocks::keep`].
    pub(super) fn keeping(self: &Rc<Self>, file: FileId) -> Keeping<'_> {
        Keeping {
            locks: self,
            file,
            is_kept: false,
        }
    }

    /// Notes that the manager is to let a file go that it may keep, unless this client knows that it does.
    fn owe_let_go(self: &Rc<Self>, file: FileId) {
        let mut state = self.state.borrow_mut();
        // More than a session may keep are not kept.
        if !state.kept.contains(&file) && state.let_go.len() < LOCKS_OF_SESSION_MAX {
            state.owe_let_go(file);
            drop(state);
            self.renew_from_now_on();
        }
    }

    /// Lets a file go. A manager that is away hears of it with the next renewal.
    pub(super) async fn let_go(&self, file: FileId) -> Result<(), LockFailure> {
        if !self.state.borrow_mut().let_go(file) {
            return Ok(());
        }
        let link = self.servers.manager().await?;
        self.send_let_go(&link, file).await
    }

    /// Sends the word that a file is let go, unless a request to keep it came since. Requests of one connection arrive
    /// in their order.
    async fn send_let_go(&self, link: &Link, file: FileId) -> Result<(), LockFailure> {
        let Some(debt) = self.state.borrow().let_go.get(&file).copied() else {
            return Ok(());
        };
        let sent = send(link, &nobody(), file, LockAction::LetGo, whole_file()).await;
        if !matches!(sent, Err(LockFailure::Away(_))) {
            let mut state = self.state.borrow_mut();
            if state.let_go.get(&file) == Some(&debt) {
                state.let_go.remove(&file);
            }
        }
        sent.map(|_| ())
    }

    /// Notes an unlock that has not reached the manager: it is sent when the manager is back, or the lease ends first.
    pub(super) fn owe(self: &Rc<Self>, file: FileId, lock: &ByteLock) {
        let record = record_of(lock);
        let mut state = self.state.borrow_mut();
        state.release(file, &held_of(&record));
        if state.owed.len() < LOCKS_OF_SESSION_MAX {
            state.owed.push((file, record));
        }
        drop(state);
        self.renew_from_now_on();
    }

    /// Reclaims all locks if this is another incarnation of the manager than the one that knows them.
    async fn meet(&self, link: &Link, incarnation: u64) -> Result<(), LockFailure> {
        let known = self.state.borrow().incarnation;
        match known {
            Some(known) if known == incarnation => Ok(()),
            // No manager has heard of this client, or the client has given its locks up.
            None if self.state.borrow().kept.is_empty() => {
                self.state.borrow_mut().incarnation = Some(incarnation);
                Ok(())
            }
            _ => self.reclaim(link, incarnation).await,
        }
    }

    /// Reclaims all locks. The manager has restarted, and its metadata says only that this client had some.
    async fn reclaim(&self, link: &Link, incarnation: u64) -> Result<(), LockFailure> {
        let asked = self.runtime.now();
        let root = nobody();
        let mut lost = 0;
        let kept = self.state.borrow().kept.clone();
        for file in kept {
            if !self.state.borrow().kept.contains(&file) {
                continue;
            }
            let reply = send(link, &root, file, LockAction::Keep, whole_file()).await;
            // A manager that cannot answer yet has lost nothing: all is reclaimed at the next renewal.
            let is_away = matches!(
                reply,
                Err(LockFailure::Away(_) | LockFailure::Refused(Status::Jukebox))
            );
            if is_away {
                reply?;
            } else if !reply.is_ok_and(|reply| reply.outcome == LockOutcome::Done) {
                self.state.borrow_mut().kept.remove(&file);
                tracing::warn!(file = file.0, "an open file without a name is lost");
            }
        }
        let held = self.state.borrow().held();
        for (file, lock) in held {
            let mut from = Some(*lock.range.start());
            // Looked for again each time: bytes that are unlocked meanwhile must not be reclaimed behind their unlock.
            while let Some(part) = from.and_then(|it| self.state.borrow().part_of(file, &lock, it))
            {
                let record = record_of_held(&part);
                let reply = send(link, &root, file, LockAction::Reclaim, record).await?;
                if reply.outcome != LockOutcome::Done {
                    lost += 1;
                    self.state.borrow_mut().release(file, &part);
                }
                from = part.range.end().checked_add(1);
            }
        }
        let renew = RenewLocksRequest {
            reclaimed: incarnation,
        };
        let _: RenewLocksReply = ask(link, Operation::RenewLocks, &renew).await?;
        self.state.borrow_mut().heard(incarnation, asked);
        if lost > 0 {
            tracing::error!(
                lost,
                "file locks were lost when the manager restarted: other hosts may have locked the same bytes"
            );
        }
        Ok(())
    }

    /// Starts to renew the lease, as long as there are locks.
    fn renew_from_now_on(self: &Rc<Self>) {
        if !self.is_renewing.replace(true) {
            let locks = Rc::clone(self);
            let task = async move { locks.renew_all().await };
            self.runtime.spawn("file locks", Box::pin(task));
        }
    }

    async fn renew_all(self: Rc<Self>) {
        while !self.state.borrow().is_empty() {
            sleep(&self.runtime, LOCK_RENEW).await;
            if self.renew().await.is_err() {
                self.give_up_late();
            }
        }
        self.is_renewing.set(false);
    }

    async fn renew(&self) -> Result<(), LockFailure> {
        let link = self.servers.manager().await?;
        let asked = self.runtime.now();
        let renew = RenewLocksRequest { reclaimed: 0 };
        let reply: RenewLocksReply = ask(&link, Operation::RenewLocks, &renew).await?;
        let known = self.state.borrow().incarnation;
        if known != Some(reply.incarnation) || !reply.is_known {
            self.reclaim(&link, reply.incarnation).await?;
        } else {
            self.state.borrow_mut().heard(reply.incarnation, asked);
        }
        let let_go: Vec<FileId> = self.state.borrow().let_go.keys().copied().collect();
        for file in let_go {
            self.send_let_go(&link, file).await?;
        }
        let root = nobody();
        loop {
            let owed = self.state.borrow().owed.last().copied();
            let Some((file, record)) = owed else {
                return Ok(());
            };
            send(&link, &root, file, LockAction::Unlock, record).await?;
            // Found again and not popped: while the request was under way, part of it may have been withheld for a new
            // lock, and more may be owed.
            let mut state = self.state.borrow_mut();
            if let Some(at) = state.owed.iter().rposition(|it| *it == (file, record)) {
                state.owed.remove(at);
            }
        }
    }

    /// Drops all locks after the end of the lease: the manager may have granted them to others. Kept files stay: no
    /// other client can get them, and a manager that was away for longer than a lease still has them.
    fn give_up_late(&self) {
        let mut state = self.state.borrow_mut();
        let now = self.runtime.now();
        if state.lease_until.is_none_or(|until| now < until) {
            return;
        }
        let lost = state.give_up();
        drop(state);
        if lost > 0 {
            tracing::error!(
                lost,
                seconds = LOCK_LEASE.as_secs(),
                "file locks are lost, the manager does not answer: other hosts may lock the same bytes"
            );
        }
    }
}

impl LockState {
    fn is_empty(&self) -> bool {
        let has_files = !self.kept.is_empty() || !self.let_go.is_empty();
        self.files.is_empty() && self.owed.is_empty() && !has_files
    }

    /// All locks.
    fn held(&self) -> Vec<(FileId, HeldLock<u64>)> {
        let files = self.files.iter();
        let held = files.flat_map(|(file, locks)| locks.iter().map(|it| (*file, it.clone())));
        held.collect()
    }

    /// The first part of a lock that is still held, from this byte on.
    fn part_of(&self, file: FileId, lock: &HeldLock<u64>, from: u64) -> Option<HeldLock<u64>> {
        let held = self.files.get(&file)?.iter();
        let parts = held.filter(|it| it.owner == lock.owner && it.kind == lock.kind);
        let parts = parts.filter_map(|it| {
            let start = from.max(*it.range.start());
            let end = *it.range.end().min(lock.range.end());
            (start <= end).then_some((start, end))
        });
        let (start, end) = parts.min()?;
        Some(HeldLock {
            range: start..=end,
            ..lock.clone()
        })
    }

    /// Notes that the manager is to hear that a file is let go.
    fn owe_let_go(&mut self, file: FileId) {
        self.last_debt += 1;
        self.let_go.insert(file, self.last_debt);
    }

    /// Lets a kept file go; false if it is not kept.
    fn let_go(&mut self, file: FileId) -> bool {
        let was_kept = self.kept.remove(&file);
        if was_kept {
            self.owe_let_go(file);
        }
        was_kept
    }

    /// Takes out of the owed unlocks the bytes that their owner asks for again; gives what was taken.
    fn withhold(&mut self, file: FileId, asked: &LockRecord) -> Vec<(FileId, LockRecord)> {
        let mut withheld = Vec::new();
        for (of, owed) in std::mem::take(&mut self.owed) {
            let overlaps = owed.start <= asked.end && asked.start <= owed.end;
            if of != file || owed.owner != asked.owner || !overlaps {
                self.owed.push((of, owed));
                continue;
            }
            let (start, end) = (owed.start.max(asked.start), owed.end.min(asked.end));
            withheld.push((of, LockRecord { start, end, ..owed }));
            if owed.start < start {
                let end = start - 1;
                self.owed.push((of, LockRecord { end, ..owed }));
            }
            if end < owed.end {
                let start = end + 1;
                self.owed.push((of, LockRecord { start, ..owed }));
            }
        }
        withheld
    }

    /// Gives all locks up, and makes the next renewal reclaim the kept files; gives the number of locks.
    fn give_up(&mut self) -> usize {
        let files = std::mem::take(&mut self.files);
        let held = files.iter().flat_map(|(file, locks)| {
            let of_file = locks.iter().map(record_of_held);
            of_file.map(|record| (*file, record))
        });
        let held: Vec<_> = held.collect();
        let lost = held.len();
        // The manager may have heard of this client although no reply came. It then has these locks for as long as the
        // kept files extend the lease (seed 7100088 of volumes).
        self.owed.extend(held);
        self.incarnation = None;
        self.lease_until = None;
        lost
    }

    fn heard(&mut self, incarnation: u64, asked: Instant) {
        self.incarnation = Some(incarnation);
        self.lease_until = Some(asked + LOCK_LEASE);
    }

    fn release(&mut self, file: FileId, lock: &HeldLock<u64>) {
        if let Some(locks) = self.files.get_mut(&file) {
            locks.release(&lock.owner, lock.range.clone());
            if locks.is_empty() {
                self.files.remove(&file);
            }
        }
    }
}

fn record_of(lock: &ByteLock) -> LockRecord {
    LockRecord {
        owner: lock.owner,
        kind: match lock.kind {
            LockKind::Shared => wire::LockKind::Shared,
            LockKind::Exclusive => wire::LockKind::Exclusive,
        },
        start: lock.start,
        end: lock.end,
        process: lock.process,
    }
}

fn record_of_held(held: &HeldLock<u64>) -> LockRecord {
    LockRecord {
        owner: held.owner,
        kind: held.kind,
        start: *held.range.start(),
        end: *held.range.end(),
        process: held.process,
    }
}

fn held_of(record: &LockRecord) -> HeldLock<u64> {
    HeldLock {
        owner: record.owner,
        kind: record.kind,
        range: record.start..=record.end,
        process: record.process,
    }
}

/// The caller of requests that ask for no rights.
fn nobody() -> Credentials {
    Credentials::new(0, 0, &[])
}

/// The lock of requests that are about a file and no bytes.
fn whole_file() -> LockRecord {
    LockRecord {
        owner: 0,
        kind: wire::LockKind::Shared,
        start: 0,
        end: u64::MAX,
        process: 0,
    }
}

async fn send(
    link: &Link,
    caller: &Credentials,
    file: FileId,
    action: LockAction,
    lock: LockRecord,
) -> Result<LockReply, LockFailure> {
    let request = wire::LockRequest {
        caller: caller_of(caller),
        file: file.0,
        action,
        lock,
    };
    ask(link, Operation::Lock, &request).await
}

async fn ask<T: for<'a> Decode<'a>>(
    link: &Link,
    operation: Operation,
    request: &impl Encode,
) -> Result<T, LockFailure> {
    let body = to_bytes(request);
    let answer = link.call(operation, Class::Metadata, &body, &[]).await?;
    if let Some(status) = super::file_system::status_of(&answer) {
        return Err(LockFailure::Refused(status));
    }
    from_bytes(answer.body()).map_err(|_| LockFailure::Refused(Status::Serverfault))
}
