//! The bodies: what they hold, which rows a list shows, and what they depend on.

mod fields;
mod lists;
mod spec;
mod watched;

use serde_json::Value;

use super::{List, ListParams, Query};
use crate::{answer::HttpError, ask::Viewer, testing::Feed};

pub(super) fn made_for(
    feed: &Feed,
    query: &Query,
    viewer: Viewer,
) -> Result<(Value, Option<String>), HttpError> {
    let made = query.make(&feed.projection, viewer)?;
    let text = made.body.to_vec();
    let value = serde_json::from_slice(&text)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&text)));
    Ok((value, made.next_token.map(|token| token.to_string())))
}

pub(super) fn made(feed: &Feed, query: &Query) -> Value {
    made_for(feed, query, Viewer::OWNER).expect("a body").0
}

pub(super) fn list(params: ListParams<'_>) -> List {
    List::new(&params).expect("a list")
}

pub(super) fn jobs(params: ListParams<'_>) -> Query {
    Query::Jobs {
        list: list(params),
        meta: false,
    }
}

pub(super) fn ids(list: &Value) -> Vec<&str> {
    let all = list.as_array().expect("a list").iter();
    all.map(|row| row["ID"].as_str().expect("an id")).collect()
}

/// Two nodes; a job that runs on both, one that waits, one that is over, a parent with a child, all of user 1000 but the waiting one.
pub(super) fn example() -> Feed {
    let mut feed = Feed::new();
    feed.nodes("0-1", r#"{"big":"1"}"#);
    feed.submit(100, 1000, "shop", "");
    feed.run(100, "0-1");
    feed.submit(101, 1001, "wait", r#""queue":"night","#);
    feed.submit(102, 1000, "over", "");
    feed.run(102, "1");
    feed.end(102, 256);
    feed.submit(
        103,
        1000,
        "parent",
        r#""weir":{"parameterized":{"payload":"optional"}},"#,
    );
    feed.submit(
        104,
        1000,
        "parent",
        r#""weir":{"parent":103,"dispatch":{}},"#,
    );
    let _changes = feed.fold();
    feed
}
