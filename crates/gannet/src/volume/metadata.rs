//! The metadata of a volume, which one process at a time may have.

use super::create::random;
use super::description::JournalDescription;
use super::engine::engine_of;
use super::{METADATA_CACHE, Volume, VolumeError};
use gannet_meta::{
    EngineError, EngineJournalError, FollowerNote, JournaledStore, ManagerName, MetaStore,
    RowWatch, Sight, Standby, StoreCopy, StoreError,
};
use gannet_volume::host::{self, ServersCountError};
use gannet_wire::volume::{MetadataPage, MetadataRequest};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How often a manager that stands by looks at the journal.
const FOLLOW_EVERY: Duration = Duration::from_millis(250);
/// How often it says that it stands by.
const SAY_EVERY: Duration = Duration::from_secs(1);
/// How long a command waits for an engine that does not answer.
const COMMAND_PATIENCE: Duration = Duration::from_secs(30);

/// Takes pages of the active manager's metadata, and says what to ask for next.
pub(super) type TakePage<'a> =
    dyn FnMut(MetadataPage) -> Result<MetadataRequest, StoreError> + Send + 'a;

/// Copies the metadata of the active manager.
pub(super) type CopyMetadata<'a> = dyn Fn(&mut TakePage<'_>) -> Result<(), VolumeError> + 'a;

/// Hears that a manager stands by for the one with this name.
pub type StandingBy = fn(&str);

/// How a manager stands by.
pub(super) struct StandBy<'a> {
    /// Its name, for the others.
    pub(super) name: String,
    pub(super) standing_by: Option<StandingBy>,
    /// An engine that lost the journal gets it anew from the metadata here.
    pub(super) force: bool,
    pub(super) copy: &'a CopyMetadata<'a>,
}

/// The store of a volume's names, locked against others.
///
/// # Errors
/// `ServedElsewhere`: another process has it, or another manager is active. `NoMetadata`: another host has it.
/// `Metadata`: it cannot be opened.
pub fn open_metadata(volume: &Volume) -> Result<JournaledStore, VolumeError> {
    match &volume.description.journal {
        None => {
            let (path, identity) = (metadata_file(volume)?, volume.description.identity);
            let opened = JournaledStore::open(&path, METADATA_CACHE, identity);
            opened.map_err(unusable)
        }
        Some(journal) => {
            let mut turn = Turn::new(volume, journal, "a command")?;
            turn.standby.be_silent();
            loop {
                let look = turn.look()?;
                if look.is_none() && turn.began.elapsed() >= COMMAND_PATIENCE {
                    return Err(VolumeError::EngineAway);
                }
                if look != Some(Sight::Free) {
                    if turn.watch.was_heard() {
                        return Err(VolumeError::ServedElsewhere);
                    }
                    std::thread::sleep(FOLLOW_EVERY);
                    continue;
                }
                match turn.take_over()? {
                    Ok(store) => return Ok(store),
                    Err(_) => return Err(VolumeError::ServedElsewhere),
                }
            }
        }
    }
}

/// The store of a volume's names, for its manager `name`. Where the journal is in an engine and another manager is
/// active, this one stands by until the other one is gone, and gets its changes meanwhile. One without metadata begins
/// with a copy of those of the active one.
///
/// # Errors
/// As [`open_metadata`]; `Copy`: the active one refuses to be copied.
pub(super) fn stand_by(volume: &Volume, how: &StandBy<'_>) -> Result<JournaledStore, VolumeError> {
    let Some(journal) = &volume.description.journal else {
        return open_metadata(volume);
    };
    let StandBy {
        name, standing_by, ..
    } = how;
    let mut has_complained = false;
    while !volume.metadata().exists() {
        standing_by.inspect(|say| say("a manager that has the metadata"));
        match copy_of_active(volume, journal, how) {
            Ok(()) => {}
            Err(VolumeError::Copy(error)) if !error.is_refusal() => {
                if !std::mem::replace(&mut has_complained, true) {
                    tracing::warn!(%error, "waiting for an active manager, to copy its metadata");
                }
            }
            Err(error) => return Err(error),
        }
        std::thread::sleep(SAY_EVERY);
    }
    let (mut active, mut said) = (None, None::<Instant>);
    loop {
        let mut turn = Turn::new(volume, journal, name)?;
        if how.force {
            turn.standby.force();
        }
        loop {
            let look = turn.look()?;
            if turn.watch.is_renewed() {
                // It could take over at any later time, and would give up what the active one did until then.
                if how.force {
                    return Err(VolumeError::ForcedBeside);
                }
                if look.as_ref() == Some(&Sight::Active(name.clone())) {
                    return Err(VolumeError::ManagerNames(name.clone()));
                }
            }
            if let Some(Sight::Active(name)) = &look
                && active.as_ref() != Some(name)
            {
                tracing::info!(active = name, "the manager stands by");
                active = Some(name.clone());
            }
            let is_due = said.is_none_or(|said| said.elapsed() >= SAY_EVERY);
            let is_free = look == Some(Sight::Free);
            if let (Some(say), true) = (standing_by, is_due && !is_free) {
                say(active.as_deref().unwrap_or("the engine of the journal"));
                said = Some(Instant::now());
            }
            if is_free {
                break;
            }
            std::thread::sleep(FOLLOW_EVERY);
        }
        match turn.take_over()? {
            Ok(store) => {
                tracing::info!("the manager has the journal");
                return Ok(store);
            }
            Err(why) => tracing::info!(%why, "another manager was faster"),
        }
    }
}

