//! Following the journal: connecting, the names, the stream and what it brings.
//!
//! ```text
//!  link_up ─► journal after the cursor, service.add ×2 ─► fold ─► waits that are ripe, followers, held requests
//!     ▲                        │ ESTALE: from the start, aside       │ cannot be folded: poisoned
//!  timer ◄── link_lost ◄───────┴─ any other end of the stream ◄──────┘
//! ```
//! A poisoned stream is over: nothing that comes behind is folded, the last list stays and says that it is stale, the next stream
//! begins from the start. What is folded is `info`'s matter; when to try again is [`crate::link`]'s.

use std::time::Instant;

use bytes::Bytes;
use info::{Folded, Form};
use job::JobId;
use rpc::client::Sender;
use wire::{Response, errno};

use crate::{
    core::{FILES_POLL, HOLD_CHECK, Info},
    hold::AFTER_WAIT_MAX,
    link::{self, Call, Lost},
    methods::SERVICES,
    peer::{Refusal, Via},
    streams::Body,
};

/// Most jobs that are named in the log when they are set aside together.
const ASIDE_LOGGED_MAX: usize = 100;

/// One live entry, for the followers of its job.
#[derive(Debug)]
struct Line {
    id: JobId,
    eventlog_seq: u32,
    live_only: bool,
    json: Bytes,
}

impl Info {
    /// Connected: ask for the names and for the journal.
    pub(crate) fn link_up(&mut self, sender: Sender) {
        tracing::info!("connected to the broker");
        self.out.set_broker(Some(sender));
        self.link.up = true;
        self.link.due = None;
        // The journal first: by the time that requests come under our names, the broker has a stream to mark for them. Where it goes on at a
        // cursor, `caught_up` alone says nothing of how far the requester had seen.
        self.begin_journal();
        self.ask_for_names();
    }

    /// The connection is gone, or could not be made.
    pub(crate) fn link_lost(&mut self, reason: &dyn std::fmt::Display, how: Lost, now: Instant) {
        if self.link.up || !self.warned {
            tracing::warn!(%reason, "not connected to the broker; will try again");
            self.warned = true;
        }
        self.out.set_broker(None);
        self.projection.cut();
        let calls = self.link.lost(how, now);
        self.forget(|caller| caller.via == Via::Broker);
        self.streams
            .forget_clients(|client| client.via == Via::Broker);
        let lost = Refusal::new(
            errno::ECONNRESET,
            "the job-manager went away before it answered, try again",
        );
        for call in calls {
            match call {
                Call::Lookup(wanted) => self.out.refuse(&wanted.caller, &lost),
                Call::Exists(asked) => self.out.refuse(&asked.3, &lost),
                Call::ForStream(id) => self.fetch_lost(id),
                Call::Name(_) | Call::Journal(_) => {}
            }
        }
        self.stats_changed(now);
    }

    fn ask_for_names(&mut self) {
        let key = std::fs::read_to_string(self.config.statedir.join("key")).ok();
        let key = key.as_deref().map(str::trim);
        for at in 0..SERVICES.len() {
            if self.link.has_name(at) {
                continue;
            }
            if let Ok(tag) = self.link.tag(Call::Name(at)) {
                self.out.request(link::add_name(at, key, tag));
            }
        }
    }

    fn begin_journal(&mut self) {
        self.link.form = Form::Native;
        let Ok(tag) = self.link.tag(Call::Journal(Form::Native)) else {
            return;
        };
        let cursor = self.projection.cursor().filter(|_| !self.from_start);
        let request = link::native_journal(cursor, tag);
        if cursor.is_some() {
            self.projection.begin_resume();
        } else {
            self.projection.begin_fresh(Form::Native);
        }
        self.out.request(request);
    }

