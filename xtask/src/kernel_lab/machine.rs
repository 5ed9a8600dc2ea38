//! One guest: QEMU in software emulation, with the host's root, a shared folder, a network and a control channel.

use super::prepare::{Kernel, Kit};
use super::process::{tied_to_us, use_packages};
use anyhow::{Context, Result, bail};
use rustix::fs::{FallocateFlags, fallocate};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::ops::RangeInclusive;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::mpsc::Sender;
use std::thread;

/// Ports of a server in the guest: NFS over TCP, over RDMA, MOUNT. Also known to kernel-lab/guest/lib.sh.
const NFS_PORTS: [u16; 3] = [2049, 20049, 20048];
/// Ports of the host that lead into guests.
const FORWARDED_PORTS: RangeInclusive<u16> = 22_000..=32_000;
/// Bytes of a capture file before its first packet.
const CAPTURE_HEADER: u64 = 24;

/// The files that all guests are started from.
pub(super) struct Recipe {
    pub(super) kit: Kit,
    /// The folder of the first file systems, one for each kernel.
    pub(super) first: PathBuf,
    /// The folder `kernel-lab` of the workspace.
    pub(super) lab: PathBuf,
    /// The folder that the host and all guests see as long as they run.
    pub(super) shared: PathBuf,
    /// The folder of consoles and captures, in which each guest has a folder of its own.
    pub(super) boots: PathBuf,
}

impl Recipe {
    /// The first file system for a kernel.
    pub(super) fn initramfs(&self, kernel: Kernel) -> PathBuf {
        self.first.join(format!("initramfs-{}", kernel.series()))
    }
}

/// The properties in which guests differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Model {
    /// The guest's kernel.
    pub(super) kernel: Kernel,
    /// Whether the guest's network is captured.
    pub(super) captures: bool,
}

/// QEMU's options that are always the same.
///
/// The processor hides ERMS and FSRM: emulation does `rep movsb` a byte at a time, and without them the kernel copies
/// words, 3 to 5 times as fast.
const MACHINE: &str = "-M q35,sata=off,usb=off,vmport=off,smm=off -accel tcg,thread=multi \
     -cpu max,la57=off,smap=off,erms=off,fsrm=off -smp 2 -m 1024 \
     -nodefaults -no-user-config -display none -no-reboot \
     -chardev stdio,id=control,signal=off -device virtio-serial-pci \
     -device virtserialport,chardev=control -device virtio-net-pci,netdev=net,romfile=";
/// The guest kernel's options. They leave out every check, delay and search for hardware that the scenarios do not
/// need, and the kernel's complaints about processors that stand still, which here concern the host alone.
const KERNEL_OPTIONS: &str = "console=ttyS0 panic=-1 oops=panic quiet mitigations=off nokaslr cryptomgr.notests \
     random.trust_cpu=on audit=0 apparmor=0 no_timer_check tsc=reliable \
     nowatchdog rcupdate.rcu_cpu_stall_suppress=1 workqueue.watchdog_thresh=0";

/// A line that a guest sent, or the end of the guest.
pub(super) struct Event {
    /// Number of the guest.
    pub(super) machine: usize,
    /// The line without its line feed; `None` when the guest has ended.
    pub(super) line: Option<String>,
}

/// A running guest, which is killed when this value is dropped.
pub(super) struct Machine {
    /// Number of the guest among all that were ever started.
    pub(super) number: usize,
    /// Ports of 127.0.0.1 that lead to a server in the guest: NFS over TCP, over RDMA, MOUNT.
    pub(super) nfs: [u16; 3],
    /// A port that has the same number in the guest, for servers that announce their address to others.
    pub(super) same: u16,
    /// The properties that a scenario may need.
    pub(super) model: Model,
    child: Child,
    control: UnixStream,
    folder: PathBuf,
    capture_start: u64,
}

