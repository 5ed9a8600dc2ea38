//! What is asked of the manager: the bodies of its operations.

use super::{
    AccessMask, AttributeChanges, Caller, CreateMode, FILE_NAME_DECODED_MAX, FileId, NodeKind,
    OBJECTS_MAX, Operation, SYMLINK_MAX, SetTimestamp, SlotSequence, Stripes, Timestamp,
};
use crate::xdr::{Decode, Decoder, Encode, Encoder, XdrError};
use alloc::vec::Vec;

/// A directory and a name in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The directory.
    pub directory: FileId,
    /// The name; a decoder lets through one byte more than is allowed.
    pub name: Vec<u8>,
}

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

/// What is asked of the manager. Most answers are [`FoundFiles`](super::FoundFiles).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    /// Gives the file, [`Referenced`](super::Referenced).
    Getattr {
        /// The file.
        file: FileId,
        /// Whether the answer tells where its attributes can be read without asking.
        wants_references: bool,
    },
    /// Gives the file.
    Setattr {
        /// The file.
        file: FileId,
        /// What to set.
        attributes: AttributeChanges,
        /// The change time that the caller believes in: with another one, nothing is set.
        guard: Option<Timestamp>,
    },
    /// Gives the file and the directory, [`Referenced`](super::Referenced).
    Lookup {
        /// The name to find.
        entry: Entry,
        /// As of [`Call::Getattr`].
        wants_references: bool,
    },
    /// Gives an [`AccessAnswer`](super::AccessAnswer).
    Access {
        /// The file.
        file: FileId,
        /// The rights that are asked about.
        wanted: AccessMask,
    },
    /// Gives the symbolic link, whose text is in its inode.
    Readlink {
        /// The symbolic link.
        file: FileId,
    },
    /// Gives the file and the directory.
    Create {
        /// The name of the file.
        entry: Entry,
        /// How a name that is there is treated.
        mode: CreateMode,
    },
    /// Gives the directory that is made and the one it is in.
    Mkdir {
        /// The name of the new directory.
        entry: Entry,
        /// Its attributes.
        attributes: AttributeChanges,
    },
    /// Gives the link and the directory.
    Symlink {
        /// The name of the link.
        entry: Entry,
        /// Its text; a decoder lets through one byte more than is allowed.
        text: Vec<u8>,
        /// Its attributes.
        attributes: AttributeChanges,
    },
    /// Gives the file and the directory.
    Mknod {
        /// The name of the file.
        entry: Entry,
        /// What to make.
        kind: NodeKind,
        /// Its attributes.
        attributes: AttributeChanges,
    },
    /// Gives the directory.
    Remove {
        /// The name to remove.
        entry: Entry,
    },
    /// Gives the directory that the removed one was in.
    Rmdir {
        /// The name to remove.
        entry: Entry,
    },
    /// Gives both directories.
    Rename {
        /// The name of before.
        from: Entry,
        /// The name of afterwards.
        to: Entry,
    },
    /// Gives the file and the directory.
    Link {
        /// The file.
        file: FileId,
        /// Its new name.
        entry: Entry,
    },
    /// Gives a [`Page`](super::Page), [`Referenced`](super::Referenced).
    Readdirplus {
        /// The directory.
        directory: FileId,
        /// The position after which the page begins; 0: the start.
        cookie: u64,
        /// Whether the page tells what the names stand for.
        wants_files: bool,
        /// As of [`Call::Getattr`].
        wants_references: bool,
    },
    /// Gives the directory: its new files are striped so, or as those of the volume.
    Stripes {
        /// The directory.
        directory: FileId,
        /// How its new files are striped; `None`: as the volume says.
        stripes: Option<Stripes>,
    },
    /// Gives what is [`Granted`](super::Granted).
    Layout {
        /// The file.
        file: FileId,
        /// The rights to its objects, as [`Capability`](super::Capability)'s bits.
        rights: u32,
    },
    /// Gives a [`FilePage`](super::FilePage) of the regular files.
    Files {
        /// The lowest number of a file in it.
        from: FileId,
    },
    /// Gives the statuses of objects ([`OrphanStatuses`](super::OrphanStatuses)).
    Orphans {
        /// The I/O server that the objects are on.
        server: u32,
        /// Whether to remove those that belong to no file.
        remove: bool,
        /// The files of the objects, at most [`OBJECTS_MAX`].
        files: Vec<FileId>,
    },
    /// Gives the file, which must not be there yet, and the directory.
    CreateStriped {
        /// The name of the file.
        entry: Entry,
        /// Its attributes.
        attributes: AttributeChanges,
        /// Its stripes.
        stripes: Stripes,
    },
    /// Gives nothing. The bearer of a grant will not write by it any more.
    GiveBack {
        /// The file.
        file: FileId,
        /// The number of the grant.
        number: u64,
    },
    /// Gives what is [`Appending`](super::Appending).
    Append {
        /// The file.
        file: FileId,
        /// Of the request: one that comes again with the same number has the same place.
        number: u64,
        /// The lowest offset that will do.
        at_least: u64,
        /// Bytes.
        len: u32,
    },
}

