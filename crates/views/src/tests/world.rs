//! A journal, the list that follows it, and the views on that list.

use std::collections::BTreeMap;

use info::{Form, Projection};
use serde_json::Value;

use crate::{
    Answer, Ask, HttpError, Limits, Reply, StatusesAsk, Viewer, Views, What,
    statuses::{PostBody, StatusesParams},
};

pub(super) const EPOCH: &str = "00000000000000e1";

/// All of it.
pub(super) struct World {
    pub(super) projection: Projection,
    pub(super) views: Views,
    pub(super) seq: u64,
    time: f64,
    eventlog: BTreeMap<u64, u32>,
    /// Every entry, for a rebuild; of purged jobs none.
    history: Vec<(Option<u64>, String)>,
    tokens: u64,
    told: u64,
}

/// A query, in short.
#[derive(Debug, Clone, Default)]
pub(super) struct Page {
    pub(super) per_page: i32,
    pub(super) token: Option<String>,
    pub(super) filter: Option<String>,
    pub(super) reverse: bool,
    pub(super) children: bool,
    pub(super) namespace: Option<String>,
    pub(super) body: Option<String>,
    pub(super) guest: Option<u32>,
    pub(super) counts: bool,
}

impl Page {
    pub(super) fn per(per_page: i32) -> Self {
        Self {
            per_page,
            ..Self::default()
        }
    }

    pub(super) fn filter(text: &str) -> Self {
        Self {
            filter: Some(text.into()),
            ..Self::default()
        }
    }

