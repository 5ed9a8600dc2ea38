//! How files are shown: `ls` and `stat`, for people and as JSON.

mod long;

pub(crate) use long::Formatter;

use crate::cli::LsOptions;
use crate::failure::{Explain, Failure};
use crate::output;
use crate::session::Session;
use gannet::url::Url;
use gannet_client::{Error, Item, Listed, Node};
use gannet_vfs::{FileKind, Time};
use gannet_wire::printable;
use jiff::Timestamp;
use serde::Serialize;
use std::cmp::Reverse;

/// A name and what it stands for.
pub(crate) struct Shown {
    pub(crate) name: Vec<u8>,
    pub(crate) node: Node,
}

/// The output of `--json` for an object.
#[derive(Serialize)]
struct ObjectJson {
    name: String,
    /// The path from the server's root.
    path: String,
    /// As commands take it.
    url: String,
    kind: &'static str,
    mode: String,
    links: u32,
    uid: u32,
    gid: u32,
    size_bytes: u64,
    used_bytes: u64,
    fileid: u64,
    access_time: String,
    modify_time: String,
    change_time: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
}

/// The entries of a directory, sorted.
///
/// # Errors
/// The directory cannot be listed, or the attributes of an entry cannot be read.
pub(crate) async fn list(session: &Session, url: &Url, node: &Node) -> Result<Vec<Shown>, Failure> {
    let found = session.files().list_directory(&node.handle).await;
    let found = found.explain(|| format!("cannot list {url}"))?;
    Ok(sorted(found))
}

/// The entries of a directory, sorted, and names whose attributes are not known now.
#[derive(Default)]
pub(crate) struct Listing {
    pub(crate) known: Vec<Shown>,
    pub(crate) unknown: Vec<Vec<u8>>,
    /// Why they are not known.
    pub(crate) failure: Option<Failure>,
}

/// As [`list`], also of what cannot be looked at.
///
/// # Errors
/// It cannot be listed.
pub(crate) fn listing(url: &Url, found: Result<Listed, Error>) -> Result<Listing, Failure> {
    let Listed { known, unknown } = found.explain(|| format!("cannot list {url}"))?;
    let known = sorted(known);
    let Some((items, why)) = unknown else {
        return Ok(Listing {
            known,
            ..Listing::default()
        });
    };
    let names = names_of(items);
    let first = names.first().map(|name| url.child(name));
    let what = match (first, names.len()) {
        (Some(first), 1) => format!("cannot find {first}"),
        (Some(first), count) => format!("cannot find {first} and {} more", count - 1),
        (None, _) => format!("cannot list {url}"),
    };
    Ok(Listing {
        known,
        unknown: names,
        failure: Some(Failure::new(what, why)),
    })
}

/// Names of entries, sorted.
pub(crate) fn names_of(items: Vec<Item>) -> Vec<Vec<u8>> {
    let mut names: Vec<_> = items.into_iter().map(|item| item.name).collect();
    names.sort();
    names
}

fn sorted(found: Vec<(Item, Node)>) -> Vec<Shown> {
    let shown = found.into_iter().map(|(item, node)| Shown {
        name: item.name,
        node,
    });
    let mut entries: Vec<_> = shown.collect();
    entries.sort_by(|left, right| left.name.cmp(&right.name));
    entries
}

/// Puts entries that are sorted by name into the order that the options ask for; equal ones stay sorted by name.
pub(crate) fn sort(entries: &mut [Shown], options: &LsOptions) {
    let attributes = |entry: &Shown| entry.node.attributes;
    if options.sort_by_time {
        entries.sort_by_key(|entry| {
            let Time {
                seconds,
                nanoseconds,
            } = attributes(entry).modify_time;
            Reverse((seconds, nanoseconds))
        });
    } else if options.sort_by_size {
        entries.sort_by_key(|entry| Reverse(attributes(entry).size));
    }
    if options.reverse {
        entries.reverse();
    }
}

/// Prints a directory's entries as `ls` does: those of `known`, then the `unknown` names. JSON omits unknown names,
/// since each of its objects has all fields.
///
/// # Errors
/// A link cannot be read, or the output not be written.
pub(crate) async fn entries(
    session: &Session,
    url: &Url,
    known: &[Shown],
    unknown: &[Vec<u8>],
    formatter: &Formatter<'_>,
) -> Result<(), Failure> {
    let options = formatter.options;
    if options.json {
        for entry in known {
            let target = link_target(session, url, &entry.node).await?;
            let at = url.child(&entry.name);
            output::json(&json(printable(&entry.name), &at, &entry.node, target))?;
        }
        return Ok(());
    }
    if options.is_long() {
        let mut targets = Vec::new();
        for entry in known {
            targets.push(link_target(session, url, &entry.node).await?);
        }
        let lines = formatter.lines(known, &targets, unknown);
        return lines.iter().try_for_each(|line| output::line(line));
    }
    let names = known.iter().map(|entry| &entry.name).chain(unknown);
    names
        .map(|name| printable(name))
        .try_for_each(|name| output::line(&name))
}

