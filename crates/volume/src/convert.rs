//! Between the protocol's values and those of file systems.

pub(crate) use gannet_objects::timestamp_of;
use gannet_vfs as vfs;
use gannet_wire::volume::{
    AttributeChanges, Body, Caller, CreateMode, DeviceNumbers, FileAttributes, FileId, FileKind,
    FileState, Found, Inode, NodeKind, RequestId, SetTimestamp, Stability, Status, Timestamp,
};
use std::net::IpAddr;

/// The protocol's value for a file system's status.
pub(crate) fn status_of(status: vfs::Status) -> Status {
    // Both have NFSv3's numbers.
    Status::from_number(status as u32)
}

/// The file system's value for a peer's status.
pub(crate) fn vfs_status_of(status: Status) -> vfs::Status {
    vfs::Status::from_number(status as u32).unwrap_or(vfs::Status::Serverfault)
}

pub(crate) fn stability_of(stability: vfs::Stability) -> Stability {
    match stability {
        vfs::Stability::Unstable => Stability::Unstable,
        vfs::Stability::DataSync => Stability::DataSync,
        vfs::Stability::FileSync => Stability::FileSync,
    }
}

/// How durable a store is to make what a peer writes.
pub(crate) fn durability_of(stability: Stability) -> vfs::Stability {
    match stability {
        Stability::Unstable => vfs::Stability::Unstable,
        Stability::DataSync => vfs::Stability::DataSync,
        Stability::FileSync => vfs::Stability::FileSync,
    }
}

/// Groups beyond the sixteenth are left out.
pub(crate) fn caller_of(credentials: &vfs::Credentials) -> Caller {
    Caller::new(credentials.uid, credentials.gid, credentials.groups())
}

/// The NFS call for which a caller asks, if it is one.
pub(crate) fn request_of(credentials: &vfs::Credentials) -> Option<RequestId> {
    let (client, xid) = credentials.request()?;
    let client = match client.to_canonical() {
        IpAddr::V4(client) => client.to_ipv6_mapped(),
        IpAddr::V6(client) => client,
    };
    Some(RequestId {
        client: client.octets(),
        xid,
    })
}

pub(crate) fn time_of(time: Timestamp) -> vfs::Time {
    vfs::Time {
        seconds: time.seconds,
        nanoseconds: time.nanoseconds,
    }
}

fn set_timestamp_of(time: vfs::SetTime) -> SetTimestamp {
    match time {
        vfs::SetTime::Keep => SetTimestamp::Keep,
        vfs::SetTime::Now => SetTimestamp::Now,
        vfs::SetTime::To(time) => SetTimestamp::To(timestamp_of(time)),
    }
}

pub(crate) fn changes_of(change: &vfs::SetAttributes) -> AttributeChanges {
    AttributeChanges {
        mode: change.mode,
        uid: change.uid,
        gid: change.gid,
        size: change.size,
        access_time: set_timestamp_of(change.access_time),
        modify_time: set_timestamp_of(change.modify_time),
    }
}

pub(crate) fn create_mode_of(mode: &vfs::CreateMode) -> CreateMode {
    match mode {
        vfs::CreateMode::Unchecked(change) => CreateMode::Unchecked(changes_of(change)),
        vfs::CreateMode::Guarded(change) => CreateMode::Guarded(changes_of(change)),
        vfs::CreateMode::Exclusive(verifier) => CreateMode::Exclusive(*verifier),
    }
}

pub(crate) fn node_kind_of(kind: vfs::NodeKind) -> NodeKind {
    match kind {
        vfs::NodeKind::BlockDevice { major, minor } => {
            NodeKind::BlockDevice(DeviceNumbers { major, minor })
        }
        vfs::NodeKind::CharacterDevice { major, minor } => {
            NodeKind::CharacterDevice(DeviceNumbers { major, minor })
        }
        vfs::NodeKind::Socket => NodeKind::Socket,
        vfs::NodeKind::Fifo => NodeKind::Fifo,
    }
}

