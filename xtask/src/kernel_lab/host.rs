//! The host's side of a running scenario: the services for its guests.
//!
//! A guest sends a line and gets one back, an exit status and a text: `server start|stop|kill`, `memory`, `gannet
//! ARGUMENTS`, `program ARGUMENTS`, `start ARGUMENTS`, `proxy [no-invalidation]`, `mute`, `cut`, `doom COUNT`,
//! `replies`, `meet`, `note TEXT`, `unpack FILE FOLDER`. Their effects are in kernel-lab/README.md.

use super::machine::Machine;
use super::process::{output, tied_for, tied_to_us};
use super::proxy::{self, Proxy};
use super::scenario::{Program, Scenario, Server};
use super::server::GannetServer;
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The programs under test.
pub(super) struct Tested {
    /// The built binary.
    pub(super) gannet: PathBuf,
    /// The Debian package with this binary, where a scenario wants it.
    pub(super) package: Option<PathBuf>,
    /// The programs that scenarios want.
    pub(super) programs: BTreeMap<Program, PathBuf>,
}

/// One scenario's server, proxies and notes.
pub(super) struct Host<'a> {
    /// The built binary.
    gannet: &'a Path,
    /// The program of the workspace that the scenario names.
    program: Option<&'a Path>,
    /// Runs of that program that end with the scenario.
    started_programs: Vec<Child>,
    /// The scenario's folder, seen by host and guests.
    folder: PathBuf,
    /// The log of the guests' requests and their times.
    log: File,
    started: Instant,
    limit: Duration,
    server: Option<GannetServer>,
    /// Proxies of NFS over TCP and over RDMA.
    proxies: Vec<Proxy>,
    /// Guests that wait for the others.
    meeting: Vec<usize>,
    /// Lines that are shown with the result.
    pub(super) notes: Vec<String>,
}

