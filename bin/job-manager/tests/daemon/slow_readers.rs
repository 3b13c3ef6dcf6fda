//! Invariants 4 and 7: who does not read costs nobody anything, is paused, and goes on where it stopped; or loses its own connection.

use crate::peer::{Peer, body};
use crate::world::{Tap, World, int, ok, soon, stats, submit, submit_many, value};
use serde_json::json;
use std::collections::HashMap;
use wire::{Flags, Message, Request, errno, json_payload};

/// More bytes of entries than any output queue may hold.
async fn flood(client: &rpc::Client, id: u64, rounds: u64) -> u64 {
    let text = "m".repeat(60_000);
    let mut replies = Vec::new();
    for round in 0..rounds {
        let memo = json!({"id": id, "memo": {"text": text, "round": round}});
        replies.push(client.begin("job-manager.memo", &memo).await.unwrap());
    }
    let mut seq = 0;
    for reply in replies {
        seq = int(&value(&soon(reply.json()).await.unwrap()), "seq");
    }
    seq
}

#[tokio::test]
async fn invariant_4_a_reader_that_does_not_read_has_a_cursor_and_goes_on_where_it_was() {
    let world = World::new().await;
    let client = world.client().await;
    let (id, first) = submit(&client).await;
    let mut slow = Peer::new(&world).await;
    let tag = slow.open("job-manager.events", &json!({}));
    slow.response(tag).await;
    let quick_client = world.client().await;
    let mut quick = Tap::open(&quick_client, json!({})).await;
    quick.backlog().await;
    // 48 MB in all: more than the ring would have to let go of, more than a queue may hold, if there were one.
    let (seq, live) = tokio::join!(flood(&client, id, 800), quick.until(first + 800));
    assert_eq!(live.len(), 800, "the other has everything meanwhile");
    assert_eq!(seq, first + 800);
    let listeners = int(&stats(&client).await["journal"], "listeners");
    assert_eq!(listeners, 2, "and the slow one is still there");
    let mut next = first + 1;
    while next <= seq {
        let response = slow.response(tag).await;
        assert_eq!(response.errnum, 0);
        for entry in body(&response.payload)["events"].as_array().unwrap() {
            assert_eq!(int(entry, "seq"), next);
            assert_eq!(entry["entry"]["context"]["round"], next - first - 1);
            next += 1;
        }
    }
}

/// High water is said once, also when it was passed by something else: a stream that is opened then waits, and loses nothing.
#[tokio::test]
async fn a_stream_opened_above_high_water_waits_for_its_connection() {
    let world = World::new().await;
    let client = world.client().await;
    let (id, first) = submit(&client).await;
    submit_many(&client, 3000).await;
    let seq = flood(&client, id, 800).await;
    let mut slow = Peer::new(&world).await;
    // Answers of this process, unread: together more than 1 MiB. Requests of a connection are taken in order, so they stand before the stream.
    let lists: Vec<u32> = (0..8)
        .map(|_| {
            let all = json_payload(&json!({"max_entries": 2000}));
            slow.request("job-manager.list", Some(all), Flags::NONE)
        })
        .collect();
    let everything = json_payload(&json!({"topic": ""}));
    let subscription = slow.request("event.subscribe", Some(everything), Flags::NONE);
    let tag = slow.open("job-manager.events", &json!({"after": first}));
    let _ = ok(&client, "event.publish", json!({"topic": "x.y"})).await;
    let mut next = first + 1;
    while next <= seq {
        let response = slow.response(tag).await;
        for entry in body(&response.payload)["events"].as_array().unwrap() {
            assert_eq!(int(entry, "seq"), next);
            next += 1;
        }
    }
    assert_eq!(slow.response(subscription).await.errnum, 0);
    for tag in lists {
        let list = body(&slow.response(tag).await.payload);
        assert_eq!(list["jobs"].as_array().map(Vec::len), Some(2000));
    }
}

