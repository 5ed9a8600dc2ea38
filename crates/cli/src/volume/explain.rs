//! Why something of a volume is not done, in words for people, with what to do about it.

use crate::failure::Failure;
use gannet::volume::{
    ClaimError, ClaimFailure, FileWork, IO_SERVERS_MAX, SecretError, VolumeError,
};
use gannet_volume::io_server::OWNER_FILE;
use std::io;
use std::path::Path;

const FROM_BACKUP: &str = "restore it and metadata.journal from the same backup";

/// Why something of the volume at `volume` is not done.
pub(crate) fn explain(volume: &Path, error: VolumeError) -> Failure {
    let opening = || format!("cannot open the volume {}", volume.display());
    let serving = || format!("cannot serve the volume {}", volume.display());
    match error {
        VolumeError::Unreadable { file, why } => {
            let failure = Failure::new(opening(), format!("{}: {why}", file.display()));
            let is_none = matches!(
                why.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            );
            failure.hint_if(is_none, "copy volume.toml and secret from another host of the volume; `gannet volume create PATH` makes a new one")
        }
        VolumeError::NoMetadata(path) => {
            let wrong = if path.exists() {
                "is not a file"
            } else {
                "is missing"
            };
            let why = format!("its metadata {} {wrong}", path.display());
            Failure::new(opening(), why).hint(FROM_BACKUP)
        }
        VolumeError::ServedElsewhere => {
            Failure::new(opening(), "another process serves this volume").hint("stop it first")
        }
        // It says what to do.
        VolumeError::Metadata(error) if error.is_other_format() => Failure::new(opening(), error),
        // It says what to do, or the engine does.
        VolumeError::Metadata(error) if error.is_of_engine() => Failure::new(opening(), error),
        VolumeError::Metadata(error) => {
            let way_out = if error.is_disk_full() {
                "free space on its disk; no data is lost"
            } else if error.is_damage() {
                "`gannet volume check` lists the damage; restore metadata and metadata.journal from the same backup"
            } else {
                "if it is damaged or lost, restore metadata and metadata.journal from the same backup"
            };
            Failure::new(opening(), error).hint(way_out)
        }
        VolumeError::FewerIoServers { noted, named } => {
            let why = format!("it has had {noted} I/O servers, and volume.toml names {named}");
            Failure::new(serving(), why).hint("add the missing [[io_server]] again, or copy volume.toml from the host where the volume was extended")
        }
        error @ VolumeError::Description { .. } => Failure::new(opening(), error),
        VolumeError::Start(error) => Failure::new(serving(), error),
        VolumeError::Manager(error) => Failure::new(serving(), error),
        VolumeError::Note(error) => Failure::new("cannot record which I/O servers exist", error),
        other => explain_making(other),
    }
}

/// Explains a failure to make or change a volume.
fn explain_making(error: VolumeError) -> Failure {
    match error {
        VolumeError::File {
            work: FileWork::Sync,
            path,
            why,
        } => Failure::new(format!("cannot make {} durable", path.display()), why),
        VolumeError::File { work, path, why } => {
            Failure::new(format!("cannot {work} {}", path.display()), why)
        }
        VolumeError::NotEmpty(folder) => {
            let what = format!("cannot use the folder {}", folder.display());
            Failure::new(what, "it is not empty")
                .hint("choose a folder that is empty or does not exist")
        }
        VolumeError::Nested(folder) => {
            let what = format!("cannot put an I/O server into {}", folder.display());
            let why = "the volume or another of its I/O servers uses it";
            Failure::new(what, why).hint("give each a folder of its own")
        }
        VolumeError::Unwritable(text) => {
            let why = "it is not UTF-8, or has control characters in it";
            Failure::new(format!("cannot use the path {text:?}"), why).hint("choose another name")
        }
        VolumeError::IoServersCount(_) => {
            let why = format!("a volume has at most {IO_SERVERS_MAX} I/O servers");
            Failure::usage("cannot make this volume", why)
        }
        error @ VolumeError::StripeWidth => Failure::usage("cannot make this volume", error)
            .hint("lower --stripe-width or add I/O servers"),
        error @ (VolumeError::Zones | VolumeError::ZonesCount { .. }) => {
            Failure::usage("cannot place the I/O servers", error)
        }
        VolumeError::Random(error) => Failure::new("cannot get random bytes", error),
        VolumeError::MakeMetadata { path, why } => {
            Failure::new(format!("cannot make the metadata {}", path.display()), why)
        }
        VolumeError::Secret { file, why } => explain_secret(&file, why),
        other => explain_serving(other),
    }
}

