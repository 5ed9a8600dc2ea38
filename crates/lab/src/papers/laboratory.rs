//! Runs experiments, each once, and reports them: on a paper's machines, or on machines that differ from them in
//! one constant or group of costs.

use super::{Failure, Series};
use crate::experiment::Transport;
use crate::experiment::caching::{self, CachingLoad, CachingOutcome};
use crate::experiment::nfs::{self as experiment, Outcome, Workload};
use crate::experiment::optimistic::{self, AccessWay};
use crate::experiment::serving;
use crate::experiment::volume;
use gannet_sim::nic::{Constant, Profile, Source};
use std::time::Duration;

/// The difference between the machines and the paper's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// No difference.
    Nothing,
    /// One constant is another multiple of itself, on the testbeds where it is of this kind.
    Scaled(&'static str, Factor, Origin),
    /// These cost nothing.
    Free(&'static [&'static str]),
}

/// How many times a constant is what it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Factor {
    Halved,
    Doubled,
}

/// Where a constant is from: of its labels, those that are treated alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// Given or derived.
    Stated,
    Assumed,
    Fitted,
}

impl Origin {
    pub(super) fn of(constant: &Constant) -> Origin {
        match constant.source {
            Source::Given(_) | Source::Derived(_) => Origin::Stated,
            Source::Assumed(_) => Origin::Assumed,
            Source::Fitted(_) => Origin::Fitted,
        }
    }
}

impl Factor {
    pub(super) fn name(self) -> &'static str {
        match self {
            Factor::Halved => "halved",
            Factor::Doubled => "doubled",
        }
    }

    fn of(self, value: u64) -> u64 {
        match self {
            Factor::Halved => value / 2,
            Factor::Doubled => value * 2,
        }
    }
}

impl Change {
    /// The machines that differ so.
    pub(super) fn of(self, profile: &Profile) -> Profile {
        let changed = match self {
            Change::Nothing => None,
            Change::Scaled(name, factor, origin) => {
                let constants = profile.constants();
                let found = constants
                    .iter()
                    .find(|(own, constant)| *own == name && Origin::of(constant) == origin);
                found.and_then(|(_, constant)| profile.with(name, factor.of(constant.value)))
            }
            Change::Free(names) => Some(names.iter().fold(*profile, |profile, name| {
                profile.with(name, 0).unwrap_or(profile)
            })),
        };
        changed.unwrap_or(*profile)
    }

    /// The value of a study's own constant under this change.
    fn value_of(self, name: &str, constant: &Constant) -> u64 {
        match self {
            Change::Scaled(scaled, factor, origin)
                if scaled == name && Origin::of(constant) == origin =>
            {
                factor.of(constant.value)
            }
            Change::Free(names) if names.contains(&name) => 0,
            _ => constant.value,
        }
    }
}

/// How much is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// All points of a figure.
    Full,
    /// The first and the last of each line, and the middle one of a long one, for a shorter time: enough to see what a
    /// change does.
    Ends,
}

/// Machines that were used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Used {
    pub(super) profile: Profile,
    /// Something went over TCP.
    pub(super) tcp: bool,
    /// Calls of NFS or a volume were answered there.
    pub(super) calls: bool,
}

/// A constant of a study that is no part of a testbed: the size of a cache, a length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OwnConstant {
    /// The study's name for its machines.
    pub(super) testbed: &'static str,
    pub(super) name: &'static str,
    pub(super) constant: Constant,
}

/// Where a paper's experiments are run.
pub(super) struct Laboratory<'a> {
    progress: &'a mut dyn FnMut(&str),
    change: Change,
    extent: Extent,
    used: Vec<Used>,
    own: Vec<OwnConstant>,
    done: Done,
}

/// Runs that need not be made again: rows share some, and so do laboratories that differ in other machines.
#[derive(Debug, Clone, Default)]
pub(super) struct Done {
    files: Vec<(Profile, Workload, Outcome)>,
    volumes: Vec<(Profile, volume::Load, volume::VolumeOutcome)>,
    served: Vec<(Profile, serving::ServingLoad, serving::ServingOutcome)>,
    cached: Vec<(CachingLoad, CachingOutcome)>,
    accessed: Vec<(Profile, AccessWay, Duration)>,
}

