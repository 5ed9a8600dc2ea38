//! Checks of this machine: the settings that matter to Gannet.

use super::{Finding, Role};
use gannet::{DeviceInfo, VerbsError};
use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::{Errno, ReadWriteFlags};
use rustix::process::{Resource, Rlimit, getrlimit};
use std::fs;
use std::io::{self, IoSliceMut};
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;

const MIB: u64 = 1 << 20;
/// Locked memory below which a device's registrations do not fit.
const MEMLOCK_MIN: u64 = 256 * MIB;
/// Descriptors below which a server of many files or connections runs short.
const FILES_MIN: u64 = 4096;
/// Socket buffers below which one connection cannot keep 1 MiB transfers moving.
const SOCKET_BUFFER_MIN: u64 = 4 * MIB;
/// Memory below which the bounds of one serving core do not fit comfortably.
const MEMORY_MIN: u64 = 512 * MIB;
/// Capabilities by which a server acts as its callers: CHOWN, DAC_OVERRIDE, FOWNER, SETGID, SETUID (capability.h).
const CAPABILITIES: u64 = 1 | 1 << 1 | 1 << 3 | 1 << 6 | 1 << 7;

/// The checks of this machine that matter to it in `role`: a client has no exports and binds no port.
pub(super) fn findings(role: Role) -> Vec<Finding> {
    let rdma_devices = gannet::rdma_devices();
    let mut findings = vec![
        processor(),
        memory(&read("/proc/meminfo")),
        memlock(getrlimit(Resource::Memlock), rdma_devices.is_ok()),
        files(getrlimit(Resource::Nofile)),
    ];
    if role == Role::Both {
        findings.extend([
            kernel(),
            cached_reads(),
            identity(&read("/proc/self/status")),
        ]);
    }
    findings.extend(socket_buffers());
    if role == Role::Both {
        findings.extend([2049, 20049].map(port));
    }
    match rdma_devices {
        Ok(devices) => findings.extend(devices.iter().map(device)),
        Err(why) => findings.push(no_devices(&why)),
    }
    findings.push(modules());
    findings
}

