//! Whoever writes hops of another client into a request is still himself: it stops, ends and takes up nothing of the other.

#![allow(
    clippy::panic,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

mod common;

use bytes::Bytes;
use common::{Broker, OWNER, following, run};
use serde_json::json;
use wire::{Cred, Flags, Request};

/// Streams of one client alone, at most: see `quota.rs`.
const STREAMS_ALONE_MAX: usize = 2200;

async fn streams(broker: &mut Broker) -> u64 {
    let tag = broker.ask("stats", "job-list.stats-get", &json!({}));
    broker.answer(tag).await["streams"]
        .as_u64()
        .expect("a number")
}

#[test]
fn a_client_that_writes_the_hop_of_another_pauses_and_ends_nothing_of_it() {
    run(async {
        let (mut instance, mut broker, _feed) = following().await;
        let watch = broker.ask_hops(&["victim"], "job-list.job-stats", Flags::STREAMING);
        broker.answer(watch).await;
        for notice in ["job-list.disconnect", "job-list.pause"] {
            broker.ask_hops(&["rude", "victim"], notice, Flags::NORESPONSE);
        }
        assert_eq!(streams(&mut broker).await, 1, "not ended");
        let list = broker.ask_hops(&["victim"], "job-list.job-stats", Flags::STREAMING);
        broker.answer(list).await;
        // What the broker says of the victim itself counts.
        broker.ask_hops(&["victim"], "job-list.disconnect", Flags::NORESPONSE);
        assert_eq!(streams(&mut broker).await, 0);
        instance.stop().await;
    });
}

#[test]
fn one_of_many_behind_a_connection_leaves_and_the_others_stay() {
    run(async {
        let (mut instance, mut broker, _feed) = following().await;
        for behind in ["a", "b"] {
            let tag = broker.ask_hops(&["proxy", behind], "job-list.job-stats", Flags::STREAMING);
            broker.answer(tag).await;
        }
        broker.ask_hops(&["proxy", "a"], "job-list.pause", Flags::NORESPONSE);
        broker.ask_hops(&["proxy", "a"], "job-list.disconnect", Flags::NORESPONSE);
        assert_eq!(streams(&mut broker).await, 1);
        broker.ask_hops(&["proxy", "b"], "job-list.resume", Flags::NORESPONSE);
        let tag = broker.ask_hops(&["proxy", "b"], "job-list.job-stats", Flags::STREAMING);
        broker.answer(tag).await;
        instance.stop().await;
    });
}

#[test]
fn invariant_7_streams_are_counted_by_connection_whatever_hops_a_client_writes() {
    run(async {
        let (mut instance, mut broker, _feed) = following().await;
        let mut refused = 0;
        for number in 0..STREAMS_ALONE_MAX {
            let own: &'static str = Box::leak(number.to_string().into_boxed_str());
            let tag = broker.ask_hops(&["rude", own], "job-list.job-stats", Flags::STREAMING);
            let (met, errnum, _) = broker.response().await;
            assert_eq!(met, tag);
            refused += usize::from(errnum == 11);
        }
        assert!(
            refused > 100,
            "{refused} of {STREAMS_ALONE_MAX} were refused"
        );
        instance.stop().await;
    });
}

#[test]
fn a_stream_that_nobody_can_hear_is_not_opened_and_a_disconnect_counts_whatever_its_payload() {
    run(async {
        let (mut instance, mut broker, _feed) = following().await;
        let payload = Some(wire::nul_terminated(b"{}"));
        let mut deaf = Request::new("job-list.job-stats", payload, wire::MATCHTAG_NONE);
        deaf.routes = Some(vec![Bytes::from_static(b"a")]);
        deaf.cred = Cred::owner(OWNER);
        deaf.flags = Flags::STREAMING;
        broker.send(deaf);
        assert_eq!(streams(&mut broker).await, 0);
        let tag = broker.ask_stream("a", "job-list.job-stats", &json!({}));
        broker.answer(tag).await;
        broker.tell("a", "job-list.disconnect", &json!({"after": "no number"}));
        assert_eq!(streams(&mut broker).await, 0);
        instance.stop().await;
    });
}
