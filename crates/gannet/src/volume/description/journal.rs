//! The engine that has the journal of a volume's metadata.

use super::{quoted, unwritable};
use crate::volume::error::{JournalError, VolumeError};
use crate::volume::place::Place;
use serde::Deserialize;
use serde::de::Error as _;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// The port of PostgreSQL.
const POSTGRESQL_PORT: u16 = 5432;

/// An engine of several machines that has the journal of the metadata: etcd or PostgreSQL.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JournalDescription {
    /// The addresses of the members of a cluster of etcd: `http://HOST:PORT` or `https://HOST:PORT`.
    #[serde(default)]
    pub etcd: Vec<String>,
    /// The servers of a database of PostgreSQL.
    pub postgresql: Option<PostgresqlUrl>,
    /// The user of etcd.
    pub user: Option<String>,
    /// A file of certificates in PEM, of the authorities that vouch for the engine's machines; a relative path starts
    /// at the volume's folder. With it, connections have TLS.
    pub ca: Option<PathBuf>,
    /// A file with the certificate of the managers (PEM), for an engine that asks for one.
    pub certificate: Option<PathBuf>,
    /// The file of its private key (PEM).
    pub key: Option<PathBuf>,
}

impl JournalDescription {
    /// Checks the addresses.
    ///
    /// # Errors
    /// See [`JournalError`].
    pub(in crate::volume) fn check(&self) -> Result<(), JournalError> {
        if self.etcd.is_empty() == self.postgresql.is_none() {
            return Err(JournalError::Engines);
        }
        if self.postgresql.is_some() && self.user.is_some() {
            return Err(JournalError::User);
        }
        let has_credentials = self.certificate.is_some();
        if has_credentials != self.key.is_some() || has_credentials && self.ca.is_none() {
            return Err(JournalError::Credentials);
        }
        let scheme = if self.ca.is_some() {
            "https://"
        } else {
            "http://"
        };
        for text in &self.etcd {
            let place = text.strip_prefix(scheme);
            if place.is_none_or(|place| place.parse::<Place>().is_err()) {
                let text = text.clone();
                return Err(JournalError::Etcd { text, scheme });
            }
        }
        Ok(())
    }

    pub(super) fn to_text(&self) -> Result<String, VolumeError> {
        let mut text = String::from("[journal]\n");
        if !self.etcd.is_empty() {
            let addresses = self.etcd.iter().map(|it| quoted(it));
            let addresses = addresses.collect::<Result<Vec<String>, _>>()?;
            text.push_str(&format!("etcd = [{}]\n", addresses.join(", ")));
        }
        if let Some(url) = &self.postgresql {
            text.push_str(&format!("postgresql = {}\n", quoted(&url.to_string())?));
        }
        if let Some(user) = &self.user {
            text.push_str(&format!("user = {}\n", quoted(user)?));
        }
        for (name, path) in [
            ("ca", &self.ca),
            ("certificate", &self.certificate),
            ("key", &self.key),
        ] {
            let Some(path) = path else {
                continue;
            };
            let path = path
                .to_str()
                .ok_or_else(|| unwritable(&path.to_string_lossy()))?;
            text.push_str(&format!("{name} = {}\n", quoted(path)?));
        }
        text.push('\n');
        Ok(text)
    }
}

/// `postgresql://USER@HOST,.../DATABASE`: a database, and the servers that may have it. Hosts may have a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostgresqlUrl {
    /// The user.
    pub user: String,
    /// The servers.
    pub hosts: Vec<Place>,
    /// The name of the database.
    pub database: String,
}

impl FromStr for PostgresqlUrl {
    type Err = JournalError;

