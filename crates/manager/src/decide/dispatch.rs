//! `job-manager.dispatch`: a child of a parameterized job, with meta values and a payload of its own.
//!
//! The child is its parent's user's; its jobspec is the parent's, `parameterized` taken out, `parent` and `dispatch` put in; its environment the
//! parent's and a variable for each meta value.

use std::collections::BTreeSet;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use job::jobspec::{
    Dispatch, META_KEYS_MAX, META_VALUES_BYTES_MAX, PAYLOAD_BYTES_MAX, Parameterized, Payload,
    is_meta_key, meta_variables,
};
use job::{JobFlags, JobId, Jobspec, State};
use protocol::dispatch::DispatchRequest;
use serde_json::{Map, Value};
use wire::errno;

use crate::action::{Action, Refusal};
use crate::decide::{Answer, amount, parse};
use crate::dispatches::{Dispatching, MADE_BYTES_MAX, MADE_MAX, Template};
use crate::input::Call;
use crate::keys::{Ended, Submission};
use crate::manager::Manager;
use crate::no_space::WithoutRoom;
use crate::unwrap::{unwrap_j, wrap_j};
use crate::write::json;

/// What a parameterized job waits for as long as it is one.
pub(crate) const WAITS_FOR_DISPATCH: &str = "dispatch";
/// So much of a key is repeated in a refusal.
const SHOWN_BYTES_MAX: usize = 64;

impl Manager {
    /// `{id, meta?, payload?, key?}` → `{id, seq, known?}`.
    pub(crate) fn dispatch(&mut self, call: &Call) -> Result<Answer, Refusal> {
        let request: DispatchRequest<'_> = parse(call)?;
        let parent = request.id;
        let meta = request.meta.unwrap_or_default();
        let dispatching = |userid: u32, meta| Dispatching {
            token: (!call.noresponse).then_some(call.token),
            userid,
            meta,
            payload: request.payload.as_deref().map(str::to_owned),
            key: request.key.as_deref().map(str::to_owned),
            bytes: call.payload.as_ref().map_or(0, Bytes::len),
        };
        let rules = match self.rules_of(parent, Some(call)) {
            Ok(rules) => rules,
            Err(refusal) => {
                let userid = request.key.as_ref().and(self.known.user_of(parent));
                let userid = userid.filter(|userid| call.cred.may_act_for(*userid));
                return match userid {
                    Some(userid) if !self.jobs.contains_key(&parent) => {
                        self.dispatched_before(parent, dispatching(userid, meta), refusal)
                    }
                    _ => Err(refusal),
                };
            }
        };
        check_meta(&rules, &meta)?;
        check_payload(rules.payload, request.payload.as_deref())?;
        if request.key.is_none() {
            self.may_submit()?;
        } else {
            self.may_ask_for_key()?;
        }
        let record = self.jobs.get(&parent);
        let userid = record.map_or(call.cred.userid, |record| record.job.userid);
        let dispatching = dispatching(userid, meta);
        if let Some(template) = self.dispatches.template(parent) {
            return self.dispatch_from(parent, &template, dispatching);
        }
        if !self.dispatches.has_room() {
            return Err(Refusal::new(
                errno::EAGAIN,
                "too many dispatches wait for their jobs to be read: try again",
            ));
        }
        if self.dispatches.wait(parent, dispatching) {
            self.effect(Action::ReadJ(parent));
        }
        Ok(Answer::Later)
    }

    /// What a dispatch from this job must be like; `call`: who asks, if that is not settled yet.
    fn rules_of(&self, parent: JobId, call: Option<&Call>) -> Result<Parameterized, Refusal> {
        let Some(record) = self.jobs.get(&parent) else {
            return Err(if self.known.contains(parent) {
                Refusal::new(
                    errno::EINVAL,
                    format!("job {parent} has ended: nothing can be dispatched from it"),
                )
            } else {
                Refusal::new(errno::ENOENT, "unknown job id")
            });
        };
        if call.is_some_and(|call| !call.cred.may_act_for(record.job.userid)) {
            return Err(Refusal::new(
                errno::EPERM,
                "guests can only dispatch from their own jobs",
            ));
        }
        let rules = self
            .parents
            .contains(&parent)
            .then(|| Jobspec::parse(&record.jobspec).ok())
            .flatten()
            .and_then(|jobspec| jobspec.weir?.parameterized);
        let rules = rules.ok_or_else(|| {
            Refusal::new(
                errno::EINVAL,
                format!("job {parent} is not parameterized: nothing can be dispatched from it"),
            )
        })?;
        if record.job.state != State::Depend {
            return Err(Refusal::new(
                errno::EINVAL,
                format!("job {parent} is ending: nothing more can be dispatched from it"),
            ));
        }
        Ok(rules)
    }

