//! Optimistic reads: a peer reads exports by references that may be stale, and a refusal fails its read alone.

use crate::bed::{Bed, Peer, READ_DEPTH, SLOT_LEN, WORK, WatchedFile, address_of, pattern, ping};
use crate::refusals::{Trespass, aftermath};
use crate::{Broken, Outcome, ensure, ensure_bytes, ensure_eq};
use gannet_fabric::limits::{OPTIMISTIC_READ_MAX, PRIVATE_DATA_BESIDE_OFFER_MAX};
use gannet_fabric::{
    Access, AccessError, AccessKey, Backing, CapabilityKey, Completion, ConnectError,
    ConnectOptions, Done, EndpointId, Export, ExportTable, Exported, FILE_STATUS_LEN, PostError,
    Reference, Region, RemoteKey, Scope, SendOptions, Signal, Span, WorkError, WorkId,
    file_status_in,
};
use gannet_runtime::{Buffer, FileRef, Instant, both};
use std::io;
use std::rc::Rc;
use std::sync::Arc;

const KEY: CapabilityKey = CapabilityKey([7; 32]);
const FOREVER: Instant = Instant::from_nanos(u64::MAX);
/// The byte that fills an untouched sink.
const UNTOUCHED: u8 = 0xee;
const LEN: usize = 10_000;

/// Every length around a boundary of segments, pages and copies, up to the longest.
const SIZES: [usize; 22] = [
    0, 1, 2, 3, 4, 5, 255, 256, 257, 1428, 1429, 1448, 4095, 4096, 4097, 8192, 16_383, 32_768,
    50_001, 64_754, 64_755, 65_536,
];

/// Default options that ask for exceptions.
fn asking(bed: &Bed<'_>) -> Outcome<ConnectOptions> {
    Ok(ConnectOptions {
        exceptions: true,
        ..bed.options()?
    })
}

/// A pair that agreed on exceptions, and on a key.
async fn pair(bed: &Bed<'_>) -> Outcome<(Peer, Peer)> {
    let (near, far) = bed.pair_with(asking(bed)?, asking(bed)?).await?;
    for end in [&near, &far] {
        ensure(end.endpoint.attributes().exceptions, "no exceptions")?;
        end.endpoint.authenticate(KEY);
    }
    Ok((near, far))
}

/// One more exporter of an end's domain, which opens no object again.
fn exporter(peer: &Peer) -> Outcome<Rc<dyn ExportTable>> {
    let table = peer.endpoint.domain().exports(Rc::new(|_| None));
    table.ok_or_else(|| Broken::new("no table of exported objects"))
}

/// Enters an object into the table for the connection of `owner`, without an end.
fn enter(table: &dyn ExportTable, object: u128, owner: &Peer, bytes: Exported) -> Reference {
    table.enter(Export {
        object,
        endpoint: owner.endpoint.id(),
        until: FOREVER,
        bytes,
    })
}

/// Exported memory with these bytes.
fn memory(owner: &Peer, bytes: Vec<u8>) -> Outcome<Exported> {
    let len = bytes.len() as u64;
    let region = owner.expose(bytes, Access::Local)?;
    Ok(Exported::Memory {
        region,
        offset: 0,
        len,
    })
}

/// A region of `len` bytes, filled with [`UNTOUCHED`].
fn sink(peer: &Peer, len: usize) -> Outcome<Region> {
    peer.expose(vec![UNTOUCHED; len], Access::Local)
}

/// Posts an optimistic read into the whole of `sink` and starts it.
fn read(peer: &Peer, id: WorkId, sink: &Region, source: Reference) -> Outcome {
    let sink = Span::whole(sink)?;
    peer.endpoint.post_optimistic_read(id, sink, source)?;
    peer.endpoint.flush();
    Ok(())
}

/// Reads `len` bytes, which must be these.
async fn expect_bytes(bed: &Bed<'_>, peer: &mut Peer, from: Reference, bytes: &[u8]) -> Outcome {
    let sink = sink(peer, bytes.len())?;
    read(peer, WORK, &sink, from)?;
    peer.expect(WORK, Done::Read).await?;
    ensure_bytes("read", &bed.bytes_of(&sink)?, bytes)
}

