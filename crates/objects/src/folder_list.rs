//! The listing of a folder's objects, for checks that compare them with the files of the volume.

use super::folder::{FolderStore, folder_of, name_of, own};
use super::{GROUPS_FILE, INTENTS_FILE, OWNER_FILE, TERM_FILE};
use gannet_vfs::{Attributes, DirectoryEntry, Entries, FileHandle, FileKind, Status, Vfs};
use gannet_wire::volume::{ObjectEntry, ObjectId, ObjectPage, ObjectPosition, PAGE_OBJECTS_MAX};

impl<V: Vfs> FolderStore<V> {
    /// See [`super::store::ObjectStore::list`].
    pub(super) async fn list_objects(&self, page: &mut ObjectPage) -> Result<(), Status> {
        let mut at = page.next;
        if at == START {
            page.foreign_files = page
                .foreign_files
                .saturating_add(self.foreign_files().await?);
        }
        let name = folder_name(at.folder);
        let found = self.vfs.lookup(&own(), &self.vfs.root(), &name).await.0;
        let more = match found {
            Ok((folder, attributes)) if attributes.kind == FileKind::Directory => {
                self.list_folder(&folder, &mut at, page).await?
            }
            // A file with this name is counted with the root's names.
            Ok(_) | Err(Status::Noent) => false,
            Err(status) => return Err(status),
        };
        page.next = if more {
            at
        } else {
            ObjectPosition {
                folder: at.folder + 1,
                ..START
            }
        };
        Ok(())
    }

    /// Lists from the position on, and moves it; false at the folder's end.
    async fn list_folder(
        &self,
        folder: &FileHandle,
        at: &mut ObjectPosition,
        page: &mut ObjectPage,
    ) -> Result<bool, Status> {
        let mut names = Names::new(at, page, self.own_group);
        let verifier = at.verifier.to_be_bytes();
        let (own, cookie) = (own(), at.cookie);
        let listed = (self.vfs).read_directory(&own, folder, cookie, verifier, &mut names);
        let listed = listed.await?;
        for object in std::mem::take(&mut names.unknown) {
            let name = name_of(object, self.own_group);
            match self.vfs.lookup(&own, folder, &name).await.0 {
                Ok((_, attributes)) => names.take(object, &attributes),
                // Removed meanwhile.
                Err(Status::Noent) => {}
                Err(status) => return Err(status),
            }
        }
        at.cookie = names.last;
        at.verifier = u64::from_be_bytes(listed.verifier);
        Ok(!listed.eof)
    }

    /// The number of foreign files in the root.
    async fn foreign_files(&self) -> Result<u32, Status> {
        let (own, root, mut names) = (own(), self.vfs.root(), RootNames::default());
        let mut verifier = [0; 8];
        loop {
            let before = names.last;
            let listed = (self.vfs).read_directory(&own, &root, before, verifier, &mut names);
            let listed = listed.await?;
            if listed.eof || names.last == before {
                return Ok(names.foreign_files);
            }
            verifier = listed.verifier;
        }
    }
}

const START: ObjectPosition = ObjectPosition {
    folder: 0,
    cookie: 0,
    verifier: 0,
};

fn folder_name(folder: u32) -> Vec<u8> {
    folder_of(u64::from(folder))
}

/// Whether a name is that of one of the folders: two digits, as [`folder_name`] writes them.
fn is_folder_name(name: &[u8]) -> bool {
    name.len() == 2
        && name
            .iter()
            .all(|it| matches!(it, b'0'..=b'9' | b'a'..=b'f'))
}

/// The object whose file has this name in this folder of I/O server `number`; `None` for a foreign file.
pub fn object_at(folder: &[u8], name: &[u8], number: u32) -> Option<ObjectId> {
    let object = object_named(name, number)?;
    (folder_of(object.file) == folder).then_some(object)
}

/// The object with a name that [`name_of`] gives.
fn object_named(name: &[u8], own_group: u32) -> Option<ObjectId> {
    let text = std::str::from_utf8(name).ok()?;
    let (file, group) = match text.split_once('.') {
        Some((file, group)) => (file, group.parse().ok()?),
        None => (text, own_group),
    };
    let file = u64::from_str_radix(file, 16).ok()?;
    let object = ObjectId { group, file };
    (name_of(object, own_group) == name).then_some(object)
}

