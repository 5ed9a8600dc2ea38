//! `gannet rm`: single names, and trees with many removals under way.

use crate::cli::RmOptions;
use crate::failure::{Explain, Failure};
use crate::files::each;
use crate::process::Signals;
use crate::progress::{Progress, Work};
use crate::session::{self, Session, with_session};
use crate::show;
use crate::tree::{Failures, Identity, Visitor, Walk};
use gannet::url::Url;
use gannet_client::{Error, Follow, Node};
use gannet_vfs::{FileHandle, FileKind, Status};
use std::rc::Rc;

/// Removes what the command line says.
///
/// # Errors
/// Something cannot be removed.
pub(crate) fn run(options: &RmOptions) -> Result<(), Failure> {
    session::run(async |runtime| {
        let mut signals = Signals::install().explain(|| String::from("cannot handle signals"))?;
        let is_quiet = options.tree.quiet || !options.tree.recursive;
        let progress = Rc::new(Progress::new(Work::Remove, is_quiet));
        let removal = each(&options.urls, async |url| {
            let removing = async |session| remove(&session, url, options, &progress).await;
            with_session(&runtime, url, &options.client, removing).await
        });
        let removed = tokio::select! {
            removed = removal => removed,
            signal = signals.next() => {
                let why = format!("interrupted by {signal}");
                Err(Failure::new("the removal is not complete", why))
            }
        };
        progress.finish();
        if progress.has_begun() {
            progress.report();
        }
        removed
    })
}

async fn remove(
    session: &Session,
    url: &Url,
    options: &RmOptions,
    progress: &Rc<Progress>,
) -> Result<(), Failure> {
    let what = || format!("cannot remove {url}");
    let path = session.path_of(url);
    if path.is_empty() {
        return Err(Failure::new(what(), "it is the root of an export"));
    }
    let found = session.files().walk(&path, Follow::No).await;
    let node = match found {
        Ok(node) => node,
        Err(Error::Status(Status::Noent)) if options.force => return Ok(()),
        Err(error) => return Err(Failure::new(what(), error)),
    };
    if node.attributes.kind != FileKind::Directory {
        return session.files().remove(&path).await.explain(what);
    }
    if !options.tree.recursive {
        return Err(Failure::new(what(), Status::Isdir)
            .hint("-r removes directories with everything in them"));
    }
    let failures = Rc::new(Failures::default());
    let remover = Rc::new(Remover {
        session: session.clone(),
        progress: Rc::clone(progress),
    });
    let mut walk = Walk::new(remover, options.tree.jobs, Rc::clone(&failures));
    walk.add(Object::Top(url.clone(), node));
    walk.run().await;
    failures.report(&what(), "removed")?;
    session.files().remove(&path).await.explain(what)?;
    progress.directory_done();
    Ok(())
}

/// A directory that is being emptied.
struct Directory {
    url: Url,
    handle: FileHandle,
    /// Where it is, unless that is where the removal began.
    entry: Option<(Rc<Directory>, Vec<u8>)>,
}

enum Object {
    /// The directory that the user named.
    Top(Url, Node),
    /// A name in a directory.
    Below(Rc<Directory>, show::Shown),
}

struct Remover {
    session: Session,
    progress: Rc<Progress>,
}

impl Visitor for Remover {
    type Object = Object;
    type Directory = Rc<Directory>;

    fn is_directory(&self, object: &Object) -> bool {
        match object {
            Object::Top(..) => true,
            Object::Below(_, entry) => entry.node.attributes.kind == FileKind::Directory,
        }
    }

    fn identity(&self, object: &Object) -> Option<Identity> {
        let node = match object {
            Object::Top(_, node) => node,
            Object::Below(_, entry) => &entry.node,
        };
        Some((node.attributes.fsid, node.attributes.fileid))
    }

    fn name(&self, object: &Object) -> String {
        match object {
            Object::Top(url, _) => url.to_string(),
            Object::Below(directory, entry) => directory.url.child(&entry.name).to_string(),
        }
    }

    async fn visit(&self, object: Object) -> Result<(), Failure> {
        let Object::Below(directory, entry) = &object else {
            return Ok(());
        };
        let objects = self.session.objects();
        let removed = objects.remove(&directory.handle, &entry.name).await;
        removed.explain(|| format!("cannot remove {}", self.name(&object)))?;
        self.progress.add(entry.node.attributes.size);
        self.progress.file_done();
        Ok(())
    }

    async fn enter(&self, object: Object) -> Result<(Rc<Directory>, Vec<Object>), Failure> {
        let (url, node, entry) = match object {
            Object::Top(url, node) => (url, node, None),
            Object::Below(above, entry) => {
                let url = above.url.child(&entry.name);
                (url, entry.node, Some((above, entry.name)))
            }
        };
        let entries = show::list(&self.session, &url, &node).await?;
        let directory = Rc::new(Directory {
            url,
            handle: node.handle,
            entry,
        });
        for entry in &entries {
            let attributes = &entry.node.attributes;
            if attributes.kind != FileKind::Directory {
                self.progress.expect(1, attributes.size);
            }
        }
        let below = entries.into_iter();
        let below = below.map(|entry| Object::Below(Rc::clone(&directory), entry));
        Ok((Rc::clone(&directory), below.collect()))
    }

    /// A directory with something left in it stays.
    async fn leave(&self, directory: Rc<Directory>, is_complete: bool) -> Result<(), Failure> {
        let Some((above, name)) = directory.entry.as_ref().filter(|_| is_complete) else {
            return Ok(());
        };
        let objects = self.session.objects();
        let removed = objects.remove_directory(&above.handle, name).await;
        removed.explain(|| format!("cannot remove {}", directory.url))?;
        self.progress.directory_done();
        Ok(())
    }

    fn counted(&self) {
        self.progress.counted();
    }
}
