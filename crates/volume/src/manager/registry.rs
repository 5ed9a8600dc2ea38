//! The registry: addresses of the I/O servers in the manager's memory, from the servers for the clients.

use super::state::VolumeState;
use crate::limits::{
    FIND_MANAGER_ATTEMPTS, FIND_MANAGER_PAUSE, MANAGER_SILENT_AFTER, REGISTER_PAUSE,
};
use crate::link::{
    self, Answer, Connector, Handler, Identity, Link, LinkError, Message, Session, Unreachable,
};
use gannet_fabric::Provider;
use gannet_meta::groups::Groups;
use gannet_runtime::{Handle, LocalFuture, first, sleep};
use gannet_wire::volume::{
    Address, BODY_MAX, ClaimRecord, Class, Operation, RegisterRecord, Role, Status, Stripes,
    VolumeRecord, VolumeRequest,
};
use gannet_wire::xdr::{from_bytes, to_bytes};
use std::cell::{Cell, OnceCell, RefCell};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
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
    pub fn before(self: &Rc<Self>, manager: Rc<dyn Handler>) -> Rc<dyn Handler> {
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

    fn learn(&self, body: &[u8], from: IpAddr) -> Result<(), Status> {
        let said: RegisterRecord = from_bytes(body).map_err(|_| Status::Inval)?;
        if !said.address.is_known() {
            return Err(Status::Inval);
        }
        let host = if !said.address.host.is_empty() {
            said.address.host
        } else if from.is_loopback() {
            // The server shares our host, whichever way clients reach that.
            String::new()
        } else {
            from.to_string()
        };
        let address = Address {
            host,
            port: said.address.port,
        };
        let mut servers = self.servers.borrow_mut();
        let known = servers.get_mut(said.number as usize);
        let known = known.ok_or(Status::Inval)?;
        if *known != address {
            let number = said.number;
            tracing::info!(number, %address, "an I/O server says where it is");
            if let Some(volume) = self.volume.get() {
                volume.is_at(number, &address);
            }
            *known = address;
        }
        Ok(())
    }
}

/// The handler that peers of the manager meet first.
struct Reception {
    registry: Rc<Registry>,
    manager: Rc<dyn Handler>,
}

impl Handler for Reception {
    fn term(&self) -> u64 {
        self.manager.term()
    }

    fn answer(self: Rc<Self>, link: Link, request: Message) -> LocalFuture<Answer> {
        let done = match request.header.operation {
            Operation::Volume => self.registry.report(request.body()),
            Operation::Register if link.peer() == Role::IoServer => {
                let from = link.endpoint().peer_address().ip();
                match self.registry.learn(request.body(), from) {
                    // The manager notes that the server has a folder.
                    Ok(()) => return Rc::clone(&self.manager).answer(link, request),
                    Err(status) => Err(status),
                }
            }
            Operation::Register => Err(Status::Perm),
            _ => return Rc::clone(&self.manager).answer(link, request),
        };
        Box::pin(std::future::ready(Answer::of(done)))
    }
}

/// Why an I/O server may not serve an empty folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ClaimError {
    /// The server had a folder with data, which are missing here.
    #[error("it was served before")]
    ServedBefore,
    /// The volume has no such server.
    #[error("the manager knows no such I/O server")]
    NotKnown,
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

    /// Registers the server's address with the manager, again until it answers. From then on the manager also knows
    /// that the server has a folder.
    pub async fn register(&self) {
        let complained = Cell::new(false);
        self.insist(&complained, async |link| self.say_where(link).await)
            .await;
    }

    /// Registers the server's address again and again, for ever: a manager that has restarted does not know it.
    pub async fn keep(&self) {
        let complained = Cell::new(false);
        self.insist(&complained, async |link| {
            loop {
                self.say_where(link).await?;
                complained.set(false);
                sleep(&self.runtime, REGISTER_PAUSE).await;
            }
        })
        .await
    }

    async fn say_where(&self, link: &Link) -> Result<(), LinkError> {
        let body = to_bytes(&self.record);
        let answer = link.call(Operation::Register, Class::Metadata, &body, &[]);
        answer.await?.header.status.map_err(LinkError::Refused)
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
