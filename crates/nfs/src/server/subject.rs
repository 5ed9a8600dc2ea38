//! The subject of a call: the object, the names and the range that its arguments give, for lines about the call.
//!
//! The bytes are the client's: they are shown with escapes, and names that are longer than any file's are cut.

use super::export::{self, Served};
use super::{Server, mount};
use crate::limits::{NAME_SHOWN_MAX, PATH_SHOWN_MAX};
use gannet_rpc::Call;
use gannet_vfs::Vfs;
use gannet_wire::mount3::{self, DirPath, MountProcedure};
use gannet_wire::nfs3::{self, DirectoryName, FileHandle, NfsProcedure, SetAttributes};
use gannet_wire::xdr::{Decode, Decoder, XdrError};
use gannet_wire::{Escaped, Hex};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

/// The subject of a call, as far as its arguments can be read. It has borrowed parts alone: nothing is allocated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject<'a> {
    /// `nfs3` or `mount3`.
    pub protocol: &'static str,
    /// The procedure's name in RFC 1813.
    pub procedure: &'static str,
    /// The path of the export by which clients mount it; `None` for an unknown one, and for calls about none.
    pub export: Option<Arc<str>>,
    /// The path that MNT or UMNT gives.
    pub path: Option<&'a [u8]>,
    /// The object: the directory of `name` if there is one.
    pub handle: Option<&'a [u8]>,
    /// The name in that directory.
    pub name: Option<&'a [u8]>,
    /// The directory of the new name of RENAME and LINK.
    pub to_handle: Option<&'a [u8]>,
    /// The new name of RENAME and LINK.
    pub to_name: Option<&'a [u8]>,
    /// The first byte of READ, WRITE and COMMIT.
    pub offset: Option<u64>,
    /// The bytes of READ, WRITE and COMMIT.
    pub count: Option<u32>,
    /// The attributes that SETATTR sets.
    pub change: Option<SetAttributes>,
}

/// A part of a [`Subject`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field<'a> {
    /// A word of the protocol, or text of the configuration.
    Word(&'a str),
    /// The name of a file: any bytes.
    Name(&'a [u8]),
    /// A path of a client: any bytes.
    Path(&'a [u8]),
    /// A file handle.
    Handle(&'a [u8]),
    /// A number.
    Number(u64),
    /// Permission bits.
    Mode(u32),
}

impl fmt::Display for Field<'_> {
    /// Names are without quotes; a cut one ends with `\...`, which no escape of a name is.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Field::Word(word) => Escaped(word.as_bytes()).fmt(f),
            Field::Name(name) => write_cut(f, name, NAME_SHOWN_MAX),
            Field::Path(path) => write_cut(f, path, PATH_SHOWN_MAX),
            Field::Handle(handle) => Hex(handle).fmt(f),
            Field::Number(number) => number.fmt(f),
            Field::Mode(mode) => write!(f, "{mode:04o}"),
        }
    }
}

