//! Lines, indexes, readers that come back, and readers that fall behind.

use serde_json::Value;

use super::{Cursor, Events, Limits, Next, Start, Subscription};
use crate::{
    ask::Viewer,
    names,
    testing::{EPOCH, Feed, f58, guest},
};

fn wants(topics: &[&str]) -> Subscription {
    Subscription::new(topics.iter().copied(), None, Viewer::OWNER).expect("topics")
}

/// All lines a reader gets now, and how it ended.
fn read(events: &mut Events, feed: &Feed, wants: &Subscription, cursor: &mut Cursor) -> Vec<Value> {
    let mut lines = Vec::new();
    loop {
        match events.next(&feed.projection, wants, cursor) {
            Next::Line(line) | Next::Over(line) => {
                let text = std::str::from_utf8(&line).expect("UTF-8");
                assert!(
                    text.ends_with('\n') && text.trim_end().lines().count() == 1,
                    "{text}"
                );
                let line: Value = serde_json::from_str(text).expect(text);
                let is_over = line.get("Error").is_some();
                lines.push(line);
                if is_over {
                    return lines;
                }
            }
            Next::More => {}
            Next::Idle => return lines,
        }
    }
}

/// `TOPIC TYPE KEY` of every event, after the line's index.
fn told(lines: &[Value]) -> Vec<String> {
    lines
        .iter()
        .map(|line| {
            let events = line["Events"].as_array().expect("events");
            let of = |event: &Value, key: &str| event[key].as_str().expect("text").to_owned();
            let events: Vec<_> = events
                .iter()
                .map(|event| {
                    format!(
                        "{} {} {}",
                        of(event, "Topic"),
                        of(event, "Type"),
                        of(event, "Key")
                    )
                })
                .collect();
            format!("{}: {}", line["Index"], events.join(", "))
        })
        .collect()
}

fn alloc(id: u64, rank: u32) -> String {
    names::text(&names::allocation(job::JobId(id), 0, rank)).to_owned()
}

#[test]
fn a_fold_is_a_line_of_all_that_changed_in_it() {
    let mut feed = Feed::new();
    let mut events = Events::new(Limits::default());
    let mut cursor = events
        .subscribe(&feed.projection, Start::Oldest, None)
        .expect("start");
    let all = wants(&[]);
    assert!(read(&mut events, &feed, &all, &mut cursor).is_empty());
    feed.submit(5, 1000, "a", "");
    feed.submit(6, 1000, "b", "");
    let changes = feed.fold();
    events.changed(&feed.projection, &changes);
    feed.run(5, "0-1");
    let changes = feed.fold();
    events.changed(&feed.projection, &changes);
    feed.end(5, 0);
    feed.nodes("0-1", "{}");
    let changes = feed.fold();
    events.changed(&feed.projection, &changes);
    let lines = read(&mut events, &feed, &all, &mut cursor);
    let (a, b) = (f58(5), f58(6));
    let node = |name| names::text(&names::node(name)).to_owned();
    let (n0, n1) = (node("n0"), node("n1"));
    let met = told(&lines);
    assert_eq!(
        met[0],
        format!("8: Job JobRegistered {a}, Job JobRegistered {b}")
    );
    // The nodes are known by the job's R before they are announced.
    let jobs = format!(
        "Job AllocationUpdated {a}, Allocation PlanResult {}, Allocation PlanResult {}",
        alloc(5, 0),
        alloc(5, 1)
    );
    assert_eq!(
        met[1],
        format!("10: Node NodeRegistration {n0}, Node NodeRegistration {n1}, {jobs}")
    );
    assert!(
        met[2].starts_with(&format!(
            "16: Job AllocationUpdated {a}, Allocation AllocationUpdated {}",
            alloc(5, 0)
        )),
        "{met:?}"
    );
    assert!(met[2].contains(&n0) && met[2].contains(&n1), "{met:?}");
    // What was sent for the second line shows the job as it was then.
    let job = &lines[1]["Events"][2]["Payload"]["Job"];
    assert_eq!(
        (job["Status"].as_str(), job["ID"].as_str()),
        (Some("running"), Some(&*a))
    );
    let allocation = &lines[1]["Events"][3];
    assert_eq!(allocation["FilterKeys"], serde_json::json!([a]));
    assert_eq!(
        allocation["Payload"]["Allocation"]["ClientStatus"],
        "running"
    );
    assert_eq!(allocation["Payload"]["Allocation"]["Job"], Value::Null);
    assert_eq!(lines[2]["Events"][0]["Payload"]["Job"]["Status"], "dead");
    for event in lines
        .iter()
        .flat_map(|line| line["Events"].as_array().expect("events"))
    {
        let keys: Vec<&str> = event
            .as_object()
            .expect("object")
            .keys()
            .map(String::as_str)
            .collect();
        assert_eq!(
            keys,
            [
                "Topic",
                "Type",
                "Key",
                "Namespace",
                "FilterKeys",
                "Index",
                "Payload"
            ]
        );
    }
    assert!(read(&mut events, &feed, &all, &mut cursor).is_empty());
}

