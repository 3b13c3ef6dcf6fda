//! HTTP: who is let in, and what is shown to whom.

#![allow(
    clippy::panic,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

mod common;

use common::{
    Broker, Feed, Instance, OWNER, caught_up,
    http::{Reply, Web, options, serving},
    run,
};
use serde_json::json;
use wire::{Cred, Flags};

async fn ask(web: &Web, path: &str, headers: &str) -> Reply {
    let host = web.address;
    web.raw(&format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\n{headers}\r\n"
    ))
    .await
}

/// A token that a client got over the socket.
async fn token(broker: &mut Broker, userid: u32, cred: Cred) -> String {
    let cred = Cred { userid, ..cred };
    let tag = broker.ask_as("a", "job-info.http-token", &json!({}), cred, Flags::NONE);
    let answer = broker.answer(tag).await;
    let url = answer["url"].as_str().expect("a url");
    let token = answer["token"].as_str().expect("a token").to_owned();
    assert!(url.starts_with("http://127.0.0.1:") && url.ends_with(&format!("/#token={token}")));
    assert!(answer["expires"].as_u64().expect("a time") > 1_700_000_000);
    token
}

#[test]
fn nothing_of_a_job_is_shown_without_a_token() {
    run(async {
        let (mut instance, mut broker, _, web) = serving(options()).await;
        for path in [
            "/v1/jobs/statuses",
            "/v1/jobs/statuses/stream",
            "/v1/event/stream",
            "/v1/job/f2",
            "/v1/job/f2/summary",
            "/metrics",
            "/v1/agent/self",
            "/v1/status/leader",
            "/nope",
            "/v1/jobs/",
        ] {
            for headers in [
                "",
                "X-Nomad-Token: x\r\n",
                "Authorization: Bearer x\r\n",
                "Cookie: weir_1=x\r\n",
                "X-Nomad-Token: \r\n",
                "Authorization: Basic eDp5\r\n",
            ] {
                let reply = ask(&web, path, headers).await;
                assert_eq!(
                    (reply.status, reply.text()),
                    (403, "Permission denied"),
                    "{path} {headers}"
                );
            }
        }
        for path in [
            "/",
            "/page.js",
            "/page.css",
            "/enter.js",
            "/healthz",
            "/openapi.json",
        ] {
            assert_eq!(ask(&web, path, "").await.status, 200, "{path}");
            assert_eq!(
                ask(&web, path, "X-Nomad-Token: x\r\n").await.status,
                200,
                "{path}"
            );
        }
        // A browser that would show it gets a page that can exchange the token of its address, and nothing of a job.
        let shown = ask(&web, "/v1/jobs", "Sec-Fetch-Dest: document\r\n").await;
        assert_eq!(shown.status, 403);
        assert!(shown.text().contains("/enter.js") && shown.text().contains("weir open"));
        let policy = shown.header("content-security-policy");
        assert!(policy.is_some_and(|policy| policy.starts_with("default-src 'none'")));
        assert_eq!(
            shown.header("content-type"),
            Some("text/html; charset=utf-8")
        );
        let own = format!("Authorization: bearer {}\r\n", web.token);
        assert_eq!(ask(&web, "/v1/jobs", &own).await.status, 200);
        let made = token(&mut broker, 1001, Cred::guest(1001)).await;
        let made = format!("X-Nomad-Token: {made}\r\n");
        assert_eq!(ask(&web, "/v1/jobs", &made).await.status, 200);
        let whose = ask(&web, "/v1/acl/token/self", &made).await.json();
        assert_eq!(
            (&whose["Name"], &whose["Type"]),
            (&json!("user 1001"), &json!("client"))
        );
        instance.stop().await;
    });
}

