//! What is asked of the services, one method after the other. Who may ask what is decided here.

use sched::{Action, Input};
use serde_json::json;
use tracing::warn;
use wire::{Request, errno, json_payload, parse_json};

use crate::engine::requests::{self, Expiration};
use crate::engine::serve::{Engine, now};
use crate::messages::ToShepherd;

impl Engine {
    pub(super) fn request(&mut self, request: Request) -> anyhow::Result<()> {
        let (service, method) = (request.topic.service(), request.topic.method());
        match (service, method) {
            ("sched" | "job-exec" | "resource", "ping") => match requests::pong(&request) {
                Some(payload) => return self.respond(&request, Some(payload)),
                None => return self.refuse(&request, errno::EPROTO, None),
            },
            ("resource", "sched-status") | ("sched", "resource-status") => {
                let payload = requests::sched_status(&self.sched);
                return self.respond(&request, Some(payload));
            }
            ("resource", "status") => {
                let payload = self.resource_status();
                return self.respond(&request, Some(payload));
            }
            ("resource", "drain" | "undrain") => return self.drain(request),
            ("sched" | "job-exec" | "resource", "disconnect" | "pause" | "resume") => return Ok(()),
            (service, "stdin") if requests::shell_job(service).is_some() => {
                return self.stdin(request);
            }
            _ => {}
        }
        let known = match service {
            "sched" => [
                "alloc",
                "cancel",
                "prioritize",
                "free",
                "expiration",
                "stats-get",
            ]
            .contains(&method),
            "job-exec" => ["start", "kill", "cancel", "expiration", "stats-get"].contains(&method),
            _ => false,
        };
        if !known {
            return match &self.session {
                Some(session) if request.expects_response() => {
                    session.answer(request.unknown_method())
                }
                _ => Ok(()),
            };
        }
        if method != "stats-get" && !requests::is_managers(&request) {
            let text = format!(
                "only the job-manager may ask for {}; use the methods of job-manager",
                request.topic.as_str()
            );
            return self.refuse(&request, errno::EPERM, Some(&text));
        }
        if !request.cred.is_owner() {
            return self.refuse(
                &request,
                errno::EPERM,
                Some("Request requires owner credentials"),
            );
        }
        let done = if service == "sched" {
            self.sched_request(&request)
        } else {
            self.exec_request(&request)
        };
        match done {
            Ok(()) => Ok(()),
            Err(Failed::Payload(reason)) => {
                warn!(
                    topic = request.topic.as_str(),
                    "payload not understood: {reason}"
                );
                self.not_understood(&request, &reason)
            }
            Err(Failed::Link(reason)) => Err(reason),
        }
    }

    /// A request that cannot be read. The job-manager expects no error to what it asks by id (matchtag 0): a job that it offers or starts
    /// would wait for ever, so the job is answered for in the terms of the protocol.
    fn not_understood(
        &mut self,
        request: &Request,
        reason: &wire::PayloadError,
    ) -> anyhow::Result<()> {
        let id = request.payload.as_deref().and_then(requests::id_of_broken);
        let note = format!("what the job-manager says of the job cannot be read: {reason}");
        let Some(session) = &self.session else {
            return Ok(());
        };
        match (request.topic.as_str(), id) {
            ("sched.alloc", Some(id)) => {
                session.answer(request.respond(Some(requests::denied(id, &note))))
            }
            ("job-exec.start", Some(id)) => {
                if let Some(session) = &mut self.session {
                    session.starts.insert(id, slim(request));
                }
                let mut out = Vec::new();
                self.exec.not_startable(id, &note, &mut out);
                self.perform(out)
            }
            _ => self.refuse(request, errno::EPROTO, None),
        }
    }

