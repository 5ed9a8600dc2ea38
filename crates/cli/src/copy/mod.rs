//! `gannet cp`: files and trees between this machine and servers, or between servers.

mod at;
mod content;
mod engine;
mod local;
mod place;
mod standard;
mod unfinished;
mod verify;

pub(crate) use engine::{Engine, Report};
use place::Kind;
pub(crate) use place::{Node, Place};

use crate::cli::{ClientOptions, CpOptions};
use crate::failure::{Explain, Failure};
use crate::process::{self, Signals};
use crate::progress::{Progress, Work};
use crate::session::{self, Patience, SQUASHED, Session};
use gannet::url::{Location, Url};
use gannet_client::{Error, Follow};
use gannet_runtime::Handle;
use gannet_vfs::Status;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Copies the sources of the command line to its target.
///
/// # Errors
/// An object was not copied; its name was printed on standard error.
pub fn run(options: &CpOptions) -> Result<(), Failure> {
    let (sources, target) = (&options.sources, &options.target);
    check_usage(sources, target)?;
    if let Some(url) = standard::source_of_output(options)? {
        return standard::write_out(url, options);
    }
    let umask = process::umask();
    if !options.tree.recursive {
        check_names(sources, target)?;
    }
    session::run(async |runtime| {
        let mut sessions = Sessions::new(&runtime, &options.client);
        for location in sources.iter().chain([target]) {
            sessions.connect(location).await?;
        }
        let mut signals = Signals::install().explain(|| String::from("cannot copy"))?;
        let work = if options.verify {
            Work::VerifiedCopy
        } else {
            Work::Copy
        };
        let report = Report::new(Progress::new(work, options.tree.quiet));
        let copy = Copy {
            runtime: &runtime,
            sessions: &sessions,
            options,
            report: &report,
            umask,
        };
        let copied = tokio::select! {
            copied = sessions.watch(copy.all(sources, target)) => copied,
            signal = signals.next() => Err(interrupted(signal)),
        };
        // The work of the copy is dropped by now. Another signal also ends the wait for the removals.
        tokio::select! {
            () = report.temporaries.remove_all(&runtime) => {}
            _ = signals.next() => {}
        }
        report.progress.finish();
        let mut open = sessions.open.iter();
        let squashed = report.failures.has_denied()
            && open.any(|(_, session)| session.may_be_squashed(&options.client));
        let is_complete = report.failures.report("the copy is not complete", "copied");
        let hint = format!("the lines above say which; {SQUASHED}");
        let is_complete = is_complete.map_err(|failure| failure.hint_if(squashed, &hint));
        if options.tree.recursive && report.progress.has_begun() {
            report.progress.report();
        }
        copied.and(is_complete)
    })
}

fn interrupted(signal: &str) -> Failure {
    let why = format!("interrupted by {signal}");
    Failure::new("the copy is not complete", why)
        .hint("what was copied is complete; the same command copies everything again")
}

fn check_usage(sources: &[Location], target: &Location) -> Result<(), Failure> {
    for source in sources {
        let what = || format!("cannot copy {source} to {target}");
        if matches!((source, target), (Location::Local(_), Location::Local(_))) {
            return Err(
                Failure::usage(what(), "neither is on a server").hint("cp(1) copies local files")
            );
        }
        if source == target {
            return Err(Failure::usage(what(), "they are the same file"));
        }
        if let (Location::Remote(from), Location::Remote(to)) = (source, target)
            && from.is_same_server(to)
            && to.path.starts_with(&from.path)
            && to.path.len() > from.path.len()
        {
            return Err(Failure::usage(
                what(),
                "a directory cannot be copied into itself",
            ));
        }
    }
    Ok(())
}

/// Checks that no two sources have the same name in the target. Directories of one name are merged.
fn check_names(sources: &[Location], target: &Location) -> Result<(), Failure> {
    let mut names = HashMap::new();
    for source in sources {
        let Some(name) = name_of(source) else {
            continue;
        };
        if let Some(other) = names.insert(name, source) {
            let what = format!("cannot copy {other} and {source} into {target}");
            return Err(Failure::usage(what, "they have the same name"));
        }
    }
    Ok(())
}

