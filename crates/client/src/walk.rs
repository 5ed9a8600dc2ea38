//! The walk from a path to an object, name by name, symbolic links included.

use super::{Error, Files, Node};
use crate::limits::{SYMLINKS_MAX, WALK_COMPONENTS_MAX};
use gannet_vfs::{FileKind, Status, Vfs};
use std::collections::VecDeque;

/// Whether the last name of a path is followed if it is a symbolic link. Those before it always are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Follow {
    /// The path names the target of the link.
    Yes,
    /// The path names the link itself.
    No,
}

impl<V: Vfs> Files<V> {
    /// The object at `path`, which is taken from the root, with or without a slash in front.
    ///
    /// Symbolic links are followed here, not by the server: absolute ones from the root, `..` never above it. If a
    /// handle on the way becomes stale, the path is walked once more.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn walk(&self, path: &[u8], follow: Follow) -> Result<Node, Error> {
        twice_if_stale(async || self.walk_once(path, follow).await).await
    }

    async fn walk_once(&self, path: &[u8], follow: Follow) -> Result<Node, Error> {
        let mut ahead = VecDeque::new();
        push_front(&mut ahead, path)?;
        let mut way = vec![self.root_node().await?];
        let (mut links, mut steps) = (0, 0);
        while let Some(name) = ahead.pop_front() {
            steps += 1;
            if steps > WALK_COMPONENTS_MAX {
                return Err(Error::Path("too many components"));
            }
            if name == b".." {
                if way.len() > 1 {
                    way.pop();
                }
                continue;
            }
            let here = way.last().ok_or(Error::Path("no root"))?;
            if here.attributes.kind != FileKind::Directory {
                return Err(Error::Status(Status::Notdir));
            }
            let node = self.objects().lookup(&here.handle, &name).await?;
            let is_last = ahead.is_empty();
            if node.attributes.kind != FileKind::Symlink || (is_last && follow == Follow::No) {
                way.push(node);
                continue;
            }
            links += 1;
            if links > SYMLINKS_MAX {
                return Err(Error::SymlinkLoop);
            }
            let target = self.objects().read_link(&node.handle).await?;
            if target.starts_with(b"/") {
                way.truncate(1);
            }
            push_front(&mut ahead, &target)?;
        }
        way.pop().ok_or(Error::Path("no root"))
    }

    /// The directory that the last name of `path` is in, and that name.
    ///
    /// # Errors
    /// The path ends in nothing that could be a name; or as [`Files::walk`].
    pub async fn walk_to_parent<'p>(&self, path: &'p [u8]) -> Result<(Node, &'p [u8]), Error> {
        let (parent, name) = split_last(path)?;
        let node = self.walk(parent, Follow::Yes).await?;
        if node.attributes.kind != FileKind::Directory {
            return Err(Error::Status(Status::Notdir));
        }
        Ok((node, name))
    }
}

/// Makes a second attempt if a handle became stale in the first. A stale handle refuses a request before its effect, so
/// no change is made twice.
pub(super) async fn twice_if_stale<T>(
    mut attempt: impl AsyncFnMut() -> Result<T, Error>,
) -> Result<T, Error> {
    match attempt().await {
        Err(Error::Status(Status::Stale | Status::Badhandle)) => attempt().await,
        outcome => outcome,
    }
}

/// Puts the names of `path` before the names that are still to be walked.
fn push_front(ahead: &mut VecDeque<Vec<u8>>, path: &[u8]) -> Result<(), Error> {
    if path.contains(&0) {
        return Err(Error::Path("a NUL in it"));
    }
    for name in path.rsplit(|byte| *byte == b'/') {
        if !name.is_empty() && name != b"." {
            ahead.push_front(name.to_vec());
        }
    }
    if ahead.len() > WALK_COMPONENTS_MAX {
        return Err(Error::Path("too many components"));
    }
    Ok(())
}

/// A path as the directory and the name in it.
pub(super) fn split_last(path: &[u8]) -> Result<(&[u8], &[u8]), Error> {
    let end = path
        .iter()
        .rposition(|byte| *byte != b'/')
        .map_or(0, |last| last + 1);
    let path = path.get(..end).unwrap_or_default();
    let start = path
        .iter()
        .rposition(|byte| *byte == b'/')
        .map_or(0, |slash| slash + 1);
    let (parent, name) = path.split_at_checked(start).unwrap_or_default();
    if matches!(name, b"" | b"." | b"..") || name.contains(&0) {
        return Err(Error::Path("its last part is not a name"));
    }
    Ok((parent, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_split_into_directory_and_name() {
        let split = |path: &'static str| split_last(path.as_bytes()).unwrap();
        assert_eq!(split("name"), (&b""[..], &b"name"[..]));
        assert_eq!(split("/name"), (&b"/"[..], &b"name"[..]));
        assert_eq!(split("a/b//c//"), (&b"a/b//"[..], &b"c"[..]));
        for nothing in ["", "/", "//", "a/..", ".", "a/."] {
            assert!(split_last(nothing.as_bytes()).is_err(), "{nothing}");
        }
    }

    #[test]
    fn names_of_a_link_go_before_the_rest_of_the_path() {
        let mut ahead = VecDeque::from([b"z".to_vec()]);
        push_front(&mut ahead, b"/a/./b//../c/").unwrap();
        let names: Vec<_> = ahead.iter().map(Vec::as_slice).collect();
        assert_eq!(names, [&b"a"[..], b"b", b"..", b"c", b"z"]);
        assert!(push_front(&mut ahead, b"a\0b").is_err());
        assert!(push_front(&mut ahead, &b"a/".repeat(5000)).is_err());
    }
}