fn is_dots(name: &[u8]) -> bool {
    matches!(name, b"." | b"..")
}

/// Takes the objects of a folder.
struct Names<'a> {
    folder: u32,
    own_group: u32,
    page: &'a mut ObjectPage,
    /// Objects whose attributes the store did not give with their names.
    unknown: Vec<ObjectId>,
    last: u64,
}

impl<'a> Names<'a> {
    fn new(at: &ObjectPosition, page: &'a mut ObjectPage, own_group: u32) -> Names<'a> {
        Names {
            folder: at.folder,
            own_group,
            page,
            unknown: Vec::new(),
            last: at.cookie,
        }
    }

    fn room(&self) -> bool {
        self.page.objects.len() + self.unknown.len() < PAGE_OBJECTS_MAX
    }

    fn note_foreign(&mut self) {
        self.page.foreign_files = self.page.foreign_files.saturating_add(1);
    }

    /// Takes what has the name of an object.
    fn take(&mut self, object: ObjectId, attributes: &Attributes) {
        let size = attributes.size;
        match attributes.kind {
            FileKind::Regular => self.page.objects.push(ObjectEntry { object, size }),
            _ => self.note_foreign(),
        }
    }

    /// The object that a name in the folder is that of.
    fn object_of(&self, name: &[u8]) -> Option<ObjectId> {
        object_at(&folder_name(self.folder), name, self.own_group)
    }
}

impl Entries for Names<'_> {
    fn wants_objects(&self) -> bool {
        true
    }

    fn push(&mut self, entry: &DirectoryEntry<'_>) -> bool {
        if !self.room() {
            return false;
        }
        self.last = entry.cookie;
        match self.object_of(entry.name) {
            Some(object) => match entry.object {
                Some((_, attributes)) => self.take(object, &attributes),
                None => self.unknown.push(object),
            },
            None if is_dots(entry.name) => {}
            None => self.note_foreign(),
        }
        true
    }
}

/// Counts names of the root that no folder of objects has.
#[derive(Default)]
struct RootNames {
    foreign_files: u32,
    last: u64,
}

impl Entries for RootNames {
    fn wants_objects(&self) -> bool {
        true
    }

    fn push(&mut self, entry: &DirectoryEntry<'_>) -> bool {
        self.last = entry.cookie;
        let is_folder = entry
            .object
            .is_none_or(|(_, attributes)| attributes.kind == FileKind::Directory);
        let has_objects = is_folder && is_folder_name(entry.name);
        let own_files = [OWNER_FILE, TERM_FILE, GROUPS_FILE, INTENTS_FILE].map(str::as_bytes);
        let is_ours = has_objects || own_files.contains(&entry.name);
        if !is_ours && !is_dots(entry.name) {
            self.foreign_files = self.foreign_files.saturating_add(1);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gannet_wire::volume::FOLDERS;

    #[test]
    fn each_object_has_a_name_of_its_own() {
        let object = |group| ObjectId { group, file: 0x13a };
        assert_eq!(name_of(object(3), 3), b"000000000000013a");
        assert_eq!(name_of(object(7), 3), b"000000000000013a.7");
        for group in [3, 7, u32::MAX] {
            assert_eq!(
                object_named(&name_of(object(group), 3), 3),
                Some(object(group))
            );
        }
        for other in [
            "000000000000013a.3",
            "000000000000013a.07",
            "13a",
            "000000000000013a.",
        ] {
            assert_eq!(object_named(other.as_bytes(), 3), None);
        }
    }

    #[test]
    fn the_folders_of_objects_have_these_names_and_no_others() {
        assert!((0..FOLDERS).all(|folder| is_folder_name(&folder_name(folder))));
        for other in [&b"0"[..], b"000", b"0g", b"0A", b"..", b"/0"] {
            assert!(!is_folder_name(other));
        }
    }
}
