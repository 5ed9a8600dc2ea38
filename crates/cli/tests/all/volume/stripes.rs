//! Where the files of a volume lie.

use super::*;

#[test]
fn an_extended_volume_keeps_its_files_and_stripes_new_ones_wider() {
    let place = Place::new();
    let volume = create(&place, &["--io-servers", "1", "--stripe-unit", "4K"]);
    let server = serve(&place, &volume);
    let extend = ["volume", "extend", &volume];
    let error = fail(&[&extend[..], &["--io-servers", "1"]].concat(), 1);
    assert!(
        error.contains("another process serves this volume"),
        "{error}"
    );
    let file = place.text("file");
    fs::write(&file, bytes(1, 100_000)).unwrap();
    succeed(&["cp", &file, &format!("{}/old", server.urls()[0])]);
    drop(server);
    let text = succeed(&[&extend[..], &["--io-servers", "2"]].concat());
    assert!(text.contains("has 3 I/O servers now"), "{text}");
    let disk = place.text("disk");
    succeed(&[&extend[..], &["--io-server", &disk]].concat());
    let error = fail(&[&extend[..], &["--io-server", &disk]].concat(), 1);
    assert!(error.contains("cannot put an I/O server into"), "{error}");
    let error = fail(&[&extend[..], &["--io-servers", "256"]].concat(), 2);
    assert!(error.contains("at most 256"), "{error}");

    let server = serve(&place, &volume);
    let key = format!("{volume}/client-key");
    let url = |path: &str| format!("gannet://{}/{path}", server.native);
    succeed(&["cp", &file, &url("new"), "--volume-key", &key]);
    let stripes = |path: &str| {
        let words = [
            "volume",
            "stripes",
            "--json",
            &url(path),
            "--volume-key",
            &key,
        ];
        let text = succeed(&words);
        let shown: serde_json::Value = serde_json::from_str(&text).unwrap();
        shown["io_servers"].as_array().unwrap().len()
    };
    assert_eq!((stripes("old"), stripes("new")), (1, 4));
    for name in ["old", "new"] {
        let back = place.text(&format!("out/{name}"));
        succeed(&["cp", &url(name), &back, "--volume-key", &key]);
        assert!(fs::read(back).unwrap() == bytes(1, 100_000), "{name}");
    }
    drop(server);
    let text = succeed(&["volume", "check", &volume]);
    assert!(text.contains("2 files, 5 objects: 0 findings"), "{text}");
}

