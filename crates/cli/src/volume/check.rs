//! `gannet volume check`: metadata against itself, and against the objects of the I/O servers.

use super::{check_served, explain};
use crate::cli::CheckOptions;
use crate::failure::{Explain, Failure};
use crate::output;
use gannet::url::Location;
use gannet::volume::{METADATA_CACHE, Owner, Volume, VolumeError, lock_folder, open_metadata};
use gannet_meta::check::{Survey, objects_on, paths_of, survey};
use gannet_meta::claims::{self, Loss};
use gannet_meta::groups::{Groups, groups};
use gannet_meta::namespace::{self, Outcome};
use gannet_meta::orphan_check::{OrphanCheck, status_by_age};
use gannet_meta::{MetaStore, RedbStore, View};
use gannet_volume::io_server::{GROUPS_FILE, INTENTS_FILE, OWNER_FILE, TERM_FILE, object_at};
use gannet_volume::layout::{ObjectPlace, object_size, places, size_from_object, size_with_lost};
use gannet_wire::volume::{FileId, ObjectId, OrphanStatus, Placement};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs::{DirEntry, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The cure where a process serves the volume whose folder is to be checked.
const SERVED: &str = "check it by its URL, `gannet volume check gannet://HOST/`, or stop it first";

/// The objects that I/O servers have listed.
#[derive(Default)]
struct Objects {
    /// The lengths of the objects, by name and I/O server.
    sizes: HashMap<(ObjectId, u32), u64>,
    /// I/O servers whose folders are here.
    looked: HashSet<u32>,
    count: u64,
}

impl Objects {
    fn has(&self, place: &ObjectPlace) -> bool {
        self.sizes.contains_key(&(place.object, place.server))
    }
}

/// An object for which no file was found.
struct Left {
    server: u32,
    object: ObjectId,
    path: PathBuf,
    /// When it was last written to, since the Unix epoch.
    modified: Duration,
}

/// Files to be removed with `--repair`.
type Orphans = Vec<PathBuf>;

/// Checks a volume. Says what does not fit, a line each.
///
/// # Errors
/// It cannot be read, or something does not fit.
pub(super) fn run(options: &CheckOptions) -> Result<(), Failure> {
    match &options.volume {
        Location::Local(path) => check_folder(path, options),
        Location::Remote(url) if (options.repair || options.lost) && !url.path.is_empty() => {
            let what = format!("cannot repair {url}, or find what it has lost");
            let why = "that is done of a volume as a whole";
            Err(Failure::usage(what, why).hint("leave the path out"))
        }
        Location::Remote(url) if options.lost => check_served::lost(url, &options.client),
        Location::Remote(url) => check_served::run(url, &options.client, options.repair),
    }
}

fn check_folder(path: &Path, options: &CheckOptions) -> Result<(), Failure> {
    let volume = super::open(path)?;
    let what = || format!("cannot check the volume {}", path.display());
    let metadata = match open_metadata(&volume) {
        Ok(metadata) => metadata,
        Err(VolumeError::ServedElsewhere) => {
            return Err(Failure::new(what(), "another process serves this volume").hint(SERVED));
        }
        Err(error) => return report_damage(&volume, explain(path, error)),
    };
    let mut looked = Ok(Survey::default());
    let read = metadata.read(&mut |view| looked = survey(view));
    read.explain(what)?;
    let mut survey = looked.explain(what)?;
    let folders = volume.folders();
    let Some(groups) = known_groups(&metadata, folders.len(), &mut survey).explain(what)? else {
        return report(&survey, &Objects::default(), 0);
    };
    let is_sound = survey.findings.is_empty();
    let (mut objects, mut left, mut locks) = (Objects::default(), Vec::new(), Vec::new());
    for (number, folder) in (0..).zip(&folders) {
        if folders.iter().filter(|it| *it == folder).count() > 1 {
            let folder = folder.display();
            note(&format!(
                "I/O server {number} is not checked: several I/O servers, on different hosts, use the path {folder}"
            ))?;
            continue;
        }
        match lock_folder(folder) {
            Ok(lock) => locks.push(lock),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let folder = folder.display();
                let what = format!("I/O server {number} is not checked: {folder} is not here");
                note(&what)?;
                continue;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let why = format!("a process serves I/O server {number}");
                return Err(Failure::new(what(), why).hint(SERVED));
            }
            Err(error) => return Err(Failure::new(what(), error)),
        }
        if let Some(other) = other_owner(&volume, folder, number)? {
            let folder = folder.display();
            survey.findings.push(format!(
                "I/O server {number} is not checked: {folder} belongs to {other}"
            ));
            continue;
        }
        let known = objects_on(&survey, &groups, number);
        look_at_server(folder, number, &known, &mut survey, &mut objects, &mut left)
            .explain(what)?;
    }
    let mut statuses: Outcome<Vec<_>> = Ok(Vec::new());
    let read = metadata.read(&mut |view| statuses = judge(view, &groups, &left));
    read.explain(what)?;
    let lost = lost_files(&survey, &groups, &objects, &losses(&metadata)?);
    if options.lost {
        return list_lost(&metadata, &lost.keys().copied().collect());
    }
    let orphans = report_orphans(left, statuses.explain(what)?, is_sound, &mut survey)?;
    look_at_files(&mut survey, &groups, &objects, &lost)?;
    let repaired = if options.repair { remove(&orphans)? } else { 0 };
    drop::<Vec<File>>(locks);
    report(&survey, &objects, repaired)
}

