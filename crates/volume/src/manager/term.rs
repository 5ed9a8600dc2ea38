//! The manager's term: one process at a time serves a volume, from metadata that lacks no answered change.
//!
//! A manager that starts asks the I/O servers for the latest term that they know. The manager ends if its metadata is
//! an older copy: it lacks that term, or ends before the last change that a server has heard of. Otherwise the manager
//! begins the next term, once a majority of the servers has accepted it. These servers then refuse capabilities of
//! earlier terms.
//!
//! The term is a lease ([`super::lease`]): the manager answers while half of the servers have confirmed the term within
//! [`TERM_LEASE`]. Any half shares a server with any majority of the same set, and a successor waits for
//! [`TERM_LEASE_OVER`] after its majority. A manager that was paused or cut off is therefore silent before another one
//! speaks. The confirmations come with heartbeats, so a change costs no message of its own.
//!
//! When servers were added since the last term, the next one needs a majority of the former servers too. Half of two
//! servers and a majority of three may share none, and both managers would answer.

mod store;
mod telling;

use super::lease::Lease;
use super::state::{ManagerCondition, VolumeState};
use super::{Manager, look};
use crate::limits::{
    ANSWERS_WITHIN, CONFIRM_DEADLINE, CONNECT_AGAIN_AFTER, FORCE_PATIENCE, NUMBER_LEASE_LOOK,
    TERM_DEADLINE, TERM_HEARTBEAT, TERM_LEASE, TERM_LEASE_OVER, TERM_PATIENCE, TERM_PAUSE,
};
use crate::link::{EndReason, Link, LinkError};
use crate::manager::IoServers;
use crate::watched::Watched;
use gannet_meta::namespace::{Failure, Outcome};
use gannet_meta::{Followers, MetaStore, terms};
use gannet_runtime::{Handle, Instant, LocalFuture, all, both, run_blocking, sleep, timeout};
use gannet_wire::volume::{Class, Operation, Status, Term, TermAnswer, TermCall, TermStage};
use gannet_wire::xdr::{from_bytes, to_bytes};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use telling::Told;
use thiserror::Error;
use tokio::sync::Notify;

/// The reason why a manager must not serve its volume, or must stop, with the remedy.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TermError {
    /// Another manager has served the volume since this metadata was copied, or still runs.
    #[error(
        "its metadata is an older copy, or another manager runs: I/O server {server} knows term {known}, this metadata has lived through term {own} (stop this one and serve the newest metadata; --force-term serves this copy and gives up what was done since)"
    )]
    Superseded {
        /// The I/O server that knows the later term.
        server: u32,
        /// The term that the server knows.
        known: u64,
        /// The last term of this metadata.
        own: u64,
    },
    /// The metadata lacks changes that were answered.
    #[error(
        "its metadata is an older copy: I/O server {server} has heard of change {heard}, this metadata ends with change {own} (serve the newest metadata; --force-term serves this copy and gives up what was done since)"
    )]
    Behind {
        /// The I/O server that has heard of the later change.
        server: u32,
        /// The last change that the server has heard of.
        heard: u64,
        /// The last change of this metadata.
        own: u64,
    },
    /// Another manager began a later term while this one ran.
    #[error(
        "another manager of the volume has taken over with term {known}, as I/O server {server} says; this one had term {own} (with a journal in an engine, start this one again; else leave one of them stopped: changes of its last two seconds may be in the metadata of this one alone)"
    )]
    Replaced {
        /// The I/O server that knows the later term.
        server: u32,
        /// The term of the other manager.
        known: u64,
        /// The term of this manager.
        own: u64,
    },
    /// The term cannot be written to the metadata, for this reason.
    #[error("its term cannot be noted: {0}")]
    Store(String),
    /// Another manager has the journal, or it cannot be known, for this reason.
    #[error("the manager does not have the journal of its metadata any more: {0}")]
    JournalLost(String),
    /// Half of the I/O servers do not answer this manager, and another one may reach them.
    #[error("half of the I/O servers do not answer this manager: another one takes over")]
    Yields,
    /// An operator has another one take over.
    #[error("another manager takes over, as it was asked to")]
    Switched,
    /// The process ends.
    #[error("its term ends with the process")]
    Stopping,
}

