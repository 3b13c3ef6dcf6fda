//! `job-manager.resource-announce`, `resource-event`: what the engine tells of its nodes. Only what changes something is posted.
//!
//! That the asking connection holds the service name `resource` is the shell's to see.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use job::resources::{DRAIN_REASON_BYTES_MAX, Define};
use job::{Idset, ResourceEvent};
use protocol::resource::{AnnounceRequest, EventRequest};
use wire::errno;

use crate::action::Refusal;
use crate::decide::{Answer, amount, parse};
use crate::input::Call;
use crate::manager::Manager;
use crate::write::Object;

impl Manager {
    /// `{R, pools?, up}` → `{seq, before?, drained}`: what differs from what is known is posted, in one commit.
    pub(crate) fn resource_announce(&mut self, call: &Call) -> Result<Answer, Refusal> {
        let request: AnnounceRequest<'_> = parse(call)?;
        let mut pools = BTreeMap::new();
        for (name, text) in request.pools.unwrap_or_default() {
            let ranks = idset(&format!("pools.{name}"), &text)?;
            pools.insert(name, ranks);
        }
        let define = Define::new(request.r.get().as_bytes(), pools).map_err(|error| {
            let text = error.to_string();
            Refusal::new(
                errno::EINVAL,
                amount::cut(&text, WRONG_BYTES_MAX).to_owned(),
            )
        })?;
        let up = idset("up", &request.up)?;
        within("up", &up, define.ranks())?;
        let is_new = self.nodes.define().is_none_or(|known| **known != define);
        if is_new || up != *self.nodes.up() {
            self.may_change()?;
        }
        let names = |define: &Define| define.nodelist(define.ranks()).to_string();
        let before = self.nodes.define().map(|known| names(known));
        let before = before.filter(|before| *before != names(&define));
        if is_new {
            self.post_nodes(&ResourceEvent::Define(Arc::new(define)));
        }
        let (came, gone) = (
            up.difference(self.nodes.up()),
            self.nodes.up().difference(&up),
        );
        if !came.is_empty() {
            self.post_nodes(&ResourceEvent::Online { idset: came });
        }
        if !gone.is_empty() {
            let reason = None;
            self.post_nodes(&ResourceEvent::Offline {
                idset: gone,
                reason,
            });
        }
        let drained = self.nodes.drained_json();
        let mut answer = Object::new(drained.len()).number("seq", self.seq.0);
        if let Some(before) = &before {
            answer = answer.value("before", before);
        }
        Ok(Answer::Json(answer.raw("drained", &drained).end()))
    }

    /// `{name, idset, reason?, overwrite?, userid?}` → `{seq}`: the nodes that are so already are left out; nothing is posted for none.
    pub(crate) fn resource_event(&mut self, call: &Call) -> Result<Answer, Refusal> {
        let request: EventRequest<'_> = parse(call)?;
        let asked = idset("idset", &request.idset)?;
        if self.nodes.define().is_none() {
            return Err(Refusal::new(errno::EINVAL, "no nodes were announced"));
        }
        within("idset", &asked, self.nodes.ranks())?;
        let reason = request.reason.map(Cow::into_owned);
        let given = reason.as_deref().unwrap_or_default();
        amount::text("reason", given, DRAIN_REASON_BYTES_MAX)?;
        let drained: Idset = self.nodes.drained().map(|(rank, _)| rank).collect();
        let userid = request.userid;
        let (idset, event): (Idset, fn(Idset, Said) -> ResourceEvent) = match &*request.name {
            "online" => (asked.difference(self.nodes.up()), |idset, _| {
                ResourceEvent::Online { idset }
            }),
            "offline" => (asked.intersection(self.nodes.up()), |idset, said| {
                ResourceEvent::Offline {
                    idset,
                    reason: said.reason,
                }
            }),
            "drain" => (
                self.to_drain(&asked, &drained, request.overwrite, given)?,
                |idset, said| ResourceEvent::Drain {
                    idset,
                    reason: said.reason.unwrap_or_default(),
                    overwrite: said.overwrite,
                    userid: said.userid,
                },
            ),
            "undrain" => (asked.intersection(&drained), |idset, said| {
                ResourceEvent::Undrain {
                    idset,
                    userid: said.userid,
                }
            }),
            other => {
                return Err(Refusal::new(
                    errno::EINVAL,
                    format!("name: expected online, offline, drain or undrain, got {other:?}"),
                ));
            }
        };
        if !idset.is_empty() {
            self.may_change()?;
            let said = Said {
                reason,
                overwrite: u8::try_from(request.overwrite).unwrap_or_default(),
                userid,
            };
            self.post_nodes(&event(idset, said));
        }
        Ok(self.seq_answer())
    }

    /// The nodes for which draining changes something.
    fn to_drain(
        &self,
        asked: &Idset,
        drained: &Idset,
        overwrite: i64,
        reason: &str,
    ) -> Result<Idset, Refusal> {
        match overwrite {
            0 => Ok(asked.difference(drained)),
            1 => {
                let other = asked.iter().filter(|rank| {
                    let drain = self.nodes.drain_of(*rank);
                    drain.is_none_or(|drain| &*drain.reason != reason)
                });
                Ok(other.collect())
            }
            2 => Ok(asked.clone()),
            other => Err(Refusal::new(
                errno::EINVAL,
                format!("overwrite: expected 0, 1 or 2, got {other}"),
            )),
        }
    }
}

/// What came with an event beside its nodes.
struct Said {
    reason: Option<String>,
    overwrite: u8,
    userid: Option<u32>,
}

fn idset(field: &str, text: &str) -> Result<Idset, Refusal> {
    text.parse()
        .map_err(|error| Refusal::new(errno::EINVAL, format!("{field}: {error}")))
}

fn within(field: &str, asked: &Idset, ranks: &Idset) -> Result<(), Refusal> {
    if asked.is_subset(ranks) {
        return Ok(());
    }
    let shown = |idset: &Idset| amount::cut(&idset.to_string(), SHOWN_BYTES_MAX).to_owned();
    Err(Refusal::new(
        errno::EINVAL,
        format!(
            "{field}: {:?}: expected ranks of the nodes that were announced, {:?}",
            shown(asked),
            shown(ranks)
        ),
    ))
}

/// So much is said of what is wrong with a set of nodes: it may repeat what was sent.
const WRONG_BYTES_MAX: usize = 512;
/// So much of an idset is repeated in a refusal.
const SHOWN_BYTES_MAX: usize = 64;
