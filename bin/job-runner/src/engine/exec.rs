//! The executor's book: which jobs run, what is known of their parts, what the job-manager was told.
//!
//! ```text
//!  start ─▶ parts sent to their nodes ─▶ all started ─▶ all ended ─▶ finish with release ─▶ sched.free: forgotten
//!             └ exceptions at any time ─▶ told once an exchange is open
//! ```
//!
//! A fact may come twice, from a node process that was asked again; the second changes nothing. When the job-manager went away
//! and says `start` again, all that is known is told again: it takes what is new to it. Pure: what is to be sent is put into
//! [`Out`]s.

use std::collections::HashMap;

use job::JobId;
use protocol::exec::StartRequest;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use crate::engine::orders::{self, OrderError, Site};
use crate::messages::{Ended, Exception, Fact, ToNode, ToShepherd};

/// What the book wants sent.
#[derive(Debug)]
#[must_use]
pub(crate) enum Out {
    /// A response to the job's `start` request: JSON without NUL.
    Answer { id: JobId, payload: Vec<u8> },
    /// A message to a node process.
    Node { rank: u32, message: ToNode },
    /// The job's last process is gone: what it held can be given out.
    Freed(JobId),
    /// A job on several nodes is over: its exec eventlog wants its last entries.
    Complete { dir: String, status: i32 },
}

#[derive(Debug)]
struct Part {
    rank: u32,
    order: Box<RawValue>,
    started: bool,
    ended: Option<Ended>,
}

#[derive(Debug)]
struct Active {
    userid: u32,
    dir: String,
    parts: Vec<Part>,
    /// The job-manager knows that it started, from before this engine.
    reattach: bool,
    start_told: bool,
    exceptions: Vec<Exception>,
    over: bool,
}

/// The book.
#[derive(Debug)]
pub(crate) struct Exec {
    site: Site,
    jobs: HashMap<JobId, Active>,
    started: u64,
    finished: u64,
}

#[derive(Serialize)]
struct Response<'a, D: Serialize> {
    id: JobId,
    #[serde(rename = "type")]
    kind: &'a str,
    data: D,
}

#[derive(Serialize)]
struct Nothing {}

#[derive(Serialize)]
struct Finish {
    status: i32,
    release: Release,
}

#[derive(Serialize)]
struct Release {
    ranks: &'static str,
    #[serde(rename = "final")]
    last: bool,
}

const RELEASE: Release = Release {
    ranks: "all",
    last: true,
};

fn answer<D: Serialize>(id: JobId, kind: &str, data: D, out: &mut Vec<Out>) {
    // These types always have a JSON form.
    let payload = serde_json::to_vec(&Response { id, kind, data }).unwrap_or_default();
    out.push(Out::Answer { id, payload });
}

impl Exec {
    pub(crate) fn new(site: Site) -> Exec {
        Exec {
            site,
            jobs: HashMap::new(),
            started: 0,
            finished: 0,
        }
    }

    /// (running, started since the beginning, finished).
    pub(crate) fn counts(&self) -> (usize, u64, u64) {
        (
            self.jobs.values().filter(|job| !job.over).count(),
            self.started,
            self.finished,
        )
    }

    /// Whether a job has, or may have, processes.
    pub(crate) fn is_running(&self, id: JobId) -> bool {
        self.jobs.get(&id).is_some_and(|job| !job.over)
    }

    /// Whose job it is, and how many parts would take input.
    pub(crate) fn owner(&self, id: JobId) -> Option<(u32, usize)> {
        let job = self.jobs.get(&id).filter(|job| !job.over)?;
        Some((
            job.userid,
            job.parts.iter().filter(|part| part.ended.is_none()).count(),
        ))
    }

