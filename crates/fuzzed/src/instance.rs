//! What the targets are played against: a listing of jobs in every state, and the same jobs as a store has them.

use info::Projection;
use info::projection::Form;
use job::{Event, JobId};
use std::fmt::Write as _;
use std::sync::OnceLock;

/// The user who runs the instance.
pub(crate) const OWNER: u32 = 1000;
/// Another user, who has jobs too.
pub(crate) const GUEST: u32 = 1001;
/// Jobs of the listing.
pub(crate) const LISTED: usize = JOBS.len();
/// The resources of every job that has any.
pub(crate) const R: &str = r#"{"version":1,"execution":{"R_lite":[{"rank":"0-1","children":{"core":"0"}}],"nodelist":["node[0-1]"],"starttime":1.0,"expiration":0.0}}"#;

/// A job: who submitted it, flags, urgency, and what happened after `priority`.
type Story = (u32, u32, u8, &'static [(&'static str, &'static str)]);

/// The jobs; the first has id 1.
const JOBS: [Story; 8] = [
    (OWNER, 0, 0, &[]),
    (GUEST, 0, 16, &[]),
    (OWNER, 0, 31, &[("alloc", "{}"), ("start", "")]),
    (
        OWNER,
        4,
        16,
        &[
            ("alloc", "{}"),
            ("start", ""),
            ("finish", r#"{"status":256}"#),
        ],
    ),
    (GUEST, 0, 16, &[("alloc", "{}")]),
    (
        OWNER,
        4,
        16,
        &[
            ("alloc", "{}"),
            ("start", ""),
            ("finish", r#"{"status":0}"#),
            ("release", r#"{"ranks":"all","final":true}"#),
            ("free", ""),
            ("clean", ""),
        ],
    ),
    (
        GUEST,
        0,
        16,
        &[
            (
                "exception",
                r#"{"type":"cancel","severity":0,"note":"","userid":1001}"#,
            ),
            ("clean", ""),
        ],
    ),
    (
        OWNER,
        4,
        16,
        &[
            ("alloc", "{}"),
            ("start", ""),
            (
                "exception",
                r#"{"type":"timeout","severity":0,"note":"late"}"#,
            ),
            ("finish", r#"{"status":15}"#),
            ("release", r#"{"ranks":"all","final":true}"#),
            ("free", ""),
            ("clean", ""),
        ],
    ),
];

/// A job as the store has it.
pub(crate) struct Stored {
    pub(crate) id: JobId,
    pub(crate) userid: u32,
    pub(crate) flags: u32,
    pub(crate) jobspec: String,
    pub(crate) events: Vec<Event>,
    pub(crate) has_r: bool,
    pub(crate) inactive: bool,
}

/// All jobs as the store has them.
pub(crate) fn stored() -> Vec<Stored> {
    let numbered = (1u64..).zip(JOBS);
    numbered
        .map(|(number, (userid, flags, urgency, later))| {
            let priority = match urgency {
                31 => u32::MAX,
                other => u32::from(other),
            };
            let first = [
                (
                    "submit",
                    format!(
                        r#"{{"userid":{userid},"urgency":{urgency},"flags":{flags},"version":1}}"#
                    ),
                ),
                ("validate", String::new()),
                ("depend", String::new()),
                ("priority", format!(r#"{{"priority":{priority}}}"#)),
            ];
            let later = later
                .iter()
                .map(|(name, context)| (*name, (*context).to_owned()));
            let lines = first.into_iter().chain(later).enumerate();
            let events: Vec<Event> = lines
                .filter_map(|(at, (name, context))| {
                    let time = number * 100 + at as u64;
                    let mut json = format!("{{\"timestamp\":{time}.0,\"name\":\"{name}\"");
                    if !context.is_empty() {
                        let _ = write!(json, ",\"context\":{context}");
                    }
                    json.push('}');
                    Event::parse(json.as_bytes()).ok()
                })
                .collect();
            let has = |name: &str| events.iter().any(|event| event.name().as_str() == name);
            Stored {
                id: JobId(number),
                userid,
                flags,
                jobspec: jobspec(number),
                has_r: has("alloc"),
                inactive: has("clean"),
                events,
            }
        })
        .collect()
}

/// A small jobspec; names and queues differ.
pub(crate) fn jobspec(number: u64) -> String {
    let queue = ["q", "batch"][usize::from(number.is_multiple_of(2))];
    format!(
        r#"{{"resources":[{{"type":"slot","count":2,"with":[{{"type":"core","count":1}}],"label":"task"}}],"tasks":[{{"command":["true"],"slot":"task","count":{{"per_slot":1}}}}],"attributes":{{"system":{{"duration":{number},"cwd":"/tmp","queue":"{queue}","job":{{"name":"n{number}"}}}}}},"version":1}}"#
    )
}

/// A listing of all jobs.
pub(crate) fn listing() -> &'static Projection {
    static LISTING: OnceLock<Projection> = OnceLock::new();
    LISTING.get_or_init(|| {
        let (mut batch, mut seq) = (String::from(r#"{"epoch":"e","backlog":true,"events":["#), 0);
        for job in stored() {
            for (at, event) in job.events.iter().enumerate() {
                seq += 1;
                let comma = if seq == 1 { "" } else { "," };
                let json = event.to_json();
                let json = String::from_utf8_lossy(&json);
                let attached = match event.name().as_str() {
                    "submit" => format!(",\"jobspec\":{}", job.jobspec),
                    "alloc" => format!(",\"R\":{R}"),
                    _ => String::new(),
                };
                let _ = write!(
                    batch,
                    "{comma}{{\"seq\":{seq},\"id\":{},\"eventlog_seq\":{},\"entry\":{json}{attached}}}",
                    job.id.0,
                    at + 1
                );
            }
        }
        batch.push_str("]}");
        let caught_up = format!(r#"{{"epoch":"e","seq":{seq},"caught_up":true,"events":[]}}"#);
        let mut projection = Projection::new();
        projection.begin_fresh(Form::Native);
        for json in [batch, caught_up] {
            let folded = projection.fold_native(json.as_bytes(), &mut |_| {});
            assert!(folded.is_ok(), "{folded:?}");
        }
        projection
    })
}