/// The connections that a copy needs, one per server and way.
struct Sessions<'a> {
    runtime: &'a Handle,
    options: &'a ClientOptions,
    open: Vec<(Url, Session)>,
}

impl<'a> Sessions<'a> {
    fn new(runtime: &'a Handle, options: &'a ClientOptions) -> Sessions<'a> {
        Sessions {
            runtime,
            options,
            open: Vec::new(),
        }
    }

    async fn connect(&mut self, location: &Location) -> Result<(), Failure> {
        if let Location::Remote(url) = location
            && self.of(url).is_none()
        {
            let session =
                Session::connect_with(self.runtime, url, self.options, Patience::Endless).await?;
            self.open.push((url.clone(), session));
        }
        Ok(())
    }

    /// The session that can reach `url`: to the same server, with the same export mounted.
    fn of(&self, url: &Url) -> Option<&Session> {
        let reaches = |(known, session): &&(Url, Session)| {
            known.is_same_server(url) && session.reaches(known, url)
        };
        self.open.iter().find(reaches).map(|(_, session)| session)
    }

    /// Runs `work` until it ends, or until one of the servers has been silent for too long.
    async fn watch(&self, work: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
        let mut work: std::pin::Pin<Box<dyn Future<Output = Result<(), Failure>> + '_>> =
            Box::pin(work);
        for (url, session) in &self.open {
            let inner = work;
            work =
                Box::pin(session.watch(self.runtime, url, self.options, Patience::Endless, inner));
        }
        work.await
    }
}

/// The object at a location, if there is one; symbolic links are followed.
async fn look(
    runtime: &Handle,
    sessions: &Sessions<'_>,
    location: &Location,
) -> Result<Option<(Place, Node)>, Failure> {
    let what = || format!("cannot look at {location}");
    match location {
        Location::Local(path) => match Place::local(runtime, path).await {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Failure::new(what(), error)),
        },
        Location::Remote(url) => {
            let session = sessions
                .of(url)
                .ok_or_else(|| Failure::new(what(), "not connected"))?;
            match session
                .files()
                .walk(&session.path_of(url), Follow::Yes)
                .await
            {
                Ok(found) => {
                    let node = Node::of(&found.attributes);
                    Ok(Some((
                        Place::Remote(session.clone(), found.handle, url.clone()),
                        node,
                    )))
                }
                Err(Error::Status(Status::Noent)) => Ok(None),
                Err(error) => Err(Failure::new(what(), error)),
            }
        }
    }
}

/// One run of `gannet cp`.
struct Copy<'a> {
    runtime: &'a Handle,
    sessions: &'a Sessions<'a>,
    options: &'a CpOptions,
    report: &'a Report,
    umask: u32,
}

