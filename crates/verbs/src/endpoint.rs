//! The owner's handle of a connection.

use crate::connection::Connection;
use crate::region::VerbsDomain;
use crate::sys::WorkKind;
use gannet_fabric::{
    Completion, Disconnected, Domain, Endpoint, EndpointAttributes, EndpointId, Invalidate,
    PostError, RemoteAddress, SendOptions, Signal, Source, Span, WorkId,
};
use gannet_runtime::Buffer;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll};

/// The owner's handle of a connection; its drop ends the connection.
pub(crate) struct VerbsEndpoint {
    pub(crate) connection: Rc<Connection>,
    pub(crate) peer_address: SocketAddr,
    pub(crate) private_data: Vec<u8>,
}

impl Endpoint for VerbsEndpoint {
    fn id(&self) -> EndpointId {
        self.connection.id()
    }

    fn peer_address(&self) -> SocketAddr {
        self.peer_address
    }

    fn attributes(&self) -> EndpointAttributes {
        self.connection.attributes()
    }

    fn private_data(&self) -> &[u8] {
        &self.private_data
    }

    fn domain(&self) -> Rc<dyn Domain> {
        Rc::<VerbsDomain>::clone(&self.connection.core().domain)
    }

    fn post_receive(&self, id: WorkId, buffer: Buffer) -> Result<(), PostError> {
        self.connection.post_receive(id, buffer)
    }

    fn grant_receives(&self, count: u32) -> Result<(), PostError> {
        self.connection.grant(count)
    }

    fn post_send(&self, id: WorkId, source: Source, options: SendOptions) -> Result<(), PostError> {
        let SendOptions {
            signal,
            invalidate,
            solicited,
        } = options;
        let kind = match invalidate {
            Invalidate::None => WorkKind::Send { solicited },
            Invalidate::Key(key) => WorkKind::SendAndInvalidate {
                key: key.0,
                solicited,
            },
        };
        self.connection.post(id, signal, kind, source)
    }

    fn post_write(
        &self,
        id: WorkId,
        source: Source,
        target: RemoteAddress,
        signal: Signal,
    ) -> Result<(), PostError> {
        let kind = WorkKind::Write {
            address: target.offset,
            key: target.key.0,
        };
        self.connection.post(id, signal, kind, source)
    }

    fn post_write_with_immediate(
        &self,
        id: WorkId,
        source: Source,
        target: RemoteAddress,
        immediate: u32,
        signal: Signal,
    ) -> Result<(), PostError> {
        if self.connection.core().is_iwarp {
            return Err(PostError::Invalid("iWARP devices have no immediates"));
        }
        let kind = WorkKind::WriteWithImmediate {
            address: target.offset,
            key: target.key.0,
            immediate,
        };
        self.connection.post(id, signal, kind, source)
    }

    fn post_read(&self, id: WorkId, sink: Span, source: RemoteAddress) -> Result<(), PostError> {
        if self.attributes().ord == 0 {
            return Err(PostError::Invalid("no read depth was agreed"));
        }
        let kind = WorkKind::Read {
            address: source.offset,
            key: source.key.0,
        };
        let sink = Source::Span(sink);
        self.connection.post(id, Signal::Always, kind, sink)
    }

    fn flush(&self) {
        self.connection.start();
    }

    fn poll_completions(
        &self,
        context: &mut Context<'_>,
        completions: &mut Vec<Completion>,
    ) -> Poll<Result<(), Disconnected>> {
        self.connection.poll_completions(context, completions)
    }

    fn look(&self, completions: &mut Vec<Completion>) -> usize {
        self.connection.core().advance();
        self.connection.take_completions(completions)
    }

    fn close(&self) {
        self.connection.close();
    }

    fn abort(&self, why: &str) {
        tracing::info!(id = self.connection.id().0, why, "connection aborted");
        let reason = Disconnected::PeerMisbehaved(why.to_owned());
        self.connection.abort(reason);
    }
}

impl Drop for VerbsEndpoint {
    fn drop(&mut self) {
        self.connection.abort(Disconnected::Local);
        // No owner will poll for them.
        self.connection.discard();
    }
}
