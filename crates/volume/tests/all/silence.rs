//! Peers that fall silent during a transfer: no other peer waits for them for ever or keeps memory for them. The tests
//! use byte streams, which report the loss of a peer only after a send.
#![allow(clippy::unwrap_used)]

use gannet_dst::volume::{Bed, Carrier};
use gannet_runtime::{Buffer, Handle, both, sleep, timeout};
use gannet_sim::{Crash, Faults, LinkProfile, Node, World};
use gannet_vfs::{CreateMode, Credentials, FileHandle, SetAttributes, Stability, Status, Vfs};
use gannet_volume::client::{TransferPolicy, VolumeFs};
use gannet_volume::limits::{
    CALL_DEADLINE, CREDITS, FETCH_AGE_MAX, OPERATION_DEADLINE, READ_DEADLINE, SIZE_DEADLINE,
    SLAB_LEN_MAX, SLABS_MAX, SMALL_MAX,
};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::oneshot;

const UNIT: u32 = 1 << 20;
const LEN: usize = 400_000;
/// The latency from one machine to another.
const LATENCY: Duration = Duration::from_micros(100);

/// The policies of long transfers under test.
const POLICIES: [TransferPolicy; 2] = [by(false), by(true)];

const fn by(client_driven: bool) -> TransferPolicy {
    TransferPolicy {
        inline_max: 0,
        eager_max: 0,
        client_driven,
    }
}

fn root() -> Credentials {
    Credentials::new(0, 0, &[])
}

/// A volume whose links have latency and a limited rate.
fn bed(world: &World) -> Rc<Bed> {
    bed_of(world, 1)
}

/// With two I/O servers, the manager's term goes on when one of them is away.
fn bed_of(world: &World, servers: usize) -> Rc<Bed> {
    world.set_links(LinkProfile {
        latency_ns: LATENCY.as_nanos() as u64,
        kibibyte_ns: 1000,
        ..LinkProfile::default()
    });
    Rc::new(Bed::new(world, Carrier::iwarp(), servers, UNIT))
}

/// Creates the file, or opens it.
async fn file(fs: &VolumeFs) -> FileHandle {
    let how = CreateMode::Unchecked(SetAttributes::default());
    let made = fs.create(&root(), &fs.root(), b"file", &how).await;
    made.result.unwrap().handle
}

async fn write(fs: &VolumeFs, file: &FileHandle, len: usize) -> Result<(), Status> {
    write_at(fs, file, 0, len).await
}

async fn write_at(fs: &VolumeFs, file: &FileHandle, offset: u64, len: usize) -> Result<(), Status> {
    let (caller, data) = (root(), Buffer::from_vec(vec![7; len]));
    let written = fs.write(&caller, file, offset, data, 0..len, Stability::Unstable);
    written.await.result.map(|_| ())
}

async fn read(fs: &VolumeFs, file: &FileHandle) -> Result<(), Status> {
    fs.read(&root(), file, 0, LEN as u32).await.map(|_| ())
}

/// Starts a READ or WRITE on an I/O server, which loses power after this time and never returns. Returns whether the
/// transfer succeeded; it must end in any case.
fn lose_the_server(policy: TransferPolicy, writes: bool, after: Duration) -> bool {
    let world = World::new(1);
    let (bed, node) = (bed(&world), world.add_node("client"));
    let done = world.run(async move {
        bed.start();
        let (runtime, fs) = (node.runtime(), bed.mount(&node).with_policy(policy));
        let file = file(&fs).await;
        write(&fs, &file, LEN).await.unwrap();
        let transfer = async {
            if writes {
                write(&fs, &file, LEN).await
            } else {
                read(&fs, &file).await
            }
        };
        let lights_out = async {
            sleep(&runtime, after).await;
            bed.kill_io_server(0, Crash::Power);
        };
        let patience = CALL_DEADLINE + OPERATION_DEADLINE + Duration::from_secs(15);
        let (done, ()) = both(timeout(&runtime, patience, transfer), lights_out).await;
        done.unwrap_or_else(|_| panic!("lost after {after:?}: it is waited for for ever"))
    });
    done.unwrap().is_ok()
}

