//! job-list as a client of the broker sees it: order, freshness, waiting, fairness, refusals.

#![allow(
    clippy::panic,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

mod common;

use common::{Broker, EPOCH, Feed, OWNER, backlog, caught_up, following, mark, run, within};
use serde_json::{Value, json};
use wire::{Cred, Flags};

fn ids(responses: &[Value]) -> Vec<u64> {
    responses
        .iter()
        .flat_map(|response| response["jobs"].as_array().expect("jobs").clone())
        .map(|job| job["id"].as_u64().expect("an id"))
        .collect()
}

fn all() -> Value {
    json!({"max_entries":0,"attrs":["state","priority"],"since":0.0,"constraint":{"states":[126]}})
}

#[test]
fn a_listing_streams_one_job_a_response_and_ends_with_61() {
    run(async {
        let (mut instance, mut broker, mut feed) = following().await;
        let mut entries = feed.submit(10, OWNER, 16);
        entries.extend(feed.submit(20, OWNER, 16));
        entries.extend(feed.submit(30, OWNER, 20));
        broker.play(&feed.live(&entries));
        let tag = broker.ask_stream("a", "job-list.list", &all());
        let rows = broker.drain(tag).await;
        assert_eq!(
            rows,
            [
                json!({"jobs":[{"id":30,"priority":20,"state":8}],"version":1,"seq":12}),
                json!({"jobs":[{"id":10,"priority":16,"state":8}]}),
                json!({"jobs":[{"id":20,"priority":16,"state":8}]}),
            ]
        );
        let tag = broker.ask("a", "job-list.list", &all());
        let whole = broker.answer(tag).await;
        assert_eq!(
            (ids(std::slice::from_ref(&whole)), &whole["seq"]),
            (vec![30, 10, 20], &json!(12))
        );
        assert!(whole.get("version").is_none() && whole.get("stale").is_none());
        let tag = broker.ask_stream(
            "a",
            "job-list.list",
            &json!({"max_entries":2,"attrs":[],"batch":10}),
        );
        assert_eq!(
            broker.drain(tag).await[0]["jobs"],
            json!([{"id":30},{"id":10}])
        );
        let nothing = json!({"max_entries":0,"attrs":["foo"],"constraint":{"userid":[7]}});
        let tag = broker.ask_stream("a", "job-list.list", &nothing);
        assert_eq!(
            broker.drain(tag).await,
            [Value::Null; 0],
            "a bad attribute is not noticed without a row"
        );
        let old = json!({"max_entries":0,"attrs":[],"userid":4294967295u32,"states":0,"results":0,"name":"sleep"});
        let tag = broker.ask("a", "job-list.list", &old);
        assert_eq!(ids(&[broker.answer(tag).await]), [30, 10, 20]);
        instance.stop().await;
    });
}

#[test]
fn requests_before_caught_up_are_held_and_answered_in_order() {
    run(async {
        let mut instance = common::Instance::new();
        let mut broker = Broker::new(&instance);
        instance.start();
        broker.accept().await;
        let mut feed = Feed::default();
        let entries = feed.submit(10, OWNER, 16);
        broker.play(&backlog(&entries[..2]));
        let first = broker.ask("a", "job-list.list-id", &json!({"id":10,"attrs":["state"]}));
        let second = broker.ask("b", "job-list.list-id", &json!({"id":99,"attrs":[]}));
        // A ping is not held, so nothing came before its answer.
        let ping = broker.ask("c", "job-list.ping", &json!({"seq":1}));
        let pong = broker.answer(ping).await;
        assert_eq!(
            (&pong["seq"], &pong["userid"], &pong["route"]),
            (&json!(1), &json!(OWNER), &json!("c!behind"))
        );
        broker.play(&backlog(&entries[2..]));
        broker.play(&caught_up(4));
        assert_eq!(
            broker.answer(first).await,
            json!({"job":{"id":10,"state":8},"seq":4})
        );
        assert_eq!(broker.error(second).await, (2, Value::Null));
        instance.stop().await;
    });
}