    /// `start`: begins a job, or tells of one that is known.
    pub(crate) fn start(&mut self, request: &StartRequest<'_>, out: &mut Vec<Out>) {
        let id = request.id;
        if let Some(job) = self.jobs.get_mut(&id) {
            job.reattach = request.reattach;
            job.start_told = false;
            return self.tell_all(id, out);
        }
        match orders::orders(request, &self.site) {
            Ok(orders) => {
                let dir = orders
                    .first()
                    .map(|order| order.dir.clone())
                    .unwrap_or_default();
                let parts: Vec<Part> = orders
                    .iter()
                    .filter_map(|order| {
                        Some(Part {
                            rank: order.rank,
                            order: to_raw_value(order).ok()?,
                            started: false,
                            ended: None,
                        })
                    })
                    .collect();
                let job = Active {
                    userid: request.userid,
                    dir,
                    parts,
                    reattach: request.reattach,
                    start_told: false,
                    exceptions: Vec::new(),
                    over: false,
                };
                self.started += 1;
                if request.reattach {
                    answer(id, "reattached", Nothing {}, out);
                }
                out.extend(
                    job.parts
                        .iter()
                        .map(|part| send(id, &job, part, request.reattach)),
                );
                self.jobs.insert(id, job);
            }
            Err(error) => refuse(id, &error, out),
        }
    }

    /// A node process is there (again): it is asked for all parts that are its own and not over.
    pub(crate) fn node_up(&self, rank: u32, out: &mut Vec<Out>) {
        for (id, job) in &self.jobs {
            for part in job
                .parts
                .iter()
                .filter(|part| part.rank == rank && part.ended.is_none())
            {
                out.push(send(*id, job, part, job.reattach || part.started));
            }
        }
    }

    /// A node process tells something of one part.
    pub(crate) fn fact(&mut self, id: JobId, rank: u32, fact: Fact, out: &mut Vec<Out>) {
        let Some(job) = self.jobs.get_mut(&id).filter(|job| !job.over) else {
            return;
        };
        let Some(part) = job.parts.iter_mut().find(|part| part.rank == rank) else {
            return;
        };
        match fact {
            Fact::Started => part.started = true,
            Fact::Exception(exception) => note(id, &mut job.exceptions, exception, out),
            Fact::Ended(ended) => {
                for exception in &ended.exceptions {
                    note(id, &mut job.exceptions, exception.clone(), out);
                }
                if part.ended.is_none() {
                    part.ended = Some(ended);
                    part.order = RawValue::NULL.to_owned();
                }
            }
        }
        self.advance(id, out);
    }

    fn advance(&mut self, id: JobId, out: &mut Vec<Out>) {
        let Some(job) = self.jobs.get_mut(&id) else {
            return;
        };
        // A part that could not be begun never says that it started; the others did, and the job with them.
        let settled = job
            .parts
            .iter()
            .all(|part| part.started || part.ended.is_some());
        if settled && job.parts.iter().any(|part| part.started) {
            tell_start(id, job, out);
        }
        if !job.over && job.parts.iter().all(|part| part.ended.is_some()) {
            job.over = true;
            self.finished += 1;
            tell_end(id, job, out);
            if let (true, Some(status)) = (job.parts.len() > 1, status(job)) {
                out.push(Out::Complete {
                    dir: job.dir.clone(),
                    status,
                });
            }
            out.push(Out::Freed(id));
        }
    }

    /// Tells all that is known of a job to a job-manager that asked again.
    fn tell_all(&mut self, id: JobId, out: &mut Vec<Out>) {
        let Some(job) = self.jobs.get_mut(&id) else {
            return;
        };
        if job.reattach {
            answer(id, "reattached", Nothing {}, out);
        }
        for exception in &job.exceptions {
            answer(id, "exception", exception, out);
        }
        if job.over {
            if job.parts.iter().any(|part| part.started) {
                tell_start(id, job, out);
            }
            tell_end(id, job, out);
        } else {
            self.advance(id, out);
        }
    }

    /// Passes something on to all shepherds of a job.
    pub(crate) fn tell(&self, id: JobId, what: &ToShepherd, out: &mut Vec<Out>) {
        let Some(job) = self.jobs.get(&id) else {
            return;
        };
        for part in job.parts.iter().filter(|part| part.ended.is_none()) {
            out.push(Out::Node {
                rank: part.rank,
                message: ToNode::Tell {
                    id: id.0,
                    what: what.clone(),
                },
            });
        }
    }

    /// A fatal exception was raised: the job shall end. One that we raised ourselves has been acted on already.
    pub(crate) fn cancel(&self, id: JobId, kind: &str, out: &mut Vec<Out>) {
        let Some(job) = self.jobs.get(&id) else {
            return;
        };
        let alone = job.parts.len() == 1;
        if !(alone
            && job
                .exceptions
                .iter()
                .any(|exception| exception.severity == 0 && exception.kind == kind))
        {
            self.tell(id, &ToShepherd::Cancel {}, out);
        }
    }