/// The owner of an I/O server's folder, if that is not the server.
fn other_owner(volume: &Volume, folder: &Path, number: u32) -> Result<Option<Owner>, Failure> {
    let own = Owner {
        volume: volume.description.identity,
        io_server: number as usize,
        lost_below: 0,
    };
    let owner = Owner::of(folder).explain(|| format!("cannot check {}", folder.display()))?;
    Ok(owner.filter(|owner| !owner.is(&own)))
}

/// The groups of a volume with so many I/O servers; `None`, and a finding, if their records are damaged.
fn known_groups(
    metadata: &dyn MetaStore,
    servers: usize,
    survey: &mut Survey,
) -> Outcome<Option<Groups>> {
    let mut known = Ok(Groups::of_servers(0));
    // Bounded by WIDTH_MAX.
    metadata.read(&mut |view| known = groups(view, servers as u32))?;
    match known {
        Err(namespace::Failure::Damaged(_)) => {
            let finding = "records of groups are damaged: objects are not looked at";
            survey.findings.push(String::from(finding));
            Ok(None)
        }
        known => known.map(Some),
    }
}

/// Reports the damaged values of a metadata file that cannot be opened, as far as they can be found.
///
/// # Errors
/// Always: the volume cannot be used as it is.
fn report_damage(volume: &Volume, failure: Failure) -> Result<(), Failure> {
    let path = volume.metadata();
    // Opened elsewhere, missing or no store at all: the failure says so.
    let damaged = RedbStore::damaged_values(&path, METADATA_CACHE).unwrap_or_default();
    for value in damaged {
        output::line(&value.to_string())?;
    }
    Err(failure)
}

/// Reports something that may be in order.
///
/// # Errors
/// Standard output is gone.
pub(super) fn note(what: &str) -> Result<(), Failure> {
    output::line(&format!("note: {what}"))
}

/// The finding about an I/O server that has no objects although `count` files reach into it.
pub(super) fn empty(number: u32, count: usize) -> String {
    format!(
        "I/O server {number} has no objects at all, and {count} files reach into it: its disk may be lost or not mounted"
    )
}

/// Compares the objects of one I/O server with those that it should have. Adds the objects to `objects`, and those for
/// which there is no file also to `left`.
fn look_at_server(
    folder: &Path,
    number: u32,
    known: &HashMap<ObjectId, usize>,
    survey: &mut Survey,
    objects: &mut Objects,
    left: &mut Vec<Left>,
) -> io::Result<()> {
    objects.looked.insert(number);
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if [OWNER_FILE, TERM_FILE, GROUPS_FILE, INTENTS_FILE]
            .iter()
            .any(|own| entry.file_name() == *own)
        {
            continue;
        }
        if !entry.file_type()?.is_dir() {
            let what = format!("I/O server {number}: {} is a foreign file", shown(&entry));
            survey.findings.push(what);
            continue;
        }
        for object in std::fs::read_dir(entry.path())? {
            let object = object?;
            let found = object.metadata()?;
            let (folder, name) = (entry.file_name(), object.file_name());
            let named = object_at(folder.as_bytes(), name.as_bytes(), number);
            let Some(named) = named.filter(|_| found.is_file()) else {
                let what = format!("I/O server {number}: {} is a foreign file", shown(&object));
                survey.findings.push(what);
                continue;
            };
            objects.count += 1;
            objects.sizes.insert((named, number), found.len());
            if !known.contains_key(&named) {
                left.push(Left {
                    server: number,
                    object: named,
                    path: object.path(),
                    modified: since_epoch(found.modified()?),
                });
            }
        }
    }
    Ok(())
}

