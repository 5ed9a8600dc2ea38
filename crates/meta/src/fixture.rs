//! Small stores, for the tests of what looks at them.

use super::namespace::{self, KeptFiles, Request};
use super::{MemoryStore, MetaStore, StoreError, Transaction, View};
use gannet_wire::volume::{
    AttributeChanges, Caller, CreateMode, FileId, LayoutRecord, Stripes, Timestamp,
};
use std::cell::RefCell;

/// Makes changes that hold.
pub(super) fn change(
    store: &MemoryStore,
    mut work: impl FnMut(&mut dyn Transaction) -> Result<(), StoreError>,
) {
    store.commit(&mut work).unwrap();
}

/// The result of `look` on a view of the store.
pub(super) fn seen<T>(store: &MemoryStore, mut look: impl FnMut(&dyn View) -> T) -> T {
    let mut seen = None;
    store.read(&mut |view| seen = Some(look(view))).unwrap();
    seen.unwrap()
}

/// A volume with an empty root directory, and what root does there.
pub(super) fn formatted(work: impl Fn(&mut dyn Transaction, Request<'_>)) -> MemoryStore {
    let store = MemoryStore::default();
    change(&store, |transaction| {
        let (caller, now) = (Caller::new(0, 0, &[]), Timestamp::default());
        let request = Request {
            caller: &caller,
            now,
            intents: &RefCell::default(),
            has_room: true,
            kept: &KeptFiles::default(),
        };
        namespace::format(transaction, now).unwrap();
        work(transaction, request);
        Ok(())
    });
    store
}

/// Makes an empty file in these groups.
pub(super) fn create(
    transaction: &mut dyn Transaction,
    request: Request<'_>,
    directory: FileId,
    name: &[u8],
    groups: &[u32],
) -> FileId {
    let mode = CreateMode::Guarded(AttributeChanges::default());
    let layout = &mut |_: Option<&Stripes>| LayoutRecord {
        unit: 4096,
        groups: groups.to_vec(),
    };
    let made = namespace::create(transaction, request, directory, name, &mode, layout);
    made.unwrap().id
}