/// A listing service that holds a stream as a cursor: rows are made when they are sent, and none while it is paused.
struct Lister {
    peer: Peer,
    /// Streams: request, rows sent; by the client's hop.
    open: HashMap<bytes::Bytes, (Request, u64)>,
    paused: Vec<bytes::Bytes>,
    pauses: u64,
}

const ROWS: u64 = 200_000;

impl Lister {
    /// Sends up to so many rows of every stream that is not paused, then looks what has come.
    async fn serve(mut self, obey: bool) -> u64 {
        loop {
            for (hop, (request, sent)) in &mut self.open {
                if obey && self.paused.contains(hop) {
                    continue;
                }
                for _ in 0..1000.min(ROWS - *sent) {
                    *sent += 1;
                    let row = json!({"jobs": [{"id": *sent, "name": "a name that makes a row as long as a row is"}]});
                    if self
                        .peer
                        .sender
                        .send(request.respond(Some(json_payload(&row))))
                        .await
                        .is_err()
                    {
                        return self.pauses;
                    }
                }
                if *sent == ROWS {
                    self.peer.fail(request, errno::ENODATA);
                    *sent += 1;
                }
            }
            self.open.retain(|_, (_, sent)| *sent <= ROWS);
            let idle = self
                .open
                .keys()
                .all(|hop| obey && self.paused.contains(hop));
            let message = if idle {
                self.peer.next().await
            } else {
                tokio::select! {
                    biased;
                    message = self.peer.next() => message,
                    () = tokio::task::yield_now() => continue,
                }
            };
            let Some(Message::Request(request)) = message else {
                return self.pauses;
            };
            let hop = request
                .routes
                .as_ref()
                .and_then(|hops| hops.last())
                .cloned()
                .unwrap();
            match request.topic.method() {
                "list" => drop(self.open.insert(hop, (request, 0))),
                "pause" => {
                    self.pauses += 1;
                    self.paused.push(hop);
                }
                "resume" => self.paused.retain(|one| *one != hop),
                "disconnect" => {
                    self.open.remove(&hop);
                    if !obey {
                        return self.pauses;
                    }
                }
                "quit" => {
                    self.peer.respond(&request, &json!({}));
                    return self.pauses;
                }
                other => panic!("{other}"),
            }
        }
    }

    async fn start(world: &World, obey: bool) -> tokio::task::JoinHandle<u64> {
        let peer = Peer::service(world, "lister").await;
        let lister = Lister {
            peer,
            open: HashMap::new(),
            paused: Vec::new(),
            pauses: 0,
        };
        tokio::spawn(lister.serve(obey))
    }
}

#[tokio::test]
async fn invariant_7_a_client_that_stops_in_a_listing_is_paused_and_goes_on_where_it_stopped() {
    let world = World::new().await;
    let lister = Lister::start(&world, true).await;
    let mut stopped = Peer::new(&world).await;
    let tag = stopped.open("lister.list", &json!({}));
    for row in 1..=10 {
        assert_eq!(
            body(&stopped.response(tag).await.payload)["jobs"][0]["id"],
            row
        );
    }
    // Others are served meanwhile, listings too.
    let client = world.client().await;
    for _ in 0..20 {
        submit(&client).await;
    }
    let mut stream = client.stream("lister.list", &json!({})).await.unwrap();
    let mut rows = 0;
    while let Some(row) = soon(stream.next()).await {
        rows += 1;
        assert_eq!(value(&row.unwrap())["jobs"][0]["id"], rows);
    }
    assert_eq!(rows, ROWS);
    // 200,000 rows would have been more than the cap of its queue; it was paused far below.
    for row in 11..=ROWS {
        let response = stopped.response(tag).await;
        assert_eq!(response.errnum, 0);
        assert_eq!(body(&response.payload)["jobs"][0]["id"], row);
    }
    assert_eq!(stopped.response(tag).await.errnum, errno::ENODATA);
    ok(&client, "lister.quit", json!({})).await;
    assert!(soon(lister).await.unwrap() >= 1, "it was paused");
}

