//! Waiting for peers: each set-up has a task of its own, so a silent peer delays no other one.

use crate::connect::{self, FrameError};
use crate::limits::{BACKLOG_MAX, SETUPS_MAX};
use crate::provider::Core;
use gannet_fabric::{ConnectOptions, Incoming, Listener, Outgoing};
use gannet_runtime::{ByteStream, LocalFuture, Notify, Stream};
use gannet_wire::mpa::{Enhanced, FrameKind};
use gannet_wire::rdmap::split_exceptions_offer;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

/// Waits for iWARP peers on the streams of any listener; see [`crate::IwarpProvider::listen_on`].
pub struct IwarpListener {
    address: SocketAddr,
    queue: Rc<Queue>,
}

/// The queue between the task that accepts streams, the tasks of set-ups, and the application.
struct Queue {
    /// Peers whose request has come, oldest first; accepting pauses at [`BACKLOG_MAX`].
    ready: RefCell<VecDeque<Box<dyn Incoming>>>,
    /// Streams whose request has not come yet, oldest first; a notification ends one. At most [`SETUPS_MAX`].
    in_setup: RefCell<BTreeMap<u64, Rc<Notify>>>,
    /// The number of the next set-up.
    setups: Cell<u64>,
    /// Why accepting ended.
    failure: RefCell<Option<io::ErrorKind>>,
    /// The listener was dropped: all tasks end, and set-ups that finish later are dropped.
    closed: Cell<bool>,
    /// Wakes the application.
    arrived: Notify,
    /// Wakes the accepting task.
    room: Notify,
}

impl IwarpListener {
    pub(crate) fn new(core: Rc<Core>, streams: Box<dyn gannet_runtime::Listener>) -> IwarpListener {
        let address = streams.local_address();
        let queue = Rc::new(Queue {
            ready: RefCell::default(),
            in_setup: RefCell::default(),
            setups: Cell::new(0),
            failure: RefCell::default(),
            closed: Cell::new(false),
            arrived: Notify::default(),
            room: Notify::default(),
        });
        let runtime = Rc::clone(&core.runtime);
        let accepting = accept_streams(core, streams, Rc::clone(&queue));
        runtime.spawn("iwarp-accept", Box::pin(accepting));
        IwarpListener { address, queue }
    }
}

impl Drop for IwarpListener {
    fn drop(&mut self) {
        self.queue.closed.set(true);
        self.queue.ready.borrow_mut().clear();
        // The accepting task holds the socket: it must run once more to close it.
        self.queue.room.notify();
    }
}

impl Listener for IwarpListener {
    fn local_address(&self) -> SocketAddr {
        self.address
    }

    fn accept(&mut self) -> LocalFuture<io::Result<Box<dyn Incoming>>> {
        let queue = Rc::clone(&self.queue);
        Box::pin(async move {
            loop {
                let next = queue.ready.borrow_mut().pop_front();
                if let Some(incoming) = next {
                    // The accepting task may wait for room in the backlog.
                    queue.room.notify();
                    return Ok(incoming);
                }
                if let Some(kind) = *queue.failure.borrow() {
                    return Err(kind.into());
                }
                queue.arrived.notified().await;
            }
        })
    }
}

/// Accepts streams until the listener is dropped or the source fails.
async fn accept_streams(
    core: Rc<Core>,
    mut streams: Box<dyn gannet_runtime::Listener>,
    queue: Rc<Queue>,
) {
    let mut accepting: Option<LocalFuture<io::Result<Stream>>> = None;
    std::future::poll_fn(|context| {
        loop {
            // Registers before the checks below, so a `notify` after them is not lost.
            while queue.room.poll_notified(context).is_ready() {}
            if queue.closed.get() {
                return Poll::Ready(());
            }
            if queue.ready.borrow().len() >= BACKLOG_MAX {
                return Poll::Pending;
            }
            let next = accepting.get_or_insert_with(|| streams.accept());
            let Poll::Ready(accepted) = next.as_mut().poll(context) else {
                return Poll::Pending;
            };
            accepting = None;
            match accepted {
                Ok(stream) => start_setup(&core, &queue, stream),
                Err(error) => {
                    tracing::warn!(%error, "listening ended");
                    *queue.failure.borrow_mut() = Some(error.kind());
                    queue.arrived.notify();
                    return Poll::Ready(());
                }
            }
        }
    })
    .await;
}

