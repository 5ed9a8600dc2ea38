//! Where files are: `nfs://HOST[:PORT]/path` over TCP, `nfs+rdma://HOST[:PORT]/path` over RPC/RDMA,
//! `gannet://HOST[:PORT][,HOST[:PORT]...]/path` on a striped volume, or a local path.

use gannet_wire::printable;
use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

/// Default port of NFS over TCP.
pub const NFS_TCP_PORT: u16 = 2049;
/// Default port of NFS over RPC/RDMA.
pub const NFS_RDMA_PORT: u16 = 20049;
/// Default port of a volume's manager.
pub const NATIVE_PORT: u16 = 20050;
/// Most managers of a volume that a URL names.
pub const MANAGERS_MAX: usize = 8;
/// Longest URL accepted, in bytes: a path of the longest length Linux knows, every byte escaped, and a host.
const URL_MAX: usize = 3 * 4096 + 512;

/// The way bytes travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// `nfs://`: ONC RPC over TCP.
    Tcp,
    /// `nfs+rdma://`: RPC-over-RDMA on the software RNIC.
    Rdma,
    /// `gannet://`: the native protocol of striped volumes, on the software RNIC.
    Native,
}

impl Scheme {
    /// Its name in a URL.
    pub fn name(self) -> &'static str {
        match self {
            Scheme::Tcp => "nfs",
            Scheme::Rdma => "nfs+rdma",
            Scheme::Native => "gannet",
        }
    }

    /// The port of URLs that name none.
    pub fn default_port(self) -> u16 {
        match self {
            Scheme::Tcp => NFS_TCP_PORT,
            Scheme::Rdma => NFS_RDMA_PORT,
            Scheme::Native => NATIVE_PORT,
        }
    }
}

/// A file or directory on a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    /// TCP, RDMA or the native protocol.
    pub scheme: Scheme,
    /// Name or address, without brackets.
    pub host: String,
    /// Port of NFS, or of the volume's manager.
    pub port: u16,
    /// The other managers of the volume, of which one is active.
    pub others: Vec<(String, u16)>,
    /// The port of MOUNT, if it is not the NFS port.
    pub mount_port: Option<u16>,
    /// Components of the path; `.` and empty ones are dropped, `..` is refused.
    pub path: Vec<Vec<u8>>,
    /// The path is the root, or ended with `/` or `/.`: it must name a directory.
    pub names_directory: bool,
}

/// The reason why a text is not a URL of this library.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// Another scheme, or none.
    #[error(
        "not a URL: write nfs://HOST[:PORT]/path, nfs+rdma://HOST[:PORT]/path or gannet://HOST[:PORT]/path"
    )]
    Scheme,
    /// The host is empty, or its brackets do not match.
    #[error(
        "the host is missing or malformed: write HOST or HOST:PORT behind the `//`, IPv6 in brackets"
    )]
    Host,
    /// The port is not a number from 1 to 65535.
    #[error("`{0}` is not a port")]
    Port(String),
    /// A percent sign that two hexadecimal digits do not follow, or a NUL or slash in a name.
    #[error(
        "`%` must be followed by two hexadecimal digits other than 00 and 2F (a literal `%` is `%25`)"
    )]
    Escape,
    /// `..` could leave the tree that is meant.
    #[error("`..` is not allowed in a path")]
    Parent,
    /// A name longer than any file system stores.
    #[error("a name in the path is longer than 255 bytes")]
    Name,
    /// An option after the question mark is not known.
    #[error(
        "unknown option `{0}` behind `?`: only `?mountport=PORT` is known (a `?` in a name is `%3F`)"
    )]
    Query(String),
    /// The URL is too long.
    #[error("longer than any path")]
    TooLong,
}