#[tokio::test]
async fn invariant_7_a_service_that_ignores_pause_costs_that_client_its_connection_and_nobody_else()
{
    let world = World::new().await;
    let mut service = Peer::service(&world, "deaf").await;
    let mut victim = Peer::new(&world).await;
    let client = world.client().await;
    victim.open("deaf.watch", &json!({}));
    let watch = service.next_request().await;
    let row = json_payload(&json!({"pad": "x".repeat(100_000)}));
    let mut gone = false;
    for _ in 0..1000 {
        service
            .sender
            .send(watch.respond(Some(row.clone())))
            .await
            .unwrap();
        if let Some(topic) = victim_left(&mut service).await {
            assert_eq!(topic, "deaf.disconnect");
            gone = true;
            break;
        }
    }
    assert!(gone, "100 MB were queued for a client that does not read");
    victim.closed().await;
    // The service and everybody else go on.
    let call = client.begin("deaf.x", &json!({})).await.unwrap();
    let request = loop {
        let request = service.next_request().await;
        if request.topic.as_str() == "deaf.x" {
            break request;
        }
    };
    service.respond(&request, &json!({"ok": 1}));
    assert_eq!(value(&soon(call.json()).await.unwrap()), json!({"ok": 1}));
}

/// What the service has heard by now, if anything but a pause; its own call makes sure that what it sent was taken.
async fn victim_left(service: &mut Peer) -> Option<String> {
    service
        .call("job-manager.queue-list", json!({}))
        .await
        .unwrap();
    while let Some(request) = service.heard() {
        if request.topic.method() != "pause" {
            return Some(request.topic.as_str().to_owned());
        }
    }
    None
}

#[tokio::test]
async fn invariant_7_a_service_that_does_not_read_is_answered_for_with_eagain_and_loses_no_word_of_the_broker()
 {
    let world = World::new().await;
    let mut service = Peer::service(&world, "asleep").await;
    let client = world.client().await;
    let mut leaver = Peer::new(&world).await;
    leaver.request("asleep.leave", None, Flags::NONE);
    let pad = "x".repeat(100_000);
    let mut accepted = Vec::new();
    let mut refused = 0;
    for at in 0..80 {
        let ask = json!({"at": at, "pad": pad});
        accepted.push(client.begin("asleep.ask", &ask).await.unwrap());
    }
    // What expects no answer is taken a little longer, then dropped.
    for _ in 0..30 {
        client
            .notify("asleep.note", &json!({"pad": pad}))
            .await
            .unwrap();
    }
    // The broker takes requests of a connection in order: by now it has taken all of them.
    ok(&client, "job-manager.queue-list", json!({})).await;
    drop(leaver);
    crate::world::stats_until(&client, |stats| stats["router"]["clients"] == 2).await;
    // It wakes: what was accepted is there in order, and the word that a client left is not lost.
    let serving = tokio::spawn(async move {
        let (mut served, mut notes, mut left) = (0, 0, 0);
        loop {
            let request = service.next_request().await;
            match request.topic.as_str() {
                "asleep.leave" => {}
                "asleep.note" => notes += 1,
                "asleep.ask" => {
                    assert_eq!(body(&request.payload)["at"], served);
                    service.respond(&request, &json!({}));
                    served += 1;
                }
                "asleep.disconnect" => left += 1,
                "asleep.quit" => {
                    service.respond(&request, &json!({}));
                    return (service, served, notes, left);
                }
                other => panic!("{other}"),
            }
        }
    });
    let mut answered = 0;
    for reply in accepted {
        match soon(reply.json()).await {
            Ok(_) => answered += 1,
            Err(error) => {
                assert_eq!(error.errnum, errno::EAGAIN);
                assert_eq!(
                    error.text,
                    "4 MiB of requests of this connection wait for service asleep: try again later"
                );
                refused += 1;
            }
        }
    }
    ok(&client, "asleep.quit", json!({})).await;
    let (mut service, served, notes, left) = soon(serving).await.unwrap();
    assert_eq!((answered, answered + refused, left), (served, 80, 1));
    assert!(
        (40..60).contains(&served),
        "{served} of 100 kB each: 4 MiB, the window, and what the kernel holds"
    );
    assert!(
        (5..25).contains(&notes),
        "{notes} of 100 kB each: 1 MiB more"
    );
    let dropped = int(&stats(&client).await["router"], "dropped");
    assert_eq!(dropped, 30 - notes);
    // And it is served again.
    let call = client.begin("asleep.ask", &json!({})).await.unwrap();
    let request = service.next_request().await;
    service.respond(&request, &json!({}));
    soon(call.json()).await.unwrap();
}