/// Reads, and checks that the read is refused for this reason and leaves the sink untouched.
async fn expect_refusal(
    bed: &Bed<'_>,
    peer: &mut Peer,
    from: Reference,
    why: AccessError,
) -> Outcome {
    let sink = sink(peer, 100)?;
    read(peer, WORK, &sink, from)?;
    ensure_refused(&peer.next().await?, WORK, why)?;
    ensure_bytes("the sink", &bed.bytes_of(&sink)?, &[UNTOUCHED; 100])
}

/// Checks that a completion is the refusal of this read.
#[track_caller]
fn ensure_refused(completion: &Completion, id: WorkId, why: AccessError) -> Outcome {
    let found = match completion.outcome {
        Err(WorkError::Remote(error)) => Ok(reported(error)),
        other => Err(other),
    };
    ensure_eq("refusal", (completion.id, found), (id, Ok(reported(why))))
}

/// The error that an exception reports for a refusal, which may be less exact than the refusing end knows.
fn reported(error: AccessError) -> AccessError {
    match error {
        AccessError::WrongEndpoint => AccessError::Rights,
        AccessError::Wrap => AccessError::Bounds,
        other => other,
    }
}

pub(crate) async fn exceptions_are_agreed_when_both_ask(bed: &Bed<'_>) -> Outcome {
    for (near_asks, far_asks) in [(false, false), (false, true), (true, false), (true, true)] {
        let options = |exceptions| {
            Outcome::Ok(ConnectOptions {
                exceptions,
                ..bed.options()?
            })
        };
        let (mut near, mut far) = bed
            .pair_with(options(near_asks)?, options(far_asks)?)
            .await?;
        let agreed = near_asks && far_asks;
        for end in [&near, &far] {
            ensure_eq("agreed", end.endpoint.attributes().exceptions, agreed)?;
            end.endpoint.authenticate(KEY);
        }
        let reference = enter(&*exporter(&far)?, 1, &far, memory(&far, vec![1; 100])?);
        let sink = near.sink(100)?;
        if !agreed {
            let posted = near
                .endpoint
                .post_optimistic_read(WORK, Span::whole(&sink)?, reference);
            let refused = matches!(posted, Err(PostError::Invalid(_)));
            ensure(refused, format!("a read without agreement: {posted:?}"))?;
        }
        // A refused ordinary read ends the connection, unless both ends agreed on exceptions.
        near.read(WORK, &sink, reference.address)?;
        ensure_refused(&near.next().await?, WORK, AccessError::InvalidKey)?;
        if agreed {
            ping(&mut near, &mut far).await?;
        } else {
            aftermath(bed, &mut near, &mut far).await?;
        }
    }
    Ok(())
}

pub(crate) async fn private_data_stands_beside_the_offer(bed: &Bed<'_>) -> Outcome {
    let longest = PRIVATE_DATA_BESIDE_OFFER_MAX;
    for (there, back) in [(0, 0), (1, 20), (8, 8), (56, 0), (longest, longest)] {
        for (near_asks, far_asks) in [(true, true), (true, false), (false, true)] {
            let (question, answer) = (pattern(1, there), pattern(2, back));
            let options = |exceptions, private_data: &[u8]| {
                Outcome::Ok(ConnectOptions {
                    exceptions,
                    private_data: private_data.to_vec(),
                    ..bed.options()?
                })
            };
            let mut listener = bed.far.listen(bed.address())?;
            let near_options = options(near_asks, &question)?;
            let far_options = options(far_asks, &answer)?;
            let connecting = bed.near.connect(listener.local_address(), near_options);
            let accepting = async {
                let incoming = listener.accept().await.map_err(ConnectError::from)?;
                let heard = incoming.private_data().to_vec();
                Ok::<_, ConnectError>((incoming.accept(far_options).await?, heard))
            };
            let (near, far) = both(connecting, accepting).await;
            let (near, (far, heard)) = (near?, far?);
            ensure_bytes("before accepting", &heard, &question)?;
            ensure_bytes("at the far end", far.private_data(), &question)?;
            ensure_bytes("at the near end", near.private_data(), &answer)?;
        }
    }
    Ok(())
}

pub(crate) async fn a_rejection_brings_its_private_data(bed: &Bed<'_>) -> Outcome {
    let why = pattern(4, 77);
    let mut listener = bed.far.listen(bed.address())?;
    let connecting = bed.near.connect(listener.local_address(), asking(bed)?);
    let rejecting = async {
        listener.accept().await?.reject(why.clone()).await;
        Ok::<_, io::Error>(())
    };
    let (near, far) = both(connecting, rejecting).await;
    far?;
    match near {
        Err(ConnectError::Rejected { private_data }) => {
            ensure_bytes("private data of the rejection", &private_data, &why)
        }
        Err(other) => Err(Broken::new(format!("not a rejection: {other:?}"))),
        Ok(_) => Err(Broken::new("connected although rejected")),
    }
}