/// Waits for the request of a new stream in a task of its own. Beyond [`SETUPS_MAX`], the one that has been silent
/// for longest ends: peers that connect and say nothing cannot keep others out (test
/// `more_silent_connections_than_set_ups_delay_no_peer`).
fn start_setup(core: &Rc<Core>, queue: &Rc<Queue>, stream: Stream) {
    let (number, given_up) = queue.begin_setup();
    let (core_of_task, queue) = (Rc::clone(core), Rc::clone(queue));
    core.runtime.spawn(
        "iwarp-setup",
        Box::pin(async move {
            let incoming = receive_request(core_of_task, stream, &given_up).await;
            queue.in_setup.borrow_mut().remove(&number);
            // A closed queue has no reader: the stream would stay open until the last `Rc` of the queue is dropped.
            if let Some(incoming) = incoming
                && !queue.closed.get()
            {
                queue.ready.borrow_mut().push_back(Box::new(incoming));
                queue.arrived.notify();
            }
        }),
    );
}

impl Queue {
    fn begin_setup(&self) -> (u64, Rc<Notify>) {
        let number = self.setups.get();
        self.setups.set(number + 1);
        let given_up = Rc::new(Notify::default());
        let mut in_setup = self.in_setup.borrow_mut();
        if in_setup.len() >= SETUPS_MAX
            && let Some((_, oldest)) = in_setup.pop_first()
        {
            oldest.notify();
        }
        in_setup.insert(number, Rc::clone(&given_up));
        (number, given_up)
    }
}

async fn receive_request(
    core: Rc<Core>,
    stream: Stream,
    given_up: &Notify,
) -> Option<IwarpIncoming> {
    let peer = stream.peer_address();
    let deadline = core.config.request_deadline;
    let bytes = match receive_unless(given_up, &core, &*stream, deadline).await {
        Ok(bytes) => bytes,
        Err(error) => {
            core.note_refused(peer, &error);
            return None;
        }
    };
    let request = connect::parsed(FrameKind::Request, &bytes).ok()?;
    if let Err(refusal) = crate::startup::check_request(&request) {
        core.note_refused(peer, &format_args!("{refusal:?}"));
        return None;
    }
    let (_, private_data) = split_exceptions_offer(request.private_data);
    let (private_data, enhanced) = (private_data.to_vec(), request.enhanced);
    Some(IwarpIncoming {
        core,
        stream,
        private_data,
        enhanced,
        request: bytes,
    })
}

async fn receive_unless(
    given_up: &Notify,
    core: &Core,
    stream: &dyn ByteStream,
    deadline: Duration,
) -> Result<Vec<u8>, FrameError> {
    let mut receiving = pin!(connect::receive_frame(
        core,
        stream,
        FrameKind::Request,
        deadline
    ));
    std::future::poll_fn(|context| match given_up.poll_notified(context) {
        Poll::Ready(()) => Poll::Ready(Err(FrameError::TimedOut)),
        Poll::Pending => receiving.as_mut().poll(context),
    })
    .await
}

/// A peer whose request has come.
struct IwarpIncoming {
    core: Rc<Core>,
    stream: Stream,
    private_data: Vec<u8>,
    enhanced: Option<Enhanced>,
    request: Vec<u8>,
}

impl Incoming for IwarpIncoming {
    fn peer_address(&self) -> SocketAddr {
        self.stream.peer_address()
    }

    fn private_data(&self) -> &[u8] {
        &self.private_data
    }

    fn read_depths(&self) -> Option<(u16, u16)> {
        self.enhanced.map(|enhanced| (enhanced.ird, enhanced.ord))
    }

    fn accept(self: Box<Self>, options: ConnectOptions) -> Outgoing {
        Box::pin(connect::accept(
            self.core,
            self.stream,
            self.request,
            options,
        ))
    }

    fn reject(self: Box<Self>, private_data: Vec<u8>) -> LocalFuture<()> {
        Box::pin(async move {
            let peer = self.stream.peer_address();
            let rejected = connect::reject(self.core, self.stream, self.request, private_data);
            if let Err(error) = rejected.await {
                tracing::debug!(%peer, %error, "rejection not delivered");
            }
        })
    }
}
