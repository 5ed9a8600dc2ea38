//! The options of an adapter.

use crate::error::Fault;
use gannet::ProviderKind;
use gannet::rdma::{AdapterOptions, Engine, SenderOptions};
use std::ffi::c_int;

/// How the bytes of files get into a peer's memory.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum gannet_engine {
    /// Chosen by adapter and length.
    GANNET_AUTOMATIC,
    /// Copied to memory that stays registered.
    GANNET_STATIC,
    /// Read to memory that is registered for this use, one piece after the other.
    GANNET_DYNAMIC,
    /// The same, with several pieces under way.
    GANNET_PIPELINED,
    /// The file itself is the source.
    GANNET_SENDFILE,
}

/// The provider of an adapter's connections.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum gannet_provider {
    /// The software RNIC.
    GANNET_IWARP,
    /// An RDMA device.
    GANNET_VERBS,
    /// A device on the way to the peer, or else the software RNIC; listeners have both.
    GANNET_AUTO,
}

/// How an adapter and its connections work. Set by gannet_options_init, then changed.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct gannet_options {
    /// The provider of the connections: one of gannet_provider.
    pub provider: c_int,
    /// Asks for checksums on every connection of the software RNIC.
    pub crc: bool,
    /// An RDMA device does not pin registered memory, but fetches its pages when it needs them. A device without
    /// on-demand paging is refused.
    pub on_demand_paging: bool,
    /// How files are sent: one of gannet_engine.
    pub engine: c_int,
    /// Messages that a peer may have sent before the program has taken the first of them.
    pub receives: usize,
    /// Bytes of the longest message.
    pub message_max: usize,
    /// Pieces of a file that may be under way at a time.
    pub pipes: usize,
    /// Bytes of such a piece.
    pub pipe_len: usize,
    /// Bytes of memory that the pieces of a connection may take together.
    pub memory_max: usize,
}

impl Default for gannet_options {
    fn default() -> gannet_options {
        let AdapterOptions {
            provider: _,
            crc,
            on_demand_paging,
            receives,
            message_max,
            files,
        } = AdapterOptions::default();
        gannet_options {
            provider: gannet_provider::GANNET_IWARP as c_int,
            crc,
            on_demand_paging,
            engine: gannet_engine::GANNET_AUTOMATIC as c_int,
            receives,
            message_max,
            pipes: files.pipes,
            pipe_len: files.pipe_len,
            memory_max: files.memory_max,
        }
    }
}

/// Sets options to their defaults.
///
/// # Safety
/// `options` is null or has room.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gannet_options_init(options: *mut gannet_options) {
    // SAFETY: the caller keeps this function's contract.
    if let Some(options) = unsafe { options.as_mut() } {
        *options = gannet_options::default();
    }
}

impl gannet_options {
    /// The adapter's options.
    ///
    /// # Errors
    /// The engine is not one of [`gannet_engine`], the provider not one of [`gannet_provider`], or `receives` or
    /// `message_max` is 0.
    pub(crate) fn checked(&self) -> Result<AdapterOptions, Fault> {
        let options = self;
        let engines = [
            (gannet_engine::GANNET_AUTOMATIC, None),
            (gannet_engine::GANNET_STATIC, Some(Engine::Static)),
            (gannet_engine::GANNET_DYNAMIC, Some(Engine::Dynamic)),
            (gannet_engine::GANNET_PIPELINED, Some(Engine::Pipelined)),
            (gannet_engine::GANNET_SENDFILE, Some(Engine::Sendfile)),
        ];
        let mut engines = engines.into_iter();
        let found = engines.find(|(number, _)| *number as c_int == options.engine);
        let (_, engine) = found.ok_or_else(|| Fault::new("an engine is one of gannet_engine"))?;
        let providers = [
            (gannet_provider::GANNET_IWARP, ProviderKind::Iwarp),
            (gannet_provider::GANNET_VERBS, ProviderKind::Verbs),
            (gannet_provider::GANNET_AUTO, ProviderKind::Auto),
        ];
        let mut providers = providers.into_iter();
        let found = providers.find(|(number, _)| *number as c_int == options.provider);
        let (_, provider) =
            found.ok_or_else(|| Fault::new("a provider is one of gannet_provider"))?;
        if options.receives == 0 || options.message_max == 0 {
            return Err(Fault::new(
                "a connection needs receives, and bytes for them",
            ));
        }
        Ok(AdapterOptions {
            provider,
            crc: options.crc,
            on_demand_paging: options.on_demand_paging,
            receives: options.receives,
            message_max: options.message_max,
            files: SenderOptions {
                engine,
                pipes: options.pipes,
                pipe_len: options.pipe_len,
                memory_max: options.memory_max,
                ..SenderOptions::default()
            },
        })
    }
}
