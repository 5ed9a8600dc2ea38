//! The options of a sender, and their check against its provider.

use crate::Engine;
use crate::limits::{
    COPY_FILE_MAX, PIPE_LEN, PIPES, REGISTER_FILE_MIN, SENDER_MEMORY_MAX, STALLED_AFTER,
};
use gannet_fabric::Capabilities;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;
use thiserror::Error;

/// The options of a [`crate::FileSender`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SenderOptions {
    /// The engine; `None` chooses one for each range, see [`Engine::choose`].
    pub engine: Option<Engine>,
    /// Pieces of a file that may be under way at a time, at least 1. [`Engine::Dynamic`] has one.
    pub pipes: usize,
    /// Bytes of such a piece, at least 1.
    pub pipe_len: usize,
    /// Bytes of memory that all pieces under way may take, at least 1. It bounds the two above.
    pub memory_max: usize,
    /// A peer that takes no byte for this long has failed.
    pub stalled_after: Duration,
}

impl Default for SenderOptions {
    fn default() -> SenderOptions {
        SenderOptions {
            engine: None,
            pipes: PIPES,
            pipe_len: PIPE_LEN,
            memory_max: SENDER_MEMORY_MAX,
            stalled_after: STALLED_AFTER,
        }
    }
}

/// Why an engine or its options cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EngineError {
    /// No engine has this name.
    #[error("no engine is called {0:?} (use static, dynamic, pipelined or sendfile)")]
    Unknown(String),
    /// The provider does not have it.
    #[error("{provider} cannot take bytes from a file: use static, dynamic or pipelined")]
    NoFiles {
        /// The provider's name.
        provider: &'static str,
    },
    /// `Pipelined` for a server that answers many requests at a time: they are the pipes.
    #[error("the requests of a connection are its pipes: use static, dynamic or sendfile")]
    Pipes,
    /// Pipes, their length and their memory must be 1 at least.
    #[error("a sender needs a pipe, and memory for a byte at least")]
    NoMemory,
}

impl SenderOptions {
    /// The options with pipes bounded by their memory.
    ///
    /// # Errors
    /// [`EngineError::NoFiles`], [`EngineError::NoMemory`].
    pub(crate) fn checked(self, capabilities: &Capabilities) -> Result<SenderOptions, EngineError> {
        if self.pipes == 0 || self.pipe_len == 0 || self.memory_max == 0 {
            return Err(EngineError::NoMemory);
        }
        if let Some(engine) = self.engine {
            engine.check(capabilities)?;
        }
        let most = usize::try_from(capabilities.message_max).unwrap_or(usize::MAX);
        let pipe_len = self.pipe_len.min(self.memory_max).min(most.max(1));
        Ok(SenderOptions {
            pipe_len,
            pipes: self.pipes.min(self.memory_max / pipe_len),
            ..self
        })
    }

    /// Pieces that `engine` may have under way.
    pub(crate) fn pipes_of(&self, engine: Engine) -> usize {
        match engine {
            Engine::Dynamic => 1,
            _ => self.pipes,
        }
    }
}

impl Engine {
    /// All of them, in the paper's order.
    pub const ALL: [Engine; 4] = [
        Engine::Static,
        Engine::Dynamic,
        Engine::Pipelined,
        Engine::Sendfile,
    ];

    /// Its name on the command line and in tables.
    pub fn name(self) -> &'static str {
        match self {
            Engine::Static => "static",
            Engine::Dynamic => "dynamic",
            Engine::Pipelined => "pipelined",
            Engine::Sendfile => "sendfile",
        }
    }

    /// Whether a provider has it.
    ///
    /// # Errors
    /// [`EngineError::NoFiles`].
    pub fn check(self, capabilities: &Capabilities) -> Result<(), EngineError> {
        if self == Engine::Sendfile && !capabilities.file_sources {
            return Err(EngineError::NoFiles {
                provider: capabilities.name,
            });
        }
        Ok(())
    }

    /// The engine for `len` bytes on a provider with these capabilities.
    ///
    /// Short ranges are copied: that costs less than registering them, or than a system call of their own. Long ones
    /// are taken from the file where the provider can; else pipes hide their registration.
    pub fn choose(capabilities: &Capabilities, len: usize) -> Engine {
        let copied_max = if capabilities.needs_local_registration {
            REGISTER_FILE_MIN
        } else {
            COPY_FILE_MAX
        };
        if len <= copied_max {
            Engine::Static
        } else if capabilities.file_sources {
            Engine::Sendfile
        } else if capabilities.needs_local_registration {
            Engine::Pipelined
        } else {
            Engine::Static
        }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Engine {
    type Err = EngineError;

    fn from_str(name: &str) -> Result<Engine, EngineError> {
        let found = Engine::ALL.into_iter().find(|engine| engine.name() == name);
        found.ok_or_else(|| EngineError::Unknown(name.to_owned()))
    }
}
