//! The environment a job gets: the submitting process's own, changed by `--env` rules in the order given.
//!
//! | rule | effect |
//! | --- | --- |
//! | `-PATTERN` | removes the variables that match |
//! | `PATTERN` | takes the variables that match from the submitting process, if they are not there already |
//! | `VAR=VALUE` | sets one; `$VAR` and `${VAR}` in VALUE stand for variables set so far, `$$` for a dollar |
//! | `^FILE` | reads rules from a file, one a line; empty lines and lines that start with `#` are passed over |
//!
//! A pattern is a file name pattern (`*`, `?`, `[a-z]`, `[!a-z]`). Without rules the whole environment is taken. Variables
//! that are not UTF-8 cannot travel in a jobspec and stay behind. Leaves reading the process environment to the caller.

use anyhow::{Context as _, bail};
use std::collections::BTreeMap;

/// How deep `^FILE` may lead to other files.
const FILE_DEPTH_MAX: usize = 8;

/// An environment, sorted by name, so that equal environments make equal jobspecs.
pub type Environment = BTreeMap<String, String>;

/// The environment of this process, without what is not UTF-8.
#[must_use]
pub fn current() -> Environment {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

/// Applies the rules to the environment `current`.
///
/// # Errors
/// A variable in a value is not set, a rules file cannot be read, or files lead to each other too deep.
pub fn apply(rules: &[String], current: &Environment) -> anyhow::Result<Environment> {
    let mut made = current.clone();
    for rule in rules {
        apply_one(rule, current, &mut made, 0)?;
    }
    Ok(made)
}

fn apply_one(
    rule: &str,
    current: &Environment,
    made: &mut Environment,
    depth: usize,
) -> anyhow::Result<()> {
    if let Some(pattern) = rule.strip_prefix('-') {
        no_regex(pattern)?;
        made.retain(|name, _| !matches(pattern, name));
    } else if let Some(path) = rule.strip_prefix('^') {
        if depth == FILE_DEPTH_MAX {
            bail!("--env=^{path}: rules files lead to each other more than {FILE_DEPTH_MAX} deep");
        }
        let text = std::fs::read_to_string(path).with_context(|| format!("--env=^{path}"))?;
        for line in text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
        {
            apply_one(line, current, made, depth + 1)?;
        }
    } else if let Some((name, value)) = rule.split_once('=') {
        if name.is_empty() {
            bail!("--env={rule}: a variable needs a name");
        }
        let value = substitute(value, made).with_context(|| format!("--env={rule}"))?;
        made.insert(name.to_owned(), value);
    } else {
        no_regex(rule)?;
        for (name, value) in current.iter().filter(|(name, _)| matches(rule, name)) {
            made.entry(name.clone()).or_insert_with(|| value.clone());
        }
    }
    Ok(())
}

fn no_regex(pattern: &str) -> anyhow::Result<()> {
    if pattern.starts_with('/') {
        bail!(
            "--env: '{pattern}' is a regular expression; weir takes file name patterns such as 'SLURM_*'"
        );
    }
    Ok(())
}

fn substitute(value: &str, made: &Environment) -> anyhow::Result<String> {
    let mut out = String::with_capacity(value.len());
    let mut rest = value;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            out.push('$');
            rest = after;
            continue;
        }
        let (name, after) = match rest.strip_prefix('{') {
            Some(inner) => inner.split_once('}').context("'${' without '}'")?,
            None => rest.split_at(
                rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                    .unwrap_or(rest.len()),
            ),
        };
        if name.is_empty() {
            bail!("'$' without a name; write '$$' for a dollar");
        }
        out.push_str(
            made.get(name)
                .with_context(|| format!("${name} is not set"))?,
        );
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

/// File name pattern matching: `*`, `?`, `[set]`, `[!set]`; everything else stands for itself.
#[must_use]
pub fn matches(pattern: &str, text: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let text: Vec<char> = text.chars().collect();
    // The classic walk with one place to come back to: linear in pattern times text, whatever the pattern.
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        if pattern.get(p) == Some(&'*') {
            star = Some((p, t));
            p += 1;
        } else if let Some(length) = matches_one(&pattern[p..], text[t]) {
            p += length;
            t += 1;
        } else if let Some((star_p, star_t)) = star {
            star = Some((star_p, star_t + 1));
            p = star_p + 1;
            t = star_t + 1;
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

/// How many characters of the pattern were used to match this one character; `None` if they do not match it.
fn matches_one(pattern: &[char], c: char) -> Option<usize> {
    match pattern {
        [] => None,
        ['?', ..] => Some(1),
        ['[', rest @ ..] => {
            let (negated, set) = match rest {
                ['!' | '^', set @ ..] => (true, set),
                set => (false, set),
            };
            // A `]` in first place is a member of the set.
            let Some(end) = set.iter().skip(1).position(|c| *c == ']').map(|at| at + 1) else {
                return (c == '[').then_some(1);
            };
            let members = &set[..end];
            let mut found = false;
            let mut at = 0;
            while at < members.len() {
                if at + 2 < members.len() && members[at + 1] == '-' {
                    found |= (members[at]..=members[at + 2]).contains(&c);
                    at += 3;
                } else {
                    found |= members[at] == c;
                    at += 1;
                }
            }
            (found != negated)
                .then_some(pattern.len() - rest.len() + (rest.len() - set.len()) + end + 1)
        }
        [literal, ..] => (*literal == c).then_some(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(pairs: &[(&str, &str)]) -> Environment {
        pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    fn applied(rules: &[&str]) -> anyhow::Result<Environment> {
        let current = env(&[
            ("PATH", "/bin"),
            ("HOME", "/home/alice"),
            ("OMP_NUM_THREADS", "4"),
            ("OMP_PROC_BIND", "true"),
        ]);
        apply(
            &rules
                .iter()
                .map(|rule| (*rule).to_owned())
                .collect::<Vec<_>>(),
            &current,
        )
    }

    #[test]
    fn rules_apply_in_the_order_given() {
        assert_eq!(applied(&[]).unwrap().len(), 4);
        assert_eq!(applied(&["-*"]).unwrap(), env(&[]));
        assert_eq!(applied(&["-*", "PATH"]).unwrap(), env(&[("PATH", "/bin")]));
        assert_eq!(applied(&["PATH", "-*"]).unwrap(), env(&[]));
        assert_eq!(
            applied(&["-OMP_*"]).unwrap(),
            env(&[("HOME", "/home/alice"), ("PATH", "/bin")])
        );
        assert_eq!(applied(&["-*", "OMP_*", "X=1"]).unwrap().len(), 3);
        // A pattern does not change what is set already; a pattern without a match is no error.
        assert_eq!(
            applied(&["-*", "PATH=/x", "PATH", "NOSUCH*"]).unwrap(),
            env(&[("PATH", "/x")])
        );
    }

    #[test]
    fn values_may_name_variables_set_so_far() {
        assert_eq!(applied(&["PATH=/opt:$PATH"]).unwrap()["PATH"], "/opt:/bin");
        assert_eq!(
            applied(&["A=${HOME}/x$$y"]).unwrap()["A"],
            "/home/alice/x$y"
        );
        assert_eq!(applied(&["A=b=c"]).unwrap()["A"], "b=c");
        assert!(
            format!("{:#}", applied(&["A=$NOSUCH"]).unwrap_err()).contains("$NOSUCH is not set")
        );
        assert!(applied(&["A=${HOME"]).is_err());
        assert!(applied(&["A=1$"]).is_err());
        assert!(applied(&["=x"]).is_err());
        assert!(
            applied(&["-/OMP.*/"])
                .unwrap_err()
                .to_string()
                .contains("file name patterns")
        );
    }

    #[test]
    fn rules_come_from_a_file_and_a_loop_of_files_ends() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rules");
        std::fs::write(&path, "# none at first\n-*\n\nX=1\n").unwrap();
        assert_eq!(
            applied(&[&format!("^{}", path.display())]).unwrap(),
            env(&[("X", "1")])
        );
        std::fs::write(&path, format!("^{}\n", path.display())).unwrap();
        assert!(
            applied(&[&format!("^{}", path.display())])
                .unwrap_err()
                .to_string()
                .contains("lead to each other")
        );
        assert!(
            format!("{:#}", applied(&["^/nonexistent"]).unwrap_err())
                .starts_with("--env=^/nonexistent")
        );
    }

    #[test]
    fn patterns_match_as_file_names_do() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("A*C", "ABBC", true),
            ("A*C", "ABBCD", false),
            ("A?C", "ABC", true),
            ("A?C", "AC", false),
            ("[AB]X", "BX", true),
            ("[!AB]X", "BX", false),
            ("[a-c]1", "b1", true),
            ("[a-c]1", "d1", false),
            ("[]x]", "]", true),
            ("*_*_*", "A_B_C", true),
            ("[", "[", true),
            ("", "A", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }
}
