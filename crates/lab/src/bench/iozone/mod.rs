//! `gannet-lab bench iozone`: IOzone's throughput mode, on real servers and on simulated testbeds.

mod draw;
mod hosts;
mod local;
mod real;
mod row;
mod simulated;
mod threads;

use crate::chart;
use crate::cli::{BenchTarget, IozoneOptions};
use gannet::url::Scheme;
use gannet_cli::bench::measure::{Interrupt, check_records};
use gannet_cli::failure::{Explain, Failure};
use gannet_cli::output;
use gannet_fabric::registration::{Registration, StrategyKind, Trust};
use gannet_rpc::Design;
use row::Row;

/// One way to measure a target; several records, thread counts and operations of each.
#[derive(Debug, Clone, Copy)]
struct Variant {
    /// How the clients register; nothing on TCP.
    client: Option<Registration>,
    /// How the server does; nothing where it is not ours.
    server: Option<Registration>,
    /// The end that moves the data of READ.
    design: Design,
}

/// Measures what the command line says.
///
/// # Errors
/// The options make no sense, a server cannot be reached, or an operation failed.
pub(super) fn run(options: &IozoneOptions) -> Result<(), Failure> {
    check(options)?;
    let mut options = options.clone();
    options.op.sort_unstable();
    options.op.dedup();
    let interrupt = Interrupt::install()?;
    let mut rows = Vec::new();
    let measured = measure_all(&options, &interrupt, &mut |row: Row| {
        if options.json {
            output::json(&row)?;
        }
        rows.push(row);
        Ok(())
    });
    if !options.json && !rows.is_empty() {
        row::show(&rows)?;
    }
    measured?;
    match &options.chart {
        Some(path) => {
            let document = chart::svg(&draw::panels(&rows))?;
            std::fs::write(path, document).explain(|| format!("cannot write {}", path.display()))
        }
        None => Ok(()),
    }
}

/// Where rows go as they are measured.
type Report<'a> = &'a mut dyn FnMut(Row) -> Result<(), Failure>;

/// Measures all targets, as often as is asked for; each row is the one in the middle of its repeats.
fn measure_all(
    options: &IozoneOptions,
    interrupt: &Interrupt,
    report: Report<'_>,
) -> Result<(), Failure> {
    let once = |report: Report<'_>| {
        if options.host.is_empty() {
            let mut targets = options.targets.iter();
            targets.try_for_each(|target| measure(target, options, interrupt, report))
        } else {
            hosts::run(options, interrupt, report)
        }
    };
    if options.repeats == 1 {
        return once(report);
    }
    let mut repeats: Vec<Vec<Row>> = Vec::new();
    for _ in 0..options.repeats {
        let mut number = 0;
        once(&mut |row| {
            match repeats.get_mut(number) {
                Some(same) => same.push(row),
                None => repeats.push(vec![row]),
            }
            number += 1;
            Ok(())
        })?;
    }
    repeats
        .into_iter()
        .filter_map(Row::middle_of)
        .try_for_each(report)
}

fn measure(
    target: &BenchTarget,
    options: &IozoneOptions,
    interrupt: &Interrupt,
    report: Report<'_>,
) -> Result<(), Failure> {
    for variant in variants(target, options)? {
        match target {
            BenchTarget::Url(url) => real::measure_url(url, &variant, options, interrupt, report)?,
            BenchTarget::Local(scheme) => {
                real::measure_local(*scheme, &variant, options, interrupt, report)?;
            }
            BenchTarget::Profile(profile, _) => {
                simulated::measure(target, profile, &variant, options, interrupt, report)?;
            }
        }
    }
    Ok(())
}

/// The designs and strategies to measure `target` with. TCP has none.
fn variants(target: &BenchTarget, options: &IozoneOptions) -> Result<Vec<Variant>, Failure> {
    if target.scheme() == Scheme::Tcp {
        let variant = Variant {
            client: None,
            server: None,
            design: Design::default(),
        };
        return Ok(vec![variant]);
    }
    let is_ours = !matches!(target, BenchTarget::Url(_));
    let of_kinds = |(design, kind): (Design, StrategyKind)| {
        let client = registration(kind, options.trust_peer)?;
        let of_server = options.server_registration.unwrap_or(kind);
        let server = registration(of_server, options.trust_peer)?;
        Ok(Variant {
            client: Some(client),
            server: is_ours.then_some(server),
            design,
        })
    };
    let designs = options.design.iter().copied();
    let kinds = || options.registration.iter().copied();
    let both = designs.flat_map(|design| kinds().map(move |kind| (design, kind)));
    both.map(of_kinds).collect()
}

fn registration(kind: StrategyKind, trust_peer: bool) -> Result<Registration, Failure> {
    let trust = if trust_peer {
        Trust::Trusted
    } else {
        Trust::Untrusted
    };
    Registration::new(kind, trust).map_err(|error| {
        Failure::usage("--registration all-physical is refused", error)
            .hint("add --trust-peer if you do trust it, or leave it out")
    })
}

fn is_volume(target: &BenchTarget) -> bool {
    matches!(target, BenchTarget::Url(url) if url.scheme == Scheme::Native)
}

/// Refuses what would fail half-way, or mean nothing.
fn check(options: &IozoneOptions) -> Result<(), Failure> {
    let has = |wanted: fn(&BenchTarget) -> bool| options.targets.iter().any(wanted);
    let are_volumes = !has(|target| !is_volume(target));
    check_records(&options.record, options.size, are_volumes)?;
    if options.clients > 1 && has(|target| !matches!(target, BenchTarget::Profile(..))) {
        let why = "only simulated testbeds have several client machines";
        return Err(Failure::usage("--clients makes no sense here", why)
            .hint("use --threads, or profile:NAME targets alone"));
    }
    if options.server_registration.is_some() && has(|target| matches!(target, BenchTarget::Url(_)))
    {
        let why = "the server of a URL has its own settings";
        return Err(
            Failure::usage("--server-registration makes no sense here", why)
                .hint("start that server with `gannet serve --registration STRATEGY`"),
        );
    }
    if options.server_pid.is_some() && has(|target| !matches!(target, BenchTarget::Url(_))) {
        let why = "the processor time of other targets is known";
        return Err(
            Failure::usage("--server-pid makes no sense here", why).hint("give URL targets alone")
        );
    }
    if !options.host.is_empty() && has(|target| !matches!(target, BenchTarget::Url(_))) {
        let why =
            "other machines cannot reach a server of this process, and testbeds have their own";
        return Err(
            Failure::usage("--host makes no sense here", why).hint("give URL targets alone")
        );
    }
    for target in &options.targets {
        variants(target, options)?;
    }
    Ok(())
}

/// All cells of the matrix: record sizes and thread counts, in the order given.
fn cells(options: &IozoneOptions) -> impl Iterator<Item = (u32, u16)> + '_ {
    options.record.iter().flat_map(|record| {
        let record = u32::try_from(*record).unwrap_or(u32::MAX);
        options
            .threads
            .iter()
            .map(move |threads| (record, *threads))
    })
}