/// A time before the epoch counts as the epoch: the host's clock is not set.
fn since_epoch(time: SystemTime) -> Duration {
    time.duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
}

/// The status of objects for which no file was found; `None` where damaged metadata does not determine it.
fn judge(view: &dyn View, groups: &Groups, left: &[Left]) -> Outcome<Vec<Option<OrphanStatus>>> {
    let now = since_epoch(SystemTime::now());
    let judge = match OrphanCheck::new(view, groups) {
        Ok(judge) => judge,
        Err(namespace::Failure::Damaged(_)) => return Ok(vec![None; left.len()]),
        Err(failure) => return Err(failure),
    };
    let objects: Vec<_> = left.iter().map(|it| (it.server, it.object)).collect();
    let found = match judge.statuses(view, &objects) {
        Err(namespace::Failure::Damaged(_)) => return Ok(vec![None; left.len()]),
        found => found?,
    };
    let statuses = found.into_iter().zip(left).map(|(found, it)| match found {
        Ok(None) => Ok(Some(status_by_age(it.modified, now))),
        Err(namespace::Failure::Damaged(_)) => Ok(None),
        found => found,
    });
    statuses.collect()
}

/// Reports objects for which no file was found; returns those that may be removed.
fn report_orphans(
    left: Vec<Left>,
    statuses: Vec<Option<OrphanStatus>>,
    is_sound: bool,
    survey: &mut Survey,
) -> Result<Orphans, Failure> {
    let mut orphans = Orphans::new();
    for (object, status) in left.into_iter().zip(statuses) {
        let what = format!("I/O server {}: {}", object.server, object.path.display());
        let finding = match status {
            Some(OrphanStatus::Orphan) if is_sound => {
                orphans.push(object.path);
                format!("{what} belongs to no file")
            }
            Some(OrphanStatus::Orphan | OrphanStatus::Named) | None => {
                format!(
                    "{what} belongs to no file that can be found: not removed, the metadata is damaged"
                )
            }
            Some(OrphanStatus::NeverMade) => format!(
                "{what} belongs to a file that the manager never made: not removed, the metadata may be an old copy"
            ),
            Some(OrphanStatus::Recent) => {
                note(&format!(
                    "{what} belongs to no file, and was written less than five minutes ago: not removed yet"
                ))?;
                continue;
            }
            Some(
                OrphanStatus::Pending
                | OrphanStatus::InUse
                | OrphanStatus::Removed
                | OrphanStatus::Gone,
            ) => {
                continue;
            }
        };
        survey.findings.push(finding);
    }
    Ok(orphans)
}

fn shown(entry: &DirEntry) -> String {
    entry.path().display().to_string()
}

/// The disks that were lost.
fn losses(metadata: &dyn MetaStore) -> Result<BTreeMap<u32, Loss>, Failure> {
    let what = || String::from("cannot read which disks were lost");
    let mut losses = Ok(BTreeMap::new());
    let read = metadata.read(&mut |view| losses = claims::losses(view));
    read.explain(what)?;
    losses.explain(what)
}

/// Files that have lost bytes, and the I/O servers whose disks had them.
type Lost = BTreeMap<FileId, Vec<u32>>;

/// The files with missing objects on servers whose disks were lost after the files had been made.
fn lost_files(
    survey: &Survey,
    groups: &Groups,
    objects: &Objects,
    losses: &BTreeMap<u32, Loss>,
) -> Lost {
    let mut lost = Lost::new();
    for (id, layout) in &survey.files {
        let places = places(groups, *id, layout);
        let of_file = places.iter().filter(|place| {
            let loss = losses.get(&place.server);
            loss.is_some_and(|loss| id.0 < loss.below)
                && objects.looked.contains(&place.server)
                && !objects.has(place)
        });
        let of_file = of_file.map(|place| (place.server, place.placement));
        let (numbers, gone): (Vec<u32>, Vec<Placement>) = of_file.unzip();
        let known = places.iter().filter_map(|place| {
            let len = objects.sizes.get(&(place.object, place.server))?;
            size_from_object(*len, place.placement)
        });
        let size = size_with_lost(known.max().unwrap_or(0), &gone);
        let reached = numbers.into_iter().zip(gone);
        let reached = reached.filter(|(_, placement)| object_size(size, *placement) > 0);
        let numbers: Vec<u32> = reached.map(|(number, _)| number).collect();
        if !numbers.is_empty() {
            lost.insert(*id, numbers);
        }
    }
    lost
}

