//! Attributes that several operations of one core share.
//!
//! A core often executes many calls that came in one piece, and most of them are about few objects. All of them were
//! requested before the first is executed. So a look at an object in between is a right answer for each: it lies
//! between request and answer (linearizability). The server tells when the next piece came, or another connection has
//! its turn ([`gannet_vfs::Vfs::requested_before`]). Each snapshot from before is useless then: somebody may have seen
//! a change of the object before he made the next call, and rights may have ended before data was written that they
//! would give away.
//!
//! Where an answer has two looks, the second must not be older than the first. A name that is new in a directory may
//! name a file that was empty when another call looked at it.
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
    /// Looks so far.
    looks: Cell<u64>,
}

/// An object's attributes, and the number of the look that took them. Later looks have greater numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Look {
    pub(crate) attributes: Attributes,
    pub(crate) number: u64,
}

struct Snapshot {
    /// Not the number alone, which a later inode may have. It keeps the memory of the object, and not its descriptor.
    object: Weak<Object>,
    /// It was taken behind this moment, and before the next.
    moment: u64,
    look: Look,
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
        Ok(self.look_behind(0, object, tree)?.attributes)
    }

    /// As [`Snapshots::of`], and not older than the look with this number.
    ///
    /// # Errors
    /// As [`Object::attributes`].
    pub(crate) fn look_behind(
        &self,
        earlier: u64,
        object: &Arc<Object>,
        tree: &LocalTree,
    ) -> Result<Look, Status> {
        let anew = || {
            let number = self.looks.get() + 1;
            self.looks.set(number);
            let attributes = object.attributes(tree)?;
            Ok(Look { attributes, number })
        };
        let Some(moment) = self.moment.get() else {
            return anew();
        };
        let mut places = self.places.borrow_mut();
        if places.is_empty() {
            places.resize_with(SNAPSHOTS_MAX, || None);
        }
        let index = object.number % SNAPSHOTS_MAX as u64;
        let Some(place) = places.get_mut(index as usize) else {
            return anew();
        };
        if let Some(known) = place
            && known.moment == moment
            && known.look.number >= earlier
            && known.object.as_ptr() == Arc::as_ptr(object)
        {
            return Ok(known.look);
        }
        let look = anew()?;
        *place = Some(Snapshot {
            object: Arc::downgrade(object),
            moment,
            look,
        });
        Ok(look)
    }
}
