//! Ranges of files in the send queue: work whose bytes are on their way holds back what is behind it.

use super::{Connection, Memory, State};
use crate::files::{Arriving, SourceRange};
use gannet_fabric::{Disconnected, PostError, WorkError};
use gannet_runtime::run_blocking;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

impl Connection {
    /// The memory of a range: pages that are there, or bytes that arrive later.
    ///
    /// # Errors
    /// The kernel registers no pages of files for this device.
    pub(super) fn prepare_file(self: &Rc<Self>, range: SourceRange) -> Result<Memory, PostError> {
        if !self.core.maps_files {
            return Err(PostError::Invalid("the device reads no files"));
        }
        if range.len == 0 {
            return Ok(Memory::default());
        }
        let domain = Arc::clone(&self.core.protection);
        if let Some(bytes) = range.at_once(&domain) {
            self.core.domain.count(|stats| bytes.count(stats));
            let piece = bytes.piece(range.len);
            let file = Some(bytes);
            return Ok(Memory {
                piece,
                file,
                ..Memory::default()
            });
        }
        let (arriving, file_len) = (Arriving::default(), range.len);
        let (fetched, connection) = (arriving.clone(), Rc::downgrade(self));
        let runtime = Rc::clone(&self.core.runtime);
        let fetching = async move {
            let bytes = run_blocking(&runtime, move || range.fetch(&domain)).await;
            let stopped = |_| Err(io::ErrorKind::BrokenPipe.into());
            let bytes = bytes.unwrap_or_else(stopped);
            let connection = connection.upgrade();
            if let (Ok(bytes), Some(connection)) = (&bytes, &connection) {
                connection.core.domain.count(|stats| bytes.count(stats));
            }
            fetched.arrive(bytes);
            if let Some(connection) = connection {
                connection.core.start_later(&connection);
            }
        };
        let runtime = &self.core.runtime;
        runtime.spawn("verbs file", Box::pin(fetching));
        Ok(Memory {
            arriving: Some(arriving),
            file_len,
            ..Memory::default()
        })
    }

    /// Gives queued work the bytes that have arrived. Returns the number of pieces at the front that are ready.
    ///
    /// # Errors
    /// A file failed. Later work must not overtake its work, so the connection ends.
    pub(super) fn gather(state: &mut State) -> Result<usize, Disconnected> {
        for index in 0..state.queued.len() {
            let work = &mut state.queued[index];
            let Some(arriving) = &work.memory.arriving else {
                continue;
            };
            match arriving.take() {
                None => return Ok(index),
                Some(Ok(bytes)) => {
                    work.memory.piece = bytes.piece(work.memory.file_len);
                    work.memory.file = Some(bytes);
                    work.memory.arriving = None;
                }
                Some(Err(error)) => {
                    tracing::warn!(%error, "a file behind a Write failed");
                    // Before the flush of the rest, so that the poster sees the cause first.
                    let work = state.queued.remove(index);
                    state.occupied -= 1;
                    let failed = Err(WorkError::File(error.kind()));
                    state.completions.extend(work.end(failed));
                    return Err(Disconnected::Local);
                }
            }
        }
        Ok(state.queued.len())
    }
}
