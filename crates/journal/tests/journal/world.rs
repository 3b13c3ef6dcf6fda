//! A fan-out, a store made of vectors, a clock that is set by hand, and what each listener got.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use job::{Attach, Entry, Event, JobId, Seq, Source, Timestamp};
use journal::{
    Answer, BacklogJob, Fanout, Filter, Format, JobsScope, Limits, ListenerId, Need, Out, Payload,
    Read, Refused, Rights, Spec, Start,
};
use serde_json::Value;

pub(crate) const EPOCH: &str = "00112233445566aa";
pub(crate) const JOBSPEC: &str = r#"{"version":1}"#;
pub(crate) const R: &str = r#"{"version":1,"execution":{}}"#;

/// What one listener got.
#[derive(Debug, Default, Clone)]
pub(crate) struct Got {
    pub(crate) responses: Vec<Value>,
    pub(crate) payloads: Vec<Payload>,
    /// Seqs of backlog and live entries, in order.
    pub(crate) backlog: Vec<u64>,
    pub(crate) live: Vec<u64>,
    pub(crate) caught_up: Option<u64>,
    /// The `seq` of the newest response that had one.
    pub(crate) told: u64,
    pub(crate) ended: Option<Refused>,
}

pub(crate) struct World {
    pub(crate) fan: Fanout,
    pub(crate) log: Vec<Arc<Entry>>,
    /// Commits the store has and the fan-out was not told of yet.
    pub(crate) unpushed: Vec<Vec<Arc<Entry>>>,
    pub(crate) floor: Seq,
    /// Jobs that the store gives nothing of any more.
    pub(crate) purged: Vec<u64>,
    pub(crate) now: f64,
    pub(crate) got: BTreeMap<u64, Got>,
    pub(crate) needs: Vec<Need>,
    /// How many needs were met.
    pub(crate) reads: usize,
    counts: BTreeMap<u64, u32>,
}

