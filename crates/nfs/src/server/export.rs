//! Exports: paths, client lists, squashing, and the mark of each export in its file handles.

use super::{Check, Network};
use crate::limits::{CLIENT_NETWORKS_MAX, EXPORT_PATH_MAX, EXPORTS_MAX, SECURE_PORTS_END};
use gannet_rpc::Credential;
use gannet_vfs::{Credentials, FileHandle};
use gannet_wire::nfs3;
use std::cmp::Reverse;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use thiserror::Error;

/// The user and group of anonymous callers; a convention, not a part of the protocol.
const NOBODY: u32 = 65534;

/// The callers whose identity is replaced by the anonymous one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Squash {
    /// Root: user 0, group 0, and group 0 among the supplementary groups.
    #[default]
    Root,
    /// All callers.
    All,
    /// None; for clients whose root is trusted like this machine's.
    None,
}

/// The rights of clients at an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rules {
    /// Refuse all procedures that change files.
    pub read_only: bool,
    /// The callers that become anonymous. Callers with AUTH_NONE always do.
    pub squash: Squash,
    /// Serve only connections from ports below [`SECURE_PORTS_END`]: a user of the client's machine without root rights
    /// cannot bind such a port, and so cannot call in another user's name.
    pub secure: bool,
}

/// A directory offered under a path, and the rules that go with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Export {
    /// Its normalised path: "/", or "/name/..." without a slash at the end.
    path: Arc<str>,
    /// Rules for clients whose network has none of its own.
    pub rules: Rules,
    /// The anonymous user.
    pub anonymous_uid: u32,
    /// The anonymous group.
    pub anonymous_gid: u32,
    /// Sorted by length of prefix, longest first: the first network that holds a client decides.
    clients: Vec<Client>,
}

/// A network of an export's clients.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Client {
    network: Network,
    /// Its own rules; `None` stands for those of the export.
    rules: Option<Rules>,
}

/// Why a set of exports cannot be served.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ExportError {
    /// A path that does not begin with a slash, has `.` or `..` in it, a NUL, or is too long.
    #[error("export path {0:?} is not an absolute path")]
    Path(String),
    /// Two exports under one path.
    #[error("export path {0:?} is used twice")]
    Twice(String),
    /// There is no export.
    #[error("there is nothing to export")]
    Empty,
    /// An export keeps the store of one that was not served before.
    #[error("export path {0:?} was not served before")]
    New(String),
    /// More than [`EXPORTS_MAX`].
    #[error("more than {EXPORTS_MAX} exports")]
    TooMany,
    /// More than [`CLIENT_NETWORKS_MAX`] networks in one list.
    #[error("more than {CLIENT_NETWORKS_MAX} client networks for {0:?}")]
    TooManyClients(String),
    /// One network is listed twice for an export, so that its rules are ambiguous.
    #[error("network {1} is listed twice for {0:?}")]
    NetworkTwice(String, Network),
}

impl Export {
    /// An export for all clients, writable, with root squashed.
    ///
    /// # Errors
    /// [`ExportError::Path`]: the path is not absolute.
    pub fn new(path: &str) -> Result<Export, ExportError> {
        let components = components(path.as_bytes());
        let bad = |part: &&[u8]| matches!(*part, b"." | b"..") || part.contains(&0);
        if !path.starts_with('/') || path.len() > EXPORT_PATH_MAX || components.iter().any(bad) {
            return Err(ExportError::Path(path.to_owned()));
        }
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        Ok(Export {
            path: format!("/{}", parts.join("/")).into(),
            rules: Rules::default(),
            anonymous_uid: NOBODY,
            anonymous_gid: NOBODY,
            clients: Vec::new(),
        })
    }

    /// Admits the clients of these networks too, by the rules of the export. An export without networks admits all
    /// clients.
    ///
    /// # Errors
    /// [`ExportError::TooManyClients`], or [`ExportError::NetworkTwice`] for one that is listed already.
    pub fn with_clients(self, clients: Vec<Network>) -> Result<Export, ExportError> {
        self.with_networks(clients, None)
    }

    /// Admits the clients of these networks too, by `rules`. The network with the longest prefix decides for a client
    /// that is in several.
    ///
    /// # Errors
    /// As [`Export::with_clients`].
    pub fn with_rules(self, clients: Vec<Network>, rules: Rules) -> Result<Export, ExportError> {
        self.with_networks(clients, Some(rules))
    }

    fn with_networks(
        mut self,
        networks: Vec<Network>,
        rules: Option<Rules>,
    ) -> Result<Export, ExportError> {
        if self.clients.len() + networks.len() > CLIENT_NETWORKS_MAX {
            return Err(ExportError::TooManyClients(self.path.to_string()));
        }
        for network in networks {
            if self.clients().any(|listed| listed == network) {
                return Err(ExportError::NetworkTwice(self.path.to_string(), network));
            }
            self.clients.push(Client { network, rules });
        }
        let longest_first = |client: &Client| Reverse(client.network.prefix());
        self.clients.sort_by_key(longest_first);
        Ok(self)
    }

