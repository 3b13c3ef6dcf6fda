//! The ring of what changed, and readers' places in it.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::Arc,
};

use bytes::Bytes;
use info::{Allocs, Changes, JobChange, Node, Nodes, Projection, Record, What};

use super::{
    event::{self, EVENTS_LINE_MAX, JOB_EVENT},
    topics::Subscription,
};
use crate::answer::HttpError;

/// Changes one call of [`Events::next`] looks at, at most.
const LOOK_MAX: usize = 4096;
/// Bytes of one line after which no event is added to it.
const LINE_BYTES_MAX: usize = 1 << 20;
/// A job with more runs of allocations, or a longer list of nodes, is not copied: it is shown as it is when it is sent.
const COPY_RUNS_MAX: usize = 256;
/// Bytes of the texts of such a list.
const COPY_BYTES_MAX: usize = 4096;

/// Bounds.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Most changes that are kept.
    pub changes: usize,
    /// Most bytes they may take, written JSON not counted.
    pub bytes: usize,
    /// Most bytes of written JSON that are kept.
    pub json_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            changes: 65_536,
            bytes: 32 << 20,
            json_bytes: 16 << 20,
        }
    }
}

/// How a job was when it changed.
#[derive(Debug)]
enum Was {
    Kept(Box<Record>),
    /// Too large to keep.
    Asked,
    Gone,
}

#[derive(Debug)]
enum Change {
    Job {
        change: JobChange,
        was: Was,
        /// Its own event, once written.
        own: Option<Bytes>,
        /// That of its allocation, if it is one.
        only: Option<Bytes>,
    },
    Node {
        node: Box<Node>,
        seq: u64,
        own: Option<Bytes>,
    },
}

impl Change {
    fn seq(&self) -> u64 {
        match self {
            Self::Job { change, .. } => change.seq,
            Self::Node { seq, .. } => *seq,
        }
    }

    fn bytes(&self) -> usize {
        let held = match self {
            Self::Job {
                was: Was::Kept(record),
                ..
            } => {
                let allocation = record.allocation();
                let texts =
                    allocation.map_or(0, |held| held.ranks.len() + held.nodelist.len() + 128);
                size_of::<Record>() + texts
            }
            Self::Job { .. } => 0,
            Self::Node { .. } => size_of::<Node>(),
        };
        size_of::<Self>() + held
    }

    /// Forgets what was written; how much that was.
    fn forget(&mut self) -> usize {
        let len = |json: Option<Bytes>| json.map_or(0, |json| json.len());
        match self {
            Self::Job { own, only, .. } => len(own.take()) + len(only.take()),
            Self::Node { own, .. } => len(own.take()),
        }
    }
}

/// What changed between two folds.
#[derive(Debug)]
pub(super) struct Line {
    index: u64,
    /// All of it came after this.
    from: u64,
    changes: Vec<Change>,
    bytes: usize,
    pub(super) json_bytes: usize,
}

/// Where a reader begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// With the oldest that is kept.
    Oldest,
    /// With what comes next.
    Now,
    /// With this index, if all from there on is kept.
    At(u64),
}

impl Start {
    /// Reads the `index` parameter: a number, 0 or nothing for the oldest, `now` for what comes next.
    ///
    /// # Errors
    /// [`HttpError`] 400.
    pub fn parse(text: Option<&str>) -> Result<Self, HttpError> {
        match text {
            None | Some("") => Ok(Self::Oldest),
            Some("now") => Ok(Self::Now),
            Some(text) => match text
                .parse::<i64>()
                .ok()
                .and_then(|index| u64::try_from(index).ok())
            {
                Some(0) => Ok(Self::Oldest),
                Some(index) => Ok(Self::At(index)),
                None => Err(HttpError::bad(format!(
                    "Unable to parse index: expected a number from 0, or \"now\", got {text:?}"
                ))),
            },
        }
    }
}

/// A reader's place: all up to `after` is told, and of the line behind it the first `change` changes, and the first `alloc` allocations
/// of the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    life: u64,
    after: u64,
    change: usize,
    alloc: usize,
}

impl Cursor {
    /// The index up to which all is told.
    #[must_use]
    pub fn index(&self) -> u64 {
        self.after
    }
}

