//! One connection to the job-manager, from the handshake to the last answer.
//!
//! ```text
//!  service.add ×3 ─▶ sched-hello … 61 ─▶ exec-hello ─▶ (resource-announce) ─▶ sched-ready ─▶ ready
//! ```
//! A step that is refused ends the connection; it is tried again like one that was lost. The announcement of the nodes is no step of
//! this: see `resources`.

use std::collections::HashMap;

use anyhow::Context as _;
use bytes::Bytes;
use job::JobId;
use rpc::client::{Connection, Receiver, Sender};
use serde_json::json;
use tracing::debug;
use wire::{Flags, Message, Request, Response, errno, json_payload};

/// The services we are.
pub(crate) const SERVICES: [&str; 3] = ["sched", "job-exec", "resource"];

/// Matchtags of the handshake: one for each service, then these.
const TAG_SCHED_HELLO: u32 = 11;
const TAG_EXEC_HELLO: u32 = 12;
const TAG_SCHED_READY: u32 = 13;

/// Where the handshake is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// So many services are ours.
    Adding(usize),
    SchedHello,
    ExecHello,
    /// The nodes are announced.
    Announcing,
    SchedReady,
    Ready,
}

/// What a response of the handshake brings.
#[derive(Debug)]
pub(crate) enum Progress {
    /// A job that holds resources.
    Held(Bytes),
    /// No more of them come. Nothing was asked for yet.
    AllHeld,
    /// A step is done.
    Step,
    /// The executor is known: [`Session::ready`] is next, once the nodes are.
    Known,
    /// Everything is set up.
    Ready,
}

/// The connection.
#[derive(Debug)]
pub(crate) struct Session {
    sender: Sender,
    step: Step,
    key: String,
    limit: u32,
    /// Open `sched.alloc` requests.
    pub(crate) allocs: HashMap<JobId, Request>,
    /// Open `job-exec.start` requests.
    pub(crate) starts: HashMap<JobId, Request>,
}

impl Session {
    /// Begins the handshake.
    pub(crate) fn begin(
        connection: Connection,
        key: String,
        limit: u32,
    ) -> anyhow::Result<(Session, Receiver)> {
        let (sender, receiver) = connection.split();
        let session = Session {
            sender,
            step: Step::Adding(0),
            key,
            limit,
            allocs: HashMap::new(),
            starts: HashMap::new(),
        };
        session.add_service(0)?;
        Ok((session, receiver))
    }

    fn ask(
        &self,
        topic: &'static str,
        payload: Option<Bytes>,
        tag: u32,
        flags: Flags,
    ) -> anyhow::Result<()> {
        let mut request = Request::new(topic, payload, tag);
        request.flags = flags;
        self.send(Message::Request(request))
    }

    fn add_service(&self, at: usize) -> anyhow::Result<()> {
        let payload = json_payload(&json!({"service": SERVICES[at], "key": self.key}));
        self.ask(
            "service.add",
            Some(payload),
            u32::try_from(at).unwrap_or(0) + 1,
            Flags::NONE,
        )
    }

    /// Asks for jobs, if that was not done yet.
    pub(crate) fn ready(&mut self) -> anyhow::Result<()> {
        if self.step != Step::Announcing {
            return Ok(());
        }
        self.step = Step::SchedReady;
        self.offer(self.limit)
    }

    /// So many jobs may be offered at a time from now on.
    pub(crate) fn set_limit(&mut self, limit: u32) -> anyhow::Result<()> {
        let is_ready = matches!(self.step, Step::SchedReady | Step::Ready);
        if std::mem::replace(&mut self.limit, limit) == limit || !is_ready {
            return Ok(());
        }
        self.offer(limit)
    }

    fn offer(&self, limit: u32) -> anyhow::Result<()> {
        let payload = json_payload(&json!({"mode": "limited", "limit": limit}));
        self.ask(
            "job-manager.sched-ready",
            Some(payload),
            TAG_SCHED_READY,
            Flags::NONE,
        )
    }

    /// Sends a message, which must not wait.
    pub(crate) fn send(&self, message: Message) -> anyhow::Result<()> {
        self.sender
            .send_now(message)
            .context("failed to answer the job-manager")
    }

    /// Answers a request.
    pub(crate) fn answer(&self, response: Response) -> anyhow::Result<()> {
        self.send(Message::Response(response))
    }

    /// Takes a response of the handshake in.
    pub(crate) fn handle(&mut self, response: Response) -> anyhow::Result<Progress> {
        let step = self.step;
        let ends_hello = step == Step::SchedHello && response.errnum == errno::ENODATA;
        if response.errnum != 0 && !ends_hello {
            let text = response.payload.as_deref().and_then(wire::text_of);
            let what = match step {
                Step::Adding(at) => format!("{} of {}", response.topic.as_str(), SERVICES[at]),
                _ => response.topic.as_str().to_owned(),
            };
            anyhow::bail!(
                "{what} was refused: {}",
                text.unwrap_or_else(|| errno::text(response.errnum))
            );
        }
        match step {
            Step::Adding(at) if at + 1 < SERVICES.len() => {
                self.step = Step::Adding(at + 1);
                self.add_service(at + 1)?;
            }
            Step::Adding(_) => {
                self.step = Step::SchedHello;
                self.ask(
                    "job-manager.sched-hello",
                    Some(json_payload(&json!({}))),
                    TAG_SCHED_HELLO,
                    Flags::STREAMING,
                )?;
            }
            Step::SchedHello if !ends_hello => {
                return Ok(Progress::Held(
                    response
                        .payload
                        .context("a sched-hello answer has no payload")?,
                ));
            }
            Step::SchedHello => {
                self.step = Step::ExecHello;
                let payload = json_payload(&json!({"service": "job-exec"}));
                self.ask(
                    "job-manager.exec-hello",
                    Some(payload),
                    TAG_EXEC_HELLO,
                    Flags::NONE,
                )?;
                return Ok(Progress::AllHeld);
            }
            Step::ExecHello => {
                self.step = Step::Announcing;
                return Ok(Progress::Known);
            }
            Step::SchedReady => {
                self.step = Step::Ready;
                return Ok(Progress::Ready);
            }
            Step::Announcing | Step::Ready => debug!(
                topic = response.topic.as_str(),
                "a response nobody waits for"
            ),
        }
        Ok(Progress::Step)
    }
}
