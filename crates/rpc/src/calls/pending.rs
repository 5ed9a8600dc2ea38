//! The calls without an answer.

use crate::client::{CallError, CallerCredential, Persistence, Request, Response, Sink};
use crate::limits::OUTGOING_BYTES_MAX;
use crate::outgoing::Outgoing;
use gannet_runtime::stages::{self, Stage, Stopwatch};
use gannet_runtime::{Buffer, Instant};
use gannet_wire::rpc::{
    AcceptStatus, MESSAGE_CALL, MessageFront, RPC_VERSION, ReplyHeader, ReplyOutcome,
};
use gannet_wire::xdr::{Decoder, Encoder, pad_len};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::oneshot;

type Answer = oneshot::Sender<Result<Response, CallError>>;

/// A call without an answer.
pub(crate) struct Entry {
    program: u32,
    version: u32,
    procedure: u32,
    pub(crate) arguments: Vec<u8>,
    /// Shared with the outgoing bytes of the connection until these have left.
    pub(crate) payload: Option<SharedPayload>,
    pub(crate) sink: Option<Sink>,
    pub(crate) results_max: usize,
    credential: Option<Rc<CallerCredential>>,
    /// `None` after the caller has given the call up.
    answer: Option<Answer>,
    /// Transmissions so far, and connections that could not be made for one.
    attempts: u32,
    /// Transmissions so far.
    transmissions: u32,
    /// Set while a transmission waits for its reply.
    deadline: Option<Instant>,
    /// The stopwatch of the caller's operation.
    watch: Option<Rc<Stopwatch>>,
}

/// An opaque argument kept apart.
#[derive(Clone)]
pub(crate) struct SharedPayload {
    pub(crate) buffer: Rc<Buffer>,
    pub(crate) len: usize,
    pub(crate) position: usize,
}

impl Entry {
    /// The stopwatch of the caller's operation, while the caller waits.
    pub(crate) fn watch(&self) -> Option<&Rc<Stopwatch>> {
        self.watch.as_ref().filter(|_| self.answer.is_some())
    }

    /// The caller's operation is in `stage` now.
    pub(crate) fn enter(&self, stage: Stage) {
        if let Some(watch) = self.watch() {
            watch.enter(stage);
        }
    }

    /// Appends the call's header; `credential` is for calls that brought none.
    pub(crate) fn emit_header(
        &self,
        xid: u32,
        credential: &CallerCredential,
        encoder: &mut Encoder<'_>,
    ) {
        encoder.u32(xid);
        encoder.u32(MESSAGE_CALL);
        encoder.u32(RPC_VERSION);
        encoder.u32(self.program);
        encoder.u32(self.version);
        encoder.u32(self.procedure);
        self.credential
            .as_deref()
            .unwrap_or(credential)
            .emit(encoder);
    }

    /// Appends the arguments with the payload among them.
    pub(crate) fn emit_arguments(&self, encoder: &mut Encoder<'_>) {
        let (before, behind) = self.split_arguments();
        encoder.raw(before);
        if let Some(payload) = &self.payload {
            encoder.fixed(payload.buffer.get(..payload.len).unwrap_or(&payload.buffer));
        }
        encoder.raw(behind);
    }

    /// The arguments before and behind the payload.
    pub(crate) fn split_arguments(&self) -> (&[u8], &[u8]) {
        let position = self
            .payload
            .as_ref()
            .map_or(self.arguments.len(), |it| it.position);
        self.arguments
            .split_at_checked(position)
            .unwrap_or((&self.arguments, &[]))
    }
}

/// All calls of a client without an answer.
pub(crate) struct Pending {
    entries: BTreeMap<u32, Entry>,
    /// Calls to be sent, oldest first.
    unsent: VecDeque<u32>,
    next_xid: u32,
    /// Entries with a deadline: calls that were sent over this connection and have no answer.
    under_way: usize,
    /// A call was answered since the last [`Pending::take_progress`].
    progress: bool,
}

