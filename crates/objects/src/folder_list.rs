//! The listing of a folder's objects, for checks that compare them with the files of the volume.

use super::folder::{FolderStore, own, path_of};
use super::{OWNER_FILE, TERM_FILE};
use gannet_vfs::{Attributes, DirectoryEntry, Entries, FileHandle, FileKind, Status, Vfs};
use gannet_wire::volume::{ObjectEntry, ObjectPage, ObjectPosition, PAGE_OBJECTS_MAX};

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
        let mut names = Names::new(at, page);
        let verifier = at.verifier.to_be_bytes();
        let (own, cookie) = (own(), at.cookie);
        let listed = (self.vfs).read_directory(&own, folder, cookie, verifier, &mut names);
        let listed = listed.await?;
        for file in std::mem::take(&mut names.unknown) {
            let name = path_of(file).name;
            match self.vfs.lookup(&own, folder, &name).await.0 {
                Ok((_, attributes)) => names.take(file, &attributes),
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
    path_of(u64::from(folder)).folder
}

/// Whether a name is that of one of the folders: two digits, as [`folder_name`] writes them.
fn is_folder_name(name: &[u8]) -> bool {
    name.len() == 2
        && name
            .iter()
            .all(|it| matches!(it, b'0'..=b'9' | b'a'..=b'f'))
}

fn is_dots(name: &[u8]) -> bool {
    matches!(name, b"." | b"..")
}

/// Takes the objects of a folder.
struct Names<'a> {
    folder: u32,
    page: &'a mut ObjectPage,
    /// Files of objects whose attributes the store did not give with their names.
    unknown: Vec<u64>,
    last: u64,
}

impl<'a> Names<'a> {
    fn new(at: &ObjectPosition, page: &'a mut ObjectPage) -> Names<'a> {
        Names {
            folder: at.folder,
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

    /// Takes what has the name of a file's object.
    fn take(&mut self, file: u64, attributes: &Attributes) {
        let size = attributes.size;
        match attributes.kind {
            FileKind::Regular => self.page.objects.push(ObjectEntry { file, size }),
            _ => self.note_foreign(),
        }
    }

    /// The file that a name in the folder is the object of.
    fn file_of(&self, name: &[u8]) -> Option<u64> {
        let text = std::str::from_utf8(name).ok()?;
        let file = u64::from_str_radix(text, 16).ok()?;
        let path = path_of(file);
        (path.folder == folder_name(self.folder) && path.name == name).then_some(file)
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
        match self.file_of(entry.name) {
            Some(file) => match entry.object {
                Some((_, attributes)) => self.take(file, &attributes),
                None => self.unknown.push(file),
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
        let own_files = [OWNER_FILE.as_bytes(), TERM_FILE.as_bytes()];
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
    fn the_folders_of_objects_have_these_names_and_no_others() {
        assert!((0..FOLDERS).all(|folder| is_folder_name(&folder_name(folder))));
        for other in [&b"0"[..], b"000", b"0g", b"0A", b"..", b"/0"] {
            assert!(!is_folder_name(other));
        }
    }
}