/// Lists files that have lost bytes by their paths.
fn list_lost(metadata: &dyn MetaStore, lost: &BTreeSet<FileId>) -> Result<(), Failure> {
    let what = || String::from("cannot list what was lost");
    let mut paths = Ok(Vec::new());
    let read = metadata.read(&mut |view| paths = paths_of(view, lost));
    read.explain(what)?;
    let mut paths = paths.explain(what)?;
    paths.sort_unstable();
    let paths = paths.iter().map(|path| String::from_utf8_lossy(path));
    report_lost(paths.map(|path| format!("/{path}")).collect())
}

/// Lists files that have lost bytes.
///
/// # Errors
/// There are some.
pub(super) fn report_lost(paths: Vec<String>) -> Result<(), Failure> {
    for path in &paths {
        output::line(path)?;
    }
    match paths.len() {
        0 => Ok(()),
        count => {
            let why = format!("{count} names of files with lost bytes");
            let hint = "remove these files, or copy them to the volume again";
            Err(Failure::new("the volume has lost data", why).hint(hint))
        }
    }
}

/// Compares the parts of each file with each other.
fn look_at_files(
    survey: &mut Survey,
    groups: &Groups,
    objects: &Objects,
    lost: &Lost,
) -> Result<(), Failure> {
    let mut lacking: BTreeMap<u32, usize> = BTreeMap::new();
    for (id, numbers) in lost {
        let what = format!(
            "file {}: it lost bytes with the disks of I/O servers {numbers:?}",
            id.0
        );
        survey.findings.push(what);
    }
    for (id, layout) in &survey.files {
        let (mut size, places) = (0, places(groups, *id, layout));
        for place in &places {
            let Some(len) = objects.sizes.get(&(place.object, place.server)) else {
                continue;
            };
            let number = place.server;
            match size_from_object(*len, place.placement) {
                Some(whole) => size = size.max(whole),
                None => survey.findings.push(format!(
                    "file {}: its object on I/O server {number} is longer than a file can be",
                    id.0
                )),
            }
        }
        for place in &places {
            let (number, placement) = (place.server, place.placement);
            let is_lost = lost.get(id).is_some_and(|it| it.contains(&number));
            let is_missing = objects.looked.contains(&number) && !objects.has(place) && !is_lost;
            // Its first byte there.
            let start = u64::from(placement.unit) * u64::from(placement.index);
            if is_missing && size > start {
                *lacking.entry(number).or_default() += 1;
                note(&format!(
                    "file {}: no object on I/O server {number}, and {size} bytes in all: a hole, or lost data",
                    id.0
                ))?;
            }
        }
    }
    let has_objects: HashSet<u32> = objects.sizes.keys().map(|(_, number)| *number).collect();
    lacking.retain(|number, _| !has_objects.contains(number));
    (survey.findings).extend(
        lacking
            .into_iter()
            .map(|(number, count)| empty(number, count)),
    );
    match survey.intents.len() {
        0 => Ok(()),
        count => note(&format!(
            "{count} removals and truncations are pending at I/O servers: the manager does them when the volume is served"
        )),
    }
}

fn remove(orphans: &Orphans) -> Result<usize, Failure> {
    for path in orphans {
        std::fs::remove_file(path).explain(|| format!("cannot remove {}", path.display()))?;
    }
    Ok(orphans.len())
}

fn report(survey: &Survey, objects: &Objects, repaired: usize) -> Result<(), Failure> {
    let (files, directories) = (survey.files.len(), survey.directories);
    let looked = format!(
        "checked {directories} directories, {} names, {files} files, {} objects",
        survey.names, objects.count
    );
    conclude(&survey.findings, &looked, repaired)
}

/// Says what was found, and how much was looked at.
///
/// # Errors
/// Something was found that is not repaired.
pub(super) fn conclude(findings: &[String], looked: &str, repaired: usize) -> Result<(), Failure> {
    for finding in findings {
        output::line(finding)?;
    }
    let count = findings.len();
    output::line(&format!("{looked}: {count} findings, {repaired} repaired"))?;
    match count - repaired {
        0 => Ok(()),
        left => {
            let failure = Failure::new("the volume has faults", format!("{left} findings"));
            Err(failure.hint("docs/volumes.md explains the findings and --repair"))
        }
    }
}
