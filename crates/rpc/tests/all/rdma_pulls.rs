//! Bounds of the cost of chunks to the server: memory, room in the send queue, and time.

#![allow(clippy::unwrap_used)]

use crate::common;

use common::raw::{Raw, call_bytes, linux, part};
use common::*;
use gannet_fabric::{Access, Provider, Region};
use gannet_rpc::{Client, MemoryInUse, Target};
use gannet_runtime::{FileSource, Handle, sleep, timeout};
use gannet_session::limits::BUDGET_BYTES;
use gannet_sim::fabric::{FabricProfile, SimFabric};
use gannet_sim::{Faults, LinkProfile, NodeId, World};
use gannet_wire::rpcrdma::{ChunkLists, TransportProcedure};
use gannet_wire::xdr::Decoder;
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

struct Lab {
    runtime: Handle,
    provider: Rc<dyn Provider>,
    address: SocketAddr,
    bench: Rc<Bench>,
    faults: Faults,
    nodes: (NodeId, NodeId),
    /// A client on another node.
    other: Client,
}

impl Lab {
    async fn connect(&self) -> Raw {
        Raw::connect(
            &self.runtime,
            &self.provider,
            self.address,
            &linux().to_bytes(),
        )
        .await
    }

    /// A connection that has its credits.
    async fn connect_and_call(&self) -> Raw {
        let raw = self.connect().await;
        raw.earn(gannet_rpc::limits::CREDITS).await;
        raw
    }

    fn memory(&self) -> MemoryInUse {
        self.bench.server.memory_in_use()
    }

    /// Cuts the peers off from the server as soon as it holds so much.
    async fn partition_when(&self, holds: impl Fn(MemoryInUse) -> bool) {
        let limit = self.runtime.now() + Duration::from_secs(1);
        while !holds(self.memory()) {
            assert!(self.runtime.now() < limit, "{:?}", self.memory());
            sleep(&self.runtime, Duration::from_micros(1)).await;
        }
        self.faults.partition(self.nodes.0, self.nodes.1);
    }
}

fn lab<F: Future<Output = ()> + 'static>(test: impl FnOnce(Lab) -> F) {
    lab_over(LinkProfile::default(), test);
}

fn lab_over<F: Future<Output = ()> + 'static>(links: LinkProfile, test: impl FnOnce(Lab) -> F) {
    let world = World::new(12);
    world.set_links(links);
    let (near, far) = (world.add_node("client"), world.add_node("server"));
    let fabric = SimFabric::new(&world, FabricProfile::default());
    let (provider, far_provider) = (fabric.provider(&near), fabric.provider(&far));
    let bench = Rc::new(Bench::new(&far.runtime()));
    let address = bench.listen_rdma(&far_provider, SocketAddr::new(far.ip(), 20049));
    let third = world.add_node("other client");
    let target = Target::Rdma(fabric.provider(&third), address);
    let other = Client::new(third.runtime(), target, config());
    world
        .run(in_time(
            &world,
            test(Lab {
                runtime: near.runtime(),
                provider,
                address,
                bench,
                faults: world.faults(),
                nodes: (near.id(), far.id()),
                other,
            }),
        ))
        .unwrap();
}

/// The reduced arguments of WRITE, and where the opaque belongs in the message.
fn reduced_write(xid: u32, len: usize) -> (Vec<u8>, u32) {
    let bytes = call_bytes(xid, WRITE, |encoder| {
        encoder.u32(0x3333_3333);
        encoder.u32(len as u32);
        encoder.u32(0x4444_4444);
    });
    let position = bytes.len() as u32 - 4;
    (bytes, position)
}

