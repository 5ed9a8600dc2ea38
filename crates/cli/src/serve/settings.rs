//! The settings of a server, from the command line and the configuration file.

use crate::admin_address;
use crate::audit::{AuditOptions, SIZE_MIN};
use crate::cli::{Listen, ServeOptions};
use crate::config::{
    AuditConfig, Config, ExportConfig, Root, RuleConfig, ServerConfig, SquashConfig,
};
use crate::failure::{Explain, Failure};
use crate::session::check_paging;
use gannet::FabricOptions;
use gannet::admin::AdminAddress;
use gannet::server::default_budget;
use gannet::url::{NFS_RDMA_PORT, NFS_TCP_PORT};
use gannet::volume::{HostOptions, VolumeRole};
use gannet_localfs::{LocalOptions, LocalTree, TreeCounters, descriptors_each, own_credentials};
use gannet_nfs::server::{Export, Network, Rules, Squash};
use gannet_rpc::{ConnectionLimits, Engine, EngineError, RdmaOptions};
use gannet_runtime::tokio_plug::available_cores;
use gannet_session::Budget;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::{NonZeroU8, NonZeroU32};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Most threads that serve, whatever is asked for.
const CORES_MAX: usize = 256;

/// The engine that was asked for, if a server can have it.
fn engine(asked: Option<Engine>) -> Result<Option<Engine>, Failure> {
    match asked {
        Some(Engine::Pipelined) => Err(Failure::usage(
            "--engine pipelined is refused",
            EngineError::Pipes,
        )),
        other => Ok(other),
    }
}

/// Directories that are open, by their path and whether every caller has the server's own rights there.
pub(super) type OpenTrees = BTreeMap<(PathBuf, bool), Arc<LocalTree>>;

/// How many exports a reload changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ExportChanges {
    pub(super) added: usize,
    pub(super) changed: usize,
    pub(super) removed: usize,
}

/// Settled: nothing is left to a default.
#[derive(Clone)]
pub(super) struct Settings {
    pub(super) nfs_tcp: Listen,
    pub(super) nfs_rdma: Listen,
    pub(super) cores: usize,
    pub(super) fabric: FabricOptions,
    pub(super) ready_file: Option<PathBuf>,
    /// Where administrators are answered.
    pub(super) admin: Option<AdminAddress>,
    /// Networks whose hosts are answered there.
    pub(super) admin_clients: Vec<Network>,
    /// The least time of a call that is slow.
    pub(super) slow: Option<Duration>,
    /// The audit log.
    pub(super) audit: Option<AuditOptions>,
    /// Limits of the connections of each core.
    pub(super) connections: ConnectionLimits,
    /// The bound of the memory that peers may make this process hold.
    pub(super) budget: Budget,
    pub(super) rdma: RdmaOptions,
    /// Look groups of callers up here.
    pub(super) manage_gids: bool,
    /// The folder of the volume that is the only export, and what of it this process runs.
    pub(super) volume: Option<(PathBuf, HostOptions)>,
    exports: Vec<ExportConfig>,
    local: LocalOptions,
}

