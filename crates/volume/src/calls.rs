//! What is asked of the manager, and what it answers: the bodies of its operations.

mod answers;

pub(crate) use answers::put_found;
pub use answers::{
    Appending, FileState, Found, Granted, Listed, PAGE_ENTRIES_MAX, Page, Ticket, parse_access,
    parse_found, parse_link,
};

use crate::meta::{FileId, Stripes, put_stripes, take_stripes};
use gannet_vfs::limits::SYMLINK_MAX;
use gannet_vfs::{AccessMask, CreateMode, Credentials, NodeKind, SetAttributes, SetTime, Time};
use gannet_wire::volume::{Caller, OBJECTS_MAX, Operation};
use gannet_wire::xdr::{Decode, Decoder, Encode, Encoder, XdrError};

/// Longest name that a decoder lets through: one byte more than is allowed, so that the right error can be given.
const NAME_MAX: usize = gannet_vfs::limits::NAME_MAX + 1;

/// A directory and a name in it.
pub type Entry = (FileId, Vec<u8>);

/// What is asked of the manager. Most answers are lists of [`Found`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    /// Gives the file.
    Getattr(FileId),
    /// Gives the file; the time is the change time that the caller believes in.
    Setattr(FileId, SetAttributes, Option<Time>),
    /// Gives the file and the directory.
    Lookup(Entry),
    /// Gives the rights granted, and the file.
    Access(FileId, AccessMask),
    /// Gives the text, and the file.
    Readlink(FileId),
    /// Gives the file and the directory.
    Create(Entry, CreateMode),
    /// Gives the file and the directory.
    Mkdir(Entry, SetAttributes),
    /// Gives the file and the directory.
    Symlink(Entry, Vec<u8>, SetAttributes),
    /// Gives the file and the directory.
    Mknod(Entry, NodeKind, SetAttributes),
    /// Gives the directory.
    Remove(Entry),
    /// Gives the directory.
    Rmdir(Entry),
    /// Gives both directories.
    Rename(Entry, Entry),
    /// Gives the file and the directory.
    Link(FileId, Entry),
    /// Gives a [`Page`] of what comes after the cookie, with what the names stand for if that is asked for.
    Readdirplus(FileId, u64, bool),
    /// Gives the directory: its new files are striped so, or as those of the volume.
    Stripes(FileId, Option<Stripes>),
    /// Gives what is [`Granted`]: these rights to a file's objects.
    Layout(FileId, u32),
    /// Gives a page ([`gannet_wire::volume::FilePage`]) of the regular files with this number and above.
    Files(FileId),
    /// Gives how the objects of these files on an I/O server stand ([`gannet_wire::volume::Standings`]); those that
    /// belong to no file are removed if that is asked for.
    Orphans(u32, bool, Vec<FileId>),
    /// Gives the file, which must not be there yet, and the directory. The file has these stripes.
    CreateStriped(Entry, SetAttributes, Stripes),
    /// Gives nothing. The bearer of this grant of a file will not write by it any more.
    GiveBack(FileId, u64),
    /// Gives what is [`Appending`]: the file, a number of the request, the lowest offset that will do, how many bytes.
    Append(FileId, u64, u64, u32),
}

impl Call {
    /// The operation that asks for it.
    pub fn operation(&self) -> Operation {
        match self {
            Call::Getattr(_) => Operation::Getattr,
            Call::Setattr(..) => Operation::Setattr,
            Call::Lookup(_) => Operation::Lookup,
            Call::Access(..) => Operation::Access,
            Call::Readlink(_) => Operation::Readlink,
            Call::Create(..) => Operation::Create,
            Call::Mkdir(..) => Operation::Mkdir,
            Call::Symlink(..) => Operation::Symlink,
            Call::Mknod(..) => Operation::Mknod,
            Call::Remove(_) => Operation::Remove,
            Call::Rmdir(_) => Operation::Rmdir,
            Call::Rename(..) => Operation::Rename,
            Call::Link(..) => Operation::Link,
            Call::Readdirplus(..) => Operation::Readdirplus,
            Call::Stripes(..) => Operation::Stripes,
            Call::Layout(..) => Operation::Layout,
            Call::GiveBack(..) => Operation::GiveBack,
            Call::Append(..) => Operation::Append,
            Call::Files(_) => Operation::Files,
            Call::Orphans(..) => Operation::Orphans,
            Call::CreateStriped(..) => Operation::CreateStriped,
        }
    }

