//! Nodes: the base that `caught_up` tells, rebuilds, Flux's form, what cannot be read.

use job::{JobId, Timestamp};

use super::feed::{EPOCH, Feed, Sent, batch, define, fold, list, live, play, spec, weir_spec};
use crate::{
    allocs::Allocs,
    changes::{CHANGES_MAX, What},
    clients::{ClientStatus, per_client},
    constraint::Constraint,
    nodes::Node,
    projection::{Form, Projection},
    record::{Kind, Status},
};

fn row(projection: &Projection, name: &str) -> Node {
    let node = projection.nodes().by_name(name);
    node.unwrap_or_else(|| panic!("no node {name}")).clone()
}

/// Four nodes: 0 and 1 up, 2 drained and up, 3 down.
fn four(feed: &mut Feed) -> Vec<Sent> {
    vec![
        feed.resource("resource-define", &define("0-3", r#"{"gpu":"3"}"#)),
        feed.resource("online", r#"{"idset":"0-2","nodelist":"n[0-2]"}"#),
        feed.resource(
            "drain",
            r#"{"idset":"2","nodelist":"n2","reason":"fans","overwrite":0,"userid":7}"#,
        ),
    ]
}

#[test]
fn a_node_is_what_the_newest_entries_say_of_it() {
    let (mut feed, mut projection) = (Feed::default(), live());
    play(&mut projection, &four(&mut feed));
    assert_eq!(projection.nodes().known_len(), 4);
    let n0 = row(&projection, "n0");
    assert_eq!(
        (n0.rank, n0.up, n0.cores, &*n0.pool),
        (Some(0), true, 4, "default")
    );
    assert_eq!(
        (n0.create_seq, n0.modify_seq, n0.since),
        (1, 2, Some(Timestamp(1.0)))
    );
    assert!(n0.is_ready());
    let n2 = row(&projection, "n2");
    let drain = n2.drain.as_ref().expect("drained");
    assert_eq!(
        (&*drain.reason, drain.userid, drain.since),
        ("fans", Some(7), Timestamp(1.5))
    );
    assert!(n2.up && !n2.is_ready());
    let n3 = row(&projection, "n3");
    assert_eq!((n3.up, n3.modify_seq, &*n3.pool), (false, 1, "gpu"));

    // Down with a reason, up again: the reason goes. What says nothing new changes nothing.
    let sent = vec![feed.resource(
        "offline",
        r#"{"idset":"0","nodelist":"n0","reason":"no answer"}"#,
    )];
    play(&mut projection, &sent);
    let n0 = row(&projection, "n0");
    assert_eq!(
        (n0.up, n0.down_reason.as_deref()),
        (false, Some("no answer"))
    );
    let sent = vec![
        feed.resource("online", r#"{"idset":"0","nodelist":"n0"}"#),
        feed.resource("online", r#"{"idset":"0-1","nodelist":"n[0-1]"}"#),
        feed.resource("undrain", r#"{"idset":"2","nodelist":"n2"}"#),
    ];
    play(&mut projection, &sent);
    let n0 = row(&projection, "n0");
    assert_eq!((n0.up, n0.down_reason, n0.modify_seq), (true, None, 5));
    assert!(row(&projection, "n2").is_ready());

    // Another set: what is known goes with the names, a node that is in it no more is not known.
    let moved = define("1-2", "{}").replace(r#""rank":"1-2""#, r#""rank":"0-1""#);
    let sent = vec![feed.resource("resource-define", &moved)];
    play(&mut projection, &sent);
    let (n1, n3) = (row(&projection, "n1"), row(&projection, "n3"));
    assert_eq!((n1.rank, n1.up, n1.create_seq), (Some(0), true, 1));
    assert_eq!((n3.rank, n3.known, n3.is_ready()), (None, false, false));
    let listed: Vec<&str> = projection
        .nodes()
        .listed()
        .map(|(_, node)| &*node.name)
        .collect();
    assert_eq!(listed, ["n1", "n2"]);
}

#[test]
fn the_base_of_caught_up_is_taken_and_entries_that_are_in_it_are_passed_over() {
    let (mut feed, mut projection) = (Feed::default(), live());
    let mut told = four(&mut feed);
    told.push(feed.resource("offline", r#"{"idset":"1","nodelist":"n1","reason":"x"}"#));
    play(&mut projection, &told);
    let base = projection.nodes().resources().to_json();
    let base = std::str::from_utf8(&base).expect("text");
    let caught_up = batch(
        &[],
        &format!(r#""seq":4,"caught_up":true,"resources":{base}"#),
    );

    // A list from the start, whose backlog has some of the entries or none: the same nodes.
    for some in [&told[..], &told[..2], &[]] {
        let mut other = Projection::new();
        other.begin_fresh(Form::Native);
        let _ = fold(&mut other, &batch(some, "\"backlog\":true"));
        let _ = fold(&mut other, &caught_up);
        for name in ["n0", "n1", "n2", "n3"] {
            let (met, expected) = (row(&other, name), row(&projection, name));
            assert_eq!(
                (met.rank, met.up, met.pool, met.drain, met.known),
                (
                    expected.rank,
                    expected.up,
                    expected.pool,
                    expected.drain,
                    true
                )
            );
            assert!(met.modify_seq <= 4);
        }
        assert_eq!(other.nodes().known_len(), 4);
    }

    // A rebuild changes nothing of when they came and changed, nor does a resumed stream.
    let before: Vec<Node> = projection
        .nodes()
        .iter()
        .map(|(_, node)| node.clone())
        .collect();
    projection.cut();
    projection.begin_fresh(Form::Native);
    let _ = fold(&mut projection, &caught_up);
    let seqs = |nodes: &[Node]| -> Vec<_> {
        let seqs = nodes
            .iter()
            .map(|node| (node.name.clone(), node.create_seq, node.modify_seq));
        seqs.collect()
    };
    let after: Vec<Node> = projection
        .nodes()
        .iter()
        .map(|(_, node)| node.clone())
        .collect();
    assert_eq!(seqs(&before), seqs(&after));
    projection.watch_changes(true);
    projection.cut();
    projection.begin_resume();
    let _ = fold(&mut projection, &caught_up);
    assert!(projection.take_changes().is_empty());

    // A base that is ahead of where the stream was: the entries that are in it come and are passed over.
    let later = vec![
        feed.resource("online", r#"{"idset":"3","nodelist":"n3"}"#),
        feed.resource("undrain", r#"{"idset":"2","nodelist":"n2"}"#),
    ];
    let mut ahead = live();
    play(&mut ahead, &told);
    play(&mut ahead, &later);
    let base = ahead.nodes().resources().to_json();
    let base = std::str::from_utf8(&base).expect("text");
    projection.cut();
    projection.begin_resume();
    let text = batch(
        &[],
        &format!(r#""seq":4,"caught_up":true,"resources":{base}"#),
    );
    let _ = fold(&mut projection, &text);
    let changes = projection.take_changes();
    let names: Vec<&str> = changes.nodes.iter().map(|(name, _)| &**name).collect();
    assert_eq!(names, ["n2", "n3"]);
    assert!(changes.nodes.iter().all(|(_, seq)| *seq <= 4));
    play(&mut projection, &later);
    assert!(projection.take_changes().nodes.is_empty());
    assert!(row(&projection, "n3").up && row(&projection, "n2").is_ready());
}

#[test]
fn fault_an_entry_of_resources_that_cannot_be_folded_is_counted_and_named() {
    let (mut feed, mut projection) = (Feed::default(), live());
    play(&mut projection, &four(&mut feed));
    let bad = vec![feed.resource("online", r#"{"idset":"7"}"#)];
    play(&mut projection, &bad);
    assert_eq!(projection.counters().invalid, 1);
    assert!(
        projection
            .nodes()
            .fault()
            .is_some_and(|fault| fault.contains("online"))
    );
    projection.cut();
    projection.begin_resume();
    let caught_up = batch(&[], r#""seq":4,"caught_up":true,"resources":{"seq":"x"}"#);
    let _ = fold(&mut projection, &caught_up);
    assert!(
        projection
            .nodes()
            .fault()
            .is_some_and(|fault| fault.contains("malformed"))
    );
    // The jobs are followed all the same, and a base that can be read mends it.
    assert!(projection.is_live());
    let base = projection.nodes().resources().to_json();
    let base = std::str::from_utf8(&base).expect("text");
    projection.cut();
    projection.begin_resume();
    let _ = fold(
        &mut projection,
        &batch(
            &[],
            &format!(r#""seq":4,"caught_up":true,"resources":{base}"#),
        ),
    );
    assert_eq!(projection.nodes().fault(), None);
    // An entry that is not about nodes is nothing to us.
    let other = vec![feed.resource("resource-init", "{}")];
    play(&mut projection, &other);
    assert_eq!(
        (projection.nodes().fault(), projection.nodes().known_len()),
        (None, 4)
    );
}

#[test]
fn in_flux_form_nodes_come_from_jobs_and_seqs_from_a_counter_of_our_own() {
    let mut projection = Projection::new();
    projection.begin_fresh(Form::Flux);
    let r = r#"{"version":1,"execution":{"R_lite":[{"rank":"0-1","children":{"core":"0"}}],"nodelist":["n[0-1]"],"starttime":0.0,"expiration":0.0}}"#;
    let submit = r#"{"timestamp":1.0,"name":"submit","context":{"userid":1,"urgency":16,"flags":0,"version":1}}"#;
    let plain = |name: &str| format!(r#"{{"timestamp":2.0,"name":"{name}"}}"#);
    let priority = r#"{"timestamp":2.0,"name":"priority","context":{"priority":16}}"#;
    let events = [
        submit,
        &plain("validate"),
        &plain("depend"),
        priority,
        &plain("alloc"),
    ];
    let message = |id: u64, events: &[&str]| {
        format!(
            r#"{{"id":{id},"events":[{}],"jobspec":{},"R":{r}}}"#,
            events.join(","),
            spec("x", None)
        )
    };
    let send = |projection: &mut Projection, text: &str| {
        projection
            .fold_flux(text.as_bytes(), &mut |_| {})
            .expect("a message")
    };
    let _ = send(&mut projection, &message(7, &events));
    let _ = send(&mut projection, r#"{"id":-1,"events":[]}"#);
    assert_eq!((projection.applied(), projection.cursor()), (5, None));
    assert_eq!(projection.form(), Some(Form::Flux));
    let node = row(&projection, "n1");
    assert!(!node.known && !node.is_ready() && node.rank.is_none());
    assert_eq!(projection.nodes().listed().count(), 2);
    let record = projection.jobs().get(JobId(7)).expect("the job");
    assert_eq!((record.create_seq(), record.modify_seq()), (1, 5));
    assert_eq!(Allocs::of(record, projection.nodes()).len(), 2);
    let clients = per_client(record, projection.nodes());
    assert_eq!(clients.count(ClientStatus::Starting), 2);
    let _ = send(&mut projection, &message(7, &[&plain("start")]));
    assert_eq!(projection.applied(), 6);
    // The counter goes on when the list is built anew.
    projection.cut();
    projection.begin_fresh(Form::Flux);
    let _ = send(&mut projection, &message(7, &events));
    let _ = send(&mut projection, r#"{"id":-1,"events":[]}"#);
    assert_eq!(projection.applied(), 11);
    let record = projection.jobs().get(JobId(7)).expect("the job");
    assert_eq!(record.create_seq(), 7);
}

#[test]
fn a_bulk_change_of_priorities_moves_no_job_in_the_order_of_modification() {
    let (mut feed, mut projection) = (Feed::default(), live());
    for id in 1..=50 {
        play(&mut projection, &feed.submit(id, 1, 16, &spec("x", None)));
    }
    projection.watch_changes(true);
    let before: Vec<_> = projection.jobs().by_modify().iter().copied().collect();
    let bulk: Vec<Sent> = (1..=50).flat_map(|id| feed.urgency(id, 31)).collect();
    play(&mut projection, &bulk);
    assert!(projection.jobs().by_modify().iter().eq(before.iter()));
    let changes = projection.take_changes();
    assert_eq!(changes.jobs.len(), 50);
    for change in &changes.jobs {
        assert_eq!((change.before, change.what), (change.after, What::ROW));
    }
    let record = projection.jobs().get(JobId(50)).expect("the job");
    assert_eq!((record.touched_seq(), record.modify_seq()), (feed.seq, 198));
    let note = vec![feed.entry(3, "memo", r#"{"a":1}"#, "")];
    play(&mut projection, &note);
    assert_eq!(projection.take_changes().jobs[0].what, What::NOTES);
}

#[test]
fn more_changes_than_are_kept_are_one_word() {
    let (mut feed, mut projection) = (Feed::default(), live());
    play(&mut projection, &feed.submit(1, 1, 16, &spec("x", None)));
    assert!(projection.take_changes().is_empty(), "nobody watches");
    projection.watch_changes(true);
    for _ in 0..=CHANGES_MAX {
        let one = vec![feed.priority(1, 7)];
        play(&mut projection, &one);
    }
    let changes = projection.take_changes();
    assert!(changes.reset && changes.jobs.is_empty());
    let one = vec![feed.priority(1, 8)];
    play(&mut projection, &one);
    let changes = projection.take_changes();
    assert!(!changes.reset && changes.jobs.len() == 1);
    // A list that is swapped in is one word, too.
    projection.cut();
    projection.begin_fresh(Form::Native);
    let text = batch(&[], &format!(r#""seq":{},"caught_up":true"#, feed.seq));
    let _ = fold(&mut projection, &text);
    assert!(projection.take_changes().reset);
}

#[test]
fn a_list_of_another_epoch_takes_nothing_over_from_the_one_before() {
    let (mut feed, mut projection) = (Feed::default(), live());
    play(&mut projection, &four(&mut feed));
    projection.cut();
    projection.begin_fresh(Form::Native);
    let base = projection.nodes().resources().to_json();
    let base = std::str::from_utf8(&base).expect("text");
    let text = batch(
        &[],
        &format!(r#""seq":9,"caught_up":true,"resources":{base}"#),
    );
    let _ = fold(&mut projection, &text.replace(EPOCH, "00000000000000e7"));
    assert_eq!(row(&projection, "n0").create_seq, 3, "the seq of the base");
}

#[test]
fn parents_children_and_kinds_are_what_the_jobspec_says() {
    let (mut feed, mut projection) = (Feed::default(), live());
    projection.watch_changes(true);
    let parent = weir_spec("p", r#"{"parameterized":{}}"#);
    let mut sent = feed.submit(1, 1, 16, &parent);
    sent.truncate(2);
    feed.seq = 2;
    play(&mut projection, &sent);
    let child = weir_spec("p", r#"{"parent":1,"dispatch":{"meta":{}}}"#);
    play(&mut projection, &feed.submit(9, 1, 16, &child));
    let all =
        weir_spec("s", r#"{"type":"sysbatch"}"#).replace(r#""slot":"task""#, r#""slot":"all""#);
    let all = all.replace(r#""label":"task""#, r#""label":"all""#);
    play(&mut projection, &feed.submit(5, 1, 16, &all));
    let _ = projection.take_changes();
    let job = |id| projection.jobs().get(JobId(id)).expect("the job");
    assert_eq!(
        (job(1).kind(), job(1).status()),
        (Kind::Parameterized, Some(Status::Running))
    );
    assert_eq!(
        (job(9).kind(), job(9).parent()),
        (Kind::Batch, Some(JobId(1)))
    );
    assert_eq!(
        (job(5).kind(), job(5).group(), job(9).group()),
        (Kind::Sysbatch, "all", "task")
    );
    let children = projection.jobs().children(JobId(1)).expect("children");
    assert_eq!(
        (
            children.len(),
            children.count(Status::Pending),
            children.changed_seq()
        ),
        (1, 1, 4)
    );
    // They are found by it, alone and among others.
    for (constraint, ids) in [
        (r#"{"parent":[1]}"#, vec![9]),
        (r#"{"parent":[1,1,7]}"#, vec![9]),
        (r#"{"parent":[7]}"#, vec![]),
        (
            r#"{"and":[{"parent":[1]},{"states":["inactive"]}]}"#,
            vec![],
        ),
        (r#"{"and":[{"not":[{"parent":[1]}]}]}"#, vec![1, 5]),
    ] {
        let json = serde_json::from_str(constraint).expect("JSON");
        let mut found = list(&projection, Constraint::parse(&json, 1).expect("valid"));
        found.sort_unstable();
        assert_eq!(found, ids, "{constraint}");
    }
    // A child that starts is a change of its parent's, too.
    play(&mut projection, &[feed.alloc(9, 0)]);
    let changes = projection.take_changes();
    let parents = changes.jobs.iter().find(|change| change.id == JobId(1));
    assert_eq!(parents.map(|change| change.what), Some(What::CHILDREN));
    // Its purge, and the parent's: nothing is left.
    let purge = vec![feed.system("purge", r#"{"jobs":[9]}"#)];
    play(&mut projection, &purge);
    let children = projection.jobs().children(JobId(1)).expect("children");
    assert_eq!((children.len(), children.changed_seq()), (0, feed.seq));
    let purge = vec![feed.system("purge", r#"{"jobs":[1]}"#)];
    play(&mut projection, &purge);
    assert!(projection.jobs().children(JobId(1)).is_none());
}

#[test]
fn a_list_that_is_built_anew_has_its_nodes_in_the_order_of_their_ranks() {
    let (mut feed, mut projection) = (Feed::default(), Projection::new());
    projection.begin_fresh(Form::Native);
    let mut backlog = Vec::new();
    for (id, ranks) in [(1, "3"), (2, "0-2"), (3, "9"), (4, "1")] {
        backlog.extend(feed.submit(id, 1, 16, &spec("x", None)));
        backlog.push(feed.alloc_on(id, ranks));
    }
    let _ = fold(&mut projection, &batch(&backlog, "\"backlog\":true"));
    let mut other = live();
    play(&mut other, &four(&mut Feed::default()));
    let base = other.nodes().resources().to_json();
    let base = std::str::from_utf8(&base).expect("text");
    let end = format!(r#""seq":{},"caught_up":true,"resources":{base}"#, feed.seq);
    let _ = fold(&mut projection, &batch(&[], &end));
    let nodes = projection.nodes();
    let names: Vec<&str> = nodes.iter().map(|(_, node)| &*node.name).collect();
    // The last is announced by nobody.
    assert_eq!(names, ["n0", "n1", "n2", "n3", "n9"]);
    for (id, expected) in [
        (1, &["n3"][..]),
        (2, &["n0", "n1", "n2"]),
        (3, &["n9"]),
        (4, &["n1"]),
    ] {
        let record = projection.jobs().get(JobId(id)).expect("the job");
        let allocs = Allocs::of(record, nodes);
        let met: Vec<&str> = allocs
            .iter()
            .filter_map(|alloc| nodes.get(alloc.node))
            .map(|node| &*node.name)
            .collect();
        assert_eq!(met, expected);
    }
    for (rank, name) in (0..).zip(["n0", "n1", "n2", "n3"]) {
        assert_eq!(nodes.by_rank(rank).map(|(_, node)| &*node.name), Some(name));
        assert_eq!(nodes.find(name), nodes.by_rank(rank).map(|(at, _)| at));
    }
}

#[test]
fn nothing_is_left_of_a_parent_whose_children_are_purged_after_it() {
    let (mut feed, mut projection) = (Feed::default(), live());
    let child = weir_spec("c", r#"{"parent":1,"dispatch":{"meta":{}}}"#);
    play(&mut projection, &feed.submit(8, 1, 16, &child));
    play(&mut projection, &feed.submit(9, 1, 16, &child));
    let purge = vec![feed.system("purge", r#"{"jobs":[1,8]}"#)];
    play(&mut projection, &purge);
    let children = projection.jobs().children(JobId(1));
    assert_eq!(children.map(crate::Children::len), Some(1));
    let purge = vec![feed.system("purge", r#"{"jobs":[9]}"#)];
    play(&mut projection, &purge);
    assert!(projection.jobs().children(JobId(1)).is_none());
}

#[test]
fn an_r_names_its_nodes_whatever_has_their_ranks_now() {
    let (mut feed, mut projection) = (Feed::default(), live());
    play(&mut projection, &four(&mut feed));
    let moved = define("1-2", "{}").replace(r#""rank":"1-2""#, r#""rank":"0-1""#);
    let sent = vec![feed.resource("resource-define", &moved)];
    play(&mut projection, &sent);
    let mut sent = Vec::new();
    for id in 1..=3 {
        sent.extend(feed.submit(id, 1, 16, &spec("x", None)));
    }
    // Made before the set was another one, after it, and by somebody who gives no names.
    sent.push(feed.alloc_on(1, "0-1"));
    let mut alloc = feed.alloc_on(2, "0-1");
    alloc.json = alloc.json.replace("n[0-1]", "n[1-2]");
    sent.push(alloc);
    let mut alloc = feed.alloc_on(3, "1-2");
    alloc.json = alloc.json.replace(r#""n[1-2]""#, "");
    sent.push(alloc);
    play(&mut projection, &sent);
    for (id, expected) in [(1, ["n0", "n1"]), (2, ["n1", "n2"]), (3, ["n2", "rank2"])] {
        let record = projection.jobs().get(JobId(id)).expect("the job");
        let allocs = Allocs::of(record, projection.nodes());
        let met: Vec<&str> = allocs
            .iter()
            .filter_map(|alloc| projection.nodes().get(alloc.node))
            .map(|node| &*node.name)
            .collect();
        assert_eq!(met, expected, "{id}");
    }
    let on = |name| -> Vec<u64> {
        let jobs = projection.jobs().on_node(name);
        jobs.map(|record| record.id().0).collect()
    };
    // Nobody may be found by a name that was not given.
    assert_eq!(
        (on("n0"), on("n1"), on("n2")),
        (vec![1], vec![1, 2], vec![2])
    );
}
