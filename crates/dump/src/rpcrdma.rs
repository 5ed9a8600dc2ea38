//! RPC-over-RDMA messages: the transport header, its chunk lists, and the RPC message behind it or in chunks.

use crate::calls::Calls;
use crate::limits::{CHUNK_LIMITS, LIST_SHOWN_MAX};
use crate::line::{Direction, Line, Part};
use crate::nfs::Reading;
use crate::rpc::{self, Described, Message};
use gannet_wire::ddp::TaggedLocation;
use gannet_wire::rpcrdma::{
    Chunk, ChunkLists, TransportHeader, TransportHeaderError, TransportProcedure,
};
use gannet_wire::xdr::{Decoder, XdrError};
use std::fmt::Display;

/// The state of RPC-over-RDMA on a connection.
#[derive(Debug, Default)]
pub(crate) struct RpcRdma {
    /// Calls by the direction in which they went.
    calls: [Calls; 2],
    /// An end announced RPC-over-RDMA, or a message of it was seen.
    is_known: bool,
    verbose: bool,
}

impl RpcRdma {
    /// The state before the first message.
    pub(crate) fn new(verbose: bool) -> RpcRdma {
        RpcRdma {
            verbose,
            ..RpcRdma::default()
        }
    }

    /// An end announced that it speaks RPC-over-RDMA.
    pub(crate) fn announce(&mut self) {
        self.is_known = true;
    }

    /// Describes the content of a Send; `None` if it is something else than RPC-over-RDMA.
    pub(crate) fn message(
        &mut self,
        time: u64,
        direction: Direction,
        bytes: &[u8],
        is_whole: bool,
    ) -> Option<Described> {
        let mut decoder = Decoder::new(bytes);
        let mut lists = ChunkLists::new();
        let header = match TransportHeader::parse(&mut decoder, &mut lists, CHUNK_LIMITS) {
            Ok(header) => header,
            Err(error) if self.is_known => {
                return Some(Described::untimed(vec![broken(error, is_whole)]));
            }
            Err(_) => return None,
        };
        self.is_known = true;
        let reading = Reading {
            is_reduced: false,
            verbose: self.verbose,
        };
        let message = Message {
            bytes: decoder.remaining(),
            is_whole,
            reading,
        };
        let mut described = match header.procedure {
            TransportProcedure::Msg => self.inline(time, direction, message, &lists),
            TransportProcedure::Nomsg => self.outside(time, direction, header.xid, message, &lists),
            TransportProcedure::Done | TransportProcedure::Error(_) => {
                let call = self.calls[direction.opposite().index()].remove(header.xid);
                let latency = call.as_ref().map(|call| rpc::latency(call, time));
                Described {
                    parts: vec![rpc::reply_opening(header.xid, call.as_ref())],
                    latency,
                }
            }
        };
        described.parts.push(self.transport(&header, &lists));
        Some(described)
    }

    /// Describes a message that follows its transport header.
    fn inline(
        &mut self,
        time: u64,
        direction: Direction,
        message: Message<'_>,
        lists: &ChunkLists,
    ) -> Described {
        let mut message = message;
        if message.is_reply() {
            message.reading.is_reduced = lists.write_segments().iter().any(|it| it.length > 0);
            return rpc::answered(&mut self.calls[direction.opposite().index()], time, message);
        }
        message.reading.is_reduced = lists.reads().iter().any(|read| read.position > 0);
        rpc::called(&mut self.calls[direction.index()], time, message, lists)
    }

