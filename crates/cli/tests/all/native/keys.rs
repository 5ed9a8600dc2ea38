//! Access to a volume by its key, and the effect of a new key.

use super::*;
use crate::support::Load;
use gannet::url::Url;
use gannet_cli::session::Session;
use gannet_client::Follow;
use gannet_runtime::Buffer;
use gannet_runtime::tokio_plug::block_on;
use gannet_vfs::FileHandle;

#[test]
fn a_volume_refuses_clients_without_its_key() {
    let bed = Bed::embedded("1");
    let list = ["ls", &bed.url("/")];
    let error = fail(&list, 1);
    assert!(error.contains("--volume-key"), "{error}");
    let with = |key: &str| fail(&[&list[..], &["--volume-key", key]].concat(), 1);
    let error = with(&bed.place.text("nowhere"));
    assert!(error.contains("nowhere"), "{error}");
    // Another volume's.
    let other = bed.place.text("other");
    succeed(&["volume", "create", &other]);
    let error = with(&format!("{other}/client-key"));
    for part in ["client-key", "wrong key", "another volume"] {
        assert!(error.contains(part), "{error}");
    }
    // The right volume, and another key.
    let text = |path: &str| fs::read_to_string(path).unwrap();
    let (ours, theirs) = (text(&bed.key), text(&format!("{other}/client-key")));
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let mixed = [&lines(&ours)[..2], &lines(&theirs)[2..]]
        .concat()
        .join("\n");
    let forged = bed.place.text("forged");
    fs::write(&forged, mixed).unwrap();
    fs::set_permissions(&forged, fs::Permissions::from_mode(0o600)).unwrap();
    let error = with(&forged);
    assert!(error.contains("wrong key"), "{error}");
    fs::set_permissions(&forged, fs::Permissions::from_mode(0o644)).unwrap();
    let error = with(&forged);
    assert!(error.contains("chmod 600"), "{error}");
    fs::write(&forged, "nothing").unwrap();
    fs::set_permissions(&forged, fs::Permissions::from_mode(0o600)).unwrap();
    let error = with(&forged);
    assert!(error.contains("client-key"), "{error}");
    assert_eq!(bed.succeed(&list), "");
    let key = fs::metadata(&bed.key).unwrap();
    assert_eq!(key.permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_new_client_key_locks_out_the_old_one_and_no_nfs_client() {
    let mut bed = Bed::apart(2);
    let file = bed.place.path("file");
    fs::write(&file, bytes(3, 300_000)).unwrap();
    bed.succeed(&["cp", file.to_str().unwrap(), &bed.url("/file")]);
    let nfs = |bed: &Bed| format!("nfs://{}/file", bed.manager.as_ref().unwrap().tcp);
    let old = bed.place.text("old-key");
    fs::copy(&bed.key, &old).unwrap();
    let said = succeed(&["volume", "key", &bed.volume]);
    assert!(said.contains("refuse the old key"), "{said}");
    let mode = |name: &str| {
        let path = format!("{}/{name}", bed.volume);
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    };
    assert_eq!((mode("secret"), mode("client-key")), (0o600, 0o600));
    assert_ne!(fs::read(&old).unwrap(), fs::read(&bed.key).unwrap());
    // Servers that run do not know it yet.
    let url = bed.url("/");
    succeed(&["ls", &url, "--volume-key", &old]);
    let error = fail(&["ls", &url, "--volume-key", &bed.key], 1);
    assert!(error.contains("wrong key"), "{error}");
    bed.manager.take();
    bed.io_servers.clear();
    bed.start_manager();
    for number in 0..2 {
        bed.io_servers.push(None);
        bed.start_io_server(number);
    }
    let error = fail(&["ls", &url, "--volume-key", &old], 1);
    assert!(error.contains("wrong key"), "{error}");
    let output = run(&["cat", &bed.url("/file"), "--volume-key", &bed.key]);
    assert!(output.stdout == fs::read(&file).unwrap());
    let output = run(&["cat", &nfs(&bed)]);
    assert!(output.stdout == fs::read(&file).unwrap());
    // Elsewhere than at the manager's it would be another one.
    let apart = bed.place.path("apart");
    fs::create_dir(&apart).unwrap();
    for name in ["volume.toml", "secret"] {
        fs::copy(format!("{}/{name}", bed.volume), apart.join(name)).unwrap();
    }
    let error = fail(&["volume", "key", apart.to_str().unwrap()], 1);
    assert!(error.contains("host of the manager"), "{error}");
}

#[test]
fn servers_take_a_new_key_at_a_reload_and_end_connections_of_the_old_one() {
    let mut bed = Bed::made("1");
    bed.native = String::from(support::FREE_PORT);
    bed.start_manager_with(&["--no-root-squash"]);
    bed.io_servers.push(None);
    bed.start_io_server(0);
    let (file, old) = (bed.place.path("file"), bed.place.text("old-key"));
    fs::write(&file, bytes(3, 300_000)).unwrap();
    bed.succeed(&["cp", file.to_str().unwrap(), &bed.url("/file")]);
    fs::copy(&bed.key, &old).unwrap();
    let manager = bed.manager.as_ref().unwrap();
    let nfs = format!("nfs://{}", manager.tcp);
    let mut over_nfs = Load::of(&nfs);
    let shape = ["--size", "4M", "--record", "64K", "--seconds", "1000"];
    let rest = ["--op", "randread", "--timeout", "5", "--volume-key", &old];
    let mut native = gannet();
    native.args(["bench", &bed.url("/")]).args(shape).args(rest);
    let native = native.stdout(Stdio::null()).stderr(Stdio::null());
    let mut native = native.spawn().unwrap();
    let url = bed.url("/file");
    let reads = |key: &str| run(&["cat", &url, "--volume-key", key]).status.success();
    // It has connected once its folder is there.
    let root = bed.url("/");
    let has_begun = |_| bed.succeed(&["ls", &root]).contains("bench").then_some(());
    (0..1000).find_map(has_begun).unwrap();
    assert!(reads(&old) && native.try_wait().unwrap().is_none());

    let said = succeed(&["volume", "key", &bed.volume]);
    assert!(said.contains("reload"), "{said}");
    manager.signal("HUP");
    bed.io_servers[0].as_ref().unwrap().signal("HUP");
    let is_taken = |_| (reads(&bed.key) && !reads(&old)).then_some(());
    (0..1000).find_map(is_taken).unwrap();
    // Its connection has ended, and it gets no other one.
    let ended = (0..1000).find_map(|_| {
        assert!(reads(&bed.key));
        native.try_wait().unwrap()
    });
    assert!(!ended.unwrap().success());
    assert!(over_nfs.runs());
    let output = run(&["cat", &format!("{nfs}/file")]);
    assert!(output.stdout == fs::read(&file).unwrap());
}

/// Has an NFS client do something at `url`'s server.
fn over_nfs<T>(url: &str, work: impl AsyncFnOnce(Session, Url) -> T) -> T {
    let (url, options) = (Url::parse(url).unwrap(), Options::parse_from(["gannet"]));
    let done = block_on(async move |runtime| {
        let session = Session::connect(&runtime, &url, &options.client).await;
        work(session.unwrap(), url).await
    });
    done.unwrap()
}

#[test]
fn a_handle_of_an_nfs_client_outlives_the_clients_key() {
    let mut bed = Bed::apart(1);
    let (file, old) = (bed.place.path("file"), bed.place.text("old-key"));
    fs::write(&file, bytes(3, 50_000)).unwrap();
    bed.succeed(&["cp", file.to_str().unwrap(), &bed.url("/file")]);
    let nfs = |bed: &Bed, path: &str| {
        let server = bed.manager.as_ref().unwrap();
        format!("nfs://{}{path}", server.tcp)
    };
    let held = over_nfs(&nfs(&bed, "/file"), async |session, url| {
        session.node(&url, Follow::No).await.unwrap().handle
    });

    fs::copy(&bed.key, &old).unwrap();
    succeed(&["volume", "key", &bed.volume]);
    bed.manager.take();
    bed.io_servers.clear();
    bed.start_manager();
    bed.io_servers.push(None);
    bed.start_io_server(0);

    // No name is looked up: what the client holds is all that it sends.
    let read = over_nfs(&nfs(&bed, "/"), async |session, _| {
        let objects = session.objects();
        let memory = Buffer::zeroed(64 << 10);
        let read = objects.read_into(&held, 0, 64 << 10, memory).await;
        let (read, memory) = read.unwrap();
        let mut forged = held.as_bytes().to_vec();
        *forged.last_mut().unwrap() ^= 1;
        let forged = FileHandle::new(&forged).unwrap();
        let forged = objects.attributes(&forged).await;
        assert!(forged.is_err(), "any handle would do");
        memory[..read.count as usize].to_vec()
    });
    assert!(read == bytes(3, 50_000));
    let error = fail(&["ls", &bed.url("/"), "--volume-key", &old], 1);
    assert!(error.contains("wrong key"), "{error}");
    assert_eq!(bed.succeed(&["ls", &bed.url("/")]), "file\n");
}
