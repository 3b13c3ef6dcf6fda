//! Invariant 7 with thousands of clients: those that stop reading cost a bounded amount of memory, and nobody waits for them.

#![allow(
    clippy::panic,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

mod common;

use std::time::Duration;

use common::{Broker, Feed, OWNER, following, processor_time, run, within};
use rpc::{
    Connection,
    client::{ConnectOptions, Retry},
};
use serde_json::{Value, json};
use wire::{Cred, Flags, Request, Topic};

/// What an answer may cost here, in processor time of a debug build, with what it has to wait for. What this catches costs far more.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

fn all() -> Value {
    json!({"max_entries":0,"attrs":["state"]})
}

/// A name for a client.
fn hop(kind: &str, number: usize) -> &'static str {
    Box::leak(format!("{kind}-{number:032}").into_boxed_str())
}

fn submit(broker: &Broker, feed: &mut Feed, jobs: u64) {
    let all: Vec<u64> = (1..=jobs).collect();
    for some in all.chunks(1000) {
        let entries: Vec<Value> = some
            .iter()
            .flat_map(|id| feed.submit(*id, OWNER, 16))
            .collect();
        broker.play(&feed.live(&entries));
    }
}

async fn stats(broker: &mut Broker) -> Value {
    let tag = broker.ask("stats", "job-list.stats-get", &json!({}));
    broker.answer(tag).await
}

/// Asks for one page and for one job, and measures.
async fn served(broker: &mut Broker) {
    let began = processor_time();
    let page = json!({"max_entries":25,"attrs":["state"]});
    let tag = broker.ask("other", "job-list.list", &page);
    let rows = broker.answer(tag).await["jobs"].as_array().map(Vec::len);
    assert_eq!(rows, Some(25));
    let tag = broker.ask("other", "job-list.list-id", &json!({"id":7,"attrs":[]}));
    assert_eq!(broker.answer(tag).await["job"]["id"], 7);
    let cost = processor_time() - began;
    assert!(cost < ANSWER_WITHIN, "{cost:?}");
}

#[test]
fn invariant_7_thousands_of_stopped_list_clients_hold_bounded_memory_and_keep_nobody_from_a_listing()
 {
    const JOBS: u64 = 6000;
    const CLIENTS: usize = 4000;
    const IDS_MAX: u64 = 16 << 20;
    run(async {
        let (mut instance, mut broker, mut feed) = following().await;
        submit(&broker, &mut feed, JOBS);
        let mut refused = 0;
        let mut tags = Vec::new();
        for number in 0..CLIENTS {
            let name = hop("stopped", number);
            broker.tell(name, "job-list.pause", &json!({}));
            tags.push((name, broker.ask_stream(name, "job-list.list", &all())));
            if number % 500 == 499 {
                // Refusals of listings that had to go come first.
                let ping = broker.ask("p", "job-list.ping", &json!({}));
                refused += refusals_until(&mut broker, ping).await;
            }
        }
        let stats = stats(&mut broker).await;
        let ids = stats["listings"]["ids"].as_u64().expect("a number");
        let expected = CLIENTS as u64 - IDS_MAX / JOBS;
        assert!(ids <= IDS_MAX, "{ids} ids are held");
        assert_eq!(stats["listings"]["dropped"], expected);
        assert_eq!(refused, expected);
        // Nobody else notices: a page, a job, a listing of everything.
        served(&mut broker).await;
        let began = processor_time();
        let tag = broker.ask_stream("other", "job-list.list", &{
            let mut ask = all();
            ask["batch"] = json!(1024);
            ask
        });
        let mut rows = 0;
        loop {
            match broker.response().await {
                (met, 61, _) if met == tag => break,
                (met, 0, value) if met == tag => {
                    rows += value["jobs"].as_array().map_or(0, Vec::len);
                }
                // A stopped one made room.
                (_, 11, _) => {}
                other => panic!("unexpected {other:?}"),
            }
        }
        assert_eq!(rows as u64, JOBS);
        let cost = processor_time() - began;
        assert!(cost < ANSWER_WITHIN, "{cost:?}");
        // The newest of the stopped ones goes on where it stopped, and gets every row.
        let (name, tag) = tags[CLIENTS - 1];
        broker.tell(name, "job-list.resume", &json!({}));
        assert_eq!(broker.drain(tag).await.len() as u64, JOBS);
        // All of them leave: nothing is left of them.
        for (name, _) in &tags {
            broker.tell(name, "job-list.disconnect", &json!({}));
        }
        let stats = self::stats(&mut broker).await;
        assert_eq!(
            (&stats["streams"], &stats["listings"]["ids"]),
            (&json!(0), &json!(0))
        );
        instance.stop().await;
    });
}