impl Machine {
    /// Starts a guest. Its lines go to `events`; the first says that it is ready.
    ///
    /// # Errors
    /// QEMU cannot be started.
    pub(super) fn start(
        recipe: &Recipe,
        number: usize,
        model: Model,
        events: Sender<Event>,
    ) -> Result<Machine> {
        let folder = recipe.boots.join(number.to_string());
        fs::create_dir_all(&folder).context("cannot make the guest's folder")?;
        let (control, other) = UnixStream::pair().context("no control channel")?;
        let log = File::create(folder.join("qemu.log")).context("cannot make QEMU's log")?;
        let [nfs @ .., same] = free_ports()?;
        let mut command = tied_to_us(recipe.kit.root().join("usr/bin/qemu-system-x86_64"));
        use_packages(&mut command, &recipe.kit.root());
        command
            .args(arguments(recipe, &folder, nfs, same, model)?)
            .stdin(Stdio::from(OwnedFd::from(other.try_clone()?)))
            .stdout(Stdio::from(OwnedFd::from(other)))
            .stderr(log);
        let child = command.spawn().context("QEMU cannot be started")?;
        let lines = BufReader::new(control.try_clone()?).lines();
        thread::spawn(move || {
            let lines = lines.map_while(Result::ok).map(Some).chain([None]);
            for line in lines {
                // No receiver waits after the lab has ended.
                let _ = events.send(Event {
                    machine: number,
                    line,
                });
            }
        });
        Ok(Machine {
            number,
            nfs,
            same,
            model,
            child,
            control,
            folder,
            capture_start: 0,
        })
    }

    /// Answers the guest's last line with an exit status and a text.
    ///
    /// # Errors
    /// The guest has ended.
    pub(super) fn answer(&self, status: u8, text: &str) -> Result<()> {
        answer(&self.control, status, text)
    }

    /// A function that answers the guest's last line from another thread.
    ///
    /// # Errors
    /// No descriptors are left.
    pub(super) fn answerer(&self) -> Result<impl FnOnce(u8, &str) + Send + 'static> {
        let control = self
            .control
            .try_clone()
            .context("cannot share the control channel")?;
        Ok(move |status, text: &str| {
            // If the guest has ended, the reader of its lines notices it.
            let _ = answer(&control, status, text);
        })
    }

    /// The kernel's output, and QEMU's own complaints.
    pub(super) fn logs(&self) -> [PathBuf; 2] {
        ["console.log", "qemu.log"].map(|name| self.folder.join(name))
    }

    /// Starts the capture that [`Machine::keep_capture`] keeps, and frees the packets before.
    pub(super) fn start_capture(&mut self) {
        let Ok(capture) = File::options().write(true).open(self.capture()) else {
            return;
        };
        self.capture_start = capture.metadata().map_or(0, |metadata| metadata.len());
        if let Some(length) = self
            .capture_start
            .checked_sub(CAPTURE_HEADER)
            .filter(|len| *len > 0)
        {
            // Where the file system cannot, the file just stays large until the guest ends.
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            let _ = fallocate(&capture, flags, CAPTURE_HEADER, length);
        }
    }

    /// Writes the packets since [`Machine::start_capture`] to `file`, and returns false when this guest has no capture.
    ///
    /// # Errors
    /// A file cannot be read or written.
    pub(super) fn keep_capture(&self, file: &Path) -> Result<bool> {
        if !self.model.captures {
            return Ok(false);
        }
        let mut capture = File::open(self.capture()).context("the capture cannot be read")?;
        let mut kept = File::create(file).context("the capture cannot be kept")?;
        std::io::copy(&mut (&mut capture).take(CAPTURE_HEADER), &mut kept)?;
        capture.seek(SeekFrom::Start(self.capture_start.max(CAPTURE_HEADER)))?;
        std::io::copy(&mut capture, &mut kept).context("the capture cannot be kept")?;
        Ok(true)
    }

    fn capture(&self) -> PathBuf {
        self.folder.join("capture.pcap")
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // Nothing to do about a failure: it has ended already, or the system takes it.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn answer(mut control: &UnixStream, status: u8, text: &str) -> Result<()> {
    let line = format!("{status} {}\n", text.replace('\n', " "));
    control
        .write_all(line.as_bytes())
        .context("the guest does not listen")
}

/// Ports of 127.0.0.1 that no other guest has been given and no process listens on.
///
/// QEMU binds the ports a moment later. They are below the range from which the kernel takes ports for connections,
/// because the scenarios of the other lane open many connections in that moment.
///
/// # Errors
/// No port is left.
fn free_ports() -> Result<[u16; 4]> {
    static NEXT: AtomicU16 = AtomicU16::new(*FORWARDED_PORTS.start());
    let mut ports = [0; 4];
    for free in &mut ports {
        *free = loop {
            let port = NEXT.fetch_add(1, Ordering::Relaxed);
            if !FORWARDED_PORTS.contains(&port) {
                bail!("no free port in {FORWARDED_PORTS:?}: which programs listen there?");
            }
            if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
                break port;
            }
        };
    }
    Ok(ports)
}