    /// The names that it is about.
    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        let (one, other) = match self {
            Call::Lookup(entry)
            | Call::Create(entry, _)
            | Call::CreateStriped(entry, ..)
            | Call::Mkdir(entry, _)
            | Call::Symlink(entry, ..)
            | Call::Mknod(entry, ..)
            | Call::Remove(entry)
            | Call::Rmdir(entry)
            | Call::Link(_, entry) => (Some(entry), None),
            Call::Rename(from, to) => (Some(from), Some(to)),
            _ => (None, None),
        };
        let entries = one.into_iter().chain(other);
        entries.map(|(_, name)| name.as_slice())
    }

    /// Whether it changes names or attributes: it has a [`Ticket`] then, and is done once however often it is sent.
    pub fn is_change(&self) -> bool {
        CHANGES.contains(&self.operation())
    }

    /// It may be answered only when I/O servers have done something, or have said when they were written to last.
    pub fn waits_for_servers(&self) -> bool {
        match self {
            Call::Setattr(_, change, _) => {
                change.size.is_some() || matches!(change.modify_time, SetTime::To(_))
            }
            // A new file is empty by itself.
            Call::Create(_, CreateMode::Guarded(change)) | Call::CreateStriped(_, change, _) => {
                change.size.is_some_and(|size| size > 0)
            }
            _ => false,
        }
    }

    /// The body of its request, on behalf of `caller`.
    pub fn to_body(&self, caller: &Credentials, ticket: &Ticket) -> Vec<u8> {
        let mut body = Vec::new();
        let out = &mut Encoder::new(&mut body);
        Caller::new(caller.uid, caller.gid, caller.groups()).encode(out);
        if self.is_change() {
            ticket.encode(out);
        }
        match self {
            Call::Getattr(file) | Call::Readlink(file) | Call::Files(file) => out.u64(file.0),
            Call::Setattr(file, change, guard) => {
                out.u64(file.0);
                put_change(out, change);
                out.bool(guard.is_some());
                guard.iter().for_each(|time| put_time(out, *time));
            }
            Call::Lookup(entry) | Call::Remove(entry) | Call::Rmdir(entry) => put_entry(out, entry),
            Call::Access(file, AccessMask(rights)) | Call::Layout(file, rights) => {
                out.u64(file.0);
                out.u32(*rights);
            }
            Call::Create(entry, mode) => {
                put_entry(out, entry);
                put_mode(out, mode);
            }
            Call::Mkdir(entry, change) => {
                put_entry(out, entry);
                put_change(out, change);
            }
            Call::Symlink(entry, target, change) => put_symlink(out, entry, target, change),
            Call::Mknod(entry, kind, change) => {
                put_entry(out, entry);
                put_node(out, *kind);
                put_change(out, change);
            }
            Call::Rename(from, to) => {
                put_entry(out, from);
                put_entry(out, to);
            }
            Call::Link(file, entry) => {
                out.u64(file.0);
                put_entry(out, entry);
            }
            Call::Readdirplus(directory, cookie, found) => {
                out.u64(directory.0);
                out.u64(*cookie);
                out.bool(*found);
            }
            Call::GiveBack(file, number) => {
                out.u64(file.0);
                out.u64(*number);
            }
            Call::Append(file, number, at_least, len) => {
                [file.0, *number, *at_least]
                    .iter()
                    .for_each(|word| out.u64(*word));
                out.u32(*len);
            }
            Call::Stripes(directory, stripes) => {
                out.u64(directory.0);
                put_stripes(out, stripes.as_ref());
            }
            Call::Orphans(server, remove, files) => put_orphans(out, (*server, *remove), files),
            Call::CreateStriped(entry, change, stripes) => {
                put_entry(out, entry);
                put_change(out, change);
                put_stripes(out, Some(stripes));
            }
        }
        body
    }

    /// What the body of a request asks for, on whose behalf, and its ticket if it is a change.
    ///
    /// # Errors
    /// The bytes are not such a body, or the operation is not the manager's.
    pub fn from_body(
        operation: Operation,
        body: &[u8],
    ) -> Result<(Credentials, Ticket, Call), XdrError> {
        let mut decoder = Decoder::new(body);
        let caller = Caller::decode(&mut decoder)?;
        let ticket = match CHANGES.contains(&operation) {
            true => Ticket::decode(&mut decoder)?,
            false => Ticket::default(),
        };
        let call = take_call(operation, &mut decoder)?;
        decoder.finish()?;
        let caller = Credentials::new(caller.uid, caller.gid, caller.groups());
        Ok((caller, ticket, call))
    }
}

