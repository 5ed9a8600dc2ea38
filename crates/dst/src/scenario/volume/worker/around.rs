//! Operations around a file: another name, another mode, another directory, a symbolic link to it. Each restores the
//! former state.

use super::{Mount, Worker, name_of};
use gannet_sim::Random;
use gannet_vfs::{Attributes, EntryName, FileHandle, SetAttributes, Status, Vfs};

/// One operation of a worker around a file, which it undoes at its end.
#[derive(Debug, Clone, Copy)]
pub(super) enum Around {
    Link,
    Mode(u32),
    Directory,
    Symlink([u8; 4]),
}

/// First letters of temporary names.
const PREFIXES: [u8; 3] = [LINK, DIRECTORY, SYMLINK];
const LINK: u8 = b'L';
const DIRECTORY: u8 = b'D';
const SYMLINK: u8 = b'S';

/// True for a temporary name that a worker's earlier incarnation left behind.
pub(super) fn is_left_over(name: &[u8]) -> bool {
    matches!(name, [prefix, _] if PREFIXES.contains(prefix))
}

impl Around {
    pub(super) fn draw(random: &Random) -> Around {
        match random.below(4) {
            0 => Around::Link,
            1 => Around::Mode(random.below(0o1000) as u32),
            2 => Around::Directory,
            _ => {
                let bytes = (random.next() as u32).to_be_bytes();
                // A text has no NUL.
                Around::Symlink(bytes.map(|byte| byte.max(1)))
            }
        }
    }
}

/// A store that is looked at through, and its root directory.
struct View<'a, V> {
    fs: &'a V,
    root: &'a FileHandle,
}

impl Worker {
    /// Does the operation by NFS if the machine mounts the volume so, otherwise by the worker's client.
    pub(super) async fn go_around(&self, name: usize, around: Around) -> Result<(), String> {
        let (stage, client) = (&self.stage, self.seat().client);
        match (self.mount.as_deref(), &stage.gateway) {
            (Some(Mount::Export(_)), Some(gateway)) => {
                let (fs, root) = gateway.mount(stage, &stage.clients[client]).await;
                let (fs, root) = (&fs, &root);
                self.go_around_in(View { fs, root }, name, around).await
            }
            _ => {
                let (fs, root) = (&self.fs, &self.directory);
                self.go_around_in(View { fs, root }, name, around).await
            }
        }
    }

    async fn go_around_in<V: Vfs>(
        &self,
        view: View<'_, V>,
        name: usize,
        around: Around,
    ) -> Result<(), String> {
        if self.content(name).is_none() {
            return Ok(());
        }
        // An earlier incarnation may have begun it.
        let is_first = self.seat().reached.begun.replace(1) == 0;
        let own_name = name_of(name);
        match around {
            Around::Link => self.link(&view, &own_name, is_first).await,
            Around::Mode(mode) => self.set_mode(&view, &own_name, mode, is_first).await,
            Around::Directory => self.go_through_directory(&view, &own_name, is_first).await,
            Around::Symlink(text) => self.symlink(&view, &own_name, &text, is_first).await,
        }
    }

    /// Repeats an operation until it succeeds, or fails with `expected`, which shows that an earlier attempt
    /// succeeded.
    async fn until<T>(
        &self,
        what: &str,
        expected: Status,
        attempt: impl AsyncFn() -> Result<T, Status>,
    ) -> Result<Option<T>, String> {
        loop {
            match attempt().await {
                Ok(done) => return Ok(Some(done)),
                Err(error) if error == expected => return Ok(None),
                Err(error) => self.try_later(what, error).await?,
            }
        }
    }

    async fn see<V: Vfs>(
        &self,
        view: &View<'_, V>,
        directory: &FileHandle,
        name: &[u8],
    ) -> Result<(FileHandle, Attributes), String> {
        let look = async || view.fs.lookup(&self.caller, directory, name).await.0;
        let found = self.until("lookup", Status::Noent, look).await?;
        found.ok_or_else(|| format!("{} is gone", name.escape_ascii()))
    }

    async fn drop_name<V: Vfs>(&self, view: &View<'_, V>, name: &[u8]) -> Result<(), String> {
        let remove = async || view.fs.remove(&self.caller, view.root, name).await.result;
        self.until("remove", Status::Noent, remove).await?;
        Ok(())
    }

