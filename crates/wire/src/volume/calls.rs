//! Requests to the manager: the bodies of its operations (docs/formats/volume.md, "Messages").

use super::{
    AccessMask, AttributeChanges, Caller, Capability, CopiesWanted, CreateMode,
    FILE_NAME_DECODED_MAX, FileId, ManagersWanted, NodeKind, OBJECTS_MAX, ObjectId, Operation,
    RequestId, SYMLINK_MAX, SetTimestamp, SlotSequence, StaleGroups, Stripes, Timestamp,
};
use crate::xdr::{
    Count, Decode, Decoder, Encode, Encoder, Printed, Quoted, XdrError, print_as_display,
    print_field,
};
use alloc::vec::Vec;
use core::fmt;

/// A name in a directory (`entry`). It prints as `directory/"name"`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The directory.
    pub directory: FileId,
    /// The name, at most [`FILE_NAME_MAX`](super::FILE_NAME_MAX) bytes. A decoder accepts one byte more, so that the
    /// manager can refuse it with the right status.
    pub name: Vec<u8>,
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.directory, Printed(&Quoted(&self.name)))
    }
}

print_as_display!(Entry);

impl Encode for Entry {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        self.directory.encode(encoder);
        encoder.opaque(&self.name);
    }
}

impl Decode<'_> for Entry {
    fn decode(decoder: &mut Decoder<'_>) -> Result<Entry, XdrError> {
        Ok(Entry {
            directory: FileId::decode(decoder)?,
            name: decoder.opaque(FILE_NAME_DECODED_MAX)?.to_vec(),
        })
    }
}

