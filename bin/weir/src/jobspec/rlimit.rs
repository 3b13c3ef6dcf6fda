//! The resource limits a job gets: the soft limits of the submitting process, changed by `--rlimit` rules.
//!
//! | rule | effect |
//! | --- | --- |
//! | `-PATTERN` | does not pass on the limits that match |
//! | `PATTERN` | passes on the limits that match, with their present values |
//! | `NAME=VALUE` | sets one; `unlimited` (or `-1`) is no limit |
//!
//! They travel as `attributes.system.shell.options.rlimit`, names in lower case without `RLIMIT_`, -1 for no limit.

use super::env::matches;
use anyhow::{Context as _, bail};
use rustix::process::{Resource, getrlimit};
use std::collections::BTreeMap;

/// Limits by name; -1 is no limit.
pub type Limits = BTreeMap<&'static str, i64>;

/// What the table of the jobspec calls each limit.
const NAMES: [(&str, Resource); 16] = [
    ("as", Resource::As),
    ("core", Resource::Core),
    ("cpu", Resource::Cpu),
    ("data", Resource::Data),
    ("fsize", Resource::Fsize),
    ("locks", Resource::Locks),
    ("memlock", Resource::Memlock),
    ("msgqueue", Resource::Msgqueue),
    ("nice", Resource::Nice),
    ("nofile", Resource::Nofile),
    ("nproc", Resource::Nproc),
    ("rss", Resource::Rss),
    ("rtprio", Resource::Rtprio),
    ("rttime", Resource::Rttime),
    ("sigpending", Resource::Sigpending),
    ("stack", Resource::Stack),
];

/// The soft limits of this process.
#[must_use]
pub fn current() -> Limits {
    NAMES
        .iter()
        .map(|(name, resource)| {
            let soft = getrlimit(*resource).current;
            (
                *name,
                soft.and_then(|value| i64::try_from(value).ok())
                    .unwrap_or(-1),
            )
        })
        .collect()
}

/// Applies the rules to the limits `current`.
///
/// # Errors
/// A name that is no limit, or a value that is no number.
pub fn apply(rules: &[String], current: &Limits) -> anyhow::Result<Limits> {
    let mut made = current.clone();
    for rule in rules {
        if let Some(pattern) = rule.strip_prefix('-') {
            let pattern = known(pattern)?;
            made.retain(|name, _| !matches(&pattern, name));
        } else if let Some((name, value)) = rule.split_once('=') {
            let name = name.to_ascii_lowercase();
            let Some((name, _)) = NAMES.iter().find(|(known, _)| *known == name) else {
                bail!(
                    "--rlimit={rule}: there is no limit '{name}'; known are {}",
                    list()
                );
            };
            made.insert(
                name,
                value_of(value).with_context(|| format!("--rlimit={rule}"))?,
            );
        } else {
            let pattern = known(rule)?;
            for (name, value) in current.iter().filter(|(name, _)| matches(&pattern, name)) {
                made.entry(name).or_insert(*value);
            }
        }
    }
    Ok(made)
}

fn known(pattern: &str) -> anyhow::Result<String> {
    let pattern = pattern.to_ascii_lowercase();
    if !NAMES.iter().any(|(name, _)| matches(&pattern, name)) {
        bail!(
            "--rlimit: there is no limit '{pattern}'; known are {}",
            list()
        );
    }
    Ok(pattern)
}

fn value_of(text: &str) -> anyhow::Result<i64> {
    if matches!(
        text.to_ascii_lowercase().as_str(),
        "unlimited" | "infinity" | "inf" | "-1"
    ) {
        return Ok(-1);
    }
    match text.parse() {
        Ok(value) if value >= 0 => Ok(value),
        _ => bail!("expected a number or 'unlimited', got '{text}'"),
    }
}

fn list() -> String {
    NAMES
        .iter()
        .map(|(name, _)| *name)
        .collect::<Vec<_>>()
        .join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(rules: &[&str]) -> anyhow::Result<Limits> {
        let current = Limits::from([("core", 0), ("nofile", 1024), ("stack", -1)]);
        apply(
            &rules
                .iter()
                .map(|rule| (*rule).to_owned())
                .collect::<Vec<_>>(),
            &current,
        )
    }

    #[test]
    fn limits_are_passed_on_set_and_left_out_by_rule() {
        assert_eq!(applied(&[]).unwrap().len(), 3);
        assert_eq!(applied(&["-*"]).unwrap(), Limits::new());
        assert_eq!(
            applied(&["-*", "NOFILE"]).unwrap(),
            Limits::from([("nofile", 1024)])
        );
        assert_eq!(
            applied(&["-*", "core=unlimited", "nofile=64"]).unwrap(),
            Limits::from([("core", -1), ("nofile", 64)])
        );
        assert!(
            applied(&["nosuch=1"])
                .unwrap_err()
                .to_string()
                .contains("no limit 'nosuch'; known are as, core")
        );
        assert!(applied(&["-nosuch"]).is_err());
        assert!(
            format!("{:#}", applied(&["core=many"]).unwrap_err())
                .contains("expected a number or 'unlimited', got 'many'")
        );
    }

    #[test]
    fn every_limit_of_this_process_has_a_name() {
        assert_eq!(current().len(), NAMES.len());
    }
}
