//! `gannet mount`: a server's directory in the tree of this machine.

mod background;
pub mod helper;

use crate::admin_address;
use crate::cli::{CloseMode, Locks, MountOptions};
use crate::failure::{Explain, Failure};
use crate::output;
use crate::process::Signals;
use crate::session::{Session, caller, run as run_session};
use gannet::admin::{Admin, AdminListener};
use gannet::local::{MountTally, Mounted, mount};
use gannet::{Caching, FrontEndError, MountError};
use gannet_runtime::Handle;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

/// How long operations wait for a silent server unless `--timeout` says otherwise.
const SILENCE_MAX: Duration = Duration::from_secs(60);
const DEVICE: &str = "/dev/fuse";
/// The program that mounts for users other than root.
const HELPERS: [&str; 2] = ["fusermount3", "fusermount"];

/// Mounts, and serves until the directory is unmounted, SIGTERM or SIGINT; with `--background` another process serves.
///
/// # Errors
/// The server, the directory or FUSE cannot be used; what to do is said.
pub fn run(options: &MountOptions) -> Result<(), Failure> {
    if options.background && !options.detached {
        let line = background::start(std::env::args_os().skip(1))?;
        return output::line(&line);
    }
    check_directory(&options.directory)?;
    check_fuse()?;
    let admin = admin_address::listen(options.admin.as_ref(), &options.admin_allow)?;
    let held = run_session(async |runtime| hold(&runtime, options, admin).await);
    match held {
        // The process in the background has no standard error once the directory is mounted.
        Err(failure) if options.detached => {
            tracing::error!("{failure}");
            Err(failure)
        }
        held => held,
    }
}

async fn hold(
    runtime: &Handle,
    options: &MountOptions,
    admin: Option<AdminListener>,
) -> Result<(), Failure> {
    let (url, client) = (&options.url, &options.client);
    let deadline = client.call.timeout.unwrap_or(SILENCE_MAX);
    let session = Session::connect_for_mount(runtime, url, client, deadline).await?;
    let held = hold_mount(runtime, &session, deadline, options, admin).await;
    session.connection().farewell().await;
    held
}

/// Mounts, says so, and stays until that is over.
async fn hold_mount(
    runtime: &Handle,
    session: &Session,
    deadline: Duration,
    options: &MountOptions,
    admin: Option<AdminListener>,
) -> Result<(), Failure> {
    let mut signals =
        Signals::install_for_service().explain(|| String::from("cannot wait for signals"))?;
    let settings = settings(deadline, options);
    let (url, directory) = (&options.url, &options.directory);
    let mounted = mount(runtime, session.connection(), url, directory, &settings).await;
    let mut mount = mounted.map_err(|error| explain(options, error))?;
    mount.requests().slow.set(options.slow);
    if mount.locks() == gannet::Locks::Local {
        // Programs on several machines may rely on them.
        tracing::info!(
            "file locks hold among the programs of this machine alone (`--locks none` refuses them)"
        );
    }
    let mut line = format!("mounted {url} at {}", mount.directory().display());
    // Answers until this function ends, so that a reader sees the end of the mount.
    let _admin = answer_administrators(session, &mount, options, admin, &mut line)?;
    if let Some(path) = &options.ready_file {
        output::ready_file(path, &line)?;
    }
    if options.detached {
        background::detach(&line)?;
    } else {
        output::line(&line)?;
    }
    let what = || format!("{} was mounted, and ended", directory.display());
    let name = tokio::select! {
        ended = mount.ended() => return ended.explain(what),
        name = signals.next() => name,
    };
    tracing::info!(signal = name, "unmounting");
    report_reads(session);
    tokio::select! {
        unmounted = mount.unmount() => {
            unmounted.explain(|| format!("cannot unmount {}", directory.display()))
        }
        _ = signals.next() => {
            tracing::warn!("second signal: exiting at once");
            std::process::exit(0);
        }
    }
}

/// Answers administrators from now on, and adds their address to the ready line.
///
/// # Errors
/// There is no thread for it.
fn answer_administrators(
    session: &Session,
    mount: &Mounted,
    options: &MountOptions,
    listener: Option<AdminListener>,
    line: &mut String,
) -> Result<Option<Admin>, Failure> {
    let Some(listener) = listener else {
        return Ok(None);
    };
    line.push_str(&format!(" admin={}", listener.address()));
    let tally = MountTally::new(session.connection(), mount, options.url.scheme.name());
    let parts = vec![tally.part()];
    let admin = Admin::start(listener, tally, parts, None);
    admin
        .explain(|| String::from("cannot answer administrators"))
        .map(Some)
}