/// Operations whose bodies have a [`Ticket`].
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

fn take_call(operation: Operation, from: &mut Decoder<'_>) -> Result<Call, XdrError> {
    Ok(match operation {
        Operation::Getattr => Call::Getattr(take_file(from)?),
        Operation::Setattr => {
            let (file, change) = (take_file(from)?, take_change(from)?);
            let guard = match from.bool()? {
                true => Some(take_time(from)?),
                false => None,
            };
            Call::Setattr(file, change, guard)
        }
        Operation::Lookup => Call::Lookup(take_entry(from)?),
        Operation::Access => Call::Access(take_file(from)?, AccessMask(from.u32()?)),
        Operation::Readlink => Call::Readlink(take_file(from)?),
        Operation::Create => Call::Create(take_entry(from)?, take_mode(from)?),
        Operation::Mkdir => Call::Mkdir(take_entry(from)?, take_change(from)?),
        Operation::Symlink => {
            let entry = take_entry(from)?;
            let target = from.opaque(SYMLINK_MAX + 1)?.to_vec();
            Call::Symlink(entry, target, take_change(from)?)
        }
        Operation::Mknod => Call::Mknod(take_entry(from)?, take_node(from)?, take_change(from)?),
        Operation::Remove => Call::Remove(take_entry(from)?),
        Operation::Rmdir => Call::Rmdir(take_entry(from)?),
        Operation::Rename => Call::Rename(take_entry(from)?, take_entry(from)?),
        Operation::Link => Call::Link(take_file(from)?, take_entry(from)?),
        Operation::Readdirplus => Call::Readdirplus(take_file(from)?, from.u64()?, from.bool()?),
        Operation::Stripes => Call::Stripes(take_file(from)?, take_stripes(from)?),
        Operation::Layout => Call::Layout(take_file(from)?, from.u32()?),
        Operation::GiveBack => Call::GiveBack(take_file(from)?, from.u64()?),
        Operation::Append => {
            let (file, number) = (take_file(from)?, from.u64()?);
            Call::Append(file, number, from.u64()?, from.u32()?)
        }
        Operation::Files => Call::Files(take_file(from)?),
        Operation::Orphans => {
            let (server, remove) = (from.u32()?, from.bool()?);
            let files = (0..from.length(OBJECTS_MAX)?).map(|_| take_file(from));
            Call::Orphans(server, remove, files.collect::<Result<_, _>>()?)
        }
        Operation::CreateStriped => {
            let (entry, change) = (take_entry(from)?, take_change(from)?);
            let stripes = take_stripes(from)?.ok_or(XdrError::Value)?;
            Call::CreateStriped(entry, change, stripes)
        }
        _ => return Err(XdrError::Value),
    })
}

