//! Measures fan-out: how many entries a second reach 100 listeners, with one filter and with many, and what an idle crowd costs.
//!
//! `cargo run --release -p journal --example fanout -- [ENTRIES]`. One thread, no sockets: what the job-manager's loop spends before it
//! hands bytes to the connections. Time is simulated: a commit every millisecond, a poll after each.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use job::{Attach, Entry, Event, JobId, Seq, Source, Timestamp};
use journal::{Fanout, Filter, Format, Limits, ListenerId, Out, Rights, Spec, Start};

const NAMES: [&str; 8] = [
    "submit", "validate", "depend", "priority", "alloc", "start", "finish", "clean",
];

fn main() {
    let count: u64 = std::env::args()
        .nth(1)
        .and_then(|text| text.parse().ok())
        .unwrap_or(500_000);
    let commits = commits(count, 500);
    let all = |_: u64| Filter::all(Rights::Owner);
    run(
        "100 listeners, one filter",
        &commits,
        100,
        Format::Native,
        all,
    );
    run(
        "100 listeners, 8 filters",
        &commits,
        100,
        Format::Native,
        |id| Filter::all(Rights::Owner).deny([NAMES[(id % 8) as usize]]),
    );
    run(
        "100 listeners, 100 filters",
        &commits,
        100,
        Format::Native,
        |id| Filter::all(Rights::Owner).deny([format!("x{id}")]),
    );
    run(
        "100 listeners, Flux's form",
        &commits,
        100,
        Format::Flux,
        all,
    );
    run("1 listener", &commits, 1, Format::Native, all);
    run(
        "10,000 listeners of one job each that is silent",
        &commits,
        10_000,
        Format::Native,
        |id| Filter::all(Rights::Owner).of_jobs([JobId(id)]),
    );
}

fn commits(count: u64, size: u64) -> Vec<Vec<Arc<Entry>>> {
    let mut seq = Seq(0);
    let mut entry = |at: u64| {
        seq = seq.next();
        let context = match at % 8 {
            0 => r#","context":{"userid":1000,"urgency":16,"flags":0,"version":1}"#,
            3 => r#","context":{"priority":16}"#,
            6 => r#","context":{"status":0}"#,
            _ => "",
        };
        let json = format!(
            r#"{{"timestamp":{}.25,"name":"{}"{context}}}"#,
            1_700_000_000 + at,
            NAMES[(at % 8) as usize]
        );
        let attach = match at % 8 {
            0 => Attach::Jobspec(Bytes::from(
                "{\"version\":1,\"rest\":\"".to_owned() + &"x".repeat(380) + "\"}",
            )),
            _ => Attach::None,
        };
        let event = Event::parse(json.as_bytes()).ok()?;
        Some(Arc::new(Entry::new(
            seq,
            Source::Job(JobId((1 << 40) | (at / 8))),
            (at % 8) as u32 + 1,
            1000,
            true,
            &event,
            attach,
        )))
    };
    (0..count / size)
        .map(|commit| {
            (0..size)
                .filter_map(|at| entry(commit * size + at))
                .collect()
        })
        .collect()
}

fn run(
    what: &str,
    commits: &[Vec<Arc<Entry>>],
    listeners: u64,
    format: Format,
    filter: impl Fn(u64) -> Filter,
) {
    let mut fan = Fanout::new(Limits::default(), "00112233445566aa", Seq(0), Seq(0));
    let mut now = 1000.0;
    let mut out = Vec::new();
    for id in 0..listeners {
        let start = if format == Format::Flux {
            Start::Now
        } else {
            Start::After {
                seq: Seq(0),
                epoch: None,
            }
        };
        let refused = fan.add(
            ListenerId(id),
            Spec {
                format,
                filter: filter(id),
                start,
            },
            Timestamp(now),
        );
        if let Err(refused) = refused {
            println!("{refused}");
        }
    }
    while fan.poll(Timestamp(now), &mut out) {}
    let before = fan.counters();
    let (mut longest, mut bytes) = (0.0_f64, 0_usize);
    let start = Instant::now();
    for commit in commits {
        now += 0.001;
        fan.push(commit);
        let poll = Instant::now();
        loop {
            out.clear();
            let more = fan.poll(Timestamp(now), &mut out);
            bytes += out
                .iter()
                .map(|out| {
                    if let Out::Batch { payload, .. } = out {
                        payload.len()
                    } else {
                        0
                    }
                })
                .sum::<usize>();
            if !more {
                break;
            }
        }
        longest = longest.max(poll.elapsed().as_secs_f64());
    }
    now += 0.020;
    out.clear();
    while fan.poll(Timestamp(now), &mut out) {}
    let took = start.elapsed().as_secs_f64();
    let counters = fan.counters();
    let entries: usize = commits.iter().map(Vec::len).sum();
    println!(
        "{what}: {:.2} M entries/s in, {:.1} M deliveries/s, {} batches encoded, {:.2} GB/s by reference, longest loop {:.2} ms",
        entries as f64 / took / 1e6,
        (counters.entries_delivered - before.entries_delivered) as f64 / took / 1e6,
        counters.batches_encoded - before.batches_encoded,
        bytes as f64 / took / 1e9,
        longest * 1e3,
    );
}