#[test]
fn a_peer_that_never_answers_its_reads_is_dropped() {
    lab(|lab| async move {
        let raw = lab.connect().await;
        let len = 100_000;
        let region = raw.register(pattern(len), Access::RemoteRead);
        let (message, position) = reduced_write(1, len);
        let mut lists = ChunkLists::new();
        lists.push_read(position, part(&region, 0, len));
        raw.send(1, TransportProcedure::Msg, &lists, &message);
        let counters = Arc::clone(&lab.bench.counters);
        while counters.bytes_in.total() < len as u64 {
            sleep(&lab.runtime, Duration::from_micros(1)).await;
        }
        // The Read is on its way, and its answer will never come.
        lab.faults.partition(lab.nodes.0, lab.nodes.1);
        sleep(&lab.runtime, Duration::from_secs(14)).await;
        assert_eq!(counters.drops.total(), 0, "dropped too early");
        sleep(&lab.runtime, Duration::from_secs(2)).await;
        assert_eq!(counters.drops.total(), 1, "it still waits");
        assert_eq!(lab.bench.service.executions(WRITE), 0);
    });
}

#[test]
fn a_call_must_be_read_in_two_minutes_however_steadily_it_comes() {
    // A mebibyte takes 400 s.
    let links = LinkProfile {
        kibibyte_ns: 400_000_000,
        ..LinkProfile::default()
    };
    lab_over(links, |lab| async move {
        let raw = lab.connect_and_call().await;
        // Each Read takes some 6 s, which is no pause.
        let len = 1 << 20;
        let region = raw.register(pattern(len), Access::RemoteRead);
        let (message, position) = reduced_write(2, len);
        let mut lists = ChunkLists::new();
        for index in 0..64 {
            lists.push_read(position, part(&region, index * (len / 64), len / 64));
        }
        let began = lab.runtime.now();
        raw.send(2, TransportProcedure::Msg, &lists, &message);
        let patience = Duration::from_secs(300);
        let over = timeout(&lab.runtime, patience, raw.next()).await;
        assert!(over.expect("it is read for ever").is_err());
        let took = lab.runtime.now() - began;
        assert!((120..123).contains(&took.as_secs()), "{took:?}");
        assert_eq!(lab.bench.counters.drops.total(), 1);
    });
}

/// A long call of ECHO in as many chunks as there may be, each of one segment; only the first one has many bytes.
fn scattered(raw: &Raw, xid: u32, len: usize) -> (ChunkLists, Region) {
    let whole = call_bytes(xid, ECHO, |encoder| encoder.opaque(&pattern(len)));
    let total = whole.len();
    let region = raw.register(whole, Access::RemoteRead);
    let first = total - 63 * 4;
    let mut lists = ChunkLists::new();
    lists.push_read(0, part(&region, 0, first));
    for index in 0..63 {
        let position = first + index * 4;
        lists.push_read(position as u32, part(&region, position, 4));
    }
    (lists, region)
}

#[test]
fn a_call_of_many_small_chunks_holds_no_more_memory_than_one() {
    lab(|lab| async move {
        let raw = lab.connect_and_call().await;
        let before = lab.bench.counters.bytes_in.total();
        let len = 100_000;
        let mut regions = Vec::new();
        for xid in 2..6 {
            let (lists, region) = scattered(&raw, xid, len);
            raw.send(xid, TransportProcedure::Nomsg, &lists, &[]);
            regions.push(region);
        }
        while lab.bench.counters.bytes_in.total() < before + 4 * len as u64 {
            sleep(&lab.runtime, Duration::from_micros(1)).await;
        }
        lab.faults.partition(lab.nodes.0, lab.nodes.1);
        // Some may be done already.
        // Of 128 KiB, the class that holds all of a call.
        let slots = lab.memory().payloads >> 17;
        assert!((1..=4).contains(&slots), "{slots} slots for 4 calls");
    });
}

/// Calls of WRITE with the data in a Read chunk, all of them in the same memory.
fn send_writes(raw: &Raw, xids: std::ops::Range<u32>, len: usize) -> Region {
    let region = raw.register(pattern(len), Access::RemoteRead);
    for xid in xids {
        let (message, position) = reduced_write(xid, len);
        let mut lists = ChunkLists::new();
        lists.push_read(position, part(&region, 0, len));
        raw.send(xid, TransportProcedure::Msg, &lists, &message);
    }
    region
}

