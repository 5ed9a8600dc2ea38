//! Changes of what a file is like; its length is among that.

use super::{VolumeFs, found_in};
use crate::calls::{Call, Entry, Found};
use crate::client::order::Part;
use crate::meta::FileId;
use gannet_vfs::{CreateMode, Credentials, SetAttributes, SetTime, Status, Time};

impl VolumeFs {
    /// Sets attributes. A size has its place among changes of the bytes, and leaves the file in doubt when nobody knows
    /// what has become of it.
    pub(super) async fn set(
        &self,
        caller: &Credentials,
        id: FileId,
        change: &SetAttributes,
        guard: Option<Time>,
    ) -> Result<Found, Status> {
        let Some(size) = change.size else {
            return self.set_at_once(caller, id, *change, guard).await;
        };
        let _place = self.place_of(&[Part::bytes(id, 0..u64::MAX)]).await?;
        // Goes before the place does.
        let cutting = self.siblings.doubts.cutting(id);
        let set = match change.modify_time {
            SetTime::To(_) => self.cut_first(caller, id, (size, change), guard).await,
            _ => self.set_at_once(caller, id, *change, guard).await,
        };
        match set {
            Err(Status::Jukebox | Status::Io | Status::Serverfault) => {}
            _ => cutting.done(),
        }
        set
    }

    /// Sets a size and then the rest: cutting a file is a write, which the modification time is to hold beyond.
    async fn cut_first(
        &self,
        caller: &Credentials,
        id: FileId,
        (size, change): (u64, &SetAttributes),
        guard: Option<Time>,
    ) -> Result<Found, Status> {
        let first = SetAttributes {
            size: Some(size),
            ..SetAttributes::default()
        };
        self.set_at_once(caller, id, first, guard).await?;
        let rest = SetAttributes {
            size: None,
            ..*change
        };
        self.set_at_once(caller, id, rest, None).await
    }

    async fn set_at_once(
        &self,
        caller: &Credentials,
        id: FileId,
        change: SetAttributes,
        guard: Option<Time>,
    ) -> Result<Found, Status> {
        let [found] = self.find(caller, Call::Setattr(id, change, guard)).await?;
        Ok(found)
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
            _ => return self.find(caller, Call::Create(entry, *mode)).await,
        };
        // Nobody here gives the name to another file meanwhile.
        let _place = self.place_of(&[Part::name(entry.0, &entry.1)]).await?;
        let deadline = self.deadline();
        loop {
            match self.open_or_cut(caller, &entry, attributes).await? {
                Some(opened) => return Ok(opened),
                // Somebody elsewhere has.
                None if self.runtime.now() < deadline => {}
                None => return Err(Status::Jukebox),
            }
        }
    }

    /// As [`VolumeFs::open`], of a name that has its place: makes the file, or cuts the one that is there; `None` if
    /// that is gone meanwhile. Only who knows which file it is that he cuts has his place among those that change its
    /// bytes.
    async fn open_or_cut(
        &self,
        caller: &Credentials,
        entry: &Entry,
        attributes: &SetAttributes,
    ) -> Result<Option<[Found; 2]>, Status> {
        let ask = async |mode| {
            let call = Call::Create(entry.clone(), mode);
            found_in(&self.ask_in_place(caller, call).await?)
        };
        match ask(CreateMode::Guarded(*attributes)).await {
            Err(Status::Exist) => {}
            made => return made.map(Some),
        }
        let size = attributes.size;
        let as_it_is = SetAttributes {
            size: None,
            ..*attributes
        };
        let [there, inside] = ask(CreateMode::Unchecked(as_it_is)).await?;
        let only_size = SetAttributes {
            size,
            ..SetAttributes::default()
        };
        match self.set(caller, there.id, &only_size, None).await {
            Ok(cut) => Ok(Some([cut, inside])),
            Err(Status::Stale) => Ok(None),
            Err(status) => Err(status),
        }
    }
}
