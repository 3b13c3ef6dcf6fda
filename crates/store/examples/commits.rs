//! Measures the store on this machine's disk: new jobs a second in batches, single commits, and reading all of it back.
//!
//! `cargo run --release -p store --example commits -- [DIR] [JOBS] [BATCH]`: makes and removes a directory inside DIR (default:
//! the current one; a tmpfs does not count). Prints the fdatasync median of the same file system beside the rates.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use bytes::Bytes;
use job::{Attach, Entry, Event as JobEvent, JobId, Seq, Source, Timestamp};
use store::{
    Batch, CURSOR_START, Event, JobWrite, PAGE_BYTES_MAX, Rejected, Scope, Store, StoreOptions,
    Writer,
};

const JOBSPEC_BYTES: usize = 400;
/// Between the ids of jobs.
const STEP: u64 = 16_777_216;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let parent = args
        .next()
        .map_or_else(|| PathBuf::from("."), PathBuf::from);
    let jobs: u64 = args.next().map_or(Ok(200_000), |text| text.parse())?;
    let size: u64 = args.next().map_or(Ok(500), |text| text.parse())?;
    let dir = tempfile::Builder::new()
        .prefix("store-bench-")
        .tempdir_in(&parent)?;
    let fsync = fdatasync_median(dir.path())?;
    println!(
        "fdatasync of 4 KiB appended, median: {:.3} ms; jobspec {JOBSPEC_BYTES} bytes",
        fsync.as_secs_f64() * 1e3
    );

    let (tx, events) = channel();
    let (writer, readers, _) = Store::open(dir.path(), StoreOptions::default(), move |event| {
        let _ = tx.send(event);
    })?;
    let mut gen_ = Generator::default();
    for (what, distinct) in [("one jobspec", false), ("a jobspec each", true)] {
        let batches: Vec<Batch> = (0..jobs / size)
            .map(|_| gen_.submits(size, distinct))
            .collect();
        let (took, commits) = drive(&writer, &events, batches, gen_.seq)?;
        let rate = jobs as f64 / took.as_secs_f64();
        println!(
            "{what}: {jobs} new jobs (4 entries each) in batches of {size}: {rate:.0} jobs/s, {:.0} entries/s, {} commits, COMMIT median {} us",
            rate * 4.0,
            commits.len(),
            median(commits)
        );
    }
    let batch = gen_.change_all();
    let (took, commits) = drive(&writer, &events, vec![batch], gen_.seq)?;
    println!(
        "one commit that changes all {} jobs (2 entries each): {:.2} s, {:.0} jobs/s, COMMIT {} ms",
        gen_.count,
        took.as_secs_f64(),
        gen_.count as f64 / took.as_secs_f64(),
        median(commits) / 1000
    );
    let mut single = Vec::new();
    for _ in 0..500 {
        let batch = gen_.submits(1, true);
        let start = Instant::now();
        drive(&writer, &events, vec![batch], gen_.seq)?;
        single.push(start.elapsed().as_micros() as u64);
    }
    println!(
        "one job a commit: median {} us from hand-over to Durable",
        median(single)
    );

    let reader = readers.open()?;
    let start = Instant::now();
    let (mut cursor, mut entries, mut found) = (Some(CURSOR_START), 0_usize, 0_usize);
    while let Some(at) = cursor {
        let page = reader.jobs_page(Scope::Active { at: gen_.seq }, at, 256, PAGE_BYTES_MAX)?;
        entries += page
            .jobs
            .iter()
            .map(|job| job.eventlog.len())
            .sum::<usize>();
        found += page.jobs.len();
        cursor = page.next;
    }
    let took = start.elapsed().as_secs_f64();
    println!(
        "archive read: {:.0} jobs/s, {:.0} entries/s",
        found as f64 / took,
        entries as f64 / took
    );
    let start = Instant::now();
    let (mut after, mut entries) = (Seq(0), 0_usize);
    while after < gen_.seq {
        let page = reader.log_after(after, 1000, PAGE_BYTES_MAX)?;
        entries += page.entries.len();
        after = page.upto;
    }
    println!(
        "log read: {:.0} entries/s",
        entries as f64 / start.elapsed().as_secs_f64()
    );
    let bytes = std::fs::metadata(dir.path().join(store::FILE_NAME))?.len();
    println!(
        "file: {} MiB, {} bytes a job",
        bytes >> 20,
        bytes / (2 * jobs)
    );
    writer.close()?;
    Ok(())
}

