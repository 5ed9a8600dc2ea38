//! Files over several I/O servers in the simulator: reads return the written bytes, for every shape.
#![allow(clippy::unwrap_used)]

use crate::servers;

use gannet_dst::volume::keys;
use gannet_fabric::Provider;
use gannet_runtime::Buffer;
use gannet_volume::client::data::{DataError, Request};
use gannet_volume::layout::object_size;
use gannet_volume::link::{self, HandshakeError, Identity, Pool, ServerPlace, Session};
use gannet_volume::secret::{Secret, ServerKeys};
use gannet_wire::volume::{self as wire, Capability, Level, Piece, Refusal, Shape, Stability};
use servers::{Bed, PORT, capability, contiguous, identity, mover, noise, read, write};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

#[test]
fn what_is_written_is_read_over_any_number_of_servers() {
    for (servers, unit) in [(1, 65536), (2, 4096), (4, 65536), (7, 5000)] {
        Bed::new(servers as u64, servers).run(unit, move |targets| async move {
            for (salt, (offset, len)) in [
                (0u64, 1usize),
                (0, 4096),
                (5000, 4097),
                (123_456, 300_000),
                (7 << 20, 5 << 20),
                (65535, 2),
            ]
            .into_iter()
            .enumerate()
            {
                let bytes = noise(len, salt as u8);
                write(&targets, offset, bytes.clone()).await;
                assert!(
                    read(&targets, offset, len).await == bytes,
                    "{len} bytes at {offset}"
                );
            }
        });
    }
}

#[test]
fn objects_are_as_long_as_striping_says_and_holes_are_zeros() {
    Bed::new(3, 3).run(4096, |targets| async move {
        let states = write(&targets, 10_000, noise(50_000, 1)).await;
        for (index, state) in states {
            let placement = targets[index as usize].placement;
            assert_eq!(state.size, object_size(60_000, placement));
        }
        let start = read(&targets, 0, 12_000).await;
        assert!(start[..10_000].iter().all(|byte| *byte == 0));
        assert!(start[10_000..] == noise(50_000, 1)[..2_000]);
    });
}

#[test]
fn a_tile_is_one_request_to_each_server() {
    Bed::new(4, 4).run(65536, |targets| async move {
        // 768 rows of 3 KiB in a file of rows of 12 KiB, gathered from rows of 4 KiB in memory.
        let (rows, row) = (768u32, 3072u32);
        let nested = |offset, stride| {
            let first = Piece { offset, len: row };
            Shape::nested(
                first,
                vec![Level {
                    count: rows,
                    stride,
                }],
            )
            .unwrap()
        };
        let (file, memory) = (nested(3072, 12288), nested(100, 4096));
        let image = noise(100 + rows as usize * 4096, 9);
        let request = Request {
            capability: capability(1),
            file: file.clone(),
            memory: memory.clone(),
        };
        let mut buffer = Buffer::from_vec(image.clone());
        mover(&targets)
            .write(&targets, Stability::Unstable, &request, &mut buffer)
            .await
            .unwrap();
        let mut back = Buffer::zeroed(image.len());
        mover(&targets)
            .read(&targets, &request, &mut back)
            .await
            .unwrap();
        for piece in memory.pieces() {
            let range = piece.offset as usize..(piece.offset + u64::from(piece.len)) as usize;
            assert!(back[range.clone()] == image[range]);
        }
        for (piece, source) in file.pieces().zip(memory.pieces()).step_by(97) {
            let bytes = read(&targets, piece.offset, piece.len as usize).await;
            let start = source.offset as usize;
            assert!(bytes == image[start..start + bytes.len()]);
        }
    });
}

