//! The steps of continuous integration, each also a chore of its own.

mod cost;
mod rebuilds;

use crate::command::{Running, Step};
use crate::{alerts, generate, kernel_lab, licences, target_folder, tidy};
use anyhow::{Context, Result, bail};
use cost::{Budget, Cost, Meter};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::num::NonZero;
use std::path::{Path, PathBuf};

/// Seeds of volumes with copies.
const COPIES_SEEDS: u32 = 100;
/// Fresh seeds that each of the two processes of the simulator runs.
const SIM_SEEDS: u32 = 150;
/// The scenarios with a Linux kernel that find most; `.ci/nightly` runs all.
const KERNEL_SCENARIOS: &[&str] = &[
    "mount",
    "client",
    "names",
    "volume",
    "restart",
    "lost-replies",
    "unmount",
    "users",
    "trap",
    "package",
    "floating-address",
    // RDMA devices: each kind of user once.
    "verbs-mount.siw",
    "verbs-client.rxe",
    "verbs-volume.rxe",
];
/// Programs whose tests mostly wait. They run beside others, and `cargo test --workspace` leaves them to that.
const WAITING_TESTS: &str = "test --locked -p gannet-rpc -p gannet-volume --test idle_memory";
/// Names the file that lists what was left out.
const LEFT_OUT: &str = "GANNET_LEFT_OUT";

/// The run of all steps.
struct Gate<'a> {
    root: &'a Path,
    budget: Budget,
    costs: Vec<Cost>,
}

/// A step that runs beside others.
struct Beside {
    name: &'static str,
    running: Running,
    meter: Meter,
}

/// Runs everything that must be green before a change lands, and prints what each step took.
///
/// # Errors
/// The first step that failed; or, after the table, the steps that exceed their figures in `.ci/budget`.
pub(crate) fn run(root: &Path) -> Result<()> {
    let left_out = target_folder()?.join("left-out.txt");
    let _ = fs::remove_file(&left_out);
    let mut gate = Gate {
        root,
        budget: Budget::read(root)?,
        costs: Vec::new(),
    };
    let outcome = gate.steps(&left_out);
    let judged = gate.budget.judge(&gate.costs);
    match fs::read_to_string(&left_out) {
        Ok(list) => print!("\n{list}"),
        Err(_) => println!("\nnothing was left out"),
    }
    outcome.and(judged)
}

