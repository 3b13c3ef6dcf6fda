//! A journal for tests: events go in by name, batches in the native form come out.

use std::{collections::BTreeMap, fmt::Write as _};

use job::JobId;

use crate::{
    constraint::Constraint,
    projection::{Folded, Form, Projection},
    query::Query,
    row::Attrs,
};

/// One entry as it travels, without the attached jobspec or R.
#[derive(Debug, Clone)]
pub(super) struct Sent {
    pub(super) json: String,
}

/// Makes entries with the right numbers.
#[derive(Debug, Clone, Default)]
pub(super) struct Feed {
    pub(super) seq: u64,
    pub(super) time: f64,
    eventlog: BTreeMap<u64, u32>,
}

pub(super) const EPOCH: &str = "00000000000000e1";

impl Feed {
    pub(super) fn entry(&mut self, id: u64, name: &str, context: &str, attach: &str) -> Sent {
        self.seq += 1;
        self.time += 0.5;
        let eventlog_seq = self
            .eventlog
            .entry(id)
            .and_modify(|seq| *seq += 1)
            .or_insert(1);
        let context = if context.is_empty() {
            String::new()
        } else {
            format!(",\"context\":{context}")
        };
        let attach = if attach.is_empty() {
            String::new()
        } else {
            format!(",{attach}")
        };
        Sent {
            json: format!(
                r#"{{"seq":{},"id":{id},"eventlog_seq":{eventlog_seq},"entry":{{"timestamp":{:?},"name":"{name}"{context}}}{attach}}}"#,
                self.seq, self.time
            ),
        }
    }

    pub(super) fn system(&mut self, name: &str, context: &str) -> Sent {
        self.seq += 1;
        self.time += 0.5;
        Sent {
            json: format!(
                r#"{{"seq":{},"log":"system","eventlog_seq":1,"entry":{{"timestamp":{:?},"name":"{name}","context":{context}}}}}"#,
                self.seq, self.time
            ),
        }
    }

    pub(super) fn resource(&mut self, name: &str, context: &str) -> Sent {
        self.seq += 1;
        self.time += 0.5;
        Sent {
            json: format!(
                r#"{{"seq":{},"log":"resource","eventlog_seq":1,"entry":{{"timestamp":{:?},"name":"{name}","context":{context}}}}}"#,
                self.seq, self.time
            ),
        }
    }

