//! The ways of bytes between a client and I/O servers, in the simulator.
#![allow(clippy::unwrap_used)]

use crate::servers;

use gannet_runtime::{Buffer, Handle, LocalFuture, all, sleep, timeout};
use gannet_sim::nic::ORDINARY;
use gannet_volume::client::TransferPolicy;
use gannet_volume::client::data::{Mover, Request, Target};
use gannet_volume::limits::{EAGER_BUFFERS, EAGER_LEN};
use gannet_wire::volume::{
    Class, Memory, Operation, Piece, Placement, Shape, Stability, Status, Transfer,
};
use gannet_wire::xdr::{Encode, Encoder};
use servers::{Bed, capability, connect_all, contiguous, mover, noise, read, request, write};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

const UNIT: u32 = 1 << 20;

fn registrations(targets: &[Target]) -> u64 {
    let domain = targets[0].link.endpoint().domain();
    domain.stats().registrations
}

/// Reads a little from each server until both sides have made their buffers.
async fn warm_up(targets: &[Target]) {
    for _ in 0..3 {
        for index in 0..targets.len() as u64 {
            read(targets, index * u64::from(UNIT), 8192).await;
        }
    }
}

#[test]
fn short_transfers_need_no_registration() {
    Bed::new(1, 2).run(UNIT, |targets| async move {
        warm_up(&targets).await;
        let before = registrations(&targets);
        for (salt, len) in [(1u8, 4097usize), (2, 10_000), (3, 65_536), (4, 100)] {
            let offset = u64::from(UNIT) - 4000 + u64::from(salt);
            let bytes = noise(len, salt);
            write(&targets, offset, bytes.clone()).await;
            assert!(read(&targets, offset, len).await == bytes, "{len} bytes");
        }
        assert_eq!(registrations(&targets), before);
        write(&targets, 0, noise(65_537, 5)).await;
        assert_eq!(registrations(&targets), before + 1, "a long one does");
    });
}

#[test]
fn more_short_transfers_than_buffers_do_not_mix() {
    Bed::new(2, 1).run(UNIT, |targets| async move {
        warm_up(&targets).await;
        let len = 20_000;
        let writes = (0..3 * EAGER_BUFFERS as u8).map(|at| -> LocalFuture<()> {
            let targets = targets.clone();
            Box::pin(async move {
                write(&targets, u64::from(at) * len as u64, noise(len, at)).await;
            })
        });
        all(writes).await;
        let reads = (0..3 * EAGER_BUFFERS as u8).map(|at| -> LocalFuture<()> {
            let targets = targets.clone();
            Box::pin(async move {
                let bytes = read(&targets, u64::from(at) * len as u64, len).await;
                assert!(bytes == noise(len, at), "transfer {at}");
            })
        });
        all(reads).await;
    });
}

/// The caller of a long READ gives up while the server writes its bytes. The memory is there until the reply: a Write
/// that found none would end the connection for all.
#[test]
fn a_read_that_is_given_up_ends_no_connection() {
    let bed = Bed::new(9, 1);
    let runtime = bed.client.runtime();
    bed.run(UNIT, |targets| async move {
        warm_up(&targets).await;
        let len = 1 << 20;
        write(&targets, 0, noise(len, 1)).await;
        let mover = mover(&targets);
        let mut given_up = 0;
        for patience in (0..3000).step_by(50).map(Duration::from_micros) {
            let mut memory = Buffer::zeroed(len);
            let longer = request(0, len);
            let reading = mover.read(&targets, &longer, &mut memory);
            given_up += u32::from(timeout(&runtime, patience, reading).await.is_err());
            assert!(read(&targets, 0, 8192).await == noise(len, 1)[..8192]);
        }
        assert!(given_up > 10, "{given_up} reads are given up");
    });
}

#[test]
fn memory_of_the_client_is_registered_once() {
    Bed::new(3, 2).run(UNIT, |targets| async move {
        warm_up(&targets).await;
        let mover = mover(&targets);
        for len in [10_000, 3 << 20] {
            let mut buffer = mover.cache().memory(len);
            assert!(buffer.len() >= len);
            buffer[..len].copy_from_slice(&noise(len, 7));
            let longer = request(u64::from(UNIT) - 500, 3 << 20);
            let mut once = mover.cache().memory(3 << 20);
            // A long transfer registers the memory, and the short one is then written from it.
            mover
                .write(&targets, Stability::FileSync, &longer, &mut once)
                .await
                .unwrap();
            drop(once);
            mover
                .write(&targets, Stability::FileSync, &request(5, len), &mut buffer)
                .await
                .unwrap();
            drop(buffer);
            let before = registrations(&targets);
            for _ in 0..10 {
                let mut buffer = mover.cache().memory(3 << 20);
                assert!(mover.cache().is_registered(&buffer));
                buffer[..len].fill(0);
                let back = mover.read(&targets, &request(5, len), &mut buffer).await;
                back.unwrap();
                assert!(buffer[..len] == noise(len, 7));
                let again = mover
                    .write(&targets, Stability::FileSync, &request(5, len), &mut buffer)
                    .await;
                again.unwrap();
            }
            assert_eq!(registrations(&targets), before);
        }
        assert!(mover.cache().counters().hits > 20);
    });
}

