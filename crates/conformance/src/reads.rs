//! RDMA Read.

use crate::bed::{Bed, MemoryFile, Peer, READ_DEPTH, WORK, address_of, pattern, ping};
use crate::{Broken, Outcome, ensure, ensure_bytes, ensure_eq};
use gannet_fabric::limits::FILE_OFFSET_MAX;
use gannet_fabric::{
    Access, Backing, ConnectOptions, Done, PostError, RegisterError, Scope, SendOptions, Span,
    WorkId,
};
use gannet_runtime::both;

const SIZES: [usize; 10] = [
    0, 1, 5, 1448, 4096, 65_537, 300_001, 1_048_576, 3_000_003, 5_242_880,
];

pub(crate) async fn every_size_is_read(bed: &Bed<'_>) -> Outcome {
    let (mut near, mut far) = bed.pair().await?;
    for (index, len) in SIZES.into_iter().enumerate() {
        let bytes = pattern(index, len + 20);
        let origin = far.expose(bytes.clone(), Access::RemoteRead)?;
        let sink = near.expose(vec![0xee; len + 20], Access::Local)?;
        let span = Span {
            region: sink.clone(),
            offset: 10,
            len: u32::try_from(len)?,
        };
        near.endpoint
            .post_read(WORK, span, address_of(&origin, 10))?;
        near.endpoint.flush();
        near.expect(WORK, Done::Read).await?;
        let found = bed.bytes_of(&sink)?;
        ensure_bytes("read", &found[10..10 + len], &bytes[10..10 + len])?;
        ensure_bytes("before it", &found[..10], &[0xee; 10])?;
        ensure_bytes("behind it", &found[10 + len..], &[0xee; 10])?;
    }
    ping(&mut near, &mut far).await
}

pub(crate) async fn several_mebibytes_in_pieces(bed: &Bed<'_>) -> Outcome {
    const PIECE: usize = 256 << 10;
    let (mut near, far) = bed.pair().await?;
    let bytes = pattern(1, 16 * PIECE);
    let origin = far.expose(bytes.clone(), Access::RemoteRead)?;
    let sink = near.sink(16 * PIECE)?;
    for index in 0..16u64 {
        let offset = index * PIECE as u64;
        let span = Span {
            region: sink.clone(),
            offset,
            len: PIECE as u32,
        };
        near.endpoint
            .post_read(WorkId(index), span, address_of(&origin, offset))?;
    }
    near.endpoint.flush();
    for index in 0..16 {
        near.expect(WorkId(index), Done::Read).await?;
    }
    ensure_bytes("read", &bed.bytes_of(&sink)?, &bytes)
}

pub(crate) async fn reads_beyond_the_depth_wait_their_turn(bed: &Bed<'_>) -> Outcome {
    let shallow = || {
        Outcome::Ok(ConnectOptions {
            ord: 2,
            ird: 2,
            ..bed.options()?
        })
    };
    let (mut near, mut far) = bed.pair_with(shallow()?, shallow()?).await?;
    let origin = far.expose(pattern(2, 40_000), Access::RemoteRead)?;
    let sinks: Outcome<Vec<_>> = (0..20).map(|_| near.sink(2000)).collect();
    let sinks = sinks?;
    for (index, sink) in sinks.iter().enumerate() {
        near.read(
            WorkId(index as u64),
            sink,
            address_of(&origin, index as u64 * 2000),
        )?;
    }
    // A Send posted after them does not wait for them, and all Reads complete.
    near.send_with(WORK, b"meanwhile", SendOptions::default())?;
    far.expect_message().await?;
    for (index, sink) in sinks.iter().enumerate() {
        near.expect(WorkId(index as u64), Done::Read).await?;
        let expected = &pattern(2, 40_000)[index * 2000..(index + 1) * 2000];
        ensure_bytes("read", &bed.bytes_of(sink)?, expected)?;
    }
    Ok(())
}

