//! The registry: addresses of the I/O servers in the manager's memory, from the servers for the clients.

use super::Manager;
use super::state::VolumeState;
use crate::limits::{
    FIND_MANAGER_ATTEMPTS, FIND_MANAGER_PAUSE, MANAGER_SILENT_AFTER, NUMBER_DEADLINE, NUMBER_LEASE,
    NUMBER_RENEWED_BY, REGISTER_PAUSE,
};
use crate::link::{
    self, Answer, Connector, Handler, Identity, Link, LinkError, Message, Session, Unreachable,
};
use crate::number_lease::NumberLease;
use gannet_fabric::Provider;
use gannet_meta::groups::Groups;
use gannet_runtime::{Handle, Instant, LocalFuture, first, sleep, timeout};
use gannet_wire::volume::{
    Address, BODY_MAX, ClaimRecord, Claimant, Class, NumberLeaseAnswer, NumberLeaseOutcome,
    NumberLeaseWanted, Operation, RegisterRecord, Role, Status, Stripes, Token, VolumeRecord,
    VolumeRequest,
};
use gannet_wire::xdr::{from_bytes, to_bytes};
use std::cell::{Cell, OnceCell, RefCell};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;

/// The I/O servers of a volume and their addresses.
pub struct Registry {
    name: String,
    stripes: Stripes,
    servers: RefCell<Vec<Address>>,
    groups: RefCell<Arc<Groups>>,
    /// The facts about the servers, for other threads.
    volume: OnceCell<Arc<VolumeState>>,
}

impl Registry {
    /// The registry of the volume `name`, whose I/O servers are at `servers` as far as that is known, in these groups.
    pub fn new(
        name: String,
        stripes: Stripes,
        servers: Vec<Address>,
        groups: Groups,
    ) -> Rc<Registry> {
        Rc::new(Registry {
            name,
            stripes,
            servers: RefCell::new(servers),
            groups: RefCell::new(Arc::new(groups)),
            volume: OnceCell::new(),
        })
    }

    /// Reports the name of the volume and the addresses of its I/O servers in `volume` from now on.
    pub(crate) fn report_in(&self, volume: Arc<VolumeState>) {
        volume.name(&self.name);
        for (number, address) in (0..).zip(self.servers.borrow().iter()) {
            volume.is_at(number, address);
        }
        // Called once, by the start of the manager.
        let _ = self.volume.set(volume);
    }

    /// A handler that answers requests for the registry; `manager` answers all others.
    pub fn before(self: &Rc<Self>, manager: Rc<Manager>) -> Rc<dyn Handler> {
        let registry = Rc::clone(self);
        Rc::new(Reception { registry, manager })
    }

    pub(crate) fn count(&self) -> u32 {
        u32::try_from(self.servers.borrow().len()).unwrap_or(u32::MAX)
    }

    pub(crate) fn groups(&self) -> Arc<Groups> {
        Arc::clone(&self.groups.borrow())
    }

    pub(crate) fn use_groups(&self, groups: Arc<Groups>) {
        self.groups.replace(groups);
    }

    pub(crate) fn address(&self, number: u32) -> Option<Address> {
        self.servers.borrow().get(number as usize).cloned()
    }

    fn report(&self, body: &[u8]) -> Result<Vec<u8>, Status> {
        let from: VolumeRequest = from_bytes(body).map_err(|_| Status::Inval)?;
        let mut record = VolumeRecord {
            name: self.name.clone(),
            unit: self.stripes.unit,
            width: self.stripes.width(),
            count: self.count(),
            group_count: self.groups.borrow().count(),
            servers: Vec::new(),
            groups: Vec::new(),
        };
        let mut len = to_bytes(&record).len();
        for address in self.servers.borrow().iter().skip(from.server as usize) {
            len += to_bytes(address).len();
            if len > BODY_MAX {
                return Ok(to_bytes(&record));
            }
            record.servers.push(address.clone());
        }
        let groups = self.groups();
        for group in groups.records().iter().skip(from.group as usize) {
            len += to_bytes(group).len();
            if len > BODY_MAX {
                break;
            }
            record.groups.push(group.clone());
        }
        Ok(to_bytes(&record))
    }

