//! Cases A01, A05, A06, A07 and the edges of the fold, one by one.

use job::{JobId, JobResult, State, StateSet};
use serde_json::json;

use super::feed::{EPOCH, Feed, batch, everything, fold, list, live, play, row, spec};
use crate::{
    Attrs, Group, Query, QueryError, Waiters,
    constraint::Constraint,
    projection::{FoldError, Form, Projection},
};

fn pending() -> Constraint {
    Constraint::States(StateSet::PENDING)
}

#[test]
fn a01_equal_priorities_list_in_submit_order_and_a_job_put_back_is_back() {
    let (mut feed, mut projection) = (Feed::default(), live());
    let (a, b, c) = (100, 200, 300);
    for id in [a, b, c] {
        play(
            &mut projection,
            &feed.submit(id, 1000, 16, &spec("x", None)),
        );
    }
    assert_eq!(list(&projection, pending()), [a, b, c]);
    play(&mut projection, &feed.urgency(c, 17));
    assert_eq!(list(&projection, pending()), [c, a, b]);
    assert_eq!(projection.jobs().rank(JobId(a)), Some((Group::Pending, 1)));
    play(&mut projection, &feed.urgency(c, 16));
    assert_eq!(list(&projection, pending()), [a, b, c]);
    assert_eq!(projection.jobs().rank(JobId(c)), Some((Group::Pending, 2)));
}

#[test]
fn a05_an_entry_sent_twice_counts_once() {
    let (mut feed, mut twice) = (Feed::default(), live());
    let mut once = live();
    let mut entries = feed.submit(7, 1000, 16, &spec("x", None));
    entries.push(feed.alloc(7, 0));
    entries.push(feed.entry(7, "start", "", ""));
    play(&mut once, &entries);
    let mut repeated = entries.clone();
    repeated.insert(4, entries[3].clone());
    let _ = fold(&mut twice, &batch(&repeated, "\"seq\":6"));
    assert_eq!(everything(&twice), everything(&once));
    assert_eq!(twice.jobs().counts(), once.jobs().counts());
    assert_eq!(
        (twice.counters().duplicates, twice.counters().events),
        (1, 6)
    );
    assert_eq!((twice.counters().invalid, twice.counters().gaps), (0, 0));
    assert_eq!(once.counters().duplicates, 0);
}

#[test]
fn a06_a_timeout_is_a_timeout_and_nothing_else_at_every_moment() {
    let (mut feed, mut projection) = (Feed::default(), live());
    let mut entries = feed.submit(7, 1000, 16, &spec("sleep", Some("q")));
    entries.push(feed.alloc(7, 0));
    entries.push(feed.entry(7, "start", "", ""));
    entries.push(feed.exception(7, "timeout"));
    entries.extend(feed.end(7, 36352));
    for entry in entries {
        play(&mut projection, &[entry]);
        let counts = projection.jobs().counts();
        for tally in [counts.all(), counts.queue("q").unwrap_or(counts.all())] {
            let results: u64 = JobResult::ALL
                .into_iter()
                .map(|result| tally.result(result))
                .sum();
            assert_eq!(results, tally.state(State::Inactive));
            assert!(tally.total() <= 1);
        }
    }
    let stats = serde_json::to_value(projection.jobs().counts()).expect("JSON");
    let expected = json!({
        "job_states":{"depend":0,"priority":0,"sched":0,"run":0,"cleanup":0,"inactive":1,"total":1},
        "successful":0,"failed":0,"canceled":0,"timeout":1,"inactive_purged":0});
    let mut with_queue = expected.clone();
    with_queue["queues"] = json!([{"name":"q"}]);
    for (key, value) in expected.as_object().expect("object") {
        with_queue["queues"][0][key] = value.clone();
    }
    assert_eq!(stats, with_queue);
    assert_eq!(row(&projection, 7)["result"], 8);
}

