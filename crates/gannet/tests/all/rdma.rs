//! Messages, memory and files over RDMA, from programs with a protocol of their own.

use gannet::rdma::{
    Access, Adapter, AdapterOptions, Engine, FileTarget, RdmaConnection, RdmaError, SendError,
    SenderOptions, ServedFile,
};
use gannet::{Buffer, ProviderKind, rdma_devices};
use gannet_testing::pattern;
use memmap2::MmapMut;
use std::io::Write;
use std::time::Duration;

/// Runs a story, which may take a minute.
fn run(story: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        tokio::time::timeout(Duration::from_secs(60), story)
            .await
            .unwrap()
    });
}

async fn pair(options: AdapterOptions) -> (RdmaConnection, RdmaConnection) {
    let (server, client) = (
        Adapter::start(options).await.unwrap(),
        Adapter::start(options).await.unwrap(),
    );
    let listener = server.listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let connecting = client.connect(listener.local_address());
    let (accepted, connected) = tokio::join!(listener.accept(), connecting);
    let (server, client) = (accepted.unwrap(), connected.unwrap());
    client.send(b"hello".as_slice()).await.unwrap();
    assert_eq!(server.receive().await.unwrap(), b"hello");
    (server, client)
}

/// A file of these bytes that is open for reading only.
fn served(bytes: &[u8]) -> ServedFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    ServedFile::from(std::fs::File::open(file.path()).unwrap())
}

fn with_engine(engine: Option<Engine>, crc: bool) -> AdapterOptions {
    AdapterOptions {
        crc,
        files: SenderOptions {
            engine,
            pipe_len: 64 << 10,
            ..SenderOptions::default()
        },
        ..AdapterOptions::default()
    }
}

const LEN: usize = 1_500_000;

#[test]
fn a_file_arrives_in_the_memory_of_a_mapping_by_every_engine() {
    run(async {
        let engines = Engine::ALL.map(Some).into_iter().chain([None]);
        for engine in engines {
            for crc in [false, true] {
                let (server, client) = pair(with_engine(engine, crc)).await;
                let mapping = MmapMut::map_anon(LEN + 7).unwrap();
                let address = mapping.as_ptr();
                let memory = Buffer::from_lent(mapping);
                let memory = client.register(memory, Access::RemoteWrite).await.unwrap();
                let file = served(&pattern(LEN));
                let target = FileTarget::Memory(vec![memory.segment()]);
                let counts = server.send_file(&file, 0, LEN, target).await.unwrap();
                server.send(b"done".as_slice()).await.unwrap();
                assert_eq!(client.receive().await.unwrap(), b"done");
                let bytes = memory.take_back().await.unwrap();
                // Placed where the program's mapping is: nothing was copied on the way.
                assert_eq!(bytes.as_ptr(), address);
                assert!(
                    bytes[..LEN] == pattern(LEN) && bytes[LEN..] == [0; 7],
                    "{engine:?}"
                );
                let copied = match engine {
                    None | Some(Engine::Sendfile) => 0,
                    _ => LEN as u64,
                };
                assert_eq!((counts.copied_bytes, counts.bytes), (copied, LEN as u64));
            }
        }
    });
}

#[test]
fn messages_arrive_in_order_and_a_closed_connection_is_reported() {
    run(async {
        let (server, client) = pair(AdapterOptions::default()).await;
        for round in 0..100_u8 {
            let request = vec![round; usize::from(round) * 40];
            client.send(request.clone()).await.unwrap();
            client.send(b"next".as_slice()).await.unwrap();
            assert_eq!(server.receive().await.unwrap(), request);
            assert_eq!(server.receive().await.unwrap(), b"next");
        }
        let long = client.send(vec![0; 4097]).await;
        assert!(
            matches!(
                long,
                Err(RdmaError::Message {
                    len: 4097,
                    max: 4096
                })
            ),
            "{long:?}"
        );
        client.send(b"last".as_slice()).await.unwrap();
        drop(client);
        assert_eq!(server.receive().await.unwrap(), b"last");
        assert!(matches!(
            server.receive().await,
            Err(RdmaError::Disconnected(_))
        ));
        let file = served(b"x");
        let sent = server.send_file(&file, 0, 1, FileTarget::Messages(1)).await;
        assert!(sent.is_err());
    });
}

#[test]
fn a_receive_that_is_given_up_takes_no_message_with_it() {
    run(async {
        let (server, client) = pair(AdapterOptions::default()).await;
        for round in 0..200_u8 {
            let (given_up, sent) = tokio::join!(
                server.receive_unless(tokio::task::yield_now()),
                client.send(vec![round]),
            );
            sent.unwrap();
            let received = match given_up.unwrap() {
                Some(message) => message,
                None => server.receive().await.unwrap(),
            };
            assert_eq!(received, [round]);
        }
    });
}

#[test]
fn a_shutdown_ends_the_calls_that_wait() {
    run(async {
        let (server, client) = pair(AdapterOptions::default()).await;
        client.send(b"before".as_slice()).await.unwrap();
        assert_eq!(server.receive().await.unwrap(), b"before");
        let (received, shut) = tokio::join!(server.receive(), server.shut_down());
        shut.unwrap();
        assert!(matches!(received, Err(RdmaError::Disconnected(_))));
        assert!(matches!(
            client.receive().await,
            Err(RdmaError::Disconnected(_))
        ));
        server.shut_down().await.unwrap();

        let adapter = Adapter::start(AdapterOptions::default()).await.unwrap();
        let listener = adapter
            .listen("127.0.0.1:0".parse().unwrap())
            .await
            .unwrap();
        let (accepted, ()) = tokio::join!(listener.accept(), listener.shut_down());
        assert!(matches!(accepted, Err(RdmaError::ShutDown)));
        assert!(matches!(listener.accept().await, Err(RdmaError::ShutDown)));
        let address = listener.local_address();
        // The thread of the adapter closes the port when it comes to that.
        while let Ok(late) = adapter.connect(address).await {
            drop(late);
        }
    });
}