/// The state of the manager's term.
#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    Waiting,
    Held,
    Ended(TermError),
}

/// The manager's term, and the I/O servers' answers about it.
pub(super) struct Office {
    runtime: Handle,
    servers: Rc<dyn IoServers>,
    term: Cell<Term>,
    state: Watched<State>,
    /// The facts about the servers, for other threads.
    volume: Arc<VolumeState>,
    /// The last change that is durable.
    change: Cell<u64>,
    /// How long half of the servers have confirmed the term for.
    lease: Watched<Lease>,
    /// How long the store is this process's alone, and since when, if others may take it over.
    store_renewed: Cell<Option<(Duration, Instant)>>,
    /// The other managers, as they were found last.
    followers: RefCell<Option<Followers>>,
    /// The operator lets the term begin without a majority.
    may_lack_majority: Cell<bool>,
    /// The term was begun without a majority, as the operator wished.
    is_forced: Cell<bool>,
    /// The servers that did not answer the last time, in the order of their numbers.
    away: RefCell<BTreeSet<u32>>,
    /// The connections on which the servers answered last.
    links: RefCell<BTreeMap<u32, Link>>,
    told: RefCell<BTreeMap<u32, Told>>,
    /// How often servers were told.
    tellings: Cell<u64>,
    /// Servers with a new connection, which may have restarted and have not been told yet what they forgot.
    returned: RefCell<BTreeSet<u32>>,
    has_returned: Notify,
}

/// The answers of the I/O servers by their numbers; `None`: the server did not answer.
type Answers = Vec<Option<TermAnswer>>;

impl Office {
    /// An office without a term yet; `change` is the last change of the metadata.
    pub(super) fn new(
        runtime: &Handle,
        servers: &Rc<dyn IoServers>,
        change: u64,
        volume: &Arc<VolumeState>,
    ) -> Rc<Office> {
        Rc::new(Office {
            runtime: Handle::clone(runtime),
            servers: Rc::clone(servers),
            term: Cell::default(),
            state: Watched::new(State::Waiting),
            volume: Arc::clone(volume),
            change: Cell::new(change),
            lease: Watched::new(Lease::default()),
            store_renewed: Cell::default(),
            followers: RefCell::default(),
            may_lack_majority: Cell::new(false),
            is_forced: Cell::new(false),
            away: RefCell::default(),
            links: RefCell::default(),
            told: RefCell::default(),
            tellings: Cell::new(0),
            returned: RefCell::default(),
            has_returned: Notify::new(),
        })
    }

    /// The number of the term, which goes into capabilities.
    pub(super) fn number(&self) -> u64 {
        self.term.get().number
    }

    pub(super) fn is_held(&self) -> bool {
        *self.state.borrow() == State::Held
    }

    /// Waits until the term has begun.
    ///
    /// # Errors
    /// The manager must not serve.
    pub(super) async fn begun(&self) -> Result<(), TermError> {
        self.state.wait_for(|state| *state != State::Waiting).await;
        match &*self.state.borrow() {
            State::Ended(error) => Err(error.clone()),
            _ => Ok(()),
        }
    }

    /// As [`Office::begun`], for a caller of the manager; waits for at most [`TERM_PATIENCE`].
    ///
    /// # Errors
    /// `Jukebox`: the term has not begun, or the manager must not serve. The caller retries, perhaps at another
    /// manager.
    pub(super) async fn must_be_held(&self) -> Result<(), Status> {
        let begun = timeout(&self.runtime, TERM_PATIENCE, self.begun()).await;
        match begun {
            Ok(Ok(())) if self.is_held() => Ok(()),
            _ => Err(Status::Jukebox),
        }
    }

    /// Notes a durable change. The I/O servers hear of it with the next heartbeat.
    pub(super) fn note_change(&self, change: u64) {
        self.change.set(self.change.get().max(change));
    }

    /// The time that counts for leases: others may take over while the machine is suspended.
    fn now(&self) -> Instant {
        self.runtime.now_with_suspend()
    }

