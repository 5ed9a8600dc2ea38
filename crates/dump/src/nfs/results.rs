//! The results of NFSv3 and NFSACL.

use super::{Reading, acls, bit_names, handle};
use crate::limits::LIST_SHOWN_MAX;
use crate::line::Part;
use gannet_wire::Hex;
use gannet_wire::nfs3::*;
use gannet_wire::nfsacl3;
use gannet_wire::xdr::{Decode, Decoder, XdrError, from_bytes};

/// Appends the fields of the results `bytes` of `procedure`: status and main results to `part`, attributes to `parts`.
///
/// # Errors
/// [`XdrError`]: the results are malformed. The fields in front of the error are in `part`.
pub(crate) fn results(
    procedure: NfsProcedure,
    bytes: &[u8],
    reading: Reading,
    part: &mut Part,
    parts: &mut Vec<Part>,
) -> Result<(), XdrError> {
    match procedure {
        NfsProcedure::Null => from_bytes::<()>(bytes)?,
        NfsProcedure::Getattr => {
            if let Ok(it) = status(from_bytes::<GetattrResult>(bytes)?, part).map_err(drop) {
                attributes(Some(it), parts);
                part.pair("links", it.link_count).pair("used", it.used);
                part.pair("mtime", it.modify_time.to_string());
            }
        }
        NfsProcedure::Setattr | NfsProcedure::Remove | NfsProcedure::Rmdir => {
            let it = status(from_bytes::<SetattrResult>(bytes)?, part);
            wcc(it.unwrap_or_else(|wcc| wcc), parts);
        }
        NfsProcedure::Lookup => match status(from_bytes::<LookupResult<'_>>(bytes)?, part) {
            Ok(it) => {
                part.pair("fh", handle(it.object));
                attributes(it.attributes, parts);
            }
            Err(directory) => attributes(directory, parts),
        },
        NfsProcedure::Access => match status(from_bytes::<AccessResult>(bytes)?, part) {
            Ok(it) => {
                part.pair("access", bit_names(access_bits(&it.access)));
                attributes(it.attributes, parts);
            }
            Err(it) => attributes(it, parts),
        },
        NfsProcedure::Readlink
        | NfsProcedure::Read
        | NfsProcedure::Write
        | NfsProcedure::Commit => {
            moved(procedure, bytes, reading, part, parts)?;
        }
        NfsProcedure::Create
        | NfsProcedure::Mkdir
        | NfsProcedure::Symlink
        | NfsProcedure::Mknod
        | NfsProcedure::Rename
        | NfsProcedure::Link => named(procedure, bytes, part, parts)?,
        NfsProcedure::Readdir => match status(from_bytes::<ReaddirResult<'_>>(bytes)?, part) {
            Ok(it) => listing(&it, reading, part, |entry| entry.name),
            Err(it) => attributes(it, parts),
        },
        NfsProcedure::Readdirplus => {
            match status(from_bytes::<ReaddirplusResult<'_>>(bytes)?, part) {
                Ok(it) => listing(&it, reading, part, |entry| entry.name),
                Err(it) => attributes(it, parts),
            }
        }
        NfsProcedure::Fsstat | NfsProcedure::Fsinfo | NfsProcedure::Pathconf => {
            file_system(procedure, bytes, part, parts)?;
        }
    }
    Ok(())
}

/// The results of CREATE, MKDIR, SYMLINK, MKNOD, RENAME and LINK.
fn named(
    procedure: NfsProcedure,
    bytes: &[u8],
    part: &mut Part,
    parts: &mut Vec<Part>,
) -> Result<(), XdrError> {
    match procedure {
        NfsProcedure::Rename => {
            let it = status(from_bytes::<RenameResult>(bytes)?, part);
            wcc(it.unwrap_or_else(|wcc| wcc).to, parts);
        }
        NfsProcedure::Link => {
            let it = status(from_bytes::<LinkResult>(bytes)?, part);
            attributes(it.unwrap_or_else(|wcc| wcc).attributes, parts);
        }
        _ => match status(from_bytes::<CreateResult<'_>>(bytes)?, part) {
            Ok(it) => {
                if let Some(object) = it.object {
                    part.pair("fh", handle(object));
                }
                attributes(it.attributes, parts);
            }
            Err(directory) => wcc(directory, parts),
        },
    }
    Ok(())
}

/// The results of READLINK, READ, WRITE and COMMIT.
fn moved(
    procedure: NfsProcedure,
    bytes: &[u8],
    reading: Reading,
    part: &mut Part,
    parts: &mut Vec<Part>,
) -> Result<(), XdrError> {
    match procedure {
        NfsProcedure::Readlink if reading.is_reduced => {
            match status(from_bytes::<ReadlinkHeadResult>(bytes)?, part) {
                Ok(it) => {
                    part.pair("target_bytes", it.length);
                    attributes(it.attributes, parts);
                }
                Err(it) => attributes(it, parts),
            }
        }
        NfsProcedure::Readlink => match status(from_bytes::<ReadlinkResult<'_>>(bytes)?, part) {
            Ok(it) => {
                part.name("target", it.target.0);
                attributes(it.attributes, parts);
            }
            Err(it) => attributes(it, parts),
        },
        // The head is enough: the data may be in a chunk, and no line shows it.
        NfsProcedure::Read => match status(ReadHeadResult::decode(&mut Decoder::new(bytes))?, part)
        {
            Ok(it) => {
                part.pair("count", it.count).flag("eof", it.eof);
                if it.length != it.count {
                    part.pair("data", it.length);
                }
                attributes(it.attributes, parts);
            }
            Err(it) => attributes(it, parts),
        },
        NfsProcedure::Write => match status(from_bytes::<WriteResult>(bytes)?, part) {
            Ok(it) => {
                part.pair("count", it.count);
                part.pair("committed", it.committed.to_string());
                part.pair("verf", Hex(&it.verifier).to_string());
                wcc(it.wcc, parts);
            }
            Err(it) => wcc(it, parts),
        },
        _ => match status(from_bytes::<CommitResult>(bytes)?, part) {
            Ok(it) => {
                part.pair("verf", Hex(&it.verifier).to_string());
                wcc(it.wcc, parts);
            }
            Err(it) => wcc(it, parts),
        },
    }
    Ok(())
}

