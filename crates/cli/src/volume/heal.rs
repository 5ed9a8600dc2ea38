//! `gannet volume heal`: which data of a volume lack a copy, and why.

use super::check_objects::{Objects, all_files, list};
use super::copies::wanting_two;
use crate::cli::HealOptions;
use crate::failure::{Explain, Failure};
use crate::output;
use crate::session;
use gannet::url::Url;
use gannet_meta::groups::Groups;
use gannet_vfs::{
    Credentials, DirectoryEntry, Entries, FileHandle, FileKind, Status, Verifier, Vfs,
};
use gannet_volume::client::VolumeFs;
use gannet_wire::volume::{CopiesWanted, GROUPS_MAX, Member, MemberState, STALE_GROUPS_MAX};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Directories below each other that are looked into.
const DEPTH_MAX: usize = 1024;
/// Answers that name all groups of a volume.
const ANSWERS_MAX: usize = GROUPS_MAX.div_ceil(STALE_GROUPS_MAX);

/// The output of `--json`.
#[derive(Serialize)]
struct HealJson {
    url: String,
    /// The groups that lack a copy.
    groups: Vec<Lack>,
    /// The files with data in one of them, by their URLs.
    files: Vec<String>,
    /// The groups that have had their older copy accepted.
    accepted: Vec<u32>,
}

/// A group that lacks a copy.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Lack {
    group: u32,
    /// The I/O server with all data.
    #[serde(skip_serializing_if = "Option::is_none")]
    primary: Option<u32>,
    /// The I/O server that lacks some.
    io_server: u32,
    why: Why,
    /// How many of the group's objects there are at that server, some of them maybe older ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    objects_there: Option<usize>,
    /// How many objects the group has.
    #[serde(skip_serializing_if = "Option::is_none")]
    objects: Option<usize>,
}

/// Why a group lacks a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Why {
    /// The server is being filled.
    Filling,
    /// The server is there, and about to be filled.
    Waiting,
    /// The server does not answer.
    Away,
    /// The server with all data is gone, and this one has older data.
    Stale,
    /// The server with all data does not answer, and this one has none that could count.
    NoPrimary,
    /// The server has all data, and no other one is to have them.
    Single,
}

/// Shows which data lack a copy, after older copies were accepted if that is asked for.
///
/// # Errors
/// The volume cannot be reached, or some data lack a copy.
pub(super) fn run(options: &HealOptions) -> Result<(), Failure> {
    session::run(async |runtime| {
        let url = &options.url;
        let what = || format!("cannot heal {url}");
        let (volume, caller) = session::open_volume(&runtime, url, &options.client).await?;
        let accepted = if options.accept_stale {
            accept(&volume, &caller).await.map_err(|status| {
                Failure::new(what(), status).hint_if(
                    status == Status::Perm,
                    "only root and the volume's owner may (--uid)",
                )
            })?
        } else {
            Vec::new()
        };
        let stale = volume
            .stale_groups(&caller, Vec::new())
            .await
            .explain(what)?;
        let servers = volume.io_servers().await.explain(what)?;
        let there = (0..).zip(&servers).filter(|(_, reached)| reached.is_ok());
        let there: BTreeSet<u32> = there.map(|(number, _)| number).collect();
        let groups = volume.groups().await.explain(what)?;
        let state = volume.set_copies(&caller, CopiesWanted::NOTHING).await;
        let chosen = state.explain(what)?.chosen;
        let groups = Groups::clone(&groups).choosing(chosen);
        let mut lacks = lacking(&groups, &there, &stale);
        count_objects(&volume, &mut lacks, &there).await;
        let files = files_in(url, &volume, &caller, &lacks).await?;
        let shown = HealJson {
            url: url.to_string(),
            groups: lacks,
            files,
            accepted,
        };
        if options.json {
            output::json(&shown)?;
        } else {
            output::line(&shown.text())?;
        }
        shown.judged()
    })
}

/// Accepts all older copies that alone are left now; returns of which groups.
async fn accept(volume: &VolumeFs, caller: &Credentials) -> Result<Vec<u32>, Status> {
    let mut accepted = Vec::new();
    for _ in 0..ANSWERS_MAX {
        let stale = volume.stale_groups(caller, Vec::new()).await?;
        if stale.is_empty() {
            break;
        }
        accepted.extend(&stale);
        volume.stale_groups(caller, stale).await?;
    }
    Ok(accepted)
}