async fn refusals_until(broker: &mut Broker, ping: u32) -> u64 {
    let mut refused = 0;
    loop {
        match broker.response().await {
            (met, 0, _) if met == ping => return refused,
            (_, 11, text) => {
                assert_eq!(
                    text,
                    "this listing was not read, and others needed its room; ask again"
                );
                refused += 1;
            }
            other => panic!("unexpected {other:?}"),
        }
    }
}

#[test]
fn invariant_7_thousands_of_stopped_followers_cost_a_batch_next_to_nothing() {
    const CLIENTS: usize = 3000;
    run(async {
        let (mut instance, mut broker, mut feed) = following().await;
        submit(&broker, &mut feed, 30);
        let descriptors = open_files();
        let dir = instance.job_dir(7);
        std::fs::create_dir_all(&dir).expect("a directory");
        std::fs::write(
            dir.join("output.eventlog"),
            "{\"timestamp\":1.0,\"name\":\"data\"}\n",
        )
        .expect("a file");
        let alloc = feed.alloc(7);
        broker.play(&feed.live(&alloc));
        for number in 0..CLIENTS {
            let name = hop("stopped", number);
            broker.tell(name, "job-list.pause", &json!({}));
            broker.tell(name, "job-info.pause", &json!({}));
            broker.ask_stream(name, "job-list.job-stats", &json!({}));
            for path in ["eventlog", "guest.output"] {
                let ask = json!({"id":7,"path":path,"flags":0});
                broker.ask_stream(name, "job-info.eventlog-watch", &ask);
            }
            let wait = json!({"id":8,"attrs":["state"],"state":64});
            broker.ask(name, "job-list.list-id", &wait);
        }
        let met = stats(&mut broker).await;
        assert_eq!(
            (&met["streams"], &met["waiting"]),
            (&json!(3 * CLIENTS), &json!(CLIENTS))
        );
        // One file a follower would be thousands.
        assert!(open_files() < descriptors + 50, "{} files", open_files());
        // Batches, files that grow, clients that come and go: as if they were not there.
        let began = processor_time();
        for round in 0..200 {
            // Few are of the job they follow.
            let id = if round % 20 == 0 { 7 } else { 9 };
            let memo = feed.entry(id, "memo", json!({"round":round}), Value::Null);
            broker.play(&feed.live(&[memo]));
            broker.tell(hop("passing", round), "job-list.disconnect", &json!({}));
        }
        served(&mut broker).await;
        let cost = processor_time() - began;
        assert!(cost < 2 * ANSWER_WITHIN, "{cost:?}");
        // Those that leave are forgotten one by one, each quickly.
        let began = processor_time();
        for number in 0..CLIENTS {
            broker.tell(hop("stopped", number), "job-list.disconnect", &json!({}));
        }
        let met = stats(&mut broker).await;
        assert_eq!((&met["streams"], &met["waiting"]), (&json!(0), &json!(0)));
        let cost = processor_time() - began;
        assert!(cost < 2 * ANSWER_WITHIN, "{cost:?}");
        instance.stop().await;
    });
}

fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

