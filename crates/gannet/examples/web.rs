//! A web server for static files over RDMA, and its client: the motive of the paper on data serving with RDMA
//! (Dalessandro and Wyckoff 2007).
//!
//! ```text
//! web                               serves a directory to itself, and verifies what comes by each engine
//! web serve DIRECTORY [ADDRESS]     serves it
//! web fetch ADDRESS PATH            writes a file to standard output
//! ```
//!
//! `--provider verbs` serves and fetches by an RDMA device, which has the address. `--provider auto` serves by the
//! software RNIC too, and fetches by it from a server that does not answer the device.
//!
//! The protocol is made of messages in text. `HEAD /path` asks for a file's length: `200 LENGTH`. `GET /path KEY OFFSET
//! LENGTH` asks for the file in the client's memory under that key; its `200 LENGTH` comes behind the last byte. Other
//! answers say why not, as those of HTTP: 400, 403, 404, 413.

use clap::{Parser, Subcommand};
use gannet::rdma::{
    Access, Adapter, AdapterOptions, Engine, FileTarget, RdmaConnection, RemoteSegment,
    SenderOptions, ServedFile,
};
use gannet::{Buffer, ProviderKind};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno;
use std::error::Error;
use std::fs::File;
use std::io::Write;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Serves static files over RDMA, and fetches them. Without a command: shows both.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Serves the files below a directory.
    Serve {
        directory: PathBuf,
        #[arg(default_value = "127.0.0.1:8080")]
        address: SocketAddr,
        /// iwarp, verbs or auto.
        #[arg(long, default_value_t)]
        provider: ProviderKind,
    },
    /// Writes a file to standard output.
    Fetch {
        address: SocketAddr,
        path: String,
        /// iwarp, verbs or auto.
        #[arg(long, default_value_t)]
        provider: ProviderKind,
    },
}

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

#[tokio::main]
async fn main() -> Outcome<()> {
    match Arguments::parse().command {
        None => demonstrate().await,
        Some(Command::Serve {
            directory,
            address,
            provider,
        }) => {
            let options = AdapterOptions {
                provider,
                ..AdapterOptions::default()
            };
            serve(&directory, address, options, |address| {
                println!("web: serving at {address}")
            })
            .await
        }
        Some(Command::Fetch {
            address,
            path,
            provider,
        }) => {
            let options = AdapterOptions {
                provider,
                ..AdapterOptions::default()
            };
            let adapter = Adapter::start(options).await?;
            let bytes = fetch(&adapter.connect(address).await?, &path).await?;
            Ok(std::io::stdout().write_all(&bytes)?)
        }
    }
}

/// Serves the files below `directory` until the process ends.
async fn serve(
    directory: &Path,
    address: SocketAddr,
    options: AdapterOptions,
    ready: impl FnOnce(SocketAddr),
) -> Outcome<()> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = Arc::new(openat(CWD, directory, flags, Mode::empty())?);
    let listener = Adapter::start(options).await?.listen(address).await?;
    ready(listener.local_address());
    loop {
        let connection = listener.accept().await?;
        let root = Arc::clone(&root);
        tokio::spawn(async move {
            // Ends when the client goes away.
            while let Ok(request) = connection.receive().await {
                let answer = answer(&connection, &root, &request).await;
                if connection.send(answer).await.is_err() {
                    break;
                }
            }
        });
    }
}

/// Does the work of a request, and returns the answer to the client.
async fn answer(connection: &RdmaConnection, root: &OwnedFd, request: &[u8]) -> String {
    let text = String::from_utf8_lossy(request);
    let words: Vec<&str> = text.split(' ').collect();
    let (path, target) = match words[..] {
        ["HEAD", path] => (path, None),
        ["GET", path, key, offset, len] => match segment(key, offset, len) {
            Some(segment) => (path, Some(segment)),
            None => return String::from("400 no segment"),
        },
        _ => return String::from("400 no request"),
    };
    let (file, len) = match open(root, path) {
        Ok(opened) => opened,
        Err(Errno::NOENT | Errno::NOTDIR) => return String::from("404 not found"),
        Err(_) => return String::from("403 not for you"),
    };
    let Some(target) = target else {
        return format!("200 {len}");
    };
    if len > target.len {
        return format!("413 {len}");
    }
    let Ok(bytes) = usize::try_from(len) else {
        return format!("413 {len}");
    };
    let target = FileTarget::Memory(vec![target]);
    match connection
        .send_file(&ServedFile::from(file), 0, bytes, target)
        .await
    {
        Ok(_) => format!("200 {len}"),
        Err(error) => format!("500 {error}"),
    }
}

