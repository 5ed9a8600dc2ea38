//! Running scenarios one after the other, in guests that live as long as nothing fails in them.

use super::host::Host;
use super::machine::{Event, Machine, Recipe};
use super::process::tail_of;
use super::scenario::{Scenario, Server};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};
use std::{fmt, fs};

/// How long a guest may take to boot.
const BOOT_MAX: Duration = Duration::from_secs(300);
/// How long after a scenario's limit a guest may take to end it, before it is ended itself.
const GRACE: Duration = Duration::from_secs(15);

/// Runs the scenarios; how many failed.
///
/// # Errors
/// A guest does not boot, or the folders cannot be written.
pub(super) fn all(
    recipe: Recipe,
    gannet: &Path,
    scenarios: &[Scenario],
    keep: bool,
) -> Result<usize> {
    for folder in [&recipe.shared, &recipe.boots] {
        if folder.exists() {
            fs::remove_dir_all(folder).context("cannot remove what the last run left")?;
        }
        fs::create_dir_all(folder).context("cannot make the folder of results")?;
    }
    // Neighbours need the same guests, and a guest's own server starts late.
    let mut order: Vec<&Scenario> = scenarios.iter().collect();
    order.sort_by_key(|one| (!one.capture, one.server == Server::Knfsd, one.guests));
    let mut runner = Runner::new(recipe, gannet);
    let mut failed = 0;
    for scenario in order {
        let mut outcome = runner.run(scenario, keep)?;
        if outcome == Outcome::OutOfTime {
            println!(
                "lab: an emulated guest may starve on a busy machine: once again in a fresh one"
            );
            outcome = runner.run_again(scenario, keep)?;
        }
        failed += usize::from(outcome != Outcome::Passed);
    }
    Ok(failed)
}

/// How a scenario ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Passed,
    Failed,
    /// Nothing was found wrong until its time was over, or its guest did not react any more.
    OutOfTime,
}

/// Why a scenario is [`Outcome::OutOfTime`].
#[derive(Debug)]
struct OutOfTime(&'static str);

impl fmt::Display for OutOfTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for OutOfTime {}

struct Runner<'a> {
    recipe: Recipe,
    gannet: &'a Path,
    /// Guests that wait for a scenario.
    machines: Vec<Machine>,
    started: usize,
    sender: Sender<Event>,
    events: Receiver<Event>,
}