/// What comes next for a reader.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Next {
    /// A line, with its end.
    Line(Bytes),
    /// Nothing matched among those that were looked at; there are more.
    More,
    /// Nothing more for now.
    Idle,
    /// It fell behind, or the list became another: a last line that says so.
    Over(Bytes),
}

/// What changed, for as long as it is kept.
#[derive(Debug)]
pub struct Events {
    limits: Limits,
    pub(super) lines: VecDeque<Line>,
    pub(super) changes: usize,
    pub(super) bytes: usize,
    pub(super) json_bytes: usize,
    /// Every change after it is here.
    floor: u64,
    newest: u64,
    /// Whether anything is known.
    begun: bool,
    /// Counts journals.
    life: u64,
    epoch: Option<Arc<str>>,
}

impl Events {
    /// Nothing yet.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            lines: VecDeque::new(),
            changes: 0,
            bytes: 0,
            json_bytes: 0,
            floor: 0,
            newest: 0,
            begun: false,
            life: 0,
            epoch: None,
        }
    }

    /// Bytes that are held, about.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.bytes + self.json_bytes
    }

    /// The first index that can be asked for, and the newest.
    #[must_use]
    pub fn range(&self) -> (u64, u64) {
        (self.floor + 1, self.newest)
    }

    /// Takes in what changed since it was last told.
    pub fn changed(&mut self, projection: &Projection, changes: &Changes) {
        if self.is_of_another(projection) {
            self.restart(changes.to_seq);
            self.life += 1;
            return;
        }
        let is_missed = self.begun && changes.from_seq > self.newest;
        if changes.reset || is_missed {
            if changes.to_seq != self.newest || !self.begun {
                self.restart(changes.to_seq);
            }
            return;
        }
        if !self.begun {
            self.restart(changes.from_seq);
        }
        self.newest = self.newest.max(changes.to_seq);
        let line = line_of(projection, changes);
        if let Some(line) = line {
            self.changes += line.changes.len();
            self.bytes += line.bytes;
            self.lines.push_back(line);
        }
        while self.changes > self.limits.changes || self.bytes > self.limits.bytes {
            let Some(line) = self.lines.pop_front() else {
                break;
            };
            self.changes -= line.changes.len();
            self.bytes -= line.bytes;
            self.json_bytes -= line.json_bytes;
            self.floor = line.index;
        }
    }

    /// Whether the list is that of another journal than before; notes which it is.
    fn is_of_another(&mut self, projection: &Projection) -> bool {
        let Some((_, epoch)) = projection.cursor() else {
            return false;
        };
        if self.epoch.as_deref() == Some(epoch) {
            return false;
        }
        self.epoch.replace(epoch.into()).is_some()
    }

    /// Nothing is known before this.
    fn restart(&mut self, at: u64) {
        self.lines.clear();
        (self.changes, self.bytes, self.json_bytes) = (0, 0, 0);
        (self.floor, self.newest) = (at, at);
        self.begun = true;
    }

    /// A reader's place.
    ///
    /// # Errors
    /// [`HttpError`]: 410 for an index of which something is not kept any more, or of another journal; 400 for one that is still to come.
    pub fn subscribe(
        &mut self,
        projection: &Projection,
        start: Start,
        epoch: Option<&str>,
    ) -> Result<Cursor, HttpError> {
        if !self.begun {
            self.is_of_another(projection);
            self.restart(projection.applied());
        }
        let cursor = |after| Cursor {
            life: self.life,
            after,
            change: 0,
            alloc: 0,
        };
        if let (Start::At(index), Some(asked)) = (start, epoch)
            && self.epoch.as_deref().is_some_and(|known| known != asked)
        {
            let known = self.epoch.as_deref().unwrap_or_default();
            return Err(HttpError::new(
                410,
                format!(
                    "index {index} is of epoch {asked}, this is epoch {known}: {}",
                    self.kept()
                ),
            ));
        }
        match start {
            Start::Oldest => Ok(cursor(self.floor)),
            Start::Now => Ok(cursor(self.newest)),
            Start::At(index) if index <= self.floor => Err(HttpError::new(
                410,
                format!("index {index} is too old: {}", self.kept()),
            )),
            Start::At(index) if index > self.newest + 1 => Err(HttpError::bad(format!(
                "index {index} is in the future: {}",
                self.kept()
            ))),
            Start::At(index) => Ok(cursor(index - 1)),
        }
    }

    /// What is kept, in words.
    fn kept(&self) -> String {
        let (oldest, newest) = self.range();
        if oldest > newest {
            format!(
                "no event is kept, the newest was {newest}; index=0 or index=now begins with the next"
            )
        } else {
            format!(
                "events from {oldest} to {newest} are kept; index=0 begins with the oldest, index=now with the next"
            )
        }
    }

    /// The next line for a reader; its place moves.
    pub fn next(
        &mut self,
        projection: &Projection,
        wants: &Subscription,
        cursor: &mut Cursor,
    ) -> Next {
        if cursor.life != self.life || cursor.after < self.floor {
            return Next::Over(self.over(cursor));
        }
        let mut looked = 0;
        let first = self
            .lines
            .partition_point(|line| line.index <= cursor.after);
        let mut writer = Writer {
            nodes: projection.nodes(),
            projection,
            wants,
            out: Vec::new(),
            events: 0,
            kept: 0,
        };
        for line in self.lines.iter_mut().skip(first) {
            let from = line.from;
            while let Some(change) = line.changes.get_mut(cursor.change) {
                if looked == LOOK_MAX && writer.events == 0 {
                    return Next::More;
                }
                looked += 1;
                let is_done = writer.add(change, from, cursor.alloc);
                if let Err(told) = is_done {
                    cursor.alloc = told;
                    break;
                }
                cursor.change += 1;
                cursor.alloc = 0;
                if writer.is_full() {
                    break;
                }
            }
            let index = line.index;
            line.json_bytes += writer.kept;
            self.json_bytes += std::mem::take(&mut writer.kept);
            if cursor.change == line.changes.len() {
                (cursor.after, cursor.change) = (index, 0);
            }
            if writer.events > 0 {
                let text = writer.line(index);
                self.trim();
                return Next::Line(text);
            }
        }
        cursor.after = self.newest;
        Next::Idle
    }

    /// Forgets the JSON of the oldest lines where there is too much.
    fn trim(&mut self) {
        for line in &mut self.lines {
            if self.json_bytes <= self.limits.json_bytes {
                break;
            }
            let forgotten: usize = line.changes.iter_mut().map(Change::forget).sum();
            line.json_bytes -= forgotten;
            self.json_bytes -= forgotten;
        }
    }

    fn over(&self, cursor: &Cursor) -> Bytes {
        let (oldest, newest) = self.range();
        let why = if cursor.life == self.life {
            "event dropped from buffer"
        } else {
            "the journal is another one"
        };
        let line = serde_json::json!({
            "Error": format!("{why}: all up to {} was sent; {}", cursor.after, self.kept()),
            "Oldest": oldest,
            "Newest": newest,
        });
        Bytes::from(format!("{line}\n"))
    }
}

