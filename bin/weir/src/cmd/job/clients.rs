//! `weir job clients`: what a job's status is on every node.

use crate::connect::{self, CallError, Session};
use crate::failure::Exit;
use crate::outage::{self, Outage};
use crate::output::{self, Paint, Palette};
use crate::table::{self, Align};
use crate::{document, each, ids, when};
use job::JobId;
use protocol::job_info::{ClientRow, ClientsResponse};
use serde_json::{Value, json};
use std::io::Write as _;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use wire::errno;

/// The wait between two looks of --watch.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// The statuses, in the order in which their counts are shown.
const STATUSES: [&str; 9] = [
    "queued",
    "notScheduled",
    "starting",
    "running",
    "complete",
    "degraded",
    "failed",
    "lost",
    "unknown",
];

/// Show a job's status on every node, and why
///
/// A node has the status complete, failed or lost only when all that the job had there is so; running when one part is; degraded when some
/// of it is missing or went wrong. Nodes on which the job has nothing are notScheduled. Parts of a job that was canceled are complete, with
/// the reason canceled: they were told to stop, and did.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
EXAMPLES
  weir job clients ƒCdza1gs
  weir job clients --status failed,lost ƒCdza1gs
  weir job clients --watch ƒCdza1gs              until the job is over, or ctrl-C
  weir job clients --json ƒCdza1gs | jq .counts

JSON
  {\"id\":N,\"f58\":…,\"clients\":[{\"node\":…,\"status\":…,\"reason\":…|null,\"allocs\":N,
    \"created\":seconds|null,\"modified\":seconds|null}…],\"counts\":{STATUS:N…},\"seq\":N,
    \"stale\":seconds|null,\"errors\":[…]}            with --watch one each time it changed

EXIT STATUS
  0    shown
  1    no instance, no such job, no right to it, or an instance that cannot say
  2    the command line is wrong
  130  --watch was interrupted before the job was over")]
pub struct Args {
    /// The job
    #[arg(value_name = "ID")]
    id: String,

    /// Only nodes with these statuses, joined by commas
    #[arg(short, long, value_name = "STATUS", value_delimiter = ',')]
    status: Vec<String>,

    /// Show it anew whenever it has changed, until the job is over
    #[arg(short, long)]
    watch: bool,

    /// One JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

/// Shows.
///
/// # Errors
/// A wrong id or status, no instance, no such job.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let id = ids::parse(&args.id)?;
    for status in &args.status {
        if !STATUSES.contains(&status.as_str()) {
            return Err(crate::failure::usage(format!(
                "--status={status}: expected {}",
                STATUSES.join(", ")
            )));
        }
    }
    connect::block_on(async {
        if !args.watch {
            let ask = outage::patiently(async || ask(&Session::open().await?, id).await);
            return show(args, &ask.await?, Screen::Once);
        }
        let session = Session::open().await?;
        let mut interrupts = signal(SignalKind::interrupt())?;
        tokio::select! {
            watched = watch(args, session, id) => watched,
            _ = interrupts.recv() => Err(Exit(STATUS_INTERRUPTED).into()),
        }
    })
}

/// The status of a process that ctrl-C ended.
const STATUS_INTERRUPTED: u8 = 130;

async fn ask(session: &Session, id: JobId) -> anyhow::Result<ClientsResponse> {
    let answer = session.call("job-info.clients", &json!({"id": id})).await;
    Ok(answer.map_err(|error| match &error {
        CallError::Refused { errnum, text, .. }
            if *errnum == errno::ENOENT || each::is_unknown(*errnum, text.as_deref()) =>
        {
            error.in_words(ids::unknown(id))
        }
        _ => error,
    })?)
}

/// Looks again and again; what has not changed is not shown again.
async fn watch(args: &Args, mut session: Session, id: JobId) -> anyhow::Result<()> {
    let mut outage = Outage::default();
    let mut shown: Option<ClientsResponse> = None;
    loop {
        match ask(&session, id).await {
            Ok(now) => {
                outage.over();
                let is_new = shown.as_ref().is_none_or(|old| {
                    old.clients != now.clients || old.stale.is_some() != now.stale.is_some()
                });
                if is_new {
                    let screen = if args.json || !output::stdout_is_terminal() {
                        Screen::Block
                    } else {
                        Screen::Home
                    };
                    show(args, &now, screen)?;
                    shown = Some(now);
                }
                if is_over(&session, id).await? {
                    // What it ended with may have come between the two.
                    let last = ask(&session, id).await?;
                    if shown.is_none_or(|old| old.clients != last.clients) {
                        show(args, &last, Screen::Block)?;
                    }
                    return Ok(());
                }
                tokio::time::sleep(LOOK_EVERY).await;
            }
            Err(error) => {
                let place = session.place().clone();
                session = outage.survive(&place, error, &ids::show(id)).await?;
            }
        }
    }
}

async fn is_over(session: &Session, id: JobId) -> anyhow::Result<bool> {
    let request = json!({"id": id, "attrs": ["state"]});
    let answer: Result<Value, CallError> = session.call("job-list.list-id", &request).await;
    Ok(match answer {
        Ok(answer) => {
            answer["job"]["state"].as_u64() == Some(u64::from(job::State::Inactive.bit()))
        }
        // Purged meanwhile; anything else shows with the next look.
        Err(error) => document::errnum_of(&error) == Some(errno::ENOENT),
    })
}

/// How it is put on the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Screen {
    Once,
    /// Behind what was shown before.
    Block,
    /// In its place.
    Home,
}

