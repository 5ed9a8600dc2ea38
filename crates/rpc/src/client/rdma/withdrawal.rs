//! The memory of calls between reply and answer: a call is answered only after all its memory is deregistered.
//!
//! A provider in software deregisters at once. A NIC reports the end later, and the reply waits here for it. If it did
//! not, a late RDMA Write of the server could change memory that is the caller's again.

use super::super::types::{CallError, Sink};
use super::pull::{Locate, Pulled};
use super::{ExposedSink, Link, Lost, Reply, Sent};
use crate::calls::{Entry, SharedPayload};
use gannet_fabric::Revocation;
use gannet_fabric::registration::Registered;
use gannet_runtime::Buffer;
use gannet_wire::rpcrdma::{ChunkLists, TransportHeader};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// The memory of one call.
pub(super) struct Withdrawal {
    /// Holds the opaque argument; its place in the arguments and its length.
    source: Option<(Part, usize, usize)>,
    /// The caller's sink.
    sink: Option<(Part, Locate)>,
    /// The memory of the Reply chunk.
    reply: Option<Part>,
}

/// One piece of it.
struct Part {
    coming: Revocation<Option<Buffer>>,
    buffer: Option<Buffer>,
}

impl Part {
    fn new(coming: Revocation<Option<Buffer>>) -> Part {
        Part {
            coming,
            buffer: None,
        }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if !matches!(self.coming, Revocation::Taken) {
            let coming = std::pin::Pin::new(&mut self.coming);
            self.buffer = std::task::ready!(coming.poll(context));
        }
        Poll::Ready(())
    }
}

/// The memory of a call that did not go back to it.
#[derive(Debug, Default)]
pub(super) struct Returned {
    /// The memory of the Reply chunk.
    pub(super) reply: Option<Buffer>,
    /// The adapter has lost the argument's memory: the call cannot be sent again.
    pub(super) lost_payload: bool,
    /// The adapter has lost the sink: the results have no place.
    pub(super) lost_sink: bool,
    /// The adapter has lost the memory of the Reply chunk, and with it a long reply.
    pub(super) lost_reply: bool,
}

impl Sent {
    /// Revokes all keys of the call. The server wrote the first `placed` bytes of the sink and the first `written` of
    /// the Reply chunk.
    pub(super) fn withdraw(self, placed: usize, written: usize) -> Withdrawal {
        let Sent {
            source,
            payload,
            sink,
            reply,
            pull,
        } = self;
        // The memory of a call that was all in a chunk is dropped: the entry still has the arguments.
        let source = source.zip(payload).map(|(memory, (position, len))| {
            let part = Part::new(memory.release(0));
            (part, position, len)
        });
        let exposed = sink.map(|ExposedSink { memory, locate }| (memory.release(placed), locate));
        let sink = exposed.or_else(|| pull?.give_up());
        Withdrawal {
            source,
            sink: sink.map(|(coming, locate)| (Part::new(coming), locate)),
            reply: reply.map(|memory: Registered| Part::new(memory.release(written))),
        }
    }
}

impl Withdrawal {
    /// Ready when all of it is deregistered. Each part is polled on each call, so that each has the waker.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let source = self.source.as_mut().map(|(part, ..)| part);
        let sink = self.sink.as_mut().map(|(part, _)| part);
        let mut ready = true;
        for part in [source, sink, self.reply.as_mut()].into_iter().flatten() {
            ready &= part.poll(context).is_ready();
        }
        if ready {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }

    /// As [`Withdrawal::poll`], without a waker. A withdrawal that is not done must be polled again in the same round.
    pub(super) fn is_done(&mut self) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        self.poll(&mut context).is_ready()
    }

    /// Gives the caller's memory back to its call.
    pub(super) fn give_back(self, entry: &mut Entry) -> Returned {
        let mut returned = Returned::default();
        if let Some((part, position, len)) = self.source {
            returned.lost_payload = part.buffer.is_none();
            entry.payload = part.buffer.map(|buffer| SharedPayload {
                buffer: Rc::new(buffer),
                len,
                position,
            });
        }
        if let Some((part, locate)) = self.sink {
            returned.lost_sink = part.buffer.is_none();
            entry.sink = part.buffer.map(|buffer| Sink { buffer, locate });
        }
        if let Some(part) = self.reply {
            returned.lost_reply = part.buffer.is_none();
            returned.reply = part.buffer;
        }
        returned
    }
}

/// An answer that waits for memory.
pub(super) enum Late {
    /// A received reply; boxed, because late replies are rare and large.
    Reply(Box<LateReply>),
    /// An exposed reply that was read.
    Pulled {
        xid: u32,
        coming: Revocation<Option<Buffer>>,
        pulled: Pulled,
    },
}

/// A [`Reply`] that owns its parts: the receive of the message is posted again meanwhile.
pub(super) struct LateReply {
    pub(super) xid: u32,
    pub(super) withdrawal: Withdrawal,
    pub(super) header: Option<TransportHeader>,
    pub(super) lists: ChunkLists,
    pub(super) message: Vec<u8>,
    pub(super) placed: usize,
}

impl Link {
    /// Goes on with replies whose memory has come back; true when there were some.
    pub(super) fn poll_late(&mut self, context: &mut Context<'_>) -> Result<bool, Lost> {
        let (mut at, mut progress) = (0, false);
        while let Some(late) = self.late.get_mut(at) {
            let memory = match late {
                Late::Reply(late) => late.withdrawal.poll(context).map(|()| None),
                Late::Pulled { coming, .. } => std::pin::Pin::new(coming).poll(context),
            };
            let Poll::Ready(memory) = memory else {
                at += 1;
                continue;
            };
            progress = true;
            match self.late.remove(at) {
                Late::Reply(late) => {
                    let LateReply {
                        xid,
                        withdrawal,
                        header,
                        lists,
                        message,
                        placed,
                    } = *late;
                    let reply = Reply {
                        header,
                        lists: &lists,
                        message: &message,
                        placed,
                    };
                    self.conclude(xid, Some(withdrawal), reply)?;
                }
                Late::Pulled { xid, pulled, .. } => self.conclude_pull(xid, memory, pulled)?,
            }
        }
        Ok(progress)
    }

    /// Gives the memory of all calls back to them after the connection has ended. A call whose memory the adapter has
    /// lost fails; the others are sent again.
    pub(super) async fn take_memory_back(&mut self) {
        std::future::poll_fn(|context| {
            // Replies that are here still end their calls. The Reads of exposed replies cannot be posted any more.
            while !self.late.is_empty() && self.poll_late(context).is_err() {}
            if self.late.is_empty() {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
        for (xid, sent) in std::mem::take(&mut self.sent) {
            let Some(sent) = sent else { continue };
            let mut withdrawal = sent.withdraw(0, 0);
            std::future::poll_fn(|context| withdrawal.poll(context)).await;
            let mut pending = self.shared.calls.pending.borrow_mut();
            let returned = pending
                .get_mut(xid)
                .map(|entry| withdrawal.give_back(entry));
            if returned.is_some_and(|it| it.lost_payload || it.lost_sink) {
                pending.finish(xid, Err(CallError::Memory));
            }
        }
    }
}
