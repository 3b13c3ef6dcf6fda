//! job-info's own methods: look-ups, and following a job's logs.

#![allow(
    clippy::panic,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

mod common;

use std::io::Write as _;

use common::{OWNER, following, log_text, run};
use serde_json::{Value, json};
use wire::{Cred, Flags};

fn lines(responses: &[Value]) -> Vec<String> {
    responses
        .iter()
        .map(|response| response["event"].as_str().expect("an event").to_owned())
        .collect()
}

fn text_lines(text: &str) -> Vec<String> {
    text.split_inclusive('\n').map(str::to_owned).collect()
}

#[test]
fn a_lookup_is_passed_on_and_its_keys_come_back_in_the_order_asked() {
    run(async {
        let (mut instance, mut broker, mut feed) = following().await;
        let entries = feed.submit(10, 2001, 16);
        broker.play(&feed.live(&entries));
        let ask = json!({"id":10,"keys":["R","jobspec","eventlog"],"flags":0});
        let tag = broker.ask("a", "job-info.lookup", &ask);
        let (asked, payload) = broker.request().await;
        assert_eq!(asked.topic.as_str(), "job-manager.lookup");
        assert_eq!(payload, json!({"id":10,"keys":["jobspec","R","eventlog"]}));
        // Others are served meanwhile.
        let ping = broker.ask("b", "job-info.ping", &json!({}));
        broker.answer(ping).await;
        let stored = json!({"id":10,"userid":2001,"seq":4,"jobspec":"{\"a\": 1}","R":"{\"b\":2}","eventlog":"x\n","eventlog_seq":4});
        broker.respond(&asked, &stored);
        let answer = broker.answer(tag).await;
        assert_eq!(
            answer.to_string(),
            r#"{"id":10,"R":"{\"b\":2}","jobspec":"{\"a\": 1}","eventlog":"x\n"}"#
        );
        // Nothing to ask for.
        let tag = broker.ask(
            "a",
            "job-info.lookup",
            &json!({"id":10,"keys":[],"flags":0}),
        );
        assert_eq!(broker.answer(tag).await, json!({"id":10}));
        // Refusals.
        for (payload, errnum, text) in [
            (json!({"id":99,"keys":["R"],"flags":0}), 2, "invalid job id"),
            (
                json!({"id":10,"keys":["R"],"flags":8}),
                71,
                "lookup request rejected with invalid flag",
            ),
            (
                json!({"id":10,"keys":["guest.output"],"flags":0}),
                2,
                "guest.output: key not found",
            ),
            (
                json!({"id":10,"keys":["nosuch"],"flags":0}),
                2,
                "nosuch: key not found",
            ),
            (
                json!({"id":10,"keys":["../../key"],"flags":0}),
                2,
                "../../key: key not found",
            ),
        ] {
            let tag = broker.ask("a", "job-info.lookup", &payload);
            assert_eq!(broker.error(tag).await, (errnum, json!(text)));
        }
        let stranger = Cred::guest(2002);
        let tag = broker.ask_as("a", "job-info.lookup", &ask, stranger, Flags::NONE);
        assert_eq!(
            broker.error(tag).await,
            (1, json!("access is restricted to job/instance owner"))
        );
        let tag = broker.ask_as("a", "job-info.lookup", &ask, Cred::guest(2001), Flags::NONE);
        let (asked, _) = broker.request().await;
        broker.send(common::respond_error(&asked, 2, "R: key not found"));
        assert_eq!(broker.error(tag).await, (2, json!("R: key not found")));
        instance.stop().await;
    });
}