#[test]
fn invariant_read_your_writes_a_request_after_a_mark_is_answered_from_a_state_that_includes_it() {
    run(async {
        let (mut instance, mut broker, mut feed) = following().await;
        let entries = feed.submit(10, OWNER, 16);
        broker.play(&mark(4));
        let late = broker.ask("a", "job-list.list-id", &json!({"id":10,"attrs":["state"]}));
        let ping = broker.ask("a", "job-list.ping", &json!({}));
        broker.answer(ping).await;
        broker.play(&feed.live(&entries));
        assert_eq!(broker.answer(late).await["job"]["state"], 8);
        // With `after` from another connection.
        let more = feed.submit(20, OWNER, 16);
        let after = broker.ask(
            "b",
            "job-list.list-id",
            &json!({"id":20,"attrs":[],"after":8}),
        );
        let ping = broker.ask("a", "job-list.ping", &json!({}));
        broker.answer(ping).await;
        broker.play(&feed.live(&more));
        assert_eq!(broker.answer(after).await["job"]["id"], 20);
        // No such job, at once.
        let never = broker.ask("a", "job-list.list-id", &json!({"id":12345,"attrs":[]}));
        assert_eq!(broker.error(never).await, (2, Value::Null));
        instance.stop().await;
    });
}

#[test]
fn a03_list_id_waits_for_a_state_and_for_nothing_else() {
    run(async {
        let (mut instance, mut broker, mut feed) = following().await;
        broker.play(&feed.live(&feed_all(&mut Feed::default(), 0)));
        let entries = feed.submit(10, OWNER, 16);
        broker.play(&feed.live(&entries));
        let waits = broker.ask(
            "a",
            "job-list.list-id",
            &json!({"id":10,"attrs":["state","result"],"state":64}),
        );
        let now = broker.ask(
            "a",
            "job-list.list-id",
            &json!({"id":10,"attrs":["state"],"state":2}),
        );
        assert_eq!(broker.answer(now).await["job"]["state"], 8);
        let bad = broker.ask(
            "a",
            "job-list.list-id",
            &json!({"id":10,"attrs":[],"state":256}),
        );
        assert_eq!(
            broker.error(bad).await,
            (71, json!("invalid payload: invalid state specified"))
        );
        let alloc = feed.alloc(10);
        broker.play(&feed.live(&alloc));
        let end = feed.end(10);
        broker.play(&feed.live(&end));
        assert_eq!(
            broker.answer(waits).await["job"],
            json!({"id":10,"state":64,"result":1})
        );
        // Over: whatever state is asked for.
        let over = broker.ask(
            "a",
            "job-list.list-id",
            &json!({"id":10,"attrs":[],"state":16}),
        );
        assert_eq!(broker.answer(over).await["job"]["id"], 10);
        instance.stop().await;
    });
}

fn feed_all(feed: &mut Feed, jobs: u64) -> Vec<Value> {
    (1..=jobs)
        .flat_map(|id| feed.submit(id, OWNER, 16))
        .collect()
}

#[test]
fn rank_says_how_many_are_before() {
    run(async {
        let (mut instance, mut broker, mut feed) = following().await;
        let entries = feed_all(&mut feed, 5);
        broker.play(&feed.live(&entries));
        let tag = broker.ask("a", "job-list.rank", &json!({"id":4}));
        assert_eq!(
            broker.answer(tag).await,
            json!({"id":4,"group":"pending","rank":3,"seq":20})
        );
        let tag = broker.ask("a", "job-list.rank", &json!({"id":6}));
        assert_eq!(broker.error(tag).await, (2, Value::Null));
        let tag = broker.ask("a", "job-list.list-attrs", &Value::Null);
        let attrs = broker.answer(tag).await["attrs"]
            .as_array()
            .expect("names")
            .clone();
        assert!(attrs.contains(&json!("nodelist")) && attrs.last() == Some(&json!("all")));
        instance.stop().await;
    });
}

