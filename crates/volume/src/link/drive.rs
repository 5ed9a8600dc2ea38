//! The task that drives a connection.

use super::error::EndReason;
use super::queue::{Call, Held, Outgoing, RequestMemory, State, Work};
use super::{Answer, Link, LinkError, Message, Shared, compose};
use crate::limits::{CALL_DEADLINE, CREDITS, OUTGOING_MAX, SIGNAL_EVERY, SPARE_RECEIVES};
use gannet_fabric::{Completion, Done, PostError, SendOptions, Signal, Source, WorkError};
use gannet_metrics::ClientConnection;
use gannet_runtime::{Buffer, Instant, LocalFuture, push_lean};
use gannet_wire::volume::{Class, Kind, MESSAGE_MAX, MessageHeader, Operation, Role};
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};

/// Completions taken in one go before others get their turn.
const ROUNDS_MAX: usize = 16;

/// The offset of the credits in a message.
const CREDITS_AT: usize = 12;

/// Drives a connection to its end.
pub(super) async fn drive(shared: Rc<Shared>) {
    let (mut completions, mut alarm, mut look) = (Vec::new(), None, None);
    let why = std::future::poll_fn(|context| {
        if let Poll::Ready(why) = shared.poll(context, &mut completions) {
            return Poll::Ready(why);
        }
        match shared.watch_holding(context, &mut look) {
            Poll::Pending => {}
            over => return over,
        }
        if shared.has_rested() {
            completions = Vec::new();
        }
        shared.watch(context, &mut alarm)
    });
    let why = why.await;
    tracing::debug!(peer = %shared.endpoint.peer_address(), %why, "connection ended");
    shared.end(why);
    // Dropped last: until the end, messages could come for which a receive must be posted.
    drop(shared.state.borrow_mut().credits.take());
    if shared.handler.is_some() {
        shared.pool.accepted.note_freed(&shared.runtime);
    }
}