/// A request to the manager. Most replies are [`FoundFiles`](super::FoundFiles).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    /// Returns the file, [`Referenced`](super::Referenced).
    Getattr {
        /// The file.
        file: FileId,
        /// The reply shall refer to the file's attribute record.
        wants_references: bool,
    },
    /// Returns the file.
    Setattr {
        /// The file.
        file: FileId,
        /// The attributes to set.
        attributes: AttributeChanges,
        /// The change time that the file must have; with another one the manager sets nothing.
        guard: Option<Timestamp>,
    },
    /// Gives the file and the directory, [`Referenced`](super::Referenced).
    Lookup {
        /// The name to find.
        entry: Entry,
        /// The reply shall refer to the files' attribute records.
        wants_references: bool,
    },
    /// Returns an [`AccessAnswer`](super::AccessAnswer).
    Access {
        /// The file.
        file: FileId,
        /// The rights asked about.
        wanted: AccessMask,
    },
    /// Returns the symbolic link, whose text is in its inode.
    Readlink {
        /// The symbolic link.
        file: FileId,
    },
    /// Returns the file and the directory.
    Create {
        /// The name of the file.
        entry: Entry,
        /// The treatment of a name that exists.
        mode: CreateMode,
    },
    /// Returns the new directory and the one that it is in.
    Mkdir {
        /// The name of the new directory.
        entry: Entry,
        /// Its attributes.
        attributes: AttributeChanges,
    },
    /// Returns the link and the directory.
    Symlink {
        /// The name of the link.
        entry: Entry,
        /// Its text, at most [`SYMLINK_MAX`] bytes. A decoder accepts one byte more, as of a name.
        text: Vec<u8>,
        /// Its attributes.
        attributes: AttributeChanges,
    },
    /// Returns the file and the directory.
    Mknod {
        /// The name of the file.
        entry: Entry,
        /// The kind of the file.
        kind: NodeKind,
        /// Its attributes.
        attributes: AttributeChanges,
    },
    /// Returns the directory.
    Remove {
        /// The name to remove.
        entry: Entry,
    },
    /// Returns the directory that the removed one was in.
    Rmdir {
        /// The name to remove.
        entry: Entry,
    },
    /// Returns both directories.
    Rename {
        /// The old name.
        from: Entry,
        /// The new name.
        to: Entry,
    },
    /// Returns the file and the directory.
    Link {
        /// The file.
        file: FileId,
        /// Its new name.
        entry: Entry,
    },
    /// Returns a [`Page`](super::Page), [`Referenced`](super::Referenced).
    Readdirplus {
        /// The directory.
        directory: FileId,
        /// The cookie of the name before the page; 0 for the start.
        cookie: u64,
        /// The page shall have the files of the names.
        wants_files: bool,
        /// The reply shall refer to the files' attribute records.
        wants_references: bool,
    },
    /// Sets the stripes of new files in a directory. Returns the directory.
    Stripes {
        /// The directory.
        directory: FileId,
        /// The stripes of its new files; `None` for those of the volume.
        stripes: Option<Stripes>,
    },
    /// Returns the layout and a capability, [`Granted`](super::Granted).
    Layout {
        /// The file.
        file: FileId,
        /// The rights to its objects, as bits of [`Capability`](super::Capability).
        rights: u32,
    },
    /// Returns a [`FilePage`](super::FilePage) of the regular files.
    Files {
        /// The lowest number of a file in the page.
        from: FileId,
    },
    /// Gives the statuses of objects ([`OrphanStatuses`](super::OrphanStatuses)).
    Orphans {
        /// The I/O server that the objects are on.
        server: u32,
        /// Objects that belong to no file shall be removed.
        remove: bool,
        /// The objects, at most [`OBJECTS_MAX`].
        objects: Vec<ObjectId>,
    },
    /// Sets how many I/O servers keep each byte. Returns a [`CopiesAnswer`](super::CopiesAnswer).
    Copies {
        /// The number of copies that is wanted.
        wanted: CopiesWanted,
    },
    /// Returns the [`StaleGroups`](super::StaleGroups): all, or those that were accepted.
    StaleGroups {
        /// In these groups the members with older data shall count from now on, and the others be filled with that.
        accept: StaleGroups,
    },
    /// Returns the [`ManagersAnswer`](super::ManagersAnswer); another manager becomes active if that is asked for.
    Managers {
        /// The term that is to end.
        wanted: ManagersWanted,
    },
    /// Makes a file, whose name must not exist, with stripes of its own. Returns the file and the directory.
    CreateStriped {
        /// The name of the file.
        entry: Entry,
        /// Its attributes.
        attributes: AttributeChanges,
        /// Its stripes.
        stripes: Stripes,
    },
    /// Reports that the bearer of a grant will not write by it any more. Returns nothing.
    GiveBack {
        /// The file.
        file: FileId,
        /// The number of the grant.
        number: u64,
    },
    /// Returns the place of appended bytes and a capability, [`Appending`](super::Appending).
    Append {
        /// The file.
        file: FileId,
        /// The number of the request. One that comes again with the same number gets the same place.
        number: u64,
        /// The lowest offset that serves.
        at_least: u64,
        /// The number of bytes to append.
        len: u32,
    },
}

impl Call {
    /// The operation of the request.
    pub fn operation(&self) -> Operation {
        match self {
            Call::Getattr { .. } => Operation::Getattr,
            Call::Setattr { .. } => Operation::Setattr,
            Call::Lookup { .. } => Operation::Lookup,
            Call::Access { .. } => Operation::Access,
            Call::Readlink { .. } => Operation::Readlink,
            Call::Create { .. } => Operation::Create,
            Call::Mkdir { .. } => Operation::Mkdir,
            Call::Symlink { .. } => Operation::Symlink,
            Call::Mknod { .. } => Operation::Mknod,
            Call::Remove { .. } => Operation::Remove,
            Call::Rmdir { .. } => Operation::Rmdir,
            Call::Rename { .. } => Operation::Rename,
            Call::Link { .. } => Operation::Link,
            Call::Readdirplus { .. } => Operation::Readdirplus,
            Call::Stripes { .. } => Operation::Stripes,
            Call::Layout { .. } => Operation::Layout,
            Call::GiveBack { .. } => Operation::GiveBack,
            Call::Append { .. } => Operation::Append,
            Call::Files { .. } => Operation::Files,
            Call::Orphans { .. } => Operation::Orphans,
            Call::Copies { .. } => Operation::Copies,
            Call::StaleGroups { .. } => Operation::StaleGroups,
            Call::Managers { .. } => Operation::Managers,
            Call::CreateStriped { .. } => Operation::CreateStriped,
        }
    }

