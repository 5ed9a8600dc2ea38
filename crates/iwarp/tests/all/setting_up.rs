//! An initiator sends its first message at once, and wakes a responder that has missed it, as Linux's siw may.

#![allow(clippy::unwrap_used)]

use crate::hostile::{
    address, bytes_of, config, frame, read_exactly, read_to_end, write, zero_length_write,
};
use gannet_fabric::{
    ConnectOptions, Connected, Done, Provider, SendOptions, Source, WorkId, next_completions,
};
use gannet_iwarp::{AcceptRace, IwarpConfig, IwarpProvider, Revision};
use gannet_runtime::tokio_plug::block_on;
use gannet_runtime::{
    BlockingJob, Buffer, Handle, Instant, Listener, LocalFuture, Runtime, Stream,
};
use gannet_wire::mpa::{Enhanced, FrameKind, StartupFrame};
use gannet_wire::rdmap::EXCEPTIONS_OFFER;
use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// Longer than these tests take, and shorter than every other wait of a connection: its timer waits for the earliest
/// deadline alone.
const NUDGE_AFTER: Duration = Duration::from_secs(3);

/// A runtime that watches its timers.
struct Timers {
    runtime: Handle,
    /// Timers that came due.
    fired: Rc<Cell<u32>>,
    /// A timer was set that waits for [`NUDGE_AFTER`].
    is_nudge_set: Cell<bool>,
}

impl Runtime for Timers {
    fn now(&self) -> Instant {
        self.runtime.now()
    }

    fn wall_clock(&self) -> Duration {
        self.runtime.wall_clock()
    }

    fn sleep_until(&self, deadline: Instant) -> LocalFuture<()> {
        let wait = deadline - self.now();
        if wait > NUDGE_AFTER / 2 && wait <= NUDGE_AFTER {
            self.is_nudge_set.set(true);
        }
        let (sleeping, fired) = (self.runtime.sleep_until(deadline), Rc::clone(&self.fired));
        Box::pin(async move {
            sleeping.await;
            fired.set(fired.get() + 1);
        })
    }

    fn spawn(&self, name: &'static str, task: LocalFuture<()>) {
        self.runtime.spawn(name, task);
    }

    fn random(&self) -> u64 {
        self.runtime.random()
    }

    fn submit_blocking(&self, job: BlockingJob) {
        self.runtime.submit_blocking(job);
    }

    fn connect(&self, address: SocketAddr) -> LocalFuture<io::Result<Stream>> {
        self.runtime.connect(address)
    }

    fn listen(&self, address: SocketAddr) -> io::Result<Box<dyn Listener>> {
        self.runtime.listen(address)
    }
}

fn post(endpoint: &Connected, text: &[u8]) {
    let source = Source::Buffer {
        buffer: Buffer::from_vec(text.to_vec()),
        len: u32::try_from(text.len()).unwrap(),
    };
    let options = SendOptions::default();
    endpoint.post_send(WorkId(1), source, options).unwrap();
    endpoint.flush();
}

async fn receive(endpoint: &Connected) {
    let mut completions = Vec::new();
    loop {
        next_completions(&**endpoint, &mut completions)
            .await
            .unwrap();
        let mut outcomes = completions.drain(..).map(|completion| completion.outcome);
        if outcomes.any(|outcome| matches!(outcome, Ok(Done::Received { .. }))) {
            return;
        }
    }
}

/// Two of our ends connect, and each sends a message. Returns how many timers came due, and whether the initiator
/// watched for an answer to its first message.
fn exchange(config: IwarpConfig, exceptions: bool) -> (u32, bool) {
    block_on(|runtime| async move {
        let timers = Rc::new(Timers {
            runtime,
            fired: Rc::default(),
            is_nudge_set: Cell::default(),
        });
        let provider = IwarpProvider::new(Rc::clone(&timers) as Handle, config);
        let mut listener = provider.listen(address()).unwrap();
        let options = || ConnectOptions {
            receives: vec![Buffer::zeroed(100)].into(),
            ord: 1,
            ird: 1,
            exceptions,
            ..ConnectOptions::default()
        };
        let connecting = provider.connect(listener.local_address(), options());
        let accepting = async { listener.accept().await.unwrap().accept(options()).await };
        let (near, far) = tokio::join!(connecting, accepting);
        let (near, far) = (near.unwrap(), far.unwrap());
        post(&near, b"call");
        receive(&far).await;
        post(&far, b"reply");
        receive(&near).await;
        (timers.fired.get(), timers.is_nudge_set.get())
    })
    .unwrap()
}