impl World {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            fan: Fanout::new(limits, EPOCH, Seq(0), Seq(0)),
            log: Vec::new(),
            unpushed: Vec::new(),
            floor: Seq(0),
            purged: Vec::new(),
            now: 1000.0,
            got: BTreeMap::new(),
            needs: Vec::new(),
            reads: 0,
            counts: BTreeMap::new(),
        }
    }

    /// A commit in the store. `(0, name)` is an entry of the resource log, any other number a job.
    pub(crate) fn store(&mut self, events: &[(u64, &str)]) {
        let mut commit = Vec::new();
        for (job, name) in events {
            let seq = self.log.len() as u64 + 1;
            let context = match *name {
                "submit" => r#","context":{"userid":1,"urgency":16,"flags":0,"version":1}"#,
                "urgency" => r#","context":{"userid":1,"urgency":31}"#,
                "annotations" => r#","context":{"annotations":{"user":{"note":"n"}}}"#,
                _ => "",
            };
            let json = format!(r#"{{"timestamp":{seq}.5,"name":"{name}"{context}}}"#);
            let event = Event::parse(json.as_bytes()).unwrap();
            let source = if *job == 0 {
                Source::Resource
            } else {
                Source::Job(JobId(*job))
            };
            let attach = match *name {
                "submit" => Attach::Jobspec(Bytes::from_static(JOBSPEC.as_bytes())),
                "alloc" => Attach::R(Bytes::from_static(R.as_bytes())),
                _ => Attach::None,
            };
            let count = self.counts.entry(*job).or_default();
            *count += 1;
            let entry = Arc::new(Entry::new(
                Seq(seq),
                source,
                *count,
                userid(*job),
                *name != "annotations",
                &event,
                attach,
            ));
            self.log.push(entry.clone());
            commit.push(entry);
        }
        self.unpushed.push(commit);
    }

    /// An entry of the resource log with a context, in a commit of its own.
    pub(crate) fn log_nodes(&mut self, name: &str, context: &str) {
        let seq = self.log.len() as u64 + 1;
        let json = format!(r#"{{"timestamp":{seq}.5,"name":"{name}","context":{context}}}"#);
        let event = Event::parse(json.as_bytes()).unwrap();
        let count = self.counts.entry(0).or_default();
        *count += 1;
        let (source, attach) = (Source::Resource, Attach::None);
        let entry = Entry::new(Seq(seq), source, *count, 0, true, &event, attach);
        let entry = Arc::new(entry);
        self.log.push(entry.clone());
        self.unpushed.push(vec![entry]);
        self.push();
    }

    /// A commit in the store that the fan-out learns of at once.
    pub(crate) fn commit(&mut self, events: &[(u64, &str)]) {
        self.store(events);
        self.push();
    }

    /// `count` commits of one entry each.
    pub(crate) fn commits(&mut self, count: u64) {
        for at in 0..count {
            self.commit(&[(at % 7 + 1, "memo")]);
        }
    }

    pub(crate) fn push(&mut self) {
        for commit in std::mem::take(&mut self.unpushed) {
            self.fan.push(&commit);
        }
    }

    pub(crate) fn add(
        &mut self,
        id: u64,
        start: Start,
        filter: Filter,
        format: Format,
    ) -> Result<(), Refused> {
        self.fan.add(
            ListenerId(id),
            Spec {
                format,
                filter,
                start,
            },
            Timestamp(self.now),
        )?;
        self.got.insert(id, Got::default());
        Ok(())
    }

    pub(crate) fn tap(&mut self, id: u64, start: Start) {
        self.add(id, start, Filter::all(Rights::Owner), Format::Native)
            .unwrap();
    }

    /// One poll; what comes out is taken in, but for needs, which wait in `needs`.
    pub(crate) fn poll(&mut self) -> bool {
        let mut out = Vec::new();
        let more = self.fan.poll(Timestamp(self.now), &mut out);
        self.take(out);
        more
    }

    /// Polls and reads until nothing more is to be done at this time.
    pub(crate) fn settle(&mut self) {
        for _ in 0..100_000 {
            let more = self.poll();
            if self.needs.is_empty() && !more {
                return;
            }
            while !self.needs.is_empty() {
                self.read();
            }
        }
        panic!("it never settles");
    }

    /// The clock goes on, by so much at a time that every deadline is met.
    pub(crate) fn wait(&mut self, seconds: f64) {
        let end = self.now + seconds;
        loop {
            self.settle();
            match self.fan.next_deadline() {
                Some(Timestamp(next)) if next <= end => {
                    assert!(
                        next > self.now,
                        "a deadline that does not move: {next} at {}",
                        self.now
                    );
                    self.now = next;
                }
                _ => break,
            }
        }
        self.now = end;
        self.settle();
    }

    /// Answers the oldest need from the store as it is now.
    pub(crate) fn read(&mut self) {
        if self.needs.is_empty() {
            return;
        }
        let need = self.needs.remove(0);
        self.reads += 1;
        let answer = self.answer(&need.read);
        let page = need.answer(answer);
        let mut out = Vec::new();
        self.fan.page(page, Timestamp(self.now), &mut out);
        self.take(out);
    }

    fn answer(&self, read: &Read) -> Answer {
        match read {
            Read::Log { after, .. } if *after < self.floor => {
                Answer::BelowFloor { floor: self.floor }
            }
            Read::Log { after, limit, .. } => {
                let mut entries: Vec<Entry> = self
                    .log
                    .iter()
                    .filter(|e| e.seq > *after)
                    .take(*limit)
                    .map(|e| (**e).clone())
                    .collect();
                let upto = entries.last().map_or(*after, |entry| entry.seq);
                entries.retain(|entry| !self.is_purged(entry.source));
                Answer::Entries { entries, upto }
            }
            Read::Instance { after, upto, limit } => {
                let all = self
                    .log
                    .iter()
                    .filter(|e| e.source == Source::Resource && e.seq > *after && e.seq <= *upto);
                let entries: Vec<Entry> = all.take(*limit).map(|e| (**e).clone()).collect();
                let upto = if entries.len() < *limit {
                    *upto
                } else {
                    entries.last().unwrap().seq
                };
                Answer::Entries { entries, upto }
            }
            // Two jobs fill a page, as large ones would.
            Read::Named { ids, .. } => Answer::Jobs {
                jobs: self
                    .jobs()
                    .into_iter()
                    .filter(|job| ids[..ids.len().min(2)].contains(&job.id))
                    .collect(),
                next: (ids.len() > 2).then_some(2),
            },
            Read::Jobs {
                scope,
                cursor,
                limit,
                ..
            } => {
                let mut jobs: Vec<(i64, BacklogJob)> = match scope {
                    JobsScope::Active { at } => {
                        let jobs = self
                            .jobs()
                            .into_iter()
                            .filter(|job| job.done_seq.is_none_or(|done| done > *at));
                        jobs.map(|job| (job.id.0 as i64, job)).collect()
                    }
                    JobsScope::Inactive { upto } => {
                        let jobs = self
                            .jobs()
                            .into_iter()
                            .filter(|job| job.done_seq.is_some_and(|done| done <= *upto));
                        jobs.map(|job| (job.done_seq.unwrap().0 as i64, job))
                            .collect()
                    }
                };
                jobs.retain(|(key, _)| key > cursor);
                jobs.sort_by_key(|(key, _)| *key);
                let next = (jobs.len() >= *limit).then(|| jobs[*limit - 1].0);
                jobs.truncate(*limit);
                Answer::Jobs {
                    jobs: jobs.into_iter().map(|(_, job)| job).collect(),
                    next,
                }
            }
        }
    }

    fn is_purged(&self, source: Source) -> bool {
        matches!(source, Source::Job(id) if self.purged.contains(&id.0))
    }

    pub(crate) fn jobs(&self) -> Vec<BacklogJob> {
        let mut jobs: BTreeMap<u64, BacklogJob> = BTreeMap::new();
        for entry in &self.log {
            let Source::Job(id) = entry.source else {
                continue;
            };
            if self.is_purged(entry.source) {
                continue;
            }
            let job = jobs.entry(id.0).or_insert_with(|| BacklogJob {
                id,
                userid: entry.userid,
                done_seq: None,
                jobspec: Bytes::from_static(JOBSPEC.as_bytes()),
                r: None,
                events: Vec::new(),
            });
            match entry.name.as_str() {
                "clean" => job.done_seq = Some(entry.seq),
                "alloc" => job.r = Some(Bytes::from_static(R.as_bytes())),
                _ => {}
            }
            job.events.push((**entry).clone());
        }
        jobs.into_values().collect()
    }

    pub(crate) fn take(&mut self, out: Vec<Out>) {
        for one in out {
            match one {
                Out::Need(need) => self.needs.push(need),
                Out::End { listener, why } => {
                    self.got.get_mut(&listener.0).unwrap().ended = Some(why)
                }
                Out::Batch {
                    listener,
                    payload,
                    entries,
                    ..
                } => {
                    // What comes for a listener that was removed is a bug, and this panics.
                    let got = self.got.get_mut(&listener.0).unwrap();
                    let mut count = 0;
                    for bytes in payload.iter() {
                        assert_eq!(bytes.last(), Some(&0), "as it travels: with its NUL");
                        let value: Value =
                            serde_json::from_slice(&bytes[..bytes.len() - 1]).unwrap();
                        count += got.response(value);
                    }
                    assert_eq!(count, entries);
                    got.payloads.push(payload);
                }
            }
        }
    }
}

impl Got {
    /// Takes one response in; how many entries it has.
    fn response(&mut self, value: Value) -> usize {
        let events = value
            .get("events")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default();
        // A native entry carries its seq; an event of Flux's form, its timestamp, which is made from it.
        let seqs: Vec<u64> = events
            .iter()
            .map(|event| {
                event
                    .get("seq")
                    .and_then(Value::as_u64)
                    .unwrap_or_else(|| event["timestamp"].as_f64().unwrap() as u64)
            })
            .collect();
        if value["id"] == -1 {
            self.caught_up = Some(0);
        } else if value["caught_up"] == true {
            assert!(self.caught_up.is_none() && events.is_empty());
            self.caught_up = value["seq"].as_u64();
        } else if self.caught_up.is_none() {
            self.backlog.extend(&seqs);
            assert!(value.get("seq").is_none(), "a backlog has no cursor");
        } else {
            self.live.extend(&seqs);
        }
        if let Some(told) = value.get("seq").and_then(Value::as_u64) {
            assert!(
                told >= self.told && seqs.iter().all(|seq| *seq > self.told && *seq <= told),
                "{value} after {}",
                self.told
            );
            self.told = told;
        }
        self.responses.push(value);
        seqs.len()
    }

    pub(crate) fn last(&self) -> &Value {
        self.responses.last().unwrap()
    }
}

/// Odd jobs are of user 1, even ones of user 2.
pub(crate) fn userid(job: u64) -> u32 {
    match job {
        0 => 0,
        odd if odd % 2 == 1 => 1,
        _ => 2,
    }
}

pub(crate) fn small(ring: usize) -> Limits {
    Limits {
        ring_entries: ring,
        page_entries: 7,
        page_jobs: 3,
        ..Limits::default()
    }
}

pub(crate) fn after(seq: u64) -> Start {
    Start::After {
        seq: Seq(seq),
        epoch: Some(EPOCH.into()),
    }
}
