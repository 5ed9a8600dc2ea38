//! Rows of simulated testbeds.

use super::row::{Breakdown, Cpu, Row, Side, micros};
use super::{Report, Variant, cells};
use crate::cli::{BenchTarget, IozoneOp, IozoneOptions};
use crate::experiment::Transport;
use crate::experiment::nfs::{Operation, Outcome, Workload, run};
use gannet::url::Scheme;
use gannet_cli::bench::measure::Interrupt;
use gannet_cli::bench::measure::rounded;
use gannet_cli::failure::{Explain, Failure};
use gannet_sim::limits::FILE_MAX;
use gannet_sim::nic::{Activity, Profile, Usage};
use gannet_vfs::Stability;

/// Bytes of all files together: simulated disks lie in memory.
const FILES_MAX: u64 = 512 << 20;

/// Measures all cells on `profile`.
///
/// # Errors
/// The simulation stopped or an operation failed; a signal came.
pub(super) fn measure(
    target: &BenchTarget,
    profile: &Profile,
    variant: &Variant,
    options: &IozoneOptions,
    interrupt: &Interrupt,
    report: Report<'_>,
) -> Result<(), Failure> {
    for (record, threads) in cells(options) {
        for op in &options.op {
            interrupt.check()?;
            let workload = workload(target, variant, options, record, threads, *op);
            let outcome = run(profile, &workload)
                .explain(|| format!("cannot simulate {} on {target}", op.name()))?;
            report(row(target, variant, options, *op, &workload, &outcome))?;
        }
    }
    Ok(())
}

fn workload(
    target: &BenchTarget,
    variant: &Variant,
    options: &IozoneOptions,
    record: u32,
    threads: u16,
    op: IozoneOp,
) -> Workload {
    let files = u64::from(threads) * u64::from(options.clients);
    let usual = Workload::default();
    Workload {
        operation: match op {
            IozoneOp::Write | IozoneOp::Rewrite => Operation::Write,
            IozoneOp::Read | IozoneOp::Reread => Operation::Read,
            IozoneOp::Randread => Operation::RandomRead,
            IozoneOp::Randwrite => Operation::RandomWrite,
        },
        transport: match target.scheme() {
            Scheme::Rdma | Scheme::Native => Transport::Rdma,
            Scheme::Tcp => Transport::Tcp,
        },
        clients: usize::from(options.clients),
        threads: usize::from(threads),
        record_len: record,
        file_len: options
            .size
            .min(FILE_MAX)
            .min(FILES_MAX / files)
            .max(u64::from(record)),
        client: variant.client.unwrap_or_default(),
        server: variant.server.unwrap_or_default(),
        design: variant.design,
        stability: if options.sync {
            Stability::FileSync
        } else {
            Stability::Unstable
        },
        time: options.simulated_time,
        ..usual
    }
}

fn row(
    target: &BenchTarget,
    variant: &Variant,
    options: &IozoneOptions,
    op: IozoneOp,
    workload: &Workload,
    outcome: &Outcome,
) -> Row {
    let seconds = workload.time.as_secs_f64();
    let bytes = outcome.operations as f64 * f64::from(workload.record_len);
    let cpu = |usage: &Usage| Some(usage.cpu_ns as f64 / 1e9);
    Row {
        target: target.to_string(),
        simulated: true,
        op: op.name().into(),
        clients: options.clients,
        threads: u16::try_from(workload.threads).unwrap_or(u16::MAX),
        record: workload.record_len,
        size: workload.file_len,
        registration: variant.client.map(|it| it.kind().name().into()),
        server_registration: variant.server.map(|it| it.kind().name().into()),
        design: variant.client.map(|_| workload.design.name().into()),
        ops: outcome.operations,
        seconds: rounded(seconds, 6),
        mb_per_s: rounded(outcome.mb_per_s, 1),
        mb_per_s_min: rounded(outcome.mb_per_s, 1),
        mb_per_s_max: rounded(outcome.mb_per_s, 1),
        repeats: 1,
        ops_per_s: rounded(outcome.operations_per_s, 1),
        mean_us: micros(outcome.mean_latency_ns),
        p50_us: micros(outcome.p50_latency_ns as f64),
        p99_us: micros(outcome.p99_latency_ns as f64),
        cpu: Cpu::new(
            cpu(&outcome.client_usage),
            cpu(&outcome.server_usage),
            seconds,
            bytes,
        ),
        breakdown_us: Breakdown::of(
            side(outcome, &outcome.client_usage),
            side(outcome, &outcome.server_usage),
            micros(outcome.mean_latency_ns),
        ),
    }
}

fn side(outcome: &Outcome, usage: &Usage) -> Side {
    let busy = |activity| Some(micros(outcome.per_operation(usage, activity).0));
    let waited = usage.queueing_ns() as f64 / outcome.operations.max(1) as f64;
    Side {
        registration: busy(Activity::Registration),
        deregistration: busy(Activity::Deregistration),
        copy: busy(Activity::Copy),
        file_system: busy(Activity::FileSystem),
        disk: busy(Activity::Disk),
        protocol: busy(Activity::Protocol),
        wire: busy(Activity::Wire),
        queueing: Some(micros(waited)),
    }
}