#[test]
fn our_own_ends_connect_without_waiting_for_a_timer() {
    let race = AcceptRace {
        nudge_after: NUDGE_AFTER,
    };
    let patient = IwarpConfig {
        accept_race: Some(race),
        crc: false,
        ..IwarpConfig::default()
    };
    let old = IwarpConfig {
        revision: Revision::ONE,
        ..patient.clone()
    };
    let peer_to_peer = IwarpConfig {
        peer_to_peer: true,
        ..patient.clone()
    };
    for config in [&patient, &old, &peer_to_peer] {
        assert_eq!(exchange(config.clone(), false), (0, true));
        // A peer that agrees to exceptions is no siw: no timer is even set.
        assert_eq!(exchange(config.clone(), true), (0, false));
    }
}

/// Replies of foreign responders to the request of a provider with these settings, and the length of that request.
fn foreign() -> Vec<(IwarpConfig, Vec<u8>, usize)> {
    let race = AcceptRace {
        nudge_after: Duration::from_millis(10),
    };
    let plain = IwarpConfig {
        accept_race: Some(race),
        reply_deadline: Duration::from_secs(60),
        stall_deadline: Duration::from_secs(60),
        ..config()
    };
    let old = IwarpConfig {
        revision: Revision::ONE,
        ..plain.clone()
    };
    let peer_to_peer = IwarpConfig {
        peer_to_peer: true,
        ..plain.clone()
    };
    let good = frame(FrameKind::Reply);
    let by_revision_one = StartupFrame {
        revision: Revision::ONE,
        enhanced: None,
        ..good
    };
    let by_write = StartupFrame {
        enhanced: Some(Enhanced {
            peer_to_peer: true,
            write_rtr: true,
            ..Enhanced::client_server(4, 4)
        }),
        ..good
    };
    // It got no offer of exceptions, so this is no answer to one.
    let pretender = StartupFrame {
        private_data: &EXCEPTIONS_OFFER,
        ..good
    };
    vec![
        (plain.clone(), bytes_of(&good), 24),
        (old, bytes_of(&by_revision_one), 20),
        (peer_to_peer, bytes_of(&by_write), 24),
        (plain, bytes_of(&pretender), 24),
    ]
}

#[test]
fn a_responder_that_missed_the_first_message_is_nudged() {
    for (config, reply, request_len) in foreign() {
        let opens = config.peer_to_peer;
        block_on(|runtime| async move {
            let provider = IwarpProvider::new(Rc::clone(&runtime), config);
            let mut listener = runtime.listen(address()).unwrap();
            let options = ConnectOptions {
                ord: 4,
                ird: 4,
                receives: vec![Buffer::zeroed(100)].into(),
                ..ConnectOptions::default()
            };
            let connecting = provider.connect(listener.local_address(), options);
            let answering = async {
                let stream = listener.accept().await.unwrap();
                read_exactly(&stream, request_len).await;
                write(&stream, &reply).await;
                stream
            };
            let (endpoint, stream) = tokio::join!(connecting, answering);
            let endpoint = endpoint.unwrap();
            post(&endpoint, b"hello");
            if opens {
                assert_eq!(read_exactly(&stream, 20).await, zero_length_write());
            }
            let message_len = 2 + 18 + 5 + 3 + 4;
            read_exactly(&stream, message_len).await;
            for _ in 0..2 {
                assert_eq!(read_exactly(&stream, 20).await, zero_length_write());
            }
            // A message of the responder ends the nudges.
            write(&stream, &zero_length_write()).await;
            endpoint.close();
            let rest = read_to_end(&stream).await;
            assert!(rest.len() <= 20, "nudged again: {rest:?}");
        })
        .unwrap();
    }
}
