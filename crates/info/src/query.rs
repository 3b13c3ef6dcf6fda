//! A query: which jobs, in listing order, at most how many.
//!
//! The answer is a list of ids, fixed at this moment; rows are encoded when they are sent. Three ways to find the
//! first `limit` matches, tried from cheap to dear:
//!
//! 1. nothing can match (the plan's bound is 0): no job is touched;
//! 2. walk the orders and test, past whole blocks of other users' jobs: most pages fill within a few rows;
//! 3. compute the set of matches from the indexes, then either collect and sort it, or walk on with it in hand.
//!
//! Comparisons that no index answers (times) count against [`COMPARISONS_MAX`].

use job::JobId;
use thiserror::Error;

use crate::{
    constraint::Constraint,
    jobs::Jobs,
    order::Order,
    place::{Group, ListKey, Place},
    plan::{Budget, Plan},
    record::Record,
    slots::Slot,
};

/// Most comparisons one query may make.
pub const COMPARISONS_MAX: u64 = 1_000_000;
/// Rows a walk tests before the set of matches is computed, at least.
const WALK_ROWS_MIN: usize = 512;
/// A row met on a walk costs this much less than one collected and sorted.
const COLLECT_COST: usize = 8;

/// What to list.
#[derive(Debug, Clone)]
pub struct Query {
    /// Which jobs.
    pub constraint: Constraint,
    /// Of inactive jobs, only those that ended after this time.
    pub since: f64,
    /// Most rows; 0 is no limit.
    pub limit: usize,
}

impl Default for Query {
    fn default() -> Self {
        Self {
            constraint: Constraint::everything(),
            since: 0.0,
            limit: 0,
        }
    }
}

/// Why a query has no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum QueryError {
    /// More than the budget of comparisons.
    #[error("Excessive comparisons made, limit search via states or since")]
    Excessive,
}

impl Query {
    /// The ids that match, in listing order: pending, running, inactive.
    ///
    /// # Errors
    /// [`QueryError::Excessive`].
    pub fn run(&self, jobs: &Jobs) -> Result<Vec<JobId>, QueryError> {
        self.run_within(jobs, COMPARISONS_MAX)
    }

    /// As [`Query::run`], with a budget of `comparisons`.
    ///
    /// # Errors
    /// [`QueryError::Excessive`].
    pub fn run_within(&self, jobs: &Jobs, comparisons: u64) -> Result<Vec<JobId>, QueryError> {
        let plan = Plan::new(&self.constraint, jobs);
        let states = plan.states();
        let bound = plan.bound(jobs);
        if bound == 0 || states == 0 {
            return Ok(Vec::new());
        }
        let groups: Vec<Group> = Group::ALL
            .into_iter()
            .filter(|group| group.states() & states != 0)
            .collect();
        let listed: usize = groups.iter().map(|&group| jobs.group_len(group)).sum();
        let limit = if self.limit == 0 {
            usize::MAX
        } else {
            self.limit
        };
        let mut budget = Budget::new(comparisons);
        let mut walk = Walk {
            jobs,
            since: self.since,
            tags: self.constraint.user_tags(),
            limit,
            found: Vec::new(),
            rows_left: usize::MAX,
            ended: Ended::Through,
        };

        if matches!(plan, Plan::True) {
            walk.found.reserve(limit.min(listed));
            walk.groups(&groups, |_| Ok(true))?;
            return Ok(walk.found);
        }
        // A handful of candidates: collecting them beats any walk.
        let few = usize::try_from(bound).unwrap_or(usize::MAX);
        if few.saturating_mul(COLLECT_COST) > listed || few > WALK_ROWS_MIN {
            walk.rows_left = WALK_ROWS_MIN.max(limit.saturating_mul(2)).min(listed);
            walk.groups(&groups, |slot| match jobs.record(slot) {
                Some(record) => plan.test(slot, record, &mut budget),
                None => Ok(false),
            })?;
            if !matches!(walk.ended, Ended::RowsUsedUp) {
                return Ok(walk.found);
            }
        }
        let (set, exact) = plan.set(jobs);
        let candidates = usize::try_from(set.len()).unwrap_or(usize::MAX);
        walk.found.clear();
        if candidates.saturating_mul(COLLECT_COST) > listed {
            walk.rows_left = if limit == usize::MAX {
                usize::MAX
            } else {
                candidates.saturating_mul(COLLECT_COST)
            };
            walk.ended = Ended::Through;
            walk.groups(&groups, |slot| {
                Ok(set.contains(slot)
                    && (exact
                        || match jobs.record(slot) {
                            Some(record) => plan.test(slot, record, &mut budget)?,
                            None => false,
                        }))
            })?;
            if !matches!(walk.ended, Ended::RowsUsedUp) {
                return Ok(walk.found);
            }
        }
        let mut rows: Vec<(Place, JobId)> = Vec::with_capacity(candidates.min(listed));
        for slot in &set {
            let Some(record) = jobs.record(slot) else {
                continue;
            };
            let place = record.place(slot);
            if place.group().is_some_and(|group| groups.contains(&group))
                && since_holds(self.since, record, place)
                && (exact || plan.test(slot, record, &mut budget)?)
            {
                rows.push((place, record.id()));
            }
        }
        if rows.len() > limit {
            rows.select_nth_unstable(limit);
            rows.truncate(limit);
        }
        rows.sort_unstable();
        Ok(rows.into_iter().map(|(_, id)| id).collect())
    }
}

fn since_holds(since: f64, record: &Record, place: Place) -> bool {
    since <= 0.0
        || place.group() != Some(Group::Inactive)
        || record
            .time(crate::constraint::TimeField::Inactive)
            .is_some_and(|time| time > since)
}

enum Ended {
    Through,
    Full,
    RowsUsedUp,
}

struct Walk<'a> {
    jobs: &'a Jobs,
    since: f64,
    tags: u64,
    limit: usize,
    found: Vec<JobId>,
    rows_left: usize,
    ended: Ended,
}

impl Walk<'_> {
    fn groups(
        &mut self,
        groups: &[Group],
        mut matches: impl FnMut(Slot) -> Result<bool, QueryError>,
    ) -> Result<(), QueryError> {
        let jobs = self.jobs;
        for group in groups {
            match group {
                Group::Pending => self.order(jobs.pending(), false, &mut matches)?,
                Group::Running => self.order(jobs.running(), false, &mut matches)?,
                Group::Inactive => self.order(jobs.inactive(), self.since > 0.0, &mut matches)?,
            }
            if !matches!(self.ended, Ended::Through) {
                break;
            }
        }
        Ok(())
    }

    fn order<K: ListKey>(
        &mut self,
        order: &Order<K>,
        since: bool,
        matches: &mut impl FnMut(Slot) -> Result<bool, QueryError>,
    ) -> Result<(), QueryError> {
        for key in order.iter_tagged(self.tags) {
            if since {
                // t_inactive descends: from the first that is too old on, all are.
                let record = self.jobs.record(key.slot());
                let time =
                    record.and_then(|record| record.time(crate::constraint::TimeField::Inactive));
                if time.is_none_or(|time| time <= self.since) {
                    return Ok(());
                }
            }
            if self.rows_left == 0 {
                self.ended = Ended::RowsUsedUp;
                return Ok(());
            }
            self.rows_left -= 1;
            if matches(key.slot())? {
                self.found.push(key.id());
                if self.found.len() >= self.limit {
                    self.ended = Ended::Full;
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}
