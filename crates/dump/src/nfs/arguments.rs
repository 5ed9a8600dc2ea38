//! The arguments of NFSv3 and NFSACL.

use super::{Reading, acls, bit_names, handle};
use crate::line::Part;
use gannet_wire::Hex;
use gannet_wire::nfs3::*;
use gannet_wire::nfsacl3;
use gannet_wire::xdr::{Decode, Decoder, XdrError, from_bytes};

/// Appends the fields of the arguments `bytes` of `procedure` to `part`.
///
/// # Errors
/// [`XdrError`]: the arguments are malformed. The fields in front of the error are in `part`.
pub(crate) fn arguments(
    procedure: NfsProcedure,
    bytes: &[u8],
    reading: Reading,
    part: &mut Part,
) -> Result<(), XdrError> {
    match procedure {
        NfsProcedure::Null => from_bytes::<()>(bytes)?,
        NfsProcedure::Setattr => {
            let it: SetattrArgs<'_> = from_bytes(bytes)?;
            part.pair("fh", handle(it.object));
            set_attributes(&it.change, part);
            part.flag("guard", it.guard.is_some());
        }
        NfsProcedure::Access => {
            let it: AccessArgs<'_> = from_bytes(bytes)?;
            part.pair("fh", handle(it.object));
            part.pair("access", bit_names(access_bits(&it.access)));
        }
        NfsProcedure::Read | NfsProcedure::Write | NfsProcedure::Commit => {
            moving(procedure, bytes, part)?;
        }
        NfsProcedure::Lookup | NfsProcedure::Remove | NfsProcedure::Rmdir => {
            place(&from_bytes(bytes)?, part);
        }
        NfsProcedure::Create
        | NfsProcedure::Mkdir
        | NfsProcedure::Symlink
        | NfsProcedure::Mknod => {
            making(procedure, bytes, reading, part)?;
        }
        NfsProcedure::Rename => {
            let it: RenameArgs<'_> = from_bytes(bytes)?;
            place(&it.from, part);
            part.pair("to_dir", handle(it.to.directory));
            part.name("to_name", it.to.name.0);
        }
        NfsProcedure::Link => {
            let it: LinkArgs<'_> = from_bytes(bytes)?;
            part.pair("fh", handle(it.file));
            place(&it.place, part);
        }
        NfsProcedure::Readdir => {
            let it: ReaddirArgs<'_> = from_bytes(bytes)?;
            part.pair("dir", handle(it.directory));
            part.pair("cookie", it.cookie).pair("count", it.count);
        }
        NfsProcedure::Readdirplus => {
            let it: ReaddirplusArgs<'_> = from_bytes(bytes)?;
            part.pair("dir", handle(it.directory));
            part.pair("cookie", it.cookie);
            part.pair("dircount", it.directory_count);
            part.pair("maxcount", it.max_count);
        }
        NfsProcedure::Getattr
        | NfsProcedure::Readlink
        | NfsProcedure::Fsstat
        | NfsProcedure::Fsinfo
        | NfsProcedure::Pathconf => {
            part.pair("fh", handle(from_bytes(bytes)?));
        }
    }
    Ok(())
}

/// The arguments of READ, WRITE and COMMIT.
fn moving(procedure: NfsProcedure, bytes: &[u8], part: &mut Part) -> Result<(), XdrError> {
    let mut range = |file, offset: u64, count: u32| {
        part.pair("fh", handle(file));
        part.pair("offset", offset).pair("count", count);
    };
    match procedure {
        NfsProcedure::Read => {
            let it: ReadArgs<'_> = from_bytes(bytes)?;
            range(it.file, it.offset, it.count);
        }
        NfsProcedure::Commit => {
            let it: CommitArgs<'_> = from_bytes(bytes)?;
            range(it.file, it.offset, it.count);
        }
        _ => {
            // The head is enough: the data may be in a chunk, and no line shows it.
            let it = WriteHead::decode(&mut Decoder::new(bytes))?;
            range(it.file, it.offset, it.count);
            part.pair("stable", it.stable.to_string());
            if it.length != it.count {
                part.pair("data", it.length);
            }
        }
    }
    Ok(())
}

