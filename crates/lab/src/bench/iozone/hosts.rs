//! Rows of several client machines: this program is started on each, and every operation starts on all at once.
//!
//! The program on a machine says [`GATE`] before an operation, waits for a line, and prints the operation's row.
//! Nothing but its standard input and output is used, so that `ssh` is all that a machine needs.

use super::row::{Breakdown, Cpu, Row};
use crate::cli::IozoneOptions;
use gannet_cli::bench::measure::{Interrupt, rounded};
use gannet_cli::failure::{Explain, Failure};
use gannet_cli::process;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// The line before an operation.
const GATE: &str = "gate";
/// How often a wait looks for signals.
const LOOK: Duration = Duration::from_millis(100);
/// Options of this program that are not passed on to the machines, and whether a value follows each.
const OURS: [(&str, bool); 5] = [
    ("--host", true),
    ("--repeats", true),
    ("--server-pid", true),
    ("--chart", true),
    ("--json", false),
];

/// Reports that an operation could start, and waits until it may.
///
/// # Errors
/// The program that started this one has ended.
pub(super) fn wait_at_gate() -> Result<(), Failure> {
    let what = || String::from("cannot wait for the other machines");
    let mut output = std::io::stdout().lock();
    writeln!(output, "{GATE}").explain(what)?;
    output.flush().explain(what)?;
    let mut line = String::new();
    match std::io::stdin().lock().read_line(&mut line).explain(what)? {
        0 => Err(Failure::new(
            what(),
            "the program that started this one has ended",
        )),
        _ => Ok(()),
    }
}

/// Measures what the command line says on all machines, and reports what they did together.
///
/// # Errors
/// A machine's program cannot be started or fails, or does something else than the others.
pub(super) fn run(
    options: &IozoneOptions,
    interrupt: &Interrupt,
    report: &mut dyn FnMut(Row) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut machines = Machines::start(&options.host, interrupt)?;
    let mut start = (Instant::now(), None);
    loop {
        let lines = machines.lines()?;
        let Some(lines) = lines else {
            return machines.end();
        };
        let server_cpu = || options.server_pid.and_then(|pid| process::cpu(pid).ok());
        if lines.iter().all(|line| line == GATE) {
            start = (Instant::now(), server_cpu());
            machines.open_gate()?;
            continue;
        }
        let server = server_cpu().zip(start.1);
        let server = server.map(|(after, before)| after.saturating_sub(before));
        let rows = lines
            .iter()
            .map(|line| serde_json::from_str(line).explain(|| format!("a machine says {line:?}")));
        let rows = rows.collect::<Result<Vec<Row>, Failure>>()?;
        report(together(rows, server.map(|cpu| (cpu, start.0.elapsed())))?)?;
    }
}

/// The programs on all machines.
struct Machines<'a> {
    children: Vec<(Child, ChildStdin)>,
    lines: Vec<Receiver<String>>,
    commands: &'a [String],
    interrupt: &'a Interrupt,
}

impl<'a> Machines<'a> {
    fn start(commands: &'a [String], interrupt: &'a Interrupt) -> Result<Machines<'a>, Failure> {
        let arguments = of_machines(std::env::args_os().skip(1));
        let mut machines = Machines {
            children: Vec::new(),
            lines: Vec::new(),
            commands,
            interrupt,
        };
        for command in commands {
            let what = || format!("cannot start {command}");
            let mut words = command.split_whitespace();
            let program = words.next();
            let program = program.ok_or_else(|| Failure::usage(what(), "there is no command"))?;
            let mut child = Command::new(program)
                .args(words)
                .args(&arguments)
                .args(["--json", "--gate"])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .explain(what)?;
            let pipes = child.stdin.take().zip(child.stdout.take());
            let (input, output) = pipes.ok_or_else(|| Failure::new(what(), "it has no pipes"))?;
            let (sender, lines) = mpsc::channel();
            std::thread::spawn(move || {
                let lines = BufReader::new(output).lines().map_while(Result::ok);
                // Ends with the program, or when the receiver is dropped.
                lines
                    .take_while(|line| sender.send(line.clone()).is_ok())
                    .for_each(drop);
            });
            machines.children.push((child, input));
            machines.lines.push(lines);
        }
        Ok(machines)
    }

    /// The next line of each machine; nothing when all have ended.
    fn lines(&self) -> Result<Option<Vec<String>>, Failure> {
        let mut said = Vec::new();
        for (lines, command) in self.lines.iter().zip(self.commands) {
            let line = loop {
                self.interrupt.check()?;
                match lines.recv_timeout(LOOK) {
                    Ok(line) => break Some(line),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => break None,
                }
            };
            said.push((line, command));
        }
        if said.iter().all(|(line, _)| line.is_none()) {
            return Ok(None);
        }
        let line = |(line, command): (Option<String>, &String)| {
            line.ok_or_else(|| Failure::new(format!("{command} has ended"), "the others go on"))
        };
        said.into_iter()
            .map(line)
            .collect::<Result<_, _>>()
            .map(Some)
    }

    fn open_gate(&mut self) -> Result<(), Failure> {
        for ((_, input), command) in self.children.iter_mut().zip(self.commands) {
            let said = input.write_all(b"go\n").and_then(|()| input.flush());
            said.explain(|| format!("cannot start an operation of {command}"))?;
        }
        Ok(())
    }

    /// All have ended: whether well.
    fn end(mut self) -> Result<(), Failure> {
        for ((child, _), command) in self.children.iter_mut().zip(self.commands) {
            let status = child
                .wait()
                .explain(|| format!("cannot wait for {command}"))?;
            if !status.success() {
                return Err(Failure::new(format!("{command} failed"), status));
            }
        }
        Ok(())
    }
}