    /// What the store said of a parent's `J`.
    pub(crate) fn j_read(&mut self, parent: JobId, j: Result<Bytes, String>) {
        let waiting = self.dispatches.take(parent);
        if waiting.is_empty() {
            return;
        }
        // It may have ended meanwhile.
        let template = self.rules_of(parent, None).and_then(|_| {
            let read = j.and_then(|j| Ok((Arc::new(self.template(parent, &j)?), j.len())));
            let (template, bytes) = read.map_err(|why| {
                let text = format!("job {parent} cannot be dispatched from: {why}");
                Refusal::new(errno::EIO, text)
            })?;
            self.dispatches.keep(parent, &template, bytes);
            Ok((template, bytes))
        });
        let most = template.as_ref().map_or(usize::MAX, |(_, bytes)| {
            MADE_MAX.min(MADE_BYTES_MAX / bytes.max(&1)).max(1)
        });
        for (made, dispatching) in waiting.into_iter().enumerate() {
            if made >= most {
                if self.dispatches.wait(parent, dispatching) {
                    self.effect(Action::ReadJ(parent));
                }
                continue;
            }
            let token = dispatching.token;
            let decided = match &template {
                Ok((template, _)) => self.dispatch_from(parent, template, dispatching),
                Err(refusal) if dispatching.key.is_some() && !self.jobs.contains_key(&parent) => {
                    self.dispatched_before(parent, dispatching, refusal.clone())
                }
                Err(refusal) => Err(refusal.clone()),
            };
            let (Some(token), false) = (token, matches!(decided, Ok(Answer::Later))) else {
                continue;
            };
            // A refusal rests on nothing that is not stored.
            match decided {
                Ok(Answer::Json(answer)) => {
                    self.respond_or(token, Ok(Some(answer)), WithoutRoom::Waits);
                }
                Ok(_) => self.respond_or(token, Ok(None), WithoutRoom::Waits),
                Err(refusal) => self.respond_or(token, Err(refusal), WithoutRoom::Said),
            }
        }
    }

    fn template(&self, parent: JobId, j: &[u8]) -> Result<Template, String> {
        let text = std::str::from_utf8(j).map_err(|error| format!("its J: {error}"))?;
        let unwrapped = unwrap_j(text).map_err(|error| format!("its J: {error}"))?;
        let record = self.jobs.get(&parent).ok_or("it has ended")?;
        Ok(Template {
            userid: record.job.userid,
            urgency: record.job.urgency,
            jobspec: serde_json::from_slice(&unwrapped.jobspec)
                .map_err(|error| format!("its jobspec: {error}"))?,
        })
    }

    /// Makes the child, or has its key looked up.
    fn dispatch_from(
        &mut self,
        parent: JobId,
        template: &Template,
        dispatching: Dispatching,
    ) -> Result<Answer, Refusal> {
        let Dispatching {
            token,
            meta,
            payload,
            key,
            ..
        } = dispatching;
        let child = child_of(&template.jobspec, parent, &meta, payload);
        let (_, stripped) = Jobspec::ingest(&child)
            .map_err(|error| Refusal::new(errno::EINVAL, format!("the dispatched job: {error}")))?;
        // The urgency may have been changed since the parent was read.
        let urgency = self.jobs.get(&parent).map(|record| record.job.urgency);
        let submission = Submission {
            token,
            urgency: urgency.unwrap_or(template.urgency),
            flags: JobFlags::default(),
            j: Bytes::from(wrap_j(template.userid, &child)),
            jobspec: Bytes::copy_from_slice(&stripped),
            parameterized: false,
            ended: None,
        };
        match key {
            Some(key) => self.submit_under_key(template.userid, &key, submission),
            None => {
                self.may_submit()?;
                let answer = self.admit(template.userid, submission, None)?;
                Ok(Answer::Json(json(&answer)))
            }
        }
    }

    /// A dispatch under a key from a job that has ended: its answer may have been lost. If the key made the child, that is said; `refusal` if not.
    fn dispatched_before(
        &mut self,
        parent: JobId,
        dispatching: Dispatching,
        refusal: Refusal,
    ) -> Result<Answer, Refusal> {
        let texts = dispatching
            .meta
            .into_iter()
            .map(|(key, value)| match value {
                Value::String(text) => Some((key, text)),
                _ => None,
            });
        let payload = dispatching.payload.map(|text| STANDARD.decode(text).ok());
        let (Some(meta), Some(key), None | Some(Some(_))) =
            (texts.collect(), dispatching.key, &payload)
        else {
            return Err(refusal);
        };
        let ended = Ended {
            parent,
            dispatch: Dispatch {
                meta,
                payload: payload.flatten(),
            },
            bytes: dispatching.bytes,
            refusal,
        };
        let submission = Submission::of_ended(dispatching.token, ended);
        self.submit_under_key(dispatching.userid, &key, submission)
    }

