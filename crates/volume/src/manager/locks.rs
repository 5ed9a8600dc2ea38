//! File locks at the manager: their owners, their leases, and the recovery after a restart of the manager.
//!
//! A lock belongs to a client's session. Each Lock and RenewLocks extends the session's lease ([`LOCK_LEASE`]); when
//! it ends, all locks of the session are released. The locks themselves are in memory. A session is noted durably
//! before its first lock is granted. A manager that starts grants no lock until the noted sessions have reclaimed
//! theirs, for one lease at most: otherwise it could grant a lock that a client still holds.
//!
//! | session | on | becomes |
//! |---|---|---|
//! | unknown | Lock | noted durably, then active |
//! | active | lease over | released and forgotten |
//! | active | restart of the manager | recovering |
//! | recovering | Reclaim | active; others are still refused |
//! | recovering | RenewLocks "all reclaimed" | active; the last one ends the recovery |
//! | recovering | one lease after the start | forgotten; a later Reclaim is answered Lost |

use super::Manager;
use super::listing::{LeaseKind, LeaseList, LeaseRow};
use crate::limits::{
    LOCK_LEASE, LOCK_RETRY, LOCK_SWEEP, LOCK_WAIT, LOCKS_MAX, LOCKS_OF_FILE_MAX,
    LOCKS_OF_SESSION_MAX, LOCKS_WAITING_MAX,
};
use crate::link::{Link, Message};
use crate::locks::{HeldLock, RangeLocks};
use gannet_meta::namespace::{KeptFiles, Outcome};
use gannet_meta::{View, lock_sessions, namespace};
use gannet_runtime::{Handle, Instant, sleep, timeout};
use gannet_wire::volume::{
    AccessMask, Caller, FileId, FileKind, LockAction, LockKind, LockOutcome, LockRecord, LockReply,
    LockRequest, Operation, RenewLocksReply, RenewLocksRequest, Role, Status, Token,
};
use gannet_wire::xdr::{from_bytes, to_bytes};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Notify;

/// The file locks of a volume.
pub(super) struct Locks {
    runtime: Handle,
    /// A random number of this incarnation: a client that sees another one reclaims its locks.
    incarnation: u64,
    table: RefCell<LockTable>,
    /// A lock was released, or the recovery is over.
    released: Notify,
}

/// The owner of a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LockOwner {
    session: Token,
    /// The client's number of the owner.
    number: u64,
}

/// A client with locks.
struct LockSession {
    /// When its locks are released, unless the lease is renewed.
    lease_until: Instant,
    /// How many it has, and files that it keeps.
    held: usize,
    /// Its client's address, for administrators.
    address: Option<IpAddr>,
}

/// A request that waits for others' locks.
struct Waiter {
    file: FileId,
    lock: HeldLock<LockOwner>,
    /// The address of the client, whose session has perhaps no lock yet.
    address: IpAddr,
}

/// Sessions from before the start that have not reclaimed all their locks yet.
struct Recovery {
    until: Instant,
    sessions: BTreeSet<Token>,
}

/// The locks that there are.
pub(super) struct LocksCount {
    /// Sessions with a lease.
    pub(super) clients: usize,
    /// Locks, and keepers of files.
    pub(super) locks: usize,
}

/// The outcome of a sweep over the leases.
#[derive(Debug, PartialEq, Eq)]
struct Swept {
    /// The sessions to forget.
    sessions: Vec<Token>,
    /// Number of released locks.
    released: usize,
}

#[derive(Default)]
struct LockTable {
    files: BTreeMap<FileId, RangeLocks<LockOwner>>,
    sessions: BTreeMap<Token, LockSession>,
    recovery: Option<Recovery>,
    /// The clients that keep a file when its last name goes.
    kept: BTreeMap<FileId, BTreeSet<Token>>,
    /// Locks in all, and keepers of files.
    held: usize,
    /// Requests that wait, by a number of this table.
    waiters: BTreeMap<u64, Waiter>,
    waiters_before: u64,
    /// The number of them by session. A client that waits for its first lock has no [`LockSession`] yet.
    waiting: BTreeMap<Token, usize>,
}

impl LockTable {
    /// Extends the lease of a session, if the session is known.
    fn renew(&mut self, session: &Token, now: Instant) -> bool {
        let known = self.sessions.get_mut(session);
        let is_known = known.is_some();
        if let Some(known) = known {
            known.lease_until = now + LOCK_LEASE;
        }
        is_known
    }

