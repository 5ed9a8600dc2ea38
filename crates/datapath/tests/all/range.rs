//! A range gets into memory whole, and waits for the disk on the pool alone.

use crate::{expected, range};
use gannet_datapath::Gather;
use gannet_runtime::Buffer;
use gannet_sim::World;
use std::io;

#[test]
fn resident_bytes_are_copied_and_zeros_follow_the_end_of_the_file() {
    for (offset, len) in [
        (0, 1000),
        (10, 700),
        (900, 200),
        (1000, 5),
        (5000, 5),
        (3, 0),
    ] {
        let range = range(1000, offset, len);
        let mut memory = vec![0xa5; len + 1];
        range.copy(&mut memory).unwrap();
        assert_eq!(memory[..len], expected(&range), "{offset} {len}");
        assert_eq!(memory[len], 0xa5);
    }
    assert!(range(1000, 0, 10).copy(&mut [0; 9]).is_err(), "no room");
}

#[test]
fn a_copy_blocks_if_any_byte_is_not_resident() {
    for (resident, offset) in [(0, 0), (300, 0), (600, 500)] {
        let range = range(resident, offset, 400);
        let error = range.copy(&mut [0; 400]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "{resident}");
    }
}

#[test]
fn copy_some_copies_as_much_as_one_system_call_reads() {
    let range = range(1000, 600, 500);
    let mut memory = [0xa5; 500];
    assert_eq!(range.copy_some(&mut memory).unwrap(), 300);
    assert_eq!(memory[..300], expected(&range)[..300]);
    let rest = range.rest(400);
    assert_eq!((rest.offset, rest.len), (1000, 100));
    assert_eq!(rest.copy_some(&mut memory).unwrap(), 100);
    assert_eq!(memory[..100], [0; 100]);
    assert_eq!(range.rest(501).len, 0);
}

#[test]
fn cold_ranges_are_read_on_the_pool() {
    let world = World::new(1);
    let runtime = world.add_node("server").runtime();
    let test = async move {
        let cold = range(0, 900, 300);
        let memory = Buffer::from_vec(vec![0xa5; 303]);
        let bytes = cold.clone().read(&runtime, memory, 2).await.unwrap();
        assert_eq!(bytes[2..302], expected(&cold));
        assert_eq!((bytes[1], bytes[302]), (0xa5, 0xa5));
        assert!(cold.is_resident());
        let small = Buffer::zeroed(5);
        assert!(range(0, 0, 6).read(&runtime, small, 0).await.is_err());
    };
    world.run(test).unwrap();
}

#[test]
fn ranges_follow_each_other_with_zeros_behind_the_end_of_their_file() {
    let world = World::new(1);
    let runtime = world.add_node("server").runtime();
    let test = async move {
        let used = Buffer::from_vec(vec![9; 1508]);
        let address = used.as_ptr();
        let mut gather = Gather::to(used);
        let mut wanted = Vec::new();
        for (resident, offset, len) in [
            (1000, 3, 500),
            (0, 100, 500),
            (0, 900, 300),
            (1000, 2000, 200),
        ] {
            let range = range(resident, offset, len);
            wanted.extend(expected(&range));
            gather.append(range, &runtime).await.unwrap();
        }
        gather.append_zeros(7).unwrap();
        wanted.extend([0, 0, 0, 0, 0, 0, 0, 9]);
        assert!(gather.append_zeros(2).is_err(), "there is no room");
        let bytes = gather.into_buffer();
        assert_eq!(bytes[..], wanted);
        assert_eq!(bytes.as_ptr(), address);
    };
    world.run(test).unwrap();
}

#[test]
fn warming_brings_a_range_into_the_page_cache() {
    let world = World::new(1);
    let runtime = world.add_node("server").runtime();
    let test = async move {
        let range = range(0, 900, 300);
        assert!(!range.is_resident());
        range.clone().warm(&runtime).await.unwrap();
        assert!(range.is_resident());
        range.copy(&mut [0; 300]).unwrap();
    };
    world.run(test).unwrap();
}