    /// Describes a message that lies in chunks.
    fn outside(
        &mut self,
        time: u64,
        direction: Direction,
        xid: u32,
        message: Message<'_>,
        lists: &ChunkLists,
    ) -> Described {
        // Only calls have a Read list.
        if lists.reads().is_empty() {
            let calls = &mut self.calls[direction.opposite().index()];
            let returned = lists.reply().unwrap_or_default();
            let call = calls.get_mut(xid);
            let Some(bytes) = call.and_then(|call| call.reply_chunk_bytes(returned)) else {
                let call = calls.remove(xid);
                let mut part = rpc::reply_opening(xid, call.as_ref());
                part.word("error", "Reply chunk not captured");
                return Described {
                    parts: vec![part],
                    latency: call.map(|call| rpc::latency(&call, time)),
                };
            };
            let reading = Reading {
                is_reduced: lists.write_segments().iter().any(|it| it.length > 0),
                ..message.reading
            };
            let message = Message {
                bytes: &bytes,
                reading,
                ..message
            };
            return rpc::answered(calls, time, message);
        }
        let is_resent = self.calls[direction.index()].insert(xid, time, None, lists);
        let mut part = rpc::opening(xid, "call");
        part.word("procedure", "(in the Read chunk)");
        part.flag("resent", is_resent);
        Described::untimed(vec![part])
    }

    /// RDMA moved `bytes` to or from `memory`, which belongs to the end that sends calls in `direction`. Returns a line
    /// for the call that is complete with them.
    pub(crate) fn place(
        &mut self,
        time: u64,
        direction: Direction,
        memory: TaggedLocation,
        bytes: &[u8],
    ) -> Option<Line> {
        let calls = &mut self.calls[direction.index()];
        let xid = calls.place(memory, bytes)?;
        let call = calls.get_mut(xid)?;
        let bytes = call.call_chunk_bytes()?;
        let (parts, identity) = rpc::call(Message {
            bytes: &bytes,
            is_whole: true,
            reading: Reading {
                is_reduced: false,
                verbose: self.verbose,
            },
        });
        call.procedure = identity.map(|identity| identity.procedure);
        Some(Line {
            direction: Some(direction),
            bytes: Some(bytes.len() as u64),
            parts,
            ..Line::new(time, "long call")
        })
    }

    /// Describes the transport header.
    fn transport(&self, header: &TransportHeader, lists: &ChunkLists) -> Part {
        let mut part = Part::new("rpcrdma");
        part.word("kind", header.procedure.to_string());
        part.pair("credits", header.credits);
        if let TransportProcedure::Error(error) = header.procedure {
            part.word("error", error.to_string());
        }
        let reads = lists.reads();
        if !reads.is_empty() {
            part.pair("read", self.shortened(reads));
        }
        let writes: Vec<Chunk<'_>> = lists.writes().map(Chunk).collect();
        if !writes.is_empty() {
            part.pair("write", self.shortened(&writes));
        }
        if let Some(reply) = lists.reply() {
            part.pair("reply", self.shortened(reply));
        }
        part
    }

    /// The first items of a list, and the number of the others.
    fn shortened(&self, items: &[impl Display]) -> Vec<String> {
        let more = items.len().saturating_sub(LIST_SHOWN_MAX);
        if more <= 1 || self.verbose {
            return items.iter().map(ToString::to_string).collect();
        }
        let first = items.iter().take(LIST_SHOWN_MAX).map(ToString::to_string);
        first.chain([format!("{more} more")]).collect()
    }
}

/// Describes a message whose transport header cannot be read.
fn broken(error: TransportHeaderError, is_whole: bool) -> Part {
    let mut part = Part::new("rpcrdma");
    let xid = match error {
        TransportHeaderError::Short => None,
        TransportHeaderError::Version { xid, .. }
        | TransportHeaderError::Procedure { xid, .. }
        | TransportHeaderError::Chunk { xid, .. } => Some(xid),
    };
    if let Some(xid) = xid {
        part.word("xid", format!("{xid:08x}"));
    }
    let is_cut = matches!(
        error,
        TransportHeaderError::Short
            | TransportHeaderError::Chunk {
                error: XdrError::Short,
                ..
            }
    );
    if is_cut && !is_whole {
        part.word("error", "transport header not captured");
    } else {
        part.word("error", error.to_string());
    }
    part
}
