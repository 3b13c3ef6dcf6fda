//! The allocations of a job: one on each rank of its R, in the order of the ranks.
//!
//! They are derived when they are asked for: what a job keeps are runs of ranks on runs of nodes ([`Runs`]) and, only where an
//! `alloc-status` entry said so, what differs from what the job's own entries imply:
//!
//! ```text
//!  job                             its allocations that nothing else was said of
//!  has R, not started              pending
//!  started                         running
//!  finish 0                        complete
//!  finish ≠ 0                      failed: exit code, signal, timeout, what the exception says
//!   … after a fatal `cancel`       complete, desired `stop`, canceled
//!   … after a fatal `node-fail`    lost
//!  ended without `finish`          started: lost; not started: canceled or failed
//! ```
//! An allocation that is complete, failed or lost by an `alloc-status` stays so.

use std::collections::HashMap;

use job::{
    AllocStatus, Job, Timestamp,
    allocs::{self, Reason},
};

use crate::{
    nodes::{NodeIx, Nodes},
    record::{Allocation, Record},
};

/// Ranks that follow each other, on nodes that follow each other in the table of nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// The first rank.
    pub rank: u32,
    /// Its node.
    pub node: NodeIx,
    /// How many.
    pub len: u32,
}

/// The ranks of a job and their nodes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Runs(Box<[Run]>);

impl Runs {
    pub(crate) fn of(places: impl Iterator<Item = (u32, NodeIx)>) -> Self {
        let mut runs: Vec<Run> = Vec::new();
        for (rank, node) in places {
            match runs.last_mut() {
                Some(run)
                    if run.rank + run.len == rank && run.node.0.wrapping_add(run.len) == node.0 =>
                {
                    run.len += 1;
                }
                _ => runs.push(Run { rank, node, len: 1 }),
            }
        }
        Self(runs.into())
    }

    /// The nodes are at other places now: that of `n` is `moved[n]`.
    pub(crate) fn move_nodes(&mut self, moved: &[NodeIx]) {
        let place = |node: NodeIx| moved.get(node.0 as usize).copied().unwrap_or(node);
        match &mut *self.0 {
            [] => {}
            // As most are.
            [Run { node, len: 1, .. }] => *node = place(*node),
            runs => {
                let places = runs.iter().flat_map(|run| {
                    (0..run.len).map(|at| (run.rank + at, place(NodeIx(run.node.0 + at))))
                });
                *self = Self::of(places);
            }
        }
    }

    /// The runs, by rank.
    #[must_use]
    pub fn as_slice(&self) -> &[Run] {
        &self.0
    }
}

/// When an allocation, or all of a job, came or changed.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Stamp {
    /// The entry.
    pub seq: u64,
    /// Its time.
    pub time: Timestamp,
}

/// One allocation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Alloc<'a> {
    /// Its rank.
    pub rank: u32,
    /// Its node.
    pub node: NodeIx,
    /// How it is.
    pub status: AllocStatus,
    /// Whether it is to stop, or was to.
    pub desired_stop: bool,
    /// Why, in a few words, where it is known.
    pub reason: Option<&'a str>,
    /// How its processes ended.
    pub wait_status: Option<i32>,
    /// When it came.
    pub created: Stamp,
    /// When it last changed.
    pub modified: Stamp,
}

/// Allocations of which the same is to be said.
#[derive(Debug, Clone)]
struct Segment<'a> {
    run: Run,
    status: AllocStatus,
    desired_stop: bool,
    wait_status: Option<i32>,
    reason: Words<'a>,
    modified: Stamp,
}

/// Why something is so.
#[derive(Debug, Clone, Copy)]
enum Words<'a> {
    None,
    /// As an entry has it.
    Said(&'a str),
    /// Made here: which of [`Texts`].
    Made(u32),
}

/// Reasons in words, each made once.
#[derive(Debug, Clone, Default)]
struct Texts<'a> {
    made: Vec<Box<str>>,
    /// Those of wait statuses, of which there can be many.
    ended: HashMap<i32, u32>,
    /// All others.
    others: Vec<(Reason<'a>, u32)>,
}