/// The arguments of CREATE, MKDIR, SYMLINK and MKNOD.
fn making(
    procedure: NfsProcedure,
    bytes: &[u8],
    reading: Reading,
    part: &mut Part,
) -> Result<(), XdrError> {
    match procedure {
        NfsProcedure::Create => {
            let it: CreateArgs<'_> = from_bytes(bytes)?;
            place(&it.place, part);
            match &it.how {
                CreateHow::Unchecked(attributes) => {
                    set_attributes(attributes, part.pair("how", "unchecked"));
                }
                CreateHow::Guarded(attributes) => {
                    set_attributes(attributes, part.pair("how", "guarded"));
                }
                CreateHow::Exclusive(verifier) => {
                    part.pair("how", "exclusive")
                        .pair("verf", Hex(verifier).to_string());
                }
            }
        }
        NfsProcedure::Symlink if reading.is_reduced => {
            let it: SymlinkHead<'_> = from_bytes(bytes)?;
            place(&it.place, part);
            part.pair("target_bytes", it.length);
        }
        NfsProcedure::Symlink => {
            let it: SymlinkArgs<'_> = from_bytes(bytes)?;
            place(&it.place, part);
            part.name("target", it.target.0);
        }
        NfsProcedure::Mknod => {
            let it: MknodArgs<'_> = from_bytes(bytes)?;
            place(&it.place, part);
            mknod(&it.what, part);
        }
        _ => {
            let it: MkdirArgs<'_> = from_bytes(bytes)?;
            place(&it.place, part);
            set_attributes(&it.attributes, part);
        }
    }
    Ok(())
}

/// The same for NFSACL.
///
/// # Errors
/// [`XdrError`], as of [`arguments`].
pub(crate) fn acl_arguments(
    procedure: nfsacl3::AclProcedure,
    bytes: &[u8],
    part: &mut Part,
) -> Result<(), XdrError> {
    match procedure {
        nfsacl3::AclProcedure::Null => from_bytes::<()>(bytes)?,
        nfsacl3::AclProcedure::Getacl => {
            let it: nfsacl3::GetaclArgs<'_> = from_bytes(bytes)?;
            part.pair("fh", handle(it.object));
            part.pair("parts", bit_names(nfsacl3::part::bits(&it.parts)));
        }
        nfsacl3::AclProcedure::Setacl => {
            let it: nfsacl3::SetaclArgs<'_> = from_bytes(bytes)?;
            part.pair("fh", handle(it.object));
            acls(&it.acls, part);
        }
    }
    Ok(())
}

fn place(place: &DirectoryName<'_>, part: &mut Part) {
    part.pair("dir", handle(place.directory));
    part.name("name", place.name.0);
}

fn set_attributes(set: &SetAttributes, part: &mut Part) {
    if let Some(mode) = set.mode {
        part.pair("mode", format!("{mode:04o}"));
    }
    for (key, id) in [("uid", set.uid), ("gid", set.gid)] {
        if let Some(id) = id {
            part.pair(key, id);
        }
    }
    if let Some(size) = set.size {
        part.pair("size", size);
    }
    for (key, set) in [("atime", set.access_time), ("mtime", set.modify_time)] {
        match set {
            SetTime::Keep => {}
            SetTime::Server => {
                part.pair(key, "server");
            }
            SetTime::Client(value) => {
                part.pair(key, value.to_string());
            }
        }
    }
}

fn mknod(what: &MknodData, part: &mut Part) {
    part.pair("type", what.file_type().to_string());
    if let Some(device) = what.device() {
        part.pair("device", device.to_string());
    }
    if let Some(attributes) = what.attributes() {
        set_attributes(attributes, part);
    }
}
