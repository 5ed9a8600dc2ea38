//! A reference model of a file system, and an oracle that compares replies with it.
//!
//! The model names objects by keys that its caller chooses, and holds only values. The oracle keeps every state that
//! the file system can be in: one, as long as all replies are known; more, once a reply was lost.

mod file;
mod oracle;

pub use oracle::Oracle;

use file::{File, Loss};
use gannet_vfs::{FileKind, Stability, Status};
use std::collections::BTreeMap;
use std::fmt;

/// An object of the model.
pub type Key = u32;

/// The root directory of the model.
pub const TOP: Key = 0;

/// One operation, in the model's terms.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)] // the names are NFSv3's; objects are keys
pub enum Operation {
    Lookup {
        directory: Key,
        name: Vec<u8>,
    },
    Getattr {
        object: Key,
    },
    List {
        directory: Key,
    },
    Read {
        file: Key,
        offset: u64,
        len: u32,
    },
    Readlink {
        link: Key,
    },
    Create {
        directory: Key,
        name: Vec<u8>,
        how: Create,
        key: Key,
    },
    Mkdir {
        directory: Key,
        name: Vec<u8>,
        key: Key,
    },
    Symlink {
        directory: Key,
        name: Vec<u8>,
        target: Vec<u8>,
        key: Key,
    },
    Remove {
        directory: Key,
        name: Vec<u8>,
    },
    Rmdir {
        directory: Key,
        name: Vec<u8>,
    },
    Rename {
        from: Key,
        old: Vec<u8>,
        to: Key,
        new: Vec<u8>,
    },
    Link {
        file: Key,
        directory: Key,
        name: Vec<u8>,
    },
    Write {
        file: Key,
        offset: u64,
        bytes: Vec<u8>,
        stability: Stability,
    },
    Commit {
        file: Key,
    },
    Truncate {
        file: Key,
        len: u64,
    },
    Chmod {
        object: Key,
        mode: u32,
    },
}

/// How to make a regular file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Create {
    /// Takes an existing file as it is.
    Unchecked,
    /// Fails when the name exists.
    Guarded,
    /// Takes the file that the same request made.
    Exclusive,
}

/// The reply to an operation that succeeded.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)] // the fields are NFSv3's
pub enum Answer {
    /// The operation is done, without a further result.
    Done,
    /// The object that was found or made.
    Object(Key),
    /// The bytes that were read, and whether they reach the end of the file.
    Bytes { bytes: Vec<u8>, eof: bool },
    /// A symbolic link's text.
    Text(Vec<u8>),
    /// The names of a directory, sorted, without the dots.
    Names(Vec<Vec<u8>>),
    /// Attributes; `size` of regular files and links only.
    Attributes {
        kind: FileKind,
        mode: u32,
        links: u32,
        size: Option<u64>,
    },
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Operation::Write {
                file,
                offset,
                bytes,
                stability,
            } => {
                write!(
                    f,
                    "Write {{ file: {file}, {offset}+{}, {stability:?} }}",
                    bytes.len()
                )
            }
            other => write!(f, "{other:?}"),
        }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Answer::Bytes { bytes, eof } => {
                let start = bytes.get(..16).unwrap_or(bytes);
                write!(f, "{} bytes ({start:02x?}...), eof {eof}", bytes.len())
            }
            other => write!(f, "{other:?}"),
        }
    }
}

/// An operation's outcome.
pub type Outcome = Result<Answer, Status>;

/// How often an operation was executed, as far as its caller knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Execution {
    /// Once.
    Once,
    /// The server restarted or dropped the reply from its cache: once, or more often with the last outcome seen.
    OnceOrMore,
    /// No reply came: once, more often, or not at all.
    Unknown,
}