/// Ten folds, each of one new job.
fn ten() -> (Feed, Events) {
    let mut feed = Feed::new();
    let mut events = Events::new(Limits::default());
    for id in 1..=10 {
        feed.submit(id, 1000 + u32::try_from(id % 2).expect("small"), "a", "");
        let changes = feed.fold();
        events.changed(&feed.projection, &changes);
    }
    (feed, events)
}

fn indexes(lines: &[Value]) -> Vec<u64> {
    lines
        .iter()
        .filter_map(|line| line["Index"].as_u64())
        .collect()
}

#[test]
fn a_reader_goes_on_exactly_where_it_was() {
    let (feed, mut events) = ten();
    let all = wants(&[]);
    assert_eq!(events.range(), (1, 40));
    let mut from = |start| {
        let mut cursor = events
            .subscribe(&feed.projection, start, Some(EPOCH))
            .expect("start");
        indexes(&read(&mut events, &feed, &all, &mut cursor))
    };
    let every: Vec<u64> = (1..=10).map(|id| id * 4).collect();
    assert_eq!(from(Start::Oldest), every);
    assert_eq!(from(Start::At(1)), every);
    // The index that was seen comes again, the one after it does not.
    assert_eq!(from(Start::At(36)), [36, 40]);
    assert_eq!(from(Start::At(37)), [40]);
    assert_eq!(from(Start::At(40)), [40]);
    assert_eq!(from(Start::At(41)), [0_u64; 0]);
    assert_eq!(from(Start::Now), [0_u64; 0]);
}

#[test]
fn an_index_that_cannot_be_continued_is_refused_with_both_ends() {
    let (mut feed, mut events) = ten();
    let refused = |events: &mut Events, feed: &Feed, index, epoch| {
        let error = events
            .subscribe(&feed.projection, Start::At(index), epoch)
            .expect_err("refused");
        (error.status, error.text.to_string())
    };
    assert_eq!(
        refused(&mut events, &feed, 42, None),
        (400, "index 42 is in the future: events from 1 to 40 are kept; index=0 begins with the oldest, index=now with the next".into())
    );
    let (status, text) = refused(&mut events, &feed, 40, Some("x"));
    assert!(
        status == 410
            && text.starts_with(
                "index 40 is of epoch x, this is epoch 00000000000000e1: events from 1 to 40"
            ),
        "{text}"
    );
    // Only the newest three stay.
    let mut small = Events::new(Limits {
        changes: 3,
        ..Limits::default()
    });
    for id in 11..=20 {
        feed.submit(id, 1000, "a", "");
        let changes = feed.fold();
        small.changed(&feed.projection, &changes);
    }
    assert_eq!(small.range(), (69, 80));
    let (status, text) = refused(&mut small, &feed, 68, None);
    assert!(
        status == 410 && text.starts_with("index 68 is too old: events from 69 to 80 are kept;"),
        "{text}"
    );
    assert!(
        small
            .subscribe(&feed.projection, Start::At(69), None)
            .is_ok()
    );
    for (text, expected) in [
        (None, Some(Start::Oldest)),
        (Some(""), Some(Start::Oldest)),
        (Some("0"), Some(Start::Oldest)),
        (Some("7"), Some(Start::At(7))),
        (Some("now"), Some(Start::Now)),
        (Some("-1"), None),
        (Some("x"), None),
        (Some("99999999999999999999"), None),
    ] {
        let met = Start::parse(text);
        assert_eq!(met.as_ref().ok(), expected.as_ref(), "{text:?}");
        if let Err(error) = met {
            assert!(
                error.status == 400 && error.text.starts_with("Unable to parse index: "),
                "{error}"
            );
        }
    }
}

#[test]
fn a_reader_that_falls_behind_is_told_so_and_nothing_is_passed_over() {
    let mut feed = Feed::new();
    let mut events = Events::new(Limits {
        changes: 4,
        ..Limits::default()
    });
    let mut cursor = events
        .subscribe(&feed.projection, Start::Now, None)
        .expect("start");
    for id in 1..=6 {
        feed.submit(id, 1000, "a", "");
        let changes = feed.fold();
        events.changed(&feed.projection, &changes);
    }
    let lines = read(&mut events, &feed, &wants(&[]), &mut cursor);
    assert_eq!(lines.len(), 1);
    let text = lines[0]["Error"].as_str().expect("text");
    assert!(
        text.starts_with(
            "event dropped from buffer: all up to 0 was sent; events from 9 to 24 are kept"
        ),
        "{text}"
    );
    assert_eq!(
        (lines[0]["Oldest"].as_u64(), lines[0]["Newest"].as_u64()),
        (Some(9), Some(24))
    );
}