/// job-info's case: journal and requests on one connection that is not read. The journal is paused and not lost, requests are refused beyond
/// the bound, and everything goes on when it reads again.
#[tokio::test]
async fn invariant_7_journal_and_requests_on_one_connection_do_not_starve_each_other() {
    let world = World::new().await;
    let mut service = Peer::service(&world, "job-list").await;
    let stream = service.open("job-manager.events", &json!({}));
    service.response(stream).await;
    let client = world.client().await;
    let (id, first) = submit(&client).await;
    let seq = flood(&client, id, 900).await;
    let pad = "x".repeat(100_000);
    let mut replies = Vec::new();
    for at in 0..80 {
        replies.push(
            client
                .begin("job-list.list", &json!({"at": at, "pad": pad}))
                .await
                .unwrap(),
        );
    }
    ok(&client, "job-manager.queue-list", json!({})).await;
    let (mut next, mut served, mut marked) = (first - 3, 0, 0);
    while next <= seq || served < 40 {
        match service.next().await.unwrap() {
            Message::Request(request) => {
                assert!(marked.max(next - 1) >= seq, "{next}, marked {marked}");
                assert_eq!(body(&request.payload)["at"], served);
                service.respond(&request, &json!({}));
                served += 1;
            }
            Message::Response(response) => {
                let said = body(&response.payload);
                marked = said["mark"].as_u64().unwrap_or(marked);
                for entry in said["events"].as_array().unwrap_or(&Vec::new()) {
                    assert_eq!(int(entry, "seq"), next);
                    next += 1;
                }
            }
            other => panic!("{other:?}"),
        }
    }
    let mut refused = 0;
    for reply in replies {
        if let Err(error) = soon(reply.json()).await {
            assert_eq!(error.errnum, errno::EAGAIN);
            refused += 1;
        }
    }
    assert_eq!(served + refused, 80);
    let (_, seq) = submit(&client).await;
    let batch = service.response(stream).await;
    assert_eq!(body(&batch.payload)["seq"], json!(seq));
}

/// A journal batch on its way to a service is no reason to refuse requests.
#[tokio::test]
async fn a_large_batch_on_its_way_makes_nobodys_request_fail() {
    let world = World::new().await;
    let mut service = Peer::service(&world, "job-list").await;
    let stream = service.open("job-manager.events", &json!({}));
    service.response(stream).await;
    let client = world.client().await;
    let (id, first) = submit(&client).await;
    service.response(stream).await;
    // One batch of up to 6 MB, given out while the queue was empty.
    let seq = flood(&client, id, 100).await;
    let reply = client.begin("job-list.list", &json!({})).await.unwrap();
    let mut next = first + 1;
    loop {
        match service.next().await.unwrap() {
            Message::Request(request) => {
                service.respond(&request, &json!({}));
                break;
            }
            Message::Response(response) => {
                for entry in body(&response.payload)["events"]
                    .as_array()
                    .unwrap_or(&Vec::new())
                {
                    assert_eq!(int(entry, "seq"), next);
                    next += 1;
                }
            }
            other => panic!("{other:?}"),
        }
    }
    soon(reply.json()).await.unwrap();
    assert!(next - 1 <= seq);
}
