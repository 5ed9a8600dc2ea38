//! The stores of a core: its own fronts of the directories, or clients of the volume, one for each export.

use super::Content;
#[cfg(feature = "volumes")]
use super::VolumeClients;
use gannet_localfs::{LocalStore, LocalTree};
use gannet_nfs::server::Export;
use gannet_runtime::Handle;
#[cfg(feature = "volumes")]
use gannet_volume::client::{ClientCounters, ClientWatch, VolumeFs};
use std::cell::RefCell;
use std::collections::BTreeMap;
#[cfg(feature = "volumes")]
use std::collections::BTreeSet;
#[cfg(feature = "volumes")]
use std::ops::Add;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Opens the stores of exports, again and again.
pub(super) trait OpenStores<V> {
    /// The exports of `content`, each with a new store, or without one where that of an earlier call serves the same.
    /// `None` for content of another kind, and where a store cannot be opened; the log has the reason.
    fn open(&self, content: &Content) -> Option<Vec<(Export, Option<V>)>>;

    /// The counters of the clients of a volume among the stores, if they are such clients.
    #[cfg(feature = "volumes")]
    fn volume_counters(&self) -> Option<ClientCounters> {
        None
    }

    /// How long they have had no manager of their volume; `None` while they need none, or have one.
    fn manager_silent_for(&self) -> Option<Duration> {
        None
    }
}

/// Fronts of directories.
pub(super) struct Stores {
    runtime: Handle,
    /// The directories that are served, by the paths of their exports.
    open: RefCell<BTreeMap<String, Arc<LocalTree>>>,
}

impl Stores {
    pub(super) fn new(runtime: &Handle) -> Stores {
        Stores {
            runtime: Rc::clone(runtime),
            open: RefCell::default(),
        }
    }
}

impl OpenStores<LocalStore> for Stores {
    fn open(&self, content: &Content) -> Option<Vec<(Export, Option<LocalStore>)>> {
        let Content::Directories(exports) = content else {
            return None;
        };
        let open = self.open.take();
        let opened = exports.iter().map(|(export, tree)| {
            let path = export.path().to_owned();
            let is_same = open.get(&path).is_some_and(|it| Arc::ptr_eq(it, tree));
            self.open.borrow_mut().insert(path, Arc::clone(tree));
            let front = || LocalStore::new(Arc::clone(tree), Rc::clone(&self.runtime));
            (export.clone(), (!is_same).then(front))
        });
        Some(opened.collect())
    }
}

/// Clients of a volume.
#[cfg(feature = "volumes")]
pub(super) struct VolumeStores {
    runtime: Handle,
    client: VolumeClients,
    /// The paths of the exports that are served.
    open: RefCell<BTreeSet<String>>,
    /// All clients so far: sums never fall.
    watches: RefCell<Vec<ClientWatch>>,
}

#[cfg(feature = "volumes")]
impl VolumeStores {
    pub(super) fn new(runtime: &Handle, client: &VolumeClients) -> VolumeStores {
        VolumeStores {
            runtime: Rc::clone(runtime),
            client: Arc::clone(client),
            open: RefCell::default(),
            watches: RefCell::default(),
        }
    }
}

#[cfg(feature = "volumes")]
impl OpenStores<VolumeFs> for VolumeStores {
    fn open(&self, content: &Content) -> Option<Vec<(Export, Option<VolumeFs>)>> {
        let Content::Volume(exports, _) = content else {
            return None;
        };
        let mut opened = Vec::with_capacity(exports.len());
        for export in exports {
            if self.open.borrow().contains(export.path()) {
                opened.push((export.clone(), None));
                continue;
            }
            match (self.client)(Rc::clone(&self.runtime)) {
                Ok(client) => {
                    self.watches.borrow_mut().push(client.watch());
                    opened.push((export.clone(), Some(client)));
                }
                Err(error) => {
                    tracing::error!(%error, "a core does not serve other exports of the volume");
                    return None;
                }
            }
        }
        let paths = exports.iter().map(|export| export.path().to_owned());
        self.open.replace(paths.collect());
        Some(opened)
    }

    fn volume_counters(&self) -> Option<ClientCounters> {
        let watches = self.watches.borrow();
        let counters = watches.iter().map(ClientWatch::counters);
        Some(counters.fold(ClientCounters::default(), Add::add))
    }

    fn manager_silent_for(&self) -> Option<Duration> {
        // One connection is enough to know: all go to the same managers.
        self.watches.borrow().first()?.manager_silent_for()
    }
}
