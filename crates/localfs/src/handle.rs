//! The layout of a handle.
//!
//! | bytes | content |
//! |---|---|
//! | 0 | scheme: 1 kernel handle, 2 inode number and birth |
//! | 1 | kernel: its type of handle; inode: 0 |
//! | 2..6 | the export: a keyed hash of the root |
//! | 6..16 | MAC over the rest |
//! | 16.. | the kernel's handle (up to 48 bytes), or inode number and birth time, 8 bytes each |
//! | 32..40 | inode: the fsid of the subvolume, only of inodes in another subvolume than the root's |

use crate::sys::KernelHandle;
use gannet_vfs::{FileHandle, Status};
use siphasher::sip128::{Hasher128, SipHasher24};
use std::hash::Hasher;

const SCHEME_KERNEL: u8 = 1;
const SCHEME_INODE: u8 = 2;
const MAC: std::ops::Range<usize> = 6..16;
const BODY: usize = 16;

/// The name of an object in a handle.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Name {
    /// The kernel's handle.
    Kernel(KernelHandle),
    /// Inode number, time of birth in nanoseconds (0 where the file system does not keep it), and the fsid of the
    /// subvolume (0: the root's). A snapshot has numbers and births of the subvolume that it was taken of.
    Inode {
        fileid: u64,
        birth: u64,
        subvolume: u64,
    },
}

/// Makes and checks the handles of one export.
pub(crate) struct Minter {
    key: [u8; 16],
    export: [u8; 4],
}

impl Minter {
    /// A minter for the export whose root is `root` on the file system `fsid`.
    pub(crate) fn new(key: [u8; 16], fsid: u64, root: &Name) -> Minter {
        let mut hasher = SipHasher24::new_with_key(&key);
        hasher.write(&fsid.to_be_bytes());
        match root {
            Name::Kernel(kernel) => hasher.write(kernel.bytes()),
            Name::Inode { fileid, .. } => hasher.write(&fileid.to_be_bytes()),
        }
        let hash = hasher.finish128().as_bytes();
        Minter {
            key,
            export: [hash[0], hash[1], hash[2], hash[3]],
        }
    }

    /// The handle of what `name` names.
    ///
    /// # Errors
    /// `Serverfault` when the kernel's handle does not fit.
    pub(crate) fn mint(&self, name: &Name) -> Result<FileHandle, Status> {
        let mut bytes = [0; gannet_vfs::limits::HANDLE_MAX];
        bytes[2..6].copy_from_slice(&self.export);
        let len = match name {
            Name::Kernel(kernel) => {
                bytes[0] = SCHEME_KERNEL;
                bytes[1] = u8::try_from(kernel.kind()).map_err(|_| Status::Serverfault)?;
                let len = kernel.bytes().len();
                bytes[BODY..BODY + len].copy_from_slice(kernel.bytes());
                BODY + len
            }
            Name::Inode {
                fileid,
                birth,
                subvolume,
            } => {
                bytes[0] = SCHEME_INODE;
                bytes[16..24].copy_from_slice(&fileid.to_be_bytes());
                bytes[24..32].copy_from_slice(&birth.to_be_bytes());
                bytes[32..40].copy_from_slice(&subvolume.to_be_bytes());
                if *subvolume == 0 { 32 } else { 40 }
            }
        };
        let mac = self.mac(&bytes[..MAC.start], &bytes[BODY..len]);
        bytes[MAC].copy_from_slice(&mac);
        FileHandle::new(&bytes[..len]).ok_or(Status::Serverfault)
    }

    /// The name in `handle`.
    ///
    /// # Errors
    /// `Badhandle` when it never was one of ours, `Stale` when it comes from another key or another export.
    pub(crate) fn open(&self, handle: &FileHandle) -> Result<Name, Status> {
        let bytes = handle.as_bytes();
        let (Some(head), Some(body)) = (bytes.get(..BODY), bytes.get(BODY..)) else {
            return Err(Status::Badhandle);
        };
        let name = match (head[0], head[1]) {
            (SCHEME_KERNEL, kind) => KernelHandle::new(kind.into(), body).map(Name::Kernel),
            (SCHEME_INODE, 0) => inode_name(body),
            _ => None,
        };
        let name = name.ok_or(Status::Badhandle)?;
        let expected = self.mac(&head[..MAC.start], body);
        let differs = (head[MAC].iter().zip(expected)).fold(0, |sum, (a, b)| sum | (a ^ b));
        if differs == 0 && head[2..6] == self.export {
            Ok(name)
        } else {
            Err(Status::Stale)
        }
    }