impl Settings {
    /// Reads the configuration file, if there is one, and lets the command line win over it.
    ///
    /// # Errors
    /// The file cannot be used, nothing would listen, or other machines would be served without being named.
    pub(super) fn resolve(options: &ServeOptions) -> Result<Settings, Failure> {
        if options.sync_metadata {
            let why = "metadata is durable before the reply by default";
            return Err(
                Failure::usage("--sync-metadata is not an option any more", why)
                    .hint("leave it out; --async-metadata replies before metadata is durable"),
            );
        }
        let root = match (&options.volume, &options.path) {
            (Some(volume), _) => Root::Volume(volume),
            (None, Some(path)) => Root::Directory(path),
            (None, None) => Root::None,
        };
        let config = match &options.config {
            Some(file) => Config::load(file, root)?,
            None => Config::of_root(root),
        };
        let listen = config.listen;
        let exports = (config.export.into_iter())
            .map(|export| restrict(export, options))
            .collect::<Result<Vec<_>, Failure>>()?;
        let is_role = options.role.contains(&VolumeRole::Nfs);
        let is_off = options.volume.is_some() && !is_role;
        let default = |port| default_listen(&exports, is_off, port);
        let cores = options
            .cores
            .or(config.server.cores)
            .map_or_else(available_cores, usize::from);
        let cores = cores.clamp(1, CORES_MAX);
        let fabric = fabric(options, &config.server)?;
        let budget = budget(&config.server);
        let settings = Settings {
            nfs_tcp: (options.nfs_tcp.or(listen.nfs_tcp)).unwrap_or(default(NFS_TCP_PORT)),
            nfs_rdma: (options.nfs_rdma.or(listen.nfs_rdma)).unwrap_or(default(NFS_RDMA_PORT)),
            cores,
            fabric,
            ready_file: options.ready_file.clone(),
            admin: options.admin.clone().or(config.admin.listen),
            admin_clients: admin_clients(options, config.admin.clients),
            slow: options.slow.or(config.admin.slow),
            audit: audit(options, config.audit)?,
            connections: connections(&config.server, &budget, cores)?,
            budget: budget.clone(),
            rdma: RdmaOptions {
                registration: options.memory.registration()?,
                design: options.memory.design,
                engine: engine(options.engine)?,
            },
            manage_gids: options.manage_gids || config.server.manage_gids,
            volume: options.volume.clone().map(|path| {
                let native = options.native.or(listen.native);
                (path, host_options(options, native, cores, fabric, budget))
            }),
            exports,
            local: LocalOptions {
                state_dir: options
                    .state_dir
                    .clone()
                    .or(config.server.state_dir)
                    .or_else(systemd_state),
                async_metadata: options.async_metadata || config.server.async_metadata,
                uncached_writes: options.uncached_writes || config.server.uncached_writes,
                ..LocalOptions::default()
            },
        };
        let settings = settings.without_manager(options)?;
        settings.check_silence(options)?;
        settings.check_exposure()?;
        Ok(settings)
    }

    /// Refuses to start when no transport listens, or when rules would apply to no client.
    fn check_silence(&self, options: &ServeOptions) -> Result<(), Failure> {
        admin_address::check(self.admin.as_ref(), &self.admin_clients)?;
        if self.listens().next().is_some() {
            return Ok(());
        }
        let is_role = options.role.contains(&VolumeRole::Nfs);
        if self.volume.is_none() || is_role {
            return Err(
                Failure::usage("nothing to serve", "both transports are off")
                    .hint("leave --nfs-tcp or --nfs-rdma on"),
            );
        }
        let rules = [
            (!options.allow.is_empty(), "--allow"),
            (options.read_only, "--read-only"),
            (options.no_root_squash, "--no-root-squash"),
            (options.secure, "--secure"),
        ];
        match rules.into_iter().find(|(is_given, _)| *is_given) {
            Some((_, option)) => {
                let what = format!("{option} has no effect");
                let why = "it is a rule of NFS, and NFS is off";
                Err(Failure::usage(what, why).hint("add --nfs-tcp ADDR, --nfs-rdma ADDR, or both"))
            }
            None => Ok(()),
        }
    }

    /// Where NFS listens.
    fn listens(&self) -> impl Iterator<Item = SocketAddr> {
        let listens = [self.nfs_tcp, self.nfs_rdma].into_iter();
        listens.filter_map(|listen| match listen {
            Listen::Off => None,
            Listen::At(address) => Some(address),
        })
    }

    /// The first address of NFS that other machines can reach.
    fn exposed(&self) -> Option<SocketAddr> {
        self.listens()
            .find(|address| !address.ip().to_canonical().is_loopback())
    }

    /// Refuses to serve other machines by an export that does not name them.
    fn check_exposure(&self) -> Result<(), Failure> {
        let Some(address) = self.exposed() else {
            return Ok(());
        };
        let mut exports = self.exports.iter();
        let Some(open) = exports.find(|export| export.networks().next().is_none()) else {
            return Ok(());
        };
        let what = format!("cannot serve {} at {address}", open.name);
        let why = "the export has no list of clients";
        Err(Failure::usage(what, why).hint(
            "name them: --allow 192.0.2.0/24, or `clients` of the export; --allow 0.0.0.0/0 is everybody; \
             or listen at 127.0.0.1",
        ))
    }

