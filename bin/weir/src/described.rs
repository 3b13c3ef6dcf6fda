//! What a listing does not hold of a job and a person wants to know: its command line, its kind, the key it was submitted under, what a dispatched
//! one was given, and why one that waits does.
//!
//! Asked of the instance job by job, many requests on their way at a time. What it does not tell (it is another user's, or an older instance) is
//! left out; nothing here makes a command fail.

use crate::connect::Session;
use crate::nodes;
use crate::queues;
use crate::row::Row;
use crate::{ids, text, when};
use job::State;
use protocol::job_info::ClientsResponse;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Look-ups on their way at a time.
const IN_FLIGHT_MAX: usize = 1024;
/// Of so many jobs that wait it is asked why: each answer is about every node.
const EXPLAINED_MAX: usize = 64;
/// How long a listing waits to hear why jobs wait.
const TOLD_WITHIN: Duration = Duration::from_millis(500);
/// A longer command line is cut where a person reads it.
const COMMAND_BYTES_MAX: usize = 2000;

/// Of one job.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Described {
    /// The key it was submitted under.
    pub key: Option<String>,
    /// Its words.
    pub command: Option<Vec<String>>,
    /// `batch`, `sysbatch` or `parameterized`.
    pub kind: Option<&'static str>,
    /// What must be given to a dispatch from it.
    pub parameterized: Option<Rules>,
    /// What it was given.
    pub dispatch: Option<Given>,
    /// Why it is not started.
    pub waits: Option<String>,
}

/// What must be given to a dispatch.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Rules {
    /// `optional`, `required` or `forbidden`.
    pub payload: Option<String>,
    /// Keys that must have values.
    pub meta_required: Vec<String>,
    /// Keys that may.
    pub meta_optional: Vec<String>,
}

/// What a dispatched job was given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Given {
    /// The values of the keys.
    pub meta: Map<String, Value>,
    /// How much its tasks read from standard input.
    pub payload_bytes: Option<usize>,
}

impl Described {
    /// What its jobspec says.
    fn read(&mut self, jobspec: &Value) {
        let words = jobspec
            .pointer("/tasks/0/command")
            .and_then(Value::as_array);
        self.command = words.map(|words| {
            let words = words.iter().filter_map(Value::as_str);
            words.map(str::to_owned).collect()
        });
        let weir = jobspec.pointer("/attributes/system/weir");
        let of_weir = |name: &str| weir.and_then(|weir| weir.get(name));
        let rules = of_weir("parameterized");
        self.parameterized = rules.and_then(|rules| Rules::deserialize(rules).ok());
        self.kind = Some(match of_weir("type").and_then(Value::as_str) {
            _ if rules.is_some() => "parameterized",
            Some("sysbatch") => "sysbatch",
            _ => "batch",
        });
        self.dispatch = of_weir("dispatch").map(|dispatch| Given {
            meta: match dispatch.get("meta") {
                Some(Value::Object(meta)) => meta.clone(),
                _ => Map::new(),
            },
            payload_bytes: dispatch
                .get("payload")
                .and_then(Value::as_str)
                .map(base64_bytes),
        });
    }

    /// As lines of `weir info`: names and values.
    pub fn lines(&self) -> Vec<(&'static str, String)> {
        let mut lines = Vec::new();
        let command = self.command.as_ref().map(|words| {
            let words: Vec<_> = words.iter().map(|word| text::shell_word(word)).collect();
            let mut line = words.join(" ");
            if line.len() > COMMAND_BYTES_MAX {
                let cut = (0..=COMMAND_BYTES_MAX)
                    .rev()
                    .find(|at| line.is_char_boundary(*at));
                line.truncate(cut.unwrap_or(0));
                line.push('…');
            }
            line
        });
        lines.extend(command.map(|command| ("command", command)));
        match self.kind {
            Some("sysbatch") => lines.push((
                "kind",
                "sysbatch: a task on every node that is ready".to_owned(),
            )),
            Some("parameterized") => lines.push((
                "kind",
                "parameterized: 'weir dispatch' makes jobs from it".to_owned(),
            )),
            _ => {}
        }
        if let Some(rules) = &self.parameterized {
            lines.push(("requires", rules.meta_required.join(", ")));
            lines.push(("takes", rules.meta_optional.join(", ")));
            lines.push((
                "payload",
                rules
                    .payload
                    .clone()
                    .unwrap_or_else(|| "optional".to_owned()),
            ));
        }
        if let Some(given) = &self.dispatch {
            for (key, value) in &given.meta {
                lines.push((
                    "meta",
                    format!("{key}={}", value.as_str().unwrap_or_default()),
                ));
            }
            lines.extend(
                given
                    .payload_bytes
                    .map(|bytes| ("payload", format!("{bytes} bytes"))),
            );
        }
        lines
    }
}

/// How many bytes so much base64 stands for.
fn base64_bytes(text: &str) -> usize {
    text.trim_end_matches('=').len() * 3 / 4
}

/// Asks about these jobs.
pub async fn ask(rows: &[&Row]) -> Vec<Described> {
    let mut all = vec![Described::default(); rows.len()];
    // What was answered until then is shown.
    let _ = ask_into(rows, &mut all).await;
    all
}

