//! `mount.gannet`: what mount(8) calls for the type `gannet`, and so for lines of /etc/fstab.
//!
//! It is this program by another name. Its words become those of `gannet mount --background`, whose definition also
//! says which options there are: an option of that command is one of mount(8), without its dashes.

use super::background;
use crate::cli::{self, Arguments, Command, HelperOptions};
use crate::failure::Failure;
use crate::output;
use clap::{ArgAction, CommandFactory, Parser};
use gannet::url::Scheme;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

/// The names that mount(8) looks for.
const NAMES: [&str; 2] = ["mount.gannet", "mount.fuse.gannet"];
/// Exit statuses of mount(8).
const USAGE: u8 = 1;
const NOT_MOUNTED: u8 = 32;
/// Options of `gannet mount` that are not for mount(8): where the process runs is settled here.
const OWN: [&str; 5] = ["background", "detached", "source", "help", "version"];
/// Options that others act on (mount(8), systemd), or that hold for every mount of ours. Times of the last access are
/// the server's.
const TOLERATED: [&str; 27] = [
    "_netdev",
    "async",
    "atime",
    "auto",
    "comment",
    "defaults",
    "diratime",
    "exec",
    "group",
    "lazytime",
    "noatime",
    "noauto",
    "nodev",
    "nodiratime",
    "nofail",
    "nogroup",
    "nolazytime",
    "noowner",
    "norelatime",
    "nostrictatime",
    "nosuid",
    "nouser",
    "owner",
    "relatime",
    "strictatime",
    "user",
    "users",
];
/// Options that are refused, and why.
const REFUSED: [(&str, &str); 4] = [
    ("dev", "devices on it are not honoured"),
    ("suid", "set-user-ID programs on it are not honoured"),
    ("sync", "`direct` sends each write(2) to the server at once"),
    (
        "remount",
        "a mount keeps its options: unmount and mount it again",
    ),
];

/// Whether this program was started by one of the names of the helper.
pub fn is_called(program: &OsString) -> bool {
    let name = Path::new(program).file_name();
    name.is_some_and(|name| NAMES.iter().any(|own| name == *own))
}

/// Mounts as the command line of this process says, and returns when it is mounted.
pub fn main() -> ExitCode {
    match cli::parse::<HelperOptions>().and_then(|options| mount(&options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.report();
            ExitCode::from(match failure.exit_code() {
                2 => USAGE,
                _ => NOT_MOUNTED,
            })
        }
    }
}

fn mount(options: &HelperOptions) -> Result<(), Failure> {
    let is_root = rustix::process::geteuid().is_root();
    let words = words(options, is_root)?;
    // A wrong value is an error of this process, and one line.
    let program = std::iter::once(OsString::from("gannet"));
    let parsed = Arguments::try_parse_from(program.chain(words.iter().cloned()));
    let parsed = parsed.map_err(|error| {
        cli::usage_failure(&error, HelperOptions::command(), std::iter::empty())
    })?;
    if let (Command::Mount(mount), false) = (&parsed.command, options.fake) {
        super::check_directory(&mount.directory)?;
        let line = background::start(words.into_iter())?;
        if options.verbose {
            output::line(&line)?;
        }
    }
    Ok(())
}

/// The words of `gannet mount --background` that do what mount(8) asks for.
///
/// # Errors
/// An option is unknown, or refused.
fn words(asked: &HelperOptions, is_root: bool) -> Result<Vec<OsString>, Failure> {
    let known = known_options();
    let mut settled = Settled {
        read_only: asked.read_only,
        ..Settled::default()
    };
    for (name, value) in asked.options.iter().flat_map(|list| split(list)) {
        let long = name.replace('_', "-");
        match known.get(&long) {
            Some(takes_value) => settled.add(&name, &long, value, *takes_value)?,
            None => settled.take(&name, value, asked.sloppy)?,
        }
    }
    if asked.writable {
        settled.read_only = false;
    }
    let mut words = vec![
        OsString::from("mount"),
        OsString::from(url(&asked.spec, &settled)?),
        asked.directory.clone().into_os_string(),
        OsString::from("--background"),
        OsString::from(format!("--source={}", asked.spec)),
    ];
    words.extend(settled.words.into_iter().map(OsString::from));
    let flags = [
        (settled.read_only, "--read-only"),
        (settled.no_exec, "--noexec"),
        // A mount that root makes is for all users of the machine, as with other file systems of mount(8).
        (settled.allow_other.unwrap_or(is_root), "--allow-other"),
    ];
    let set = flags.iter().filter(|(is_set, _)| *is_set);
    words.extend(set.map(|(_, flag)| OsString::from(flag)));
    Ok(words)
}

/// The settings that result from the options.
#[derive(Default)]
struct Settled {
    read_only: bool,
    no_exec: bool,
    allow_other: Option<bool>,
    /// The protocol for a source of the form HOST:/PATH.
    proto: Option<Scheme>,
    port: Option<String>,
    /// Options of `gannet mount` that are taken as they are.
    words: Vec<String>,
}

