//! Runs scenarios in guests that are replaced when a scenario fails in them. Two lanes run at the same time, because a
//! scenario waits for most of its time.

use super::host::{Host, Tested};
use super::machine::{Event, Machine, Model, Recipe};
use super::process::{output, tail_of, tied_to_us};
use super::scenario::{Scenario, Server};
use anyhow::{Context, Result, bail};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{fmt, fs, thread};

/// The longest time in which a guest may boot.
const BOOT_MAX: Duration = Duration::from_secs(300);
/// The most guests of one scenario that are replaced because they ended while they booted.
const BOOTS_AGAIN: usize = 2;
/// The time after a scenario's limit in which a guest may end it. After that the guest is ended.
const GRACE: Duration = Duration::from_secs(15);

/// The end of the queue from which a lane takes its next scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Front,
    Back,
}

/// The state that the lanes share.
struct Lab<'a> {
    recipe: Recipe,
    tested: &'a Tested,
    /// Whether logs and captures of scenarios that pass are kept too.
    keep: bool,
    waiting: Mutex<VecDeque<&'a Scenario>>,
    /// Number of guests started so far.
    started: AtomicUsize,
    failed: AtomicUsize,
}

/// Runs the scenarios, and returns how many failed.
///
/// # Errors
/// A guest does not boot, or the folders cannot be written.
pub(super) fn all(
    recipe: Recipe,
    tested: &Tested,
    scenarios: &[Scenario],
    keep: bool,
) -> Result<usize> {
    for folder in [&recipe.shared, &recipe.boots] {
        if folder.exists() {
            fs::remove_dir_all(folder).context("cannot remove what the last run left")?;
        }
        fs::create_dir_all(folder).context("cannot make the folder of results")?;
    }
    // Neighbours need the same guests, and a guest's own server starts late. Measurements want to be alone.
    let (alone, mut together): (Vec<&Scenario>, Vec<&Scenario>) =
        scenarios.iter().partition(|scenario| !scenario.capture);
    together.sort_by_key(|one| (one.server == Server::Knfsd, one.kernel, one.guests));
    let lab = &Lab {
        recipe,
        tested,
        keep,
        waiting: Mutex::new(together.into()),
        started: AtomicUsize::new(0),
        failed: AtomicUsize::new(0),
    };
    thread::scope(|scope| {
        let lanes =
            [End::Front, End::Back].map(|end| scope.spawn(move || Lane::new(lab).work(end)));
        lanes
            .into_iter()
            .try_for_each(|lane| lane.join().expect("lanes do not panic"))
    })?;
    lab.waiting
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .extend(alone);
    Lane::new(lab).work(End::Front)?;
    Ok(lab.failed.load(Ordering::Relaxed))
}

impl<'a> Lab<'a> {
    fn next(&self, end: End) -> Option<&'a Scenario> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        match end {
            End::Front => waiting.pop_front(),
            End::Back => waiting.pop_back(),
        }
    }
}

/// The result of a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Passed,
    Failed,
    /// The scenario found nothing wrong until its time was over, its guest did not react any more, or the guest's own
    /// server hung while it was ended.
    Undecided,
}