    /// A number of an inode that no other of the tree has, in place of the one that inodes of several subvolumes have.
    pub(crate) fn number(&self, subvolume: u64, fileid: u64) -> u64 {
        if subvolume == 0 {
            return fileid;
        }
        // With the key, nobody can make two inodes with one number.
        let mut hasher = SipHasher24::new_with_key(&self.key);
        hasher.write(&subvolume.to_be_bytes());
        hasher.write(&fileid.to_be_bytes());
        hasher.finish128().h1
    }

    fn mac(&self, head: &[u8], body: &[u8]) -> [u8; 10] {
        let mut hasher = SipHasher24::new_with_key(&self.key);
        hasher.write(head);
        hasher.write(body);
        let hash = hasher.finish128().as_bytes();
        let mut mac = [0; 10];
        mac.copy_from_slice(&hash[..10]);
        mac
    }
}

fn inode_name(body: &[u8]) -> Option<Name> {
    let (fileid, rest) = body.split_first_chunk::<8>()?;
    let (birth, subvolume) = rest.split_first_chunk::<8>()?;
    let subvolume = match subvolume {
        [] => 0,
        // A zero would be a second handle of the same inode.
        bytes => Some(u64::from_be_bytes(bytes.try_into().ok()?)).filter(|it| *it != 0)?,
    };
    Some(Name::Inode {
        fileid: u64::from_be_bytes(*fileid),
        birth: u64::from_be_bytes(*birth),
        subvolume,
    })
}

/// Hashes a handle by taking bytes of its MAC, which cannot be chosen without the key. Only for maps whose keys
/// have been checked.
#[derive(Default)]
pub(crate) struct MacHasher(u64);

impl Hasher for MacHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        if let Some(mac) = bytes.get(MAC).and_then(<[u8]>::first_chunk::<8>) {
            self.0 = u64::from_ne_bytes(*mac);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn minter(root: u64) -> Minter {
        let root = Name::Inode {
            fileid: root,
            birth: 1,
            subvolume: 0,
        };
        Minter::new([7; 16], 3, &root)
    }

    #[test]
    fn a_handle_of_another_export_is_stale() {
        let name = Name::Inode {
            fileid: 12,
            birth: 9,
            subvolume: 0,
        };
        let handle = minter(2).mint(&name).unwrap();
        assert!(minter(2).open(&handle) == Ok(name));
        assert!(minter(3).open(&handle) == Err(Status::Stale));
    }

    #[test]
    fn a_handle_cut_short_is_bad_or_stale() {
        let name = Name::Kernel(KernelHandle::new(1, &[1, 2, 3, 4, 5, 6, 7, 8]).unwrap());
        let handle = minter(2).mint(&name).unwrap();
        assert!(minter(2).open(&handle) == Ok(name));
        for len in 1..handle.as_bytes().len() {
            let cut = FileHandle::new(&handle.as_bytes()[..len]).unwrap();
            assert!(minter(2).open(&cut).is_err(), "{len} bytes");
        }
    }

    proptest! {
        #[test]
        fn one_changed_bit_is_refused(fileid: u64, birth: u64, subvolume: u64, bit in 0usize..320) {
            let name = Name::Inode { fileid, birth, subvolume };
            let handle = minter(2).mint(&name).unwrap();
            prop_assert!(minter(2).open(&handle) == Ok(name));
            let mut bytes = handle.as_bytes().to_vec();
            let bit = bit % (8 * bytes.len());
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(minter(2).open(&FileHandle::new(&bytes).unwrap()).is_err());
        }

        #[test]
        fn arbitrary_bytes_are_refused(bytes in proptest::collection::vec(any::<u8>(), 1..=64)) {
            prop_assert!(minter(2).open(&FileHandle::new(&bytes).unwrap()).is_err());
        }
    }
}