    /// The names in the request.
    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.entries().map(|entry| entry.name.as_slice())
    }

    /// The file that the request names by number, if it names one.
    pub fn file(&self) -> Option<FileId> {
        match self {
            Call::Getattr { file, .. }
            | Call::Setattr { file, .. }
            | Call::Access { file, .. }
            | Call::Readlink { file }
            | Call::Link { file, .. }
            | Call::Layout { file, .. }
            | Call::GiveBack { file, .. }
            | Call::Append { file, .. } => Some(*file),
            Call::Readdirplus { directory, .. } | Call::Stripes { directory, .. } => {
                Some(*directory)
            }
            _ => None,
        }
    }

    /// The names in the request, with their directories.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        let (one, other) = match self {
            Call::Lookup { entry, .. }
            | Call::Create { entry, .. }
            | Call::CreateStriped { entry, .. }
            | Call::Mkdir { entry, .. }
            | Call::Symlink { entry, .. }
            | Call::Mknod { entry, .. }
            | Call::Remove { entry }
            | Call::Rmdir { entry }
            | Call::Link { entry, .. } => (Some(entry), None),
            Call::Rename { from, to } => (Some(from), Some(to)),
            _ => (None, None),
        };
        one.into_iter().chain(other)
    }

    /// True if the request changes names or attributes. Then its body has a [`SlotSequence`], and the manager executes
    /// it once, however often it comes.
    pub fn is_change(&self) -> bool {
        CHANGES.contains(&self.operation())
    }

    /// True when the manager has to wait for I/O servers before it replies: to truncate objects, or to learn the time
    /// of their last write.
    pub fn waits_for_servers(&self) -> bool {
        match self {
            Call::Setattr { attributes, .. } => {
                let sets_time = matches!(attributes.modify_time, SetTimestamp::To(_));
                attributes.size.is_some() || sets_time
            }
            // A new file is empty without the help of an I/O server.
            Call::Create {
                mode: CreateMode::Guarded(attributes),
                ..
            }
            | Call::CreateStriped { attributes, .. } => {
                attributes.size.is_some_and(|size| size > 0)
            }
            _ => false,
        }
    }

    /// The body of the request, on behalf of `caller`.
    pub fn to_body(&self, caller: &Caller, slot_sequence: &SlotSequence) -> Vec<u8> {
        let mut body = Vec::new();
        let encoder = &mut Encoder::new(&mut body);
        caller.encode(encoder);
        if self.is_change() {
            slot_sequence.encode(encoder);
        }
        self.put_arguments(encoder);
        body
    }

    fn put_arguments(&self, encoder: &mut Encoder<'_>) {
        match self {
            Call::Readlink { file } => put(encoder, &[file]),
            Call::Getattr {
                file,
                wants_references,
            } => put(encoder, &[file, wants_references]),
            Call::Lookup {
                entry,
                wants_references,
            } => put(encoder, &[entry, wants_references]),
            Call::Setattr {
                file,
                attributes,
                guard,
            } => put(encoder, &[file, attributes, guard]),
            Call::Remove { entry } | Call::Rmdir { entry } => put(encoder, &[entry]),
            Call::Access { file, wanted } => put(encoder, &[file, wanted]),
            Call::Create { entry, mode } => put(encoder, &[entry, mode]),
            Call::Mkdir { entry, attributes } => put(encoder, &[entry, attributes]),
            Call::Symlink {
                entry,
                text,
                attributes,
            } => {
                entry.encode(encoder);
                encoder.opaque(text);
                attributes.encode(encoder);
            }
            Call::Mknod {
                entry,
                kind,
                attributes,
            } => put(encoder, &[entry, kind, attributes]),
            Call::Rename { from, to } => put(encoder, &[from, to]),
            Call::Link { file, entry } => put(encoder, &[file, entry]),
            Call::Readdirplus {
                directory,
                cookie,
                wants_files,
                wants_references,
            } => put(encoder, &[directory, cookie, wants_files, wants_references]),
            call => call.put_more_arguments(encoder),
        }
    }

    /// Appends the arguments of operations that NFSv3 does not have.
    fn put_more_arguments(&self, encoder: &mut Encoder<'_>) {
        match self {
            Call::Files { from } => put(encoder, &[from]),
            Call::Copies { wanted } => put(encoder, &[wanted]),
            Call::StaleGroups { accept } => put(encoder, &[accept]),
            Call::Managers { wanted } => put(encoder, &[wanted]),
            Call::Layout { file, rights } => put(encoder, &[file, rights]),
            Call::GiveBack { file, number } => put(encoder, &[file, number]),
            Call::Append {
                file,
                number,
                at_least,
                len,
            } => put(encoder, &[file, number, at_least, len]),
            Call::Stripes { directory, stripes } => put(encoder, &[directory, stripes]),
            Call::Orphans {
                server,
                remove,
                objects,
            } => {
                put(encoder, &[server, remove]);
                // At most OBJECTS_MAX.
                encoder.u32(objects.len() as u32);
                objects.iter().for_each(|object| object.encode(encoder));
            }
            Call::CreateStriped {
                entry,
                attributes,
                stripes,
            } => {
                put(encoder, &[entry, attributes]);
                // An optional value that is present.
                encoder.bool(true);
                stripes.encode(encoder);
            }
            // The other operations are NFSv3's.
            _ => {}
        }
    }

    /// Reads the body of a request.
    ///
    /// # Errors
    /// - [`XdrError::Value`]: the operation is not the manager's, or a number is outside of its type.
    /// - [`XdrError::Short`], [`XdrError::TooLong`], [`XdrError::Bool`], [`XdrError::Trailing`]: the body is malformed.
    pub fn from_body(operation: Operation, body: &[u8]) -> Result<CallRecord, XdrError> {
        let mut decoder = Decoder::new(body);
        let caller = Caller::decode(&mut decoder)?;
        let is_change = CHANGES.contains(&operation);
        let slot_sequence = if is_change {
            SlotSequence::decode(&mut decoder)?
        } else {
            SlotSequence::default()
        };
        let call = take_arguments(operation, &mut decoder)?;
        let request = if is_change && !decoder.remaining().is_empty() {
            Some(RequestId::decode(&mut decoder)?)
        } else {
            None
        };
        decoder.finish()?;
        Ok(CallRecord {
            caller,
            slot_sequence,
            call,
            request,
        })
    }
}

