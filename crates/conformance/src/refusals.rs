//! Forbidden operations of a peer: each is refused, reported to that peer, and without effect on others.

use crate::bed::{
    Bed, Peer, WORK, address_of, ended_by_far, invalidating, pattern, persistently, ping,
};
use crate::{Broken, Outcome, ensure, ensure_bytes, ensure_eq};
use gannet_fabric::{
    Access, AccessError, Backing, DeregisterError, Disconnected, Done, LocalKey, MemoryRegion,
    NoReceive, PostError, Refusals, Region, RegisterError, RemoteAddress, RemoteKey, Revocation,
    Scope, SendOptions, Signal, Source, Span, WorkError, WorkId,
};
use gannet_runtime::Buffer;
use std::rc::Rc;

const LEN: usize = 1000;

/// Accesses to memory beyond a peer's grant.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Trespass {
    UnknownKey,
    RevokedKey,
    DeregisteredKey,
    OtherEndpoint,
    NoRight,
    LocalOnly,
    BeforeStart,
    PastEnd,
    FarPastEnd,
    Wrapping,
}

impl Trespass {
    pub(crate) const ALL: [Trespass; 10] = [
        Trespass::UnknownKey,
        Trespass::RevokedKey,
        Trespass::DeregisteredKey,
        Trespass::OtherEndpoint,
        Trespass::NoRight,
        Trespass::LocalOnly,
        Trespass::BeforeStart,
        Trespass::PastEnd,
        Trespass::FarPastEnd,
        Trespass::Wrapping,
    ];

    /// The accesses that the far provider can refuse.
    pub(crate) fn possible(bed: &Bed<'_>) -> impl Iterator<Item = Trespass> {
        let bound_keys = bed.far.capabilities().bound_keys;
        let is_possible = move |it: &Trespass| bound_keys || !matches!(it, Trespass::OtherEndpoint);
        Trespass::ALL.into_iter().filter(is_possible)
    }

    pub(crate) fn refusal(self) -> AccessError {
        match self {
            Trespass::UnknownKey | Trespass::RevokedKey | Trespass::DeregisteredKey => {
                AccessError::InvalidKey
            }
            Trespass::OtherEndpoint => AccessError::WrongEndpoint,
            Trespass::NoRight | Trespass::LocalOnly => AccessError::Rights,
            Trespass::BeforeStart | Trespass::PastEnd | Trespass::FarPastEnd => AccessError::Bounds,
            Trespass::Wrapping => AccessError::Wrap,
        }
    }

    /// Registers the region under attack and returns an address for an access of 100 bytes.
    pub(crate) async fn prepare(
        self,
        far: &Peer,
        other: &Peer,
        needed: Access,
        unfit: Access,
    ) -> Outcome<(Region, RemoteAddress)> {
        let owner = if matches!(self, Trespass::OtherEndpoint) {
            other
        } else {
            far
        };
        let access = match self {
            Trespass::NoRight => unfit,
            Trespass::LocalOnly => Access::Local,
            _ => needed,
        };
        let region = owner.expose(pattern(1, LEN), access)?;
        let mut address = address_of(&region, 500);
        match self {
            Trespass::UnknownKey => address.key = RemoteKey(!region.remote_key().0),
            Trespass::RevokedKey => region.invalidate().await,
            Trespass::DeregisteredKey => drop(region.deregister().await?),
            Trespass::BeforeStart => address = address_of(&region, 1u64.wrapping_neg()),
            Trespass::PastEnd => address = address_of(&region, LEN as u64 - 99),
            Trespass::FarPastEnd => address = address_of(&region, 1 << 40),
            Trespass::Wrapping => address.offset = u64::MAX - 50,
            Trespass::OtherEndpoint | Trespass::NoRight | Trespass::LocalOnly => {}
        }
        Ok((region, address))
    }
}

