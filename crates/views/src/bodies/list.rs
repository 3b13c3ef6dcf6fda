//! Which objects a list shows: order, page, prefix, filter.
//!
//! Jobs come by id, which is the order in which they were submitted, allocations by the entry that made them and their rank, nodes by id;
//! `reverse` turns each round. The next token names the first of the next page. A page is found without putting all in order: the
//! smallest keys are taken in growing portions until the page is full. A page is short where its filter took too long ([`LOOKS_MAX`]): the
//! list is made in one go, and meanwhile nobody else is served.

use std::{cell::Cell, sync::Arc};

use info::{Allocs, IdKey, Projection, Record, slots::Slots};
use job::{JobId, State};
use roaring::RoaringBitmap;

use super::subject::{AllocSubject, JobSubject};
use crate::{answer::HttpError, ask::Viewer, facts, filter::Compiled, names};

/// Most objects of one page; more are asked for with the next token.
pub const PAGE_MAX: u32 = 10_000;
/// Most jobs that are looked at for one page.
pub const LOOK_MAX: usize = 200_000;
/// Most looks that one page takes: a simple filter takes one an object, others as much more as they are longer.
pub const LOOKS_MAX: usize = 500_000;
/// Most jobs that an index is asked for; where it has more, all are walked through in their order.
const CANDIDATES_MAX: u64 = 50_000;
/// How many more keys than a page are looked at first.
const PORTION_FACTOR: usize = 2;
/// The least portion.
const PORTION_MIN: usize = 1024;

/// What a request for a list says.
#[derive(Debug, Clone, Copy, Default)]
pub struct ListParams<'a> {
    /// `namespace`.
    pub namespace: Option<&'a str>,
    /// `prefix`.
    pub prefix: &'a str,
    /// `filter`.
    pub filter: &'a str,
    /// `per_page`; 0 is as many as there may be, negative is refused.
    pub per_page: i32,
    /// `next_token`; empty is the first page.
    pub next_token: &'a str,
    /// `reverse`.
    pub reverse: bool,
}

/// The looks that a page took so far.
#[derive(Debug, Default)]
pub(crate) struct Looks(Cell<usize>);

impl Looks {
    /// Whether that is all it may take: what comes is for the next page.
    pub(crate) fn are_over(&self) -> bool {
        self.0.get() >= LOOKS_MAX
    }
}

/// A list that is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct List {
    pub(crate) nowhere: bool,
    pub(crate) prefix: Box<str>,
    pub(crate) filter: Option<Compiled>,
    pub(crate) per_page: u32,
    pub(crate) token: Option<Arc<str>>,
    pub(crate) reverse: bool,
}

impl List {
    /// The list that this request asks for.
    ///
    /// # Errors
    /// [`HttpError`] 400: a filter that is none, a negative page.
    pub fn new(params: &ListParams<'_>) -> Result<Self, HttpError> {
        let per_page = u32::try_from(params.per_page)
            .map_err(|_| HttpError::bad("Expect a number for `per_page` query string parameter"))?;
        let namespace = params.namespace.unwrap_or_default();
        Ok(Self {
            nowhere: !matches!(namespace, "" | "*" | names::NAMESPACE),
            prefix: params.prefix.into(),
            filter: Compiled::new(params.filter).map_err(HttpError::bad)?,
            per_page: if per_page == 0 {
                PAGE_MAX
            } else {
                per_page.min(PAGE_MAX)
            },
            token: (!params.next_token.is_empty()).then(|| params.next_token.into()),
            reverse: params.reverse,
        })
    }

    /// Whether the filter, if there is one, lets it pass.
    pub(crate) fn passes(
        &self,
        subject: &dyn bexpr::Subject,
        looks: &Looks,
    ) -> Result<bool, HttpError> {
        let Some(filter) = &self.filter else {
            return Ok(true);
        };
        let mut took = 1;
        let passes = filter.passes(subject, &mut took);
        looks.0.set(looks.0.get().saturating_add(took));
        passes.map_err(HttpError::bad)
    }

    /// Bytes it holds, about.
    pub(crate) fn held_bytes(&self) -> usize {
        let token = self.token.as_ref().map_or(0, |token| token.len());
        let filter = self.filter.as_ref().map_or(0, Compiled::held_bytes);
        self.prefix.len() + token + filter
    }

    fn token_error(&self, expected: &str) -> HttpError {
        let token = self.token.as_deref().unwrap_or_default();
        HttpError::bad(format!(
            "next_token {token:?} is none of this list: expected {expected}"
        ))
    }
}

/// A page: what is on it, in order, and the key of the first of the next one.
#[derive(Debug)]
pub(crate) struct Page<T, K> {
    pub(crate) rows: Vec<T>,
    pub(crate) next: Option<K>,
}

