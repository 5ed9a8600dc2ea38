//! The listing of objects, for checks that compare them with the files of the volume.

use super::walk::Pace;
use super::{IoServer, OWNER_FILE, TERM_FILE, own, parse, path_of};
use crate::limits::RANGE_STEPS;
use crate::link::Link;
use gannet_vfs::{Attributes, DirectoryEntry, Entries, FileHandle, FileKind, Status, Vfs};
use gannet_wire::volume::{FOLDERS, ObjectEntry, ObjectPage, ObjectPosition, PAGE_OBJECTS_MAX};
use gannet_wire::xdr::to_bytes;

impl<V: Vfs> IoServer<V> {
    /// A page of the objects, folder by folder. Objects that come and go meanwhile may or may not be on it.
    pub(super) async fn list(&self, link: &Link, body: &[u8]) -> Result<Vec<u8>, Status> {
        let pace = Pace::new(&self.walks, link);
        let mut at: ObjectPosition = parse(body)?;
        let mut page = Page::default();
        if at == START {
            self.look_at_root(&mut page).await?;
        }
        let root = self.store.root();
        while at.folder < FOLDERS && page.room() {
            // All may be empty, and each is one lookup in the store.
            pace.steps(RANGE_STEPS).await;
            let name = folder_name(at.folder);
            let found = self.store.lookup(&own(), &root, &name).await.0;
            let more = match found {
                Ok((folder, attributes)) if attributes.kind == FileKind::Directory => {
                    self.list_folder(&folder, &mut at, &mut page).await?
                }
                // A file with this name is counted with the root's names.
                Ok(_) | Err(Status::Noent) => false,
                Err(status) => return Err(status),
            };
            if !more {
                at = ObjectPosition {
                    folder: at.folder + 1,
                    ..START
                };
            }
        }
        Ok(to_bytes(&ObjectPage {
            next: at,
            foreign_files: page.foreign_files,
            lost_below: self.lost_below.get(),
            objects: page.objects,
        }))
    }

    /// Lists from the position on, and moves it; false at the folder's end.
    async fn list_folder(
        &self,
        folder: &FileHandle,
        at: &mut ObjectPosition,
        page: &mut Page,
    ) -> Result<bool, Status> {
        (page.folder, page.last) = (at.folder, at.cookie);
        let verifier = at.verifier.to_be_bytes();
        let (own, cookie) = (own(), at.cookie);
        let listed = self
            .store
            .read_directory(&own, folder, cookie, verifier, page);
        let listed = listed.await?;
        for file in std::mem::take(&mut page.unknown) {
            let name = path_of(file).name;
            match self.store.lookup(&own, folder, &name).await.0 {
                Ok((_, attributes)) => page.take(file, &attributes),
                // Removed meanwhile.
                Err(Status::Noent) => {}
                Err(status) => return Err(status),
            }
        }
        at.cookie = page.last;
        at.verifier = u64::from_be_bytes(listed.verifier);
        Ok(!listed.eof)
    }

    /// Counts the foreign files of the root.
    async fn look_at_root(&self, page: &mut Page) -> Result<(), Status> {
        let (own, root, mut names) = (own(), self.store.root(), RootNames::default());
        let mut verifier = [0; 8];
        loop {
            let before = names.last;
            let listed = self
                .store
                .read_directory(&own, &root, before, verifier, &mut names);
            let listed = listed.await?;
            if listed.eof || names.last == before {
                break;
            }
            verifier = listed.verifier;
        }
        page.foreign_files = page.foreign_files.saturating_add(names.foreign_files);
        Ok(())
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
#[derive(Default)]
struct Page {
    folder: u32,
    objects: Vec<ObjectEntry>,
    /// Files of objects whose attributes the store did not give with their names.
    unknown: Vec<u64>,
    foreign_files: u32,
    last: u64,
}

impl Page {
    fn room(&self) -> bool {
        self.objects.len() + self.unknown.len() < PAGE_OBJECTS_MAX
    }

    /// Takes what has the name of a file's object.
    fn take(&mut self, file: u64, attributes: &Attributes) {
        let size = attributes.size;
        match attributes.kind {
            FileKind::Regular => self.objects.push(ObjectEntry { file, size }),
            _ => self.foreign_files = self.foreign_files.saturating_add(1),
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

impl Entries for Page {
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
            None => self.foreign_files = self.foreign_files.saturating_add(1),
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

    #[test]
    fn the_folders_of_objects_have_these_names_and_no_others() {
        assert!((0..FOLDERS).all(|folder| is_folder_name(&folder_name(folder))));
        for other in [&b"0"[..], b"000", b"0g", b"0A", b"..", b"/0"] {
            assert!(!is_folder_name(other));
        }
    }
}