pub(crate) async fn a_file_region_is_read(bed: &Bed<'_>) -> Outcome {
    let (mut near, mut far) = bed.pair().await?;
    let bytes = pattern(3, 500_000);
    let files = [bed.file(bytes.clone()), MemoryFile::cold(bytes.clone())];
    for file in files {
        let backing = Backing::File {
            file,
            offset: 1000,
            len: 400_000,
        };
        let scope = Scope::Endpoint(far.endpoint.id());
        let origin = bed
            .far
            .domain()
            .register_now(backing, Access::RemoteRead, scope)?;
        let sink = near.sink(300_000)?;
        near.read(WORK, &sink, address_of(&origin, 77))?;
        near.expect(WORK, Done::Read).await?;
        ensure_bytes("read", &bed.bytes_of(&sink)?, &bytes[1077..301_077])?;
    }
    ping(&mut near, &mut far).await
}

pub(crate) async fn a_file_region_ends_where_files_do(bed: &Bed<'_>) -> Outcome {
    let register = |offset, len| {
        let file = bed.file(pattern(7, 10));
        let backing = Backing::File { file, offset, len };
        let domain = bed.far.domain();
        domain.register_now(backing, Access::RemoteRead, Scope::Domain)
    };
    register(FILE_OFFSET_MAX - 10, 10)?;
    for (offset, len) in [(FILE_OFFSET_MAX, 1), (u64::MAX, 1), (1, u64::MAX)] {
        let refused = register(offset, len).err();
        ensure_eq("a range too far", refused, Some(RegisterError::Range))?;
    }
    Ok(())
}

pub(crate) async fn an_idle_application_is_read_from(bed: &Bed<'_>) -> Outcome {
    let (mut near, far) = bed.pair().await?;
    let bytes = pattern(4, 2 << 20);
    let origin = far.expose(bytes.clone(), Access::RemoteRead)?;
    let sink = near.sink(2 << 20)?;
    for round in 0..3 {
        near.read(WorkId(round), &sink, address_of(&origin, 0))?;
        near.expect(WorkId(round), Done::Read).await?;
        ensure_bytes("read", &bed.bytes_of(&sink)?, &bytes)?;
    }
    Ok(())
}

pub(crate) async fn reads_cross_in_both_directions(bed: &Bed<'_>) -> Outcome {
    const LEN: usize = 1 << 20;
    let (mut near, mut far) = bed.pair().await?;
    let near_origin = near.expose(pattern(5, LEN), Access::RemoteRead)?;
    let far_origin = far.expose(pattern(6, LEN), Access::RemoteRead)?;
    async fn pull(
        bed: &Bed<'_>,
        peer: &mut Peer,
        origin: &gannet_fabric::Region,
        expected: &[u8],
    ) -> Outcome {
        let sinks: Outcome<Vec<_>> = (0..READ_DEPTH).map(|_| peer.sink(expected.len())).collect();
        let sinks = sinks?;
        for sink in &sinks {
            peer.read(WORK, sink, address_of(origin, 0))?;
        }
        for sink in &sinks {
            peer.expect(WORK, Done::Read).await?;
            ensure_bytes("read", &bed.bytes_of(sink)?, expected)?;
        }
        Ok(())
    }
    let (near_bytes, far_bytes) = (pattern(5, LEN), pattern(6, LEN));
    let (left, right) = both(
        pull(bed, &mut near, &far_origin, &far_bytes),
        pull(bed, &mut far, &near_origin, &near_bytes),
    )
    .await;
    left.and(right)
}

pub(crate) async fn without_depth_no_read(bed: &Bed<'_>) -> Outcome {
    let none = ConnectOptions {
        ord: 0,
        ..bed.options()?
    };
    let (mut near, mut far) = bed.pair_with(none, bed.options()?).await?;
    ensure_eq("ORD", near.endpoint.attributes().ord, 0)?;
    let origin = far.expose(vec![0; 10], Access::RemoteRead)?;
    let sink = Span::whole(&near.sink(10)?)?;
    match near.endpoint.post_read(WORK, sink, address_of(&origin, 0)) {
        Err(PostError::Invalid(_)) => {}
        other => return Err(Broken::new(format!("a read without depth: {other:?}"))),
    }
    ping(&mut near, &mut far).await?;
    ensure(origin.is_valid(), "the region was revoked")
}
