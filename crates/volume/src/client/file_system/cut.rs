//! Changes of attributes, and truncations.

use super::guards::ChangeGuard;
use super::{VolumeFs, found_in};
use crate::client::change_locks::LockRange;
use crate::client::error::OperationError;
use gannet_meta::gives_privileges;
use gannet_vfs::{Credentials, Status};
use gannet_wire::volume::{
    AttributeChanges, Call, CreateMode, Entry, FileId, Found, SetTimestamp, Timestamp,
};

impl VolumeFs {
    /// Sets attributes. A size locks all bytes of the file, and raises the file's fence when its
    /// outcome is not known.
    pub(super) async fn set(
        &self,
        caller: &Credentials,
        id: FileId,
        change: &AttributeChanges,
        change_time: Option<Timestamp>,
    ) -> Result<Found, Status> {
        // This client must not write by a grant from before the file got set-user-ID or set-group-ID bits: the manager
        // clears them only when it gives a new one. The fence against grants from before is raised when this is
        // dropped.
        let _old_grants = gives_privileges(change).then(|| self.siblings.fences.guard(id));
        if change.size.is_none() {
            let [found] = self
                .find(
                    caller,
                    Call::Setattr {
                        file: id,
                        attributes: *change,
                        guard: change_time,
                    },
                )
                .await?;
            return Ok(found);
        }
        let kept = change.size.unwrap_or(0);
        let _changing = self.references.changing(id, kept..u64::MAX);
        let ranges = [LockRange::bytes(id, 0..u64::MAX), LockRange::attributes(id)];
        let mut guard = self.lock_ranges(&ranges).await?;
        guard.fence_with(self.siblings.fences.guard(id));
        let set = async |caller: &Credentials, change: AttributeChanges, change_time| {
            let call = Call::Setattr {
                file: id,
                attributes: change,
                guard: change_time,
            };
            let [found] = found_in(&self.ask_guarded(caller, call, Some(&guard)).await?)?;
            Ok(found)
        };
        let cut = match change.modify_time {
            // A truncation is a write, which sets the modification time: so that is set again afterwards. The manager
            // gets the whole change first, so that it cuts nothing if it refuses any part.
            // The manager knows the NFS call by the first, which must not cut again.
            SetTimestamp::To(_) => match set(caller, *change, change_time).await {
                Ok(_) => set(&caller.clone().again(), modify_time_alone(change), None).await,
                Err(status) => Err(status),
            },
            _ => set(caller, *change, change_time).await,
        };
        if !matches!(cut, Err(Status::Jukebox | Status::Io | Status::Serverfault)) {
            guard.disarm_fence();
        }
        cut
    }

    /// Makes a regular file, or opens the one that is there, as `mode` says; gives it and its directory.
    pub(super) async fn open(
        &self,
        caller: &Credentials,
        entry: Entry,
        mode: &CreateMode,
    ) -> Result<[Found; 2], Status> {
        let attributes = match mode {
            CreateMode::Unchecked(attributes) if attributes.size.is_some() => attributes,
            _ => return self.find(caller, Call::Create { entry, mode: *mode }).await,
        };
        // With the name locked, this client does not give it to another file meanwhile.
        let guard = self
            .lock_ranges(&[LockRange::name(entry.directory, &entry.name)])
            .await?;
        let (began, mut caller) = (self.now(), caller.clone());
        loop {
            let opening = self.open_or_cut(&caller, &entry, &guard, attributes);
            if let Some(opened) = opening.await? {
                return Ok(opened);
            }
            // Another client has given the name to another file, and the manager must not answer as for the first.
            caller = caller.again();
            self.pause(began, &OperationError::Gone).await?;
        }
    }

    /// As [`VolumeFs::open`], of a name that is locked: makes the file, or cuts the one that is there; `None` if that
    /// is gone meanwhile. The bytes are locked once it is known which file is cut.
    async fn open_or_cut(
        &self,
        caller: &Credentials,
        entry: &Entry,
        guard: &ChangeGuard,
        attributes: &AttributeChanges,
    ) -> Result<Option<[Found; 2]>, Status> {
        let ask = async |caller: &Credentials, mode| {
            let call = Call::Create {
                entry: entry.clone(),
                mode,
            };
            found_in(&self.ask_guarded(caller, call, Some(guard)).await?)
        };
        match ask(caller, CreateMode::Guarded(*attributes)).await {
            Err(Status::Exist) => {}
            made => return made.map(Some),
        }
        // The manager knows the NFS call by what makes the file or cuts it. This may be done as often as it comes.
        let opened = CreateMode::Unchecked(without_size(attributes));
        let [there, inside] = ask(&caller.clone().again(), opened).await?;
        let size = size_alone(attributes);
        match self.set(caller, there.id, &size, None).await {
            Ok(cut) => Ok(Some([cut, inside])),
            Err(Status::Stale) => Ok(None),
            Err(status) => Err(status),
        }
    }
}

fn size_alone(change: &AttributeChanges) -> AttributeChanges {
    AttributeChanges {
        size: change.size,
        ..AttributeChanges::default()
    }
}

fn modify_time_alone(change: &AttributeChanges) -> AttributeChanges {
    AttributeChanges {
        modify_time: change.modify_time,
        ..AttributeChanges::default()
    }
}

fn without_size(change: &AttributeChanges) -> AttributeChanges {
    AttributeChanges {
        size: None,
        ..*change
    }
}
