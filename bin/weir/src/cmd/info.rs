//! `weir info`: all that is known about a job, for a person to read.

use crate::connect;
use crate::described::{self, Described};
use crate::document;
use crate::failure;
use crate::ids::{self, Problem};
use crate::listing;
use crate::outcome;
use crate::output::{self, Paint, Palette, complain};
use crate::row::{PRIORITY_MAX, Row};
use crate::{text, users, when};
use job::JobId;
use serde_json::{Value, json};
use std::io::Write as _;

/// Show all that is known about jobs
///
/// A block of lines a job: what it is, where it stands, when it did what, how it ended and why.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
EXAMPLES
  weir info ƒCdza1gs
  weir info $(weir job last)
  weir info 4711,4712 --json | jq '.jobs | length'

JSON
  {\"jobs\":[…],\"errors\":[…],\"stale\":…}, one document always; a job is as 'weir jobs --json' shows
  it, and \"key\" is the one of 'weir submit --key', or null; with it \"command\":[…], \"kind\":
  \"batch\"|\"sysbatch\"|\"parameterized\", \"parameterized\":{\"payload\",\"meta_required\",
  \"meta_optional\"}, \"dispatch\":{\"meta\":{…},\"payload_bytes\":N}, \"waits\":TEXT; null where
  there is none, or nobody says

EXIT STATUS
  0  shown
  1  no instance, or a job that does not exist
  2  the command line is wrong, or an id is none")]
pub struct Args {
    /// Jobs, in any spelling, also joined by commas; '-' reads them from standard input
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,

    /// One JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

/// Shows.
///
/// # Errors
/// No instance, a job that does not exist.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let (jobs, mut problems) = ids::sorted_out(&args.ids)?;
    let mut rows = Vec::new();
    let mut all = Vec::new();
    let mut stale = None;
    if !jobs.is_empty() {
        let looked = connect::block_on(async {
            let (found, age) = listing::by_id(&jobs, &outcome::ATTRIBUTES, false).await?;
            let there = found.iter().flatten().collect::<Vec<_>>();
            let all = match age {
                None => described::ask(&there).await,
                // Who would say is away.
                Some(_) => vec![Described::default(); there.len()],
            };
            Ok((found, age, all))
        });
        match looked {
            Ok((found, age, of)) => {
                (stale, all) = (age, of);
                for (id, result) in jobs.iter().zip(found) {
                    match result {
                        Ok(row) => rows.push(row),
                        Err(error) => problems.push(Problem::of(*id, error)),
                    }
                }
            }
            // One document, whatever happens.
            Err(error) if args.json => {
                problems.extend(
                    jobs.iter()
                        .map(|id| Problem::of(*id, failure::text(&error))),
                );
            }
            Err(error) => return Err(error),
        }
    }
    let now = when::now();
    let mut out = output::stdout();
    if args.json {
        let jobs = rows.iter().zip(&all).map(|(row, described)| {
            let mut job = serde_json::to_value(row.json(now))?;
            if let (Value::Object(job), Value::Object(more)) =
                (&mut job, serde_json::to_value(described)?)
            {
                job.extend(more);
            }
            Ok(job)
        });
        let jobs = jobs.collect::<anyhow::Result<Vec<Value>>>()?;
        document::print(&json!({"jobs": jobs, "errors": problems, "stale": stale}))?;
    } else {
        let palette = output::When::Auto.for_stdout();
        for (at, row) in rows.iter().enumerate() {
            if at > 0 {
                out.write_all(b"\n")?;
            }
            let nothing = Described::default();
            let described = all.get(at).unwrap_or(&nothing);
            out.write_all(block(row, described, now, palette).as_bytes())?;
        }
    }
    out.flush()?;
    for problem in &problems {
        complain(&format!("info: {}", problem.error));
    }
    ids::conclude(&problems)
}

fn block(row: &Row, described: &Described, now: f64, palette: Palette) -> String {
    let mut out = String::new();
    let mut line = |name: &str, value: Option<String>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            let mut cell = String::new();
            text::pad(&mut cell, name, 10, text::Align::Left, ' ');
            palette.paint(&mut out, Paint::Bold, &cell);
            out.push(' ');
            out.push_str(&text::escape(&value));
            out.push('\n');
        }
    };
    let id = row.job_id();
    line("job", Some(format!("{}  ({})", ids::show(id), row.id)));
    line("name", row.name.clone());
    line("user", row.userid.map(|uid| users::name(uid).to_string()));
    line("queue", row.queue.clone());
    line("parent", row.parent.map(|id| ids::show(JobId(id))));
    line("key", described.key.clone());
    for (name, value) in described.lines() {
        line(name, Some(value));
    }
    line("status", Some(row.status().to_owned()));
    line("reason", Some(row.reason()));
    line(
        "waits for",
        row.state()
            .filter(|state| *state < job::State::Run)
            .map(|_| match &described.waits {
                Some(waits) => waits.clone(),
                None => row.info().into_owned(),
            }),
    );
    line(
        "urgency",
        row.urgency.map(|urgency| match row.priority {
            Some(PRIORITY_MAX) => format!("{urgency}, before all others"),
            Some(priority) if priority != u64::from(urgency) => {
                format!("{urgency}, priority {priority}")
            }
            _ => urgency.to_string(),
        }),
    );
    line(
        "tasks",
        row.ntasks.map(|tasks| match (row.ncores, row.nnodes) {
            (Some(cores), Some(nodes)) => {
                format!(
                    "{tasks}, {} on {}",
                    many(cores, "core"),
                    many(nodes, "node")
                )
            }
            (Some(cores), None) => format!("{tasks}, {}", many(cores, "core")),
            (None, Some(nodes)) => format!("{tasks} on {}", many(nodes, "node")),
            (None, None) => tasks.to_string(),
        }),
    );
    line("nodes", row.nodelist.clone());
    line("directory", row.cwd.clone());
    line(
        "limit",
        row.duration
            .filter(|duration| *duration > 0.0)
            .map(when::human),
    );
    line("run time", row.runtime(now).map(when::human));
    for (name, time) in [
        ("submitted", row.t_submit),
        ("started", row.t_run),
        ("ended", row.t_cleanup),
        ("over", row.t_inactive),
        (
            "expires",
            row.expiration.filter(|expiration| *expiration > 0.0),
        ),
    ] {
        line(
            name,
            time.map(|time| {
                format!(
                    "{}  ({} ago)",
                    when::iso(time),
                    when::human((now - time).max(0.0))
                )
            })
            .map(|text| {
                if name == "expires" {
                    text.split("  (").next().unwrap_or_default().to_owned()
                } else {
                    text
                }
            }),
        );
    }
    line(
        "depends on",
        row.dependencies
            .as_ref()
            .filter(|list| !list.is_empty())
            .map(|list| list.join(", ")),
    );
    line(
        "notes",
        row.annotations
            .as_ref()
            .filter(|map| !map.is_empty())
            .and_then(|map| serde_json::to_string(map).ok()),
    );
    out
}

fn many(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_says_what_is_defined_and_nothing_else() {
        let row: Row = serde_json::from_str(
            r#"{"id":1234,"name":"a\nb","userid":0,"state":64,"result":2,"waitstatus":768,"urgency":16,"priority":16,"ntasks":1,"t_submit":5.0}"#,
        )
        .unwrap();
        let described = Described {
            key: Some("k 1".to_owned()),
            ..Described::default()
        };
        let shown = block(&row, &described, 10.0, Palette::PLAIN);
        assert!(shown.contains("key        k 1\n"), "{shown}");
        assert!(shown.contains("name       a\\nb\n"), "{shown}");
        assert!(
            shown.contains("status     FAILED\n") && shown.contains("reason     Exit 3\n"),
            "{shown}"
        );
        assert!(
            shown.contains("user       root\n")
                && !shown.contains("started")
                && !shown.contains("queue"),
            "{shown}"
        );
    }
}