#[test]
fn a07_jobs_that_never_started_have_no_start_and_every_row_is_whole() {
    let (mut feed, mut projection) = (Feed::default(), live());
    play(
        &mut projection,
        &feed.submit(1, 1000, 16, &spec("big", None)),
    );
    play(
        &mut projection,
        &feed.submit(2, 1000, 0, &spec("held", None)),
    );
    for (id, kind) in [(1, "alloc"), (2, "cancel")] {
        play(&mut projection, &[feed.exception(id, kind)]);
        // In CLEANUP it is in the running group, without a start.
        assert_eq!(
            list(&projection, Constraint::States(StateSet::RUNNING)),
            [id]
        );
        let shown = row(&projection, id);
        assert!(
            shown.get("t_run").is_none()
                && shown.get("ranks").is_none()
                && shown.get("expiration").is_none()
        );
        assert!(
            shown["t_cleanup"].is_f64()
                && shown.get("t_inactive").is_none()
                && shown.get("result").is_none()
        );
        let end = feed.entry(id, "clean", "", "");
        play(&mut projection, &[end]);
    }
    let (failed, canceled) = (row(&projection, 1), row(&projection, 2));
    assert_eq!(
        (&failed["result"], &failed["exception_type"]),
        (&json!(2), &json!("alloc"))
    );
    assert_eq!(
        (&canceled["result"], &canceled["exception_type"]),
        (&json!(4), &json!("cancel"))
    );
    for shown in [failed, canceled] {
        assert!(shown.get("t_run").is_none());
        assert!(
            shown
                .as_object()
                .expect("object")
                .values()
                .all(|value| !value.is_null())
        );
    }
}

