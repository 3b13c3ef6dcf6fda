//! HTTP as its clients see it: parameters, headers, errors, forms of a body, paths.

#![allow(
    clippy::panic,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

mod common;

use std::{collections::BTreeSet, io::Read as _};

use serde_json::Value;

use common::{
    Broker, Instance, OWNER, caught_up,
    http::{Web, Wire, options, serving},
    run,
};

#[test]
fn every_read_has_its_headers_also_when_it_is_empty() {
    run(async {
        let (mut instance, broker, mut feed, web) = serving(options()).await;
        let read = |reply: &common::http::Reply| {
            assert_eq!(reply.header("x-nomad-lastcontact"), Some("0"));
            assert_eq!(reply.header("x-nomad-knownleader"), Some("true"));
            assert_eq!(reply.header("x-nomad-nexttoken"), None);
            assert_eq!(reply.header("vary"), Some("Accept-Encoding"));
            assert_eq!(reply.header("x-weir-stale"), None);
            assert!(reply.header("x-weir-epoch").is_some());
            reply.index()
        };
        for path in [
            "/v1/jobs/statuses",
            "/v1/jobs",
            "/v1/allocations",
            "/v1/nodes",
            "/v1/deployments",
        ] {
            let empty = web.get(path).await;
            assert_eq!(empty.text(), "[]", "{path}");
            read(&empty);
        }
        broker.play(&jobs(&mut feed, 3));
        let some = web.get("/v1/jobs/statuses?after=12").await;
        assert_eq!(read(&some), 12);
        assert_eq!(some.ids(), ["f4", "f3", "f2"]);
        assert!(!some.text().ends_with('\n') && !some.text().contains(": "));
        let page = web.get("/v1/jobs/statuses?per_page=2").await;
        assert_eq!(page.ids(), ["f4", "f3"]);
        let token = page.header("x-nomad-nexttoken").expect("a further page");
        let next = web
            .get(&format!("/v1/jobs/statuses?per_page=2&next_token={token}"))
            .await;
        assert_eq!(next.ids(), ["f2"]);
        read(&next);
        instance.stop().await;
    });
}

/// Whether a value is as a schema says; the way to what is not.
fn conforms(document: &Value, schema: &Value, value: &Value) -> Result<(), String> {
    if let Some(to) = schema["$ref"].as_str() {
        let pointer = to.strip_prefix('#').expect("a place in the document");
        return conforms(document, document.pointer(pointer).expect(to), value);
    }
    if let Some(all) = schema["oneOf"].as_array() {
        let fitting = all
            .iter()
            .filter(|one| conforms(document, one, value).is_ok());
        return (fitting.count() == 1)
            .then_some(())
            .ok_or(format!(": {value} is none of {all:?}"));
    }
    let is_of = |kind: &Value| match kind.as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("null") => value.is_null(),
        Some("integer") => value.is_u64() || value.is_i64(),
        Some("number") => value.is_number(),
        other => panic!("no type: {other:?}"),
    };
    let kinds = match &schema["type"] {
        Value::Null => return Ok(()),
        Value::Array(kinds) => kinds.clone(),
        kind => vec![kind.clone()],
    };
    if !kinds.iter().any(is_of) {
        return Err(format!(": expected {kinds:?}, got {value}"));
    }
    if let Some(all) = schema["enum"].as_array()
        && !all.contains(value)
    {
        return Err(format!(": {value} is none of {all:?}"));
    }
    for name in schema["required"].as_array().into_iter().flatten() {
        let name = name.as_str().expect("a name");
        value.get(name).ok_or(format!(": {name} is missing"))?;
    }
    for (name, part) in value.as_object().into_iter().flatten() {
        let of_part = match schema["properties"].get(name) {
            Some(known) => known,
            None => &schema["additionalProperties"],
        };
        conforms(document, of_part, part).map_err(|why| format!(".{name}{why}"))?;
    }
    for part in value.as_array().into_iter().flatten() {
        conforms(document, &schema["items"], part).map_err(|why| format!("[]{why}"))?;
    }
    Ok(())
}

