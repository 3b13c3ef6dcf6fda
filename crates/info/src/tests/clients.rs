//! What a job's status is on a node: each row of the tables that are known of Nomad's page, and where this differs from them; reasons.

use job::{AllocStatus, JobId};

use super::feed::{Feed, define, live, play, spec, weir_spec};
use crate::{
    clients::{ClientStatus, Fact, PerClient, of_one, per_client, status_on},
    projection::Projection,
};

/// `running failed(v) lost(r) complete(s)`: statuses of allocations; v of an older version, r replaced, s stopped.
fn facts(text: &str) -> Vec<Fact> {
    let fact = |word: &str| {
        let (name, mark) = word.split_once('(').unwrap_or((word, ""));
        Fact {
            status: name.parse().expect("a status"),
            stopped: mark == "s)",
            replaced: mark == "r)",
            old: mark == "v)",
        }
    };
    text.split_whitespace().map(fact).collect()
}

#[track_caller]
fn row(expected: usize, allocs: &str, status: &str) {
    let met = status_on(false, expected, &facts(allocs));
    assert_eq!(met.name(), status, "{expected} expected, {allocs:?} there");
}

#[test]
fn table_4_2_the_decisions_one_after_the_other() {
    // 1: the job is pending, whatever its allocations are.
    for allocs in ["", "running running", "failed"] {
        assert_eq!(status_on(true, 2, &facts(allocs)), ClientStatus::Queued);
    }
    row(1, "", "notScheduled"); // 2
    row(2, "running", "degraded"); // 3
    row(2, "running(v)", "degraded"); // 3: of all versions
    row(2, "failed failed", "failed"); // 4
    row(2, "lost lost", "lost"); // 5
    row(2, "complete complete", "complete"); // 6
    row(2, "running failed", "degraded"); // 7
    row(2, "running lost", "degraded"); // 7
    row(2, "running pending", "running"); // 8
    row(2, "unknown pending", "unknown"); // 9
    row(2, "pending pending", "starting"); // 10
    row(1, "running(v)", "starting"); // 10: nothing left without old versions
    row(2, "complete pending", "starting"); // 10
}

#[test]
fn table_4_3_the_cases_of_nomads_own_tests() {
    row(1, "running", "running");
    row(3, "running failed running", "degraded");
    row(3, "lost lost lost", "lost");
    row(3, "failed failed failed", "failed");
    row(4, "running running running", "degraded");
    row(0, "", "notScheduled");
    assert_eq!(
        status_on(true, 4, &facts("pending pending pending")),
        ClientStatus::Queued
    );
    row(2, "running running", "running");
}

#[test]
fn table_4_4_the_edges_and_where_we_differ() {
    // Nomad: failed, lost, complete. Those that were replaced are dropped first.
    row(1, "failed(r) running", "running");
    row(1, "lost(r) running", "running");
    row(1, "complete(r) running", "running");
    // … and where nobody says that they were replaced, failed, lost and complete are so only when all are.
    row(1, "failed running", "degraded");
    row(1, "lost running", "degraded");
    row(1, "complete running", "running");
    // As Nomad.
    row(1, "failed(v) running", "running");
    row(1, "running(v)", "starting");
    // Nomad: complete, the failure is hidden.
    row(2, "failed complete complete", "degraded");
    row(2, "failed(r) complete complete", "complete");
    // Nomad: starting, three not being two.
    row(2, "complete complete complete", "complete");
    // As Nomad.
    row(2, "complete pending", "starting");
    row(2, "complete running", "running");
    row(2, "running unknown", "running");
    row(2, "unknown pending", "unknown");
    row(2, "running running(v)", "running");
    row(0, "running failed", "degraded");
    row(0, "running", "running");
    row(0, "unknown", "unknown");
    row(0, "pending", "starting");
    // Ours alone: none expected, all failed.
    row(0, "failed", "failed");
    // Stopped ones are dropped while others are there; a job that is stopped as a whole is what they are.
    row(1, "complete(s) running", "running");
    row(2, "complete(s) complete(s)", "complete");
    row(1, "running(s)", "running");
}

#[test]
fn every_status_has_a_count_and_a_name() {
    let names: Vec<&str> = ClientStatus::ALL
        .iter()
        .map(|status| status.name())
        .collect();
    assert_eq!(
        names,
        [
            "queued",
            "notScheduled",
            "starting",
            "running",
            "complete",
            "degraded",
            "failed",
            "lost",
            "unknown"
        ]
    );
    let none = PerClient::default();
    assert!(
        ClientStatus::ALL
            .iter()
            .all(|&status| none.count(status) == 0)
    );
    for status in AllocStatus::ALL {
        for stopped in [false, true] {
            let fact = Fact {
                status,
                stopped,
                replaced: false,
                old: false,
            };
            assert_eq!(status_on(false, 1, &[fact]), of_one(status), "{status}");
        }
    }
}