    /// The normalised path: "/", or "/name/..." without a slash at the end.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// As [`Export::path`], for lines about calls: no copy.
    pub(super) fn shared_path(&self) -> Arc<str> {
        Arc::clone(&self.path)
    }

    /// The networks whose clients may use the export; empty for all clients.
    pub fn clients(&self) -> impl Iterator<Item = Network> {
        self.clients.iter().map(|client| client.network)
    }

    /// Whether a client at this address may use the export, from some port at least.
    pub(super) fn admits(&self, peer: IpAddr) -> bool {
        let mut clients = self.clients.iter();
        self.clients.is_empty() || clients.any(|client| client.network.contains(peer))
    }

    /// The rules for a client that connects from `peer`.
    ///
    /// # Errors
    /// The check by which the client may not use the export: [`Check::Clients`] or [`Check::Port`].
    pub fn rules_for(&self, peer: SocketAddr) -> Result<Rules, Check> {
        let mut clients = self.clients.iter();
        let rules = match clients.find(|client| client.network.contains(peer.ip())) {
            Some(client) => client.rules.unwrap_or(self.rules),
            None if self.clients.is_empty() => self.rules,
            None => return Err(Check::Clients),
        };
        if rules.secure && peer.port() >= SECURE_PORTS_END {
            return Err(Check::Port);
        }
        Ok(rules)
    }

    /// Whether each caller becomes the user and group of `anonymous`, from whatever network it calls.
    pub fn squashes_all_to(&self, anonymous: &Credentials) -> bool {
        let own = self.clients.iter().filter_map(|client| client.rules);
        let mut all = own.chain([self.rules]);
        (self.anonymous_uid, self.anonymous_gid) == (anonymous.uid, anonymous.gid)
            && all.all(|rules| rules.squash == Squash::All)
    }

    /// Whether `uid` becomes anonymous, so that its groups need no lookup.
    pub(super) fn squashes(squash: Squash, uid: u32) -> bool {
        match squash {
            Squash::All => true,
            Squash::Root => uid == 0,
            Squash::None => false,
        }
    }

    /// The credentials of a caller at this export. The groups in `looked_up`, the primary one first, replace those of
    /// the call. The call's primary group stays if it is among them, as for a user who ran newgrp(1). A user without
    /// groups gets the anonymous one.
    pub fn credentials(
        &self,
        squash: Squash,
        caller: &Credential,
        looked_up: Option<&[u32]>,
    ) -> Credentials {
        let anonymous = || Credentials::new(self.anonymous_uid, self.anonymous_gid, &[]);
        let Credential::Sys { uid, gid, groups } = caller else {
            return anonymous();
        };
        let (gid, groups) = match looked_up {
            None => (*gid, groups.as_slice()),
            Some(known) if known.contains(gid) => (*gid, known),
            Some(known) => (known.first().copied().unwrap_or(self.anonymous_gid), known),
        };
        match squash {
            Squash::All => anonymous(),
            Squash::None => Credentials::new(*uid, gid, groups),
            Squash::Root => {
                let user = if *uid == 0 { self.anonymous_uid } else { *uid };
                let group = if gid == 0 { self.anonymous_gid } else { gid };
                Credentials::new(user, group, groups).replacing_group(0, self.anonymous_gid)
            }
        }
    }
}

/// The components of a path; repeated slashes and one at the end are ignored.
pub(super) fn components(path: &[u8]) -> Vec<&[u8]> {
    path.split(|byte| *byte == b'/')
        .filter(|part| !part.is_empty())
        .collect()
}

/// An export with its store and the byte that marks its handles.
pub(super) struct Served<V> {
    pub(super) identity: u8,
    pub(super) export: Export,
    pub(super) store: Rc<V>,
}

impl<V> Served<V> {
    /// The handle that clients get for a store's handle; `None` when the store's leaves no room for the mark.
    pub(super) fn outer(&self, inner: &FileHandle) -> Option<OuterHandle> {
        let inner = inner.as_bytes();
        let mut bytes = [0; nfs3::HANDLE_MAX];
        let (mark, room) = bytes.split_first_mut()?;
        *mark = self.identity;
        room.get_mut(..inner.len())?.copy_from_slice(inner);
        Some(OuterHandle {
            bytes,
            len: inner.len() + 1,
        })
    }
}

/// A handle as clients see it: the export's mark, then the store's bytes.
pub(super) struct OuterHandle {
    bytes: [u8; nfs3::HANDLE_MAX],
    len: usize,
}

