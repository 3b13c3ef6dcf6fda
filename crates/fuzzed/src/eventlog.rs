//! Lines of events and of entries: read, written and read again; folded into a job; folded into job-info's listing.

use bytes::Bytes;
use info::projection::Form;
use info::{Group, Projection};
use job::{Entry, Event, EventKind, Job, JobId, Seq, Source, State, eventlog};
use serde_json::Value;
use std::collections::HashMap;

/// The job that all events are folded into.
const ID: JobId = JobId(7);

/// Reads the bytes as an eventlog, as lines of entries, and as a batch of the journal.
pub fn check(data: &[u8]) {
    let events = log(data);
    fold(&events);
    let entries: Vec<Entry> = data
        .split_inclusive(|&byte| byte == b'\n')
        .filter_map(|line| entry(&Bytes::copy_from_slice(line)))
        .collect();
    listing(&entries);
    for form in [Form::Native, Form::Flux] {
        let mut projection = Projection::new();
        projection.begin_fresh(form);
        for line in eventlog::lines(data) {
            let _ = match form {
                Form::Native => projection.fold_native(line, &mut |_| {}),
                Form::Flux => projection.fold_flux(line, &mut |_| {}),
            };
        }
        whole(&projection);
    }
}

/// An eventlog; if it is none, the events that can be read of it.
fn log(data: &[u8]) -> Vec<Event> {
    let parsed = eventlog::parse(data);
    let events: Vec<Event> = eventlog::lines(data)
        .filter_map(|line| Event::parse(line).ok())
        .collect();
    for event in &events {
        assert!(event.timestamp.is_valid());
        let json = event.to_json();
        assert!(!json.contains(&b'\n'), "an event of two lines");
        assert!(serde_json::from_slice::<Value>(&json).is_ok_and(|value| value.is_object()));
        assert_eq!(
            Event::parse(&json).ok().as_ref(),
            Some(event),
            "written and read again"
        );
    }
    if let Ok(parsed) = parsed {
        assert_eq!(parsed, events);
        let mut text = Vec::new();
        events
            .iter()
            .for_each(|event| eventlog::write_line(&mut text, event));
        assert_eq!(eventlog::parse(&text).ok(), Some(events.clone()));
    }
    events
}

/// Events in any order: each one fits or changes nothing; states only go as RFC 21 has them.
fn fold(events: &[Event]) {
    let mut job: Option<Job> = None;
    for event in events {
        let Some(job) = &mut job else {
            job = Job::new(ID, event).ok();
            assert_eq!(
                job.is_some(),
                matches!(event.kind, EventKind::Submit { .. })
            );
            continue;
        };
        let before = job.clone();
        match job.apply(event) {
            Ok(change) => {
                assert_eq!((change.from, change.to), (before.state, job.state));
                assert_eq!(job.eventlog_seq, before.eventlog_seq + 1);
                assert_eq!(job.result().is_some(), job.state == State::Inactive);
            }
            Err(_) => assert_eq!(*job, before, "a refused event changed something"),
        }
    }
}

/// A line of the store.
fn entry(line: &Bytes) -> Option<Entry> {
    let entry = Entry::parse_line(line).ok()?;
    assert_eq!(entry.line(), line);
    let mut native = Vec::new();
    entry.encode_native(&mut native);
    let value: Value = serde_json::from_slice(&native).unwrap_or_default();
    assert!(
        value.is_object(),
        "what listeners get is no JSON: {}",
        String::from_utf8_lossy(&native)
    );
    assert_eq!(value.get("seq"), Some(&Value::from(entry.seq.0)));
    if let Ok(event) = Event::parse(entry.json()) {
        let (seq, source, number) = (entry.seq, entry.source, entry.eventlog_seq);
        let attach = job::Attach::None;
        let made = Entry::new(
            seq,
            source,
            number,
            entry.userid,
            entry.stored_log,
            &event,
            attach,
        );
        assert_eq!(made.name, entry.name, "the name alone, and the event");
        assert_eq!(Entry::parse_line(made.line()).ok().as_ref(), Some(&made));
    }
    Some(entry)
}

/// The entries as one backlog and as one live batch: a listing that is whole either way, and the same if both were taken.
fn listing(entries: &[Entry]) {
    let entries = numbered(entries);
    let newest = entries.len();
    let batch = |more: &str| {
        let mut json = format!("{{\"epoch\":\"e\",{more}\"events\":[").into_bytes();
        for (at, entry) in entries.iter().enumerate() {
            if at > 0 {
                json.push(b',');
            }
            entry.encode_native(&mut json);
        }
        json.extend_from_slice(b"]}");
        json
    };
    let caught_up =
        |seq: usize| format!(r#"{{"epoch":"e","seq":{seq},"caught_up":true,"events":[]}}"#);
    let backlog = play(&[batch("\"backlog\":true,"), caught_up(newest).into_bytes()]);
    let live = play(&[
        caught_up(0).into_bytes(),
        batch(&format!("\"seq\":{newest},")),
    ]);
    let (Some(backlog), Some(live)) = (backlog, live) else {
        return;
    };
    assert_eq!(
        (backlog.applied(), live.applied()),
        (newest as u64, newest as u64)
    );
    for entry in entries {
        if let Source::Job(id) = entry.source {
            let states = [&backlog, &live].map(|all| all.jobs().get(id).map(|job| job.job().state));
            assert_eq!(states[0], states[1], "job {id} as backlog and live");
        }
    }
}

/// The entries with the seqs of an instance that has no others, and each job's in a row.
fn numbered(entries: &[Entry]) -> Vec<Entry> {
    let mut numbers: HashMap<Source, u32> = HashMap::new();
    let events = entries
        .iter()
        .filter_map(|entry| Some((entry, Event::parse(entry.json()).ok()?)));
    let renumber = |(seq, (entry, event)): (u64, (&Entry, Event))| {
        let number = numbers.entry(entry.source).or_insert(0);
        *number += 1;
        let (source, userid, stored) = (entry.source, entry.userid, entry.stored_log);
        let attach = job::Attach::None;
        Entry::new(Seq(seq), source, *number, userid, stored, &event, attach)
    };
    (1..).zip(events).map(renumber).collect()
}

/// Folds the responses of a stream; `None` if it was refused, as a stream with an entry that makes no sense may be.
fn play(responses: &[Vec<u8>]) -> Option<Projection> {
    let mut projection = Projection::new();
    projection.begin_fresh(Form::Native);
    for json in responses {
        if projection.fold_native(json, &mut |_| {}).is_err() {
            projection.cut();
            whole(&projection);
            return None;
        }
    }
    whole(&projection);
    Some(projection)
}

/// Every job is in one of the three orders at most, and found at its rank.
fn whole(projection: &Projection) {
    let jobs = projection.jobs();
    let listed: usize = Group::ALL.iter().map(|&group| jobs.group_len(group)).sum();
    assert!(listed <= jobs.len(), "{listed} listed of {}", jobs.len());
    let ids = info::Query::default().run(jobs).unwrap_or_default();
    assert_eq!(ids.len(), listed, "all that is listed is found");
    for id in ids {
        assert!(jobs.rank(id).is_some(), "job {id} has no rank");
    }
}
