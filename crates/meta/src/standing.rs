//! Which objects of I/O servers are of no file: the one place that says what may be removed, whoever looks for it.

use super::inode_allocator::NeverMade;
use super::namespace::{self, Failure, Outcome, split_listing_key};
use super::{Table, View};
use crate::limits::{NAMES_AT_A_TIME, ORPHAN_AGE_MIN};
use gannet_wire::volume::{Body, FileId, ROOT, Standing};
use std::collections::HashSet;
use std::time::Duration;

/// What must be known of a volume before any of its objects is judged.
pub struct Judge {
    /// Files with work at I/O servers that is still to be done.
    intents: HashSet<FileId>,
    never_made: NeverMade,
}

impl Judge {
    /// Looks at the volume.
    ///
    /// # Errors
    /// The store failed, or is damaged: then nothing may be removed.
    pub fn new(view: &dyn View) -> Outcome<Judge> {
        let open = namespace::intents(view)?;
        Ok(Judge {
            intents: open.iter().map(|(_, intent)| intent.file()).collect(),
            never_made: NeverMade::new(view)?,
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
        let told = self.by_inodes(view, objects);
        let mut names = NameSearch::new(objects, &told);
        while names.step(view)? {}
        Ok(names.tell(objects, told))
    }

    /// What inodes tell of these objects; names are the other half, see [`NameSearch`].
    pub fn by_inodes(&self, view: &dyn View, objects: &[(u32, FileId)]) -> Vec<Outcome<ByInode>> {
        let told = objects.iter().map(|object| self.by_inode(view, *object));
        told.collect()
    }

    fn by_inode(&self, view: &dyn View, (server, file): (u32, FileId)) -> Outcome<ByInode> {
        let found = match namespace::inode(view, file) {
            Ok(inode) => Some(inode),
            Err(Failure::Status(_)) => None,
            Err(failure) => return Err(failure),
        };
        let is_missing = found.is_none();
        let lies_there = found.is_some_and(|inode| match inode.body {
            Body::Regular { layout, .. } => layout.servers.contains(&server),
            _ => false,
        });
        Ok(match () {
            () if lies_there => ByInode::Stands(Standing::InUse),
            () if self.intents.contains(&file) => ByInode::Stands(Standing::Promised),
            () if self.never_made.contains(file) => ByInode::Stands(Standing::NeverMade),
            () if is_missing => ByInode::Missing,
            () => ByInode::Elsewhere,
        })
    }
}

/// What an object's file is, as its inode tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ByInode {
    /// Known: no name changes that.
    Stands(Standing),
    /// It is there, and does not lie on the object's I/O server.
    Elsewhere,
    /// It is not there, and gone if it has no name either.
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
    /// For the files of `objects` that are missing.
    pub fn new(objects: &[(u32, FileId)], told: &[Outcome<ByInode>]) -> NameSearch {
        let pairs = objects.iter().zip(told);
        let missing = pairs.filter(|(_, told)| matches!(told, Ok(ByInode::Missing)));
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

    /// How the objects stand, when all names were looked at; see [`Judge::standings`].
    pub fn tell(
        self,
        objects: &[(u32, FileId)],
        told: Vec<Outcome<ByInode>>,
    ) -> Vec<Outcome<Option<Standing>>> {
        let pairs = objects.iter().zip(told);
        let standings = pairs.map(|((_, file), told)| {
            Ok(match told? {
                ByInode::Stands(standing) => Some(standing),
                ByInode::Missing if self.named.contains(file) => Some(Standing::Named),
                ByInode::Missing | ByInode::Elsewhere => None,
            })
        });
        standings.collect()
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
    use super::super::fixture::{change, create, formatted, seen};
    use super::super::{MemoryStore, Table};
    use super::*;
    use gannet_wire::volume::ROOT;

    /// A volume with files 2 to 4 on I/O server 1, the last of which was removed.
    fn store() -> MemoryStore {
        formatted(|transaction, request| {
            for name in [b"a", b"b", b"c"] {
                create(transaction, request, (ROOT, name), &[1]);
            }
            namespace::remove(transaction, request, (ROOT, b"c")).unwrap();
        })
    }

    fn judged(store: &MemoryStore, server: u32, file: u64) -> Outcome<Option<Standing>> {
        seen(store, |view| {
            let told = Judge::new(view)?.standings(view, &[(server, FileId(file))]);
            told?.remove(0)
        })
    }

    #[test]
    fn names_are_looked_at_in_steps_up_to_the_last() {
        let names = NAMES_AT_A_TIME + 10;
        let name = |number: usize| format!("{number:08}").into_bytes();
        let store = formatted(|transaction, request| {
            for number in 0..names {
                create(transaction, request, (ROOT, &name(number)), &[1]);
            }
        });
        // Files have numbers from 2 on.
        let last = names as u64 + 1;
        change(&store, |it| it.delete(Table::Inodes, &last.to_be_bytes()));
        let objects = [(1, FileId(last))];
        let told = seen(&store, |view| {
            Judge::new(view).map(|it| it.by_inodes(view, &objects))
        });
        let told = told.unwrap();
        let mut search = NameSearch::new(&objects, &told);
        assert!(
            seen(&store, |view| search.step(view)).unwrap(),
            "there are more"
        );
        assert!(!seen(&store, |view| search.step(view)).unwrap());
        let standings = search.tell(&objects, told);
        assert!(matches!(standings[..], [Ok(Some(Standing::Named))]));
        let whole = judged(&store, 1, last).unwrap();
        assert_eq!(whole, Some(Standing::Named));
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
        assert!(judged(&store, 1, 1).is_err(), "the intents are unknown");
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
