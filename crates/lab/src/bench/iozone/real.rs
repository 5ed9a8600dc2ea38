//! Rows of real servers: somebody's, or one of this process.

use super::hosts;
use super::local::LocalServer;
use super::row::{Breakdown, Cpu, Row, Side, micros};
use super::stopwatch::Deliveries;
use super::threads::{self, Cell, Observer, Part, Spent};
use super::{Report, Variant, cells};
use crate::cli::{BenchTarget, IozoneOp, IozoneOptions};
use gannet::url::{Scheme, Url};
use gannet_cli::bench::measure::Interrupt;
use gannet_cli::bench::measure::{histogram, own_cpu};
use gannet_cli::bench::measure::{in_folder, rounded};
use gannet_cli::cli::{ClientOptions, MemoryOptions, TransferOptions};
use gannet_cli::failure::{Explain, Failure};
use gannet_cli::process;
use gannet_rpc::{Design, RdmaOptions};
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
    /// Deliveries to all byte streams of this process.
    deliveries: Deliveries,
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
        deliveries: Deliveries::default(),
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
    let deliveries = Deliveries::default();
    let server = LocalServer::start(scheme, rdma, options.scratch.as_deref(), &deliveries)?;
    let measured = MeasuredServer {
        target: BenchTarget::Local(scheme).to_string(),
        url: server.url().clone(),
        server: Server::Here(server),
        deliveries,
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
        deliveries,
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
                deliveries: deliveries.clone(),
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
    /// The time that our own server has spent.
    server_spent: Option<Spent>,
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
    client_spent: Spent,
    server_spent: Option<Spent>,
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

    fn server_spent(&self) -> Option<Spent> {
        match &self.server {
            Server::Here(server) => server.spent(),
            Server::Elsewhere | Server::Process(_) => None,
        }
    }
}

impl Observer for Recorder {
    fn starts(&self) -> Result<(), Failure> {
        if self.is_gated {
            hosts::wait_at_gate()?;
        }
        let known = Known {
            server_spent: self.server_spent(),
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
            server_spent: None,
        };
        self.moments().first_finish = known;
    }

    fn finished(&self, op: IozoneOp, parts: Vec<Part>) -> Result<(), Failure> {
        let server_spent = self.server_spent();
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
            client_spent: parts
                .iter()
                .fold(Spent::default(), |sum, part| sum.plus(part.spent)),
            server_spent: server_spent
                .zip(moments.start.server_spent)
                .map(|(after, before)| after.minus(before)),
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
            breakdown_us: breakdown(measured, client.is_some(), mean_us),
        }
    }
}

fn breakdown(measured: &Measured, is_rdma: bool, mean_us: f64) -> Breakdown {
    let each = |spent: Duration| {
        Some(micros(
            spent.as_nanos() as f64 / measured.all_ops.max(1) as f64,
        ))
    };
    // TCP has no credits to wait for, and the waits of bytes that come from another process are unknown.
    let is_here = measured.server_spent.is_some();
    let side = |spent: &Spent| {
        let of_memory = [spent.registration, spent.deregistration, spent.copy];
        let of_memory = if is_rdma {
            of_memory
        } else {
            Default::default()
        };
        let known: Duration = of_memory.iter().sum();
        let known = known + spent.wire + spent.file_system_work;
        let of_rdma = |time: Duration| if is_rdma { each(time) } else { None };
        Side {
            registration: of_rdma(spent.registration),
            deregistration: of_rdma(spent.deregistration),
            copy: of_rdma(spent.copy),
            protocol: each(spent.busy.saturating_sub(known)),
            wire: each(spent.wire),
            queueing: each(spent.queueing).filter(|_| is_rdma || is_here),
            ..Side::default()
        }
    };
    let client = side(&measured.client_spent);
    let server = measured
        .server_spent
        .map_or_else(Side::default, |spent| Side {
            file_system: each(spent.file_system),
            ..side(&spent)
        });
    Breakdown::of(client, server, mean_us)
}
