//! Rows of real servers: somebody's, or one of this process.

use super::hosts;
use super::local::LocalServer;
use super::row::{Breakdown, Cpu, Row, Side, micros};
use super::threads::{self, Cell, Observer, Part};
use super::{Report, Variant, cells};
use crate::cli::{BenchTarget, IozoneOp, IozoneOptions};
use gannet::url::{Scheme, Url};
use gannet_cli::bench::measure::Interrupt;
use gannet_cli::bench::measure::{histogram, own_cpu};
use gannet_cli::bench::measure::{in_folder, rounded};
use gannet_cli::cli::{AdminPlace, ClientOptions, MemoryOptions, TransferOptions};
use gannet_cli::failure::{Explain, Failure};
use gannet_cli::{process, watch};
use gannet_rpc::{Design, RdmaOptions};
use gannet_runtime::stages::{Parts, Stage};
use gannet_vfs::Stability;
use hdrhistogram::Histogram;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The server that rows are measured on.
struct MeasuredServer {
    /// The target, as rows name it.
    target: String,
    url: Url,
    server: Server,
    /// Where a server of another process tells where its time goes.
    admin: Option<AdminPlace>,
}

/// The place of the server, which decides what can be known of it.
enum Server {
    /// A server of which nothing is known.
    Elsewhere,
    /// A process of this machine, by its number.
    Process(u32),
    /// A server in this process.
    Here(LocalServer),
}

/// Measures all cells on the server of a URL.
///
/// # Errors
/// The server cannot be reached, an operation failed, or a signal came.
pub(super) fn measure_url(
    url: &Url,
    variant: &Variant,
    options: &IozoneOptions,
    interrupt: &Interrupt,
    report: Report<'_>,
) -> Result<(), Failure> {
    let server = match options.server_pid {
        Some(pid) => {
            process::cpu(pid).explain(|| format!("cannot look at process {pid}"))?;
            Server::Process(pid)
        }
        None => Server::Elsewhere,
    };
    let measured = MeasuredServer {
        target: BenchTarget::Url(url.clone()).to_string(),
        url: url.clone(),
        server,
        admin: options.server_admin.clone(),
    };
    measure(measured, variant, options, interrupt, report)
}

/// Measures all cells on a server of this process.
///
/// # Errors
/// The server does not start, an operation failed, or a signal came.
pub(super) fn measure_local(
    scheme: Scheme,
    variant: &Variant,
    options: &IozoneOptions,
    interrupt: &Interrupt,
    report: Report<'_>,
) -> Result<(), Failure> {
    let rdma = RdmaOptions {
        registration: variant.server.unwrap_or_default(),
        design: variant.design,
        ..RdmaOptions::default()
    };
    let server = LocalServer::start(scheme, rdma, options.scratch.as_deref())?;
    let measured = MeasuredServer {
        target: BenchTarget::Local(scheme).to_string(),
        url: server.url().clone(),
        server: Server::Here(server),
        admin: None,
    };
    measure(measured, variant, options, interrupt, report)
}

fn measure(
    measured: MeasuredServer,
    variant: &Variant,
    options: &IozoneOptions,
    interrupt: &Interrupt,
    report: Report<'_>,
) -> Result<(), Failure> {
    let MeasuredServer {
        target,
        url,
        server,
        admin,
    } = measured;
    let client = ClientOptions {
        call: options.call.clone(),
        memory: MemoryOptions {
            registration: variant.client.unwrap_or_default().kind(),
            trust_peer: options.trust_peer,
            design: variant.design,
        },
        native: options.native.clone(),
        transfers: TransferOptions::default(),
    };
    let recorder = Arc::new(Recorder {
        server,
        admin,
        is_gated: options.gate,
        moments: Mutex::default(),
    });
    in_folder(&url, &client, interrupt, |folder| {
        for (record, threads) in cells(options) {
            interrupt.check()?;
            let cell = Cell {
                folder: folder.clone(),
                ops: options.op.clone(),
                record,
                threads,
                records: options.size / u64::from(record),
                stability: if options.sync {
                    Stability::FileSync
                } else {
                    Stability::Unstable
                },
                client: client.clone(),
                interrupt: interrupt.clone(),
            };
            threads::run(cell, Arc::clone(&recorder) as Arc<dyn Observer>)?;
            for measured in std::mem::take(&mut recorder.moments().measured) {
                let size = options.size / u64::from(record) * u64::from(record);
                let shape = Shape {
                    target: &target,
                    variant,
                    threads,
                    record,
                    size,
                };
                report(shape.row(&measured))?;
            }
        }
        Ok(())
    })
}