    /// Notes that an I/O server is at `address`; true if it was not there before.
    fn learn(&self, number: u32, address: Address) -> Result<bool, Status> {
        let mut servers = self.servers.borrow_mut();
        let known = servers.get_mut(number as usize).ok_or(Status::Inval)?;
        let is_new = *known != address;
        if is_new {
            tracing::info!(number, %address, "an I/O server says where it is");
            if let Some(volume) = self.volume.get() {
                volume.is_at(number, &address);
            }
            *known = address;
        }
        Ok(is_new)
    }
}

/// The address that a server says it has, with the host that its connection comes `from` if it names none.
fn seen_from(said: Address, from: IpAddr) -> Result<Address, Status> {
    if !said.is_known() {
        return Err(Status::Inval);
    }
    let host = if !said.host.is_empty() {
        said.host
    } else if from.is_loopback() {
        // The server shares our host, whichever way clients reach that.
        String::new()
    } else {
        from.to_string()
    };
    Ok(Address {
        host,
        port: said.port,
    })
}

/// A folder of the host from which a connection comes. Copies of a machine say that they are the same host.
fn folder_seen_from(folder: &Token, from: IpAddr) -> Token {
    let mut seen = *folder;
    let mut hasher = blake3::Hasher::new_derive_key("gannet: the folder of an I/O server, seen");
    hasher
        .update(folder)
        .update(from.to_canonical().to_string().as_bytes());
    hasher.finalize_xof().fill(&mut seen);
    seen
}

/// The handler that peers of the manager meet first.
struct Reception {
    registry: Rc<Registry>,
    manager: Rc<Manager>,
}

impl Reception {
    /// An I/O server of an earlier release says where it is. The manager notes that the server has a folder.
    async fn register(&self, link: &Link, request: &Message) -> Result<Vec<u8>, Status> {
        let said: RegisterRecord = from_bytes(request.body()).map_err(|_| Status::Inval)?;
        let address = seen_from(said.address, link.endpoint().peer_address().ip())?;
        self.manager.may_register(said.number)?;
        self.registry.learn(said.number, address)?;
        self.manager.hear_of_folder(link, request).await
    }

    /// A process wants to have, or gives up, the number of an I/O server.
    async fn lease_number(&self, link: &Link, body: &[u8]) -> Result<Vec<u8>, Status> {
        let mut wanted: NumberLeaseWanted = from_bytes(body).map_err(|_| Status::Inval)?;
        let from = link.endpoint().peer_address().ip();
        wanted.server.address = seen_from(wanted.server.address, from)?;
        wanted.claimant.folder = folder_seen_from(&wanted.claimant.folder, from);
        let learn = |number, address| {
            if self.registry.learn(number, address)? {
                // Another process may have been there, and may still answer.
                self.manager.leave(number);
            }
            Ok(())
        };
        let answer = self.manager.lease_number(wanted, learn).await?;
        Ok(to_bytes(&answer))
    }
}

impl Handler for Reception {
    fn term(&self) -> u64 {
        self.manager.term()
    }

    fn answer(self: Rc<Self>, link: Link, request: Message) -> LocalFuture<Answer> {
        let operation = request.header.operation;
        let done = match operation {
            Operation::Volume => self.registry.report(request.body()),
            Operation::Register | Operation::NumberLease if link.peer() != Role::IoServer => {
                Err(Status::Perm)
            }
            Operation::Register => {
                return Box::pin(async move { Answer::of(self.register(&link, &request).await) });
            }
            Operation::NumberLease => {
                return Box::pin(async move {
                    Answer::of(self.lease_number(&link, request.body()).await)
                });
            }
            _ => return Rc::clone(&self.manager).answer(link, request),
        };
        Box::pin(std::future::ready(Answer::of(done)))
    }
}

/// Why an I/O server may not serve its folder.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ClaimError {
    /// The server had a folder with data, which are missing here.
    #[error("it was served before")]
    ServedBefore,
    /// The volume has no such server.
    #[error("the manager knows no such I/O server")]
    NotKnown,
    /// Another process has had the number since this one had it last, and other bytes.
    #[error("another process has served it since")]
    Superseded,
    /// Another process has the number, and goes on to renew its lease.
    #[error("{} serves it", said_holder(.holder))]
    Taken {
        /// Its address; not known if it runs in the manager's process.
        holder: Address,
    },
}

