//! Calls that the server makes over the connection of its client (RFC 5531 section 9, RFC 8167).

use super::{Lost, Shared};
use crate::limits::CALLBACKS_MAX;
use crate::server::admit::{Admission, admit};
use crate::server::worker::Job;
use crate::service::{Call, Payload, Program, Reply, Service, Transport};
use gannet_runtime::LocalFuture;
use gannet_wire::rpc::{AcceptStatus, CallHeaderError};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::rc::Rc;

/// A service of any type: [`Service`] has an async function, and so cannot be a trait object.
pub(super) trait AnyService {
    /// See [`admit`].
    fn admit(&self, job: &mut Job, message: &[u8]) -> Result<Admission, CallHeaderError>;

    /// Executes the call of a job.
    fn execute(self: Rc<Self>, job: Box<Job>) -> LocalFuture<Box<Job>>;
}

impl<S: Service> AnyService for S {
    fn admit(&self, job: &mut Job, message: &[u8]) -> Result<Admission, CallHeaderError> {
        admit(self, job, message)
    }

    fn execute(self: Rc<Self>, mut job: Box<Job>) -> LocalFuture<Box<Job>> {
        Box::pin(async move {
            let Job { call, reply, .. } = &mut *job;
            self.call(call, reply).await;
            job
        })
    }
}

/// The service of a client without one: all calls of the server get PROG_UNAVAIL.
pub(super) struct NoService;

impl Service for NoService {
    fn programs(&self) -> &[Program] {
        &[]
    }

    fn is_cached(&self, _program: u32, _procedure: u32) -> bool {
        false
    }

    fn locate_payload(&self, _program: u32, _procedure: u32, _prefix: &[u8]) -> Option<usize> {
        None
    }

    async fn call(&self, _call: &Call, reply: &mut Reply) {
        reply.fail(AcceptStatus::ProgUnavail);
    }
}

/// The server's calls over one connection of a client.
pub(super) struct Backward {
    shared: Rc<Shared>,
    transport: Transport,
    peer: SocketAddr,
    /// Calls whose replies [`Backward::next_reply`] has not taken yet; at most [`CALLBACKS_MAX`].
    under_way: usize,
    /// Executed calls. Shared with the tasks that execute them, which outlive the connection.
    finished: Rc<RefCell<VecDeque<Box<Job>>>>,
}

impl Backward {
    pub(super) fn new(shared: &Rc<Shared>, transport: Transport, peer: SocketAddr) -> Backward {
        Backward {
            shared: Rc::clone(shared),
            transport,
            peer,
            under_way: 0,
            finished: Rc::default(),
        }
    }

    /// Has a call executed. If the connection ends before the call, the call runs to its end, and only the reply is
    /// lost.
    ///
    /// # Errors
    /// [`Lost::Protocol`] when the message is no RPC call, or [`CALLBACKS_MAX`] calls are under way.
    pub(super) fn begin(&mut self, message: &[u8]) -> Result<(), Lost> {
        if self.under_way == CALLBACKS_MAX {
            return Err(Lost::Protocol("more calls than it may make".to_owned()));
        }
        let mut job = Box::new(Job::empty());
        let service = &self.shared.service;
        let admission = service.admit(&mut job, message);
        let admission = admission.map_err(|error| Lost::Protocol(error.to_string()))?;
        self.under_way += 1;
        let Admission::Execute { arguments_at } = admission else {
            self.finished.borrow_mut().push_back(job);
            return Ok(());
        };
        let arguments = message.get(arguments_at..).unwrap_or_default();
        job.call.arguments.extend_from_slice(arguments);
        (job.call.peer, job.call.transport) = (self.peer, self.transport);
        let executing = Rc::clone(service).execute(job);
        let (shared, finished) = (Rc::clone(&self.shared), Rc::clone(&self.finished));
        let task = async move {
            let job = executing.await;
            finished.borrow_mut().push_back(job);
            // The connection's task may sleep; nothing else makes it send the reply.
            shared.calls.work.notify();
        };
        let runtime = &self.shared.calls.runtime;
        runtime.spawn("rpc call of the server", Box::pin(task));
        Ok(())
    }

    /// The next finished call. A reply with a file becomes SYSTEM_ERR: a client has no memory for it.
    pub(super) fn next_reply(&mut self) -> Option<Box<Job>> {
        let mut job = self.finished.borrow_mut().pop_front()?;
        self.under_way -= 1;
        if let Some((Payload::File(_), _)) = &job.reply.payload {
            job.reply.fail(AcceptStatus::SystemErr);
        }
        Some(job)
    }
}