#[test]
fn stripes_are_chosen_by_directory() {
    let place = Place::new();
    let volume = create(&place, &["--io-servers", "4"]);
    let server = serve(&place, &volume);
    let key = format!("{volume}/client-key");
    let url = |path: &str| format!("gannet://{}/{path}", server.native);
    let with_key = |words: &[&str]| succeed(&[words, &["--volume-key", &key]].concat());
    with_key(&["mkdir", &url("d")]);
    let shown = with_key(&["volume", "stripes", &url("d")]);
    assert!(
        shown.contains("64.0 KiB over 4 of 4 I/O servers (as the"),
        "{shown}"
    );
    let words = ["volume", "stripes", &url("d"), "--unit", "4K"];
    let shown = with_key(&[&words[..], &["--width", "2", "--first", "3"]].concat());
    assert!(
        shown.contains("4096 B over 2 of 4 I/O servers, from 3 on"),
        "{shown}"
    );
    with_key(&["mkdir", &url("d/below")]);
    let file = place.text("file");
    fs::write(&file, bytes(1, 50_000)).unwrap();
    with_key(&["cp", "--verify", &file, &url("d/below/file")]);
    let shown = with_key(&["volume", "stripes", &url("d/below/file")]);
    assert!(
        shown.contains("4096 B over 2 of 4 I/O servers: 3 0"),
        "{shown}"
    );
    let fails = |words: &[&str]| fail(&[words, &["--volume-key", &key]].concat(), 1);
    let error = fails(&["volume", "stripes", &url("d/below/file"), "--width", "1"]);
    assert!(error.contains("keeps the stripes"), "{error}");
    let error = fails(&["volume", "stripes", &url("d"), "--width", "5"]);
    assert!(error.contains("the volume has 4"), "{error}");
    // The servers themselves, in an order of ours.
    let words = ["volume", "stripes", &url("d"), "--servers", "2,0,3"];
    let shown = with_key(&words);
    assert!(
        shown.contains("4096 B over 3 of 4 I/O servers: 2 0 3"),
        "{shown}"
    );
    with_key(&["mkdir", &url("d/listed")]);
    with_key(&["cp", "--verify", &file, &url("d/listed/file")]);
    for path in ["d/listed", "d/listed/file"] {
        let shown = with_key(&["volume", "stripes", "--json", &url(path)]);
        assert!(shown.contains(r#""io_servers":[2,0,3]"#), "{shown}");
    }
    for (servers, why) in [
        ("0,4", "there is no I/O server 4: the volume has 4"),
        ("1,2,1", "I/O server 1 is named twice"),
        (
            "0,1,2,3,0",
            "5 I/O servers are wanted, and the volume has 4",
        ),
    ] {
        let error = fails(&["volume", "stripes", &url("d"), "--servers", servers]);
        assert!(error.contains(why), "{error}");
    }
    for more in [["--width", "1"], ["--first", "1"], ["--servers", ""]] {
        let both = [&words[..], &more, &["--volume-key", &key]].concat();
        fail(&both, 2);
    }
    let shown = with_key(&["volume", "stripes", &url("d"), "--width", "1"]);
    assert!(shown.contains("over 1 of 4 I/O servers\n"), "{shown}");
    let shown = with_key(&["volume", "stripes", &url("d"), "--default"]);
    assert!(shown.contains("(as the volume says)"), "{shown}");
}

#[test]
fn a_single_file_is_made_with_stripes_of_its_own_and_keeps_them() {
    let place = Place::new();
    let volume = create(&place, &["--io-servers", "4"]);
    let server = serve(&place, &volume);
    let key = format!("{volume}/client-key");
    let url = |path: &str| format!("gannet://{}/{path}", server.native);
    let with_key = |words: &[&str]| succeed(&[words, &["--volume-key", &key]].concat());
    let fails = |words: &[&str]| fail(&[words, &["--volume-key", &key]].concat(), 1);
    let stripes = ["--unit", "8K", "--count", "3", "--first", "2"];
    let file = url("file");
    let words = [&["volume", "stripes", &file][..], &stripes].concat();
    let shown = with_key(&words);
    assert!(
        shown.contains("8192 B over 3 of 4 I/O servers: 2 3 0"),
        "{shown}"
    );
    assert_eq!(
        with_key(&["stat", "--json", &file])
            .matches("\"size_bytes\":0")
            .count(),
        1
    );
    // Data that are written into it have its stripes.
    let local = place.text("local");
    fs::write(&local, bytes(1, 100_000)).unwrap();
    with_key(&["cp", "--verify", &local, &file]);
    let shown = with_key(&["volume", "stripes", &file]);
    assert!(shown.contains("over 3 of 4 I/O servers: 2 3 0"), "{shown}");
    let used: Vec<bool> = (0..4)
        .map(|number| !objects_below(&place.path(&format!("volume/io/{number}"))).is_empty())
        .collect();
    assert_eq!(used, [true, false, true, true]);
    let error = fails(&words);
    assert!(
        error.contains("keeps the stripes it was made with"),
        "{error}"
    );
    // The directory's stripes hold for each value that the options leave out.
    with_key(&["mkdir", &url("d")]);
    with_key(&["volume", "stripes", &url("d"), "--unit", "4K"]);
    let shown = with_key(&["volume", "stripes", &url("d/one"), "--width", "1"]);
    assert!(shown.contains("4096 B over 1 of 4 I/O servers"), "{shown}");
    let error = fails(&["volume", "stripes", &url("d/wide"), "--width", "5"]);
    assert!(error.contains("the volume has 4"), "{error}");
    let shown = with_key(&["volume", "stripes", &url("d/two"), "--servers", "3,1"]);
    assert!(
        shown.contains("4096 B over 2 of 4 I/O servers: 3 1"),
        "{shown}"
    );
    with_key(&["cp", "--verify", &local, &url("d/two")]);
    with_key(&["rm", &url("d/two")]);
    let error = fails(&["volume", "stripes", &url("no/file"), "--width", "1"]);
    assert!(error.contains("no such file"), "{error}");
    let error = fails(&["volume", "stripes", &url("nothing")]);
    assert!(error.contains("no such file"), "{error}");
    assert_eq!(with_key(&["ls", &url("d")]), "one\n");
}