pub(crate) async fn too_much_private_data_is_refused_at_home(bed: &Bed<'_>) -> Outcome {
    let too_much = || {
        Outcome::Ok(ConnectOptions {
            private_data: pattern(3, PRIVATE_DATA_BESIDE_OFFER_MAX + 1),
            ..asking(bed)?
        })
    };
    let mut listener = bed.far.listen(bed.address())?;
    let outcome = bed.near.connect(listener.local_address(), too_much()?);
    let refused = matches!(outcome.await, Err(ConnectError::Unsupported(_)));
    ensure(refused, "connected with more than fits beside the offer")?;
    let connecting = bed.near.connect(listener.local_address(), asking(bed)?);
    let far_options = too_much()?;
    let accepting = async { listener.accept().await?.accept(far_options).await };
    let (near, far) = both(connecting, accepting).await;
    let refused = matches!(far, Err(ConnectError::Unsupported(_)));
    ensure(refused, "accepted with more than fits beside the offer")?;
    ensure(near.is_err(), "connected to nobody")
}

pub(crate) async fn every_size_is_read(bed: &Bed<'_>) -> Outcome {
    let (mut near, mut far) = pair(bed).await?;
    let table = exporter(&far)?;
    let bytes = pattern(1, 70_000);
    let objects = [
        Exported::File(bed.file(bytes.clone())),
        memory(&far, bytes.clone())?,
    ];
    // An optimistic read of a file that never reports resident pages must be refused.
    let is_there = |object: &Exported| match object {
        Exported::File(file) => {
            file.is_resident(0, 1) && file.try_read_at(0, &mut [0]).is_ok_and(|count| count > 0)
        }
        Exported::OpenFile(file) | Exported::OpenFileStatus(file) => file.strong_count() > 0,
        Exported::Memory { .. } => true,
    };
    for (number, object) in (0..).zip(objects) {
        let is_there = is_there(&object);
        let reference = enter(&*table, number, &far, object);
        if !is_there {
            expect_refusal(bed, &mut near, reference, AccessError::NotResident).await?;
            continue;
        }
        for (index, len) in SIZES.into_iter().enumerate() {
            let start = index * 7 + 3;
            let sink = sink(&near, len + 20)?;
            let span = Span {
                region: Region::clone(&sink),
                offset: 10,
                len: u32::try_from(len)?,
            };
            let source = reference.at(start as u64);
            near.endpoint.post_optimistic_read(WORK, span, source)?;
            near.endpoint.flush();
            near.expect(WORK, Done::Read).await?;
            let found = bed.bytes_of(&sink)?;
            ensure_bytes("read", &found[10..10 + len], &bytes[start..start + len])?;
            ensure_bytes("before it", &found[..10], &[UNTOUCHED; 10])?;
            ensure_bytes("behind it", &found[10 + len..], &[UNTOUCHED; 10])?;
        }
    }
    ping(&mut near, &mut far).await
}

pub(crate) async fn the_status_of_an_open_file_is_read(bed: &Bed<'_>) -> Outcome {
    let (mut near, mut far) = pair(bed).await?;
    let table = exporter(&far)?;
    let file = WatchedFile::cold(pattern(1, LEN));
    let open: FileRef = Arc::<WatchedFile>::clone(&file);
    let status = Exported::OpenFileStatus(Arc::downgrade(&open));
    let reference = enter(&*table, 1, &far, status);
    for len in [LEN, 100] {
        file.shrink(len);
        let sink = sink(&near, FILE_STATUS_LEN)?;
        read(&near, WORK, &sink, reference)?;
        near.expect(WORK, Done::Read).await?;
        let bytes = bed.bytes_of(&sink)?;
        let found = bytes.first_chunk().map(file_status_in);
        ensure_eq("size", found.map(|it| it.size), Some(len as u64))?;
    }
    drop((file, open));
    expect_refusal(bed, &mut near, reference, AccessError::NotResident).await?;
    ping(&mut near, &mut far).await
}

/// Work of every kind that one end does in [`many_are_in_flight_in_both_directions`].
const ROUNDS: usize = 40;

/// The sources that one end reads there: an object of the peer in memory, a cold one, and an ordinary region.
struct Sources {
    there: Reference,
    cold: Reference,
    promised: Region,
    target: Region,
}