    /// NFS is served where the manager runs, and by a role of its own.
    fn without_manager(self, options: &ServeOptions) -> Result<Settings, Failure> {
        if self
            .volume
            .as_ref()
            .is_none_or(|(_, host)| host.serves_nfs())
        {
            return Ok(self);
        }
        let asked = [options.nfs_tcp, options.nfs_rdma];
        if asked.iter().flatten().any(|listen| *listen != Listen::Off) {
            let why = "NFS is a role of its own";
            return Err(Failure::usage("cannot serve NFS here", why)
                .hint("add --role nfs, or leave --nfs-tcp and --nfs-rdma out"));
        }
        Ok(Settings {
            nfs_tcp: Listen::Off,
            nfs_rdma: Listen::Off,
            ..self
        })
    }

    /// Opens the directories, apart from those that are `open` already, and keeps those that are exported in it.
    ///
    /// # Errors
    /// One of them cannot be served; `open` is as it was.
    pub(super) fn open_exports(
        &self,
        open: &mut OpenTrees,
    ) -> Result<Vec<(Export, Arc<LocalTree>)>, Failure> {
        let each = descriptors_each(self.exports.len());
        let local = LocalOptions {
            descriptors_max: Some(each.explain(|| String::from("cannot export directories"))?),
            ..self.local.clone()
        };
        let mut exported = OpenTrees::default();
        let opened = self.exports.iter().map(|config| {
            let export = export_of(config)?;
            let callers_are_server = export.squashes_all_to(&own_credentials());
            let key = (config.path.clone(), callers_are_server);
            let tree = match open.get(&key).or(exported.get(&key)) {
                Some(tree) => Arc::clone(tree),
                None => {
                    let local = LocalOptions {
                        callers_are_server,
                        ..local.clone()
                    };
                    LocalTree::open(&config.path, &local)
                        .explain(|| format!("cannot export {}", config.name))?
                }
            };
            exported.insert(key, Arc::clone(&tree));
            log_export(config);
            Ok((export, tree))
        });
        let opened = opened.collect::<Result<_, Failure>>()?;
        *open = exported;
        Ok(opened)
    }