#[test]
fn a_finished_job_has_every_attribute_that_is_defined() {
    let (mut feed, mut projection) = (Feed::default(), live());
    let mut entries = feed.submit(7, 1000, 20, &spec("/bin/true", Some("q")));
    entries.push(feed.alloc(7, 3));
    entries.push(feed.entry(7, "start", "", ""));
    entries.push(feed.entry(7, "memo", r#"{"a":1}"#, ""));
    entries.extend(feed.end(7, 0));
    play(&mut projection, &entries);
    assert_eq!(
        row(&projection, 7),
        json!({"id":7,"userid":1000,"urgency":20,"priority":20,"t_submit":0.5,"t_depend":1.0,"t_priority":1.5,
            "t_sched":2.0,"t_run":2.5,"t_cleanup":4.0,"t_inactive":5.5,"state":64,"name":"true","queue":"q","ntasks":1,
            "ncores":2,"duration":0.0,"nnodes":1,"ranks":"3","nodelist":"n3","success":true,"exception_occurred":false,
            "result":1,"expiration":0.0,"annotations":{"user":{"a":1}},"waitstatus":0})
    );
}

#[test]
fn one_batch_is_one_reorder_pass_however_many_jobs_it_moves() {
    let (mut feed, mut projection) = (Feed::default(), live());
    let mut entries = Vec::new();
    for id in 1..=2000 {
        entries.extend(feed.submit(id, 1000, 16, &spec("x", None)));
    }
    play(&mut projection, &entries);
    assert_eq!(projection.counters().reorder_passes, 1);
    let raised: Vec<_> = (1991..=2000).flat_map(|id| feed.urgency(id, 31)).collect();
    let changed = play(&mut projection, &raised);
    assert_eq!(changed.len(), 10);
    assert_eq!(
        (
            projection.counters().reorder_passes,
            projection.counters().batches
        ),
        (2, 3)
    );
    let expected: Vec<u64> = (1991..=2000).chain(1..=1990).collect();
    assert_eq!(list(&projection, pending()), expected);
    // Nothing moves, no pass.
    play(&mut projection, &feed.urgency(5, 16));
    assert_eq!(projection.counters().reorder_passes, 2);
}

#[test]
fn unknown_events_are_harmless() {
    let (mut feed, mut projection) = (Feed::default(), live());
    let mut entries = feed.submit(7, 1000, 16, &spec("x", None));
    entries.push(feed.entry(7, "future-event", r#"{"x":[1]}"#, ""));
    entries.extend(feed.urgency(7, 20));
    entries.push(feed.system("future", "{}"));
    play(&mut projection, &entries);
    assert_eq!(row(&projection, 7)["priority"], 20);
    let counters = projection.counters();
    assert_eq!(
        (counters.invalid, counters.unknown, counters.gaps),
        (0, 0, 0)
    );
}

#[test]
fn invalidate_forgets_and_a_purge_counts() {
    let (mut feed, mut projection) = (Feed::default(), live());
    play(
        &mut projection,
        &feed.submit(1, 1000, 16, &spec("x", Some("q"))),
    );
    let context = r#"{"userid":1000,"urgency":16,"flags":0,"version":1}"#;
    let jobspec = format!("\"jobspec\":{}", spec("y", Some("q")));
    let refused = [
        feed.entry(2, "submit", context, &jobspec),
        feed.entry(2, "invalidate", "", ""),
    ];
    play(&mut projection, &refused);
    assert_eq!(list(&projection, Constraint::everything()), [1]);
    assert!(projection.jobs().get(JobId(2)).is_none());
    assert_eq!(projection.jobs().counts().all().purged(), 0);
    let mut entries = vec![feed.exception(1, "cancel")];
    entries.push(feed.entry(1, "clean", "", ""));
    entries.push(feed.system("purge", r#"{"jobs":[1,55]}"#));
    let changed = play(&mut projection, &entries);
    assert!(changed.contains(&JobId(1)));
    assert!(projection.jobs().is_empty());
    let tally = projection.jobs().counts().all();
    assert_eq!(
        (
            tally.total(),
            tally.purged(),
            tally.result(JobResult::Canceled)
        ),
        // 55 was purged too, though this list never held it.
        (0, 2, 0)
    );
    let queue = projection.jobs().counts().queue("q");
    assert_eq!(queue.map(|tally| tally.purged()), Some(1));
    for constraint in [
        Constraint::User(vec![1000]),
        Constraint::Name(vec!["x".into()]),
        Constraint::Queue(vec!["q".into()]),
        Constraint::everything(),
    ] {
        assert!(list(&projection, constraint).is_empty());
    }
    // The slot is used again; nothing of the old job shines through.
    play(&mut projection, &feed.submit(3, 1001, 16, &spec("z", None)));
    assert_eq!(list(&projection, Constraint::User(vec![1001])), [3]);
    assert!(row(&projection, 3).get("result").is_none());
}

#[test]
fn a_rebuild_is_made_aside_and_swapped_in_whole() {
    let (mut feed, mut projection) = (Feed::default(), live());
    play(&mut projection, &feed.submit(1, 1000, 16, &spec("x", None)));
    assert_eq!(projection.cursor(), Some((4, EPOCH)));
    projection.cut();
    projection.begin_fresh(Form::Native);
    let other = feed.submit(2, 1000, 16, &spec("x", None));
    let text = batch(&other, "\"backlog\":true").replace(EPOCH, "00000000000000e2");
    let folded = fold(&mut projection, &text);
    assert!(folded.changed.is_empty() && !projection.is_live() && projection.is_served());
    assert_eq!(
        list(&projection, Constraint::everything()),
        [1],
        "the old list is served meanwhile"
    );
    // The rebuild is cut; the list and its cursor are as before.
    projection.cut();
    assert_eq!(
        (
            list(&projection, Constraint::everything()),
            projection.cursor()
        ),
        (vec![1], Some((4, EPOCH)))
    );
    projection.begin_fresh(Form::Native);
    let _ = fold(&mut projection, &text);
    let folded = fold(
        &mut projection,
        &batch(&[], r#""seq":8,"caught_up":true"#).replace(EPOCH, "00000000000000e2"),
    );
    assert!(folded.swapped && folded.caught_up);
    assert_eq!(
        list(&projection, Constraint::everything()),
        [2],
        "no ghost of the old list"
    );
    assert_eq!(projection.cursor(), Some((8, "00000000000000e2")));
    assert_eq!(projection.counters().rebuilds, 1);
}

#[test]
fn a_resumed_stream_goes_on_with_the_same_list() {
    let (mut feed, mut projection) = (Feed::default(), live());
    let entries = feed.submit(1, 1000, 16, &spec("x", None));
    play(&mut projection, &entries[..2]);
    projection.cut();
    assert!(!projection.is_live());
    projection.begin_resume();
    let folded = fold(&mut projection, &batch(&[], r#""seq":2,"caught_up":true"#));
    assert!(folded.caught_up && !folded.swapped);
    play(&mut projection, &entries[2..]);
    assert_eq!(
        (projection.applied(), list(&projection, pending())),
        (4, vec![1])
    );
    assert_eq!(
        (projection.counters().gaps, projection.counters().duplicates),
        (0, 0)
    );
    let foreign = batch(&[], "\"seq\":9").replace(EPOCH, "00000000000000e2");
    assert!(matches!(
        projection.fold_native(foreign.as_bytes(), &mut |_| {}),
        Err(FoldError::Epoch { .. })
    ));
    assert!(matches!(
        projection.fold_native(b"[]", &mut |_| {}),
        Err(FoldError::Malformed(_))
    ));
}

#[test]
fn a_mark_says_from_where_on_requests_may_be_answered() {
    let mut projection = live();
    let _ = fold(
        &mut projection,
        &format!(r#"{{"epoch":"{EPOCH}","mark":4}}"#),
    );
    assert!(projection.applied() < projection.mark());
    let mut feed = Feed::default();
    play(&mut projection, &feed.submit(1, 1000, 16, &spec("x", None)));
    assert_eq!((projection.applied(), projection.mark()), (4, 4));
}

#[test]
fn the_flux_form_folds_to_the_same_list() {
    let mut projection = Projection::new();
    projection.begin_fresh(Form::Flux);
    let flux = |projection: &mut Projection, text: &str| {
        projection
            .fold_flux(text.as_bytes(), &mut |_| {})
            .expect("a message")
    };
    let backlog = format!(
        r#"{{"id":7,"events":[{{"timestamp":1.0,"name":"submit","context":{{"userid":1000,"urgency":16,"flags":0,"version":1}}}},
        {{"timestamp":1.5,"name":"validate"}},{{"timestamp":2.0,"name":"depend"}},{{"timestamp":2.5,"name":"priority","context":{{"priority":16}}}},
        {{"timestamp":3.0,"name":"alloc"}}],"jobspec":{},"R":{{"version":1,"execution":{{"R_lite":[{{"rank":"0","children":{{"core":"0"}}}}],"nodelist":["n0"],"expiration":9.5}}}}}}"#,
        spec("a", None)
    );
    let _ = flux(&mut projection, &backlog);
    assert!(!projection.is_served());
    assert!(flux(&mut projection, r#"{"id":-1,"events":[]}"#).caught_up);
    let shown = row(&projection, 7);
    assert_eq!(
        (&shown["nodelist"], &shown["expiration"], &shown["state"]),
        (&json!("n0"), &json!(9.5), &json!(16))
    );
    let folded = flux(
        &mut projection,
        r#"{"id":7,"events":[{"timestamp":4.0,"name":"finish","context":{"status":256}}]}"#,
    );
    assert_eq!(folded.changed, [JobId(7)]);
    assert_eq!(row(&projection, 7)["waitstatus"], 256);
    assert_eq!(projection.cursor(), None, "the Flux form has no cursor");
}

#[test]
fn followers_see_each_entry_of_the_served_list_once() {
    let (mut feed, mut projection) = (Feed::default(), live());
    let entries = feed.submit(1, 1000, 16, &spec("x", None));
    let mut seen = Vec::new();
    for _ in 0..2 {
        let text = batch(&entries, "\"seq\":4");
        let _ = projection
            .fold_native(text.as_bytes(), &mut |entry| {
                seen.push((entry.id.0, entry.eventlog_seq, entry.json.to_owned()))
            })
            .expect("a batch");
    }
    let numbers: Vec<_> = seen.iter().map(|(id, seq, _)| (*id, *seq)).collect();
    assert_eq!(numbers, [(1, 1), (1, 2), (1, 3), (1, 4)]);
    assert_eq!(seen[1].2, r#"{"timestamp":1.0,"name":"validate"}"#);
}

#[test]
fn since_filters_inactive_jobs_only() {
    let (mut feed, mut projection) = (Feed::default(), live());
    let mut ended = Vec::new();
    for id in 1..=3 {
        let mut entries = feed.submit(id, 1000, 16, &spec("x", None));
        entries.push(feed.exception(id, "cancel"));
        entries.push(feed.entry(id, "clean", "", ""));
        ended.push(feed.time);
        play(&mut projection, &entries);
    }
    play(&mut projection, &feed.submit(4, 1000, 16, &spec("x", None)));
    for constraint in [
        Constraint::everything(),
        Constraint::User(vec![1000]),
        Constraint::Name(vec!["x".into()]),
    ] {
        let query = Query {
            constraint,
            since: ended[0],
            limit: 0,
        };
        let ids: Vec<u64> = query
            .run(projection.jobs())
            .expect("within budget")
            .into_iter()
            .map(|id| id.0)
            .collect();
        assert_eq!(ids, [4, 3, 2]);
    }
}

#[test]
fn a_query_ends_when_its_comparisons_are_used_up() {
    let (mut feed, mut projection) = (Feed::default(), live());
    let entries: Vec<_> = (1..=50)
        .flat_map(|id| feed.submit(id, 1000, 16, &spec("x", None)))
        .collect();
    play(&mut projection, &entries);
    let constraint = Constraint::parse(&json!({"t_submit":[">=0"]}), 1).expect("valid");
    let query = Query {
        constraint,
        ..Query::default()
    };
    assert_eq!(
        query.run_within(projection.jobs(), 49),
        Err(QueryError::Excessive)
    );
    assert_eq!(
        query.run_within(projection.jobs(), 50).map(|ids| ids.len()),
        Ok(50)
    );
    assert_eq!(
        QueryError::Excessive.to_string(),
        "Excessive comparisons made, limit search via states or since"
    );
    // What indexes answer costs no comparison.
    let indexed = Query {
        constraint: Constraint::User(vec![1000]),
        ..Query::default()
    };
    assert_eq!(
        indexed
            .run_within(projection.jobs(), 0)
            .map(|ids| ids.len()),
        Ok(50)
    );
}

#[test]
fn a_bad_attribute_is_noticed_only_when_a_row_is_written() {
    let (mut feed, mut projection) = (Feed::default(), live());
    play(&mut projection, &feed.submit(1, 1000, 16, &spec("x", None)));
    let attrs = Attrs::named(["state", "foo"]);
    let mut out = Vec::new();
    let record = projection.jobs().get(JobId(1)).expect("the job");
    assert_eq!(
        attrs.write(record, &mut out).map_err(|e| e.to_string()),
        Err("foo is not a valid attribute".into())
    );
    assert!(out.is_empty());
}

#[test]
fn waits_end_with_the_state_or_the_job() {
    let (mut feed, mut projection) = (Feed::default(), live());
    let mut waiters = Waiters::default();
    waiters
        .add(JobId(1), StateSet::EMPTY, "appears")
        .expect("room");
    waiters
        .add(JobId(1), StateSet::from(State::Run), "runs")
        .expect("room");
    waiters
        .add(JobId(1), StateSet::from(State::Inactive), "ends")
        .expect("room");
    waiters
        .add(JobId(2), StateSet::EMPTY, "never")
        .expect("room");
    let step = |projection: &mut Projection,
                waiters: &mut Waiters<&'static str>,
                entries: &[super::feed::Sent]| {
        let changed = play(projection, entries);
        waiters
            .take_ripe(projection.jobs(), &changed)
            .into_iter()
            .map(|(_, who)| who)
            .collect::<Vec<_>>()
    };
    let submitted = feed.submit(1, 1000, 16, &spec("x", None));
    assert_eq!(step(&mut projection, &mut waiters, &submitted), ["appears"]);
    // It is cancelled: it never runs, both other waits end when it is over and not before.
    assert_eq!(
        step(
            &mut projection,
            &mut waiters,
            &[feed.exception(1, "cancel")]
        ),
        [""; 0]
    );
    let clean = feed.entry(1, "clean", "", "");
    assert_eq!(
        step(&mut projection, &mut waiters, &[clean]),
        ["runs", "ends"]
    );
    assert_eq!(waiters.len(), 1);
    waiters.forget(|who| *who == "never");
    assert!(waiters.is_empty());
}