/// Entries of so many jobs, whose ids are 1, 2 …
fn feed_of(feed: &mut common::Feed, jobs: u64) -> Vec<serde_json::Value> {
    (1..=jobs)
        .flat_map(|id| feed.submit(id, OWNER, 16))
        .collect()
}

/// The same as a live batch.
fn jobs(feed: &mut common::Feed, jobs: u64) -> String {
    let entries = feed_of(feed, jobs);
    feed.live(&entries)
}

#[test]
fn parameters_are_refused_in_their_order_with_known_texts() {
    run(async {
        let (mut instance, broker, mut feed, web) = serving(options()).await;
        broker.play(&jobs(&mut feed, 1));
        web.get("/v1/jobs?after=4").await;
        for (query, status, text) in [
            ("index=x&region=eu", 500, "No path to region"),
            (
                "index=x&stale=maybe",
                400,
                "Expect `true` or `false` for `stale` query string parameter",
            ),
            (
                "index=x&per_page=x",
                400,
                "Expect a number for `per_page` query string parameter",
            ),
            ("index=x&wait=10", 400, "Invalid wait time"),
            ("index=-1", 400, "Invalid index"),
            ("index=18446744073709551616", 400, "Invalid index"),
        ] {
            for path in ["/v1/jobs/statuses", "/v1/jobs", "/v1/job/f2", "/v1/nodes"] {
                let reply = web.get(&format!("{path}?{query}")).await;
                assert_eq!(
                    (reply.status, reply.text()),
                    (status, text),
                    "{path}?{query}"
                );
                assert_eq!(
                    reply.header("content-type"),
                    Some("text/plain; charset=utf-8")
                );
            }
        }
        let reply = web.get("/v1/jobs/statuses?include_children=yes").await;
        assert_eq!(reply.status, 400);
        assert!(
            reply
                .text()
                .starts_with("Failed to parse value of \"include_children\"")
        );
        // There, parameters come before the method; elsewhere the method comes first.
        assert_eq!(
            web.method("PUT", "/v1/jobs/statuses?index=x").await.status,
            400
        );
        for (method, path) in [
            ("PUT", "/v1/jobs/statuses"),
            ("PUT", "/v1/jobs?index=x"),
            ("DELETE", "/v1/job/f2"),
            ("OPTIONS", "/v1/nodes"),
            ("POST", "/metrics"),
        ] {
            let reply = web.method(method, path).await;
            assert_eq!(
                (reply.status, reply.text()),
                (405, "Invalid method"),
                "{method} {path}"
            );
        }
        let mut wire = Wire::open(web.address).await;
        wire.send(&web.head("HEAD", "/v1/jobs/statuses", "")).await;
        assert_eq!(wire.head().await.expect("an answer").status, 405);
        for good in [
            "stale",
            "stale=",
            "stale=True",
            "consistent",
            "limit=1&perPage=x&wait_index=x",
            "index=",
            "region=global",
        ] {
            assert_eq!(
                web.get(&format!("/v1/jobs/statuses?{good}")).await.ids(),
                ["f2"],
                "{good}"
            );
        }
        assert_eq!(
            web.get("/v1/jobs?meta=True&prefix=&namespace=%2A&filter=Status+%3D%3D+pending")
                .await
                .ids(),
            ["f2"]
        );
        instance.stop().await;
    });
}

#[test]
fn errors_of_filters_hold_the_words_that_clients_look_for() {
    run(async {
        let (mut instance, broker, mut feed, web) = serving(options()).await;
        broker.play(&jobs(&mut feed, 1));
        web.get("/v1/jobs?after=4").await;
        let bad = web.get("/v1/jobs/statuses?filter=ID+==+my-job").await;
        assert!(
            bad.text().contains("failed to read filter expression"),
            "{}",
            bad.text()
        );
        let unknown = web.get("/v1/jobs/statuses?filter=Foo+==+1").await;
        assert!(
            unknown
                .text()
                .contains("couldn't find key: struct field with name \"Foo\""),
            "{}",
            unknown.text()
        );
        let of_stream = web
            .get("/v1/jobs/statuses/stream?filter=ID+==+my-job")
            .await;
        assert_eq!(
            (of_stream.status, of_stream.text()),
            (bad.status, bad.text())
        );
        instance.stop().await;
    });
}