impl<'a> Subject<'a> {
    /// The subject of a call with these arguments, without its export; `None` for programs and procedures of no name.
    /// A part that the arguments do not reach is missing.
    pub fn parse(program: u32, procedure: u32, arguments: &'a [u8]) -> Option<Subject<'a>> {
        let mut subject = Subject {
            protocol: "nfs3",
            procedure: "",
            export: None,
            path: None,
            handle: None,
            name: None,
            to_handle: None,
            to_name: None,
            offset: None,
            count: None,
            change: None,
        };
        let mut decoder = Decoder::new(arguments);
        // Malformed arguments have a subject too, as far as they go.
        let _ = match program {
            nfs3::PROGRAM => {
                let procedure = NfsProcedure::from_number(procedure)?;
                subject.procedure = procedure.name();
                subject.read_nfs(procedure, &mut decoder)
            }
            mount3::PROGRAM => {
                let procedure = MountProcedure::from_number(procedure)?;
                subject.protocol = "mount3";
                subject.procedure = procedure.name();
                subject.read_mount(procedure, &mut decoder)
            }
            _ => return None,
        };
        Some(subject)
    }

    fn read_nfs(
        &mut self,
        procedure: NfsProcedure,
        decoder: &mut Decoder<'a>,
    ) -> Result<(), XdrError> {
        if procedure == NfsProcedure::Null {
            return Ok(());
        }
        self.handle = Some(FileHandle::decode(decoder)?.0);
        match procedure {
            NfsProcedure::Lookup
            | NfsProcedure::Create
            | NfsProcedure::Mkdir
            | NfsProcedure::Symlink
            | NfsProcedure::Mknod
            | NfsProcedure::Remove
            | NfsProcedure::Rmdir => self.name = Some(nfs3::Name::decode(decoder)?.0),
            NfsProcedure::Rename => {
                self.name = Some(nfs3::Name::decode(decoder)?.0);
                self.read_new_name(decoder)?;
            }
            NfsProcedure::Link => self.read_new_name(decoder)?,
            NfsProcedure::Read | NfsProcedure::Write | NfsProcedure::Commit => {
                self.offset = Some(decoder.u64()?);
                self.count = Some(decoder.u32()?);
            }
            NfsProcedure::Setattr => self.change = Some(SetAttributes::decode(decoder)?),
            _ => {}
        }
        Ok(())
    }

    fn read_new_name(&mut self, decoder: &mut Decoder<'a>) -> Result<(), XdrError> {
        let place = DirectoryName::decode(decoder)?;
        self.to_handle = Some(place.directory.0);
        self.to_name = Some(place.name.0);
        Ok(())
    }

    fn read_mount(
        &mut self,
        procedure: MountProcedure,
        decoder: &mut Decoder<'a>,
    ) -> Result<(), XdrError> {
        if matches!(procedure, MountProcedure::Mnt | MountProcedure::Umnt) {
            self.path = Some(DirPath::decode(decoder)?.0);
        }
        Ok(())
    }

    /// Calls `each` with the parts that there are: the procedure first, then the export, and the objects. The names of
    /// the parts are fixed words.
    pub fn each_field(&self, mut each: impl FnMut(&'static str, Field<'_>)) {
        each("procedure", Field::Word(self.procedure));
        let export = self.export.as_deref().map(Field::Word);
        let change = self.change.unwrap_or_default();
        let number = |number: Option<u32>| number.map(|it| Field::Number(it.into()));
        let fields = [
            ("export", export),
            ("path", self.path.map(Field::Path)),
            ("handle", self.handle.map(Field::Handle)),
            ("name", self.name.map(Field::Name)),
            ("to_handle", self.to_handle.map(Field::Handle)),
            ("to_name", self.to_name.map(Field::Name)),
            ("offset", self.offset.map(Field::Number)),
            ("count", number(self.count)),
            ("set_mode", change.mode.map(Field::Mode)),
            ("set_uid", number(change.uid)),
            ("set_gid", number(change.gid)),
            ("set_size", change.size.map(Field::Number)),
        ];
        for (name, field) in fields {
            if let Some(field) = field {
                each(name, field);
            }
        }
    }
}

fn write_cut(f: &mut fmt::Formatter<'_>, name: &[u8], max: usize) -> fmt::Result {
    match name.split_at_checked(max) {
        Some((shown, rest)) if !rest.is_empty() => write!(f, "{}\\...", Escaped(shown)),
        _ => write!(f, "{}", Escaped(name)),
    }
}

impl fmt::Display for Subject<'_> {
    /// `READ export="/" handle=00ff offset=0 count=4096`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut outcome = Ok(());
        self.each_field(|name, field| {
            let written = match field {
                _ if name == "procedure" => write!(f, "{field}"),
                Field::Word(_) | Field::Name(_) | Field::Path(_) => {
                    write!(f, " {name}=\"{field}\"")
                }
                _ => write!(f, " {name}={field}"),
            };
            outcome = outcome.and(written);
        });
        outcome
    }
}