#[test]
fn a_long_listing_does_not_delay_another_clients_first_page() {
    run(async {
        let (mut instance, mut broker, mut feed) = following().await;
        for first in 0..20u64 {
            let entries: Vec<Value> = (1..=1000)
                .flat_map(|id| feed.submit(first * 1000 + id, OWNER, 16))
                .collect();
            broker.play(&feed.live(&entries));
        }
        let long = broker.ask_stream("a", "job-list.list", &all());
        let page = broker.ask_stream(
            "b",
            "job-list.list",
            &json!({"max_entries":25,"attrs":["state"]}),
        );
        let (mut rows, mut rows_before_page_end) = (0, None);
        loop {
            match broker.response().await {
                (tag, 0, _) => rows += usize::from(tag == long),
                (tag, 61, _) if tag == page => rows_before_page_end = Some(rows),
                (tag, 61, _) if tag == long => break,
                other => panic!("unexpected {other:?}"),
            }
        }
        assert_eq!(rows, 20_000);
        let before = rows_before_page_end.expect("the page ended first");
        assert!(
            before < 10_000,
            "the page came after {before} rows of the long listing"
        );
        instance.stop().await;
    });
}

#[test]
fn a_paused_client_gets_nothing_until_resumed_and_others_go_on() {
    run(async {
        let (mut instance, mut broker, mut feed) = following().await;
        let entries = feed_all(&mut feed, 1000);
        broker.play(&feed.live(&entries));
        broker.tell("a", "job-list.pause", &json!({}));
        let paused = broker.ask_stream("a", "job-list.list", &all());
        let page = broker.ask_stream("b", "job-list.list", &json!({"max_entries":5,"attrs":[]}));
        assert_eq!(
            broker.drain(page).await.len(),
            5,
            "and no row of the paused client came between"
        );
        broker.tell("a", "job-list.resume", &json!({}));
        assert_eq!(broker.drain(paused).await.len(), 1000);
        instance.stop().await;
    });
}

#[test]
fn a06_followed_stats_are_paced_and_never_negative() {
    run(async {
        let (mut instance, mut broker, mut feed) = following().await;
        let tag = broker.ask_stream("a", "job-list.job-stats", &json!({}));
        let first = broker.answer(tag).await;
        assert_eq!(
            (&first["job_states"]["total"], &first["seq"]),
            (&json!(0), &json!(0))
        );
        let started = std::time::Instant::now();
        let mut entries = feed.submit(10, OWNER, 16);
        entries.extend(feed.alloc(10));
        entries.push(feed.entry(
            10,
            "exception",
            json!({"type":"timeout","severity":0,"note":""}),
            Value::Null,
        ));
        entries.extend(feed.end(10));
        // Forty batches make an answer or two, not forty.
        for entry in &entries {
            broker.play(&json!({"epoch":EPOCH,"seq":entry["seq"],"events":[entry]}).to_string());
        }
        let mut answers = 0;
        loop {
            let stats = broker.answer(tag).await;
            answers += 1;
            let results: u64 = ["successful", "failed", "canceled", "timeout"]
                .iter()
                .map(|key| stats[key].as_u64().expect("not negative"))
                .sum();
            assert_eq!(json!(results), stats["job_states"]["inactive"]);
            if stats["job_states"]["inactive"] == 1 {
                assert_eq!(
                    (&stats["timeout"], &stats["failed"]),
                    (&json!(1), &json!(0))
                );
                break;
            }
        }
        assert!(
            answers <= 1 + started.elapsed().as_millis() / 200,
            "{answers} answers"
        );
        // A cancel ends it, once; one that matches nothing is not remembered.
        broker.tell("a", "job-list.job-stats-cancel", &json!({"matchtag":tag}));
        assert_eq!(broker.error(tag).await.0, 61);
        broker.tell(
            "a",
            "job-list.job-stats-cancel",
            &json!({"matchtag":tag + 3}),
        );
        broker.tell("a", "job-list.job-stats-cancel", &json!({"matchtag":tag}));
        let again = broker.ask_stream("a", "job-list.job-stats", &json!({}));
        assert_eq!(broker.answer(again).await["timeout"], 1);
        instance.stop().await;
    });
}

#[test]
fn a_client_that_left_is_forgotten() {
    run(async {
        let (mut instance, mut broker, mut feed) = following().await;
        let entries = feed.submit(10, OWNER, 16);
        broker.play(&feed.live(&entries));
        broker.ask(
            "a",
            "job-list.list-id",
            &json!({"id":10,"attrs":[],"state":64}),
        );
        let stats = broker.ask_stream("a", "job-list.job-stats", &json!({}));
        broker.answer(stats).await;
        broker.ask(
            "a",
            "job-list.list",
            &json!({"max_entries":0,"attrs":[],"after":1000}),
        );
        broker.tell("a", "job-list.disconnect", &Value::Null);
        let tag = broker.ask("b", "job-list.stats-get", &Value::Null);
        let stats = broker.answer(tag).await;
        for key in ["held", "waiting", "streams", "stats_watchers"] {
            assert_eq!(stats[key], 0, "{key}");
        }
        assert_eq!(
            (&stats["jobs"]["pending"], &stats["idsync"]),
            (&json!(1), &json!({"lookups":1,"waits":1}))
        );
        assert_eq!(stats["journal"]["reorder_passes"], 1);
        instance.stop().await;
    });
}