#[test]
fn flags_decode_and_apply_updates() {
    run(async {
        let (mut instance, mut broker, mut feed) = following().await;
        let entries = feed.submit(10, OWNER, 16);
        broker.play(&feed.live(&entries));
        let r = r#"{"version":1,"execution":{"R_lite":[{"rank":"0","children":{"core":"0"}}],"nodelist":["n0"],"starttime":1.0,"expiration":5.0}}"#;
        let log = concat!(
            r#"{"timestamp":1.0,"name":"jobspec-update","context":{"attributes.system.duration":60.0}}"#,
            "\n",
            r#"{"timestamp":2.0,"name":"resource-update","context":{"expiration":99.5}}"#,
            "\n"
        );
        let jobspec = entries[0]["jobspec"].to_string();
        let stored = json!({"id":10,"userid":OWNER,"seq":4,"jobspec":jobspec,"R":r,"eventlog":log,"eventlog_seq":6});
        for (flags, is_object) in [(2, false), (3, true)] {
            let tag = broker.ask(
                "a",
                "job-info.lookup",
                &json!({"id":10,"keys":["jobspec","R"],"flags":flags}),
            );
            let (asked, payload) = broker.request().await;
            assert_eq!(payload["keys"], json!(["jobspec", "R", "eventlog"]));
            broker.respond(&asked, &stored);
            let answer = broker.answer(tag).await;
            assert_eq!(
                (answer["R"].is_object(), answer.get("eventlog")),
                (is_object, None)
            );
            let read = |key: &str| -> Value {
                answer[key].as_str().map_or(answer[key].clone(), |text| {
                    serde_json::from_str(text).expect("JSON")
                })
            };
            assert_eq!(read("jobspec")["attributes"]["system"]["duration"], 60.0);
            assert_eq!(read("R")["execution"]["expiration"], 99.5);
        }
        let tag = broker.ask(
            "a",
            "job-info.update-lookup",
            &json!({"id":10,"key":"R","flags":0}),
        );
        let (asked, _) = broker.request().await;
        broker.respond(&asked, &stored);
        assert_eq!(
            broker.answer(tag).await["R"]["execution"]["expiration"],
            99.5
        );
        instance.stop().await;
    });
}

#[test]
fn an_eventlog_is_followed_from_its_beginning_to_clean_without_gap_or_repeat() {
    run(async {
        let (mut instance, mut broker, mut feed) = following().await;
        let mut entries = feed.submit(10, 2001, 16);
        broker.play(&feed.live(&entries));
        let ask = json!({"id":10,"path":"eventlog","flags":2});
        let tag = broker.ask_as(
            "a",
            "job-info.eventlog-watch",
            &ask,
            Cred::guest(2001),
            Flags::STREAMING,
        );
        let (asked, payload) = broker.request().await;
        assert_eq!(payload, json!({"id":10,"keys":["eventlog"]}));
        // While the look-up is under way two entries come; the look-up covers one of them. One is live only.
        let annotations = {
            let mut entry = feed.entry(
                10,
                "annotations",
                json!({"annotations":{"sched":{"x":1}}}),
                Value::Null,
            );
            entry["live"] = json!(true);
            entry
        };
        let alloc = feed.alloc(10);
        broker.play(&feed.live(&[annotations, alloc[0].clone(), alloc[1].clone()]));
        let ping = broker.ask("b", "job-info.ping", &json!({}));
        broker.answer(ping).await;
        let mut covered = entries.clone();
        covered.push(alloc[0].clone());
        broker.respond(
            &asked,
            &json!({"id":10,"userid":2001,"seq":6,"eventlog":log_text(&covered),"eventlog_seq":6}),
        );
        entries.extend(alloc);
        let mut got = Vec::new();
        for _ in 0..5 {
            got.push(broker.answer(tag).await);
        }
        // The initial content is the look-up and what came while it was under way; the sentinel has no payload.
        while got.last() != Some(&Value::Null) {
            got.push(broker.answer(tag).await);
        }
        got.pop();
        let end = feed.end(10);
        broker.play(&feed.live(&end));
        entries.extend(end);
        got.extend(broker.drain(tag).await);
        assert_eq!(lines(&got), text_lines(&log_text(&entries)));
        // Over: content, sentinel, end.
        let tag = broker.ask_stream("a", "job-info.eventlog-watch", &ask);
        let (asked, _) = broker.request().await;
        broker.respond(&asked, &json!({"id":10,"userid":2001,"seq":20,"eventlog":log_text(&entries),"eventlog_seq":11}));
        let mut again = broker.drain(tag).await;
        assert_eq!(again.pop(), Some(Value::Null));
        assert_eq!(lines(&again), text_lines(&log_text(&entries)));
        instance.stop().await;
    });
}

