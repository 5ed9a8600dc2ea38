//! The orphan check: which objects of I/O servers belong to no file. This module alone decides what may be removed.

use super::inode_allocator::NeverMade;
use super::namespace::{self, Failure, Outcome, split_listing_key};
use super::{Table, View};
use crate::groups::Groups;
use crate::limits::{NAMES_AT_A_TIME, ORPHAN_AGE_MIN};
use gannet_wire::volume::{Body, FileId, ObjectId, OrphanStatus, ROOT};
use std::collections::HashSet;
use std::time::Duration;

/// The facts of a volume that the check of an object needs: its intents and the numbers that no file had.
pub struct OrphanCheck<'a> {
    groups: &'a Groups,
    /// Files with intents that are not done.
    pending: HashSet<FileId>,
    never_made: NeverMade,
}

impl OrphanCheck<'_> {
    /// Looks at the volume, whose groups are these.
    ///
    /// # Errors
    /// `Failure::Store`: the store failed. `Failure::Damaged`: one of its values cannot be decoded. No object may be
    /// removed then.
    pub fn new<'a>(view: &dyn View, groups: &'a Groups) -> Outcome<OrphanCheck<'a>> {
        let open = namespace::intents(view)?;
        Ok(OrphanCheck {
            groups,
            pending: open.iter().map(|(_, intent)| intent.file()).collect(),
            never_made: NeverMade::new(view)?,
        })
    }

    /// The statuses of objects, each on an I/O server, by metadata alone; `None` if there is no such file any
    /// more, see [`status_by_age`]. Looks at all names where inodes are missing.
    ///
    /// # Errors
    /// The store failed, or names are damaged; or, for a single object, the file's inode is: then its status is
    /// unknown.
    pub fn statuses(
        &self,
        view: &dyn View,
        objects: &[(u32, ObjectId)],
    ) -> Outcome<Vec<Outcome<Option<OrphanStatus>>>> {
        let found = self.by_inodes(view, objects);
        let mut names = NameSearch::new(objects, &found);
        while names.step(view)? {}
        Ok(names.finish(objects, found))
    }

    /// The statuses of these objects by inodes alone; names are the other half, see [`NameSearch`].
    pub fn by_inodes(&self, view: &dyn View, objects: &[(u32, ObjectId)]) -> Vec<Outcome<ByInode>> {
        let found = objects
            .iter()
            .map(|(server, object)| self.by_inode(view, *server, *object));
        found.collect()
    }

    fn by_inode(&self, view: &dyn View, server: u32, object: ObjectId) -> Outcome<ByInode> {
        let file = FileId(object.file);
        let found = match namespace::inode(view, file) {
            Ok(inode) => Some(inode),
            Err(Failure::Status(_)) => None,
            Err(failure) => return Err(failure),
        };
        let is_missing = found.is_none();
        let lies_there = found.is_some_and(|inode| match inode.body {
            Body::Regular { layout, .. } => self.groups.has_object(&layout, object.group, server),
            _ => false,
        });
        Ok(match () {
            () if lies_there => ByInode::Known(OrphanStatus::InUse),
            () if self.pending.contains(&file) => ByInode::Known(OrphanStatus::Pending),
            () if self.never_made.contains(file) => ByInode::Known(OrphanStatus::NeverMade),
            () if is_missing => ByInode::Missing,
            () => ByInode::Elsewhere,
        })
    }
}

/// The state of an object's file, by its inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ByInode {
    /// The status is known: no name changes it.
    Known(OrphanStatus),
    /// The file exists, and has no such object on the object's I/O server.
    Elsewhere,
    /// The file has no inode; it does not exist if it has no name either.
    Missing,
}

/// Looks for names of files that are missing, some names at a time: changes of a served volume wait for each look.
pub struct NameSearch {
    missing: HashSet<FileId>,
    named: HashSet<FileId>,
    /// The first name that was not looked at.
    next: Option<Vec<u8>>,
}

impl NameSearch {
    /// A search for names of those files of `objects` that are missing.
    pub fn new(objects: &[(u32, ObjectId)], found: &[Outcome<ByInode>]) -> NameSearch {
        let pairs = objects.iter().zip(found);
        let missing = pairs.filter(|(_, found)| matches!(found, Ok(ByInode::Missing)));
        let missing: HashSet<FileId> = missing
            .map(|((_, object), _)| FileId(object.file))
            .collect();
        NameSearch {
            next: (!missing.is_empty()).then(Vec::new),
            missing,
            named: HashSet::new(),
        }
    }

    /// Looks at the next names. Whether there are more.
    ///
    /// # Errors
    /// The store failed, or names are damaged: each may stand for any file.
    pub fn step(&mut self, view: &dyn View) -> Outcome<bool> {
        let Some(from) = self.next.take() else {
            return Ok(false);
        };
        let (mut left, mut damaged, mut next) = (NAMES_AT_A_TIME, false, None);
        view.scan(Table::Names, &from, &mut |key, value| {
            if left == 0 {
                next = Some(key.to_vec());
                return false;
            }
            left -= 1;
            match split_listing_key(value) {
                Some((file, _)) if self.missing.contains(&file) => _ = self.named.insert(file),
                Some(_) => {}
                None => damaged = true,
            }
            !damaged && self.named.len() < self.missing.len()
        })?;
        self.next = next;
        if damaged {
            Err(Failure::Damaged(ROOT))
        } else {
            Ok(self.next.is_some())
        }
    }