    /// The job-manager has stored that the job's resources are free. True if they are.
    pub(crate) fn freed(&mut self, id: JobId, out: &mut Vec<Out>) -> bool {
        if self.is_running(id) {
            return false;
        }
        if let Some(job) = self.jobs.remove(&id) {
            for part in job.parts {
                out.push(Out::Node {
                    rank: part.rank,
                    message: ToNode::Forget { id: id.0 },
                });
            }
        }
        true
    }
}

fn send(id: JobId, job: &Active, part: &Part, reattach: bool) -> Out {
    let nnodes = u32::try_from(job.parts.len()).unwrap_or(u32::MAX);
    let message = ToNode::Start {
        id: id.0,
        rank: part.rank,
        nnodes,
        dir: job.dir.clone(),
        reattach,
        order: part.order.clone(),
    };
    Out::Node {
        rank: part.rank,
        message,
    }
}

fn refuse(id: JobId, error: &OrderError, out: &mut Vec<Out>) {
    answer(
        id,
        "exception",
        Exception::fatal("exec", format!("failed to start the job: {error}")),
        out,
    );
    answer(id, "release", RELEASE, out);
    out.push(Out::Freed(id));
}

fn note(id: JobId, known: &mut Vec<Exception>, exception: Exception, out: &mut Vec<Out>) {
    if !known.contains(&exception) {
        answer(id, "exception", &exception, out);
        known.push(exception);
    }
}

fn tell_start(id: JobId, job: &mut Active, out: &mut Vec<Out>) {
    if !std::mem::replace(&mut job.start_told, true) && !job.reattach {
        answer(id, "start", Nothing {}, out);
    }
}

/// The highest of the statuses that are known.
fn status(job: &Active) -> Option<i32> {
    job.parts
        .iter()
        .filter_map(|part| part.ended.as_ref()?.status)
        .max()
}