/// Pieces of three allocations, out of order and interleaved, by every way of a transfer.
#[test]
fn pieces_of_several_allocations_go_in_one_request() {
    Bed::new(6, 3).run(4096, |targets| async move {
        for (salt, len) in [(1, 40u32), (2, 3000), (3, 200_000)] {
            let parents = [7 * len, 3 * len, 9 * len];
            let images = [11, 12, 13].map(|it| noise(9 * len as usize, it * salt));
            // The pieces' places in memory, as if the allocations lay one behind the other.
            let pieces = [9u64, 0, 15, 4, 8, 18, 2, 10].map(|at| Piece {
                offset: at * u64::from(len),
                len,
            });
            let rows = Level {
                count: 8,
                stride: 3 * u64::from(len),
            };
            let first = Piece { offset: 77, len };
            let request = Request {
                capability: capability(1),
                file: Shape::nested(first, vec![rows]).unwrap(),
                memory: Shape::list(pieces.to_vec()).unwrap(),
            };
            let mover = mover(&targets);
            let fresh = |at: usize| Buffer::from_vec(images[at][..parents[at] as usize].to_vec());
            let mut buffers = [0, 1, 2].map(fresh);
            let together: Vec<u8> = buffers.iter().flat_map(|it| it.to_vec()).collect();
            let written = mover.write_from(&targets, Stability::Unstable, &request, &mut buffers);
            written.await.unwrap();
            let mut back = parents.map(|len| Buffer::zeroed(len as usize));
            let done = mover.read_to(&targets, &request, &mut back).await;
            done.unwrap();
            let back: Vec<u8> = back.iter().flat_map(|it| it.to_vec()).collect();
            for (row, piece) in pieces.iter().enumerate() {
                let start = piece.offset as usize;
                let bytes = &together[start..start + len as usize];
                assert!(back[start..start + len as usize] == *bytes, "{len}");
                let offset = 77 + row as u64 * rows.stride;
                assert!(read(&targets, offset, len as usize).await == bytes, "{len}");
            }
            let touched = 8 * len as usize;
            let zeros = back.iter().filter(|byte| **byte == 0).count();
            assert!(zeros >= back.len() - touched, "nothing else was changed");
            // A piece across two allocations is invalid.
            let astride = Piece {
                offset: u64::from(7 * len) - 1,
                len: 8 * len,
            };
            let request = Request {
                memory: Shape::list(vec![astride]).unwrap(),
                ..request
            };
            let refused = mover.read_to(&targets, &request, &mut buffers).await;
            assert_eq!(refused.map(|_| ()), Err(DataError::Shape));
        }
    });
}

#[test]
fn without_a_capability_nothing_is_read_or_written() {
    Bed::new(5, 1).run(4096, |targets| async move {
        write(&targets, 0, noise(100, 1)).await;
        let forged = Capability {
            file: 2,
            ..capability(1)
        };
        let stranger = ServerKeys::new(Secret::new([6; 16]));
        let foreign = stranger.grant(
            0,
            1,
            Capability::READ,
            Duration::from_secs(u64::from(u32::MAX)),
        );
        let late = keys().grant(0, 1, Capability::READ, Duration::ZERO);
        for capability in [forged, foreign, late] {
            let request = Request {
                capability,
                file: contiguous(0, 100),
                memory: contiguous(0, 100),
            };
            let read = mover(&targets)
                .read(&targets, &request, &mut Buffer::zeroed(100))
                .await;
            let refused = DataError::Refused {
                index: 0,
                status: wire::Status::Stale,
            };
            assert_eq!(read.map(|_| ()), Err(refused));
        }
    });
}

#[test]
fn a_class_that_the_fabric_does_not_have_is_not_lost_in_silence() {
    let bed = Bed::new(6, 1);
    let address = bed.addresses()[0];
    let (fabric, client) = (bed.fabric, bed.client);
    let done = bed.world.run(async move {
        let (runtime, provider) = (client.runtime(), fabric.provider(&client));
        let identity = Identity {
            classes: "metadata=24,data=10".parse().unwrap(),
            ..identity(keys())
        };
        let server = ServerPlace::io_server(address, 0);
        let (identity, session) = (identity, Session::new(&runtime));
        let link =
            link::connect(&runtime, &provider, &Pool::new(), server, identity, session).await;
        let error = link.unwrap_err().to_string();
        assert_eq!(error, "not possible here: a traffic class");
    });
    done.unwrap();
}

#[test]
fn a_wrong_key_is_refused_on_either_side() {
    let Bed {
        world,
        fabric,
        servers,
        client,
        ..
    } = Bed::new(6, 1);
    let address = SocketAddr::new(servers[0].ip(), PORT);
    let done = world.run(async move {
        let provider: Rc<dyn Provider> = fabric.provider(&client);
        let pool = Pool::new();
        let stranger = identity(ServerKeys::new(Secret::new([6; 16])));
        let other = Identity {
            volume: *b"another's volume",
            ..identity(keys())
        };
        for (identity, reason) in [
            (stranger, HandshakeError::NotOfVolume),
            (other, HandshakeError::Refused(Refusal::OtherVolume)),
        ] {
            let server = ServerPlace::io_server(address, 0);
            let runtime = client.runtime();
            let (identity, session) = (identity, Session::new(&runtime));
            let link = link::connect(&runtime, &provider, &pool, server, identity, session).await;
            assert_eq!(link.err(), Some(reason));
        }
    });
    done.unwrap();
}
