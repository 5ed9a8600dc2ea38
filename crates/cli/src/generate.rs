//! Man pages and shell completions, made from the command line's own definition.

use crate::cli::{Arguments, GenerateWhat, HelperOptions};
use crate::failure::{Explain, Failure};
use crate::output;
use clap::{Command, CommandFactory, ValueEnum};
use clap_complete::Shell;
use std::path::Path;

/// A configuration file with every key.
pub(crate) const EXAMPLE: &str = include_str!("generate/gannet.toml");
/// Where it goes in the page of `serve`.
const EXAMPLE_MARK: &str = "@example@\n";

/// Writes the files that the options ask for.
///
/// # Errors
/// It cannot be written.
pub fn run(what: &GenerateWhat) -> Result<(), Failure> {
    match what {
        GenerateWhat::Man { directory } => write_all(directory, man_pages()?),
        GenerateWhat::Completions { shell } => output::bytes(&completions(*shell).1),
        GenerateWhat::All { directory } => {
            write_all(&directory.join("man"), man_pages()?)?;
            let shells = Shell::value_variants().iter();
            let scripts = shells.map(|shell| completions(*shell)).collect();
            write_all(&directory.join("completions"), scripts)
        }
    }
}

/// Name and content of every page: one for the program, one per command, nested ones too, and that of `mount.gannet`.
fn man_pages() -> Result<Vec<(String, Vec<u8>)>, Failure> {
    let mut root = without_help_command(Arguments::command());
    root.build();
    let mut pages = Vec::new();
    push_pages(root, &mut pages)?;
    pages.push((String::from("mount.gannet.8"), helper_page()?));
    Ok(pages)
}

/// `help` and `volume help` print the contents of the pages, and have no pages of their own.
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
    page_of(command)
        .render(&mut content)
        .explain(|| format!("cannot make the man page of {name}"))?;
    if name == "gannet-serve" {
        let sections = include_str!("generate/serve.roff").replace(EXAMPLE_MARK, &roff(EXAMPLE));
        content.extend_from_slice(sections.as_bytes());
    }
    pages.push((format!("{name}.1"), content));
    Ok(())
}

/// The page of what mount(8) calls, which is of the section of programs for administrators.
fn helper_page() -> Result<Vec<u8>, Failure> {
    let mut content = Vec::new();
    page_of(HelperOptions::command())
        .section("8")
        .render(&mut content)
        .explain(|| String::from("cannot make the man page of mount.gannet"))?;
    content.extend_from_slice(include_bytes!("generate/mount.gannet.roff"));
    Ok(content)
}

/// Text as roff shows it unchanged.
fn roff(text: &str) -> String {
    text.replace('\\', "\\e").replace('-', "\\-")
}

fn page_of(command: Command) -> clap_mangen::Man {
    let source = format!("gannet {}", env!("CARGO_PKG_VERSION"));
    clap_mangen::Man::new(command)
        .source(source)
        .manual("Gannet")
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
        std::fs::create_dir_all(directory)
            .and_then(|()| std::fs::write(&path, content))
            .explain(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
