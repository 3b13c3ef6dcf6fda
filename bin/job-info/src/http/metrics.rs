//! `/metrics`: what this process counts, as Prometheus reads it. The names are listed in `rfc/9_http.md`.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use info::FoldCounters;
use job::{JobResult, State};
use views::{Views, watch::Stats};

use super::app::App;
use crate::core::Info;

/// Upper bounds of the histogram's buckets, in seconds.
const BUCKETS: [f64; 14] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
];

const STATES: [State; 7] = [
    State::New,
    State::Depend,
    State::Priority,
    State::Sched,
    State::Run,
    State::Cleanup,
    State::Inactive,
];
const RESULTS: [JobResult; 4] = [
    JobResult::Completed,
    JobResult::Failed,
    JobResult::Canceled,
    JobResult::Timeout,
];

/// What the loop knows.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    states: Vec<(State, u64)>,
    results: Vec<(JobResult, u64)>,
    set_aside: usize,
    seq: u64,
    mark: u64,
    fold: FoldCounters,
    requests: u64,
    connects: u64,
    rebuilds: u64,
    streams: usize,
    held: usize,
    waiting: usize,
    views: Stats,
}

impl Facts {
    pub(crate) fn of(info: &Info, views: &Views, waiting: usize) -> Self {
        let jobs = info.projection.jobs();
        let all = jobs.counts().all();
        Self {
            states: STATES.map(|state| (state, all.state(state))).to_vec(),
            results: RESULTS.map(|result| (result, all.result(result))).to_vec(),
            set_aside: jobs.set_aside().len(),
            seq: info.projection.applied(),
            mark: info.projection.mark(),
            fold: info.projection.counters(),
            requests: info.requests,
            connects: info.link.attempts,
            rebuilds: info.poisonings,
            streams: info.streams.len(),
            held: info.hold.len(),
            waiting,
            views: views.stats(),
        }
    }
}

/// What the connections count.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// By route and status.
    requests: Mutex<BTreeMap<(&'static str, u16), u64>>,
    buckets: [AtomicU64; BUCKETS.len()],
    nanos: AtomicU64,
    timed: AtomicU64,
    waiting: AtomicUsize,
    wakes: AtomicU64,
    timeouts: AtomicU64,
    pub(crate) streams: AtomicUsize,
    pub(crate) connections: AtomicUsize,
    pub(crate) accepted: AtomicU64,
    pub(crate) refused: AtomicU64,
}

/// One blocked query.
pub(crate) struct Waiting<'a>(&'a Counters);

impl Waiting<'_> {
    /// It was answered: because its time was up, or before.
    pub(crate) fn over(self, timed_out: bool) {
        let count = if timed_out {
            &self.0.timeouts
        } else {
            &self.0.wakes
        };
        count.fetch_add(1, Relaxed);
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Relaxed);
    }
}

impl Counters {
    /// A request was answered; those that may have waited are not timed.
    pub(crate) fn answered(&self, route: &'static str, status: u16, took: Option<Duration>) {
        *self
            .requests
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .entry((route, status))
            .or_default() += 1;
        let Some(took) = took else {
            return;
        };
        let seconds = took.as_secs_f64();
        for (bound, bucket) in BUCKETS.iter().zip(&self.buckets) {
            if seconds <= *bound {
                bucket.fetch_add(1, Relaxed);
            }
        }
        self.timed.fetch_add(1, Relaxed);
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.nanos.fetch_add(nanos, Relaxed);
    }