impl Sources {
    /// The sources that `owner` exposes to its peer.
    fn of(owner: &Peer, table: &dyn ExportTable, bytes: &[u8]) -> Outcome<Sources> {
        let cold = Exported::File(WatchedFile::cold(bytes.to_vec()));
        Ok(Sources {
            there: enter(table, 1, owner, memory(owner, bytes.to_vec())?),
            cold: enter(table, 2, owner, cold),
            promised: owner.expose(bytes.to_vec(), Access::RemoteRead)?,
            target: owner.expose(vec![0; ROUNDS], Access::RemoteWrite)?,
        })
    }
}

/// The reads of a round have these ids, in this order.
const READS: u64 = 3;

pub(crate) async fn many_are_in_flight_in_both_directions(bed: &Bed<'_>) -> Outcome {
    let (mut near, mut far) = pair(bed).await?;
    let tables = [exporter(&near)?, exporter(&far)?];
    let bytes = [pattern(5, 9000), pattern(6, 9000)];
    for end in [&near, &far] {
        for _ in 0..ROUNDS {
            let buffer = Buffer::zeroed(SLOT_LEN);
            end.endpoint.post_receive(WorkId(0), buffer)?;
        }
    }
    let of_near = Sources::of(&near, &*tables[0], &bytes[0])?;
    let of_far = Sources::of(&far, &*tables[1], &bytes[1])?;
    let (left, right) = both(
        mix(bed, &mut near, &of_far, &bytes[1]),
        mix(bed, &mut far, &of_near, &bytes[0]),
    )
    .await;
    left.and(right)?;
    let marks: Vec<u8> = (0..ROUNDS).map(|round| round as u8).collect();
    for sources in [of_near, of_far] {
        ensure_bytes("written", &bed.bytes_of(&sources.target)?, &marks)?;
    }
    let refused = tables.iter().map(|table| table.stats().not_resident);
    ensure_eq("refusals", refused.sum(), 2 * ROUNDS as u64)
}

/// Does work of every kind at once, and checks the order in which it is done.
async fn mix(bed: &Bed<'_>, peer: &mut Peer, from: &Sources, bytes: &[u8]) -> Outcome {
    let mut sinks = Vec::new();
    for round in 0..ROUNDS {
        let (first, at) = (round as u64 * READS, round as u64 * 10);
        let wanted = [1 + round * 200, 100, 77].map(|len| sink(peer, len));
        let [there, cold, promised] = wanted;
        let (there, cold, promised) = (there?, cold?, promised?);
        read(peer, WorkId(first), &there, from.there.at(at))?;
        peer.send(WORK, &[round as u8])?;
        read(peer, WorkId(first + 1), &cold, from.cold.at(at))?;
        let target = address_of(&from.target, round as u64);
        peer.write(WorkId(WORK.0 + 1), &[round as u8], target)?;
        let address = address_of(&from.promised, at);
        peer.read(WorkId(first + 2), &promised, address)?;
        sinks.push([there, cold, promised]);
    }
    let (mut reads, mut received, mut others) = (0, 0, 0);
    while (reads, received, others) != (READS * ROUNDS as u64, ROUNDS, 2 * ROUNDS) {
        let completion = peer.next().await?;
        match completion.outcome {
            Ok(Done::Received { len: 1, .. }) => {
                let buffer = completion.buffer.unwrap_or_else(|| Buffer::zeroed(1));
                ensure_eq("message", usize::from(buffer[0]), received)?;
                received += 1;
            }
            Ok(Done::Sent | Done::Written) => others += 1,
            outcome => {
                let expected = match reads % READS {
                    1 => Err(WorkError::Remote(AccessError::NotResident)),
                    _ => Ok(Done::Read),
                };
                let found = (completion.id, outcome);
                ensure_eq("reads in order", found, (WorkId(reads), expected))?;
                reads += 1;
            }
        }
    }
    for (round, [there, cold, promised]) in sinks.iter().enumerate() {
        let at = round * 10;
        let len = 1 + round * 200;
        ensure_bytes("exported", &bed.bytes_of(there)?, &bytes[at..at + len])?;
        ensure_bytes("refused", &bed.bytes_of(cold)?, &[UNTOUCHED; 100])?;
        ensure_bytes("promised", &bed.bytes_of(promised)?, &bytes[at..at + 77])?;
    }
    Ok(())
}

