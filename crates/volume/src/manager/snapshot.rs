//! A copy of the metadata, for a manager that begins to stand by.

use super::Manager;
use crate::limits::CALL_DEADLINE;
use crate::link::{Connector, Identity, Link, LinkError, Message, Pool, Session};
use gannet_fabric::Provider;
use gannet_meta::namespace::{Failure, Outcome};
use gannet_meta::{MetaStore, StoreError, pairs_from};
use gannet_runtime::{Handle, timeout};
use gannet_wire::volume::{Class, MetadataPage, MetadataRequest, Operation, Role, Status};
use gannet_wire::xdr::{from_bytes, to_bytes};
use std::net::SocketAddr;
use std::rc::Rc;
use thiserror::Error;

impl Manager {
    /// Some pairs of the metadata.
    ///
    /// # Errors
    /// `Perm`: the peer is no manager. `Inval`: no other manager can have the journal.
    pub(super) async fn snapshot(&self, link: &Link, request: &Message) -> Result<Vec<u8>, Status> {
        if link.peer() != Role::Manager {
            return Err(Status::Perm);
        }
        let wanted: MetadataRequest = from_bytes(request.body()).map_err(|_| Status::Inval)?;
        let page = self.beside(move |store| page(store, &wanted)).await?;
        Ok(to_bytes(&page))
    }
}

fn page(store: &dyn MetaStore, wanted: &MetadataRequest) -> Outcome<MetadataPage> {
    // Before the pairs, which have all changes up to that record.
    let (record, hash) = store.last_record().ok_or(Failure::Status(Status::Inval))?;
    let mut pairs = Ok(Vec::new());
    store.read(&mut |view| pairs = pairs_from(view, wanted))?;
    Ok(MetadataPage {
        record,
        hash,
        pairs: pairs?,
    })
}

/// Why the metadata cannot be copied.
#[derive(Debug, Error)]
pub enum CopyError {
    /// The active manager cannot be reached, or refuses.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The copy cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl CopyError {
    /// Whether another attempt would end the same way.
    pub fn is_refusal(&self) -> bool {
        match self {
            CopyError::Link(LinkError::Refused(status)) => *status != Status::Jukebox,
            CopyError::Link(_) => false,
            CopyError::Store(error) => !error.is_engine_unavailable(),
        }
    }
}

/// Reads the pairs of the metadata from the active one of these managers. `take` gets each page, and says what to ask
/// for behind it.
///
/// # Errors
/// See [`CopyError`].
pub async fn copy_metadata(
    runtime: &Handle,
    provider: &Rc<dyn Provider>,
    identity: &Identity,
    managers: &[SocketAddr],
    mut take: impl FnMut(MetadataPage) -> Result<MetadataRequest, StoreError>,
) -> Result<(), CopyError> {
    let pool = Pool::new();
    let connector = Connector {
        runtime,
        provider,
        pool: &pool,
        identity,
        session: Session::new(runtime),
    };
    let (_, link) = connector.connect_to_active(managers).await?;
    let mut wanted = MetadataRequest::default();
    loop {
        let body = to_bytes(&wanted);
        let asking = link.call(Operation::Metadata, Class::Metadata, &body, &[]);
        let answer = timeout(runtime, CALL_DEADLINE, asking).await;
        let answer = answer.unwrap_or(Err(LinkError::TimedOut))?;
        answer.header.status.map_err(LinkError::Refused)?;
        let page: MetadataPage = from_bytes(answer.body()).map_err(|_| LinkError::Undecodable)?;
        if page.pairs.is_empty() {
            link.close();
            return Ok(());
        }
        wanted = take(page)?;
    }
}