#[test]
fn a_token_is_exchanged_for_a_cookie_that_only_this_page_sends() {
    run(async {
        let (mut instance, mut broker, _, web) = serving(options()).await;
        let host = web.address;
        let post = |headers: String| {
            let text = format!(
                "POST /v1/weir/session HTTP/1.1\r\nHost: {host}\r\n{headers}Content-Length: 0\r\n\r\n"
            );
            let web = web.clone();
            async move { web.raw(&text).await }
        };
        assert_eq!(post(String::new()).await.status, 403);
        assert_eq!(post("X-Nomad-Token: x\r\n".into()).await.status, 403);
        let made = token(&mut broker, OWNER, Cred::owner(OWNER)).await;
        for token in [&web.token, &made] {
            let reply = post(format!(
                "X-Nomad-Token: {token}\r\nOrigin: http://{host}\r\n"
            ))
            .await;
            assert_eq!(reply.status, 204);
            let cookie = reply.header("set-cookie").expect("a cookie");
            let (pair, attributes) = cookie.split_once("; ").expect("attributes");
            assert!(!pair.contains(&web.token), "not the token itself");
            assert!(attributes.starts_with("Path=/; HttpOnly; SameSite=Strict; Max-Age="));
            assert_eq!(
                ask(&web, "/v1/jobs", &format!("Cookie: a=b; {pair}\r\n"))
                    .await
                    .status,
                200
            );
            let value = pair.split_once('=').expect("a value").1;
            let header = format!("X-Nomad-Token: {value}\r\n");
            assert_eq!(
                ask(&web, "/v1/jobs", &header).await.status,
                403,
                "a session is no token"
            );
        }
        let away = web.method("DELETE", "/v1/weir/session").await;
        assert!(
            away.header("set-cookie")
                .is_some_and(|cookie| cookie.ends_with("Max-Age=0"))
        );
        instance.stop().await;
    });
}