/// What changed, with the copies that are kept.
fn line_of(projection: &Projection, changes: &Changes) -> Option<Line> {
    let mut jobs: HashMap<_, usize> = HashMap::with_capacity(changes.jobs.len());
    let mut merged: Vec<JobChange> = Vec::with_capacity(changes.jobs.len());
    for change in &changes.jobs {
        match jobs.get(&change.id).and_then(|&at| merged.get_mut(at)) {
            Some(known) => {
                known.what = known.what.and(change.what);
                known.seq = known.seq.max(change.seq);
            }
            None => {
                jobs.insert(change.id, merged.len());
                merged.push(*change);
            }
        }
    }
    let is_told = |change: &JobChange| change.what.intersects(JOB_EVENT.and(What::ALLOCS));
    let of_jobs = merged
        .into_iter()
        .filter(is_told)
        .map(|change| Change::Job {
            was: match projection.jobs().get(change.id) {
                None => Was::Gone,
                Some(record) if is_small(record) => Was::Kept(Box::new(record.clone())),
                Some(_) => Was::Asked,
            },
            change,
            own: None,
            only: None,
        });
    let mut all: Vec<Change> = of_jobs.collect();
    let mut nodes: BTreeMap<&str, u64> = BTreeMap::new();
    for (name, seq) in &changes.nodes {
        nodes.insert(name, *seq);
    }
    for (name, seq) in nodes {
        if let Some(node) = projection.nodes().by_name(name) {
            let (node, own) = (Box::new(node.clone()), None);
            all.push(Change::Node { node, seq, own });
        }
    }
    all.sort_by_key(Change::seq);
    let index = all.last()?.seq();
    Some(Line {
        index,
        from: changes.from_seq,
        bytes: all.iter().map(Change::bytes).sum(),
        changes: all,
        json_bytes: 0,
    })
}

