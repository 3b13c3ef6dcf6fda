//! `job-info.lookup` and `update-lookup`: what is stored of one job.
//!
//! ```text
//!  jobspec J R eventlog key       job-manager.lookup on the same connection, answered when it answers
//!  guest.exec.eventlog           jobs/<id>/exec.eventlog
//!  guest.output                  jobs/<id>/output.eventlog
//! ```
//! With flag 2 the eventlog is fetched too, and its updates are applied here.

use std::{borrow::Cow, path::PathBuf};

use job::{Event, EventKind, JobId, eventlog, jobspec, r};
use protocol::job_info::{LOOKUP_CURRENT, LOOKUP_DECODE, LookupRequest, UpdateRequest};
use serde::Deserialize;
use serde_json::{Value, json};
use wire::{Request, Topic, errno, json_payload};

use crate::{
    core::{Info, parse},
    guest_read::Answer,
    link::Call,
    peer::{Caller, Refusal},
};

/// Most keys in one request.
const KEYS_MAX: usize = 64;
/// Longest key or path. Those that mean something are shorter.
pub(crate) const KEY_LEN_MAX: usize = 256;
/// Keys the job-manager has.
const STORED: [&str; 5] = ["jobspec", "J", "R", "eventlog", "key"];

/// A look-up that waits for the job-manager.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) caller: Caller,
    id: JobId,
    keys: Vec<String>,
    flags: i64,
}

/// The job-manager's answer, in either form.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Stored<'a> {
    #[serde(borrow, default)]
    pub(crate) jobspec: Option<Cow<'a, str>>,
    #[serde(borrow, default, rename = "J")]
    pub(crate) j: Option<Cow<'a, str>>,
    #[serde(borrow, default, rename = "R")]
    pub(crate) r: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(crate) eventlog: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(crate) key: Option<Cow<'a, str>>,
    #[serde(default)]
    pub(crate) eventlog_seq: Option<u32>,
}

impl Stored<'_> {
    /// The jobspec or R after all its updates, as an object.
    pub(crate) fn current(&self, key: &str) -> Option<Value> {
        let events = self
            .eventlog
            .as_deref()
            .map(str::as_bytes)
            .unwrap_or_default();
        let events = eventlog::lines(events).filter_map(|line| Event::parse(line).ok());
        if key == "R" {
            let text = self.r.as_deref()?;
            let last = events.filter_map(|event| match event.kind {
                EventKind::ResourceUpdate { expiration } => Some(expiration.0),
                _ => None,
            });
            return match last
                .last()
                .map(|expiration| r::with_expiration(text.as_bytes(), expiration))
            {
                Some(Ok(updated)) => serde_json::from_slice(&updated).ok(),
                Some(Err(_)) | None => serde_json::from_str(text).ok(),
            };
        }
        let mut value: Value = serde_json::from_str(self.jobspec.as_deref()?).ok()?;
        for event in events {
            if let EventKind::JobspecUpdate { updates } = event.kind
                && let Err(error) = jobspec::apply_updates(&mut value, &updates)
            {
                tracing::debug!(%error, "an update of a jobspec that cannot be applied");
            }
        }
        Some(value)
    }
}

fn no_key(key: &str) -> Refusal {
    Refusal::new(errno::ENOENT, format!("{key}: key not found"))
}

impl Info {
    /// The file behind a `guest.` path, if it is one we have.
    pub(crate) fn guest_file(&self, id: JobId, path: &str) -> Option<PathBuf> {
        let name = match path {
            "guest.exec.eventlog" => "exec.eventlog",
            "guest.output" => "output.eventlog",
            _ => return None,
        };
        Some(self.files.dir(id).join(name))
    }

    /// Whether the caller may read what is stored of a job.
    pub(crate) fn may_read(&self, caller: &Caller, id: JobId) -> Option<bool> {
        self.projection
            .jobs()
            .get(id)
            .map(|record| caller.cred().may_act_for(record.job().userid))
    }

    pub(crate) fn lookup(&mut self, caller: &Caller, payload: &[u8]) -> Result<(), Refusal> {
        let ask: LookupRequest<'_> = parse(payload)?;
        if ask.flags & !(LOOKUP_DECODE | LOOKUP_CURRENT) != 0 {
            return Err(Refusal::new(
                errno::EPROTO,
                "lookup request rejected with invalid flag",
            ));
        }
        if ask.keys.len() > KEYS_MAX {
            return Err(Refusal::payload(format_args!("more than {KEYS_MAX} keys")));
        }
        if ask.keys.iter().any(|key| key.len() > KEY_LEN_MAX) {
            let text = format!("keys: expected at most {KEY_LEN_MAX} bytes each");
            return Err(Refusal::payload(text));
        }
        self.lookups += 1;
        let mut keys: Vec<String> = Vec::with_capacity(ask.keys.len());
        for key in ask.keys {
            if !keys.iter().any(|met| *met == key) {
                keys.push(key.into_owned());
            }
        }
        self.begin_lookup(caller, ask.id, keys, ask.flags)
    }

