//! At start: what the store should have of active jobs and has not. Noticed by three numbers that each commit keeps; which jobs it is, the log knows.
//!
//! ```text
//!  restored: so many jobs, so many entries ── as the store says ──▶ go on
//!                                           └ not so ─▶ the log is looked through ─▶ put back (restored anew) │ set aside, by name
//! ```
//! A job whose newest entries are gone would go on as it was before them: a held one would run.

use crate::restore::Met;
use crate::set_aside::SetAside;
use std::path::Path;
use store::{Reader, Recovered, Tally};

/// Compares what was met with what there should be. True: jobs that were restored are put right in the store, or set aside: all is to be
/// restored anew.
/// # Errors
/// The store cannot be read, or too much of it is gone.
pub(crate) fn look(
    statedir: &Path,
    reader: &Reader,
    recovered: &Recovered,
    met: Met,
    set_aside: &SetAside,
) -> Result<bool, String> {
    let is = Tally {
        jobs: reader.job_count().map_err(|error| error.to_string())?,
        active: met.active,
        entries: met.entries,
    };
    if recovered.tally == Some(is) {
        return Ok(false);
    }
    match recovered.tally {
        Some(should) => {
            tracing::error!(%is, %should, "the store does not have the jobs, active jobs and entries of those that it should have: its log is looked through");
        }
        None => tracing::info!("the log is looked through for jobs that the store should have"),
    }
    let amiss = reader
        .amiss(recovered.newest_seq)
        .map_err(|error| error.to_string())?;
    let gone = amiss.iter().filter(|one| {
        let what = &one.damage.what;
        matches!(what, store::Corrupt::NoRow { .. })
    });
    let unnamed = recovered
        .tally
        .map_or(0, |should| should.jobs.saturating_sub(is.jobs))
        .saturating_sub(gone.count() as u64);
    if unnamed > 0 {
        tracing::error!(
            jobs = unnamed,
            "jobs are gone from the store, and its log does not reach back to them: nobody knows which"
        );
    }
    let repaired = store::repair(statedir, &amiss).unwrap_or_else(|error| {
        tracing::error!(%error, "nothing can be put back: the jobs are set aside until a start can");
        Vec::new()
    });
    for id in &repaired {
        tracing::warn!(job = %id, id = id.0, "the newest entries of this job were gone from its eventlog: put back from the log");
    }
    let (mut left, mut is_restored) = (0, !repaired.is_empty());
    for one in &amiss {
        if let Some(id) = one.damage.job.filter(|id| !repaired.contains(id)) {
            left += 1;
            is_restored |= matches!(one.damage.what, store::Corrupt::Short { .. });
            if set_aside.add(id, Some(one.userid), &one.damage.what) {
                continue;
            }
            return Err(format!(
                "more than {} jobs of the store are gone: put a backup in its place, or try weir store recover",
                crate::set_aside::SET_ASIDE_MAX
            ));
        }
    }
    if repaired.is_empty() {
        // As long as something is missing each start looks for it.
        let settled = Some(is).filter(|_| left == 0);
        if settled != recovered.tally
            && let Err(error) = store::settle(statedir, settled)
        {
            tracing::warn!(%error, "the next start looks through the log once more");
        }
    }
    Ok(is_restored)
}