    /// The statuses of the objects, when all names were looked at; see [`OrphanCheck::statuses`].
    pub fn finish(
        self,
        objects: &[(u32, ObjectId)],
        found: Vec<Outcome<ByInode>>,
    ) -> Vec<Outcome<Option<OrphanStatus>>> {
        let pairs = objects.iter().zip(found);
        let statuses = pairs.map(|((_, object), found)| {
            let file = FileId(object.file);
            Ok(match found? {
                ByInode::Known(status) => Some(status),
                ByInode::Missing if self.named.contains(&file) => Some(OrphanStatus::Named),
                ByInode::Missing | ByInode::Elsewhere => None,
            })
        });
        statuses.collect()
    }
}

/// The status of the object of a file that does not exist, last written at `modified`; both since the Unix epoch. A
/// young one may have been made again by a client whose grant had not ended.
pub fn status_by_age(modified: Duration, now: Duration) -> OrphanStatus {
    if now.saturating_sub(modified) < ORPHAN_AGE_MIN {
        OrphanStatus::Recent
    } else {
        OrphanStatus::Orphan
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{change, create, formatted, seen};
    use super::super::{MemoryStore, Table};
    use super::*;
    use gannet_wire::volume::ROOT;

    /// A volume of two I/O servers with files 2 to 4 on server 1, the last of which was removed.
    fn store() -> MemoryStore {
        formatted(|transaction, request| {
            for name in [b"a", b"b", b"c"] {
                create(transaction, request, ROOT, name, &[1]);
            }
            namespace::remove(transaction, request, ROOT, b"c").unwrap();
        })
    }

    fn checked(store: &MemoryStore, server: u32, file: u64) -> Outcome<Option<OrphanStatus>> {
        seen(store, |view| {
            let object = ObjectId {
                group: server,
                file,
            };
            let groups = Groups::of_servers(2);
            let check = OrphanCheck::new(view, &groups)?;
            let found = check.statuses(view, &[(server, object)]);
            found?.remove(0)
        })
    }

    #[test]
    fn names_are_looked_at_in_steps_up_to_the_last() {
        let names = NAMES_AT_A_TIME + 10;
        let name = |number: usize| format!("{number:08}").into_bytes();
        let store = formatted(|transaction, request| {
            for number in 0..names {
                create(transaction, request, ROOT, &name(number), &[1]);
            }
        });
        // Files have numbers from 2 on.
        let last = names as u64 + 1;
        change(&store, |it| it.delete(Table::Inodes, &last.to_be_bytes()));
        let object = ObjectId {
            group: 1,
            file: last,
        };
        let objects = [(1, object)];
        let found = seen(&store, |view| {
            OrphanCheck::new(view, &Groups::of_servers(2)).map(|it| it.by_inodes(view, &objects))
        });
        let found = found.unwrap();
        let mut search = NameSearch::new(&objects, &found);
        assert!(
            seen(&store, |view| search.step(view)).unwrap(),
            "there are more"
        );
        assert!(!seen(&store, |view| search.step(view)).unwrap());
        let statuses = search.finish(&objects, found);
        assert!(matches!(statuses[..], [Ok(Some(OrphanStatus::Named))]));
        let whole = checked(&store, 1, last).unwrap();
        assert_eq!(whole, Some(OrphanStatus::Named));
    }

    #[test]
    fn only_objects_of_made_and_then_removed_files_are_orphans() {
        let store = store();
        for (server, file, expected) in [
            (1, 2, Some(OrphanStatus::InUse)),
            (0, 2, None),
            // A directory has none.
            (1, 1, None),
            (1, 4, Some(OrphanStatus::Pending)),
            (1, 5, Some(OrphanStatus::NeverMade)),
            (1, u64::MAX, Some(OrphanStatus::NeverMade)),
        ] {
            let status = checked(&store, server, file).unwrap();
            assert_eq!(status, expected, "file {file} on {server}");
        }
        change(&store, |it| {
            it.put(Table::Inodes, &3u64.to_be_bytes(), b"nonsense")
        });
        let damaged = checked(&store, 1, 3);
        assert!(matches!(damaged, Err(Failure::Damaged(FileId(3)))));
        // A file without an inode is gone only if it has no name either.
        change(&store, |it| it.delete(Table::Inodes, &3u64.to_be_bytes()));
        assert_eq!(checked(&store, 1, 3).unwrap(), Some(OrphanStatus::Named));
        assert_eq!(
            checked(&store, 0, 2).unwrap(),
            None,
            "its name proves nothing"
        );
        let name = [&ROOT.0.to_be_bytes()[..], b"b"].concat();
        change(&store, |it| it.delete(Table::Names, &name));
        assert_eq!(checked(&store, 1, 3).unwrap(), None);
        change(&store, |it| it.put(Table::Names, &name, b"nonsense"));
        assert!(checked(&store, 1, 3).is_err(), "what has names is unknown");
        change(&store, |it| it.put(Table::Pending, &[0; 8], b"nonsense"));
        assert!(checked(&store, 1, 1).is_err(), "the intents are unknown");
    }

    #[test]
    fn only_an_object_without_recent_writes_is_an_orphan() {
        let (now, age) = (Duration::from_secs(1_800_000_000), ORPHAN_AGE_MIN);
        for (modified, expected) in [
            (now - age, OrphanStatus::Orphan),
            (now - age + Duration::from_secs(1), OrphanStatus::Recent),
            // Clocks differ.
            (now + Duration::from_secs(5), OrphanStatus::Recent),
        ] {
            assert_eq!(status_by_age(modified, now), expected);
        }
    }
}