impl OuterHandle {
    pub(super) fn as_wire(&self) -> nfs3::FileHandle<'_> {
        nfs3::FileHandle(self.bytes.get(..self.len).unwrap_or_default())
    }
}

/// The exports of a server: given ones in place of those `before`.
///
/// Every export has a mark that depends on its path, so that adding or removing others leaves it alone (unless two
/// paths want the same mark: then the one that comes later takes the next free one). An export keeps the mark that it
/// had before. One without a store keeps that of the export before it.
pub(super) fn arrange<V>(
    before: &[Rc<Served<V>>],
    exports: impl IntoIterator<Item = (Export, Option<V>)>,
) -> Result<Vec<Rc<Served<V>>>, ExportError> {
    let mut exports: Vec<_> = exports.into_iter().take(EXPORTS_MAX + 1).collect();
    if exports.is_empty() {
        return Err(ExportError::Empty);
    }
    if exports.len() > EXPORTS_MAX {
        return Err(ExportError::TooMany);
    }
    exports.sort_by(|(one, _), (other, _)| one.path.cmp(&other.path));
    let known = |path: &str| before.iter().find(|served| *served.export.path == *path);
    let mut taken: Vec<u8> = (exports.iter())
        .filter_map(|(export, _)| known(&export.path))
        .map(|served| served.identity)
        .collect();
    let mut arranged: Vec<Rc<Served<V>>> = Vec::with_capacity(exports.len());
    for (export, store) in exports {
        let last = arranged.last();
        if last.is_some_and(|last| last.export.path == export.path) {
            return Err(ExportError::Twice(export.path.to_string()));
        }
        let known = known(&export.path);
        let store = match (store, known) {
            (Some(store), _) => Rc::new(store),
            (None, Some(known)) => Rc::clone(&known.store),
            (None, None) => return Err(ExportError::New(export.path.to_string())),
        };
        let identity = known.map_or_else(
            || {
                let mut identity = mark_of(&export.path);
                while taken.contains(&identity) {
                    identity = identity.wrapping_add(1);
                }
                taken.push(identity);
                identity
            },
            |known| known.identity,
        );
        arranged.push(Rc::new(Served {
            identity,
            export,
            store,
        }));
    }
    Ok(arranged)
}