impl<'a> Runner<'a> {
    fn new(recipe: Recipe, gannet: &'a Path) -> Runner<'a> {
        let (sender, events) = mpsc::channel();
        Runner {
            recipe,
            gannet,
            machines: Vec::new(),
            started: 0,
            sender,
            events,
        }
    }

    /// Runs a scenario for the second time; what the first left is kept beside it.
    fn run_again(&mut self, scenario: &Scenario, keep: bool) -> Result<Outcome> {
        let folder = self.recipe.shared.join(&scenario.name);
        let first = self.recipe.shared.join(format!("{}-first", scenario.name));
        fs::rename(folder, first).context("cannot put the first run's folder aside")?;
        self.run(scenario, keep)
    }

    /// Runs one scenario and reports how it ended.
    fn run(&mut self, scenario: &Scenario, keep: bool) -> Result<Outcome> {
        self.boot(scenario)?;
        let folder = self.recipe.shared.join(&scenario.name);
        fs::create_dir(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let started = Instant::now();
        let result = self.conduct(scenario, &folder);
        let seconds = started.elapsed().as_secs_f64();
        match &result {
            Ok(notes) => {
                println!("ok      {:24} {seconds:5.1} s", scenario.name);
                notes.iter().for_each(|note| println!("        {note}"));
            }
            Err(error) => println!("FAILED  {:24} {seconds:5.1} s  {error:#}", scenario.name),
        }
        if result.is_ok() && !keep {
            fs::remove_dir_all(&folder).context("cannot remove a scenario's folder")?;
            return Ok(Outcome::Passed);
        }
        self.keep(scenario, &folder)?;
        if result.is_err() {
            for guest in 1..=scenario.guests {
                let log = tail_of(&folder.join(format!("guest-{guest}.log")));
                log.lines().for_each(|line| println!("        | {line}"));
            }
            println!("        kept: {}", folder.display());
            // Whatever state it left in them.
            self.machines.clear();
        }
        Ok(match result {
            Ok(_) => Outcome::Passed,
            Err(error) if error.is::<OutOfTime>() => Outcome::OutOfTime,
            Err(_) => Outcome::Failed,
        })
    }

    /// Makes sure that as many guests as the scenario needs wait for it.
    fn boot(&mut self, scenario: &Scenario) -> Result<()> {
        self.machines
            .retain(|machine| machine.captures == scenario.capture);
        let started = Instant::now();
        let there = self.machines.len();
        for _ in there..scenario.guests {
            self.started += 1;
            let sender = self.sender.clone();
            let machine = Machine::start(&self.recipe, self.started, scenario.capture, sender)?;
            self.machines.push(machine);
        }
        for _ in there..scenario.guests {
            let (guest, line) = self.next_line(BOOT_MAX).context("a guest does not boot")?;
            if line != "ready" {
                bail!("guest {guest} sends `{line}` before it is ready");
            }
        }
        if self.machines.len() > there {
            println!("lab: booted in {:.1} s", started.elapsed().as_secs_f64());
        }
        Ok(())
    }

    /// Starts the scenario in its guests and serves them until all are done.
    fn conduct(&mut self, scenario: &Scenario, folder: &Path) -> Result<Vec<String>> {
        let machines = &mut self.machines[..scenario.guests];
        let mut host = Host::start(scenario, self.gannet, folder, machines)?;
        for machine in machines {
            machine.start_capture();
            machine.answer(0, &format!("{} {}", scenario.name, machine.number))?;
        }
        let mut running = scenario.guests;
        while running > 0 {
            let (guest, line) = self.next_line(host.time_left() + GRACE)?;
            match line.strip_prefix("done ") {
                Some("0") => running -= 1,
                Some("124") => return Err(OutOfTime("its time is over").into()),
                Some(status) => bail!("{}", explain(status)),
                None => host.serve(&self.machines[..scenario.guests], guest, &line)?,
            }
        }
        host.stop()
    }

    /// The next line that one of the guests sends, and its index.
    fn next_line(&self, max: Duration) -> Result<(usize, String)> {
        let deadline = Instant::now() + max;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let event = match self.events.recv_timeout(left) {
                Ok(event) => event,
                Err(RecvTimeoutError::Timeout) => {
                    return Err(OutOfTime("the guest does not react any more").into());
                }
                Err(RecvTimeoutError::Disconnected) => bail!("no guest runs"),
            };
            let of_it = |machine: &Machine| machine.number == event.machine;
            // Those that were ended may still have lines under way.
            if let Some(index) = self.machines.iter().position(of_it) {
                let line = event.line.context("the guest has ended: see its console")?;
                return Ok((index, line));
            }
        }
    }

    /// Puts the guests' consoles and captures into the scenario's folder.
    fn keep(&self, scenario: &Scenario, folder: &Path) -> Result<()> {
        for (machine, guest) in self.machines[..scenario.guests].iter().zip(1..) {
            for log in machine.logs() {
                let stem = log
                    .file_stem()
                    .unwrap_or_default()
                    .to_string_lossy()
                    .into_owned();
                let kept: PathBuf = folder.join(format!("{stem}-{guest}.log"));
                fs::copy(&log, &kept).with_context(|| format!("cannot keep {}", log.display()))?;
            }
            machine.keep_capture(&folder.join(format!("capture-{guest}.pcap")))?;
        }
        Ok(())
    }
}

/// Words for a scenario's exit status; lab/guest/agent gives the special ones.
fn explain(status: &str) -> String {
    match status {
        "125" => String::from("the guest's kernel complained: see dmesg"),
        "126" => String::from("it left a mount behind"),
        other => format!("exit status {other}"),
    }
}
