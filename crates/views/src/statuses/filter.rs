//! The jobs that a query is about.

use info::{Projection, Record};
use job::JobId;

use crate::{answer::HttpError, bodies::subject::JobSubject, filter::Compiled, names};

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

/// The jobs among which all are that a filter can let pass, if an index can say.
pub(crate) fn candidates(filter: &Compiled, projection: &Projection) -> Option<Vec<JobId>> {
    let jobs = projection.jobs();
    if let Some(ids) = filter.required("ID") {
        return Some(ids.into_iter().filter_map(names::parse_job).collect());
    }
    let parents = filter.required("ParentID")?;
    let mut ids = Vec::new();
    for parent in parents {
        let children = jobs.children(names::parse_job(parent)?);
        ids.extend(
            children
                .into_iter()
                .flat_map(|all| all.iter().map(|(id, _)| id)),
        );
    }
    Some(ids)
}