impl Settled {
    /// Adds an option of `gannet mount`, whose name there is `long`.
    fn add(
        &mut self,
        name: &str,
        long: &str,
        value: Option<String>,
        takes_value: bool,
    ) -> Result<(), Failure> {
        match (long, takes_value, value) {
            ("read-only", _, None) => self.read_only = true,
            ("noexec", _, None) => self.no_exec = true,
            ("allow-other", _, None) => self.allow_other = Some(true),
            (_, true, Some(value)) => self.words.push(format!("--{long}={value}")),
            (_, true, None) => {
                return Err(wrong(name, "a value is missing").hint(format!("{name}=VALUE")));
            }
            (_, false, None) => self.words.push(format!("--{long}")),
            (_, false, Some(_)) => return Err(wrong(name, "it takes no value")),
        }
        Ok(())
    }

    /// Takes an option that only mount(8) has.
    fn take(&mut self, name: &str, value: Option<String>, sloppy: bool) -> Result<(), Failure> {
        if let Some((_, why)) = REFUSED.iter().find(|(refused, _)| *refused == name) {
            return Err(wrong(name, why));
        }
        match (name, value) {
            ("ro", _) => self.read_only = true,
            ("rw", _) => self.read_only = false,
            ("no-allow-other" | "no_allow_other", _) => self.allow_other = Some(false),
            ("exec", _) => self.no_exec = false,
            ("port", Some(port)) => self.port = Some(port),
            ("proto", Some(proto)) => self.proto = Some(scheme(&proto)?),
            (name, _) if name.is_empty() || TOLERATED.contains(&name) => {}
            (name, _) if name.starts_with("x-") || name.starts_with("X-") => {}
            _ if sloppy => {}
            _ => {
                return Err(wrong(name, "it is not known")
                    .hint("see mount.gannet(8); -s ignores options that are not known"));
            }
        }
        Ok(())
    }
}

fn wrong(name: &str, why: &str) -> Failure {
    Failure::usage(format!("option `{name}` cannot be used"), why)
}

fn scheme(proto: &str) -> Result<Scheme, Failure> {
    match proto {
        "rdma" => Ok(Scheme::Rdma),
        "tcp" => Ok(Scheme::Tcp),
        "native" => Ok(Scheme::Native),
        _ => Err(wrong("proto", "it is rdma, tcp or native")),
    }
}

/// The URL that SPEC stands for.
fn url(spec: &str, settled: &Settled) -> Result<String, Failure> {
    if spec.contains("://") {
        let given = [
            ("proto", settled.proto.is_some()),
            ("port", settled.port.is_some()),
        ];
        return match given.iter().find(|(_, is_given)| *is_given) {
            Some((name, _)) => Err(wrong(name, "the URL says it already")),
            None => Ok(spec.to_owned()),
        };
    }
    let Some((host, path)) = spec.split_once(":/").filter(|(host, _)| !host.is_empty()) else {
        let what = format!("cannot mount {spec:?}");
        let hint = "write nfs+rdma://HOST/PATH, nfs://HOST/PATH, gannet://HOST/PATH or HOST:/PATH";
        return Err(Failure::usage(what, "it names no server").hint(hint));
    };
    let scheme = settled.proto.unwrap_or(Scheme::Rdma).name();
    let port = settled
        .port
        .as_ref()
        .map_or(String::new(), |port| format!(":{port}"));
    let path = path.replace('%', "%25").replace('?', "%3F");
    Ok(format!("{scheme}://{host}{port}/{path}"))
}

/// The long options of `gannet mount`, and whether each takes a value.
fn known_options() -> BTreeMap<String, bool> {
    let mut root = Arguments::command();
    // Adds those that all commands have.
    root.build();
    let mount = root.find_subcommand("mount");
    let options = mount.into_iter().flat_map(clap::Command::get_arguments);
    let named = options.filter_map(|option| {
        let takes_value = matches!(option.get_action(), ArgAction::Set | ArgAction::Append);
        Some((option.get_long()?.to_owned(), takes_value))
    });
    named
        .filter(|(name, _)| !OWN.contains(&name.as_str()))
        .collect()
}

/// Names and values of a list of options. A value in double quotes may hold commas, as with mount(8).
fn split(list: &str) -> Vec<(String, Option<String>)> {
    let mut quoted = false;
    let parts = list.split(|letter| {
        quoted ^= letter == '"';
        letter == ',' && !quoted
    });
    let parts = parts.map(|part| match part.split_once('=') {
        Some((name, value)) => (name.to_owned(), Some(value.trim_matches('"').to_owned())),
        None => (part.to_owned(), None),
    });
    parts.collect()
}

#[cfg(test)]
mod tests;
