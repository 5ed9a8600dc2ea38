//! The table of calls that one end of a connection makes, between the tasks that wait for answers and the task that
//! sends.
//!
//! Either end of an RPC connection may call (RFC 5531 section 9). A client's calls outlive its connections; a server's,
//! through a [`CallBack`], do not. Both use this table.

mod pending;

pub(crate) use pending::{Entry, Pending, SharedPayload, check_reply, fill_sink, opaque_len};

use crate::client::{CallError, Request, Response};
use crate::limits::CALLBACKS_MAX;
use gannet_runtime::stages::{self, Stage};
use gannet_runtime::{Handle, Notify, timeout};
use gannet_wire::rpc::{MESSAGE_CALL, MessageFront};
use std::cell::{Cell, RefCell, RefMut};
use std::fmt;
use std::rc::Rc;
use std::task::Context;
use std::time::Duration;
use tokio::sync::{Semaphore, oneshot};

/// The state that callers share with the driver, the task that drives the connection.
pub(crate) struct Calls {
    pub(crate) runtime: Handle,
    pub(crate) pending: RefCell<Pending>,
    /// Bounds the pending calls; further callers wait here, in their order.
    places: Semaphore,
    /// Wakes the driver.
    pub(crate) work: Notify,
    closed: Cell<bool>,
}

impl Calls {
    /// An empty table for at most `calls_max` calls at a time.
    pub(crate) fn new(runtime: &Handle, first_xid: u32, calls_max: usize) -> Calls {
        Calls {
            runtime: Handle::clone(runtime),
            pending: RefCell::new(Pending::new(first_xid)),
            places: Semaphore::new(calls_max),
            work: Notify::default(),
            closed: Cell::new(false),
        }
    }

    /// Makes a call and waits for its results; see [`crate::Client::call`]. `driven` starts the driver if it does not
    /// run yet.
    pub(crate) async fn call(
        &self,
        request: Request,
        driven: impl FnOnce(),
    ) -> Result<Response, CallError> {
        // Until it is sent; then the driver tells the stopwatch.
        let _stage = stages::enter(Stage::Queue);
        let place = self.places.acquire().await;
        let _place = place.map_err(|_| CallError::Closed)?;
        // Again after the wait: the driver of a closed table has failed all calls and ended, and would not fail this.
        if self.closed.get() {
            return Err(CallError::Closed);
        }
        request.check()?;
        let (sender, receiver) = oneshot::channel();
        let xid = self.pending.borrow_mut().add(request, sender);
        let guard = Abandon {
            calls: self,
            xid: Some(xid),
        };
        driven();
        self.work.notify();
        let outcome = receiver.await.unwrap_or(Err(CallError::Closed));
        guard.finished();
        outcome
    }

    /// Refuses further calls. The driver fails those that are pending.
    pub(crate) fn close(&self) {
        self.closed.set(true);
        self.places.close();
        self.work.notify();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.get()
    }
}

/// Gives a call up when its caller's future is dropped before the answer.
struct Abandon<'a> {
    calls: &'a Calls,
    xid: Option<u32>,
}

impl Abandon<'_> {
    fn finished(mut self) {
        self.xid = None;
    }
}

impl Drop for Abandon<'_> {
    fn drop(&mut self) {
        if let Some(xid) = self.xid {
            self.calls.pending.borrow_mut().abandon(xid);
        }
    }
}

/// Calls the peer of a server's connection over that connection, as long as it lasts. Clones share it.
///
/// Over RDMA such calls and their replies are inline, and have credits of their own (RFC 8167).
#[derive(Clone)]
pub struct CallBack {
    pub(crate) calls: Rc<Calls>,
}

impl CallBack {
    /// Makes a call and waits for its results, for `patience` at most. The call is never sent twice.
    ///
    /// # Errors
    /// Any [`CallError`]; in particular `TimedOut` when there was no answer in time (the peer may execute the call
    /// nevertheless), `TooLarge` for a call that fits no inline message, `Closed` when the connection is over.
    pub async fn call(&self, request: Request, patience: Duration) -> Result<Response, CallError> {
        let calling = self.calls.call(request, || {});
        let called = timeout(&self.calls.runtime, patience, calling).await;
        called.unwrap_or(Err(CallError::TimedOut))
    }

    /// Whether the connection is over.
    pub fn is_closed(&self) -> bool {
        self.calls.is_closed()
    }
}

impl fmt::Debug for CallBack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallBack")
            .field("closed", &self.is_closed())
            .finish_non_exhaustive()
    }
}

/// The calls that a server's connection makes. They fail when it is dropped with the connection.
pub(crate) struct CallsBack(Rc<Calls>);

impl CallsBack {
    /// The empty table of a new connection.
    pub(crate) fn new(runtime: &Handle) -> CallsBack {
        // Any first XID is unique: these calls are never sent on another connection.
        CallsBack(Rc::new(Calls::new(runtime, 1, CALLBACKS_MAX)))
    }

    /// The handle for services that answer calls of this connection.
    pub(crate) fn handle(&self) -> CallBack {
        CallBack {
            calls: Rc::clone(&self.0),
        }
    }

    /// Whether calls were made since the last poll; otherwise registers the task to be woken by the next one.
    pub(crate) fn poll_made(&self, context: &mut Context<'_>) -> bool {
        self.0.work.poll_notified(context).is_ready()
    }

    pub(crate) fn pending(&self) -> RefMut<'_, Pending> {
        self.0.pending.borrow_mut()
    }

    /// The XID of the call of this server that `message` answers, if it answers one.
    pub(crate) fn answered_by(&self, message: &[u8]) -> Option<u32> {
        let front = MessageFront::of(message).filter(|front| front.message_type != MESSAGE_CALL)?;
        let is_under_way = self.pending().is_under_way(front.xid);
        is_under_way.then_some(front.xid)
    }
}

impl Drop for CallsBack {
    fn drop(&mut self) {
        self.0.close();
        self.pending().fail_all(&CallError::Closed);
    }
}

/// Whether a message is a call. One that is too short for its type is none.
pub(crate) fn is_call(message: &[u8]) -> bool {
    MessageFront::of(message).is_some_and(|front| front.message_type == MESSAGE_CALL)
}
