//! What a listing costs: fold, first page, no match, reorder, rank, bytes per job, at 10,000 and at 1,000,000 pending.
//!
//! ```text
//!  cargo run --release -p info --example listing_bench [JOBS…]
//! ```
//! Medians of many calls, in microseconds. The last column of each table is the target of design.md. Bytes are the
//! growth of the resident set from before the fold to after it, so allocator overhead is in.

use std::{fmt::Write as _, hint::black_box, time::Instant};

use info::{Attrs, Constraint, Form, Projection, Query};
use job::{JobId, StateSet};

const EPOCH: &str = "00000000000000e1";

fn main() {
    let sizes: Vec<u64> = std::env::args()
        .skip(1)
        .filter_map(|size| size.parse().ok())
        .collect();
    let sizes = if sizes.is_empty() {
        vec![10_000, 1_000_000]
    } else {
        sizes
    };
    for jobs in sizes {
        run(jobs);
    }
}

fn spec(name: u64) -> String {
    format!(
        r#"{{"resources":[{{"type":"slot","count":1,"label":"task","with":[{{"type":"core","count":1}}]}}],"tasks":[{{"command":["job{name}","1"],"slot":"task","count":{{"per_slot":1}}}}],"attributes":{{"system":{{"duration":0,"cwd":"/home/alice/work"}}}},"version":1}}"#
    )
}

