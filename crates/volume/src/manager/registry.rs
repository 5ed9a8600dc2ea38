//! Where the I/O servers are: kept in the manager's memory, told to clients, learned from the servers.

use crate::calls::encode;
use crate::limits::{HELLO_DEADLINE, REGISTER_PAUSE};
use crate::link::{self, Answer, Handler, Identity, Link, LinkError, Message, Session};
use crate::meta::Stripes;
use gannet_fabric::Provider;
use gannet_runtime::{Handle, LocalFuture, sleep, timeout};
use gannet_vfs::Status;
use gannet_wire::nfs3::from_bytes;
use gannet_wire::volume::{
    Address, BODY_MAX, Class, Hello, Operation, RegisterRecord, Role, VolumeRecord,
};
use gannet_wire::xdr::Decoder;
use std::cell::{Cell, RefCell};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

/// The I/O servers of a volume and where they are.
pub struct Registry {
    name: String,
    stripes: Stripes,
    servers: RefCell<Vec<Address>>,
}

impl Registry {
    /// Of the volume called `name`, whose I/O servers are at `servers` as far as that is known.
    pub fn new(name: String, stripes: Stripes, servers: Vec<Address>) -> Rc<Registry> {
        Rc::new(Registry {
            name,
            stripes,
            servers: RefCell::new(servers),
        })
    }

    /// Answers what is about the registry, and has `manager` answer all else.
    pub fn before(self: &Rc<Self>, manager: Rc<dyn Handler>) -> Rc<dyn Handler> {
        let registry = Rc::clone(self);
        Rc::new(Reception { registry, manager })
    }

    pub(crate) fn count(&self) -> u32 {
        u32::try_from(self.servers.borrow().len()).unwrap_or(u32::MAX)
    }

    pub(crate) fn address(&self, number: u32) -> Option<Address> {
        self.servers.borrow().get(number as usize).cloned()
    }

    fn tell(&self, body: &[u8]) -> Result<Vec<u8>, Status> {
        let mut decoder = Decoder::new(body);
        let from = decoder.u32().map_err(|_| Status::Inval)?;
        decoder.finish().map_err(|_| Status::Inval)?;
        let mut record = VolumeRecord {
            name: self.name.clone(),
            unit: self.stripes.unit,
            width: self.stripes.width(),
            count: self.count(),
            servers: Vec::new(),
        };
        let mut len = encode(&record).len();
        for address in self.servers.borrow().iter().skip(from as usize) {
            len += encode(address).len();
            if len > BODY_MAX {
                break;
            }
            record.servers.push(address.clone());
        }
        Ok(encode(&record))
    }

    fn learn(&self, body: &[u8], from: IpAddr) -> Result<(), Status> {
        let said: RegisterRecord = from_bytes(body).map_err(|_| Status::Inval)?;
        if !said.address.is_known() {
            return Err(Status::Inval);
        }
        let host = match said.address.host.is_empty() {
            false => said.address.host,
            // It shares our host, whichever way clients reach that.
            true if from.is_loopback() => String::new(),
            true => from.to_string(),
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
            tracing::info!(number, ?address, "an I/O server says where it is");
            *known = address;
        }
        Ok(())
    }
}

/// What peers of the manager meet first.
struct Reception {
    registry: Rc<Registry>,
    manager: Rc<dyn Handler>,
}

impl Handler for Reception {
    fn answer(self: Rc<Self>, link: Link, request: Message) -> LocalFuture<Answer> {
        let done = match request.header.operation {
            Operation::Volume => self.registry.tell(request.body()),
            Operation::Register if link.peer() == Role::IoServer => {
                let from = link.endpoint().peer_address().ip();
                let learned = self.registry.learn(request.body(), from);
                learned.map(|()| Vec::new())
            }
            Operation::Register => Err(Status::Perm),
            _ => return Rc::clone(&self.manager).answer(link, request),
        };
        Box::pin(std::future::ready(Answer::of(done)))
    }
}

/// Tells the manager where an I/O server is, again and again: a manager that has restarted does not know. `find` gives
/// the manager's address. Never ends.
pub async fn keep_registered(
    runtime: Handle,
    provider: Rc<dyn Provider>,
    identity: Identity,
    find: impl AsyncFn() -> io::Result<SocketAddr>,
    record: RegisterRecord,
) {
    let (pool, session) = (link::Pool::new(), Session::new(&runtime));
    let body = encode(&record);
    let complained = Cell::new(false);
    loop {
        let register = async {
            let manager = find().await;
            let manager = manager.map_err(|error| LinkError::Ended(error.to_string()))?;
            let place = (manager, Hello::MANAGER);
            let who = (identity, session);
            let connecting = link::connect(&runtime, &provider, &pool, place, who);
            let link = timeout(&runtime, HELLO_DEADLINE, connecting).await;
            let link = link.unwrap_or(Err(LinkError::TimedOut))?;
            loop {
                let answer = link.call(Operation::Register, Class::Metadata, &body, &[]);
                let status = answer.await?.header.status;
                if status.0 != 0 {
                    let why = format!("the manager refuses with status {}", status.0);
                    return Err::<(), _>(LinkError::Ended(why));
                }
                complained.set(false);
                sleep(&runtime, REGISTER_PAUSE).await;
            }
        };
        if let Err(error) = register.await
            && !complained.replace(true)
        {
            let number = record.number;
            tracing::warn!(number, %error, "the manager is not in touch: trying again");
        }
        sleep(&runtime, REGISTER_PAUSE).await;
    }
}
