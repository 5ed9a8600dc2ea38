//! Client-driven transfers: this side moves the bytes, to and from buffers that the server opens.

use super::{DataError, Target, accepted};
use crate::link::Link;
use gannet_fabric::{RemoteAddress, RemoteKey, Source, Span};
use gannet_wire::volume::{
    Class, ClientBuffer, ClientDrivenDone, Memory, ObjectRange, Operation, Transfer, TransferDone,
};
use gannet_wire::xdr::{from_bytes, to_bytes};

/// Moves a server's share of a READ or WRITE: `spans` are its bytes in our memory, in the order of the stream. `None`:
/// the server opens no buffer now.
pub(super) async fn transfer(
    target: &Target,
    operation: Operation,
    class: Class,
    transfer: Transfer,
    spans: Vec<Span>,
) -> Result<Option<TransferDone>, DataError> {
    match operation {
        Operation::Write => write(target, class, transfer, spans).await,
        _ => read(target, class, transfer, spans).await,
    }
}

async fn write(
    target: &Target,
    class: Class,
    transfer: Transfer,
    spans: Vec<Span>,
) -> Result<Option<TransferDone>, DataError> {
    let link = &target.link;
    let len = spans.iter().map(|span| u64::from(span.len)).sum();
    let buffer = match link.usable_buffer(len) {
        Some(buffer) => Some(buffer),
        None => ask(target, class, &transfer, len).await?,
    };
    let Some(buffer) = buffer.filter(|buffer| u64::from(buffer.len) >= len) else {
        return Ok(None);
    };
    for (span, place) in beside(spans, &buffer) {
        link.write(Source::Span(span), place).await;
    }
    let number = buffer.number;
    let answer = call(target, Operation::Write, class, transfer, number).await?;
    if let Some(next) = answer.buffer {
        link.note_usable_buffer(next);
    }
    Ok(Some(answer.done))
}

async fn read(
    target: &Target,
    class: Class,
    transfer: Transfer,
    spans: Vec<Span>,
) -> Result<Option<TransferDone>, DataError> {
    let index = target.placement.index;
    let len: u64 = spans.iter().map(|span| u64::from(span.len)).sum();
    let answer = call(target, Operation::Read, class, transfer, 0).await?;
    let Some(buffer) = answer.buffer else {
        return Ok(None);
    };
    let link: &Link = &target.link;
    if u64::from(buffer.len) < len {
        return Err(DataError::Nonsense { index });
    }
    let read = link.read_into(beside(spans, &buffer)).await;
    read.map_err(|error| DataError::Link { index, error })?;
    link.call_detached(Operation::CloseBuffer, class, to_bytes(&buffer.number));
    Ok(Some(answer.done))
}

/// Asks for a buffer to write to.
async fn ask(
    target: &Target,
    class: Class,
    transfer: &Transfer,
    size: u64,
) -> Result<Option<ClientBuffer>, DataError> {
    let index = target.placement.index;
    let body = to_bytes(&ObjectRange {
        group: transfer.group,
        capability: transfer.capability,
        size,
    });
    let answer = target
        .link
        .call(Operation::OpenBuffer, class, &body, &[])
        .await;
    let answer = accepted(index, answer)?;
    from_bytes(answer.body()).map_err(|_| DataError::Nonsense { index })
}

async fn call(
    target: &Target,
    operation: Operation,
    class: Class,
    transfer: Transfer,
    number: u64,
) -> Result<ClientDrivenDone, DataError> {
    let index = target.placement.index;
    let memory = Memory::ClientDriven { number };
    let body = to_bytes(&Transfer { memory, ..transfer });
    let answer = target.link.call(operation, class, &body, &[]).await;
    let answer = accepted(index, answer)?;
    from_bytes(answer.body()).map_err(|_| DataError::Nonsense { index })
}

/// Our bytes and where they are in the server's buffer, which holds them one behind the other.
fn beside(spans: Vec<Span>, buffer: &ClientBuffer) -> Vec<(Span, RemoteAddress)> {
    let mut offset = buffer.offset;
    let places = spans.into_iter().map(|span| {
        let key = RemoteKey(buffer.key);
        let place = RemoteAddress { key, offset };
        offset += u64::from(span.len);
        (span, place)
    });
    places.collect()
}