#[test]
fn a_server_that_falls_silent_is_waited_for_a_while_at_any_moment() {
    for policy in POLICIES {
        for writes in [false, true] {
            let moments = (0..).map(|step| Duration::from_micros(100 * step));
            let lost = moments.take_while(|after| !lose_the_server(policy, writes, *after));
            assert!(lost.count() > 3, "the transfer takes longer than that");
        }
    }
}

/// A manager loses power. Its callers give up before they can distinguish silence from slowness. The connection must
/// end all the same.
#[test]
fn a_silent_manager_is_detected_when_all_callers_give_up_early() {
    let world = World::new(1);
    let (bed, node, faults) = (bed(&world), world.add_node("client"), world.faults());
    let done = world.run(async move {
        bed.start();
        let (runtime, fs) = (node.runtime(), bed.mount(&node));
        let found = file(&fs).await;
        bed.kill_manager(Crash::Power);
        faults.sleep(Duration::from_secs(1)).await;
        for _ in 0..20 {
            let asking = fs.attributes(&found);
            let gone = timeout(&runtime, Duration::from_secs(2), asking).await;
            assert!(gone.is_err(), "nobody answers");
        }
        fs.cause(Status::Jukebox)
    });
    assert!(done.unwrap().is_some(), "nobody has noticed");
}

/// An I/O server loses power, and a client asks the manager for the length of its file. The manager must answer with
/// an error before the client takes the manager itself for silent. Otherwise the client would end the connection with
/// all its other requests.
#[test]
fn a_manager_that_waits_for_a_silent_server_is_not_silent() {
    let world = World::new(1);
    let (bed, node, faults) = (bed_of(&world, 2), world.add_node("client"), world.faults());
    let done = world.run(async move {
        bed.start();
        let (runtime, fs) = (node.runtime(), bed.mount(&node));
        let found = file(&fs).await;
        write(&fs, &found, LEN).await.unwrap();
        fs.attributes(&found).await.unwrap();
        bed.kill_io_server(0, Crash::Power);
        faults.sleep(Duration::from_secs(1)).await;
        for _ in 0..2 {
            let asking = fs.attributes(&found);
            let asked = timeout(&runtime, CALL_DEADLINE + SIZE_DEADLINE, asking).await;
            assert_eq!(asked.map(Result::err), Ok(Some(Status::Jukebox)));
        }
        fs.attributes(&fs.root()).await.unwrap();
        fs.reconnects()
    });
    assert_eq!(done.unwrap(), 0, "the manager was cut off");
}

/// An I/O server loses power. A client requests the attributes of its file again and again, with more requests than it
/// may have under way. Other requests to the manager do not wait once the first wait was in vain. The attributes are
/// available soon after the server.
#[test]
fn a_silent_server_is_not_waited_for_with_every_question() {
    let world = World::new(1);
    let (bed, node, faults) = (bed_of(&world, 2), world.add_node("client"), world.faults());
    let done = world.run(async move {
        bed.start();
        let (runtime, fs) = (node.runtime(), Rc::new(bed.mount(&node)));
        let found = file(&fs).await;
        write(&fs, &found, LEN).await.unwrap();
        bed.kill_io_server(0, Crash::Power);
        let is_back = Rc::new(Cell::new(false));
        for _ in 0..2 * CREDITS {
            let (fs, is_back) = (Rc::clone(&fs), Rc::clone(&is_back));
            let looking = async move {
                while !is_back.get() {
                    let _ = fs.attributes(&found).await;
                }
            };
            runtime.spawn("look", Box::pin(looking));
        }
        faults.sleep(SIZE_DEADLINE + Duration::from_secs(2)).await;
        let mut slowest = Duration::ZERO;
        for _ in 0..100 {
            let began = runtime.now();
            fs.attributes(&fs.root()).await.unwrap();
            slowest = slowest.max(runtime.now().duration_since(began));
            faults.sleep(Duration::from_millis(70)).await;
        }
        faults.restart(bed.io_servers[0].node.id());
        bed.start_io_server(0);
        // The manager finds that the old connection has ended.
        let (began, again) = (runtime.now(), bed.mount(&node));
        again.attributes(&found).await.unwrap();
        is_back.set(true);
        (slowest, runtime.now().duration_since(began))
    });
    let (slowest, back) = done.unwrap();
    assert!(slowest < Duration::from_secs(1), "{slowest:?}");
    assert!(back < Duration::from_secs(1), "{back:?}");
}

