//! The software RNIC, as clients and servers use it.

use gannet_iwarp::{IwarpConfig, IwarpProvider};
use gannet_runtime::Handle;
use std::rc::Rc;

/// A provider for the core of `runtime`; with MPA CRCs if `crc` asks for them, or the peer does.
pub(crate) fn provider(runtime: &Handle, crc: bool) -> Rc<IwarpProvider> {
    let config = IwarpConfig {
        crc,
        ..IwarpConfig::default()
    };
    IwarpProvider::new(Handle::clone(runtime), config)
}
