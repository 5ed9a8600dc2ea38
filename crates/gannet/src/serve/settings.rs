//! What the command line and the configuration file come to.

use crate::cli::{Listen, ServeOptions};
use crate::config::{Config, ExportConfig, ServerConfig, SquashConfig};
use crate::failure::{Explain, Failure};
use crate::url::{NFS_RDMA_PORT, NFS_TCP_PORT};
use crate::volume::HostOptions;
use gannet_nfs::server::{Export, Squash};
use gannet_rpc::{ConnectionLimits, RdmaOptions};
use gannet_runtime::tokio_plug::available_cores;
use gannet_vfs::local::{LocalOptions, LocalTree, descriptors_each};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;

/// Most threads that serve, whatever is asked for.
const CORES_MAX: usize = 256;

/// Settled: nothing is left to a default.
pub(super) struct Settings {
    pub(super) nfs_tcp: Listen,
    pub(super) nfs_rdma: Listen,
    pub(super) cores: usize,
    pub(super) crc: bool,
    pub(super) ready_file: Option<PathBuf>,
    /// For each core.
    pub(super) connections: ConnectionLimits,
    pub(super) rdma: RdmaOptions,
    /// The folder of the volume that is the only export, and what of it this process runs.
    pub(super) volume: Option<(PathBuf, HostOptions)>,
    exports: Vec<ExportConfig>,
    local: LocalOptions,
}

impl Settings {
    /// Reads the configuration file, if there is one, and lets the command line win over it.
    ///
    /// # Errors
    /// The file cannot be used, or nothing would listen.
    pub(super) fn resolve(options: &ServeOptions) -> Result<Settings, Failure> {
        let config = match (&options.config, &options.path) {
            (Some(file), root) => Config::load(file, root.as_deref())?,
            (None, Some(path)) => Config::of_directory(path),
            // The parser insists on one of them. A volume is exported by the same rules as a directory.
            (None, None) => options
                .volume
                .as_deref()
                .map_or_else(Config::default, Config::of_directory),
        };
        let any = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        let default = |port| Listen::At(SocketAddr::new(any, port));
        let cores = options
            .cores
            .or(config.server.cores)
            .map_or_else(available_cores, usize::from);
        let cores = cores.clamp(1, CORES_MAX);
        let crc = options.crc.or(config.server.crc);
        let crc = crc.is_some_and(crate::cli::Switch::is_on);
        let settings = Settings {
            nfs_tcp: options
                .nfs_tcp
                .or(config.listen.nfs_tcp)
                .unwrap_or(default(NFS_TCP_PORT)),
            nfs_rdma: options
                .nfs_rdma
                .or(config.listen.nfs_rdma)
                .unwrap_or(default(NFS_RDMA_PORT)),
            cores,
            crc,
            ready_file: options.ready_file.clone(),
            connections: connections(&config.server, cores),
            rdma: RdmaOptions {
                registration: options.memory.registration()?,
                design: options.memory.design,
            },
            volume: options
                .volume
                .clone()
                .map(|path| (path, host_options(options, (cores, crc)))),
            exports: config
                .export
                .into_iter()
                .map(|export| restrict(export, options))
                .collect(),
            local: LocalOptions {
                state_dir: options
                    .state_dir
                    .clone()
                    .or(config.server.state_dir)
                    .or_else(systemd_state),
                sync_metadata: options.sync_metadata || config.server.sync_metadata,
                ..LocalOptions::default()
            },
        };
        let settings = settings.without_manager(options)?;
        let silent = settings.nfs_tcp == Listen::Off && settings.nfs_rdma == Listen::Off;
        if silent && settings.volume.is_none() {
            return Err(Failure::usage("nothing to do", "both transports are off")
                .hint("leave --nfs-tcp or --nfs-rdma on"));
        }
        Ok(settings)
    }

    /// NFS is served where the manager runs.
    fn without_manager(self, options: &ServeOptions) -> Result<Settings, Failure> {
        if self
            .volume
            .as_ref()
            .is_none_or(|(_, host)| host.runs_manager())
        {
            return Ok(self);
        }
        let asked = [options.nfs_tcp, options.nfs_rdma];
        if asked.iter().flatten().any(|listen| *listen != Listen::Off) {
            let why = "NFS is served where the volume's manager runs";
            return Err(Failure::usage("cannot serve NFS here", why)
                .hint("add --role manager, or leave --nfs-tcp and --nfs-rdma out"));
        }
        Ok(Settings {
            nfs_tcp: Listen::Off,
            nfs_rdma: Listen::Off,
            ..self
        })
    }