/// Reasons why a reference is stale.
#[derive(Debug, Clone, Copy)]
enum Stale {
    UnknownKey,
    Removed,
    AllRemoved,
    OwnerGone,
    Expired,
    Protected,
    Shrunk,
    AnotherConnection,
    WrongAccessKey,
    Cold,
    BeforeStart,
    PastEnd,
    PastEndOfMemory,
    Wrapping,
    MemoryGone,
}

impl Stale {
    const ALL: [Stale; 15] = [
        Stale::UnknownKey,
        Stale::Removed,
        Stale::AllRemoved,
        Stale::OwnerGone,
        Stale::Expired,
        Stale::Protected,
        Stale::Shrunk,
        Stale::AnotherConnection,
        Stale::WrongAccessKey,
        Stale::Cold,
        Stale::BeforeStart,
        Stale::PastEnd,
        Stale::PastEndOfMemory,
        Stale::Wrapping,
        Stale::MemoryGone,
    ];

    fn refusal(self) -> AccessError {
        match self {
            Stale::UnknownKey
            | Stale::Removed
            | Stale::AllRemoved
            | Stale::OwnerGone
            | Stale::Expired
            | Stale::Protected
            | Stale::MemoryGone => AccessError::InvalidKey,
            Stale::AnotherConnection => AccessError::WrongEndpoint,
            Stale::WrongAccessKey => AccessError::Capability,
            Stale::Cold => AccessError::NotResident,
            Stale::Shrunk | Stale::BeforeStart | Stale::PastEnd | Stale::PastEndOfMemory => {
                AccessError::Bounds
            }
            Stale::Wrapping => AccessError::Wrap,
        }
    }

    /// A reference to 100 bytes of `far` that must be refused, and the table to keep until it was used.
    async fn prepare(
        self,
        bed: &Bed<'_>,
        far: &Peer,
        other: EndpointId,
    ) -> Outcome<(Reference, Option<Rc<dyn ExportTable>>)> {
        let table = exporter(far)?;
        let file = WatchedFile::resident(pattern(1, LEN));
        let now = bed.runtime.now();
        let mut export = Export {
            object: 1,
            endpoint: far.endpoint.id(),
            until: FOREVER,
            bytes: Exported::File(Arc::clone(&file) as FileRef),
        };
        match self {
            Stale::Expired => export.until = now,
            Stale::AnotherConnection => export.endpoint = other,
            Stale::Cold => file.evict(),
            Stale::PastEndOfMemory | Stale::MemoryGone => {
                export.bytes = memory(far, pattern(1, LEN))?;
            }
            _ => {}
        }
        let region = match &export.bytes {
            Exported::Memory { region, .. } => Some(Region::clone(region)),
            Exported::File(_) | Exported::OpenFile(_) | Exported::OpenFileStatus(_) => None,
        };
        let mut reference = table.enter(export).at(500);
        match self {
            Stale::UnknownKey => reference.address.key = RemoteKey(!reference.address.key.0),
            Stale::Removed => table.remove(1),
            Stale::AllRemoved => table.remove_all(),
            Stale::OwnerGone => return Ok((reference, None)),
            Stale::Protected => {
                let done = table.protect(reference.address.key, now);
                ensure(done, "nothing to protect")?;
            }
            Stale::Shrunk => file.shrink(550),
            Stale::WrongAccessKey => {
                reference.access_key = AccessKey(reference.access_key.0 ^ 1 << 40);
            }
            Stale::BeforeStart => reference = reference.at(501u64.wrapping_neg()),
            Stale::PastEnd | Stale::PastEndOfMemory => reference = reference.at(LEN as u64 - 599),
            Stale::Wrapping => reference.address.offset = u64::MAX - 50,
            Stale::MemoryGone => {
                if let Some(region) = region {
                    drop(region.deregister().await?);
                }
            }
            Stale::Expired | Stale::AnotherConnection | Stale::Cold => {}
        }
        Ok((reference, Some(table)))
    }
}

