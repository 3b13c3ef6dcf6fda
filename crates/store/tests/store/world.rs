//! A state directory with its writer, for tests: makes entries, hands batches over, waits for what the writer tells.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use bytes::Bytes;
use job::{Attach, Entry, Event as JobEvent, JobId, Seq, Source, Timestamp};
use store::{
    Batch, Event, JobWrite, OpenError, Reader, ReaderFactory, Recovered, Rejected, Store,
    StoreOptions, Writer,
};

/// No event takes longer, or the test has failed.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct World {
    pub(crate) writer: Writer,
    pub(crate) readers: ReaderFactory,
    pub(crate) recovered: Recovered,
    pub(crate) events: Receiver<Event>,
    pub(crate) seq: Seq,
    /// Owners of the jobs submitted here that are not user 1000's.
    owners: std::collections::HashMap<u64, u32>,
}

impl World {
    pub(crate) fn open(dir: &Path) -> Self {
        Self::with(dir, StoreOptions::default())
    }

    pub(crate) fn with(dir: &Path, options: StoreOptions) -> Self {
        let (events, (writer, readers, recovered)) = loop {
            let (tx, events) = channel();
            let opened = Store::open(dir, options.clone(), move |event| {
                let _ = tx.send(event);
            });
            match opened {
                // A child that another test is about to start holds our files until its exec; so it does those of the test whose child we are.
                Err(OpenError::InUse { pid, .. })
                    if pid == Some(std::process::id())
                        || pid == Some(std::os::unix::process::parent_id()) =>
                {
                    std::thread::yield_now();
                }
                opened => break (events, opened.unwrap()),
            }
        };
        let seq = recovered.newest_seq;
        Self {
            writer,
            readers,
            recovered,
            events,
            seq,
            owners: std::collections::HashMap::new(),
        }
    }

    pub(crate) fn reader(&self) -> Reader {
        self.readers.open().unwrap()
    }

    pub(crate) fn entry(&mut self, source: Source, eventlog_seq: u32, json: &str) -> Arc<Entry> {
        self.seq = self.seq.next();
        let event = JobEvent::parse(json.as_bytes()).unwrap();
        let owner = match source {
            Source::Job(id) => self.owners.get(&id.0).copied().unwrap_or(1000),
            Source::Resource | Source::System => 1000,
        };
        Arc::new(Entry::new(
            self.seq,
            source,
            eventlog_seq,
            owner,
            true,
            &event,
            Attach::None,
        ))
    }

    /// A new job with its submit and one more entry.
    pub(crate) fn submit(&mut self, id: u64, userid: u32, flags: u32, batch: &mut Batch) {
        let t = time(self.seq.0 + 1);
        self.owners.insert(id, userid);
        let submit = format!(
            r#"{{"timestamp":{t},"name":"submit","context":{{"userid":{userid},"urgency":16,"flags":{flags},"version":1}}}}"#
        );
        batch
            .entries
            .push(self.entry(Source::Job(JobId(id)), 1, &submit));
        batch
            .entries
            .push(self.entry(Source::Job(JobId(id)), 2, &plain("validate", t)));
        batch.jobs.push(JobWrite::Insert {
            id: JobId(id),
            userid,
            t_submit: Timestamp(t),
            flags,
            jobspec: Bytes::from(jobspec(id)),
            j: Bytes::from(format!("J of {id}")),
            key: None,
        });
    }

    pub(crate) fn clean(&mut self, id: u64, eventlog_seq: u32, batch: &mut Batch) {
        let t = time(self.seq.0 + 1);
        batch
            .entries
            .push(self.entry(Source::Job(JobId(id)), eventlog_seq, &plain("clean", t)));
        batch.jobs.push(JobWrite::Inactive {
            id: JobId(id),
            t_inactive: Timestamp(t),
            result: 1,
        });
    }

    /// Hands a batch over, waiting for room if need be.
    pub(crate) fn give(&self, batch: Batch) {
        let mut batch = batch;
        loop {
            match self.writer.try_submit(batch) {
                Ok(()) => return,
                Err(Rejected::Full(back)) => batch = back,
                Err(Rejected::Closed(_)) => panic!("the writer has ended"),
            }
            std::thread::yield_now();
        }
    }

    /// Stores a batch and waits until it is durable.
    pub(crate) fn store(&self, batch: Batch) {
        self.give(batch);
        self.durable();
    }

    pub(crate) fn next(&self) -> Event {
        self.events.recv_timeout(PATIENCE).unwrap()
    }

    /// Waits until everything handed over is durable.
    pub(crate) fn durable(&self) {
        loop {
            match self.next() {
                Event::Durable { seq, .. } if seq >= self.seq => return,
                Event::Durable { .. } => {}
                other => panic!("met {other:?}"),
            }
        }
    }

    pub(crate) fn log(&self) -> Vec<Entry> {
        let reader = self.reader();
        let (mut after, mut all) = (reader.floor().unwrap(), Vec::new());
        loop {
            let page = reader.log_after(after, 7, 1 << 20).unwrap();
            assert!(page.damaged.is_empty(), "{:?}", page.damaged);
            if page.upto == after {
                return all;
            }
            after = page.upto;
            all.extend(page.entries);
        }
    }
}

pub(crate) fn time(seq: u64) -> f64 {
    1_700_000_000.0 + seq as f64 / 1000.0
}

pub(crate) fn plain(name: &str, t: f64) -> String {
    format!(r#"{{"timestamp":{t:?},"name":"{name}"}}"#)
}

pub(crate) fn jobspec(id: u64) -> String {
    format!(r#"{{"version":1,"job":{}}}"#, id % 3)
}

pub(crate) fn lines(entries: &[Entry]) -> String {
    entries
        .iter()
        .map(|entry| String::from_utf8_lossy(entry.line()).into_owned())
        .collect()
}
