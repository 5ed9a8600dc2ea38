//! What MPA, DDP and RDMAP say, in fields.

use crate::line::Part;
use crate::nfs::hex;
use gannet_wire::ddp::{DdpHeader, STag, Tagged, TaggedOffset};
use gannet_wire::mpa::{Enhanced, FrameKind, StartupFrame};
use gannet_wire::rdmap::{
    BitOrder, ExceptionReason, Opcode, Terminate, TerminateCode, TerminateContext,
    split_exceptions_offer,
};
use gannet_wire::rpcrdma::PrivateData;

/// Bytes of an unknown payload shown on a line.
pub(super) const PAYLOAD_SHOWN: usize = 16;

/// What a startup frame says.
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
        peer_to_peer(enhanced, &mut part);
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
        part.pair("begins", hex(shown.unwrap_or(private_data)));
        parts.push(part);
    }
    parts
}

/// The ready-to-receive messages that a peer-to-peer connection may begin with (RFC 6581 section 9).
fn peer_to_peer(enhanced: &Enhanced, part: &mut Part) {
    if !enhanced.peer_to_peer {
        return;
    }
    let offered = [
        ("send", enhanced.send_rtr),
        ("write", enhanced.write_rtr),
        ("read", enhanced.read_rtr),
    ];
    let offered = offered.into_iter().filter(|(_, is_offered)| *is_offered);
    let offered: Vec<String> = offered.map(|(name, _)| name.to_owned()).collect();
    part.flag("peer_to_peer", true).pair("rtr", offered);
}

pub(super) fn tagged(header: &Tagged) -> Part {
    let mut part = Part::new("rdmap");
    part.word("memory", memory(header.stag, header.offset));
    part
}

/// `key@offset`.
pub(super) fn memory(stag: STag, offset: TaggedOffset) -> String {
    format!("{stag}@{:x}", offset.0)
}

/// Why a Read was refused (docs/formats/exceptions.md).
pub(super) fn reason(reason: ExceptionReason) -> &'static str {
    match reason {
        ExceptionReason::NotResident => "not_resident",
        ExceptionReason::StaleKey => "stale_key",
        ExceptionReason::Bounds => "bounds",
        ExceptionReason::Rights => "rights",
        ExceptionReason::BadCapability => "bad_capability",
        ExceptionReason::Replay => "replay",
    }
}

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
    let swapped = TerminateCode {
        layer: terminate.code.error_type,
        error_type: terminate.code.layer,
        code: terminate.code.code,
    };
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
            part.pair("source", memory(request.source_stag, request.source_offset));
            part.pair("size", request.size);
        }
        (None, DdpHeader::Tagged(header)) => {
            part.pair("at", memory(header.stag, header.offset));
        }
        (None, DdpHeader::Untagged(header)) => {
            part.pair("queue", header.queue.0).pair("msn", header.msn.0);
            part.pair("offset", header.offset.0);
        }
    }
}
