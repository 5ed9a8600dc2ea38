//! A new configuration for a server at work: SIGHUP, and `gannet reload`.

use super::settings::{OpenTrees, Settings};
use crate::audit::Shared;
use crate::cli::ServeOptions;
use crate::failure::{Explain, Failure};
use crate::process::{Signalled, Signals};
use crate::volume;
use gannet::admin::ReloadRequest;
use gannet::server::{Content, Reloader};
use gannet_volume::secret::CurrentKeys;
use std::sync::Arc;
use tokio::sync::mpsc;

/// The parts of a server at work that a reload needs.
pub(super) struct Reload<'a> {
    pub(super) options: &'a ServeOptions,
    pub(super) settings: Settings,
    /// The directories that are served.
    pub(super) trees: OpenTrees,
    /// Clients of the volume, if a volume is what is served.
    pub(super) volume: Option<gannet::server::VolumeClients>,
    /// The process has names to export: it serves directories, or runs the manager of a volume.
    pub(super) has_exports: bool,
    /// The keys of the volume's servers, if this process runs any.
    pub(super) keys: Option<CurrentKeys>,
    /// Records each reload.
    pub(super) audit: Option<Arc<Shared>>,
    /// SIGHUP came before the process could serve, after the configuration was read.
    pub(super) has_hung_up: bool,
}

impl Reload<'_> {
    /// Reads the configuration again, and serves its exports from now on; says what has changed and what cannot.
    /// Connections stay, and calls of clients that an export does not admit any more are refused.
    ///
    /// # Errors
    /// The configuration, one of its exports, or the volume's keys cannot be used: nothing has changed.
    async fn run(&mut self, reloader: &Reloader) -> Result<String, Failure> {
        let new = Settings::resolve(self.options)?;
        let fixed = self.settings.fixed_unlike(&new);
        let new = self.settings.with_exports_of(new)?;
        let content = match &self.volume {
            _ if !self.has_exports => Content::Nothing,
            Some(clients) => Content::Volume(new.exports()?, Arc::clone(clients)),
            None => Content::Directories(new.open_exports(&mut self.trees)?),
        };
        let is_new_key = self.take_keys()?;
        let changes = self.settings.export_changes(&new);
        reloader.slow().set(new.slow);
        self.settings = new;
        self.settings.warn_about_exposure();
        let mut said = format!(
            "exports: {} new, {} changed, {} removed",
            changes.added, changes.changed, changes.removed
        );
        if let Err(late) = reloader.change(content).await {
            said.push_str(&format!("; cores {late:?} follow when they work again"));
        }
        if is_new_key {
            said.push_str("; clients of the volume need the new key");
        }
        if !fixed.is_empty() {
            said.push_str("; these need a restart: ");
            said.push_str(&fixed.join(", "));
        }
        Ok(said)
    }

    /// Reads the volume's keys again; true if that of the clients is another one.
    fn take_keys(&self) -> Result<bool, Failure> {
        let (Some(keys), Some((path, _))) = (&self.keys, &self.settings.volume) else {
            return Ok(false);
        };
        let new = volume::open(path)?.keys();
        let new = new.map_err(|error| volume::explain(path, error))?;
        keys.change(new)
            .explain(|| format!("cannot use the keys of {}", path.display()))
    }

    /// Reads the configuration again each time that SIGHUP or a request asks for it, until a signal ends the server;
    /// its name.
    pub(super) async fn until_end(
        &mut self,
        signals: &mut Signals,
        requests: &mut mpsc::Receiver<ReloadRequest>,
        reloader: &Reloader,
    ) -> &'static str {
        loop {
            let has_hung_up = std::mem::take(&mut self.has_hung_up);
            let request = tokio::select! {
                () = std::future::ready(()), if has_hung_up => None,
                signalled = signals.next_or_reload() => match signalled {
                    Signalled::End(name) => return name,
                    Signalled::Reload => None,
                },
                // Without administrators there is no sender, and only signals count.
                Some(request) = requests.recv() => Some(request),
            };
            let by = if request.is_some() { "admin" } else { "SIGHUP" };
            let outcome = self.run_and_log(reloader).await;
            if let Some(audit) = &self.audit {
                audit.record_reload(by, &outcome);
            }
            if let Some(request) = request {
                // Whoever asked may have gone.
                let _ = request.send(outcome);
            }
        }
    }

    /// The same for the log.
    async fn run_and_log(&mut self, reloader: &Reloader) -> Result<String, String> {
        match self.run(reloader).await {
            Ok(said) => {
                tracing::info!("configuration read again: {said}");
                Ok(said)
            }
            Err(failure) => {
                tracing::error!("the configuration cannot be used, nothing has changed: {failure}");
                Err(failure.to_string())
            }
        }
    }
}
