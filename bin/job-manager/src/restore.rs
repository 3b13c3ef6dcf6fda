//! The manager as the store has it: every job that is active, or whose result may still be asked for, and the ids of all.
//!
//! Touches nothing but a reader, so that it is the same over any store.

use crate::set_aside::{SET_ASIDE_MAX, SetAside};
use job::{Event, Jobspec, R, Seq, Source};
use manager::Manager;
use store::{CURSOR_START, Reader, Scope, StoredJob};

/// Jobs restored with one read.
const RESTORE_PAGE: usize = 500;
/// Ids of jobs read at a time: an index alone, so many.
const RESTORE_IDS: usize = 10_000;
const RESTORE_PAGE_BYTES: usize = 4 << 20;

/// What was met of active jobs, those that cannot be used counted with the others.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Met {
    /// Jobs.
    pub(crate) active: u64,
    /// Entries of those that can be read.
    pub(crate) entries: u64,
}

/// Takes up all that is stored, but for what is set aside.
/// # Errors
/// The store cannot be read, or too much of it.
pub(crate) fn jobs(
    manager: &mut Manager,
    reader: &Reader,
    newest: Seq,
    set_aside: &SetAside,
) -> Result<Met, String> {
    let met = restore(manager, reader, Scope::Active { at: newest }, set_aside)?;
    restore(manager, reader, Scope::Waitable, set_aside)?;
    make_known(manager, reader)?;
    nodes(manager, reader, newest)?;
    Ok(met)
}

/// Takes up what the resource log has after the state of the nodes in `meta`: nothing, unless that is lost.
fn nodes(manager: &mut Manager, reader: &Reader, newest: Seq) -> Result<(), String> {
    let mut after = manager.nodes().seq();
    loop {
        let page = reader
            .instance_entries(after, newest, RESTORE_PAGE)
            .map_err(|error| error.to_string())?;
        for entry in &page.entries {
            if entry.source == Source::Resource
                && let Ok(event) = Event::parse(entry.json())
            {
                manager.restore_nodes(entry.seq, &event);
            }
        }
        if page.upto >= newest || page.upto <= after {
            return Ok(());
        }
        after = page.upto;
    }
}

/// Tells the manager which jobs there are, ended ones too: a job that ended is told from one that never was.
fn make_known(manager: &mut Manager, reader: &Reader) -> Result<(), String> {
    let mut after = None;
    loop {
        let page = reader
            .owners(after, RESTORE_IDS)
            .map_err(|error| error.to_string())?;
        for (userid, id) in &page {
            manager.restore_inactive(*id, *userid);
        }
        match page.last() {
            Some((userid, id)) if page.len() == RESTORE_IDS => after = Some((*userid, *id)),
            _ => return Ok(()),
        }
    }
}

/// Applies what the store holds of these jobs. A job that cannot be applied is set aside and named in the log; it stops nobody.
fn restore(
    manager: &mut Manager,
    reader: &Reader,
    scope: Scope,
    set_aside: &SetAside,
) -> Result<Met, String> {
    let mut met = Met::default();
    let room = |added: bool| {
        if added {
            Ok(())
        } else {
            Err(format!(
                "more than {SET_ASIDE_MAX} jobs of the store cannot be read: see weir store check, then weir store recover"
            ))
        }
    };
    let mut cursor = CURSOR_START;
    // Jobs share jobspecs: the one read last is not read again.
    let mut sound = bytes::Bytes::new();
    loop {
        let page = reader
            .jobs_page(scope, cursor, RESTORE_PAGE, RESTORE_PAGE_BYTES)
            .map_err(|error| error.to_string())?;
        met.active += (page.damaged.len() + page.jobs.len()) as u64;
        for damage in &page.damaged {
            if let Some(id) = damage.job {
                room(set_aside.damaged(id, &damage.what))?;
            }
        }
        for stored in page.jobs {
            met.entries += stored.eventlog.len() as u64;
            if set_aside.contains(stored.id) {
                continue;
            }
            let events: Result<Vec<Event>, String> = stored
                .eventlog
                .iter()
                .map(|entry| Event::parse(entry.json()).map_err(|error| error.to_string()))
                .collect();
            let restored = match usable(&stored, &mut sound).and(events) {
                Ok(events) => {
                    let job = manager::StoredJob {
                        id: stored.id,
                        jobspec: stored.jobspec,
                        r: stored.r,
                        events: &events,
                    };
                    manager.restore_job(job).map_err(|error| error.to_string())
                }
                Err(error) => Err(error),
            };
            if let Err(error) = restored {
                room(set_aside.add(stored.id, Some(stored.userid), &error))?;
            }
        }
        match page.next {
            Some(next) => cursor = next,
            None => return Ok(met),
        }
    }
}

/// What goes to an engine must be what it was when the job was taken in: a jobspec that is one, an R that is one.
fn usable(stored: &StoredJob, sound: &mut bytes::Bytes) -> Result<(), String> {
    if stored.jobspec != *sound {
        let _ = Jobspec::parse(&stored.jobspec).map_err(|error| format!("its jobspec: {error}"))?;
        *sound = stored.jobspec.clone();
    }
    match &stored.r {
        Some(r) if stored.active => R::parse(r)
            .map(drop)
            .map_err(|error| format!("its R: {error}")),
        _ => Ok(()),
    }
}
