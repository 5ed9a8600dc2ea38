//! One rank of the benchmark: its connection, its memory, and how its tile gets from one to the other.

use super::sieve::{Common, Extent};
use super::{Cell, Layout};
use crate::cli::{TileHow, TileOp, TileOptions};
use crate::failure::{Explain, Failure};
use crate::session;
use gannet::url::Url;
use gannet_runtime::{Buffer, Handle};
use gannet_vfs::{
    ByteLock, CreateMode, Credentials, FileHandle, LockKind, LockRequest, Locked, SetAttributes,
    Stability, Status, Vfs,
};
use gannet_volume::client::{File, Level, Piece, Shape, VolumeFs};
use gannet_wire::volume::PIECES_MAX;
use std::ops::Range;
use std::rc::Rc;

/// The file of all ranks.
const FILE: &[u8] = b"tiles";

/// A rank's file, and the memory of its tile.
pub(super) struct Rank {
    number: u64,
    folder: Url,
    options: TileOptions,
    fs: Rc<VolumeFs>,
    caller: Credentials,
    handle: FileHandle,
    file: File,
    /// The tile's rows, one behind the other.
    memory: Buffer,
    /// A window of data sieving; empty where nothing is sieved.
    window: Buffer,
}

/// Bytes of a tile, at most those of one transfer.
pub(super) fn tile_len(options: &TileOptions) -> usize {
    options.rows as usize * options.row as usize
}

/// What a rank writes, byte by byte.
fn byte_of(rank: u64, at: usize) -> u8 {
    let mixed = (rank << 40 | at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 56) as u8
}

impl Rank {
    /// Opens the file, writes the tile in either layout, and reads it in every way that is to be measured: what it takes
    /// to make its pages is not measured.
    pub(super) async fn open(
        runtime: &Handle,
        (folder, options): (&Url, &TileOptions),
        number: u64,
    ) -> Result<Rank, Failure> {
        let what = || format!("cannot make the file in {folder}");
        let (fs, caller) = session::open_volume(runtime, folder, &options.client).await?;
        let path: Vec<&[u8]> = folder.path.iter().map(Vec::as_slice).collect();
        let place = fs.resolve(&caller, &path).await.explain(what)?;
        let mode = CreateMode::Unchecked(SetAttributes {
            mode: Some(0o600),
            ..SetAttributes::default()
        });
        let made = fs.create(&caller, &place, FILE, &mode).await;
        let handle = made.result.explain(what)?.handle;
        let fs: Rc<VolumeFs> = Rc::new(fs);
        let sieves = options.how.contains(&TileHow::Sieve);
        if sieves && options.op.contains(&TileOp::Write) && !fs.is_coordinated() {
            let why = "its locks do not hold between clients, and sieving writes back what lies between rows";
            return Err(Failure::usage("cannot write by data sieving", why));
        }
        let mut rank = Rank {
            number,
            folder: folder.clone(),
            options: options.clone(),
            file: File::new(Rc::clone(&fs), caller.clone(), handle),
            memory: fs.memory(tile_len(options)),
            window: match sieves {
                true => fs.memory(options.sieve_buffer as usize),
                false => Buffer::zeroed(0),
            },
            fs,
            caller,
            handle,
        };
        for (at, byte) in rank.memory.iter_mut().enumerate() {
            *byte = byte_of(number, at);
        }
        for layout in [Layout::Apart, Layout::Interleaved] {
            let (op, how) = (TileOp::Write, TileHow::Nested);
            rank.move_tile(Cell { op, how, layout }).await?;
        }
        rank.check_all().await?;
        Ok(rank)
    }

    /// Reads the tile in every way that is measured: its bytes must be the rank's own.
    pub(super) async fn check_all(&mut self) -> Result<(), Failure> {
        for how in self.options.how.clone() {
            for layout in [Layout::Apart, Layout::Interleaved] {
                self.memory.fill(0);
                let op = TileOp::Read;
                self.move_tile(Cell { op, how, layout }).await?;
                let bytes = self.memory.iter().take(tile_len(&self.options));
                let wrong = bytes
                    .enumerate()
                    .find(|(at, byte)| **byte != byte_of(self.number, *at));
                if let Some((at, _)) = wrong {
                    let (number, name) = (self.number, how.name());
                    let what = format!("rank {number} reads by `{name}` what nobody wrote");
                    let why = format!("byte {at} of its tile is another one");
                    return Err(Failure::new(what, why));
                }
            }
        }
        Ok(())
    }

    fn extent(&self, layout: Layout) -> Extent {
        let TileOptions {
            rows, row, ranks, ..
        } = self.options;
        let (row, rows) = (u64::from(row), u64::from(rows));
        let stride = row * u64::from(ranks);
        let first = match layout {
            Layout::Interleaved => self.number * row,
            Layout::Apart => self.number * rows * stride,
        };
        Extent {
            first,
            stride,
            row,
            rows,
        }
    }