/// A regular file below `root`, and its length.
fn open(root: &OwnedFd, path: &str) -> Result<(File, u64), Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let path = path.trim_start_matches('/');
    let file = File::from(openat2(root, path, flags, Mode::empty(), resolve)?);
    let metadata = file.metadata().map_err(|_| Errno::IO)?;
    if metadata.is_file() {
        Ok((file, metadata.len()))
    } else {
        Err(Errno::ACCESS)
    }
}

fn segment(key: &str, offset: &str, len: &str) -> Option<RemoteSegment> {
    Some(RemoteSegment {
        key: key.parse().ok()?,
        offset: offset.parse().ok()?,
        len: len.parse().ok()?,
    })
}

/// Has the server put a file into memory of ours.
async fn fetch(connection: &RdmaConnection, path: &str) -> Outcome<Vec<u8>> {
    let len = ask(connection, format!("HEAD {path}")).await?;
    let memory = Buffer::zeroed(usize::try_from(len)?);
    let memory = connection.register(memory, Access::RemoteWrite).await?;
    let RemoteSegment { key, offset, len } = memory.segment();
    ask(connection, format!("GET {path} {key} {offset} {len}")).await?;
    Ok(memory.take_back().await?.into_vec())
}

/// Sends a request; the number behind the 200 that answers it.
async fn ask(connection: &RdmaConnection, request: String) -> Outcome<u64> {
    connection.send(request.as_bytes()).await?;
    let answer = connection.receive().await?;
    let answer = String::from_utf8_lossy(&answer);
    match answer.strip_prefix("200 ") {
        Some(number) => Ok(number.parse()?),
        None => Err(format!("{request}: {answer}").into()),
    }
}

/// Serves a directory by each engine to a client in this process, which verifies what comes.
pub(crate) async fn demonstrate() -> Outcome<()> {
    let directory = tempfile::tempdir()?;
    let lengths = [0, 1, 4096, 100_000, 16 << 20];
    for len in lengths {
        std::fs::write(directory.path().join(len.to_string()), content(len))?;
    }
    for engine in Engine::ALL {
        let (ready, address) = tokio::sync::oneshot::channel();
        let path = directory.path().to_owned();
        let options = AdapterOptions {
            files: SenderOptions {
                engine: Some(engine),
                ..SenderOptions::default()
            },
            ..AdapterOptions::default()
        };
        let serving = tokio::spawn(async move {
            let address = SocketAddr::from(([127, 0, 0, 1], 0));
            let tell = move |address| {
                // The caller waits for it below.
                let _ = ready.send(address);
            };
            serve(&path, address, options, tell).await
        });
        let adapter = Adapter::start(AdapterOptions::default()).await?;
        let connection = adapter.connect(address.await?).await?;
        let started = std::time::Instant::now();
        for len in lengths {
            if fetch(&connection, &format!("/{len}")).await? != content(len) {
                return Err(format!("{engine}: the file of {len} bytes differs").into());
            }
        }
        let milliseconds = started.elapsed().as_millis();
        println!(
            "{engine:<10} {} files verified in {milliseconds} ms",
            lengths.len()
        );
        for path in ["/none", "/../etc/passwd", "/"] {
            if let Ok(bytes) = fetch(&connection, path).await {
                return Err(format!("{path} gave {} bytes", bytes.len()).into());
            }
        }
        serving.abort();
    }
    Ok(())
}

fn content(len: usize) -> Vec<u8> {
    let byte = |index: usize| (index % 251 + index / 251 % 7) as u8;
    (0..len).map(byte).collect()
}
