//! Man pages and shell completions, made from the command line's own definition.

use crate::cli::{Arguments, GenerateWhat};
use crate::failure::{Explain, Failure};
use crate::output;
use clap::{Command, CommandFactory, ValueEnum};
use clap_complete::Shell;
use std::path::{Path, PathBuf};

/// Writes what is asked for.
///
/// # Errors
/// It cannot be written, or (with `--check`) what is there differs.
pub fn run(what: &GenerateWhat) -> Result<(), Failure> {
    match what {
        GenerateWhat::Man { directory } => write_all(directory, man_pages()?),
        GenerateWhat::Completions { shell } => output::bytes(&completions(*shell).1),
        GenerateWhat::All { directory, check } => {
            let below = |folder: &str, files: Vec<(String, Vec<u8>)>| {
                let folder = PathBuf::from(folder);
                files
                    .into_iter()
                    .map(move |(name, content)| (folder.join(name).display().to_string(), content))
                    .collect::<Vec<_>>()
            };
            let shells = Shell::value_variants()
                .iter()
                .map(|shell| completions(*shell));
            let mut files = below("man", man_pages()?);
            files.extend(below("completions", shells.collect()));
            if *check {
                compare(directory, &files)
            } else {
                write_all(directory, files)
            }
        }
    }
}

/// Name and content of every page: one for the program, one per command, nested ones too.
fn man_pages() -> Result<Vec<(String, Vec<u8>)>, Failure> {
    let mut root = without_help_command(Arguments::command());
    root.build();
    let mut pages = Vec::new();
    push_pages(root, &mut pages)?;
    Ok(pages)
}

/// `help` and `volume help` print what the pages hold, and have none of their own.
fn without_help_command(command: Command) -> Command {
    let command = command.disable_help_subcommand(true);
    command.mut_subcommands(without_help_command)
}

fn push_pages(command: Command, pages: &mut Vec<(String, Vec<u8>)>) -> Result<(), Failure> {
    let name = command
        .get_display_name()
        .unwrap_or(command.get_name())
        .to_owned();
    for below in command
        .get_subcommands()
        .filter(|below| !below.is_hide_set())
    {
        push_pages(below.clone(), pages)?;
    }
    let mut content = Vec::new();
    clap_mangen::Man::new(command)
        .source(format!("gannet {}", env!("CARGO_PKG_VERSION")))
        .manual("Gannet")
        .render(&mut content)
        .explain(|| format!("cannot make the man page of {name}"))?;
    if name == "gannet-serve" {
        content.extend_from_slice(include_bytes!("generate/serve.roff"));
    }
    pages.push((format!("{name}.1"), content));
    Ok(())
}

/// Name and content of a shell's script.
fn completions(shell: Shell) -> (String, Vec<u8>) {
    let mut command = Arguments::command();
    // Into memory first: the generator panics when it cannot write.
    let mut content = Vec::new();
    clap_complete::generate(shell, &mut command, "gannet", &mut content);
    let name = match shell {
        Shell::Bash => "gannet.bash",
        Shell::Elvish => "gannet.elv",
        Shell::Fish => "gannet.fish",
        Shell::PowerShell => "gannet.ps1",
        _ => "_gannet",
    };
    (name.to_owned(), content)
}

fn write_all(directory: &Path, files: Vec<(String, Vec<u8>)>) -> Result<(), Failure> {
    for (name, content) in files {
        let path = directory.join(name);
        let parent = path.parent().unwrap_or(directory);
        std::fs::create_dir_all(parent)
            .and_then(|()| std::fs::write(&path, content))
            .explain(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

fn compare(directory: &Path, files: &[(String, Vec<u8>)]) -> Result<(), Failure> {
    for (name, content) in files {
        let path = directory.join(name);
        if std::fs::read(&path).ok().as_ref() != Some(content) {
            return Err(Failure::new(path.display().to_string(), "is out of date")
                .hint("run `cargo xtask generate` and commit the result"));
        }
    }
    Ok(())
}