    async fn link<V: Vfs>(
        &self,
        view: &View<'_, V>,
        name: &[u8; 1],
        is_first: bool,
    ) -> Result<(), String> {
        let other = [LINK, name[0]];
        // A mount may give the file one more name, and remove it meanwhile.
        let (file, before) = self.see(view, view.root, name).await?;
        if is_first {
            let link = async || {
                let linked = view.fs.link(&self.caller, &file, view.root, &other).await;
                linked.0.result
            };
            self.until("link", Status::Exist, link).await?;
            let (linked, attributes) = self.see(view, view.root, &other).await?;
            let links = attributes.link_count;
            if linked != file || !(2..=before.link_count + 1).contains(&links) {
                return Err(format!(
                    "another name stands for another file, or of {links}"
                ));
            }
        }
        self.drop_name(view, &other).await?;
        let (_, attributes) = self.see(view, view.root, name).await?;
        if is_first && attributes.link_count > before.link_count {
            return Err(String::from("a name that was removed still counts"));
        }
        Ok(())
    }

    async fn set_mode<V: Vfs>(
        &self,
        view: &View<'_, V>,
        name: &[u8; 1],
        mode: u32,
        is_first: bool,
    ) -> Result<(), String> {
        let (file, _) = self.see(view, view.root, name).await?;
        let change = SetAttributes {
            mode: Some(mode),
            ..SetAttributes::default()
        };
        let set = async || {
            let set = view.fs.set_attributes(&self.caller, &file, &change, None);
            set.await.result
        };
        self.until("chmod", Status::Exist, set).await?;
        let own = View {
            fs: &self.fs,
            root: &self.directory,
        };
        let (_, attributes) = self.see(&own, own.root, name).await?;
        if attributes.mode == mode || !is_first {
            Ok(())
        } else {
            Err(format!("the mode is {:o}", attributes.mode))
        }
    }

    async fn go_through_directory<V: Vfs>(
        &self,
        view: &View<'_, V>,
        name: &[u8; 1],
        is_first: bool,
    ) -> Result<(), String> {
        let (caller, plain) = (&self.caller, SetAttributes::default());
        let directory = [DIRECTORY, name[0]];
        let make = async || {
            let made = view
                .fs
                .make_directory(caller, view.root, &directory, &plain);
            made.await.result
        };
        self.until("mkdir", Status::Exist, make).await?;
        let (inside, _) = self.see(view, view.root, &directory).await?;
        let names = [
            EntryName::new(view.root, name),
            EntryName::new(&inside, name),
        ];
        let [there, back] = [[0, 1], [1, 0]].map(|order| order.map(|name: usize| names[name]));
        let rename = async |[from, to]: [EntryName<'_>; 2]| {
            let rename = async || view.fs.rename(caller, from, to).await.0;
            self.until("rename", Status::Noent, rename).await
        };
        if is_first {
            rename(there).await?;
            self.see(view, &inside, name).await?;
            let remove = async || {
                let removed = view
                    .fs
                    .remove_directory(caller, view.root, &directory)
                    .await;
                match removed.result {
                    Ok(()) => Err(Status::Exist),
                    Err(Status::Notempty) => Ok(()),
                    Err(error) => Err(error),
                }
            };
            let refused = self.until("rmdir", Status::Exist, remove).await?;
            refused.ok_or("a directory goes with a file in it")?;
        }
        rename(back).await?;
        let remove = async || {
            let removed = view
                .fs
                .remove_directory(caller, view.root, &directory)
                .await;
            removed.result
        };
        self.until("rmdir", Status::Noent, remove).await?;
        self.see(view, view.root, name).await?;
        Ok(())
    }

    async fn symlink<V: Vfs>(
        &self,
        view: &View<'_, V>,
        name: &[u8; 1],
        text: &[u8],
        is_first: bool,
    ) -> Result<(), String> {
        let (caller, plain, symlink) = (&self.caller, SetAttributes::default(), [SYMLINK, name[0]]);
        if is_first {
            let make = async || {
                let made = (view.fs).make_symlink(caller, view.root, &symlink, text, &plain);
                made.await.result
            };
            self.until("symlink", Status::Exist, make).await?;
            let (link, _) = self.see(view, view.root, &symlink).await?;
            let read = async || view.fs.read_link(caller, &link).await;
            let read = self.until("readlink", Status::Noent, read).await?;
            let read = read.map(|(read, _)| read);
            if read.as_deref() != Some(text) {
                return Err(format!("a symbolic link says {read:?}"));
            }
        }
        self.drop_name(view, &symlink).await
    }
}
