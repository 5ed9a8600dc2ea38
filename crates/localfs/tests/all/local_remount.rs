//! Rights behind a change of the mount, which no stamp of an object shows.

#![allow(clippy::unwrap_used)]

use crate::local_rights::{LocalProgram, bob, may_write, read, set_mode, write};
use crate::support::{World, is_root};

use gannet_localfs::HandleScheme;
use gannet_vfs::Vfs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// A file system in memory, mounted in a served directory until it is dropped.
struct Mounted(PathBuf);

impl Mounted {
    /// Whether mount(8) succeeded with these options.
    fn mount(&self, options: &[&str]) -> bool {
        let mut command = Command::new("mount");
        command.args(options).arg(&self.0).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Lazily: at the end of a test that fails, the server may have it open.
        let mut command = Command::new("umount");
        let _ = command
            .arg("-l")
            .arg(&self.0)
            .stderr(Stdio::null())
            .status();
    }
}

#[test]
fn a_file_system_that_is_mounted_for_writing_again_is_written() {
    if !is_root() {
        return;
    }
    let world = World::new(HandleScheme::Automatic);
    let mounted = Arc::new(Mounted(world.path()));
    if !mounted.mount(&["-t", "tmpfs", "none"]) {
        gannet_testing::left_out("nothing can be mounted here");
        return;
    }
    // Not through the server: an open descriptor for writing would keep the file system from becoming read-only.
    let local = LocalProgram::start().at(world.path());
    local.run("f", |file| {
        std::fs::write(file, "data").unwrap();
        set_mode(file, 0o606);
    });
    let remount = |options: &'static str| {
        let mounted = Arc::clone(&mounted);
        let done = local.run("f", move |_| mounted.mount(&["-o", options]));
        assert!(done, "{options}");
    };
    world.serve(|store| async move {
        let (found, _) = store.lookup(&bob(), &store.root(), b"f").await;
        let file = found.unwrap().0;
        remount("remount,ro");
        // By now answers are remembered.
        std::thread::sleep(Duration::from_millis(40));
        for _ in 0..2 {
            assert!(!may_write(&store, &file).await);
            read(&store, &bob(), &file).await.unwrap();
        }
        remount("remount,rw");
        assert!(may_write(&store, &file).await);
        write(&store, &bob(), &file).await.unwrap();
    });
}
