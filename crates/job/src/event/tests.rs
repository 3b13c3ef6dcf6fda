//! Events in and out: exact bytes are checked against `rfc/2_job.md`; here is what a page cannot show.

use super::*;
use proptest::prelude::*;
use serde_json::json;

fn parsed(json: &str) -> Event {
    Event::parse(json.as_bytes()).unwrap()
}

fn text(event: &Event) -> String {
    String::from_utf8(event.to_json().to_vec()).unwrap()
}

#[test]
fn names_have_bits_of_their_own_below_64() {
    let mut seen = 0u64;
    for name in EventName::KNOWN {
        let bit = name.bit().unwrap();
        assert!(bit < 64 && seen & (1 << bit) == 0, "{name}");
        seen |= 1 << bit;
        assert_eq!(EventName::from(name.as_str()), *name);
    }
    let other = EventName::from("debug.x");
    assert_eq!((other.as_str(), other.bit()), ("debug.x", None));
}

#[test]
fn a_timestamp_keeps_its_bits_and_its_point() {
    for value in [
        "1.0",
        "1700000000.123456",
        "1764512345.6789012",
        "0.0",
        "1700000000.0000002",
    ] {
        let json = format!("{{\"timestamp\":{value},\"name\":\"start\"}}");
        assert_eq!(text(&parsed(&json)), json);
    }
    assert_eq!(
        text(&parsed("{\"timestamp\":5,\"name\":\"start\"}")),
        "{\"timestamp\":5.0,\"name\":\"start\"}"
    );
}

#[test]
fn key_order_white_space_and_further_keys_do_not_matter() {
    let event = parsed(
        " { \"name\" : \"\\u0066inish\", \"x\":1, \"context\":{\"y\":2,\"status\":-1}, \"timestamp\":1e0 } ",
    );
    assert_eq!(
        event,
        Event::new(Timestamp(1.0), EventKind::Finish { status: -1 })
    );
    assert_eq!(
        parsed("{\"timestamp\":1.0,\"name\":\"start\",\"context\":null}").kind,
        EventKind::Start
    );
}

#[test]
fn unknown_events_are_kept_whole() {
    let json = "{\"timestamp\":1.5,\"name\":\"x \\\"ƒ\\\"\",\"context\":{\"z\":1.0,\"a\":[null,{\"b\":\"ƒ\\n\"}],\"big\":18446744073709551615}}";
    assert_eq!(text(&parsed(json)), json);
}

#[test]
fn an_empty_context_is_left_out() {
    let context = Some(crate::Map::new());
    let event = Event::new(
        Timestamp(1.0),
        EventKind::Memo {
            memo: crate::Map::new(),
        },
    );
    assert_eq!(text(&event), "{\"timestamp\":1.0,\"name\":\"memo\"}");
    let other = EventKind::Other {
        name: "x".into(),
        context,
    };
    // A foreign event keeps even its empty context: it is passed on as it came.
    assert_eq!(
        text(&Event::new(Timestamp(1.0), other)),
        "{\"timestamp\":1.0,\"name\":\"x\",\"context\":{}}"
    );
}

#[test]
fn ill_typed_contexts_of_known_events_are_refused() {
    for (name, context) in [
        ("submit", json!({"userid":-1,"urgency":16,"flags":0})),
        ("submit", json!({"userid":1,"urgency":16})),
        (
            "submit",
            json!({"userid":4_294_967_296_u64,"urgency":16,"flags":0}),
        ),
        ("priority", json!({"priority":4_294_967_296_u64})),
        ("priority", json!({"priority":-1})),
        ("priority", json!({"priority":1.5})),
        ("urgency", json!({"userid":1,"urgency":"16"})),
        ("dependency-add", json!({"description":1})),
        ("resource-update", json!({"expiration":-1})),
        ("resource-update", json!({})),
        ("alloc", json!({"annotations":[1]})),
        ("alloc", json!([1])),
        ("exception", json!({"type":"x","severity":-1})),
        ("exception", json!({"severity":0})),
        ("finish", json!({"status":2_147_483_648_u64})),
        ("release", json!({"ranks":"all","final":1})),
        ("memo", json!("x")),
        ("set-flags", json!({"flags":[1]})),
    ] {
        let json = json!({"timestamp":1.0,"name":name,"context":context}).to_string();
        let error = Event::parse(json.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(&format!("{name:?}")), "{json}: {error}");
    }
}

#[test]
fn a_reason_of_an_allocation_is_cut_at_a_character() {
    let long = "ƒ".repeat(ALLOC_REASON_BYTES_MAX);
    let json = json!({"timestamp":1.0,"name":"alloc-status","context":{"allocs":[
        {"ranks":"0","status":"lost","reason":format!("a{long}")},{"ranks":"1","status":"lost","reason":""}]}});
    let EventKind::AllocStatus { allocs } = parsed(&json.to_string()).kind else {
        panic!("another event");
    };
    assert_eq!(
        allocs[0].reason.as_ref().unwrap().len(),
        ALLOC_REASON_BYTES_MAX - 1
    );
    assert_eq!(allocs[1].reason, None);
}

#[test]
fn deep_nesting_is_an_error_and_no_overflow() {
    let deep = format!(
        "{{\"timestamp\":1.0,\"name\":\"x\",\"context\":{}1{}}}",
        "{\"a\":".repeat(100_000),
        "}".repeat(100_000)
    );
    assert!(Event::parse(deep.as_bytes()).is_err());
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        let _ = Event::parse(&bytes);
        let _ = name_of(&bytes);
    }

    #[test]
    fn near_events_are_read_or_refused(
        name in prop::sample::select(EventName::KNOWN),
        key in "(userid|urgency|flags|status|severity|type|ranks|final|annotations|priority|description|expiration)",
        value in "(-?[0-9]{1,20}|true|null|\"[a-z]{0,3}\"|\\[\\]|\\{\\}|[0-9]\\.[0-9]|1e400)",
    ) {
        let json = format!("{{\"timestamp\":1.5,\"name\":\"{name}\",\"context\":{{\"{key}\":{value}}}}}");
        if let Ok(event) = Event::parse(json.as_bytes()) {
            prop_assert_eq!(Event::parse(&event.to_json()).unwrap(), event);
        }
    }

    #[test]
    fn texts_of_any_content_survive(note in ".*", kind in ".*", severity in 0u8..8, time in 0.0f64..4e9) {
        let exception = ExceptionEvent { kind, severity, note, userid: Some(1), wait_status: None };
        let event = Event::new(Timestamp(time), EventKind::Exception(exception));
        prop_assert_eq!(Event::parse(&event.to_json()).unwrap(), event);
    }
}
