//! The list of mounts.

use crate::limits::MOUNT_LIST_BYTES_MAX;
use gannet_wire::mount3::{DirPath, HostName, Mount};
use gannet_wire::xdr::{Encode, Encoder, pad_len};
use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The mounts that clients made and have not undone (RFC 1813 appendix I), for DUMP.
///
/// The list is advice only: a client that crashes unmounts nothing, and a restart empties it. The servers of all cores
/// share one, because a client's UMNT may come to another core than its MNT. The oldest mounts leave the list when
/// all would not fit into one reply.
#[derive(Debug, Default)]
pub struct MountList {
    mounts: Mutex<VecDeque<Mounted>>,
}

#[derive(Debug, PartialEq, Eq)]
struct Mounted {
    client: IpAddr,
    /// The client's address as the list shows it.
    host: String,
    path: Vec<u8>,
}

impl Mounted {
    /// Bytes in a reply, with the word in front that announces the entry.
    fn encoded_len(&self) -> usize {
        let text = |len| 4 + len + pad_len(len);
        4 + text(self.host.len()) + text(self.path.len())
    }
}

impl MountList {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Mounted>> {
        // Also after a panic of another holder: the list is valid after each change.
        self.mounts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// MNT: `client` mounted `path`. A mount that is there already becomes the youngest.
    pub(super) fn add(&self, client: IpAddr, path: Vec<u8>) {
        let client = client.to_canonical();
        let mut mounts = self.lock();
        mounts.retain(|mount| mount.client != client || mount.path != path);
        mounts.push_back(Mounted {
            client,
            host: client.to_string(),
            path,
        });
        let mut bytes: usize = mounts.iter().map(Mounted::encoded_len).sum();
        while bytes > MOUNT_LIST_BYTES_MAX
            && let Some(oldest) = mounts.pop_front()
        {
            bytes -= oldest.encoded_len();
        }
    }

    /// UMNT: `client` no longer uses `path`.
    pub(super) fn remove(&self, client: IpAddr, path: &[u8]) {
        let client = client.to_canonical();
        self.lock()
            .retain(|mount| mount.client != client || mount.path != path);
    }

    /// UMNTALL: `client` no longer uses anything.
    pub(super) fn remove_all(&self, client: IpAddr) {
        let client = client.to_canonical();
        self.lock().retain(|mount| mount.client != client);
    }

    /// DUMP's results.
    pub(super) fn encode(&self, results: &mut Encoder<'_>) {
        for mount in self.lock().iter() {
            results.bool(true);
            let mount = Mount {
                host: HostName(mount.host.as_bytes()),
                path: DirPath(&mount.path),
            };
            mount.encode(results);
        }
        results.bool(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gannet_wire::mount3::DumpResult;
    use gannet_wire::xdr::from_bytes;

    fn dump(list: &MountList) -> Vec<(String, String)> {
        let mut bytes = Vec::new();
        list.encode(&mut Encoder::new(&mut bytes));
        assert!(bytes.len() <= MOUNT_LIST_BYTES_MAX + 4);
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let mounts: DumpResult<'_> = from_bytes(&bytes).unwrap();
        let mounts = mounts.iter();
        mounts
            .map(|mount| (text(mount.host.0), text(mount.path.0)))
            .collect()
    }

    #[test]
    fn a_client_undoes_its_own_mounts_alone() {
        let list = MountList::default();
        let one: IpAddr = "10.0.0.1".parse().unwrap();
        let mapped: IpAddr = "::ffff:10.0.0.1".parse().unwrap();
        let other: IpAddr = "2001:db8::2".parse().unwrap();
        for client in [one, mapped, other] {
            list.add(client, b"/a".to_vec());
            list.add(client, b"/b".to_vec());
        }
        let entry = |client: IpAddr, path: &str| (client.to_string(), path.to_owned());
        let all = [
            entry(one, "/a"),
            entry(one, "/b"),
            entry(other, "/a"),
            entry(other, "/b"),
        ];
        assert_eq!(dump(&list), all);
        list.remove(mapped, b"/a");
        list.remove(other, b"/nothing");
        assert_eq!(dump(&list), all[1..]);
        list.remove_all(other);
        assert_eq!(dump(&list), all[1..2]);
    }

    #[test]
    fn the_oldest_mounts_make_room() {
        let list = MountList::default();
        let client: IpAddr = "::1".parse().unwrap();
        for index in 0..10_000 {
            list.add(client, format!("/{index}").into_bytes());
            list.add(client, b"/used".to_vec());
        }
        let left = dump(&list);
        assert!(left.len() > 1000, "{}", left.len());
        assert_eq!(left[left.len() - 1].1, "/used");
        assert_eq!(left[left.len() - 2].1, "/9999");
        list.add(client, vec![b'/'; gannet_wire::mount3::PATH_MAX]);
        assert!(dump(&list).len() < left.len());
    }
}
