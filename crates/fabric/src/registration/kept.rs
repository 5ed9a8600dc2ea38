//! A registration that stays while a window over it is revoked.

use crate::Region;

/// Hands the registration on by [`Kept::take`]. Dropped before that, as with a release that nobody waits for, it is
/// forgotten as its strategy says.
pub(super) struct Kept<F: FnOnce(Region)> {
    region: Option<Region>,
    forget: Option<F>,
}

impl<F: FnOnce(Region)> Kept<F> {
    pub(super) fn new(region: Region, forget: F) -> Kept<F> {
        Kept {
            region: Some(region),
            forget: Some(forget),
        }
    }

    pub(super) fn take(mut self) -> Option<Region> {
        self.region.take()
    }
}

impl<F: FnOnce(Region)> Drop for Kept<F> {
    fn drop(&mut self) {
        if let Some((region, forget)) = self.region.take().zip(self.forget.take()) {
            forget(region);
        }
    }
}
