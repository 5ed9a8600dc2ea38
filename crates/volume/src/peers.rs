//! An I/O server as a client of the others: it passes changes on to the other members of its groups.

mod keeper;

pub(crate) use keeper::keep;

use crate::client::Servers;
use crate::convert::vfs_status_of;
use crate::limits::{CHANGES_TO_A_PEER, PEER_DEADLINE, RENEW_DEADLINE, SMALL_MAX};
use crate::link::{Link, LinkError, RequestMemory};
use crate::number_lease::NumberLease;
use gannet_fabric::{Access, Backing, DeregisterError, Region, Scope};
use gannet_objects::{PassedOn, PeerFailure, Peers, PutBytes};
use gannet_runtime::{Buffer, Handle, LocalFuture, timeout};
use gannet_vfs::Status;
use gannet_wire::volume::{
    Class, GroupRecord, GroupWish, INLINE_DATA_MAX, ObjectChange, ObjectPage, ObjectPosition,
    Operation, Piece, RegionPiece, Renewals, Renewed, Replicated, Replication,
};
use gannet_wire::xdr::{Decode, from_bytes, to_bytes};
use std::any::Any;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// The connections of an I/O server to the others.
pub(crate) struct PeerLinks {
    runtime: Handle,
    servers: Rc<Servers>,
    /// Without it, another process may speak for this server's number.
    lease: Rc<NumberLease>,
    /// For each server the permits of changes: other requests are to find credits on its connection.
    changes: RefCell<BTreeMap<u32, Arc<Semaphore>>>,
}

/// The outcome of a call.
type Called = Result<Replicated, PeerFailure>;

impl PeerLinks {
    pub(crate) fn new(
        runtime: Handle,
        servers: Rc<Servers>,
        lease: Rc<NumberLease>,
    ) -> Rc<PeerLinks> {
        Rc::new(PeerLinks {
            runtime,
            servers,
            lease,
            changes: RefCell::default(),
        })
    }

    fn permits(&self, to: u32) -> Arc<Semaphore> {
        let mut changes = self.changes.borrow_mut();
        let permits = changes.entry(to);
        Arc::clone(permits.or_insert_with(|| Arc::new(Semaphore::new(CHANGES_TO_A_PEER))))
    }

    async fn link_to(&self, server: u32) -> Result<Link, LinkError> {
        if !self.lease.lasts() {
            return Err(LinkError::Refused(gannet_wire::volume::Status::Jukebox));
        }
        self.servers.io_server(server).await
    }

    async fn pass_on(&self, to: u32, change: Replication, bytes: Option<PutBytes>) -> PassedOn {
        let failed = |bytes: Option<PutBytes>| PassedOn {
            answer: Err(PeerFailure::Away),
            buffer: bytes.map(|(buffer, _)| buffer),
        };
        // Never closed.
        let Ok(_permit) = self.permits(to).acquire_owned().await else {
            return failed(bytes);
        };
        let link = timeout(&self.runtime, PEER_DEADLINE, self.link_to(to));
        let Ok(Ok(link)) = link.await else {
            return failed(bytes);
        };
        let Some((buffer, data)) = bytes else {
            let answer = self.call(&link, &change, &[], RequestMemory::default());
            return PassedOn {
                answer: answer.await,
                buffer: None,
            };
        };
        if data.len() <= INLINE_DATA_MAX {
            let answer = match buffer.get(data) {
                Some(bytes) => {
                    self.call(&link, &change, bytes, RequestMemory::default())
                        .await
                }
                None => Err(PeerFailure::Refused(Status::Inval)),
            };
            let buffer = Some(buffer);
            return PassedOn { answer, buffer };
        }
        self.pass_memory_on(&link, change, buffer, data).await
    }