/// Makes a copy of the active manager's metadata.
fn copy_of_active(
    volume: &Volume,
    journal: &JournalDescription,
    how: &StandBy<'_>,
) -> Result<(), VolumeError> {
    tracing::info!("copying the metadata of the active manager");
    let mut engine = engine_of(volume, journal).map_err(unusable)?;
    let made = StoreCopy::begin(&volume.metadata(), METADATA_CACHE);
    let (mut made, mut first) = (made.map_err(unusable)?, None);
    let (mut said, say) = (Instant::now(), how.standing_by);
    let name = &how.name;
    (how.copy)(&mut |page: MetadataPage| {
        if said.elapsed() >= SAY_EVERY {
            say.inspect(|say| say("the copy of the metadata"));
            said = Instant::now();
        }
        if first.is_none() {
            // From now on, the records behind this one stay in the engine.
            let noted = engine.note(
                name,
                FollowerNote {
                    has: page.record,
                    seen: 0,
                },
            );
            noted.map_err(of_engine)?;
            first = Some((page.record, page.hash));
        }
        made.take(page.pairs)
    })?;
    let (record, hash) = first.ok_or_else(|| VolumeError::NoMetadata(volume.metadata()))?;
    let next = engine.records(record, 1).map_err(of_engine);
    let next = next.map_err(|error| VolumeError::Copy(error.into()))?;
    if next
        .first()
        .is_some_and(|(number, _)| *number != record + 1)
    {
        tracing::warn!("the copy took so long that records behind it are gone: it begins anew");
        return Ok(());
    }
    made.finish(record, hash).map_err(unusable)
}

/// A process that waits for its turn to have the journal.
struct Turn {
    standby: Standby,
    watch: RowWatch,
    began: Instant,
    has_complained: bool,
}

impl Turn {
    fn new(volume: &Volume, journal: &JournalDescription, name: &str) -> Result<Turn, VolumeError> {
        let (path, identity) = (metadata_file(volume)?, volume.description.identity);
        let manager = ManagerName {
            name: name.to_owned(),
            owner: random()?,
        };
        let opened = engine_of(volume, journal)
            .and_then(|engine| Standby::open(&path, METADATA_CACHE, engine, identity, manager));
        Ok(Turn {
            standby: opened.map_err(unusable)?,
            watch: RowWatch::default(),
            began: Instant::now(),
            has_complained: false,
        })
    }

    /// Gets what the active manager has appended, and sees whether it is there. `None`: the engine does not answer.
    fn look(&mut self) -> Result<Option<Sight>, VolumeError> {
        let followed = self.standby.follow();
        let now = self.began.elapsed();
        match followed {
            Ok(row) => {
                self.has_complained = false;
                Ok(Some(self.watch.see(row.as_ref(), now)))
            }
            Err(error) if error.is_engine_unavailable() => {
                if !std::mem::replace(&mut self.has_complained, true) {
                    tracing::warn!(%error, "waiting for the engine of the journal");
                }
                self.watch.lose();
                self.standby.wait();
                Ok(None)
            }
            Err(error) => Err(unusable(error)),
        }
    }

    /// Takes the journal over. The inner error: another manager was faster.
    fn take_over(self) -> Result<Result<JournaledStore, StoreError>, VolumeError> {
        match self.standby.take_over() {
            Ok(store) => Ok(Ok(store)),
            Err(error) if error.is_engine_unavailable() || error.is_fenced() => Ok(Err(error)),
            Err(error) => Err(unusable(error)),
        }
    }
}

fn of_engine(error: EngineError) -> StoreError {
    StoreError(Box::new(EngineJournalError::Engine(error)))
}

fn metadata_file(volume: &Volume) -> Result<PathBuf, VolumeError> {
    let path = volume.metadata();
    // The store would make an empty one.
    if path.is_file() {
        Ok(path)
    } else {
        Err(VolumeError::NoMetadata(path))
    }
}

fn unusable(error: StoreError) -> VolumeError {
    if error.is_open_elsewhere() {
        VolumeError::ServedElsewhere
    } else {
        VolumeError::Metadata(error)
    }
}

/// Sees that the description names as many I/O servers as the volume ever had: files lie on all of them.
pub(super) fn check_servers_count(metadata: &dyn MetaStore, count: u32) -> Result<(), VolumeError> {
    host::check_servers_count(metadata, count).map_err(|error| match error {
        ServersCountError::Fewer { noted, named } => VolumeError::FewerIoServers { noted, named },
        ServersCountError::Store(error) => VolumeError::Note(error),
        error => VolumeError::Start(std::io::Error::other(error)),
    })
}