pub(crate) fn file_kind_of(kind: FileKind) -> vfs::FileKind {
    match kind {
        FileKind::Regular => vfs::FileKind::Regular,
        FileKind::Directory => vfs::FileKind::Directory,
        FileKind::BlockDevice => vfs::FileKind::BlockDevice,
        FileKind::CharacterDevice => vfs::FileKind::CharacterDevice,
        FileKind::Symlink => vfs::FileKind::Symlink,
        FileKind::Socket => vfs::FileKind::Socket,
        FileKind::Fifo => vfs::FileKind::Fifo,
    }
}

/// A file as a file system shows it. Size and blocks of a regular file are 0: its objects know them.
pub(crate) fn attributes_of(inode: &Inode, id: FileId, fsid: u64) -> vfs::Attributes {
    let (size, device) = match &inode.body {
        Body::Symlink(text) => (text.len() as u64, (0, 0)),
        Body::Directory { entries, .. } => (entries.saturating_mul(64), (0, 0)),
        Body::Regular { .. } => (0, (0, 0)),
        Body::Node(node) => {
            let DeviceNumbers { major, minor } = node.device();
            (0, (major, minor))
        }
    };
    vfs::Attributes {
        kind: file_kind_of(inode.kind()),
        mode: inode.mode,
        link_count: inode.links,
        uid: inode.uid,
        gid: inode.gid,
        size,
        used: size,
        device,
        fsid,
        fileid: id.0,
        access_time: time_of(inode.access_time),
        modify_time: time_of(inode.modify_time),
        change_time: time_of(inode.change_time),
        change_id: time_of(inode.change_time).change_id(),
    }
}

/// The attributes of a file by its inode and its objects; `None` when the part of the objects is missing.
pub(crate) fn whole_of(found: &Found, fsid: u64) -> Option<vfs::Attributes> {
    let mut whole = attributes_of(&found.inode, found.id, fsid);
    if let Body::Regular { written, .. } = &found.inode.body {
        add_state(&mut whole, *written, &found.state?);
    }
    Some(whole)
}

/// Adds the state of a regular file's objects to the attributes of its inode. `written` is the inode's value.
pub(crate) fn add_state(
    attributes: &mut vfs::Attributes,
    written: Option<Timestamp>,
    state: &FileState,
) {
    attributes.size = state.size;
    attributes.used = state.used;
    let last = time_of(state.written);
    attributes.modify_time = match written {
        Some(written) if last > time_of(written) => last,
        Some(_) => attributes.modify_time,
        None => attributes.modify_time.max(last),
    };
    attributes.change_time = attributes.change_time.max(last);
    // The manager tells changes of names and attributes apart, and the objects those of bytes.
    attributes.change_id = attributes.change_id.wrapping_add(state.version);
}

/// The attributes of a file of this kind, as a record has them.
pub(crate) fn record_of(kind: FileKind, whole: &vfs::Attributes) -> FileAttributes {
    let (major, minor) = whole.device;
    FileAttributes {
        kind,
        mode: whole.mode,
        links: whole.link_count,
        uid: whole.uid,
        gid: whole.gid,
        major,
        minor,
        size: whole.size,
        used: whole.used,
        access_time: timestamp_of(whole.access_time),
        modify_time: timestamp_of(whole.modify_time),
        change_time: timestamp_of(whole.change_time),
        change_id: whole.change_id,
    }
}

/// The attributes of a file by its record.
pub(crate) fn attributes_in(record: &FileAttributes, id: FileId, fsid: u64) -> vfs::Attributes {
    vfs::Attributes {
        kind: file_kind_of(record.kind),
        mode: record.mode,
        link_count: record.links,
        uid: record.uid,
        gid: record.gid,
        size: record.size,
        used: record.used,
        device: (record.major, record.minor),
        fsid,
        fileid: id.0,
        access_time: time_of(record.access_time),
        modify_time: time_of(record.modify_time),
        change_time: time_of(record.change_time),
        change_id: record.change_id,
    }
}
