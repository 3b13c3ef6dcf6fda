//! The jobs that a query is about.

use info::{Projection, Record};
use job::JobId;
use roaring::RoaringBitmap;

use crate::{answer::HttpError, bodies::subject::JobSubject, facts, filter::Compiled, names};

/// Whether a filter lets a job pass; what that took is added to `looks`.
///
/// # Errors
/// [`HttpError`] 400: it asks what cannot be said of this job.
pub(crate) fn passes(
    filter: &Compiled,
    projection: &Projection,
    record: &Record,
    looks: &mut usize,
) -> Result<bool, HttpError> {
    filter
        .passes(&JobSubject::new(projection, record), looks)
        .map_err(HttpError::bad)
}

/// Most jobs of an index that are looked at instead of the order.
const CANDIDATES_MAX: u64 = 20_000;

/// The jobs among which all are that a filter can let pass, if an index can say, and they are not too many to be looked at at once.
pub(crate) fn candidates(filter: &Compiled, projection: &Projection) -> Option<Vec<JobId>> {
    let jobs = projection.jobs();
    if let Some(ids) = filter.required("ID") {
        return Some(ids.into_iter().filter_map(names::parse_job).collect());
    }
    if let Some(parents) = filter.required("ParentID") {
        let mut ids = Vec::new();
        for parent in parents {
            let children = jobs.children(names::parse_job(parent)?);
            let children = children.into_iter().flat_map(|children| children.iter());
            ids.extend(children.map(|(id, _)| id));
        }
        return few(ids);
    }
    let mut slots = RoaringBitmap::new();
    if let Some(wanted) = filter.required("Name") {
        // Jobs without a name show another text, and are in no index.
        let wanted = wanted.into_iter().map(|name| jobs.index().name(name));
        wanted.flatten().for_each(|found| found.add_to(&mut slots));
    } else {
        let pools = filter.required("NodePool")?;
        if pools.contains(&facts::POOL) {
            return None;
        }
        let wanted = pools.into_iter().map(|pool| jobs.index().queue(pool));
        wanted.flatten().for_each(|found| found.add_to(&mut slots));
    }
    if slots.len() > CANDIDATES_MAX {
        return None;
    }
    let records = slots.iter().filter_map(|slot| jobs.record(slot));
    Some(records.map(Record::id).collect())
}

fn few(ids: Vec<JobId>) -> Option<Vec<JobId>> {
    (ids.len() as u64 <= CANDIDATES_MAX).then_some(ids)
}
