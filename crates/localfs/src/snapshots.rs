//! Attributes that several operations of one core share.
//!
//! A core often executes many calls that came in one piece, and most of them are about few objects. All of them were
//! requested before the first is executed, and none is answered yet. So a look at an object in between is a right
//! answer for each: it lies between request and answer (linearizability). The server tells when the next piece came
//! ([`gannet_vfs::Vfs::requested_before`]). Each snapshot from before is useless then, since somebody may have seen a
//! change of the object before he made the next call.
//!
//! Only answers and checks of rights use a snapshot. An answer of the kernel to a later question, which is remembered
//! with the change time of a snapshot, is not older than that time. Changes, and data that later changes are compared
//! with, look anew.

use super::object::Object;
use super::tree::LocalTree;
use crate::limits::SNAPSHOTS_MAX;
use gannet_vfs::{Attributes, Status};
use std::cell::{Cell, RefCell};
use std::sync::{Arc, Weak};

/// The latest snapshots of one core, a place for each remainder of objects' numbers.
#[derive(Default)]
pub(crate) struct Snapshots {
    /// The moment before which all operations were requested; `None` while nobody tells.
    moment: Cell<Option<u64>>,
    /// Empty until the first one is taken.
    places: RefCell<Vec<Option<Snapshot>>>,
}

struct Snapshot {
    /// Not the number alone, which a later inode may have. It keeps the memory of the object, and not its descriptor.
    object: Weak<Object>,
    /// It was taken behind this moment, and before the next.
    moment: u64,
    attributes: Attributes,
}

impl Snapshots {
    /// All operations that began so far, and the next, were requested before this moment.
    pub(crate) fn requested_before(&self, moment: u64) {
        let last = self.moment.replace(Some(moment));
        debug_assert!(last <= Some(moment), "{last:?} before {moment}");
    }

    /// The attributes of an object, not older than the operations that are under way.
    ///
    /// # Errors
    /// As [`Object::attributes`].
    pub(crate) fn of(&self, object: &Arc<Object>, tree: &LocalTree) -> Result<Attributes, Status> {
        let Some(moment) = self.moment.get() else {
            return object.attributes(tree);
        };
        let mut places = self.places.borrow_mut();
        if places.is_empty() {
            places.resize_with(SNAPSHOTS_MAX, || None);
        }
        let index = object.number % SNAPSHOTS_MAX as u64;
        let Some(place) = places.get_mut(index as usize) else {
            return object.attributes(tree);
        };
        if let Some(known) = place
            && known.moment == moment
            && known.object.as_ptr() == Arc::as_ptr(object)
        {
            return Ok(known.attributes);
        }
        let attributes = object.attributes(tree)?;
        *place = Some(Snapshot {
            object: Arc::downgrade(object),
            moment,
            attributes,
        });
        Ok(attributes)
    }
}
