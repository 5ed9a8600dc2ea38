//! Calls that are executed twice, because the reply to the first transmission was lost and the server forgot it.

#![allow(clippy::unwrap_used)]

use crate::support;

use gannet_nfs::client::Client;
use gannet_nfs::server::Server;
use gannet_rpc::{Call, ClientConfig, Persistence, Program, Reply, Service};
use gannet_runtime::{Handle, Notify};
use gannet_sim::store::SimStore;
use gannet_vfs::{EntryName, NodeKind, Status};
use gannet_wire::nfs3::Nfsstat;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use support::{Addresses, Calls, Files, Running, export, mount, run, status, store, user};

/// The instructions of a test to its server.
#[derive(Default)]
struct Switch {
    /// The next call is executed, and its reply never leaves.
    swallow: Cell<bool>,
    /// The next call is executed, and its reply says that the server is busy.
    busy: Cell<bool>,
    swallowed: Cell<u32>,
    /// Ends what was swallowed.
    end: Notify,
}

/// A server that remembers no replies, as one that was restarted.
struct Forgetful {
    server: Server<SimStore>,
    switch: Rc<Switch>,
}

impl Service for Forgetful {
    fn programs(&self) -> &[Program] {
        self.server.programs()
    }

    fn is_cached(&self, _: u32, _: u32) -> bool {
        false
    }

    fn locate_payload(&self, program: u32, procedure: u32, prefix: &[u8]) -> Option<usize> {
        self.server.locate_payload(program, procedure, prefix)
    }

    async fn call(&self, call: &Call, reply: &mut Reply) {
        if self.switch.busy.take() {
            // The client does not read the results behind it.
            reply.results().u32(Nfsstat::JUKEBOX.code());
        }
        self.server.call(call, reply).await;
        if self.switch.swallow.take() {
            self.switch.swallowed.set(self.switch.swallowed.get() + 1);
            self.switch.end.notified().await;
        }
    }
}

/// Runs a story against a forgetful server, over both ways.
fn story<F: Future<Output = ()>>(body: impl Fn(Files, Rc<Switch>) -> F) {
    run(async |runtime: Handle| {
        let store = store(&runtime);
        let switch = Rc::<Switch>::default();
        let service = Forgetful {
            server: Server::new(vec![(export("/"), store)]).unwrap(),
            switch: Rc::clone(&switch),
        };
        let running = Running::serve(&runtime, service, Addresses::any());
        let config = ClientConfig {
            credential: user(1000, &[1000]),
            reply_timeout: Duration::from_millis(300),
            backoff_min: Duration::from_millis(1),
            persistence: Persistence::Hard,
            ..ClientConfig::default()
        };
        let rpc = gannet_rpc::Client::new(Rc::clone(&runtime), running.target(), config);
        let client = Client::new(runtime.clone(), rpc).forgiving_echoes();
        let files = mount(&runtime, client, 1000, &[1000], b"/").await;
        let files = files.unwrap();
        body(files, Rc::clone(&switch)).await;
        switch.end.notify();
        running.stop().await;
    });
}

#[test]
fn a_call_that_was_done_already_is_done() {
    story(async |files, switch| {
        let (client, root) = (files.client(), files.root());
        let plain = gannet_vfs::SetAttributes::default();
        switch.swallow.set(true);
        let made = client.mkdir(&root, b"made", &plain).await.unwrap();
        let there = client.lookup(&root, b"made").await.unwrap();
        assert_eq!(made.handle, there.handle);
        switch.end.notify();

        switch.swallow.set(true);
        client
            .rename(
                EntryName::new(&root, b"made"),
                EntryName::new(&root, b"moved"),
            )
            .await
            .unwrap();
        assert_eq!(
            client.lookup(&root, b"moved").await.unwrap().handle,
            made.handle
        );
        switch.end.notify();

        switch.swallow.set(true);
        client.rmdir(&root, b"moved").await.unwrap();
        assert_eq!(status(client.lookup(&root, b"moved").await), Status::Noent);
        switch.end.notify();

        client
            .create(&root, b"file", &gannet_vfs::CreateMode::Guarded(plain))
            .await
            .unwrap();
        switch.swallow.set(true);
        client.remove(&root, b"file").await.unwrap();
        assert_eq!(status(client.lookup(&root, b"file").await), Status::Noent);
        assert_eq!(switch.swallowed.get(), 4);
    });
}

