//! The guest's first file system: busybox, the first program, and modules.

use super::prepare::{Kernel, Kit};
use anyhow::{Context, Result, bail};
use std::collections::HashMap;
use std::fs;
use std::path::Path;

/// Modules that every guest loads at once, unless its kernel has them built in: what 9p needs, and what would come
/// slowly over 9p. The rest it loads by name from the full tree.
const MODULES: &[&str] = &[
    "virtio_pci",
    "virtio_net",
    "virtio_console",
    "9p",
    "9pnet_virtio",
    "overlay",
    "crc32c_generic",
    "nfsv3",
    "rpcrdma",
];

/// Writes the initramfs for a kit's kernel to `file`, with `init` as its first program.
///
/// # Errors
/// A part cannot be read, or the file cannot be written.
pub(super) fn write(kit: &Kit, kernel: Kernel, init: &Path, file: &Path) -> Result<()> {
    let mut archive = Archive::default();
    for folder in ["bin", "dev", "modules", "proc", "sys"] {
        archive.add(folder, DIRECTORY, &[]);
    }
    archive.add("init", PROGRAM, &read(init)?);
    archive.add(
        "bin/busybox",
        PROGRAM,
        &read(&kit.root().join("usr/bin/busybox"))?,
    );
    let folder = kit.image(kernel)?.modules;
    let list = |name: &str| {
        fs::read_to_string(folder.join(name)).with_context(|| format!("cannot read {name}"))
    };
    let (dependencies, built_in) = (list("modules.dep")?, list("modules.builtin")?);
    let mut modules = MODULES.to_vec();
    modules.extend(kernel.has_siw().then_some("siw"));
    let mut order = String::new();
    for module in load_order(&dependencies, &built_in, &modules)? {
        let name = module.rsplit('/').next().unwrap_or(module);
        archive.add(
            &format!("modules/{name}"),
            PLAIN,
            &read(&folder.join(module))?,
        );
        order.push_str(name);
        order.push('\n');
    }
    archive.add("modules/order", PLAIN, order.as_bytes());
    fs::write(file, archive.finish()).context("cannot write the initramfs")
}

fn read(file: &Path) -> Result<Vec<u8>> {
    fs::read(file).with_context(|| format!("cannot read {}", file.display()))
}

/// Files of the modules and of all that they depend on, in the order in which they can be loaded. Those that are built
/// into the kernel are left out.
fn load_order<'a>(dependencies: &'a str, built_in: &str, modules: &[&str]) -> Result<Vec<&'a str>> {
    let by_name: HashMap<String, (&str, &str)> = dependencies
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(file, needs)| (name_of(file), (file, needs)))
        .collect();
    let mut order = Vec::new();
    for module in modules {
        let Some((file, needs)) = by_name.get(*module) else {
            if built_in.lines().any(|file| name_of(file) == *module) {
                continue;
            }
            bail!("this kernel has no module {module}");
        };
        // depmod lists what must be loaded first last.
        for needed in needs.split_whitespace().rev().chain([*file]) {
            if !order.contains(&needed) {
                order.push(needed);
            }
        }
    }
    Ok(order)
}

/// The name of the module in a file.
fn name_of(file: &str) -> String {
    let name = file.rsplit('/').next().unwrap_or(file);
    name.trim_end_matches(".ko").replace('-', "_")
}

const DIRECTORY: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const PLAIN: u32 = 0o100_644;

/// A cpio archive of the form "newc": the kernel's Documentation/driver-api/early-userspace/buffer-format.rst.
#[derive(Default)]
struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

impl Archive {
    fn add(&mut self, name: &str, mode: u32, content: &[u8]) {
        self.entries += 1;
        let inode = self.entries;
        let size = content.len();
        let name_size = name.len() + 1;
        // Magic; inode, mode, uid, gid, links, mtime, size, file system's device (2), own device (2), name, check.
        let header = format!(
            "070701{inode:08x}{mode:08x}{0:08x}{0:08x}{1:08x}{0:08x}{size:08x}\
             {0:08x}{0:08x}{0:08x}{0:08x}{name_size:08x}{0:08x}{name}\0",
            0, 1
        );
        self.bytes.extend_from_slice(header.as_bytes());
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    fn finish(mut self) -> Vec<u8> {
        self.add("TRAILER!!!", 0, &[]);
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_come_after_what_they_need_and_once() {
        let dependencies =
            "a/nfs.ko: b/lockd.ko c/sunrpc.ko\nb/lockd.ko: c/sunrpc.ko\nc/sunrpc.ko:\nd/x-y.ko:\n";
        let order = load_order(dependencies, "", &["nfs", "lockd", "x_y"]).unwrap();
        assert_eq!(order, ["c/sunrpc.ko", "b/lockd.ko", "a/nfs.ko", "d/x-y.ko"]);
        assert!(load_order(dependencies, "", &["missing"]).is_err());
    }

    #[test]
    fn modules_that_are_built_in_are_left_out() {
        let built_in = "kernel/drivers/virtio/virtio-pci.ko\n";
        let order = load_order("a/nfs.ko:\n", built_in, &["virtio_pci", "nfs"]).unwrap();
        assert_eq!(order, ["a/nfs.ko"]);
        assert!(load_order("", built_in, &["pci"]).is_err());
    }

    #[test]
    fn archive_entries_are_padded_to_words() {
        let mut archive = Archive::default();
        archive.add("ab", PLAIN, b"hello");
        let bytes = archive.finish();
        let fields = "070701\
                      00000001000081a40000000000000000000000010000000000000005\
                      0000000000000000000000000000000000000003";
        assert_eq!(&bytes[..102], fields.as_bytes());
        assert_eq!(&bytes[102..124], b"00000000ab\0\0\0\0hello\0\0\0");
        assert_eq!(bytes.len() % 4, 0);
        assert_eq!(&bytes[124..130], b"070701");
    }
}
