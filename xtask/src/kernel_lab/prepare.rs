//! The files that a guest needs, made once from Debian's packages and kept in a cache folder: QEMU, kernels with their
//! modules, `siw.ko` for one of them, and the programs that the guest runs.
//!
//! Nothing is installed: the packages that this machine lacks are unpacked into a folder of the cache, so no root is
//! needed and the machine stays as it is.

use super::process::{lock, output, use_packages};
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Instant;

/// Packages whose programs run on the host (emulator, build of `siw.ko`) or in the guest (NFS, `rdma`, RDMA libraries
/// with their drivers, modules, file systems, scenarios in Python). Their dependencies are unpacked too, if the machine
/// lacks them. QEMU's own are named here because it looks for them beside its program alone.
const PROGRAMS: &[&str] = &[
    "qemu-system-x86",
    "qemu-system-common",
    "qemu-system-data",
    "seabios",
    "busybox-static",
    "kmod",
    "xz-utils",
    "zstd",
    "make",
    "netbase",
    "nfs-common",
    "nfs-kernel-server",
    "iproute2",
    "ibverbs-providers",
    "ibverbs-utils",
    "rdmacm-utils",
    "perftest",
    "python3",
    "dmsetup",
    "e2fsprogs",
    "xfsprogs",
    "btrfs-progs",
];
/// The unpacked part of the kernel package: the rest is drivers of hardware that the guest does not have.
const KERNEL_PARTS: &str = "./boot/vmlinuz-* ./lib/modules/*/modules.* ./lib/modules/*/kernel/arch \
     ./lib/modules/*/kernel/crypto ./lib/modules/*/kernel/fs ./lib/modules/*/kernel/lib \
     ./lib/modules/*/kernel/net ./lib/modules/*/kernel/drivers/infiniband \
     ./lib/modules/*/kernel/drivers/net ./lib/modules/*/kernel/drivers/virtio \
     ./lib/modules/*/kernel/drivers/char ./lib/modules/*/kernel/drivers/md \
     ./lib/modules/*/kernel/drivers/block/loop.ko*";
/// The driver's files; naming them lets tar stop reading the kernel's source behind the last.
const SIW_SOURCE: &str = "Makefile iwarp.h siw.h siw_cm.c siw_cm.h siw_cq.c siw_main.c siw_mem.c siw_mem.h \
     siw_qp.c siw_qp_rx.c siw_qp_tx.c siw_verbs.c siw_verbs.h";
/// Constants of the driver that become module parameters, which a scenario can set: file, name, type, and the name of
/// the parameter.
const SIW_PARAMETERS: &[(&str, &str, &str, &str)] = &[
    ("siw_main.c", "mpa_crc_required", "bool", "mpa_crc_required"),
    ("siw_main.c", "mpa_crc_strict", "bool", "mpa_crc_strict"),
    ("siw_main.c", "mpa_version", "byte", "mpa_version"),
    ("siw_main.c", "peer_to_peer", "bool", "peer_to_peer"),
    ("siw_main.c", "try_gso", "bool", "try_gso"),
    ("siw_main.c", "zcopy_tx", "bool", "zcopy_tx"),
    // Stored in network byte order, hence the name.
    ("siw_cm.c", "rtr_type", "ushort", "rtr_type_be"),
];

/// Forms of compression of a kernel: the first bytes, and the program that unpacks it.
const COMPRESSIONS: &[(&[u8], &str)] = &[(b"\xfd7zXZ\0", "xz"), (b"\x28\xb5\x2f\xfd", "zstd")];

/// A kernel that guests boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kernel {
    /// Debian 12's own, with siw and rxe.
    Linux6_1,
    /// The newer one that Debian 12 also has, with rxe alone: siw is built for the other.
    Linux6_12,
}

impl Kernel {
    pub(super) const ALL: [Kernel; 2] = [Kernel::Linux6_1, Kernel::Linux6_12];

    /// The first two numbers of its version, which are also the name of its folder in the cache.
    pub(super) fn series(self) -> &'static str {
        match self {
            Kernel::Linux6_1 => "6.1",
            Kernel::Linux6_12 => "6.12",
        }
    }

    /// Whether its modules include siw.
    pub(super) fn has_siw(self) -> bool {
        self == Kernel::Linux6_1
    }

    /// The package that depends on the current version.
    fn package(self) -> &'static str {
        match self {
            Kernel::Linux6_1 => "linux-image-amd64",
            Kernel::Linux6_12 => "linux-image-6.12-amd64",
        }
    }
}

/// Everything that guests are booted from.
pub(super) struct Kit {
    folder: PathBuf,
}

