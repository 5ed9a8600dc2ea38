//! Client-driven buffers in the simulator: I/O servers open memory, and clients move the bytes.
#![allow(clippy::unwrap_used)]

use crate::servers;

use gannet_fabric::{RemoteAddress, RemoteKey, Source};
use gannet_runtime::{Buffer, sleep};
use gannet_volume::client::TransferPolicy;
use gannet_volume::client::data::{Mover, Target};
use gannet_volume::limits::{CLIENT_BUFFER_AGE, CLIENT_BUFFER_BYTES_MAX};
use gannet_volume::link::Message;
use gannet_wire::volume::{
    Class, ClientBuffer, ClientDrivenDone, Memory, ObjectRange, Operation, Stability, Status,
    Transfer,
};
use gannet_wire::xdr::{Encode, Encoder, from_bytes};
use servers::{Bed, capability, connect_all, contiguous, noise, read, request};
use std::time::Duration;

const UNIT: u32 = 1 << 20;

/// A policy by which the client moves long transfers.
const BY_CLIENT: TransferPolicy = TransferPolicy {
    inline_max: 0,
    eager_max: 0,
    client_driven: true,
};

fn client_driven(targets: &[Target]) -> Mover {
    Mover::new(targets[0].link.endpoint().domain(), BY_CLIENT)
}

#[test]
fn the_client_moves_long_transfers_if_that_is_chosen() {
    Bed::new(8, 3).run(65_536, |targets| async move {
        let mover = client_driven(&targets);
        // The last length is more than a server opens at once.
        for (round, len) in [1usize, 3000, 400_000, 3 << 20, 5 << 20]
            .into_iter()
            .enumerate()
        {
            let bytes = noise(len, round as u8);
            let mut buffer = match round % 2 {
                0 => Buffer::from_vec(bytes.clone()),
                _ => mover.cache().memory(len),
            };
            buffer[..len].copy_from_slice(&bytes);
            for _ in 0..3 {
                let request = request(1000, len);
                let written = mover
                    .write(&targets, Stability::Unstable, &request, &mut buffer)
                    .await;
                written.unwrap();
                buffer[..len].fill(0);
                let back = mover.read(&targets, &request, &mut buffer).await;
                back.unwrap();
                assert!(buffer[..len] == bytes, "{len} bytes");
                assert!(read(&targets, 1000, len).await == bytes, "by the server");
            }
        }
        assert!(targets.iter().all(|target| !target.link.is_over()));
    });
}

async fn open_buffer(target: &Target, len: u64) -> Option<ClientBuffer> {
    let capability = capability(1);
    let body = bytes_of(&ObjectRange {
        group: target.group,
        capability,
        size: len,
    });
    let answer = target
        .link
        .call(Operation::OpenBuffer, Class::Bulk, &body, &[]);
    let answer = answer.await.unwrap();
    assert_eq!(answer.header.status, Ok(()));
    from_bytes(answer.body()).unwrap()
}

fn bytes_of(value: &impl Encode) -> Vec<u8> {
    let mut body = Vec::new();
    value.encode(&mut Encoder::new(&mut body));
    body
}

/// Writes to a buffer by RDMA, and does not report it.
async fn write_to(target: &Target, buffer: ClientBuffer, len: usize) {
    let place = RemoteAddress {
        key: RemoteKey(buffer.key),
        offset: buffer.offset,
    };
    let source = Source::Buffer {
        buffer: Buffer::from_vec(vec![7; len]),
        len: len as u32,
    };
    target.link.write(source, place).await;
}

/// Sends the WRITE request for the bytes in a buffer.
async fn say_done(target: &Target, number: u64, len: usize) -> Message {
    let body = bytes_of(&Transfer {
        group: target.group,
        capability: capability(1),
        placement: target.placement,
        stability: Stability::Unstable,
        wants_reference: false,
        file: contiguous(0, len),
        memory: Memory::ClientDriven { number },
    });
    let answer = target.link.call(Operation::Write, Class::Bulk, &body, &[]);
    answer.await.unwrap()
}

