//! `job-manager.purge` and `purge-id`: jobs that ended are forgotten, a bounded number with each request.
//!
//! Named jobs are decided about at once; others are searched for in the store first (`purge.rs`). Either way it is one entry of the system
//! log that names the jobs, in one commit with the rows that go.

use std::borrow::Cow;
use std::collections::BTreeSet;

use bytes::Bytes;
use job::{JobId, Map, Timestamp};
use protocol::job_manager::{PurgeIdRequest, PurgeRequest, PurgeResponse};
use serde_json::Value;
use wire::{Topic, errno};

use crate::action::{Action, Find, JobWrite, Refusal, Which};
use crate::decide::{Answer, parse};
use crate::input::{Call, Found};
use crate::manager::Manager;
use crate::pending::HELD_CHANGES_MAX;
use crate::purge::{Ask, LEFT_MAX, PURGE_BATCH_MAX, WhatFor};
use crate::write::{Object, json};

/// A limit that is not set.
const UNLIMITED_AGE: f64 = -1.0;
const UNLIMITED_NUM: i64 = -1;
const UNREADABLE: &str =
    "its row in the store cannot be read, and so not be removed: see weir store recover";

impl Manager {
    /// `purge`: `{age_limit, num_limit, batch, force, jobs?, all?}` → `{count, seq, jobs, errors?}`.
    pub(crate) fn purge(&mut self, call: &Call) -> Result<Answer, Refusal> {
        let request: PurgeRequest = parse(call)?;
        let invalid = |text: &'static str| Err(Refusal::new(errno::EINVAL, text));
        let (age, num) = (request.age_limit, request.num_limit);
        if age != UNLIMITED_AGE && age < 0.0 {
            return invalid("if set, age limit must be >= 0");
        }
        if num != UNLIMITED_NUM && num < 0 {
            return invalid("if set, num limit must be >= 0");
        }
        let limit = usize::try_from(request.batch).unwrap_or(0);
        if !(1..=PURGE_BATCH_MAX).contains(&limit) {
            return invalid("batch must be >= 1 and <= 100");
        }
        if let Some(named) = request.jobs {
            if named.len() > PURGE_BATCH_MAX {
                return invalid("at most 100 jobs may be named in one request");
            }
            return self.purge_named(&named, request.force);
        }
        let before = (age != UNLIMITED_AGE).then_some(Timestamp(self.now.0 - age));
        let keep = u64::try_from(num).ok();
        let which = match (request.all, before, keep) {
            (true, ..) => Which::All,
            // No limit is broken by nobody.
            (false, None, None) => return Ok(Answer::Json(self.purged(0, &[], &[]))),
            (false, before, keep) => Which::Beyond { before, keep },
        };
        if request.force {
            self.may_purge()?;
        }
        if !self.may_ask() {
            return Err(Refusal::new(
                errno::EAGAIN,
                "too many purges wait for their turn: try again",
            ));
        }
        let token = (!call.noresponse).then_some(call.token);
        let what_for = match (request.force, token) {
            (true, token) => WhatFor::Purge(token),
            (false, Some(token)) => WhatFor::Show(token),
            (false, None) => return Ok(Answer::Later),
        };
        let find = Find {
            which,
            limit,
            count: !request.force,
        };
        self.ask(Ask { find, what_for });
        self.search();
        Ok(Answer::Later)
    }

    /// `purge-id`: `{id, force}` → `{count:1}`, as Flux has it.
    pub(crate) fn purge_id(&mut self, call: &Call) -> Result<Answer, Refusal> {
        let request: PurgeIdRequest = parse(call)?;
        let id = request.id;
        if self.jobs.contains_key(&id) {
            return Err(Refusal::new(errno::EINVAL, "cannot purge active job"));
        }
        if !self.known.contains(id) {
            return Err(Refusal::new(errno::ENOENT, "id not found"));
        }
        if self.purges.unreadable.contains(&id) {
            return Err(Refusal::new(errno::EIO, UNREADABLE));
        }
        if request.force != 0 {
            self.may_purge()?;
            self.forget(vec![id]);
        }
        Ok(Answer::Json(self.purged(1, &[id], &[])))
    }