    /// When [`Info::tick`] has something to do, the connection apart.
    pub(crate) fn next_tick(&mut self, now: Instant) -> Option<Instant> {
        let names = self.link.due.filter(|_| self.link.up);
        let held = self.hold_due.when(self.hold.len() > 0, now, HOLD_CHECK);
        let files = self.files_due.when(self.files.must_poll(), now, FILES_POLL);
        let silence = (!self.stats_watchers.is_empty()).then(|| self.link.silent_at());
        let silence = silence.flatten().filter(|_| !self.told_silence);
        [names, held, files, self.stats_due, silence]
            .into_iter()
            .flatten()
            .min()
    }

    /// Files of these jobs changed.
    pub(crate) fn files_changed(&mut self, jobs: impl IntoIterator<Item = JobId>) {
        for job in jobs {
            for stream in self.followers.get(&job).into_iter().flatten() {
                self.streams.wake(*stream);
            }
        }
    }

    /// The timer: names that were another's.
    pub(crate) fn tick(&mut self, now: Instant) {
        if self.link.up && self.link.due.is_some_and(|due| due <= now) {
            self.link.due = None;
            self.ask_for_names();
        }
        // Followers of job-stats hear that they may be behind, too.
        let silent = self.link.silent_at().is_some_and(|at| at <= now);
        if silent && !self.told_silence {
            self.stats_changed(now);
        }
        self.told_silence = silent;
        self.stats_tick(now);
        if self.files_due.take(now) {
            let followed: Vec<JobId> = self.followers.keys().copied().collect();
            self.files_changed(followed);
        }
        if !self.hold_due.take(now) {
            return;
        }
        for held in self.hold.take_late(now) {
            let within = AFTER_WAIT_MAX.as_secs();
            let applied = self.projection.applied();
            let text = match held.need {
                need if need > applied => {
                    format!("seq {need} did not come within {within} s: the list is at {applied}")
                }
                _ => format!("the list was not ready within {within} s, try again later"),
            };
            self.out
                .refuse(&held.caller, &Refusal::new(errno::EAGAIN, text));
        }
    }

    pub(crate) fn take_response(&mut self, response: &Response, now: Instant) {
        let refusal = (response.errnum != 0).then(|| Refusal {
            errnum: response.errnum,
            text: response
                .payload
                .as_deref()
                .and_then(wire::text_of)
                .map(str::to_owned),
        });
        if let Some(Call::Journal(form)) = self.link.call(response.matchtag) {
            let form = *form;
            return match refusal {
                Some(refusal) => {
                    self.link.take_call(response.matchtag);
                    self.journal_ended(form, &refusal, now);
                }
                None => self.fold(form, response.payload.as_ref(), now),
            };
        }
        let payload = response.payload.as_deref().unwrap_or_default();
        match self.link.take_call(response.matchtag) {
            None | Some(Call::Journal(_)) => {}
            Some(Call::Name(at)) => self.named(at, refusal, now),
            Some(Call::Lookup(wanted)) => self.looked_up(*wanted, payload, refusal),
            Some(Call::ForStream(id)) => self.fetched(id, payload, refusal),
            Some(Call::Exists(asked)) => self.exists(*asked, refusal),
        }
    }

    fn named(&mut self, at: usize, refusal: Option<Refusal>, now: Instant) {
        let service = SERVICES.get(at).copied().unwrap_or_default();
        match refusal {
            None => {
                tracing::info!(service, "serving");
                self.link.named(at, true);
            }
            Some(Refusal {
                errnum: errno::EEXIST,
                ..
            }) => {
                tracing::debug!(service, "another serves this; on standby");
                self.link.ask_names_later(now);
            }
            Some(Refusal { errnum, text }) => {
                let text = text.as_deref().unwrap_or(errno::text(errnum));
                tracing::warn!(
                    service,
                    errnum,
                    text,
                    "the broker does not give us this name; will ask again"
                );
                self.link.ask_names_later(now);
            }
        }
    }