/// The groups that lack a copy, where these I/O servers answer, and these groups are stale.
fn lacking(groups: &Groups, there: &BTreeSet<u32>, stale: &[u32]) -> Vec<Lack> {
    let mut lacks = Vec::new();
    for (group, record) in wanting_two(groups) {
        let primary = record.primary();
        let is_there = |server: u32| there.contains(&server);
        let why = |member: &Member| match (&record.members[..], member.state) {
            ([_], _) => Some(Why::Single),
            (_, MemberState::In) => (!is_there(member.server)).then_some(Why::Away),
            _ if stale.contains(&group) => Some(Why::Stale),
            _ if !is_there(member.server) => Some(Why::Away),
            _ if !primary.is_some_and(is_there) => Some(Why::NoPrimary),
            (_, MemberState::Filling) => Some(Why::Filling),
            _ => Some(Why::Waiting),
        };
        let members = record.members.iter();
        let lacking = members.filter_map(|member| Some((member.server, why(member)?)));
        lacks.extend(lacking.map(|(io_server, why)| Lack {
            group,
            primary,
            io_server,
            why,
            objects_there: None,
            objects: None,
        }));
    }
    lacks
}

/// Counts the objects of groups that are being filled, as far as their servers list them.
async fn count_objects(volume: &VolumeFs, lacks: &mut [Lack], there: &BTreeSet<u32>) {
    let is_filling = |lack: &&Lack| lack.why == Why::Filling;
    let servers = lacks.iter().filter(is_filling);
    let servers = servers.flat_map(|it| it.primary.into_iter().chain([it.io_server]));
    let servers: BTreeSet<u32> = servers.filter(|it| there.contains(it)).collect();
    let mut listed: BTreeMap<u32, Objects> = BTreeMap::new();
    for server in servers {
        // Without a list the count is not shown.
        if let Ok(found) = list(volume, server).await {
            listed.insert(server, found.objects);
        }
    }
    for lack in lacks.iter_mut().filter(|it| it.why == Why::Filling) {
        let of_group = |server: u32| -> Option<BTreeSet<u64>> {
            let objects = listed.get(&server)?.keys();
            let objects = objects.filter(|object| object.group == lack.group);
            Some(objects.map(|object| object.file).collect())
        };
        let (whole, part) = (lack.primary.and_then(of_group), of_group(lack.io_server));
        if let (Some(whole), Some(part)) = (whole, part) {
            lack.objects = Some(whole.len());
            lack.objects_there = Some(whole.intersection(&part).count());
        }
    }
}

/// The files with data in groups that lack a copy, by their URLs.
async fn files_in(
    url: &Url,
    volume: &VolumeFs,
    caller: &Credentials,
    lacks: &[Lack],
) -> Result<Vec<String>, Failure> {
    if lacks.is_empty() {
        return Ok(Vec::new());
    }
    let groups: BTreeSet<u32> = lacks.iter().map(|lack| lack.group).collect();
    let files = all_files(volume, caller).await;
    let files = files.explain(|| format!("cannot list the files of {url}"))?;
    let files = files.into_iter().filter(|(_, layout)| {
        let mut its_groups = layout.groups.iter();
        its_groups.any(|group| groups.contains(group))
    });
    let files: BTreeSet<u64> = files.map(|(file, _)| file).collect();
    let names: Vec<&[u8]> = url.path.iter().map(Vec::as_slice).collect();
    let directory = volume.resolve(caller, &names).await;
    let directory = directory.explain(|| format!("cannot find {url}"))?;
    let mut names = Names {
        files: &files,
        url: url.clone(),
        depth: 0,
        cookie: 0,
        ahead: vec![(url.clone(), directory, 0)],
        paths: Vec::new(),
    };
    while let Some((url, directory, depth)) = names.ahead.pop() {
        (names.url, names.depth, names.cookie) = (url, depth, 0);
        let (mut is_over, mut verifier) = (false, Verifier::default());
        while !is_over {
            let (cookie, into) = (names.cookie, &mut names);
            let page = volume.read_directory(caller, &directory, cookie, verifier, into);
            let page = page
                .await
                .explain(|| format!("cannot list {}", names.url))?;
            (is_over, verifier) = (page.eof || names.cookie == cookie, page.verifier);
        }
    }
    names.paths.sort_unstable();
    Ok(names.paths)
}

/// The URLs of files that are looked for. Servers with parts of them may be away: names of a volume's own protocol have
/// numbers even so.
struct Names<'a> {
    files: &'a BTreeSet<u64>,
    /// The directory that is being listed, and its depth.
    url: Url,
    depth: usize,
    /// The position in it.
    cookie: u64,
    /// Directories that are to be listed.
    ahead: Vec<(Url, FileHandle, usize)>,
    paths: Vec<String>,
}

impl Entries for Names<'_> {
    fn wants_objects(&self) -> bool {
        true
    }

    fn push(&mut self, entry: &DirectoryEntry<'_>) -> bool {
        self.cookie = entry.cookie;
        if matches!(entry.name, b"." | b"..") {
            return true;
        }
        let below = self.url.child(entry.name);
        if self.files.contains(&entry.fileid) {
            self.paths.push(below.to_string());
        }
        match entry.object {
            Some((handle, attributes))
                if attributes.kind == FileKind::Directory && self.depth < DEPTH_MAX =>
            {
                self.ahead.push((below, handle, self.depth + 1));
            }
            _ => {}
        }
        true
    }
}

