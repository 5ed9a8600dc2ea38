//! Volumes that a program makes, serves and uses.

use crate::client::transfers_of_registered_memory;
use gannet::server::ServerError;
use gannet::volume::{CreateOptions, DescriptionError, NewIoServers, VolumeError, open_metadata};
use gannet::{Client, ConnectError, ConnectOptions, Error, Server, Status, Volume};
use gannet_meta::groups::{Groups, groups};
use gannet_meta::{MetaStore, Table};
use gannet_testing::pattern;
use std::fs;
use std::path::Path;

fn options(io_servers: usize) -> CreateOptions {
    CreateOptions {
        io_servers: NewIoServers::Inside(io_servers),
        stripe_unit: 4096,
        ..CreateOptions::default()
    }
}

fn run<T>(story: impl Future<Output = T>) -> T {
    tokio::runtime::Runtime::new().unwrap().block_on(story)
}

async fn connect(server: &Server, volume: &Volume) -> Client {
    let options = ConnectOptions::default().volume_key(volume.client_key().unwrap());
    let url = server.native_url().unwrap();
    Client::connect_with(&url, options).await.unwrap()
}

/// Objects of files below the folders of a volume's I/O servers.
fn objects(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).unwrap().map(|it| it.unwrap().path());
    let folders = entries.filter(|it| it.is_dir());
    folders.map(|it| fs::read_dir(it).unwrap().count()).sum()
}

#[test]
fn a_volume_is_made_served_and_used() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("volume");
    let volume = Volume::create(&path, &options(2)).unwrap();
    let bytes = pattern(1_000_003);
    let builder = Server::builder().volume(&path).cores(2);
    let server = builder.no_root_squash().start().unwrap();
    run(async {
        let client = connect(&server, &volume).await;
        client.write("file", bytes.clone()).await.unwrap();
        assert_eq!(client.read("file").await.unwrap(), bytes);
        transfers_of_registered_memory(&client).await;
        // NFS serves the same.
        let nfs = Client::connect(&server.rdma_url()).await.unwrap();
        assert_eq!(nfs.read("file").await.unwrap(), bytes);
    });
    let folders = volume.folders();
    assert_eq!(
        folders.iter().map(|it| objects(it)).collect::<Vec<_>>(),
        [1, 1]
    );
    // One process at a time has it.
    let again = Server::builder().volume(&path).start().err().unwrap();
    assert!(
        matches!(again, ServerError::Volume(VolumeError::ServedElsewhere)),
        "{again}"
    );
    server.stop().unwrap();
    let server = Server::builder().volume(&path).start().unwrap();
    run(async {
        let client = connect(&server, &volume).await;
        assert_eq!(client.read("file").await.unwrap(), bytes);
    });
    server.stop().unwrap();
}

#[test]
fn a_client_without_the_key_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("volume");
    let volume = Volume::create(&path, &options(1)).unwrap();
    let old = volume.client_key().unwrap();
    volume.change_client_key().unwrap();
    let server = Server::builder().volume(&path).start().unwrap();
    run(async {
        let url = server.native_url().unwrap();
        let refused = Client::connect(&url).await.err().unwrap();
        assert!(matches!(refused, ConnectError::NoKey), "{refused}");
        let options = ConnectOptions::default().volume_key(old);
        let refused = Client::connect_with(&url, options).await.err().unwrap();
        assert!(matches!(refused, ConnectError::Volume(_)), "{refused}");
        let client = connect(&server, &volume).await;
        let none = client.read("file").await.unwrap_err();
        assert!(matches!(none, Error::Status(Status::Noent)), "{none}");
    });
    server.stop().unwrap();
}

