//! `gannet dump`: what goes wrong with files and readers.

use crate::support::{Place, fail, gannet, succeed};
use std::fs;
use std::path::PathBuf;

/// A file of `vectors/`.
fn vector(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors")).join(name)
}

#[test]
fn errors_are_one_line_and_exit_with_1() {
    let place = Place::new();
    fs::write(place.path("text"), "no capture\n").unwrap();
    let error = fail(&["dump", &place.text("text")], 1);
    assert!(
        error.contains("neither a pcap nor a pcapng file"),
        "{error}"
    );
    let error = fail(&["dump", &place.text("none")], 1);
    assert!(error.contains("cannot read"), "{error}");
    fail(&["dump"], 2);
    let whole = fs::read(vector("siw-rping.pcap")).unwrap();
    fs::write(place.path("cut"), &whole[..whole.len() - 5]).unwrap();
    let error = fail(&["dump", &place.text("cut")], 1);
    assert!(error.contains("ends within the record at byte"), "{error}");
}

#[test]
fn standard_input_is_read_and_a_reader_may_go_away() {
    let path = vector("siw-nfs.pcap");
    let from_file = succeed(&["dump", path.to_str().unwrap()]);
    let from_pipe = gannet()
        .args(["dump", "-"])
        .stdin(fs::File::open(&path).unwrap())
        .output()
        .unwrap();
    assert_eq!(String::from_utf8(from_pipe.stdout).unwrap(), from_file);

    let mut child = gannet()
        .args(["dump", "--json", path.to_str().unwrap()])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{output:?}"
    );
}
