//! Making a volume, and adding I/O servers to one.

use super::description::{
    DESCRIPTION_FILE, Description, FORMAT, FORMAT_WITHOUT_GROUPS, IoServerDescription,
    JournalDescription, METADATA_FILE, ManagerDescription, SECRET_FILE, StripesDescription, Zone,
};
use super::error::{At, FileWork, VolumeError};
use super::made::{Made, absolute, named_folders, own_folders, replace, sync_folder};
use super::metadata::open_metadata;
use super::place::Place;
use super::{CLIENT_KEY_FILE, IO_SERVERS_MAX, METADATA_CACHE, Volume};
use crate::ClientKey;
use crate::url::MANAGERS_MAX;
use gannet_meta::copies_setting::{CopiesSetting, copies_setting, note_copies_setting};
use gannet_meta::group_placement::Zones;
use gannet_meta::groups::{self, Groups};
use gannet_meta::namespace::{self, Failure, KeptFiles, Outcome, Request};
use gannet_meta::{MetaStore, RedbStore, claims};
use gannet_volume::limits::UNIT_DEFAULT;
use gannet_volume::secret::{Secret, ServerKeys};
use gannet_wire::volume::{
    AttributeChanges, Caller, Copies, GroupRecord, ROOT, Timestamp, Token, UNIT_MAX, UNIT_MIN,
};
use std::cell::RefCell;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Options of a new volume. The default: one I/O server, and files in stripes of 64 KiB over all.
#[derive(Debug, Clone)]
pub struct CreateOptions {
    /// The I/O servers.
    pub io_servers: NewIoServers,
    /// Bytes of a file that go to one I/O server before the next one's turn.
    pub stripe_unit: u32,
    /// I/O servers that a file is striped over; 0 stands for all.
    pub stripe_width: u32,
    /// How many I/O servers keep each byte.
    pub copies: Copies,
    /// Both copies of a byte may be in one zone.
    pub same_host: bool,
    /// Writes wait until both copies of their bytes are there.
    pub needs_both: bool,
    /// The zone of each I/O server in turn; none stands for zones that are not known yet.
    pub zones: Vec<Zone>,
    /// Where managers are, if not only in the process of the I/O servers.
    pub managers: Vec<Place>,
    /// The engine that has the journal of the metadata; `None` for a file beside them.
    pub journal: Option<JournalDescription>,
}

impl Default for CreateOptions {
    fn default() -> CreateOptions {
        CreateOptions {
            io_servers: NewIoServers::Inside(1),
            stripe_unit: UNIT_DEFAULT,
            stripe_width: 0,
            copies: Copies::One,
            same_host: false,
            needs_both: false,
            zones: Vec::new(),
            managers: Vec::new(),
            journal: None,
        }
    }
}

/// I/O servers that a volume is to have.
#[derive(Debug, Clone)]
pub enum NewIoServers {
    /// This number, in folders below the volume's.
    Inside(usize),
    /// One I/O server in each of these folders, which do not exist or are empty; they may be on disks of their own.
    Folders(Vec<PathBuf>),
}

impl NewIoServers {
    fn count(&self) -> usize {
        match self {
            NewIoServers::Inside(count) => *count,
            NewIoServers::Folders(folders) => folders.len(),
        }
    }

    /// Makes their folders, for the volume at `path`, which has those of `existing` already.
    fn make(
        &self,
        path: &Path,
        existing: &[PathBuf],
        made: &mut Made,
    ) -> Result<Vec<IoServerDescription>, VolumeError> {
        let before = existing.len();
        match self {
            NewIoServers::Inside(count) => own_folders(path, before..before + count, made),
            NewIoServers::Folders(folders) => named_folders(path, existing, folders, made),
        }
    }
}

