//! `weir job allocs`: a job's allocations, each with its status; folded here from what is stored, as the daemons fold it.

use crate::connect::{self, CallError, Session};
use crate::output;
use crate::table::{self, Align};
use crate::{document, each, ids, outage, when};
use anyhow::Context as _;
use job::allocs::{self, AllocView};
use job::r::R;
use job::{AllocStatus, Event, Job, JobId};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::io::Write as _;
use wire::errno;

/// Show a job's allocations: one for each node it got
///
/// The status of each follows from the job's events, or from what the engine said of it where that differs: one part that failed while
/// others run, a node that died. A job that never got resources has none.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
EXAMPLES
  weir job allocs ƒCdza1gs
  weir job allocs --json ƒCdza1gs | jq '.allocs[] | select(.status == \"lost\")'

STATUSES
  pending   has its resources, is not started       complete  ended well, or was stopped
  running                                           failed    ended otherwise; the reason says how
  unknown   its node does not answer                lost      its node died under it

JSON
  {\"id\":N,\"f58\":…,\"allocs\":[{\"rank\":N,\"node\":…,\"group\":…,\"cores\":N,\"gpus\":N,\"status\":…,
    \"stop\":bool,\"reason\":…|null,\"wait_status\":N|null,\"time\":seconds|null}…],\"errors\":[…]}
  stop: it was told to; time: when the engine said it, null where it follows from the job

EXIT STATUS
  0  shown
  1  no instance, no such job, or no right to it
  2  the command line is wrong")]
pub struct Args {
    /// The job
    #[arg(value_name = "ID")]
    id: String,

    /// One JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

/// One allocation, as `--json` shows it.
#[derive(Debug, Serialize)]
struct Alloc {
    rank: u32,
    node: String,
    group: String,
    cores: u64,
    gpus: u64,
    status: &'static str,
    stop: bool,
    reason: Option<String>,
    wait_status: Option<i32>,
    time: Option<f64>,
}

#[derive(Deserialize)]
struct Stored {
    eventlog: String,
    jobspec: String,
}

#[derive(Deserialize)]
struct StoredR {
    #[serde(rename = "R")]
    r: String,
}

/// Shows.
///
/// # Errors
/// A wrong id, no instance, no such job.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let id = ids::parse(&args.id)?;
    let (stored, r) = connect::block_on(outage::patiently(async || look_up(id).await))?;
    let allocs = fold(id, &stored, r.as_deref())?;
    if args.json {
        return document::print(
            &json!({"id": id, "f58": id.to_string(), "allocs": allocs, "errors": []}),
        );
    }
    let rows: Vec<Vec<String>> = allocs
        .iter()
        .map(|alloc| {
            vec![
                alloc.rank.to_string(),
                alloc.node.clone(),
                alloc.group.clone(),
                alloc.cores.to_string(),
                alloc.status.to_owned(),
                alloc.time.map_or_else(String::new, when::zoned_seconds),
                alloc.reason.clone().unwrap_or_default(),
            ]
        })
        .collect();
    let mut out = output::stdout();
    let columns = [
        ("RANK", Align::Right),
        ("NODE", Align::Left),
        ("GROUP", Align::Left),
        ("NCORES", Align::Right),
        ("STATUS", Align::Left),
        ("SINCE", Align::Left),
        ("REASON", Align::Left),
    ];
    out.write_all(table::aligned(&columns, &rows).as_bytes())?;
    out.flush()?;
    Ok(())
}

/// What is stored of it; R is none as long as it got no resources.
async fn look_up(id: JobId) -> anyhow::Result<(Stored, Option<String>)> {
    let session = Session::open().await?;
    let lookup = |keys: Value| json!({"id": id, "keys": keys, "flags": 0});
    // R first: events that are newer than it do no harm, the other way round one might be missing.
    let r = session
        .start("job-info.lookup", &lookup(json!(["R"])))
        .await?;
    let log = session
        .start("job-info.lookup", &lookup(json!(["eventlog", "jobspec"])))
        .await?;
    let r = match r.answer::<StoredR>().await {
        Ok(stored) => Some(stored.r),
        Err(CallError::Refused {
            errnum: errno::ENOENT,
            ..
        }) => None,
        Err(error) => return Err(refused(id, error).into()),
    };
    let log = log.answer().await.map_err(|error| refused(id, error))?;
    Ok((log, r))
}

fn refused(id: JobId, error: CallError) -> CallError {
    match &error {
        CallError::Refused {
            errnum: errno::ENOENT | errno::EPERM,
            ..
        } => {
            let words = each::refusal(id, &error);
            error.in_words(words)
        }
        _ => error,
    }
}

fn fold(id: JobId, stored: &Stored, r: Option<&str>) -> anyhow::Result<Vec<Alloc>> {
    let damaged = || format!("{}: its eventlog cannot be read", ids::show(id));
    let mut job: Option<Job> = None;
    for line in stored.eventlog.lines().filter(|line| !line.is_empty()) {
        let event = Event::parse(line.as_bytes()).with_context(damaged)?;
        match &mut job {
            None => job = Some(Job::new(id, &event).with_context(damaged)?),
            // What does not apply changes nothing, here as in the daemons.
            Some(job) => drop(job.apply(&event)),
        }
    }
    let (Some(job), Some(r)) = (job, r) else {
        return Ok(Vec::new());
    };
    let r = R::parse(r.as_bytes()).with_context(|| format!("{}: R", ids::show(id)))?;
    let group = group_of(&stored.jobspec);
    let allocs = r.nodes().into_iter().filter_map(|node| {
        let view = allocs::at(&job, node.rank)?;
        Some(alloc(
            node.rank,
            node.host,
            &group,
            (node.cores.count(), node.gpus.count()),
            &view,
            &job,
        ))
    });
    Ok(allocs.collect())
}

fn alloc(
    rank: u32,
    node: String,
    group: &str,
    (cores, gpus): (u64, u64),
    view: &AllocView<'_>,
    job: &Job,
) -> Alloc {
    // What nothing was said of is as the job is, since then.
    let since = match view.status {
        AllocStatus::Pending => None,
        AllocStatus::Running => job.t_run.get(),
        _ => job.t_cleanup.get().or(job.t_inactive.get()),
    };
    let time = view.said.map(|said| said.time).or(since).map(|time| time.0);
    Alloc {
        rank,
        node,
        group: group.to_owned(),
        cores,
        gpus,
        status: view.status.as_str(),
        stop: view.stop,
        reason: view.reason.map(|reason| reason.to_string()),
        wait_status: view.wait_status,
        time,
    }
}

/// The label of the slot, wherever it stands.
fn group_of(jobspec: &str) -> String {
    fn label(value: &Value) -> Option<&str> {
        match value {
            Value::Array(list) => list.iter().find_map(label),
            Value::Object(vertex) if vertex.get("type").and_then(Value::as_str) == Some("slot") => {
                vertex.get("label").and_then(Value::as_str)
            }
            Value::Object(vertex) => vertex.get("with").and_then(label),
            _ => None,
        }
    }
    let jobspec: Value = serde_json::from_str(jobspec).unwrap_or_default();
    label(&jobspec["resources"]).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_part_that_failed_is_told_from_those_that_run() {
        let stored = Stored {
            eventlog: [
                r#"{"timestamp":1.0,"name":"submit","context":{"userid":0,"urgency":16,"flags":0,"version":1}}"#,
                r#"{"timestamp":1.0,"name":"validate"}"#,
                r#"{"timestamp":1.0,"name":"depend"}"#,
                r#"{"timestamp":1.0,"name":"priority","context":{"priority":16}}"#,
                r#"{"timestamp":2.0,"name":"alloc"}"#,
                r#"{"timestamp":3.0,"name":"start"}"#,
                r#"{"timestamp":4.0,"name":"alloc-status","context":{"allocs":[{"ranks":"1","status":"failed","reason":"exit code 3","wait_status":768}]}}"#,
            ]
            .join("\n"),
            jobspec: r#"{"resources":[{"type":"node","count":1,"with":[{"type":"slot","label":"task"}]}]}"#.to_owned(),
        };
        let r = r#"{"version":1,"execution":{"R_lite":[{"rank":"0-1","children":{"core":"0-1"}}],"nodelist":["h[0-1]"],"starttime":0.0,"expiration":0.0}}"#;
        let allocs = fold(JobId(5), &stored, Some(r)).unwrap();
        let seen: Vec<_> = allocs
            .iter()
            .map(|alloc| {
                (
                    &*alloc.node,
                    &*alloc.group,
                    alloc.cores,
                    alloc.status,
                    alloc.reason.as_deref(),
                    alloc.time,
                )
            })
            .collect();
        assert_eq!(
            seen,
            [
                ("h0", "task", 2, "running", None, Some(2.0)),
                ("h1", "task", 2, "failed", Some("exit code 3"), Some(4.0))
            ]
        );
        assert!(fold(JobId(5), &stored, None).unwrap().is_empty());
    }
}