#[test]
fn a_node_or_link_that_was_made_already_is_made() {
    story(async |files, switch| {
        let (client, root) = (files.client(), files.root());
        let plain = gannet_vfs::SetAttributes::default();
        switch.swallow.set(true);
        let made = client.symlink(&root, b"symlink", b"target", &plain).await;
        let there = client.lookup(&root, b"symlink").await.unwrap();
        assert_eq!(made.unwrap().handle, there.handle);
        switch.end.notify();

        switch.swallow.set(true);
        let made = client.mknod(&root, b"fifo", NodeKind::Fifo, &plain).await;
        let there = client.lookup(&root, b"fifo").await.unwrap();
        assert_eq!(made.unwrap().handle, there.handle);
        switch.end.notify();

        let file = client
            .create(&root, b"file", &gannet_vfs::CreateMode::Guarded(plain))
            .await
            .unwrap();
        switch.swallow.set(true);
        client.link(&file.handle, &root, b"link").await.unwrap();
        let links = client.getattr(&file.handle).await.unwrap().link_count;
        assert_eq!((links, switch.swallowed.get()), (2, 3));
    });
}

/// A volume's NFS server is busy when its I/O server does not answer in time, and has changed the names nevertheless.
#[test]
fn a_change_that_a_busy_server_has_executed_counts_as_done() {
    story(async |files, switch| {
        let (client, root) = (files.client(), files.root());
        let plain = gannet_vfs::SetAttributes::default();
        switch.busy.set(true);
        let made = client.mkdir(&root, b"made", &plain).await.unwrap();
        switch.busy.set(true);
        let from = EntryName::new(&root, b"made");
        let to = EntryName::new(&root, b"moved");
        client.rename(from, to).await.unwrap();
        let there = client.lookup(&root, b"moved").await.unwrap();
        assert_eq!(made.handle, there.handle);
        switch.busy.set(true);
        client.rmdir(&root, b"moved").await.unwrap();
        assert_eq!(status(client.lookup(&root, b"moved").await), Status::Noent);
    });
}

#[test]
fn a_refusal_of_a_call_that_was_sent_once_is_an_error() {
    story(async |files, switch| {
        let (client, root) = (files.client(), files.root());
        let plain = gannet_vfs::SetAttributes::default();
        client.mkdir(&root, b"there", &plain).await.unwrap();
        // A connection that was lost with an earlier call changes nothing.
        switch.swallow.set(true);
        client.getattr(&root).await.unwrap();
        assert_eq!(switch.swallowed.get(), 1);
        let made = client.mkdir(&root, b"there", &plain).await;
        assert_eq!(status(made), Status::Exist);
        let moved = client
            .rename(
                EntryName::new(&root, b"none"),
                EntryName::new(&root, b"there"),
            )
            .await;
        assert_eq!(status(moved), Status::Noent);
        assert_eq!(status(client.rmdir(&root, b"none").await), Status::Noent);
        assert_eq!(status(client.remove(&root, b"none").await), Status::Noent);
    });
}

#[test]
fn a_refused_repetition_is_an_error_if_another_object_has_the_name() {
    story(async |files, switch| {
        let (client, root) = (files.client(), files.root());
        let plain = gannet_vfs::SetAttributes::default();
        client
            .create(&root, b"file", &gannet_vfs::CreateMode::Guarded(plain))
            .await
            .unwrap();
        switch.swallow.set(true);
        let made = client.mkdir(&root, b"file", &plain).await;
        assert_eq!(status(made), Status::Exist, "a file is there");
        switch.end.notify();
        switch.swallow.set(true);
        let moved = client
            .rename(
                EntryName::new(&root, b"none"),
                EntryName::new(&root, b"nowhere"),
            )
            .await;
        assert_eq!(status(moved), Status::Noent, "nothing was moved");
        switch.end.notify();

        let others = client
            .symlink(&root, b"symlink", b"elsewhere", &plain)
            .await
            .unwrap();
        switch.swallow.set(true);
        let made = client.symlink(&root, b"symlink", b"target", &plain).await;
        assert_eq!(status(made), Status::Exist, "it points elsewhere");
        switch.end.notify();
        switch.swallow.set(true);
        let made = client.mknod(&root, b"file", NodeKind::Fifo, &plain).await;
        assert_eq!(status(made), Status::Exist, "a file is there");
        switch.end.notify();
        let device = |minor| NodeKind::CharacterDevice { major: 1, minor };
        client
            .mknod(&root, b"device", device(3), &plain)
            .await
            .unwrap();
        switch.swallow.set(true);
        let made = client.mknod(&root, b"device", device(5), &plain).await;
        assert_eq!(status(made), Status::Exist, "another device is there");
        switch.end.notify();
        switch.swallow.set(true);
        let linked = client.link(&others.handle, &root, b"file").await;
        assert_eq!(status(linked), Status::Exist, "the name is another file's");
        assert_eq!(switch.swallowed.get(), 6);
    });
}
