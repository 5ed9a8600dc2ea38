//! The seam's side of a connection.

use crate::driver::{Connection, drive};
use crate::engine::{Engine, EngineOptions};
use crate::provider::Core;
use crate::startup::{Agreement, Role};
use gannet_fabric::{
    CapabilityKey, Completion, ConnectError, Connected, Disconnected, Domain, Endpoint,
    EndpointAttributes, EndpointId, PostError, Receives, Reference, RemoteAddress, SendOptions,
    Signal, Source, Span, WorkId,
};
use gannet_runtime::{Buffer, Stream};
use gannet_softrdma::EndpointReceives;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll};

/// A connected queue pair. Dropping it closes the connection: posted work still leaves within the stall deadline.
pub(crate) struct IwarpEndpoint {
    id: EndpointId,
    peer: SocketAddr,
    attributes: EndpointAttributes,
    private_data: Vec<u8>,
    connection: Rc<Connection>,
}

/// Puts a connection whose startup is over into full operation.
pub(crate) fn start(
    core: Rc<Core>,
    stream: Stream,
    role: Role,
    agreement: Agreement,
    private_data: Vec<u8>,
    receives: Receives,
) -> Result<Connected, ConnectError> {
    let config = &core.config;
    let may_race = agreement.may_race(role);
    let (id, peer) = (core.next_endpoint(), stream.peer_address());
    let attributes = EndpointAttributes {
        ord: agreement.ord,
        ird: agreement.ird,
        send_queue_max: config.send_queue_max,
        receive_queue_max: config.receive_queue_max,
        send_sge_max: 1,
        read_sge_max: 1,
        exceptions: agreement.exceptions,
        immediates: false,
    };
    let options = EngineOptions {
        id,
        role,
        agreement,
        ulpdu_max: config.ulpdu_max,
        send_queue_max: config.send_queue_max,
        receive_queue_max: config.receive_queue_max,
        batches: core.batches.clone(),
    };
    let receives = EndpointReceives::new(receives)
        .ok_or(ConnectError::Unsupported("receives of another provider"))?;
    if receives.own_len() > config.receive_queue_max as usize {
        return Err(ConnectError::Unsupported("too many receives"));
    }
    let engine = Engine::new(options, Rc::clone(&core.table), receives);
    let runtime = Rc::clone(&core.runtime);
    let connection = Rc::new(Connection::new(core, stream, may_race, engine));
    // An initiator's opening message leaves now, before the task first runs.
    connection.flush();
    runtime.spawn("iwarp-connection", Box::pin(drive(Rc::clone(&connection))));
    Ok(Rc::new(IwarpEndpoint {
        id,
        peer,
        attributes,
        private_data,
        connection,
    }))
}

impl Drop for IwarpEndpoint {
    fn drop(&mut self) {
        self.connection.close();
    }
}

impl Endpoint for IwarpEndpoint {
    fn id(&self) -> EndpointId {
        self.id
    }

    fn peer_address(&self) -> SocketAddr {
        self.peer
    }

    fn attributes(&self) -> EndpointAttributes {
        self.attributes
    }

    fn private_data(&self) -> &[u8] {
        &self.private_data
    }

    fn domain(&self) -> Rc<dyn Domain> {
        self.connection.domain()
    }

    fn post_receive(&self, id: WorkId, buffer: Buffer) -> Result<(), PostError> {
        self.connection
            .with_engine(|engine| engine.post_receive(id, buffer))
    }

    fn grant_receives(&self, count: u32) -> Result<(), PostError> {
        self.connection
            .with_engine(|engine| engine.grant_receives(count))
    }

    fn post_send(&self, id: WorkId, source: Source, options: SendOptions) -> Result<(), PostError> {
        self.connection
            .with_engine(|engine| engine.post_send(id, source, options))
    }

    fn post_write(
        &self,
        id: WorkId,
        source: Source,
        target: RemoteAddress,
        signal: Signal,
    ) -> Result<(), PostError> {
        self.connection
            .with_engine(|engine| engine.post_write(id, source, target, signal))
    }

    fn post_read(&self, id: WorkId, sink: Span, source: RemoteAddress) -> Result<(), PostError> {
        self.connection
            .with_engine(|engine| engine.post_read(id, sink, source))
    }

    fn authenticate(&self, key: CapabilityKey) {
        self.connection
            .with_engine(|engine| engine.authenticate(key));
    }

    fn post_optimistic_read(
        &self,
        id: WorkId,
        sink: Span,
        source: Reference,
    ) -> Result<(), PostError> {
        self.connection
            .with_engine(|engine| engine.post_optimistic_read(id, sink, source))
    }

    fn flush(&self) {
        self.connection.flush();
    }

    fn poll_completions(
        &self,
        context: &mut Context<'_>,
        completions: &mut Vec<Completion>,
    ) -> Poll<Result<(), Disconnected>> {
        self.connection.poll_completions(context, completions)
    }

    fn look(&self, completions: &mut Vec<Completion>) -> usize {
        self.connection.look(completions)
    }

    fn close(&self) {
        self.connection.close();
    }

    fn abort(&self, why: &str) {
        tracing::debug!(peer = %self.peer, why, "connection aborted");
        self.connection.abort(why);
    }
}