#[test]
fn a_page_of_elsewhere_is_kept_out_by_its_host_and_its_origin() {
    run(async {
        let (mut instance, _broker, _, web) = serving(options()).await;
        let token = &web.token;
        let port = web.address.port();
        let ask = |host: &str, more: &str, path: &str| {
            let text = format!(
                "GET {path} HTTP/1.1\r\nHost: {host}\r\nX-Nomad-Token: {token}\r\n{more}\r\n"
            );
            let web = web.clone();
            async move { web.raw(&text).await }
        };
        for host in ["localhost", &format!("127.0.0.1:{port}"), "[::1]:80"] {
            assert_eq!(ask(host, "", "/v1/jobs").await.status, 200, "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example",
            &format!("evil.example:{port}"),
        ] {
            for path in ["/v1/jobs", "/", "/healthz", "/nope"] {
                let reply = ask(host, "", path).await;
                assert_eq!(reply.status, 403, "{host} {path}");
                assert!(
                    reply.text().contains("is not this server: use its address"),
                    "{}",
                    reply.text()
                );
            }
        }
        let origin = |origin: &str| format!("Origin: {origin}\r\n");
        assert_eq!(
            ask("localhost:1", &origin("http://localhost:1"), "/v1/jobs")
                .await
                .status,
            200
        );
        for bad in ["http://localhost:2", "http://evil.example", "null"] {
            assert_eq!(
                ask("localhost:1", &origin(bad), "/v1/jobs").await.status,
                403,
                "{bad}"
            );
        }
        assert_eq!(
            ask("localhost", "Sec-Fetch-Site: same-site\r\n", "/v1/jobs")
                .await
                .status,
            403
        );
        assert_eq!(
            ask("localhost", "Sec-Fetch-Site: cross-site\r\n", "/")
                .await
                .status,
            200
        );
        assert_eq!(web.raw("GET /healthz HTTP/1.1\r\n\r\n").await.status, 400);
        instance.stop().await;
    });
}

/// Two jobs: one of the owner, one of user 1001.
async fn two_jobs(private: bool, open: bool) -> (Instance, Broker, Web) {
    let mut instance = Instance::new();
    let mut broker = Broker::new(&instance);
    instance.start_with(|config| {
        config.private = private;
        config.http = Some(job_info::http::Options { open, ..options() });
    });
    broker.accept().await;
    broker.play(&caught_up(0));
    let mut feed = Feed::default();
    let owner = rustix::process::getuid().as_raw();
    let mut entries = feed.submit(1, owner, 16);
    entries.extend(feed.submit(2, 1001, 16));
    broker.play(&feed.live(&entries));
    let web = Web::of(&instance);
    web.get("/v1/jobs?after=8").await;
    (instance, broker, web)
}

#[test]
fn in_private_mode_a_guest_sees_its_own_jobs_and_does_not_learn_of_others() {
    run(async {
        let (mut instance, mut broker, web) = two_jobs(true, false).await;
        assert_eq!(web.get("/v1/jobs/statuses").await.ids(), ["f3", "f2"]);
        let guest = token(&mut broker, 1001, Cred::guest(1001)).await;
        let guest = format!("X-Nomad-Token: {guest}\r\n");
        for path in ["/v1/jobs/statuses", "/v1/jobs"] {
            assert_eq!(ask(&web, path, &guest).await.ids(), ["f3"], "{path}");
        }
        let other = ask(&web, "/v1/job/f2", &guest).await;
        let absent = ask(&web, "/v1/job/f9", &guest).await;
        assert_eq!((other.status, other.text()), (404, "job not found"));
        assert_eq!((other.status, other.text()), (absent.status, absent.text()));
        assert_eq!(ask(&web, "/v1/job/f3/summary", &guest).await.status, 200);
        assert_eq!(ask(&web, "/metrics", &guest).await.status, 403);
        instance.stop().await;
    });
}

#[test]
fn an_open_instance_shows_to_all_what_a_guest_may_see() {
    run(async {
        let (mut instance, _broker, web) = two_jobs(false, true).await;
        assert_eq!(ask(&web, "/v1/jobs/statuses", "").await.ids(), ["f3", "f2"]);
        assert_eq!(
            ask(&web, "/v1/jobs/statuses", "X-Nomad-Token: x\r\n")
                .await
                .status,
            403
        );
        let evil = web
            .raw("GET /v1/jobs HTTP/1.1\r\nHost: evil.example\r\n\r\n")
            .await;
        assert_eq!(
            evil.status, 403,
            "a page of elsewhere is kept out all the more"
        );
        instance.stop().await;
        let (mut instance, _broker, web) = two_jobs(true, true).await;
        assert_eq!(ask(&web, "/v1/jobs/statuses", "").await.text(), "[]");
        instance.stop().await;
    });
}

#[test]
fn without_http_a_token_is_refused_with_what_to_do() {
    run(async {
        let (mut instance, mut broker, _) = common::following().await;
        let tag = broker.ask("a", "job-info.http-token", &json!({}));
        let (errnum, text) = broker.error(tag).await;
        assert_eq!(errnum, 38);
        assert!(text.as_str().is_some_and(|text| text.contains("--http=")));
        assert!(!instance.dir.path().join("http").exists());
        instance.stop().await;
    });
}

#[test]
fn streams_and_blocked_queries_end_with_the_token_they_were_opened_with() {
    run(async {
        let (mut instance, mut broker, _, web) = serving(options()).await;
        let tag = broker.ask("a", "job-info.http-token", &json!({"seconds":1}));
        let answer = broker.answer(tag).await;
        let token = answer["token"].as_str().expect("a token").to_owned();
        let short = Web {
            token,
            ..web.clone()
        };
        let mut events = short.events("/v1/jobs/statuses/stream", "").await;
        let index = short.get("/v1/regions").await.index();
        let mut blocked = short.begin(&format!("/v1/jobs?index={index}")).await;
        assert_eq!(events.next().await.expect("the page").name, "page");
        assert!(events.next().await.is_none());
        assert_eq!(blocked.reply().await.expect("an answer").status, 200);
        assert_eq!(short.get("/v1/jobs").await.status, 403);
        instance.stop().await;
    });
}

#[test]
fn fault_what_cannot_be_written_is_tried_again_and_the_sockets_are_served_meanwhile() {
    run(async {
        let mut instance = Instance::new();
        let mut broker = Broker::new(&instance);
        // Neither file can be made while directories have their names.
        let [http, token] = ["http", "http-token"].map(|name| instance.dir.path().join(name));
        for path in [&http, &token] {
            std::fs::create_dir(path).expect("a directory");
        }
        instance.start_with(|config| config.http = Some(options()));
        broker.accept().await;
        broker.play(&caught_up(0));
        let tag = broker.ask("a", "job-info.ping", &json!({}));
        broker.answer(tag).await;
        for path in [&token, &http] {
            std::fs::remove_dir(path).expect("removed");
            // The pause is a second.
            while !path.is_file() {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        }
        assert_eq!(Web::of(&instance).get("/v1/jobs").await.text(), "[]");
        instance.stop().await;
    });
}