fn read(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn processor() -> Finding {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    #[cfg(target_arch = "x86_64")]
    let crc = std::arch::is_x86_feature_detected!("sse4.2");
    #[cfg(target_arch = "aarch64")]
    let crc = std::arch::is_aarch64_feature_detected!("crc");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let crc = false;
    if crc {
        return Finding::ok("processor", format!("{cores} cores, CRC32C in hardware"));
    }
    Finding::note(
        "processor",
        format!("{cores} cores, no CRC32C instruction"),
        "CRCs are off unless --crc or a peer asks for them; they are slow here",
    )
}

/// The value in bytes of a line like `MemAvailable:  123 kB`.
fn kib_line(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let value: u64 = line
        .trim_start_matches(':')
        .split_whitespace()
        .next()?
        .parse()
        .ok()?;
    Some(value * 1024)
}

fn memory(meminfo: &str) -> Finding {
    let Some(available) = kib_line(meminfo, "MemAvailable") else {
        return Finding::warn("memory", "unknown", "mount /proc");
    };
    let found = format!("{} MiB available", available / MIB);
    if available < MEMORY_MIN {
        return Finding::warn("memory", found, "serve with fewer --cores, or free some");
    }
    Finding::ok("memory", found)
}

/// Any limit will do for the software RNIC, which locks nothing; memory that a device reaches is locked.
fn memlock(limit: Rlimit, has_devices: bool) -> Finding {
    const WHAT: &str = "memlock";
    let is_low = limit.current.is_some_and(|bytes| bytes < MEMLOCK_MIN);
    let limit = limit.current.map_or(String::from("unlimited"), |bytes| {
        format!("{} KiB", bytes / 1024)
    });
    if has_devices && is_low {
        return Finding::note(
            WHAT,
            format!("{limit}; RDMA devices need more (`--provider verbs`)"),
            "raise it: `ulimit -l unlimited`, or LimitMEMLOCK=infinity in the service",
        );
    }
    Finding::ok(WHAT, format!("{limit}; the software RNIC locks no memory"))
}

fn files(limit: Rlimit) -> Finding {
    let count = |bound: Option<u64>| bound.map_or(String::from("unlimited"), |it| it.to_string());
    let most = limit.maximum.unwrap_or(u64::MAX);
    if most < FILES_MIN {
        return Finding::warn(
            "files",
            format!("only {} may be open", count(limit.maximum)),
            "raise the hard limit: `ulimit -Hn 65536`, or LimitNOFILE=65536 in the service",
        );
    }
    Finding::ok("files", format!("{} may be open", count(limit.maximum)))
}

/// openat2(2) is what keeps paths inside an export.
fn kernel() -> Finding {
    let release = rustix::system::uname();
    let release = release.release().to_string_lossy().into_owned();
    let tried = rustix::fs::openat2(
        rustix::fs::CWD,
        "/",
        OFlags::PATH | OFlags::CLOEXEC,
        Mode::empty(),
        ResolveFlags::NO_SYMLINKS,
    );
    match tried {
        Ok(_) => Finding::ok("kernel", release),
        Err(error) => Finding::fail(
            "kernel",
            format!("{release}: openat2 fails: {error}"),
            "exports need Linux 5.6 or later, and a sandbox that allows openat2",
        ),
    }
}

/// preadv2(2) with RWF_NOWAIT distinguishes cached data from data on the disk.
fn cached_reads() -> Finding {
    const WHAT: &str = "cached reads";
    let path = std::env::current_exe().unwrap_or_else(|_| "/proc/self/exe".into());
    let file = match fs::File::open(&path) {
        Ok(file) => file,
        Err(error) => {
            let found = format!("not tried: cannot open {}: {error}", path.display());
            return Finding::note(WHAT, found, "run gannet from a readable path");
        }
    };
    let mut bytes = [0; 64];
    let mut slices = [IoSliceMut::new(&mut bytes)];
    match rustix::io::preadv2(&file, &mut slices, 0, ReadWriteFlags::NOWAIT) {
        Ok(_) | Err(Errno::AGAIN) => Finding::ok(WHAT, "answered without a switch of threads"),
        Err(error) => Finding::note(
            WHAT,
            format!("no RWF_NOWAIT where gannet itself lies: {error}"),
            "exports on such a file system take a thread for each read; ext4, XFS, Btrfs and tmpfs do not",
        ),
    }
}

fn identity(status: &str) -> Finding {
    const WHAT: &str = "identity";
    let effective = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0);
    if effective & CAPABILITIES == CAPABILITIES {
        return Finding::ok(WHAT, "a server here does each operation as its caller");
    }
    let user = rustix::process::geteuid().as_raw();
    Finding::note(
        WHAT,
        format!("a server here does every operation as user {user}"),
        "serve as root to serve several users",
    )
}

fn socket_buffers() -> Vec<Finding> {
    let largest = |path: &str| {
        let text = read(path);
        text.split_whitespace().nth(2)?.parse::<u64>().ok()
    };
    [
        (
            "receive buf",
            "net.ipv4.tcp_rmem",
            "/proc/sys/net/ipv4/tcp_rmem",
        ),
        (
            "send buf",
            "net.ipv4.tcp_wmem",
            "/proc/sys/net/ipv4/tcp_wmem",
        ),
    ]
    .into_iter()
    .filter_map(|(what, name, path)| Some(socket_buffer(what, name, largest(path)?)))
    .collect()
}

fn socket_buffer(what: &'static str, name: &str, largest: u64) -> Finding {
    let found = format!("TCP grows it to {} KiB", largest / 1024);
    if largest < SOCKET_BUFFER_MIN {
        return Finding::warn(
            what,
            found,
            format!("`sysctl -w {name}='4096 131072 {SOCKET_BUFFER_MIN}'`"),
        );
    }
    Finding::ok(what, found)
}