    /// A session is noted durably from now on.
    fn enter(&mut self, session: Token, now: Instant) {
        self.sessions.entry(session).or_insert(LockSession {
            lease_until: now + LOCK_LEASE,
            held: 0,
            address: None,
        });
    }

    /// Whether locks from before the start may still be reclaimed, so that no other is granted.
    fn is_recovering(&self, now: Instant) -> bool {
        self.recovery.as_ref().is_some_and(|it| now < it.until)
    }

    fn conflict(&self, file: FileId, wanted: &HeldLock<LockOwner>) -> Option<LockRecord> {
        let locks = self.files.get(&file)?;
        locks.conflict(wanted).map(record)
    }

    /// Grants a lock that conflicts with none, if there is room for it.
    fn hold(&mut self, file: FileId, lock: HeldLock<LockOwner>) -> LockOutcome {
        let session = lock.owner.session;
        let of_session = self.sessions.get(&session).map_or(0, |it| it.held);
        let of_file = self.files.get(&file).map_or(0, RangeLocks::len);
        // A lock in the middle of another of the same owner makes three of them.
        let is_full = of_session + 2 > LOCKS_OF_SESSION_MAX
            || of_file + 2 > LOCKS_OF_FILE_MAX
            || self.held + 2 > LOCKS_MAX;
        if is_full {
            return LockOutcome::TooMany;
        }
        self.change(file, session, |locks| locks.hold(lock));
        LockOutcome::Done
    }

    fn release(&mut self, file: FileId, lock: &HeldLock<LockOwner>) {
        if self.files.contains_key(&file) {
            self.change(file, lock.owner.session, |locks| {
                locks.release(&lock.owner, lock.range.clone());
            });
        }
    }

    /// Keeps a file for a session, if there is room.
    fn keep(&mut self, file: FileId, session: Token) -> LockOutcome {
        let of_session = self.sessions.get(&session).map_or(0, |it| it.held);
        if of_session >= LOCKS_OF_SESSION_MAX || self.held >= LOCKS_MAX {
            return LockOutcome::TooMany;
        }
        let is_new = self.kept.entry(file).or_default().insert(session);
        self.held += usize::from(is_new);
        if let Some(session) = self.sessions.get_mut(&session) {
            session.held += usize::from(is_new);
        }
        LockOutcome::Done
    }

    fn let_go(&mut self, file: FileId, session: Token) {
        let Some(keepers) = self.kept.get_mut(&file) else {
            return;
        };
        let was_there = keepers.remove(&session);
        if keepers.is_empty() {
            self.kept.remove(&file);
        }
        self.held -= usize::from(was_there);
        if let Some(session) = self.sessions.get_mut(&session) {
            session.held = session.held.saturating_sub(usize::from(was_there));
        }
    }

    /// Changes the locks of a session on a file, and counts them.
    fn change(
        &mut self,
        file: FileId,
        session: Token,
        change: impl FnOnce(&mut RangeLocks<LockOwner>),
    ) {
        let locks = self.files.entry(file).or_default();
        let before = locks.len();
        change(locks);
        let after = locks.len();
        if locks.is_empty() {
            self.files.remove(&file);
        }
        self.held = self.held + after - before;
        if let Some(session) = self.sessions.get_mut(&session) {
            session.held = (session.held + after).saturating_sub(before);
        }
    }

    /// Releases the locks of sessions whose lease is over, and ends the recovery when its time is over.
    fn expire(&mut self, now: Instant) -> Swept {
        let before = self.held;
        let over = self.sessions.iter().filter(|(_, it)| it.lease_until <= now);
        let mut gone: Vec<Token> = over.map(|(session, _)| *session).collect();
        for session in &gone {
            self.sessions.remove(session);
        }
        if !gone.is_empty() {
            let mut held = 0;
            self.files.retain(|_, locks| {
                locks.release_all(|owner| gone.contains(&owner.session));
                held += locks.len();
                !locks.is_empty()
            });
            self.kept.retain(|_, keepers| {
                keepers.retain(|session| !gone.contains(session));
                held += keepers.len();
                !keepers.is_empty()
            });
            self.held = held;
        }
        if let Some(over) = self.recovery.take_if(|it| it.until <= now) {
            // One that is still reclaiming has locks, and the next manager is to wait for it.
            let absent = over.sessions.into_iter();
            gone.extend(absent.filter(|session| !self.sessions.contains_key(session)));
        }
        Swept {
            sessions: gone,
            released: before - self.held,
        }
    }

