//! `job-list.list`, `list-id`, `list-attrs`, `rank`: what the list says.
//!
//! A listing's ids are fixed when it is asked for; its rows are written when they are sent, a few at a time. A job purged
//! in between has no row; one that changed is shown as it is now, in its old place.

use info::{Attrs, Constraint, Query, QueryError, row, waiters};
use job::{JobId, ResultSet, State, StateSet};
use protocol::job_list::{ListIdRequest, ListRequest, RankRequest, RankResponse};
use serde_json::Value;
use wire::{errno, json_payload};

use crate::{
    core::{Info, Waiting, finish_json, parse},
    link::Call,
    peer::{Caller, ClientKey, Refusal, Via},
    share::{CLIENT_ANSWER_BYTES_MAX, SHORT_LISTING_IDS_MAX},
    streams::{Body, Step},
};

/// Rows written in one step.
const STEP_ROWS: usize = 64;
/// Bytes of rows written in one step, about.
const STEP_BYTES: usize = 32 << 10;
/// Most rows in one response of a listing that asks for several in one.
const BATCH_ROWS_MAX: u64 = 1024;
/// Most bytes of one answer without the streaming flag.
pub(crate) const ANSWER_BYTES_MAX: usize = 32 << 20;
/// What an answer with all rows begins with.
const WHOLE_HEAD: &[u8] = b"{\"jobs\":[";

// One such answer always fits.
const _: () = assert!(ANSWER_BYTES_MAX + STEP_BYTES < CLIENT_ANSWER_BYTES_MAX);

/// One short answer about one job that is sent when there is room.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) id: JobId,
    pub(crate) what: What,
}

/// What is answered of it.
#[derive(Debug)]
pub(crate) enum What {
    /// Its row.
    Attrs(Attrs),
    /// Its status on each node.
    Clients,
}

/// A listing that is being sent.
#[derive(Debug)]
pub(crate) struct Listing {
    ids: Vec<JobId>,
    at: usize,
    attrs: Attrs,
    how: How,
}

#[derive(Debug)]
enum How {
    /// A response for so many rows; whether the first is out.
    Stream { rows: usize, begun: bool },
    /// All in one answer: the rows so far, and how many bytes of them the client's share holds.
    Whole { out: Vec<u8>, held: usize },
}

impl Listing {
    /// It is sent as one answer, which is held until it is whole.
    pub(crate) fn is_whole(&self) -> bool {
        matches!(self.how, How::Whole { .. })
    }
}

/// The attributes of an `attrs` value.
pub(crate) fn attrs(value: &Value) -> Result<Attrs, Refusal> {
    let wrong = || Refusal::payload("attrs must be an array");
    let names = value.as_array().ok_or_else(wrong)?;
    let names: Option<Vec<&str>> = names.iter().map(Value::as_str).collect();
    Ok(Attrs::named(names.ok_or_else(|| {
        Refusal::payload("attrs must be an array of strings")
    })?))
}

/// The constraint of a request, also when it comes in the old form.
fn constraint(ask: &ListRequest<'_>, nodes: usize) -> Result<Constraint, Refusal> {
    if let Some(constraint) = &ask.constraint {
        return Constraint::parse(constraint, nodes)
            .map_err(|error| Refusal::payload(format_args!("constraint object invalid: {error}")));
    }
    let (Some(user), Some(states), Some(results)) = (ask.userid, ask.states, ask.results) else {
        return Ok(Constraint::everything());
    };
    let mut parts = Vec::new();
    match u32::try_from(user) {
        Ok(user) => parts.push(Constraint::User(vec![user])),
        Err(_) if user == -1 => {}
        Err(_) => {
            return Err(Refusal::payload(format_args!(
                "userid: {user} is out of range"
            )));
        }
    }
    if states != 0 {
        parts.push(Constraint::States(StateSet::from_mask(states).map_err(
            |error| Refusal::payload(format_args!("states: {error}")),
        )?));
    }
    if results != 0 {
        // Of jobs that are over; others have no result and stay in.
        parts.push(Constraint::Or(vec![
            Constraint::Not(vec![Constraint::States(State::Inactive.into())]),
            Constraint::Results(
                ResultSet::from_mask(results)
                    .map_err(|error| Refusal::payload(format_args!("results: {error}")))?,
            ),
        ]));
    }
    parts.extend(
        ask.name
            .as_deref()
            .map(|name| Constraint::Name(vec![name.into()])),
    );
    parts.extend(
        ask.queue
            .as_deref()
            .map(|queue| Constraint::Queue(vec![queue.into()])),
    );
    Ok(Constraint::And(parts))
}