#[test]
fn refusals_say_what_is_wrong() {
    run(async {
        let (mut instance, mut broker, mut feed) = following().await;
        let entries = feed.submit(10, OWNER, 16);
        broker.play(&feed.live(&entries));
        let long_ago = json!({"max_entries":0,"attrs":[],"since":-1.0});
        for (topic, payload, errnum, text) in [
            (
                "job-list.nosuch",
                json!({}),
                38,
                "Unknown service method 'job-list.nosuch'",
            ),
            (
                "job-list",
                json!({}),
                38,
                "Unknown service method 'job-list'",
            ),
            (
                "job-info.purge",
                json!({}),
                38,
                "Unknown service method 'job-info.purge'",
            ),
            (
                "job-list.list",
                json!({"max_entries":-1,"attrs":[]}),
                71,
                "invalid payload: max_entries < 0 not allowed",
            ),
            (
                "job-list.list",
                long_ago,
                71,
                "invalid payload: since < 0.0 not allowed",
            ),
            (
                "job-list.list",
                json!({"max_entries":1,"attrs":"all"}),
                71,
                "invalid payload: attrs must be an array",
            ),
            (
                "job-list.list",
                json!({"max_entries":1,"attrs":[],"constraint":{"foo":[]}}),
                71,
                "invalid payload: constraint object invalid: unknown constraint operator: foo",
            ),
            (
                "job-list.list",
                json!({"max_entries":1,"attrs":["foo"]}),
                22,
                "foo is not a valid attribute",
            ),
            (
                "job-list.list-id",
                json!({"id":10,"attrs":["foo"]}),
                22,
                "foo is not a valid attribute",
            ),
        ] {
            let tag = broker.ask("a", topic, &payload);
            assert_eq!(
                broker.error(tag).await,
                (errnum, json!(text)),
                "{topic} {payload}"
            );
        }
        for payload in [
            json!({}),
            json!({"max_entries":1.5,"attrs":[]}),
            json!({"max_entries":"x","attrs":[]}),
            Value::Null,
        ] {
            let tag = broker.ask("a", "job-list.list", &payload);
            let (errnum, text) = broker.error(tag).await;
            assert!(
                errnum == 71
                    && text
                        .as_str()
                        .expect("a text")
                        .starts_with("invalid payload: "),
                "{text}"
            );
        }
        let nobody = Cred {
            userid: 7,
            rolemask: 4,
        };
        let tag = broker.ask_as("a", "job-list.list", &all(), nobody, Flags::NONE);
        assert_eq!(
            broker.error(tag).await,
            (1, json!("Request rejected due to insufficient privilege"))
        );
        let tag = broker.ask_as(
            "a",
            "job-info.stats-get",
            &Value::Null,
            Cred::guest(7),
            Flags::NONE,
        );
        assert_eq!(
            broker.error(tag).await,
            (1, json!("Request requires owner credentials"))
        );
        instance.stop().await;
    });
}

