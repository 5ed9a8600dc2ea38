//! Every registration strategy moves the bytes, returns the memory, and admits no later access to it.

use crate::bed::{Bed, Peer, WORK, ended_by_far, pattern, persistently, ping};
use crate::refusals::ensure_refused;
use crate::{Broken, Outcome, ensure, ensure_bytes, ensure_eq};
use gannet_fabric::registration::{Registered, Registration, Strategy, StrategyKind, Trust};
use gannet_fabric::{Access, Done, PostError, RemoteAddress, Scope, SendOptions, Signal, WorkId};
use gannet_runtime::{Buffer, Handle};
use std::rc::Rc;

const SIZES: [usize; 7] = [1, 4095, 4096, 4097, 65_537, 1 << 20, (1 << 20) + 1];

/// A strategy over the domain of `peer`.
fn over(bed: &Bed<'_>, peer: &Peer, kind: StrategyKind) -> Outcome<Rc<dyn Strategy>> {
    let runtime = Handle::clone(&bed.runtime);
    Ok(Registration::new(kind, Trust::Trusted)?.over(peer.endpoint.domain(), runtime))
}

/// Memory that a peer's late access reaches on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LeftOpen {
    /// None: it is refused.
    Nothing,
    /// A slab that nobody else uses.
    Slab,
    /// All memory, by the one key that trusted peers have.
    Everything,
}

fn left_open(bed: &Bed<'_>, far: &Peer, kind: StrategyKind) -> LeftOpen {
    let capabilities = bed.far.capabilities();
    match kind {
        _ if capabilities.software_regions => LeftOpen::Nothing,
        StrategyKind::ClientCache if !far.endpoint.domain().has_windows() => LeftOpen::Slab,
        StrategyKind::AllPhysical if capabilities.all_physical => LeftOpen::Everything,
        _ => LeftOpen::Nothing,
    }
}

/// Registers memory that `make` makes for the peer of `end` alone.
fn register(
    strategy: &Rc<dyn Strategy>,
    end: &Peer,
    mut make: impl FnMut() -> Outcome<Buffer>,
    access: Access,
) -> Outcome<Registered> {
    let scope = Scope::Endpoint(end.endpoint.id());
    persistently(|| Ok(Rc::clone(strategy).register(make()?, access, scope)))
}

/// Checks that no region is in use, and that the strategy keeps none after it was asked to release its cache.
fn settled(strategy: &Rc<dyn Strategy>) -> Outcome {
    let kind = strategy.kind();
    ensure_eq(&format!("{kind}: in use"), strategy.counters().in_use, 0)?;
    strategy.reclaim();
    let counters = strategy.counters();
    ensure_eq(&format!("{kind}: bytes kept"), counters.bytes, 0)?;
    let ended = counters.deregistrations + counters.invalidated_by_peer;
    ensure_eq(
        &format!("{kind}: registrations ended"),
        ended,
        counters.registrations,
    )
}

pub(crate) async fn bytes_are_written_under_each(bed: &Bed<'_>) -> Outcome {
    for kind in StrategyKind::ALL {
        let (mut near, mut far) = bed.pair().await?;
        let strategy = over(bed, &far, kind)?;
        // Three rounds, so that cached registrations are used again.
        for (round, size) in (0..3).flat_map(|round| SIZES.map(|size| (round, size))) {
            let target = register(
                &strategy,
                &far,
                || Ok(Buffer::zeroed(size)),
                Access::RemoteWrite,
            )?;
            let expected = pattern(round, size);
            near.write(WORK, &expected, target.address())?;
            near.expect(WORK, Done::Written).await?;
            ping(&mut near, &mut far).await?;
            let memory = target
                .release(size)
                .await
                .ok_or_else(|| Broken::new("the memory did not come back"))?;
            ensure_bytes(&format!("{kind}, {size} bytes"), &memory, &expected)?;
        }
        settled(&strategy)?;
    }
    Ok(())
}

pub(crate) async fn bytes_are_read_under_each(bed: &Bed<'_>) -> Outcome {
    for kind in StrategyKind::ALL {
        let (mut near, far) = bed.pair().await?;
        let strategy = over(bed, &far, kind)?;
        for (round, size) in (0..3).flat_map(|round| SIZES.map(|size| (round, size))) {
            let expected = pattern(round, size);
            let buffer = || Ok(Buffer::from_vec(expected.clone()));
            let exposed = register(&strategy, &far, buffer, Access::RemoteRead)?;
            let sink = near.sink(size)?;
            near.read(WORK, &sink, exposed.address())?;
            near.expect(WORK, Done::Read).await?;
            ensure_bytes(
                &format!("{kind}, {size} bytes"),
                &bed.bytes_of(&sink)?,
                &expected,
            )?;
            let memory = exposed.release(0).await;
            ensure_eq(
                "length of the memory",
                memory.map(|it| it.len()),
                Some(size),
            )?;
        }
        settled(&strategy)?;
    }
    Ok(())
}

