//! Endpoints that share their receives.

use crate::bed::{Bed, Peer, RECEIVES, SLOT_LEN, WORK, ended_by_far, is_flushed, pattern, ping};
use crate::{Broken, Outcome, ensure, ensure_bytes, ensure_eq};
use gannet_fabric::{
    ConnectOptions, Done, NoReceive, PostError, Receives, SendOptions, SharedReceiveQueue,
    SharedReceives, WorkId,
};
use gannet_runtime::Buffer;
use std::rc::Rc;
use std::time::Duration;

/// The work of every message that takes a shared receive.
const SHARED: WorkId = WorkId(77);

type Queue = Rc<dyn SharedReceiveQueue>;

/// A queue of the far provider with `posted` receives; `None` where receives cannot be shared.
fn queue(bed: &Bed<'_>, receives_max: u32, posted: u32) -> Outcome<Option<Queue>> {
    let queue = bed.far.shared_receives(SharedReceives {
        id: SHARED,
        len: SLOT_LEN,
        receives_max,
    });
    let offered = bed.far.capabilities().shared_receives;
    ensure_eq("a queue, and what is said of it", queue.is_some(), offered)?;
    if let Some(queue) = &queue {
        queue.post(posted)?;
    }
    Ok(queue)
}

/// A pair whose far end has `granted` receives of the queue.
async fn pair(bed: &Bed<'_>, queue: &Queue, granted: u32) -> Outcome<(Peer, Peer)> {
    let far = ConnectOptions {
        receives: Receives::Shared {
            queue: Rc::clone(queue),
            granted,
        },
        ..bed.options()?
    };
    bed.pair_with(bed.options()?, far).await
}

fn send(peer: &Peer, bytes: &[u8]) -> Outcome {
    peer.send_with(WORK, bytes, SendOptions::default())
}

/// The next message, which must have taken a shared receive, and its memory.
async fn expect_shared(peer: &mut Peer, bytes: &[u8]) -> Outcome<Buffer> {
    let (id, done, buffer) = peer.next_done().await?;
    let buffer = buffer.ok_or_else(|| Broken::new("a message without its memory"))?;
    let Done::Received { len, .. } = done else {
        return Err(Broken::new(format!("not a message: {done:?}")));
    };
    ensure_eq("work and memory", (id, buffer.len()), (SHARED, SLOT_LEN))?;
    ensure_bytes("message", buffer.get(..len as usize).unwrap_or(&[]), bytes)?;
    Ok(buffer)
}

/// Waits until all memory of the queue is back.
async fn idle(bed: &Bed<'_>, queue: &Queue) -> Outcome {
    for _ in 0..1000 {
        if queue.in_use() == 0 {
            return Ok(());
        }
        gannet_runtime::sleep(&bed.runtime, Duration::from_millis(1)).await;
    }
    ensure_eq("bytes in use", queue.in_use(), 0)
}

pub(crate) async fn two_endpoints_use_one_queue(bed: &Bed<'_>) -> Outcome {
    let Some(queue) = queue(bed, 8, 8)? else {
        return Ok(());
    };
    let (near, mut far) = pair(bed, &queue, 3).await?;
    let (other_near, mut other_far) = pair(bed, &queue, 3).await?;
    for round in 0..20 {
        for index in 0..3 {
            send(&near, &pattern(round + index, 3000 + index))?;
            send(&other_near, &pattern(100 + round + index, 10 + index))?;
        }
        let mut held = Vec::new();
        for index in 0..3 {
            held.push(expect_shared(&mut far, &pattern(round + index, 3000 + index)).await?);
            let expected = pattern(100 + round + index, 10 + index);
            held.push(expect_shared(&mut other_far, &expected).await?);
        }
        ensure_eq("posted, room", (queue.posted(), queue.room()), (2, 0))?;
        ensure_eq("one too many", queue.post(1), Err(PostError::QueueFull))?;
        drop(held);
        queue.post(6)?;
        far.endpoint.grant_receives(3)?;
        other_far.endpoint.grant_receives(3)?;
    }
    ensure_eq("posted, room", (queue.posted(), queue.room()), (8, 0))
}

pub(crate) async fn messages_complete_in_their_order(bed: &Bed<'_>) -> Outcome {
    let Some(queue) = queue(bed, 64, 60)? else {
        return Ok(());
    };
    let (near, mut far) = pair(bed, &queue, 30).await?;
    let (other_near, mut other_far) = pair(bed, &queue, 30).await?;
    // Long ones take several segments, between which those of the other endpoint arrive.
    for index in 0..30 {
        send(&near, &pattern(index, 100 + 270 * index))?;
        send(&other_near, &pattern(50 + index, 8000 - 250 * index))?;
    }
    let mut held = Vec::new();
    for index in 0..30 {
        held.push(expect_shared(&mut far, &pattern(index, 100 + 270 * index)).await?);
    }
    for index in 0..30 {
        held.push(expect_shared(&mut other_far, &pattern(50 + index, 8000 - 250 * index)).await?);
    }
    ensure_eq("receives left", queue.posted(), 0)
}

