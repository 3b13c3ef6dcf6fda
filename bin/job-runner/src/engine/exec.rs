//! The executor's book: which jobs run, what is known of their parts, what the job-manager was told.
//!
//! ```text
//!  start ─▶ parts sent to their nodes ─▶ all started ─▶ all ended ─▶ finish with release ─▶ sched.free: forgotten
//!             └ exceptions at any time ─▶ told once an exchange is open
//! ```
//!
//! Parts of a `sysbatch` job are independent: one that fails, or whose node dies, is told of (`parts`) and the others go on.
//!
//! A fact may come twice, from a node process that was asked again; the second changes nothing. When the job-manager went away
//! and says `start` again, all that is known is told again: it takes what is new to it. Pure: what is to be sent is put into
//! [`Out`]s.
//!
//! A part belongs to a place of the [`Roster`]: one of our nodes, or one that is leaving. One that belongs nowhere is over from the
//! beginning, and its job gets an exception; then nothing of the job is begun, only what runs already is looked after.

use std::collections::{HashMap, HashSet};

use job::JobId;
use protocol::exec::StartRequest;
use sched::NodeSpec;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use crate::engine::orders::{self, Site};
use crate::engine::roster::{Gone, Roster};
use crate::messages::{Ended, Exception, Fact, ToNode, ToShepherd};
use crate::order::Order;

mod parts;

use parts::{Part, Report, Status, Told};

/// The status of a part that is lost: as if it had been killed.
const LOST_STATUS: i32 = (128 + 9) << 8;
/// The status of a part that was never begun.
const NOT_BEGUN_STATUS: i32 = 126 << 8;

/// What the book wants sent.
#[derive(Debug)]
#[must_use]
pub(crate) enum Out {
    /// A response to the job's `start` request: JSON without NUL.
    Answer { id: JobId, payload: Vec<u8> },
    /// A message to a node process.
    Node { place: u32, message: ToNode },
    /// A message to every node process.
    Everywhere { message: ToNode },
    /// A node that is leaving has jobs: it is to be looked after.
    Join { place: u32, name: String },
    /// It has none any more.
    Leave { place: u32 },
    /// The job's last process is gone: what it held can be given out.
    Freed(JobId),
    /// A job on several nodes is over: its exec eventlog wants its last entries.
    Complete { dir: String, status: i32 },
}

#[derive(Debug)]
struct Active {
    userid: u32,
    dir: String,
    parts: Vec<Part>,
    /// The job-manager knows that it started, from before this engine.
    reattach: bool,
    /// One part does not end the others (`sysbatch`).
    independent: bool,
    /// A part is on a node that is gone: the others are not begun either.
    crippled: bool,
    /// It was told to end, which a node process that was away does not know.
    cancelled: bool,
    /// The type of the fatal exception that ends it, if there is one.
    ends_by: Option<String>,
    start_told: bool,
    exceptions: Vec<Exception>,
    over: bool,
}

/// The book.
#[derive(Debug)]
pub(crate) struct Exec {
    site: Site,
    roster: Roster,
    jobs: HashMap<JobId, Active>,
    /// Places whose node process is away.
    down: HashSet<u32>,
    /// Jobs of whose parts something may have to be told.
    untold: HashSet<JobId>,
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
    pub(crate) fn new(site: Site, nodes: Vec<NodeSpec>) -> Exec {
        Exec {
            site,
            roster: Roster::new(nodes),
            jobs: HashMap::new(),
            down: HashSet::new(),
            untold: HashSet::new(),
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
            // It may not have stored what it was told: what it stored, it passes over.
            for part in &mut job.parts {
                part.told = match part.told {
                    Told::Nothing => Told::Nothing,
                    Told::Perhaps | Told::Status(_) => Told::Perhaps,
                };
            }
            return self.tell_all(id, out);
        }
        match orders::orders(request, &self.site) {
            Ok(orders::Plan {
                orders,
                independent,
            }) => {
                self.started += 1;
                let mut job = Active {
                    userid: request.userid,
                    dir: orders
                        .first()
                        .map(|order| order.dir.clone())
                        .unwrap_or_default(),
                    parts: Vec::with_capacity(orders.len()),
                    reattach: request.reattach,
                    independent,
                    crippled: false,
                    cancelled: false,
                    ends_by: None,
                    start_told: false,
                    exceptions: Vec::new(),
                    over: false,
                };
                if request.reattach {
                    answer(id, "reattached", Nothing {}, out);
                }
                for order in &orders {
                    self.add_part(id, &mut job, order, out);
                }
                let parts = job.parts.iter().filter(|part| part.ended.is_none());
                out.extend(parts.filter_map(|part| send(id, &job, part)));
                end_with_others(id, &mut job, out);
                let has_gone = job.parts.iter().any(|part| part.place.is_none());
                let is_news = has_gone || job.parts.iter().any(|part| part.unknown);
                self.jobs.insert(id, job);
                if is_news {
                    self.untold.insert(id);
                }
                if has_gone {
                    self.advance(id, out);
                    self.tell_parts(out);
                }
            }
            Err(error) => {
                self.not_startable(id, &format!("failed to start the job: {error}"), out);
            }
        }
    }