#[test]
fn another_journal_ends_what_is_read_of_this_one() {
    let (feed, mut events) = ten();
    let mut cursor = events
        .subscribe(&feed.projection, Start::Oldest, None)
        .expect("start");
    let mut other = Feed::new();
    other.submit(1, 1000, "a", "");
    let mut changes = other.fold();
    // A list that was built anew of the same journal is no change if nothing was missed.
    changes.reset = true;
    changes.to_seq = 40;
    events.changed(&feed.projection, &changes);
    assert_eq!(
        indexes(&read(&mut events, &feed, &wants(&[]), &mut cursor)).len(),
        10
    );
    changes.to_seq = 50;
    events.changed(&feed.projection, &changes);
    let lines = read(&mut events, &feed, &wants(&[]), &mut cursor);
    assert!(
        lines[0]["Error"]
            .as_str()
            .is_some_and(|text| text.contains("no event is kept, the newest was 50")),
        "{lines:?}"
    );
}

#[test]
fn topics_and_keys_choose() {
    let mut feed = Feed::new();
    let mut events = Events::new(Limits::default());
    feed.nodes("0-1", "{}");
    feed.submit(5, 1000, "a", "");
    feed.submit(6, 1001, "b", "");
    feed.run(5, "0-1");
    let first = feed.fold();
    events.changed(&feed.projection, &first);
    // The very first report tells where to begin; nothing before it is known.
    let changes = feed.projection.take_changes();
    assert!(changes.is_empty());
    let count = |wants: &Subscription, events: &mut Events| {
        let mut cursor = events
            .subscribe(&feed.projection, Start::Oldest, None)
            .expect("start");
        let lines = read(events, &feed, wants, &mut cursor);
        let all = lines
            .iter()
            .flat_map(|line| line["Events"].as_array().expect("events"));
        let mut counts = [0; 3];
        for event in all {
            let at = ["Job", "Allocation", "Node"]
                .iter()
                .position(|topic| event["Topic"] == *topic);
            counts[at.expect("a topic")] += 1;
        }
        counts
    };
    let (a, second) = (f58(5), alloc(5, 1));
    let node = names::text(&names::node("n1")).to_owned();
    for (topics, expected) in [
        (vec![], [2, 2, 2]),
        (vec!["*:*".to_owned()], [2, 2, 2]),
        (vec!["Job".to_owned()], [2, 0, 0]),
        (vec![format!("Job:{a}")], [1, 0, 0]),
        (vec!["Job:5".to_owned()], [1, 0, 0]),
        (vec!["Job:*".to_owned(), format!("Job:{a}")], [2, 0, 0]),
        (vec![format!("Job:{a}"), "Job:5".to_owned()], [1, 0, 0]),
        (vec![format!("*:{a}")], [1, 2, 0]),
        (vec![format!("Allocation:{a}")], [0, 2, 0]),
        (vec![format!("Allocation:{second}")], [0, 1, 0]),
        (
            vec!["Node:n1".to_owned(), format!("Node:{node}")],
            [0, 0, 1],
        ),
        (
            vec![
                "Evaluation".to_owned(),
                "Deployment:x".to_owned(),
                "Nothing".to_owned(),
            ],
            [0, 0, 0],
        ),
    ] {
        let topics: Vec<&str> = topics.iter().map(String::as_str).collect();
        assert_eq!(count(&wants(&topics), &mut events), expected, "{topics:?}");
    }
    let own = Subscription::new([], None, guest(1001)).expect("topics");
    assert_eq!(count(&own, &mut events), [1, 0, 2]);
    let elsewhere = Subscription::new([], Some("nope"), Viewer::OWNER).expect("topics");
    assert_eq!(count(&elsewhere, &mut events), [0, 0, 2]);
    let error = Subscription::new(["Job:a:b"], None, Viewer::OWNER).expect_err("two colons");
    assert!(error.status == 400 && error.text.starts_with("Invalid topic query: Job:a:b"));
}

#[test]
fn a_job_that_is_gone_is_told_of() {
    let mut feed = Feed::new();
    let mut events = Events::new(Limits::default());
    feed.submit(5, 1000, "a", "");
    feed.cancel(5);
    let changes = feed.fold();
    events.changed(&feed.projection, &changes);
    feed.purge(5);
    let changes = feed.fold();
    events.changed(&feed.projection, &changes);
    let mut cursor = events
        .subscribe(&feed.projection, Start::Oldest, None)
        .expect("start");
    let lines = read(&mut events, &feed, &wants(&["Job"]), &mut cursor);
    let a = f58(5);
    assert_eq!(
        told(&lines),
        [
            format!("6: Job JobRegistered {a}"),
            format!("7: Job JobDeregistered {a}")
        ]
    );
    let job = &lines[0]["Events"][0]["Payload"]["Job"];
    assert_eq!(
        (&job["Status"], &job["Stop"]),
        (&Value::from("dead"), &Value::from(true))
    );
    assert_eq!(
        lines[1]["Events"][0]["Payload"],
        serde_json::json!({"Job": {"ID": a, "Namespace": "default"}, "Deleted": true})
    );
}

