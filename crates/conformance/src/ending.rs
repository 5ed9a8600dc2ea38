//! Closing, aborting, disappearing.

use crate::bed::{Bed, RECEIVES, WORK, address_of, is_flushed, pattern, ping, source};
use crate::refusals::ensure_refused;
use crate::{Outcome, ensure, ensure_bytes, ensure_eq};
use gannet_fabric::{
    Access, Disconnected, Done, PostError, SendOptions, Signal, Span, WorkError, WorkId,
};
use gannet_runtime::Buffer;

pub(crate) async fn close_drains(bed: &Bed<'_>) -> Outcome {
    let (mut near, mut far) = bed.pair().await?;
    let target = far.expose(vec![0; 2 << 20], Access::RemoteWrite)?;
    let bytes = pattern(1, 2 << 20);
    near.write(WorkId(100), &bytes, address_of(&target, 0))?;
    for id in 0..4 {
        near.send(WorkId(200 + id), &pattern(id as usize, 5000))?;
    }
    near.endpoint.close();
    for id in 0..4 {
        let message = far.expect_message().await?;
        ensure_bytes("message before the end", &message, &pattern(id, 5000))?;
    }
    ensure_bytes("written before the end", &bed.bytes_of(&target)?, &bytes)?;
    let (rest, reason) = far.end().await;
    ensure_eq("the far end's reason", reason, Disconnected::Peer)?;
    ensure_eq("receives left at the far end", rest.len(), RECEIVES - 4)?;
    ensure(rest.iter().all(is_flushed), "a receive was not flushed")?;
    ensure(
        rest.iter().all(|left| left.buffer.is_some()),
        "memory was not given back",
    )?;

    near.expect(WorkId(100), Done::Written).await?;
    for id in 0..4 {
        near.expect(WorkId(200 + id), Done::Sent).await?;
    }
    let (rest, reason) = near.end().await;
    ensure_eq("the near end's reason", reason, Disconnected::Local)?;
    ensure_eq("receives left at the near end", rest.len(), RECEIVES)?;
    ensure(rest.iter().all(is_flushed), "a receive was not flushed")
}

pub(crate) async fn close_is_seen_by_idle_peers(bed: &Bed<'_>) -> Outcome {
    let (mut near, mut far) = bed.pair().await?;
    far.endpoint.close();
    let (_, reason) = near.end().await;
    ensure_eq("the near end's reason", reason, Disconnected::Peer)?;
    let (_, reason) = far.end().await;
    ensure_eq("the far end's reason", reason.clone(), Disconnected::Local)?;
    ensure_eq("the reason asked again", far.end().await.1, reason)
}

pub(crate) async fn nothing_is_posted_after_close(bed: &Bed<'_>) -> Outcome {
    let (mut near, far) = bed.pair().await?;
    let target = far.expose(vec![0; 10], Access::RemoteReadWrite)?;
    let sink = near.sink(10)?;
    near.endpoint.close();
    for ended in [false, true] {
        if ended {
            near.end().await;
        }
        let address = address_of(&target, 0);
        let refusals = [
            near.endpoint.post_receive(WORK, Buffer::zeroed(10)),
            near.endpoint
                .post_send(WORK, source(b"late")?, SendOptions::default()),
            near.endpoint
                .post_write(WORK, near.write_source(b"late")?, address, Signal::Always),
            near.endpoint.post_read(WORK, Span::whole(&sink)?, address),
        ];
        ensure_eq("posting after close", refusals, [Err(PostError::Closed); 4])?;
    }
    Ok(())
}

pub(crate) async fn abort_flushes(bed: &Bed<'_>) -> Outcome {
    let (mut near, far) = bed.pair().await?;
    let target = far.expose(vec![0; 1 << 20], Access::RemoteReadWrite)?;
    let sink = near.sink(1 << 20)?;
    for id in 0..4 {
        near.write(
            WorkId(100 + id),
            &pattern(0, 1 << 20),
            address_of(&target, 0),
        )?;
        near.read(WorkId(200 + id), &sink, address_of(&target, 0))?;
    }
    near.endpoint.abort("the case says so");
    let (completions, reason) = near.end().await;
    ensure(
        matches!(
            reason,
            Disconnected::Local | Disconnected::PeerMisbehaved(_)
        ),
        format!("the near end says {reason:?}"),
    )?;
    let mut ids: Vec<u64> = completions
        .iter()
        .map(|completion| completion.id.0)
        .collect();
    ids.sort_unstable();
    let receives = 0..RECEIVES as u64;
    let expected: Vec<u64> = receives.chain(100..104).chain(200..204).collect();
    ensure_eq("work that came back", ids, expected)?;
    let odd = completions.iter().find(|completion| {
        !matches!(
            completion.outcome,
            Err(WorkError::Flushed) | Ok(Done::Written | Done::Read)
        )
    });
    ensure(odd.is_none(), format!("neither done nor flushed: {odd:?}"))?;
    // A source that is registered comes back with its region.
    let needs_registration = bed.near.capabilities().needs_local_registration;
    let owned = if needs_registration { 100 } else { 200 };
    let without = completions
        .iter()
        .find(|completion| completion.id.0 < owned && completion.buffer.is_none());
    ensure(
        without.is_none(),
        format!("memory was not given back: {without:?}"),
    )
}

pub(crate) async fn an_abort_is_seen_by_the_peer(bed: &Bed<'_>) -> Outcome {
    let (mut near, mut far) = bed.pair().await?;
    ping(&mut near, &mut far).await?;
    far.endpoint.abort("the case says so");
    let (completions, reason) = near.end().await;
    ensure(reason != Disconnected::Local, "the near end says it closed")?;
    ensure(
        completions.iter().all(is_flushed),
        "work done after the end",
    )?;
    ensure_eq("receives that came back", completions.len(), RECEIVES)
}

pub(crate) async fn a_dropped_endpoint_ends_the_connection(bed: &Bed<'_>) -> Outcome {
    let (mut near, mut far) = bed.pair().await?;
    ping(&mut near, &mut far).await?;
    drop(far);
    let (_, reason) = near.end().await;
    ensure(reason != Disconnected::Local, "the near end says it closed")
}

pub(crate) async fn keys_die_with_their_connection(bed: &Bed<'_>) -> Outcome {
    let (mut near, mut far) = bed.pair().await?;
    let region = far.expose(pattern(2, 100), Access::RemoteReadWrite)?;
    near.endpoint.close();
    near.end().await;
    far.end().await;
    let (mut near, mut far) = bed.pair().await?;
    let sink = near.sink(10)?;
    near.read(WORK, &sink, address_of(&region, 0))?;
    let outcome = near.next().await?.outcome;
    ensure_refused(bed, &outcome, None)?;
    if bed.far.capabilities().survivable_exceptions {
        ping(&mut near, &mut far).await?;
    }
    Ok(())
}
