//! Changes of what a file is like; its length is among that.

use super::places::Turn;
use super::{VolumeFs, found_in};
use crate::client::order::Part;
use crate::client::trouble::Trouble;
use gannet_meta::gives_privileges;
use gannet_vfs::{Credentials, Status};
use gannet_wire::volume::{
    AttributeChanges, Call, CreateMode, Entry, FileId, Found, SetTimestamp, Timestamp,
};

impl VolumeFs {
    /// Sets attributes. A size has its place among changes of the bytes, and raises the file's fence when its
    /// outcome is not known.
    pub(super) async fn set(
        &self,
        caller: &Credentials,
        id: FileId,
        change: &AttributeChanges,
        guard: Option<Timestamp>,
    ) -> Result<Found, Status> {
        // Nobody here writes by a grant from before the file got set-user-ID or set-group-ID bits: only for a new one
        // does the manager take them away. The fence against grants from before is raised when this is dropped.
        let _old_grants = gives_privileges(change).then(|| self.siblings.fences.guard(id));
        if change.size.is_none() {
            let [found] = self
                .find(
                    caller,
                    Call::Setattr {
                        file: id,
                        attributes: *change,
                        guard,
                    },
                )
                .await?;
            return Ok(found);
        }
        let kept = change.size.unwrap_or(0);
        let _changing = self.references.changing(id, kept..u64::MAX);
        let parts = [Part::bytes(id, 0..u64::MAX), Part::attributes(id)];
        let mut turn = self.turn_of(&parts).await?;
        turn.fence_with(self.siblings.fences.guard(id));
        let set = async |change: AttributeChanges, guard| {
            let call = Call::Setattr {
                file: id,
                attributes: change,
                guard,
            };
            let [found] = found_in(&self.ask_in_turn(caller, call, Some(&turn)).await?)?;
            Ok(found)
        };
        let cut = match change.modify_time {
            // Cutting a file is a write, and the modification time is to outlast it: it is set again afterwards. The
            // manager gets the whole change first, so that it cuts nothing if it refuses any part.
            SetTimestamp::To(_) => match set(*change, guard).await {
                Ok(_) => set(modify_time_alone(change), None).await,
                Err(status) => Err(status),
            },
            _ => set(*change, guard).await,
        };
        if !matches!(cut, Err(Status::Jukebox | Status::Io | Status::Serverfault)) {
            turn.disarm_fence();
        }
        cut
    }

    /// Makes a regular file, or takes the one that is there, as `mode` says: it, and its directory.
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
        // Nobody here gives the name to another file meanwhile.
        let turn = self
            .turn_of(&[Part::name(entry.directory, &entry.name)])
            .await?;
        let deadline = self.deadline();
        loop {
            let opening = self.open_or_cut(caller, (&entry, &turn), attributes);
            if let Some(opened) = opening.await? {
                return Ok(opened);
            }
            // Somebody elsewhere has.
            self.pause(deadline, &Trouble::Gone).await?;
        }
    }

    /// As [`VolumeFs::open`], of a name that has its turn: makes the file, or cuts the one that is there; `None` if
    /// that is gone meanwhile. Only who knows which file it is that he cuts has his place among those that change its
    /// bytes.
    async fn open_or_cut(
        &self,
        caller: &Credentials,
        (entry, turn): (&Entry, &Turn),
        attributes: &AttributeChanges,
    ) -> Result<Option<[Found; 2]>, Status> {
        let ask = async |mode| {
            let call = Call::Create {
                entry: entry.clone(),
                mode,
            };
            found_in(&self.ask_in_turn(caller, call, Some(turn)).await?)
        };
        match ask(CreateMode::Guarded(*attributes)).await {
            Err(Status::Exist) => {}
            made => return made.map(Some),
        }
        let [there, inside] = ask(CreateMode::Unchecked(without_size(attributes))).await?;
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
