//! Which objects of I/O servers are of no file: the one place that says what may be removed, whoever looks for it.

use super::namespace::{self, Failure, Outcome, split_listing_key};
use super::{Body, FileId, ROOT, Table, View};
use crate::limits::{NAMES_AT_A_TIME, ORPHAN_AGE_MIN};
use gannet_wire::volume::Standing;
use std::collections::HashSet;
use std::time::Duration;

/// What must be known of a volume before any of its objects is judged.
pub struct Judge {
    /// Files with work at I/O servers that is still to be done.
    promised: HashSet<FileId>,
    /// The number that the next file gets.
    next: FileId,
}

impl Judge {
    /// Looks at the volume.
    ///
    /// # Errors
    /// The store failed, or is damaged: then nothing may be removed.
    pub fn new(view: &dyn View) -> Outcome<Judge> {
        let open = namespace::promises(view)?;
        Ok(Judge {
            promised: open.iter().map(|(_, promise)| promise.file()).collect(),
            next: namespace::next_file(view)?,
        })
    }

    /// How objects, each of a file on an I/O server, stand as far as metadata tells; `None` if there is no such file
    /// any more, see [`standing_by_age`]. Looks at all names where inodes are missing.
    ///
    /// # Errors
    /// The store failed, or names are damaged; or, for a single object, what it says of the file is: then it cannot be
    /// told.
    pub fn standings(
        &self,
        view: &dyn View,
        objects: &[(u32, FileId)],
    ) -> Outcome<Vec<Outcome<Option<Standing>>>> {
        let mut standings = self.standings_by_inodes(view, objects);
        let mut names = NameSearch::new(objects, &standings);
        while names.step(view)? {}
        names.tell(objects, &mut standings);
        Ok(standings)
    }

    /// As [`Judge::standings`], without looking at names: see [`NameSearch`].
    pub fn standings_by_inodes(
        &self,
        view: &dyn View,
        objects: &[(u32, FileId)],
    ) -> Vec<Outcome<Option<Standing>>> {
        let standings = objects.iter().map(|object| self.standing(view, *object));
        standings.collect()
    }

    fn standing(
        &self,
        view: &dyn View,
        (server, file): (u32, FileId),
    ) -> Outcome<Option<Standing>> {
        let found = match namespace::inode(view, file) {
            Ok(inode) => Some(inode),
            Err(Failure::Status(_)) => None,
            Err(failure) => return Err(failure),
        };
        let lies_there = found.is_some_and(|inode| match inode.body {
            Body::Regular { layout, .. } => layout.servers.contains(&server),
            _ => false,
        });
        Ok(match () {
            () if lies_there => Some(Standing::InUse),
            () if self.promised.contains(&file) => Some(Standing::Promised),
            () if file >= self.next => Some(Standing::NeverMade),
            () => None,
        })
    }
}

/// Looks for names of files that are missing, some names at a time: changes of a served volume wait for each look.
pub struct NameSearch {
    missing: HashSet<FileId>,
    named: HashSet<FileId>,
    /// The first name that was not looked at.
    next: Option<Vec<u8>>,
}

impl NameSearch {
    /// For the files of those `objects` that no file was found for.
    pub fn new(objects: &[(u32, FileId)], standings: &[Outcome<Option<Standing>>]) -> NameSearch {
        let pairs = objects.iter().zip(standings);
        let missing = pairs.filter(|(_, standing)| matches!(standing, Ok(None)));
        let missing: HashSet<FileId> = missing.map(|((_, file), _)| *file).collect();
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
        match damaged {
            true => Err(Failure::Damaged(ROOT)),
            false => Ok(self.next.is_some()),
        }
    }

    /// Says so of the objects whose files have names.
    pub fn tell(self, objects: &[(u32, FileId)], standings: &mut [Outcome<Option<Standing>>]) {
        for (standing, (_, file)) in standings.iter_mut().zip(objects) {
            if matches!(standing, Ok(None)) && self.named.contains(file) {
                *standing = Ok(Some(Standing::Named));
            }
        }
    }
}

