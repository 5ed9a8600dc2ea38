//! The list of mutants.

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Where it is, below the root of the workspace.
pub(crate) const LIST: &str = "xtask/mutants.toml";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    mutant: Vec<Mutant>,
}

/// One of them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Mutant {
    pub(super) name: String,
    /// The rule that it breaks, in one sentence.
    pub(super) rule: String,
    /// The file that it changes, below the root.
    pub(super) file: String,
    /// A text that the file has exactly once.
    from: String,
    /// The text in its place.
    to: String,
    /// The package whose tests must fail.
    package: String,
    /// Which of its programs: `--lib` or `--test all`.
    target: String,
    /// Part of the names of tests, of which one must fail.
    pub(super) test: String,
}

impl Mutant {
    /// The program with its tests, as arguments of `cargo test`.
    pub(super) fn program(&self) -> String {
        format!("-p {} {}", self.package, self.target)
    }

    /// The file with the fault in it.
    ///
    /// # Errors
    /// The file does not have the text, or has it more than once.
    pub(super) fn applied_to(&self, text: &str) -> Result<String> {
        match text.matches(&self.from).count() {
            1 => Ok(text.replacen(&self.from, &self.to, 1)),
            count => bail!(
                "mutant {}: its `from` is {count} times in {}, and must be there once",
                self.name,
                self.file
            ),
        }
    }
}

/// The mutants with these names, or all of them, in the order of the list.
///
/// # Errors
/// The list cannot be read; two mutants have one name; none has a name that was asked for.
pub(super) fn read(root: &Path, names: &[String]) -> Result<Vec<Mutant>> {
    let text =
        fs::read_to_string(root.join(LIST)).with_context(|| format!("cannot read {LIST}"))?;
    parse(&text, names)
}

fn parse(text: &str, names: &[String]) -> Result<Vec<Mutant>> {
    let list: List =
        toml::from_str(text).with_context(|| format!("{LIST} is no list of mutants"))?;
    let mut seen = BTreeSet::new();
    for mutant in &list.mutant {
        if !seen.insert(mutant.name.as_str()) {
            bail!("two mutants of {LIST} are called {}", mutant.name);
        }
    }
    if let Some(unknown) = names.iter().find(|name| !seen.contains(name.as_str())) {
        bail!("no mutant of {LIST} is called {unknown}");
    }
    let wanted = |mutant: &Mutant| names.is_empty() || names.contains(&mutant.name);
    Ok(list.mutant.into_iter().filter(wanted).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(name: &str, from: &str) -> String {
        format!(
            "[[mutant]]\nname = \"{name}\"\nrule = \"r\"\nfile = \"f\"\nfrom = \"{from}\"\nto = \"b\"\n\
             package = \"p\"\ntarget = \"--lib\"\ntest = \"t\"\n"
        )
    }

    #[test]
    fn mutants_are_chosen_by_name_and_applied_where_they_fit_once() {
        let text = listed("one", "a") + &listed("two", "c");
        let names: Vec<String> = (parse(&text, &[]).unwrap().into_iter())
            .map(|mutant| mutant.name)
            .collect();
        assert_eq!(names, ["one", "two"]);
        let chosen = parse(&text, &["two".into()]).unwrap();
        assert_eq!(chosen.len(), 1);
        assert_eq!(chosen[0].program(), "-p p --lib");
        assert_eq!(chosen[0].applied_to("xcx").unwrap(), "xbx");
        assert!(chosen[0].applied_to("x").is_err());
        assert!(chosen[0].applied_to("cc").is_err());
    }

    #[test]
    fn a_list_that_is_wrong_is_refused() {
        assert!(parse(&listed("one", "a"), &["two".into()]).is_err());
        assert!(parse(&(listed("one", "a") + &listed("one", "c")), &[]).is_err());
        assert!(parse(&(listed("one", "a") + "spare = 1\n"), &[]).is_err());
    }
}
