//! Submissions under a key: the store is asked for the job of that key before a new one is made.
//!
//! ```text
//!  submit with a key ─▶ waits under (user, key) ─▶ FindKey ─ the store, once all that was decided before is there ─▶ KeysFound
//!                         ▲ the same key again waits behind it                      │
//!                         └────────────────────────────────────────────────────────┴▶ first: admitted, or answered with the job
//!                                                                                     others: with the first one's job
//! ```
//! No keys are kept in memory: what the store says is whole, since the question rests on every entry decided before it, and who asks for the
//! same key meanwhile waits. So a key has one job of its user, also across restarts; it is free when that job is purged. Submissions without
//! a key pass by all of this.
//!
//! A submission waits for the disk in any case; with no room on it nothing is asked for, and who waits is refused.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use bytes::Bytes;
use job::jobspec::Dispatch;
use job::{JobFlags, JobId, Jobspec, Urgency};
use protocol::job_ingest::{KEY_BYTES_MAX, SubmitResponse};
use serde_json::Value;
use wire::errno;

use crate::action::{Action, Refusal};
use crate::decide::Answer;
use crate::decide::submit::Ingested;
use crate::input::{Call, Key, KeyFound, Token};
use crate::manager::Manager;
use crate::no_space::WithoutRoom;
use crate::write::json;

/// So many submissions may wait for what the store says of their keys.
const WAITING_MAX: usize = 1 << 16;
/// Bytes of theirs.
const WAITING_BYTES_MAX: usize = 64 << 20;

/// A submission that was found good but for its key.
#[derive(Debug)]
pub(crate) struct Submission {
    /// Whom to answer; none if nobody wants to hear of it.
    pub(crate) token: Option<Token>,
    pub(crate) urgency: Urgency,
    pub(crate) flags: JobFlags,
    pub(crate) j: Bytes,
    pub(crate) jobspec: Bytes,
    /// It never runs: others are dispatched from it.
    pub(crate) parameterized: bool,
    /// A dispatch from a job that has ended: it makes none, but is told of the child that its key made before.
    pub(crate) ended: Option<Box<Ended>>,
}

/// A dispatch from a job that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) parent: JobId,
    pub(crate) dispatch: Dispatch,
    /// Of the request.
    pub(crate) bytes: usize,
    /// What is said if there is no such child.
    pub(crate) refusal: Refusal,
}

impl Ended {
    /// Whether this is the job that the same dispatch made.
    fn is_child(&self, jobspec: &[u8]) -> bool {
        let weir = Jobspec::parse(jobspec).ok().and_then(|all| all.weir);
        let sorted = |dispatch: &Dispatch| {
            let mut meta = dispatch.meta.clone();
            meta.sort_unstable();
            (meta, dispatch.payload.clone())
        };
        weir.is_some_and(|weir| {
            weir.parent == Some(self.parent)
                && weir.dispatch.as_ref().map(sorted) == Some(sorted(&self.dispatch))
        })
    }
}

impl Submission {
    /// One that makes no job.
    pub(crate) fn of_ended(token: Option<Token>, ended: Ended) -> Submission {
        Submission {
            token,
            urgency: Urgency::DEFAULT,
            flags: JobFlags::default(),
            j: Bytes::new(),
            jobspec: Bytes::new(),
            parameterized: false,
            ended: Some(Box::new(ended)),
        }
    }

    pub(crate) fn new(
        call: &Call,
        urgency: Urgency,
        flags: JobFlags,
        ingested: Ingested,
    ) -> Submission {
        Submission {
            token: (!call.noresponse).then_some(call.token),
            urgency,
            flags,
            j: ingested.j,
            jobspec: ingested.jobspec,
            parameterized: ingested.parameterized,
            ended: None,
        }
    }

    fn bytes(&self) -> usize {
        let asked = self.ended.as_ref().map_or(0, |ended| ended.bytes);
        self.j.len() + self.jobspec.len() + asked
    }

    /// Whether this would make a job of that jobspec.
    fn is_of(&self, jobspec: &[u8]) -> bool {
        match &self.ended {
            Some(ended) => ended.is_child(jobspec),
            None => same(jobspec, &self.jobspec),
        }
    }
}

/// Who waits for what the store says of a key. A key is here for as long as the store is being asked for it.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    asked: HashMap<Key, Vec<Submission>>,
    waiting: usize,
    bytes: usize,
}

impl Keys {
    fn taken(&mut self, submissions: &[Submission]) {
        self.waiting -= submissions.len();
        self.bytes -= submissions.iter().map(Submission::bytes).sum::<usize>();
    }
}

impl Manager {
    /// Lets a submission wait for what the store says of its key.
    pub(crate) fn submit_under_key(
        &mut self,
        userid: u32,
        key: &str,
        submission: Submission,
    ) -> Result<Answer, Refusal> {
        if !(1..=KEY_BYTES_MAX).contains(&key.len()) || key.contains(char::is_control) {
            return Err(Refusal::new(
                errno::EINVAL,
                format!(
                    "key: expected 1 to {KEY_BYTES_MAX} bytes without control characters, got {} bytes",
                    key.len()
                ),
            ));
        }
        self.may_ask_for_key()?;
        let keys = &mut self.keys;
        if keys.waiting >= WAITING_MAX || keys.bytes >= WAITING_BYTES_MAX {
            return Err(Refusal::new(
                errno::EAGAIN,
                "too many submissions wait for their keys to be looked up: try again",
            ));
        }
        keys.waiting += 1;
        keys.bytes += submission.bytes();
        let key = Key {
            userid,
            text: key.into(),
        };
        match keys.asked.entry(key) {
            Entry::Occupied(mut waiting) => waiting.get_mut().push(submission),
            Entry::Vacant(new) => {
                let key = new.key().clone();
                new.insert(vec![submission]);
                self.effect(Action::FindKey(key));
            }
        }
        Ok(Answer::Later)
    }