fn drive(
    writer: &Writer,
    events: &Receiver<Event>,
    batches: Vec<Batch>,
    until: Seq,
) -> Result<(Duration, Vec<u64>), Box<dyn std::error::Error>> {
    let start = Instant::now();
    let mut commits = Vec::new();
    let mut waiting = batches.into_iter();
    let mut held = waiting.next();
    loop {
        while let Some(batch) = held.take() {
            match writer.try_submit(batch) {
                Ok(()) => held = waiting.next(),
                Err(Rejected::Full(batch)) => {
                    held = Some(batch);
                    break;
                }
                Err(Rejected::Closed(_)) => return Err("the writer has ended".into()),
            }
        }
        match events.recv()? {
            Event::Durable {
                seq, commit_micros, ..
            } => {
                commits.push(commit_micros);
                if seq >= until {
                    return Ok((start.elapsed(), commits));
                }
            }
            other => return Err(format!("{other:?}").into()),
        }
    }
}

#[derive(Default)]
struct Generator {
    seq: Seq,
    id: u64,
    count: u64,
}

impl Generator {
    /// An urgency and a priority for every job there is.
    fn change_all(&mut self) -> Batch {
        let mut batch = Batch::default();
        for at in 1..=self.count {
            let id = Source::Job(JobId(at * STEP));
            for (nth, json) in [
                (
                    5,
                    r#"{"timestamp":1700000009.5,"name":"urgency","context":{"userid":1000,"urgency":31}}"#,
                ),
                (
                    6,
                    r#"{"timestamp":1700000009.5,"name":"priority","context":{"priority":4294967295}}"#,
                ),
            ] {
                let Ok(event) = JobEvent::parse(json.as_bytes()) else {
                    continue;
                };
                self.seq = self.seq.next();
                batch.entries.push(Arc::new(Entry::new(
                    self.seq,
                    id,
                    nth,
                    1000,
                    true,
                    &event,
                    Attach::None,
                )));
            }
        }
        batch
    }

    fn submits(&mut self, count: u64, distinct: bool) -> Batch {
        let mut batch = Batch::default();
        for _ in 0..count {
            self.id += STEP;
            self.count += 1;
            let now = 1_700_000_000.5 + self.seq.0 as f64 / 1e6;
            let events = [
                format!(
                    r#"{{"timestamp":{now},"name":"submit","context":{{"userid":1000,"urgency":16,"flags":0,"version":1}}}}"#
                ),
                format!(r#"{{"timestamp":{now},"name":"validate"}}"#),
                format!(r#"{{"timestamp":{now},"name":"depend"}}"#),
                format!(r#"{{"timestamp":{now},"name":"priority","context":{{"priority":16}}}}"#),
            ];
            for (at, json) in events.iter().enumerate() {
                let Ok(event) = JobEvent::parse(json.as_bytes()) else {
                    continue;
                };
                self.seq = self.seq.next();
                let entry = Entry::new(
                    self.seq,
                    Source::Job(JobId(self.id)),
                    at as u32 + 1,
                    1000,
                    true,
                    &event,
                    Attach::None,
                );
                batch.entries.push(Arc::new(entry));
            }
            let mark = if distinct { self.id } else { 0 };
            let jobspec = format!(
                "{{\"mark\":{mark:20},\"rest\":\"{}\"}}",
                "x".repeat(JOBSPEC_BYTES - 40)
            );
            batch.jobs.push(JobWrite::Insert {
                id: JobId(self.id),
                userid: 1000,
                t_submit: Timestamp(now),
                flags: 0,
                jobspec: Bytes::from(jobspec),
                j: Bytes::new(),
                key: None,
            });
        }
        batch
    }
}

fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or(0)
}

fn fdatasync_median(dir: &Path) -> std::io::Result<Duration> {
    let mut file = std::fs::File::create(dir.join("probe"))?;
    let mut took = Vec::new();
    for _ in 0..200 {
        file.write_all(&[7; 4096])?;
        let start = Instant::now();
        file.sync_data()?;
        took.push(start.elapsed().as_nanos() as u64);
    }
    Ok(Duration::from_nanos(median(took)))
}