    /// Nothing can be made of a `start`. One that is known goes on; of another something may run from before: it is ended.
    pub(crate) fn not_startable(&mut self, id: JobId, note: &str, out: &mut Vec<Out>) {
        if self.jobs.contains_key(&id) {
            return self.tell_all(id, out);
        }
        answer(id, "exception", Exception::fatal("exec", note), out);
        answer(id, "release", RELEASE, out);
        let message = ToNode::Tell {
            id: id.0,
            what: ToShepherd::Cancel {},
        };
        out.push(Out::Everywhere { message });
        out.push(Out::Freed(id));
    }

    fn add_part(&mut self, id: JobId, job: &mut Active, order: &Order, out: &mut Vec<Out>) {
        let mut part = Part {
            rank: order.rank,
            place: None,
            host: order.host.clone(),
            order: RawValue::NULL.to_owned(),
            started: false,
            unknown: false,
            ended: None,
            stopped: false,
            told: if job.reattach {
                Told::Perhaps
            } else {
                Told::Nothing
            },
        };
        match self.place(job, order, out) {
            Ok(place) => {
                part.place = Some(place);
                part.unknown = self.down.contains(&place);
                // An order always has a JSON form.
                part.order = to_raw_value(order).unwrap_or_default();
            }
            Err(gone) => {
                job.crippled = !job.independent;
                let exception = Exception::fatal("node-fail", gone.to_string());
                note(id, job, exception.clone(), out);
                part.ended = Some(Ended {
                    status: None,
                    exceptions: vec![exception],
                });
            }
        }
        job.parts.push(part);
    }

    /// Where a part belongs.
    fn place(&mut self, job: &Active, order: &Order, out: &mut Vec<Out>) -> Result<u32, Gone> {
        let found = self.roster.add_part(order.rank, &order.host)?;
        let place = found.place;
        if found.is_new {
            let name = order.host.clone();
            out.push(Out::Join { place, name });
        }
        // What a node process says is of a job, not of a rank.
        if job.parts.iter().any(|part| part.place == Some(place)) {
            self.roster.drop_part(place);
            let name = order.host.clone();
            return Err(Gone::Twice { name });
        }
        Ok(place)
    }

    /// A node process went away: what becomes of its parts is not known until the next one says so.
    pub(crate) fn node_down(&mut self, place: u32, out: &mut Vec<Out>) {
        self.down.insert(place);
        for (id, job) in self.jobs.iter_mut().filter(|(_, job)| !job.over) {
            let parts = job.parts.iter_mut();
            for part in parts.filter(|part| part.place == Some(place) && part.ended.is_none()) {
                part.unknown = true;
                self.untold.insert(*id);
            }
        }
        self.tell_parts(out);
    }

    /// A node process is there (again): it is asked for all parts that are its own and not over.
    pub(crate) fn node_up(&mut self, place: u32, out: &mut Vec<Out>) {
        self.down.remove(&place);
        for (id, job) in &self.jobs {
            for part in job
                .parts
                .iter()
                .filter(|part| part.place == Some(place) && part.ended.is_none())
            {
                out.extend(send(*id, job, part));
                if job.cancelled {
                    out.extend(tell(*id, part, &ToShepherd::Cancel {}));
                }
            }
        }
    }

