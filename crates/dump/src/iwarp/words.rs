//! Startup frames, tagged headers and Terminates as fields of a line.

use crate::line::Part;
use gannet_wire::Hex;
use gannet_wire::ddp::{DdpHeader, Tagged};
use gannet_wire::mpa::{FrameKind, StartupFrame};
use gannet_wire::rdmap::{BitOrder, Opcode, Terminate, TerminateContext, split_exceptions_offer};
use gannet_wire::rpcrdma::PrivateData;

/// Bytes of an unknown payload shown on a line.
pub(super) const PAYLOAD_SHOWN: usize = 16;

/// The fields of a startup frame, and of the private data of RPC-over-RDMA in it.
pub(super) fn startup(frame: &StartupFrame<'_>) -> Vec<Part> {
    let mut part = Part::new("mpa");
    part.pair("rev", u32::from(frame.revision.0));
    part.flag("rejected", frame.rejected && frame.kind == FrameKind::Reply);
    part.flag("crc", frame.crc).flag("markers", frame.markers);
    let (offers, private_data) = split_exceptions_offer(frame.private_data);
    if frame.reserved != 0 {
        part.pair("reserved", format!("{:#x}", frame.reserved));
    }
    if let Some(enhanced) = &frame.enhanced {
        part.pair("ird", u32::from(enhanced.ird));
        part.pair("ord", u32::from(enhanced.ord));
        if enhanced.peer_to_peer {
            let rtr: Vec<String> = enhanced.rtr_names().map(str::to_owned).collect();
            part.flag("peer_to_peer", true).pair("rtr", rtr);
        }
    }
    part.flag("exceptions", offers);
    let mut parts = vec![part];
    if let Some(data) = PrivateData::find(private_data) {
        let mut part = Part::new("rpcrdma");
        part.pair("inline_send", data.send_size);
        part.pair("inline_receive", data.receive_size);
        part.flag("remote_invalidation", data.remote_invalidation);
        parts.push(part);
    } else if !private_data.is_empty() {
        let mut part = Part::new("private");
        let shown = private_data.get(..PAYLOAD_SHOWN);
        part.pair("bytes", private_data.len());
        part.pair("begins", Hex(shown.unwrap_or(private_data)).to_string());
        parts.push(part);
    }
    parts
}

/// The destination of a tagged segment.
pub(super) fn tagged(header: &Tagged) -> Part {
    let mut part = Part::new("rdmap");
    part.word("memory", header.location().to_string());
    part
}

/// Appends a Terminate: its code, and the segment that it is about.
pub(super) fn terminate(payload: &[u8], part: &mut Part) {
    let (terminate, order) = match Terminate::parse(payload) {
        Ok(read) => read,
        Err(error) => {
            part.word("error", error.to_string());
            return;
        }
    };
    let meaning = terminate.code.meaning().unwrap_or("unknown code");
    part.word("code", format!("{:?}", terminate.code));
    part.word("meaning", meaning);
    part.flag("siw_bit_order", order == BitOrder::Siw);
    let swapped = terminate.code.with_swapped_nibbles();
    if let (BitOrder::Ambiguous, Some(meaning)) = (order, swapped.meaning())
        && swapped != terminate.code
    {
        part.pair("or_from_siw", format!("{swapped:?}"));
        part.word("meaning_from_siw", meaning);
    }
    if let Some(context) = &terminate.context {
        quoted(context, part);
    }
}

/// The headers that a Terminate quotes.
fn quoted(context: &TerminateContext, part: &mut Part) {
    let opcode = Opcode::parse(context.header.ulp_control());
    let about = opcode.map_or_else(|_| String::from("?"), |opcode| format!("{opcode:?}"));
    part.pair("about", about);
    match (&context.read_request, &context.header) {
        (Some(request), _) => {
            part.pair("source", request.source().to_string());
            part.pair("size", request.size);
        }
        (None, DdpHeader::Tagged(header)) => {
            part.pair("at", header.location().to_string());
        }
        (None, DdpHeader::Untagged(header)) => {
            part.pair("queue", header.queue.0).pair("msn", header.msn.0);
            part.pair("offset", header.offset.0);
        }
    }
}
