//! One page: which jobs are on it, in order, kept true change by change.
//!
//! ```text
//!  places  ─────┬──────────────────────────┬───┬──────────────────────►   ascending in the direction of the page
//!             start     members: the first `limit` … │+1             all others
//!               └───── looked at, all of it ─────────┘looked         not looked at, or further pages
//! ```
//! A place is the seq of a job's last modification, turned round when the newest come first: so a page ascends in either direction. The
//! member after the last one of the page is the first of the next: it is kept, because its place is the next token.
//!
//! Invariant: every job that belongs to the query and has a place in `start..looked` is a member. A page that lost a member has to be
//! looked on ([`Page::fill`]) before it is whole again.

use info::{ModifyKey, Projection, Record};
use job::JobId;

use crate::answer::HttpError;

/// The end of all places: nothing is behind it.
const END: u64 = u64::MAX;

/// A job on a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Member {
    /// Its place.
    pub(crate) at: u64,
    /// The job.
    pub(crate) id: JobId,
    /// What its row said when it was last shown; 0: not known.
    pub(crate) sign: u64,
}

/// Whether a job belongs to the query; what it took to find out is added to the number.
pub(crate) type Belongs<'a> = &'a mut dyn FnMut(&Record, &mut usize) -> Result<bool, HttpError>;

/// How one change was met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Met {
    /// Nothing on the page is another.
    Nothing,
    /// A job came, went or moved.
    Membership,
}

/// The jobs of one page.
#[derive(Debug)]
pub(crate) struct Page {
    reverse: bool,
    start: u64,
    limit: usize,
    members: Vec<Member>,
    looked: u64,
    /// Jobs that became members, and that are none any more, since last taken.
    joined: Vec<JobId>,
    left: Vec<JobId>,
}

impl Page {
    /// A page of which nothing was looked at.
    pub(crate) fn new(reverse: bool, token: Option<u64>, limit: u32) -> Self {
        let start = token.map_or(0, |seq| place(reverse, seq));
        Self {
            reverse,
            start,
            limit: limit as usize,
            members: Vec::new(),
            looked: start,
            joined: Vec::new(),
            left: Vec::new(),
        }
    }

    /// The place of a seq on this page.
    pub(crate) fn place(&self, seq: u64) -> u64 {
        place(self.reverse, seq)
    }

    /// The seq of a place.
    pub(crate) fn seq(&self, place: u64) -> u64 {
        self::place(self.reverse, place)
    }

    /// The members of the page, without the first of the next.
    pub(crate) fn shown(&self) -> &[Member] {
        self.members.get(..self.limit).unwrap_or(&self.members)
    }

    /// The same, to note what was shown.
    pub(crate) fn shown_mut(&mut self) -> &mut [Member] {
        let end = self.members.len().min(self.limit);
        self.members.get_mut(..end).unwrap_or_default()
    }

    /// What a member's row says now is not known.
    pub(crate) fn forget_sign(&mut self, index: usize) {
        if let Some(member) = self.members.get_mut(index) {
            member.sign = 0;
        }
    }

    /// All members.
    pub(crate) fn members(&self) -> &[Member] {
        &self.members
    }

    /// The first job of the next page.
    pub(crate) fn next(&self) -> Option<&Member> {
        self.members.get(self.limit)
    }

    /// Whether the page is whole, and whether there is a next one is known.
    pub(crate) fn is_whole(&self) -> bool {
        self.members.len() > self.limit || self.looked == END
    }

    /// Places that were looked at, from `.0` up to but without `.1`.
    pub(crate) fn looked(&self) -> (u64, u64) {
        (self.start, self.looked)
    }

    /// Places in which a job that was there would have been on the page.
    pub(crate) fn covers(&self, at: u64) -> bool {
        let end = match self.next() {
            Some(_) => self.shown().last().map_or(self.start, |last| last.at),
            None => END,
        };
        (self.start..=end).contains(&at)
    }

    /// Where a job stands on the page, if it does.
    pub(crate) fn find(&self, id: JobId, at: Option<u64>) -> Option<usize> {
        if let Some(at) = at
            && let Ok(index) = self.members.binary_search_by_key(&at, |member| member.at)
            && self
                .members
                .get(index)
                .is_some_and(|member| member.id == id)
        {
            return Some(index);
        }
        self.members.iter().position(|member| member.id == id)
    }

    /// Whether a job with this place is a member.
    pub(crate) fn has(&self, id: JobId, at: u64) -> bool {
        let found = self.members.binary_search_by_key(&at, |member| member.at);
        found.is_ok_and(|index| {
            self.members
                .get(index)
                .is_some_and(|member| member.id == id)
        })
    }

    /// Whether this place is behind all that matter. If so, what is there and further on counts as not looked at.
    pub(crate) fn leaves_out(&mut self, at: u64) -> bool {
        let behind =
            self.members.len() > self.limit && self.members.last().is_some_and(|last| at > last.at);
        if behind {
            self.looked = self.looked.min(at);
        }
        behind
    }