    /// A query is blocked, for as long as the result lives.
    pub(crate) fn wait(&self) -> Waiting<'_> {
        self.waiting.fetch_add(1, Relaxed);
        Waiting(self)
    }

    /// All of it.
    pub(crate) fn text(&self, facts: &Facts, app: &App) -> String {
        let mut out = Text(String::with_capacity(8 << 10));
        out.head("weir_jobs", "gauge", "Jobs in the list by state");
        for (state, count) in &facts.states {
            out.with(
                "weir_jobs",
                "state",
                &state.long().to_ascii_lowercase(),
                *count,
            );
        }
        out.head(
            "weir_jobs_inactive",
            "gauge",
            "Jobs that have ended by result",
        );
        for (result, count) in &facts.results {
            out.with(
                "weir_jobs_inactive",
                "result",
                &result.long().to_ascii_lowercase(),
                *count,
            );
        }
        out.one(
            "weir_jobs_set_aside",
            "gauge",
            "Jobs the list goes on without",
            facts.set_aside as u64,
        );
        out.one(
            "weir_journal_seq",
            "gauge",
            "Seq of the newest entry in the list",
            facts.seq,
        );
        let behind = facts.mark.saturating_sub(facts.seq);
        out.one(
            "weir_journal_behind",
            "gauge",
            "Entries known of that are not in the list yet",
            behind,
        );
        let stale = app.line.status().stale(Instant::now()).unwrap_or(0.0);
        out.real(
            "weir_journal_stale_seconds",
            "gauge",
            "Seconds since the list last followed its journal; 0 while it does",
            stale,
        );
        let fold = &facts.fold;
        for (name, about, value) in [
            ("batches", "Batches folded, progress included", fold.batches),
            ("entries", "Journal entries folded", fold.events),
            ("duplicates", "Entries that came again", fold.duplicates),
            (
                "unknown",
                "Entries of jobs that are not there",
                fold.unknown,
            ),
            (
                "invalid",
                "Entries that make no sense for their job",
                fold.invalid,
            ),
            ("aside", "Entries of jobs that are set aside", fold.aside),
            (
                "gaps",
                "Places where entries of a job were missing",
                fold.gaps,
            ),
            (
                "rebuilds",
                "Lists swapped in after the first",
                fold.rebuilds,
            ),
            (
                "reorder_passes",
                "Passes that moved a job in an order",
                fold.reorder_passes,
            ),
            ("moves", "Moves made in them", fold.moves),
        ] {
            out.one(&format!("weir_fold_{name}_total"), "counter", about, value);
        }
        out.one(
            "weir_list_connects_total",
            "counter",
            "Attempts to connect to the job-manager",
            facts.connects,
        );
        out.one(
            "weir_list_rebuilds_total",
            "counter",
            "Journal streams that could not be followed",
            facts.rebuilds,
        );
        out.one(
            "weir_rpc_requests_total",
            "counter",
            "Requests over the sockets",
            facts.requests,
        );
        out.one(
            "weir_rpc_streams",
            "gauge",
            "Open streams over the sockets",
            facts.streams as u64,
        );
        out.one(
            "weir_rpc_held",
            "gauge",
            "Requests that wait for the list",
            facts.held as u64,
        );

        out.head(
            "weir_http_requests_total",
            "counter",
            "Requests answered by route and status",
        );
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        for ((route, status), count) in requests.iter() {
            let _ = writeln!(
                out.0,
                "weir_http_requests_total{{route=\"{route}\",code=\"{status}\"}} {count}"
            );
        }
        drop(requests);
        let name = "weir_http_request_seconds";
        out.head(name, "histogram", "Time from a request's head to that of its answer; blocked queries and streams are left out");
        for (bound, bucket) in BUCKETS.iter().zip(&self.buckets) {
            out.with(
                &format!("{name}_bucket"),
                "le",
                &bound.to_string(),
                bucket.load(Relaxed),
            );
        }
        let timed = self.timed.load(Relaxed);
        out.with(&format!("{name}_bucket"), "le", "+Inf", timed);
        let seconds = self.nanos.load(Relaxed) as f64 / 1e9;
        let _ = writeln!(out.0, "{name}_sum {seconds}\n{name}_count {timed}");
        out.one(
            "weir_http_waiting",
            "gauge",
            "Blocked queries",
            self.waiting.load(Relaxed) as u64,
        );
        out.one(
            "weir_http_waiters",
            "gauge",
            "Blocked queries and streams that the list knows of",
            facts.waiting as u64,
        );
        out.one(
            "weir_http_wakes_total",
            "counter",
            "Blocked queries answered because of a change",
            self.wakes.load(Relaxed),
        );
        out.one(
            "weir_http_timeouts_total",
            "counter",
            "Blocked queries answered because their time was up",
            self.timeouts.load(Relaxed),
        );
        out.one(
            "weir_http_streams",
            "gauge",
            "Open event streams",
            self.streams.load(Relaxed) as u64,
        );
        out.one(
            "weir_http_connections",
            "gauge",
            "Open connections",
            self.connections.load(Relaxed) as u64,
        );
        out.one(
            "weir_http_accepted_total",
            "counter",
            "Connections accepted",
            self.accepted.load(Relaxed),
        );
        out.one(
            "weir_http_refused_total",
            "counter",
            "Connections refused because there are too many",
            self.refused.load(Relaxed),
        );
        out.one(
            "weir_http_sending_bytes",
            "gauge",
            "Bytes of different bodies on their way",
            app.sending.bytes() as u64,
        );
        out.one(
            "weir_http_forms_made_total",
            "counter",
            "Bodies indented or compressed",
            app.forms.made(),
        );
        let views = &facts.views;
        for (name, about, value) in [
            (
                "views",
                "Distinct queries that are held",
                views.views as u64,
            ),
            (
                "views_idle",
                "Those that nobody waits for",
                views.idle as u64,
            ),
            (
                "changes",
                "Changes that are kept for queries to come",
                views.log as u64,
            ),
            (
                "cache_bytes",
                "Bytes of rows and bodies that are kept",
                views.cache_bytes as u64,
            ),
        ] {
            out.one(&format!("weir_http_{name}"), "gauge", about, value);
        }
        for (name, about, value) in [
            (
                "touched",
                "Held queries that a change touched",
                views.touched,
            ),
            (
                "woken",
                "Waiters answered because of a change, streams included",
                views.woken,
            ),
            ("rows_made", "Rows encoded", views.rows_made),
            (
                "filtered",
                "Times a filter was asked about a job",
                views.filtered,
            ),
        ] {
            out.one(&format!("weir_http_{name}_total"), "counter", about, value);
        }
        process(&mut out);
        out.0
    }
}