impl Url {
    /// Parses a URL. Bytes of the path that are not printable are written `%XX`.
    ///
    /// `?` ends the path: in a name it is written `%3F`. `#` is a letter like others, since no part of a file is
    /// ever meant.
    ///
    /// # Errors
    /// See [`UrlError`].
    pub fn parse(text: &str) -> Result<Url, UrlError> {
        if text.len() > URL_MAX {
            return Err(UrlError::TooLong);
        }
        let (scheme, rest) = text.split_once("://").ok_or(UrlError::Scheme)?;
        let known = [Scheme::Tcp, Scheme::Rdma, Scheme::Native];
        let scheme = known.into_iter().find(|known| known.name() == scheme);
        let scheme = scheme.ok_or(UrlError::Scheme)?;
        let (rest, query) = rest
            .split_once('?')
            .map_or((rest, None), |(rest, query)| (rest, Some(query)));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let mut hosts = hosts(scheme, authority)?.into_iter();
        let (host, port) = hosts.next().ok_or(UrlError::Host)?;
        let names = parse_path(path)?;
        Ok(Url {
            scheme,
            host,
            port,
            others: hosts.collect(),
            mount_port: query
                .map(|query| parse_query(scheme, query))
                .transpose()?
                .flatten(),
            names_directory: names.is_empty() || path.ends_with('/') || path.ends_with("/."),
            path: names,
        })
    }

    /// The same server, another path.
    #[must_use]
    pub fn with_path(&self, path: Vec<Vec<u8>>) -> Url {
        Url {
            names_directory: path.is_empty(),
            path,
            ..self.clone()
        }
    }

    /// The hosts with their ports.
    pub fn hosts(&self) -> impl Iterator<Item = (String, u16)> {
        let first = (self.host.clone(), self.port);
        std::iter::once(first).chain(self.others.iter().cloned())
    }

    /// The same path at this host alone.
    #[must_use]
    pub fn at(&self, host: String, port: u16) -> Url {
        Url {
            host,
            port,
            others: Vec::new(),
            ..self.clone()
        }
    }

    /// A name below this path.
    #[must_use]
    pub fn child(&self, name: &[u8]) -> Url {
        let mut path = self.path.clone();
        path.push(name.to_vec());
        self.with_path(path)
    }

    /// The directory that this path is in; the root for itself.
    #[must_use]
    pub fn parent(&self) -> Url {
        let above = self.path.split_last().map(|(_, above)| above.to_vec());
        self.with_path(above.unwrap_or_default())
    }

    /// The path from the server's root, fit for a terminal.
    pub fn shown_path(&self) -> String {
        format!("/{}", printable(&self.path.join(&b'/')))
    }

    /// The last component; `None` for the root.
    pub fn file_name(&self) -> Option<&[u8]> {
        self.path.last().map(Vec::as_slice)
    }

    /// True when both name the same server by the same way.
    pub fn is_same_server(&self, other: &Url) -> bool {
        self.scheme == other.scheme && self.hosts().any(|it| other.hosts().any(|host| host == it))
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://", self.scheme.name())?;
        for (at, (host, port)) in self.hosts().enumerate() {
            if at > 0 {
                f.write_str(",")?;
            }
            if host.contains(':') {
                write!(f, "[{host}]")?;
            } else {
                f.write_str(&host)?;
            }
            if port != self.scheme.default_port() {
                write!(f, ":{port}")?;
            }
        }
        if self.path.is_empty() {
            f.write_str("/")?;
        }
        for name in &self.path {
            f.write_str("/")?;
            write_escaped(f, name)?;
        }
        if self.names_directory && !self.path.is_empty() {
            f.write_str("/")?;
        }
        self.mount_port
            .map_or(Ok(()), |port| write!(f, "?mountport={port}"))
    }
}

fn write_escaped(f: &mut fmt::Formatter<'_>, name: &[u8]) -> fmt::Result {
    for chunk in name.utf8_chunks() {
        for letter in chunk.valid().chars() {
            match letter {
                // Some terminals obey the control characters beyond ASCII, too.
                '%' | '?' => write!(f, "%{:02X}", u32::from(letter))?,
                _ if letter.is_control() => {
                    for byte in letter.encode_utf8(&mut [0; 4]).bytes() {
                        write!(f, "%{byte:02X}")?;
                    }
                }
                _ => write!(f, "{letter}")?,
            }
        }
        for byte in chunk.invalid() {
            write!(f, "%{byte:02X}")?;
        }
    }
    Ok(())
}