    fn address_of(&self, session: &Token) -> Option<IpAddr> {
        self.sessions.get(session)?.address
    }

    fn row(&self, file: FileId, lock: &HeldLock<LockOwner>, now: Duration) -> LeaseRow {
        LeaseRow {
            file,
            kind: match lock.kind {
                LockKind::Shared => LeaseKind::Shared,
                LockKind::Exclusive => LeaseKind::Exclusive,
            },
            range: Some(lock.range.clone()),
            client: self.address_of(&lock.owner.session),
            process: Some(lock.process),
            owner: Some(lock.owner.number),
            uid: None,
            waits: false,
            since: now,
        }
    }

    fn open_row(&self, file: FileId, session: &Token, now: Duration) -> LeaseRow {
        LeaseRow {
            file,
            kind: LeaseKind::Open,
            range: None,
            client: self.address_of(session),
            process: None,
            owner: None,
            uid: None,
            waits: false,
            since: now,
        }
    }

    /// Notes that a session has reclaimed all its locks.
    fn reclaimed(&mut self, session: &Token) {
        if let Some(recovery) = &mut self.recovery {
            recovery.sessions.remove(session);
        }
        self.recovery
            .take_if(|recovery| recovery.sessions.is_empty());
    }
}

/// The address of a client.
fn address_of(link: &Link) -> IpAddr {
    link.endpoint().peer_address().ip().to_canonical()
}

fn record(lock: &HeldLock<LockOwner>) -> LockRecord {
    LockRecord {
        owner: lock.owner.number,
        kind: lock.kind,
        start: *lock.range.start(),
        end: *lock.range.end(),
        process: lock.process,
    }
}

impl Locks {
    /// The locks of a manager that starts, with the sessions that had locks before.
    pub(super) fn new(runtime: Handle, noted: BTreeSet<Token>) -> Locks {
        let recovery = (!noted.is_empty()).then(|| {
            tracing::info!(
                clients = noted.len(),
                seconds = LOCK_LEASE.as_secs(),
                "waiting for clients to reclaim their file locks"
            );
            Recovery {
                until: runtime.now() + LOCK_LEASE,
                sessions: noted,
            }
        });
        Locks {
            incarnation: runtime.random().max(1),
            table: RefCell::new(LockTable {
                recovery,
                ..LockTable::default()
            }),
            released: Notify::new(),
            runtime,
        }
    }

    /// The locks that there are now.
    pub(super) fn count(&self) -> LocksCount {
        let table = self.table.borrow();
        LocksCount {
            clients: table.sessions.len(),
            locks: table.held,
        }
    }

    /// The manager begins to serve: from now on clients have one lease to reclaim their locks.
    pub(super) fn begin(&self) {
        if let Some(recovery) = &mut self.table.borrow_mut().recovery {
            recovery.until = self.runtime.now() + LOCK_LEASE;
        }
    }

    /// Tries once. `None`: the session must be noted durably first.
    fn attempt(
        &self,
        file: FileId,
        action: LockAction,
        lock: &HeldLock<LockOwner>,
    ) -> Option<LockOutcome> {
        let now = self.runtime.now();
        let mut table = self.table.borrow_mut();
        let session = lock.owner.session;
        let is_known = table.renew(&session, now);
        let recovers = |it: &Recovery| it.sessions.contains(&session);
        match action {
            LockAction::Unlock => {
                table.release(file, lock);
                self.released.notify_waiters();
                return Some(LockOutcome::Done);
            }
            LockAction::LetGo => {
                table.let_go(file, session);
                return Some(LockOutcome::Done);
            }
            LockAction::Keep => {
                if table.recovery.as_ref().is_some_and(recovers) {
                    table.enter(session, now);
                }
                let is_noted = table.sessions.contains_key(&session);
                return is_noted.then(|| table.keep(file, session));
            }
            LockAction::Reclaim if table.recovery.as_ref().is_some_and(recovers) => {
                // The session is noted from before the restart.
                table.enter(session, now);
            }
            LockAction::Reclaim if !is_known => return Some(LockOutcome::Lost),
            _ if table.is_recovering(now) => return Some(LockOutcome::Recovering),
            _ => {}
        }
        if let Some(other) = table.conflict(file, lock) {
            return Some(LockOutcome::Denied(other));
        }
        match action {
            LockAction::Test => Some(LockOutcome::Done),
            _ if !table.sessions.contains_key(&session) => None,
            _ => Some(table.hold(file, lock.clone())),
        }
    }