    /// The settings that `new` has otherwise, and that only a start applies; by the keys of the configuration.
    pub(super) fn fixed_unlike(&self, new: &Settings) -> Vec<&'static str> {
        let differ = [
            ("listen.nfs_tcp", self.nfs_tcp != new.nfs_tcp),
            ("listen.nfs_rdma", self.nfs_rdma != new.nfs_rdma),
            ("server.cores", self.cores != new.cores),
            (
                "server: RDMA",
                self.fabric != new.fabric || self.rdma != new.rdma,
            ),
            (
                "server.max_connections",
                self.cores == new.cores && self.connections != new.connections,
            ),
            (
                "server.max_peer_memory",
                self.budget.bytes_max() != new.budget.bytes_max(),
            ),
            ("server.manage_gids", self.manage_gids != new.manage_gids),
            (
                "admin",
                self.admin != new.admin || self.admin_clients != new.admin_clients,
            ),
            ("audit", self.audit != new.audit),
            (
                "server.state_dir, server.async_metadata, server.uncached_writes",
                self.local.state_dir != new.local.state_dir
                    || self.local.async_metadata != new.local.async_metadata
                    || self.local.uncached_writes != new.local.uncached_writes,
            ),
        ];
        let differ = differ.into_iter().filter(|(_, differs)| *differs);
        differ.map(|(name, _)| name).collect()
    }

    /// These settings with the exports of `new`.
    ///
    /// # Errors
    /// An export would be served to every machine that reaches the addresses at which this server listens already.
    pub(super) fn with_exports_of(&self, new: Settings) -> Result<Settings, Failure> {
        let changed = Settings {
            exports: new.exports,
            slow: new.slow,
            ..self.clone()
        };
        changed.check_exposure()?;
        Ok(changed)
    }

    /// The counters of all exported directories.
    pub(super) fn tree_counters(&self) -> Arc<TreeCounters> {
        Arc::clone(&self.local.counters)
    }

    /// The folder of the volume; empty without one.
    pub(super) fn folder(&self) -> PathBuf {
        let folder = self.volume.as_ref().map(|(path, _)| path.clone());
        folder.unwrap_or_default()
    }

    /// How many exports `new` has otherwise.
    pub(super) fn export_changes(&self, new: &Settings) -> ExportChanges {
        let before = |export: &ExportConfig| named(&self.exports, &export.name);
        let is_new = |export: &&ExportConfig| before(export).is_none();
        let is_changed = |export: &&ExportConfig| before(export).is_some_and(|it| it != *export);
        let is_gone = |export: &&ExportConfig| named(&new.exports, &export.name).is_none();
        ExportChanges {
            added: new.exports.iter().filter(is_new).count(),
            changed: new.exports.iter().filter(is_changed).count(),
            removed: self.exports.iter().filter(is_gone).count(),
        }
    }

    /// Each export by itself.
    ///
    /// # Errors
    /// One of them makes no sense.
    pub(super) fn exports(&self) -> Result<Vec<Export>, Failure> {
        let exports = self.exports.iter().map(|config| {
            let export = export_of(config)?;
            log_export(config);
            Ok(export)
        });
        exports.collect()
    }

    /// Warns about exports that every host can mount, or clients can write as root.
    pub(super) fn warn_about_exposure(&self) {
        if self.exposed().is_none() {
            return;
        }
        for export in &self.exports {
            let name = export.name.as_str();
            if export.networks().any(|network| network.prefix() == 0) {
                tracing::warn!(
                    name,
                    "every host that reaches this host can mount the export"
                );
            }
            let mut rules = export.rule.iter();
            let trusts = |rule: &RuleConfig| rule.squash == Some(SquashConfig::None);
            if export.squash == SquashConfig::None || rules.any(trusts) {
                tracing::warn!(
                    name,
                    "root of its clients is root here: leave out --no-root-squash unless every client is trusted"
                );
            }
        }
    }
}

/// The audit log, if there is one.
///
/// # Errors
/// The file would be too small, or its bounds have no file.
fn audit(options: &ServeOptions, config: AuditConfig) -> Result<Option<AuditOptions>, Failure> {
    let bounds = (config.max_size, config.keep, config.lines_per_second);
    let Some(path) = options.audit_log.clone().or(config.file) else {
        if bounds != (None, None, None) {
            let why = "it has no `file`";
            return Err(Failure::usage("[audit] has no effect", why)
                .hint("add `file = \"/var/log/gannet/audit\"`, or --audit-log FILE"));
        }
        return Ok(None);
    };
    let defaults = AuditOptions::at(path);
    let size_max = config.max_size.unwrap_or(defaults.size_max);
    if size_max < SIZE_MIN {
        let why = "a file must hold a line";
        return Err(Failure::usage("`max_size` of [audit] is too small", why)
            .hint(format!("set max_size = \"{}K\" or more", SIZE_MIN >> 10)));
    }
    let lines = config.lines_per_second.map(NonZeroU32::get);
    Ok(Some(AuditOptions {
        size_max,
        keep: config.keep.map_or(defaults.keep, NonZeroU8::get),
        lines_per_second: lines.unwrap_or(defaults.lines_per_second),
        ..defaults
    }))
}

/// The networks that may ask as an administrator; the command line replaces those of the file.
fn admin_clients(options: &ServeOptions, configured: Vec<Network>) -> Vec<Network> {
    if options.admin_allow.is_empty() {
        configured
    } else {
        options.admin_allow.clone()
    }
}

