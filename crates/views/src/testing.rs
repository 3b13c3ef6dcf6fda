//! A journal for tests: entries go in by name, a projection that followed them comes out.

use info::{Changes, Form, Projection};
use job::JobId;
use std::collections::BTreeMap;

use crate::ask::Viewer;

/// The journal's life.
pub(crate) const EPOCH: &str = "00000000000000e1";

/// Entries that wait for their fold, and the projection.
#[derive(Debug)]
pub(crate) struct Feed {
    pub(crate) projection: Projection,
    pub(crate) seq: u64,
    time: f64,
    of_jobs: BTreeMap<u64, u32>,
    entries: Vec<String>,
}

impl Feed {
    /// A live journal without jobs, whose changes are watched.
    pub(crate) fn new() -> Self {
        let mut feed = Self {
            projection: Projection::new(),
            seq: 0,
            time: 1_790_000_000.0,
            of_jobs: BTreeMap::new(),
            entries: Vec::new(),
        };
        feed.projection.watch_changes(true);
        feed.projection.begin_fresh(Form::Native);
        feed.batch(r#","seq":0,"caught_up":true"#);
        let _first = feed.projection.take_changes();
        feed
    }

    fn batch(&mut self, extra: &str) {
        let entries = std::mem::take(&mut self.entries).join(",");
        let text = format!(r#"{{"epoch":"{EPOCH}"{extra},"events":[{entries}]}}"#);
        let folded = self.projection.fold_native(text.as_bytes(), &mut |_| {});
        let _ = folded.expect("a batch");
    }

    /// Folds what was said since the last fold; what it changed.
    pub(crate) fn fold(&mut self) -> Changes {
        self.batch(&format!(r#","seq":{}"#, self.seq));
        self.projection.take_changes()
    }

    fn push(&mut self, place: &str, name: &str, context: &str, attach: &str) {
        self.seq += 1;
        self.time += 0.5;
        let comma = if context.is_empty() {
            ""
        } else {
            r#","context":"#
        };
        self.entries.push(format!(
            r#"{{"seq":{},{place},"entry":{{"timestamp":{:?},"name":"{name}"{comma}{context}}}{attach}}}"#,
            self.seq, self.time
        ));
    }

    pub(crate) fn entry(&mut self, id: u64, name: &str, context: &str, attach: &str) {
        let count = self.of_jobs.entry(id).or_insert(0);
        *count += 1;
        let place = format!(r#""id":{id},"eventlog_seq":{count}"#);
        self.push(&place, name, context, attach);
    }

    /// A job of a user, by its name and, as JSON, what else stands in `attributes.system`.
    pub(crate) fn submit(&mut self, id: u64, userid: u32, name: &str, system: &str) {
        let spec = format!(
            r#","jobspec":{{"resources":[{{"type":"slot","count":1,"label":"task","with":[{{"type":"core","count":1}}]}}],"tasks":[{{"command":["{name}"],"slot":"task","count":{{"per_slot":1}}}}],"attributes":{{"system":{{{system}"duration":0}}}},"version":1}}"#
        );
        let context = format!(r#"{{"userid":{userid},"urgency":16,"flags":0,"version":1}}"#);
        self.entry(id, "submit", &context, &spec);
        self.entry(id, "validate", "", "");
        if system.contains("parameterized") {
            self.entry(id, "dependency-add", r#"{"description":"dispatch"}"#, "");
        } else {
            self.entry(id, "depend", "", "");
            self.entry(id, "priority", r#"{"priority":16}"#, "");
        }
    }

    /// Resources on these ranks, of nodes that are named after them; started.
    pub(crate) fn run(&mut self, id: u64, ranks: &str) {
        let r = format!(
            r#","R":{{"version":1,"execution":{{"R_lite":[{{"rank":"{ranks}","children":{{"core":"0-1"}}}}],"nodelist":["{}"],"starttime":0.0,"expiration":0.0}}}}"#,
            nodelist(ranks)
        );
        self.entry(id, "alloc", "", &r);
        self.entry(id, "start", "", "");
    }

    pub(crate) fn end(&mut self, id: u64, status: i32) {
        self.entry(id, "finish", &format!(r#"{{"status":{status}}}"#), "");
        self.entry(id, "release", r#"{"ranks":"all","final":true}"#, "");
        self.entry(id, "free", "", "");
        self.entry(id, "clean", "", "");
    }

    pub(crate) fn cancel(&mut self, id: u64) {
        let context = r#"{"type":"cancel","severity":0,"note":"","userid":1000}"#;
        self.entry(id, "exception", context, "");
        self.entry(id, "clean", "", "");
    }

    pub(crate) fn purge(&mut self, id: u64) {
        let context = format!(r#"{{"jobs":[{id}]}}"#);
        self.push(r#""log":"system","eventlog_seq":1"#, "purge", &context, "");
    }

    pub(crate) fn resource(&mut self, name: &str, context: &str) {
        self.push(r#""log":"resource","eventlog_seq":1"#, name, context, "");
    }

    /// Nodes of these ranks are announced and come up.
    pub(crate) fn nodes(&mut self, ranks: &str, pools: &str) {
        let nodes = nodelist(ranks);
        self.resource(
            "resource-define",
            &format!(
                r#"{{"method":"announced","R":{{"version":1,"execution":{{"R_lite":[{{"rank":"{ranks}","children":{{"core":"0-3"}}}}],"nodelist":["{nodes}"],"starttime":0.0,"expiration":0.0}}}},"pools":{pools}}}"#
            ),
        );
        self.resource(
            "online",
            &format!(r#"{{"idset":"{ranks}","nodelist":"{nodes}"}}"#),
        );
    }
}

fn nodelist(ranks: &str) -> String {
    if ranks.contains(['-', ',']) {
        format!("n[{ranks}]")
    } else {
        format!("n{ranks}")
    }
}

/// A job's id as it stands in a body.
pub(crate) fn f58(id: u64) -> String {
    JobId(id).f58(true)
}

/// A guest where users see only their own jobs.
pub(crate) fn guest(userid: u32) -> Viewer {
    Viewer {
        owner: false,
        userid,
        private: true,
    }
}
