//! The choice of the engine for a range on one provider.

use crate::limits::COPY_FILE_MAX;
use crate::{EngineError, FileRange};
use gannet_fabric::registration::{Registered, Strategy};
use gannet_fabric::{Access, Capabilities, Endpoint, RegisterError, Scope};
use gannet_runtime::{Buffer, Handle, LocalFuture};
use std::io;
use std::rc::Rc;

/// The way of a range's bytes into a peer's memory (Dalessandro and Wyckoff 2007, section 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Engine {
    /// Copied into memory that stays registered, if the provider needs registered sources.
    Static,
    /// Read into memory that is registered for this use, sent, and deregistered, one piece after the other.
    Dynamic,
    /// As `Dynamic`, with several pieces under way: one is read and registered while others are sent.
    Pipelined,
    /// Sent from the file: the program neither copies nor maps it, and the provider chooses how its bytes leave.
    Sendfile,
}

/// The source to send for a range.
pub enum Ready {
    /// The file itself. If some of it is not in the page cache, the provider waits for the disk.
    File,
    /// The bytes, at the start of this memory.
    Memory(Buffer),
    /// A read from the disk that is under way, and its result: the bytes or the error.
    Cold(LocalFuture<io::Result<Buffer>>),
}

/// One provider's way for file bytes.
#[derive(Clone)]
pub struct Datapath {
    /// The provider's name.
    provider: &'static str,
    strategy: Rc<dyn Strategy>,
    /// File ranges can be sources of Writes. A provider whose sources must be registered does that for each use.
    file_sources: bool,
    /// Long ranges leave as files unless an operator has chosen otherwise.
    prefers_files: bool,
    /// Sources of Writes are registered, because they must be or by choice.
    needs_registration: bool,
    /// The engine for all ranges, if an operator has chosen one.
    chosen: Option<Engine>,
}

impl Datapath {
    /// The data path of a provider with these capabilities, whose memory `strategy` registers.
    pub fn new(capabilities: &Capabilities, strategy: Rc<dyn Strategy>) -> Datapath {
        Datapath {
            provider: capabilities.name,
            strategy,
            file_sources: capabilities.file_sources,
            // A copy to memory that stays registered saves the registration of each range.
            prefers_files: capabilities.file_sources && !capabilities.needs_local_registration,
            needs_registration: capabilities.needs_local_registration,
            chosen: None,
        }
    }

    /// The same, with one engine for all ranges that leave by Writes.
    ///
    /// # Errors
    /// [`EngineError::NoFiles`]; [`EngineError::Pipes`] for `Pipelined`: the ranges of a connection leave many at a
    /// time, and so pipeline each other already.
    pub fn with_engine(self, engine: Engine) -> Result<Datapath, EngineError> {
        match engine {
            Engine::Pipelined => Err(EngineError::Pipes),
            Engine::Sendfile if !self.file_sources => Err(EngineError::NoFiles {
                provider: self.provider,
            }),
            _ => Ok(Datapath {
                needs_registration: self.needs_registration || engine == Engine::Dynamic,
                chosen: Some(engine),
                ..self
            }),
        }
    }

    /// The engine for `len` bytes of a file.
    pub fn engine(&self, len: usize) -> Engine {
        if let Some(engine) = self.chosen {
            engine
        } else if self.prefers_files && len > COPY_FILE_MAX {
            Engine::Sendfile
        } else {
            Engine::Static
        }
    }

    /// Whether files are sources of Writes here, however short the range.
    pub fn sends_files(&self) -> bool {
        match self.chosen {
            Some(engine) => engine == Engine::Sendfile,
            None => self.prefers_files,
        }
    }

    /// Whether memory must be registered before it is the source of a Write.
    pub fn needs_registration(&self) -> bool {
        self.needs_registration
    }

    /// The strategy that registers memory.
    pub fn strategy(&self) -> &Rc<dyn Strategy> {
        &self.strategy
    }

    /// The source to write to a peer's memory for `range`. Never waits, and calls `memory` only for bytes that must be
    /// in memory.
    pub fn ready(
        &self,
        range: &FileRange,
        runtime: &Handle,
        memory: impl FnOnce(usize) -> Buffer,
    ) -> Ready {
        match self.engine(range.len) {
            Engine::Sendfile => Ready::File,
            // Memory that is no slot of an arena, so that every strategy registers it for this use.
            Engine::Dynamic => copied(range, runtime, false, Buffer::zeroed),
            Engine::Static | Engine::Pipelined => {
                let may_be_file = self.prefers_files && self.chosen.is_none();
                copied(range, runtime, may_be_file, memory)
            }
        }
    }

    /// The bytes of `range` for a message that holds them itself. Never waits.
    pub fn inline(
        range: &FileRange,
        runtime: &Handle,
        memory: impl FnOnce(usize) -> Buffer,
    ) -> Ready {
        copied(range, runtime, false, memory)
    }

    /// Makes `buffer` a source or sink of work on `endpoint`.
    ///
    /// # Errors
    /// Any [`RegisterError`]; the buffer is dropped then.
    pub fn register(
        &self,
        endpoint: &dyn Endpoint,
        buffer: Buffer,
    ) -> Result<Registered, RegisterError> {
        let scope = Scope::Endpoint(endpoint.id());
        Rc::clone(&self.strategy).register(buffer, Access::Local, scope)
    }
}

fn copied(
    range: &FileRange,
    runtime: &Handle,
    may_be_file: bool,
    memory: impl FnOnce(usize) -> Buffer,
) -> Ready {
    let mut buffer = memory(range.len);
    match range.copy(&mut buffer) {
        Ok(()) => Ready::Memory(buffer),
        // The provider can wait for the disk by itself.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock && may_be_file => Ready::File,
        // Not resident, or an error: the read on the pool reports the error.
        Err(_) => {
            let (range, runtime) = (range.clone(), Handle::clone(runtime));
            Ready::Cold(Box::pin(
                async move { range.read(&runtime, buffer, 0).await },
            ))
        }
    }
}