    /// The disk has no room: nobody waits for it to hear that.
    pub(crate) fn refuse_dispatches(&mut self) {
        let Err(refusal) = self.may_change() else {
            return;
        };
        for token in self
            .dispatches
            .take_all()
            .into_iter()
            .filter_map(|one| one.token)
        {
            self.turn.at_once.push(Action::Respond {
                token,
                result: Err(refusal.clone()),
                last: true,
            });
        }
    }
}

/// A parent's jobspec as its child has it.
fn child_of(
    parent_spec: &Value,
    parent: JobId,
    meta: &Map<String, Value>,
    payload: Option<String>,
) -> Vec<u8> {
    let mut child = parent_spec.clone();
    if let Some(system) = child
        .pointer_mut("/attributes/system")
        .and_then(Value::as_object_mut)
    {
        let mut dispatch = Map::new();
        dispatch.insert("meta".to_owned(), Value::Object(meta.clone()));
        if let Some(payload) = payload {
            dispatch.insert("payload".to_owned(), Value::String(payload));
        }
        change_object(system, "weir", |weir| {
            weir.shift_remove("parameterized");
            weir.insert("parent".to_owned(), Value::from(parent.0));
            weir.insert("dispatch".to_owned(), Value::Object(dispatch));
        });
        change_object(system, "environment", |environment| {
            for (key, value) in meta {
                for variable in meta_variables(key) {
                    environment.insert(variable, value.clone());
                }
            }
        });
    }
    child.to_string().into_bytes()
}

fn change_object(
    map: &mut Map<String, Value>,
    key: &str,
    change: impl FnOnce(&mut Map<String, Value>),
) {
    if !map.get(key).is_some_and(Value::is_object) {
        map.insert(key.to_owned(), Value::Object(Map::new()));
    }
    if let Some(object) = map.get_mut(key).and_then(Value::as_object_mut) {
        change(object);
    }
}

/// # Errors
/// EINVAL: a key that the parent does not ask for, one that is missing, a value that is no text, too much of it.
fn check_meta(rules: &Parameterized, meta: &Map<String, Value>) -> Result<(), Refusal> {
    let invalid = |text: String| Refusal::new(errno::EINVAL, text);
    let asked: BTreeSet<&str> = rules
        .meta_required
        .iter()
        .chain(&rules.meta_optional)
        .map(String::as_str)
        .collect();
    let mut bytes = 0;
    for (key, value) in meta {
        let shown = amount::cut(key, SHOWN_BYTES_MAX);
        if !is_meta_key(key) || !asked.contains(key.as_str()) {
            let all: Vec<&str> = asked.iter().copied().collect();
            return Err(invalid(match all.join(", ") {
                none if none.is_empty() => {
                    format!("meta.{shown}: the parameterized job takes no meta values")
                }
                all => format!("meta.{shown}: expected keys of the parameterized job: {all}"),
            }));
        }
        let text = value.as_str().filter(|text| !text.contains('\0'));
        let Some(text) = text else {
            return Err(invalid(format!(
                "meta.{shown}: expected a string without NUL"
            )));
        };
        bytes += text.len();
    }
    if meta.len() > META_KEYS_MAX || bytes > META_VALUES_BYTES_MAX {
        return Err(invalid(format!(
            "meta: {} keys and {bytes} bytes of values: expected at most {META_KEYS_MAX} and {META_VALUES_BYTES_MAX}",
            meta.len()
        )));
    }
    match rules
        .meta_required
        .iter()
        .find(|key| !meta.contains_key(*key))
    {
        Some(key) => Err(invalid(format!(
            "meta.{key}: the parameterized job requires it"
        ))),
        None => Ok(()),
    }
}

/// # Errors
/// EINVAL: no payload where one is required, one where none may be, no base64, too long.
fn check_payload(rule: Payload, payload: Option<&str>) -> Result<(), Refusal> {
    let invalid = |text: String| Err(Refusal::new(errno::EINVAL, text));
    match (rule, payload) {
        (Payload::Required, None) => {
            invalid("payload: the parameterized job requires one".to_owned())
        }
        (Payload::Forbidden, Some(_)) => {
            invalid("payload: the parameterized job takes none".to_owned())
        }
        (_, None) => Ok(()),
        (_, Some(text)) => match STANDARD.decode(text) {
            Err(_) => invalid("payload: expected base64".to_owned()),
            Ok(bytes) if bytes.len() > PAYLOAD_BYTES_MAX => invalid(format!(
                "payload: {} bytes: expected at most {PAYLOAD_BYTES_MAX}",
                bytes.len()
            )),
            Ok(_) => Ok(()),
        },
    }
}