/// Prints an object as `stat` does.
///
/// # Errors
/// As [`entries`].
pub(crate) async fn object(
    session: &Session,
    url: &Url,
    node: &Node,
    as_json: bool,
) -> Result<(), Failure> {
    let target = link_target(session, url, node).await?;
    let shown = json(url.to_string(), url, node, target);
    if as_json {
        return output::json(&shown);
    }
    let arrow = shown
        .target
        .map(|target| format!(" -> {target}"))
        .unwrap_or_default();
    output::line(&format!(
        "{}{arrow}\n  {}, {} bytes, {} on disk, {} links\n  mode {}, uid {}, gid {}, file {}, handle {:?}\n  \
         accessed {}\n  modified {}\n  changed  {}",
        shown.name,
        shown.kind,
        shown.size_bytes,
        shown.used_bytes,
        shown.links,
        shown.mode,
        shown.uid,
        shown.gid,
        shown.fileid,
        node.handle,
        shown.access_time,
        shown.modify_time,
        shown.change_time,
    ))
}

async fn link_target(session: &Session, url: &Url, node: &Node) -> Result<Option<String>, Failure> {
    if node.attributes.kind != FileKind::Symlink {
        return Ok(None);
    }
    let target = session.objects().read_link(&node.handle).await;
    let target = target.explain(|| format!("cannot read a link at {url}"))?;
    Ok(Some(printable(&target)))
}

fn json(name: String, url: &Url, node: &Node, target: Option<String>) -> ObjectJson {
    let attributes = &node.attributes;
    ObjectJson {
        name,
        path: url.shown_path(),
        url: url.to_string(),
        kind: attributes.kind.name(),
        mode: format!("{:04o}", attributes.mode),
        links: attributes.link_count,
        uid: attributes.uid,
        gid: attributes.gid,
        size_bytes: attributes.size,
        used_bytes: attributes.used,
        fileid: attributes.fileid,
        access_time: timestamp(attributes.access_time).to_string(),
        modify_time: timestamp(attributes.modify_time).to_string(),
        change_time: timestamp(attributes.change_time).to_string(),
        target,
    }
}

fn letter(kind: FileKind) -> char {
    match kind {
        FileKind::Regular => '-',
        FileKind::Directory => 'd',
        FileKind::BlockDevice => 'b',
        FileKind::CharacterDevice => 'c',
        FileKind::Symlink => 'l',
        FileKind::Socket => 's',
        FileKind::Fifo => 'p',
    }
}

fn permissions(mode: u32) -> String {
    let triple = |shift: u32, special: bool, letters: [char; 2]| {
        let bits = mode >> shift;
        let execute = match (bits & 1 != 0, special) {
            (true, true) => letters[0],
            (false, true) => letters[1],
            (true, false) => 'x',
            (false, false) => '-',
        };
        let read = if bits & 4 != 0 { 'r' } else { '-' };
        let write = if bits & 2 != 0 { 'w' } else { '-' };
        [read, write, execute]
    };
    let owner = triple(6, mode & 0o4000 != 0, ['s', 'S']);
    let group = triple(3, mode & 0o2000 != 0, ['s', 'S']);
    let others = triple(0, mode & 0o1000 != 0, ['t', 'T']);
    [owner, group, others].concat().into_iter().collect()
}

/// A point in time, which is written as RFC 3339 says.
fn timestamp(time: Time) -> Timestamp {
    // A server may say more than there are in a second.
    let nanoseconds = i32::try_from(time.nanoseconds.min(999_999_999)).unwrap_or(0);
    Timestamp::new(time.seconds, nanoseconds).unwrap_or_default()
}

/// `YYYY-MM-DD hh:mmZ`: the `Z` says that it is UTC, as in the times of RFC 3339.
fn time(time: Time) -> String {
    timestamp(time).strftime("%Y-%m-%d %H:%MZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_calendar_dates_that_name_utc() {
        let shown = |seconds| {
            time(Time {
                seconds,
                nanoseconds: 0,
            })
        };
        assert_eq!(shown(0), "1970-01-01 00:00Z");
        assert_eq!(shown(951_782_399), "2000-02-28 23:59Z");
        assert_eq!(shown(951_782_400), "2000-02-29 00:00Z");
        assert_eq!(shown(1_763_700_000), "2025-11-21 04:40Z");
        assert_eq!(shown(u32::MAX.into()), "2106-02-07 06:28Z");
        let exact = |seconds, nanoseconds| {
            let time = Time {
                seconds,
                nanoseconds,
            };
            timestamp(time).to_string()
        };
        assert_eq!(exact(1_763_700_000, 0), "2025-11-21T04:40:00Z");
        assert_eq!(exact(0, 1_500_000), "1970-01-01T00:00:00.0015Z");
        assert_eq!(exact(0, u32::MAX), "1970-01-01T00:00:00.999999999Z");
    }

    #[test]
    fn permissions_read_as_ls_writes_them() {
        assert_eq!(permissions(0o755), "rwxr-xr-x");
        assert_eq!(permissions(0o4711), "rws--x--x");
        assert_eq!(permissions(0o1666), "rw-rw-rwT");
    }
}
