//! This side's memory of long transfers. An adapter in hardware moves bytes only to and from registered memory. So
//! slots of slabs are registered once and stay so (Wu, Wyckoff and Panda, section 3.3.2), and bytes of files are copied
//! there.

use super::{Link, Pool};
use gannet_datapath::Datapath;
use gannet_fabric::registration::{Registered, Registration, StrategyKind, Trust};
use gannet_fabric::{Access, Endpoint, Provider, RegisterError, Scope};
use gannet_runtime::{Buffer, Handle};
use std::cell::OnceCell;
use std::rc::Rc;

/// The way of file bytes over the connections of a core, chosen with its first provider.
pub(super) type Staging = Rc<OnceCell<Datapath>>;

impl Pool {
    /// Memory of this pool's connections is for `provider`'s adapter.
    pub(crate) fn serve(&self, provider: &dyn Provider, runtime: &Handle) {
        let capabilities = provider.capabilities();
        let stages = capabilities.needs_local_registration || !capabilities.file_sources;
        let kind = if stages {
            StrategyKind::ServerCache
        } else {
            StrategyKind::Dynamic
        };
        if let Ok(registration) = Registration::new(kind, Trust::Untrusted) {
            let strategy = || registration.over(provider.domain(), Handle::clone(runtime));
            self.staging
                .get_or_init(|| Datapath::new(&capabilities, strategy()));
        }
    }
}

impl Link {
    /// The way of file bytes, if they must be copied to registered memory before they leave.
    pub(crate) fn staging(&self) -> Option<(&Datapath, &dyn Endpoint)> {
        let path = self.shared.pool.staging.get();
        let path = path.filter(|path| !path.sends_files());
        path.map(|path| (path, &**self.endpoint()))
    }

    /// Registers `buffer` for work of this side, where the provider needs that.
    ///
    /// # Errors
    /// See [`RegisterError`]; the buffer is dropped then.
    pub(crate) fn register(&self, buffer: Buffer) -> Result<Registered, RegisterError> {
        let endpoint = &self.shared.endpoint;
        match self.shared.pool.staging.get() {
            Some(path) => path.register(&**endpoint, buffer),
            None => {
                let runtime = Handle::clone(&self.shared.runtime);
                let strategy = Registration::default().over(endpoint.domain(), runtime);
                strategy.register(buffer, Access::Local, Scope::Endpoint(endpoint.id()))
            }
        }
    }
}