/// Under the names that Prometheus' own libraries use.
fn process(out: &mut Text) {
    let page = rustix::param::page_size() as u64;
    let memory = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let mut pages = memory
        .split(' ')
        .filter_map(|word| word.parse::<u64>().ok());
    if let (Some(virt), Some(resident)) = (pages.next(), pages.next()) {
        out.one(
            "process_virtual_memory_bytes",
            "gauge",
            "Virtual memory",
            virt * page,
        );
        out.one(
            "process_resident_memory_bytes",
            "gauge",
            "Resident memory",
            resident * page,
        );
    }
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let time = Duration::try_from(time).unwrap_or_default();
    out.real(
        "process_cpu_seconds_total",
        "counter",
        "Processor time",
        time.as_secs_f64(),
    );
}

/// The text so far.
struct Text(String);

impl Text {
    fn head(&mut self, name: &str, kind: &str, about: &str) {
        let _ = writeln!(self.0, "# HELP {name} {about}.\n# TYPE {name} {kind}");
    }

    fn one(&mut self, name: &str, kind: &str, about: &str, value: u64) {
        self.head(name, kind, about);
        let _ = writeln!(self.0, "{name} {value}");
    }

    fn real(&mut self, name: &str, kind: &str, about: &str, value: f64) {
        self.head(name, kind, about);
        let _ = writeln!(self.0, "{name} {value}");
    }

    fn with(&mut self, name: &str, label: &str, value: &str, count: u64) {
        let _ = writeln!(self.0, "{name}{{{label}=\"{value}\"}} {count}");
    }
}
