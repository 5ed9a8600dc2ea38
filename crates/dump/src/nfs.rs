//! What the arguments and results of NFSv3 and NFSACL say, in fields.

mod arguments;
mod results;

use crate::line::Part;
pub(crate) use arguments::{acl_arguments, arguments};
use gannet_wire::nfs3::{FileHandle, FileType, Stable, Time};
use gannet_wire::nfsacl3;
pub(crate) use results::{acl_results, results};

/// How a message is to be read.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Reading {
    /// The opaque that may travel in a chunk does: the message ends with its length word.
    pub(crate) is_reduced: bool,
    /// Show everything.
    pub(crate) verbose: bool,
}

fn acls(acls: &nfsacl3::Acls<'_>, part: &mut Part) {
    part.pair("parts", acl_parts(acls.parts));
    part.pair("access_entries", acls.access.count);
    part.pair("default_entries", acls.default.count);
}

/// The bits of NFSACL's parts in words.
fn acl_parts(bits: u32) -> Vec<String> {
    named_bits(
        bits,
        &["access", "access_count", "default", "default_count"],
    )
}

/// A handle as eight digits: its CRC-32, by which Wireshark shows it too.
pub(crate) fn handle(handle: FileHandle<'_>) -> String {
    let crc = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32IsoHdlc, handle.0);
    format!("{crc:08x}")
}

fn kind(kind: FileType) -> &'static str {
    match kind {
        FileType::Regular => "file",
        FileType::Directory => "dir",
        FileType::BlockDevice => "blockdev",
        FileType::CharacterDevice => "chardev",
        FileType::Symlink => "symlink",
        FileType::Socket => "socket",
        FileType::Fifo => "fifo",
    }
}

fn stable(stable: Stable) -> &'static str {
    match stable {
        Stable::Unstable => "unstable",
        Stable::DataSync => "data_sync",
        Stable::FileSync => "file_sync",
    }
}

/// ACCESS's bits (RFC 1813 section 3.3.4) in words.
fn rights(bits: u32) -> Vec<String> {
    named_bits(
        bits,
        &["read", "lookup", "modify", "extend", "delete", "execute"],
    )
}

/// The names of the bits that are set, lowest first; bits without a name as a number.
fn named_bits(bits: u32, names: &[&str]) -> Vec<String> {
    let named = names
        .iter()
        .enumerate()
        .filter(|(bit, _)| bits & 1 << bit != 0)
        .map(|(_, name)| (*name).to_owned());
    let unnamed = bits >> names.len() << names.len();
    named
        .chain((unnamed != 0).then(|| format!("{unnamed:#x}")))
        .collect()
}

fn time(time: Time) -> String {
    format!("{}.{:09}", time.seconds, time.nanoseconds)
}
