//! Reading and writing files of a volume from a program: a range, a tile, a list of pieces.
//!
//! ```text
//! gannet volume create /srv/volume --io-servers 4 && gannet serve --volume /srv/volume
//! cargo run --example volume_io -- gannet://localhost /srv/volume/client-key
//! ```

use gannet::ClientKey;
use gannet_iwarp::{IwarpConfig, IwarpProvider};
use gannet_runtime::Handle;
use gannet_runtime::tokio_plug::block_on;
use gannet_vfs::{CreateMode, Credentials, SetAttributes, Stability, Vfs};
use gannet_volume::client::{Addresses, File, Level, Piece, Shape, Siblings, VolumeFs};
use std::error::Error;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::rc::Rc;

#[allow(dead_code)] // the benchmark and a test use the rest
fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, key] = &arguments[..] else {
        return Err("usage: volume_io gannet://HOST[:PORT] CLIENT-KEY".into());
    };
    let address = address_of(url)?;
    run(address, Path::new(key))
}

/// Where the manager of a URL's volume is.
pub(crate) fn address_of(url: &str) -> Result<SocketAddr, Box<dyn Error>> {
    let url = gannet::url::Url::parse(url)?;
    let mut found = (url.host.as_str(), url.port).to_socket_addrs()?;
    found.next().ok_or_else(|| "the host has no address".into())
}

/// A client of the volume whose manager is at `address`.
pub(crate) fn connect(
    runtime: &Handle,
    address: SocketAddr,
    key: &Path,
) -> Result<VolumeFs, Box<dyn Error>> {
    let identity = ClientKey::load(key)?.client(Default::default());
    let addresses = Addresses {
        managers: vec![address],
        io_servers: Vec::new(),
    };
    let provider = IwarpProvider::new(Handle::clone(runtime), IwarpConfig::default());
    let siblings = Siblings::new(runtime.random());
    let clock = Handle::clone(runtime);
    Ok(VolumeFs::new(
        clock, provider, identity, addresses, siblings,
    ))
}

/// A new file in the volume's root, or the one that has this name.
pub(crate) async fn create(fs: &Rc<VolumeFs>, name: &str) -> Result<File, Box<dyn Error>> {
    let caller = Credentials::new(0, 0, &[]);
    let mode = CreateMode::Unchecked(SetAttributes {
        mode: Some(0o644),
        ..SetAttributes::default()
    });
    let made = fs.create(&caller, &fs.root(), name.as_bytes(), &mode).await;
    let handle = made.result?.handle;
    Ok(File::new(Rc::clone(fs), caller, handle))
}

/// All three.
pub(crate) fn run(address: SocketAddr, key: &Path) -> Result<(), Box<dyn Error>> {
    block_on(|runtime| async move {
        let fs = Rc::new(connect(&runtime, address, key)?);
        // Fails at once when there is no server; the calls below would wait for a server that is away.
        fs.volume().await?;
        contiguous(&fs).await?;
        tile(&fs).await?;
        list(&fs).await
    })?
}

/// A range of a file, in memory that stays registered.
async fn contiguous(fs: &Rc<VolumeFs>) -> Result<(), Box<dyn Error>> {
    let file = create(fs, "contiguous").await?;
    let len = 3_000_000;
    let mut buffer = fs.memory(len);
    buffer.fill(7);
    file.write_at(1000, &mut buffer, len, Stability::Unstable)
        .await?;
    file.sync().await?;
    buffer.fill(0);
    let read = file.read_at(1000, &mut buffer, len).await?;
    expect(read == len && buffer.iter().take(len).all(|byte| *byte == 7))?;
    println!("contiguous: {len} bytes written, made durable and read");
    Ok(())
}

/// A tile of 64 rows of 300 bytes out of an image of 1000 bytes a row: one request to each server.
async fn tile(fs: &Rc<VolumeFs>) -> Result<(), Box<dyn Error>> {
    let file = create(fs, "image").await?;
    let (width, rows, row) = (1000, 64, 300);
    let mut image = fs.memory(width * rows);
    for (at, byte) in image.iter_mut().enumerate() {
        // Of each byte, in which row of the image it is.
        *byte = (at / width) as u8;
    }
    file.write_at(0, &mut image, width * rows, Stability::FileSync)
        .await?;
    let first = Piece {
        offset: 200,
        len: row as u32,
    };
    let level = Level {
        count: rows as u32,
        stride: width as u64,
    };
    let in_file = Shape::nested(first, vec![level])?;
    let in_memory = Shape::contiguous(0, (row * rows) as u32)?;
    let mut tile = fs.memory(row * rows);
    file.read_shape(&in_file, &in_memory, &mut tile).await?;
    let right = |(at, byte): (usize, &u8)| *byte == (at / row) as u8;
    expect(tile.iter().take(row * rows).enumerate().all(right))?;
    println!("tile: {rows} rows of {row} bytes read");
    Ok(())
}

/// Pieces of any lengths, from places in memory to places in a file.
async fn list(fs: &Rc<VolumeFs>) -> Result<(), Box<dyn Error>> {
    let file = create(fs, "list").await?;
    let piece = |offset, len| Piece { offset, len };
    let in_memory = Shape::list(vec![piece(5000, 100), piece(0, 50), piece(9000, 1000)])?;
    let in_file = Shape::list(vec![piece(0, 60), piece(1 << 20, 1090)])?;
    let mut buffer = fs.memory(10_000);
    buffer
        .iter_mut()
        .zip(0u32..)
        .for_each(|(byte, at)| *byte = (at % 251) as u8);
    let stability = Stability::FileSync;
    file.write_shape(&in_file, &in_memory, &mut buffer, stability)
        .await?;
    let before = buffer.to_vec();
    buffer.fill(0);
    file.read_shape(&in_file, &in_memory, &mut buffer).await?;
    for piece in in_memory.pieces() {
        let (start, len) = (piece.offset as usize, piece.len as usize);
        expect(buffer.get(start..start + len) == before.get(start..start + len))?;
    }
    println!("list: 3 pieces of memory written to 2 of a file and read");
    Ok(())
}

fn expect(right: bool) -> Result<(), Box<dyn Error>> {
    if right {
        Ok(())
    } else {
        Err("what was read is not what was written".into())
    }
}