fn show(args: &Args, answer: &ClientsResponse, screen: Screen) -> anyhow::Result<()> {
    let wanted = |row: &&ClientRow| args.status.is_empty() || args.status.contains(&row.status);
    let rows: Vec<&ClientRow> = answer.clients.iter().filter(wanted).collect();
    if args.json {
        let clients: Vec<Value> = rows
            .iter()
            .map(|row| {
                json!({"node": row.node, "status": row.status, "reason": row.reason, "allocs": row.allocs,
                       "created": row.created, "modified": row.modified})
            })
            .collect();
        return document::print(
            &json!({"id": answer.id, "f58": answer.id.to_string(), "clients": clients,
            "counts": answer.counts, "seq": answer.seq, "stale": answer.stale, "errors": []}),
        );
    }
    let mut out = output::stdout();
    if screen == Screen::Home {
        // To the top, and nothing below it.
        out.write_all(b"\x1b[H\x1b[J")?;
    }
    out.write_all(text(answer, &rows, output::When::Auto.for_stdout()).as_bytes())?;
    if screen == Screen::Block {
        out.write_all(b"\n")?;
    }
    out.flush()?;
    if let Some(age) = answer.stale {
        output::complain(&format!(
            "warning: the job-manager does not answer; this is stale, {} old",
            when::human(age.round())
        ));
    }
    Ok(())
}

fn text(answer: &ClientsResponse, rows: &[&ClientRow], palette: Palette) -> String {
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            vec![
                row.node.clone(),
                row.status.clone(),
                row.allocs.to_string(),
                row.modified.map_or_else(String::new, when::zoned_seconds),
                row.reason.clone().unwrap_or_default(),
            ]
        })
        .collect();
    let table = table::aligned(
        &[
            ("NODE", Align::Left),
            ("STATUS", Align::Left),
            ("ALLOCS", Align::Right),
            ("MODIFIED", Align::Left),
            ("REASON", Align::Left),
        ],
        &cells,
    );
    let mut out = String::new();
    for (at, line) in table.lines().enumerate() {
        let paint = match at.checked_sub(1).and_then(|at| rows.get(at)) {
            None => Some(Paint::Bold),
            Some(row) => match row.status.as_str() {
                "running" => Some(Paint::Green),
                "failed" | "lost" | "degraded" => Some(Paint::Red),
                "queued" | "starting" | "unknown" => Some(Paint::Yellow),
                "notScheduled" => Some(Paint::Dim),
                _ => None,
            },
        };
        match paint {
            Some(paint) => palette.paint(&mut out, paint, line),
            None => out.push_str(line),
        }
        out.push('\n');
    }
    let counts: Vec<String> = STATUSES
        .iter()
        .filter_map(|status| {
            let count = answer.counts.get(*status).filter(|count| **count > 0)?;
            Some(format!("{count} {status}"))
        })
        .collect();
    let total: u32 = answer.counts.values().sum();
    let nodes = if total == 1 { "node" } else { "nodes" };
    if counts.is_empty() {
        out.push_str("no node is known\n");
    } else {
        out.push_str(&format!("{total} {nodes}: {}\n", counts.join(", ")));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_a_line_a_node_and_one_of_counts() {
        let answer: ClientsResponse = serde_json::from_str(
            r#"{"id":40,"clients":[{"node":"n0","status":"failed","reason":"exit code 3","allocs":1,"created":8.5,"modified":9.0},
                {"node":"n1","status":"notScheduled","reason":"node is down","allocs":0}],
                "counts":{"queued":0,"notScheduled":1,"starting":0,"running":0,"complete":0,"degraded":0,"failed":1,"lost":0,"unknown":0},"seq":34}"#,
        )
        .unwrap();
        let rows: Vec<&ClientRow> = answer.clients.iter().collect();
        let shown = text(&answer, &rows, Palette::PLAIN);
        let lines: Vec<&str> = shown.lines().collect();
        assert!(
            lines[1].starts_with("n0    failed             1  19"),
            "{shown}"
        );
        assert!(lines[1].ends_with("  exit code 3"), "{shown}");
        assert_eq!(lines[3], "2 nodes: 1 notScheduled, 1 failed");
    }
}
