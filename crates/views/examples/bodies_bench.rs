//! What bodies and events cost, at many jobs: pages of `/v1/jobs`, filters, the event stream.
//!
//! ```text
//!  nice cargo run --release -p views --example bodies_bench [JOBS…]
//! ```
//! Medians of several calls, in microseconds; of a filter also nanoseconds a job.

use std::{fmt::Write as _, hint::black_box, time::Instant};

use info::{Form, Projection};
use views::{
    Viewer,
    bodies::{LOOK_MAX, List, ListParams, Query},
    stream::{Events, Limits, Next, Start, Subscription},
};

const EPOCH: &str = "00000000000000e1";

type Done = Result<(), Box<dyn std::error::Error>>;

fn main() -> Done {
    let sizes: Vec<u64> = std::env::args()
        .skip(1)
        .filter_map(|size| size.parse().ok())
        .collect();
    for jobs in if sizes.is_empty() {
        vec![10_000, 1_000_000]
    } else {
        sizes
    } {
        run(jobs)?;
    }
    Ok(())
}

/// Batches of new pending jobs, of ids `from` to `to`.
fn submits(from: u64, to: u64, seq: &mut u64) -> String {
    let mut text = String::new();
    for job in from..to {
        let (id, user) = (job << 24, 1000 + job % 8);
        let time = 1.7e9 + job as f64 / 1000.0;
        let spec = format!(
            r#","jobspec":{{"resources":[{{"type":"slot","count":1,"label":"task","with":[{{"type":"core","count":1}}]}}],"tasks":[{{"command":["job{}"],"slot":"task","count":{{"per_slot":1}}}}],"attributes":{{"system":{{"duration":0}}}},"version":1}}"#,
            job % 100
        );
        let submit =
            format!(r#","context":{{"userid":{user},"urgency":16,"flags":0,"version":1}}"#);
        let events = [
            ("submit", submit.as_str(), spec.as_str()),
            ("validate", "", ""),
            ("depend", "", ""),
            ("priority", r#","context":{"priority":16}"#, ""),
        ];
        for (at, (name, context, attach)) in events.iter().enumerate() {
            *seq += 1;
            let comma = if text.is_empty() { "" } else { "," };
            let _ = write!(
                text,
                r#"{comma}{{"seq":{seq},"id":{id},"eventlog_seq":{},"entry":{{"timestamp":{time:?},"name":"{name}"{context}}}{attach}}}"#,
                at + 1
            );
        }
    }
    text
}

fn fold(projection: &mut Projection, text: &str) -> Done {
    let folded = projection.fold_native(text.as_bytes(), &mut |_| {});
    let _ = folded?;
    Ok(())
}

fn median(mut call: impl FnMut()) -> f64 {
    let mut times: Vec<f64> = (0..15)
        .map(|_| {
            let started = Instant::now();
            call();
            started.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[7]
}

fn run(jobs: u64) -> Done {
    let mut projection = Projection::new();
    projection.watch_changes(true);
    projection.begin_fresh(Form::Native);
    let mut seq = 0;
    for first in (1..=jobs).step_by(250) {
        let entries = submits(first, (first + 250).min(jobs + 1), &mut seq);
        fold(
            &mut projection,
            &format!(r#"{{"epoch":"{EPOCH}","backlog":true,"events":[{entries}]}}"#),
        )?;
    }
    fold(
        &mut projection,
        &format!(r#"{{"epoch":"{EPOCH}","seq":{seq},"caught_up":true,"events":[]}}"#),
    )?;
    let _changes = projection.take_changes();
    println!("{jobs} jobs");
    for (name, filter, per_page) in [
        ("first 25 of /v1/jobs", "", 25),
        ("first 10,000 of /v1/jobs", "", 10_000),
        ("25 of a name, by its index", "Name == job7", 25),
        ("a name that nobody has", "Name == nobody", 25),
        ("a status that no job has", "Status == dead", 25),
        (
            "a regex that matches nothing",
            "Name matches `(?i)nobody`",
            25,
        ),
        (
            "an id's regex that matches nothing",
            "ID matches `nobody`",
            25,
        ),
    ] {
        let list = List::new(&ListParams {
            filter,
            per_page,
            ..ListParams::default()
        })?;
        let query = Query::Jobs { list, meta: false };
        let time = median(|| {
            let _ = black_box(query.make(&projection, Viewer::OWNER));
        });
        let looked = (jobs as usize).min(LOOK_MAX);
        println!(
            "  {name:40} {time:12.1} µs  {:8.1} ns a job",
            time * 1e3 / looked as f64
        );
    }
    let mut events = Events::new(Limits::default());
    let all = Subscription::new([], None, Viewer::OWNER)?;
    let one = Subscription::new(["Job:f1"], None, Viewer::OWNER)?;
    let place = events.subscribe(&projection, Start::Now, None)?;
    let mut places = [place, place];
    let mut next = jobs + 1;
    let (mut taken, mut told, mut passed) = (0.0, 0.0, 0.0);
    const ROUNDS: u64 = 40;
    const EACH: u64 = 250;
    for _ in 0..ROUNDS {
        let entries = submits(next, next + EACH, &mut seq);
        next += EACH;
        fold(
            &mut projection,
            &format!(r#"{{"epoch":"{EPOCH}","seq":{seq},"events":[{entries}]}}"#),
        )?;
        let changes = projection.take_changes();
        let started = Instant::now();
        events.changed(&projection, &changes);
        taken += started.elapsed().as_secs_f64();
        for (wants, place, spent) in [(&all, 0, &mut told), (&one, 1, &mut passed)] {
            let started = Instant::now();
            while !matches!(
                black_box(events.next(&projection, wants, &mut places[place])),
                Next::Idle
            ) {}
            *spent += started.elapsed().as_secs_f64();
        }
    }
    let each = |seconds: f64| seconds * 1e9 / (ROUNDS * EACH) as f64;
    println!(
        "  {:40} {:12.1} ns a change",
        "events: taken in",
        each(taken)
    );
    println!(
        "  {:40} {:12.1} ns a change",
        "events: told to a reader of all",
        each(told)
    );
    println!(
        "  {:40} {:12.1} ns a change",
        "events: passed over by a reader of one",
        each(passed)
    );
    Ok(())
}
