//! Scenario files: shell scripts for the guest whose first comment says what they need of the host.

use super::machine::Model;
use super::prepare::Kernel;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time of a scenario whose header names none.
const LIMIT_DEFAULT: Duration = Duration::from_secs(60);
/// The most guests that one scenario can have.
const GUESTS_MAX: usize = 4;

/// A script, or one of the variants it is run in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Scenario {
    /// The name of the script's file without its ending, and the variant after a dot.
    pub(super) name: String,
    /// The proven behaviour, in one line.
    pub(super) title: String,
    /// The script.
    pub(super) file: PathBuf,
    /// One word of the header `over` without its kernel, handed to the script as `$OVER`.
    pub(super) over: String,
    /// The kernel of the guests.
    pub(super) kernel: Kernel,
    /// The server program.
    pub(super) server: Server,
    /// Number of guests that run the script at the same time.
    pub(super) guests: usize,
    /// The longest time that the scenario may take.
    pub(super) limit: Duration,
    /// Whether the guests' network is captured.
    pub(super) capture: bool,
    /// Whether the guests get the Debian package, in `$PACKAGE`.
    pub(super) package: bool,
    /// The program of the workspace that the guests get, in `$PROGRAM`.
    pub(super) program: Option<Program>,
    /// Whether it runs only when it is named.
    pub(super) named: bool,
}

/// A program of the workspace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Program {
    /// A binary, built for release, with the name of its crate.
    Binary {
        /// The crate.
        package: String,
    },
    /// A program of tests.
    Test {
        /// The crate.
        package: String,
        /// The file of the crate's folder `tests`, without its ending.
        test: String,
    },
    /// An example.
    Example {
        /// The crate.
        package: String,
        /// The file of the crate's folder `examples`, without its ending.
        example: String,
    },
}

impl Scenario {
    /// The guests that it needs.
    pub(super) fn model(&self) -> Model {
        Model {
            kernel: self.kernel,
            captures: self.capture,
        }
    }
}

/// The server program of a scenario.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Server {
    /// `gannet serve` on the host, with these options.
    Gannet(Vec<String>),
    /// The server that the script starts in its guests.
    Script,
    /// The server of the guest's kernel.
    Knfsd,
}

/// All scenarios of a folder, in order of file name, each variant on its own.
///
/// # Errors
/// A file cannot be read, or its header is wrong.
pub(super) fn load(folder: &Path) -> Result<Vec<Scenario>> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect())
        .with_context(|| format!("cannot list {}", folder.display()))?;
    files.retain(|file| file.extension().is_some_and(|end| end == "sh"));
    files.sort();
    let mut scenarios = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file);
        let variants = text
            .map_err(anyhow::Error::from)
            .and_then(|text| parse(&file, &text))
            .with_context(|| format!("{} is no scenario", file.display()))?;
        scenarios.extend(variants);
    }
    Ok(scenarios)
}

