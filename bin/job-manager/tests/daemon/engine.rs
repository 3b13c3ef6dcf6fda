//! A scheduler and an executor in one, as a connection: says hello and answers by the book, or as a test wants it.

use crate::peer::{Peer, body, result};
use crate::world::World;
use serde_json::{Value, json};
use std::collections::HashMap;
use wire::{Flags, Request, Response, errno, json_payload};

pub(crate) struct Engine {
    pub(crate) peer: Peer,
    /// What sched-hello told.
    pub(crate) held: Vec<Value>,
    /// Open requests by topic and job.
    open: HashMap<(String, u64), Request>,
    /// Every request that came: topic and job.
    pub(crate) log: Vec<(String, u64)>,
    /// Starts as they came.
    pub(crate) starts: Vec<Value>,
}

pub(crate) fn r() -> Value {
    json!({"version": 1, "execution": {"R_lite": [{"rank": "0", "children": {"core": "0"}}],
           "nodelist": ["node0"], "starttime": 1.0, "expiration": 0.0}})
}

impl Engine {
    /// Takes the names, says both hellos and ready.
    pub(crate) async fn new(world: &World, limit: u32) -> Engine {
        let mut peer = Peer::service(world, "sched").await;
        peer.add_service(world, "job-exec").await;
        let tag = peer.request("job-manager.sched-hello", None, Flags::STREAMING);
        let mut held = Vec::new();
        loop {
            match result(&peer.response(tag).await) {
                Ok(row) => held.push(row),
                Err((errno::ENODATA, _)) => break,
                Err(other) => panic!("{other:?}"),
            }
        }
        let exec = json!({"service": "job-exec"});
        assert_eq!(
            peer.call("job-manager.exec-hello", exec).await,
            Ok(Value::Null)
        );
        let ready = json!({"mode": "limited", "limit": limit});
        peer.call("job-manager.sched-ready", ready).await.unwrap();
        Engine {
            peer,
            held,
            open: HashMap::new(),
            log: Vec::new(),
            starts: Vec::new(),
        }
    }

    /// The next request: its topic and its job (0 for none).
    pub(crate) async fn next(&mut self) -> (String, u64) {
        let request = self.peer.next_request().await;
        let topic = request.topic.as_str().to_owned();
        let asked = body(&request.payload);
        let id = asked["id"].as_u64().unwrap_or(0);
        if topic == "job-exec.start" {
            self.starts.push(asked);
        }
        self.log.push((topic.clone(), id));
        self.open.insert((topic.clone(), id), request);
        (topic, id)
    }

    /// Waits for a certain request, passing over others.
    pub(crate) async fn wait_for(&mut self, topic: &str, id: u64) {
        if self.log.iter().any(|(have, of)| have == topic && *of == id) {
            return;
        }
        while self.next().await != (topic.to_owned(), id) {}
    }

    /// A request as it came.
    pub(crate) fn request(&self, topic: &str, id: u64) -> &Request {
        &self.open[&(topic.to_owned(), id)]
    }

    fn answer(&self, topic: &str, id: u64, payload: &Value) {
        let request = &self.open[&(topic.to_owned(), id)];
        let response: Response = request.respond(Some(json_payload(payload)));
        self.peer.send(response);
    }

    pub(crate) fn grant(&self, id: u64) {
        let payload = json!({"id": id, "type": 0, "R": r(), "annotations": {"sched": {"resource_summary": "rank0/core0"}}});
        self.answer("sched.alloc", id, &payload);
    }

    pub(crate) fn alloc(&self, id: u64, payload: &Value) {
        self.answer("sched.alloc", id, payload);
    }

    pub(crate) fn say(&self, id: u64, kind: &str, data: Value) {
        let payload = json!({"id": id, "type": kind, "data": data});
        self.answer("job-exec.start", id, &payload);
    }

    /// The whole life of a job that was offered.
    pub(crate) async fn run(&mut self, id: u64) {
        self.wait_for("sched.alloc", id).await;
        self.grant(id);
        self.wait_for("job-exec.start", id).await;
        self.say(id, "start", json!({}));
        self.say(
            id,
            "finish",
            json!({"status": 0, "release": {"ranks": "all", "final": true}}),
        );
        self.wait_for("sched.free", id).await;
    }
}
