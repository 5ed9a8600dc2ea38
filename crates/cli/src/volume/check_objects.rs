//! The objects of a volume that is served, compared with its files.

use super::check::{empty, note};
use gannet_meta::groups::Groups;
use gannet_vfs::{Credentials, Status};
use gannet_volume::client::VolumeFs;
use gannet_volume::layout::{object_size, places, size_from_object, size_with_lost};
use gannet_wire::volume::{
    FOLDERS, FileId, LayoutRecord, OBJECTS_MAX, ObjectId, ObjectPosition, OrphanStatus,
};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The objects that were listed, and the findings about them.
#[derive(Default)]
pub(super) struct Compared {
    pub(super) findings: Vec<String>,
    pub(super) repaired: usize,
    pub(super) files: usize,
    pub(super) objects: usize,
    /// Files that have lost bytes with the disk of an I/O server.
    pub(super) lost: BTreeSet<u64>,
    /// Below which number files may have had objects on a lost disk, by I/O server.
    lost_below: HashMap<u32, u64>,
}

/// Lengths of the objects of one I/O server.
pub(super) type Objects = HashMap<ObjectId, u64>;
/// Regular files, and their layouts.
pub(super) type Files = BTreeMap<u64, LayoutRecord>;

/// Compares the objects of the I/O servers with these numbers with all files. Nobody is kept from changing them
/// meanwhile: what looks wrong is looked at again. Takes some fifty bytes of memory for each object and file.
///
/// # Errors
/// The manager does not answer.
pub(super) async fn compare(
    volume: &VolumeFs,
    caller: &Credentials,
    servers: &[u32],
    repair: bool,
) -> Result<Compared, Status> {
    let mut compared = Compared::default();
    // Objects first: those of files that are made later are not seen, and those of files that go meanwhile are asked
    // about.
    let mut objects = BTreeMap::new();
    for number in servers {
        if let Some(found) = compared.objects_on(volume, *number).await {
            compared.objects += found.len();
            objects.insert(*number, found);
        }
    }
    let files = all_files(volume, caller).await?;
    // After the files: groups come with servers that are added, before there are files in them.
    let groups = volume.groups().await.map_err(|_| Status::Jukebox)?;
    compared.files = files.len();
    for (number, found) in &objects {
        let lies_there = |object: &ObjectId| match files.get(&object.file) {
            Some(layout) => groups.has_object(layout, object.group, *number),
            None => false,
        };
        let unknown = found.iter().filter(|(object, _)| !lies_there(object));
        let unknown = unknown.map(|(object, len)| (*object, *len));
        let mut unknown: Vec<(ObjectId, u64)> = unknown.collect();
        unknown.sort_unstable();
        compared
            .judge(volume, caller, *number, repair, &unknown)
            .await?;
    }
    let sizes = compared.sizes(&files, &groups, &objects);
    let missing = missing(&files, &groups, &sizes, &objects, &compared.lost_below);
    if !missing.is_empty() {
        compared.look_again(volume, caller, missing).await?;
    }
    Ok(compared)
}

impl Compared {
    /// The objects of one I/O server; none if it cannot list them.
    async fn objects_on(&mut self, volume: &VolumeFs, number: u32) -> Option<Objects> {
        match list(volume, number).await {
            Ok(Listed {
                objects,
                foreign_files,
                lost_below,
            }) => {
                self.lost_below.insert(number, lost_below);
                if foreign_files > 0 {
                    let what =
                        format!("I/O server {number}: {foreign_files} foreign files in its folder");
                    self.findings.push(what);
                }
                Some(objects)
            }
            Err(why) => {
                let what = format!("I/O server {number}: its objects cannot be listed: {why}");
                self.findings.push(what);
                None
            }
        }
    }