async fn ask_into(rows: &[&Row], all: &mut [Described]) -> anyhow::Result<()> {
    #[derive(Deserialize)]
    struct Key {
        key: String,
    }
    #[derive(Deserialize)]
    struct Jobspec {
        jobspec: String,
    }
    let session = Session::open_briefly().await?;
    for (rows, all) in rows
        .chunks(IN_FLIGHT_MAX)
        .zip(all.chunks_mut(IN_FLIGHT_MAX))
    {
        let mut pending = Vec::with_capacity(rows.len());
        for row in rows {
            let key = json!({"id": row.id, "keys": ["key"]});
            let jobspec = json!({"id": row.id, "keys": ["jobspec"], "flags": 0});
            pending.push((
                session.start("job-manager.lookup", &key).await?,
                session.start("job-info.lookup", &jobspec).await?,
            ));
        }
        for (one, (key, jobspec)) in all.iter_mut().zip(pending) {
            // Most have none, others' are not told.
            one.key = key.answer::<Key>().await.ok().map(|answer| answer.key);
            let jobspec = jobspec.answer::<Jobspec>().await.ok();
            let jobspec = jobspec.and_then(|answer| serde_json::from_str(&answer.jobspec).ok());
            if let Some(jobspec) = jobspec {
                one.read(&jobspec);
            }
        }
    }
    let mut queues = HashMap::new();
    let waiting = rows
        .iter()
        .zip(all)
        .filter(|(row, _)| waits_unexplained(row));
    for (row, one) in waiting.take(EXPLAINED_MAX) {
        let queue = match queues.get(&row.queue) {
            Some(known) => Clone::clone(known),
            None => {
                let state = queues::state(&session, row.queue.clone()).await.ok();
                let holds: Option<String> = state.and_then(|state| state.holds());
                queues.insert(row.queue.clone(), holds.clone());
                holds
            }
        };
        one.waits = Some(match queue {
            Some(holds) => holds,
            None => {
                let request = json!({"id": row.id});
                let clients = session.call("job-info.clients", &request).await;
                why(row, clients.ok().as_ref())
            }
        });
    }
    Ok(())
}

/// Why jobs wait, as far as that is the same for many of them.
#[derive(Debug, Default)]
pub struct Waits {
    queues: HashMap<Option<String>, Arc<str>>,
    /// How many nodes get jobs, of how many.
    ready: Option<(u64, u64)>,
}

impl Waits {
    /// Asks the instance; what it does not say soon is not known.
    pub async fn ask() -> Self {
        let mut waits = Self::default();
        // A listing does not wait for an engine that hangs.
        let _ = tokio::time::timeout(TOLD_WITHIN, waits.gather()).await;
        waits
    }

    async fn gather(&mut self) {
        let Ok(session) = Session::open_briefly().await else {
            return;
        };
        for state in queues::states(&session).await.unwrap_or_default() {
            if let Some(holds) = state.holds_shortly() {
                self.queues.insert(state.name, holds.into());
            }
        }
        if let Ok(nodes) = nodes::gather(&session).await {
            let ready = nodes
                .iter()
                .filter(|node| node.status == nodes::Status::Avail);
            self.ready = Some((ready.count() as u64, nodes.len() as u64));
        }
    }

    /// Writes down why this job waits, if that is known.
    pub fn tell(&self, row: &mut Row) {
        if !waits_unexplained(row) {
            return;
        }
        let needs = row.nnodes.unwrap_or(1).max(1);
        row.waits = match (self.queues.get(&row.queue), self.ready) {
            (Some(holds), _) => Some(holds.clone()),
            (None, Some((ready, all))) if ready < needs => {
                Some(format!("{ready} of {all} nodes ready").into())
            }
            _ => None,
        };
    }
}

/// It is the scheduler's, and the listing does not say what it waits for.
#[must_use]
pub fn waits_unexplained(row: &Row) -> bool {
    row.state() == Some(State::Sched) && row.priority != Some(0) && row.info().is_empty()
}

/// Why the scheduler has not started it, as far as the nodes tell.
fn why(row: &Row, clients: Option<&ClientsResponse>) -> String {
    let reasons = clients.into_iter().flat_map(|answer| &answer.clients);
    let reasons: Vec<&str> = reasons
        .map(|client| client.reason.as_deref().unwrap_or_default())
        .collect();
    let count = |start: &str| {
        reasons
            .iter()
            .filter(|reason| reason.starts_with(start))
            .count()
    };
    let (drained, down) = (count("drained"), count("node is down"));
    let ready = reasons.len().saturating_sub(drained + down);
    let needs = row.nnodes.unwrap_or(1).max(1);
    if reasons.is_empty() || ready as u64 >= needs {
        return "resources: other jobs have them, or are before it".to_owned();
    }
    let parts = [(drained, "drained"), (down, "down")];
    let parts = parts.iter().filter(|(count, _)| *count > 0);
    let parts: Vec<String> = parts
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    format!(
        "nodes: {} of {} ready ({}), it needs {needs}",
        ready,
        reasons.len(),
        parts.join(", ")
    )
}