pub(crate) async fn reads_outside_the_grant(bed: &Bed<'_>) -> Outcome {
    let (mut by_near, mut by_far) = bed.pair().await?;
    for trespass in Trespass::possible(bed) {
        let (mut near, mut far) = bed.pair().await?;
        let (region, address) = trespass
            .prepare(&far, &by_far, Access::RemoteRead, Access::RemoteWrite)
            .await?;
        let sink = near.sink(100)?;
        near.read(WORK, &sink, address)?;
        let completion = near.next().await?;
        ensure_eq(&format!("{trespass:?}"), completion.id, WORK)?;
        ensure_refused(bed, &completion.outcome, Some(trespass.refusal()))?;
        ensure_bytes("the sink", &bed.bytes_of(&sink)?, &[0; 100])?;
        aftermath(bed, &mut near, &mut far).await?;
        drop(region);
        ping(&mut by_near, &mut by_far).await?;
    }
    Ok(())
}

pub(crate) async fn writes_outside_the_grant(bed: &Bed<'_>) -> Outcome {
    let (mut by_near, mut by_far) = bed.pair().await?;
    for trespass in Trespass::possible(bed) {
        let (mut near, mut far) = bed.pair().await?;
        let (region, address) = trespass
            .prepare(&far, &by_far, Access::RemoteWrite, Access::RemoteRead)
            .await?;
        near.endpoint.post_write(
            WORK,
            near.write_source(&[0xee; 100])?,
            address,
            Signal::OnError,
        )?;
        near.endpoint.flush();
        aftermath(bed, &mut near, &mut far).await?;
        if !matches!(trespass, Trespass::DeregisteredKey) {
            ensure_bytes(
                &format!("{trespass:?}"),
                &bed.bytes_of(&region)?,
                &pattern(1, LEN),
            )?;
        }
        ping(&mut by_near, &mut by_far).await?;
    }
    Ok(())
}

/// Checks that an access was refused; where the far provider names a reason, for this one if there is one.
#[track_caller]
pub(crate) fn ensure_refused(
    bed: &Bed<'_>,
    outcome: &Result<Done, WorkError>,
    why: Option<AccessError>,
) -> Outcome {
    let holds = match bed.far.capabilities().refusals {
        Refusals::Named => match outcome {
            Err(WorkError::Remote(named)) => why.is_none_or(|why| why == *named),
            _ => false,
        },
        Refusals::Unnamed => {
            matches!(outcome, Err(WorkError::Refused | WorkError::Flushed))
        }
    };
    ensure(holds, format!("{outcome:?}, not a refusal: {why:?}"))
}

/// Checks that a refused access leaves the connection up, or that the far end has ended it, as the provider's
/// capabilities say.
pub(crate) async fn aftermath(bed: &Bed<'_>, near: &mut Peer, far: &mut Peer) -> Outcome {
    if bed.far.capabilities().survivable_exceptions {
        return ping(near, far).await;
    }
    let completions = ended_by_far(bed, near, far).await?;
    let odd = completions.iter().find(|completion| {
        !matches!(
            completion.outcome,
            Err(WorkError::Flushed | WorkError::Remote(_) | WorkError::Refused)
        )
    });
    ensure(odd.is_none(), format!("work done after the end: {odd:?}"))
}

pub(crate) async fn a_message_with_no_receive(bed: &Bed<'_>) -> Outcome {
    let mut far_options = bed.options()?;
    far_options.receives = vec![bed.slot()?].into();
    let (mut near, mut far) = bed.pair_with(bed.options()?, far_options).await?;
    let (mut by_near, mut by_far) = bed.pair().await?;
    near.send_with(WORK, b"expected", SendOptions::default())?;
    ensure_bytes("message", &far.expect_message().await?, b"expected")?;
    near.send_with(WORK, b"nobody waits for this", SendOptions::default())?;
    match bed.far.capabilities().no_receive {
        NoReceive::Ends => drop(ended_by_far(bed, &mut near, &mut far).await?),
        NoReceive::Waits => {
            ping(&mut by_near, &mut by_far).await?;
            far.endpoint.post_receive(WorkId(0), bed.slot()?)?;
            let message = far.expect_message().await?;
            ensure_bytes("message that waited", &message, b"nobody waits for this")?;
        }
    }
    ping(&mut by_near, &mut by_far).await
}