    fn from_str(text: &str) -> Result<PostgresqlUrl, JournalError> {
        // Before all other faults, which show the text.
        let before_host = text.rsplit_once('@').map_or("", |(before, _)| before);
        let user = before_host
            .rsplit_once("://")
            .map_or(before_host, |(_, user)| user);
        if user.contains(':') {
            return Err(JournalError::PasswordInUrl);
        }
        let wrong = || JournalError::Postgresql(text.to_owned());
        let rest = text.strip_prefix("postgresql://").ok_or_else(wrong)?;
        let (user, rest) = rest.rsplit_once('@').ok_or_else(wrong)?;
        let (hosts, database) = rest.split_once('/').ok_or_else(wrong)?;
        let is_plain = |name: &str| {
            let odd = |letter: char| letter.is_whitespace() || "/?%@:\"".contains(letter);
            !name.is_empty() && !name.contains(odd)
        };
        if !is_plain(user) || !is_plain(database) {
            return Err(wrong());
        }
        let hosts = hosts.split(',').map(|host| {
            let with_port = format!("{host}:{POSTGRESQL_PORT}");
            let place = host.parse::<Place>().or_else(|_| with_port.parse());
            place.map_err(|_| wrong())
        });
        Ok(PostgresqlUrl {
            user: user.to_owned(),
            hosts: hosts.collect::<Result<Vec<Place>, _>>()?,
            database: database.to_owned(),
        })
    }
}

impl fmt::Display for PostgresqlUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosts: Vec<String> = self.hosts.iter().map(Place::to_string).collect();
        let hosts = hosts.join(",");
        write!(f, "postgresql://{}@{hosts}/{}", self.user, self.database)
    }
}

impl<'de> Deserialize<'de> for PostgresqlUrl {
    fn deserialize<D: serde::Deserializer<'de>>(source: D) -> Result<PostgresqlUrl, D::Error> {
        let text = String::deserialize(source)?;
        text.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_has_a_user_servers_and_a_name() {
        let parsed: PostgresqlUrl = "postgresql://g@p0.example,[::1]:5433/names"
            .parse()
            .unwrap();
        let text = "postgresql://g@p0.example:5432,[::1]:5433/names";
        assert_eq!(parsed.to_string(), text);
        for text in [
            "http://g@a/b",
            "postgresql://a/b",
            "postgresql://g@/b",
            "postgresql://g@a",
            "postgresql://g@a/",
            "postgresql://g@a/b?sslmode=off",
            "postgresql://g@a,/b",
        ] {
            let error = text.parse::<PostgresqlUrl>().unwrap_err();
            assert!(matches!(error, JournalError::Postgresql(_)), "{text}");
        }
        for text in [
            "postgresql://g:secret@a/b",
            "postgres://g:secret@a",
            "g:secret@a",
        ] {
            let error = text.parse::<PostgresqlUrl>();
            assert!(matches!(error, Err(JournalError::PasswordInUrl)), "{text}");
        }
    }

    #[test]
    fn a_journal_is_in_one_engine_and_encrypted_with_authorities() {
        let etcd = |scheme: &str| JournalDescription {
            etcd: vec![format!("{scheme}://a:2379")],
            ..JournalDescription::default()
        };
        let with_ca = |scheme| JournalDescription {
            ca: Some(PathBuf::from("ca.pem")),
            ..etcd(scheme)
        };
        assert!(etcd("http").check().is_ok() && with_ca("https").check().is_ok());
        assert!(etcd("https").check().is_err() && with_ca("http").check().is_err());
        assert!(JournalDescription::default().check().is_err());
        let without_key = JournalDescription {
            certificate: Some(PathBuf::from("own.pem")),
            ..with_ca("https")
        };
        assert!(matches!(
            without_key.check(),
            Err(JournalError::Credentials)
        ));
        let postgresql = "postgresql://g@a/b".parse().ok();
        let both = JournalDescription {
            postgresql: postgresql.clone(),
            ..etcd("http")
        };
        assert!(matches!(both.check(), Err(JournalError::Engines)));
        let two_users = JournalDescription {
            postgresql,
            user: Some(String::from("g")),
            ..JournalDescription::default()
        };
        assert!(matches!(two_users.check(), Err(JournalError::User)));
    }
}