fn tell_end(id: JobId, job: &Active, out: &mut Vec<Out>) {
    match status(job) {
        Some(status) => answer(
            id,
            "finish",
            Finish {
                status,
                release: RELEASE,
            },
            out,
        ),
        None => answer(id, "release", RELEASE, out),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn exec() -> Exec {
        Exec::new(Site {
            statedir: "/s".into(),
            uri: "u".into(),
            kill_grace_s: 5.0,
            userid: 7,
        })
    }

    fn start(exec: &mut Exec, ranks: &str, reattach: bool) -> Vec<String> {
        let text = json!({
            "id": 9, "userid": 7, "reattach": reattach,
            "jobspec": {
                "resources": [{"type": "slot", "count": 1, "label": "task", "with": [{"type": "core", "count": 1}]}],
                "tasks": [{"command": ["true"], "slot": "task", "count": {"per_slot": 1}}],
                "attributes": {"system": {"duration": 0}}, "version": 1
            },
            "R": {"version": 1, "execution": {
                "R_lite": [{"rank": ranks, "children": {"core": "0"}}], "nodelist": [], "starttime": 0.0, "expiration": 0.0
            }}
        })
        .to_string();
        let mut out = Vec::new();
        exec.start(&serde_json::from_str(&text).unwrap(), &mut out);
        said(&out)
    }

    fn said(out: &[Out]) -> Vec<String> {
        out.iter()
            .map(|out| match out {
                Out::Answer { payload, .. } => {
                    let value: Value = serde_json::from_slice(payload).unwrap();
                    format!("{} {}", value["type"].as_str().unwrap(), value["data"])
                }
                Out::Node {
                    rank,
                    message: ToNode::Start { reattach, .. },
                } => format!("node {rank} start {reattach}"),
                Out::Node { rank, message } => {
                    format!("node {rank} {}", serde_json::to_string(message).unwrap())
                }
                Out::Freed(_) => "freed".to_owned(),
                Out::Complete { status, .. } => format!("complete {status}"),
            })
            .collect()
    }

    fn fact(exec: &mut Exec, rank: u32, fact: Fact) -> Vec<String> {
        let mut out = Vec::new();
        exec.fact(JobId(9), rank, fact, &mut out);
        said(&out)
    }

    fn ended(status: i32) -> Fact {
        Fact::Ended(Ended {
            status: Some(status),
            exceptions: Vec::new(),
        })
    }

    const FINISHED: &str = r#"finish {"status":256,"release":{"ranks":"all","final":true}}"#;

    #[test]
    fn a_job_is_started_told_of_and_forgotten() {
        let mut exec = exec();
        assert_eq!(start(&mut exec, "0", false), ["node 0 start false"]);
        assert_eq!(fact(&mut exec, 0, Fact::Started), ["start {}"]);
        assert!(
            fact(&mut exec, 0, Fact::Started).is_empty(),
            "a fact told twice"
        );
        assert!(exec.is_running(JobId(9)));
        assert_eq!(fact(&mut exec, 0, ended(256)), [FINISHED, "freed"]);
        assert!(fact(&mut exec, 0, ended(256)).is_empty());
        let mut out = Vec::new();
        assert!(exec.freed(JobId(9), &mut out));
        assert_eq!(said(&out), [r#"node 0 {"forget":{"id":9}}"#]);
        assert_eq!(exec.counts(), (0, 1, 1));
    }

    #[test]
    fn a_job_manager_that_comes_back_is_told_everything_again_and_nothing_is_begun_twice() {
        let mut exec = exec();
        let _ = start(&mut exec, "0", false);
        let _ = fact(&mut exec, 0, Fact::Started);
        assert_eq!(start(&mut exec, "0", true), ["reattached {}"]);
        let _ = fact(
            &mut exec,
            0,
            Fact::Exception(Exception::fatal("timeout", "n")),
        );
        let _ = fact(&mut exec, 0, ended(256));
        let again = [
            r#"exception {"severity":0,"type":"timeout","note":"n"}"#,
            "start {}",
            FINISHED,
        ];
        assert_eq!(
            start(&mut exec, "0", false),
            again,
            "it did not even store the start"
        );
    }

    #[test]
    fn several_parts_make_one_job() {
        let mut exec = exec();
        assert_eq!(
            start(&mut exec, "0-1", false),
            ["node 0 start false", "node 1 start false"]
        );
        assert!(fact(&mut exec, 1, Fact::Started).is_empty());
        assert_eq!(fact(&mut exec, 0, Fact::Started), ["start {}"]);
        assert!(fact(&mut exec, 0, ended(0)).is_empty());
        let mut out = Vec::new();
        exec.node_up(1, &mut out);
        exec.node_up(0, &mut out);
        assert_eq!(
            said(&out),
            ["node 1 start true"],
            "only what is not over, and never begun again"
        );
        assert_eq!(
            fact(&mut exec, 1, ended(256)),
            [FINISHED, "complete 256", "freed"]
        );
    }

    #[test]
    fn a_lost_job_is_released_without_a_status() {
        let mut exec = exec();
        assert_eq!(
            start(&mut exec, "0", true),
            ["reattached {}", "node 0 start true"]
        );
        let lost = Ended {
            status: None,
            exceptions: vec![Exception::fatal("exec", "lost: x")],
        };
        assert_eq!(
            fact(&mut exec, 0, Fact::Ended(lost)),
            [
                r#"exception {"severity":0,"type":"exec","note":"lost: x"}"#,
                r#"release {"ranks":"all","final":true}"#,
                "freed"
            ]
        );
    }

    #[test]
    fn resources_are_not_free_before_the_last_process_is_gone() {
        let mut exec = exec();
        let _ = start(&mut exec, "0", false);
        assert!(!exec.freed(JobId(9), &mut Vec::new()));
        let _ = fact(&mut exec, 0, ended(0));
        assert!(exec.freed(JobId(9), &mut Vec::new()));
    }

    #[test]
    fn our_own_exception_is_not_a_second_reason_to_kill() {
        let mut exec = exec();
        let _ = start(&mut exec, "0", false);
        let _ = fact(
            &mut exec,
            0,
            Fact::Exception(Exception::fatal("timeout", "n")),
        );
        let mut out = Vec::new();
        exec.cancel(JobId(9), "timeout", &mut out);
        assert!(out.is_empty());
        exec.cancel(JobId(9), "cancel", &mut out);
        assert_eq!(
            said(&out),
            [r#"node 0 {"tell":{"id":9,"what":{"cancel":{}}}}"#]
        );
    }
}
