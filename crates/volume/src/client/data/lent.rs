//! Client-based RDMA: this side moves the bytes, to and from memory that the server lends.

use super::{DataError, Target, accepted};
use crate::link::Link;
use gannet_fabric::{RemoteAddress, RemoteKey, Source, Span};
use gannet_wire::volume::{
    Class, Lent, LentDone, Memory, ObjectRange, Operation, Transfer, TransferDone,
};
use gannet_wire::xdr::{from_bytes, to_bytes};

/// Moves a server's share of a READ or WRITE: `spans` are its bytes in our memory, in the order of the stream. `None`:
/// the server lends nothing now.
pub(super) async fn transfer(
    target: &Target,
    (operation, class): (Operation, Class),
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
    let lent = match link.usable(len) {
        Some(lent) => Some(lent),
        None => ask(target, class, &transfer, len).await?,
    };
    let Some(lent) = lent.filter(|lent| u64::from(lent.len) >= len) else {
        return Ok(None);
    };
    for (span, place) in beside(spans, &lent) {
        link.write(Source::Span(span), place).await;
    }
    let number = lent.number;
    let answer = call(target, (Operation::Write, class), transfer, number).await?;
    if let Some(next) = answer.lent {
        link.may_use(next);
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
    let answer = call(target, (Operation::Read, class), transfer, 0).await?;
    let Some(lent) = answer.lent else {
        return Ok(None);
    };
    let link: &Link = &target.link;
    if u64::from(lent.len) < len {
        return Err(DataError::Nonsense { index });
    }
    let read = link.read_into(beside(spans, &lent)).await;
    read.map_err(|error| DataError::Link { index, error })?;
    link.tell(Operation::Return, class, to_bytes(&lent.number));
    Ok(Some(answer.done))
}

/// Asks for memory to write to.
async fn ask(
    target: &Target,
    class: Class,
    transfer: &Transfer,
    size: u64,
) -> Result<Option<Lent>, DataError> {
    let index = target.placement.index;
    let capability = transfer.capability;
    let body = to_bytes(&ObjectRange { capability, size });
    let answer = target.link.call(Operation::Lend, class, &body, &[]).await;
    let answer = accepted(index, answer)?;
    from_bytes(answer.body()).map_err(|_| DataError::Nonsense { index })
}

async fn call(
    target: &Target,
    (operation, class): (Operation, Class),
    transfer: Transfer,
    number: u64,
) -> Result<LentDone, DataError> {
    let index = target.placement.index;
    let memory = Memory::Lent { number };
    let body = to_bytes(&Transfer { memory, ..transfer });
    let answer = target.link.call(operation, class, &body, &[]).await;
    let answer = accepted(index, answer)?;
    from_bytes(answer.body()).map_err(|_| DataError::Nonsense { index })
}

/// Our bytes and where they are in lent memory, which holds them one behind the other.
fn beside(spans: Vec<Span>, lent: &Lent) -> Vec<(Span, RemoteAddress)> {
    let mut offset = lent.offset;
    let places = spans.into_iter().map(|span| {
        let key = RemoteKey(lent.key);
        let place = RemoteAddress { key, offset };
        offset += u64::from(span.len);
        (span, place)
    });
    places.collect()
}
