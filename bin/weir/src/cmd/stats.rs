//! `weir stats`: how the instance is doing.

use crate::connect::{self, CallError, OpenError, Session};
use crate::document;
use crate::output;
use crate::stats::{self, JobCounts};
use crate::table;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::io::Write as _;
use std::time::{Duration, Instant};

/// Show counts of jobs and the counters of the instance's parts
///
/// The counters are for watching and for tests: requests, commits, batches, listeners, reorder passes. A part that does not
/// answer within 3 seconds is named, the others are shown.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
EXAMPLES
  weir stats
  weir stats --json | jq '.\"job-manager\".journal'

JSON
  {\"epoch\":text|null,\"jobs\":{…}|null,\"job-manager\":{…}|null,\"job-list\":{…}|null,
    \"errors\":{part:text…}}           part: one of these, or instance
  epoch names the journal: 'weir journal --after=SEQ --epoch=EPOCH' goes on only in the same one.

EXIT STATUS
  0  all parts answered
  1  no instance, or a part that does not answer")]
pub struct Args {
    /// One JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

/// Shows.
///
/// # Errors
/// No instance, or a part that does not answer.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let Gathered {
        epoch,
        counts,
        parts,
        errors,
    } = connect::block_on(gather())?;
    let failed: Vec<String> = errors
        .values()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect();
    let mut out = output::stdout();
    if args.json {
        let mut document = Map::new();
        document.insert("epoch".to_owned(), json!(epoch));
        document.insert("jobs".to_owned(), json!(counts));
        for (name, answer) in parts {
            document.insert(name.to_owned(), answer);
        }
        document.insert("errors".to_owned(), Value::Object(errors));
        document::print(&document)?;
    } else {
        write_text(&mut out, epoch.as_deref(), counts.as_ref(), &parts)?;
    }
    out.flush()?;
    match failed.first() {
        None => Ok(()),
        Some(text) => anyhow::bail!("{text}"),
    }
}

/// How long a part may take to answer.
const PART_WITHIN: Duration = Duration::from_secs(3);

/// What the parts said, and what those did that said nothing.
#[derive(Default)]
struct Gathered {
    epoch: Option<String>,
    counts: Option<JobCounts>,
    parts: Vec<(&'static str, Value)>,
    errors: Map<String, Value>,
}

#[derive(Deserialize)]
struct Attribute {
    value: String,
}

async fn gather() -> anyhow::Result<Gathered> {
    let mut gathered = Gathered::default();
    let session = match Session::open_within(PART_WITHIN).await {
        Ok(session) => session,
        // A job-manager that is stopped: job-info can be asked past it.
        Err(error)
            if error
                .downcast_ref::<OpenError>()
                .is_some_and(OpenError::is_silent) =>
        {
            let text = error.to_string();
            gathered
                .errors
                .insert("job-manager".to_owned(), json!(text));
            gathered.parts.push(("job-manager", Value::Null));
            match Session::open_beside("job-info.socket", PART_WITHIN).await {
                Ok(beside) => gathered.ask(&beside, &["job-list"]).await?,
                Err(_) => gathered.parts.push(("job-list", Value::Null)),
            }
            return Ok(gathered);
        }
        Err(error) => return Err(error),
    };
    let epoch = session
        .start("attr.get", &json!({"name": "weir.epoch"}))
        .await?;
    gathered.ask(&session, &["job-manager", "job-list"]).await?;
    // Flux itself has none.
    gathered.epoch = epoch
        .answer_within::<Attribute>(PART_WITHIN)
        .await
        .ok()
        .map(|attribute| attribute.value);
    Ok(gathered)
}

impl Gathered {
    /// Asks these parts, all at once.
    async fn ask(&mut self, session: &Session, names: &[&'static str]) -> anyhow::Result<()> {
        let counts = session.start(stats::JOB_STATS, &json!({})).await?;
        let mut pending = Vec::new();
        for name in names {
            let topic = format!("{name}.stats-get");
            pending.push((*name, session.start(&topic, &json!({})).await?));
        }
        let deadline = Instant::now() + PART_WITHIN;
        let left = || deadline.saturating_duration_since(Instant::now());
        for (name, pending) in pending {
            let answer = match pending.answer_within::<Map<String, Value>>(left()).await {
                Ok(answer) => Value::Object(answer),
                Err(error) => {
                    self.errors.insert(name.to_owned(), json!(said(error)));
                    Value::Null
                }
            };
            self.parts.push((name, answer));
        }
        match counts.answer_within(left()).await {
            Ok(counts) => self.counts = Some(counts),
            Err(error) => {
                self.errors.insert("jobs".to_owned(), json!(said(error)));
            }
        }
        Ok(())
    }
}

/// The error's text, with the whole time waited where one deadline was shared.
fn said(error: CallError) -> String {
    match error {
        CallError::Silent { topic, .. } => CallError::Silent {
            topic,
            waited: PART_WITHIN,
        },
        other => other,
    }
    .to_string()
}

fn write_text(
    out: &mut output::Out,
    epoch: Option<&str>,
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
            ("purged", counts.inactive_purged),
        ] {
            rows.push(vec!["jobs".to_owned(), name.to_owned(), count.to_string()]);
        }
    }
    if let Some(epoch) = epoch {
        rows.push(vec![
            "journal".to_owned(),
            "epoch".to_owned(),
            epoch.to_owned(),
        ]);
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
