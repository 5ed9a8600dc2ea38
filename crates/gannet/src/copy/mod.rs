//! `gannet cp`: files and trees between this machine and servers, or between servers.

mod content;
mod engine;
mod local;
mod place;
mod progress;
mod verify;

pub(crate) use engine::Engine;
use place::Kind;
pub(crate) use place::{Node, Place};
pub(crate) use progress::Progress;

use crate::cli::{ClientOptions, CpOptions};
use crate::failure::Failure;
use crate::session::{self, Patience, Session};
use crate::url::{Location, Url};
use gannet_nfs::client::{Error, Follow};
use gannet_runtime::Handle;
use gannet_vfs::Status;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;

/// Copies what the command line says.
///
/// # Errors
/// Something was not copied; what, was said on standard error.
pub fn run(options: &CpOptions) -> Result<(), Failure> {
    let (sources, target) = (&options.sources, &options.target);
    check_usage(sources, target)?;
    if !options.recursive {
        check_names(sources, target)?;
    }
    session::run(async |runtime| {
        let mut sessions = Sessions::new(&runtime, &options.client);
        for location in sources.iter().chain([target]) {
            sessions.connect(location).await?;
        }
        let work = copy_all(&runtime, &sessions, sources, target, options);
        sessions.watch(work).await
    })
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

/// That no source takes the place of another in the target. (Directories go into each other.)
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

/// What stands at a location, if anything; symbolic links are followed.
async fn look(
    runtime: &Handle,
    sessions: &Sessions<'_>,
    location: &Location,
) -> Result<Option<(Place, Node)>, Failure> {
    let what = || format!("cannot look at {location}");
    match location {
        Location::Local(path) => {
            let looked = path.clone();
            match place::locally(runtime, move || local::node_followed(&looked)).await {
                Ok(node) => Ok(Some((Place::Local(Rc::clone(runtime), path.clone()), node))),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(Failure::new(what(), error)),
            }
        }
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

async fn copy_all(
    runtime: &Handle,
    sessions: &Sessions<'_>,
    sources: &[Location],
    target: &Location,
    options: &CpOptions,
) -> Result<(), Failure> {
    let found = look(runtime, sessions, target).await?;
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
    let progress = Rc::new(Progress::new(options.quiet));
    let mut engine = Engine::new(options.jobs, options.verify, Rc::clone(&progress));
    for source in sources {
        let (place, node) = look(runtime, sessions, source)
            .await?
            .ok_or_else(|| Failure::new(format!("cannot copy {source}"), Status::Noent))?;
        if node.kind == Kind::Directory && !options.recursive {
            return Err(Failure::new(format!("cannot copy {source}"), Status::Isdir)
                .hint("-r copies directories with everything in them"));
        }
        if matches!(node.kind, Kind::Special(_)) && !options.recursive {
            let what = format!("cannot copy {source}");
            return Err(
                Failure::new(what, "it is a device, socket or FIFO").hint("-r copies it as such")
            );
        }
        if node.kind == Kind::File {
            progress.expect(node.size);
        }
        match (into, name_of(source)) {
            (Some(directory), Some(name)) => engine.copy(place, node, directory, &name).await,
            // The root of an export, `/`, `.`: what is in it goes into the directory.
            (Some(directory), None) => engine.copy_contents(&place, node, directory.clone()).await,
            (None, _) => {
                if found.is_some() && node.kind == Kind::Directory {
                    let what = format!("cannot copy the directory {source} over {target}");
                    return Err(Failure::new(what, Status::Notdir));
                }
                let (parent, name) = parent_of(runtime, sessions, target, node.kind).await?;
                engine.copy(place, node, &parent, &name).await;
            }
        }
    }
    let mut open = sessions.open.iter();
    let may_be_squashed = open.any(|(_, session)| session.may_be_squashed(&options.client));
    let finished = engine.finish(may_be_squashed).await;
    let (files, bytes) = progress.finish();
    tracing::debug!(files, bytes, "copied");
    finished
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
    let name = name_of(target).ok_or_else(|| Failure::new(what(), "it is not a name"))?;
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
                .ok_or_else(|| Failure::new(what(), "it is not a name"))?;
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