    pub(super) fn submit(&mut self, id: u64, user: u32, urgency: u32, spec: &str) -> Vec<Sent> {
        let context = format!(r#"{{"userid":{user},"urgency":{urgency},"flags":0,"version":1}}"#);
        vec![
            self.entry(id, "submit", &context, &format!("\"jobspec\":{spec}")),
            self.entry(id, "validate", "", ""),
            self.entry(id, "depend", "", ""),
            self.priority(id, urgency),
        ]
    }

    pub(super) fn priority(&mut self, id: u64, priority: u32) -> Sent {
        self.entry(id, "priority", &format!(r#"{{"priority":{priority}}}"#), "")
    }

    pub(super) fn urgency(&mut self, id: u64, urgency: u32) -> Vec<Sent> {
        vec![
            self.entry(
                id,
                "urgency",
                &format!(r#"{{"userid":1000,"urgency":{urgency}}}"#),
                "",
            ),
            self.priority(id, urgency),
        ]
    }

    pub(super) fn alloc(&mut self, id: u64, rank: u32) -> Sent {
        let r = format!(
            r#""R":{{"version":1,"execution":{{"R_lite":[{{"rank":"{rank}","children":{{"core":"0-1"}}}}],"nodelist":["n{rank}"],"starttime":0.0,"expiration":0.0}}}}"#
        );
        self.entry(id, "alloc", "", &r)
    }

    /// Resources on several ranks, on nodes that are named after them.
    pub(super) fn alloc_on(&mut self, id: u64, ranks: &str) -> Sent {
        let nodes = if ranks.contains(['-', ',']) {
            format!("n[{ranks}]")
        } else {
            format!("n{ranks}")
        };
        let r = format!(
            r#""R":{{"version":1,"execution":{{"R_lite":[{{"rank":"{ranks}","children":{{"core":"0-1"}}}}],"nodelist":["{nodes}"],"starttime":0.0,"expiration":0.0}}}}"#
        );
        self.entry(id, "alloc", "", &r)
    }

    pub(super) fn exception(&mut self, id: u64, kind: &str) -> Sent {
        self.entry(
            id,
            "exception",
            &format!(r#"{{"type":"{kind}","severity":0,"note":"n","userid":1000}}"#),
            "",
        )
    }

    pub(super) fn end(&mut self, id: u64, status: i32) -> Vec<Sent> {
        vec![
            self.entry(id, "finish", &format!(r#"{{"status":{status}}}"#), ""),
            self.entry(id, "release", r#"{"ranks":"all","final":true}"#, ""),
            self.entry(id, "free", "", ""),
            self.entry(id, "clean", "", ""),
        ]
    }
}

pub(super) fn spec(name: &str, queue: Option<&str>) -> String {
    let queue = queue
        .map(|queue| format!(r#""queue":"{queue}","#))
        .unwrap_or_default();
    format!(
        r#"{{"resources":[{{"type":"slot","count":1,"label":"task","with":[{{"type":"core","count":1}}]}}],"tasks":[{{"command":["{name}"],"slot":"task","count":{{"per_slot":1}}}}],"attributes":{{"system":{{{queue}"duration":0}}}},"version":1}}"#
    )
}

/// A jobspec with attributes of weir's own.
pub(super) fn weir_spec(name: &str, weir: &str) -> String {
    spec(name, None).replace(r#""system":{"#, &format!(r#""system":{{"weir":{weir},"#))
}

/// The context of a `resource-define` of these ranks, named after them.
pub(super) fn define(ranks: &str, pools: &str) -> String {
    format!(
        r#"{{"method":"announced","R":{{"version":1,"execution":{{"R_lite":[{{"rank":"{ranks}","children":{{"core":"0-3"}}}}],"nodelist":["n[{ranks}]"],"starttime":0.0,"expiration":0.0}}}},"pools":{pools}}}"#
    )
}

pub(super) fn batch(entries: &[Sent], extra: &str) -> String {
    let mut text = format!(r#"{{"epoch":"{EPOCH}""#);
    if !extra.is_empty() {
        let _ = write!(text, ",{extra}");
    }
    text.push_str(",\"events\":[");
    for (at, entry) in entries.iter().enumerate() {
        if at > 0 {
            text.push(',');
        }
        text.push_str(&entry.json);
    }
    text.push_str("]}");
    text
}

pub(super) fn fold(projection: &mut Projection, text: &str) -> Folded {
    projection
        .fold_native(text.as_bytes(), &mut |_| {})
        .expect("a batch")
}

/// A live projection of no jobs.
pub(super) fn live() -> Projection {
    let mut projection = Projection::new();
    projection.begin_fresh(Form::Native);
    let folded = fold(&mut projection, &batch(&[], r#""seq":0,"caught_up":true"#));
    assert!(folded.caught_up && folded.swapped && projection.is_live());
    projection
}

pub(super) fn play(projection: &mut Projection, entries: &[Sent]) -> Vec<JobId> {
    let seq = projection.applied() + entries.len() as u64;
    fold(projection, &batch(entries, &format!("\"seq\":{seq}"))).changed
}

pub(super) fn list(projection: &Projection, constraint: Constraint) -> Vec<u64> {
    let query = Query {
        constraint,
        ..Query::default()
    };
    query
        .run(projection.jobs())
        .expect("within budget")
        .into_iter()
        .map(|id| id.0)
        .collect()
}

pub(super) fn row(projection: &Projection, id: u64) -> serde_json::Value {
    let mut out = Vec::new();
    let record = projection.jobs().get(JobId(id)).expect("the job");
    Attrs::named(["all"])
        .write(record, &mut out)
        .expect("attributes");
    serde_json::from_slice(&out).expect("JSON")
}

/// Everything a listing can say: each job's row, in order.
pub(super) fn everything(projection: &Projection) -> Vec<serde_json::Value> {
    list(projection, Constraint::everything())
        .into_iter()
        .map(|id| row(projection, id))
        .collect()
}