pub(crate) async fn a_message_longer_than_its_receive(bed: &Bed<'_>) -> Outcome {
    for (room, len) in [(100, 101), (0, 1), (65_536, 200_000)] {
        let mut far_options = bed.options()?;
        far_options.receives = vec![Buffer::zeroed(room)].into();
        let (mut near, mut far) = bed.pair_with(bed.options()?, far_options).await?;
        near.send_with(WORK, &pattern(0, len), SendOptions::default())?;
        let (completions, reason) = far.end().await;
        let received = completions
            .iter()
            .find(|completion| completion.outcome.is_ok());
        ensure(received.is_none(), format!("received: {received:?}"))?;
        let misbehaved = bed.blames_peer(&reason);
        ensure(misbehaved, format!("the far end says {reason:?}"))?;
        let (_, reason) = near.end().await;
        ensure(reason != Disconnected::Local, "the near end says it closed")?;
    }
    Ok(())
}

pub(crate) async fn send_with_invalidate_revokes(bed: &Bed<'_>) -> Outcome {
    let (mut near, mut far) = bed.pair().await?;
    let region = far.expose(pattern(2, LEN), Access::RemoteReadWrite)?;
    near.write(WORK, &[7; 10], address_of(&region, 0))?;
    near.expect(WORK, Done::Written).await?;
    near.send_with(WORK, b"done with it", invalidating(region.remote_key()))?;
    near.expect(WORK, Done::Sent).await?;
    let (_, done, _) = far.next_done().await?;
    let Done::Received { invalidated, .. } = done else {
        return Err(Broken::new(format!("not a message: {done:?}")));
    };
    ensure_eq("invalidated", invalidated, Some(region.remote_key()))?;
    ensure(!region.is_valid(), "the region is valid still")?;
    let buffer = region.deregister().await?;
    ensure_eq("memory", buffer.map(|buffer| buffer[9]), Some(7))?;
    let sink = near.sink(10)?;
    near.read(WORK, &sink, address_of(&region, 0))?;
    ensure_refused(
        bed,
        &near.next().await?.outcome,
        Some(AccessError::InvalidKey),
    )?;
    aftermath(bed, &mut near, &mut far).await
}

pub(crate) async fn a_foreign_key_is_not_invalidated(bed: &Bed<'_>) -> Outcome {
    let (mut by_near, mut by_far) = bed.pair().await?;
    let theirs = by_far.expose(pattern(3, LEN), Access::RemoteRead)?;
    let private = by_far.sink(LEN)?;
    let domain = by_far.endpoint.domain();
    let shared = persistently(|| {
        let memory = Backing::Buffer(Buffer::from_vec(pattern(3, LEN)));
        Ok(domain.register_now(memory, Access::RemoteRead, Scope::Domain))
    })?;
    let unknown = RemoteKey(!theirs.remote_key().0);
    for key in [
        theirs.remote_key(),
        private.remote_key(),
        shared.remote_key(),
        unknown,
    ] {
        let (mut near, mut far) = bed.pair().await?;
        near.send_with(WORK, b"away with it", invalidating(key))?;
        let (completions, reason) = far.end().await;
        let received = completions
            .iter()
            .find(|completion| completion.outcome.is_ok());
        ensure(received.is_none(), format!("received: {received:?}"))?;
        let misbehaved = bed.blames_peer(&reason);
        ensure(misbehaved, format!("the far end says {reason:?}"))?;
        near.end().await;
    }
    ensure(theirs.is_valid(), "another connection's key was revoked")?;
    ensure(private.is_valid(), "a local key was revoked")?;
    let sink = by_near.sink(LEN)?;
    for region in [&theirs, &shared] {
        by_near.read(WORK, &sink, address_of(region, 0))?;
        by_near.expect(WORK, Done::Read).await?;
    }
    ping(&mut by_near, &mut by_far).await
}