pub(crate) async fn a_refusal_fails_its_read_alone(bed: &Bed<'_>) -> Outcome {
    let (mut near, mut far) = pair(bed).await?;
    let (_by_near, by_far) = pair(bed).await?;
    let table = exporter(&far)?;
    let bytes = pattern(2, LEN);
    let good = enter(&*table, 1, &far, memory(&far, bytes.clone())?);
    for stale in Stale::ALL {
        let (reference, kept) = stale.prepare(bed, &far, by_far.endpoint.id()).await?;
        let sinks = [sink(&near, LEN)?, sink(&near, 100)?, sink(&near, LEN)?];
        read(&near, WorkId(1), &sinks[0], good)?;
        read(&near, WorkId(2), &sinks[1], reference)?;
        read(&near, WorkId(3), &sinks[2], good)?;
        near.expect(WorkId(1), Done::Read).await?;
        let completion = near.next().await?;
        ensure_refused(&completion, WorkId(2), stale.refusal())
            .map_err(|broken| Broken::new(format!("{stale:?}: {}", broken.what)))?;
        near.expect(WorkId(3), Done::Read).await?;
        ensure_bytes("before it", &bed.bytes_of(&sinks[0])?, &bytes)?;
        ensure_bytes("its sink", &bed.bytes_of(&sinks[1])?, &[UNTOUCHED; 100])?;
        ensure_bytes("behind it", &bed.bytes_of(&sinks[2])?, &bytes)?;
        drop(kept);
    }
    ping(&mut near, &mut far).await
}

pub(crate) async fn ordinary_reads_survive_refusals_too(bed: &Bed<'_>) -> Outcome {
    let (mut near, mut far) = pair(bed).await?;
    let (mut by_near, mut by_far) = pair(bed).await?;
    let bytes = pattern(3, LEN);
    let good = far.expose(bytes.clone(), Access::RemoteRead)?;
    for trespass in Trespass::ALL {
        let (region, address) = trespass
            .prepare(&far, &by_far, Access::RemoteRead, Access::RemoteWrite)
            .await?;
        let sinks = [sink(&near, LEN)?, sink(&near, 100)?, sink(&near, LEN)?];
        near.read(WorkId(1), &sinks[0], address_of(&good, 0))?;
        near.read(WorkId(2), &sinks[1], address)?;
        near.read(WorkId(3), &sinks[2], address_of(&good, 0))?;
        near.expect(WorkId(1), Done::Read).await?;
        let completion = near.next().await?;
        ensure_refused(&completion, WorkId(2), trespass.refusal())?;
        near.expect(WorkId(3), Done::Read).await?;
        ensure_bytes("its sink", &bed.bytes_of(&sinks[1])?, &[UNTOUCHED; 100])?;
        ensure_bytes("behind it", &bed.bytes_of(&sinks[2])?, &bytes)?;
        drop(region);
    }
    ping(&mut near, &mut far).await?;
    ping(&mut by_near, &mut by_far).await
}

pub(crate) async fn a_reference_serves_its_connection_alone(bed: &Bed<'_>) -> Outcome {
    let (mut near, far) = pair(bed).await?;
    let (mut by_near, by_far) = pair(bed).await?;
    let table = exporter(&far)?;
    let bytes = pattern(4, 100);
    let object = memory(&far, bytes.clone())?;
    let reference = enter(&*table, 1, &far, object.clone());
    let theirs = enter(&*table, 1, &by_far, object);
    expect_refusal(bed, &mut by_near, reference, AccessError::WrongEndpoint).await?;
    expect_bytes(bed, &mut by_near, theirs, &bytes).await?;
    expect_refusal(bed, &mut near, theirs, AccessError::WrongEndpoint).await?;
    expect_bytes(bed, &mut near, reference, &bytes).await?;
    // A removal from the table holds for every connection.
    table.remove(1);
    expect_refusal(bed, &mut near, reference, AccessError::InvalidKey).await?;
    expect_refusal(bed, &mut by_near, theirs, AccessError::InvalidKey).await
}

pub(crate) async fn a_peer_with_another_key_reads_nothing(bed: &Bed<'_>) -> Outcome {
    // The far end has no key yet, and then another one.
    let (mut near, mut far) = bed.pair_with(asking(bed)?, asking(bed)?).await?;
    near.endpoint.authenticate(KEY);
    let bytes = pattern(5, 100);
    let table = exporter(&far)?;
    let reference = enter(&*table, 1, &far, memory(&far, bytes.clone())?);
    expect_refusal(bed, &mut near, reference, AccessError::Capability).await?;
    far.endpoint.authenticate(CapabilityKey([8; 32]));
    expect_refusal(bed, &mut near, reference, AccessError::Capability).await?;
    // The refusal comes before any look into the table.
    ensure_eq("counters", table.stats().refused, 0)?;
    far.endpoint.authenticate(KEY);
    expect_bytes(bed, &mut near, reference, &bytes).await?;
    ping(&mut near, &mut far).await
}