impl Info {
    /// Whether the caller may know of a job of `userid` at all.
    pub(crate) fn may_see(&self, caller: &Caller, userid: u32) -> bool {
        !self.config.private || caller.cred().may_act_for(userid)
    }

    pub(crate) fn list(&mut self, caller: &Caller, payload: &[u8]) -> Result<(), Refusal> {
        let ask: ListRequest<'_> = parse(payload)?;
        let limit = usize::try_from(ask.max_entries)
            .map_err(|_| Refusal::payload("max_entries < 0 not allowed"))?;
        let since = ask.since.unwrap_or(0.0);
        if since < 0.0 || !since.is_finite() {
            return Err(Refusal::payload("since < 0.0 not allowed"));
        }
        let attrs = attrs(&ask.attrs)?;
        let client = caller.key();
        self.shares.may_list(&client)?;
        let mut constraint = constraint(&ask, self.projection.jobs().index().hosts_len())?;
        if self.config.private && !caller.cred().is_owner() {
            constraint = Constraint::And(vec![
                Constraint::User(vec![caller.cred().userid]),
                constraint,
            ]);
        }
        let mut ids = Query {
            constraint,
            since,
            limit,
        }
        .run(self.projection.jobs())
        .map_err(|error| match error {
            QueryError::Excessive => Refusal::new(errno::EINVAL, error.to_string()),
        })?;
        ids.shrink_to_fit();
        let rows = ask.batch.unwrap_or(1).clamp(1, BATCH_ROWS_MAX);
        let how = if caller.request.is_streaming() {
            How::Stream {
                rows: usize::try_from(rows).unwrap_or(1),
                begun: false,
            }
        } else {
            How::Whole {
                out: WHOLE_HEAD.to_vec(),
                held: 0,
            }
        };
        let held = ids.len();
        if let Err(refusal) = self.shares.take_listing(&client, held) {
            if !self.shares.is_for_all(&client, held) || !self.drop_unread(&client, held) {
                return Err(refusal);
            }
            self.shares.take_listing(&client, held)?;
        }
        let listing = Listing {
            ids,
            at: 0,
            attrs,
            how,
        };
        if let Err(refusal) = self.open(caller, Body::Listing(listing)) {
            self.shares.give_listing(&client, held);
            return Err(refusal);
        }
        Ok(())
    }

    /// Makes room for a listing of `ids` by ending long ones of clients that do not read, those that have not for longest
    /// first. Whether there is room now.
    fn drop_unread(&mut self, client: &ClientKey, ids: usize) -> bool {
        for id in self.streams.unread() {
            if self.shares.has_room(ids) {
                return true;
            }
            let stream = self.streams.get_mut(id);
            let is_long = stream.is_some_and(|stream| {
                stream.caller.key() != *client
                    && matches!(&stream.body, Body::Listing(listing) if listing.ids.len() > SHORT_LISTING_IDS_MAX)
            });
            if is_long && let Some(stream) = self.streams.take(id) {
                let text = "this listing was not read, and others needed its room; ask again";
                self.out
                    .refuse(&stream.caller, &Refusal::new(errno::EAGAIN, text));
                self.closed(id, &stream);
                self.listings_dropped += 1;
            }
        }
        self.shares.has_room(ids)
    }

    /// Sends the next rows of a listing.
    pub(crate) fn step_listing(&mut self, caller: &Caller, listing: &mut Listing) -> Step {
        let step = self.write_rows(caller, listing);
        match step {
            Ok(step) => step,
            Err(refusal) => {
                self.out.refuse(caller, &refusal);
                Step::Done
            }
        }
    }