    /// A key that has its job is answered whatever the queue and the disk are like, unless it would have to wait for room.
    /// # Errors
    /// What [`Manager::may_change`] says.
    pub(crate) fn may_ask_for_key(&self) -> Result<(), Refusal> {
        if self.no_space.is_none() || self.pending.newest_durable() < self.seq {
            self.may_change()?;
        }
        Ok(())
    }

    /// What the store said of some keys.
    pub(crate) fn keys_found(&mut self, found: Vec<(Key, KeyFound)>) {
        for (key, found) in found {
            let Some(submissions) = self.keys.asked.remove(&key) else {
                continue;
            };
            self.keys.taken(&submissions);
            let mut found = found;
            if let KeyFound::Job { id, .. } | KeyFound::Damaged { id, .. } = &found
                && !self.known.contains(*id)
            {
                found = KeyFound::None; // purged since the store was read
            }
            for submission in submissions {
                let token = submission.token;
                let decided = self.decide_key(&key, &mut found, submission);
                let Some(token) = token else { continue };
                let answer = decided.map(|answer| json(&answer));
                // A refusal rests on nothing that is not stored.
                let without_room = match answer {
                    Ok(_) => WithoutRoom::Waits,
                    Err(_) => WithoutRoom::Said,
                };
                self.respond_or(token, answer.map(Some), without_room);
            }
        }
    }

    fn decide_key(
        &mut self,
        key: &Key,
        found: &mut KeyFound,
        submission: Submission,
    ) -> Result<SubmitResponse, Refusal> {
        match found {
            KeyFound::None => {
                if let Some(ended) = submission.ended {
                    return Err(ended.refusal);
                }
                self.may_submit()?;
                let jobspec = submission.jobspec.clone();
                let answer = self.admit(key.userid, submission, Some(&key.text))?;
                *found = KeyFound::Job {
                    id: answer.id,
                    jobspec,
                };
                Ok(answer)
            }
            KeyFound::Job { id, jobspec } if submission.is_of(jobspec) => Ok(SubmitResponse {
                id: *id,
                seq: self.seq.0,
                known: true,
            }),
            KeyFound::Job { id, .. } => Err(Refusal::new(
                errno::EEXIST,
                format!(
                    "key '{}' belongs to job {id}, which has another jobspec: use a new key, or purge that job",
                    key.text
                ),
            )),
            KeyFound::Damaged { id, why } => Err(Refusal::new(
                errno::EEXIST,
                format!(
                    "key '{}' belongs to job {id}, which cannot be read ({why}): use a new key, or purge that job",
                    key.text
                ),
            )),
            KeyFound::Failed { why } => Err(Refusal::new(
                errno::EIO,
                format!("key '{}' cannot be looked up: {why}", key.text),
            )),
        }
    }

    /// The disk has no room: nobody waits for it to hear that. What the store was asked for already is answered to nobody.
    pub(crate) fn refuse_keys(&mut self) {
        let Err(refusal) = self.may_change() else {
            return;
        };
        for submissions in self.keys.asked.values_mut() {
            for submission in std::mem::take(submissions) {
                self.turn
                    .at_once
                    .extend(submission.token.map(|token| Action::Respond {
                        token,
                        result: Err(refusal.clone()),
                        last: true,
                    }));
            }
        }
        (self.keys.waiting, self.keys.bytes) = (0, 0);
    }
}

/// Whether two jobspecs say the same, however they are written. Resource limits come from the shell in which somebody typed, as the
/// environment does (which is not there): they are not compared.
fn same(one: &[u8], other: &[u8]) -> bool {
    let value = |json| {
        let mut value = serde_json::from_slice::<Value>(json).ok()?;
        if let Some(Value::Object(options)) = value.pointer_mut("/attributes/system/shell/options")
        {
            options.remove("rlimit");
        }
        Some(value)
    };
    one == other || value(one).is_some_and(|one| Some(one) == value(other))
}

#[cfg(test)]
mod tests {
    use super::same;

    #[test]
    fn fault_a_key_is_known_from_a_shell_with_other_limits() {
        let spec = |limits: &str, command: &str| {
            format!(
                r#"{{"tasks":[{{"command":["{command}"]}}],"attributes":{{"system":{{"shell":{{"options":{{{limits}"a":1}}}}}}}}}}"#
            )
        };
        let (bare, limited) = (spec("", "x"), spec(r#""rlimit":{"core":0},"#, "x"));
        assert!(same(bare.as_bytes(), limited.as_bytes()));
        let other = spec(r#""rlimit":{"core":0},"#, "y");
        assert!(!same(limited.as_bytes(), other.as_bytes()));
        assert!(!same(b"no json", limited.as_bytes()));
    }
}