#[test]
fn a_connection_holds_its_share_of_payload_memory() {
    // A mebibyte takes 10 ms.
    let links = LinkProfile {
        kibibyte_ns: 10_000,
        ..LinkProfile::default()
    };
    lab_over(links, |lab| async move {
        let raw = lab.connect_and_call().await;
        // A key of its own for each: the answer revokes it.
        let mut regions = Vec::new();
        for xid in 2..102 {
            regions.push(send_writes(&raw, xid..xid + 1, 1 << 20));
        }
        for _ in 0..30 {
            sleep(&lab.runtime, Duration::from_millis(20)).await;
            let held = lab.memory().payloads;
            assert!(
                held <= BUDGET_BYTES / 4 && held > BUDGET_BYTES / 5,
                "{held}"
            );
        }
        for _ in 2..102 {
            let answer = raw.receive().await.unwrap();
            assert_eq!(answer.header.procedure, TransportProcedure::Msg);
        }
        assert_eq!(lab.memory().payloads, 0);
    });
}

#[test]
fn peers_that_answer_no_reads_keep_no_other_peer_from_writing() {
    lab(|lab| async move {
        let mut peers = Vec::new();
        for _ in 0..8 {
            peers.push(lab.connect_and_call().await);
        }
        let regions = peers.iter().map(|raw| send_writes(raw, 2..34, 1 << 20));
        let _regions: Vec<Region> = regions.collect();
        // All that eight connections of one address may have: each as much as all of them leave of its half.
        let theirs = BUDGET_BYTES / 2 * 8 / 9;
        lab.partition_when(|memory| memory.payloads > theirs - (2 << 20))
            .await;
        let in_time = Duration::from_secs(5);
        for _ in 0..3 {
            let written = all((0..20).map(|index| write(&lab.other, 500_000 + index)));
            let written = timeout(&lab.runtime, in_time, written).await;
            let written = written.expect("no memory for it");
            assert!(written.iter().all(|placed| *placed));
        }
    });
}

#[test]
fn long_calls_are_bounded_as_others_are() {
    // A mebibyte takes 100 ms.
    let links = LinkProfile {
        kibibyte_ns: 100_000,
        ..LinkProfile::default()
    };
    lab_over(links, |lab| async move {
        let mut peers = Vec::new();
        for _ in 0..5 {
            let raw = Rc::new(lab.connect_and_call().await);
            // More than a payload: the whole call in one chunk.
            let whole = call_bytes(2, WRITE, |encoder| {
                encoder.u32(0x3333_3333);
                encoder.opaque(&pattern(1 << 20));
                encoder.u32(0x4444_4444);
            });
            let len = whole.len();
            for xid in 2u32..8 {
                let mut whole = whole.clone();
                whole[..4].copy_from_slice(&xid.to_be_bytes());
                let region = raw.register(whole, Access::RemoteRead);
                let mut lists = ChunkLists::new();
                lists.push_read(0, part(&region, 0, len));
                raw.send(xid, TransportProcedure::Nomsg, &lists, &[]);
                peers.push((Rc::clone(&raw), region));
            }
        }
        for _ in 0..4 {
            sleep(&lab.runtime, Duration::from_millis(20)).await;
            let held = lab.memory().payloads;
            assert!(
                held <= BUDGET_BYTES / 2 && held > BUDGET_BYTES / 4,
                "{held}"
            );
        }
        for (raw, _) in &peers {
            let answer = raw.receive().await.unwrap();
            assert_eq!(answer.header.procedure, TransportProcedure::Msg);
        }
        assert_eq!(lab.bench.service.executions(WRITE), 30);
        assert_eq!(lab.memory().payloads, 0);
    });
}

#[test]
fn chunks_of_one_call_come_together_in_order() {
    lab(|lab| async move {
        let raw = lab.connect().await;
        for (xid, len) in [(1, 1000), (2, 2001)] {
            let (lists, _region) = scattered(&raw, xid, len);
            let answer = raw
                .exchange(xid, TransportProcedure::Nomsg, &lists, &[])
                .await;
            // An empty verifier and two words of status before the results.
            let mut results = Decoder::new(answer.message.get(24..).unwrap());
            assert_eq!(results.opaque(len).unwrap(), pattern(len));
        }
    });
}

