//! The RDMA Writes that put bytes into a peer's memory.

use crate::limits::FILE_STAGED_MAX;
use crate::{Datapath, FileRange};
use gannet_fabric::registration::Registered;
use gannet_fabric::{Endpoint, RegisterError, RemoteAddress, Source};
use gannet_runtime::Buffer;

/// A part of a source, and its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Bytes of the source before it.
    pub offset: u64,
    /// Length of the part in bytes.
    pub len: u32,
    /// Its first byte in the peer's memory.
    pub target: RemoteAddress,
}

/// RDMA Writes of one message, with their sources until they have left.
#[derive(Default)]
pub struct Writes {
    /// The RDMA Writes, in the order in which they are to be posted.
    pub work: Vec<(Source, RemoteAddress)>,
    /// Their registered sources. Drop them only after the Writes have completed: the drop deregisters the memory.
    pub sources: Vec<Registered>,
    /// Bytes of memory that they take.
    pub memory: usize,
}

impl Writes {
    /// Adds parts of a file range.
    pub fn put_file(&mut self, range: &FileRange, parts: impl IntoIterator<Item = Part>) {
        self.memory += range.memory().max(range.len.min(FILE_STAGED_MAX));
        let work = parts.into_iter();
        let work = work.map(|part| (range.source(part.offset, part.len), part.target));
        self.work.extend(work);
    }

    /// Adds parts of a buffer, which is registered if it must be.
    ///
    /// # Errors
    /// Any [`RegisterError`]; the buffer is dropped then.
    pub fn put_buffer(
        &mut self,
        path: &Datapath,
        endpoint: &dyn Endpoint,
        buffer: Buffer,
        parts: &[Part],
    ) -> Result<(), RegisterError> {
        self.memory += buffer.len();
        if let ([part], false) = (parts, path.needs_registration())
            && part.offset == 0
        {
            let source = Source::Buffer {
                buffer,
                len: part.len,
            };
            self.work.push((source, part.target));
            return Ok(());
        }
        let source = path.register(endpoint, buffer)?;
        let spans = parts.iter();
        let spans = spans.map(|part| (source.span(part.offset, part.len), part.target));
        self.work
            .extend(spans.map(|(span, target)| (Source::Span(span), target)));
        self.sources.push(source);
        Ok(())
    }
}