    fn write_rows(&mut self, caller: &Caller, listing: &mut Listing) -> Result<Step, Refusal> {
        let jobs = self.projection.jobs();
        let mut sent = 0;
        let mut rows_left = STEP_ROWS;
        match &mut listing.how {
            How::Stream { rows, begun } => {
                while rows_left > 0 && sent < STEP_BYTES && listing.at < listing.ids.len() {
                    let mut out = Vec::with_capacity(512);
                    out.extend_from_slice(b"{\"jobs\":[");
                    let mut in_batch = 0;
                    while in_batch < *rows && out.len() < STEP_BYTES {
                        let Some(&id) = listing.ids.get(listing.at) else {
                            break;
                        };
                        listing.at += 1;
                        let Some(record) = jobs.get(id) else { continue };
                        if in_batch > 0 {
                            out.push(b',');
                        }
                        listing
                            .attrs
                            .write(record, &mut out)
                            .map_err(unknown_attr)?;
                        in_batch += 1;
                    }
                    if in_batch == 0 {
                        break;
                    }
                    rows_left = rows_left.saturating_sub(in_batch);
                    out.push(b']');
                    if !*begun {
                        out.extend_from_slice(b",\"version\":1");
                        self.write_freshness(&mut out);
                        *begun = true;
                    }
                    sent += out.len();
                    self.out.respond(caller, Some(finish_json(out)));
                }
                if listing.at < listing.ids.len() {
                    return Ok(Step::More);
                }
                // Nothing matches in a list that may not be the whole truth: then that is said.
                if !*begun && !self.is_whole_and_fresh() {
                    let mut out = b"{\"jobs\":[],\"version\":1".to_vec();
                    self.write_freshness(&mut out);
                    self.out.respond(caller, Some(finish_json(out)));
                }
                self.out.end(caller);
            }
            How::Whole { out, held } => {
                let before = out.len();
                while rows_left > 0 {
                    let Some(&id) = listing.ids.get(listing.at) else {
                        break;
                    };
                    listing.at += 1;
                    let Some(record) = jobs.get(id) else { continue };
                    if out.len() > WHOLE_HEAD.len() {
                        out.push(b',');
                    }
                    listing.attrs.write(record, out).map_err(unknown_attr)?;
                    rows_left -= 1;
                }
                let more = out.len() - before;
                self.shares.take_bytes(&caller.key(), more)?;
                *held += more;
                if out.len() > ANSWER_BYTES_MAX {
                    let text = format!(
                        "the answer is longer than {ANSWER_BYTES_MAX} bytes: ask with the streaming flag, or for fewer with max_entries"
                    );
                    return Err(Refusal::new(errno::EOVERFLOW, text));
                }
                if listing.at < listing.ids.len() {
                    return Ok(Step::More);
                }
                let mut answer = std::mem::take(out);
                answer.push(b']');
                self.write_freshness(&mut answer);
                self.out.make_room(caller.via, answer.len());
                self.out.respond(caller, Some(finish_json(answer)));
            }
        }
        Ok(Step::Done)
    }

    /// A listing is over: its ids are free.
    pub(crate) fn release_listing(&mut self, caller: &Caller, listing: &Listing) {
        let client = caller.key();
        self.shares.give_listing(&client, listing.ids.len());
        if let How::Whole { held, .. } = listing.how {
            self.shares.give_bytes(&client, held);
        }
    }

    pub(crate) fn list_id(&mut self, caller: &Caller, payload: &[u8]) -> Result<(), Refusal> {
        let ask: ListIdRequest = parse(payload)?;
        let attrs = attrs(&ask.attrs)?;
        let states = match ask.state {
            None => StateSet::EMPTY,
            Some(mask) => StateSet::from_mask(mask)
                .ok()
                .filter(|states| !states.is_empty())
                .ok_or_else(|| Refusal::payload("invalid state specified"))?,
        };
        self.id_lookups += 1;
        let id = ask.id;
        match self.projection.jobs().get(id) {
            Some(record) if !self.may_see(caller, record.job().userid) => {
                Err(Refusal::bare(errno::ENOENT))
            }
            Some(_) => self.answer_or_wait(caller.clone(), id, states, attrs),
            None if self.projection.jobs().set_aside().contains(id) => Err(self.absent(caller, id)),
            None => self.ask_for_unknown(caller, id, states, attrs),
        }
    }

    fn answer_or_wait(
        &mut self,
        caller: Caller,
        id: JobId,
        states: StateSet,
        attrs: Attrs,
    ) -> Result<(), Refusal> {
        if waiters::is_ripe(self.projection.jobs(), id, states) {
            return self.answer_id(&caller, id, attrs);
        }
        let client = caller.key();
        if !self.waits.take(&client, 1) {
            return Err(Refusal::new(
                errno::EAGAIN,
                "too many requests wait for a job, try again later",
            ));
        }
        let waiting = Waiting {
            was_listed: self.projection.jobs().get(id).is_some(),
            caller: caller.kept(),
            attrs,
        };
        self.waiters.add(id, states, waiting).map_err(|full| {
            self.waits.give(&client, 1);
            Refusal::new(errno::EAGAIN, full.to_string())
        })
    }