pub(crate) async fn nothing_lands_after_deregister(bed: &Bed<'_>) -> Outcome {
    const AREA: usize = 1 << 20;
    let (mut near, mut far) = bed.pair().await?;
    let region = far.expose(vec![0; AREA], Access::RemoteWrite)?;
    for id in 0..16 {
        near.write(WorkId(id), &vec![0xee; AREA], address_of(&region, 0))?;
    }
    // The first write is on its way, perhaps half placed, when the memory is taken back and used for something else.
    near.next().await?;
    let mut memory = region
        .deregister()
        .await?
        .ok_or_else(|| Broken::new("the memory did not come back"))?;
    ensure(
        region.deregister().await?.is_none(),
        "memory came back twice",
    )?;
    memory.fill(0x11);
    let scope = Scope::Endpoint(far.endpoint.id());
    let mut memory = Some(memory);
    let reused = persistently(|| {
        // The new registration uses the same memory, unless a failed attempt dropped it.
        let memory = (memory.take()).unwrap_or_else(|| Buffer::from_vec(vec![0x11; AREA]));
        let backing = Backing::Buffer(memory);
        Ok((bed.far.domain()).register_now(backing, Access::RemoteWrite, scope))
    })?;
    if bed.far.capabilities().survivable_exceptions {
        near.send_with(WORK, b"all sent", SendOptions::default())?;
        far.expect_message().await?;
    } else {
        near.endpoint.close();
        far.end().await;
    }
    ensure_bytes(
        "memory in its new use",
        &bed.bytes_of(&reused)?,
        &vec![0x11; AREA],
    )
}

pub(crate) async fn nothing_is_read_after_deregister(bed: &Bed<'_>) -> Outcome {
    const AREA: usize = 4 << 20;
    let (mut near, far) = bed.pair().await?;
    let region = far.expose(pattern(4, AREA), Access::RemoteRead)?;
    let sink = near.sink(AREA)?;
    for id in 0..4 {
        near.read(WorkId(id), &sink, address_of(&region, 0))?;
    }
    near.expect(WorkId(0), Done::Read).await?;
    let mut memory = region
        .deregister()
        .await?
        .ok_or_else(|| Broken::new("the memory did not come back"))?;
    memory.fill(0x11);
    let (last, outcome) = loop {
        let completion = near.next().await?;
        if completion.id == WorkId(3) || completion.outcome.is_err() {
            break (completion.id, completion.outcome);
        }
    };
    match outcome {
        // All responses were under way before the deregistration, so their bytes are the former ones.
        Ok(_) => ensure_eq("last read", last, WorkId(3))?,
        Err(_) => ensure_refused(bed, &outcome, Some(AccessError::InvalidKey))?,
    }
    let leaked = bed
        .bytes_of(&sink)?
        .windows(8)
        .any(|window| window == [0x11; 8]);
    ensure_eq("bytes of the memory's new use leaked", leaked, false)
}

pub(crate) async fn a_sink_taken_away_fails_the_read(bed: &Bed<'_>) -> Outcome {
    let (mut near, far) = bed.pair().await?;
    let origin = far.expose(pattern(5, 1 << 20), Access::RemoteRead)?;
    let sink = near.sink(1 << 20)?;
    near.read(WORK, &sink, address_of(&origin, 0))?;
    let memory = sink.deregister().await?;
    let memory = memory.ok_or_else(|| Broken::new("the memory did not come back"))?;
    let completion = near.next().await?;
    ensure_eq("completion", completion.id, WORK)?;
    ensure(
        match completion.outcome {
            Err(WorkError::Local(_) | WorkError::Flushed) => true,
            // Where a revocation takes time, the read may be done before.
            Ok(_) => !bed.near.capabilities().software_regions && *memory == *pattern(5, 1 << 20),
            Err(_) => false,
        },
        format!("a read into memory taken away: {:?}", completion.outcome),
    )
}

