//! How fast the core is by itself: `cargo run --release -p manager --example speed [JOBS]`.
//!
//! Prints submissions a second (one jobspec; a jobspec of its own each), priority changes a second (one request each; all in one request),
//! whole lives a second, and resident bytes per pending job. The disk costs nothing here: each commit is durable after 256 inputs.

use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use job::{JobId, Seq, Timestamp};
use manager::{Action, Call, Config, Input, Manager, Recovered, Report, Sender, Token};
use wire::{Cred, Topic, nul_terminated};

const OWNER: u32 = 1000;
/// Inputs between two words from the disk.
const BATCH: usize = 256;

struct Bench {
    manager: Manager,
    now: f64,
    out: Vec<Action>,
    ids: Vec<JobId>,
    inputs: usize,
}

impl Bench {
    fn new() -> Bench {
        let recovered = Recovered {
            newest_seq: Seq(0),
            max_jobid: JobId(0),
            last_timestamp: Timestamp(1.7e9),
            meta: Vec::new(),
        };
        let manager = Manager::new(
            Config {
                owner: OWNER,
                private: false,
            },
            recovered,
        );
        let mut bench = Bench {
            manager,
            now: 1.7e9,
            out: Vec::new(),
            ids: Vec::new(),
            inputs: 0,
        };
        bench.input(Input::Start);
        bench
    }

    fn input(&mut self, input: Input) {
        self.now += 2e-6;
        self.manager
            .handle(Timestamp(self.now), input, &mut self.out);
        self.inputs += 1;
        if self.inputs.is_multiple_of(BATCH) {
            self.durable();
        }
        for action in self.out.drain(..) {
            if let Action::Commit(commit) = action {
                for write in commit.jobs {
                    if let manager::JobWrite::Insert { id, .. } = write {
                        self.ids.push(id);
                    }
                }
            }
        }
    }

    fn durable(&mut self) {
        let seq = self.manager.newest_seq();
        self.manager
            .handle(Timestamp(self.now), Input::Durable(seq), &mut self.out);
    }

    fn call(&mut self, sender: u64, topic: &'static str, payload: Option<Bytes>, streaming: bool) {
        self.input(Input::Request(Call {
            token: Token(self.inputs as u64),
            sender: Sender(sender),
            cred: Cred::owner(OWNER),
            topic: Topic::from(topic),
            payload,
            streaming,
            noresponse: false,
        }));
    }

    fn report(&mut self, from: u64, topic: &'static str, payload: &str) {
        let payload = Some(nul_terminated(payload.as_bytes()));
        self.input(Input::ServiceResponse(Report {
            from: Sender(from),
            topic: Topic::from(topic),
            payload,
            errnum: 0,
        }));
    }
}

fn submission(number: usize) -> Bytes {
    let header = STANDARD.encode("version\0i1\0userid\0i1000\0mechanism\0snone\0");
    let jobspec = format!(
        r#"{{"resources":[{{"type":"slot","count":1,"with":[{{"type":"core","count":1}}],"label":"task"}}],"tasks":[{{"command":["sleep","{number}"],"slot":"task","count":{{"per_slot":1}}}}],"attributes":{{"system":{{"duration":0,"environment":{{}},"cwd":"/home/user1","shell":{{"options":{{"rlimit":{{}}}}}}}}}},"version":1}}"#
    );
    nul_terminated(
        format!(
            r#"{{"J":"{header}.{}.none","urgency":16,"flags":0}}"#,
            STANDARD.encode(jobspec)
        )
        .as_bytes(),
    )
}

fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap_or_default()
        .to_owned();
    line.split_whitespace()
        .nth(1)
        .and_then(|number| number.parse::<usize>().ok())
        .unwrap_or(0)
        * 1024
}

fn rate(what: &str, count: usize, since: Instant) {
    let seconds = since.elapsed().as_secs_f64();
    println!(
        "{what:<44} {:>12.0} /s   ({count} in {seconds:.3} s)",
        count as f64 / seconds
    );
}

fn main() {
    let jobs: usize = std::env::args()
        .nth(1)
        .and_then(|text| text.parse().ok())
        .unwrap_or(200_000);

    let mut bench = Bench::new();
    let payloads: Vec<Bytes> = (0..jobs).map(submission).collect();
    let before = resident_bytes();
    let start = Instant::now();
    for payload in &payloads {
        bench.call(1, "job-ingest.submit", Some(payload.clone()), false);
    }
    rate("submit, a jobspec each", jobs, start);
    println!(
        "{:<44} {:>12} B",
        "  resident per pending job",
        (resident_bytes().saturating_sub(before)) / jobs
    );
    drop(payloads);

    let mut bench = Bench::new();
    let payload = submission(1);
    let start = Instant::now();
    for _ in 0..jobs {
        bench.call(1, "job-ingest.submit", Some(payload.clone()), false);
    }
    rate("submit, one jobspec", jobs, start);

    let ids = bench.ids.clone();
    let changes: Vec<Bytes> = ids
        .iter()
        .map(|id| {
            nul_terminated(format!(r#"{{"id":{},"urgency":{}}}"#, id.0, 1 + id.0 % 30).as_bytes())
        })
        .collect();
    let start = Instant::now();
    for change in changes {
        bench.call(1, "job-manager.urgency", Some(change), false);
    }
    rate("urgency, one request each", jobs, start);

    let pairs: Vec<String> = ids
        .iter()
        .rev()
        .map(|id| format!("[{},{}]", id.0, 1 + (id.0 / 7) % 30))
        .collect();
    let all = nul_terminated(format!(r#"{{"jobs":[{}]}}"#, pairs.join(",")).as_bytes());
    let start = Instant::now();
    bench.call(1, "job-manager.priority", Some(all), false);
    rate("priority, all jobs in one request", jobs, start);

    let start = Instant::now();
    bench.call(101, "job-manager.sched-hello", None, true);
    bench.call(
        101,
        "job-manager.sched-ready",
        Some(nul_terminated(br#"{"mode":"unlimited"}"#)),
        false,
    );
    bench.call(
        102,
        "job-manager.exec-hello",
        Some(nul_terminated(br#"{"service":"x"}"#)),
        false,
    );
    bench.durable();
    let r = r#"{"version":1,"execution":{"R_lite":[{"rank":"0","children":{"core":"0"}}],"nodelist":["node0"],"starttime":1.0,"expiration":0.0}}"#;
    for id in &ids {
        bench.report(
            101,
            "sched.alloc",
            &format!(r#"{{"id":{},"type":0,"R":{r}}}"#, id.0),
        );
        bench.report(
            102,
            "x.start",
            &format!(r#"{{"id":{},"type":"start","data":{{}}}}"#, id.0),
        );
        let end = r#""data":{"status":0,"release":{"ranks":"all","final":true}}"#;
        bench.report(
            102,
            "x.start",
            &format!(r#"{{"id":{},"type":"finish",{end}}}"#, id.0),
        );
    }
    rate("alloc, start, finish", jobs, start);
    assert!(
        ids.iter().all(|id| bench.manager.job(*id).is_none()),
        "every job ended"
    );
}