impl<'a> Laboratory<'a> {
    pub(super) fn new(
        progress: &'a mut dyn FnMut(&str),
        change: Change,
        extent: Extent,
        done: Done,
    ) -> Laboratory<'a> {
        Laboratory {
            progress,
            change,
            extent,
            used: Vec::new(),
            own: Vec::new(),
            done,
        }
    }

    /// The machines that experiments were run on, as the paper has them, the study's own constants, and the runs.
    pub(super) fn into_parts(self) -> (Vec<Used>, Vec<OwnConstant>, Done) {
        (self.used, self.own, self.done)
    }

    /// A constant of the study's own, as it is on the machines of now.
    pub(super) fn constant(&mut self, own: OwnConstant) -> u64 {
        if !self.own.contains(&own) {
            self.own.push(own);
        }
        self.change.value_of(own.name, &own.constant)
    }

    /// True where only the ends of lines are asked for.
    pub(super) fn is_short(&self) -> bool {
        self.extent == Extent::Ends
    }

    /// The members of `xs` that are measured.
    pub(super) fn points<T: Copy>(&self, xs: &[T]) -> Vec<T> {
        match (self.extent, xs) {
            (Extent::Ends, [first, .., last]) if xs.len() > 4 => {
                vec![*first, xs[(xs.len() - 1) / 2], *last]
            }
            (Extent::Ends, [first, .., last]) => vec![*first, *last],
            _ => xs.to_vec(),
        }
    }

    fn time(&self, full: Duration) -> Duration {
        match self.extent {
            Extent::Full => full,
            Extent::Ends => full / 4,
        }
    }

    /// The warm-up before a measurement. With few threads, all credits are granted by its end.
    fn warm_up(&self, full: Duration) -> Duration {
        match self.extent {
            Extent::Full => full,
            Extent::Ends => full / 2,
        }
    }

    fn note(&mut self, profile: &Profile, transport: Option<Transport>) {
        let of_run = Used {
            profile: *profile,
            tcp: transport == Some(Transport::Tcp),
            calls: transport.is_some(),
        };
        match self.used.iter_mut().find(|used| used.profile == *profile) {
            Some(used) => {
                used.tcp |= of_run.tcp;
                used.calls |= of_run.calls;
            }
            None => self.used.push(of_run),
        }
    }

    /// The result of `workload` on `profile`'s machines.
    pub(super) fn run(
        &mut self,
        profile: &Profile,
        workload: &Workload,
    ) -> Result<Outcome, Failure> {
        self.note(profile, Some(workload.transport));
        let profile = self.change.of(profile);
        let workload = Workload {
            time: self.time(workload.time),
            warm_up: self.warm_up(workload.warm_up),
            ..*workload
        };
        let is_same =
            |done: &&(Profile, Workload, Outcome)| done.0 == profile && done.1 == workload;
        if let Some((_, _, outcome)) = self.done.files.iter().find(is_same) {
            return Ok(*outcome);
        }
        (self.progress)(&describe(&profile, &workload));
        let outcome = experiment::run(&profile, &workload)?;
        self.done.files.push((profile, workload, outcome));
        Ok(outcome)
    }

    /// The result of a volume under `load` on `profile`'s machines.
    pub(super) fn run_volume(
        &mut self,
        profile: &Profile,
        load: &volume::Load,
    ) -> Result<volume::VolumeOutcome, Failure> {
        self.note(profile, Some(load.transport));
        let profile = self.change.of(profile);
        let load = volume::Load {
            time: self.time(load.time),
            ..*load
        };
        let is_same = |done: &&(Profile, volume::Load, volume::VolumeOutcome)| {
            done.0 == profile && done.1 == load
        };
        if let Some((_, _, outcome)) = self.done.volumes.iter().find(is_same) {
            return Ok(*outcome);
        }
        (self.progress)(&format!(
            "{}: {} I/O nodes, {} compute nodes, {:?}",
            profile.name, load.io_nodes, load.compute_nodes, load.access
        ));
        let outcome = volume::run(&profile, &load)?;
        self.done.volumes.push((profile, load, outcome));
        Ok(outcome)
    }

    /// The result of sending files by one call as `load` says, on `profile`'s machines.
    pub(super) fn serve(
        &mut self,
        profile: &Profile,
        load: &serving::ServingLoad,
    ) -> Result<serving::ServingOutcome, Failure> {
        self.note(profile, None);
        let profile = self.change.of(profile);
        let is_same = |done: &&(Profile, serving::ServingLoad, serving::ServingOutcome)| {
            done.0 == profile && done.1 == *load
        };
        if let Some((_, _, outcome)) = self.done.served.iter().find(is_same) {
            return Ok(*outcome);
        }
        (self.progress)(&format!(
            "{}: {}, {} KiB in {} pipes of {} KiB",
            profile.name,
            load.engine,
            load.file_len >> 10,
            load.pipes,
            load.pipe_len >> 10
        ));
        let outcome = serving::run(&profile, load)?;
        self.done.served.push((profile, *load, outcome));
        Ok(outcome)
    }

    /// The durations of registering `len` bytes on `profile`'s machines, and of deregistering them.
    pub(super) fn registration(
        &mut self,
        profile: &Profile,
        what: serving::Registered,
        len: usize,
    ) -> Result<(Duration, Duration), Failure> {
        self.note(profile, None);
        serving::registration(&self.change.of(profile), what, len)
    }

    /// The counts of accesses by clients with caches.
    pub(super) fn cache(&mut self, load: &CachingLoad) -> CachingOutcome {
        if let Some((_, outcome)) = self.done.cached.iter().find(|done| done.0 == *load) {
            return *outcome;
        }
        (self.progress)(&format!(
            "{} clients, {} blocks, {:?}",
            load.clients, load.blocks, load.pattern
        ));
        let outcome = caching::run(load);
        self.done.cached.push((*load, outcome));
        outcome
    }

    /// The duration of an access to a block in a server's memory.
    pub(super) fn access(
        &mut self,
        profile: &Profile,
        way: AccessWay,
    ) -> Result<Duration, Failure> {
        self.note(profile, Some(Transport::Rdma));
        let profile = self.change.of(profile);
        let is_same = |done: &&(Profile, AccessWay, Duration)| done.0 == profile && done.1 == way;
        if let Some((_, _, time)) = self.done.accessed.iter().find(is_same) {
            return Ok(*time);
        }
        (self.progress)(&format!("{}: {way:?}", profile.name));
        let time = optimistic::latency(&profile, way)?;
        self.done.accessed.push((profile, way, time));
        Ok(time)
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
        for x in self.points(xs) {
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