pub(crate) async fn slots_serve_our_own_reads_under_each(bed: &Bed<'_>) -> Outcome {
    const ROUNDS: usize = 20;
    for kind in StrategyKind::ALL {
        let (mut near, far) = bed.pair().await?;
        let strategy = over(bed, &near, kind)?;
        let origin = far.expose(pattern(7, 8000), Access::RemoteRead)?;
        let address = super::bed::address_of(&origin, 0);
        for _ in 0..ROUNDS {
            let sink = register(&strategy, &near, || bed.slot(), Access::Local)?;
            near.endpoint.post_read(WORK, sink.span(0, 8000), address)?;
            near.endpoint.flush();
            near.expect(WORK, Done::Read).await?;
            let memory = sink.release(8000).await.unwrap_or_default();
            let read = memory.get(..8000).unwrap_or(&[]);
            ensure_bytes(kind.name(), read, &pattern(7, 8000))?;
        }
        let (counters, rounds) = (strategy.counters(), ROUNDS as u64);
        let seen = (counters.registrations, counters.hits, counters.fallbacks);
        let expected = match kind {
            StrategyKind::ServerCache => (1, rounds - 1, 0),
            StrategyKind::Dynamic | StrategyKind::Fmr => (rounds, 0, 0),
            StrategyKind::AllPhysical if !bed.near.capabilities().all_physical => {
                (rounds, 0, rounds)
            }
            StrategyKind::AllPhysical => (1, rounds - 1, 0),
            // It takes the way that it measured as cheaper.
            StrategyKind::ClientCache => seen,
        };
        ensure_eq(kind.name(), seen, expected)?;
        settled(&strategy)?;
    }
    Ok(())
}

pub(crate) async fn nothing_lands_after_release(bed: &Bed<'_>) -> Outcome {
    const AREA: usize = 1 << 20;
    for kind in StrategyKind::ALL {
        let (mut near, mut far) = bed.pair().await?;
        let strategy = over(bed, &far, kind)?;
        let target = register(
            &strategy,
            &far,
            || Ok(Buffer::zeroed(AREA)),
            Access::RemoteWrite,
        )?;
        let address = target.address();
        let writes = 8 + bed.runtime.random() % 16;
        for id in 0..writes {
            near.write(WorkId(id), &vec![0xee; AREA], address)?;
        }
        // The owner takes the memory back at a random moment: some writes are placed, and one perhaps in part.
        for _ in 0..bed.runtime.random() % writes {
            near.next().await?;
        }
        let mut memory = target
            .release(AREA)
            .await
            .ok_or_else(|| Broken::new("the memory did not come back"))?;
        memory.fill(0x11);
        match left_open(bed, &far, kind) {
            LeftOpen::Nothing => late(bed, &mut near, &mut far, address).await?,
            LeftOpen::Slab | LeftOpen::Everything => {
                late_by_valid_key(&mut near, &mut far, address).await?;
            }
        }
        ensure_bytes(kind.name(), &memory, &vec![0x11; AREA])?;
        settled(&strategy)?;
    }
    Ok(())
}

/// Posts one more write by the key of released memory. The connection survives, or the far end ends it, as its
/// capabilities say.
async fn late(bed: &Bed<'_>, near: &mut Peer, far: &mut Peer, address: RemoteAddress) -> Outcome {
    if bed.far.capabilities().survivable_exceptions {
        return late_by_valid_key(near, far, address).await;
    }
    // The end may come before the post.
    let _ = post_late(near, address)?;
    ended_by_far(bed, near, far).await.map(drop)
}

/// As [`late`], where no exception ends the connection.
async fn late_by_valid_key(near: &mut Peer, far: &mut Peer, address: RemoteAddress) -> Outcome {
    post_late(near, address)??;
    near.send_with(WORK, b"all sent", SendOptions::default())?;
    let message = loop {
        let completion = far.next().await?;
        if matches!(completion.outcome, Ok(Done::Received { .. })) {
            break completion;
        }
    };
    ensure(message.buffer.is_some(), "a message without its buffer")
}

