//! A connection on its core: delivers messages to the callers that wait for them, and sends files one after the other.

use super::{FileTarget, RdmaError, RemoteSegment};
use gannet_datapath::{Destination, FileRange, FileSender, SendCounts, SenderOptions};
use gannet_fabric::{
    Access, Backing, Completion, Connected, Disconnected, Done, Provider, Region, RemoteKey, Scope,
    SendOptions, Source, WorkId, next_completions,
};
use gannet_runtime::{Buffer, Handle, LocalFuture};
use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use tokio::sync::{mpsc, oneshot};

/// The work of messages that leave.
const MESSAGE: WorkId = WorkId(1 << 62);

/// A file to be sent, and the channel to the caller that waits for it.
pub(super) struct FileJob {
    pub(super) range: FileRange,
    pub(super) target: FileTarget,
    pub(super) done: oneshot::Sender<Result<SendCounts, RdmaError>>,
}

/// Callers that wait for a message.
type Receiver = oneshot::Sender<Result<Vec<u8>, RdmaError>>;

/// A connection of an adapter's core.
pub(super) struct Link {
    endpoint: Connected,
    state: RefCell<State>,
    /// `None` once it is closed.
    files: RefCell<Option<mpsc::UnboundedSender<FileJob>>>,
}

#[derive(Default)]
struct State {
    /// Messages that no caller has taken, in their memory: as many receives are missing.
    messages: VecDeque<(WorkId, Buffer, usize)>,
    /// Messages whose callers stopped waiting just then. They came before all others.
    returned: VecDeque<Vec<u8>>,
    receivers: VecDeque<Receiver>,
    ended: Option<Disconnected>,
    registered: HashMap<u64, Region>,
    /// Names the next registration.
    next: u64,
}

impl Link {
    /// A connection, and the work that keeps it going until it has ended.
    pub(super) fn make(
        runtime: &Handle,
        provider: &dyn Provider,
        endpoint: Connected,
        options: SenderOptions,
    ) -> Result<(Rc<Link>, LocalFuture<()>), RdmaError> {
        let sender = FileSender::new(
            Rc::clone(&endpoint),
            provider.capabilities(),
            Handle::clone(runtime),
            options,
        )?;
        let (files, jobs) = mpsc::unbounded_channel();
        let link = Rc::new(Link {
            endpoint,
            state: RefCell::default(),
            files: RefCell::new(Some(files)),
        });
        let driving = drive(Rc::clone(&link), sender, jobs);
        Ok((link, Box::pin(driving)))
    }

    /// Sends everything posted, and ends the connection.
    pub(super) fn close(&self) {
        self.endpoint.close();
        self.files.borrow_mut().take();
        self.state.borrow_mut().registered.clear();
    }

    /// The same by the program, which keeps its handle: callers that wait have an error at once, however long the peer
    /// takes.
    pub(super) fn shut_down(&self) {
        (self.state.borrow_mut().ended).get_or_insert(Disconnected::Local);
        self.endpoint.close();
        self.files.borrow_mut().take();
        self.deliver();
    }

    /// Sends a message.
    pub(super) fn send(&self, message: Vec<u8>) -> Result<(), RdmaError> {
        self.check()?;
        let buffer = Buffer::from_vec(message);
        let len = u32::try_from(buffer.len()).unwrap_or(u32::MAX);
        let source = Source::Buffer { buffer, len };
        let posted = self
            .endpoint
            .post_send(MESSAGE, source, SendOptions::default());
        self.endpoint.flush();
        Ok(posted?)
    }

    /// Has the next message go to `receiver`.
    pub(super) fn receive(&self, receiver: Receiver) {
        self.state.borrow_mut().receivers.push_back(receiver);
        self.deliver();
    }

    /// Queues a file.
    pub(super) fn send_file(&self, job: FileJob) {
        let refused = match &*self.files.borrow() {
            Some(files) => files.send(job).err().map(|refused| refused.0),
            None => Some(job),
        };
        if let Some(job) = refused {
            let error = self.check().err().unwrap_or(RdmaError::Ended);
            // The caller may have stopped waiting.
            let _ = job.done.send(Err(error));
        }
    }