    /// Reads or writes the whole tile once.
    pub(super) async fn move_tile(&mut self, cell: Cell) -> Result<(), Failure> {
        let extent = self.extent(cell.layout);
        match (cell.how, cell.op) {
            (TileHow::Sieve, TileOp::Read) => self.sieve_out(extent).await,
            (TileHow::Sieve, TileOp::Write) => self.sieve_in(extent).await,
            _ => self.move_shapes(cell, extent).await,
        }
    }

    async fn move_shapes(&mut self, cell: Cell, extent: Extent) -> Result<(), Failure> {
        let (rows, len, stride) = (self.options.rows, self.options.row, extent.stride);
        let requests = match cell.how {
            TileHow::Rows => 1,
            TileHow::Lists => PIECES_MAX as u32,
            TileHow::Nested | TileHow::Sieve => rows,
        };
        let mut at = 0;
        while at < rows {
            let count = requests.min(rows - at);
            let offset = extent.first + u64::from(at) * stride;
            let file = match cell.how {
                TileHow::Lists => Shape::list(pieces((offset, len), stride, count)),
                TileHow::Rows | TileHow::Nested | TileHow::Sieve => {
                    let piece = Piece { offset, len };
                    Shape::nested(piece, vec![Level { count, stride }])
                }
            };
            let memory = Shape::contiguous(u64::from(at) * extent.row, count * len);
            let failed = || format!("cannot {} a tile in {}", cell.op.name(), self.folder);
            let (file, memory) = (file.explain(failed)?, memory.explain(failed)?);
            let moved = match cell.op {
                TileOp::Read => self.file.read_shape(&file, &memory, &mut self.memory).await,
                TileOp::Write => {
                    let (to, stability) = (&self.file, Stability::Unstable);
                    to.write_shape(&file, &memory, &mut self.memory, stability)
                        .await
                }
            };
            moved.explain(failed)?;
            at += count;
        }
        Ok(())
    }

    /// Reads windows, and picks the rows out of them.
    async fn sieve_out(&mut self, extent: Extent) -> Result<(), Failure> {
        for window in extent.windows(u64::from(self.options.sieve_buffer)) {
            self.read_window(&window).await?;
            for Common { at, tile, len } in extent.common(&window) {
                self.memory[tile..tile + len].copy_from_slice(&self.window[at..at + len]);
            }
        }
        Ok(())
    }

    /// Reads windows, patches the rows into them, and writes them back. Each is locked meanwhile: what lies between the
    /// rows is other ranks', who write it too.
    async fn sieve_in(&mut self, extent: Extent) -> Result<(), Failure> {
        for window in extent.windows(u64::from(self.options.sieve_buffer)) {
            self.lock(&window, LockRequest::Wait).await?;
            let patched = self.patch(extent, &window).await;
            let unlocked = self.lock(&window, LockRequest::Unlock).await;
            patched.and(unlocked)?;
        }
        Ok(())
    }

    async fn patch(&mut self, extent: Extent, window: &Range<u64>) -> Result<(), Failure> {
        self.read_window(window).await?;
        for Common { at, tile, len } in extent.common(window) {
            self.window[at..at + len].copy_from_slice(&self.memory[tile..tile + len]);
        }
        let what = || format!("cannot write a tile in {}", self.folder);
        let (len, stability) = (window_len(window), Stability::Unstable);
        let (to, buffer) = (&self.file, &mut self.window);
        let written = to.write_at(window.start, buffer, len, stability);
        written.await.explain(what)
    }

    /// Fills the window; behind the end of the file with zeros.
    async fn read_window(&mut self, window: &Range<u64>) -> Result<(), Failure> {
        let what = || format!("cannot read a tile in {}", self.folder);
        let len = window_len(window);
        let read = self.file.read_at(window.start, &mut self.window, len);
        let count = read.await.explain(what)?;
        self.window[count..len].fill(0);
        Ok(())
    }

    /// Locks the bytes of a window, waiting as long as it takes, or lets go of them.
    async fn lock(&self, window: &Range<u64>, request: LockRequest) -> Result<(), Failure> {
        let what = || format!("cannot lock a part of the file in {}", self.folder);
        let lock = ByteLock {
            owner: self.number,
            kind: LockKind::Exclusive,
            start: window.start,
            end: window.end - 1,
            process: std::process::id(),
        };
        loop {
            let locked = self.fs.lock(&self.caller, &self.handle, &lock, request);
            match locked.await.explain(what)? {
                Locked::Done => return Ok(()),
                Locked::Denied(_) => {}
                Locked::TooMany => return Err(Status::Jukebox).explain(what),
            }
        }
    }
}

/// Bytes of a window: at most those of the buffer.
fn window_len(window: &Range<u64>) -> usize {
    (window.end - window.start) as usize
}

fn pieces((offset, len): (u64, u32), stride: u64, count: u32) -> Vec<Piece> {
    let piece = |at| Piece {
        offset: offset + u64::from(at) * stride,
        len,
    };
    (0..count).map(piece).collect()
}
