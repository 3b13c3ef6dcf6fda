//! The examples of `rfc/9_http.md`: filters and bodies.

use job::JobId;
use serde_json::Value;

use super::{made, made_for};
use crate::{
    ask::Viewer,
    bodies::{List, ListParams, Query},
    testing::Feed,
};

const PAGE: &str = include_str!("../../../../../rfc/9_http.md");

/// Two nodes, and a job of user 1000 that runs on both.
fn example() -> Feed {
    let mut feed = Feed::new();
    feed.nodes("0-1", "{}");
    feed.submit(100, 1000, "shop", "");
    feed.run(100, "0-1");
    let _changes = feed.fold();
    feed
}

/// The blocks of a kind: what stands behind it in the first line, and the lines.
fn blocks(kind: &str) -> Vec<(String, String)> {
    let fence = format!("```{kind}");
    let mut blocks = Vec::new();
    let mut lines = PAGE.lines();
    while let Some(line) = lines.next() {
        if let Some(rest) = line.strip_prefix(&fence) {
            let text: Vec<&str> = lines
                .by_ref()
                .take_while(|line| !line.starts_with("```"))
                .collect();
            blocks.push((rest.trim().to_owned(), text.join("\n")));
        }
    }
    assert!(!blocks.is_empty(), "no block {kind}");
    blocks
}

#[test]
fn filters_of_the_page_mean_what_it_says() {
    let feed = example();
    let mut count = 0;
    for (_, text) in blocks("filter") {
        for line in text.lines() {
            let (filter, expected) = line.split_once("=> ").expect(line);
            let filter = filter.trim();
            let met = List::new(&ListParams {
                filter,
                ..ListParams::default()
            })
            .and_then(|list| made_for(&feed, &Query::Jobs { list, meta: false }, Viewer::OWNER));
            let met = match met {
                Ok((page, _)) => (page != Value::Array(Vec::new())).to_string(),
                Err(error) => {
                    assert_eq!(error.status, 400, "{filter}");
                    error.text.to_string()
                }
            };
            assert_eq!(met, expected, "{filter}");
            count += 1;
        }
    }
    assert!(count >= 15, "{count} examples");
}

#[test]
fn bodies_of_the_page_are_those_that_are_made() {
    let feed = example();
    for (path, text) in blocks("body") {
        let query = match path.rsplit('/').next() {
            Some("summary") => Query::Summary(Some(JobId(100))),
            other => panic!("{other:?}"),
        };
        let expected: Value = serde_json::from_str(&text).expect(&path);
        assert_eq!(made(&feed, &query), expected, "{path}");
    }
}