fn explain_secret(file: &Path, why: SecretError) -> Failure {
    let hint = match &why {
        SecretError::File(_) => Some(String::from(
            "restore it from a backup, or copy it from another host of the volume",
        )),
        SecretError::Public => Some(format!("run `chmod 600 {}`", file.display())),
        _ => None,
    };
    let what = format!("cannot use the volume's secret {}", file.display());
    let failure = Failure::new(what, why);
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// Explains a failure of a volume's servers or of their folders.
fn explain_serving(error: VolumeError) -> Failure {
    let starting = |number| format!("cannot start I/O server {number}");
    match error {
        VolumeError::NoSuchIoServer { number, count } => {
            let why = format!("the volume has {count}, numbered from 0");
            Failure::usage(format!("cannot run I/O server {number}"), why)
        }
        VolumeError::LostElsewhere(number) => {
            let what = format!("cannot mark the disk of I/O server {number} as lost");
            Failure::usage(what, "this process does not run that server")
        }
        VolumeError::Descriptors(error) => Failure::new("cannot start the I/O servers", error),
        VolumeError::FolderLocked { number, folder } => {
            let why = format!("another process serves its folder {}", folder.display());
            let hint = "stop that process; each I/O server of a host needs its own folder";
            Failure::new(starting(number), why).hint(hint)
        }
        VolumeError::Folder {
            number,
            folder,
            why,
        } => {
            let is_none = why.kind() == io::ErrorKind::NotFound;
            let failure = Failure::new(starting(number), format!("{}: {why}", folder.display()));
            let hint = "mount its disk; make the folder of a new server first";
            failure.hint_if(is_none, hint)
        }
        VolumeError::Tree { number, why } => Failure::new(starting(number), why),
        VolumeError::OfAnother { folder, owner } => {
            let what = format!("cannot use the folder {}", folder.display());
            Failure::new(what, format!("it belongs to {owner}")).hint(format!(
                "mount the right disk, or correct the folder in volume.toml; if this is the right folder, remove its {OWNER_FILE}"
            ))
        }
        VolumeError::Claim {
            number,
            folder,
            why,
        } => explain_claim(number, &folder, *why),
        VolumeError::Ask(error) => Failure::new("cannot ask the manager", error),
        VolumeError::Listen { role, address, why } => {
            Failure::new(format!("cannot listen for {role} at {address}"), why)
                .hint("choose another address with --native ADDRESS:PORT")
        }
        VolumeError::TermEnded(error) => Failure::new("the manager of the volume stopped", error),
        VolumeError::Ended(error) => Failure::new("a server of the volume ended", error),
        other => explain_managers(other),
    }
}

/// Explains why this process does not run a manager, or does not find one.
fn explain_managers(error: VolumeError) -> Failure {
    match error {
        error @ VolumeError::NoManagerAddress => {
            let hint = "add `[manager]` with `address = \"HOST:PORT\"` to volume.toml, or give --manager HOST:PORT";
            Failure::usage("cannot run I/O servers without the manager", error).hint(hint)
        }
        error @ VolumeError::ForcedBeside => {
            Failure::new("cannot take over by --force-term", error)
                .hint("stop all managers, then start this one with it")
        }
        error @ VolumeError::ManagerNames(_) => Failure::new("cannot stand by", error).hint(
            "give each host a name of its own, or each manager an address: --native ADDRESS:PORT",
        ),
        error @ VolumeError::ManagerPorts => {
            let hint =
                "give --native ADDRESS:PORT, with the address that volume.toml has for this one";
            Failure::usage("cannot run the manager", error).hint(hint)
        }
        error @ VolumeError::ManagersWithoutEngine => {
            let hint = "add --etcd URL,... or --postgresql URL";
            Failure::usage("cannot make the volume", error).hint(hint)
        }
        error @ VolumeError::Journal(_) => Failure::usage("cannot make the volume", error),
        error @ VolumeError::ManagerNotAlone => {
            let hint = "give --role manager to this process, and --role io-server=N to others";
            Failure::usage("cannot run the manager", error).hint(hint)
        }
        other => Failure::new("cannot use the volume", other),
    }
}

/// Why the folder of an I/O server is not served.
fn explain_claim(number: usize, folder: &Path, why: ClaimFailure<VolumeError>) -> Failure {
    let what = format!("cannot start I/O server {number}");
    let shown = folder.display();
    match why {
        ClaimFailure::Refused(ClaimError::ServedBefore) => {
            let why = format!("its folder {shown} is empty, and it was served before");
            Failure::new(what, why).hint(format!(
                "mount its disk; if the disk is lost for good, start once with --lost-disk {number}: the data on it cannot be read then"
            ))
        }
        ClaimFailure::Refused(error @ ClaimError::Taken { .. }) => Failure::new(what, error)
            .hint("stop that one first: two processes with one number would serve different bytes"),
        ClaimFailure::Refused(error @ ClaimError::Superseded) => Failure::new(what, error)
            .hint("its disk has moved, or is a copy; start it again if this is the right one"),
        ClaimFailure::Refused(error @ ClaimError::NotKnown) => {
            Failure::new(what, error).hint("start the manager again if its volume was extended")
        }
        ClaimFailure::NotLost => {
            let what = format!("the disk of I/O server {number} is not lost");
            let why = format!("its folder {shown} is not empty");
            let hint =
                "start it without --lost-disk, which is for the first start with an empty folder";
            Failure::usage(what, why).hint(hint)
        }
        error @ ClaimFailure::Changed => {
            Failure::new(format!("cannot use the folder {shown}"), error)
                .hint("start it again, with its disk mounted")
        }
        ClaimFailure::NotNoted(error) => {
            let what = format!("cannot record that the disk of I/O server {number} is lost");
            Failure::new(what, error)
        }
        error => Failure::new(what, error),
    }
}