    /// Whether half of the I/O servers, and the engine, have confirmed the term recently enough.
    fn is_leased(&self) -> bool {
        self.is_held() && self.lease.borrow().lasts(self.now())
    }

    /// Whether a question or a change may be answered now. Where the operator gave up a majority, questions need none.
    pub(super) fn may_answer(&self, is_question: bool) -> bool {
        let is_forced = self.is_forced.get() && self.is_held() && self.has_store();
        self.is_leased() || (is_question && is_forced)
    }

    /// The outcome of a call that was done before, once the manager may answer. Waits for at most
    /// [`CONFIRM_DEADLINE`].
    ///
    /// # Errors
    /// The call's own, or `Jukebox`: too few I/O servers answer, or another manager has taken over. A change may hold
    /// or not.
    pub(super) async fn within_lease<T>(
        &self,
        done: Result<T, Status>,
        is_question: bool,
    ) -> Result<T, Status> {
        if self.may_answer(is_question) {
            return done;
        }
        let lasts = self.lease_begins();
        match timeout(&self.runtime, CONFIRM_DEADLINE, lasts).await {
            Ok(()) if self.is_leased() => done,
            _ => Err(Status::Jukebox),
        }
    }

    pub(super) async fn lease_begins(&self) {
        let now = || self.now();
        self.lease.wait_for(|lease| lease.lasts(now())).await;
    }

    /// Waits until the lease is over; at once if there is none.
    async fn lease_ends(&self) {
        loop {
            let (now, until) = (self.now(), self.lease.borrow().until());
            match until.filter(|until| now < *until) {
                // The timer stands still while the machine is suspended, unlike the lease.
                Some(until) => sleep(&self.runtime, NUMBER_LEASE_LOOK.min(until - now)).await,
                None => return,
            }
        }
    }

    /// The I/O servers that do not answer, as far as the manager knows.
    pub(super) fn away(&self) -> Arc<[u32]> {
        self.away.borrow().iter().copied().collect()
    }

    /// The I/O servers that have a new connection since the last call; waits for some.
    pub(super) async fn returned(&self) -> BTreeSet<u32> {
        loop {
            let returned = self.returned.take();
            if !returned.is_empty() {
                return returned;
            }
            self.has_returned.notified().await;
        }
    }

    /// Notes the connection on which an I/O server answers. The server counts as away as soon as the connection ends:
    /// until the next heartbeat, new files would be placed on a server that was killed.
    fn note_link(self: &Rc<Self>, number: u32, link: Link) {
        let mut links = self.links.borrow_mut();
        if links.get(&number).is_some_and(|last| last.is(&link)) {
            return;
        }
        links.insert(number, link.clone());
        let office = Rc::clone(self);
        let watching = async move {
            link.ended().await;
            let now = office.runtime.wall_clock();
            office.volume.has_ended(number, now);
            office.note_answer(number, false);
        };
        self.runtime
            .spawn("I/O server of the manager", Box::pin(watching));
        self.returned.borrow_mut().insert(number);
        self.has_returned.notify_one();
    }

    /// Notes whether an I/O server answers.
    fn note_answer(&self, number: u32, answers: bool) {
        let mut away = self.away.borrow_mut();
        let is_changed = if answers {
            away.remove(&number)
        } else {
            away.insert(number)
        };
        if is_changed && answers {
            tracing::info!(number, "an I/O server answers again");
        } else if is_changed {
            tracing::warn!(number, "an I/O server does not answer: new files avoid it");
        }
    }