    fn sched_request(&mut self, request: &Request) -> Result<(), Failed> {
        let payload = request.payload.as_deref().unwrap_or_default();
        match request.topic.method() {
            "alloc" => {
                let alloc: protocol::sched::AllocRequest<'_> = parse_json(payload)?;
                let id = alloc.id;
                if let Some(session) = &mut self.session {
                    session.allocs.insert(id, slim(request));
                }
                let asked = job::Jobspec::parse(alloc.jobspec.get().as_bytes())
                    .map_err(|reason| reason.to_string())
                    .and_then(|jobspec| {
                        sched::Request::from_jobspec(&jobspec).map_err(|reason| reason.to_string())
                    });
                match asked {
                    Ok(asked) => {
                        let input = Input::Alloc {
                            id,
                            priority: alloc.priority,
                            request: asked,
                        };
                        self.sched.handle(now(), input, &mut self.actions);
                    }
                    Err(note) => self.actions.push(Action::Denied { id, note }),
                }
            }
            "cancel" => {
                let cancel: protocol::sched::CancelRequest = parse_json(payload)?;
                self.sched
                    .handle(now(), Input::Cancel(cancel.id), &mut self.actions);
            }
            "prioritize" => {
                let change: protocol::sched::PrioritizeRequest = parse_json(payload)?;
                self.sched
                    .handle(now(), Input::Prioritize(change.jobs), &mut self.actions);
            }
            "free" => {
                let free: protocol::sched::FreeRequest<'_> = parse_json(payload)?;
                let mut out = Vec::new();
                // What still has processes is not free, whatever is said: it will be when they are gone.
                if self.exec.freed(free.id, &mut out) {
                    self.sched
                        .handle(now(), Input::Free(free.id), &mut self.actions);
                }
                self.perform(out)?;
            }
            "expiration" => {
                let change: Expiration = parse_json(payload)?;
                let end_s = if change.expiration > 0.0 {
                    change.expiration
                } else {
                    f64::INFINITY
                };
                self.sched.handle(
                    now(),
                    Input::Expiration {
                        id: change.id,
                        end_s,
                    },
                    &mut self.actions,
                );
                self.respond(request, None)?;
            }
            _ => {
                let counters = self.sched.counters();
                let payload = json_payload(&json!({
                    "waiting": self.sched.waiting(), "holding": self.sched.holding(), "allocated": counters.allocated,
                    "backfilled": counters.backfilled, "denied": counters.denied, "passes": counters.passes,
                    "reorders": counters.reorders, "limit": self.limit
                }));
                self.respond(request, Some(payload))?;
            }
        }
        Ok(self.act()?)
    }

    fn exec_request(&mut self, request: &Request) -> Result<(), Failed> {
        let payload = request.payload.as_deref().unwrap_or_default();
        let mut out = Vec::new();
        match request.topic.method() {
            "start" => {
                let start: protocol::exec::StartRequest<'_> = parse_json(payload)?;
                if let Some(session) = &mut self.session {
                    session.starts.insert(start.id, slim(request));
                }
                self.exec.start(&start, &mut out);
                self.tell_soon();
            }
            "kill" => {
                let kill: protocol::exec::KillRequest = parse_json(payload)?;
                self.exec.tell(
                    kill.id,
                    &ToShepherd::Signal {
                        signum: kill.signum,
                    },
                    &mut out,
                );
            }
            "cancel" => {
                let cancel: protocol::exec::CancelRequest<'_> = parse_json(payload)?;
                self.exec.cancel(cancel.id, &cancel.kind, &mut out);
            }
            "expiration" => {
                let change: Expiration = parse_json(payload)?;
                self.exec.tell(
                    change.id,
                    &ToShepherd::Expiration {
                        expiration: change.expiration,
                    },
                    &mut out,
                );
                if request.expects_response() {
                    self.respond(request, None)?;
                }
            }
            _ => {
                let (running, started, finished) = self.exec.counts();
                let payload = json_payload(
                    &json!({"running": running, "started": started, "finished": finished}),
                );
                self.respond(request, Some(payload))?;
            }
        }
        Ok(self.perform(out)?)
    }
}

/// A request without its payload, which is not needed for the answers.
fn slim(request: &Request) -> Request {
    Request {
        payload: None,
        ..request.clone()
    }
}

/// Why a request was not served.
enum Failed {
    Payload(wire::PayloadError),
    Link(anyhow::Error),
}

impl From<wire::PayloadError> for Failed {
    fn from(reason: wire::PayloadError) -> Failed {
        Failed::Payload(reason)
    }
}

impl From<anyhow::Error> for Failed {
    fn from(reason: anyhow::Error) -> Failed {
        Failed::Link(reason)
    }
}