    /// Jobs that became members and that are none any more.
    pub(crate) fn take_moves(&mut self) -> (Vec<JobId>, Vec<JobId>) {
        (
            std::mem::take(&mut self.joined),
            std::mem::take(&mut self.left),
        )
    }

    /// Forgets all that was looked at.
    pub(crate) fn clear(&mut self) -> Vec<Member> {
        self.left
            .extend(self.members.iter().map(|member| member.id));
        self.looked = self.start;
        std::mem::take(&mut self.members)
    }

    /// Looks on in the order until the page is whole or the `budget` of looks is used up.
    ///
    /// # Errors
    /// [`HttpError`]: whether one of them belongs to the query cannot be said.
    pub(crate) fn fill(
        &mut self,
        projection: &Projection,
        budget: &mut usize,
        belongs: Belongs<'_>,
    ) -> Result<(), HttpError> {
        if self.is_whole() {
            return Ok(());
        }
        let jobs = projection.jobs();
        let order = jobs.by_modify();
        let seq = self.seq(self.looked);
        if self.reverse {
            let from = order.before(&ModifyKey::seek(seq));
            self.look(order.iter_from(from), projection, budget, belongs)
        } else {
            let len = match seq.checked_add(1) {
                Some(next) => order.before(&ModifyKey::seek(next)),
                None => order.len(),
            };
            self.look(order.iter_down(len), projection, budget, belongs)
        }
    }

    fn look<'a>(
        &mut self,
        keys: impl Iterator<Item = &'a ModifyKey>,
        projection: &Projection,
        budget: &mut usize,
        belongs: Belongs<'_>,
    ) -> Result<(), HttpError> {
        for key in keys {
            if self.members.len() > self.limit || *budget == 0 {
                return Ok(());
            }
            let at = self.place(key.seq());
            match projection.jobs().record(key.slot()) {
                Some(record) => self.look_at(record, at, budget, belongs)?,
                None => self.looked = at + 1,
            }
        }
        self.looked = END;
        Ok(())
    }

    fn look_at(
        &mut self,
        record: &Record,
        at: u64,
        budget: &mut usize,
        belongs: Belongs<'_>,
    ) -> Result<(), HttpError> {
        let mut looks = 1;
        if belongs(record, &mut looks)? {
            self.put(record.id(), at, self.members.len());
        }
        self.looked = at + 1;
        *budget = budget.saturating_sub(looks);
        Ok(())
    }

    /// The same, through these jobs, which are all that can belong to it, in any order.
    ///
    /// # Errors
    /// As [`Page::fill`].
    pub(crate) fn fill_from<'a>(
        &mut self,
        records: impl Iterator<Item = &'a Record>,
        budget: &mut usize,
        belongs: Belongs<'_>,
    ) -> Result<(), HttpError> {
        if self.is_whole() {
            return Ok(());
        }
        let mut left: Vec<(u64, &Record)> = records
            .filter(|record| record.status().is_some())
            .map(|record| (self.place(record.modify_seq()), record))
            .filter(|(at, _)| *at >= self.looked)
            .collect();
        left.sort_unstable_by_key(|(at, _)| *at);
        left.dedup_by_key(|(at, _)| *at);
        for (at, record) in left {
            if self.members.len() > self.limit || *budget == 0 {
                return Ok(());
            }
            self.look_at(record, at, budget, belongs)?;
        }
        self.looked = END;
        Ok(())
    }

    fn put(&mut self, id: JobId, at: u64, index: usize) {
        self.members.insert(index, Member { at, id, sign: 0 });
        self.joined.push(id);
    }

    /// Takes a member out; whether it was on the page itself.
    pub(crate) fn remove(&mut self, index: usize) -> Met {
        if index >= self.members.len() {
            return Met::Nothing;
        }
        let member = self.members.remove(index);
        self.left.push(member.id);
        self.met(index)
    }

    /// Puts a job that belongs to the query in, if it has its place where was looked.
    pub(crate) fn insert(&mut self, id: JobId, at: u64) -> Met {
        if at < self.start || at >= self.looked {
            return Met::Nothing;
        }
        let Err(index) = self.members.binary_search_by_key(&at, |member| member.at) else {
            return Met::Nothing;
        };
        self.put(id, at, index);
        if self.members.len() > self.limit + 1
            && let Some(last) = self.members.pop()
        {
            self.left.push(last.id);
            self.looked = last.at;
        }
        self.met(index)
    }

    fn met(&self, index: usize) -> Met {
        if index < self.limit {
            Met::Membership
        } else {
            Met::Nothing
        }
    }
}

/// Turns a seq into a place, and back.
pub(crate) fn place(reverse: bool, seq: u64) -> u64 {
    if reverse { seq } else { !seq }
}
