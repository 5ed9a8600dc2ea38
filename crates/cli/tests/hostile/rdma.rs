//! RPC/RDMA clients that have long replies written to Reply chunks, and take none of them.

use crate::attack::serve;
use crate::memory::{HELD_MAX, lasting, watch};
use crate::peer::{Peer, null, readdirplus};
use crate::support::Place;
use gannet_fabric::{
    Access, Backing, ConnectOptions, Provider, Region, Scope, SendOptions, Source, WorkId,
    next_completions,
};
use gannet_iwarp::{IwarpConfig, IwarpProvider};
use gannet_runtime::tokio_plug::block_on;
use gannet_runtime::{Buffer, Handle, sleep};
use gannet_wire::rpcrdma::{ChunkLists, PrivateData, Segment, TransportHeader, TransportProcedure};
use gannet_wire::xdr::Encoder;
use std::rc::Rc;
use std::thread;
use std::time::Duration;

const CONNECTIONS: usize = 40;
/// Calls of each connection: as many as there are credits.
const CALLS: usize = 127;
/// Holds the longest page.
const ROOM: usize = 132 << 10;

fn message(record: &[u8], lists: &ChunkLists) -> Source {
    let header = TransportHeader {
        xid: 1,
        version: 1,
        credits: 128,
        procedure: TransportProcedure::Msg,
    };
    let mut bytes = Vec::new();
    header.emit(&mut Encoder::new(&mut bytes), lists);
    bytes.extend_from_slice(&record[4..]);
    let len = bytes.len() as u32;
    let buffer = Buffer::from_vec(bytes);
    Source::Buffer { buffer, len }
}

/// Asks over many connections, and then has nothing run that could take what comes.
async fn attack(runtime: Handle, target: String, page: Vec<u8>) {
    let provider = IwarpProvider::new(Rc::clone(&runtime), IwarpConfig::default());
    let mut connections = Vec::new();
    for _ in 0..CONNECTIONS {
        let options = ConnectOptions {
            private_data: PrivateData {
                remote_invalidation: false,
                send_size: 4096,
                receive_size: 4096,
            }
            .to_bytes()
            .to_vec(),
            receives: (0..CALLS + 9).map(|_| Buffer::zeroed(4096)).collect(),
            ..ConnectOptions::default()
        };
        let endpoint = provider.connect(target.parse().unwrap(), options).await;
        let endpoint = endpoint.unwrap();
        // The reply to the first call says how many more there may be.
        let null = message(&null(), &ChunkLists::new());
        endpoint
            .post_send(WorkId(1), null, SendOptions::default())
            .unwrap();
        endpoint.flush();
        let mut completions = Vec::new();
        while !completions
            .iter()
            .any(|it: &gannet_fabric::Completion| it.buffer.is_some())
        {
            next_completions(&*endpoint, &mut completions)
                .await
                .unwrap();
        }
        let backing = Backing::Buffer(Buffer::zeroed(ROOM));
        let scope = Scope::Endpoint(endpoint.id());
        let room: Region = (endpoint.domain())
            .register_now(backing, Access::RemoteWrite, scope)
            .unwrap();
        let mut lists = ChunkLists::new();
        lists.set_reply(&[Segment {
            handle: room.remote_key().0,
            length: ROOM as u32,
            offset: room.base(),
        }]);
        for _ in 0..CALLS {
            let call = message(&page, &lists);
            endpoint
                .post_send(WorkId(1), call, SendOptions::default())
                .unwrap();
        }
        endpoint.flush();
        connections.push((endpoint, room));
    }
    sleep(&runtime, Duration::from_millis(100)).await;
    // The whole thread stands still: sockets are not read.
    thread::sleep(lasting());
}

#[test]
fn memory_for_unread_reply_chunks_is_bounded() {
    let place = Place::new();
    let server = serve(&place);
    let page = readdirplus(&Peer::connect(&server.tcp).mount());
    let target = server.rdma.clone();
    let seen = watch(&server, || {
        block_on(|runtime| attack(runtime, target, page)).unwrap();
    });
    assert!(seen.held < HELD_MAX, "{seen:?}");
    assert!(seen.is_served(), "{seen:?}");
}