/// Where NFS listens when nothing is said: not at all if it `is_off`; on loopback unless clients elsewhere are named.
fn default_listen(exports: &[ExportConfig], is_off: bool, port: u16) -> Listen {
    if is_off {
        return Listen::Off;
    }
    let networks = || exports.iter().flat_map(ExportConfig::networks);
    let address = if networks().all(|network| network.is_loopback()) {
        IpAddr::V4(Ipv4Addr::LOCALHOST)
    } else if networks().any(|network| network.is_ipv6()) {
        IpAddr::V6(Ipv6Addr::UNSPECIFIED)
    } else {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED)
    };
    Listen::At(SocketAddr::new(address, port))
}

fn export_of(config: &ExportConfig) -> Result<Export, Failure> {
    let own = Rules {
        read_only: config.read_only,
        squash: squash_of(config.squash),
        secure: config.secure,
    };
    let mut made =
        Export::new(&config.name).and_then(|export| export.with_clients(config.clients.clone()));
    for rule in &config.rule {
        let rules = Rules {
            read_only: rule.read_only.unwrap_or(own.read_only),
            squash: rule.squash.map_or(own.squash, squash_of),
            secure: rule.secure.unwrap_or(own.secure),
        };
        made = made.and_then(|export| export.with_rules(rule.clients.clone(), rules));
    }
    let mut export = made.explain(|| format!("cannot export {}", config.name))?;
    export.rules = own;
    export.anonymous_uid = config.anonuid;
    export.anonymous_gid = config.anongid;
    Ok(export)
}

fn named<'a>(exports: &'a [ExportConfig], name: &str) -> Option<&'a ExportConfig> {
    exports.iter().find(|export| export.name == name)
}

fn log_export(config: &ExportConfig) {
    tracing::info!(
        path = %config.path.display(),
        name = config.name,
        read_only = config.read_only,
        squash = config.squash.name(),
        secure = config.secure,
        rules = config.rule.len(),
        "exporting"
    );
}

fn squash_of(config: SquashConfig) -> Squash {
    match config {
        SquashConfig::Root => Squash::Root,
        SquashConfig::All => Squash::All,
        SquashConfig::None => Squash::None,
    }
}

/// Applies the command line to every export and every rule, over the values of the file. Apart from `--read-only`
/// and `--secure`, that can also widen the access of clients.
fn restrict(mut export: ExportConfig, options: &ServeOptions) -> Result<ExportConfig, Failure> {
    if !options.allow.is_empty() {
        if !export.rule.is_empty() {
            let what = format!("--allow cannot replace the rules of {}", export.name);
            let why = "the configuration has other rules for some of its clients";
            return Err(Failure::usage(what, why).hint("write all networks to the configuration"));
        }
        export.clients.clone_from(&options.allow);
    }
    export.read_only |= options.read_only;
    export.secure |= options.secure;
    for rule in &mut export.rule {
        rule.read_only = rule.read_only.map(|it| it | options.read_only);
        rule.secure = rule.secure.map(|it| it | options.secure);
    }
    if options.no_root_squash {
        export.squash = SquashConfig::None;
        export.rule.iter_mut().for_each(|rule| rule.squash = None);
    }
    Ok(export)
}

/// The share of each core: connections are spread evenly over them.
///
/// # Errors
/// The budget has no room for as many connections as the configuration allows.
fn connections(
    config: &ServerConfig,
    budget: &Budget,
    cores: usize,
) -> Result<ConnectionLimits, Failure> {
    let defaults = ConnectionLimits::within(budget, cores);
    let share = |whole: Option<NonZeroU32>, default| {
        whole.map_or(default, |whole| (whole.get() as usize).div_ceil(cores))
    };
    let limits = ConnectionLimits {
        total_max: share(config.max_connections, defaults.total_max),
        per_origin_max: share(config.max_connections_per_client, defaults.per_origin_max),
        ..defaults
    };
    let asked = config.max_connections.map_or(0, |it| it.get() as usize);
    if asked > budget.connections_max() {
        let needed = ConnectionLimits::budget_for(asked).div_ceil(1 << 20);
        let what = format!("cannot allow {asked} connections");
        let has = budget.connections_max();
        let why = format!("the memory for clients has room for {has}");
        let hint = format!("set max_peer_memory = \"{needed}M\" or more, or lower max_connections");
        return Err(Failure::new(what, why).hint(hint));
    }
    Ok(limits)
}