impl Lack {
    fn text(&self) -> String {
        let Lack {
            group, io_server, ..
        } = self;
        match (self.why, self.objects_there.zip(self.objects)) {
            (Why::Filling, Some((part, whole))) => format!(
                "group {group}: I/O server {io_server} is being filled: {part} of {whole} objects are there, old ones too"
            ),
            (Why::Filling, None) => {
                format!("group {group}: I/O server {io_server} is being filled")
            }
            (Why::Waiting, _) => {
                format!("group {group}: I/O server {io_server} is there, and is filled by itself")
            }
            (Why::Away, _) => {
                format!("group {group}: I/O server {io_server} does not answer: start it")
            }
            (Why::NoPrimary, _) => format!(
                "group {group}: I/O server {} alone has all data, and does not answer: start it",
                self.primary.map_or_else(String::new, |it| it.to_string())
            ),
            (Why::Single, _) => format!(
                "group {group}: I/O server {io_server} is its only one: `gannet volume copies URL 2` adds another"
            ),
            (Why::Stale, _) => format!(
                "group {group}: I/O server {} is gone or has lost its disk, and I/O server {io_server} has older data",
                self.primary.map_or_else(String::new, |it| it.to_string())
            ),
        }
    }
}

impl HealJson {
    fn has_stale(&self) -> bool {
        self.groups.iter().any(|lack| lack.why == Why::Stale)
    }

    fn text(&self) -> String {
        let mut lines = Vec::new();
        if !self.accepted.is_empty() {
            lines.push(format!(
                "{} groups have their older data from now on, and are filled with them",
                self.accepted.len()
            ));
        }
        lines.extend(self.groups.iter().map(Lack::text));
        if self.groups.is_empty() {
            lines.push(String::from("all data have their copies"));
        } else {
            lines.push(format!(
                "files with one copy of some data: {}",
                self.files.len()
            ));
            lines.extend(self.files.iter().cloned());
        }
        if self.has_stale() {
            lines.push(String::from(
                "note: `gannet volume heal --accept-stale` has the older data count; which of these files have changed \
                 since is not known, and their later changes are lost then for good",
            ));
        }
        lines.join("\n")
    }

    /// Fails if a group lacks a copy whose older one was not just accepted.
    ///
    /// # Errors
    /// There are such groups.
    fn judged(&self) -> Result<(), Failure> {
        let lacking = self.groups.iter().map(|lack| lack.group);
        let lacking: BTreeSet<u32> = lacking
            .filter(|group| !self.accepted.contains(group))
            .collect();
        if lacking.is_empty() {
            return Ok(());
        }
        let why = format!("{} groups lack a copy", lacking.len());
        let hint = "each line says why; a server that answers is filled by itself";
        Err(Failure::new(format!("{} is not whole", self.url), why).hint(hint))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gannet_wire::volume::GroupRecord;

    #[test]
    fn each_group_that_lacks_a_copy_says_why() {
        let record = |states: [MemberState; 2]| GroupRecord {
            epoch: 3,
            members: (0..)
                .zip(states)
                .map(|(server, state)| Member { server, state })
                .collect(),
        };
        use MemberState::{Filling, In, Out};
        let records = [
            record([In, In]),
            record([In, Filling]),
            record([In, Out]),
            record([Out, In]),
            GroupRecord::of(1),
        ];
        let of = |there: &[u32], stale: &[u32]| -> Vec<_> {
            let there = there.iter().copied().collect();
            let lacks = lacking(&Groups::new(records.to_vec()), &there, stale);
            lacks
                .iter()
                .map(|it| (it.group, it.io_server, it.why))
                .collect()
        };
        let single = (4, 1, Why::Single);
        let all = [
            (1, 1, Why::Filling),
            (2, 1, Why::Waiting),
            (3, 0, Why::Waiting),
            single,
        ];
        assert_eq!(of(&[0, 1], &[]), all);
        let one = [
            (0, 1, Why::Away),
            (1, 1, Why::Away),
            (2, 1, Why::Away),
            (3, 0, Why::NoPrimary),
            (3, 1, Why::Away),
            single,
        ];
        assert_eq!(of(&[0], &[]), one);
        let stale = [
            (0, 0, Why::Away),
            (1, 0, Why::Away),
            (1, 1, Why::NoPrimary),
            (2, 0, Why::Away),
            (2, 1, Why::Stale),
            (3, 0, Why::Away),
            single,
        ];
        assert_eq!(of(&[1], &[2]), stale);
        // In a volume with one copy none is lacking.
        let single = Groups::new(records[4..].to_vec());
        assert!(lacking(&single, &BTreeSet::new(), &[]).is_empty());
        // A directory chose that the last group has one member.
        let chosen = Groups::new(records.to_vec()).choosing([4]);
        let lacks = lacking(&chosen, &BTreeSet::from([0, 1]), &[]);
        assert!(lacks.iter().all(|it| it.why != Why::Single));
    }
}
