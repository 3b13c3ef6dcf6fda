//! Flux's form, `events-journal`: backlog per job, sentinel, then one event a response.

use journal::{Filter, Format, ListenerId, Rights, Start};
use serde_json::{Value, json};

use crate::world::{World, small};

fn world() -> World {
    let mut world = World::new(small(100));
    world.commit(&[(0, "online"), (1, "submit"), (2, "submit"), (3, "submit")]);
    world.commit(&[(1, "annotations"), (1, "alloc"), (3, "clean"), (2, "clean")]);
    world
}

fn ids(responses: &[Value]) -> Vec<i64> {
    responses
        .iter()
        .map(|response| response["id"].as_i64().unwrap())
        .collect()
}

#[test]
fn full_gives_inactive_jobs_then_active_ones_then_the_sentinel() {
    let mut world = world();
    world
        .add(1, Start::All, Filter::all(Rights::Owner), Format::Flux)
        .unwrap();
    world
        .add(2, Start::Active, Filter::all(Rights::Owner), Format::Flux)
        .unwrap();
    world.settle();
    assert_eq!(ids(&world.got[&1].responses), [3, 2, 1, -1]);
    assert_eq!(ids(&world.got[&2].responses), [1, -1]);
    assert_eq!(
        world.got[&2].responses,
        [
            json!({"id": 1, "events": [
                {"timestamp": 2.5, "name": "submit", "context": {"userid": 1, "urgency": 16, "flags": 0, "version": 1}},
                {"timestamp": 6.5, "name": "alloc"}
            ], "jobspec": {"version": 1}, "R": {"version": 1, "execution": {}}}),
            json!({"id": -1, "events": []}),
        ],
        "live-only events are not in a backlog"
    );
}

#[test]
fn live_is_one_event_a_response_with_live_only_events_and_no_logs() {
    let mut world = world();
    world
        .add(1, Start::Active, Filter::all(Rights::Owner), Format::Flux)
        .unwrap();
    world.settle();
    world.commit(&[
        (4, "submit"),
        (0, "offline"),
        (4, "annotations"),
        (4, "alloc"),
    ]);
    world.wait(20.0);
    let got = &world.got[&1].responses[2..];
    assert_eq!(
        got,
        [
            json!({"id": 4, "events": [
                {"timestamp": 9.5, "name": "submit", "context": {"userid": 1, "urgency": 16, "flags": 0, "version": 1}}
            ], "jobspec": {"version": 1}}),
            json!({"id": 4, "events": [{"timestamp": 11.5, "name": "annotations", "context": {"annotations": {"user": {"note": "n"}}}}]}),
            json!({"id": 4, "events": [{"timestamp": 12.5, "name": "alloc"}], "R": {"version": 1, "execution": {}}}),
        ]
    );
}

#[test]
fn a_job_whose_events_are_all_filtered_out_still_has_its_backlog_response() {
    let mut world = world();
    world
        .add(
            1,
            Start::All,
            Filter::all(Rights::Owner).allow(["clean"]),
            Format::Flux,
        )
        .unwrap();
    world.settle();
    assert_eq!(ids(&world.got[&1].responses), [3, 2, 1, -1]);
    assert_eq!(world.got[&1].responses[2]["events"], json!([]));
    assert_eq!(world.got[&1].responses[2]["jobspec"], json!({"version": 1}));
}

#[test]
fn a_backlog_is_of_one_moment_though_jobs_end_and_begin_meanwhile() {
    let mut world = World::new(small(100));
    for job in 1..=10 {
        world.commit(&[(job, "submit")]);
    }
    world
        .add(1, Start::All, Filter::all(Rights::Owner), Format::Flux)
        .unwrap();
    world.poll();
    // Before its first page: some end, one begins, one is allocated.
    world.commit(&[(1, "clean"), (9, "clean"), (11, "submit"), (5, "alloc")]);
    world.settle();
    let responses = &world.got[&1].responses;
    assert_eq!(
        ids(responses),
        [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, -1, 1, 9, 11, 5]
    );
    assert!(
        responses[4].get("R").is_none(),
        "it was not allocated at that moment"
    );
    assert_eq!(world.got[&1].backlog, (1..=10).collect::<Vec<_>>());
    assert_eq!(world.got[&1].live, [11, 12, 13, 14]);
    world.fan.remove(ListenerId(1));
    assert_eq!(world.fan.counters().listeners, 0);
}