#[test]
fn a_volume_grows_while_nobody_serves_it() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("volume");
    let mut volume = Volume::create(&path, &options(1)).unwrap();
    let server = Server::builder().volume(&path).start().unwrap();
    let served = volume.extend(&NewIoServers::Inside(1), &[]).unwrap_err();
    assert!(matches!(served, VolumeError::ServedElsewhere), "{served}");
    server.stop().unwrap();
    let disk = place.path().join("disk");
    volume
        .extend(&NewIoServers::Folders(vec![disk]), &[])
        .unwrap();
    assert_eq!(volume.description.io_server.len(), 2);
    assert_eq!(Volume::open(&path).unwrap().description, volume.description);
    let server = Server::builder().volume(&path).start().unwrap();
    run(async {
        let client = connect(&server, &volume).await;
        client.write("file", pattern(10_000)).await.unwrap();
        assert_eq!(client.read("file").await.unwrap(), pattern(10_000));
    });
    server.stop().unwrap();
    // A disk that is not mounted leaves an empty folder.
    let folder = &volume.folders()[1];
    fs::rename(folder, place.path().join("away")).unwrap();
    fs::create_dir(folder).unwrap();
    let refused = Server::builder().volume(&path).start().err().unwrap();
    assert!(
        matches!(
            &refused,
            ServerError::Volume(VolumeError::Claim { number: 1, .. })
        ),
        "{refused}"
    );
}

#[test]
fn a_volume_refuses_wrong_folders_counts_and_formats() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("volume");
    let none = Volume::open(&path).unwrap_err();
    assert!(matches!(none, VolumeError::Unreadable { .. }), "{none}");
    for servers in [0, 257] {
        let refused = Volume::create(&path, &options(servers)).unwrap_err();
        assert!(
            matches!(refused, VolumeError::IoServersCount(count) if count == servers),
            "{refused}"
        );
    }
    assert!(!path.exists());
    fs::create_dir(&path).unwrap();
    fs::write(path.join("something"), "").unwrap();
    let refused = Volume::create(&path, &options(1)).unwrap_err();
    assert!(matches!(refused, VolumeError::NotEmpty(_)), "{refused}");
    let disk = place.path().join("disk");
    let nested = CreateOptions {
        io_servers: NewIoServers::Folders(vec![disk.clone(), disk.join("inside")]),
        ..CreateOptions::default()
    };
    let refused = Volume::create(&place.path().join("new"), &nested).unwrap_err();
    assert!(matches!(refused, VolumeError::Nested(_)), "{refused}");
    assert!(!disk.exists());
    assert!(!place.path().join("new").exists(), "nothing is left behind");
    let volume = Volume::create(&place.path().join("other"), &options(1)).unwrap();
    let file = volume.path.join("volume.toml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("format = 3", "format = 9")).unwrap();
    let newer = Volume::open(&volume.path).unwrap_err();
    assert!(
        matches!(
            newer,
            VolumeError::Description {
                why: DescriptionError::Format(_),
                ..
            }
        ),
        "{newer}"
    );
}

/// The servers that are alone in each group of a volume, by its metadata.
fn groups_of(volume: &Volume) -> Vec<u32> {
    let metadata = open_metadata(volume).unwrap();
    let mut known = Ok(Groups::new(Vec::new()));
    let servers = volume.description.io_server.len() as u32;
    let read = metadata.read(&mut |view| known = groups(view, servers));
    read.unwrap();
    let groups = known.unwrap();
    let numbers = 0..groups.count();
    numbers.map(|it| groups.primary(it).unwrap()).collect()
}

#[test]
fn a_volume_from_before_groups_gets_some_when_it_is_extended() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("volume");
    let volume = Volume::create(&path, &options(2)).unwrap();
    assert_eq!(groups_of(&volume), [0, 1, 0, 1, 0, 1, 0, 1]);
    let metadata = open_metadata(&volume).unwrap();
    let forgotten = metadata.commit(&mut |transaction| {
        let mut numbers = 0..8u32;
        numbers.try_for_each(|number| {
            let key = [&b"group "[..], &number.to_be_bytes()].concat();
            transaction.delete(Table::Volume, &key)
        })
    });
    forgotten.unwrap();
    drop(metadata);
    let file = path.join("volume.toml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("format = 3", "format = 2")).unwrap();
    let mut volume = Volume::open(&path).unwrap();
    assert_eq!(groups_of(&volume), [0, 1], "each server is a group");
    volume.extend(&NewIoServers::Inside(1), &[]).unwrap();
    assert_eq!(groups_of(&volume), [0, 1, 2, 2, 2, 2]);
    assert_eq!(Volume::open(&path).unwrap().description.format, 3);
}