/// One more client requests a long WRITE, and loses power while the server requests the bytes.
async fn lose_a_client(faults: &Faults, bed: &Rc<Bed>, node: Node) {
    let (runtime, id, bed) = (node.runtime(), node.id(), Rc::clone(bed));
    let (asks, asked) = oneshot::channel();
    let asking = async move {
        let fs = bed.mount(&node).with_policy(by(false));
        let file = file(&fs).await;
        // The client is connected by then, and may write.
        write(&fs, &file, 1).await.unwrap();
        asks.send(()).unwrap();
        write(&fs, &file, 2 * SLAB_LEN_MAX).await.unwrap();
    };
    runtime.spawn("victim", Box::pin(asking));
    asked.await.unwrap();
    faults.sleep(LATENCY * 3 / 2).await;
    faults.crash(id, Crash::Power);
    // The client's turn in the scheduler ends meanwhile.
    faults.sleep(Duration::from_secs(1)).await;
}

#[test]
fn clients_that_fall_silent_do_not_keep_the_memory_for_writes() {
    let world = World::new(1);
    let (bed, node, faults) = (bed(&world), world.add_node("client"), world.faults());
    // More clients than the memory serves.
    let victims = 8 * SLABS_MAX / SLAB_LEN_MAX;
    let victims: Vec<Node> = (0..victims).map(|_| world.add_node("victim")).collect();
    let done = world.run(async move {
        bed.start();
        for victim in victims {
            lose_a_client(&faults, &bed, victim).await;
        }
        faults.sleep(READ_DEADLINE).await;
        let fs = bed.mount(&node).with_policy(by(false));
        let file = file(&fs).await;
        write(&fs, &file, 2 * SLAB_LEN_MAX).await
    });
    assert_eq!(done.unwrap(), Ok(()));
}

/// Clients lose power together, each with as many short WRITEs under way as it may have. They hold all the memory for
/// WRITEs. A later client does not wait until the server gives all of them up.
#[test]
fn writes_of_dead_clients_make_room_for_others() {
    let world = World::new(1);
    let (bed, node, faults) = (bed(&world), world.add_node("client"), world.faults());
    let victims = 2 * SLABS_MAX / (SMALL_MAX as usize * CREDITS as usize);
    let victims: Vec<Node> = (0..victims).map(|_| world.add_node("victim")).collect();
    let done = world.run(async move {
        bed.start();
        let (runtime, mut ready) = (node.runtime(), Vec::new());
        let fs = bed.mount(&node).with_policy(by(false));
        let file = file(&fs).await;
        write(&fs, &file, 1).await.unwrap();
        for victim in &victims {
            let (asks, asked) = oneshot::channel();
            let asking = ask_for_short_writes(bed.mount(victim), victim.runtime(), asks);
            victim.runtime().spawn("victim", Box::pin(asking));
            ready.push(asked.await.unwrap());
        }
        // All send their requests together, and lose power before their bytes have come.
        ready.into_iter().for_each(|go| go.send(()).unwrap());
        faults.sleep(LATENCY * 3 / 2).await;
        victims
            .iter()
            .for_each(|it| faults.crash(it.id(), Crash::Power));
        // Their turns in the scheduler end, one after the other.
        faults.sleep(Duration::from_secs(4)).await;
        let began = runtime.now();
        let written = write(&fs, &file, 2 * SLAB_LEN_MAX).await;
        (written, runtime.now().duration_since(began))
    });
    let (written, lasted) = done.unwrap();
    assert_eq!(written, Ok(()));
    assert!(lasted < FETCH_AGE_MAX, "{lasted:?}");
}