#[test]
fn invariant_7_hundreds_of_streams_of_one_client_leave_room_for_others() {
    run(async {
        let (mut instance, mut broker, mut feed) = following().await;
        submit(&broker, &mut feed, 1);
        for number in 0..20 {
            let name = hop("rude", number);
            broker.tell(name, "job-list.pause", &json!({}));
            let mut last = 0;
            for _ in 0..2000 {
                last = broker.ask_stream(name, "job-list.job-stats", &json!({}));
            }
            // At least the last one was too many.
            loop {
                let (met, errnum, text) = broker.response().await;
                assert_eq!(
                    (errnum, &text),
                    (11, &json!("too many streams are open, try again later"))
                );
                if met == last {
                    break;
                }
            }
        }
        let tag = broker.ask_stream("other", "job-list.list", &all());
        assert_eq!(broker.drain(tag).await.len(), 1);
        // The same for waits.
        let wait = json!({"id":1,"attrs":[],"state":64});
        let mut last = 0;
        for _ in 0..2000 {
            last = broker.ask("rude", "job-list.list-id", &wait);
        }
        loop {
            let (met, errnum, text) = broker.response().await;
            assert_eq!(
                (errnum, &text),
                (
                    11,
                    &json!("too many requests wait for a job, try again later")
                )
            );
            if met == last {
                break;
            }
        }
        broker.ask("other", "job-list.list-id", &wait);
        let stats = stats(&mut broker).await;
        assert_eq!(stats["waiting"], 65_536 / 33 + 1);
        instance.stop().await;
    });
}

#[test]
fn invariant_7_requests_that_wait_for_the_list_are_bounded_in_bytes_too() {
    run(async {
        let mut instance = common::Instance::new();
        let mut broker = Broker::new(&instance);
        instance.start();
        broker.accept().await;
        let names: Vec<String> = (0..9000).map(|number| format!("{number:090}")).collect();
        let large = json!({"max_entries":0,"attrs":[],"constraint":{"name":names}});
        let mut refused = 0;
        for _ in 0..8 {
            broker.ask("rude", "job-list.list", &large);
        }
        let ping = broker.ask("p", "job-list.ping", &json!({}));
        loop {
            match broker.response().await {
                (met, 0, _) if met == ping => break,
                (_, 11, text) => {
                    assert_eq!(text, "too many requests wait for the list, try again later");
                    refused += 1;
                }
                other => panic!("unexpected {other:?}"),
            }
        }
        assert!((5..8).contains(&refused), "{refused} of 8 refused");
        let held = broker.ask("other", "job-list.list", &large);
        broker.play(&common::caught_up(0));
        loop {
            let (met, errnum, value) = broker.response().await;
            assert_eq!((errnum, &value["jobs"]), (0, &json!([])));
            if met == held {
                break;
            }
        }
        instance.stop().await;
    });
}

/// A client of job-info's own socket that asks for everything in one answer and reads nothing.
async fn deaf(instance: &common::Instance) -> (rpc::client::Sender, rpc::client::Receiver) {
    let options = ConnectOptions {
        retry: Retry::USUAL,
        ..ConnectOptions::default()
    };
    let path = instance.dir.path().join("job-info.socket");
    let connection = within("a connection", Connection::connect_with(path, &options)).await;
    let (sender, receiver) = connection.expect("a connection").split();
    let mut request = Request::new(
        Topic::from("job-list.list"),
        Some(wire::json_payload(
            &json!({"max_entries":0,"attrs":["cwd"]}),
        )),
        1,
    );
    request.cred = Cred::UNSET;
    request.flags = Flags::NONE;
    request.routes = Some(Vec::new());
    sender.send_now(request).expect("room");
    (sender, receiver)
}