#[test]
fn watches_are_refused_or_wait_as_their_flags_say() {
    run(async {
        let (mut instance, mut broker, mut feed) = following().await;
        let entries = feed.submit(10, 2001, 16);
        broker.play(&feed.live(&entries));
        let watch = |path: &str, flags: i64| json!({"id":10,"path":path,"flags":flags});
        for (payload, errnum) in [
            (watch("eventlog", 4), 71),
            (watch("nosuch", 0), 2),
            (json!({"id":99,"path":"eventlog","flags":0}), 2),
            (json!({"id":10,"path":"eventlog"}), 71),
        ] {
            let tag = broker.ask_stream("a", "job-info.eventlog-watch", &payload);
            assert_eq!(broker.error(tag).await.0, errnum, "{payload}");
        }
        let tag = broker.ask("a", "job-info.eventlog-watch", &watch("eventlog", 0));
        let text = json!("eventlog-watch request rejected without streaming RPC flag");
        assert_eq!(broker.error(tag).await, (71, text));
        let watch_output = watch("guest.output", 0);
        let tag = broker.ask_as(
            "a",
            "job-info.eventlog-watch",
            &watch_output,
            Cred::guest(2002),
            Flags::STREAMING,
        );
        assert_eq!(broker.error(tag).await, (1, Value::Null));
        // Flag 1: for a job that is not there yet.
        let early = broker.ask_stream(
            "a",
            "job-info.eventlog-watch",
            &json!({"id":20,"path":"eventlog","flags":1}),
        );
        let later = feed.submit(20, OWNER, 16);
        broker.play(&feed.live(&later));
        let (asked, payload) = broker.request().await;
        assert_eq!(payload["id"], 20);
        broker.respond(
            &asked,
            &json!({"id":20,"userid":OWNER,"seq":8,"eventlog":log_text(&later),"eventlog_seq":4}),
        );
        for entry in &later {
            assert_eq!(
                broker.answer(early).await["event"],
                format!("{}\n", entry["entry"])
            );
        }
        broker.tell(
            "a",
            "job-info.eventlog-watch-cancel",
            &json!({"matchtag":early}),
        );
        assert_eq!(broker.error(early).await.0, 61);
        // A job that dies unstarted ends its guest watches in silence.
        let output = broker.ask_stream("a", "job-info.eventlog-watch", &watch("guest.output", 2));
        let died = [
            feed.entry(
                10,
                "exception",
                json!({"type":"cancel","severity":0,"note":""}),
                Value::Null,
            ),
            feed.entry(10, "clean", Value::Null, Value::Null),
        ];
        broker.play(&feed.live(&died));
        assert_eq!(broker.error(output).await.0, 61);
        let output = broker.ask_stream("a", "job-info.eventlog-watch", &watch("guest.output", 0));
        assert_eq!(broker.error(output).await.0, 2, "it is over and has none");
        instance.stop().await;
    });
}

#[test]
fn guest_output_is_followed_as_it_is_written_and_ends_with_the_job() {
    run(async {
        let (mut instance, mut broker, mut feed) = following().await;
        let mut entries = feed.submit(10, OWNER, 16);
        entries.extend(feed.alloc(10));
        broker.play(&feed.live(&entries));
        let ask = json!({"id":10,"path":"guest.output","flags":0});
        let tag = broker.ask_stream("a", "job-info.eventlog-watch", &ask);
        let ping = broker.ask("a", "job-info.ping", &json!({}));
        broker.answer(ping).await;
        // The directory appears after the watch.
        std::fs::create_dir_all(instance.job_dir(10)).expect("a directory");
        let path = instance.job_dir(10).join("output.eventlog");
        let mut file = std::fs::File::create(&path).expect("a file");
        file.write_all(b"{\"n\":1}\n{\"n\":").expect("written");
        assert_eq!(broker.answer(tag).await["event"], "{\"n\":1}\n");
        // Half a line is no line.
        let ping = broker.ask("a", "job-info.ping", &json!({}));
        broker.answer(ping).await;
        file.write_all(b"2}\n").expect("written");
        assert_eq!(broker.answer(tag).await["event"], "{\"n\":2}\n");
        let mut expected = Vec::new();
        for number in 0..5000 {
            expected.push(format!(
                "{{\"n\":{number},\"data\":\"{}\"}}\n",
                "x".repeat(60)
            ));
        }
        file.write_all(expected.concat().as_bytes())
            .expect("written");
        let end = feed.end(10);
        broker.play(&feed.live(&end));
        assert_eq!(lines(&broker.drain(tag).await), expected);
        // Over: all of it again, the sentinel, the end; and by look-up.
        let tag = broker.ask_stream(
            "a",
            "job-info.eventlog-watch",
            &json!({"id":10,"path":"guest.output","flags":2}),
        );
        let mut again = broker.drain(tag).await;
        assert_eq!((again.pop(), again.len()), (Some(Value::Null), 5002));
        let tag = broker.ask(
            "a",
            "job-info.lookup",
            &json!({"id":10,"keys":["guest.output"],"flags":0}),
        );
        let text = broker.answer(tag).await["guest.output"]
            .as_str()
            .expect("text")
            .to_owned();
        assert_eq!(text, std::fs::read_to_string(&path).expect("the file"));
        instance.stop().await;
    });
}

