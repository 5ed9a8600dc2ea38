use super::*;

fn asked(line: &str) -> HelperOptions {
    HelperOptions::try_parse_from(format!("mount.gannet {line}").split_whitespace()).unwrap()
}

/// The words for a command line, of root or of another user; without those that are always the same.
fn words_of(line: &str, is_root: bool) -> Result<String, Failure> {
    let words = words(&asked(line), is_root)?;
    let words: Vec<_> = words.iter().map(|word| word.to_str().unwrap()).collect();
    let parsed = Arguments::try_parse_from([&["gannet"], &words[..]].concat());
    assert!(parsed.is_ok(), "{line}: {words:?}: {parsed:?}");
    let usual = |word: &&str| *word == "--background" || word.starts_with("--source=");
    let words: Vec<_> = words.into_iter().filter(|word| !usual(word)).collect();
    Ok(words.join(" "))
}

#[test]
fn options_of_mount_become_those_of_the_command() {
    for (line, expected) in [
        ("nfs://h/a /mnt", "mount nfs://h/a /mnt"),
        ("h:/ /mnt -o rw", "mount nfs+rdma://h/ /mnt"),
        (
            "h:/a%b?c /mnt -o ro,proto=tcp,port=2050",
            "mount nfs://h:2050/a%25b%3Fc /mnt --read-only",
        ),
        (
            "[::1]:/ /mnt -o proto=native,volume_key=/k,read-cache=1M,direct",
            "mount gannet://[::1]/ /mnt --volume-key=/k --read-cache=1M --direct",
        ),
        (
            "gannet://h/ /mnt -o dscp=\"metadata=24,data=10\",timeout=5",
            "mount gannet://h/ /mnt --dscp=metadata=24,data=10 --timeout=5",
        ),
        (
            "nfs://h/ /mnt -sfnv -o rw,noexec,nosuid,nodev,user=a,noauto,_netdev,x-systemd.automount -t fuse.gannet",
            "mount nfs://h/ /mnt --noexec",
        ),
        ("nfs://h/ /mnt -o ro,rw", "mount nfs://h/ /mnt"),
        (
            "nfs://h/ /mnt -o defaults -r",
            "mount nfs://h/ /mnt --read-only",
        ),
        (
            "nfs://h/ /mnt -o cache_age=3 -o log_file=/l,busy-poll=0",
            "mount nfs://h/ /mnt --cache-age=3 --log-file=/l --busy-poll=0",
        ),
    ] {
        assert_eq!(words_of(line, false).unwrap(), expected);
    }
}

#[test]
fn mounts_of_root_allow_other_users_unless_an_option_forbids_it() {
    let others = |options: &str, is_root| {
        let words = words_of(&format!("nfs://h/ /mnt {options}"), is_root);
        words.unwrap().ends_with(" --allow-other")
    };
    assert!(others("", true) && others("-o allow_other", false));
    assert!(!others("", false) && !others("-o no-allow-other", true));
}

#[test]
fn the_source_of_a_mount_is_the_one_in_fstab() {
    let words = words(&asked("h:/a /mnt"), true).unwrap();
    assert!(
        words.contains(&OsString::from("--source=h:/a")),
        "{words:?}"
    );
}

#[test]
fn wrong_options_are_refused_and_sloppy_ignores_unknown_ones() {
    for (line, part) in [
        (
            "nfs://h/ /mnt -o vers=3",
            "`vers` cannot be used: it is not known",
        ),
        ("nfs://h/ /mnt -o background", "`background`"),
        ("nfs://h/ /mnt -o timeout", "a value is missing"),
        ("nfs://h/ /mnt -o direct=yes", "takes no value"),
        ("nfs://h/ /mnt -s -o suid", "`suid`"),
        ("nfs://h/ /mnt -o remount,ro", "unmount and mount it again"),
        (
            "nfs://h/ /mnt -o proto=tcp",
            "`proto` cannot be used: the URL",
        ),
        ("h:/ /mnt -o proto=udp", "rdma, tcp or native"),
        ("/dev/sda1 /mnt", "names no server"),
        (":/ /mnt", "names no server"),
    ] {
        let failure = words(&asked(line), true).unwrap_err();
        assert!(failure.to_string().contains(part), "{line}: {failure}");
        assert_eq!(failure.exit_code(), 2, "{line}");
    }
    let sloppy = words_of("nfs://h/ /mnt -s -o vers=3,ro", false).unwrap();
    assert_eq!(sloppy, "mount nfs://h/ /mnt --read-only");
}

#[test]
fn the_helper_is_known_by_its_names_alone() {
    let called = |name: &str| is_called(&OsString::from(name));
    assert!(called("/sbin/mount.gannet") && called("mount.fuse.gannet"));
    assert!(!called("gannet") && !called("/usr/bin/mount.nfs"));
}