impl<'a> Host<'a> {
    /// Prepares the scenario's server, and leaves variables in the folder for each of the scenario's guests.
    ///
    /// # Errors
    /// The server does not start, or the folder cannot be written.
    pub(super) fn start(
        scenario: &Scenario,
        tested: &'a Tested,
        folder: &Path,
        machines: &[Machine],
    ) -> Result<Host<'a>> {
        let gannet = tested.gannet.as_path();
        let program = (scenario.program.as_ref()).and_then(|program| tested.programs.get(program));
        let (server, name) = match &scenario.server {
            Server::Gannet(options) => {
                let server = GannetServer::new(gannet, options, folder)?;
                (Some(server), "gannet")
            }
            Server::Script => (None, "script"),
            Server::Knfsd => (None, "knfsd"),
        };
        for (index, machine) in machines.iter().enumerate() {
            let [tcp, rdma, mount] = match &server {
                // MOUNT is answered on the port of NFS over TCP.
                Some(server) => [server.ports[0], server.ports[1], server.ports[0]],
                None => machine.nfs,
            };
            let mut variables = vec![
                format!("GUEST={}", index + 1),
                format!("GUESTS={}", machines.len()),
                format!("OVER={}", scenario.over),
                format!("LIMIT={}", scenario.limit.as_secs()),
                format!("SERVER={name}"),
                format!("SCRIPT={}", file_name(&scenario.file)),
                format!("TCP_PORT={tcp} RDMA_PORT={rdma} MOUNT_PORT={mount}"),
                format!("SAME_PORT={}", machine.same),
                // The guest's root is this machine's.
                format!("GANNET='{}'", gannet.display()),
            ];
            if scenario.package
                && let Some(package) = &tested.package
            {
                variables.push(format!("PACKAGE='{}'", package.display()));
            }
            if let Some(file) = program {
                variables.push(format!("PROGRAM='{}'", file.display()));
            }
            let file = folder.join(format!("variables-{}", machine.number));
            fs::write(file, variables.join("\n") + "\n").context("cannot write the variables")?;
        }
        Ok(Host {
            gannet,
            program: program.map(PathBuf::as_path),
            started_programs: Vec::new(),
            folder: folder.to_path_buf(),
            log: File::create(folder.join("host.log")).context("cannot write the host's log")?,
            started: Instant::now(),
            limit: scenario.limit,
            server,
            proxies: Vec::new(),
            meeting: Vec::new(),
            notes: Vec::new(),
        })
    }

    /// Carries out the request of a guest, and answers it at once or later.
    ///
    /// # Errors
    /// A guest has ended.
    pub(super) fn serve(&mut self, machines: &[Machine], from: usize, line: &str) -> Result<()> {
        let machine = &machines[from];
        let seconds = self.started.elapsed().as_secs_f64();
        writeln!(self.log, "{seconds:7.2} s  guest {}: {line}", from + 1)?;
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        let done = match verb {
            "gannet" => return self.run(machine, self.gannet, "gannet", rest),
            "program" => match self.program() {
                Ok(program) => return self.run(machine, program, "program", rest),
                Err(error) => Err(error),
            },
            "start" => match self.start_program(rest) {
                Ok(first) => return first_line(machine, first),
                Err(error) => Err(error),
            },
            "meet" => {
                self.meeting.push(from);
                if self.meeting.len() < machines.len() {
                    return Ok(());
                }
                for guest in self.meeting.drain(..).filter(|guest| *guest != from) {
                    machines[guest].answer(0, "")?;
                }
                Ok(String::new())
            }
            "note" => {
                self.notes.push(rest.to_owned());
                Ok(String::new())
            }
            "server" => self.control_server(rest).map(|()| String::new()),
            "memory" => self.server().and_then(|server| server.memory_peak()),
            "proxy" => self.start_proxies(rest),
            "replies" => self
                .server()
                .and_then(|server| server.check_replies())
                .map(|()| String::new()),
            "mute" => {
                let muted: usize = self.proxies.iter().map(Proxy::mute).sum();
                Ok(muted.to_string())
            }
            "cut" => {
                let cut: usize = self.proxies.iter().map(Proxy::cut).sum();
                Ok(cut.to_string())
            }
            "doom" => self.doom(rest),
            "unpack" => self.unpack(rest),
            _ => Err(anyhow::anyhow!(
                "no request `{verb}`: see kernel-lab/README.md"
            )),
        };
        match done {
            Ok(text) => machine.answer(0, &text),
            Err(error) => machine.answer(1, &format!("{error:#}")),
        }
    }

    fn server(&mut self) -> Result<&mut GannetServer> {
        self.server
            .as_mut()
            .context("the scenario has no Gannet server")
    }

    fn control_server(&mut self, what: &str) -> Result<()> {
        let server = self.server()?;
        match what {
            "start" => server.start(),
            "stop" => server.stop(),
            "kill" => server.kill(),
            _ => bail!("`server {what}`: it is start, stop or kill"),
        }
    }

    /// Returns the ports of proxies in front of the server. The first request starts the proxies.
    fn start_proxies(&mut self, kind: &str) -> Result<String> {
        let edit = match kind {
            "" => proxy::as_it_is,
            "no-invalidation" => proxy::forbid_invalidation,
            _ => bail!("`proxy {kind}`: it is proxy, or proxy no-invalidation"),
        };
        let ports = self.server()?.ports;
        if self.proxies.is_empty() {
            self.proxies = ports
                .iter()
                .map(|port| Proxy::start(*port, edit))
                .collect::<Result<_>>()?;
        }
        let ports: Vec<String> = self
            .proxies
            .iter()
            .map(|proxy| proxy.port.to_string())
            .collect();
        Ok(ports.join(" "))
    }

    /// Unpacks an archive of the scenario's folder there, because many files take long through the shared folder.
    fn unpack(&self, words: &str) -> Result<String> {
        let (archive, folder) = words
            .split_once(' ')
            .context("`unpack FILE FOLDER`: it is two words")?;
        let mut tar = tied_to_us("tar");
        tar.args(["-xp", "-C", folder, "-f", archive])
            .current_dir(&self.folder);
        output(tar)
    }

    /// Ends the next `count` RDMA connections with their first reply. Returns how many of the last such order were
    /// left.
    fn doom(&self, count: &str) -> Result<String> {
        let count = count.parse().context("`doom COUNT`: it is a number")?;
        let [_, rdma] = self.proxies.as_slice() else {
            bail!("`doom`: there is no proxy yet");
        };
        Ok(rdma.doom(count).to_string())
    }

    fn program(&self) -> Result<&'a Path> {
        self.program
            .context("the scenario has no header `# program: CRATE`")
    }

    /// Runs a program in the scenario's folder, where files named after it get its output. The guest gets its answer
    /// when the program has ended; other guests are served meanwhile.
    fn run(&self, machine: &Machine, program: &Path, name: &str, arguments: &str) -> Result<()> {
        let file = |stream: &str| {
            let name = format!("{name}-{}.{stream}", machine.number);
            File::create(self.folder.join(name)).context("cannot write a program's output")
        };
        let child = tied_for(self.time_left().as_secs().max(1), program)
            .args(arguments.split_whitespace())
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stdout(file("out")?)
            .stderr(file("err")?)
            .spawn();
        let answer = machine.answerer()?;
        match child {
            Ok(child) => drop(thread::spawn(move || answer(exit_status(child), ""))),
            Err(error) => answer(127, &format!("the program cannot be started: {error}")),
        }
        Ok(())
    }

    /// Starts the scenario's program in its folder until the scenario ends. Returns the program's output.
    fn start_program(&mut self, arguments: &str) -> Result<ChildStdout> {
        let errors = File::create(self.folder.join("started.err"));
        let mut child = tied_to_us(self.program()?)
            .args(arguments.split_whitespace())
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(errors.context("cannot write a program's output")?)
            .spawn()
            .context("the program cannot be started")?;
        let output = child.stdout.take();
        self.started_programs.push(child);
        output.context("the program has no output")
    }

    /// The time until the scenario's limit.
    pub(super) fn time_left(&self) -> Duration {
        self.limit.saturating_sub(self.started.elapsed())
    }

    /// Ends the server, which must have lived until now.
    ///
    /// # Errors
    /// The server has ended before, or does not end well.
    pub(super) fn stop(mut self) -> Result<Vec<String>> {
        if let Some(server) = &mut self.server {
            server.stop()?;
        }
        Ok(std::mem::take(&mut self.notes))
    }
}

impl Drop for Host<'_> {
    fn drop(&mut self) {
        for child in &mut self.started_programs {
            // It has ended before when this fails.
            let _ = child.kill().and_then(|()| child.wait());
        }
    }
}

/// Answers a guest with the first line of a program's output. Other guests are served meanwhile.
fn first_line(machine: &Machine, output: ChildStdout) -> Result<()> {
    let answer = machine.answerer()?;
    thread::spawn(move || {
        let mut output = BufReader::new(output);
        let mut line = String::new();
        match output.read_line(&mut line) {
            Ok(bytes) if bytes > 0 => answer(0, line.trim_end()),
            _ => answer(1, "the program ended without a line: see started.err"),
        }
        // Later lines go nowhere. Without a reader, they would end the program.
        let _ = io::copy(&mut output, &mut io::sink());
    });
    Ok(())
}

fn file_name(file: &Path) -> String {
    file.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// The exit status as a shell would give it.
fn exit_status(mut child: Child) -> u8 {
    let code = child.wait().ok().and_then(|status| status.code());
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(255)
}
