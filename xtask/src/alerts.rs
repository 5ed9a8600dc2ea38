//! The alert rules and the dashboard: promtool, of Debian's package prometheus, reads each expression and runs the
//! tests of the rules.

use crate::ci::left_out;
use crate::command::Step;
use crate::target_folder;
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

const RULES: &str = "packaging/prometheus/gannet.rules.yml";
const TESTS: &str = "packaging/prometheus/gannet.rules.test.yml";
const DASHBOARD: &str = "packaging/grafana/gannet.json";
/// The variables of Grafana in expressions, each with a value that is valid there.
const VARIABLES: [(&str, &str); 2] = [("$__rate_interval", "1m"), ("$instance", ".*")];

/// Checks the rules, their tests, and the dashboard's expressions.
///
/// # Errors
/// An expression is wrong, a test fails, or, with `CI=true`, promtool is not installed.
pub(crate) fn run(root: &Path) -> Result<()> {
    let mut promtool = Command::new("promtool");
    let asked = promtool
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if asked.is_err() {
        let reason = "promtool is not installed (apt-get install prometheus)";
        return left_out("alert rules", reason);
    }
    let promtool = |kind: &str, file: &str| {
        let step = Step::program("promtool").with(kind).with("rules");
        step.with(file).run(root)
    };
    promtool("check", RULES)?;
    promtool("test", TESTS)?;
    let dashboard = fs::read_to_string(root.join(DASHBOARD))
        .with_context(|| format!("cannot read {DASHBOARD}"))?;
    let rules = as_rules(&dashboard)?;
    let file = target_folder()?.join("dashboard.rules.json");
    fs::write(&file, rules).with_context(|| format!("cannot write {}", file.display()))?;
    promtool("check", &file.to_string_lossy())
}

/// The expressions of a dashboard as recording rules, which promtool can check. JSON is YAML.
fn as_rules(dashboard: &str) -> Result<String> {
    let dashboard: Value = serde_json::from_str(dashboard).context(DASHBOARD)?;
    let panels = dashboard["panels"].as_array().into_iter().flatten();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    let rules: Vec<_> = targets
        .enumerate()
        .map(|(index, target)| {
            let text = target["expr"].as_str().unwrap_or_default();
            let replace = |text: String, (name, value): &(&str, &str)| text.replace(name, value);
            let expr = VARIABLES.iter().fold(text.to_owned(), replace);
            json!({ "record": format!("dashboard:{index}"), "expr": expr })
        })
        .collect();
    if rules.is_empty() {
        bail!("{DASHBOARD} has no expressions");
    }
    Ok(json!({ "groups": [{ "name": "dashboard", "rules": rules }] }).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_of_a_dashboard_become_rules() {
        let dashboard = r#"{"panels": [{"targets": [{"expr": "rate(a{i=~\"$instance\"}[$__rate_interval])"}]}, {}]}"#;
        let expected = r#"{"groups":[{"name":"dashboard","rules":[{"expr":"rate(a{i=~\".*\"}[1m])","record":"dashboard:0"}]}]}"#;
        assert_eq!(as_rules(dashboard).unwrap(), expected);
        assert!(as_rules("{}").is_err());
    }
}
