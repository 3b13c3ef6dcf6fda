//! Decide: a request against the state gives events or a refusal. One file a family of requests; roles and topics are in
//! `protocol::method`.

pub(crate) mod amount;
pub(crate) mod dispatch;
mod history;
mod kill;
mod list;
pub(crate) mod memo;
mod prioritize;
mod purge;
mod queue;
mod raise;
mod resource;
pub(crate) mod shutdown;
mod status;
pub(crate) mod submit;
mod urgency;
pub(crate) mod wait;

use bytes::Bytes;
use job::JobId;
use protocol::method::{Method, Role, find};
use serde::Deserialize;
use wire::{ROLE_OWNER, ROLE_USER, errno, parse_json};

use crate::action::{Action, Refusal};
use crate::input::Call;
use crate::manager::Manager;
use crate::no_space::WithoutRoom;
use crate::pending::{HELD_MADE_MAX, HELD_MAX};
use crate::write::Object;

/// What a decided request is answered with.
#[derive(Debug)]
#[must_use]
pub(crate) enum Answer {
    /// No payload.
    Empty,
    /// JSON.
    Json(Bytes),
    /// Several, then the end of the stream.
    Stream(Vec<Bytes>),
    /// Whoever keeps the token answers.
    Later,
}

/// Reads the payload of a request.
/// # Errors
/// EPROTO without a text, as Flux answers.
pub(crate) fn parse<'a, T: Deserialize<'a>>(call: &'a Call) -> Result<T, Refusal> {
    let payload = call
        .payload
        .as_deref()
        .ok_or(Refusal::bare(errno::EPROTO))?;
    parse_json(payload).map_err(|_| Refusal::bare(errno::EPROTO))
}

/// As [`parse`], where no payload is as good as `{}`.
pub(crate) fn parse_or_default<'a, T: Deserialize<'a> + Default>(
    call: &'a Call,
) -> Result<T, Refusal> {
    if call.payload.is_none() {
        Ok(T::default())
    } else {
        parse(call)
    }
}

/// Engines come and go whatever the load, and so may the instance: they are few, and what they are sent is bounded by the jobs.
fn is_greeting(method: Method) -> bool {
    matches!(
        method,
        Method::SchedHello
            | Method::SchedReady
            | Method::ExecHello
            | Method::ResourceAnnounce
            | Method::ResourceEvent
            | Method::Disconnect
            | Method::Shutdown
            | Method::ShutdownCancel
    )
}

/// What may make a message for every job.
fn is_for_many(method: Method) -> bool {
    matches!(
        method,
        Method::Raiseall | Method::Killall | Method::Priority | Method::Prioritize
    )
}

impl Manager {
    /// Decides a request and answers it.
    pub(crate) fn request(&mut self, call: Call) {
        self.stats.requests += 1;
        let token = call.token;
        let found = find(call.topic.as_str());
        if let Some(text) = self.too_much_waits(&call, found.map(|(method, _)| method)) {
            if !call.noresponse {
                let result = Err(Refusal::new(errno::EAGAIN, text));
                self.turn.at_once.push(Action::Respond {
                    token,
                    result,
                    last: true,
                });
            }
            return;
        }
        let decided = self.decide(&call, found);
        if call.noresponse {
            return;
        }
        let without_room = WithoutRoom::of(found.map(|(method, _)| method), &decided);
        match decided {
            Ok(Answer::Empty) => self.respond_or(token, Ok(None), without_room),
            Ok(Answer::Json(payload)) => self.respond_or(token, Ok(Some(payload)), without_room),
            Ok(Answer::Later) => {}
            Ok(Answer::Stream(payloads)) => {
                for payload in payloads {
                    self.effect(Action::Respond {
                        token,
                        result: Ok(Some(payload)),
                        last: false,
                    });
                }
                self.respond(token, Err(Refusal::bare(errno::ENODATA)));
            }
            Err(refusal) => self.respond_or(token, Err(refusal), without_room),
        }
    }

    /// Why nothing more is decided before the disk has caught up. What one request makes for many jobs stands in the way of others like
    /// it, and of requests that expect no answer, which nothing else would count; not in the way of the rest.
    fn too_much_waits(&self, call: &Call, method: Option<Method>) -> Option<&'static str> {
        if method.is_some_and(is_greeting) {
            None
        } else if self.pending.answers() >= HELD_MAX {
            Some("too many answers wait for the disk: try again")
        } else if self.pending.made() >= HELD_MADE_MAX
            && (call.noresponse || method.is_some_and(is_for_many))
        {
            Some("too many messages wait for the disk: try again")
        } else {
            None
        }
    }

    fn decide(&mut self, call: &Call, found: Option<(Method, Role)>) -> Result<Answer, Refusal> {
        let Some((method, role)) = found else {
            let text = format!("Unknown service method '{}'", call.topic);
            return Err(Refusal::new(errno::ENOSYS, text));
        };
        match role {
            Role::Owner if !call.cred.is_owner() => {
                return Err(Refusal::new(
                    errno::EPERM,
                    "Request requires owner credentials",
                ));
            }
            Role::User if call.cred.rolemask & (ROLE_OWNER | ROLE_USER) == 0 => {
                return Err(Refusal::new(
                    errno::EPERM,
                    "Request rejected due to insufficient privilege",
                ));
            }
            Role::Owner | Role::User => {}
        }
        match method {
            Method::Submit => self.submit(call),
            Method::IngestGetinfo => self.ingest_getinfo(),
            Method::Urgency => self.urgency(call),
            Method::Priority => self.priorities(call),
            Method::Prioritize => self.prioritize(call),
            Method::Raise => self.raise(call),
            Method::Raiseall => self.raiseall(call),
            Method::Kill => self.kill(call),
            Method::Killall => self.killall(call),
            Method::Memo => self.memo(call),
            Method::Wait => self.wait(call),
            Method::List => self.list(call),
            Method::Getinfo => self.getinfo(call),
            Method::HistoryGet => self.history_get(call),
            Method::QueueList => self.queue_list(),
            Method::QueueStatus => self.queue_status(call),
            Method::QueueEnable => self.queue_enable(call),
            Method::QueueStart => self.queue_start(call),
            Method::Idle => self.idle(call),
            Method::Drain => self.drain(call),
            Method::AllocQuery => self.alloc_query(),
            Method::ResourceStatus => self.resource_status(),
            Method::ResourceAnnounce => self.resource_announce(call),
            Method::ResourceEvent => self.resource_event(call),
            Method::Dispatch => self.dispatch(call),
            Method::Shutdown => self.shut_down(call),
            Method::ShutdownCancel => self.cancel_shutdown(call),
            Method::StatsGet => self.stats_get(),
            Method::Purge => self.purge(call),
            Method::PurgeId => self.purge_id(call),
            Method::SchedHello => self.sched_hello(call),
            Method::SchedReady => self.sched_ready(call),
            Method::ExecHello => self.exec_hello(call),
            Method::Disconnect => {
                self.disconnect(call.sender);
                Ok(Answer::Empty)
            }
        }
    }

    /// `{"seq":S}`: what a changing request answers that has nothing else to say.
    pub(crate) fn seq_answer(&self) -> Answer {
        Answer::Json(Object::new(0).number("seq", self.seq.0).end())
    }

    /// Why a job is not among the active ones: `inactive` if it was once, else `unknown`.
    pub(crate) fn absent(
        &self,
        id: JobId,
        errnum: u32,
        inactive: &'static str,
        unknown: &'static str,
    ) -> Refusal {
        Refusal::new(
            errnum,
            if self.known.contains(id) {
                inactive
            } else {
                unknown
            },
        )
    }
}