/// A correct file system in memory: the reference for replies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Model {
    nodes: BTreeMap<Key, Node>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Node {
    mode: u32,
    links: u32,
    /// True if an exclusive CREATE made it.
    exclusive: bool,
    content: Content,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Content {
    File(File),
    Directory {
        parent: Key,
        names: BTreeMap<Vec<u8>, Key>,
    },
    Symlink(Vec<u8>),
}

impl Default for Model {
    fn default() -> Model {
        let content = Content::Directory {
            parent: TOP,
            names: BTreeMap::new(),
        };
        let top = Node {
            mode: 0o755,
            links: 2,
            exclusive: false,
            content,
        };
        Model {
            nodes: BTreeMap::from([(TOP, top)]),
        }
    }
}

impl Model {
    /// Every object there is, with its kind.
    pub fn objects(&self) -> impl Iterator<Item = (Key, FileKind)> + '_ {
        self.nodes.iter().map(|(key, node)| (*key, node.kind()))
    }

    /// The names of a directory with their objects; empty for anything else.
    pub fn entries(&self, directory: Key) -> Vec<(Vec<u8>, Key)> {
        match self.nodes.get(&directory).map(|node| &node.content) {
            Some(Content::Directory { names, .. }) => names
                .iter()
                .map(|(name, key)| (name.clone(), *key))
                .collect(),
            _ => Vec::new(),
        }
    }

    /// The content of a regular file.
    pub fn content(&self, file: Key) -> Option<&[u8]> {
        self.file(file).ok().map(|file| file.data.as_slice())
    }

    /// True when a crash could take something of `file`.
    pub fn is_unsynced(&self, file: Key) -> bool {
        self.file(file).is_ok_and(|file| !file.unsynced.is_empty())
    }

    /// Does an operation.
    pub fn apply(&mut self, operation: &Operation) -> Outcome {
        self.execute(operation, Loss::None)
    }

    fn execute(&mut self, operation: &Operation, loss: Loss) -> Outcome {
        match operation {
            Operation::Lookup { directory, name } => {
                self.lookup(*directory, name).map(Answer::Object)
            }
            Operation::Getattr { object } => self.attributes(*object),
            Operation::List { directory } => {
                let names = self.directory(*directory)?.keys().cloned().collect();
                Ok(Answer::Names(names))
            }
            Operation::Read { file, offset, len } => self.read(*file, *offset, *len),
            Operation::Readlink { link } => match &self.node(*link)?.content {
                Content::Symlink(text) => Ok(Answer::Text(text.clone())),
                _ => Err(Status::Inval),
            },
            Operation::Create {
                directory,
                name,
                how,
                key,
            } => self.create(*directory, name, *how, *key),
            Operation::Mkdir {
                directory,
                name,
                key,
            } => {
                let content = Content::Directory {
                    parent: *directory,
                    names: BTreeMap::new(),
                };
                self.make(*directory, name, *key, content)
            }
            Operation::Symlink {
                directory,
                name,
                target,
                key,
            } => self.make(*directory, name, *key, Content::Symlink(target.clone())),
            Operation::Remove { directory, name } => self.remove(*directory, name),
            Operation::Rmdir { directory, name } => self.remove_directory(*directory, name),
            Operation::Rename { from, old, to, new } => self.rename(*from, old, *to, new),
            Operation::Link {
                file,
                directory,
                name,
            } => self.link(*file, *directory, name),
            Operation::Write {
                file,
                offset,
                bytes,
                stability,
            } => {
                self.file_mut(*file)?
                    .write(*offset, bytes, *stability, loss);
                Ok(Answer::Done)
            }
            Operation::Commit { file } => {
                self.file_mut(*file)?.commit(loss);
                Ok(Answer::Done)
            }
            Operation::Truncate { file, len } => self.truncate(*file, *len, loss),
            Operation::Chmod { object, mode } => {
                self.node_mut(*object)?.mode = *mode;
                Ok(Answer::Done)
            }
        }
    }

    fn node(&self, key: Key) -> Result<&Node, Status> {
        self.nodes.get(&key).ok_or(Status::Stale)
    }

    fn node_mut(&mut self, key: Key) -> Result<&mut Node, Status> {
        self.nodes.get_mut(&key).ok_or(Status::Stale)
    }

    fn directory(&self, key: Key) -> Result<&BTreeMap<Vec<u8>, Key>, Status> {
        match &self.node(key)?.content {
            Content::Directory { names, .. } => Ok(names),
            _ => Err(Status::Notdir),
        }
    }

    fn directory_mut(&mut self, key: Key) -> Result<&mut BTreeMap<Vec<u8>, Key>, Status> {
        match &mut self.node_mut(key)?.content {
            Content::Directory { names, .. } => Ok(names),
            _ => Err(Status::Notdir),
        }
    }

    fn file(&self, key: Key) -> Result<&File, Status> {
        match &self.node(key)?.content {
            Content::File(file) => Ok(file),
            Content::Directory { .. } => Err(Status::Isdir),
            Content::Symlink(_) => Err(Status::Inval),
        }
    }

    fn file_mut(&mut self, key: Key) -> Result<&mut File, Status> {
        match &mut self.node_mut(key)?.content {
            Content::File(file) => Ok(file),
            Content::Directory { .. } => Err(Status::Isdir),
            Content::Symlink(_) => Err(Status::Inval),
        }
    }

    fn lookup(&self, directory: Key, name: &[u8]) -> Result<Key, Status> {
        self.directory(directory)?
            .get(name)
            .copied()
            .ok_or(Status::Noent)
    }

    fn attributes(&self, object: Key) -> Outcome {
        let node = self.node(object)?;
        let size = match &node.content {
            Content::File(file) => Some(file.data.len() as u64),
            Content::Symlink(text) => Some(text.len() as u64),
            Content::Directory { .. } => None,
        };
        Ok(Answer::Attributes {
            kind: node.kind(),
            mode: node.mode,
            links: node.links,
            size,
        })
    }

    fn read(&self, file: Key, offset: u64, len: u32) -> Outcome {
        let data = &self.file(file)?.data;
        let start = usize::try_from(offset)
            .unwrap_or(usize::MAX)
            .min(data.len());
        let end = data.len().min(start.saturating_add(len as usize));
        Ok(Answer::Bytes {
            bytes: data[start..end].to_vec(),
            eof: end == data.len(),
        })
    }

    fn create(&mut self, directory: Key, name: &[u8], how: Create, key: Key) -> Outcome {
        match self.lookup(directory, name) {
            Err(Status::Noent) => {}
            Err(other) => return Err(other),
            Ok(existing) => {
                let node = self.node(existing)?;
                return match how {
                    Create::Unchecked if node.kind() == FileKind::Regular => {
                        Ok(Answer::Object(existing))
                    }
                    Create::Exclusive if node.exclusive && existing == key => {
                        Ok(Answer::Object(existing))
                    }
                    _ => Err(Status::Exist),
                };
            }
        }
        let made = self.make(directory, name, key, Content::File(File::default()))?;
        self.node_mut(key)?.exclusive = how == Create::Exclusive;
        Ok(made)
    }

    fn make(&mut self, directory: Key, name: &[u8], key: Key, content: Content) -> Outcome {
        match self.lookup(directory, name) {
            Err(Status::Noent) => {}
            Err(other) => return Err(other),
            Ok(_) => return Err(Status::Exist),
        }
        let is_directory = matches!(content, Content::Directory { .. });
        let node = Node {
            mode: if is_directory { 0o755 } else { 0o644 },
            links: if is_directory { 2 } else { 1 },
            exclusive: false,
            content,
        };
        self.directory_mut(directory)?.insert(name.to_vec(), key);
        self.nodes.insert(key, node);
        if is_directory {
            self.node_mut(directory)?.links += 1;
        }
        Ok(Answer::Object(key))
    }

    fn unlink(&mut self, key: Key) -> Result<(), Status> {
        let node = self.node_mut(key)?;
        node.links -= 1;
        if node.links == 0 {
            self.nodes.remove(&key);
        }
        Ok(())
    }

    fn remove(&mut self, directory: Key, name: &[u8]) -> Outcome {
        let victim = self.lookup(directory, name)?;
        if self.node(victim)?.kind() == FileKind::Directory {
            return Err(Status::Isdir);
        }
        self.directory_mut(directory)?.remove(name);
        self.unlink(victim)?;
        Ok(Answer::Done)
    }

    fn remove_directory(&mut self, directory: Key, name: &[u8]) -> Outcome {
        let victim = self.lookup(directory, name)?;
        if !self.directory(victim)?.is_empty() {
            return Err(Status::Notempty);
        }
        self.directory_mut(directory)?.remove(name);
        self.nodes.remove(&victim);
        self.node_mut(directory)?.links -= 1;
        Ok(Answer::Done)
    }

    fn rename(&mut self, from: Key, old: &[u8], to: Key, new: &[u8]) -> Outcome {
        // Handles are looked at before names.
        self.node(from).and(self.node(to))?;
        let moved = self.lookup(from, old)?;
        let target = match self.lookup(to, new) {
            Err(Status::Noent) => None,
            other => Some(other?),
        };
        if target == Some(moved) {
            return Ok(Answer::Done);
        }
        let moves_directory = self.node(moved)?.kind() == FileKind::Directory;
        if moves_directory && self.is_below(to, moved) {
            return Err(Status::Inval);
        }
        if let Some(target) = target {
            let replaces_directory = self.node(target)?.kind() == FileKind::Directory;
            if moves_directory && !replaces_directory {
                return Err(Status::Notdir);
            }
            if replaces_directory && !moves_directory {
                return Err(Status::Isdir);
            }
            if replaces_directory {
                self.remove_directory(to, new)?;
            } else {
                self.remove(to, new)?;
            }
        }
        self.directory_mut(from)?.remove(old);
        self.directory_mut(to)?.insert(new.to_vec(), moved);
        if let Content::Directory { parent, .. } = &mut self.node_mut(moved)?.content {
            *parent = to;
            self.node_mut(from)?.links -= 1;
            self.node_mut(to)?.links += 1;
        }
        Ok(Answer::Done)
    }

    fn is_below(&self, directory: Key, ancestor: Key) -> bool {
        let mut at = directory;
        loop {
            if at == ancestor {
                return true;
            }
            match self.nodes.get(&at).map(|node| &node.content) {
                Some(Content::Directory { parent, .. }) if *parent != at => at = *parent,
                _ => return false,
            }
        }
    }

    fn link(&mut self, file: Key, directory: Key, name: &[u8]) -> Outcome {
        self.node(directory)?;
        if self.node(file)?.kind() == FileKind::Directory {
            return Err(Status::Perm);
        }
        match self.lookup(directory, name) {
            Err(Status::Noent) => {}
            Err(other) => return Err(other),
            Ok(_) => return Err(Status::Exist),
        }
        self.directory_mut(directory)?.insert(name.to_vec(), file);
        self.node_mut(file)?.links += 1;
        Ok(Answer::Done)
    }

    fn truncate(&mut self, file: Key, len: u64, loss: Loss) -> Outcome {
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        self.file_mut(file)?.truncate(len, loss);
        Ok(Answer::Done)
    }

    /// True if a reply may have this outcome after a crash that took unsynced bytes.
    fn permits_after_crash(&self, operation: &Operation, outcome: &Outcome) -> bool {
        match (operation, outcome) {
            (Operation::Read { file, offset, .. }, Ok(Answer::Bytes { bytes, eof })) => {
                let file = self.file(*file);
                file.is_ok_and(|file| file.permits(*offset, bytes, *eof))
            }
            (
                Operation::Getattr { object },
                Ok(Answer::Attributes {
                    size: Some(size), ..
                }),
            ) => {
                let file = self.file(*object);
                file.is_ok_and(|file| file.lengths().any(|len| len as u64 == *size))
            }
            _ => false,
        }
    }
}

impl Node {
    fn kind(&self) -> FileKind {
        match self.content {
            Content::File(_) => FileKind::Regular,
            Content::Directory { .. } => FileKind::Directory,
            Content::Symlink(_) => FileKind::Symlink,
        }
    }
}
