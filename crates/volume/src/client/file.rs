//! A file of a volume, for programs: contiguous and list I/O on memory of their own.
//!
//! Memory is a [`Buffer`] of the caller's; one from [`VolumeFs::memory`] is registered with its first transfer and
//! never again. A [`Shape`] names bytes of the file, or of the buffer, piece by piece: a list of up to 128, or a row
//! that repeats in up to 4 levels (a tile is one level, a block of a volume two). Byte `n` of the one is byte `n` of
//! the other. However many pieces there are, each I/O server gets one request, and the buffer, which is all that the
//! pieces lie in, is registered once: the paper's list I/O with allocation hints. Pieces of several allocations go in
//! one request too ([`File::read_list`]), which registers each allocation once.
//!
//! Memory of the program, such as a `Vec` or a mapping, is registered for each transfer, or once for many of them
//! ([`VolumeFs::register`], [`File::read_registered`]).
//!
//! ```
//! use gannet_volume::client::{Level, Piece, Shape};
//!
//! // 768 rows of 1024 pixels of 3 bytes, out of an image whose rows are twice as long.
//! let row = Piece { offset: 0, len: 1024 * 3 };
//! let rows = Level { count: 768, stride: 2 * 1024 * 3 };
//! let tile = Shape::nested(row, vec![rows])?;
//! assert_eq!(tile.len(), 768 * 1024 * 3);
//! # Ok::<(), gannet_wire::xdr::XdrError>(())
//! ```

use super::RegisteredMemory;
use super::VolumeFs;
use super::file_system::bytes::{ByteRange, ClientMemory, TransferShapes};
use gannet_meta::limits::FILE_SIZE_MAX;
use gannet_runtime::Buffer;
use gannet_vfs::{Credentials, FileHandle, Stability, Status, Verifier, Vfs};
use gannet_wire::volume::{Piece, Shape, TRANSFER_MAX};
use std::cell::Cell;
use std::rc::Rc;
use thiserror::Error;

/// Why a file's bytes were not moved or not made durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum FileError {
    /// The manager or a server refused, or servers were away for too long. The status is NFSv3's.
    #[error("{0}")]
    Refused(Status),
    /// An I/O server restarted: data that were written since the last [`File::sync`] may be lost. Write them again.
    #[error("an I/O server restarted before what was written was durable: write it again")]
    Lost,
    /// The pieces in memory have not as many bytes as those of the file, or lie outside the buffer.
    #[error("the bytes in memory are not those of the file")]
    Shape,
}

impl From<Status> for FileError {
    fn from(status: Status) -> FileError {
        FileError::Refused(status)
    }
}

/// A file, and the caller for whom it is read and written. Any number of its calls may be under way at once, each with
/// a buffer of its own.
///
/// A call moves its buffer to where servers can reach it, and back; dropped before its end, it keeps the buffer, and
/// after an error of registration there is none. A buffer that comes back empty is gone.
pub struct File {
    fs: Rc<VolumeFs>,
    caller: Credentials,
    handle: FileHandle,
    /// The write verifier of the writes that are not yet durable.
    written: Cell<Written>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Written {
    Nothing,
    /// All writes were answered with this verifier.
    With(Verifier),
    /// Some were answered with another verifier than others, so data of some are lost.
    Lost,
}

impl File {
    /// The file of `handle`, as [`Vfs::lookup`] and [`Vfs::create`] of `fs` give it. The rights of
    /// `caller` are checked with each read and write.
    pub fn new(fs: Rc<VolumeFs>, caller: Credentials, handle: FileHandle) -> File {
        File {
            fs,
            caller,
            handle,
            written: Cell::new(Written::Nothing),
        }
    }

    /// Bytes of the file.
    ///
    /// # Errors
    /// See [`FileError`].
    pub async fn size(&self) -> Result<u64, FileError> {
        Ok(self.fs.attributes(&self.handle).await?.size)
    }

    /// Fills the first `len` bytes of `buffer` from `offset` of the file on; how many bytes there were. At most 64
    /// MiB come at a time, as many as one request moves.
    ///
    /// # Errors
    /// See [`FileError`]; what these bytes of the buffer hold is not known then.
    pub async fn read_at(
        &self,
        offset: u64,
        buffer: &mut Buffer,
        len: usize,
    ) -> Result<usize, FileError> {
        let len = len.min(buffer.len());
        let range = ByteRange {
            offset,
            count: part_of(len),
        };
        let read = self.fs.read_at(&self.caller, &self.handle, range, buffer);
        Ok(read.await?.count as usize)
    }