impl<'a> Texts<'a> {
    fn words(&mut self, reason: Option<Reason<'a>>) -> Words<'a> {
        let number = match reason {
            None => return Words::None,
            Some(Reason::Said(text)) => return Words::Said(text),
            Some(Reason::Ended(status)) => match self.ended.get(&status.0) {
                Some(&number) => number,
                None => {
                    let number = self.make(Reason::Ended(status));
                    self.ended.insert(status.0, number);
                    number
                }
            },
            // What the job's own entries imply, so of one kind.
            Some(reason) => match self.others.iter().find(|(made, _)| *made == reason) {
                Some((_, number)) => *number,
                None => {
                    let number = self.make(reason);
                    self.others.push((reason, number));
                    number
                }
            },
        };
        Words::Made(number)
    }

    fn make(&mut self, reason: Reason<'a>) -> u32 {
        self.made.push(reason.to_string().into());
        u32::try_from(self.made.len() - 1).unwrap_or(u32::MAX)
    }
}

/// The allocations of one job, as they are now.
#[derive(Debug, Clone)]
pub struct Allocs<'a> {
    segments: Vec<Segment<'a>>,
    texts: Texts<'a>,
    created: Stamp,
    len: usize,
}

impl<'a> Allocs<'a> {
    /// Those of a job; none before it has resources.
    #[must_use]
    pub fn of(record: &'a Record, _nodes: &Nodes) -> Self {
        let mut allocs = Self {
            segments: Vec::new(),
            texts: Texts::default(),
            created: Stamp::default(),
            len: 0,
        };
        if let Some(held) = record.held() {
            allocs.created = held.created;
            allocs.cut(record.job(), held);
        }
        allocs
    }

    /// Cuts the runs where what was said of single allocations begins and ends.
    fn cut(&mut self, job: &'a Job, held: &Allocation) {
        let Some(implied) = allocs::implied(job) else {
            return;
        };
        let said = job.allocs.as_deref();
        self.segments
            .reserve(held.runs.as_slice().len() + said.map_or(0, job::Allocs::len));
        let mut said = said.into_iter().flat_map(|said| said.runs()).peekable();
        for &run in held.runs.as_slice() {
            self.len += run.len as usize;
            let (mut from, end) = (run.rank, run.rank + run.len);
            while from < end {
                while said.next_if(|(_, last, _)| *last < from).is_some() {}
                let (to, here) = match said.peek() {
                    Some((first, _, _)) if *first > from => ((*first).min(end), None),
                    Some((_, last, said)) => (last.saturating_add(1).min(end), Some(*said)),
                    None => (end, None),
                };
                let view = allocs::view(job, implied, here);
                let modified = match view.said {
                    // What the job's own entries say of it may be newer: that it is to stop.
                    Some(said) if said.status.is_terminal() || said.seq.0 > held.modified.seq => {
                        Stamp {
                            seq: said.seq.0,
                            time: said.time,
                        }
                    }
                    _ => held.modified,
                };
                self.segments.push(Segment {
                    run: Run {
                        rank: from,
                        node: NodeIx(run.node.0 + (from - run.rank)),
                        len: to - from,
                    },
                    status: view.status,
                    desired_stop: view.stop,
                    wait_status: view.wait_status,
                    reason: self.texts.words(view.reason),
                    modified,
                });
                from = to;
            }
        }
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Each of them, by rank.
    pub fn iter(&self) -> impl Iterator<Item = Alloc<'_>> + '_ {
        self.segments
            .iter()
            .flat_map(move |segment| (0..segment.run.len).map(move |at| self.at(segment, at)))
    }

    /// The one on a rank.
    #[must_use]
    pub fn get(&self, rank: u32) -> Option<Alloc<'_>> {
        let after = self
            .segments
            .partition_point(|segment| segment.run.rank <= rank);
        let segment = self.segments.get(after.checked_sub(1)?)?;
        let at = rank - segment.run.rank;
        (at < segment.run.len).then(|| self.at(segment, at))
    }

    fn at<'s>(&'s self, segment: &'s Segment<'a>, at: u32) -> Alloc<'s> {
        let made = |number| self.texts.made.get(number as usize);
        Alloc {
            rank: segment.run.rank + at,
            node: NodeIx(segment.run.node.0 + at),
            status: segment.status,
            desired_stop: segment.desired_stop,
            reason: match segment.reason {
                Words::None => None,
                Words::Said(text) => Some(text),
                Words::Made(number) => made(number).map(|text| &**text),
            },
            wait_status: segment.wait_status,
            created: self.created,
            modified: segment.modified,
        }
    }
}

/// Whether a job is stopped by its user.
pub(crate) fn is_stopped(job: &Job) -> bool {
    let fatal = job.exception.as_deref().filter(|_| job.fatal);
    fatal.is_some_and(|exception| exception.severity == 0 && exception.kind == "cancel")
}
