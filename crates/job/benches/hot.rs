//! What every submit costs here: its jobspec read and stripped, its four entries made, applied and read back.
//!
//! `cargo bench -p job`. Each line is the median of several runs, in nanoseconds for one call.

use bytes::Bytes;
use job::{
    Attach, Entry, Event, EventKind, IdGen, Job, JobFlags, JobId, Jobspec, Priority, Seq, Source,
    Timestamp, Urgency,
};
use std::hint::black_box;
use std::time::Instant;

const RUNS: usize = 15;

fn measure<T>(name: &str, calls: u32, mut call: impl FnMut() -> T) {
    let mut nanos: Vec<f64> = (0..RUNS)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..calls {
                black_box(call());
            }
            start.elapsed().as_nanos() as f64 / f64::from(calls)
        })
        .collect();
    nanos.sort_by(f64::total_cmp);
    println!("{name:<44} {:>9.0} ns", nanos[RUNS / 2]);
}

fn jobspec(variables: usize) -> Vec<u8> {
    let environment: Vec<String> = (0..variables)
        .map(|n| format!("\"VARIABLE_{n}\":\"/some/path/or/other/{n}\""))
        .collect();
    let limits: Vec<String> = (0..15)
        .map(|n| format!("\"limit{n}\":{}", n * 1024))
        .collect();
    format!(
        "{{\"resources\":[{{\"type\":\"slot\",\"count\":1,\"label\":\"task\",\"with\":[{{\"type\":\"core\",\"count\":1}}]}}],\
         \"tasks\":[{{\"command\":[\"sleep\",\"1\"],\"slot\":\"task\",\"count\":{{\"per_slot\":1}}}}],\
         \"attributes\":{{\"system\":{{\"duration\":0,\"environment\":{{{}}},\"cwd\":\"/home/user\",\
         \"shell\":{{\"options\":{{\"rlimit\":{{{}}}}}}}}}}},\"version\":1}}",
        environment.join(","),
        limits.join(",")
    )
    .into_bytes()
}

fn main() {
    let now = Timestamp(1_764_512_345.678_901_3);
    let kinds = [
        EventKind::Submit {
            userid: 1000,
            urgency: Urgency::DEFAULT,
            flags: JobFlags::default(),
            version: 1,
        },
        EventKind::Validate,
        EventKind::Depend,
        EventKind::Priority {
            priority: Priority(16),
        },
    ];
    let events = kinds.map(|kind| Event::new(now, kind));
    let id = JobId(443_035_942_912);
    let entry =
        |event: &Event| Entry::new(Seq(12), Source::Job(id), 1, 1000, true, event, Attach::None);
    let entries: Vec<Entry> = events.iter().map(entry).collect();

    for variables in [0, 60] {
        let spec = jobspec(variables);
        let size = spec.len();
        measure(&format!("jobspec of {size} bytes: ingest"), 2_000, || {
            Jobspec::ingest(&spec).is_ok()
        });
        measure(
            &format!("jobspec of {size} bytes: into a Value"),
            2_000,
            || serde_json::from_slice::<serde_json::Value>(&spec).is_ok(),
        );
    }
    measure("4 entries: made", 20_000, || {
        events
            .iter()
            .map(entry)
            .map(|e| e.line().len())
            .sum::<usize>()
    });
    measure("4 entries: as listeners get them", 20_000, || {
        let mut buf = Vec::with_capacity(1024);
        entries
            .iter()
            .for_each(|entry| entry.encode_native(&mut buf));
        buf
    });
    measure("4 entries: lines read back", 20_000, || {
        entries
            .iter()
            .filter(|entry| Entry::parse_line(entry.line()).is_ok())
            .count()
    });
    measure("4 events: read from JSON", 20_000, || {
        entries
            .iter()
            .filter(|entry| Event::parse(entry.json()).is_ok())
            .count()
    });
    measure("4 events: applied", 20_000, || {
        let mut job = Job::new(id, &events[0]).ok();
        if let Some(job) = &mut job {
            events[1..].iter().for_each(|event| drop(job.apply(event)));
        }
        job
    });
    let mut ids = IdGen::default();
    measure("an id", 100_000, || ids.next(5));
    measure("an id as text and back", 20_000, || {
        id.to_string().parse::<JobId>().is_ok()
    });
    let line = Bytes::from_static(b"nonsense\n");
    measure("a line that is none", 20_000, || {
        Entry::parse_line(&line).is_err()
    });
    println!("{:<44} {:>9} bytes", "a job in memory", size_of::<Job>());
    println!(
        "{:<44} {:>9} bytes",
        "an entry in memory, its line apart",
        size_of::<Entry>()
    );
}
