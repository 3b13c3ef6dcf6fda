//! The world: processes, connections, a disk, a clock, and one thing that happens after another.
//!
//! ```text
//!  clients, listeners ── links ── Broker (job-manager's shell) ── Disk          chosen by the seed, one step at a time:
//!        │                links ── Follower (job-info's shell)                  bytes arrive, a turn is taken, a commit ends, a read is
//!        └─ own socket ─────────────────┘                                       done, somebody asks, something breaks, time passes
//!                         links ── Engine (crate sched) ── Shepherds
//! ```
//! What can happen is listed anew for every step (`choices`), one of it is drawn by weight, and done (`perform`). What breaks is drawn in
//! the same way (`faults.rs`). A violation ends the run.

use std::collections::BTreeMap;
use std::path::PathBuf;

use job::JobId;
use sim_info::Follower;
use sim_io::Disk;
use sim_manager::{Broker, Lane};
use wire::Cred;

use crate::client::Client;
use crate::engine::{Engine, Shepherd};
use crate::link::{Actor, Link};
use crate::listener::{Listener, Want};
use crate::note;
use crate::plan::{GUESTS, OWNER, Plan};
use crate::rng::Rng;
use crate::trace::Trace;
use crate::truth::{Fold, Truth};
use crate::violation::Outcome;

/// When every world begins, in seconds since 1970.
pub const START: f64 = 1_700_000_000.0;
/// The instance key.
pub const KEY: &str = "5e5e5e5e";
/// Connections begin here; those below are the broker's own.
const FIRST_LINK: u64 = 1 << 16;
/// Most bytes that may wait for a listener that does not read: high water, and what was handed out at once before that was known.
pub(crate) const UNREAD_MAX: usize = sim_io::HIGH_WATER + journal::limits::BATCH_BYTES_MAX;
/// Steps between two looks at job-info's lists.
const LIST_EVERY: usize = 32;
/// Between two heartbeats of the job-manager.
const HEARTBEAT: f64 = 2.0;

/// What can happen next.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    Up(u64),
    Down(u64),
    Close(u64),
    Begin,
    End,
    StoreEvent,
    Room,
    Found,
    Read(Lane),
    Turn,
    Heartbeat,
    InfoConnect,
    InfoTick,
    EngineConnect,
    JobEnds(JobId),
    Connect(usize),
    ConnectDirect(usize),
    Ask(usize),
    Listen(usize),
    RestartManager,
    RestartInfo,
    Fault(crate::faults::Fault),
    Advance,
}

/// Counts of one run.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counts {
    /// Requests of clients.
    pub requests: u64,
    /// Entries stored.
    pub entries: u64,
    /// Entries that listeners were given.
    pub delivered: u64,
    /// Streams that went on at a cursor.
    pub resumed: u64,
    /// Faults.
    pub faults: u64,
    /// Quiet points.
    pub quiet: u64,
    /// Shutdowns that came to their end.
    pub shutdowns: u64,
}

/// See the module.
pub struct World {
    pub(crate) plan: Plan,
    pub(crate) rng: Rng,
    pub(crate) trace: Trace,
    pub(crate) now: f64,
    pub(crate) wall: f64,
    pub(crate) steps: usize,
    pub(crate) disk: Disk,
    pub(crate) truth: Truth,
    pub(crate) fold: Fold,
    pub(crate) ever_purged: bool,
    pub(crate) broker: Option<Broker>,
    pub(crate) broker_at: f64,
    pub(crate) life: u64,
    pub(crate) stores: u64,
    pub(crate) backup: Option<sim_io::model::Model>,
    pub(crate) info: Option<Follower>,
    pub(crate) info_at: f64,
    pub(crate) info_link: Option<u64>,
    pub(crate) engine: Option<Engine>,
    pub(crate) engine_at: f64,
    pub(crate) engine_link: Option<u64>,
    pub(crate) shepherds: BTreeMap<JobId, Shepherd>,
    pub(crate) clients: Vec<Client>,
    pub(crate) listeners: Vec<Listener>,
    pub(crate) links: BTreeMap<u64, Link>,
    pub(crate) calm: bool,
    pub(crate) counts: Counts,
    pub(crate) next_link: u64,
    pub(crate) commit_at: f64,
    heartbeat_at: f64,
    pub(crate) more: bool,
    pub(crate) statedir: PathBuf,
    steps_of: Vec<(usize, Step)>,
}

