//! Send and receive.

use crate::bed::{Bed, Peer, RECEIVES, SLOT_LEN, WORK, pattern, ping, source};
use crate::{Broken, Outcome, ensure, ensure_bytes, ensure_eq};
use gannet_fabric::{Access, Done, PostError, SendOptions, Signal, Source, Span, WorkId};
use gannet_runtime::{Buffer, both};

/// Lengths around the boundaries of packets, padding and segments.
const SIZES: [usize; 14] = [
    0, 1, 2, 3, 4, 5, 1447, 1448, 4096, 8191, 65_000, 65_536, 262_147, 1_048_576,
];

pub(crate) async fn every_size_arrives(bed: &Bed<'_>) -> Outcome {
    let options = || {
        let mut options = bed.options()?;
        options.receives = vec![Buffer::zeroed(1 << 20), Buffer::zeroed(1 << 20)].into();
        Outcome::Ok(options)
    };
    let (mut near, mut far) = bed.pair_with(options()?, options()?).await?;
    for (index, len) in SIZES.into_iter().enumerate() {
        let bytes = pattern(index, len);
        near.send(WORK, &bytes)?;
        let message = far.expect_message().await?;
        ensure_bytes("message", &message, &bytes)?;
        let buffer = near.expect(WORK, Done::Sent).await?;
        ensure_eq(
            "memory given back",
            buffer.map(|buffer| buffer.len()),
            Some(len),
        )?;
        far.endpoint
            .post_receive(WorkId(0), Buffer::zeroed(1 << 20))?;
    }
    Ok(())
}

pub(crate) async fn many_arrive_in_order(bed: &Bed<'_>) -> Outcome {
    let (mut near, mut far) = bed.pair().await?;
    let mut sent = 0u32;
    for received in 0..500u32 {
        // As many messages are under way as there are receives, posted in uneven batches.
        while sent < 500 && sent < received + RECEIVES as u32 {
            let options = SendOptions::default();
            near.endpoint.post_send(
                WORK,
                source(&pattern(sent as usize, 100 + sent as usize))?,
                options,
            )?;
            sent += 1;
            if sent.is_multiple_of(3) {
                near.endpoint.flush();
            }
        }
        near.endpoint.flush();
        let message = far.expect_message().await?;
        let expected = pattern(received as usize, 100 + received as usize);
        ensure_bytes("message in its turn", &message, &expected)?;
        far.endpoint.post_receive(WorkId(0), bed.slot()?)?;
    }
    ping(&mut near, &mut far).await
}

pub(crate) async fn receives_are_used_in_order(bed: &Bed<'_>) -> Outcome {
    let (near, mut far) = bed.pair().await?;
    for id in 0..4u64 {
        far.endpoint.post_receive(WorkId(100 + id), bed.slot()?)?;
    }
    for _ in 0..RECEIVES + 4 {
        near.send_with(WORK, b"next", SendOptions::default())?;
    }
    let expected = (0..RECEIVES as u64).chain(100..104);
    for id in expected {
        let (found, _, buffer) = far.next_done().await?;
        ensure_eq("receive used", found, WorkId(id))?;
        ensure_eq(
            "its memory",
            buffer.map(|buffer| buffer.len()),
            Some(SLOT_LEN),
        )?;
    }
    Ok(())
}

pub(crate) async fn sources_of_every_kind(bed: &Bed<'_>) -> Outcome {
    let (near, mut far) = bed.pair().await?;
    let bytes = pattern(5, 6000);
    let mut slot = bed.slot()?;
    slot[..6000].copy_from_slice(&bytes);
    let region = near.expose(bytes.clone(), Access::Local)?;
    let sources = [
        (
            Source::Buffer {
                buffer: slot,
                len: 5000,
            },
            &bytes[..5000],
        ),
        (
            Source::Span(Span {
                region,
                offset: 100,
                len: 4000,
            }),
            &bytes[100..4100],
        ),
    ];
    for (source, expected) in sources {
        near.endpoint
            .post_send(WORK, source, SendOptions::default())?;
        near.endpoint.flush();
        ensure_bytes("message", &far.expect_message().await?, expected)?;
    }
    Ok(())
}

pub(crate) async fn a_file_is_a_source(bed: &Bed<'_>) -> Outcome {
    let (near, mut far) = bed.pair().await?;
    let bytes = pattern(5, 6000);
    let source = Source::File {
        file: bed.file(bytes.clone()),
        offset: 50,
        len: 3000,
    };
    near.endpoint
        .post_send(WORK, source, SendOptions::default())?;
    near.endpoint.flush();
    ensure_bytes("message", &far.expect_message().await?, &bytes[50..3050])
}

pub(crate) async fn a_solicited_message_is_reported_as_such(bed: &Bed<'_>) -> Outcome {
    let (near, mut far) = bed.pair().await?;
    for wanted in [true, false] {
        let options = SendOptions {
            solicited: wanted,
            ..SendOptions::default()
        };
        near.send_with(WORK, b"attention", options)?;
        let Done::Received {
            solicited,
            invalidated,
            ..
        } = far.next_done().await?.1
        else {
            return Err(Broken::new("not a message"));
        };
        ensure_eq(
            "solicited, invalidated",
            (solicited, invalidated),
            (wanted, None),
        )?;
    }
    Ok(())
}

