//! The inventory for checks of a volume: its files, and the orphans among objects.

use super::{Manager, look};
use crate::limits::{CALL_DEADLINE, CAPABILITY_AGE, CLOCK_SKEW_MAX};
use crate::link::{Link, LinkError};
use gannet_meta::groups::Groups;
use gannet_meta::limits::NAMES_AT_A_TIME;
use gannet_meta::namespace::{self, Failure, Outcome};
use gannet_meta::orphan_check::{NameSearch, OrphanCheck, status_by_age};
use gannet_meta::{MetaStore, Table, View};
use gannet_runtime::timeout;
use gannet_wire::volume::{
    BODY_MAX, Body, Caller, Capability, Class, FileId, FileLayout, FilePage, Inode, ObjectId,
    ObjectList, ObjectRange, ObjectState, ObjectStates, Operation, OrphanStatus, OrphanStatuses,
    PAGE_FILES_MAX, ROOT, Status, Timestamp,
};
use gannet_wire::xdr::{from_bytes, to_bytes};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

impl Manager {
    /// Checks that a caller may change the volume as a whole: as root, or as the owner of its root directory.
    ///
    /// # Errors
    /// `Perm`: it may not. Others: those of the store.
    pub(super) fn may_administer(&self, caller: &Caller) -> Result<(), Status> {
        let owner = self.look(|view| namespace::inode(view, ROOT))?.uid;
        if [0, owner].contains(&caller.uid) {
            Ok(())
        } else {
            Err(Status::Perm)
        }
    }

    /// A page of the regular files from this number on.
    pub(super) async fn files(&self, from: FileId) -> Result<Vec<u8>, Status> {
        // There may be a million directories before the next file.
        let page = self.beside(move |store| files(store, from)).await?;
        Ok(to_bytes(&page))
    }

    /// The statuses of the objects of these files on an I/O server. If `remove` is set, orphans are removed. No file
    /// can come to need one meanwhile: the inode allocator gives no number again.
    pub(super) async fn orphans(
        &self,
        caller: &Caller,
        server: u32,
        remove: bool,
        names: &[ObjectId],
    ) -> Result<Vec<u8>, Status> {
        if server >= self.objects.count() {
            return Err(Status::Inval);
        }
        if remove {
            self.may_administer(caller)?;
        }
        let objects: Vec<_> = names.iter().map(|name| (server, *name)).collect();
        let groups = self.servers.groups();
        // On the blocking pool: where files are missing, all names are read, and this core serves requests.
        let before = Arc::clone(&groups);
        let known = (self.beside(move |store| known(store, &groups, &objects))).await?;
        // Asked after the metadata are read: objects that intents had removed by then are not reported as orphans.
        let remove = remove.then_some(&*before);
        let work = self.look_at_objects(names, known, server, remove);
        let done = timeout(&self.runtime, CALL_DEADLINE, work).await;
        let statuses = done.unwrap_or(Err(LinkError::Silent));
        let statuses = statuses.map_err(|error| {
            tracing::debug!(server, %error, "objects cannot be looked at");
            Status::Jukebox
        })?;
        Ok(to_bytes(&OrphanStatuses { statuses }))
    }

    /// The statuses of objects by the I/O server that has them. Orphans are removed if `remove` has the groups from
    /// before the metadata were read.
    async fn look_at_objects(
        &self,
        names: &[ObjectId],
        known: Vec<Option<OrphanStatus>>,
        server: u32,
        remove: Option<&Groups>,
    ) -> Result<Vec<OrphanStatus>, LinkError> {
        let link = Rc::clone(&self.servers).link(server).await?;
        let list = ObjectList {
            objects: names.to_vec(),
        };
        let states: ObjectStates = ask(&link, Operation::States, &to_bytes(&list)).await?;
        if states.states.len() != names.len() {
            return Err(LinkError::Undecodable);
        }
        let mut statuses = Vec::with_capacity(names.len());
        for ((name, known), state) in names.iter().zip(known).zip(states.states) {
            let now = self.runtime.wall_clock();
            statuses.push(match (known, state.known()) {
                (Some(status), _) => status,
                // No object is there; one may have been on a disk that was lost.
                (None, Err(Status::Nxio)) => OrphanStatus::Gone,
                (None, Err(status)) => return Err(LinkError::Refused(status)),
                (None, Ok(state)) => match (status_of_object(&state, now), remove) {
                    // The server has come to be a member since, and may have been given it as such.
                    (OrphanStatus::Orphan, Some(before))
                        if self.has_joined(name, server, before) =>
                    {
                        OrphanStatus::Recent
                    }
                    (OrphanStatus::Orphan, Some(_)) => {
                        self.remove_object(&link, *name, now).await?;
                        tracing::info!(%name, server, "removed an object of no file");
                        OrphanStatus::Removed
                    }
                    (status, _) => status,
                },
            });
        }
        Ok(statuses)
    }

    /// Whether a server is a member of an object's group, and was none by the groups of `before`.
    fn has_joined(&self, object: &ObjectId, server: u32, before: &Groups) -> bool {
        let groups = self.servers.groups();
        groups.is_member(object.group, server) && !before.is_member(object.group, server)
    }

    async fn remove_object(
        &self,
        link: &Link,
        name: ObjectId,
        now: Duration,
    ) -> Result<(), LinkError> {
        let expires = now + CAPABILITY_AGE + CLOCK_SKEW_MAX;
        let (term, rights) = (self.office.number(), Capability::WRITE);
        let range = ObjectRange {
            group: name.group,
            capability: self.keys.grant(term, name.file, rights, expires),
            size: 0,
        };
        let body = to_bytes(&range);
        let answer = link.call(Operation::Unlink, Class::Background, &body, &[]);
        answer.await?.header.status.map_err(LinkError::Refused)
    }
}

