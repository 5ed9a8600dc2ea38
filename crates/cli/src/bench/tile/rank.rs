//! One rank of the benchmark: its connection, its memory, and how its tile gets from one to the other.

use super::sieve::{Common, Extent};
use super::{Cell, Layout, Way, ways};
use crate::cli::{TileHints, TileHow, TileOp, TileOptions};
use crate::failure::{Explain, Failure};
use crate::session;
use gannet::url::Url;
use gannet_runtime::{Buffer, Handle};
use gannet_vfs::{
    ByteLock, CreateMode, Credentials, FileHandle, LockKind, LockRequest, Locked, SetAttributes,
    Stability, Status, Vfs,
};
use gannet_volume::client::{File, Level, ParentPiece, Piece, PinDownCounters, Shape, VolumeFs};
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
    /// The same rows, each in an allocation of its own; none where hints are never off.
    apart: Vec<Buffer>,
    /// A window of data sieving; empty where nothing is sieved.
    window: Buffer,
}

/// Bytes of a tile, at most those of one transfer.
pub(super) fn tile_len(options: &TileOptions) -> usize {
    options.rows as usize * options.row as usize
}

/// The byte that a rank writes at a position.
fn byte_of(rank: u64, at: usize) -> u8 {
    let mixed = (rank << 40 | at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 56) as u8
}

impl Rank {
    /// Opens the file, writes the tile in either layout, and reads it in every way that is to be measured. The time to
    /// make its pages is not measured.
    pub(super) async fn open(
        runtime: &Handle,
        folder: &Url,
        options: &TileOptions,
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
            let why = "sieving rewrites the bytes between rows, and file locks do not hold between clients here";
            return Err(Failure::usage("cannot write by data sieving", why));
        }
        let mut rank = Rank {
            number,
            folder: folder.clone(),
            options: options.clone(),
            file: File::new(Rc::clone(&fs), caller.clone(), handle),
            memory: fs.memory(tile_len(options)),
            apart: if options.hints.contains(&TileHints::Off) {
                (0..options.rows)
                    .map(|_| fs.memory(options.row as usize))
                    .collect()
            } else {
                Vec::new()
            },
            window: if sieves {
                fs.memory(options.sieve_buffer as usize)
            } else {
                Buffer::zeroed(0)
            },
            fs,
            caller,
            handle,
        };
        for (at, byte) in rank.memory.iter_mut().enumerate() {
            *byte = byte_of(number, at);
        }
        for (row, bytes) in rank.apart.iter_mut().enumerate() {
            for (at, byte) in bytes.iter_mut().take(options.row as usize).enumerate() {
                *byte = byte_of(number, row * options.row as usize + at);
            }
        }
        for layout in [Layout::Apart, Layout::Interleaved] {
            let way = Way {
                op: TileOp::Write,
                how: TileHow::Nested,
                hints: TileHints::On,
            };
            rank.move_tile(Cell { way, layout }).await?;
        }
        rank.check_all().await?;
        Ok(rank)
    }

    /// The counters of its client's memory registration.
    pub(super) fn counters(&self) -> PinDownCounters {
        self.fs.pin_down_counters()
    }

    /// Reads the tile in every way that is measured: its bytes must be the rank's own.
    pub(super) async fn check_all(&mut self) -> Result<(), Failure> {
        for way in ways(&self.options) {
            for layout in [Layout::Apart, Layout::Interleaved] {
                self.memory.fill(0);
                self.apart.iter_mut().for_each(|row| row.fill(0));
                let op = TileOp::Read;
                let way = Way { op, ..way };
                self.move_tile(Cell { way, layout }).await?;
                self.check(way)?;
            }
        }
        Ok(())
    }

    /// Looks at the bytes that were read.
    fn check(&self, way: Way) -> Result<(), Failure> {
        let (number, len) = (self.number, self.options.row as usize);
        let is_wrong = |row: usize, bytes: &[u8]| {
            let mut bytes = bytes.iter().enumerate();
            bytes.any(|(at, byte)| *byte != byte_of(number, row * len + at))
        };
        let memory = &self.memory[..tile_len(&self.options)];
        let wrong = match way.hints {
            TileHints::On => memory
                .chunks(len)
                .enumerate()
                .find(|(row, it)| is_wrong(*row, it))
                .map(|it| it.0),
            TileHints::Off => (self.apart.iter().enumerate())
                .find(|(row, it)| is_wrong(*row, &it[..len]))
                .map(|it| it.0),
        };
        match wrong {
            None => Ok(()),
            Some(row) => {
                let name = way.how.name();
                let what = format!("rank {number} read wrong data by `{name}`");
                Err(Failure::new(
                    what,
                    format!("row {row} of its tile differs from what was written"),
                ))
            }
        }
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
        match (cell.way.how, cell.way.op) {
            (TileHow::Sieve, TileOp::Read) => self.sieve_out(extent).await,
            (TileHow::Sieve, TileOp::Write) => self.sieve_in(extent).await,
            _ => self.move_shapes(cell.way, extent).await,
        }
    }

    async fn move_shapes(&mut self, way: Way, extent: Extent) -> Result<(), Failure> {
        let (rows, len, stride) = (self.options.rows, self.options.row, extent.stride);
        let requests = match way.how {
            TileHow::Rows => 1,
            TileHow::Lists => PIECES_MAX as u32,
            TileHow::Nested | TileHow::Sieve => rows,
        };
        let mut at = 0;
        while at < rows {
            let count = requests.min(rows - at);
            let offset = extent.first + u64::from(at) * stride;
            let first = Piece { offset, len };
            let file = match way.how {
                TileHow::Lists => Shape::list(pieces(first, stride, count)),
                TileHow::Rows | TileHow::Nested | TileHow::Sieve => {
                    Shape::nested(first, vec![Level { count, stride }])
                }
            };
            let failed = || format!("cannot {} a tile in {}", way.op.name(), self.folder);
            let file = file.explain(failed)?;
            let moved = match way.hints {
                TileHints::On => {
                    let memory = Shape::contiguous(u64::from(at) * extent.row, count * len);
                    let (memory, buffer) = (memory.explain(failed)?, &mut self.memory);
                    match way.op {
                        TileOp::Read => self.file.read_shape(&file, &memory, buffer).await,
                        TileOp::Write => {
                            let (to, stability) = (&self.file, Stability::Unstable);
                            to.write_shape(&file, &memory, buffer, stability).await
                        }
                    }
                }
                TileHints::Off => {
                    let rows = at as usize..(at + count) as usize;
                    let piece = Piece { offset: 0, len };
                    let pieces = 0..rows.len();
                    let memory: Vec<_> =
                        pieces.map(|parent| ParentPiece { parent, piece }).collect();
                    let parents = &mut self.apart[rows];
                    match way.op {
                        TileOp::Read => self.file.read_list(&file, &memory, parents).await,
                        TileOp::Write => {
                            let (to, stability) = (&self.file, Stability::Unstable);
                            to.write_list(&file, &memory, parents, stability).await
                        }
                    }
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

    /// Reads windows, patches the rows into them, and writes them back. A window is locked meanwhile, since the
    /// bytes between its rows belong to other ranks, which write them too.
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

/// `count` pieces as long as `first`, each `stride` bytes after the one before it.
fn pieces(first: Piece, stride: u64, count: u32) -> Vec<Piece> {
    let piece = |at| Piece {
        offset: first.offset + u64::from(at) * stride,
        len: first.len,
    };
    (0..count).map(piece).collect()
}
