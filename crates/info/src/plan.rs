//! How to find what a constraint selects without looking at every job.
//!
//! A constraint becomes a tree over index sets. Of each part the plan knows three things without touching a job: the
//! states its matches can be in, how many they can be at most, and (all but times) exactly which they are:
//!
//! ```text
//!  bound()      0 at the first glance for an unknown user, queue, name or host
//!  states()     which of the three orders to read at all
//!  set()        the matches as a bitmap; a superset where a time is compared, then test() decides
//!  test()       one job, by its slot; each time comparison counts against the budget
//! ```

use job::{JobId, JobResult, State};
use roaring::RoaringBitmap;

use crate::{
    children::Children,
    constraint::{ANY_USER, Compare, Constraint, TimeField},
    jobs::Jobs,
    query::QueryError,
    record::Record,
    slots::{Slot, Slots},
};

/// Sets no larger than this are not intersected with large ones: their jobs are tested one by one.
const TESTED_ONE_BY_ONE: u64 = 2048;
/// All state bits.
const STATES_ALL: u32 = 127;

/// Comparisons a query may still make.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    left: u64,
}

impl Budget {
    /// A budget of `comparisons`.
    #[must_use]
    pub fn new(comparisons: u64) -> Self {
        Self { left: comparisons }
    }

    fn spend(&mut self) -> Result<(), QueryError> {
        self.left = self.left.checked_sub(1).ok_or(QueryError::Excessive)?;
        Ok(())
    }
}