    /// Registers memory for the peer. Returns its name here, and its address for the peer.
    pub(super) async fn register(
        &self,
        buffer: Buffer,
        access: Access,
    ) -> Result<(u64, RemoteSegment), RdmaError> {
        self.check()?;
        let len = u64::try_from(buffer.len()).unwrap_or(u64::MAX);
        let scope = Scope::Endpoint(self.endpoint.id());
        let backing = Backing::Buffer(buffer);
        let region = (self.endpoint.domain())
            .register(backing, access, scope)
            .await?;
        // The connection may have ended meanwhile.
        self.check()?;
        let (RemoteKey(key), offset) = (region.remote_key(), region.base());
        let mut state = self.state.borrow_mut();
        state.next += 1;
        let name = state.next;
        state.registered.insert(name, region);
        Ok((name, RemoteSegment { key, offset, len }))
    }

    /// Takes registered memory back.
    pub(super) async fn take_back(&self, name: u64) -> Result<Buffer, RdmaError> {
        let region = self.state.borrow_mut().registered.remove(&name);
        let taken = region.ok_or(RdmaError::Ended)?.deregister().await;
        taken.ok().flatten().ok_or(RdmaError::Lost)
    }

    /// Drops registered memory.
    pub(super) fn forget(&self, name: u64) {
        let registered = self.state.borrow_mut().registered.remove(&name);
        drop(registered);
    }

    /// Refuses work on a connection that has ended, with the reason of its end.
    fn check(&self) -> Result<(), RdmaError> {
        let ended = self.state.borrow().ended.clone();
        ended.map_or(Ok(()), |reason| Err(reason.into()))
    }

    /// Gives messages to waiting callers, and posts their receives again.
    fn deliver(&self) {
        loop {
            let mut state = self.state.borrow_mut();
            state.receivers.retain(|receiver| !receiver.is_closed());
            let ended = state.ended.clone();
            let has_message = !state.returned.is_empty() || !state.messages.is_empty();
            if state.receivers.is_empty() || !(has_message || ended.is_some()) {
                return;
            }
            let Some(receiver) = state.receivers.pop_front() else {
                return;
            };
            if let Some(bytes) = state.returned.pop_front() {
                drop(state);
                self.pass(receiver, Ok(bytes));
                continue;
            }
            let message = state.messages.pop_front();
            drop(state);
            let received = match (message, ended) {
                (Some((id, buffer, len)), _) => {
                    let bytes = buffer.get(..len).unwrap_or_default().to_vec();
                    // A connection that has ended needs no receives.
                    let _ = self.endpoint.post_receive(id, buffer);
                    Ok(bytes)
                }
                (None, Some(reason)) => Err(reason.into()),
                (None, None) => return,
            };
            self.pass(receiver, received);
        }
    }

    /// Gives a message to a caller, or keeps it for the next one if the caller has just stopped waiting.
    fn pass(&self, receiver: Receiver, received: Result<Vec<u8>, RdmaError>) {
        if let Err(Ok(bytes)) = receiver.send(received) {
            self.state.borrow_mut().returned.push_front(bytes);
        }
    }

    /// Takes completions that are not of files.
    fn complete(&self, completions: &mut Vec<Completion>) {
        for completion in completions.drain(..) {
            if let (Ok(Done::Received { len, .. }), Some(buffer)) =
                (completion.outcome, completion.buffer)
            {
                let len = usize::try_from(len).unwrap_or(usize::MAX);
                let message = (completion.id, buffer, len);
                self.state.borrow_mut().messages.push_back(message);
            }
        }
        self.deliver();
    }

    fn end(&self, reason: Disconnected) {
        self.state.borrow_mut().ended.get_or_insert(reason);
        self.files.borrow_mut().take();
        self.deliver();
    }
}

/// Works until the connection has ended.
async fn drive(link: Rc<Link>, mut sender: FileSender, mut jobs: mpsc::UnboundedReceiver<FileJob>) {
    let mut completions = Vec::new();
    let mut has_jobs = true;
    loop {
        let job = tokio::select! {
            job = jobs.recv(), if has_jobs => {
                has_jobs = job.is_some();
                job
            }
            completed = next_completions(&*link.endpoint, &mut completions) => {
                link.complete(&mut completions);
                if let Err(reason) = completed {
                    return link.end(reason);
                }
                None
            }
        };
        let Some(FileJob {
            range,
            target,
            done,
        }) = job
        else {
            continue;
        };
        let segments = target.segments();
        let destination = match target {
            FileTarget::Memory(_) => Destination::Memory(&segments),
            FileTarget::Messages(receives) => Destination::Messages { receives },
        };
        let sent = sender.send(&range, destination, &mut completions).await;
        link.complete(&mut completions);
        // The caller may have stopped waiting.
        let _ = done.send(sent.map(|()| sender.counts()).map_err(RdmaError::from));
    }
}