    /// A node process tells something of one part.
    pub(crate) fn fact(&mut self, id: JobId, place: u32, fact: Fact, out: &mut Vec<Out>) {
        let Some(job) = self.jobs.get_mut(&id).filter(|job| !job.over) else {
            return;
        };
        let Some(part) = job.parts.iter_mut().find(|part| part.place == Some(place)) else {
            return;
        };
        part.unknown = false;
        let mut said = Vec::new();
        match fact {
            Fact::Started => part.started = true,
            Fact::Exception(exception) => said.push(exception),
            Fact::Ended(ended) => {
                said.extend(ended.exceptions.iter().cloned());
                if part.ended.is_none() {
                    part.stopped = job.ends_by.as_deref().is_some_and(|kind| kind != NODE_FAIL);
                    part.ended = Some(ended);
                    part.order = RawValue::NULL.to_owned();
                }
            }
        }
        if part.told != Told::Nothing || job.parts.len() > 1 {
            self.untold.insert(id);
        }
        for exception in said {
            note(id, job, exception, out);
        }
        end_with_others(id, job, out);
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
            .all(|part| part.started || part.ended.is_some() || part.unknown);
        if settled && job.parts.iter().any(|part| part.started) {
            tell_start(id, job, out);
        }
        if !job.over && job.parts.iter().all(|part| part.ended.is_some()) {
            job.over = true;
            self.finished += 1;
            self.untold.remove(&id);
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

    /// Whether something of parts may have to be told: soon, so that what several of them do is told at once.
    pub(crate) fn has_untold(&self) -> bool {
        !self.untold.is_empty()
    }

    /// Tells of parts that fare otherwise than their job.
    pub(crate) fn tell_parts(&mut self, out: &mut Vec<Out>) {
        for id in std::mem::take(&mut self.untold) {
            let Some(job) = self.jobs.get_mut(&id).filter(|job| !job.over) else {
                continue;
            };
            let mut report = Report::default();
            for part in &mut job.parts {
                let standing = part.standing();
                if part.is_news(standing.status) {
                    report.add(part, standing);
                }
            }
            tell_report(id, &report, out);
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
            self.untold.insert(id);
        }
    }

    /// Passes something on to all shepherds of a job.
    pub(crate) fn tell(&self, id: JobId, what: &ToShepherd, out: &mut Vec<Out>) {
        let Some(job) = self.jobs.get(&id) else {
            return;
        };
        let parts = job.parts.iter().filter(|part| part.ended.is_none());
        out.extend(parts.filter_map(|part| tell(id, part, what)));
    }

    /// A fatal exception was raised: the job shall end. One that we raised ourselves has been acted on already.
    pub(crate) fn cancel(&mut self, id: JobId, kind: &str, out: &mut Vec<Out>) {
        let Some(job) = self.jobs.get_mut(&id) else {
            return;
        };
        let alone = job.parts.len() == 1;
        if !(alone
            && job
                .exceptions
                .iter()
                .any(|exception| exception.severity == 0 && exception.kind == kind))
        {
            job.cancelled = true;
            job.ends_by.get_or_insert_with(|| kind.to_owned());
            self.tell(id, &ToShepherd::Cancel {}, out);
        }
    }

    /// The job-manager has stored that the job's resources are free. True if they are.
    pub(crate) fn freed(&mut self, id: JobId, out: &mut Vec<Out>) -> bool {
        if self.is_running(id) {
            return false;
        }
        let parts = self.jobs.remove(&id).map(|job| job.parts);
        for place in parts.into_iter().flatten().filter_map(|part| part.place) {
            let message = ToNode::Forget { id: id.0 };
            out.push(Out::Node { place, message });
            if self.roster.drop_part(place) {
                out.push(Out::Leave { place });
            }
        }
        true
    }

    /// These are all the jobs that hold resources: of others that are over, the job-manager has the end.
    pub(crate) fn held(&mut self, held: &HashSet<JobId>, out: &mut Vec<Out>) {
        let jobs = self.jobs.iter();
        let stored: Vec<JobId> = jobs
            .filter(|(id, job)| job.over && !held.contains(id))
            .map(|(id, _)| *id)
            .collect();
        for id in stored {
            self.freed(id, out);
        }
    }
}

/// Asks a part's node process for it; to begin it, if that may be.
fn send(id: JobId, job: &Active, part: &Part) -> Option<Out> {
    let message = ToNode::Start {
        id: id.0,
        rank: part.rank,
        nnodes: u32::try_from(job.parts.len()).unwrap_or(u32::MAX),
        dir: job.dir.clone(),
        reattach: job.reattach || job.crippled || part.started,
        order: part.order.clone(),
    };
    let place = part.place?;
    Some(Out::Node { place, message })
}

fn tell(id: JobId, part: &Part, what: &ToShepherd) -> Option<Out> {
    let message = ToNode::Tell {
        id: id.0,
        what: what.clone(),
    };
    let place = part.place?;
    Some(Out::Node { place, message })
}

/// The type of the exception that is raised for a node that went away.
const NODE_FAIL: &str = "node-fail";

/// Takes note of an exception and tells it, once. What concerns one part of an independent job only is not fatal to the job; its time limit is.
fn note(id: JobId, job: &mut Active, mut exception: Exception, out: &mut Vec<Out>) {
    if job.independent && exception.severity == 0 && exception.kind != "timeout" {
        exception.severity = 1;
    }
    if job.exceptions.contains(&exception) {
        return;
    }
    if exception.severity == 0 {
        job.ends_by.get_or_insert_with(|| exception.kind.clone());
    }
    answer(id, "exception", &exception, out);
    job.exceptions.push(exception);
}

/// What is fatal to one part is to all: the others are told to end, once. The job-manager does not say so, since it had it from here. (The time
/// limit is each part's own.)
fn end_with_others(id: JobId, job: &mut Active, out: &mut Vec<Out>) {
    let is_fatal = |kind: &str| kind != "timeout";
    if job.parts.len() < 2 || job.cancelled || !job.ends_by.as_deref().is_some_and(is_fatal) {
        return;
    }
    job.cancelled = true;
    let parts = job.parts.iter().filter(|part| part.ended.is_none());
    out.extend(parts.filter_map(|part| tell(id, part, &ToShepherd::Cancel {})));
}

fn tell_report(id: JobId, report: &Report, out: &mut Vec<Out>) {
    if !report.is_empty() {
        answer(id, "alloc-status", report, out);
    }
}

fn tell_start(id: JobId, job: &mut Active, out: &mut Vec<Out>) {
    if !std::mem::replace(&mut job.start_told, true) && !job.reattach {
        answer(id, "start", Nothing {}, out);
    }
}

/// The highest of the statuses that are known. Of an independent job's parts each counts, those that are lost or were not begun as well.
fn status(job: &Active) -> Option<i32> {
    if job.independent && job.parts.iter().any(|part| part.started) {
        let statuses = job.parts.iter().map(|part| {
            let known = part.ended.as_ref().and_then(|ended| ended.status);
            known.unwrap_or(match part.standing().status {
                Status::Lost => LOST_STATUS,
                _ => NOT_BEGUN_STATUS,
            })
        });
        return statuses.max();
    }
    job.parts
        .iter()
        .filter_map(|part| part.ended.as_ref()?.status)
        .max()
}

/// What follows for a part from the end of its job. After `cancel` that it was stopped, which no status of its own says.
fn implied(job: &Active, part: &Part, status: Option<i32>) -> Option<Status> {
    Some(match (job.ends_by.as_deref(), status) {
        (Some("cancel"), _) => return None,
        (Some(NODE_FAIL), _) => Status::Lost,
        (_, Some(0)) => Status::Complete,
        (_, Some(_)) => Status::Failed,
        (_, None) if part.started => Status::Lost,
        (_, None) => Status::Failed,
    })
}

fn tell_end(id: JobId, job: &mut Active, out: &mut Vec<Out>) {
    if job.independent && job.ends_by.is_none() && !job.parts.iter().any(|part| part.started) {
        // Nothing ran: there is no status that could say so.
        let exception = Exception::fatal("exec", "no part of the job could be begun");
        job.ends_by = Some(exception.kind.clone());
        answer(id, "exception", &exception, out);
        job.exceptions.push(exception);
    }
    let status = status(job);
    let mut report = Report::default();
    let mut parts = std::mem::take(&mut job.parts);
    let several = parts.len() > 1;
    for part in &mut parts {
        let standing = part.standing();
        let follows = implied(job, part, status);
        let is_other_end = several && standing.wait_status.is_some_and(|own| Some(own) != status);
        // An exception of its own is not the job's, so its end does not say why.
        let has_words = job.independent && standing.reason.is_some();
        let differs = Some(standing.status) != follows || is_other_end || has_words;
        if !part.is_settled() && differs && part.is_news(standing.status) {
            report.add(part, standing);
        }
    }
    job.parts = parts;
    tell_report(id, &report, out);
    match status {
        Some(status) => {
            let release = RELEASE;
            answer(id, "finish", Finish { status, release }, out);
        }
        None => answer(id, "release", RELEASE, out),
    }
}

#[cfg(test)]
mod tests;