/// The status of the object of a file that does not exist.
fn status_of_object(state: &ObjectState, now: Duration) -> OrphanStatus {
    if state.size == 0 && state.modified == Timestamp::default() {
        return OrphanStatus::Gone;
    }
    let seconds = u64::try_from(state.modified.seconds).unwrap_or(0);
    status_by_age(Duration::from_secs(seconds), now)
}

async fn ask<T: for<'a> gannet_wire::xdr::Decode<'a>>(
    link: &Link,
    operation: Operation,
    body: &[u8],
) -> Result<T, LinkError> {
    let answer = link.call(operation, Class::Background, body, &[]).await?;
    answer.header.status.map_err(LinkError::Refused)?;
    from_bytes(answer.body()).map_err(|_| LinkError::Undecodable)
}

/// Reads [`NAMES_AT_A_TIME`] inodes in one snapshot: changes wait for that long.
fn files(store: &dyn MetaStore, from: FileId) -> Outcome<FilePage> {
    let mut page = FilePage {
        complete: true,
        files: Vec::new(),
    };
    let mut next = Some(from);
    while let Some(from) = next {
        next = look(store, |view| add_files(view, from, &mut page))?;
    }
    Ok(page)
}

/// Adds the files among the next inodes to a page: where to go on, if it has room and there may be more.
fn add_files(view: &dyn View, from: FileId, page: &mut FilePage) -> Outcome<Option<FileId>> {
    let (mut looked_at, mut next, mut damaged) = (0, None, None);
    let mut room = BODY_MAX.saturating_sub(to_bytes(page).len());
    view.scan(Table::Inodes, &from.0.to_be_bytes(), &mut |key, value| {
        let id = key.try_into().map(u64::from_be_bytes);
        let (Ok(id), Ok(inode)) = (id, from_bytes::<Inode>(value)) else {
            damaged = Some(from);
            return false;
        };
        if looked_at == NAMES_AT_A_TIME {
            next = Some(FileId(id));
            return false;
        }
        looked_at += 1;
        let Body::Regular { layout, .. } = inode.body else {
            return true;
        };
        let len = 8 + to_bytes(&layout).len();
        if page.files.len() == PAGE_FILES_MAX || len > room {
            page.complete = false;
            return false;
        }
        room -= len;
        page.files.push(FileLayout { file: id, layout });
        true
    })?;
    match damaged {
        Some(id) => Err(Failure::Damaged(id)),
        None => Ok(next),
    }
}

/// The statuses of objects on a server by metadata; `None` for objects whose files do not exist.
fn known(
    store: &dyn MetaStore,
    groups: &Groups,
    objects: &[(u32, ObjectId)],
) -> Outcome<Vec<Option<OrphanStatus>>> {
    let told = look(store, |view| {
        Ok(OrphanCheck::new(view, groups)?.by_inodes(view, objects))
    })?;
    let mut names = NameSearch::new(objects, &told);
    while look(store, |view| names.step(view))? {}
    names.finish(objects, told).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gannet_meta::MemoryStore;
    use gannet_meta::limits::ORPHAN_AGE_MIN;
    use gannet_wire::volume::LayoutRecord;

    #[test]
    fn a_missing_object_is_gone_and_others_are_orphans_by_age() {
        let now = Duration::from_secs(1_800_000_000);
        let long_ago = now.as_secs() - ORPHAN_AGE_MIN.as_secs();
        let state = |size, seconds: u64| ObjectState {
            size,
            used: 0,
            modified: Timestamp::since_epoch(Duration::from_secs(seconds)),
            version: seconds,
            verifier: 1,
        };
        for (state, expected) in [
            (state(0, 0), OrphanStatus::Gone),
            (state(0, long_ago), OrphanStatus::Orphan),
            (state(1, long_ago), OrphanStatus::Orphan),
            (state(1, long_ago + 1), OrphanStatus::Recent),
        ] {
            assert_eq!(status_of_object(&state, now), expected);
        }
    }

    /// Directories, and a file behind every 5000 of them.
    fn many_directories(store: &MemoryStore, count: u64) {
        let body = |number| match number % 5000 {
            0 => Body::Regular {
                layout: LayoutRecord {
                    unit: 4096,
                    groups: vec![0],
                },
                verifier: Default::default(),
                written: None,
                settled: None,
            },
            _ => Body::Directory {
                parent: ROOT,
                entries: 0,
                next_cookie: 3,
                stripes: None,
            },
        };
        let inode = |number| Inode {
            mode: 0o700,
            uid: 0,
            gid: 0,
            links: 2,
            access_time: Timestamp::default(),
            modify_time: Timestamp::default(),
            change_time: Timestamp::default(),
            body: body(number),
        };
        let made = store.commit(&mut |transaction| {
            (1..=count).try_for_each(|number| {
                let (key, value) = (number.to_be_bytes(), to_bytes(&inode(number)));
                transaction.put(Table::Inodes, &key, &value)
            })
        });
        made.unwrap();
    }

    #[test]
    fn directories_before_the_next_file_are_passed_by_in_steps() {
        let store = MemoryStore::default();
        many_directories(&store, 12_000);
        let found = |from| -> Vec<u64> {
            let page = files(&store, FileId(from)).unwrap();
            assert!(page.complete);
            page.files.iter().map(|it| it.file).collect()
        };
        assert_eq!(found(1), [5000, 10_000]);
        assert_eq!(found(5001), [10_000]);
        assert_eq!(found(10_001), []);
        let mut page = FilePage {
            complete: true,
            files: Vec::new(),
        };
        let next = look(&store, |view| add_files(view, FileId(1), &mut page)).unwrap();
        assert_eq!(next, Some(FileId(1 + NAMES_AT_A_TIME as u64)));
    }
}