fn put_orphans(out: &mut Encoder<'_>, (server, remove): (u32, bool), files: &[FileId]) {
    out.u32(server);
    out.bool(remove);
    // At most OBJECTS_MAX.
    out.u32(files.len() as u32);
    files.iter().for_each(|file| out.u64(file.0));
}

fn put_symlink(out: &mut Encoder<'_>, entry: &Entry, target: &[u8], change: &SetAttributes) {
    put_entry(out, entry);
    out.opaque(target);
    put_change(out, change);
}

fn take_file(from: &mut Decoder<'_>) -> Result<FileId, XdrError> {
    from.u64().map(FileId)
}

fn put_entry(out: &mut Encoder<'_>, (directory, name): &Entry) {
    out.u64(directory.0);
    out.opaque(name);
}

fn take_entry(from: &mut Decoder<'_>) -> Result<Entry, XdrError> {
    Ok((take_file(from)?, from.opaque(NAME_MAX)?.to_vec()))
}

pub(crate) fn put_time(out: &mut Encoder<'_>, time: Time) {
    out.u32(time.seconds);
    out.u32(time.nanoseconds);
}

pub(crate) fn take_time(from: &mut Decoder<'_>) -> Result<Time, XdrError> {
    Ok(Time {
        seconds: from.u32()?,
        nanoseconds: from.u32()?,
    })
}

fn put_set_time(out: &mut Encoder<'_>, time: SetTime) {
    match time {
        SetTime::Keep => out.u32(0),
        SetTime::Now => out.u32(1),
        SetTime::To(time) => {
            out.u32(2);
            put_time(out, time);
        }
    }
}

fn take_set_time(from: &mut Decoder<'_>) -> Result<SetTime, XdrError> {
    Ok(match from.u32()? {
        0 => SetTime::Keep,
        1 => SetTime::Now,
        2 => SetTime::To(take_time(from)?),
        _ => return Err(XdrError::Value),
    })
}

fn put_change(out: &mut Encoder<'_>, change: &SetAttributes) {
    for word in [change.mode, change.uid, change.gid] {
        out.bool(word.is_some());
        word.iter().for_each(|word| out.u32(*word));
    }
    out.bool(change.size.is_some());
    change.size.iter().for_each(|size| out.u64(*size));
    put_set_time(out, change.access_time);
    put_set_time(out, change.modify_time);
}

fn take_change(from: &mut Decoder<'_>) -> Result<SetAttributes, XdrError> {
    let mut word = || match from.bool()? {
        true => from.u32().map(Some),
        false => Ok(None),
    };
    let (mode, uid, gid) = (word()?, word()?, word()?);
    let size = match from.bool()? {
        true => Some(from.u64()?),
        false => None,
    };
    Ok(SetAttributes {
        mode,
        uid,
        gid,
        size,
        access_time: take_set_time(from)?,
        modify_time: take_set_time(from)?,
    })
}

fn put_mode(out: &mut Encoder<'_>, mode: &CreateMode) {
    match mode {
        CreateMode::Unchecked(change) => {
            out.u32(0);
            put_change(out, change);
        }
        CreateMode::Guarded(change) => {
            out.u32(1);
            put_change(out, change);
        }
        CreateMode::Exclusive(verifier) => {
            out.u32(2);
            out.fixed(verifier);
        }
    }
}

fn take_mode(from: &mut Decoder<'_>) -> Result<CreateMode, XdrError> {
    Ok(match from.u32()? {
        0 => CreateMode::Unchecked(take_change(from)?),
        1 => CreateMode::Guarded(take_change(from)?),
        2 => CreateMode::Exclusive(*from.fixed()?),
        _ => return Err(XdrError::Value),
    })
}

fn put_node(out: &mut Encoder<'_>, kind: NodeKind) {
    let (kind, major, minor) = match kind {
        NodeKind::BlockDevice(major, minor) => (3, major, minor),
        NodeKind::CharacterDevice(major, minor) => (4, major, minor),
        NodeKind::Socket => (6, 0, 0),
        NodeKind::Fifo => (7, 0, 0),
    };
    [kind, major, minor].iter().for_each(|word| out.u32(*word));
}