/// Takes down what all threads did.
struct Recorder {
    server: Server,
    admin: Option<AdminPlace>,
    /// Operations start when the program that started this one says so.
    is_gated: bool,
    moments: Mutex<Moments>,
}

#[derive(Default)]
struct Moments {
    start: Known,
    first_finish: Known,
    measured: Vec<Measured>,
}

/// The measurements at one moment.
#[derive(Default)]
struct Known {
    /// Processor time of this process.
    own_cpu: Duration,
    /// Processor time of the server's process, where that is another process.
    server_cpu: Option<Duration>,
    /// Where the time of the server's READs and WRITEs went, as far as it tells.
    server_parts: Option<Parts>,
}

/// The measurements of one operation of a cell.
struct Measured {
    op: IozoneOp,
    latency_ns: Histogram<u64>,
    seconds: f64,
    client_cpu: Duration,
    server_cpu: Option<Duration>,
    /// Records, with those that do not count.
    all_ops: u64,
    client_parts: Parts,
    server_parts: Option<Parts>,
    /// The design that the server agreed to.
    design: Design,
}

impl Recorder {
    fn moments(&self) -> std::sync::MutexGuard<'_, Moments> {
        self.moments.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn server_cpu(&self) -> Option<Duration> {
        match self.server {
            Server::Process(pid) => process::cpu(pid).ok(),
            Server::Elsewhere | Server::Here(_) => None,
        }
    }

    /// The question has a thread of its own: this one drives the core of a client.
    fn server_parts(&self) -> Result<Option<Parts>, Failure> {
        match (&self.server, &self.admin) {
            (Server::Here(server), _) => Ok(Some(server.parts())),
            (_, None) => Ok(None),
            (_, Some(place)) => {
                let asked =
                    std::thread::scope(|scope| scope.spawn(|| watch::parts_at(place)).join());
                let failed =
                    |_| Failure::new("cannot ask the server", "the thread for it panicked");
                asked.map_err(failed)?.map(Some)
            }
        }
    }
}

impl Observer for Recorder {
    fn starts(&self) -> Result<(), Failure> {
        if self.is_gated {
            hosts::wait_at_gate()?;
        }
        let known = Known {
            server_parts: self.server_parts()?,
            server_cpu: self.server_cpu(),
            own_cpu: own_cpu(),
        };
        self.moments().start = known;
        Ok(())
    }

    fn first_finished(&self) {
        let known = Known {
            own_cpu: own_cpu(),
            server_cpu: self.server_cpu(),
            server_parts: None,
        };
        self.moments().first_finish = known;
    }

    fn finished(&self, op: IozoneOp, parts: Vec<Part>) -> Result<(), Failure> {
        let server_parts = self.server_parts()?;
        let mut moments = self.moments();
        let mut latency_ns = histogram()?;
        for part in &parts {
            latency_ns
                .add(&part.latency_ns)
                .explain(|| String::from("cannot add up latencies"))?;
        }
        let began: Option<Instant> = parts.iter().map(|part| part.began).min();
        let ended = parts.iter().map(|part| part.ended).min();
        let client_cpu = parts.iter().map(|part| part.cpu).sum();
        let during = |known: fn(&Known) -> Option<Duration>| {
            Some(known(&moments.first_finish)?.saturating_sub(known(&moments.start)?))
        };
        let server_cpu = match self.server {
            Server::Here(_) => during(|known| Some(known.own_cpu))
                .map(|both: Duration| both.saturating_sub(client_cpu)),
            Server::Elsewhere | Server::Process(_) => during(|known| known.server_cpu),
        };
        let measured = Measured {
            op,
            latency_ns,
            seconds: began
                .zip(ended)
                .map_or(0.0, |(began, ended)| (ended - began).as_secs_f64()),
            client_cpu,
            server_cpu,
            design: parts
                .last()
                .map_or_else(Design::default, |part| part.design),
            all_ops: parts.iter().map(|part| part.all_ops).sum(),
            client_parts: parts.iter().fold(Parts::default(), |mut sum, part| {
                sum.add_all(&part.parts);
                sum
            }),
            server_parts: (server_parts.zip(moments.start.server_parts))
                .map(|(after, before)| after.since(&before)),
        };
        moments.measured.push(measured);
        Ok(())
    }
}