fn port(port: u16) -> Finding {
    let what = if port == 2049 {
        "NFS port"
    } else {
        "RDMA port"
    };
    let option = if port == 2049 {
        "--nfs-tcp"
    } else {
        "--nfs-rdma"
    };
    match TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)) {
        Ok(_) => Finding::ok(what, format!("{port} is free")),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Finding::note(
            what,
            format!("{port} is taken: a server runs here"),
            format!(
                "another one needs {option} ADDRESS:PORT; `ss -ltnp sport = :{port}` names this one"
            ),
        ),
        Err(error) => Finding::warn(
            what,
            format!("{port}: {error}"),
            format!("serve with {option} ADDRESS:PORT"),
        ),
    }
}

const RDMA_DEVICE: &str = "RDMA device";

/// Without devices all works by the software RNIC. A device that the kernel has and a process cannot use is a note.
fn no_devices(why: &VerbsError) -> Finding {
    let known = fs::read_dir("/sys/class/infiniband").is_ok_and(|mut all| all.next().is_some());
    if known {
        return Finding::note(RDMA_DEVICE, "cannot be used", why.to_string());
    }
    Finding::ok(
        RDMA_DEVICE,
        format!("none, and the software RNIC needs none ({why})"),
    )
}

/// An RDMA device: its kind, ports, addresses and limits.
fn device(device: &DeviceInfo) -> Finding {
    let kind = if device.is_iwarp {
        "iWARP"
    } else {
        "InfiniBand or RoCE"
    };
    let ports = device.ports.iter().map(|port| {
        let state = if port.is_active { "active" } else { "down" };
        let gids: Vec<String> = port.gids.iter().map(ToString::to_string).collect();
        let (number, mtu) = (port.number, port.active_mtu);
        format!("port {number} {state}, MTU {mtu}, GIDs {}", gids.join(" "))
    });
    let ports: Vec<String> = ports.collect();
    let limits = &device.limits;
    let windows = if limits.memory_windows {
        "type 2B"
    } else {
        "none"
    };
    let files = if device.maps_files {
        "sent from the page cache"
    } else {
        "copied"
    };
    let paging = if device.pages_on_demand { "yes" } else { "no" };
    let found = format!(
        "{}: {kind}; {}; {} connections, {} shared receives, read depth {}, {} gathered pieces; memory windows {windows}; \
         files {files}; on-demand paging {paging}; use it by `--provider verbs`",
        device.name,
        ports.join("; "),
        limits.max_qp,
        limits.max_srq_wr,
        limits.max_qp_rd_atom,
        limits.max_sge,
    );
    if device.ports.iter().any(|port| port.is_active) {
        return Finding::ok(RDMA_DEVICE, found);
    }
    Finding::note(
        RDMA_DEVICE,
        found,
        "no port is active: see `rdma link`, and set the interface up",
    )
}

/// Support of this machine's own kernel for mounting over RDMA.
fn modules() -> Finding {
    const WHAT: &str = "kernel client";
    let release = rustix::system::uname();
    let release = release.release().to_string_lossy().into_owned();
    let known = ["modules.dep", "modules.builtin"]
        .map(|list| read(format!("/lib/modules/{release}/{list}")))
        .concat();
    let missing: Vec<&str> = ["siw", "rpcrdma", "nfs"]
        .into_iter()
        .filter(|module| !has_module(&known, module))
        .collect();
    if missing.is_empty() {
        return Finding::ok(
            WHAT,
            "can mount with proto=rdma (siw and rpcrdma are there)",
        );
    }
    Finding::note(
        WHAT,
        format!(
            "cannot mount with proto=rdma: no module {}",
            missing.join(", ")
        ),
        "`gannet mount` and gannet's other commands need none; for `mount -t nfs` use proto=tcp",
    )
}