    /// The files that clients keep. A client whose removal was lost with the last manager sends it again, and comes
    /// back for its files later: until then any may be kept.
    pub(super) fn kept(&self) -> KeptFiles {
        let table = self.table.borrow();
        if table.is_recovering(self.runtime.now()) {
            KeptFiles::Any
        } else {
            KeptFiles::These(table.kept.keys().copied().collect())
        }
    }

    /// Whether a file is kept, or may be by a client that has not come back since the start.
    pub(super) fn may_be_kept(&self, file: FileId) -> bool {
        let table = self.table.borrow();
        table.kept.contains_key(&file) || table.is_recovering(self.runtime.now())
    }

    /// Lets one more request wait, if its session has not too many: the number of the waiter.
    fn begin_waiting(&self, waiter: Waiter) -> Option<u64> {
        let mut table = self.table.borrow_mut();
        let waiting = table.waiting.entry(waiter.lock.owner.session);
        let waiting = waiting.or_default();
        if *waiting >= LOCKS_WAITING_MAX {
            return None;
        }
        *waiting += 1;
        table.waiters_before += 1;
        let number = table.waiters_before;
        table.waiters.insert(number, waiter);
        Some(number)
    }

    fn end_waiting(&self, number: u64) {
        let mut table = self.table.borrow_mut();
        let Some(waiter) = table.waiters.remove(&number) else {
            return;
        };
        let session = waiter.lock.owner.session;
        if let Some(waiting) = table.waiting.get_mut(&session) {
            *waiting = waiting.saturating_sub(1);
            if *waiting == 0 {
                table.waiting.remove(&session);
            }
        }
    }

    /// Notes where a session's client is, for administrators.
    fn note_address(&self, link: &Link) {
        if let Some(known) = (self.table.borrow_mut().sessions).get_mut(&link.session()) {
            known.address = Some(address_of(link));
        }
    }

    /// Lists the requests that wait, the locks, and the clients that keep files.
    pub(super) fn list(&self, list: &mut LeaseList, now: Duration) {
        let table = self.table.borrow();
        let waiting = table.waiters.values().map(|waiter| LeaseRow {
            client: Some(waiter.address),
            waits: true,
            ..table.row(waiter.file, &waiter.lock, now)
        });
        let locks = table.files.iter();
        let held =
            locks.flat_map(|(file, locks)| locks.iter().map(|lock| table.row(*file, lock, now)));
        let kept = table.kept.iter();
        let kept = kept
            .flat_map(|(file, keepers)| keepers.iter().map(|it| table.open_row(*file, it, now)));
        let count = table.waiters.len() + table.held;
        list.add(count, waiting.chain(held).chain(kept));
    }
}

impl Manager {
    /// Answers Lock and RenewLocks.
    pub(super) async fn hear_of_locks(
        self: &Rc<Self>,
        link: &Link,
        request: &Message,
    ) -> Result<Vec<u8>, Status> {
        if link.peer() != Role::Client {
            return Err(Status::Perm);
        }
        let incarnation = self.locks.incarnation;
        match request.header.operation {
            Operation::RenewLocks => {
                let renew: RenewLocksRequest =
                    from_bytes(request.body()).map_err(|_| Status::Inval)?;
                let session = link.session();
                let mut table = self.locks.table.borrow_mut();
                if renew.reclaimed == incarnation {
                    table.reclaimed(&session);
                    self.locks.released.notify_waiters();
                }
                let is_known = table.renew(&session, self.runtime.now());
                Ok(to_bytes(&RenewLocksReply {
                    incarnation,
                    is_known,
                }))
            }
            _ => {
                let asked: LockRequest = from_bytes(request.body()).map_err(|_| Status::Inval)?;
                let outcome = self.lock(link, asked).await?;
                Ok(to_bytes(&LockReply {
                    incarnation,
                    outcome,
                }))
            }
        }
    }

