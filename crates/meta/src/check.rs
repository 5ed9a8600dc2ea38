//! The check that the records of a store agree with each other.

use super::inode_allocator::NeverMade;
use super::namespace::{Intent, Outcome, intents, name_key, split_listing_key, unnamed};
use super::{StoreError, Table, View};
use crate::groups::Groups;
use crate::limits::DEPTH_MAX;
use gannet_wire::volume::{Body, FileId, Inode, LayoutRecord, ObjectId, ROOT};
use gannet_wire::xdr::{XdrError, from_bytes};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// The result of a check of all records.
#[derive(Debug, Default)]
pub struct Survey {
    /// Records that do not agree, one sentence for each fault.
    pub findings: Vec<String>,
    /// Regular files with their layouts.
    pub files: BTreeMap<FileId, LayoutRecord>,
    /// Directories.
    pub directories: u64,
    /// Names in all directories.
    pub names: u64,
    /// Intents at I/O servers that are not done yet.
    pub intents: Vec<(u64, Intent)>,
}

/// The check's notes of one inode.
struct Known {
    links: u32,
    /// The parent and the number of names of a directory, by its inode.
    directory: Option<(FileId, u64)>,
    /// Names of the inode, and the directory that they are in.
    names: u32,
    inside: FileId,
    /// The number of names in a directory.
    entries: u64,
    /// The directories in a directory.
    below: Vec<FileId>,
}

/// Checks all inodes, names, listings and intents. Takes some hundred bytes of memory for each file.
///
/// # Errors
/// `Failure::Store`: the store failed.
pub fn survey(view: &dyn View) -> Outcome<Survey> {
    let mut survey = Survey::default();
    let mut inodes = look_at_inodes(view, &mut survey)?;
    look_at_names(view, &mut survey, &mut inodes)?;
    look_at_listings(view, &mut survey)?;
    let reached = reachable(&inodes);
    let unnamed = match unnamed(view) {
        Ok(files) => files,
        Err(error) => {
            let finding = format!("files without names: {error}");
            survey.findings.push(finding);
            BTreeSet::new()
        }
    };
    for (id, known) in &inodes {
        // A client kept it open when its last name went.
        let is_kept = known.names == 0 && known.links == 0 && unnamed.contains(id);
        if !is_kept {
            check_inode(*id, known, reached.contains(id), &mut survey.findings);
        }
    }
    match NeverMade::new(view) {
        Ok(never_made) => {
            let early = inodes.keys().filter(|id| never_made.contains(**id));
            let told = early.map(|id| format!("file {} has a number that was never given", id.0));
            survey.findings.extend(told);
        }
        Err(error) => survey.findings.push(format!("numbers of files: {error}")),
    }
    match intents(view) {
        Ok(open) => survey.intents = open,
        Err(error) => survey.findings.push(format!("intents: {error}")),
    }
    Ok(survey)
}

fn look_at_inodes(
    view: &dyn View,
    survey: &mut Survey,
) -> Result<BTreeMap<FileId, Known>, StoreError> {
    let mut inodes = BTreeMap::new();
    view.scan(Table::Inodes, &[], &mut |key, value| {
        let id = key.try_into().map(u64::from_be_bytes).map(FileId);
        let inode = from_bytes::<Inode>(value);
        let wrong = match &inode {
            Err(unknown @ XdrError::Unknown { .. }) => format!("has {unknown}"),
            _ => String::from("is damaged"),
        };
        let (Ok(id), Ok(inode)) = (id, inode) else {
            let finding = format!("the inode with the key {key:02x?} {wrong}");
            survey.findings.push(finding);
            return true;
        };
        let directory = match inode.body {
            Body::Directory {
                parent, entries, ..
            } => Some((parent, entries)),
            Body::Regular { layout, .. } => {
                survey.files.insert(id, layout);
                None
            }
            _ => None,
        };
        survey.directories += u64::from(directory.is_some());
        let known = Known {
            links: inode.links,
            directory,
            names: 0,
            inside: id,
            entries: 0,
            below: Vec::new(),
        };
        inodes.insert(id, known);
        true
    })?;
    if !inodes.contains_key(&ROOT) {
        let finding = String::from("the root directory is missing");
        survey.findings.push(finding);
    }
    Ok(inodes)
}

