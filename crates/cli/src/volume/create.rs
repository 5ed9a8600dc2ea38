//! `gannet volume create`.

use super::description::{
    DESCRIPTION_FILE, Description, FORMAT, METADATA_FILE, ManagerDescription, SECRET_FILE,
    StripesDescription, identity_text,
};
use super::key::{self, CLIENT_KEY_FILE};
use super::made::{Made, absolute, named_folders, own_folders, sync_folder};
use super::{IO_SERVERS_MAX, METADATA_CACHE};
use crate::cli::CreateOptions;
use crate::failure::{Explain, Failure};
use crate::output;
use gannet_meta::namespace::{self, Request};
use gannet_meta::{MetaStore, RedbStore, claims};
use gannet_volume::secret::{Secret, ServerKeys};
use gannet_wire::volume::{AttributeChanges, Caller, ROOT, Timestamp, Token};
use std::cell::RefCell;
use std::path::Path;
use std::time::SystemTime;

/// Makes a volume, or nothing.
///
/// # Errors
/// It cannot be made at this place.
pub(super) fn run(options: &CreateOptions) -> Result<(), Failure> {
    let servers = match options.io_server.len() {
        0 => options.io_servers as usize,
        named => named,
    };
    check_numbers(options, servers)?;
    let mut made = Made::default();
    made.empty_folder(&options.path)?;
    let path = absolute(&options.path)?;
    let io_server = match options.io_server.is_empty() {
        true => own_folders(&path, 0..servers, &mut made)?,
        false => named_folders(&path, &[], &options.io_server, &mut made)?,
    };
    let name = path.file_name().unwrap_or_default();
    let description = Description {
        format: FORMAT,
        name: name.to_string_lossy().into_owned(),
        identity: random()?,
        dscp: None,
        manager: ManagerDescription::default(),
        stripes: StripesDescription {
            unit: options.stripe_unit,
            width: options.stripe_width.unwrap_or(0),
        },
        io_server,
    };
    let text = description.to_text()?;
    let secret = random()?;
    made.file(&path.join(SECRET_FILE), &secret)?;
    let keys = ServerKeys::new(Secret::new(secret));
    let client_key = key::of(description.identity, &keys);
    let key = key::to_text(client_key, &description.name);
    made.file(&path.join(CLIENT_KEY_FILE), key.as_bytes())?;
    make_metadata(&path.join(METADATA_FILE), servers, &mut made)?;
    // Last: a folder with it is a whole volume.
    made.file(&path.join(DESCRIPTION_FILE), text.as_bytes())?;
    sync_folder(&path)?;
    made.keep();
    output::line(&format!(
        "made volume {} at {}: I/O servers: {servers}, identity {}",
        description.name,
        path.display(),
        identity_text(&description.identity)
    ))
}

fn check_numbers(options: &CreateOptions, servers: usize) -> Result<(), Failure> {
    let what = "cannot make this volume";
    if servers > IO_SERVERS_MAX {
        let why = format!("a volume has at most {IO_SERVERS_MAX} I/O servers");
        return Err(Failure::usage(what, why));
    }
    if options.stripe_width.unwrap_or(0) as usize > servers {
        let why = "files cannot be striped over more I/O servers than there are";
        return Err(Failure::usage(what, why).hint("lower --stripe-width or add I/O servers"));
    }
    Ok(())
}

/// An empty root directory, which belongs to who makes the volume; its I/O servers are new.
fn make_metadata(path: &Path, servers: usize, made: &mut Made) -> Result<(), Failure> {
    let what = || format!("cannot make the metadata {}", path.display());
    made.file(path, b"")?;
    let store = RedbStore::open(path, METADATA_CACHE).explain(what)?;
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now = Timestamp::since_epoch(since.unwrap_or_default());
    let root = Caller::new(0, 0, &[]);
    let owner = AttributeChanges {
        uid: Some(rustix::process::geteuid().as_raw()),
        gid: Some(rustix::process::getegid().as_raw()),
        ..AttributeChanges::default()
    };
    let mut formatted = Ok(());
    let committed = store.commit(&mut |transaction| {
        let request = Request {
            caller: &root,
            now,
            promised: &RefCell::default(),
            has_room: true,
        };
        formatted = namespace::format(transaction, now)
            .and_then(|()| {
                namespace::set_attributes(transaction, request, ROOT, &owner, (None, now))
            })
            .map(|_| ());
        // At most IO_SERVERS_MAX.
        claims::note_all_new(transaction, servers as u32)
    });
    committed.explain(what)?;
    formatted.explain(what)
}

/// Sixteen random bytes.
///
/// # Errors
/// The system gives none.
pub(super) fn random() -> Result<Token, Failure> {
    let mut bytes = Token::default();
    getrandom::fill(&mut bytes).explain(|| String::from("cannot get random bytes"))?;
    Ok(bytes)
}