    /// The journal stream ended. What follows depends on the reason.
    fn journal_ended(&mut self, form: Form, refusal: &Refusal, now: Instant) {
        let was_live = self.projection.is_live();
        self.projection.cut();
        self.link.not_following(now);
        let text = refusal
            .text
            .as_deref()
            .unwrap_or(errno::text(refusal.errnum));
        match (form, refusal.errnum) {
            (Form::Native, errno::ENOSYS) if !was_live => {
                tracing::info!("the broker has no native journal: following Flux's");
                self.link.form = Form::Flux;
                self.projection.begin_fresh(Form::Flux);
                if let Ok(tag) = self.link.tag(Call::Journal(Form::Flux)) {
                    self.out.request(link::flux_journal(tag));
                }
            }
            (Form::Native, errno::ESTALE) => {
                tracing::warn!(
                    text,
                    "the journal cannot be continued: building the list anew, aside"
                );
                self.projection.begin_fresh(Form::Native);
                if let Ok(tag) = self.link.tag(Call::Journal(Form::Native)) {
                    self.out.request(link::native_journal(None, tag));
                }
            }
            (_, errnum) => {
                tracing::warn!(errnum, text, "the journal stream ended");
                self.give_up_connection();
            }
        }
    }

    /// Ends the connection; [`Info::link_lost`] follows when the reader notices.
    fn give_up_connection(&mut self) {
        if let Some(sender) = self.out.broker() {
            sender.close();
        }
    }

    /// The stream cannot be followed: nothing that comes behind is looked at, and the list is built anew.
    fn poisoned(&mut self, reason: &dyn std::fmt::Display, now: Instant) {
        let reason = reason.to_string();
        if self.poison.as_deref() == Some(reason.as_str()) {
            tracing::debug!(reason, "the journal still cannot be followed");
        } else {
            tracing::error!(
                reason,
                "the journal cannot be followed: the list stays as it was; it will be built anew"
            );
        }
        self.poison = Some(reason.into());
        self.poisonings += 1;
        self.from_start = true;
        self.link
            .forget_calls(|call| matches!(call, Call::Journal(_)));
        self.link.note_trouble();
        self.link.not_following(now);
        self.projection.cut();
        self.give_up_connection();
    }