impl Shared {
    fn poll(
        self: &Rc<Self>,
        context: &mut Context<'_>,
        completions: &mut Vec<Completion>,
    ) -> Poll<LinkError> {
        for _ in 0..ROUNDS_MAX {
            let polled = self.endpoint.poll_completions(context, completions);
            let mut progress = !completions.is_empty();
            for completion in completions.drain(..) {
                if let Err(why) = self.complete(completion) {
                    self.endpoint.abort(&why.to_string());
                    return Poll::Ready(why.into());
                }
            }
            if let Poll::Ready(Err(disconnected)) = polled {
                return Poll::Ready(EndReason::from(disconnected).into());
            }
            progress |= self.queued.poll_notified(context).is_ready();
            self.begin_requests();
            if let Err(error) = self.post() {
                return Poll::Ready(EndReason::from(error).into());
            }
            self.endpoint.flush();
            if let Some(why) = self.over() {
                return Poll::Ready(why);
            }
            if !progress {
                return Poll::Pending;
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }

    /// Ends the connection when the peer owes a reply or bytes for too long. The caller may have given up long ago;
    /// only the end of the connection frees the memory, credits and buffers that the peer may still use.
    fn watch(
        &self,
        context: &mut Context<'_>,
        alarm: &mut Option<LocalFuture<()>>,
    ) -> Poll<LinkError> {
        loop {
            if let Some(ringing) = alarm {
                ready!(ringing.as_mut().poll(context));
                *alarm = None;
            }
            let oldest = self.state.borrow().owed.values().min().copied();
            let Some(due) = oldest.map(|since| since + CALL_DEADLINE) else {
                return Poll::Pending;
            };
            if due <= self.runtime.now() {
                self.endpoint.abort(&EndReason::NoReply.to_string());
                return Poll::Ready(LinkError::TimedOut);
            }
            *alarm = Some(self.runtime.sleep_until(due));
        }
    }

    /// Ends an accepted connection whose place or memory others need, and begins requests that have waited for memory.
    fn watch_holding(
        self: &Rc<Self>,
        context: &mut Context<'_>,
        alarm: &mut Option<(Instant, LocalFuture<()>)>,
    ) -> Poll<LinkError> {
        loop {
            let due = match self.look(context) {
                Ok(Some(due)) => due,
                Ok(None) => return Poll::Pending,
                Err(why) => {
                    self.endpoint.abort(&why.to_string());
                    return Poll::Ready(why.into());
                }
            };
            let set = alarm.take().filter(|(at, _)| *at <= due);
            let (_, ringing) =
                alarm.insert(set.unwrap_or_else(|| (due, self.runtime.sleep_until(due))));
            ready!(ringing.as_mut().poll(context));
            *alarm = None;
            self.begin_requests();
        }
    }

    /// The reason of the end, if the connection is over.
    fn over(&self) -> Option<LinkError> {
        let state = self.state.borrow();
        if let Some(why) = &state.end {
            self.endpoint.abort(&why.to_string());
            return Some(why.clone());
        }
        let quiet = state.outgoing.is_empty() && state.calls.is_empty();
        if state.closing && quiet {
            self.endpoint.close();
            return Some(EndReason::Closed.into());
        }
        None
    }

    /// Posts queued work while the send queue has room.
    pub(super) fn post(&self) -> Result<(), PostError> {
        let room = self.endpoint.attributes().send_queue_max;
        let mut state = self.state.borrow_mut();
        while state.posted < room {
            let work = match state.outgoing.pop_front() {
                Some(work) => work,
                None if state.has_credit() => match state.requests.pop() {
                    Some((id, request)) => {
                        state.sent = state.sent.wrapping_add(1);
                        state.owed.insert(id, self.runtime.now());
                        request
                    }
                    None => break,
                },
                None => break,
            };
            self.post_one(&mut state, work)?;
        }
        if state.outgoing.len() < OUTGOING_MAX {
            state.room.drain(..).for_each(Waker::wake);
        }
        Ok(())
    }

    fn post_one(&self, state: &mut State, work: Outgoing) -> Result<(), PostError> {
        state.posted += 1;
        self.count(&work);
        match work {
            Outgoing::Send((buffer, len)) => {
                let word = buffer.get(CREDITS_AT..).and_then(<[u8]>::first_chunk);
                let granted = word.copied().map_or(0, u32::from_be_bytes);
                let count = std::mem::take(&mut state.silent) + 1;
                let options = SendOptions {
                    signal: Signal::Always,
                    ..SendOptions::default()
                };
                let source = Source::Buffer { buffer, len };
                let work = Work::Sent { count, granted };
                self.endpoint.post_send(work.id(), source, options)
            }
            Outgoing::Carried(message) => {
                let count = std::mem::take(&mut state.silent) + 1;
                let (granted, hold) = (Some(message.granted), message.hold);
                let id = state.hold(Held::new(count, granted, hold));
                let (work, signal) = (Work::Released(id).id(), Signal::Always);
                let (source, target) = (Source::Span(message.span), message.target);
                self.endpoint.post_write_with_immediate(
                    work,
                    source,
                    target,
                    message.immediate,
                    signal,
                )
            }
            Outgoing::Write {
                source,
                target,
                hold: Some(hold),
            } => {
                let count = std::mem::take(&mut state.silent) + 1;
                let (granted, hold) = (None, Some(hold));
                let id = state.hold(Held::new(count, granted, hold));
                let (work, signal) = (Work::Released(id).id(), Signal::Always);
                self.endpoint.post_write(work, source, target, signal)
            }
            Outgoing::Write {
                source,
                target,
                hold: None,
            } => {
                state.silent += 1;
                let signal = if state.silent < SIGNAL_EVERY {
                    Signal::OnError
                } else {
                    Signal::Always
                };
                let count = match signal {
                    Signal::Always => std::mem::take(&mut state.silent),
                    Signal::OnError => 0,
                };
                self.endpoint
                    .post_write(Work::Left(count).id(), source, target, signal)
            }
            Outgoing::Read { id, sink, source } => {
                state.owed.insert(id, self.runtime.now());
                self.endpoint.post_read(Work::Read(id).id(), sink, source)
            }
            Outgoing::ReadExported { id, sink, source } => {
                state.owed.insert(id, self.runtime.now());
                self.endpoint
                    .post_optimistic_read(Work::ReadExported(id).id(), sink, source)
            }
        }
    }

    /// Counts work for the peer of an accepted connection.
    fn count(&self, work: &Outgoing) {
        let Some(client) = &self.client else {
            return;
        };
        let sent = match work {
            Outgoing::Send((_, len)) => u64::from(*len),
            Outgoing::Write { source, .. } => u64::from(source.len()),
            Outgoing::Carried(message) => u64::from(message.span.len),
            Outgoing::Read { sink, .. } | Outgoing::ReadExported { sink, .. } => {
                self.count_received(client, u64::from(sink.len));
                return;
            }
        };
        self.pool.accepted.counters().bytes_out.add(sent);
        client.sent(sent);
    }

    fn count_received(&self, client: &ClientConnection, bytes: u64) {
        self.pool.accepted.counters().bytes_in.add(bytes);
        client.received(bytes);
    }

    pub(super) fn complete(self: &Rc<Self>, completion: Completion) -> Result<(), EndReason> {
        let work = Work::of(completion.id);
        let done = match completion.outcome {
            Ok(done) => done,
            // The reason of the end comes with `poll_completions`.
            Err(WorkError::Flushed) => return Ok(()),
            Err(WorkError::Remote(refused)) if let Work::ReadExported(id) = work => {
                self.read_ended(id, Err(refused));
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        match (work, done) {
            (Work::Receive, Done::Received { len, .. }) => match completion.buffer {
                Some(buffer) => self.receive(buffer, len as usize),
                None => Ok(()),
            },
            (Work::Receive, Done::ReceivedImmediate { immediate, len }) => {
                match completion.buffer {
                    Some(buffer) => self.receive_carried(buffer, immediate, len),
                    None => Ok(()),
                }
            }
            (Work::Left(count), _) => {
                self.left(count);
                Ok(())
            }
            (Work::Sent { count, granted }, _) => {
                self.state.borrow_mut().credits_left(granted);
                self.left(count);
                Ok(())
            }
            (Work::Released(id), _) => {
                let mut state = self.state.borrow_mut();
                let released = state.held.remove(&id);
                if let Some(Held { count, granted, .. }) = &released {
                    state.posted = state.posted.saturating_sub(*count);
                    if let Some(granted) = granted {
                        state.credits_left(*granted);
                    }
                }
                drop(state);
                // After the borrow of the state: a hold that is dropped may queue work.
                drop(released);
                Ok(())
            }
            (Work::Read(id) | Work::ReadExported(id), _) => {
                self.read_ended(id, Ok(()));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Notes that so much work has left the send queue.
    fn left(&self, count: u32) {
        let mut state = self.state.borrow_mut();
        state.posted = state.posted.saturating_sub(count);
        drop(state);
        self.note_left(count);
    }

    /// Takes a message.
    pub(super) fn receive(self: &Rc<Self>, buffer: Buffer, len: usize) -> Result<(), EndReason> {
        let message = buffer.get(..len).unwrap_or_default();
        let (header, ..) = MessageHeader::split(message)?;
        self.state.borrow_mut().hear_credits(header.credits);
        let message = Message {
            header,
            buffer,
            slot: None,
        };
        match header.kind {
            Kind::Request => self.serve(message),
            Kind::Reply => {
                self.hear_term(&header)?;
                self.post_receive()?;
                let call = {
                    let mut state = self.state.borrow_mut();
                    state.has_answered = true;
                    state.owed.remove(&header.id);
                    state.calls.remove(&header.id)
                };
                if let Some(Call { sender, memory }) = call {
                    // What was exposed comes back before the caller runs, which takes it back then.
                    let RequestMemory { slot, exposed, .. } = memory;
                    drop(exposed);
                    // The caller may have given up.
                    let _ = sender.send(Message { slot, ..message });
                }
                Ok(())
            }
            Kind::Control if header.operation == Operation::Buffers => {
                let link = Link {
                    shared: Rc::clone(self),
                };
                link.note_peers_buffers(message.body())?;
                self.without_credit(message)
            }
            Kind::Control | Kind::Data => Err(EndReason::Unexpected(header.operation)),
        }
    }

    /// Notes the manager's term. The replies of a manager whose successor is known do not count: it may have been
    /// paused, and report what is over.
    fn hear_term(&self, header: &MessageHeader) -> Result<(), EndReason> {
        let (terms, number) = (&self.pool.terms, header.term);
        if self.peer == Role::Manager
            && let Some(later) = terms.successor_of(number)
        {
            return Err(EndReason::TermOver {
                term: number,
                later,
            });
        }
        terms.hear(number);
        Ok(())
    }

    /// Takes a request. It begins when the budget has room for its reply.
    fn serve(&self, request: Message) -> Result<(), EndReason> {
        if self.handler.is_none() {
            return Err(EndReason::RequestToClient);
        }
        {
            let mut state = self.state.borrow_mut();
            if state.end.is_some() {
                // The connection that replaces this one waits until nothing is under way here: a request that began now
                // could run after the peer's next ones.
                return Ok(());
            }
            if let Some(credits) = &mut state.credits {
                credits.request_came(self.runtime.now())?;
            }
        }
        self.pool.accepted.counters().requests.add(1);
        let MessageHeader {
            body_len, data_len, ..
        } = request.header;
        if let Some(client) = &self.client {
            client.operations(1);
            self.count_received(client, u64::from(body_len) + u64::from(data_len));
        }
        self.wait_for_room(request);
        Ok(())
    }

    /// Begins the requests whose replies have room, in the order in which they came.
    fn begin_requests(self: &Rc<Self>) {
        while let Some(request) = self.next_request() {
            self.begin(request);
        }
    }

    /// Begins a request, in a task of its own.
    fn begin(self: &Rc<Self>, request: Message) {
        let Some(handler) = self.handler.clone() else {
            return;
        };
        self.state.borrow_mut().under_way += 1;
        let under_way = UnderWay(Rc::clone(self));
        let (link, header) = (
            Link {
                shared: Rc::clone(self),
            },
            request.header,
        );
        // Called here and not in the task: handlers see requests in the order in which they came.
        let answering = handler.answer(link.clone(), request);
        let task = async move {
            let answer = answering.await;
            link.shared.reply(header, answer);
            drop(under_way);
        };
        self.runtime.spawn("volume request", Box::pin(task));
    }

    /// Queues the reply to a request, with a credit for the next one.
    fn reply(self: &Rc<Self>, request: MessageHeader, answer: Answer) {
        if self.state.borrow().end.is_some() {
            return;
        }
        let credits = match self.grant() {
            Ok(credits) => credits,
            Err(error) => return self.end(EndReason::from(error).into()),
        };
        let header = MessageHeader {
            kind: Kind::Reply,
            status: answer.status,
            credits,
            term: self.handler.as_ref().map_or(0, |it| it.term()),
            ..request
        };
        let Ok(message) = compose(&self.pool.messages, header, &answer.body, &answer.data) else {
            return self.end(LinkError::TooLong);
        };
        let work = match answer.carrier {
            Some(carrier) => self.carry_reply(carrier, message, credits),
            None => [Some(Outgoing::Send(message)), None],
        };
        let mut state = self.state.borrow_mut();
        for work in work.into_iter().flatten() {
            push_lean(&mut state.outgoing, work);
        }
        drop(state);
        self.queued.notify();
    }

    /// Takes back the receive of a request, and gives the new limit of the peer's requests.
    fn grant(&self) -> Result<u32, PostError> {
        let mut state = self.state.borrow_mut();
        if let Some(credits) = &mut state.credits {
            credits.answer(&*self.endpoint, CREDITS, 0)?;
        }
        Ok(state.granted())
    }

    /// Takes back the receive of a message that needs no credit.
    fn without_credit(&self, message: Message) -> Result<(), EndReason> {
        drop(message);
        let mut state = self.state.borrow_mut();
        let Some(credits) = &mut state.credits else {
            drop(state);
            return self.post_receive();
        };
        credits.message_came();
        Ok(credits.cover(&*self.endpoint, 0)?)
    }

    /// Posts one more receive, where receives are the connection's own.
    fn post_receive(&self) -> Result<(), EndReason> {
        let buffer = self.pool.messages.take();
        let buffer = buffer.unwrap_or_else(|| Buffer::zeroed(MESSAGE_MAX));
        Ok(self.endpoint.post_receive(Work::Receive.id(), buffer)?)
    }
}

/// A request that is under way; it ends when this is dropped.
struct UnderWay(Rc<Shared>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut state = self.0.state.borrow_mut();
        state.under_way -= 1;
        if state.under_way == 0 {
            state.idle.drain(..).for_each(Waker::wake);
        }
    }
}

/// Receives of the connecting side: one for each reply that the peer may owe, and a few.
pub(super) const RECEIVES: u32 = CREDITS + SPARE_RECEIVES;

/// The header of a control message, which grants no credit: `credits` is the limit of the messages before it.
pub(super) fn control(operation: Operation, credits: u32) -> MessageHeader {
    MessageHeader {
        kind: Kind::Control,
        operation,
        class: Class::Metadata,
        status: Ok(()),
        credits,
        id: 0,
        term: 0,
        body_len: 0,
        data_len: 0,
    }
}