/// Requests as many WRITEs as a connection may have, after a signal.
async fn ask_for_short_writes(
    fs: VolumeFs,
    runtime: Handle,
    asks: oneshot::Sender<oneshot::Sender<()>>,
) {
    let fs = Rc::new(fs.with_policy(by(false)));
    let file = file(&fs).await;
    write(&fs, &file, 1).await.unwrap();
    let (go, told) = oneshot::channel();
    asks.send(go).unwrap();
    told.await.unwrap();
    for index in 0..u64::from(CREDITS) {
        let (fs, file) = (Rc::clone(&fs), file);
        let writing =
            async move { _ = write_at(&fs, &file, index * SMALL_MAX, SMALL_MAX as usize).await };
        runtime.spawn("short write", Box::pin(writing));
    }
}

/// The process of an I/O server dies. Files without bytes on it are read as before. What needs it is waited for in
/// full once; from then on such operations fail soon, until the server is back.
#[test]
fn a_dead_server_is_waited_for_once_and_other_files_go_on() {
    let world = World::new(1);
    world.set_links(LinkProfile::default());
    let bed = Rc::new(Bed::new(&world, Carrier::iwarp(), 3, UNIT));
    let (node, faults) = (world.add_node("client"), world.faults());
    let done = world.run(async move {
        bed.start();
        let runtime = node.runtime();
        let fs = bed
            .mount(&node)
            .patient(OPERATION_DEADLINE)
            .without_attributes();
        // Their only bytes are in the first stripe: each has them on another server.
        let mut files = Vec::new();
        for name in [&b"one"[..], b"two", b"three"] {
            let how = CreateMode::Guarded(SetAttributes::default());
            let made = fs.create(&root(), &fs.root(), name, &how).await;
            let file = made.result.unwrap().handle;
            write(&fs, &file, 1000).await.unwrap();
            let synced = fs.commit(&root(), &file, 0, 0).await;
            synced.result.unwrap();
            fs.attributes(&file).await.unwrap();
            files.push(file);
        }
        let three = fs.usage(&fs.root()).await.unwrap();
        bed.kill_io_server(1, Crash::Process);
        faults.sleep(Duration::from_secs(1)).await;
        let took = async |file: &FileHandle| {
            let began = runtime.now();
            let outcome = fs.read(&root(), file, 0, 1000).await;
            (outcome.is_ok(), runtime.now() - began)
        };
        let began = runtime.now();
        let two = fs.usage(&fs.root()).await.unwrap();
        assert!(runtime.now() - began <= Duration::from_secs(2));
        assert_eq!(
            two.bytes_total * 3,
            three.bytes_total * 2,
            "of the two that are there"
        );
        let mut dead = Vec::new();
        for file in &files {
            match took(file).await {
                (true, took) => assert!(took < Duration::from_secs(1), "{took:?}"),
                (false, took) => dead.push((*file, took)),
            }
        }
        let [(dead, first)] = dead[..] else {
            panic!("one file is on each server: {dead:?}");
        };
        assert!(first >= OPERATION_DEADLINE, "{first:?}");
        let soon = Duration::from_secs(2);
        for _ in 0..3 {
            let (is_read, took) = took(&dead).await;
            assert!(!is_read && took <= soon, "{took:?}");
            let began = runtime.now();
            assert_eq!(fs.attributes(&dead).await.err(), Some(Status::Jukebox));
            assert!(runtime.now() - began <= soon);
        }
        assert!(fs.cause(Status::Jukebox).is_some());
        faults.restart(bed.io_servers[1].node.id());
        bed.start_io_server(1);
        faults.sleep(Duration::from_secs(3)).await;
        assert!(took(&dead).await.0);
        // It is waited for in full again.
        bed.kill_io_server(1, Crash::Process);
        faults.sleep(Duration::from_secs(1)).await;
        let (is_read, again) = took(&dead).await;
        assert!(!is_read && again >= OPERATION_DEADLINE, "{again:?}");
    });
    done.unwrap();
}