#[test]
fn private_mode_hides_others_jobs_without_admitting_that_they_exist() {
    run(async {
        let mut instance = common::Instance::new();
        let mut broker = Broker::new(&instance);
        instance.start_with(|config| config.private = true);
        broker.accept().await;
        let mut feed = Feed::default();
        let mut entries = feed.submit(10, 2001, 16);
        entries.extend(feed.submit(20, 2002, 16));
        broker.play(&backlog(&entries));
        broker.play(&caught_up(8));
        let guest = Cred::guest(2001);
        let tag = broker.ask_as("a", "job-list.list", &all(), guest, Flags::STREAMING);
        assert_eq!(ids(&broker.drain(tag).await), [10]);
        let everyone = json!({"max_entries":0,"attrs":[],"constraint":{"not":[{"userid":[2001]}]}});
        let tag = broker.ask_as("a", "job-list.list", &everyone, guest, Flags::STREAMING);
        assert!(broker.drain(tag).await.is_empty());
        for (topic, errnum) in [
            ("job-list.list-id", 2),
            ("job-list.rank", 2),
            ("job-info.clients", 2),
            ("job-list.job-stats", 1),
            ("job-list.stats-get", 1),
        ] {
            let tag = broker.ask_as(
                "a",
                topic,
                &json!({"id":20,"attrs":[],"state":64}),
                guest,
                Flags::NONE,
            );
            assert_eq!(broker.error(tag).await.0, errnum, "{topic}");
        }
        let tag = broker.ask("o", "job-list.list", &all());
        assert_eq!(ids(&[broker.answer(tag).await]), [10, 20]);
        instance.stop().await;
    });
}

#[test]
fn a04_the_last_list_is_served_stale_and_the_stream_is_resumed_where_it_stopped() {
    run(async {
        let (mut instance, mut broker, mut feed) = following().await;
        let entries = feed_all(&mut feed, 25);
        broker.play(&feed.live(&entries));
        let direct = instance.direct().await;
        let list = json!({"max_entries":0,"attrs":["state"]});
        let fresh: Value = within(
            "a list",
            direct.call_as(
                "job-list.list",
                &json!({"max_entries":0,"attrs":[],"after":100}),
            ),
        )
        .await
        .expect("a list");
        assert_eq!(
            (
                ids(std::slice::from_ref(&fresh)).len(),
                fresh.get("stale"),
                &fresh["seq"]
            ),
            (25, None, &json!(100))
        );
        // The broker goes away, socket and all.
        broker.cut();
        drop(broker);
        let gone = std::time::Instant::now();
        let attempts = loop {
            let stale: Value = within("a list", direct.call_as("job-list.list", &list))
                .await
                .expect("a list");
            if let Some(age) = stale.get("stale") {
                assert_eq!(ids(std::slice::from_ref(&stale)).len(), 25);
                assert!(age.is_f64(), "{age}");
                let stats: Value = within("stats", direct.call_as("job-list.stats-get", &()))
                    .await
                    .expect("stats");
                let attempts = stats["connects"].as_u64().expect("a number");
                if attempts >= 5 {
                    break attempts;
                }
            }
        };
        // Pauses of 50, 100, 200 ms and so on, a fifth less at most: no tight loop.
        assert!(
            gone.elapsed().as_millis() >= (50 + 100 + 200) * 8 / 10,
            "{attempts} attempts in {:?}",
            gone.elapsed()
        );
        let unknown = within(
            "an answer",
            direct.call("job-list.list-id", &json!({"id":777,"attrs":[]})),
        )
        .await;
        let unknown = unknown.expect_err("it cannot be known");
        assert!(
            unknown.errnum == 11 && unknown.text.contains("does not hold job"),
            "{unknown}"
        );
        // It comes back: resumed after the last seq, nothing twice, not stale any more.
        let mut broker = Broker::new(&instance);
        assert_eq!(broker.accept().await, json!({"after":100,"epoch":EPOCH}));
        broker.play(&caught_up(100));
        let more = feed.submit(26, OWNER, 16);
        broker.play(&feed.live(&more));
        let tag = broker.ask("a", "job-list.list", &list);
        let listed = broker.answer(tag).await;
        assert_eq!(
            (
                ids(std::slice::from_ref(&listed)).len(),
                listed.get("stale")
            ),
            (26, None)
        );
        let fresh: Value = within("a list", direct.call_as("job-list.list", &list))
            .await
            .expect("a list");
        assert_eq!(
            (ids(std::slice::from_ref(&fresh)).len(), fresh.get("stale")),
            (26, None)
        );
        instance.stop().await;
    });
}

