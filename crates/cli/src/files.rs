//! The small commands: `ls`, `cat`, `stat`, `mkdir`, `mv`, `df`.

use crate::cli::{
    CatOptions, ClientOptions, DfOptions, LsOptions, MkdirOptions, MvOptions, StatOptions,
};
use crate::failure::{Explain, Failure};
use crate::session::{self, Session, with_session};
use crate::show::{self, Formatter, Listing, Shown};
use crate::standard::Output;
use crate::{output, process, size};
use gannet::url::Url;
use gannet_client::{Follow, Node, Transfer};
use gannet_runtime::Handle;
use gannet_vfs::{FileKind, Status};
use serde::Serialize;
use std::cell::Cell;

/// Directories below each other that `ls -R` goes down.
const DEPTH_MAX: usize = 1024;

/// Does `work` for each of `urls`, and continues after a failure. With several URLs, each failure is printed at once.
pub(crate) async fn each(
    urls: &[Url],
    work: impl AsyncFn(&Url) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut outcome = Ok(());
    for url in urls {
        match work(url).await {
            Err(failure) if urls.len() > 1 && !failure.is_silent() => {
                failure.report();
                outcome = Err(failure.reported());
            }
            Err(failure) => return Err(failure),
            Ok(()) => {}
        }
    }
    outcome
}

/// `gannet ls`.
///
/// # Errors
/// Something cannot be listed.
pub fn ls(options: &LsOptions) -> Result<(), Failure> {
    let formatter = &Formatter::new(options);
    session::run(async |runtime| {
        each(&options.urls, async |url| {
            let listing = async |session| ls_url(&session, url, formatter).await;
            with_session(&runtime, url, &options.client, listing).await
        })
        .await
    })
}

async fn ls_url(session: &Session, url: &Url, formatter: &Formatter<'_>) -> Result<(), Failure> {
    let options = formatter.options;
    let node = session.node(url, Follow::Yes).await?;
    if node.attributes.kind != FileKind::Directory {
        let name = url.file_name().unwrap_or_default().to_vec();
        let shown = [Shown { name, node }];
        return show::entries(session, &url.parent(), &shown, &[], formatter).await;
    }
    let mut directories = vec![(url.clone(), node, 0)];
    // Of the first directory that is not known to its end; the others are listed all the same.
    let mut failure = None;
    while let Some((url, node, depth)) = directories.pop() {
        let mut listed = if needs_attributes(options) {
            show::listing(&url, session.list_known(&node.handle).await)?
        } else {
            Listing {
                unknown: names(session, &url, &node).await?,
                ..Listing::default()
            }
        };
        listed.known.retain(|entry| is_shown(&entry.name, options));
        listed.unknown.retain(|name| is_shown(name, options));
        show::sort(&mut listed.known, options);
        if options.reverse {
            listed.unknown.reverse();
        }
        failure = failure.or(listed.failure);
        let entries = listed.known;
        if !options.json && (options.recursive || options.urls.len() > 1) {
            output::line(&format!("{url}:"))?;
        }
        show::entries(session, &url, &entries, &listed.unknown, formatter).await?;
        if !options.recursive {
            continue;
        }
        if depth == DEPTH_MAX {
            return Err(Failure::new(
                format!("cannot list {url}"),
                "directories are nested too deeply",
            ));
        }
        let below = entries
            .iter()
            .rev()
            .filter(|entry| entry.node.attributes.kind == FileKind::Directory);
        directories.extend(below.map(|entry| (url.child(&entry.name), entry.node, depth + 1)));
    }
    failure.map_or(Ok(()), Err)
}

/// Whether `ls` has to know what names stand for.
fn needs_attributes(options: &LsOptions) -> bool {
    let is_sorted = options.sort_by_time || options.sort_by_size;
    options.is_long() || options.json || options.recursive || is_sorted
}

fn is_shown(name: &[u8], options: &LsOptions) -> bool {
    options.all || !name.starts_with(b".")
}

/// The names in a directory, sorted.
async fn names(session: &Session, url: &Url, node: &Node) -> Result<Vec<Vec<u8>>, Failure> {
    let listed = session.objects().names(&node.handle).await;
    Ok(show::names_of(
        listed.explain(|| format!("cannot list {url}"))?,
    ))
}

/// `gannet cat`.
///
/// # Errors
/// A file cannot be read, or the output not be written.
pub fn cat(options: &CatOptions) -> Result<(), Failure> {
    session::run(async |runtime| {
        each(&options.urls, async |url| {
            let writing = async |session| write_out(&session, url, Transfer::default()).await;
            with_session(&runtime, url, &options.client, writing).await
        })
        .await
    })
}

/// Writes a file to standard output.
///
/// # Errors
/// It cannot be read, or the output not be written.
pub(crate) async fn write_out(
    session: &Session,
    url: &Url,
    transfer: Transfer,
) -> Result<(), Failure> {
    let node = session.node(url, Follow::Yes).await?;
    let what = || format!("cannot read {url}");
    if node.attributes.kind == FileKind::Directory {
        return Err(Failure::new(what(), Status::Isdir).hint("`gannet ls` lists it"));
    }
    // The whole file, however long it grows meanwhile; the reader stops at its end.
    let files = session.files();
    let mut reader = files.read_file(&node.handle, 0..u64::MAX, transfer);
    let mut output = Output::start()?;
    while let Some(block) = reader.next().await.explain(what)? {
        output.write(block).await?;
        while let Some(buffer) = output.free() {
            reader.recycle(buffer);
        }
    }
    output.finish().await
}

