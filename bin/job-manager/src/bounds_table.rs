//! Test: the bounds of `rfc/1_wire.md` are those of the code.

use crate::{
    broker, client_log, committer, conns, deliver, engines, events, forward, inbox, serve, streams,
};

/// As the table writes it: a count with commas, or KiB and MiB.
fn count(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn bytes(number: usize) -> String {
    if number.is_multiple_of(1 << 20) {
        format!("{} MiB", number >> 20)
    } else {
        format!("{} KiB", number >> 10)
    }
}

#[test]
fn the_bounds_of_the_specification_are_those_of_the_code() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../rfc/1_wire.md");
    let text = std::fs::read_to_string(path).unwrap();
    let (_, table) = text
        .split_once("| bound | value | beyond it |\n|---|---|---|\n")
        .unwrap();
    let rows: Vec<(&str, &str)> = table
        .lines()
        .map_while(|line| line.strip_prefix("| "))
        .map(|line| {
            let mut cells = line.split(" | ");
            (cells.next().unwrap(), cells.next().unwrap())
        })
        .collect();
    let expected = [
        (
            "connections; of another user than the owner a quarter of them",
            count(usize::try_from(crate::CONNECTIONS_MAX).unwrap()),
        ),
        ("frame", bytes(wire::FRAME_LEN_MAX_DEFAULT)),
        (
            "frames whose rest has not come, of all connections together",
            bytes(rpc::server::PARTIAL_BYTES_MAX),
        ),
        (
            "… of all users together but the owner",
            bytes(rpc::server::PARTIAL_BYTES_OTHERS_MAX),
        ),
        ("hops of a message", count(wire::ROUTE_HOPS_MAX)),
        (
            "topic of a request, in bytes",
            count(deliver::TOPIC_LEN_MAX),
        ),
        (
            "all hops of a request together, in bytes",
            count(deliver::HOPS_LEN_MAX),
        ),
        (
            "calls in flight of one connection",
            count(router::INFLIGHT_PER_CLIENT_MAX),
        ),
        (
            "distinct topic prefixes and hops remembered for disconnects, per connection",
            count(router::DISCONNECT_PREFIXES_MAX),
        ),
        (
            "service names of one connection",
            count(router::SERVICES_PER_PEER_MAX),
        ),
        (
            "subscriptions of one connection",
            count(router::SUBSCRIPTIONS_PER_PEER_MAX),
        ),
        (
            "topic prefix of a subscription, in bytes",
            count(broker::PREFIX_LEN_MAX),
        ),
        (
            "journal streams of one connection",
            count(streams::LISTENERS_PER_CONNECTION_MAX),
        ),
        ("look-ups that wait", count(serve::LOOKUPS_MAX)),
        ("… of one connection", count(serve::CONNECTION_LOOKUPS_MAX)),
        (
            "requests of one connection that wait for one service",
            bytes(inbox::CLIENT_REQUESTS_MAX),
        ),
        (
            "… those that expect no answer",
            bytes(inbox::CLIENT_NOTICES_MAX),
        ),
        (
            "requests that wait for all services together",
            bytes(forward::WAITING_MAX),
        ),
        (
            "requests of the job-manager that an engine has not read",
            bytes(engines::QUEUE_BYTES_MAX),
        ),
        (
            "a line of `log.append` as it is written",
            bytes(client_log::LINE_LEN_MAX),
        ),
        (
            "lines of `log.append` of one connection at once, then 5 a second",
            count(client_log::CONNECTION_LINES_MAX),
        ),
        (
            "lines of `log.append` of one user at once, then 10 a second",
            count(client_log::USER_LINES_MAX),
        ),
        (
            "events that one connection publishes at once, then as much a second",
            bytes(events::CONNECTION_EVENTS_MAX),
        ),
        (
            "… all connections of one user",
            bytes(events::USER_EVENTS_MAX),
        ),
        (
            "changes that are not on the disk",
            bytes(committer::UNDURABLE_BYTES_MAX),
        ),
        (
            "… in requests of one connection",
            bytes(serve::CONNECTION_ASKED_MAX),
        ),
        (
            "output queue at which a client's streams are paused",
            bytes(rpc::HIGH_WATER),
        ),
        (
            "output queue at which a subscriber is sent no more events",
            bytes(events::EVENTS_UNREAD_MAX),
        ),
        (
            "output queue at which a client is answered no more",
            bytes(conns::CLIENT_UNREAD_MAX),
        ),
        (
            "output queue at which a client is taken not to read, its longest frame not counted",
            bytes(conns::HARD_CAP),
        ),
    ];
    let expected: Vec<(&str, &str)> = expected
        .iter()
        .map(|(what, value)| (*what, value.as_str()))
        .collect();
    assert_eq!(rows, expected);
    assert!(text.contains(&format!("and they go on at {}", bytes(rpc::LOW_WATER))));
    assert!(text.contains(&format!(
        "at most {} requests and {}",
        inbox::WINDOW_MAX,
        bytes(inbox::WINDOW_BYTES_MAX)
    )));
    assert!(text.contains(&format!(
        "has {} at most",
        bytes(journal::limits::COMMIT_BYTES_MAX)
    )));
    assert!(text.contains(&format!("its connection at {}", bytes(conns::HARD_CAP))));
}
