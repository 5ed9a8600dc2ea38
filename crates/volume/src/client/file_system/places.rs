//! Places of changes behind those of the same things that were asked for before.

use super::VolumeFs;
use crate::calls::{Call, Entry};
use crate::client::order::{Part, Place};
use crate::client::trouble::Trouble;
use gannet_runtime::timeout;
use gannet_vfs::Status;

impl VolumeFs {
    /// The place of a change of these parts behind those that were asked for before, once they are over.
    ///
    /// # Errors
    /// `Jukebox` when they last longer than an operation is tried, or are too many.
    pub(super) async fn place_of(&self, parts: &[Part]) -> Result<Place<'_>, Status> {
        // Who has no place must not wait: what comes later would go before him.
        let entered = self.siblings.changes.enter(parts);
        let (place, earlier) =
            entered.map_err(|too_many| self.trouble.note_if_none(&too_many.into()))?;
        if !earlier.is_empty() {
            let over = timeout(&self.runtime, self.patience, earlier.over());
            over.await
                .map_err(|_| self.trouble.note_if_none(&Trouble::Behind))?;
            place.begins();
        }
        Ok(place)
    }
}

/// What a change of the manager's is of. Bytes are not among it: whoever cuts a file has its place among those already.
pub(super) fn parts_of(change: &Call) -> Vec<Part> {
    let name = |(directory, name): &Entry| Part::name(*directory, name);
    match change {
        Call::Setattr(file, ..) | Call::Stripes(file, _) => vec![Part::attributes(*file)],
        Call::Create(entry, _)
        | Call::CreateStriped(entry, ..)
        | Call::Mkdir(entry, _)
        | Call::Symlink(entry, ..)
        | Call::Mknod(entry, ..)
        | Call::Remove(entry)
        | Call::Rmdir(entry)
        | Call::Link(_, entry) => vec![name(entry)],
        Call::Rename(from, to) => vec![name(from), name(to)],
        // Questions.
        _ => Vec::new(),
    }
}
