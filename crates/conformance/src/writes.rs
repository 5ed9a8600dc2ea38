//! RDMA Write.

use crate::bed::{Bed, MemoryFile, RECEIVES, WORK, address_of, pattern, ping};
use crate::{Outcome, ensure, ensure_bytes, ensure_eq};
use gannet_fabric::{Access, Done, Region, SendOptions, Signal, Source, Span, WorkError, WorkId};
use gannet_runtime::FileRef;
use std::io::ErrorKind;

const SIZES: [usize; 11] = [
    0, 1, 3, 1460, 4095, 4096, 65_535, 65_536, 300_001, 1_048_576, 4_194_305,
];

pub(crate) async fn a_send_makes_earlier_writes_visible(bed: &Bed<'_>) -> Outcome {
    let (near, mut far) = bed.pair().await?;
    let target = far.expose(vec![0; 100_000], Access::RemoteWrite)?;
    for round in 0..RECEIVES {
        let bytes = pattern(round, 100_000);
        for start in (0..100_000).step_by(12_500) {
            near.endpoint.post_write(
                WORK,
                near.write_source(&bytes[start..start + 12_500])?,
                address_of(&target, start as u64),
                Signal::OnError,
            )?;
        }
        near.send_with(WORK, b"look", SendOptions::default())?;
        far.expect_message().await?;
        ensure_bytes("what the writes left", &bed.bytes_of(&target)?, &bytes)?;
    }
    Ok(())
}

pub(crate) async fn every_size_is_written_in_place(bed: &Bed<'_>) -> Outcome {
    let (mut near, mut far) = bed.pair().await?;
    for (index, len) in SIZES.into_iter().enumerate() {
        let target = far.expose(vec![0xee; len + 20], Access::RemoteWrite)?;
        let bytes = pattern(index, len);
        near.write(WORK, &bytes, address_of(&target, 10))?;
        near.expect(WORK, Done::Written).await?;
        ping(&mut near, &mut far).await?;
        let found = bed.bytes_of(&target)?;
        ensure_bytes("written", &found[10..10 + len], &bytes)?;
        ensure_bytes("before it", &found[..10], &[0xee; 10])?;
        ensure_bytes("behind it", &found[10 + len..], &[0xee; 10])?;
    }
    Ok(())
}

pub(crate) async fn sources_of_every_kind(bed: &Bed<'_>) -> Outcome {
    let (mut near, mut far) = bed.pair().await?;
    let bytes = pattern(6, 200_000);
    let region = near.expose(bytes.clone(), Access::Local)?;
    let span = Span {
        region,
        offset: 999,
        len: 150_000,
    };
    let target = far.expose(vec![0; 150_000], Access::RemoteReadWrite)?;
    near.endpoint.post_write(
        WORK,
        Source::Span(span),
        address_of(&target, 0),
        Signal::Always,
    )?;
    near.endpoint.flush();
    near.expect(WORK, Done::Written).await?;
    ping(&mut near, &mut far).await?;
    ensure_bytes("from a span", &bed.bytes_of(&target)?, &bytes[999..150_999])?;
    Ok(())
}

pub(crate) async fn a_file_is_a_source(bed: &Bed<'_>) -> Outcome {
    let bytes = pattern(6, 200_000);
    let found = write_file(bed, bed.file(bytes.clone()), 12_345, 150_000).await?;
    ensure_bytes("from a file", &found, &bytes[12_345..162_345])
}

pub(crate) async fn a_cold_file_is_written(bed: &Bed<'_>) -> Outcome {
    let bytes = pattern(7, 300_000);
    let file = MemoryFile::cold(bytes.clone());
    let found = write_file(bed, file, 0, 300_000).await?;
    ensure_bytes("from a cold file", &found, &bytes)
}

pub(crate) async fn past_the_end_of_a_file_come_zeros(bed: &Bed<'_>) -> Outcome {
    let bytes = pattern(8, 100_000);
    for (offset, len) in [(0, 100_100), (99_000, 70_000), (100_000, 500), (1 << 40, 3)] {
        let found = write_file(bed, bed.file(bytes.clone()), offset, len).await?;
        let start = usize::try_from(offset)?.min(bytes.len());
        let there = (bytes.len() - start).min(len);
        ensure_bytes(
            "up to the end",
            &found[..there],
            &bytes[start..start + there],
        )?;
        ensure_bytes("past the end", &found[there..], &vec![0; len - there])?;
    }
    Ok(())
}

pub(crate) async fn a_failing_file_fails_the_work(bed: &Bed<'_>) -> Outcome {
    let (mut near, mut far) = bed.pair().await?;
    let target = far.expose(vec![0; 1000], Access::RemoteWrite)?;
    let file = MemoryFile::failing(ErrorKind::InvalidData);
    let source = Source::File {
        file,
        offset: 0,
        len: 1000,
    };
    near.endpoint
        .post_write(WORK, source, address_of(&target, 0), Signal::OnError)?;
    near.endpoint.flush();
    let completion = near.next().await?;
    ensure_eq(
        "completion",
        (completion.id, completion.outcome),
        (WORK, Err(WorkError::File(ErrorKind::InvalidData))),
    )?;
    // Later work must not overtake work that failed, so the connection ends.
    near.end().await;
    far.end().await;
    Ok(())
}

pub(crate) async fn completions_come_in_order(bed: &Bed<'_>) -> Outcome {
    let (mut near, mut far) = bed.pair().await?;
    let target = far.expose(vec![0; 70_000], Access::RemoteWrite)?;
    for id in 0..RECEIVES as u64 {
        let len = if id % 2 == 0 { 70_000 } else { 1 };
        near.write(WorkId(2 * id), &pattern(0, len), address_of(&target, 0))?;
        near.send(WorkId(2 * id + 1), b"x")?;
    }
    for id in 0..RECEIVES as u64 {
        near.expect(WorkId(2 * id), Done::Written).await?;
        near.expect(WorkId(2 * id + 1), Done::Sent).await?;
    }
    for _ in 0..RECEIVES {
        far.expect_message().await?;
    }
    Ok(())
}

pub(crate) async fn an_idle_application_is_written_to(bed: &Bed<'_>) -> Outcome {
    let (mut near, far) = bed.pair().await?;
    let target: Region = far.expose(vec![0; 1 << 20], Access::RemoteReadWrite)?;
    let bytes = pattern(9, 1 << 20);
    near.write(WORK, &bytes, address_of(&target, 0))?;
    near.expect(WORK, Done::Written).await?;
    // A Read completes only after earlier Writes of this connection are in place; the far end is not polled.
    let sink = near.sink(1)?;
    near.read(WORK, &sink, address_of(&target, 0))?;
    near.expect(WORK, Done::Read).await?;
    ensure_bytes("written", &bed.bytes_of(&target)?, &bytes)?;
    ensure(target.is_valid(), "the region was revoked")
}

/// Writes part of a file into a fresh region of the far end; gives the region's bytes.
async fn write_file(bed: &Bed<'_>, file: FileRef, offset: u64, len: usize) -> Outcome<Vec<u8>> {
    let (mut near, mut far) = bed.pair().await?;
    let target = far.expose(vec![0xee; len], Access::RemoteWrite)?;
    let source = Source::File {
        file,
        offset,
        len: u32::try_from(len)?,
    };
    near.endpoint
        .post_write(WORK, source, address_of(&target, 0), Signal::Always)?;
    near.endpoint.flush();
    near.expect(WORK, Done::Written).await?;
    ping(&mut near, &mut far).await?;
    bed.bytes_of(&target)
}