fn post_late(near: &Peer, address: RemoteAddress) -> Outcome<Result<(), PostError>> {
    let source = near.write_source(&[0xee; 100])?;
    let posted = near
        .endpoint
        .post_write(WORK, source, address, Signal::OnError);
    near.endpoint.flush();
    Ok(posted)
}

pub(crate) async fn nothing_is_read_after_release(bed: &Bed<'_>) -> Outcome {
    for kind in StrategyKind::ALL {
        let (mut near, far) = bed.pair().await?;
        let strategy = over(bed, &far, kind)?;
        let buffer = || Ok(Buffer::from_vec(pattern(8, 5000)));
        let exposed = register(&strategy, &far, buffer, Access::RemoteRead)?;
        let address = exposed.address();
        drop(exposed.release(0).await);
        let sink = near.sink(5000)?;
        near.read(WORK, &sink, address)?;
        let outcome = near.next().await?.outcome;
        let bytes = bed.bytes_of(&sink)?;
        match left_open(bed, &far, kind) {
            LeftOpen::Slab => {
                ensure_eq("a late read of a slab", &outcome, &Ok(Done::Read))?;
                ensure_bytes(
                    "bytes that the reader had before",
                    &bytes,
                    &pattern(8, 5000),
                )?;
            }
            LeftOpen::Everything => {
                ensure_eq("a late read of all memory", &outcome, &Ok(Done::Read))?;
            }
            LeftOpen::Nothing => {
                ensure_refused(bed, &outcome, None)?;
                ensure_bytes(kind.name(), &bytes, &[0; 5000])?;
            }
        }
        settled(&strategy)?;
    }
    Ok(())
}

/// Memory that stays registered serves one connection after the other, and each reaches only its own use.
pub(crate) async fn a_key_serves_one_connection_at_a_time(bed: &Bed<'_>) -> Outcome {
    for kind in [
        StrategyKind::Dynamic,
        StrategyKind::Fmr,
        StrategyKind::ServerCache,
        StrategyKind::ClientCache,
    ] {
        let (mut near, far) = bed.pair().await?;
        let (mut other, other_far) = bed.pair().await?;
        let strategy = over(bed, &far, kind)?;
        let mut last = None;
        for round in 0..4 {
            let (reader, end) = if round % 2 == 0 {
                (&mut near, &far)
            } else {
                (&mut other, &other_far)
            };
            // The connections use the same memory in turn.
            drop(last.take());
            let slot = || {
                let mut slot = bed.slot()?;
                slot.fill(round);
                Ok(slot)
            };
            let exposed = register(&strategy, end, slot, Access::RemoteRead)?;
            let sink = reader.sink(8000)?;
            reader.read(WORK, &sink, exposed.address())?;
            reader.expect(WORK, Done::Read).await?;
            ensure_bytes(kind.name(), &bed.bytes_of(&sink)?, &[round; 8000])?;
            last = Some((exposed.address(), exposed));
        }
        // The last use was for the other connection, so its key must not admit this one.
        let Some((address, exposed)) = last.take() else {
            return Err(Broken::new("no key"));
        };
        let sink = near.sink(8000)?;
        near.read(WORK, &sink, address)?;
        let outcome = near.next().await?.outcome;
        ensure_refused(bed, &outcome, None)?;
        ensure_bytes(kind.name(), &bed.bytes_of(&sink)?, &[0; 8000])?;
        drop(exposed);
        settled(&strategy)?;
    }
    Ok(())
}

pub(crate) async fn neighbours_are_out_of_reach_under_each(bed: &Bed<'_>) -> Outcome {
    for kind in StrategyKind::ALL {
        let (mut near, mut far) = bed.pair().await?;
        let strategy = over(bed, &far, kind)?;
        let page = || Ok(Buffer::zeroed(4096));
        let first = register(&strategy, &far, page, Access::RemoteWrite)?;
        let second = register(&strategy, &far, page, Access::RemoteWrite)?;
        let mut past_the_end = first.address();
        past_the_end.offset += 4000;
        match left_open(bed, &far, kind) {
            LeftOpen::Everything => late_by_valid_key(&mut near, &mut far, past_the_end).await?,
            LeftOpen::Slab | LeftOpen::Nothing => {
                late(bed, &mut near, &mut far, past_the_end).await?;
            }
        }
        for memory in [first.release(4096).await, second.release(4096).await] {
            let memory = memory.unwrap_or_default();
            ensure_bytes(kind.name(), &memory, &[0; 4096])?;
        }
        settled(&strategy)?;
    }
    Ok(())
}
