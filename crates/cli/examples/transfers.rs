//! Which way short transfers should travel, and what list I/O is worth: measured on a volume that is being served,
//! printed as one JSON object a row.
//!
//! ```text
//! cargo run --release --example transfers -- gannet://HOST[:PORT] CLIENT-KEY
//! ```

#[path = "volume_io.rs"]
mod volume_io;

use gannet_runtime::Handle;
use gannet_runtime::tokio_plug::block_on;
use gannet_vfs::Stability;
use gannet_volume::client::{File, Level, Piece, Shape, TransferPolicy, VolumeFs};
use serde::Serialize;
use std::error::Error;
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Rounds, of which the median counts.
const ROUNDS: usize = 9;
/// Operations of a round, one after the other.
const OPERATIONS: u32 = 200;
/// No way but the server's: every way shut.
const SERVER_BASED: TransferPolicy = TransferPolicy {
    inline_max: 0,
    eager_max: 0,
    client_driven: false,
};

/// No way but the client's, as far as servers lend memory.
const CLIENT_BASED: TransferPolicy = TransferPolicy {
    client_driven: true,
    ..SERVER_BASED
};

#[derive(Serialize)]
struct Row {
    what: &'static str,
    scheme: &'static str,
    operation: &'static str,
    bytes: usize,
    /// The median of the rounds' means.
    microseconds: f64,
    megabytes_per_second: f64,
}

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, key] = &arguments[..] else {
        return Err("usage: transfers gannet://HOST[:PORT] CLIENT-KEY".into());
    };
    let (address, key) = (volume_io::address_of(url)?, Path::new(key));
    block_on(|runtime| async move {
        schemes(&runtime, address, key).await?;
        tiles(&runtime, address, key).await
    })?
}

/// 1 KiB to 1 MiB by each scheme, from memory that is registered and from memory that is not.
async fn schemes(runtime: &Handle, address: SocketAddr, key: &Path) -> Outcome<()> {
    let inline = TransferPolicy {
        inline_max: 4096,
        eager_max: 0,
        client_driven: false,
    };
    let fast = TransferPolicy {
        inline_max: 0,
        eager_max: 65_536,
        client_driven: false,
    };
    let all = [
        ("inline", inline, 4096, false),
        ("fast", fast, 65_536, false),
        ("fast, registered", fast, 65_536, true),
        ("server-based", SERVER_BASED, 1 << 20, false),
        ("server-based, registered", SERVER_BASED, 1 << 20, true),
        ("client-based", CLIENT_BASED, 1 << 20, false),
        ("client-based, registered", CLIENT_BASED, 1 << 20, true),
    ];
    let mut files = Vec::new();
    for (scheme, policy, longest, registered) in all {
        let fs = volume_io::connect(runtime, address, key)?.with_policy(policy);
        let fs = Rc::new(fs);
        let file = volume_io::create(&fs, "transfers").await?;
        let mut memory = fs.memory(1 << 20);
        file.write_at(0, &mut memory, 1 << 20, Stability::FileSync)
            .await?;
        files.push((scheme, longest, registered, fs, file));
    }
    for kib in [1usize, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024] {
        let len = kib << 10;
        for operation in ["read", "write"] {
            let mut times = vec![Vec::new(); files.len()];
            // Round by round, so that what else the machine does meanwhile falls on all of them.
            for _ in 0..ROUNDS {
                for (at, (_, longest, registered, fs, file)) in files.iter().enumerate() {
                    if len <= *longest {
                        let moving = Moving { fs, file, len };
                        times[at].push(moving.round(runtime, operation, *registered).await?);
                    }
                }
            }
            for ((scheme, ..), times) in files.iter().zip(times) {
                print("scheme", scheme, operation, len, times)?;
            }
        }
    }
    Ok(())
}

struct Moving<'a> {
    fs: &'a Rc<VolumeFs>,
    file: &'a File,
    len: usize,
}