/// QEMU's command line: `nfs` and `same` are ports of the host, as in [`Machine`].
///
/// # Errors
/// The kernel is not in the cache.
fn arguments(
    recipe: &Recipe,
    folder: &Path,
    nfs: [u16; 3],
    same: u16,
    model: Model,
) -> Result<Vec<String>> {
    let forwards: String = nfs
        .into_iter()
        .zip(NFS_PORTS)
        .chain([(same, same)])
        .map(|(here, there)| format!(",hostfwd=tcp:127.0.0.1:{here}-:{there}"))
        .collect();
    let mut arguments: Vec<String> = MACHINE.split_whitespace().map(str::to_owned).collect();
    let mut add = |option: &str, value: String| arguments.extend([option.to_owned(), value]);
    let packages = recipe.kit.root();
    let shares = [
        ("host", Path::new("/"), ",readonly=on,multidevs=remap"),
        ("packages", &packages, ",readonly=on"),
        ("lab", &recipe.lab, ",readonly=on"),
        ("shared", &recipe.shared, ""),
    ];
    for (tag, path, options) in shares {
        let path = path.display();
        add(
            "-fsdev",
            format!("local,id={tag},path={path},security_model=none{options}"),
        );
        add(
            "-device",
            format!("virtio-9p-pci,fsdev={tag},mount_tag={tag}"),
        );
    }
    add("-netdev", format!("user,id=net,ipv6=off{forwards}"));
    if model.captures {
        let file = folder.join("capture.pcap");
        add(
            "-object",
            format!("filter-dump,id=capture,netdev=net,file={}", file.display()),
        );
    }
    add(
        "-serial",
        format!("file:{}", folder.join("console.log").display()),
    );
    let vmlinux = recipe.kit.image(model.kernel)?.vmlinux;
    add("-kernel", vmlinux.display().to_string());
    let initramfs = recipe.initramfs(model.kernel);
    add("-initrd", initramfs.display().to_string());
    let clock = fs::read_to_string("/proc/cpuinfo").ok();
    let clock = clock.and_then(|cpuinfo| clock_khz(&cpuinfo));
    let clock = clock.map_or_else(String::new, |khz| format!(" tsc_early_khz={khz}"));
    add("-append", format!("{KERNEL_OPTIONS}{clock}"));
    Ok(arguments)
}

/// The frequency of the time stamp counter, which the guest sees as it is, in kHz. `None` where /proc/cpuinfo lacks it.
///
/// A guest that starves while it boots measures it wrong by ten times, and then its clock runs as much too fast. A
/// machine that is itself a guest shows this frequency as that of its processors. Others show their present one.
fn clock_khz(cpuinfo: &str) -> Option<u64> {
    let value = |name: &str| {
        let line = cpuinfo.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.split_once(':'))
            .map(|(_, value)| value)
    };
    let is_steady = ["constant_tsc", "hypervisor"];
    let flags: Vec<&str> = value("flags")?.split_whitespace().collect();
    if !is_steady.iter().all(|flag| flags.contains(flag)) {
        return None;
    }
    let (mhz, khz) = value("cpu MHz")?.trim().split_once('.')?;
    mhz.parse::<u64>()
        .ok()?
        .checked_mul(1000)?
        .checked_add(khz.get(..3)?.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn the_clock_of_guests_is_told_where_it_is_steady() {
        let of =
            |flags: &str| format!("processor\t: 0\ncpu MHz\t\t: 2596.122\nflags\t\t: {flags}\n");
        assert_eq!(
            clock_khz(&of("fpu constant_tsc hypervisor")),
            Some(2_596_122)
        );
        assert_eq!(clock_khz(&of("fpu constant_tsc")), None);
        assert_eq!(clock_khz(""), None);
    }

    #[test]
    fn guests_never_share_a_port_nor_take_one_of_a_listener() {
        let listeners: Vec<_> = FORWARDED_PORTS
            .step_by(3)
            .take(20)
            .filter_map(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok())
            .collect();
        let listening: Vec<u16> = listeners
            .iter()
            .map(|one| one.local_addr().unwrap().port())
            .collect();
        let given: Vec<u16> = (0..10).flat_map(|_| free_ports().unwrap()).collect();
        let distinct: HashSet<u16> = given.iter().copied().collect();
        assert_eq!(distinct.len(), given.len());
        assert!(!listening.is_empty());
        assert!(listening.iter().all(|port| !distinct.contains(port)));
        assert!(given.iter().all(|port| FORWARDED_PORTS.contains(port)));
    }
}