/// The body of a request to the manager.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallRecord {
    /// On whose behalf it is.
    pub caller: Caller,
    /// The slot and sequence of a change; zeros with a question.
    pub slot_sequence: SlotSequence,
    /// The request.
    pub call: Call,
    /// The NFS call for which a change is asked, if an NFS server asks.
    pub request: Option<RequestId>,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.operation())?;
        if let Some(file) = self.file() {
            write!(f, " file={file}")?;
        }
        for entry in self.entries() {
            write!(f, " entry={entry}")?;
        }
        self.print_details(f, &mut " ")
    }
}

/// Printers, field by field.
impl Call {
    /// Prints the arguments other than files and names.
    fn print_details(&self, f: &mut fmt::Formatter<'_>, gap: &mut &str) -> fmt::Result {
        match self {
            Call::Getattr {
                wants_references, ..
            }
            | Call::Lookup {
                wants_references, ..
            } => print_field(f, gap, "references", wants_references),
            Call::Setattr {
                attributes, guard, ..
            } => {
                print_field(f, gap, "change", attributes)?;
                print_field(f, gap, "guard", guard)
            }
            Call::Access { wanted, .. } => print_field(f, gap, "wanted", wanted),
            Call::Create { mode, .. } => print_field(f, gap, "mode", mode),
            Call::Mkdir { attributes, .. } => print_field(f, gap, "change", attributes),
            Call::Symlink {
                text, attributes, ..
            } => {
                print_field(f, gap, "text", &Quoted(text))?;
                print_field(f, gap, "change", attributes)
            }
            Call::Mknod {
                kind, attributes, ..
            } => {
                print_field(f, gap, "node", kind)?;
                print_field(f, gap, "change", attributes)
            }
            Call::Readdirplus {
                cookie,
                wants_files,
                wants_references,
                ..
            } => {
                print_field(f, gap, "cookie", cookie)?;
                print_field(f, gap, "files", wants_files)?;
                print_field(f, gap, "references", wants_references)
            }
            Call::Readlink { .. }
            | Call::Remove { .. }
            | Call::Rmdir { .. }
            | Call::Rename { .. }
            | Call::Link { .. } => Ok(()),
            call => call.print_more_details(f, gap),
        }
    }