    /// Begins a term; waits until a majority of the I/O servers has accepted it.
    ///
    /// # Errors
    /// - `Superseded`, `Behind`: the metadata is an older copy.
    /// - `Store`: the metadata cannot be read or written.
    pub(super) async fn begin(
        self: &Rc<Self>,
        store: &Arc<dyn MetaStore>,
        force: bool,
    ) -> Result<(), TermError> {
        self.may_lack_majority.set(force);
        self.begin_store(store).await?;
        let former = look(&**store, terms::servers_of_last_term).map_err(unnoted)?;
        let has_majority = |answers: &[bool]| has_majorities(answers, former);
        let (began, mut missing, mut proposed) = (self.runtime.now(), Vec::new(), None);
        let mut has_predecessor = false;
        loop {
            self.must_not_have_ended()?;
            let answers = self.ask_all(TermStage::Ask, Term::default()).await;
            let answered: Vec<bool> = answers.iter().map(Option::is_some).collect();
            let is_forced = force && self.runtime.now() >= began + FORCE_PATIENCE;
            if !has_majority(&answered) && !is_forced {
                self.complain(&answers, &mut missing);
                sleep(&self.runtime, TERM_PAUSE).await;
                continue;
            }
            let own = look(&**store, terms::own_terms).map_err(unnoted)?;
            let is_known = |it: &Option<TermAnswer>| it.is_some_and(|it| it.known.number > 0);
            // Later rounds find the term that this manager has proposed itself.
            has_predecessor |=
                proposed.is_none() && (!own.is_empty() || answers.iter().any(is_known));
            let judged = judge(&own, self.change.get(), &answers);
            // A server that does not answer may know of a later copy.
            let is_newest = judged.is_ok() && has_majority(&answered);
            if !force {
                judged?;
            }
            let term = self.next_term(&own, &answers, proposed);
            // The term is durable before a server hears of it. A restarted manager would else take it for another
            // manager's.
            if proposed != Some(term) {
                self.note(store, term, is_newest).await?;
                proposed = Some(term);
            }
            let accepted = self.ask_all(TermStage::Propose, term).await;
            let accepted = accepted.iter().map(|it| it.is_some_and(|it| it.accepted));
            let accepted: Vec<bool> = accepted.collect();
            if has_majority(&accepted) || is_forced {
                self.note_servers(store, former).await?;
                self.servers.begin_term(term.number);
                let telling = self.tell_all_groups(&accepted);
                let telling = timeout(&self.runtime, TERM_DEADLINE, telling);
                // A manager before this one may still answer, by the last confirmation of one of these servers.
                let may_answer = has_predecessor && !store.follows_release();
                let pause = may_answer.then_some(TERM_LEASE_OVER);
                let waiting = sleep(&self.runtime, pause.unwrap_or_default());
                let _ = both(telling, waiting).await;
                self.must_not_have_ended()?;
                self.is_forced.set(!has_majority(&accepted));
                self.term.set(term);
                let mut lease = Lease::of(self.servers.count() as usize, TERM_LEASE);
                let of_store = self.store_renewed.get();
                of_store.inspect(|(lasts, renewed)| lease.renew_store(*lasts, *renewed));
                self.lease.set(lease);
                self.state.set(State::Held);
                self.volume.holds(term.number);
                self.volume.manager_is(self.unconfirmed());
                let accepted = accepted.iter().filter(|accepted| **accepted).count();
                tracing::info!(term = term.number, accepted, "the manager's term begins");
                return Ok(());
            }
            sleep(&self.runtime, TERM_PAUSE).await;
        }
    }

    /// Checks that the term has not ended before its beginning: another manager may have the store meanwhile.
    ///
    /// # Errors
    /// Why it has ended.
    fn must_not_have_ended(&self) -> Result<(), TermError> {
        match &*self.state.borrow() {
            State::Ended(error) => Err(error.clone()),
            _ => Ok(()),
        }
    }

    /// The condition of a manager without a lease. Where the operator gave up a majority, it answers questions.
    fn unconfirmed(&self) -> ManagerCondition {
        if self.is_forced.get() {
            ManagerCondition::Serving
        } else {
            ManagerCondition::Unconfirmed
        }
    }

    /// Logs the I/O servers that the manager waits for, when their set changes.
    fn complain(&self, answers: &Answers, missing: &mut Vec<usize>) {
        let silent = answers.iter().enumerate().filter(|(_, it)| it.is_none());
        let silent: Vec<usize> = silent.map(|(number, _)| number).collect();
        if silent != *missing {
            tracing::warn!(
                io_servers = super::listed(&silent),
                "the manager serves when a majority of the I/O servers has accepted its term: waiting for these (--force-term if they are gone for good)"
            );
            *missing = silent;
        }
    }