impl Pending {
    pub(crate) fn new(first_xid: u32) -> Pending {
        Pending {
            entries: BTreeMap::new(),
            unsent: VecDeque::new(),
            next_xid: first_xid,
            under_way: 0,
            progress: false,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds a call and gives it an XID.
    pub(crate) fn add(&mut self, request: Request, answer: Answer) -> u32 {
        // The loop ends: far fewer calls are pending than there are XIDs.
        while self.entries.contains_key(&self.next_xid) {
            self.next_xid = self.next_xid.wrapping_add(1);
        }
        let xid = self.next_xid;
        self.next_xid = xid.wrapping_add(1);
        let payload = request.payload.map(|payload| SharedPayload {
            buffer: Rc::new(payload.buffer),
            len: payload.len,
            position: payload.position,
        });
        let entry = Entry {
            program: request.program,
            version: request.version,
            procedure: request.procedure,
            arguments: request.arguments,
            payload,
            sink: request.sink,
            results_max: request.results_max,
            credential: request.credential,
            answer: Some(answer),
            attempts: 0,
            transmissions: 0,
            deadline: None,
            watch: stages::current(),
        };
        self.entries.insert(xid, entry);
        self.unsent.push_back(xid);
        xid
    }

    pub(crate) fn get_mut(&mut self, xid: u32) -> Option<&mut Entry> {
        self.entries.get_mut(&xid)
    }

    /// Takes the oldest call that waits to be sent and counts it as under way. Its reply is due after `patience`.
    pub(crate) fn next_unsent(
        &mut self,
        now: Instant,
        patience: Duration,
    ) -> Option<(u32, &mut Entry)> {
        let entries = &self.entries;
        let position = self.unsent.iter().position(|xid| entries.contains_key(xid));
        let xid = *self.unsent.get(position?)?;
        // The calls before it have ended: no connection could be made often enough.
        self.unsent.drain(..=position?);
        let entry = self.entries.get_mut(&xid)?;
        entry.attempts = entry.attempts.saturating_add(1);
        entry.transmissions = entry.transmissions.saturating_add(1);
        entry.deadline = Some(now + patience);
        entry.enter(Stage::Wire);
        self.under_way += 1;
        Some((xid, entry))
    }

    /// Calls that were sent over this connection, and have no answer.
    pub(crate) fn under_way(&self) -> usize {
        self.under_way
    }

    /// Whether the call `xid` is one of them.
    pub(crate) fn is_under_way(&self, xid: u32) -> bool {
        let entry = self.entries.get(&xid);
        entry.is_some_and(|entry| entry.deadline.is_some())
    }

    /// Queues calls on a stream, oldest first, while fewer than `under_way_max` are under way and fewer than
    /// [`OUTGOING_BYTES_MAX`] bytes wait. The other calls stay here: bytes of a call that was given up cannot be taken
    /// off a stream.
    pub(crate) fn queue(
        &mut self,
        outgoing: &mut Outgoing,
        credential: &CallerCredential,
        now: Instant,
        patience: Duration,
        under_way_max: usize,
    ) {
        while self.under_way < under_way_max
            && outgoing.len() < OUTGOING_BYTES_MAX
            && let Some((xid, entry)) = self.next_unsent(now, patience)
        {
            let (before, behind) = entry.split_arguments();
            let payload = (entry.payload.as_ref()).map(|it| (Rc::clone(&it.buffer), it.len));
            outgoing.push_call(
                |encoder| {
                    entry.emit_header(xid, credential, encoder);
                    encoder.raw(before);
                },
                payload,
                behind,
            );
        }
    }

    pub(crate) fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// When the next reply is due.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.entries
            .values()
            .filter_map(|entry| entry.deadline)
            .min()
    }

    /// Gives up a call whose caller does not wait any more. A call that was not sent is removed. One that was sent
    /// stays until its reply: the connection may use its memory, and the peer counts it against its credits.
    pub(crate) fn abandon(&mut self, xid: u32) {
        if let Some(entry) = self.entries.get_mut(&xid) {
            entry.answer = None;
            if entry.deadline.is_none() {
                self.entries.remove(&xid);
                self.unsent.retain(|other| *other != xid);
            }
        }
    }

    /// Whether a call was answered since the last call of this.
    pub(crate) fn take_progress(&mut self) -> bool {
        std::mem::take(&mut self.progress)
    }

    /// Ends a call.
    pub(crate) fn finish(&mut self, xid: u32, outcome: Result<Response, CallError>) {
        let Some(entry) = self.entries.remove(&xid) else {
            return;
        };
        if entry.deadline.is_some() {
            self.under_way -= 1;
        }
        if let Some(answer) = entry.answer {
            // The send fails only if the caller has dropped its future meanwhile.
            let _ = answer.send(outcome);
        }
    }

    /// Ends the call that a complete reply belongs to. A reply to no call is ignored.
    ///
    /// # Errors
    /// The reply cannot be parsed; the text is the part that is malformed.
    pub(crate) fn take_reply(&mut self, message: &[u8]) -> Result<(), &'static str> {
        let Some(MessageFront { xid, .. }) = MessageFront::of(message) else {
            return Err("a reply without an xid");
        };
        let Some(entry) = self.entries.get_mut(&xid) else {
            tracing::debug!(xid, "reply to no call");
            return Ok(());
        };
        let results_at = match check_reply(message) {
            Ok(length) => length,
            Err(CallError::Malformed(what)) => return Err(what),
            Err(refused) => {
                self.finish(xid, Err(refused));
                return Ok(());
            }
        };
        let results = message.get(results_at..).unwrap_or(&[]);
        match entry.sink.take() {
            None => self.answer(xid, results.to_vec(), None),
            Some(mut sink) => match fill_sink(results, &mut sink) {
                Ok((results, len)) => self.answer(xid, results, Some((sink.buffer, len))),
                Err(error) => self.finish(xid, Err(error)),
            },
        }
        Ok(())
    }