fn look_at_names(
    view: &dyn View,
    survey: &mut Survey,
    inodes: &mut BTreeMap<FileId, Known>,
) -> Result<(), StoreError> {
    let findings = &mut survey.findings;
    let mut names = 0;
    view.scan(Table::Names, &[], &mut |key, value| {
        names += 1;
        let split = key.split_first_chunk::<8>();
        let (Some((directory, name)), Some((file, cookie))) = (split, split_listing_key(value))
        else {
            findings.push(format!("the name with the key {key:02x?} is damaged"));
            return true;
        };
        let directory = FileId(u64::from_be_bytes(*directory));
        let what = format!("{:?} in directory {}", text(name), directory.0);
        let listed = view.get(
            Table::Listing,
            &super::namespace::listing_key(directory, cookie),
        );
        match listed {
            Ok(Some(listed)) if listed == [&file.0.to_be_bytes(), name].concat() => {}
            _ => findings.push(format!("{what} is not listed")),
        }
        let is_directory = match inodes.get_mut(&file) {
            Some(known) => {
                known.names += 1;
                known.inside = directory;
                known.directory.is_some()
            }
            None => {
                findings.push(format!("{what} is file {}, which is missing", file.0));
                false
            }
        };
        match inodes.get_mut(&directory) {
            Some(known) if known.directory.is_some() => {
                known.entries += 1;
                known.below.extend(is_directory.then_some(file));
            }
            _ => findings.push(format!("{what}: that is no directory")),
        }
        true
    })?;
    survey.names = names;
    Ok(())
}

fn look_at_listings(view: &dyn View, survey: &mut Survey) -> Result<(), StoreError> {
    let findings = &mut survey.findings;
    view.scan(Table::Listing, &[], &mut |key, value| {
        let split = value.split_first_chunk::<8>();
        let (Some((directory, cookie)), Some((file, name))) = (split_listing_key(key), split)
        else {
            findings.push(format!("the listing with the key {key:02x?} is damaged"));
            return true;
        };
        let expected = [&file[..], &cookie.to_be_bytes()].concat();
        let named = view.get(Table::Names, &name_key(directory, name));
        if !matches!(named, Ok(Some(named)) if named == expected) {
            let what = format!("{:?} in directory {}", text(name), directory.0);
            findings.push(format!("{what} is listed and cannot be found"));
        }
        true
    })
}

/// The directories that have a path from the root.
fn reachable(inodes: &BTreeMap<FileId, Known>) -> HashSet<FileId> {
    let (mut reached, mut ahead) = (HashSet::from([ROOT]), vec![ROOT]);
    while let Some(id) = ahead.pop() {
        let below = inodes.get(&id).map_or(&[][..], |known| &known.below);
        ahead.extend(below.iter().copied().filter(|id| reached.insert(*id)));
    }
    reached
}

fn check_inode(id: FileId, known: &Known, is_reached: bool, findings: &mut Vec<String>) {
    let mut find = |what: String| findings.push(format!("file {} {what}", id.0));
    let Some((parent, entries)) = known.directory else {
        if known.names == 0 {
            find(String::from("has no name"));
        } else if known.links != known.names {
            find(format!(
                "counts {} names and has {}",
                known.links, known.names
            ));
        }
        return;
    };
    let names = u32::from(id != ROOT);
    if known.names != names {
        find(format!("is a directory with {} names", known.names));
    } else if !is_reached {
        find(String::from("is a directory that no path leads to"));
    } else if parent != known.inside {
        let (said, is) = (parent.0, known.inside.0);
        find(format!(
            "is in directory {is} and says that it is in {said}"
        ));
    }
    if known.entries != entries {
        find(format!(
            "counts {entries} entries and has {}",
            known.entries
        ));
    }
    let links = known.below.len() as u64 + 2;
    if u64::from(known.links) != links {
        find(format!("counts {} links and has {links}", known.links));
    }
}

