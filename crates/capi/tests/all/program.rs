//! A server in C, built as a packager's users would, and a client in Rust.

use gannet::Buffer;
use gannet::rdma::{Access, Adapter, AdapterOptions, RdmaConnection, RemoteSegment};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

fn run(command: &mut Command) -> String {
    let done = command.output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success(), "{command:?}: {said}");
    String::from_utf8(done.stdout).unwrap()
}

/// The library that this test was built with.
fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().unwrap().join("libgannet_capi.so")
}

/// The flags that pkg-config gives for the library. Outside CI, a machine without pkg-config uses the same flags from
/// here.
fn flags(prefix: &Path) -> String {
    let mut pkg_config = Command::new("pkg-config");
    pkg_config
        .args(["--cflags", "--libs", "gannet"])
        .env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"));
    let in_ci = std::env::var_os("CI").is_some_and(|ci| ci == "true");
    match pkg_config.output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && !in_ci => {
            let prefix = prefix.display();
            format!("-I{prefix}/include -L{prefix}/lib -lgannet")
        }
        _ => run(&mut pkg_config),
    }
}

/// Installs the library below `prefix`, and builds the example with it.
fn build(prefix: &Path) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    run(Command::new(folder.join("install.sh"))
        .arg(prefix)
        .arg(library()));
    let flags = flags(prefix);
    let program = prefix.join("serve");
    run(Command::new("cc")
        .args([
            "-std=gnu11",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-pthread",
            "-o",
        ])
        .args([&program, &folder.join("examples/serve.c")])
        .args(flags.split_whitespace()));
    program
}

/// A child that ends with its test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn ask(connection: &RdmaConnection, request: &str) -> String {
    connection.send(request.as_bytes()).await.unwrap();
    let answer = connection.receive().await.unwrap();
    String::from_utf8(answer).unwrap()
}

#[test]
fn a_server_in_c_serves_files_to_a_client_in_rust() {
    let folder = tempfile::tempdir().unwrap();
    let program = build(folder.path());
    let share = folder.path().join("share");
    std::fs::create_dir_all(share.join("below")).unwrap();
    let content: Vec<u8> = (0..3_000_001_u32).map(|at| (at % 251) as u8).collect();
    std::fs::write(share.join("below/file"), &content).unwrap();
    std::fs::write(share.join("empty"), []).unwrap();
    let server = Command::new(program)
        .arg(&share)
        .arg("127.0.0.1:0")
        .env("LD_LIBRARY_PATH", folder.path().join("lib"))
        .stdout(Stdio::piped())
        .spawn();
    let mut server = Server(server.unwrap());
    let mut port = String::new();
    let mut said = BufReader::new(server.0.stdout.take().unwrap());
    said.read_line(&mut port).unwrap();
    let address = format!("127.0.0.1:{}", port.trim()).parse().unwrap();

    let story = async {
        let adapter = Adapter::start(AdapterOptions::default()).await.unwrap();
        let connection = adapter.connect(address).await.unwrap();
        assert_eq!(ask(&connection, "HEAD /below/file").await, "200 3000001");
        assert_eq!(ask(&connection, "HEAD /none").await, "404 not found");
        assert_eq!(ask(&connection, "HEAD /../serve").await, "403 not for you");
        assert_eq!(ask(&connection, "HEAD /below").await, "403 not for you");
        assert_eq!(ask(&connection, "DELETE /empty").await, "400 no request");
        assert_eq!(ask(&connection, "GET /empty 1 2").await, "400 no segment");
        for (name, wanted) in [("below/file", &content[..]), ("empty", &[])] {
            let memory = Buffer::zeroed(wanted.len());
            let memory = connection
                .register(memory, Access::RemoteWrite)
                .await
                .unwrap();
            let RemoteSegment { key, offset, len } = memory.segment();
            let answer = ask(&connection, &format!("GET /{name} {key} {offset} {len}")).await;
            assert_eq!(answer, format!("200 {}", wanted.len()));
            assert!(*memory.take_back().await.unwrap() == *wanted);
        }
        let memory = Buffer::zeroed(10);
        let memory = connection
            .register(memory, Access::RemoteWrite)
            .await
            .unwrap();
        let RemoteSegment { key, offset, len } = memory.segment();
        let answer = ask(
            &connection,
            &format!("GET /below/file {key} {offset} {len}"),
        )
        .await;
        assert_eq!(answer, "413 3000001");
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    runtime.block_on(async {
        tokio::time::timeout(Duration::from_secs(60), story)
            .await
            .unwrap()
    });
}
