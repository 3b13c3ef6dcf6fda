//! What goes to the engines: requests in order, starts with their `J`; and what becomes of a start that cannot be sent.

use crate::engines::{QUEUE_BYTES_MAX, Start};
use crate::lookup;
use crate::reads::Lane;
use crate::shell::{Found, NotStarted, Shell};
use job::JobId;
use manager::{Input, Report, Sender};
use protocol::exec::{ExceptionData, ReleaseData};
use router::PeerId;
use serde::{Deserialize, Serialize};
use store::Reader;
use wire::{FRAME_LEN_MAX_DEFAULT, Message, Request, json_payload, nul_terminated};

/// The longest start request, so that it fits a frame of any engine.
const START_LEN_MAX: usize = FRAME_LEN_MAX_DEFAULT - (64 << 10);

impl Shell {
    /// A request of the manager, after all that waits for the same engine.
    pub(crate) fn send_to_engine(&mut self, to: PeerId, request: Request) {
        if !self.conns.is_open(to) {
            // Its next hello asks for it again.
        } else if self.engines.waits(to) || self.router.is_paused(to) {
            let room = self.engines.push(to, request);
            self.close_if_full(to, room);
        } else {
            self.transmit(to, wire::to_frame(&Message::Request(request)));
        }
    }

    /// A start request, likewise; its `J` is read first.
    pub(crate) fn queue_start(&mut self, to: PeerId, start: Start) {
        if self.conns.is_open(to) {
            let room = self.engines.push_start(to, start);
            self.close_if_full(to, room);
            self.read_starts(to);
        }
    }

    fn close_if_full(&mut self, to: PeerId, room: bool) {
        if !room {
            tracing::warn!(
                peer = to.0,
                bytes = QUEUE_BYTES_MAX,
                "the engine does not read and too much waits for it: closing its connection"
            );
            self.engines.forget(to);
            self.conns.close(to);
        }
    }

    /// Sends what waits for an engine and may go.
    pub(crate) fn pump(&mut self, to: PeerId) {
        while self.engines.waits(to) && !self.router.is_paused(to) {
            let Some(request) = self.engines.pop(to) else {
                break;
            };
            self.transmit(to, wire::to_frame(&Message::Request(request)));
        }
        self.read_starts(to);
    }

    /// Has the `J` of the next starts read, unless the engine does not read what it has.
    fn read_starts(&mut self, to: PeerId) {
        while !self.router.is_paused(to)
            && let Some((number, start)) = self.engines.next_unread(to)
        {
            let hollow = self.engine_request(start.topic.clone(), bytes::Bytes::new(), false);
            let asked = self.reads.ask(Lane::Start, to, move |reader| Found::Start {
                to,
                number,
                request: with_j(reader, &start, hollow),
            });
            if !asked {
                // There is room for more reads than one engine may have: the thread has ended.
                tracing::error!("jobs cannot be started: the thread that reads for them has ended");
                self.engines.forget(to);
                self.conns.close(to);
            }
        }
    }

    /// A start request is there, or cannot be made.
    pub(crate) fn take_start(
        &mut self,
        to: PeerId,
        number: u64,
        request: Result<Request, NotStarted>,
    ) {
        match request {
            Ok(request) => self.engines.give_back(to, number, Some(request)),
            Err(not_started) => {
                self.engines.give_back(to, number, None);
                self.report_not_started(to, not_started);
            }
        }
        self.pump(to);
    }

    /// The engine never heard of this job, so its end is reported in the engine's place: an exception, and all resources released.
    fn report_not_started(&mut self, to: PeerId, not_started: NotStarted) {
        let NotStarted { id, topic, why } = not_started;
        tracing::error!(job = %id, why, "cannot be started");
        let note = format!("the job cannot be started: {why}");
        let exception = ExceptionData {
            severity: 0,
            kind: "exec".into(),
            note: Some(note.into()),
        };
        let release = ReleaseData {
            ranks: "all".into(),
            last: true,
        };
        let reports = vec![
            report(to, &topic, id, "exception", exception),
            report(to, &topic, id, "release", release),
        ];
        self.handle(Input::ServiceResponses(reports));
    }
}

/// `{id, type, data}`, as an exec service answers.
fn report(to: PeerId, topic: &wire::Topic, id: JobId, kind: &str, data: impl Serialize) -> Report {
    #[derive(Serialize)]
    struct Said<'a, T> {
        id: JobId,
        #[serde(rename = "type")]
        kind: &'a str,
        data: T,
    }
    Report {
        from: Sender(to.0),
        topic: topic.clone(),
        payload: Some(json_payload(&Said { id, kind, data })),
        errnum: 0,
    }
}

/// The start request, made on the read thread. A job that is only to be found again needs no `J`.
fn with_j(reader: &Reader, start: &Start, hollow: Request) -> Result<Request, NotStarted> {
    let payload = match lookup::j(reader, start.id) {
        Ok(j) => nul_terminated(&manager::with_j(&start.payload, &j)),
        Err(why) if is_reattach(&start.payload) => {
            tracing::error!(job = %start.id, why, "is sought again without its J");
            nul_terminated(&start.payload)
        }
        Err(why) => return Err(not_started(start, why)),
    };
    if payload.len() > START_LEN_MAX {
        let why = format!(
            "its start request would have {} bytes, at most {START_LEN_MAX} may be",
            payload.len()
        );
        return Err(not_started(start, why));
    }
    Ok(Request {
        payload: Some(payload),
        ..hollow
    })
}

fn not_started(start: &Start, why: String) -> NotStarted {
    NotStarted {
        id: start.id,
        topic: start.topic.clone(),
        why,
    }
}

fn is_reattach(payload: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Start {
        reattach: bool,
    }
    serde_json::from_slice::<Start>(payload).is_ok_and(|start| start.reattach)
}
