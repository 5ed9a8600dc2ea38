//! `gannet mount`: a server's directory in the tree of this machine.

use crate::cli::{Locks, MountOptions};
use crate::failure::{Explain, Failure};
use crate::output;
use crate::process::Signals;
use crate::session::{Session, caller, run as run_session, volume_of};
use gannet::url::Scheme;
use gannet_client::Follow;
use gannet_fuse::{Caching, Mount, MountError};
use gannet_runtime::{Handle, timeout};
use gannet_vfs::{FileHandle, FileKind, Vfs};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

/// How long operations wait for a silent server unless `--timeout` says otherwise.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// How long the server may take to hear that an export is no longer used.
const FAREWELL_MAX: Duration = Duration::from_secs(2);
const DEVICE: &str = "/dev/fuse";
/// What mounts for those who are not root.
const HELPERS: [&str; 2] = ["fusermount3", "fusermount"];

/// Mounts, and stays until somebody unmounts it, SIGTERM or SIGINT.
///
/// # Errors
/// The server, the directory or FUSE cannot be used; what to do is said.
pub fn run(options: &MountOptions) -> Result<(), Failure> {
    check_directory(&options.directory)?;
    check_fuse()?;
    run_session(async |runtime| match options.url.scheme {
        Scheme::Native => mount_volume(&runtime, options).await,
        Scheme::Tcp | Scheme::Rdma => mount_export(&runtime, options).await,
    })
}

async fn mount_volume(runtime: &Handle, options: &MountOptions) -> Result<(), Failure> {
    let (url, client) = (&options.url, &options.client);
    let volume = volume_of(runtime, url, client, Some(deadline(options))).await?;
    let path: Vec<&[u8]> = url.path.iter().map(Vec::as_slice).collect();
    let root = volume.resolve(&caller(client), &path).await;
    let root = root.explain(|| format!("cannot find {url}"))?;
    let attributes = volume.attributes(&root).await;
    let kind = attributes.explain(|| format!("cannot find {url}"))?.kind;
    check_kind(options, kind)?;
    // The kernel knows what it has written; the front end asks once, when that has become durable.
    hold(runtime, (volume.without_attributes(), root), options).await
}

async fn mount_export(runtime: &Handle, options: &MountOptions) -> Result<(), Failure> {
    let (url, client) = (&options.url, &options.client);
    let session = Session::connect(runtime, url, client).await?;
    let root = session.node(url, Follow::Yes).await?;
    check_kind(options, root.attributes.kind)?;
    let store = session.export_for_front_end().await;
    let store = store.explain(|| format!("cannot mount {url}"))?;
    let held = hold(runtime, (store, root.handle), options).await;
    let _ = timeout(runtime, FAREWELL_MAX, session.unmount()).await;
    held
}

fn deadline(options: &MountOptions) -> Duration {
    options.client.call.timeout.unwrap_or(SILENCE_MAX)
}

/// Mounts `store`, says so, and stays until that is over.
async fn hold<V: Vfs>(
    runtime: &Handle,
    store: (V, FileHandle),
    options: &MountOptions,
) -> Result<(), Failure> {
    let mut signals = Signals::install().explain(|| String::from("cannot wait for signals"))?;
    let call = &options.client.call;
    let settings = gannet_fuse::MountOptions {
        source: options.url.to_string(),
        caching: match options.direct {
            true => Caching::Direct,
            false => Caching::Writeback,
        },
        read_only: options.read_only,
        allow_other: options.allow_other,
        caller: (call.uid.is_some() || call.gid.is_some()).then(|| caller(&options.client)),
        cache_age: options.cache_age,
        locks: locks(options, store.0.is_coordinated())?,
        deadline: deadline(options),
    };
    let mount = Mount::start(runtime, store, &options.directory, settings).await;
    let mut mount = mount.map_err(|error| explain(options, error))?;
    let line = format!("mounted {} at {}", options.url, mount.directory().display());
    if let Some(path) = &options.ready_file {
        output::ready_file(path, &line)?;
    }
    output::line(&line)?;
    let what = || format!("{} was mounted, and ended", options.directory.display());
    let name = tokio::select! {
        ended = mount.ended() => return ended.explain(what),
        name = signals.next() => name,
    };
    tracing::info!(signal = name, "unmounting");
    tokio::select! {
        unmounted = mount.unmount() => {
            unmounted.explain(|| format!("cannot unmount {}", options.directory.display()))
        }
        _ = signals.next() => {
            tracing::warn!("second signal: exiting at once");
            std::process::exit(0);
        }
    }
}

/// Says where file locks hold: programs on several machines may rely on them.
fn locks(options: &MountOptions, server_has_locks: bool) -> Result<gannet_fuse::Locks, Failure> {
    let default = match server_has_locks {
        true => Locks::Shared,
        false => Locks::Local,
    };
    match options.locks.unwrap_or(default) {
        Locks::Shared if !server_has_locks => Err(Failure::new(
            format!("cannot mount {}", options.url),
            "an NFS server keeps no file locks for Gannet (--locks local, or none)",
        )),
        Locks::Shared => Ok(gannet_fuse::Locks::Shared),
        Locks::Local => {
            tracing::info!(
                "file locks hold among the programs of this machine alone (`--locks none` refuses them)"
            );
            Ok(gannet_fuse::Locks::Local)
        }
        Locks::None => Ok(gannet_fuse::Locks::None),
    }
}

fn check_kind(options: &MountOptions, kind: FileKind) -> Result<(), Failure> {
    match kind {
        FileKind::Directory => Ok(()),
        _ => Err(Failure::new(
            format!("cannot mount {}", options.url),
            "it is not a directory",
        )),
    }
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
    let command = match rustix::process::geteuid().is_root() {
        true => "umount",
        false => "fusermount3 -u",
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
    let refused =
        matches!(&error, MountError::Io(io) if io.kind() == io::ErrorKind::PermissionDenied);
    let what = format!("cannot mount on {}", options.directory.display());
    let failure = Failure::new(what, error);
    match (refused, options.allow_other) {
        (false, _) => failure,
        (true, true) => {
            failure.hint("say user_allow_other in /etc/fuse.conf, or leave --allow-other out")
        }
        (true, false) => failure.hint(
            "mounting needs CAP_SYS_ADMIN here: run as root, and in a container with that right",
        ),
    }
}
