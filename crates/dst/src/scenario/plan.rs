//! The plan of a run: everything that its seed decides before the machines start.

use gannet_fabric::registration::{Registration, StrategyKind, Trust};
use gannet_rpc::Design;
use gannet_sim::LinkProfile;
use gannet_sim::Random;
use gannet_sim::fabric::FabricProfile;
use gannet_sim::store::DiskProfile;
use gannet_vfs::Status;

/// The plan of one run.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) transport: Transport,
    pub(super) workers: usize,
    /// Operations of each worker while faults are on, and again after.
    pub(super) operations: usize,
    /// Faults.
    pub(super) events: u64,
    pub(super) crashes: Crashes,
    pub(super) links: LinkProfile,
    pub(super) disk: DiskProfile,
    pub(super) fabric: FabricProfile,
    pub(super) crc: bool,
    pub(super) ulpdu_max: usize,
    /// How both ends register memory.
    pub(super) registration: Registration,
    /// The transfer designs that the server allows and that the client prefers.
    pub(super) designs: (Design, Design),
    /// Some faults last longer than a client waits for a reply.
    pub(super) long_faults: bool,
}

/// The transport of NFS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Transport {
    Tcp,
    Iwarp,
    Memory,
    /// Workers differ: TCP and iWARP next to each other.
    Mixed,
}

/// Whether the server crashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Crashes {
    Never,
    /// Its process ends, or its power fails.
    Sometimes,
}

impl Plan {
    pub(super) fn draw(random: &Random) -> Plan {
        let transports = [
            Transport::Tcp,
            Transport::Iwarp,
            Transport::Memory,
            Transport::Mixed,
        ];
        let crashes = if random.chance(700) {
            Crashes::Sometimes
        } else {
            Crashes::Never
        };
        // A write cut short and then lost with a crash has more outcomes than are worth following.
        let short_writes = if crashes == Crashes::Never { 100 } else { 0 };
        let mut plan = Plan {
            transport: transports[random.index(transports.len())],
            workers: usize::try_from(random.between(1, 4)).unwrap_or(1),
            operations: usize::try_from(random.between(40, 160)).unwrap_or(40),
            events: if random.chance(100) {
                0
            } else {
                random.between(3, 25)
            },
            crashes,
            links: links(random),
            disk: DiskProfile {
                slow_per_mille: random.between(0, 1000),
                delay_max_ns: random.between(10_000, 50_000_000),
                io_errors_per_mille: if random.chance(300) { 10 } else { 0 },
                no_space_per_mille: if random.chance(300) { 20 } else { 0 },
                short_writes_per_mille: short_writes,
                evictions_per_mille: random.between(0, 100),
            },
            fabric: FabricProfile {
                survivable_exceptions: random.chance(500),
                segment_len: [100, 1448, 16 << 10, 64 << 10][random.index(4)],
                resets_per_million: if random.chance(500) { 1000 } else { 0 },
                connect_failures_per_mille: if random.chance(300) { 200 } else { 0 },
                registration_failures_per_mille: if random.chance(200) { 20 } else { 0 },
                ..FabricProfile::default()
            },
            crc: random.chance(500),
            ulpdu_max: usize::try_from(random.between(128, 64_768)).unwrap_or(1448),
            registration: Registration::default(),
            designs: <(Design, Design)>::default(),
            long_faults: false,
        };
        plan.draw_memory(random);
        plan.long_faults = random.chance(300);
        plan
    }

    /// How memory is registered and bulk data moved, where that is by RDMA.
    fn draw_memory(&mut self, random: &Random) {
        let kinds = StrategyKind::ALL;
        let kind = kinds[random.index(kinds.len())];
        self.registration = Registration::new(kind, Trust::Trusted).unwrap_or_default();
        let design = |random: &Random| Design::ALL[random.index(Design::ALL.len())];
        self.designs = (design(random), design(random));
        self.fabric.physical_segment_len = random.chance(500).then_some(4096);
        self.fabric.read_depth_max = [1, 2, 8, 16][random.index(4)];
    }
}

impl Plan {
    /// Errors of the disk that are part of the plan; they end with the faults.
    pub(super) fn excuses(&self, status: Status) -> bool {
        match status {
            Status::Io => self.disk.io_errors_per_mille > 0,
            Status::Nospc => self.disk.no_space_per_mille > 0,
            _ => false,
        }
    }
}

pub(super) fn links(random: &Random) -> LinkProfile {
    LinkProfile {
        latency_ns: random.between(1_000, 2_000_000),
        jitter_ns: random.between(0, 1_000_000),
        kibibyte_ns: random.between(100, 20_000),
        window: 1 << random.between(13, 20),
        reslice_per_mille: random.between(0, 800),
    }
}