    /// The list does not hold the job. A request that came down the connection of the journal stream was answered from a
    /// state that includes all that was durable before it, so there is no such job. For others the job-manager knows.
    fn ask_for_unknown(
        &mut self,
        caller: &Caller,
        id: JobId,
        states: StateSet,
        attrs: Attrs,
    ) -> Result<(), Refusal> {
        if caller.via == Via::Broker && self.link.form == info::Form::Native {
            return Err(Refusal::bare(errno::ENOENT));
        }
        if !self.link.up {
            return Err(self.absent(caller, id));
        }
        let call = Call::Exists(Box::new((id, states, attrs, caller.kept())));
        self.look_up(call, id, &[])
            .map_err(|_| Refusal::new(errno::EAGAIN, "too many look-ups are open, try again later"))
    }

    /// The job-manager's word on a job the list did not hold when it was asked for.
    pub(crate) fn exists(
        &mut self,
        asked: (JobId, StateSet, Attrs, Caller),
        refusal: Option<Refusal>,
    ) {
        let (id, states, attrs, caller) = asked;
        if let Some(Refusal { errnum, .. }) = refusal {
            return self.out.refuse(&caller, &Refusal::bare(errnum));
        }
        if let Err(refusal) = self.answer_or_wait(caller.clone(), id, states, attrs) {
            self.out.refuse(&caller, &refusal);
        }
    }

    /// Answers `list-id`: at once, or when there is room.
    pub(crate) fn answer_id(
        &mut self,
        caller: &Caller,
        id: JobId,
        attrs: Attrs,
    ) -> Result<(), Refusal> {
        if self.out.has_room(caller.via) {
            return self.write_id(caller, id, &attrs);
        }
        let what = What::Attrs(attrs);
        self.open(caller, Body::Row(Row { id, what })).map(|_| ())
    }

    pub(crate) fn step_row(&mut self, caller: &Caller, row: &Row) -> Step {
        let written = match &row.what {
            What::Attrs(attrs) => self.write_id(caller, row.id, attrs),
            What::Clients => self.write_clients(caller, row.id),
        };
        if let Err(refusal) = written {
            self.out.refuse(caller, &refusal);
        }
        Step::Done
    }

    fn write_id(&self, caller: &Caller, id: JobId, attrs: &Attrs) -> Result<(), Refusal> {
        let record = self
            .projection
            .jobs()
            .get(id)
            .ok_or_else(|| self.absent(caller, id))?;
        if !self.may_see(caller, record.job().userid) {
            return Err(Refusal::bare(errno::ENOENT));
        }
        let mut out = Vec::with_capacity(512);
        out.extend_from_slice(b"{\"job\":");
        attrs.write(record, &mut out).map_err(unknown_attr)?;
        self.write_freshness(&mut out);
        self.out.respond(caller, Some(finish_json(out)));
        Ok(())
    }

    pub(crate) fn list_attrs(&self, caller: &Caller) {
        let mut out = b"{\"attrs\":[".to_vec();
        for attr in info::Attr::ALL {
            row::text(&mut out, attr.name());
            out.push(b',');
        }
        row::text(&mut out, row::ATTR_EVERY);
        out.push(b']');
        self.out.respond(caller, Some(finish_json(out)));
    }

    pub(crate) fn rank(&self, caller: &Caller, payload: &[u8]) -> Result<(), Refusal> {
        let RankRequest { id } = parse(payload)?;
        let jobs = self.projection.jobs();
        let seen = jobs
            .get(id)
            .filter(|record| self.may_see(caller, record.job().userid));
        let (group, rank) = seen
            .and_then(|_| jobs.rank(id))
            .ok_or_else(|| self.absent(caller, id))?;
        let answer = RankResponse {
            id,
            group: group.name().into(),
            rank: rank as u64,
            seq: self.projection.applied(),
            stale: self.stale_seconds(),
        };
        self.out.respond(caller, Some(json_payload(&answer)));
        Ok(())
    }
}

fn unknown_attr(unknown: info::UnknownAttr) -> Refusal {
    Refusal::new(errno::EINVAL, unknown.to_string())
}