impl Volume {
    /// Makes a volume in the folder `path`, which does not exist or is empty. If that fails, it leaves nothing behind.
    /// The root directory belongs to the user of this process.
    ///
    /// # Errors
    /// The options are not valid, or the volume cannot be made at this place.
    pub fn create(path: &Path, options: &CreateOptions) -> Result<Volume, VolumeError> {
        let servers = options.io_servers.count();
        check_options(options, servers)?;
        let groups = groups_of(options, servers)?;
        let mut made = Made::default();
        made.empty_folder(path)?;
        let path = absolute(path)?;
        let mut io_server = options.io_servers.make(&path, &[], &mut made)?;
        put_into_zones(&mut io_server, &options.zones)?;
        let name = path.file_name().unwrap_or_default();
        let description = Description {
            format: FORMAT,
            name: name.to_string_lossy().into_owned(),
            identity: random()?,
            dscp: None,
            manager: ManagerDescription::of(&options.managers),
            journal: options.journal.clone(),
            stripes: StripesDescription {
                unit: options.stripe_unit,
                width: options.stripe_width,
            },
            io_server,
        };
        let text = description.to_text()?;
        let secret = random()?;
        made.file(&path.join(SECRET_FILE), &secret)?;
        let keys = ServerKeys::new(Secret::new(secret));
        let key = ClientKey::of(description.identity, &keys).to_text(&description.name);
        made.file(&path.join(CLIENT_KEY_FILE), key.as_bytes())?;
        let setting = CopiesSetting {
            same_host: options.same_host,
            min_copies: if options.needs_both { 2 } else { 1 },
        };
        make_metadata(&path.join(METADATA_FILE), &groups, setting, &mut made)?;
        // Last: a folder with it is a whole volume.
        made.file(&path.join(DESCRIPTION_FILE), text.as_bytes())?;
        sync_folder(&path)?;
        made.keep();
        Ok(Volume { path, description })
    }

    /// Adds I/O servers, which new files use from then on, with a zone for each in turn, or none. The volume must not
    /// be served meanwhile.
    ///
    /// # Errors
    /// The volume is served, or the servers cannot be added.
    pub fn extend(&mut self, more: &NewIoServers, zones: &[Zone]) -> Result<(), VolumeError> {
        let path = absolute(&self.path)?;
        // Held until the end: a process that serves the volume holds it.
        let metadata = open_metadata(self)?;
        let before = self.description.io_server.len();
        let count = before + more.count();
        if count > IO_SERVERS_MAX {
            return Err(VolumeError::IoServersCount(count));
        }
        let mut made = Made::default();
        let existing: Vec<_> = self.folders().iter().map(|it| path.join(it)).collect();
        let mut added = more.make(&path, &existing, &mut made)?;
        put_into_zones(&mut added, zones)?;
        // Before the records of groups, which a release that knows format 2 alone would not see.
        describe(&path, &[])?;
        // Then these: a record of servers that are not added afterwards does no harm. At most IO_SERVERS_MAX.
        let new = before as u32..(before + added.len()) as u32;
        let (groups, same_host) = groups_before(&metadata, before)?;
        let all = self.description.io_server.iter().chain(&added);
        let zones = Zones::new(all.map(IoServerDescription::zone_name).collect(), same_host);
        let more = groups::new_groups(&groups, new.clone(), groups.copies(), &zones);
        let more = more.map_err(|_| VolumeError::Zones)?;
        let chosen = groups::further_to_choose(&groups.with_new(&more, false), new.end, &zones);
        // Without them, files of directories that choose their copies lie on the other servers.
        let chosen = chosen.unwrap_or_else(|error| {
            tracing::warn!(%error, "no files of directories that choose their copies on the new I/O servers");
            Vec::new()
        });
        let noted = metadata.commit(&mut |transaction| {
            claims::note_new(transaction, new.clone())?;
            groups::put_groups(transaction, &more)?;
            groups::put_groups(transaction, &chosen)?;
            groups::note_chosen(transaction, &chosen)
        });
        noted.map_err(VolumeError::Note)?;
        self.description = describe(&path, &added)?;
        made.keep();
        // The manager need not wait for the end of a lease. Without an engine there is none.
        metadata.release().map_err(VolumeError::Note)
    }