/// A constraint tied to the indexes of one table.
#[derive(Debug)]
pub enum Plan<'a> {
    /// Every job.
    True,
    /// No job.
    False,
    /// In one of these sets.
    In(Vec<&'a Slots>),
    /// In one of these states.
    States(u32, Vec<&'a Slots>),
    /// Over, with one of these results.
    Results(Vec<&'a Slots>),
    /// A child of one of these.
    Children(Vec<(JobId, &'a Children)>),
    /// A time compared.
    Time(TimeField, Compare, f64),
    /// All of them.
    And(Vec<Plan<'a>>),
    /// At least one of them.
    Or(Vec<Plan<'a>>),
    /// Not this.
    Not(Box<Plan<'a>>),
}

impl<'a> Plan<'a> {
    /// Ties `constraint` to the indexes of `jobs`.
    #[must_use]
    pub fn new(constraint: &Constraint, jobs: &'a Jobs) -> Self {
        let index = jobs.index();
        let sets = |found: Vec<&'a Slots>| {
            if found.is_empty() {
                Plan::False
            } else {
                Plan::In(found)
            }
        };
        match constraint {
            Constraint::And(parts) => Self::all(parts, jobs),
            Constraint::Not(parts) => match Self::all(parts, jobs) {
                Plan::True => Plan::False,
                Plan::False => Plan::True,
                part => Plan::Not(Box::new(part)),
            },
            Constraint::Or(parts) if parts.is_empty() => Plan::True,
            Constraint::Or(parts) => {
                let mut plans = Vec::with_capacity(parts.len());
                for part in parts {
                    match Self::new(part, jobs) {
                        Plan::True => return Plan::True,
                        Plan::False => {}
                        plan => plans.push(plan),
                    }
                }
                match plans.len() {
                    0 => Plan::False,
                    1 => plans.pop().unwrap_or(Plan::False),
                    _ => Plan::Or(plans),
                }
            }
            Constraint::User(users) if users.contains(&ANY_USER) => Plan::True,
            Constraint::User(users) => {
                sets(users.iter().filter_map(|&user| index.user(user)).collect())
            }
            Constraint::Name(names) => {
                sets(names.iter().filter_map(|name| index.name(name)).collect())
            }
            Constraint::Queue(queues) => sets(
                queues
                    .iter()
                    .filter_map(|queue| index.queue(queue))
                    .collect(),
            ),
            Constraint::Hosts(hosts) => {
                sets(hosts.iter().filter_map(|host| index.host(host)).collect())
            }
            Constraint::Ranks(ranks) => {
                sets(ranks.iter().filter_map(|&rank| index.rank(rank)).collect())
            }
            Constraint::Parent(ids) => {
                let mut found: Vec<_> = ids
                    .iter()
                    .filter_map(|&id| Some((id, jobs.children(id)?)))
                    .filter(|(_, children)| !children.is_empty())
                    .collect();
                found.sort_unstable_by_key(|(id, _)| *id);
                found.dedup_by_key(|(id, _)| *id);
                if found.is_empty() {
                    Plan::False
                } else {
                    Plan::Children(found)
                }
            }
            Constraint::States(states) => {
                let listed = State::ALL
                    .into_iter()
                    .filter(|&state| states.contains(state));
                let found = listed
                    .filter_map(|state| index.state(state))
                    .filter(|set| !set.is_empty());
                Plan::States(states.0, found.collect())
            }
            Constraint::Results(results) => {
                let listed = JobResult::ALL
                    .into_iter()
                    .filter(|&result| results.contains(result));
                let found = listed
                    .filter_map(|result| index.result(result))
                    .filter(|set| !set.is_empty());
                Plan::Results(found.collect())
            }
            Constraint::Time(field, compare, limit) => Plan::Time(*field, *compare, *limit),
        }
    }

    fn all(parts: &[Constraint], jobs: &'a Jobs) -> Self {
        let mut plans = Vec::with_capacity(parts.len());
        for part in parts {
            match Self::new(part, jobs) {
                Plan::True => {}
                Plan::False => return Plan::False,
                plan => plans.push(plan),
            }
        }
        match plans.len() {
            0 => Plan::True,
            1 => plans.pop().unwrap_or(Plan::True),
            _ => {
                // The smallest first: it is the one that decides most, for a test and for an intersection.
                plans.sort_by_cached_key(|plan| plan.bound(jobs));
                Plan::And(plans)
            }
        }
    }

    /// The states that matches can be in.
    #[must_use]
    pub fn states(&self) -> u32 {
        match self {
            Plan::False => 0,
            Plan::States(states, _) => *states,
            Plan::Results(_) | Plan::Time(TimeField::Inactive, ..) => State::Inactive.bit(),
            Plan::And(parts) => parts
                .iter()
                .fold(STATES_ALL, |mask, part| mask & part.states()),
            Plan::Or(parts) => parts.iter().fold(0, |mask, part| mask | part.states()),
            Plan::Not(part) => match part.as_ref() {
                Plan::States(states, _) => STATES_ALL & !states,
                _ => STATES_ALL,
            },
            Plan::True | Plan::In(_) | Plan::Children(_) | Plan::Time(..) => STATES_ALL,
        }
    }

    /// How many jobs can match at most.
    #[must_use]
    pub fn bound(&self, jobs: &Jobs) -> u64 {
        match self {
            Plan::False => 0,
            Plan::In(sets) | Plan::States(_, sets) | Plan::Results(sets) => {
                sets.iter().map(|set| set.len()).sum()
            }
            Plan::Children(found) => found.iter().map(|(_, of)| of.len() as u64).sum(),
            Plan::And(parts) => parts.iter().map(|part| part.bound(jobs)).min().unwrap_or(0),
            Plan::Or(parts) => parts
                .iter()
                .map(|part| part.bound(jobs))
                .fold(0, u64::saturating_add),
            Plan::True | Plan::Time(..) | Plan::Not(_) => jobs.len() as u64,
        }
    }

    /// Whether one job matches.
    ///
    /// # Errors
    /// [`QueryError::Excessive`] when the budget is used up.
    pub fn test(
        &self,
        slot: Slot,
        record: &Record,
        budget: &mut Budget,
    ) -> Result<bool, QueryError> {
        Ok(match self {
            Plan::True => true,
            Plan::False => false,
            Plan::In(sets) | Plan::Results(sets) => sets.iter().any(|set| set.contains(slot)),
            Plan::Children(found) => record
                .parent()
                .is_some_and(|parent| found.binary_search_by_key(&parent, |(id, _)| *id).is_ok()),
            Plan::States(states, _) => states & record.job().state.bit() != 0,
            Plan::Time(field, compare, limit) => {
                budget.spend()?;
                record
                    .time(*field)
                    .is_some_and(|time| compare.holds(time, *limit))
            }
            Plan::And(parts) => {
                for part in parts {
                    if !part.test(slot, record, budget)? {
                        return Ok(false);
                    }
                }
                true
            }
            Plan::Or(parts) => {
                for part in parts {
                    if part.test(slot, record, budget)? {
                        return Ok(true);
                    }
                }
                false
            }
            Plan::Not(part) => !part.test(slot, record, budget)?,
        })
    }

    /// The matches as a bitmap, and whether that is exact; if not, it holds more than the matches and each must still
    /// pass [`Plan::test`].
    #[must_use]
    pub fn set(&self, jobs: &Jobs) -> (RoaringBitmap, bool) {
        match self {
            Plan::False => (RoaringBitmap::new(), true),
            Plan::True => (jobs.all(), true),
            Plan::Time(..) => (jobs.all(), false),
            Plan::In(sets) | Plan::States(_, sets) | Plan::Results(sets) => {
                let mut sum = RoaringBitmap::new();
                for set in sets {
                    set.add_to(&mut sum);
                }
                (sum, true)
            }
            Plan::Children(found) => {
                let children = found.iter().flat_map(|(_, of)| of.iter());
                (children.map(|(_, child)| child.slot).collect(), true)
            }
            Plan::And(parts) => {
                let mut parts = parts.iter();
                let Some(first) = parts.next() else {
                    return (jobs.all(), true);
                };
                let (mut sum, mut exact) = first.set(jobs);
                for part in parts {
                    if sum.is_empty() {
                        return (sum, true);
                    }
                    if sum.len() <= TESTED_ONE_BY_ONE || matches!(part, Plan::Time(..)) {
                        exact = false;
                        continue;
                    }
                    let (set, set_exact) = part.set(jobs);
                    sum &= set;
                    exact &= set_exact;
                }
                (sum, exact)
            }
            Plan::Or(parts) => {
                let mut sum = RoaringBitmap::new();
                let mut exact = true;
                for part in parts {
                    let (set, set_exact) = part.set(jobs);
                    sum |= set;
                    exact &= set_exact;
                }
                (sum, exact)
            }
            Plan::Not(part) => match part.set(jobs) {
                (set, true) => {
                    let mut rest = jobs.all();
                    rest -= set;
                    (rest, true)
                }
                // The complement of a superset would lose matches.
                (_, false) => (jobs.all(), false),
            },
        }
    }
}
