//! `weir stats`: how the instance is doing.

use crate::connect::{self, Session};
use crate::output;
use crate::stats::{self, JobCounts};
use crate::table;
use serde_json::{Map, Value, json};
use std::io::Write as _;

/// Show counts of jobs and the counters of the instance's parts
///
/// The counters are for watching and for tests: requests, commits, batches, listeners, reorder passes. A part that does not
/// answer is named, the others are shown.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
EXAMPLES
  weir stats
  weir stats --json | jq '.\"job-manager\".journal'

JSON
  {\"jobs\":{…}|null,\"job-manager\":{…}|null,\"job-list\":{…}|null,\"errors\":{part:text…}}

EXIT STATUS
  0  all parts answered
  1  no instance, or a part that does not answer")]
pub struct Args {
    /// One JSON document
    #[arg(long)]
    json: bool,
}

/// Shows.
///
/// # Errors
/// No instance, or a part that does not answer.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let (counts, parts, errors) = connect::block_on(async {
        let session = Session::open().await?;
        let mut errors = Map::new();
        let manager = session.start("job-manager.stats-get", &json!({})).await?;
        let list = session.start("job-list.stats-get", &json!({})).await?;
        let counts = stats::job_counts(&session).await;
        let mut parts = Vec::new();
        for (name, pending) in [("job-manager", manager), ("job-list", list)] {
            let answer = match pending.answer::<Map<String, Value>>().await {
                Ok(answer) => Value::Object(answer),
                Err(error) => {
                    errors.insert(name.to_owned(), json!(error.to_string()));
                    Value::Null
                }
            };
            parts.push((name, answer));
        }
        let counts = match counts {
            Ok(counts) => Some(counts),
            Err(error) => {
                errors.insert("jobs".to_owned(), json!(error.to_string()));
                None
            }
        };
        anyhow::Ok((counts, parts, errors))
    })?;
    let failed = errors
        .values()
        .next()
        .and_then(Value::as_str)
        .map(str::to_owned);
    let mut out = output::stdout();
    if args.json {
        let mut document = Map::new();
        document.insert("jobs".to_owned(), json!(counts));
        for (name, answer) in parts {
            document.insert(name.to_owned(), answer);
        }
        document.insert("errors".to_owned(), Value::Object(errors));
        serde_json::to_writer(&mut out, &document).map_err(std::io::Error::from)?;
        out.write_all(b"\n")?;
    } else {
        write_text(&mut out, counts.as_ref(), &parts)?;
    }
    out.flush()?;
    match failed {
        None => Ok(()),
        Some(text) => anyhow::bail!("{text}"),
    }
}

fn write_text(
    out: &mut output::Out,
    counts: Option<&JobCounts>,
    parts: &[(&str, Value)],
) -> anyhow::Result<()> {
    let mut rows = Vec::new();
    if let Some(counts) = counts {
        for (name, count) in [
            ("pending", counts.pending()),
            ("running", counts.running()),
            ("completed", counts.successful),
            ("failed", counts.failed),
            ("canceled", counts.canceled),
            ("timed out", counts.timeout),
            ("forgotten", counts.inactive_purged),
        ] {
            rows.push(vec!["jobs".to_owned(), name.to_owned(), count.to_string()]);
        }
    }
    for (part, answer) in parts {
        flatten(part, "", answer, &mut rows);
    }
    out.write_all(table::render(&["PART", "COUNTER", "VALUE"], &rows, 2).as_bytes())?;
    Ok(())
}

/// A row for each number or text inside, its path as the counter's name.
fn flatten(part: &str, path: &str, value: &Value, rows: &mut Vec<Vec<String>>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let path = if path.is_empty() {
                    key.clone()
                } else {
                    format!("{path}.{key}")
                };
                flatten(part, &path, value, rows);
            }
        }
        Value::Null => {}
        Value::String(text) => rows.push(vec![part.to_owned(), path.to_owned(), text.clone()]),
        other => rows.push(vec![part.to_owned(), path.to_owned(), other.to_string()]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_counters_become_paths() {
        let mut rows = Vec::new();
        flatten(
            "p",
            "",
            &json!({"a": {"b": 1, "c": [2]}, "d": "x", "e": null}),
            &mut rows,
        );
        assert_eq!(
            rows,
            [["p", "a.b", "1"], ["p", "a.c", "[2]"], ["p", "d", "x"]]
        );
    }
}