impl Copy<'_> {
    async fn look(&self, location: &Location) -> Result<Option<(Place, Node)>, Failure> {
        look(self.runtime, self.sessions, location).await
    }

    async fn all(&self, sources: &[Location], target: &Location) -> Result<(), Failure> {
        let found = self.look(target).await?;
        if sources.iter().any(standard::is_standard) {
            let there = found.map(|(_, node)| node);
            return self.standard_input(target, there).await;
        }
        let into = match &found {
            Some((place, node)) if node.kind == Kind::Directory => Some(place),
            _ => None,
        };
        if into.is_none() && (sources.len() > 1 || (found.is_some() && ends_with_slash(target))) {
            return Err(Failure::new(
                format!("cannot copy into {target}"),
                "it is not a directory",
            ));
        }
        let (jobs, verify) = (self.options.tree.jobs, self.options.verify);
        let mut engine = Engine::new(jobs, verify, self.report);
        for source in sources {
            let (place, node) = self.source(source).await?;
            match (into, name_of(source)) {
                (Some(directory), Some(name)) => engine.add(place, node, directory, &name),
                // The root of an export, `/`, `.`: its contents go into the directory.
                (Some(directory), None) => engine.add_contents(place, node, directory.clone()),
                (None, _) => {
                    let there = found.as_ref().map(|(_, node)| *node);
                    check_replaced(source, &node, target, there)?;
                    let found = parent_of(self.runtime, self.sessions, target, node.kind).await;
                    let (parent, name) = found?;
                    engine.add(place, node, &parent, &name);
                }
            }
        }
        engine.run().await;
        Ok(())
    }

    /// A source, which must be there and be copied as the options say.
    async fn source(&self, source: &Location) -> Result<(Place, Node), Failure> {
        let what = || format!("cannot copy {source}");
        let found = self.look(source).await?;
        let (place, node) = found.ok_or_else(|| Failure::new(what(), Status::Noent))?;
        match node.kind {
            Kind::Directory if !self.options.tree.recursive => {
                Err(Failure::new(what(), Status::Isdir)
                    .hint("-r copies directories with everything in them"))
            }
            Kind::Special(_) if !self.options.tree.recursive => {
                let failure = Failure::new(what(), "it is a device, socket or FIFO");
                Err(failure.hint("-r copies it as such"))
            }
            _ => Ok((place, node)),
        }
    }
}

/// Checks that the one source, which is `node`, may replace the object `there` at the target, if there is one.
fn check_replaced(
    source: &Location,
    node: &Node,
    target: &Location,
    there: Option<Node>,
) -> Result<(), Failure> {
    let Some(there) = there else {
        return Ok(());
    };
    if node.kind == Kind::Directory {
        let what = format!("cannot copy the directory {source} over {target}");
        return Err(Failure::new(what, Status::Notdir));
    }
    // As /dev/stdout is, through a link: files are written beside their targets and take their names.
    if node.kind == Kind::File && matches!(there.kind, Kind::Special(_)) {
        let what = format!("cannot copy {source} to {target}");
        return Err(Failure::new(what, place::NO_REGULAR_FILE));
    }
    Ok(())
}

fn ends_with_slash(location: &Location) -> bool {
    match location {
        Location::Remote(url) => url.names_directory,
        Location::Local(path) => path.as_os_str().as_bytes().ends_with(b"/"),
    }
}

/// The last name of a location; none for roots and for `.` and `..`.
fn name_of(location: &Location) -> Option<OsString> {
    match location {
        Location::Remote(url) => url
            .file_name()
            .map(|name| OsStr::from_bytes(name).to_os_string()),
        Location::Local(path) if path.as_os_str().as_bytes().ends_with(b"/.") => None,
        Location::Local(path) => path.file_name().map(OsStr::to_os_string),
    }
}

/// The directory that a new name is to be made in, and the name.
async fn parent_of(
    runtime: &Handle,
    sessions: &Sessions<'_>,
    target: &Location,
    kind: Kind,
) -> Result<(Place, OsString), Failure> {
    let what = || format!("cannot copy to {target}");
    let name = name_of(target).ok_or_else(|| Failure::new(what(), "it has no file name"))?;
    if ends_with_slash(target) && kind != Kind::Directory {
        return Err(Failure::new(what(), "there is no such directory"));
    }
    let above = match target {
        Location::Local(path) => {
            let parent = path
                .parent()
                .filter(|parent| !parent.as_os_str().is_empty());
            Location::Local(parent.unwrap_or(Path::new(".")).to_path_buf())
        }
        Location::Remote(url) => {
            let (_, above) = url
                .path
                .split_last()
                .ok_or_else(|| Failure::new(what(), "it has no file name"))?;
            Location::Remote(url.with_path(above.to_vec()))
        }
    };
    match look(runtime, sessions, &above).await? {
        Some((place, node)) if node.kind == Kind::Directory => Ok((place, name)),
        Some(_) => Err(Failure::new(what(), format!("{above} is not a directory"))),
        None => Err(Failure::new(what(), format!("{above} does not exist"))
            .hint("make it with `gannet mkdir -p` or mkdir(1)")),
    }
}