    /// Opens the directories.
    ///
    /// # Errors
    /// One of them cannot be served.
    pub(super) fn open_exports(&self) -> Result<Vec<(Export, Arc<LocalTree>)>, Failure> {
        let each = descriptors_each(self.exports.len());
        let local = LocalOptions {
            descriptors_max: Some(each.explain(|| String::from("cannot export directories"))?),
            ..self.local.clone()
        };
        let opened = self.exports.iter().map(|config| {
            let tree = LocalTree::open(&config.path, &local)
                .explain(|| format!("cannot export {}", config.name))?;
            Ok((export_of(config)?, tree))
        });
        opened.collect()
    }

    /// Each export by itself.
    ///
    /// # Errors
    /// One of them makes no sense.
    pub(super) fn exports(&self) -> Result<Vec<Export>, Failure> {
        self.exports.iter().map(export_of).collect()
    }

    /// Warns about exports that strangers can reach, or write as root.
    pub(super) fn warn_about_exposure(&self) {
        let is_exposed =
            |listen| matches!(listen, Listen::At(address) if !address.ip().is_loopback());
        if !is_exposed(self.nfs_tcp) && !is_exposed(self.nfs_rdma) {
            return;
        }
        for export in &self.exports {
            let name = export.name.as_str();
            if export.clients.is_empty() {
                tracing::warn!(
                    name,
                    "every host that reaches this machine can mount this export: name the clients with --allow, or \
                     `clients` in the configuration"
                );
            }
            if export.squash == SquashConfig::None {
                tracing::warn!(
                    name,
                    "root of every client is root here: leave --no-root-squash out unless all of them are trusted"
                );
            }
        }
    }
}

fn export_of(config: &ExportConfig) -> Result<Export, Failure> {
    let mut export = Export::new(&config.name)
        .and_then(|export| export.with_clients(config.clients.clone()))
        .explain(|| format!("cannot export {}", config.name))?;
    export.read_only = config.read_only;
    export.anonymous_uid = config.anonuid;
    export.anonymous_gid = config.anongid;
    export.squash = match config.squash {
        SquashConfig::Root => Squash::Root,
        SquashConfig::All => Squash::All,
        SquashConfig::None => Squash::None,
    };
    tracing::info!(
        path = %config.path.display(),
        name = config.name,
        read_only = config.read_only,
        squash = ?config.squash,
        "exporting"
    );
    Ok(export)
}

/// What the command line says holds for every export, whatever the file says of it. But for `--read-only` that can also
/// widen who may do what.
fn restrict(mut export: ExportConfig, options: &ServeOptions) -> ExportConfig {
    export.read_only |= options.read_only;
    if options.no_root_squash {
        export.squash = SquashConfig::None;
    }
    if !options.allow.is_empty() {
        export.clients.clone_from(&options.allow);
    }
    export
}

/// The share of each core: connections are spread evenly over them.
fn connections(config: &ServerConfig, cores: usize) -> ConnectionLimits {
    let defaults = ConnectionLimits::default();
    let share = |whole: Option<NonZeroU32>, default| {
        whole.map_or(default, |whole| (whole.get() as usize).div_ceil(cores))
    };
    ConnectionLimits {
        total_max: share(config.max_connections, defaults.total_max),
        per_address_max: share(config.max_connections_per_client, defaults.per_address_max),
    }
}

fn host_options(options: &ServeOptions, (cores, crc): (usize, bool)) -> HostOptions {
    HostOptions {
        native: options.native,
        roles: options.role.clone(),
        lost_disks: options.lost_disk.iter().map(|it| *it as usize).collect(),
        manager: options.manager.clone(),
        dscp: options.dscp,
        threads: cores,
        crc,
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
    fn bounds_of_connections_are_shared_out_among_the_cores() {
        let config = ServerConfig {
            max_connections: NonZeroU32::new(9),
            ..ServerConfig::default()
        };
        let limits = connections(&config, 4);
        assert_eq!(limits.total_max, 3);
        assert_eq!(
            limits.per_address_max,
            ConnectionLimits::default().per_address_max
        );
    }
}