    /// Reports the manager's statuses of objects on I/O server `number` for which no file was found: their names
    /// and their lengths. With `repair`, the manager has those removed that belong to no file.
    async fn judge(
        &mut self,
        volume: &VolumeFs,
        caller: &Credentials,
        number: u32,
        repair: bool,
        unknown: &[(ObjectId, u64)],
    ) -> Result<(), Status> {
        for batch in unknown.chunks(OBJECTS_MAX) {
            let ids: Vec<ObjectId> = batch.iter().map(|(object, _)| *object).collect();
            let asked = volume.orphans(caller, number, repair, &ids).await;
            let (statuses, kept) = match asked {
                // They are looked at all the same.
                Err(Status::Perm) => {
                    let asked = volume.orphans(caller, number, false, &ids).await;
                    (
                        asked?,
                        ": not removed: only root and the volume's owner may (--uid)",
                    )
                }
                asked => (asked?, ""),
            };
            for ((object, len), status) in batch.iter().zip(statuses) {
                let file = object.file;
                let what = format!("I/O server {number}: the object of file {file}, {len} bytes,");
                match status {
                    OrphanStatus::Orphan => {
                        let what = format!("{what} belongs to no file{kept}");
                        self.findings.push(what);
                    }
                    OrphanStatus::Removed => {
                        self.findings
                            .push(format!("{what} belongs to no file: removed"));
                        self.repaired += 1;
                    }
                    OrphanStatus::NeverMade => self.findings.push(format!(
                        "{what} belongs to a file that the manager never made: not removed, the metadata may be an old copy"
                    )),
                    OrphanStatus::Named => self.findings.push(format!(
                        "{what} belongs to no file that can be found, but has a name: not removed, the metadata is damaged"
                    )),
                    // Soon to go, gone, or of a file that was made meanwhile.
                    OrphanStatus::Pending | OrphanStatus::Recent => {}
                    OrphanStatus::Gone | OrphanStatus::InUse => {}
                }
            }
        }
        Ok(())
    }

    /// The sizes of files, as far as their objects determine them.
    fn sizes(
        &mut self,
        files: &Files,
        groups: &Groups,
        objects: &BTreeMap<u32, Objects>,
    ) -> HashMap<u64, u64> {
        let mut sizes = HashMap::new();
        for (file, layout) in files {
            let mut size = 0;
            for place in places(groups, FileId(*file), layout) {
                let number = place.server;
                let found = objects.get(&number);
                let len = found.and_then(|found| found.get(&place.object));
                match len.map(|len| size_from_object(*len, place.placement)) {
                    Some(Some(whole)) => size = size.max(whole),
                    Some(None) => self.findings.push(format!(
                        "file {file}: its object on I/O server {number} is longer than a file can be"
                    )),
                    None => {}
                }
            }
            sizes.insert(*file, size);
        }
        sizes
    }

    /// Tells of objects that are still missing, of files that are still there.
    async fn look_again(
        &mut self,
        volume: &VolumeFs,
        caller: &Credentials,
        missing: Vec<Missing>,
    ) -> Result<(), Status> {
        let servers: BTreeSet<u32> = missing.iter().map(|it| it.server).collect();
        let mut objects = BTreeMap::new();
        for number in servers {
            // Foreign files and errors have been reported before.
            if let Ok(listed) = list(volume, number).await {
                objects.insert(number, listed.objects);
            }
        }
        let files = all_files(volume, caller).await?;
        let mut lacking: BTreeMap<u32, usize> = BTreeMap::new();
        for Missing {
            object,
            server,
            len,
            size,
        } in missing
        {
            let (file, listed) = (object.file, objects.get(&server));
            let is_missing = listed.is_some_and(|found| !found.contains_key(&object));
            if !is_missing || !files.contains_key(&file) {
                continue;
            }
            if self.lost_below.get(&server).is_some_and(|it| file < *it) {
                self.lost.insert(file);
                self.findings.push(format!(
                    "file {file}: it lost {len} of its {size} bytes with a disk of I/O server {server}"
                ));
                continue;
            }
            *lacking.entry(server).or_default() += 1;
            let noted = note(&format!(
                "file {file}: no object on I/O server {server} for {len} of its {size} bytes: a hole, or lost data; they read as zeros"
            ));
            if noted.is_err() {
                return Err(Status::Io);
            }
        }
        for (number, count) in lacking {
            if objects.get(&number).is_some_and(HashMap::is_empty) {
                self.findings.push(empty(number, count));
            }
        }
        Ok(())
    }
}