/// FNV-1a over the path, folded to a byte.
fn mark_of(path: &str) -> u8 {
    let hash = path.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    hash.to_le_bytes()
        .into_iter()
        .fold(0, |mark, byte| mark ^ byte)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gannet_wire::rpc::Groups;

    #[test]
    fn paths_are_normalised_or_refused() {
        let path = |path| Export::new(path).map(|export| export.path.to_string());
        assert_eq!(path("/"), Ok("/".to_owned()));
        assert_eq!(path("//data//set/"), Ok("/data/set".to_owned()));
        for bad in ["", "data", "/a/../b", "/.", "/a\0b"] {
            assert_eq!(path(bad), Err(ExportError::Path(bad.to_owned())));
        }
    }

    #[test]
    fn identities_follow_the_path_and_never_collide() {
        let identities = |paths: &[String]| -> Vec<(String, u8)> {
            let exports = paths
                .iter()
                .map(|path| (Export::new(path).unwrap(), Some(())));
            let served = arrange(&[], exports).unwrap();
            served
                .into_iter()
                .map(|it| (it.export.path.to_string(), it.identity))
                .collect()
        };
        let mut paths: Vec<String> = (0..EXPORTS_MAX).map(|n| format!("/e{n:03}")).collect();
        let all = identities(&paths);
        let distinct: std::collections::BTreeSet<u8> = all.iter().map(|(_, id)| *id).collect();
        assert_eq!(distinct.len(), EXPORTS_MAX);
        paths.reverse();
        assert_eq!(
            identities(&paths),
            all,
            "the order they come in does not matter"
        );
        let alone = identities(&["/data".to_owned()]);
        let with_other = identities(&["/".to_owned(), "/data".to_owned()]);
        assert!(with_other.contains(&alone[0]));
    }

    #[test]
    fn sets_that_make_no_sense_are_refused() {
        let export = |path: &str| (Export::new(path).unwrap(), Some(()));
        let refused = |exports: Vec<(Export, Option<()>)>| arrange(&[], exports).err();
        assert_eq!(refused(vec![]), Some(ExportError::Empty));
        let twice = refused(vec![export("/a"), export("/b"), export("//a/")]);
        assert_eq!(twice, Some(ExportError::Twice("/a".to_owned())));
        let many = (0..=EXPORTS_MAX)
            .map(|n| export(&format!("/{n}")))
            .collect();
        assert_eq!(refused(many), Some(ExportError::TooMany));
    }

    #[test]
    fn squashing_replaces_root_and_keeps_other_users() {
        let groups = Groups::new(&[0, 27]);
        let root = Credential::Sys {
            uid: 0,
            gid: 0,
            groups,
        };
        let user = Credential::Sys {
            uid: 1000,
            gid: 100,
            groups,
        };
        let mut export = Export::new("/").unwrap();
        let nobody = Credentials::new(65534, 65534, &[]);
        let root_here = Credentials::new(65534, 65534, &[65534, 27]);
        let user_here = Credentials::new(1000, 100, &[65534, 27]);
        assert_eq!(export.credentials(Squash::Root, &root, None), root_here);
        assert_eq!(export.credentials(Squash::Root, &user, None), user_here);
        for squash in [Squash::Root, Squash::None] {
            assert_eq!(export.credentials(squash, &Credential::None, None), nobody);
        }
        let looked_up: Vec<u32> = (0..=100).collect();
        let known = export.credentials(Squash::None, &user, Some(&looked_up));
        assert_eq!(known, Credentials::new(1000, 100, &looked_up));
        let known = export.credentials(Squash::Root, &user, Some(&looked_up));
        assert_eq!(known.groups()[..2], [65534, 1]);
        assert_eq!((known.gid, known.groups().len()), (100, 101));
        let claimed = export.credentials(Squash::None, &user, Some(&[5, 6]));
        assert_eq!(
            claimed,
            Credentials::new(1000, 5, &[5, 6]),
            "100 is not its group"
        );
        let unknown = export.credentials(Squash::None, &user, Some(&[]));
        assert_eq!(unknown, Credentials::new(1000, 65534, &[]));
        let trusted = export.credentials(Squash::None, &root, None);
        assert_eq!(trusted, Credentials::new(0, 0, &[0, 27]));
        (export.anonymous_uid, export.anonymous_gid) = (7, 8);
        let squashed = export.credentials(Squash::All, &user, None);
        assert_eq!(squashed, Credentials::new(7, 8, &[]));
    }

    #[test]
    fn an_export_squashes_all_callers_if_each_of_its_rules_does() {
        let with = |squash| Rules {
            squash,
            ..Rules::default()
        };
        let (root, nobody) = (
            Credentials::new(0, 0, &[]),
            Credentials::new(NOBODY, NOBODY, &[]),
        );
        let mut export = Export::new("/").unwrap();
        assert!(!export.squashes_all_to(&nobody), "root alone is squashed");
        export.rules = with(Squash::All);
        assert!(export.squashes_all_to(&nobody) && !export.squashes_all_to(&root));
        let trusted = networks(&["10.0.0.0/8"]);
        let export = export.with_rules(trusted, with(Squash::Root)).unwrap();
        assert!(!export.squashes_all_to(&nobody), "not those of a network");
    }

    fn networks(texts: &[&str]) -> Vec<Network> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn client_lists_admit_their_networks_alone() {
        let admits = |export: &Export, peer: &str| export.rules_for(peer.parse().unwrap()).is_ok();
        let listed = networks(&["10.0.0.0/8", "::1"]);
        let export = Export::new("/").unwrap().with_clients(listed).unwrap();
        assert!(admits(&export, "10.9.8.7:5000"));
        assert!(admits(&export, "[::1]:5000"));
        assert!(!admits(&export, "11.0.0.1:5000"));
        assert!(admits(&Export::new("/").unwrap(), "11.0.0.1:5000"));
    }

    #[test]
    fn the_most_specific_network_decides_whatever_the_order() {
        let trusted = Rules {
            squash: Squash::None,
            ..Rules::default()
        };
        let careful = Rules {
            read_only: true,
            squash: Squash::All,
            secure: true,
        };
        let export = Export::new("/").unwrap();
        let export = export.with_clients(networks(&["10.0.0.0/8"])).unwrap();
        let export = export.with_rules(networks(&["10.1.2.3"]), trusted).unwrap();
        let export = export
            .with_rules(networks(&["10.1.0.0/16"]), careful)
            .unwrap();
        let rules = |peer: &str| export.rules_for(peer.parse().unwrap());
        assert_eq!(rules("10.2.0.1:5000"), Ok(Rules::default()));
        assert_eq!(rules("10.1.2.3:5000"), Ok(trusted));
        assert_eq!(rules("[::ffff:10.1.2.3]:5000"), Ok(trusted));
        assert_eq!(rules("10.1.2.4:1023"), Ok(careful));
        assert_eq!(rules("10.1.2.4:1024"), Err(Check::Port));
        assert_eq!(rules("11.0.0.1:700"), Err(Check::Clients));
        let twice = networks(&["10.1.255.255/16"]);
        let twice = export.with_clients(twice).unwrap_err();
        assert_eq!(
            twice.to_string(),
            "network 10.1.0.0/16 is listed twice for \"/\""
        );
    }
}
