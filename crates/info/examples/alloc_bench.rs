//! What allocations and nodes cost: jobs that ran, one job on very many nodes, the status on each, a page by newest change.
//!
//! ```text
//!  cargo run --release -p info --example alloc_bench [JOBS [NODES]]
//! ```
//! Medians, in microseconds; bytes are the growth of the resident set. No row is a target of design.md by itself: the statuses of
//! a job with 100,000 allocations must be served within 8 ms, and this is the part of it that is here.

use std::{fmt::Write as _, hint::black_box, time::Instant};

use info::{Allocs, ClientStatus, Form, ModifyKey, Projection, clients};
use job::JobId;

const EPOCH: &str = "00000000000000e1";

fn main() {
    let mut sizes = std::env::args()
        .skip(1)
        .filter_map(|size| size.parse::<u64>().ok());
    let jobs = sizes.next().unwrap_or(200_000);
    let nodes = sizes.next().unwrap_or(100_000);
    wide(nodes);
    ended(jobs);
}

fn fold(projection: &mut Projection, text: &str) {
    if let Err(error) = projection.fold_native(text.as_bytes(), &mut |_| {}) {
        println!("  the journal cannot be folded: {error}");
    }
}

fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or(0) * 4096
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

/// The entries of one job from its submit to its end, on one of 1,000 nodes.
fn life(out: &mut String, job: u64, seq: &mut u64, comma: &mut bool) {
    let node = job % 1000;
    let r = format!(
        r#","R":{{"version":1,"execution":{{"R_lite":[{{"rank":"{node}","children":{{"core":"0"}}}}],"nodelist":["node{node}"],"starttime":0.0,"expiration":0.0}}}}"#
    );
    let events = [
        (
            "submit",
            r#","context":{"userid":1000,"urgency":16,"flags":0,"version":1}"#,
            "",
        ),
        ("validate", "", ""),
        ("depend", "", ""),
        ("priority", r#","context":{"priority":16}"#, ""),
        ("alloc", "", r.as_str()),
        ("start", "", ""),
        ("finish", r#","context":{"status":0}"#, ""),
        ("release", r#","context":{"ranks":"all","final":true}"#, ""),
        ("free", "", ""),
        ("clean", "", ""),
    ];
    for (at, (name, context, attach)) in events.iter().enumerate() {
        *seq += 1;
        let (id, number, time) = (job << 24, at + 1, 1.7e9 + *seq as f64 / 1000.0);
        let lead = if std::mem::replace(comma, true) {
            ","
        } else {
            ""
        };
        let spec = if at == 0 {
            r#","jobspec":{"resources":[{"type":"slot","count":1,"label":"task","with":[{"type":"core","count":1}]}],"tasks":[{"command":["true"],"slot":"task","count":{"per_slot":1}}],"attributes":{"system":{"duration":0}},"version":1}"#
        } else {
            ""
        };
        let _ = write!(
            out,
            r#"{lead}{{"seq":{seq},"id":{id},"eventlog_seq":{number},"entry":{{"timestamp":{time:?},"name":"{name}"{context}}}{attach}{spec}}}"#
        );
    }
}

fn batches(jobs: u64, mut each: impl FnMut(&str, u64)) {
    let (mut text, mut seq) = (String::new(), 0);
    for first in (1..=jobs).step_by(100) {
        text.clear();
        let _ = write!(text, r#"{{"epoch":"{EPOCH}","events":["#);
        let mut comma = false;
        for job in first..(first + 100).min(jobs + 1) {
            life(&mut text, job, &mut seq, &mut comma);
        }
        let _ = write!(text, r#"],"seq":{seq}}}"#);
        each(&text, seq);
    }
}

fn ended(jobs: u64) {
    println!("\n{jobs} jobs that ran, on 1,000 nodes");
    for (how, live, watched) in [
        ("rebuilt", false, false),
        ("followed", true, false),
        ("followed, changes taken", true, true),
    ] {
        let before = resident_bytes();
        let mut projection = Projection::new();
        projection.begin_fresh(Form::Native);
        if live {
            fold(
                &mut projection,
                &format!(r#"{{"epoch":"{EPOCH}","seq":0,"caught_up":true,"events":[]}}"#),
            );
        }
        projection.watch_changes(watched);
        let (mut seconds, mut newest) = (0.0, 0);
        batches(jobs, |text, seq| {
            let start = Instant::now();
            fold(&mut projection, text);
            black_box(projection.take_changes());
            seconds += start.elapsed().as_secs_f64();
            newest = seq;
        });
        let start = Instant::now();
        if !live {
            fold(
                &mut projection,
                &format!(r#"{{"epoch":"{EPOCH}","seq":{newest},"caught_up":true,"events":[]}}"#),
            );
        }
        seconds += start.elapsed().as_secs_f64();
        let grown = resident_bytes().saturating_sub(before);
        println!(
            "  {how:<28} {:>12.0} events/s {:>8.0} bytes a job",
            10.0 * jobs as f64 / seconds,
            grown as f64 / jobs as f64
        );
        if live && !watched {
            let order = projection.jobs().by_modify();
            let us = median_us(1000, |at| {
                let seq = 1 + (at as u64 * 7919) % newest;
                let until = order.before(&ModifyKey::seek(seq));
                black_box(order.iter_down(until).take(25).count());
            });
            println!("  a page of 25 by newest change {us:>11.2} µs");
        }
    }
}

fn wide(nodes: u64) {
    println!("\none job on {nodes} nodes");
    let last = nodes - 1;
    let mut projection = Projection::new();
    projection.begin_fresh(Form::Native);
    let r = format!(
        r#"{{"version":1,"execution":{{"R_lite":[{{"rank":"0-{last}","children":{{"core":"0-3"}}}}],"nodelist":["node[0-{last}]"],"starttime":0.0,"expiration":0.0}}}}"#
    );
    let start = Instant::now();
    fold(
        &mut projection,
        &format!(
            r#"{{"epoch":"{EPOCH}","seq":0,"caught_up":true,"events":[],"resources":{{"seq":0,"define":{{"method":"announced","R":{r},"pools":{{}}}},"up":"0-{last}","drained":[]}}}}"#
        ),
    );
    println!(
        "  the nodes, taken            {:>12.0} µs",
        start.elapsed().as_secs_f64() * 1e6
    );
    let mut seq = 0;
    let mut send = |projection: &mut Projection, number: u32, name: &str, rest: &str| {
        seq += 1;
        let text = format!(
            r#"{{"epoch":"{EPOCH}","events":[{{"seq":{seq},"id":7,"eventlog_seq":{number},"entry":{{"timestamp":1.7e9,"name":"{name}"{rest}}}],"seq":{seq}}}"#
        );
        let start = Instant::now();
        fold(projection, &text);
        start.elapsed().as_secs_f64() * 1e6
    };
    let submit = r#","context":{"userid":1000,"urgency":16,"flags":0,"version":1}}"#;
    let before = resident_bytes();
    send(&mut projection, 1, "submit", submit);
    send(&mut projection, 2, "validate", "}");
    send(&mut projection, 3, "depend", "}");
    send(
        &mut projection,
        4,
        "priority",
        r#","context":{"priority":16}}"#,
    );
    let us = send(&mut projection, 5, "alloc", &format!(r#"}},"R":{r}"#));
    let grown = resident_bytes().saturating_sub(before);
    println!("  alloc, folded               {us:>12.0} µs");
    println!(
        "  bytes an allocation         {:>12.1}",
        grown as f64 / nodes as f64
    );
    send(&mut projection, 6, "start", "}");
    walk(&projection, "running");
    // Every second one fails, each with an exit code: the worst there is.
    let mut parts = String::new();
    for rank in (0..nodes).step_by(2) {
        let comma = if rank == 0 { "" } else { "," };
        let code = (rank % 200 + 1) * 256;
        let _ = write!(
            parts,
            r#"{comma}{{"ranks":"{rank}","status":"failed","wait_status":{code}}}"#
        );
    }
    let us = send(
        &mut projection,
        7,
        "alloc-status",
        &format!(r#","context":{{"allocs":[{parts}]}}}}"#),
    );
    println!("  every second failed, folded {us:>12.0} µs");
    walk(&projection, "every second failed");
    more(&mut projection, nodes, &r);
}

/// Other jobs on the same nodes: what each of their allocations costs.
fn more(projection: &mut Projection, nodes: u64, r: &str) {
    const JOBS: u64 = 8;
    let before = resident_bytes();
    let mut seq = 1000;
    for job in 0..JOBS {
        let id = 100 + job;
        for (at, (name, rest)) in [
            (
                "submit",
                r#","context":{"userid":1000,"urgency":16,"flags":0,"version":1}}"#.to_owned(),
            ),
            ("validate", "}".to_owned()),
            ("depend", "}".to_owned()),
            ("priority", r#","context":{"priority":16}}"#.to_owned()),
            ("alloc", format!(r#"}},"R":{r}"#)),
        ]
        .iter()
        .enumerate()
        {
            seq += 1;
            let number = at + 1;
            fold(
                projection,
                &format!(
                    r#"{{"epoch":"{EPOCH}","events":[{{"seq":{seq},"id":{id},"eventlog_seq":{number},"entry":{{"timestamp":1.7e9,"name":"{name}"{rest}}}],"seq":{seq}}}"#
                ),
            );
        }
    }
    let grown = resident_bytes().saturating_sub(before);
    println!(
        "  bytes an allocation         {:>12.1}    (of further jobs)",
        grown as f64 / (JOBS * nodes) as f64
    );
}

fn walk(projection: &Projection, what: &str) {
    let Some(record) = projection.jobs().get(JobId(7)) else {
        return;
    };
    let nodes = projection.nodes();
    let us = median_us(21, |_| {
        let allocs = Allocs::of(record, nodes);
        let sum: u64 = allocs
            .iter()
            .map(|alloc| u64::from(alloc.rank) + alloc.modified.seq + alloc.status as u64)
            .sum();
        black_box(sum);
    });
    println!("  all allocations, {what:<20} {us:>9.0} µs");
    let us = median_us(21, |_| {
        black_box(clients::per_client(record, nodes).count(ClientStatus::Running));
    });
    println!("  status on every node        {us:>12.0} µs");
}