impl Call {
    /// The operation that asks for it.
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
            Call::CreateStriped { .. } => Operation::CreateStriped,
        }
    }

    /// The names that it is about.
    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.entries().map(|entry| entry.name.as_slice())
    }

    /// The file that it is about by its number, if there is one.
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

    /// The names that it is about, with the directories that they are in.
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

    /// Whether it changes names or attributes: it has a [`SlotSequence`] then, and is done once however often it is
    /// sent.
    pub fn is_change(&self) -> bool {
        CHANGES.contains(&self.operation())
    }

    /// It may be answered only when I/O servers have done something, or have said when they were written to last.
    pub fn waits_for_servers(&self) -> bool {
        match self {
            Call::Setattr { attributes, .. } => {
                let sets_time = matches!(attributes.modify_time, SetTimestamp::To(_));
                attributes.size.is_some() || sets_time
            }
            // A new file is empty by itself.
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

    /// The body of its request, on behalf of `caller`.
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

    /// As [`Call::put_arguments`], of operations that NFSv3 does not have.
    fn put_more_arguments(&self, encoder: &mut Encoder<'_>) {
        match self {
            Call::Files { from } => put(encoder, &[from]),
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
                files,
            } => {
                put(encoder, &[server, remove]);
                // At most OBJECTS_MAX.
                encoder.u32(files.len() as u32);
                files.iter().for_each(|file| file.encode(encoder));
            }
            Call::CreateStriped {
                entry,
                attributes,
                stripes,
            } => {
                put(encoder, &[entry, attributes]);
                // As an optional value that is there.
                encoder.bool(true);
                stripes.encode(encoder);
            }
            // The others are NFSv3's.
            _ => {}
        }
    }

    /// What the body of a request asks for, on whose behalf, and its slot and sequence if it is a change.
    ///
    /// # Errors
    /// The bytes are not such a body, or the operation is not the manager's.
    pub fn from_body(
        operation: Operation,
        body: &[u8],
    ) -> Result<(Caller, SlotSequence, Call), XdrError> {
        let mut decoder = Decoder::new(body);
        let caller = Caller::decode(&mut decoder)?;
        let slot_sequence = if CHANGES.contains(&operation) {
            SlotSequence::decode(&mut decoder)?
        } else {
            SlotSequence::default()
        };
        let call = take_arguments(operation, &mut decoder)?;
        decoder.finish()?;
        Ok((caller, slot_sequence, call))
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
    // Fields are taken in the order in which they are written here: that of the message.
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

/// As [`take_arguments`], of operations that NFSv3 does not have.
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
        Operation::Orphans => {
            let (server, remove) = (take(from)?, take(from)?);
            let files = (0..from.length(OBJECTS_MAX)?).map(|_| take(from));
            Call::Orphans {
                server,
                remove,
                files: files.collect::<Result<_, _>>()?,
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