fn said_holder(holder: &Address) -> String {
    if holder.is_known() {
        format!("another process, at {holder},")
    } else {
        String::from("the manager's process")
    }
}

/// A part of a connection's work.
type LocalPart<'a, T> = Pin<Box<dyn Future<Output = Result<T, LinkError>> + 'a>>;

/// An I/O server that runs apart from the manager, and how it reaches the manager.
pub struct Registration<F> {
    /// Where it runs.
    pub runtime: Handle,
    /// How it connects.
    pub provider: Rc<dyn Provider>,
    /// As whom.
    pub identity: Identity,
    /// Finds the managers, of which one is active.
    pub find: F,
    /// The server's number and address.
    pub record: RegisterRecord,
    /// This process and its folder.
    pub claimant: Claimant,
    /// The generation of its last lease; 0: none yet.
    pub generation: Cell<u64>,
}

/// The manager's word to an I/O server that asks for its number.
enum Said {
    /// It knows where the server is; the lease is noted, if it has granted one.
    Known,
    /// Another process has the number for so long, as the manager said between `asked` and now; its address, if it
    /// was heard of.
    Taken {
        asked: Instant,
        left: Duration,
        holder: Option<Address>,
    },
    /// Another process has had the number since.
    Superseded,
}

/// The leases of other processes, as far as this one has heard.
#[derive(Default)]
struct OthersLease {
    is_said: bool,
    /// When one that was heard of in this term was to end at the latest, as it was first said.
    ends: Option<Instant>,
}

impl OthersLease {
    /// Whether a process that runs renews the lease: it ends later than it did. It has `left` at some time from `asked`
    /// to `now`, so a late answer is no renewal.
    fn is_renewed(&mut self, asked: Instant, now: Instant, left: Duration) -> bool {
        debug_assert!(asked <= now);
        let first = *self.ends.get_or_insert(now + left);
        asked + left > first + NUMBER_RENEWED_BY
    }
}

impl<F: AsyncFn() -> io::Result<Vec<SocketAddr>>> Registration<F> {
    /// Asks whether this server may serve a folder without objects, again until the manager answers. `is_lost` reports
    /// that the disk of an earlier folder is lost. Files with numbers below the result may have had bytes there.
    ///
    /// # Errors
    /// See [`ClaimError`].
    pub async fn claim(&self, is_lost: bool) -> Result<u64, ClaimError> {
        let number = self.record.number;
        let body = to_bytes(&ClaimRecord { number, is_lost });
        self.insist(&Cell::new(false), async |link| {
            let answer = link.call(Operation::Claim, Class::Metadata, &body, &[]);
            let answer = answer.await?;
            match answer.header.status {
                Ok(()) => match <[u8; 8]>::try_from(answer.body()) {
                    Ok(below) => Ok(Ok(u64::from_be_bytes(below))),
                    Err(_) => Err(LinkError::Undecodable),
                },
                Err(Status::Exist) => Ok(Err(ClaimError::ServedBefore)),
                Err(Status::Inval) => Ok(Err(ClaimError::NotKnown)),
                Err(status) => Err(LinkError::Refused(status)),
            }
        })
        .await
    }

    /// Tells the manager the server's address, again until it answers. From then on the manager also knows that the
    /// server has a folder.
    ///
    /// # Errors
    /// `Taken`.
    pub async fn register(&self) -> Result<(), ClaimError> {
        let lease = NumberLease::wanted(Handle::clone(&self.runtime));
        let (complained, mut others) = (Cell::new(false), OthersLease::default());
        loop {
            let asked = async |link: &Link| self.ask_for_number(link, &lease).await;
            match self.insist(&complained, asked).await {
                Said::Known => return Ok(()),
                Said::Taken {
                    asked,
                    left,
                    holder,
                } => self.note_taken(&mut others, asked, left, holder)?,
                Said::Superseded => return Err(ClaimError::Superseded),
            }
            sleep(&self.runtime, REGISTER_PAUSE).await;
        }
    }

