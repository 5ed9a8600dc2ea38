//! `gannet volume check URL`: checks a volume that is being served, through its servers.

use super::check::{conclude, report_lost};
use super::check_objects::{Compared, compare};
use crate::cli::ClientOptions;
use crate::failure::{Explain, Failure};
use crate::session::{self, Session, with_session};
use crate::show;
use gannet::url::Url;
use gannet_client::{Follow, Node};
use gannet_vfs::FileKind;
use std::collections::{BTreeSet, HashMap};

/// Directories below each other that are looked into.
const DEPTH_MAX: usize = 1024;

/// The findings and counts so far.
#[derive(Default)]
struct Seen {
    findings: Vec<String>,
    directories: u64,
    names: u64,
    /// Files with several names: how many they count, and how many were found.
    linked: HashMap<u64, (u32, u32)>,
    /// Files whose paths are wanted, and those.
    lost: BTreeSet<u64>,
    paths: Vec<String>,
}

/// Asks every server, looks at all names below `url`, and, if that is all of the volume, compares objects with files.
///
/// # Errors
/// The manager cannot be reached, or something does not fit.
pub(super) fn run(url: &Url, client: &ClientOptions, repair: bool) -> Result<(), Failure> {
    session::run(async |runtime| {
        let (volume, caller) = session::open_volume(&runtime, url, client).await?;
        let servers = volume.io_servers().await;
        let servers = servers.explain(|| format!("cannot check {url}"))?;
        let (mut seen, mut there) = (Seen::default(), Vec::new());
        for (number, reached) in (0..).zip(&servers) {
            match reached {
                Ok(_) => there.push(number),
                Err(error) => {
                    let finding = format!("I/O server {number} cannot be reached: {error}");
                    seen.findings.push(finding);
                }
            }
        }
        // Attributes of files on a server that is away would be waited for.
        if seen.findings.is_empty() {
            seen = with_session(&runtime, url, client, async |session| {
                let node = session.node(url, Follow::No).await?;
                seen.look_below(&session, url, &node).await?;
                Ok(seen)
            })
            .await?;
        }
        let mut looked = format!(
            "checked {} I/O servers, {} directories, {} names",
            servers.len(),
            seen.directories,
            seen.names
        );
        let mut repaired = 0;
        if url.path.is_empty() {
            seen.check_links();
            let compared = compare(&volume, &caller, &there, repair).await;
            let compared = compared.explain(|| format!("cannot compare objects of {url}"))?;
            let Compared { files, objects, .. } = compared;
            looked.push_str(&format!(", {files} files, {objects} objects"));
            seen.findings.extend(compared.findings);
            repaired = compared.repaired;
        }
        conclude(&seen.findings, &looked, repaired)
    })
}

/// Lists files that have lost bytes with the disk of an I/O server, by their URLs.
///
/// # Errors
/// The volume cannot be looked at, or there are such files.
pub(super) fn lost(url: &Url, client: &ClientOptions) -> Result<(), Failure> {
    session::run(async |runtime| {
        let what = || format!("cannot find what was lost of {url}");
        let (volume, caller) = session::open_volume(&runtime, url, client).await?;
        let servers = volume.io_servers().await.explain(what)?;
        for (number, reached) in servers.iter().enumerate() {
            reached
                .as_ref()
                .explain(|| format!("{}: I/O server {number}", what()))?;
        }
        // Bounded by WIDTH_MAX.
        let all: Vec<u32> = (0..servers.len() as u32).collect();
        let compared = compare(&volume, &caller, &all, false).await;
        let lost = compared.explain(what)?.lost;
        if lost.is_empty() {
            return Ok(());
        }
        let mut seen = Seen {
            lost,
            ..Seen::default()
        };
        let paths = with_session(&runtime, url, client, async |session| {
            let node = session.node(url, Follow::No).await?;
            seen.look_below(&session, url, &node).await?;
            Ok(seen.paths)
        });
        report_lost(paths.await?)
    })
}

impl Seen {
    async fn look_below(
        &mut self,
        session: &Session,
        url: &Url,
        node: &Node,
    ) -> Result<(), Failure> {
        let mut ahead = vec![(url.clone(), *node, 0)];
        while let Some((url, node, depth)) = ahead.pop() {
            self.directories += 1;
            let listing = show::listing(&url, session.files().list_known(&node.handle).await)?;
            let is_known = listing.failure.is_none();
            self.names += listing.unknown.len() as u64;
            let unknown = listing.failure.map(|failure| failure.to_string());
            self.findings.extend(unknown);
            let mut below = 0;
            for entry in listing.known {
                self.names += 1;
                let attributes = &entry.node.attributes;
                if self.lost.contains(&attributes.fileid) {
                    self.paths.push(url.child(&entry.name).to_string());
                }
                if attributes.kind == FileKind::Directory {
                    below += 1;
                    if depth < DEPTH_MAX {
                        ahead.push((url.child(&entry.name), entry.node, depth + 1));
                    }
                } else if attributes.link_count != 1 {
                    let known = self.linked.entry(attributes.fileid);
                    known.or_insert((attributes.link_count, 0)).1 += 1;
                }
            }
            let links = node.attributes.link_count;
            if is_known && links != below + 2 && !changed(session, &node).await? {
                let is = below + 2;
                self.findings
                    .push(format!("{url} counts {links} links and has {is}"));
            }
        }
        Ok(())
    }

    fn check_links(&mut self) {
        let mut wrong: Vec<_> = self.linked.iter().filter(|(_, it)| it.0 != it.1).collect();
        wrong.sort();
        let findings = wrong.into_iter().map(|(file, (counted, found))| {
            format!("file {file} counts {counted} names and has {found}")
        });
        self.findings.extend(findings);
    }
}

/// Whether a directory has changed since it was listed.
async fn changed(session: &Session, node: &Node) -> Result<bool, Failure> {
    let now = session.objects().attributes(&node.handle).await;
    let now = now.explain(|| String::from("cannot look at a directory again"))?;
    Ok(now.change_time != node.attributes.change_time)
}