/// Why nothing can be dispatched from a job that is not, or no longer, parameterized; `None` if it can, or nothing more is known.
pub async fn no_parent(session: &Session, id: job::JobId) -> Option<String> {
    let request = json!({"id": id, "attrs": ["all"]});
    let answer = session.call::<_, crate::outcome::ListIdResponse>("job-list.list-id", &request);
    let row = answer.await.ok()?.job;
    let shown = ids::show(id);
    if let Some(parent) = row.parent {
        let parent = ids::show(job::JobId(parent));
        return Some(format!(
            "{shown} is not parameterized: it was dispatched from {parent}, which makes more"
        ));
    }
    let mut of = Described::default();
    #[derive(Deserialize)]
    struct Jobspec {
        jobspec: String,
    }
    let request = json!({"id": id, "keys": ["jobspec"], "flags": 0});
    let answer: Jobspec = session.call("job-info.lookup", &request).await.ok()?;
    of.read(&serde_json::from_str(&answer.jobspec).ok()?);
    if of.parameterized.is_none() {
        return Some(format!(
            "{shown} is not parameterized: nothing can be dispatched from it"
        ));
    }
    let ended = row.t_inactive.or(row.t_cleanup)?;
    let how = row.reason();
    Some(format!(
        "{shown} takes no more dispatches: it ended at {}{}",
        when::zoned_seconds(ended),
        if how.is_empty() {
            String::new()
        } else {
            format!(" ({how})")
        }
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(jobspec: Value) -> Vec<String> {
        let mut one = Described::default();
        one.read(&jobspec);
        let lines = one.lines().into_iter();
        lines
            .map(|(name, value)| format!("{name} {value}"))
            .collect()
    }

    #[test]
    fn a_jobspec_tells_the_command_the_kind_and_what_was_given() {
        let spec = |weir: Value| json!({"tasks": [{"command": ["sh", "-c", "echo hi"]}], "attributes": {"system": {"weir": weir}}});
        assert_eq!(described(spec(Value::Null)), ["command sh -c 'echo hi'"]);
        assert_eq!(
            described(spec(json!({"type": "sysbatch"})))[1],
            "kind sysbatch: a task on every node that is ready"
        );
        let rules = json!({"parameterized": {"payload": "required", "meta_required": ["a", "b"], "meta_optional": ["c"]}});
        assert_eq!(
            described(spec(rules))[2..],
            ["requires a, b", "takes c", "payload required"]
        );
        let child = json!({"parent": 5, "dispatch": {"meta": {"a": "x"}, "payload": "aGVsbG8="}});
        assert_eq!(described(spec(child))[1..], ["meta a=x", "payload 5 bytes"]);
    }

    #[test]
    fn many_jobs_wait_for_the_same() {
        let waits = Waits {
            queues: HashMap::from([(Some("q".to_owned()), "queue stopped".into())]),
            ready: Some((1, 4)),
        };
        for (row, expected) in [
            (
                r#"{"id":1,"state":8,"priority":16,"queue":"q"}"#,
                "queue stopped",
            ),
            (r#"{"id":1,"state":8,"priority":16}"#, ""),
            (
                r#"{"id":1,"state":8,"priority":16,"nnodes":2}"#,
                "1 of 4 nodes ready",
            ),
            (
                r#"{"id":1,"state":8,"urgency":0,"priority":0,"nnodes":2}"#,
                "held",
            ),
        ] {
            let mut row: Row = serde_json::from_str(row).unwrap();
            waits.tell(&mut row);
            assert_eq!(row.info(), expected);
        }
    }

    #[test]
    fn what_a_job_waits_for_follows_from_the_nodes() {
        let row = |text: &str| serde_json::from_str::<Row>(text).unwrap();
        let clients = |reasons: &[&str]| {
            let clients: Vec<Value> = reasons
                .iter()
                .map(|reason| json!({"node": "n", "status": "queued", "reason": reason, "allocs": 0}))
                .collect();
            serde_json::from_value::<ClientsResponse>(
                json!({"id": 1, "clients": clients, "counts": {}, "seq": 1}),
            )
            .unwrap()
        };
        let waits = row(r#"{"id":1,"state":8,"priority":16}"#);
        assert!(waits_unexplained(&waits));
        assert!(!waits_unexplained(&row(
            r#"{"id":1,"state":8,"urgency":0,"priority":0}"#
        )));
        let all = clients(&["drained since 2026: x", "node is down"]);
        assert_eq!(
            why(&waits, Some(&all)),
            "nodes: 0 of 2 ready (1 drained, 1 down), it needs 1"
        );
        let two = row(r#"{"id":1,"state":8,"priority":16,"nnodes":2}"#);
        let some = clients(&["drained since 2026: x", "waits for resources"]);
        assert_eq!(
            why(&two, Some(&some)),
            "nodes: 1 of 2 ready (1 drained), it needs 2"
        );
        assert!(why(&waits, Some(&some)).starts_with("resources"));
        assert!(why(&waits, None).starts_with("resources"));
    }
}
