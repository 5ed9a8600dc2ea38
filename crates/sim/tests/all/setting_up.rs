//! How long the software RNIC takes to set a connection up, in virtual time.

#![allow(clippy::unwrap_used)]

use gannet_fabric::{
    ConnectOptions, Connected, Done, Provider, SendOptions, Source, WorkId, next_completions,
};
use gannet_iwarp::{IwarpConfig, IwarpProvider};
use gannet_runtime::stream::{Follow, readable, writable};
use gannet_runtime::{Buffer, Handle, Stream, timeout};
use gannet_sim::{LinkProfile, Node, World};
use std::io::IoSlice;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

const LATENCY: Duration = Duration::from_micros(100);

/// Two nodes with [`LATENCY`] between them, and the far one's address.
fn nodes(world: &World) -> (Node, Node, SocketAddr) {
    world.set_links(LinkProfile {
        latency_ns: 100_000,
        jitter_ns: 0,
        kibibyte_ns: 0,
        window: 1 << 20,
        reslice_per_mille: 0,
    });
    let (near, far) = (world.add_node("near"), world.add_node("far"));
    let address = SocketAddr::new(far.ip(), 20_049);
    (near, far, address)
}

fn provider(node: &Node) -> Rc<IwarpProvider> {
    IwarpProvider::new(node.runtime(), IwarpConfig::default())
}

fn options(exceptions: bool) -> ConnectOptions {
    ConnectOptions {
        receives: vec![Buffer::zeroed(100)].into(),
        exceptions,
        ..ConnectOptions::default()
    }
}

fn post(endpoint: &Connected) {
    let source = Source::Buffer {
        buffer: Buffer::zeroed(8),
        len: 8,
    };
    let options = SendOptions::default();
    endpoint.post_send(WorkId(1), source, options).unwrap();
    endpoint.flush();
}

async fn receive(endpoint: &Connected) {
    let mut completions = Vec::new();
    loop {
        let came = next_completions(&**endpoint, &mut completions);
        came.await.unwrap();
        let mut outcomes = completions.drain(..).map(|completion| completion.outcome);
        if outcomes.any(|outcome| matches!(outcome, Ok(Done::Received { .. }))) {
            return;
        }
    }
}

/// The time from the call of connect to the first reply.
fn first_reply_after(exceptions: bool) -> Duration {
    let world = World::new(1);
    let (near, far, address) = nodes(&world);
    let outcome = world.run(async move {
        let (runtime, serving) = (near.runtime(), provider(&far));
        let mut listener = serving.listen(address).unwrap();
        let answering = Box::pin(async move {
            let incoming = listener.accept().await.unwrap();
            let endpoint = incoming.accept(options(exceptions)).await.unwrap();
            receive(&endpoint).await;
            post(&endpoint);
            std::future::pending::<()>().await;
        });
        far.runtime().spawn("responder", answering);
        let began = runtime.now();
        let connecting = provider(&near).connect(address, options(exceptions));
        let endpoint = connecting.await.unwrap();
        post(&endpoint);
        receive(&endpoint).await;
        runtime.now() - began
    });
    outcome.unwrap()
}

#[test]
fn our_own_ends_wait_for_round_trips_alone() {
    // The stream, the startup frames, the call and its reply.
    let round_trips = LATENCY * 2 * 3;
    for exceptions in [false, true] {
        let took = first_reply_after(exceptions);
        assert!(
            took <= round_trips + LATENCY,
            "{took:?}, exceptions {exceptions}"
        );
    }
}

async fn read(stream: &Stream, len: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while bytes.len() < len {
        readable(&**stream).await.unwrap();
        let mut space = vec![0; len - bytes.len()];
        if let Ok(count) = stream.try_read(&mut space) {
            assert!(count > 0, "the stream ended");
            bytes.extend_from_slice(&space[..count]);
        }
    }
    bytes
}

async fn write(stream: &Stream, bytes: &[u8]) {
    writable(&**stream).await.unwrap();
    let sent = stream.try_write(&[IoSlice::new(bytes)], Follow::Nothing);
    assert_eq!(sent.unwrap(), bytes.len());
}

/// Accepts a connection as Linux's siw does if it loses the race, and replies to what comes with `answer` alone.
/// Returns when FPDUs came, counted from the first one.
async fn deaf_responder(runtime: Handle, address: SocketAddr, answer: &[u8]) -> Vec<Duration> {
    let mut listener = runtime.listen(address).unwrap();
    let stream = listener.accept().await.unwrap();
    let mut reply = read(&stream, 24).await;
    // The key is `MPA ID Rep Frame`.
    reply[9] = b'p';
    write(&stream, &reply).await;
    let message_len = 2 + 18 + 8 + 4;
    read(&stream, message_len).await;
    let first = runtime.now();
    if !answer.is_empty() {
        write(&stream, answer).await;
    }
    let mut times = Vec::new();
    let write_len = 2 + 14 + 4;
    let patience = Duration::from_secs(30);
    while timeout(&runtime, patience, read(&stream, write_len))
        .await
        .is_ok()
    {
        times.push(runtime.now() - first);
    }
    times
}

/// How long after the first message FPDUs come to a responder that replies with `answer`, in milliseconds.
fn nudges_after(answer: &'static [u8]) -> Vec<u128> {
    let world = World::new(2);
    let (near, far, address) = nodes(&world);
    let outcome = world.run(async move {
        let (sender, times) = tokio::sync::oneshot::channel();
        let responder = deaf_responder(far.runtime(), address, answer);
        let responding = Box::pin(async move { sender.send(responder.await).unwrap() });
        far.runtime().spawn("responder", responding);
        let connecting = provider(&near).connect(address, options(false));
        let endpoint = connecting.await.unwrap();
        post(&endpoint);
        times.await.unwrap()
    });
    outcome.unwrap().iter().map(Duration::as_millis).collect()
}

#[test]
fn a_responder_that_lost_the_race_is_woken_soon_and_again() {
    assert_eq!(nudges_after(b""), [5, 25, 105, 425, 1705]);
}

/// A byte shows that the responder is awake, long before the FPDU of which it is the first one is whole.
#[test]
fn a_responder_that_answers_in_pieces_is_not_woken() {
    assert_eq!(nudges_after(&[0]), [0; 0]);
}