/// A prepared kernel.
pub(super) struct Image {
    /// The kernel's ABI name, such as `6.1.0-56-amd64`.
    pub(super) abi: String,
    /// The kernel, uncompressed: QEMU enters it at once, where a compressed one unpacks itself for 6 s.
    pub(super) vmlinux: PathBuf,
    /// The modules' folder.
    pub(super) modules: PathBuf,
}

impl Kit {
    /// The unpacked packages; the guest sees them laid over this machine's own root.
    pub(super) fn root(&self) -> PathBuf {
        self.folder.join("root")
    }

    /// A kernel that [`prepare`] was asked for.
    ///
    /// # Errors
    /// The cache was changed by hand.
    pub(super) fn image(&self, kernel: Kernel) -> Result<Image> {
        let folder = self.folder.join(kernel.series());
        let abi = fs::read_to_string(folder.join("abi")).context("the cache is damaged")?;
        Ok(Image {
            modules: self.root().join("lib/modules").join(abi.trim()),
            abi: abi.trim().to_owned(),
            vmlinux: folder.join("vmlinux"),
        })
    }
}

/// Gives the cached kit with these kernels, or makes what it lacks: some 30 s and 270 MB of downloads for the first
/// kernel with the programs, 10 s and 110 MB for the other.
///
/// # Errors
/// The machine is not a Debian on x86-64, or a step failed; the step's own words are part of the error.
pub(super) fn prepare(kernels: &BTreeSet<Kernel>) -> Result<Kit> {
    let cache = cache_folder()?;
    fs::create_dir_all(&cache).with_context(|| format!("cannot make {}", cache.display()))?;
    let _lock = lock(&cache)?;
    let kit = Kit {
        folder: cache.join(recipe()),
    };
    let base = BTreeSet::from([Kernel::Linux6_1]);
    for kernel in base.union(kernels) {
        if kit.folder.join(kernel.series()).exists() {
            continue;
        }
        check_machine()?;
        let started = Instant::now();
        let unfinished = cache.join("unfinished");
        if unfinished.exists() {
            fs::remove_dir_all(&unfinished).context("cannot remove an unfinished cache")?;
        }
        println!(
            "kernel-lab: Linux {} is not cached for this recipe: preparing",
            kernel.series()
        );
        if kit.folder.exists() {
            Maker::start(unfinished, kit.root(), *kernel)?.add(&kit)?;
        } else {
            let root = unfinished.join("root");
            Maker::start(unfinished, root, *kernel)?.make(&kit)?;
        }
        println!(
            "kernel-lab: prepared in {:.1} s",
            started.elapsed().as_secs_f64()
        );
    }
    println!("kernel-lab: cached in {}", kit.folder.display());
    Ok(kit)
}