impl Moving<'_> {
    /// The average duration of one operation, over many.
    async fn round(
        &self,
        runtime: &Handle,
        operation: &str,
        registered: bool,
    ) -> Outcome<Duration> {
        let mut buffer = if registered {
            self.fs.memory(self.len)
        } else {
            gannet_runtime::Buffer::zeroed(self.len)
        };
        let shape = Shape::contiguous(0, self.len as u32)?;
        let start = runtime.now();
        for _ in 0..OPERATIONS {
            match operation {
                "read" => self.file.read_shape(&shape, &shape, &mut buffer).await?,
                _ => {
                    let stability = Stability::Unstable;
                    let file = self.file;
                    file.write_shape(&shape, &shape, &mut buffer, stability)
                        .await?;
                }
            }
        }
        Ok((runtime.now() - start) / OPERATIONS)
    }
}

/// A tile of 768 rows of 1024 pixels of 3 bytes, out of an image twice as wide: in one request, row by row, and by
/// reading all that it lies in.
async fn tiles(runtime: &Handle, address: SocketAddr, key: &Path) -> Outcome<()> {
    let fs = Rc::new(volume_io::connect(runtime, address, key)?);
    let file = volume_io::create(&fs, "tiles").await?;
    let (rows, row, width) = (768u32, 3072u32, 6144u64);
    let (len, extent) = ((rows * row) as usize, width as usize * rows as usize);
    let mut image = fs.memory(extent);
    file.write_at(0, &mut image, extent, Stability::FileSync)
        .await?;
    let level = Level {
        count: rows,
        stride: width,
    };
    let first = Piece {
        offset: 0,
        len: row,
    };
    let in_file = Shape::nested(first, vec![level])?;
    let mut tile = fs.memory(len);
    let mut times: [Vec<Duration>; 4] = Default::default();
    for _ in 0..ROUNDS {
        let start = runtime.now();
        let in_memory = Shape::contiguous(0, len as u32)?;
        file.read_shape(&in_file, &in_memory, &mut tile).await?;
        times[0].push(runtime.now() - start);

        let start = runtime.now();
        for (piece, at) in in_file.pieces().zip(0u64..) {
            let from = Shape::contiguous(piece.offset, piece.len)?;
            let to = Shape::contiguous(at * u64::from(row), row)?;
            file.read_shape(&from, &to, &mut tile).await?;
        }
        times[1].push(runtime.now() - start);

        let start = runtime.now();
        let all = Shape::contiguous(0, extent as u32)?;
        file.read_shape(&all, &all, &mut image).await?;
        let (from, to) = (image.chunks(width as usize), tile.chunks_mut(row as usize));
        // Memory may be longer than what was asked for.
        for (from, to) in from.zip(to).take(rows as usize) {
            to.copy_from_slice(from.get(..row as usize).unwrap_or_default());
        }
        times[2].push(runtime.now() - start);

        let start = runtime.now();
        let in_memory = Shape::contiguous(0, len as u32)?;
        let stability = Stability::Unstable;
        file.write_shape(&in_file, &in_memory, &mut tile, stability)
            .await?;
        times[3].push(runtime.now() - start);
    }
    let mut rounds = times.into_iter();
    for scheme in ["list I/O", "a call for each row", "data sieving"] {
        print(
            "tile",
            scheme,
            "read",
            len,
            rounds.next().unwrap_or_default(),
        )?;
    }
    print(
        "tile",
        "list I/O",
        "write",
        len,
        rounds.next().unwrap_or_default(),
    )
}

fn print(
    what: &'static str,
    scheme: &'static str,
    operation: &'static str,
    bytes: usize,
    mut times: Vec<Duration>,
) -> Outcome<()> {
    times.sort();
    let Some(median) = times.get(times.len() / 2) else {
        return Ok(());
    };
    let row = Row {
        what,
        scheme,
        operation,
        bytes,
        microseconds: median.as_secs_f64() * 1e6,
        megabytes_per_second: bytes as f64 / median.as_secs_f64() / 1e6,
    };
    println!("{}", serde_json::to_string(&row)?);
    Ok(())
}
