//! `gannet volume check`: metadata against itself, and against the objects of the I/O servers.

use super::host::{lock_folder, open_metadata};
use super::{Volume, check_served};
use crate::cli::CheckOptions;
use crate::failure::{Explain, Failure};
use crate::output;
use crate::url::Location;
use gannet_volume::layout::{placements, size_from_object};
use gannet_volume::meta::MetaStore;
use gannet_volume::meta::check::{Survey, files_on, survey};
use std::collections::{HashMap, HashSet};
use std::fs::{DirEntry, File};
use std::io;
use std::path::{Path, PathBuf};

/// What is known of objects.
#[derive(Default)]
struct Objects {
    /// Their lengths by file and I/O server.
    sizes: HashMap<(u64, u32), u64>,
    /// I/O servers whose folders are here.
    looked: HashSet<u32>,
    count: u64,
}

/// Files to be removed with `--repair`.
type Orphans = Vec<PathBuf>;

/// Checks a volume. Says what does not fit, a line each.
///
/// # Errors
/// It cannot be read, or something does not fit.
pub(super) fn run(options: &CheckOptions) -> Result<(), Failure> {
    match &options.volume {
        Location::Local(path) => check_folder(path, options.repair),
        Location::Remote(url) if options.repair && !url.path.is_empty() => {
            let what = format!("cannot repair {url}");
            Err(Failure::usage(what, "a volume is repaired as a whole").hint("leave the path out"))
        }
        Location::Remote(url) => check_served::run(url, &options.client, options.repair),
    }
}

fn check_folder(path: &Path, repair: bool) -> Result<(), Failure> {
    let volume = Volume::open(path)?;
    let what = || format!("cannot check the volume {}", path.display());
    let metadata = open_metadata(&volume)?;
    let mut looked = None;
    let read = metadata.read(&mut |view| looked = Some(survey(view)));
    read.explain(what)?;
    let survey = looked.ok_or_else(|| Failure::new(what(), "its metadata gives no view"))?;
    let mut survey = survey.explain(what)?;
    let (mut objects, mut orphans, mut locks) = (Objects::default(), Orphans::new(), Vec::new());
    for (number, folder) in (0..).zip(volume.folders()) {
        match lock_folder(&folder) {
            Ok(lock) => locks.push(lock),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let folder = folder.display();
                note(&format!(
                    "I/O server {number} is not checked: {folder} is not here"
                ))?;
                continue;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let why = format!("a process serves I/O server {number}");
                return Err(Failure::new(what(), why).hint("stop it first"));
            }
            Err(error) => return Err(Failure::new(what(), error)),
        }
        look_at_server(&folder, number, &mut survey, (&mut objects, &mut orphans)).explain(what)?;
    }
    look_at_files(&mut survey, &objects)?;
    let repaired = match repair {
        true => remove(&orphans)?,
        false => 0,
    };
    drop::<Vec<File>>(locks);
    report(&survey, &objects, repaired)
}

/// Tells of what may be as it should.
///
/// # Errors
/// Standard output is gone.
pub(super) fn note(what: &str) -> Result<(), Failure> {
    output::line(&format!("note: {what}"))
}

/// Compares the objects of one I/O server with the files that lie on it.
fn look_at_server(
    folder: &Path,
    number: u32,
    survey: &mut Survey,
    (objects, orphans): (&mut Objects, &mut Orphans),
) -> io::Result<()> {
    objects.looked.insert(number);
    let files = files_on(survey, number);
    let unlinked = survey.promises.iter().map(|(_, promise)| promise.file().0);
    let promised: HashSet<u64> = unlinked.collect();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if !entry.file_type()?.is_dir() {
            let what = format!("I/O server {number}: {} is no object", shown(&entry));
            survey.findings.push(what);
            continue;
        }
        for object in std::fs::read_dir(entry.path())? {
            let object = object?;
            let Some(file) = file_of(&entry, &object) else {
                let what = format!("I/O server {number}: {} is no object", shown(&object));
                survey.findings.push(what);
                continue;
            };
            objects.count += 1;
            objects
                .sizes
                .insert((file, number), object.metadata()?.len());
            if !files.contains_key(&file) && !promised.contains(&file) {
                let path = shown(&object);
                let what = format!("I/O server {number}: {path} belongs to no file");
                survey.findings.push(what);
                orphans.push(object.path());
            }
        }
    }
    Ok(())
}

fn shown(entry: &DirEntry) -> String {
    entry.path().display().to_string()
}

/// The number of the file that an object is of, by its name and its folder's.
fn file_of(folder: &DirEntry, object: &DirEntry) -> Option<u64> {
    let (folder, name) = (folder.file_name(), object.file_name());
    let (folder, name) = (folder.to_str()?, name.to_str()?);
    let file = u64::from_str_radix(name, 16).ok()?;
    let is_right = name == format!("{file:016x}") && folder == format!("{:02x}", file & 0xff);
    is_right.then_some(file)
}

/// Compares the parts of each file with each other.
fn look_at_files(survey: &mut Survey, objects: &Objects) -> Result<(), Failure> {
    for (id, layout) in &survey.files {
        let mut size = 0;
        for (number, placement) in placements(layout) {
            let Some(len) = objects.sizes.get(&(id.0, number)) else {
                continue;
            };
            match size_from_object(*len, placement) {
                Some(whole) => size = size.max(whole),
                None => survey.findings.push(format!(
                    "file {}: its object on I/O server {number} is longer than a file can be",
                    id.0
                )),
            }
        }
        for (number, placement) in placements(layout) {
            let is_missing =
                objects.looked.contains(&number) && !objects.sizes.contains_key(&(id.0, number));
            // Its first byte there.
            let start = u64::from(placement.unit) * u64::from(placement.index);
            if is_missing && size > start {
                note(&format!(
                    "file {}: no object on I/O server {number}, and {size} bytes in all: a hole, or lost",
                    id.0
                ))?;
            }
        }
    }
    match survey.promises.len() {
        0 => Ok(()),
        count => note(&format!(
            "{count} removals and truncations are still to be done at I/O servers, or once more: they are when the volume is served"
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
            let failure = Failure::new("the volume is not sound", format!("{left} findings"));
            Err(failure.hint("docs/volumes.md says what they mean, and what --repair does"))
        }
    }
}