/// The hosts of an authority, with their ports. A volume has several managers, perhaps; other servers are one.
fn hosts(scheme: Scheme, authority: &str) -> Result<Vec<(String, u16)>, UrlError> {
    let parts: Vec<&str> = match scheme {
        Scheme::Native => authority.split(',').collect(),
        Scheme::Tcp | Scheme::Rdma => vec![authority],
    };
    if parts.len() > MANAGERS_MAX {
        return Err(UrlError::Host);
    }
    let hosts = parts.into_iter().map(|part| {
        let (host, port) = split_authority(part)?;
        let port = port.map_or(Ok(scheme.default_port()), parse_port)?;
        Ok((host.to_owned(), port))
    });
    hosts.collect()
}

fn split_authority(authority: &str) -> Result<(&str, Option<&str>), UrlError> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']').ok_or(UrlError::Host)?;
            match after.strip_prefix(':') {
                Some(port) => (host, Some(port)),
                None if after.is_empty() => (host, None),
                None => return Err(UrlError::Host),
            }
        }
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    let is_odd =
        |letter: char| letter.is_whitespace() || letter.is_control() || "[]@%".contains(letter);
    if host.is_empty() || host.contains(is_odd) {
        return Err(UrlError::Host);
    }
    Ok((host, port))
}

fn parse_port(text: &str) -> Result<u16, UrlError> {
    text.parse()
        .ok()
        .filter(|port| *port != 0)
        .ok_or_else(|| UrlError::Port(text.to_owned()))
}

fn parse_query(scheme: Scheme, query: &str) -> Result<Option<u16>, UrlError> {
    let mut mount_port = None;
    for option in query.split('&') {
        match option.split_once('=') {
            Some(("mountport", port)) if scheme != Scheme::Native => {
                mount_port = Some(parse_port(port)?)
            }
            _ => return Err(UrlError::Query(option.to_owned())),
        }
    }
    Ok(mount_port)
}

fn parse_path(path: &str) -> Result<Vec<Vec<u8>>, UrlError> {
    let mut components = Vec::new();
    for part in path.split('/').filter(|part| !matches!(*part, "" | ".")) {
        let name = unescape(part)?;
        match name.as_slice() {
            b".." => return Err(UrlError::Parent),
            name if name.len() > gannet_vfs::limits::NAME_MAX => return Err(UrlError::Name),
            _ => components.push(name),
        }
    }
    Ok(components)
}

fn unescape(text: &str) -> Result<Vec<u8>, UrlError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first == 0 {
            return Err(UrlError::Escape);
        }
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = after.get(..2).ok_or(UrlError::Escape)?;
        let byte = std::str::from_utf8(digits)
            .ok()
            .filter(|digits| digits.chars().all(|digit| digit.is_ascii_hexdigit()))
            .and_then(|digits| u8::from_str_radix(digits, 16).ok())
            .filter(|byte| !matches!(byte, 0 | b'/'))
            .ok_or(UrlError::Escape)?;
        bytes.push(byte);
        rest = after.get(2..).unwrap_or_default();
    }
    Ok(bytes)
}

/// One side of a copy: on a server, or here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// A file on a server.
    Remote(Url),
    /// A file on this machine.
    Local(PathBuf),
}