/// Takes a page out of keys in any order: `look` gives what is shown of one, or nothing; it is short when the `looks` are over.
pub(crate) fn page<T, K: Ord + Copy>(
    mut keys: Vec<K>,
    list: &List,
    from: Option<K>,
    looks: &Looks,
    mut look: impl FnMut(K) -> Result<Option<T>, HttpError>,
) -> Result<Page<T, K>, HttpError> {
    let after = |a: &K, b: &K| if list.reverse { b.cmp(a) } else { a.cmp(b) };
    if let Some(from) = from {
        keys.retain(|key| after(key, &from).is_ge());
    }
    let wanted = list.per_page as usize;
    let mut rows = Vec::new();
    let mut rest = &mut keys[..];
    let mut portion = (wanted * PORTION_FACTOR).max(PORTION_MIN);
    while !rest.is_empty() {
        let len = portion.min(rest.len());
        if len < rest.len() {
            rest.select_nth_unstable_by(len, after);
        }
        let (first, others) = rest.split_at_mut(len);
        first.sort_unstable_by(after);
        for &key in first.iter() {
            if looks.are_over() {
                return Ok(Page {
                    rows,
                    next: Some(key),
                });
            }
            if let Some(row) = look(key)? {
                if rows.len() == wanted {
                    return Ok(Page {
                        rows,
                        next: Some(key),
                    });
                }
                rows.push(row);
            }
        }
        rest = others;
        portion *= 4;
    }
    Ok(Page { rows, next: None })
}

/// Ids of the jobs that may be on a list, if an index knows them and they are few; none: it may be any.
fn candidates(projection: &Projection, list: &List, viewer: Viewer) -> Option<Vec<JobId>> {
    let jobs = projection.jobs();
    let filter = list.filter.as_ref();
    let required = |field| filter.and_then(|filter| filter.required(field));
    if let Some(ids) = required("ID") {
        return Some(unique(ids.into_iter().filter_map(names::parse_job)));
    }
    if let Some(parents) = required("ParentID").filter(|parents| !parents.contains(&"")) {
        let parents = parents.into_iter().filter_map(names::parse_job);
        let children = parents.filter_map(|parent| jobs.children(parent));
        return Some(unique(
            children.flat_map(|children| children.iter().map(|(id, _)| id)),
        ));
    }
    let index = jobs.index();
    let by_name = required("Name").filter(|names| !names.contains(&""));
    let by_pool = required("NodePool").filter(|pools| !pools.contains(&facts::POOL));
    let sets: [Option<Vec<&Slots>>; 4] = [
        by_name.map(|names| names.iter().filter_map(|name| index.name(name)).collect()),
        by_pool.map(|pools| pools.iter().filter_map(|pool| index.queue(pool)).collect()),
        viewer
            .only()
            .map(|user| index.user(user).into_iter().collect()),
        required("Status").map(|wanted| {
            let states = wanted.iter().flat_map(|status| states(status));
            states.filter_map(|state| index.state(*state)).collect()
        }),
    ];
    let len = |set: &Vec<&Slots>| set.iter().map(|slots| slots.len()).sum::<u64>();
    let set = sets.into_iter().flatten().min_by_key(len)?;
    if len(&set) > CANDIDATES_MAX {
        return None;
    }
    let mut slots = RoaringBitmap::new();
    set.into_iter().for_each(|one| one.add_to(&mut slots));
    Some(
        slots
            .into_iter()
            .filter_map(|slot| jobs.record(slot).map(Record::id))
            .collect(),
    )
}

/// The states that jobs of a status can be in. A parent runs while it depends on being dispatched from.
fn states(status: &str) -> &'static [State] {
    match status {
        "pending" => &[State::Depend, State::Priority, State::Sched],
        "running" => &[State::Depend, State::Run, State::Cleanup],
        "dead" => &[State::Inactive],
        _ => &[],
    }
}

