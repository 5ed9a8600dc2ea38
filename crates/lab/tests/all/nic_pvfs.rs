//! The machines of PVFS over InfiniBand do what the paper measured of primitive operations: nothing else was used to
//! choose their constants.
#![allow(clippy::unwrap_used)]

use crate::pair;

use gannet_fabric::{Access, Region, RemoteAddress, Scope, Signal, Source, Span};
use gannet_lab::profiles::PVFS_IB;
use gannet_runtime::stream::{Follow, readable, writable};
use gannet_runtime::{Buffer, ByteStream};
use gannet_sim::World;
use gannet_sim::nic::{Activity, Host};
use pair::{End, WORK, address_of, half_ping_pong, read_rate, with_pair, write_rate};
use std::io::IoSlice;
use std::net::SocketAddr;

/// The paper's megabyte.
const MB: f64 = 1_048_576.0;

fn close(simulated: f64, published: f64, share: f64) {
    let off = (simulated / published - 1.0).abs();
    assert!(off <= share, "{simulated} where the paper has {published}");
}

/// Four bytes here, and the address of four there; the last is what keeps them there.
fn four_bytes(near: &End, far: &End) -> (Span, RemoteAddress, Region) {
    let (here, there) = (
        near.register(1, Access::Local),
        far.register(1, Access::RemoteReadWrite),
    );
    let span = Span {
        region: here,
        offset: 0,
        len: 4,
    };
    (span, address_of(&there, 0), there)
}

#[test]
fn messages_writes_and_reads_take_what_table_2_says() {
    let polled = PVFS_IB.bare_verbs();
    close(half_ping_pong(&polled) as f64, 9_200.0, 0.02);
    let written = with_pair(&polled, move |near, far| async move {
        let (here, there, _held) = four_bytes(&near, &far);
        let starts = near.now();
        let source = Source::Span(here.clone());
        near.endpoint
            .post_write(WORK, source, there, Signal::Always)
            .unwrap();
        near.endpoint.flush();
        near.completions().await;
        // Its completion is reported when the acknowledgement is back.
        let taking = polled.adapter.completion_ns.value;
        near.now() - starts - polled.link.latency_ns.value - taking
    });
    close(written as f64, 6_000.0, 0.02);
    let read = with_pair(&polled, |near, far| async move {
        let (here, there, _held) = four_bytes(&near, &far);
        let starts = near.now();
        near.endpoint.post_read(WORK, here.clone(), there).unwrap();
        near.endpoint.flush();
        near.completions().await;
        near.now() - starts
    });
    close(read as f64, 12_400.0, 0.02);
    close(write_rate(&polled, 1 << 20, 100, 4) * 1e6 / MB, 827.0, 0.02);
    close(read_rate(&polled, 64 << 10) * 1e6 / MB, 816.0, 0.02);
}

#[test]
fn registering_takes_what_section_5_says() {
    let polled = PVFS_IB.bare_verbs();
    for (pages, count, published) in [(1, 100, 12_400_000.0), (100, 1, 530_000.0)] {
        let took = with_pair(&polled, move |near, _far| async move {
            let starts = near.now();
            for _ in 0..count {
                let region = near.register(pages, Access::RemoteWrite);
                drop(region.deregister());
            }
            near.now() - starts
        });
        close(took as f64, published, 0.03);
    }
}

#[test]
fn memory_that_stays_registered_costs_nothing_more() {
    with_pair(&PVFS_IB, |near, _far| async move {
        let backing = gannet_fabric::Backing::Buffer(Buffer::zeroed(8192));
        let domain = near.provider.domain();
        let region = domain.register_now(backing, Access::Local, Scope::Domain);
        let before = near.host.usage().of(Activity::Registration).busy_ns;
        assert!(before > 0 && region.unwrap().is_valid());
        near.now();
        assert_eq!(near.host.usage().of(Activity::Registration).busy_ns, before);
    });
}

/// Fills `buffer` from a stream.
async fn fill(stream: &dyn ByteStream, buffer: &mut [u8]) {
    let mut filled = 0;
    while filled < buffer.len() {
        readable(stream).await.unwrap();
        if let Ok(count) = stream.try_read(&mut buffer[filled..]) {
            assert!(count > 0, "the stream ended");
            filled += count;
        }
    }
}

async fn push(stream: &dyn ByteStream, bytes: &[u8]) {
    let mut rest = bytes;
    while !rest.is_empty() {
        writable(stream).await.unwrap();
        if let Ok(count) = stream.try_write(&[IoSlice::new(rest)], Follow::Nothing) {
            rest = &rest[count..];
        }
    }
}

/// Nanoseconds of `count` times `len` bytes over a stream, each answered by `answer` bytes.
fn over_tcp(len: usize, answer: usize, count: u64) -> u64 {
    let world = World::new(3);
    let nodes = ["near", "far"].map(|name| {
        let node = world.add_node(name);
        Host::install(&node, &PVFS_IB);
        node
    });
    let [near, far] = nodes;
    let address = SocketAddr::new(far.ip(), 1);
    let (runtime, far_runtime) = (near.runtime(), far.runtime());
    let done = world.run(async move {
        let mut listener = far_runtime.listen(address).unwrap();
        let answering = async move {
            let stream = listener.accept().await.unwrap();
            let mut buffer = vec![0; len];
            loop {
                fill(&*stream, &mut buffer).await;
                push(&*stream, &vec![1; answer]).await;
            }
        };
        far.runtime().spawn("answering", Box::pin(answering));
        let asking = async move {
            let stream = runtime.connect(address).await.unwrap();
            let (bytes, mut reply) = (vec![7; len], vec![0; answer]);
            let starts = runtime.now().as_nanos();
            for _ in 0..count {
                push(&*stream, &bytes).await;
                fill(&*stream, &mut reply).await;
            }
            runtime.now().as_nanos() - starts
        };
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let task = async move {
            let took = asking.await;
            sender.send(took).unwrap();
        };
        near.runtime().spawn("asking", Box::pin(task));
        receiver.await.unwrap()
    });
    done.unwrap()
}

#[test]
fn tcp_takes_what_table_2_says() {
    close(over_tcp(4, 4, 100) as f64 / 200.0, 40_100.0, 0.03);
    let took = over_tcp(32 << 20, 1, 1);
    close(32.0 * 1e9 / took as f64, 185.0, 0.03);
}