/// The reason why a scenario is [`Outcome::Undecided`].
#[derive(Debug)]
struct Undecided(&'static str);

impl fmt::Display for Undecided {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Undecided {}

/// Runs one scenario after the other.
struct Lane<'a> {
    lab: &'a Lab<'a>,
    /// Guests that wait for a scenario.
    machines: Vec<Machine>,
    sender: Sender<Event>,
    events: Receiver<Event>,
}

impl<'a> Lane<'a> {
    fn new(lab: &'a Lab<'a>) -> Lane<'a> {
        let (sender, events) = mpsc::channel();
        Lane {
            lab,
            machines: Vec::new(),
            sender,
            events,
        }
    }

    /// Runs scenarios until none waits any more.
    fn work(mut self, end: End) -> Result<()> {
        while let Some(scenario) = self.lab.next(end) {
            let mut outcome = self.run(scenario)?;
            if outcome == Outcome::Undecided {
                println!(
                    "kernel-lab: not decided (an emulated guest may starve): again in a fresh one"
                );
                outcome = self.run_again(scenario)?;
            }
            let failed = usize::from(outcome != Outcome::Passed);
            self.lab.failed.fetch_add(failed, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Runs a scenario for the second time. The results of the first time are kept beside those of the second.
    fn run_again(&mut self, scenario: &Scenario) -> Result<Outcome> {
        let shared = &self.lab.recipe.shared;
        let first = shared.join(format!("{}-first", scenario.name));
        fs::rename(shared.join(&scenario.name), first)
            .context("cannot put the first run's folder aside")?;
        self.run(scenario)
    }

    /// Runs one scenario and reports how it ended.
    fn run(&mut self, scenario: &Scenario) -> Result<Outcome> {
        self.boot(scenario)?;
        let folder = self.lab.recipe.shared.join(&scenario.name);
        fs::create_dir(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let started = Instant::now();
        let result = self.conduct(scenario, &folder);
        let seconds = started.elapsed().as_secs_f64();
        let mut report = match &result {
            Ok(_) => format!("ok      {:28} {seconds:5.1} s\n", scenario.name),
            Err(error) => format!("FAILED  {:28} {seconds:5.1} s  {error:#}\n", scenario.name),
        };
        let mut add = |line: &str| report.extend(["        ", line, "\n"]);
        if let Ok(notes) = &result {
            notes.iter().for_each(|note| add(note));
        }
        if result.is_ok() && !self.lab.keep {
            fs::remove_dir_all(&folder).context("cannot remove a scenario's folder")?;
        } else {
            self.keep(scenario, &folder)?;
            add(&format!("kept: {}", folder.display()));
        }
        if result.is_err() {
            for guest in 1..=scenario.guests {
                let log = tail_of(&folder.join(format!("guest-{guest}.log")));
                log.lines().for_each(|line| add(&format!("| {line}")));
            }
            // Whatever state it left in them.
            self.machines.clear();
        }
        // In one piece, as the other lane prints too.
        print!("{report}");
        Ok(match result {
            Ok(_) => Outcome::Passed,
            Err(error) if error.is::<Undecided>() => Outcome::Undecided,
            Err(_) => Outcome::Failed,
        })
    }

    /// Makes sure that as many guests as the scenario needs wait for it.
    fn boot(&mut self, scenario: &Scenario) -> Result<()> {
        self.machines
            .retain(|machine| machine.model == scenario.model());
        let started = Instant::now();
        let there = self.machines.len();
        let missing = scenario.guests.saturating_sub(there);
        let mut starts_left = missing + BOOTS_AGAIN;
        let mut ready = there;
        while ready < scenario.guests {
            while self.machines.len() < scenario.guests {
                if starts_left == 0 {
                    bail!("no guest boots: see above what they and QEMU said");
                }
                starts_left -= 1;
                self.start(scenario.model())?;
            }
            match self.next_event(BOOT_MAX).context("a guest does not boot")? {
                (_, Some(line)) if line == "ready" => ready += 1,
                (guest, Some(line)) => bail!("guest {guest} sends `{line}` before it is ready"),
                (guest, None) if guest < there => bail!("guest {guest} has ended while it waited"),
                (guest, None) => {
                    let machine = self.machines.remove(guest);
                    let said = machine.logs().map(|log| tail_of(&log)).join("\n");
                    println!(
                        "kernel-lab: a guest ended while it booted; QEMU and it said:\n{said}"
                    );
                }
            }
        }
        if self.machines.len() > there {
            println!(
                "kernel-lab: booted in {:.1} s",
                started.elapsed().as_secs_f64()
            );
        }
        Ok(())
    }

    /// Starts a guest, without waiting for it.
    fn start(&mut self, model: Model) -> Result<()> {
        let number = 1 + self.lab.started.fetch_add(1, Ordering::Relaxed);
        let machine = Machine::start(&self.lab.recipe, number, model, self.sender.clone())?;
        self.machines.push(machine);
        Ok(())
    }

    /// Starts the scenario in its guests and serves them until all are done.
    fn conduct(&mut self, scenario: &Scenario, folder: &Path) -> Result<Vec<String>> {
        let machines = &mut self.machines[..scenario.guests];
        let mut host = Host::start(scenario, self.lab.tested, folder, machines)?;
        for machine in machines {
            machine.start_capture();
            machine.answer(0, &format!("{} {}", scenario.name, machine.number))?;
        }
        let mut running = scenario.guests;
        while running > 0 {
            let (guest, line) = self.next_line(host.time_left() + GRACE)?;
            match line.strip_prefix("done ") {
                Some("0") => running -= 1,
                Some("124") => return Err(Undecided("its time is over").into()),
                Some("120") => return Err(Undecided("knfsd hangs while it is ended").into()),
                Some(status) => bail!("{}", explain(status)),
                None => host.serve(&self.machines[..scenario.guests], guest, &line)?,
            }
        }
        host.stop()
    }

    /// The next line that one of the guests sends, with the guest's index.
    fn next_line(&self, max: Duration) -> Result<(usize, String)> {
        let (guest, line) = self.next_event(max)?;
        Ok((guest, line.context("the guest has ended: see its console")?))
    }

    /// The next line that one of the guests sends, or `None` when the guest has ended, with the guest's index.
    fn next_event(&self, max: Duration) -> Result<(usize, Option<String>)> {
        let deadline = Instant::now() + max;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let event = match self.events.recv_timeout(left) {
                Ok(event) => event,
                Err(RecvTimeoutError::Timeout) => {
                    return Err(Undecided("the guest does not react any more").into());
                }
                Err(RecvTimeoutError::Disconnected) => bail!("no guest runs"),
            };
            let of_it = |machine: &Machine| machine.number == event.machine;
            // Those that were ended may still have lines under way.
            if let Some(index) = self.machines.iter().position(of_it) {
                return Ok((index, event.line));
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
            let capture = folder.join(format!("capture-{guest}.pcap"));
            if machine.keep_capture(&capture)? {
                self.decode(&capture)?;
            }
        }
        Ok(())
    }

    /// Puts the output of `gannet dump` beside a capture.
    fn decode(&self, capture: &Path) -> Result<()> {
        let mut dump = tied_to_us(&self.lab.tested.gannet);
        dump.arg("dump").arg(capture);
        fs::write(capture.with_extension("txt"), output(dump)?)
            .with_context(|| format!("cannot decode {}", capture.display()))
    }
}

/// Words for a scenario's exit status; kernel-lab/guest/agent gives the special ones.
fn explain(status: &str) -> String {
    match status {
        "125" => String::from("the guest's kernel complained: see dmesg"),
        "126" => String::from("it left a mount behind"),
        other => format!("exit status {other}"),
    }
}