#[test]
fn a_client_that_never_says_done_holds_memory_for_a_while_and_no_more_than_its_own() {
    let bed = Bed::new(9, 1);
    let (addresses, node) = (bed.addresses(), bed.add_client());
    let (fabric, client) = (bed.fabric, bed.client);
    let done = bed.world.run(async move {
        let silent = connect_all(&fabric, &node, &addresses, UNIT).await;
        let other = connect_all(&fabric, &client, &addresses, UNIT).await;
        let runtime = client.runtime();
        let mut buffers = Vec::new();
        while let Some(more) = open_buffer(&silent[0], 256 << 10).await {
            buffers.push(more);
        }
        let sum: u64 = buffers.iter().map(|it| u64::from(it.len)).sum();
        assert_eq!(sum, CLIENT_BUFFER_BYTES_MAX as u64);
        // The silent client may go on like any other, and others do not notice.
        let bytes = noise(3 << 20, 1);
        for targets in [&silent, &other] {
            let mut buffer = Buffer::from_vec(bytes.clone());
            let request = request(0, bytes.len());
            for _ in 0..2 {
                let mover = client_driven(targets);
                let written = mover
                    .write(targets, Stability::Unstable, &request, &mut buffer)
                    .await;
                written.unwrap();
            }
        }
        write_to(&silent[0], buffers[0], 1000).await;
        sleep(&runtime, CLIENT_BUFFER_AGE / 2).await;
        assert!(!silent[0].link.is_over(), "the buffer is still open");
        assert!(open_buffer(&silent[0], 1).await.is_none());
        sleep(&runtime, CLIENT_BUFFER_AGE).await;
        // The server has taken all buffers back: there is memory again, and the old keys are invalid.
        assert!(open_buffer(&silent[0], 1 << 20).await.is_some());
        write_to(&silent[0], buffers[1], 1000).await;
        sleep(&runtime, Duration::from_millis(10)).await;
        assert!(silent[0].link.is_over(), "it is cut off");
        assert!(read(&other, 0, bytes.len()).await == bytes);
    });
    done.unwrap();
}

#[test]
fn memory_that_was_given_back_is_out_of_reach() {
    let bed = Bed::new(10, 1);
    let (addresses, fabric, client) = (bed.addresses(), bed.fabric, bed.client);
    let done = bed.world.run(async move {
        let targets = connect_all(&fabric, &client, &addresses, UNIT).await;
        let other = connect_all(&fabric, &client, &addresses, UNIT).await;
        let target = &targets[0];
        let buffer = open_buffer(target, 100_000).await.unwrap();
        write_to(target, buffer, 100_000).await;
        let answer = say_done(target, buffer.number, 100_000).await;
        assert_eq!(answer.header.status, Ok(()));
        let done: ClientDrivenDone = from_bytes(answer.body()).unwrap();
        assert_eq!(done.done.count, 100_000);
        let next = done.buffer.unwrap();
        assert!(next.number > buffer.number && next.key != buffer.key);
        assert!(read(&targets, 0, 100_000).await == vec![7; 100_000]);
        // The same requests again: the buffer is not there any more, and its successor is not for that many bytes.
        for (number, len, status) in [
            (buffer.number, 100_000, Status::Jukebox),
            (next.number, 200_000, Status::Inval),
        ] {
            let answer = say_done(target, number, len).await;
            assert_eq!(answer.header.status, Err(status));
        }
        assert!(!target.link.is_over());
        write_to(target, buffer, 1).await;
        sleep(&client.runtime(), Duration::from_millis(10)).await;
        assert!(target.link.is_over(), "its key is revoked");
        assert!(read(&other, 0, 100_000).await == vec![7; 100_000]);
    });
    done.unwrap();
}