    async fn lock(
        self: &Rc<Self>,
        link: &Link,
        request: LockRequest,
    ) -> Result<LockOutcome, Status> {
        let LockRequest {
            caller,
            file,
            action,
            lock: asked,
        } = request;
        if asked.start > asked.end {
            return Err(Status::Inval);
        }
        let (file, session) = (FileId(file), link.session());
        if matches!(
            action,
            LockAction::Try | LockAction::Wait | LockAction::Test
        ) {
            let caller = Caller::new(caller.uid, caller.gid, caller.groups());
            self.look(|view| may_lock(view, &caller, file))?;
        }
        let lock = HeldLock {
            owner: LockOwner {
                session,
                number: asked.owner,
            },
            kind: asked.kind,
            range: asked.start..=asked.end,
            process: asked.process,
        };
        if action == LockAction::Keep {
            self.look(|view| namespace::inode(view, file))?;
        }
        let locks = &self.locks;
        let outcome = match locks.attempt(file, action, &lock) {
            Some(outcome) => outcome,
            None => {
                self.note_session(session).await?;
                let again = locks.attempt(file, action, &lock);
                again.ok_or(Status::Jukebox)?
            }
        };
        locks.note_address(link);
        if action == LockAction::LetGo {
            self.forget_if_unkept(file).await;
        }
        let is_in_the_way = matches!(outcome, LockOutcome::Denied(_));
        if action != LockAction::Wait || !is_in_the_way {
            return Ok(outcome);
        }
        let waiter = Waiter {
            file,
            lock: lock.clone(),
            address: address_of(link),
        };
        let Some(waiter) = locks.begin_waiting(waiter) else {
            return Ok(outcome);
        };
        let waited = self.wait_for(link, file, &lock, outcome).await;
        locks.end_waiting(waiter);
        Ok(waited)
    }

    /// Tries again whenever a lock is released, for [`LOCK_WAIT`] at most. The request of a lost connection waits no
    /// longer: it would get a lock of which its client does not know.
    async fn wait_for(
        &self,
        link: &Link,
        file: FileId,
        lock: &HeldLock<LockOwner>,
        mut outcome: LockOutcome,
    ) -> LockOutcome {
        let locks = &self.locks;
        let until = self.runtime.now() + LOCK_WAIT;
        while matches!(outcome, LockOutcome::Denied(_))
            && self.runtime.now() < until
            && !link.is_over()
        {
            // Tries again after a wake-up and after the pause.
            let _ = timeout(&self.runtime, LOCK_RETRY, locks.released.notified()).await;
            if link.is_over() {
                break;
            }
            match locks.attempt(file, LockAction::Wait, lock) {
                Some(again) => outcome = again,
                None => break,
            }
        }
        outcome
    }

    /// Notes durably that a session has locks.
    async fn note_session(&self, session: Token) -> Result<(), Status> {
        let noted = self.beside(move |store| {
            Ok(store.commit(&mut |transaction| lock_sessions::note(transaction, &session))?)
        });
        noted.await?;
        let mut table = self.locks.table.borrow_mut();
        table.enter(session, self.runtime.now());
        Ok(())
    }

    /// Releases the locks of sessions whose lease is over, until the runtime ends.
    pub(super) async fn expire_locks(self: Rc<Self>) {
        loop {
            sleep(&self.runtime, LOCK_SWEEP).await;
            let now = self.runtime.now();
            let Swept { sessions, released } = self.locks.table.borrow_mut().expire(now);
            self.count_leases();
            let unnamed = self.unnamed.borrow().clone();
            self.forget_unkept(unnamed);
            if sessions.is_empty() {
                continue;
            }
            if released > 0 {
                let clients = sessions.len();
                tracing::warn!(clients, released, "released file locks of silent clients");
            }
            self.locks.released.notify_waiters();
            let forgotten = self.beside(move |store| {
                Ok(store
                    .commit(&mut |transaction| lock_sessions::forget(transaction, &sessions))?)
            });
            // A session that stays noted makes the next start of a manager wait in vain. `beside` has logged the error.
            let _ = forgotten.await;
        }
    }
}

/// Checks that the caller may read or write the file. The client's kernel has checked that the lock fits the open mode.
fn may_lock(view: &dyn View, caller: &Caller, file: FileId) -> Outcome<()> {
    let wanted = AccessMask(AccessMask::READ | AccessMask::MODIFY | AccessMask::EXECUTE);
    let (AccessMask(granted), inode) = namespace::access(view, caller, file, wanted)?;
    match inode.kind() {
        FileKind::Regular if granted != 0 || caller.uid == inode.uid => Ok(()),
        FileKind::Regular => Err(Status::Acces.into()),
        _ => Err(Status::Inval.into()),
    }
}

/// The sessions that had locks when the manager was last served.
pub(super) fn noted_sessions(view: &dyn View) -> Outcome<BTreeSet<Token>> {
    Ok(lock_sessions::noted(view)?)
}

#[cfg(test)]
mod tests;