#[test]
fn invariant_7_large_answers_that_are_not_read_cost_those_who_do_not_read_them() {
    run(async {
        let (mut instance, mut broker, mut feed) = following().await;
        // 24 MiB of rows.
        let cwd = "x".repeat(24 << 10);
        let mut entries = Vec::new();
        for id in 1..=1000 {
            let mut submit = feed.submit(id, OWNER, 16);
            submit[0]["jobspec"]["attributes"]["system"]["cwd"] = json!(format!("/{id}/{cwd}"));
            entries.extend(submit);
        }
        for some in entries.chunks(400) {
            let seq = some.last().map_or(&Value::Null, |entry| &entry["seq"]);
            broker.play(&json!({"epoch":common::EPOCH,"seq":seq,"events":some}).to_string());
            // More than the way holds at once.
            let ping = broker.ask("p", "job-list.ping", &json!({}));
            broker.answer(ping).await;
        }
        let mut clients = Vec::new();
        for _ in 0..8 {
            clients.push(deaf(&instance).await);
        }
        // Whoever reads gets it, though five such answers are all there may be.
        let direct = instance.direct().await;
        let ask = json!({"max_entries":0,"attrs":["cwd"],"after":4000});
        let list: Value = within("a list", direct.call_as("job-list.list", &ask))
            .await
            .expect("a list");
        assert_eq!(list["jobs"].as_array().map(Vec::len), Some(1000));
        let mut closed = 0;
        for (_sender, mut receiver) in clients {
            if within("an answer or an end", receiver.recv())
                .await
                .is_err()
            {
                closed += 1;
            }
        }
        assert!(
            (3..=7).contains(&closed),
            "{closed} of 8 lost their connection"
        );
        let tag = broker.ask("a", "job-list.ping", &json!({}));
        broker.answer(tag).await;
        instance.stop().await;
    });
}

#[test]
fn invariant_7_look_ups_for_many_followers_are_few_at_a_time_and_clients_take_turns() {
    run(async {
        let (mut instance, mut broker, mut feed) = following().await;
        submit(&broker, &mut feed, 2);
        let ask = json!({"id":1,"path":"eventlog","flags":0});
        for _ in 0..1000 {
            broker.ask_stream("many", "job-info.eventlog-watch", &ask);
        }
        let mut asked = Vec::new();
        for _ in 0..64 {
            asked.push(broker.request().await.0);
        }
        let other = broker.ask_stream(
            "other",
            "job-info.eventlog-watch",
            &json!({"id":2,"path":"eventlog","flags":0}),
        );
        // No more until some are answered; then the other client's is among the next two.
        loop {
            let tag = broker.ask("p", "job-info.stats-get", &json!({}));
            if broker.answer(tag).await["waiting_watchers"] == 1001 - 64 {
                break;
            }
        }
        let mut next = Vec::new();
        for answered in &asked[..2] {
            broker.respond(answered, &json!({"id":1,"eventlog":"{\"timestamp\":1.0,\"name\":\"submit\"}\n","eventlog_seq":4}));
        }
        while next.len() < 2 {
            match broker.next().await {
                wire::Message::Request(request) => next.push(request),
                wire::Message::Response(response) => assert_eq!(response.errnum, 0),
                other => panic!("unexpected {other:?}"),
            }
        }
        let of = |request: &Request| common::payload_of(request.payload.as_ref())["id"] == 2;
        let next = next.into_iter().find(of).expect("the other client's");
        broker.respond(&next, &json!({"id":2,"eventlog":"{\"timestamp\":1.0,\"name\":\"submit\"}\n","eventlog_seq":4}));
        loop {
            match broker.next().await {
                wire::Message::Response(response) if response.matchtag == other => break,
                _ => {}
            }
        }
        instance.stop().await;
    });
}

#[test]
fn invariant_7_a_client_that_floods_is_answered_itself_and_others_are_in_between() {
    run(async {
        let (mut instance, mut broker, mut feed) = following().await;
        submit(&broker, &mut feed, 1000);
        // 250 answers of 1,000 rows each, more in sum than one client may have in the making.
        let ask = json!({"max_entries":1000,"attrs":["all"]});
        let mut tags: Vec<u32> = Vec::new();
        for _ in 0..250 {
            tags.push(broker.ask("flood", "job-list.list", &ask));
        }
        let page = json!({"max_entries":25,"attrs":["state"]});
        let other = broker.ask("other", "job-list.list", &page);
        let (mut before, mut answered) = (None, 0);
        while answered < tags.len() {
            let (met, errnum, value) = broker.response().await;
            assert_eq!(errnum, 0, "{value}");
            if met == other {
                before = Some(answered);
            } else {
                assert_eq!(met, tags[answered], "in the order they were asked");
                answered += 1;
            }
        }
        assert!(
            before.is_some_and(|before| before <= 2),
            "{before:?} came before the page"
        );
        instance.stop().await;
    });
}
