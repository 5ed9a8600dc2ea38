//! A task that polls for a Read takes bytes off the stream itself, between those that the connection's task takes.

use crate::changing_files::address_of;
use gannet_fabric::{
    Access, Backing, ConnectOptions, Connected, Done, Provider, RemoteAddress, RemoteKey, Scope,
    Span, WorkId,
};
use gannet_iwarp::{IwarpConfig, IwarpProvider};
use gannet_runtime::tokio_plug::block_on;
use gannet_runtime::{Buffer, Handle};
use gannet_testing::pattern;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

const LEN: usize = 4 << 20;
const ROUNDS: usize = 200;

fn provider(runtime: &Handle, crc: bool) -> Rc<IwarpProvider> {
    let config = IwarpConfig {
        crc,
        ..IwarpConfig::default()
    };
    IwarpProvider::new(Rc::clone(runtime), config)
}

fn options() -> ConnectOptions {
    ConnectOptions {
        ord: 4,
        ird: 4,
        ..ConnectOptions::default()
    }
}

/// A peer on a thread of its own, whose memory can be read.
fn served(crc: bool) -> (SocketAddr, RemoteAddress) {
    let (sender, served) = mpsc::channel();
    std::thread::spawn(move || {
        block_on(|runtime| async move {
            let provider = provider(&runtime, crc);
            let mut listener = provider.listen("127.0.0.1:0".parse().unwrap()).unwrap();
            let memory = Backing::Buffer(Buffer::from_vec(pattern(LEN)));
            let domain = provider.domain();
            let region = domain.register_now(memory, Access::RemoteRead, Scope::Domain);
            let region = region.unwrap();
            let RemoteAddress { key, offset } = address_of(&region);
            sender
                .send((listener.local_address(), key.0, offset))
                .unwrap();
            let incoming = listener.accept().await.unwrap();
            let _endpoint = incoming.accept(options()).await.unwrap();
            std::future::pending::<()>().await;
        })
        .unwrap();
    });
    let (address, key, offset) = served.recv().unwrap();
    let key = RemoteKey(key);
    (address, RemoteAddress { key, offset })
}

/// Polls until a Read is done; now and then the connection's task has its turn in the middle of an answer.
async fn polled(endpoint: &Connected, round: usize) {
    let mut completions = Vec::new();
    let since = Instant::now();
    for look in 1.. {
        if endpoint.look(&mut completions) > 0 {
            break;
        }
        let has_turns = !round.is_multiple_of(3);
        if has_turns && look % (round % 7 + 2) == 0 {
            tokio::task::yield_now().await;
        }
        assert!(since.elapsed() < Duration::from_secs(300), "round {round}");
    }
    let [completion] = &completions[..] else {
        panic!("round {round}: {completions:?}");
    };
    assert_eq!(completion.outcome, Ok(Done::Read), "round {round}");
}

fn check(crc: bool) {
    let (address, source) = served(crc);
    block_on(|runtime| async move {
        let provider = provider(&runtime, crc);
        let endpoint = provider.connect(address, options()).await.unwrap();
        let expected = pattern(LEN);
        for round in 0..ROUNDS {
            let len = [1, 4096, 20_000, 65_536, 200_001, LEN][round % 6];
            let memory = Backing::Buffer(Buffer::zeroed(len));
            let domain = provider.domain();
            let sink = domain.register_now(memory, Access::Local, Scope::Domain);
            let sink = sink.unwrap();
            let start = round * 4099 % (LEN - len + 1);
            let source = RemoteAddress {
                offset: source.offset + start as u64,
                ..source
            };
            let span = Span::whole(&sink).unwrap();
            endpoint
                .post_read(WorkId(round as u64), span, source)
                .unwrap();
            endpoint.flush();
            polled(&endpoint, round).await;
            let software = sink.software().unwrap();
            let bytes = software.bytes(0, len).unwrap();
            let same = bytes[..] == expected[start..start + len];
            assert!(same, "round {round}: {len} bytes are not those of the peer");
        }
    })
    .unwrap();
}

#[test]
fn a_polling_task_gets_whole_answers() {
    check(false);
}

#[test]
fn a_polling_task_gets_whole_answers_with_crcs() {
    check(true);
}