    pub(crate) fn update_lookup(&mut self, caller: &Caller, payload: &[u8]) -> Result<(), Refusal> {
        let ask: UpdateRequest<'_> = parse(payload)?;
        if ask.flags != 0 {
            return Err(Refusal::new(
                errno::EPROTO,
                "update-lookup request rejected with invalid flag",
            ));
        }
        if ask.key != "R" && ask.key != "jobspec" {
            return Err(Refusal::new(
                errno::EINVAL,
                "update-lookup unsupported key specified",
            ));
        }
        self.update_lookups += 1;
        self.begin_lookup(
            caller,
            ask.id,
            vec![ask.key.into_owned()],
            LOOKUP_DECODE | LOOKUP_CURRENT,
        )
    }

    fn begin_lookup(
        &mut self,
        caller: &Caller,
        id: JobId,
        keys: Vec<String>,
        flags: i64,
    ) -> Result<(), Refusal> {
        match self.may_read(caller, id) {
            // What the job-manager can still read of it is the owner's to see.
            None if self.is_aside_for_owner(caller, id) => {}
            None if self.stale_seconds().is_some()
                || self.projection.jobs().set_aside().contains(id) =>
            {
                return Err(self.absent(caller, id));
            }
            None => return Err(Refusal::new(errno::ENOENT, "invalid job id")),
            Some(false) => {
                return Err(Refusal::new(
                    errno::EPERM,
                    "access is restricted to job/instance owner",
                ));
            }
            Some(true) => {}
        }
        let mut stored: Vec<&str> = STORED
            .into_iter()
            .filter(|key| keys.iter().any(|k| k == key))
            .collect();
        let updated = stored.contains(&"jobspec") || stored.contains(&"R");
        if flags & LOOKUP_CURRENT != 0 && updated && !stored.contains(&"eventlog") {
            stored.push("eventlog");
        }
        let stored: Vec<String> = stored.into_iter().map(str::to_owned).collect();
        let wanted = Wanted {
            caller: caller.kept(),
            id,
            keys,
            flags,
        };
        if stored.is_empty() {
            return self.answer_lookup(&wanted, &Stored::default());
        }
        if !self.link.up {
            return Err(Refusal::new(
                errno::EAGAIN,
                "the job-manager cannot be asked now, try again later",
            ));
        }
        let keys: Vec<&str> = stored.iter().map(String::as_str).collect();
        match self.look_up(Call::Lookup(Box::new(wanted)), id, &keys) {
            Ok(()) => Ok(()),
            Err(_) => Err(Refusal::new(
                errno::EAGAIN,
                "too many look-ups are open, try again later",
            )),
        }
    }

    /// Asks the job-manager.
    pub(crate) fn look_up(&mut self, call: Call, id: JobId, keys: &[&str]) -> Result<(), Call> {
        let (topic, payload) = match self.link.form {
            info::Form::Native => ("job-manager.lookup", json!({"id": id, "keys": keys})),
            info::Form::Flux => (
                "job-info.lookup",
                json!({"id": id, "keys": keys, "flags": 0}),
            ),
        };
        let tag = self.link.tag(call)?;
        let request = Request::new(Topic::from(topic), Some(json_payload(&payload)), tag);
        if self.out.request(request) {
            return Ok(());
        }
        match self.link.take_call(tag) {
            Some(call) => Err(call),
            None => Ok(()),
        }
    }

    /// The job-manager answered.
    pub(crate) fn looked_up(&mut self, wanted: Wanted, payload: &[u8], refusal: Option<Refusal>) {
        let answered = match refusal {
            Some(refusal) => Err(refusal),
            None => match wire::parse_json::<Stored<'_>>(payload) {
                Ok(stored) => self.answer_lookup(&wanted, &stored),
                Err(error) => Err(Refusal::new(
                    errno::EPROTO,
                    format!("answer of the job-manager: {error}"),
                )),
            },
        };
        if let Err(refusal) = answered {
            self.out.refuse(&wanted.caller, &refusal);
        }
    }

    fn answer_lookup(&mut self, wanted: &Wanted, stored: &Stored<'_>) -> Result<(), Refusal> {
        let mut answer = Answer::new(wanted.id);
        let decode = wanted.flags & LOOKUP_DECODE != 0;
        for key in &wanted.keys {
            let text = match key.as_str() {
                "jobspec" => stored.jobspec.as_deref(),
                "R" => stored.r.as_deref(),
                "J" => stored.j.as_deref(),
                "eventlog" => stored.eventlog.as_deref(),
                "key" => stored.key.as_deref(),
                guest => {
                    let file = self.guest_file(wanted.id, guest);
                    let file = file.ok_or_else(|| no_key(key))?;
                    answer.add_log(key, &file)?.ok_or_else(|| no_key(key))?;
                    continue;
                }
            };
            let text = text.ok_or_else(|| no_key(key))?;
            let is_updatable = key == "jobspec" || key == "R";
            let value = match (is_updatable, wanted.flags & LOOKUP_CURRENT != 0) {
                (true, true) => stored.current(key),
                (true, false) if decode => serde_json::from_str(text).ok(),
                _ => None,
            };
            let value = match value {
                Some(value) if decode => value,
                Some(value) => Value::String(value.to_string()),
                None => Value::String(text.to_owned()),
            };
            answer.add(key, value);
        }
        self.send_answer(&wanted.caller, answer)
    }
}
