//! RPC-over-RDMA messages: the transport header, its chunk lists, and the RPC message wherever it is.

use crate::calls::Calls;
use crate::limits::{CHUNK_LIMITS, LIST_SHOWN_MAX};
use crate::line::{Direction, Line, Part};
use crate::nfs::Reading;
use crate::rpc::{self, Described, Message};
use gannet_wire::ddp::TaggedLocation;
use gannet_wire::rpcrdma::{
    ChunkLists, Segment, TransportError, TransportHeader, TransportHeaderError, TransportProcedure,
};
use gannet_wire::xdr::{Decoder, XdrError};

/// The RPC side of a connection.
#[derive(Debug, Default)]
pub(crate) struct RpcRdma {
    /// Calls by the direction in which they went.
    calls: [Calls; 2],
    /// Its ends said or showed that they speak RPC-over-RDMA.
    is_known: bool,
    verbose: bool,
}

impl RpcRdma {
    /// Nothing seen yet.
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
            Err(error) if self.is_known => return Some((vec![broken(error, is_whole)], None)),
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
        let (mut parts, latency) = match header.procedure {
            TransportProcedure::Msg => self.inline(time, direction, message, &lists),
            TransportProcedure::Nomsg => self.outside(time, direction, header.xid, message, &lists),
            TransportProcedure::Done | TransportProcedure::Error(_) => {
                let call = self.calls[direction.opposite().index()].remove(header.xid);
                let latency = call.as_ref().map(|call| rpc::latency(call, time));
                (vec![rpc::reply_opening(header.xid, call.as_ref())], latency)
            }
        };
        parts.push(self.transport(&header, &lists));
        Some((parts, latency))
    }

    /// A message behind its transport header.
    fn inline(
        &mut self,
        time: u64,
        direction: Direction,
        message: Message<'_>,
        lists: &ChunkLists,
    ) -> Described {
        let mut message = message;
        if message.is_call() == Some(false) {
            message.reading.is_reduced = lists.write_segments().iter().any(|it| it.length > 0);
            return rpc::answered(&mut self.calls[direction.opposite().index()], time, message);
        }
        message.reading.is_reduced = lists.reads().iter().any(|read| read.position > 0);
        rpc::called(&mut self.calls[direction.index()], time, message, lists)
    }

    /// A message of which the transport header tells only where it is.
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
                return (vec![part], call.map(|call| rpc::latency(&call, time)));
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
        let mut part = rpc::opening(xid, true);
        part.word("procedure", "(in the Read chunk)");
        part.flag("resent", is_resent);
        (vec![part], None)
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
        let (parts, known) = rpc::call(Message {
            bytes: &bytes,
            is_whole: true,
            reading: Reading {
                is_reduced: false,
                verbose: self.verbose,
            },
        });
        call.procedure = known.map(|(_, procedure)| procedure);
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
        let kind = match header.procedure {
            TransportProcedure::Msg => "msg",
            TransportProcedure::Nomsg => "nomsg",
            TransportProcedure::Done => "done",
            TransportProcedure::Error(_) => "error",
        };
        part.word("kind", kind).pair("credits", header.credits);
        match header.procedure {
            TransportProcedure::Error(TransportError::Chunk) => {
                part.word("error", "ERR_CHUNK");
            }
            TransportProcedure::Error(TransportError::Version { low, high }) => {
                part.word("error", format!("ERR_VERS({low}..{high})"));
            }
            _ => {}
        }
        let reads = lists.reads().iter();
        let reads: Vec<String> = reads
            .map(|read| format!("{}:{}", read.position, segment(&read.segment)))
            .collect();
        let writes: Vec<String> = lists.writes().map(chunk).collect();
        let reply: Vec<String> = lists
            .reply()
            .unwrap_or_default()
            .iter()
            .map(segment)
            .collect();
        for (key, is_there, items) in [
            ("read", !lists.reads().is_empty(), reads),
            ("write", lists.writes().len() > 0, writes),
            ("reply", lists.reply().is_some(), reply),
        ] {
            if is_there {
                part.pair(key, self.shortened(items));
            }
        }
        part
    }

    /// The first items of a list, and how many more there are.
    fn shortened(&self, mut items: Vec<String>) -> Vec<String> {
        let more = items.len().saturating_sub(LIST_SHOWN_MAX);
        if more > 1 && !self.verbose {
            items.truncate(LIST_SHOWN_MAX);
            items.push(format!("{more} more"));
        }
        items
    }
}

/// `key+length@offset`.
fn segment(segment: &Segment) -> String {
    let Segment {
        handle,
        length,
        offset,
    } = segment;
    format!("{handle:08x}+{length}@{offset:x}")
}

/// The segments of a chunk in brackets; a single one without.
fn chunk(segments: &[Segment]) -> String {
    match segments {
        [only] => segment(only),
        many => {
            let many: Vec<String> = many.iter().map(segment).collect();
            format!("[{}]", many.join(","))
        }
    }
}

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