impl<V: Vfs> Server<V> {
    /// The subject of a call, with the export to which it belongs now. It asks no file system.
    pub fn subject<'a>(&self, call: &'a Call) -> Option<Subject<'a>> {
        let mut subject = Subject::parse(call.program, call.procedure, call.arguments())?;
        let served = self.served_for(&subject);
        subject.export = served.map(|served| served.export.shared_path());
        Some(subject)
    }

    /// The export that a call with this subject is about now.
    pub(super) fn served_for(&self, subject: &Subject<'_>) -> Option<Rc<Served<V>>> {
        let exports = self.exports.borrow();
        let served = match (subject.handle, subject.path) {
            (Some(handle), _) => {
                let mark = handle.first();
                let mut exports = exports.iter();
                exports.find(|served| Some(&served.identity) == mark)
            }
            (None, Some(path)) => mount::leading(&exports, &export::components(path)),
            (None, None) => None,
        };
        served.map(Rc::clone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gannet_wire::nfs3::Name;
    use gannet_wire::xdr::{Encoder, to_bytes};

    fn shown(procedure: NfsProcedure, arguments: &[u8]) -> String {
        let subject = Subject::parse(nfs3::PROGRAM, procedure.number(), arguments);
        subject.unwrap().to_string()
    }

    fn place<'a>(directory: &'a [u8], name: &'a [u8]) -> DirectoryName<'a> {
        DirectoryName {
            directory: FileHandle(directory),
            name: Name(name),
        }
    }

    #[test]
    fn subjects_have_what_the_arguments_name() {
        let read = nfs3::ReadArgs {
            file: FileHandle(&[1, 0xff]),
            offset: 1 << 40,
            count: 4096,
        };
        assert_eq!(
            shown(NfsProcedure::Read, &to_bytes(&read)),
            "READ handle=01ff offset=1099511627776 count=4096"
        );
        let rename = nfs3::RenameArgs {
            from: place(&[1], b"a"),
            to: place(&[2], b"b"),
        };
        assert_eq!(
            shown(NfsProcedure::Rename, &to_bytes(&rename)),
            "RENAME handle=01 name=\"a\" to_handle=02 to_name=\"b\""
        );
        let link = nfs3::LinkArgs {
            file: FileHandle(&[3]),
            place: place(&[4], b"c"),
        };
        assert_eq!(
            shown(NfsProcedure::Link, &to_bytes(&link)),
            "LINK handle=03 to_handle=04 to_name=\"c\""
        );
        let set = nfs3::SetattrArgs {
            object: FileHandle(&[5]),
            change: SetAttributes {
                mode: Some(0o4755),
                uid: Some(7),
                size: Some(0),
                ..SetAttributes::default()
            },
            guard: None,
        };
        assert_eq!(
            shown(NfsProcedure::Setattr, &to_bytes(&set)),
            "SETATTR handle=05 set_mode=4755 set_uid=7 set_size=0"
        );
        let mut bytes = Vec::new();
        Encoder::new(&mut bytes).opaque(b"/data");
        let mount = Subject::parse(mount3::PROGRAM, 1, &bytes).unwrap();
        assert_eq!(mount.to_string(), "MNT path=\"/data\"");
        assert_eq!(Subject::parse(nfs3::PROGRAM, 22, &[]), None);
        assert_eq!(Subject::parse(100_000, 1, &[]), None);
    }

    #[test]
    fn names_of_clients_cannot_break_a_line() {
        let hostile = place(&[1], b"a\" b=\"\n\x1b[2J\\x1b\xff\xc2\x9b");
        assert_eq!(
            shown(NfsProcedure::Remove, &to_bytes(&hostile)),
            "REMOVE handle=01 name=\"a\\\" b=\\\"\\n\\u{1b}[2J\\\\x1b\\xff\\u{9b}\""
        );
        let long = [b'x'; 100_000];
        let line = shown(NfsProcedure::Remove, &to_bytes(&place(&[1], &long)));
        assert!(line.ends_with("x\\...\""), "{line}");
        assert!(line.len() < 400, "{}", line.len());
    }

    #[test]
    fn malformed_arguments_have_the_subject_that_can_be_read() {
        let whole = to_bytes(&place(&[9, 9, 9], b"name"));
        for end in 0..whole.len() {
            let line = shown(NfsProcedure::Mkdir, &whole[..end]);
            assert!("MKDIR handle=090909".starts_with(&line), "{line}");
        }
    }
}
