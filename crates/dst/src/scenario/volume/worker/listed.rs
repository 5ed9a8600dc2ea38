//! Listings, compared with the model for names without a change meanwhile.

use super::mounted::status;
use super::{Mount, Worker};
use crate::scenario::volume::{NAMES, Stage};
use gannet_fuse::headless::ROOT;
use gannet_vfs::{DirectoryEntry, Entries, Verifier, Vfs};

/// Names at a time, at most.
const PORTION_MAX: usize = 10;

/// Names and how long their files are, as a listing has them; not every listing knows lengths.
type Listed = Vec<(Vec<u8>, Option<u64>)>;

/// The names that no worker used at some time, each with how often it had been taken by then.
pub(super) struct Quiet([Option<u64>; NAMES]);

impl Quiet {
    fn now(stage: &Stage) -> Quiet {
        let turns = std::array::from_fn(|name| {
            let free = !stage.taken[name].get();
            free.then(|| stage.turns[name].get())
        });
        Quiet(turns)
    }

    /// The names that no worker used from then until now.
    fn until_now(&self, stage: &Stage) -> impl Iterator<Item = usize> {
        let Quiet(now) = Quiet::now(stage);
        (0..NAMES).filter(move |name| self.0[*name].is_some() && self.0[*name] == now[*name])
    }
}

impl Worker {
    /// Lists the directory that all files are in.
    pub(super) async fn list(&self) -> Result<(), String> {
        let portion = self.seat().random.index(PORTION_MAX) + 1;
        loop {
            let quiet = Quiet::now(&self.stage);
            let listed = match &self.mount {
                Some(mount) => list_mounted(mount, portion).await,
                None => self.list_all(portion).await,
            };
            match listed {
                Ok(listed) => return self.compare_names(&quiet, &listed),
                Err(error) => self.try_later("list", error).await?,
            }
        }
    }

    /// Compares a listing with the model, for unused names alone: others may be renamed meanwhile.
    fn compare_names(&self, quiet: &Quiet, listed: &Listed) -> Result<(), String> {
        for name in quiet.until_now(&self.stage) {
            let own_name = super::name_of(name);
            let lens = listed.iter().filter(|(listed, _)| *listed == own_name);
            let lens: Vec<Option<u64>> = lens.map(|(_, len)| *len).collect();
            let len = self.content(name).map(|content| content.len() as u64);
            let right = match (&lens[..], len) {
                ([], None) | ([None], Some(_)) => true,
                ([Some(listed)], Some(len)) => *listed == len,
                _ => false,
            };
            if !right {
                return Err(format!(
                    "file {name} has {len:?} bytes, listed are {lens:?}"
                ));
            }
        }
        Ok(())
    }

    /// Lists the whole directory, by pages of at most `page_max` names.
    pub(super) async fn list_all(&self, page_max: usize) -> Result<Listed, gannet_vfs::Status> {
        let (mut all, mut cookie, mut verifier) = (Vec::new(), 0, Verifier::default());
        loop {
            let mut page = Page {
                room: page_max,
                cookie,
                listed: Vec::new(),
            };
            let (caller, directory) = (&self.caller, &self.directory);
            let read = self
                .fs
                .read_directory(caller, directory, cookie, verifier, &mut page);
            let read = read.await?;
            all.append(&mut page.listed);
            if read.eof {
                return Ok(all);
            }
            (cookie, verifier) = (page.cookie, read.verifier);
        }
    }
}

/// Lists the root of a mount as the kernel does for a program.
async fn list_mounted(mount: &Mount, portion: usize) -> Result<Listed, gannet_vfs::Status> {
    let listed = mount.list(ROOT, portion).await;
    let listed = listed.map_err(|error| status(&error))?;
    let files = listed.into_iter().map(|(name, number, len)| {
        mount.forget(number, 1);
        (name, len)
    });
    Ok(files.collect())
}

/// A page of a listing.
struct Page {
    room: usize,
    /// The position after the last name.
    cookie: u64,
    listed: Listed,
}

impl Entries for Page {
    fn wants_objects(&self) -> bool {
        // Pages of an even size ask for attributes, others do not.
        self.room.is_multiple_of(2)
    }

    fn push(&mut self, entry: &DirectoryEntry<'_>) -> bool {
        if self.listed.len() == self.room {
            return false;
        }
        let len = entry.object.map(|(_, attributes)| attributes.size);
        self.listed.push((entry.name.to_vec(), len));
        self.cookie = entry.cookie;
        true
    }
}