impl Location {
    /// A URL when the text has a scheme (`name://`), a local path otherwise.
    ///
    /// # Errors
    /// The text has a scheme, and is not a URL of this library.
    pub fn parse(text: &OsString) -> Result<Location, UrlError> {
        let has_scheme = |text: &str| {
            text.split_once("://").is_some_and(|(scheme, _)| {
                !scheme.is_empty()
                    && scheme
                        .chars()
                        .all(|letter| letter.is_ascii_alphanumeric() || "+-.".contains(letter))
            })
        };
        match text.to_str() {
            Some(text) if has_scheme(text) => Url::parse(text).map(Location::Remote),
            _ => Ok(Location::Local(PathBuf::from(OsString::from_vec(
                text.clone().into_vec(),
            )))),
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Location::Remote(url) => url.fmt(f),
            Location::Local(path) => printable(path.as_os_str().as_bytes()).fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[test]
    fn urls_choose_transport_host_port_and_path() {
        let url = parsed("nfs://server/a//b/./c%20d");
        assert_eq!(
            (url.scheme, url.host.as_str(), url.port),
            (Scheme::Tcp, "server", 2049)
        );
        assert_eq!(url.path, [b"a".to_vec(), b"b".to_vec(), b"c d".to_vec()]);
        assert!(!url.names_directory);
        let url = parsed("nfs+rdma://[::1]:7/");
        assert_eq!(
            (url.scheme, url.host.as_str(), url.port),
            (Scheme::Rdma, "::1", 7)
        );
        assert!(url.path.is_empty() && url.names_directory);
        assert_eq!(parsed("nfs+rdma://h").port, 20049);
        let url = parsed("gannet://h/a");
        assert_eq!((url.scheme, url.port), (Scheme::Native, 20050));
        assert_eq!(parsed("nfs://h/x?mountport=635").mount_port, Some(635));
        assert_eq!(parsed("nfs://h/why%3F").path, [b"why?".to_vec()]);
        assert_eq!(parsed("nfs://h/a#b").path, [b"a#b".to_vec()]);
    }

    #[test]
    fn a_printed_url_parses_to_the_same_url() {
        for text in [
            "nfs://h/",
            "nfs+rdma://h:1/a%25b/c%3Fd",
            "nfs://h/%23a#b/#",
            "nfs://[::1]/%FF%01/é/",
            "nfs://h/%C2%9B2J",
            "nfs://h/x?mountport=9",
            "gannet://h/x",
            "gannet://h:1/",
        ] {
            let url = parsed(text);
            assert_eq!(parsed(&url.to_string()), url, "{url}");
            assert!(!url.to_string().contains(char::is_control), "{url}");
        }
    }

    #[test]
    fn wrong_urls_say_what_is_wrong() {
        let cases = [
            (
                "gannet://h/x?mountport=9",
                UrlError::Query("mountport=9".into()),
            ),
            ("http://h/x", UrlError::Scheme),
            ("/local/path", UrlError::Scheme),
            ("nfs:///x", UrlError::Host),
            ("nfs://[::1/x", UrlError::Host),
            ("nfs://h:0/x", UrlError::Port("0".into())),
            ("nfs://h:99999/x", UrlError::Port("99999".into())),
            ("nfs://h/a/../b", UrlError::Parent),
            ("nfs://h/a/%2e%2e/b", UrlError::Parent),
            ("nfs://h/%2F", UrlError::Escape),
            ("nfs://h/%00", UrlError::Escape),
            ("nfs://h/\0", UrlError::Escape),
            ("nfs://h/%+1", UrlError::Escape),
            ("nfs://h/x?uid=0", UrlError::Query("uid=0".into())),
            // Never the file `why`, which a pattern or a slip of the hand could name.
            ("nfs://h/why?", UrlError::Query(String::new())),
            ("nfs://h/a?b/c", UrlError::Query("b/c".into())),
            ("nfs://h/x?mountport=9&", UrlError::Query(String::new())),
        ];
        for (text, error) in cases {
            assert_eq!(Url::parse(text), Err(error), "{text}");
        }
        assert_eq!(
            Url::parse(&format!("nfs://h/{}", "a".repeat(256))),
            Err(UrlError::Name)
        );
    }

    #[test]
    fn a_location_without_scheme_is_local() {
        let local = |text: &str| Location::parse(&OsString::from(text));
        assert_eq!(local("a/b"), Ok(Location::Local("a/b".into())));
        assert_eq!(local("/a://b"), Ok(Location::Local("/a://b".into())));
        assert_eq!(local("other://h/"), Err(UrlError::Scheme));
    }
}