/// Whether a list of module files names `module`.
fn has_module(list: &str, module: &str) -> bool {
    list.lines()
        .filter_map(|line| line.split(':').next()?.rsplit('/').next())
        .any(|file| {
            file.strip_prefix(module)
                .is_some_and(|rest| rest.starts_with(".ko"))
        })
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;

    fn limit(bound: Option<u64>) -> Rlimit {
        Rlimit {
            current: bound,
            maximum: bound,
        }
    }

    #[test]
    fn a_low_limit_is_a_warning_where_gannet_needs_more() {
        for bound in [None, Some(8 << 20), Some(0)] {
            assert_eq!(
                memlock(limit(bound), false).verdict,
                Verdict::Ok,
                "{bound:?}"
            );
        }
        assert_eq!(memlock(limit(Some(8 << 20)), true).verdict, Verdict::Note);
        assert_eq!(memlock(limit(None), true).verdict, Verdict::Ok);
        assert_eq!(files(limit(Some(1024))).verdict, Verdict::Warn);
        assert_eq!(files(limit(Some(1 << 20))).verdict, Verdict::Ok);
    }

    #[test]
    fn memory_comes_from_the_kernels_own_estimate() {
        let plenty = "MemTotal: 9 kB\nMemAvailable:  2097152 kB\n";
        let finding = memory(plenty);
        assert_eq!(
            (finding.verdict, &*finding.found),
            (Verdict::Ok, "2048 MiB available")
        );
        assert_eq!(memory("MemAvailable: 1000 kB\n").verdict, Verdict::Warn);
        assert_eq!(memory("").verdict, Verdict::Warn);
    }

    #[test]
    fn a_server_without_capabilities_serves_one_user() {
        assert_eq!(identity("CapEff:\t000001ffffffffff\n").verdict, Verdict::Ok);
        assert_eq!(
            identity("CapEff:\t0000000000000000\n").verdict,
            Verdict::Note
        );
        assert_eq!(identity("").verdict, Verdict::Note);
    }

    #[test]
    fn modules_are_found_by_their_own_names() {
        let list = "kernel/drivers/infiniband/sw/siw/siw.ko.xz: kernel/x/ib_core.ko.xz\nkernel/fs/nfs/nfs.ko\n";
        assert!(has_module(list, "siw") && has_module(list, "nfs"));
        assert!(
            !has_module(list, "ib_core"),
            "a dependency is not the module of its line"
        );
        assert!(!has_module(list, "rpcrdma"));
    }

    #[test]
    fn a_small_socket_buffer_is_a_warning_that_names_the_sysctl() {
        let small = socket_buffer("send buf", "net.ipv4.tcp_wmem", 200 * 1024);
        assert!(small.fix.unwrap().contains("sysctl -w net.ipv4.tcp_wmem"));
        assert_eq!(socket_buffer("send buf", "x", 6 * MIB).verdict, Verdict::Ok);
    }

    #[test]
    fn a_port_in_use_is_a_note_because_a_server_may_run() {
        let taken = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        let finding = port(taken.local_addr().unwrap().port());
        assert_eq!(finding.verdict, Verdict::Note, "{}", finding.found);
    }

    #[test]
    fn a_client_is_told_nothing_about_exports_and_ports() {
        let subjects = |role| {
            let findings = findings(role);
            assert!(findings.iter().all(|finding| {
                let has_advice = finding.fix.is_some();
                (finding.verdict != Verdict::Ok) == has_advice && !finding.found.is_empty()
            }));
            findings.iter().map(|it| it.what).collect::<Vec<_>>()
        };
        let of_server = [
            "kernel",
            "cached reads",
            "identity",
            "NFS port",
            "RDMA port",
        ];
        let (client, both) = (subjects(Role::Client), subjects(Role::Both));
        for what in of_server {
            assert!(both.contains(&what) && !client.contains(&what), "{what}");
        }
        assert_eq!(client.len() + of_server.len(), both.len());
    }
}