/// The values that all rows of a cell have in common.
struct Shape<'a> {
    target: &'a str,
    variant: &'a Variant,
    threads: u16,
    record: u32,
    size: u64,
}

impl Shape<'_> {
    fn row(&self, measured: &Measured) -> Row {
        let ops = measured.latency_ns.len();
        let bytes = ops as f64 * f64::from(self.record);
        let seconds = measured.seconds.max(f64::MIN_POSITIVE);
        let quantile = |share| micros(measured.latency_ns.value_at_quantile(share) as f64);
        let mean_us = micros(measured.latency_ns.mean());
        let Variant { client, server, .. } = self.variant;
        Row {
            target: self.target.to_owned(),
            simulated: false,
            op: measured.op.name().into(),
            clients: 1,
            threads: self.threads,
            record: self.record,
            size: self.size,
            registration: client.map(|it| it.kind().name().into()),
            server_registration: server.map(|it| it.kind().name().into()),
            design: client.map(|_| measured.design.name().into()),
            ops,
            seconds: rounded(seconds, 6),
            mb_per_s: rounded(bytes / 1e6 / seconds, 1),
            mb_per_s_min: rounded(bytes / 1e6 / seconds, 1),
            mb_per_s_max: rounded(bytes / 1e6 / seconds, 1),
            repeats: 1,
            ops_per_s: rounded(ops as f64 / seconds, 1),
            mean_us,
            p50_us: quantile(0.5),
            p99_us: quantile(0.99),
            cpu: Cpu::new(
                Some(measured.client_cpu.as_secs_f64()),
                measured.server_cpu.map(|cpu| cpu.as_secs_f64()),
                seconds,
                bytes,
            ),
            breakdown_us: breakdown(measured, mean_us),
        }
    }
}

/// The client waits for a reply while the server works. Where the server tells its parts, the client has only the rest
/// of that wait as its own: the network, the sockets, and waits for processors.
fn breakdown(measured: &Measured, mean_us: f64) -> Breakdown {
    // A server does not know which records count.
    let of = |parts: &Parts, count: u64| {
        let each = |stage| parts.of(stage).as_nanos() as f64 / count.max(1) as f64;
        Stage::ALL.map(|stage| (stage, micros(each(stage))))
    };
    let client = of(&measured.client_parts, measured.latency_ns.len());
    let server = measured.server_parts;
    let server = server.map(|parts| of(&parts, measured.all_ops));
    let at_server: f64 = server.iter().flatten().map(|(_, time)| time).sum();
    let mut client = side(client);
    let waited = client.wire;
    client.wire = waited.map(|waited| rounded((waited - at_server).max(0.0), 3));
    let server = server.map_or_else(Side::default, |parts| Side {
        file_system: Some(part(&parts, Stage::FileSystem)),
        disk: Some(part(&parts, Stage::Sync)),
        ..side(parts)
    });
    Breakdown::of(client, server, mean_us)
}

/// The microseconds of an operation by stage.
type Stages = [(Stage, f64); Stage::ALL.len()];

fn part(parts: &Stages, stage: Stage) -> f64 {
    let of_stage = parts.iter().filter(|(of, _)| *of == stage);
    of_stage.map(|(_, time)| time).sum()
}

/// The parts that both sides have.
fn side(parts: Stages) -> Side {
    let of = |stage| Some(part(&parts, stage));
    Side {
        registration: of(Stage::Registration),
        copy: of(Stage::Copy),
        protocol: of(Stage::Protocol),
        wire: of(Stage::Wire),
        queueing: of(Stage::Queue),
        ..Side::default()
    }
}
