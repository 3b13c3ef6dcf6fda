//! Keys of the wrong type: every one, of every method, is refused with a text that names it, and does nothing.

#![allow(
    clippy::panic,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

mod common;

use common::{OWNER, following, run};
use serde_json::{Value, json};

/// What a key may be.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// An integer of no sign.
    Natural,
    /// An integer.
    Integer,
    Real,
    Text,
    Texts,
    Object,
}

impl Kind {
    fn wrong(self) -> Vec<Value> {
        let mut all = vec![
            (vec![Kind::Text], json!("x")),
            (vec![Kind::Natural, Kind::Integer, Kind::Real], json!(7)),
            (vec![Kind::Integer], json!(-7)),
            (vec![Kind::Real], json!(1.5)),
            (vec![], json!(true)),
            (vec![], json!(null)),
            (vec![], json!([7])),
            (vec![Kind::Texts], json!(["x"])),
            (vec![Kind::Object], json!({})),
        ];
        // Out of its range: -7 seconds, a number larger than any.
        all.push((vec![Kind::Real], json!(1e300)));
        all.into_iter()
            .filter(|(right, _)| !right.contains(&self))
            .map(|(_, value)| value)
            .collect()
    }
}

#[test]
fn fault_every_key_of_the_wrong_type_is_refused_by_name_in_every_method() {
    use Kind::{Integer, Natural, Object, Real, Text, Texts};
    type Keys = &'static [(&'static str, Kind)];
    let methods: [(&str, Value, Keys); 12] = [
        (
            "job-list.list",
            json!({"max_entries":0,"attrs":[],"userid":0,"states":0,"results":0}),
            &[
                ("max_entries", Integer),
                ("attrs", Texts),
                ("since", Real),
                ("constraint", Object),
                ("batch", Natural),
                ("userid", Integer),
                ("states", Integer),
                ("results", Integer),
                ("name", Text),
                ("queue", Text),
            ],
        ),
        (
            "job-list.list-id",
            json!({"id":1,"attrs":[]}),
            &[("id", Natural), ("attrs", Texts), ("state", Integer)],
        ),
        ("job-list.rank", json!({"id":1}), &[("id", Natural)]),
        ("job-info.clients", json!({"id":1}), &[("id", Natural)]),
        ("job-list.job-stats", json!({}), &[]),
        ("job-list.list-attrs", json!({}), &[]),
        ("job-list.stats-get", json!({}), &[]),
        (
            "job-info.lookup",
            json!({"id":1,"keys":[],"flags":0}),
            &[("id", Natural), ("keys", Texts), ("flags", Integer)],
        ),
        (
            "job-info.update-lookup",
            json!({"id":1,"key":"R","flags":0}),
            &[("id", Natural), ("key", Text), ("flags", Integer)],
        ),
        (
            "job-info.eventlog-watch",
            json!({"id":1,"path":"eventlog","flags":0}),
            &[("id", Natural), ("path", Text), ("flags", Integer)],
        ),
        (
            "job-info.update-watch",
            json!({"id":1,"key":"R","flags":0}),
            &[("id", Natural), ("key", Text), ("flags", Integer)],
        ),
        ("job-info.stats-get", json!({}), &[]),
    ];
    run(async {
        let (mut instance, mut broker, mut feed) = following().await;
        let entries = feed.submit(1, OWNER, 16);
        broker.play(&feed.live(&entries));
        for (topic, good, keys) in methods {
            let keys = keys.iter().chain(&[("after", Natural)]);
            for (key, kind) in keys {
                for value in kind.wrong() {
                    let mut bad = good.clone();
                    bad[key] = value;
                    let tag = match topic.ends_with("-watch") {
                        true => broker.ask_stream("a", topic, &bad),
                        false => broker.ask("a", topic, &bad),
                    };
                    let (errnum, text) = broker.error(tag).await;
                    let text = text.as_str().unwrap_or_default().to_owned();
                    assert!(
                        [71, 22].contains(&errnum) && names(&text, key),
                        "{topic} {bad}: {errnum} {text:?}"
                    );
                }
            }
            // No object at all; for those that need one, none.
            for text in ["[]", "1", "\"x\"", "{", "null"] {
                let tag = broker.ask_text("a", topic, text);
                assert_eq!(broker.error(tag).await.0, 71, "{topic} {text}");
            }
        }
        // None of them left anything behind.
        let stats = broker.ask("a", "job-list.stats-get", &json!({}));
        let stats = broker.answer(stats).await;
        for count in ["held", "waiting", "streams", "stats_watchers"] {
            assert_eq!(stats[count], 0, "{count}: {stats}");
        }
        instance.stop().await;
    });
}

/// `since < 0.0 not allowed`, `attrs must be …`, `invalid state specified`, `key: …`
fn names(text: &str, key: &str) -> bool {
    let text = text.strip_prefix("invalid payload: ").unwrap_or(text);
    text.split(|c: char| !c.is_alphanumeric() && c != '_')
        .any(|word| word == key)
        || key == "flags" && text.contains("invalid flag")
}

#[test]
fn fault_a_wrong_after_is_refused_also_while_there_is_no_list() {
    run(async {
        let mut instance = common::Instance::new();
        let mut broker = common::Broker::new(&instance);
        instance.start();
        broker.accept().await;
        let tag = broker.ask(
            "a",
            "job-list.list",
            &json!({"max_entries":0,"attrs":[],"after":"7"}),
        );
        let (errnum, text) = broker.error(tag).await;
        assert_eq!(errnum, 71);
        let text = text.as_str().expect("a text");
        assert!(
            text.starts_with("invalid payload: after: invalid type: string \"7\", expected u64"),
            "{text}"
        );
        instance.stop().await;
    });
}