#[test]
fn messages_that_were_sent_arrive_after_the_sender_is_dropped() {
    run(async {
        let options = AdapterOptions {
            receives: 300,
            message_max: 64 << 10,
            ..AdapterOptions::default()
        };
        let (server, client) = pair(options).await;
        // More than a socket takes at once.
        for round in 0..250_u8 {
            client.send(vec![round; 64 << 10]).await.unwrap();
        }
        // The last handle of the adapter's thread.
        drop(client);
        for round in 0..250_u8 {
            assert_eq!(server.receive().await.unwrap(), vec![round; 64 << 10]);
        }
        assert!(matches!(
            server.receive().await,
            Err(RdmaError::Disconnected(_))
        ));
    });
}

#[test]
fn a_key_stays_revoked_when_other_memory_takes_its_address() {
    run(async {
        let (server, client) = pair(AdapterOptions::default()).await;
        let mapping = MmapMut::map_anon(1 << 20).unwrap();
        let address = mapping.as_ptr();
        let memory = Buffer::from_lent(mapping);
        let memory = client.register(memory, Access::RemoteWrite).await.unwrap();
        let old = memory.segment();
        // Unmapped with the buffer; the next mapping of this length takes its place.
        drop(memory.take_back().await.unwrap());
        let others: Vec<_> = (0..64)
            .map(|_| MmapMut::map_anon(1 << 20).unwrap())
            .collect();
        let same = others.into_iter().find(|other| other.as_ptr() == address);
        let same = same.expect("the system reuses the address of what was just unmapped");
        let memory = Buffer::from_lent(same);
        let memory = client.register(memory, Access::RemoteWrite).await.unwrap();
        assert_ne!(memory.segment().key, old.key);
        let file = served(&[0xa5; 4096]);
        let sent = server
            .send_file(&file, 0, 4096, FileTarget::Memory(vec![old]))
            .await;
        // The write itself may have left before the peer refused it.
        if sent.is_ok() {
            assert!(matches!(
                server.receive().await,
                Err(RdmaError::Disconnected(_))
            ));
        }
        assert!(client.receive().await.is_err());
        let bytes = memory.take_back().await.unwrap();
        assert_eq!(bytes.as_ptr(), address);
        assert!(bytes.iter().all(|byte| *byte == 0));
    });
}

#[test]
fn a_file_longer_than_its_memory_is_refused_and_the_connection_lasts() {
    run(async {
        let (server, client) = pair(AdapterOptions::default()).await;
        let memory = Buffer::from_vec(vec![0; 10]);
        let memory = client.register(memory, Access::RemoteWrite).await.unwrap();
        let file = served(b"0123456789a");
        let target = || FileTarget::Memory(vec![memory.segment()]);
        let sent = server.send_file(&file, 0, 11, target()).await;
        assert!(matches!(
            sent,
            Err(RdmaError::File(SendError::Room { room: 10, len: 11 }))
        ));
        server.send_file(&file, 1, 10, target()).await.unwrap();
        server.send(b"done".as_slice()).await.unwrap();
        assert_eq!(client.receive().await.unwrap(), b"done");
        assert_eq!(&*memory.take_back().await.unwrap(), b"123456789a");
    });
}

#[test]
fn the_web_server_of_the_examples_serves_by_every_engine() {
    run(async { crate::web::demonstrate().await.unwrap() });
}

#[test]
fn an_adapter_that_needs_a_device_names_the_cure_where_there_is_none() {
    run(async {
        let options = AdapterOptions {
            provider: ProviderKind::Verbs,
            ..AdapterOptions::default()
        };
        match (Adapter::start(options).await, rdma_devices()) {
            (Ok(_), Ok(_)) => {}
            (Err(error @ RdmaError::Device(_)), Err(wanted)) => {
                let said = error.to_string();
                assert_eq!(said, wanted.to_string());
                assert!(said.contains('(') && !said.contains('\n'), "{said}");
            }
            (adapter, devices) => panic!("{:?} with {devices:?}", adapter.err()),
        }
    });
}

#[test]
fn an_adapter_without_a_device_on_the_way_uses_the_software_rnic() {
    run(async {
        // No device has the address of the pair, and the engine is of the software RNIC alone.
        let options = AdapterOptions {
            provider: ProviderKind::Auto,
            ..with_engine(Some(Engine::Sendfile), false)
        };
        let (server, client) = pair(options).await;
        let memory = client.register(Buffer::zeroed(LEN), Access::RemoteWrite);
        let memory = memory.await.unwrap();
        let target = FileTarget::Memory(vec![memory.segment()]);
        let file = served(&pattern(LEN));
        let counts = server.send_file(&file, 0, LEN, target);
        assert_eq!(counts.await.unwrap().copied_bytes, 0);
        server.send(b"done".as_slice()).await.unwrap();
        assert_eq!(client.receive().await.unwrap(), b"done");
        assert!(*memory.take_back().await.unwrap() == *pattern(LEN));
    });
}