#[test]
fn every_way_moves_the_same_bytes() {
    let policies = [(0, 0), (4096, 0), (0, 65_536), (4096, 65_536), (100, 5000)];
    for (inline_max, eager_max) in policies {
        Bed::new(4, 3).run(4096, move |targets| async move {
            let policy = TransferPolicy {
                inline_max,
                eager_max,
                client_driven: false,
            };
            let mover = Mover::new(targets[0].link.endpoint().domain(), policy);
            for round in 0..4u8 {
                for len in [1usize, 3000, 50_000, 400_000] {
                    let bytes = noise(len, round);
                    let mut buffer = match round % 2 {
                        0 => Buffer::from_vec(bytes.clone()),
                        _ => mover.cache().memory(len),
                    };
                    buffer[..len].copy_from_slice(&bytes);
                    let request = request(1000 * u64::from(round), len);
                    let written = mover
                        .write(&targets, Stability::Unstable, &request, &mut buffer)
                        .await;
                    written.unwrap();
                    buffer[..len].fill(0);
                    let back = mover.read(&targets, &request, &mut buffer).await;
                    back.unwrap();
                    assert!(buffer[..len] == bytes, "{len} bytes in round {round}");
                }
            }
        });
    }
}

#[test]
fn pieces_that_overlap_are_written_in_their_order() {
    Bed::new(7, 2).run(4096, |targets| async move {
        let piece = |offset, len| Piece { offset, len };
        // The pieces are in reverse order, overlap, and have neighbours.
        let pieces = vec![
            piece(9000, 500),
            piece(100, 6000),
            piece(50, 100),
            piece(9100, 50),
            piece(9150, 700),
            piece(0, 9500),
            piece(20_000, 1),
        ];
        let file = Shape::list(pieces.clone()).unwrap();
        let len = file.len() as usize;
        let bytes = noise(len, 3);
        let mut expected = vec![0; 20_001];
        let mut rest = &bytes[..];
        for piece in pieces {
            let (head, tail) = rest.split_at(piece.len as usize);
            expected[piece.offset as usize..][..head.len()].copy_from_slice(head);
            rest = tail;
        }
        let request = Request {
            capability: capability(1),
            file,
            memory: contiguous(0, len),
        };
        for _ in 0..3 {
            let mut buffer = Buffer::from_vec(bytes.clone());
            let written = mover(&targets)
                .write(&targets, Stability::Unstable, &request, &mut buffer)
                .await;
            written.unwrap();
            assert!(read(&targets, 0, expected.len()).await == expected);
        }
    });
}

fn body(operation: Operation, slot: u32, len: usize) -> (Operation, Vec<u8>) {
    let transfer = Transfer {
        group: 0,
        capability: capability(1),
        placement: Placement {
            unit: UNIT,
            width: 1,
            index: 0,
        },
        stability: Stability::Unstable,
        wants_reference: false,
        file: contiguous(0, len),
        memory: Memory::Eager { slot },
    };
    let mut body = Vec::new();
    transfer.encode(&mut Encoder::new(&mut body));
    (operation, body)
}

#[test]
fn buffers_that_are_not_there_are_refused() {
    Bed::new(5, 1).run(UNIT, |targets| async move {
        let link = &targets[0].link;
        let refused = async |operation, slot, len| {
            let (operation, body) = body(operation, slot, len);
            let answer = link.call(operation, Class::Small, &body, &[]).await;
            answer.unwrap().header.status == Err(Status::Inval)
        };
        for operation in [Operation::Read, Operation::Write] {
            assert!(refused(operation, 0, 5000).await, "nobody has told of any");
        }
        warm_up(&targets).await;
        for operation in [Operation::Read, Operation::Write] {
            for slot in [EAGER_BUFFERS, u32::MAX] {
                assert!(refused(operation, slot, 5000).await);
            }
            assert!(refused(operation, 0, EAGER_LEN as usize + 1).await);
            assert!(!refused(operation, 0, EAGER_LEN as usize).await);
        }
        // The connection is still usable.
        let bytes = noise(30_000, 1);
        write(&targets, 0, bytes.clone()).await;
        assert!(read(&targets, 0, 30_000).await == bytes);
    });
}

