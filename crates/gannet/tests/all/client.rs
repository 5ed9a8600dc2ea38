//! Files of a server in this process, over TCP and over RDMA.

use gannet::{Buffer, Client, ConnectError, Error, Server, Status};
use gannet_testing::pattern;
use std::fs;
use std::path::Path;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// A directory that is served, with a place for the key of its handles beside it.
struct Share {
    place: TempDir,
    server: Server,
}

impl Share {
    fn new() -> Share {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir(place.path().join("served")).unwrap();
        let builder = Server::builder().directory(place.path().join("served"));
        let builder = builder
            .state_directory(place.path())
            .no_root_squash()
            .cores(2);
        let server = builder.start().unwrap();
        Share { place, server }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.place.path().join("served").join(Path::new(name))
    }

    fn urls(&self) -> [String; 2] {
        [self.server.tcp_url(), self.server.rdma_url()]
    }
}

/// Several threads of a work-stealing executor, which move futures between them.
fn run<T>(story: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = { runtime }.worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(story)
}

#[test]
fn whole_files_go_there_and_back() {
    let share = Share::new();
    run(async {
        for url in share.urls() {
            let client = Client::connect(&url).await.unwrap();
            let bytes = pattern(3_000_001);
            client.write("file", bytes.clone()).await.unwrap();
            assert_eq!(fs::read(share.path("file")).unwrap(), bytes);
            assert_eq!(client.read("/file").await.unwrap(), bytes);
            client.copy("file", "copy").await.unwrap();
            assert_eq!(fs::read(share.path("copy")).unwrap(), bytes);
            client.make_directory("folder", 0o755).await.unwrap();
            client.rename("copy", "folder/copy").await.unwrap();
            let listed = client.list("folder").await.unwrap();
            let names: Vec<_> = listed.iter().map(|entry| &*entry.name).collect();
            assert_eq!(names, [b"copy"]);
            assert_eq!(listed[0].attributes.size, bytes.len() as u64);
            assert!(client.usage("").await.unwrap().bytes_total > 0);
            client.remove("folder/copy").await.unwrap();
            client.remove("folder").await.unwrap();
            client.remove("file").await.unwrap();
            let gone = client.stat("file").await.unwrap_err();
            assert!(matches!(gone, Error::Status(Status::Noent)), "{gone}");
            assert_eq!(client.reconnects().await.unwrap(), 0);
        }
    });
    share.server.stop().unwrap();
}

#[test]
fn ranges_and_streams_are_the_bytes_of_the_file() {
    let share = Share::new();
    run(async {
        for url in share.urls() {
            let client = Client::connect(&url).await.unwrap();
            let bytes = pattern(5_000_003);
            let file = client.create("file", 0o600).await.unwrap();
            let mut writer = file.writer(0).unwrap();
            for piece in bytes.chunks(70_001) {
                writer.write_all(piece).await.unwrap();
            }
            writer.shutdown().await.unwrap();
            assert_eq!(fs::read(share.path("file")).unwrap(), bytes);

            let mut back = Vec::new();
            let mut reader = client.open("file").await.unwrap().reader(17).unwrap();
            reader.read_to_end(&mut back).await.unwrap();
            assert_eq!(back, bytes[17..]);

            assert_eq!(
                file.read_at(1000, 2_000_000).await.unwrap(),
                bytes[1000..2_001_000]
            );
            let end = bytes.len() as u64;
            assert_eq!(
                file.read_at(end - 3, 10).await.unwrap(),
                bytes[bytes.len() - 3..]
            );
            assert!(file.read_at(end, 10).await.unwrap().is_empty());
            file.write_at(5, *b"other").await.unwrap();
            assert_eq!(&fs::read(share.path("file")).unwrap()[5..10], b"other");
            let attributes = file.attributes().await.unwrap();
            assert_eq!(attributes.size, end);
        }
    });
}