fn told(projection: &Projection, id: u64) -> Vec<String> {
    let record = projection.jobs().get(JobId(id)).expect("the job");
    let clients = per_client(record, projection.nodes());
    let total: u32 = ClientStatus::ALL
        .iter()
        .map(|&status| clients.count(status))
        .sum();
    assert_eq!(
        (total as usize, clients.total()),
        (clients.rows.len(), clients.rows.len())
    );
    let row = |client: &crate::clients::Client<'_>| {
        let node = &projection.nodes().get(client.node).expect("a node").name;
        let reason = client.reason.as_ref().map(|reason| format!(", {reason}"));
        format!(
            "{node} {}{}",
            client.status.name(),
            reason.unwrap_or_default()
        )
    };
    clients.rows.iter().map(row).collect()
}

#[test]
fn table_4_3_two_datacenters_here_pools() {
    let (mut feed, mut projection) = (Feed::default(), live());
    let sent = vec![
        feed.resource("resource-define", &define("0-1", r#"{"a":"0","b":"1"}"#)),
        feed.resource("online", r#"{"idset":"0-1"}"#),
    ];
    play(&mut projection, &sent);
    let mut sent = feed.submit(1, 1, 16, &spec("x", Some("a")));
    sent.push(feed.alloc(1, 0));
    sent.push(feed.entry(1, "start", "", ""));
    // A queue that is no pool names no nodes.
    sent.extend(feed.submit(2, 1, 16, &spec("x", Some("batch"))));
    sent.push(feed.alloc(2, 1));
    // One that got a node outside of its pool is shown there all the same.
    sent.extend(feed.submit(3, 1, 16, &spec("x", Some("a"))));
    sent.push(feed.alloc(3, 1));
    play(&mut projection, &sent);
    assert_eq!(told(&projection, 1), ["n0 running"]);
    assert_eq!(told(&projection, 2), ["n0 notScheduled", "n1 starting"]);
    assert_eq!(told(&projection, 3), ["n0 notScheduled", "n1 starting"]);
}

#[test]
fn acceptance_twelve_nodes_with_an_allocation_and_three_without() {
    let (mut feed, mut projection) = (Feed::default(), live());
    let sent = vec![
        feed.resource("resource-define", &define("0-14", "{}")),
        feed.resource("online", r#"{"idset":"0-11"}"#),
        feed.resource("drain", r#"{"idset":"14","reason":"fans","userid":7}"#),
        feed.resource("offline", r#"{"idset":"13","reason":"no answer"}"#),
    ];
    play(&mut projection, &sent);
    let mut sent = feed.submit(1, 1, 16, &weir_spec("x", r#"{"type":"sysbatch"}"#));
    sent.push(feed.alloc_on(1, "0-11"));
    sent.push(feed.entry(1, "start", "", ""));
    play(&mut projection, &sent);
    let sent = vec![feed.resource("online", r#"{"idset":"12"}"#)];
    play(&mut projection, &sent);
    let record = projection.jobs().get(JobId(1)).expect("the job");
    let clients = per_client(record, projection.nodes());
    assert_eq!(
        (clients.total(), clients.count(ClientStatus::Running)),
        (15, 12)
    );
    assert_eq!(clients.count(ClientStatus::NotScheduled), 3);
    assert!(
        clients.rows[..12]
            .iter()
            .all(|row| row.created.is_some() && row.modified.is_some())
    );
    assert!(
        clients.rows[12..]
            .iter()
            .all(|row| row.created.is_none() && row.modified.is_none())
    );
    assert_eq!(
        told(&projection, 1)[11..],
        [
            "n11 running",
            "n12 notScheduled, was not ready when the job began",
            "n13 notScheduled, node is down: no answer",
            "n14 notScheduled, drained since 1970-01-01T00:00:01Z: fans",
        ]
    );
}

#[test]
fn two_of_four_nodes_die_and_come_back() {
    let (mut feed, mut projection) = (Feed::default(), live());
    let mut sent = vec![
        feed.resource("resource-define", &define("0-3", "{}")),
        feed.resource("online", r#"{"idset":"0-3"}"#),
    ];
    sent.extend(feed.submit(1, 1, 16, &weir_spec("x", r#"{"type":"sysbatch"}"#)));
    sent.push(feed.alloc_on(1, "0-3"));
    sent.push(feed.entry(1, "start", "", ""));
    play(&mut projection, &sent);
    let all = |status: &str| -> Vec<String> { (0..4).map(|n| format!("n{n} {status}")).collect() };
    assert_eq!(told(&projection, 1), all("running"));
    let sent = vec![
        feed.resource("offline", r#"{"idset":"1-2","reason":"its process ended"}"#),
        feed.entry(
            1,
            "alloc-status",
            r#"{"allocs":[{"ranks":"1-2","status":"unknown"}]}"#,
            "",
        ),
    ];
    play(&mut projection, &sent);
    assert_eq!(
        told(&projection, 1),
        [
            "n0 running",
            "n1 unknown, node is down: its process ended",
            "n2 unknown, node is down: its process ended",
            "n3 running"
        ]
    );
    let lost = r#"{"allocs":[{"ranks":"1-2","status":"lost","reason":"node-fail"},{"ranks":"0","status":"failed","wait_status":256}]}"#;
    let sent = vec![
        feed.entry(1, "alloc-status", lost, ""),
        feed.resource("online", r#"{"idset":"1-2"}"#),
    ];
    play(&mut projection, &sent);
    let expected = [
        "n0 failed, exit code 1",
        "n1 lost, node-fail",
        "n2 lost, node-fail",
    ];
    assert_eq!(told(&projection, 1)[..3], expected);
    assert_eq!(told(&projection, 1)[3], "n3 running");
    play(&mut projection, &feed.end(1, 35072));
    assert_eq!(told(&projection, 1)[..3], expected);
    assert_eq!(told(&projection, 1)[3], "n3 failed, exit code 137");
}

#[test]
fn a_pending_job_says_what_it_waits_for() {
    let (mut feed, mut projection) = (Feed::default(), live());
    let mut sent = vec![
        feed.resource("resource-define", &define("0-1", "{}")),
        feed.resource("online", r#"{"idset":"0"}"#),
    ];
    sent.extend(feed.submit(1, 1, 16, &spec("x", None)));
    sent.extend(feed.submit(2, 1, 0, &spec("x", None)));
    let context = r#"{"userid":1,"urgency":16,"flags":0,"version":1}"#;
    sent.push(feed.entry(
        3,
        "submit",
        context,
        &format!("\"jobspec\":{}", spec("x", None)),
    ));
    sent.push(feed.entry(3, "validate", "", ""));
    sent.push(feed.entry(
        3,
        "dependency-add",
        r#"{"description":"after-finish=ƒ1"}"#,
        "",
    ));
    let parent = weir_spec("x", r#"{"parameterized":{}}"#);
    sent.push(feed.entry(4, "submit", context, &format!("\"jobspec\":{parent}")));
    sent.push(feed.entry(4, "validate", "", ""));
    sent.push(feed.entry(4, "dependency-add", r#"{"description":"dispatch"}"#, ""));
    play(&mut projection, &sent);
    assert_eq!(
        told(&projection, 1),
        ["n0 queued, waits for resources", "n1 queued, node is down"]
    );
    assert_eq!(told(&projection, 2)[0], "n0 queued, held");
    assert_eq!(
        told(&projection, 3)[0],
        "n0 queued, waits for after-finish=ƒ1"
    );
    // A parent never runs anywhere.
    assert_eq!(
        told(&projection, 4),
        ["n0 notScheduled", "n1 notScheduled, node is down"]
    );
}

#[test]
fn a_job_that_is_over_says_why() {
    let (mut feed, mut projection) = (Feed::default(), live());
    let start = |feed: &mut Feed, id: u64| {
        let mut sent = feed.submit(id, 1, 16, &spec("x", None));
        sent.push(feed.alloc(id, 0));
        sent.push(feed.entry(id, "start", "", ""));
        sent
    };
    for id in 1..=6 {
        let sent = start(&mut feed, id);
        play(&mut projection, &sent);
    }
    let cancel = vec![feed.exception(2, "cancel")];
    play(&mut projection, &cancel);
    assert_eq!(told(&projection, 2), ["n0 running, canceled"]);
    for (id, kind, status) in [
        (1, None, 0),
        (2, None, 15),
        (3, Some("timeout"), 14),
        (4, None, 3 << 8),
        (5, Some("node-fail"), 9),
        (6, Some("exec"), 9),
    ] {
        let mut sent: Vec<_> = kind
            .map(|kind| feed.exception(id, kind))
            .into_iter()
            .collect();
        sent.extend(feed.end(id, status));
        play(&mut projection, &sent);
    }
    let all: Vec<String> = (1..=6).flat_map(|id| told(&projection, id)).collect();
    assert_eq!(
        all,
        [
            "n0 complete",
            "n0 complete, canceled",
            "n0 failed, timeout",
            "n0 failed, exit code 3",
            "n0 lost, node-fail: n",
            "n0 failed, exec: n",
        ]
    );
}