    /// Ends a call with the results of its reply. `results` are the bytes behind the reply's header without those in
    /// the sink; `sink` has the number of the latter.
    pub(crate) fn answer(&mut self, xid: u32, results: Vec<u8>, sink: Option<(Buffer, usize)>) {
        self.progress = true;
        let Some(entry) = self.entries.get_mut(&xid) else {
            return;
        };
        let resent = entry.transmissions > 1;
        let payload = entry.payload.take();
        // `None` while outgoing bytes share it: the server answered before it had the whole call.
        let payload = payload.and_then(|payload| Rc::try_unwrap(payload.buffer).ok());
        self.finish(
            xid,
            Ok(Response {
                results,
                sink,
                payload,
                resent,
            }),
        );
    }

    /// Queues all calls again after their connection ended, in the order of their XIDs. A call that had all its
    /// attempts fails, and one without a caller is removed.
    pub(crate) fn connection_lost(&mut self, persistence: Persistence) {
        self.unsent.clear();
        self.under_way = 0;
        let xids: Vec<u32> = self.entries.keys().copied().collect();
        for xid in xids {
            let Some(entry) = self.entries.get_mut(&xid) else {
                continue;
            };
            entry.deadline = None;
            entry.enter(Stage::Queue);
            let given_up = match persistence {
                Persistence::Hard => false,
                Persistence::Soft { attempts } => entry.attempts >= attempts.max(1),
            };
            if entry.answer.is_none() {
                self.entries.remove(&xid);
            } else if given_up {
                self.finish(xid, Err(CallError::TimedOut));
            } else {
                self.unsent.push_back(xid);
            }
        }
    }

    /// Counts a connection that could not be made as an attempt of every call.
    pub(crate) fn connect_failed(&mut self, persistence: Persistence, why: &str) {
        let Persistence::Soft { attempts } = persistence else {
            return;
        };
        let xids: Vec<u32> = self.entries.keys().copied().collect();
        for xid in xids {
            let Some(entry) = self.entries.get_mut(&xid) else {
                continue;
            };
            entry.attempts = entry.attempts.saturating_add(1);
            if entry.attempts >= attempts.max(1) {
                self.finish(xid, Err(CallError::NotConnected(why.to_string())));
            }
        }
    }

    /// Ends all calls.
    pub(crate) fn fail_all(&mut self, error: &CallError) {
        while let Some((xid, _)) = self.entries.first_key_value() {
            let xid = *xid;
            self.finish(xid, Err(error.clone()));
        }
        self.unsent.clear();
    }
}

/// Checks a reply's header; returns its length in bytes.
///
/// # Errors
/// `Malformed` for a header that cannot be parsed; `NotExecuted` and `Denied` with the server's reason.
pub(crate) fn check_reply(message: &[u8]) -> Result<usize, CallError> {
    let mut decoder = Decoder::new(message);
    match ReplyHeader::parse(&mut decoder)?.outcome {
        ReplyOutcome::Accepted {
            status: AcceptStatus::Success,
            ..
        } => Ok(decoder.position()),
        ReplyOutcome::Accepted { status, .. } => Err(CallError::NotExecuted(status)),
        ReplyOutcome::Denied(rejection) => Err(CallError::Denied(rejection)),
    }
}

/// Moves the opaque of complete results into the sink; returns the results without it, and its length.
pub(crate) fn fill_sink(results: &[u8], sink: &mut Sink) -> Result<(Vec<u8>, usize), CallError> {
    let Some(position) = (sink.locate)(results) else {
        return Ok((results.to_vec(), 0));
    };
    let malformed = CallError::Malformed("opaque result");
    let (head, rest) = results
        .split_at_checked(position)
        .ok_or(malformed.clone())?;
    let len = opaque_len(head).ok_or(malformed.clone())?;
    let (bytes, behind) = rest.split_at_checked(len).ok_or(malformed.clone())?;
    let target = sink.buffer.get_mut(..len).ok_or(malformed.clone())?;
    target.copy_from_slice(bytes);
    let behind = behind.get(pad_len(len)..).ok_or(malformed)?;
    Ok(([head, behind].concat(), len))
}

/// The length word at the end of `head`.
pub(crate) fn opaque_len(head: &[u8]) -> Option<usize> {
    usize::try_from(u32::from_be_bytes(*head.last_chunk::<4>()?)).ok()
}
