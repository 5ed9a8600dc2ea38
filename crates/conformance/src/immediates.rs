//! RDMA Write with Immediate.

use crate::bed::{Bed, Peer, RECEIVES, SLOT_LEN, WORK, address_of, pattern, ping};
use crate::refusals::aftermath;
use crate::{Broken, Outcome, ensure, ensure_bytes, ensure_eq};
use gannet_fabric::{
    Access, ConnectOptions, Disconnected, Done, PostError, Receives, Region, RemoteAddress,
    RemoteKey, SharedReceives, Signal, WorkId,
};
use gannet_runtime::Buffer;

fn write(peer: &Peer, bytes: &[u8], target: RemoteAddress, immediate: u32) -> Outcome {
    write_with(peer, bytes, target, immediate, Signal::Always)
}

fn write_with(
    peer: &Peer,
    bytes: &[u8],
    target: RemoteAddress,
    immediate: u32,
    signal: Signal,
) -> Outcome {
    let source = peer.write_source(bytes)?;
    let posted = (peer.endpoint).post_write_with_immediate(WORK, source, target, immediate, signal);
    posted?;
    peer.endpoint.flush();
    Ok(())
}

/// The next completion, which must be an immediate; gives the memory of the receive.
async fn expect(peer: &mut Peer, immediate: u32, len: usize) -> Outcome<Buffer> {
    let (_, done, buffer) = peer.next_done().await?;
    let len = u32::try_from(len)?;
    let expected = Done::ReceivedImmediate { immediate, len };
    ensure_eq("completion", done, expected)?;
    buffer.ok_or_else(|| Broken::new("an immediate without its receive"))
}

pub(crate) async fn an_immediate_comes_after_its_bytes(bed: &Bed<'_>) -> Outcome {
    let (mut near, mut far) = bed.pair().await?;
    for (index, len) in [1, 4096, 0, 65_537, 1 << 20].into_iter().enumerate() {
        let target = far.expose(vec![0xee; len + 20], Access::RemoteWrite)?;
        let bytes = pattern(index, len);
        let immediate = 0xfeed_0000 | u32::try_from(index)?;
        write(&near, &bytes, address_of(&target, 10), immediate)?;
        let buffer = expect(&mut far, immediate, len).await?;
        ensure_eq("the receive", buffer.len(), SLOT_LEN)?;
        let found = bed.bytes_of(&target)?;
        ensure_bytes("written", &found[10..10 + len], &bytes)?;
        ensure_bytes("behind it", &found[10 + len..], &[0xee; 10])?;
        near.expect(WORK, Done::Written).await?;
        far.endpoint.post_receive(WorkId(0), buffer)?;
    }
    ping(&mut near, &mut far).await
}

pub(crate) async fn immediates_and_messages_keep_their_order(bed: &Bed<'_>) -> Outcome {
    let (near, mut far) = bed.pair().await?;
    let target = far.expose(vec![0; 70_000], Access::RemoteWrite)?;
    for round in 0..RECEIVES / 2 {
        let bytes = pattern(round, 70_000);
        let immediate = u32::try_from(round)?;
        write(&near, &bytes, address_of(&target, 0), immediate)?;
        near.send(WORK, &pattern(round, 100))?;
    }
    for round in 0..RECEIVES / 2 {
        expect(&mut far, u32::try_from(round)?, 70_000).await?;
        let message = far.expect_message().await?;
        ensure_bytes("message", &message, &pattern(round, 100))?;
    }
    Ok(())
}

pub(crate) async fn a_refused_write_brings_none(bed: &Bed<'_>) -> Outcome {
    let (mut near, mut far) = bed.pair().await?;
    let target: Region = far.expose(vec![0xee; 100], Access::RemoteWrite)?;
    let beyond = address_of(&target, 60);
    // Some providers say that a Write has left before they hear of its refusal.
    write_with(&near, &pattern(1, 50), beyond, 7, Signal::OnError)?;
    let (completions, _) = far.end().await;
    let received = completions.iter().find(|it| it.outcome.is_ok());
    ensure(received.is_none(), format!("received: {received:?}"))?;
    aftermath(bed, &mut near, &mut far).await
}

pub(crate) async fn an_immediate_uses_a_shared_receive(bed: &Bed<'_>) -> Outcome {
    let queue = bed.far.shared_receives(SharedReceives {
        id: WorkId(77),
        len: SLOT_LEN,
        receives_max: 4,
    });
    let queue = queue.ok_or_else(|| Broken::new("no shared receives"))?;
    queue.post(4)?;
    let far_options = ConnectOptions {
        receives: Receives::Shared {
            queue: std::rc::Rc::clone(&queue),
            granted: 3,
        },
        ..bed.options()?
    };
    let (near, mut far) = bed.pair_with(bed.options()?, far_options).await?;
    let target = far.expose(vec![0; 100], Access::RemoteWrite)?;
    let mut held = Vec::new();
    for round in 0..3 {
        write(&near, &pattern(round, 100), address_of(&target, 0), 9)?;
        held.push(expect(&mut far, 9, 100).await?);
    }
    ensure_eq("posted, room", (queue.posted(), queue.room()), (1, 0))?;
    drop(held);
    ensure_eq("posted, room", (queue.posted(), queue.room()), (1, 3))?;
    // A fourth is beyond the grant.
    write(&near, &pattern(4, 100), address_of(&target, 0), 9)?;
    let (completions, reason) = far.end().await;
    let received = completions.iter().find(|it| it.outcome.is_ok());
    ensure(received.is_none(), format!("received: {received:?}"))?;
    let blamed = bed.blames_peer(&reason);
    ensure(blamed, format!("the far end says {reason:?}"))
}

pub(crate) async fn one_that_nobody_takes_ends_the_connection(bed: &Bed<'_>) -> Outcome {
    let far_options = ConnectOptions {
        immediates: false,
        ..bed.options()?
    };
    let (mut near, mut far) = bed.pair_with(bed.options()?, far_options).await?;
    let target = far.expose(vec![0; 100], Access::RemoteWrite)?;
    write(&near, &pattern(1, 100), address_of(&target, 0), 7)?;
    let (completions, reason) = far.end().await;
    let received = completions.iter().find(|it| it.outcome.is_ok());
    ensure(received.is_none(), format!("received: {received:?}"))?;
    ensure(
        matches!(reason, Disconnected::PeerMisbehaved(_)),
        format!("the far end says {reason:?}"),
    )?;
    near.end().await;
    Ok(())
}

/// A provider without immediates refuses to post one.
pub(crate) async fn where_there_are_none_the_post_says_so(bed: &Bed<'_>) -> Outcome {
    if bed.near.capabilities().immediates {
        return Ok(());
    }
    let (mut near, mut far) = bed.pair().await?;
    let target = RemoteAddress {
        key: RemoteKey(1),
        offset: 0,
    };
    let source = near.write_source(b"bytes")?;
    let posted = (near.endpoint).post_write_with_immediate(WORK, source, target, 7, Signal::Always);
    ensure(
        matches!(posted, Err(PostError::Invalid(_))),
        format!("posted: {posted:?}"),
    )?;
    ping(&mut near, &mut far).await
}