#[test]
fn reads_wait_for_room_in_the_send_queue() {
    lab(|lab| async move {
        let raw = lab.connect_and_call().await;
        // Far more Reads than a send queue takes, all within the credits.
        let mut regions = Vec::new();
        for xid in 2..102 {
            let (lists, region) = scattered(&raw, xid, 1000);
            raw.send(xid, TransportProcedure::Nomsg, &lists, &[]);
            regions.push(region);
        }
        for _ in 2..102 {
            let answer = raw.receive().await.unwrap();
            assert_eq!(answer.header.procedure, TransportProcedure::Msg);
        }
        assert_eq!(lab.bench.service.executions(ECHO), 100);
    });
}

/// A file of zeros that counts the bytes read of it.
#[derive(Default)]
struct Counted(AtomicUsize);

impl FileSource for Counted {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn try_read_at(&self, _offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.fetch_add(buffer.len(), Ordering::Relaxed);
        Ok(buffer.len())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.try_read_at(offset, buffer)
    }

    fn is_resident(&self, _offset: u64, _len: u64) -> bool {
        true
    }
}

#[test]
fn a_slow_reader_has_few_files_in_memory() {
    const LEN: usize = 1 << 20;
    const CALLS: usize = 64;
    // A mebibyte takes 100 ms.
    let links = LinkProfile {
        kibibyte_ns: 100_000,
        ..LinkProfile::default()
    };
    lab_over(links, |lab| async move {
        let file = Arc::new(Counted::default());
        *lab.bench.service.file.borrow_mut() = Some(file.clone());
        let raw = lab.connect_and_call().await;
        let mut rooms = Vec::new();
        for xid in 2..2 + CALLS as u32 {
            let room = raw.register(vec![1; LEN + 4096], Access::RemoteWrite);
            let mut lists = ChunkLists::new();
            lists.set_reply(&[part(&room, 0, LEN + 4096)]);
            let call = call_bytes(xid, READ_FILE, |encoder| {
                encoder.u64(0);
                encoder.u32(LEN as u32);
            });
            raw.send(xid, TransportProcedure::Msg, &lists, &call);
            rooms.push(room);
        }
        for answered in 0..CALLS {
            let answer = raw.receive().await.unwrap();
            assert_eq!(answer.header.procedure, TransportProcedure::Nomsg);
            let read = file.0.load(Ordering::Relaxed) / LEN;
            // Four in the send queue, and the one that has just left it.
            assert!(read - answered <= 5, "{read} read, {answered} answered");
        }
        assert_eq!(file.0.load(Ordering::Relaxed), CALLS * LEN);
    });
}

#[test]
fn reply_chunks_that_are_slow_to_leave_are_bounded() {
    const LEN: usize = 1 << 20;
    // A mebibyte takes 100 ms.
    let links = LinkProfile {
        kibibyte_ns: 100_000,
        ..LinkProfile::default()
    };
    lab_over(links, |lab| async move {
        let (mut raws, mut peers) = (Vec::new(), Vec::new());
        for _ in 0..8 {
            let raw = lab.connect_and_call().await;
            for xid in 2..66 {
                let room = raw.register(vec![1; LEN + 4096], Access::RemoteWrite);
                let mut lists = ChunkLists::new();
                lists.set_reply(&[part(&room, 0, LEN + 4096)]);
                let call = call_bytes(xid, LONG, |encoder| encoder.u32(LEN as u32));
                raw.send(xid, TransportProcedure::Msg, &lists, &call);
                peers.push(room);
            }
            raws.push(raw);
        }
        sleep(&lab.runtime, Duration::from_millis(200)).await;
        let executed = lab.bench.service.executions(LONG) as usize;
        assert!(
            executed > 20,
            "{executed} executed: the budget was not used"
        );
        assert!(
            executed * LEN <= BUDGET_BYTES / 2 + (8 << 20),
            "{executed} executed"
        );
        let written = timeout(
            &lab.runtime,
            Duration::from_secs(5),
            write(&lab.other, 500_000),
        );
        assert!(written.await.expect("no memory for it"));
    });
}