/// A client on a machine of its own, connected to the one server.
struct Client {
    runtime: Handle,
    targets: Vec<Target>,
    mover: Rc<Mover>,
    /// Bytes that its long transfers have moved.
    moved: Rc<Cell<u64>>,
}

impl Client {
    /// Starts endless transfers of 1 MiB, this many at a time.
    fn move_bulk(&self, operation: Operation, at_a_time: usize) {
        for _ in 0..at_a_time {
            let (targets, mover) = (self.targets.clone(), Rc::clone(&self.mover));
            let moved = Rc::clone(&self.moved);
            let task = async move {
                let len = 1 << 20;
                let mut buffer = mover.cache().memory(len);
                loop {
                    let request = request(0, len);
                    let done = match operation {
                        Operation::Read => mover.read(&targets, &request, &mut buffer).await,
                        _ => {
                            mover
                                .write(&targets, Stability::Unstable, &request, &mut buffer)
                                .await
                        }
                    };
                    done.unwrap();
                    moved.set(moved.get() + len as u64);
                }
            };
            self.runtime.spawn("bulk", Box::pin(task));
        }
    }

    /// The longest duration of some short reads, one after the other.
    async fn slowest_read(&self, len: usize) -> Duration {
        let mut slowest = Duration::ZERO;
        for _ in 0..50 {
            let (start, request) = (self.runtime.now(), request(0, len));
            let mut buffer = Buffer::zeroed(len);
            let read = self.mover.read(&self.targets, &request, &mut buffer);
            read.await.unwrap();
            slowest = slowest.max(self.runtime.now() - start);
        }
        slowest
    }
}

/// Runs a test with clients of one server, whose file has 4 MiB in memory.
fn with_clients<F>(clients: usize, story: impl FnOnce(Handle, Vec<Client>) -> F + 'static)
where
    F: Future<Output = ()> + 'static,
{
    let bed = Bed::of(6, 1, Some(&ORDINARY));
    let nodes: Vec<_> = (0..clients).map(|_| bed.add_client()).collect();
    let (addresses, fabric, runtime) = (bed.addresses(), bed.fabric, bed.client.runtime());
    let done = bed.world.run(async move {
        let mut clients = Vec::new();
        for node in &nodes {
            let targets = connect_all(&fabric, node, &addresses, UNIT).await;
            warm_up(&targets).await;
            clients.push(Client {
                runtime: node.runtime(),
                mover: Rc::new(mover(&targets)),
                moved: Rc::default(),
                targets,
            });
        }
        write(&clients[0].targets, 0, noise(4 << 20, 1)).await;
        story(runtime, clients).await;
    });
    done.unwrap();
}

#[test]
fn short_reads_do_not_wait_behind_long_transfers() {
    // A short read waits for the copies that the two processors make for other clients.
    for (operation, most) in [
        (Operation::Read, Duration::from_millis(12)),
        (Operation::Write, Duration::from_millis(12)),
    ] {
        with_clients(9, move |runtime, clients| async move {
            let (short, others) = clients.split_first().unwrap();
            let alone = short.slowest_read(16_384).await;
            assert!(alone < Duration::from_micros(250), "alone: {alone:?}");
            others
                .iter()
                .for_each(|other| other.move_bulk(operation, 4));
            sleep(&runtime, Duration::from_millis(100)).await;
            for len in [1024, 16_384] {
                let slowest = short.slowest_read(len).await;
                assert!(slowest < most, "beside {operation:?}: {slowest:?}");
            }
            assert!(others.iter().any(|other| other.moved.get() > 0));
        });
    }
}

#[test]
fn clients_of_unequal_appetite_get_equal_shares() {
    for operation in [Operation::Read, Operation::Write] {
        with_clients(2, move |runtime, clients| async move {
            clients[0].move_bulk(operation, 32);
            clients[1].move_bulk(operation, 2);
            sleep(&runtime, Duration::from_millis(300)).await;
            let moved = || [clients[0].moved.get(), clients[1].moved.get()];
            let before = moved();
            sleep(&runtime, Duration::from_secs(1)).await;
            let [greedy, modest] = moved();
            let (greedy, modest) = (greedy - before[0], modest - before[1]);
            // Transfers count at their ends, and 32 of them end at about the same time.
            assert!(
                greedy < modest + modest / 3 && modest < greedy + greedy / 3,
                "{operation:?}: {greedy} and {modest} bytes"
            );
        });
    }
}