    /// Writes the first `len` bytes of `buffer` at `offset` of the file. All clients see them when this
    /// returns; they are durable as `stability` says or by [`File::sync`].
    ///
    /// # Errors
    /// See [`FileError`]; any of the bytes may have been written.
    pub async fn write_at(
        &self,
        offset: u64,
        buffer: &mut Buffer,
        len: usize,
        stability: Stability,
    ) -> Result<(), FileError> {
        let mut at = 0;
        while at < len {
            let part = part_of(len - at);
            let start = offset.checked_add(at as u64);
            let file = start.and_then(|start| Shape::contiguous(start, part).ok());
            let file = file.ok_or(FileError::Refused(Status::Fbig))?;
            let memory = Shape::contiguous(at as u64, part).map_err(|_| FileError::Shape)?;
            let shapes = TransferShapes { file, memory };
            let memory = ClientMemory::from(&mut *buffer);
            self.transfer(shapes, Some(stability), memory).await?;
            at += part as usize;
        }
        Ok(())
    }

    /// Reads the bytes of `file` to those of `memory`, which lie in `buffer`. Bytes behind the end of the file come as
    /// zeros.
    ///
    /// # Errors
    /// See [`FileError`]; what the bytes of `memory` hold is not known then.
    pub async fn read_shape(
        &self,
        file: &Shape,
        memory: &Shape,
        buffer: &mut Buffer,
    ) -> Result<(), FileError> {
        let shapes = TransferShapes {
            file: file.clone(),
            memory: memory.clone(),
        };
        self.transfer(shapes, None, buffer.into()).await
    }

    /// Writes the bytes of `memory`, which lie in `buffer`, to those of `file`; as [`File::write_at`].
    ///
    /// # Errors
    /// See [`FileError`]; any of the bytes may have been written.
    pub async fn write_shape(
        &self,
        file: &Shape,
        memory: &Shape,
        buffer: &mut Buffer,
        stability: Stability,
    ) -> Result<(), FileError> {
        let shapes = TransferShapes {
            file: file.clone(),
            memory: memory.clone(),
        };
        self.transfer(shapes, Some(stability), buffer.into()).await
    }

    /// Reads the bytes of `file` to pieces of several allocations, in one request to each server; otherwise as
    /// [`File::read_shape`]. Each allocation that has a piece is registered once, whole: rows that are parts of an
    /// array are pieces of one allocation, and not allocations of their own.
    ///
    /// # Errors
    /// See [`FileError`]; what the pieces hold is not known then.
    pub async fn read_list(
        &self,
        file: &Shape,
        memory: &[ParentPiece],
        parents: &mut [Buffer],
    ) -> Result<(), FileError> {
        let shapes = TransferShapes {
            file: file.clone(),
            memory: together(memory, parents)?,
        };
        self.transfer(shapes, None, ClientMemory::Own(parents))
            .await
    }

    /// Writes pieces of several allocations to the bytes of `file`; as [`File::read_list`] and [`File::write_at`].
    ///
    /// # Errors
    /// See [`FileError`]; any of the bytes may have been written.
    pub async fn write_list(
        &self,
        file: &Shape,
        memory: &[ParentPiece],
        parents: &mut [Buffer],
        stability: Stability,
    ) -> Result<(), FileError> {
        let shapes = TransferShapes {
            file: file.clone(),
            memory: together(memory, parents)?,
        };
        let memory = ClientMemory::Own(parents);
        self.transfer(shapes, Some(stability), memory).await
    }

    /// Reads `len` bytes from `offset` of the file on into memory that stays registered, from its byte `start` on.
    /// Returns the number of bytes read, which is less at the end of the file. At most 64 MiB come at a time. The rest
    /// of the `len` bytes may be overwritten.
    ///
    /// # Errors
    /// See [`FileError`]; what these bytes of the memory hold is not known then.
    pub async fn read_registered(
        &self,
        offset: u64,
        len: usize,
        memory: &RegisteredMemory,
        start: usize,
    ) -> Result<usize, FileError> {
        if start.checked_add(len).is_none_or(|end| end > memory.len()) {
            return Err(FileError::Shape);
        }
        let count = part_of(len);
        let range = ByteRange { offset, count };
        let (fs, caller) = (&self.fs, &self.caller);
        let read = fs.read_registered(caller, &self.handle, range, memory, start as u64);
        Ok(read.await? as usize)
    }