pub(crate) async fn an_object_removed_meanwhile_is_read_whole_or_not_at_all(
    bed: &Bed<'_>,
) -> Outcome {
    const COUNT: u64 = 12;
    const AREA: usize = 60_000;
    let (mut near, mut far) = pair(bed).await?;
    let table = exporter(&far)?;
    let bytes = pattern(7, AREA);
    let region = far.expose(bytes.clone(), Access::Local)?;
    let object = Exported::Memory {
        region: Region::clone(&region),
        offset: 0,
        len: AREA as u64,
    };
    let reference = enter(&*table, 1, &far, object);
    let sinks: Outcome<Vec<Region>> = (0..COUNT).map(|_| sink(&near, AREA)).collect();
    let sinks = sinks?;
    for (id, sink) in (0..).zip(&sinks) {
        read(&near, WorkId(id), sink, reference)?;
    }
    near.expect(WorkId(0), Done::Read).await?;
    // Some reads are under way then, and some have not been sent.
    table.remove(1);
    let mut memory = region
        .lend()
        .ok_or_else(|| Broken::new("the region has no memory"))?;
    memory.fill(0x11);
    ensure(region.restore(memory).is_ok(), "the memory is not taken")?;
    let mut refused = 0;
    for (id, sink) in (0..).zip(&sinks).skip(1) {
        let completion = near.next().await?;
        ensure_eq("completion", completion.id, WorkId(id))?;
        let found = bed.bytes_of(sink)?;
        match completion.outcome {
            Ok(Done::Read) if refused == 0 => ensure_bytes("read", &found, &bytes)?,
            Err(WorkError::Remote(AccessError::InvalidKey)) => {
                ensure_bytes("refused", &found, &vec![UNTOUCHED; AREA])?;
                refused += 1;
            }
            other => return Err(Broken::new(format!("read {id}: {other:?}"))),
        }
    }
    ensure(refused > 0, "all were answered before")?;
    let stats = table.stats();
    ensure_eq("entries", stats.entries, 0)?;
    ensure_eq("answered", stats.reads + refused, COUNT)?;
    ping(&mut near, &mut far).await
}

pub(crate) async fn a_cold_file_is_refused_and_stays_cold(bed: &Bed<'_>) -> Outcome {
    let (mut near, far) = pair(bed).await?;
    let table = exporter(&far)?;
    let bytes = pattern(8, 100);
    let file = WatchedFile::cold(bytes.clone());
    let object = Exported::File(Arc::clone(&file) as FileRef);
    let reference = enter(&*table, 1, &far, object);
    for _ in 0..3 {
        expect_refusal(bed, &mut near, reference, AccessError::NotResident).await?;
    }
    ensure_eq("reads of the disk", file.disk_reads(), 0)?;
    file.bring();
    expect_bytes(bed, &mut near, reference, &bytes).await?;
    file.evict();
    expect_refusal(bed, &mut near, reference, AccessError::NotResident).await?;
    let stats = table.stats();
    let counted = (stats.reads, stats.not_resident, stats.refused);
    ensure_eq("counters", counted, (1, 4, 0))
}

pub(crate) async fn impossible_reads_are_refused_at_home(bed: &Bed<'_>) -> Outcome {
    let (mut near, mut far) = bed.pair_with(asking(bed)?, asking(bed)?).await?;
    let table = exporter(&far)?;
    let reference = enter(&*table, 1, &far, memory(&far, vec![1; 100])?);
    let file = bed.far.capabilities().file_regions.then(|| {
        let file = bed.file(pattern(9, 100));
        let backing = Backing::File {
            file,
            offset: 0,
            len: 100,
        };
        let domain = near.endpoint.domain();
        domain.register_now(backing, Access::RemoteRead, Scope::Domain)
    });
    let sinks = [
        near.sink(100)?,
        near.sink(OPTIMISTIC_READ_MAX as usize + 1)?,
    ];
    let refused = |what: &str, sink: &Region| {
        let sink = Span::whole(sink)?;
        let posted = near.endpoint.post_optimistic_read(WORK, sink, reference);
        let holds = matches!(posted, Err(PostError::Invalid(_)));
        ensure(holds, format!("{what}: {posted:?}"))
    };
    refused("without a key", &sinks[0])?;
    near.endpoint.authenticate(KEY);
    far.endpoint.authenticate(KEY);
    refused("too long", &sinks[1])?;
    if let Some(Ok(file)) = &file {
        refused("into a file", file)?;
    }
    let gone = near.sink(100)?;
    drop(gone.deregister().await?);
    refused("into memory that was taken back", &gone)?;
    expect_bytes(bed, &mut near, reference, &[1; 100]).await?;
    let none = ConnectOptions {
        ord: 0,
        ..asking(bed)?
    };
    let (shallow, _deep) = bed.pair_with(none, asking(bed)?).await?;
    shallow.endpoint.authenticate(KEY);
    let sink = Span::whole(&shallow.sink(10)?)?;
    let posted = shallow.endpoint.post_optimistic_read(WORK, sink, reference);
    let holds = matches!(posted, Err(PostError::Invalid(_)));
    ensure(holds, format!("without depth: {posted:?}"))?;
    ping(&mut near, &mut far).await
}