/// Tasks on both threads of the executor use one connection at the same time.
#[test]
fn a_client_is_shared_by_threads() {
    let share = Share::new();
    run(async {
        let client = Client::connect(&share.server.rdma_url()).await.unwrap();
        let tasks = (0..16).map(|number| {
            let client = client.clone();
            tokio::spawn(async move {
                let name = format!("file {number}");
                let bytes = pattern(10_000 + number);
                client.write(&name, bytes.clone()).await.unwrap();
                assert_eq!(client.read(&name).await.unwrap(), bytes);
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.unwrap();
        }
        assert_eq!(client.list("").await.unwrap().len(), 16);
    });
}

#[test]
fn a_stream_that_is_dropped_or_refused_ends() {
    let share = Share::new();
    run(async {
        let client = Client::connect(&share.server.tcp_url()).await.unwrap();
        client.write("file", pattern(9_000_000)).await.unwrap();
        let file = client.open("file").await.unwrap();
        let mut few = [0; 10];
        let mut reader = file.reader(0).unwrap();
        reader.read_exact(&mut few).await.unwrap();
        drop(reader);
        drop(file.writer(0).unwrap());

        // The file is removed, which the stream reports.
        let mut writer = file.writer(0).unwrap();
        client.remove("file").await.unwrap();
        writer.write_all(&pattern(3_000_000)).await.ok();
        let ended = writer.shutdown().await.unwrap_err();
        assert!(ended.to_string().contains("stale"), "{ended}");
        assert_eq!(client.list("").await.unwrap().len(), 0);
    });
}

#[test]
fn why_there_is_no_connection_is_an_enum() {
    run(async {
        let wrong = Client::connect("http://host/").await.err().unwrap();
        assert!(matches!(wrong, ConnectError::Url(_)), "{wrong}");
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let url = format!("nfs://127.0.0.1:{port}/");
        let nobody = Client::connect(&url);
        let nobody = nobody.await.err().unwrap();
        assert!(matches!(nobody, ConnectError::Unanswered(_)), "{nobody}");
        let url = format!("gannet://127.0.0.1:{port}/");
        let keyless = Client::connect(&url);
        let keyless = keyless.await.err().unwrap();
        assert!(matches!(keyless, ConnectError::NoKey), "{keyless}");
    });
}

/// Reads and writes with one piece of registered memory.
pub(crate) async fn transfers_of_registered_memory(client: &Client) {
    const LEN: usize = 300_000;
    client.write("registered", pattern(LEN)).await.unwrap();
    let file = client.open("registered").await.unwrap();
    let own = vec![0; LEN + 8];
    let address = own.as_ptr();
    let memory = client.register(Buffer::from_vec(own)).await.unwrap();
    assert_eq!((memory.len(), memory.is_empty()), (LEN + 8, false));
    for round in 0..3u8 {
        let read = file.read_registered(0, memory.len(), &memory);
        assert_eq!(read.await.unwrap(), LEN);
        let expected = (round == 0).then(|| pattern(LEN));
        let expected = expected.unwrap_or_else(|| vec![round; LEN]);
        let changed = |bytes: &mut [u8]| {
            assert!(bytes[..LEN] == expected, "round {round}");
            bytes.fill(round + 1);
        };
        memory.with(changed).await.unwrap();
        file.write_registered(0, LEN, &memory).await.unwrap();
    }
    assert_eq!(file.read_registered(5, 10, &memory).await.unwrap(), 10);

    let too_long = file.read_registered(0, LEN + 9, &memory).await;
    assert!(matches!(too_long, Err(Error::Status(Status::Inval))));
    // A transfer that its caller gives up has the memory to its end; the next one waits for that.
    let given_up = file.read_registered(0, LEN, &memory);
    tokio::select! {
        biased;
        _ = given_up => {}
        () = std::future::ready(()) => {}
    }
    assert_eq!(file.read_registered(0, LEN, &memory).await.unwrap(), LEN);
    // A failed operation gives the memory back to its program.
    client.remove("registered").await.unwrap();
    // A volume removes the bytes of a file behind its name.
    while file.read_registered(0, LEN, &memory).await.is_ok() {}
    memory.with(|bytes| bytes[7] = 99).await.unwrap();
    let own = memory.take_back().await.unwrap();
    assert_eq!((own.as_ptr(), own.len(), own[7]), (address, LEN + 8, 99));
}

#[test]
fn memory_is_registered_for_many_transfers() {
    let share = Share::new();
    run(async {
        for url in share.urls() {
            let client = Client::connect(&url).await.unwrap();
            transfers_of_registered_memory(&client).await;
            let too_long = client.register(Buffer::zeroed((1 << 20) + 1)).await;
            assert!(matches!(too_long, Err(Error::MemoryTooLong { .. })));

            client.write("file", "bytes").await.unwrap();
            let memory = client.register(Buffer::zeroed(10)).await.unwrap();
            let other = Client::connect(&url).await.unwrap();
            let file = other.open("file").await.unwrap();
            let read = file.read_registered(0, 5, &memory).await;
            assert!(matches!(read, Err(Error::MemoryOfAnother)));
        }
    });
}
