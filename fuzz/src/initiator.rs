//! The software RNIC where it connects: whatever the accepting side sends, the connection ends, and each piece of work
//! is done once.

use crate::server::{PATIENCE, read_to_end, write_all};
use gannet_fabric::{
    Access, Backing, Completion, ConnectOptions, Connected, Provider, Region, RemoteAddress,
    RemoteKey, Scope, SendOptions, Signal, Source, Span, WorkId, next_completions,
};
use gannet_iwarp::{IwarpConfig, IwarpProvider};
use gannet_runtime::{Buffer, Handle, stream, timeout};
use gannet_sim::World;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

const PORT: u16 = 7471;
const RECEIVES: u64 = 4;
const RECEIVE_LEN: usize = 256;
/// Bytes of the region that the initiator reads to, and of what it writes and sends.
const LEN: usize = 300;
/// The initiator's work: an RDMA Write, an RDMA Read, a Send. Receives have lower numbers.
const WORK: [WorkId; 3] = [WorkId(100), WorkId(101), WorkId(102)];
const DEPTH: u16 = 4;

/// An input is what the accepting side sends: first the startup frame, then FPDUs.
pub(crate) fn iwarp_initiator(data: &[u8]) {
    let world = World::new(1);
    let [initiator, hostile] = ["initiator", "hostile"].map(|name| world.add_node(name));
    let address = SocketAddr::new(hostile.ip(), PORT);
    let (runtime, data) = (hostile.runtime(), data.to_vec());
    let listener = runtime.listen(address);
    let mut listener = listener.expect("the ports of a new node are free");
    let lying = async move {
        while let Ok(peer) = listener.accept().await {
            let lied = async {
                // It answers what it is asked.
                stream::readable(&*peer).await?;
                write_all(&peer, &data).await?;
                peer.shutdown_write();
                read_to_end(&peer).await
            };
            let _: io::Result<()> = lied.await;
        }
    };
    runtime.spawn("hostile", Box::pin(lying));
    let runtime = initiator.runtime();
    let done = world.run(async move {
        let talk = timeout(&runtime, PATIENCE, talk(&runtime, address));
        assert!(talk.await.is_ok(), "the connection does not end");
    });
    if let Err(stopped) = done {
        panic!("{stopped}");
    }
}

async fn talk(runtime: &Handle, address: SocketAddr) {
    // Without CRCs, so that a mutated frame is more than a frame with a wrong CRC.
    let config = IwarpConfig {
        crc: false,
        ..IwarpConfig::default()
    };
    let provider = IwarpProvider::new(Rc::clone(runtime), config);
    let options = ConnectOptions {
        ord: DEPTH,
        ird: DEPTH,
        exceptions: true,
        receives: (0..RECEIVES).map(|_| Buffer::zeroed(RECEIVE_LEN)).collect(),
        ..ConnectOptions::default()
    };
    let Ok(endpoint) = provider.connect(address, options).await else {
        return;
    };
    let sink = region(&endpoint, Access::Local);
    // The memory that the peer may reach, if it guesses the key.
    let open = region(&endpoint, Access::RemoteReadWrite);
    let posted = post(&endpoint, &sink, open.remote_key());
    let (mut completions, mut done) = (Vec::new(), Vec::new());
    while next_completions(&*endpoint, &mut completions).await.is_ok() {
        note(&mut completions, &mut done);
    }
    note(&mut completions, &mut done);
    assert_eq!(
        done.len(),
        posted,
        "pieces of work that are done, of those posted"
    );
}

fn region(endpoint: &Connected, access: Access) -> Region {
    let memory = Backing::Buffer(Buffer::zeroed(LEN));
    let scope = Scope::Endpoint(endpoint.id());
    let region = endpoint.domain().register_now(memory, access, scope);
    region.expect("an empty table has room")
}

/// Posts one piece of work of each kind; how many were taken.
fn post(endpoint: &Connected, sink: &Region, key: RemoteKey) -> usize {
    let there = RemoteAddress { key, offset: 0 };
    let source = || Source::Buffer {
        buffer: Buffer::zeroed(LEN),
        len: LEN as u32,
    };
    let sink = Span::whole(sink).expect("a sink is short");
    let always = SendOptions {
        signal: Signal::Always,
        ..SendOptions::default()
    };
    let [write, read, send] = WORK;
    let posted = [
        endpoint.post_write(write, source(), there, Signal::Always),
        endpoint.post_read(read, sink, there),
        endpoint.post_send(send, source(), always),
    ];
    endpoint.flush();
    posted.iter().filter(|it| it.is_ok()).count()
}

/// Takes note of own work that is done, well or not, of each piece once.
fn note(completions: &mut Vec<Completion>, done: &mut Vec<WorkId>) {
    for completion in completions.drain(..) {
        if WORK.contains(&completion.id) {
            assert!(!done.contains(&completion.id), "done twice");
            done.push(completion.id);
        }
    }
}