fn unique(ids: impl Iterator<Item = JobId>) -> Vec<JobId> {
    let mut ids: Vec<JobId> = ids.collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// The jobs of a list. A page is short where more than [`LOOK_MAX`] jobs were looked at for it, or [`LOOKS_MAX`] was reached; the next one
/// goes on there.
pub(crate) fn jobs<'p>(
    projection: &'p Projection,
    list: &List,
    viewer: Viewer,
) -> Result<Page<&'p Record, JobId>, HttpError> {
    let from = match list.token.as_deref() {
        None => None,
        Some(token) => {
            let own = token.strip_prefix("default.").unwrap_or(token);
            Some(
                names::parse_job(own)
                    .ok_or_else(|| list.token_error("`default.` and the id of a job"))?,
            )
        }
    };
    let looks = Looks::default();
    let look = |record: Option<&'p Record>| {
        let Some(record) = record.filter(|record| is_visible(record, viewer)) else {
            return Ok(None);
        };
        if !list.prefix.is_empty() && !facts::job_id(record).starts_with(&*list.prefix) {
            return Ok(None);
        }
        Ok(list
            .passes(&JobSubject::new(projection, record), &looks)?
            .then_some(record))
    };
    if list.nowhere {
        return Ok(Page {
            rows: Vec::new(),
            next: None,
        });
    }
    if let Some(ids) = candidates(projection, list, viewer) {
        return page(ids, list, from, &looks, |id| {
            look(projection.jobs().get(id))
        });
    }
    let look = |key: &IdKey| look(projection.jobs().record(key.slot()));
    let order = projection.jobs().in_id_order();
    if list.reverse {
        let after = from.and_then(|from| from.0.checked_add(1));
        let len = after.map_or(order.len(), |after| {
            order.before(&IdKey::seek(JobId(after)))
        });
        walk(order.iter_down(len), list, &looks, look)
    } else {
        let rank = from.map_or(0, |from| order.before(&IdKey::seek(from)));
        walk(order.iter_from(rank), list, &looks, look)
    }
}

/// Takes a page out of jobs that come in its order.
fn walk<'p, 'k>(
    keys: impl Iterator<Item = &'k IdKey>,
    list: &List,
    looks: &Looks,
    mut look: impl FnMut(&IdKey) -> Result<Option<&'p Record>, HttpError>,
) -> Result<Page<&'p Record, JobId>, HttpError> {
    let mut rows = Vec::new();
    for (looked, key) in keys.enumerate() {
        if looked == LOOK_MAX || looks.are_over() {
            return Ok(Page {
                rows,
                next: Some(key.id()),
            });
        }
        if let Some(row) = look(key)? {
            if rows.len() == list.per_page as usize {
                return Ok(Page {
                    rows,
                    next: Some(key.id()),
                });
            }
            rows.push(row);
        }
    }
    Ok(Page { rows, next: None })
}

/// A job that is listed and that this viewer may see.
pub(crate) fn visible(projection: &Projection, viewer: Viewer, id: JobId) -> Option<&Record> {
    let record = projection.jobs().get(id)?;
    is_visible(record, viewer).then_some(record)
}

fn is_visible(record: &Record, viewer: Viewer) -> bool {
    record.status().is_some() && viewer.sees(record)
}

/// An allocation of a list: the job, the rank, and its place among those of the job.
pub(crate) type AllocRow<'p> = (&'p Record, u32, usize);

/// The allocations of a list, written `CREATE_SEQ.ID` as a token, or `ID` with a prefix.
pub(crate) fn allocations<'p>(
    projection: &'p Projection,
    list: &List,
    viewer: Viewer,
) -> Result<(Vec<AllocRow<'p>>, Option<String>), HttpError> {
    let nodes = projection.nodes();
    let prefixed = !list.prefix.is_empty();
    // Sorted by the id alone with a prefix, as tokens are then.
    let seq_of = |record: &Record| match record.allocated() {
        Some(created) if !prefixed => created.seq,
        _ => 0,
    };
    let from = match list.token.as_deref() {
        None => None,
        Some(token) => {
            let (seq, id) = match token.split_once('.') {
                Some((seq, id)) => (seq.parse().ok(), id),
                None => (Some(0), token),
            };
            let id = names::parse_allocation(id);
            let key = seq
                .zip(id)
                .map(|(seq, (job, _, rank))| (if prefixed { 0 } else { seq }, job, rank));
            Some(
                key.ok_or_else(|| list.token_error("an index, a dot and the id of an allocation"))?,
            )
        }
    };
    let wanted = prefix_range(&list.prefix);
    let mut jobs: Vec<(u64, JobId)> = Vec::new();
    if let Some((low, high)) = wanted
        && !list.nowhere
    {
        let of_jobs = |id: &JobId| (job_part(low)..=job_part(high)).contains(&id.0);
        for id in candidates_of_allocations(projection, viewer).filter(of_jobs) {
            if let Some(record) = visible(projection, viewer, id) {
                jobs.push((seq_of(record), id));
            }
        }
    }
    let after = |a: &(u64, JobId), b: &(u64, JobId)| if list.reverse { b.cmp(a) } else { a.cmp(b) };
    if let Some((seq, job, _)) = from {
        jobs.retain(|key| after(key, &(seq, job)).is_ge());
    }
    // Jobs come in order, and each brings its allocations in order.
    let mut rows: Vec<AllocRow<'p>> = Vec::new();
    let mut next = None;
    let every = List {
        per_page: u32::MAX,
        ..list.clone()
    };
    let per_page = list.per_page as usize;
    let looks = Looks::default();
    let met = page(jobs, &every, None, &Looks::default(), |(seq, id)| {
        let Some(record) = visible(projection, viewer, id).filter(|_| next.is_none()) else {
            return Ok(None::<()>);
        };
        let allocs = Allocs::of(record, nodes);
        let mut all: Vec<_> = allocs.iter().enumerate().collect();
        if list.reverse {
            all.reverse();
        }
        for (number, alloc) in &all {
            let before = from.is_some_and(|(from_seq, job, rank)| {
                (seq, id) == (from_seq, job)
                    && if list.reverse {
                        alloc.rank > rank
                    } else {
                        alloc.rank < rank
                    }
            });
            let id_bytes = u128::from_be_bytes(names::allocation_bytes(id, 0, alloc.rank));
            if before || !wanted.is_some_and(|(low, high)| (low..=high).contains(&id_bytes)) {
                continue;
            }
            let subject = AllocSubject {
                record,
                nodes,
                alloc,
                number: *number,
            };
            let is_over = looks.are_over();
            if !is_over && !list.passes(&subject, &looks)? {
                continue;
            }
            if is_over || rows.len() == per_page {
                let uuid = names::allocation(id, 0, alloc.rank);
                let uuid = names::text(&uuid);
                next = Some(if prefixed {
                    uuid.to_owned()
                } else {
                    format!("{seq}.{uuid}")
                });
                // The page is full: nothing more is looked at.
                return Err(full());
            }
            rows.push((record, alloc.rank, *number));
        }
        Ok(None)
    });
    match met {
        Err(error) if error.status != 0 => Err(error),
        _ => Ok((rows, next)),
    }
}