impl Gate<'_> {
    fn steps(&mut self, left_out: &Path) -> Result<()> {
        let variables = [(LEFT_OUT, left_out)];
        self.step("format", |root| Step::cargo("fmt --all --check").run(root))?;
        self.step("tidy", tidy::run)?;
        self.step("licences", licences::check)?;
        self.step("alert rules", alerts::run)?;
        // Each of the two builds ends with crates that wait for one another, which leaves a core to the other one.
        let building = self.beside("release build", release_build(), &variables)?;
        self.step("test build", |root| {
            Step::cargo("test --workspace --locked --no-run").run(root)
        })?;
        self.step("nothing is built twice", rebuilds::check)?;
        let waiting = Step::cargo(WAITING_TESTS);
        let waiting = self.beside("tests that wait", waiting, &variables)?;
        self.step("tests", |root| {
            let tests = Step::cargo("test --workspace --locked");
            let tests = tests.with_variable("GANNET_TESTS_THAT_WAIT", "elsewhere");
            let tests = tests.with_variable("RUST_TEST_THREADS", &test_threads().to_string());
            tests.with_path(LEFT_OUT, left_out).run(root)
        })?;
        self.join(building)?;
        self.join(waiting)?;
        self.step("lints", |root| {
            Step::cargo("clippy --workspace --all-targets --locked -- -D warnings").run(root)
        })?;
        self.step("features of the public crate", |root| {
            let check = "check --locked -p gannet --no-default-features";
            Step::cargo(check).run(root)?;
            Step::cargo(check).with("--features").with("rdma").run(root)
        })?;
        self.step("rustdoc", rustdoc)?;
        let lab = release("gannet-lab")?;
        let papers = Step::program(&lab).with("papers").with("all");
        let papers = self.beside("papers", papers.with("--check"), &variables)?;
        self.step("charts of papers", |root| {
            let test = Step::cargo("test --locked -p gannet-lab --test all papers_ -- --ignored");
            test.with_path("GANNET_LAB_BINARY", &lab).run(root)
        })?;
        self.join(papers)?;
        let gannet = release("gannet")?;
        self.step("man pages and completions", |root| {
            generate::check(root, Some(&gannet))
        })?;
        self.step("demo", |root| Step::program(&gannet).with("demo").run(root))?;
        self.simulations(&variables)?;
        // Alone, because it bounds the wait for a server that dies.
        self.step("copies under fio", |root| {
            let copies = Step::program(std::env::current_exe()?).with("copies");
            let copies = copies.with(format!("--binary={}", gannet.display()));
            copies.with_path(LEFT_OUT, left_out).run(root)
        })?;
        // As alone, because it bounds the wait for another manager.
        for (name, engine) in [
            ("failover over etcd", "--engine=etcd"),
            ("failover over PostgreSQL", "--engine=postgresql"),
        ] {
            self.step(name, |root| {
                let failover = Step::program(std::env::current_exe()?).with("failover");
                let failover = failover.with(format!("--binary={}", gannet.display()));
                let failover = failover.with(engine).with_path(LEFT_OUT, left_out);
                failover.run(root)
            })?;
        }
        // They wait for each other's opposite: one for disks, the other for processors.
        let disks = Step::program(std::env::current_exe()?).with("disks");
        let disks = disks.with(format!("--binary={}", gannet.display()));
        let disks = self.beside("disks", disks, &variables)?;
        self.step("kernel lab", |root| kernel_lab(root, &gannet))?;
        self.join(disks)
    }

    fn simulations(&mut self, variables: &[(&'static str, &Path)]) -> Result<()> {
        let worlds = || -> Result<Step> {
            let simulator = Step::program(release("gannet-dst")?);
            Ok(simulator.with("--count").with(SIM_SEEDS.to_string()))
        };
        let simulation = self.beside("simulation", worlds()?, variables)?;
        self.step("simulation, second half", |root| worlds()?.run(root))?;
        self.join(simulation)?;
        self.step("simulation of copies", |root| {
            let simulator = Step::program(release("gannet-dst")?).with("--copies");
            simulator
                .with("--count")
                .with(COPIES_SEEDS.to_string())
                .run(root)
        })
    }

    /// Runs one step to its end.
    fn step(&mut self, name: &str, check: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
        println!("\n== {name}");
        let meter = Meter::start();
        check(self.root).with_context(|| format!("step `{name}`"))?;
        self.end(name, meter);
        Ok(())
    }

    /// Begins a step that runs beside those that follow.
    fn beside(
        &self,
        name: &'static str,
        step: Step,
        variables: &[(&'static str, &Path)],
    ) -> Result<Beside> {
        println!("\n== {name}: begins, beside the next steps");
        let step = (variables.iter()).fold(step, |step, (name, path)| step.with_path(name, path));
        let log = target_folder()?.join(format!("{}.log", name.replace(' ', "-")));
        Ok(Beside {
            name,
            running: step.start(self.root, &log)?,
            meter: Meter::start(),
        })
    }

    /// Waits for a step's end, and prints what it printed.
    fn join(&mut self, beside: Beside) -> Result<()> {
        println!("\n== {}", beside.name);
        let meter = beside.meter.resumed();
        let name = beside.name;
        (beside.running.finish()).with_context(|| format!("step `{name}`"))?;
        self.end(name, meter);
        Ok(())
    }

    fn end(&mut self, name: &str, meter: Meter) {
        let cost = self.budget.end(name, meter);
        println!("== {cost}");
        self.costs.push(cost);
    }
}

/// A binary of [`release_build`].
fn release(name: &str) -> Result<PathBuf> {
    Ok(target_folder()?.join("release").join(name))
}

/// Twice the cores: a test that waits for a server to start, end or stay away leaves its core to others.
fn test_threads() -> usize {
    2 * std::thread::available_parallelism().map_or(1, NonZero::get)
}

/// One build of all binaries that later steps run.
fn release_build() -> Step {
    Step::cargo("build --release --locked -p gannet-cli -p gannet-lab -p gannet-dst")
}

fn rustdoc(root: &Path) -> Result<()> {
    Step::cargo("doc --workspace --no-deps --locked")
        .with_variable("RUSTDOCFLAGS", "-D warnings")
        .run(root)
}

fn kernel_lab(root: &Path, gannet: &Path) -> Result<()> {
    let is_debian = Path::new("/etc/debian_version").exists();
    if !is_debian || std::env::consts::ARCH != "x86_64" {
        return left_out("kernel lab", "it needs Debian on x86-64");
    }
    kernel_lab::run(root, &kernel_lab::Options::of(KERNEL_SCENARIOS, gannet))
}

/// Notes that a check is not done on this machine, and why.
///
/// # Errors
/// With `CI=true` in the environment: a check that cannot be done is a failure there.
pub(crate) fn left_out(check: &str, reason: &str) -> Result<()> {
    let line = format!("left out: {check}: {reason}");
    if std::env::var_os("CI").is_some_and(|ci| ci == "true") {
        bail!("{line}, and CI=true");
    }
    println!("{line}");
    let list = target_folder()?.join("left-out.txt");
    let mut list = OpenOptions::new().append(true).create(true).open(list)?;
    Ok(writeln!(list, "{line}")?)
}

/// Simulates whole systems with `count` seeds from `seed` on, or from a fresh one; all scenarios, `only_volume`, or
/// volumes with `copies`.
///
/// # Errors
/// A seed failed; its reproduction line was printed.
pub(crate) fn simulate(
    root: &Path,
    seed: Option<u64>,
    count: Option<u32>,
    only_volume: bool,
    copies: bool,
) -> Result<()> {
    let mut step = Step::cargo("run --release --locked -p gannet-dst --");
    if let Some(seed) = seed {
        step = step.with(seed.to_string());
    }
    if let Some(count) = count {
        step = step.with("--count").with(count.to_string());
    }
    if only_volume {
        step = step.with("--volume");
    }
    if copies {
        step = step.with("--copies");
    }
    step.run(root)
}