    /// Has the lease of the server's number renewed again and again, and tells the manager the server's address: one
    /// that has restarted does not know it. Returns when another process has the number.
    pub async fn keep(&self, lease: &NumberLease) -> ClaimError {
        let (complained, others) = (Cell::new(false), RefCell::<OthersLease>::default());
        self.insist(&complained, async |link| {
            loop {
                let mut pause = REGISTER_PAUSE;
                match self.ask_for_number(link, lease).await? {
                    Said::Known => {
                        others.take();
                        if !lease.lasts() {
                            // The manager's term is about to begin, or to be confirmed.
                            pause = FIND_MANAGER_PAUSE;
                        }
                    }
                    Said::Taken {
                        asked,
                        left,
                        holder,
                    } => {
                        let noted = self.note_taken(&mut others.borrow_mut(), asked, left, holder);
                        if let Err(error) = noted {
                            return Ok(error);
                        }
                    }
                    Said::Superseded => return Ok(ClaimError::Superseded),
                }
                complained.set(false);
                sleep(&self.runtime, pause).await;
            }
        })
        .await
    }

    /// Notes that another process has the number.
    ///
    /// # Errors
    /// `Taken`: that one has renewed its lease since it was first heard of, so it runs.
    fn note_taken(
        &self,
        others: &mut OthersLease,
        asked: Instant,
        left: Duration,
        holder: Option<Address>,
    ) -> Result<(), ClaimError> {
        if let Some(holder) = holder
            && others.is_renewed(asked, self.runtime.now(), left)
        {
            return Err(ClaimError::Taken { holder });
        }
        if !std::mem::replace(&mut others.is_said, true) {
            let (number, seconds) = (self.record.number, left.as_secs());
            tracing::warn!(
                number,
                seconds,
                "another process may still have the number: waiting for the end of its lease"
            );
        }
        Ok(())
    }

    /// Gives the lease of the number up, once: the process serves no more.
    pub(crate) async fn give_up(&self) {
        let complained = Cell::new(true);
        self.insist(&complained, async |link| {
            if link.peer_abilities().number_leases {
                self.call_for_number(link, true).await?;
            }
            Ok(())
        })
        .await;
    }

    /// Asks for the number, or asks again, and tells where the server is.
    async fn ask_for_number(&self, link: &Link, lease: &NumberLease) -> Result<Said, LinkError> {
        if !link.peer_abilities().number_leases {
            let body = to_bytes(&self.record);
            let answer = link.call(Operation::Register, Class::Metadata, &body, &[]);
            answer.await?.header.status.map_err(LinkError::Refused)?;
            lease.is_unbounded();
            return Ok(Said::Known);
        }
        let (began, asked) = (self.runtime.now(), lease.now());
        let answer = self.call_for_number(link, false).await?;
        let left = Duration::from_millis(u64::from(answer.left_ms));
        let holder = match answer.outcome {
            NumberLeaseOutcome::Granted => {
                self.generation.set(answer.generation);
                lease.grant(asked, left.min(NUMBER_LEASE));
                return Ok(Said::Known);
            }
            NumberLeaseOutcome::Begins | NumberLeaseOutcome::Ended => {
                lease.is_pending(asked, false);
                return Ok(Said::Known);
            }
            NumberLeaseOutcome::Superseded => return Ok(Said::Superseded),
            NumberLeaseOutcome::Taken => Some(answer.holder),
            NumberLeaseOutcome::Waits => None,
        };
        lease.is_pending(asked, true);
        Ok(Said::Taken {
            asked: began,
            left,
            holder,
        })
    }

    async fn call_for_number(
        &self,
        link: &Link,
        ends: bool,
    ) -> Result<NumberLeaseAnswer, LinkError> {
        let body = to_bytes(&NumberLeaseWanted {
            server: self.record.clone(),
            claimant: self.claimant,
            generation: self.generation.get(),
            ends,
        });
        let answer = link.call(Operation::NumberLease, Class::Metadata, &body, &[]);
        // Shorter than the lease: a manager that has vanished may be back at another address.
        let answer = timeout(&self.runtime, NUMBER_DEADLINE, answer).await;
        let answer = answer.map_err(|_| LinkError::TimedOut)??;
        answer.header.status.map_err(LinkError::Refused)?;
        from_bytes(answer.body()).map_err(|_| LinkError::Undecodable)
    }