#[test]
fn an_r_is_watched_until_the_job_is_over() {
    run(async {
        let (mut instance, mut broker, mut feed) = following().await;
        let mut entries = feed.submit(10, OWNER, 16);
        entries.extend(feed.alloc(10));
        broker.play(&feed.live(&entries));
        let r = entries[4]["R"].to_string();
        let stored = |log: &str| json!({"id":10,"userid":OWNER,"seq":1,"R":r,"eventlog":log,"eventlog_seq":6});
        let tag = broker.ask_stream(
            "a",
            "job-info.update-watch",
            &json!({"id":10,"key":"R","flags":0}),
        );
        let (asked, payload) = broker.request().await;
        assert_eq!(payload["keys"], json!(["R", "eventlog"]));
        broker.respond(&asked, &stored(""));
        assert_eq!(
            broker.answer(tag).await["R"]["execution"]["expiration"],
            0.0
        );
        let update = feed.entry(
            10,
            "resource-update",
            json!({"expiration":77.5}),
            Value::Null,
        );
        broker.play(&feed.live(std::slice::from_ref(&update)));
        let (asked, _) = broker.request().await;
        broker.respond(&asked, &stored(&log_text(&[update])));
        assert_eq!(
            broker.answer(tag).await["R"]["execution"]["expiration"],
            77.5
        );
        let end = feed.end(10);
        broker.play(&feed.live(&end));
        assert_eq!(broker.error(tag).await.0, 61);
        for (payload, errnum) in [
            (json!({"id":10,"key":"J","flags":0}), 22),
            (json!({"id":10,"key":"R","flags":1}), 71),
            (json!({"id":11,"key":"R","flags":0}), 2),
        ] {
            let tag = broker.ask_stream("a", "job-info.update-watch", &payload);
            assert_eq!(broker.error(tag).await.0, errnum);
        }
        instance.stop().await;
    });
}

#[test]
fn a_follower_on_our_own_socket_outlives_the_broker() {
    run(async {
        let (mut instance, mut broker, mut feed) = following().await;
        let mut entries = feed.submit(10, OWNER, 16);
        broker.play(&feed.live(&entries));
        let direct = instance.direct().await;
        let ask = json!({"id":10,"path":"eventlog","flags":0});
        let list = json!({"max_entries":1,"attrs":[],"after":4});
        common::within("the list", direct.call("job-list.list", &list))
            .await
            .expect("a list");
        let mut follow = direct
            .stream("job-info.eventlog-watch", &ask)
            .await
            .expect("a stream");
        let (asked, _) = broker.request().await;
        broker.respond(
            &asked,
            &json!({"id":10,"userid":OWNER,"seq":4,"eventlog":log_text(&entries),"eventlog_seq":4}),
        );
        let mut next = async || {
            let item = common::within("a line", follow.next()).await?;
            let value: Value = serde_json::from_slice(&item.expect("no refusal")).expect("JSON");
            Some(value["event"].as_str().expect("an event").to_owned())
        };
        for entry in &entries {
            assert_eq!(next().await, Some(format!("{}\n", entry["entry"])));
        }
        broker.cut();
        assert_eq!(broker.accept().await["after"], 4);
        // What happened meanwhile comes with the resumed stream.
        broker.play(&common::caught_up(4));
        let mut more = feed.alloc(10);
        more.extend(feed.end(10));
        broker.play(&feed.live(&more));
        entries.extend(more.clone());
        for entry in &more {
            assert_eq!(next().await, Some(format!("{}\n", entry["entry"])));
        }
        assert_eq!(next().await, None);
        instance.stop().await;
    });
}