    pub(super) fn list(ids: &[u64]) -> Self {
        let jobs: Vec<String> = ids.iter().map(|id| format!(r#"{{"ID":"{id}"}}"#)).collect();
        Self {
            body: Some(format!(r#"{{"Jobs":[{}]}}"#, jobs.join(","))),
            ..Self::default()
        }
    }

    pub(super) fn query(&self) -> Result<StatusesAsk, HttpError> {
        let body = PostBody::parse(self.body.as_deref().unwrap_or_default().as_bytes())?;
        let params = StatusesParams {
            namespace: self.namespace.clone(),
            per_page: self.per_page,
            next_token: self.token.clone(),
            filter: self.filter.clone(),
            reverse: self.reverse,
            include_children: self.children,
            shape: if self.counts {
                crate::statuses::Shape::Counts
            } else {
                crate::statuses::Shape::Full
            },
        };
        StatusesAsk::new(&params, body)
    }

    pub(super) fn viewer(&self) -> Viewer {
        match self.guest {
            None => Viewer::OWNER,
            Some(userid) => Viewer {
                owner: false,
                userid,
                private: true,
            },
        }
    }

    pub(super) fn ask(&self, index: u64) -> Ask {
        Ask {
            viewer: self.viewer(),
            index,
            epoch: None,
            what: What::Statuses(self.query().expect("a query")),
        }
    }

    pub(super) fn event(&self, index: u64) -> Ask {
        Ask {
            what: What::StatusesStream(self.query().expect("a query")),
            ..self.ask(index)
        }
    }
}

pub(super) fn spec(name: &str, nodes: u32, weir: &str) -> String {
    let slot = r#"{"type":"slot","count":1,"label":"task","with":[{"type":"core","count":1}]}"#;
    let resources = if nodes > 1 {
        format!(r#"{{"type":"node","count":{nodes},"with":[{slot}]}}"#)
    } else {
        slot.to_owned()
    };
    let weir = if weir.is_empty() {
        String::new()
    } else {
        format!(r#""weir":{weir},"#)
    };
    format!(
        r#"{{"resources":[{resources}],"tasks":[{{"command":["{name}"],"slot":"task","count":{{"per_slot":1}}}}],"attributes":{{"system":{{{weir}"duration":0}}}},"version":1}}"#
    )
}

impl World {
    pub(super) fn new() -> Self {
        Self::with(Limits::default())
    }

    pub(super) fn with(limits: Limits) -> Self {
        let mut world = Self {
            projection: Projection::new(),
            views: Views::new(limits),
            seq: 0,
            time: 1_790_000_000.0,
            eventlog: BTreeMap::new(),
            history: Vec::new(),
            tokens: 0,
            told: 0,
        };
        world.projection.watch_changes(true);
        world.rebuild(EPOCH);
        world
    }

    // ---- entries -------------------------------------------------------------------------------------------------

    pub(super) fn entry(&mut self, id: u64, name: &str, context: &str, attach: &str) -> String {
        self.seq += 1;
        self.time += 0.5;
        let number = self.eventlog.entry(id).or_insert(0);
        *number += 1;
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
        let json = format!(
            r#"{{"seq":{},"id":{id},"eventlog_seq":{number},"entry":{{"timestamp":{:?},"name":"{name}"{context}}}{attach}}}"#,
            self.seq, self.time
        );
        self.history.push((Some(id), json.clone()));
        json
    }

    fn log(&mut self, log: &str, name: &str, context: &str) -> String {
        self.seq += 1;
        self.time += 0.5;
        let json = format!(
            r#"{{"seq":{},"log":"{log}","eventlog_seq":1,"entry":{{"timestamp":{:?},"name":"{name}","context":{context}}}}}"#,
            self.seq, self.time
        );
        self.history.push((None, json.clone()));
        json
    }

    pub(super) fn submit_as(&mut self, id: u64, user: u32, spec: &str) -> Vec<String> {
        let context = format!(r#"{{"userid":{user},"urgency":16,"flags":0,"version":1}}"#);
        vec![
            self.entry(id, "submit", &context, &format!("\"jobspec\":{spec}")),
            self.entry(id, "validate", "", ""),
            self.entry(id, "depend", "", ""),
            self.entry(id, "priority", r#"{"priority":16}"#, ""),
        ]
    }

    pub(super) fn submit(&mut self, id: u64) -> Vec<String> {
        let name = format!("job{}", id % 3);
        self.submit_as(id, 1000, &spec(&name, 1, ""))
    }

    pub(super) fn parent(&mut self, id: u64) -> Vec<String> {
        let spec = spec("parent", 1, r#"{"parameterized":{"payload":"optional"}}"#);
        let context = r#"{"userid":1000,"urgency":16,"flags":0,"version":1}"#;
        vec![
            self.entry(id, "submit", context, &format!("\"jobspec\":{spec}")),
            self.entry(id, "validate", "", ""),
            self.entry(id, "dependency-add", r#"{"description":"dispatch"}"#, ""),
        ]
    }

    pub(super) fn child(&mut self, id: u64, parent: u64) -> Vec<String> {
        self.submit_as(
            id,
            1000,
            &spec("child", 1, &format!(r#"{{"parent":{parent}}}"#)),
        )
    }

    pub(super) fn alloc(&mut self, id: u64, ranks: &str) -> String {
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

    pub(super) fn run(&mut self, id: u64, ranks: &str) -> Vec<String> {
        vec![self.alloc(id, ranks), self.entry(id, "start", "", "")]
    }

    pub(super) fn end(&mut self, id: u64, status: i32) -> Vec<String> {
        vec![
            self.entry(id, "finish", &format!(r#"{{"status":{status}}}"#), ""),
            self.entry(id, "release", r#"{"ranks":"all","final":true}"#, ""),
            self.entry(id, "free", "", ""),
            self.entry(id, "clean", "", ""),
        ]
    }

    pub(super) fn alloc_status(&mut self, id: u64, ranks: &str, status: &str) -> Vec<String> {
        let context = format!(r#"{{"allocs":[{{"ranks":"{ranks}","status":"{status}"}}]}}"#);
        vec![self.entry(id, "alloc-status", &context, "")]
    }

    pub(super) fn cancel(&mut self, id: u64) -> Vec<String> {
        vec![self.entry(
            id,
            "exception",
            r#"{"type":"cancel","severity":0,"note":"n","userid":1000}"#,
            "",
        )]
    }

    pub(super) fn urgency(&mut self, id: u64, urgency: u32) -> Vec<String> {
        vec![
            self.entry(
                id,
                "urgency",
                &format!(r#"{{"userid":1000,"urgency":{urgency}}}"#),
                "",
            ),
            self.entry(id, "priority", &format!(r#"{{"priority":{urgency}}}"#), ""),
        ]
    }

    pub(super) fn annotate(&mut self, id: u64) -> Vec<String> {
        let context = format!(
            r#"{{"annotations":{{"sched":{{"t_estimate":{}}}}}}}"#,
            self.seq
        );
        vec![self.entry(id, "annotations", &context, "")]
    }

    pub(super) fn purge(&mut self, ids: &[u64]) -> Vec<String> {
        self.history
            .retain(|(id, _)| id.is_none_or(|id| !ids.contains(&id)));
        vec![self.log("system", "purge", &format!(r#"{{"jobs":{ids:?}}}"#))]
    }

    pub(super) fn define(&mut self, ranks: &str) -> Vec<String> {
        let context = format!(
            r#"{{"method":"announced","R":{{"version":1,"execution":{{"R_lite":[{{"rank":"{ranks}","children":{{"core":"0-3"}}}}],"nodelist":["n[{ranks}]"],"starttime":0.0,"expiration":0.0}}}},"pools":{{}}}}"#
        );
        vec![self.log("resource", "resource-define", &context)]
    }

    // ---- the stream ----------------------------------------------------------------------------------------------

    /// Folds entries without telling the views.
    pub(super) fn fold(&mut self, entries: &[String]) {
        let text = format!(
            r#"{{"epoch":"{EPOCH}","seq":{},"events":[{}]}}"#,
            self.seq,
            entries.join(",")
        );
        let _folded = self
            .projection
            .fold_native(text.as_bytes(), &mut |_| {})
            .expect("a batch");
    }

    /// Up to where the views were told.
    pub(super) fn views_told(&self) -> u64 {
        self.told
    }

    /// Tells the views what was folded.
    pub(super) fn tell(&mut self) {
        self.told = self.projection.applied();
        let changes = self.projection.take_changes();
        self.views.changed(&self.projection, &changes);
    }

    pub(super) fn play(&mut self, entries: &[String]) {
        self.fold(entries);
        self.tell();
    }

    /// The list is built anew from all there is.
    pub(super) fn rebuild(&mut self, epoch: &str) {
        self.projection.begin_fresh(Form::Native);
        let entries: Vec<&str> = self.history.iter().map(|(_, json)| json.as_str()).collect();
        let mut backlog = format!(
            r#"{{"epoch":"{epoch}","backlog":true,"events":[{}]}}"#,
            entries.join(",")
        );
        for last in [false, true] {
            let _folded = self
                .projection
                .fold_native(backlog.as_bytes(), &mut |_| {})
                .expect("a backlog");
            if !last {
                backlog = format!(
                    r#"{{"epoch":"{epoch}","seq":{},"caught_up":true,"events":[]}}"#,
                    self.seq
                );
            }
        }
        self.tell();
    }

    /// The entries after this seq, to be looked at.
    pub(super) fn since(&self, seq: u64) -> String {
        let later = self.history.iter().map(|(_, json)| json.as_str());
        let later = later.filter(|json| {
            let number = json
                .strip_prefix("{\"seq\":")
                .and_then(|rest| rest.split(',').next());
            number.and_then(|number| number.parse::<u64>().ok()) > Some(seq)
        });
        later.collect::<Vec<_>>().join("\n")
    }

    // ---- requests ------------------------------------------------------------------------------------------------

    pub(super) fn ask(&mut self, ask: &Ask) -> Result<Reply, u64> {
        self.tokens += 1;
        let token = self.tokens;
        self.views.ask(&self.projection, ask, token).ok_or(token)
    }

    /// The page as it is, of one that asks for the first time.
    pub(super) fn get(&mut self, page: &Page) -> Answer {
        match self.ask(&page.ask(0)) {
            Ok(reply) => reply.expect("an answer"),
            Err(token) => {
                let replies = self.ready();
                let found = replies.into_iter().find(|(other, _)| *other == token);
                found.expect("a reply").1.expect("an answer")
            }
        }
    }

    /// Waits with this index; the token. A reply at once is an error here.
    pub(super) fn wait(&mut self, page: &Page, index: u64) -> u64 {
        match self.ask(&page.ask(index)) {
            Err(token) => token,
            Ok(reply) => panic!("{page:?} at {index} was answered at once: {reply:?}"),
        }
    }

    /// Gets the page and waits for its next state.
    pub(super) fn watch(&mut self, page: &Page) -> u64 {
        let index = self.get(page).index;
        self.wait(page, index)
    }

    pub(super) fn ready(&mut self) -> Vec<(u64, Reply)> {
        let mut all = Vec::new();
        while self.views.has_ready() {
            all.extend(self.views.take_ready(&self.projection, 7));
        }
        all
    }

    /// Whether exactly these are answered.
    pub(super) fn woken(&mut self) -> Vec<u64> {
        let mut tokens: Vec<u64> = self.ready().into_iter().map(|(token, _)| token).collect();
        tokens.sort_unstable();
        tokens
    }
}

/// A body as JSON.
pub(super) fn json(answer: &Answer) -> Value {
    let text = answer.body.to_vec();
    assert!(!text.contains(&b'\n'), "a body is one line");
    serde_json::from_slice(&text)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&text)))
}

/// The ids of a body's jobs, as numbers.
pub(super) fn ids(answer: &Answer) -> Vec<u64> {
    let body = json(answer);
    let rows = body.get("rows").unwrap_or(&body);
    rows.as_array()
        .expect("an array")
        .iter()
        .map(|row| {
            let id = row["ID"].as_str().expect("an ID");
            crate::names::parse_job(id).expect("a job id").0
        })
        .collect()
}
