//! The way to the engine that has the journal of a volume.

use super::Volume;
use super::description::{JOURNAL_PASSWORD_FILE, JournalDescription, identity_text};
use gannet_meta::{Engine, EngineJournalError, StoreError};

/// The engine that has the journal of a volume.
///
/// # Errors
/// A file of its description cannot be read, or this program was built without the engine.
pub(super) fn engine_of(
    volume: &Volume,
    journal: &JournalDescription,
) -> Result<Box<dyn Engine>, StoreError> {
    let identity = identity_text(&volume.description.identity);
    match &journal.postgresql {
        Some(url) => with::postgresql(volume, journal, url, &identity),
        None => with::etcd(volume, journal, &identity),
    }
}

fn failure(text: String) -> StoreError {
    StoreError(Box::new(EngineJournalError::SetUp(text)))
}

#[cfg(any(feature = "etcd", feature = "postgresql"))]
mod with {
    use super::*;
    use crate::volume::description::PostgresqlUrl;
    use gannet_engines::{Credentials, EngineTls};
    use std::io::ErrorKind;
    use std::os::unix::fs::MetadataExt;
    use std::path::Path;
    use std::time::Duration;

    /// How long a change waits for an engine that does not answer. Then the manager ends.
    const PATIENCE: Duration = Duration::from_secs(60);

    #[cfg(feature = "etcd")]
    pub(super) fn etcd(
        volume: &Volume,
        journal: &JournalDescription,
        identity: &str,
    ) -> Result<Box<dyn Engine>, StoreError> {
        let place = gannet_engines::EtcdPlace {
            addresses: journal.etcd.clone(),
            user: journal.user.clone(),
        };
        let (password, tls) = (password(volume)?, tls(volume, journal)?);
        let prefix = format!("/gannet/{identity}");
        let etcd = gannet_engines::Etcd::new(&place, &password, tls.as_ref(), &prefix, PATIENCE);
        Ok(Box::new(etcd))
    }

    #[cfg(feature = "postgresql")]
    pub(super) fn postgresql(
        volume: &Volume,
        journal: &JournalDescription,
        url: &PostgresqlUrl,
        identity: &str,
    ) -> Result<Box<dyn Engine>, StoreError> {
        let hosts = url.hosts.iter();
        let hosts = hosts.map(|place| (place.0.host.clone(), place.0.port));
        let place = gannet_engines::PostgresqlPlace {
            hosts: hosts.collect(),
            user: url.user.clone(),
            database: url.database.clone(),
        };
        let (password, tls) = (password(volume)?, tls(volume, journal)?);
        let made =
            gannet_engines::Postgresql::new(&place, &password, tls.as_ref(), identity, PATIENCE);
        let made = made.map_err(|error| failure(format!("no way to PostgreSQL: {error}")))?;
        Ok(Box::new(made))
    }

    #[cfg(not(feature = "etcd"))]
    pub(super) use super::without::etcd;
    #[cfg(not(feature = "postgresql"))]
    pub(super) use super::without::postgresql;

    /// The password for the engine; empty without a file of it.
    fn password(volume: &Volume) -> Result<String, StoreError> {
        let file = volume.path.join(JOURNAL_PASSWORD_FILE);
        let unreadable = |why: &str| failure(format!("{}: {why}", file.display()));
        let text = match std::fs::read_to_string(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(String::new()),
            Err(error) => return Err(unreadable(&error.to_string())),
        };
        must_be_private(&file)?;
        Ok(text.trim_end_matches(['\r', '\n']).to_owned())
    }

    /// Sees that only its owner and group can read a file.
    fn must_be_private(file: &Path) -> Result<(), StoreError> {
        let unreadable = |why: &str| failure(format!("{}: {why}", file.display()));
        let metadata = std::fs::metadata(file);
        let metadata = metadata.map_err(|error| unreadable(&error.to_string()))?;
        if metadata.mode() & 0o007 != 0 {
            let way_out = format!("every user can read it (chmod 600 {})", file.display());
            return Err(unreadable(&way_out));
        }
        Ok(())
    }

    fn tls(volume: &Volume, journal: &JournalDescription) -> Result<Option<EngineTls>, StoreError> {
        let Some(ca) = &journal.ca else {
            return Ok(None);
        };
        let read = |path: &Path| {
            let file = volume.path.join(path);
            let text = std::fs::read(&file);
            text.map_err(|error| {
                let file = file.display();
                failure(format!(
                    "{file}: {error} (copy the file there, or correct its path in volume.toml)"
                ))
            })
        };
        let authorities = read(ca)?;
        let own = match (&journal.certificate, &journal.key) {
            (Some(certificate), Some(key)) => {
                must_be_private(&volume.path.join(key))?;
                Some((read(certificate)?, read(key)?))
            }
            _ => None,
        };
        let own = own
            .as_ref()
            .map(|(certificate, key)| Credentials { certificate, key });
        let made = EngineTls::new(&authorities, own);
        let made = made.map_err(|error| {
            failure(format!(
                "the certificates for the engine of the journal: {error}"
            ))
        });
        made.map(Some)
    }
}

#[cfg(not(any(feature = "etcd", feature = "postgresql")))]
use without as with;

#[cfg(not(all(feature = "etcd", feature = "postgresql")))]
mod without {
    use super::*;

    #[cfg(not(feature = "etcd"))]
    pub(super) fn etcd(
        _: &Volume,
        _: &JournalDescription,
        _: &str,
    ) -> Result<Box<dyn Engine>, StoreError> {
        let why = "its journal is in etcd, which this program was built without (feature `etcd`)";
        Err(failure(why.to_owned()))
    }

    #[cfg(not(feature = "postgresql"))]
    pub(super) fn postgresql(
        _: &Volume,
        _: &JournalDescription,
        _: &crate::volume::description::PostgresqlUrl,
        _: &str,
    ) -> Result<Box<dyn Engine>, StoreError> {
        let why = "its journal is in PostgreSQL, which this program was built without (feature `postgresql`)";
        Err(failure(why.to_owned()))
    }
}
