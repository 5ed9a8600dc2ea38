//! `-` in place of a source or the target: standard input and standard output.

use super::content::{BLOCK_LEN, Sink};
use super::place::NO_REGULAR_FILE;
use super::unfinished::{Target, Unfinished};
use super::{Copy, Kind, Node, ends_with_slash, parent_of};
use crate::cli::CpOptions;
use crate::failure::{Explain, Failure};
use crate::files;
use crate::session::{self, Patience, Session};
use crate::standard::Input;
use gannet::url::{Location, Url};
use gannet_client::Transfer;
use gannet_vfs::Time;
use std::io;
use std::path::Path;

/// Whether a location is `-`. (`./-` is a file of that name.)
pub(super) fn is_standard(location: &Location) -> bool {
    matches!(location, Location::Local(path) if path == Path::new("-"))
}

/// The one file that is to be written to standard output, if that is the target.
///
/// # Errors
/// `-` is used where it makes no sense.
pub(super) fn source_of_output(options: &CpOptions) -> Result<Option<&Url>, Failure> {
    let (sources, target) = (&options.sources, &options.target);
    let is_input = sources.iter().any(is_standard);
    let is_output = is_standard(target);
    if !is_input && !is_output {
        return Ok(None);
    }
    let what = if is_input {
        format!("cannot copy standard input to {target}")
    } else {
        String::from("cannot copy to standard output")
    };
    let refuse = |why: &str, hint: &str| Err(Failure::usage(&what, why).hint(hint));
    if options.tree.recursive {
        return refuse("it is one stream of bytes", "leave out -r");
    }
    if options.verify {
        let why = "what went through a pipe cannot be read again to compare it";
        return refuse(why, "leave out --verify");
    }
    if is_input {
        return match &sources[..] {
            [_] => Ok(None),
            _ => refuse("it is the only source then", "copy the others apart"),
        };
    }
    match &sources[..] {
        [Location::Remote(url)] => Ok(Some(url)),
        _ => refuse("it takes one file", "`gannet cat` takes several"),
    }
}

/// Writes the file at `url` to standard output. A copy survives a restart of the server, as others do.
///
/// # Errors
/// It cannot be read, or the output not be written.
pub(super) fn write_out(url: &Url, options: &CpOptions) -> Result<(), Failure> {
    let transfer = transfer(options);
    session::run(async |runtime| {
        let (client, patience) = (&options.client, Patience::Endless);
        let session = Session::connect_with(&runtime, url, client, patience).await?;
        let writing = files::write_out(&session, url, transfer);
        session
            .watch(&runtime, url, client, patience, writing)
            .await
    })
}

fn transfer(options: &CpOptions) -> Transfer {
    Transfer {
        block: None,
        depth: usize::from(options.tree.jobs),
    }
}

impl Copy<'_> {
    /// Copies standard input to a file; `there` is the object that has its name. The file appears when the input has
    /// ended.
    pub(super) async fn standard_input(
        &self,
        target: &Location,
        there: Option<Node>,
    ) -> Result<(), Failure> {
        let what = || format!("cannot copy standard input to {target}");
        match there.map(|node| node.kind) {
            Some(Kind::Special(_)) => return Err(Failure::new(what(), NO_REGULAR_FILE)),
            None | Some(Kind::File | Kind::Symlink) if !ends_with_slash(target) => {}
            _ => {
                let failure = Failure::new(what(), "it names a directory");
                return Err(failure.hint("add the name of the file"));
            }
        }
        let found = parent_of(self.runtime, self.sessions, target, Kind::File).await;
        let (parent, name) = found?;
        let input = Input::start()?;
        let place = Target {
            directory: &parent,
            is_new: false,
            name: &name,
        };
        let unfinished = Unfinished::create(place, None, &self.report.temporaries).await?;
        self.report.progress.without_length();
        let mode = there.map_or(0o666 & !self.umask, |node| node.mode);
        let sink = unfinished.sink(transfer(self.options));
        let filled = match self.pour(input, sink).await.explain(what) {
            Ok(size) => unfinished.set_attributes(&self.node(mode, size)).await,
            Err(failure) => Err(failure),
        };
        match filled {
            Ok(()) => unfinished.complete().await,
            Err(failure) => {
                unfinished.discard().await;
                Err(failure)
            }
        }
    }

    /// Moves all bytes of the input; how many they were.
    async fn pour(&self, mut input: Input, mut sink: Sink) -> io::Result<u64> {
        let mut size = 0;
        while let Some(block) = input.next(|| sink.spare(BLOCK_LEN)).await? {
            let len = block.len as u64;
            sink.write(block).await?;
            size += len;
            self.report.progress.add(len);
        }
        sink.finish().await?;
        Ok(size)
    }

    /// A file without holes that is written now.
    fn node(&self, mode: u32, size: u64) -> Node {
        let now = self.runtime.wall_clock();
        Node {
            kind: Kind::File,
            identity: None,
            mode,
            size,
            used: size,
            modify_time: Time {
                seconds: i64::try_from(now.as_secs()).unwrap_or(i64::MAX),
                nanoseconds: now.subsec_nanos(),
            },
        }
    }
}