/// `$XDG_CACHE_HOME/gannet-kernel-lab`, by default below the home directory.
fn cache_folder() -> Result<PathBuf> {
    let folder = |name| env::var_os(name).filter(|value| !value.is_empty());
    let base = folder("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| folder("HOME").map(|home| Path::new(&home).join(".cache")));
    Ok(base
        .context("no place for a cache: set HOME or XDG_CACHE_HOME")?
        .join("gannet-kernel-lab"))
}

/// This file is the recipe: a cache made by another version of it is not used.
fn recipe() -> String {
    let mut hasher = DefaultHasher::new();
    include_str!("prepare.rs").hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

fn check_machine() -> Result<()> {
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let is_debian = release.lines().any(|line| line == "ID=debian");
    if !is_debian || env::consts::ARCH != "x86_64" {
        bail!(
            "the lab takes its kernel, QEMU and NFS programs from Debian's packages and needs Debian 12 on x86-64: \
             run it there, in a container or a virtual machine for example"
        );
    }
    Ok(())
}

/// The steps for one kernel.
struct Maker {
    /// The folder of all that is unfinished.
    folder: PathBuf,
    /// The folder of the unpacked packages.
    root: PathBuf,
    kernel: Kernel,
    abi: String,
}

impl Maker {
    /// Fetches the package lists and asks them for the current version of the kernel.
    fn start(folder: PathBuf, root: PathBuf, kernel: Kernel) -> Result<Maker> {
        let own = ["apt/lists/partial", "apt/archives/partial", "kernel", "siw"];
        let folders = own.map(|name| folder.join(name));
        for made in folders
            .iter()
            .chain([&root.join("usr"), &folder.join(kernel.series())])
        {
            fs::create_dir_all(made).context("cannot fill the cache folder")?;
        }
        let mut maker = Maker {
            folder,
            root,
            kernel,
            abi: String::new(),
        };
        // A source of packages that is of no use here may be out of reach: what is missing shows up below.
        if let Err(error) = maker.step("package lists", || maker.apt("apt-get", "-qq update")) {
            println!("kernel-lab: going on although: {error:#}");
        }
        let package = kernel.package();
        let depends = maker.apt("apt-cache", &format!("depends {package}"))?;
        maker.abi = depends
            .lines()
            .find_map(|line| line.trim().strip_prefix("Depends: linux-image-"))
            .with_context(|| format!("the package lists do not name Debian's kernel ({package})"))?
            .to_owned();
        Ok(maker)
    }

    /// Makes a kit with the programs and this kernel.
    fn make(self, kit: &Kit) -> Result<()> {
        thread::scope(|scope| {
            let programs = scope.spawn(|| self.programs());
            let kernel = scope.spawn(|| self.kernel());
            let programs = programs.join().expect("steps do not panic");
            let kernel = kernel.join().expect("steps do not panic");
            programs.and(kernel)
        })?;
        self.finish()?;
        output(self.script("rm -r apt kernel siw root/usr/src *.deb", &[]))?;
        fs::rename(&self.folder, &kit.folder).context("cannot put the cache in place")
    }

    /// Adds this kernel to a kit.
    fn add(self, kit: &Kit) -> Result<()> {
        self.kernel()?;
        self.finish()?;
        let series = self.kernel.series();
        fs::rename(self.folder.join(series), kit.folder.join(series))
            .context("cannot put the kernel in place")?;
        fs::remove_dir_all(&self.folder).context("cannot remove the rest")
    }

    /// Makes the kernel's folder and puts its modules in place.
    fn finish(&self) -> Result<()> {
        self.step("kernel: decompress", || self.vmlinux())?;
        if self.kernel.has_siw() {
            self.step("siw.ko from Debian's kernel source", || self.siw())?;
        }
        self.step("modules", || self.modules())?;
        let file = self.folder.join(self.kernel.series()).join("abi");
        fs::write(file, &self.abi).context("cannot fill the kernel's folder")
    }

    /// Downloads and unpacks the programs and the kernel's headers.
    fn programs(&self) -> Result<()> {
        let Maker { abi, kernel, .. } = self;
        let series = kernel.series();
        let common = abi.trim_end_matches("-amd64");
        self.step("programs and kernel headers: download", || {
            let programs = PROGRAMS.join(" ");
            self.apt(
                "apt-get",
                &format!(
                    "-qq -y --download-only --reinstall install {programs} linux-headers-{abi} \
                     linux-headers-{common}-common linux-kbuild-{series}"
                ),
            )
        })?;
        // Packages of Debian 12 still spell /lib and /bin, which the host that lies below has as links into /usr.
        // The C library must be the one that the host's dynamic loader belongs to. kmod's links are absolute.
        self.step("programs and kernel headers: unpack", || {
            let script = r#"
                for name in bin sbin lib lib64; do mkdir root/usr/$name; ln -s usr/$name root/$name; done
                for package in apt/archives/*.deb; do
                    case $package in */libc6_*) continue;; esac
                    dpkg-deb --fsys-tarfile "$package" | tar -x --keep-directory-symlink -C root
                done
                ln -sf ../bin/kmod root/usr/sbin/depmod"#;
            output(self.script(script, &[]))
        })
        .map(drop)
    }

    /// Downloads the kernel, and its source if that is built from, and unpacks the former.
    fn kernel(&self) -> Result<()> {
        let mut packages = format!("linux-image-{}", self.abi);
        if self.kernel.has_siw() {
            packages += &format!(" linux-source-{}", self.kernel.series());
        }
        self.step(&format!("{packages}: download"), || {
            self.apt("apt-get", &format!("-qq download {packages}"))
        })?;
        self.step("kernel: unpack", || {
            let script = r#"dpkg-deb --fsys-tarfile linux-image-*.deb |
                tar -x -C kernel --wildcards $1"#;
            output(self.script(script, &[KERNEL_PARTS]))
        })
        .map(drop)
    }

    /// Takes the ELF file out of the kernel, which unpacks itself when it is started.
    fn vmlinux(&self) -> Result<String> {
        let file = self
            .folder
            .join(format!("kernel/boot/vmlinuz-{}", self.abi));
        let image = fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let packed = COMPRESSIONS.iter().find_map(|(magic, program)| {
            let is_start = |window: &[u8]| window == *magic;
            let start = image.windows(magic.len()).position(is_start)?;
            Some((&image[start..], *program))
        });
        let (packed, program) = packed.context("the kernel is compressed by an unknown program")?;
        fs::write(self.folder.join("kernel/vmlinux"), packed)?;
        // The program complains about what follows its stream, hence the look at the result instead.
        let script = r#"
            "$1" -dc <kernel/vmlinux >"$2/vmlinux" 2>/dev/null || true
            test "$(head -c 4 "$2/vmlinux" | tail -c 3)" = ELF"#;
        output(self.build_script(script, &[program, self.kernel.series()]))
            .context("the kernel does not unpack")
    }

    /// Builds the driver, beside the kernel's own modules.
    fn siw(&self) -> Result<String> {
        let Maker { abi, kernel, .. } = self;
        let script = r#"
            dpkg-deb --fsys-tarfile linux-source-*.deb |
                tar -xO "./usr/src/linux-source-$1.tar.xz" | xz -dc -T0 2>/dev/null |
                tar -x -C siw --occurrence=1 --strip-components=5 $(
                    for file in $2; do echo "linux-source-$1/drivers/infiniband/sw/siw/$file"; done)"#;
        output(self.build_script(script, &[kernel.series(), SIW_SOURCE]))?;
        self.patch_siw()?;
        let headers = self.root.join(format!("usr/src/linux-headers-{abi}"));
        relocate(
            &headers.join("Makefile"),
            "/usr/src",
            &self.root.join("usr/src"),
        )?;
        let script = r#"
            make -s -j"$(nproc)" -C "$1" M="$PWD/siw" CONFIG_RDMA_SIW=m modules
            mkdir "kernel/lib/modules/$2/extra"
            strip --strip-debug -o "kernel/lib/modules/$2/extra/siw.ko" siw/siw.ko"#;
        output(self.build_script(script, &[&headers.to_string_lossy(), abi]))
    }

    /// Puts the modules in place, uncompressed: the guest's first program loads them as they are. An interrupted run
    /// may have left them there.
    fn modules(&self) -> Result<String> {
        let script = r#"
            find kernel/lib/modules -name '*.ko.xz' -print0 | xargs -0r -n 50 -P "$(nproc)" xz -d
            rm -rf "$1/lib/modules/$2"
            mv "kernel/lib/modules/$2" "$1/lib/modules/"
            depmod -b "$1" "$2""#;
        output(self.build_script(script, &[&self.root.to_string_lossy(), &self.abi]))
    }

    /// Turns constants of the driver into module parameters.
    fn patch_siw(&self) -> Result<()> {
        let header = self.folder.join("siw/siw.h");
        let mut declarations = fs::read_to_string(&header)?;
        for (file, name, kind, parameter) in SIW_PARAMETERS {
            let path = self.folder.join("siw").join(file);
            let constant = format!("const bool {name}");
            let variable = format!("bool {name}");
            declarations = declarations.replace(&constant, &variable);
            let text = fs::read_to_string(&path)?.replace(&constant, &variable);
            let is_defined = [" = ", ";"].map(|end| text.contains(&format!(" {name}{end}")));
            if is_defined == [false, false] {
                bail!("{file} of this kernel does not define {name}: the recipe must be adapted");
            }
            let line = format!("module_param_named({parameter}, {name}, {kind}, 0644);\n");
            fs::write(&path, text + &line)?;
        }
        fs::write(&header, declarations).context("cannot patch siw.h")
    }

    /// Runs apt on package lists and archives of our own, seeing what is installed; `words` are split at spaces.
    fn apt(&self, program: &str, words: &str) -> Result<String> {
        let folder = self.folder.display();
        let options = [
            format!("Dir::State::Lists={folder}/apt/lists"),
            format!("Dir::Cache::Archives={folder}/apt/archives"),
            String::from("Dir::Cache::pkgcache="),
            String::from("Dir::Cache::srcpkgcache="),
            String::from("Debug::NoLocking=1"),
            String::from("APT::Sandbox::User=root"),
            String::from("APT::Install-Recommends=0"),
        ];
        let options = options.iter().flat_map(|option| ["-o", option.as_str()]);
        let mut command = Command::new(program);
        command
            .args(options)
            .args(words.split_whitespace())
            .current_dir(&self.folder);
        output(command)
    }

    /// A shell script, to be run in the folder.
    fn script(&self, script: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new("sh");
        command
            .args(["-euc", script, "prepare"])
            .args(arguments)
            .current_dir(&self.folder);
        command
    }

    /// As [`Maker::script`], with the unpacked programs, once all of them are.
    fn build_script(&self, script: &str, arguments: &[&str]) -> Command {
        let mut command = self.script(script, arguments);
        use_packages(&mut command, &self.root);
        command
    }

    /// Does one step and prints its duration.
    fn step(&self, what: &str, work: impl FnOnce() -> Result<String>) -> Result<String> {
        let started = Instant::now();
        let done = work().with_context(|| format!("{what}: failed"))?;
        println!(
            "kernel-lab: {what}: {:.1} s",
            started.elapsed().as_secs_f64()
        );
        Ok(done)
    }
}

/// Lets a makefile of the headers find its parts below `to` instead of `from`.
fn relocate(makefile: &Path, from: &str, to: &Path) -> Result<()> {
    let text = fs::read_to_string(makefile)
        .with_context(|| format!("cannot read {}", makefile.display()))?;
    fs::write(makefile, text.replace(from, &to.to_string_lossy())).context("cannot relocate")
}