pub(crate) async fn a_dropped_revocation_goes_on(bed: &Bed<'_>) -> Outcome {
    let (_near, far) = bed.pair().await?;
    let scope = Scope::Endpoint(far.endpoint.id());
    let domain = far.endpoint.domain();
    for _ in 0..4 {
        let region = persistently(|| {
            let backing = Backing::Buffer(bed.slot()?);
            Ok(domain.register_now(backing, Access::RemoteWrite, scope))
        })?;
        drop(region.deregister());
        ensure(!region.is_valid(), "valid while it is revoked")?;
    }
    // The check after every case finds slots and regions that it leaves.
    Ok(())
}

/// Memory that no provider has registered.
#[derive(Debug)]
struct Foreign;

impl MemoryRegion for Foreign {
    fn local_key(&self) -> LocalKey {
        LocalKey(0x1000)
    }

    fn remote_key(&self) -> RemoteKey {
        RemoteKey(0x1000)
    }

    fn base(&self) -> u64 {
        0
    }

    fn len(&self) -> u64 {
        LEN as u64
    }

    fn is_valid(&self) -> bool {
        true
    }

    fn invalidate(&self) -> Revocation<()> {
        Revocation::Ready(())
    }

    fn deregister(&self) -> Revocation<Result<Option<Buffer>, DeregisterError>> {
        Revocation::Ready(Ok(None))
    }

    fn lend(&self) -> Option<Buffer> {
        None
    }

    fn restore(&self, buffer: Buffer) -> Result<(), Buffer> {
        Err(buffer)
    }
}

pub(crate) async fn memory_of_another_provider_is_refused_at_home(bed: &Bed<'_>) -> Outcome {
    let (mut near, mut far) = bed.pair().await?;
    let target = far.expose(vec![0; LEN], Access::RemoteReadWrite)?;
    let address = address_of(&target, 0);
    let foreign = || Span {
        region: Rc::new(Foreign),
        offset: 0,
        len: 10,
    };
    let span = || Source::Span(foreign());
    let end = &near.endpoint;
    for refusal in [
        end.post_send(WORK, span(), SendOptions::default()),
        end.post_write(WORK, span(), address, Signal::Always),
        end.post_read(WORK, foreign(), address),
    ] {
        let holds = matches!(refusal, Err(PostError::Invalid(_)));
        ensure(holds, format!("a foreign region: {refusal:?}"))?;
    }
    ping(&mut near, &mut far).await
}

/// Memory of a kind that the capabilities exclude cannot be registered.
pub(crate) async fn kinds_of_memory_that_are_lacking_are_refused(bed: &Bed<'_>) -> Outcome {
    let (capabilities, domain) = (bed.far.capabilities(), bed.far.domain());
    ensure_eq(
        "powers of software, of the provider and its domain",
        domain.has_software_regions(),
        capabilities.software_regions,
    )?;
    ensure_eq(
        "a key to all memory, of the provider and its domain",
        domain.has_map(),
        capabilities.all_physical,
    )?;
    let file = Backing::File {
        file: bed.file(pattern(1, 100)),
        offset: 0,
        len: 100,
    };
    for (backing, there) in [
        (file, capabilities.file_regions),
        (Backing::Map, capabilities.all_physical),
    ] {
        let region = domain.register_now(backing, Access::RemoteRead, Scope::Domain);
        match region {
            Ok(_) => {}
            Err(error) => ensure_eq(
                "refused",
                (error, there),
                (RegisterError::Unsupported, false),
            )?,
        }
    }
    let region = persistently(|| {
        let backing = Backing::Buffer(bed.slot()?);
        Ok(domain.register_now(backing, Access::RemoteRead, Scope::Domain))
    })?;
    ensure_eq(
        "powers of software, of a region",
        region.software().is_some(),
        capabilities.software_regions,
    )
}