/// The scenarios whose names are asked for: whole names, or their beginnings up to a dot. Without names, all that need
/// not be named.
///
/// # Errors
/// No scenario has one of the names.
pub(super) fn select(scenarios: Vec<Scenario>, names: &[String]) -> Result<Vec<Scenario>> {
    let is_named = |scenario: &Scenario, name: &str| {
        let rest = scenario.name.strip_prefix(name);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    for name in names {
        if !scenarios.iter().any(|scenario| is_named(scenario, name)) {
            bail!("no scenario {name}: `cargo xtask kernel-lab --list` shows them");
        }
    }
    let is_selected = |scenario: &Scenario| match names {
        [] => !scenario.named,
        names => names.iter().any(|name| is_named(scenario, name)),
    };
    Ok(scenarios.into_iter().filter(is_selected).collect())
}

/// Reads the header: a title, then lines `# key: value`.
fn parse(file: &Path, text: &str) -> Result<Vec<Scenario>> {
    let name = file.file_stem().unwrap_or_default().to_string_lossy();
    let mut scenario = Scenario {
        name: name.clone().into_owned(),
        title: String::new(),
        file: file.to_path_buf(),
        over: String::new(),
        kernel: Kernel::Linux6_1,
        server: Server::Knfsd,
        guests: 1,
        limit: LIMIT_DEFAULT,
        capture: true,
        package: false,
        program: None,
        named: false,
    };
    let mut server = None;
    let mut over = Vec::new();
    let header = text
        .lines()
        .skip_while(|line| line.starts_with("#!"))
        .map_while(|line| line.strip_prefix("# "));
    for line in header {
        match line.split_once(": ") {
            Some(("server", value)) => server = Some(parse_server(value)?),
            Some(("over", value)) => over = value.split_whitespace().collect(),
            Some(("guests", value)) => scenario.guests = parse_guests(value)?,
            Some(("limit", value)) => scenario.limit = parse_limit(value)?,
            Some(("capture", "no")) => scenario.capture = false,
            Some(("package", "yes")) => scenario.package = true,
            Some(("program", value)) => scenario.program = Some(parse_program(value)?),
            Some(("run", "named")) => scenario.named = true,
            _ if server.is_none() => scenario.title = join(&scenario.title, line),
            _ => bail!("unknown header `{line}`: see kernel-lab/README.md"),
        }
    }
    if scenario.title.is_empty() {
        bail!("the first line must be a comment that says what is proven");
    }
    scenario.server = server.context("no header `# server: gannet|knfsd|script`")?;
    if over.is_empty() {
        return Ok(vec![scenario]);
    }
    let variant = |word: &str| {
        let (over, kernel) = match word.split_once('@') {
            Some((over, series)) => (over, parse_kernel(series)?),
            None => (word, scenario.kernel),
        };
        Ok(Scenario {
            name: format!("{name}.{word}"),
            over: over.to_owned(),
            kernel,
            ..scenario.clone()
        })
    };
    over.into_iter().map(variant).collect()
}

fn join(first: &str, second: &str) -> String {
    format!("{first} {second}").trim().to_owned()
}

fn parse_server(value: &str) -> Result<Server> {
    let mut words = value.split_whitespace();
    match words.next() {
        Some("gannet") => Ok(Server::Gannet(words.map(str::to_owned).collect())),
        Some("script") => Ok(Server::Script),
        Some("knfsd") => Ok(Server::Knfsd),
        _ => bail!("`server: {value}`: it is `gannet [OPTIONS]`, `knfsd` or `script`"),
    }
}

fn parse_kernel(series: &str) -> Result<Kernel> {
    let known = Kernel::ALL
        .into_iter()
        .find(|kernel| kernel.series() == series);
    known.with_context(|| format!("`@{series}`: the lab has no such kernel"))
}

fn parse_program(value: &str) -> Result<Program> {
    let words: Vec<&str> = value.split_whitespace().collect();
    match words[..] {
        [package] => Ok(Program::Binary {
            package: package.to_owned(),
        }),
        [package, test] => Ok(Program::Test {
            package: package.to_owned(),
            test: test.to_owned(),
        }),
        [package, "example", example] => Ok(Program::Example {
            package: package.to_owned(),
            example: example.to_owned(),
        }),
        _ => bail!("`program: {value}`: it is `CRATE`, `CRATE TEST` or `CRATE example EXAMPLE`"),
    }
}

fn parse_guests(value: &str) -> Result<usize> {
    let guests = value
        .parse()
        .ok()
        .filter(|guests| (1..=GUESTS_MAX).contains(guests));
    guests.with_context(|| format!("`guests: {value}`: it is a number from 1 to {GUESTS_MAX}"))
}

fn parse_limit(value: &str) -> Result<Duration> {
    let seconds = value
        .parse()
        .ok()
        .filter(|seconds| (1..=3600).contains(seconds));
    seconds
        .map(Duration::from_secs)
        .with_context(|| format!("`limit: {value}`: it is a number of seconds"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Vec<Scenario>> {
        parse(Path::new("kernel-lab/scenarios/copy.sh"), text)
    }

    #[test]
    fn a_header_gives_one_scenario_per_variant() {
        let text = "#!/bin/sh\n# Copies\n# a file.\n# server: gannet --crc on\n# over: rdma tcp\n# limit: 9\n\n# guests: 3\n";
        let scenarios = parsed(text).unwrap();
        let names: Vec<&str> = scenarios.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["copy.rdma", "copy.tcp"]);
        let server = Server::Gannet(vec![String::from("--crc"), String::from("on")]);
        assert_eq!(scenarios[1].server, server);
        assert_eq!(scenarios[1].title, "Copies a file.");
        assert_eq!(scenarios[1].over, "tcp");
        assert_eq!(scenarios[1].limit, Duration::from_secs(9));
        assert_eq!(scenarios[1].guests, 1, "the header has ended before");
    }

    #[test]
    fn a_variant_can_name_its_kernel() {
        let scenarios = parsed("# Copies.\n# server: knfsd\n# over: rdma rdma@6.12\n").unwrap();
        let kernels: Vec<_> = (scenarios.iter())
            .map(|one| (one.name.as_str(), one.over.as_str(), one.kernel))
            .collect();
        let expected = [
            ("copy.rdma", "rdma", Kernel::Linux6_1),
            ("copy.rdma@6.12", "rdma", Kernel::Linux6_12),
        ];
        assert_eq!(kernels, expected);
    }

    #[test]
    fn a_wrong_header_is_an_error() {
        let wrong = [
            "# server: knfsd\n",
            "# Copies.\n",
            "# Copies.\n# server: samba\n",
            "# Copies.\n# server: knfsd\n# limit: soon\n",
            "# Copies.\n# server: knfsd\n# guests: 9\n",
            "# Copies.\n# server: knfsd\n# colour: red\n",
            "# Copies.\n# server: knfsd\n# over: rdma@5.10\n",
            "# Copies.\n# server: knfsd\n# program: gannet-verbs devices 1\n",
            "# Copies.\n# server: knfsd\n# run: sometimes\n",
        ];
        for text in wrong {
            assert!(parsed(text).is_err(), "{text}");
        }
    }

    #[test]
    fn names_select_a_scenario_or_all_its_variants() {
        let scenarios = parsed("# Copies.\n# server: knfsd\n# over: rdma tcp\n").unwrap();
        let count = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            select(scenarios.clone(), &names)
                .map(|selected| selected.len())
                .ok()
        };
        assert_eq!(count(&[]), Some(2));
        assert_eq!(count(&["copy"]), Some(2));
        assert_eq!(count(&["copy.tcp"]), Some(1));
        assert_eq!(count(&["cop"]), None);
    }

    #[test]
    fn a_scenario_that_must_be_named_runs_only_then() {
        let text = "# Copies.\n# server: knfsd\n# over: rxe siw\n# run: named\n";
        let scenarios = parsed(text).unwrap();
        let count = |names: &[String]| select(scenarios.clone(), names).unwrap().len();
        assert_eq!(count(&[]), 0);
        assert_eq!(count(&[String::from("copy.siw")]), 1);
    }

    #[test]
    fn a_program_is_a_crate_or_a_test_or_example_of_one() {
        let program = |value: &str| {
            let text = format!("# Copies.\n# server: script\n# program: {value}\n");
            parsed(&text).unwrap().remove(0).program
        };
        let test = Program::Test {
            package: String::from("gannet-iwarp"),
            test: String::from("all"),
        };
        let binary = Program::Binary {
            package: String::from("gannet-lab"),
        };
        assert_eq!(program("gannet-iwarp all"), Some(test));
        assert_eq!(program("gannet-lab"), Some(binary));
        let example = Program::Example {
            package: String::from("gannet"),
            example: String::from("web"),
        };
        assert_eq!(program("gannet example web"), Some(example));
    }
}