/// Not an error: stops a walk.
fn full() -> HttpError {
    HttpError::new(0, "")
}

fn candidates_of_allocations(
    projection: &Projection,
    viewer: Viewer,
) -> impl Iterator<Item = JobId> + '_ {
    let jobs = projection.jobs();
    let tags = viewer.only().map_or(u64::MAX, info::place::user_tag);
    let slots = jobs.by_modify().iter_tagged(tags).map(|key| key.slot());
    let records = slots.filter_map(|slot| jobs.record(slot));
    records
        .filter(|record| record.allocated().is_some())
        .map(Record::id)
}

fn job_part(bytes: u128) -> u64 {
    u64::try_from(bytes >> 64).unwrap_or(u64::MAX)
}

/// The ids that begin with this text, as numbers; `None` if none does.
fn prefix_range(prefix: &str) -> Option<(u128, u128)> {
    let (mut low, mut bits) = (0_u128, 0_u32);
    for (at, c) in prefix.chars().enumerate() {
        if matches!(at, 8 | 13 | 18 | 23) {
            if c != '-' {
                return None;
            }
            continue;
        }
        if bits == 128 {
            return None;
        }
        low = low << 4 | u128::from(c.to_digit(16)?);
        bits += 4;
    }
    let rest = 128 - bits;
    let mask = 1_u128.checked_shl(rest).map_or(u128::MAX, |bit| bit - 1);
    let low = low.checked_shl(rest).unwrap_or(0);
    Some((low, low | mask))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_found_without_ordering_all() {
        let keys: Vec<u32> = (0..50_000_u32)
            .map(|n| n.wrapping_mul(2_654_435_761) % 65_536)
            .collect();
        let mut sorted: Vec<u32> = keys.iter().copied().filter(|key| key % 3 == 0).collect();
        sorted.sort_unstable();
        for reverse in [false, true] {
            let list = List {
                nowhere: false,
                prefix: "".into(),
                filter: None,
                per_page: 700,
                token: None,
                reverse,
            };
            let mut met = Vec::new();
            let mut from = None;
            loop {
                let page = page(keys.clone(), &list, from, &Looks::default(), |key| {
                    Ok((key % 3 == 0).then_some(key))
                })
                .expect("no filter");
                assert!(page.rows.len() == 700 || page.next.is_none());
                met.extend(page.rows);
                from = page.next;
                if from.is_none() {
                    break;
                }
            }
            let mut expected = sorted.clone();
            if reverse {
                expected.reverse();
            }
            assert_eq!(met, expected);
        }
    }

    #[test]
    fn a_prefix_of_an_allocations_id_is_a_range() {
        assert_eq!(prefix_range(""), Some((0, u128::MAX)));
        assert_eq!(
            prefix_range("01020304-05"),
            Some((0x0001_0203_0405 << 88, (0x0001_0203_0406 << 88) - 1))
        );
        for none in [
            "x",
            "0102030405",
            "01020304-0506-0708-0000-000000000007-",
            "01020304-0506-0708-0000-0000000000070",
        ] {
            assert_eq!(prefix_range(none), None, "{none}");
        }
        let whole = prefix_range("01020304-0506-0708-0000-000000000007");
        let id = 0x0102_0304_0506_0708_0000_0000_0000_0007;
        assert_eq!(whole, Some((id, id)));
    }
}