fn is_small(record: &Record) -> bool {
    let said = record
        .job()
        .allocs
        .as_deref()
        .map_or(0, |allocs| allocs.len());
    let texts = record
        .allocation()
        .map_or(0, |held| held.ranks.len() + held.nodelist.len());
    said <= COPY_RUNS_MAX && texts <= COPY_BYTES_MAX
}

/// Writes events into one line.
struct Writer<'w> {
    nodes: &'w Nodes,
    projection: &'w Projection,
    wants: &'w Subscription,
    out: Vec<u8>,
    events: usize,
    /// Bytes of JSON that are kept since last asked.
    kept: usize,
}

impl Writer<'_> {
    fn is_full(&self) -> bool {
        self.events >= EVENTS_LINE_MAX || self.out.len() >= LINE_BYTES_MAX
    }

    fn begin(&mut self) -> &mut Vec<u8> {
        self.events += 1;
        self.out.extend_from_slice(if self.events == 1 {
            b"{\"Events\":["
        } else {
            b","
        });
        &mut self.out
    }

    /// Writes what is there already, or writes it for all.
    fn shared(&mut self, slot: &mut Option<Bytes>, write: impl FnOnce(&mut Vec<u8>)) {
        let json = match slot {
            Some(json) => json.clone(),
            None => {
                let mut json = Vec::new();
                write(&mut json);
                let json = Bytes::from(json);
                self.kept += json.len();
                slot.insert(json).clone()
            }
        };
        self.begin().extend_from_slice(&json);
    }

    /// Adds the events of one change, but for its first `told` allocations. `Err`: the line is full, so many are told.
    fn add(&mut self, change: &mut Change, from: u64, told: usize) -> Result<(), usize> {
        let (change, was, own, only) = match change {
            Change::Node { node, seq, own } => {
                if self.wants.wants_node(&node.name) {
                    self.shared(own, |out| {
                        event::node(out, *seq, node, node.create_seq > from)
                    });
                }
                return Ok(());
            }
            Change::Job {
                change,
                was,
                own,
                only,
            } => (change, was, own, only),
        };
        let record = match was {
            Was::Kept(record) => Some(&**record),
            Was::Asked => match self.projection.jobs().get(change.id) {
                Some(record) => Some(record),
                // Gone since; that comes with an index of its own.
                None => return Ok(()),
            },
            Was::Gone => None,
        };
        let wants_own =
            change.what.intersects(JOB_EVENT) && self.wants.wants_job(change.id, change.userid);
        if told == 0 && wants_own {
            match record {
                Some(record) => self.shared(own, |out| event::job(out, change, record)),
                None => self.shared(own, |out| event::job_gone(out, change.seq, change.id)),
            }
        }
        let Some(record) = record.filter(|_| change.what.contains(What::ALLOCS)) else {
            return Ok(());
        };
        if !self.wants.wants_some_of(record) {
            return Ok(());
        }
        let allocs = Allocs::of(record, self.nodes);
        let is_only = allocs.len() == 1;
        for (number, alloc) in allocs.iter().enumerate().skip(told) {
            if alloc.modified.seq <= from || !self.wants.wants_alloc(record, &alloc) {
                continue;
            }
            if self.is_full() {
                return Err(number);
            }
            let is_new = alloc.created.seq > from;
            if is_only {
                let nodes = self.nodes;
                self.shared(only, |out| {
                    event::alloc(out, nodes, record, &alloc, 0, is_new)
                });
            } else {
                let nodes = self.nodes;
                event::alloc(self.begin(), nodes, record, &alloc, number, is_new);
            }
        }
        Ok(())
    }

    fn line(mut self, index: u64) -> Bytes {
        self.out
            .extend_from_slice(format!("],\"Index\":{index}}}\n").as_bytes());
        Bytes::from(self.out)
    }
}