impl Drop for Machines<'_> {
    fn drop(&mut self) {
        for (child, _) in &mut self.children {
            // It has ended already, or is ended now.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Our own arguments, without those that the machines must not have.
fn of_machines(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut kept = Vec::new();
    let mut is_value = false;
    for argument in arguments {
        if std::mem::take(&mut is_value) {
            continue;
        }
        let text = argument.to_string_lossy();
        let (name, has_own) = text
            .split_once('=')
            .map_or((&*text, false), |(name, _)| (name, true));
        match OURS.iter().find(|(option, _)| *option == name) {
            Some((_, takes_value)) => is_value = *takes_value && !has_own,
            None => kept.push(argument),
        }
    }
    kept
}

/// Sums up the measurements of several machines at the same time as one row. Rates and processor time are added;
/// times are means, and at the far end those of the slowest machine.
#[allow(clippy::cast_precision_loss)] // means
fn together(rows: Vec<Row>, server: Option<(Duration, Duration)>) -> Result<Row, Failure> {
    let mut rows = rows.into_iter();
    let Some(mut all) = rows.next() else {
        return Err(Failure::new("no rows", "there are no machines"));
    };
    let mut cpu = all.cpu.client_cpu_percent;
    for row in rows {
        if row.is_about() != all.is_about() {
            let why = format!("{:?} and {:?}", all.is_about(), row.is_about());
            return Err(Failure::new("the machines do not measure the same", why));
        }
        let ops = (all.ops + row.ops).max(1) as f64;
        let mean = |one: f64, other: f64| {
            rounded((one * all.ops as f64 + other * row.ops as f64) / ops, 3)
        };
        (all.mean_us, all.p50_us) = (mean(all.mean_us, row.mean_us), mean(all.p50_us, row.p50_us));
        all.p99_us = all.p99_us.max(row.p99_us);
        all.seconds = all.seconds.max(row.seconds);
        all.ops += row.ops;
        all.clients += row.clients;
        all.mb_per_s = rounded(all.mb_per_s + row.mb_per_s, 1);
        all.ops_per_s = rounded(all.ops_per_s + row.ops_per_s, 1);
        cpu = cpu
            .zip(row.cpu.client_cpu_percent)
            .map(|(one, other)| one + other);
    }
    // In a second.
    let of_server = server.map(|(cpu, time)| cpu.as_secs_f64() / time.as_secs_f64().max(1e-9));
    let of_clients = cpu.map(|percent| percent / 100.0);
    all.cpu = Cpu::new(of_clients, of_server, 1.0, all.mb_per_s * 1e6);
    (all.mb_per_s_min, all.mb_per_s_max) = (all.mb_per_s, all.mb_per_s);
    all.breakdown_us = Breakdown::default();
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_get_the_same_command_without_what_is_the_callers() {
        let words = [
            "bench",
            "iozone",
            "nfs://h/",
            "--host",
            "ssh a lab",
            "--host=ssh b lab",
            "--json",
            "--threads",
            "2",
            "--repeats",
            "3",
            "--server-pid=7",
            "--sync",
        ];
        let kept = of_machines(words.iter().map(OsString::from));
        assert_eq!(
            kept,
            ["bench", "iozone", "nfs://h/", "--threads", "2", "--sync"]
        );
    }
}