    /// A term later than all known ones, or the proposed one again while no server knows a later one.
    fn next_term(&self, own: &[Term], answers: &Answers, proposed: Option<Term>) -> Term {
        let known = answers.iter().flatten().map(|it| it.known);
        let latest = known.max_by_key(|it| it.number).unwrap_or_default();
        if let Some(term) = proposed
            && (latest == term || latest.number < term.number)
        {
            return term;
        }
        let own = own.last().map_or(0, |term| term.number);
        let token = u128::from(self.runtime.random()) << 64 | u128::from(self.runtime.random());
        Term {
            number: latest.number.max(own).saturating_add(1),
            token: token.to_be_bytes(),
        }
    }

    /// Makes a term durable in metadata that may not be the newest: its settled sizes do not hold then.
    async fn note(
        &self,
        store: &Arc<dyn MetaStore>,
        term: Term,
        is_newest: bool,
    ) -> Result<(), TermError> {
        let store = Arc::clone(store);
        let noting = run_blocking(&self.runtime, move || -> Outcome<()> {
            let mut begun = Ok(());
            store.commit(&mut |transaction| {
                begun = terms::begin_term(transaction, term).and_then(|()| {
                    if is_newest {
                        return Ok(());
                    }
                    terms::distrust_settled(transaction, term)
                });
                Ok(())
            })?;
            begun
        });
        let noted = noting.await;
        noted.map_err(|_| TermError::Stopping)?.map_err(unnoted)
    }

    /// Makes the number of servers durable whose majority has accepted the term. Before that, a successor would not ask
    /// the former servers.
    async fn note_servers(
        &self,
        store: &Arc<dyn MetaStore>,
        former: Option<u32>,
    ) -> Result<(), TermError> {
        let count = self.servers.count();
        if former == Some(count) {
            return Ok(());
        }
        let store = Arc::clone(store);
        let noting = run_blocking(&self.runtime, move || -> Outcome<()> {
            Ok(store.commit(&mut |it| terms::note_servers_of_term(it, count))?)
        });
        let noted = noting.await;
        noted.map_err(|_| TermError::Stopping)?.map_err(unnoted)
    }

    /// Asks all I/O servers at the same time.
    async fn ask_all(self: &Rc<Self>, stage: TermStage, term: Term) -> Answers {
        let calls = (0..self.servers.count()).map(|number| {
            let office = Rc::clone(self);
            let call: LocalFuture<Option<TermAnswer>> = Box::pin(async move {
                match office.ask(number, stage, term).await {
                    Ok(answer) => Some(answer),
                    Err(error) => {
                        tracing::debug!(number, %error, "no answer about the term");
                        None
                    }
                }
            });
            call
        });
        all(calls).await
    }

    async fn ask(
        self: &Rc<Self>,
        number: u32,
        stage: TermStage,
        term: Term,
    ) -> Result<TermAnswer, LinkError> {
        let body = to_bytes(&TermCall {
            stage,
            term,
            change: self.change.get(),
        });
        let asking = async {
            let link = Rc::clone(&self.servers).link(number).await?;
            let answer = link.call(Operation::Term, Class::Metadata, &body, &[]);
            let answer = answer.await?;
            self.note_link(number, link);
            answer.header.status.map_err(LinkError::Refused)?;
            from_bytes(answer.body()).map_err(|_| LinkError::Undecodable)
        };
        let asked = timeout(&self.runtime, TERM_DEADLINE, asking).await;
        let asked = asked.unwrap_or(Err(LinkError::TimedOut));
        let now = self.runtime.wall_clock();
        match &asked {
            Ok(_) => self.volume.answers(number, now),
            Err(error) => self.volume.fails(number, error, now),
        }
        asked
    }

    /// Whether an I/O server has answered a short while ago.
    pub(super) fn answers(&self, number: u32) -> bool {
        self.silent_for(number)
            .is_some_and(|silent| silent < ANSWERS_WITHIN)
    }

    /// The time since an I/O server was asked for its last answer in this term.
    pub(super) fn silent_for(&self, number: u32) -> Option<Duration> {
        let asked = self.lease.borrow().last_asked(number)?;
        Some(self.now().duration_since(asked))
    }