    /// Reads the bytes of `file` to those of `place` in memory that stays registered; as [`File::read_shape`].
    ///
    /// # Errors
    /// As [`File::read_shape`].
    pub async fn read_shape_registered(
        &self,
        file: &Shape,
        place: &Shape,
        memory: &RegisteredMemory,
    ) -> Result<(), FileError> {
        let shapes = TransferShapes {
            file: file.clone(),
            memory: place.clone(),
        };
        self.transfer(shapes, None, ClientMemory::Registered(memory))
            .await
    }

    /// Writes the bytes of `place` in memory that stays registered to those of `file`; as [`File::write_shape`].
    ///
    /// # Errors
    /// As [`File::write_shape`].
    pub async fn write_shape_registered(
        &self,
        file: &Shape,
        place: &Shape,
        memory: &RegisteredMemory,
        stability: Stability,
    ) -> Result<(), FileError> {
        let shapes = TransferShapes {
            file: file.clone(),
            memory: place.clone(),
        };
        self.transfer(shapes, Some(stability), ClientMemory::Registered(memory))
            .await
    }

    /// Makes durable what was written before.
    ///
    /// # Errors
    /// [`FileError::Lost`] when some data may be lost: reported once, for the writes since the last call.
    pub async fn sync(&self) -> Result<(), FileError> {
        let written = self.written.replace(Written::Nothing);
        let committed = self.fs.commit(&self.caller, &self.handle, 0, 0).await;
        match (written, committed.result) {
            (Written::Lost, _) => Err(FileError::Lost),
            (Written::With(verifier), Ok(done)) if done.verifier != verifier => {
                Err(FileError::Lost)
            }
            (_, Ok(_)) => Ok(()),
            (written, Err(status)) => {
                self.note(written);
                Err(FileError::Refused(status))
            }
        }
    }

    async fn transfer(
        &self,
        shapes: TransferShapes,
        stability: Option<Stability>,
        place: ClientMemory<'_>,
    ) -> Result<(), FileError> {
        let TransferShapes { file, memory } = &shapes;
        let held = match &place {
            ClientMemory::Own(parents) => parents.iter().map(|it| it.len() as u64).sum(),
            ClientMemory::Registered(memory) => memory.len() as u64,
        };
        if file.len() != memory.len() || memory.end() > held {
            return Err(FileError::Shape);
        }
        if file.end() > FILE_SIZE_MAX {
            return Err(FileError::Refused(Status::Fbig));
        }
        let (fs, caller) = (&self.fs, &self.caller);
        let moved = fs.move_shapes(caller, &self.handle, shapes, stability, place);
        let verifier = moved.await?;
        if stability == Some(Stability::Unstable) {
            self.note(Written::With(verifier));
        }
        Ok(())
    }

    /// Notes the verifier of one more write that is not durable.
    fn note(&self, more: Written) {
        let both = match (self.written.get(), more) {
            (Written::Nothing, one) | (one, Written::Nothing) => one,
            (one, other) if one == other => one,
            _ => Written::Lost,
        };
        self.written.set(both);
    }
}

/// Bytes of one allocation among several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParentPiece {
    /// The index of the allocation.
    pub parent: usize,
    /// The bytes in it.
    pub piece: Piece,
}

/// The pieces, as if the allocations lay one behind the other.
fn together(memory: &[ParentPiece], parents: &[Buffer]) -> Result<Shape, FileError> {
    let place = |it: &ParentPiece| {
        let own = parents.get(it.parent)?.len() as u64;
        let end = it.piece.end().filter(|end| *end <= own);
        let before: u64 = parents
            .iter()
            .take(it.parent)
            .map(|it| it.len() as u64)
            .sum();
        end.map(|_| Piece {
            offset: before + it.piece.offset,
            ..it.piece
        })
    };
    let pieces = memory.iter().map(place).collect::<Option<_>>();
    let pieces = pieces.ok_or(FileError::Shape)?;
    Shape::list(pieces).map_err(|_| FileError::Shape)
}

/// Bytes of `left` that go in one request.
fn part_of(left: usize) -> u32 {
    // TRANSFER_MAX fits.
    left.min(TRANSFER_MAX as usize) as u32
}