fn epoch(store: u64, rng: &mut Rng) -> String {
    format!("{:012x}{store:04x}", rng.bits() >> 16)
}

impl World {
    /// The world of a seed. `statedir`: a directory that holds the instance's key, for job-info to read.
    #[must_use]
    pub fn new(seed: u64, statedir: PathBuf, trace: bool) -> World {
        let mut rng = Rng::new(seed);
        let plan = Plan::new(&mut rng);
        let epoch = epoch(1, &mut rng);
        let clients = (0..plan.clients)
            .map(|at| {
                let guest = at > 0 && rng.one_in(3);
                let guest = if guest {
                    rng.pick(&GUESTS).copied()
                } else {
                    None
                };
                let mut client = Client::new(guest.unwrap_or(OWNER));
                client.others_force = plan.forces;
                client
            })
            .collect();
        let listeners = (0..plan.listeners)
            .map(|_| Listener::new(Want::any(&mut rng, &GUESTS, &[])))
            .collect();
        sim_io::clock::set(START, START);
        World {
            disk: Disk::new(epoch.clone(), plan.queue_max),
            truth: Truth::new(epoch),
            fold: Fold::default(),
            ever_purged: false,
            plan,
            rng,
            trace: Trace::new(trace),
            now: START,
            wall: 0.0,
            steps: 0,
            broker: None,
            broker_at: START,
            life: 0,
            stores: 1,
            backup: None,
            info: None,
            info_at: START,
            info_link: None,
            engine: None,
            engine_at: START,
            engine_link: None,
            shepherds: BTreeMap::new(),
            clients,
            listeners,
            links: BTreeMap::new(),
            calm: false,
            counts: Counts::default(),
            next_link: FIRST_LINK,
            commit_at: START,
            heartbeat_at: START,
            more: false,
            statedir,
            steps_of: Vec::new(),
        }
    }

    /// Runs the whole plan.
    /// # Errors
    /// The first violation.
    pub fn run(&mut self) -> Outcome {
        note!(self, "{:?}", self.plan);
        for round in 0..self.plan.rounds {
            for _ in 0..self.plan.round {
                self.step()?;
            }
            self.settle(round + 1 == self.plan.rounds)?;
            if self.rng.one_in(2) {
                self.back_up();
            }
        }
        Ok(())
    }