/// The options of the front end.
fn settings(deadline: Duration, options: &MountOptions) -> gannet::MountOptions {
    let call = &options.client.call;
    let is_someone = call.uid.is_some() || call.gid.is_some();
    gannet::MountOptions::default()
        .caching(if options.direct {
            Caching::Direct
        } else {
            Caching::Cached
        })
        .read_only(options.read_only)
        .no_exec(options.noexec)
        .allow_other(options.allow_other)
        .caller(is_someone.then(|| caller(&options.client)))
        .cache_age(options.cache_age)
        .locks(options.locks.map(|locks| match locks {
            Locks::Shared => gannet::Locks::Shared,
            Locks::Local => gannet::Locks::Local,
            Locks::None => gannet::Locks::None,
        }))
        .closing(match options.close {
            CloseMode::Sync => gannet::Closing::Sync,
            CloseMode::Async => gannet::Closing::Async,
        })
        .deadline(deadline)
        .source(options.source.clone())
}

/// Says what reading without asking has come to, of a volume.
fn report_reads(session: &Session) {
    let Some(volume) = session.volume() else {
        return;
    };
    let (reads, attributes) = (volume.optimistic_counters(), volume.attribute_counters());
    tracing::info!(
        client_cache_hits = reads.memory.cache_hits,
        directory_hits = reads.memory.directory_hits(),
        stale_hits = reads.memory.stale_hits,
        optimistic_reads = reads.reads,
        refused_reads = reads.refused,
        policy_switches = reads.policy.switches_off + reads.policy.switches_on,
        attribute_hits = attributes.hits,
        attribute_stale = attributes.stale,
        "read without asking"
    );
}

/// Sees that there is a directory to mount on.
fn check_directory(directory: &Path) -> Result<(), Failure> {
    let what = || format!("cannot mount on {}", directory.display());
    let metadata = std::fs::metadata(directory).map_err(|error| {
        let failure = Failure::new(what(), &error);
        match error
            .raw_os_error()
            .map(rustix::io::Errno::from_raw_os_error)
        {
            Some(rustix::io::Errno::NOENT) => failure.hint("make the directory first"),
            Some(rustix::io::Errno::NOTCONN) => failure.hint(format!(
                "an earlier mount has died: run `{}`",
                unmount(directory)
            )),
            _ => failure,
        }
    })?;
    if !metadata.is_dir() {
        return Err(Failure::new(what(), "it is not a directory"));
    }
    let parent = std::fs::metadata(directory.join("..")).explain(what)?;
    if parent.dev() != metadata.dev() {
        let hint = format!("run `{}`, or choose another", unmount(directory));
        return Err(Failure::new(what(), "something is mounted there already").hint(hint));
    }
    Ok(())
}

/// The command that unmounts it, for this user.
fn unmount(directory: &Path) -> String {
    let command = if rustix::process::geteuid().is_root() {
        "umount"
    } else {
        "fusermount3 -u"
    };
    format!("{command} {}", directory.display())
}

/// Sees that this system lets this user mount through FUSE.
fn check_fuse() -> Result<(), Failure> {
    let what = "cannot mount";
    let opened = std::fs::File::options().read(true).write(true).open(DEVICE);
    let is_root = rustix::process::geteuid().is_root();
    match opened {
        Ok(_) => {}
        // Not even with the helper: the device is opened first.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied && !is_root => {
            let hint = format!("have root run `chmod 666 {DEVICE}`, which is how udev makes it");
            return Err(Failure::new(what, format!("{DEVICE}: {error}")).hint(hint));
        }
        Err(error) => {
            let hint = "load the kernel's module `fuse`, or give the container this device";
            return Err(Failure::new(what, format!("{DEVICE}: {error}")).hint(hint));
        }
    }
    if !is_root && !has_helper() {
        let hint = "install the package fuse3, or mount as root";
        let why = "only root may, and there is no fusermount3 to do it for others";
        return Err(Failure::new(what, why).hint(hint));
    }
    Ok(())
}

fn has_helper() -> bool {
    if std::env::var_os("FUSERMOUNT_PATH").is_some() {
        return true;
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .any(|directory| HELPERS.iter().any(|name| directory.join(name).is_file()))
}

fn explain(options: &MountOptions, error: MountError) -> Failure {
    let (url, directory) = (&options.url, options.directory.display());
    let mounting = || format!("cannot mount {url}");
    let front_end = match error {
        MountError::FrontEnd(error) => error,
        MountError::Find(error) => return Failure::new(format!("cannot find {url}"), error),
        error @ MountError::NoSharedLocks => {
            return Failure::new(mounting(), error).hint("--locks local, or none");
        }
        MountError::Limits(error) => return Failure::new(mounting(), error),
        error => return Failure::new(mounting(), error),
    };
    let refused =
        matches!(&front_end, FrontEndError::Io(io) if io.kind() == io::ErrorKind::PermissionDenied);
    let failure = Failure::new(format!("cannot mount on {directory}"), front_end);
    if !refused {
        failure
    } else if options.allow_other {
        failure.hint("say user_allow_other in /etc/fuse.conf, or leave --allow-other out")
    } else {
        failure.hint(
            "mounting needs CAP_SYS_ADMIN here: run as root, and in a container with that right",
        )
    }
}