    /// A server is out of a group: nobody shall wait for it longer, unless it answers the manager.
    pub(super) fn is_out(&self, number: u32) {
        if let Some(link) = self.links.borrow().get(&number)
            && !self.answers(number)
        {
            link.abort(EndReason::TakenOver);
        }
    }

    /// Confirms the term with all I/O servers at intervals, and tells them the last change; returns the reason when the
    /// term ends.
    pub(super) async fn keep(self: Rc<Self>) -> TermError {
        for number in 0..self.servers.count() {
            let telling = Rc::clone(&self).keep_telling(number);
            self.runtime.spawn("manager's term", Box::pin(telling));
        }
        let ended = self
            .state
            .wait_for(|state| matches!(state, State::Ended(_)));
        ended.await;
        match &*self.state.borrow() {
            State::Ended(error) => error.clone(),
            _ => TermError::Stopping,
        }
    }

    async fn keep_telling(self: Rc<Self>, number: u32) {
        let term = self.term.get();
        while self.is_held() {
            // The lease counts from before the request: the server may accept a successor right after its answer.
            let asked = self.now();
            match self.ask(number, TermStage::Hold, term).await {
                Ok(answer) if answer.accepted => {
                    self.note_answer(number, true);
                    self.lease.set_if(|lease| {
                        lease.confirm(number, asked);
                        true
                    });
                    let telling = Rc::clone(&self).tell_groups(number);
                    self.runtime.spawn("groups", Box::pin(telling));
                    sleep(&self.runtime, TERM_HEARTBEAT).await;
                }
                Ok(answer) => self.end(TermError::Replaced {
                    server: number,
                    known: answer.known.number,
                    own: term.number,
                }),
                Err(_) => {
                    self.note_answer(number, false);
                    sleep(&self.runtime, CONNECT_AGAIN_AFTER).await;
                }
            }
        }
    }

    /// Ends the term: the manager must not serve any more.
    pub(super) fn end(&self, error: TermError) {
        if error == TermError::Switched {
            tracing::info!(%error, "the manager ends");
        } else {
            tracing::error!(%error, "the manager ends");
        }
        let ended = ManagerCondition::Ended(error.to_string());
        self.volume.manager_is(ended);
        self.state.set(State::Ended(error));
    }
}

/// Whether a majority of the servers says yes, and of the first `former` ones.
fn has_majorities(answers: &[bool], former: Option<u32>) -> bool {
    let is_majority = |of: &[bool]| of.iter().filter(|yes| **yes).count() > of.len() / 2;
    let former = former.map_or(answers.len(), |former| former as usize);
    let former = answers.get(..former).unwrap_or(answers);
    is_majority(answers) && (former.is_empty() || is_majority(former))
}

/// Checks that metadata with these terms, and with this last change, is the newest that the I/O servers know of.
fn judge(own: &[Term], change: u64, answers: &Answers) -> Result<(), TermError> {
    let last = own.last().map_or(0, |term| term.number);
    for (server, answer) in (0..).zip(answers) {
        let Some(answer) = answer.filter(|it| it.known.number > 0) else {
            continue;
        };
        let known = answer.known.number;
        if !own.contains(&answer.known) {
            // An earlier term that this metadata lacks got no majority.
            if known >= last {
                let own = last;
                return Err(TermError::Superseded { server, known, own });
            }
        } else if answer.change > change {
            let (heard, own) = (answer.change, change);
            return Err(TermError::Behind { server, heard, own });
        }
    }
    Ok(())
}

fn unnoted(failure: Failure) -> TermError {
    TermError::Store(failure.to_string())
}