pub(crate) async fn a_peer_beyond_its_grant_ends_alone(bed: &Bed<'_>) -> Outcome {
    let Some(queue) = queue(bed, 100, 100)? else {
        return Ok(());
    };
    let (mut near, mut far) = pair(bed, &queue, 4).await?;
    let (other_near, mut other_far) = pair(bed, &queue, 4).await?;
    for index in 0..50 {
        send(&near, &pattern(index, 100))?;
    }
    ended_by_far(bed, &mut near, &mut far).await?;
    let taken = 100 - queue.posted();
    ensure_eq(
        "receives taken by the peer that ignores its grant",
        taken,
        4,
    )?;
    for index in 0..4 {
        send(&other_near, &pattern(index, 200))?;
    }
    for index in 0..4 {
        expect_shared(&mut other_far, &pattern(index, 200)).await?;
    }
    Ok(())
}

pub(crate) async fn an_empty_queue_ends_the_connection_that_needs_it(bed: &Bed<'_>) -> Outcome {
    let Some(queue) = queue(bed, 8, 2)? else {
        return Ok(());
    };
    let (mut near, mut far) = pair(bed, &queue, 4).await?;
    let (other_near, mut other_far) = pair(bed, &queue, 4).await?;
    let (mut own_near, mut own_far) = bed.pair().await?;
    for text in [b"one", b"two"] {
        send(&near, text)?;
        drop(expect_shared(&mut far, text).await?);
    }
    send(&near, b"no receive is posted for this")?;
    let waits = bed.far.capabilities().no_receive == NoReceive::Waits;
    if !waits {
        ended_by_far(bed, &mut near, &mut far).await?;
    }
    ping(&mut own_near, &mut own_far).await?;
    // The memory of the messages is back, and receives posted now serve all endpoints with a grant.
    queue.post(8)?;
    if waits {
        drop(expect_shared(&mut far, b"no receive is posted for this").await?);
    }
    send(&other_near, b"three")?;
    expect_shared(&mut other_far, b"three").await?;
    Ok(())
}

pub(crate) async fn memory_of_an_aborted_endpoint_comes_back(bed: &Bed<'_>) -> Outcome {
    let Some(queue) = queue(bed, 8, 8)? else {
        return Ok(());
    };
    for aborted in [false, true] {
        let (mut near, mut far) = pair(bed, &queue, 8).await?;
        for index in 0..5 {
            send(&near, &pattern(index, SLOT_LEN))?;
        }
        let first = expect_shared(&mut far, &pattern(0, SLOT_LEN)).await?;
        if aborted {
            far.endpoint.abort("the case says so");
            // Complete messages may still be reported; receives that no message had taken do not come back.
            let (rest, _) = far.end().await;
            let strays = rest.iter().filter(|it| is_flushed(it)).count();
            ensure(
                strays <= 1,
                format!("{strays} receives of others came back"),
            )?;
        }
        drop(far);
        near.end().await;
        ensure(queue.in_use() > 0, "the memory of a message was taken away")?;
        drop(first);
        idle(bed, &queue).await?;
        queue.post(queue.room())?;
        ensure_eq("posted again", queue.posted(), 8)?;
    }
    let (near, mut far) = pair(bed, &queue, 8).await?;
    for index in 0..8 {
        send(&near, &pattern(index, 100))?;
    }
    for index in 0..8 {
        expect_shared(&mut far, &pattern(index, 100)).await?;
    }
    Ok(())
}

pub(crate) async fn shared_and_own_receives_do_not_mix(bed: &Bed<'_>) -> Outcome {
    let Some(queue) = queue(bed, 8, 8)? else {
        return Ok(());
    };
    let (_near, far) = pair(bed, &queue, 1).await?;
    let own = far.endpoint.post_receive(WORK, bed.slot()?);
    ensure(
        matches!(own, Err(PostError::Invalid(_))),
        format!("a receive of its own: {own:?}"),
    )?;
    let (own_near, mut own_far) = bed.pair().await?;
    let granted = own_far.endpoint.grant_receives(1);
    ensure(
        matches!(granted, Err(PostError::Invalid(_))),
        format!("a grant without a queue: {granted:?}"),
    )?;
    for index in 0..RECEIVES {
        send(&own_near, &pattern(index, 50))?;
        own_far.expect_message().await?;
    }
    own_far.endpoint.close();
    far.endpoint.close();
    let refused = far.endpoint.grant_receives(1);
    ensure_eq("a grant after the end", refused, Err(PostError::Closed))
}