/// `gannet stat`.
///
/// # Errors
/// Something cannot be found.
pub fn stat(options: &StatOptions) -> Result<(), Failure> {
    session::run(async |runtime| {
        each(&options.urls, async |url| {
            with_session(&runtime, url, &options.client, async |session| {
                let node = session.node(url, Follow::No).await?;
                show::object(&session, url, &node, options.json).await
            })
            .await
        })
        .await
    })
}

/// `gannet mkdir`.
///
/// # Errors
/// A directory cannot be made.
pub fn mkdir(options: &MkdirOptions) -> Result<(), Failure> {
    let mode = 0o777 & !process::umask();
    session::run(async |runtime| {
        each(&options.urls, async |url| {
            with_session(&runtime, url, &options.client, async |session| {
                let path = session.path_of(url);
                let made = if options.parents {
                    session.files().make_directories(&path, mode).await
                } else {
                    session.files().make_directory(&path, mode).await
                };
                let made = made
                    .map(|_| ())
                    .explain(|| format!("cannot make the directory {url}"));
                made.map_err(|failure| hint_parents(failure, options))
            })
            .await
        })
        .await
    })
}

fn hint_parents(failure: Failure, options: &MkdirOptions) -> Failure {
    let is_missing = failure.to_string().ends_with(&Status::Noent.to_string());
    if is_missing && !options.parents {
        return failure.hint("-p makes the directories above as well");
    }
    failure
}

/// `gannet mv`.
///
/// # Errors
/// Something cannot be moved.
pub fn mv(options: &MvOptions) -> Result<(), Failure> {
    let (sources, target) = (&options.sources, &options.target);
    if let Some(source) = sources.iter().find(|source| !source.is_same_server(target)) {
        return Err(Failure::usage(
            format!("cannot move {source} to {target}"),
            "they are on different servers or transports",
        )
        .hint("copy with `gannet cp -r`, then remove"));
    }
    session::run(async |runtime| {
        with_session(&runtime, target, &options.client, async |session| {
            mv_all(&session, sources, target).await
        })
        .await
    })
}

async fn mv_all(session: &Session, sources: &[Url], target: &Url) -> Result<(), Failure> {
    let to = session.path_of(target);
    if sources.len() > 1 || target.names_directory {
        let node = session.node(target, Follow::Yes).await?;
        if node.attributes.kind != FileKind::Directory {
            return Err(Failure::new(
                format!("cannot move to {target}"),
                Status::Notdir,
            ));
        }
    }
    each(sources, async |source| {
        let moved = session.files().rename(&session.path_of(source), &to).await;
        moved.explain(|| format!("cannot move {source} to {target}"))
    })
    .await
}

/// The output of `gannet df --json`.
#[derive(Serialize)]
struct Usage {
    url: String,
    total_bytes: u64,
    used_bytes: u64,
    available_bytes: u64,
    /// Missing where files are as many as there is room.
    #[serde(skip_serializing_if = "Option::is_none")]
    total_files: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    free_files: Option<u64>,
}

/// `gannet df`.
///
/// # Errors
/// A server does not report its space.
pub fn df(options: &DfOptions) -> Result<(), Failure> {
    session::run(async |runtime| {
        let is_first = Cell::new(true);
        each(&options.urls, async |url| {
            let usage = usage(&runtime, url, &options.client).await?;
            if options.json {
                output::json(&usage)
            } else {
                show_usage(&usage, &is_first)
            }
        })
        .await
    })
}

fn show_usage(usage: &Usage, is_first: &Cell<bool>) -> Result<(), Failure> {
    if is_first.replace(false) {
        let header = ["size", "used", "available", "used", "url"];
        output::line(&usage_line(header))?;
    }
    output::line(&usage.line())
}

/// One line of `df`, printed as soon as its server has replied.
fn usage_line([size, used, available, share, url]: [&str; 5]) -> String {
    format!("{size:>8}  {used:>8}  {available:>9}  {share:>4}  {url}")
}

impl Usage {
    fn line(&self) -> String {
        // A server chooses these numbers.
        let used = u128::from(self.used_bytes) * 100;
        let share = used.checked_div(self.total_bytes.into()).unwrap_or(0);
        usage_line([
            &size::human(self.total_bytes),
            &size::human(self.used_bytes),
            &size::human(self.available_bytes),
            &format!("{share}%"),
            &self.url,
        ])
    }
}

/// A number of files, unless it stands for no bound.
fn bounded(files: u64) -> Option<u64> {
    (files < u64::MAX).then_some(files)
}

async fn usage(runtime: &Handle, url: &Url, client: &ClientOptions) -> Result<Usage, Failure> {
    with_session(runtime, url, client, async |session| {
        let usage = session.files().usage(&session.path_of(url)).await;
        let usage = usage.explain(|| format!("cannot query {url}"))?;
        Ok(Usage {
            url: url.to_string(),
            total_bytes: usage.bytes_total,
            used_bytes: usage.bytes_total.saturating_sub(usage.bytes_free),
            available_bytes: usage.bytes_available,
            total_files: bounded(usage.files_total),
            free_files: bounded(usage.files_free),
        })
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_df_fits_a_terminal() {
        let usage = Usage {
            url: String::from("nfs+rdma://server.example.org:20049/home"),
            total_bytes: u64::MAX,
            used_bytes: u64::MAX,
            available_bytes: 9999,
            total_files: None,
            free_files: None,
        };
        let line = usage.line();
        assert!(line.len() <= 80 && line.contains(" 100%  nfs"), "{line}");
    }
}