impl Manager {
    /// Begins a term and serves the volume: runs intents, and removes old replies, file locks and attribute records.
    /// Returns when the manager must not serve any more; its process must then end.
    ///
    /// With `force` the manager serves an older copy too, and waits only briefly for I/O servers that do not answer.
    pub async fn rule(self: Rc<Self>, force: bool) -> TermError {
        if let Err(error) = self.office.begin(&self.store, force).await {
            self.office.end(error.clone());
            return error;
        }
        match self.look(terms::settled_since) {
            Ok(since) => self.settled_since.set(since),
            Err(_) => {
                let error = TermError::Store("which sizes hold is not known".to_owned());
                self.office.end(error.clone());
                return error;
            }
        }
        self.sizes.begin();
        self.locks.begin();
        let intents = Rc::clone(&self).run_intents();
        self.runtime.spawn("intents", Box::pin(intents));
        let revoking = Rc::clone(&self).revoke_again();
        self.runtime.spawn("revocations", Box::pin(revoking));
        let settling = Rc::clone(&self).settle_sizes();
        self.runtime.spawn("settled sizes", Box::pin(settling));
        let forgetting = Rc::clone(&self).forget_replies();
        self.runtime.spawn("old answers", Box::pin(forgetting));
        let expiring = Rc::clone(&self).expire_locks();
        self.runtime.spawn("file locks", Box::pin(expiring));
        let expiring = Rc::clone(&self).expire_records();
        self.runtime.spawn("attribute records", Box::pin(expiring));
        let replacing = Rc::clone(&self).replace_first_records();
        self.runtime.spawn("first records", Box::pin(replacing));
        let watching = Rc::clone(&self).watch_lease();
        self.runtime.spawn("manager's lease", Box::pin(watching));
        let error = Rc::clone(&self.office).keep().await;
        self.records.suspend(true);
        error
    }

    /// Keeps clients from reading attribute records while the manager may not answer: another manager may change the
    /// files.
    async fn watch_lease(self: Rc<Self>) {
        self.office.lease_begins().await;
        loop {
            self.state.manager_is(ManagerCondition::Serving);
            self.office.lease_ends().await;
            self.records.suspend(true);
            self.state.manager_is(self.office.unconfirmed());
            tracing::warn!(
                "half of the I/O servers must confirm the manager's term, and fewer answer: calls wait"
            );
            self.office.lease_begins().await;
            if !self.office.is_held() {
                return;
            }
            self.records.suspend(false);
            tracing::info!("half of the I/O servers confirm the manager's term again");
        }
    }

    /// Waits until the manager's term has begun.
    ///
    /// # Errors
    /// The manager must not serve.
    pub async fn has_begun(&self) -> Result<(), TermError> {
        self.office.begun().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn term(number: u64, token: u8) -> Term {
        Term {
            number,
            token: [token; 16],
        }
    }

    fn answer(known: Term, change: u64) -> Option<TermAnswer> {
        Some(TermAnswer {
            accepted: true,
            known,
            change,
        })
    }

    #[test]
    fn metadata_is_the_newest_if_it_has_every_term_that_servers_know() {
        let own = [term(1, 1), term(2, 2), term(3, 3)];
        let fresh = answer(Term::default(), 0);
        for (own, change, answers) in [
            (&own[..0], 0, vec![fresh, None]),
            (&own[..], 9, vec![fresh, answer(term(3, 3), 9)]),
            (
                &own[..],
                10,
                vec![answer(term(3, 3), 9), answer(term(2, 2), 7)],
            ),
            // The latest own term was proposed and never begun.
            (&own[..], 9, vec![answer(term(2, 2), 9)]),
            // Another manager's term, which got no majority.
            (
                &own[..],
                9,
                vec![answer(term(2, 7), 9), answer(term(3, 3), 9)],
            ),
        ] {
            assert_eq!(judge(own, change, &answers), Ok(()), "{answers:?}");
        }
    }

    #[test]
    fn an_older_copy_of_the_metadata_is_refused() {
        let own = [term(1, 1), term(2, 2)];
        let judged = |own: &[Term], change, known, heard| {
            judge(own, change, &vec![None, answer(known, heard)])
        };
        let superseded = |known, own| {
            let server = 1;
            Err(TermError::Superseded { server, known, own })
        };
        assert_eq!(judged(&own, 9, term(3, 3), 9), superseded(3, 2));
        // Another manager's term, begun at the same time.
        assert_eq!(judged(&own, 9, term(2, 3), 9), superseded(2, 2));
        // Metadata from before the volume had terms.
        assert_eq!(judged(&[], 9, term(1, 1), 0), superseded(1, 0));
        let behind = Err(TermError::Behind {
            server: 1,
            heard: 10,
            own: 9,
        });
        assert_eq!(judged(&own, 9, term(2, 2), 10), behind);
    }
}