    /// Passes on a put whose bytes the member fetches.
    async fn pass_memory_on(
        &self,
        link: &Link,
        mut change: Replication,
        buffer: Buffer,
        data: Range<usize>,
    ) -> PassedOn {
        let endpoint = link.endpoint();
        let (backing, scope) = (Backing::Buffer(buffer), Scope::Endpoint(endpoint.id()));
        let region = endpoint
            .domain()
            .register(backing, Access::RemoteRead, scope);
        let region: Region = match region.await {
            Ok(region) => region,
            Err(error) => {
                tracing::debug!(%error, "memory for a copy cannot be registered");
                return PassedOn {
                    answer: Err(PeerFailure::Away),
                    buffer: None,
                };
            }
        };
        if let ObjectChange::Put { memory, .. } = &mut change.change {
            *memory = Some(RegionPiece {
                key: region.remote_key().0,
                piece: Piece {
                    offset: region.base() + data.start as u64,
                    // Bounded by SLAB_LEN_MAX.
                    len: data.len() as u32,
                },
            });
        }
        let memory = RequestMemory {
            exposed: Some(Rc::new(Rc::clone(&region)) as Rc<dyn Any>),
            ..RequestMemory::default()
        };
        let answer = self.call(link, &change, &[], memory).await;
        let returned: Result<Option<Buffer>, DeregisterError> = region.deregister().await;
        PassedOn {
            answer,
            buffer: returned.unwrap_or_default(),
        }
    }

    async fn call(
        &self,
        link: &Link,
        change: &Replication,
        data: &[u8],
        memory: RequestMemory,
    ) -> Called {
        let len = match change.change {
            ObjectChange::Put {
                memory: Some(memory),
                ..
            } => u64::from(memory.piece.len),
            _ => 0,
        };
        let class = if len > SMALL_MAX {
            Class::Bulk
        } else {
            Class::Small
        };
        let deadline = self.runtime.now() + PEER_DEADLINE;
        let body = to_bytes(change);
        let calling = link.call_with(memory, deadline, Operation::Replicate, class, &body, data);
        let answer = calling.await.map_err(|error| {
            tracing::debug!(%error, "a member of a group does not answer");
            PeerFailure::Silent
        })?;
        let status = answer.header.status;
        status.map_err(|status| PeerFailure::Refused(vfs_status_of(status)))?;
        from_bytes(answer.body()).map_err(|_| PeerFailure::Silent)
    }
}

impl PeerLinks {
    /// Asks a server for something short.
    async fn ask<T: for<'a> Decode<'a>>(
        &self,
        link: impl Future<Output = Result<Link, LinkError>>,
        operation: Operation,
        body: &[u8],
        deadline: Duration,
    ) -> Result<T, LinkError> {
        let asking = async {
            let link = link.await?;
            let answer = link.call(operation, Class::Metadata, body, &[]).await?;
            answer.header.status.map_err(LinkError::Refused)?;
            from_bytes(answer.body()).map_err(|_| LinkError::Undecodable)
        };
        let asked = timeout(&self.runtime, deadline, asking).await;
        asked.unwrap_or(Err(LinkError::TimedOut))
    }

    /// Whether there is a connection to a server.
    fn is_connected(&self, server: u32) -> bool {
        self.servers.is_connected(server)
    }

    /// Asks the other members of groups for the right to serve them.
    async fn renew(&self, to: u32, renewals: &Renewals) -> Result<Renewed, LinkError> {
        let link = self.link_to(to);
        let body = to_bytes(renewals);
        self.ask(link, Operation::Renew, &body, RENEW_DEADLINE)
            .await
    }

    /// Asks the manager for another record of a group.
    async fn wish(&self, wish: &GroupWish) -> Result<GroupRecord, LinkError> {
        let (link, body) = (self.servers.manager(), to_bytes(wish));
        self.ask(link, Operation::GroupWish, &body, PEER_DEADLINE)
            .await
    }
}

impl Peers for PeerLinks {
    fn replicate(
        self: Rc<Self>,
        to: u32,
        change: Replication,
        bytes: Option<PutBytes>,
    ) -> LocalFuture<PassedOn> {
        Box::pin(async move { self.pass_on(to, change, bytes).await })
    }

    fn leave(&self, server: u32) {
        self.servers.leave(server);
    }

    fn list(self: Rc<Self>, of: u32, from: ObjectPosition) -> LocalFuture<Option<ObjectPage>> {
        Box::pin(async move {
            let (link, body) = (self.link_to(of), to_bytes(&from));
            let asked = self.ask(link, Operation::Objects, &body, PEER_DEADLINE);
            asked.await.ok()
        })
    }
}