/// How the object of a file that does not exist stands, which was written to at `modified` (both since the Unix epoch).
/// Who could still write to it could have made it again.
pub fn standing_by_age(modified: Duration, now: Duration) -> Standing {
    match now.saturating_sub(modified) < ORPHAN_AGE_MIN {
        true => Standing::Recent,
        false => Standing::Orphan,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{MemoryStore, MetaStore, ROOT, StoreError, Stripes, Table, Transaction};
    use super::*;
    use gannet_vfs::{CreateMode, Credentials, SetAttributes, Time};
    use gannet_wire::volume::LayoutRecord;
    use std::cell::RefCell;

    fn change(
        store: &MemoryStore,
        mut work: impl FnMut(&mut dyn Transaction) -> Result<(), StoreError>,
    ) {
        store.commit(&mut work).unwrap();
    }

    /// A volume with files 2 to 4 on I/O server 1, the last of which was removed.
    fn store() -> MemoryStore {
        let store = MemoryStore::default();
        change(&store, |transaction| {
            let (caller, now) = (Credentials::new(0, 0, &[]), Time::default());
            let promised = RefCell::default();
            let request = namespace::Request {
                caller: &caller,
                now,
                promised: &promised,
            };
            namespace::format(transaction, now).unwrap();
            let layout = &mut |_: Option<&Stripes>| LayoutRecord {
                unit: 4096,
                servers: vec![1],
            };
            let mode = CreateMode::Guarded(SetAttributes::default());
            for name in [b"a", b"b", b"c"] {
                let place = (ROOT, &name[..]);
                namespace::create(transaction, request, place, &mode, layout).unwrap();
            }
            namespace::remove(transaction, request, (ROOT, b"c")).unwrap();
            Ok(())
        });
        store
    }

    fn judged(store: &MemoryStore, server: u32, file: u64) -> Outcome<Option<Standing>> {
        let mut found = None;
        let look = &mut |view: &dyn View| {
            let judge = Judge::new(view);
            let told = judge.and_then(|it| it.standings(view, &[(server, FileId(file))]));
            found = told.and_then(|mut told| told.remove(0)).into();
        };
        store.read(look).unwrap();
        found.unwrap()
    }

    #[test]
    fn only_objects_of_files_that_were_made_and_are_gone_may_be_removed() {
        let store = store();
        for (server, file, expected) in [
            (1, 2, Some(Standing::InUse)),
            (0, 2, None),
            // A directory has none.
            (1, 1, None),
            (1, 4, Some(Standing::Promised)),
            (1, 5, Some(Standing::NeverMade)),
            (1, u64::MAX, Some(Standing::NeverMade)),
        ] {
            let standing = judged(&store, server, file).unwrap();
            assert_eq!(standing, expected, "file {file} on {server}");
        }
        change(&store, |it| {
            it.put(Table::Inodes, &3u64.to_be_bytes(), b"nonsense")
        });
        let damaged = judged(&store, 1, 3);
        assert!(matches!(damaged, Err(Failure::Damaged(FileId(3)))));
        // A file without an inode is gone only if it has no name either.
        change(&store, |it| it.delete(Table::Inodes, &3u64.to_be_bytes()));
        assert_eq!(judged(&store, 1, 3).unwrap(), Some(Standing::Named));
        assert_eq!(
            judged(&store, 0, 2).unwrap(),
            None,
            "its name proves nothing"
        );
        let name = [&ROOT.0.to_be_bytes()[..], b"b"].concat();
        change(&store, |it| it.delete(Table::Names, &name));
        assert_eq!(judged(&store, 1, 3).unwrap(), None);
        change(&store, |it| it.put(Table::Names, &name, b"nonsense"));
        assert!(judged(&store, 1, 3).is_err(), "what has names is unknown");
        change(&store, |it| it.put(Table::Pending, &[0; 8], b"nonsense"));
        assert!(judged(&store, 1, 1).is_err(), "what is promised is unknown");
    }

    #[test]
    fn only_an_object_that_nobody_can_have_written_to_lately_is_an_orphan() {
        let (now, age) = (Duration::from_secs(1_800_000_000), ORPHAN_AGE_MIN);
        for (modified, expected) in [
            (now - age, Standing::Orphan),
            (now - age + Duration::from_secs(1), Standing::Recent),
            // Clocks differ.
            (now + Duration::from_secs(5), Standing::Recent),
        ] {
            assert_eq!(standing_by_age(modified, now), expected);
        }
    }
}
