//! The way of a range follows from the provider and its length.

use crate::{TestFile, expected, pattern, range};
use gannet_datapath::limits::COPY_FILE_MAX;
use gannet_datapath::{Datapath, Engine, FileRange, Part, Ready, Writes};
use gannet_fabric::registration::{Registration, StrategyKind, Trust};
use gannet_fabric::{Capabilities, Provider, RemoteAddress, RemoteKey, Source};
use gannet_runtime::{Buffer, Handle};
use gannet_sim::World;
use gannet_sim::fabric::{FabricProfile, SimFabric};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

/// A provider in software and one as a NIC is, and what they are reached by.
fn paths(world: &World) -> (Datapath, Datapath, Handle) {
    let node = world.add_node("server");
    let provider: Rc<dyn Provider> =
        SimFabric::new(world, FabricProfile::default()).provider(&node);
    let kept = Registration::new(StrategyKind::ServerCache, Trust::Untrusted).unwrap();
    let strategy = kept.over(provider.domain(), node.runtime());
    let software = provider.capabilities();
    assert!(software.file_sources && !software.needs_local_registration);
    let hardware = Capabilities {
        needs_local_registration: true,
        ..software
    };
    (
        Datapath::new(&software, Rc::clone(&strategy)),
        Datapath::new(&hardware, strategy),
        node.runtime(),
    )
}

#[test]
fn long_ranges_leave_as_files_where_the_provider_has_such_sources() {
    let (software, hardware, _) = paths(&World::new(1));
    for (len, engine) in [
        (1, Engine::Static),
        (COPY_FILE_MAX, Engine::Static),
        (COPY_FILE_MAX + 1, Engine::Sendfile),
    ] {
        assert_eq!(software.engine(len), engine, "{len}");
        assert_eq!(hardware.engine(len), Engine::Static, "{len}");
    }
    assert!(software.sends_files() && !hardware.sends_files());
    // There each range is registered for its use, if an operator says so.
    let hardware = hardware.with_engine(Engine::Sendfile).unwrap();
    assert_eq!(hardware.engine(COPY_FILE_MAX + 1), Engine::Sendfile);
    assert!(hardware.sends_files());
}

#[test]
fn a_provider_without_file_sources_waits_for_the_bytes() {
    let world = World::new(1);
    let (software, hardware, runtime) = paths(&world);
    let test = async move {
        let taken = |_| -> Buffer { unreachable!("a long range of a file takes no memory") };
        let long = FileRange {
            file: Arc::new(TestFile {
                bytes: pattern(1000),
                resident: AtomicUsize::new(0),
                step: 1000,
            }),
            offset: 0,
            len: COPY_FILE_MAX + 1,
        };
        assert!(matches!(
            software.ready(&long, &runtime, taken),
            Ready::File
        ));
        let warm = range(1000, 0, 500);
        for path in [&software, &hardware] {
            let Ready::Memory(bytes) = path.ready(&warm, &runtime, Buffer::zeroed) else {
                panic!("it is in the page cache");
            };
            assert_eq!(bytes[..], expected(&warm));
        }
        let cold = range(0, 0, 500);
        let ready = software.ready(&cold, &runtime, Buffer::zeroed);
        assert!(matches!(ready, Ready::File), "the provider can wait");
        for ready in [
            hardware.ready(&cold, &runtime, Buffer::zeroed),
            Datapath::inline(&range(0, 0, 500), &runtime, Buffer::zeroed),
        ] {
            let Ready::Cold(read) = ready else {
                panic!("it is on the disk");
            };
            assert_eq!(read.await.unwrap()[..], expected(&cold));
        }
    };
    world.run(test).unwrap();
}

#[test]
fn parts_of_a_file_keep_their_places() {
    let target = |offset| RemoteAddress {
        key: RemoteKey(7),
        offset,
    };
    let part = |offset, len, at| Part {
        offset,
        len,
        target: target(at),
    };
    let mut writes = Writes::default();
    writes.put_file(&range(1000, 100, 50), [part(0, 20, 5), part(20, 30, 900)]);
    let work: Vec<_> = writes.work.iter().collect();
    let [
        (Source::File { offset, len, .. }, to),
        (Source::File { offset: behind, .. }, last),
    ] = work[..]
    else {
        panic!("two files");
    };
    assert_eq!((*offset, *len, *to), (100, 20, target(5)));
    assert_eq!((*behind, *last), (120, target(900)));
    assert_eq!(writes.memory, 50);
}
