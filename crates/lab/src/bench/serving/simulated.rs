//! Rows of simulated testbeds.

use super::row::{Row, Samples};
use super::{Case, Report};
use crate::experiment::serving::{ServingLoad, run};
use gannet_cli::failure::{Explain, Failure};
use gannet_datapath::Engine;
use gannet_sim::nic::Profile;

/// Measures all cases on `profile`, but those of an engine that it does not have.
///
/// # Errors
/// The simulation stopped, or nothing could be sent.
pub(super) fn measure(
    profile: &Profile,
    cases: &[Case],
    report: Report<'_>,
) -> Result<(), Failure> {
    let has_files = profile.adapter.file_pages.value != 0;
    if !has_files && cases.iter().any(|case| case.engine == Engine::Sendfile) {
        tracing::warn!(
            profile = profile.name,
            "no sendfile: its adapter cannot take bytes from a file"
        );
    }
    let able = |case: &&Case| has_files || case.engine != Engine::Sendfile;
    for case in cases.iter().filter(able) {
        let load = ServingLoad {
            engine: case.engine,
            pipes: case.pipes,
            pipe_len: case.depth,
            file_len: case.size,
            is_prepared: false,
            connections: case.connections,
            rounds: 1,
        };
        let outcome = run(profile, &load)
            .explain(|| format!("cannot simulate {} on {}", case.engine, profile.name))?;
        let samples = Samples {
            mb_per_s: vec![outcome.mb_per_s],
            cpu_s_per_gb: vec![outcome.cpu_s_per_gb()],
            memory_peak: outcome.memory_peak,
            files: case.connections as u64,
            copied_bytes: outcome.copied_bytes,
            registrations: outcome.server.events.registrations,
            work: outcome.work,
        };
        report(Row::new(
            format!("profile:{}", profile.name),
            None,
            case,
            &samples,
        ))?;
    }
    Ok(())
}