#[test]
fn many_events_of_one_fold_are_several_lines_of_one_index() {
    let mut feed = Feed::new();
    let mut events = Events::new(Limits::default());
    feed.submit(5, 1000, "a", "");
    feed.run(5, "0-1999");
    for id in 10..1010 {
        feed.submit(id, 1000, "b", "");
    }
    let changes = feed.fold();
    events.changed(&feed.projection, &changes);
    let mut cursor = events
        .subscribe(&feed.projection, Start::Oldest, None)
        .expect("start");
    let lines = read(
        &mut events,
        &feed,
        &wants(&["Job", "Allocation"]),
        &mut cursor,
    );
    assert!(
        lines.len() >= 6 && lines.iter().all(|line| line["Index"] == feed.seq),
        "{}",
        lines.len()
    );
    let mut keys: Vec<_> = lines
        .iter()
        .flat_map(|line| line["Events"].as_array().expect("events"))
        .map(|event| event["Key"].as_str().expect("key").to_owned())
        .collect();
    let len = keys.len();
    keys.sort();
    keys.dedup();
    assert_eq!((len, keys.len()), (3001, 3001));
    // A reader of one job finds it among them.
    let mut cursor = events
        .subscribe(&feed.projection, Start::Oldest, None)
        .expect("start");
    let one = read(&mut events, &feed, &wants(&["Job:1009"]), &mut cursor);
    assert_eq!(
        told(&one),
        [format!("{}: Job JobRegistered {}", feed.seq, f58(1009))]
    );
}

#[test]
fn what_is_kept_is_bounded() {
    let mut feed = Feed::new();
    let limits = Limits {
        changes: 100,
        bytes: 40_000,
        json_bytes: 20_000,
    };
    let mut events = Events::new(limits);
    let all = wants(&[]);
    let mut cursor = events
        .subscribe(&feed.projection, Start::Now, None)
        .expect("start");
    let mut lines = 0;
    for id in 1..=300 {
        feed.submit(id, 1000, "a", "");
        let changes = feed.fold();
        events.changed(&feed.projection, &changes);
        lines += read(&mut events, &feed, &all, &mut cursor).len();
        // The line that is just written may be over it.
        assert!(events.bytes <= limits.bytes && events.json_bytes <= limits.json_bytes + 4096);
        assert!(events.changes <= limits.changes);
    }
    assert_eq!(lines, 300);
    let kept: usize = events.lines.iter().map(|line| line.json_bytes).sum();
    assert_eq!(kept, events.json_bytes);
}

#[test]
fn a_job_too_large_to_keep_is_shown_as_it_is_and_told_gone_once() {
    let mut feed = Feed::new();
    let mut events = Events::new(Limits::default());
    feed.submit(5, 1000, "a", "");
    feed.run(5, "0-999");
    let changes = feed.fold();
    events.changed(&feed.projection, &changes);
    // Every other part says something of its own: more runs than are copied.
    let even: Vec<String> = (0..500).map(|at| (at * 2).to_string()).collect();
    let said = format!(
        r#"{{"allocs":[{{"ranks":"{}","status":"failed","reason":"disk"}}]}}"#,
        even.join(",")
    );
    feed.entry(5, "alloc-status", &said, "");
    let changes = feed.fold();
    events.changed(&feed.projection, &changes);
    let wanted = wants(&["Job", "Allocation"]);
    let first = alloc(5, 0);
    let one = wants(&[&format!("Allocation:{first}")]);
    let mut cursor = events
        .subscribe(&feed.projection, Start::Oldest, None)
        .expect("start");
    let lines = read(&mut events, &feed, &one, &mut cursor);
    assert_eq!(
        told(&lines),
        [
            format!("6: Allocation PlanResult {first}"),
            format!("7: Allocation AllocationUpdated {first}")
        ]
    );
    assert_eq!(
        lines[1]["Events"][0]["Payload"]["Allocation"]["ClientDescription"],
        "disk"
    );
    feed.end(5, 0);
    feed.purge(5);
    let changes = feed.fold();
    events.changed(&feed.projection, &changes);
    let mut cursor = events
        .subscribe(&feed.projection, Start::At(7), None)
        .expect("start");
    let lines = read(&mut events, &feed, &wanted, &mut cursor);
    assert_eq!(
        told(&lines),
        [format!("12: Job JobDeregistered {}", f58(5))]
    );
}