#[test]
fn a_cursor_that_cannot_be_continued_makes_one_rebuild_aside() {
    run(async {
        let (mut instance, mut broker, mut feed) = following().await;
        let entries = feed_all(&mut feed, 3);
        broker.play(&feed.live(&entries));
        let direct = instance.direct().await;
        let list = json!({"max_entries":0,"attrs":[]});
        let _: Value = within(
            "a list",
            direct.call_as(
                "job-list.list",
                &json!({"max_entries":0,"attrs":[],"after":12}),
            ),
        )
        .await
        .expect("a list");
        broker.cut();
        assert_eq!(broker.accept().await["after"], 12);
        broker.end_journal(116, "cursor 12 of another epoch");
        let journal = broker.request_journal().await;
        assert_eq!(journal, json!({"from":"all"}));
        let other = |text: String| text.replace(EPOCH, "00000000000000e2");
        let mut anew = Feed::default();
        let entries = anew.submit(50, OWNER, 16);
        broker.play(&other(backlog(&entries)));
        // Through the broker: held until the rebuild is done. On our own socket: the old list, stale.
        let held = broker.ask("a", "job-list.list", &list);
        let ping = broker.ask("a", "job-info.ping", &json!({}));
        broker.answer(ping).await;
        let stale: Value = within("a list", direct.call_as("job-list.list", &list))
            .await
            .expect("a list");
        assert_eq!(ids(std::slice::from_ref(&stale)), [1, 2, 3]);
        assert!(stale["stale"].is_f64());
        broker.play(&other(caught_up(4)));
        let listed = broker.answer(held).await;
        assert_eq!(
            (ids(std::slice::from_ref(&listed)), listed.get("stale")),
            (vec![50], None)
        );
        instance.stop().await;
    });
}

#[test]
fn a_broker_without_the_native_journal_is_followed_in_flux_form() {
    run(async {
        let mut instance = common::Instance::new();
        let mut broker = Broker::new(&instance);
        instance.start();
        broker.accept().await;
        broker.end_journal(38, "Unknown service method 'job-manager.events'");
        assert_eq!(broker.request_journal().await, json!({"full":true}));
        let mut feed = Feed::default();
        let entries = feed.submit(10, OWNER, 16);
        let events: Vec<Value> = entries.iter().map(|entry| entry["entry"].clone()).collect();
        broker.play(&json!({"id":10,"events":events,"jobspec":entries[0]["jobspec"]}).to_string());
        broker.play(r#"{"id":-1,"events":[]}"#);
        let tag = broker.ask(
            "a",
            "job-list.list-id",
            &json!({"id":10,"attrs":["name","state"]}),
        );
        assert_eq!(
            broker.answer(tag).await["job"],
            json!({"id":10,"state":8,"name":"sleep"})
        );
        // Not in the list: there is no mark, so the instance is asked, and then it is waited for.
        let waits = broker.ask("a", "job-list.list-id", &json!({"id":20,"attrs":[]}));
        let (asked, payload) = broker.request().await;
        assert_eq!(
            (asked.topic.as_str(), &payload["id"]),
            ("job-info.lookup", &json!(20))
        );
        broker.respond(&asked, &json!({"id":20}));
        let submit = feed.submit(20, OWNER, 16).remove(0);
        broker.play(
            &json!({"id":20,"events":[submit["entry"]],"jobspec":submit["jobspec"]}).to_string(),
        );
        assert_eq!(broker.answer(waits).await["job"]["id"], 20);
        let never = broker.ask("a", "job-list.list-id", &json!({"id":30,"attrs":[]}));
        let (asked, _) = broker.request().await;
        broker.send(common::respond_error(&asked, 2, "invalid job id"));
        assert_eq!(broker.error(never).await.0, 2);
        instance.stop().await;
    });
}

#[test]
fn a_standby_follows_and_asks_for_the_names_again() {
    run(async {
        let mut instance = common::Instance::new();
        let mut broker = Broker::new(&instance);
        broker.taken = vec!["job-list", "job-info"];
        instance.start();
        broker.accept().await;
        broker.play(&caught_up(0));
        let direct = instance.direct().await;
        let list: Value = within(
            "a list",
            direct.call_as("job-list.list", &json!({"max_entries":0,"attrs":[]})),
        )
        .await
        .expect("a list");
        assert_eq!(list["jobs"], json!([]));
        assert_eq!(broker.names_asked, 2);
        broker.taken.clear();
        while broker.names_asked < 4 {
            broker.look().await;
        }
        let tag = broker.ask("a", "job-list.ping", &json!({}));
        broker.answer(tag).await;
        assert_eq!(broker.names_asked, 4, "once it has them it asks no more");
        instance.stop().await;
    });
}