#[test]
fn a_body_may_list_the_jobs_whatever_its_content_type_is_called() {
    run(async {
        let (mut instance, broker, mut feed, web) = serving(options()).await;
        broker.play(&jobs(&mut feed, 3));
        web.get("/v1/jobs?after=12").await;
        let body = r#"{"jobs":[{"id":"f2","namespace":"default"},{"ID":"f4"},{"id":"f9"}],"index":7,"namespace":"*"} x"#;
        let reply = web.post("/v1/jobs/statuses?per_page=1", body).await;
        assert_eq!(reply.ids(), ["f4", "f2"]);
        assert_eq!(reply.header("x-nomad-nexttoken"), None);
        // GET with a body is POST, POST without is GET.
        let head = web.head(
            "GET",
            "/v1/jobs/statuses",
            &format!("Content-Length: {}\r\n", body.len()),
        );
        assert_eq!(web.raw(&(head + body)).await.ids(), ["f4", "f2"]);
        assert_eq!(
            web.post("/v1/jobs/statuses", "").await.ids(),
            ["f4", "f3", "f2"]
        );
        let chunked = web.head(
            "POST",
            "/v1/jobs/statuses",
            "Transfer-Encoding: chunked\r\n",
        );
        let chunked = format!("{chunked}{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
        assert_eq!(web.raw(&chunked).await.ids(), ["f4", "f2"]);
        for (body, text) in [
            ("{}", "no jobs in request"),
            (r#"{"Jobs":[]}"#, "no jobs in request"),
            (" ", "error decoding request: EOF"),
        ] {
            let reply = web.post("/v1/jobs/statuses", body).await;
            assert_eq!((reply.status, reply.text()), (400, text), "{body}");
        }
        let reply = web.post("/v1/jobs/statuses", "{").await;
        assert!(reply.status == 400 && reply.text().starts_with("error decoding request: "));
        instance.stop().await;
    });
}

#[test]
fn a_body_comes_indented_and_compressed_when_asked_for() {
    run(async {
        let (mut instance, broker, mut feed, web) = serving(options()).await;
        broker.play(&jobs(&mut feed, 200));
        let plain = web.get("/v1/jobs/statuses?after=800").await;
        assert_eq!(plain.header("content-encoding"), None);
        for on in ["pretty", "pretty=", "pretty=1", "pretty=false"] {
            let pretty = web.get(&format!("/v1/jobs/statuses?{on}")).await;
            assert!(
                pretty.text().starts_with("[\n    {\n        \"ID\": ")
                    && pretty.text().ends_with("\n]\n")
            );
            assert_eq!(pretty.json(), plain.json());
        }
        assert_eq!(web.get("/v1/jobs/statuses?pretty=0").await.body, plain.body);
        for path in ["/v1/jobs/statuses", "/v1/jobs/statuses?pretty"] {
            let zipped = web
                .get_with(path, "Accept-Encoding: deflate, gzip\r\n")
                .await;
            assert_eq!(zipped.header("content-encoding"), Some("gzip"));
            assert!(zipped.body.len() * 5 < plain.body.len());
            let mut back = Vec::new();
            let mut reader = flate2::read::GzDecoder::new(&zipped.body[..]);
            reader.read_to_end(&mut back).expect("gzip");
            assert_eq!(back, web.get(path).await.body, "{path}");
        }
        instance.stop().await;
    });
}

#[test]
fn ids_with_slashes_are_found_escaped_and_not_and_unknown_paths_are_empty() {
    run(async {
        let (mut instance, broker, mut feed, web) = serving(options()).await;
        broker.play(&jobs(&mut feed, 1));
        web.get("/v1/jobs?after=4").await;
        for id in [
            "f2",
            "1",
            "%C6%922",
            "f9/dispatch-17-f2",
            "f9%2Fdispatch-17-f2",
        ] {
            assert_eq!(
                web.get(&format!("/v1/job/{id}")).await.json()["ID"],
                "f2",
                "{id}"
            );
            let summary = web.get(&format!("/v1/job/{id}/summary")).await;
            assert_eq!(summary.json()["JobID"], "f2", "{id}");
            let summary = web.get(&format!("/v1/job/{id}%2Fsummary")).await;
            assert_eq!(summary.json()["JobID"], "f2", "{id}");
            assert_eq!(
                web.get(&format!("/v1/job/{id}/allocations?all=True"))
                    .await
                    .text(),
                "[]"
            );
        }
        assert_eq!(
            web.method("POST", "/v1/job/f2/summary").await.json()["JobID"],
            "f2"
        );
        for (path, status, text) in [
            ("/v1/job/f9", 404, "job not found"),
            ("/v1/job/shop/summary", 404, "job not found"),
            ("/v1/job/f2?namespace=prod", 404, "job not found"),
            ("/v1/job/f9/allocations", 200, "[]"),
            ("/v1/jobs/", 404, ""),
            ("/v1", 404, ""),
            ("/v1/job/", 404, ""),
            ("/v1/job/f2/", 404, ""),
            ("/favicon.ico", 404, ""),
            (
                "/v1/job/%zz",
                400,
                "the path holds a % without two hex digits",
            ),
        ] {
            let reply = web.get(path).await;
            assert_eq!((reply.status, reply.text()), (status, text), "{path}");
        }
        assert_eq!(web.get("/v1/job/f2/scale").await.status, 501);
        let moved = web.get("/ui/jobs/f2").await;
        assert_eq!((moved.status, moved.header("location")), (307, Some("/")));
        instance.stop().await;
    });
}

#[test]
fn every_path_of_the_description_is_served_as_it_is_described() {
    run(async {
        let (mut instance, broker, mut feed, web) = serving(options()).await;
        let mut entries = feed_of(&mut feed, 2);
        entries.extend(feed.alloc(1));
        broker.play(&feed.live(&entries));
        let allocations = web.get("/v1/allocations?after=10").await.ids();
        let description = web.get("/openapi.json").await.json();
        let paths = description["paths"].as_object().expect("paths");
        assert!(paths.len() > 30);
        let mut compared = 0;
        for (path, item) in paths {
            let id = match path.split('/').nth(2) {
                Some("node") => "n0",
                Some("allocation") => &allocations[0],
                _ => "f2",
            };
            let place = path.replace("{id}", id).replace("{rest}", "x");
            for method in item.as_object().expect("methods").keys() {
                let upper = method.to_ascii_uppercase();
                let mut wire = Wire::open(web.address).await;
                wire.send(&web.head(&upper, &place, "Content-Length: 0\r\n"))
                    .await;
                let mut reply = wire.head().await.expect("an answer");
                let said = &item[method]["responses"][reply.status.to_string()];
                // There are no deployments, and the search is said not to be built.
                let known = match path.as_str() {
                    "/v1/deployment/{id}" => reply.status == 404,
                    "/v1/search/fuzzy" => reply.status == 501,
                    _ => reply.status < 400 && said.is_object(),
                };
                assert!(known, "{method} {path}: {}", reply.status);
                let schema = &said["content"]["application/json"]["schema"];
                if reply.status == 200 && schema["$ref"].is_string() {
                    reply = web
                        .raw(&web.head(&upper, &place, "Content-Length: 0\r\n"))
                        .await;
                    if let Err(why) = conforms(&description, schema, &reply.json()) {
                        panic!("{method} {path}{why}");
                    }
                    compared += 1;
                }
            }
        }
        assert!(compared > 25, "{compared}");
        instance.stop().await;
    });
}

#[test]
fn without_a_list_reads_say_so_and_a_stale_list_says_that_it_is() {
    run(async {
        let mut instance = Instance::new();
        let mut broker = Broker::new(&instance);
        instance.start_with(|config| config.http = Some(options()));
        broker.accept().await;
        let web = Web::of(&instance);
        let none = web.get("/v1/jobs/statuses").await;
        assert_eq!((none.status, none.text()), (500, "No cluster leader"));
        assert_eq!(web.get("/healthz").await.status, 503);
        broker.play(&caught_up(0));
        let mut feed = common::Feed::default();
        broker.play(&jobs(&mut feed, 1));
        assert_eq!(web.get("/v1/jobs/statuses?after=4").await.ids(), ["f2"]);
        let health = web.get("/healthz").await;
        assert_eq!(health.json(), serde_json::json!({"ok":true,"seq":4}));
        broker.cut();
        web.metric("weir_list_connects_total 2").await;
        let stale = web.get("/v1/jobs/statuses").await;
        assert_eq!(stale.ids(), ["f2"]);
        assert_eq!(stale.header("x-nomad-knownleader"), Some("false"));
        let age: f64 = stale
            .header("x-weir-stale")
            .expect("an age")
            .parse()
            .expect("a number");
        assert!(age > 0.0 && age < 60.0);
        let health = web.get("/healthz").await;
        assert_eq!(health.status, 503);
        let health: serde_json::Value = serde_json::from_slice(&health.body).expect("JSON");
        assert_eq!(health["ok"], false);
        broker.accept().await;
        broker.play(&caught_up(4));
        web.metric("weir_journal_stale_seconds 0").await;
        assert_eq!(
            web.get("/v1/jobs/statuses").await.header("x-weir-stale"),
            None
        );
        instance.stop().await;
    });
}

#[test]
fn the_metrics_say_what_there_is() {
    run(async {
        let (mut instance, broker, mut feed, web) = serving(options()).await;
        let mut entries = feed_of(&mut feed, 3);
        entries.extend(feed.alloc(1));
        entries.extend(feed.alloc(2));
        entries.extend(feed.end(2));
        broker.play(&feed.live(&entries));
        web.get("/v1/jobs?after=20").await;
        let metrics = web.get("/metrics").await;
        assert_eq!(
            metrics.header("content-type"),
            Some("text/plain; version=0.0.4; charset=utf-8")
        );
        for line in [
            "weir_jobs{state=\"sched\"} 1",
            "weir_jobs{state=\"run\"} 1",
            "weir_jobs_inactive{result=\"completed\"} 1",
            "weir_journal_seq 20",
            "weir_fold_entries_total 20",
            "weir_http_waiting 0",
            "weir_http_requests_total{route=\"/v1/jobs\",code=\"200\"} 2",
        ] {
            assert!(
                metrics.text().lines().any(|met| met == line),
                "{line}\n{}",
                metrics.text()
            );
        }
        // The page that specifies them names all of them, and no other.
        let spec = concat!(env!("CARGO_MANIFEST_DIR"), "/../../rfc/9_http.md");
        let spec = std::fs::read_to_string(spec).expect("the specification");
        let table = spec
            .split("`/metrics`, as Prometheus reads it:")
            .nth(1)
            .expect("the table");
        let named = table
            .lines()
            .flat_map(|line| line.split('`').skip(1).step_by(2));
        let named: BTreeSet<&str> = named
            .filter(|word| word.starts_with("weir_") || word.starts_with("process_"))
            .filter_map(|word| word.split('{').next())
            .collect();
        let typed = metrics
            .text()
            .lines()
            .filter_map(|line| line.strip_prefix("# TYPE "));
        let typed: BTreeSet<&str> = typed.filter_map(|line| line.split(' ').next()).collect();
        assert_eq!(named, typed);
        // Every sample has a type and a help, as Prometheus wants it.
        for line in metrics.text().lines().filter(|line| !line.starts_with('#')) {
            let name = line.split(['{', ' ']).next().expect("a name");
            let family = ["_bucket", "_sum", "_count"]
                .iter()
                .find_map(|end| name.strip_suffix(end));
            let typed = |name: &str| metrics.text().contains(&format!("\n# TYPE {name} "));
            let first = metrics.text().starts_with(&format!("# HELP {name} "));
            assert!(first || typed(name) || family.is_some_and(typed), "{line}");
        }
        instance.stop().await;
    });
}