    fn fold(&mut self, form: Form, payload: Option<&Bytes>, now: Instant) {
        if self.link.stale_since(now).is_some() {
            self.stats_changed(now);
        }
        self.link.heard(now);
        let Some(Ok(json)) = payload.map(wire::json_bytes) else {
            return self.poisoned(&"a response without JSON", now);
        };
        let mut lines = Vec::new();
        let followers = &self.followers;
        let mut seen = |seen: info::Seen<'_>| {
            if followers.contains_key(&seen.id) {
                let json = Bytes::from(format!("{}\n", seen.json));
                lines.push(Line {
                    id: seen.id,
                    eventlog_seq: seen.eventlog_seq,
                    live_only: seen.live_only,
                    json,
                });
            }
        };
        let folded = match form {
            Form::Native => self.projection.fold_native(&json, &mut seen),
            Form::Flux => self.projection.fold_flux(&json, &mut seen),
        };
        match folded {
            Ok(folded) => self.folded(&folded, &lines, now),
            Err(error) => self.poisoned(&error, now),
        }
    }

    /// Names the jobs that were set aside, each once.
    fn log_set_aside(&mut self) {
        let aside = self.projection.jobs().set_aside();
        self.aside_logged.retain(|id| aside.contains(*id));
        let new = aside
            .iter()
            .filter(|(id, _)| !self.aside_logged.contains(id));
        let new: Vec<_> = new.map(|(id, why)| (id, why.to_string())).collect();
        for (id, why) in new.iter().take(ASIDE_LOGGED_MAX) {
            tracing::warn!(job = %id, id = id.0, why, "set aside: the list goes on without this job");
        }
        if let Some(more) = new
            .len()
            .checked_sub(ASIDE_LOGGED_MAX)
            .filter(|more| *more > 0)
        {
            tracing::warn!(more, "jobs more are set aside");
        }
        self.aside_logged.extend(new.into_iter().map(|(id, _)| id));
    }

    /// Ends the waits for a job that was in the list and is not any more: it will not come back. About one that the list did not hold when
    /// the wait began the job-manager is asked again.
    fn end_waits(&mut self, id: JobId) {
        let is_aside = self.projection.jobs().set_aside().contains(id);
        for (states, waiting) in self.waiters.take_job(id) {
            let caller = waiting.caller;
            self.waits.give(&caller.key(), 1);
            if waiting.was_listed || is_aside || !self.link.up {
                let refusal = self.absent(&caller, id);
                self.out.refuse(&caller, &refusal);
                continue;
            }
            // Newer than this list, or gone since: a list before this one may have had it. The job-manager knows.
            let asked = (id, states, waiting.attrs, caller);
            if let Err(Call::Exists(asked)) = self.look_up(Call::Exists(Box::new(asked)), id, &[]) {
                let text = "too many look-ups are open, try again later";
                self.out
                    .refuse(&asked.3, &Refusal::new(errno::EAGAIN, text));
            }
        }
    }

    /// Says what could not be read of the nodes, each once.
    fn log_nodes_fault(&mut self) {
        let fault = self.projection.nodes().fault();
        if fault != self.nodes_fault.as_deref() {
            if let Some(fault) = fault {
                tracing::warn!(
                    fault,
                    "an entry of the resource log cannot be read: nodes may be otherwise than shown"
                );
            }
            self.nodes_fault = fault.map(Into::into);
        }
    }

    fn folded(&mut self, folded: &Folded, lines: &[Line], now: Instant) {
        self.log_nodes_fault();
        if folded.caught_up || self.projection.jobs().set_aside().len() != self.aside_logged.len() {
            self.log_set_aside();
        }
        if folded.caught_up {
            self.link.caught_up();
            self.from_start = false;
            self.poison = None;
            self.warned = false;
            tracing::info!(
                jobs = self.projection.jobs().len(),
                seq = self.projection.applied(),
                "the list is up to date"
            );
        }
        for line in lines {
            for stream in self.followers.get(&line.id).into_iter().flatten() {
                let Some(open) = self.streams.get_mut(*stream) else {
                    continue;
                };
                // What a client that is paused missed is read again when it goes on.
                let paused = open.is_paused();
                match &mut open.body {
                    Body::Log(watch) if paused => watch.fall_behind(),
                    Body::Log(watch) => {
                        watch.take_live(line.eventlog_seq, line.live_only, &line.json);
                    }
                    Body::Update(watch) => watch.take_live(&line.json),
                    _ => {}
                }
            }
        }
        let ripe = if folded.swapped {
            self.waiters.take_all_ripe(self.projection.jobs())
        } else {
            self.waiters
                .take_ripe(self.projection.jobs(), &folded.changed)
        };
        for (id, waiting) in ripe {
            self.waits.give(&waiting.caller.key(), 1);
            if let Err(refusal) = self.answer_id(&waiting.caller, id, waiting.attrs) {
                self.out.refuse(&waiting.caller, &refusal);
            }
        }
        if folded.caught_up {
            for (_, stream) in self.streams.iter_mut() {
                match &mut stream.body {
                    Body::Log(watch) if folded.swapped => watch.fall_behind(),
                    Body::Update(watch) => watch.look_again(),
                    _ => {}
                }
            }
            self.streams.wake_all();
        }
        for id in &folded.changed {
            for stream in self.followers.get(id).into_iter().flatten() {
                self.streams.wake(*stream);
            }
            if !self.waiters.is_empty() && self.projection.jobs().get(*id).is_none() {
                self.end_waits(*id);
            }
        }
        if folded.swapped && !self.waiters.is_empty() {
            let jobs = self.projection.jobs();
            let gone: Vec<JobId> = self
                .waiters
                .jobs()
                .filter(|id| jobs.get(*id).is_none())
                .collect();
            for id in gone {
                self.end_waits(id);
            }
        }
        if folded.swapped || folded.caught_up || !folded.changed.is_empty() {
            self.stats_changed(now);
        }
        self.serve_held();
    }
}
