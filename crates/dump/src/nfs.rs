//! The arguments and results of NFSv3 and NFSACL as fields of a line.

mod arguments;
mod results;

use crate::line::Part;
pub(crate) use arguments::{acl_arguments, arguments};
use gannet_wire::NamedBits;
use gannet_wire::nfs3::FileHandle;
use gannet_wire::nfsacl3;
pub(crate) use results::{acl_results, results};

/// The way to read a message.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Reading {
    /// The opaque that may travel in a chunk does, so the message ends with its length word.
    pub(crate) is_reduced: bool,
    /// Show everything.
    pub(crate) verbose: bool,
}

fn acls(acls: &nfsacl3::Acls<'_>, part: &mut Part) {
    part.pair("parts", bit_names(nfsacl3::part::bits(&acls.parts)));
    part.pair("access_entries", acls.access.count);
    part.pair("default_entries", acls.default.count);
}

/// A handle as eight digits: its CRC-32, by which Wireshark shows it too.
pub(crate) fn handle(handle: FileHandle<'_>) -> String {
    let crc = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32IsoHdlc, handle.0);
    format!("{crc:08x}")
}

/// The names of the bits that are set, each an item of a list.
fn bit_names(bits: NamedBits) -> Vec<String> {
    bits.iter().map(|bit| bit.to_string()).collect()
}