pub(crate) async fn a_sink_taken_away_fails_the_read(bed: &Bed<'_>) -> Outcome {
    let (mut near, far) = pair(bed).await?;
    let table = exporter(&far)?;
    let bytes = pattern(10, 65_536);
    let reference = enter(&*table, 1, &far, memory(&far, bytes)?);
    let sink = sink(&near, 65_536)?;
    read(&near, WORK, &sink, reference)?;
    let mut memory = sink.deregister().await?;
    let memory = memory
        .as_mut()
        .ok_or_else(|| Broken::new("the memory did not come back"))?;
    memory.fill(0x22);
    let completion = near.next().await?;
    ensure_eq("completion", completion.id, WORK)?;
    let fits = match completion.outcome {
        Err(WorkError::Local(_) | WorkError::Flushed) => true,
        // A device may finish the read before it takes the registration back.
        Ok(Done::Read) => !bed.near.capabilities().software_regions,
        _ => false,
    };
    ensure(fits, format!("{:?}", completion.outcome))?;
    ensure_bytes("memory in its new use", memory, &[0x22; 65_536])
}

pub(crate) async fn reads_beyond_the_depth_wait_their_turn(bed: &Bed<'_>) -> Outcome {
    let shallow = || {
        Outcome::Ok(ConnectOptions {
            ord: 1,
            ird: 1,
            ..asking(bed)?
        })
    };
    let (mut near, mut far) = bed.pair_with(shallow()?, shallow()?).await?;
    for end in [&near, &far] {
        end.endpoint.authenticate(KEY);
    }
    let table = exporter(&far)?;
    let bytes = pattern(11, 4096);
    let there = enter(&*table, 1, &far, memory(&far, bytes.clone())?);
    let mut stale = there;
    stale.address.key = RemoteKey(!there.address.key.0);
    let count = u64::from(READ_DEPTH) * 4;
    let sinks: Outcome<Vec<Region>> = (0..count).map(|_| sink(&near, 4096)).collect();
    let sinks = sinks?;
    for (id, sink) in (0..).zip(&sinks) {
        // A refusal frees its place in the read depth as a response does.
        let reference = if id % 2 == 0 { there } else { stale };
        read(&near, WorkId(id), sink, reference)?;
    }
    near.send_with(WORK, b"meanwhile", SendOptions::default())?;
    far.expect_message().await?;
    for (id, sink) in (0..).zip(&sinks) {
        if id % 2 == 0 {
            near.expect(WorkId(id), Done::Read).await?;
            ensure_bytes("read", &bed.bytes_of(sink)?, &bytes)?;
        } else {
            let completion = near.next().await?;
            ensure_refused(&completion, WorkId(id), AccessError::InvalidKey)?;
        }
    }
    Ok(())
}

pub(crate) async fn a_write_seen_by_its_writer_is_seen_by_readers(bed: &Bed<'_>) -> Outcome {
    let (mut near, far) = pair(bed).await?;
    let table = exporter(&far)?;
    let region = far.expose(vec![0; 100], Access::RemoteWrite)?;
    let object = Exported::Memory {
        region: Region::clone(&region),
        offset: 0,
        len: 100,
    };
    let reference = enter(&*table, 1, &far, object);
    for round in 1..20u8 {
        // A read that follows a write on one connection begins after it.
        let source = near.write_source(&[round; 100])?;
        near.endpoint
            .post_write(WORK, source, address_of(&region, 0), Signal::OnError)?;
        expect_bytes(bed, &mut near, reference, &[round; 100]).await?;
    }
    Ok(())
}