/// The settings of RDMA connections, of the command line or else of the file.
///
/// # Errors
/// They ask the software RNIC for on-demand paging.
fn fabric(options: &ServeOptions, config: &ServerConfig) -> Result<FabricOptions, Failure> {
    let crc = options.crc.or(config.crc);
    let provider = options.provider.or(config.provider).unwrap_or_default();
    let on_demand_paging = options.on_demand_paging || config.on_demand_paging;
    check_paging(on_demand_paging, provider)?;
    Ok(FabricOptions {
        provider,
        crc: crc.is_some_and(crate::cli::Switch::is_on),
        on_demand_paging,
    })
}

/// As much as the configuration says, or what also a small machine can spare.
fn budget(config: &ServerConfig) -> Budget {
    config.max_peer_memory.map_or_else(default_budget, |bytes| {
        Budget::new(usize::try_from(bytes).unwrap_or(usize::MAX))
    })
}

fn host_options(
    options: &ServeOptions,
    native: Option<Listen>,
    cores: usize,
    fabric: FabricOptions,
    budget: Budget,
) -> HostOptions {
    HostOptions {
        standing_by: Some(super::notify::standing_by),
        budget,
        native: native.map(|listen| match listen {
            Listen::At(address) => address,
            // On loopback alone.
            Listen::Off => SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        }),
        roles: options.role.clone(),
        lost_disks: options.lost_disk.iter().map(|it| *it as usize).collect(),
        manager: options.manager.clone(),
        dscp: options.dscp,
        threads: cores,
        fabric,
        force_term: options.force_term,
        // Set with the address for administrators.
        watched: false,
    }
}

/// Where systemd wants a unit with `StateDirectory=` to keep its state; the first of several.
fn systemd_state() -> Option<PathBuf> {
    let directories = std::env::var_os("STATE_DIRECTORY")?;
    std::env::split_paths(&directories)
        .next()
        .filter(|path| path.is_absolute())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_follow_from_the_clients_that_are_named() {
        let export = |clients: &[&str]| {
            let root = Root::Directory(std::path::Path::new("/srv"));
            let mut exports = Config::of_root(root).export;
            exports[0].clients = clients.iter().map(|text| text.parse().unwrap()).collect();
            exports
        };
        for (clients, address) in [
            (&[][..], "127.0.0.1:2049"),
            (&["127.0.0.1", "::1"], "127.0.0.1:2049"),
            (&["127.0.0.1", "10.0.0.0/8"], "0.0.0.0:2049"),
            (&["10.0.0.0/8", "2001:db8::/32"], "[::]:2049"),
        ] {
            let listen = default_listen(&export(clients), false, NFS_TCP_PORT);
            assert_eq!(listen, address.parse().unwrap());
            let of_volume = default_listen(&export(clients), true, NFS_TCP_PORT);
            assert_eq!(of_volume, Listen::Off);
        }
    }

    #[test]
    fn bounds_of_connections_are_shared_out_among_the_cores() {
        let config = ServerConfig {
            max_connections: NonZeroU32::new(9),
            ..ServerConfig::default()
        };
        let budget = Budget::default();
        let limits = connections(&config, &budget, 4).unwrap();
        assert_eq!(limits.total_max, 3);
        let defaults = ConnectionLimits::within(&budget, 4);
        assert_eq!(limits.per_origin_max, defaults.per_origin_max);
    }

    #[test]
    fn more_connections_than_the_memory_for_clients_has_room_for_are_refused_at_the_start() {
        let budget = Budget::new(128 << 20);
        let with = |most| {
            let config = ServerConfig {
                max_connections: NonZeroU32::new(most),
                ..ServerConfig::default()
            };
            connections(&config, &budget, 2).map_err(|failure| failure.to_string())
        };
        assert_eq!(with(8192).unwrap().total_max, 4096);
        let refused = with(8193).unwrap_err();
        assert!(refused.contains("max_peer_memory = \"129M\""), "{refused}");
    }
}