fn text(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

/// The objects that I/O server `number` has for files, each with the index of its group in the file's layout.
pub fn objects_on(survey: &Survey, groups: &Groups, number: u32) -> HashMap<ObjectId, usize> {
    let files = survey.files.iter();
    let on = files.flat_map(|(id, layout)| {
        let on = groups.on_server(layout, number);
        on.map(|(index, group)| (ObjectId { group, file: id.0 }, index))
    });
    on.collect()
}

/// The paths of these files from the root, without a leading slash; a file with several names has several paths. Takes
/// some hundred bytes of memory for each directory.
///
/// # Errors
/// `Failure::Store`: the store failed. `Failure::Damaged`: one of its values cannot be decoded.
pub fn paths_of(view: &dyn View, files: &BTreeSet<FileId>) -> Outcome<Vec<Vec<u8>>> {
    let mut directories = HashSet::new();
    view.scan(Table::Inodes, &[], &mut |key, value| {
        let is_directory = matches!(
            from_bytes::<Inode>(value),
            Ok(Inode {
                body: Body::Directory { .. },
                ..
            })
        );
        if is_directory && let Ok(id) = key.try_into() {
            directories.insert(FileId(u64::from_be_bytes(id)));
        }
        true
    })?;
    let (mut places, mut found) = (HashMap::new(), Vec::new());
    view.scan(Table::Names, &[], &mut |key, value| {
        let (Some((inside, name)), Some((id, _))) =
            (key.split_first_chunk::<8>(), split_listing_key(value))
        else {
            return true;
        };
        let inside = FileId(u64::from_be_bytes(*inside));
        if directories.contains(&id) {
            places.insert(id, (inside, name.to_vec()));
        }
        if files.contains(&id) {
            found.push((inside, name.to_vec()));
        }
        true
    })?;
    let paths = found.into_iter().map(|(mut inside, name)| {
        let (mut parts, mut passed) = (vec![name], HashSet::new());
        // In damaged metadata a directory may be its own ancestor: each directory counts once, or the loop would not
        // end.
        while let Some((above, name)) = places.get(&inside)
            && parts.len() <= DEPTH_MAX
            && passed.insert(inside)
        {
            parts.push(name.clone());
            inside = *above;
        }
        parts.reverse();
        parts.join(&b'/')
    });
    Ok(paths.collect())
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{change, create, formatted, seen};
    use super::super::namespace::{self, Make, listing_key};
    use super::super::{MemoryStore, Transaction};
    use super::*;
    use gannet_wire::volume::AttributeChanges;

    /// A directory `d` with a file `f` in it, which also has the name `g` in the root.
    fn store() -> MemoryStore {
        formatted(|transaction, request| {
            let plain = AttributeChanges::default();
            let made = namespace::make(transaction, request, ROOT, b"d", Make::Directory, &plain);
            let (directory, _) = made.unwrap();
            let file = create(transaction, request, directory, b"f", &[1, 0]);
            namespace::link(transaction, request, file, ROOT, b"g").unwrap();
        })
    }

    fn surveyed(store: &MemoryStore) -> Survey {
        seen(store, survey).unwrap()
    }

    #[test]
    fn a_sound_store_gives_no_findings() {
        let survey = surveyed(&store());
        assert_eq!(survey.findings, [""; 0]);
        assert_eq!((survey.directories, survey.names), (2, 3));
        assert_eq!(survey.files.len(), 1);
        let on = [0, 1, 2].map(|number| objects_on(&survey, &Groups::of_servers(3), number));
        assert_eq!(on[0].values().collect::<Vec<_>>(), [&1]);
        assert_eq!(on[1].values().collect::<Vec<_>>(), [&0]);
        assert!(on[2].is_empty());
    }

    #[test]
    fn a_file_with_another_form_of_layout_is_distinguished_from_damage() {
        let store = store();
        let files: Vec<FileId> = surveyed(&store).files.into_keys().collect();
        let (file, key) = (files[0], files[0].0.to_be_bytes());
        let mut bytes = seen(&store, |view| view.get(Table::Inodes, &key).unwrap()).unwrap();
        // Behind six words and three times.
        bytes[6 * 4 + 3 * 12 + 3] = 7;
        change(&store, |it| it.put(Table::Inodes, &key, &bytes));
        let failure = seen(&store, |view| namespace::inode(view, file)).unwrap_err();
        let said = failure.to_string();
        assert!(said.contains("form of layout 7"), "{said}");
        assert!(said.contains("use the release of gannet"), "{said}");
        let findings = surveyed(&store).findings;
        let is_told = |finding: &String| finding.contains("form of layout 7");
        assert!(findings.iter().any(is_told), "{findings:?}");
    }

    #[test]
    fn paths_of_files_are_found_by_all_their_names() {
        let store = store();
        let known = surveyed(&store);
        let files = known.files.keys().copied().collect();
        let mut paths = seen(&store, |view| paths_of(view, &files).unwrap());
        paths.sort_unstable();
        assert_eq!(paths, [&b"d/f"[..], b"g"]);
        assert!(seen(&store, |view| paths_of(view, &BTreeSet::new()).unwrap()).is_empty());
    }

    #[test]
    fn a_directory_within_itself_is_in_a_path_once() {
        let store = store();
        let directory = FileId(ROOT.0 + 1);
        let own = listing_key(directory, 1);
        let looped = name_key(directory, b"loop");
        change(&store, |it| it.put(Table::Names, &looped, &own));
        change(&store, |it| it.delete(Table::Names, &name_key(ROOT, b"d")));
        let files = surveyed(&store).files.into_keys().collect();
        let mut paths = seen(&store, |view| paths_of(view, &files).unwrap());
        paths.sort_unstable();
        assert_eq!(paths, [&b"g"[..], b"loop/f"]);
    }

    #[test]
    fn every_damage_is_found() {
        let key = |number: u64| number.to_be_bytes();
        type Damage = fn(&mut dyn Transaction, &dyn Fn(u64) -> [u8; 8]);
        let damages: [(Damage, &str); 7] = [
            (
                |it, key| it.delete(Table::Inodes, &key(3)).unwrap(),
                "which is missing",
            ),
            (
                |it, _| it.delete(Table::Names, &name_key(ROOT, b"g")).unwrap(),
                "counts 2 names and has 1",
            ),
            (
                |it, _| it.delete(Table::Names, &name_key(ROOT, b"d")).unwrap(),
                "is a directory with 0 names",
            ),
            (
                |it, _| it.delete(Table::Listing, &listing_key(ROOT, 3)).unwrap(),
                "is not listed",
            ),
            (
                |it, key| it.put(Table::Inodes, &key(3), b"nonsense").unwrap(),
                "is damaged",
            ),
            (
                |it, key| it.put(Table::Volume, b"next file", &key(3)).unwrap(),
                "has a number that was never given",
            ),
            (
                |it, key| it.put(Table::Volume, b"skipped files", &key(3)).unwrap(),
                "numbers of files: ",
            ),
        ];
        for (damage, part) in damages {
            let store = store();
            change(&store, |transaction| {
                damage(transaction, &key);
                Ok(())
            });
            let findings = surveyed(&store).findings;
            let found = findings.iter().any(|finding| finding.contains(part));
            assert!(found, "{part}: {findings:?}");
        }
    }
}