/// An object that a file reaches into and that is not there.
struct Missing {
    object: ObjectId,
    server: u32,
    /// Bytes of the file that would lie in it.
    len: u64,
    /// The length of the file in bytes.
    size: u64,
}

fn missing(
    files: &Files,
    groups: &Groups,
    sizes: &HashMap<u64, u64>,
    objects: &BTreeMap<u32, Objects>,
    lost_below: &HashMap<u32, u64>,
) -> Vec<Missing> {
    let mut missing = Vec::new();
    for (file, layout) in files {
        let places = places(groups, FileId(*file), layout);
        let lost = places.iter().filter(|place| {
            let found = objects.get(&place.server);
            found.is_some_and(|found| !found.contains_key(&place.object))
                && lost_below.get(&place.server).is_some_and(|it| file < it)
        });
        let lost: Vec<_> = lost.map(|place| place.placement).collect();
        let size = size_with_lost(sizes.get(file).copied().unwrap_or(0), &lost);
        for place in places {
            let Some(found) = objects.get(&place.server) else {
                continue;
            };
            let len = object_size(size, place.placement);
            if len > 0 && !found.contains_key(&place.object) {
                missing.push(Missing {
                    object: place.object,
                    server: place.server,
                    len,
                    size,
                });
            }
        }
    }
    missing
}

/// The objects of one I/O server.
pub(super) struct Listed {
    pub(super) objects: Objects,
    /// Other names.
    foreign_files: u64,
    /// Files with numbers below this may have had objects on a lost disk.
    lost_below: u64,
}

/// All objects of an I/O server.
pub(super) async fn list(volume: &VolumeFs, number: u32) -> Result<Listed, String> {
    let (mut objects, mut foreign_files, mut lost_below) = (Objects::default(), 0, 0);
    let mut at = ObjectPosition {
        folder: 0,
        cookie: 0,
        verifier: 0,
    };
    while at.folder < FOLDERS {
        let page = volume.objects(number, at).await;
        let page = page.map_err(|error| error.to_string())?;
        if (page.next.folder, page.next.cookie) == (at.folder, at.cookie) {
            return Err(String::from("the list does not advance"));
        }
        foreign_files += u64::from(page.foreign_files);
        lost_below = page.lost_below;
        objects.extend(page.objects.iter().map(|entry| (entry.object, entry.size)));
        at = page.next;
    }
    Ok(Listed {
        objects,
        foreign_files,
        lost_below,
    })
}

/// All regular files of a volume.
pub(super) async fn all_files(volume: &VolumeFs, caller: &Credentials) -> Result<Files, Status> {
    let (mut files, mut from) = (Files::new(), 0);
    loop {
        let page = volume.files(caller, FileId(from)).await?;
        let last = page.files.last().map(|it| it.file);
        files.extend(page.files.into_iter().map(|it| (it.file, it.layout)));
        match last {
            Some(last) if !page.complete => from = last.saturating_add(1),
            _ => return Ok(files),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_missing_where_its_file_reaches_into_it() {
        let layout = LayoutRecord {
            unit: 10,
            groups: vec![0, 1, 2],
        };
        let files = Files::from([(7, layout.clone()), (8, layout)]);
        // File 7 ends on server 1, in its second round; file 8 on server 0.
        let groups = Groups::of_servers(3);
        let object = |group, file| ObjectId { group, file };
        let objects = BTreeMap::from([
            (0, Objects::from([(object(0, 8), 5)])),
            (1, Objects::from([(object(1, 7), 12)])),
            (2, Objects::new()),
        ]);
        let mut compared = Compared::default();
        let sizes = compared.sizes(&files, &groups, &objects);
        assert_eq!((sizes[&7], sizes[&8]), (42, 5));
        let below = HashMap::from([(0, 8)]);
        let missing = missing(&files, &groups, &sizes, &objects, &below);
        let all: Vec<_> = missing
            .iter()
            .map(|it| (it.object.file, it.server, it.len, it.size))
            .collect();
        assert_eq!(all, [(7, 0, 20, 42), (7, 2, 10, 42)]);
        assert!(compared.findings.is_empty());
    }
}