    /// Gives the clients another key, in the file [`CLIENT_KEY_FILE`]. The servers take it once they are restarted, and
    /// refuse clients with the old one then; those on other hosts need the new secret first.
    ///
    /// # Errors
    /// [`VolumeError::NoMetadata`]: the manager runs on another host; otherwise the key cannot be changed.
    pub fn change_client_key(&self) -> Result<PathBuf, VolumeError> {
        let path = absolute(&self.path)?;
        if !self.metadata().is_file() {
            return Err(VolumeError::NoMetadata(path.join(METADATA_FILE)));
        }
        let ((secret, _), salt) = (self.secret()?, random()?);
        let keys = ServerKeys::new(Secret::new(secret)).with_client_salt(&salt);
        let key = ClientKey::of(self.description.identity, &keys);
        let text = key.to_text(&self.description.name);
        // The servers' first: a client's key that no server knows would be of no use, and this can be done again.
        replace(&path, SECRET_FILE, &[secret, salt].concat())?;
        replace(&path, CLIENT_KEY_FILE, text.as_bytes())?;
        Ok(path.join(CLIENT_KEY_FILE))
    }
}

fn check_options(options: &CreateOptions, servers: usize) -> Result<(), VolumeError> {
    if servers == 0 || servers > IO_SERVERS_MAX {
        return Err(VolumeError::IoServersCount(servers));
    }
    if options.stripe_width as usize > servers {
        return Err(VolumeError::StripeWidth);
    }
    if options.managers.len() > MANAGERS_MAX {
        return Err(VolumeError::ManagersCount(options.managers.len()));
    }
    if options.managers.len() > 1 && options.journal.is_none() {
        return Err(VolumeError::ManagersWithoutEngine);
    }
    if let Some(journal) = &options.journal {
        journal.check().map_err(VolumeError::Journal)?;
    }
    if options.copies == Copies::Two && servers < 2 {
        return Err(VolumeError::Copies);
    }
    if !(UNIT_MIN..=UNIT_MAX).contains(&options.stripe_unit) {
        return Err(VolumeError::StripeUnit);
    }
    Ok(())
}

/// The groups of a new volume.
fn groups_of(
    options: &CreateOptions,
    servers: usize,
) -> Result<Vec<(u32, GroupRecord)>, VolumeError> {
    let names = options.zones.iter().map(|it| Some(it.as_str().to_owned()));
    let zones = Zones::new(names.collect(), options.same_host);
    let none = Groups::new(Vec::new());
    // At most IO_SERVERS_MAX.
    let groups = groups::new_groups(&none, 0..servers as u32, options.copies, &zones);
    groups.map_err(|_| VolumeError::Zones)
}

/// Notes the zone of each of these servers, unless no zones are given.
fn put_into_zones(servers: &mut [IoServerDescription], zones: &[Zone]) -> Result<(), VolumeError> {
    if ![0, servers.len()].contains(&zones.len()) {
        return Err(VolumeError::ZonesCount {
            zones: zones.len(),
            servers: servers.len(),
        });
    }
    for (server, zone) in servers.iter_mut().zip(zones) {
        server.zone = Some(zone.clone());
    }
    Ok(())
}

/// The groups of a volume with so many I/O servers, and whether both members of one may be in one zone.
fn groups_before(metadata: &dyn MetaStore, servers: usize) -> Result<(Groups, bool), VolumeError> {
    let (mut known, mut setting) = (Ok(Groups::of_servers(0)), Ok(CopiesSetting::default()));
    let read = metadata.read(&mut |view| {
        // At most IO_SERVERS_MAX.
        known = groups::groups(view, servers as u32);
        setting = copies_setting(view);
    });
    let known = read.map_err(Failure::Store).and(known);
    let groups = known.map_err(VolumeError::Groups)?;
    Ok((groups, setting.map_err(VolumeError::Groups)?.same_host))
}

/// Makes an empty root directory, which belongs to the user of this process; its I/O servers are new.
fn make_metadata(
    path: &Path,
    groups: &[(u32, GroupRecord)],
    setting: CopiesSetting,
    made: &mut Made,
) -> Result<(), VolumeError> {
    made.file(path, b"")?;
    fill_metadata(path, groups, setting).map_err(|why| VolumeError::MakeMetadata {
        path: path.to_path_buf(),
        why,
    })
}