    /// Prints the arguments of operations that NFSv3 does not have.
    fn print_more_details(&self, f: &mut fmt::Formatter<'_>, gap: &mut &str) -> fmt::Result {
        match self {
            Call::Stripes { stripes, .. } => print_field(f, gap, "stripes", stripes),
            Call::Layout { rights, .. } => {
                print_field(f, gap, "rights", &Capability::right_bits(*rights))
            }
            Call::Files { from } => print_field(f, gap, "from", from),
            Call::Copies { wanted } => print_field(f, gap, "wanted", wanted),
            Call::StaleGroups { accept } => print_field(f, gap, "accept", accept),
            Call::Managers { wanted } => print_field(f, gap, "wanted", wanted),
            Call::Orphans {
                server,
                remove,
                objects,
            } => {
                print_field(f, gap, "server", server)?;
                print_field(f, gap, "remove", remove)?;
                print_field(f, gap, "objects", &Count(objects))
            }
            Call::CreateStriped {
                attributes,
                stripes,
                ..
            } => {
                print_field(f, gap, "change", attributes)?;
                print_field(f, gap, "stripes", stripes)
            }
            Call::GiveBack { number, .. } => print_field(f, gap, "number", number),
            Call::Append {
                number,
                at_least,
                len,
                ..
            } => {
                print_field(f, gap, "number", number)?;
                print_field(f, gap, "at_least", at_least)?;
                print_field(f, gap, "len", len)
            }
            // The other operations are NFSv3's.
            _ => Ok(()),
        }
    }
}

/// Operations whose bodies have a [`SlotSequence`].
const CHANGES: [Operation; 11] = [
    Operation::Setattr,
    Operation::Create,
    Operation::Mkdir,
    Operation::Symlink,
    Operation::Mknod,
    Operation::Remove,
    Operation::Rmdir,
    Operation::Rename,
    Operation::Link,
    Operation::Stripes,
    Operation::CreateStriped,
];

/// Appends values, one after the other.
fn put(encoder: &mut Encoder<'_>, values: &[&dyn Encode]) {
    values.iter().for_each(|value| value.encode(encoder));
}

/// Takes the next value.
fn take<'a, T: Decode<'a>>(decoder: &mut Decoder<'a>) -> Result<T, XdrError> {
    T::decode(decoder)
}

