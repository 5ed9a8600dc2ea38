//! The lines of `ls -l`: columns as wide as a directory's entries need.

use super::{Shown, letter, permissions, time};
use crate::cli::LsOptions;
use crate::size;
use gannet_vfs::Attributes;
use gannet_wire::printable;
use nix::unistd::{Gid, Group, Uid, User};
use std::cell::RefCell;
use std::collections::HashMap;

/// Columns before an entry's name: permissions, links, owner, group, size, time of modification.
type Columns = [String; 6];

/// Formats entries. Keeps names of users and groups, each of which may cost a query of a directory service.
pub(crate) struct Formatter<'a> {
    pub(crate) options: &'a LsOptions,
    users: RefCell<HashMap<u32, String>>,
    groups: RefCell<HashMap<u32, String>>,
}

impl<'a> Formatter<'a> {
    pub(crate) fn new(options: &'a LsOptions) -> Formatter<'a> {
        Formatter {
            options,
            users: RefCell::default(),
            groups: RefCell::default(),
        }
    }

    /// Lines for a directory's entries with their links' targets, and then for names whose attributes are not known.
    pub(super) fn lines(
        &self,
        entries: &[Shown],
        targets: &[Option<String>],
        unknown: &[Vec<u8>],
    ) -> Vec<String> {
        let shown = entries.iter().zip(targets).map(|(entry, target)| {
            let arrow = target.as_ref().map(|target| format!(" -> {target}"));
            let name = printable(&entry.name) + &arrow.unwrap_or_default();
            (self.columns(&entry.node.attributes), name)
        });
        let unknown = unknown.iter().map(|name| {
            let columns = ["??????????", "?", "?", "?", "?", "?"].map(String::from);
            (columns, printable(name))
        });
        aligned(&shown.chain(unknown).collect::<Vec<_>>())
    }

    fn columns(&self, attributes: &Attributes) -> Columns {
        let mode = permissions(attributes.mode);
        [
            format!("{}{mode}", letter(attributes.kind)),
            attributes.link_count.to_string(),
            self.user(attributes.uid),
            self.group(attributes.gid),
            if self.options.human_readable {
                size::human(attributes.size)
            } else {
                attributes.size.to_string()
            },
            time(attributes.modify_time),
        ]
    }

    /// The local name of a user, or its number.
    fn user(&self, uid: u32) -> String {
        let known = || User::from_uid(Uid::from_raw(uid)).ok()??.name.into();
        self.name(&self.users, uid, known)
    }

    /// The local name of a group, or its number.
    fn group(&self, gid: u32) -> String {
        let known = || Group::from_gid(Gid::from_raw(gid)).ok()??.name.into();
        self.name(&self.groups, gid, known)
    }

    fn name(
        &self,
        kept: &RefCell<HashMap<u32, String>>,
        id: u32,
        known: impl Fn() -> Option<String>,
    ) -> String {
        let named = || {
            let name = known().filter(|_| !self.options.numeric_ids);
            name.map_or_else(|| id.to_string(), |name| printable(name.as_bytes()))
        };
        kept.borrow_mut().entry(id).or_insert_with(named).clone()
    }
}

/// Links and sizes to the right, names to the left, and one blank between columns.
fn aligned(rows: &[(Columns, String)]) -> Vec<String> {
    let width = |column: usize| {
        let widths = rows
            .iter()
            .map(|(columns, _)| columns[column].chars().count());
        widths.max().unwrap_or(0)
    };
    let [
        mode_width,
        links_width,
        user_width,
        group_width,
        size_width,
        time_width,
    ] = [0, 1, 2, 3, 4, 5].map(width);
    let line = |([mode, links, user, group, size, time], name): &(Columns, String)| {
        format!(
            "{mode:mode_width$} {links:>links_width$} {user:user_width$} {group:group_width$} \
             {size:>size_width$} {time:>time_width$} {name}"
        )
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use gannet_client::Node;
    use gannet_vfs::{FileHandle, FileKind, Time};

    fn options(words: &[&str]) -> LsOptions {
        let line = ["gannet", "ls", "nfs://h/"].iter().chain(words);
        let arguments = crate::cli::Arguments::try_parse_from(line).unwrap();
        let crate::cli::Command::Ls(options) = arguments.command else {
            panic!("not ls");
        };
        options
    }

    fn entry(name: &str, uid: u32, size: u64) -> Shown {
        let time = Time {
            seconds: 1_763_700_000,
            nanoseconds: 0,
        };
        let attributes = Attributes {
            kind: FileKind::Regular,
            mode: 0o644,
            link_count: 1,
            uid,
            gid: 0,
            size,
            used: size,
            device: (0, 0),
            fsid: 1,
            fileid: 1,
            access_time: time,
            modify_time: time,
            change_time: time,
            change_id: 1,
        };
        let handle = FileHandle::new(b"file").unwrap();
        Shown {
            name: name.as_bytes().to_vec(),
            node: Node { handle, attributes },
        }
    }

    #[test]
    fn columns_are_as_wide_as_their_entries_and_fit_a_terminal() {
        let options = options(&["-l"]);
        let entries = [
            entry("small", 0, 1),
            entry("a-quite-long-name", 4_000_000_000, 1 << 40),
        ];
        let lines = Formatter::new(&options).lines(&entries, &[None, None], &[b"away".to_vec()]);
        assert_eq!(
            lines[0],
            "-rw-r--r-- 1 root       root             1 2025-11-21 04:40Z small"
        );
        assert_eq!(
            lines[1],
            "-rw-r--r-- 1 4000000000 root 1099511627776 2025-11-21 04:40Z a-quite-long-name"
        );
        assert_eq!(
            lines[2],
            "?????????? ? ?          ?                ?                 ? away"
        );
        assert!(lines.iter().all(|line| line.len() <= 80));
    }

    #[test]
    fn owners_are_named_unless_numbers_are_asked_for() {
        let root = [entry("a", 0, 9_999_999)];
        let line = |words: &[&str]| {
            let options = options(words);
            let lines = Formatter::new(&options).lines(&root, &[None], &[]);
            lines.concat()
        };
        assert!(line(&["-l"]).contains(" root root 9999999 "));
        assert!(line(&["-n"]).contains(" 1 0 0 9999999 "));
        assert!(line(&["-lh"]).contains(" root root 9.54 MiB "));
    }
}
