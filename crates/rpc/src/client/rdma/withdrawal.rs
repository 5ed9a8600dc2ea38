//! Memory of calls on its way back: a call is answered when it is out of the server's reach, and not before.
//!
//! A provider in software has revoked it when asked. Others tell later, and the reply waits here for that.

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

/// What of a call's memory is not with its call again.
#[derive(Debug, Default)]
pub(super) struct Returned {
    /// The memory of the Reply chunk.
    pub(super) reply: Option<Buffer>,
    /// The adapter has lost the argument's memory: the call cannot be sent again.
    pub(super) lost_payload: bool,
    /// It has lost the sink: there is nowhere to put the results.
    pub(super) lost_sink: bool,
    /// It has lost the memory of the Reply chunk, and with it what the server wrote there.
    pub(super) lost_reply: bool,
}

impl Sent {
    /// Revokes all keys. Of the sink the server wrote the first `placed` bytes, of the Reply chunk `written`.
    pub(super) fn withdraw(self, placed: usize, written: usize) -> Withdrawal {
        let Sent {
            source,
            payload,
            sink,
            reply,
            pull,
        } = self;
        // Nobody waits for a call that was all in a chunk.
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
    /// Ready when all of it is out of the server's reach.
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

    /// As [`Withdrawal::poll`], when nobody waits yet.
    pub(super) fn is_done(&mut self) -> bool {
        let mut nobody = Context::from_waker(Waker::noop());
        self.poll(&mut nobody).is_ready()
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
    /// The reply, as it came.
    Reply(Box<LateReply>),
    /// What was read of it.
    Pulled {
        xid: u32,
        coming: Revocation<Option<Buffer>>,
        pulled: Pulled,
    },
}

/// As [`Reply`], kept.
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
                    self.conclude(xid, withdrawal, reply)?;
                }
                Late::Pulled { xid, pulled, .. } => self.conclude_pull(xid, memory, pulled)?,
            }
        }
        Ok(progress)
    }

    /// The connection is over: its keys mean nothing any more, and the calls get their memory back. Those that have
    /// lost it cannot be sent again.
    pub(super) async fn take_memory_back(&mut self) {
        std::future::poll_fn(|context| {
            // Replies that are here are answered; what a reply leaves to be read is out of reach.
            while !self.late.is_empty() && self.poll_late(context).is_err() {}
            if self.late.is_empty() {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
        for (xid, sent) in std::mem::take(&mut self.sent) {
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