fn take_node(from: &mut Decoder<'_>) -> Result<NodeKind, XdrError> {
    let (kind, major, minor) = (from.u32()?, from.u32()?, from.u32()?);
    Ok(match kind {
        3 => NodeKind::BlockDevice(major, minor),
        4 => NodeKind::CharacterDevice(major, minor),
        6 => NodeKind::Socket,
        7 => NodeKind::Fifo,
        _ => return Err(XdrError::Value),
    })
}

/// The body of an answer.
pub(crate) fn encode(value: &impl Encode) -> Vec<u8> {
    let mut body = Vec::new();
    value.encode(&mut Encoder::new(&mut body));
    body
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meta::Chosen;
    use gannet_wire::volume::Capability;

    #[test]
    fn calls_come_back_as_they_went_in() {
        let entry = || (FileId(7), b"name".to_vec());
        let change = SetAttributes {
            mode: Some(0o640),
            uid: None,
            gid: Some(5),
            size: Some(1 << 40),
            access_time: SetTime::Now,
            modify_time: SetTime::To(Time {
                seconds: 1,
                nanoseconds: 2,
            }),
        };
        let time = |seconds| Time {
            seconds,
            nanoseconds: 8,
        };
        let calls = [
            Call::Getattr(FileId(1)),
            Call::Setattr(FileId(1), change, Some(time(7))),
            Call::Setattr(FileId(1), SetAttributes::default(), None),
            Call::Lookup(entry()),
            Call::Access(FileId(1), AccessMask(0x3f)),
            Call::Readlink(FileId(1)),
            Call::Create(entry(), CreateMode::Unchecked(SetAttributes::default())),
            Call::Create(entry(), CreateMode::Guarded(change)),
            Call::Create(entry(), CreateMode::Exclusive(*b"verifier")),
            Call::Mkdir(entry(), change),
            Call::Symlink(entry(), b"to".to_vec(), change),
            Call::Mknod(entry(), NodeKind::BlockDevice(8, 1), change),
            Call::Mknod(entry(), NodeKind::CharacterDevice(8, 1), change),
            Call::Mknod(entry(), NodeKind::Socket, change),
            Call::Mknod(entry(), NodeKind::Fifo, change),
            Call::Remove(entry()),
            Call::Rmdir(entry()),
            Call::Rename(entry(), entry()),
            Call::Link(FileId(1), entry()),
            Call::Readdirplus(FileId(1), 9, true),
            Call::Layout(FileId(1), Capability::READ),
            Call::Stripes(FileId(1), None),
            Call::Stripes(
                FileId(1),
                Some(Stripes {
                    unit: 4096,
                    on: Chosen::From { first: 1, width: 2 },
                }),
            ),
            Call::GiveBack(FileId(1), 9),
            Call::Append(FileId(1), 2, 3, 4),
            Call::Files(FileId(2)),
            Call::Orphans(3, true, vec![FileId(4), FileId(5)]),
            Call::CreateStriped(
                entry(),
                change,
                Stripes {
                    unit: 4096,
                    on: Chosen::Listed(vec![2, 0]),
                },
            ),
        ];
        let caller = Credentials::new(1, 2, &[3, 4]);
        let ticket = Ticket {
            client: [7; 16],
            slot: 3,
            sequence: 1 << 40,
        };
        for call in calls {
            let body = call.to_body(&caller, &ticket);
            let back = Call::from_body(call.operation(), &body);
            let ticket = match call.is_change() {
                true => ticket,
                false => Ticket::default(),
            };
            assert_eq!(back, Ok((caller.clone(), ticket, call.clone())));
            for len in 0..body.len() {
                assert!(Call::from_body(call.operation(), &body[..len]).is_err());
            }
        }
    }
}