    /// Counts so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        Counts {
            requests: self.clients.iter().map(|client| client.requests).sum(),
            entries: self.truth.newest().0,
            delivered: self.listeners.iter().map(|one| one.entries).sum(),
            resumed: self.listeners.iter().map(|one| one.resumed).sum(),
            ..self.counts
        }
    }

    /// Steps taken.
    #[must_use]
    pub fn steps(&self) -> usize {
        self.steps
    }

    /// The sum of the trace.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.trace.sum()
    }

    /// One thing happens.
    /// # Errors
    /// A violation.
    pub fn step(&mut self) -> Outcome {
        self.steps += 1;
        let moved = self.rng.real(0.000_01, 0.000_3);
        self.pass(moved);
        let mut choices = std::mem::take(&mut self.steps_of);
        choices.clear();
        self.choices(&mut choices);
        let total: usize = choices.iter().map(|(weight, _)| weight).sum();
        let mut drawn = self.rng.below(total);
        let chosen = choices.iter().find_map(|(weight, step)| {
            if drawn < *weight {
                return Some(step.clone());
            }
            drawn -= weight;
            None
        });
        self.steps_of = choices;
        self.perform(chosen.unwrap_or(Step::Advance))?;
        if self
            .broker
            .as_ref()
            .is_some_and(sim_manager::Broker::is_over)
        {
            self.shut_down()?;
        }
        if self.steps.is_multiple_of(LIST_EVERY) {
            self.list_agrees()?;
        }
        Ok(())
    }

    /// Time passes.
    pub(crate) fn pass(&mut self, seconds: f64) {
        self.now += seconds;
        sim_io::clock::set(self.now, self.now + self.wall);
    }

    fn choices(&mut self, out: &mut Vec<(usize, Step)>) {
        let now = self.now;
        for link in self.links.values() {
            let id = link.id;
            if link.has_up(now) {
                out.push((10, Step::Up(id)));
            }
            if link.has_down(now) {
                out.push((10, Step::Down(id)));
            }
            if link.cut || link.down.is_closed() || link.up.is_closed() {
                out.push((5, Step::Close(id)));
            }
        }
        if let Some(broker) = &self.broker {
            if self.disk.can_begin() {
                out.push((10, Step::Begin));
            }
            if self.disk.is_writing() && now >= self.commit_at {
                out.push((8, Step::End));
            }
            if self.disk.has_events() {
                out.push((12, Step::StoreEvent));
            }
            if self.disk.has_room_again() {
                out.push((2, Step::Room));
            }
            if broker.has_found() {
                out.push((10, Step::Found));
            }
            for lane in [Lane::Backlog, Lane::Lookup, Lane::Start, Lane::Sweep] {
                if broker.reads(lane) > 0 {
                    out.push((8, Step::Read(lane)));
                }
            }
            if self.more || broker.next_deadline().is_some_and(|due| due <= now) {
                out.push((10, Step::Turn));
            }
            if now >= self.heartbeat_at {
                out.push((5, Step::Heartbeat));
            }
        } else if now >= self.broker_at {
            out.push((4, Step::RestartManager));
        }
        match &mut self.info {
            None if now >= self.info_at => out.push((4, Step::RestartInfo)),
            None => {}
            Some(info) => {
                if info.wants_to_connect() && self.info_link.is_none() {
                    out.push((6, Step::InfoConnect));
                } else if info.next_deadline().is_some_and(|due| due <= now) {
                    out.push((4, Step::InfoTick));
                }
            }
        }
        if self.engine_link.is_none() && now >= self.engine_at && self.broker.is_some() {
            out.push((4, Step::EngineConnect));
        }
        for (id, shepherd) in &self.shepherds {
            if !shepherd.ended && shepherd.ends_at <= now {
                out.push((8, Step::JobEnds(*id)));
            }
        }
        self.choices_of_users(out);
        if !self.calm {
            // Faults are to be rare among all that happens.
            out.iter_mut().for_each(|(weight, _)| *weight *= 6);
            crate::faults::choices(self, out);
        }
        // Time goes on by itself only while nothing else is to be done, or now and then.
        let weight = if out.is_empty() {
            1
        } else if self.calm {
            0
        } else {
            8
        };
        out.push((weight, Step::Advance));
    }

    fn choices_of_users(&self, out: &mut Vec<(usize, Step)>) {
        let now = self.now;
        let served = self.broker.is_some();
        for (at, client) in self.clients.iter().enumerate() {
            if client.link.is_none() {
                if served && now >= client.away_until {
                    out.push((4, Step::Connect(at)));
                }
            } else if !self.calm {
                out.push((self.plan.eager, Step::Ask(at)));
            }
            if !self.calm && client.direct.is_none() && self.info.is_some() {
                out.push((1, Step::ConnectDirect(at)));
            }
        }
        for (at, listener) in self.listeners.iter().enumerate() {
            if !listener.is_open() && served && now >= listener.away_until {
                out.push((4, Step::Listen(at)));
            }
        }
    }

    fn perform(&mut self, step: Step) -> Outcome {
        if !matches!(step, Step::Advance) {
            note!(self, "{step:?}");
        }
        match step {
            Step::Up(id) => self.arrive_up(id)?,
            Step::Down(id) => {
                let bytes = self.some_bytes();
                self.arrive_down(id, bytes)?;
            }
            Step::Close(id) => self.close(id)?,
            Step::Begin => {
                let batches = self.rng.between(1, 8);
                self.disk.begin(batches);
                self.commit_at = self.now + self.rng.part() * self.plan.commit_max;
            }
            Step::End => {
                self.disk.end();
                self.commit_at = self.now + 0.01;
                self.truth.catch_up(&self.disk.model())?;
                self.trace.count(self.truth.newest().0);
            }
            Step::StoreEvent => self.store_event()?,
            Step::Room => self.disk.look_for_room(),
            Step::Found => {
                self.with_broker(Broker::found);
            }
            Step::Read(lane) => {
                if let Some(broker) = &mut self.broker {
                    broker.read(lane);
                }
            }
            Step::Turn => {
                self.with_broker(|_| ());
            }
            Step::Heartbeat => {
                self.heartbeat_at = self.now + HEARTBEAT;
                self.with_broker(Broker::heartbeat);
            }
            Step::InfoConnect => self.info_connect(),
            Step::InfoTick => {
                if let Some(info) = &mut self.info {
                    info.tick();
                    info.pump();
                }
            }
            Step::EngineConnect => self.engine_connect(),
            Step::JobEnds(id) => self.job_ends(id),
            Step::Connect(at) => {
                let userid = self.clients.get(at).map_or(OWNER, |client| client.userid);
                let link = self.connect(Actor::Client(at), cred(userid));
                if let Some(client) = self.clients.get_mut(at) {
                    client.link = link;
                }
            }
            Step::ConnectDirect(at) => self.connect_direct(at),
            Step::Ask(at) => self.ask(at),
            Step::Listen(at) => self.listen(at),
            Step::RestartManager => self.start_manager()?,
            Step::RestartInfo => {
                let jitter = self.rng.bits();
                self.info = Some(Follower::start(self.statedir.clone(), OWNER, jitter));
            }
            Step::Fault(fault) => {
                self.counts.faults += 1;
                self.fault(fault)?;
            }
            Step::Advance => self.advance(),
        }
        Ok(())
    }

    /// Time goes on to what comes next, or a little.
    fn advance(&mut self) {
        let mut next: Option<f64> = None;
        let now = self.now;
        let mut consider = |at: f64| {
            if at > now && at.is_finite() {
                next = Some(next.map_or(at, |next: f64| next.min(at)));
            }
        };
        for link in self.links.values() {
            if link.up.queued_bytes() > 0 {
                consider(link.up_at);
            }
            if link.down.queued_bytes() > 0 {
                consider(link.down_at.max(link.deaf_until));
            }
        }
        if let Some(broker) = &self.broker {
            consider(self.heartbeat_at);
            if self.disk.is_writing() {
                consider(self.commit_at);
            }
            broker.next_deadline().into_iter().for_each(&mut consider);
        } else {
            consider(self.broker_at);
        }
        match &mut self.info {
            None => consider(self.info_at),
            Some(info) => info.next_deadline().into_iter().for_each(&mut consider),
        }
        consider(self.engine_at);
        self.shepherds
            .values()
            .filter(|one| !one.ended)
            .for_each(|one| consider(one.ends_at));
        self.clients.iter().for_each(|one| consider(one.away_until));
        self.listeners
            .iter()
            .for_each(|one| consider(one.away_until));
        let to_next = next.map_or(0.5, |next| next - now + 1e-6);
        let some = if self.calm {
            to_next
        } else {
            to_next.min(self.rng.real(0.0, 1.0))
        };
        self.pass(some);
    }
}

/// The credentials of a connection, as the broker's policy gives them.
pub(crate) fn cred(userid: u32) -> Cred {
    if userid == OWNER {
        Cred::owner(userid)
    } else {
        Cred::guest(userid)
    }
}
