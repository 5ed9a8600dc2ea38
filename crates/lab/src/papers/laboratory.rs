//! Runs experiments, each once, and tells which.

use super::{Failure, Series};
use crate::experiment::Transport;
use crate::experiment::nfs::{self as experiment, Outcome, Workload};
use crate::experiment::volume;
use gannet_sim::nic::Profile;

/// Where a paper's experiments are run.
pub(super) struct Laboratory<'a> {
    progress: &'a mut dyn FnMut(&str),
    /// Rows share runs.
    done: Vec<(Profile, Workload, Outcome)>,
    volumes: Vec<(Profile, volume::Load, volume::VolumeOutcome)>,
}

impl<'a> Laboratory<'a> {
    pub(super) fn new(progress: &'a mut dyn FnMut(&str)) -> Laboratory<'a> {
        Laboratory {
            progress,
            done: Vec::new(),
            volumes: Vec::new(),
        }
    }

    /// What comes of `workload` on `profile`'s machines.
    pub(super) fn run(
        &mut self,
        profile: &Profile,
        workload: &Workload,
    ) -> Result<Outcome, Failure> {
        let is_same =
            |done: &&(Profile, Workload, Outcome)| done.0 == *profile && done.1 == *workload;
        if let Some((_, _, outcome)) = self.done.iter().find(is_same) {
            return Ok(*outcome);
        }
        (self.progress)(&describe(profile, workload));
        let outcome = experiment::run(profile, workload)?;
        self.done.push((*profile, *workload, outcome));
        Ok(outcome)
    }

    /// What comes of a volume under `load` on `profile`'s machines.
    pub(super) fn run_volume(
        &mut self,
        profile: &Profile,
        load: &volume::Load,
    ) -> Result<volume::VolumeOutcome, Failure> {
        let is_same = |done: &&(Profile, volume::Load, volume::VolumeOutcome)| {
            done.0 == *profile && done.1 == *load
        };
        if let Some((_, _, outcome)) = self.volumes.iter().find(is_same) {
            return Ok(*outcome);
        }
        (self.progress)(&format!(
            "{}: {} I/O nodes, {} compute nodes, {:?}",
            profile.name, load.io_nodes, load.compute_nodes, load.access
        ));
        let outcome = volume::run(profile, load)?;
        self.volumes.push((*profile, *load, outcome));
        Ok(outcome)
    }

    /// A line: `y` of what comes of `workload` at each of `xs`.
    pub(super) fn line(
        &mut self,
        name: &str,
        profile: &Profile,
        xs: &[usize],
        workload: impl Fn(usize) -> Workload,
        y: impl Fn(&Outcome) -> f64,
    ) -> Result<Series, Failure> {
        let mut points = Vec::with_capacity(xs.len());
        for &x in xs {
            let outcome = self.run(profile, &workload(x))?;
            points.push((whole(x), y(&outcome)));
        }
        Ok(Series {
            name: name.to_string(),
            points,
        })
    }
}

/// A count as a coordinate.
#[allow(clippy::cast_precision_loss)] // far below 2^52
pub(super) fn whole(count: usize) -> f64 {
    count as f64
}

fn describe(profile: &Profile, workload: &Workload) -> String {
    let registration = match workload.transport {
        Transport::Tcp => String::from("tcp"),
        Transport::Rdma => format!(
            "server {}, client {}",
            workload.server.kind(),
            workload.client.kind()
        ),
    };
    format!(
        "{}: {:?}, {} x {} threads, {} KiB, {registration}",
        profile.name,
        workload.operation,
        workload.clients,
        workload.threads,
        workload.record_len >> 10,
    )
}