fn backlog(projection: &mut Projection, jobs: u64) {
    let mut text = String::new();
    let mut seq = 0;
    for first in (1..=jobs).step_by(250) {
        text.clear();
        let _ = write!(text, r#"{{"epoch":"{EPOCH}","backlog":true,"events":["#);
        let last = (first + 249).min(jobs);
        for job in first..=last {
            let (id, user, priority) = (job << 24, 1000 + job % 8, job % 32);
            let time = 1.7e9 + job as f64 / 1000.0;
            let events = [
                (
                    "submit",
                    format!(r#"{{"userid":{user},"urgency":16,"flags":0,"version":1}}"#),
                ),
                ("validate", String::new()),
                ("depend", String::new()),
                ("priority", format!(r#"{{"priority":{priority}}}"#)),
            ];
            for (at, (name, context)) in events.iter().enumerate() {
                seq += 1;
                let comma = if job == first && at == 0 { "" } else { "," };
                let number = at + 1;
                let _ = write!(
                    text,
                    r#"{comma}{{"seq":{seq},"id":{id},"eventlog_seq":{number},"entry":{{"timestamp":{time:?},"name":"{name}""#
                );
                if !context.is_empty() {
                    let _ = write!(text, r#","context":{context}"#);
                }
                text.push('}');
                if at == 0 {
                    let _ = write!(text, r#","jobspec":{}"#, spec(job % 40));
                }
                text.push('}');
            }
        }
        text.push_str("]}");
        let _ = fold(projection, &text);
    }
    let _ = fold(
        projection,
        &format!(r#"{{"epoch":"{EPOCH}","seq":{seq},"caught_up":true,"events":[]}}"#),
    );
}

fn fold(projection: &mut Projection, text: &str) -> bool {
    projection
        .fold_native(text.as_bytes(), &mut |_| {})
        .is_ok_and(|folded| folded.caught_up)
}

fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse::<u64>().ok())
        .unwrap_or(0)
        * 4096
}

fn median_us(calls: usize, mut call: impl FnMut(usize)) -> f64 {
    let mut times: Vec<f64> = (0..calls)
        .map(|at| {
            let start = Instant::now();
            call(at);
            start.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times.get(calls / 2).copied().unwrap_or(0.0)
}

fn page(projection: &Projection, query: &Query, attrs: &Attrs, out: &mut Vec<u8>) -> usize {
    out.clear();
    let ids = query.run(projection.jobs()).unwrap_or_default();
    for id in &ids {
        if let Some(record) = projection.jobs().get(*id) {
            let _ = attrs.write(record, out);
        }
    }
    ids.len()
}

fn run(jobs: u64) {
    let before = resident_bytes();
    let mut projection = Projection::new();
    projection.begin_fresh(Form::Native);
    let start = Instant::now();
    backlog(&mut projection, jobs);
    let folded = start.elapsed().as_secs_f64();
    let grown = resident_bytes().saturating_sub(before);
    println!("\n{jobs} pending jobs");
    println!(
        "  fold, 4 events each          {:>12.0} events/s",
        4.0 * jobs as f64 / folded
    );
    println!(
        "  resident bytes per job       {:>12.0}      < 600",
        grown as f64 / jobs as f64
    );
    println!(
        "  counted bytes per job        {:>12.0}",
        projection.jobs().heap_bytes() as f64 / jobs as f64
    );

    let attrs = Attrs::named([
        "userid", "urgency", "priority", "t_submit", "state", "name", "ntasks", "nnodes", "queue",
    ]);
    let all = Attrs::named(["all"]);
    let mut out = Vec::new();
    let active = || Constraint::States(StateSet::ACTIVE);
    let user = |user| Constraint::User(vec![user]);
    let name = |name: &str| Constraint::Name(vec![name.into()]);
    let cases = [
        ("first 25 pending", vec![active()], 25, "< 150"),
        (
            "first 25 of one user",
            vec![user(1003), active()],
            25,
            "< 150",
        ),
        (
            "first 25 of one name",
            vec![name("job7"), active()],
            25,
            "< 150",
        ),
        (
            "no match: unknown user",
            vec![user(7), active()],
            1001,
            "< 200",
        ),
        (
            "no match: unknown name",
            vec![user(1003), name("x"), active()],
            1001,
            "< 200",
        ),
        // Users go by 8, names by 40: this pair never meets.
        (
            "no match: user and name",
            vec![user(1003), name("job8"), active()],
            1001,
            "< 200",
        ),
        (
            "no match: inactive",
            vec![user(1003), Constraint::States(StateSet(64))],
            1001,
            "< 200",
        ),
    ];
    for (what, parts, limit, target) in cases {
        let query = Query {
            constraint: Constraint::And(parts),
            since: 0.0,
            limit,
        };
        let us = median_us(200, |_| {
            black_box(page(&projection, &query, &attrs, &mut out));
        });
        println!("  {what:<28} {us:>12.2} µs   {target}");
    }
    let query = Query {
        limit: 25,
        ..Query::default()
    };
    let us = median_us(200, |_| {
        black_box(page(&projection, &query, &all, &mut out));
    });
    println!("  first 25, all attributes     {us:>12.2} µs");
    let query = Query::default();
    let us = median_us(5, |_| {
        black_box(query.run(projection.jobs()).map_or(0, |ids| ids.len()));
    });
    println!("  ids of all jobs              {us:>12.2} µs");
    let us = median_us(5, |_| {
        black_box(page(&projection, &query, &attrs, &mut out));
    });
    println!(
        "  rows of all jobs             {:>12.3} µs a row",
        us / jobs as f64
    );

    let us = median_us(1000, |at| {
        let id = JobId((1 + (at as u64 * 7919) % jobs) << 24);
        black_box(projection.jobs().rank(id));
    });
    println!("  rank of a job                {us:>12.2} µs");

    let mut seq = 4 * jobs;
    let mut urgency = |projection: &mut Projection, number: u32, from: u64, to: u64, value: u64| {
        let mut text = format!(r#"{{"epoch":"{EPOCH}","events":["#);
        for job in from..=to {
            let id = job << 24;
            let comma = if job == from { "" } else { "," };
            let (first, second) = (number, number + 1);
            let _ = write!(
                text,
                r#"{comma}{{"seq":{},"id":{id},"eventlog_seq":{first},"entry":{{"timestamp":1.8e9,"name":"urgency","context":{{"userid":1,"urgency":{value}}}}}}},{{"seq":{},"id":{id},"eventlog_seq":{second},"entry":{{"timestamp":1.8e9,"name":"priority","context":{{"priority":{value}}}}}}}"#,
                seq + 1,
                seq + 2
            );
            seq += 2;
        }
        let _ = write!(text, r#"],"seq":{seq}}}"#);
        let start = Instant::now();
        let _ = fold(projection, &text);
        start.elapsed().as_secs_f64() * 1e6
    };
    let mut times: Vec<f64> = (0..200u64)
        .map(|at| {
            let job = 1 + (at * 104_729) % jobs;
            urgency(
                &mut projection,
                1_000_000 + 2 * at as u32,
                job,
                job,
                at % 32,
            )
        })
        .collect();
    times.sort_by(f64::total_cmp);
    println!("  one priority change, folded  {:>12.2} µs", times[100]);
    let us = urgency(&mut projection, 3_000_000, 1, jobs, 31);
    println!(
        "  all priorities changed       {:>12.3} s    (one batch, one pass)",
        us / 1e6
    );
    println!(
        "  reorder passes               {:>12}",
        projection.counters().reorder_passes
    );
}