    /// Connects to the manager and runs `work`, until that succeeds. Logs a failure once, and again after a reset.
    async fn insist<T>(
        &self,
        complained: &Cell<bool>,
        work: impl AsyncFn(&Link) -> Result<T, LinkError>,
    ) -> T {
        let (pool, session) = (link::Pool::new(), Session::new(&self.runtime));
        let attempts = Cell::new(0_u32);
        loop {
            let worked = async {
                let managers = (self.find)().await;
                let managers = managers.map_err(|error| Unreachable::NoAddress(error.into()))?;
                let connector = Connector {
                    runtime: &self.runtime,
                    provider: &self.provider,
                    pool: &pool,
                    identity: &self.identity,
                    session,
                };
                let (_, link) = connector.connect_to_active(&managers).await?;
                attempts.set(0);
                if managers.len() == 1 {
                    return work(&link).await;
                }
                // Another one may be active before this one's calls are given up.
                let (worked, watched) = (work(&link), async {
                    let mut oldest = None;
                    loop {
                        sleep(&self.runtime, MANAGER_SILENT_AFTER).await;
                        let before = std::mem::replace(&mut oldest, link.oldest_call());
                        if oldest.is_some() && oldest == before {
                            return Err(LinkError::TimedOut);
                        }
                    }
                });
                let both: [LocalPart<'_, T>; 2] = [Box::pin(worked), Box::pin(watched)];
                first(both).await
            };
            match worked.await {
                Ok(done) => return done,
                Err(error) if !complained.replace(true) => {
                    let number = self.record.number;
                    tracing::warn!(number, %error, "the manager is not in touch: trying again");
                }
                Err(_) => {}
            }
            attempts.set(attempts.get().saturating_add(1));
            let pause = if attempts.get() <= FIND_MANAGER_ATTEMPTS {
                FIND_MANAGER_PAUSE
            } else {
                REGISTER_PAUSE
            };
            sleep(&self.runtime, pause).await;
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use gannet_wire::volume::GroupRecord;

    #[test]
    fn a_late_answer_is_no_renewal_of_a_lease() {
        let at = |ms| Instant::START + Duration::from_millis(ms);
        let left = |ms| Duration::from_millis(ms);
        let mut others = OthersLease::default();
        assert!(!others.is_renewed(at(0), at(10), left(31_000)));
        // The manager had answered at once, and the answer took five seconds.
        assert!(!others.is_renewed(at(500), at(5500), left(30_500)));
        assert!(!others.is_renewed(at(6000), at(6010), left(25_000)));
        // The process has asked again.
        assert!(others.is_renewed(at(6500), at(6510), left(31_000)));
    }

    #[test]
    fn a_large_volume_is_told_in_pages() {
        let address = |number: u16| Address {
            host: format!("{number:0>200}"),
            port: number,
        };
        let servers: Vec<Address> = (0..256).map(address).collect();
        let groups: Vec<GroupRecord> = (0..1024).map(|it| GroupRecord::of(it % 256)).collect();
        let stripes = Stripes::everywhere(4096);
        let groups_told = Groups::new(groups.clone());
        let registry = Registry::new(String::from("large"), stripes, servers.clone(), groups_told);
        let (mut told, mut pages) = ((Vec::new(), Vec::new()), 0);
        while told.0.len() < 256 || told.1.len() < 1024 {
            let from = VolumeRequest {
                server: told.0.len() as u32,
                group: told.1.len() as u32,
            };
            let page = registry.report(&to_bytes(&from)).unwrap();
            assert!(page.len() <= BODY_MAX);
            let page: VolumeRecord = from_bytes(&page).unwrap();
            assert_eq!((page.count, page.group_count), (256, 1024));
            assert!(!page.servers.is_empty() || !page.groups.is_empty());
            told.0.extend(page.servers);
            told.1.extend(page.groups);
            pages += 1;
        }
        assert_eq!(told, (servers, groups));
        assert!(pages < 20, "{pages}");
        assert!(registry.report(&[0; 4]).is_err());
    }
}