fn fill_metadata(
    path: &Path,
    groups: &[(u32, GroupRecord)],
    setting: CopiesSetting,
) -> Outcome<()> {
    // Each server is in a group.
    let servers = groups.iter().filter_map(|(_, it)| it.members.first());
    let servers = servers.map(|member| member.server + 1).max();
    let store = RedbStore::open(path, METADATA_CACHE)?;
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now = Timestamp::since_epoch(since.unwrap_or_default());
    let root = Caller::new(0, 0, &[]);
    let owner = AttributeChanges {
        uid: Some(rustix::process::geteuid().as_raw()),
        gid: Some(rustix::process::getegid().as_raw()),
        ..AttributeChanges::default()
    };
    let mut formatted = Ok(());
    store.commit(&mut |transaction| {
        let request = Request {
            caller: &root,
            now,
            intents: &RefCell::default(),
            has_room: true,
            kept: &KeptFiles::default(),
        };
        formatted = namespace::format(transaction, now)
            .and_then(|()| namespace::set_attributes(transaction, request, ROOT, &owner, None, now))
            .map(|_| ());
        claims::note_all_new(transaction, servers.unwrap_or(0))?;
        note_copies_setting(transaction, setting)?;
        groups::put_groups(transaction, groups)
    })?;
    formatted
}

/// Adds the servers to `volume.toml`, whose other lines stay as they are, as a whole or not at all. Returns the new
/// description.
fn describe(path: &Path, added: &[IoServerDescription]) -> Result<Description, VolumeError> {
    let file = path.join(DESCRIPTION_FILE);
    let text = std::fs::read_to_string(&file).at(FileWork::Change, &file)?;
    let mut text = with_groups(&text).at(FileWork::Change, &file)?;
    if !text.ends_with('\n') {
        text.push('\n');
    }
    for server in added {
        text.push_str(&server.to_text()?);
    }
    let description = Description::parse(&text);
    let description = description
        .map_err(io::Error::other)
        .at(FileWork::Change, &file)?;
    replace(path, DESCRIPTION_FILE, text.as_bytes())?;
    Ok(description)
}

/// Makes the description of the volume at `path` one of a volume that may have records of groups.
///
/// # Errors
/// The description cannot be changed.
pub(super) fn describe_groups(path: &Path) -> io::Result<()> {
    describe(path, &[]).map(|_| ()).map_err(io::Error::other)
}

/// The text of `volume.toml` of a volume that may have records of groups. Its other lines stay as they are.
///
/// # Errors
/// Its format is written in a way that this does not understand.
fn with_groups(text: &str) -> io::Result<String> {
    let before = FORMAT_WITHOUT_GROUPS.to_string();
    let changed: String = (text.split_inclusive('\n'))
        .map(|line| match line.trim_start().starts_with("format") {
            true => line.replacen(&before, &FORMAT.to_string(), 1),
            false => String::from(line),
        })
        .collect();
    match Description::parse(&changed) {
        Ok(it) if it.format == FORMAT => Ok(changed),
        Ok(_) => Err(io::Error::other(format!(
            "its `format` cannot be raised: write `format = {FORMAT}`"
        ))),
        Err(error) => Err(io::Error::other(error)),
    }
}

/// Sixteen random bytes.
///
/// # Errors
/// The system gives no random bytes.
pub(super) fn random() -> Result<Token, VolumeError> {
    let mut bytes = Token::default();
    let filled = getrandom::fill(&mut bytes);
    filled.map_err(|error| VolumeError::Random(io::Error::other(error.to_string())))?;
    Ok(bytes)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_format_is_raised_however_it_is_written() {
        let rest = "name = \"a\"\nidentity = \"abababababababababababababababab\"\n\
                    [stripes]\nunit = 4096\nwidth = 0\n[[io_server]]\nfolder = \"io/0\"\n";
        for (before, after) in [
            ("format = 2\n", "format = 3\n"),
            ("# format = 2\nformat = 2\n", "# format = 2\nformat = 3\n"),
            ("format=2 # of 2\n", "format=3 # of 2\n"),
            ("format = 2\r\n", "format = 3\r\n"),
            ("# format 2\nformat = 3\n", "# format 2\nformat = 3\n"),
        ] {
            let raised = with_groups(&format!("{before}{rest}")).unwrap();
            assert_eq!(raised, format!("{after}{rest}"));
        }
        assert!(with_groups(&format!("\"format\" = 2\n{rest}")).is_err());
    }
}