fn take_arguments(operation: Operation, from: &mut Decoder<'_>) -> Result<Call, XdrError> {
    // Fields are decoded in the order in which they stand here, which is that of the message.
    Ok(match operation {
        Operation::Getattr => Call::Getattr {
            file: take(from)?,
            wants_references: take(from)?,
        },
        Operation::Setattr => Call::Setattr {
            file: take(from)?,
            attributes: take(from)?,
            guard: take(from)?,
        },
        Operation::Lookup => Call::Lookup {
            entry: take(from)?,
            wants_references: take(from)?,
        },
        Operation::Access => Call::Access {
            file: take(from)?,
            wanted: take(from)?,
        },
        Operation::Readlink => Call::Readlink { file: take(from)? },
        Operation::Create => Call::Create {
            entry: take(from)?,
            mode: take(from)?,
        },
        Operation::Mkdir => Call::Mkdir {
            entry: take(from)?,
            attributes: take(from)?,
        },
        Operation::Symlink => Call::Symlink {
            entry: take(from)?,
            text: from.opaque(SYMLINK_MAX + 1)?.to_vec(),
            attributes: take(from)?,
        },
        Operation::Mknod => Call::Mknod {
            entry: take(from)?,
            kind: take(from)?,
            attributes: take(from)?,
        },
        Operation::Remove => Call::Remove { entry: take(from)? },
        Operation::Rmdir => Call::Rmdir { entry: take(from)? },
        Operation::Rename => Call::Rename {
            from: take(from)?,
            to: take(from)?,
        },
        Operation::Link => Call::Link {
            file: take(from)?,
            entry: take(from)?,
        },
        Operation::Readdirplus => Call::Readdirplus {
            directory: take(from)?,
            cookie: take(from)?,
            wants_files: take(from)?,
            wants_references: take(from)?,
        },
        operation => return take_more_arguments(operation, from),
    })
}

/// Takes the arguments of operations that NFSv3 does not have.
fn take_more_arguments(operation: Operation, from: &mut Decoder<'_>) -> Result<Call, XdrError> {
    Ok(match operation {
        Operation::Stripes => Call::Stripes {
            directory: take(from)?,
            stripes: take(from)?,
        },
        Operation::Layout => Call::Layout {
            file: take(from)?,
            rights: take(from)?,
        },
        Operation::GiveBack => Call::GiveBack {
            file: take(from)?,
            number: take(from)?,
        },
        Operation::Append => Call::Append {
            file: take(from)?,
            number: take(from)?,
            at_least: take(from)?,
            len: take(from)?,
        },
        Operation::Files => Call::Files { from: take(from)? },
        Operation::Copies => Call::Copies {
            wanted: take(from)?,
        },
        Operation::StaleGroups => Call::StaleGroups {
            accept: take(from)?,
        },
        Operation::Managers => Call::Managers {
            wanted: take(from)?,
        },
        Operation::Orphans => {
            let (server, remove) = (take(from)?, take(from)?);
            let objects = (0..from.length(OBJECTS_MAX)?).map(|_| take(from));
            Call::Orphans {
                server,
                remove,
                objects: objects.collect::<Result<_, _>>()?,
            }
        }
        Operation::CreateStriped => Call::CreateStriped {
            entry: take(from)?,
            attributes: take(from)?,
            stripes: take::<Option<Stripes>>(from)?.ok_or(XdrError::Value)?,
        },
        _ => return Err(XdrError::Value),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn requests_print_on_a_line() {
        let entry = |name: &[u8]| Entry {
            directory: FileId(1),
            name: name.to_vec(),
        };
        let create = Call::Create {
            entry: entry(b"a\n"),
            mode: CreateMode::Exclusive([2; 8]),
        };
        assert_eq!(
            create.to_string(),
            "Create entry=1/\"a\\n\" mode=exclusive(0202020202020202)"
        );
        let rename = Call::Rename {
            from: entry(b"a"),
            to: entry(b"b"),
        };
        assert_eq!(rename.to_string(), "Rename entry=1/\"a\" entry=1/\"b\"");
        let setattr = Call::Setattr {
            file: FileId(5),
            attributes: AttributeChanges {
                size: Some(9),
                ..AttributeChanges::default()
            },
            guard: None,
        };
        assert_eq!(setattr.to_string(), "Setattr file=5 change=(size=9)");
        let orphans = Call::Orphans {
            server: 2,
            remove: true,
            objects: [7, 8].map(|file| ObjectId { group: 2, file }).to_vec(),
        };
        assert_eq!(
            orphans.to_string(),
            "Orphans server=2 remove=true objects=2"
        );
        let layout = Call::Layout {
            file: FileId(5),
            rights: 3,
        };
        assert_eq!(layout.to_string(), "Layout file=5 rights=read,write");
    }
}
