//! Pages of the store for listeners: what the fan-out needs, in the store's words. Runs on a read thread, encoding included.

use crate::set_aside::SetAside;
use job::{Entry, JobId, Source};
use journal::{Answer, BacklogJob, JobsScope, Need, Page, Read};
use store::{Corrupt, Damage, ReadError, Reader, Scope, StoredJob};

/// Reads what is needed and encodes it.
pub(crate) fn read(reader: &Reader, need: Need, set_aside: &SetAside) -> Page {
    let answer = answer(reader, &need.read, set_aside);
    need.answer(answer)
}

fn answer(reader: &Reader, read: &Read, set_aside: &SetAside) -> Answer {
    match read {
        Read::Instance { after, upto, limit } => {
            match reader.instance_entries(*after, *upto, *limit) {
                Ok(page) => entries(page.entries, page.upto, &page.damaged, set_aside),
                Err(error) => failed(error),
            }
        }
        Read::Log {
            after,
            limit,
            bytes,
        } => match reader.log_after(*after, *limit, *bytes) {
            Ok(page) => match lost(&page.damaged) {
                // A reader of the log would miss these and not know. So that is where the log begins from now on: a cursor before it is
                // refused, and who wants everything gets the archive.
                Some(floor) => {
                    warn(&page.damaged, set_aside);
                    Answer::BelowFloor { floor }
                }
                None => entries(page.entries, page.upto, &page.damaged, set_aside),
            },
            Err(error) => failed(error),
        },
        Read::Jobs {
            scope,
            cursor,
            limit,
            bytes,
        } => {
            let scope = match scope {
                JobsScope::Active { at } => Scope::Active { at: *at },
                JobsScope::Inactive { upto } => Scope::Inactive { upto: *upto },
            };
            match reader.jobs_page(scope, *cursor, *limit, *bytes) {
                Ok(page) => {
                    warn(&page.damaged, set_aside);
                    Answer::Jobs {
                        jobs: page
                            .jobs
                            .into_iter()
                            .filter(|job| !set_aside.contains(job.id))
                            .map(backlog_job)
                            .collect(),
                        next: page.next,
                    }
                }
                Err(error) => failed(error),
            }
        }
        Read::Named { ids, bytes } => named(reader, ids, *bytes, set_aside),
    }
}

fn named(reader: &Reader, ids: &[JobId], bytes_max: usize, set_aside: &SetAside) -> Answer {
    let mut jobs = Vec::with_capacity(ids.len());
    let mut bytes = 0;
    for (read, id) in ids.iter().enumerate() {
        if bytes >= bytes_max {
            let next = i64::try_from(read).ok();
            return Answer::Jobs { jobs, next };
        }
        if set_aside.contains(*id) {
            continue;
        }
        match reader.job(*id, false) {
            Ok(Some(Ok(stored))) => {
                let lines: usize = stored.eventlog.iter().map(|entry| entry.line().len()).sum();
                bytes += lines + stored.jobspec.len() + stored.r.as_ref().map_or(0, |r| r.len());
                jobs.push(backlog_job(stored));
            }
            Ok(Some(Err(damage))) => warn(&[damage], set_aside),
            Ok(None) => {}
            Err(error) => return failed(error),
        }
    }
    Answer::Jobs { jobs, next: None }
}

/// Without those of jobs that are set aside, this page's own finds included.
fn entries(
    mut entries: Vec<Entry>,
    upto: job::Seq,
    damaged: &[Damage],
    set_aside: &SetAside,
) -> Answer {
    warn(damaged, set_aside);
    if !set_aside.is_empty() {
        entries.retain(|entry| match entry.source {
            Source::Job(id) => !set_aside.contains(id),
            Source::Resource | Source::System => true,
        });
    }
    Answer::Entries { entries, upto }
}

/// The newest seq whose entry is in no copy.
fn lost(damaged: &[Damage]) -> Option<job::Seq> {
    let last = |damage: &Damage| match damage.what {
        Corrupt::Lost { last, .. } => Some(last),
        _ => None,
    };
    damaged.iter().filter_map(last).max()
}

fn failed(error: ReadError) -> Answer {
    match error {
        ReadError::BelowFloor { floor, .. } => Answer::BelowFloor { floor },
        error => Answer::Failed {
            detail: error.to_string(),
        },
    }
}

fn backlog_job(stored: StoredJob) -> BacklogJob {
    BacklogJob {
        id: stored.id,
        userid: stored.userid,
        done_seq: stored.done_seq,
        jobspec: stored.jobspec,
        r: stored.r,
        events: stored.eventlog,
    }
}

fn warn(damaged: &[Damage], set_aside: &SetAside) {
    for damage in damaged {
        if let Some(id) = damage.job {
            set_aside.damaged(id, &damage.what);
            continue;
        }
        tracing::error!(%damage, "left out of a backlog: cannot be read");
    }
}
