//! A client connects to all servers that it needs at once. The tests use byte streams, whose set-up takes round trips.
#![allow(clippy::unwrap_used)]

use crate::common;

use common::{noise, read, root, write};
use gannet_dst::volume::{Bed, Carrier};
use gannet_runtime::sleep;
use gannet_sim::{Crash, LinkProfile, World};
use gannet_vfs::{CreateMode, SetAttributes, Vfs};
use gannet_volume::limits::HELLO_DEADLINE;
use std::time::Duration;

const UNIT: u32 = 4096;
const LATENCY: Duration = Duration::from_millis(10);
const ROUND_TRIP: Duration = Duration::from_millis(20);

/// A world with [`LATENCY`] on its links, and a volume that is started.
fn started(servers: usize) -> (World, Bed) {
    let world = World::new(1);
    world.set_links(LinkProfile {
        latency_ns: LATENCY.as_nanos() as u64,
        jitter_ns: 0,
        kibibyte_ns: 0,
        reslice_per_mille: 0,
        ..LinkProfile::default()
    });
    let bed = Bed::new(&world, Carrier::iwarp(), servers, UNIT);
    bed.start();
    (world, bed)
}

/// How long a new client's first contact with all I/O servers takes: the question for their addresses, and a read of
/// a file with stripes on all of them.
fn first_contacts(servers: usize) -> (Duration, Duration) {
    let (world, bed) = started(servers);
    let nodes = ["writer", "asker", "reader"].map(|name| world.add_node(name));
    let outcome = world.run(async move {
        let [writer, asker, reader] = nodes.each_ref().map(|node| bed.mount(node));
        let how = CreateMode::Guarded(SetAttributes::default());
        let made = writer.create(&root(), &writer.root(), b"file", &how).await;
        let file = made.result.unwrap().handle;
        let bytes = noise(servers * UNIT as usize, 1);
        write(&writer, &file, 0, &bytes).await.unwrap();
        writer.commit(&root(), &file, 0, 0).await.result.unwrap();
        let runtime = nodes[0].runtime();
        for fs in [&asker, &reader] {
            assert_eq!(fs.volume().await.unwrap().servers.len(), servers);
        }
        let began = runtime.now();
        let reached = asker.io_servers().await.unwrap();
        assert!(reached.len() == servers && reached.iter().all(Result::is_ok));
        let asked = runtime.now() - began;
        let began = runtime.now();
        assert!(read(&reader, &file, 0, bytes.len()).await == bytes);
        (asked, runtime.now() - began)
    });
    outcome.unwrap()
}

#[test]
fn many_servers_are_reached_as_soon_as_one() {
    let (asked_one, read_one) = first_contacts(1);
    let (asked, read) = first_contacts(8);
    assert!(asked <= asked_one + ROUND_TRIP, "{asked:?}, {asked_one:?}");
    assert!(read <= read_one + ROUND_TRIP, "{read:?}, {read_one:?}");
    // The stream and the startup frames.
    assert_eq!(asked_one, 2 * ROUND_TRIP);
}

/// Two of four servers accept no connection and refuse none. Both are waited for at the same time.
#[test]
fn dead_servers_delay_no_others_and_are_named() {
    let (world, bed) = started(4);
    let client = world.add_node("client");
    let outcome = world.run(async move {
        let (fs, runtime) = (bed.mount(&client), client.runtime());
        // By then all of them have registered.
        sleep(&runtime, Duration::from_secs(1)).await;
        fs.volume().await.unwrap();
        let dead = [0, 2];
        for number in dead {
            let server = &bed.io_servers[number].node;
            bed.faults().partition(client.id(), server.id());
        }
        let began = runtime.now();
        let reached = fs.io_servers().await.unwrap();
        let took = runtime.now() - began;
        assert!(took <= HELLO_DEADLINE + 2 * ROUND_TRIP, "{took:?}");
        for (number, reached) in reached.iter().enumerate() {
            let address = bed.io_servers[number].node.ip().to_string();
            match reached {
                Ok(found) => assert!(!dead.contains(&number) && found.ip().to_string() == address),
                Err(error) => {
                    let error = error.to_string();
                    assert!(
                        dead.contains(&number) && error.contains(&address),
                        "{error}"
                    );
                }
            }
        }
    });
    outcome.unwrap();
}

/// One server is silent. The others accept connections, fail a few seconds later, and would be silent to a second
/// attempt: none is made when their turn comes, after the first one.
#[test]
fn servers_that_fail_while_another_is_waited_for_are_not_tried_again() {
    let (world, bed) = started(4);
    let client = world.add_node("client");
    let outcome = world.run(async move {
        let (fs, runtime) = (bed.mount(&client), client.runtime());
        let faults = bed.faults();
        // By then all of them have registered.
        sleep(&runtime, Duration::from_secs(1)).await;
        fs.volume().await.unwrap();
        let servers: Vec<_> = bed.io_servers.iter().map(|it| it.node.id()).collect();
        faults.partition(client.id(), servers[0]);
        servers[1..].iter().for_each(|it| faults.freeze(*it));
        let (late, at) = (runtime.clone(), client.id());
        let failing = Box::pin(async move {
            sleep(&late, Duration::from_secs(3)).await;
            servers[1..]
                .iter()
                .for_each(|it| faults.crash(*it, Crash::Process));
            // The ends of the connections have come by then.
            sleep(&late, ROUND_TRIP).await;
            servers[1..].iter().for_each(|it| faults.partition(at, *it));
        });
        runtime.spawn("faults", failing);
        let began = runtime.now();
        let reached = fs.io_servers().await.unwrap();
        let took = runtime.now() - began;
        assert!(took <= HELLO_DEADLINE + 2 * ROUND_TRIP, "{took:?}");
        assert!(reached.len() == 4 && reached.iter().all(Result::is_err));
    });
    outcome.unwrap();
}