/// The results of FSSTAT, FSINFO and PATHCONF.
fn file_system(
    procedure: NfsProcedure,
    bytes: &[u8],
    part: &mut Part,
    parts: &mut Vec<Part>,
) -> Result<(), XdrError> {
    let about = match procedure {
        NfsProcedure::Fsstat => status(from_bytes::<FsstatResult>(bytes)?, part).map(|it| {
            part.pair("bytes_total", it.bytes_total);
            part.pair("bytes_free", it.bytes_free);
            part.pair("bytes_available", it.bytes_available);
            part.pair("files_total", it.files_total);
            part.pair("files_free", it.files_free);
            it.attributes
        }),
        NfsProcedure::Fsinfo => status(from_bytes::<FsinfoResult>(bytes)?, part).map(|it| {
            part.pair("rtmax", it.read_max).pair("wtmax", it.write_max);
            part.pair("dtpref", it.directory_preferred);
            part.pair("maxfilesize", it.file_size_max);
            it.attributes
        }),
        _ => status(from_bytes::<PathconfResult>(bytes)?, part).map(|it| {
            part.pair("linkmax", it.link_max);
            part.pair("name_max", it.name_max);
            part.flag("no_trunc", it.no_truncation);
            part.flag("case_insensitive", it.case_insensitive);
            it.attributes
        }),
    };
    attributes(about.unwrap_or_else(|attributes| attributes), parts);
    Ok(())
}

/// The same for NFSACL.
///
/// # Errors
/// [`XdrError`], as of [`results`].
pub(crate) fn acl_results(
    procedure: nfsacl3::AclProcedure,
    bytes: &[u8],
    part: &mut Part,
    parts: &mut Vec<Part>,
) -> Result<(), XdrError> {
    match procedure {
        nfsacl3::AclProcedure::Null => from_bytes::<()>(bytes)?,
        nfsacl3::AclProcedure::Getacl => {
            match status(from_bytes::<nfsacl3::GetaclResult<'_>>(bytes)?, part) {
                Ok(it) => {
                    acls(&it.acls, part);
                    attributes(it.attributes, parts);
                }
                Err(it) => attributes(it, parts),
            }
        }
        nfsacl3::AclProcedure::Setacl => {
            let it = status(from_bytes::<nfsacl3::SetaclResult>(bytes)?, part);
            attributes(it.unwrap_or_else(|attributes| attributes), parts);
        }
    }
    Ok(())
}

/// Appends the status; returns the results, or the attributes of a failure.
fn status<T, E: Copy>(result: Result<T, Failed<E>>, part: &mut Part) -> Result<T, E> {
    match result {
        Ok(value) => {
            part.word("status", "OK");
            Ok(value)
        }
        Err(failed) => {
            part.word("status", failed.status.to_string());
            Err(failed.body)
        }
    }
}

fn attributes(attributes: PostOpAttributes, parts: &mut Vec<Part>) {
    let Some(it) = attributes else {
        return;
    };
    let mut part = Part::new("attributes");
    part.word("type", it.kind.to_string());
    part.word("mode", format!("{:04o}", it.mode & 0o7777));
    part.pair("uid", it.uid).pair("gid", it.gid);
    part.pair("size", it.size).pair("fileid", it.fileid);
    parts.push(part);
}

/// Appends the attributes after an operation, and the size before if it was another.
fn wcc(wcc: WccData, parts: &mut Vec<Part>) {
    attributes(wcc.after, parts);
    if let (Some(before), Some(after), Some(part)) = (wcc.before, wcc.after, parts.last_mut())
        && before.size != after.size
    {
        part.pair("was", before.size);
    }
}

/// Appends the number of entries of a page, and the first and last names; all names if the reading is verbose.
fn listing<'a, T: Decode<'a> + Copy>(
    page: &DirectoryListing<'a, T>,
    reading: Reading,
    part: &mut Part,
    name: impl Fn(&T) -> Name<'a>,
) {
    let count = page.entries.iter().count();
    part.pair("entries", count).flag("eof", page.eof);
    if reading.verbose || count <= LIST_SHOWN_MAX {
        part.names("names", page.entries.iter().map(|entry| name(&entry).0));
        return;
    }
    let ends = [page.entries.iter().next(), page.entries.iter().last()];
    for (key, entry) in ["first", "last"].into_iter().zip(ends) {
        if let Some(entry) = entry {
            part.name(key, name(&entry).0);
        }
    }
}