    /// The jobs that were asked for by name: those that ended go, the others are told with the reason.
    fn purge_named(&mut self, named: &[JobId], force: bool) -> Result<Answer, Refusal> {
        let (mut jobs, mut errors, mut seen) = (Vec::new(), Vec::new(), BTreeSet::new());
        for id in named.iter().copied().filter(|id| seen.insert(*id)) {
            if let Some(record) = self.jobs.get(&id) {
                let state = record.job.state;
                let text = format!("cannot purge active job: its state is {state}");
                errors.push((id, errno::EINVAL, Cow::Owned(text)));
            } else if self.purges.unreadable.contains(&id) {
                errors.push((id, errno::EIO, Cow::Borrowed(UNREADABLE)));
            } else if self.known.contains(id) {
                jobs.push(id);
            } else {
                errors.push((id, errno::ENOENT, Cow::Borrowed("id not found")));
            }
        }
        if force && !jobs.is_empty() {
            self.may_purge()?;
            self.forget(jobs.clone());
        }
        Ok(Answer::Json(self.purged(jobs.len() as u64, &jobs, &errors)))
    }

    /// What a search found: they go, or are shown. Then the next search.
    pub(crate) fn found(&mut self, found: Result<Found, String>) {
        let Some(Ask { find, what_for }) = self.searched() else {
            return;
        };
        let found = found.map(|found| (found.total, self.still_ended(found.jobs)));
        match (what_for, found) {
            (WhatFor::Limits, Ok((_, jobs))) => {
                let more = jobs.len() >= find.limit;
                if self.may_purge().is_ok() && !jobs.is_empty() {
                    self.forget(jobs);
                    if more {
                        self.ask_for_limits();
                    }
                }
            }
            // The shell has said so in its log; the next tick tries again.
            (WhatFor::Limits | WhatFor::Purge(None), Err(_)) => {}
            (WhatFor::Show(token) | WhatFor::Purge(Some(token)), Err(why)) => {
                self.respond(token, Err(Refusal::new(errno::EIO, why)));
            }
            (WhatFor::Show(token), Ok((total, jobs))) => {
                let answer = self.purged(total, &jobs, &[]);
                self.respond(token, Ok(Some(answer)));
            }
            (WhatFor::Purge(token), Ok((_, jobs))) => {
                let may = self.may_purge();
                let answer = may.map(|()| {
                    if !jobs.is_empty() {
                        self.forget(jobs.clone());
                    }
                    self.purged(jobs.len() as u64, &jobs, &[])
                });
                if let Some(token) = token {
                    self.respond(token, answer.map(Some));
                }
            }
        }
        self.search();
    }

    /// The store may have been read before the disk had what was decided last.
    fn still_ended(&self, mut jobs: Vec<JobId>) -> Vec<JobId> {
        jobs.retain(|id| self.known.contains(*id) && !self.jobs.contains_key(id));
        jobs
    }

    /// Forgets jobs that are not active: one entry, their rows, their files.
    fn forget(&mut self, jobs: Vec<JobId>) {
        let ids: Vec<Value> = jobs.iter().map(|id| Value::from(id.0)).collect();
        #[cfg(not(feature = "sabotage"))]
        let tells = true;
        #[cfg(feature = "sabotage")]
        let tells = !crate::sabotage::is(crate::sabotage::Sabotage::PurgeEntry);
        if tells {
            self.post_system(
                "purge",
                Some(Map::from_iter([("jobs".to_owned(), Value::Array(ids))])),
            );
        }
        for id in &jobs {
            self.zombies.remove(id);
            self.turn.writes.push(JobWrite::Delete { id: *id });
        }
        self.known.remove(&jobs);
        self.stats.purges += 1;
        self.stats.purged_jobs += jobs.len() as u64;
        self.effect(Action::Publish {
            topic: Topic::from("job-purge-inactive"),
            payload: Object::new(0).value("jobs", &jobs).end(),
            private_to: None,
        });
        self.sweep(self.seq, jobs);
    }

    /// Whether anything may be purged now. A full disk does not stop it: it is the remedy.
    fn may_purge(&self) -> Result<(), Refusal> {
        let text = if self.pending.answers() >= HELD_CHANGES_MAX {
            "too many changes wait for the disk: try again"
        } else if self.purges.left >= LEFT_MAX {
            "the files of jobs purged before cannot be removed: the job-manager's log says why"
        } else {
            return Ok(());
        };
        Err(Refusal::new(errno::EAGAIN, text))
    }

    fn purged(
        &self,
        count: u64,
        jobs: &[JobId],
        errors: &[(JobId, u32, Cow<'static, str>)],
    ) -> Bytes {
        let response = PurgeResponse {
            count,
            seq: self.seq.0,
            jobs: Cow::Borrowed(jobs),
            errors: Cow::Borrowed(errors),
        };
        json(&response)
    }
}