pub(crate) async fn only_asked_completions_come(bed: &Bed<'_>) -> Outcome {
    let (mut near, mut far) = bed.pair().await?;
    for index in 0..RECEIVES as u64 {
        let signal = if index % 3 == 1 {
            Signal::Always
        } else {
            Signal::OnError
        };
        let options = SendOptions {
            signal,
            ..SendOptions::default()
        };
        near.endpoint
            .post_send(WorkId(index), source(b"quiet")?, options)?;
    }
    near.endpoint.flush();
    for _ in 0..RECEIVES {
        far.expect_message().await?;
    }
    near.expect(WorkId(1), Done::Sent).await?;
    near.expect(WorkId(4), Done::Sent).await?;
    near.expect(WorkId(7), Done::Sent).await?;
    near.endpoint.close();
    let (rest, _) = near.end().await;
    let stray = rest.iter().find(|completion| completion.outcome.is_ok());
    ensure(
        stray.is_none(),
        format!("a completion nobody asked for: {stray:?}"),
    )
}

pub(crate) async fn the_send_queue_fills_and_recovers(bed: &Bed<'_>) -> Outcome {
    let (mut near, mut far) = bed.pair().await?;
    let target = far.expose(vec![0; 64], Access::RemoteWrite)?;
    let address = super::bed::address_of(&target, 0);
    let queue_max = u64::from(near.endpoint.attributes().send_queue_max);
    for round in 0..3 {
        let mut posted = 0;
        let refusal = loop {
            let bytes = near.write_source(&pattern(round, 64))?;
            match near
                .endpoint
                .post_write(WorkId(posted), bytes, address, Signal::Always)
            {
                Ok(()) => posted += 1,
                Err(refusal) => break refusal,
            }
            ensure(posted <= queue_max, "the queue takes more than it says")?;
        };
        ensure_eq("refusal", refusal, PostError::QueueFull)?;
        ensure_eq("work taken by an empty queue", posted, queue_max)?;
        near.endpoint.flush();
        for id in 0..posted {
            near.expect(WorkId(id), Done::Written).await?;
        }
        ping(&mut near, &mut far).await?;
        ensure_bytes("last write", &bed.bytes_of(&target)?, &pattern(round, 64))?;
    }
    Ok(())
}

pub(crate) async fn the_receive_queue_is_bounded(bed: &Bed<'_>) -> Outcome {
    let (mut near, mut far) = bed.pair().await?;
    let queue_max = far.endpoint.attributes().receive_queue_max as usize;
    for _ in RECEIVES..queue_max {
        far.endpoint.post_receive(WorkId(0), Buffer::zeroed(16))?;
    }
    ensure_eq(
        "one receive too many",
        far.endpoint.post_receive(WorkId(0), Buffer::zeroed(16)),
        Err(PostError::QueueFull),
    )?;
    near.send(WORK, b"room")?;
    near.expect(WORK, Done::Sent).await?;
    far.expect_message().await?;
    far.endpoint.post_receive(WorkId(0), Buffer::zeroed(16))?;
    Ok(())
}

pub(crate) async fn invalid_work_is_refused_at_home(bed: &Bed<'_>) -> Outcome {
    let (mut near, mut far) = bed.pair().await?;
    let target = far.expose(vec![0; 64], Access::RemoteReadWrite)?;
    let address = super::bed::address_of(&target, 0);
    let region = near.sink(100)?;
    let beyond = || Span {
        region: region.clone(),
        offset: 90,
        len: 11,
    };
    let long = Source::Buffer {
        buffer: Buffer::zeroed(10),
        len: 11,
    };
    let refusals = [
        near.endpoint.post_send(WORK, long, SendOptions::default()),
        near.endpoint
            .post_send(WORK, Source::Span(beyond()), SendOptions::default()),
        near.endpoint
            .post_write(WORK, Source::Span(beyond()), address, Signal::Always),
        near.endpoint.post_read(WORK, beyond(), address),
    ];
    for refusal in refusals {
        let holds = matches!(refusal, Err(PostError::Invalid(_)));
        ensure(holds, format!("work beyond its memory: {refusal:?}"))?;
    }
    region.invalidate().await;
    let revoked = Span {
        region: region.clone(),
        offset: 0,
        len: 10,
    };
    let refusal = near.endpoint.post_read(WORK, revoked, address);
    let holds = matches!(refusal, Err(PostError::Invalid(_)));
    ensure(holds, format!("a read into revoked memory: {refusal:?}"))?;
    ping(&mut near, &mut far).await
}

pub(crate) async fn both_directions_at_once(bed: &Bed<'_>) -> Outcome {
    const COUNT: usize = 24;
    let options = || {
        let mut options = bed.options()?;
        options.receives = (0..COUNT).map(|_| Buffer::zeroed(256 << 10)).collect();
        Outcome::Ok(options)
    };
    let (mut near, mut far) = bed.pair_with(options()?, options()?).await?;
    // More bytes than sockets buffer, posted by both before either polls: neither may wait for the other to read.
    for peer in [&near, &far] {
        for index in 0..COUNT {
            peer.send_with(WORK, &pattern(index, 256 << 10), SendOptions::default())?;
        }
    }
    async fn receive(peer: &mut Peer) -> Outcome {
        for index in 0..COUNT {
            let message = peer.expect_message().await?;
            ensure_bytes("message", &message, &pattern(index, 256 << 10))?;
        }
        Ok(())
    }
    let (left, right) = both(receive(&mut near), receive(&mut far)).await;
    left.and(right)
}
